//! The content of a page, from its bytes and what is said of them: whether it is HTML, XHTML or text, and its text.
//!
//! # References
//! Fetch Living Standard, "extract a MIME type", on several types; MIME Sniffing Living Standard, section 7, on when
//! the bytes decide.

use std::path::Path;

use super::encoding::decoded;
use super::format::{is_html, is_text, is_xhtml};
use super::parsed::Content;
use super::rejected::Reason;
use super::sniffing::{Kind, is_mostly_binary, kind_of_bytes};
use super::unreadable::kind_of;

/// What is said of a page by those who sent it or keep it.
#[derive(Debug, Default)]
pub(super) struct Said {
    kind: Option<SaidKind>,
    /// The type without its parameters, to know whether another field has the same.
    essence: String,
    charset: Option<String>,
    identified: Option<SaidKind>,
    is_file: bool,
}

/// What a type of content says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SaidKind {
    Html,
    Xhtml,
    /// XML that may be XHTML, and is a text otherwise if its type is `text/xml`.
    Xml {
        is_text: bool,
    },
    Text,
    /// Nothing: the bytes decide.
    Unknown,
    /// A file to be saved, whatever it is.
    Download,
    /// No text.
    Other,
}

impl Said {
    /// What the name of a file says.
    pub(super) fn of_file(path: &Path) -> Self {
        let kind = if is_xhtml(path) {
            SaidKind::Xhtml
        } else if is_html(path) {
            SaidKind::Html
        } else if is_text(path) {
            SaidKind::Text
        } else {
            SaidKind::Unknown
        };
        Self { kind: Some(kind), is_file: true, ..Self::default() }
    }

    /// Takes a field `Content-Type` as it came. There may be several, and one may have several types.
    pub(super) fn add_type(&mut self, content_type: &str) {
        for value in outside_of_quotes(content_type, ',') {
            let mut parts = outside_of_quotes(value, ';').into_iter();
            let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            let charset = [&*essence].into_iter().chain(parts).find_map(charset_of);
            let kind = SaidKind::of(&essence);
            // What is no type says nothing, but of the encoding: `text/html,charset=utf-8`.
            if let Some(kind) = kind {
                if self.essence != essence {
                    self.charset = None;
                }
                (self.kind, self.essence) = (Some(kind), essence);
            }
            self.charset = charset.or(self.charset.take());
        }
    }

    /// Takes the field `WARC-Identified-Payload-Type`: what the archiver found by looking at the bytes.
    pub(super) fn set_identified(&mut self, content_type: &str) {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.identified = SaidKind::of(&essence);
    }

    /// Whether it may be a page of text, by what is said. To be asked when all is said.
    pub(super) fn is_page(&self) -> bool {
        !matches!(self.kind(), SaidKind::Other)
    }

    /// What the archiver has identified counts where the server has said nothing.
    fn kind(&self) -> SaidKind {
        let kind = self.kind.unwrap_or(SaidKind::Unknown);
        let is_open = matches!(kind, SaidKind::Unknown | SaidKind::Download);
        self.identified.filter(|it| is_open && *it != SaidKind::Download).unwrap_or(kind)
    }
}

impl SaidKind {
    /// What a type says, in lower case. `None` if it is none.
    fn of(essence: &str) -> Option<Self> {
        let (kind, name) = essence.split_once('/')?;
        let is_token = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token(kind) || !is_token(name) || essence == "*/*" {
            return None;
        }
        Some(match essence {
            "text/html" => Self::Html,
            "application/xhtml+xml" | "application/vnd.wap.xhtml+xml" => Self::Xhtml,
            "text/xml" => Self::Xml { is_text: true },
            "application/xml" => Self::Xml { is_text: false },
            "unknown/unknown" | "application/unknown" => Self::Unknown,
            "application/octet-stream"
            | "binary/octet-stream"
            | "application/force-download"
            | "application/x-download" => Self::Download,
            _ if kind == "text" => Self::Text,
            _ => Self::Other,
        })
    }
}

