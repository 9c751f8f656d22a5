//! What the last commit has of documents that are about to be inserted, found in advance.
//!
//! The search for near-duplicates takes longer than the insertion. It reads what is committed, which the
//! transaction does not change. So it can be made before the turn of a document, for many together and on
//! other threads. What the transaction itself has written is looked up in the document's turn.

use super::near_search::{NearQuery, NearSearch};
use super::policy::Policy;
use super::query::Matches;
use super::search::{Search, add_all};
use super::sought::Sought;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::plan::NearFingerprint;
use crate::store::{Numbered, Reader};

/// A document to insert, with the policy for its near-duplicates.
pub(super) type Asked<'a> = (&'a Document, &'a Policy);

/// What is committed and concerns one document that is about to be inserted.
#[derive(Default)]
pub(super) struct Known<'a> {
    /// The document of the same key.
    pub(super) own: Option<Numbered>,
    /// What is near. `None` if no fingerprint is.
    pub(super) near: Option<Box<KnownNear<'a>>>,
}

/// What is committed near to a document.
pub(super) struct KnownNear<'a> {
    /// All near fingerprints, in order. `None` if they are too many to be kept.
    pub(super) fingerprints: Option<Vec<NearFingerprint>>,
    pub(super) search: Search<'a>,
    /// The matches. `None` if they are to be found later, because they take much memory or cannot be verified.
    pub(super) matches: Option<Matches>,
}

/// The most near fingerprints of a document that are kept.
const MOST_KEPT: usize = 4096;
/// The most memory for the matches of documents that are searched for together (bytes).
const MOST_BYTES: usize = 4 << 20;

/// Finds what is committed for each document.
pub(super) fn known<'a>(reader: Reader<'_>, asked: &[Asked<'a>]) -> Result<Vec<Known<'a>>> {
    let own = reader.find_each(asked.iter().map(|(document, _)| document.key()))?;
    let mut all: Vec<Known<'a>> = own
        .into_iter()
        .map(|own| Known { own, near: None })
        .collect();
    let mut queries = Vec::with_capacity(asked.len());
    let mut asked_of = Vec::with_capacity(asked.len());
    for (index, (document, policy)) in asked.iter().enumerate() {
        // What is out of bounds is an error in the turn of its document.
        let Some(fingerprint) = document.fingerprint() else {
            continue;
        };
        let Ok(bounds) = policy.filter.bounds(document, reader.settings()) else {
            continue;
        };
        queries.push(NearQuery {
            fingerprint,
            max_distance: bounds.max_distance,
        });
        asked_of.push(index);
    }
    let mut searches = Searches::default();
    let mut parts = NearSearch::new(reader, &queries);
    while let Some(mut near) = parts.next_part()? {
        for (index, near) in &mut near {
            let of = asked_of[*index];
            *index = searches.add(reader, of, asked[of], all[of].own.as_ref(), *near)?;
        }
        add_all(reader, &mut searches.searches, &near)?;
    }
    let mut bytes = 0;
    for ((search, fingerprints), of) in searches
        .searches
        .into_iter()
        .zip(searches.fingerprints)
        .zip(searches.asked)
    {
        let mut matches = None;
        if bytes < MOST_BYTES {
            match search.first_matches(reader, asked[of].1.filter.limit) {
                Ok(found) => {
                    bytes += found
                        .iter()
                        .map(|it| it.document.memory_bytes())
                        .sum::<usize>();
                    matches = Some(found);
                }
                // It is an error in the turn of its document.
                Err(Error::Verify(_)) => {}
                Err(error) => return Err(error),
            }
        }
        all[of].near = Some(Box::new(KnownNear {
            fingerprints,
            search,
            matches,
        }));
    }
    Ok(all)
}

/// The searches of the documents that have a near fingerprint.
#[derive(Default)]
struct Searches<'a> {
    searches: Vec<Search<'a>>,
    /// The near fingerprints of each search, while they are few.
    fingerprints: Vec<Option<Vec<NearFingerprint>>>,
    /// The index of the document of each search.
    asked: Vec<usize>,
}

impl<'a> Searches<'a> {
    /// Notes a near fingerprint of a document, and returns the index of its search. The near fingerprints of
    /// a document come one after the other.
    fn add(
        &mut self,
        reader: Reader<'_>,
        of: usize,
        (document, policy): Asked<'a>,
        own: Option<&Numbered>,
        near: NearFingerprint,
    ) -> Result<usize> {
        let known = self.asked.iter().rposition(|&it| it == of);
        let index = match known {
            Some(index) => index,
            None => {
                let fingerprint = document.fingerprint().unwrap_or(near.fingerprint);
                let sought = Sought::of_document(document, fingerprint, policy);
                self.searches
                    .push(Search::new(reader, sought, policy.most_listed(), own)?);
                self.fingerprints.push(Some(Vec::new()));
                self.asked.push(of);
                self.asked.len() - 1
            }
        };
        let kept = &mut self.fingerprints[index];
        if let Some(kept) = kept {
            kept.push(near);
        }
        kept.take_if(|it| it.len() > MOST_KEPT);
        Ok(index)
    }
}
