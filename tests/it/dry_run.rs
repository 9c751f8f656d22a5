//! What would be deleted can be seen before.

use simdb::{Database, Expiry, OpenOptions};
use std::ops::ControlFlow;

use crate::support::{Folder, TestResult, document, done, every, insert_all, run};

fn filled(folder: &Folder) -> simdb::Result<()> {
    let of = |number: u64| {
        let scope = if number.is_multiple_of(2) {
            "even"
        } else {
            "odd"
        };
        document(format!("k{number}"), number << 32)
            .with_seen(number as i64)
            .with_scope(scope)
    };
    insert_all(&folder.tiny_database("d.simdb")?, (0..100).map(of))
}

#[test]
fn an_expiry_tells_what_it_would_delete_and_changes_nothing() -> TestResult {
    let folder = Folder::new()?;
    filled(&folder)?;
    let path = folder.path("d.simdb");
    let before = std::fs::read(&path)?;
    let text = done!("expire", &path, "--before 10 --scope even --dry-run");
    assert_eq!(text.out, "would remove 5 documents; nothing was changed\n");
    let mut json = done!("expire", &path, "--before 10 --scope even --dry-run --json").json()?;
    assert_eq!(json.pop().unwrap_or_default()["would_remove"], 5);
    let keys: Vec<_> = json.iter().filter_map(|it| it["key"].as_str()).collect();
    assert_eq!(keys, ["k0", "k2", "k4", "k6", "k8"]);
    let scope = done!("delete", &path, "--scope odd --dry-run");
    assert_eq!(
        scope.out,
        "would remove 50 documents; nothing was changed\n"
    );
    assert_eq!(std::fs::read(&path)?, before);
    assert_eq!(
        done!("expire", &path, "--before 10 --scope even").out,
        "removed 5 documents\n"
    );
    Ok(())
}

#[test]
fn keys_that_would_be_deleted_are_told_and_stay() -> TestResult {
    let folder = Folder::new()?;
    filled(&folder)?;
    let path = folder.path("d.simdb");
    let ran = run!("delete", &path, "k1 nobody k2 --dry-run")
        .expect(1)
        .says("nobody: no such key");
    assert_eq!(ran.out, "would delete k1\nwould delete k2\n");
    done!("get", &path, "k1");
    // A key that comes again is told as the deletion tells it.
    let told = run!("delete", &path, "k1 k1 --dry-run").expect(1);
    assert_eq!(told.out, "would delete k1\n");
    let deleted = run!("delete", &path, "k1 k1").expect(1);
    assert_eq!(
        (deleted.out.as_str(), deleted.err),
        ("deleted k1\n", told.err)
    );
    Ok(())
}

#[test]
fn what_would_expire_is_what_expires() -> TestResult {
    let folder = Folder::new()?;
    filled(&folder)?;
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    let mut txn = database.begin_write()?;
    // Seen again, so it stays; and one is gone already.
    txn.touch(b"k3", 1_000)?;
    txn.delete(b"k4")?;
    txn.commit()?;
    for expiry in [
        Expiry::new(),
        Expiry::new().before(0),
        Expiry::new().before(50),
        Expiry::new().scopes(["odd"]).before(70),
        Expiry::new().scopes(["nobody"]),
        Expiry::new().scopes(["even", "odd"]),
    ] {
        let mut told = Vec::new();
        let count = database.snapshot()?.to_expire(&expiry, |document| {
            told.push(document.key().to_vec());
            ControlFlow::Continue(())
        })?;
        assert_eq!(count, told.len() as u64);
        assert_eq!(database.expire(&expiry, every)?, count, "{expiry:?}");
        for key in told {
            assert!(database.snapshot()?.get(&key)?.is_none());
        }
    }
    assert_eq!(database.snapshot()?.stats()?.documents, 0);
    let none = database
        .snapshot()?
        .to_expire(&Expiry::new().before(simdb::UnixSeconds::MAX), |_| {
            ControlFlow::Break(())
        })?;
    assert_eq!(none, 0);
    Ok(())
}
