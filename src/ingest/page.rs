//! The content of a page, from its bytes and what is said of them: whether it is HTML, XHTML or text, and its text.
//!
//! # References
//! Fetch Living Standard, "extract a MIME type", on several types; MIME Sniffing Living Standard, section 4.4, on
//! what a MIME type is, and section 7, on when the bytes decide.

use std::path::Path;

use super::encoding::{decoded, is_wide_text};
use super::format::{Kind, has_html_root, is_mostly_binary, kind_by_name, kind_of_bytes};
use super::parsed::Content;
use super::rejected::Reason;
use super::unreadable::kind_of;

/// What is said of a page by those who sent it or keep it.
#[derive(Debug, Default)]
pub(super) struct Said {
    kind: SaidKind,
    /// The type without its parameters, to know whether another field has the same.
    essence: String,
    charset: Option<String>,
    identified: Option<SaidKind>,
    is_file: bool,
}

/// What a type of content says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum SaidKind {
    Html,
    Xhtml,
    /// XML that may be XHTML, and is a text otherwise if its type is `text/xml`.
    Xml {
        is_text: bool,
    },
    Text,
    /// Nothing: the bytes decide.
    #[default]
    Unknown,
    /// A file to be saved, whatever it is.
    Download,
    /// No text.
    Other,
}

impl Said {
    /// What the name of a file says.
    pub(super) fn from_name(path: &Path) -> Self {
        let kind = match kind_by_name(path) {
            Some(Kind::Xhtml) => SaidKind::Xhtml,
            Some(Kind::Html) => SaidKind::Html,
            Some(_) => SaidKind::Text,
            None => SaidKind::Unknown,
        };
        Self {
            kind,
            is_file: true,
            ..Self::default()
        }
    }

    /// That it is HTML, and nothing else.
    pub(super) fn html() -> Self {
        Self {
            kind: SaidKind::Html,
            ..Self::default()
        }
    }

    /// Takes a field `Content-Type` as it came. There may be several, and one may have several types.
    pub(super) fn add_type(&mut self, content_type: &str) {
        /// A longer one is none.
        const MOST_BYTES: usize = 64 << 10;
        if content_type.len() > MOST_BYTES {
            return;
        }
        for value in outside_of_quotes(content_type, ',') {
            let mut parts = outside_of_quotes(value, ';').into_iter();
            let first = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            // Browsers end a type at a space too: `text/html charset=utf-8`.
            let (essence, behind) = match first.split_once(|c: char| c.is_ascii_whitespace()) {
                Some((essence, behind)) if essence.contains('/') => (essence, behind.trim()),
                _ => (&*first, &*first),
            };
            let essence = essence.to_owned();
            let charset = [behind].into_iter().chain(parts).find_map(charset_of);
            let kind = SaidKind::parse(&essence);
            // What is no type says nothing, but of the encoding: `text/html,charset=utf-8`.
            if let Some(kind) = kind {
                if self.essence != essence {
                    self.charset = None;
                }
                self.kind = kind;
                self.essence = essence;
            }
            self.charset = charset.or(self.charset.take());
        }
    }

    /// Takes the field `WARC-Identified-Payload-Type`: what the archiver found by looking at the bytes.
    pub(super) fn set_identified(&mut self, content_type: &str) {
        let essence = content_type
            .split(';')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        self.identified = SaidKind::parse(&essence);
    }

    /// Whether it may be a page of text, by what is said. To be asked when all is said.
    pub(super) fn is_page(&self) -> bool {
        self.kind() != SaidKind::Other
    }

    /// What the archiver has identified counts where the server has said nothing.
    fn kind(&self) -> SaidKind {
        let is_open = matches!(self.kind, SaidKind::Unknown | SaidKind::Download);
        match self.identified {
            Some(identified) if is_open && identified != SaidKind::Download => identified,
            _ => self.kind,
        }
    }
}

impl SaidKind {
    /// What a type says, in lower case. `None` if it is none.
    fn parse(essence: &str) -> Option<Self> {
        let (kind, name) = essence.split_once('/')?;
        if !is_token(kind.as_bytes()) || !is_token(name.as_bytes()) || essence == "*/*" {
            return None;
        }
        Some(match essence {
            "text/html" => Self::Html,
            // An answer about a name of the network, as Heritrix keeps it.
            "text/dns" => Self::Other,
            "application/xhtml+xml" | "application/vnd.wap.xhtml+xml" => Self::Xhtml,
            "text/xml" => Self::Xml { is_text: true },
            "application/xml" => Self::Xml { is_text: false },
            "unknown/unknown" | "application/unknown" => Self::Unknown,
            // Servers that mean a page.
            "application/html" | "application/xhtml" => Self::Unknown,
            "application/octet-stream"
            | "binary/octet-stream"
            | "application/force-download"
            | "application/x-download" => Self::Download,
            _ if kind == "text" && is_plain(name) => Self::Text,
            // A page, or a program that writes one, or what nobody knows.
            _ if kind == "text" => Self::Unknown,
            _ => Self::Other,
        })
    }
}

