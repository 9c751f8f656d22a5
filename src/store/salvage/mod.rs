//! Salvage: the documents that a damaged file still has, in a new file.

mod report;
mod salvage;

pub use report::{MissingDocuments, SalvageReport};
pub(crate) use salvage::{Salvaging, salvage};
