//! Clusters of near-duplicates and their survivors, and the deletion of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use simdb::{
    ClusterEvent, ClusterTotals, Clustering, CreateOptions, Database, DeletionEvent, Document,
    Error, Fingerprint, Near, OpenOptions, Snapshot, Survivor,
};

use crate::support::{
    Folder, TestResult, all_keys, assert_error, assert_has, assert_sound, document, done, external,
    insert_all, run, scattered,
};

/// The keys of the documents of a cluster with their distances, and that of its survivor.
type Found = BTreeMap<String, BTreeMap<String, u32>>;

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn clusters(snapshot: &Snapshot, clustering: &Clustering) -> simdb::Result<(Found, ClusterTotals)> {
    let mut found = Found::new();
    let totals = snapshot.clusters(clustering, |event| {
        if let ClusterEvent::Cluster(cluster) = event {
            let survivor = &cluster.documents[cluster.survivor];
            let documents = &cluster.documents;
            let of = |it: &simdb::ClusterDocument| {
                assert_eq!(it.fingerprint.distance(survivor.fingerprint), it.distance);
                (text(&it.key), it.distance)
            };
            let farthest = documents.iter().flat_map(|a| {
                documents
                    .iter()
                    .map(|b| a.fingerprint.distance(b.fingerprint))
            });
            assert_eq!(cluster.diameter, farthest.max());
            let members = documents.iter().map(of).collect();
            assert!(found.insert(text(&survivor.key), members).is_none());
        }
        ControlFlow::Continue(())
    })?;
    assert_eq!(totals.clusters, found.len() as u64);
    assert_eq!(
        totals.documents,
        found.values().map(|it| it.len() as u64).sum::<u64>()
    );
    assert_eq!(
        totals.largest,
        found.values().map(|it| it.len() as u64).max().unwrap_or(0)
    );
    Ok((found, totals))
}

/// Whether one document is better than another.
type Better = fn(&Document, &Document) -> bool;

/// Documents of which many are near to others, in chains too.
fn documents(count: u64) -> Vec<Document> {
    (0..count)
        .map(|i| {
            let bits =
                (0..i % 7).fold(scattered(i / 14), |bits, j| bits ^ 1 << ((i / 14 + j) % 64));
            document(format!("key {}", scattered(i) % 100_000), bits)
                .with_rank([(scattered(i) % 3) as i64])
                .with_seen((scattered(i + 7) % 5) as i64)
                .with_scope(if i % 4 == 0 { "quarter" } else { "" })
        })
        .collect()
}

/// Stars by the plain algorithm: the best document is a centre, and takes what is near to it and not taken.
fn plain_stars(
    documents: &[Document],
    max_distance: u32,
    better: impl Fn(&Document, &Document) -> bool,
) -> Found {
    let mut order: Vec<usize> = (0..documents.len()).collect();
    // A stable sort keeps those first that were written first.
    order.sort_by(|&a, &b| {
        better(&documents[b], &documents[a]).cmp(&better(&documents[a], &documents[b]))
    });
    let mut taken = BTreeSet::new();
    let mut found = Found::new();
    let distance = |a: &Document, b: &Document| {
        a.fingerprint()
            .zip(b.fingerprint())
            .map(|(a, b)| a.distance(b))
    };
    for &centre in &order {
        if taken.contains(&centre) {
            continue;
        }
        let mut members = BTreeMap::new();
        for (index, other) in documents.iter().enumerate() {
            let near = distance(&documents[centre], other).filter(|&it| it <= max_distance);
            if let Some(near) = near.filter(|_| taken.insert(index)) {
                members.insert(text(other.key()), near);
            }
        }
        if members.len() > 1 {
            found.insert(text(documents[centre].key()), members);
        }
    }
    found
}

fn filled(folder: &Folder, documents: &[Document]) -> simdb::Result<Database> {
    let database = folder.tiny_database("d.simdb")?;
    for part in documents.chunks(70) {
        insert_all(&database, part.iter().cloned())?;
    }
    Ok(database)
}

