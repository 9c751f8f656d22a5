//! Verdict: what was done with a document, which near-duplicates it has, and how that is decided.
//!
//! The search for near-duplicates takes longer than the insertion. It reads what is committed, which the
//! transaction does not change. So it can be made before the turn of a document, for many together and on
//! other threads. What the transaction itself has written is looked up in the document's turn.

use std::ops::ControlFlow;

use super::answering;
use super::near_search::{MOST_TOGETHER, NearQuery, NearSearch, reads_few_ranges};
use super::policy::{OnMatch, Policy};
use super::query::{Matches, Query};
use super::search::{Search, add_all};
use super::unlike::leave_out_unlike;
use super::write::WriteTxn;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::metrics::Verdicts;
use crate::parallel;
use crate::plan::NearFingerprint;
use crate::planted::planted;
use crate::store::{KnownSketches, Numbered, Reader, Transaction};

/// The fewest documents that are searched for together, by one thread. With fewer, threads wait for each other more
/// often.
const FEWEST_TOGETHER: usize = 128;
/// The most near fingerprints of a document that are kept, and of documents that are searched for together.
const MOST_KEPT: usize = 4096;
const MOST_KEPT_TOGETHER: usize = 1 << 23;
/// The most memory for the matches of documents that are searched for together (bytes).
const MOST_BYTES: usize = 4 << 20;

/// What [`WriteTxn::insert_if_new`](crate::WriteTxn::insert_if_new) did with the document.
///
/// # Example
///
/// ```
/// use simdb::{Change, Document, Fingerprint, Policy};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// let page = Document::new("page", Fingerprint::from_bits(7));
/// assert_eq!(txn.insert_if_new(&page, &Policy::skip())?.change(), &Change::Inserted);
/// let copy = Document::new("copy", Fingerprint::from_bits(7));
/// assert_eq!(txn.insert_if_new(&copy, &Policy::skip())?.change(), &Change::Skipped);
/// let changed_page = Document::new("page", Fingerprint::from_bits(u64::MAX));
/// assert_eq!(txn.insert_if_new(&changed_page, &Policy::skip())?.change(), &Change::Replaced(page));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// It was stored, and its key is new.
    Inserted,
    /// It was stored and replaced this document of the same key.
    Replaced(Document),
    /// It was not stored. Nothing was changed, unless the policy [touches](crate::Policy::touch) the nearest
    /// match.
    Skipped,
}

/// What [`WriteTxn::insert_if_new`](crate::WriteTxn::insert_if_new) did, and which near-duplicates it found.
///
/// # Example
///
/// ```
/// use simdb::{Change, Document, Fingerprint, Policy};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
///
/// let mut txn = database.begin_write()?;
/// txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// let copy = Document::new("copy", Fingerprint::from_bits(6));
/// let verdict = txn.insert_if_new(&copy, &Policy::link())?;
/// assert!(verdict.is_duplicate());
/// assert_eq!(verdict.change(), &Change::Inserted);
/// assert_eq!(verdict.matches().as_slice()[0].document.key(), b"page");
/// assert!(verdict.deleted().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    change: Change,
    matches: Matches,
    deleted: Vec<Document>,
}

impl Verdict {
    /// A verdict of these parts, for programs that get it from elsewhere: what was done, the near-duplicates, and those
    /// of them that were deleted.
    pub fn new(change: Change, matches: Matches, deleted: Vec<Document>) -> Self {
        Self {
            change,
            matches,
            deleted,
        }
    }

    /// The verdict on a document of a new key that has no near-duplicates.
    fn inserted() -> Self {
        Self::new(Change::Inserted, Matches::default(), Vec::new())
    }

