//! View: what is committed at one moment, in memory and in the file.

use std::fs;
use std::io;
use std::sync::Arc;

use super::meta::{Settings, decode_scope};
use super::schema::{DEAD, Set, SetRow, permuted};
use super::state::State;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::blocks::{BlockCache, Blocks, DocumentBlock, DocumentRef, Entry};
use crate::store::engine::{OpenFile, ReadTxn, Tables};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sorted_set::SetReader;

/// What is committed at one moment. While it lives, the engine keeps the pages of that commit.
pub(crate) struct View {
    blocks: Blocks,
    tables: Arc<Tables>,
    state: State,
    /// Whether no permuted table has a mark.
    is_unmarked: bool,
    settings: Arc<Settings>,
    /// Dropped after the tables. So their transaction ends before the engine.
    open: Arc<OpenFile>,
}

impl View {
    /// A view of the commit that `txn` reads. `state` is the part of that commit in memory.
    pub(crate) fn new(
        open: &Arc<OpenFile>,
        txn: &ReadTxn,
        state: State,
        settings: Arc<Settings>,
        cache: Arc<BlockCache>,
    ) -> Result<Self> {
        let tables = Arc::new(txn.tables()?);
        let blocks = Blocks::new(tables.clone(), cache);
        let marks = |table| state.sets[permuted(table)].rows().1;
        let is_unmarked = (0..state.sets.tables()).all(|table| marks(table) == 0);
        Ok(Self { blocks, tables, state, is_unmarked, settings, open: open.clone() })
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// Whether no permuted table has a mark. Then every row of these tables has a document.
    pub(crate) fn is_unmarked(&self) -> bool {
        self.is_unmarked
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The metadata of the file.
    pub(crate) fn metadata(&self) -> io::Result<fs::Metadata> {
        self.open.file.metadata()
    }

    /// A reader of a set.
    pub(crate) fn set<R: SetRow>(&self, set: Set<R>) -> SetReader<'_, R> {
        SetReader { set: &self.state.sets[set], overlay: None, blocks: self.blocks.of_set(set.name) }
    }

    /// The document of a number that a row has. It is an error if the document is not there.
    pub(crate) fn document(&self, number: DocumentNumber) -> Result<Document> {
        let damaged = |problem| damaged_document(number, problem);
        let missing = || damaged("it is missing, but another row refers to it");
        let documents = &self.state.documents;
        let entry = documents.entry(documents.find(number.0)).ok_or_else(missing)?;
        let block = self.blocks.documents(entry)?;
        let index = block.find(number.0).ok_or_else(missing)?;
        block.get(index).to_document().map_err(damaged)
    }

    /// The block with the first document whose number is `from` or greater. `None` after the last block.
    pub(crate) fn stored_documents(&self, from: u64) -> Result<Option<StoredDocuments<'_>>> {
        let documents = &self.state.documents;
        let Some(entry) = documents.entry(documents.find(from)) else { return Ok(None) };
        let dead = self.set(DEAD).rows(&(from..=entry.high))?;
        Ok(Some(StoredDocuments { blocks: &self.blocks, entry, from, dead }))
    }

    /// The number of a scope. `None` if no document ever had it.
    pub(crate) fn scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        self.tables.scope(name)?.map(|bytes| decode_scope(name, &bytes)).transpose()
    }

    /// Calls `each` with the name and the record of every scope.
    pub(crate) fn scopes(&self, each: impl FnMut(&str, &[u8])) -> Result<()> {
        self.tables.scopes(each)
    }
}

/// The error for a damaged document.
pub(crate) fn damaged_document(number: DocumentNumber, problem: &'static str) -> Error {
    Error::Damaged { table: "documents", key: number.0.to_string(), problem }
}

/// A block of documents that is not read yet.
pub(crate) struct StoredDocuments<'v> {
    blocks: &'v Blocks,
    entry: &'v Entry<u64>,
    from: u64,
    dead: Vec<u64>,
}

impl StoredDocuments<'_> {
    /// The number of its last document.
    pub(crate) fn last(&self) -> u64 {
        self.entry.high
    }

    /// Reads the block.
    pub(crate) fn read(self) -> Result<LiveDocuments> {
        let block = self.blocks.documents_once(self.entry)?;
        Ok(LiveDocuments { block, from: self.from, dead: self.dead })
    }
}

/// The documents of a block that are not dead.
pub(crate) struct LiveDocuments {
    block: Arc<DocumentBlock>,
    from: u64,
    dead: Vec<u64>,
}

impl LiveDocuments {
    pub(crate) fn iter(&self) -> impl Iterator<Item = DocumentRef<'_>> {
        let is_live = |number: u64| number >= self.from && self.dead.binary_search(&number).is_err();
        self.block.documents().filter(move |document| is_live(document.number))
    }

    /// The dead numbers whose documents are in the block.
    pub(crate) fn dead(&self) -> impl Iterator<Item = u64> {
        self.dead.iter().copied().filter(|&number| self.block.find(number).is_some())
    }

    /// Whether the block has no document before the first one that was asked for.
    pub(crate) fn begins_in_range(&self) -> bool {
        self.block.documents().next().is_none_or(|first| first.number >= self.from)
    }
}
