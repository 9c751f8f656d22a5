//! Who may write: one transaction at a time, first come, first served, and nobody waits for itself.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use simdb::ingest::{Event, Ingest, InputFormat, ReadOptions, Records};
use simdb::{Database, Document, Error};

use crate::support::{
    Folder, LIMIT, TestResult, assert_error, document, go_on, in_one_of_five_tries, insert_all,
    wait_until, within,
};

fn shared_database(folder: &Folder) -> simdb::Result<Arc<Database>> {
    folder.database("d.simdb").map(Arc::new)
}

/// A thread that had a transaction open and asked for another hung for ever.
#[test]
fn a_thread_that_would_wait_for_itself_gets_an_error() -> TestResult {
    let folder = Folder::new()?;
    let database = shared_database(&folder)?;
    within(LIMIT, move || {
        let mut txn = database.begin_write()?;
        let long = Duration::from_secs(3_600);
        assert_error!(database.begin_write() => Error::WouldDeadlock);
        assert_error!(database.begin_write_within(long) => Error::WouldDeadlock);
        assert_error!(database.compact(go_on) => Error::WouldDeadlock);
        assert_error!(database.reopen() => Error::WouldDeadlock);
        assert!(database.try_begin_write()?.is_none(), "this does not wait");
        // The transaction is as good as before.
        txn.insert(&document("a", 1))?;
        txn.commit()?;
        database.begin_write()?.commit()?;
        database.compact(go_on)
    })?;
    Ok(())
}

#[test]
fn a_transaction_belongs_to_the_thread_that_used_it_last() -> TestResult {
    let folder = Folder::new()?;
    let database = shared_database(&folder)?;
    within(LIMIT, move || -> simdb::Result<()> {
        let mut txn = database.begin_write()?;
        let (used, is_used) = mpsc::channel();
        let (end, may_end) = mpsc::channel::<()>();
        let other = thread::spawn({
            let database = database.clone();
            move || {
                txn.insert(&document("a", 1))?;
                let refused = database.begin_write();
                assert!(
                    matches!(refused, Err(Error::WouldDeadlock)),
                    "this thread has it now"
                );
                _ = used.send(());
                _ = may_end.recv();
                txn.commit()
            }
        });
        is_used.recv().expect("the other thread uses it");
        // This thread has no transaction any more. So it waits.
        assert!(
            database
                .begin_write_within(Duration::from_millis(20))?
                .is_none()
        );
        _ = end.send(());
        database.begin_write()?.commit()?;
        other.join().expect("the other thread does not panic")
    })?;
    Ok(())
}

#[test]
fn waiting_for_a_transaction_ends_in_time_and_leaves_the_line() -> TestResult {
    let folder = Folder::new()?;
    let database = shared_database(&folder)?;
    within(LIMIT, move || -> simdb::Result<()> {
        let txn = database.begin_write()?;
        let impatient = thread::spawn({
            let database = database.clone();
            move || {
                assert!(database.try_begin_write()?.is_none());
                let begun = Instant::now();
                let none = database
                    .begin_write_within(Duration::from_millis(50))?
                    .is_none();
                Ok::<_, Error>((none, begun.elapsed()))
            }
        });
        let (none, waited) = impatient.join().expect("it does not panic")?;
        assert!(none && waited >= Duration::from_millis(50), "{waited:?}");
        drop(txn);
        // Nobody stands in the line any more.
        assert!(database.try_begin_write()?.is_some());
        assert!(database.begin_write_within(Duration::MAX)?.is_some());
        Ok(())
    })?;
    Ok(())
}

/// Threads ask one after another, with a pause between them, and note the order in which they are served.
fn served(database: &Arc<Database>, pause: Duration) -> simdb::Result<Vec<u64>> {
    let txn = database.begin_write()?;
    let (served, order) = mpsc::channel();
    let mut threads = Vec::new();
    for number in 0..8 {
        let (database, served) = (database.clone(), served.clone());
        threads.push(thread::spawn(move || {
            let patience = Duration::from_secs(if number % 2 == 0 { 3_600 } else { 7_200 });
            let txn = database
                .begin_write_within(patience)?
                .expect("there is time");
            _ = served.send(number);
            txn.commit()
        }));
        // So that it stands in the line before the next one comes.
        thread::sleep(pause);
    }
    drop((txn, served));
    for thread in threads {
        thread.join().expect("no thread panics")?;
    }
    Ok(order.iter().collect())
}

/// On a busy machine a thread may come late to the line. So there are several tries, with longer and longer pauses. The
/// unit tests of the line look at the line itself.
#[test]
fn turns_come_in_the_order_of_asking() -> TestResult {
    let folder = Folder::new()?;
    let database = shared_database(&folder)?;
    in_one_of_five_tries(|number| {
        let database = database.clone();
        let pause = Duration::from_millis(30) * 4u32.pow(number);
        let order = within(LIMIT, move || served(&database, pause))?;
        let is_that_of_asking = order.iter().copied().eq(0..8);
        Ok((!is_that_of_asking).then(|| format!("{order:?}")))
    })
}

