//! A process that is killed again and again while it does all at once: two threads write through a writer, one reads an
//! input and notes how far, one inserts and expires, one compacts, and merges never end.
//!
//! The process tells by a pipe what it is about to submit and what was acknowledged. After each kill, what was
//! acknowledged has to be there, and nothing that was not submitted. `SIMDB_KILLS` is the number of kills, and
//! `SIMDB_SEED` the number that the pauses and the documents come from.
#![cfg(unix)]

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use simdb::ingest::{Fingerprinting, InputFormat, ReadOptions, Record, Records};
use simdb::{
    Database, Document, Expiry, Fingerprint, Policy, Query, Scheme, Writer, WriterOptions,
};

use crate::support::random::{chosen_amount, seed_or};
use crate::support::{Folder, LIMIT, assert_sound, every, external, go_on, tiny, within};

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TEST: &str = "kills::a_killed_process_has_stored_what_it_was_told_and_nothing_else";

/// Says to a process of this test what it is to do: the path of the database, the input, the number of its life, the
/// seed.
const LIFE: &str = "SIMDB_TEST_LIFE";

/// The keys of a thread that writes. Few, so that most are replaced or deleted again and again.
const KEYS: u64 = 48;

/// The records of the input.
const RECORDS: u64 = 4_000;

/// The submissions of a thread that wait for their answers.
const OPEN: usize = 24;

/// So many documents of the thread that expires are left.
const WINDOW: u64 = 40;

/// A number that looks random, for numbers that are alike.
fn mixed(numbers: [u64; 3]) -> u64 {
    numbers.into_iter().fold(7, |sum: u64, number| {
        let mixed = (sum ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
    })
}

/// What a thread does as its operation `number`. All that is stored follows from these numbers.
struct Operation {
    key: String,
    /// `None` if the key is deleted.
    document: Option<Document>,
}

impl Operation {
    fn of(seed: u64, life: u64, thread: u64, number: u64) -> Self {
        let chosen = mixed([seed ^ thread, life, number]);
        let key = format!("w{thread} {}", chosen % KEYS);
        // Many fingerprints are near each other.
        let centre = (chosen >> 8) % 9 * 0x1111_1111_1111_1111;
        let bits = centre ^ 1 << ((chosen >> 16) % 64);
        let document = Document::new(key.clone(), Fingerprint::from_bits(bits))
            .with_seen(number as i64)
            .with_payload(format!("{life} {number}"));
        let is_deleted = (chosen >> 32).is_multiple_of(4);
        let document = (!is_deleted).then_some(document);
        Self { key, document }
    }
}

/// A document of the thread that expires. Its number is its time.
fn passing(number: u64) -> Document {
    let bits = mixed([number, 0, 0]);
    Document::new(format!("e {number:09}"), Fingerprint::from_bits(bits))
        .with_seen(number as i64)
        .with_scope("passing")
}

/// Tells the parent something. A line is written as a whole or not at all.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    _ = out.write_all(format!("@{line}\n").as_bytes());
    _ = out.flush();
}

/// The life of a process, which ends only by a kill.
struct Life {
    database: Database,
    writer: Writer,
    input: PathBuf,
    seed: u64,
    number: u64,
}

impl Life {
    fn begin(told: &str) -> Result<Self, Failure> {
        let parts: Vec<&str> = told.split('\n').collect();
        let [path, input, number, seed] = parts[..] else {
            return Err(format!("not a life: {told}").into());
        };
        let database = Database::open(path, &tiny())?;
        let options = WriterOptions::new()
            .queue(64)
            .batch(16)
            .max_age(Duration::from_millis(1));
        Ok(Self {
            writer: database.writer(options)?,
            database,
            input: input.into(),
            number: number.parse()?,
            seed: seed.parse()?,
        })
    }

    fn live(&self) -> Result<(), Failure> {
        // The harness has begun a line.
        println!();
        tell("begun");
        thread::scope(|scope| {
            let threads = [
                scope.spawn(|| self.write(0)),
                scope.spawn(|| self.write(1)),
                scope.spawn(|| self.read_input()),
                scope.spawn(|| self.expire()),
                scope.spawn(|| self.compact()),
            ];
            threads
                .into_iter()
                .try_for_each(|thread| thread.join().expect("no thread panics"))
        })
    }

