//! Meters: everything that is counted of an open file. Histogram: how often something took how long, as plain data.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::metrics::{Metrics, Verdicts};
use crate::fingerprint::DISTANCES;
use crate::sync::Mutex;

/// The numbers that whoever writes adds to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    /// Documents that were stored, and documents that are gone, expired ones left out.
    Stored,
    Deleted,
    FailedCommits,
    /// What came into the queues of writers.
    Submissions,
    MergedRows,
    MergedBytes,
    FailedMerges,
    Expired,
    /// Verdicts, and those of them with a match.
    Inserted,
    InsertedDuplicates,
    Replaced,
    ReplacedDuplicates,
    Skipped,
    /// The bytes of blocks and pages of the log that commits have removed.
    FreedBytes,
}

const COUNTS: usize = Count::FreedBytes as usize + 1;

/// What takes a time that is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timed {
    Commit,
    /// One in some single queries.
    Query,
    QueryBatch,
    /// From submission to the commit.
    Submission,
    MergeStep,
    Compaction,
}

const TIMED: usize = Timed::Compaction as usize + 1;

/// What is counted of an open file since it was opened, by whoever writes.
#[derive(Debug)]
pub(crate) struct Meters {
    opened: Instant,
    counts: [AtomicU64; COUNTS],
    times: [Times; TIMED],
    /// Verdicts by the distance of the nearest match.
    nearest: [AtomicU64; DISTANCES],
    queues: Mutex<Vec<Weak<QueueGauge>>>,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Self {
            opened: Instant::now(),
            counts: Default::default(),
            times: Default::default(),
            nearest: array::from_fn(|_| AtomicU64::default()),
            queues: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, count: Count, number: u64) {
        self.counts[count as usize].fetch_add(number, Ordering::Relaxed);
    }

    pub(crate) fn count(&self, count: Count) -> u64 {
        load(&self.counts[count as usize])
    }

    /// Records times, many for little more than one.
    pub(crate) fn record(&self, timed: Timed, times: impl IntoIterator<Item = Duration>) {
        self.times[timed as usize].record(times);
    }

