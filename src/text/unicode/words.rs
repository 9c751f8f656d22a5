//! The words of a text, by the rules of Unicode Standard Annex #29.
//!
//! The plain algorithm asks at every character whether a rule forbids to cut before it, then leaves out the
//! segments without a letter or a number. The tests have it. This code departs from it in two ways. It runs
//! over ASCII by eight bytes, because there letters, digits and underscores all stick together. And it keeps
//! of the text before only what a rule may ask for.

use super::ascii::{core_run, is_core};
use super::properties::{Properties, WordBreak};

/// The words of a text: the segments between word boundaries that have an alphabetic character or a number.
///
/// # Cost
///
/// One pass over the text, and no allocation.
#[derive(Debug)]
pub(in crate::text) struct Words<'a> {
    text: &'a str,
    /// Where the next segment begins.
    at: usize,
}

/// A segment that has been read up to some character.
struct Segment {
    end: usize,
    is_word: bool,
    /// The class of the last character, apart from those that only extend another.
    left: WordBreak,
    /// The class of the last character.
    last: WordBreak,
    /// Whether the next character belongs to the segment, as the look-ahead has found.
    bridged: bool,
}

/// For each class, the classes that are never cut off behind it, one bit for each. Not here are the rules
/// that ask for more than the class before: those of spaces and regional indicators.
const JOINED: [u16; 16] = {
    use WordBreak::*;
    let mut joined = [0; 16];
    joined[Letter as usize] = set(&[Letter, HebrewLetter, Numeric, ExtendNumLet]); // rules WB5, WB9, WB13a
    joined[HebrewLetter as usize] = joined[Letter as usize] | set(&[SingleQuote]); // rule WB7a
    joined[Numeric as usize] = joined[Letter as usize]; // rules WB8, WB10, WB13a
    joined[Katakana as usize] = set(&[Katakana, ExtendNumLet]); // rules WB13, WB13a
    joined[ExtendNumLet as usize] = joined[Letter as usize] | set(&[Katakana]); // rules WB13a, WB13b
    joined
};

const LETTERS: u16 = set(&[WordBreak::Letter, WordBreak::HebrewLetter]);

const fn set(classes: &[WordBreak]) -> u16 {
    let (mut set, mut index) = (0, 0);
    while index < classes.len() {
        set |= 1 << classes[index] as u16;
        index += 1;
    }
    set
}

const fn has(set: u16, class: WordBreak) -> bool {
    set >> class as u16 & 1 != 0
}

/// The classes of which the next character has to be, so that `middle` belongs to the word that `left` ends.
const fn bridge(left: WordBreak, middle: WordBreak) -> u16 {
    use WordBreak::*;
    match (left, middle) {
        (Letter | HebrewLetter, MidLetter | MidNumLet | SingleQuote) => LETTERS, // rules WB6, WB7
        (HebrewLetter, DoubleQuote) => set(&[HebrewLetter]),                     // rules WB7b, WB7c
        (Numeric, MidNum | MidNumLet | SingleQuote) => set(&[Numeric]),          // rules WB11, WB12
        _ => 0,
    }
}

