//! Findings: what is wrong with a file. A bounded number of findings is kept, and all are counted.

use super::report::{CheckReport, Problem};
use crate::error::{Error, Result};

/// The first findings, and the number of all.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Each with the index of the part of the file where it was found.
    listed: Vec<(usize, Problem)>,
    total: u64,
}

impl Findings {
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// The findings that are listed.
    pub(super) fn into_listed(self) -> impl Iterator<Item = Problem> {
        self.listed.into_iter().map(|(_, finding)| finding)
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
