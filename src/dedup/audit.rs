//! Audit: proves of a cleaned corpus that no two of its records are near, and that each removed record is near to the
//! survivor that it names. It trusts nothing that the cleaning has left but the list and the texts.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::audit_report::{AuditReport, InputRecords, KeptPair};
use super::claims::{Claims, Evidence, Facts, Identity};
use super::dedup::Dedup;
use super::events::{DedupEvent, DedupStep, Observe};
use super::removed_list::ListedRecord;
use super::work::cannot_write;
use crate::database::{Database, Near, OpenOptions, PairEvent, Pairs, Snapshot, Survivor};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::ingest::{
    Cut, Fingerprinting, InputFormat, NumberedKey, ReadOptions, Record, RecordId, Records,
    Rejected, StoredRecords,
};
use crate::sketch::SketchSize;
use crate::text::{Scheme, Unit};

/// The most counter-examples of each kind that are listed.
pub(super) const MOST: usize = 10;

/// Proves that a corpus was cleaned as a list of the removed records says.
///
/// An audit finds all pairs of near records in the cleaned corpus by the exact search, of which there should be none.
/// It reads each removed record and its survivor from the inputs, makes their fingerprints and sketches anew, and
/// compares them with each other and with what the list says. Each survivor has to be among the kept records. If all
/// inputs are named, each of their records has to be either kept or removed.
///
/// # Example
///
/// ```
/// use simdb::dedup::{Audit, AuditVerdict, Dedup};
/// # let directory = tempfile::tempdir()?;
/// # let [input, output, removed] =
/// #     ["pages.tsv", "clean.tsv", "removed.jsonl"].map(|name| directory.path().join(name));
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&input, format!("a\t{text}\nb\t{text}\n"))?;
///
/// Dedup::new([&input], &output).removed(&removed).run(|_event| {})?;
/// let report = Audit::new([&output], &removed).inputs([&input]).run(|_event| {})?;
/// assert_eq!((report.kept, report.removed, report.near_pairs, report.faults), (1, 1, 0, 0));
/// assert_eq!(report.verdict(), AuditVerdict::Proven);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Audit {
    /// The cleaned corpus is read as the inputs of a cleaning are.
    clean: Dedup,
    removed: PathBuf,
    near: Near,
    inputs: Vec<PathBuf>,
    directory: Option<PathBuf>,
}

impl Audit {
    /// The audit of a cleaned corpus, which is files or directories, and of the list that
    /// [`Dedup::removed`](super::Dedup::removed) has written, with the defaults of the setters below.
    pub fn new(
        clean: impl IntoIterator<Item = impl Into<PathBuf>>,
        removed: impl Into<PathBuf>,
    ) -> Self {
        Self {
            clean: Dedup::new(clean, PathBuf::new()),
            removed: removed.into(),
            near: Near::new(),
            inputs: Vec::new(),
            directory: None,
        }
    }

    /// How the cleaned corpus and the inputs are read. Default: [`ReadOptions::new`]. It has to be as in the cleaning.
    #[must_use]
    pub fn options(mut self, options: ReadOptions) -> Self {
        self.clean = self.clean.options(options);
        self
    }

    /// Which records are near. The defaults are those of [`Dedup::clustering`](super::Dedup::clustering).
    #[must_use]
    pub fn near(mut self, near: impl Into<Near>) -> Self {
        self.near = near.into();
        self.clean.clustering = self.clean.clustering.near(self.near.clone());
        self
    }

    /// How survivors were chosen. Default: as for [`Clustering::survivor`](crate::Clustering::survivor). It has to be
    /// as in the cleaning, since it decides which fields are read, and so which records cannot be judged.
    #[must_use]
    pub fn survivor(mut self, order: impl IntoIterator<Item = Survivor>) -> Self {
        self.clean.clustering = self.clean.clustering.survivor(order);
        self
    }

