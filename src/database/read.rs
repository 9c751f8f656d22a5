//! Snapshot: what was committed at one moment. Get, query, iterate, statistics.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;

use super::explain::{self, Explanation};
use super::query::{Matches, Query};
use super::search;
use crate::document::Document;
use crate::error::Result;
use crate::store::{DocumentNumber, FORMAT_VERSION, Read, Reader, Store};
use crate::text::Scheme;

/// A consistent view of a database that later commits do not change. It may be sent to and used by any thread,
/// and outlive the [`Database`](crate::Database) it comes from.
#[derive(Debug)]
pub struct Snapshot {
    // Before the store, so that the engine's transaction ends before the engine.
    reader: Reader,
    store: Arc<Store>,
}

impl Snapshot {
    pub(super) fn new(store: Arc<Store>) -> Result<Self> {
        Ok(Self { reader: store.begin_read()?, store })
    }

    /// The document of a key, or `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`](crate::Error::Damaged) if the document does not bear its checksum;
    /// [`Error::Corrupted`](crate::Error::Corrupted) and [`Error::Storage`](crate::Error::Storage) if the file cannot be
    /// read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Document>> {
        Ok(self.reader.find(key.as_ref())?.map(|(_, document)| document))
    }

    /// Returns every document within the max distance of the query's fingerprint, nearest first, up to its limit,
    /// and how many there are in all.
    ///
    /// The answer is exact: none is missed, no other is returned. Equal distances are ordered by fingerprint, and
    /// documents of one fingerprint by when they were written, last first.
    ///
    /// # Errors
    ///
    /// [`Error::MaxDistance`](crate::Error::MaxDistance) for more than 64; [`Error::Damaged`](crate::Error::Damaged) if
    /// a document that matches does not bear its checksum, or if there are fewer than are counted;
    /// [`Error::Corrupted`](crate::Error::Corrupted) and [`Error::Storage`](crate::Error::Storage) if the file cannot be
    /// read.
    ///
    /// # Cost
    ///
    /// A few range reads in some of the tables, more of them for larger distances; each candidate costs one comparison. Where that
    /// would be dearer, one comparison for each fingerprint of the database. [`explain`](Self::explain) tells which, and how many.
    /// Each match adds a look-up, and the reading of its document if it is listed. Memory grows with the limit, not with the
    /// number of matches.
    ///
    /// # References
    ///
    /// Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, WWW 2007, section 3.
    pub fn query(&self, query: &Query) -> Result<Matches> {
        search::answer(&self.reader, query)
    }

    /// Whether any document matches: what [`query`](Self::query) would tell with its total, but it stops at the first that is found. It
    /// costs least where nothing is deleted, or what was is merged away: then a near fingerprint is a match.
    ///
    /// # Errors
    ///
    /// As for [`query`](Self::query).
    pub fn any_match(&self, query: &Query) -> Result<bool> {
        search::answer_any(&self.reader, query)
    }

    /// Answers many queries, in their order, on all cores; those that have to read every fingerprint do so in
    /// common. Each answer is that of [`query`](Self::query).
    ///
    /// # Errors
    ///
    /// As for [`query`](Self::query), if any of the queries fails.
    pub fn query_batch(&self, queries: &[Query]) -> Result<Vec<Matches>> {
        let share = queries.len().div_ceil(rayon::current_num_threads()).clamp(1, 1024);
        let answers = queries
            .par_chunks(share)
            .map(|queries| search::answer_all(&self.reader, queries))
            .collect::<Result<Vec<_>>>()?;
        Ok(answers.into_iter().flatten().collect())
    }

    /// Answers a query and tells how: what is read, what it was expected to meet and what it met, how long that took. Reads some
    /// blocks more than the query itself, to know how the fingerprints are spread.
    ///
    /// # Errors
    ///
    /// As for [`query`](Self::query).
    pub fn explain(&self, query: &Query) -> Result<(Matches, Explanation)> {
        // First, since it tells how long it takes to read what is not in memory.
        let mut explanation = explain::explain(&self.reader, query)?;
        let matches = search::answer(&self.reader, query)?;
        explanation.total = matches.total();
        Ok((matches, explanation))
    }

    /// Makes a dense copy of this snapshot at `path`, where nothing may stand yet: a database of its own, whole or not
    /// there at all. Others can go on writing meanwhile. `progress` is called now and then with rows copied and rows in all.
    ///
    /// # Errors
    ///
    /// [`Error::AlreadyExists`](crate::Error::AlreadyExists) and [`Error::NoRoom`](crate::Error::NoRoom), before anything
    /// is done; [`Error::Damaged`](crate::Error::Damaged), [`Error::Io`](crate::Error::Io) and
    /// [`Error::Storage`](crate::Error::Storage).
    pub fn backup(&self, path: impl AsRef<Path>, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        self.reader.backup(path.as_ref(), self.store.sizes(), &mut progress)
    }

    /// Goes through all documents in the order they were written.
    pub fn documents(&self) -> Documents<'_> {
        Documents { snapshot: self, next: DocumentNumber::MIN, block: Vec::new().into_iter(), failed: false }
    }

    /// What the database holds and how large it is.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    pub fn stats(&self) -> Result<Statistics> {
        let metadata = self.store.metadata()?;
        let settings = self.reader.settings();
        let counters = self.reader.counters();
        let (levels, marks) = self.reader.levels_and_marks();
        Ok(Statistics {
            documents: counters.documents,
            too_short: counters.too_short,
            fingerprints: self.reader.fingerprints(),
            file_bytes: metadata.len(),
            allocated_bytes: allocated_bytes(&metadata),
            format_version: FORMAT_VERSION,
            scheme: settings.scheme,
            plan: settings.plan.to_string(),
            max_distance: settings.max_distance,
            probed_distance: settings.plan.radius(),
            created: settings.created,
            marks,
            directory_bytes: self.reader.directory_bytes(),
            levels,
        })
    }
}

