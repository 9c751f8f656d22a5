//! The phase in which many threads submit documents to one writer, as crawlers do.
//!
//! Without a rate, each thread submits as fast as it can, and waits for its oldest answer when it has many
//! outstanding. With a rate, documents are submitted at even intervals, and the time from each submission to
//! its answer is measured. All answers are durable. Answers are checked on the way: a near-duplicate of
//! a document that was there before the phase must be found.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::{Error, Policy, Ticket, Verdict, Writer, WriterOptions};

use super::row::Row;
use super::state::Bench;
use crate::cli::answer::Failure;

/// The answers that a thread may have outstanding.
const OUTSTANDING: usize = 2_000;

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
    pub(super) fn submit(&mut self, threads: u64, row: &mut Row) -> Result<(), Failure> {
        let rate = self.arguments.rate;
        let most = rate.map_or(u64::MAX, |rate| rate.get().saturating_mul(LONGEST_SECONDS));
        let documents = self.arguments.documents.min(most);
        let writer = self.database()?.writer(WriterOptions::new())?;
        let begun = Instant::now();
        let bench = &*self;
        let found = thread::scope(|scope| {
            let each = |thread: u64| {
                let share = |thread: u64| bench.inserted + documents * thread / threads;
                let (writer, numbers) = (&writer, share(thread)..share(thread + 1));
                thread::Builder::new().spawn_scoped(scope, move || match rate {
                    None => bench.submit_all(writer, numbers),
                    Some(rate) => {
                        bench.submit_at(rate.get() as f64 / threads as f64, writer, numbers)
                    }
                })
            };
            let threads = (0..threads)
                .map(each)
                .collect::<io::Result<Vec<_>>>()
                .map_err(Error::no_thread)?;
            let joined = threads
                .into_iter()
                .map(|it| it.join().map_err(|_| "a thread has panicked")?);
            joined.collect::<Result<Vec<Found>, Failure>>()
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        writer.close()?;
        self.inserted += documents;
        row.add("threads", threads);
        row.add("documents", documents);
        row.add_rounded("per_second", documents as f64 / seconds);
        row.add(
            "near_duplicates",
            found.iter().map(|it| it.near_duplicates).sum(),
        );
        if rate.is_some() {
            let times = found.into_iter().flat_map(|it| it.times).collect();
            row.add_times("answer", times, 1e3, "ms");
        }
        self.assert_stored()
    }

    fn submit_all(&self, writer: &Writer, numbers: Range<u64>) -> Result<Found, Failure> {
        let mut found = Found::default();
        let mut outstanding: VecDeque<(u64, Ticket)> = VecDeque::new();
        let check = |found: &mut Found, (number, ticket): (u64, Ticket)| {
            self.check_verdict(number, &ticket.wait()?, &mut found.near_duplicates)
        };
        for number in numbers {
            if outstanding.len() == OUTSTANDING {
                // Then the others are answered too, mostly. So a thread wakes up for many answers.
                let half = outstanding.drain(..OUTSTANDING / 2);
                half.into_iter().try_for_each(|it| check(&mut found, it))?;
            }
            outstanding.push_back((
                number,
                writer.submit(self.document(number), &Policy::link())?,
            ));
        }
        outstanding
            .into_iter()
            .try_for_each(|it| check(&mut found, it))?;
        Ok(found)
    }

    fn submit_at(&self, rate: f64, writer: &Writer, numbers: Range<u64>) -> Result<Found, Failure> {
        let (send, answers) = mpsc::channel();
        let begun = Instant::now();
        for (index, number) in numbers.enumerate() {
            let due = Duration::from_secs_f64(index as f64 / rate);
            thread::sleep(due.saturating_sub(begun.elapsed()));
            let (send, submitted) = (send.clone(), Instant::now());
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

    fn check_verdict(
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
