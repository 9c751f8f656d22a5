//! Collects documents in batches and commits each batch, together with the places up to which the inputs were read.

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::ingestion::{Event, Ingested, add_verdict};
use super::input::{Mark, Origin};
use super::records::Step;
use super::rejected::Rejected;
use super::resuming::{Noted, Sources};
use super::stored_bytes::Stop;
use super::units::{CutDocument, Taken, keys_of};
use crate::database::{Database, Policy, WriteTxn};
use crate::document::Document;
use crate::error::{Error, Result};
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
    /// Whether near-duplicates are looked for.
    pub(super) asks: bool,
    /// Says whether the ingestion is to end.
    pub(super) stop: Stop,
}

impl Settings {
    /// The same settings, without the documents that are to be ignored.
    pub(super) fn ignoring(&self, sources: &Sources) -> Self {
        let policy = self.policy.clone().ignoring(sources.ignored.clone());
        Self {
            policy,
            ..self.clone()
        }
    }
}

/// The current batch, and what was read so far.
pub(super) struct Batches<'i, F> {
    database: &'i Database,
    settings: &'i Settings,
    /// What the documents are.
    unit: Unit,
    observe: F,
    txn: Option<WriteTxn>,
    in_batch: usize,
    /// How far the inputs were read.
    sources: Sources,
    /// The input that is being read, and the place behind the last record that was taken.
    at: Option<(Arc<Origin>, Mark)>,
    /// What was read before the place of an input was noted last.
    totals: Totals,
    /// The number of inputs that could not be read, or not further.
    failed: u64,
    /// What was read since then.
    since: Totals,
    noted: Instant,
    /// The number that the next document got then.
    next_number: u64,
    /// Whether what is read is a last line that has no line end.
    is_last_line: bool,
    /// When the oldest record was read that is not committed.
    oldest: Option<Instant>,
}

/// A batch is committed when its oldest record is so old, however few there are. With the commit itself, that makes a
/// second at most.
const OLDEST: Duration = Duration::from_millis(800);
/// How often it is asked whether the ingestion is to end.
const LOOK: Duration = Duration::from_millis(100);

