//! The run of a cleaning, step by step, and the list of groups that cleans nothing.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use super::dedup::Dedup;
use super::events::{DedupEvent, DedupStep, DedupTotals, Observe, Removals};
use super::keeping;
use super::layout::Layout;
use super::verdicts::{self, Unjudged};
use super::work::{REMOVED, REPORT, UNJUDGED, Work, cannot_write, write_durably};
use super::writing;
use crate::database::{Cluster, ClusterEvent, Database};
use crate::error::{Error, Result};
use crate::ingest::{
    Event, Fingerprinting, Ingest, InputFormat, NumberedKey, Packing, Progress, Records,
    StoredRecords,
};

/// The records that are committed together.
const BATCH: usize = 5_000;

impl Dedup {
    /// The folder beside the output in which a run has its work. It is removed at the end.
    pub fn work_folder(&self) -> PathBuf {
        Work::folder_of(&self.output)
    }

    /// Cleans the inputs. If a run of the same settings was stopped before, goes on where it stopped.
    ///
    /// The output has its name only when it is whole.
    ///
    /// # Errors
    ///
    /// * [`Error::Input`](crate::Error::Input) if no input can be read, or one cannot be read twice, or changes
    ///   meanwhile. Others that cannot be read are [told](DedupEvent::Failed) and left out.
    /// * [`Error::Output`](crate::Error::Output) if the output or another result exists, or cannot be written.
    /// * [`Error::Interrupted`](crate::Error::Interrupted) if the caller ended it. The same call goes on.
    /// * Those of [`Ingest::run`], [`Snapshot::duplicates`](crate::Snapshot::duplicates) and
    ///   [`WriteTxn::commit`](crate::WriteTxn::commit).
    ///
    /// # Cost
    ///
    /// That of storing all documents, of finding all pairs, and of copying the inputs. The memory is that of
    /// [`Snapshot::clusters`](crate::Snapshot::clusters), and for each removed record some 100 bytes and its key. On
    /// the disk, the folder takes the size of the output and some 60 bytes for each record, and their keys.
    pub fn run(&self, mut observe: impl FnMut(DedupEvent<'_>)) -> Result<DedupTotals> {
        let began = Instant::now();
        self.ensure_whole_records()?;
        let mut records = self.open_inputs(&mut observe)?;
        let mut work = Work::begin(self, &records)?;
        if !work.state.is_written {
            let written = self.write(&mut work, &mut records, &mut observe);
            if written.is_err() {
                Work::remove_if_empty(self);
            }
            written?;
        }
        // Before anything is stored in the database that was named. What is stored there is removed from what comes
        // later, so it has to be in an output.
        work.deliver(self)?;
        if let Some(known) = keeping::known(self)?
            && !work.state.is_stored
        {
            let database = work.known_records()?;
            keeping::keep(&work, &records, &database, &known, &self.stop, &mut observe)?;
        }
        // What is in the folder is not needed from here on.
        work.state.is_stored = true;
        work.save()?;
        let totals = work.end()?;
        Ok(DedupTotals {
            elapsed: began.elapsed(),
            ..totals
        })
    }

    /// Makes all results in the folder of the work.
    fn write(
        &self,
        work: &mut Work,
        records: &mut StoredRecords,
        observe: Observe<'_>,
    ) -> Result<()> {
        let mut layout = Layout::new(self, records)?;
        let (database, known, left_out) = self.read(work, records, observe)?;
        if work.state.decided.is_none() {
            let mut totals =
                verdicts::decide(self, work, &layout, &database, known.as_ref(), observe)?;
            totals.failed = (records.failed().len() + left_out.len()) as u64;
            work.state.decided = Some(totals);
            work.state.left_out = left_out;
            work.save()?;
        }
        layout.leave_out(&work.state.left_out);
        writing::write(work, &layout, records, &database, &self.stop, observe)?;
        self.make_report(work, records, &database)?;
        work.ensure_unchanged(records)?;
        work.state.is_written = true;
        work.save()
    }

    /// Makes the report, if one is wanted, in the folder of the work.
    fn make_report(&self, work: &Work, records: &StoredRecords, database: &Database) -> Result<()> {
        let Some((_, reporter)) = &self.report else {
            return Ok(());
        };
        let report = reporter.make(&Removals {
            inputs: records.paths(),
            options: &self.reading(),
            rule: Fingerprinting::new(database.scheme(), self.scheme)?,
            stop: &self.stop,
            list: &work.path(REMOVED),
            totals: &work.state.decided.unwrap_or_default(),
        })?;
        write_durably(&work.path(REPORT), |out| out.write_all(&report))
    }

    /// Stores the documents of the inputs in the database of the work, and opens the one that was named.
    fn read(
        &self,
        work: &Work,
        records: &mut StoredRecords,
        observe: Observe<'_>,
    ) -> Result<(Database, Option<Database>, BTreeSet<usize>)> {
        // Directories were listed once. If they were listed again, files could be there that were not before.
        let mut unread = Records::open(records.paths().to_vec(), self.reading())?;
        let known = keeping::open(self, &mut unread)?;
        if let Some(known) = &known
            && !self.again
            && work.state.decided.is_none()
        {
            keeping::ensure_new(known, records)?;
        }
        let database = work.database(self, known.as_ref(), &mut unread)?;
        // Documents of an earlier content would stay.
        let snapshot = database.snapshot()?;
        for (index, name) in records.names()?.iter().enumerate() {
            if let Some(source) = snapshot.source(name)? {
                records.ensure_same(index, &source)?;
            }
        }
        drop(snapshot);
        let unjudged = Unjudged::at(work.path(UNJUDGED));
        let left_out = self.ingest(&database, unread, Some(unjudged), observe)?;
        Ok((database, known, left_out))
    }

    /// Opens the inputs, and tells which cannot be read. These are left out.
    fn open_inputs(&self, observe: Observe<'_>) -> Result<StoredRecords> {
        let mut records = StoredRecords::open(self.inputs.clone(), self.reading())?;
        let none = records.ensure_any();
        for (path, error) in records.failed() {
            observe(DedupEvent::Failed { path, error });
        }
        none.map(|()| records)
    }

    /// Stores the documents of the records. Returns the indices of the inputs that cannot be read to their ends. Of
    /// these no document stays, so that nothing is removed in favour of what is not in the output. Keeps the places
    /// of the records that cannot be judged.
    fn ingest(
        &self,
        database: &Database,
        unread: Records,
        unjudged: Option<Unjudged>,
        observe: Observe<'_>,
    ) -> Result<BTreeSet<usize>> {
        // Records that cannot be judged survive, also where an input has no others.
        let mut ingest = Ingest::new(database)
            .asks(false)
            .batch(BATCH)
            .knows_rejected();
        if let Some(scheme) = self.scheme {
            ingest = ingest.scheme(scheme);
        }
        let mut reading = Reading {
            paths: unread.paths().to_vec(),
            progress: unread.progress(),
            unjudged,
            left_out: BTreeSet::new(),
            observe,
        };
        let stop = self.stop.clone();
        let mut outcome = Ok(());
        ingest
            .stop_when(move || stop.is_asked())
            .run(unread, |event| {
                go_on(&mut outcome, || {
                    reading.event(&event)?;
                    self.stop.ensure_wanted()
                })
            })?;
        outcome?;
        self.stop.ensure_wanted()?;
        if !reading.left_out.is_empty() {
            remove_inputs(database, &reading.left_out)?;
        }
        Ok(reading.left_out)
    }
}

/// Does what an event asks for, unless that has failed before. The failure ends what has told of the event.
fn go_on(outcome: &mut Result<()>, work: impl FnOnce() -> Result<()>) -> ControlFlow<()> {
    if outcome.is_ok() {
        *outcome = work();
    }
    match outcome {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}

/// The inputs while their documents are stored.
struct Reading<'r> {
    paths: Vec<PathBuf>,
    progress: Progress,
    unjudged: Option<Unjudged>,
    /// The indices of those that cannot be read to their ends.
    left_out: BTreeSet<usize>,
    observe: Observe<'r>,
}

impl Reading<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<()> {
        match event {
            Event::Rejected(rejected) => {
                if let Some(unjudged) = &mut self.unjudged
                    && let Some(id) = rejected.id.as_deref()
                {
                    unjudged.add(*id);
                }
                (self.observe)(DedupEvent::Rejected(rejected));
            }
            Event::Reported => {
                if let Some(unjudged) = &mut self.unjudged {
                    unjudged.keep()?;
                }
            }
            Event::Failed {
                path,
                error,
                is_lasting: true,
            } => {
                let index = self.paths.iter().position(|known| known == path);
                self.left_out.extend(index);
                (self.observe)(DedupEvent::Failed { path, error });
            }
            // It was readable just now, and may be so again.
            Event::Failed {
                error:
                    Error::Input {
                        source_name,
                        line,
                        reason,
                    },
                ..
            } => {
                return Err(Error::Input {
                    source_name: source_name.clone(),
                    line: *line,
                    reason: reason.clone(),
                });
            }
            Event::Committed { .. } => (self.observe)(DedupEvent::Progress {
                step: DedupStep::Reading,
                done: self.progress.bytes_read(),
                all: self.progress.bytes_total().unwrap_or_default(),
            }),
            _ => {}
        }
        Ok(())
    }
}