/// The parts of a field between separators that do not stand in quotes.
fn outside_of_quotes(value: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = value.split(|character| {
        is_quoted ^= character == '"';
        character == separator && !is_quoted
    });
    parts.collect()
}

/// The label of a parameter `charset`, in whatever quotes.
fn charset_of(parameter: &str) -> Option<String> {
    let (name, value) = parameter.split_once('=')?;
    let label = value.trim_matches(|it: char| it.is_whitespace() || "\"'".contains(it));
    (name.trim().eq_ignore_ascii_case("charset") && !label.is_empty()).then(|| label.to_owned())
}

/// The content of a page. `None` if it is no page of text, and nobody says that it is one.
pub(super) fn content(page: &[u8], said: &Said) -> Result<Option<Content>, Reason> {
    let found = kind_of_bytes(page);
    let kind = match (said.kind(), found) {
        (SaidKind::Html, Kind::Xhtml) if said.is_file => Kind::Xhtml,
        (SaidKind::Html, _) => Kind::Html,
        (SaidKind::Xhtml, _) => Kind::Xhtml,
        (SaidKind::Text, _) => Kind::Text,
        (SaidKind::Xml { .. }, Kind::Xhtml) => Kind::Xhtml,
        (SaidKind::Xml { is_text: true }, _) => Kind::Text,
        (SaidKind::Unknown, Kind::Xml | Kind::Binary) if said.is_file => Kind::Text,
        (SaidKind::Unknown, found) => found,
        (SaidKind::Download, found @ (Kind::Html | Kind::Xhtml)) => found,
        (SaidKind::Xml { is_text: false } | SaidKind::Download | SaidKind::Other, _) => Kind::Binary,
    };
    if matches!(kind, Kind::Xml | Kind::Binary) {
        return Ok(None);
    }
    if let Some(found) = kind_of(page) {
        return Err(Reason::NotText { found });
    }
    if is_mostly_binary(page) {
        return Err(Reason::NotText { found: "has bytes that stand in no text, such as NUL" });
    }
    let text = decoded(page, said.charset.as_deref(), kind != Kind::Text)?;
    Ok(Some(match kind {
        Kind::Html => Content::Html(text),
        Kind::Xhtml => Content::Xhtml(text),
        _ => Content::Text(text),
    }))
}

#[cfg(test)]
mod tests {
    use encoding_rs::Encoding;

    use super::*;

    const RUSSIAN: &str = "Совет порта собрался во вторник вечером, чтобы решить, как восстановить старый рыбный рынок \
        после бури, и большинство членов высказалось за железную крышу, которая стоит здесь с прошлого века.";
    const JAPANESE: &str = "港湾委員会は火曜日の夜に会合を開き、嵐のあとで古い魚市場をどのように再建するかを話し合いました。\
        多くの委員は、百年以上前からある鉄の屋根を残すことに賛成しました。";
    const CHINESE: &str = "港口委员会星期二晚上开会，讨论暴风雨之后如何重建旧鱼市场，多数委员主张保留一直在那里的铁皮屋顶，\
        邻镇一家公司提出的第二个方案打算改用玻璃屋顶。";
    const TAIWANESE: &str = "港口委員會星期二晚上開會，討論暴風雨之後如何重建舊魚市場，多數委員主張保留一直在那裡的鐵皮屋頂，\
        鄰鎮一家公司提出的第二個方案打算改用玻璃屋頂。";
    const KOREAN: &str = "항만 위원회는 화요일 저녁에 모여 폭풍이 지나간 뒤 오래된 어시장을 어떻게 다시 지을지 논의했으며, 많은 \
        위원들이 백 년 넘게 자리를 지켜 온 철제 지붕을 남기는 데 찬성했다.";
    const ARABIC: &str = "اجتمعت لجنة الميناء مساء يوم الثلاثاء لتقرر كيف يعاد بناء سوق السمك القديم بعد العاصفة، وأيد معظم \
        الأعضاء الإبقاء على السقف الحديدي الذي بقي هناك منذ القرن الماضي.";
    const GREEK: &str = "Η επιτροπή του λιμανιού συνεδρίασε την Τρίτη το βράδυ για να αποφασίσει πώς θα ξαναχτιστεί η παλιά \
        ψαραγορά μετά την καταιγίδα, και τα περισσότερα μέλη θέλησαν να μείνει η σιδερένια στέγη.";

