//! From near fingerprints to documents: which match, how many do, and the first of them.
//!
//! A search gathers near fingerprints with the numbers of their documents. If the postings tell how many documents
//! match, only those that are listed are read. With a time, a least similarity or a function that verifies, documents
//! are read in order, until as many match as are counted. If the most similar come first, all are read.

use std::collections::btree_map::{self, BTreeMap};
use std::collections::{BTreeSet, BinaryHeap};
use std::slice;

use smallvec::SmallVec;

use super::near::{Filter, Order, SketchFilter, Verify};
use super::near_search::NearQuery;
use super::policy::Policy;
use super::query::{Match, Matches, Query};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::NearFingerprint;
use crate::sketch::Sketch;
use crate::source::Numbers;
use crate::store::{
    DocumentNumber, Numbered, Posted, PostedNumbers, ReadScopes, Reader, ScopeNumber,
};

/// The least number of near fingerprints that a search holds before it reads documents to see which it needs.
const FEWEST_UNREAD: usize = 4;

/// With a least similarity or a function that verifies, the number of matches that are counted, even if fewer are
/// listed.
const MOST_COUNTED: usize = 128;

/// The number of near fingerprints whose documents are looked up together.
pub(super) const NEAR_TOGETHER: usize = 1024;

/// The number of near fingerprints that searches made together hold before they read documents.
pub(super) const MOST_HELD: usize = 1 << 20;

/// The documents that do not match a new document, while its source is read again: those that its record did not meet
/// the first time. `own` is the document that is stored under the same key.
///
/// A record that was counted, and that has stored nothing, was counted in a document that it met. To count is to store
/// under a new number. So that document may have a number of this source, whatever source it came from.
fn ignored_numbers<'a>(policy: &'a Policy, own: Option<&Numbered>) -> &'a Numbers {
    static NONE: Numbers = Numbers::none();
    let ignored = &policy.filter.ignored.numbers;
    match policy.counted_before && !own.is_some_and(|(number, _)| number.is_since(ignored)) {
        true => &NONE,
        false => ignored,
    }
}

/// Gives each near fingerprint to the search that it belongs to. `near` has the indexes of the searches.
pub(super) fn add_all(
    reader: Reader<'_>,
    searches: &mut [Search<'_>],
    near: &[(usize, NearFingerprint)],
) -> Result<()> {
    let most_held = MOST_HELD / searches.len().max(1);
    let mut rest = near;
    while !rest.is_empty() {
        let mut wanted: SmallVec<[_; FEW_NEAR]> = SmallVec::new();
        let mut wanted_of: SmallVec<[_; FEW_NEAR]> = SmallVec::new();
        let mut recent = Vec::new();
        let mut recent_of = Vec::new();
        let mut of_search = 0;
        let mut searched = None;
        let mut seen = 0;
        for &(index, near) in rest {
            let search = &searches[index];
            if searched != Some(index) {
                searched = Some(index);
                of_search = 0;
            }
            let is_full = wanted_of.len() + recent_of.len() == NEAR_TOGETHER;
            if is_full || of_search > search.most_unread(most_held) {
                break;
            }
            seen += 1;
            if !search.may_need(near) {
                continue;
            }
            of_search += 1;
            let postings = (near.fingerprint, search.scopes.clone());
            if search.since.is_some() {
                recent.push((postings, search.from));
                recent_of.push((index, near));
            } else {
                wanted.push(postings);
                wanted_of.push((index, near));
            }
        }
        if !wanted.is_empty() {
            add_posted(reader, searches, &wanted_of, reader.posted(&wanted)?)?;
        }
        if !recent.is_empty() {
            add_posted(reader, searches, &recent_of, reader.posted_from(&recent)?)?;
        }
        for near in rest[..seen].chunk_by(|a, b| a.0 == b.0) {
            searches[near[0].0].drop_needless(reader, most_held)?;
        }
        rest = &rest[seen..];
    }
    Ok(())
}

/// The postings of so many near fingerprints are asked for without allocating. Most queries have no more.
const FEW_NEAR: usize = 4;

/// Gives documents to the searches. `of` has the search and the near fingerprint of each index.
fn add_posted(
    reader: Reader<'_>,
    searches: &mut [Search<'_>],
    of: &[(usize, NearFingerprint)],
    all_posted: Vec<Posted>,
) -> Result<()> {
    for mut posted in all_posted {
        let (index, near) = of[posted.index];
        let search = &mut searches[index];
        // A search by time finds those when it goes through the documents.
        let is_left_for_later = search.since.is_some() && posted.numbers.is_none();
        if !search.ignored_numbers.is_empty() && !is_left_for_later {
            posted = reader.leave_out(near.fingerprint, posted, search.ignored_numbers)?;
        }
        search.add(near, posted);
    }
    Ok(())
}

/// How the documents that match are counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counting {
    /// By the postings. Only documents that are listed are read.
    ByPostings,
    /// By reading documents in order, until as many match as the limit, or as this number if it is larger.
    InOrder { at_least: usize },
    /// By reading all, since the most similar ones are listed.
    All,
}

/// One query on its way from fingerprints to documents.
pub(super) struct Search<'a> {
    /// The fingerprint and the bounds that are searched for.
    pub(super) near_query: NearQuery,
    counting: Counting,
    sketch_filter: Option<SketchFilter>,
    /// The function that documents are verified by, after all else, and the new document if there is one.
    verify: Option<&'a Verify>,
    document: Option<&'a Document>,
    order: Order,
    /// The most documents that may be listed.
    pub(super) limit: usize,
    /// Whether nothing counts beyond the documents that are listed.
    is_nearest: bool,
    since: Option<i64>,
    /// In a search by time, no document with a number below this one is recent enough.
    from: DocumentNumber,
    /// Whether it is known that nothing matches.
    pub(super) is_over: bool,
    /// The scopes whose lists are read. Each document that may match stands in exactly one of them.
    scopes: ReadScopes,
    /// A document that does not count, with its fingerprint and scope.
    ignored: Option<(DocumentNumber, Fingerprint, ScopeNumber)>,
    /// The documents of these numbers do not match.
    ignored_numbers: &'a Numbers,
    /// The near fingerprints that can still matter, with their documents.
    near: BTreeMap<NearFingerprint, Group>,
    /// The number of documents of `near`.
    kept: u64,
    /// The number of documents that match, without regard to time, similarity and verification.
    total: u64,
    /// The near fingerprints that a search that reads documents may keep, since so many were left when it read them.
    kept_unread: usize,
    /// If as many documents match as are counted, the fingerprint of the last of these. Nothing beyond it matters.
    pub(super) enough: Option<NearFingerprint>,
}

