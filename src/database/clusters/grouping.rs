//! From near nodes to clusters: stars around the best nodes, or connected components.

use crate::error::Result;

/// For each node the index of the centre of its cluster, by stars: going through the nodes in `order`, the best first,
/// each that is in no cluster yet is a centre, and all its neighbours that are in none join it.
///
/// So every node is a neighbour of its centre, and no two centres are neighbours. A node joins the best centre that it
/// is near to. Only the neighbours of centres are asked for: `near` calls its last argument with each neighbour of a
/// node, and with what tells whether it really is one.
///
/// # References
///
/// Aslam, Pelekhov, Rus: The Star Clustering Algorithm for Static and Dynamic Information Organization, 2004, with an
/// order of the nodes that is given.
pub(super) fn stars(
    nodes: usize,
    order: &[u32],
    mut near: impl FnMut(u32, &mut dyn FnMut(u32, &dyn Fn() -> bool)) -> Result<()>,
) -> Result<Vec<u32>> {
    let mut centres = vec![NONE; nodes];
    for &node in order {
        if centres[node as usize] != NONE {
            continue;
        }
        centres[node as usize] = node;
        near(node, &mut |other, is_near| {
            let centre = &mut centres[other as usize];
            if *centre == NONE && is_near() {
                *centre = node;
            }
        })?;
    }
    Ok(centres)
}

/// Nodes that are connected by chains of neighbours.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Components {
    /// For each node another one of its component, or itself.
    roots: Vec<u32>,
}

impl Components {
    pub(super) fn new(nodes: usize) -> Self {
        Self { roots: (0..nodes as u32).collect() }
    }

    /// Joins the components of two nodes, if they are near. That is not asked if they are joined already.
    pub(super) fn join(&mut self, a: u32, b: u32, are_near: &dyn Fn() -> bool) {
        let [a, b] = [a, b].map(|it| root_of(&mut self.roots, it));
        if a != b && are_near() {
            self.roots[a.max(b) as usize] = a.min(b);
        }
    }

    /// For each node the index of one node of its component, the same for all of these.
    pub(super) fn sets(mut self) -> Vec<u32> {
        (0..self.roots.len() as u32).map(|node| root_of(&mut self.roots, node)).collect()
    }

    /// For each node the index of the best node that it is connected with. The best ones stand first in `order`.
    pub(super) fn best(mut self, order: &[u32]) -> Vec<u32> {
        let mut best = vec![NONE; self.roots.len()];
        for &node in order {
            let best = &mut best[root_of(&mut self.roots, node) as usize];
            *best = if *best == NONE { node } else { *best };
        }
        (0..self.roots.len() as u32).map(|node| best[root_of(&mut self.roots, node) as usize]).collect()
    }
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

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    type Edge = (u32, u32);

    fn stars(nodes: usize, edges: &[Edge], order: &[u32]) -> Vec<u32> {
        let near = |node: u32, each: &mut dyn FnMut(u32, &dyn Fn() -> bool)| {
            edges.iter().filter(|it| it.0 == node).for_each(|it| each(it.1, &|| true));
            edges.iter().filter(|it| it.1 == node).for_each(|it| each(it.0, &|| true));
            // What only looks near.
            (0..nodes as u32).for_each(|it| each(it, &|| false));
            Ok(())
        };
        super::stars(nodes, order, near).expect("nothing can fail")
    }

    fn components(nodes: usize, edges: &[Edge], order: &[u32]) -> Vec<u32> {
        let mut components = Components::new(nodes);
        edges.iter().for_each(|&(a, b)| components.join(a, b, &|| true));
        components.join(0, nodes as u32 - 1, &|| false);
        let sets = components.clone().sets();
        let best = components.best(order);
        assert!(
            (0..nodes).all(|node| (0..nodes).all(|it| (sets[it] == sets[node]) == (best[it] == best[node])))
        );
        best
    }

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
        assert!(stars(0, &[], &[]).is_empty() && Components::new(0).best(&[]).is_empty());
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
