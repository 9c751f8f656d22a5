//! Dedup: the settings of a cleaning, its run, step by step, and the list of groups that cleans nothing.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use serde_json::json;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::events::{DedupEvent, DedupStep, DedupTotals, Observe, Removals, Report};
use super::keeping;
use super::layout::Layout;
use super::verdicts::{self, ShortRecord, Unjudged, short_records};
use super::work::{OUTPUT, REMOVED, Work, cannot_write, write_durably};
use super::writing;
use crate::database::{
    Cluster, ClusterEvent, Clustering, CreateOptions, Database, OpenOptions, SharedFn,
};
use crate::error::{Error, Result};
use crate::ingest::{
    Cut, Event, Fingerprinting, Ingest, InputFormat, NumberedKey, Packing, Progress, ReadOptions,
    RecordId, Records, Stop, StoredRecords,
};
use crate::sketch::SketchSize;
use crate::text::{Scheme, Unit};

/// The name of the report in the folder of the work.
const REPORT: &str = "report";
/// The records that are committed together.
const BATCH: usize = 5_000;

/// Cleans a corpus: copies the records of some inputs that are no near-duplicates of others.
///
/// # Example
///
/// ```
/// use simdb::dedup::Dedup;
/// use simdb::{Clustering, Survivor};
/// # let directory = tempfile::tempdir()?;
/// # let [input, output, removed] = ["in.tsv", "clean.tsv", "removed.jsonl"].map(|name| directory.path().join(name));
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&input, format!("a.example/?from=news\t{text}\na.example\t{text}\n"))?;
///
/// let clustering = Clustering::new().survivor([Survivor::ShortestKey]);
/// let totals = Dedup::new([&input], &output).clustering(clustering).removed(&removed).run(|_event| {})?;
/// assert_eq!((totals.records, totals.kept(), totals.removed_as_equal), (2, 1, 1));
/// assert!(std::fs::read_to_string(&output)?.starts_with("a.example\t"));
/// assert!(std::fs::read_to_string(&removed)?.contains("a.example/?from=news"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Dedup {
    pub(super) inputs: Vec<PathBuf>,
    pub(super) output: PathBuf,
    pub(super) options: ReadOptions,
    pub(super) clustering: Clustering,
    pub(super) database: Option<PathBuf>,
    removed: Option<PathBuf>,
    report: Option<(PathBuf, Report)>,
    pub(super) scheme: Option<Scheme>,
    sketch_size: Option<SketchSize>,
    again: bool,
    pub(super) drops_unjudged: bool,
    pub(super) annotates: bool,
    pub(super) stop: Stop,
}

impl Dedup {
    /// Cleaning of inputs, which are files or directories, with the defaults of the setters below.
    ///
    /// If `output` is a directory or ends in a slash, or if one of the inputs is a directory or a plain text, each file
    /// gets a file of its name below `output`. Otherwise the records of all inputs get into the one file, in order.
    pub fn new(
        inputs: impl IntoIterator<Item = impl Into<PathBuf>>,
        output: impl Into<PathBuf>,
    ) -> Self {
        Self {
            inputs: inputs.into_iter().map(Into::into).collect(),
            output: output.into(),
            options: ReadOptions::new(),
            clustering: Clustering::new(),
            database: None,
            removed: None,
            report: None,
            scheme: None,
            sketch_size: None,
            again: false,
            drops_unjudged: false,
            annotates: false,
            stop: Stop::default(),
        }
    }

    /// How inputs are read. Default: [`ReadOptions::new`]. Records cannot be cut into units here.
    #[must_use]
    pub fn options(mut self, options: ReadOptions) -> Self {
        self.options = options;
        self
    }

    /// Which records are near, and which of them survive. Default: [`Clustering::new`]. Of equal records the first one
    /// survives.
    ///
    /// Where nothing else is said, the max distance is that of the [database](Self::database) if it exists. Otherwise
    /// it is 10 where sketches are compared, since all records are compared at once, and the default of
    /// [`CreateOptions::max_distance`] where not. A new database keeps it.
    #[must_use]
    pub fn clustering(mut self, clustering: Clustering) -> Self {
        self.clustering = clustering;
        self
    }

