//! The words of a text: runs of letters, marks and numbers.
//!
//! All else parts words, whatever stands on its sides: punctuation, apostrophes and symbols as well as spaces. So a
//! text has the same words with one kind of apostrophe as with another, and with a space behind a stop as without.
//! In scripts that put no spaces between words, each character is one. This is Unicode Standard Annex #29 without
//! the rules that let punctuation stand within words.
//!
//! The plain algorithm looks up the class of each character; the tests have it. This code departs from it in one
//! way: it runs over ASCII letters and digits by eight bytes.

use super::properties::{Class, Properties};

/// The words of a text.
///
/// # Cost
///
/// One pass over the text, and no allocation.
#[derive(Debug)]
struct Words<'a> {
    text: &'a str,
    /// Where the rest of the text begins.
    at: usize,
}

impl<'a> Words<'a> {
    /// Where the first word begins from here on, and its class. `None` behind the last word.
    fn start(&self) -> Option<(usize, Class)> {
        let bytes = self.text.as_bytes();
        let mut at = self.at;
        while let Some(&byte) = bytes.get(at) {
            if byte.is_ascii() {
                if byte.is_ascii_alphanumeric() {
                    return Some((at, Class::Word));
                }
                at += 1;
                continue;
            }
            let c = self.text[at..].chars().next()?;
            match Properties::new(c).class() {
                Class::Parting | Class::Mark => at += c.len_utf8(),
                class @ (Class::Word | Class::Katakana | Class::Single) => {
                    return Some((at, class));
                }
            }
        }
        None
    }

    /// Where the word of this class ends that begins here.
    fn end(&self, start: usize, class: Class) -> usize {
        let bytes = self.text.as_bytes();
        let mut end = start;
        if class == Class::Single {
            end += self.text[start..].chars().next().map_or(0, char::len_utf8);
        }
        loop {
            if class == Class::Word {
                end += alphanumeric_run(&bytes[end..]);
            }
            if bytes.get(end).is_none_or(u8::is_ascii) {
                return end;
            }
            let Some(c) = self.text[end..].chars().next() else {
                return end;
            };
            match Properties::new(c).class() {
                Class::Mark => {}
                other if other == class && class != Class::Single => {}
                _ => return end,
            }
            end += c.len_utf8();
        }
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (start, class) = self.start()?;
        self.at = self.end(start, class);
        Some(&self.text[start..self.at])
    }
}

/// The tokens of a normalised text: its words. In scripts that put no spaces between words they are single
/// characters.
pub(crate) fn tokens(text: &str) -> impl Iterator<Item = &str> {
    Words { text, at: 0 }
}

/// Whether a token is of a script that puts no spaces between words.
pub(in crate::text) fn is_unspaced(token: &str) -> bool {
    // All of these take three bytes or more, once they are normalised. Most tokens do not.
    token.bytes().next().is_some_and(|first| first >= 0xE0)
        && token.starts_with(|c| Properties::new(c).class() == Class::Single)
}

/// How many bytes from the first one on are ASCII letters and digits.
///
/// The plain algorithm tests byte after byte. But a word ends at a place that the processor cannot foresee,
/// so that costs more than to test eight bytes together.
fn alphanumeric_run(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        let rest = &bytes[length..];
        let eight = rest.first_chunk::<8>().copied().unwrap_or_else(|| {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            padded
        });
        let inside = (!alphanumeric(u64::from_le_bytes(eight)) & HIGH).trailing_zeros() / 8;
        length += inside as usize;
        if inside < 8 {
            return length;
        }
    }
}

