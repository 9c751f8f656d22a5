//! The documents that the new file gets, in the order of their numbers, and the numbers of those that were removed.

use std::collections::HashSet;

use super::found::{Found, Salvage};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::blocks::{Lists, decode_rows};
use crate::store::file::{DEAD, RowSink, Set, SetRow};

/// A block whose documents are kept, or only the one of a number.
#[derive(Clone, Copy)]
pub(super) struct Part {
    pub(super) found: Found,
    pub(super) only: Option<u64>,
}

/// The documents that the new file gets: those of some blocks, in the order of their numbers, but for some.
#[derive(Default)]
pub(super) struct Chosen {
    pub(super) parts: Vec<Part>,
    pub(super) replaced: HashSet<u64>,
    /// The number of the last.
    pub(super) last: u64,
}

/// The documents that were chosen, with their numbers, in order.
pub(super) struct Documents<'a, 'p> {
    salvage: &'a Salvage<'a, 'p>,
    chosen: &'a Chosen,
    next_part: usize,
    /// Those of the part before that are left.
    waiting: std::vec::IntoIter<(u64, Document)>,
    last: u64,
    /// The numbers of those that are stored but are no documents.
    pub(super) unreadable: Vec<u64>,
}

impl<'a, 'p> Documents<'a, 'p> {
    pub(super) fn new(salvage: &'a Salvage<'a, 'p>, chosen: &'a Chosen) -> Self {
        Self {
            salvage,
            chosen,
            next_part: 0,
            waiting: Vec::new().into_iter(),
            last: 0,
            unreadable: Vec::new(),
        }
    }

    fn read(&mut self, part: Part) -> Result<()> {
        self.salvage.pace.read(part.found.place.offset)?;
        let mut waiting = Vec::new();
        for document in self.salvage.read(&part.found)?.documents() {
            let number = document.number;
            let is_wanted = number > self.last
                && part.only.is_none_or(|only| only == number)
                && !self.salvage.dead.has(number)
                && !self.chosen.replaced.contains(&number);
            if is_wanted {
                match document.to_document() {
                    Ok(document) => waiting.push((number, document)),
                    Err(_) => self.unreadable.push(number),
                }
                self.last = number;
            }
        }
        self.waiting = waiting.into_iter();
        Ok(())
    }
}

impl Iterator for Documents<'_, '_> {
    type Item = Result<(u64, Document)>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(document) = self.waiting.next() {
                return Some(Ok(document));
            }
            let part = *self.chosen.parts.get(self.next_part)?;
            self.next_part += 1;
            if let Err(error) = self.read(part) {
                return Some(Err(error));
            }
        }
    }
}

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