/// Documents whose fingerprints are all near to each other, and some that are not.
fn crowd(count: u64) -> Vec<Document> {
    let crowded = (0..count).map(|i| {
        let bits = (0..4).fold(scattered(1), |bits, j| {
            bits ^ 1 << (scattered(i * 4 + j) % 12)
        });
        document(format!("crowded {i}"), bits).with_rank([(scattered(i) % 3) as i64])
    });
    crowded.chain(documents(count / 2)).collect()
}

#[test]
fn in_a_crowd_the_neighbours_that_are_not_kept_are_found() -> TestResult {
    let documents = crowd(300);
    // Of the large database, the neighbours are compared, of the tiny one they are looked up.
    for is_tiny in [true, false] {
        let folder = Folder::in_memory()?;
        let database = if is_tiny {
            folder.tiny_database("d.simdb")?
        } else {
            folder.database("d.simdb")?
        };
        insert_all(&database, documents.iter().cloned())?;
        let snapshot = database.snapshot()?;
        for max_distance in [1, 2, 3, 6, 13] {
            let plain = Clustering::new().near(Near::within(max_distance).min_similarity(0.0));
            let (found, totals) = clusters(&snapshot, &plain)?;
            assert_eq!(
                found,
                plain_stars(&documents, max_distance, |a, b| a.rank() > b.rank())
            );
            let (connected, of_connected) = clusters(&snapshot, &plain.connected(true))?;
            assert_eq!(
                (totals.connected, totals.largest_connected),
                (of_connected.clusters, of_connected.largest)
            );
            assert_eq!(connected.len(), plain_components(&documents, max_distance));
        }
    }
    Ok(())
}

/// The number of connected components of at least two documents, by spreading labels.
fn plain_components(documents: &[Document], max_distance: u32) -> usize {
    let mut labels: Vec<usize> = (0..documents.len()).collect();
    let fingerprints: Vec<Fingerprint> =
        documents.iter().filter_map(Document::fingerprint).collect();
    let near = |a: usize, b: usize| fingerprints[a].distance(fingerprints[b]) <= max_distance;
    let pairs: Vec<(usize, usize)> = (0..documents.len())
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .filter(|&(a, b)| near(a, b))
        .collect();
    loop {
        let before = labels.clone();
        for &(a, b) in &pairs {
            let least = labels[a].min(labels[b]);
            (labels[a], labels[b]) = (least, least);
        }
        if labels == before {
            break;
        }
    }
    let mut sizes = BTreeMap::new();
    labels
        .iter()
        .for_each(|label| *sizes.entry(label).or_insert(0) += 1);
    sizes.values().filter(|&&size| size > 1).count()
}

#[test]
fn every_document_is_near_to_its_survivor_which_is_the_best() -> TestResult {
    let folder = Folder::in_memory()?;
    let documents = documents(600);
    let database = filled(&folder, &documents)?;
    let snapshot = database.snapshot()?;
    let near = |max_distance| Near::within(max_distance).min_similarity(0.0);
    let plain = |max_distance| Clustering::new().near(near(max_distance));
    for max_distance in [0, 1, 3, 6, 16] {
        let by_rank = plain_stars(&documents, max_distance, |a, b| a.rank() > b.rank());
        let (found, totals) = clusters(&snapshot, &plain(max_distance))?;
        assert_eq!(found, by_rank, "distance {max_distance}");
        assert_eq!(totals.beyond, 0);
        assert!(totals.connected <= totals.clusters && totals.largest_connected >= totals.largest);
        let orders: [(Vec<Survivor>, Better); 5] = [
            (vec![], |_, _| false),
            (vec![Survivor::Earliest], |a, b| a.seen() < b.seen()),
            (vec![Survivor::Latest], |a, b| a.seen() > b.seen()),
            (vec![Survivor::ShortestKey], |a, b| {
                a.key().len() < b.key().len()
            }),
            (vec![Survivor::Rank, Survivor::Latest], |a, b| {
                (a.rank(), a.seen()) > (b.rank(), b.seen())
            }),
        ];
        for (order, better) in orders {
            let expected = plain_stars(&documents, max_distance, better);
            let (found, _) = clusters(&snapshot, &plain(max_distance).survivor(order.clone()))?;
            assert_eq!(found, expected, "distance {max_distance}, {order:?}");
        }
        let quarter: Vec<Document> = documents
            .iter()
            .filter(|it| it.scope() == "quarter")
            .cloned()
            .collect();
        let recent: Vec<Document> = documents
            .iter()
            .filter(|it| it.seen() >= 3)
            .cloned()
            .collect();
        let by_rank = |documents: &[Document]| {
            plain_stars(documents, max_distance, |a, b| a.rank() > b.rank())
        };
        assert_eq!(
            clusters(
                &snapshot,
                &Clustering::new().near(near(max_distance).scopes(["quarter"]))
            )?
            .0,
            by_rank(&quarter)
        );
        assert_eq!(
            clusters(
                &snapshot,
                &Clustering::new().near(near(max_distance).since(3))
            )?
            .0,
            by_rank(&recent)
        );
    }
    Ok(())
}

