//! Planting: differences that no transaction makes, in blocks with the right checksums. For tests of the
//! check. Also a question that only tests ask.

use std::sync::Arc;

use super::store::Store;
use super::write::Transaction;
use crate::document::Document;
use crate::error::Result;
use crate::store::blocks::{
    Blocks, DocumentBlock, Extent, FileSeed, Filter, Lists, Packed, Packer, pack_documents,
};
use crate::store::file::{Counters, DOCUMENTS, Edit, Set, SetRow, Turn, View};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::Level;

fn last_level<R: SetRow>(view: &View, set: Set<R>) -> Arc<Level<R>> {
    let last = view.state().sets[set].levels.last();
    last.expect("the set has a level").level.clone()
}

impl Store {
    /// Commits any change of the state and of the stored rows.
    fn plant(&self, change: impl FnOnce(&mut Edit, &Blocks) -> Result<()>) -> Result<()> {
        let _merging = self.shared.merging.lock();
        self.shared.commit(change)
    }

    /// Whether the log has no pages.
    pub(crate) fn is_log_empty(&self) -> Result<bool> {
        Ok(self.shared.view()?.state().is_log_empty())
    }

    /// Changes the blocks of rows of the last level of a set. A block that is left empty is removed.
    pub(crate) fn plant_rows<R: SetRow>(
        &self,
        set: Set<R>,
        change: impl FnOnce(&mut Vec<Lists<R>>),
    ) -> Result<()> {
        let view = self.shared.view()?;
        let level = last_level(&view, set);
        let mut blocks = Vec::new();
        let of = view.blocks().of_table(set.table());
        for entry in level.entries(level.all(), of)? {
            let mut rows = Lists::default();
            of.read_rows(entry, &mut rows)?;
            blocks.push(rows);
        }
        let file = view.blocks().file();
        drop(view);
        change(&mut blocks);
        let mut packed = Vec::new();
        for rows in blocks {
            // Whatever is planted fits into one block.
            let mut packer = Packer::new(1 << 14, set.rules.filtered, file);
            packer.waiting = rows;
            packed.extend(packer.finish());
        }
        self.replace_last_level(set, packed)
    }

    /// Gives the first block of the last level of a set a filter that does not know its rows.
    pub(crate) fn plant_filter<R: SetRow>(&self, set: Set<R>) -> Result<()> {
        let view = self.shared.view()?;
        let level = last_level(&view, set);
        let mut packed = Vec::new();
        let of = view.blocks().of_table(set.table());
        for entry in level.entries(level.all(), of)? {
            let mut packer = Packer::new(1 << 14, true, of.file());
            of.read_rows(entry, &mut packer.waiting)?;
            packed.extend(packer.finish());
        }
        drop(view);
        packed[0].filter = Filter::new(std::iter::once(0), 1, 1);
        self.replace_last_level(set, packed)
    }

    fn replace_last_level<R: SetRow>(&self, set: Set<R>, packed: Vec<Packed<R>>) -> Result<()> {
        self.plant(|edit, blocks| {
            let mut sets = edit.state.sets[set].clone();
            let last = sets.levels.last_mut().expect("the set has a level");
            let name = set.level(last.level.number);
            last.level = edit.replace(name, &last.level, last.level.all(), packed, blocks)?;
            edit.state.sets[set] = sets;
            Ok(())
        })
    }

    /// Adds a block with documents of these numbers behind all others, and adds no rows.
    pub(crate) fn plant_documents(&self, documents: &[(u64, Document)]) -> Result<()> {
        let mut block = DocumentBlock::default();
        documents
            .iter()
            .for_each(|(number, document)| block.push(*number, document));
        self.plant(|edit, blocks| {
            let packed =
                pack_documents(&block.documents().collect::<Vec<_>>(), 1 << 14, edit.file());
            let numbers = documents.iter().map(|(number, _)| *number);
            let last = numbers.max().expect("there are documents");
            edit.state.counters.next_document = last + 1;
            let level = edit.state.documents.clone();
            let end = level.end()..level.end();
            edit.state.documents = edit.replace(DOCUMENTS, &level, end, packed, blocks)?;
            Ok(())
        })
    }

    /// Gives the first block of documents an extent that `change` made wrong.
    pub(crate) fn plant_extent(&self, change: impl FnOnce(&mut Extent)) -> Result<()> {
        self.plant_block(|block, _| {
            change(block.extent.as_mut().expect("documents have an extent"));
        })
    }

    /// Changes the bytes of the first block of documents. Its checksum is the right one.
    pub(crate) fn plant_bytes(&self, change: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.plant_block(|block, file| {
            change(&mut block.bytes);
            block.checksum = file.checksum(&block.bytes);
        })
    }

    fn plant_block(&self, change: impl FnOnce(&mut Packed<u64>, FileSeed)) -> Result<()> {
        let view = self.shared.view()?;
        let level = view.state().documents.clone();
        let first = level
            .entry(level.all().start, view.document_blocks())?
            .expect("there is a block");
        let block = view.document_blocks().documents_once(first)?;
        drop(view);
        self.plant(|edit, blocks| {
            let mut packed =
                pack_documents(&block.documents().collect::<Vec<_>>(), 1 << 14, edit.file());
            change(&mut packed[0], edit.file());
            let positions = level.all().start..level.after(level.all().start, 1);
            edit.state.documents = edit.replace(DOCUMENTS, &level, positions, packed, blocks)?;
            Ok(())
        })
    }

    /// Adds a document with all its rows, also if another one has its key.
    pub(crate) fn plant_second(&self, document: &Document) -> Result<()> {
        let mut writer = Transaction::new(Turn::wait(&self.shared)?)?;
        writer.put(document, None)?;
        writer.commit()
    }

    pub(crate) fn plant_counters(&self, change: impl FnOnce(&mut Counters)) -> Result<()> {
        self.plant(|edit, _| {
            change(&mut edit.state.counters);
            Ok(())
        })
    }

    pub(crate) fn plant_scope(&self, name: &str, number: u32) -> Result<()> {
        let scopes = [(name.to_owned(), ScopeNumber(number))];
        self.plant(|edit, _| {
            edit.add_scopes(scopes.into());
            Ok(())
        })
    }

    /// The key of a document.
    pub(crate) fn key_of(&self, number: DocumentNumber) -> Result<String> {
        let document = self.shared.view()?.document(number)?;
        Ok(String::from_utf8_lossy(document.key()).into_owned())
    }
}