impl<'a> Words<'a> {
    pub(in crate::text) fn of(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Reads the segment that begins at an ASCII letter, digit or underscore, as far as it is ASCII.
    fn ascii_segment(&self, start: usize) -> Segment {
        let bytes = self.text.as_bytes();
        let (mut end, mut is_word) = (start, false);
        loop {
            let (length, has_alphanumeric) = core_run(&bytes[end..]);
            end += length;
            is_word |= has_alphanumeric;
            let left = Properties::of_ascii(bytes[end - 1]).word_break();
            let is_bridge = |middle: u8, next: u8| {
                let class = |byte| Properties::of_ascii(byte).word_break();
                middle.is_ascii()
                    && middle != b' '
                    && is_core(next)
                    && has(bridge(left, class(middle)), class(next))
            };
            match bytes.get(end..end + 2) {
                Some(&[middle, next]) if is_bridge(middle, next) => end += 1,
                _ => return Segment { end, is_word, left, last: left, bridged: false },
            }
        }
    }

    /// Reads the segment that begins here.
    fn segment(&self, start: usize) -> Segment {
        let mut segment = Segment {
            end: start,
            is_word: false,
            left: WordBreak::Other,
            last: WordBreak::Other,
            bridged: false,
        };
        if let Some(c) = self.text[start..].chars().next() {
            let properties = Properties::of(c);
            segment.end += c.len_utf8();
            segment.is_word = properties.is_alphanumeric();
            segment.left = properties.word_break();
            segment.last = segment.left;
            self.extend(&mut segment);
        }
        segment
    }

    /// Reads on to the end of the segment.
    fn extend(&self, segment: &mut Segment) {
        let mut rest = self.text[segment.end..].chars();
        // Regional indicators make pairs.
        let mut is_half = segment.left == WordBreak::RegionalIndicator;
        while segment.left != WordBreak::Newline
            && let Some(c) = rest.next()
        {
            let properties = Properties::of(c);
            let class = properties.word_break();
            match class {
                WordBreak::Newline => return,               // rule WB3a
                WordBreak::Extend | WordBreak::Joiner => {} // rule WB4
                _ => {
                    let joined = segment.bridged
                        || match class {
                            WordBreak::Space => segment.last == class, // rule WB3d
                            WordBreak::RegionalIndicator => is_half,   // rules WB15, WB16
                            _ => has(JOINED[segment.left as usize], class),
                        }
                        || (segment.last == WordBreak::Joiner && properties.is_pictographic()); // rule WB3c
                    let needed = bridge(segment.left, class);
                    segment.bridged = needed != 0 && begins_with(rest.as_str(), needed);
                    if !joined && !segment.bridged {
                        return;
                    }
                    (segment.left, is_half) = (class, false);
                }
            }
            segment.last = class;
            segment.is_word |= properties.is_alphanumeric();
            segment.end = self.text.len() - rest.as_str().len();
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let is_other = |at: usize| bytes.get(at).is_some_and(|byte| !byte.is_ascii());
        while let Some(&byte) = bytes.get(self.at) {
            let mut start = self.at;
            let segment = if is_core(byte) {
                let mut segment = self.ascii_segment(start);
                if is_other(segment.end) || is_other(segment.end + 1) {
                    self.extend(&mut segment);
                }
                segment
            } else if byte.is_ascii() && !is_other(start + 1) {
                // No ASCII character sticks to this one, but for a space to a space.
                self.at += 1;
                continue;
            } else {
                // An accent sticks to a space, and that one to the spaces before it.
                if byte == b' ' {
                    start -= bytes[..start].iter().rev().take_while(|&&byte| byte == b' ').count();
                }
                self.segment(start)
            };
            self.at = segment.end;
            if segment.is_word {
                return Some(&self.text[start..segment.end]);
            }
        }
        None
    }
}

/// Whether the first character that does not only extend another is of one of these classes.
fn begins_with(text: &str, classes: u16) -> bool {
    let class = text.chars().map(|c| Properties::of(c).word_break());
    let mut class = class.skip_while(|class| matches!(class, WordBreak::Extend | WordBreak::Joiner));
    class.next().is_some_and(|class| has(classes, class))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation as _;

    use super::*;

    fn is_word(segment: &str) -> bool {
        segment.chars().any(|c| Properties::of(c).is_alphanumeric())
    }

    /// The plain algorithm: whether a boundary is before character `at`, by the rules of the annex in their
    /// order.
    fn is_boundary(text: &[char], at: usize) -> bool {
        use WordBreak::*;
        let class = |at: usize| Properties::of(text[at]).word_break();
        let is_ignored = |at: &usize| matches!(class(*at), Extend | Joiner);
        let is_letter = |class: Option<WordBreak>| matches!(class, Some(Letter | HebrewLetter));
        if at == 0 || at == text.len() {
            return true;
        }
        let (before, after) = (class(at - 1), class(at));
        if text[at - 1] == '\r' && text[at] == '\n' {
            return false; // WB3
        }
        if before == Newline || after == Newline {
            return true; // WB3a, WB3b
        }
        if before == Joiner && Properties::of(text[at]).is_pictographic() {
            return false; // WB3c
        }
        if (before == Space && after == Space) || is_ignored(&at) {
            return false; // WB3d, WB4
        }
        // From here on, what only extends a character is left out, except where it begins a line.
        let mut left =
            (0..at).rev().filter(|at| !is_ignored(at) || *at == 0 || class(at - 1) == Newline).map(class);
        let (a, b) = (left.next(), left.next());
        let left_again = (0..at).rev().filter(|at| !is_ignored(at)).map(class);
        let indicators = left_again.take_while(|&class| class == RegionalIndicator).count();
        let mut right = (at..text.len()).filter(|at| !is_ignored(at)).map(class);
        let (c, d) = (right.next(), right.next());
        let joined = match (a, c) {
            (Some(Letter | HebrewLetter), Some(Letter | HebrewLetter)) => true, // WB5
            (Some(Letter | HebrewLetter), Some(MidLetter | MidNumLet | SingleQuote)) if is_letter(d) => true, // WB6
            (Some(MidLetter | MidNumLet | SingleQuote), Some(Letter | HebrewLetter)) if is_letter(b) => true, // WB7
            (Some(HebrewLetter), Some(SingleQuote)) => true, // WB7a
            (Some(HebrewLetter), Some(DoubleQuote)) if d == Some(HebrewLetter) => true, // WB7b
            (Some(DoubleQuote), Some(HebrewLetter)) if b == Some(HebrewLetter) => true, // WB7c
            (Some(Letter | HebrewLetter | Numeric), Some(Numeric)) => true, // WB8, WB9
            (Some(Numeric), Some(Letter | HebrewLetter)) => true, // WB10
            (Some(MidNum | MidNumLet | SingleQuote), Some(Numeric)) if b == Some(Numeric) => true, // WB11
            (Some(Numeric), Some(MidNum | MidNumLet | SingleQuote)) if d == Some(Numeric) => true, // WB12
            (Some(Katakana), Some(Katakana)) => true,        // WB13
            (Some(Letter | HebrewLetter | Numeric | Katakana | ExtendNumLet), Some(ExtendNumLet)) => true, // WB13a
            (Some(ExtendNumLet), Some(Letter | HebrewLetter | Numeric | Katakana)) => true, // WB13b
            (Some(RegionalIndicator), Some(RegionalIndicator)) => indicators % 2 == 1,      // WB15, WB16
            _ => false,                                                                     // WB999
        };
        !joined
    }

    fn plainly(text: &str) -> Vec<String> {
        let text: Vec<char> = text.chars().collect();
        let boundaries: Vec<usize> = (0..=text.len()).filter(|&at| is_boundary(&text, at)).collect();
        let segments = boundaries.windows(2).map(|ends| text[ends[0]..ends[1]].iter().collect::<String>());
        segments.filter(|segment| is_word(segment)).collect()
    }

    fn words(text: &str) -> Vec<&str> {
        Words::of(text).collect()
    }

    /// Each line of the file gives characters in hexadecimal, with a division sign at each boundary.
    #[test]
    fn the_official_test_file_is_satisfied() -> Result<(), Box<dyn std::error::Error>> {
        let file = include_bytes!("../../../tests/data/unicode/WordBreakTest-17.0.0.txt.gz");
        let mut lines = String::new();
        flate2::read::GzDecoder::new(file.as_slice()).read_to_string(&mut lines)?;
        let mut checked = 0;
        for line in
            lines.lines().filter_map(|line| line.split('#').next()).filter(|line| !line.trim().is_empty())
        {
            let mut segments: Vec<String> = Vec::new();
            for sign in line.split_whitespace() {
                match sign {
                    "÷" => segments.push(String::new()),
                    "×" => {}
                    hex => {
                        let c = char::from_u32(u32::from_str_radix(hex, 16)?).ok_or(hex)?;
                        segments.last_mut().ok_or(hex)?.push(c);
                    }
                }
            }
            segments.retain(|segment| is_word(segment));
            let text: String = line
                .split_whitespace()
                .filter_map(|hex| u32::from_str_radix(hex, 16).ok())
                .filter_map(char::from_u32)
                .collect();
            assert_eq!(words(&text), segments, "{line}");
            let cut: Vec<usize> = (0..=text.chars().count())
                .filter(|&at| is_boundary(&text.chars().collect::<Vec<_>>(), at))
                .collect();
            let signs = line.split_whitespace().filter(|&sign| sign == "÷" || sign == "×");
            let expected: Vec<usize> =
                signs.enumerate().filter(|&(_, sign)| sign == "÷").map(|(at, _)| at).collect();
            assert_eq!(cut, expected, "the plain algorithm, {line}");
            checked += 1;
        }
        assert_eq!(checked, 1944);
        Ok(())
    }

    /// Texts of characters of every class, with and without the other properties, and many that are ASCII.
    fn texts() -> impl Strategy<Value = String> {
        let of_all_classes =
            "\n\r\u{85}éß文ไ\u{5d0}\u{5d1}アイ\u{301}\u{93e}\u{ad}\u{200d}\u{1680}’\u{37e}·٣🇩🇪👩☎🅰ℹ“”";
        let ascii = "ab09_ '\".,;:!-".repeat(3);
        let characters: Vec<char> = of_all_classes.chars().chain(ascii.chars()).collect();
        proptest::collection::vec(proptest::sample::select(characters), 0..24)
            .prop_map(|characters| characters.into_iter().collect())
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4096))]