#[test]
fn chains_connect_documents_that_are_far_apart_and_that_is_told() -> TestResult {
    let folder = Folder::in_memory()?;
    let chain: Vec<Document> = (0..10)
        .map(|i| document(format!("c{i}"), (1 << i) - 1))
        .collect();
    let database = filled(&folder, &chain)?;
    let snapshot = database.snapshot()?;
    let near = Clustering::new().near(Near::within(1).min_similarity(0.0));
    let (stars, totals) = clusters(&snapshot, &near)?;
    assert_eq!(
        stars.keys().collect::<Vec<_>>(),
        ["c0", "c2", "c4", "c6", "c8"]
    );
    assert_eq!(
        (
            totals.connected,
            totals.largest_connected,
            totals.diameter,
            totals.beyond
        ),
        (1, 10, 1, 0)
    );
    let (connected, totals) = clusters(&snapshot, &near.clone().connected(true))?;
    assert_eq!(connected.keys().collect::<Vec<_>>(), ["c0"]);
    assert_eq!(
        (
            totals.clusters,
            totals.largest,
            totals.diameter,
            totals.beyond
        ),
        (1, 10, 9, 8)
    );
    assert_eq!(totals.duplicates(), 9);
    Ok(())
}

#[test]
fn similar_documents_only_are_put_together_if_the_database_asks_for_that() -> TestResult {
    let folder = Folder::in_memory()?;
    let path = folder.path("d.simdb");
    let text = |last: &str| {
        let words: Vec<String> = (0..60).map(|i| format!("word{}", i * 7)).collect();
        format!("{} {last}", words.join(" "))
    };
    let other: String = (0..60).map(|i| format!("other{} ", i * 11)).collect();
    let lines = format!(
        "a\t{}\nb\t{}\nc\t{other}\nd\t{}\n",
        text("end"),
        text("stop"),
        text("end")
    );
    let input = folder.file("in.tsv", lines)?;
    done!("ingest", &path, &input, "--max-distance 40");
    // At distance 40 all are near, but only three are similar.
    let database = Database::open(&path, &OpenOptions::new())?;
    let (found, _) = clusters(&database.snapshot()?, &Clustering::new())?;
    assert_eq!(found.len(), 1);
    assert_eq!(found["a"].keys().collect::<Vec<_>>(), ["a", "b", "d"]);
    let (found, _) = clusters(
        &database.snapshot()?,
        &Clustering::new().near(Near::within(64).min_similarity(0.0)),
    )?;
    assert_eq!(found["a"].len(), 4);
    Ok(())
}

