//! Which inputs are read, and from where: what an earlier ingestion has read is not read again.

use std::collections::{BTreeSet, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::Xxh3;

use super::ingestion::Resumed;
use super::input::{Mark, Origin};
use super::input_queue::Inputs;
use super::stamp::Standing;
use crate::database::{Database, Snapshot, WriteTxn};
use crate::error::{Error, Result};
use crate::source::{Ignored, Numbers, Place, Source, SourceRecord, Totals};

/// Which inputs are read again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reread {
    /// None: reading goes on where it stopped.
    #[default]
    Nothing,
    /// Those that were read to their end. The others go on where they stopped.
    Ended,
    /// All, from their beginning.
    All,
}

/// How the inputs of an ingestion are known again.
#[derive(Clone, Debug, Default)]
pub(super) struct Naming {
    /// The name of the only input.
    pub(super) name: Option<Vec<u8>>,
    pub(super) reread: Reread,
    /// Whether an input is known again of which every record was rejected.
    pub(super) knows_rejected: bool,
}

/// The sources of one ingestion, in the order of the inputs.
pub(super) struct Sources {
    /// `None` for an input whose place is not kept, since it cannot be known again.
    sources: Vec<Option<Source>>,
    /// Whether each is read now, or still has to be.
    is_read: Vec<bool>,
    /// Whether the database knows each.
    is_stored: Vec<bool>,
    /// Those that are to be committed.
    changed: BTreeSet<usize>,
    /// As that of [`Naming`].
    knows_rejected: bool,
    /// The documents that earlier readings have stored, of the sources that are read again.
    ignored: Arc<Ignored>,
    /// What was read of inputs whose place is not kept.
    unknown: Totals,
    /// The numbers of inputs that are not read, since they are the same, or are given twice.
    unchanged: u64,
}

/// That a source was given again without being read is noted once a day.
const DAY_SECONDS: i64 = 86_400;

/// The most bytes that are kept of the reason why an input cannot be read.
const MOST_REASON_BYTES: usize = 1_000;

/// What was read of an input since it was noted last.
#[derive(Default)]
pub(super) struct Noted {
    pub(super) totals: Totals,
    /// The numbers that its documents got.
    pub(super) numbers: Range<u64>,
    pub(super) has_ended: bool,
    /// Whether it is a last line that has no line end.
    pub(super) is_last_line: bool,
}

/// A run: all ingestions of the same inputs that follow each other until they are read.
struct Run {
    number: u64,
    /// The hash of the names of the sources.
    command: u64,
    reread: Reread,
    /// Whether each source is among those before.
    repeated: Vec<bool>,
}

/// How an input is read that was read before.
#[derive(Clone, Copy)]
pub(super) struct Resumption {
    pub(super) index: usize,
    pub(super) resumed: Resumed,
}

