//! Sample pairs of near documents, and the words in which their texts differ.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};
use unicode_segmentation::UnicodeSegmentation;

use super::findings::{Section, bits_text, fields_of, line_of};
use super::parts::{OnPaper, Part};
use crate::cli::escaping::harmless;
use crate::cli::units::told_count;
use crate::dedup::ListedRecord;
use crate::plural::counted;

/// A part of two texts that are compared. Words begin with a space if there is white space before them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Piece {
    /// Both have it.
    #[serde(rename = "same")]
    Same(String),
    /// Only the first has it.
    #[serde(rename = "a")]
    First(String),
    /// Only the second has it.
    #[serde(rename = "b")]
    Second(String),
    /// This number of words is left out, which both have. It may be 0: signs alone.
    #[serde(rename = "same_words")]
    Gap(usize),
    /// The texts differ in this number of further places.
    #[serde(rename = "more_places")]
    More(usize),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Differences {
    /// Where they differ, with some words before and after. Empty if they have the same words.
    pieces: Vec<Piece>,
    /// The words of the first, of the second, and those that both have. Signs such as commas do not count.
    words: [usize; 3],
}

/// The most characters of a name above the words of a pair.
const LONGEST_OF_PAIR: usize = 160;
/// The words that are shown before and after a difference.
const CONTEXT: usize = 6;
const MOST_PLACES: usize = 12;
/// The words that are shown of one place.
const MOST_WORDS: usize = 30;
/// A comparison that takes longer finds differences that are not the smallest.
const LONGEST: Duration = Duration::from_millis(300);

impl Differences {
    /// Compares two texts word by word. White space does not count.
    fn new(first: &str, second: &str) -> Self {
        let first = Words::new(first);
        let second = Words::new(second);
        let deadline = Some(Instant::now() + LONGEST);
        let ops =
            capture_diff_slices_deadline(Algorithm::Myers, &first.words, &second.words, deadline);
        let mut differences = Self {
            pieces: Vec::new(),
            words: [
                first.count(0..first.words.len()),
                second.count(0..second.words.len()),
                0,
            ],
        };
        for op in &ops {
            if is_same(op) {
                differences.words[2] += first.count(op.old_range());
            }
        }
        let mut places = 0;
        for (index, op) in ops.iter().enumerate() {
            let is_last = index + 1 == ops.len();
            if is_same(op) {
                differences.add_same(&first, op.old_range(), index == 0, is_last);
                continue;
            }
            places += 1;
            if places > MOST_PLACES {
                let more = ops[index..].iter().filter(|op| !is_same(op)).count();
                differences.pieces.push(Piece::More(more));
                break;
            }
            differences.add(&first, op.old_range(), Piece::First);
            differences.add(&second, op.new_range(), Piece::Second);
        }
        if places == 0 {
            differences.pieces.clear();
        }
        differences
    }

    /// Adds words that both have: those that are beside differences.
    fn add_same(&mut self, words: &Words<'_>, range: Range<usize>, is_first: bool, is_last: bool) {
        let before = if is_first { 0 } else { CONTEXT };
        let after = if is_last { 0 } else { CONTEXT };
        if range.len() <= before + after + 1 {
            return self.pieces.push(Piece::Same(words.text(range)));
        }
        let start = range.start + before;
        let end = range.end - after;
        if !is_first {
            self.pieces
                .push(Piece::Same(words.text(range.start..start)));
        }
        self.pieces.push(Piece::Gap(words.count(start..end)));
        if !is_last {
            self.pieces.push(Piece::Same(words.text(end..range.end)));
        }
    }

    fn add(&mut self, words: &Words<'_>, range: Range<usize>, piece: fn(String) -> Piece) {
        let shown = range.start..range.end.min(range.start + MOST_WORDS);
        if !shown.is_empty() {
            let rest = shown.end..range.end;
            let mut text = words.text(shown);
            match words.count(rest.clone()) {
                0 if rest.is_empty() => {}
                0 => text += " …",
                more => text += &format!(" … {} more words", told_count(more as u64)),
            }
            self.pieces.push(piece(text));
        }
    }
}

fn is_same(op: &DiffOp) -> bool {
    matches!(op, DiffOp::Equal { .. })
}

/// The words of a text, with signs such as commas, and whether white space is before each.
struct Words<'t> {
    words: Vec<&'t str>,
    has_space: Vec<bool>,
}

