//! Simhash with sparse votes. Each feature votes, with its weight, for or against one bit, which its hash
//! chooses. So few features decide about a bit, and a small edit leaves most bits alone.

use super::minwise::{is_for, thrown};
use crate::fingerprint::Fingerprint;

const BITS: usize = 64;

/// The fingerprint of distinct features, each with its hash and its weight: a bit is one if more weight is for it
/// than against it.
///
/// A round throws every feature at a bit, as [minwise samples](super::minwise::one_bits) are thrown into bins. Most
/// texts have a vote for every bit after the first round. The bits without one go into the next round, with
/// other hashes. So short texts have as many votes as they need. After as many rounds as there are bits,
/// each round has all features vote for one bit, so that an end is sure.
///
/// # Cost
///
/// One addition for each feature of a long text. The expected number of hashes is that of the features and some
/// 64 ln 64.
///
/// # References
///
/// Charikar: Similarity Estimation Techniques from Rounding Algorithms, STOC 2002. The projections are those of
/// Li, Hastie, Church: Very Sparse Random Projections, KDD 2006, with one entry that is not zero for each feature, as
/// in Charikar, Chen, Farach-Colton: Finding Frequent Items in Data Streams, ICALP 2002. The rounds are those of
/// Dahlgaard, Knudsen, Thorup: Fast Similarity Sketching, FOCS 2017.
pub(super) fn fingerprint(
    features: &(impl Iterator<Item = (u64, u32)> + Clone),
    seed: u64,
) -> Fingerprint {
    let mut sums = [0i64; BITS];
    let mut voted = 0u64;
    for round in 0..2 * BITS {
        if voted == u64::MAX {
            break;
        }
        let open = !voted;
        for (feature, weight) in features.clone() {
            let (bit, value) = thrown::<BITS>(feature, round, seed);
            if open >> bit & 1 == 1 {
                let weight = i64::from(weight);
                sums[bit] += if is_for::<BITS>(value) {
                    weight
                } else {
                    -weight
                };
                voted |= 1 << bit;
            }
        }
    }
    Fingerprint::from_bits((0..BITS).map(|bit| u64::from(sums[bit] > 0) << bit).sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    fn features(numbers: std::ops::Range<u64>) -> Vec<(u64, u32)> {
        let weight = |number| 1 + (number % 3) as u32;
        numbers
            .map(|number| (xxh3_64_with_seed(&number.to_le_bytes(), 1), weight(number)))
            .collect()
    }

    fn of(features: &[(u64, u32)]) -> Fingerprint {
        fingerprint(&features.iter().copied(), 7)
    }

    /// The definition, bit by bit: the votes of the first round in which the bit has one.
    fn plain(features: &[(u64, u32)]) -> u64 {
        let sum = |bit: usize| {
            let votes = |round| -> Vec<i64> {
                let thrown = |&(feature, weight): &(u64, u32)| {
                    let hash = match round {
                        0 => feature,
                        _ => xxh3_64_with_seed(&feature.to_le_bytes(), 7 + round),
                    };
                    let at = if round < 64 { hash >> 58 } else { round - 64 };
                    let sign = if hash & 1 == 1 { 1 } else { -1 };
                    (at == bit as u64).then_some(sign * i64::from(weight))
                };
                features.iter().filter_map(thrown).collect()
            };
            (0..128)
                .map(votes)
                .find(|votes| !votes.is_empty())
                .map_or(0, |votes| votes.iter().sum())
        };
        (0..64).map(|bit| u64::from(sum(bit) > 0) << bit).sum()
    }

    #[test]
    fn fingerprints_are_those_of_the_definition_in_any_order() {
        for count in [0, 1, 2, 3, 7, 20, 64, 100, 300, 1_000] {
            let mut features = features(0..count);
            let made = of(&features);
            assert_eq!(made.bits(), plain(&features), "{count} features");
            features.reverse();
            assert_eq!(of(&features), made, "{count} features in another order");
        }
    }

    /// With twice the weight against it as for it, a bit is zero, however many features are for it.
    #[test]
    fn weight_decides_and_a_tie_is_zero() {
        let bit = 3;
        let at = |number: u64, is_for: bool| bit << 58 | number << 1 | u64::from(is_for);
        let is_one = |features: &[(u64, u32)]| of(features).bits() >> bit & 1 == 1;
        assert!(is_one(&[(at(0, true), 1)]) && !is_one(&[(at(0, false), 1)]));
        assert!(!is_one(&[
            (at(0, true), 2),
            (at(1, true), 3),
            (at(2, false), 10)
        ]));
        assert!(!is_one(&[(at(0, true), 7), (at(1, false), 7)]));
        assert!(is_one(&[
            (at(0, true), u32::MAX),
            (at(1, true), 1),
            (at(2, false), u32::MAX)
        ]));
    }

    #[test]
    fn every_bit_is_one_for_nearly_half_of_all_texts() {
        let mut ones = [0; BITS];
        for trial in 0..1_000 {
            let bits = of(&features(trial * 1_000..trial * 1_000 + 300)).bits();
            (0..BITS).for_each(|bit| ones[bit] += bits >> bit & 1);
        }
        assert!(
            ones.iter().all(|count| (350..600).contains(count)),
            "{ones:?}"
        );
    }
}
