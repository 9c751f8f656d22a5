//! The numbers of documents that were removed, from the parts of their set that can be read.

use std::collections::HashSet;

use crate::error::{Error, Result};
use crate::store::blocks::{Lists, decode_rows};
use crate::store::file::{DEAD, RowSink, Set, SetRow};

/// The numbers of dead documents that levels and log put and mark. A number is put once and marked once, so it is dead
/// if it is only put, in whatever order they are read.
#[derive(Default)]
pub(super) struct DeadNumbers {
    put: HashSet<u64>,
    marked: HashSet<u64>,
}

impl DeadNumbers {
    pub(super) fn has(&self, number: u64) -> bool {
        self.put.contains(&number) && !self.marked.contains(&number)
    }

    pub(super) fn sorted(&self) -> Vec<u64> {
        let numbers = self.put.iter().copied();
        let mut numbers: Vec<u64> = numbers.filter(|&number| self.has(number)).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Takes the rows of a block. False if it is none.
    pub(super) fn take(&mut self, bytes: &[u8]) -> bool {
        let mut rows = Lists::<u64>::default();
        if decode_rows(bytes, &mut rows).is_err() {
            return false;
        }
        self.put.extend(rows.puts);
        self.marked.extend(rows.marks);
        true
    }
}

impl RowSink for DeadNumbers {
    type Error = Error;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<()> {
        if set.is(DEAD) {
            self.put.insert(row.number() as u64);
        }
        Ok(())
    }

    fn mark<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<()> {
        if set.is(DEAD) {
            self.marked.insert(row.number() as u64);
        }
        Ok(())
    }
}
