//! One writer for many threads: order, fairness, groups, bounds, and the way from open to closed.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use simdb::{
    Answers, Database, Document, Error, Fingerprint, Near, OpenOptions, Policy, Ticket, TrySubmit,
    Verdict, Writer, WriterOptions,
};

use crate::support::random::Random;
use crate::support::{
    Folder, LIMIT, TestResult, all_documents, assert_error, assert_sound, document,
    in_one_of_five_tries, insert_all, numbered, spread, stored, wait_until, within,
};

/// So long that nobody sleeps it out.
const FOR_EVER: Duration = Duration::from_secs(1 << 40);

/// Runs `work` in threads at the same time, and returns what they return.
fn in_threads<T: Send + 'static>(
    count: u64,
    work: impl Fn(u64) -> T + Send + Sync + 'static,
) -> Vec<T> {
    let (work, ready) = (Arc::new(work), Arc::new(Barrier::new(count as usize)));
    within(LIMIT, move || {
        let threads: Vec<_> = (0..count)
            .map(|number| {
                let (work, ready) = (work.clone(), ready.clone());
                thread::spawn(move || {
                    ready.wait();
                    work(number)
                })
            })
            .collect();
        threads
            .into_iter()
            .map(|it| it.join().expect("no thread panics"))
            .collect()
    })
}

/// What these tests are made of.
impl Random {
    fn document(&mut self) -> Document {
        let bits = [0, 0xffff_0000_ffff_0000][self.below(2) as usize]
            ^ 1 << self.below(64)
            ^ 1 << self.below(8);
        let fingerprint = (self.below(20) > 0).then(|| Fingerprint::from_bits(bits));
        Document::new(format!("key {}", self.below(60)), fingerprint)
            .with_seen(self.below(100) as i64)
            .with_rank([self.below(3) as i64])
            .with_scope(["", "en", "de"][self.below(3) as usize])
    }

    fn policy(&mut self) -> Policy {
        let policy =
            [Policy::link(), Policy::skip(), Policy::replace()][self.below(3) as usize].clone();
        let mut near = Near::within(self.below(4) as u32);
        let limit = self.below(4) as usize;
        if self.below(3) == 0 {
            near = near.since(50);
        }
        if self.below(3) == 0 {
            near = near.scopes(["en"]);
        }
        policy.near(near).limit(limit)
    }
}

/// Something that was submitted, and its answer.
#[derive(Clone)]
enum Done {
    Inserted(Box<(Document, Policy, Verdict)>),
    Deleted(String, Option<Document>),
}

/// Does the same one by one in a database of its own, and compares answers and content.
fn assert_explained(folder: &Folder, database: &Database, history: &[Done]) -> TestResult {
    let alone = folder.tiny_database("alone.simdb")?;
    for (index, done) in history.iter().enumerate() {
        let mut txn = alone.begin_write()?;
        match done {
            Done::Inserted(inserted) => {
                let (document, policy, verdict) = &**inserted;
                let again = txn.insert_if_new(document, policy)?;
                assert_eq!(again, *verdict, "submission {index}");
            }
            Done::Deleted(key, deleted) => {
                assert_eq!(txn.delete(key)?, *deleted, "submission {index}");
            }
        }
        txn.commit()?;
    }
    let content = |database: &Database| -> simdb::Result<Vec<Document>> {
        let mut all = all_documents(database)?;
        all.sort_by(|a, b| a.key().cmp(b.key()));
        Ok(all)
    };
    assert_eq!(content(database)?, content(&alone)?);
    Ok(assert_sound(database)?)
}