    const TEXTS: &[(&str, &str)] = &[
        ("windows-1251", RUSSIAN),
        ("koi8-r", RUSSIAN),
        ("shift_jis", JAPANESE),
        ("euc-jp", JAPANESE),
        ("iso-2022-jp", JAPANESE),
        ("gbk", CHINESE),
        ("big5", TAIWANESE),
        ("euc-kr", KOREAN),
        ("windows-1256", ARABIC),
        ("iso-8859-7", GREEK),
    ];

    fn encoded(label: &str, text: &str) -> Vec<u8> {
        let encoding = Encoding::for_label(label.as_bytes()).expect("the label is known");
        let (bytes, _, has_errors) = encoding.encode(text);
        assert!(!has_errors, "{label} has all characters of {text}");
        bytes.into_owned()
    }

    fn page_of(head: &str, text: &[u8]) -> Vec<u8> {
        let footer = "</p><div class=footer>Copyright, terms of use, contact, <a href=/>home</a></div>";
        [format!("<!DOCTYPE html><html><head>{head}</head><body><p>").as_bytes(), text, footer.as_bytes()]
            .concat()
    }

    fn read(content_type: &str, page: &[u8]) -> Result<Option<Content>, Reason> {
        let mut said = Said::default();
        said.add_type(content_type);
        content(page, &said)
    }

    /// The HTML of a page.
    fn html(content_type: &str, page: &[u8]) -> String {
        match read(content_type, page) {
            Ok(Some(Content::Html(html))) => html,
            other => panic!("{content_type}: {other:?}"),
        }
    }

    #[test]
    fn articles_of_all_scripts_are_read_whether_their_encoding_is_said_or_not() {
        for (label, text) in TEXTS {
            let bytes = encoded(label, text);
            let declared = page_of(&format!("<meta charset={label}>"), &bytes);
            for (content_type, page) in [
                (&*format!("text/html; charset={label}"), page_of("", &bytes)),
                ("text/html", declared.clone()),
                ("", declared.clone()),
                (&*format!("text/html; charset={label}"), page_of("<meta charset=utf-8>", &bytes)),
                // Wrongly said to be UTF-8.
                ("text/html; charset=utf-8", declared.clone()),
                ("text/html; charset=utf-8", page_of("<meta charset=utf-8>", &bytes)),
                ("text/html", page_of("<meta charset=none-such>", &bytes)),
                ("text/html; charset=none-such", page_of("", &bytes)),
                ("text/html", page_of("", &bytes)),
            ] {
                assert!(html(content_type, &page).contains(text), "{label}, {content_type}");
            }
            match read("text/plain", &bytes) {
                Ok(Some(Content::Text(read))) => assert_eq!(read, *text, "{label}"),
                other => panic!("{label}: {other:?}"),
            }
        }
    }

    #[test]
    fn utf_8_is_read_whatever_it_is_said_to_be() {
        for (_, text) in TEXTS {
            for label in
                ["windows-1252", "iso-8859-1", "gbk", "shift_jis", "utf-16", "iso-2022-jp", "hz-gb-2312"]
            {
                let page = page_of(&format!("<meta charset={label}>"), text.as_bytes());
                let content_type = format!("text/html; charset={label}");
                assert!(html(&content_type, &page).contains(text), "{label}: {text}");
            }
        }
    }

