//! Simple case folding.

use super::properties::Properties;
use super::ranges::FOLDINGS;

/// The simple case folding of a character. One character becomes one, whatever its neighbours are. So a Greek
/// final sigma and the letters of a title become the same as in the middle of a text.
pub(in crate::text) fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    if !Properties::of(c).folds() {
        return c;
    }
    let code = u32::from(c);
    let (_, _, _, distance) = FOLDINGS[FOLDINGS.partition_point(|&(_, last, ..)| last < code)];
    code.checked_add_signed(distance).and_then(char::from_u32).unwrap_or(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library knows lower case and not folding. So this leaves out the letters that fold to
    /// another letter than their lower case: those below and Cherokee, which folds to upper case.
    #[test]
    fn letters_fold_to_their_lower_case() {
        let version = char::UNICODE_VERSION;
        let mut changed = 0;
        for c in ('\0'..=char::MAX).filter(|&c| Properties::of(c).is_assigned()) {
            changed += usize::from(fold(c) != c);
            let mut lower = c.to_lowercase();
            if let (Some(lower), None) = (lower.next(), lower.next())
                && lower != c
                && Properties::of(lower).is_assigned()
                && !matches!(c, '\u{13a0}'..='\u{13f5}')
            {
                assert_eq!(fold(c), lower, "{c:?}, standard library {version:?}");
            }
            assert_eq!(fold(fold(c)), fold(c), "{c:?}");
        }
        // The lines of status C and S in CaseFolding.txt, version 17.0.0.
        assert_eq!(changed, 1512);
    }

    #[test]
    fn some_letters_fold_to_another_than_their_lower_case() {
        for (c, folded) in
            [('ς', 'σ'), ('ſ', 's'), ('ẞ', 'ß'), ('\u{ab70}', '\u{13a0}'), ('ᏸ', 'Ᏸ'), ('µ', 'μ')]
        {
            assert_eq!(fold(c), folded);
        }
        for same in ['ß', 'ı', 'İ', '文', 'ʼ'] {
            assert_eq!(fold(same), same);
        }
    }
}
