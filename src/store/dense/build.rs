//! Building a new file from documents at once. Rows are sorted outside the file and packed once.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use super::bulk::{Bulk, DocumentsWriter};
use super::copy::{self, CopyProgress, Counter};
use super::sort::Sorter;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::files::{NewFile, Temporary, directory_of, ensure_nothing_at};
use crate::source::Source;
use crate::store::blocks::BlockCache;
use crate::store::engine::OpenFile;
use crate::store::file::{
    Change, KEYS, Operation, POSTINGS, PerSet, RowFamily, RowSink, Set, SetRow, Settings,
    SourceRows, all_sets, by_row, number_of,
};
use crate::store::numbers::{DocumentNumber, ScopeNumber};
use crate::store::sizes::Sizes;

/// The bytes of its pages that the engine may keep.
const PAGE_CACHE_BYTES: usize = 64 << 20;

/// Builds a file at `path`, where nothing may be yet, from valid documents with different keys.
///
/// Rows are sorted in `memory_bytes` of memory. Rows that do not fit go to files without a name in the
/// directory of `path`. `progress` is called with the rows that are packed, once all documents were read.
pub(crate) fn build(
    path: &Path,
    settings: &Settings,
    documents: impl Iterator<Item = Result<Document>>,
    memory_bytes: usize,
    sizes: &Sizes,
    progress: CopyProgress<'_>,
) -> Result<()> {
    ensure_nothing_at(path)?;
    let new = NewFile::create(directory_of(path)?)?;
    let fill = |builder: &mut Builder<'_>| {
        for document in documents {
            builder.add(&document?)?;
        }
        Ok(())
    };
    write(path, new, settings, fill, memory_bytes, sizes, progress)
}

/// What a new file takes over from another one beside its documents.
pub(crate) struct TakenOver<'a> {
    /// The other file. Whoever could not read it cannot read the new one.
    pub(crate) original: &'a File,
    /// The number of the next document. The documents that come first have lower numbers.
    pub(crate) next_document: u64,
    pub(crate) sources: &'a [Source],
}

/// Builds a file as [`build`] does, in which the documents have the numbers that they had in another file. The
/// numbers grow.
pub(crate) fn rebuild(
    path: &Path,
    settings: &Settings,
    documents: impl Iterator<Item = Result<(u64, Document)>>,
    taken: &TakenOver<'_>,
    memory_bytes: usize,
    sizes: &Sizes,
    progress: CopyProgress<'_>,
) -> Result<()> {
    let new = NewFile::copy_of(directory_of(path)?, taken.original)?;
    let fill = |builder: &mut Builder<'_>| {
        for document in documents {
            let (number, document) = document?;
            builder.bulk.edit.state.counters.next_document = number;
            builder.add(&document)?;
        }
        let edit = &mut builder.bulk.edit;
        edit.state.counters.next_document = taken.next_document;
        edit.put_sources(SourceRows::copied(taken.sources, settings.file));
        Ok(())
    };
    write(path, new, settings, fill, memory_bytes, sizes, progress)
}

