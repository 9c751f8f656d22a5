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

/// The number of documents that are searched for together. Each is also compared with the earlier ones
/// among them.
const SEARCHED_TOGETHER: usize = 1024;

/// What [`WriteTxn::insert_if_new`] does with a document that has near-duplicates.
///
/// A document without near-duplicates is always stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnMatch {
    /// Store it, and report the matches.
    #[default]
    Link,
    /// Change nothing. A stored document of the same key stays too.
    Skip,
    /// Let the better document survive.
    ///
    /// If the document outranks every match, it is stored and the matches are deleted. Otherwise, ties
    /// included, nothing is changed. [`Document::with_rank`] says which document is better.
    Replace,
}

/// Which documents count as near-duplicates of a new document, and what happens if there are any.
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
    pub(super) touch: bool,
    filter: Filter,
}

impl Policy {
    /// A policy that acts on matches as `on_match` says, with the defaults of the methods below.
    pub fn new(on_match: OnMatch) -> Self {
        Self { on_match, touch: false, filter: Filter::default() }
    }

    /// Stores every document and reports its matches: [`OnMatch::Link`]. This is the default.
    pub fn link() -> Self {
        Self::new(OnMatch::Link)
    }

    /// Stores only documents without a match: [`OnMatch::Skip`].
    pub fn skip() -> Self {
        Self::new(OnMatch::Skip)
    }

    /// Lets the better document survive: [`OnMatch::Replace`].
    pub fn replace() -> Self {
        Self::new(OnMatch::Replace)
    }

    /// The largest distance that matches: inclusive, 0 to 64. Default: the max distance of the database.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.filter.max_distance = Some(max_distance);
        self
    }

    /// The most matches that the verdict lists, the nearest first. Default: 10.
    ///
    /// Its total does not depend on it, except for a policy with a time ([`Matches::total`]).
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.filter.limit = limit;
        self
    }

    /// If a document is skipped, its nearest match counts as seen at the time of the document, if that is
    /// later. Default: no.
    ///
    /// So a page that is met again and again stays in a window of time, and its near-duplicates are found as
    /// long as they come. See [`WriteTxn::touch`]. The verdict has the match as it was before.
    #[must_use]
    pub fn touch(mut self, touch: bool) -> Self {
        self.touch = touch;
        self
    }

    /// Only documents seen at this time (Unix seconds) or later match. Default: all.
    #[must_use]
    pub fn since(mut self, seen: i64) -> Self {
        self.filter.since = Some(seen);
        self
    }

    /// Only documents of one of these scopes match. Default: all.
    ///
    /// The empty text is the scope of documents that have none.
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
    /// It was stored and replaced this document of the same key.
    Replaced(Document),
    /// It was not stored. Nothing was changed, unless the policy [touches](Policy::touch) the nearest match.
    Skipped,
}

/// What [`WriteTxn::insert_if_new`] did, and which near-duplicates it found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub(super) change: Change,
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

    /// The near-duplicates that were stored before. A document of the same key is never among them.
    pub fn matches(&self) -> &Matches {
        &self.matches
    }

    /// The near-duplicates that were deleted because the document outranks them. Only
    /// [`OnMatch::Replace`] deletes any.
    pub fn deleted(&self) -> &[Document] {
        &self.deleted
    }

    /// Whether the document has a near-duplicate.
    pub fn is_duplicate(&self) -> bool {
        self.matches.total() > 0
    }
}

/// The transaction that writes. There is one at a time.
///
/// Its changes become visible and durable together when it is committed. They are undone when it is
/// dropped.
///
/// An operation that is refused (a document out of bounds, a max distance above 64) changes nothing. An
/// operation that fails while it looks up the document of its key, or while it changes something, breaks
/// the transaction, since its sorted sets may no longer agree. The transaction can then only be dropped,
/// and every further call returns [`Error::Aborted`](crate::Error::Aborted).
#[derive(Debug)]
pub struct WriteTxn {
    // Before the store, so that the engine's transaction ends before the engine.
    pub(super) writer: Writer,
    _store: Arc<Store>,
}

impl WriteTxn {
    pub(super) fn new(store: Arc<Store>) -> Result<Self> {
        Ok(Self { writer: store.begin_write()?, _store: store })
    }

    /// Stores a document, whatever it resembles, and returns the document of the same key that it
    /// replaces.
    ///
    /// So a crawler can tell new pages, unchanged pages and changed pages apart.
    ///
    /// # Errors
    ///
    /// * [`Error::KeyLength`](crate::Error::KeyLength),
    ///   [`Error::ScopeLength`](crate::Error::ScopeLength),
    ///   [`Error::PayloadLength`](crate::Error::PayloadLength) and
    ///   [`Error::RankLength`](crate::Error::RankLength) for a document out of bounds. They change
    ///   nothing.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::Io`](crate::Error::Io) if documents that do not stay in memory cannot be written
    ///   beside the database.
    /// * [`Error::TooManyDocuments`](crate::Error::TooManyDocuments) after about 2^40 insertions in the
    ///   life of the database.
    /// * [`Error::TooManyScopes`](crate::Error::TooManyScopes) for a new scope after 2^24 - 2 others,
    ///   the empty one not counted.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    ///
    /// # Cost
    ///
    /// About two microseconds for a new key. For a known key, its document is read, and there are up to
    /// two searches more. Until the commit a document takes about 120 bytes of memory. The documents
    /// themselves take up to 64 MiB. Beyond that they wait in a file without a name beside the database.
    pub fn insert(&mut self, document: &Document) -> Result<Option<Document>> {
        document.validate()?;
        let old = self.writer.find_to_change(document.key())?;
        self.writer.put(document, old.as_ref())?;
        Ok(old.map(|(_, old)| old))
    }

