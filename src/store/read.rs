//! Reading rows: the same for a snapshot and for a transaction that sees its own writes.

use std::fmt;
use std::sync::Arc;

use redb::{ReadableTable, ReadableTableMetadata, TableDefinition};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::guard::{Guarded, guarded};
use super::meta::{self, Counters, Settings};
use super::{DOCUMENTS, DocumentNumber, KEYS, META, POSTINGS, SCOPES, ScopeNumber, TOTALS};
use super::{engine_error, permuted, record};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::{Candidate, Permuted, Probe};

/// Opens tables by their definition.
pub(crate) trait Tables {
    fn open<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<impl ReadableTable<K, V>>;
}

/// Everything that is asked of a file. Errors are those of the engine, and [`Error::Damaged`] where a value
/// does not bear its checksum or rows contradict each other. A panic of the engine is an error too.
pub(crate) trait Read: Tables {
    fn settings(&self) -> &Arc<Settings>;

    fn counters(&self) -> Result<Counters>;

    /// Calls `each` with every fingerprint in the range of the probe, in the order of its table.
    fn candidates(&self, probe: &Probe, mut each: impl FnMut(Candidate)) -> Result<()> {
        guarded(|| {
            let table = self.open(permuted(probe.table))?;
            let permutation = &self.settings().plan.tables()[probe.table].permutation;
            let (low, high) = (probe.range.start().bits(), probe.range.end().bits());
            for row in table.range(low..=high).map_err(engine_error)? {
                let (key, _) = row.map_err(engine_error)?;
                each(Candidate::new(permutation.invert(Permuted::from_bits(key.value()))));
            }
            Ok(())
        })
    }

    /// Calls `each` with every stored fingerprint, in order, once for each scope that lists documents of it,
    /// [`ScopeNumber::ANY`] included, and how many these are.
    fn scan(&self, mut each: impl FnMut(Fingerprint, ScopeNumber, u64) -> Result<()>) -> Result<()> {
        guarded(|| {
            let table = self.open(TOTALS)?;
            for row in table.iter().map_err(engine_error)? {
                let (key, total) = row.map_err(engine_error)?;
                let (bits, scope) = key.value();
                each(Fingerprint::from_bits(bits), ScopeNumber(scope), total.value())?;
            }
            Ok(())
        })
    }

    /// How many documents of a fingerprint a scope lists.
    fn total(&self, fingerprint: Fingerprint, scope: ScopeNumber) -> Result<u64> {
        guarded(|| {
            let table = self.open(TOTALS)?;
            let row = table.get((fingerprint.bits(), scope.0)).map_err(engine_error)?;
            Ok(row.map_or(0, |total| total.value()))
        })
    }

    /// The newest documents of a fingerprint in a scope, newest first: at most `limit`, all below `below`.
    fn newest(
        &self,
        fingerprint: Fingerprint,
        scope: ScopeNumber,
        below: DocumentNumber,
        limit: usize,
    ) -> Result<Vec<DocumentNumber>> {
        guarded(|| {
            let table = self.open(POSTINGS)?;
            let bits = fingerprint.bits();
            let rows = table.range((bits, scope.0, 0)..(bits, scope.0, below.0)).map_err(engine_error)?;
            rows.rev()
                .take(limit)
                .map(|row| Ok(DocumentNumber(row.map_err(engine_error)?.0.value().2)))
                .collect()
        })
    }

    /// The document of a number, or `None` where there is none (any more).
    fn document(&self, number: DocumentNumber) -> Result<Option<Document>> {
        guarded(|| {
            let table = self.open(DOCUMENTS)?;
            let Some(bytes) = table.get(number.0).map_err(engine_error)? else { return Ok(None) };
            decode_document(number, bytes.value()).map(Some)
        })
    }

    /// The document of a number that some other row names, so that it has to be there.
    fn linked_document(&self, number: DocumentNumber) -> Result<Document> {
        self.document(number)?.ok_or_else(|| Error::Damaged {
            table: "documents",
            key: number.0.to_string(),
            problem: "it is missing, but another row refers to it",
        })
    }

    /// Up to `limit` documents with numbers from `from` on, in order; a damaged one does not hide the others.
    fn documents(
        &self,
        from: DocumentNumber,
        limit: usize,
    ) -> Result<Vec<(DocumentNumber, Result<Document>)>> {
        guarded(|| {
            let table = self.open(DOCUMENTS)?;
            let rows = table.range(from.0..).map_err(engine_error)?;
            rows.take(limit)
                .map(|row| {
                    let (number, bytes) = row.map_err(engine_error)?;
                    let number = DocumentNumber(number.value());
                    Ok((number, decode_document(number, bytes.value())))
                })
                .collect()
        })
    }

    /// The document of a key, with its number.
    fn find(&self, key: &[u8]) -> Result<Option<(DocumentNumber, Document)>> {
        guarded(|| {
            let table = self.open(KEYS)?;
            let hash = self.hash_of(key);
            for row in table.range((hash, 0)..=(hash, u64::MAX)).map_err(engine_error)? {
                let (row, _) = row.map_err(engine_error)?;
                let number = DocumentNumber(row.value().1);
                let document = self.linked_document(number)?;
                if document.key() == key {
                    return Ok(Some((number, document)));
                }
            }
            Ok(None)
        })
    }