    /// How fingerprints are made from texts. Default: as for [`Dedup::scheme`](super::Dedup::scheme).
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.clean = self.clean.scheme(scheme);
        self
    }

    /// The size of the sketches. Default: as for [`Dedup::sketch_size`](super::Dedup::sketch_size).
    #[must_use]
    pub fn sketch_size(mut self, size: SketchSize) -> Self {
        self.clean = self.clean.sketch_size(size);
        self
    }

    /// The database of the cleaning. Default: none, so survivors that are documents of one are not looked at.
    #[must_use]
    pub fn database(mut self, path: impl Into<PathBuf>) -> Self {
        self.clean = self.clean.database(path);
        self
    }

    /// All inputs of the cleaning, as they were given to it. Default: only those that the list names are read, and it
    /// is not looked whether a record was lost.
    #[must_use]
    pub fn inputs(mut self, inputs: impl IntoIterator<Item = impl Into<PathBuf>>) -> Self {
        self.inputs = inputs.into_iter().map(Into::into).collect();
        self
    }

    /// Where relative paths of inputs begin, in the list too. Default: where those of the cleaned corpus do.
    #[must_use]
    pub fn inputs_in(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// A function that is asked several times a second whether to end. Default: never.
    #[must_use]
    pub fn stop_when(mut self, stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.clean = self.clean.stop_when(stop);
        self
    }

    /// Looks at everything. Counter-examples are no error.
    ///
    /// # Errors
    ///
    /// * [`Error::Input`](crate::Error::Input) if the list, the cleaned corpus or an input cannot be read, or not to
    ///   its end; and if the list names an input that is not among those that were given.
    /// * [`Error::Interrupted`](crate::Error::Interrupted) if the caller ended it.
    /// * Those of [`Ingest::run`](crate::ingest::Ingest::run), [`Snapshot::pairs`](crate::Snapshot::pairs) and
    ///   [`Database::open`](crate::Database::open).
    ///
    /// # Cost
    ///
    /// That of storing the documents of the cleaned corpus, in a folder for temporary files, of finding all pairs, and
    /// of reading the inputs; fingerprints are made of the records that the list names only. The memory is some 250
    /// bytes for each removed record, and their keys.
    pub fn run(&self, mut observe: impl FnMut(DedupEvent<'_>)) -> Result<AuditReport> {
        let began = Instant::now();
        let observe: Observe<'_> = &mut observe;
        self.clean.ensure_inputs(&self.removed)?;
        self.ensure_whole_records()?;
        self.clean.ensure_sketches()?;
        let claims = Claims::read(&self.removed, &self.clean.stop)?;
        let known = self.known()?;
        let mut unread = self.clean_records(&claims)?;
        let options = self.clean.options_of_records(known.as_ref(), &mut unread)?;
        let folder = tempfile::tempdir().map_err(cannot_write(&std::env::temp_dir()))?;
        let database = Database::create(folder.path().join("kept.simdb"), &options)?;
        let paths = unread.paths().to_vec();
        let kept_unjudged = self.store(&database, unread, observe)?;

        let mut reading = InputReading::new(self, &claims, &database)?;
        reading.read(observe)?;
        let snapshot = database.snapshot()?;
        let mut kept = Kept::read(&snapshot, &claims, &mut reading)?;
        let mut report = self.report_of(&snapshot, kept_unjudged)?;
        report.inputs = reading.inputs(&snapshot, &paths, observe)?;
        (report.near_pairs, report.near) = self.near_pairs(&snapshot, &paths, observe)?;
        kept.add_short_pairs(&mut report, &paths);

        let known = known.as_ref().map(Database::snapshot).transpose()?;
        claims.check(
            &reading.evidence,
            &kept.survivors,
            known.as_ref(),
            &mut report,
            &self.clean.stop,
        )?;
        report.elapsed = began.elapsed();
        Ok(report)
    }

    fn ensure_whole_records(&self) -> Result<()> {
        match self.clean.options.unit {
            Unit::Document => Ok(()),
            _ => Err(Error::input(
                &self.removed,
                "records are removed whole, so they are not cut into units",
            )),
        }
    }

    /// The database of the cleaning, if one was named.
    fn known(&self) -> Result<Option<Database>> {
        match &self.clean.database {
            Some(path) => Database::open(path, &OpenOptions::new().read_only(true)).map(Some),
            None => Ok(None),
        }
    }

    /// How records are read: so that they are known again wherever they were copied to.
    fn reading(&self) -> ReadOptions {
        let mut options = self.clean.reading();
        options.hashes_texts = true;
        let clean = self.clean.stop.clone();
        options.stop_when(move || clean.is_asked())
    }

    fn clean_records(&self, claims: &Claims) -> Result<Records> {
        let mut options = self.reading();
        if let Some(format) = self.format_of_copy(claims) {
            options = options.format(format);
        }
        Records::open(self.clean.inputs.clone(), options)
    }

    /// The format of a copy in one file, if all inputs have the same. Its name need not tell it, and its content may
    /// look like another.
    fn format_of_copy(&self, claims: &Claims) -> Option<InputFormat> {
        let options = self.reading();
        let mut copies = self.clean.inputs.iter();
        if !options.detects_format() || copies.any(|copy| options.place_of(copy).is_dir()) {
            return None;
        }
        // What cannot be read is told when the inputs are read.
        let inputs = self.input_paths(claims).ok()?;
        let mut records = StoredRecords::open(inputs, self.input_reading()).ok()?;
        let mut formats = Vec::new();
        for (format, packing) in records.kinds().ok()? {
            formats.push((!packing.is_of_rows()).then_some(format));
        }
        formats.dedup();
        match formats[..] {
            [Some(format)] if format.cut() != Cut::File => Some(format),
            _ => None,
        }
    }

    /// The paths of the inputs, each file once, with the files of directories in their place. Of the names of a file,
    /// it has the one that the list has.
    fn input_paths(&self, claims: &Claims) -> Result<Vec<PathBuf>> {
        let mut paths = self.inputs.clone();
        if paths.is_empty() {
            for name in claims.names() {
                paths.push(path_of(name, &self.removed)?);
            }
        }
        let mut records = self.input_records(paths)?;
        // Otherwise a directory could be among the paths, whose files would come into its place.
        records.ensure_readable()?;
        let listed: HashSet<&[u8]> = claims.names().iter().map(Vec::as_slice).collect();
        let mut given = HashSet::new();
        let mut indexes = HashMap::new();
        let mut paths = Vec::new();
        for (source, path) in records.names().iter().zip(records.paths()) {
            let name = path.as_os_str().as_encoded_bytes();
            if !given.insert(name) {
                continue;
            }
            match source.as_ref().and_then(|source| indexes.get(source)) {
                // A cleaning reads a file once, under the first of its names.
                Some(&index) if listed.contains(name) => paths[index] = path.clone(),
                Some(_) => {}
                None => {
                    indexes.extend(source.clone().map(|source| (source, paths.len())));
                    paths.push(path.clone());
                }
            }
        }
        for name in claims.names() {
            if !given.contains(name.as_slice()) {
                return Err(Error::input(
                    &self.removed,
                    format!(
                        "it names the input {}, which is not among those that were given: give all inputs by the names \
                         that they had in the cleaning",
                        name.escape_ascii()
                    ),
                ));
            }
        }
        Ok(paths)
    }

    fn input_records(&self, paths: Vec<PathBuf>) -> Result<Records> {
        Records::open(paths, self.input_reading())
    }

    fn input_reading(&self) -> ReadOptions {
        match &self.directory {
            Some(directory) => self.reading().directory(directory),
            None => self.reading(),
        }
    }

    /// Stores the documents of the cleaned corpus. Returns the number of records that cannot be judged.
    fn store(&self, database: &Database, unread: Records, observe: Observe<'_>) -> Result<u64> {
        let mut unjudged = 0;
        let mut failed = None;
        self.clean.ingest(database, unread, None, &mut |event| {
            match &event {
                DedupEvent::Rejected(_) => unjudged += 1,
                DedupEvent::Failed { error, .. } => {
                    failed.get_or_insert_with(|| error.to_string());
                }
                DedupEvent::TextsUnread { .. }
                | DedupEvent::List { .. }
                | DedupEvent::Progress { .. } => {}
            }
            observe(event);
        })?;
        match failed {
            None => Ok(unjudged),
            Some(reason) => Err(Error::Input {
                source_name: "the cleaned corpus".to_owned(),
                line: None,
                reason: format!("it cannot be read to its end: {reason}"),
            }),
        }
    }

    /// What is known before anything is compared.
    fn report_of(&self, snapshot: &Snapshot, kept_unjudged: u64) -> Result<AuditReport> {
        let stats = snapshot.stats()?;
        let min_similarity = self
            .near
            .min_similarity
            .or(stats.min_similarity)
            .filter(|&least| least > 0.0);
        Ok(AuditReport {
            scheme: stats.scheme,
            sketch_size: stats.sketch_size,
            max_distance: self.near.max_distance.unwrap_or(stats.max_distance),
            min_similarity,
            kept: stats.documents + kept_unjudged,
            kept_too_short: stats.too_short,
            kept_unjudged,
            near_pairs: 0,
            near: Vec::new(),
            removed: 0,
            unchecked: 0,
            greatest_distance: 0,
            least_similarity: None,
            faults: 0,
            faulty: Vec::new(),
            inputs: None,
            elapsed: Default::default(),
        })
    }

    /// Counts the pairs of near kept records, and lists the first.
    fn near_pairs(
        &self,
        snapshot: &Snapshot,
        paths: &[PathBuf],
        observe: Observe<'_>,
    ) -> Result<(u64, Vec<KeptPair>)> {
        let pairs = snapshot.pairs(self.near.clone());
        let mut count = 0u64;
        // A fingerprint of a million records has half a billion pairs. So groups are counted.
        self.each_pair(&pairs, observe, |event| {
            let found = match event {
                PairEvent::Group(group) => {
                    let others = group.documents.saturating_sub(1);
                    group.documents.saturating_mul(others) / 2
                }
                PairEvent::Pair(pair) => pair.a.documents.saturating_mul(pair.b.documents),
                PairEvent::Progress { .. } => 0,
            };
            count = count.saturating_add(found);
            ControlFlow::Continue(())
        })?;
        let mut near = Vec::new();
        if count == 0 {
            return Ok((count, near));
        }
        self.each_pair(&pairs.each_document(true), observe, |event| {
            if let PairEvent::Pair(pair) = event {
                near.push(KeptPair {
                    a: listed_key(&pair.a.newest_key, paths),
                    b: listed_key(&pair.b.newest_key, paths),
                    distance: pair.distance,
                    similarity: pair.similarity,
                });
            }
            match near.len() {
                MOST => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        })?;
        Ok((count, near))
    }

    fn each_pair(
        &self,
        pairs: &Pairs,
        observe: Observe<'_>,
        mut each: impl FnMut(PairEvent) -> ControlFlow<()>,
    ) -> Result<()> {
        pairs.run(|event| {
            if let PairEvent::Progress { done, all, .. } = event {
                observe(DedupEvent::comparing(done, all));
            }
            match self.clean.stop.is_asked() {
                true => ControlFlow::Break(()),
                false => each(event),
            }
        })?;
        self.clean.stop.ensure_wanted()
    }
}

struct Kept {
    /// The survivors that the list names, and whether each was found.
    survivors: HashMap<Identity, bool>,
    /// The texts that are too short to judge, by their hashes.
    short: Vec<(u128, RecordId)>,
}

impl Kept {
    /// Goes through all of them.
    fn read(snapshot: &Snapshot, claims: &Claims, reading: &mut InputReading<'_>) -> Result<Self> {
        let mut survivors = reading.evidence.survivors(claims);
        let mut short = Vec::new();
        for (number, document) in snapshot.documents().enumerate() {
            if number.is_multiple_of(1 << 14) {
                reading.audit.clean.stop.ensure_wanted()?;
            }
            let Some((id, facts)) = Facts::of(&document?) else {
                continue;
            };
            if let Some(is_found) = survivors.get_mut(&facts.identity) {
                *is_found = true;
            }
            if let Some(balance) = &mut reading.balance {
                balance.add(facts.identity, Pile::Kept);
            }
            if let Some(text) = facts.short_text() {
                short.push((text, id));
            }
        }
        Ok(Self { survivors, short })
    }

    /// Adds the pairs of texts that are too short to judge, and the same.
    fn add_short_pairs(&mut self, report: &mut AuditReport, paths: &[PathBuf]) {
        self.short.sort_unstable();
        for same in self.short.chunk_by(|a, b| a.0 == b.0) {
            let count = same.len() as u64;
            report.near_pairs = report.near_pairs.saturating_add(count * (count - 1) / 2);
            for (_, id) in &same[1..] {
                if report.near.len() < MOST {
                    report.near.push(KeptPair {
                        a: listed_place(same[0].1, paths),
                        b: listed_place(*id, paths),
                        distance: 0,
                        similarity: None,
                    });
                }
            }
        }
    }
}

fn listed_key(key: &[u8], paths: &[PathBuf]) -> ListedRecord {
    match NumberedKey::of_bytes(key) {
        Some(NumberedKey { id, key, .. }) => ListedRecord {
            key: key.map(<[u8]>::to_vec),
            ..listed_place(id, paths)
        },
        None => ListedRecord::default(),
    }
}

fn path_of(name: &[u8], list: &Path) -> Result<PathBuf> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        _ = list;
        Ok(std::ffi::OsStr::from_bytes(name).into())
    }
    #[cfg(not(unix))]
    match std::str::from_utf8(name) {
        Ok(name) => Ok(name.into()),
        Err(_) => Err(Error::input(
            list,
            "it names an input by bytes that are no path here; name the inputs",
        )),
    }
}