impl<'a> Search<'a> {
    /// A search for what matches a query. It has not begun. It lists up to `limit` documents, whatever the query says.
    pub(super) fn of_query(reader: Reader<'_>, query: &'a Query, limit: usize) -> Result<Self> {
        let fingerprint = query.fingerprint();
        Self::new(reader, fingerprint, query.sketch(), &query.filter, limit)
    }

    /// A search for the near-duplicates of a new document of this fingerprint. It has not begun. `own`, which is stored
    /// under the same key, does not count.
    pub(super) fn of_document(
        reader: Reader<'_>,
        document: &'a Document,
        fingerprint: Fingerprint,
        policy: &'a Policy,
        own: Option<&Numbered>,
    ) -> Result<Self> {
        let sketch = document.sketch();
        let limit = policy.most_listed();
        let mut search = Self::new(reader, fingerprint, sketch, &policy.filter, limit)?;
        search.document = Some(document);
        search.ignored_numbers = ignored_numbers(policy, own);
        if let Some((number, own)) = own
            && !number.is_among(search.ignored_numbers)
            && let Some(fingerprint) = own.fingerprint()
        {
            let scope = reader.scope_number_of(own.scope())?;
            search.ignored = Some((*number, fingerprint, scope));
        }
        Ok(search)
    }

