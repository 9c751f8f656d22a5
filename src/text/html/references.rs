//! Character references: `&amp;`, `&#8217;`, `&#x2019;`, and what stands for them.
//!
//! The names are those of the HTML standard, section 13.5, as its file `entities.json` lists them. The standard says
//! that no name will ever be added. In `references.txt`, a star stands behind the names that need no semicolon.

use std::collections::HashMap;
use std::sync::LazyLock;

use arrayvec::ArrayString;
use foldhash::fast::RandomState;
use memchr::memchr;

/// Characters in UTF-8 that stand for a reference: one or two.
pub(super) type Characters = ArrayString<8>;

/// The reference at the begin of `text`, which is a `&`: how long it is, and what stands for it. `None` if it is none.
pub(super) fn reference(text: &[u8], within: Within) -> Option<(usize, Characters)> {
    match text.get(1)? {
        b'#' => numeric(text),
        byte if byte.is_ascii_alphanumeric() => named(text, within),
        _ => None,
    }
}

/// Where a reference stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Within {
    Text,
    /// There, `&copy=` is part of an address.
    Attribute,
}

/// Hands out `text` with what stands for its references.
pub(super) fn decode(mut text: &[u8], within: Within, mut take: impl FnMut(&[u8])) {
    while let Some(at) = memchr(b'&', text) {
        let (before, from) = text.split_at(at);
        take(before);
        text = match reference(from, within) {
            Some((len, characters)) => {
                take(characters.as_bytes());
                &from[len..]
            }
            None => {
                take(b"&");
                &from[1..]
            }
        };
    }
    take(text);
}

fn numeric(text: &[u8]) -> Option<(usize, Characters)> {
    let is_hexadecimal = matches!(text.get(2), Some(b'x' | b'X'));
    let begin = if is_hexadecimal { 3 } else { 2 };
    let radix = if is_hexadecimal { 16 } else { 10 };
    let mut code = 0_u32;
    let mut end = begin;
    while let Some(digit) = text
        .get(end)
        .and_then(|&byte| char::from(byte).to_digit(radix))
    {
        code = code.saturating_mul(radix).saturating_add(digit);
        end += 1;
    }
    if end == begin {
        return None;
    }
    end += usize::from(text.get(end) == Some(&b';'));
    let mut character = Characters::new();
    character.push(char_of(code));
    Some((end, character))
}

/// The character of a number: those between 80 and 9F are of windows-1252, as everybody wrote them.
fn char_of(code: u32) -> char {
    const WINDOWS_1252: [u16; 32] = [
        0x20AC, 0x81, 0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
        0x2039, 0x0152, 0x8D, 0x017D, 0x8F, 0x90, 0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013,
        0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0x9D, 0x017E, 0x0178,
    ];
    match code {
        0 => None,
        0x80..=0x9F => char::from_u32(u32::from(WINDOWS_1252[code as usize - 0x80])),
        code => char::from_u32(code),
    }
    .unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn named(text: &[u8], within: Within) -> Option<(usize, Characters)> {
    let rest = &text[1..text.len().min(LONGEST + 2)];
    let letters = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric())
        .count();
    if rest.get(letters) == Some(&b';')
        && let Some(known) = KNOWN.get(&rest[..letters])
    {
        return Some((letters + 2, known.characters));
    }
    let (len, known) = without_semicolon(&rest[..letters.min(LONGEST_WITHOUT_SEMICOLON)])?;
    let behind = rest.get(len);
    if within == Within::Attribute
        && behind.is_some_and(|&byte| byte == b'=' || byte.is_ascii_alphanumeric())
    {
        return None;
    }
    Some((len + 1, known.characters))
}

/// The longest name that needs no semicolon and with which `letters` begin, and its length.
fn without_semicolon(letters: &[u8]) -> Option<(usize, &'static NamedReference)> {
    for len in (1..=letters.len()).rev() {
        if let Some(known) = KNOWN.get(&letters[..len])
            && !known.needs_semicolon
        {
            return Some((len, known));
        }
    }
    None
}

