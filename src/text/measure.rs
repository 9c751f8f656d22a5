//! How alike two texts are, computed from the texts themselves.

use std::collections::HashMap;
use std::fmt;

use super::unicode::{normalize, tokens};

/// How alike two texts are, computed exactly from their words: 0 if no word is common, 1 if the words are the same.
///
/// Words are the tokens of the schemes ([`Fingerprinter`](crate::Fingerprinter), steps 2 and 3): words of the
/// normalised text, and single characters in scripts without spaces. Their order does not count. A text without
/// words is like nothing, and the value is 0.
///
/// It is for a last look at documents that a query has found ([`Query::verify`](crate::Query::verify)), by programs
/// that keep the texts.
///
/// # Cost
///
/// Both texts are normalised and cut into words: time and memory linear in their lengths.
///
/// # Example
///
/// ```
/// use simdb::TextMeasure;
///
/// let a = "The museum opens. The doors close.";
/// let b = "the museum opens late";
/// // The words are the, museum, opens, doors, close and late. Three of these six are common.
/// assert_eq!(TextMeasure::Words.of(a, b), 0.5);
/// // The product of the counts is 2 + 1 + 1 = 4, the lengths are the roots of 8 and 4.
/// assert_eq!(TextMeasure::Cosine.of(a, b), 4.0 / 32.0_f64.sqrt());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum TextMeasure {
    /// The distinct words that both texts have, divided by those that at least one has.
    ///
    /// Archives of news compare articles so. It is the coefficient of Jaccard (1901) of the two sets.
    Words,
    /// The cosine of the vectors of word counts.
    ///
    /// It is that of the angle between them. So a word counts by how often it occurs, and
    /// frequent words decide.
    ///
    /// # References
    ///
    /// Salton, Wong, Yang: A Vector Space Model for Automatic Indexing, Communications of the ACM 18(11), 1975.
    Cosine,
}

impl TextMeasure {
    /// The value for two plain texts, from 0 to 1. [`Fingerprinter::text_of_html`](crate::Fingerprinter::text_of_html)
    /// gives the text of a page.
    pub fn of(self, a: &str, b: &str) -> f64 {
        let texts = [normalize(a), normalize(b)];
        let mut counts: HashMap<&str, [u64; 2], _> =
            HashMap::with_hasher(foldhash::fast::RandomState::default());
        for (index, text) in texts.iter().enumerate() {
            for token in tokens(text) {
                counts.entry(token).or_default()[index] += 1;
            }
        }
        self.of_counts(counts.into_values())
    }

    /// The value, from the number of times that each distinct word occurs in the one text and in the other.
    pub(crate) fn of_counts(self, counts: impl Iterator<Item = [u64; 2]>) -> f64 {
        let mut common = 0u64;
        let mut distinct = 0u64;
        let mut product = 0u64;
        let mut squares = [0u64; 2];
        for [a, b] in counts {
            common += u64::from(a > 0 && b > 0);
            distinct += 1;
            product += a * b;
            squares[0] += a * a;
            squares[1] += b * b;
        }
        if common == 0 {
            return 0.0;
        }
        match self {
            Self::Words => common as f64 / distinct as f64,
            Self::Cosine => {
                (product as f64 / (squares[0] as f64 * squares[1] as f64).sqrt()).min(1.0)
            }
        }
    }

    /// Its name: `words` or `cosine`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Words => "words",
            Self::Cosine => "cosine",
        }
    }
}

impl fmt::Display for TextMeasure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand. `a` has a twice and b, `b` has a once, b twice and c.
    #[test]
    fn words_are_compared_as_sets_and_as_counts() {
        let a = "a b a";
        let b = "b A, c b";
        assert_eq!(TextMeasure::Words.of(a, b), 2.0 / 3.0);
        // The product is 2 * 1 + 1 * 2, the squares are 4 + 1 and 1 + 4 + 1.
        assert_eq!(TextMeasure::Cosine.of(a, b), 4.0 / 30.0_f64.sqrt());
        // Characters of Han are words: five distinct ones, of which three are common.
        assert_eq!(TextMeasure::Words.of("博物馆开", "博物馆閉"), 0.6);
        assert_eq!(TextMeasure::Cosine.of("博物馆开", "博物馆閉"), 0.75);
    }

    #[test]
    fn the_same_words_give_one_and_others_nothing() {
        for measure in [TextMeasure::Words, TextMeasure::Cosine] {
            assert_eq!(
                measure.of("One two,  TWO three!", "two ｔｗｏ one three"),
                1.0,
                "{measure}"
            );
            assert_eq!(measure.of("one two", "three four"), 0.0);
            for empty in ["", "...", " "] {
                assert_eq!(
                    (measure.of(empty, empty), measure.of(empty, "one")),
                    (0.0, 0.0)
                );
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn values_are_symmetric_and_from_0_to_1(a in "[a-d中 ]{0,30}", b in "[a-d中 ]{0,30}") {
            for measure in [TextMeasure::Words, TextMeasure::Cosine] {
                let value = measure.of(&a, &b);
                proptest::prop_assert_eq!(value, measure.of(&b, &a));
                proptest::prop_assert!((0.0..=1.0).contains(&value));
                proptest::prop_assert!(a.trim().is_empty() || measure.of(&a, &a) == 1.0);
            }
        }
    }
}
