//! Snapshot: what was committed at one moment. Get, query, iterate, back up.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

#[cfg(feature = "ingest")]
use xxhash_rust::xxh3::xxh3_64;

use super::answering;
use super::database::Database;
use super::near_search::{MOST_TOGETHER, reads_few_ranges};
#[cfg(feature = "ingest")]
use super::pairs::content_bytes;
use super::query::{Matches, Query};
use crate::document::{Document, validate_key};
use crate::error::{Error, Result};
use crate::events::{Event, Operation, Watch};
use crate::metrics::{Tally, Timed};
use crate::parallel;
use crate::source::Source;
use crate::store::{DocumentNumber, Reader, Statistics, Store, StoredSnapshot, backup};

/// Of the single queries of a thread, one of this number is timed. A query takes about a microsecond, and looking at
/// the clock twice would show in it.
const TIMED_QUERIES: u64 = 64;

/// The postings of a part that is counted at once, by each core. A row has 16 bytes.
const POSTINGS_COUNTED_TOGETHER: u64 = 1 << 19;

/// A consistent view of a database, which later commits do not change.
///
/// Any thread may use it. It may outlive the [`Database`](crate::Database) that it comes from. A clone is the same
/// view.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// # txn.commit()?;
///
/// let before = database.snapshot()?;
/// let mut txn = database.begin_write()?;
/// txn.delete("page")?;
/// txn.commit()?;
/// assert!(before.get("page")?.is_some());
/// assert!(database.snapshot()?.get("page")?.is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    // Before the store, so that the engine's transaction ends before the engine.
    stored: StoredSnapshot,
    pub(crate) store: Arc<Store>,
}

impl Database {
    /// A view of what is committed now, which later commits do not change.
    ///
    /// It never waits for a writer. Space in the file that is freed while the snapshot lives, also by
    /// merging, is used again only when the snapshot is gone.
    ///
    /// # Errors
    ///
    /// [`Error::Storage`](crate::Error::Storage), [`Error::Corrupted`](crate::Error::Corrupted) or
    /// [`Error::Damaged`](crate::Error::Damaged) if the file cannot be read. This can only happen after a
    /// [`check`](Self::check).
    pub fn snapshot(&self) -> Result<Snapshot> {
        Ok(Snapshot {
            stored: self.store.begin_read()?,
            store: self.store.clone(),
        })
    }
}

