//! How a query is answered: its probes, their expected and real numbers of candidates, and the time they
//! take.

use std::time::{Duration, Instant};

use super::answering;
use super::near_search::{NearQuery, NearSearch, priced_probe_set};
use super::query::{Matches, Query};
use super::snapshot::Snapshot;
use crate::error::Result;
use crate::plan::{Candidates, CostModel, ProbeSet, ProbedPrefix};
use crate::store::{AddRanges, Reader, Searched};

/// How a query is answered, from [`Snapshot::explain`](crate::Snapshot::explain).
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, Query};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("page", Fingerprint::from_bits(7)))?;
/// # txn.commit()?;
///
/// let query = Query::new(Fingerprint::from_bits(6)).near(2);
/// let (matches, explanation) = database.snapshot()?.explain(&query)?;
/// for table in &explanation.probes {
///     println!("table {}: {} ranges, {} candidates", table.table, table.ranges, table.candidates);
/// }
/// assert_eq!((explanation.max_distance, explanation.near), (2, 1));
/// assert!(explanation.candidates >= explanation.near);
/// assert_eq!(explanation.total, matches.total());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The name of the plan of the file.
    pub plan: String,
    /// The max distance of the query, or that of the database if the query names none. Of a query for the nearest
    /// documents, the distance of the farthest match, unless fewer match than were asked for.
    pub max_distance: u32,
    /// How each table is probed. Empty if all fingerprints are compared.
    pub probes: Vec<TableProbes>,
    /// The number of levels and runs in memory in which each range is read.
    pub sources: usize,
    /// The number of candidates to expect, as the stored fingerprints are spread.
    pub candidates_expected: f64,
    /// The number of candidates.
    pub candidates: u64,
    /// The number of blocks in which the candidates are.
    pub blocks: u64,
    /// The number of distinct fingerprints within the max distance.
    pub near: u64,
    /// The number of documents that match, as [`Matches::total`](crate::Matches::total).
    pub total: u64,
    /// The time that the probes are expected to take, without the look-up of documents. The expectation
    /// is that the cache holds all the blocks that it has room for.
    pub expected: Duration,
    /// The time that the probes took, with the reading of blocks that were not in memory.
    pub first: Duration,
    /// The time that the probes took when they were repeated: the median of up to 15 times, fewer if
    /// they take long.
    pub again: Duration,
}

/// How one table is probed.
///
/// See the example of [`Explanation`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TableProbes {
    /// The number of the table.
    pub table: usize,
    /// The number of leading bits that are looked at.
    pub prefix_bits: u32,
    /// The number of these bits that may differ.
    pub flips: u32,
    /// The number of ranges that are read.
    pub ranges: u64,
    /// The number of candidates to expect.
    pub candidates_expected: f64,
    /// The number of candidates.
    pub candidates: u64,
    /// The number of these candidates that are within the max distance.
    pub near: u64,
}

/// The probes are timed up to this number of times.
const MOST_TIMES: usize = 16;
/// The timing ends after this time, but not before the probes were timed twice.
const LONGEST_TIMING: Duration = Duration::from_millis(20);

impl Snapshot {
    /// Answers a query and tells how: what is read, the expected and the real number of candidates, and
    /// the time.
    ///
    /// A query for the nearest documents is answered by searches at growing distances
    /// ([`Query::nearest`](crate::Query::nearest)). What is told is that of a search at the distance of the farthest
    /// match. The searches before the last one are expected to take as long again.
    ///
    /// # Errors
    ///
    /// Those of [`query`](Self::query).
    ///
    /// # Cost
    ///
    /// The probes are made 4 to 18 times, to be timed and counted and for the answer. Some blocks are
    /// read besides, to measure how the fingerprints are spread.
    pub fn explain(&self, query: &Query) -> Result<(Matches, Explanation)> {
        let reader = self.reader()?;
        let max_distance = query.filter.checked(reader.settings())?.max_distance;
        let (matches, mut explanation) = if query.filter.is_nearest {
            let matches = answering::answer(reader, query)?;
            // In the order of similarity, the farthest may stand anywhere.
            let farthest = matches.iter().map(|found| found.distance).max();
            let has_all = matches.iter().len() < query.filter.limit;
            let searched = farthest.filter(|_| !has_all).unwrap_or(max_distance);
            (matches, explain(reader, query, searched)?)
        } else {
            // First, since it measures how long it takes to read blocks that are not in memory.
            let explanation = explain(reader, query, max_distance)?;
            (answering::answer(reader, query)?, explanation)
        };
        explanation.total = matches.total();
        Ok((matches, explanation))
    }
}

