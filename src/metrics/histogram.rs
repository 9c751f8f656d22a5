//! Times: how often something took how long, counted while it happens. Histogram: the same as plain data.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

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
pub(super) struct Times {
    counts: [AtomicU64; BUCKETS],
    /// The sum of all times. It lasts for 584 years.
    nanos: AtomicU64,
}

impl Times {
    /// Counts many times, for little more than one.
    pub(super) fn record(&self, times: impl IntoIterator<Item = Duration>) {
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
    pub(super) fn histogram(&self) -> Histogram {
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
    use super::*;

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
