//! Findings: what is wrong with a file. A bounded number of findings is kept, and all are counted.

use crate::error::{Error, Result};

/// Something that is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The part of the file in which it is.
    pub(crate) table: &'static str,
    /// The key of the row as text, or the name of the count that is wrong, or `-`.
    pub(crate) key: String,
    pub(crate) problem: String,
}

/// The first findings, and the number of all.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// Each with the index of the part of the file where it was found.
    listed: Vec<(usize, Finding)>,
    total: u64,
}

impl Findings {
    /// The most findings that are listed.
    pub(crate) const MOST: usize = 100;

    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// The findings that are listed.
    pub(crate) fn into_listed(self) -> impl Iterator<Item = Finding> {
        self.listed.into_iter().map(|(_, finding)| finding)
    }

    /// Whether no more findings will be listed.
    pub(super) fn is_full(&self) -> bool {
        self.listed.len() >= Self::MOST
    }

    /// Adds a finding of a part of the file. One that is listed already is not added again.
    fn add_in(&mut self, part: usize, finding: Finding) {
        if self.listed.iter().any(|listed| listed.1 == finding) {
            return;
        }
        self.total += 1;
        if !self.is_full() {
            self.listed.push((part, finding));
        }
    }

    /// Adds a finding behind all others.
    pub(super) fn add(
        &mut self,
        table: &'static str,
        key: impl Into<String>,
        problem: impl Into<String>,
    ) {
        self.add_in(
            usize::MAX,
            Finding {
                table,
                key: key.into(),
                problem: problem.into(),
            },
        );
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
        self.listed.truncate(Self::MOST);
    }

    /// Adds an error that damage caused. Any other error is returned.
    pub(super) fn add_error(
        &mut self,
        part: usize,
        table: &'static str,
        error: Error,
    ) -> Result<()> {
        let finding = match error {
            Error::Damaged {
                table,
                key,
                problem,
            } => Finding {
                table,
                key,
                problem: problem.to_owned(),
            },
            Error::Corrupted(cause) => Finding {
                table,
                key: "-".to_owned(),
                problem: cause.to_string(),
            },
            error => return Err(error),
        };
        self.add_in(part, finding);
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
