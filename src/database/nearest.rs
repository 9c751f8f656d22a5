//! The nearest documents, whatever their distance: searches within distances that grow, until enough match.
//!
//! The plain algorithm: search within a distance, and if fewer documents match than are wanted, within a larger one.
//! Once as many match, those beyond cannot be among the nearest.
//!
//! How far a search goes is decided by what it is expected to cost: as far as it costs no more than twice all searches
//! before. So these cost about as much as the last one at most, and that one goes little further than it has to. No
//! search passes the distance at which enough would be found among random fingerprints, before that was tried. Where a
//! scan is cheapest it is the last search, since it can look at all that is left: its distance shrinks to that of the
//! farthest match as soon as enough are found.
//!
//! What is expected is wrong in a crowd: documents of one template can have thousands of near fingerprints. A search
//! that meets a crowd, and counts few matches, goes on within distances that double.

use std::mem;

use super::near_search::{NearQuery, NearSearch, priced_probe_set, sort_and_dedup};
use super::query::{Matches, Query};
use super::search::{self, Search, SearchTarget};
use super::unlike::Unlike;
use crate::error::Result;
use crate::plan::{NearFingerprint, ProbeSet};
use crate::planted::planted;
use crate::store::Reader;

/// The first search goes as far as it costs no more than this, in nanoseconds.
const FIRST_NANOS: f64 = 4_000.0;

/// Each further search goes as far as it costs no more than so many times all searches before.
const GROWTH: f64 = 2.0;

/// Where so many times the wanted fingerprints are expected, enough are mostly found.
const ENOUGH: f64 = 2.0;

/// Answers one query for the nearest documents.
pub(super) fn answer(reader: Reader<'_>, query: &Query) -> Result<Matches> {
    let mut answers = answer_all(reader, &[query])?;
    Ok(answers.pop().unwrap_or_default())
}

/// Answers queries for the nearest documents together.
pub(super) fn answer_all(reader: Reader<'_>, queries: &[&Query]) -> Result<Vec<Matches>> {
    let mut searches = Vec::with_capacity(queries.len());
    for query in queries {
        let target = SearchTarget::from_query(query);
        searches.push(Search::new(reader, target, query.filter.limit, None)?);
    }
    Growing::new(reader, &mut searches).run(&mut |_, _| {})?;
    let mut answers = Vec::with_capacity(searches.len());
    for search in searches {
        answers.push(search.nearest_matches(reader)?);
    }
    Ok(answers)
}

/// Searches that are made together within growing distances.
pub(super) struct Growing<'s, 'a> {
    reader: Reader<'s>,
    searches: &'s mut [Search<'a>],
    /// The indexes of the searches that have not found enough.
    open: Vec<usize>,
    /// Whether very many fingerprints are near.
    is_crowded: bool,
    unlike: Unlike,
    /// Everything within this distance was found. `None` at the beginning.
    reached: Option<u32>,
    /// The expected cost of all searches so far, for each query.
    spent_nanos: f64,
    /// The number of fingerprints that were expected within the distance that is reached.
    expected: f64,
}

impl<'s, 'a> Growing<'s, 'a> {
    /// Searches for the nearest documents.
    fn new(reader: Reader<'s>, searches: &'s mut [Search<'a>]) -> Self {
        let open = 0..searches.len();
        Self {
            open: open
                .filter(|&index| searches[index].may_list_any())
                .collect(),
            is_crowded: false,
            unlike: Unlike::default(),
            reader,
            searches,
            reached: None,
            spent_nanos: 0.0,
            expected: 0.0,
        }
    }

    /// Searches for all that matters, those of these indexes, to which very many fingerprints are near.
    pub(super) fn in_crowds(
        reader: Reader<'s>,
        searches: &'s mut [Search<'a>],
        crowded: Vec<usize>,
        unlike: Unlike,
    ) -> Self {
        let mut growing = Self::new(reader, searches);
        growing.open = crowded;
        growing.is_crowded = true;
        growing.unlike = unlike;
        growing
    }

    /// Calls `note` with the near fingerprints that each search may need, by its index.
    pub(super) fn run(&mut self, note: &mut impl FnMut(usize, NearFingerprint)) -> Result<()> {
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
            let filter_of = |index: usize| self.searches[index].sketch_filter();
            self.unlike.leave_out(self.reader, &mut near, filter_of)?;
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
            let mut growing = Growing::in_crowds(
                self.reader,
                self.searches,
                crowded,
                mem::take(&mut self.unlike),
            );
            growing.reached = self.reached;
            growing.run(note)?;
            self.unlike = growing.unlike;
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
        search::add_all(self.reader, self.searches, near)?;
        for &(index, near) in near {
            if self.searches[index].may_need(near) {
                note(index, near);
            }
        }
        Ok(())
    }
}