    /// The number of a scope, or `None` where no document ever had it.
    fn scope_number(&self, name: &str) -> Result<Option<ScopeNumber>> {
        if name.is_empty() {
            return Ok(Some(ScopeNumber::EMPTY));
        }
        guarded(|| {
            let table = self.open(SCOPES)?;
            let Some(bytes) = table.get(name).map_err(engine_error)? else { return Ok(None) };
            decode_scope(name, bytes.value()).map(Some)
        })
    }

    /// Calls `each` with every scope that has a name.
    fn scopes(&self, mut each: impl FnMut(&str, Result<ScopeNumber>)) -> Result<()> {
        guarded(|| {
            let table = self.open(SCOPES)?;
            for row in table.iter().map_err(engine_error)? {
                let (name, bytes) = row.map_err(engine_error)?;
                each(name.value(), decode_scope(name.value(), bytes.value()));
            }
            Ok(())
        })
    }

    /// How many distinct fingerprints there are.
    fn fingerprints(&self) -> Result<u64> {
        guarded(|| self.open(permuted(0))?.len().map_err(engine_error))
    }

    /// How many rows the key directory, the postings and each permuted table have, for comparison by `check`.
    fn row_counts(&self) -> Result<RowCounts> {
        guarded(|| {
            let permuted_counts = (0..self.settings().plan.tables().len())
                .map(|table| self.open(permuted(table))?.len().map_err(engine_error))
                .collect::<Result<_>>()?;
            Ok(RowCounts {
                keys: self.open(KEYS)?.len().map_err(engine_error)?,
                postings: self.open(POSTINGS)?.len().map_err(engine_error)?,
                permuted: permuted_counts,
            })
        })
    }

    /// Whether a table holds a fingerprint.
    fn holds(&self, table: usize, fingerprint: Fingerprint) -> Result<bool> {
        guarded(|| {
            let key = self.settings().plan.tables()[table].permutation.apply(fingerprint).bits();
            Ok(self.open(permuted(table))?.get(key).map_err(engine_error)?.is_some())
        })
    }

    /// Whether a scope lists a document under a fingerprint.
    fn lists(&self, fingerprint: Fingerprint, scope: ScopeNumber, number: DocumentNumber) -> Result<bool> {
        guarded(|| {
            let key = (fingerprint.bits(), scope.0, number.0);
            Ok(self.open(POSTINGS)?.get(key).map_err(engine_error)?.is_some())
        })
    }

    /// How many documents of a fingerprint a scope lists, counted one by one.
    fn count_postings(&self, fingerprint: Fingerprint, scope: ScopeNumber) -> Result<u64> {
        guarded(|| {
            let table = self.open(POSTINGS)?;
            let row = |number: DocumentNumber| (fingerprint.bits(), scope.0, number.0);
            let rows =
                table.range(row(DocumentNumber::MIN)..=row(DocumentNumber::MAX)).map_err(engine_error)?;
            rows.map(|row| row.map(|_| 1).map_err(engine_error)).sum()
        })
    }

    fn hash_of(&self, key: &[u8]) -> u64 {
        xxh3_64_with_seed(key, self.settings().key_seed)
    }
}

/// How many rows the tables have whose rows can be counted without being read.
pub(crate) struct RowCounts {
    pub(crate) keys: u64,
    pub(crate) postings: u64,
    pub(crate) permuted: Vec<u64>,
}

fn decode_document(number: DocumentNumber, bytes: &[u8]) -> Result<Document> {
    record::decode_document(number, bytes).map_err(|problem| Error::Damaged {
        table: "documents",
        key: number.0.to_string(),
        problem,
    })
}

fn decode_scope(name: &str, bytes: &[u8]) -> Result<ScopeNumber> {
    record::decode_scope(name, bytes).map_err(|problem| Error::Damaged {
        table: "scopes",
        key: name.to_owned(),
        problem,
    })
}

/// Reads the counters from the meta table.
pub(super) fn read_counters(tables: &impl Tables) -> Result<Counters> {
    guarded(|| {
        let table = tables.open(META)?;
        let bytes = table.get(meta::COUNTERS).map_err(engine_error)?.ok_or_else(|| Error::Damaged {
            table: "meta",
            key: meta::COUNTERS.to_owned(),
            problem: "it is missing",
        })?;
        meta::decode_counters(bytes.value())
    })
}

/// What is committed at one moment.
pub(crate) struct Reader {
    txn: Guarded<redb::ReadTransaction>,
    settings: Arc<Settings>,
}

impl Reader {
    pub(super) fn new(txn: redb::ReadTransaction, settings: Arc<Settings>) -> Self {
        Self { txn: Guarded::new(txn), settings }
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Tables for Reader {
    fn open<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<impl ReadableTable<K, V>> {
        self.txn.open_table(definition).map_err(engine_error)
    }
}

impl Read for Reader {
    fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    fn counters(&self) -> Result<Counters> {
        read_counters(self)
    }
}
