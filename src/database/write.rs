//! WriteTxn: insert, insert_if_new, one by one and in batches, delete, commit.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::batch;
use super::query::{Filter, Matches};
use super::search::Search;
use crate::document::{Document, validate_key};
use crate::error::Result;
use crate::plan::Near;
use crate::store::{Numbered, Store, Writer};

/// The documents that are searched for at a time. Each is also compared with those of them that come before it.
const SEARCHED_TOGETHER: usize = 1024;

/// What [`WriteTxn::insert_if_new`] does with a document that has near-duplicates. Documents without any are
/// always stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMatch {
    /// Store it, and report the matches.
    #[default]
    Link,
    /// Change nothing, even if there is a document of its key.
    Skip,
    /// Let the better one survive. If the document outranks every match, store it and delete the matches;
    /// otherwise, ties included, change nothing. [`Document::with_rank`] says what is better.
    Replace,
}

/// Which documents count as near-duplicates of one that is to be inserted, and what happens if there are any.
///
/// # Example
///
/// ```
/// use simdb::Policy;
///
/// let two_days_ago = 1_700_000_000 - 2 * 86_400;
/// let policy = Policy::skip().max_distance(2).since(two_days_ago);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    on_match: OnMatch,
    filter: Filter,
}

impl Policy {
    /// Acts on a match as `on_match` says, with the defaults of the methods below.
    pub fn new(on_match: OnMatch) -> Self {
        Self { on_match, filter: Filter::default() }
    }

    /// [`OnMatch::Link`]: store every document and report its matches. The default.
    pub fn link() -> Self {
        Self::new(OnMatch::Link)
    }

    /// [`OnMatch::Skip`]: store only documents without a match.
    pub fn skip() -> Self {
        Self::new(OnMatch::Skip)
    }

    /// [`OnMatch::Replace`]: let the better one survive.
    pub fn replace() -> Self {
        Self::new(OnMatch::Replace)
    }

    /// The largest distance that matches, inclusive; 0 to 64. Default: that of the database.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.filter.max_distance = Some(max_distance);
        self
    }

    /// How many matches the verdict lists, the nearest first; its total does not depend on it. Default: 10.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.filter.limit = limit;
        self
    }

    /// Only documents seen at this time (Unix seconds) or later match. Default: all.
    #[must_use]
    pub fn since(mut self, seen: i64) -> Self {
        self.filter.since = Some(seen);
        self
    }

    /// Only documents of one of these scopes match; the empty text is the scope of documents that have none.
    /// Default: all.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.filter.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }
}

/// What [`WriteTxn::insert_if_new`] did with the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It was stored, and its key is new.
    Inserted,
    /// It was stored in the place of this document of the same key.
    Replaced(Document),
    /// It was not stored, and nothing was changed.
    Skipped,
}

/// What [`WriteTxn::insert_if_new`] did, and which documents it was compared with and found near.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    change: Change,
    matches: Matches,
    deleted: Vec<Document>,
}

impl Verdict {
    /// The verdict on a document of a new key that has no near-duplicates.
    fn inserted() -> Self {
        Self { change: Change::Inserted, matches: Matches::default(), deleted: Vec::new() }
    }

    /// What was done with the document.
    pub fn change(&self) -> &Change {
        &self.change
    }

    /// The near-duplicates that were there before. The document's own key is never among them.
    pub fn matches(&self) -> &Matches {
        &self.matches
    }

    /// The near-duplicates that were deleted because the document outranks them; with [`OnMatch::Replace`] only.
    pub fn deleted(&self) -> &[Document] {
        &self.deleted
    }

    /// Whether the document has a near-duplicate.
    pub fn is_duplicate(&self) -> bool {
        self.matches.total() > 0
    }
}

/// The transaction that writes: its changes become visible and durable together when it is committed, and are
/// undone when it is dropped. There is one at a time.
///
/// An operation that is refused (a document out of bounds, a max distance above 64) changes nothing. One that fails
/// while it writes breaks the transaction, since its tables may no longer agree: it can only be dropped then, and every
/// further call answers [`Error::Aborted`](crate::Error::Aborted).
#[derive(Debug)]
pub struct WriteTxn {
    // Before the store, so that the engine's transaction ends before the engine.
    writer: Writer,
    _store: Arc<Store>,
}

