//! Large transactions: those that have more operations than the log takes. Among smaller ones they are in the histories
//! of tests/stand.

use std::collections::BTreeMap;

use simdb::{Database, Document, Fingerprint, Snapshot};

use crate::support::{Folder, TestResult, assert_sound, document, listed, query_of, spread};

type Model = BTreeMap<String, u64>;

/// Replaces and adds documents, then deletes some, in one transaction. With the tiny options, more than 16
/// changes are too many for the log.
fn transact(
    database: &Database,
    model: &mut Model,
    puts: &[u64],
    deletes: &[u64],
    salt: u64,
) -> TestResult {
    let bits = |i: u64| spread(i % 50 + salt % 3 * 50 + 1);
    let mut txn = database.begin_write()?;
    for &i in puts {
        let scope = ["", "en"][i as usize % 2];
        txn.insert(&document(format!("key {i}"), bits(i)).with_scope(scope))?;
        model.insert(format!("key {i}"), bits(i));
    }
    for i in deletes {
        let deleted = txn.delete(format!("key {i}"))?;
        assert_eq!(
            deleted.is_some(),
            model.remove(&format!("key {i}")).is_some()
        );
    }
    txn.commit()?;
    Ok(())
}

/// Compares all documents, and the answers for their fingerprints, with the model.
fn agree(snapshot: &Snapshot, model: &Model) -> TestResult {
    let stored = snapshot.documents().map(|document| {
        let document: Document = document?;
        let key = String::from_utf8_lossy(document.key()).into_owned();
        Ok((key, document.fingerprint().map_or(0, Fingerprint::bits)))
    });
    assert_eq!(&stored.collect::<simdb::Result<Model>>()?, model);
    for bits in model.values() {
        let query = query_of(*bits).near(0).limit(1_000);
        let mut found = listed(&snapshot.query(&query)?);
        found.sort_unstable();
        let right = model
            .iter()
            .filter(|it| it.1 == bits)
            .map(|(key, _)| (key.clone(), 0));
        assert_eq!(found, right.collect::<Vec<_>>());
    }
    Ok(())
}

#[test]
fn many_large_transactions_in_a_row_leave_few_levels() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    let mut model = Model::new();
    for round in 0..60u64 {
        // In the second half, all documents have one fingerprint. The permuted tables then get tiny levels.
        let puts: Vec<u64> = (0..25)
            .map(|i| if round < 30 { round * 25 + i } else { i * 50 })
            .collect();
        transact(&database, &mut model, &puts, &[], round)?;
        let levels = database.snapshot()?.stats()?.levels;
        assert!(levels <= 10, "{levels}");
    }
    agree(&database.snapshot()?, &model)?;
    assert_sound(&database)?;
    database.settle()?;
    assert!(database.snapshot()?.stats()?.levels <= 8);
    assert_sound(&database)?;
    Ok(())
}

/// Nearly all rows of these transactions cancel each other. Some sets get no level.
#[test]
fn a_large_transaction_that_takes_everything_back_leaves_no_document() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    let (mut model, all) = (Model::new(), Vec::from_iter(0..40));
    for salt in 0..3 {
        transact(&database, &mut model, &all, &all, salt)?;
        assert!(model.is_empty());
        agree(&database.snapshot()?, &model)?;
    }
    transact(&database, &mut model, &all, &all[..20], 0)?;
    transact(&database, &mut model, &[], &all[20..], 0)?;
    transact(&database, &mut model, &all, &[], 1)?;
    agree(&database.snapshot()?, &model)?;
    assert_sound(&database)?;
    Ok(())
}
