//! The answers to queries: one, many together, all matches of each, whether there is any, or the nearest.
//!
//! The nearest documents, whatever their distance, are found by searches within distances that grow, until enough
//! match. The plain algorithm: search within a distance, and if fewer documents match than are wanted, within a larger
//! one. Once as many match, those beyond cannot be among the nearest.
//!
//! How far a search goes is decided by what it is expected to cost: as far as it costs no more than twice all searches
//! before. So these cost about as much as the last one at most, and that one goes little further than it has to. No
//! search passes the distance at which enough would be found among random fingerprints, before that was tried. Where a
//! scan is cheapest it is the last search, since it can look at all that is left: its distance shrinks to that of the
//! farthest match as soon as enough are found.
//!
//! What is expected is wrong in a crowd: documents of one template can have thousands of near fingerprints. A search
//! that meets a crowd, and counts few matches, goes on within distances that double.

use std::{mem, slice};

use smallvec::SmallVec;

use super::near_search::{self, NearQuery, NearSearch, priced_probe_set, sort_and_dedup};
#[cfg(feature = "ingest")]
use super::query::Match;
use super::query::{Matches, Query};
#[cfg(feature = "ingest")]
use super::search::{MOST_HELD, NEAR_TOGETHER};
use super::search::{Search, add_all};
use super::unlike::leave_out_unlike;
use crate::error::Result;
use crate::plan::{NearFingerprint, ProbeSet};
use crate::planted::planted;
#[cfg(feature = "ingest")]
use crate::store::DocumentNumber;
use crate::store::{KnownSketches, Reader};

/// Answers one query.
pub(super) fn answer(reader: Reader<'_>, query: &Query) -> Result<Matches> {
    if query.filter.is_nearest {
        let mut answers = answer_nearest(reader, &[query])?;
        return Ok(answers.pop().unwrap_or_default());
    }
    let limit = query.filter.limit;
    let mut search = Search::of_query(reader, query, limit)?;
    find_all(reader, &mut search)?;
    search.matches(reader, limit)
}

/// Answers queries together.
pub(super) fn answer_all(reader: Reader<'_>, queries: &[Query]) -> Result<Vec<Matches>> {
    let (nearest, others): (Vec<&Query>, Vec<&Query>) =
        queries.iter().partition(|query| query.filter.is_nearest);
    let mut nearest = answer_nearest(reader, &nearest)?.into_iter();
    let mut others = answer_within(reader, &others)?.into_iter();
    let mut answers = Vec::with_capacity(queries.len());
    for query in queries {
        answers.extend(match query.filter.is_nearest {
            true => nearest.next(),
            false => others.next(),
        });
    }
    Ok(answers)
}

/// Answers queries for what is within a distance together.
fn answer_within(reader: Reader<'_>, queries: &[&Query]) -> Result<Vec<Matches>> {
    let each = queries.iter().copied();
    let mut searches = new_searches(reader, each, |query| query.filter.limit)?;
    find_near(reader, &mut searches)?;
    let mut answers = Vec::with_capacity(queries.len());
    for search in searches {
        answers.push(search.matches(reader, search.limit)?);
    }
    Ok(answers)
}

/// Answers queries for the nearest documents together.
fn answer_nearest(reader: Reader<'_>, queries: &[&Query]) -> Result<Vec<Matches>> {
    let each = queries.iter().copied();
    let mut searches = new_searches(reader, each, |query| query.filter.limit)?;
    let mut sketches = KnownSketches::default();
    Growing::new(reader, &mut searches, &mut sketches).run(&mut |_, _| {})?;
    let mut answers = Vec::with_capacity(queries.len());
    for search in searches {
        answers.push(search.nearest_matches(reader)?);
    }
    Ok(answers)
}

/// The most queries that [`each_match`] takes together. So many searches read no document twice.
#[cfg(feature = "ingest")]
pub(super) const MOST_FOR_EACH: usize = MOST_HELD / NEAR_TOGETHER;