    /// A database of the records that survived in earlier cleanings. Default: none.
    ///
    /// What is near to one of its documents is removed. The records that survive are stored in it at the end, under
    /// their keys. A record without a key, or whose key another document has, gets another one: the path of the input,
    /// a colon and the line, and if another document has that too, `#` and a number behind it. The database is
    /// created if it does not exist. It is in use during the cleaning.
    #[must_use]
    pub fn database(mut self, path: impl Into<PathBuf>) -> Self {
        self.database = Some(path.into());
        self
    }

    /// A file for the removed records: a line of JSON for each, in the order of the inputs, with its place and its key,
    /// those of its survivor, the distance and the similarity. Default: none.
    #[must_use]
    pub fn removed(mut self, path: impl Into<PathBuf>) -> Self {
        self.removed = Some(path.into());
        self
    }

    /// A file for a report, which `make` makes of the removed records at the end. It gets its name together with the
    /// output. Default: none.
    #[must_use]
    pub fn report(
        mut self,
        path: impl Into<PathBuf>,
        make: impl Fn(&Removals<'_>) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        self.report = Some((path.into(), SharedFn(Arc::new(make))));
        self
    }

    /// How fingerprints are made from texts. Default: that of the database, or the one that suits the inputs.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// The size of the sketches. Default: that of the database, or of a new one.
    #[must_use]
    pub fn sketch_size(mut self, size: SketchSize) -> Self {
        self.sketch_size = Some(size);
        self
    }

    /// Whether inputs are cleaned that were cleaned against the database before. Default: false, that is an error. All
    /// of their records would be near to what was stored of them.
    #[must_use]
    pub fn again(mut self, again: bool) -> Self {
        self.again = again;
        self
    }

    /// Whether records that cannot be judged are left out of the output, such as lines that are no JSON or have no
    /// text. Default: false, they are copied. Texts that are too short to judge are copied in any case.
    #[must_use]
    pub fn drop_unjudged(mut self, drop: bool) -> Self {
        self.drops_unjudged = drop;
        self
    }

    /// Whether each record stays and is told its group, for those who weight records and drop none. Default: false.
    ///
    /// Each record that was judged gets these fields at the end of its object, or columns of these names in a Parquet
    /// file: `dedup_group` (a number from 1, in the order of the first records of groups), `dedup_size` (the records of
    /// the group, and the document of the [database](Self::database) if that is the survivor), `dedup_survives`,
    /// `dedup_survivor` (the key of the survivor, or the path of its input, a colon and its number),
    /// `dedup_distance` and `dedup_similarity` (to the survivor; null for what survives, and where no sketches were
    /// compared). All other bytes stay. A record that is near to no other is a group of its own. Older fields of these
    /// names are replaced. Records that cannot be judged get none, and in a Parquet file have nulls.
    ///
    /// Inputs have to be JSON Lines or Parquet files. The list of the [removed](Self::removed) records and the
    /// [report](Self::report) are about those that do not survive, and only those that survive are stored in a
    /// database.
    #[must_use]
    pub fn annotate(mut self, annotate: bool) -> Self {
        self.annotates = annotate;
        self
    }

    /// A function that is asked several times a second whether to end. Default: never.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.stop = Stop::when(stop);
        self
    }

    /// What was set and never changes in a database.
    fn options_asked_for(&self) -> CreateOptions {
        let mut options = CreateOptions::new();
        if let Some(scheme) = self.scheme {
            options = options.scheme(scheme);
        }
        if let Some(size) = self.sketch_size {
            options = options.sketch_size(size);
        }
        options
    }

    fn options_of_new(&self, unread: &mut Records) -> Result<CreateOptions> {
        let options = match self.scheme {
            Some(_) => self.options_asked_for(),
            None => self.options_asked_for().scheme(unread.suitable_scheme()?),
        };
        Ok(self.clustering.options_of_new(options))
    }

    /// The options of the database for the records. Those of the database that was named come first.
    pub(super) fn options_of_records(
        &self,
        known: Option<&Database>,
        unread: &mut Records,
    ) -> Result<CreateOptions> {
        match known {
            Some(known) => Ok(CreateOptions::new()
                .scheme(known.scheme())
                .sketch_size(known.sketch_size())
                .max_distance(known.max_distance())
                .min_similarity(known.min_similarity().unwrap_or(0.0))),
            None => self.options_of_new(unread),
        }
    }

