//! Folding: what two letters become that readers hold to be one.
//!
//! A text is decomposed before it is folded and composed behind it, so each fold is said once, of a letter or a
//! mark. `ranges.rs` has the folds of one character to one, as they are between composed characters.
//!
//! * Case: the full case folding of `CaseFolding.txt` (status C and F).
//! * `I`, `i`, dotless `ı` and `İ` are one: which of them is the capital of which depends on the language
//!   (`SpecialCasing.txt`). A dot above an `i` or a `j` goes, which Lithuanian keeps below accents.
//! * Greek letters lose their accents, breathings and diaereses, as they do in capitals: the transform `el-Upper` of
//!   CLDR. The circumflex, the tilde and the inverted breve are there because some write them for a perispomeni, as
//!   ICU has them in its upper-casing of Greek.
//! * Comma below and cedilla are one: Romanian ș and ț are also written ş and ţ. Lucene's `RomanianNormalizer`
//!   folds them.
//! * Arabic letters for one in several languages. Each is folded by a normaliser in wide use:
//!   - the yehs ي ی (Lucene's `PersianNormalizer`, `SoraniNormalizer`) and ى (`ArabicNormalizer`, `SoraniNormalizer`).
//!     In Arabic, ى is also a letter of its own, the alef maksura, and few words differ in it alone;
//!   - the kafs ك ک (`PersianNormalizer`, `SoraniNormalizer`);
//!   - the hehs ه ہ (`PersianNormalizer`), ھ ە (`SoraniNormalizer`, of ە at the end of a word; the normaliser of Hazm
//!     everywhere). In Urdu, ھ is a letter of its own, but where a text has ه, nothing says which is meant;
//!   - the teh marbutas ة ۃ: Hazm takes the second and `ArabicNormalizer` the first for a heh. They are one here, but
//!     no heh;
//!   - the two rows of Arabic digits (`DecimalDigitFilter`; one weight in the collation of Unicode).
//! * What the default table of the Unicode Collation Algorithm (`allkeys.txt`) holds equal but for the third level,
//!   that of capitals and variants: a Malayalam chillu and its consonant with a virama, a Bengali khanda ta and ta with
//!   a virama, a Yiddish digraph and its two letters. With a joiner, which is not seen, the former are how a chillu and
//!   a khanda ta were written before they were encoded (Lucene's `IndicNormalizer` composes them). So a chillu is also
//!   one with a consonant whose virama is seen, though a few words differ in nothing else.
//! * A tatweel and the lajanyalan of N'Ko only stretch a word. `allkeys.txt` ignores both.

use super::properties::{Class, Properties};
use super::ranges::FOLDINGS;

/// The one character that a character folds to, apart from those that fold to several.
pub(in crate::text) fn fold(c: char) -> char {
    if c.is_ascii() {
        return c.to_ascii_lowercase();
    }
    if !Properties::of(c).folds() {
        return c;
    }
    let code = u32::from(c);
    let (_, _, _, distance) = FOLDINGS[FOLDINGS.partition_point(|&(_, last, ..)| last < code)];
    code.checked_add_signed(distance)
        .and_then(char::from_u32)
        .unwrap_or(c)
}

/// Folds the characters of a decomposed text, one after another.
#[derive(Default)]
pub(in crate::text) struct Folding {
    /// The last character that is no mark, folded.
    base: char,
}

impl Folding {
    /// What a character becomes behind those before it.
    pub(in crate::text) fn next(&mut self, c: char) -> impl Iterator<Item = char> + use<> {
        let [first, second] = self.folded(c);
        first.into_iter().chain(second)
    }

    fn folded(&mut self, c: char) -> [Option<char>; 2] {
        let properties = Properties::of(c);
        if properties.is_dropped() {
            return [None; 2];
        }
        if properties.class() == Class::Mark && is_lost_on(self.base, c) {
            return [None; 2];
        }
        if let Some((first, second)) = two_letters(c) {
            self.base = first;
            return [Some(first), Some(second)];
        }
        let folded = fold(c);
        if Properties::of(folded).class() != Class::Mark {
            self.base = folded;
        }
        [Some(folded), None]
    }
}

