//! The database under test, and what should be in it.

use std::path::PathBuf;

use crate::{Database, Document, OpenOptions, Sketch};

use super::arguments::{Arguments, scope_name};
use super::collection::Collection;
use crate::cli::answer::Failure;
use crate::cli::console::Console;

/// The documents to delete are those whose number ends in this digit.
pub(super) const DELETED: u64 = 3;

/// The database under test, and what the phases so far have done to it.
pub(super) struct Bench<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) console: Console,
    pub(super) collection: Collection,
    /// The path of the database.
    pub(super) path: PathBuf,
    /// `None` while the database is closed.
    pub(super) database: Option<Database>,
    /// The documents with numbers below this were inserted.
    pub(super) inserted: u64,
    /// The documents with numbers below this are expired.
    pub(super) expired: u64,
    /// Whether a tenth of them was deleted, see [`DELETED`].
    pub(super) deleted: bool,
    /// The number of times that all documents were replaced.
    pub(super) replaced: u64,
}

impl<'a> Bench<'a> {
    /// Creates an empty database.
    pub(super) fn create(
        arguments: &'a Arguments,
        path: PathBuf,
        console: &Console,
    ) -> Result<Self, Failure> {
        Ok(Self {
            arguments,
            console: console.clone(),
            collection: arguments.collection(0),
            database: Some(Database::create(&path, &arguments.create_options())?),
            path,
            inserted: 0,
            expired: 0,
            deleted: false,
            replaced: 0,
        })
    }

    pub(super) fn database(&self) -> Result<&Database, Failure> {
        self.database
            .as_ref()
            .ok_or_else(|| "the database is closed".into())
    }

    pub(super) fn open(&mut self) -> Result<(), Failure> {
        let options = OpenOptions::new().cache(self.arguments.cache());
        self.database = Some(Database::open(&self.path, &options)?);
        Ok(())
    }

    pub(super) fn document(&self, number: u64) -> Document {
        let document = Document::new(key(number), self.collection.fingerprint(number))
            .with_sketch(self.collection.sketch(number))
            .with_seen(seen(number));
        match self.arguments.scope_of(number) {
            Some(scope) => document.with_scope(scope_name(scope)),
            None => document,
        }
    }

    /// Checks the number of stored documents.
    pub(super) fn assert_stored(&self) -> Result<(), Failure> {
        let stored = self.database()?.snapshot()?.stats()?.documents;
        if stored == self.live() {
            Ok(())
        } else {
            Err(format!("{stored} documents are stored").into())
        }
    }

    /// The number of documents that should be stored.
    fn live(&self) -> u64 {
        let gone = |below: u64| below / 10 + u64::from(below % 10 > DELETED);
        let deleted = |below: u64| gone(self.arguments.documents.min(below));
        let deleted = if self.deleted {
            deleted(self.inserted) - deleted(self.expired)
        } else {
            0
        };
        self.inserted - self.expired - deleted
    }

    /// Whether the document should be stored.
    pub(super) fn is_live(&self, number: u64) -> bool {
        (self.expired..self.inserted).contains(&number)
            && !(self.deleted && number % 10 == DELETED && number < self.arguments.documents)
    }

    /// Whether two sketches, of documents or queries, are similar enough to match.
    pub(super) fn is_similar(&self, one: Option<Sketch>, other: Option<Sketch>) -> bool {
        let jaccard =
            |one: Sketch, other: &Sketch| one.similarity(other).map_or(0.0, |it| it.jaccard());
        self.arguments.min_similarity().is_none_or(|least| {
            one.zip(other)
                .is_some_and(|(one, other)| jaccard(one, &other) >= least)
        })
    }
}

/// Documents come at this rate.
pub(super) const OF_A_SECOND: u64 = 1_000;

/// The time at which a document is seen.
pub(super) fn seen(number: u64) -> i64 {
    1_700_000_000 + (number / OF_A_SECOND) as i64
}

/// The key of a document: its number, in eight bytes.
pub(super) fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}
