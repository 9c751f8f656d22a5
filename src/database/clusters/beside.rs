//! What is near to documents of another snapshot, and to which.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::ControlFlow;

use foldhash::fast::RandomState;

use super::near_fingerprints::Progress;
use crate::database::pairs::{Found, Keys, Question};
use crate::database::snapshot::Snapshot;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::store::DocumentNumber;

/// What the documents of a node have in common: the fingerprint, and the sketch if similarity counts.
pub(super) type Content = (Fingerprint, Option<Sketch>);

/// For what is near to documents of a snapshot beside, the nearest of these.
pub(super) type AllBeside = HashMap<Content, Beside, RandomState>;

/// The nearest document of the snapshot beside.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Beside {
    pub(super) number: DocumentNumber,
    pub(super) distance: u32,
    pub(super) similarity: Option<f64>,
}

impl Beside {
    fn is_nearer(&self, other: &Self) -> bool {
        let by_similarity = other
            .similarity
            .partial_cmp(&self.similarity)
            .unwrap_or(Ordering::Equal);
        self.distance
            .cmp(&other.distance)
            .then(by_similarity)
            .then(self.number.cmp(&other.number))
            .is_lt()
    }

    /// Finds what is near to documents of a snapshot beside. `None` if `progress` breaks.
    pub(super) fn find_all(
        snapshot: &Snapshot,
        beside: &Snapshot,
        question: &Question,
        progress: Progress<'_>,
    ) -> Result<Option<AllBeside>> {
        let (mut all, mut flow) = (AllBeside::default(), ControlFlow::Continue(()));
        question.run(snapshot, Some(beside), Keys::None, &mut |found| {
            match found {
                Found::Group(_) => {}
                Found::Pair {
                    a,
                    b,
                    distance,
                    similarity,
                } => {
                    let found = Self {
                        number: b.newest,
                        distance,
                        similarity,
                    };
                    let nearest = all.entry((a.group.fingerprint, a.sketch)).or_insert(found);
                    if found.is_nearer(nearest) {
                        *nearest = found;
                    }
                }
                Found::Progress { done, all, .. } => flow = progress(done, all),
            }
            flow
        })?;
        Ok(flow.is_continue().then_some(all))
    }
}