/// The letters of the longest name.
const LONGEST: usize = 31;

/// The letters of the longest name that needs no semicolon.
const LONGEST_WITHOUT_SEMICOLON: usize = 6;

struct NamedReference {
    needs_semicolon: bool,
    characters: Characters,
}

static KNOWN: LazyLock<HashMap<&[u8], NamedReference, RandomState>> = LazyLock::new(|| {
    let lines = include_str!("references.txt").lines();
    lines.filter_map(from_line).collect()
});

/// A line of the table: `AElig* C6`, or `fjlig 66+6A`.
fn from_line(line: &str) -> Option<(&[u8], NamedReference)> {
    let (name, codes) = line.split_once(' ')?;
    let mut characters = Characters::new();
    for code in codes.split('+') {
        characters.push(char::from_u32(u32::from_str_radix(code, 16).ok()?)?);
    }
    let known = NamedReference {
        needs_semicolon: !name.ends_with('*'),
        characters,
    };
    Some((name.trim_end_matches('*').as_bytes(), known))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(text: &str, within: Within) -> String {
        let mut decoded = Vec::new();
        decode(text.as_bytes(), within, |more| {
            decoded.extend_from_slice(more);
        });
        String::from_utf8(decoded).expect("what stands for references is UTF-8")
    }

    #[test]
    fn names_are_read_with_and_without_a_semicolon() {
        assert_eq!(
            decoded("a&amp;b &eacute;&hellip;&nosuch; x&lt;y", Within::Text),
            "a&b \u{e9}\u{2026}&nosuch; x<y"
        );
        assert_eq!(
            decoded("&ampx &notin; &notit; &hellip &AMP&Amp;", Within::Text),
            "&x \u{2209} \u{ac}it; &hellip &&Amp;"
        );
        assert_eq!(
            decoded("&NotEqualTilde;&fjlig;&", Within::Text),
            "\u{2242}\u{338}fj&"
        );
        assert_eq!(
            decoded("&CounterClockwiseContourIntegral;", Within::Text),
            "\u{2233}"
        );
    }

    #[test]
    fn addresses_in_attributes_are_left_as_they_are() {
        assert_eq!(
            decoded("?a&copy=1&copy2&copy;&copy &lt", Within::Attribute),
            "?a&copy=1&copy2\u{a9}\u{a9} <"
        );
        assert_eq!(
            decoded("?a&copy=1&copy2", Within::Text),
            "?a\u{a9}=1\u{a9}2"
        );
    }

    #[test]
    fn numbers_are_characters() {
        assert_eq!(
            decoded("&#65;&#x41&#X41;&#65B&#;&#x;&#xg", Within::Text),
            "AAAAB&#;&#x;&#xg"
        );
        assert_eq!(
            decoded("&#146;&#x80;&#x81;", Within::Text),
            "\u{2019}\u{20ac}\u{81}"
        );
        assert_eq!(
            decoded(
                "&#0;&#xD800;&#x110000;&#99999999999999999999;",
                Within::Text
            ),
            "\u{fffd}".repeat(4)
        );
        assert_eq!(
            decoded("&#x1F600;&#xFFFE;", Within::Text),
            "\u{1f600}\u{fffe}"
        );
    }

    #[test]
    fn the_table_is_whole() {
        assert_eq!(KNOWN.len(), 2_125);
        let longest = KNOWN.keys().map(|name| name.len()).max();
        assert_eq!(longest, Some(LONGEST));
        let short = KNOWN.iter().filter(|(_, known)| !known.needs_semicolon);
        assert_eq!(short.clone().count(), 106);
        let longest = short.map(|(name, _)| name.len()).max();
        assert_eq!(longest, Some(LONGEST_WITHOUT_SEMICOLON));
        for (name, known) in &*KNOWN {
            assert!(name.len() >= 2 && !known.characters.is_empty());
        }
    }
}
