//! Source: an input of documents, and how far it has been read. It is committed with the documents that were read,
//! so reading can go on where it stopped.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[cfg(feature = "ingest")]
use crate::error::{Error, Result};
use crate::unix_seconds::UnixSeconds;

/// How far an input has been read, as of a commit.
///
/// An ingestion commits it together with the documents that it has read up to there. So after a kill at any moment
/// both are there or none of them.
///
/// # Example
///
/// ```
/// # #[cfg(feature = "ingest")]
/// # {
/// use std::ops::ControlFlow;
/// use simdb::ingest::{Ingest, ReadOptions, Records};
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
///
/// std::fs::write(&path, "a\tone page\nb\tanother page\n")?;
/// let records = Records::open([&path], ReadOptions::new())?;
/// Ingest::new(&database).run(records, |_event| ControlFlow::Continue(()))?;
/// let sources = database.snapshot()?.sources()?;
/// let source = &sources[0];
/// assert!(source.has_ended() && source.failed().is_none());
/// assert_eq!((source.place().line, source.totals().documents), (2, 2));
/// assert_eq!(source.identity().length, Some(26));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// Its name: 1 to [`MAX_NAME_BYTES`](Self::MAX_NAME_BYTES) bytes, normally the path of a file.
    pub(crate) name: Vec<u8>,
    pub(crate) record: SourceRecord,
}

/// What is stored under the name of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SourceRecord {
    /// The run that read it last. Later runs have greater numbers.
    pub(crate) run: u64,
    /// The hash of the names of all sources that this run was given.
    pub(crate) command: u64,
    /// Where its next record begins.
    pub(crate) place: Place,
    /// By what its content is known again.
    pub(crate) identity: Identity,
    pub(crate) ended: bool,
    /// Why it cannot be read further than up to the place, as long as its content is the same.
    pub(crate) failed: Option<String>,
    /// Of the records up to the place, and of the last line, if that has no line end.
    pub(crate) totals: Totals,
    /// Of the last line, if that has no line end. It is behind the place, and is read again once it has become longer.
    pub(crate) last_line: Totals,
    /// When it was last read, or given and found unchanged, in Unix seconds.
    pub(crate) updated: i64,
    /// The numbers of the documents that were stored while it was read.
    pub(crate) numbers: Numbers,
    /// The numbers of the documents that were stored while it was read before, from its beginning.
    pub(crate) earlier: Numbers,
    /// The number of its first records that were counted as repeats of others, or would have been. When it is read
    /// again, they are not counted once more.
    pub(crate) counted: u64,
}

impl Source {
    /// The longest name, in bytes.
    pub const MAX_NAME_BYTES: usize = 4_096;

    /// The source that has been read up to a place. What else is known of it stays.
    pub(crate) fn reached(old: SourceRecord, reached: &Reached) -> Self {
        let Reached {
            name,
            place,
            identity,
            ended,
        } = reached;
        let now = UnixSeconds::now().unchecked();
        // What became of its records is not known here.
        Self {
            name: name.to_vec(),
            record: SourceRecord {
                place: *place,
                identity: *identity,
                ended: *ended,
                failed: None,
                updated: now,
                ..old
            },
        }
    }

    #[cfg(feature = "ingest")]
    pub(crate) fn validate_name(name: &[u8]) -> Result<()> {
        let max_bytes = Self::MAX_NAME_BYTES;
        match name.len() {
            1..=Self::MAX_NAME_BYTES => Ok(()),
            bytes => Err(Error::SourceName { bytes, max_bytes }),
        }
    }

    /// The name: the absolute path of a file, or the name that the caller chose.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// Where its next record begins.
    pub fn place(&self) -> Place {
        self.record.place
    }

    /// By what its content is known again.
    pub fn identity(&self) -> Identity {
        self.record.identity
    }

    /// Whether it was read to its end.
    pub fn has_ended(&self) -> bool {
        self.record.ended
    }

    /// Why it cannot be read further. That is so as long as its content is the same.
    pub fn failed(&self) -> Option<&str> {
        self.record.failed.as_deref()
    }

    /// When it was last read, or given and found unchanged, in Unix seconds. The latter is noted once a day.
    pub fn updated(&self) -> i64 {
        self.record.updated
    }