    /// How the records are read, named by their places. Fields are passed over if nothing depends on them.
    pub(super) fn reading(&self) -> ReadOptions {
        let mut options = self.options.clone();
        options.numbered = true;
        if self.database.is_some() {
            return options;
        }
        for field in self.clustering.fields_not_needed() {
            options = options.ignore_field(field);
        }
        options.odd_ranks_are_none = self.clustering.is_by_default();
        options
    }

    /// Refuses no inputs at all, of which there would be no output, and everything could be said. `of` is the other
    /// file that is named.
    pub(super) fn ensure_inputs(&self, of: &Path) -> Result<()> {
        match self.inputs.is_empty() {
            true => Err(Error::input(
                of,
                "the files that are to be read are not given: name at least one",
            )),
            false => Ok(()),
        }
    }

    /// Refuses what cannot be cleaned, before anything is read.
    fn ensure_answerable(&self) -> Result<()> {
        self.ensure_inputs(&self.output)?;
        self.ensure_whole_records()?;
        self.ensure_sketches()
    }

    fn ensure_whole_records(&self) -> Result<()> {
        match self.options.unit {
            Unit::Document => Ok(()),
            // A list has no output.
            _ => Err(Error::output(
                &self.inputs[0],
                "records are taken whole: units are for databases only",
            )),
        }
    }

    /// How the documents of the records are put together, which are named by the places of these.
    pub(super) fn clustering_of_records(&self) -> Clustering {
        let clustering = self.clustering.clone();
        clustering.length_of_key(NumberedKey::length_of_key)
    }

    /// Refuses a least similarity if no sketches are made, which tell it. An existing database says that itself.
    pub(super) fn ensure_sketches(&self) -> Result<()> {
        if self.database.is_some()
            || self.sketch_size != Some(SketchSize::None)
            || !self.clustering.asks_for_similarity()
        {
            return Ok(());
        }
        Err(Error::input(
            &self.inputs[0],
            "no sketches are to be made of its records, and they would tell the least similarity: leave out \
                     one of the two",
        ))
    }

    /// Whether a list of the removed records is wanted, for its own sake or for a report.
    pub(super) fn wants_list(&self) -> bool {
        self.removed.is_some() || self.report.is_some()
    }

    /// The files that the run makes: their names in the folder of the work, and their places.
    pub(super) fn results(&self) -> Vec<(&'static str, &Path)> {
        let mut results = vec![(OUTPUT, self.output.as_path())];
        if let Some(removed) = &self.removed {
            results.push((REMOVED, removed));
        }
        if let Some((path, _)) = &self.report {
            results.push((REPORT, path));
        }
        results
    }

    /// The hash of all that the result depends on. A run goes on only if this is the same.
    pub(super) fn command(&self, inputs: &[PathBuf]) -> u64 {
        xxh3_64_with_seed(&self.command_bytes(inputs), 0)
    }

    /// All that the result depends on, as bytes: a list in JSON, in an order of its own.
    fn command_bytes(&self, inputs: &[PathBuf]) -> Vec<u8> {
        let mut names = Vec::with_capacity(inputs.len());
        for input in inputs {
            names.push(path_bytes(input));
        }
        let mut command = vec![
            json!(COMMAND_VERSION),
            json!(names),
            json!(path_bytes(&self.output)),
            json!(self.removed.as_deref().map(path_bytes)),
            json!(self.report.as_ref().map(|(path, _)| path_bytes(path))),
            json!(self.database.as_deref().map(path_bytes)),
            json!(self.scheme.as_ref().map(Scheme::to_string)),
            json!(self.sketch_size.map(SketchSize::bytes)),
            json!(self.again),
            json!(self.drops_unjudged),
            self.options.to_json(),
            self.clustering.to_json(),
        ];
        // What comes later is there only if it was asked for. So what an older release has begun goes on.
        if self.annotates {
            command.push(json!("annotate"));
        }
        json!(command).to_string().into_bytes()
    }
}

/// The version of the bytes of a command.
const COMMAND_VERSION: u8 = 1;