    /// Counts it among the verdicts of its transaction.
    fn count_in(&self, verdicts: &mut Verdicts) {
        let duplicates = u64::from(self.is_duplicate());
        match self.change {
            Change::Inserted => {
                verdicts.inserted += 1;
                verdicts.inserted_duplicates += duplicates;
            }
            Change::Replaced(_) => {
                verdicts.replaced += 1;
                verdicts.replaced_duplicates += duplicates;
            }
            Change::Skipped => verdicts.skipped += 1,
        }
        // Matches may be in the order of similarity.
        let distances = self.matches.iter().map(|found| found.distance);
        if let Some(nearest) = distances.min() {
            verdicts.nearest[nearest as usize] += 1;
        }
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
    /// [`OnMatch::Replace`](crate::OnMatch::Replace) deletes any.
    pub fn deleted(&self) -> &[Document] {
        &self.deleted
    }

    /// Whether the document has a near-duplicate.
    pub fn is_duplicate(&self) -> bool {
        self.matches.total() > 0
    }
}

/// A document to insert, with the policy for its near-duplicates.
type ToInsert<'a> = (&'a Document, &'a Policy);

impl WriteTxn {
    /// Looks for near-duplicates of a document, and stores it or not, as the policy says.
    ///
    /// It is one step: of two duplicates the second always sees the first. The search sees what this
    /// transaction has written. A document without a fingerprint has no near-duplicates.
    ///
    /// A document that takes the place of the stored one of its key is never counted as seen less often: of the two
    /// counts of [`repeats`](Document::repeats), it gets the greater. So to insert it twice is to insert it once.
    ///
    /// # Errors
    ///
    /// * [`Error::MaxDistance`](crate::Error::MaxDistance) for a max distance above 64,
    ///   [`Error::NotSeconds`](crate::Error::NotSeconds) for a time in another unit,
    ///   [`Error::MinSimilarity`](crate::Error::MinSimilarity) for a least similarity that is not 0 to 1,
    ///   [`Error::KeepNone`](crate::Error::KeepNone) for a policy that keeps none, and
    ///   [`Error::NoSketch`](crate::Error::NoSketch) if the policy asks for a similarity and the document has a
    ///   fingerprint but no sketch, or [`Error::SketchSizes`](crate::Error::SketchSizes) if the database has no
    ///   sketches. They change nothing.
    /// * [`Error::Verify`](crate::Error::Verify) if the function of [`Policy::verify`] fails. It changes nothing.
    /// * The errors of [`insert`](Self::insert).
    ///
    /// # Cost
    ///
    /// That of a query and an insertion. With [`OnMatch::Replace`] not only the listed matches are read. All are read,
    /// until as many are found as are kept that the document does not outrank.
    pub fn insert_if_new(&mut self, document: &Document, policy: &Policy) -> Result<Verdict> {
        self.writer.ensure_whole()?;
        self.checked_max_distance(document, policy)?;
        let view = self.writer.committed();
        let committed = find_committed(Reader::new(&view), &[(document, policy)])?.pop();
        self.decide(document, policy, committed.unwrap_or_default())
    }

    /// Answers a query as [`Snapshot::query`](crate::Snapshot::query) does, with what this transaction has written.
    ///
    /// # Errors
    ///
    /// Those of [`Snapshot::query`](crate::Snapshot::query), and [`Error::Aborted`] if an earlier operation broke the
    /// transaction.
    ///
    /// # Cost
    ///
    /// That of a query. The fingerprints that were written since the last call are sorted first.
    pub fn query(&mut self, query: &Query) -> Result<Matches> {
        self.writer.ensure_whole()?;
        self.writer.index_written();
        answering::answer(self.writer.reader(), query)
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
        let settings = self.writer.reader().settings();
        for (index, document) in documents.iter().enumerate() {
            settings
                .validate(document)
                .map_err(|error| Error::InBatch {
                    index,
                    source: Box::new(error),
                })?;
        }
        let mut to_insert: Vec<ToInsert<'_>> = Vec::with_capacity(documents.len());
        for document in documents {
            to_insert.push((document, policy));
        }
        let mut verdicts = Vec::with_capacity(documents.len());
        self.insert_each(&to_insert, |verdict| {
            verdicts.push(verdict?);
            Ok(())
        })?;
        Ok(verdicts)
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
        documents: &[(&Document, &Policy)],
        mut each: impl FnMut(Result<Verdict>) -> ControlFlow<()>,
    ) -> Result<()> {
        Error::unless_interrupted(
            self.insert_each(documents, |verdict| Error::if_broken(each(verdict))),
        )
    }

