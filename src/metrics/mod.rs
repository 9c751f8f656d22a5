//! Counters and histograms of what happens in an open database, and plain data read from them. Counting must not
//! show, even in a query of a microsecond.

mod meters;
mod metrics;

pub use meters::Histogram;
pub(crate) use meters::{Count, Meters, QueueGauge, Tallies, Tally, Timed};
pub use metrics::{Metrics, Verdicts};
