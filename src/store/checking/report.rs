//! The report of a check: what is wrong with a file. A bounded number of findings is kept, and all are counted.

use std::fmt;

use crate::error::{Error, Result};

/// The report of [`Database::check`](crate::Database::check).
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// # txn.commit()?;
///
/// let report = database.check()?;
/// for problem in &report.problems {
///     println!("{problem}");
/// }
/// assert!(report.is_sound() && report.pages_verified);
/// assert_eq!((report.documents, report.fingerprints), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "damage is no error, and the report has it"]
#[non_exhaustive]
pub struct CheckReport {
    /// The number of documents that were checked. 0 if damage kept them from being counted.
    pub documents: u64,
    /// The number of distinct fingerprints that were checked. 0 if damage kept them from being counted.
    pub fingerprints: u64,
    /// The problems that were found, up to the first [`MAX_PROBLEMS`](Self::MAX_PROBLEMS).
    pub problems: Vec<Problem>,
    /// The number of all problems, listed or not. If very many rows differ, it is the least number there
    /// may be.
    pub total_problems: u64,
    /// Whether the checksums of the pages were verified. They are not if the database is open read-only,
    /// since the storage engine verifies them only in a file that it may write.
    pub pages_verified: bool,
}

impl CheckReport {
    /// The most problems that are listed.
    pub const MAX_PROBLEMS: usize = 100;

    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.total_problems == 0
    }
}

/// Something that is wrong with a database.
///
/// See the example of [`CheckReport`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Problem {
    /// The part of the file in which it is, such as `documents` or `pages`.
    pub table: &'static str,
    /// The key of the row as text, or the name of the count that is wrong, or `-`.
    pub key: String,
    /// What is wrong.
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "table {}, key {}: {}",
            self.table, self.key, self.problem
        )
    }
}

impl Problem {
    fn new(table: &'static str, key: impl Into<String>, problem: impl Into<String>) -> Self {
        Self {
            table,
            key: key.into(),
            problem: problem.into(),
        }
    }

    /// The damage that an error tells of. Any other error is returned.
    fn from_damage(table: &'static str, error: Error) -> Result<Self> {
        match error {
            Error::Damaged {
                table,
                key,
                problem,
            } => Ok(Self::new(table, key, problem)),
            Error::Corrupted(cause) => Ok(Self::new(table, "-", cause.to_string())),
            error => Err(error),
        }
    }
}

/// The first findings, and the number of all.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Each with the index of the part of the file where it was found.
    listed: Vec<(usize, Problem)>,
    total: u64,
}

impl Findings {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The report of a check that has counted so many documents and fingerprints.
    pub(crate) fn report(self, documents: u64, fingerprints: u64) -> CheckReport {
        CheckReport {
            documents,
            fingerprints,
            problems: self
                .listed
                .into_iter()
                .map(|(_, finding)| finding)
                .collect(),
            total_problems: self.total,
            pages_verified: false,
        }
    }

    /// Whether no more findings will be listed.
    pub(super) fn is_full(&self) -> bool {
        self.listed.len() >= CheckReport::MAX_PROBLEMS
    }

    /// Adds a finding of a part of the file. One that is listed already is not added again.
    fn add_in(&mut self, part: usize, finding: Problem) {
        if self.listed.iter().any(|listed| listed.1 == finding) {
            return;
        }
        self.total += 1;
        if !self.is_full() {
            self.listed.push((part, finding));
        }
    }

    /// What was read first. `None` if damage ended it. The damage is then a finding before those of all parts.
    pub(crate) fn first<T>(&mut self, table: &'static str, read: Result<T>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(error) => self.add_error(0, table, error).map(|()| None),
        }
    }

    /// Adds a finding behind all others.
    pub(super) fn add(
        &mut self,
        table: &'static str,
        key: impl Into<String>,
        problem: impl Into<String>,
    ) {
        self.add_in(usize::MAX, Problem::new(table, key, problem));
    }

    /// Counts findings that are not listed.
    pub(super) fn count(&mut self, unlisted: u64) {
        self.total += unlisted;
    }

    /// Adds a number that is not what it should be.
    pub(super) fn add_difference(
        &mut self,
        table: &'static str,
        count: &str,
        stored: u64,
        expected: u64,
    ) {
        if stored != expected {
            self.add(
                table,
                count,
                format!("{stored}, where {expected} would be right"),
            );
        }
    }

    /// Adds the findings of other parts, and puts all in the order of the parts.
    pub(super) fn merge(&mut self, other: Self) {
        let unlisted = other.total - other.listed.len() as u64;
        self.total += unlisted;
        // Both lists are needed whole, since the findings of the first parts are to be kept.
        for (part, finding) in other.listed {
            if self.listed.iter().all(|listed| listed.1 != finding) {
                self.total += 1;
                self.listed.push((part, finding));
            }
        }
        self.listed.sort_by_key(|listed| listed.0);
        self.listed.truncate(CheckReport::MAX_PROBLEMS);
    }

    /// Adds an error that damage caused. Any other error is returned.
    pub(super) fn add_error(
        &mut self,
        part: usize,
        table: &'static str,
        error: Error,
    ) -> Result<()> {
        self.add_in(part, Problem::from_damage(table, error)?);
        Ok(())
    }

    /// Adds the damage that ended a reading, behind all others. Any other error is returned.
    pub(super) fn add_failure(&mut self, table: &'static str, read: Result<()>) -> Result<()> {
        match read {
            Ok(()) => Ok(()),
            Err(error) => self.add_error(usize::MAX, table, error),
        }
    }
}
