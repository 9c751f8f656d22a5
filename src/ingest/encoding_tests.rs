//! Tests of the encodings of pages: articles of many scripts, whose encoding is said rightly, wrongly or not.

use std::path::Path;

use encoding_rs::Encoding;

use super::page::{Said, content};
use super::parsed::Content;
use super::rejected::Reason;

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
    [
        format!("<!DOCTYPE html><html><head>{head}</head><body><p>").as_bytes(),
        text,
        footer.as_bytes(),
    ]
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
            (
                &*format!("text/html; charset={label}"),
                page_of("<meta charset=utf-8>", &bytes),
            ),
            // Wrongly said to be UTF-8.
            ("text/html; charset=utf-8", declared.clone()),
            (
                "text/html; charset=utf-8",
                page_of("<meta charset=utf-8>", &bytes),
            ),
            ("text/html", page_of("<meta charset=none-such>", &bytes)),
            ("text/html; charset=none-such", page_of("", &bytes)),
            ("text/html", page_of("", &bytes)),
        ] {
            assert!(
                html(content_type, &page).contains(text),
                "{label}, {content_type}"
            );
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
        for label in [
            "windows-1252",
            "iso-8859-1",
            "gbk",
            "shift_jis",
            "utf-16",
            "iso-2022-jp",
            "hz-gb-2312",
        ] {
            let page = page_of(&format!("<meta charset={label}>"), text.as_bytes());
            let content_type = format!("text/html; charset={label}");
            assert!(html(&content_type, &page).contains(text), "{label}: {text}");
        }
    }
}

#[test]
fn a_few_letters_in_what_is_said_are_no_proof_of_utf_8() {
    // Bytes that are "Ã©" in the encoding that is said, and "é" in UTF-8.
    assert_eq!(
        html("text/html; charset=windows-1252", b"<p>\xc3\xa9</p>"),
        "<p>\u{c3}\u{a9}</p>"
    );
    assert_eq!(html("text/html", b"<p>\xc3\xa9</p>"), "<p>\u{e9}</p>");
}

/// A few letters were read as two or three each.
#[test]
fn short_texts_in_utf_8_are_read_whatever_servers_say_of_all_pages() {
    let servers = [
        "iso-8859-1",
        "iso-8859-15",
        "us-ascii",
        "windows-1251",
        "gbk",
        "big5",
        "euc-kr",
    ];
    for text in [
        "Die Führung beginnt um zehn",
        "Führung für alle, die mögen",
        "the museum’s garden",
        "Да",
        "東",
        "ĳ",
    ] {
        for server in servers {
            let page = page_of("<meta charset=utf-8>", text.as_bytes());
            let read = html(&format!("text/html; charset={server}"), &page);
            assert!(read.contains(text), "{server}: {read}");
        }
        // Without what the page says, two letters are enough if another reading of them is of no language.
        if text.len() - text.chars().count() > 1 {
            for label in ["iso-8859-1", "iso-8859-15"] {
                for (server, meta) in [(label, ""), ("", label)] {
                    let page = page_of(&format!("<meta charset={meta}>"), text.as_bytes());
                    let read = html(&format!("text/html; charset={server}"), &page);
                    assert!(read.contains(text), "{server}, {meta}: {read}");
                }
            }
        }
    }
    // What is not UTF-8 throughout is no UTF-8, whatever the page says.
    let page = page_of("<meta charset=utf-8>", b"caf\xc3\xa9 d\xe9j\xe0 vu");
    let read = html("text/html; charset=iso-8859-1", &page);
    assert!(read.contains("d\u{e9}j\u{e0} vu"), "{read}");
}

