//! A whole file, of which some bytes are others: every answer is an error or the right one.
//!
//! The bytes of a target are a list of changes of a file that is kept beside the corpus. A file of any bytes would be
//! refused at its first page, and a fuzzer would never come further.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::sync::LazyLock;

use crate::{Cache, Database, Document, Fingerprint, Near, OpenOptions, Query, Sketch, Snapshot};

type Model = BTreeMap<Vec<u8>, Document>;

/// The file that is changed, as it is while a process has it open: several levels, a log, scopes, sketches, documents
/// that are dead, and one that is longer than a block. `cargo test --lib hostile::corpus -- --ignored` makes it anew.
static BASE: LazyLock<Base> = LazyLock::new(|| {
    let packed = include_bytes!("base.simdb.gz");
    let mut bytes = Vec::new();
    let mut unpacked = flate2::read::GzDecoder::new(&packed[..]);
    unpacked
        .read_to_end(&mut bytes)
        .expect("the file is packed with gzip");
    let pages = bytes.chunks(PAGE_BYTES).enumerate();
    let filled = pages.filter(|(_, page)| page.iter().any(|&byte| byte != 0));
    Base {
        pages: filled.map(|(number, _)| number).collect(),
        bytes,
        models: [model(COMMITS), model(COMMITS - 1)],
    }
});

const PAGE_BYTES: usize = 4096;

struct Base {
    bytes: Vec<u8>,
    /// The pages that are not all zeros.
    pages: Vec<usize>,
    /// What the file holds, and what it held one commit before. If the page is damaged that says which of two commits
    /// is the newest, the engine falls back to the one before.
    models: [Model; 2],
}

const COMMITS: u64 = 12;

/// The documents that a commit puts, and the keys that it removes.
fn changes(commit: u64) -> (Vec<Document>, Vec<Vec<u8>>) {
    let key = |i: u64| format!("https://example.org/{}/{i}", i % 7).into_bytes();
    let mut puts = Vec::new();
    for i in commit * 20..commit * 20 + 30 {
        let bits = (i % 61).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 1 << (i % 64);
        let fingerprint = (i % 11 != 0).then(|| Fingerprint::from_bits(bits));
        let sketch = Sketch::new(&[i as u8; 16], 1 + i as u32).ok();
        let payload = if i == 50 { 6_000 } else { i % 9 };
        let document = Document::new(key(i), fingerprint)
            .with_seen(1_700_000_000 + i as i64)
            .with_sketch(sketch.filter(|_| fingerprint.is_some() && i % 4 != 0))
            .with_scope(["", "en", "de"][i as usize % 3])
            .with_rank([i as i64, -1])
            .with_payload(vec![i as u8; payload as usize]);
        puts.push(document);
    }
    let removed = (0..5).map(|i| key(commit * 17 + i * 3)).collect();
    (puts, removed)
}

fn model(commits: u64) -> Model {
    let mut model = Model::new();
    for commit in 0..commits {
        let (puts, removed) = changes(commit);
        model.extend(puts.into_iter().map(|put| (put.key().to_vec(), put)));
        for key in removed {
            model.remove(&key);
        }
    }
    model
}

fn options() -> OpenOptions {
    let cache = Cache::Bytes(1 << 20);
    OpenOptions::new()
        .cache(cache)
        .tiny_blocks()
        .recent_documents(40)
}

/// Makes the file at a path, and returns its bytes as they are while it is open.
#[cfg(test)]
pub(super) fn made(path: &std::path::Path) -> crate::Result<Vec<u8>> {
    use crate::{CreateOptions, Scheme, SketchSize};

    let create = CreateOptions::new()
        .scheme(Scheme::External)
        .sketch_size(SketchSize::Bytes16)
        .plan("4x16")
        .recent_documents(40)
        .tiny_blocks();
    drop(Database::create(path, &create)?);
    let mut database = Database::open(path, &options())?;
    for commit in 0..COMMITS {
        let (puts, removed) = changes(commit);
        let mut txn = database.begin_write()?;
        for put in &puts {
            txn.insert(put)?;
        }
        for key in &removed {
            txn.delete(key)?;
        }
        txn.commit()?;
        database.settle()?;
        if commit == COMMITS / 2 {
            // Closed in order, which folds the log.
            drop(database);
            database = Database::open(path, &options())?;
        }
    }
    Ok(fs::read(path).expect("the file is there"))
}