    #[test]
    fn a_few_letters_in_what_is_said_are_no_proof_of_utf_8() {
        // Bytes that are "Ã©" in the encoding that is said, and "é" in UTF-8.
        assert_eq!(html("text/html; charset=windows-1252", b"<p>\xc3\xa9</p>"), "<p>\u{c3}\u{a9}</p>");
        assert_eq!(html("text/html", b"<p>\xc3\xa9</p>"), "<p>\u{e9}</p>");
    }

    #[test]
    fn utf_16_is_read_with_and_without_a_mark() {
        for (_, text) in TEXTS {
            let page =
                String::from_utf8(page_of("<meta charset=utf-16>", text.as_bytes())).expect("it is UTF-8");
            for swap in [u16::to_le_bytes, u16::to_be_bytes] {
                let bare: Vec<u8> = page.encode_utf16().flat_map(swap).collect();
                let marked = [&swap(0xfeff)[..], &bare].concat();
                for bytes in [bare, marked] {
                    for content_type in ["text/html", "text/html; charset=utf-8", ""] {
                        assert_eq!(html(content_type, &bytes), page);
                    }
                }
            }
        }
    }

    #[test]
    fn a_page_that_is_cut_at_any_byte_stays_in_its_encoding() {
        for (label, text) in TEXTS.iter().chain([("utf-8", RUSSIAN), ("utf-8", CHINESE)].iter()) {
            let bytes = encoded(label, text);
            for end in bytes.len() * 3 / 4..bytes.len() {
                let page = [&b"<!DOCTYPE html><p>"[..], &bytes[..end]].concat();
                for content_type in ["text/html".to_owned(), format!("text/html; charset={label}")] {
                    let read = html(&content_type, &page);
                    let read = read.strip_prefix("<!DOCTYPE html><p>").unwrap_or_default();
                    assert!(text.starts_with(read), "{label}, {content_type}, {end}: {read}");
                    assert!(read.chars().count() >= text.chars().count() / 2, "{label}, {end}: {read}");
                }
            }
        }
    }

    #[test]
    fn one_byte_that_does_not_fit_costs_one_character() {
        for (label, text) in [
            ("utf-8", RUSSIAN),
            ("utf-8", CHINESE),
            ("shift_jis", JAPANESE),
            ("euc-jp", JAPANESE),
            ("gbk", CHINESE),
            ("big5", TAIWANESE),
            ("euc-kr", KOREAN),
        ] {
            let article = format!("{text}\n").repeat(10);
            let bytes = [&encoded(label, &article)[..], b"\xff ", &encoded(label, text)].concat();
            for content_type in ["text/html".to_owned(), format!("text/html; charset={label}")] {
                let read = html(&content_type, &page_of("", &bytes));
                assert!(read.contains(&article) && read.matches(text).count() == 11, "{label}: {read}");
            }
        }
        let french =
            format!("{} It\u{2019}s 20 ", "Les \u{e9}l\u{e8}ves de l\u{2019}\u{e9}cole. ".repeat(12));
        let read = html("text/html", &page_of("", &[french.as_bytes(), b"\xb0"].concat()));
        assert!(read.contains(&french), "{read}");
    }

    #[test]
    fn a_text_in_two_encodings_is_not_judged_by_what_is_left_of_it() {
        let line: String = RUSSIAN.chars().take(50).collect();
        let mixed = [RUSSIAN.repeat(3).as_bytes(), b" ", &encoded("windows-1251", &line)].concat();
        for content_type in ["text/html", "text/html; charset=utf-8"] {
            let read = read(content_type, &page_of(&"<meta name=a content=b>".repeat(100), &mixed));
            assert!(matches!(read, Err(Reason::Encoding { misfits: Some(1..), .. })), "{read:?}");
        }
    }

    #[test]
    fn encodings_that_are_not_read_are_named() {
        let hz = b"<!DOCTYPE html><p>~{VPND~}</p>";
        match read("text/html; charset=hz-gb-2312", hz) {
            Err(Reason::Encoding { label, misfits: None }) => assert_eq!(label, "hz-gb-2312"),
            other => panic!("{other:?}"),
        }
        assert_eq!(html("text/html; charset=iso-2022-kr", b"<p>plain words</p>"), "<p>plain words</p>");
    }

