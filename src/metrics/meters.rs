//! Meters: everything that is counted of an open file, but for what readers count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::histogram::Times;

/// The greatest distance of two fingerprints.
pub(crate) const MOST_DISTANCE: usize = 64;

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// What is counted of an open file since it was opened, by whoever writes.
#[derive(Debug)]
pub(crate) struct Meters {
    pub(crate) opened: Instant,
    /// Documents that were stored, and documents that are gone, expired ones left out.
    pub(crate) stored: Counter,
    pub(crate) deleted: Counter,
    pub(crate) commits: Times,
    pub(crate) failed_commits: Counter,
    pub(crate) verdicts: VerdictMeters,
    /// One in some single queries.
    pub(crate) queries: Times,
    pub(crate) query_batches: Times,
    /// What writers took out of their queues.
    pub(crate) submissions: Counter,
    queues: Mutex<Vec<Weak<QueueGauge>>>,
    /// From submission to the commit.
    pub(crate) answers: Times,
    pub(crate) merge_steps: Times,
    pub(crate) merged_rows: Counter,
    pub(crate) merged_bytes: Counter,
    pub(crate) failed_merges: Counter,
    pub(crate) expired: Counter,
    pub(crate) compactions: Times,
    /// The bytes of blocks and pages of the log that commits have removed.
    pub(crate) freed_bytes: Counter,
}

impl Meters {
    pub(crate) fn new() -> Self {
        Self {
            opened: Instant::now(),
            stored: Counter::default(),
            deleted: Counter::default(),
            commits: Times::default(),
            failed_commits: Counter::default(),
            verdicts: VerdictMeters::default(),
            queries: Times::default(),
            query_batches: Times::default(),
            submissions: Counter::default(),
            queues: Mutex::default(),
            answers: Times::default(),
            merge_steps: Times::default(),
            merged_rows: Counter::default(),
            merged_bytes: Counter::default(),
            failed_merges: Counter::default(),
            expired: Counter::default(),
            compactions: Times::default(),
            freed_bytes: Counter::default(),
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

    /// The number and the bytes of the submissions that wait in the queues of all writers.
    pub(crate) fn queued(&self) -> (u64, u64) {
        let mut length = 0;
        let mut bytes = 0;
        for queue in self.queues.lock().iter().filter_map(Weak::upgrade) {
            length += queue.length.load(Ordering::Relaxed);
            bytes += queue.bytes.load(Ordering::Relaxed);
        }
        (length, bytes)
    }

    /// Counts a commit that succeeded.
    pub(crate) fn committed(&self, stored: u64, deleted: u64, took: Duration) {
        self.stored.add(stored);
        self.deleted.add(deleted);
        self.commits.record(took);
    }

    /// Counts a step of a merge that was committed.
    pub(crate) fn merged(&self, rows: u64, bytes: u64, took: Duration) {
        self.merged_rows.add(rows);
        self.merged_bytes.add(bytes);
        self.merge_steps.record(took);
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

/// The verdicts of committed transactions.
#[derive(Debug)]
pub(crate) struct VerdictMeters {
    pub(crate) inserted: Counter,
    pub(crate) inserted_duplicates: Counter,
    pub(crate) replaced: Counter,
    pub(crate) replaced_duplicates: Counter,
    pub(crate) skipped: Counter,
    /// By the distance of the nearest match.
    pub(crate) nearest: [Counter; MOST_DISTANCE + 1],
}

impl Default for VerdictMeters {
    fn default() -> Self {
        Self {
            inserted: Counter::default(),
            inserted_duplicates: Counter::default(),
            replaced: Counter::default(),
            replaced_duplicates: Counter::default(),
            skipped: Counter::default(),
            nearest: std::array::from_fn(|_| Counter::default()),
        }
    }
}

impl VerdictMeters {
    /// Counts the verdicts of a transaction that was committed.
    pub(crate) fn add(&self, decided: &Decided) {
        self.inserted.add(decided.inserted);
        self.inserted_duplicates.add(decided.inserted_duplicates);
        self.replaced.add(decided.replaced);
        self.replaced_duplicates.add(decided.replaced_duplicates);
        self.skipped.add(decided.skipped);
        let nearest = self.nearest.iter().zip(decided.nearest);
        nearest
            .filter(|(_, count)| *count > 0)
            .for_each(|(all, count)| all.add(count));
    }
}

/// The verdicts of one transaction. They count when it is committed.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) inserted: u64,
    /// Those that had matches.
    pub(crate) inserted_duplicates: u64,
    pub(crate) replaced: u64,
    pub(crate) replaced_duplicates: u64,
    pub(crate) skipped: u64,
    pub(crate) nearest: [u64; MOST_DISTANCE + 1],
}

impl Default for Decided {
    fn default() -> Self {
        let nearest = [0; MOST_DISTANCE + 1];
        Self {
            inserted: 0,
            inserted_duplicates: 0,
            replaced: 0,
            replaced_duplicates: 0,
            skipped: 0,
            nearest,
        }
    }
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
}
