//! Writing documents: each put or removed document changes every table that knows of it, or none.

use std::fmt;
use std::sync::Arc;

use redb::{ReadableTable, TableDefinition};

use super::guard::{Guarded, guarded};
use super::meta::{self, Counters, Settings};
use super::read::{Read, Tables, read_counters};
use super::{DOCUMENTS, DocumentNumber, KEYS, META, POSTINGS, SCOPES, ScopeNumber, TOTALS};
use super::{engine_error, permuted, record};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;

/// The one transaction that writes. Dropping it undoes it.
pub(crate) struct Writer {
    txn: Guarded<redb::WriteTransaction>,
    settings: Arc<Settings>,
    counters: Counters,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Unchanged,
    Changed,
    /// An operation stopped half-way, so the tables no longer agree.
    Broken,
}

impl Writer {
    pub(super) fn new(mut txn: redb::WriteTransaction, settings: Arc<Settings>) -> Result<Self> {
        // A crash is then followed by an opening in milliseconds, whatever the size of the file.
        txn.set_quick_repair(true);
        let mut writer =
            Self { txn: Guarded::new(txn), settings, counters: Counters::NEW, state: State::Unchanged };
        writer.counters = read_counters(&writer)?;
        Ok(writer)
    }

    /// Stores a valid document, and returns the one of the same key that it replaces.
    pub(crate) fn put(&mut self, document: &Document) -> Result<Option<Document>> {
        self.all_or_broken(|writer| {
            let replaced = writer.find(document.key())?;
            // First the new rows, then away with the old: a fingerprint that stays is not removed in between.
            writer.link(document)?;
            if let Some((number, old)) = &replaced {
                writer.unlink(*number, old)?;
            }
            Ok(replaced.map(|(_, old)| old))
        })
    }

