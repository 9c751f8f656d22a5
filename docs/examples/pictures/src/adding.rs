//! `add`: hashes what is not stored yet, on all cores, and stores it.

use std::path::PathBuf;
use std::time::Instant;

use simdb::{Database, Document, Snapshot};

use crate::files::{self, PictureFile};
use crate::hashing::{self, Hasher, STORED};
use crate::{Result, cores};

/// So many pictures are made durable together. After a kill, the others are hashed again.
const BATCH: usize = 1_000;

/// Stores the pictures of folders. That one could not be read is told, and is an error when all others are stored.
pub(crate) fn add(database: &Database, folders: &[PathBuf]) -> Result<bool> {
    let begin = Instant::now();
    let found = files::pictures(folders)?;
    let all = found.pictures.len();
    let new = not_stored(&database.snapshot()?, found.pictures)?;

    let hasher = STORED.hasher();
    let mut batch = Vec::new();
    let mut stored = 0;
    let mut plain = 0;
    let mut failed = found.unreadable;
    cores::each(
        &new,
        |picture| document(&hasher, picture),
        |picture, document| {
            match document {
                Ok(document) => {
                    stored += 1;
                    plain += u64::from(document.fingerprint().is_none());
                    batch.push(document);
                }
                Err(error) => {
                    eprintln!("pictures: {}: {error}", picture.path.display());
                    failed += 1;
                }
            }
            if batch.len() == BATCH {
                store(database, &mut batch)?;
            }
            Ok(())
        },
    )?;
    store(database, &mut batch)?;
    println!(
        "{all} pictures: {stored} stored, of which {plain} are too plain to judge; {} as before; {failed} unreadable; \
         {} other files; {:.1} s",
        all - new.len(),
        found.others,
        begin.elapsed().as_secs_f64()
    );
    match failed {
        0 => Ok(true),
        _ => Err("what could not be read is named above; all else is stored".into()),
    }
}

/// The pictures that are not stored, or have changed since.
fn not_stored(snapshot: &Snapshot, pictures: Vec<PictureFile>) -> Result<Vec<PictureFile>> {
    let mut new = Vec::new();
    for picture in pictures {
        let stored = snapshot.get(files::key(&picture.path))?;
        if stored.is_none_or(|stored| stored.seen() != picture.changed) {
            new.push(picture);
        }
    }
    Ok(new)
}

/// The document of a picture: its path, its hash, when the file was changed, and its size. Of pictures that are alike,
/// the one with the most pixels is worth most, of several the largest file.
fn document(hasher: &Hasher, file: &PictureFile) -> Result<Document> {
    let picture = hashing::read(&file.path)?;
    let pixels = i64::from(picture.width()) * i64::from(picture.height());
    let document = Document::new(files::key(&file.path), hashing::hash(hasher, &picture))
        .with_seen(file.changed)
        .with_rank([pixels, file.bytes as i64])
        .with_payload(format!("{}x{}", picture.width(), picture.height()));
    // So that one path that is too long does not stop the others.
    document.validate()?;
    Ok(document)
}

/// Stores a batch, and empties it. It is durable then.
fn store(database: &Database, batch: &mut Vec<Document>) -> Result<()> {
    let mut txn = database.begin_write()?;
    for document in batch.drain(..) {
        txn.insert(&document)?;
    }
    Ok(txn.commit()?)
}