/// Takes bytes from the beginning of some, zeros where there are none.
fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let mut taken = [0; N];
    let length = bytes.len().min(N);
    taken[..length].copy_from_slice(&bytes[..length]);
    *bytes = &bytes[length..];
    taken
}

impl Base {
    /// A place in the pages that are filled.
    fn place(&self, rest: &mut &[u8]) -> usize {
        let place = u32::from_le_bytes(take(rest)) as usize;
        let page = self.pages[place / PAGE_BYTES % self.pages.len()];
        page * PAGE_BYTES + place % PAGE_BYTES
    }

    /// The file with the changes that some bytes name.
    fn changed(&self, mut rest: &[u8]) -> Vec<u8> {
        let mut file = self.bytes.clone();
        // More of them would only take longer.
        for _ in 0..16 {
            if rest.is_empty() {
                break;
            }
            let [kind] = take(&mut rest);
            let place = self.place(&mut rest);
            let end = (place + PAGE_BYTES).min(file.len());
            match kind % 8 {
                0 => flip(&mut file, place, kind),
                1 => {
                    let [length] = take(&mut rest);
                    let (new, others) = rest.split_at(rest.len().min(usize::from(length % 64)));
                    rest = others;
                    overwrite(&mut file, place, new);
                }
                2 => file.get_mut(place..end).unwrap_or_default().fill(kind),
                3 => {
                    let from = self.place(&mut rest) / PAGE_BYTES * PAGE_BYTES;
                    let page = self.bytes[from..(from + PAGE_BYTES).min(self.bytes.len())].to_vec();
                    overwrite(&mut file, place / PAGE_BYTES * PAGE_BYTES, &page);
                }
                4 => file.truncate(place),
                5 => file.resize(file.len() + place % (1 << 16), kind),
                6 => {
                    let numbers = [
                        0u64,
                        1,
                        1 << 20,
                        1 << 31,
                        1 << 40,
                        u64::MAX >> 1,
                        u64::MAX,
                        255,
                    ];
                    let number = numbers[usize::from(kind / 8 % 8)].to_le_bytes();
                    let [width] = take(&mut rest);
                    overwrite(&mut file, place, &number[..usize::from(width % 8) + 1]);
                }
                _ => {
                    let from = self.place(&mut rest);
                    let [length] = take(&mut rest);
                    let end = (from + usize::from(length)).min(self.bytes.len());
                    overwrite(&mut file, place, &self.bytes[from..end]);
                }
            }
        }
        file
    }
}

fn flip(file: &mut [u8], place: usize, kind: u8) {
    if let Some(byte) = file.get_mut(place) {
        *byte ^= 1 << (kind / 8 % 8);
    }
}

fn overwrite(file: &mut [u8], place: usize, new: &[u8]) {
    let end = (place + new.len()).min(file.len());
    if let Some(old) = file.get_mut(place..end) {
        old.copy_from_slice(&new[..old.len()]);
    }
}

/// The folder in which files are changed, for as long as the process lives.
static FOLDER: LazyLock<tempfile::TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a folder can be made"));

/// Any bytes as changes of a file, which is opened to read, and then to write.
pub(super) fn file(bytes: &[u8]) {
    let file = BASE.changed(bytes);
    let name = format!("{:?}.simdb", std::thread::current().id());
    let path = FOLDER.path().join(name);
    fs::write(&path, &file).expect("there is room for a file");
    if let Ok(database) = Database::open(&path, &options().read_only(true)) {
        examine(&database);
    }
    if let Ok(database) = Database::open(&path, &options()) {
        examine(&database);
        write(&database);
    }
    _ = fs::remove_file(&path);
}

