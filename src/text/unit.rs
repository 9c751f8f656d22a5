//! Unit: what gets a fingerprint of its own. Cuts texts into paragraphs and sentences, and names these by their places.

use std::fmt;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::html::{Syntax, visible_paragraphs};
use super::scheme::Scheme;

/// What gets a fingerprint of its own: a whole document, each of its paragraphs or each of its sentences.
///
/// # Example
///
/// ```
/// use simdb::Unit;
///
/// let text = "Rain fell on Monday, \"hard\". It stopped\non Tuesday at 3.15 p.m.\n\nWhat next? 明天下雨。后天晴。";
/// let sentences: Vec<&str> = Unit::Sentence.cut(text).collect();
/// assert_eq!(
///     sentences,
///     [
///         "Rain fell on Monday, \"hard\".",
///         "It stopped\non Tuesday at 3.15 p.m.",
///         "What next?",
///         "明天下雨。",
///         "后天晴。",
///     ]
/// );
/// assert_eq!(Unit::Paragraph.cut(text).count(), 2);
/// ```
///
/// # References
///
/// Unicode Standard Annex #29, Unicode Text Segmentation: sentence boundaries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Unit {
    /// The whole document.
    #[default]
    Document,
    /// Each paragraph: between blank lines, or an element of HTML that is a block.
    Paragraph,
    /// Each sentence, by Unicode Standard Annex #29.
    ///
    /// It is a sentence of a paragraph. A line break in a paragraph is a space there,
    /// because many texts have lines of one length. The rules know no abbreviations: `Dr. Who` is cut after
    /// the stop, and `e.g. this` is not, because a small letter follows.
    Sentence,
}

impl Unit {
    /// The scheme that suits its texts.
    pub(crate) fn suitable_scheme(self) -> Scheme {
        match self {
            Self::Document => Scheme::default(),
            Self::Paragraph | Self::Sentence => Scheme::MinwiseShort1,
        }
    }

    /// The units of a plain text, in order, without the white space around them. A paragraph or a sentence
    /// without any letter or digit is left out.
    ///
    /// # Cost
    ///
    /// One pass over the text, and 16 bytes of memory for each unit.
    pub fn cut(self, text: &str) -> impl Iterator<Item = &str> {
        self.ranges(text, usize::MAX)
            .into_iter()
            .map(|range| &text[range])
    }

    /// The units of the visible text of an HTML page, as [`cut`](Self::cut) gives them. In front of and behind
    /// an element that is a block, such as `p`, `li`, `td` and `br`, a paragraph ends. The line breaks of the page
    /// mean nothing outside of `pre`, where a blank line ends a paragraph too.
    pub fn cut_html(self, html: &str) -> Vec<String> {
        self.cut(&Self::text_of_html(html))
            .map(str::to_owned)
            .collect()
    }

    /// The visible text of an HTML page, with a blank line between its paragraphs. Its units are those that
    /// [`cut_html`](Self::cut_html) gives.
    pub fn text_of_html(html: &str) -> String {
        visible_paragraphs(html, Syntax::from_beginning(html))
    }

    /// The key of the document that a unit is of, by the key of the unit: what stands before `#` and a number from 1 to
    /// 1,048,576. Any other key is that of a whole document.
    ///
    /// ```
    /// use simdb::Unit;
    ///
    /// assert_eq!(Unit::document_of(b"https://example.org/#12"), b"https://example.org/");
    /// assert_eq!(Unit::document_of(b"https://example.org/#top"), b"https://example.org/#top");
    /// ```
    pub fn document_of(key: &[u8]) -> &[u8] {
        let digits = key.iter().rev().take_while(|byte| byte.is_ascii_digit());
        let (before, number) = key.split_at(key.len() - digits.count());
        let number = match number {
            [b'1'..=b'9', ..] => str::from_utf8(number).unwrap_or_default().parse().ok(),
            _ => None,
        };
        match (before.strip_suffix(b"#"), number) {
            (Some(document), Some(1..=MOST_UNITS)) => document,
            _ => key,
        }
    }

    /// Where the first units of a text are, at most so many.
    pub(crate) fn ranges(self, text: &str, most: usize) -> Vec<Range<usize>> {
        match self {
            Self::Document => std::iter::once(0..text.len()).take(most).collect(),
            Self::Paragraph => paragraphs(text).take(most).collect(),
            Self::Sentence => paragraphs(text)
                .flat_map(|range| sentences(text, range, most))
                .take(most)
                .collect(),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Document => "document",
            Self::Paragraph => "paragraph",
            Self::Sentence => "sentence",
        })
    }
}

/// The most paragraphs or sentences that one text is cut into. It bounds the memory that a hostile text takes.
pub(crate) const MOST_UNITS: usize = 1 << 20;

pub(crate) fn unit_key(document: &[u8], number: usize) -> Vec<u8> {
    [document, b"#", number.to_string().as_bytes()].concat()
}