/// The explanation of a search within a distance, without the number of documents that match.
fn explain(reader: Reader<'_>, query: &Query, max_distance: u32) -> Result<Explanation> {
    let settings = reader.settings();
    let priced = priced_probe_set(reader, max_distance, 1)?;
    let set = &*priced.probe_set;
    let cost_model = reader.cost_model(true)?;
    let mut probes = Vec::new();
    if let ProbeSet::Prefixes(prefixes) = set {
        for &prefix in prefixes {
            probes.push(table_probes(prefix, &cost_model));
        }
    }
    let (levels, runs) = reader.sources();
    let near_query = NearQuery {
        fingerprint: query.fingerprint(),
        max_distance,
    };
    let mut explanation = Explanation {
        plan: settings.plan.to_string(),
        max_distance,
        probes,
        sources: levels + runs,
        candidates_expected: cost_model.all_candidates(set),
        candidates: 0,
        blocks: 0,
        near: 0,
        total: 0,
        expected: Duration::from_nanos(cost_model.nanos(set) as u64),
        first: Duration::ZERO,
        again: Duration::ZERO,
    };
    // The probes are timed as a query makes them. Candidates are counted afterwards.
    time(reader, near_query, &mut explanation)?;
    count_candidates(reader, near_query, set, &mut explanation)?;
    Ok(explanation)
}

/// How a table is probed on a prefix. The candidates are not counted yet.
fn table_probes(prefix: ProbedPrefix, cost_model: &CostModel) -> TableProbes {
    TableProbes {
        table: prefix.table,
        prefix_bits: prefix.prefix_bits,
        flips: prefix.flips,
        ranges: prefix.ranges() as u64,
        candidates_expected: cost_model.candidates(prefix),
        candidates: 0,
        near: 0,
    }
}

/// Times the probes of a query, and counts the near fingerprints that they find.
fn time(reader: Reader<'_>, query: NearQuery, explanation: &mut Explanation) -> Result<()> {
    let mut times = Vec::new();
    let begun_all = Instant::now();
    while times.len() < 2 || (times.len() < MOST_TIMES && begun_all.elapsed() < LONGEST_TIMING) {
        let begun = Instant::now();
        explanation.near = 0;
        let queries = [query];
        let mut parts = NearSearch::new(reader, &queries);
        while let Some(part) = parts.next_part()? {
            explanation.near += part.len() as u64;
        }
        times.push(begun.elapsed());
    }
    explanation.first = times.remove(0);
    times.sort_unstable();
    // The median of the repetitions.
    explanation.again = times[times.len() / 2];
    Ok(())
}

/// Counts the candidates of a query, and the blocks that they are in.
fn count_candidates(
    reader: Reader<'_>,
    query: NearQuery,
    set: &ProbeSet,
    explanation: &mut Explanation,
) -> Result<()> {
    let tables = reader.settings().plan.tables();
    if let Some(prefixes) = set.prefixes() {
        let add_all = |add: AddRanges<'_, usize>| {
            for (of, prefix) in prefixes.iter().enumerate() {
                prefix.each_range(
                    tables[prefix.table].apply(query.fingerprint),
                    |first, last| {
                        add(prefix.table, &[Searched { of, first, last }]);
                    },
                );
            }
        };
        let mut compared = 0;
        let each = |range: &Searched<u64, usize>, rows: &[u64], _: &[u64]| {
            compared += rows.len() as u64;
            let candidates = Candidates::new(rows);
            let probes = &mut explanation.probes[range.of];
            let table = &tables[probes.table];
            let query_here = table.apply(query.fingerprint);
            let range = range.first..=range.last;
            probes.candidates += candidates.within(&range);
            candidates.each_near(query_here, query.max_distance, table, |near| {
                let row = table.apply(near.fingerprint).bits();
                probes.near += u64::from(range.contains(&row));
            });
        };
        explanation.blocks = reader.read_probes(add_all, each)?;
        reader.count_candidates(compared);
        for table in &explanation.probes {
            explanation.candidates += table.candidates;
        }
    } else {
        let mut scan = reader.scan()?;
        explanation.blocks = scan.blocks();
        while scan.advance()? {
            explanation.candidates += scan.candidates().len() as u64;
        }
    }
    Ok(())
}
