//! Ingestion: its settings, and the threads it runs on.

use super::batches::{Batches, Settings};
use super::events::{Event, Totals};
use super::fingerprinting::Fingerprinting;
use super::records::{Records, read_ahead};
use crate::database::{Database, Policy};
use crate::error::{Error, Result};
use crate::text::Scheme;

/// A way to ingest records into a database.
#[derive(Clone, Debug)]
pub struct Ingest<'d> {
    database: &'d Database,
    settings: Settings,
    scheme: Option<Scheme>,
}

impl<'d> Ingest<'d> {
    /// Ingestion into `database` with the defaults of the methods below.
    pub fn new(database: &'d Database) -> Self {
        let settings = Settings { policy: Policy::link(), batch: 10_000, strict: false };
        Self { database, settings, scheme: None }
    }

    /// What happens with near-duplicates. Default: [`Policy::link`].
    #[must_use]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.settings.policy = policy;
        self
    }

    /// How many records are committed together, at least 1; fewer where the input pauses for a second, and where what
    /// is to be told of them takes more than 64 MiB. Default: 10,000.
    #[must_use]
    pub fn batch(mut self, records: usize) -> Self {
        self.settings.batch = records.max(1);
        self
    }

    /// Whether the first bad record ends the ingestion with an error. What stands before it is committed. Default:
    /// false, bad records are reported and counted.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.settings.strict = strict;
        self
    }

    /// The scheme of ready fingerprints in the records. It has to be that of the database, which takes ready
    /// fingerprints only with this, unless it is [`Scheme::External`]. Default: none.
    #[must_use]
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.scheme = Some(scheme);
        self
    }

    /// Ingests all records, and tells `observe` what happens, as soon as it is durable.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`]; [`Error::Input`] if an input cannot be read further, or for a bad record if that
    /// is to be fatal, what stands before being committed; [`Error::ReadOnly`], [`Error::Damaged`] and
    /// [`Error::Storage`], only whole batches being committed.
    ///
    /// # Cost
    ///
    /// One thread reads, all cores fingerprint and look for near-duplicates, one thread writes. Memory grows with the batch, by a document and
    /// up to the policy's limit of matches each.
    pub fn run(&self, records: Records, observe: impl FnMut(Event<'_>)) -> Result<Totals> {
        let rule = Fingerprinting::new(self.database.scheme(), self.scheme)?;
        let mut batches = Batches::new(self.database, &self.settings, observe);
        let taken = batches.take_all(&read_ahead(records, rule));
        // What was read before an input failed is good; after a failure of the database nothing is.
        if matches!(taken, Ok(()) | Err(Error::Input { .. })) {
            batches.commit()?;
        }
        taken.map(|()| batches.totals)
    }
}
