//! Counters and histograms of what happens in an open database, and plain data read from them. Counting must not
//! show, even in a query of a microsecond.

mod histogram;
mod meters;

pub use histogram::Histogram;
pub(crate) use meters::{Counter, Decided, MOST_DISTANCE, Meters, QueueGauge, Tallies, Tally};
