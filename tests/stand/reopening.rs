//! Opening the file again with the same handle, on a disk that has done more than to fail.

use super::history::SIZES;
use crate::database::Database;
use crate::document::Document;
use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::store::{Recording, Settings, Sizes, Store};

fn database(recording: &Recording, sizes: Sizes) -> Result<Database> {
    let settings = Settings::for_tests();
    let store = Store::on_backend(recording.clone(), Some(&settings), sizes)?;
    Ok(Database::of_store(store.into()))
}

fn insert(database: &Database, key: u64) -> Result<()> {
    let mut txn = database.begin_write()?;
    txn.insert(&Document::new(key.to_string(), Fingerprint::from_bits(key)).with_seen(0))?;
    txn.commit()
}

/// Lets a commit fail.
fn fail_once(database: &Database) {
    database.store.set_broken(true);
    let failed = insert(database, 900);
    assert!(failed.is_err(), "the disk is broken");
    database.store.set_broken(false);
}

/// A disk that fails may also forget. New blocks would then get the numbers of lost ones, and the caller would go on
/// with less than was acknowledged.
#[test]
fn a_handle_does_not_go_on_where_acknowledged_commits_are_lost() -> Result<()> {
    let recording = Recording::default();
    let database = database(&recording, Sizes::default())?;
    for key in 0..4 {
        insert(&database, key)?;
    }
    fail_once(&database);
    // The byte that says which of two commits is the last.
    recording.flip(9, 1);
    for _ in 0..2 {
        let reopened = database.reopen();
        assert!(matches!(reopened, Err(Error::Corrupted(_))), "{reopened:?}");
        let refused = insert(&database, 5);
        assert!(
            matches!(refused, Err(Error::OutcomeUnknown { .. })),
            "{refused:?}"
        );
    }
    Ok(())
}

/// A snapshot of before can read nothing any more, so it keeps nothing from being used again. Who looks at the metrics
/// for what keeps a file large would be misled by it.
#[test]
fn a_reopened_file_is_not_kept_by_snapshots_of_before() -> Result<()> {
    let recording = Recording::default();
    let database = database(&recording, SIZES)?;
    insert(&database, 0)?;
    let old = database.snapshot()?;
    for key in 0..30 {
        insert(&database, key)?;
    }
    database.settle()?;
    let before = database.metrics();
    assert!(
        before.oldest_pin.is_some() && before.pinned_bytes > 0,
        "{before:?}"
    );
    fail_once(&database);
    database.reopen()?;
    let after = database.metrics();
    assert_eq!((after.oldest_pin, after.pinned_bytes), (None, 0));
    drop(old);
    Ok(())
}
