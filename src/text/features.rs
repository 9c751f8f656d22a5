//! The features of a text, which vote for its fingerprint: words and shingles, with their weights.

use unicode_segmentation::UnicodeSegmentation;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The features of a text.
pub(super) struct Features {
    /// The number of tokens of the text.
    pub(super) tokens: usize,
    /// The hashes of the features, sorted. A feature that occurs several times is there several times.
    hashes: Vec<u64>,
}

impl Features {
    /// The features of a normalised text, hashed with `seed`.
    ///
    /// Tokens are the words of Unicode Standard Annex #29. Each token is a feature, except in scripts that
    /// put no spaces between words. There the tokens are single characters, which say too little. So a
    /// feature is a character and the token that follows it, joined by a space.
    pub(super) fn of(text: &str, seed: u64) -> Self {
        let mut features = Self { tokens: 0, hashes: Vec::with_capacity(text.len() / 6) };
        let mut shingle = String::new();
        let mut words = pieces(text).flat_map(str::unicode_words).peekable();
        while let Some(word) = words.next() {
            features.tokens += 1;
            if !word.starts_with(is_unspaced) {
                features.hashes.push(xxh3_64_with_seed(word.as_bytes(), seed));
            } else if let Some(next) = words.peek() {
                shingle.clear();
                shingle.extend([word, " ", next]);
                features.hashes.push(xxh3_64_with_seed(shingle.as_bytes(), seed));
            }
        }
        features.hashes.sort_unstable();
        features
    }

    /// Each distinct feature with its weight: one more than the binary logarithm, rounded down, of the
    /// number of times it occurs. Without the logarithm, the frequent words of a language would make all
    /// its long texts alike.
    pub(super) fn weighted(&self) -> impl Iterator<Item = (u64, u32)> {
        self.hashes.chunk_by(|a, b| a == b).map(|same| (same[0], same.len().ilog2() + 1))
    }
}

/// Cuts a text into pieces that have the same words as the whole. The pieces are ASCII throughout where
/// that is possible, because the segmenter takes ASCII text three times as fast. Most texts have a
/// quotation mark or an accent somewhere.
///
/// Every cut is before a space or a line feed. No rule of Annex #29 joins these to the text before them,
/// except spaces to each other, and spaces are not words.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let is_space = |byte: u8| byte == b' ' || byte == b'\n';
    let mut rest = text;
    std::iter::from_fn(move || {
        let other = rest.bytes().position(|byte| !byte.is_ascii()).unwrap_or(rest.len());
        let end = match rest.as_bytes()[..other].iter().rposition(|&byte| is_space(byte)) {
            _ if other == rest.len() => other,
            Some(cut) if cut > 0 => cut,
            _ => rest.bytes().skip(other).position(is_space).map_or(rest.len(), |at| other + at),
        };
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Whether the script of the character puts no spaces between words: Han, Hiragana, Thai, Lao, Myanmar and
/// Khmer. The ranges are whole blocks of Unicode. So no later version of Unicode changes the characters in
/// them.
fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{0E00}'..='\u{0EFF}'     // Thai, Lao
        | '\u{1000}'..='\u{109F}'   // Myanmar
        | '\u{1780}'..='\u{17FF}'   // Khmer
        | '\u{2E80}'..='\u{2FDF}'   // Han radicals
        | '\u{3005}'..='\u{3007}'   // Han iteration mark, closing mark and zero
        | '\u{3040}'..='\u{309F}'   // Hiragana
        | '\u{3400}'..='\u{4DBF}'   // Han, extension A
        | '\u{4E00}'..='\u{9FFF}'   // Han
        | '\u{A9E0}'..='\u{A9FF}'   // Myanmar, extended B
        | '\u{AA60}'..='\u{AA7F}'   // Myanmar, extended A
        | '\u{F900}'..='\u{FAFF}'   // Han, compatibility
        | '\u{1B000}'..='\u{1B16F}' // Hiragana, supplement and extensions
        | '\u{20000}'..='\u{3FFFF}' // Han, the supplementary planes
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(features: &[&str]) -> Vec<u64> {
        let mut hashes: Vec<u64> =
            features.iter().map(|feature| xxh3_64_with_seed(feature.as_bytes(), 7)).collect();
        hashes.sort_unstable();
        hashes
    }

    fn features_of(text: &str) -> Vec<u64> {
        Features::of(text, 7).hashes
    }

    #[test]
    fn spaced_scripts_give_words_without_punctuation() {
        assert_eq!(
            features_of("it's 3.5 e-mails, \u{201c}naïve\u{201d}…"),
            hashes(&["it's", "3.5", "e", "mails", "naïve"])
        );
        assert_eq!(features_of("한국어 문장 カタカナ"), hashes(&["한국어", "문장", "カタカナ"]));
        assert_eq!(features_of(" \n\t — ! "), hashes(&[]));
    }

    #[test]
    fn unspaced_scripts_give_pairs_that_run_on() {
        assert_eq!(features_of("中文字"), hashes(&["中 文", "文 字"]));
        assert_eq!(features_of("版本 two 的"), hashes(&["版 本", "本 two", "two"]));
        assert_eq!(features_of("ไทย").len(), Features::of("ไทย", 7).tokens - 1);
    }

    proptest::proptest! {
        #[test]
        fn pieces_have_the_words_of_the_whole(
            text in "([a-c1'.,:_ \n\r\t-]|[éß中文かカ\u{301}\u{200d}\u{a0}\u{3000}’๑\u{5d0}\u{ad}🇩🇪]|\\PC){0,40}",
        ) {
            let whole: Vec<&str> = text.unicode_words().collect();
            let cut: Vec<&str> = pieces(&text).flat_map(str::unicode_words).collect();
            proptest::prop_assert_eq!(cut, whole);
            proptest::prop_assert_eq!(pieces(&text).collect::<String>(), text);
        }
    }

    #[test]
    fn weights_grow_with_the_logarithm_of_the_count() {
        let weight = |count: usize| {
            let text = "word ".repeat(count);
            let features = Features::of(&text, 7);
            assert_eq!(features.tokens, count);
            features.weighted().collect::<Vec<_>>()
        };
        let hash = hashes(&["word"])[0];
        for (count, expected) in [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (1000, 10)] {
            assert_eq!(weight(count), [(hash, expected)], "{count} times");
        }
    }
}