/// Removes the documents of some inputs.
fn remove_inputs(database: &Database, inputs: &BTreeSet<usize>) -> Result<()> {
    let snapshot = database.snapshot()?;
    let mut txn = database.begin_write()?;
    for document in snapshot.documents() {
        let document = document?;
        if let Some(numbered) = NumberedKey::of_bytes(document.key())
            && inputs.contains(&(numbered.id.input as usize))
        {
            txn.delete(document.key())?;
        }
    }
    txn.commit()
}

/// Records that are near-duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DedupGroup {
    /// The index of the record that survives.
    pub survivor: usize,
    /// All records, in the order of the inputs. There are at least two.
    pub records: Vec<GroupedRecord>,
}

/// A record of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GroupedRecord {
    /// The path of its input.
    pub input: PathBuf,
    /// Its line, or its number in a web archive. `None` if the input is one record.
    pub number: Option<u64>,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
    /// The number of bits in which its fingerprint differs from that of the survivor.
    pub distance: u32,
}

impl Dedup {
    /// Finds the groups of near-duplicates, and writes nothing. Records whose texts are too short to judge are in none.
    ///
    /// # Errors
    ///
    /// Those of [`run`](Self::run), but the output is not looked at.
    ///
    /// # Cost
    ///
    /// That of storing all documents, in a folder for temporary files, and of
    /// [`Snapshot::clusters`](crate::Snapshot::clusters).
    pub fn groups(
        &self,
        mut observe: impl FnMut(DedupEvent<'_>),
        mut each: impl FnMut(DedupGroup) -> Result<()>,
    ) -> Result<()> {
        self.ensure_whole_records()?;
        let mut stored = self.open_inputs(&mut observe)?;
        let mut kinds = Vec::new();
        for index in 0..stored.paths().len() {
            kinds.push(stored.kind_of(index)?);
        }
        let folder = tempfile::tempdir().map_err(cannot_write(&std::env::temp_dir()))?;
        let mut unread = Records::open(stored.paths().to_vec(), self.reading())?;
        let options = self.options_of_new(&mut unread)?;
        let database = Database::create(folder.path().join("records.simdb"), &options)?;
        self.ingest(&database, unread, None, &mut observe)?;
        let mut outcome = Ok(());
        database.snapshot()?.clusters(&self.clustering, |event| {
            go_on(&mut outcome, || {
                match event {
                    ClusterEvent::Cluster(cluster) => each(group_of(&cluster, &stored, &kinds))?,
                    ClusterEvent::Progress { done, all } => {
                        observe(DedupEvent::comparing(done, all));
                    }
                }
                self.stop.ensure_wanted()
            })
        })?;
        outcome?;
        self.stop.ensure_wanted()
    }
}

/// The records of a cluster.
fn group_of(
    cluster: &Cluster,
    stored: &StoredRecords,
    kinds: &[(InputFormat, Packing)],
) -> DedupGroup {
    let mut records = Vec::with_capacity(cluster.documents.len());
    for document in &cluster.documents {
        let Some(NumberedKey { id, key, .. }) = NumberedKey::of_bytes(&document.key) else {
            continue;
        };
        let index = id.input as usize;
        records.push(GroupedRecord {
            input: stored.paths()[index].clone(),
            number: (kinds[index].0 != InputFormat::Text).then_some(id.number),
            key: key.map(<[u8]>::to_vec),
            distance: document.distance,
        });
    }
    DedupGroup {
        survivor: cluster.survivor,
        records,
    }
}