#[test]
fn deletion_keeps_the_survivors_and_nothing_else_of_a_cluster() -> TestResult {
    let folder = Folder::in_memory()?;
    let documents = documents(500);
    let database = filled(&folder, &documents)?;
    let clustering = Clustering::new().near(Near::within(3).min_similarity(0.0));
    let (found, totals) = clusters(&database.snapshot()?, &clustering)?;
    let expected: BTreeSet<String> = found
        .iter()
        .flat_map(|(survivor, members)| members.keys().filter(move |it| *it != survivor))
        .cloned()
        .collect();
    assert!(expected.len() > 50);
    let mut would_go = BTreeSet::new();
    database.snapshot()?.duplicates(&clustering, |event| {
        if let DeletionEvent::Duplicate(it) = event {
            assert!(found[&text(&it.survivor)][&text(it.document.key())] == it.distance);
            would_go.insert(text(it.document.key()));
        }
        ControlFlow::Continue(())
    })?;
    assert_eq!(would_go, expected);
    assert_eq!(database.snapshot()?.stats()?.documents, 500);
    // Nothing is deleted if the observer breaks before the first commit.
    let broken = database.delete_duplicates_with(&clustering, |event| match event {
        DeletionEvent::Reported => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })?;
    assert_eq!((broken, database.snapshot()?.stats()?.documents), (0, 500));
    let (mut told, mut committed) = (BTreeSet::new(), 0);
    let deleted = database.delete_duplicates_with(&clustering, |event| {
        match event {
            DeletionEvent::Duplicate(it) => _ = told.insert(text(it.document.key())),
            DeletionEvent::Committed { deleted, .. } => committed = deleted,
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    assert_eq!(
        (deleted, committed, &told),
        (totals.duplicates(), totals.duplicates(), &expected)
    );
    assert_sound(&database)?;
    let left = BTreeSet::from_iter(all_keys(&database.snapshot()?)?);
    let all: BTreeSet<String> = documents.iter().map(|it| text(it.key())).collect();
    assert_eq!(left, &all - &expected);
    assert_eq!(
        clusters(&database.snapshot()?, &clustering)?.0,
        Found::new()
    );
    assert_eq!(database.delete_duplicates(&clustering)?, 0);
    Ok(())
}

/// What others change while the clusters are found is not touched.
#[test]
fn documents_that_change_meanwhile_stay() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    let pairs = [
        ("a1", 0),
        ("a2", 1),
        ("b1", 0xff << 40),
        ("b2", 0xff << 40),
        ("c1", 0xff << 20),
        ("c2", 0xff << 20),
    ];
    insert_all(&database, pairs.map(|(key, bits)| document(key, bits)))?;
    let mut was_changed = false;
    let deleted = database.delete_duplicates_with(&Clustering::new().near(1), |event| {
        // After everything was read: a duplicate comes again with other content, and a survivor goes.
        if let DeletionEvent::Progress { done, all, .. } = event
            && done == all
            && !was_changed
            && done >= 6
        {
            was_changed = true;
            let changed = insert_all(&database, [document("a2", u64::MAX)]).and_then(|()| {
                let mut txn = database.begin_write()?;
                txn.delete("b1")?;
                txn.commit()
            });
            assert!(changed.is_ok(), "{changed:?}");
        }
        ControlFlow::Continue(())
    })?;
    assert!(was_changed);
    assert_eq!(deleted, 1);
    let left = all_keys(&database.snapshot()?)?;
    assert_eq!(
        left.into_iter().collect::<BTreeSet<_>>(),
        ["a1", "a2", "b2", "c1"].map(String::from).into()
    );
    assert_eq!(
        database
            .snapshot()?
            .get("a2")?
            .and_then(|it| it.fingerprint()),
        Some(Fingerprint::from_bits(u64::MAX))
    );
    Ok(())
}

#[test]
fn the_commands_print_clusters_and_what_they_delete() -> TestResult {
    let folder = Folder::in_memory()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &external())?;
    let all = [
        ("a", 7, 1),
        ("b", 6, 9),
        ("c", 7, 1),
        ("d", 4, 1),
        ("far", u64::MAX, 1),
    ];
    insert_all(
        &database,
        all.map(|(key, bits, rank)| document(key, bits).with_rank([rank])),
    )?;
    drop(database);
    let ran = done!("clusters", &path, "--max-distance 1");
    assert_eq!(ran.out, "1\ta\tb\t1\n1\tb\tb\t0\n1\tc\tb\t1\n1\td\tb\t1\n");
    ran.says("1 cluster with 4 documents, 3 duplicates among them")
        .says("greatest distance in a cluster is 2");
    let ran = folder
        .run("clusters d.simdb --max-distance 1 --survivor shortest-key,latest --summary")?
        .expect(0);
    assert_eq!(ran.out, "1\ta\t3\t1\n");
    ran.says("would join them to").says("4 documents");
    let objects = done!("clusters", &path, "--connected --json").json()?;
    assert_eq!(objects.len(), 4);
    assert!(
        objects
            .iter()
            .all(|it| it["survivor"] == "b" && it["cluster"] == 1)
    );
    // To delete says what it would delete, and then does it.
    let would = done!("delete", &path, "--duplicates --max-distance 1 --dry-run");
    assert_eq!(would.out.lines().count(), 3);
    would.says("would delete 3 documents");
    run!("delete", &path, "--max-distance 1 a").refused("--duplicates");
    run!("delete", &path, "--duplicates a").refused("cannot be used with");
    let ran = done!("delete", &path, "--duplicates --max-distance 1")
        .begins("deleted a, which is near b (distance 1)\n");
    ran.says("deleted 3 documents");
    assert_eq!(done!("stats", &path, "--json").object()?["documents"], 2);
    let nothing = done!("delete", &path, "--duplicates");
    assert_eq!(nothing.out, "");
    done!("check", &path);
    // Also of a file that another process has open, but not of one that may only be read.
    let held = Database::open(&path, &OpenOptions::new().serve(true))?;
    insert_all(&held, [document("again", u64::MAX)])?;
    let objects = done!("delete", &path, "--duplicates --json").json()?;
    assert_has!(objects[0], {"key": "again", "survivor": "far"});
    drop(held);
    let reading = Database::open(&path, &OpenOptions::new().read_only(true))?;
    assert_error!(reading.delete_duplicates(&Clustering::new()) => Error::ReadOnly);
    Ok(())
}

/// It was told within the transaction, so others had to wait for whoever was told.
#[test]
fn what_is_told_of_a_deletion_is_told_while_others_may_write() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    for is_connected in [false, true] {
        let keys = ["a", "b", "c", "d", "e"];
        insert_all(&database, keys.map(|key| document(key, 0)))?;
        let clustering = Clustering::new().near(0).connected(is_connected);
        let (mut events, mut changed) = (0, 0);
        let (mut told, mut kept) = (BTreeSet::new(), BTreeSet::new());
        let deleted = database.delete_duplicates_with(&clustering, |event| {
            events += 1;
            let written = insert_all(
                &database,
                [document(format!("other {events}"), u64::MAX >> events)],
            );
            assert!(written.is_ok(), "{event:?}: {written:?}");
            match event {
                DeletionEvent::Duplicate(it) => _ = told.insert(text(it.document.key())),
                DeletionEvent::Kept(it) => _ = kept.insert(text(it.document.key())),
                DeletionEvent::Reported => {
                    changed += 1;
                    assert!(insert_all(&database, [document("c", 1 << 40)]).is_ok());
                }
                _ => {}
            }
            ControlFlow::Continue(())
        })?;
        assert_eq!((deleted, changed), (3, 1), "connected: {is_connected}");
        assert_eq!(told, ["b", "c", "d", "e"].map(String::from).into());
        assert_eq!(kept, ["c"].map(String::from).into());
        assert_eq!(
            database
                .snapshot()?
                .get("c")?
                .and_then(|it| it.fingerprint()),
            Some(Fingerprint::from_bits(1 << 40))
        );
        assert_sound(&database)?;
        assert_eq!(
            database.expire(&simdb::Expiry::new().before(1), |_| ControlFlow::Continue(
                ()
            ))?,
            2 + events
        );
    }
    Ok(())
}