impl WriteTxn {
    pub(super) fn new(store: Arc<Store>) -> Result<Self> {
        Ok(Self { writer: store.begin_write()?, _store: store })
    }

    /// Stores a document, whatever it resembles, and returns the document of the same key that it replaces. So a
    /// crawler can tell new pages, unchanged ones and changed ones.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`](crate::Error::KeyLength) and the other errors of length for a document out of bounds,
    /// which change nothing; [`Error::Damaged`](crate::Error::Damaged) and
    /// [`Error::Storage`](crate::Error::Storage); [`Error::Io`](crate::Error::Io) if documents that this transaction does not keep
    /// in memory cannot be written beside the database; [`Error::Aborted`](crate::Error::Aborted);
    /// [`Error::TooManyDocuments`](crate::Error::TooManyDocuments) and [`Error::TooManyScopes`](crate::Error::TooManyScopes) after
    /// 2^40 insertions and 2^24 names of scopes.
    ///
    /// # Cost
    ///
    /// About two microseconds for a new key; for one that is known, the reading of its document and two searches more. Until the
    /// commit 120 bytes of memory; the documents themselves wait in a file without a name once they take more than 64 MB.
    pub fn insert(&mut self, document: &Document) -> Result<Option<Document>> {
        document.validate()?;
        let old = self.writer.find_to_change(document.key())?;
        self.writer.put(document, old.as_ref())?;
        Ok(old.map(|(_, old)| old))
    }

    /// Looks for near-duplicates of a document and stores it, or not, as the policy says: in one step, so that of
    /// two duplicates the second always sees the first. It sees what this transaction has written.
    ///
    /// A document without a fingerprint has no near-duplicates.
    ///
    /// # Errors
    ///
    /// As for [`insert`](Self::insert), and [`Error::MaxDistance`](crate::Error::MaxDistance).
    ///
    /// # Cost
    ///
    /// That of a query and an insertion. With [`OnMatch::Replace`] that of two queries, and every match is read, not only those
    /// listed.
    pub fn insert_if_new(&mut self, document: &Document, policy: &Policy) -> Result<Verdict> {
        document.validate()?;
        self.decide(document, policy, None)
    }