/// The bytes of a path, which need not be UTF-8.
fn path_bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

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
    /// * [`Error::Input`](crate::Error::Input) if no input can be read to its end, or one cannot be read twice, or
    ///   changes meanwhile. Others that cannot be read are [told](DedupEvent::Failed) and left out.
    /// * [`Error::AlreadyExists`](crate::Error::AlreadyExists) if the output or another result is there already.
    /// * [`Error::Output`](crate::Error::Output) if one cannot be written.
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
        self.ensure_answerable()?;
        let mut records = self.open_inputs(&mut observe)?;
        let mut work = Work::begin(self, &records)?;
        let made = self.make_results(&mut work, &mut records, &mut observe);
        if made.is_err() {
            work.remove_if_empty();
        }
        let known = made?;
        // Before anything is stored in the database that was named. What is stored there is removed from what comes
        // later, so it has to be in an output.
        work.deliver(self)?;
        if let Some(known) = known {
            let database = work.open_records()?;
            keeping::keep(
                &mut work,
                &mut records,
                &database,
                &known,
                &self.stop,
                &mut observe,
            )
            .map_err(Error::of_file(database.path()))?;
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

    /// Makes all results in the folder of the work, unless that was done before. Returns the database in which what
    /// survives is to be stored. From the decision on it is open, so nobody changes it.
    fn make_results(
        &self,
        work: &mut Work,
        records: &mut StoredRecords,
        observe: Observe<'_>,
    ) -> Result<Option<Database>> {
        if work.state.is_stored {
            return Ok(None);
        }
        let known = self.known_or_new(records)?;
        if let Some(known) = &known {
            work.forget_unless_decided_for(known.snapshot()?.content_digest()?);
        }
        if !work.state.has_results {
            self.write(work, records, known.as_ref(), observe)?;
        }
        Ok(known)
    }

    fn write(
        &self,
        work: &mut Work,
        records: &mut StoredRecords,
        known: Option<&Database>,
        observe: Observe<'_>,
    ) -> Result<()> {
        let mut layout = Layout::new(self, records)?;
        let (database, left_out) = self.read(work, records, known, observe)?;
        if work.state.decided.is_none() {
            work.begin_output()?;
            let mut totals =
                verdicts::decide(self, work, &layout, &left_out, &database, known, observe)?;
            totals.failed = (records.failed().len() + left_out.len()) as u64;
            work.state.decided = Some(totals);
            work.state.left_out = left_out;
            work.state.known_content = match known {
                Some(known) => Some(known.snapshot()?.content_digest()?),
                None => None,
            };
            work.save()?;
        }
        layout.leave_out(&work.state.left_out);
        writing::write(
            work,
            &layout,
            records,
            &database,
            self.annotates,
            &self.stop,
            observe,
        )?;
        self.make_report(work, records, &database)?;
        work.ensure_unchanged(records)?;
        work.has_made_results(self)
    }

    fn make_report(&self, work: &Work, records: &StoredRecords, database: &Database) -> Result<()> {
        let Some((_, make)) = &self.report else {
            return Ok(());
        };
        let report = make(&Removals {
            inputs: records.paths(),
            options: &self.reading(),
            rule: Fingerprinting::new(database.scheme(), self.scheme)?,
            stop: &self.stop,
            list: &work.path(REMOVED),
            totals: &work.state.decided.unwrap_or_default(),
        })?;
        write_durably(&work.path(REPORT), |out| out.write_all(&report))
    }

    /// Opens the database that was named, if one was. It is created if it does not exist.
    fn known_or_new(&self, records: &StoredRecords) -> Result<Option<Database>> {
        let Some(path) = &self.database else {
            return Ok(None);
        };
        let known = match Database::open(path, &OpenOptions::new()) {
            Err(Error::NotFound { path }) => {
                let options = self.options_of_new(&mut self.unread(records)?)?;
                Database::create(&path, &options)
            }
            opened => opened,
        }?;
        known.ensure_created_with(&self.options_asked_for())?;
        Ok(Some(known))
    }

    /// The records of the inputs, from the beginning. Directories were listed once: if they were listed again, files
    /// could be there that were not before.
    fn unread(&self, records: &StoredRecords) -> Result<Records> {
        Records::open(records.paths().to_vec(), self.reading())
    }

    /// Stores the documents of the inputs in the database of the work.
    fn read(
        &self,
        work: &Work,
        records: &mut StoredRecords,
        known: Option<&Database>,
        observe: Observe<'_>,
    ) -> Result<(Database, BTreeSet<usize>)> {
        if let Some(known) = known
            && !self.again
            && work.state.decided.is_none()
        {
            keeping::ensure_new(known, records)?;
        }
        let mut unread = self.unread(records)?;
        let database = work.open_or_create_records(self, known, &mut unread)?;
        if let Some(field) = unread.instead_of_texts() {
            observe(DedupEvent::TextsUnread { field });
        }
        // Documents of an earlier content would stay.
        let snapshot = database.snapshot()?;
        for (index, name) in records.names().iter().enumerate() {
            if let Some(source) = snapshot.source(name)? {
                records.ensure_same(index, &source)?;
            }
        }
        drop(snapshot);
        let unjudged = Unjudged::new(work);
        let left_out = self.ingest(&database, unread, Some(unjudged), observe)?;
        Ok((database, left_out))
    }

    /// Opens the inputs, and tells which cannot be read. These are left out.
    fn open_inputs(&self, observe: Observe<'_>) -> Result<StoredRecords> {
        let mut records = StoredRecords::open(self.inputs.clone(), self.reading())?;
        let none = records.ensure_any();
        for (path, error) in records.failed() {
            observe(DedupEvent::Failed { path, error });
        }
        none?;
        Ok(records)
    }

    /// Stores the documents of the records. Returns the indices of the inputs that cannot be read to their ends. Of
    /// these no document stays, so that nothing is removed in favour of what is not in the output. Keeps the places
    /// of the records that cannot be judged.
    pub(super) fn ingest(
        &self,
        database: &Database,
        mut unread: Records,
        unjudged: Option<Unjudged>,
        observe: Observe<'_>,
    ) -> Result<BTreeSet<usize>> {
        // So a run that goes on has the time of the one before.
        unread.date_undated(database.snapshot()?.stats()?.created);
        let mut ingest = Ingest::new(database).asks(false).batch(BATCH);
        if let Some(scheme) = self.scheme {
            ingest = ingest.scheme(scheme);
        }
        let names = unread.names();
        let mut inputs = HashMap::with_capacity(unread.paths().len());
        for (index, path) in unread.paths().iter().enumerate() {
            inputs.entry(path.clone()).or_insert(index);
        }
        let mut reading = Reading {
            inputs,
            progress: unread.progress(),
            unjudged,
            left_out: BTreeSet::new(),
            failed: None,
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
            })
            .map_err(Error::of_file(database.path()))?;
        outcome?;
        self.stop.ensure_wanted()?;
        if !reading.left_out.is_empty() {
            remove_inputs(database, &reading.left_out).map_err(Error::of_file(database.path()))?;
        }
        if let Some(error) = reading.failed {
            // One that is given twice is read once.
            let left_out = reading.left_out.iter().map(|&index| &names[index]);
            let left_out: HashSet<_> = left_out.collect();
            if names.iter().all(|name| left_out.contains(name)) {
                return Err(error);
            }
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

struct Reading<'r> {
    /// The index of each input.
    inputs: HashMap<PathBuf, usize>,
    progress: Progress,
    unjudged: Option<Unjudged>,
    /// The indices of those that cannot be read to their ends.
    left_out: BTreeSet<usize>,
    /// Why the first of them cannot.
    failed: Option<Error>,
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
                self.left_out.extend(self.inputs.get(*path));
                self.failed.get_or_insert_with(|| (*error).clone());
                (self.observe)(DedupEvent::Failed { path, error });
            }
            // It was readable just now, and may be so again.
            Event::Failed { error, .. } if matches!(error, Error::Input { .. }) => {
                return Err((*error).clone());
            }
            Event::List { path, lines } => {
                let lines = *lines;
                (self.observe)(DedupEvent::List { path, lines });
            }
            Event::Committed { .. } => {
                (self.observe)(DedupEvent::of_bytes(DedupStep::Reading, &self.progress));
            }
            _ => {}
        }
        Ok(())
    }
}

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
///
/// # Example
///
/// ```
/// use simdb::dedup::Dedup;
/// # let directory = tempfile::tempdir()?;
/// # let [input, output] = ["pages.tsv", "clean.tsv"].map(|name| directory.path().join(name));
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&input, format!("a\t{text}\nb\t{text}\n"))?;
///
/// let mut groups = Vec::new();
/// let dedup = Dedup::new([&input], &output);
/// dedup.groups(|_event| {}, |group| {
///     groups.push(group);
///     Ok(())
/// })?;
/// let group = &groups[0];
/// assert_eq!(group.records[group.survivor].key.as_deref(), Some(&b"a"[..]));
/// assert_eq!((group.records[1].number, group.records[1].distance), (Some(2), 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DedupGroup {
    /// The index of the record that survives.
    pub survivor: usize,
    /// All records, in the order of the inputs. There are at least two.
    pub records: Vec<GroupedRecord>,
}

