//! The events and the totals of a cleaning, and what a caller may make of the removed records before it ends.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::database::SharedFn;
use crate::error::{Error, Result};
use crate::ingest::{
    Fingerprinting, Progress, ReadOptions, Record, RecordId, Records, Rejected, Stop,
};

/// An event of [`Dedup::run`](super::Dedup::run).
///
/// # Example
///
/// ```
/// use simdb::dedup::{Dedup, DedupEvent, DedupStep};
/// # let directory = tempfile::tempdir()?;
/// # let [input, output] = ["pages.jsonl", "clean.jsonl"].map(|name| directory.path().join(name));
/// # std::fs::write(&input, "{\"key\": \"a\", \"text\": \"one\"}\nno JSON\n")?;
///
/// let mut not_judged = Vec::new();
/// let totals = Dedup::new([&input], &output).run(|event| match event {
///     DedupEvent::Rejected(rejected) => not_judged.push(rejected.line),
///     DedupEvent::Failed { error, .. } => eprintln!("{error}"),
///     DedupEvent::Progress { step: DedupStep::Writing, done, all } => eprintln!("{done} of {all} bytes"),
///     _ => {}
/// })?;
/// assert_eq!((not_judged, totals.rejected), (vec![Some(2)], 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum DedupEvent<'e> {
    /// A record cannot be judged. It survives, unless the caller wants such records dropped.
    Rejected(&'e Rejected),
    /// An input cannot be read, or not to its end. It is left out, and nothing of it is in the output.
    Failed {
        /// The path of the input.
        path: &'e Path,
        /// Why: [`Error::Input`](crate::Error::Input).
        error: &'e Error,
    },
    /// The first records bring a text, and also a field that is read in its place. No text is read then.
    TextsUnread {
        /// The field: `fingerprint` or `features`.
        field: &'static str,
    },
    /// An input that nobody has called a text has many short lines, and is read as one record.
    List {
        /// The path of the input.
        path: &'e Path,
        /// The number of its lines.
        lines: u64,
    },
    /// How far a step is.
    Progress {
        /// The step.
        step: DedupStep,
        /// The parts of it that are done. Of reading and writing, the bytes of the inputs as they are stored.
        done: u64,
        /// All parts of it.
        all: u64,
    },
}

pub(super) type Observe<'o> = &'o mut dyn FnMut(DedupEvent<'_>);

/// The steps of a cleaning.
///
/// See the example of [`DedupEvent`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DedupStep {
    /// The inputs are read, and fingerprints are made.
    Reading,
    /// Near-duplicates are found.
    Comparing,
    /// The records that survive are copied.
    Writing,
    /// The documents that survive are stored in the database that was named.
    Storing,
}

/// What came of a cleaning.
///
/// See the example of [`Dedup`](super::Dedup).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DedupTotals {
    /// The records that were read: those that were judged, those that were too short for that, and those that could not
    /// be judged.
    pub records: u64,
    /// The records whose texts are too short to judge. They are removed only if their texts are the same.
    pub too_short: u64,
    /// The records that could not be judged. They survive, unless the caller wants them [dropped].
    ///
    /// [dropped]: super::Dedup::drop_unjudged
    pub rejected: u64,
    /// Those of them that were dropped.
    pub dropped_unjudged: u64,
    /// The inputs that could not be read, or not to their ends. Nothing of them is in the output.
    pub failed: u64,
    /// The records that were removed. If the records were [annotated](super::Dedup::annotate), those that were not and
    /// do not survive.
    pub removed: u64,
    /// Those of them that have the same fingerprint as their survivor, or the same text.
    pub removed_as_equal: u64,
    /// Those of them whose survivor is a document of the database that was named.
    pub removed_as_known: u64,
    /// The records that were [annotated](super::Dedup::annotate), if that was asked for.
    #[serde(default)]
    pub annotated: u64,
    /// The time that the run took, without those that were stopped before it.
    pub elapsed: Duration,
}

