//! Plan: the tables of a file, and the probes that answer a distance exactly. Hides which tables there are.

mod covering;
mod permutation;

use std::fmt;
use std::ops::RangeInclusive;

pub(crate) use permutation::{Candidate, Near, Permutation, Permuted};

use crate::fingerprint::Fingerprint;

/// The permuted tables of a file, fixed at its creation.
#[derive(Clone)]
pub(crate) struct Plan {
    tables: Vec<Table>,
    /// For each distance from 0 to the radius, the tables that are probed: the fewest that miss nothing.
    probed: Vec<Vec<usize>>,
}

/// A permuted table: its bit order, and the leading bits that a probe matches on.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) permutation: Permutation,
    pub(crate) prefix_bits: u32,
}

/// One range read of one table for one query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) table: usize,
    /// The fingerprint asked for, as the table has it.
    pub(crate) query: Permuted,
    pub(crate) range: RangeInclusive<Permuted>,
}

impl Plan {
    /// Four tables with prefixes of 16 bits: exact for distances up to 3, by probing.
    pub(crate) fn four_blocks() -> Self {
        let tables = covering::one_block_in_front(4)
            .into_iter()
            .map(|positions| Table {
                permutation: Permutation::new(positions).expect("a rotation is a permutation"),
                prefix_bits: 16,
            })
            .collect();
        Self::new(tables).expect("four tables with prefixes of 16 bits are a plan")
    }

    /// The plan of these tables, or `None` where there are none, more than 16, or a prefix longer than 64 bits.
    pub(crate) fn new(tables: Vec<Table>) -> Option<Self> {
        if tables.is_empty() || tables.len() > 16 || tables.iter().any(|table| table.prefix_bits > 64) {
            return None;
        }
        let masks: Vec<u64> =
            tables.iter().map(|table| table.permutation.prefix_mask(table.prefix_bits)).collect();
        Some(Self { tables, probed: covering::fewest_tables(&masks) })
    }

    /// The tables, in the order of their numbers.
    pub(crate) fn tables(&self) -> &[Table] {
        &self.tables
    }

    /// The largest distance that probes answer exactly; beyond it a query scans.
    pub(crate) fn radius(&self) -> u32 {
        self.probed.len() as u32 - 1
    }

    /// The probes that together return every stored fingerprint within `max_distance` bits of `query`, or `None`
    /// where the tables cannot promise that and all fingerprints have to be scanned.
    pub(crate) fn probes(&self, query: Fingerprint, max_distance: u32) -> Option<Vec<Probe>> {
        let tables = self.probed.get(max_distance as usize)?;
        let probe = |&table: &usize| {
            let Table { permutation, prefix_bits } = &self.tables[table];
            // At distance 0 all bits are known, not only those of the prefix.
            let prefix_bits = if max_distance == 0 { 64 } else { *prefix_bits };
            let query = permutation.apply(query);
            Probe { table, query, range: query.range(prefix_bits) }
        };
        Some(tables.iter().map(probe).collect())
    }
}

/// The name of a plan: number of tables, `x`, bits of their shortest prefix.
impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let prefix_bits = self.tables.iter().map(|table| table.prefix_bits).min().unwrap_or(0);
        write!(f, "{}x{prefix_bits}", self.tables.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_blocks_probe_one_table_more_than_the_distance_and_then_scan() {
        let plan = Plan::four_blocks();
        let query = Fingerprint::from_bits(0x0123_4567_89ab_cdef);
        assert_eq!(plan.to_string(), "4x16");
        assert_eq!(plan.radius(), 3);
        for max_distance in 0..=3 {
            let probes = plan.probes(query, max_distance).expect("within the radius");
            assert_eq!(probes.len(), max_distance as usize + 1);
        }
        assert_eq!(plan.probes(query, 4), None);
        assert_eq!(plan.probes(query, 64), None);
    }

    #[test]
    fn every_difference_of_three_bits_is_caught_by_some_probe() {
        let plan = Plan::four_blocks();
        let query = Fingerprint::from_bits(0xfeed_face_cafe_beef);
        let mut differences = 0;
        for difference in crate::fingerprint::differences_up_to(3) {
            differences += 1;
            let stored = Fingerprint::from_bits(query.bits() ^ difference);
            let caught = plan
                .probes(query, difference.count_ones())
                .into_iter()
                .flatten()
                .any(|probe| probe.range.contains(&plan.tables()[probe.table].permutation.apply(stored)));
            assert!(caught, "difference {difference:#x}");
        }
        assert_eq!(differences, 43_745);
    }

    #[test]
    fn plans_without_tables_or_with_impossible_prefixes_are_refused() {
        let mut table = Plan::four_blocks().tables()[0].clone();
        assert!(Plan::new(Vec::new()).is_none());
        table.prefix_bits = 65;
        assert!(Plan::new(vec![table]).is_none());
    }
}