    fn new(
        reader: Reader<'_>,
        fingerprint: Fingerprint,
        sketch: Option<&Sketch>,
        filter: &'a Filter,
        limit: usize,
    ) -> Result<Self> {
        let settings = reader.settings();
        let bounds = filter.checked(settings)?;
        let sketch_filter = filter.sketch_filter(&bounds, settings, sketch)?;
        let by_similarity = filter.order == Order::Similarity && sketch_filter.is_some();
        let excludes = sketch_filter.as_ref().is_some_and(SketchFilter::excludes);
        let counting = if by_similarity && limit > 0 && !filter.is_nearest {
            Counting::All
        } else if excludes || filter.verify.is_some() {
            let at_least = if filter.is_nearest { 0 } else { MOST_COUNTED };
            Counting::InOrder { at_least }
        } else if bounds.since.is_some() {
            Counting::InOrder { at_least: 0 }
        } else {
            Counting::ByPostings
        };
        let scopes = match &filter.near.scopes {
            None => ReadScopes::AllDocuments,
            Some(names) => names.numbers(reader)?,
        };
        let from = match bounds.since {
            Some(since) => reader.first_since(since)?,
            None => Some(DocumentNumber::MIN),
        };
        Ok(Self {
            near_query: NearQuery {
                fingerprint,
                max_distance: bounds.max_distance,
            },
            counting,
            sketch_filter,
            verify: filter.verify.as_ref(),
            document: None,
            order: filter.order,
            limit,
            is_nearest: filter.is_nearest,
            since: bounds.since,
            from: from.unwrap_or(DocumentNumber::MAX),
            is_over: from.is_none(),
            scopes,
            ignored: None,
            ignored_numbers: &filter.ignored.numbers,
            near: BTreeMap::new(),
            kept: 0,
            total: 0,
            kept_unread: 0,
            enough: None,
        })
    }

    /// Whether the documents of a near fingerprint may matter, beside those that were added.
    pub(super) fn may_need(&self, near: NearFingerprint) -> bool {
        self.enough.is_none_or(|enough| near <= enough)
    }

    /// Whether the documents of every near fingerprint may matter.
    pub(super) fn needs_all(&self) -> bool {
        self.enough.is_none()
    }

    /// The filter by the sketches of documents, if they matter.
    pub(super) fn sketch_filter(&self) -> Option<&SketchFilter> {
        self.sketch_filter.as_ref()
    }

    /// Adds near fingerprints, with their documents.
    pub(super) fn add_near(&mut self, reader: Reader<'_>, near: &[NearFingerprint]) -> Result<()> {
        let of_search: Vec<(usize, NearFingerprint)> = near.iter().map(|&near| (0, near)).collect();
        add_all(reader, slice::from_mut(self), &of_search)
    }

    /// Adds the documents of a near fingerprint in one scope, if any are left that count.
    fn add(&mut self, near: NearFingerprint, posted: Posted) {
        let mut documents = posted.total;
        // In a search by time, documents that are too old may have been left out already.
        if let Some((number, fingerprint, scope)) = self.ignored
            && number >= self.from
            && fingerprint == near.fingerprint
            && posted.scope.covers(scope)
        {
            documents = documents.saturating_sub(1);
        }
        if documents == 0 {
            return;
        }
        self.total += documents;
        let is_counted = self.counting == Counting::ByPostings;
        if is_counted && self.limit == 0 {
            return;
        }
        self.kept += documents;
        let group = self.near.entry(near).or_default();
        group.scopes.push((posted.scope, posted.numbers));
        group.documents += documents;
        // Fingerprints beyond the limit are dropped. So memory grows with the limit and not with the
        // matches. A search that reads documents keeps all for a while.
        while is_counted
            && let Some(farthest) = self.near.last_entry()
            && self.kept - farthest.get().documents >= self.limit as u64
        {
            self.kept -= farthest.remove().documents;
        }
    }

    /// Whether nothing matters any more once enough of the nearest match.
    pub(super) fn stops_early(&self) -> bool {
        let counts_few = self.is_nearest || matches!(self.counting, Counting::InOrder { .. });
        counts_few && self.wanted() < usize::MAX
    }

    /// The number of documents that are enough, if nothing matters beyond. One more than are counted tells that there
    /// are more.
    fn wanted(&self) -> usize {
        match self.is_nearest {
            true => self.limit,
            false => self.most_counted(self.limit).saturating_add(1),
        }
    }

    /// The near fingerprints that are looked up, and held, before it is seen which of them matter.
    fn most_unread(&self, most_held: usize) -> usize {
        let wanted = match self.stops_early() {
            true => self.wanted(),
            false => NEAR_TOGETHER,
        };
        wanted.min(most_held).clamp(FEWEST_UNREAD, NEAR_TOGETHER)
    }

    /// Drops those whose documents do not match, and those beyond the ones that are counted, if many fingerprints are
    /// held. All searches that are made together may hold `most_held` each.
    fn drop_needless(&mut self, reader: Reader<'_>, most_held: usize) -> Result<()> {
        let most_unread = self.most_unread(most_held).max(self.kept_unread);
        match self.near.len() <= most_unread && self.counting != Counting::ByPostings {
            true => Ok(()),
            false => self.drop_all_needless(reader),
        }
    }

