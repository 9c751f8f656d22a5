//! The promise of the format: a small file of it lies in tests/data. This release makes the same file byte for byte,
//! and reads and changes what is in it.
//!
//! Each later format gets a file of its own, beside the older ones, which later releases go on to open or to convert.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::Database;
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::source::{Source, SourceRecord};
use crate::store::{FORMAT_VERSION, FileSeed, Settings, Store};
use crate::{CreateOptions, Near, OpenOptions, Query, Scheme};

const SEED: u64 = 0x73_69_6d_64_62;
/// A variable that names a file for what this release makes, should the format change before it is promised.
const NEW_FILE: &str = "SIMDB_NEW_FORMAT_FILE";

/// A number that looks random, and is the same everywhere (the finalizer of splitmix64).
fn scrambled(number: u64) -> u64 {
    let mut bits = SEED.wrapping_add(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

/// A document with a part of every kind. Every seventh is too short to judge, every fifth is near to the one before.
fn document(number: u64, version: u64) -> Document {
    let key = format!("https://example.org/{number}");
    let seed = match number % 5 {
        4 => number - 1,
        _ => number,
    };
    let bits = scrambled(seed + version * 1_000) ^ u64::from(number % 5 == 4);
    let sketch = [bits.to_le_bytes(), scrambled(bits).to_le_bytes()].concat();
    let document = match number % 7 {
        6 => Document::new(key, None),
        _ => Document::new(key, Fingerprint::from_bits(bits))
            .with_sketch(Sketch::new(&sketch, 100 + number as u32).expect("it has 16 bytes")),
    };
    document
        .with_seen(1_700_000_000 + number as i64 * 3_600)
        .with_repeats(number % 3)
        .with_rank(vec![-(number as i64); (number % 3) as usize])
        .with_scope(["", "en", "de"][(number % 3) as usize])
        .with_payload(vec![number as u8; (number % 4) as usize * 9])
}

fn settings() -> Result<Settings> {
    let options = CreateOptions::new()
        .scheme(Scheme::External)
        .sketch_size(SketchSize::from_bytes(16).expect("there are such sketches"))
        .max_distance(3)
        .expected_documents(1_000)
        .created(1_700_000_000);
    Ok(Settings {
        file: FileSeed::fixed(scrambled(1)),
        key_seed: scrambled(2),
        ..options.settings()?
    })
}

/// Many small levels, so that some rows are in levels, some are deleted, and some are in the log.
fn open(path: &Path) -> Result<Database> {
    Database::open(path, &OpenOptions::new().recent_documents(16))
}

/// Makes the file, and tells which documents are in it.
///
/// It is closed after each commit, and so few documents are merged only then. What is merged beside commits would
/// depend on the time that they take.
fn make(path: &Path) -> Result<BTreeMap<Vec<u8>, Document>> {
    let (limit, sizes) = OpenOptions::new().limits();
    drop(Store::create(path, &settings()?, limit, sizes)?);
    let mut documents = BTreeMap::new();
    let mut commit = |inserted: &[(u64, u64)], deleted: &[u64]| {
        let database = Database::open(path, &OpenOptions::new())?;
        let mut txn = database.begin_write()?;
        for &(number, version) in inserted {
            let document = document(number, version);
            txn.insert(&document)?;
            documents.insert(document.key().to_vec(), document);
        }
        for &number in deleted {
            let key = document(number, 0).key().to_vec();
            txn.delete(&key)?;
            documents.remove(&key);
        }
        let record = SourceRecord {
            run: 1,
            updated: 1_700_000_000,
            ..SourceRecord::default()
        };
        txn.set_source(&Source {
            name: b"pages.jsonl".to_vec(),
            record,
        })?;
        txn.commit()?;
        database.close()
    };
    for first in [0, 20, 40] {
        let numbers: Vec<(u64, u64)> = (first..first + 20).map(|number| (number, 0)).collect();
        commit(&numbers, &[])?;
    }
    commit(&[(3, 1), (21, 1), (44, 1)], &[7, 8, 30, 59])?;
    commit(&[(60, 0), (61, 0), (62, 0), (8, 2)], &[0])?;
    Ok(documents)
}

fn promised() -> PathBuf {
    let name = format!("tests/data/format-{FORMAT_VERSION}.simdb.gz");
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn unpacked() -> Vec<u8> {
    let packed = fs::File::open(promised()).expect("each format has a file");
    let mut bytes = Vec::new();
    let read = GzDecoder::new(packed).read_to_end(&mut bytes);
    read.expect("the file is whole");
    bytes
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder can be made")
}

#[test]
fn a_file_is_made_byte_for_byte_from_a_seed() -> Result<()> {
    let folder = folder();
    let path = folder.path().join("d.simdb");
    make(&path)?;
    let made = fs::read(&path).expect("it was made");
    if let Some(new) = std::env::var_os(NEW_FILE) {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(&made).expect("memory takes all");
        let packed = packed.finish().expect("memory takes all");
        fs::write(new, packed).expect("the file can be written");
    }
    let promised = unpacked();
    let differs = made.iter().zip(&promised).position(|(a, b)| a != b);
    assert!(
        differs.is_none() && made.len() == promised.len(),
        "{} bytes were made where {} are promised, and they differ from byte {differs:?} on. A file of this format has \
         to stay as it is. If redb has a new layout that reads the old one, or the format is not promised yet, \
         {NEW_FILE}=tests/data/format-{FORMAT_VERSION}.simdb.gz writes the file anew",
        made.len(),
        promised.len(),
    );
    Ok(())
}

#[test]
fn a_file_of_this_format_is_read_changed_and_compacted() -> Result<()> {
    let folder = folder();
    let expected = make(&folder.path().join("made.simdb"))?;
    let path = folder.path().join("d.simdb");
    fs::write(&path, unpacked()).expect("the file can be written");
    let database = open(&path)?;
    let assert_all = |expected: &BTreeMap<Vec<u8>, Document>| -> Result<()> {
        assert!(database.check()?.problems.is_empty());
        let snapshot = database.snapshot()?;
        let mut found = BTreeMap::new();
        for document in snapshot.documents() {
            let document = document?;
            found.insert(document.key().to_vec(), document);
        }
        assert_eq!(&found, expected);
        let distance_alone = Near::new().min_similarity(0.0);
        for document in expected.values() {
            let Some(fingerprint) = document.fingerprint() else {
                continue;
            };
            let near = |other: &&Document| {
                let distance = other.fingerprint().map(|it| it.distance(fingerprint));
                distance.is_some_and(|distance| distance <= 3)
            };
            let matches = snapshot.query(&Query::new(fingerprint).near(distance_alone.clone()))?;
            assert_eq!(
                matches.total(),
                expected.values().filter(near).count() as u64
            );
        }
        Ok(())
    };
    assert_all(&expected)?;
    assert_eq!(database.snapshot()?.sources()?.len(), 1);

    let mut changed = expected;
    let mut txn = database.begin_write()?;
    for number in 100..150 {
        let document = document(number, 0);
        txn.insert(&document)?;
        changed.insert(document.key().to_vec(), document);
    }
    let gone = document(1, 0);
    txn.delete(gone.key())?;
    changed.remove(gone.key());
    txn.commit()?;
    assert_all(&changed)?;
    database.compact(|_, _| std::ops::ControlFlow::Continue(()))?;
    assert_all(&changed)
}
