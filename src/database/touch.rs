//! Touching: a stored document that was seen again.

use std::ops::ControlFlow;

use super::policy::Policy;
use super::search::Search;
use super::verdict::{Change, Verdict};
use super::write::WriteTxn;
use crate::document::{Document, validate_key};
use crate::error::Result;
use crate::store::Numbered;
use crate::unix_seconds::UnixSeconds;

impl WriteTxn {
    /// The verdict on a document that is not stored. The policy may touch its nearest match.
    pub(super) fn skip(
        &mut self,
        document: &Document,
        policy: &Policy,
        search: &Search<'_>,
        own: Option<&Numbered>,
        mut verdict: Verdict,
    ) -> Result<Verdict> {
        if policy.touch {
            let mut nearest = None;
            search.walk(self.writer.reader(), |_, number, found| {
                nearest = Some((number, found));
                ControlFlow::Break(())
            })?;
            if let Some(nearest) = nearest {
                self.touch_found(&nearest, document.seen())?;
            }
        }
        // The document of the same key stays. Its old number says that it does not count yet.
        let ignored = &policy.filter.ignored;
        if let Some(own @ (number, document)) = own
            && number.is_among(&ignored.numbers)
            && !number.is_of_later_record(ignored, self.stored())
        {
            self.writer.put(document, Some(own))?;
        }
        verdict.change = Change::Skipped;
        Ok(verdict)
    }

    /// Says that the document of a key was seen at a later time, and whether there is such a document.
    ///
    /// An earlier time changes nothing. So a page that was met again, but not stored, can stay in a window of
    /// time. For matches of equal distance and fingerprint, the document then counts as the one that was
    /// written last.
    ///
    /// # Errors
    ///
    /// Those of [`delete`](Self::delete); [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit,
    /// which changes nothing; and [`Error::TooManyDocuments`](crate::Error::TooManyDocuments) after
    /// about 2^40 insertions and touches in the life of the database.
    ///
    /// # Cost
    ///
    /// That of inserting a document whose key is there: the document is written anew.
    ///
    /// # Example
    ///
    /// ```
    /// use simdb::{CreateOptions, Database, Document, Fingerprint, Scheme};
    /// # let directory = tempfile::tempdir()?;
    /// # let path = directory.path().join("pages.simdb");
    ///
    /// let options = CreateOptions::new().scheme(Scheme::External);
    /// let database = Database::create(&path, &options)?;
    /// let mut txn = database.begin_write()?;
    /// txn.insert(&Document::new("page", Fingerprint::from_bits(7)).with_seen(100))?;
    /// assert!(txn.touch("page", 200)?);
    /// assert!(!txn.touch("other page", 200)?);
    /// txn.commit()?;
    /// assert_eq!(database.snapshot()?.get("page")?.map(|page| page.seen()), Some(200));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn touch(&mut self, key: impl AsRef<[u8]>, seen: impl Into<UnixSeconds>) -> Result<bool> {
        validate_key(key.as_ref())?;
        let seen = seen.into().checked()?;
        let Some(found) = self.writer.find_to_change(key.as_ref())? else {
            return Ok(false);
        };
        self.touch_found(&found, seen)?;
        Ok(true)
    }

    fn touch_found(&mut self, found: &Numbered, seen: i64) -> Result<()> {
        if found.1.seen() >= seen {
            return Ok(());
        }
        // Under a new number. So documents stay nearly in the order of their times, and blocks of old ones
        // can go as a whole.
        self.writer
            .put(&found.1.clone().with_seen(seen), Some(found))
    }
}