    #[test]
    fn the_mark_comes_first_and_is_no_part_of_the_text() {
        let page = [&b"\xef\xbb\xbf<p>"[..], RUSSIAN.as_bytes()].concat();
        assert_eq!(html("text/html; charset=windows-1251", &page), format!("<p>{RUSSIAN}"));
        assert_eq!(html("", &page), format!("<p>{RUSSIAN}"));
        // An editor has set a mark before what is no UTF-8.
        let page = [&b"\xef\xbb\xbf<p>"[..], &encoded("windows-1251", RUSSIAN)].concat();
        assert_eq!(html("text/html; charset=windows-1251", &page), format!("<p>{RUSSIAN}"));
        assert_eq!(html("text/html", b"\xef\xbb\xbf"), "");
        assert_eq!(html("text/html", b"\xff\xfe"), "");
        assert_eq!(html("text/html", b""), "");
    }

    #[test]
    fn letters_of_windows_1252_are_guessed_at_the_end_of_a_page_too() {
        assert_eq!(html("text/html", b"<p>un caf\xe9"), "<p>un caf\u{e9}");
        // Quotation marks of windows are characters of control in what is said.
        let page = page_of(
            "",
            &encoded(
                "windows-1250",
                "Za\u{17c}\u{f3}\u{142}\u{107} g\u{119}\u{15b}l\u{105} ja\u{17a}\u{144}, \
            \u{201e}m\u{f3}wi\u{201d} \u{17c}o\u{142}nierz, kt\u{f3}ry wr\u{f3}ci\u{142} z wojny, i s\u{142}ysza\u{142}o to wielu ludzi.",
            ),
        );
        let read = html("text/html; charset=iso-8859-2", &page);
        assert!(!read.chars().any(|it| ('\u{80}'..'\u{a0}').contains(&it)), "{read}");
    }

    #[test]
    fn types_are_read_in_whatever_form_they_come() {
        let page = b"<!DOCTYPE html><p>\xe4";
        for (fields, expected) in [
            (&["text/html; charset=iso-8859-7"][..], "\u{3b4}"),
            (&["TEXT/HTML;CHARSET='ISO-8859-7'"], "\u{3b4}"),
            (&["text/html ; charset = \"iso-8859-7\" ; a=b"], "\u{3b4}"),
            (&["text/html; a=\"b, text/plain; c\"; charset=iso-8859-7"], "\u{3b4}"),
            (&["text/html,charset=iso-8859-7"], "\u{3b4}"),
            (&["text/html;charset=iso-8859-7,text/html"], "\u{3b4}"),
            (&["text/html; charset=iso-8859-7", "text/html"], "\u{3b4}"),
            (&["text/html; charset=iso-8859-7", "*/*"], "\u{3b4}"),
            (&["text/plain", "text/html; charset=iso-8859-7"], "\u{3b4}"),
            (&["html; charset=iso-8859-7"], "\u{3b4}"),
            (&["text/html; charset"], "\u{e4}"),
            (&["text/html;;; charset=; charset=iso-8859-7"], "\u{3b4}"),
            (&[], "\u{e4}"),
            (&[""], "\u{e4}"),
            (&["unknown/unknown"], "\u{e4}"),
            (&["application/octet-stream"], "\u{e4}"),
        ] {
            let mut said = Said::default();
            fields.iter().for_each(|it| said.add_type(it));
            assert!(said.is_page(), "{fields:?}");
            let read = content(page, &said).expect("the page can be read");
            assert_eq!(read, Some(Content::Html(format!("<!DOCTYPE html><p>{expected}"))), "{fields:?}");
        }
    }

