//! The phase in which many threads submit documents to one writer, as crawlers do.
//!
//! Without a rate, each thread submits as fast as it can, and waits for its oldest answer when it has many
//! outstanding. With a rate, documents are submitted at even intervals, and the time from each submission to
//! its answer is measured. All answers are durable. Answers are checked on the way: a near-duplicate of
//! a document that was there before the phase must be found.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use simdb::{Policy, Ticket, Verdict, Writer, WriterOptions};

use crate::state::Bench;
use crate::state::Row;
use crate::{Failure, joined, start};

/// The longest time for which documents are submitted at a rate, in seconds.
const LONGEST_SECONDS: u64 = 10;

/// What the threads of the phase have found.
#[derive(Default)]
struct Found {
    near_duplicates: u64,
    /// From the submission to the answer. Empty without a rate.
    times: Vec<Duration>,
}

impl Bench<'_> {
    pub(crate) fn submit(&mut self, threads: u64, row: &mut Row) -> Result<(), Failure> {
        let rate = self.arguments.rate;
        let most = rate.map_or(u64::MAX, |rate| rate.saturating_mul(LONGEST_SECONDS));
        let documents = self.arguments.documents.min(most);
        let writer = self.database()?.writer(WriterOptions::new())?;
        let begun = Instant::now();
        let bench = &*self;
        let writing = &writer;
        let found = thread::scope(|scope| {
            let first = |thread: u64| bench.inserted + documents * thread / threads;
            let mut running = Vec::new();
            for thread in 0..threads {
                let numbers = first(thread)..first(thread + 1);
                running.push(start(scope, move || match rate {
                    None => bench.submit_all(writing, numbers),
                    Some(rate) => bench.submit_at(rate as f64 / threads as f64, writing, numbers),
                })?);
            }
            running
                .into_iter()
                .map(joined)
                .collect::<Result<Vec<Found>, Failure>>()
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        writer.close()?;
        self.inserted += documents;
        row.add("threads", threads);
        row.add("documents", documents);
        row.add_rounded("per_second", documents as f64 / seconds);
        row.add(
            "near_duplicates",
            found.iter().map(|found| found.near_duplicates).sum(),
        );
        if rate.is_some() {
            let times = found.into_iter().flat_map(|found| found.times).collect();
            row.add_times("answer", times, 1e3, "ms");
        }
        self.assert_stored()
    }

    fn submit_all(&self, writer: &Writer, numbers: Range<u64>) -> Result<Found, Failure> {
        let mut found = Found::default();
        let most = self.arguments.outstanding as usize;
        let mut outstanding: VecDeque<(u64, Ticket)> = VecDeque::new();
        for number in numbers {
            if outstanding.len() == most {
                // Then the others are answered too, mostly. So a thread wakes up for many answers.
                for (number, ticket) in outstanding.drain(..most.div_ceil(2)) {
                    self.check_verdict(number, &ticket.wait()?, &mut found.near_duplicates)?;
                }
            }
            let ticket = writer.submit(self.document(number), &Policy::link())?;
            outstanding.push_back((number, ticket));
        }
        for (number, ticket) in outstanding {
            self.check_verdict(number, &ticket.wait()?, &mut found.near_duplicates)?;
        }
        Ok(found)
    }

    fn submit_at(&self, rate: f64, writer: &Writer, numbers: Range<u64>) -> Result<Found, Failure> {
        let (send, answers) = mpsc::channel();
        let begun = Instant::now();
        for (index, number) in numbers.enumerate() {
            let due = Duration::from_secs_f64(index as f64 / rate);
            thread::sleep(due.saturating_sub(begun.elapsed()));
            let send = send.clone();
            let submitted = Instant::now();
            writer.submit_with(self.document(number), &Policy::link(), move |verdict| {
                _ = send.send((number, verdict, submitted.elapsed()));
            })?;
        }
        drop(send);
        let mut found = Found::default();
        for (number, verdict, time) in answers {
            self.check_verdict(number, &verdict?, &mut found.near_duplicates)?;
            found.times.push(time);
        }
        Ok(found)
    }

    pub(crate) fn check_verdict(
        &self,
        number: u64,
        verdict: &Verdict,
        near_duplicates: &mut u64,
    ) -> Result<(), Failure> {
        *near_duplicates += u64::from(verdict.is_duplicate());
        if !verdict.is_duplicate() && self.is_near_stored(number) {
            return Err(format!("document {number} was not found to be a near-duplicate").into());
        }
        Ok(())
    }
}
