//! Operation: a document that was put or removed, its bytes in the log, and the rows that it changes in each
//! sorted set.

use super::meta::Settings;
use super::schema::{DEAD, KEYS, POSTINGS, Set, SetRow, key_row, permuted, posting_row};
use crate::document::Document;
use crate::fingerprint::Fingerprint;
use crate::plan::Plan;
use crate::store::blocks::{Fields, Problem};
use crate::store::numbers::{DocumentNumber, ScopeNumber};

/// The flags of an operation in the log.
const HAS_FINGERPRINT: u8 = 1;
const REMOVE: u8 = 2;
const FINGERPRINT_GONE: u8 = 4;
const UNSTORED: u8 = 8;
const FORGET: u8 = 16;

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
        match self.fingerprint {
            Some(fingerprint) if put || gone => Some((put, fingerprint)),
            _ => None,
        }
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

    /// Writes the operation as a page of the log has it: in 25 bytes.
    pub(super) fn encode(&self, bytes: &mut Vec<u8>) {
        let mut flags = match self.change {
            Change::Put => 0,
            Change::Forget => FORGET,
            Change::Remove {
                fingerprint_gone,
                unstored,
            } => REMOVE | flag(fingerprint_gone, FINGERPRINT_GONE) | flag(unstored, UNSTORED),
        };
        flags |= flag(self.fingerprint.is_some(), HAS_FINGERPRINT);
        bytes.push(flags);
        bytes.extend(&self.number.0.to_le_bytes()[..5]);
        bytes.extend(self.key_hash.to_le_bytes());
        let fingerprint = self.fingerprint.map_or(0, Fingerprint::bits);
        bytes.extend(fingerprint.to_le_bytes());
        bytes.extend(&self.scope.0.to_le_bytes()[..3]);
    }

    /// Reads an operation back.
    pub(super) fn decode(fields: &mut Fields<'_>) -> Result<Self, Problem> {
        let [flags] = fields.take()?;
        if flags & !(HAS_FINGERPRINT | REMOVE | FINGERPRINT_GONE | UNSTORED) != 0 && flags != FORGET
        {
            return Err("it has flags this release does not know");
        }
        let mut number = [0; 8];
        number[..5].copy_from_slice(fields.take_slice(5)?);
        let key_hash = u64::from_le_bytes(fields.take()?);
        let bits = u64::from_le_bytes(fields.take()?);
        let mut scope = [0; 4];
        scope[..3].copy_from_slice(fields.take_slice(3)?);
        let change = if flags == FORGET {
            Change::Forget
        } else if flags & REMOVE == 0 {
            Change::Put
        } else {
            Change::Remove {
                fingerprint_gone: flags & FINGERPRINT_GONE != 0,
                unstored: flags & UNSTORED != 0,
            }
        };
        Ok(Self {
            change,
            number: DocumentNumber(u64::from_le_bytes(number)),
            key_hash,
            fingerprint: (flags & HAS_FINGERPRINT != 0).then_some(Fingerprint::from_bits(bits)),
            scope: ScopeNumber(u32::from_le_bytes(scope)),
        })
    }
}

fn flag(is_set: bool, flag: u8) -> u8 {
    if is_set { flag } else { 0 }
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
