//! The features of a text: words with their weights, or pairs of neighbouring words, and those that the caller brings.
//! And the shingles of a text.

use std::borrow::Cow;
use std::collections::HashSet;
use std::mem;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::fingerprinter::Fingerprinter;
use super::scheme::Scheme;
use super::unicode::{is_unspaced, tokens};
use super::{minwise, simhash};
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};

/// The tokens of a shingle.
const SHINGLE: usize = 4;

/// The seed of the hash of shingles: "simdb", 0, "s" and 1, read as a big-endian number. It is the same beside
/// every scheme, so sketches do not depend on the scheme.
const SHINGLE_SEED: u64 = 0x7369_6d64_6200_7301;

/// Which features a scheme has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FeatureKind {
    /// Each token, except in scripts that put no spaces between words. There the tokens are single
    /// characters, which say too little. So a feature is a character and the token that follows it, joined by
    /// a space.
    Words,
    /// The pairs of neighbouring tokens. Where the first token is of a script without spaces, a feature has
    /// three tokens. The hash of a feature is the hash of the hashes of its tokens, each 8 bytes, the least
    /// significant first.
    Pairs,
}

/// The fingerprint and the sketch of a normalised text. `None` if it is too short to judge.
pub(super) fn judge(
    text: Cow<'_, str>,
    by: &Fingerprinter,
) -> Option<(Fingerprint, Option<Sketch>)> {
    let mut features = Features::new(&text, by.scheme(), by.sketch_size());
    drop(text);
    if features.tokens < by.min_tokens() || features.has_few_symbols {
        return None;
    }
    let fingerprint = features.fingerprint(by.scheme());
    Some((fingerprint, features.sketch(by.sketch_size())))
}

/// The same of features that the caller brings, each with its weight. `None` if there are too few distinct ones.
pub(super) fn judge_weighted<F: AsRef<[u8]>>(
    features: impl IntoIterator<Item = (F, f64)>,
    by: &Fingerprinter,
) -> Result<Option<(Fingerprint, Option<Sketch>)>> {
    let features = Weighted::new(features, by.scheme().feature_seed())?;
    if features.distinct.len() < by.min_tokens() {
        return Ok(None);
    }
    let fingerprint = features.fingerprint(by.scheme());
    Ok(Some((fingerprint, features.sketch(by.sketch_size()))))
}

/// The features of a text, for its fingerprint, and its shingles, for its sketch.
#[derive(Default)]
struct Features {
    /// The number of tokens of the text.
    tokens: usize,
    /// Whether chance alone makes two such texts alike: see [`Symbols`].
    has_few_symbols: bool,
    /// The hashes of the features. A feature that occurs several times is there several times.
    hashes: Vec<u64>,
    /// The hashes of the shingles: four neighbouring tokens each, or all tokens if they are fewer. The hash of
    /// a shingle is made as that of a pair. Empty if shingles were not asked for.
    shingles: Vec<u64>,
}

impl Features {
    /// The features of a normalised text, and its shingles, if sketches of this size are made.
    fn new(text: &str, scheme: Scheme, size: SketchSize) -> Self {
        let kind = match scheme {
            Scheme::Minwise1 | Scheme::MinwiseShort1 | Scheme::Content1 | Scheme::Simhash2 => {
                FeatureKind::Pairs
            }
            Scheme::Simhash1 | Scheme::External => FeatureKind::Words,
        };
        let shingle_seed = (size != SketchSize::None).then_some(SHINGLE_SEED);
        Self::collect(text, kind, scheme.feature_seed(), shingle_seed)
    }

    fn fingerprint(&mut self, scheme: Scheme) -> Fingerprint {
        let seed = scheme.feature_seed();
        match scheme {
            Scheme::Minwise1 | Scheme::MinwiseShort1 | Scheme::Content1 => {
                minwise::fingerprint(&self.hashes, seed)
            }
            Scheme::Simhash1 | Scheme::External => simhash::fingerprint(self.weighted()),
            Scheme::Simhash2 => simhash::sparse_fingerprint(&self.distinct(), seed),
        }
    }

    fn sketch(self, size: SketchSize) -> Option<Sketch> {
        let Self {
            hashes, shingles, ..
        } = self;
        // A sketch needs none of them, and may need as much memory again.
        drop(hashes);
        minwise::sketch(shingles, SHINGLE_SEED, size)
    }

