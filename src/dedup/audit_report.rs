//! The result of an audit: plain numbers, and the first counter-examples.

use std::time::Duration;

use super::removed_list::{ListedRecord, RemovedRecord};
use crate::sketch::SketchSize;
use crate::text::Scheme;

/// What an audit has found.
///
/// # Example
///
/// ```
/// use simdb::dedup::{Audit, AuditVerdict};
/// # let directory = tempfile::tempdir()?;
/// # let [input, clean, removed] = ["in.tsv", "clean.tsv", "removed.jsonl"].map(|name| directory.path().join(name));
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&clean, format!("a\t{text}\nb\t{text}\n"))?;
/// # std::fs::write(&input, format!("a\t{text}\nb\t{text}\nc\tshort\n"))?;
/// # std::fs::write(&removed, "")?;
///
/// // The cleaned corpus has two records of one text, and a record of the input is in neither file.
/// let report = Audit::new([&clean], &removed).inputs([&input]).run(|_event| {})?;
/// assert_eq!(report.verdict(), AuditVerdict::Refuted);
/// let pair = &report.near[0];
/// let mut keys = [pair.a.key.clone(), pair.b.key.clone()];
/// keys.sort();
/// assert_eq!((keys, pair.distance), ([Some(b"a".to_vec()), Some(b"b".to_vec())], 0));
/// let inputs = report.inputs.ok_or("the inputs were named")?;
/// assert_eq!((inputs.records, inputs.lost), (3, 1));
/// assert!(matches!(inputs.lost_records[0].place, Some((_, 3))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use = "what is wrong is no error, and the report has it"]
#[non_exhaustive]
pub struct AuditReport {
    /// How fingerprints were made.
    pub scheme: Scheme,
    /// The size of the sketches.
    pub sketch_size: SketchSize,
    /// The largest distance at which records are near.
    pub max_distance: u32,
    /// The least similarity of near records. `None` if the distance alone decides.
    pub min_similarity: Option<f64>,
    /// The records of the cleaned corpus, also those below.
    pub kept: u64,
    /// Those of them whose texts are too short to judge. They are near only to texts that are the same.
    pub kept_too_short: u64,
    /// Those of them that cannot be judged. Nothing is said of them.
    pub kept_unjudged: u64,
    /// The pairs of kept records that are near.
    pub near_pairs: u64,
    /// The first of these pairs, up to ten.
    pub near: Vec<KeptPair>,
    /// The records that the list says were removed.
    pub removed: u64,
    /// Those of them whose survivor is a document of a database that was not given. It was not looked at.
    pub unchecked: u64,
    /// The greatest distance of a removed record and its survivor.
    pub greatest_distance: u32,
    /// The least similarity of a removed record and its survivor, where both have sketches.
    pub least_similarity: Option<f64>,
    /// The removed records of which something is not as the list says.
    pub faults: u64,
    /// The first of these, up to ten of each kind, in the order of the list.
    pub faulty: Vec<AuditFault>,
    /// What came of all records of the inputs, if they were named.
    pub inputs: Option<InputRecords>,
    /// The time that the audit took.
    pub elapsed: Duration,
}

/// Whether a cleaned corpus is what it is said to be.
///
/// See the example of [`Audit`](super::Audit).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditVerdict {
    /// No two kept records are near, and each removed record is near to the survivor that it names.
    Proven,
    /// There are counter-examples.
    Refuted,
    /// There is no counter-example, but some survivors could not be looked at, or no kept record could be judged.
    Open,
}

/// Two kept records that are near.
///
/// See the example of [`AuditReport`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeptPair {
    /// One of them.
    pub a: ListedRecord,
    /// The other one.
    pub b: ListedRecord,
    /// The number of bits in which their fingerprints differ.
    pub distance: u32,
    /// Their estimated similarity, if it counts. `None` for two texts that are too short to judge, and the same.
    pub similarity: Option<f64>,
}

/// A removed record of which something is not as the list says.
///
/// # Example
///
/// ```
/// use simdb::dedup::{Audit, Dedup, FaultKind};
/// # let directory = tempfile::tempdir()?;
/// # let [input, clean, removed] = ["in.tsv", "clean.tsv", "removed.jsonl"].map(|name| directory.path().join(name));
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&input, format!("a\t{text}\nb\t{text}\n"))?;
///
/// Dedup::new([&input], &clean).removed(&removed).run(|_event| {})?;
/// // Somebody changes the list.
/// let list = std::fs::read_to_string(&removed)?.replace("\"distance\":0", "\"distance\":3");
/// std::fs::write(&removed, list)?;
/// let report = Audit::new([&clean], &removed).run(|_event| {})?;
/// let fault = &report.faulty[0];
/// assert_eq!((fault.kind, fault.line, fault.told.distance), (FaultKind::NotAsTold, 1, 3));
/// assert_eq!(fault.found.map(|(distance, _)| distance), Some(0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct AuditFault {
    /// What is wrong.
    pub kind: FaultKind,
    /// The line of the list, from 1.
    pub line: u64,
    /// What the list says.
    pub told: RemovedRecord,
    /// The distance and the similarity that were found. `None` if the two cannot be compared.
    pub found: Option<(u32, Option<f64>)>,
}

/// What is wrong with a removed record.
///
/// See the example of [`AuditFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// There is no record at its place that can be judged, or the record there has another key.
    NoRecord,
    /// There is no record at the place of its survivor that can be judged, or the record there has another key.
    NoSurvivor,
    /// It is not near to its survivor.
    NotNear,
    /// It is near to its survivor, but the distance or the similarity is another than the list says.
    NotAsTold,
    /// Its survivor is not among the kept records, or not in the database.
    SurvivorNotKept,
    /// An earlier line of the list has the same record.
    ListedTwice,
}

impl FaultKind {
    /// The name of the kind, as `simdb audit --json` has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::NoRecord => "no_record",
            Self::NoSurvivor => "no_survivor",
            Self::NotNear => "not_near",
            Self::NotAsTold => "not_as_told",
            Self::SurvivorNotKept => "survivor_not_kept",
            Self::ListedTwice => "listed_twice",
        }
    }
}

/// What came of all records of the inputs.
///
/// See the example of [`AuditReport`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InputRecords {
    /// Their number, also that of those that cannot be judged.
    pub records: u64,
    /// Those that cannot be judged.
    pub unjudged: u64,
    /// The records that are neither kept nor in the list.
    pub lost: u64,
    /// The first of these, up to ten.
    pub lost_records: Vec<ListedRecord>,
    /// The kept records that are in no input, or are in the list.
    pub foreign: u64,
    /// The first of these, up to ten.
    pub foreign_records: Vec<ListedRecord>,
}

impl AuditReport {
    /// Whether the cleaned corpus is what it is said to be.
    pub fn verdict(&self) -> AuditVerdict {
        let is_whole = match &self.inputs {
            Some(inputs) => inputs.lost == 0 && inputs.foreign == 0 && self.unjudged_agree(),
            None => true,
        };
        if self.near_pairs > 0 || self.faults > 0 || !is_whole {
            return AuditVerdict::Refuted;
        }
        let judged_none = self.kept > 0 && self.kept_unjudged == self.kept;
        match self.unchecked {
            0 if !judged_none => AuditVerdict::Proven,
            _ => AuditVerdict::Open,
        }
    }

    /// Whether the records of the inputs that cannot be judged were all kept, or all dropped. True if the inputs were
    /// not named.
    pub fn unjudged_agree(&self) -> bool {
        match &self.inputs {
            Some(inputs) => self.kept_unjudged == 0 || self.kept_unjudged == inputs.unjudged,
            None => true,
        }
    }
}