// The inputs of a cleaning that is audited: the facts of the records that the list names, and whether each of the
// others was kept.

struct InputReading<'a> {
    audit: &'a Audit,
    rule: Fingerprinting,
    paths: Vec<PathBuf>,
    evidence: Evidence,
    /// Whether each record is either kept or removed, if all inputs are named.
    balance: Option<Balance>,
    records: u64,
    unjudged: u64,
}

impl<'a> InputReading<'a> {
    fn new(audit: &'a Audit, claims: &Claims, database: &Database) -> Result<Self> {
        let size = database.sketch_size();
        let rule = Fingerprinting::new(database.scheme(), audit.clean.scheme)?
            .sketch_size(size)
            .stores(true);
        let paths = audit.input_paths(claims)?;
        Ok(Self {
            audit,
            rule,
            evidence: Evidence::new(claims, &paths),
            paths,
            balance: (!audit.inputs.is_empty()).then(Balance::new),
            records: 0,
            unjudged: 0,
        })
    }

    /// Reads all records, and makes fingerprints of those that the list names.
    fn read(&mut self, observe: Observe<'_>) -> Result<()> {
        let mut records = self.audit.input_records(self.paths.clone())?;
        let progress = records.progress();
        loop {
            let chunk = self.next_chunk(&mut records)?;
            if chunk.is_empty() {
                return Ok(());
            }
            for read in chunk {
                match read {
                    Ok(document) => self.take(document.as_ref()),
                    Err(rejected) if rejected.is_input() => return Err(rejected.into()),
                    Err(_) => {
                        self.records += 1;
                        self.unjudged += 1;
                    }
                }
            }
            observe(DedupEvent::of_bytes(DedupStep::Reading, &progress));
            self.audit.clean.stop.ensure_wanted()?;
        }
    }