/// Gives all documents that match to `each`, with the index of the query: any number, in bounded memory. The limits and
/// the orders of the queries do not matter.
///
/// They come in no order, except that of one query no document comes twice.
#[cfg(feature = "ingest")]
pub(super) fn each_match(
    reader: Reader<'_>,
    queries: &[Query],
    mut each: impl FnMut(usize, DocumentNumber, Match) -> Result<()>,
) -> Result<()> {
    debug_assert!(queries.len() <= MOST_FOR_EACH);
    let mut searches = new_searches(reader, queries.iter(), |_| usize::MAX)?;
    let near_queries = near_queries(&searches);
    let mut sketches = KnownSketches::default();
    let mut parts = NearSearch::new(reader, &near_queries);
    while let Some(mut near) = parts.next_part()? {
        leave_out_unlike(reader, &searches, &mut near, &mut sketches)?;
        for near in near.chunks(NEAR_TOGETHER) {
            add_all(reader, &mut searches, near)?;
            for near in near.chunk_by(|a, b| a.0 == b.0) {
                let index = near[0].0;
                searches[index].hand_over(reader, |number, found| each(index, number, found))?;
            }
        }
    }
    Ok(())
}

/// The searches for queries, none of which has begun.
fn new_searches<'a>(
    reader: Reader<'_>,
    queries: impl ExactSizeIterator<Item = &'a Query>,
    limit: impl Fn(&Query) -> usize,
) -> Result<Vec<Search<'a>>> {
    let mut searches = Vec::with_capacity(queries.len());
    for query in queries {
        searches.push(Search::of_query(reader, query, limit(query))?);
    }
    Ok(searches)
}

/// Gives a search what is near to it among all documents, unless nothing can match.
pub(super) fn find_all(reader: Reader<'_>, search: &mut Search<'_>) -> Result<()> {
    match search.is_over {
        true => Ok(()),
        false => find_near(reader, slice::from_mut(search)),
    }
}

/// Gives each search what is near to it.
fn find_near(reader: Reader<'_>, searches: &mut [Search<'_>]) -> Result<()> {
    let near_queries = near_queries(searches);
    let mut sketches = KnownSketches::default();
    let mut parts = NearSearch::new(reader, &near_queries).leaving_crowds();
    while let Some(mut near) = parts.next_part()? {
        leave_out_unlike(reader, searches, &mut near, &mut sketches)?;
        add_all(reader, searches, &near)?;
    }
    let crowded = parts.crowded();
    find_in_crowds(reader, searches, crowded, &mut sketches, &mut |_, _| {})
}

