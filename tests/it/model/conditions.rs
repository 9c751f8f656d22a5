//! The conditions of queries and policies, and what they make of all near documents.

use simdb::{Document, Fingerprint, Matches, Near, OnMatch, Order, Policy, Query, Sketch};

use super::oracle::keys;
use crate::support::{jaccard, listed};

/// The conditions that a query and a policy have in common.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
    pub(super) max_distance: u32,
    pub(super) limit: usize,
    pub(super) since: Option<i64>,
    pub(super) scopes: Option<Vec<String>>,
    pub(super) min_similarity: Option<f64>,
    pub(super) order: Order,
    /// Whether a policy touches the nearest match of a document that is skipped.
    pub(super) touch: bool,
    /// How many of a group a policy keeps.
    pub(super) keep: usize,
}

impl Conditions {
    /// Whether a document counts for somebody who asks with this sketch.
    pub(super) fn keeps(&self, document: &Document, sketch: Option<&Sketch>) -> bool {
        let is_similar = |least: f64| match (document.sketch(), sketch) {
            _ if least == 0.0 => true,
            (Some(a), Some(b)) => jaccard(a, b) >= least,
            _ => false,
        };
        self.min_similarity.is_none_or(is_similar)
            && self.since.is_none_or(|since| document.seen() >= since)
            && self
                .scopes
                .as_ref()
                .is_none_or(|scopes| scopes.iter().any(|it| it == document.scope()))
    }

    /// The conditions, without those that need a sketch if one of the documents has none.
    pub(super) fn without_sketches(&self, documents: &[Document]) -> Self {
        let needs_none = documents
            .iter()
            .all(|it| it.fingerprint().is_none() || it.sketch().is_some());
        match needs_none {
            true => self.clone(),
            false => Self {
                min_similarity: None,
                order: Order::Distance,
                ..self.clone()
            },
        }
    }

    /// The first matches in the order that is asked for.
    pub(super) fn first(
        &self,
        near: &[(Document, u32)],
        sketch: Option<&Sketch>,
    ) -> Vec<(String, u32)> {
        let mut near = near.to_vec();
        if let (Order::Similarity, Some(sketch)) = (self.order, sketch) {
            let similarity = |it: &Document| it.sketch().map_or(-1.0, |it| jaccard(it, sketch));
            near.sort_by(|(a, _), (b, _)| similarity(b).total_cmp(&similarity(a)));
        }
        keys(&near, self.limit)
    }

    pub(super) fn policy(&self, on_match: OnMatch) -> Policy {
        Policy::new(on_match)
            .near(self.near())
            .limit(self.limit)
            .touch(self.touch)
            .keep(self.keep)
            .order(self.order)
    }

    pub(super) fn query(&self, fingerprint: Fingerprint, sketch: Option<&Sketch>) -> Query {
        Query::new(fingerprint)
            .with_sketch(sketch.copied())
            .near(self.near())
            .limit(self.limit)
            .order(self.order)
    }

    /// A query for the nearest documents, within the max distance if it is `bounded`.
    pub(super) fn nearest(
        &self,
        fingerprint: Fingerprint,
        sketch: Option<&Sketch>,
        bounded: bool,
    ) -> Query {
        let mut query = self.query(fingerprint, sketch);
        if !bounded {
            query = query.near(self.conditions(Near::new()));
        }
        query.nearest(self.limit)
    }

    fn near(&self) -> Near {
        self.conditions(Near::within(self.max_distance))
    }

    fn conditions(&self, mut near: Near) -> Near {
        if let Some(least) = self.min_similarity {
            near = near.min_similarity(least);
        }
        if let Some(since) = self.since {
            near = near.since(since);
        }
        if let Some(scopes) = &self.scopes {
            near = near.scopes(scopes);
        }
        near
    }

    /// Asserts that what was found is the nearest of what is near, and no more.
    pub(super) fn agrees_nearest(
        &self,
        found: &Matches,
        near: &[(Document, u32)],
        sketch: Option<&Sketch>,
    ) {
        let nearest = &near[..near.len().min(self.limit)];
        assert_eq!(listed(found), self.first(nearest, sketch));
        assert_eq!(found.total(), nearest.len() as u64);
        assert!(found.total_is_exact());
    }

    /// Asserts that what was found is what is near, as far as it is asked for.
    pub(super) fn agrees(
        &self,
        found: &Matches,
        near: &[(Document, u32)],
        sketch: Option<&Sketch>,
    ) {
        assert_eq!(listed(found), self.first(near, sketch));
        for found in found {
            let similarity = sketch
                .zip(found.document.sketch())
                .map(|(a, b)| jaccard(a, b));
            assert_eq!(found.similarity.map(|it| it.jaccard()), similarity);
        }
        if found.total_is_exact() {
            assert_eq!(found.total(), near.len() as u64);
        } else {
            let is_similar =
                sketch.is_some() && self.min_similarity.is_some_and(|least| least > 0.0);
            let counted = if is_similar {
                self.limit.max(128)
            } else {
                self.limit
            };
            assert!(self.since.is_some() || is_similar);
            assert!(found.total() == counted as u64 + 1 && near.len() > counted);
        }
    }
}
