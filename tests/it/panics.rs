//! Panics of what a caller hands in: they reach the caller, and nothing else comes of them.
//!
//! A guard turns panics of the storage engine into errors, since they come from damage. It once enclosed
//! what a caller had handed in too. So the panic of a progress bar was told as damage, and nothing was
//! printed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use simdb::Database;

use crate::support::{
    Folder, TestResult, assert_sound, external, go_on, going_on, insert_all, numbered,
};

/// Runs an operation that has to panic with the word "mine". The hook of the process has to hear of it.
#[track_caller]
fn assert_reaches_the_caller<T>(operation: impl FnOnce() -> simdb::Result<T>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| operation().map(drop)));
    let Err(payload) = outcome else {
        panic!("no panic, but {outcome:?}")
    };
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"mine"));
}

#[test]
fn a_panic_of_progress_reaches_the_caller_and_leaves_nothing() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, (0..500).map(numbered))?;
    for allowed in [0, 3] {
        let progress = || {
            let calls = Mutex::new(0);
            going_on(move |_, _| {
                let mut calls = calls.lock().expect("one thread calls this");
                *calls += 1;
                if *calls > allowed {
                    panic!("mine");
                }
            })
        };
        assert_reaches_the_caller(|| database.compact(progress()));
        assert_reaches_the_caller(|| database.compact_with_plan("6x21", progress()));
        let snapshot = database.snapshot()?;
        assert_reaches_the_caller(|| snapshot.backup_with(folder.path("b.simdb"), progress()));
        drop(snapshot);
        assert_eq!(folder.count()?, 1, "something is left");
        // Writing, compacting and checking go on.
        insert_all(&database, [numbered(1_000 + allowed)])?;
        database.compact(go_on)?;
        assert_sound(&database)?;
    }
    assert_eq!(database.snapshot()?.stats()?.documents, 502);
    database
        .snapshot()?
        .backup_with(folder.path("b.simdb"), go_on)?;
    Ok(())
}

#[test]
fn a_panic_of_the_documents_reaches_the_caller_and_leaves_nothing() -> TestResult {
    let folder = Folder::new()?;
    for whole in [0, 400] {
        let documents = (0..=whole).map(|i| {
            if i == whole {
                panic!("mine")
            } else {
                Ok(numbered(i))
            }
        });
        let options = external().tiny_blocks();
        assert_reaches_the_caller(|| {
            Database::build(folder.path("d.simdb"), &options, documents, 1_000)
        });
        assert_eq!(folder.count()?, 0, "something is left");
    }
    let documents = (0..400).map(|i| Ok(numbered(i)));
    let options = external();
    assert_sound(&Database::build(
        folder.path("d.simdb"),
        &options,
        documents,
        1_000,
    )?)?;
    Ok(())
}
