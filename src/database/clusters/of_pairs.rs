//! Clusters of fingerprints whose pairs are given.

use std::cmp::Reverse;
use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::grouping::{self, Components, Places};
use crate::error::Result;
use crate::fingerprint::Fingerprint;

/// Pairs of near fingerprints, which may come from another program, for their clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenPairs {
    indexes: HashMap<Fingerprint, u32, RandomState>,
    fingerprints: Vec<Fingerprint>,
    pairs: Vec<[u32; 2]>,
}

impl GivenPairs {
    /// Adds a pair. Both fingerprints may be the same: several documents have that.
    pub(crate) fn add(&mut self, a: Fingerprint, b: Fingerprint) {
        let a = self.index_of(a);
        let b = self.index_of(b);
        if a != b {
            self.pairs.push([a.min(b), a.max(b)]);
        }
    }

    fn index_of(&mut self, fingerprint: Fingerprint) -> u32 {
        *self.indexes.entry(fingerprint).or_insert_with(|| {
            self.fingerprints.push(fingerprint);
            self.fingerprints.len() as u32 - 1
        })
    }

    /// Puts each fingerprint into one cluster. A pair that is given again counts once. Those with most neighbours come
    /// first, and of equal ones the least: they are the centres of stars, or survive in their component.
    ///
    /// Returns the fingerprints of each cluster one after the other: its centre, and the others in their order. With
    /// each, whether it begins a cluster. The one whose centre has most neighbours comes first.
    pub(crate) fn into_clusters(self, is_connected: bool) -> Result<Vec<(Fingerprint, bool)>> {
        let Self {
            indexes,
            fingerprints,
            mut pairs,
        } = self;
        drop(indexes);
        // A pair may be given again, as a job does that was started twice. It is one neighbour all the same.
        pairs.sort_unstable();
        pairs.dedup();
        let nodes = pairs.as_flattened().iter().map(|&node| node as usize);
        let mut places = Places::new(fingerprints.len(), nodes);
        let mut order: Vec<u32> = (0..fingerprints.len() as u32).collect();
        order.sort_unstable_by_key(|&node| {
            let starts = &places.starts[node as usize..];
            (Reverse(starts[1] - starts[0]), fingerprints[node as usize])
        });

        let centres = if is_connected {
            let mut components = Components::new(fingerprints.len());
            for &[a, b] in &pairs {
                components.join(a, b, &|| true);
            }
            grouping::best_of(components.sets(), &order)
        } else {
            // The neighbours of each node one after the other.
            let mut neighbours = vec![0; pairs.len() * 2];
            for [a, b] in pairs {
                neighbours[places.next(a as usize)] = b;
                neighbours[places.next(b as usize)] = a;
            }
            let starts = places.starts;
            grouping::stars(fingerprints.len(), &order, &mut |node, visit| {
                let node = node as usize;
                for &neighbour in &neighbours[starts[node]..starts[node + 1]] {
                    visit(neighbour, &|| true);
                }
                Ok(())
            })?
        };

        let mut ranks = vec![0; order.len()];
        for (rank, &node) in (0u32..).zip(&order) {
            ranks[node as usize] = rank;
        }
        order.sort_unstable_by_key(|&node| {
            let centre = centres[node as usize];
            let fingerprint = fingerprints[node as usize];
            (ranks[centre as usize], node != centre, fingerprint)
        });
        let mut members = Vec::with_capacity(order.len());
        for node in order {
            let is_centre = centres[node as usize] == node;
            members.push((fingerprints[node as usize], is_centre));
        }
        Ok(members)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that was started twice writes its pairs twice, and then other fingerprints used to survive.
    #[test]
    fn a_pair_that_is_given_again_counts_once() -> Result<()> {
        let given = [(1, 2), (2, 1), (1, 2), (2, 3), (3, 4), (3, 5)];
        assert_eq!(clusters(&given, false)?, [vec![3, 2, 4, 5], vec![1]]);
        assert_eq!(clusters(&given[2..], false)?, clusters(&given, false)?);
        assert_eq!(clusters(&given, true)?, [[3, 1, 2, 4, 5]]);
        Ok(())
    }

    fn clusters(given: &[(u64, u64)], is_connected: bool) -> Result<Vec<Vec<u64>>> {
        let mut pairs = GivenPairs::default();
        for &(a, b) in given {
            pairs.add(Fingerprint::from_bits(a), Fingerprint::from_bits(b));
        }
        let members = pairs.into_clusters(is_connected)?;
        let clusters = members.chunk_by(|_, next| !next.1);
        let bits = clusters.map(|cluster| cluster.iter().map(|member| member.0.bits()).collect());
        Ok(bits.collect())
    }
}
