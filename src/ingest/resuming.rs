//! Which inputs are read, and from where: what an earlier ingestion has read is not read again.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::Xxh3;

use super::ingestion::{Ingested, Resumed};
use super::input::Position;
use super::opening::Standing;
use super::records::Records;
use crate::database::{Database, Snapshot, WriteTxn};
use crate::error::{Error, Result};
use crate::source::{Ignored, Numbers, Place, Source, SourceRecord, Totals};
use crate::unix_seconds::UnixSeconds;

/// Which inputs are read again.
///
/// # Example
///
/// ```
/// use std::ops::ControlFlow;
/// use simdb::ingest::{Ingest, ReadOptions, Records, Reread};
/// # use simdb::{CreateOptions, Database};
/// # let directory = tempfile::tempdir()?;
/// # let database = Database::create(directory.path().join("pages.simdb"), &CreateOptions::new())?;
/// # let path = directory.path().join("pages.tsv");
/// # std::fs::write(&path, "a\tone page\n")?;
///
/// let mut documents_read = Vec::new();
/// for reread in [Reread::Nothing, Reread::Nothing, Reread::All] {
///     let records = Records::open([&path], ReadOptions::new())?;
///     let ingest = Ingest::new(&database).reread(reread);
///     documents_read.push(ingest.run(records, |_event| ControlFlow::Continue(()))?.now.documents);
/// }
/// assert_eq!(documents_read, [1, 0, 1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reread {
    /// None: reading goes on where it stopped.
    #[default]
    Nothing,
    /// Those that were read to their end. The others go on where they stopped.
    Ended,
    /// All, from their beginning.
    All,
}

/// The sources of one ingestion, in the order of the inputs.
pub(super) struct Sources {
    /// `None` for an input whose place is not kept, since it cannot be known again.
    sources: Vec<Option<Source>>,
    /// Whether each is read now, or still has to be.
    is_read: Vec<bool>,
    /// Whether what each had stored before is ignored, since it is read again.
    ignores: Vec<bool>,
    /// Whether the database knows each.
    is_stored: Vec<bool>,
    /// Those that are to be committed.
    changed: BTreeSet<usize>,
    /// Whether an input is known again of which every record was rejected, as in a corpus that is cleaned. Otherwise
    /// such an input counts as not read.
    knows_rejected: bool,
    /// The source that is being read.
    at: usize,
    /// The documents that earlier readings have stored, of the sources that are read again from there on.
    ignored: Arc<Ignored>,
    /// Their numbers, for each [`STRIDE`]th source.
    ignored_from: Vec<Numbers>,
    /// How many documents these sources had stored again when the run began, for each source and for the end.
    stored_from: Vec<u64>,
    /// Whether documents that are not stored are counted in others.
    counts: bool,
    /// What was read of inputs whose place is not kept.
    unknown: Totals,
    /// The numbers of inputs that are not read, since they are the same, or are given twice.
    unchanged: u64,
}

/// For each source of so many it is kept what is ignored from there on.
const STRIDE: usize = 64;

/// That a source was given again without being read is noted once a day.
const DAY_SECONDS: i64 = 86_400;

/// The most bytes that are kept of the reason why an input cannot be read.
const MOST_REASON_BYTES: usize = 1_000;

/// A run: all ingestions of the same inputs that follow each other until they are read.
struct Run {
    number: u64,
    /// The hash of the names of the sources.
    command: u64,
    reread: Reread,
    /// Whether each source is among those before.
    repeated: Vec<bool>,
}

