//! Reader: a snapshot, which is what was committed at one moment.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use super::read::Read;
use crate::document::Document;
use crate::error::Result;
use crate::store::blocks::CachedRow;
use crate::store::dense::{self, CopyProgress};
use crate::store::file::{
    Counters, DEAD, KEYS, POSTINGS, View, Written, damaged_document, decode_scope, permuted,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sizes::Sizes;
use crate::store::sorted_set::SetReader;

/// A snapshot: what is committed at one moment.
#[derive(Clone)]
pub(crate) struct Reader(Arc<View>);

/// Documents with their numbers. A damaged document does not hide the others.
pub(crate) type NumberedDocuments = Vec<(DocumentNumber, Result<Document>)>;

/// What a walk over all rows of a set counts, for a check.
#[derive(Default)]
pub(crate) struct RowCounts {
    pub(crate) rows: u64,
    /// The number of rows by the directories.
    pub(crate) counted: u64,
    /// The number of different prefixes.
    pub(crate) prefixes: u64,
}

impl Reader {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self(view)
    }

    /// The documents of one block with numbers from `from` on, in order, and the number to go on from.
    /// `None` after the last document.
    pub(crate) fn documents(
        &self,
        from: DocumentNumber,
    ) -> Result<Option<(NumberedDocuments, DocumentNumber)>> {
        let Some(stored) = self.0.stored_documents(from.0)? else { return Ok(None) };
        let last = DocumentNumber(stored.last());
        let documents = match stored.read() {
            Ok(live) => live
                .iter()
                .map(|it| {
                    let number = DocumentNumber(it.number);
                    (number, it.to_document().map_err(|problem| damaged_document(number, problem)))
                })
                .collect(),
            // The block as a whole counts as one damaged document.
            Err(error) => vec![(last, Err(error))],
        };
        Ok(Some((documents, last.next())))
    }

    /// Calls `each` with every scope that has a name.
    pub(crate) fn scopes(&self, mut each: impl FnMut(&str, Result<ScopeNumber>)) -> Result<()> {
        let file = self.0.settings().file;
        self.0.scopes(|name, record| {
            each(name, decode_scope(file, name, record));
            Ok(())
        })
    }

    /// Makes a dense copy at `path`, where nothing may be yet.
    pub(crate) fn backup(&self, path: &Path, sizes: &Sizes, progress: CopyProgress<'_>) -> Result<()> {
        dense::backup(&self.0, path, sizes, progress)
    }

    /// The greatest number of levels of a set, and the number of marks in all sets.
    pub(crate) fn levels_and_marks(&self) -> (u32, u64) {
        self.0.state().sets.levels_and_marks()
    }

    /// The memory that the directories take, in bytes.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.0.state().directory_bytes() as u64
    }

    /// Counts the rows of the keys. Their prefixes are hashes of keys.
    pub(crate) fn count_keys(&self) -> Result<RowCounts> {
        count_rows(&self.set(KEYS))
    }

    /// Counts the rows of the postings. Their prefixes are fingerprints.
    pub(crate) fn count_postings(&self) -> Result<RowCounts> {
        count_rows(&self.set(POSTINGS))
    }

    /// Counts the rows of a permuted table. The count of the directories means nothing there, since a
    /// fingerprint may be in several levels.
    pub(crate) fn count_permuted(&self, table: usize) -> Result<RowCounts> {
        count_rows(&self.set(permuted(table)))
    }

    /// Counts the dead documents, and the stored documents that are not dead.
    pub(crate) fn count_dead(&self) -> Result<(RowCounts, u64)> {
        let counts = count_rows(&self.set(DEAD))?;
        let stored = self.0.state().documents.rows().0;
        let live = stored.saturating_sub(counts.rows);
        Ok((counts, live))
    }

    /// Whether a document may have this number.
    pub(crate) fn has_numbered(&self, number: DocumentNumber) -> bool {
        self.counters().has_numbered(number)
    }
}

fn count_rows<R: CachedRow>(reader: &SetReader<'_, R>) -> Result<RowCounts> {
    let mut counts = RowCounts::default();
    let mut last = None;
    reader.each(|row| {
        counts.rows += 1;
        counts.prefixes += u64::from(last.replace(row.prefix()) != Some(row.prefix()));
    })?;
    counts.counted = u64::try_from(reader.count(&(R::MIN..=R::MAX))?).unwrap_or(0);
    Ok(counts)
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Read for Reader {
    fn view(&self) -> &View {
        &self.0
    }

    fn written(&self) -> Option<&Written> {
        None
    }

    fn counters(&self) -> Counters {
        self.0.state().counters
    }
}
