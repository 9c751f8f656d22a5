//! Schedules: readers, a writer, expiry, backups, compaction, checks and merges together, against a model.
//!
//! A schedule is a number of rounds. A seed chooses who takes part in each. Within a round all begin at once, and the
//! threads of merges work all the time. The model knows the state before the round and the one after, so whatever a
//! reader sees must be one of the two, or one of the steps between them if documents expire.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use super::history::Repeat;
use super::random::{Random, chosen_amount, seed_or};
use crate::database::{Database, Expiry, Policy, Query, Snapshot};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::{CreateOptions, Near, Scheme};

/// The documents by their keys.
type State = BTreeMap<Vec<u8>, Document>;

/// The rounds of a schedule.
const ROUNDS: u64 = 30;

/// The readers, each of which never sees an older state than before.
const READERS: usize = 3;

/// What these tests are made of.
impl Random {
    fn key(&mut self) -> Vec<u8> {
        format!("key {}", self.below(60)).into_bytes()
    }

    /// One of few, many of which are near each other.
    fn fingerprint(&mut self) -> Fingerprint {
        let centre = [0, u64::MAX, 0x0123_4567_89ab_cdef][self.below(3) as usize];
        Fingerprint::from_bits(centre ^ 1 << self.below(6) ^ 1 << self.below(6))
    }

    fn document(&mut self, time: u64) -> Document {
        let scope = ["", "a", "b"][self.below(3) as usize];
        Document::new(self.key(), Some(self.fingerprint()))
            .with_seen(time as i64)
            .with_scope(scope)
    }
}

/// What the writer does in a round.
enum Change {
    Nothing,
    /// Puts and deletions, in this order.
    Transaction(Vec<Document>, Vec<Vec<u8>>),
    /// The same, but the transaction is dropped.
    Dropped(Vec<Document>),
    /// Documents that are submitted to a writer, and stored as one group or several.
    Submissions(Vec<Document>),
    /// Removes what is older, in several commits.
    Expiry(i64),
}

impl Change {
    fn chosen(random: &mut Random, round: u64) -> Self {
        let kind = random.below(8);
        let count = 1 + random.below(20);
        let documents = (0..count).map(|_| random.document(round)).collect();
        match kind {
            0 => Self::Nothing,
            1 => Self::Dropped(documents),
            2 => Self::Submissions(documents),
            3 | 4 => Self::Expiry(round as i64 - 1 - random.below(4) as i64),
            _ => {
                let deleted = (0..random.below(8)).map(|_| random.key()).collect();
                Self::Transaction(documents, deleted)
            }
        }
    }

    /// The state that it leaves.
    fn applied(&self, state: &State) -> State {
        let mut state = state.clone();
        match self {
            Self::Nothing | Self::Dropped(_) => {}
            Self::Transaction(documents, deleted) => {
                put_all(&mut state, documents);
                for key in deleted {
                    state.remove(key);
                }
            }
            Self::Submissions(documents) => put_all(&mut state, documents),
            Self::Expiry(before) => state.retain(|_, document| document.seen() >= *before),
        }
        state
    }

    fn make(&self, database: &Database) -> Result<()> {
        match self {
            Self::Nothing => {}
            Self::Transaction(documents, deleted) => {
                let mut txn = database.begin_write()?;
                for document in documents {
                    txn.insert(document)?;
                }
                for key in deleted {
                    txn.delete(key)?;
                }
                txn.commit()?;
            }
            Self::Dropped(documents) => {
                let mut txn = database.begin_write()?;
                for document in documents {
                    txn.insert(document)?;
                }
            }
            Self::Submissions(documents) => {
                let writer = database.writer(crate::WriterOptions::new().batch(3))?;
                for document in documents {
                    drop(writer.submit(document.clone(), &Policy::link())?);
                }
                writer.close()?;
            }
            Self::Expiry(before) => {
                let expiry = Expiry::new().before(*before);
                database.expire(&expiry, |_| ControlFlow::Continue(()))?;
            }
        }
        Ok(())
    }

    /// Whether a state that a reader has seen is the one before, the one after, or a commit between them.
    fn is_between(&self, seen: &State, before: &State, after: &State) -> bool {
        if seen == before || seen == after {
            return true;
        }
        match self {
            Self::Submissions(documents) => (0..documents.len()).any(|count| {
                let mut state = before.clone();
                put_all(&mut state, &documents[..count]);
                state == *seen
            }),
            // Each step removes some of what goes. The order is not promised.
            Self::Expiry(_) => {
                let is_left = |(key, document)| seen.get(key) == Some(document);
                after.iter().all(is_left)
                    && seen
                        .iter()
                        .all(|(key, document)| before.get(key) == Some(document))
            }
            _ => false,
        }
    }
}