    fn insert_each(
        &mut self,
        to_insert: &[ToInsert<'_>],
        mut each: impl FnMut(Result<Verdict>) -> Result<()>,
    ) -> Result<()> {
        self.writer.ensure_whole()?;
        let view = self.writer.committed();
        // The turns of the documents take as long as short searches. So some documents have their turns while others
        // are searched for.
        let are_short = self.searches_are_short(to_insert, Reader::new(&view))?;
        let parts = parallel::cores() * if are_short { 4 } else { 1 };
        let together = to_insert.len().div_ceil(parts);
        let together = together.clamp(FEWEST_TOGETHER, MOST_TOGETHER);
        let parts: Vec<&[ToInsert<'_>]> = to_insert.chunks(together).collect();
        parallel::in_order(
            parts.len(),
            |part| find_committed(Reader::new(&view), parts[part]),
            |part, committed| self.decide_all(parts[part], committed, &mut each),
        )
    }

    /// Whether the searches for documents are short, as far as the first of them tells.
    fn searches_are_short(
        &self,
        to_insert: &[ToInsert<'_>],
        committed: Reader<'_>,
    ) -> Result<bool> {
        let together = to_insert.len().div_ceil(parallel::cores());
        let Some(&(document, policy)) = to_insert.first() else {
            return Ok(false);
        };
        if together <= FEWEST_TOGETHER {
            return Ok(false);
        }
        // A document that is refused is refused in its turn.
        match self.checked_max_distance(document, policy) {
            Ok(max_distance) => reads_few_ranges(committed, max_distance, together),
            Err(_) => Ok(false),
        }
    }

    fn decide_all(
        &mut self,
        to_insert: &[ToInsert<'_>],
        committed: Vec<Committed<'_>>,
        each: &mut impl FnMut(Result<Verdict>) -> Result<()>,
    ) -> Result<()> {
        for (&(document, policy), committed) in to_insert.iter().zip(committed) {
            let verdict = match self.checked_max_distance(document, policy) {
                Err(error) => Err(error),
                Ok(_) => match self.decide(document, policy, committed) {
                    // Nothing was changed. So it fails alone.
                    Err(error @ Error::Verify(_)) => Err(error),
                    decided => Ok(decided?),
                },
            };
            each(verdict)?;
        }
        Ok(())
    }

    /// The max distance for a document, if the document and the policy are within their bounds.
    fn checked_max_distance(&self, document: &Document, policy: &Policy) -> Result<u32> {
        let settings = self.writer.reader().settings();
        settings.validate(document)?;
        policy.check()?;
        Ok(policy.filter.bounds(document, settings)?.max_distance)
    }

    /// Stores a document, or not. It and the policy are within their bounds.
    fn decide(
        &mut self,
        document: &Document,
        policy: &Policy,
        committed: Committed<'_>,
    ) -> Result<Verdict> {
        // A document's own key is never a match. A document stored under it is what this one replaces.
        let own = match self.writer.may_have_changed(document.key()) {
            true => self.writer.find_to_change(document.key())?,
            false => committed.own,
        };
        let mut verdict = Verdict::inserted();
        let near = committed.near;
        let found = self.near_duplicates(document, policy, near, own.as_ref())?;
        let is_stored = match found {
            None => true,
            Some((search, matches)) => {
                verdict.matches = matches;
                self.act_on_matches(document, policy, &search, &mut verdict)?
            }
        };
        if is_stored {
            let repeats = repeats_when_stored(document, policy, own.as_ref(), &verdict.deleted);
            let seen = match &own {
                // It was touched since, if it is later.
                Some((_, old)) if policy.touch => old.seen().max(document.seen()),
                _ => document.seen(),
            };
            let is_other = (repeats, seen) != (document.repeats(), document.seen());
            let stored = is_other.then(|| document.clone().with_repeats(repeats).with_seen(seen));
            self.writer
                .put(stored.as_ref().unwrap_or(document), own.as_ref())?;
            if let Some((_, old)) = own {
                verdict.change = Change::Replaced(old);
            }
        } else {
            verdict.change = Change::Skipped;
            self.renew_ignored(policy, own.as_ref())?;
        }
        verdict.count_in(&mut self.verdicts);
        Ok(verdict)
    }

    /// Does with the near-duplicates what the policy says. Returns whether the document is to be stored.
    fn act_on_matches(
        &mut self,
        document: &Document,
        policy: &Policy,
        search: &Search<'_>,
        verdict: &mut Verdict,
    ) -> Result<bool> {
        if !verdict.is_duplicate() {
            return Ok(true);
        }
        match policy.on_match {
            OnMatch::Link => return Ok(true),
            OnMatch::Skip => {
                if !are_as_many(&self.writer, policy.keep, search, &verdict.matches)? {
                    return Ok(true);
                }
            }
            OnMatch::Replace => {
                let gone = giving_way(&self.writer, document, search, policy.keep)?;
                if let Some(gone) = gone {
                    for found in gone {
                        if !planted("a replaced document stays") {
                            self.writer.remove(&found)?;
                        }
                        verdict.deleted.push(found.1);
                    }
                    return Ok(true);
                }
            }
        }
        if policy.touch {
            let nearest = search.documents(self.writer.reader()).next()?;
            if let Some((_, nearest)) = nearest {
                // A document that was counted before is counted in the nearest one.
                let repeats = match policy.counted_before {
                    true => 0,
                    false => document.repeats().saturating_add(1),
                };
                self.touch_found(&nearest, document.seen(), repeats)?;
            }
        }
        Ok(false)
    }

    /// If the stored document of the same key has an ignored number, stores it again under a new number.
    ///
    /// Numbers are ignored while a source is read again: what the first reading has stored is to match only when its
    /// record comes again. Now that it has come, and its document stays, the new number lets it match. But of two
    /// records with the same key, the one that comes later has stored the document. Until that one comes, the number
    /// stays ignored.
    fn renew_ignored(&mut self, policy: &Policy, own: Option<&Numbered>) -> Result<()> {
        let ignored = &policy.filter.ignored;
        if let Some(own @ (number, document)) = own
            && number.is_among(&ignored.numbers)
            && !number.is_of_later_record(ignored, self.stored())
        {
            self.writer.put(document, Some(own))?;
        }
        Ok(())
    }

    /// The search for the near-duplicates of a document, and the matches to list. `None` if nothing is near.
    fn near_duplicates<'a>(
        &mut self,
        document: &'a Document,
        policy: &'a Policy,
        committed: Option<Box<CommittedNear<'a>>>,
        own: Option<&Numbered>,
    ) -> Result<Option<(Search<'a>, Matches)>> {
        let Some(fingerprint) = document.fingerprint() else {
            return Ok(None);
        };
        let settings = self.writer.reader().settings();
        let bounds = policy.filter.checked(settings)?;
        let sketch_filter = policy
            .filter
            .sketch_filter(&bounds, settings, document.sketch())?;
        let query = NearQuery {
            fingerprint,
            max_distance: bounds.max_distance,
        };
        self.near_written.find(&mut self.writer, query, |near| {
            let committed = committed.as_ref();
            committed.is_none_or(|committed| committed.search.may_need(near))
        })?;
        let known = self.writer.written_sketches();
        let may_match = |near: NearFingerprint| {
            let filter = sketch_filter.as_ref();
            filter.is_none_or(|filter| filter.may_match(known, near.fingerprint))
        };
        let mut written = self.near_written.take_nearest(may_match);
        if planted("a batch does not find its own documents") {
            written.clear();
        }
        let reader = self.writer.reader();
        let new_search = || Search::of_document(reader, document, fingerprint, policy, own);
        let search = match NearNow::new(&self.writer, document.key(), committed, &written) {
            NearNow::Nothing => return Ok(None),
            NearNow::AsCommitted(near) => match near.matches {
                Some(matches) => return Ok(Some((near.search, matches))),
                None => near.search,
            },
            NearNow::Among(near) => {
                let mut search = new_search()?;
                if !search.is_over {
                    search.add_near(reader, &near)?;
                }
                while !self.near_written.is_empty() {
                    search.look_for_enough(reader)?;
                    let enough = search.enough;
                    if enough.is_some_and(|enough| !self.near_written.has_any_within(enough)) {
                        break;
                    }
                    let mut written = self.near_written.take_nearest(may_match);
                    // What is committed too was added.
                    written.retain(|written| near.binary_search(written).is_err());
                    search.add_near(reader, &written)?;
                }
                search
            }
            NearNow::NotKept => {
                let mut search = new_search()?;
                answering::find_all(reader, &mut search)?;
                search
            }
        };
        let matches = search.matches(reader, policy.filter.limit)?;
        Ok(Some((search, matches)))
    }
}

/// What is near to a document when its turn has come.
enum NearNow<'a> {
    Nothing,
    /// What is committed. The transaction has written nothing near, and removed no document of a near fingerprint.
    AsCommitted(Box<CommittedNear<'a>>),
    /// Documents of these fingerprints, of which the transaction has changed some.
    Among(Vec<NearFingerprint>),
    /// The transaction has changed some, and those that are near now were not all kept.
    NotKept,
}

impl<'a> NearNow<'a> {
    fn new(
        writer: &Transaction,
        key: &[u8],
        committed: Option<Box<CommittedNear<'a>>>,
        written: &[NearFingerprint],
    ) -> Self {
        let Some(committed) = committed else {
            return match written {
                [] => Self::Nothing,
                written => Self::Among(written.to_vec()),
            };
        };
        let removed = writer.removed_fingerprints();
        let has_removed = match &committed.fingerprints {
            _ if removed.is_empty() || planted("a batch finds what it has removed") => false,
            Some(near) => near.iter().any(|near| removed.contains(&near.fingerprint)),
            None => true,
        };
        // What counts may depend on the document of the same key.
        let has_removed = has_removed || writer.may_have_changed(key);
        if written.is_empty() && !has_removed {
            return Self::AsCommitted(committed);
        }
        let Some(mut near) = committed.fingerprints else {
            return Self::NotKept;
        };
        // In the place of a document that was removed comes one that the search did not need.
        if has_removed && !committed.search.needs_all() {
            return Self::NotKept;
        }
        near.extend(written);
        near.sort_unstable();
        near.dedup();
        Self::Among(near)
    }
}

/// How often a document was seen again that is stored: as often as the one of its key that it replaces. It stands also
/// for those that are deleted for it, if the policy counts them.
fn repeats_when_stored(
    document: &Document,
    policy: &Policy,
    own: Option<&Numbered>,
    deleted: &[Document],
) -> u64 {
    let mut repeats = document.repeats();
    if let Some((_, old)) = own {
        repeats = repeats.max(old.repeats());
    }
    // If it was counted before and is still stored, its count has those of the documents that it outranks.
    if !policy.touch || policy.counted_before && own.is_some() {
        return repeats;
    }
    for deleted in deleted {
        repeats = match policy.counted_before {
            true => repeats.max(deleted.repeats()),
            false => repeats.saturating_add(deleted.repeats() + 1),
        };
    }
    repeats
}

/// Whether at least `keep` documents match.
fn are_as_many(
    writer: &Transaction,
    keep: usize,
    search: &Search<'_>,
    matches: &Matches,
) -> Result<bool> {
    if matches.total() >= keep as u64 || matches.total_is_exact() {
        return Ok(matches.total() >= keep as u64);
    }
    // With a time, a least similarity or a function that verifies, not all matches are counted.
    let mut documents = search.documents(writer.reader());
    let mut found = 0;
    while found < keep && documents.next()?.is_some() {
        found += 1;
    }
    Ok(found == keep)
}

/// The matches that are deleted for a document, so that `keep` are left with it. `None` if it does not outrank as many.
///
/// The ones of the least rank go, of equal ones the last first.
fn giving_way(
    writer: &Transaction,
    document: &Document,
    search: &Search<'_>,
    keep: usize,
) -> Result<Option<Vec<Numbered>>> {
    let mut outranked = Vec::new();
    let mut others = 0;
    let mut documents = search.documents(writer.reader());
    while let Some((_, found)) = documents.next()? {
        if document.outranks(&found.1) {
            outranked.push((outranked.len(), found));
            continue;
        }
        others += 1;
        // These alone are as many as are kept.
        if others >= keep {
            return Ok(None);
        }
    }
    let surplus = (outranked.len() + others + 1).saturating_sub(keep);
    outranked.sort_by(|(a, (_, one)), (b, (_, other))| one.rank().cmp(other.rank()).then(b.cmp(a)));
    outranked.truncate(surplus);
    outranked.sort_by_key(|(place, _)| *place);
    Ok(Some(
        outranked.into_iter().map(|(_, found)| found).collect(),
    ))
}

/// What the last commit has that concerns a document to insert.
#[derive(Default)]
struct Committed<'a> {
    /// The document of the same key.
    own: Option<Numbered>,
    /// What is near. `None` if no fingerprint is.
    near: Option<Box<CommittedNear<'a>>>,
}

/// What is committed near to a document.
struct CommittedNear<'a> {
    /// All near fingerprints that the search needs, in any order, perhaps without those none of whose documents is
    /// similar enough. `None` if they are too many to be kept.
    fingerprints: Option<Vec<NearFingerprint>>,
    search: Search<'a>,
    /// The matches. `None` if they are to be found later, because they take much memory or cannot be verified.
    matches: Option<Matches>,
}

/// Finds what is committed for each document.
fn find_committed<'a>(
    reader: Reader<'_>,
    to_insert: &[ToInsert<'a>],
) -> Result<Vec<Committed<'a>>> {
    let own = reader.find_each(to_insert.iter().map(|(document, _)| document.key()))?;
    let mut all: Vec<Committed<'a>> = Vec::with_capacity(to_insert.len());
    for own in own {
        all.push(Committed { own, near: None });
    }
    let (searches, notes) = gather_searches(reader, to_insert, &all)?;
    let mut bytes = 0;
    for (search, note) in searches.into_iter().zip(notes) {
        let (_, policy) = to_insert[note.document];
        let matches = match bytes < MOST_BYTES {
            true => list_matches(reader, &search, policy, &mut bytes)?,
            false => None,
        };
        all[note.document].near = Some(Box::new(CommittedNear {
            fingerprints: note.fingerprints,
            search,
            matches,
        }));
    }
    Ok(all)
}

/// What to ask for each document that has a fingerprint, and the index of the document of each query.
fn near_queries(reader: Reader<'_>, to_insert: &[ToInsert<'_>]) -> (Vec<NearQuery>, Vec<usize>) {
    let mut queries = Vec::with_capacity(to_insert.len());
    let mut document_of = Vec::with_capacity(to_insert.len());
    for (index, (document, policy)) in to_insert.iter().enumerate() {
        // What is out of bounds is an error in the turn of its document.
        if let Some(fingerprint) = document.fingerprint()
            && let Ok(bounds) = policy.filter.bounds(document, reader.settings())
        {
            document_of.push(index);
            queries.push(NearQuery {
                fingerprint,
                max_distance: bounds.max_distance,
            });
        }
    }
    (queries, document_of)
}

