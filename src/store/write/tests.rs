//! Tests of transactions, and of what they have written and not committed.

use super::*;
use crate::store::engine::Access;
use crate::store::file::CacheLimit;
use crate::store::{Sizes, Store};

fn document(number: u64) -> Document {
    Document::new(format!("key {number}"), Fingerprint::from_bits(number)).with_seen(0)
}

fn begin(shared: &Arc<Shared>) -> Result<Transaction> {
    Transaction::new(Turn::wait(shared)?)
}

fn put_all(store: &Store, numbers: std::ops::Range<u64>) -> Result<Transaction> {
    let mut writer = begin(&store.shared)?;
    for number in numbers {
        writer.put(&document(number), None)?;
    }
    Ok(writer)
}

/// A block that waited in the temporary file was committed without being compared with its checksum. The
/// commit succeeded, and the block was damaged for ever. An error of that file was told as damage of the
/// database, and ended the handle.
#[test]
fn a_waiting_block_that_has_changed_is_not_committed_and_the_database_goes_on() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let sizes = Sizes {
        spill_bytes: 1_000,
        document_block_bytes: 300,
        ..Sizes::default()
    };
    let store = Store::create(
        &folder.path().join("d.simdb"),
        &Settings::for_tests(),
        CacheLimit::for_tests(),
        sizes,
    )?;
    put_all(&store, 0..100)?.commit()?;
    let writer = put_all(&store, 100..200)?;
    let waiting = writer.written.documents.spilled.last();
    waiting.expect("a block waits").bytes.damage();
    let refused = writer.commit();
    assert!(
        matches!(refused, Err(Error::SpillFile { .. })),
        "{refused:?}"
    );
    let reader = store.begin_read()?;
    assert!(reader.reader().find(b"key 99")?.is_some());
    assert!(reader.reader().find(b"key 150")?.is_none());
    put_all(&store, 100..200)?.commit()?;
    for number in 0..200 {
        let found = store
            .begin_read()?
            .reader()
            .find(document(number).key())?
            .map(|(_, found)| found);
        assert_eq!(found, Some(document(number)));
    }
    Ok(())
}

/// Opening took ten seconds after a transaction of three million documents, since all of them were in the
/// log.
#[test]
fn a_large_transaction_leaves_no_log_and_nothing_of_it_is_read_at_opening() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("d.simdb");
    let sizes = Sizes {
        recent_operations: 20,
        ..Sizes::default()
    };
    let store = Store::create(
        &path,
        &Settings::for_tests(),
        CacheLimit::for_tests(),
        sizes,
    )?;
    // Forty operations go through the log, then into a level below the large transaction.
    put_all(&store, 0..5)?.commit()?;
    put_all(&store, 5..45)?.commit()?;
    let before = store.shared.view()?.state().generation();
    put_all(&store, 45..86)?.commit()?;
    let view = store.shared.view()?;
    assert!(view.state().is_log_empty() && view.state().generation() > before);
    view.tables()
        .log_page_numbers(|page| panic!("page {page} is there"))?;
    drop((view, store));
    let store = Store::open(&path, Access::ReadOnly, CacheLimit::for_tests(), sizes)?;
    let view = store.shared.view()?;
    assert_eq!(
        (
            view.state().recent_operations,
            view.state().sets.any_frozen()
        ),
        (0, false)
    );
    let reader = store.begin_read()?;
    for number in 0..86 {
        assert!(
            reader.reader().find(document(number).key())?.is_some(),
            "{number}"
        );
    }
    Ok(())
}

/// A transaction that waits for merges would wait for ever if nobody merges.
#[test]
fn a_large_transaction_returns_the_error_of_the_merges_and_smaller_ones_go_on() -> Result<()> {
    // With these sizes, each transaction of more than eight documents becomes a level.
    let sizes = Sizes {
        recent_operations: 4,
        short_rows: 0,
        ..Sizes::default()
    };
    let store = Store::for_tests(sizes)?;
    let shared = store.shared.clone();
    // Its thread ends.
    drop(store);
    shared.progress.lock().failure = Some(Error::storage("no thread"));
    let put = |numbers: std::ops::Range<u64>| -> Result<()> {
        let mut writer = begin(&shared)?;
        numbers
            .into_iter()
            .try_for_each(|number| writer.put(&document(number), None))?;
        writer.commit()
    };
    // A fold takes a level that is not larger than what it writes.
    for level in 0..9 {
        put(level * 100..level * 100 + 60 - 5 * level)?;
    }
    assert!(matches!(put(900..915), Err(Error::Storage(_))));
    put(1000..1001)?;
    let writer = begin(&shared)?;
    assert!(writer.reader().find(b"key 910")?.is_none());
    assert!(writer.reader().find(b"key 1000")?.is_some());
    Ok(())
}

