//! Collects documents in batches and commits each batch. What happened is reported after the commit.

use std::ops::ControlFlow;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::cut_document::{CutDocument, Taken, keys_of};
use super::events::Event;
use super::records::Chunk;
use super::rejected::Rejected;
use crate::database::{Database, Policy, Verdict, WriteTxn};
use crate::document::Document;
use crate::error::Result;
use crate::source::Totals;
use crate::text::Unit;

/// The settings of an ingestion that concern its batches.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) policy: Policy,
    /// The number of records that are committed together.
    pub(super) batch: usize,
    /// Whether a bad record ends the ingestion.
    pub(super) strict: bool,
}

/// The current batch, and the events to report after its commit.
pub(super) struct Batches<'i, F> {
    database: &'i Database,
    settings: &'i Settings,
    /// What the documents are.
    unit: Unit,
    observe: F,
    txn: Option<WriteTxn>,
    pending: Vec<Pending>,
    /// The approximate memory that `pending` takes (bytes). Payloads can make verdicts large.
    pending_bytes: usize,
    in_batch: usize,
    pub(super) totals: Totals,
    began: Instant,
}

/// A batch ends when its pending events take more memory than this.
const MOST_PENDING_BYTES: usize = 64 << 20;

enum Pending {
    Duplicate(Box<(Document, Verdict)>),
    Rejected(Rejected),
}

