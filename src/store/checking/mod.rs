//! Checking a file: whether every set has the rows that follow from the documents, and no others.

mod check;
mod report;
mod strays;
mod tally;

pub(crate) use check::{CheckProgress, check_rows};
pub(crate) use report::Findings;
pub use report::{CheckReport, Problem};