    /// Replaces and deletes documents, some at a time, and tells which are acknowledged.
    fn write(&self, thread: u64) -> Result<(), Failure> {
        let mut put = VecDeque::new();
        let mut acknowledged = 0;
        for number in 0.. {
            if number % 8 == 0 {
                tell(&format!("submits {thread} {}", number + 8));
            }
            let operation = Operation::of(self.seed, self.number, thread, number);
            let ticket = match operation.document {
                Some(document) => Ok(self.writer.submit(document, &Policy::link())?),
                None => Err(self.writer.submit_delete(operation.key)?),
            };
            put.push_back(ticket);
            if put.len() < OPEN {
                continue;
            }
            while let Some(ticket) = put.pop_front() {
                match ticket {
                    Ok(inserted) => _ = inserted.wait()?,
                    Err(deleted) => _ = deleted.wait()?,
                }
                acknowledged += 1;
            }
            tell(&format!("has {thread} {acknowledged}"));
        }
        Ok(())
    }

    /// Submits the records of an input, each with the place behind it.
    fn read_input(&self) -> Result<(), Failure> {
        let options = ReadOptions::new().format(InputFormat::Fingerprints);
        let mut records = Records::open([&self.input], options)?;
        records.resume(&self.database.snapshot()?)?;
        let rule = Fingerprinting::new(Scheme::External, None)?;
        loop {
            let chunk = records.next_read(|record: Record| record.into_document(rule))?;
            if chunk.is_empty() {
                return Ok(());
            }
            for read in chunk {
                let reached = read.reached;
                let place = reached
                    .as_ref()
                    .map_or(0, |reached| reached.place().records);
                let Some(record) = read
                    .record
                    .transpose()
                    .map_err(|rejected| rejected.to_string())?
                else {
                    if let Some(reached) = reached {
                        self.writer.submit_reached(reached)?.wait()?;
                    }
                    continue;
                };
                let told = move |verdict: simdb::Result<simdb::Verdict>| {
                    if verdict.is_ok() {
                        tell(&format!("read {place}"));
                    }
                };
                self.writer
                    .submit_with((record, reached), &Policy::link(), told)?;
            }
        }
    }

    /// Inserts documents, and expires those that are old enough.
    fn expire(&self) -> Result<(), Failure> {
        let mut next = self.number * 1_000_000;
        loop {
            tell(&format!("inserts {}", next + 8));
            let mut txn = self.database.begin_write()?;
            for number in next..next + 8 {
                txn.insert(&passing(number))?;
            }
            txn.commit()?;
            next += 8;
            tell(&format!("inserted {next}"));
            let end = next.saturating_sub(WINDOW);
            tell(&format!("expires {end}"));
            let expiry = Expiry::new().before(end as i64).scopes(["passing"]);
            self.database.expire(&expiry, every)?;
            tell(&format!("expired {end}"));
        }
    }

    fn compact(&self) -> Result<(), Failure> {
        loop {
            thread::sleep(Duration::from_millis(
                mixed([self.seed, self.number, 1]) % 20,
            ));
            self.database.compact(go_on)?;
            tell("compacted 1");
        }
    }
}

/// What a process has told, up to its end.
#[derive(Default)]
struct Told {
    /// By thread that writes: the operations that it was about to submit, and those that were acknowledged.
    submitted: [u64; 2],
    acknowledged: [u64; 2],
    /// The records of the input that were acknowledged.
    read: u64,
    /// The ends of the passing documents that it was about to insert, and that were inserted.
    inserting: u64,
    inserted: u64,
    /// The times before which documents were about to be expired, and were expired.
    expiring: u64,
    expired: u64,
    compacted: u64,
}

impl Told {
    fn note(&mut self, line: &str) -> Result<(), Failure> {
        let words: Vec<&str> = line.split(' ').collect();
        let number = words[words.len() - 1].parse()?;
        let thread: usize = words.get(1).ok_or("a number")?.parse()?;
        let place = match words[0] {
            "submits" => &mut self.submitted[thread],
            "has" => &mut self.acknowledged[thread],
            "read" => &mut self.read,
            "inserts" => &mut self.inserting,
            "inserted" => &mut self.inserted,
            "expires" => &mut self.expiring,
            "expired" => &mut self.expired,
            "compacted" => {
                self.compacted += 1;
                return Ok(());
            }
            _ => return Err(format!("what is {line}?").into()),
        };
        *place = number;
        Ok(())
    }
}

/// What has to be stored, as it was found after the last kill.
#[derive(Default)]
struct Stored {
    /// By thread, the documents of the threads that write.
    written: [BTreeMap<String, Document>; 2],
    read: u64,
    /// The numbers of the passing documents.
    passing: Vec<u64>,
}