    /// Looks for near-duplicates of a document, and stores it or not, as the policy says.
    ///
    /// It is one step: of two duplicates the second always sees the first. The search sees what this
    /// transaction has written. A document without a fingerprint has no near-duplicates.
    ///
    /// # Errors
    ///
    /// * [`Error::MaxDistance`](crate::Error::MaxDistance) for a max distance above 64. It changes
    ///   nothing.
    /// * The errors of [`insert`](Self::insert).
    ///
    /// # Cost
    ///
    /// That of a query and an insertion. With [`OnMatch::Replace`] not only the listed matches are read.
    /// All are read, up to the first that the document does not outrank.
    pub fn insert_if_new(&mut self, document: &Document, policy: &Policy) -> Result<Verdict> {
        document.validate()?;
        self.decide(document, policy, None)
    }

    /// Does for each of many documents, in order, what [`insert_if_new`](Self::insert_if_new) does.
    ///
    /// The verdicts are the same. But the searches for near-duplicates are made for many documents
    /// together, on all cores.
    ///
    /// # Errors
    ///
    /// Those of [`insert_if_new`](Self::insert_if_new). If any document is out of bounds, nothing is
    /// changed. After another error some of the documents may have been inserted.
    ///
    /// # Cost
    ///
    /// That of [`Snapshot::query_batch`](crate::Snapshot::query_batch), and of one insertion for each
    /// document. The verdicts take memory for all matches that they list.
    pub fn insert_batch_if_new(&mut self, documents: &[Document], policy: &Policy) -> Result<Vec<Verdict>> {
        let mut verdicts = Vec::with_capacity(documents.len());
        self.insert_each_if_new(documents, policy, |verdict| {
            verdicts.push(verdict);
            ControlFlow::Continue(())
        })?;
        Ok(verdicts)
    }

    /// As [`insert_batch_if_new`](Self::insert_batch_if_new), but calls `each` with one verdict after
    /// the other.
    ///
    /// When `each` breaks, the remaining documents are not inserted.
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

    /// Stores a document, or not. `near` has the fingerprints that may be near to it, if they are known.
    fn decide(&mut self, document: &Document, policy: &Policy, near: Option<&[Near]>) -> Result<Verdict> {
        // A document's own key is never a match. A document stored under it is what this one replaces.
        let own = self.writer.find_to_change(document.key())?;
        let mut verdict = Verdict::inserted();
        if let Some(search) = self.search(document, policy, near, own.as_ref())? {
            verdict.matches = search.first_matches(&self.writer, policy.filter.limit)?;
            if verdict.is_duplicate() {
                match policy.on_match {
                    OnMatch::Link => {}
                    OnMatch::Skip => return self.skip(document, policy, &search, verdict),
                    OnMatch::Replace => match outranked(&self.writer, document, &search)? {
                        None => return self.skip(document, policy, &search, verdict),
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

    /// Removes the document of a key and returns it, or `None` if there is none.
    ///
    /// # Errors
    ///
    /// * [`Error::KeyLength`](crate::Error::KeyLength) for a key that no document can have. It changes
    ///   nothing.
    /// * [`Error::Damaged`](crate::Error::Damaged), [`Error::Corrupted`](crate::Error::Corrupted) and
    ///   [`Error::Storage`](crate::Error::Storage) if the file cannot be read.
    /// * [`Error::Aborted`](crate::Error::Aborted) if an earlier operation broke the transaction.
    ///
    /// # Cost
    ///
    /// A search for the key, the reading of its document, and one search more.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<Option<Document>> {
        validate_key(key.as_ref())?;
        let Some(found) = self.writer.find_to_change(key.as_ref())? else { return Ok(None) };
        self.writer.remove(&found)?;
        Ok(Some(found.1))
    }

    /// Makes all changes visible and durable.
    ///
    /// When it returns, they survive a kill of the process and a loss of power, if the disk keeps the
    /// data that it says it has synced. Without changes nothing is written.
    ///
    /// # Errors
    ///
    /// After these errors nothing is stored:
    ///
    /// * [`Error::Aborted`](crate::Error::Aborted): an earlier operation broke the transaction.
    /// * [`Error::OutcomeUnknown`](crate::Error::OutcomeUnknown): an earlier commit or a merge could not
    ///   be written.
    /// * [`Error::Storage`](crate::Error::Storage), or [`Error::Corrupted`](crate::Error::Corrupted) if
    ///   the file is damaged, with a message that levels could not be merged. Transactions get it once
    ///   too many recent documents wait for the merge, and large ones if any document does.
    ///
    /// After any other error, such as [`Error::Storage`](crate::Error::Storage) if the file cannot be
    /// written, it is not known whether the changes are stored. The handle may then refuse all further
    /// changes. Close the database and open it again to find out.
    ///
    /// # Cost
    ///
    /// Two syncs of the disk and about half a millisecond, in a file of several gigabytes about a
    /// millisecond. On top, the written rows are sorted. If merging cannot follow, a commit waits for
    /// it. A transaction with more changes than twice
    /// [`recent_documents`](crate::OpenOptions::recent_documents) waits until all recent documents are
    /// merged, and packs its own rows.
    pub fn commit(self) -> Result<()> {
        self.writer.commit()
    }

    /// The search for the near-duplicates of a document. `None` if it is known to have none.
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
        // With this policy a document has to outrank every match, not only the listed ones.
        let least = usize::from(policy.touch);
        let limit =
            if policy.on_match == OnMatch::Replace { usize::MAX } else { policy.filter.limit.max(least) };
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
