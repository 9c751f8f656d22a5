//! The near fingerprints of many documents that are about to be inserted, found together.
//!
//! The near-duplicates of a document were stored before the batch, or come before it in the batch. The
//! search for both is made in advance, for all documents of the batch. A fingerprint that it finds may
//! have lost its documents when the document's turn comes. The postings tell that.

use std::ops::Range;

use rayon::prelude::*;

use super::near::{MOST_NEAR, NearEach, NearQuery, NearSearch};
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Candidates, Near};
use crate::store::Read;

/// The fingerprints that may be near to each document of a batch.
pub(super) struct NearByDocument {
    near: Vec<Near>,
    /// For each document its range of `near`.
    ranges: Vec<Range<usize>>,
}

impl NearByDocument {
    /// `near` is in the order of the documents.
    fn new(documents: usize, near: NearEach) -> Self {
        let mut ranges = vec![0..0; documents];
        for (i, (index, _)) in near.iter().enumerate() {
            let range = &mut ranges[*index];
            *range = if range.end == 0 { i..i + 1 } else { range.start..i + 1 };
        }
        Self { near: near.into_iter().map(|(_, near)| near).collect(), ranges }
    }

    /// The fingerprints that may be near to the document of this index.
    pub(super) fn of(&self, index: usize) -> &[Near] {
        &self.near[self.ranges[index].clone()]
    }
}

/// The fingerprints near to each document, among those written and those of the earlier documents.
///
/// `None` if they are too many to be kept. Then each document has to be searched for in its turn.
pub(super) fn near_to_documents(
    reader: &impl Read,
    documents: &[Document],
    max_distance: u32,
) -> Result<Option<NearByDocument>> {
    let with_index = |(index, document): (usize, &Document)| Some((index, document.fingerprint()?));
    let fingerprints: Vec<(usize, Fingerprint)> =
        documents.iter().enumerate().filter_map(with_index).collect();
    let permutation = &reader.settings().plan.tables()[0].permutation;
    let rows: Vec<u64> = fingerprints.iter().map(|it| permutation.apply(it.1).bits()).collect();
    let share = fingerprints.len().div_ceil(rayon::current_num_threads()).max(1);
    let near_to_share = |(number, part): (usize, &[(usize, Fingerprint)])| {
        let first = number * share;
        let query = |&(_, fingerprint): &_| NearQuery { fingerprint, max_distance };
        let queries: Vec<NearQuery> = part.iter().map(query).collect();
        let Some(mut near) = near_to_each(reader, &queries)? else { return Ok(None) };
        for (i, query) in queries.iter().enumerate() {
            let before = Candidates::new(&rows[..first + i]);
            let found = before.near(permutation.apply(query.fingerprint), max_distance, permutation);
            found.for_each(|it| near.push((i, it)));
        }
        near.iter_mut().for_each(|(index, _)| *index = part[*index].0);
        near.sort_unstable();
        near.dedup();
        Ok(Some(near))
    };
    let shares = fingerprints.par_chunks(share).enumerate().map(near_to_share);
    let shares = shares.collect::<Result<Option<Vec<_>>>>()?;
    Ok(shares.map(|shares| NearByDocument::new(documents.len(), shares.concat())))
}

/// The fingerprints near to each query. `None` if they are more than [`MOST_NEAR`].
fn near_to_each(reader: &impl Read, queries: &[NearQuery]) -> Result<Option<NearEach>> {
    let mut all = Vec::new();
    let mut parts = NearSearch::new(reader, queries);
    while let Some(near) = parts.next_part()? {
        if all.len() + near.len() > MOST_NEAR {
            return Ok(None);
        }
        all.extend(near);
    }
    Ok(Some(all))
}
