//! The documents that the new file gets, in the order of their numbers.

use std::collections::HashSet;

use super::found::{Found, Salvage};
use crate::document::Document;
use crate::error::Result;

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