impl<'t> Words<'t> {
    fn new(text: &'t str) -> Self {
        let mut words = Self {
            words: Vec::new(),
            has_space: Vec::new(),
        };
        let mut space = false;
        for part in text.split_word_bounds() {
            if part.chars().all(char::is_whitespace) {
                space = true;
            } else {
                words.words.push(part);
                words.has_space.push(space);
                space = false;
            }
        }
        words
    }

    /// The number of words in a range, without the signs.
    fn count(&self, range: Range<usize>) -> usize {
        let words = self.words[range].iter();
        words
            .filter(|word| word.contains(char::is_alphanumeric))
            .count()
    }

    /// Some of the words, as one text that does no harm on a screen. White space before the first counts too.
    fn text(&self, range: Range<usize>) -> String {
        let mut text = String::new();
        for (word, has_space) in self.words[range.clone()].iter().zip(&self.has_space[range]) {
            if *has_space {
                text.push(' ');
            }
            text += word;
        }
        match harmless(&text, &[]) {
            Cow::Owned(text) => text,
            Cow::Borrowed(_) => text,
        }
    }
}

/// Some pairs of documents within the distance.
#[derive(Default)]
pub(super) struct Samples(Vec<Sample>);

struct Sample {
    names: [ListedRecord; 2],
    distance: u32,
    /// As the sketches estimate it.
    similarity: Option<f64>,
    /// Whether the texts are similar enough, and so are near.
    is_near: bool,
    /// `None` if a text is not at hand.
    differences: Option<Differences>,
}

impl Samples {
    /// Adds a pair, with its texts if both are at hand. Pairs come in the order of their distances.
    pub(super) fn add(
        &mut self,
        names: [ListedRecord; 2],
        distance: u32,
        similarity: Option<f64>,
        is_near: bool,
        texts: Option<(&String, &String)>,
    ) {
        self.0.push(Sample {
            names,
            distance,
            similarity,
            is_near,
            differences: texts.map(|(first, second)| Differences::new(first, second)),
        });
    }

    /// The number of pairs, and of those whose texts are not at hand.
    pub(super) fn counts(&self) -> (usize, usize) {
        let without = self.0.iter().filter(|sample| sample.differences.is_none());
        (self.0.len(), without.count())
    }
}

impl Section for Samples {
    fn add_fields(&self, object: &mut Value) {
        let samples = self.0.iter().map(Sample::to_json);
        object["samples"] = samples.collect();
    }

    fn parts(&self) -> Vec<Part> {
        if self.0.is_empty() {
            return Vec::new();
        }
        // One of each distance is enough for a first look.
        let mut firsts = Vec::new();
        let mut more = Vec::new();
        let mut unlike = Vec::new();
        let mut last_distance = None;
        for sample in &self.0 {
            if !sample.is_near {
                unlike.push(sample.part());
            } else if last_distance.replace(sample.distance) == Some(sample.distance) {
                more.push(sample.part());
            } else {
                firsts.push(sample.part());
            }
        }

        let mut parts = vec![Part::Heading("Sample pairs")];
        if self.0.iter().any(|sample| sample.differences.is_some()) {
            parts.push(Part::Paragraph(
                "Words that only the first text has stand in [- -], words that only the second has in {+ +}."
                    .to_owned(),
            ));
        }
        parts.extend(firsts);
        if !more.is_empty() {
            parts.push(Part::Folded {
                heading: format!("{} more", pairs_text(more.len())),
                parts: more,
                on_paper: OnPaper::Open,
            });
        }
        if !unlike.is_empty() {
            let heading = format!(
                "{} whose texts are not similar enough",
                pairs_text(unlike.len())
            );
            let text = "Their fingerprints differ in few bits, but their sketches tell that they share too little. \
                        They do not count as near.";
            unlike.insert(0, Part::Paragraph(text.to_owned()));
            parts.push(Part::Folded {
                heading,
                parts: unlike,
                on_paper: OnPaper::Open,
            });
        }
        parts
    }
}

fn pairs_text(pairs: usize) -> String {
    counted(told_count(pairs as u64), "pair")
}

impl Sample {
    fn to_json(&self) -> Value {
        let differences = self.differences.as_ref();
        json!({
            "a": fields_of(&self.names[0]),
            "b": fields_of(&self.names[1]),
            "distance": self.distance,
            "similarity": self.similarity,
            "differences": differences.map(|differences| &differences.pieces),
        })
    }

