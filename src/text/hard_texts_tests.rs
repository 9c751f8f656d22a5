//! What texts get that no author had in mind: every scheme and both sizes of sketches give them a defined answer, the
//! same each time, the same in HTML, and in time linear in their length.

use std::time::{Duration, Instant};

use super::{Fingerprinter, Scheme};
use crate::sketch::SketchSize;

/// A page that shows a text.
fn page(text: &str) -> String {
    // Browsers drop NUL, and so do we. In a text, NUL parts words.
    let text = text.replace('\0', " ");
    let escaped = text
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    format!("<!DOCTYPE html><title>t</title><body><p>{escaped}</p>")
}

/// Asserts that a text has so many tokens, so that it is judged or too short, and so many distinct shingles. If these
/// are none, the text has too few different tokens.
fn assert_judged(name: &str, text: &str, tokens: usize, shingles: u32) {
    let html = page(text);
    for fingerprinter in Fingerprinter::all() {
        let what = format!("{}: {name}", fingerprinter.scheme());
        let is_judged = tokens >= fingerprinter.min_tokens() && shingles > 0;
        let fingerprint = fingerprinter.fingerprint(text);
        assert_eq!(fingerprint.is_some(), is_judged, "{what}");
        for size in [SketchSize::Bytes16, SketchSize::Bytes32] {
            let fingerprinter = fingerprinter.with_sketch_size(size);
            let judged = fingerprinter.fingerprint_and_sketch(text);
            assert_eq!(
                judged.map(|(fingerprint, _)| fingerprint),
                fingerprint,
                "{what}"
            );
            let counted = judged.and_then(|(_, sketch)| Some(sketch?.shingles()));
            assert_eq!(counted, is_judged.then_some(shingles), "{what}");
            assert_eq!(
                fingerprinter.fingerprint_and_sketch(text),
                judged,
                "{what}, again"
            );
            assert_eq!(
                fingerprinter.fingerprint_and_sketch_html(&html),
                judged,
                "{what}, in HTML"
            );
        }
    }
}

/// Different Han characters without a space, in an order without a pattern.
fn chinese(characters: usize) -> String {
    let mut state = 7u64;
    let next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from_u32(0x4e00 + (state >> 33) as u32 % 20_000).unwrap_or('一')
    };
    std::iter::repeat_with(next).take(characters).collect()
}

