//! Reading: the same for a snapshot and for a transaction that sees its own writes.

use std::fmt;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use redb::{ReadOnlyTable, ReadTransaction, ReadableTable};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::{Candidates, CostModel, Probe};
use crate::store::blocks::cache::BlockCache;
use crate::store::blocks::documents::{DocumentBlock, Record};
use crate::store::blocks::packed::Lists;
use crate::store::blocks::reader::{Blocks, CachedRow};
use crate::store::dense::copy::{self, CopyProgress};
use crate::store::engine::guard::{Guarded, guarded};
use crate::store::engine::tables::{BLOCKS, SCOPES, engine_error};
use crate::store::file::meta::{Counters, Settings, decode_scope};
use crate::store::file::shared::OpenFile;
use crate::store::file::state::State;
use crate::store::file::written::WrittenDocuments;
use crate::store::postings::{self, Posted, listed, number_of};
use crate::store::sorted_set::overlay::{Overlays, key_row, posting_row};
use crate::store::sorted_set::ranges::{Wanted, read_ranges};
use crate::store::sorted_set::reader::SetReader;
use crate::store::sorted_set::skew;
use crate::store::store::DocumentNumber;
use crate::store::store::ScopeNumber;
use crate::store::store::Sizes;

/// What is committed at one moment.
pub(crate) struct View {
    tables: Guarded<Tables>,
    state: State,
    /// Whether no permuted table has a mark, so that every row of theirs has a document.
    unmarked: bool,
    settings: Arc<Settings>,
    /// After the tables, so that their transaction ends before the engine.
    open: Arc<OpenFile>,
}

/// Tables of the engine at one commit; they keep its transaction open.
struct Tables {
    blocks: Blocks,
    scopes: ReadOnlyTable<&'static str, &'static [u8]>,
}

impl View {
    pub(crate) fn new(
        open: &Arc<OpenFile>,
        txn: &ReadTransaction,
        state: State,
        settings: Arc<Settings>,
        cache: Arc<BlockCache>,
    ) -> Result<Self> {
        let table = txn.open_table(BLOCKS).map_err(engine_error)?;
        let scopes = txn.open_table(SCOPES).map_err(engine_error)?;
        let tables = Tables { blocks: Blocks { table, cache }, scopes };
        let unmarked =
            (0..settings.plan.tables().len()).all(|table| state.sets.permuted(table).rows().1 == 0);
        Ok(Self { tables: Guarded::new(tables), state, unmarked, settings, open: open.clone() })
    }

    pub(crate) fn state(&self) -> &State {
        &self.state
    }

    /// How long the file is.
    pub(crate) fn file_bytes(&self) -> std::io::Result<u64> {
        self.open.file.metadata().map(|metadata| metadata.len())
    }

    /// The block of documents with numbers from `from` on; `None` after the last.
    pub(crate) fn stored_documents(&self, from: u64) -> Result<Option<StoredDocuments>> {
        let documents = &self.state.documents;
        let Some(entry) = documents.entry(documents.find(from)) else { return Ok(None) };
        let block = self.blocks().documents_once(entry)?;
        let dead = SetReader { set: self.state.sets.dead(), overlay: None, blocks: self.blocks() };
        Ok(Some(StoredDocuments { block, dead: dead.rows(&(from..=entry.high))?, next: entry.high + 1 }))
    }

    /// The rows of the table of scopes.
    pub(crate) fn scope_rows(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let rows = self.tables.scopes.iter().map_err(engine_error)?;
        rows.map(|row| {
            let (name, bytes) = row.map_err(engine_error)?;
            Ok((name.value().to_owned(), bytes.value().to_vec()))
        })
        .collect()
    }

    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.tables.blocks
    }
}

/// A block of documents, and which of them are dead.
pub(crate) struct StoredDocuments {
    block: Arc<DocumentBlock>,
    dead: Vec<u64>,
    /// The number behind the block.
    pub(crate) next: u64,
}

impl StoredDocuments {
    pub(crate) fn live(&self) -> impl Iterator<Item = Record<'_>> {
        self.block.records().filter(|record| self.dead.binary_search(&record.number).is_err())
    }
}

