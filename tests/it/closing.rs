//! Closing a database: what is done before, what is refused after, and what it costs to close again and again.

use std::error::Error as _;
use std::thread;
use std::time::Duration;

use simdb::{Database, Error, OpenOptions, Policy, WriterOptions};

use crate::support::{
    Folder, LIMIT, TestResult, assert_error, assert_sound, document, external, go_on, insert_all,
    numbered, query_of, spread, tiny, within,
};

fn is_closed<T>(answer: &simdb::Result<T>) -> bool {
    matches!(answer, Err(Error::Closed))
}

#[test]
fn after_closing_every_call_on_every_handle_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, (0..100).map(numbered))?;
    let (writer, snapshot) = (database.writer(WriterOptions::new())?, database.snapshot()?);
    let mut documents = snapshot.documents();
    assert!(documents.next().is_some_and(|it| it.is_ok()));
    let ticket = writer.submit(document("a", 1), &Policy::link())?;
    database.close()?;
    // What was submitted is answered before.
    ticket.wait()?;

    assert!(is_closed(&database.close()));
    assert!(is_closed(&database.snapshot()));
    assert!(is_closed(&database.begin_write()));
    assert!(is_closed(&database.try_begin_write()));
    assert!(is_closed(
        &database.begin_write_within(Duration::from_secs(1))
    ));
    assert!(is_closed(&database.writer(WriterOptions::new())));
    assert!(is_closed(&database.compact(go_on)));
    assert!(is_closed(&database.check()));
    assert!(is_closed(&database.reopen()));
    let query = query_of(1);
    assert!(is_closed(&snapshot.query(&query)));
    assert!(is_closed(
        &snapshot.query_batch(std::slice::from_ref(&query))
    ));
    assert!(is_closed(&snapshot.any_match(&query)));
    assert!(is_closed(&snapshot.get("a")));
    assert!(is_closed(&snapshot.stats()));
    assert!(is_closed(&snapshot.sources()));
    assert!(is_closed(
        &snapshot.backup_with(folder.path("backup.simdb"), go_on)
    ));
    assert!(!folder.path("backup.simdb").exists());
    assert!(documents.next().is_some_and(|it| is_closed(&it)));
    assert!(documents.next().is_none(), "after an error it ends");
    assert!(is_closed(&writer.submit(document("b", 2), &Policy::link())));
    assert!(is_closed(
        &writer.try_submit(document("b", 2), &Policy::link())
    ));
    assert!(is_closed(
        &writer.insert_if_new(&document("b", 2), &Policy::link())
    ));
    assert!(is_closed(&writer.flush()));
    assert!(is_closed(&writer.submit_delete("a")));
    // Whatever still lives, the file is free.
    let again = Database::open(folder.path("d.simdb"), &tiny())?;
    assert_sound(&again)?;
    assert!(again.snapshot()?.get("a")?.is_some());
    drop((database, writer, snapshot));
    insert_all(&again, [document("c", 3)])?;
    assert_sound(&again)?;
    Ok(())
}

#[test]
fn closing_waits_for_submissions_and_for_the_transactions_of_others() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new().max_age(Duration::from_secs(60)))?;
    let tickets: Vec<_> = (0..5_000)
        .map(|i| writer.submit(document(i.to_string(), spread(i)), &Policy::link()))
        .collect::<simdb::Result<_>>()?;
    let (begun, has_begun) = std::sync::mpsc::channel();
    thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut txn = database.begin_write()?;
            txn.insert(&document("in a transaction", 7))?;
            _ = begun.send(());
            thread::sleep(Duration::from_millis(100));
            txn.commit()
        });
        has_begun.recv()?;
        database.close()?;
        other.join().expect("no panic")?;
        Ok::<_, Box<dyn std::error::Error>>(())
    })?;
    for ticket in tickets {
        ticket.wait()?;
    }
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    assert_eq!(database.snapshot()?.stats()?.documents, 5_001);
    assert_sound(&database)?;
    Ok(())
}

/// It would wait for ever.
#[test]
fn who_would_wait_for_itself_is_told_and_the_database_stays_open() -> TestResult {
    let folder = Folder::new()?;
    let database = std::sync::Arc::new(folder.database("d.simdb")?);
    let mut txn = database.begin_write()?;
    txn.insert(&document("a", 1))?;
    assert_error!(database.close() => Error::WouldDeadlock);
    txn.commit()?;
    let writer = database.writer(WriterOptions::new())?;
    let (send, receive) = std::sync::mpsc::channel();
    let in_callback = database.clone();
    writer.submit_with(document("b", 2), &Policy::link(), move |_| {
        _ = send.send(in_callback.close());
    })?;
    writer.flush()?;
    assert_error!(receive.recv()? => Error::WouldDeadlock);
    writer.insert_if_new(&document("c", 3), &Policy::link())?;
    within(LIMIT, move || database.close())?;
    assert_eq!(
        Database::open(folder.path("d.simdb"), &tiny())?
            .snapshot()?
            .stats()?
            .documents,
        3
    );
    Ok(())
}

#[test]
fn a_database_that_only_reads_is_closed_and_gives_its_lock_away() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.database("d.simdb")?);
    let before = std::fs::read(folder.path("d.simdb"))?;
    let reader = Database::open(folder.path("d.simdb"), &OpenOptions::new().read_only(true))?;
    let snapshot = reader.snapshot()?;
    reader.close()?;
    assert!(is_closed(&snapshot.stats()));
    assert_eq!(std::fs::read(folder.path("d.simdb"))?, before);
    let writer = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    insert_all(&writer, [document("a", 1)])?;
    Ok(())
}

#[test]
fn closing_a_removed_file_says_so() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(&database, [document("a", 1)])?;
    std::fs::remove_file(folder.path("d.simdb"))?;
    let closed = database.close();
    assert_error!(&closed => Error::Removed { .. });
    assert!(closed.is_err_and(|error| error.source().is_none()));
    assert!(is_closed(&database.snapshot()));
    Ok(())
}

/// Each process that added ten documents left a page of the log, which the next one replayed.
#[test]
fn three_hundred_processes_that_add_ten_documents_each_leave_a_small_file_of_few_levels()
-> TestResult {
    const DOCUMENTS: u64 = 10;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let options = external();
    for process in 0..300 {
        let database = Database::open_or_create(&path, &options)?;
        insert_all(
            &database,
            (process * DOCUMENTS..(process + 1) * DOCUMENTS).map(numbered),
        )?;
        database.close()?;
    }
    let database = Database::open(&path, &OpenOptions::new())?;
    let statistics = database.snapshot()?.stats()?;
    assert_eq!(statistics.documents, 300 * DOCUMENTS);
    assert!(statistics.levels <= 4, "{statistics:?}");
    // 3,000 documents in 300 pages of the log took 1.9 MB.
    assert!(statistics.file_bytes < 1_900_000, "{statistics:?}");
    assert_sound(&database)?;
    Ok(())
}
