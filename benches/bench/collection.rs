//! Generated fingerprints. Each is computed from the number of its document, so none is stored.

use std::ops::Range;

use simdb::{Fingerprint, Sketch, SketchSize};

/// How fingerprints are spread.
pub(crate) enum Spread {
    Uniform,
    /// In each block of 16 bits some values are more frequent than others. A probe then meets 1.4 times as
    /// many candidates, as measured on a million fingerprints of real pages.
    Skewed,
    /// Each block of 16 bits is that of one of these fingerprints, at random. So the blocks are as crowded as theirs,
    /// and their near-duplicates are none any more.
    BlocksOf(Vec<u64>),
}

/// The number of shingles of every document, as of a page of medium length.
const SHINGLES: u32 = 500;

/// The samples of a sketch. Those beyond its size do not count.
type Samples = [u8; Sketch::MAX_BYTES];

pub(crate) struct Collection {
    spread: Spread,
    sketches: SketchSize,
    /// The share of near-duplicates, in parts of 2^32.
    near_duplicates: u64,
    /// Near-duplicates are made from the documents with numbers below this.
    originals: u64,
    seed: u64,
}

impl Collection {
    pub(crate) fn new(
        spread: Spread,
        sketches: SketchSize,
        near_duplicates: f64,
        seed: u64,
    ) -> Self {
        let near_duplicates = (near_duplicates.clamp(0.0, 1.0) * f64::from(u32::MAX)) as u64;
        Self {
            spread,
            sketches,
            near_duplicates,
            originals: u64::MAX,
            seed: mixed(seed),
        }
    }

    /// The same, but near-duplicates are made from the first so many documents.
    pub(crate) fn with_originals(self, originals: Option<u64>) -> Self {
        Self {
            originals: originals.unwrap_or(u64::MAX),
            ..self
        }
    }

    /// The fingerprint of a document.
    pub(crate) fn fingerprint(&self, number: u64) -> Fingerprint {
        match self.original_of(number) {
            Some(original) => flipped(
                self.original(original),
                mixed(mixed(self.seed ^ number) ^ 1),
            ),
            None => self.original(number),
        }
    }

    /// The sketch of a document, if documents have sketches.
    pub(crate) fn sketch(&self, number: u64) -> Option<Sketch> {
        self.sketch_of(self.samples(number))
    }

    /// The number of the document whose original fingerprint a near-duplicate is made from. That document may
    /// itself be a near-duplicate of another. Its own fingerprint then differs from its original one.
    fn original_of(&self, number: u64) -> Option<u64> {
        let random = mixed(self.seed ^ number);
        let before = number.min(self.originals);
        (number > 0 && random >> 32 < self.near_duplicates).then(|| mixed(random) % before)
    }

    /// The earlier document that this one is certainly near to, if there is one.
    pub(crate) fn near_before(&self, number: u64) -> Option<u64> {
        self.original_of(number)
            .filter(|&original| self.original_of(original).is_none())
    }

    /// A fingerprint to query, and the document of `documents` that it was made from, if there is one.
    pub(crate) fn query(&self, number: u64, documents: Range<u64>) -> (Fingerprint, Option<u64>) {
        let random = mixed(!self.seed ^ number);
        if number.is_multiple_of(2) || documents.is_empty() {
            return (self.original(u64::MAX - number), None);
        }
        let near = documents.start + random % (documents.end - documents.start);
        (flipped(self.fingerprint(near), mixed(random)), Some(near))
    }

    /// The sketch of a query, and of the document that it was made from, if there is one.
    pub(crate) fn query_sketch(&self, number: u64, near: Option<u64>) -> Option<Sketch> {
        self.sketch_of(match near {
            Some(near) => self.blurred(self.samples(near), mixed(!self.seed ^ number)),
            None => self.original_samples(u64::MAX - number),
        })
    }

    fn sketch_of(&self, samples: Samples) -> Option<Sketch> {
        Sketch::new(&samples[..self.sketches.bytes()], SHINGLES).ok()
    }

    fn samples(&self, number: u64) -> Samples {
        match self.original_of(number) {
            Some(original) => self.blurred(
                self.original_samples(original),
                mixed(!self.seed ^ mixed(number)),
            ),
            None => self.original_samples(number),
        }
    }

    fn original_samples(&self, number: u64) -> Samples {
        let mut samples = Samples::default();
        for (word, salt) in samples.as_chunks_mut::<8>().0.iter_mut().zip(1..) {
            *word = mixed(self.seed.rotate_left(31 + salt) ^ number).to_le_bytes();
        }
        samples
    }

    /// The samples of a text that shares more or less with that of these. Up to five of 16 samples differ: the
    /// estimate of the similarity is anything from 1 down to 0.4, and as often above 0.7 as below.
    fn blurred(&self, mut samples: Samples, random: u64) -> Samples {
        let bits = 8 * self.sketches.bytes() as u64;
        for i in 0..random % (bits * 5 / 16).max(1) {
            // 77 is odd, so no bit is met twice.
            let bit = (i * 77 + (random >> 32)) % bits;
            samples[bit as usize / 8] ^= 1 << (bit % 8);
        }
        samples
    }

    fn original(&self, number: u64) -> Fingerprint {
        let random = mixed(self.seed.rotate_left(17) ^ number);
        let of_blocks =
            |block: &dyn Fn(u64) -> u64| (0..4).fold(0, |bits, index| bits << 16 | block(index));
        Fingerprint::from_bits(match &self.spread {
            Spread::Uniform => random,
            Spread::Skewed => of_blocks(&|block| skewed(mixed(random ^ block))),
            Spread::BlocksOf(fingerprints) => of_blocks(&|block| {
                let chosen = mixed(random ^ block) % fingerprints.len() as u64;
                fingerprints[chosen as usize] >> (48 - 16 * block) & 0xffff
            }),
        })
    }
}