/// The order of decisions is that of the callbacks, which come from one thread.
#[test]
fn what_many_threads_get_is_explained_by_one_order() -> TestResult {
    let folder = Folder::new()?;
    let database = Arc::new(folder.tiny_database("d.simdb")?);
    let options = WriterOptions::new()
        .batch(17)
        .queue(5)
        .max_age(Duration::from_micros(300));
    let writer = database.writer(options)?;
    let history: Arc<Mutex<Vec<(u64, u64, Done)>>> = Arc::default();
    in_threads(6, {
        let (writer, history) = (writer.clone(), history.clone());
        move |thread| {
            let mut random = Random::new(thread);
            for index in 0..150 {
                let (document, policy, history) =
                    (random.document(), random.policy(), history.clone());
                let (asked, asked_policy) = (document.clone(), policy.clone());
                let note = move |verdict: simdb::Result<Verdict>| {
                    let done = Done::Inserted(Box::new((
                        asked,
                        asked_policy,
                        verdict.expect("nothing fails"),
                    )));
                    history
                        .lock()
                        .expect("nobody panics")
                        .push((thread, index, done));
                };
                writer
                    .submit_with(document, &policy, note)
                    .expect("the writer is open");
            }
        }
    });
    writer.close()?;
    let history = history.lock().expect("nobody panics");
    assert_eq!(history.len(), 900);
    for thread in 0..6 {
        let own = history.iter().filter(|it| it.0 == thread).map(|it| it.1);
        assert!(
            own.eq(0..150),
            "the answers of thread {thread} are out of order"
        );
    }
    let history: Vec<Done> = history.iter().map(|it| it.2.clone()).collect();
    assert_explained(&folder, &database, &history)
}

/// Here the order of submission is known, since a lock is held while something is submitted.
#[test]
fn insertions_and_removals_are_decided_in_the_order_of_submission() -> TestResult {
    enum Asked {
        Insert(Box<(Document, Policy)>, Ticket),
        Delete(String, Ticket<Option<Document>>),
    }
    let folder = Folder::new()?;
    let database = Arc::new(folder.tiny_database("d.simdb")?);
    let writer = database.writer(
        WriterOptions::new()
            .batch(10)
            .max_age(Duration::from_micros(300)),
    )?;
    let order: Arc<Mutex<Vec<Asked>>> = Arc::default();
    in_threads(5, {
        let (writer, order) = (writer.clone(), order.clone());
        move |thread| {
            let mut random = Random::new(thread + 100);
            for index in 0..120 {
                let mut order = order.lock().expect("nobody panics");
                if random.below(4) == 0 {
                    let key = format!("key {}", random.below(60));
                    let ticket = writer
                        .submit_delete(key.clone())
                        .expect("the writer is open");
                    order.push(Asked::Delete(key, ticket));
                } else {
                    let (document, policy) = (random.document(), random.policy());
                    let ticket = writer
                        .submit(document.clone(), &policy)
                        .expect("the writer is open");
                    order.push(Asked::Insert(Box::new((document, policy)), ticket));
                }
                drop(order);
                if index % 30 == 0 {
                    writer.flush().expect("nothing fails");
                }
            }
        }
    });
    let order = std::mem::take(&mut *order.lock().expect("nobody panics"));
    let done = order.into_iter().map(|asked| {
        Ok(match asked {
            Asked::Insert(asked, ticket) => {
                let (document, policy) = *asked;
                Done::Inserted(Box::new((document, policy, ticket.wait()?)))
            }
            Asked::Delete(key, ticket) => Done::Deleted(key, ticket.wait()?),
        })
    });
    let done = done.collect::<simdb::Result<Vec<_>>>()?;
    assert_explained(&folder, &database, &done)
}