impl Snapshot {
    /// What is read from. Every call begins with this.
    #[inline]
    pub(super) fn reader(&self) -> Result<Reader<'_>> {
        self.stored().map(StoredSnapshot::reader)
    }

    /// The commit itself. Every call that needs more than a reader begins with this.
    #[inline]
    pub(super) fn stored(&self) -> Result<&StoredSnapshot> {
        self.store.ensure_usable()?;
        Ok(&self.stored)
    }

    /// The document of a key, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// * [`Error::KeyLength`](crate::Error::KeyLength) for a key that no document can have: an empty one,
    ///   or one of more than [`Document::MAX_KEY_BYTES`].
    /// * [`Error::Damaged`](crate::Error::Damaged) if a block does not have its checksum, or the
    ///   document is missing although its key is there.
    /// * [`Error::Corrupted`](crate::Error::Corrupted) and [`Error::Storage`](crate::Error::Storage) if
    ///   the file cannot be read.
    ///
    /// # Cost
    ///
    /// A search for the key in each level, and the reading of the document's block. Filters in memory
    /// recognise most keys that are absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Document>> {
        let reader = self.reader()?;
        validate_key(key.as_ref())?;
        let found = reader.find(key.as_ref())?;
        Ok(found.map(|(_, document)| document))
    }

    /// Finds the documents within the max distance of the query's fingerprint.
    ///
    /// Returns the nearest of them, up to the limit of the query, and the number of all. The answer is
    /// exact: no match is missed, and nothing else is returned. Matches are in the order of distance,
    /// then fingerprint, then time of writing, the last first.
    ///
    /// # Errors
    ///
    /// * [`Error::MaxDistance`](crate::Error::MaxDistance) for a max distance above 64.
    /// * [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit.
    /// * [`Error::MinSimilarity`](crate::Error::MinSimilarity) for a least similarity that is not 0 to 1,
    ///   [`Error::NoSketch`](crate::Error::NoSketch) if the query asks for a similarity and has no sketch, and
    ///   [`Error::SketchSizes`](crate::Error::SketchSizes) if the database has sketches of another size, or none.
    /// * [`Error::Verify`](crate::Error::Verify) if the function of [`Query::verify`] fails.
    /// * [`Error::Damaged`](crate::Error::Damaged) if a block that is read does not have its checksum,
    ///   or if there are fewer documents than are counted.
    /// * [`Error::Corrupted`](crate::Error::Corrupted) and [`Error::Storage`](crate::Error::Storage) if
    ///   the file cannot be read.
    ///
    /// # Cost
    ///
    /// A few range reads in some of the tables, more for larger distances. Each candidate costs one
    /// comparison. If that would cost more than a scan, every fingerprint of the database is compared
    /// instead. [`explain`](Self::explain) tells which of the two it is, and the number of candidates.
    ///
    /// Each near fingerprint adds a look-up, and each listed match the reading of its document. A query
    /// with a time reads the documents of the near fingerprints, the nearest first, until it has one
    /// match more than its limit. Memory grows with the limit, not with the number of matches. Near
    /// fingerprints take up to some 50 MB on the way.
    ///
    /// # References
    ///
    /// Manku, Jain, Das Sarma: Detecting Near-Duplicates for Web Crawling, WWW 2007, section 3.
    pub fn query(&self, query: &Query) -> Result<Matches> {
        let reader = self.reader()?;
        let begun = self.begin_query();
        let matches = answering::answer(reader, query)?;
        self.end_query(begun, matches.total());
        Ok(matches)
    }

    /// Counts a single query. Some of them are timed.
    fn begin_query(&self) -> Option<Instant> {
        let queries = self.store.tallies().add(Tally::Queries, 1);
        queries.is_multiple_of(TIMED_QUERIES).then(Instant::now)
    }

    fn end_query(&self, begun: Option<Instant>, matches: u64) {
        self.store.tallies().add(Tally::Matches, matches);
        if let Some(begun) = begun {
            self.store.meters.record(Timed::Query, [begun.elapsed()]);
        }
    }

    /// Whether any document matches.
    ///
    /// The answer is whether [`query`](Self::query) would return a total above 0. The limit of the query
    /// does not matter.
    ///
    /// # Errors
    ///
    /// Those of [`query`](Self::query).
    ///
    /// # Cost
    ///
    /// That of a query at most, and it stops at the first match. It costs least for a query without
    /// scopes and time in a database where nothing is deleted, or where the marks of deletion are merged
    /// away. There the first near fingerprint is enough, and no document is looked up.
    pub fn any_match(&self, query: &Query) -> Result<bool> {
        let reader = self.reader()?;
        let begun = self.begin_query();
        let any = answering::answer_any(reader, query)?;
        self.end_query(begun, any.into());
        Ok(any)
    }

    /// Answers many queries, in their order, on all cores.
    ///
    /// Each answer is that of [`query`](Self::query).
    ///
    /// # Errors
    ///
    /// Those of [`query`](Self::query), if any of the queries fails.
    ///
    /// # Cost
    ///
    /// Each core answers a share of the queries together, up to 8,192 of them. The queries of a share
    /// that need a scan have it in common.
    pub fn query_batch(&self, queries: &[Query]) -> Result<Vec<Matches>> {
        let reader = self.reader()?;
        let watch = Watch::begin(Operation::QueryBatch, &self.store.path);
        let (answers, took) = watch.end(answers(reader, queries))?;
        let matches = answers.iter().map(Matches::total).sum();
        let tallies = self.store.tallies();
        tallies.add(Tally::Queries, queries.len() as u64);
        tallies.add(Tally::Matches, matches);
        self.store.meters.record(Timed::QueryBatch, [took]);
        let queries = queries.len();
        Event::Answered { queries, matches }.report(took);
        Ok(answers)
    }

    /// Makes a dense copy of this snapshot at `path`, where nothing may stand yet.
    ///
    /// The copy is a database of its own. Afterwards it is there as a whole or not at all. Others can go
    /// on writing meanwhile.
    ///
    /// The copy gets the owner, the group and the access list of the database, if the system allows it. Its
    /// mode is that of the database, as far as the umask allows. So nobody can read the copy who cannot
    /// read the database, except for the user who makes it.
    ///
    /// # Errors
    ///
    /// * [`Error::AlreadyExists`](crate::Error::AlreadyExists) if something stands at `path`, and
    ///   [`Error::NoRoom`](crate::Error::NoRoom) if the disk may not have enough room. Nothing is done
    ///   then.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted),
    ///   [`Error::Io`](crate::Error::Io) and [`Error::Storage`](crate::Error::Storage) if a file cannot
    ///   be read or written.
    ///
    /// # Cost
    ///
    /// Reads the whole snapshot, and writes and reads back its live documents and rows.
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backup_with(path, |_, _| ControlFlow::Continue(()))
    }

    /// Makes a dense copy as [`backup`](Self::backup) does. `progress` is called now and then with the rows copied so
    /// far and the rows in all. When it breaks, nothing is left of the copy.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted) if `progress` breaks, and those of [`backup`](Self::backup).
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<()> {
        let stored = self.stored()?;
        let watch = Watch::begin(Operation::Backup, &self.store.path);
        let copied = backup(stored, path.as_ref(), &self.store.sizes, &mut progress);
        let ((), took) = watch.end(copied)?;
        let documents = stored.reader().counters().documents;
        Event::BackedUp { documents }.report(took);
        Ok(())
    }

    /// How far a source has been read. `None` if it has not, or was forgotten.
    ///
    /// # Errors
    ///
    /// Those of [`sources`](Self::sources).
    ///
    /// # Cost
    ///
    /// One look-up. The first one after opening reads the records of all sources.
    pub fn source(&self, name: impl AsRef<[u8]>) -> Result<Option<Source>> {
        let name = name.as_ref();
        let record = self.stored()?.source(name)?;
        Ok(record.map(|record| Source {
            name: name.to_vec(),
            record,
        }))
    }

    /// The sources that documents were read from, in the order of their names, and how far they have been read.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    /// [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    pub fn sources(&self) -> Result<Vec<Source>> {
        self.stored()?.sources()
    }

    /// Goes through all documents in the order in which they were written.
    ///
    /// One block of documents is in memory at a time. The iterator has a clone of the snapshot.
    pub fn documents(&self) -> Documents {
        Documents {
            snapshot: self.clone(),
            next: DocumentNumber::MIN,
            block: Vec::new().into_iter(),
            failed: false,
        }
    }

    /// A hash by which the content is known again, however it is stored.
    #[cfg(feature = "ingest")]
    pub(crate) fn content_digest(&self) -> Result<u64> {
        Ok(xxh3_64(&content_bytes(self.reader()?)))
    }

    /// Some documents, evenly drawn from the order in which they were written, at most `most`. They are always the same
    /// for the same content.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    /// [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    ///
    /// # Cost
    ///
    /// A block of documents is read for each, and those in which all are deleted.
    pub fn sample(&self, most: usize) -> Result<Vec<Document>> {
        let stored = self.stored()?;
        let numbers = stored.reader().counters().next_document;
        // There are no more documents than numbers.
        let most = most.min(usize::try_from(numbers).unwrap_or(usize::MAX));
        let mut sample = Vec::with_capacity(most.min(1 << 16));
        let all = u128::from(numbers);
        let mut behind = DocumentNumber::MIN;
        let mut end = 0;
        for index in 0..most {
            let begin = end;
            end = (all * (index as u128 + 1) / most as u128) as u64;
            // Scattered, so that no rhythm of the documents is that of the sample.
            let scattered = (index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
            let offset = begin + scattered % (end - begin).max(1);
            let mut from = DocumentNumber::MIN.after(offset);
            // What is deleted is passed over once.
            while from >= behind
                && let Some((block, next)) = stored.documents(from)?
            {
                from = next;
                behind = next;
                if let Some((number, document)) = block.into_iter().next() {
                    behind = number.after(1);
                    sample.push(document?);
                    break;
                }
            }
        }
        Ok(sample)
    }

    /// Goes through the documents that are too short to judge.
    #[cfg(feature = "ingest")]
    pub(crate) fn each_too_short(&self, mut each: impl FnMut(&Document)) -> Result<()> {
        let mut next = DocumentNumber::MIN;
        let stored = self.stored()?;
        if stored.reader().counters().too_short == 0 {
            return Ok(());
        }
        while let Some((block, after)) = stored.seen_of_block(
            next,
            |fingerprint| fingerprint.is_none().then_some(()),
            |(), _, document| Some(document),
        )? {
            next = after;
            block.iter().for_each(&mut each);
        }
        Ok(())
    }

    /// The number of different fingerprints that documents have. [`stats`](Self::stats) estimates it; this is exact.
    ///
    /// # Errors
    ///
    /// [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    /// [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    ///
    /// # Cost
    ///
    /// Reads the postings once, on all cores: a row of 16 bytes for each document. At most some 100 MB of memory.
    pub fn count_fingerprints(&self) -> Result<u64> {
        self.count_fingerprints_with(|_, _| ControlFlow::Continue(()))
    }

    /// Counts as [`count_fingerprints`](Self::count_fingerprints) does. `progress` is called now and then with the
    /// parts that were counted and the parts in all.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`](crate::Error::Interrupted) if `progress` breaks, and those of
    /// [`count_fingerprints`](Self::count_fingerprints).
    pub fn count_fingerprints_with(
        &self,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        let reader = self.reader()?;
        let parts = reader.posted_parts(POSTINGS_COUNTED_TOGETHER, None)?;
        let mut all = 0;
        parallel::in_order(
            parts.len(),
            |part| reader.posted_fingerprints(parts[part]),
            |part, count| {
                all += count;
                Error::if_broken(progress(part as u64 + 1, parts.len() as u64))
            },
        )?;
        Ok(all)
    }

    /// The contents and the size of the database.
    ///
    /// The size of the file is that of now, the rest is that of the snapshot.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](crate::Error::Io) if the system does not tell the size of the file.
    pub fn stats(&self) -> Result<Statistics> {
        Statistics::new(self.stored()?, &self.store)
    }
}