    /// The next documents. A record that nothing is to be known of has none.
    fn next_chunk(&self, records: &mut Records) -> Result<Vec<Result<Option<Document>, Rejected>>> {
        let evidence = &self.evidence;
        let rule = self.rule;
        let needs_all = self.balance.is_some();
        records.next_chunk(|record: Record| {
            if record.id().is_some_and(|id| evidence.needs(id)) {
                record.into_document(rule).map(Some)
            } else if needs_all {
                record.into_unjudged(rule).map(Some)
            } else {
                Ok(None)
            }
        })
    }

    fn take(&mut self, document: Option<&Document>) {
        let Some((id, facts)) = document.and_then(Facts::of) else {
            return;
        };
        self.records += 1;
        self.evidence.take(id, facts);
        if let Some(balance) = &mut self.balance
            && !self.evidence.is_removed(id)
        {
            balance.add(facts.identity, Pile::Inputs);
        }
    }

    /// What came of all records, if all inputs are named. Where something is missing, they are read once more.
    fn inputs(
        &self,
        snapshot: &Snapshot,
        kept_paths: &[PathBuf],
        observe: Observe<'_>,
    ) -> Result<Option<InputRecords>> {
        let Some(balance) = &self.balance else {
            return Ok(None);
        };
        let mut inputs = InputRecords {
            records: self.records,
            unjudged: self.unjudged,
            ..InputRecords::default()
        };
        if balance.is_even() {
            return Ok(Some(inputs));
        }
        let mut difference = Difference::new(balance);
        self.weigh_inputs(&mut difference, observe)?;
        for document in snapshot.documents() {
            if let Some((id, facts)) = Facts::of(&document?) {
                difference.add(facts.identity, id, Pile::Kept);
            }
        }
        let (lost, places) = difference.more_of(Pile::Inputs);
        inputs.lost = lost;
        inputs.lost_records = listed_places(&places, &self.paths);
        let (foreign, places) = difference.more_of(Pile::Kept);
        inputs.foreign = foreign;
        inputs.foreign_records = listed_places(&places, kept_paths);
        Ok(Some(inputs))
    }

