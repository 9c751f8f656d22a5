//! From near nodes to clusters: stars around the best nodes, or connected components.

use crate::error::Result;

/// Calls `visit` with each node that may be near to a node, and with what tells whether it is. Each node may be left
/// out from then on for which `visit` is true.
type NearNodes<'n> = &'n mut dyn FnMut(u32, Visit<'_>) -> Result<()>;

pub(super) type Visit<'v> = &'v mut dyn FnMut(u32, &dyn Fn() -> bool) -> bool;

/// For each node the index of the centre of its cluster, by stars: going through the nodes in `order`, the best first,
/// each that is in no cluster yet is a centre, and all its neighbours that are in none join it.
///
/// So every node is a neighbour of its centre, and no two centres are neighbours. A node joins the best centre that it
/// is near to. Only the neighbours of centres are asked for.
///
/// # References
///
/// Aslam, Pelekhov, Rus: The Star Clustering Algorithm for Static and Dynamic Information Organization, 2004, with an
/// order of the nodes that is given.
pub(super) fn stars(nodes: usize, order: &[u32], near: NearNodes<'_>) -> Result<Vec<u32>> {
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
            *centre != NONE
        })?;
    }
    Ok(centres)
}

/// For each node the index of one node of its component, the same for all of these: the nodes that chains of neighbours
/// connect.
pub(super) fn connected(nodes: usize, near: NearNodes<'_>) -> Result<Vec<u32>> {
    let mut sets = vec![NONE; nodes];
    let mut waiting = Vec::new();
    for first in 0..nodes as u32 {
        if sets[first as usize] != NONE {
            continue;
        }
        sets[first as usize] = first;
        waiting.push(first);
        while let Some(node) = waiting.pop() {
            near(node, &mut |other, is_near| {
                let set = &mut sets[other as usize];
                if *set == NONE && is_near() {
                    *set = first;
                    waiting.push(other);
                }
                *set != NONE
            })?;
        }
    }
    Ok(sets)
}

/// For each node the index of the best node of its set. `sets` says for each node one node of its set, the same for all
/// of these; the best ones stand first in `order`.
pub(super) fn best_of(mut sets: Vec<u32>, order: &[u32]) -> Vec<u32> {
    let mut best = vec![NONE; sets.len()];
    for &node in order {
        let best = &mut best[sets[node as usize] as usize];
        if *best == NONE {
            *best = node;
        }
    }
    for set in &mut sets {
        *set = best[*set as usize];
    }
    sets
}

/// Nodes that are connected by chains of neighbours, if the pairs come in any order.
pub(super) struct Components {
    /// For each node another one of its component, or itself.
    roots: Vec<u32>,
}

impl Components {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            roots: (0..nodes as u32).collect(),
        }
    }

    /// Joins the components of two nodes, if they are near. That is not asked if they are joined already.
    pub(super) fn join(&mut self, a: u32, b: u32, are_near: &dyn Fn() -> bool) {
        let a = root_of(&mut self.roots, a);
        let b = root_of(&mut self.roots, b);
        if a != b && are_near() {
            self.roots[a.max(b) as usize] = a.min(b);
        }
    }

    /// As of [`connected`].
    pub(super) fn sets(mut self) -> Vec<u32> {
        (0..self.roots.len() as u32)
            .map(|node| root_of(&mut self.roots, node))
            .collect()
    }
}

/// Where items go that are put together by their groups, those of a group in the order in which they come.
pub(super) struct Places {
    /// Where the items of each group begin, and where those of the last one end.
    pub(super) starts: Vec<usize>,
    /// Where the next item of each group goes.
    next: Vec<usize>,
}

impl Places {
    pub(super) fn new(groups: usize, items: impl Iterator<Item = usize>) -> Self {
        let mut starts = vec![0; groups + 1];
        for group in items {
            starts[group + 1] += 1;
        }
        let mut sum = 0;
        for start in &mut starts {
            sum += *start;
            *start = sum;
        }
        Self {
            next: starts.clone(),
            starts,
        }
    }

    pub(super) fn next(&mut self, group: usize) -> usize {
        let place = self.next[group];
        self.next[group] += 1;
        place
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

    /// Nodes are left out once they need not be visited again.
    fn near(nodes: usize, edges: &[Edge]) -> impl FnMut(u32, Visit<'_>) -> Result<()> {
        let mut left: BTreeSet<u32> = (0..nodes as u32).collect();
        move |node: u32, visit: Visit<'_>| {
            // Others only look near.
            left.retain(|&other| {
                let is_near = || edges.contains(&(node, other)) || edges.contains(&(other, node));
                other == node || !visit(other, &is_near)
            });
            Ok(())
        }
    }

    fn stars(nodes: usize, edges: &[Edge], order: &[u32]) -> Vec<u32> {
        super::stars(nodes, order, &mut near(nodes, edges)).expect("nothing can fail")
    }

    fn components(nodes: usize, edges: &[Edge], order: &[u32]) -> Vec<u32> {
        let mut components = Components::new(nodes);
        for &(a, b) in edges {
            components.join(a, b, &|| true);
        }
        if nodes > 0 {
            components.join(0, nodes as u32 - 1, &|| false);
        }
        let best = best_of(components.sets(), order);
        let sets = connected(nodes, &mut near(nodes, edges)).expect("nothing can fail");
        assert_eq!(best_of(sets, order), best);
        best
    }

    fn sets(centres: &[u32]) -> BTreeMap<u32, BTreeSet<u32>> {
        let mut sets: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        (0..)
            .zip(centres)
            .for_each(|(node, &centre)| _ = sets.entry(centre).or_default().insert(node));
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
            let place = |node: u32| order.iter().position(|&other| other == node);
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
            let sets_found = sets(&found);
            let expected = sets(&labels);
            prop_assert_eq!(sets_found.values().collect::<BTreeSet<_>>(), expected.values().collect::<BTreeSet<_>>());
            for (best, set) in &sets_found {
                prop_assert_eq!(set.iter().min_by_key(|&&node| place(node)), Some(best));
            }
        }
    }
}
