//! Case and Unicode folding. Texts that look the same to a reader become the same text.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// Returns `text` in Unicode normalisation form KC, with simple case folding. Full-width letters,
/// ligatures and composed accents become one form. White space stays, because features do not contain any.
pub(crate) fn normalize(text: &str) -> Cow<'_, str> {
    if text.is_ascii() {
        return if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(text.to_ascii_lowercase())
        } else {
            Cow::Borrowed(text)
        };
    }
    let mut folded = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        // Plain ASCII stays the same, except that its last letter may compose with an accent behind it.
        // Nothing before an ASCII character composes with it.
        let ascii =
            rest.bytes().position(|byte| !byte.is_ascii()).map_or(rest.len(), |at| at.saturating_sub(1));
        let (plain, other) = rest.split_at(ascii);
        let start = folded.len();
        folded.push_str(plain);
        folded[start..].make_ascii_lowercase();
        let first = other.chars().next().map_or(0, char::len_utf8);
        let end =
            other[first..].bytes().position(|byte| byte.is_ascii()).map_or(other.len(), |at| first + at);
        let (other, behind) = other.split_at(end);
        fold_into(other, &mut folded);
        rest = behind;
    }
    Cow::Owned(folded)
}

/// Normalises and folds a piece that is mostly not ASCII. Han characters stay the same, and compose with
/// nothing.
fn fold_into(text: &str, folded: &mut String) {
    let is_han = |c: char| matches!(c, '\u{4E00}'..='\u{9FFF}');
    let mut rest = text;
    while !rest.is_empty() {
        let (han, other) = rest.split_at(rest.find(|c| !is_han(c)).unwrap_or(rest.len()));
        folded.push_str(han);
        let (other, behind) = other.split_at(other.find(is_han).unwrap_or(other.len()));
        match is_nfkc_quick(other.chars()) {
            IsNormalized::Yes => folded.extend(other.chars().map(fold)),
            IsNormalized::No | IsNormalized::Maybe => folded.extend(other.nfkc().map(fold)),
        }
        rest = behind;
    }
}

/// Simple case folding: one character becomes one, whatever its neighbours are. So a Greek final sigma and
/// the letters of a title become the same as in the middle of a text.
fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    unicode_case_mapping::case_folded(c).and_then(|folded| char::from_u32(folded.get())).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_folded_in_and_outside_ascii() {
        assert_eq!(normalize("Hello WORLD"), "hello world");
        assert_eq!(normalize("ÄÖÜ Σίσυφος ΣΊΣΥΦΟΣ"), "äöü σίσυφοσ σίσυφοσ");
        assert_eq!(normalize("ПРИВЕТ"), "привет");
    }

    #[test]
    fn compatible_forms_become_one() {
        assert_eq!(normalize("ＡＢＣ１２３ ﬁn e\u{301}"), "abc123 fin é");
        assert_eq!(normalize("漢字かな"), "漢字かな");
    }

    proptest::proptest! {
        /// The plain algorithm normalises the whole text at once.
        #[test]
        fn normalising_piece_by_piece_equals_the_whole(
            text in concat!(
                "([a-cA-C ]|[\u{300}-\u{30f}]|[éÅﬁＡ가中文，々\u{3099}か]",
                "|[\u{1100}-\u{1105}\u{1161}-\u{1165}\u{11a8}-\u{11ac}]|\\PC){0,40}"
            ),
        ) {
            let whole: String = text.nfkc().map(fold).collect();
            proptest::prop_assert_eq!(normalize(&text), whole);
        }
    }

    #[test]
    fn ascii_in_lower_case_is_not_copied() {
        assert!(matches!(normalize("already plain"), Cow::Borrowed(_)));
    }
}