    pub(crate) fn add_verdicts(&self, verdicts: &Verdicts) {
        self.add(Count::Inserted, verdicts.inserted);
        self.add(Count::InsertedDuplicates, verdicts.inserted_duplicates);
        self.add(Count::Replaced, verdicts.replaced);
        self.add(Count::ReplacedDuplicates, verdicts.replaced_duplicates);
        self.add(Count::Skipped, verdicts.skipped);
        for (all, count) in self.nearest.iter().zip(verdicts.nearest) {
            if count > 0 {
                all.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    /// A gauge for the queue of another writer.
    pub(crate) fn queue_gauge(&self) -> Arc<QueueGauge> {
        let gauge = Arc::<QueueGauge>::default();
        let mut queues = self.queues.lock();
        queues.retain(|queue| queue.strong_count() > 0);
        queues.push(Arc::downgrade(&gauge));
        gauge
    }

    /// What was counted until now. How the file stands is left at 0, and so are the queues: they have a lock.
    pub(crate) fn metrics(&self, tallies: &Tallies) -> Metrics {
        Metrics {
            open_for: self.opened.elapsed(),
            documents: 0,
            file_bytes: 0,
            documents_stored: self.count(Count::Stored),
            documents_deleted: self.count(Count::Deleted),
            documents_expired: self.count(Count::Expired),
            verdicts: self.verdicts(),
            queries: tallies.sum(Tally::Queries),
            query_matches: tallies.sum(Tally::Matches),
            query_times: self.times[Timed::Query as usize].histogram(),
            query_batch_times: self.times[Timed::QueryBatch as usize].histogram(),
            candidates: tallies.sum(Tally::Candidates),
            commit_times: self.times[Timed::Commit as usize].histogram(),
            failed_commits: self.count(Count::FailedCommits),
            submissions: self.count(Count::Submissions),
            queue_length: 0,
            queue_bytes: 0,
            submission_times: self.times[Timed::Submission as usize].histogram(),
            waiting_changes: 0,
            waiting_rows: 0,
            merge_times: self.times[Timed::MergeStep as usize].histogram(),
            merged_rows: self.count(Count::MergedRows),
            merged_bytes: self.count(Count::MergedBytes),
            failed_merges: self.count(Count::FailedMerges),
            cache_hits: tallies.sum(Tally::CacheHits),
            cache_misses: tallies.sum(Tally::CacheMisses),
            cache_bytes: 0,
            cache_limit_bytes: 0,
            blocks_read: tallies.sum(Tally::BlocksRead),
            bytes_read: tallies.sum(Tally::BytesRead),
            snapshots: 0,
            oldest_pin: None,
            pinned_bytes: 0,
            compaction_times: self.times[Timed::Compaction as usize].histogram(),
        }
    }

    fn verdicts(&self) -> Verdicts {
        Verdicts {
            inserted: self.count(Count::Inserted),
            inserted_duplicates: self.count(Count::InsertedDuplicates),
            replaced: self.count(Count::Replaced),
            replaced_duplicates: self.count(Count::ReplacedDuplicates),
            skipped: self.count(Count::Skipped),
            nearest: self.nearest.each_ref().map(load),
        }
    }

    /// Adds the submissions that wait in the queues of all writers.
    pub(crate) fn add_queued(&self, metrics: &mut Metrics) {
        for queue in self.queues.lock().iter().filter_map(Weak::upgrade) {
            let length = queue.length.load(Ordering::Relaxed);
            metrics.queue_length += length;
            metrics.queue_bytes += queue.bytes.load(Ordering::Relaxed);
        }
    }
}

/// Shows how long the queue of a writer is. It is set while the queue is locked, so a plain store is enough.
#[derive(Debug, Default)]
pub(crate) struct QueueGauge {
    length: AtomicU64,
    bytes: AtomicU64,
}

impl QueueGauge {
    pub(crate) fn set(&self, length: usize, bytes: usize) {
        self.length.store(length as u64, Ordering::Relaxed);
        self.bytes.store(bytes as u64, Ordering::Relaxed);
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// The number of lines that belong to one thread at a time.
const LINES: usize = 64;

/// What readers count.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tally {
    /// Queries, single or in a batch.
    Queries,
    /// The totals of their answers.
    Matches,
    /// Fingerprints that probes have met, for queries and for verdicts.
    Candidates,
    /// Blocks that were looked for in the cache and were there, or were not.
    CacheHits,
    CacheMisses,
    /// Blocks that were read from the file, and their bytes.
    BlocksRead,
    BytesRead,
}

/// One counter for each [`Tally`]. It fills a line of memory, so threads do not disturb each other.
#[derive(Default)]
#[repr(align(64))]
struct Line([AtomicU64; 8]);

const _: () = assert!(
    size_of::<Line>() > Tally::BytesRead as usize * size_of::<AtomicU64>(),
    "a line has a counter for each tally"
);

/// The counters of what readers do with an open file.
pub(crate) struct Tallies {
    /// The last line is shared.
    lines: Box<[Line]>,
}

impl Tallies {
    pub(crate) fn new() -> Self {
        Self {
            lines: (0..=LINES).map(|_| Line::default()).collect(),
        }
    }

    /// Adds to a counter. Returns what this thread, and those that had its line before, have counted until then.
    #[inline]
    pub(crate) fn add(&self, tally: Tally, count: u64) -> u64 {
        // A thread that ends may have given its line back.
        match OWN_LINE.try_with(|line| line.0) {
            Ok(Some(line)) => {
                let counter = &self.lines[line].0[tally as usize];
                let before = counter.load(Ordering::Relaxed);
                counter.store(before.wrapping_add(count), Ordering::Relaxed);
                before
            }
            _ => self.lines[LINES].0[tally as usize].fetch_add(count, Ordering::Relaxed),
        }
    }

    /// What all threads have counted.
    pub(crate) fn sum(&self, tally: Tally) -> u64 {
        let counts = self
            .lines
            .iter()
            .map(|line| line.0[tally as usize].load(Ordering::Relaxed));
        counts.fold(0, u64::wrapping_add)
    }
}

/// The lines that belong to a thread now, one bit for each.
static TAKEN: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static OWN_LINE: OwnLine = OwnLine::take();
}

/// The line that belongs to a thread. `None` if there was none left.
struct OwnLine(Option<usize>);

impl OwnLine {
    fn take() -> Self {
        let mut taken = TAKEN.load(Ordering::Relaxed);
        loop {
            let free = (!taken).trailing_zeros();
            if free as usize == LINES {
                return Self(None);
            }
            // The thread that had the line before has written to it. That must be seen here.
            match TAKEN.compare_exchange_weak(
                taken,
                taken | 1 << free,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Self(Some(free as usize)),
                Err(now) => taken = now,
            }
        }
    }
}

impl Drop for OwnLine {
    fn drop(&mut self) {
        if let Some(line) = self.0 {
            TAKEN.fetch_and(!(1 << line), Ordering::Release);
        }
    }
}

/// The bound of the first bucket. Each further bound is twice the one before.
const FIRST_NANOS: u64 = 250;
/// The number of buckets with a bound. The last bound is 67 seconds.
const BOUNDED: usize = 29;
const BUCKETS: usize = BOUNDED + 1;

fn bound(bucket: usize) -> Option<Duration> {
    (bucket < BOUNDED).then(|| Duration::from_nanos(FIRST_NANOS << bucket))
}

/// The bucket of a time: the first whose bound is not below it.
fn bucket_of(time: Duration) -> usize {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let steps = nanos.saturating_sub(1) / FIRST_NANOS;
    ((u64::BITS - steps.leading_zeros()) as usize).min(BOUNDED)
}

/// How often something took how long.
#[derive(Debug, Default)]
struct Times {
    counts: [AtomicU64; BUCKETS],
    /// The sum of all times. It lasts for 584 years.
    nanos: AtomicU64,
}

impl Times {
    /// Counts many times, for little more than one.
    fn record(&self, times: impl IntoIterator<Item = Duration>) {
        let mut counts = [0; BUCKETS];
        let mut nanos = 0u64;
        for time in times {
            counts[bucket_of(time)] += 1;
            nanos = nanos.saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        }
        for (all, count) in self.counts.iter().zip(counts) {
            if count > 0 {
                all.fetch_add(count, Ordering::Relaxed);
            }
        }
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// What was counted until now.
    fn histogram(&self) -> Histogram {
        let counts = self.counts.iter();
        Histogram {
            counts: counts.map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: Duration::from_nanos(self.nanos.load(Ordering::Relaxed)),
        }
    }
}

/// How often something took how long, since the database was opened.
///
/// The times are counted in buckets. The bound of the first bucket is 250 nanoseconds, and each further bound is twice
/// the one before, up to 67 seconds. The last bucket has no bound.
///
/// # Example
///
/// ```
/// use std::time::Duration;
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// # txn.commit()?;
///
/// let times = database.metrics().commit_times;
/// assert_eq!((times.count(), times.mean()), (1, Some(times.sum())));
/// assert!(times.quantile(0.99) > Some(Duration::ZERO));
/// let counted: u64 = times.buckets().map(|(_bound, count)| count).sum();
/// assert_eq!(counted, times.count());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Vec<u64>,
    sum: Duration,
}

impl Histogram {
    /// The number of times that were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The sum of all times.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The mean time. `None` if nothing was counted.
    pub fn mean(&self) -> Option<Duration> {
        let count = self.count();
        (count > 0).then(|| Duration::from_secs_f64(self.sum.as_secs_f64() / count as f64))
    }

    /// A bound that a share `q` of the times did not exceed: 0.5 for the median, 0.99 for all but one in a hundred.
    ///
    /// It is the bound of a bucket, so it is at most twice the time it stands for, or 250 nanoseconds for anything
    /// shorter. If the time is above all bounds, it is the last bound. `q` is taken to be 0 to 1. `None` if nothing was
    /// counted.
    pub fn quantile(&self, q: f64) -> Option<Duration> {
        let count = self.count();
        let rank = ((count as f64 * q.clamp(0.0, 1.0)).ceil() as u64).clamp(1, count.max(1));
        let mut before = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            before += count;
            if before >= rank {
                return bound(bucket.min(BOUNDED - 1));
            }
        }
        None
    }

    /// The buckets, the shortest times first: the bound that the times of the bucket do not exceed, and their number.
    /// The last bucket has no bound.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        self.counts
            .iter()
            .enumerate()
            .map(|(bucket, &count)| (bound(bucket), count))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn nothing_is_lost_with_more_threads_than_lines_and_when_threads_follow_each_other() {
        let tallies = Tallies::new();
        for _ in 0..3 {
            let all_there = Barrier::new(LINES + 20);
            std::thread::scope(|scope| {
                for _ in 0..LINES + 20 {
                    scope.spawn(|| {
                        all_there.wait();
                        (0..1000).for_each(|_| _ = tallies.add(Tally::Queries, 1));
                        tallies.add(Tally::BytesRead, 7);
                    });
                }
            });
        }
        let threads = 3 * (LINES as u64 + 20);
        assert_eq!(tallies.sum(Tally::Queries), 1000 * threads);
        assert_eq!(tallies.sum(Tally::BytesRead), 7 * threads);
        assert_eq!(tallies.sum(Tally::Matches), 0);
    }

    #[test]
    fn a_thread_learns_what_it_has_counted_before() {
        let tallies = Tallies::new();
        std::thread::scope(|scope| {
            let counted = scope.spawn(|| [3, 4].map(|count| tallies.add(Tally::Matches, count)));
            assert_eq!(counted.join().expect("no thread panics"), [0, 3]);
        });
    }

    const fn nanos(nanos: u64) -> Duration {
        Duration::from_nanos(nanos)
    }

    #[test]
    fn a_time_is_in_the_first_bucket_whose_bound_is_not_below_it() {
        let last = FIRST_NANOS << (BOUNDED - 1);
        for (time, bucket) in [
            (0, 0),
            (250, 0),
            (251, 1),
            (500, 1),
            (501, 2),
            (1000, 2),
            (1001, 3),
        ] {
            assert_eq!(bucket_of(nanos(time)), bucket, "{time} ns");
        }
        assert_eq!(
            (bucket_of(nanos(last)), bucket_of(nanos(last + 1))),
            (BOUNDED - 1, BOUNDED)
        );
        assert_eq!((bucket_of(Duration::MAX), bound(BOUNDED)), (BOUNDED, None));
        for bucket in 0..BOUNDED {
            assert_eq!(bound(bucket).map(bucket_of), Some(bucket));
        }
    }

    #[test]
    fn a_histogram_has_the_count_the_sum_and_bounds_for_shares() {
        let times = Times::default();
        assert_eq!(
            (times.histogram().quantile(0.5), times.histogram().mean()),
            (None, None)
        );
        times.record((0..98).map(|_| nanos(900)));
        times.record([nanos(30_000)]);
        times.record([Duration::from_secs(500)]);
        let histogram = times.histogram();
        assert_eq!(
            (histogram.count(), histogram.sum()),
            (100, Duration::from_secs(500) + nanos(118_200))
        );
        let bounds = [-1.0, 0.5, 0.98, 0.99, 1.0, 2.0].map(|q| histogram.quantile(q));
        let last = Some(nanos(FIRST_NANOS << (BOUNDED - 1)));
        let short = Some(nanos(1000));
        assert_eq!(
            bounds,
            [short, short, short, Some(nanos(32_000)), last, last]
        );
        assert_eq!(histogram.mean(), Some(nanos(5_000_001_182)));
        let buckets: Vec<_> = histogram.buckets().filter(|it| it.1 > 0).collect();
        assert_eq!(buckets, [(short, 98), (Some(nanos(32_000)), 1), (None, 1)]);
    }
}