/// Gives the searches of these indexes, to which very many fingerprints are near, all that matters to them. Calls
/// `note` with the near fingerprints that each search may need, by its index.
pub(super) fn find_in_crowds(
    reader: Reader<'_>,
    searches: &mut [Search<'_>],
    crowded: Vec<usize>,
    sketches: &mut KnownSketches,
    note: &mut impl FnMut(usize, NearFingerprint),
) -> Result<()> {
    if crowded.is_empty() {
        return Ok(());
    }
    Growing::in_crowds(reader, searches, crowded, sketches).run(note)
}

fn near_queries(searches: &[Search<'_>]) -> SmallVec<[NearQuery; 1]> {
    let near_queries = searches.iter().map(|search| search.near_query);
    near_queries.collect()
}

/// Whether any document matches.
pub(super) fn answer_any(reader: Reader<'_>, query: &Query) -> Result<bool> {
    if query.filter.is_nearest {
        let one = query.clone().limit(query.filter.limit.min(1));
        return Ok(answer(reader, &one)?.total() > 0);
    }
    let mut search = Search::of_query(reader, query, 1)?;
    if search.is_over {
        return Ok(false);
    }
    let each_near_matches = query.filter.near.scopes.is_none()
        && search.counts_by_postings()
        && reader.all_rows_have_documents();
    near_search::any(reader, search.near_query, |near| {
        if each_near_matches && !near.is_empty() {
            return Ok(true);
        }
        add_all(reader, slice::from_mut(&mut search), near)?;
        search.has_match(reader)
    })
}

/// The first search goes as far as it costs no more than this, in nanoseconds.
const FIRST_NANOS: f64 = 4_000.0;

/// Each further search goes as far as it costs no more than so many times all searches before.
const GROWTH: f64 = 2.0;

/// Where so many times the wanted fingerprints are expected, enough are mostly found.
const ENOUGH: f64 = 2.0;

/// Searches that are made together within growing distances.
struct Growing<'s, 'a> {
    reader: Reader<'s>,
    searches: &'s mut [Search<'a>],
    /// The indexes of the searches that have not found enough.
    open: Vec<usize>,
    /// Whether very many fingerprints are near.
    is_crowded: bool,
    /// Those that are known of near fingerprints.
    sketches: &'s mut KnownSketches,
    /// Everything within this distance was found. `None` at the beginning.
    reached: Option<u32>,
    /// The expected cost of all searches so far, for each query.
    spent_nanos: f64,
    /// The number of fingerprints that were expected within the distance that is reached.
    expected: f64,
}

impl<'s, 'a> Growing<'s, 'a> {
    /// Searches for the nearest documents.
    fn new(
        reader: Reader<'s>,
        searches: &'s mut [Search<'a>],
        sketches: &'s mut KnownSketches,
    ) -> Self {
        let open = 0..searches.len();
        Self {
            open: open
                .filter(|&index| searches[index].may_list_any())
                .collect(),
            is_crowded: false,
            sketches,
            reader,
            searches,
            reached: None,
            spent_nanos: 0.0,
            expected: 0.0,
        }
    }

    /// Searches for all that matters, those of these indexes, to which very many fingerprints are near.
    fn in_crowds(
        reader: Reader<'s>,
        searches: &'s mut [Search<'a>],
        crowded: Vec<usize>,
        sketches: &'s mut KnownSketches,
    ) -> Self {
        let mut growing = Self::new(reader, searches, sketches);
        growing.open = crowded;
        growing.is_crowded = true;
        growing
    }

    /// Calls `note` with the near fingerprints that each search may need, by its index.
    fn run(&mut self, note: &mut impl FnMut(usize, NearFingerprint)) -> Result<()> {
        while !self.open.is_empty() {
            match self.next_distance()? {
                Some(distance) => self.search_within(distance, note)?,
                None => return self.scan(note),
            }
        }
        Ok(())
    }

    /// The searches that have not found enough.
    fn open(&self) -> impl ExactSizeIterator<Item = &Search<'a>> {
        self.open.iter().map(|&index| &self.searches[index])
    }

    /// The distance within which the searches go on by probes. `None` if a scan for all that is left is cheapest.
    fn next_distance(&mut self) -> Result<Option<u32>> {
        let together = self.open.len();
        let bounds = self.open().map(|search| search.near_query.max_distance);
        let most_distance = bounds.max().unwrap_or(0);
        let distance = match self.is_crowded {
            false => return self.next_expected_distance(most_distance),
            true if self.open().any(Search::stops_early) => {
                let doubled = self
                    .reached
                    .map_or(1, |reached| reached.max(1).saturating_mul(2));
                doubled.min(most_distance)
            }
            true => most_distance,
        };
        let priced = priced_probe_set(self.reader, distance, together)?;
        Ok((*priced.probe_set != ProbeSet::Scan).then_some(distance))
    }

    /// The largest distance within [`GROWTH`] and [`ENOUGH`], but at least the next one.
    fn next_expected_distance(&mut self, most_distance: u32) -> Result<Option<u32>> {
        let most_nanos = (self.spent_nanos * GROWTH).max(FIRST_NANOS);
        let wanted = self.open().map(|search| search.limit);
        let mut enough = wanted.max().unwrap_or(0) as f64 * ENOUGH;
        if self.expected >= enough {
            // They do not suffice, since few of them meet the conditions.
            enough = f64::INFINITY;
        }
        let together = self.open.len();
        let mut distance = self.reached.map_or(0, |reached| reached + 1);
        let mut chosen = priced_probe_set(self.reader, distance, together)?;
        while distance < most_distance
            && chosen.near < enough
            && *chosen.probe_set != ProbeSet::Scan
        {
            let further = priced_probe_set(self.reader, distance + 1, together)?;
            if further.nanos > most_nanos {
                break;
            }
            chosen = further;
            distance += 1;
        }
        self.spent_nanos += chosen.nanos;
        self.expected = chosen.near;
        Ok((*chosen.probe_set != ProbeSet::Scan).then_some(distance))
    }

    /// Searches within a distance, and closes the searches that have found enough.
    fn search_within(
        &mut self,
        distance: u32,
        note: &mut impl FnMut(usize, NearFingerprint),
    ) -> Result<()> {
        let mut queries = Vec::with_capacity(self.open.len());
        for search in self.open() {
            let query = search.near_query;
            queries.push(NearQuery {
                max_distance: query.max_distance.min(distance),
                ..query
            });
        }
        let mut parts = NearSearch::new(self.reader, &queries);
        if !self.is_crowded {
            parts = parts.leaving_crowds();
        }
        while let Some(mut near) = parts.next_part()? {
            // The others were added before.
            let reached = self.reached;
            near.retain(|(_, near)| reached.is_none_or(|reached| near.distance > reached));
            for (index, _) in &mut near {
                *index = self.open[*index];
            }
            leave_out_unlike(self.reader, self.searches, &mut near, self.sketches)?;
            self.add(&near, note)?;
        }
        let mut crowded = parts.crowded();
        for index in &mut crowded {
            *index = self.open[*index];
        }
        let ends_early = planted("a search for the nearest does not go on");
        let mut open = mem::take(&mut self.open);
        for &index in &open {
            self.searches[index].look_for_enough(self.reader)?;
        }
        open.retain(|&index| {
            let search = &self.searches[index];
            let goes_on = search.needs_all() && search.near_query.max_distance > distance;
            goes_on && !ends_early && crowded.binary_search(&index).is_err()
        });
        if !crowded.is_empty() {
            let mut growing =
                Growing::in_crowds(self.reader, self.searches, crowded, self.sketches);
            growing.reached = self.reached;
            growing.run(note)?;
        }
        self.open = open;
        self.reached = Some(distance);
        Ok(())
    }

    /// Compares each search with all fingerprints.
    fn scan(&mut self, note: &mut impl FnMut(usize, NearFingerprint)) -> Result<()> {
        let table = self.reader.settings().plan.scan_table();
        let mut scan = self.reader.scan()?;
        let mut near = Vec::new();
        while scan.advance()? {
            for index in self.open.clone() {
                let search = &self.searches[index];
                let query = search.near_query;
                let most = search
                    .enough
                    .map_or(query.max_distance, |near| near.distance);
                let permuted = table.apply(query.fingerprint);
                near.clear();
                let candidates = scan.candidates();
                candidates.each_near(permuted, most, table, |found| {
                    if self.reached.is_none_or(|reached| found.distance > reached) {
                        near.push((index, found));
                    }
                });
                sort_and_dedup(&mut near);
                self.add(&near, note)?;
            }
        }
        Ok(())
    }

    /// Looks up the documents of near fingerprints, as long as they can matter.
    fn add(
        &mut self,
        near: &[(usize, NearFingerprint)],
        note: &mut impl FnMut(usize, NearFingerprint),
    ) -> Result<()> {
        add_all(self.reader, self.searches, near)?;
        for &(index, near) in near {
            if self.searches[index].may_need(near) {
                note(index, near);
            }
        }
        Ok(())
    }
}
