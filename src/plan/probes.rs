//! Probe sets: the range reads that together answer a distance exactly.

use std::sync::LazyLock;

use super::covering::{self, Reach};
use super::table::{Permuted, Table};

/// A prefix of one table that is probed. The probe finds all fingerprints that differ from the query in at
/// most `flips` of the leading `prefix_bits` bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProbedPrefix {
    pub(crate) table: usize,
    pub(crate) prefix_bits: u32,
    pub(crate) flips: u32,
}

/// The way a distance is answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ProbeSet {
    /// By probes of these prefixes, which were proved to miss nothing.
    Prefixes(Vec<ProbedPrefix>),
    /// By comparing the query with every fingerprint.
    Scan,
}

impl ProbedPrefix {
    /// The same prefix with one more flip.
    pub(super) fn flipped(self) -> Self {
        Self {
            flips: self.flips + 1,
            ..self
        }
    }

    /// The number of ranges that a query reads for this prefix. Where the flips left are enough for all
    /// remaining bits of the prefix, one range has every value of these bits. That leaves one range for
    /// each choice of `flips` of the bits.
    pub(crate) fn ranges(self) -> f64 {
        if self.flips >= self.prefix_bits {
            1.0
        } else {
            CHOICES[self.prefix_bits as usize][self.flips as usize].0
        }
    }

    /// The number of values of the prefix that these ranges contain.
    pub(super) fn values(self) -> f64 {
        CHOICES[self.prefix_bits as usize][self.flips.min(self.prefix_bits) as usize].1
    }

    /// Calls `each` with the first and last row of each range, in order.
    #[inline]
    pub(crate) fn each_range(self, query: Permuted, mut each: impl FnMut(u64, u64)) {
        let row = query.bits();
        match self.flips {
            0 => {
                let (first, last) = rows_with_prefix(row, self.prefix_bits);
                each(first, last);
            }
            flips => flipped(row, 0, self.prefix_bits, flips, &mut each),
        }
    }
}

/// For each number of up to 64 things and of chosen ones, the number of ways to choose as many, and the number of ways
/// to choose up to as many. The planner asks for millions of them.
static CHOICES: LazyLock<Vec<[(f64, f64); 65]>> = LazyLock::new(|| {
    let mut choices = vec![[(0.0, 0.0); 65]; 65];
    for (all, choices) in choices.iter_mut().enumerate() {
        let mut exactly = 1.0;
        let mut up_to = 0.0;
        for (chosen, choices) in choices.iter_mut().enumerate() {
            up_to += exactly;
            *choices = (exactly, up_to);
            // After all things there is none left to choose.
            exactly *= all.saturating_sub(chosen) as f64 / (chosen + 1) as f64;
        }
    }
    choices
});

/// The first and the last row that agree with a row in the first bits.
fn rows_with_prefix(row: u64, bits: u32) -> (u64, u64) {
    let rest = u64::MAX.checked_shr(bits).unwrap_or(0);
    (row & !rest, row | rest)
}

/// Calls `each` with the ranges around a row, in order. The bits before `bit` are fixed. Up to `flips` of
/// the bits from there to `prefix_bits` may be flipped.
fn flipped(row: u64, bit: u32, prefix_bits: u32, flips: u32, each: &mut impl FnMut(u64, u64)) {
    if flips >= prefix_bits - bit || flips == 0 {
        let fixed = if flips == 0 { prefix_bits } else { bit };
        let (first, last) = rows_with_prefix(row, fixed);
        return each(first, last);
    }
    let mask = 1 << (63 - bit);
    for value in [row & !mask, row | mask] {
        let left = flips - u32::from(value != row);
        flipped(value, bit + 1, prefix_bits, left, each);
    }
}

impl ProbeSet {
    /// Whether the probe set is proved to miss nothing at this distance.
    pub(super) fn is_exact(&self, tables: &[Table], distance: u32) -> bool {
        match self {
            Self::Scan => true,
            Self::Prefixes(prefixes) => {
                let mut reaches = Vec::with_capacity(prefixes.len());
                for prefix in prefixes {
                    reaches.push(Reach {
                        prefix: tables[prefix.table].prefix_mask(prefix.prefix_bits),
                        flips: prefix.flips,
                    });
                }
                covering::is_proved(&reaches, distance)
            }
        }
    }

    /// The number of ranges that a query reads. A scan has none.
    pub(super) fn probed_ranges(&self) -> f64 {
        let prefixes = self.prefixes().unwrap_or(&[]);
        prefixes.iter().map(|prefix| prefix.ranges()).sum()
    }

    /// The prefixes that are probed. `None` if the distance is answered by a scan.
    pub(crate) fn prefixes(&self) -> Option<&[ProbedPrefix]> {
        match self {
            Self::Prefixes(prefixes) => Some(prefixes),
            Self::Scan => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ranges_and_values_are_counted_as_they_are_made() {
        for (prefix_bits, flips) in [
            (16, 0),
            (16, 1),
            (21, 2),
            (8, 3),
            (3, 3),
            (3, 5),
            (0, 0),
            (64, 1),
        ] {
            let prefix = ProbedPrefix {
                table: 0,
                prefix_bits,
                flips,
            };
            let mut ranges = 0;
            let mut values = 0u128;
            let mut last_end = None;
            prefix.each_range(Permuted::from_bits(0x0123_4567_89ab_cdef), |first, last| {
                assert!(last_end.is_none_or(|end| first > end), "{prefix:?}");
                last_end = Some(last);
                ranges += 1;
                values += (u128::from(last - first) + 1) >> (64 - prefix_bits);
            });
            assert_eq!(
                (f64::from(ranges), values as f64),
                (prefix.ranges(), prefix.values()),
                "{prefix:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn one_range_has_each_row_within_the_flips_and_none_has_others(
            row: u64, difference: u64, thin: u64, prefix_bits in 0..=64u32, flips in 0..4u32,
        ) {
            let prefix = ProbedPrefix { table: 0, prefix_bits, flips };
            prop_assume!(prefix.ranges() < 1e5);
            let other = row ^ (difference & thin & thin.rotate_left(7));
            let mut found = 0;
            prefix.each_range(Permuted::from_bits(row), |first, last| {
                found += u32::from((first..=last).contains(&other));
            });
            let differing = (row ^ other).checked_shr(64 - prefix_bits).unwrap_or(0).count_ones();
            prop_assert_eq!(found, u32::from(differing <= flips));
        }
    }
}
