//! Tallies: the counters of what readers do. Each thread counts in a line of memory of its own.
//!
//! A query takes about a microsecond. Some atomic additions would show in it, and much more so if other cores add
//! to the same counters. So a thread takes a line that no other thread writes to, and adds to it with a plain load
//! and store. More threads than there are lines share one more line, with atomic additions.

use std::sync::atomic::{AtomicU64, Ordering};

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