/// Whether a mark says nothing on this letter. The letter is folded.
const fn is_lost_on(base: char, mark: char) -> bool {
    match base {
        'i' | 'j' => mark == '\u{307}',
        // Grave, acute, circumflex, tilde, macron, breve, diaeresis, inverted breve, psili, dasia, perispomeni.
        '\u{370}'..='\u{3ff}' => matches!(
            mark,
            '\u{300}'
                ..='\u{304}'
                    | '\u{306}'
                    | '\u{308}'
                    | '\u{311}'
                    | '\u{313}'
                    | '\u{314}'
                    | '\u{342}'
        ),
        _ => false,
    }
}

/// The letters that one is written for.
const fn two_letters(c: char) -> Option<(char, char)> {
    const MALAYALAM_VIRAMA: char = '\u{d4d}';
    Some(match c {
        'ß' | 'ẞ' => ('s', 's'),
        '\u{5f0}' => ('\u{5d5}', '\u{5d5}'),
        '\u{5f1}' => ('\u{5d5}', '\u{5d9}'),
        '\u{5f2}' => ('\u{5d9}', '\u{5d9}'),
        '\u{9ce}' => ('\u{9a4}', '\u{9cd}'),
        '\u{d54}' => ('\u{d2e}', MALAYALAM_VIRAMA),
        '\u{d55}' => ('\u{d2f}', MALAYALAM_VIRAMA),
        '\u{d56}' => ('\u{d34}', MALAYALAM_VIRAMA),
        '\u{d7a}' => ('\u{d23}', MALAYALAM_VIRAMA),
        '\u{d7b}' => ('\u{d28}', MALAYALAM_VIRAMA),
        '\u{d7c}' => ('\u{d30}', MALAYALAM_VIRAMA),
        '\u{d7d}' => ('\u{d32}', MALAYALAM_VIRAMA),
        '\u{d7e}' => ('\u{d33}', MALAYALAM_VIRAMA),
        '\u{d7f}' => ('\u{d15}', MALAYALAM_VIRAMA),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The standard library knows lower case and not folding. So this leaves out the letters that fold to
    /// another letter than their lower case: those of one kind, Greek ones with accents, and Cherokee, which
    /// folds to upper case.
    #[test]
    fn letters_fold_to_their_lower_case() {
        let version = char::UNICODE_VERSION;
        let mut changed = 0;
        for c in ('\0'..=char::MAX).filter(|&c| Properties::of(c).is_assigned()) {
            let folded = fold(c);
            changed += usize::from(folded != c && !c.is_ascii());
            let mut lower = c.to_lowercase();
            if let (Some(lower), None) = (lower.next(), lower.next())
                && lower != c
                && folded != c
                && fold(lower) == lower
                && !matches!(c, '\u{13a0}'..='\u{13f5}' | '\u{370}'..='\u{3ff}')
            {
                assert_eq!(folded, lower, "{c:?}, standard library {version:?}");
            }
            assert_eq!(fold(folded), folded, "{c:?}");
        }
        assert_eq!(changed, 1325);
    }

    #[test]
    fn some_letters_fold_to_another_than_their_lower_case() {
        for (c, folded) in [
            ('ς', 'σ'),
            ('Ά', 'α'),
            ('ϋ', 'υ'),
            ('İ', 'i'),
            ('ı', 'i'),
            ('Ș', 'ş'),
            ('\u{ab70}', '\u{13a0}'),
            ('ᏸ', 'Ᏸ'),
            ('ک', 'ك'),
            ('ی', 'ي'),
            ('ى', 'ي'),
            ('۴', '٤'),
        ] {
            assert_eq!(fold(c), folded);
        }
        for same in ['ß', 'é', '文', 'ʼ', 'أ', 'ں'] {
            assert_eq!(fold(same), same);
        }
    }
}