#[test]
fn of_two_threads_with_the_same_page_exactly_one_is_first_a_thousand_times() -> TestResult {
    const ROUNDS: u64 = 1_000;
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new())?;
    let round = Arc::new(Barrier::new(2));
    let new: Vec<Vec<bool>> = in_threads(2, move |thread| {
        let each = |number: u64| {
            // A fingerprint that is three bits away, and a key of its own.
            let bits = spread(number) ^ (thread * 0b111);
            let document = document(format!("{number} of {thread}"), bits);
            round.wait();
            !writer
                .insert_if_new(&document, &Policy::skip())
                .expect("nothing fails")
                .is_duplicate()
        };
        (0..ROUNDS).map(each).collect()
    });
    let twice: Vec<_> = (0..ROUNDS as usize)
        .filter(|&round| new[0][round] == new[1][round])
        .collect();
    assert!(twice.is_empty(), "both or none were new: {twice:?}");
    assert_eq!(stored(&database)?, ROUNDS);
    Ok(())
}

/// The age is for those who do not wait. With a commit only when it is over, one caller alone would get an answer
/// after the age, however short its commit is.
#[test]
fn nobody_sleeps_out_the_age_when_all_wait() -> TestResult {
    let folder = Folder::new()?;
    let database = Arc::new(folder.database("d.simdb")?);
    let writer = database.writer(WriterOptions::new().max_age(FOR_EVER))?;
    // One after the other, alone.
    let alone = writer.clone();
    within(LIMIT, move || {
        (0..20).try_for_each(|i| alone.insert_if_new(&numbered(i), &Policy::link()).map(drop))
    })?;
    // Many at once.
    let together = writer.clone();
    in_threads(8, move |thread| {
        for i in 0..20 {
            together
                .insert_if_new(&numbered(100 + thread * 20 + i), &Policy::link())
                .expect("nothing fails");
        }
    });
    // Some with many outstanding. They wait for the first answer only.
    let many = writer.clone();
    in_threads(4, move |thread| {
        let submit = |i| many.submit(numbered(1_000 + thread * 50 + i), &Policy::link());
        let mut tickets: Vec<Ticket> = (0..50)
            .map(|i| submit(i).expect("the writer is open"))
            .collect();
        tickets.remove(0).wait().expect("nothing fails");
        for ticket in tickets {
            ticket.wait().expect("nothing fails");
        }
    });
    // Removals and flushes too.
    let flushing = writer.clone();
    within(LIMIT, move || {
        assert!(flushing.submit_delete("7")?.wait()?.is_some());
        assert!(flushing.submit_delete("7")?.wait()?.is_none());
        drop(flushing.submit(numbered(7), &Policy::link())?);
        flushing.flush()
    })?;
    assert_eq!(stored(&database)?, 20 + 160 + 200);
    Ok(())
}

#[test]
fn what_nobody_waits_for_is_committed_when_it_is_old_or_the_group_is_full() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let answered = |options, documents: u64| {
        let (send, receive) = mpsc::channel();
        let writer = database.writer(options)?;
        for i in 0..documents {
            let send = send.clone();
            writer.submit_with(numbered(i), &Policy::link(), move |verdict| {
                _ = send.send(verdict.is_ok());
            })?;
        }
        drop(send);
        let answers = receive.iter().take(documents as usize).collect::<Vec<_>>();
        assert_eq!(answers, vec![true; documents as usize]);
        Ok::<_, Error>(writer)
    };
    let begun = Instant::now();
    answered(WriterOptions::new().max_age(Duration::from_millis(50)), 3)?;
    assert!(
        begun.elapsed() >= Duration::from_millis(50),
        "it waits for others"
    );
    answered(WriterOptions::new().max_age(FOR_EVER).batch(10), 40)?;
    Ok(())
}

