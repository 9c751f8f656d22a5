//! Collects documents in batches and commits each batch, together with the places up to which the inputs were read.

use std::mem;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::ingestion::{Event, Ingested, Settings};
use super::input::{Mark, Origin};
use super::records::{Step, Taken};
use super::rejected::Rejected;
use super::resuming::{Noted, Resumption, Sources};
use super::units::{CutDocument, keys_of};
use crate::database::{Change, Database, Policy, Verdict, WriteTxn};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::source::Totals;
use crate::text::Unit;

/// The current batch, and what was read so far.
///
/// Whatever ends an ingestion is an error here. Nothing is committed after one but by a caller that knows that the
/// error is one of an input.
pub(super) struct Batches<'i, F> {
    database: &'i Database,
    settings: &'i Settings,
    policy: Policy,
    /// What the documents are.
    unit: Unit,
    /// Takes the events. Its error ends the ingestion.
    report: F,
    txn: Option<WriteTxn>,
    /// Documents of the batch that are not inserted yet.
    waiting: Waiting,
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
/// So many units are inserted together.
const UNITS_TOGETHER: usize = 1024;

impl<'i, F: FnMut(Event<'_>) -> Result<()>> Batches<'i, F> {
    pub(super) fn new(
        database: &'i Database,
        settings: &'i Settings,
        unit: Unit,
        sources: Sources,
        report: F,
        began: Instant,
    ) -> Self {
        Self {
            database,
            settings,
            policy: settings.policy.clone().ignoring(sources.ignored()),
            unit,
            report,
            txn: None,
            waiting: Waiting::default(),
            in_batch: 0,
            sources,
            at: None,
            totals: Totals::default(),
            failed: 0,
            since: Totals::default(),
            noted: began,
            next_number: 0,
            is_last_line: false,
            oldest: None,
        }
    }

    /// Reports how the inputs are read that were read before.
    pub(super) fn report_sources(
        &mut self,
        paths: &[PathBuf],
        resumptions: &[Resumption],
    ) -> Result<()> {
        for &Resumption { index, resumed } in resumptions {
            let path = &paths[index];
            (self.report)(Event::Source { path, resumed })?;
        }
        Ok(())
    }

    /// Takes all records.
    pub(super) fn take_all(&mut self, chunks: &mpsc::Receiver<Result<Vec<Step>>>) -> Result<()> {
        while !self.settings.stop.is_asked() {
            match chunks.recv_timeout(self.left_to_wait().min(LOOK)) {
                // The reading was stopped. What was read is committed.
                Ok(Err(Error::Interrupted)) => break,
                Ok(chunk) => {
                    let chunk = chunk?;
                    if chunk.is_empty() {
                        break;
                    }
                    let came = Instant::now();
                    self.take_chunk(chunk)?;
                    // What was committed in between is not waiting any more.
                    if self.at.is_some() {
                        self.oldest.get_or_insert(came);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                // The last thing the thread sends is an empty chunk or an error, unless it panics.
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("the thread that reads the input has panicked")
                }
            }
            if self.left_to_wait().is_zero() {
                self.commit()?;
            }
        }
        if self.sources.has_changed() {
            self.transaction()?;
        }
        self.commit()
    }

    /// How long the batch may wait for more records.
    fn left_to_wait(&self) -> Duration {
        match self.oldest {
            Some(oldest) => OLDEST.saturating_sub(oldest.elapsed()),
            None => Duration::MAX,
        }
    }

    fn take_chunk(&mut self, chunk: Vec<Step>) -> Result<()> {
        for step in chunk {
            if step.is_last_line || step.is_again {
                self.insert()?;
                self.begin_line(&step)?;
            }
            self.take(step)?;
        }
        self.insert()
    }

    /// Before a last line without a line end: what comes from here on is counted apart. Before a line that was one when
    /// it was read before: what was stored of it goes, and counts for nothing.
    fn begin_line(&mut self, step: &Step) -> Result<()> {
        if step.is_last_line {
            self.note(false)?;
            self.is_last_line = true;
        }
        if step.is_again
            && let Taken::Document { document, .. } = &step.taken
        {
            self.transaction()?.delete(document.key())?;
        }
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<()> {
        let Step {
            taken, input, mark, ..
        } = step;
        match taken {
            Taken::Document { document, lines } => {
                if let Some(lines) = lines {
                    let path = &input.path;
                    (self.report)(Event::List { path, lines })?;
                }
                self.waiting.documents.push(document);
                self.waiting.marks.push((input, mark));
            }
            Taken::Cut(cut) => self.take_cut(cut, input, mark)?,
            Taken::PassedOver => {
                self.insert()?;
                self.since.passed_over += 1;
                self.at = Some((input, mark));
            }
            Taken::Left(rejected) => {
                self.since.left += 1;
                self.in_batch += 1;
                self.at = Some((input, mark));
                (self.report)(Event::Left(&rejected))?;
                self.commit_if_full()?;
            }
            Taken::Rejected(rejected) => {
                self.insert()?;
                self.reject(&rejected, input, mark)?;
            }
            Taken::Failed {
                rejected,
                is_lasting,
            } => {
                self.insert()?;
                self.fail(&rejected, &input, mark, is_lasting)?;
            }
            Taken::End => {
                self.insert()?;
                self.at = Some((input, mark));
                self.note(true)?;
            }
        }
        Ok(())
    }

    /// Takes a document in units. They join those that are waiting, and are inserted with them when these are many.
    ///
    /// If the document is known, its old units are removed first. So no old unit is left, and none is a
    /// near-duplicate of a new one. The head is written with that, before the units. All of that is in one
    /// transaction.
    fn take_cut(&mut self, cut: CutDocument, input: Arc<Origin>, mark: Mark) -> Result<()> {
        if let Some(old) = self.transaction()?.find(cut.head.key())? {
            // The same document may be among them.
            self.insert()?;
            let mut deleted = 0;
            let txn = self.transaction()?;
            for key in keys_of(&old) {
                deleted += u64::from(txn.delete(key)?.is_some());
            }
            self.since.deleted += deleted;
        }
        self.transaction()?.insert(&cut.head)?;
        self.in_batch += 1;
        self.since.documents += 1;
        self.since.units += cut.count as u64;
        self.since.too_short += (cut.count - cut.judged.len()) as u64;
        for mut unit in cut.judged {
            if !cut.payload.is_empty() {
                unit = unit.with_payload(cut.payload.as_slice());
            }
            self.waiting.documents.push(unit);
            if self.waiting.documents.len() >= UNITS_TOGETHER {
                self.insert()?;
            }
        }
        // Behind the last unit, a batch may end.
        self.waiting.behind = Some((input, mark));
        if self.in_batch + self.waiting.documents.len() < self.settings.batch {
            return Ok(());
        }
        self.insert()?;
        self.commit()
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

    fn reject(&mut self, rejected: &Rejected, input: Arc<Origin>, mark: Mark) -> Result<()> {
        if self.settings.strict {
            return Err(rejected.to_error());
        }
        self.since.rejected += 1;
        self.in_batch += 1;
        self.at = Some((input, mark));
        (self.report)(Event::Rejected(rejected))?;
        self.commit_if_full()
    }

    /// Reports that an input cannot be read further, and keeps that if it is so as long as its content is the same.
    fn fail(
        &mut self,
        rejected: &Rejected,
        input: &Origin,
        mark: Mark,
        is_lasting: bool,
    ) -> Result<()> {
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
        let lasting = is_lasting.then_some(reason.as_str());
        if self.sources.fail(input, mark, lasting) {
            self.transaction()?;
            self.oldest.get_or_insert_with(Instant::now);
        }
        (self.report)(Event::Failed {
            path: &rejected.path,
            error: &error,
            is_lasting,
        })
    }

    /// Inserts the documents that are waiting. Commits each time a batch is full. If the documents are units, a batch
    /// may end only behind the last unit of a record, and whoever cuts the records commits it.
    fn insert(&mut self) -> Result<()> {
        let Waiting {
            documents,
            marks,
            behind,
        } = mem::take(&mut self.waiting);
        let is_whole = self.unit == Unit::Document;
        let mut from = 0;
        while from < documents.len() {
            let mut to = documents.len();
            if is_whole {
                to = to.min(from + self.settings.batch - self.in_batch);
            }
            self.insert_together(&documents[from..to])?;
            self.in_batch += to - from;
            from = to;
            if is_whole {
                self.at = Some(marks[to - 1].clone());
                self.commit_if_full()?;
            }
        }
        if behind.is_some() {
            self.at = behind;
        }
        Ok(())
    }

    /// Inserts documents, and reports those that have near-duplicates.
    fn insert_together(&mut self, documents: &[Document]) -> Result<()> {
        let is_whole = self.unit == Unit::Document;
        if !self.settings.asks {
            for document in documents {
                let old = self.transaction()?.insert(document)?;
                self.since.documents += u64::from(is_whole);
                self.since.inserted += u64::from(old.is_none());
                self.since.replaced += u64::from(old.is_some());
                self.since.too_short += u64::from(document.fingerprint().is_none());
            }
            return Ok(());
        }
        self.transaction()?;
        let Some(txn) = &mut self.txn else {
            unreachable!("it has just begun")
        };
        let verdicts = txn.insert_batch_if_new(documents, &self.policy)?;
        for (document, verdict) in documents.iter().zip(&verdicts) {
            // A document in units is counted with its head.
            self.since.documents += u64::from(is_whole);
            count_verdict(&mut self.since, document, verdict);
            if verdict.is_duplicate() {
                (self.report)(Event::Duplicate { document, verdict })?;
            }
        }
        Ok(())
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
        let noted = Noted {
            totals,
            numbers: self.next_number..next_number,
            has_ended,
            is_last_line: self.is_last_line,
        };
        self.noted = now;
        self.next_number = next_number;
        self.sources.note(&input, mark, noted);
        // What comes next is of another input.
        if has_ended {
            self.at = None;
            self.is_last_line = false;
        }
        Ok(())
    }

    fn commit_if_full(&mut self) -> Result<()> {
        if self.in_batch >= self.settings.batch {
            self.commit()?;
        }
        Ok(())
    }

    /// Commits the batch, after all of its events were reported.
    pub(super) fn commit(&mut self) -> Result<()> {
        self.note(false)?;
        if let Some(mut txn) = self.txn.take() {
            self.sources.write(&mut txn)?;
            (self.report)(Event::Reported)?;
            txn.commit()?;
        }
        // When it is read further, that is noted anew.
        self.at = None;
        self.oldest = None;
        if mem::take(&mut self.in_batch) == 0 {
            return Ok(());
        }
        (self.report)(Event::Committed {
            totals: &self.totals,
        })
    }

    /// What was done.
    pub(super) fn ingested(&self) -> Ingested {
        Ingested {
            now: self.totals,
            in_all: self.sources.in_all(),
            unchanged: self.sources.unchanged(),
            failed: self.failed,
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

/// Adds a document, or a unit of one, to totals.
fn count_verdict(totals: &mut Totals, document: &Document, verdict: &Verdict) {
    match verdict.change() {
        Change::Inserted => totals.inserted += 1,
        Change::Replaced(_) => totals.replaced += 1,
        Change::Skipped => totals.skipped += 1,
    }
    totals.deleted += verdict.deleted().len() as u64;
    totals.duplicates += u64::from(verdict.is_duplicate());
    totals.too_short += u64::from(document.fingerprint().is_none());
}