/// What a transaction has written so far.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) overlays: Overlays,
    pub(crate) documents: WrittenDocuments,
    pub(crate) scopes: std::collections::BTreeMap<String, ScopeNumber>,
}

/// What `check` counts by going through all rows.
#[derive(Default)]
pub(crate) struct RowCounts {
    pub(crate) rows: u64,
    /// How many rows the directories make of it.
    pub(crate) counted: u64,
    /// How many different leading 64 bits there are.
    pub(crate) leads: u64,
}

/// Everything that is asked of a file. Errors are those of the engine, and [`Error::Damaged`] where a value
/// does not bear its checksum or rows contradict each other. A panic of the engine is an error too.
pub(crate) trait Read: Sync {
    fn view(&self) -> &View;

    /// What is to be seen besides the view.
    fn written(&self) -> Option<&Written>;

    fn counters(&self) -> Counters;

    fn settings(&self) -> &Arc<Settings> {
        &self.view().settings
    }

    /// Calls `each` with the candidates of each probe: all rows in its range, and perhaps some of their neighbours; also, perhaps, some whose
    /// fingerprint has no documents any more, and some more than once. Returns how many blocks they were in.
    fn candidates(&self, probes: &[Probe], mut each: impl FnMut(&Probe, Candidates<'_>)) -> Result<u64> {
        let ranges = probes.iter().map(|probe| Wanted {
            reader: permuted(self, probe.table),
            first: probe.first,
            last: probe.last,
        });
        let each = |number: usize, puts: &[u64], _: &[u64]| each(&probes[number], Candidates::new(puts));
        Ok(read_ranges("permuted", self.view().blocks(), ranges, usize::MAX, each)?.blocks)
    }

    /// Calls `each` with all rows of the first table, one part after the other, as candidates, until it breaks. Returns how
    /// many blocks all are in.
    fn scan(&self, mut each: impl FnMut(Candidates<'_>) -> Result<ControlFlow<()>>) -> Result<u64> {
        let reader = permuted(self, 0);
        let mut rows = Lists::default();
        for range in reader.parts() {
            reader.puts(&range, &mut rows)?;
            if each(Candidates::new(&rows.puts))?.is_break() {
                break;
            }
        }
        Ok(reader.set.levels.iter().map(|slot| slot.level.blocks() as u64).sum())
    }

    /// Whether every row of the permuted tables is known to have a document: where nothing is deleted, or was merged away.
    fn all_rows_have_documents(&self) -> bool {
        self.view().unmarked && self.written().is_none()
    }

    /// In how many levels and how many runs in memory each fingerprint is looked for.
    fn sources(&self) -> (usize, usize) {
        let reader = permuted(self, 0);
        (reader.set.levels.len(), reader.memory_runs().count())
    }

    /// What the cost of a query depends on. With `read`, blocks are read to measure of the skew what the directory does not tell.
    fn cost_model(&self, read: bool) -> Result<CostModel> {
        let tables = self.settings().plan.tables().len();
        let first = permuted(self, 0);
        let rows = self.fingerprints() as f64;
        let shares =
            (0..tables).map(|table| skew::shares(&permuted(self, table), read)).collect::<Result<_>>()?;
        let cache = self.view().blocks().cache.capacity() as f64;
        let cached = (cache / (rows * 8.0 * tables as f64)).min(1.0);
        let levels = first.set.levels.len() as f64;
        let runs = first.memory_runs().map(|run| run.len() as f64).collect();
        Ok(CostModel { rows, tables: tables as f64, levels, runs, cached, shares })
    }

    /// Calls `each` with the number of a fingerprint, each of its scopes, and the documents that the scope lists under it.
    fn posted(
        &self,
        wanted: &[(Fingerprint, Arc<[ScopeNumber]>)],
        each: impl FnMut(usize, ScopeNumber, Posted),
    ) -> Result<()> {
        postings::posted(|| postings(self), wanted, each)
    }

    /// The newest documents of a fingerprint in a scope, newest first: at most `limit`, all below `below`.
    fn newest(
        &self,
        fingerprint: Fingerprint,
        scope: ScopeNumber,
        below: DocumentNumber,
        limit: usize,
    ) -> Result<Vec<DocumentNumber>> {
        let Some(last) = below.previous() else { return Ok(Vec::new()) };
        let rows = postings(self).last(&listed(fingerprint, scope, last), limit)?;
        Ok(rows.into_iter().map(number_of).collect())
    }

    /// The document of a number that a row names, so that it has to be there.
    fn linked_document(&self, number: DocumentNumber) -> Result<Document> {
        let damaged = |problem| Error::Damaged { table: "documents", key: number.0.to_string(), problem };
        let missing = || damaged("it is missing, but another row refers to it");
        if let Some(document) = self.written().and_then(|written| written.documents.document(number)) {
            return document.map_err(damaged);
        }
        let view = self.view();
        let documents = &view.state.documents;
        let entry = documents.entry(documents.find(number.0)).ok_or_else(missing)?;
        let block = view.blocks().documents(entry)?;
        let place = block.find(number.0).ok_or_else(missing)?;
        block.record(place).to_document().map_err(damaged)
    }

    /// The document of a key, with its number.
    fn find(&self, key: &[u8]) -> Result<Option<(DocumentNumber, Document)>> {
        let hash = self.hash_of(key);
        // Most keys that are looked for are new.
        if !keys(self).may_have(hash) {
            return Ok(None);
        }
        let range = key_row(hash, DocumentNumber::MIN)..=key_row(hash, DocumentNumber::MAX);
        for row in keys(self).last(&range, usize::MAX)? {
            let document = self.linked_document(number_of(row))?;
            if document.key() == key {
                return Ok(Some((number_of(row), document)));
            }
        }
        Ok(None)
    }

    /// The number of a scope, or `None` where no document ever had it.
    fn scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        if name.is_empty() {
            return Ok(Some(ScopeNumber::EMPTY));
        }
        if let Some(&number) = self.written().and_then(|written| written.scopes.get(name)) {
            return Ok(Some(number));
        }
        guarded(|| {
            let bytes = self.view().tables.scopes.get(name).map_err(engine_error)?;
            bytes.map(|bytes| decode_scope(name, bytes.value())).transpose()
        })
    }

    /// About how many distinct fingerprints there are: repetitions and deletions that are not merged are miscounted.
    fn fingerprints(&self) -> u64 {
        let (puts, marks) = permuted(self, 0).set.rows();
        puts.saturating_sub(marks)
    }

    /// Whether a table holds a fingerprint.
    fn holds(&self, table: usize, fingerprint: Fingerprint) -> Result<bool> {
        let row = self.settings().plan.tables()[table].permutation.apply(fingerprint).bits();
        Ok(!permuted(self, table).last(&(row..=row), 1)?.is_empty())
    }

    /// Whether a scope lists a document under a fingerprint.
    fn lists(&self, fingerprint: Fingerprint, scope: ScopeNumber, number: DocumentNumber) -> Result<bool> {
        let row = posting_row(fingerprint, scope, number);
        Ok(!postings(self).last(&(row..=row), 1)?.is_empty())
    }

    fn hash_of(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.settings().key_seed)
    }
}

