//! The words in which two texts differ.

use std::borrow::Cow;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde::Serialize;
use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};
use unicode_segmentation::UnicodeSegmentation;

use crate::cli::escaping::harmless;
use crate::cli::units::told_count;

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
pub(super) struct Differences {
    /// Where they differ, with some words before and after. Empty if they have the same words.
    pub(super) pieces: Vec<Piece>,
    /// The words of the first, of the second, and those that both have. Signs such as commas do not count.
    pub(super) words: [usize; 3],
}

/// The words that are shown before and after a difference.
const CONTEXT: usize = 6;
const MOST_PLACES: usize = 12;
/// The words that are shown of one place.
const MOST_WORDS: usize = 30;
/// A comparison that takes longer finds differences that are not the smallest.
const LONGEST: Duration = Duration::from_millis(300);

impl Differences {
    /// Compares two texts word by word. White space does not count.
    pub(super) fn new(first: &str, second: &str) -> Self {
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
