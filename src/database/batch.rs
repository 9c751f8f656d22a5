//! What is near to many documents that are about to be inserted, found together.
//!
//! What a document is near to when its turn comes was there before the batch, or is among the documents of the batch that come before
//! it. So both are looked for at once, for all; whether the fingerprints that are found have documents then, the postings tell in its turn.

use std::ops::ControlFlow;

use rayon::prelude::*;

use super::near::{Asked, MOST_NEAR, NearEach, find};
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Candidates, Near};
use crate::store::Read;

/// What may be near to each document of a batch.
pub(super) struct NearDocuments(NearEach);

impl NearDocuments {
    /// To the document at a place.
    pub(super) fn of(&self, place: usize) -> &[(usize, Near)] {
        let from = self.0.partition_point(|near| near.0 < place);
        let count = self.0[from..].partition_point(|near| near.0 == place);
        &self.0[from..from + count]
    }
}

/// The fingerprints near those of documents, in what was written and among the documents before; `None` if they are too many
/// to be kept: each document is to be searched for in its turn then.
pub(super) fn near_to_documents(
    reader: &impl Read,
    documents: &[Document],
    max_distance: u32,
) -> Result<Option<NearDocuments>> {
    let with_place = |(place, document): (usize, &Document)| Some((place, document.fingerprint()?));
    let fingerprints: Vec<(usize, Fingerprint)> =
        documents.iter().enumerate().filter_map(with_place).collect();
    let permutation = &reader.settings().plan.tables()[0].permutation;
    let rows: Vec<u64> = fingerprints.iter().map(|it| permutation.apply(it.1).bits()).collect();
    let share = fingerprints.len().div_ceil(rayon::current_num_threads()).max(1);
    let near_to_share = |(number, part): (usize, &[(usize, Fingerprint)])| {
        let first = number * share;
        let asked: Vec<Asked> =
            part.iter().map(|&(_, fingerprint)| Asked { fingerprint, max_distance }).collect();
        let Some(mut near) = near_to_each(reader, &asked)? else { return Ok(None) };
        for (place, asked) in asked.iter().enumerate() {
            let query = permutation.apply(asked.fingerprint);
            let before = Candidates::new(&rows[..first + place]);
            before.each_near(query, max_distance, permutation, |it| near.push((place, it)));
        }
        near.iter_mut().for_each(|(place, _)| *place = part[*place].0);
        near.sort_unstable();
        near.dedup();
        Ok(Some(near))
    };
    let shares = fingerprints.par_chunks(share).enumerate().map(near_to_share);
    let shares = shares.collect::<Result<Option<Vec<_>>>>()?;
    Ok(shares.map(|shares| NearDocuments(shares.concat())))
}

/// The fingerprints near each of some; `None` if they are more than [`MOST_NEAR`].
fn near_to_each(reader: &impl Read, asked: &[Asked]) -> Result<Option<NearEach>> {
    let (mut all, mut too_many) = (Vec::new(), false);
    find(reader, asked, |near| {
        too_many = all.len() + near.len() > MOST_NEAR;
        if too_many {
            return Ok(ControlFlow::Break(()));
        }
        all.extend_from_slice(near);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((!too_many).then_some(all))
}
