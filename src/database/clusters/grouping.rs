//! From near nodes to clusters: stars around the best nodes, or connected components.

/// Two near nodes, by their indexes.
pub(super) type Edge = (u32, u32);

/// For each node the index of the centre of its cluster, by stars: going through the nodes in `order`, the best first,
/// each that is in no cluster yet is a centre, and all its neighbours that are in none join it.
///
/// So every node is a neighbour of its centre, and no two centres are neighbours. A node joins the best centre that it
/// is near to.
///
/// # Cost
///
/// 8 bytes of memory for each edge, and some more for each node.
///
/// # References
///
/// Aslam, Pelekhov, Rus: The Star Clustering Algorithm for Static and Dynamic Information Organization, 2004, with an
/// order of the nodes that is given.
pub(super) fn stars(nodes: usize, edges: &[Edge], order: &[u32]) -> Vec<u32> {
    let neighbours = Neighbours::new(nodes, edges);
    let mut centres = vec![NONE; nodes];
    for &node in order {
        if centres[node as usize] != NONE {
            continue;
        }
        centres[node as usize] = node;
        for &other in neighbours.of(node) {
            let centre = &mut centres[other as usize];
            *centre = if *centre == NONE { node } else { *centre };
        }
    }
    centres
}

/// For each node the index of the best node that it is connected with, by chains of neighbours. The best ones stand
/// first in `order`.
pub(super) fn components(nodes: usize, edges: &[Edge], order: &[u32]) -> Vec<u32> {
    let mut roots: Vec<u32> = (0..nodes as u32).collect();
    for &(a, b) in edges {
        let (a, b) = (root_of(&mut roots, a), root_of(&mut roots, b));
        roots[a.max(b) as usize] = a.min(b);
    }
    let mut best = vec![NONE; nodes];
    for &node in order {
        let best = &mut best[root_of(&mut roots, node) as usize];
        *best = if *best == NONE { node } else { *best };
    }
    (0..nodes as u32).map(|node| best[root_of(&mut roots, node) as usize]).collect()
}

/// No node.
const NONE: u32 = u32::MAX;

/// The root of the tree in which a node stands. Each node on the way is brought nearer to it.
fn root_of(roots: &mut [u32], mut node: u32) -> u32 {
    while roots[node as usize] != node {
        roots[node as usize] = roots[roots[node as usize] as usize];
        node = roots[node as usize];
    }
    node
}

/// The neighbours of each node, one after the other.
struct Neighbours {
    /// Where the neighbours of each node begin, and where the last ones end.
    starts: Vec<usize>,
    all: Vec<u32>,
}

impl Neighbours {
    fn new(nodes: usize, edges: &[Edge]) -> Self {
        let mut starts = vec![0; nodes + 1];
        for &(a, b) in edges {
            starts[a as usize + 1] += 1;
            starts[b as usize + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        let mut next = starts.clone();
        let mut all = vec![0; sum];
        for &(a, b) in edges {
            for (from, to) in [(a, b), (b, a)] {
                all[next[from as usize]] = to;
                next[from as usize] += 1;
            }
        }
        Self { starts, all }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.all[self.starts[node as usize]..self.starts[node as usize + 1]]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    fn sets(centres: &[u32]) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut sets: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        (0..).zip(centres).for_each(|(node, &centre)| _ = sets.entry(centre).or_default().insert(node));
        sets
    }

    #[test]
    fn a_chain_is_one_component_and_several_stars() {
        let edges: Vec<Edge> = (0..9).map(|node| (node, node + 1)).collect();
        let order: Vec<u32> = (0..10).collect();
        assert_eq!(components(10, &edges, &order), [0; 10]);
        assert_eq!(stars(10, &edges, &order), [0, 0, 2, 2, 4, 4, 6, 6, 8, 8]);
        // The best one is in the middle.
        assert_eq!(stars(3, &[(0, 1), (1, 2)], &[1, 0, 2]), [1; 3]);
        assert_eq!(components(3, &[(0, 1)], &[2, 1, 0]), [1, 1, 2]);
        assert!(stars(0, &[], &[]).is_empty() && components(0, &[], &[]).is_empty());
    }

    proptest! {
        #[test]
        fn clusters_are_what_they_are_said_to_be(
            edges in prop::collection::vec((0..40u32, 0..40u32), 0..90),
            order in Just((0..40u32).collect::<Vec<_>>()).prop_shuffle(),
        ) {
            let edges: Vec<Edge> = edges.into_iter().filter(|(a, b)| a != b).collect();
            let are_near = |a: u32, b: u32| a == b || edges.contains(&(a, b)) || edges.contains(&(b, a));
            let place = |node: u32| order.iter().position(|&it| it == node);
            let found = stars(40, &edges, &order);
            for (node, &centre) in (0..).zip(&found) {
                prop_assert!(are_near(node, centre));
                // No better centre is near.
                let nearer = found.iter().any(|&other| are_near(node, other) && place(other) < place(centre));
                prop_assert!(!nearer);
            }
            for &a in &found {
                prop_assert!(found.iter().all(|&b| a == b || !are_near(a, b)));
            }
            // Components, by spreading from each node until nothing is added.
            let mut labels: Vec<u32> = (0..40).collect();
            for _ in 0..40 {
                for &(a, b) in &edges {
                    let least = labels[a as usize].min(labels[b as usize]);
                    (labels[a as usize], labels[b as usize]) = (least, least);
                }
            }
            let found = components(40, &edges, &order);
            let (sets_found, expected) = (sets(&found), sets(&labels));
            prop_assert_eq!(sets_found.values().collect::<BTreeSet<_>>(), expected.values().collect::<BTreeSet<_>>());
            for (best, set) in &sets_found {
                prop_assert_eq!(set.iter().min_by_key(|&&node| place(node)), Some(best));
            }
        }
    }
}