impl<'i, F: FnMut(Event<'_>) -> ControlFlow<()>> Batches<'i, F> {
    pub(super) fn new(
        database: &'i Database,
        settings: &'i Settings,
        unit: Unit,
        sources: Sources,
        observe: F,
        began: Instant,
    ) -> Self {
        Self {
            database,
            settings,
            unit,
            observe,
            txn: None,
            in_batch: 0,
            totals: Totals::default(),
            failed: 0,
            sources,
            at: None,
            since: Totals::default(),
            noted: began,
            next_number: 0,
            is_last_line: false,
            oldest: None,
        }
    }

    /// Takes all records. Breaks if the observer does: then the batch must not be committed.
    pub(super) fn take_all(
        &mut self,
        chunks: &mpsc::Receiver<Result<Vec<Step>>>,
    ) -> Result<ControlFlow<()>> {
        while !self.settings.stop.is_asked() {
            let taken = match chunks.recv_timeout(self.left_to_wait().min(LOOK)) {
                // The reading was stopped. What was read is committed.
                Ok(Err(Error::Interrupted)) => break,
                Ok(chunk) => {
                    let chunk = chunk?;
                    if chunk.is_empty() {
                        break;
                    }
                    let came = Instant::now();
                    let flow = self.take_chunk(chunk)?;
                    // What was committed in between is not waiting any more.
                    if self.at.is_some() {
                        self.oldest.get_or_insert(came);
                    }
                    flow
                }
                Err(RecvTimeoutError::Timeout) => ControlFlow::Continue(()),
                // The last thing the thread sends is an empty chunk or an error, unless it panics.
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the thread that reads the input has panicked")
                }
            };
            if taken.is_break() || self.left_to_wait().is_zero() && self.commit()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if self.sources.has_changed() {
            self.transaction()?;
        }
        self.commit()
    }

    /// How long the batch may wait for more records.
    fn left_to_wait(&self) -> Duration {
        self.oldest.map_or(Duration::MAX, |oldest| {
            OLDEST.saturating_sub(oldest.elapsed())
        })
    }

    fn take_chunk(&mut self, chunk: Vec<Step>) -> Result<ControlFlow<()>> {
        let mut waiting = Waiting::default();
        for step in chunk {
            if step.is_last_line || step.is_again {
                if self.insert(&mut waiting)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                self.begin_line(&step)?;
            }
            let Step {
                taken,
                input,
                mark,
                is_lasting,
                ..
            } = step;
            let flow = match taken {
                Some(Ok(Taken::Document { document, lines })) => {
                    let path = input.path.clone();
                    waiting.push(document, input, mark);
                    match lines {
                        None => continue,
                        Some(lines) => (self.observe)(Event::List { path: &path, lines }),
                    }
                }
                Some(Ok(Taken::Cut(cut))) => self.take_cut(cut, &mut waiting, input, mark)?,
                Some(Ok(Taken::PassedOver)) => {
                    let flow = self.insert(&mut waiting)?;
                    self.since.passed_over += 1;
                    self.at = Some((input, mark));
                    flow
                }
                Some(Ok(Taken::Left(rejected))) => {
                    self.since.left += 1;
                    self.in_batch += 1;
                    self.at = Some((input, mark));
                    (self.observe)(Event::Left(&rejected))
                }
                Some(Err(rejected)) => {
                    let flow = self.insert(&mut waiting)?;
                    match rejected.is_input() {
                        _ if flow.is_break() => flow,
                        true => self.fail(&rejected, &input, mark, is_lasting)?,
                        false => self.reject(&rejected, input, mark)?,
                    }
                }
                None => {
                    let flow = self.insert(&mut waiting)?;
                    self.at = Some((input, mark));
                    self.note(true)?;
                    flow
                }
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        self.insert(&mut waiting)
    }

    /// Before a last line without a line end: what comes from here on is counted apart. Before a line that was one when
    /// it was read before: what was stored of it goes, and counts for nothing.
    fn begin_line(&mut self, step: &Step) -> Result<()> {
        if step.is_last_line {
            self.note(false)?;
            self.is_last_line = true;
        }
        if let (true, Some(Ok(Taken::Document { document, .. }))) = (step.is_again, &step.taken) {
            self.transaction()?.delete(document.key())?;
        }
        Ok(())
    }

    /// Takes a document in units. They join those that are waiting, and are inserted with them when these are many.
    ///
    /// If the document is known, its old units are removed first. So no old unit is left, and none is a
    /// near-duplicate of a new one. The head is written with that, before the units. All of that is in one
    /// transaction.
    fn take_cut(
        &mut self,
        cut: CutDocument,
        waiting: &mut Waiting,
        input: Arc<Origin>,
        mark: Mark,
    ) -> Result<ControlFlow<()>> {
        const TOGETHER: usize = 1024;
        let CutDocument {
            head,
            count,
            judged,
            payload,
        } = cut;
        if let Some(old) = self.transaction()?.find(head.key())? {
            // The same document may be among them.
            if self.insert(waiting)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            let txn = self.transaction()?;
            let mut deleted = 0;
            for key in keys_of(&old) {
                deleted += u64::from(txn.delete(key)?.is_some());
            }
            self.since.deleted += deleted;
        }
        self.transaction()?.insert(&head)?;
        self.in_batch += 1;
        self.since.documents += 1;
        self.since.units += count as u64;
        self.since.too_short += (count - judged.len()) as u64;
        for unit in judged {
            let unit = if payload.is_empty() {
                unit
            } else {
                unit.with_payload(payload.as_slice())
            };
            waiting.push_unit(unit);
            if waiting.documents.len() >= TOGETHER && self.insert(waiting)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        // Behind the last unit, a batch may end.
        waiting.behind = Some((input, mark));
        if self.in_batch + waiting.documents.len() < self.settings.batch {
            return Ok(ControlFlow::Continue(()));
        }
        let flow = self.insert(waiting)?;
        if flow.is_break() {
            Ok(flow)
        } else {
            self.commit()
        }
    }

    /// The transaction of the current batch.
    fn transaction(&mut self) -> Result<&mut WriteTxn> {
        let begun = match self.txn.take() {
            Some(txn) => txn,
            None => {
                let txn = self.database.begin_write()?;
                // Others may have written in the meantime.
                self.next_number = txn.next_number();
                self.sources.begin_transaction();
                txn
            }
        };
        Ok(self.txn.insert(begun))
    }

    fn reject(
        &mut self,
        rejected: &Rejected,
        input: Arc<Origin>,
        mark: Mark,
    ) -> Result<ControlFlow<()>> {
        if self.settings.strict {
            return Err(rejected.to_error());
        }
        self.since.rejected += 1;
        self.in_batch += 1;
        self.at = Some((input, mark));
        let flow = (self.observe)(Event::Rejected(rejected));
        if flow.is_continue() && self.in_batch >= self.settings.batch {
            self.commit()
        } else {
            Ok(flow)
        }
    }

    /// Tells that an input cannot be read further, and keeps that if it is so as long as its content is the same.
    fn fail(
        &mut self,
        rejected: &Rejected,
        input: &Origin,
        mark: Mark,
        is_lasting: bool,
    ) -> Result<ControlFlow<()>> {
        let error = rejected.to_error();
        if self.settings.strict {
            return Err(error);
        }
        self.failed += 1;
        if self.at.is_some() {
            self.note(false)?;
        }
        // What comes next is of another input.
        self.at = None;
        let reason = rejected.reason.to_string();
        if self
            .sources
            .fail(input, mark, is_lasting.then_some(&reason))
        {
            self.transaction()?;
            self.oldest.get_or_insert_with(Instant::now);
        }
        Ok((self.observe)(Event::Failed {
            path: &rejected.path,
            error: &error,
            is_lasting,
        }))
    }

    /// Inserts the documents that are waiting. Commits each time a batch is full. If the documents are units, a batch
    /// may end only behind the last unit of a record, and whoever cuts the records commits it.
    fn insert(&mut self, waiting: &mut Waiting) -> Result<ControlFlow<()>> {
        let Waiting {
            documents,
            marks,
            behind,
        } = mem::take(waiting);
        let is_whole = self.unit == Unit::Document;
        let mut from = 0;
        while from < documents.len() {
            let left = documents.len() - from;
            let together = if is_whole {
                left.min(self.settings.batch - self.in_batch)
            } else {
                left
            };
            let inserted = self.insert_together(&documents[from..from + together])?;
            if inserted.is_break() {
                return Ok(inserted);
            }
            from += together;
            self.in_batch += together;
            if let Some(at) = marks.get(from - 1) {
                self.at = Some(at.clone());
            }
            if is_whole && self.in_batch >= self.settings.batch && self.commit()?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        if behind.is_some() {
            self.at = behind;
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Inserts documents, and reports those that have near-duplicates.
    fn insert_together(&mut self, documents: &[Document]) -> Result<ControlFlow<()>> {
        let settings = self.settings;
        let is_whole = self.unit == Unit::Document;
        if !settings.asks {
            for document in documents {
                let old = self.transaction()?.insert(document)?;
                self.since.documents += u64::from(is_whole);
                self.since.inserted += u64::from(old.is_none());
                self.since.replaced += u64::from(old.is_some());
                self.since.too_short += u64::from(document.fingerprint().is_none());
            }
            return Ok(ControlFlow::Continue(()));
        }
        let asked: Vec<_> = documents
            .iter()
            .map(|document| (document, &settings.policy))
            .collect();
        let (mut refused, mut stopped) = (Ok(()), ControlFlow::Continue(()));
        let mut left = documents.iter();
        self.transaction()?;
        let (Some(txn), since, observe) = (&mut self.txn, &mut self.since, &mut self.observe)
        else {
            unreachable!("it has just begun")
        };
        txn.insert_each_if_new(&asked, |verdict| {
            let (Ok(verdict), Some(document)) =
                (verdict.map_err(|error| refused = Err(error)), left.next())
            else {
                return ControlFlow::Break(());
            };
            // A document in units is counted with its head.
            since.documents += u64::from(is_whole);
            add_verdict(since, document, &verdict);
            if verdict.is_duplicate() {
                stopped = observe(Event::Duplicate {
                    document,
                    verdict: &verdict,
                });
            }
            stopped
        })?;
        refused.map(|()| stopped)
    }

    /// Notes how far the current input was read, and whether it has ended.
    fn note(&mut self, has_ended: bool) -> Result<()> {
        let Some((input, mark)) = self.at.clone() else {
            return Ok(());
        };
        let next_number = self.transaction()?.next_number();
        let now = Instant::now();
        let mut totals = mem::take(&mut self.since);
        totals.elapsed = now - self.noted;
        self.totals.add_all(&totals);
        let numbers = self.next_number..next_number;
        (self.noted, self.next_number) = (now, next_number);
        let is_last_line = self.is_last_line;
        self.sources.note(
            &input,
            mark,
            Noted {
                totals,
                numbers,
                has_ended,
                is_last_line,
            },
        );
        // What comes next is of another input.
        if has_ended {
            (self.at, self.is_last_line) = (None, false);
        }
        Ok(())
    }

    /// Commits the batch, after all of its events were reported.
    fn commit(&mut self) -> Result<ControlFlow<()>> {
        self.note(false)?;
        if let Some(mut txn) = self.txn.take() {
            self.sources.write(&mut txn)?;
            if (self.observe)(Event::Reported).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            txn.commit()?;
        }
        // When it is read further, that is noted anew.
        (self.at, self.oldest) = (None, None);
        if mem::take(&mut self.in_batch) == 0 {
            return Ok(ControlFlow::Continue(()));
        }
        Ok((self.observe)(Event::Committed {
            totals: &self.totals,
        }))
    }

    /// Commits the records before an error of the input.
    pub(super) fn commit_before(&mut self) -> Result<()> {
        self.commit().map(drop)
    }

    /// What was done.
    pub(super) fn ingested(&self) -> Ingested {
        let Self {
            totals: now,
            failed,
            sources,
            ..
        } = self;
        Ingested {
            now: *now,
            in_all: sources.in_all(),
            unchanged: sources.unchanged,
            failed: *failed,
        }
    }
}

/// Documents that are not inserted yet.
#[derive(Default)]
struct Waiting {
    documents: Vec<Document>,
    /// The place behind each document. There is none if the documents are units.
    marks: Vec<(Arc<Origin>, Mark)>,
    /// The place behind the last record that is wholly among them.
    behind: Option<(Arc<Origin>, Mark)>,
}

impl Waiting {
    fn push(&mut self, document: Document, input: Arc<Origin>, mark: Mark) {
        self.documents.push(document);
        self.marks.push((input, mark));
    }

    fn push_unit(&mut self, unit: Document) {
        self.documents.push(unit);
    }
}
