//! The database under test, and what should be in it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use simdb::{Database, Document, OpenOptions, Sketch};

use crate::Failure;
use crate::arguments::{Arguments, scope_name};
use crate::collection::Collection;

/// The documents to delete are those whose number ends in this digit.
pub(crate) const DELETED: u64 = 3;

/// The database under test, and what the phases so far have done to it.
pub(crate) struct Bench<'a> {
    pub(crate) arguments: &'a Arguments,
    pub(crate) collection: Collection,
    /// The path of the database.
    pub(crate) path: PathBuf,
    /// `None` while the database is closed.
    pub(crate) database: Option<Database>,
    /// The documents with numbers below this were inserted.
    pub(crate) inserted: u64,
    /// The documents with numbers below this are expired.
    pub(crate) expired: u64,
    /// Whether a tenth of them was deleted, see [`DELETED`].
    pub(crate) deleted: bool,
    /// The number of times that all documents were replaced.
    pub(crate) replaced: u64,
}

impl<'a> Bench<'a> {
    /// Creates an empty database.
    pub(crate) fn create(arguments: &'a Arguments, path: PathBuf) -> Result<Self, Failure> {
        Ok(Self {
            arguments,
            collection: arguments.collection(0)?,
            database: Some(Database::create(&path, &arguments.create_options())?),
            path,
            inserted: 0,
            expired: 0,
            deleted: false,
            replaced: 0,
        })
    }

    /// What a client knows of it, which has nothing of its own.
    pub(crate) fn of_client(
        arguments: &'a Arguments,
        path: &Path,
        inserted: u64,
    ) -> Result<Self, Failure> {
        Ok(Self {
            arguments,
            collection: arguments.collection(0)?,
            database: None,
            path: path.to_owned(),
            inserted,
            expired: 0,
            deleted: false,
            replaced: 0,
        })
    }

    pub(crate) fn database(&self) -> Result<&Database, Failure> {
        self.database
            .as_ref()
            .ok_or_else(|| "the database is closed".into())
    }

    pub(crate) fn open(&mut self) -> Result<(), Failure> {
        let options = OpenOptions::new().cache(self.arguments.cache());
        self.database = Some(Database::open(&self.path, &options)?);
        Ok(())
    }

    pub(crate) fn document(&self, number: u64) -> Document {
        let document = Document::new(key(number), self.collection.fingerprint(number))
            .with_sketch(self.collection.sketch(number))
            .with_seen(seen(number));
        match self.arguments.scope_of(number) {
            Some(scope) => document.with_scope(scope_name(scope)),
            None => document,
        }
    }

    /// Shows how far a phase is.
    pub(crate) fn remark(&self, remark: &str) {
        if !self.arguments.quiet {
            eprintln!("bench: {remark}");
        }
    }

    /// Checks the number of stored documents.
    pub(crate) fn assert_stored(&self) -> Result<(), Failure> {
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
    pub(crate) fn is_live(&self, number: u64) -> bool {
        (self.expired..self.inserted).contains(&number)
            && !(self.deleted && number % 10 == DELETED && number < self.arguments.documents)
    }

    /// Whether two sketches, of documents or queries, are similar enough to match.
    pub(crate) fn is_similar(&self, one: Option<Sketch>, other: Option<Sketch>) -> bool {
        let jaccard =
            |one: Sketch, other: &Sketch| one.similarity(other).map_or(0.0, |it| it.jaccard());
        self.arguments.min_similarity().is_none_or(|least| {
            one.zip(other)
                .is_some_and(|(one, other)| jaccard(one, &other) >= least)
        })
    }
}

/// Documents come at this rate.
pub(crate) const OF_A_SECOND: u64 = 1_000;

/// The time at which a document is seen.
pub(crate) fn seen(number: u64) -> i64 {
    1_700_000_000 + (number / OF_A_SECOND) as i64
}

/// The key of a document: its number, in eight bytes.
pub(crate) fn key(number: u64) -> [u8; 8] {
    number.to_le_bytes()
}

/// The numbers of a phase, in the order in which they are printed.
pub(crate) struct Row {
    phase: String,
    fields: Map<String, Value>,
}

impl Row {
    pub(crate) fn new(phase: &str) -> Self {
        Self {
            phase: phase.to_owned(),
            fields: Map::new(),
        }
    }

    /// Adds a whole number.
    pub(crate) fn add(&mut self, name: &str, number: u64) {
        self.fields.insert(name.to_owned(), number.into());
    }

    /// Adds a number, rounded to three digits after the point. Measurements are not more precise.
    pub(crate) fn add_rounded(&mut self, name: &str, number: f64) {
        self.fields
            .insert(name.to_owned(), ((number * 1000.0).round() / 1000.0).into());
    }

    /// Adds the median, the 99th percentile and the longest of some times. A second is `per_second` units.
    pub(crate) fn add_times(
        &mut self,
        what: &str,
        mut times: Vec<Duration>,
        per_second: f64,
        unit: &str,
    ) {
        times.sort_unstable();
        let last = times.len().saturating_sub(1);
        for (name, share) in [("median", 0.5), ("p99", 0.99), ("longest", 1.0)] {
            let index = ((times.len() as f64 * share) as usize).min(last);
            let time = times.get(index).copied().unwrap_or_default();
            self.add_rounded(
                &format!("{what}_{name}_{unit}"),
                time.as_secs_f64() * per_second,
            );
        }
    }

    /// Prints the row: an object, or a line with the phase and its numbers.
    pub(crate) fn print(self, as_json: bool) -> io::Result<()> {
        let line = if as_json {
            let mut object = Map::new();
            object.insert("phase".to_owned(), self.phase.into());
            object.extend(self.fields);
            Value::from(object).to_string()
        } else {
            let fields = self.fields.iter();
            let fields: Vec<String> = fields
                .map(|(name, value)| format!("{name} {value}"))
                .collect();
            format!("{}: {}", self.phase, fields.join(", "))
        };
        writeln!(io::stdout(), "{line}")
    }
}