/// Breaks at the event of this number, the first of which is 1.
fn until(last: u64, seen: &mut u64) -> ControlFlow<()> {
    *seen += 1;
    match *seen {
        seen if seen < last => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    }
}

#[test]
fn the_search_for_clusters_ends_at_each_event_at_which_nobody_wants_more() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = filled(&folder, &documents(600))?;
    let snapshot = database.snapshot()?;
    for connected in [false, true] {
        let clustering = Clustering::new().near(3).connected(connected);
        let mut events = 0;
        snapshot.clusters(&clustering, |_| until(u64::MAX, &mut events))?;
        for last in [1, 2, events / 3, events / 2, events - 1] {
            let mut seen = 0;
            let mut clusters = 0;
            let totals = snapshot.clusters(&clustering, |event| {
                clusters += u64::from(matches!(event, ClusterEvent::Cluster(_)));
                until(last, &mut seen)
            })?;
            assert_eq!((seen, totals.clusters), (last, clusters));

            let mut seen = 0;
            snapshot.duplicates(&clustering, |_| until(last.min(20), &mut seen))?;
            assert_eq!(seen, last.min(20));
        }
        // Nothing is deleted before the first duplicates are reported.
        let deleted = database.delete_duplicates_with(&clustering, |event| match event {
            DeletionEvent::Reported => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })?;
        assert_eq!(deleted, 0);
    }
    Ok(())
}