/// The fingerprint with up to three bits flipped.
fn flipped(fingerprint: Fingerprint, random: u64) -> Fingerprint {
    let bits = (0..random % 4).fold(fingerprint.bits(), |bits, i| {
        bits ^ 1 << (random >> (8 + 6 * i) & 63)
    });
    Fingerprint::from_bits(bits)
}

/// A value of 16 bits; some values are more frequent than others. Let u be uniform in 0..1. The density of
/// u^c, squared and integrated over 0..1, is 1 / (c (2 - c)). For c = 0.465 this is 1.4.
fn skewed(random: u64) -> u64 {
    let even = (random >> 11) as f64 / (1u64 << 53) as f64;
    let value = (even.powf(0.465) * 65536.0) as u64;
    // Spreads the frequent values over the whole range.
    value.wrapping_mul(0x9e37) & 0xffff
}

/// A pseudorandom number for each number: the finaliser of SplitMix64 (Steele, Lea, Flood: Fast Splittable
/// Pseudorandom Number Generators, OOPSLA 2014).
pub(crate) fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_depends_on_its_number_and_the_seed_only() {
        let collection = Collection::new(Spread::Skewed, SketchSize::Bytes16, 0.3, 7);
        let again = Collection::new(Spread::Skewed, SketchSize::Bytes16, 0.3, 7);
        let other = Collection::new(Spread::Skewed, SketchSize::Bytes16, 0.3, 8);
        let differing = (0..1000)
            .filter(|&i| collection.fingerprint(i) != other.fingerprint(i))
            .count();
        assert!((0..1000).all(|i| collection.fingerprint(i) == again.fingerprint(i)));
        assert!(differing > 990);
    }

    #[test]
    fn queries_are_near_the_document_they_name() {
        let collection = Collection::new(Spread::Uniform, SketchSize::Bytes16, 0.5, 1);
        for number in 0..1000 {
            let (query, near) = collection.query(number, 100..5000);
            assert_eq!(near.is_some(), number % 2 == 1);
            assert!(near.is_none_or(|near| collection.fingerprint(near).distance(query) <= 3));
        }
    }

    #[test]
    fn near_duplicates_are_near_the_document_they_are_made_from() {
        let collection = Collection::new(Spread::Uniform, SketchSize::None, 0.5, 1);
        let near = |number| Some((number, collection.near_before(number)?));
        let pairs: Vec<(u64, u64)> = (0..1000).filter_map(near).collect();
        let distance = |(one, other)| {
            collection
                .fingerprint(one)
                .distance(collection.fingerprint(other))
        };
        assert!((200..400).contains(&pairs.len()), "{}", pairs.len());
        assert!(pairs.into_iter().all(|pair| distance(pair) <= 3));
    }

    #[test]
    fn near_duplicates_are_made_from_the_originals_and_blocks_are_taken_from_fingerprints() {
        let blocks = vec![0x0001_0002_0003_0004, 0x1001_1002_1003_1004];
        let spread = Spread::BlocksOf(blocks);
        let collection = Collection::new(spread, SketchSize::None, 0.9, 1).with_originals(Some(10));
        let mut of_blocks = 0;
        for number in 100..1000 {
            match collection.original_of(number) {
                Some(original) => assert!(original < 10),
                None => {
                    let bits = collection.fingerprint(number).bits();
                    assert_eq!(bits & !(0x1000_1000_1000_1000), 0x0001_0002_0003_0004);
                    of_blocks += 1;
                }
            }
        }
        assert!((50..150).contains(&of_blocks), "{of_blocks}");
    }

    #[test]
    fn near_duplicates_are_as_often_similar_as_not() {
        for size in [SketchSize::Bytes16, SketchSize::Bytes32] {
            let collection = Collection::new(Spread::Uniform, size, 0.0, 1);
            let jaccard = |number| {
                let near = collection.query(number, 0..1_000).1;
                let sketch = collection.query_sketch(number, near)?;
                let other = near.map_or(number, |near| near);
                Some(
                    sketch
                        .similarity(&collection.sketch(other)?)
                        .ok()?
                        .jaccard(),
                )
            };
            let of = |numbers: Range<u64>| {
                numbers
                    .filter(|it| it % 2 == 1)
                    .filter_map(jaccard)
                    .collect::<Vec<_>>()
            };
            let near = of(0..4_000);
            let similar = near.iter().filter(|&&it| it >= 0.7).count();
            assert_eq!(near.len(), 2_000);
            assert!((900..1_100).contains(&similar), "{similar}");
            assert!((0..2_000).step_by(2).filter_map(jaccard).all(|it| it < 0.6));
        }
        assert_eq!(
            Collection::new(Spread::Uniform, SketchSize::None, 0.5, 1).sketch(1),
            None
        );
    }

    #[test]
    fn the_skew_is_that_of_real_pages() {
        let mut counts = vec![0u64; 1 << 16];
        let documents = 1 << 22;
        for number in 0..documents {
            counts[(skewed(mixed(number)) & 0xffff) as usize] += 1;
        }
        let squares: f64 = counts
            .iter()
            .map(|&count| (count as f64 / documents as f64).powi(2))
            .sum();
        // The sample is finite, which alone adds 1/64.
        assert!(
            (1.35..1.47).contains(&(squares * 65536.0)),
            "{}",
            squares * 65536.0
        );
    }
}
