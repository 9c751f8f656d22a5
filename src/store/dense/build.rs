//! Building a new file from documents in one go: rows are sorted outside the file and packed once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::blocks::cache::BlockCache;
use crate::store::dense::bulk::{Bulk, DocumentsWriter, NewFile, SetWriter};
use crate::store::dense::copy;
use crate::store::dense::sort::Sorter;
use crate::store::engine::guard::{Guarded, guarded};
use crate::store::file::meta::{Settings, encode_scopes};
use crate::store::file::opening;
use crate::store::file::shared::OpenFile;
use crate::store::file::state::{SetNumber, State};
use crate::store::read::{Read, Reader, View};
use crate::store::sorted_set::overlay::{key_row, posting_row};
use crate::store::store::DocumentNumber;
use crate::store::store::ScopeNumber;
use crate::store::store::Sizes;
use crate::store::store::directory_of;
use crate::store::store::sync_directory;

/// Builds a file at `path`, where nothing may stand yet, from valid documents with different keys.
///
/// `memory_bytes` are used to sort; what does not fit goes to files without a name in the directory of `path`.
pub(crate) fn build(
    path: &Path,
    settings: &Settings,
    documents: impl Iterator<Item = Result<Document>>,
    memory_bytes: usize,
    sizes: &Sizes,
) -> Result<()> {
    if path.symlink_metadata().is_ok() {
        return Err(Error::AlreadyExists { path: path.to_owned() });
    }
    let directory = directory_of(path)?;
    guarded(|| {
        let NewFile { temporary, engine, file } = NewFile::create(directory, settings, 64 << 20)?;
        let bulk = Bulk::new(&engine, sizes, State::new(&settings.plan));
        let repeated = Builder::new(directory, settings, memory_bytes, bulk).build(documents)?;
        file.sync_all().map_err(|source| Error::Io { path: path.to_owned(), source })?;
        let open = Arc::new(OpenFile { engine: Guarded::new(engine), file });
        ensure_different_keys(&open, settings, &repeated)?;
        copy::persist(temporary, path, false)?;
        sync_directory(directory).map_err(|source| Error::Io { path: path.to_owned(), source })
    })
}

/// What grows while documents are read.
struct Builder<'a> {
    settings: &'a Settings,
    bulk: Bulk<'a>,
    documents: DocumentsWriter,
    keys: Sorter<u128>,
    postings: Sorter<u128>,
    permuted: Vec<Sorter<u64>>,
    scopes: BTreeMap<String, ScopeNumber>,
}

impl<'a> Builder<'a> {
    fn new(directory: &Path, settings: &'a Settings, memory_bytes: usize, bulk: Bulk<'a>) -> Self {
        let tables = settings.plan.tables().len();
        // A row of each set and document; and postings may have two.
        let limit = memory_bytes / (3 * 16 + 8 * tables);
        Self {
            settings,
            bulk,
            documents: DocumentsWriter::new(),
            keys: Sorter::new(directory, limit),
            postings: Sorter::new(directory, 2 * limit),
            permuted: (0..tables).map(|_| Sorter::new(directory, limit)).collect(),
            scopes: BTreeMap::new(),
        }
    }

    /// Reads all documents and writes the file; returns pairs of documents whose keys have the same hash.
    fn build(
        mut self,
        documents: impl Iterator<Item = Result<Document>>,
    ) -> Result<Vec<[DocumentNumber; 2]>> {
        for document in documents {
            self.add(&document?)?;
        }
        let Self { mut bulk, documents, keys, postings, permuted, scopes, .. } = self;
        documents.finish(&mut bulk)?;
        let mut repeated = Vec::new();
        let mut last: Option<u128> = None;
        let mut writer = SetWriter::new(SetNumber::Wide(0), &bulk);
        keys.finish(|rows| {
            for &row in rows {
                if let Some(last) = last.replace(row).filter(|last| last >> 64 == row >> 64) {
                    repeated.push([last, row].map(|row| DocumentNumber(row as u64)));
                }
            }
            writer.push(&mut bulk, rows)
        })?;
        writer.finish(&mut bulk)?;
        let mut writer = SetWriter::new(SetNumber::Wide(1), &bulk);
        postings.finish(|rows| writer.push(&mut bulk, rows))?;
        writer.finish(&mut bulk)?;
        for (table, sorter) in permuted.into_iter().enumerate() {
            let mut writer = SetWriter::new(SetNumber::Narrow(1 + table), &bulk);
            sorter.finish(|rows| writer.push(&mut bulk, rows))?;
            writer.finish(&mut bulk)?;
        }
        bulk.edit.scopes = encode_scopes(scopes);
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
        for (sorter, table) in self.permuted.iter_mut().zip(self.settings.plan.tables()) {
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

/// Refuses documents of the same key; keys may collide in their hash and differ.
fn ensure_different_keys(
    open: &Arc<OpenFile>,
    settings: &Settings,
    repeated: &[[DocumentNumber; 2]],
) -> Result<()> {
    if repeated.is_empty() {
        return Ok(());
    }
    let txn = open.engine.begin_read()?;
    let state = opening::state(&txn, &settings.plan)?;
    let cache = Arc::new(BlockCache::new(1 << 20));
    let reader = Reader::new(Arc::new(View::new(open, &txn, state, Arc::new(settings.clone()), cache)?));
    for pair in repeated {
        let [first, second] = [reader.linked_document(pair[0])?, reader.linked_document(pair[1])?];
        if first.key() == second.key() {
            return Err(Error::KeyRepeated { key: String::from_utf8_lossy(first.key()).into_owned() });
        }
    }
    Ok(())
}
