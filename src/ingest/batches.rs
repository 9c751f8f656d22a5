//! Takes records: all cores make documents of them, a few chunks ahead. Collects these in batches and commits each
//! batch, together with the places up to which the inputs were read.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{mem, thread};

use super::ingestion::{Event, Ingest, Ingested, Resumed};
use super::input::{Again, Position, Raw, RawContent};
use super::options::ReadOptions;
use super::record::{Documents, Fingerprinting, OnText, Record, keys_of};
use super::records::Records;
use super::rejected::{Reason, Rejected};
use super::resuming::Sources;
use crate::database::{Change, Policy, WriteTxn};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::parallel;
use crate::source::Totals;
use crate::text::Unit;

/// Reports how the inputs are read that were read before, takes all records, and returns what was done.
pub(super) fn take_records<'i>(
    ingest: &'i Ingest<'i>,
    records: Records,
    rule: Fingerprinting,
    sources: Sources,
    resumptions: &[(usize, Resumed)],
    report: &'i mut dyn FnMut(Event<'_>) -> Result<()>,
    began: Instant,
) -> Result<Ingested> {
    let mut batches = Batches {
        ingest,
        policy: ingest.policy.clone().ignoring(sources.ignored()),
        unit: records.options().unit,
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
        oldest: None,
    };
    match batches.report_and_take(records, rule, resumptions) {
        // Where the caller has ended it, what is not committed is not stored.
        Ok(()) | Err(Error::Interrupted) => {
            Ok(batches.sources.ingested(batches.totals, batches.failed))
        }
        // The records before the error are good.
        Err(error @ Error::Input { .. }) => match batches.commit() {
            Ok(()) | Err(Error::Interrupted) => Err(error),
            Err(failed) => Err(failed),
        },
        // If the database failed, nothing more is committed.
        Err(error) => Err(error),
    }
}

/// The current batch, and what was read so far.
///
/// Whatever ends an ingestion is an error here. Nothing is committed after one but by a caller that knows that the
/// error is one of an input.
struct Batches<'i> {
    ingest: &'i Ingest<'i>,
    policy: Policy,
    unit: Unit,
    /// Takes the events. Its error ends the ingestion.
    report: &'i mut dyn FnMut(Event<'_>) -> Result<()>,
    txn: Option<WriteTxn>,
    /// Documents of the batch that are not inserted yet.
    waiting: Waiting,
    in_batch: usize,
    /// How far the inputs were read.
    sources: Sources,
    /// The input that is being read, and the place behind the last record that was taken.
    at: Option<Position>,
    /// What was read before the place of an input was noted last.
    totals: Totals,
    /// The number of inputs that could not be read, or not further.
    failed: u64,
    /// What was read since then.
    since: Totals,
    noted: Instant,
    /// The number that the next document got then.
    next_number: u64,
    /// When the oldest record was read that is not committed.
    oldest: Option<Instant>,
}

/// A batch is committed when its oldest record is so old, however few there are. With the commit itself, that makes a
/// second at most.
const OLDEST: Duration = Duration::from_millis(800);
/// The same if somebody else waits to write: a slow input keeps nobody waiting.
const OLDEST_IF_WANTED: Duration = Duration::from_millis(40);
/// How often it is asked whether the ingestion is to end.
pub(super) const LOOK: Duration = Duration::from_millis(100);
/// How often it is asked whether somebody else waits to write, while a batch is open.
const LOOK_IF_OPEN: Duration = Duration::from_millis(20);
/// So many units are inserted together.
const UNITS_TOGETHER: usize = 1024;

