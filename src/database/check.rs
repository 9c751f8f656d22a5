//! The report of a check: every invariant of the file, as one function.

use std::fmt;
use std::ops::ControlFlow;

use super::database::Database;
use super::snapshot::Snapshot;
use crate::error::{Error, Result};
use crate::events::{Event, Operation, Watch};
use crate::store::{CheckProgress, Checked, Finding, Findings, Store, StoredSnapshot, check_rows};

/// The report of [`Database::check`](crate::Database::check).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
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
    pub const MAX_PROBLEMS: usize = Findings::MOST;

    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.total_problems == 0
    }
}

/// Something that is wrong with a database.
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

impl Database {
    /// Checks every invariant of the file.
    ///
    /// It checks the checksum of each page and value, that each document is found by its key and its
    /// fingerprint, and that nothing else is found. Damage is not an error. The report says what is
    /// wrong.
    ///
    /// If a checksum of a page is wrong, the storage engine goes back to the last commit that is whole.
    /// The report says that too. While the pages are checked, threads that want a snapshot, a
    /// transaction or a commit wait.
    ///
    /// In a database that is open read-only, everything is checked but the checksums of the pages. See
    /// [`CheckReport::pages_verified`].
    ///
    /// # Errors
    ///
    /// * [`Error::InUse`] while a snapshot or transaction of this handle is open, unless the database is
    ///   open read-only. [`Snapshot::check_with`] checks a database that others use.
    /// * [`Error::OutcomeUnknown`] if an earlier commit or a merge could not be written.
    /// * [`Error::Storage`] if the file cannot be read.
    ///
    /// # Cost
    ///
    /// Reads the whole file twice: once for the checksums of the pages, on one core, and once for
    /// everything else, on all cores. A file with damage is read up to two more times, to say which rows
    /// are wrong.
    pub fn check(&self) -> Result<CheckReport> {
        self.check_with(|_, _| ControlFlow::Continue(()))
    }

    /// As [`check`](Self::check), with progress.
    ///
    /// `progress` is called now and then, by any thread, with the parts of the file that are checked so
    /// far and the parts in all. It is not called while the pages are checked. If there is damage, the
    /// parts become more. When it breaks, the check ends.
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` breaks, and those of [`check`](Self::check).
    pub fn check_with(
        &self,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send,
    ) -> Result<CheckReport> {
        self.store.ensure_usable()?;
        let watch = Watch::begin(Operation::Check, self.path());
        let (report, took) = watch.end(check(&self.store, &mut progress))?;
        let documents = report.documents;
        let problems = report.total_problems;
        Event::Checked {
            documents,
            problems,
        }
        .report(took);
        Ok(report)
    }
}

impl Snapshot {
    /// Checks every invariant of a snapshot, beside everybody who writes and reads.
    ///
    /// It does what [`Database::check`] does with a database that is open read-only: everything is checked but the
    /// checksums of the pages, for which the storage engine needs the file for itself. Damage is not an error, and
    /// the report says what is wrong.
    ///
    /// `progress` is called as by [`Database::check_with`].
    ///
    /// # Errors
    ///
    /// [`Error::Interrupted`] if `progress` breaks, and [`Error::Storage`] if the file cannot be read.
    ///
    /// # Cost
    ///
    /// Reads the whole snapshot, on all cores.
    pub fn check_with(
        &self,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()> + Send,
    ) -> Result<CheckReport> {
        CheckReport::default().completed(self.stored()?, &mut progress)
    }
}

/// Checks the pages. Then checks that documents and the rows of all sets name each other and nothing
/// else.
fn check(store: &Store, progress: CheckProgress<'_>) -> Result<CheckReport> {
    let mut report = CheckReport {
        pages_verified: store.ensure_writable().is_ok(),
        ..CheckReport::default()
    };
    if report.pages_verified {
        let whole = store.check_pages();
        if report.part("pages", whole)? == Some(false) {
            report.add("pages", "-", PAGES_WRONG);
        }
    }
    // Damaged pages say nothing of the rows that were on them. Other rows may still be readable.
    let begun = store.begin_read();
    let Some(snapshot) = report.part("pages", begun)? else {
        return Ok(report);
    };
    report.completed(&snapshot, progress)
}

const PAGES_WRONG: &str =
    "checksums were wrong, or commits were lost, and the last whole commit was restored";

impl CheckReport {
    /// Adds what is found of documents and rows.
    fn completed(mut self, snapshot: &StoredSnapshot, progress: CheckProgress<'_>) -> Result<Self> {
        let Checked {
            documents,
            fingerprints,
            findings,
        } = check_rows(snapshot, progress)?;
        (self.documents, self.fingerprints) = (documents, fingerprints);
        let total = self.total_problems + findings.total();
        for Finding {
            table,
            key,
            problem,
        } in findings.into_listed()
        {
            self.add(table, key, problem);
        }
        self.total_problems = total;
        Ok(self)
    }

    fn add(&mut self, table: &'static str, key: impl Into<String>, problem: impl Into<String>) {
        self.total_problems += 1;
        if self.problems.len() < Self::MAX_PROBLEMS {
            self.problems.push(Problem {
                table,
                key: key.into(),
                problem: problem.into(),
            });
        }
    }

    /// What a part of the check found. `None` if damage ended it. The damage is then a problem.
    fn part<T>(&mut self, table: &'static str, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(Error::Damaged {
                table,
                key,
                problem,
            }) => {
                self.add(table, key, problem);
                Ok(None)
            }
            Err(Error::Corrupted(cause)) => {
                self.add(table, "-", cause.to_string());
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}