#[test]
fn odd_texts_are_judged_or_too_short() {
    let eight = "one two three four five six seven eight";
    for (name, text, tokens, shingles) in [
        ("nothing", "", 0, 0),
        ("one repeated word", &*"again ".repeat(1_000), 1_000, 0),
        ("two words in turn", &"to be ".repeat(1_000), 2_000, 2),
        ("two words, four times", &"to be ".repeat(4), 8, 2),
        (
            "words in turn",
            &"to be or not to be that is the question ".repeat(100),
            1_000,
            10,
        ),
        ("single digits", "1 2 3 4 5 6 7 8 9", 9, 6),
        (
            "numbers of all kinds",
            "3.14 1,000 2026-11-23 12:30:00 -7 50%",
            12,
            9,
        ),
        ("one long number", &"1234567890".repeat(1_000), 1, 1),
        ("a word of a million letters", &"x".repeat(1_000_000), 1, 1),
        (
            "only emoji",
            &"🎉👍🏽 👨\u{200d}👩\u{200d}👧 🇩🇪 ❤\u{fe0f} ".repeat(100),
            0,
            0,
        ),
        (
            "emoji among words",
            "🎉one🎉 two👍🏽 three 🇩🇪 four❤\u{fe0f} five six seven eight",
            8,
            5,
        ),
        (
            "only punctuation",
            &"!?…—,.;:'\"()[]{}<>&/\\|~^`@#$%*+=- ".repeat(100),
            0,
            0,
        ),
        ("only underscores", &"____ ".repeat(100), 0, 0),
        (
            "white space of all kinds",
            &" \t\n\r\u{b}\u{c}\u{85}\u{a0}\u{2003}\u{2028}\u{3000}".repeat(100),
            0,
            0,
        ),
        ("NUL bytes", &"\0".repeat(1_000), 0, 0),
        ("NUL bytes between words", &eight.replace(' ', "\0"), 8, 5),
        (
            "other control characters",
            &eight.replace(' ', "\u{1}\u{7f}\u{9b}"),
            8,
            5,
        ),
        ("replacement characters", &"\u{fffd}".repeat(1_000), 0, 0),
        (
            "private and unassigned characters",
            &"\u{e000}\u{f8ff}\u{10ffff}\u{378} ".repeat(100),
            0,
            0,
        ),
        (
            "right to left",
            "שלום עולם זה טקסט שנכתב מימין לשמאל כאן",
            8,
            5,
        ),
        (
            "right to left, with vowels",
            "السَّلامُ عَلَيْكُمْ هٰذا نَصٌّ طَوِيلٌ مِنَ اليَمِينِ إلى",
            8,
            5,
        ),
        (
            "mixed scripts",
            "mixed 文字 и слова ไทย 한국어 שלום in one text",
            13,
            10,
        ),
        ("Chinese without a space", &chinese(1_000), 1_000, 997),
        (
            "zero-width spaces between words",
            &eight.replace(' ', "\u{200b}"),
            8,
            5,
        ),
        (
            "only zero-width characters",
            &"\u{200b}\u{200c}\u{200d}\u{2060}\u{feff}\u{ad}".repeat(100),
            0,
            0,
        ),
        (
            "many accents on each letter",
            &"one two three four five six seven eight"
                .replace(' ', &format!("{} ", "\u{301}\u{323}".repeat(50))),
            8,
            5,
        ),
        ("accents on nothing", &"\u{301} ".repeat(100), 0, 0),
    ] {
        assert_judged(name, text, tokens, shingles);
    }
}

/// What a reader cannot tell apart is one text, and so is what differs in case and punctuation alone.
#[test]
fn texts_that_look_the_same_are_the_same() {
    let plain = "the café über naïve façade señor coöperate fiancé";
    for text in [
        plain.to_uppercase(),
        plain
            .replace('é', "e\u{301}")
            .replace('ü', "u\u{308}")
            .replace('ñ', "n\u{303}"),
        plain.replace(' ', "\u{3000}"),
        plain.replace(' ', "\u{200b}"),
        format!("\u{feff}{plain}"),
        plain.replace(' ', " \u{202e}"),
        plain.replace("the", "t\u{ad}h\u{200d}e\u{fe0f}"),
        plain.replace(' ', "_"),
        plain.replace(' ', "."),
        plain.replace(' ', ":_,"),
        plain.replace("über", "_über_").replace("señor", "ʻseñorʼ"),
    ] {
        assert_same(plain, &text);
    }
    let punctuation = [" ", ", ", ",", ".", ":", "·", "_", "'", "’", "ʼ", "״"];
    for text in [
        "l eau d or qu on n a pas s il",
        "3 14 1 000 12 30 u s a e g",
        "זה צה ל של ג ורג בעיר זו",
    ] {
        punctuation
            .iter()
            .for_each(|mark| assert_same(text, &text.replace(' ', mark)));
    }
}

fn assert_same(plain: &str, text: &str) {
    for fingerprinter in Fingerprinter::all() {
        let judged = fingerprinter.fingerprint_and_sketch(plain);
        assert!(judged.is_some(), "{plain}");
        assert_eq!(
            fingerprinter.fingerprint_and_sketch(text),
            judged,
            "{}: {text}",
            fingerprinter.scheme()
        );
    }
}

/// The bytes of the longest texts: as many as a record may have, or fewer where the build is slow, and still fewer
/// where no real data are at hand.
fn longest() -> usize {
    match (
        cfg!(debug_assertions),
        std::env::var_os("SIMDB_DATA").is_some(),
    ) {
        (false, _) => 50 << 20,
        (true, true) => 20 << 20,
        (true, false) => 4 << 20,
    }
}

