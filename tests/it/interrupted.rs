//! Long operations that the caller ends: nothing is changed, and nothing is left.

use std::fs;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use simdb::{Database, Error, Near};

use crate::support::{
    Folder, TestResult, assert_error, assert_sound, document, external, in_one_of_five_tries,
    insert_all, keyed,
};

/// Progress that breaks after some calls.
fn after(calls: u64) -> impl FnMut(u64, u64) -> ControlFlow<()> {
    let mut left = calls;
    move |_, _| {
        let ends = left == 0;
        left = left.saturating_sub(1);
        if ends {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

fn calls_of(
    operation: impl FnOnce(&mut dyn FnMut(u64, u64)) -> simdb::Result<()>,
) -> simdb::Result<u64> {
    let mut calls = 0;
    operation(&mut |_, _| calls += 1).map(|()| calls)
}

#[track_caller]
fn assert_interrupted<T: std::fmt::Debug>(ended: &simdb::Result<T>) {
    assert_error!(ended => Error::Interrupted);
}

#[test]
fn an_interrupted_copy_leaves_the_file_as_it_was_and_nothing_beside_it() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, keyed(0..500, |i| i << 40))?;
    database.settle()?;
    let plan = database.snapshot()?.stats()?.plan;
    let of_backup = calls_of(|each| {
        database
            .snapshot()?
            .backup_with(folder.path("whole.simdb"), |done, all| {
                each(done, all);
                ControlFlow::Continue(())
            })
    })?;
    fs::remove_file(folder.path("whole.simdb"))?;
    assert!(of_backup > 20, "{of_backup} calls");
    // The last call comes while the copy is read back.
    for calls in [0, 3, of_backup - 1] {
        assert_interrupted(
            &database
                .snapshot()?
                .backup_with(folder.path("b.simdb"), after(calls)),
        );
        assert_interrupted(&database.compact(after(calls)));
        assert_interrupted(&database.compact_with_plan("6x21", after(calls)));
        assert_eq!(folder.count()?, 1, "something is left");
    }
    // It goes on as if nothing had been.
    insert_all(&database, [document("later", 7)])?;
    let stats = database.snapshot()?.stats()?;
    assert_eq!((stats.documents, stats.plan), (501, plan));
    assert_sound(&database)?;
    drop(database);
    assert_sound(&Database::open(
        folder.path("d.simdb"),
        &crate::support::tiny(),
    )?)?;
    Ok(())
}

/// It could be ended only while it read its documents.
#[test]
fn an_interrupted_build_leaves_nothing_whatever_it_was_doing() -> TestResult {
    let folder = Folder::new()?;
    let options = external().tiny_blocks();
    let documents = || (0..500).map(|i| Ok(document(i.to_string(), i << 40)));
    let (mut calls, mut last) = (0, (0, 0));
    let built = Database::build_with(
        folder.path("whole.simdb"),
        &options,
        documents(),
        1,
        |done, all| {
            assert!(
                done <= all && last <= (done, all),
                "{done} of {all} after {last:?}"
            );
            (calls, last) = (calls + 1, (done, all));
            ControlFlow::Continue(())
        },
    )?;
    assert_eq!(last.0, last.1, "all rows are told in the end");
    drop(built);
    fs::remove_file(folder.path("whole.simdb"))?;
    assert!(calls > 20, "{calls} calls");
    for calls in [0, 3, calls - 1] {
        assert_interrupted(&Database::build_with(
            folder.path("b.simdb"),
            &options,
            documents(),
            1,
            after(calls),
        ));
        assert_eq!(folder.count()?, 0, "something is left");
    }
    Ok(())
}

#[test]
fn a_check_ends_when_nobody_wants_it() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, keyed(0..500, |i| i << 40))?;
    database.settle()?;
    for calls in [0, 5] {
        let mut told = 0;
        let mut end = after(calls);
        assert_interrupted(&database.check_with(|done, all| {
            told += 1;
            end(done, all)
        }));
        // Each core may be at one more part.
        assert!(told <= calls + 1 + 256, "{told} calls");
    }
    assert_sound(&database)?;
    Ok(())
}

/// Where no near pair was one of the wanted, nobody was asked whether more are wanted.
#[test]
fn a_search_for_pairs_ends_when_nobody_wants_it_also_if_it_finds_none() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    // All are near to each other.
    let bits = |i: u64| (i % 256) | (i / 256) << 32;
    insert_all(&database, keyed(0..12_000, bits))?;
    let snapshot = database.snapshot()?;
    let near = Near::within(16).scopes(["none"]);
    // Breaks at the first call that comes so late. Returns how long all took.
    let search = |late: Duration| -> simdb::Result<Duration> {
        let begun = Instant::now();
        snapshot.pairs(near.clone()).run(|_event| {
            if begun.elapsed() >= late {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        Ok(begun.elapsed())
    };
    in_one_of_five_tries(|_| {
        let whole = search(Duration::MAX)?;
        let ended = search(whole / 10)?;
        Ok((ended >= whole / 2).then(|| format!("{ended:?} of {whole:?}")))
    })
}