    /// Sees whether enough match among those that were added. Searches that need all are left as they are.
    pub(super) fn look_for_enough(&mut self, reader: Reader<'_>) -> Result<()> {
        match self.stops_early() {
            true => self.drop_all_needless(reader),
            false => Ok(()),
        }
    }

    /// Does what [`drop_needless`](Self::drop_needless) does, however few fingerprints are held.
    fn drop_all_needless(&mut self, reader: Reader<'_>) -> Result<()> {
        if self.kept_unread == usize::MAX {
            return Ok(());
        }
        if self.counting == Counting::ByPostings {
            // Adding has dropped what is not listed. It counts all the same, except in a search for the nearest.
            if self.is_nearest && self.kept >= self.limit as u64 {
                self.enough = self.near.last_key_value().map(|(near, _)| *near);
            }
            return Ok(());
        }
        match self.keep_first(reader, self.wanted()) {
            // It is told when this search is answered. Others that are made together are not concerned.
            Err(Error::Verify(_)) if !self.is_nearest => self.kept_unread = usize::MAX,
            kept => {
                self.enough = kept?;
                self.kept_unread = 2 * self.near.len();
            }
        }
        Ok(())
    }

    /// Reads documents in order until so many match, and drops the fingerprints of which none was among these. Returns
    /// the fingerprint of the last one, if as many match.
    fn keep_first(
        &mut self,
        reader: Reader<'_>,
        mut wanted: usize,
    ) -> Result<Option<NearFingerprint>> {
        let mut needed = BTreeSet::new();
        let mut documents = self.documents(reader);
        let mut last = None;
        while wanted > 0 {
            last = documents.next()?.map(|(near, _)| near);
            let Some(near) = last else {
                break;
            };
            needed.insert(near);
            wanted -= 1;
        }
        self.near.retain(|near, _| needed.contains(near));
        self.kept = 0;
        for group in self.near.values() {
            self.kept += group.documents;
        }
        Ok(last)
    }

    /// Whether any document matches among those that were added since the last call.
    pub(super) fn has_match(&mut self, reader: Reader<'_>) -> Result<bool> {
        if self.counting == Counting::ByPostings {
            return Ok(self.total > 0);
        }
        let is_found = self.documents(reader).next()?.is_some();
        self.let_go();
        Ok(is_found)
    }

    /// Gives each document that matches among those that were added since the last call, and lets go of them.
    #[cfg(feature = "ingest")]
    pub(super) fn hand_over(
        &mut self,
        reader: Reader<'_>,
        mut each: impl FnMut(DocumentNumber, Match) -> Result<()>,
    ) -> Result<()> {
        let mut read = 0;
        let mut documents = self.documents(reader);
        while let Some((near, (number, document))) = documents.next()? {
            read += 1;
            each(number, self.new_match(near, document))?;
        }
        if self.counting == Counting::ByPostings && read < self.kept {
            return Err(self.fewer_than_counted());
        }
        self.let_go();
        Ok(())
    }

    /// Lets go of the near fingerprints, whose documents were looked at.
    fn let_go(&mut self) {
        self.near.clear();
        self.kept = 0;
    }

    /// Whether the postings tell how many documents match.
    pub(super) fn counts_by_postings(&self) -> bool {
        self.counting == Counting::ByPostings
    }

    /// Whether any document may be listed.
    pub(super) fn may_list_any(&self) -> bool {
        self.limit > 0 && !self.is_over && !self.scopes.is_empty()
    }

    /// The answer, if the documents that were added are all that may be listed: these and no others match.
    pub(super) fn nearest_matches(&self, reader: Reader<'_>) -> Result<Matches> {
        let mut matches = match self.counting {
            Counting::ByPostings => self.matches_by_postings(reader, self.limit)?,
            _ => self.matches_in_order(reader, self.limit)?,
        };
        if self.order == Order::Similarity {
            keep_most_similar(&mut matches.list, self.limit);
        }
        matches.total = matches.list.len() as u64;
        matches.more = false;
        Ok(matches)
    }

    /// The answer, with at most `limit` of its documents. The limit of the search must be the same or
    /// larger.
    pub(super) fn matches(&self, reader: Reader<'_>, limit: usize) -> Result<Matches> {
        match self.counting {
            Counting::ByPostings => self.matches_by_postings(reader, limit),
            Counting::InOrder { .. } => self.matches_in_order(reader, limit),
            Counting::All => self.most_similar(reader, limit),
        }
    }

