//! The report of a salvage, and the ranges of numbers and bytes in it.

use std::ops::Range;

/// The report of [`Database::salvage`](crate::Database::salvage): what was found in a damaged file, and what was not.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::{Database, SalvageOptions};
/// # use simdb::{CreateOptions, Document, Fingerprint, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let [damaged, new] = ["damaged.simdb", "new.simdb"].map(|name| directory.path().join(name));
/// # let database = Database::create(&damaged, &CreateOptions::new().scheme(Scheme::External))?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// # txn.commit()?;
/// # database.close()?;
///
/// let report = Database::salvage(&damaged, &new, &SalvageOptions::new(), |_, _| ControlFlow::Continue(()))?;
/// for missing in &report.missing {
///     println!("documents may be missing from number {} on, up to {:?}", missing.first, missing.last);
/// }
/// assert_eq!((report.documents, report.expected, report.old_documents), (1, Some(1), 0));
/// assert!(report.is_whole() && report.damaged_bytes.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "what is missing is no error, and the report has it"]
#[non_exhaustive]
pub struct SalvageReport {
    /// The number of documents that the new database has.
    pub documents: u64,
    /// Whether the file told its settings. Then the new database has them, and not those of the options.
    pub settings_found: bool,
    /// The number of documents that the damaged file should have. `None` if its count cannot be read, or the last
    /// commit was not found.
    pub expected: Option<u64>,
    /// The documents that may be missing, by their numbers. Documents are numbered in the order in which they were
    /// stored.
    pub missing: Vec<MissingDocuments>,
    /// The documents that were found only in blocks of earlier commits. Each may have been deleted or replaced since.
    pub old_documents: u64,
    /// Whether everything could be read that tells which documents were deleted up to the commit that was found. If
    /// not, some that were deleted may be among the documents.
    pub deletions_read: bool,
    /// Whether the header vouches that the documents are those of the last commit, and nothing in the file is of a
    /// later one. If not, they are those of the newest commit that was found, or of any.
    pub last_commit_found: bool,
    /// Whether the positions of all sources were kept. If not, all are forgotten, so that an ingestion reads its inputs
    /// anew.
    pub positions_kept: bool,
    /// The bytes of the file that were needed and are not what they were, or cannot be read. The engine cannot tell a
    /// damaged byte from its page.
    pub damaged_bytes: Vec<Range<u64>>,
}

impl SalvageReport {
    /// Whether the new database has everything: all documents of the last commit, no others, and all positions.
    pub fn is_whole(&self) -> bool {
        self.has_all_documents() && self.positions_kept
    }

    pub(super) fn has_all_documents(&self) -> bool {
        let is_exact = self.deletions_read && self.last_commit_found && self.old_documents == 0;
        is_exact && self.expected == Some(self.documents) && self.missing.is_empty()
    }
}

/// Documents that may be missing.
///
/// See the example of [`SalvageReport`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingDocuments {
    /// The least number that they may have.
    pub first: u64,
    /// The greatest number that they may have. `None` if there may be later ones.
    pub last: Option<u64>,
    /// How many they are. `None` if that is not known; it may be none.
    pub documents: Option<u64>,
}

/// Whether some ranges, which are in order, have a number.
pub(super) fn is_among(missing: &[MissingDocuments], number: u64) -> bool {
    let begun = missing.partition_point(|range| range.first <= number);
    let last = begun.checked_sub(1).and_then(|index| missing.get(index));
    last.is_some_and(|range| range.last.is_none_or(|last| number <= last))
}

/// Adds a range to others that come before it.
pub(super) fn add_range(
    missing: &mut Vec<MissingDocuments>,
    range: Range<u64>,
    documents: Option<u64>,
) {
    if range.is_empty() {
        return;
    }
    let last = Some(range.end - 1);
    match missing.last_mut() {
        Some(before) if before.last.map(|last| last + 1) == Some(range.start) => {
            before.last = last;
            before.documents = before.documents.zip(documents).map(|(a, b)| a + b);
        }
        _ => missing.push(MissingDocuments {
            first: range.start,
            last,
            documents,
        }),
    }
}

/// The same ranges, those that overlap or adjoin in one.
pub(super) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