fn answers(reader: Reader<'_>, queries: &[Query]) -> Result<Vec<Matches>> {
    /// So many queries are answered in the time that it takes to start a thread.
    const FEWEST_TOGETHER: usize = 32;
    /// The most that hardly share ranges. What is kept of so many stays near to the processor: of 100 million
    /// fingerprints, a query among 8192 took a sixth longer.
    const MOST_OF_FEW_RANGES: usize = 1024;
    let share = queries.len().div_ceil(parallel::cores());
    let most = match few_ranges(reader, queries, share)? {
        true => MOST_OF_FEW_RANGES,
        false => MOST_TOGETHER,
    };
    let share = share.clamp(FEWEST_TOGETHER, most);
    let shares: Vec<&[Query]> = queries.chunks(share).collect();
    let answers = parallel::map(shares.len(), |share| {
        answering::answer_all(reader, shares[share])
    });
    let mut all = Vec::with_capacity(queries.len());
    for answers in answers {
        all.extend(answers?);
    }
    Ok(all)
}

/// Whether queries read few ranges, as far as the first of them tells.
fn few_ranges(reader: Reader<'_>, queries: &[Query], together: usize) -> Result<bool> {
    let Some(Query { filter, .. }) = queries.first() else {
        return Ok(false);
    };
    // A query that is refused is refused in its turn.
    match filter.near.checked(reader.settings()) {
        Ok(bounds) if !filter.is_nearest => reads_few_ranges(reader, bounds.max_distance, together),
        _ => Ok(false),
    }
}

/// All documents of a [`Snapshot`], in the order in which they were written.
///
/// After an error, the iterator ends.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// for (key, bits) in [("b", 7), ("a", 6)] {
///     txn.insert(&Document::new(key, Fingerprint::from_bits(bits)))?;
/// }
/// txn.commit()?;
/// let mut keys = Vec::new();
/// for document in database.snapshot()?.documents() {
///     keys.push(document?.key().to_vec());
/// }
/// assert_eq!(keys, [b"b", b"a"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "an iterator does nothing until it is asked"]
pub struct Documents {
    snapshot: Snapshot,
    next: DocumentNumber,
    block: std::vec::IntoIter<(DocumentNumber, Result<Document>)>,
    failed: bool,
}

impl Iterator for Documents {
    type Item = Result<Document>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let next = self.next_document().transpose()?;
        self.failed = next.is_err();
        Some(next)
    }
}

impl Documents {
    fn next_document(&mut self) -> Result<Option<Document>> {
        let stored = self.snapshot.stored()?;
        loop {
            if let Some((_, document)) = self.block.next() {
                return document.map(Some);
            }
            let Some((block, next)) = stored.documents(self.next)? else {
                return Ok(None);
            };
            self.block = block.into_iter();
            self.next = next;
        }
    }
}
