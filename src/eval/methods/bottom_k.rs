//! `bottom-k`: the K least hashes of the 4-token shingles under one hash function.

use std::cmp::Ordering;

use super::hash_lists::HashLists;
use crate::eval::corpus::Corpus;
use crate::eval::method::{Described, Method, Scale};

/// One hash function, of which the K least values are kept. The K least values of both documents together are
/// a sample of the union. The share of them that both documents have estimates the Jaccard similarity.
///
/// # References
///
/// Broder: On the Resemblance and Containment of Documents, SEQUENCES 1997, the sketch MIN_s and its first
/// theorem, which is this estimate. Cohen, Kaplan: Summarizing Data Using Bottom-k Sketches, PODC 2007.
#[derive(Debug)]
pub(in crate::eval) struct BottomK {
    pub(in crate::eval) kept: u32,
}

impl Method for BottomK {
    fn scale(&self) -> Scale {
        Scale::twentieths(6)
    }

    fn describe(&self, corpus: &Corpus) -> Box<dyn Described> {
        let kept = self.kept as usize;
        // Shingles are hashes already, and in order.
        let mut lists = corpus.shingles(4);
        lists.iter_mut().for_each(|set| {
            set.truncate(kept);
            set.shrink_to_fit();
        });
        Box::new(HashLists {
            lists,
            score: Box::new(move |a, b| estimate(a, b, kept)),
            estimates: true,
        })
    }
}

/// Of the `kept` least elements of the union of two sorted lists, the share that is in both.
fn estimate(a: &[u64], b: &[u64], kept: usize) -> f64 {
    let (mut i, mut j, mut seen, mut both) = (0, 0, 0, 0);
    while seen < kept {
        let order = match (a.get(i), b.get(j)) {
            (Some(x), Some(y)) => x.cmp(y),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => break,
        };
        i += usize::from(order.is_le());
        j += usize::from(order.is_ge());
        both += usize::from(order.is_eq());
        seen += 1;
    }
    if seen == 0 {
        0.0
    } else {
        both as f64 / seen as f64
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// By hand: the 4 least of {1, 2, 5, 7} and {1, 3, 5, 9} together are 1, 2, 3, 5. Both have 1 and 5.
    #[test]
    fn the_least_of_both_are_a_sample_of_the_union() {
        assert_eq!(estimate(&[1, 2, 5, 7], &[1, 3, 5, 9], 4), 0.5);
        assert_eq!(estimate(&[], &[], 4), 0.0);
    }

    proptest::proptest! {
        #[test]
        fn the_estimate_is_that_of_the_definition(
            a in proptest::collection::btree_set(0u64..60, 0..30),
            b in proptest::collection::btree_set(0u64..60, 0..30),
            kept in 1usize..40,
        ) {
            let union: BTreeSet<u64> = a.union(&b).copied().collect();
            let sample: Vec<u64> = union.into_iter().take(kept).collect();
            let both = sample.iter().filter(|it| a.contains(it) && b.contains(it)).count();
            let expected = both as f64 / sample.len().max(1) as f64;
            let least = |set: &BTreeSet<u64>| set.iter().copied().take(kept).collect::<Vec<_>>();
            proptest::prop_assert_eq!(estimate(&least(&a), &least(&b), kept), expected);
        }
    }
}