/// A record of a group.
///
/// See the example of [`DedupGroup`].
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
    /// Finds the groups of near-duplicates, and writes nothing. Records whose texts are too short to judge are in
    /// groups of equal texts, which come last.
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
        self.ensure_answerable()?;
        let mut stored = self.open_inputs(&mut observe)?;
        let kinds = stored.kinds()?;
        let folder = tempfile::tempdir().map_err(cannot_write(&std::env::temp_dir()))?;
        let mut unread = self.unread(&stored)?;
        let options = self.options_of_new(&mut unread)?;
        let database = Database::create(folder.path().join("records.simdb"), &options)?;
        self.ingest(&database, unread, None, &mut observe)?;
        let mut outcome = Ok(());
        let clustering = self.clustering_of_records();
        database.snapshot()?.clusters(&clustering, |event| {
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
        let short = short_records(&database)?;
        for equal in short.chunk_by(|a, b| a.text == b.text) {
            if equal.len() == 1 {
                continue;
            }
            let mut records = Vec::with_capacity(equal.len());
            for ShortRecord { id, key, .. } in equal {
                records.push(grouped_record(*id, key.clone(), 0, &stored, &kinds));
            }
            each(DedupGroup {
                survivor: 0,
                records,
            })?;
        }
        self.stop.ensure_wanted()
    }
}

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
        let key = key.map(<[u8]>::to_vec);
        records.push(grouped_record(id, key, document.distance, stored, kinds));
    }
    DedupGroup {
        survivor: cluster.survivor,
        records,
    }
}