/// With a queue that lets in whoever comes at the right moment, some threads got a hundredth of others.
///
/// A thread that loses its processor before it stands in the line is overtaken now and then, and gets less.
#[test]
fn threads_before_a_full_queue_get_equal_shares() -> TestResult {
    const THREADS: u64 = 8;
    const QUEUE: u64 = 4;
    /// The submissions of all threads.
    const ALL: u64 = 4_000;
    in_one_of_five_tries(|_| {
        let folder = Folder::new()?;
        let database = folder.database("d.simdb")?;
        let writer = database.writer(WriterOptions::new().queue(QUEUE as usize))?;
        let let_in = AtomicU64::new(0);
        let counts = in_threads(THREADS, move |thread| {
            let (mut all, mut overtaken, mut tickets) = (0u64, 0u64, Vec::new());
            while let_in.load(Ordering::SeqCst) < ALL || all < 10 {
                let before = let_in.load(Ordering::SeqCst);
                tickets.push(
                    writer
                        .submit(numbered(thread << 32 | all), &Policy::link())
                        .expect("it is open"),
                );
                let others = let_in.fetch_add(1, Ordering::SeqCst) - before;
                all += 1;
                overtaken += u64::from(others > THREADS + QUEUE);
            }
            tickets
                .into_iter()
                .for_each(|ticket| drop(ticket.wait().expect("nothing fails")));
            (overtaken, all)
        });
        let least = counts.iter().map(|it| it.1).min().unwrap_or(0);
        let most = counts.iter().map(|it| it.1).max().unwrap_or(0);
        let is_fair =
            least * 3 > most && counts.iter().all(|(overtaken, all)| overtaken * 5 < *all);
        Ok((!is_fair).then(|| format!("{counts:?}")))
    })
}

#[test]
fn a_document_out_of_bounds_fails_alone() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new().max_age(FOR_EVER))?;
    let submit = |document, policy: Policy| writer.submit(document, &policy);
    let tickets = [
        submit(numbered(1), Policy::link())?,
        submit(numbered(2).with_scope("s".repeat(256)), Policy::link())?,
        submit(numbered(3), Policy::link().near(65))?,
        submit(document("", 4), Policy::link())?,
        submit(numbered(5), Policy::skip())?,
    ];
    assert_error!(writer.submit_delete("") => Error::KeyLength { bytes: 0, .. });
    writer.flush()?;
    let answers: Vec<_> = tickets.into_iter().map(Ticket::wait).collect();
    assert!(answers[0].is_ok() && answers[4].is_ok(), "{answers:?}");
    assert_error!(&answers[1] => Error::ScopeLength { bytes: 256, .. });
    assert_error!(&answers[2] => Error::MaxDistance { given: 65, .. });
    assert_error!(&answers[3] => Error::KeyLength { bytes: 0, .. });
    assert_eq!(stored(&database)?, 2);
    Ok(())
}

#[test]
fn a_full_queue_makes_threads_wait_and_gives_documents_back() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    for options in [
        WriterOptions::new().queue(3),
        WriterOptions::new().queue_bytes(1),
    ] {
        let writer = database.writer(options)?;
        // As long as this transaction is open, nothing is decided.
        let txn = database.begin_write()?;
        let mut tickets = vec![writer.submit(numbered(0), &Policy::link())?];
        // The thread takes that, once, and waits for the transaction.
        wait_until("the thread of the writer", || {
            database.metrics().queue_length == 0
        });
        let full = loop {
            match writer.try_submit(numbered(tickets.len() as u64), &Policy::link())? {
                TrySubmit::Accepted(ticket) => tickets.push(ticket),
                TrySubmit::Full(document) => break document,
            }
        };
        assert!((2..=4).contains(&tickets.len()), "{}", tickets.len());
        assert_eq!(full.document, numbered(tickets.len() as u64).with_seen(0));
        // This thread would wait for the queue, which waits for the transaction of this thread.
        assert_error!(writer.submit(full.clone(), &Policy::link()) => Error::WouldDeadlock);
        let (entered, enters) = mpsc::channel();
        let waiting = thread::spawn({
            let writer = writer.clone();
            move || {
                let ticket = writer.submit(full, &Policy::link())?;
                _ = entered.send(());
                ticket.wait()
            }
        });
        assert!(
            enters.recv_timeout(Duration::from_millis(100)).is_err(),
            "it has to wait"
        );
        drop(txn);
        within(LIMIT, move || waiting.join().expect("it does not panic"))?;
        within(LIMIT, move || writer.close())?;
        assert!(tickets.into_iter().all(|ticket| ticket.wait().is_ok()));
    }
    Ok(())
}

