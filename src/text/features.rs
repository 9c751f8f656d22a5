//! The features of a text: words with their weights, or pairs of neighbouring words.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::tokens::{is_unspaced, tokens};

/// The features of a text.
pub(super) struct Features {
    /// The number of tokens of the text.
    pub(super) tokens: usize,
    /// The hashes of the features. A feature that occurs several times is there several times.
    pub(super) hashes: Vec<u64>,
}

impl Features {
    fn none_of(text: &str) -> Self {
        Self { tokens: 0, hashes: Vec::with_capacity(text.len() / 6) }
    }

    /// The words of a normalised text, hashed with `seed`.
    ///
    /// Each token is a feature, except in scripts that put no spaces between words. There the tokens are
    /// single characters, which say too little. So a feature is a character and the token that follows it,
    /// joined by a space.
    pub(super) fn words(text: &str, seed: u64) -> Self {
        let mut features = Self::none_of(text);
        let mut shingle = String::new();
        let mut words = tokens(text).peekable();
        while let Some(word) = words.next() {
            features.tokens += 1;
            if !is_unspaced(word) {
                features.hashes.push(xxh3_64_with_seed(word.as_bytes(), seed));
            } else if let Some(next) = words.peek() {
                shingle.clear();
                shingle.extend([word, " ", next]);
                features.hashes.push(xxh3_64_with_seed(shingle.as_bytes(), seed));
            }
        }
        features
    }

    /// The pairs of neighbouring tokens of a normalised text. Where the first token is of a script without
    /// spaces, a feature has three tokens.
    ///
    /// The hash of a feature is the hash with `seed` of the hashes of its tokens, each 8 bytes, the least
    /// significant first.
    pub(super) fn pairs(text: &str, seed: u64) -> Self {
        let mut features = Self::none_of(text);
        // The two tokens before, each with whether it is unspaced. The last one comes last.
        let mut before: [Option<(u64, bool)>; 2] = [None; 2];
        for token in tokens(text) {
            features.tokens += 1;
            let hash = xxh3_64_with_seed(token.as_bytes(), seed);
            if let [Some((first, true)), Some((second, _))] = before {
                features.hashes.push(hash_of([first, second, hash], seed));
            }
            if let [_, Some((first, false))] = before {
                features.hashes.push(hash_of([first, hash], seed));
            }
            before = [before[1], Some((hash, is_unspaced(token)))];
        }
        features
    }

    /// Each distinct feature with its weight: one more than the binary logarithm, rounded down, of the
    /// number of times it occurs. Without the logarithm, the frequent words of a language would make all
    /// its long texts alike.
    pub(super) fn weighted(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.hashes.sort_unstable();
        self.hashes.chunk_by(|a, b| a == b).map(|same| (same[0], same.len().ilog2() + 1))
    }
}

fn hash_of<const TOKENS: usize>(hashes: [u64; TOKENS], seed: u64) -> u64 {
    xxh3_64_with_seed(hashes.map(u64::to_le_bytes).as_flattened(), seed)
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
        let mut hashes = Features::words(text, 7).hashes;
        hashes.sort_unstable();
        hashes
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
        assert_eq!(features_of("ไทย").len(), Features::words("ไทย", 7).tokens - 1);
    }

    #[test]
    fn neighbouring_tokens_make_pairs_and_triples_begin_with_an_unspaced_one() {
        let feature = |tokens: &[&str]| {
            let bytes = tokens.iter().map(|token| xxh3_64_with_seed(token.as_bytes(), 7).to_le_bytes());
            xxh3_64_with_seed(bytes.collect::<Vec<_>>().as_flattened(), 7)
        };
        let features = Features::pairs("one two. 版本 three 的", 7);
        let expected: [&[&str]; 4] =
            [&["one", "two"], &["two", "版"], &["版", "本", "three"], &["本", "three", "的"]];
        let expected = expected.map(feature).into_iter().chain([feature(&["three", "的"])]);
        assert_eq!((features.tokens, features.hashes), (6, expected.collect()));
        assert!(Features::pairs("one", 7).hashes.is_empty());
    }

    #[test]
    fn weights_grow_with_the_logarithm_of_the_count() {
        let weight = |count: usize| {
            let text = "word ".repeat(count);
            let mut features = Features::words(&text, 7);
            assert_eq!(features.tokens, count);
            features.weighted().collect::<Vec<_>>()
        };
        let hash = hashes(&["word"])[0];
        for (count, expected) in [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (1000, 10)] {
            assert_eq!(weight(count), [(hash, expected)], "{count} times");
        }
    }
}