impl Sources {
    /// Decides for each input where its reading begins, and sets that in `records`. Returns how those are read that
    /// were read before, by their indices.
    pub(super) fn plan(
        database: &Database,
        records: &mut Records,
        reread: Reread,
        counts: bool,
    ) -> Result<(Self, Vec<(usize, Resumed)>)> {
        let names = records.names();
        let stored = stored_sources(&database.snapshot()?, &names)?;
        let run = Run::new(&names, &stored, reread);
        let mut sources = Self {
            sources: vec![None; names.len()],
            is_read: vec![true; names.len()],
            ignores: vec![false; names.len()],
            is_stored: stored.iter().map(Option::is_some).collect(),
            changed: BTreeSet::new(),
            knows_rejected: records.options().numbered,
            at: 0,
            ignored: Arc::default(),
            ignored_from: Vec::new(),
            stored_from: Vec::new(),
            counts,
            unknown: Totals::default(),
            unchanged: 0,
        };
        // What all sources have stored, once one of them is read again.
        let mut of_runs = None;
        let mut resumptions = Vec::new();
        for (index, stored) in stored.iter().enumerate() {
            let Some(name) = &names[index] else { continue };
            let resumed = match run.resume(records, index, stored.as_ref()) {
                Err(Error::Input { reason, .. }) => {
                    records.fail(index, reason, false);
                    continue;
                }
                resumed => resumed?,
            };
            records.begin(index, resumed, stored.as_ref());
            if !matches!(resumed, Resumed::New | Resumed::Failed) {
                resumptions.push((index, resumed));
            }
            sources.is_read[index] = !matches!(
                resumed,
                Resumed::PassedOver | Resumed::Repeated | Resumed::Failed
            );
            sources.unchanged +=
                u64::from(matches!(resumed, Resumed::PassedOver | Resumed::Repeated));
            if resumed == Resumed::Repeated {
                continue;
            }

            let mut record = run.record(stored.as_ref(), resumed);
            if resumed == Resumed::Again
                && let Some(stored) = stored
            {
                let of_runs = match &mut of_runs {
                    Some(known) => known,
                    none => none.insert(stored_by_runs(database)?),
                };
                let later = stored_later(of_runs, &stored.record);
                record.earlier.add_all(&later);
            }
            if matches!(resumed, Resumed::Again | Resumed::New)
                && record.counted > 0
                && let Some(stored) = stored
                // What cannot be read is met again.
                && let Ok(Standing::Changed) = records.standing(index, stored)
            {
                record.counted = 0;
            }
            if !sources.is_read[index] && record.updated + DAY_SECONDS < now_seconds() {
                // So that sources that nobody gives any more are known by their age.
                record.updated = now_seconds();
                sources.changed.insert(index);
            }
            // One that cannot be read further does not count again either.
            if sources.is_read[index] && !record.earlier.is_empty() {
                sources.ignores[index] = true;
            }
            sources.sources[index] = Some(Source {
                name: name.to_vec(),
                record,
            });
        }
        sources.note_ignored();
        Ok((sources, resumptions))
    }

    /// The documents that earlier readings have stored, of the sources that are read again and have not ended.
    pub(super) fn ignored(&self) -> Arc<Ignored> {
        self.ignored.clone()
    }

    /// Notes what is ignored while each source is read.
    fn note_ignored(&mut self) {
        let mut numbers = Numbers::default();
        let mut stored = 0;
        self.stored_from.push(stored);
        for index in (0..self.sources.len()).rev() {
            self.add_earlier(index, &mut numbers);
            stored += self.stored_again_by(index);
            self.stored_from.push(stored);
            if index.is_multiple_of(STRIDE) {
                self.ignored_from.push(numbers.clone());
            }
        }
        self.ignored_from.reverse();
        self.stored_from.reverse();
        self.ignored = Arc::new(Ignored {
            numbers,
            ..Ignored::default()
        });
    }

    fn add_earlier(&self, index: usize, numbers: &mut Numbers) {
        if let Some(source) = &self.sources[index]
            && self.ignores[index]
        {
            numbers.add_all(&source.record.earlier);
        }
    }

