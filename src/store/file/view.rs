//! View: what is committed at one moment, in memory and in the file.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use foldhash::fast::RandomState;
use parking_lot::RwLock;

use super::meta::{Counters, Settings, decode_scope};
use super::schema::{DEAD, DOCUMENTS, Set, SetRow, block_tables, permuted};
use super::state::State;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::source::{Source, SourceRecord};
use crate::store::blocks::{
    BlockCache, Blocks, DocumentBlock, DocumentRef, Entry, Extent, FileSeed, Kind, Problem,
    SetBlocks, decode_short, encode_short, extent_of, seal, share_of_sum, unseal,
};
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
        txn: ReadTxn,
        state: State,
        settings: Arc<Settings>,
        cache: Arc<BlockCache>,
    ) -> Self {
        let tables = Arc::new(txn.into_tables(block_tables(state.sets.tables()).len()));
        let blocks = Blocks::new(tables.clone(), cache, settings.file);
        let is_unmarked =
            (0..state.sets.tables()).all(|table| state.sets[permuted(table)].rows().1 == 0);
        Self {
            blocks,
            tables,
            state,
            is_unmarked,
            settings,
            open: open.clone(),
        }
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

    /// The tables of the engine.
    pub(crate) fn tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The metadata of the file.
    pub(crate) fn metadata(&self) -> io::Result<fs::Metadata> {
        self.open.file.metadata()
    }

    /// The file itself.
    pub(crate) fn file(&self) -> &fs::File {
        &self.open.file
    }

    /// A reader of a set.
    pub(crate) fn set<R: SetRow>(&self, set: Set<R>) -> SetReader<'_, R> {
        SetReader {
            set: &self.state.sets[set],
            overlay: None,
            blocks: self.blocks.of_table(set.table()),
        }
    }

    /// The blocks of documents.
    pub(crate) fn document_blocks(&self) -> SetBlocks<'_> {
        self.blocks.of_table(DOCUMENTS.table)
    }

    /// The document of a number that a row has. It is an error if the document is not there.
    pub(crate) fn document(&self, number: DocumentNumber) -> Result<Document> {
        let document = self.document_if(number, |_| Ok(true))?;
        Ok(document.expect("it is wanted in any case"))
    }

    /// The key of a document.
    pub(crate) fn key(&self, number: DocumentNumber) -> Result<Vec<u8>> {
        self.stored_document(number, |stored| Ok(stored.key.to_vec()))
    }

    /// As [`document`](Self::document), or `None` if it is not wanted.
    pub(crate) fn document_if(
        &self,
        number: DocumentNumber,
        is_wanted: impl FnOnce(&DocumentRef<'_>) -> Result<bool, Problem>,
    ) -> Result<Option<Document>> {
        self.stored_document(number, |stored| {
            is_wanted(&stored)?
                .then(|| stored.to_document())
                .transpose()
        })
    }

    /// What `take` makes of a document.
    fn stored_document<T>(
        &self,
        number: DocumentNumber,
        take: impl FnOnce(DocumentRef<'_>) -> Result<T, Problem>,
    ) -> Result<T> {
        let documents = &self.state.documents;
        let blocks = self.document_blocks();
        let position = documents.find(number.0, blocks)?;
        if let Some(entry) = documents.entry(position, blocks)? {
            let block = blocks.documents(entry)?;
            if let Some(index) = block.find(number.0) {
                return take(block.get(index)).map_err(|problem| damaged_document(number, problem));
            }
        }
        Err(damaged_document(
            number,
            "it is missing, but another row refers to it",
        ))
    }

    /// The block with the first document whose number is `from` or greater. `None` after the last block.
    pub(crate) fn stored_documents(&self, from: u64) -> Result<Option<StoredDocuments<'_>>> {
        let documents = &self.state.documents;
        let blocks = self.document_blocks();
        let position = documents.find(from, blocks)?;
        let Some(entry) = documents.entry(position, blocks)? else {
            return Ok(None);
        };
        let extent = documents.extent(position, blocks)?;
        let dead = self.set(DEAD).rows(&(from..=entry.high))?;
        Ok(Some(StoredDocuments {
            blocks,
            entry,
            extent,
            from,
            dead,
        }))
    }

    /// The number of a scope. `None` if no document ever had it.
    pub(crate) fn scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        if let Some(number) = self.state.known_scopes.get(name) {
            // A later commit may have looked it up.
            return Ok(Some(number).filter(|&number| self.state.counters.has_given(number)));
        }
        let number = self.stored_scope_number(name)?;
        if let Some(number) = number {
            self.state.known_scopes.add(name, number);
        }
        Ok(number)
    }

    /// As [`scope_number`](Self::scope_number), but the file is read.
    pub(crate) fn stored_scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        match self.tables.scope(name)? {
            Some(record) => decode_scope(self.settings.file, name, &record).map(Some),
            None => self.ensure_whole_scopes(name).map(|()| None),
        }
    }

    /// Refuses to say that a scope is not there, if not all scopes are there. A page of an earlier commit
    /// would not have the newest. After the first time, this does nothing.
    fn ensure_whole_scopes(&self, name: &str) -> Result<()> {
        if self.state.scopes_are_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut sum = 0u64;
        self.tables.scopes(|_, record| {
            sum = sum.wrapping_add(share_of_sum([record]));
            Ok(())
        })?;
        if sum != self.state.scopes_sum {
            let problem = "the scopes that are there are not those of the last commit";
            return Err(Error::damaged("scopes", name, problem));
        }
        self.state.scopes_are_whole.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// All scopes that have a name, with their numbers.
    pub(crate) fn all_scopes(&self) -> Result<BTreeMap<String, ScopeNumber>> {
        self.ensure_whole_scopes("-")?;
        let mut scopes = BTreeMap::new();
        self.tables.scopes(|name, record| {
            let number = decode_scope(self.settings.file, name, record)?;
            scopes.insert(name.to_owned(), number);
            Ok(())
        })?;
        Ok(scopes)
    }

    /// Calls `each` with the name and the record of every scope.
    pub(crate) fn scopes(&self, each: impl FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
        self.tables.scopes(each)
    }
}