/// The key directory.
fn keys(read: &(impl Read + ?Sized)) -> SetReader<'_, u128> {
    let overlay = read.written().map(|written| &written.overlays.wide[0]);
    SetReader { set: read.view().state.sets.keys(), overlay, blocks: read.view().blocks() }
}

fn postings(read: &(impl Read + ?Sized)) -> SetReader<'_, u128> {
    let overlay = read.written().map(|written| &written.overlays.wide[1]);
    SetReader { set: read.view().state.sets.postings(), overlay, blocks: read.view().blocks() }
}

fn dead(read: &(impl Read + ?Sized)) -> SetReader<'_, u64> {
    let overlay = read.written().map(|written| &written.overlays.narrow[0]);
    SetReader { set: read.view().state.sets.dead(), overlay, blocks: read.view().blocks() }
}

fn permuted(read: &(impl Read + ?Sized), table: usize) -> SetReader<'_, u64> {
    let overlay = read.written().map(|written| &written.overlays.narrow[1 + table]);
    SetReader { set: read.view().state.sets.permuted(table), overlay, blocks: read.view().blocks() }
}

/// A snapshot: what is committed at one moment.
#[derive(Clone)]
pub(crate) struct Reader(Arc<View>);

impl Reader {
    pub(crate) fn new(view: Arc<View>) -> Self {
        Self(view)
    }

