//! The phases that change the database: they insert, replace and delete documents.

use std::ops::Range;
use std::time::{Duration, Instant};

use simdb::{Database, Document, Policy};

use crate::Failure;
use crate::state::Row;
use crate::state::{Bench, DELETED, key};

/// The time of a batch, and that of its commit alone.
pub(crate) struct Timed {
    /// From the beginning of the transaction to the end of its commit.
    pub(crate) all: Duration,
    pub(crate) commit: Duration,
}

impl Bench<'_> {
    pub(crate) fn build(&mut self, row: &mut Row) -> Result<(), Failure> {
        self.database = None;
        std::fs::remove_file(&self.path)?;
        let arguments = self.arguments;
        let documents = (0..arguments.documents).map(|number| Ok(self.document(number)));
        let begun = Instant::now();
        let database = Database::build(
            &self.path,
            &arguments.create_options(),
            documents,
            arguments.sorting_bytes(),
        )?;
        let seconds = begun.elapsed().as_secs_f64();
        row.add_rounded("seconds", seconds);
        row.add_rounded("per_second", arguments.documents as f64 / seconds);
        (self.database, self.inserted, self.deleted) = (Some(database), arguments.documents, false);
        Ok(())
    }

    pub(crate) fn insert(
        &mut self,
        documents: u64,
        batch: u64,
        row: &mut Row,
    ) -> Result<(), Failure> {
        let end = self.inserted + documents;
        self.put(self.inserted..end, batch, row)?;
        self.inserted = end;
        self.assert_stored()
    }

    /// Like [`insert`](Self::insert), but compares each document with all documents before it.
    pub(crate) fn link(&mut self, row: &mut Row) -> Result<(), Failure> {
        let (first, end) = (self.inserted, self.inserted + self.arguments.more());
        let mut near_duplicates = 0;
        self.measure_commits(first..end, self.arguments.batch, row, |numbers| {
            let documents: Vec<Document> = numbers
                .clone()
                .map(|number| self.document(number))
                .collect();
            let begun = Instant::now();
            let mut txn = self.database()?.begin_write()?;
            let mut verdicts = Vec::new();
            for documents in documents.chunks(self.arguments.together()) {
                verdicts.append(&mut txn.insert_batch_if_new(documents, &Policy::link())?);
            }
            let committing = Instant::now();
            txn.commit()?;
            let timed = Timed {
                all: begun.elapsed(),
                commit: committing.elapsed(),
            };
            for (number, verdict) in numbers.zip(verdicts) {
                near_duplicates += u64::from(verdict.is_duplicate());
                if !verdict.is_duplicate() && self.is_near_before(number) {
                    return Err(
                        format!("document {number} was not found to be a near-duplicate").into(),
                    );
                }
            }
            Ok(timed)
        })?;
        self.inserted = end;
        row.add("near_duplicates", near_duplicates);
        self.assert_stored()
    }

    fn is_near_before(&self, number: u64) -> bool {
        self.is_near_one_that(number, |before| {
            before >= self.inserted || self.is_live(before)
        })
    }

    /// Whether a document is near to one that was stored before this phase.
    pub(crate) fn is_near_stored(&self, number: u64) -> bool {
        self.is_near_one_that(number, |before| self.is_live(before))
    }

    fn is_near_one_that(&self, number: u64, holds: impl Fn(u64) -> bool) -> bool {
        let fingerprint = |number| self.collection.fingerprint(number);
        let sketch = |number| self.collection.sketch(number);
        let before = self
            .collection
            .near_before(number)
            .filter(|&before| holds(before));
        before.is_some_and(|before| {
            fingerprint(number).distance(fingerprint(before)) <= self.arguments.max_distance
                && self.is_similar(sketch(number), sketch(before))
        })
    }

    pub(crate) fn replace(&mut self, row: &mut Row) -> Result<(), Failure> {
        self.replaced += 1;
        self.collection = self.arguments.collection(self.replaced)?;
        self.put(0..self.inserted, self.arguments.batch, row)?;
        self.deleted = false;
        self.assert_stored()
    }

    /// Inserts documents, `batch` per commit. Documents that are already stored are replaced.
    fn put(&self, numbers: Range<u64>, batch: u64, row: &mut Row) -> Result<(), Failure> {
        self.measure_commits(numbers, batch, row, |numbers| self.put_together(numbers))
    }

    /// Measures the commits of documents, `batch` per commit. `commit` writes one batch.
    fn measure_commits(
        &self,
        numbers: Range<u64>,
        batch: u64,
        row: &mut Row,
        mut commit: impl FnMut(Range<u64>) -> Result<Timed, Failure>,
    ) -> Result<(), Failure> {
        let documents = numbers.end - numbers.start;
        let mut commits = Vec::new();
        let mut all = Duration::ZERO;
        let mut reported = Instant::now();
        let mut next = numbers.start;
        while next < numbers.end {
            let end = numbers.end.min(next + batch);
            let timed = commit(next..end)?;
            commits.push(timed.commit);
            all += timed.all;
            next = end;
            if reported.elapsed() > Duration::from_secs(10) {
                reported = Instant::now();
                let put = next - numbers.start;
                let rate = put as f64 / all.as_secs_f64();
                self.remark(&format!("{put} documents inserted, {rate:.0} per second"));
            }
        }
        let seconds = all.as_secs_f64();
        row.add("documents", documents);
        row.add_rounded("seconds", seconds);
        row.add_rounded("per_second", documents as f64 / seconds);
        row.add_times("commit", commits, 1e3, "ms");
        Ok(())
    }

    /// Inserts documents and commits them together.
    pub(crate) fn put_together(&self, numbers: Range<u64>) -> Result<Timed, Failure> {
        let begun = Instant::now();
        let mut txn = self.database()?.begin_write()?;
        for number in numbers {
            let replaced = txn.insert(&self.document(number))?;
            if replaced.is_some() != self.is_live(number) {
                return Err(format!("the key of document {number} was there, or was not").into());
            }
        }
        let committing = Instant::now();
        txn.commit()?;
        Ok(Timed {
            all: begun.elapsed(),
            commit: committing.elapsed(),
        })
    }

    pub(crate) fn delete(&mut self, row: &mut Row) -> Result<(), Failure> {
        let end = self.arguments.documents.min(self.inserted);
        let numbers: Vec<u64> = (0..end).filter(|number| number % 10 == DELETED).collect();
        let mut commits = Vec::new();
        let begun = Instant::now();
        for numbers in numbers.chunks(self.arguments.batch as usize) {
            let mut txn = self.database()?.begin_write()?;
            for &number in numbers {
                if txn.delete(key(number))?.is_none() {
                    return Err(format!("document {number} was not there").into());
                }
            }
            let committing = Instant::now();
            txn.commit()?;
            commits.push(committing.elapsed());
        }
        let seconds = begun.elapsed().as_secs_f64();
        self.deleted = true;
        row.add("documents", numbers.len() as u64);
        row.add_rounded("per_second", numbers.len() as f64 / seconds);
        row.add_times("commit", commits, 1e3, "ms");
        self.assert_stored()
    }
}