    /// Notes that a record of a source comes next, and how many documents the open transaction has stored. Returns
    /// whether other documents are ignored from there on: those of a source count once it has ended.
    pub(super) fn go_to(&mut self, position: &Position, stored_in_transaction: u64) -> bool {
        let at = position.index();
        if at == self.at || self.ignored.numbers.is_empty() {
            return false;
        }
        self.at = at;
        let next = at.next_multiple_of(STRIDE);
        let mut numbers = match self.ignored_from.get(next / STRIDE) {
            Some(numbers) => numbers.clone(),
            None => Numbers::default(),
        };
        for index in at..next.min(self.sources.len()) {
            self.add_earlier(index, &mut numbers);
        }
        self.ignored = Arc::new(Ignored {
            numbers,
            ..Ignored::default()
        });
        let stored = self.stored_again().wrapping_sub(stored_in_transaction);
        self.ignored.stored.store(stored, Ordering::Relaxed);
        true
    }

    /// How many documents were stored while the sources were read again that have not ended.
    fn stored_again(&self) -> u64 {
        match self.stored_from.get(self.at + 1) {
            // Those behind it wait for their turn.
            Some(behind) => behind + self.stored_again_by(self.at),
            None => 0,
        }
    }

    /// How many documents were stored while a source was read, if it is read again.
    fn stored_again_by(&self, index: usize) -> u64 {
        match &self.sources[index] {
            Some(source) if self.ignores[index] => source.record.numbers.count(),
            _ => 0,
        }
    }

    /// What was done: what was read `now`, what all inputs hold, and how many could not be read.
    pub(super) fn ingested(&self, now: Totals, failed: u64) -> Ingested {
        let mut in_all = self.unknown;
        for source in self.sources.iter().flatten() {
            in_all.add_all(&source.record.totals);
        }
        Ingested {
            now,
            in_all,
            unchanged: self.unchanged,
            failed,
        }
    }

    /// Whether a record was counted when its source was read before.
    pub(super) fn was_counted(&self, position: &Position) -> bool {
        let source = self.sources[position.index()].as_ref();
        source.is_some_and(|source| position.number() <= source.record.counted)
    }

    /// Notes how many documents were stored before a transaction that begins, while sources were read again.
    pub(super) fn begin_transaction(&self) {
        let stored = self.stored_again();
        self.ignored.stored.store(stored, Ordering::Relaxed);
    }

    /// Notes that an input was read up to a position, and what was read of it since it was noted last: with the numbers
    /// that its documents got, and whether it has ended.
    pub(super) fn note(
        &mut self,
        position: &Position,
        totals: Totals,
        numbers: Range<u64>,
        has_ended: bool,
    ) {
        let index = position.index();
        let Some(source) = &mut self.sources[index] else {
            return self.unknown.add_all(&totals);
        };
        let record = &mut source.record;
        position.note_in(record);
        // A last line that is left or stored may be counted in another document once it is read as a whole.
        let is_uncounted = position.is_last_line && totals.skipped == 0;
        record.ended = has_ended;
        record.totals.add_all(&totals);
        // Where no record was one, most likely it is read in a wrong way.
        if self.counts && record.totals.documents > 0 {
            let counted = position.number() - u64::from(is_uncounted);
            record.counted = record.counted.max(counted);
        }
        if position.is_last_line {
            record.last_line.add_all(&totals);
        }
        record.numbers.add(numbers);
        record.updated = now_seconds();
        self.changed.insert(index);
        if has_ended {
            self.go_on_behind(index);
        }
    }

    /// Notes that an input cannot be read further, and why, if that is so as long as its content is the same. Returns
    /// whether that is to be written.
    pub(super) fn fail(&mut self, position: &Position, lasting: Option<&str>) -> bool {
        let index = position.index();
        let was_read = mem::take(&mut self.is_read[index]);
        if !was_read {
            return false;
        }
        if let Some((source, reason)) = self.sources[index].as_mut().zip(lasting) {
            let record = &mut source.record;
            position.note_in(record);
            let mut end = reason.len().min(MOST_REASON_BYTES);
            while !reason.is_char_boundary(end) {
                end -= 1;
            }
            record.failed = Some(reason[..end].to_owned());
            record.updated = now_seconds();
            self.changed.insert(index);
        } else if self.is_stored[index] {
            self.changed.insert(index);
        }
        let is_changed = self.changed.contains(&index);
        if is_changed {
            self.go_on_behind(index);
        }
        is_changed
    }

