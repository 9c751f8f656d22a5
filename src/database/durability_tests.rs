//! New files whose directory cannot be synced, and commits that cannot be written.

use crate::error::{Error, Result};
use crate::files::fail_directory_syncs;
use crate::{CreateOptions, Database, Document, Fingerprint, Scheme};

/// Runs an operation while no directory can be synced.
fn unsynced<T>(operation: impl FnOnce() -> Result<T>) -> Result<()> {
    fail_directory_syncs(true);
    let outcome = operation().map(drop);
    fail_directory_syncs(false);
    outcome
}

/// The functions say that there is a whole database afterwards or nothing. But if the directory could not be
/// synced, they returned an error, and the file was there. A second try found the name taken.
#[test]
fn a_new_database_whose_name_is_not_durable_is_not_there() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = |name: &str| folder.path().join(name);
    let options = CreateOptions::new().scheme(Scheme::External);
    let one = || [Ok(Document::new("a", Fingerprint::from_bits(1)))];
    let create = || Database::create(path("create"), &options);
    let build = || Database::build(path("build"), &options, one(), 1 << 20);
    let source = Database::build(path("source"), &options, one(), 1 << 20)?;
    let snapshot = source.snapshot()?;
    let backup = || snapshot.backup(path("backup"));

    for failed in [unsynced(create), unsynced(build), unsynced(backup)] {
        assert!(matches!(failed, Err(Error::Io { .. })), "{failed:?}");
    }
    let names = || {
        std::fs::read_dir(folder.path())
            .expect("the folder is there")
            .count()
    };
    assert_eq!(names(), 1, "something is left beside the source");
    let created = create()?;
    let built = build()?;
    backup()?;
    let backup = Database::open(path("backup"), &options.open)?;
    let documents = [created, built, backup].map(|it| it.snapshot().and_then(|it| it.stats()));
    let documents = documents.into_iter().map(|it| it.map(|it| it.documents));
    assert_eq!(documents.collect::<Result<Vec<_>>>()?, [0, 1, 1]);
    Ok(())
}

#[test]
fn a_commit_that_fails_is_counted_and_its_documents_are_not() -> Result<()> {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let options = CreateOptions::new().scheme(Scheme::External);
    let database = Database::create(folder.path().join("d.simdb"), &options)?;
    let insert = || {
        let mut txn = database.begin_write()?;
        txn.insert(&Document::new("key", Fingerprint::from_bits(1)))?;
        txn.commit()
    };
    database.store.set_broken(true);
    assert!(insert().is_err(), "the disk is broken");
    database.store.set_broken(false);
    let metrics = database.metrics();
    assert_eq!(
        (
            metrics.failed_commits,
            metrics.commit_times.count(),
            metrics.documents_stored
        ),
        (1, 0, 0)
    );
    database.reopen()?;
    insert()?;
    let metrics = database.metrics();
    assert_eq!(
        (
            metrics.failed_commits,
            metrics.commit_times.count(),
            metrics.documents_stored
        ),
        (1, 1, 1)
    );
    Ok(())
}