/// Files are sparse where the system allows it, so that they take less room than they are long.
fn allocated_bytes(metadata: &fs::Metadata) -> u64 {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        metadata.blocks() * 512
    }
    #[cfg(not(unix))]
    {
        metadata.len()
    }
}

/// All documents of a [`Snapshot`], in the order they were written. After an error it ends.
#[derive(Debug)]
pub struct Documents<'s> {
    snapshot: &'s Snapshot,
    next: DocumentNumber,
    block: std::vec::IntoIter<(DocumentNumber, Result<Document>)>,
    failed: bool,
}

impl Iterator for Documents<'_> {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.block.as_slice().is_empty() && !self.failed {
            match self.snapshot.reader.documents(self.next) {
                Ok(Some((block, next))) => {
                    self.block = block.into_iter();
                    self.next = next;
                }
                Ok(None) => return None,
                Err(error) => {
                    self.failed = true;
                    return Some(Err(error));
                }
            }
        }
        let (_, document) = self.block.next()?;
        if document.is_err() {
            self.failed = true;
            self.block = Vec::new().into_iter();
        }
        Some(document)
    }
}

/// What a database holds and how large it is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// How many documents there are.
    pub documents: u64,
    /// How many of them are without a fingerprint, their text being too short to judge.
    pub too_short: u64,
    /// How many distinct fingerprints the others have: rows held less rows marked, which may be a few more or fewer where
    /// repetitions and deletions have not been merged yet. [`Database::check`](crate::Database::check) counts exactly.
    pub fingerprints: u64,
    /// The length of the file in bytes.
    pub file_bytes: u64,
    /// How many bytes of it the file system has allocated; less than its length where the file is sparse.
    pub allocated_bytes: u64,
    /// The version of the file format.
    pub format_version: u32,
    /// The scheme of the fingerprints.
    pub scheme: Scheme,
    /// The name of the plan: number of tables, `x`, bits of their prefix.
    pub plan: String,
    /// The distance at which queries match that name none.
    pub max_distance: u32,
    /// The largest distance that one range read of each table answers; larger ones take more ranges, or compare with every
    /// fingerprint where that is cheaper.
    pub probed_distance: u32,
    /// When the database was created, in Unix seconds.
    pub created: i64,
    /// How many rows say that something is deleted, in all sorted sets, until merging meets what they delete.
    pub marks: u64,
    /// How much memory the directories take, which say where blocks are, and the filters of keys; from the memory given as
    /// [`OpenOptions::cache_bytes`](crate::OpenOptions::cache_bytes).
    pub directory_bytes: u64,
    /// How many levels a sorted set has at most, besides its recent rows in memory.
    pub levels: u32,
}