impl Batches<'_> {
    fn report_and_take(
        &mut self,
        records: Records,
        rule: Fingerprinting,
        resumptions: &[(usize, Resumed)],
    ) -> Result<()> {
        for &(index, resumed) in resumptions {
            let path = &records.paths()[index];
            (self.report)(Event::Source { path, resumed })?;
        }
        let taker = Taker {
            options: records.options().clone(),
            rule,
            on_text: self.ingest.on_text.clone(),
        };
        let chunks = read_ahead(records, taker)?;
        self.take_all(&chunks)
    }

    fn take_all(&mut self, chunks: &Ahead<Step>) -> Result<()> {
        while !self.ingest.stop.is_asked() {
            match chunks.recv_timeout(self.next_look()) {
                Ok(chunk) => {
                    let chunk = match chunk.unwrap_or_else(|panic| resume_unwind(panic)) {
                        // The reading was stopped. What was read is committed.
                        Err(Error::Interrupted) => break,
                        chunk => chunk?,
                    };
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
                Err(RecvTimeoutError::Disconnected) => unreachable!("{LAST}"),
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
        let Some(oldest) = self.oldest else {
            return Duration::MAX;
        };
        let is_wanted = self.txn.as_ref().is_some_and(WriteTxn::is_wanted);
        let most = if is_wanted { OLDEST_IF_WANTED } else { OLDEST };
        most.saturating_sub(oldest.elapsed())
    }

    /// How long to wait for more records before all is looked at again.
    fn next_look(&self) -> Duration {
        let look = if self.txn.is_some() {
            LOOK_IF_OPEN
        } else {
            LOOK
        };
        self.left_to_wait().min(look)
    }

    fn take_chunk(&mut self, chunk: Vec<Step>) -> Result<()> {
        for mut step in chunk {
            let stored = self.txn.as_ref().map_or(0, WriteTxn::stored);
            if self.sources.go_to(&step.position, stored) {
                self.policy = self.policy.clone().ignoring(self.sources.ignored());
            }
            let was_counted = self.sources.was_counted(&step.position);
            if was_counted != self.policy.counted_before {
                // What waits was decided about otherwise.
                self.insert()?;
                self.policy.counted_before = was_counted;
            }
            if step.position.is_last_line || step.position.again != Again::No {
                self.insert()?;
                self.begin_line(&mut step)?;
            }
            self.take(step)?;
        }
        self.insert()
    }

    /// Before a last line without a line end: what comes from here on is counted apart. Before a line that was one when
    /// it was read before: what was stored of it goes, and counts for nothing. But how often it was seen again stays.
    fn begin_line(&mut self, step: &mut Step) -> Result<()> {
        if step.position.is_last_line {
            self.note(false)?;
        }
        if step.position.again == Again::Stored
            && let Taken::Documents(Documents::Whole { document, .. }) = &mut step.taken
            && let Some(old) = self.transaction()?.delete(document.key())?
        {
            *document = at_least_as_often(document, old.repeats());
        }
        Ok(())
    }

    fn take(&mut self, step: Step) -> Result<()> {
        let Step { taken, position } = step;
        match taken {
            Taken::Documents(documents) => self.take_documents(documents, position)?,
            Taken::PassedOver => {
                self.insert()?;
                self.since.passed_over += 1;
                self.at = Some(position);
            }
            Taken::Left(rejected) => {
                self.since.left += 1;
                self.in_batch += 1;
                self.at = Some(position);
                (self.report)(Event::Left(&rejected))?;
                self.commit_if_full()?;
            }
            Taken::Rejected(rejected) => {
                self.insert()?;
                self.reject(&rejected, position)?;
            }
            Taken::Failed {
                rejected,
                is_lasting,
            } => {
                self.insert()?;
                self.fail(&rejected, &position, is_lasting)?;
            }
            Taken::End => {
                self.insert()?;
                self.at = Some(position);
                self.note(true)?;
            }
        }
        Ok(())
    }

    /// Takes a document, or one in units. These join those that are waiting, and are inserted with them when they are
    /// many.
    ///
    /// If the document of units is known, its old units are removed first. So no old unit is left, and none is a
    /// near-duplicate of a new one. A new unit of the same fingerprint was seen again as often. The head is written
    /// with that, before the units. All of that is in one transaction.
    fn take_documents(&mut self, documents: Documents, position: Position) -> Result<()> {
        let (head, count, judged, payload) = match documents {
            Documents::Whole { document, lines } => {
                if let Some(lines) = lines {
                    let path = position.path();
                    (self.report)(Event::List { path, lines })?;
                }
                self.waiting.documents.push(document);
                self.waiting.positions.push(position);
                return Ok(());
            }
            Documents::Cut {
                head,
                count,
                judged,
                payload,
            } => (head, count, judged, payload),
        };
        let mut repeats = HashMap::new();
        if let Some(old) = self.transaction()?.find(head.key())? {
            // The same document may be among them.
            self.insert()?;
            let mut deleted = 0;
            let txn = self.transaction()?;
            for key in keys_of(&old) {
                let Some(unit) = txn.delete(key)? else {
                    continue;
                };
                deleted += 1;
                if let Some(fingerprint) = unit.fingerprint() {
                    repeats.insert(fingerprint, unit.repeats());
                }
            }
            self.since.deleted += deleted;
        }
        self.transaction()?.insert(&head)?;
        self.in_batch += 1;
        self.since.documents += 1;
        self.since.units += count as u64;
        self.since.too_short += (count - judged.len()) as u64;
        for mut unit in judged {
            if !payload.is_empty() {
                unit = unit.with_payload(payload.as_slice());
            }
            let fingerprint = unit.fingerprint();
            if let Some(before) = fingerprint.and_then(|bits| repeats.remove(&bits)) {
                unit = at_least_as_often(&unit, before);
            }
            self.waiting.documents.push(unit);
            if self.waiting.documents.len() >= UNITS_TOGETHER {
                self.insert()?;
            }
        }
        // Behind the last unit, a batch may end.
        self.waiting.behind = Some(position);
        if self.in_batch + self.waiting.documents.len() < self.ingest.batch {
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
                let txn = self.ingest.database.begin_write()?;
                // Others may have written in the meantime.
                self.next_number = txn.next_number();
                self.sources.begin_transaction();
                txn
            }
        };
        Ok(self.txn.insert(begun))
    }

    fn reject(&mut self, rejected: &Rejected, position: Position) -> Result<()> {
        if self.ingest.strict {
            return Err(Error::from(rejected));
        }
        self.since.rejected += 1;
        self.in_batch += 1;
        self.at = Some(position);
        (self.report)(Event::Rejected(rejected))?;
        self.commit_if_full()
    }

    /// Reports that an input cannot be read further, and keeps that if it is so as long as its content is the same.
    fn fail(&mut self, rejected: &Rejected, position: &Position, is_lasting: bool) -> Result<()> {
        let error = Error::from(rejected);
        if self.ingest.strict {
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
        if self.sources.fail(position, lasting) {
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
            positions,
            behind,
        } = mem::take(&mut self.waiting);
        let is_whole = self.unit == Unit::Document;
        let mut from = 0;
        while from < documents.len() {
            let mut to = documents.len();
            if is_whole {
                to = to.min(from + self.ingest.batch - self.in_batch);
            }
            self.insert_together(&documents[from..to])?;
            self.in_batch += to - from;
            from = to;
            if is_whole {
                self.at = Some(positions[to - 1].clone());
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
        if !self.ingest.asks {
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
            let since = &mut self.since;
            // A document in units is counted with its head.
            since.documents += u64::from(is_whole);
            match verdict.change() {
                Change::Inserted => since.inserted += 1,
                Change::Replaced(_) => since.replaced += 1,
                Change::Skipped => since.skipped += 1,
            }
            since.deleted += verdict.deleted().len() as u64;
            since.duplicates += u64::from(verdict.is_duplicate());
            since.too_short += u64::from(document.fingerprint().is_none());
            if verdict.is_duplicate() {
                (self.report)(Event::Duplicate { document, verdict })?;
            }
        }
        Ok(())
    }

    /// Notes how far the current input was read, and whether it has ended.
    fn note(&mut self, has_ended: bool) -> Result<()> {
        let Some(position) = self.at.clone() else {
            return Ok(());
        };
        let next_number = self.transaction()?.next_number();
        let now = Instant::now();
        let mut totals = mem::take(&mut self.since);
        totals.elapsed = now - self.noted;
        self.totals.add_all(&totals);
        let numbers = self.next_number..next_number;
        self.noted = now;
        self.next_number = next_number;
        self.sources.note(&position, totals, numbers, has_ended);
        // What comes next is of another input.
        if has_ended {
            self.at = None;
        }
        Ok(())
    }

    fn commit_if_full(&mut self) -> Result<()> {
        if self.in_batch >= self.ingest.batch {
            self.commit()?;
        }
        Ok(())
    }

    /// Commits the batch, after all of its events were reported.
    fn commit(&mut self) -> Result<()> {
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
}

/// Documents that are not inserted yet.
#[derive(Default)]
struct Waiting {
    documents: Vec<Document>,
    /// The place behind each document. There is none if the documents are units.
    positions: Vec<Position>,
    /// The place behind the last record that is wholly among them.
    behind: Option<Position>,
}

/// A document that was seen again at least so often.
fn at_least_as_often(document: &Document, repeats: u64) -> Document {
    let repeats = document.repeats().max(repeats);
    document.clone().with_repeats(repeats)
}

/// One record of an input, or its end.
struct Step {
    taken: Taken,
    position: Position,
}

/// What a database takes of a record.
enum Taken {
    Documents(Documents),
    /// It is no document, such as the request in a web archive.
    PassedOver,
    /// It is a last line without a line end, and no record. Most likely the rest is not written yet.
    Left(Rejected),
    Rejected(Rejected),
    /// The input cannot be read, or not further.
    Failed {
        rejected: Rejected,
        /// Whether that is so as long as its content is the same.
        is_lasting: bool,
    },
    End,
}

/// How records become documents.
struct Taker {
    options: ReadOptions,
    rule: Fingerprinting,
    on_text: Option<OnText>,
}

impl Taker {
    fn step(&self, raw: Raw) -> Step {
        let position = raw.position.clone();
        let is_last_line = position.is_last_line;
        let is_in_character = is_last_line && ends_in_character(&raw.content);
        let is_lasting = match raw.content {
            RawContent::Failed { is_lasting, .. } => Some(is_lasting),
            _ => None,
        };
        let taken = match raw.content {
            RawContent::End => Ok(Taken::End),
            _ => self.take(raw),
        };
        let taken = taken.unwrap_or_else(|rejected| match is_lasting {
            Some(is_lasting) => Taken::Failed {
                rejected,
                is_lasting,
            },
            None if is_last_line && may_be_cut(&rejected.reason, is_in_character) => {
                Taken::Left(rejected)
            }
            None => Taken::Rejected(rejected),
        });
        Step { taken, position }
    }

    fn take(&self, raw: Raw) -> Result<Taken, Rejected> {
        let Some(record) = Record::parse(raw, &self.options)? else {
            return Ok(Taken::PassedOver);
        };
        Documents::new(record, self.rule, self.on_text.as_ref()).map(Taken::Documents)
    }
}

/// Whether a record can be the beginning of a good one, because what is wrong is at its end, perhaps within a
/// character.
fn may_be_cut(reason: &Reason, is_in_character: bool) -> bool {
    match reason {
        Reason::Json { problem, .. } => problem.starts_with("EOF"),
        Reason::NotUtf8 { .. } => is_in_character,
        Reason::NoTab
        | Reason::Document(Error::InvalidFingerprint { .. })
        // An archive has told that it was cut.
        | Reason::Warc { .. } => true,
        _ => false,
    }
}

/// Whether a content ends within a character of UTF-8.
fn ends_in_character(content: &RawContent) -> bool {
    let RawContent::Bytes(bytes) = content else {
        return false;
    };
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

/// Reads on another thread, and parses and fingerprints on yet another, each a few chunks ahead. So to unpack what is
/// packed, which one thread has to do, does not keep the others waiting. The last thing that is sent is an empty chunk
/// or an error.
fn read_ahead(mut records: Records, taker: Taker) -> Result<Ahead<Step>> {
    let chunks = sent_ahead(move || records.next_raw_chunk())?;
    sent_ahead(move || {
        let chunk = chunks.recv().expect(LAST);
        let chunk = chunk.unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(parallel::map_each(chunk, |raw| taker.step(raw)))
    })
}

/// The chunks that another thread makes. The last is empty, or an error, or the panic of that thread.
type Ahead<T> = mpsc::Receiver<thread::Result<Result<Vec<T>>>>;

const LAST: &str = "nothing is asked for behind the last chunk";

/// Makes chunks on another thread, a few ahead, up to an empty one or an error.
fn sent_ahead<T: Send + 'static>(
    mut next: impl FnMut() -> Result<Vec<T>> + Send + 'static,
) -> Result<Ahead<T>> {
    let (sender, receiver) = mpsc::sync_channel(2);
    // The thread is not joined. It may wait for standard input for ever after the receiver is dropped.
    thread::Builder::new()
        .name("simdb-read".to_owned())
        .spawn(move || {
            loop {
                let chunk = catch_unwind(AssertUnwindSafe(&mut next));
                let goes_on = matches!(&chunk, Ok(Ok(chunk)) if !chunk.is_empty());
                if sender.send(chunk).is_err() || !goes_on {
                    break;
                }
            }
        })
        .map_err(Error::no_thread)?;
    Ok(receiver)
}