    /// The features of this kind of a normalised text, hashed with `seed`, and the shingles, hashed with
    /// `shingle_seed`. It goes through the tokens once.
    fn collect(text: &str, kind: FeatureKind, seed: u64, shingle_seed: Option<u64>) -> Self {
        let most = text.len() / 6;
        let mut features = Self {
            hashes: Vec::with_capacity(most),
            ..Self::default()
        };
        let mut collector = Collector {
            kind,
            seed,
            before: None,
            two_before: None,
            joined: String::new(),
        };
        let mut symbols = Symbols::new(text);
        let mut last = [0; SHINGLE];
        if shingle_seed.is_some() {
            features.shingles.reserve_exact(most);
        }
        for token in tokens(text) {
            symbols.add(token);
            features.add(token, &mut collector);
            let Some(seed) = shingle_seed else { continue };
            last.rotate_left(1);
            last[SHINGLE - 1] = xxh3_64_with_seed(token.as_bytes(), seed);
            if features.tokens >= SHINGLE {
                features.shingles.push(hash_of(&last, seed));
            }
        }
        if let Some(seed) = shingle_seed
            && (1..SHINGLE).contains(&features.tokens)
        {
            let all = &last[SHINGLE - features.tokens..];
            features.shingles.push(hash_of(all, seed));
        }
        features.has_few_symbols = symbols.are_few_for(features.tokens, text);
        features
    }

    fn add<'t>(&mut self, token: &'t str, collector: &mut Collector<'t>) {
        self.tokens += 1;
        match collector.kind {
            FeatureKind::Words => collector.add_word(token, &mut self.hashes),
            FeatureKind::Pairs => collector.add_pair(token, &mut self.hashes),
        }
    }

    /// Each distinct feature with its weight: one more than the binary logarithm, rounded down, of the
    /// number of times it occurs. Without the logarithm, the frequent words of a language would make all
    /// its long texts alike.
    fn weighted(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.hashes.sort_unstable();
        self.hashes
            .chunk_by(|a, b| a == b)
            .map(|same| (same[0], same.len().ilog2() + 1))
    }

    /// Each distinct feature, with a weight of 1.
    fn distinct(&mut self) -> impl Iterator<Item = (u64, u32)> + Clone {
        keep_distinct(&mut self.hashes);
        self.hashes.iter().map(|&hash| (hash, 1))
    }
}

/// Keeps one of equal hashes. In what order they are then means nothing.
pub(super) fn keep_distinct(hashes: &mut Vec<u64>) {
    // A set of so many does not fit into the cache of a processor, and takes more than twice the memory of the list.
    const MANY: usize = 1 << 22;
    if hashes.len() > MANY {
        hashes.sort_unstable();
        hashes.dedup();
        return;
    }
    // Faster than to sort them. Its hash has a seed that nobody knows, since pages can be hostile.
    let mut seen =
        HashSet::with_capacity_and_hasher(hashes.len(), foldhash::fast::RandomState::default());
    hashes.retain(|&hash| seen.insert(hash));
}

/// The different tokens of a text, as far as they have to be counted.
///
/// *v* different tokens make *v* to the fourth shingles at most. Where a text has half as many places, such as a
/// bitmap in noughts and ones or a genome in four letters, most of these shingles are in every such text, and texts
/// that have nothing to do with one another look alike. A text that says a few words again and again, such as a chant,
/// has few of them: two sets that hold less than a quarter of all have a Jaccard similarity of a seventh by chance.
struct Symbols<'t> {
    seen: Vec<&'t str>,
    /// So many are enough for a text of this length.
    enough: usize,
}

impl<'t> Symbols<'t> {
    fn new(text: &str) -> Self {
        // A token and what parts it from the next take two bytes, or the token takes three.
        let most_tokens = text.len() / 2 + 1;
        let mut enough = 1;
        while are_few(enough, most_tokens) {
            enough += 1;
        }
        Self {
            seen: Vec::with_capacity(enough),
            enough,
        }
    }

    #[inline]
    fn add(&mut self, token: &'t str) {
        if self.seen.len() < self.enough && !self.seen.contains(&token) {
            self.seen.push(token);
        }
    }

    fn are_few_for(&self, count: usize, text: &str) -> bool {
        are_few(self.seen.len(), count) && self.shingles(text) * 4 >= self.all_shingles()
    }

    /// How many shingles these tokens can make.
    fn all_shingles(&self) -> usize {
        self.seen.len().saturating_pow(SHINGLE as u32)
    }