        #[test]
        fn words_are_those_of_the_plain_algorithm(text in texts()) {
            prop_assert_eq!(words(&text), plainly(&text));
        }

        /// That crate goes on after a joiner with a pictograph in a way of its own, so joiners are left out.
        #[test]
        fn words_are_those_of_another_implementation(text in texts()) {
            let text = text.replace('\u{200d}', "\u{301}");
            prop_assert_eq!(words(&text), text.unicode_words().collect::<Vec<_>>());
        }
    }

    /// Every character is tried beside others of each class, which tells its class and its other properties.
    #[test]
    fn every_character_has_the_properties_that_another_implementation_gives_it() {
        let mut text = String::new();
        for c in '\0'..=char::MAX {
            text.clear();
            for (before, after) in [
                ("a", "a"),
                ("1", "1"),
                ("\u{5d0}", "\u{5d0}"),
                ("ア", "ア"),
                ("\u{200d}", "\u{93e}"),
                ("\n", "\u{93e}"),
                (" ", "\u{93e}"),
                ("🇩", "\u{93e}"),
            ] {
                text.extend([before, c.encode_utf8(&mut [0; 4]), after, "\n"]);
            }
            assert!(Words::of(&text).eq(text.unicode_words()), "{c:?} {text:?}");
        }
    }

    #[test]
    fn long_texts_without_a_boundary_take_one_pass() {
        for unit in ["a", " ", "'\u{301}", "\u{301}", "é", "_", "\u{200d}", "🇩"] {
            let text = unit.repeat(1 << 20);
            assert!(Words::of(&text).count() <= 1 << 20, "{unit}");
        }
    }
}
