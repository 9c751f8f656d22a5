//! One command that cleans a corpus: reads records, finds near-duplicates, and writes the records that survive, byte
//! for byte as they were.
//!
//! The records are read twice. The first time, their fingerprints go into a database of their own, in a folder beside
//! the output. All pairs of that are found, and decide which records survive. The second time, the survivors are
//! copied. Both are committed as they go, so a run that was stopped goes on.
//!
//! # Example
//!
//! ```
//! use simdb::dedup::Dedup;
//! # let directory = tempfile::tempdir()?;
//! # let [input, output] = ["pages.tsv", "clean.tsv"].map(|name| directory.path().join(name));
//! # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
//! # std::fs::write(&input, format!("a\t{text}\nb\t{text}\n"))?;
//!
//! let totals = Dedup::new([&input], &output).run(|_event| {})?;
//! assert_eq!((totals.records, totals.removed), (2, 1));
//! assert_eq!(std::fs::read_to_string(&output)?, format!("a\t{text}\n"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod annotation;
mod audit;
mod audit_report;
mod claims;
mod dedup;
mod events;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
#[path = "../../tests/hostile/dedup.rs"]
pub(crate) mod hostile;
mod keeping;
mod layout;
mod removed_list;
mod verdicts;
mod work;
mod writing;

pub use audit::Audit;
pub use audit_report::{AuditFault, AuditReport, AuditVerdict, FaultKind, InputRecords, KeptPair};
pub use dedup::{Dedup, DedupGroup, GroupedRecord};
pub use events::{DedupEvent, DedupStep, DedupTotals, Removals};
pub use removed_list::{ListedRecord, RemovedRecord, RemovedRecords};
