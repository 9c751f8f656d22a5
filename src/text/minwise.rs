//! One-bit minwise samples of a set of features: the more two sets share, the more of their bits agree. They make
//! fingerprints of features, and sketches of shingles.

use std::borrow::Cow;
use std::num::NonZeroU32;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::features::keep_distinct;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};

/// The fingerprint of a set of features: bit i is one bit of the sample in bin i. Two sets with the Jaccard
/// similarity J differ in about 32 (1 - J) bits.
pub(super) fn fingerprint(features: &[u64], seed: u64) -> Fingerprint {
    let mut bits = 0;
    for (bin, bit) in one_bits::<64>(features, seed).into_iter().enumerate() {
        bits |= u64::from(bit) << bin;
    }
    Fingerprint::from_bits(bits)
}

/// One bit of the sample in each bin, for a set of hashed features. A feature may be there several times.
///
/// A round throws every feature into a bin. The least hash in a bin is its sample. Most texts fill every bin
/// in the first round. The bins that are still empty go into the next round, with other hashes. Short texts
/// need many rounds. After as many rounds as there are bins, each round fills one bin with all features, so
/// that an end is sure.
///
/// # Cost
///
/// The expected number of hashes is that of the features and some `BINS` ln `BINS`.
///
/// # References
///
/// Dahlgaard, Knudsen, Thorup: Fast Similarity Sketching, FOCS 2017. Li, König: b-Bit Minwise Hashing, WWW
/// 2010, with b = 1.
fn one_bits<const BINS: usize>(features: &[u64], seed: u64) -> [bool; BINS] {
    const { assert!(BINS.is_power_of_two() && BINS > 1) };
    // The sample of an empty bin.
    const EMPTY: u64 = u64::MAX;
    let mut samples = [EMPTY; BINS];
    for &feature in features {
        let (bin, value) = thrown::<BINS>(feature, 0, seed);
        samples[bin] = samples[bin].min(value);
    }
    // If a long text leaves bins empty, it repeats itself. No round needs a feature twice.
    let mut features = Cow::Borrowed(features);
    if samples.contains(&EMPTY) && features.len() > 8 * BINS {
        keep_distinct(features.to_mut());
    }
    for round in 1..2 * BINS {
        let open = samples.map(|sample| sample == EMPTY);
        if features.is_empty() || !open.contains(&true) {
            break;
        }
        if round >= BINS && !open[round - BINS] {
            continue;
        }
        for &feature in &*features {
            let (bin, value) = thrown::<BINS>(feature, round, seed);
            if open[bin] && value < samples[bin] {
                samples[bin] = value;
            }
        }
    }
    samples.map(is_for::<BINS>)
}

/// The bin into which a round throws a feature, and the value that is compared there. The first bits of a hash
/// are the bin, and come last in the value. The bit before them belongs to the sample.
#[inline]
pub(super) fn thrown<const BINS: usize>(feature: u64, round: usize, seed: u64) -> (usize, u64) {
    let hash = match round {
        0 => feature,
        _ => xxh3_64_with_seed(&feature.to_le_bytes(), seed.wrapping_add(round as u64)),
    };
    let value = hash.rotate_left(BINS.ilog2());
    let bin = if round < BINS {
        value as usize % BINS
    } else {
        round - BINS
    };
    (bin, value)
}

/// The bit of a sample, which is the next after those of the bin.
#[inline]
pub(super) fn is_for<const BINS: usize>(value: u64) -> bool {
    value >> BINS.ilog2() & 1 == 1
}

/// The sketch of this size of a text with these shingles, hashed with `seed`. `None` for no size, and
/// for a text without tokens.
pub(super) fn sketch(mut shingles: Vec<u64>, seed: u64, size: SketchSize) -> Option<Sketch> {
    keep_distinct(&mut shingles);
    let count = NonZeroU32::new(u32::try_from(shingles.len()).unwrap_or(u32::MAX))?;
    match size {
        SketchSize::None => None,
        SketchSize::Bytes16 => Some(Sketch::of_samples(&one_bits::<128>(&shingles, seed), count)),
        SketchSize::Bytes32 => Some(Sketch::of_samples(&one_bits::<256>(&shingles, seed), count)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hashed features, all different.
    fn features(numbers: std::ops::Range<u64>) -> Vec<u64> {
        numbers
            .map(|number| xxh3_64_with_seed(&number.to_le_bytes(), 1))
            .collect()
    }

    /// The definition: of all rounds, the least round and value of each bin.
    fn plain(features: &[u64], seed: u64) -> [bool; 64] {
        let mut least = [(usize::MAX, u64::MAX); 64];
        for round in 0..128 {
            for &feature in features {
                let (bin, value) = thrown::<64>(feature, round, seed);
                least[bin] = least[bin].min((round, value));
            }
        }
        least.map(|(_, value)| value >> 6 & 1 == 1)
    }

    #[test]
    fn samples_are_those_of_the_definition() {
        for count in [0, 1, 2, 3, 7, 20, 64, 100, 300, 1_000] {
            for seed in [0, 7, u64::MAX] {
                let mut features = features(0..count);
                assert_eq!(
                    one_bits::<64>(&features, seed),
                    plain(&features, seed),
                    "{count} features"
                );
                let bits = fingerprint(&features, seed);
                features.reverse();
                features.extend_from_within(..features.len() / 2);
                assert_eq!(
                    fingerprint(&features, seed),
                    bits,
                    "order or repetition counts"
                );
                assert_eq!(
                    fingerprint(&features.repeat(200), seed),
                    bits,
                    "repetition counts in long texts"
                );
            }
        }
    }

    /// With 400 trials, the mean distance has a standard error of 0.2 or less. Short sets count as much.
    #[test]
    fn the_distance_is_that_of_the_jaccard_similarity() {
        for (count, shared) in [(8, 7), (20, 18), (100, 90), (400, 300), (2_000, 1_900)] {
            let distance = |trial: u64| {
                let begin = trial * 10_000;
                let a = begin..begin + count;
                let b = begin + count - shared..begin + 2 * count - shared;
                fingerprint(&features(a), 7).distance(fingerprint(&features(b), 7))
            };
            let mean = f64::from((0..400).map(distance).sum::<u32>()) / 400.0;
            let jaccard = shared as f64 / (2 * count - shared) as f64;
            let expected = 32.0 * (1.0 - jaccard);
            assert!(
                (mean - expected).abs() < 0.8,
                "{count} features: {mean}, expected {expected}"
            );
        }
    }

    #[test]
    fn every_bit_is_one_for_about_half_of_all_sets() {
        let mut ones = [0; 64];
        for trial in 0..1_000 {
            let bits = fingerprint(&features(trial * 100..trial * 100 + 40), 7).bits();
            (0..64).for_each(|bit| ones[bit] += bits >> bit & 1);
        }
        assert!(
            ones.iter().all(|count| (400..600).contains(count)),
            "{ones:?}"
        );
    }
}
