//! How much of a text stood elsewhere, and in which documents.

mod overlap;
mod tally;
#[cfg(test)]
mod tests;

pub use overlap::{FirstMatch, Overlap, OverlapDocument, OverlapQuery, OverlapUnit};
