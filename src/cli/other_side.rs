//! The other side of `simdb pairs --with`: another database, or the documents of an input, which then are in a
//! temporary database for a while.

use std::path::Path;

use crate::ingest::{Fingerprinting, ReadOptions, Record};
use crate::{CreateOptions, Database, Document, Error, OpenOptions, Snapshot, Unit};
use tempfile::TempDir;

use super::answer::Failure;
use super::arguments::Reading;
use super::output::Output;
use super::rejections;

/// A snapshot of the other side.
pub(super) struct OtherSide {
    pub(super) snapshot: Snapshot,
    /// How many records of an input could not be taken.
    pub(super) rejected: u64,
    /// The folder of the database that an input is in. Dropped last. Then nothing is left of it.
    folder: Option<TempDir>,
}

/// The bytes of the number that comes before the key of a record of an input. So records of one key stay apart.
const NUMBER_BYTES: usize = 8;

/// The documents that are inserted in a transaction.
const TOGETHER: usize = 50_000;

impl OtherSide {
    /// Opens a database. If the path is no database, reads it as an input with fingerprints of the scheme of `like`.
    pub(super) fn open(
        path: &Path,
        like: &Database,
        reading: &Reading,
        output: &Output,
    ) -> Result<Self, Failure> {
        let place = output.console().place_of(path);
        output.console().ensure_has_end(path)?;
        let is_itself = place
            .canonicalize()
            .is_ok_and(|it| like.path().canonicalize().is_ok_and(|own| own == it));
        if is_itself {
            return Ok(Self {
                snapshot: like.snapshot()?,
                rejected: 0,
                folder: None,
            });
        }
        match open_beside(&place) {
            Ok(database) => Ok(Self {
                snapshot: database.snapshot()?,
                rejected: 0,
                folder: None,
            }),
            Err(Error::NotSimdb { .. } | Error::NotFound { .. }) => {
                Self::read(path, like, reading, output)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the other side is an input, which is read anew each time.
    pub(super) fn is_input(&self) -> bool {
        self.folder.is_some()
    }

    /// The key of a document, as it was in the input.
    pub(super) fn key_of(&self, mut key: Vec<u8>) -> Vec<u8> {
        if self.is_input() {
            key.drain(..NUMBER_BYTES.min(key.len()));
        }
        key
    }

    fn read(
        path: &Path,
        like: &Database,
        reading: &Reading,
        output: &Output,
    ) -> Result<Self, Failure> {
        if reading.unit() != Unit::Document {
            return Err(
                "--unit is for databases of units: ingest the input, and give that database".into(),
            );
        }
        let not_needed = ["rank", "payload", "payload_base64"];
        let options = not_needed
            .into_iter()
            .fold(reading.options(), ReadOptions::ignore_field);
        let mut records = output.console().records(path, options)?;
        let folder = tempfile::tempdir()?;
        let options = CreateOptions::new()
            .scheme(like.scheme())
            .sketch_size(like.sketch_size());
        let database = Database::create(folder.path().join("other.simdb"), &options)?;
        let rule = Fingerprinting::new(like.scheme(), Some(like.scheme()))?;
        let rule = rule.sketch_size(like.sketch_size()).stores(true);
        let (reading, progress) = (records.progress(), output.console().progress_of("bytes"));
        let (mut rejected, mut waiting, mut number) = (0, Vec::new(), 0u64);
        loop {
            let chunk = records.next_chunk(|record: Record| record.into_document(rule))?;
            let is_last = chunk.is_empty();
            for document in chunk {
                match document {
                    Ok(document) => {
                        number += 1;
                        waiting.push(numbered(&document, number));
                    }
                    Err(reason) => {
                        rejected += 1;
                        output.complain(&rejections::message(&reason));
                    }
                }
            }
            if is_last || waiting.len() >= TOGETHER {
                let mut txn = database.begin_write()?;
                waiting
                    .drain(..)
                    .try_for_each(|document| txn.insert(&document).map(drop))?;
                txn.commit()?;
            }
            if progress
                .update(reading.bytes_read(), reading.bytes_total())
                .is_break()
            {
                return Err(Error::Interrupted.into());
            }
            if is_last {
                break;
            }
        }
        Ok(Self {
            snapshot: database.snapshot()?,
            rejected,
            folder: Some(folder),
        })
    }
}

/// Opens another database than that of the command, to read it.
pub(super) fn open_beside(place: &Path) -> Result<Database, Error> {
    match Database::open(place, &OpenOptions::new().read_only(true)) {
        Err(Error::NeedsRecovery { .. }) => Database::open(place, &OpenOptions::new()),
        opened => opened,
    }
}

/// What counts of a document, under a key with its number.
fn numbered(document: &Document, number: u64) -> Document {
    let mut key = number.to_le_bytes().to_vec();
    key.extend_from_slice(document.key());
    Document::new(key, document.fingerprint())
        .with_sketch(document.sketch().copied())
        .with_seen(document.seen())
        .with_scope(document.scope())
}