    /// Up to a block of documents with numbers from `from` on, in order, and where to go on; `None` after the last.
    /// A damaged document does not hide the others.
    #[expect(clippy::type_complexity, reason = "a list of results, and a number")]
    pub(crate) fn documents(
        &self,
        from: DocumentNumber,
    ) -> Result<Option<(Vec<(DocumentNumber, Result<Document>)>, DocumentNumber)>> {
        let documents = &self.0.state.documents;
        let Some(entry) = documents.entry(documents.find(from.0)) else { return Ok(None) };
        let next = DocumentNumber(entry.high).next();
        let block = match self.0.blocks().documents_once(entry) {
            Ok(block) => block,
            // The block as a whole is one damaged document, so to say.
            Err(error) => return Ok(Some((vec![(DocumentNumber(entry.high), Err(error))], next))),
        };
        let mut gone = dead(self).last(&(from.0..=entry.high), usize::MAX)?;
        gone.reverse();
        let live =
            block.records().filter(|it| it.number >= from.0 && gone.binary_search(&it.number).is_err());
        let page = live.map(|record| {
            let damaged =
                |problem| Error::Damaged { table: "documents", key: record.number.to_string(), problem };
            (DocumentNumber(record.number), record.to_document().map_err(damaged))
        });
        Ok(Some((page.collect(), next)))
    }

    /// Calls `each` with every scope that has a name.
    pub(crate) fn scopes(&self, mut each: impl FnMut(&str, Result<ScopeNumber>)) -> Result<()> {
        guarded(|| {
            for row in self.0.tables.scopes.iter().map_err(engine_error)? {
                let (name, bytes) = row.map_err(engine_error)?;
                each(name.value(), decode_scope(name.value(), bytes.value()));
            }
            Ok(())
        })
    }

    /// Makes a dense copy at `path`, where nothing may stand yet.
    pub(crate) fn backup(&self, path: &Path, sizes: &Sizes, progress: CopyProgress<'_>) -> Result<()> {
        copy::backup(&self.0, path, sizes, progress)
    }

    /// How many levels the sets have at most, and how many marks in all.
    pub(crate) fn levels_and_marks(&self) -> (u32, u64) {
        self.0.state.sets.levels_and_marks()
    }

    /// How much memory the directories take.
    pub(crate) fn directory_bytes(&self) -> u64 {
        self.0.state.directory_bytes() as u64
    }

    /// The rows of the key directory; their leading bits are hashes of keys.
    pub(crate) fn count_keys(&self) -> Result<RowCounts> {
        count_rows(&keys(self))
    }

    /// The rows of the postings; their leading bits are fingerprints.
    pub(crate) fn count_postings(&self) -> Result<RowCounts> {
        count_rows(&postings(self))
    }

    /// The rows of a permuted table. What the directories count is not told: a fingerprint may stand in several levels.
    pub(crate) fn count_permuted(&self, table: usize) -> Result<RowCounts> {
        count_rows(&permuted(self, table))
    }

    /// The dead documents, and how many of those stored are not.
    pub(crate) fn count_dead(&self) -> Result<(RowCounts, u64)> {
        let counts = count_rows(&dead(self))?;
        let stored = self.0.state.documents.rows().0;
        let live = stored.saturating_sub(counts.rows);
        Ok((counts, live))
    }

    /// Whether a document may have this number.
    pub(crate) fn has_numbered(&self, number: DocumentNumber) -> bool {
        self.counters().has_numbered(number)
    }
}

fn count_rows<R: CachedRow>(reader: &SetReader<'_, R>) -> Result<RowCounts> {
    let mut counts = RowCounts::default();
    let mut last = None;
    reader.each(|row| {
        counts.rows += 1;
        counts.leads += u64::from(last.replace(row.lead()) != Some(row.lead()));
    })?;
    counts.counted = u64::try_from(reader.count(&(R::MIN..=R::MAX))?).unwrap_or(0);
    Ok(counts)
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Read for Reader {
    fn view(&self) -> &View {
        &self.0
    }

    fn written(&self) -> Option<&Written> {
        None
    }

    fn counters(&self) -> Counters {
        self.0.state.counters
    }
}