    fn matches_by_postings(&self, reader: Reader<'_>, limit: usize) -> Result<Matches> {
        let mut list = Vec::new();
        let mut documents = self.documents(reader);
        while list.len() < limit
            && let Some((near, (_, document))) = documents.next()?
        {
            list.push(self.new_match(near, document));
        }
        if (list.len() as u64) < self.total.min(limit as u64) {
            return Err(self.fewer_than_counted());
        }
        Ok(Matches {
            list,
            total: self.total,
            more: false,
        })
    }

    fn fewer_than_counted(&self) -> Error {
        let problem = "near this fingerprint there are fewer documents than are counted";
        Error::damaged("postings", &self.near_query.fingerprint, problem)
    }

    fn matches_in_order(&self, reader: Reader<'_>, limit: usize) -> Result<Matches> {
        let most = self.most_counted(limit);
        let mut matches = Matches::default();
        let mut documents = self.documents(reader);
        while !matches.more
            && let Some((near, (_, document))) = documents.next()?
        {
            matches.more = matches.total >= most as u64;
            matches.total += 1;
            if matches.list.len() < limit {
                matches.list.push(self.new_match(near, document));
            }
        }
        Ok(matches)
    }

    fn most_similar(&self, reader: Reader<'_>, limit: usize) -> Result<Matches> {
        /// So many more are held, so that memory grows with the limit and not with the matches.
        const MORE: usize = 64;
        let most_held = limit.saturating_mul(2).saturating_add(MORE);
        let mut matches = Matches::default();
        let mut documents = self.documents(reader);
        while let Some((near, (_, document))) = documents.next()? {
            matches.total += 1;
            matches.list.push(self.new_match(near, document));
            if matches.list.len() >= most_held {
                keep_most_similar(&mut matches.list, limit);
            }
        }
        keep_most_similar(&mut matches.list, limit);
        Ok(matches)
    }

    fn new_match(&self, near: NearFingerprint, document: Document) -> Match {
        let similarity = match &self.sketch_filter {
            Some(filter) => filter.similarity(document.sketch()),
            None => None,
        };
        Match {
            document,
            distance: near.distance,
            similarity,
        }
    }

    /// The most matches that are counted, if documents have to be read for that. So a hot page does not take the
    /// longer the more copies it has.
    fn most_counted(&self, limit: usize) -> usize {
        match self.counting {
            Counting::ByPostings => limit,
            Counting::InOrder { at_least } => limit.max(at_least),
            Counting::All => usize::MAX,
        }
    }

    /// The documents that match: the nearest first, of one fingerprint the newest first.
    pub(super) fn documents<'s>(&'s self, reader: Reader<'s>) -> MatchingDocuments<'s> {
        MatchingDocuments {
            search: self,
            reader,
            groups: self.near.iter(),
            newest: None,
        }
    }

    /// The last number up to `number` whose document may match by its number and its time.
    fn last_wanted(
        &self,
        reader: Reader<'_>,
        number: DocumentNumber,
    ) -> Result<Option<DocumentNumber>> {
        let outside = number.last_outside(self.ignored_numbers);
        match self.since {
            Some(since) if outside == Some(number) => reader.last_since(number, since),
            _ => Ok(outside),
        }
    }

    /// Reads a document, if it matches.
    fn read(&self, reader: Reader<'_>, number: DocumentNumber) -> Result<Option<Document>> {
        if let Some((ignored, ..)) = self.ignored
            && ignored == number
        {
            return Ok(None);
        }
        let since = self.since.unwrap_or(i64::MIN);
        let document = reader.linked_if(number, since, |sketch| match &self.sketch_filter {
            Some(filter) => filter.matches(sketch),
            None => true,
        })?;
        if let Some(document) = &document
            && let Some(verify) = self.verify
            && !verify(self.document, document).map_err(|source| Error::Verify(source.into()))?
        {
            return Ok(None);
        }
        Ok(document)
    }
}

/// Keeps the most similar matches. Equal ones stay in their order.
fn keep_most_similar(matches: &mut Vec<Match>, limit: usize) {
    matches.sort_by(|a, b| jaccard(b).total_cmp(&jaccard(a)));
    matches.truncate(limit);
}

/// The similarity. Below all others without a sketch.
fn jaccard(found: &Match) -> f64 {
    match found.similarity {
        Some(similarity) => similarity.jaccard(),
        None => -1.0,
    }
}