/// The error for a scope that a document has and that is not there.
pub(crate) fn missing_scope(name: &str) -> Error {
    let problem = "it is missing, but a document has this scope";
    Error::damaged("scopes", name, problem)
}

/// The error for a damaged document.
pub(crate) fn damaged_document(number: DocumentNumber, problem: &'static str) -> Error {
    Error::damaged("documents", &number.0, problem)
}

/// A block of documents that is not read yet.
pub(crate) struct StoredDocuments<'v> {
    blocks: SetBlocks<'v>,
    entry: &'v Entry<u64>,
    extent: Option<Extent>,
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
        Ok(LiveDocuments {
            block,
            extent: self.extent,
            from: self.from,
            dead: self.dead,
        })
    }
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

/// The most scopes that are remembered. With names of 30 bytes they take 6 MB.
const MOST: usize = 1 << 16;

/// The numbers of committed scopes. All views of a file share them, since a scope never gets another number.
#[derive(Debug, Default)]
pub(crate) struct KnownScopes(RwLock<HashMap<Box<str>, ScopeNumber, RandomState>>);

impl KnownScopes {
    pub(super) fn get(&self, name: &str) -> Option<ScopeNumber> {
        self.0.read().get(name).copied()
    }

    /// Remembers a scope of a commit, if there is room.
    pub(super) fn add(&self, name: &str, number: ScopeNumber) {
        let mut scopes = self.0.write();
        if scopes.len() < MOST {
            scopes.insert(name.into(), number);
        }
    }
}