#[test]
fn utf_16_is_read_with_and_without_a_mark() {
    for (_, text) in TEXTS {
        let page = String::from_utf8(page_of("<meta charset=utf-16>", text.as_bytes()))
            .expect("it is UTF-8");
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
    for (label, text) in TEXTS
        .iter()
        .chain([("utf-8", RUSSIAN), ("utf-8", CHINESE)].iter())
    {
        let bytes = encoded(label, text);
        for end in bytes.len() * 3 / 4..bytes.len() {
            let page = [&b"<!DOCTYPE html><p>"[..], &bytes[..end]].concat();
            for content_type in [
                "text/html".to_owned(),
                format!("text/html; charset={label}"),
            ] {
                let read = html(&content_type, &page);
                let read = read.strip_prefix("<!DOCTYPE html><p>").unwrap_or_default();
                assert!(
                    text.starts_with(read),
                    "{label}, {content_type}, {end}: {read}"
                );
                assert!(
                    read.chars().count() >= text.chars().count() / 2,
                    "{label}, {end}: {read}"
                );
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
        let bytes = [
            &encoded(label, &article)[..],
            b"\xff ",
            &encoded(label, text),
        ]
        .concat();
        for content_type in [
            "text/html".to_owned(),
            format!("text/html; charset={label}"),
        ] {
            let read = html(&content_type, &page_of("", &bytes));
            assert!(
                read.contains(&article) && read.matches(text).count() == 11,
                "{label}: {read}"
            );
        }
    }
    let french = format!(
        "{} It\u{2019}s 20 ",
        "Les \u{e9}l\u{e8}ves de l\u{2019}\u{e9}cole. ".repeat(12)
    );
    let read = html(
        "text/html",
        &page_of("", &[french.as_bytes(), b"\xb0"].concat()),
    );
    assert!(read.contains(&french), "{read}");
}

#[test]
fn a_text_in_two_encodings_is_not_judged_by_what_is_left_of_it() {
    let line: String = RUSSIAN.chars().take(50).collect();
    let mixed = [
        RUSSIAN.repeat(3).as_bytes(),
        b" ",
        &encoded("windows-1251", &line),
    ]
    .concat();
    for content_type in ["text/html", "text/html; charset=utf-8"] {
        let read = read(
            content_type,
            &page_of(&"<meta name=a content=b>".repeat(100), &mixed),
        );
        assert!(
            matches!(
                read,
                Err(Reason::Encoding {
                    misfits: Some(1..),
                    ..
                })
            ),
            "{read:?}"
        );
    }
}

#[test]
fn encodings_that_are_not_read_are_named() {
    let hz = b"<!DOCTYPE html><p>~{VPND~}</p>";
    match read("text/html; charset=hz-gb-2312", hz) {
        Err(Reason::Encoding {
            label,
            misfits: None,
        }) => assert_eq!(label, "hz-gb-2312"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        html("text/html; charset=iso-2022-kr", b"<p>plain words</p>"),
        "<p>plain words</p>"
    );
    // The page says it in a tag, or in its declaration.
    for (page, said) in [
        ("<meta charset=' HZ-GB-2312 '>", "hz-gb-2312"),
        (
            "<meta http-equiv=content-type content='a/b; charset=iso-2022-kr'>",
            "iso-2022-kr",
        ),
        (
            "<?xml version='1.0' encoding='ISO-2022-KR'?>",
            "iso-2022-kr",
        ),
    ] {
        let page = [page.as_bytes(), hz].concat();
        match read("text/html", &page) {
            Err(Reason::Encoding { label, .. }) => assert_eq!(label, said),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn the_mark_comes_first_and_is_no_part_of_the_text() {
    let page = [&b"\xef\xbb\xbf<p>"[..], RUSSIAN.as_bytes()].concat();
    assert_eq!(
        html("text/html; charset=windows-1251", &page),
        format!("<p>{RUSSIAN}")
    );
    assert_eq!(html("", &page), format!("<p>{RUSSIAN}"));
    // An editor has set a mark before what is no UTF-8.
    let page = [&b"\xef\xbb\xbf<p>"[..], &encoded("windows-1251", RUSSIAN)].concat();
    assert_eq!(
        html("text/html; charset=windows-1251", &page),
        format!("<p>{RUSSIAN}")
    );
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
    assert!(
        !read.chars().any(|it| ('\u{80}'..'\u{a0}').contains(&it)),
        "{read}"
    );
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
    let labels = [
        "",
        "utf-8",
        "utf-16",
        "gb18030",
        "iso-2022-jp",
        "hz-gb-2312",
        "x-user-defined",
        "koi8-u",
    ];
    for length in 0..600 {
        let any: Vec<u8> = (0..length).map(|_| random()).collect();
        let printable: Vec<u8> = any.iter().map(|byte| byte | 0x80).collect();
        let marked = [&b"\xff\xfe"[..], &any].concat();
        for bytes in [any, printable, marked] {
            let label = labels[length % labels.len()];
            _ = read(&format!("text/html; charset={label}"), &bytes);
            _ = content(&bytes, &Said::from_name(Path::new("a")));
        }
    }
}

/// A real page of English that is said to be UTF-8: no encoding of several bytes that these might be fits.
#[test]
fn a_few_odd_bytes_in_a_long_page_do_not_cost_the_page() {
    let words =
        "words of an agreement that has no other characters than those of ASCII. ".repeat(100);
    let page = page_of(
        "",
        &[
            words.as_bytes(),
            b"\x96 see \xa7\xa71280 et seq. ",
            words.as_bytes(),
        ]
        .concat(),
    );
    assert_eq!(
        html("text/html; charset=utf-8", &page)
            .matches("an agreement")
            .count(),
        200
    );
}

/// Texts of a paragraph were read in another encoding, or rejected, where one byte was bad.
#[test]
fn a_bad_byte_costs_one_character_however_short_the_page_is() {
    let japanese =
        "駅前の図書館は来月から夜九時まで開館し、学生や勤め帰りの人が本を借りられるようになる。";
    let chinese = "图书馆下个月起开放到晚上九点，学生和下班的人都可以借书。";
    let german = "Über den Fluß führt eine schöne alte Brücke, und am anderen Ufer stehen Häuser mit roten Dächern und \
                  kleinen Gärten, in denen im Sommer viele Blumen wachsen.";
    for (label, text) in [
        ("utf-8", german),
        ("utf-8", japanese),
        ("shift_jis", japanese),
        ("euc-jp", japanese),
        ("gbk", chinese),
        ("utf-8", chinese),
    ] {
        let bytes = [&b"\xff "[..], &encoded(label, text)].concat();
        let page = page_of("", &bytes);
        let read = html(&format!("text/html; charset={label}"), &page);
        assert!(read.contains(text), "{label}: {read}");
    }
    // Each pair of halves is one character that somebody has encoded in two parts.
    let halves = [german.as_bytes(), b" \xed\xa0\xbd\xed\xb8\x80"].concat();
    assert!(html("text/html", &page_of("", &halves)).contains(german));
    // Words that were encoded one by one, and a byte that is none of it.
    let words: Vec<u8> = japanese
        .split('、')
        .flat_map(|word| encoded("iso-2022-jp", word))
        .chain(*b"\xff")
        .collect();
    let read = html("text/html; charset=iso-2022-jp", &page_of("", &words));
    assert!(read.contains(&japanese.replace('、', "")), "{read}");
}

/// Such pages were rejected.
#[test]
fn lines_in_another_encoding_are_read_beside_utf_8() {
    for (label, text) in TEXTS.iter().filter(|(label, _)| *label != "iso-2022-jp") {
        for own in [6, 10, 30] {
            let mut page = format!("<p>{text}</p>\n").repeat(own).into_bytes();
            page.extend(page_of("", &encoded(label, text)));
            let read = html("text/html; charset=utf-8", &page);
            assert_eq!(read.matches(text).count(), own + 1, "{label}, {own}");
        }
    }
}

/// Servers name the encoding of Western Europe without having looked at the page.
#[test]
fn what_the_letters_and_the_page_say_counts_more_than_the_default_of_a_server() {
    for (label, text) in TEXTS {
        let page = page_of(&format!("<meta charset={label}>"), &encoded(label, text));
        for server in ["iso-8859-1", "windows-1252"] {
            let read = html(&format!("text/html; charset={server}"), &page);
            assert!(read.contains(text), "{label}, {server}: {read}");
        }
    }
    let german = "Der Rat hat beschlossen, die alte Brücke für ein Jahr zu schließen.";
    let page = page_of(
        "<meta charset=windows-1251>",
        &encoded("windows-1252", german),
    );
    assert!(html("text/html; charset=iso-8859-1", &page).contains("Brücke"));
}

/// What stopped being decoded for its many errors was taken for the whole text.
#[test]
fn no_text_ends_where_it_is_found_not_to_fit() {
    let words = "駅前の図書館は来月から夜九時まで開館し、学生や勤め帰りの人が本を借りられる";
    for (label, bad) in [("shift_jis", &b"\xff"[..]), ("iso-2022-jp", b"\xa0")] {
        let part = [&encoded(label, words), bad].concat();
        for count in [2, 100] {
            let page = page_of("", &[&part.repeat(count)[..], b"<p>the end"].concat());
            let said = format!("text/html; charset={label}");
            match read(&said, &page) {
                Ok(Some(Content::Html(text))) => {
                    assert!(text.contains("the end"), "{label}: {text}");
                }
                Err(Reason::Encoding { .. }) => {}
                other => panic!("{other:?}"),
            }
        }
    }
    // Escapes that are none of ISO-2022-JP are no escapes, and five in a row are no two.
    for bytes in [
        &b"\x1b\x1b\x1b\x1b\x1b words of a terminal"[..],
        b"\x1b[m\x1b[1m words of a terminal",
    ] {
        assert!(html("text/html", bytes).contains("words of a terminal"));
    }
}
