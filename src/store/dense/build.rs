//! Building a new file from documents at once. Rows are sorted outside the file and packed once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::bulk::{Bulk, DocumentsWriter, SetWriter};
use super::copy;
use super::sort::Sorter;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::blocks::BlockCache;
use crate::store::engine::{NewFile, OpenFile, directory_of, ensure_nothing_at};
use crate::store::file::{
    self, Change, KEYS, Operation, POSTINGS, PerSet, RowFamily, RowSink, Set, SetRow, Settings, State, View,
    all_sets, by_row, number_of,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sizes::Sizes;

/// The bytes of its pages that the engine may keep.
const PAGE_CACHE_BYTES: usize = 64 << 20;

/// Builds a file at `path`, where nothing may be yet, from valid documents with different keys.
///
/// Rows are sorted in `memory_bytes` of memory. Rows that do not fit go to files without a name in the
/// directory of `path`.
pub(crate) fn build(
    path: &Path,
    settings: &Settings,
    documents: impl Iterator<Item = Result<Document>>,
    memory_bytes: usize,
    sizes: &Sizes,
) -> Result<()> {
    ensure_nothing_at(path)?;
    let directory = directory_of(path)?;
    let new = NewFile::create(directory)?;
    let engine = file::create(&new, directory, settings, PAGE_CACHE_BYTES)?;
    let bulk = Bulk::new(&engine, sizes, settings.file, State::new(&settings.plan));
    let repeated = Builder::new(directory, settings, memory_bytes, bulk).build(documents)?;
    let engine = engine.trimmed(&new, directory, PAGE_CACHE_BYTES)?;
    new.file.sync_all().map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let open = Arc::new(OpenFile { engine, file: new.file });
    if !repeated.is_empty() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        ensure_different_keys(&copy::view_of(&open, Arc::new(settings.clone()), cache)?, &repeated)?;
    }
    new.temporary.keep_as(path)
}

/// A file that is being built.
struct Builder<'a> {
    settings: &'a Settings,
    bulk: Bulk<'a>,
    documents: DocumentsWriter,
    sorters: Sorters,
    scopes: BTreeMap<String, ScopeNumber>,
}

/// The rows of each set that wait to be sorted.
type Sorters = PerSet<SorterFamily>;

struct SorterFamily;

impl RowFamily for SorterFamily {
    type Of<R: SetRow> = Sorter<R>;
}

impl RowSink for Sorters {
    type Error = Error;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<()> {
        self[set].push(row)
    }

    fn mark<R: SetRow>(&mut self, _: Set<R>, _: R) -> Result<()> {
        unreachable!("nothing is removed from a file that is being built")
    }
}

fn sorters(directory: &Path, tables: usize, memory_bytes: usize) -> Sorters {
    // A document has one row in each set, and up to two in the postings.
    let limit = memory_bytes / (3 * 16 + 8 * tables);
    let mut sorters: Sorters =
        all_sets(tables).map(|set| by_row!(set, _ => keep Sorter::new(directory, limit))).collect();
    sorters[POSTINGS] = Sorter::new(directory, 2 * limit);
    sorters
}

impl<'a> Builder<'a> {
    fn new(directory: &Path, settings: &'a Settings, memory_bytes: usize, bulk: Bulk<'a>) -> Self {
        let sorters = sorters(directory, settings.plan.tables().len(), memory_bytes);
        Self { settings, bulk, documents: DocumentsWriter::new(), sorters, scopes: BTreeMap::new() }
    }

    /// Reads all documents and writes the file. Returns pairs of documents whose keys have the same hash.
    fn build(
        mut self,
        documents: impl Iterator<Item = Result<Document>>,
    ) -> Result<Vec<[DocumentNumber; 2]>> {
        for document in documents {
            self.add(&document?)?;
        }
        let Self { mut bulk, documents, sorters, scopes, .. } = self;
        documents.finish(&mut bulk)?;
        let mut repeated = Vec::new();
        for (set, sorter) in sorters.sets().zip(sorters) {
            by_row!(set, sorter, (set, sorter) => write_set(set, sorter, &mut bulk, &mut repeated)?);
        }
        bulk.edit.add_scopes(scopes);
        bulk.flush()?;
        Ok(repeated)
    }

    fn add(&mut self, document: &Document) -> Result<()> {
        document.validate()?;
        let counters = &mut self.bulk.edit.state.counters;
        let number = counters.next_number()?;
        counters.count(document);
        self.documents.documents.push(number.0, document);
        self.documents.settle(&mut self.bulk)?;
        let operation = Operation {
            change: Change::Put,
            number,
            key_hash: xxh3_64_with_seed(document.key(), self.settings.key_seed),
            fingerprint: document.fingerprint(),
            scope: self.scope_number(document.scope())?,
        };
        operation.give_rows(&self.settings.plan, &mut self.sorters)
    }

    fn scope_number(&mut self, name: &str) -> Result<ScopeNumber> {
        if name.is_empty() {
            return Ok(ScopeNumber::EMPTY);
        }
        if let Some(&number) = self.scopes.get(name) {
            return Ok(number);
        }
        let number = self.bulk.edit.state.counters.next_scope()?;
        self.scopes.insert(name.to_owned(), number);
        Ok(number)
    }
}

/// Writes the rows of a set. Adds pairs of documents whose keys have the same hash to `repeated`.
fn write_set<R: SetRow>(
    set: Set<R>,
    sorter: Sorter<R>,
    bulk: &mut Bulk<'_>,
    repeated: &mut Vec<[DocumentNumber; 2]>,
) -> Result<()> {
    let mut writer = SetWriter::new(set, bulk);
    let mut last: Option<R> = None;
    sorter.finish(|rows| {
        for &row in rows.iter().filter(|_| set.is(KEYS)) {
            if let Some(last) = last.replace(row).filter(|last| last.prefix() == row.prefix()) {
                repeated.push([last, row].map(|row| number_of(row.number())));
            }
        }
        writer.push(bulk, rows)
    })?;
    writer.finish(bulk)
}

/// Refuses two documents with the same key. Different keys may have the same hash, so the keys are compared.
fn ensure_different_keys(view: &View, repeated: &[[DocumentNumber; 2]]) -> Result<()> {
    for pair in repeated {
        let [first, second] = [view.document(pair[0])?, view.document(pair[1])?];
        if first.key() == second.key() {
            return Err(Error::KeyRepeated { key: String::from_utf8_lossy(first.key()).into_owned() });
        }
    }
    Ok(())
}