fn put_all(state: &mut State, documents: &[Document]) {
    for document in documents {
        state.insert(document.key().to_vec(), document.clone());
    }
}

/// All that a snapshot holds.
fn walked(snapshot: &Snapshot) -> Result<State> {
    let mut state = State::new();
    for document in snapshot.documents() {
        let document = document?;
        let again = state.insert(document.key().to_vec(), document);
        assert!(again.is_none(), "a key came twice");
    }
    Ok(state)
}

/// Compares the answers of a snapshot with those of brute force over what it holds.
fn ask(snapshot: &Snapshot, state: &State, random: &mut Random) -> Result<()> {
    assert_eq!(snapshot.stats()?.documents, state.len() as u64);
    for _ in 0..4 {
        let key = random.key();
        assert_eq!(snapshot.get(&key)?.as_ref(), state.get(&key));
        let fingerprint = random.fingerprint();
        let max_distance = random.below(5) as u32;
        let scope = random.below(2) == 0;
        let mut near = Near::from(max_distance);
        if scope {
            near = near.scopes(["a"]);
        }
        let query = Query::new(fingerprint).near(near).limit(usize::MAX);
        let found = snapshot.query(&query)?;
        let mut keys = Vec::new();
        for found in &found {
            keys.push(found.document.key().to_vec());
        }
        keys.sort_unstable();
        let is_near = |document: &Document| {
            let distance = document
                .fingerprint()
                .map(|stored| stored.distance(fingerprint));
            distance.is_some_and(|distance| distance <= max_distance)
                && (!scope || document.scope() == "a")
        };
        let right = state.values().filter(|document| is_near(document));
        let right: Vec<_> = right.map(|document| document.key().to_vec()).collect();
        assert_eq!(keys, right, "within {max_distance} of {fingerprint}");
    }
    Ok(())
}

/// Makes a copy of a snapshot. It is sound, and holds the same.
fn back_up(database: &Database) -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("copy.simdb");
    let snapshot = database.snapshot()?;
    snapshot.backup(&path)?;
    let copy = Database::open(&path, &crate::OpenOptions::new())?;
    assert_eq!(walked(&copy.snapshot()?)?, walked(&snapshot)?);
    let report = copy.check()?;
    assert!(report.is_sound(), "{report:?}");
    Ok(())
}

/// Who takes part in a round, apart from the writer.
#[derive(Clone, Copy)]
struct Part {
    readers: [bool; READERS],
    /// Makes a backup, then compacts.
    compacts: bool,
    checks: bool,
}

impl Part {
    fn chosen(random: &mut Random) -> Self {
        Self {
            readers: std::array::from_fn(|_| random.below(3) > 0),
            compacts: random.below(6) == 0,
            checks: random.below(10) == 0,
        }
    }

    fn count(self) -> usize {
        let readers = self.readers.into_iter().filter(|reads| *reads).count();
        1 + readers + usize::from(self.compacts) + usize::from(self.checks)
    }
}

/// A round: all of it begins at once. Returns what each reader has seen.
fn play(
    database: &Database,
    change: &Change,
    part: Part,
    seed: u64,
) -> Result<[Option<(Snapshot, State)>; READERS]> {
    let start = Barrier::new(part.count());
    let mut seen = [const { None }; READERS];
    thread::scope(|scope| -> Result<()> {
        let start = &start;
        let mut readers = Vec::new();
        for (number, _) in part.readers.iter().enumerate().filter(|(_, reads)| **reads) {
            readers.push((
                number,
                scope.spawn(move || -> Result<_> {
                    let mut random = Random::new(seed ^ number as u64);
                    start.wait();
                    // Some come later than others.
                    (0..random.below(200)).for_each(|_| thread::yield_now());
                    let snapshot = database.snapshot()?;
                    let state = walked(&snapshot)?;
                    ask(&snapshot, &state, &mut random)?;
                    Ok((snapshot, state))
                }),
            ));
        }
        let compaction = part.compacts.then(|| {
            scope.spawn(move || {
                start.wait();
                back_up(database)?;
                database.compact(|_, _| ControlFlow::Continue(()))
            })
        });
        let check = part.checks.then(|| {
            scope.spawn(move || {
                start.wait();
                database.check()
            })
        });
        start.wait();
        change.make(database)?;
        for (number, reader) in readers {
            seen[number] = Some(reader.join().expect("no reader panics")?);
        }
        if let Some(compaction) = compaction {
            compaction.join().expect("no compaction panics")?;
        }
        match check.map(|check| check.join().expect("no check panics")) {
            // It needs the database for itself.
            None | Some(Err(Error::InUse { .. })) => {}
            Some(report) => {
                let report = report?;
                assert!(report.is_sound(), "{report:?}");
            }
        }
        Ok(())
    })?;
    Ok(seen)
}

