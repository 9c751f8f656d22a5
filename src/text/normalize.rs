//! Case and Unicode folding. Texts that look the same to a reader become the same text.

use std::borrow::Cow;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

use super::unicode::{Properties, fold};

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

/// Normalises and folds a piece that is mostly not ASCII.
///
/// Two kinds of characters stay the same and compose with nothing. Han characters do so by their nature. The
/// others are those that are not in the version of Unicode that the schemes have. A later version of the
/// normalising crate knows some of them, and no fingerprint may depend on that.
fn fold_into(text: &str, folded: &mut String) {
    let stays = |c: char| matches!(c, '\u{4E00}'..='\u{9FFF}') || !Properties::of(c).is_assigned();
    let mut rest = text;
    while !rest.is_empty() {
        let (same, other) = rest.split_at(rest.find(|c| !stays(c)).unwrap_or(rest.len()));
        folded.push_str(same);
        let (other, behind) = other.split_at(other.find(stays).unwrap_or(other.len()));
        match is_nfkc_quick(other.chars()) {
            IsNormalized::Yes => folded.extend(other.chars().map(fold)),
            IsNormalized::No | IsNormalized::Maybe => folded.extend(other.nfkc().map(fold)),
        }
        rest = behind;
    }
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

    /// Another digest would be another fingerprint of some text. A later release of the normalising crate
    /// that changes one character of this version of Unicode fails here.
    #[test]
    fn what_the_schemes_know_of_unicode_never_changes() {
        let mut digest = xxhash_rust::xxh3::Xxh3::new();
        let mut beside = String::new();
        for c in '\0'..=char::MAX {
            digest.update(normalize(c.encode_utf8(&mut [0; 4])).as_bytes());
            digest.update(&[Properties::of(c).bits()]);
            if Properties::of(c).is_assigned() {
                // How accents are sorted, and what composes.
                digest.update(&[unicode_normalization::char::canonical_combining_class(c)]);
                beside.clear();
                beside.extend(std::iter::once(c).nfd());
                digest.update(normalize(&beside).as_bytes());
            }
        }
        assert_eq!(format!("{:016x}", digest.digest()), "ab1305f9918f0b25");
    }

    /// U+0378 has no character in the version that the schemes have.
    #[test]
    fn characters_of_later_versions_stay_and_compose_with_nothing() {
        assert!(!Properties::of('\u{378}').is_assigned());
        assert_eq!(normalize("Å\u{378}\u{30a}Ａ\u{378}"), "å\u{378}\u{30a}a\u{378}");
        // The crate may know some of them as accents, which would be sorted, or as letters that decompose.
        let later = ('\0'..=char::MAX).filter(|&c| !Properties::of(c).is_assigned());
        for c in later {
            assert_eq!(normalize(&format!("é{c}\u{301}")), format!("é{c}\u{301}"));
        }
    }

    #[test]
    fn ascii_in_lower_case_is_not_copied() {
        assert!(matches!(normalize("already plain"), Cow::Borrowed(_)));
    }
}
