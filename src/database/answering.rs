//! The answers to queries: one, many together, all matches of each, or whether there is any.

use std::slice;

use smallvec::SmallVec;

use super::near_search::{self, NearQuery, NearSearch};
use super::nearest::{self, Growing};
#[cfg(feature = "ingest")]
use super::query::Match;
use super::query::{Matches, Query};
#[cfg(feature = "ingest")]
use super::search::{MOST_HELD, NEAR_TOGETHER};
use super::search::{Search, SearchTarget, add_all};
use super::unlike::Unlike;
use crate::error::Result;
#[cfg(feature = "ingest")]
use crate::store::DocumentNumber;
use crate::store::{Numbered, Reader};

/// Answers one query.
pub(super) fn answer(reader: Reader<'_>, query: &Query) -> Result<Matches> {
    if query.filter.is_nearest {
        return nearest::answer(reader, query);
    }
    let limit = query.filter.limit;
    let target = SearchTarget::from_query(query);
    let search = search_all(reader, target, limit, None)?;
    search.matches(reader, limit)
}

/// Answers queries together.
pub(super) fn answer_all(reader: Reader<'_>, queries: &[Query]) -> Result<Vec<Matches>> {
    let is_nearest = |query: &&Query| query.filter.is_nearest;
    let (nearest, others): (Vec<&Query>, Vec<&Query>) = queries.iter().partition(is_nearest);
    let mut nearest = nearest::answer_all(reader, &nearest)?.into_iter();
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
    let mut unlike = Unlike::default();
    let mut parts = NearSearch::new(reader, &near_queries);
    while let Some(mut near) = parts.next_part()? {
        unlike.leave_out(reader, &mut near, |index| searches[index].sketch_filter())?;
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
        let target = SearchTarget::from_query(query);
        searches.push(Search::new(reader, target, limit(query), None)?);
    }
    Ok(searches)
}

/// The search among all documents.
pub(super) fn search_all<'a>(
    reader: Reader<'_>,
    target: SearchTarget<'a>,
    limit: usize,
    ignored: Option<&Numbered>,
) -> Result<Search<'a>> {
    let mut search = Search::new(reader, target, limit, ignored)?;
    if !search.is_over {
        find_near(reader, slice::from_mut(&mut search))?;
    }
    Ok(search)
}

/// Gives each search what is near to it.
fn find_near(reader: Reader<'_>, searches: &mut [Search<'_>]) -> Result<()> {
    let near_queries = near_queries(searches);
    let mut unlike = Unlike::default();
    let mut parts = NearSearch::new(reader, &near_queries).leaving_crowds();
    while let Some(mut near) = parts.next_part()? {
        unlike.leave_out(reader, &mut near, |index| searches[index].sketch_filter())?;
        add_all(reader, searches, &near)?;
    }
    let crowded = parts.crowded();
    if crowded.is_empty() {
        return Ok(());
    }
    Growing::in_crowds(reader, searches, crowded, unlike).run(&mut |_, _| {})
}

fn near_queries(searches: &[Search<'_>]) -> SmallVec<[NearQuery; 1]> {
    let near_queries = searches.iter().map(|search| search.near_query);
    near_queries.collect()
}

/// Whether any document matches.
pub(super) fn answer_any(reader: Reader<'_>, query: &Query) -> Result<bool> {
    if query.filter.is_nearest {
        let one = query.clone().limit(query.filter.limit.min(1));
        return Ok(nearest::answer(reader, &one)?.total() > 0);
    }
    let mut search = Search::new(reader, SearchTarget::from_query(query), 1, None)?;
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
