//! The weighted vote that makes a fingerprint. Every feature votes, with its weight, for each bit of its
//! hash.

use crate::fingerprint::Fingerprint;

/// The value of a bit that has the same weight for it and against it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tie {
    Zero,
    /// The rule of some published implementations, which only their test vectors need.
    #[cfg(test)]
    One,
}

/// The fingerprint of features, each with its hash and its weight.
pub(super) fn fingerprint(features: impl Iterator<Item = (u64, u32)>, tie: Tie) -> Fingerprint {
    let mut votes = Votes::new();
    features.for_each(|(hash, weight)| votes.vote(hash, weight));
    votes.fingerprint(tie)
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

    /// The fingerprint. Each bit has the value with more weight.
    fn fingerprint(mut self, tie: Tie) -> Fingerprint {
        self.empty_lanes();
        let decide = |sum: u64| match (2 * sum).cmp(&self.total) {
            std::cmp::Ordering::Greater => true,
            std::cmp::Ordering::Less => false,
            std::cmp::Ordering::Equal => tie != Tie::Zero,
        };
        let bits = self
            .sums
            .iter()
            .enumerate()
            .map(|(bit, &sum)| u64::from(decide(sum)) << bit);
        Fingerprint::from_bits(bits.sum())
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The plain algorithm: 64 signed sums.
    fn plainly(features: &[(u64, u32)], tie: Tie) -> u64 {
        let sum = |bit: u32| -> i64 {
            let sign = |hash: u64| if hash >> bit & 1 == 1 { 1 } else { -1 };
            features
                .iter()
                .map(|&(hash, weight)| sign(hash) * i64::from(weight))
                .sum()
        };
        (0..64)
            .filter(|&bit| sum(bit) > 0 || (sum(bit) == 0 && tie == Tie::One))
            .map(|bit| 1 << bit)
            .sum()
    }

    fn fingerprint(features: &[(u64, u32)], tie: Tie) -> u64 {
        let mut votes = Votes::new();
        for &(hash, weight) in features {
            votes.vote(hash, weight);
        }
        votes.fingerprint(tie).bits()
    }

    proptest::proptest! {
        #[test]
        fn counting_in_lanes_equals_the_plain_algorithm(
            features in proptest::collection::vec((proptest::num::u64::ANY, 0u32..700), 0..400),
        ) {
            for tie in [Tie::Zero, Tie::One] {
                proptest::prop_assert_eq!(fingerprint(&features, tie), plainly(&features, tie));
            }
        }
    }

    #[test]
    fn lanes_are_emptied_before_they_overflow() {
        for count in [254, 255, 256, 257, 1000] {
            let features = vec![(u64::MAX, 1); count];
            assert_eq!(fingerprint(&features, Tie::Zero), u64::MAX, "{count} votes");
        }
        assert_eq!(
            fingerprint(&[(1, u32::MAX), (2, u32::MAX - 1)], Tie::Zero),
            1
        );
    }

    #[test]
    fn no_vote_at_all_is_a_tie() {
        assert_eq!(fingerprint(&[], Tie::Zero), 0);
        assert_eq!(fingerprint(&[], Tie::One), u64::MAX);
    }
}