    /// Removes the document of a key and returns it.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<Option<Document>> {
        self.all_or_broken(|writer| {
            let Some((number, document)) = writer.find(key)? else { return Ok(None) };
            writer.unlink(number, &document)?;
            Ok(Some(document))
        })
    }

    /// Makes everything durable at once. Without a change nothing is written.
    pub(crate) fn commit(self) -> Result<()> {
        self.ensure_whole()?;
        guarded(|| {
            if self.state == State::Unchanged {
                return self.txn.into_inner().abort().map_err(engine_error);
            }
            let mut table = self.txn.open_table(META).map_err(engine_error)?;
            let counters = meta::encode_counters(&self.counters);
            table.insert(meta::COUNTERS, counters.as_slice()).map_err(engine_error)?;
            drop(table);
            self.txn.into_inner().commit().map_err(engine_error)
        })
    }

    /// Refuses a transaction of which an operation stopped half-way.
    pub(crate) fn ensure_whole(&self) -> Result<()> {
        if self.state == State::Broken { Err(Error::Aborted) } else { Ok(()) }
    }

    /// Runs one operation; if it fails, the transaction can only be dropped.
    fn all_or_broken<T>(&mut self, operation: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.ensure_whole()?;
        self.state = State::Broken;
        let value = guarded(|| operation(self))?;
        self.state = State::Changed;
        Ok(value)
    }

    fn link(&mut self, document: &Document) -> Result<()> {
        let number = DocumentNumber(self.counters.next_document);
        self.counters.next_document += 1;
        self.counters.documents += 1;
        let bytes = record::encode_document(number, document);
        let hash = self.hash_of(document.key());
        let mut documents = self.txn.open_table(DOCUMENTS).map_err(engine_error)?;
        documents.insert(number.0, bytes.as_slice()).map_err(engine_error)?;
        drop(documents);
        self.txn
            .open_table(KEYS)
            .map_err(engine_error)?
            .insert((hash, number.0), ())
            .map_err(engine_error)?;
        let Some(fingerprint) = document.fingerprint() else {
            self.counters.too_short += 1;
            return Ok(());
        };
        for scope in self.scope_number_or_new(document.scope())?.listing() {
            let key = (fingerprint.bits(), scope.0, number.0);
            self.txn.open_table(POSTINGS).map_err(engine_error)?.insert(key, ()).map_err(engine_error)?;
            self.change_total(fingerprint, scope, 1)?;
        }
        self.add_fingerprint(fingerprint)
    }

    fn unlink(&mut self, number: DocumentNumber, document: &Document) -> Result<()> {
        self.counters.documents = self.counters.documents.saturating_sub(1);
        let hash = self.hash_of(document.key());
        self.txn.open_table(DOCUMENTS).map_err(engine_error)?.remove(number.0).map_err(engine_error)?;
        self.txn.open_table(KEYS).map_err(engine_error)?.remove((hash, number.0)).map_err(engine_error)?;
        let Some(fingerprint) = document.fingerprint() else {
            self.counters.too_short = self.counters.too_short.saturating_sub(1);
            return Ok(());
        };
        for scope in self.scope_number_or_new(document.scope())?.listing() {
            let key = (fingerprint.bits(), scope.0, number.0);
            self.txn.open_table(POSTINGS).map_err(engine_error)?.remove(key).map_err(engine_error)?;
            self.change_total(fingerprint, scope, -1)?;
        }
        for &scope in ScopeNumber::ALL_DOCUMENTS {
            if self.total(fingerprint, scope)? > 0 {
                return Ok(());
            }
        }
        self.remove_fingerprint(fingerprint)
    }

    fn change_total(&self, fingerprint: Fingerprint, scope: ScopeNumber, change: i64) -> Result<()> {
        let mut table = self.txn.open_table(TOTALS).map_err(engine_error)?;
        let key = (fingerprint.bits(), scope.0);
        let before = table.get(key).map_err(engine_error)?.map_or(0, |total| total.value());
        match before.checked_add_signed(change) {
            Some(0) => drop(table.remove(key).map_err(engine_error)?),
            Some(after) => drop(table.insert(key, after).map_err(engine_error)?),
            None => {
                return Err(Error::Damaged {
                    table: "totals",
                    key: format!("{fingerprint}, {}", scope.0),
                    problem: "it counts fewer documents than there are",
                });
            }
        }
        Ok(())
    }

    fn add_fingerprint(&self, fingerprint: Fingerprint) -> Result<()> {
        for (number, table) in self.settings.plan.tables().iter().enumerate() {
            let key = table.permutation.apply(fingerprint).bits();
            let mut rows = self.txn.open_table(permuted(number)).map_err(engine_error)?;
            if rows.insert(key, ()).map_err(engine_error)?.is_some() {
                // All tables hold the same fingerprints.
                break;
            }
        }
        Ok(())
    }

    fn remove_fingerprint(&self, fingerprint: Fingerprint) -> Result<()> {
        for (number, table) in self.settings.plan.tables().iter().enumerate() {
            let key = table.permutation.apply(fingerprint).bits();
            self.txn.open_table(permuted(number)).map_err(engine_error)?.remove(key).map_err(engine_error)?;
        }
        Ok(())
    }

    fn scope_number_or_new(&mut self, name: &str) -> Result<ScopeNumber> {
        if let Some(number) = self.scope_number(name)? {
            return Ok(number);
        }
        let number = ScopeNumber(self.counters.next_scope);
        if number == ScopeNumber::ANY {
            return Err(Error::TooManyScopes);
        }
        self.counters.next_scope += 1;
        let bytes = record::encode_scope(name, number);
        self.txn
            .open_table(SCOPES)
            .map_err(engine_error)?
            .insert(name, bytes.as_slice())
            .map_err(engine_error)?;
        Ok(number)
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("counters", &self.counters).finish_non_exhaustive()
    }
}

impl Tables for Writer {
    fn open<K: redb::Key + 'static, V: redb::Value + 'static>(
        &self,
        definition: TableDefinition<'static, K, V>,
    ) -> Result<impl ReadableTable<K, V>> {
        self.txn.open_table(definition).map_err(engine_error)
    }
}

impl Read for Writer {
    fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    fn counters(&self) -> Result<Counters> {
        Ok(self.counters)
    }
}