/// Far more than any of these texts takes on a machine that has other work too.
const MOST_TIME: Duration = Duration::from_secs(60);

#[test]
fn long_texts_take_linear_time() {
    let repeated = |piece: &str| piece.repeat(longest() / piece.len());
    let different = || {
        let mut text = String::with_capacity(longest() + 16);
        (0..)
            .take_while(|i| {
                text.push_str(&format!("w{i} "));
                text.len() < longest()
            })
            .count();
        text
    };
    let longest_chinese = || chinese(longest() / 15);
    let accents = || format!("a{}", "\u{301}\u{323}".repeat(longest() / 20));
    let blanks = |piece: &str| format!("co-\noperate {}z", repeated(piece));
    let texts: [(&str, &dyn Fn() -> String, bool); 13] = [
        ("one repeated word", &|| repeated("again "), false),
        ("different words", &different, true),
        ("one word", &|| repeated("x"), false),
        ("one number", &|| repeated("1,"), false),
        (
            "a few words",
            &|| repeated("a b c d e f g h i j k l m n o p q r s t u v w x y z "),
            true,
        ),
        ("Chinese without a space", &longest_chinese, true),
        ("accents on one letter", &accents, false),
        ("only punctuation", &|| repeated("?!…"), false),
        ("only emoji", &|| repeated("🎉"), false),
        ("blanks behind a hyphen that goes", &|| blanks(" "), false),
        ("lines behind a hyphen that goes", &|| blanks("\n"), false),
        ("soft hyphens and line ends", &|| blanks("\u{ad}\n"), false),
        (
            "commands that do not end",
            &|| repeated("\u{1b}]\u{1b}[0"),
            false,
        ),
    ];
    for (name, make, is_judged) in texts {
        let text = make();
        for fingerprinter in Fingerprinter::all() {
            let begun = Instant::now();
            let judged = fingerprinter.fingerprint_and_sketch(&text);
            assert_eq!(
                judged.is_some(),
                is_judged,
                "{}: {name}",
                fingerprinter.scheme()
            );
            assert!(
                begun.elapsed() < MOST_TIME,
                "{name} takes {:?}",
                begun.elapsed()
            );
        }
    }
}

/// Whether a scheme judges a page.
type IsJudged = fn(Scheme) -> bool;

#[test]
fn long_pages_take_linear_time() {
    let text = "one two three four five six seven eight";
    let always = |_| true;
    let never = |_| false;
    let pages: [(&str, &str, IsJudged); 13] = [
        ("open tags", "<b>", always),
        ("open blocks", "<div>", always),
        ("open links", "<a href=x>", always),
        ("ends of what is not open", "</p>", always),
        // They are no part of the main content, and the text is in the last of them.
        ("open lists in menus", "<nav><ul><li>", |scheme| {
            scheme != Scheme::Content1
        }),
        ("the begin of a tag", "<", always),
        ("ends of hidden elements", "</script>", always),
        ("attributes", "<b a=", always),
        ("entities", "&amp;", always),
        ("half entities", "&am", always),
        ("comments without an end", "<!--", never),
        ("a script without an end", "<script>", never),
        ("words in blocks", "<p>word", always),
    ];
    // Two schemes stand for the two ways of reading a page.
    let is_read_long = |scheme| matches!(scheme, Scheme::Minwise1 | Scheme::Content1);
    for (name, piece, is_judged) in pages {
        let page = |length: usize| format!("{} > {text}", piece.repeat(length / piece.len()));
        let short = page(1 << 20);
        let long = page(longest());
        for fingerprinter in Fingerprinter::all() {
            let begun = Instant::now();
            let scheme = fingerprinter.scheme();
            let html = if is_read_long(scheme) { &long } else { &short };
            let judged = fingerprinter.fingerprint_and_sketch_html(html);
            assert_eq!(judged.is_some(), is_judged(scheme), "{scheme}: {name}");
            assert!(
                begun.elapsed() < MOST_TIME,
                "{scheme}: {name} takes {:?}",
                begun.elapsed()
            );
        }
    }
}
