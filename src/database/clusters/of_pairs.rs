//! Clusters of fingerprints whose pairs are given.

use std::collections::HashMap;

use foldhash::fast::RandomState;

use super::grouping::{self, Components, Visit};
use crate::error::Result;
use crate::fingerprint::Fingerprint;

/// Pairs of near fingerprints, which may come from another program, for their clusters.
#[derive(Clone, Debug, Default)]
pub(crate) struct GivenPairs {
    indexes: HashMap<Fingerprint, u32, RandomState>,
    fingerprints: Vec<Fingerprint>,
    pairs: Vec<[u32; 2]>,
}

/// The clusters of the pairs.
#[derive(Debug)]
pub(crate) struct GivenClusters {
    fingerprints: Vec<Fingerprint>,
    /// The fingerprints of each cluster one after the other, its centre first. With each, whether it begins a cluster.
    members: Vec<(u32, bool)>,
}

impl GivenPairs {
    /// Adds a pair. Both fingerprints may be the same: several documents have that.
    pub(crate) fn add(&mut self, a: Fingerprint, b: Fingerprint) {
        let [a, b] = [a, b].map(|it| self.index_of(it));
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

    /// Puts each fingerprint into one cluster. A pair that is given again counts once. Those with most neighbours come first, and of equal ones the least: they
    /// are the centres of stars, or survive in their component.
    pub(crate) fn into_clusters(self, is_connected: bool) -> Result<GivenClusters> {
        let Self {
            indexes,
            fingerprints,
            mut pairs,
        } = self;
        drop(indexes);
        // A pair may be given again, as a job does that was started twice. It is one neighbour all the same.
        pairs.sort_unstable();
        pairs.dedup();
        let mut starts = vec![0; fingerprints.len() + 1];
        for &node in pairs.as_flattened() {
            starts[node as usize + 1] += 1;
        }
        let mut order: Vec<u32> = (0..fingerprints.len() as u32).collect();
        let rank = |&node: &u32| {
            (
                u64::MAX - starts[node as usize + 1],
                fingerprints[node as usize],
            )
        };
        order.sort_unstable_by_key(rank);
        let centres = if is_connected {
            let mut components = Components::new(fingerprints.len());
            pairs
                .iter()
                .for_each(|&[a, b]| components.join(a, b, &|| true));
            grouping::best_of(components.sets(), &order)
        } else {
            let neighbours = neighbours(&mut starts, &pairs);
            drop(pairs);
            grouping::stars(fingerprints.len(), &order, |node: u32, visit: Visit<'_>| {
                let [start, end] = [node, node + 1].map(|it| starts[it as usize] as usize);
                neighbours[start..end]
                    .iter()
                    .for_each(|&it| _ = visit(it, &|| true));
                Ok(())
            })?
        };
        let mut places = vec![0; order.len()];
        (0u32..)
            .zip(&order)
            .for_each(|(place, &node)| places[node as usize] = place);
        order.sort_unstable_by_key(|&node| {
            let centre = centres[node as usize];
            (
                places[centre as usize],
                node != centre,
                fingerprints[node as usize],
            )
        });
        let members = order
            .into_iter()
            .map(|node| (node, centres[node as usize] == node))
            .collect();
        Ok(GivenClusters {
            fingerprints,
            members,
        })
    }
}

/// The neighbours of each node one after the other. Of `starts`, each that came in as a number of neighbours goes out
/// as the place where those of its node begin.
fn neighbours(starts: &mut [u64], pairs: &[[u32; 2]]) -> Vec<u32> {
    for index in 1..starts.len() {
        starts[index] += starts[index - 1];
    }
    let (mut next, mut neighbours) = (starts.to_vec(), vec![0; pairs.len() * 2]);
    for &[a, b] in pairs {
        for (node, neighbour) in [(a, b), (b, a)] {
            let place = &mut next[node as usize];
            neighbours[*place as usize] = neighbour;
            *place += 1;
        }
    }
    neighbours
}

impl GivenClusters {
    /// The clusters, each with its centre first and the others in their order. The one whose centre has most neighbours
    /// comes first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = impl Iterator<Item = Fingerprint> + Clone> {
        let clusters = self.members.chunk_by(|_, next| !next.1);
        clusters.map(|cluster| {
            cluster
                .iter()
                .map(|&(node, _)| self.fingerprints[node as usize])
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job that was started twice writes its pairs twice, and then other fingerprints used to survive.
    #[test]
    fn a_pair_that_is_given_again_counts_once() -> Result<()> {
        let given = [(1, 2), (2, 1), (1, 2), (2, 3), (3, 4), (3, 5)];
        let of = |given: &[(u64, u64)], is_connected| -> Result<Vec<Vec<u64>>> {
            let mut pairs = GivenPairs::default();
            given.iter().for_each(|&(a, b)| {
                pairs.add(Fingerprint::from_bits(a), Fingerprint::from_bits(b))
            });
            let clusters = pairs.into_clusters(is_connected)?;
            Ok(clusters
                .iter()
                .map(|it| it.map(Fingerprint::bits).collect())
                .collect())
        };
        assert_eq!(of(&given, false)?, [vec![3, 2, 4, 5], vec![1]]);
        assert_eq!(of(&given[2..], false)?, of(&given, false)?);
        assert_eq!(of(&given, true)?, [[3, 1, 2, 4, 5]]);
        Ok(())
    }
}