/// The documents that match, in order.
pub(super) struct MatchingDocuments<'s> {
    search: &'s Search<'s>,
    reader: Reader<'s>,
    groups: btree_map::Iter<'s, NearFingerprint, Group>,
    /// What is left of the group at hand.
    newest: Option<NewestFirst<'s>>,
}

impl MatchingDocuments<'_> {
    pub(super) fn next(&mut self) -> Result<Option<(NearFingerprint, Numbered)>> {
        loop {
            let Some(newest) = &mut self.newest else {
                let Some((&near, group)) = self.groups.next() else {
                    return Ok(None);
                };
                self.newest = Some(NewestFirst::new(self.reader, self.search, near, group)?);
                continue;
            };
            let Some(number) = newest.next()? else {
                self.newest = None;
                continue;
            };
            if let Some(document) = self.search.read(self.reader, number)? {
                return Ok(Some((newest.near, (number, document))));
            }
        }
    }
}

/// The documents of a near fingerprint.
#[derive(Default)]
struct Group {
    /// The documents in each scope, the newest first. `None` if there may be many.
    scopes: SmallVec<[(ScopeNumber, Option<PostedNumbers>); 1]>,
    documents: u64,
}

/// The documents of one fingerprint in some scopes, the newest first. It merges the lists of the scopes,
/// and reads them in parts. So a group of millions costs no more than the documents that are taken of
/// it. In a search by time it leaves out documents of blocks that have none that is recent enough.
struct NewestFirst<'s> {
    reader: Reader<'s>,
    search: &'s Search<'s>,
    near: NearFingerprint,
    part_length: usize,
    scopes: Vec<ScopePart>,
    /// For each scope the newest number that is not taken yet, with the index of the scope in `scopes`.
    heads: BinaryHeap<(DocumentNumber, usize)>,
}

struct ScopePart {
    scope: ScopeNumber,
    /// Numbers that are read and not taken, the oldest first.
    numbers: Vec<DocumentNumber>,
    /// All numbers from this one on have been read.
    read_down_to: DocumentNumber,
}

impl<'s> NewestFirst<'s> {
    fn new(
        reader: Reader<'s>,
        search: &'s Search<'s>,
        near: NearFingerprint,
        group: &Group,
    ) -> Result<Self> {
        let taken = search.most_counted(search.limit);
        let mut newest = Self {
            reader,
            search,
            near,
            // One more than are taken, in case one of them is to be ignored.
            part_length: taken.saturating_add(1).min(256),
            scopes: Vec::with_capacity(group.scopes.len()),
            heads: BinaryHeap::new(),
        };
        for (index, (scope, known)) in group.scopes.iter().enumerate() {
            let mut part = ScopePart {
                scope: *scope,
                numbers: Vec::new(),
                read_down_to: DocumentNumber::MAX,
            };
            if let Some(known) = known {
                part.numbers.extend(known.iter().rev());
                part.read_down_to = DocumentNumber::MIN;
            }
            newest.scopes.push(part);
            newest.advance(index)?;
        }
        Ok(newest)
    }

    fn next(&mut self) -> Result<Option<DocumentNumber>> {
        let Some((number, index)) = self.heads.pop() else {
            return Ok(None);
        };
        self.advance(index)?;
        Ok(Some(number))
    }

    /// Puts the next number of a scope among the heads.
    fn advance(&mut self, index: usize) -> Result<()> {
        loop {
            let part = &mut self.scopes[index];
            if part.numbers.is_empty() {
                let numbers = self.search.from..part.read_down_to;
                let fingerprint = self.near.fingerprint;
                part.numbers =
                    self.reader
                        .newest(fingerprint, part.scope, numbers, self.part_length)?;
                part.numbers.reverse();
                // A part that is not full is the last.
                part.read_down_to = match part.numbers.first() {
                    Some(&first) if part.numbers.len() == self.part_length => first,
                    _ => DocumentNumber::MIN,
                };
            }
            let Some(number) = part.numbers.pop() else {
                return Ok(());
            };
            let wanted = self.search.last_wanted(self.reader, number)?;
            if wanted == Some(number) {
                self.heads.push((number, index));
                return Ok(());
            }
            // Nothing between the two numbers is wanted.
            let below = wanted.map_or(DocumentNumber::MIN, |last| last.after(1));
            let kept = part.numbers.partition_point(|&number| number < below);
            part.numbers.truncate(kept);
            if part.numbers.is_empty() {
                part.read_down_to = part.read_down_to.min(below);
            }
        }
    }
}
