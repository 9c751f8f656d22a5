//! Checking a file: whether every set has the rows that follow from the documents, and no others.

mod check;
mod report;
mod tally;
mod walk;

pub(crate) use check::check_rows;
pub(crate) use report::Findings;
pub use report::{CheckReport, Problem};
pub(crate) use walk::CheckProgress;
