//! View: what is committed at one moment, in memory and in the file.

use std::fs;
use std::sync::{Arc, OnceLock};

use super::meta::Settings;
use super::schema::{DEAD, DOCUMENTS, Set, SetRow, block_tables, permuted};
use super::state::{State, read_state};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::DISTANCES;
use crate::plan::PricedProbeSet;
use crate::store::blocks::{
    BlockCache, Blocks, DocumentBlock, DocumentRef, Extent, Problem, SetBlocks, extent_of,
};
use crate::store::engine::{OpenFile, Tables};
use crate::store::numbers::DocumentNumber;
use crate::store::sorted_set::SetReader;

/// For each distance the probe set that answers one query, once somebody has asked.
pub(crate) type ProbeSets = [OnceLock<PricedProbeSet>; DISTANCES];

/// What is committed at one moment. While it lives, the engine keeps the pages of that commit.
pub(crate) struct View {
    blocks: Blocks,
    tables: Arc<Tables>,
    state: State,
    /// Whether no permuted table has a mark.
    is_unmarked: bool,
    settings: Arc<Settings>,
    probe_sets: ProbeSets,
    /// Dropped after the tables. So their transaction ends before the engine.
    open: Arc<OpenFile>,
}

impl View {
    /// A view of the last commit of a file. `state` is the part of that commit in memory. Without it, it is read.
    pub(crate) fn new(
        open: &Arc<OpenFile>,
        state: Option<State>,
        settings: Arc<Settings>,
        cache: Arc<BlockCache>,
    ) -> Result<Self> {
        let block_tables = block_tables(settings.plan.tables().len());
        let tables = Arc::new(open.engine.begin_read(block_tables.len())?);
        let state = match state {
            Some(state) => state,
            None => read_state(&tables, &settings)?,
        };
        let blocks = Blocks::new(tables.clone(), cache, settings.file);
        let is_unmarked =
            (0..state.sets.tables()).all(|table| state.sets[permuted(table)].rows().1 == 0);
        Ok(Self {
            blocks,
            tables,
            state,
            is_unmarked,
            settings,
            probe_sets: [const { OnceLock::new() }; DISTANCES],
            open: open.clone(),
        })
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

    pub(crate) fn probe_sets(&self) -> &ProbeSets {
        &self.probe_sets
    }

    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    pub(crate) fn file(&self) -> &fs::File {
        &self.open.file
    }

    pub(crate) fn set<R: SetRow>(&self, set: Set<R>) -> SetReader<'_, R> {
        SetReader::new(&self.state.sets[set], self.blocks.of_table(set.table()))
    }

    pub(crate) fn document_blocks(&self) -> SetBlocks<'_> {
        self.blocks.of_table(DOCUMENTS.table)
    }

    /// The document of a number, as [`stored_document`](Self::stored_document).
    pub(crate) fn document(&self, number: DocumentNumber) -> Result<Document> {
        self.stored_document(number, |stored| stored.to_document())
    }

    /// What `take` makes of the document of a number that a row has. It is an error if the document is not there.
    pub(crate) fn stored_document<T>(
        &self,
        number: DocumentNumber,
        take: impl FnOnce(&DocumentRef<'_>) -> Result<T, Problem>,
    ) -> Result<T> {
        let documents = &self.state.documents;
        let blocks = self.document_blocks();
        let position = documents.find(number.0, blocks)?;
        if let Some(entry) = documents.entry(position, blocks)? {
            let block = blocks.documents(entry)?;
            if let Some(index) = block.find(number.0) {
                return take(&block.get(index)).map_err(damaged_document(number));
            }
        }
        let problem = "it is missing, but another row refers to it";
        Err(damaged_document(number)(problem))
    }

    /// The number of the last document of the block with the first one whose number is `from` or greater, and what is
    /// read of the block. `None` after the last block.
    pub(crate) fn stored_documents(
        &self,
        from: u64,
    ) -> Result<Option<(u64, Result<LiveDocuments>)>> {
        let documents = &self.state.documents;
        let blocks = self.document_blocks();
        let position = documents.find(from, blocks)?;
        let Some(entry) = documents.entry(position, blocks)? else {
            return Ok(None);
        };
        let extent = documents.extent(position, blocks)?;
        let dead = self.set(DEAD).rows(&(from..=entry.high))?;
        let read = blocks.documents_once(entry).map(|block| LiveDocuments {
            block,
            extent,
            from,
            dead,
        });
        Ok(Some((entry.high, read)))
    }
}

/// The error for a damaged document: `map_err(damaged_document(number))`.
pub(crate) fn damaged_document(number: DocumentNumber) -> impl Fn(Problem) -> Error {
    move |problem| Error::damaged("documents", &number.0, problem)
}

/// The document that is stored here.
pub(crate) fn decoded(stored: &DocumentRef<'_>) -> Result<Document> {
    let number = DocumentNumber(stored.number);
    stored.to_document().map_err(damaged_document(number))
}

/// The documents of a block that are not dead.
pub(crate) struct LiveDocuments {
    block: Arc<DocumentBlock>,
    extent: Option<Extent>,
    from: u64,
    dead: Vec<u64>,
}

impl LiveDocuments {
    pub(crate) fn iter(&self) -> impl Iterator<Item = DocumentRef<'_>> {
        let is_live =
            |number: u64| number >= self.from && self.dead.binary_search(&number).is_err();
        self.block
            .documents()
            .filter(move |document| is_live(document.number))
    }

    /// The dead numbers whose documents are in the block.
    pub(crate) fn dead(&self) -> impl Iterator<Item = u64> {
        self.dead
            .iter()
            .copied()
            .filter(|&number| self.block.find(number).is_some())
    }

    /// Whether its directory has the times and the scopes of its documents, dead or not.
    pub(crate) fn has_its_extent(&self) -> bool {
        let documents: Vec<_> = self.block.documents().collect();
        self.extent == Some(extent_of(&documents))
    }

    /// Whether the block has no document before the first one that was asked for.
    pub(crate) fn begins_in_range(&self) -> bool {
        self.block
            .documents()
            .next()
            .is_none_or(|first| first.number >= self.from)
    }
}
