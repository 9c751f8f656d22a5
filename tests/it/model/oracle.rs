//! The oracle: a map of documents, and what the operations should do.

use std::cmp::Reverse;
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

    /// Says that a document was seen again so many times, at a time. It then counts as written last.
    pub(super) fn touch(&mut self, key: &[u8], seen: i64, repeats: u64) -> bool {
        let Some((_, document)) = self.documents.get(key).cloned() else {
            return false;
        };
        let seen = seen.max(document.seen());
        let repeats = document.repeats() + repeats;
        self.insert(&document.with_seen(seen).with_repeats(repeats));
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
    let mut left: Vec<&Document> = near.iter().map(|(found, _)| found).collect();
    let mut gone = Vec::new();
    while on_match != OnMatch::Link && left.len() >= conditions.keep {
        // The last of the worst.
        let (index, worst) = left
            .iter()
            .enumerate()
            .min_by_key(|(index, it)| (it.rank(), Reverse(*index)))
            .expect("at least one is kept");
        if on_match == OnMatch::Skip || !document.outranks(worst) {
            if conditions.touch {
                let (nearest, _) = &near[0];
                model.touch(nearest.key(), document.seen(), document.repeats() + 1);
            }
            return Change::Skipped;
        }
        gone.push(left.remove(index));
    }
    let old = model.documents.get(document.key());
    let mut seen = document.seen();
    if let Some((_, old)) = old
        && conditions.touch
    {
        seen = seen.max(old.seen());
    }
    let mut repeats = document
        .repeats()
        .max(old.map_or(0, |(_, old)| old.repeats()));
    for found in gone {
        model.documents.remove(found.key());
        repeats += u64::from(conditions.touch) * (found.repeats() + 1);
    }
    model
        .insert(&document.clone().with_repeats(repeats).with_seen(seen))
        .map_or(Change::Inserted, Change::Replaced)
}