impl DedupTotals {
    /// The records that survive.
    pub fn kept(&self) -> u64 {
        self.records - self.removed - self.dropped_unjudged
    }
}

impl DedupEvent<'_> {
    /// How many bytes of the inputs are read in this step.
    pub(super) fn of_bytes(step: DedupStep, progress: &Progress) -> Self {
        Self::Progress {
            step,
            done: progress.bytes_read(),
            all: progress.bytes_total().unwrap_or_default(),
        }
    }

    pub(super) fn comparing(done: u64, all: u64) -> Self {
        Self::Progress {
            step: DedupStep::Comparing,
            done,
            all,
        }
    }
}

/// A cleaning that is about to end: what was removed, for a report.
///
/// # Example
///
/// ```
/// use simdb::dedup::Dedup;
/// # let directory = tempfile::tempdir()?;
/// # let [input, output, report] = ["pages.tsv", "clean.tsv", "report.txt"].map(|name| directory.path().join(name));
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&input, format!("a\t{text}\nb\t{text}\n"))?;
///
/// let dedup = Dedup::new([&input], &output).report(&report, |removals| {
///     let totals = removals.totals();
///     Ok(format!("{} of {} records were removed\n", totals.removed, totals.records).into_bytes())
/// });
/// dedup.run(|_event| {})?;
/// assert_eq!(std::fs::read_to_string(&report)?, "1 of 2 records were removed\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Removals<'r> {
    pub(super) inputs: &'r [PathBuf],
    pub(super) options: &'r ReadOptions,
    pub(super) rule: Fingerprinting,
    pub(super) stop: &'r Stop,
    pub(super) list: &'r Path,
    pub(super) totals: &'r DedupTotals,
}

pub(super) type Report = SharedFn<dyn Fn(&Removals<'_>) -> Result<Vec<u8>> + Send + Sync>;

impl Removals<'_> {
    /// What came of the cleaning, without the time that it took.
    pub fn totals(&self) -> &DedupTotals {
        self.totals
    }

    /// The file that lists the removed records, as [`Dedup::removed`](super::Dedup::removed) tells. It is there only
    /// for now.
    pub fn list(&self) -> &Path {
        self.list
    }

    /// The texts of some records, by their places: the inputs and numbers that the list has. Records without a text
    /// are left out.
    ///
    /// # Errors
    ///
    /// * [`Error::Input`](crate::Error::Input) if an input cannot be read.
    /// * [`Error::Interrupted`](crate::Error::Interrupted) if the caller ended the cleaning.
    ///
    /// # Cost
    ///
    /// The inputs of these records are read once.
    pub fn texts(
        &self,
        places: &HashSet<(Vec<u8>, u64)>,
    ) -> Result<HashMap<(Vec<u8>, u64), String>> {
        let mut texts = HashMap::new();
        if places.is_empty() {
            return Ok(texts);
        }
        let names: HashSet<&[u8]> = places.iter().map(|place| place.0.as_slice()).collect();
        let mut inputs = Vec::new();
        for path in self.inputs {
            if names.contains(path.as_os_str().as_encoded_bytes()) {
                inputs.push(path.clone());
            }
        }
        let mut records = Records::open(inputs, self.options.clone())?;
        let paths = records.paths().to_vec();
        loop {
            let chunk = records.next_chunk(|record: Record| {
                let Some(RecordId { input, number }) = record.id() else {
                    return Ok(None);
                };
                let path = paths[input as usize].as_os_str().as_encoded_bytes();
                let place = (path.to_vec(), number);
                if !places.contains(&place) {
                    return Ok(None);
                }
                let text = record.text(self.rule).map(Cow::into_owned);
                Ok::<_, Rejected>(text.map(|text| (place, text)))
            })?;
            if chunk.is_empty() {
                return Ok(texts);
            }
            self.stop.ensure_wanted()?;
            // What cannot be read has no text.
            texts.extend(chunk.into_iter().filter_map(Result::ok).flatten());
        }
    }
}