    /// What ingestions made of it, since it was last begun from its beginning. Nothing is counted of a source that a
    /// program reads itself.
    pub fn totals(&self) -> &Totals {
        &self.record.totals
    }
}

/// How far an input has been read: the place behind one of its records.
///
/// A program that reads inputs itself commits it with the document of the record, by
/// [`WriteTxn::reach`](crate::WriteTxn::reach) or
/// [`Writer::submit`](crate::Writer::submit), and goes on from there after a stop.
///
/// # Example
///
/// ```
/// # #[cfg(feature = "ingest")]
/// # {
/// use simdb::ingest::{Fingerprinting, ReadOptions, Records};
/// use simdb::{Policy, WriterOptions};
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
/// # std::fs::write(&path, "a\tone page\nb\tanother page\n")?;
///
/// let rule = Fingerprinting::new(database.scheme(), None)?;
/// let writer = database.writer(WriterOptions::new())?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// for read in records.next_read(|record| record.into_document(rule))? {
///     if let (Some(Ok(document)), Some(reached)) = (read.record, read.reached) {
///         writer.submit((document, reached), &Policy::skip())?.wait()?;
///     }
/// }
/// // The place behind the last document is durable with the document.
/// assert_eq!(database.snapshot()?.sources()?[0].place().records, 2);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reached {
    name: Arc<[u8]>,
    place: Place,
    identity: Identity,
    ended: bool,
}

impl Reached {
    /// Up to a place in a source of this name, which may be its end.
    #[cfg(any(feature = "ingest", test))]
    pub(crate) fn new(name: Arc<[u8]>, place: Place, identity: Identity, ended: bool) -> Self {
        Self {
            name,
            place,
            identity,
            ended,
        }
    }

    /// The name of the source: the absolute path of a file.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The place behind the record.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether this is the end of the input.
    pub fn is_end(&self) -> bool {
        self.ended
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.name.len()
    }
}

/// A place between two records of an input.
///
/// See the example of [`Source`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Place {
    /// An offset in the input as it is stored (bytes). If the input is packed, a part begins there that can be
    /// unpacked without what is before it.
    pub raw_offset: u64,
    /// The unpacked bytes from there to the place. 0 if the input is not packed.
    pub skip: u64,
    /// The number of lines before the place. 0 if the input is not cut into lines.
    pub line: u64,
    /// The number of records before the place.
    pub records: u64,
}

/// By what the content of an input is known again.
///
/// See the example of [`Source`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Identity {
    /// The length of the input as it is stored (bytes). `None` if it is not known, as for a pipe.
    pub length: Option<u64>,
    /// The first bytes.
    pub first: Sample,
    /// The last bytes that were read.
    pub last: Sample,
    /// By what it is known again as it is stored. `None` for what is no file.
    pub stamp: Option<Stamp>,
}

/// By what a file is known again without unpacking it.
///
/// See the example of [`Source`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stamp {
    /// The `xxh3_64` of its length and of samples of it: the first 4,096 bytes, the last ones, and 14 times as many
    /// between them. Of up to 65,536 bytes all are in it.
    pub samples: u64,
    /// The `xxh3_64` of all of its bytes. `None` unless it was read from its beginning to its end in one go.
    pub whole: Option<u64>,
    /// When its content and its entry were last changed, in nanoseconds since 1970. `None` if that was a moment before
    /// it was read.
    pub times: Option<[i64; 2]>,
}

/// Some bytes of an input, by their hash.
///
/// See the example of [`Source`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Sample {
    /// The number of bytes.
    pub length: u16,
    /// The `xxh3_64` of the bytes.
    pub hash: u64,
}

/// The numbers of records by what was done with them.
///
/// See the example of [`Source`].
// They are stored with the position in a source. So a new number is a change of the file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Totals {
    /// The number of records that were read, without the rejected ones and those that were passed over.
    pub documents: u64,
    /// The number of paragraphs or sentences into which they were cut. 0 if they were not cut. If they were, the
    /// numbers below are of these units.
    pub units: u64,
    /// The number of these that were stored under a new key.
    pub inserted: u64,
    /// The number of these that replaced a document of the same key.
    pub replaced: u64,
    /// The number of these that were not stored because they are near-duplicates.
    pub skipped: u64,
    /// The number of stored documents that were deleted, because a new one has a higher rank, or because they were
    /// the units of a document that came again.
    pub deleted: u64,
    /// The number of records that have near-duplicates.
    pub duplicates: u64,
    /// The number of records that are too short to judge. Units that are too short are not stored.
    pub too_short: u64,
    /// The number of records that were rejected.
    pub rejected: u64,
    /// The number of records that are no documents, such as the requests of a web archive.
    pub passed_over: u64,
    /// The number of last lines without a line end that are no records. Whoever writes the input has most likely not
    /// ended them yet, so they are left for the next run.
    pub left: u64,
    /// The time it took.
    pub elapsed: Duration,
}

