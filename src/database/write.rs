//! WriteTxn: insert, insert_if_new, one by one and in batches, delete, commit.

use std::ops::ControlFlow;
use std::sync::Arc;

use super::batch::{self, Asked, Known, KnownNear};
use super::near_search::{NearQuery, NearWritten};
use super::policy::{OnMatch, Policy};
use super::query::Matches;
use super::search::Search;
use super::sought::Sought;
use super::verdict::{Change, Verdict};
use crate::document::{Document, validate_key};
use crate::error::{Error, Result};
use crate::metrics::Decided;
use crate::parallel;
use crate::plan::NearFingerprint;
use crate::store::{Numbered, Patience, Reader, Store, Transaction};

/// The most and the fewest documents that are searched for together, by one thread. Many together read
/// neighbouring parts of the tables one after the other. With fewer, threads wait for each other more often.
const MOST_TOGETHER: usize = 2048;
const FEWEST_TOGETHER: usize = 128;
/// The number of parts that each core gets of a batch, if it is large enough.
const PARTS_PER_CORE: usize = 4;

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
    pub(super) writer: Transaction,
    near_written: NearWritten,
    decided: Decided,
    /// The number of the first document that it stores.
    first_number: u64,
    store: Arc<Store>,
}

impl WriteTxn {
    /// Begins the transaction when its turn has come. `None` if that is not in time.
    pub(super) fn begin(store: &Arc<Store>, patience: Patience) -> Result<Option<Self>> {
        let begun = store.begin_write(patience)?;
        Ok(begun.map(|writer| Self {
            first_number: writer.next_number(),
            writer,
            near_written: NearWritten::default(),
            decided: Decided::default(),
            store: store.clone(),
        }))
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
    ///   [`Error::RankLength`](crate::Error::RankLength) for a document out of bounds,
    ///   [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit, and
    ///   [`Error::SketchSizes`](crate::Error::SketchSizes) for a sketch of another size than the database has.
    ///   They change nothing.
    /// * [`Error::SketchMissing`](crate::Error::SketchMissing) for a document that has a fingerprint but no sketch, in
    ///   a database that compares texts by sketches. Queries would miss it. It changes nothing.
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
        self.writer.settings().validate(document)?;
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
    /// * [`Error::MaxDistance`](crate::Error::MaxDistance) for a max distance above 64,
    ///   [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit,
    ///   [`Error::MinSimilarity`](crate::Error::MinSimilarity) for a least similarity that is not 0 to 1, and
    ///   [`Error::NoSketch`](crate::Error::NoSketch) if the policy asks for a similarity and the document has a
    ///   fingerprint but no sketch. They change nothing.
    /// * [`Error::Verify`](crate::Error::Verify) if the function of [`Policy::verify`] fails. It changes nothing.
    /// * The errors of [`insert`](Self::insert).
    ///
    /// # Cost
    ///
    /// That of a query and an insertion. With [`OnMatch::Replace`] not only the listed matches are read.
    /// All are read, up to the first that the document does not outrank.
    pub fn insert_if_new(&mut self, document: &Document, policy: &Policy) -> Result<Verdict> {
        let mut verdict = None;
        self.insert_each_if_new(&[(document, policy)], |decided| {
            verdict = Some(decided);
            ControlFlow::Continue(())
        })?;
        verdict.expect("one document was asked for")
    }

    /// Does for each of many documents, in order, what [`insert_if_new`](Self::insert_if_new) does.
    ///
    /// The verdicts are the same. But the searches for near-duplicates are made for many documents
    /// together, on all cores, while other documents are inserted.
    ///
    /// # Errors
    ///
    /// * [`Error::InBatch`](crate::Error::InBatch) if a document is out of bounds. It has the index of the
    ///   first such document, and nothing is changed.
    /// * The other errors of [`insert_if_new`](Self::insert_if_new). Some of the documents may have been
    ///   inserted then.
    ///
    /// # Cost
    ///
    /// That of [`Snapshot::query_batch`](crate::Snapshot::query_batch), and of one insertion for each
    /// document. The verdicts take memory for all matches that they list.
    pub fn insert_batch_if_new(
        &mut self,
        documents: &[Document],
        policy: &Policy,
    ) -> Result<Vec<Verdict>> {
        self.validate_all(documents)?;
        let asked: Vec<Asked<'_>> = documents
            .iter()
            .map(|document| (document, policy))
            .collect();
        let mut verdicts = Vec::with_capacity(documents.len());
        let mut refused = Ok(());
        self.insert_each_if_new(&asked, |verdict| match verdict {
            Ok(verdict) => {
                verdicts.push(verdict);
                ControlFlow::Continue(())
            }
            Err(error) => {
                refused = Err(error);
                ControlFlow::Break(())
            }
        })?;
        refused.map(|()| verdicts)
    }

    /// As [`insert_batch_if_new`](Self::insert_batch_if_new), with a policy for each document. Calls `each` with
    /// one verdict after the other.
    ///
    /// A document or a policy out of bounds fails alone: `each` gets the error in its place. When `each`
    /// breaks, the remaining documents are not inserted.
    ///
    /// # Errors
    ///
    /// Those of [`insert`](Self::insert), except for the errors of single documents. Some of the documents may
    /// have been inserted then.
    pub fn insert_each_if_new(
        &mut self,
        asked: &[(&Document, &Policy)],
        mut each: impl FnMut(Result<Verdict>) -> ControlFlow<()>,
    ) -> Result<()> {
        self.writer.ensure_whole()?;
        let committed = self.writer.committed();
        let together = asked.len() / (PARTS_PER_CORE * parallel::cores());
        let together = together.clamp(FEWEST_TOGETHER, MOST_TOGETHER);
        let parts: Vec<&[Asked<'_>]> = asked.chunks(together).collect();
        let search = |part: usize| batch::known(Reader::new(&committed), parts[part]);
        let mut failed = Ok(());
        parallel::in_order(parts.len(), search, |part, known| {
            let decided = known.and_then(|known| self.decide_all(parts[part], known, &mut each));
            decided.unwrap_or_else(|error| {
                failed = Err(error);
                ControlFlow::Break(())
            })
        });
        failed
    }

    /// Checks the bounds of the documents of a batch. The error names the first that is out of bounds.
    fn validate_all(&self, documents: &[Document]) -> Result<()> {
        let settings = self.writer.settings();
        documents
            .iter()
            .enumerate()
            .try_for_each(|(index, document)| {
                settings.validate(document).map_err(|error| Error::InBatch {
                    index,
                    source: Box::new(error),
                })
            })
    }

    fn decide_all(
        &mut self,
        asked: &[Asked<'_>],
        known: Vec<Known<'_>>,
        each: &mut impl FnMut(Result<Verdict>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        for (&(document, policy), known) in asked.iter().zip(known) {
            let settings = self.writer.settings();
            let valid = settings.validate(document);
            let verdict = match valid.and_then(|()| policy.filter.bounds(document, settings)) {
                Ok(bounds) => match self.decide(document, policy, bounds.max_distance, known) {
                    // Nothing was changed. So it fails alone.
                    Err(error @ Error::Verify(_)) => Err(error),
                    decided => Ok(decided.inspect(|verdict| verdict.count_in(&mut self.decided))?),
                },
                Err(error) => Err(error),
            };
            if each(verdict).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Stores a document, or not. `known` is what is committed and concerns it.
    fn decide(
        &mut self,
        document: &Document,
        policy: &Policy,
        max_distance: u32,
        known: Known<'_>,
    ) -> Result<Verdict> {
        // A document's own key is never a match. A document stored under it is what this one replaces.
        let own = match self.writer.may_have_changed(document.key()) {
            true => self.writer.find_to_change(document.key())?,
            false => known.own,
        };
        let mut verdict = Verdict::inserted();
        if let Some((search, matches)) =
            self.search(document, policy, max_distance, known.near, own.as_ref())?
        {
            verdict.matches = matches;
            if verdict.is_duplicate() {
                match policy.on_match {
                    OnMatch::Link => {}
                    OnMatch::Skip => {
                        return self.skip(document, policy, &search, own.as_ref(), verdict);
                    }
                    OnMatch::Replace => match outranked(&self.writer, document, &search)? {
                        None => return self.skip(document, policy, &search, own.as_ref(), verdict),
                        Some(outranked) => {
                            outranked.iter().try_for_each(|it| self.writer.remove(it))?;
                            verdict.deleted = outranked
                                .into_iter()
                                .map(|(_, document)| document)
                                .collect();
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

    /// The document of a key, as this transaction has it.
    ///
    /// # Errors
    ///
    /// As for [`delete`](Self::delete).
    #[cfg(feature = "ingest")]
    pub(crate) fn find(&mut self, key: &[u8]) -> Result<Option<Document>> {
        validate_key(key)?;
        Ok(self
            .writer
            .find_to_change(key)?
            .map(|(_, document)| document))
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
        let Some(found) = self.writer.find_to_change(key.as_ref())? else {
            return Ok(None);
        };
        self.writer.remove(&found)?;
        Ok(Some(found.1))
    }

    /// The number of documents that it has stored.
    pub(super) fn stored(&self) -> u64 {
        self.writer.next_number() - self.first_number
    }

    /// The number that the next document gets.
    #[cfg(feature = "ingest")]
    pub(crate) fn next_number(&self) -> u64 {
        self.writer.next_number()
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
        let Self {
            writer,
            decided,
            store,
            ..
        } = self;
        writer.commit()?;
        store.meters.verdicts.add(&decided);
        Ok(())
    }

    /// The search for the near-duplicates of a document, and the matches to list. `None` if nothing is near.
    ///
    /// What is known of the last commit is the answer, unless this transaction has written something near, or
    /// removed a document of a near fingerprint.
    fn search<'a>(
        &mut self,
        document: &'a Document,
        policy: &'a Policy,
        max_distance: u32,
        known: Option<Box<KnownNear<'a>>>,
        own: Option<&Numbered>,
    ) -> Result<Option<(Search<'a>, Matches)>> {
        let Some(fingerprint) = document.fingerprint() else {
            return Ok(None);
        };
        let written = self.near_written.find(
            &mut self.writer,
            NearQuery {
                fingerprint,
                max_distance,
            },
        )?;
        let writer = &self.writer;
        let reader = writer.reader();
        let (limit, most) = (policy.filter.limit, policy.most_listed());
        let sought = Sought::of_document(document, fingerprint, policy);
        let search = match known {
            None if written.is_empty() => return Ok(None),
            None => Search::among(reader, written, sought, most, own)?,
            Some(known) => {
                let KnownNear {
                    fingerprints,
                    search,
                    matches,
                } = *known;
                let has_removed = |near: &Vec<NearFingerprint>| {
                    near.iter().any(|it| writer.has_removed(it.fingerprint))
                };
                let changed = !written.is_empty()
                    || writer.has_removed_any() && fingerprints.as_ref().is_none_or(has_removed);
                match (fingerprints, matches) {
                    (_, Some(matches)) if !changed => return Ok(Some((search, matches))),
                    (_, None) if !changed => search,
                    (Some(mut near), _) => {
                        near.extend(written);
                        near.sort_unstable();
                        near.dedup();
                        Search::among(reader, &near, sought, most, own)?
                    }
                    (None, _) => Search::found(reader, sought, most, own)?,
                }
            }
        };
        let matches = search.first_matches(reader, limit)?;
        Ok(Some((search, matches)))
    }
}

/// All matches, if the document outranks every one of them.
fn outranked(
    writer: &Transaction,
    document: &Document,
    search: &Search<'_>,
) -> Result<Option<Vec<Numbered>>> {
    let mut outranked = Some(Vec::new());
    search.walk(writer.reader(), |_, number, found| match &mut outranked {
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