/// A database in which a few documents are in several levels.
fn tiny_database(folder: &Path) -> Result<Database> {
    let options = CreateOptions::new()
        .scheme(Scheme::External)
        .recent_documents(8)
        .tiny_blocks();
    Database::create(folder.join("d.simdb"), &options)
}

/// Plays a schedule. Returns the number of snapshots that were compared.
fn schedule(seed: u64) -> Result<u64> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let database = tiny_database(folder.path())?;
    let mut random = Random::new(seed);
    let mut before = State::new();
    let mut compared = 0;
    // The last snapshot of each reader, and what it held.
    let mut kept = [const { None::<(Snapshot, State)> }; READERS];
    for round in 0..ROUNDS {
        let change = Change::chosen(&mut random, round);
        let after = change.applied(&before);
        let part = Part::chosen(&mut random);
        let seen = play(&database, &change, part, seed ^ round << 32)?;
        for (kept, seen) in kept.iter_mut().zip(seen) {
            // An old snapshot holds what it held, whatever came after it.
            if let Some((snapshot, state)) = kept {
                assert_eq!(&walked(snapshot)?, state, "round {round}");
                ask(snapshot, state, &mut random)?;
            }
            let Some((snapshot, state)) = seen else {
                continue;
            };
            compared += 1;
            assert!(
                change.is_between(&state, &before, &after),
                "round {round}: a reader saw {state:?}, between {before:?} and {after:?}"
            );
            // What a reader has seen does not go back: the states of a round are all after those of earlier rounds.
            // Half of the readers keep their snapshots for long.
            if kept.is_none() || random.below(2) == 0 {
                *kept = Some((snapshot, state));
            }
        }
        before = after;
        assert_eq!(walked(&database.snapshot()?)?, before, "round {round}");
    }
    drop(kept);
    database.settle()?;
    let report = database.check()?;
    assert!(report.is_sound(), "{report:?}");
    drop(database);
    let database = Database::open(folder.path().join("d.simdb"), &crate::OpenOptions::new())?;
    assert_eq!(walked(&database.snapshot()?)?, before);
    Ok(compared)
}

/// Readers of one snapshot within one round may come one after the other, and see what the writer does step by step.
fn stay_in_order(seed: u64) -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let database = tiny_database(folder.path())?;
    const COMMITS: u64 = 60;
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for reader in 0..READERS as u64 {
            let database = &database;
            readers.push(scope.spawn(move || -> Result<()> {
                let mut random = Random::new(seed ^ reader);
                let mut last = 0;
                while last < COMMITS {
                    let snapshot = database.snapshot()?;
                    let counter = snapshot.get("counter")?;
                    let now = counter.map_or(0, |document| document.seen() as u64);
                    assert!(now >= last, "a reader went back from {last} to {now}");
                    // Each commit puts the counter and as many documents as it says, all in one.
                    let documents = snapshot.stats()?.documents;
                    assert_eq!(documents, now + u64::from(now > 0), "commit {now}");
                    last = now;
                    (0..random.below(50)).for_each(|_| thread::yield_now());
                }
                Ok(())
            }));
        }
        for number in 1..=COMMITS {
            let mut txn = database.begin_write()?;
            let counter = Document::new("counter", Fingerprint::from_bits(1));
            txn.insert(&counter.with_seen(number as i64))?;
            let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            txn.insert(&Document::new(
                number.to_string(),
                Fingerprint::from_bits(bits),
            ))?;
            txn.commit()?;
        }
        for reader in readers {
            reader.join().expect("no reader panics")?;
        }
        Ok(())
    })
}

/// Plays schedules of one seed after the other, as many as `SIMDB_SCHEDULES` says, or as there is time for.
#[test]
fn readers_see_commits_whole_and_in_order_whatever_happens_beside_them() -> Result<()> {
    const TEST: &str = "readers_see_commits_whole_and_in_order_whatever_happens_beside_them";
    /// However slow the machine is.
    const FEWEST: u64 = 3;
    let first = seed_or(1);
    let chosen = chosen_amount("SIMDB_SCHEDULES", 2_000);
    let is_enough = |played: u64, took: Duration| match chosen {
        Some(chosen) => played >= chosen as u64,
        None => played >= 100 || played >= FEWEST && took > Duration::from_secs(6),
    };
    let begun = Instant::now();
    let mut played = 0;
    let mut compared = 0;
    while !is_enough(played, begun.elapsed()) {
        let seed = first + played;
        let _repeat = Repeat { seed, test: TEST };
        stay_in_order(seed).expect("a schedule of one counter");
        compared += schedule(seed).expect("a schedule");
        played += 1;
    }
    let took = begun.elapsed();
    println!("{played} schedules, {compared} snapshots in {took:?}");
    assert!(compared > played * ROUNDS / 2, "{compared} snapshots");
    Ok(())
}