/// The removal made a scope with a new number, and marked rows of that scope. The rows of the document
/// stayed, and lists and counts no longer agreed.
#[test]
fn removing_a_document_whose_scope_is_lost_finds_the_damage() -> Result<()> {
    let store = Store::for_tests(Sizes::default())?;
    let mut writer = begin(&store.shared)?;
    let document = Document::new("k", Fingerprint::from_bits(1)).with_scope("lost");
    writer.put(&document, None)?;
    let stored = writer.find_to_change(b"k")?.expect("it was put");
    writer.written.scopes.clear();
    let removed = writer.remove(&stored);
    assert!(matches!(&removed, Err(Error::Damaged { table: "scopes", key, .. }) if key == "lost"));
    assert!(writer.written.scopes.is_empty(), "no scope is made");
    assert!(matches!(writer.commit(), Err(Error::Aborted)));
    Ok(())
}

fn document_seen(number: u64) -> Document {
    Document::new(format!("key {number}"), Fingerprint::from_bits(number)).with_seen(number as i64)
}

#[test]
fn documents_are_found_in_memory_and_where_they_were_spilled() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("d.simdb");
    let sizes = Sizes {
        spill_bytes: 1_000,
        document_block_bytes: 300,
        ..Sizes::default()
    };
    let mut written = WrittenDocuments::new(FileSeed(7));
    for number in 10..100 {
        written.push(DocumentNumber(number), &document_seen(number));
        if number % 7 == 0 {
            assert!(written.remove(DocumentNumber(number)));
        }
        written.spill_if_long(&path, &sizes)?;
    }
    assert!(
        !written.remove(DocumentNumber(11)),
        "what was spilled cannot be removed"
    );
    for number in (8..102).map(DocumentNumber) {
        let found = written
            .document(number)
            .transpose()
            .expect("what waits can be read");
        // Removed documents may be in memory until the others are spilled.
        let is_there = (10..100).contains(&number.0) && (number.0 % 7 != 0 || found.is_some());
        assert_eq!(
            found,
            is_there.then(|| document_seen(number.0)),
            "{number:?}"
        );
        // Later documents were seen later.
        for since in [0, 9, 10, 50, 99, 100].map(|since: u64| since.max(10)) {
            let last = written.last_since(number.0, since as i64);
            let right = (number.0 >= since && since < 100).then(|| number.0.min(99));
            // A block outside memory is not read, so it may be that of a later document.
            assert!(
                last >= right && last.is_none_or(|last| last <= number.0),
                "{number:?}, {since}"
            );
            assert!(
                last.is_none_or(|last| last + 40 > since),
                "{number:?}, {since}: {last:?}"
            );
        }
    }
    assert_eq!(
        (written.first_since(99), written.first_since(100)),
        (Some(10), None)
    );
    let last = written.spilled.last().map(|block| block.high);
    let in_memory: Vec<u64> = written.live().map(|document| document.number).collect();
    assert_eq!(
        last.map(|last| last + 1)
            .zip(in_memory.first().copied())
            .map(|(a, b)| b >= a),
        Some(true)
    );
    assert_eq!(in_memory.last(), Some(&99));
    Ok(())
}

/// A merge had failed because the disk did. The disk was repaired and the file opened again, but for a second commits
/// were still refused because of that merge.
#[test]
fn a_merge_that_failed_before_the_file_was_opened_again_stops_no_commit() -> Result<()> {
    let store = Store::for_tests(Sizes::default())?;
    put_all(&store, 0..3)?.commit()?;
    store.shared.set_broken(true);
    let failed = put_all(&store, 3..5).and_then(Transaction::commit);
    assert!(failed.is_err(), "the disk is broken");
    let failure = Error::storage("the disk is broken");
    store.shared.progress.lock().failure = Some(failure);
    store.shared.set_broken(false);
    store.reopen()?;
    assert!(store.shared.progress.lock().failure.is_none());
    put_all(&store, 3..5)?.commit()
}