/// The paragraphs of a text: what lies between blank lines. A line ends with a line feed, also after a carriage
/// return.
fn paragraphs(text: &str) -> impl Iterator<Item = Range<usize>> {
    let mut lines = text.split_inclusive('\n');
    let mut end = 0;
    let pieces = std::iter::from_fn(move || {
        let start = end;
        for line in lines.by_ref() {
            let begin = end;
            end += line.len();
            if line.trim().is_empty() {
                return Some(start..begin);
            }
        }
        (start < end).then_some(start..end)
    });
    pieces.filter_map(|range| with_words(text, range))
}

/// The first sentences of a paragraph, which is a range of the text.
fn sentences(text: &str, paragraph: Range<usize>, most: usize) -> Vec<Range<usize>> {
    let mut line = String::with_capacity(paragraph.len());
    line.extend(pieces_of_line(&text[paragraph.clone()]).map(|(character, _)| character));
    let mut pieces = pieces_of_line(&text[paragraph.clone()]);
    let mut sentences = Vec::new();
    let mut end = paragraph.start;
    for sentence in line.split_sentence_bounds() {
        if sentences.len() == most {
            break;
        }
        let start = end;
        let count = sentence.chars().count();
        end += pieces
            .by_ref()
            .take(count)
            .map(|(_, len)| len)
            .sum::<usize>();
        sentences.extend(with_words(text, start..end));
    }
    sentences
}

/// The most symbols in a row that are looked at for the ends of sentences.
const MOST_SYMBOLS: usize = 64;

/// The characters by which the sentences of a paragraph are told, each with the length of what it stands for.
///
/// A space stands for all white space in a row, and the last of [`MOST_SYMBOLS`] symbols for all behind it. At each
/// space and bracket behind a stop, the rules look ahead to the next letter. So many in a row would take quadratic
/// time. Annex #29 ends a sentence at each line break, which is a space here.
fn pieces_of_line(paragraph: &str) -> impl Iterator<Item = (char, usize)> {
    let mut rest = paragraph;
    let mut symbols = 0;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let is_space = is_space_of_line(first);
        let is_symbol = !is_space && !first.is_alphanumeric();
        symbols = if is_symbol { symbols + 1 } else { 0 };
        let behind = if is_space {
            rest.trim_start_matches(is_space_of_line)
        } else if symbols == MOST_SYMBOLS {
            rest.trim_start_matches(|c: char| !is_space_of_line(c) && !c.is_alphanumeric())
        } else {
            &rest[first.len_utf8()..]
        };
        let len = rest.len() - behind.len();
        rest = behind;
        Some((if is_space { ' ' } else { first }, len))
    })
}