/// Once the document in the middle of a chain went first, and a second run found two clusters.
#[test]
fn a_deletion_of_connected_documents_that_is_stopped_ends_as_if_it_had_not_been() -> TestResult {
    let folder = Folder::in_memory()?;
    let many = (0..10_100).map(|i| document(format!("z{i}"), 0));
    let ends = |key: &str, bits| document(key, bits);
    let documents: Vec<Document> = [ends("s", 0), ends("b", 0b111)]
        .into_iter()
        .chain(many)
        .chain([ends("c", 0b11_1111)])
        .collect();
    let database = filled(&folder, &documents)?;
    let clustering = Clustering::new().near(3).connected(true);
    for _ in 0..20 {
        database.delete_duplicates_with(&clustering, |event| match event {
            DeletionEvent::Committed { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })?;
    }
    let left = all_keys(&database.snapshot()?)?;
    assert_eq!(left, ["s"]);
    Ok(())
}

#[test]
fn who_is_near_to_the_survivor_by_a_chain_only_is_told_by_similarity_too() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = Database::create(folder.path("d.simdb"), &CreateOptions::new())?;
    let fingerprinter = database.fingerprinter()?;
    let words = |from: usize| {
        (from..from + 120)
            .map(|it| format!("word{it}"))
            .collect::<Vec<_>>()
            .join(" ")
    };
    let documents =
        [0, 14, 28, 42].map(|from| fingerprinter.document(format!("{from}"), &words(from)));
    insert_all(&database, documents.clone())?;
    let similarity = |a: usize, b: usize| {
        let [a, b] = [a, b].map(|it| documents[it].sketch().copied().expect("it has a text"));
        a.similarity(&b).map(|it| it.jaccard())
    };
    let least = 0.6;
    assert!(similarity(0, 1)? >= least && similarity(1, 2)? >= least && similarity(2, 3)? >= least);
    let far = [similarity(0, 2)?, similarity(0, 3)?]
        .into_iter()
        .filter(|&it| it < least)
        .count() as u64;
    assert!(far > 0);
    let clustering = Clustering::new()
        .near(Near::within(64).min_similarity(least))
        .connected(true);
    let (_, totals) = clusters(&database.snapshot()?, &clustering)?;
    assert_eq!(
        (totals.clusters, totals.documents, totals.beyond),
        (1, 4, far)
    );
    Ok(())
}
