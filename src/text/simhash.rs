//! The weighted votes that make a fingerprint. Every feature votes, with its weight, for each bit of its hash. Or,
//! where votes are sparse, for or against one bit, which its hash chooses. So few features decide about a bit, and a
//! small edit leaves most bits alone.

use super::minwise::{is_for, thrown};
use crate::fingerprint::Fingerprint;

/// The fingerprint of features, each with its hash and its weight: a bit is one if more weight is for it than against
/// it.
pub(super) fn fingerprint(features: impl Iterator<Item = (u64, u32)>) -> Fingerprint {
    let mut votes = Votes::new();
    for (hash, weight) in features {
        votes.vote(hash, weight);
    }
    votes.fingerprint()
}

/// The votes so far.
///
/// The plain algorithm keeps 64 sums. For each feature and each bit, it adds or subtracts the weight. This
/// code counts only the votes *for* a bit, because the rest of the total is against it. It spreads eight
/// bits of a hash over the eight bytes of a word. So one addition counts eight votes. Before a byte can
/// overflow, the words are added to the sums and cleared.
struct Votes {
    /// Lane b of word i, which is its byte b, counts the votes for bit 8 i + b. Both count from the least
    /// significant.
    lanes: [u64; 8],
    /// The weight voted since the lanes were emptied. No lane exceeds it, and it does not exceed 255.
    in_lanes: u32,
    sums: [u64; 64],
    total: u64,
}

/// For each value of a byte, a word whose byte b is 1 if bit b of the value is set.
const SPREAD: [u64; 256] = {
    let mut spread = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut bit = 0;
        while bit < 8 {
            spread[byte] |= ((byte as u64 >> bit) & 1) << (8 * bit);
            bit += 1;
        }
        byte += 1;
    }
    spread
};

/// The largest count that a lane holds.
const LANE_MAX: u32 = u8::MAX as u32;

impl Votes {
    fn new() -> Self {
        Self {
            lanes: [0; 8],
            in_lanes: 0,
            sums: [0; 64],
            total: 0,
        }
    }

    /// Counts the votes of a feature with this hash and this weight.
    fn vote(&mut self, hash: u64, weight: u32) {
        self.total += u64::from(weight);
        if weight > LANE_MAX {
            for (bit, sum) in self.sums.iter_mut().enumerate() {
                *sum += (hash >> bit & 1) * u64::from(weight);
            }
            return;
        }
        if self.in_lanes + weight > LANE_MAX {
            self.empty_lanes();
        }
        self.in_lanes += weight;
        for (lane, byte) in self.lanes.iter_mut().zip(hash.to_le_bytes()) {
            *lane += SPREAD[usize::from(byte)] * u64::from(weight);
        }
    }

    fn fingerprint(mut self) -> Fingerprint {
        self.empty_lanes();
        let mut bits = 0;
        for (bit, sum) in self.sums.into_iter().enumerate() {
            bits |= u64::from(2 * sum > self.total) << bit;
        }
        Fingerprint::from_bits(bits)
    }

    fn empty_lanes(&mut self) {
        for (sums, lane) in self.sums.chunks_exact_mut(8).zip(&mut self.lanes) {
            for (sum, count) in sums.iter_mut().zip(lane.to_le_bytes()) {
                *sum += u64::from(count);
            }
            *lane = 0;
        }
        self.in_lanes = 0;
    }
}

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
pub(super) fn sparse_fingerprint(
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
                if is_for::<BITS>(value) {
                    sums[bit] += i64::from(weight);
                } else {
                    sums[bit] -= i64::from(weight);
                }
                voted |= 1 << bit;
            }
        }
    }
    Fingerprint::from_bits((0..BITS).map(|bit| u64::from(sums[bit] > 0) << bit).sum())
}

#[cfg(test)]
mod tests {
    use xxhash_rust::xxh3::xxh3_64_with_seed;

    use super::*;

    /// The plain algorithm: 64 signed sums.
    fn plainly(features: &[(u64, u32)]) -> u64 {
        let sum = |bit: u32| -> i64 {
            let sign = |hash: u64| if hash >> bit & 1 == 1 { 1 } else { -1 };
            features
                .iter()
                .map(|&(hash, weight)| sign(hash) * i64::from(weight))
                .sum()
        };
        (0..64)
            .filter(|&bit| sum(bit) > 0)
            .map(|bit| 1 << bit)
            .sum()
    }

    fn made(features: &[(u64, u32)]) -> u64 {
        fingerprint(features.iter().copied()).bits()
    }

    proptest::proptest! {
        #[test]
        fn counting_in_lanes_equals_the_plain_algorithm(
            features in proptest::collection::vec((proptest::num::u64::ANY, 0u32..700), 0..400),
        ) {
            proptest::prop_assert_eq!(made(&features), plainly(&features));
        }
    }

    #[test]
    fn lanes_are_emptied_before_they_overflow() {
        for count in [254, 255, 256, 257, 1000] {
            let features = vec![(u64::MAX, 1); count];
            assert_eq!(made(&features), u64::MAX, "{count} votes");
        }
        assert_eq!(made(&[(1, u32::MAX), (2, u32::MAX - 1)]), 1);
    }

    #[test]
    fn no_vote_at_all_is_a_tie() {
        assert_eq!(made(&[]), 0);
    }

    fn features(numbers: std::ops::Range<u64>) -> Vec<(u64, u32)> {
        let weight = |number| 1 + (number % 3) as u32;
        numbers
            .map(|number| (xxh3_64_with_seed(&number.to_le_bytes(), 1), weight(number)))
            .collect()
    }

    fn sparse(features: &[(u64, u32)]) -> Fingerprint {
        sparse_fingerprint(&features.iter().copied(), 7)
    }

    /// The definition, bit by bit: the votes of the first round in which the bit has one.
    fn plainly_sparse(features: &[(u64, u32)]) -> u64 {
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
            let made = sparse(&features);
            assert_eq!(made.bits(), plainly_sparse(&features), "{count} features");
            features.reverse();
            assert_eq!(sparse(&features), made, "{count} features in another order");
        }
    }

    /// With twice the weight against it as for it, a bit is zero, however many features are for it.
    #[test]
    fn weight_decides_and_a_tie_is_zero() {
        let bit = 3;
        let at = |number: u64, is_for: bool| bit << 58 | number << 1 | u64::from(is_for);
        let is_one = |features: &[(u64, u32)]| sparse(features).bits() >> bit & 1 == 1;
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
            let bits = sparse(&features(trial * 1_000..trial * 1_000 + 300)).bits();
            (0..BITS).for_each(|bit| ones[bit] += bits >> bit & 1);
        }
        assert!(
            ones.iter().all(|count| (350..600).contains(count)),
            "{ones:?}"
        );
    }
}
