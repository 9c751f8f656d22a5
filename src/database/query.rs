//! Probes -> candidates -> verified matches -> documents.

use std::collections::{BTreeMap, BinaryHeap};
use std::ops::ControlFlow;
use std::slice;
use std::sync::Arc;

use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::plan::{Near, Probe, ProbeSet};
use crate::store::{DocumentNumber, Posted, Read, ScopeNumber};

/// A question: which documents are near this fingerprint?
///
/// # Example
///
/// ```
/// use simdb::{Fingerprint, Query};
///
/// let query = Query::new(Fingerprint::from_bits(42)).max_distance(3).limit(10).since(1_700_000_000).scopes(["en"]);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    fingerprint: Fingerprint,
    filter: Filter,
}

/// Which documents match, apart from the fingerprint, and how many are listed; shared by queries and policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filter {
    pub(super) max_distance: Option<u32>,
    pub(super) limit: usize,
    pub(super) since: Option<i64>,
    pub(super) scopes: Option<Vec<String>>,
}

impl Default for Filter {
    fn default() -> Self {
        Self { max_distance: None, limit: 10, since: None, scopes: None }
    }
}

impl Filter {
    /// The largest distance that matches.
    pub(super) fn distance(&self, reader: &impl Read) -> Result<u32> {
        let max_distance = self.max_distance.unwrap_or(reader.settings().max_distance);
        if max_distance > Fingerprint::BITS {
            return Err(Error::MaxDistance { given: max_distance });
        }
        Ok(max_distance)
    }
}

impl Query {
    /// The documents near `fingerprint`, with the defaults of the methods below.
    pub fn new(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, filter: Filter::default() }
    }

    /// The largest distance that matches, inclusive; 0 to 64. Default: that of the database.
    #[must_use]
    pub fn max_distance(mut self, max_distance: u32) -> Self {
        self.filter.max_distance = Some(max_distance);
        self
    }

    /// How many matches are listed, the nearest first; the total does not depend on it. `usize::MAX` lists all,
    /// and takes the memory for it. Default: 10.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Self {
        self.filter.limit = limit;
        self
    }

    /// Only documents seen at this time (Unix seconds) or later. Default: all.
    #[must_use]
    pub fn since(mut self, seen: i64) -> Self {
        self.filter.since = Some(seen);
        self
    }

    /// Only documents of one of these scopes; the empty text is the scope of documents that have none. Default:
    /// all.
    #[must_use]
    pub fn scopes(mut self, scopes: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.filter.scopes = Some(scopes.into_iter().map(Into::into).collect());
        self
    }

    /// The fingerprint asked for.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(super) fn distance_or(&self, of_the_database: u32) -> u32 {
        self.filter.max_distance.unwrap_or(of_the_database)
    }
}

/// A document near the fingerprint of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Match {
    /// The document.
    pub document: Document,
    /// In how many bits its fingerprint differs.
    pub distance: u32,
}

/// What a query found: the nearest matches, by distance, then fingerprint, then the document written last; and
/// how many there are in all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    list: Vec<Match>,
    total: u64,
    more: bool,
}

impl Matches {
    /// How many documents match, listed or not.
    ///
    /// Where the query named a time ([`Query::since`]) and more match than the limit, it is the limit plus one,
    /// and [`total_is_exact`](Self::total_is_exact) is false.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Whether exactly [`total`](Self::total) documents match, rather than at least that many.
    pub fn total_is_exact(&self) -> bool {
        !self.more
    }

    /// The nearest match, if any is listed.
    pub fn nearest(&self) -> Option<&Match> {
        self.list.first()
    }

    /// The listed matches, nearest first.
    pub fn as_slice(&self) -> &[Match] {
        &self.list
    }

    /// Goes through the listed matches, nearest first.
    pub fn iter(&self) -> slice::Iter<'_, Match> {
        self.list.iter()
    }
}

impl IntoIterator for Matches {
    type Item = Match;
    type IntoIter = std::vec::IntoIter<Match>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.into_iter()
    }
}