/// Fills a new file, reads it back and gives it its name.
fn write(
    path: &Path,
    new: NewFile,
    settings: &Settings,
    fill: impl FnOnce(&mut Builder<'_>) -> Result<()>,
    memory_bytes: usize,
    sizes: &Sizes,
    progress: CopyProgress<'_>,
) -> Result<()> {
    let bulk = Bulk::new(new, path, settings, PAGE_CACHE_BYTES, sizes)?;
    let mut counter = Counter::new(progress);
    let builder = Builder::new(directory_of(path)?, settings, memory_bytes, bulk);
    let (temporary, open, same_hash) = builder.build(fill, &mut counter)?;
    verify(&open, settings, &same_hash, &mut counter).map_err(Error::of_file(path))?;
    temporary.keep_as(path)
}

/// Refuses a new file in which two documents have the same key, a block does not have its checksum, or
/// the rows are not as many as the documents that are counted.
fn verify(
    open: &Arc<OpenFile>,
    settings: &Settings,
    same_hash: &SameHash,
    counter: &mut Counter<'_>,
) -> Result<()> {
    const CACHE_BYTES: u64 = 1 << 20;
    let cache = Arc::new(BlockCache::new(CACHE_BYTES));
    let view = copy::verified(open, settings.clone(), cache, None, counter)?;
    same_hash.ensure_different_keys(|number| Ok(view.document(number)?.key().to_vec()))
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
    // A sorter keeps some rows even if there is hardly any memory.
    let mut sorters: Sorters = all_sets(tables)
        .map(|set| by_row!(set, _ => keep Sorter::new(directory, limit)))
        .collect();
    sorters[POSTINGS] = Sorter::new(directory, 2 * limit);
    sorters
}

impl<'a> Builder<'a> {
    fn new(directory: &Path, settings: &'a Settings, memory_bytes: usize, bulk: Bulk<'a>) -> Self {
        let sorters = sorters(directory, settings.plan.tables().len(), memory_bytes);
        let documents = DocumentsWriter::new(&bulk);
        Self {
            settings,
            bulk,
            documents,
            sorters,
            scopes: BTreeMap::new(),
        }
    }

    /// Takes all documents and writes the file. Returns it, synced under its temporary name, and the documents whose
    /// keys have the same hash.
    fn build(
        mut self,
        fill: impl FnOnce(&mut Self) -> Result<()>,
        counter: &mut Counter<'_>,
    ) -> Result<(Temporary, Arc<OpenFile>, SameHash)> {
        fill(&mut self)?;
        let Self {
            mut bulk,
            documents,
            sorters,
            scopes,
            ..
        } = self;
        documents.finish(&mut bulk)?;
        for set in sorters.sets() {
            counter.expect(by_row!(set, set => sorters[set].pushed()));
        }
        let mut same_hash = SameHash::default();
        for (set, sorter) in sorters.sets().zip(sorters) {
            by_row!(set, sorter, (set, sorter) => write_set(set, sorter, &mut bulk, &mut same_hash, counter)?);
        }
        bulk.edit.add_scopes(scopes);
        let (temporary, open) = bulk.finish()?;
        Ok((temporary, open, same_hash))
    }

    fn add(&mut self, document: &Document) -> Result<()> {
        self.settings.validate(document)?;
        let counters = &mut self.bulk.edit.state.counters;
        let number = counters.next_number()?;
        counters.count(document);
        self.documents.documents.push(number.0, document);
        self.documents.write_full(&mut self.bulk)?;
        let scope = self.scope_number(document.scope())?;
        let operation = Operation::new(Change::Put, number, document, scope, self.settings);
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

/// Writes the rows of a set. Adds documents whose keys have the same hash to `same_hash`.
fn write_set<R: SetRow>(
    set: Set<R>,
    sorter: Sorter<R>,
    bulk: &mut Bulk<'_>,
    same_hash: &mut SameHash,
    counter: &mut Counter<'_>,
) -> Result<()> {
    let mut left = sorter.pushed() as usize;
    bulk.write_set(set, |write| {
        sorter.finish(|rows| {
            left -= rows.len();
            counter.add(rows.len())?;
            if set.is(KEYS) {
                for row in rows {
                    same_hash.add(row.number());
                }
            }
            write(rows)
        })?;
        // The others were repetitions.
        counter.add(left)
    })
}

/// The documents whose keys have the same hash. Different keys may have the same hash, so the keys are
/// compared.
#[derive(Default)]
struct SameHash {
    /// The last row of the keys.
    last: Option<u128>,
    /// The documents of each hash that several have.
    groups: Vec<Vec<DocumentNumber>>,
}

impl SameHash {
    /// Adds a row of the keys. The rows come in order.
    fn add(&mut self, row: u128) {
        let Some(last) = self.last.replace(row) else {
            return;
        };
        // The hash is in the upper half of a row.
        if last >> 64 != row >> 64 {
            return;
        }
        match self.groups.last_mut() {
            Some(group) if group.last() == Some(&number_of(last)) => group.push(number_of(row)),
            _ => self.groups.push(vec![number_of(last), number_of(row)]),
        }
    }

    /// Refuses two documents with the same key.
    fn ensure_different_keys(
        &self,
        key_of: impl Fn(DocumentNumber) -> Result<Vec<u8>>,
    ) -> Result<()> {
        for group in &self.groups {
            let mut keys = HashSet::new();
            for &number in group {
                // Equal keys need not be neighbours: another key of the same hash may stand between them.
                if let Some(key) = keys.replace(key_of(number)?) {
                    return Err(Error::KeyRepeated {
                        key: String::from_utf8_lossy(&key).into_owned(),
                    });
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::ops::ControlFlow;

    use super::*;
    use crate::fingerprint::Fingerprint;
    use crate::store::file::key_row;

    /// Only neighbours were compared. So of three documents with keys of one hash the first and the last
    /// could have the same key, if the key between them was another.
    #[test]
    fn each_key_is_compared_with_all_keys_of_its_hash() -> Result<()> {
        let row = |hash, number| key_row(hash, DocumentNumber(number));
        let rows = [
            row(1, 9),
            row(3, 0),
            row(3, 4),
            row(3, 5),
            row(4, 6),
            row(7, 1),
            row(7, 2),
            row(8, 3),
        ];
        let mut same_hash = SameHash::default();
        rows.into_iter().for_each(|row| same_hash.add(row));
        let numbers = |group: &Vec<DocumentNumber>| group.iter().map(|it| it.0).collect::<Vec<_>>();
        let groups: Vec<_> = same_hash.groups.iter().map(numbers).collect();
        assert_eq!(groups, [vec![0, 4, 5], vec![1, 2]]);
        let own_key = |number: DocumentNumber| Ok(number.0.to_string().into_bytes());
        same_hash.ensure_different_keys(own_key)?;
        let a_b_a = |number| {
            if number == DocumentNumber(5) {
                own_key(DocumentNumber(0))
            } else {
                own_key(number)
            }
        };
        let refused = same_hash.ensure_different_keys(a_b_a);
        assert!(
            matches!(&refused, Err(Error::KeyRepeated { key }) if key == "0"),
            "{refused:?}"
        );
        Ok(())
    }

    /// A file that was built was not read back, as copies are. So what a bad disk wrote got its name.
    #[test]
    fn a_new_file_is_read_back() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let settings = Settings::for_tests();
        let new = NewFile::create(folder.path())?;
        let sizes = Sizes::default();
        // Without a cache, the engine has nothing to read but the file.
        let bulk = Bulk::new(new, folder.path(), &settings, 0, &sizes)?;
        let document =
            |i: u64| Document::new(format!("the key {i}"), Fingerprint::from_bits(i << 40));
        let documents = (0..20_000).map(|i| Ok(document(i).with_payload(*b"some bytes")));
        let mut progress = |_, _| ControlFlow::Continue(());
        let mut counter = Counter::new(&mut progress);
        let builder = Builder::new(folder.path(), &settings, 0, bulk);
        let (_temporary, open, same_hash) = builder.build(
            |builder| {
                documents
                    .into_iter()
                    .try_for_each(|document: Result<Document>| builder.add(&document?))
            },
            &mut counter,
        )?;
        verify(&open, &settings, &same_hash, &mut counter)?;
        let mut bytes = Vec::new();
        let mut file: &File = &open.file;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.read_to_end(&mut bytes))
            .expect("it can be read");
        let middle = bytes
            .windows(6)
            .rposition(|it| it == b"he key")
            .expect("a document is there");
        bytes[middle] ^= 1;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(&bytes))
            .expect("it can be written");
        let refused = verify(&open, &settings, &same_hash, &mut counter);
        assert!(
            matches!(
                refused,
                Err(Error::Damaged {
                    table: "documents",
                    ..
                })
            ),
            "{refused:?}"
        );
        Ok(())
    }
}