/// Whether texts of this subtype are no pages, even if they begin as one: their tags are to be read.
fn is_plain(subtype: &str) -> bool {
    const PLAIN: &str = "plain css csv markdown javascript ecmascript jscript typescript coffeescript json jsx \
                         less calendar vcard vtt rtf richtext enriched troff uri-list tab-separated-values \
                         cache-manifest";
    let is_own = subtype.starts_with("x-") && !subtype.contains("html");
    PLAIN.split(' ').any(|plain| plain == subtype) || is_own || subtype.starts_with("vnd.")
}

/// Whether a word may be the name of a field or a half of a type (RFC 9110, 5.6.2). In quotes or brackets is none.
pub(super) fn is_token(word: &[u8]) -> bool {
    let may_stand = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !word.is_empty() && word.iter().all(may_stand)
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
    let label = value.trim_matches(|c: char| c.is_whitespace() || "\"'".contains(c));
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
        (SaidKind::Xml { .. }, _) if has_html_root(page) => Kind::Xhtml,
        (SaidKind::Xml { is_text: true }, _) => Kind::Text,
        (SaidKind::Unknown, Kind::Xml | Kind::Binary) if said.is_file => Kind::Text,
        (SaidKind::Unknown, found) => found,
        (SaidKind::Download, found @ (Kind::Html | Kind::Xhtml)) => found,
        (SaidKind::Xml { is_text: false } | SaidKind::Download | SaidKind::Other, _) => {
            Kind::Binary
        }
    };
    if matches!(kind, Kind::Xml | Kind::Binary) {
        return Ok(None);
    }
    let text = text_of(page, said.charset.as_deref(), kind != Kind::Text)?;
    Ok(Some(match kind {
        // To browsers, an XML declaration says nothing there. It would make a page one of XHTML.
        Kind::Html if said.essence == "text/html" => Content::Html(without_declaration(text)),
        Kind::Html => Content::Html(text),
        Kind::Xhtml => Content::Xhtml(text),
        _ => Content::Text(text),
    }))
}

/// A page without an XML declaration at its beginning.
fn without_declaration(page: String) -> String {
    let beginning = page.trim_start_matches('\u{feff}').trim_ascii_start();
    match beginning
        .strip_prefix("<?xml")
        .and_then(|rest| rest.split_once('>'))
    {
        Some((_, rest)) => rest.to_owned(),
        None => page,
    }
}

/// The text of the bytes of an HTML page, in the encoding that the bytes, `charset` or the page itself tell: the label
/// that a server sends, such as `windows-1251`. Without any, it is guessed.
///
/// # Errors
///
/// [`Reason::NotText`] for the bytes of an image, a PDF file and the like. [`Reason::Encoding`] if they are no text in
/// any encoding that comes into question.
///
/// # Cost
///
/// A pass over the bytes for each encoding that is tried. Most pages need one.
pub fn decode_page(page: &[u8], charset: Option<&str>) -> Result<String, Reason> {
    text_of(page, charset, true)
}

