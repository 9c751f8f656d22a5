//! Expiry: which documents are removed together, and removing them.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::database::Database;
use super::snapshot::Snapshot;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::store::{Conditions, list_expired};
use crate::unix_seconds::UnixSeconds;

/// Which documents [`Database::expire`] removes: those that meet all conditions that are given.
///
/// Without a condition it removes nothing.
///
/// # Example
///
/// ```
/// use simdb::Expiry;
///
/// let older = Expiry::new().before(1_700_000_000);
/// let whole_crawl = Expiry::new().scopes(["crawl 7"]);
/// let older_of_two_sites = Expiry::new().before(1_700_000_000).scopes(["a.example", "b.example"]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Expiry {
    pub(crate) before: Option<UnixSeconds>,
    pub(crate) scopes: Option<BTreeSet<String>>,
}

impl Expiry {
    /// No condition yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only documents that were seen before this time (Unix seconds or a [`SystemTime`](std::time::SystemTime),
    /// exclusive). Default: of any time.
    #[must_use]
    pub fn before(mut self, seen: impl Into<UnixSeconds>) -> Self {
        self.before = Some(seen.into());
        self
    }

    /// Only documents of one of these scopes. Default: of any scope.
    ///
    /// The empty text is the scope of documents that have none.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// `None` if it has no condition, so it names no document.
    fn conditions(&self) -> Result<Option<Conditions>> {
        let before = self.before.map(UnixSeconds::checked).transpose()?;
        let scopes = self.scopes.clone();
        Ok((before.is_some() || scopes.is_some()).then_some(Conditions { before, scopes }))
    }
}

impl Snapshot {
    /// Goes through the documents that [`Database::expire`] would remove, in the order in which they were written.
    /// Returns their number.
    ///
    /// Nothing is removed. When `each` breaks, the rest is neither looked at nor counted.
    ///
    /// # Errors
    ///
    /// [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit.
    /// [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    /// [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    ///
    /// # Cost
    ///
    /// That of [`Database::expire`] without what it writes: only blocks are read that may have such a document.
    pub fn to_expire(
        &self,
        expiry: &Expiry,
        mut each: impl FnMut(Document) -> ControlFlow<()>,
    ) -> Result<u64> {
        let stored = self.stored()?;
        let Some(conditions) = expiry.conditions()? else {
            return Ok(0);
        };
        let mut count = 0;
        let listed = list_expired(stored, &conditions, &mut |document| {
            count += 1;
            Error::if_broken(each(document))
        });
        Error::unless_interrupted(listed)?;
        Ok(count)
    }
}

impl Database {
    /// Removes all documents that an expiry names, in many small transactions, and returns their number.
    ///
    /// Each step is a durable transaction of its own, of at most 25,000 documents. Other threads write between
    /// the steps, and reading never waits. If the process is killed, some documents are removed, and the same
    /// call removes the others. Documents that are stored while it goes on may stay.
    ///
    /// `progress` is called after each step with the number of documents that are removed so far. When it
    /// breaks, the rest stays.
    ///
    /// # Errors
    ///
    /// * [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit. Nothing is removed.
    /// * [`Error::ReadOnly`](crate::Error::ReadOnly) if the database was opened read-only.
    /// * The errors of [`WriteTxn::commit`](crate::WriteTxn::commit). Steps before the error stay done.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    ///
    /// # Cost
    ///
    /// About four microseconds of processor time a document, most of it for merges. By time, only blocks are
    /// read that may have an older document. By scope, all postings are read first, about 30 ns a document of
    /// the whole database, or all blocks that may be old enough, if they are fewer. It takes some 40 MB of
    /// memory, and up to 32 MB more by scope.
    ///
    /// # Example
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use simdb::{CreateOptions, Database, Document, Expiry, Fingerprint, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("news.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// for day in 1..=5 {
    ///     let key = format!("news of day {day}");
    ///     txn.insert(&Document::new(key, Fingerprint::from_bits(day)).with_seen(day as i64 * 86_400))?;
    /// }
    /// txn.commit()?;
    /// let two_days_ago = 4 * 86_400;
    /// let removed = database.expire(&Expiry::new().before(two_days_ago), |_| ControlFlow::Continue(()))?;
    /// assert_eq!(removed, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn expire(
        &self,
        expiry: &Expiry,
        mut progress: impl FnMut(u64) -> ControlFlow<()>,
    ) -> Result<u64> {
        self.store.ensure_usable()?;
        let Some(conditions) = expiry.conditions()? else {
            return Ok(0);
        };
        self.store.expire(&conditions, &mut |removed| {
            Error::if_broken(progress(removed))
        })
    }
}