#[cfg(feature = "ingest")]
impl Totals {
    /// Adds the numbers of other records. Where a record that is stored has impossible ones, they stay the greatest.
    pub(crate) fn add_all(&mut self, other: &Self) {
        self.change_by(other, u64::saturating_add);
        self.elapsed = self.elapsed.saturating_add(other.elapsed);
    }

    /// Takes the numbers of some of the records out again. The time stays, since it was taken.
    pub(crate) fn take_out(&mut self, other: &Self) {
        self.change_by(other, u64::saturating_sub);
    }

    fn change_by(&mut self, other: &Self, change: fn(u64, u64) -> u64) {
        for (number, other) in [
            (&mut self.documents, other.documents),
            (&mut self.units, other.units),
            (&mut self.inserted, other.inserted),
            (&mut self.replaced, other.replaced),
            (&mut self.skipped, other.skipped),
            (&mut self.deleted, other.deleted),
            (&mut self.duplicates, other.duplicates),
            (&mut self.too_short, other.too_short),
            (&mut self.rejected, other.rejected),
            (&mut self.passed_over, other.passed_over),
            (&mut self.left, other.left),
        ] {
            *number = change(*number, other);
        }
    }
}

/// Ranges of the numbers of documents, in order, which neither overlap nor adjoin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Numbers(Vec<Range<u64>>);

impl Numbers {
    pub(crate) const fn none() -> Self {
        Self(Vec::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn ranges(&self) -> &[Range<u64>] {
        &self.0
    }

    pub(crate) fn range_of(&self, number: u64) -> Option<&Range<u64>> {
        let after = self.0.partition_point(|range| range.start <= number);
        self.0[..after]
            .last()
            .filter(|range| range.contains(&number))
    }

    /// Whether the ranges are as they are described, and below `end`.
    pub(crate) fn are_valid(&self, end: u64) -> bool {
        let mut at = Some(0);
        self.0.iter().all(|range| {
            let is_behind = at.is_some_and(|at| range.start >= at);
            // Those that adjoin would be one.
            at = range.end.checked_add(1);
            is_behind && range.start < range.end && range.end <= end
        })
    }

    /// How many of them are less than this one.
    fn before(&self, number: u64) -> u64 {
        let lengths = self
            .0
            .iter()
            .map(|range| number.clamp(range.start, range.end) - range.start);
        lengths.sum()
    }
}

/// The numbers of documents that do not count, since the source that they come from is read again.
#[derive(Debug, Default)]
pub(crate) struct Ignored {
    pub(crate) numbers: Numbers,
    /// How many documents were stored since then, before the open transaction. If that began before, this is less than
    /// 0, and wraps.
    pub(crate) stored: AtomicU64,
}

impl Ignored {
    /// Whether a document was stored by a record that comes later, as far as can be told: if as many were stored before
    /// it as now or more.
    pub(crate) fn is_of_later_record(&self, number: u64, stored_in_transaction: u64) -> bool {
        let before = self.stored.load(Ordering::Relaxed);
        let stored = before.wrapping_add(stored_in_transaction);
        self.numbers.before(number) > stored
    }
}

impl PartialEq for Ignored {
    fn eq(&self, other: &Self) -> bool {
        self.numbers == other.numbers
    }
}

#[cfg(feature = "ingest")]
impl Numbers {
    pub(crate) fn count(&self) -> u64 {
        self.before(u64::MAX)
    }

    const MOST: usize = 4096;

    /// Adds a range. If there are too many, the shortest but the last is left out, since no gap may be taken in: others
    /// stored what is there. Then a record that is read again may be skipped for one that was stored later.
    pub(crate) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let from = self.0.partition_point(|known| known.end < range.start);
        let to = self.0.partition_point(|known| known.start <= range.end);
        let joined = self.0[from..to]
            .iter()
            .fold(range, |a, b| a.start.min(b.start)..a.end.max(b.end));
        self.0.splice(from..to, [joined]);
        if self.0.len() > Self::MOST {
            self.leave_out_shortest();
        }
    }

    /// Those from a number on.
    pub(crate) fn since(&self, first: u64) -> Self {
        let from = self.0.partition_point(|range| range.end <= first);
        let mut ranges = self.0[from..].to_vec();
        if let Some(range) = ranges.first_mut() {
            range.start = range.start.max(first);
        }
        Self(ranges)
    }

    pub(crate) fn add_all(&mut self, other: &Self) {
        for range in &other.0 {
            self.add(range.clone());
        }
    }

    fn leave_out_shortest(&mut self) {
        let but_last = &self.0[..self.0.len() - 1];
        let lengths = but_last.iter().map(|range| range.end - range.start);
        if let Some((shortest, _)) = lengths.enumerate().min_by_key(|&(_, length)| length) {
            self.0.remove(shortest);
        }
    }
}

#[cfg(feature = "ingest")]
#[cfg(test)]
mod tests {
    use super::*;