    /// By its run, the next input shows that this run is not over.
    fn go_on_behind(&mut self, index: usize) {
        self.is_read[index] = false;
        let next = (index + 1..self.is_read.len()).find(|&next| self.is_read[next]);
        if let Some(next) = next {
            self.is_stored[next] = true;
            self.changed.insert(next);
        }
    }

    /// Whether something is noted that is not written.
    pub(super) fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// Writes what was noted.
    pub(super) fn write(&mut self, txn: &mut WriteTxn) -> Result<()> {
        for index in mem::take(&mut self.changed) {
            let Some(source) = &self.sources[index] else {
                continue;
            };
            let Totals {
                documents,
                rejected,
                ..
            } = source.record.totals;
            // Records of a corpus that cannot be judged survive, also where an input has no others.
            let is_misread =
                source.has_ended() && documents == 0 && rejected > 0 && !self.knows_rejected;
            let has_begun = source.has_ended()
                || source.failed().is_some()
                || source.place() != Place::default();
            if is_misread || !has_begun && !self.is_read[index] {
                // Most likely it was read in a wrong way. It is to be read when the command is mended. Or nothing of it
                // could be read.
                match to_be_read(source) {
                    Some(source) => txn.set_source(&source)?,
                    None => {
                        txn.forget_source(&source.name)?;
                    }
                }
            } else {
                txn.set_source(source)?;
            }
        }
        Ok(())
    }
}

impl Run {
    /// The run that was stopped, if it had the same sources. Otherwise a new one.
    fn new(names: &[Option<Arc<[u8]>>], stored: &[Option<Source>], reread: Reread) -> Self {
        let mut hash = Xxh3::new();
        for name in names {
            let name = name.as_deref().unwrap_or_default();
            hash.update(&(name.len() as u64).to_le_bytes());
            hash.update(name);
        }
        let command = hash.digest();
        // Runs are numbered by the time. The clock may have been set back.
        let mut number = now_micros();
        for source in stored.iter().flatten() {
            let record = &source.record;
            let is_over = record.ended || record.failed.is_some();
            if !is_over && record.command == command && reread != Reread::All {
                number = record.run;
                break;
            }
            number = number.max(record.run + 1);
        }
        Self {
            number,
            command,
            reread,
            repeated: repeated(names),
        }
    }

    /// How an input is read.
    fn resume(&self, records: &Records, index: usize, stored: Option<&Source>) -> Result<Resumed> {
        if self.repeated[index] {
            return Ok(Resumed::Repeated);
        }
        let Some(stored) = stored else {
            return Ok(Resumed::New);
        };
        let is_of_this_run = stored.record.run == self.number;
        if self.reread == Reread::All
            || self.reread == Reread::Ended && stored.has_ended() && !is_of_this_run
        {
            return Ok(Resumed::Again);
        }
        let has_failed = stored.failed().is_some();
        if stored.place() == Place::default() && !stored.has_ended() && !has_failed {
            return Ok(Resumed::New);
        }
        Ok(match records.standing(index, stored)? {
            Standing::Same if has_failed => Resumed::Failed,
            _ if has_failed && stored.place() == Place::default() => Resumed::New,
            Standing::Changed => Resumed::Changed,
            Standing::Same if stored.has_ended() => Resumed::PassedOver,
            Standing::Grown if stored.has_ended() => Resumed::Grown,
            Standing::Same | Standing::Grown | Standing::Unknown => Resumed::Continued,
        })
    }

