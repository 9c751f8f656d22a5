//! From candidates to near fingerprints. There is no other way from a row that a probe returned to a near
//! fingerprint.

use super::compare;
use super::permutation::{Permutation, Permuted};
use super::probes::Probe;
use crate::fingerprint::Fingerprint;

/// Stored fingerprints that a probe or a scan returned, permuted as in their table. Their distances are
/// not yet known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidates<'a>(&'a [u64]);

impl<'a> Candidates<'a> {
    /// The candidates in these rows of a permuted table.
    pub(crate) const fn new(rows: &'a [u64]) -> Self {
        Self(rows)
    }

    /// The number of candidates.
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// The number of candidates in the range of a probe.
    pub(crate) fn within(self, probe: &Probe) -> u64 {
        self.0
            .iter()
            .filter(|&&row| (probe.first..=probe.last).contains(&row))
            .count() as u64
    }

    /// The number of candidates in the range of a probe that are within `max_distance` of its query.
    pub(crate) fn near_within(self, probe: &Probe, max_distance: u32) -> u64 {
        let within = compare::within(self.0, probe.query.bits(), max_distance);
        within
            .filter(|(row, _)| (probe.first..=probe.last).contains(row))
            .count() as u64
    }

    /// The candidates within `max_distance` of the query. This is the only way to a [`NearFingerprint`]:
    /// it computes the distance of each candidate.
    ///
    /// `query` is permuted as the candidates are. The distance of permuted fingerprints is the same, so
    /// only the near ones are permuted back.
    #[inline]
    pub(crate) fn near(
        self,
        query: Permuted,
        max_distance: u32,
        permutation: &'a Permutation,
    ) -> impl Iterator<Item = NearFingerprint> + use<'a> {
        let within = compare::within(self.0, query.bits(), max_distance);
        within.map(|(row, distance)| NearFingerprint {
            distance,
            fingerprint: permutation.invert(Permuted::from_bits(row)),
        })
    }
}

/// A stored fingerprint within the max distance of a query. Ordered by distance, then fingerprint. So one
/// set both removes repeats and sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NearFingerprint {
    pub(crate) distance: u32,
    pub(crate) fingerprint: Fingerprint,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scattered permutation: position i comes from 37 i + 11 modulo 64.
    fn scattered() -> Permutation {
        Permutation::new(std::array::from_fn(|i| ((37 * i + 11) % 64) as u8)).expect("37 is odd")
    }

    #[test]
    fn fingerprints_are_found_up_to_the_max_distance_and_no_farther() {
        let permutation = scattered();
        let query = permutation.apply(Fingerprint::from_bits(0));
        // Distances 0 to 63 in turn, in a list longer than the number of rows compared together.
        let fingerprints: Vec<Fingerprint> = (0..1000u64)
            .map(|i| {
                Fingerprint::from_bits((1u64 << (i % 64)).wrapping_sub(1).rotate_left(i as u32))
            })
            .collect();
        let rows: Vec<u64> = fingerprints
            .iter()
            .map(|&it| permutation.apply(it).bits())
            .collect();
        for max_distance in [0, 3, 7, 40, 64] {
            for first in [0, 1, 31, 990, 1000] {
                let candidates = Candidates::new(&rows[first..]);
                let found: Vec<NearFingerprint> =
                    candidates.near(query, max_distance, &permutation).collect();
                let near = fingerprints[first..]
                    .iter()
                    .map(|&fingerprint| NearFingerprint {
                        distance: fingerprint.bits().count_ones(),
                        fingerprint,
                    });
                assert_eq!(
                    found,
                    near.filter(|it| it.distance <= max_distance)
                        .collect::<Vec<_>>()
                );
            }
        }
    }
}