    fn weigh_inputs(&self, difference: &mut Difference<'_>, observe: Observe<'_>) -> Result<()> {
        let mut records = self.audit.input_records(self.paths.clone())?;
        let progress = records.progress();
        loop {
            let rule = self.rule;
            let chunk = records.next_chunk(|record: Record| record.into_unjudged(rule))?;
            if chunk.is_empty() {
                return Ok(());
            }
            for document in chunk.into_iter().flatten() {
                if let Some((id, facts)) = Facts::of(&document)
                    && !self.evidence.is_removed(id)
                {
                    difference.add(facts.identity, id, Pile::Inputs);
                }
            }
            observe(DedupEvent::of_bytes(DedupStep::Reading, &progress));
            self.audit.clean.stop.ensure_wanted()?;
        }
    }
}

fn listed_place(id: RecordId, paths: &[PathBuf]) -> ListedRecord {
    let path = paths[id.input as usize].as_os_str().as_encoded_bytes();
    ListedRecord {
        place: Some((path.to_vec(), id.number)),
        key: None,
    }
}

fn listed_places(places: &[RecordId], paths: &[PathBuf]) -> Vec<ListedRecord> {
    let mut listed = Vec::with_capacity(places.len().min(MOST));
    for id in places.iter().take(MOST) {
        listed.push(listed_place(*id, paths));
    }
    listed
}

