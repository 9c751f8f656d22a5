//! The oracle: a map of documents, and what the operations should do.

use std::collections::BTreeMap;

use simdb::{Change, Document, Fingerprint, OnMatch};

use super::conditions::Conditions;

/// The oracle: documents by key, each with the order in which it was written.
#[derive(Clone, Default)]
pub(super) struct Model {
    pub(super) documents: BTreeMap<Vec<u8>, (u64, Document)>,
    written: u64,
}

impl Model {
    pub(super) fn insert(&mut self, document: &Document) -> Option<Document> {
        self.written += 1;
        self.documents
            .insert(document.key().to_vec(), (self.written, document.clone()))
            .map(|(_, old)| old)
    }

    /// Says that a document was seen at a time. It then counts as written last, if that is later.
    pub(super) fn touch(&mut self, key: &[u8], seen: i64) -> bool {
        let Some((_, document)) = self.documents.get(key).cloned() else {
            return false;
        };
        if document.seen() < seen {
            self.insert(&document.with_seen(seen));
        }
        true
    }

    /// Removes the documents that meet all conditions, and returns their number.
    pub(super) fn expire(&mut self, before: Option<i64>, scopes: Option<&Vec<String>>) -> u64 {
        let had = self.documents.len();
        if before.is_some() || scopes.is_some() {
            self.documents.retain(|_, (_, it)| {
                before.is_some_and(|before| it.seen() >= before)
                    || scopes.is_some_and(|scopes| scopes.iter().all(|scope| scope != it.scope()))
            });
        }
        (had - self.documents.len()) as u64
    }

    /// All documents within the distance, nearest first, by a linear scan.
    pub(super) fn near(
        &self,
        query: Fingerprint,
        max_distance: u32,
        keep: impl Fn(&Document) -> bool,
    ) -> Vec<(Document, u32)> {
        let mut near: Vec<_> = self
            .documents
            .values()
            .filter_map(|(written, document)| {
                let fingerprint = document.fingerprint()?;
                let distance = fingerprint.distance(query);
                (distance <= max_distance && keep(document)).then_some((
                    (distance, fingerprint, u64::MAX - written),
                    document.clone(),
                ))
            })
            .collect();
        near.sort_by_key(|(order, _)| *order);
        near.into_iter()
            .map(|((distance, ..), document)| (document, distance))
            .collect()
    }
}

pub(super) fn keys(near: &[(Document, u32)], limit: usize) -> Vec<(String, u32)> {
    let key = |document: &Document| String::from_utf8_lossy(document.key()).into_owned();
    near.iter()
        .take(limit)
        .map(|(document, distance)| (key(document), *distance))
        .collect()
}

/// The documents with other keys that are near `document` and meet the conditions.
pub(super) fn near_others(
    model: &Model,
    document: &Document,
    conditions: &Conditions,
) -> Vec<(Document, u32)> {
    let keep = |other: &Document| {
        other.key() != document.key() && conditions.keeps(other, document.sketch())
    };
    document
        .fingerprint()
        .map_or_else(Vec::new, |it| model.near(it, conditions.max_distance, keep))
}

/// Does on the model what the policy should do, and returns the change.
pub(super) fn insert_if_new(
    model: &mut Model,
    document: &Document,
    on_match: OnMatch,
    conditions: &Conditions,
    near: &[(Document, u32)],
) -> Change {
    if let Some((nearest, _)) = near.first() {
        let is_skipped = match on_match {
            OnMatch::Link => false,
            OnMatch::Skip => true,
            OnMatch::Replace => !near.iter().all(|(found, _)| document.outranks(found)),
            _ => unreachable!("the model has no other policy"),
        };
        if is_skipped {
            if conditions.touch {
                model.touch(nearest.key(), document.seen());
            }
            return Change::Skipped;
        }
        if on_match == OnMatch::Replace {
            for (found, _) in near {
                model.documents.remove(found.key());
            }
        }
    }
    model
        .insert(document)
        .map_or(Change::Inserted, Change::Replaced)
}