/// What is committed is there, or cannot be read.
fn write(database: &Database) {
    let document = Document::new("new", Some(Fingerprint::from_bits(1)));
    let commit = || {
        let mut txn = database.begin_write()?;
        txn.insert(&document)?;
        txn.delete(BASE.models[0].keys().next().expect("it holds some"))?;
        txn.commit()
    };
    let is_committed = commit().is_ok();
    let found = database.snapshot().and_then(|snapshot| snapshot.get("new"));
    if let Ok(found) = found
        && is_committed
    {
        assert_eq!(found, Some(document), "it was committed");
    }
}

fn examine(database: &Database) {
    let Ok(snapshot) = database.snapshot() else {
        return;
    };
    _ = snapshot.stats();
    _ = snapshot.sources();
    let read: crate::Result<Vec<Document>> = snapshot.documents().collect();
    if let Ok(all) = read {
        let all = all
            .into_iter()
            .map(|document| (document.key().to_vec(), document));
        assert!(
            BASE.models.contains(&all.collect()),
            "other documents than any commit had"
        );
    }
    for key in BASE.models[0].keys().step_by(17) {
        if let Ok(found) = snapshot.get(key) {
            let known = BASE.models.each_ref().map(|model| model.get(key));
            assert!(
                known.contains(&found.as_ref()),
                "another document: {found:?}"
            );
        }
    }
    for bits in [0, 7, 20, 33] {
        ask(&snapshot, bits);
    }
    _ = database.check();
}

/// A query finds what a comparison with all finds.
fn ask(snapshot: &Snapshot, i: u64) {
    let fingerprint = Fingerprint::from_bits(i.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let query = Query::new(fingerprint).near(Near::within(3)).limit(1000);
    let Ok(matches) = snapshot.query(&query) else {
        return;
    };
    let mut found: Vec<&[u8]> = matches.iter().map(|near| near.document.key()).collect();
    found.sort_unstable();
    let wanted = BASE.models.each_ref().map(|model| {
        let near = model.iter().filter(|(_, document)| {
            let bits = document.fingerprint();
            bits.is_some_and(|bits| bits.distance(fingerprint) <= 3)
        });
        near.map(|(key, _)| key.as_slice()).collect::<Vec<_>>()
    });
    assert!(
        wanted.contains(&found),
        "a query finds others than any commit had"
    );
    ask_for_nearest(snapshot, fingerprint);
}

/// The nearest documents are as far away as the nearest of all.
fn ask_for_nearest(snapshot: &Snapshot, fingerprint: Fingerprint) {
    const WANTED: usize = 5;
    let Ok(matches) = snapshot.query(&Query::new(fingerprint).nearest(WANTED)) else {
        return;
    };
    let found: Vec<u32> = matches.iter().map(|found| found.distance).collect();
    let wanted = BASE.models.each_ref().map(|model| {
        let bits = model.values().filter_map(Document::fingerprint);
        let mut distances: Vec<u32> = bits.map(|bits| bits.distance(fingerprint)).collect();
        distances.sort_unstable();
        distances.truncate(WANTED);
        distances
    });
    assert!(
        wanted.contains(&found),
        "other documents are nearest than in any commit"
    );
}

/// No change, and one of each kind.
#[cfg(test)]
pub(super) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = vec![Vec::new()];
    for kind in 0..8u8 {
        let place = (u32::from(kind) * 5 * PAGE_BYTES as u32 + 77).to_le_bytes();
        seeds.push([&[kind][..], &place, &[9, 0, 3, 0, 0, 7, 7]].concat());
    }
    // The header: which of two commits is the newest.
    seeds.push(vec![0, 9, 0, 0, 0]);
    seeds
}