/// Whether a character is white space that ends no sentence.
fn is_space_of_line(character: char) -> bool {
    character.is_whitespace() && !matches!(character, '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The range without white space around it, or `None` if it has no letter and no digit.
fn with_words(text: &str, range: Range<usize>) -> Option<Range<usize>> {
    let piece = &text[range.clone()];
    let trimmed = piece.trim_start();
    let start = range.end - trimmed.len();
    piece
        .contains(char::is_alphanumeric)
        .then_some(start..start + trimmed.trim_end().len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sentences_of(text: &str) -> Vec<&str> {
        Unit::Sentence.cut(text).collect()
    }

    #[test]
    fn sentences_end_as_annex_29_says() {
        assert_eq!(
            sentences_of("One. Two! Three? \"Four.\" (Five.) Six"),
            ["One.", "Two!", "Three?", "\"Four.\"", "(Five.)", "Six"]
        );
        // A small letter, a digit or a comma goes on with the sentence. A capital letter begins another.
        assert_eq!(
            sentences_of("It cost 3.50, i.e. little. Dr. Who paid."),
            ["It cost 3.50, i.e. little.", "Dr.", "Who paid."]
        );
        // The rules take an opening bracket for a closing one.
        let chinese = "近似重复。两个网页！「相同吗？」是的";
        assert_eq!(
            sentences_of(chinese),
            ["近似重复。", "两个网页！「", "相同吗？」", "是的"]
        );
        assert_eq!(
            sentences_of("これは文です。次の文です。"),
            ["これは文です。", "次の文です。"]
        );
        assert_eq!(sentences_of("هل هذا نص؟ نعم."), ["هل هذا نص؟", "نعم."]);
    }

    #[test]
    fn lines_of_one_length_are_one_sentence_and_blank_lines_end_it() {
        let text = "A sentence over\ntwo lines. Another one\n\nTitle without a stop\n \t\nThe end";
        let expected = [
            "A sentence over\ntwo lines.",
            "Another one",
            "Title without a stop",
            "The end",
        ];
        assert_eq!(sentences_of(text), expected);
        let paragraphs = |text: &'static str| Unit::Paragraph.cut(text).collect::<Vec<_>>();
        assert_eq!(
            paragraphs(text),
            [
                "A sentence over\ntwo lines. Another one",
                expected[2],
                expected[3]
            ]
        );
        assert_eq!(
            paragraphs("\r\n one\r\ntwo\r\n\r\nthree\r\n"),
            ["one\r\ntwo", "three"]
        );
        assert_eq!(
            sentences_of("One\r\ntwo. Three\r\n\r\nFour"),
            ["One\r\ntwo.", "Three", "Four"]
        );
    }

    #[test]
    fn blocks_of_a_page_are_paragraphs() {
        let page = "<title>no</title><h1>River</h1>\n<p>One\n\n<b>two</b>. Three<br>four<script>no</script>";
        assert_eq!(
            Unit::Paragraph.cut_html(page),
            ["River", "One  two. Three", "four"]
        );
        assert_eq!(
            Unit::Sentence.cut_html(page),
            ["River", "One  two.", "Three", "four"]
        );
    }

    #[test]
    fn what_has_no_word_is_no_unit() {
        for unit in [Unit::Paragraph, Unit::Sentence] {
            for text in ["", " \n\n", "* * *\n\n---\n\n…", "!?! ... \u{0}"] {
                assert_eq!(unit.cut(text).count(), 0, "{unit}: {text:?}");
            }
            assert_eq!(unit.cut("* * *\n\n7\n\n🎉").collect::<Vec<_>>(), ["7"]);
        }
        assert_eq!(Unit::Document.cut("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn the_key_of_a_unit_tells_its_document() {
        for (key, document) in [
            ("http://a/#1", "http://a/"),
            ("http://a/#1048576", "http://a/"),
            ("http://a/#3#12", "http://a/#3"),
            ("#7", ""),
            ("http://a/", "http://a/"),
            ("http://a/#section", "http://a/#section"),
            ("http://a/#section2", "http://a/#section2"),
            ("http://a/#0", "http://a/#0"),
            ("http://a/#01", "http://a/#01"),
            ("http://a/#1048577", "http://a/#1048577"),
            (
                "http://a/#99999999999999999999999",
                "http://a/#99999999999999999999999",
            ),
            ("http://a/#", "http://a/#"),
            ("12", "12"),
            ("", ""),
        ] {
            assert_eq!(
                Unit::document_of(key.as_bytes()),
                document.as_bytes(),
                "{key}"
            );
        }
        for number in [1, 9, 10, MOST_UNITS] {
            assert_eq!(Unit::document_of(&unit_key(b"k#5", number)), b"k#5");
        }
    }

    /// 50 MB each: one sentence, stops that end no sentence, and stops that all do.
    #[test]
    fn huge_texts_take_linear_time() {
        let began = std::time::Instant::now();
        for (piece, units) in [
            ("word ", 1),
            ("a.1 ", 1),
            (". ", 0),
            ("A. ", 1 << 24),
            ("\n\u{301}", 0),
        ] {
            let text = piece.repeat((50 << 20) / piece.len());
            let cut = Unit::Sentence.cut(&text).count();
            assert!(
                if units < 2 { cut == units } else { cut > units },
                "{piece:?}: {cut}"
            );
        }
        assert!(began.elapsed().as_secs() < 120, "{:?}", began.elapsed());
    }

    /// The rules look ahead behind a stop. A page with 25 KB of spaces there once took six seconds.
    #[test]
    fn what_stands_behind_a_stop_takes_linear_time() {
        let began = std::time::Instant::now();
        for piece in [" ", "\t\u{a0}", ")", "'\"", ")\u{301}", "» ", "1 "] {
            let many = piece.repeat((1 << 20) / piece.len());
            for stop in [".", ".)", ". ", "?"] {
                let text = format!("One stop{stop}{many}and no other");
                let cut = sentences_of(&text);
                assert!(cut[0].starts_with("One stop"), "{stop:?}, {piece:?}");
                assert!(cut.concat().ends_with("no other"), "{stop:?}, {piece:?}");
            }
        }
        assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
    }

    /// The sentences of a paragraph as the rules alone tell them.
    fn plainly(paragraph: &str) -> Vec<Range<usize>> {
        let line = paragraph.replace(['\n', '\r'], " ");
        let pieces = line.split_sentence_bound_indices();
        let ranges = pieces.map(|(at, piece)| at..at + piece.len());
        ranges
            .filter_map(|range| with_words(paragraph, range))
            .collect()
    }

    proptest::proptest! {
        /// Few symbols and any white space are looked at as the rules say.
        #[test]
        fn sentences_are_those_of_the_rules(
            text in "([a-cA-C1. \n\r?!,\"()]|[。中»\u{a0}\u{301}\u{2029}\u{85}]){0,60}",
        ) {
            let all = 0..text.len();
            proptest::prop_assert_eq!(sentences(&text, all, usize::MAX), plainly(&text));
        }

        /// Only what has no letter and no digit is lost, and the order stays.
        #[test]
        fn units_hold_all_words_in_order(text in "([a-cA-C1. \n\r?!\"()]|[。中ก\u{301}\u{2029}\u{85}]|\\PC){0,60}") {
            let words = |text: &str| text.chars().filter(|c| c.is_alphanumeric()).collect::<String>();
            for unit in [Unit::Document, Unit::Paragraph, Unit::Sentence] {
                proptest::prop_assert_eq!(unit.cut(&text).map(words).collect::<String>(), words(&text));
            }
        }
    }
}