/// The highest bit of each of eight bytes.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Eight bytes at once: the highest bit of each tells whether it is an ASCII letter or digit.
const fn alphanumeric(bytes: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    const fn is_least(bytes: u64, least: u8) -> u64 {
        bytes + each(0x80 - least)
    }
    // Bytes without their highest bit do not carry into one another when a number below 128 is added.
    let low = bytes & !HIGH;
    let lower = low | each(0x20);
    let letter = is_least(lower, b'a') & !is_least(lower, b'z' + 1);
    let digit = is_least(low, b'0') & !is_least(low, b'9' + 1);
    (letter | digit) & !bytes & HIGH
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;
    use unicode_segmentation::UnicodeSegmentation as _;

    use super::super::properties::Property;
    use super::*;

    /// The plain algorithm: each character in turn begins a word, goes on with one, or ends it.
    fn plainly(text: &str) -> Vec<String> {
        let mut words: Vec<String> = Vec::new();
        let mut last = Class::Parting;
        for c in text.chars() {
            let class = Properties::new(c).class();
            match (last, class) {
                (_, Class::Parting) => last = class,
                (Class::Parting, Class::Mark) => {}
                (Class::Word, Class::Word)
                | (Class::Katakana, Class::Katakana)
                | (_, Class::Mark) => {
                    words.last_mut().expect("a word was begun").push(c);
                }
                _ => {
                    words.push(c.to_string());
                    last = class;
                }
            }
        }
        words
    }

    fn words(text: &str) -> Vec<&str> {
        tokens(text).collect()
    }

    #[test]
    fn punctuation_parts_words_whatever_stands_on_its_sides() {
        assert_eq!(
            words("_one_ end.Next end:Next 1,000.50 3·4"),
            [
                "one", "end", "Next", "end", "Next", "1", "000", "50", "3", "4"
            ]
        );
        for apostrophe in "'’‘`´ʻʼ＇‛′ꞌ׳״\"".chars() {
            assert_eq!(
                words(&format!("{apostrophe}l{apostrophe}eau{apostrophe}")),
                ["l", "eau"],
                "{apostrophe:?}"
            );
        }
        assert_eq!(
            words("Webサイトを2x e\u{301}a \u{301}b"),
            ["Web", "サイト", "を", "2x", "e\u{301}a", "b"]
        );
    }

    /// The characters of a text of the official test file, and whether a boundary is before each and at the end.
    fn official(line: &str) -> Option<(Vec<char>, Vec<bool>)> {
        let line = line.split('#').next()?.trim();
        let hex = |hex| u32::from_str_radix(hex, 16).ok().and_then(char::from_u32);
        let characters = line.split_whitespace().filter_map(hex).collect();
        let signs = line
            .split_whitespace()
            .filter(|&sign| sign == "÷" || sign == "×");
        (!line.is_empty()).then(|| (characters, signs.map(|sign| sign == "÷").collect()))
    }

    /// Where two neighbours are letters, numbers or marks behind such, the annex and this code say the same. All
    /// lines of the official test file are tried.
    #[test]
    fn between_letters_words_end_where_the_official_test_file_says() -> std::io::Result<()> {
        let file = include_bytes!("../../../tests/data/unicode/WordBreakTest-17.0.0.txt.gz");
        let mut lines = String::new();
        flate2::read::GzDecoder::new(file.as_slice()).read_to_string(&mut lines)?;
        let mut checked = 0;
        let mut joined = 0;
        for (characters, is_boundary) in lines.lines().filter_map(official) {
            for at in 1..characters.len() {
                let classes = [at - 1, at].map(|at| Properties::new(characters[at]).class());
                if classes.contains(&Class::Parting) || classes[0] == Class::Mark {
                    continue;
                }
                let pair: String = characters[at - 1..=at].iter().collect();
                assert_eq!(words(&pair).len() == 2, is_boundary[at], "{pair:?}");
                checked += 1;
                joined += usize::from(!is_boundary[at]);
            }
        }
        assert_eq!((checked, joined), (247, 230));
        Ok(())
    }

    /// Texts of characters of every class, and many that are ASCII.
    fn texts() -> impl Strategy<Value = String> {
        let of_all_classes = "\n\u{85}éß文ไ\u{5d0}アイ\u{301}\u{93e}\u{1680}’\u{37e}·٣🇩🇪🅰ℹ“”ʼ";
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
    }

    /// Every character is tried beside a letter, a number, a Katakana and a Han character. Where it is no
    /// punctuation, another implementation of the annex gives the same words.
    #[test]
    fn every_character_has_the_class_that_another_implementation_gives_it() {
        let mut text = String::new();
        let mut tried = 0;
        for c in '\0'..=char::MAX {
            let properties = Properties::new(c);
            // The annex has a word boundary on both sides of a sign of Braille.
            let is_braille = matches!(c, '\u{2801}'..='\u{28ff}');
            if matches!(properties.class(), Class::Parting) || is_braille {
                continue;
            }
            text.clear();
            for (before, after) in [("a", "a"), ("1", "1"), ("ア", "ア"), ("文", "文")] {
                text.extend([before, c.encode_utf8(&mut [0; 4]), after, "\n"]);
            }
            assert!(tokens(&text).eq(text.unicode_words()), "{c:?} {text:?}");
            tried += 1;
        }
        assert!(tried > 140_000, "{tried}");
    }

    /// What parts words is no letter and no number, but for apostrophes.
    #[test]
    fn what_parts_words_is_no_letter() {
        let is_letter =
            |c: &char| c.is_alphanumeric() && Properties::new(*c).has(Property::Assigned);
        let parting = ('\0'..=char::MAX).filter(is_letter).filter(|&c| {
            let properties = Properties::new(c);
            properties.class() == Class::Parting && !properties.has(Property::Dropped)
        });
        assert_eq!(parting.collect::<String>(), "ʹʺʻʼʽʾʿˈˮߴߵꞋꞌ");
    }

    #[test]
    fn long_texts_without_a_boundary_take_one_pass() {
        for unit in ["a", " ", "'\u{301}", "\u{301}", "é", "_", "ア", "文", "🇩"] {
            let text = unit.repeat(1 << 20);
            assert!(tokens(&text).count() <= 1 << 20, "{unit}");
        }
    }

    #[test]
    fn unspaced_scripts_have_single_characters_as_tokens() {
        let text = "two words, 中文字 かな カタカナ ไทย 한국어";
        let found: Vec<(&str, bool)> = tokens(text)
            .map(|token| (token, is_unspaced(token)))
            .collect();
        let spaced = |token| (token, false);
        let unspaced = |token| (token, true);
        let expected = ["two", "words"]
            .map(spaced)
            .into_iter()
            .chain(["中", "文", "字", "か", "な"].map(unspaced));
        let expected = expected
            .chain([spaced("カタカナ")])
            .chain(["ไ", "ท", "ย"].map(unspaced))
            .chain([spaced("한국어")]);
        assert_eq!(found, expected.collect::<Vec<_>>());
    }

    #[test]
    fn each_byte_is_what_it_is_in_each_place() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                for others in [b'a', b' ', 0xFF, 0] {
                    let mut bytes = [others; 8];
                    bytes[place] = byte;
                    let expected = bytes.map(|byte| {
                        if byte.is_ascii_alphanumeric() {
                            0x80
                        } else {
                            0
                        }
                    });
                    assert_eq!(
                        alphanumeric(u64::from_le_bytes(bytes)),
                        u64::from_le_bytes(expected),
                        "{bytes:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn runs_of_every_length_end_where_they_end() {
        for length in 0..40 {
            for letter in ["x", "7"] {
                for behind in ["", " ", " ab", "é", ".aaaaaaaaaaaa", "_"] {
                    let run =
                        alphanumeric_run(format!("{}{behind}", letter.repeat(length)).as_bytes());
                    assert_eq!(run, length, "{letter:?} {behind:?}");
                }
            }
        }
    }
}
