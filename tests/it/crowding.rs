//! What is crowded: the largest groups of one fingerprint, the fullest prefixes, the levels of each set.

use std::collections::BTreeMap;

use simdb::Database;

use crate::support::{Folder, TestResult, document, external, insert_all, spread};

/// The largest groups, and other documents, in many commits. Some of a group have a scope, and some are deleted.
fn database(folder: &Folder) -> simdb::Result<Database> {
    let options = external().plan("4x16").recent_documents(200).tiny_blocks();
    let database = Database::create(folder.path("d.simdb"), &options)?;
    for part in 0..4 {
        let group = |size: u64, bits: u64| {
            let scope = move |i: u64| if i.is_multiple_of(3) { "a" } else { "" };
            let key = move |i: u64| format!("{bits} {}", i + part * size);
            (0..size).map(move |i| document(key(i), bits).with_scope(scope(i)))
        };
        let others =
            (0..300).map(|i| document(format!("other {part} {i}"), spread(i + part * 300 + 1)));
        insert_all(
            &database,
            group(300, 7)
                .chain(group(150, 9))
                .chain(group(2, 11))
                .chain(others),
        )?;
    }
    let mut txn = database.begin_write()?;
    for i in 0..500 {
        txn.delete(format!("9 {i}"))?;
    }
    txn.commit()?;
    Ok(database)
}

#[test]
fn the_largest_groups_are_found_by_reading_all_or_the_directories() -> TestResult {
    let folder = Folder::new()?;
    let database = database(&folder)?;
    for is_settled in [false, true] {
        if is_settled {
            database.settle()?;
        }
        let snapshot = database.snapshot()?;
        let groups = |most, most_read| -> simdb::Result<_> {
            let found = snapshot.largest_groups(most, most_read)?;
            let listed = found
                .groups
                .iter()
                .map(|it| (it.fingerprint.bits(), it.documents))
                .collect::<Vec<_>>();
            for group in &found.groups {
                let document = snapshot.get(&group.newest_key)?;
                assert_eq!(
                    document.and_then(|it| it.fingerprint()),
                    Some(group.fingerprint)
                );
            }
            Ok((listed, found.complete_from))
        };
        assert_eq!(
            groups(10, u64::MAX)?,
            (vec![(7, 1200), (9, 100), (11, 8)], 2)
        );
        assert_eq!(groups(1, u64::MAX)?, (vec![(7, 1200)], 2));
        assert_eq!(groups(0, u64::MAX)?.0, []);
        let (listed, complete_from) = groups(10, 0)?;
        assert_eq!(listed.first(), Some(&(7, 1200)));
        assert!((3..1200).contains(&complete_from), "{complete_from}");
    }
    let snapshot = database.snapshot()?;
    assert_eq!(
        snapshot.largest_groups(1, u64::MAX)?.groups[0].newest_key,
        b"7 1199"
    );
    Ok(())
}

#[test]
fn the_fullest_prefix_is_named_with_the_bits_that_its_fingerprints_share() -> TestResult {
    let folder = Folder::new()?;
    let options = external().plan("4x16");
    let database = Database::create(folder.path("d.simdb"), &options)?;
    let stored: Vec<u64> = (0..4_000)
        .map(|i| {
            if i % 4 == 0 {
                spread(i + 1) >> 16 | 0xabcd << 48
            } else {
                spread(i + 1)
            }
        })
        .collect();
    insert_all(
        &database,
        stored
            .iter()
            .enumerate()
            .map(|(i, &bits)| document(i.to_string(), bits)),
    )?;
    let snapshot = database.snapshot()?;
    let fullest = snapshot.fullest_prefixes(3)?;
    assert_eq!((fullest.prefixes.len(), fullest.complete_from), (3, 2));
    let first = &fullest.prefixes[0];
    let having = stored
        .iter()
        .filter(|&bits| bits & first.mask == first.bits)
        .count() as u64;
    assert_eq!(
        (first.rows, first.mask, first.bits),
        (having, 0xffff << 48, 0xabcd << 48)
    );
    assert!(
        having >= 1_000 && first.times_expected() > 10_000.0,
        "{first:?}"
    );
    assert!(
        fullest
            .prefixes
            .is_sorted_by_key(|it| std::cmp::Reverse(it.rows))
    );
    Ok(())
}

#[test]
fn the_statistics_name_every_set_with_its_levels() -> TestResult {
    let folder = Folder::new()?;
    let database = database(&folder)?;
    database.settle()?;
    let stats = database.snapshot()?.stats()?;
    let sets: BTreeMap<&str, _> = stats
        .sets
        .iter()
        .map(|set| (set.name.as_str(), set))
        .collect();
    let names = [
        "dead",
        "keys",
        "permuted-0",
        "permuted-1",
        "permuted-2",
        "permuted-3",
        "postings",
    ];
    assert_eq!(sets.keys().copied().collect::<Vec<_>>(), names);
    assert_eq!(
        stats.sets.iter().map(|set| set.levels.len() as u32).max(),
        Some(stats.levels)
    );
    for set in &stats.sets {
        let marks: u64 = set.levels.iter().map(|level| level.marks).sum();
        // A deletion marks a row in most sets, and was counted as often. Of the postings, a document of a scope has
        // two.
        let most = match set.name.as_str() {
            "postings" => 500 + 500_u64.div_ceil(3),
            _ => 500,
        };
        assert!(marks <= stats.marks.min(most), "{}: {marks}", set.name);
    }
    assert!(stats.marks > 0);
    let keys = sets["keys"];
    let rows: u64 = keys.levels.iter().map(|level| level.rows).sum();
    assert!(rows + keys.recent_rows >= stats.documents, "{keys:?}");
    assert!(keys.levels.iter().all(|level| level.blocks > 0));
    Ok(())
}

/// A mark stays when its row was put in the same commit, or in one that is merged with it. It then marks nothing, and
/// was taken off the rows all the same: of a thousand pages that had changed, the statistics told of no fingerprint.
#[test]
fn changed_documents_are_not_taken_off_the_number_of_fingerprints() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let version =
        |of: u64| (0..1_000).map(move |i| document(i.to_string(), spread(i + of * 1_000 + 1)));
    let told = || Ok::<u64, simdb::Error>(database.snapshot()?.stats()?.fingerprints);
    insert_all(&database, version(0).chain(version(1)))?;
    assert_eq!(told()?, 1_000);
    insert_all(&database, version(2))?;
    assert_eq!(told()?, 1_000);
    insert_all(&database, version(3).chain(version(2)))?;
    assert_eq!(told()?, 1_000);
    Ok(())
}
