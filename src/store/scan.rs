//! Scan: all fingerprints of a file, one part after the other.

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::plan::Candidates;
use crate::store::blocks::Lists;
use crate::store::sorted_set::SetReader;

/// All rows of the first permuted table, in parts.
pub(crate) struct Scan<'a> {
    table: SetReader<'a, u64>,
    parts: std::vec::IntoIter<RangeInclusive<u64>>,
    rows: Lists<u64>,
}

impl<'a> Scan<'a> {
    pub(super) fn new(table: SetReader<'a, u64>) -> Result<Self> {
        let parts: Vec<_> = table.parts()?.collect();
        Ok(Self {
            table,
            parts: parts.into_iter(),
            rows: Lists::default(),
        })
    }

    /// Goes on to the next part. False if there is none.
    pub(crate) fn advance(&mut self) -> Result<bool> {
        let Some(range) = self.parts.next() else {
            return Ok(false);
        };
        self.table.puts(&range, &mut self.rows)?;
        Ok(true)
    }

    /// The rows of the current part, as candidates.
    pub(crate) fn candidates(&self) -> Candidates<'_> {
        Candidates::new(&self.rows.puts)
    }

    /// The number of blocks of all parts.
    pub(crate) fn blocks(&self) -> u64 {
        self.table
            .set
            .levels
            .iter()
            .map(|it| it.level.blocks() as u64)
            .sum()
    }
}