impl Stored {
    fn of(database: &Database, input: &Path) -> Result<Self, Failure> {
        let snapshot = database.snapshot()?;
        let mut stored = Self::default();
        let mut records = Vec::new();
        for document in snapshot.documents() {
            let document = document?;
            let key = String::from_utf8(document.key().to_vec())?;
            let number = key.split(' ').next_back().unwrap_or_default().parse()?;
            match &key[..2] {
                "w0" => _ = stored.written[0].insert(key, document),
                "w1" => _ = stored.written[1].insert(key, document),
                "e " if document == passing(number) => stored.passing.push(number),
                "r " if document.fingerprint() == Some(of_record(number)) => records.push(number),
                _ => return Err(format!("nobody submitted {document:?}").into()),
            }
        }
        records.sort_unstable();
        stored.passing.sort_unstable();
        let source = snapshot.source(input.as_os_str().as_encoded_bytes())?;
        stored.read = source.map_or(0, |source| source.place().records);
        // Each record is stored together with the place behind it.
        if !records.iter().copied().eq(0..stored.read) {
            let read = stored.read;
            return Err(format!("read up to record {read}, stored: {records:?}").into());
        }
        Ok(stored)
    }

    /// Checks that what is stored now follows from what was stored before and from what a process has told.
    fn ensure_follows(&self, old: &Self, told: &Told, life: u64, seed: u64) -> Result<(), Failure> {
        for thread in 0..2 {
            let before = &old.written[thread];
            if !follows(&self.written[thread], before, told, (life, thread, seed)) {
                return Err(format!(
                    "thread {thread}: after none of operations {} to {} is stored what is: {:?}, before {before:?}",
                    told.acknowledged[thread], told.submitted[thread], self.written[thread]
                )
                .into());
            }
        }
        if self.read < old.read.max(told.read) {
            return Err(format!("read {}, acknowledged {}", self.read, told.read).into());
        }
        let begun = life * 1_000_000;
        for number in &self.passing {
            let is_known = old.passing.contains(number) || (begun..told.inserting).contains(number);
            if !is_known || *number < told.expired {
                return Err(format!("passing document {number} is there").into());
            }
        }
        for number in old.passing.iter().copied().chain(begun..told.inserted) {
            if number >= told.expiring && !self.passing.contains(&number) {
                return Err(format!("passing document {number} is gone").into());
            }
        }
        Ok(())
    }
}

/// Whether what a thread has stored is what one of its operations leaves, of those that may have been the last.
fn follows(
    stored: &BTreeMap<String, Document>,
    before: &BTreeMap<String, Document>,
    told: &Told,
    (life, thread, seed): (u64, usize, u64),
) -> bool {
    let mut model = before.clone();
    for number in 0..=told.submitted[thread] {
        if number >= told.acknowledged[thread] && model == *stored {
            return true;
        }
        let Operation { key, document } = Operation::of(seed, life, thread as u64, number);
        match document {
            Some(document) => _ = model.insert(key, document),
            None => _ = model.remove(&key),
        }
    }
    false
}

/// The fingerprint of a record of the input.
fn of_record(number: u64) -> Fingerprint {
    Fingerprint::from_bits(mixed([number, 1, 2]))
}

/// Starts a process that works on a file, and waits until it has begun.
fn start(told: &str) -> Result<(Child, BufReader<ChildStdout>), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", TEST, "--nocapture", "--test-threads", "1"]);
    let mut child = command
        .env(LIFE, told)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()?;
    let mut out = BufReader::new(child.stdout.take().ok_or("standard output is a pipe")?);
    let mut line = String::new();
    while line != "@begun\n" {
        line.clear();
        if out.read_line(&mut line)? == 0 {
            return Err(format!("it ended before it began: {:?}", child.wait()?).into());
        }
    }
    Ok((child, out))
}

/// One life on a file: a process works for a while and is killed. Returns what it has told. Every second process is
/// killed only after it has done something, however slow the machine is. `has_read` says that nothing is left to read.
fn live_and_die(
    told: &str,
    pause: Duration,
    is_second: bool,
    has_read: bool,
) -> Result<Told, Failure> {
    let (mut child, out) = start(told)?;
    let (send, has_begun) = mpsc::channel();
    // The pipe is read meanwhile, so that nobody waits for room in it.
    let reader = thread::spawn(move || -> Result<Told, Failure> {
        let mut told = Told::default();
        for line in out.lines() {
            // Lines of the harness are none of ours.
            if let Some(line) = line?.strip_prefix('@') {
                told.note(line)?;
                if told.acknowledged[0] > 0 && (told.read > 0 || has_read) {
                    _ = send.send(());
                }
            }
        }
        Ok(told)
    });
    if is_second {
        // If the process ends, this ends too.
        _ = has_begun.recv_timeout(LIMIT);
    }
    thread::sleep(pause);
    child.kill()?;
    let status = child.wait()?;
    if status.code().is_some() {
        return Err(format!("it ended by itself: {status}").into());
    }
    within(LIMIT, move || reader.join().expect("no panic"))
}