    #[test]
    fn the_bytes_decide_where_no_type_is_said() {
        let xhtml = "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>";
        let html = "<!DOCTYPE html>";
        let text = |it: &str| Some(Content::Text(it.to_owned()));
        for (said, page, expected) in [
            ("", "some words", text("some words")),
            ("", "<?xml version='1.0'?><rss>", None),
            ("", "a\0b\0\0\0\0\0\0", None),
            ("", xhtml, Some(Content::Xhtml(xhtml.to_owned()))),
            ("text/html", xhtml, Some(Content::Html(xhtml.to_owned()))),
            ("application/xml", xhtml, Some(Content::Xhtml(xhtml.to_owned()))),
            ("application/xml", "<rss>", None),
            ("text/xml", "<rss>", text("<rss>")),
            ("application/xhtml+xml", html, Some(Content::Xhtml(html.to_owned()))),
            ("text/plain", html, text(html)),
            ("application/octet-stream", "some words", None),
            ("image/png", html, None),
            ("application/json", "{}", None),
        ] {
            assert_eq!(read(said, page.as_bytes()).expect("it can be read"), expected, "{said}: {page}");
        }
        let mut said = Said::default();
        said.set_identified("image/png");
        assert!(!said.is_page());
        said.set_identified("text/html");
        assert_eq!(
            content(b"words", &said).expect("it can be read"),
            Some(Content::Html("words".to_owned()))
        );
        said.add_type("text/plain");
        assert_eq!(content(b"words", &said).expect("it can be read"), text("words"));
    }

    #[test]
    fn names_tell_plain_texts_and_pages_and_the_bytes_the_rest() {
        let of = |name: &str, page: &str| {
            content(page.as_bytes(), &Said::of_file(Path::new(name)))
                .expect("it can be read")
                .expect("it is text")
        };
        let (html, xhtml) = ("<!DOCTYPE html><p>", "<?xml version='1.0'?><html>");
        assert_eq!(of("index.php?id=3", html), Content::Html(html.to_owned()));
        assert_eq!(of("-", html), Content::Html(html.to_owned()));
        assert_eq!(of("a.html", "words"), Content::Html("words".to_owned()));
        assert_eq!(of("a.html", xhtml), Content::Xhtml(xhtml.to_owned()));
        assert_eq!(of("a.xhtml", html), Content::Xhtml(html.to_owned()));
        assert_eq!(of("a.txt", html), Content::Text(html.to_owned()));
        assert_eq!(of("README.md", "<p align=center>"), Content::Text("<p align=center>".to_owned()));
        assert_eq!(of("feed", "<rss>"), Content::Text("<rss>".to_owned()));
    }

    #[test]
    fn binary_content_that_is_said_to_be_text_is_refused_by_name() {
        for (bytes, name) in [
            (&b"%PDF-1.7\n%\xe2\xe3"[..], "PDF"),
            (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "PNG"),
            (b"PK\x03\x04\x14\0\0\0", "zip"),
            (b"\x1f\x8b\x08\0\0\0", "gzip"),
            (b"words\0\x01\x02\0\0words", "NUL"),
        ] {
            for said in ["text/html", "text/plain; charset=utf-8", "text/css"] {
                let read = read(said, bytes);
                assert!(matches!(&read, Err(Reason::NotText { found }) if found.contains(name)), "{read:?}");
            }
        }
        assert!(html("text/html", &page_of("\0", b"words")).contains("words"));
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        let labels =
            ["", "utf-8", "utf-16", "gb18030", "iso-2022-jp", "hz-gb-2312", "x-user-defined", "koi8-u"];
        for length in 0..600 {
            let any: Vec<u8> = (0..length).map(|_| random()).collect();
            let printable: Vec<u8> = any.iter().map(|byte| byte | 0x80).collect();
            let marked = [&b"\xff\xfe"[..], &any].concat();
            for bytes in [any, printable, marked] {
                let label = labels[length % labels.len()];
                _ = read(&format!("text/html; charset={label}"), &bytes);
                _ = content(&bytes, &Said::of_file(Path::new("a")));
            }
        }
    }
}
