//! Expiries while others write: what is committed between the steps of an expiry, and between the preparation of a step
//! and its turn. The turns are taken in a fixed order, so nothing depends on time.

use std::ops::ControlFlow;
use std::thread;

use super::history::{Home as _, Recorded};
use crate::Query;
use crate::database::{Database, Expiry};
use crate::document::Document;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::store::Settings;

/// Documents are removed if they were seen before this.
const LONG_AGO: i64 = 100;
const OLD: u64 = 30;

fn fingerprint(number: u64) -> Fingerprint {
    Fingerprint::from_bits((number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn old(number: u64) -> Document {
    Document::new(format!("old {number}"), fingerprint(number)).with_seen(1)
}

/// A document with the fingerprint of an old one. It stays.
fn new(number: u64) -> Document {
    Document::new(format!("new {number}"), fingerprint(number)).with_seen(LONG_AGO)
}

/// A database with old documents, each with a fingerprint of its own.
fn database() -> Result<Database> {
    let database = Recorded::default().open(Some(&Settings::for_tests()))?;
    for number in 0..OLD {
        let mut txn = database.begin_write()?;
        txn.insert(&old(number))?;
        txn.commit()?;
    }
    database.settle()?;
    Ok(database)
}

/// The database has the new documents of these numbers, and nothing else.
fn assert_has_new(database: &Database, numbers: &[u64]) -> Result<()> {
    let snapshot = database.snapshot()?;
    let documents = snapshot.documents().collect::<Result<Vec<_>>>()?;
    let expected: Vec<Document> = numbers.iter().map(|&number| new(number)).collect();
    assert_eq!(documents, expected);
    assert_eq!(snapshot.stats()?.documents, numbers.len() as u64);
    for number in 0..OLD {
        let found = snapshot.query(&Query::new(fingerprint(number)).near(0))?;
        assert_eq!(
            found.total(),
            u64::from(numbers.contains(&number)),
            "{number}"
        );
    }
    drop(snapshot);
    let report = database.check()?;
    assert!(report.is_sound(), "{:?}", report.problems);
    Ok(())
}

/// What has a fingerprint is looked up for many steps at once. A document that comes after that has it too.
#[test]
fn an_expiry_leaves_the_fingerprints_of_documents_that_come_between_its_steps() -> Result<()> {
    let database = database()?;
    let mut failed = Ok(());
    let mut has_come = false;
    let removed = database.expire(&Expiry::new().before(LONG_AGO), |_| {
        if !has_come {
            has_come = true;
            failed = database.begin_write().and_then(|mut txn| {
                for number in 0..OLD {
                    txn.insert(&new(number))?;
                }
                txn.commit()
            });
        }
        ControlFlow::Continue(())
    })?;
    failed?;
    assert_eq!(removed, OLD);
    assert_has_new(&database, &(0..OLD).collect::<Vec<_>>())
}

/// A step is prepared while somebody else writes. What that one then commits has to be looked at before the step is
/// committed: it may have removed a document of the step, or have given a fingerprint to another document.
#[test]
fn a_step_of_an_expiry_sees_what_was_committed_since_it_was_prepared() -> Result<()> {
    let database = database()?;
    let mut txn = database.begin_write()?;
    txn.insert(&new(0))?;
    txn.delete("old 1")?;
    let removed = thread::scope(|scope| {
        let expiry = scope.spawn(|| {
            database.expire(&Expiry::new().before(LONG_AGO), |_| {
                ControlFlow::Continue(())
            })
        });
        // Then the first step is prepared.
        while database.store.waiting_for_turns() == 0 && !expiry.is_finished() {
            thread::yield_now();
        }
        let committed = txn.commit();
        let removed = expiry.join().expect("an expiry does not panic");
        committed.and(removed)
    })?;
    assert_eq!(removed, OLD - 1);
    assert_has_new(&database, &[0])
}