// The balance of two piles of records: whether they hold the same ones, in memory that does not grow with them.
//
// Each record goes into the bucket that its hash says. A bucket has the number of its records and the sum of their
// hashes; what the other pile holds is taken off. If all buckets are empty at the end, both piles hold the same. If
// some are not, the records of these alone are looked at again.

const BUCKETS: usize = 1 << 16;

struct Balance {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Bucket {
    records: i64,
    /// The sum, which wraps around.
    hashes: u128,
}

/// The pile that a record lies on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pile {
    /// The records of the inputs that were not removed.
    Inputs,
    /// The records that were kept.
    Kept,
}

impl Balance {
    fn new() -> Self {
        Self {
            buckets: vec![Bucket::default(); BUCKETS],
        }
    }

    fn add(&mut self, identity: Identity, pile: Pile) {
        let Identity(hash) = identity;
        let bucket = &mut self.buckets[hash as usize % BUCKETS];
        match pile {
            Pile::Inputs => {
                bucket.records += 1;
                bucket.hashes = bucket.hashes.wrapping_add(hash);
            }
            Pile::Kept => {
                bucket.records -= 1;
                bucket.hashes = bucket.hashes.wrapping_sub(hash);
            }
        }
    }

    fn is_even(&self) -> bool {
        self.buckets
            .iter()
            .all(|bucket| *bucket == Bucket::default())
    }

