//! Which blocks of documents may have some of a time or of a scope, without reading them: the extents of a
//! directory tell. Documents are stored in the order in which they come. So later blocks mostly have later times.
//! Where they do not, whole chunks are passed over by their outlines.

use super::level::{Level, Position};
use crate::error::Result;
use crate::store::blocks::{Extent, SetBlocks};

impl Level<u64> {
    /// The first row that may be of a document seen at `since` or later. `None` if there is no such row.
    pub(crate) fn first_since(&self, since: i64, blocks: SetBlocks<'_>) -> Result<Option<u64>> {
        let chunk = self.latest.partition_point(|&latest| latest < since);
        if chunk == self.latest.len() {
            return Ok(None);
        }
        let extents = self.chunk(chunk, blocks)?.extents();
        let entry = extents
            .iter()
            .position(|extent| extent.greatest_seen >= since)
            .unwrap_or(0);
        let before = self.entry_before(Position { chunk, entry }, blocks)?;
        Ok(Some(before.map_or(0, |before| before.high + 1)))
    }

    /// The last row up to `row` that may be of a document seen at `since` or later. `None` if there is no such
    /// row. Rows behind the last block may not.
    pub(crate) fn last_since(
        &self,
        row: u64,
        since: i64,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<u64>> {
        let mut end = self.after(self.find(row, blocks)?, 1);
        loop {
            // The chunk of the last block before `end`.
            let Some(Position { chunk, entry }) = self.before(end) else {
                return Ok(None);
            };
            if self.latest[chunk] < since {
                return Ok(None);
            }
            let all = self.outline(chunk).and_then(|outline| outline.extent);
            if all.is_some_and(|extent| extent.greatest_seen >= since) {
                let extents = &self.chunk(chunk, blocks)?.extents()[..=entry];
                let entry = extents
                    .iter()
                    .rposition(|extent| extent.greatest_seen >= since);
                if let Some(entry) = entry {
                    let last = self.entry(Position { chunk, entry }, blocks)?;
                    return Ok(last.map(|last| last.high.min(row)));
                }
            }
            end = Position { chunk, entry: 0 };
        }
    }

    /// The position of the first block from `from` on whose extent `wanted` takes. `wanted` must take the
    /// extent of two blocks together if it takes that of one of them.
    pub(crate) fn next_wanted(
        &self,
        from: Position,
        wanted: impl Fn(&Extent) -> bool,
        blocks: SetBlocks<'_>,
    ) -> Result<Position> {
        let mut position = from;
        while let Some(outline) = self.outline(position.chunk) {
            if outline.extent.is_some_and(|extent| wanted(&extent)) {
                let rest = &self.chunk(position.chunk, blocks)?.extents()[position.entry..];
                if let Some(found) = rest.iter().position(&wanted) {
                    return Ok(Position {
                        entry: position.entry + found,
                        ..position
                    });
                }
            }
            position = Position {
                chunk: position.chunk + 1,
                entry: 0,
            };
        }
        Ok(self.end())
    }

    /// The most blocks that `wanted` may take, as far as the outlines of the chunks tell. `wanted` is as in
    /// [`next_wanted`](Self::next_wanted).
    pub(crate) fn most_wanted(&self, wanted: impl Fn(&Extent) -> bool) -> usize {
        let mut most = 0;
        for outline in (0..).map_while(|chunk| self.outline(chunk)) {
            if outline.extent.is_some_and(|extent| wanted(&extent)) {
                most += usize::from(outline.blocks);
            }
        }
        most
    }

    /// The extent of a block.
    pub(crate) fn extent(
        &self,
        position: Position,
        blocks: SetBlocks<'_>,
    ) -> Result<Option<Extent>> {
        if position >= self.end() {
            return Ok(None);
        }
        let chunk = self.chunk(position.chunk, blocks)?;
        Ok(chunk.extents().get(position.entry).copied())
    }
}