/// Changed sources by their names. `None` stands for a source that is forgotten.
pub(crate) type ChangedSources = BTreeMap<Vec<u8>, Option<SourceRecord>>;

/// The rows of changed sources, and what they change in the sum of all.
pub(crate) struct SourceRows {
    pub(crate) rows: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    pub(crate) sum_change: u64,
}

impl SourceRows {
    /// The rows of sources that change what `view` has, for the file with this seed.
    pub(crate) fn new(changed: ChangedSources, view: &View) -> Result<Self> {
        let file = view.settings().file;
        let mut rows = Vec::with_capacity(changed.len());
        let mut sum_change = 0u64;
        for (name, record) in changed {
            let old = view.tables().source(&name)?;
            sum_change = sum_change.wrapping_sub(share_of_sum(old.as_deref()));
            let new = record.map(|record| encode_source(file, &name, &record));
            sum_change = sum_change.wrapping_add(share_of_sum(new.as_deref()));
            rows.push((name, new));
        }
        Ok(Self { rows, sum_change })
    }

    /// The rows of all sources, for another file, which has none.
    pub(crate) fn copied(sources: &[Source], file: FileSeed) -> Self {
        let mut rows = Vec::with_capacity(sources.len());
        let mut sum_change = 0u64;
        for Source { name, record } in sources {
            let record = encode_source(file, name, record);
            sum_change = sum_change.wrapping_add(share_of_sum([record.as_slice()]));
            rows.push((name.clone(), Some(record)));
        }
        Self { rows, sum_change }
    }
}

fn encode_source(file: FileSeed, name: &[u8], record: &SourceRecord) -> Vec<u8> {
    seal(Kind::Source, file, name, |bytes| {
        encode_short(record, bytes);
    })
}

fn decode_source(
    file: FileSeed,
    counters: Counters,
    name: &[u8],
    bytes: &[u8],
) -> Result<SourceRecord> {
    let record: SourceRecord = unseal(Kind::Source, file, name, bytes)
        .and_then(decode_short)
        .map_err(|problem| damaged_source(name, problem))?;
    let end = counters.next_document;
    if record.numbers.are_valid(end) && record.earlier.are_valid(end) {
        Ok(record)
    } else {
        Err(damaged_source(
            name,
            "it has impossible numbers of documents",
        ))
    }
}

/// What is wrong with the record of a source.
fn damaged_source(name: &[u8], problem: Problem) -> Error {
    Error::damaged("sources", &String::from_utf8_lossy(name), problem)
}

impl View {
    /// The record of a source. `None` if there is none of this name.
    pub(crate) fn source(&self, name: &[u8]) -> Result<Option<SourceRecord>> {
        self.ensure_whole_sources()?;
        let record = self.tables().source(name)?;
        record
            .map(|bytes| decode_source(self.settings().file, self.state().counters, name, &bytes))
            .transpose()
    }

    /// All sources, in the order of their names.
    pub(crate) fn sources(&self) -> Result<Vec<Source>> {
        self.ensure_whole_sources()?;
        let mut sources = Vec::new();
        self.tables().sources(|name, bytes| {
            let record = decode_source(self.settings().file, self.state().counters, name, bytes)?;
            sources.push(Source {
                name: name.to_vec(),
                record,
            });
            Ok(())
        })?;
        Ok(sources)
    }

    /// Refuses sources that are not those of the last commit. After the first time, this does nothing.
    fn ensure_whole_sources(&self) -> Result<()> {
        if self.state().sources_are_whole.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut sum = 0u64;
        self.tables().sources(|_, record| {
            sum = sum.wrapping_add(share_of_sum([record]));
            Ok(())
        })?;
        if sum != self.state().sources_sum {
            return Err(damaged_source(
                b"-",
                "the sources that are there are not those of the last commit",
            ));
        }
        self.state()
            .sources_are_whole
            .store(true, Ordering::Relaxed);
        Ok(())
    }
}