impl Sources {
    /// Decides for each input where its reading begins, and sets that in `inputs`. Returns how those are read that were
    /// read before.
    pub(super) fn plan(
        database: &Database,
        inputs: &mut Inputs,
        naming: &Naming,
    ) -> Result<(Self, Vec<Resumption>)> {
        if let Some(name) = &naming.name {
            inputs.set_name(name)?;
        }
        let names = inputs.names();
        let stored = stored_sources(database, &names)?;
        let run = Run::new(&names, &stored, naming.reread);
        let mut sources = Self {
            sources: vec![None; names.len()],
            is_read: vec![true; names.len()],
            is_stored: stored.iter().map(Option::is_some).collect(),
            changed: BTreeSet::new(),
            knows_rejected: naming.knows_rejected,
            ignored: Arc::default(),
            unknown: Totals::default(),
            unchanged: 0,
        };
        let mut ignored = Numbers::default();
        let mut resumptions = Vec::new();
        for (index, stored) in stored.iter().enumerate() {
            let Some(name) = &names[index] else { continue };
            let resumed = match run.resume(inputs, index, stored.as_ref()) {
                Err(Error::Input { reason, .. }) => {
                    inputs.fail(index, reason, false);
                    continue;
                }
                resumed => resumed?,
            };
            if !matches!(resumed, Resumed::New | Resumed::Failed) {
                resumptions.push(Resumption { index, resumed });
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

            let mut record = run.begin(inputs, index, stored.as_ref(), resumed);
            if resumed == Resumed::Again
                && let Some(stored) = stored
            {
                record
                    .earlier
                    .add_all(&stored_later(database, &stored.record)?);
            }
            if !sources.is_read[index] && record.updated + DAY_SECONDS < now_seconds() {
                // So that sources that nobody gives any more are known by their age.
                record.updated = now_seconds();
                sources.changed.insert(index);
            }
            ignored.add_all(&record.earlier);
            sources.sources[index] = Some(Source {
                name: name.to_vec(),
                record,
            });
        }
        sources.ignored = Arc::new(Ignored {
            numbers: ignored,
            ..Ignored::default()
        });
        Ok((sources, resumptions))
    }

    /// The documents that earlier readings have stored, of the sources that are read again.
    pub(super) fn ignored(&self) -> Arc<Ignored> {
        self.ignored.clone()
    }

    /// The number of inputs that are not read, since they are the same, or are given twice.
    pub(super) fn unchanged(&self) -> u64 {
        self.unchanged
    }

    /// What all inputs hold: what was read of them now and before.
    pub(super) fn in_all(&self) -> Totals {
        let mut totals = self.unknown;
        for source in self.sources.iter().flatten() {
            totals.add_all(&source.record.totals);
        }
        totals
    }

    /// Notes how many documents were stored before a transaction that begins, while sources were read again.
    pub(super) fn begin_transaction(&self) {
        let mut stored = 0;
        for source in self.sources.iter().flatten() {
            if !source.record.earlier.is_empty() {
                stored += source.record.numbers.count();
            }
        }
        self.ignored.stored.store(stored, Ordering::Relaxed);
    }

    /// Notes how far an input was read.
    pub(super) fn note(&mut self, input: &Origin, mark: Mark, noted: Noted) {
        let Noted {
            totals,
            numbers,
            has_ended,
            is_last_line,
        } = noted;
        let Some(source) = &mut self.sources[input.index] else {
            return self.unknown.add_all(&totals);
        };
        let record = &mut source.record;
        record.place = mark.place;
        record.identity = input.identity_at(mark);
        record.ended = has_ended;
        record.totals.add_all(&totals);
        if is_last_line {
            record.last_line.add_all(&totals);
        }
        record.numbers.add(numbers);
        record.updated = now_seconds();
        self.changed.insert(input.index);
        if has_ended {
            self.go_on_behind(input.index);
        }
    }

    /// Notes that an input cannot be read further, and why, if that is so as long as its content is the same. Returns
    /// whether that is to be written.
    pub(super) fn fail(&mut self, input: &Origin, mark: Mark, lasting: Option<&str>) -> bool {
        let was_read = mem::take(&mut self.is_read[input.index]);
        if !was_read {
            return false;
        }
        if let Some((source, reason)) = self.sources[input.index].as_mut().zip(lasting) {
            let record = &mut source.record;
            record.place = mark.place;
            record.identity = input.identity_at(mark);
            let mut end = reason.len().min(MOST_REASON_BYTES);
            while !reason.is_char_boundary(end) {
                end -= 1;
            }
            record.failed = Some(reason[..end].to_owned());
            record.updated = now_seconds();
            self.changed.insert(input.index);
        } else if self.is_stored[input.index] {
            self.changed.insert(input.index);
        }
        let is_changed = self.changed.contains(&input.index);
        if is_changed {
            self.go_on_behind(input.index);
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
            let is_misread =
                source.has_ended() && documents == 0 && rejected > 0 && !self.knows_rejected;
            let has_begun = source.has_ended()
                || source.failed().is_some()
                || source.place() != Place::default();
            if is_misread || !has_begun && !self.is_read[index] {
                // Most likely it was read in a wrong way. It is to be read when the command is mended. Or nothing of it
                // could be read.
                txn.forget_source(&source.name)?;
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
    fn resume(
        &self,
        inputs: &mut Inputs,
        index: usize,
        stored: Option<&Source>,
    ) -> Result<Resumed> {
        if self.repeated[index] {
            inputs.pass_over(index);
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
        Ok(match inputs.standing(index, stored)? {
            Standing::Same if has_failed => Resumed::Failed,
            _ if has_failed && stored.place() == Place::default() => Resumed::New,
            Standing::Changed => Resumed::Changed,
            Standing::Same if stored.has_ended() => Resumed::PassedOver,
            Standing::Grown if stored.has_ended() => Resumed::Grown,
            Standing::Same | Standing::Grown | Standing::Unknown => Resumed::Continued,
        })
    }

    /// Sets where an input begins, and returns the record of its source.
    fn begin(
        &self,
        inputs: &mut Inputs,
        index: usize,
        stored: Option<&Source>,
        resumed: Resumed,
    ) -> SourceRecord {
        let new = SourceRecord {
            run: self.number,
            command: self.command,
            ..SourceRecord::default()
        };
        let Some(stored) = stored else { return new };
        let mut old = stored.record.clone();
        match resumed {
            Resumed::New => SourceRecord {
                earlier: old.earlier,
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
                SourceRecord { earlier, ..new }
            }
            Resumed::PassedOver | Resumed::Repeated => {
                inputs.pass_over(index);
                SourceRecord {
                    earlier: Numbers::default(),
                    ..old
                }
            }
            Resumed::Failed => {
                inputs.fail(index, old.failed.clone().unwrap_or_default(), true);
                old
            }
            Resumed::Continued | Resumed::Grown => {
                inputs.begin_behind(index, stored);
                // The last line is read once more.
                old.totals.take_out(&mem::take(&mut old.last_line));
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
pub(super) fn resume(inputs: &mut Inputs, snapshot: &Snapshot) -> Result<Vec<Resumed>> {
    let names = inputs.names();
    let run = Run {
        number: 0,
        command: 0,
        reread: Reread::Nothing,
        repeated: repeated(&names),
    };
    let mut all = Vec::with_capacity(names.len());
    for (index, name) in names.iter().enumerate() {
        let stored = match name {
            Some(name) => snapshot.source(name)?,
            None => None,
        };
        let resumed = match run.resume(inputs, index, stored.as_ref()) {
            Err(Error::Input { reason, .. }) => {
                inputs.fail(index, reason, false);
                Resumed::Failed
            }
            Ok(Resumed::Repeated) => Resumed::Repeated,
            resumed => {
                let resumed = resumed?;
                run.begin(inputs, index, stored.as_ref(), resumed);
                resumed
            }
        };
        all.push(resumed);
    }
    Ok(all)
}

/// The numbers of the documents that the run of a source has stored after the first of the source. When the source is
/// read again, they do not count before their turn has come again.
fn stored_later(database: &Database, record: &SourceRecord) -> Result<Numbers> {
    let mut later = Numbers::default();
    let Some(first) = record.numbers.ranges().first() else {
        return Ok(later);
    };
    for source in database.snapshot()?.sources()? {
        if source.record.run != record.run {
            continue;
        }
        for range in source.record.numbers.ranges() {
            if range.start > first.start {
                later.add(range.clone());
            }
        }
    }
    Ok(later)
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

fn stored_sources(database: &Database, names: &[Option<Arc<[u8]>>]) -> Result<Vec<Option<Source>>> {
    let snapshot = database.snapshot()?;
    let mut sources = Vec::with_capacity(names.len());
    for name in names {
        sources.push(match name {
            Some(name) => snapshot.source(name)?,
            None => None,
        });
    }
    Ok(sources)
}

/// The time, in seconds since 1970.
fn now_seconds() -> i64 {
    (now_micros() / 1_000_000) as i64
}

/// The time, in microseconds since 1970.
fn now_micros() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_micros() as u64)
}
