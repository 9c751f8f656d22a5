//! The report of a check, as plain data.

use std::fmt;

use super::findings::Findings;
use crate::error::{Error, Result};

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
    pub const MAX_PROBLEMS: usize = 100;

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

impl CheckReport {
    /// Adds what was found of documents and rows.
    pub(super) fn completed(mut self, documents: u64, fingerprints: u64, found: Findings) -> Self {
        self.documents = documents;
        self.fingerprints = fingerprints;
        let total = self.total_problems + found.total();
        for problem in found.into_listed() {
            self.add(problem);
        }
        self.total_problems = total;
        self
    }

    pub(crate) fn add(&mut self, problem: Problem) {
        self.total_problems += 1;
        if self.problems.len() < Self::MAX_PROBLEMS {
            self.problems.push(problem);
        }
    }

    /// What a part of the check found. `None` if damage ended it. The damage is then a problem.
    pub(crate) fn part<T>(&mut self, table: &'static str, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error) => {
                self.add(Problem::from_damage(table, error)?);
                Ok(None)
            }
        }
    }
}

impl Problem {
    pub(crate) fn new(
        table: &'static str,
        key: impl Into<String>,
        problem: impl Into<String>,
    ) -> Self {
        Self {
            table,
            key: key.into(),
            problem: problem.into(),
        }
    }

    /// The damage that an error tells of. Any other error is returned.
    pub(super) fn from_damage(table: &'static str, error: Error) -> Result<Self> {
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