    /// How many different shingles the text has. The tokens are few: a shingle is a number of four digits.
    fn shingles(&self, text: &str) -> usize {
        let all = self.all_shingles();
        let mut is_there = vec![false; all];
        let mut count = 0;
        let mut shingle = 0;
        for (at, token) in tokens(text).enumerate() {
            let digit = self
                .seen
                .iter()
                .position(|seen| *seen == token)
                .unwrap_or_default();
            shingle = (shingle * self.seen.len() + digit) % all;
            if at + 1 >= SHINGLE && !mem::replace(&mut is_there[shingle], true) {
                count += 1;
            }
        }
        count
    }
}

/// Whether so many different tokens are too few for a text of this number of tokens.
fn are_few(symbols: usize, tokens: usize) -> bool {
    symbols.saturating_pow(SHINGLE as u32) < 2 * tokens
}

/// The tokens that a feature may begin with.
struct Collector<'t> {
    kind: FeatureKind,
    seed: u64,
    /// The token before, with its hash.
    before: Option<Token<'t>>,
    two_before: Option<Token<'t>>,
    joined: String,
}

#[derive(Clone, Copy)]
struct Token<'t> {
    text: &'t str,
    hash: u64,
    is_unspaced: bool,
}

impl<'t> Collector<'t> {
    fn add_word(&mut self, token: &'t str, hashes: &mut Vec<u64>) {
        if let Some(Token { text, .. }) = self.before {
            self.joined.clear();
            self.joined.extend([text, " ", token]);
            hashes.push(xxh3_64_with_seed(self.joined.as_bytes(), self.seed));
        }
        let is_unspaced = is_unspaced(token);
        self.before = is_unspaced.then_some(Token {
            text: token,
            hash: 0,
            is_unspaced,
        });
        if !is_unspaced {
            hashes.push(xxh3_64_with_seed(token.as_bytes(), self.seed));
        }
    }

    fn add_pair(&mut self, token: &'t str, hashes: &mut Vec<u64>) {
        let hash = xxh3_64_with_seed(token.as_bytes(), self.seed);
        if let Some(first) = self.two_before
            && first.is_unspaced
            && let Some(second) = self.before
        {
            hashes.push(hash_of(&[first.hash, second.hash, hash], self.seed));
        }
        if let Some(first) = self.before
            && !first.is_unspaced
        {
            hashes.push(hash_of(&[first.hash, hash], self.seed));
        }
        self.two_before = self.before;
        self.before = Some(Token {
            text: token,
            hash,
            is_unspaced: is_unspaced(token),
        });
    }
}

/// The hash of a feature of a few tokens, from their hashes.
#[inline]
fn hash_of(hashes: &[u64], seed: u64) -> u64 {
    let mut bytes = [[0; 8]; SHINGLE];
    let bytes = &mut bytes[..hashes.len()];
    for (bytes, hash) in bytes.iter_mut().zip(hashes) {
        *bytes = hash.to_le_bytes();
    }
    xxh3_64_with_seed(bytes.as_flattened(), seed)
}

/// The units of a weight of 1. Weights are whole numbers of units, so that no sum depends on its order, and every
/// machine makes the same fingerprint.
const UNITS: f64 = 16.0;

/// The largest sum of the weights of a text. Minwise samples take a hash for each unit.
const MOST_WEIGHT: f64 = (1u64 << 20) as f64;

/// Distinct features by their hash, each with its weight in units.
struct Weighted {
    distinct: Vec<(u64, u32)>,
}

impl Weighted {
    /// These features, hashed with `seed`. The weights of a feature that comes several times are added.
    fn new<F: AsRef<[u8]>>(
        features: impl IntoIterator<Item = (F, f64)>,
        seed: u64,
    ) -> Result<Self> {
        let mut units = Vec::new();
        let mut sum = 0.0;
        for (feature, weight) in features {
            sum += weight;
            // What is not a number fails both comparisons.
            if !(weight > 0.0 && sum <= MOST_WEIGHT) {
                return Err(Error::FeatureWeight {
                    given: weight,
                    most: MOST_WEIGHT,
                });
            }
            let hash = xxh3_64_with_seed(feature.as_ref(), seed);
            units.push((hash, (weight * UNITS).round().max(1.0) as u32));
        }
        units.sort_unstable();
        units.dedup_by(|again, first| {
            let is_same = again.0 == first.0;
            first.1 += if is_same { again.1 } else { 0 };
            is_same
        });
        Ok(Self { distinct: units })
    }

