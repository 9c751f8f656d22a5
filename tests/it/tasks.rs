//! The library in tasks of an asynchronous runtime, with one thread and with several.

use std::sync::Arc;
use std::time::Duration;

use simdb::{Database, Error, Policy, WriterOptions};
use tokio::runtime::{Builder, Runtime};

use crate::support::{
    Folder, LIMIT, TestResult, assert_error, document, numbered, wait_until, within,
};

/// A runtime with one thread, and one with two.
fn runtimes() -> std::io::Result<[Runtime; 2]> {
    let several = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_time()
        .build()?;
    Ok([
        Builder::new_current_thread().enable_time().build()?,
        several,
    ])
}

#[test]
fn a_ticket_is_awaited() -> TestResult {
    for (number, runtime) in runtimes()?.into_iter().enumerate() {
        let folder = Folder::new()?;
        let database = folder.database("d.simdb")?;
        // Nobody sleeps so long: all tasks wait.
        let options = WriterOptions::new()
            .max_age(Duration::from_secs(1 << 40))
            .queue(3);
        let writer = database.writer(options)?;
        let new = within(LIMIT, move || {
            runtime.block_on(async move {
                let tasks: Vec<_> = (0..60)
                    .map(|task| {
                        let writer = writer.clone();
                        // Three tasks have the same page.
                        let page = document(
                            task.to_string(),
                            numbered(task / 3).fingerprint().expect("it has one").bits(),
                        );
                        tokio::spawn(async move {
                            let ticket = writer.submit_async(page, &Policy::skip()).await?;
                            Ok::<_, Error>(!ticket.await?.is_duplicate())
                        })
                    })
                    .collect();
                let mut new = 0;
                for task in tasks {
                    new += u64::from(task.await.expect("no task panics")?);
                }
                // One task alone.
                let verdict = writer
                    .submit_async(numbered(1_000), &Policy::skip())
                    .await?
                    .await?;
                assert!(!verdict.is_duplicate());
                Ok::<_, Error>(new)
            })
        })?;
        assert_eq!(new, 20, "runtime {number}");
        assert_eq!(database.snapshot()?.stats()?.documents, 21);
    }
    Ok(())
}

/// A task that was cancelled while it waited before the full queue has submitted nothing.
#[test]
fn a_submission_that_is_dropped_before_the_queue_is_not_done() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new().queue(1).batch(1))?;
    let [runtime, _] = runtimes()?;
    let txn = database.begin_write()?;
    runtime.block_on(async {
        // Nothing is decided while the transaction is open. The thread of the writer takes the first, and then waits.
        drop(writer.submit_async(numbered(0), &Policy::link()).await?);
        wait_until("the thread of the writer", || {
            database.metrics().queue_length == 0
        });
        // The second fills the queue, and nobody takes it out before the transaction ends.
        drop(writer.submit_async(numbered(1), &Policy::link()).await?);
        let submitting = writer.submit_async(numbered(2), &Policy::link());
        let waited = tokio::time::timeout(Duration::from_millis(100), submitting).await;
        assert!(waited.is_err(), "there is no room");
        // Others are served after it.
        drop(txn);
        writer
            .submit_async(numbered(1_000), &Policy::link())
            .await?
            .await?;
        assert_eq!(database.snapshot()?.stats()?.documents, 3);
        Ok(())
    })
}

/// Both tasks run in the same thread. So the second would keep it from the first, and wait for ever.
#[test]
fn a_task_that_begins_while_another_has_a_transaction_is_told_of_it() -> TestResult {
    let folder = Folder::new()?;
    let database = Arc::new(folder.database("d.simdb")?);
    let [runtime, _] = runtimes()?;
    within(LIMIT, move || {
        runtime.block_on(async move {
            let first = tokio::spawn(insert_slowly(database.clone()));
            tokio::task::yield_now().await;
            assert_error!(database.begin_write() => Error::WouldDeadlock);
            first.await.expect("the task does not panic")?;
            database.begin_write()?.commit()
        })
    })?;
    Ok(())
}

async fn insert_slowly(database: Arc<Database>) -> simdb::Result<()> {
    let mut txn = database.begin_write()?;
    txn.insert(&numbered(1))?;
    tokio::time::sleep(Duration::from_millis(30)).await;
    txn.insert(&numbered(2))?;
    txn.commit()
}

/// Tasks that go from thread to thread with their transactions.
#[test]
fn transactions_of_tasks_take_turns() -> TestResult {
    let folder = Folder::new()?;
    let database = Arc::new(folder.database("d.simdb")?);
    let [_, runtime] = runtimes()?;
    let stored = within(LIMIT, move || {
        runtime.block_on(async move {
            let tasks: Vec<_> = (0..40)
                .map(|task| {
                    let database = database.clone();
                    tokio::spawn(async move {
                        loop {
                            match database.begin_write() {
                                Ok(mut txn) => {
                                    txn.insert(&numbered(task))?;
                                    tokio::task::yield_now().await;
                                    return txn.commit();
                                }
                                // A task of the same thread has one. It goes on when this one yields.
                                Err(Error::WouldDeadlock) => tokio::task::yield_now().await,
                                Err(error) => return Err(error),
                            }
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.expect("no task panics")?;
            }
            Ok::<_, Error>(database.snapshot()?.stats()?.documents)
        })
    })?;
    assert_eq!(stored, 40);
    Ok(())
}
