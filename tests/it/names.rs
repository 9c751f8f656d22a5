//! The names of a file: links, another directory, files that are removed while they are open.

use std::fs;
use std::path::Path;

use simdb::{Database, Document, Error, OpenOptions};

use crate::support::{
    Folder, TestResult, assert_error, assert_sound, document, external, go_on, going_on,
    insert_all, run, spread, stored, tiny,
};

fn documents(numbers: std::ops::Range<u64>) -> impl Iterator<Item = simdb::Result<Document>> {
    numbers.map(|i| Ok(document(i.to_string(), spread(i))))
}

/// Inserts so much that documents wait in a file.
fn insert_much(database: &Database, numbers: std::ops::Range<u64>) -> simdb::Result<()> {
    insert_all(
        database,
        documents(numbers).collect::<simdb::Result<Vec<_>>>()?,
    )
}

/// Waiting documents went to a file in the directory of the path that was given. If that was a link, it was
/// another directory than that of the database, perhaps one in which nothing can be written.
#[cfg(unix)]
#[test]
fn waiting_documents_go_beside_the_file_and_not_beside_a_link_to_it() -> TestResult {
    let folder = Folder::new()?;
    drop(folder.tiny_database("d.simdb")?);
    fs::create_dir(folder.path("links"))?;
    std::os::unix::fs::symlink(folder.path("d.simdb"), folder.path("links/l.simdb"))?;
    let database = Database::open(folder.path("links/l.simdb"), &tiny())?;
    fs::remove_dir_all(folder.path("links"))?;
    insert_much(&database, 0..300)?;
    database.compact(go_on)?;
    assert_eq!(stored(&database)?, 300);
    assert_sound(&database)?;
    Ok(())
}

const FOLDER: &str = "SIMDB_TEST_FOLDER";

/// Paths were looked up again when they were used. A relative path then led to another place, or to none,
/// if the process had changed its directory in the meantime.
///
/// The directory belongs to the whole process. So this test runs itself once more in another process.
#[test]
fn a_relative_path_keeps_its_meaning_when_the_process_changes_its_directory() -> TestResult {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return go_elsewhere(Path::new(&folder));
    }
    let folder = Folder::new()?;
    fs::create_dir_all(folder.path("here/sub"))?;
    fs::create_dir(folder.path("there"))?;
    let name = "names::a_relative_path_keeps_its_meaning_when_the_process_changes_its_directory";
    let ran = std::process::Command::new(std::env::current_exe()?)
        .args(["--exact", name])
        .env(FOLDER, folder.path("."))
        .output()?;
    assert!(
        ran.status.success(),
        "{}",
        String::from_utf8_lossy(&ran.stdout)
    );
    let names = |name: &str| Ok::<_, std::io::Error>(fs::read_dir(folder.path(name))?.count());
    assert_eq!((names("here/sub")?, names("there")?), (3, 0));
    for (name, documents) in [("d.simdb", 600), ("b.simdb", 300), ("c.simdb", 50)] {
        let database = Database::open(folder.path("here/sub").join(name), &tiny())?;
        assert_eq!(stored(&database)?, documents, "{name}");
        assert_sound(&database)?;
    }
    Ok(())
}

fn go_elsewhere(folder: &Path) -> TestResult {
    let here = || std::env::set_current_dir(folder.join("here")).expect("the directory is there");
    let there = || std::env::set_current_dir(folder.join("there")).expect("the directory is there");
    here();
    let options = external().recent_documents(8).tiny_blocks();
    let database = Database::create("sub/d.simdb", &options)?;
    there();
    insert_much(&database, 0..300)?;
    database.compact(go_on)?;
    here();
    database
        .snapshot()?
        .backup_with("sub/b.simdb", going_on(|_, _| there()))?;
    insert_much(&database, 300..600)?;
    here();
    let moving = documents(0..50).inspect(|_| there());
    let built = Database::build("sub/c.simdb", &options, moving, 1)?;
    assert_eq!(stored(&built)?, 50);
    there();
    #[cfg(unix)]
    assert!(database.serve()?.path().ends_with("here/sub/d.simdb.sock"));
    Ok(())
}

/// A compaction gave the copy one of the names. Under the others the old file went on as a second database,
/// which got none of the later commits.
#[test]
fn a_file_with_several_names_is_not_compacted() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_much(&database, 0..100)?;
    fs::hard_link(folder.path("d.simdb"), folder.path("e.simdb"))?;
    let refused = database.compact(|_, _| panic!("rows are copied"));
    assert_error!(&refused => Error::SeveralNames { names: 2, .. });
    assert_eq!(folder.count()?, 2, "something is left");
    drop(database);
    run!("compact", folder.path("d.simdb"))
        .refused("2 names")
        .says("backup instead");
    // A name that appears while the copy is made is noticed too.
    fs::remove_file(folder.path("e.simdb"))?;
    let database = Database::open(folder.path("d.simdb"), &tiny())?;
    let link = || _ = fs::hard_link(folder.path("d.simdb"), folder.path("e.simdb"));
    assert_error!(
        database.compact(going_on(|_, _| link())) => Error::SeveralNames { names: 2, .. }
    );
    assert_eq!(folder.count()?, 2, "something is left");
    fs::remove_file(folder.path("e.simdb"))?;
    database.compact(go_on)?;
    assert_eq!(stored(&database)?, 100);
    Ok(())
}

/// Commits to a file that had been removed succeeded. What they stored was gone when the file was closed.
#[cfg(unix)]
#[test]
fn a_commit_to_a_file_that_was_removed_or_replaced_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    for replaced in [false, true] {
        let database = folder.tiny_database("d.simdb")?;
        insert_much(&database, 0..100)?;
        let mut txn = database.begin_write()?;
        txn.insert(&document("last", 1))?;
        let snapshot = database.snapshot()?;
        if replaced {
            fs::write(folder.path("other"), "what somebody restored")?;
            fs::rename(folder.path("other"), &path)?;
        } else {
            fs::remove_file(&path)?;
        }
        assert_error!(txn.commit() => Error::Removed { path: named, .. } if *named == path);
        // Reading goes on, and a backup saves what was committed.
        assert_eq!(snapshot.documents().count(), 100);
        assert_eq!(stored(&database)?, 100);
        snapshot.backup_with(folder.path("b.simdb"), go_on)?;
        drop((snapshot, database));
        let saved = Database::open(folder.path("b.simdb"), &tiny())?;
        assert_eq!(stored(&saved)?, 100);
        assert_sound(&saved)?;
        drop(saved);
        fs::remove_file(folder.path("b.simdb"))?;
        assert_eq!(path.exists(), replaced);
        _ = fs::remove_file(&path);
    }
    Ok(())
}

/// A file that was only renamed has a name, and so has the copy that a compaction puts in its place.
#[cfg(unix)]
#[test]
fn commits_go_on_after_a_rename_and_after_a_compaction() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_much(&database, 0..100)?;
    let old = database.snapshot()?;
    database.compact(go_on)?;
    insert_much(&database, 100..200)?;
    assert_eq!(
        old.documents().count(),
        100,
        "it reads a file without a name"
    );
    fs::rename(folder.path("d.simdb"), folder.path("e.simdb"))?;
    insert_much(&database, 200..300)?;
    drop((old, database));
    assert_eq!(
        stored(&Database::open(
            folder.path("e.simdb"),
            &OpenOptions::new()
        )?)?,
        300
    );
    Ok(())
}