    fn fingerprint(&self, scheme: Scheme) -> Fingerprint {
        let seed = scheme.feature_seed();
        match scheme {
            Scheme::Minwise1 | Scheme::MinwiseShort1 | Scheme::Content1 => {
                minwise::fingerprint(&self.units(seed), seed)
            }
            Scheme::Simhash1 | Scheme::External => simhash::fingerprint(self.iter()),
            Scheme::Simhash2 => simhash::sparse_fingerprint(&self.iter(), seed),
        }
    }

    fn sketch(&self, size: SketchSize) -> Option<Sketch> {
        let units = match size {
            SketchSize::None => Vec::new(),
            SketchSize::Bytes16 | SketchSize::Bytes32 => self.units(SHINGLE_SEED),
        };
        minwise::sketch(units, SHINGLE_SEED, size)
    }

    /// Each feature with its weight in units.
    fn iter(&self) -> impl Iterator<Item = (u64, u32)> + Clone {
        self.distinct.iter().copied()
    }

    /// A hash for each unit of each feature, made with `seed`. The similarity of two sets of units is the weighted
    /// similarity of the features: the sum of the lesser weights, divided by the sum of the greater ones.
    ///
    /// # References
    ///
    /// Haveliwala, Gionis, Indyk: Scalable Techniques for Clustering the Web, WebDB 2000, section 4. It is
    /// consistent weighted sampling (Manasse, McSherry, Talwar 2010) for whole weights, without logarithms, which
    /// differ between machines.
    fn units(&self, seed: u64) -> Vec<u64> {
        let mut hashes = Vec::new();
        for &(feature, units) in &self.distinct {
            for unit in 0..units {
                let mut bytes = [0; 12];
                bytes[..8].copy_from_slice(&feature.to_le_bytes());
                bytes[8..].copy_from_slice(&unit.to_le_bytes());
                hashes.push(xxh3_64_with_seed(&bytes, seed));
            }
        }
        hashes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Features {
        Features::collect(text, FeatureKind::Words, 7, None)
    }

    fn pairs(text: &str) -> Features {
        Features::collect(text, FeatureKind::Pairs, 7, None)
    }

    fn hashes(features: &[&str]) -> Vec<u64> {
        let mut hashes: Vec<u64> = features
            .iter()
            .map(|feature| xxh3_64_with_seed(feature.as_bytes(), 7))
            .collect();
        hashes.sort_unstable();
        hashes
    }

    fn features_of(text: &str) -> Vec<u64> {
        let mut hashes = words(text).hashes;
        hashes.sort_unstable();
        hashes
    }

    #[test]
    fn spaced_scripts_give_words_without_punctuation() {
        assert_eq!(
            features_of("it's 3.5 e-mails, \u{201c}naïve\u{201d}…"),
            hashes(&["it", "s", "3", "5", "e", "mails", "naïve"])
        );
        assert_eq!(
            features_of("한국어 문장 カタカナ"),
            hashes(&["한국어", "문장", "カタカナ"])
        );
        assert_eq!(features_of(" \n\t — ! "), hashes(&[]));
    }

    #[test]
    fn unspaced_scripts_give_pairs_that_run_on() {
        assert_eq!(features_of("中文字"), hashes(&["中 文", "文 字"]));
        assert_eq!(
            features_of("版本 two 的"),
            hashes(&["版 本", "本 two", "two"])
        );
        assert_eq!(features_of("ไทย").len(), words("ไทย").tokens - 1);
    }

    #[test]
    fn neighbouring_tokens_make_pairs_and_triples_begin_with_an_unspaced_one() {
        let feature = |tokens: &[&str]| {
            let bytes = tokens
                .iter()
                .map(|token| xxh3_64_with_seed(token.as_bytes(), 7).to_le_bytes());
            xxh3_64_with_seed(bytes.collect::<Vec<_>>().as_flattened(), 7)
        };
        let features = pairs("one two. 版本 three 的");
        let expected: [&[&str]; 4] = [
            &["one", "two"],
            &["two", "版"],
            &["版", "本", "three"],
            &["本", "three", "的"],
        ];
        let expected = expected
            .map(feature)
            .into_iter()
            .chain([feature(&["three", "的"])]);
        assert_eq!((features.tokens, features.hashes), (6, expected.collect()));
        assert!(pairs("one").hashes.is_empty());
    }

    #[test]
    fn shingles_are_four_tokens_or_all() {
        let shingles =
            |text: &str| Features::collect(text, FeatureKind::Words, 1, Some(7)).shingles;
        let shingle = |tokens: &[&str]| {
            let hashes: Vec<u64> = tokens
                .iter()
                .map(|token| xxh3_64_with_seed(token.as_bytes(), 7))
                .collect();
            hash_of(&hashes, 7)
        };
        let of_five = [
            shingle(&["one", "two", "版", "本"]),
            shingle(&["two", "版", "本", "five"]),
        ];
        assert_eq!(shingles("one two 版本 five"), of_five);
        assert_eq!(
            shingles("one two three four"),
            [shingle(&["one", "two", "three", "four"])]
        );
        assert_eq!(
            shingles("one two three"),
            [shingle(&["one", "two", "three"])]
        );
        assert!(shingles("").is_empty() && words("one two three four").shingles.is_empty());
    }

    #[test]
    fn symbols_are_few_where_a_text_has_room_for_half_of_their_shingles() {
        let has_few = |symbols: &str, length: usize| words(&noise(symbols, length)).has_few_symbols;
        for (symbols, most) in [
            ("a", 3),
            ("01", 8),
            ("acg", 40),
            ("acgt", 128),
            ("123456", 648),
            ("一二", 8),
        ] {
            assert!(!has_few(symbols, most), "{symbols}");
            assert!(has_few(symbols, most + 1), "{symbols}");
        }
        assert!(
            !has_few("abcdefghijklmnopqrstuv", 100_000),
            "22 to the fourth are more than 200,000"
        );
        assert!(has_few("abcdefghijklmnopqrstu", 100_000));
    }

    /// Symbols in an order that says nothing.
    fn noise(symbols: &str, length: usize) -> String {
        let symbols: Vec<char> = symbols.chars().collect();
        let mut state = 11u64;
        let mut text = String::new();
        for _ in 0..length {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            text.extend([symbols[(state >> 33) as usize % symbols.len()], ' ']);
        }
        text
    }

    #[test]
    fn a_few_words_again_and_again_are_no_few_symbols() {
        for chant in [
            "om mani padme hum ",
            "around the world, around the world ",
            "buy cheap pills now ",
            "阿弥陀佛",
            "hare krishna hare krishna krishna krishna hare hare hare rama hare rama rama rama hare hare ",
        ] {
            assert!(!words(&chant.repeat(500)).has_few_symbols, "{chant}");
        }
        assert!(
            words(&"ha ".repeat(500)).has_few_symbols,
            "no order that could tell texts apart"
        );
    }

    #[test]
    fn weights_grow_with_the_logarithm_of_the_count() {
        let weight = |count: usize| {
            let text = "word ".repeat(count);
            let mut features = words(&text);
            assert_eq!(features.tokens, count);
            features.weighted().collect::<Vec<_>>()
        };
        let hash = hashes(&["word"])[0];
        for (count, expected) in [(1, 1), (2, 2), (3, 2), (4, 3), (7, 3), (8, 4), (1000, 10)] {
            assert_eq!(weight(count), [(hash, expected)], "{count} times");
        }
    }

    #[test]
    fn weights_of_a_feature_are_added_and_counted_in_sixteenths() -> Result<()> {
        let made = Weighted::new([("a", 1.0), ("b", 0.5), ("a", 2.0), ("c", 1e-9)], 7)?;
        let mut units: Vec<u32> = made.iter().map(|(_, units)| units).collect();
        units.sort_unstable();
        assert_eq!((units, made.distinct.len()), (vec![1, 8, 48], 3));
        let mut units = made.units(9);
        assert_eq!(units.len(), 57);
        units.sort_unstable();
        units.dedup();
        assert_eq!(units.len(), 57, "units differ");
        // What has more weight has the units of what has less.
        let more = Weighted::new([("a", 4.0)], 7)?.units(9);
        assert!(
            Weighted::new([("a", 3.0)], 7)?
                .units(9)
                .iter()
                .all(|unit| more.contains(unit))
        );
        Ok(())
    }

    #[test]
    fn impossible_weights_are_refused() {
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY, MOST_WEIGHT + 1.0] {
            let refused = Weighted::new([("a", 1.0), ("b", weight)], 7).err();
            assert!(
                matches!(refused, Some(Error::FeatureWeight { .. })),
                "{weight}"
            );
        }
        let many = (0..=1 << 20).map(|i: u32| (i.to_le_bytes(), 1.0));
        assert!(matches!(
            Weighted::new(many, 7),
            Err(Error::FeatureWeight { .. })
        ));
    }
}