    /// Whether a record is one of those of which the piles may hold different numbers.
    fn may_differ(&self, identity: Identity) -> bool {
        self.buckets[identity.0 as usize % BUCKETS] != Bucket::default()
    }
}

/// The records of which two piles hold different numbers.
struct Difference<'b> {
    balance: &'b Balance,
    records: HashMap<Identity, Weighed>,
}

/// Records that cannot be told apart.
struct Weighed {
    /// How many more the inputs have than were kept.
    more: i64,
    /// The last one of the inputs.
    of_inputs: Option<RecordId>,
    /// The last one of those that were kept.
    kept: Option<RecordId>,
}

impl<'b> Difference<'b> {
    fn new(balance: &'b Balance) -> Self {
        Self {
            balance,
            records: HashMap::new(),
        }
    }

    fn add(&mut self, identity: Identity, id: RecordId, pile: Pile) {
        if !self.balance.may_differ(identity) {
            return;
        }
        let weighed = self.records.entry(identity).or_insert(Weighed {
            more: 0,
            of_inputs: None,
            kept: None,
        });
        match pile {
            Pile::Inputs => {
                weighed.more += 1;
                weighed.of_inputs = Some(id);
            }
            Pile::Kept => {
                weighed.more -= 1;
                weighed.kept = Some(id);
            }
        }
    }

    /// How many more records a pile has than the other one, and the places of some, in their order.
    fn more_of(&self, pile: Pile) -> (u64, Vec<RecordId>) {
        let mut count = 0;
        let mut places = Vec::new();
        for weighed in self.records.values() {
            let (more, place) = match pile {
                Pile::Inputs => (weighed.more, weighed.of_inputs),
                Pile::Kept => (-weighed.more, weighed.kept),
            };
            if let Ok(more @ 1..) = u64::try_from(more) {
                count += more;
                places.extend(place);
            }
        }
        places.sort_unstable();
        (count, places)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(number: u64) -> Identity {
        Identity(number.into())
    }

    #[test]
    fn piles_are_even_only_if_they_hold_the_same() {
        let mut balance = Balance::new();
        for number in 0..1_000 {
            balance.add(identity(number), Pile::Inputs);
            balance.add(identity(999 - number), Pile::Kept);
        }
        assert!(balance.is_even());
        // One is lost, one is foreign, and one is there twice.
        balance.add(identity(2_000), Pile::Inputs);
        balance.add(identity(3_000), Pile::Kept);
        balance.add(identity(7), Pile::Kept);
        assert!(!balance.is_even());
        let place = |number| RecordId { input: 0, number };
        let mut difference = Difference::new(&balance);
        for number in (0..1_000).chain([2_000]) {
            difference.add(identity(number), place(number), Pile::Inputs);
        }
        for number in (0..1_000).chain([3_000, 7]) {
            difference.add(identity(number), place(number), Pile::Kept);
        }
        assert_eq!(difference.more_of(Pile::Inputs), (1, vec![place(2_000)]));
        assert_eq!(
            difference.more_of(Pile::Kept),
            (2, vec![place(7), place(3_000)])
        );
    }
}