    fn part(&self) -> Part {
        let mut heading = bits_text(self.distance);
        if let Some(similarity) = self.similarity {
            heading += &format!(", estimated similarity {similarity:.2}");
        }
        let mut pieces = Vec::new();
        if let Some(differences) = &self.differences {
            let [first, second, same] = differences.words.map(|words| told_count(words as u64));
            heading += &match differences.pieces.is_empty() {
                true => format!(", the same {}", counted(first, "word")),
                false => format!(
                    ", {first} and {}, {same} of them in common",
                    counted(second, "word")
                ),
            };
            pieces.clone_from(&differences.pieces);
        }
        Part::Pair {
            heading,
            names: self
                .names
                .each_ref()
                .map(|name| line_of(name, LONGEST_OF_PAIR)),
            pieces,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces_of(first: &str, second: &str) -> Vec<Piece> {
        Differences::new(first, second).pieces
    }

    #[test]
    fn changed_words_are_shown_with_their_neighbours() {
        let [same, first, second] = [Piece::Same, Piece::First, Piece::Second]
            .map(|piece| move |text: &str| piece(text.to_owned()));
        assert_eq!(
            pieces_of("The old red fox, it runs.", "The old  grey fox, it\nruns."),
            [
                same("The old"),
                first(" red"),
                second(" grey"),
                same(" fox, it runs.")
            ]
        );
        assert_eq!(pieces_of("a b", "a b, c"), [same("a b"), second(", c")]);
        assert_eq!(pieces_of("a b c", "b c"), [first("a"), same(" b c")]);
        assert_eq!(pieces_of("same words", "same \t words"), []);
        assert_eq!(pieces_of("", ""), []);
        assert_eq!(pieces_of("", "all new"), [second("all new")]);
    }

    #[test]
    fn what_both_have_is_left_out_far_from_differences() {
        let first: Vec<String> = (0..100).map(|i| format!("w{i}")).collect();
        let mut second = first.clone();
        second[50] = "changed".to_owned();
        let differences = Differences::new(&first.join(" "), &second.join(" "));
        assert_eq!(differences.words, [100, 100, 99]);
        assert_eq!(
            differences.pieces,
            [
                Piece::Gap(44),
                Piece::Same(" w44 w45 w46 w47 w48 w49".to_owned()),
                Piece::First(" w50".to_owned()),
                Piece::Second(" changed".to_owned()),
                Piece::Same(" w51 w52 w53 w54 w55 w56".to_owned()),
                Piece::Gap(43),
            ]
        );
    }

    /// Commas and stops were counted as words.
    #[test]
    fn signs_are_no_words() {
        let differences =
            Differences::new("One, two; three. – 3.5 it's", "One, two; four! – 3.5 it's");
        assert_eq!(differences.words, [5, 5, 4]);
        let stops = |word: &str| format!("{word} {}{word}.", ". ".repeat(40));
        let differences = Differences::new(&stops("a"), &stops("b"));
        assert_eq!(differences.words, [2, 2, 0]);
        assert!(
            differences.pieces.contains(&Piece::Gap(0)),
            "{:?}",
            differences.pieces
        );
    }

    #[test]
    fn texts_that_differ_in_all_words_are_shown_in_short() {
        let [first, second] = ["a", "b"].map(|word| vec![word; 10_000].join(" "));
        let pieces = pieces_of(&first, &second);
        assert_eq!(pieces.len(), 2);
        assert!(matches!(&pieces[0], Piece::First(text) if text.ends_with("… 9,970 more words")));
        let alternating =
            |odd: &str| -> String { (0..200).map(|i| format!("w{i} {odd}{i} ")).collect() };
        let pieces = pieces_of(&alternating("x"), &alternating("y"));
        assert_eq!(pieces.last(), Some(&Piece::More(200 - MOST_PLACES)));
    }

    #[test]
    fn words_cannot_act_on_a_screen() {
        let pieces = pieces_of("a", "a \u{1b}[31m\u{202e}b");
        assert!(pieces.iter().all(|piece| match piece {
            Piece::Same(text) | Piece::First(text) | Piece::Second(text) =>
                !text.contains(['\u{1b}', '\u{202e}']),
            _ => true,
        }));
    }
}