    /// A record whose checksum somebody had made anew ended the program that read it: the time of its totals could not
    /// be added to that of its last line, and the end of a range had no number behind it.
    #[test]
    fn impossible_totals_and_ranges_of_a_stored_record_end_no_program() {
        let most = Totals {
            documents: u64::MAX,
            left: u64::MAX,
            elapsed: Duration::MAX,
            ..Totals::default()
        };
        let mut all = most;
        all.add_all(&most);
        assert_eq!(all, most);
        let mut to_the_end = Numbers::default();
        to_the_end.add(7..u64::MAX);
        assert!(!to_the_end.are_valid(100) && to_the_end.are_valid(u64::MAX));
        assert!(!Numbers(vec![7..u64::MAX, 0..1]).are_valid(u64::MAX));
    }

    fn numbers(ranges: impl IntoIterator<Item = Range<u64>>) -> Numbers {
        let mut numbers = Numbers::default();
        ranges.into_iter().for_each(|range| numbers.add(range));
        numbers
    }

    #[test]
    fn ranges_of_numbers_are_joined_where_they_meet() {
        assert_eq!(numbers([3..5, 5..8, 10..11]).ranges(), [3..8, 10..11]);
        assert_eq!(numbers([10..11, 3..5, 1..2, 4..12]).ranges(), [1..2, 3..12]);
        assert!(numbers([4..4, 5..5]).is_empty());
        let numbers = numbers([3..8, 10..11]);
        assert_eq!(
            [2, 3, 7, 8, 10, 11].map(|it| numbers.range_of(it).is_some()),
            [false, true, true, false, true, false]
        );
        assert!(numbers.are_valid(11) && !numbers.are_valid(10));
        assert!(
            !Numbers(vec![3..5, 5..8]).are_valid(100) && !Numbers(vec![3..5, 7..7]).are_valid(100)
        );
    }

    #[test]
    fn numbers_since_one_of_them_are_those_from_there_on() {
        let all = numbers([3..8, 10..12, 15..16]);
        assert_eq!(all.since(0), all);
        assert_eq!(all.since(5).ranges(), [5..8, 10..12, 15..16]);
        assert_eq!(all.since(8).ranges(), [10..12, 15..16]);
        assert_eq!(all.since(11).ranges(), [11..12, 15..16]);
        assert!(all.since(16).is_empty());
    }

    /// Ranges were joined over gaps. What others had stored there did not count then, when a source was read again.
    #[test]
    fn of_too_many_ranges_the_shortest_is_left_out_and_no_gap_is_taken_in() {
        let many = (0..Numbers::MOST as u64 + 1).map(|number| {
            let length = if number == 100 { 4 } else { 5 };
            number * 10..number * 10 + length
        });
        let kept = numbers(many);
        assert_eq!(kept.ranges().len(), Numbers::MOST);
        assert_eq!(kept.count(), 5 * Numbers::MOST as u64);
        assert_eq!(kept.range_of(1_000), None);
        let mut grown = kept;
        (50_000..50_300).for_each(|number| grown.add(number..number + 1));
        assert_eq!(grown.ranges().last(), Some(&(50_000..50_300)));
    }
}
