//! Near fingerprints -> documents: those that match a query, their number, and the nearest.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use super::filter::{Order, SketchFilter};
use super::listed::Listed;
use super::near_search::{KnownProbeSet, MOST_NEAR, NearQuery, NearSearch, near_candidates};
use super::newest::{Group, NewestFirst, NewestWanted};
use super::query::{Match, Matches, Query};
use super::sought::Sought;
use super::verification::Verifier;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::NearFingerprint;
use crate::source::Numbers;
use crate::store::{DocumentNumber, Numbered, Posted, Reader, ScopeNumber};

/// If one match is enough, the number of ranges that are read before the answer is looked at. With
/// fewer, the reads wait for memory just as long.
const PROBES_TOGETHER: usize = 16;

/// With a least similarity or a function that verifies, the number of matches that are counted, even if fewer are
/// listed.
const MOST_COUNTED: usize = 128;

/// The number of near fingerprints whose documents are looked up together.
const NEAR_TOGETHER: usize = 1024;

/// Answers one query.
pub(super) fn answer(reader: Reader<'_>, query: &Query) -> Result<Matches> {
    Search::found(reader, Sought::of(query), query.filter.limit, None)?.matches(reader)
}

/// Whether any document matches.
pub(super) fn answer_any(reader: Reader<'_>, query: &Query) -> Result<bool> {
    let filter = &query.filter;
    let mut search = Search::new(reader, Sought::of(query), 1, None)?;
    let near_query = search.near_query;
    let mut probes = Vec::new();
    if search.is_over {
        return Ok(false);
    }
    if !near_query.add_probes(reader, &mut KnownProbeSet::default(), 0, &mut probes)? {
        return search.any(reader);
    }
    let each_near_matches = filter.near.scopes.is_none()
        && !search.reads_documents()
        && reader.all_rows_have_documents();
    for probes in probes.chunks(PROBES_TOGETHER) {
        let Some(near) = near_candidates(reader, &[near_query], probes, MOST_NEAR)? else {
            return search.any(reader);
        };
        if each_near_matches && !near.is_empty() {
            return Ok(true);
        }
        add_all(reader, slice::from_mut(&mut search), &near)?;
        if search.has_match(reader)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Answers queries together.
pub(super) fn answer_all(reader: Reader<'_>, queries: &[Query]) -> Result<Vec<Matches>> {
    let new_search = |query| Search::of(reader, query);
    let mut searches = queries.iter().map(new_search).collect::<Result<Vec<_>>>()?;
    let near_queries: Vec<NearQuery> = searches.iter().map(|search| search.near_query).collect();
    let mut parts = NearSearch::new(reader, &near_queries);
    while let Some(near) = parts.next_part()? {
        add_all(reader, &mut searches, &near)?;
    }
    searches
        .into_iter()
        .map(|search| search.matches(reader))
        .collect()
}

/// Gives each near fingerprint to the search that it belongs to. `near` has the indexes of the searches.
pub(super) fn add_all(
    reader: Reader<'_>,
    searches: &mut [Search<'_>],
    near: &[(usize, NearFingerprint)],
) -> Result<()> {
    for near in near.chunks(NEAR_TOGETHER) {
        let (mut wanted, mut of) = (Vec::with_capacity(near.len()), Vec::new());
        let (mut recent, mut of_recent) = (Vec::new(), Vec::new());
        for &(query_index, near) in near {
            let Search {
                scopes,
                from,
                since,
                ..
            } = &searches[query_index];
            if since.is_some() {
                recent.push(((near.fingerprint, scopes.clone()), *from));
                of_recent.push((query_index, near));
            } else {
                wanted.push((near.fingerprint, scopes.clone()));
                of.push((query_index, near));
            }
        }
        let posted = if wanted.is_empty() {
            Vec::new()
        } else {
            reader.posted(&wanted)?
        };
        let recent = if recent.is_empty() {
            Vec::new()
        } else {
            reader.posted_from(&recent)?
        };
        for (posted, of) in [(posted, of), (recent, of_recent)] {
            for posted in posted {
                let (query_index, near) = of[posted.index];
                let search = &mut searches[query_index];
                let posted = search.without_ignored(reader, near, posted)?;
                search.add(near, posted);
            }
        }
        searches
            .iter_mut()
            .try_for_each(|search| search.drop_needless(reader))?;
    }
    Ok(())
}

/// One query on its way from fingerprints to documents.
pub(super) struct Search<'a> {
    near_query: NearQuery,
    /// What the sketches of documents are compared with.
    sketch_filter: Option<SketchFilter>,
    /// What documents are verified against, after all else.
    verifier: Option<Verifier<'a>>,
    /// The most documents that may be listed.
    limit: usize,
    since: Option<i64>,
    /// In a search by time, no document with a number below this one is recent enough.
    from: DocumentNumber,
    /// Whether it is known that nothing matches.
    is_over: bool,
    /// The scopes whose lists are read. Each document that may match stands in exactly one of them.
    scopes: Arc<[ScopeNumber]>,
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
    /// The near fingerprints that a search that reads documents may keep before it reads them.
    most_unread: usize,
}

impl<'a> Search<'a> {
    /// The search for the matches of a query. It has not begun.
    fn of(reader: Reader<'_>, query: &'a Query) -> Result<Self> {
        Self::new(reader, Sought::of(query), query.filter.limit, None)
    }

    /// The search for the documents that are sought, among all.
    pub(super) fn found(
        reader: Reader<'_>,
        sought: Sought<'a>,
        limit: usize,
        ignored: Option<&Numbered>,
    ) -> Result<Self> {
        let mut search = Self::new(reader, sought, limit, ignored)?;
        if search.is_over {
            return Ok(search);
        }
        let near_query = [search.near_query];
        let mut parts = NearSearch::new(reader, &near_query);
        while let Some(near) = parts.next_part()? {
            add_all(reader, slice::from_mut(&mut search), &near)?;
        }
        Ok(search)
    }

    /// The search for the documents that are sought, among near fingerprints that are known.
    pub(super) fn among(
        reader: Reader<'_>,
        near: &[NearFingerprint],
        sought: Sought<'a>,
        limit: usize,
        ignored: Option<&Numbered>,
    ) -> Result<Self> {
        let mut search = Self::new(reader, sought, limit, ignored)?;
        if search.is_over {
            return Ok(search);
        }
        let near: Vec<_> = near.iter().map(|&near| (0, near)).collect();
        add_all(reader, slice::from_mut(&mut search), &near)?;
        Ok(search)
    }

    /// A search that has not begun. It lists up to `limit` documents, whatever the filter says. The document
    /// `ignored` does not count.
    pub(super) fn new(
        reader: Reader<'_>,
        Sought {
            fingerprint,
            sketch,
            filter,
            verifier,
        }: Sought<'a>,
        limit: usize,
        ignored: Option<&Numbered>,
    ) -> Result<Self> {
        let settings = reader.settings();
        let bounds = filter.near.checked(settings)?;
        let sketch_filter = filter.sketch_filter(&bounds, settings, sketch)?;
        let near_query = NearQuery {
            fingerprint,
            max_distance: bounds.max_distance,
        };
        let scopes = match &filter.near.scopes {
            None => ScopeNumber::ALL_DOCUMENTS.into(),
            Some(names) => names.numbers(reader)?,
        };
        let ignored_numbers = &filter.ignored.numbers;
        let ignored = match ignored.filter(|(number, _)| !number.is_among(ignored_numbers)) {
            Some((number, document)) => {
                let scope = reader.scope_number_of(document)?;
                document
                    .fingerprint()
                    .map(|fingerprint| (*number, fingerprint, scope))
            }
            None => None,
        };
        let from = match bounds.since {
            Some(since) => reader.first_since(since)?,
            None => Some(DocumentNumber::MIN),
        };
        Ok(Self {
            near_query,
            sketch_filter,
            verifier,
            limit,
            since: bounds.since,
            from: from.unwrap_or(DocumentNumber::MAX),
            is_over: from.is_none(),
            scopes,
            ignored,
            ignored_numbers,
            near: BTreeMap::new(),
            kept: 0,
            total: 0,
            most_unread: NEAR_TOGETHER,
        })
    }

    /// Whether only reading a document tells whether it matches, or where it belongs in the list.
    fn reads_documents(&self) -> bool {
        self.since.is_some() || self.excludes() || self.orders_by_similarity()
    }

    /// Whether only reading a document tells whether it is similar enough and can be verified.
    fn excludes(&self) -> bool {
        self.verifier.is_some() || self.sketch_filter.is_some_and(|it| it.excludes())
    }

    fn orders_by_similarity(&self) -> bool {
        self.limit > 0
            && self
                .sketch_filter
                .is_some_and(|it| it.order == Order::Similarity)
    }

    /// Leaves out the documents that do not match by their number.
    fn without_ignored(
        &self,
        reader: Reader<'_>,
        near: NearFingerprint,
        posted: Posted,
    ) -> Result<Posted> {
        // A search by time finds them when it goes through the documents.
        if self.ignored_numbers.is_empty() || self.since.is_some() && posted.numbers.is_none() {
            return Ok(posted);
        }
        reader.leave_out(near.fingerprint, posted, self.ignored_numbers)
    }

    /// Adds the documents of a near fingerprint in one scope, if any are left that count.
    fn add(&mut self, near: NearFingerprint, posted: Posted) {
        let scope = posted.scope;
        // In a search by time, documents that are too old may have been left out already.
        let is_counted = |number| number >= self.from;
        let ignored = self.ignored.is_some_and(|(number, fingerprint, of)| {
            is_counted(number) && fingerprint == near.fingerprint && scope.covers(of)
        });
        let documents = posted.total.saturating_sub(u64::from(ignored));
        if documents == 0 {
            return;
        }
        self.total += documents;
        if self.limit == 0 && !self.reads_documents() {
            return;
        }
        self.kept += documents;
        let group = self.near.entry(near).or_default();
        group.scopes.push((scope, posted.numbers));
        group.documents += documents;
        // Fingerprints beyond the limit are dropped. So memory grows with the limit and not with the
        // matches. A search that reads documents keeps all for a while.
        while !self.reads_documents()
            && let Some(farthest) = self.near.last_entry()
            && self.kept - farthest.get().documents >= self.limit as u64
        {
            self.kept -= farthest.remove().documents;
        }
    }

    /// If a search that reads documents keeps many fingerprints, drops those whose documents do not match, and
    /// those beyond the ones that are counted.
    fn drop_needless(&mut self, reader: Reader<'_>) -> Result<()> {
        if !self.reads_documents() || self.near.len() <= self.most_unread {
            return Ok(());
        }
        // One more than are counted tells that there are more.
        let (mut wanted, mut needed) = (
            self.most_counted(self.limit).saturating_add(1),
            BTreeSet::new(),
        );
        let walked = self.walk(reader, |near, _, _| {
            needed.insert(near);
            wanted -= 1;
            if wanted == 0 {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        if let Err(Error::Verify(_)) = walked {
            // It is told when this search is answered. Others that are made together are not concerned.
            self.most_unread = usize::MAX;
            return Ok(());
        }
        walked?;
        self.near.retain(|near, _| needed.contains(near));
        self.kept = self.near.values().map(|group| group.documents).sum();
        self.most_unread = NEAR_TOGETHER.max(2 * self.near.len());
        Ok(())
    }

    /// Whether any document matches. The search must not have begun.
    fn any(mut self, reader: Reader<'_>) -> Result<bool> {
        let near_query = [self.near_query];
        let mut parts = NearSearch::new(reader, &near_query);
        while let Some(near) = parts.next_part()? {
            add_all(reader, slice::from_mut(&mut self), &near)?;
            if self.has_match(reader)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether any document matches among those that were added since the last call.
    fn has_match(&mut self, reader: Reader<'_>) -> Result<bool> {
        if !self.reads_documents() {
            return Ok(self.total > 0);
        }
        let mut found = false;
        self.walk(reader, |_, _, _| {
            found = true;
            ControlFlow::Break(())
        })?;
        self.near.clear();
        self.kept = 0;
        Ok(found)
    }

    /// The answer, with its documents.
    pub(super) fn matches(&self, reader: Reader<'_>) -> Result<Matches> {
        self.first_matches(reader, self.limit)
    }

    /// The answer, with at most `limit` of its documents. The limit of the search must be the same or
    /// larger.
    pub(super) fn first_matches(&self, reader: Reader<'_>, limit: usize) -> Result<Matches> {
        let mut listed = Listed {
            list: Vec::new(),
            limit,
            by_similarity: self.orders_by_similarity(),
        };
        let (mut counted, most_counted) = (0, self.most_counted(limit));
        // If documents need not be read to be counted, the total is known.
        let is_known = !self.reads_documents();
        if limit > 0 || !is_known {
            self.walk(reader, |near, _, document| {
                counted += 1;
                if counted > most_counted {
                    return ControlFlow::Break(());
                }
                let similarity = self
                    .sketch_filter
                    .and_then(|it| it.similarity(document.sketch()));
                listed.add(Match {
                    document,
                    distance: near.distance,
                    similarity,
                });
                if is_known && counted == limit {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            })?;
        }
        let list = listed.finish();
        if is_known && (list.len() as u64) < self.total.min(limit as u64) {
            return Err(Error::Damaged {
                table: "postings",
                key: self.near_query.fingerprint.to_string(),
                problem: "near this fingerprint there are fewer documents than are counted",
            });
        }
        let total = if is_known { self.total } else { counted as u64 };
        Ok(Matches {
            list,
            total,
            more: !is_known && counted > most_counted,
        })
    }

    /// The most matches that are counted, if documents have to be read for that. So a hot page does not take the
    /// longer the more copies it has.
    fn most_counted(&self, limit: usize) -> usize {
        if self.orders_by_similarity() {
            usize::MAX
        } else if self.excludes() {
            limit.max(MOST_COUNTED)
        } else {
            limit
        }
    }

    /// Calls `each` with the matching documents in order, until it breaks.
    pub(super) fn walk(
        &self,
        reader: Reader<'_>,
        mut each: impl FnMut(NearFingerprint, DocumentNumber, Document) -> ControlFlow<()>,
    ) -> Result<()> {
        for (near, group) in &self.near {
            let limit = self.most_counted(self.limit);
            let wanted = NewestWanted {
                limit,
                since: self.since,
                from: self.from,
                ignored: self.ignored_numbers,
            };
            let mut newest = NewestFirst::new(reader, near.fingerprint, group, wanted)?;
            while let Some(number) = newest.next()? {
                if self.ignored.is_some_and(|(ignored, ..)| ignored == number) {
                    continue;
                }
                let is_wanted =
                    |sketch: Option<&_>| self.sketch_filter.is_none_or(|it| it.matches(sketch));
                let since = self.since.unwrap_or(i64::MIN);
                let Some(document) = reader.linked_if(number, since, is_wanted)? else {
                    continue;
                };
                if let Some(verifier) = self.verifier
                    && !verifier.matches(&document)?
                {
                    continue;
                }
                if each(*near, number, document).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}