/// Nothing more fits, so there is nothing to wait for.
#[test]
fn a_full_queue_is_committed_before_its_age() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    for options in [
        WriterOptions::new().queue(3),
        WriterOptions::new().queue_bytes(1),
    ] {
        let writer = database.writer(options.max_age(FOR_EVER))?;
        let submitting = writer.clone();
        within(LIMIT, move || -> simdb::Result<()> {
            for i in 0..20 {
                drop(submitting.submit(numbered(i), &Policy::link())?);
            }
            let mut document = numbered(20);
            loop {
                match submitting.try_submit(document, &Policy::link())? {
                    TrySubmit::Accepted(_) => return Ok(()),
                    TrySubmit::Full(again) => document = again.document,
                }
            }
        })?;
        writer.close()?;
        assert_eq!(stored(&database)?, 21);
    }
    Ok(())
}

#[test]
fn dropping_the_last_handle_makes_everything_durable() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new().max_age(FOR_EVER))?;
    let second = writer.clone();
    let tickets: Vec<Ticket> = (0..100)
        .map(|i| second.submit(numbered(i), &Policy::link()))
        .collect::<Result<_, _>>()?;
    drop(writer);
    second.submit(numbered(100), &Policy::link())?.wait()?;
    drop(second.submit(numbered(101), &Policy::link())?);
    within(LIMIT, move || drop(second));
    assert_eq!(stored(&database)?, 102);
    for ticket in tickets {
        ticket.wait()?;
    }
    // The handle keeps the database open until it is dropped.
    let writer = database.writer(WriterOptions::new())?;
    drop(database);
    writer.insert_if_new(&numbered(102), &Policy::link())?;
    let ticket = writer.submit(numbered(103), &Policy::link())?;
    drop(writer);
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    assert_eq!(stored(&database)?, 104);
    assert!(
        ticket.wait().is_ok(),
        "a ticket does not keep the database open"
    );
    Ok(())
}

#[test]
fn a_closed_writer_refuses_and_says_so() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new().max_age(FOR_EVER))?;
    let second = writer.clone();
    drop(second.submit(numbered(1), &Policy::link())?);
    writer.close()?;
    writer.close()?;
    assert_eq!(stored(&database)?, 1);
    assert_error!(second.submit(numbered(2), &Policy::link()) => Error::WriterClosed);
    assert_error!(second.try_submit(numbered(2), &Policy::link()) => Error::WriterClosed);
    assert_error!(second.submit_delete("1") => Error::WriterClosed);
    assert_error!(second.flush() => Error::WriterClosed);
    let reading = || Database::open(folder.path("d.simdb"), &OpenOptions::new().read_only(true));
    assert_error!(reading() => Error::Busy { .. });
    drop((writer, second, database));
    assert_error!(reading()?.writer(WriterOptions::new()) => Error::ReadOnly);
    Ok(())
}

/// The writer waits for the transaction, and the thread of the transaction for the writer.
#[test]
fn a_thread_with_a_transaction_cannot_wait_for_the_writer() -> TestResult {
    let folder = Folder::new()?;
    let database = Arc::new(folder.database("d.simdb")?);
    let writer = database.writer(WriterOptions::new())?;
    within(LIMIT, {
        let database = database.clone();
        move || {
            let txn = database.begin_write()?;
            let ticket = writer.submit(numbered(1), &Policy::link())?;
            assert_error!(ticket.wait() => Error::WouldDeadlock);
            assert_error!(
                writer.insert_if_new(&numbered(2), &Policy::link()) => Error::WouldDeadlock
            );
            assert_error!(writer.submit_delete("1")?.wait() => Error::WouldDeadlock);
            assert_error!(writer.flush() => Error::WouldDeadlock);
            assert_error!(writer.close() => Error::WouldDeadlock);
            // Its thread ends by itself.
            drop(writer);
            txn.commit()
        }
    })?;
    // What was submitted is done all the same: two documents come, and one of them is removed.
    let is_stored = |key: &str| {
        let found = database.snapshot().and_then(|snapshot| snapshot.get(key));
        found.is_ok_and(|found| found.is_some())
    };
    wait_until("what was submitted", || is_stored("2") && !is_stored("1"));
    Ok(())
}