/// The text of bytes that are said to be text. `declares`: they may say their encoding, as HTML and XML do.
fn text_of(page: &[u8], charset: Option<&str>, declares: bool) -> Result<String, Reason> {
    if let Some(found) = kind_of(page) {
        return Err(Reason::NotText { found });
    }
    if is_mostly_binary(page) && !is_wide_text(page, charset) {
        return Err(Reason::NotText {
            found: "has bytes that stand in no text, such as NUL",
        });
    }
    decoded(page, charset, declares)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(content_type: &str, page: &[u8]) -> Result<Option<Content>, Reason> {
        let mut said = Said::default();
        said.add_type(content_type);
        content(page, &said)
    }

    #[test]
    fn types_are_read_in_whatever_form_they_come() {
        let page = b"<!DOCTYPE html><p>\xe4";
        for (fields, expected) in [
            (&["text/html; charset=iso-8859-7"][..], "\u{3b4}"),
            (&["TEXT/HTML;CHARSET='ISO-8859-7'"], "\u{3b4}"),
            (&["text/html ; charset = \"iso-8859-7\" ; a=b"], "\u{3b4}"),
            (
                &["text/html; a=\"b, text/plain; c\"; charset=iso-8859-7"],
                "\u{3b4}",
            ),
            (&["text/html,charset=iso-8859-7"], "\u{3b4}"),
            (&["text/html;charset=iso-8859-7,text/html"], "\u{3b4}"),
            (&["text/html; charset=iso-8859-7", "text/html"], "\u{3b4}"),
            (&["text/html; charset=iso-8859-7", "*/*"], "\u{3b4}"),
            (&["text/plain", "text/html; charset=iso-8859-7"], "\u{3b4}"),
            (&["html; charset=iso-8859-7"], "\u{3b4}"),
            (&["text/html; charset"], "\u{e4}"),
            // What is no type says nothing of it, and the bytes decide.
            (&["\"text/html\"; charset=iso-8859-7"], "\u{3b4}"),
            (&["\"text/html; charset=iso-8859-7\""], "\u{3b4}"),
            (&["Content-Type:text/html"], "\u{e4}"),
            (&["Content-Type: text/html"], "\u{e4}"),
            (&["<text/html>"], "\u{e4}"),
            (&["[image/png]", "text/html"], "\u{e4}"),
            (&["text/html/utf-8"], "\u{e4}"),
            (&["text/"], "\u{e4}"),
            (&["text/html;;; charset=; charset=iso-8859-7"], "\u{3b4}"),
            (&[], "\u{e4}"),
            (&[""], "\u{e4}"),
            (&["unknown/unknown"], "\u{e4}"),
            (&["application/octet-stream"], "\u{e4}"),
            (&["text/htm; charset=iso-8859-7"], "\u{3b4}"),
            (&["Text/X-Server-Parsed-HTML"], "\u{e4}"),
            (&["application/xhtml"], "\u{e4}"),
        ] {
            let mut said = Said::default();
            fields.iter().for_each(|field| said.add_type(field));
            assert!(said.is_page(), "{fields:?}");
            let read = content(page, &said).expect("the page can be read");
            assert_eq!(
                read,
                Some(Content::Html(format!("<!DOCTYPE html><p>{expected}"))),
                "{fields:?}"
            );
        }
    }

    #[test]
    fn the_bytes_decide_where_no_type_is_said() {
        let xhtml = "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>";
        let html = "<!DOCTYPE html>";
        let text = |text: &str| Some(Content::Text(text.to_owned()));
        for (said, page, expected) in [
            ("", "some words", text("some words")),
            ("", "<?xml version='1.0'?><rss>", None),
            ("", "a\0b\0\0\0\0\0\0", None),
            ("", xhtml, Some(Content::Xhtml(xhtml.to_owned()))),
            (
                "text/html",
                xhtml,
                Some(Content::Html(
                    "<html xmlns='http://www.w3.org/1999/xhtml'>".to_owned(),
                )),
            ),
            (
                "application/xml",
                xhtml,
                Some(Content::Xhtml(xhtml.to_owned())),
            ),
            (
                "application/xml",
                "<html xmlns='http://www.w3.org/1999/xhtml'>",
                Some(Content::Xhtml(
                    "<html xmlns='http://www.w3.org/1999/xhtml'>".to_owned(),
                )),
            ),
            ("text/xml", html, Some(Content::Xhtml(html.to_owned()))),
            (
                "application/xml",
                "<!-- a --><HTML>",
                Some(Content::Xhtml("<!-- a --><HTML>".to_owned())),
            ),
            ("application/xml", "<rss>", None),
            ("application/xml", "<p>html", None),
            ("text/xml", "<rss>", text("<rss>")),
            (
                "application/xhtml+xml",
                html,
                Some(Content::Xhtml(html.to_owned())),
            ),
            ("text/plain", html, text(html)),
            ("application/octet-stream", "some words", None),
            ("text/htm", "some words", text("some words")),
            ("text/xhtml", xhtml, Some(Content::Xhtml(xhtml.to_owned()))),
            ("application/html", "some words", text("some words")),
            ("text/php", "a\0b\0\0\0\0\0\0", None),
            ("image/png", html, None),
            ("application/json", "{}", None),
        ] {
            assert_eq!(
                read(said, page.as_bytes()).expect("it can be read"),
                expected,
                "{said}: {page}"
            );
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
        assert_eq!(
            content(b"words", &said).expect("it can be read"),
            text("words")
        );
    }

    #[test]
    fn names_tell_plain_texts_and_pages_and_the_bytes_the_rest() {
        let of = |name: &str, page: &str| {
            content(page.as_bytes(), &Said::from_name(Path::new(name)))
                .expect("it can be read")
                .expect("it is text")
        };
        let html = "<!DOCTYPE html><p>";
        let xhtml = "<?xml version='1.0'?><html>";
        assert_eq!(of("index.php?id=3", html), Content::Html(html.to_owned()));
        assert_eq!(of("-", html), Content::Html(html.to_owned()));
        assert_eq!(of("a.html", "words"), Content::Html("words".to_owned()));
        assert_eq!(of("a.html", xhtml), Content::Xhtml(xhtml.to_owned()));
        assert_eq!(of("a.xhtml", html), Content::Xhtml(html.to_owned()));
        assert_eq!(of("a.txt", html), Content::Text(html.to_owned()));
        assert_eq!(
            of("README.md", "<p align=center>"),
            Content::Text("<p align=center>".to_owned())
        );
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
                assert!(
                    matches!(&read, Err(Reason::NotText { found }) if found.contains(name)),
                    "{read:?}"
                );
            }
            let page = decode_page(bytes, Some("utf-8"));
            assert!(matches!(page, Err(Reason::NotText { .. })), "{page:?}");
        }
        let stray = read(
            "text/html",
            b"<p>words\0 and more words, of which the page has so many that one NUL is none</p>",
        );
        assert!(matches!(stray, Ok(Some(Content::Html(_)))), "{stray:?}");
    }
}
