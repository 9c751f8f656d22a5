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
use crate::store::engine::{
    OpenFile, create_temporary, directory_of, ensure_nothing_at, persist, sync_directory,
};
use crate::store::file::{
    self, KEYS, POSTINGS, Settings, State, View, encode_scopes, key_row, number_of, permuted, posting_row,
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
    let new = create_temporary(directory)?;
    let engine = file::create(&new, directory, settings, PAGE_CACHE_BYTES)?;
    let bulk = Bulk::new(&engine, sizes, State::new(&settings.plan));
    let repeated = Builder::new(directory, settings, memory_bytes, bulk).build(documents)?;
    new.file.sync_all().map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let open = Arc::new(OpenFile { engine, file: new.file });
    if !repeated.is_empty() {
        let cache = Arc::new(BlockCache::new(1 << 20));
        ensure_different_keys(&copy::view_of(&open, Arc::new(settings.clone()), cache)?, &repeated)?;
    }
    persist(new.temporary, path, false)?;
    sync_directory(path)
}

/// A file that is being built, and the rows that wait to be sorted.
struct Builder<'a> {
    settings: &'a Settings,
    bulk: Bulk<'a>,
    documents: DocumentsWriter,
    keys: Sorter<u128>,
    postings: Sorter<u128>,
    tables: Vec<Sorter<u64>>,
    scopes: BTreeMap<String, ScopeNumber>,
}

impl<'a> Builder<'a> {
    fn new(directory: &Path, settings: &'a Settings, memory_bytes: usize, bulk: Bulk<'a>) -> Self {
        let tables = settings.plan.tables().len();
        // A document has one row in each set, and up to two in the postings.
        let limit = memory_bytes / (3 * 16 + 8 * tables);
        Self {
            settings,
            bulk,
            documents: DocumentsWriter::new(),
            keys: Sorter::new(directory, limit),
            postings: Sorter::new(directory, 2 * limit),
            tables: (0..tables).map(|_| Sorter::new(directory, limit)).collect(),
            scopes: BTreeMap::new(),
        }
    }

    /// Reads all documents and writes the file. Returns pairs of documents whose keys have the same hash.
    fn build(
        mut self,
        documents: impl Iterator<Item = Result<Document>>,
    ) -> Result<Vec<[DocumentNumber; 2]>> {
        for document in documents {
            self.add(&document?)?;
        }
        let Self { mut bulk, documents, keys, postings, tables, scopes, .. } = self;
        documents.finish(&mut bulk)?;
        let mut repeated = Vec::new();
        let mut last: Option<u128> = None;
        let mut writer = SetWriter::new(KEYS, &bulk);
        keys.finish(|rows| {
            for &row in rows {
                if let Some(last) = last.replace(row).filter(|last| last >> 64 == row >> 64) {
                    repeated.push([last, row].map(number_of));
                }
            }
            writer.push(&mut bulk, rows)
        })?;
        writer.finish(&mut bulk)?;
        let mut writer = SetWriter::new(POSTINGS, &bulk);
        postings.finish(|rows| writer.push(&mut bulk, rows))?;
        writer.finish(&mut bulk)?;
        for (table, sorter) in tables.into_iter().enumerate() {
            let set = permuted(table);
            let mut writer = SetWriter::new(set, &bulk);
            sorter.finish(|rows| writer.push(&mut bulk, rows))?;
            writer.finish(&mut bulk)?;
        }
        bulk.edit.changes.scopes = encode_scopes(scopes);
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
        self.keys.push(key_row(xxh3_64_with_seed(document.key(), self.settings.key_seed), number))?;
        let scope = self.scope_number(document.scope())?;
        let Some(fingerprint) = document.fingerprint() else { return Ok(()) };
        for scope in scope.listing() {
            self.postings.push(posting_row(fingerprint, scope, number))?;
        }
        for (sorter, table) in self.tables.iter_mut().zip(self.settings.plan.tables()) {
            sorter.push(table.permutation.apply(fingerprint).bits())?;
        }
        Ok(())
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