#[test]
fn a_callback_may_neither_wait_for_the_writer_nor_end_it() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new())?;
    let (send, receive) = mpsc::channel();
    let own = writer.clone();
    let answered = move |_: simdb::Result<Verdict>| {
        let refused = own.insert_if_new(&numbered(2), &Policy::link());
        // It may submit, if it does not wait.
        let submitted = own.submit(numbered(3), &Policy::link()).map(drop);
        _ = send.send((refused, submitted));
    };
    writer.submit_with(numbered(1), &Policy::link(), answered)?;
    let (refused, submitted) = within(LIMIT, move || {
        receive.recv().expect("the callback is called")
    });
    assert_error!(refused => Error::WouldDeadlock);
    submitted?;
    // One that holds the last handle.
    let last = database.writer(WriterOptions::new())?;
    let own = last.clone();
    last.submit_with(numbered(4), &Policy::link(), move |_| drop(own))?;
    drop(last);
    writer.flush()?;
    // The other writer ends by itself.
    wait_until("the last", || {
        stored(&database).is_ok_and(|count| count == 4)
    });
    Ok(())
}

#[test]
fn transactions_and_a_writer_do_not_starve_each_other() -> TestResult {
    /// The documents of all threads.
    const ALL: u64 = 900;
    in_one_of_five_tries(|_| {
        let folder = Folder::new()?;
        let database = Arc::new(folder.database("d.simdb")?);
        let writer = database.writer(WriterOptions::new())?;
        let counts = in_threads(3, {
            let database = database.clone();
            let written = AtomicU64::new(0);
            move |thread| {
                let mut count = 0u64;
                while written.fetch_add(1, Ordering::Relaxed) < ALL {
                    let document = numbered(thread << 32 | count);
                    if thread == 0 {
                        insert_all(&database, [document]).expect("nothing fails");
                    } else {
                        writer
                            .insert_if_new(&document, &Policy::link())
                            .expect("nothing fails");
                    }
                    count += 1;
                }
                count
            }
        });
        assert_eq!(stored(&database)?, counts.iter().sum::<u64>());
        let least = counts.iter().min().copied().unwrap_or(0);
        let most = counts.iter().max().copied().unwrap_or(0);
        let is_fair = least > 5 && least * 4 > most;
        Ok((!is_fair).then(|| format!("{counts:?}")))
    })
}

#[test]
fn answers_come_before_durability_if_asked_for() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new().answers(Answers::Decided))?;
    let mut keys = HashSet::new();
    for i in 0..200 {
        let verdict = writer.insert_if_new(&numbered(i % 150), &Policy::link())?;
        assert_eq!(
            keys.insert(i % 150),
            *verdict.change() == simdb::Change::Inserted
        );
        // The commit comes later.
        assert!(stored(&database)? <= keys.len() as u64);
    }
    assert_eq!(
        writer
            .submit_delete("3")?
            .wait()?
            .map(|it| it.key().to_vec()),
        Some(b"3".to_vec())
    );
    writer.flush()?;
    assert_eq!(stored(&database)?, 149);
    Ok(())
}

/// Writers are for threads and tasks.
#[test]
fn handles_and_tickets_go_from_thread_to_thread() {
    fn is_shared<T: Send + Sync>() {}
    fn is_sent<T: Send>() {}
    is_shared::<Writer>();
    is_shared::<Ticket>();
    is_sent::<simdb::Submitting>();
}
