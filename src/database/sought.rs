//! What a search looks for, the same for queries and for new documents.

use super::filter::Filter;
use super::policy::Policy;
use super::query::Query;
use super::verification::Verifier;
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;

/// What documents are compared with.
#[derive(Clone, Copy)]
pub(super) struct Sought<'a> {
    pub(super) fingerprint: Fingerprint,
    pub(super) sketch: Option<&'a Sketch>,
    pub(super) filter: &'a Filter,
    pub(super) verifier: Option<Verifier<'a>>,
}

impl<'a> Sought<'a> {
    pub(super) fn of(query: &'a Query) -> Self {
        Self {
            fingerprint: query.fingerprint,
            sketch: query.sketch(),
            filter: &query.filter,
            verifier: query.verify.as_ref().map(Verifier::of_query),
        }
    }

    /// The near-duplicates of a document of this fingerprint.
    pub(super) fn of_document(
        document: &'a Document,
        fingerprint: Fingerprint,
        policy: &'a Policy,
    ) -> Self {
        Self {
            fingerprint,
            sketch: document.sketch(),
            filter: &policy.filter,
            verifier: policy
                .verify
                .as_ref()
                .map(|verify| Verifier::of_document(document, verify)),
        }
    }
}