/// Makes a search for each document that has a near fingerprint, and gives it what is near.
fn gather_searches<'a>(
    reader: Reader<'_>,
    to_insert: &[ToInsert<'a>],
    all: &[Committed<'_>],
) -> Result<(Vec<Search<'a>>, Vec<SearchNote>)> {
    let (queries, document_of) = near_queries(reader, to_insert);
    let mut searches = Vec::new();
    let mut notes: Vec<SearchNote> = Vec::new();
    let mut search_of = Vec::new();
    let most_kept = MOST_KEPT.min(MOST_KEPT_TOGETHER / to_insert.len().max(1));
    let new_search = |query: usize| {
        let index = document_of[query];
        let (document, policy) = to_insert[index];
        let fingerprint = queries[query].fingerprint;
        Search::of_document(
            reader,
            document,
            fingerprint,
            policy,
            all[index].own.as_ref(),
        )
    };
    let mut sketches = KnownSketches::default();
    let mut parts = NearSearch::new(reader, &queries).leaving_crowds();
    while let Some(part) = parts.next_part()? {
        search_of.resize(queries.len(), None);
        let mut near_of_searches = Vec::with_capacity(part.len());
        for (query, near) in part {
            let search = match search_of[query] {
                Some(search) => search,
                None => {
                    searches.push(new_search(query)?);
                    notes.push(SearchNote::new(document_of[query]));
                    *search_of[query].insert(notes.len() - 1)
                }
            };
            near_of_searches.push((search, near));
        }
        leave_out_unlike(reader, &searches, &mut near_of_searches, &mut sketches)?;
        add_all(reader, &mut searches, &near_of_searches)?;
        for (search, near) in near_of_searches {
            if searches[search].may_need(near) {
                notes[search].keep(near, most_kept);
            }
        }
    }
    let first = searches.len();
    for query in parts.crowded() {
        searches.push(new_search(query)?);
        notes.push(SearchNote::new(document_of[query]));
    }
    let crowded = (first..searches.len()).collect();
    answering::find_in_crowds(
        reader,
        &mut searches,
        crowded,
        &mut sketches,
        &mut |search, near| notes[search].keep(near, most_kept),
    )?;
    Ok((searches, notes))
}

/// The matches of a search. Adds the memory that they take to `bytes`. `None` if they cannot be verified.
fn list_matches(
    reader: Reader<'_>,
    search: &Search<'_>,
    policy: &Policy,
    bytes: &mut usize,
) -> Result<Option<Matches>> {
    let matches = match search.matches(reader, policy.filter.limit) {
        Ok(matches) => matches,
        // It is an error in the turn of its document.
        Err(Error::Verify(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    for found in &matches {
        *bytes += found.document.memory_bytes();
    }
    Ok(Some(matches))
}

/// What is noted of the search of a document.
struct SearchNote {
    /// The index of the document.
    document: usize,
    /// The near fingerprints, while they are few.
    fingerprints: Option<Vec<NearFingerprint>>,
}

impl SearchNote {
    fn new(document: usize) -> Self {
        Self {
            document,
            fingerprints: Some(Vec::new()),
        }
    }

    /// Keeps a near fingerprint, unless they are more than `most`.
    fn keep(&mut self, near: NearFingerprint, most: usize) {
        if let Some(fingerprints) = &mut self.fingerprints {
            fingerprints.push(near);
            if fingerprints.len() > most {
                self.fingerprints = None;
            }
        }
    }
}