/// A thread that begins transaction after transaction. Each is a little longer than those of the thread before. Returns
/// how many it had, and how often it was overtaken.
fn write_all_the_time(
    database: &Database,
    thread: u64,
    threads: u64,
    turns: &AtomicU64,
) -> simdb::Result<(u64, u64)> {
    /// The transactions of all threads.
    const ALL: u64 = 2_000;
    let mut all = 0;
    let mut overtaken = 0;
    while turns.load(Ordering::SeqCst) < ALL || all < 10 {
        let before = turns.load(Ordering::SeqCst);
        let mut txn = database.begin_write()?;
        let others = turns.fetch_add(1, Ordering::SeqCst) - before;
        // Some use it for longer.
        for i in 0..=thread * 10 {
            txn.insert(&document(format!("{thread}, {i}"), i))?;
        }
        drop(txn);
        all += 1;
        overtaken += u64::from(others > threads);
    }
    Ok((overtaken, all))
}

/// A thread that began again at once took the turn before those who had waited for it. Others got a hundredth
/// of its transactions.
///
/// A thread that loses its processor before it stands in the line is overtaken now and then.
#[test]
fn nobody_is_overtaken_by_threads_that_write_all_the_time() -> TestResult {
    const THREADS: u64 = 5;
    let folder = Folder::new()?;
    let database = shared_database(&folder)?;
    in_one_of_five_tries(|_| {
        let turns = Arc::new(AtomicU64::new(0));
        let ready = Arc::new(Barrier::new(THREADS as usize));
        let mut threads = Vec::new();
        for number in 0..THREADS {
            let (database, turns, ready) = (database.clone(), turns.clone(), ready.clone());
            threads.push(thread::spawn(move || {
                ready.wait();
                write_all_the_time(&database, number, THREADS, &turns)
            }));
        }
        let shares = within(LIMIT, move || {
            let shares = threads.into_iter().map(thread::JoinHandle::join);
            let shares = shares.map(|share| share.expect("no thread panics"));
            shares.collect::<simdb::Result<Vec<_>>>()
        })?;
        let is_fair = shares.iter().all(|(overtaken, all)| overtaken * 5 < *all);
        Ok((!is_fair).then(|| format!("{shares:?}")))
    })
}

/// An error could reach one caller only.
#[test]
fn one_error_reaches_many_callers() -> TestResult {
    let folder = Folder::new()?;
    let missing = Database::create(folder.path("no/such/d.simdb"), &simdb::CreateOptions::new());
    let error = missing.expect_err("there is no such folder");
    let (first, second) = (error.clone(), error);
    assert_eq!(first.to_string(), second.to_string());
    for error in [first, second] {
        let cause =
            std::error::Error::source(&error).and_then(|it| it.downcast_ref::<std::io::Error>());
        assert_eq!(
            cause.map(std::io::Error::kind),
            Some(std::io::ErrorKind::NotFound)
        );
    }
    Ok(())
}

/// The error was that of the document, and did not say which it was.
#[test]
fn a_document_out_of_bounds_is_named_by_its_index() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, [document("a", 1)])?;
    let bad = document("b", 2).with_scope("s".repeat(256));
    assert_error!(bad.validate() => Error::ScopeLength { bytes: 256, max_bytes: 255, .. });
    let batch: Vec<Document> = vec![document("a", 7), bad, document("", 3)];
    let mut txn = database.begin_write()?;
    let refused = txn
        .insert_batch_if_new(&batch, &simdb::Policy::link())
        .expect_err("it is out of bounds");
    let Error::InBatch {
        index: 1, source, ..
    } = &refused
    else {
        panic!("{refused:?}")
    };
    assert!(matches!(**source, Error::ScopeLength { .. }));
    assert!(
        refused.to_string().contains("document 1 of the batch"),
        "{refused}"
    );
    txn.commit()?;
    assert_eq!(
        database.snapshot()?.get("a")?,
        Some(document("a", 1)),
        "nothing was done"
    );
    Ok(())
}

/// What comes from a slow input waited for its batch, and everybody else for that.
#[test]
fn a_slow_input_keeps_nobody_from_writing() -> TestResult {
    struct Slow(u64);
    impl std::io::Read for Slow {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            thread::sleep(Duration::from_millis(15));
            self.0 += 1;
            let line = format!("{}\t{:016x}\n", self.0, self.0 << 20);
            let bytes = if self.0 < 400 { line.as_bytes() } else { b"" };
            buffer[..bytes.len()].copy_from_slice(bytes);
            Ok(bytes.len())
        }
    }
    let folder = Folder::new()?;
    let database = shared_database(&folder)?;
    let has_begun = AtomicU64::new(0);
    let took = thread::scope(|scope| -> TestResult<Duration> {
        let ingestion = scope.spawn(|| {
            let options = ReadOptions::new().format(InputFormat::Fingerprints);
            let records = Records::open(["-"], options)?.standard_input(Slow(0));
            Ingest::new(&database).run(records, |event| {
                if let Event::Committed { .. } = event {
                    has_begun.fetch_add(1, Ordering::Relaxed);
                }
                ControlFlow::Continue(())
            })
        });
        wait_until("the first batch", || has_begun.load(Ordering::Relaxed) > 0);
        let began = Instant::now();
        for number in 0..15 {
            let mut txn = database.begin_write()?;
            txn.insert(&document(format!("other {number}"), number))?;
            txn.commit()?;
        }
        let took = began.elapsed();
        assert!(!ingestion.is_finished(), "the input has ended too early");
        ingestion.join().expect("it does not panic")?;
        Ok(took)
    })?;
    // Each waited for a batch of 0.8 seconds.
    assert!(took < Duration::from_secs(4), "{took:?}");
    Ok(())
}
