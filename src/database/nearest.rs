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

use super::near_search::{NearQuery, NearSearch, priced_probe_set, sort_and_dedup};
use super::query::{Matches, Query};
use super::search::{NEAR_TOGETHER, Search, SearchTarget};
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

/// The least number of near fingerprints whose documents are looked up together.
const FEWEST_TOGETHER: usize = 4;

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
    let mut growing = Growing::new(reader);
    for search in &mut searches {
        growing.add(search);
    }
    growing.run()?;
    let mut answers = Vec::with_capacity(searches.len());
    for search in searches {
        answers.push(search.nearest_matches(reader)?);
    }
    Ok(answers)
}

/// Searches that are made together within growing distances.
struct Growing<'s, 'a> {
    reader: Reader<'a>,
    /// The searches that have not found enough.
    open: Vec<OpenSearch<'s, 'a>>,
    /// Everything within this distance was found. `None` at the beginning.
    reached: Option<u32>,
    /// The expected cost of all searches so far, for each query.
    spent_nanos: f64,
    /// The number of fingerprints that were expected within the distance that is reached.
    expected: f64,
}

/// How the searches go on.
enum Step {
    /// By probes, within this distance.
    Within(u32),
    /// By a scan for all that is left.
    Scan,
}

impl<'s, 'a> Growing<'s, 'a> {
    fn new(reader: Reader<'a>) -> Self {
        Self {
            reader,
            open: Vec::new(),
            reached: None,
            spent_nanos: 0.0,
            expected: 0.0,
        }
    }

    fn add(&mut self, search: &'s mut Search<'a>) {
        if search.may_list_any() {
            self.open.push(OpenSearch {
                search,
                farthest: None,
            });
        }
    }

    fn run(mut self) -> Result<()> {
        while !self.open.is_empty() {
            match self.next_step()? {
                Step::Within(distance) => self.search_within(distance)?,
                Step::Scan => return self.scan(),
            }
        }
        Ok(())
    }

    /// The largest distance within [`GROWTH`] and [`ENOUGH`], but at least the next one.
    fn next_step(&mut self) -> Result<Step> {
        let most_nanos = (self.spent_nanos * GROWTH).max(FIRST_NANOS);
        let bounds = self.open.iter().map(|open| open.query().max_distance);
        let most_distance = bounds.max().unwrap_or(0);
        let wanted = self.open.iter().map(|open| open.search.limit());
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
        Ok(match *chosen.probe_set {
            ProbeSet::Scan => Step::Scan,
            ProbeSet::Prefixes(_) => Step::Within(distance),
        })
    }

    /// Searches within a distance, and closes the searches that have found enough.
    fn search_within(&mut self, distance: u32) -> Result<()> {
        let mut queries = Vec::with_capacity(self.open.len());
        for open in &self.open {
            let query = open.query();
            queries.push(NearQuery {
                max_distance: query.max_distance.min(distance),
                ..query
            });
        }
        let mut parts = NearSearch::new(self.reader, &queries);
        while let Some(near) = parts.next_part()? {
            for near in near.chunk_by(|a, b| a.0 == b.0) {
                let open = &mut self.open[near[0].0];
                open.add(self.reader, self.reached, near)?;
            }
        }
        let ends_early = planted("a search for the nearest does not go on");
        self.open.retain(|open| {
            let goes_on = open.farthest.is_none() && open.query().max_distance > distance;
            goes_on && !ends_early
        });
        self.reached = Some(distance);
        Ok(())
    }

    /// Compares each search with all fingerprints.
    fn scan(&mut self) -> Result<()> {
        let table = self.reader.settings().plan.scan_table();
        let mut scan = self.reader.scan()?;
        let mut near = Vec::new();
        while scan.advance()? {
            for open in &mut self.open {
                let query = open.query();
                let most = open.farthest.map_or(query.max_distance, |it| it.distance);
                let permuted = table.apply(query.fingerprint);
                near.clear();
                let candidates = scan.candidates();
                candidates.each_near(permuted, most, table, |found| near.push((0, found)));
                sort_and_dedup(&mut near);
                open.add(self.reader, self.reached, &near)?;
            }
        }
        Ok(())
    }
}

/// A search that may not have found enough.
struct OpenSearch<'s, 'a> {
    search: &'s mut Search<'a>,
    /// The fingerprint of the farthest match, if there are as many as are wanted.
    farthest: Option<NearFingerprint>,
}

impl OpenSearch<'_, '_> {
    fn query(&self) -> NearQuery {
        self.search.near_query()
    }

    /// Looks up the documents of near fingerprints, which are in order, as long as they can be among the nearest. Those
    /// within the distance `reached` were added before.
    fn add(
        &mut self,
        reader: Reader<'_>,
        reached: Option<u32>,
        near: &[(usize, NearFingerprint)],
    ) -> Result<()> {
        let old = reached.map_or(0, |reached| {
            near.partition_point(|(_, near)| near.distance <= reached)
        });
        let mut rest = &near[old..];
        // Mostly each has a document, and as many as are wanted are enough.
        let wanted = self.search.limit();
        let mut together = wanted.clamp(FEWEST_TOGETHER, NEAR_TOGETHER);
        loop {
            if let Some(farthest) = self.farthest {
                rest = &rest[..rest.partition_point(|(_, near)| *near < farthest)];
            }
            if rest.is_empty() {
                return Ok(());
            }
            let (next, others) = rest.split_at(together.min(rest.len()));
            let next = next.iter().map(|&(_, near)| near);
            self.farthest = self.search.add_nearest(reader, next)?;
            rest = others;
            together = (2 * together).min(NEAR_TOGETHER);
        }
    }
}