impl<'a> IntoIterator for &'a Matches {
    type Item = &'a Match;
    type IntoIter = slice::Iter<'a, Match>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Where one match is enough, so many ranges are read before it is asked whether there was one: fewer would wait for memory as long.
const PROBES_TOGETHER: usize = 16;

/// So many near fingerprints are looked up together.
const NEAR_TOGETHER: usize = 1024;

/// Answers one query.
pub(super) fn answer(reader: &impl Read, query: &Query) -> Result<Matches> {
    Search::found(reader, query.fingerprint, &query.filter, None)?.matches(reader)
}

/// Whether any document matches.
pub(super) fn answer_any(reader: &impl Read, query: &Query) -> Result<bool> {
    let filter = Filter { limit: 1, ..query.filter.clone() };
    let mut search = Search::new(reader, query.fingerprint, &filter, None)?;
    let asked = [search.asked];
    let mut probes = Vec::new();
    // Which documents are recent enough is not known before they are read.
    let stops_early = search.since.is_none() && asked[0].add_probes(reader, 0, &mut probes)?;
    if !stops_early {
        find(reader, &asked, |near| add_all(reader, slice::from_mut(&mut search), near))?;
        return Ok(search.matches(reader)?.total() > 0);
    }
    let any_will_do = filter.scopes.is_none() && reader.all_rows_have_documents();
    for probes in probes.chunks(PROBES_TOGETHER) {
        let mut near = near_candidates(reader, &asked, probes)?;
        if any_will_do && !near.is_empty() {
            return Ok(true);
        }
        add_all(reader, slice::from_mut(&mut search), &mut near)?;
        if search.total > 0 {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Answers queries together.
pub(super) fn answer_all(reader: &impl Read, queries: &[Query]) -> Result<Vec<Matches>> {
    let new = |query: &Query| Search::new(reader, query.fingerprint, &query.filter, None);
    let mut searches = queries.iter().map(new).collect::<Result<Vec<_>>>()?;
    let asked: Vec<Asked> = searches.iter().map(|search| search.asked).collect();
    find(reader, &asked, |near| add_all(reader, &mut searches, near))?;
    searches.into_iter().map(|search| search.matches(reader)).collect()
}

/// The fingerprints near each of some, in order, each once, with the number of the one they are near to; `None` if they are more
/// than `most`.
pub(super) fn near_to_each(
    reader: &impl Read,
    asked: &[Asked],
    most: usize,
) -> Result<Option<Vec<(usize, Near)>>> {
    let mut all = Some(Vec::new());
    find(reader, asked, |near| {
        all = all.take().filter(|all| all.len() + near.len() <= most);
        if let Some(all) = &mut all {
            all.append(near);
        }
        near.clear();
        Ok(())
    })?;
    if let Some(all) = &mut all {
        all.sort_unstable();
        all.dedup();
    }
    Ok(all)
}

/// The cheapest probes that answer a distance exactly.
pub(super) fn probe_set(reader: &impl Read, max_distance: u32) -> Result<Arc<ProbeSet>> {
    let plan = &reader.settings().plan;
    plan.probe_set(max_distance, reader.fingerprints(), reader.sources(), || reader.load(false))
}

/// What a search looks for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) fingerprint: Fingerprint,
    pub(super) max_distance: u32,
}

impl Asked {
    /// Adds the probes that answer it to others, if it is not to be answered by a scan.
    fn add_probes(self, reader: &impl Read, asker: usize, probes: &mut Vec<Probe>) -> Result<bool> {
        let probe_set = probe_set(reader, self.max_distance)?;
        Ok(probe_set.add_probes(&reader.settings().plan, self.fingerprint, asker, probes))
    }
}

/// Finds what is near to each asked: by probes, and for those that have to scan in one pass for all. `take` gets it in parts,
/// with the number of the asked, in any order and perhaps more than once, and has to leave nothing of it.
fn find(
    reader: &impl Read,
    asked: &[Asked],
    mut take: impl FnMut(&mut Vec<(usize, Near)>) -> Result<()>,
) -> Result<()> {
    let mut probes = Vec::new();
    let mut scanning = Vec::new();
    for (asker, asked) in asked.iter().enumerate() {
        if !asked.add_probes(reader, asker, &mut probes)? {
            scanning.push(asker);
        }
    }
    // Neighbours in a table lie in the same block, or the next.
    if asked.len() > 1 {
        probes.sort_unstable_by_key(|probe| (probe.table, probe.first));
    }
    let mut near = near_candidates(reader, asked, &probes)?;
    take(&mut near)?;
    if scanning.is_empty() {
        return Ok(());
    }
    let permutation = &reader.settings().plan.tables()[0].permutation;
    reader.scan(|candidates| {
        for &asker in &scanning {
            let Asked { fingerprint, max_distance } = asked[asker];
            let query = permutation.apply(fingerprint);
            candidates.each_near(query, max_distance, permutation, |it| near.push((asker, it)));
        }
        take(&mut near)
    })?;
    Ok(())
}

/// What is near to each asked among the candidates of its probes.
fn near_candidates(reader: &impl Read, asked: &[Asked], probes: &[Probe]) -> Result<Vec<(usize, Near)>> {
    let tables = reader.settings().plan.tables();
    let mut near = Vec::new();
    reader.candidates(probes, |probe, candidates| {
        let max_distance = asked[probe.asker].max_distance;
        let permutation = &tables[probe.table].permutation;
        candidates.each_near(probe.query, max_distance, permutation, |it| near.push((probe.asker, it)));
    })?;
    Ok(near)
}

/// Gives near fingerprints to the searches that they are near to, and leaves none.
fn add_all(reader: &impl Read, searches: &mut [Search], near: &mut Vec<(usize, Near)>) -> Result<()> {
    near.sort_unstable();
    near.dedup();
    for near in near.chunks(NEAR_TOGETHER) {
        let wanted: Vec<_> =
            near.iter().map(|&(asker, near)| (near.fingerprint, searches[asker].scopes.clone())).collect();
        reader.posted(&wanted, |number, scope, posted| {
            let (asker, near) = near[number];
            searches[asker].add(near, scope, posted);
        })?;
    }
    near.clear();
    Ok(())
}

/// The documents of a near fingerprint.
#[derive(Default)]
struct Group {
    /// In each scope they are few and known, newest first, or not.
    scopes: Vec<(ScopeNumber, Option<Vec<DocumentNumber>>)>,
    documents: u64,
}

/// One query on its way from fingerprints to documents.
pub(super) struct Search {
    asked: Asked,
    limit: usize,
    since: Option<i64>,
    /// The scopes whose lists are read: each document that may match stands in exactly one of them.
    scopes: Arc<[ScopeNumber]>,
    /// A document that does not count, with its fingerprint and scope.
    ignored: Option<(DocumentNumber, Fingerprint, ScopeNumber)>,
    /// The near fingerprints that can still matter, with their scopes and how many documents each has there.
    near: BTreeMap<Near, Group>,
    /// How many documents `near` has.
    kept: u64,
    /// How many documents match, time apart.
    total: u64,
}

impl Search {
    /// The fingerprints near `fingerprint`; the document `ignored` does not count.
    pub(super) fn found(
        reader: &impl Read,
        fingerprint: Fingerprint,
        filter: &Filter,
        ignored: Option<(DocumentNumber, &Document)>,
    ) -> Result<Self> {
        let mut search = Self::new(reader, fingerprint, filter, ignored)?;
        let asked = [search.asked];
        find(reader, &asked, |near| add_all(reader, slice::from_mut(&mut search), near))?;
        Ok(search)
    }

    /// As [`found`](Self::found), if all fingerprints that are near are among these.
    pub(super) fn among(
        reader: &impl Read,
        near: &[(usize, Near)],
        fingerprint: Fingerprint,
        filter: &Filter,
        ignored: Option<(DocumentNumber, &Document)>,
    ) -> Result<Self> {
        let mut search = Self::new(reader, fingerprint, filter, ignored)?;
        let mut near = near.iter().map(|&(_, near)| (0, near)).collect();
        add_all(reader, slice::from_mut(&mut search), &mut near)?;
        Ok(search)
    }

    /// A search that has not begun.
    fn new(
        reader: &impl Read,
        fingerprint: Fingerprint,
        filter: &Filter,
        ignored: Option<(DocumentNumber, &Document)>,
    ) -> Result<Self> {
        let asked = Asked { fingerprint, max_distance: filter.distance(reader)? };
        let scopes = match &filter.scopes {
            None => ScopeNumber::ALL_DOCUMENTS.into(),
            Some(names) => {
                let known = names.iter().filter_map(|name| reader.scope_number(name).transpose());
                let mut scopes = known.collect::<Result<Vec<_>>>()?;
                scopes.sort_unstable();
                scopes.dedup();
                scopes.into()
            }
        };
        let ignored = match ignored {
            Some((number, document)) => document
                .fingerprint()
                .zip(reader.scope_number(document.scope())?)
                .map(|(fingerprint, scope)| (number, fingerprint, scope)),
            None => None,
        };
        Ok(Self {
            asked,
            limit: filter.limit,
            since: filter.since,
            scopes,
            ignored,
            near: BTreeMap::new(),
            kept: 0,
            total: 0,
        })
    }

    /// Takes in the documents of a near fingerprint in one scope; if all are deleted, there are none.
    fn add(&mut self, near: Near, scope: ScopeNumber, posted: Posted) {
        let ignored = self.ignored.is_some_and(|(_, f, of)| f == near.fingerprint && scope.covers(of));
        let documents = posted.total.saturating_sub(u64::from(ignored));
        if documents == 0 {
            return;
        }
        self.total += documents;
        self.kept += documents;
        let group = self.near.entry(near).or_default();
        group.scopes.push((scope, posted.numbers));
        group.documents += documents;
        // Fingerprints that even the limit cannot reach are let go, so that memory grows with the limit and not
        // with the matches. How many documents of a fingerprint are recent enough is not known before they are
        // read, so a search by time keeps all.
        while self.since.is_none()
            && let Some(farthest) = self.near.last_entry()
            && self.kept - farthest.get().documents >= self.limit as u64
        {
            self.kept -= farthest.remove().documents;
        }
    }

    /// The answer, with its documents.
    pub(super) fn matches(self, reader: &impl Read) -> Result<Matches> {
        let mut list = Vec::new();
        let mut more = false;
        self.walk(reader, |distance, document| {
            if list.len() == self.limit {
                more = true;
                return ControlFlow::Break(());
            }
            list.push(Match { document, distance });
            // By time, only one more tells whether the list is the whole; otherwise the total is known.
            if list.len() == self.limit && self.since.is_none() {
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        })?;
        let listed = list.len() as u64;
        if self.since.is_none() && listed < self.total.min(self.limit as u64) {
            return Err(Error::Damaged {
                table: "postings",
                key: self.asked.fingerprint.to_string(),
                problem: "near this fingerprint there are fewer documents than are counted",
            });
        }
        let total = match self.since {
            None => self.total,
            Some(_) => listed + u64::from(more),
        };
        Ok(Matches { list, total, more })
    }

    /// Calls `each` with the matching documents in order, until it breaks.
    pub(super) fn walk(
        &self,
        reader: &impl Read,
        mut each: impl FnMut(u32, Document) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.limit == 0 && self.since.is_none() {
            return Ok(());
        }
        for (near, group) in &self.near {
            let mut newest = NewestFirst::new(reader, near.fingerprint, group, self.limit)?;
            while let Some(number) = newest.next()? {
                if self.ignored.is_some_and(|(ignored, ..)| ignored == number) {
                    continue;
                }
                let document = reader.linked_document(number)?;
                if self.since.is_some_and(|since| document.seen() < since) {
                    continue;
                }
                if each(near.distance, document).is_break() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }
}

/// The documents of one fingerprint in some scopes, newest first: a merge of the scopes, read in pages so that
/// a group of millions costs no more than what is taken of it.
struct NewestFirst<'r, R> {
    reader: &'r R,
    fingerprint: Fingerprint,
    page_length: usize,
    scopes: Vec<ScopePage>,
    /// The newest number of each scope not yet taken, with the place of the scope in `scopes`.
    heads: BinaryHeap<(DocumentNumber, usize)>,
}

struct ScopePage {
    scope: ScopeNumber,
    /// Numbers read but not taken, oldest first.
    numbers: Vec<DocumentNumber>,
    /// All numbers from here on have been read.
    read_down_to: DocumentNumber,
}

impl<'r, R: Read> NewestFirst<'r, R> {
    fn new(reader: &'r R, fingerprint: Fingerprint, group: &Group, limit: usize) -> Result<Self> {
        // One more than the limit, in case one of them is to be ignored.
        let page_length = limit.saturating_add(1).min(256);
        let page = |(scope, known): &(ScopeNumber, Option<Vec<DocumentNumber>>)| ScopePage {
            scope: *scope,
            numbers: known.iter().flatten().rev().copied().collect(),
            read_down_to: if known.is_some() { DocumentNumber::MIN } else { DocumentNumber::MAX },
        };
        let scopes: Vec<ScopePage> = group.scopes.iter().map(page).collect();
        let mut newest = Self { reader, fingerprint, page_length, scopes, heads: BinaryHeap::new() };
        for place in 0..newest.scopes.len() {
            newest.advance(place)?;
        }
        Ok(newest)
    }

    fn next(&mut self) -> Result<Option<DocumentNumber>> {
        let Some((number, place)) = self.heads.pop() else { return Ok(None) };
        self.advance(place)?;
        Ok(Some(number))
    }

    /// Puts the next number of a scope among the heads.
    fn advance(&mut self, place: usize) -> Result<()> {
        let page = &mut self.scopes[place];
        if page.numbers.is_empty() {
            page.numbers =
                self.reader.newest(self.fingerprint, page.scope, page.read_down_to, self.page_length)?;
            page.numbers.reverse();
            // A page that is not full is the last.
            let full = page.numbers.len() == self.page_length;
            page.read_down_to = page.numbers.first().filter(|_| full).copied().unwrap_or(DocumentNumber::MIN);
        }
        self.heads.extend(page.numbers.pop().map(|number| (number, place)));
        Ok(())
    }
}