    /// The record of a source that is read so.
    fn record(&self, stored: Option<&Source>, resumed: Resumed) -> SourceRecord {
        let new = SourceRecord {
            run: self.number,
            command: self.command,
            ..SourceRecord::default()
        };
        let Some(stored) = stored else { return new };
        let mut old = stored.record.clone();
        match resumed {
            Resumed::New => SourceRecord {
                identity: old.identity,
                earlier: old.earlier,
                counted: old.counted,
                ..new
            },
            Resumed::Changed => new,
            Resumed::Again => {
                // If it was read to its end, what was stored before has got other numbers since.
                let mut earlier = if old.ended {
                    Numbers::default()
                } else {
                    old.earlier
                };
                earlier.add_all(&old.numbers);
                SourceRecord {
                    identity: old.identity,
                    earlier,
                    counted: old.counted,
                    ..new
                }
            }
            Resumed::PassedOver | Resumed::Repeated => SourceRecord {
                earlier: Numbers::default(),
                ..old
            },
            Resumed::Failed => old,
            Resumed::Continued | Resumed::Grown => {
                // The last line is read once more.
                old.totals.take_out(&mem::take(&mut old.last_line));
                // Once it was read to its end, what was stored before counts.
                if old.ended {
                    old.earlier = Numbers::default();
                }
                SourceRecord {
                    run: self.number,
                    command: self.command,
                    ended: false,
                    failed: None,
                    ..old
                }
            }
        }
    }
}

/// Goes on where sources were read up to, without a run.
pub(super) fn resume(records: &mut Records, snapshot: &Snapshot) -> Result<Vec<Resumed>> {
    let names = records.names();
    let run = Run {
        number: 0,
        command: 0,
        reread: Reread::Nothing,
        repeated: repeated(&names),
    };
    let mut all = Vec::with_capacity(names.len());
    for (index, stored) in stored_sources(snapshot, &names)?.into_iter().enumerate() {
        let resumed = match run.resume(records, index, stored.as_ref()) {
            Err(Error::Input { reason, .. }) => {
                records.fail(index, reason, false);
                Resumed::Failed
            }
            resumed => {
                let resumed = resumed?;
                records.begin(index, resumed, stored.as_ref());
                resumed
            }
        };
        all.push(resumed);
    }
    Ok(all)
}

/// A source that is to be read from its beginning, with what is known of earlier readings. It belongs to no run that
/// was stopped. `None` if nothing is known.
fn to_be_read(source: &Source) -> Option<Source> {
    let record = &source.record;
    if record.earlier.is_empty() && record.counted == 0 {
        return None;
    }
    Some(Source {
        name: source.name.clone(),
        record: SourceRecord {
            run: record.run,
            identity: record.identity,
            updated: now_seconds(),
            earlier: record.earlier.clone(),
            counted: record.counted,
            ..SourceRecord::default()
        },
    })
}

/// The numbers of the documents that each run has stored, by the number of the run.
fn stored_by_runs(database: &Database) -> Result<HashMap<u64, Numbers>> {
    let mut by_runs: HashMap<u64, Numbers> = HashMap::new();
    for source in database.snapshot()?.sources()? {
        let SourceRecord { run, numbers, .. } = source.record;
        by_runs.entry(run).or_default().add_all(&numbers);
    }
    Ok(by_runs)
}

/// The numbers of the documents that the run of a source has stored after the first of the source. When the source is
/// read again, they do not count before their turn has come again.
fn stored_later(by_runs: &HashMap<u64, Numbers>, record: &SourceRecord) -> Numbers {
    let of_run = by_runs.get(&record.run);
    match (of_run, record.numbers.ranges().first()) {
        (Some(of_run), Some(first)) => of_run.since(first.start + 1),
        _ => Numbers::default(),
    }
}

/// Whether each source is among those before.
fn repeated(names: &[Option<Arc<[u8]>>]) -> Vec<bool> {
    let mut seen = HashSet::new();
    let mut repeated = Vec::with_capacity(names.len());
    for name in names {
        repeated.push(name.as_ref().is_some_and(|name| !seen.insert(name)));
    }
    repeated
}

fn stored_sources(snapshot: &Snapshot, names: &[Option<Arc<[u8]>>]) -> Result<Vec<Option<Source>>> {
    let mut sources = Vec::with_capacity(names.len());
    for name in names {
        sources.push(match name {
            Some(name) => snapshot.source(name)?,
            None => None,
        });
    }
    Ok(sources)
}

fn now_seconds() -> i64 {
    UnixSeconds::now().unchecked()
}

/// The time, in microseconds since 1970.
fn now_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_micros() as u64)
}
