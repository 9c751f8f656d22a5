//! Operation: a document that was put or removed, and the rows that this changes in each sorted set.

use super::meta::Settings;
use super::schema::{DEAD, KEYS, POSTINGS, Set, SetRow, key_row, permuted, posting_row};
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::plan::Plan;
use crate::store::numbers::{DocumentNumber, ScopeNumber};

/// A document that was put or removed, or whose bytes are gone. It has what the sorted sets need to know of
/// the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) change: Change,
    pub(crate) number: DocumentNumber,
    pub(crate) key_hash: u64,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) scope: ScopeNumber,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Put,
    Remove {
        /// Whether no other document has its fingerprint.
        fingerprint_gone: bool,
        /// Whether no block of documents has it: the same transaction put it, or takes its block out.
        unstored: bool,
    },
    /// The block of a document that was removed before is taken out.
    Forget,
}

/// Takes the rows that operations put and mark.
pub(crate) trait RowSink {
    type Error;

    fn put<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Self::Error>;
    fn mark<R: SetRow>(&mut self, set: Set<R>, row: R) -> Result<(), Self::Error>;
}

impl Operation {
    /// What is done to a document, whose scope has this number.
    pub(crate) fn new(
        change: Change,
        number: DocumentNumber,
        document: &Document,
        scope: ScopeNumber,
        settings: &Settings,
    ) -> Self {
        Self {
            change,
            number,
            key_hash: settings.key_hash(document.key()),
            fingerprint: document.fingerprint(),
            scope,
        }
    }

    /// The block of a dead document is taken out.
    pub(crate) fn forget(number: DocumentNumber) -> Self {
        Self {
            change: Change::Forget,
            number,
            key_hash: 0,
            fingerprint: None,
            scope: ScopeNumber::EMPTY,
        }
    }

    /// Gives `sink` the rows that the operation puts and marks. docs/format.md lists them, in the section
    /// on the log.
    pub(crate) fn give_rows<S: RowSink>(&self, plan: &Plan, sink: &mut S) -> Result<(), S::Error> {
        self.give_own_rows(sink)?;
        match self.fingerprint_change() {
            Some((put, fingerprint)) => give_fingerprint_rows(put, fingerprint, plan, sink),
            None => Ok(()),
        }
    }

    /// Does what [`give_rows`](Self::give_rows) does, for one permuted table.
    pub(super) fn give_row_of_table<S: RowSink>(
        &self,
        table: usize,
        plan: &Plan,
        sink: &mut S,
    ) -> Result<(), S::Error> {
        match self.fingerprint_change() {
            Some((put, fingerprint)) => give_permuted_row(put, fingerprint, table, plan, sink),
            None => Ok(()),
        }
    }

    /// The fingerprint whose rows the operation puts (true) or marks in the permuted tables.
    fn fingerprint_change(&self) -> Option<(bool, Fingerprint)> {
        let put = self.change == Change::Put;
        let gone = matches!(
            self.change,
            Change::Remove {
                fingerprint_gone: true,
                ..
            }
        );
        self.fingerprint
            .filter(|_| put || gone)
            .map(|fingerprint| (put, fingerprint))
    }

    /// Gives the rows that belong to this document alone. They have its number.
    pub(crate) fn give_own_rows<S: RowSink>(&self, sink: &mut S) -> Result<(), S::Error> {
        if self.change == Change::Forget {
            return sink.mark(DEAD, self.number.0);
        }
        let put = self.change == Change::Put;
        put_or_mark(put, KEYS, key_row(self.key_hash, self.number), sink)?;
        if let Change::Remove {
            unstored: false, ..
        } = self.change
        {
            sink.put(DEAD, self.number.0)?;
        }
        let Some(fingerprint) = self.fingerprint else {
            return Ok(());
        };
        for scope in self.scope.listing() {
            put_or_mark(
                put,
                POSTINGS,
                posting_row(fingerprint, scope, self.number),
                sink,
            )?;
        }
        Ok(())
    }
}

/// Gives the rows that all documents of a fingerprint share.
pub(crate) fn give_fingerprint_rows<S: RowSink>(
    put: bool,
    fingerprint: Fingerprint,
    plan: &Plan,
    sink: &mut S,
) -> Result<(), S::Error> {
    for table in 0..plan.tables().len() {
        give_permuted_row(put, fingerprint, table, plan, sink)?;
    }
    Ok(())
}

fn give_permuted_row<S: RowSink>(
    put: bool,
    fingerprint: Fingerprint,
    table: usize,
    plan: &Plan,
    sink: &mut S,
) -> Result<(), S::Error> {
    let row = plan.tables()[table].apply(fingerprint).bits();
    put_or_mark(put, permuted(table), row, sink)
}

fn put_or_mark<R: SetRow, S: RowSink>(
    put: bool,
    set: Set<R>,
    row: R,
    sink: &mut S,
) -> Result<(), S::Error> {
    if put {
        sink.put(set, row)
    } else {
        sink.mark(set, row)
    }
}
