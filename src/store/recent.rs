//! Recent: what a search by time asks. Blocks of documents have times in their directory. By these, the search
//! passes over older documents without reading their blocks, and mostly without reading their postings.

use super::postings::{self, Posted, WantedPostings, listed};
use super::read::Read;
use crate::error::Result;
use crate::store::file::POSTINGS;
use crate::store::numbers::DocumentNumber;

/// The most scopes of a fingerprint whose postings are read by ranges of their own.
const FEW_SCOPES: usize = 4;

/// Searches by time.
pub(crate) trait ReadRecent: Read {
    /// The first number that a document may have that was seen at `since` or later. `None` if there is no such
    /// document.
    fn first_since(&self, since: i64) -> Result<Option<DocumentNumber>> {
        let view = self.view();
        let stored = view
            .state()
            .documents
            .first_since(since, view.document_blocks())?;
        let written = || {
            self.written()
                .and_then(|written| written.documents.first_since(since))
        };
        Ok(stored.or_else(written).map(DocumentNumber))
    }

    /// The last number up to `last` that a document may have that was seen at `since` or later. If it is not
    /// waiting outside memory, there is or was such a document.
    fn last_since(&self, last: DocumentNumber, since: i64) -> Result<Option<DocumentNumber>> {
        if let Some(written) = self
            .written()
            .and_then(|it| it.documents.last_since(last.0, since))
        {
            return Ok(Some(DocumentNumber(written)));
        }
        let (documents, of) = (
            &self.view().state().documents,
            self.view().document_blocks(),
        );
        let mut last = last.0;
        while let Some(number) = documents.last_since(last, since, of)? {
            let position = documents.find(number, of)?;
            let Some(entry) = documents.entry(position, of)? else {
                break;
            };
            let block = of.documents(entry)?;
            let recent = (0..block.before(number + 1))
                .rev()
                .find(|&index| block.get(index).seen >= since);
            if let Some(index) = recent {
                return Ok(Some(DocumentNumber(block.get(index).number)));
            }
            // The number lies before all that are recent enough, and perhaps between two blocks.
            let before = documents
                .before(position)
                .map(|before| documents.entry(before, of))
                .transpose()?;
            let Some(before) = before.flatten() else {
                break;
            };
            last = before.high;
        }
        Ok(None)
    }

    /// The documents of each wanted fingerprint in each of its scopes, without those whose numbers are below
    /// the number that stands beside it. If a fingerprint has many scopes, some of those are there too.
    fn posted_from(&self, wanted: &[(WantedPostings, DocumentNumber)]) -> Result<Vec<Posted>> {
        let (mut ranges, mut of) = (Vec::new(), Vec::new());
        let (mut all, mut of_many) = (Vec::new(), Vec::new());
        for (index, ((fingerprint, scopes), from)) in wanted.iter().enumerate() {
            if scopes.len() > FEW_SCOPES {
                all.push((*fingerprint, scopes.clone()));
                of_many.push(index);
                continue;
            }
            let numbers = *from..=DocumentNumber::MAX;
            ranges.extend(
                scopes
                    .iter()
                    .map(|&scope| listed(*fingerprint, scope, numbers.clone())),
            );
            of.extend(scopes.iter().map(|&scope| (index, scope)));
        }
        let mut posted = postings::posted_in(|| self.set(POSTINGS), &ranges)?;
        for it in &mut posted {
            (it.index, it.scope) = of[it.index];
        }
        if !all.is_empty() {
            let others = self.posted(&all)?.into_iter();
            posted.extend(others.map(|it| Posted {
                index: of_many[it.index],
                ..it
            }));
        }
        Ok(posted)
    }
}

impl<T: Read> ReadRecent for T {}
