//! The phases that query. Half of the queries are near a stored document, the others are random.
//!
//! Answers are checked, in all phases but `cold` before the queries are timed. The stored document must be
//! found. For a few queries the number of matches must be that of a scan over the whole collection.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use simdb::{Fingerprint, Matches, Near, Query, Snapshot};

use crate::state::Row;
use crate::state::{Bench, key};
use crate::{Failure, joined, start};

/// Checking answers ends after this time, and so does timing queries.
const LONGEST: Duration = Duration::from_secs(20);

/// The number of queries whose answers are compared with a scan.
const SCANNED: usize = 16;

/// While another thread writes, a new snapshot is taken after this number of queries.
const QUERIES_OF_A_SNAPSHOT: usize = 1_000;

impl Bench<'_> {
    pub(crate) fn query(&self, distance: u32, threads: u64, row: &mut Row) -> Result<(), Failure> {
        self.ask(distance, threads, row, |snapshot, query| {
            Ok(snapshot.query(&query.limit(0))?.total())
        })
    }

    pub(crate) fn list(&self, distance: u32, threads: u64, row: &mut Row) -> Result<(), Failure> {
        self.ask(distance, threads, row, |snapshot, query| {
            Ok(snapshot.query(&query.limit(10))?.iter().len() as u64)
        })
    }

    pub(crate) fn any(&self, distance: u32, threads: u64, row: &mut Row) -> Result<(), Failure> {
        self.ask(distance, threads, row, |snapshot, query| {
            Ok(snapshot.any_match(&query)?.into())
        })
    }

    pub(crate) fn nearest(&self, threads: u64, row: &mut Row) -> Result<(), Failure> {
        let snapshot = self.database()?.snapshot()?;
        let queries = self.asserted_nearest(&snapshot)?;
        let begun = Instant::now();
        let ask = |query| Ok(snapshot.query(&query)?.iter().len() as u64);
        let (times, answers) = timed_by(threads, &queries, ask)?;
        row.add("threads", threads);
        row.add_rounded(
            "queries_per_second",
            times.len() as f64 / begun.elapsed().as_secs_f64(),
        );
        row.add("queries", times.len() as u64);
        row.add("answers", answers);
        row.add_times("query", times, 1e6, "us");
        // Random ones stand at even places, and those near a document between them.
        for (name, first) in [("random", 0), ("near", 1)] {
            let half: Vec<Query> = queries.iter().skip(first).step_by(2).cloned().collect();
            let (times, _) = timed(&half, |query| {
                Ok(snapshot.query(&query)?.iter().len() as u64)
            })?;
            row.add_times(name, times, 1e6, "us");
        }
        let begun = Instant::now();
        snapshot.query_batch(&queries)?;
        let seconds = begun.elapsed().as_secs_f64();
        row.add_rounded(
            "batch_us_per_query",
            seconds * 1e6 / queries.len().max(1) as f64,
        );
        Ok(())
    }

    /// The queries for the ten nearest documents. The distances of some answers were compared with those of a scan.
    fn asserted_nearest(&self, snapshot: &Snapshot) -> Result<Vec<Query>, Failure> {
        const NEAREST: usize = 10;
        let mut queries = Vec::new();
        for (query, _) in self.queries(64) {
            let mut near = Near::new();
            if let Some(scopes) = self.arguments.asked_scopes() {
                near = near.scopes(scopes);
            }
            queries.push(query.near(near).nearest(NEAREST));
        }
        let sample = &queries[..queries.len().min(SCANNED)];
        let mut counts = vec![[0; 65]; sample.len()];
        let may_match =
            |number: &u64| self.is_live(*number) && self.arguments.is_asked_for(*number);
        for number in (self.expired..self.inserted).filter(may_match) {
            let fingerprint = self.collection.fingerprint(number);
            for (counts, query) in counts.iter_mut().zip(sample) {
                counts[fingerprint.distance(query.fingerprint()) as usize] += 1;
            }
        }
        for (query, counts) in sample.iter().zip(counts) {
            let by_scan = (0..).zip(counts);
            let by_scan =
                by_scan.flat_map(|(distance, count)| std::iter::repeat_n(distance, count));
            let by_scan: Vec<u32> = by_scan.take(NEAREST).collect();
            let found = snapshot.query(query)?;
            let found: Vec<u32> = found.iter().map(|found| found.distance).collect();
            if found != by_scan {
                return Err(format!(
                    "{}: distances {found:?}, by a scan {by_scan:?}",
                    query.fingerprint()
                )
                .into());
            }
        }
        Ok(queries)
    }

    /// Divides the queries among threads. Each thread times its queries one after the other.
    fn ask(
        &self,
        distance: u32,
        threads: u64,
        row: &mut Row,
        answer: impl Fn(&Snapshot, Query) -> simdb::Result<u64> + Sync,
    ) -> Result<(), Failure> {
        let snapshot = self.database()?.snapshot()?;
        let queries = self.asserted_queries(&snapshot, distance)?;
        if let Some(query) = queries.first() {
            row.add("sources", snapshot.explain(query)?.1.sources as u64);
        }
        let misses_before = self.database()?.metrics().cache_misses;
        let begun = Instant::now();
        let (times, answers) = timed_by(threads, &queries, |query| answer(&snapshot, query))?;
        let seconds = begun.elapsed().as_secs_f64();
        let misses = self.database()?.metrics().cache_misses - misses_before;
        row.add("threads", threads);
        row.add_rounded("queries_per_second", times.len() as f64 / seconds);
        row.add_rounded("blocks_per_query", misses as f64 / times.len() as f64);
        if threads == 1 {
            // Random ones stand at even places, and those near a document between them.
            for (name, first) in [("random", 0), ("near", 1)] {
                let half = times.iter().skip(first).step_by(2).copied().collect();
                row.add_times(name, half, 1e6, "us");
            }
        }
        add_answers(row, distance, times, answers);
        Ok(())
    }

    /// The median time of a query for the number of its matches.
    pub(crate) fn median_query(&self, distance: u32) -> Result<Duration, Failure> {
        let snapshot = self.database()?.snapshot()?;
        let queries = self.asserted_queries(&snapshot, distance)?;
        let (mut times, _) = timed(&queries, |query| {
            Ok(snapshot.query(&query.limit(0))?.total())
        })?;
        times.sort_unstable();
        Ok(times.get(times.len() / 2).copied().unwrap_or_default())
    }

    pub(crate) fn batch(&self, distance: u32, row: &mut Row) -> Result<(), Failure> {
        let snapshot = self.database()?.snapshot()?;
        let queries = self.asserted_queries(&snapshot, distance)?;
        let queries: Vec<Query> = queries.into_iter().map(|query| query.limit(0)).collect();
        let begun = Instant::now();
        let matches: u64 = snapshot
            .query_batch(&queries)?
            .iter()
            .map(Matches::total)
            .sum();
        let seconds = begun.elapsed().as_secs_f64();
        row.add("max_distance", distance.into());
        row.add("queries", queries.len() as u64);
        row.add("answers", matches);
        row.add_rounded("us_per_query", seconds * 1e6 / queries.len().max(1) as f64);
        Ok(())
    }

    pub(crate) fn beside(&mut self, distance: u32, row: &mut Row) -> Result<(), Failure> {
        let queries = self.asserted_queries(&self.database()?.snapshot()?, distance)?;
        let asked = AtomicBool::new(false);
        let begun = Instant::now();
        let (inserted, timed) = thread::scope(|scope| {
            let inserting = start(scope, || {
                let mut next = self.inserted;
                while !asked.load(Ordering::Relaxed) {
                    self.put_together(next..next + self.arguments.batch)?;
                    next += self.arguments.batch;
                }
                Ok::<u64, Failure>(next - self.inserted)
            })?;
            let mut timed = (Vec::new(), 0);
            let mut ask = || {
                for queries in queries.chunks(QUERIES_OF_A_SNAPSHOT) {
                    let snapshot = self.database()?.snapshot()?;
                    let (times, answers) = self::timed(queries, |query| {
                        Ok(snapshot.query(&query.limit(0))?.total())
                    })?;
                    timed.0.extend(times);
                    timed.1 += answers;
                }
                Ok::<(), Failure>(())
            };
            let asking = ask();
            asked.store(true, Ordering::Relaxed);
            let inserted = joined(inserting)?;
            asking.map(|()| (inserted, timed))
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        self.inserted += inserted;
        row.add_rounded("inserted_per_second", inserted as f64 / seconds);
        add_answers(row, distance, timed.0, timed.1);
        self.assert_stored()
    }

    /// The answers are checked after the timing: to check them is to read the file into memory.
    pub(crate) fn cold(&mut self, distance: u32, row: &mut Row) -> Result<(), Failure> {
        self.database = None;
        forget(&self.path)?;
        self.open()?;
        let snapshot = self.database()?.snapshot()?;
        let queries: Vec<Query> = self.queries(distance).map(|(query, _)| query).collect();
        let (times, answers) = timed(&queries, |query| {
            Ok(snapshot.query(&query.limit(0))?.total())
        })?;
        add_answers(row, distance, times, answers);
        self.asserted_queries(&snapshot, distance)?;
        Ok(())
    }

    /// The queries. Each comes with the number of the stored document that it was made from, if that is
    /// within `distance` and similar enough, has one of the scopes that are asked for, and was not deleted.
    fn queries(&self, distance: u32) -> impl Iterator<Item = (Query, Option<u64>)> {
        let mut near = Near::within(distance);
        if let Some(scopes) = self.arguments.asked_scopes() {
            near = near.scopes(scopes);
        }
        let any = Query::new(Fingerprint::from_bits(0)).near(near);
        (0..self.arguments.queries).map(move |number| {
            let (fingerprint, near) = self.collection.query(number, self.expired..self.inserted);
            let sketch = self.collection.query_sketch(number, near);
            let near = near.filter(|&near| {
                let is_near = self.collection.fingerprint(near).distance(fingerprint) <= distance
                    && self.is_similar(sketch, self.collection.sketch(near));
                is_near && self.is_live(near) && self.arguments.is_asked_for(near)
            });
            (
                any.clone()
                    .with_fingerprint(fingerprint)
                    .with_sketch(sketch),
                near,
            )
        })
    }

    /// The queries whose answers were checked: all, or as many as the time allows. A wrong answer is an
    /// error.
    fn asserted_queries(&self, snapshot: &Snapshot, distance: u32) -> Result<Vec<Query>, Failure> {
        let mut queries = Vec::new();
        let begun = Instant::now();
        for (query, near) in self.queries(distance) {
            let found = snapshot.query(&query.clone().limit(usize::MAX))?;
            let is_found = |near: u64| found.iter().any(|found| found.document.key() == key(near));
            let wrong = if near.is_some_and(|near| !is_found(near)) {
                Some("a match was missed")
            } else if snapshot.any_match(&query)? != (found.total() > 0) {
                Some("whether there is a match was told wrongly")
            } else {
                None
            };
            if let Some(wrong) = wrong {
                return Err(format!("{}: {wrong}", query.fingerprint()).into());
            }
            queries.push(query);
            if begun.elapsed() > LONGEST {
                break;
            }
        }
        let sample = &queries[..queries.len().min(SCANNED)];
        for (query, total) in queries.iter().zip(self.totals_by_scan(sample, distance)) {
            let found = snapshot.query(&query.clone().limit(0))?.total();
            if found != total {
                return Err(format!(
                    "{}: {found} matches, by a scan {total}",
                    query.fingerprint()
                )
                .into());
            }
        }
        Ok(queries)
    }

    fn totals_by_scan(&self, sample: &[Query], distance: u32) -> Vec<u64> {
        let mut totals = vec![0; sample.len()];
        let may_match =
            |number: &u64| self.is_live(*number) && self.arguments.is_asked_for(*number);
        for number in (self.expired..self.inserted).filter(may_match) {
            let fingerprint = self.collection.fingerprint(number);
            for (total, query) in totals.iter_mut().zip(sample) {
                let is_near = fingerprint.distance(query.fingerprint()) <= distance
                    && self.is_similar(query.sketch().copied(), self.collection.sketch(number));
                *total += u64::from(is_near);
            }
        }
        totals
    }
}

/// The time of each query, and the sum of the answers.
fn timed(
    queries: &[Query],
    answer: impl Fn(Query) -> simdb::Result<u64>,
) -> Result<(Vec<Duration>, u64), Failure> {
    let mut times = Vec::with_capacity(queries.len());
    let mut answers = 0;
    let all = Instant::now();
    for query in queries {
        let query = query.clone();
        let begun = Instant::now();
        answers += answer(query)?;
        times.push(begun.elapsed());
        if all.elapsed() > LONGEST {
            break;
        }
    }
    Ok((times, answers))
}

/// The same by several threads, each of which asks a part of the queries.
fn timed_by(
    threads: u64,
    queries: &[Query],
    answer: impl Fn(Query) -> simdb::Result<u64> + Sync,
) -> Result<(Vec<Duration>, u64), Failure> {
    let timed = thread::scope(|scope| {
        let parts = queries.chunks(queries.len().div_ceil(threads as usize).max(1));
        let mut running = Vec::new();
        for part in parts {
            running.push(start(scope, || timed(part, &answer))?);
        }
        running
            .into_iter()
            .map(joined)
            .collect::<Result<Vec<_>, Failure>>()
    })?;
    let answers = timed.iter().map(|(_, answers)| answers).sum();
    let times = timed.into_iter().flat_map(|(times, _)| times).collect();
    Ok((times, answers))
}

fn add_answers(row: &mut Row, distance: u32, times: Vec<Duration>, answers: u64) {
    row.add("max_distance", distance.into());
    row.add("queries", times.len() as u64);
    row.add("answers", answers);
    row.add_times("query", times, 1e6, "us");
}

/// Makes the system drop the pages of a file that it keeps in memory.
#[cfg(target_os = "linux")]
fn forget(path: &std::path::Path) -> Result<(), Failure> {
    let file = std::fs::File::open(path)?;
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
        .map_err(std::io::Error::from)?;
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn forget(_: &std::path::Path) -> Result<(), Failure> {
    Err("the phase cold knows only how to make Linux forget a file".into())
}
