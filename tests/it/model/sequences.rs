//! Runs sequences on a database and on the model, and compares them.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::prelude::*;
use simdb::{Database, Expiry, Fingerprint, Order, Query, Sketch, Snapshot};

use super::operations::{Operation, operations};
use super::oracle::{Model, insert_if_new, keys, near_others};
use crate::support::{Folder, assert_sound, document, go_on, insert_all, listed, tiny};

/// With this number of fingerprints, a query probes and does not scan.
const MANY: u64 = 600;

/// Runs a sequence on a database and on the model, and asserts that they agree. With `many`, the database
/// has [`MANY`] documents at the beginning, which no operation of the sequence names.
fn agree(sequence: &[Operation], many: bool) -> Result<(), Box<dyn std::error::Error>> {
    let folder = Folder::in_memory()?;
    let mut database = folder.tiny_database("model.simdb")?;
    let mut committed = Model::default();
    if many {
        let random = |i: u64| {
            (i + 1)
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(29)
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let sketch = |i: u64| {
            Sketch::new(&[i as u8; 16], 100)
                .ok()
                .filter(|_| !i.is_multiple_of(3))
        };
        let documents = (0..MANY).map(|i| {
            document(format!("many {i}"), random(i))
                .with_seen(1)
                .with_sketch(sketch(i))
        });
        documents
            .clone()
            .for_each(|document| drop(committed.insert(&document)));
        insert_all(&database, documents)?;
    }
    let mut model = committed.clone();
    let mut txn = None;
    let mut kept = Vec::new();
    for operation in sequence {
        let inserts = matches!(
            operation,
            Operation::Insert(_) | Operation::InsertIfNew(..) | Operation::InsertBatchIfNew(..)
        );
        if (inserts || matches!(operation, Operation::Delete(_) | Operation::Touch(..)))
            && txn.is_none()
        {
            txn = Some(database.begin_write()?);
        }
        match (operation, &mut txn) {
            (Operation::Insert(document), Some(txn)) => {
                assert_eq!(txn.insert(document)?, model.insert(document));
            }
            (Operation::InsertIfNew(document, on_match, conditions), Some(txn)) => {
                let conditions = &conditions.without_sketches(std::slice::from_ref(document));
                let near = near_others(&model, document, conditions);
                let verdict = txn.insert_if_new(document, &conditions.policy(*on_match))?;
                conditions.agrees(verdict.matches(), &near, document.sketch());
                assert_eq!(
                    *verdict.change(),
                    insert_if_new(&mut model, document, *on_match, conditions, &near)
                );
            }
            (Operation::InsertBatchIfNew(documents, on_match, conditions), Some(txn)) => {
                let conditions = &conditions.without_sketches(documents);
                let verdicts = txn.insert_batch_if_new(documents, &conditions.policy(*on_match))?;
                assert_eq!(verdicts.len(), documents.len());
                for (document, verdict) in documents.iter().zip(verdicts) {
                    let near = near_others(&model, document, conditions);
                    conditions.agrees(verdict.matches(), &near, document.sketch());
                    assert_eq!(
                        *verdict.change(),
                        insert_if_new(&mut model, document, *on_match, conditions, &near)
                    );
                }
            }
            (Operation::Delete(key), Some(txn)) => {
                assert_eq!(
                    txn.delete([*key])?,
                    model.documents.remove(&vec![*key]).map(|(_, old)| old)
                );
            }
            (Operation::Touch(key, seen), Some(txn)) => {
                let known = model.touch(&[*key], *seen, 1);
                assert_eq!(txn.touch([*key], *seen)?, known);
            }
            (Operation::Expire(before, scopes), _) => {
                // An expiry has transactions of its own.
                if let Some(txn) = txn.take() {
                    txn.commit()?;
                }
                let mut expiry = Expiry::new();
                if let Some(before) = before {
                    expiry = expiry.before(*before);
                }
                if let Some(scopes) = scopes {
                    expiry = expiry.scopes(scopes);
                }
                let removed = database.expire(&expiry, |_| ControlFlow::Continue(()))?;
                assert_eq!(removed, model.expire(*before, scopes.as_ref()));
                committed = model.clone();
            }
            (Operation::Commit, _) => {
                if let Some(txn) = txn.take() {
                    txn.commit()?;
                }
                committed = model.clone();
            }
            (Operation::Drop, _) => {
                txn = None;
                model = committed.clone();
            }
            (Operation::Reopen, _) => {
                txn = None;
                model = committed.clone();
                compare_kept(&mut kept)?;
                let path = database.path().to_owned();
                drop(database);
                database = Database::open(path, &tiny())?;
            }
            (Operation::Settle, _) => database.settle()?,
            (Operation::Compact(plan), _) => {
                // Compaction waits for the transaction to end.
                if let Some(txn) = txn.take() {
                    txn.commit()?;
                }
                committed = model.clone();
                match plan {
                    Some(plan) => database.compact_with_plan(plan, go_on)?,
                    None => database.compact(go_on)?,
                }
            }
            (Operation::Keep, _) => kept.push((database.snapshot()?, committed.clone())),
            (Operation::Query(bits, sketch, conditions), _) => {
                let fingerprint = Fingerprint::from_bits(*bits);
                let mut conditions = conditions.clone();
                if sketch.is_none() {
                    (conditions.min_similarity, conditions.order) = (None, Order::Distance);
                }
                let near = committed.near(fingerprint, conditions.max_distance, |document| {
                    conditions.keeps(document, sketch.as_ref())
                });
                let query = conditions.query(fingerprint, sketch.as_ref());
                let snapshot = database.snapshot()?;
                conditions.agrees(&snapshot.query(&query)?, &near, sketch.as_ref());
                assert_eq!(snapshot.any_match(&query)?, !near.is_empty());
            }
            (Operation::Nearest(bits, sketch, conditions, bounded), txn) => {
                let fingerprint = Fingerprint::from_bits(*bits);
                let mut conditions = conditions.clone();
                if sketch.is_none() {
                    (conditions.min_similarity, conditions.order) = (None, Order::Distance);
                }
                let query = conditions.nearest(fingerprint, sketch.as_ref(), *bounded);
                let farthest = if *bounded {
                    conditions.max_distance
                } else {
                    64
                };
                let near = |model: &Model| {
                    model.near(fingerprint, farthest, |document| {
                        conditions.keeps(document, sketch.as_ref())
                    })
                };
                let snapshot = database.snapshot()?;
                let committed = near(&committed);
                conditions.agrees_nearest(&snapshot.query(&query)?, &committed, sketch.as_ref());
                let any = conditions.limit > 0 && !committed.is_empty();
                assert_eq!(snapshot.any_match(&query)?, any);
                if let Some(txn) = txn {
                    conditions.agrees_nearest(&txn.query(&query)?, &near(&model), sketch.as_ref());
                }
            }
            (_, None) => unreachable!("a transaction was begun"),
        }
    }
    drop(txn);
    kept.push((database.snapshot()?, committed));
    compare_kept(&mut kept)?;
    assert_sound(&database)?;
    Ok(())
}

/// Compares snapshots with the models of the moments when they were taken.
fn compare_kept(kept: &mut Vec<(Snapshot, Model)>) -> Result<(), Box<dyn std::error::Error>> {
    for (snapshot, model) in kept.drain(..) {
        let documents = snapshot
            .documents()
            .map(|document| document.map(|it| (it.key().to_vec(), it)));
        let stored: BTreeMap<_, _> = documents.collect::<simdb::Result<_>>()?;
        let documents = model.documents.iter();
        let expected: BTreeMap<_, _> = documents
            .map(|(key, (_, document))| (key.clone(), document.clone()))
            .collect();
        assert_eq!(stored, expected);
        for document in expected.values() {
            assert_eq!(snapshot.get(document.key())?.as_ref(), Some(document));
        }
        let near = model.near(Fingerprint::from_bits(0), 64, |_| true);
        let query = Query::new(Fingerprint::from_bits(0))
            .near(64)
            .limit(usize::MAX);
        assert_eq!(listed(&snapshot.query(&query)?), keys(&near, usize::MAX));
    }
    Ok(())
}

proptest! {
    // A failing sequence is shrunk, printed and stored, and runs again with every later test.
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]
    #[test]
    fn every_sequence_of_operations_agrees_with_a_linear_scan(
        sequence in prop::collection::vec(operations(), 1..120), many in prop::bool::weighted(0.3),
    ) {
        if let Err(error) = agree(&sequence, many) {
            return Err(TestCaseError::fail(error.to_string()));
        }
    }
}
