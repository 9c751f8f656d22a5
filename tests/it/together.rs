//! A writer, readers of old and new snapshots, compaction and backups, all at once.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use simdb::{Database, Document, OpenOptions, Query, Snapshot};

use crate::support::random::Random;
use crate::support::{Folder, LIMIT, TestResult, assert_sound, document, go_on};

/// The documents after a commit: fingerprints by key.
type Documents = BTreeMap<u16, u64>;

/// Snapshots of the last commits, each with the documents it has to hold.
type Commits = Mutex<Vec<Arc<(Snapshot, Documents)>>>;

/// What these tests are made of.
impl Random {
    /// One of some thousands of fingerprints around three centres. The centres themselves are shared by
    /// many documents.
    fn bits(&mut self) -> u64 {
        let centre = [0, u64::MAX, 0x0123_4567_89ab_cdef][self.below(3) as usize];
        if self.below(4) == 0 {
            centre
        } else {
            centre ^ 1 << self.below(64) ^ 1 << self.below(64)
        }
    }
}

fn stored(key: u16, bits: u64) -> Document {
    document(key.to_le_bytes(), bits).with_scope(if key.is_multiple_of(3) { "third" } else { "" })
}

/// Commits random changes, and keeps snapshots of the last commits. Counts the commits.
fn write(
    database: &Database,
    commits: &Commits,
    done: &AtomicBool,
    count: &AtomicU64,
) -> simdb::Result<()> {
    let mut random = Random::new(1);
    let mut documents = Documents::new();
    while !done.load(Ordering::Relaxed) {
        let mut txn = database.begin_write()?;
        let mut next = documents.clone();
        for _ in 0..random.below(30) {
            let (key, bits) = (random.below(500) as u16, random.bits());
            if random.below(3) == 0 {
                assert_eq!(
                    txn.delete(key.to_le_bytes())?.is_some(),
                    next.remove(&key).is_some()
                );
            } else {
                assert_eq!(
                    txn.insert(&stored(key, bits))?.is_some(),
                    next.insert(key, bits).is_some()
                );
            }
        }
        // Some transactions are dropped.
        if random.below(8) > 0 {
            txn.commit()?;
            documents = next;
            count.fetch_add(1, Ordering::Relaxed);
            let mut commits = commits.lock().expect("no other thread panics");
            if commits.len() == 20 {
                // A random one is removed, but never the oldest, which stays to the end.
                commits.remove(1 + random.below(19) as usize);
            }
            commits.push(Arc::new((database.snapshot()?, documents.clone())));
        }
    }
    Ok(())
}

/// Compares snapshots with the documents they have to hold. Counts the comparisons.
fn read(commits: &Commits, seed: u64, done: &AtomicBool, count: &AtomicU64) -> simdb::Result<()> {
    let mut random = Random::new(seed);
    while !done.load(Ordering::Relaxed) {
        let chosen = {
            let commits = commits.lock().expect("no other thread panics");
            commits
                .get(random.below(commits.len().max(1) as u64) as usize)
                .cloned()
        };
        let Some(chosen) = chosen else { continue };
        let (snapshot, documents) = &*chosen;
        assert_eq!(snapshot.stats()?.documents, documents.len() as u64);
        let key = random.below(500) as u16;
        let found = snapshot.get(key.to_le_bytes())?;
        assert_eq!(found, documents.get(&key).map(|&bits| stored(key, bits)));
        let query = Query::new(simdb::Fingerprint::from_bits(random.bits())).limit(usize::MAX);
        let max_distance = random.below(6) as u32;
        let near = |bits: u64| (bits ^ query.fingerprint().bits()).count_ones() <= max_distance;
        let found = snapshot.query(&query.clone().near(max_distance))?;
        let mut keys: Vec<_> = found.iter().map(|it| it.document.key().to_vec()).collect();
        keys.sort_unstable();
        let right = documents
            .iter()
            .filter(|it| near(*it.1))
            .map(|it| it.0.to_le_bytes().to_vec());
        let mut right: Vec<_> = right.collect();
        right.sort_unstable();
        assert_eq!(keys, right);
        count.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

/// Compacts the database and makes backups, again and again. Counts the rounds.
fn keep(
    database: &Database,
    copy: &Path,
    done: &AtomicBool,
    count: &AtomicU64,
) -> simdb::Result<()> {
    while !done.load(Ordering::Relaxed) {
        let snapshot = database.snapshot()?;
        let documents = snapshot.stats()?.documents;
        snapshot.backup_with(copy, go_on)?;
        let copied = Database::open(copy, &OpenOptions::new())?;
        assert_eq!(copied.snapshot()?.stats()?.documents, documents);
        assert_sound(&copied)?;
        drop((copied, snapshot));
        std::fs::remove_file(copy).expect("the copy is there");
        database.compact(go_on)?;
        count.fetch_add(1, Ordering::Relaxed);
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// What a thread does over and over, and counts.
type Work<'w> = Box<dyn Fn(&AtomicU64) -> simdb::Result<()> + Send + 'w>;

#[test]
fn a_writer_readers_compaction_and_backups_do_not_disturb_each_other() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    let (commits, done) = (Commits::default(), AtomicBool::new(false));
    let counts = [const { AtomicU64::new(0) }; 4];
    thread::scope(|scope| {
        let work: [Work<'_>; 4] = [
            Box::new(|count| write(&database, &commits, &done, count)),
            Box::new(|count| read(&commits, 2, &done, count)),
            Box::new(|count| read(&commits, 3, &done, count)),
            Box::new(|count| keep(&database, &folder.path("copy.simdb"), &done, count)),
        ];
        for (work, count) in work.into_iter().zip(&counts) {
            let done = &done;
            scope.spawn(move || {
                let result = work(count);
                // If one fails, the others end too.
                done.store(true, Ordering::Relaxed);
                result.expect("nothing fails");
            });
        }
        let begun = Instant::now();
        let has_enough = || counts.iter().all(|count| count.load(Ordering::Relaxed) > 2);
        let is_over = || begun.elapsed() >= Duration::from_secs(4) && has_enough();
        while !is_over() && begun.elapsed() < LIMIT && !done.load(Ordering::Relaxed) {
            thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
    });
    let counts = counts.map(AtomicU64::into_inner);
    assert!(counts.iter().all(|&count| count > 2), "{counts:?}");
    let last = commits
        .into_inner()
        .expect("no thread panicked")
        .pop()
        .map(|last| last.1.len() as u64);
    database.settle()?;
    assert_sound(&database)?;
    assert_eq!(Some(database.snapshot()?.stats()?.documents), last);
    Ok(())
}