/// What came of the lives on one file.
#[derive(Debug, Default)]
struct Counts {
    kills: u64,
    acknowledged: u64,
    read: u64,
    compacted: u64,
}

/// Kills processes on one file, as long as `next` gives another turn.
fn kill_all(
    folder: &Folder,
    name: &str,
    seed: u64,
    next: impl Fn() -> bool,
) -> Result<Counts, Failure> {
    let path = folder.path(&format!("{name}.simdb"));
    let lines: String = (0..RECORDS)
        .map(|number| format!("r {number}\t{}\n", of_record(number)))
        .collect();
    let input = folder.file(&format!("{name}.tsv"), lines)?.canonicalize()?;
    let options = external().recent_documents(8).tiny_blocks();
    drop(Database::create(&path, &options)?);
    let mut stored = Stored::default();
    let mut counts = Counts::default();
    while next() {
        let life = counts.kills;
        let told = format!("{}\n{}\n{life}\n{seed}", path.display(), input.display());
        let pause = Duration::from_micros(mixed([seed, life, 3]) % 80_000);
        let has_read = stored.read == RECORDS;
        let told = live_and_die(&told, pause, life % 2 == 1, has_read)?;
        counts.kills += 1;
        let database = Database::open(&path, &tiny())?;
        let found = Stored::of(&database, &input)?;
        found.ensure_follows(&stored, &told, life, seed)?;
        ensure_found(&database, &found)?;
        if life % 8 == 7 {
            assert_sound(&database)?;
        }
        counts.acknowledged += told.acknowledged.iter().sum::<u64>() + told.inserted % 1_000_000;
        counts.read = found.read;
        counts.compacted += told.compacted;
        stored = found;
    }
    Ok(counts)
}

/// Some documents are found by their keys and by their fingerprints.
fn ensure_found(database: &Database, stored: &Stored) -> Result<(), Failure> {
    let snapshot = database.snapshot()?;
    for documents in &stored.written {
        for (key, document) in documents.iter().step_by(7) {
            if snapshot.get(key)?.as_ref() != Some(document) {
                return Err(format!("{key} is not what the walk has found").into());
            }
            let query = Query::new(document.fingerprint().ok_or("it has one")?);
            let found = snapshot.query(&query.clone().near(0).limit(usize::MAX))?;
            if !found.iter().any(|found| found.document == *document) {
                return Err(format!("{key} is not found by its fingerprint").into());
            }
            // Of all documents, those that are nearest to it have its fingerprint.
            let nearest = snapshot.query(&query.nearest(found.as_slice().len()))?;
            if nearest != found {
                return Err(format!("{key} is not among the nearest to its fingerprint").into());
            }
        }
    }
    Ok(())
}

/// How often to kill: as the caller has chosen, and else as often as there is time for.
fn wanted() -> (usize, Duration) {
    match chosen_amount("SIMDB_KILLS", 2_000) {
        Some(kills) => (kills, Duration::MAX),
        None => (200, Duration::from_secs(20)),
    }
}

/// Acknowledged documents were never lost by a kill, so far. This is the test that would notice.
#[test]
fn a_killed_process_has_stored_what_it_was_told_and_nothing_else() -> Result<(), Failure> {
    if let Ok(told) = std::env::var(LIFE) {
        return Life::begin(&told)?.live();
    }
    /// However slow the machine is.
    const FEWEST: usize = 24;
    let seed = seed_or(1);
    let (most, patience) = wanted();
    let folder = Folder::new()?;
    let begun = Instant::now();
    let kills = AtomicUsize::new(0);
    let next = || {
        let number = kills.fetch_add(1, Ordering::Relaxed);
        number < most && (number < FEWEST || begun.elapsed() < patience)
    };
    // Two files on each core: while one process is looked after, others work.
    let counts = thread::scope(|scope| {
        let files: Vec<_> = (0..4u64)
            .map(|file| {
                let (folder, next) = (&folder, &next);
                scope.spawn(move || kill_all(folder, &format!("{file}"), seed ^ file << 32, next))
            })
            .collect();
        files
            .into_iter()
            .map(|file| file.join().expect("no panic"))
            .collect::<Result<Vec<_>, _>>()
    });
    let counts = counts.map_err(|error| {
        format!(
            "{error}\nto repeat: SIMDB_SEED={seed} SIMDB_KILLS=1000 cargo test --test it {TEST}"
        )
    })?;
    println!("{counts:?} in {:?}", begun.elapsed());
    // Every second process has done something.
    let kills: u64 = counts.iter().map(|count| count.kills).sum();
    let acknowledged: u64 = counts.iter().map(|count| count.acknowledged).sum();
    assert!(acknowledged > kills, "{counts:?}");
    assert!(counts.iter().any(|count| count.read > 0), "{counts:?}");
    Ok(())
}
