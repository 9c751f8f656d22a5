//! Appended: the documents of a transaction as blocks at the end of the file.

use super::edit::Edit;
use super::schema::DOCUMENTS;
use super::view::View;
use super::written::WrittenDocuments;
use crate::error::Result;
use crate::store::blocks::{Blocks, Entry, Packed, pack_documents};
use crate::store::engine::BlockBytes;

/// If the last block of documents has less than this number of sixteenths of its most bytes, the next
/// commit fills it up.
const FULL_SIXTEENTHS: usize = 13;

/// New blocks of documents at the end of the file.
pub(crate) struct Appended {
    /// The last block of the file, if it is not full and nothing was spilled. Its documents come first in
    /// `blocks`.
    tail: Option<Entry<u64>>,
    blocks: Vec<Packed<u64, BlockBytes>>,
}

impl Appended {
    pub(crate) fn new(
        view: &View,
        written: &mut WrittenDocuments,
        block_bytes: usize,
    ) -> Result<Self> {
        let spilled = written.take_spilled();
        let mut tail = None;
        let of = view.document_blocks();
        if let Some(entry) = view
            .state()
            .documents
            .last(of)?
            .filter(|_| spilled.is_empty())
        {
            let block = of.documents(entry)?;
            if block.stored_bytes() * 16 < block_bytes * FULL_SIXTEENTHS {
                tail = Some((entry.clone(), block));
            }
        }
        let before = tail.iter().flat_map(|(_, block)| block.documents());
        let documents: Vec<_> = before.chain(written.live()).collect();
        let packed = pack_documents(&documents, block_bytes, view.settings().file);
        let mut blocks: Vec<_> = spilled
            .into_iter()
            .map(|it| it.with_bytes(BlockBytes::from))
            .collect();
        blocks.extend(packed.into_iter().map(|it| it.with_bytes(BlockBytes::from)));
        Ok(Self {
            tail: tail.map(|(entry, _)| entry),
            blocks,
        })
    }

    pub(crate) fn apply(self, edit: &mut Edit, of: &Blocks) -> Result<()> {
        let Self { tail, blocks } = self;
        let level = edit.state.documents.clone();
        let end = level.end();
        // Only transactions change the last block, and there is one transaction at a time.
        let find = |entry: Entry<u64>| level.find(entry.high, of.of_table(DOCUMENTS.table));
        let from = tail.map(find).transpose()?.unwrap_or(end);
        edit.state.documents = edit.replace(DOCUMENTS, &level, from..end, blocks, of)?;
        Ok(())
    }
}