impl<'i, F: FnMut(Event<'_>)> Batches<'i, F> {
    pub(super) fn new(database: &'i Database, settings: &'i Settings, unit: Unit, observe: F) -> Self {
        Self {
            database,
            settings,
            unit,
            observe,
            txn: None,
            pending: Vec::new(),
            pending_bytes: 0,
            in_batch: 0,
            totals: Totals::default(),
            began: Instant::now(),
        }
    }

    pub(super) fn take_all(&mut self, chunks: &mpsc::Receiver<Result<Chunk>>) -> Result<()> {
        loop {
            let chunk = match chunks.recv_timeout(Duration::from_secs(1)) {
                Ok(chunk) => chunk?,
                Err(RecvTimeoutError::Timeout) => {
                    self.commit()?;
                    continue;
                }
                // The last thing the thread sends is an empty chunk or an error, unless it panics.
                Err(RecvTimeoutError::Disconnected) => panic!("the thread that reads the input has panicked"),
            };
            if chunk.is_empty() {
                return Ok(());
            }
            self.take_chunk(chunk)?;
        }
    }

    fn take_chunk(&mut self, chunk: Chunk) -> Result<()> {
        let mut documents = Vec::new();
        for taken in chunk {
            match taken {
                Ok(Taken::Document(document)) => documents.push(document),
                Ok(Taken::Cut(cut)) => self.take_cut(cut, &mut documents)?,
                Err(rejected) => {
                    self.insert(std::mem::take(&mut documents))?;
                    self.reject(rejected)?;
                }
            }
        }
        self.insert(documents)
    }

    /// Takes a document in units. They join `documents`, which are not inserted yet, and are inserted with them
    /// when these are many.
    ///
    /// If the document is known, its old units are removed first. So no old unit is left, and none is a
    /// near-duplicate of a new one. The head is written with that, before the units. All of that is in one
    /// transaction, unless the pending events take too much memory: then the head tells where to look for the units
    /// that are durable.
    fn take_cut(&mut self, cut: CutDocument, documents: &mut Vec<Document>) -> Result<()> {
        const TOGETHER: usize = 1024;
        let CutDocument { head, count, judged, payload } = cut;
        if let Some(old) = self.transaction()?.find(head.key())? {
            // The same document may be among them.
            self.insert(std::mem::take(documents))?;
            let txn = self.transaction()?;
            let mut deleted = 0;
            for key in keys_of(&old) {
                deleted += u64::from(txn.delete(key)?.is_some());
            }
            self.totals.deleted += deleted;
        }
        self.transaction()?.insert(&head)?;
        self.in_batch += 1;
        self.totals.documents += 1;
        self.totals.units += count as u64;
        self.totals.too_short += (count - judged.len()) as u64;
        for unit in judged {
            documents.push(if payload.is_empty() { unit } else { unit.with_payload(payload.as_slice()) });
            if documents.len() >= TOGETHER {
                self.insert(std::mem::take(documents))?;
            }
        }
        if self.in_batch + documents.len() >= self.settings.batch {
            self.insert(std::mem::take(documents))?;
            self.commit()?;
        }
        Ok(())
    }

    /// The transaction of the current batch.
    fn transaction(&mut self) -> Result<&mut WriteTxn> {
        let begun = match self.txn.take() {
            Some(txn) => txn,
            None => self.database.begin_write()?,
        };
        Ok(self.txn.insert(begun))
    }

    fn reject(&mut self, rejected: Rejected) -> Result<()> {
        if self.settings.strict {
            return Err(rejected.into());
        }
        self.totals.rejected += 1;
        self.pending.push(Pending::Rejected(rejected));
        self.in_batch += 1;
        if self.is_full() { self.commit() } else { Ok(()) }
    }

    /// Inserts documents. Commits each time a batch is full. If the documents are units, a batch may end only behind
    /// the last unit of a record, and whoever cuts the records commits it.
    fn insert(&mut self, documents: Vec<Document>) -> Result<()> {
        let mut documents = documents.into_iter();
        while !documents.as_slice().is_empty() {
            let together = match self.unit {
                Unit::Document => documents.len().min(self.settings.batch - self.in_batch),
                Unit::Paragraph | Unit::Sentence => documents.len(),
            };
            let verdicts = self.insert_together(&documents.as_slice()[..together])?;
            for (verdict, document) in verdicts.into_iter().zip(documents.by_ref()) {
                self.in_batch += 1;
                // A document in units is counted with its head.
                self.totals.documents += u64::from(self.unit == Unit::Document);
                self.totals.add(&document, &verdict);
                if verdict.is_duplicate() {
                    self.pending.push(Pending::Duplicate(Box::new((document, verdict))));
                }
            }
            if self.pending_bytes > MOST_PENDING_BYTES || self.unit == Unit::Document && self.is_full() {
                self.commit()?;
            }
        }
        Ok(())
    }

    /// Inserts documents and returns their verdicts. Stops early when the pending events take too much
    /// memory.
    fn insert_together(&mut self, documents: &[Document]) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::with_capacity(documents.len());
        let mut bytes = self.pending_bytes;
        let settings = self.settings;
        let asked: Vec<_> = documents.iter().map(|document| (document, &settings.policy)).collect();
        let mut refused = Ok(());
        self.transaction()?.insert_each_if_new(&asked, |verdict| {
            let verdict = match verdict {
                Ok(verdict) => verdict,
                Err(error) => {
                    refused = Err(error);
                    return ControlFlow::Break(());
                }
            };
            if verdict.is_duplicate() {
                let listed = verdict.matches().iter().map(|found| &found.document);
                let listed = listed.chain(verdict.deleted()).chain([&documents[verdicts.len()]]);
                bytes += listed.map(Document::memory_bytes).sum::<usize>();
            }
            verdicts.push(verdict);
            if bytes > MOST_PENDING_BYTES { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        refused?;
        self.pending_bytes = bytes;
        Ok(verdicts)
    }

    fn is_full(&self) -> bool {
        self.in_batch >= self.settings.batch || self.pending_bytes > MOST_PENDING_BYTES
    }

    /// Commits the batch, then reports its events.
    pub(super) fn commit(&mut self) -> Result<()> {
        if let Some(txn) = self.txn.take() {
            txn.commit()?;
        }
        self.totals.elapsed = self.began.elapsed();
        for pending in self.pending.drain(..) {
            (self.observe)(match &pending {
                Pending::Duplicate(both) => Event::Duplicate { document: &both.0, verdict: &both.1 },
                Pending::Rejected(rejected) => Event::Rejected(rejected),
            });
        }
        self.pending_bytes = 0;
        if self.in_batch > 0 {
            self.in_batch = 0;
            (self.observe)(Event::Committed { totals: &self.totals });
        }
        Ok(())
    }
}