    /// Does with many documents what [`insert_if_new`](Self::insert_if_new) does with each, one after the other, with the same
    /// verdicts; but looks for near-duplicates of many at a time, on all cores.
    ///
    /// # Errors
    ///
    /// As for [`insert_if_new`](Self::insert_if_new). Nothing is changed if any of the documents is out of bounds.
    ///
    /// # Cost
    ///
    /// That of [`Snapshot::query_batch`](crate::Snapshot::query_batch) and of an insertion for each; the verdicts take memory, as
    /// many matches as the policy lists.
    pub fn insert_batch_if_new(&mut self, documents: &[Document], policy: &Policy) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::with_capacity(documents.len());
        self.insert_each_if_new(documents, policy, |verdict| {
            verdicts.push(verdict);
            ControlFlow::Continue(())
        })?;
        Ok(verdicts)
    }

    /// As [`insert_batch_if_new`](Self::insert_batch_if_new), but tells one verdict after the other, and ends when it is told to; what
    /// follows is not inserted then.
    pub(crate) fn insert_each_if_new(
        &mut self,
        documents: &[Document],
        policy: &Policy,
        mut each: impl FnMut(Verdict) -> ControlFlow<()>,
    ) -> Result<()> {
        documents.iter().try_for_each(Document::validate)?;
        self.writer.ensure_whole()?;
        for documents in documents.chunks(SEARCHED_TOGETHER) {
            self.writer.sort_written();
            let near =
                batch::near_to_documents(&self.writer, documents, policy.filter.distance(&self.writer)?)?;
            for (index, document) in documents.iter().enumerate() {
                let verdict = self.decide(document, policy, near.as_ref().map(|near| near.of(index)))?;
                if each(verdict).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Stores a document, or not. `near` is what may be near to it, if that is known.
    fn decide(&mut self, document: &Document, policy: &Policy, near: Option<&[Near]>) -> Result<Verdict> {
        // A document's own key is never a match, and what stands there is what the document replaces.
        let own = self.writer.find_to_change(document.key())?;
        let mut verdict = Verdict::inserted();
        if let Some(search) = self.search(document, policy, near, own.as_ref())? {
            verdict.matches = search.first_matches(&self.writer, policy.filter.limit)?;
            if verdict.is_duplicate() {
                match policy.on_match {
                    OnMatch::Link => {}
                    OnMatch::Skip => return Ok(Verdict { change: Change::Skipped, ..verdict }),
                    OnMatch::Replace => match outranked(&self.writer, document, &search)? {
                        None => return Ok(Verdict { change: Change::Skipped, ..verdict }),
                        Some(outranked) => {
                            outranked.iter().try_for_each(|it| self.writer.remove(it))?;
                            verdict.deleted = outranked.into_iter().map(|(_, document)| document).collect();
                        }
                    },
                }
            }
        }
        self.writer.put(document, own.as_ref())?;
        if let Some((_, old)) = own {
            verdict.change = Change::Replaced(old);
        }
        Ok(verdict)
    }

    /// Removes the document of a key and returns it, or `None` where there is none.
    ///
    /// # Errors
    ///
    /// [`Error::KeyLength`](crate::Error::KeyLength) for a key that no document can have;
    /// [`Error::Damaged`](crate::Error::Damaged) and [`Error::Storage`](crate::Error::Storage);
    /// [`Error::Aborted`](crate::Error::Aborted).
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Document>> {
        validate_key(key.as_ref())?;
        let Some(found) = self.writer.find_to_change(key.as_ref())? else { return Ok(None) };
        self.writer.remove(&found)?;
        Ok(Some(found.1))
    }

    /// Makes all changes visible and durable: when it returns, they survive a kill of the process and a loss of
    /// power, as far as the disk keeps what it says it has synced.
    ///
    /// # Errors
    ///
    /// Nothing is stored after [`Error::Aborted`](crate::Error::Aborted), since an operation failed before; after
    /// [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown), since an earlier commit or a merge could not be written; and where
    /// the message says that levels could not be merged ([`Error::Storage`](crate::Error::Storage), or
    /// [`Error::Corrupted`](crate::Error::Corrupted) if the file is damaged), which is told to transactions once too much waits to be
    /// merged.
    ///
    /// After any other error, such as [`Error::Storage`](crate::Error::Storage) where the file cannot be written, it is not
    /// known whether the changes are stored, and the handle takes no further ones. Close the database and open it again to
    /// find out.
    ///
    /// # Cost
    ///
    /// About half a millisecond and two syncs of the disk; on top, sorting what was written. If merging cannot follow, it waits.
    pub fn commit(self) -> Result<()> {
        self.writer.commit()
    }

    /// The search for the near-duplicates of a document; `None` if there is none to be made.
    fn search(
        &self,
        document: &Document,
        policy: &Policy,
        near: Option<&[Near]>,
        own: Option<&Numbered>,
    ) -> Result<Option<Search>> {
        let Some(fingerprint) = document.fingerprint() else { return Ok(None) };
        if near.is_some_and(<[_]>::is_empty) {
            return Ok(None);
        }
        // Whoever replaces has to outrank every match, not only those that are listed.
        let limit = if policy.on_match == OnMatch::Replace { usize::MAX } else { policy.filter.limit };
        let filter = Filter { limit, ..policy.filter.clone() };
        let search = match near {
            Some(near) => Search::among(&self.writer, near, fingerprint, &filter, own),
            None => Search::found(&self.writer, fingerprint, &filter, own),
        };
        search.map(Some)
    }
}

/// All matches, if the document outranks every one of them.
fn outranked(writer: &Writer, document: &Document, search: &Search) -> Result<Option<Vec<Numbered>>> {
    let mut outranked = Some(Vec::new());
    search.walk(writer, |_, number, found| match &mut outranked {
        Some(list) if document.outranks(&found) => {
            list.push((number, found));
            ControlFlow::Continue(())
        }
        _ => {
            outranked = None;
            ControlFlow::Break(())
        }
    })?;
    Ok(outranked)
}