fn grouped_record(
    id: RecordId,
    key: Option<Vec<u8>>,
    distance: u32,
    stored: &StoredRecords,
    kinds: &[(InputFormat, Packing)],
) -> GroupedRecord {
    let index = id.input as usize;
    GroupedRecord {
        input: stored.paths()[index].clone(),
        number: (kinds[index].0.cut() != Cut::File).then_some(id.number),
        key,
        distance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{Near, Survivor};

    /// The command was the debug output of the settings. So a release with another field could not go on with what one
    /// without it had begun.
    #[test]
    fn the_bytes_of_a_command_stay_as_they_are() {
        let text = |dedup: &Dedup, inputs: &[PathBuf]| {
            String::from_utf8_lossy(&dedup.command_bytes(inputs)).into_owned()
        };
        assert_eq!(
            text(&Dedup::new(["in"], "o"), &["a".into()]),
            "[1,[[97]],[111],null,null,null,null,null,false,false,\
             [\"auto\",67108864,null,null,null,\"document\",[],[],null,false],\
             [null,null,null,null,null,false]]"
        );
        let options = ReadOptions::new()
            .format(InputFormat::Jsonl)
            .max_record_bytes(9)
            .key_field("k")
            .text_field("t")
            .html_field("h")
            .unit(Unit::Paragraph)
            .glob("*.x")
            .ignore_field("rank")
            .directory("d");
        let near = Near::within(3)
            .min_similarity(0.5)
            .since(7)
            .scopes(["b", "a"]);
        let clustering = Clustering::new()
            .near(near)
            .survivor([Survivor::Rank, Survivor::ShortestKey])
            .connected(true);
        let dedup = Dedup::new(["in"], "o")
            .options(options)
            .clustering(clustering)
            .database("d")
            .removed("r")
            .report("p", |_| Ok(Vec::new()))
            .scheme(Scheme::External)
            .again(true)
            .drop_unjudged(true);
        assert_eq!(
            text(&dedup, &["a".into(), "b".into()]),
            "[1,[[97],[98]],[111],[114],[112],[100],\"external\",null,true,true,\
             [\"jsonl\",9,\"k\",\"h\",\"t\",\"paragraph\",[\"*.x\"],[\"rank\"],[100],false],\
             [3,0.5,7,[\"b\",\"a\"],[\"rank\",\"shortest-key\"],true]]"
        );
        let annotated = text(&dedup.annotate(true), &["a".into(), "b".into()]);
        assert!(annotated.ends_with(",true],\"annotate\"]"), "{annotated}");
    }
}
