//! The phases in which old documents go: an expiry beside another writer, and a window that moves over a stream.

use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use simdb::{Document, Expiry};

use crate::state::Row;
use crate::state::{Bench, OF_A_SECOND, seen};
use crate::{Failure, joined, start};

/// The window of a stream moves in this number of parts for each turnover.
const PARTS: u64 = 20;
/// The commits of the last of this number of turnovers are compared with those of a fresh file.
const LAST_TURNOVERS: u64 = 5;
/// The other writer of the phase `expire` commits this number of documents, then pauses.
const BESIDE: u64 = 100;
const PAUSE: Duration = Duration::from_millis(2);

/// How long the other writer waited to begin, and how long its commits took.
type Waits = (Vec<Duration>, Vec<Duration>);

impl Bench<'_> {
    /// Removes the older half of all documents, while another thread commits now and then.
    pub(crate) fn expire(&mut self, row: &mut Row) -> Result<(), Failure> {
        let end = (self.expired + self.inserted) / 2 / OF_A_SECOND * OF_A_SECOND;
        let is_done = AtomicBool::new(false);
        let begun = Instant::now();
        let (removed, took, waits, commits) = thread::scope(|scope| {
            let writing = start(scope, || self.write_beside(&is_done))?;
            let removed = self.expire_before(end);
            let took = begun.elapsed();
            is_done.store(true, Ordering::Relaxed);
            let (waits, commits) = joined(writing)?;
            Ok::<_, Failure>((removed?, took, waits, commits))
        })?;
        if removed != end - self.expired {
            return Err(format!(
                "{removed} documents were removed, not {}",
                end - self.expired
            )
            .into());
        }
        self.expired = end;
        self.inserted += BESIDE * commits.len() as u64;
        row.add("documents", removed);
        row.add_rounded("seconds", took.as_secs_f64());
        row.add_rounded("per_second", removed as f64 / took.as_secs_f64());
        row.add("commits_beside", commits.len() as u64);
        row.add_times("wait", waits, 1e3, "ms");
        row.add_times("commit", commits, 1e3, "ms");
        self.assert_stored()
    }

    fn write_beside(&self, is_done: &AtomicBool) -> Result<Waits, Failure> {
        let mut waits = Vec::new();
        let mut commits = Vec::new();
        let mut next = self.inserted;
        while !is_done.load(Ordering::Relaxed) {
            let begun = Instant::now();
            let mut txn = self.database()?.begin_write()?;
            waits.push(begun.elapsed());
            let documents: Vec<Document> = (next..next + BESIDE)
                .map(|number| self.document(number))
                .collect();
            documents
                .iter()
                .try_for_each(|document| txn.insert(document).map(drop))?;
            let committing = Instant::now();
            txn.commit()?;
            commits.push(committing.elapsed());
            next += BESIDE;
            thread::sleep(PAUSE);
        }
        Ok((waits, commits))
    }

    fn expire_before(&self, end: u64) -> simdb::Result<u64> {
        let Some(database) = &self.database else {
            return Ok(0);
        };
        database.expire(&Expiry::new().before(seen(end)), |_| {
            ControlFlow::Continue(())
        })
    }

    /// Fills a file, then lets a window of as many documents move over a stream, and compares the end with
    /// the beginning.
    pub(crate) fn window(&mut self, distance: u32, row: &mut Row) -> Result<(), Failure> {
        let window = self.arguments.documents / OF_A_SECOND * OF_A_SECOND;
        let part = (window / PARTS).max(1);
        let fresh_commits = self.stream(window, part, None)?;
        let fresh = self.measure_window(distance, fresh_commits)?;
        let begun = Instant::now();
        let mut commits = Vec::new();
        for turnover in 1..=self.arguments.turnovers() {
            let took = self.stream(window, part, Some(window))?;
            self.remark(&format!(
                "turnover {turnover}, {:.0} s",
                begun.elapsed().as_secs_f64()
            ));
            if turnover + LAST_TURNOVERS > self.arguments.turnovers() {
                commits.extend(took);
            }
        }
        let streamed = window * self.arguments.turnovers();
        row.add("turnovers", self.arguments.turnovers());
        row.add_rounded(
            "per_second",
            streamed as f64 / begun.elapsed().as_secs_f64(),
        );
        let moved = self.measure_window(distance, commits)?;
        for (name, fresh, moved) in [
            ("size_bytes", fresh.bytes, moved.bytes),
            ("query_us", fresh.query_us, moved.query_us),
            ("commit_p99_ms", fresh.commit_ms, moved.commit_ms),
        ] {
            row.add_rounded(&format!("fresh_{name}"), fresh);
            row.add_rounded(name, moved);
            row.add_rounded(&format!("{name}_ratio"), moved / fresh);
        }
        self.assert_stored()
    }

    /// Inserts documents. After each part, all but the last `window` go. Returns the times of the commits.
    fn stream(
        &mut self,
        documents: u64,
        part: u64,
        window: Option<u64>,
    ) -> Result<Vec<Duration>, Failure> {
        let mut commits = Vec::new();
        let end = self.inserted + documents;
        while self.inserted < end {
            let part_end = end.min(self.inserted + part);
            while self.inserted < part_end {
                let batch: Range<u64> =
                    self.inserted..part_end.min(self.inserted + self.arguments.batch);
                commits.push(self.put_together(batch.clone())?.commit);
                self.inserted = batch.end;
            }
            if let Some(window) = window {
                let first = self.inserted.saturating_sub(window) / OF_A_SECOND * OF_A_SECOND;
                let removed = self.expire_before(first)?;
                if removed != first.saturating_sub(self.expired) {
                    return Err(format!("{removed} documents were removed").into());
                }
                self.expired = self.expired.max(first);
            }
        }
        Ok(commits)
    }

    fn measure_window(
        &mut self,
        distance: u32,
        mut commits: Vec<Duration>,
    ) -> Result<Measured, Failure> {
        self.database()?.settle()?;
        let bytes = self.database()?.snapshot()?.stats()?.allocated_bytes as f64;
        let query_us = self.median_query(distance)?.as_secs_f64() * 1e6;
        commits.sort_unstable();
        let index = (commits.len() * 99 / 100).min(commits.len().saturating_sub(1));
        let commit_ms = commits
            .get(index)
            .copied()
            .unwrap_or_default()
            .as_secs_f64()
            * 1e3;
        Ok(Measured {
            bytes,
            query_us,
            commit_ms,
        })
    }
}

/// What is compared.
struct Measured {
    bytes: f64,
    /// The median of the queries.
    query_us: f64,
    /// The 99th percentile of the commits.
    commit_ms: f64,
}
