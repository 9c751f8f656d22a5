//! The database under test, and what should be in it.

use std::path::PathBuf;

use simdb::{Database, Document, OpenOptions};

use super::arguments::Arguments;
use super::collection::Collection;
use crate::cli::answer::Failure;

/// Every document whose number leaves this remainder by ten is deleted.
pub(super) const DELETED: u64 = 3;

/// What is under test, as far as it has come.
pub(super) struct Bench<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) collection: Collection,
    /// Where the database is.
    pub(super) path: PathBuf,
    /// Closed now and then.
    pub(super) database: Option<Database>,
    /// The documents are those below this number; of these, after the deletion, every tenth is gone.
    pub(super) inserted: u64,
    pub(super) deleted: bool,
    /// How many times all documents were replaced.
    pub(super) replaced: u64,
}

impl<'a> Bench<'a> {
    /// Creates an empty database.
    pub(super) fn create(arguments: &'a Arguments, path: PathBuf) -> Result<Self, Failure> {
        Ok(Self {
            arguments,
            collection: arguments.collection(0),
            database: Some(Database::create(&path, &arguments.create_options())?),
            path,
            inserted: 0,
            deleted: false,
            replaced: 0,
        })
    }

    pub(super) fn database(&self) -> Result<&Database, Failure> {
        self.database.as_ref().ok_or_else(|| "the database is closed".into())
    }

    pub(super) fn open(&mut self) -> Result<(), Failure> {
        let options = OpenOptions::new().cache_bytes(self.arguments.cache);
        self.database = Some(Database::open(&self.path, &options)?);
        Ok(())
    }

    pub(super) fn document(&self, number: u64) -> Document {
        Document::new(key(number), self.collection.fingerprint(number)).with_seen(1_700_000_000)
    }

    pub(super) fn assert_stored(&self) -> Result<(), Failure> {
        let stored = self.database()?.snapshot()?.stats()?.documents;
        if stored == self.live() { Ok(()) } else { Err(format!("{stored} documents are stored").into()) }
    }

    fn live(&self) -> u64 {
        let gone = |below: u64| below / 10 + u64::from(below % 10 > DELETED);
        self.inserted - if self.deleted { gone(self.arguments.documents.min(self.inserted)) } else { 0 }
    }

    pub(super) fn is_live(&self, number: u64) -> bool {
        number < self.inserted
            && !(self.deleted && number % 10 == DELETED && number < self.arguments.documents)
    }
}

/// The key of a document: its number, in eight bytes.
pub(super) fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}
