//! All pairs of near documents: against brute force, in every plan, at every distance.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;

use simdb::{
    Clustering, CreateOptions, Database, Document, Error, Fingerprint, Near, OpenOptions,
    PairEvent, PairPosition, Pairs, Sketch, SketchSize, Snapshot,
};

use crate::support::{
    Folder, TestResult, assert_error, bundled, document, done, every, external, fingerprints,
    go_on, insert_all, jaccard, keyed, lose_document, real_data, rows, run, scattered,
};

/// Two keys and their distance.
type KeyPair = (String, String, u32);

/// What a search gives.
#[derive(Debug, Default, PartialEq)]
struct Found {
    /// Each pair, the lesser key first, and how often it came.
    pairs: BTreeMap<KeyPair, u32>,
    /// The size of each group, by the key of its newest document.
    groups: BTreeMap<String, u64>,
}

fn text(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

fn events(search: &Pairs) -> simdb::Result<Vec<PairEvent>> {
    let mut events = Vec::new();
    search.run(|event| {
        events.push(event);
        ControlFlow::Continue(())
    })?;
    Ok(events)
}

fn found(pairs: &Pairs) -> simdb::Result<Found> {
    let (mut found, mut last) = (Found::default(), (0, 0));
    for event in events(pairs)? {
        match event {
            PairEvent::Group(group) => {
                assert_eq!(
                    found
                        .groups
                        .insert(text(&group.newest_key), group.documents),
                    None
                );
            }
            PairEvent::Pair(pair) => {
                assert!(pair.a.fingerprint <= pair.b.fingerprint, "{pair:?}");
                assert_eq!(
                    pair.a.fingerprint.distance(pair.b.fingerprint),
                    pair.distance
                );
                let [a, b] = [&pair.a, &pair.b].map(|it| text(&it.newest_key));
                *found
                    .pairs
                    .entry((a.clone().min(b.clone()), a.max(b), pair.distance))
                    .or_default() += 1;
            }
            PairEvent::Progress { done, all, .. } => {
                assert!(
                    last.0 <= done && done <= all,
                    "{done} of {all} after {last:?}"
                );
                last = (done, all);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(last.0, last.1, "the end was not told");
    Ok(found)
}

/// The distance of two documents, if it is at most this.
fn distance_within(a: &Document, b: &Document, max_distance: u32) -> Option<u32> {
    let distance = a.fingerprint()?.distance(b.fingerprint()?);
    Some(distance).filter(|it| *it <= max_distance)
}

/// All pairs of documents within a distance.
fn brute_force(documents: &[Document], max_distance: u32) -> BTreeMap<KeyPair, u32> {
    let mut pairs = BTreeMap::new();
    for (index, a) in documents.iter().enumerate() {
        for b in &documents[index + 1..] {
            if let Some(distance) = distance_within(a, b, max_distance) {
                let [a, b] = [a, b].map(|it| text(it.key()));
                pairs.insert((a.clone().min(b.clone()), a.max(b), distance), 1);
            }
        }
    }
    pairs
}

/// Fingerprints of which many are near to each other, or equal.
fn uniform(i: u64) -> u64 {
    let near = (0..i % 5).fold(scattered(i / 8), |bits, j| {
        bits ^ 1 << (scattered(7 * i + j) % 64)
    });
    if i.is_multiple_of(11) {
        scattered(i / 22)
    } else {
        near
    }
}

/// Fingerprints that share many bits.
fn skewed(i: u64) -> u64 {
    uniform(i) & 0x0f0f_ff00_ffff_0f0f | 0xa0a0_0000_0000_0000
}

/// Fills a database step by step, so that some documents are in levels and some are recent, some were replaced and
/// some are gone. Returns what is left.
fn fill(database: &Database, bits: &[u64]) -> simdb::Result<Vec<Document>> {
    let keyed = |i: usize, bits: u64| document(format!("k{i}"), bits).with_seen(i as i64 % 100);
    let scoped = |i: usize, document: Document| match i % 3 {
        0 => document,
        rest => document.with_scope(format!("s{rest}")),
    };
    let mut kept: BTreeMap<usize, Document> = BTreeMap::new();
    for (step, part) in bits.chunks(97).enumerate() {
        let mut txn = database.begin_write()?;
        for (i, &bits) in (97 * step..).zip(part) {
            let document = scoped(i, keyed(i, bits));
            txn.insert(&document)?;
            kept.insert(i, document);
        }
        // Every seventh is replaced later, every ninth deleted.
        for i in (97 * step.saturating_sub(2)..97 * step).filter(|i| i % 7 == 3) {
            let document = scoped(i, keyed(i, bits[(i + 5) % bits.len()] ^ 1));
            txn.insert(&document)?;
            kept.insert(i, document);
        }
        for i in (97 * step.saturating_sub(2)..97 * step).filter(|i| i % 9 == 4) {
            txn.delete(format!("k{i}"))?;
            kept.remove(&i);
        }
        txn.insert(&Document::new(format!("short{step}"), None))?;
        txn.commit()?;
    }
    Ok(kept.into_values().collect())
}

fn database(path: &Path, plan: &str) -> simdb::Result<Database> {
    let options = external().plan(plan);
    Database::create(path, &options.recent_documents(40).tiny_blocks())
}

/// Plans of every family.
const PLANS: [&str; 12] = [
    "2x32", "3x42", "3x21", "7x36", "4x16", "6x21", "10x25", "11x28", "14x32", "5x12", "8x8",
    "30x16",
];

#[test]
fn each_pair_comes_once_in_every_plan_at_every_distance() -> TestResult {
    let folder = Folder::in_memory()?;
    let real = fingerprints(&bundled("fp-real/fp.u64le"))?;
    // Real fingerprints that are near to others, and some that are not.
    let real: Vec<u64> = real.iter().copied().take(700).collect();
    for (kind, bits) in [
        (0..700).map(uniform).collect::<Vec<u64>>(),
        (0..700).map(skewed).collect(),
        real,
    ]
    .iter()
    .enumerate()
    {
        for plan in PLANS {
            let database = database(&folder.path(&format!("{plan}-{kind}.simdb")), plan)?;
            let documents = fill(&database, bits)?;
            let snapshot = database.snapshot()?;
            for max_distance in 0..=16 {
                let expected = brute_force(&documents, max_distance);
                let found = found(&snapshot.pairs(max_distance).each_document(true))?;
                assert!(found.groups.is_empty());
                assert!(
                    found.pairs == expected,
                    "{plan}, kind {kind}, distance {max_distance}"
                );
            }
        }
    }
    Ok(())
}

#[test]
fn documents_of_one_fingerprint_are_one_group() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    // Of 7 there are a few, of 6 there are more than are listed one by one, of 1 << 40 there is one.
    let few = ["a", "b", "c"].map(|key| document(key, 7));
    let many = (0..300)
        .map(|i| document(format!("m{i:03}"), 6).with_scope(if i % 2 == 0 { "even" } else { "" }));
    insert_all(
        &database,
        few.into_iter()
            .chain(many)
            .chain([document("far", 1 << 40)]),
    )?;
    let snapshot = database.snapshot()?;
    let all = found(&snapshot.pairs(3))?;
    assert_eq!(
        all.groups,
        BTreeMap::from([("c".to_owned(), 3), ("m299".to_owned(), 300)])
    );
    let pairs = [("c", "m299", 1), ("c", "far", 4), ("far", "m299", 3)]
        .map(|(a, b, distance)| ((a.min(b).to_owned(), a.max(b).to_owned(), distance), 1));
    assert_eq!(found(&snapshot.pairs(4))?.pairs, BTreeMap::from(pairs));
    // Scopes and times leave out documents, and with them groups and pairs.
    let even = found(&snapshot.pairs(Near::within(64).scopes(["even"])))?;
    assert_eq!(
        even,
        Found {
            groups: BTreeMap::from([("m298".to_owned(), 150)]),
            ..Found::default()
        }
    );
    assert_eq!(
        found(&snapshot.pairs(Near::within(64).scopes(["none"])))?,
        Found::default()
    );
    insert_all(
        &database,
        [
            document("m007", 6).with_seen(50),
            document("m008", 6).with_seen(49),
        ],
    )?;
    let recent = found(&database.snapshot()?.pairs(Near::within(64).since(49)))?;
    assert_eq!(
        recent,
        Found {
            groups: BTreeMap::from([("m008".to_owned(), 2)]),
            ..Found::default()
        }
    );
    assert_eq!(
        found(&database.snapshot()?.pairs(Near::within(64).since(51)))?,
        Found::default()
    );
    // Each pair of documents, if that is wanted.
    let each = found(&snapshot.pairs(0).each_document(true))?;
    assert_eq!(
        (each.pairs.len(), each.groups.len()),
        (3 + 300 * 299 / 2, 0)
    );
    Ok(())
}

#[test]
fn times_and_scopes_leave_out_pairs() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = database(&folder.path("d.simdb"), "4x16")?;
    let documents = fill(&database, &(0..900).map(uniform).collect::<Vec<u64>>())?;
    let snapshot = database.snapshot()?;
    for (since, scopes) in [(60, &["s1"][..]), (0, &["", "s2"]), (90, &["", "s1", "s2"])] {
        let kept: Vec<Document> = documents
            .iter()
            .filter(|it| it.seen() >= since && scopes.contains(&it.scope()))
            .cloned()
            .collect();
        let expected = brute_force(&kept, 5);
        assert!(!expected.is_empty());
        let search = snapshot
            .pairs(Near::within(5).since(since).scopes(scopes.iter().copied()))
            .each_document(true);
        assert!(found(&search)?.pairs == expected, "{since}, {scopes:?}");
    }
    Ok(())
}

#[test]
fn a_least_similarity_leaves_out_pairs_that_only_look_near() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    let documents: Vec<Document> = (0..400u64)
        .map(|i| {
            let bytes: Vec<u8> = (0..2)
                .flat_map(|j| (scattered(i / 4 + j) ^ scattered(i + j) >> 58).to_le_bytes())
                .collect();
            let sketch = (i % 13 != 0)
                .then(|| Sketch::new(&bytes, 20 + (i % 3) as u32))
                .transpose();
            sketch.map(|sketch| document(i.to_string(), uniform(i / 2)).with_sketch(sketch))
        })
        .collect::<simdb::Result<_>>()?;
    insert_all(&database, documents.iter().cloned())?;
    let snapshot = database.snapshot()?;
    for least in [0.3, 0.7, 0.95] {
        let mut expected = brute_force(&documents, 6);
        let sketch_of = |key: &str| key.parse().ok().and_then(|i: usize| documents[i].sketch());
        expected.retain(|(a, b, _), _| {
            sketch_of(a)
                .zip(sketch_of(b))
                .is_some_and(|(a, b)| jaccard(a, b) >= least)
        });
        assert!(expected.len() > 10, "{least}: {}", expected.len());
        let search = snapshot.pairs(Near::within(6).min_similarity(least));
        assert!(
            found(&search.clone().each_document(true))?.pairs == expected,
            "{least}"
        );
        // The groups stand for pairs of documents that have the same sketch.
        let mut of_groups = 0;
        for event in events(&search)? {
            of_groups += match event {
                PairEvent::Group(group) => group.documents * (group.documents - 1) / 2,
                PairEvent::Pair(pair) => {
                    assert!(pair.similarity.is_some_and(|it| it >= least));
                    pair.a.documents * pair.b.documents
                }
                _ => 0,
            };
        }
        assert_eq!(of_groups, expected.len() as u64, "{least}");
    }
    // What cannot be asked.
    assert_error!(
        snapshot.pairs(65).run(every) => Error::MaxDistance { given: 65, .. }
    );
    for wrong in [-0.1, 1.1, f64::NAN] {
        let refused = snapshot
            .pairs(Near::within(3).min_similarity(wrong))
            .run(every);
        assert_error!(&refused => Error::MinSimilarity { .. });
        // Less than nothing was no similarity for clusters.
        let clustering = Clustering::new().near(Near::new().min_similarity(wrong));
        let refused = snapshot.clusters(&clustering, every);
        assert_error!(&refused => Error::MinSimilarity { .. });
    }
    let plain = folder.database("plain.simdb")?;
    assert_error!(
        plain
            .snapshot()?
            .pairs(Near::within(3).min_similarity(0.7))
            .run(every)
        => Error::SketchSizes { .. }
    );
    Ok(())
}

#[test]
fn a_search_goes_on_from_every_position_with_what_is_left() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = database(&folder.path("d.simdb"), "6x21")?;
    fill(&database, &(0..600).map(uniform).collect::<Vec<u64>>())?;
    let snapshot = database.snapshot()?;
    let search = snapshot.pairs(Near::within(6).scopes(["", "s1", "s2"]));
    let (mut found, mut positions) = (Vec::new(), Vec::new());
    for event in events(&search)? {
        match event {
            PairEvent::Progress { position, .. } => positions.push((found.len(), position)),
            event => found.push(event),
        }
    }
    positions.dedup_by(|a, b| a.1 == b.1);
    assert!(positions.len() > 20, "{}", positions.len());
    for (known, position) in positions.iter().step_by(3).chain(positions.last()) {
        // Between two positions some events may have come already. They come again.
        let from: PairPosition = position.to_string().parse()?;
        let mut left = events(&search.clone().from(from))?;
        left.retain(|event| !matches!(event, PairEvent::Progress { .. }));
        let has_all = left.len() >= found.len() - known && found.ends_with(&left);
        assert!(has_all, "from {position}");
    }
    let (_, last) = &positions[positions.len() - 1];
    let refused = |pairs: Pairs| pairs.from(last.clone()).run(every);
    assert_error!(refused(snapshot.pairs(5)) => Error::PairPosition);
    assert_error!(refused(snapshot.pairs(Near::within(6).since(1))) => Error::PairPosition);
    insert_all(&database, [document("new", 5)])?;
    assert_error!(refused(database.snapshot()?.pairs(6)) => Error::PairPosition);
    assert!(refused(search).is_ok());
    Ok(())
}

/// What a search gives until it has given as much: all that came before the last position, and that position. At the
/// end there is none.
enum Given {
    Whole(Vec<String>),
    UpTo(Vec<String>, PairPosition),
    /// It ended before it had told a position.
    Nothing,
}

fn until(search: &Pairs, most: usize) -> simdb::Result<Given> {
    let (mut given, mut reached, mut is_whole) = (Vec::new(), None, false);
    search.run(|event| {
        match event {
            PairEvent::Progress {
                done,
                all,
                position,
                ..
            } => {
                is_whole = done == all;
                if reached.as_ref().is_none_or(|(known, _)| *known != position) {
                    reached = Some((position, given.len()));
                }
            }
            event => given.push(format!("{event:?}")),
        }
        if given.len() > most {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    if is_whole {
        return Ok(Given::Whole(given));
    }
    let Some((position, known)) = reached else {
        return Ok(Given::Nothing);
    };
    given.truncate(known);
    Ok(Given::UpTo(given, position))
}

/// Searches in one snapshot after the other, each time until it has given as much. In the last one the search goes to
/// its end.
fn given_over(
    snapshots: &[(&Snapshot, Option<&Snapshot>)],
    max_distance: u32,
    most: usize,
) -> simdb::Result<Vec<String>> {
    let (mut all, mut from) = (Vec::new(), None);
    for (index, (snapshot, other)) in snapshots.iter().enumerate() {
        let mut search = snapshot
            .pairs(max_distance)
            .each_document(max_distance.is_multiple_of(2));
        if let Some(other) = other {
            search = search.with(other);
        }
        if let Some(from) = &from {
            search = search.from(PairPosition::clone(from));
        }
        let is_last = index + 1 == snapshots.len();
        match until(&search, if is_last { usize::MAX } else { most })? {
            Given::Whole(given) => {
                all.extend(given);
                break;
            }
            Given::UpTo(given, position) => {
                all.extend(given);
                from = Some(position);
            }
            Given::Nothing => {}
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// Every snapshot is of the same documents, stored in another way.
fn assert_goes_on(snapshots: &[(&Snapshot, Option<&Snapshot>)]) -> TestResult {
    for max_distance in 0..=16 {
        let mut whole = given_over(&snapshots[..1], max_distance, 0)?;
        let all = whole.len();
        whole.dedup();
        assert!(all > 50 && whole.len() == all, "{all} at {max_distance}");
        for most in (0..all).step_by(all / 7 + 1) {
            for order in [
                snapshots.to_vec(),
                snapshots.iter().rev().copied().collect(),
            ] {
                let given = given_over(&order, max_distance, most)?;
                assert!(
                    given == whole,
                    "{} of {all} at {max_distance}, {most} each",
                    given.len()
                );
            }
            for &later in &snapshots[1..] {
                let given = given_over(&[snapshots[0], later], max_distance, most)?;
                assert!(
                    given == whole,
                    "{} of {all} at {max_distance}, {most} first",
                    given.len()
                );
            }
        }
    }
    Ok(())
}

/// A position was the number of units that were done, and how many there are depends on what is merged. So after a
/// compaction it was refused: the question or the content was said to be another. The first position came when some
/// pairs of its unit had been given. So these were given twice.
#[test]
fn a_position_holds_over_merges_compaction_backup_and_reopening_at_every_distance() -> TestResult {
    let folder = Folder::in_memory()?;
    let kinds = [
        (0..500).map(uniform).collect::<Vec<u64>>(),
        (0..500).map(skewed).collect(),
    ];
    for (number, (plan, bits)) in [("4x16", &kinds[0]), ("6x21", &kinds[1])]
        .into_iter()
        .enumerate()
    {
        let (path, copy) = (
            folder.path(&format!("{number}.simdb")),
            folder.path(&format!("copy{number}.simdb")),
        );
        let database = database(&path, plan)?;
        fill(&database, bits)?;
        let fresh = database.snapshot()?;
        database.settle()?;
        let settled = database.snapshot()?;
        database.compact(go_on)?;
        let compacted = database.snapshot()?;
        compacted.backup(&copy)?;
        let backup = Database::open(&copy, &OpenOptions::new())?.snapshot()?;
        assert_goes_on(&[&fresh, &settled, &compacted, &backup].map(|it| (it, None)))?;
        // Another plan has other tables.
        let Given::UpTo(_, position) = until(&compacted.pairs(6), 30)? else {
            return Err("no position".into());
        };
        database.compact_with_plan("8x8", go_on)?;
        assert_error!(
            database.snapshot()?.pairs(6).from(position).run(every)
            => Error::PairPosition
        );
    }
    Ok(())
}

/// Which of two sides is the larger one is seen otherwise after a compaction, and so is where the other one is cut.
#[test]
fn a_position_in_two_databases_holds_over_their_compaction() -> TestResult {
    let folder = Folder::in_memory()?;
    for (number, (more, less)) in [(7_000, 60), (300, 250)].into_iter().enumerate() {
        let [one, two] =
            ["one", "two"].map(|it| database(&folder.path(&format!("{it}{number}.simdb")), "4x16"));
        let (one, two) = (one?, two?);
        insert_all(
            &one,
            (0..more).map(|i| document(format!("k{i}"), uniform(i))),
        )?;
        // Each fingerprint is put again and again, so the table seems to be longer than it is.
        for round in 0..4 {
            insert_all(
                &two,
                (0..less).map(|i| document(format!("k{round}-{i}"), uniform(3 * i) ^ (i % 2))),
            )?;
        }
        let fresh = [one.snapshot()?, two.snapshot()?];
        for database in [&one, &two] {
            database.compact(go_on)?;
        }
        let compacted = [one.snapshot()?, two.snapshot()?];
        let (fresh, compacted) = ([&fresh[0], &fresh[1]], [&compacted[0], &compacted[1]]);
        for [a, b] in [[0, 1], [1, 0]] {
            let snapshots = [fresh, compacted].map(|of| (of[a], Some(of[b])));
            if number == 1 {
                assert_goes_on(&snapshots)?;
                continue;
            }
            for max_distance in [0, 3, 8] {
                let whole = given_over(&snapshots[..1], max_distance, 0)?;
                assert!(whole.len() > 20);
                for most in (0..whole.len()).step_by(whole.len() / 4) {
                    assert!(
                        given_over(&snapshots, max_distance, most)? == whole,
                        "{max_distance}, {most}"
                    );
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_search_ends_when_nobody_wants_more() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, keyed(0..2_000, |i| i))?;
    for most in [0, 1, 1_000] {
        let mut given = 0;
        database.snapshot()?.pairs(4).run(|event| {
            given += u64::from(matches!(event, PairEvent::Pair(_)));
            if given > most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        })?;
        assert_eq!(given, most + 1);
    }
    // Empty, and with one document.
    let empty = folder.database("e.simdb")?;
    let nothing = found(&empty.snapshot()?.pairs(64));
    assert_eq!(nothing?, Found::default());
    insert_all(&empty, [document("alone", 9)])?;
    assert_eq!(found(&empty.snapshot()?.pairs(64))?, Found::default());
    Ok(())
}

#[test]
fn the_command_prints_pairs_and_groups() -> TestResult {
    let folder = Folder::in_memory()?;
    let path = folder.path("d.simdb");
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        [
            ("a", 7),
            ("b", 6),
            ("c", 7),
            ("esc\u{1b}", 4),
            ("far", u64::MAX),
        ]
        .map(|(key, bits)| document(key, bits)),
    )?;
    drop(database);
    let ran = done!("pairs", &path).says("6 pairs\n");
    let lines: BTreeSet<&str> = ran.out.lines().collect();
    let esc = "esc\\u{1b}";
    let pairs = [
        (0, "c", "a"),
        (1, "b", "c"),
        (1, "b", "a"),
        (1, esc, "b"),
        (2, esc, "c"),
        (2, esc, "a"),
    ];
    let expected = pairs.map(|(distance, a, b)| format!("{distance}\t{a}\t{b}\t-"));
    assert_eq!(lines, expected.iter().map(String::as_str).collect());
    assert_eq!(
        done!("pairs", &path, "--max-distance 0 --quiet").out,
        "0\tc\ta\t-\n"
    );
    let objects = done!("pairs", &path, "--max-distance 0 --json").json()?;
    assert!(objects.len() == 1 && objects[0]["a"]["key"] == "c" && objects[0]["b"]["key"] == "a");
    assert!(objects[0]["a"].get("documents").is_none() && objects[0].get("similarity").is_none());
    // As groups.
    let ran = done!("pairs", &path, "--groups")
        .says("3 pairs, 1 group of documents with the same fingerprint");
    let lines: BTreeSet<&str> = ran.out.lines().collect();
    let groups = [
        "0\tc\t\t2\t0\t-",
        "1\tb\tc\t1\t2\t-",
        "1\tesc\\u{1b}\tb\t1\t1\t-",
        "2\tesc\\u{1b}\tc\t1\t2\t-",
    ];
    assert_eq!(lines, groups.into());
    let objects = done!("pairs", &path, "--max-distance 1 --json --groups").json()?;
    assert_eq!(objects[0]["documents"], 2);
    assert!(
        objects
            .iter()
            .any(|it| it["a"]["key"] == "b" && it["b"]["documents"] == 2 && it["distance"] == 1)
    );
    run!("pairs", &path, "--from 1:0/0:0/0:0:0.16.0:00000000000000ff")
        .refused("start again without it");
    run!("pairs", &path, "--from seven").refused("position");
    run!("pairs", &path, "--min-similarity 0.7").refused("sketches");
    run!("pairs", folder.path("none.simdb")).refused("no such");
    // With another database, and with an input.
    let other = folder.file("other.tsv", "x\t0000000000000005\ny\t00ff00000000ff00\n")?;
    let ran = folder
        .run("pairs d.simdb --with other.tsv --input-format fingerprints --max-distance 1")?
        .expect(0)
        .says("3 pairs");
    let lines: BTreeSet<&str> = ran.out.lines().collect();
    assert_eq!(
        lines,
        ["1\tc\tx\t-", "1\ta\tx\t-", "1\tesc\\u{1b}\tx\t-"].into()
    );
    folder
        .run("ingest o.simdb other.tsv --input-format fingerprints")?
        .expect(0);
    let same = folder
        .run("pairs d.simdb --with o.simdb --max-distance 1")?
        .expect(0);
    assert_eq!(same.out.lines().collect::<BTreeSet<_>>(), lines);
    // A directory is an input too.
    std::fs::create_dir(folder.path("others"))?;
    std::fs::copy(&other, folder.path("others/other.tsv"))?;
    let ran = folder
        .run("pairs d.simdb --with others --input-format fingerprints --max-distance 1")?
        .expect(0);
    assert_eq!(ran.out.lines().collect::<BTreeSet<_>>(), lines);
    run!("pairs", &path, "--with", folder.path("none")).refused("none: no such file");
    // Damage was said to be in the first database, whose owner would have salvaged a sound file.
    lose_document(&folder.path("o.simdb"))?;
    folder
        .run("pairs d.simdb --with o.simdb --max-distance 64")?
        .refused("d.simdb or o.simdb: the database is damaged");
    folder
        .run("pairs o.simdb --with o.simdb --max-distance 64")?
        .refused("simdb: o.simdb: the database is damaged");
    // Also of a file that another process has open.
    let held = Database::open(&path, &OpenOptions::new().serve(true))?;
    assert_eq!(done!("pairs", &path).out.lines().count(), 6);
    drop(held);
    Ok(())
}

/// The million real fingerprints, against the pairs that brute force has found.
#[test]
#[cfg_attr(
    not(simdb_data),
    ignore = "SIMDB_DATA does not name the folder of the data"
)]
fn the_pairs_of_a_million_real_fingerprints_are_all_found() -> TestResult {
    let data = real_data()?;
    let folder = Folder::in_memory()?;
    let options = external().sketch_size(SketchSize::None);
    let stored = fingerprints(&data.join("fp-real/fp.u64le"))?;
    let documents = stored
        .iter()
        .enumerate()
        .map(|(i, &bits)| Ok(document(i.to_string(), bits)));
    let database = Database::build(folder.path("d.simdb"), &options, documents, 256 << 20)?;
    let mut found = Vec::new();
    database
        .snapshot()?
        .pairs(3)
        .each_document(true)
        .run(|event| {
            if let PairEvent::Pair(pair) = event {
                let [a, b] = [&pair.a, &pair.b]
                    .map(|it| text(&it.newest_key).parse::<u32>().unwrap_or(u32::MAX));
                found.push((a.min(b), a.max(b), pair.distance));
            }
            ControlFlow::Continue(())
        })?;
    found.sort_unstable();
    assert_eq!(found.len(), 1_334_848);
    let mut expected = Vec::new();
    for row in &rows(&data.join("fp-real/pairs_le_3.tsv.gz"))? {
        let [a, b, distance] = &row[..] else {
            return Err(format!("not a pair: {row:?}").into());
        };
        let (a, b): (u32, u32) = (a.parse()?, b.parse()?);
        expected.push((a.min(b), a.max(b), distance.parse::<u32>()?));
    }
    expected.sort_unstable();
    assert!(found == expected);
    Ok(())
}

#[test]
fn pairs_of_two_databases_are_those_of_brute_force() -> TestResult {
    let folder = Folder::in_memory()?;
    let near = |i: u64| uniform(i * 3) ^ 1 << (i % 64);
    for (number, (plan, other_plan, most)) in [
        ("4x16", "6x21", 90),
        ("2x32", "14x32", 600),
        ("8x8", "4x16", 600),
    ]
    .into_iter()
    .enumerate()
    {
        let one = database(&folder.path(&format!("{number}.simdb")), plan)?;
        let two = database(&folder.path(&format!("other-{number}.simdb")), other_plan)?;
        let documents = fill(&one, &(0..400).map(uniform).collect::<Vec<u64>>())?;
        let others = fill(&two, &(0..most).map(near).collect::<Vec<u64>>())?;
        let (snapshot, other) = (one.snapshot()?, two.snapshot()?);
        for max_distance in [0, 1, 3, 5, 8, 16] {
            let mut expected = BTreeMap::new();
            for a in &documents {
                for b in &others {
                    if let Some(distance) = distance_within(a, b, max_distance) {
                        expected.insert((text(a.key()), text(b.key()), distance), 1);
                    }
                }
            }
            let mut found: BTreeMap<KeyPair, u32> = BTreeMap::new();
            let search = snapshot.pairs(max_distance).with(&other);
            let each = search.clone().each_document(true);
            let mut middle = None;
            for event in events(&each)? {
                match event {
                    PairEvent::Pair(pair) => {
                        let [a, b] = [&pair.a, &pair.b].map(|it| text(&it.newest_key));
                        *found.entry((a, b, pair.distance)).or_default() += 1;
                    }
                    PairEvent::Progress { position, .. } => {
                        middle = middle.take().or(Some(position));
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert!(
                found == expected,
                "{plan} with {other_plan} at {max_distance}"
            );
            // Groups stand for all of their documents.
            let mut documents_of_pairs = 0;
            for event in events(&search)? {
                if let PairEvent::Pair(pair) = event {
                    documents_of_pairs += pair.a.documents * pair.b.documents;
                }
            }
            assert_eq!(documents_of_pairs, expected.len() as u64);
            let from = middle.ok_or("no position")?;
            assert!(each.from(from.clone()).run(every).is_ok());
            let alone = snapshot.pairs(max_distance).each_document(true).from(from);
            assert_error!(alone.run(every) => Error::PairPosition);
        }
    }
    let texts = Database::create(folder.path("texts.simdb"), &CreateOptions::new())?;
    let plain = folder.database("plain.simdb")?;
    let (one, two) = (texts.snapshot()?, plain.snapshot()?);
    let mixed = one.pairs(3).with(&two).run(every);
    assert_error!(mixed => Error::SchemeMismatch { .. });
    Ok(())
}

#[test]
fn sketches_of_other_sizes_are_not_compared() -> TestResult {
    let folder = Folder::in_memory()?;
    let small = CreateOptions::new().sketch_size(SketchSize::Bytes16);
    let one = Database::create(folder.path("one.simdb"), &small)?;
    let large = CreateOptions::new().sketch_size(SketchSize::Bytes32);
    let two = Database::create(folder.path("two.simdb"), &large)?;
    let none = Database::create(
        folder.path("none.simdb"),
        &CreateOptions::new().sketch_size(SketchSize::None),
    )?;
    let snapshot = one.snapshot()?;
    for (other, bytes) in [(&two, 32), (&none, 0)] {
        let other = other.snapshot()?;
        let run = |near: Near| snapshot.pairs(near).with(&other).run(every);
        assert!(run(Near::within(3).min_similarity(0.0)).is_ok());
        // Like a query without a sketch, a side without sketches is compared by the distance alone.
        assert_eq!(run(Near::within(3)).is_ok(), bytes == 0);
        let refused = run(Near::within(3).min_similarity(0.5));
        let expected =
            matches!(refused, Err(Error::SketchSizes { stored: 16, given, .. }) if given == bytes);
        assert!(expected, "{refused:?}");
    }
    Ok(())
}

/// Queries, verdicts and clusters had the least similarity of the database, and pairs had none.
#[test]
fn the_least_similarity_is_that_of_the_database_unless_another_is_asked_for() -> TestResult {
    let folder = Folder::in_memory()?;
    let options = external().sketch_size(SketchSize::Bytes16);
    let database = Database::create(folder.path("d.simdb"), &options.clone().min_similarity(0.7))?;
    let sketch = |byte: u8| Sketch::new(&[byte; 16], 9).ok();
    let of = |key: &str, byte: Option<u8>| document(key, 7).with_sketch(byte.and_then(sketch));
    insert_all(
        &database,
        [
            of("a", Some(1)),
            of("b", Some(1)),
            of("unlike", Some(254)),
            of("bare", None),
        ],
    )?;
    let snapshot = database.snapshot()?;
    let keys = |pairs: Pairs| -> simdb::Result<BTreeSet<String>> {
        Ok(found(&pairs)?
            .pairs
            .into_keys()
            .map(|(a, b, _)| format!("{a} {b}"))
            .collect())
    };
    let each = |near: Near| snapshot.pairs(near).each_document(true);
    let similar = Near::within(0).min_similarity(0.7);
    let any = Near::within(0).min_similarity(0.0);
    assert_eq!(keys(each(Near::within(0)))?, ["a b".to_owned()].into());
    assert_eq!(keys(each(similar.clone()))?, ["a b".to_owned()].into());
    assert_eq!(keys(each(any.clone()))?.len(), 6);
    // As groups: those of one sketch, and with 0 those of one fingerprint.
    assert_eq!(
        found(&snapshot.pairs(0))?.groups,
        BTreeMap::from([("b".to_owned(), 2)])
    );
    assert_eq!(
        found(&snapshot.pairs(any.clone()))?.groups,
        BTreeMap::from([("bare".to_owned(), 4)])
    );
    // Of another side, documents without a sketch are compared as queries are: by the distance alone.
    let other = Database::create(folder.path("o.simdb"), &options.min_similarity(0.0))?;
    insert_all(
        &other,
        [
            of("like", Some(1)),
            of("other", Some(170)),
            of("without", None),
        ],
    )?;
    let other = other.snapshot()?;
    let with = |near: Near| each(near).with(&other);
    let mine = ["a", "b", "unlike", "bare"];
    let without = mine.map(|key| format!("{} {}", key.min("without"), key.max("without")));
    let mut expected: BTreeSet<String> = without.into_iter().collect();
    expected.extend(["a like".to_owned(), "b like".to_owned()]);
    assert_eq!(keys(with(Near::within(0)))?, expected);
    assert_eq!(
        keys(with(similar))?,
        ["a like".to_owned(), "b like".to_owned()].into()
    );
    assert_eq!(keys(with(any))?.len(), 12);
    Ok(())
}

/// More documents than are listed at a time.
#[test]
fn large_groups_of_several_fingerprints_are_listed_one_after_the_other() -> TestResult {
    let folder = Folder::in_memory()?;
    let options = external().sketch_size(SketchSize::Bytes16);
    let bits = |i: u64| [0b0, 0b1, 0b11, 0b111, u64::MAX][(i % 5) as usize];
    let sketch = |i: u64| Sketch::new(&[(i % 10 / 5) as u8 + 1; 16], 9).ok();
    let documents = (0..90_000u64).map(|i| {
        Ok(Document::new(format!("k{i}"), Fingerprint::from_bits(bits(i))).with_sketch(sketch(i)))
    });
    let database = Database::build(folder.path("d.simdb"), &options, documents, 64 << 20)?;
    let (mut groups, mut pairs) = (Vec::new(), Vec::new());
    let search = database
        .snapshot()?
        .pairs(Near::within(1).min_similarity(0.01));
    for event in events(&search)? {
        match event {
            PairEvent::Group(group) => groups.push(group.documents),
            PairEvent::Pair(pair) => {
                pairs.push((pair.distance, pair.a.documents * pair.b.documents));
            }
            _ => {}
        }
    }
    assert_eq!(groups, [9_000; 10]);
    let near = pairs.iter().filter(|it| it.0 == 1).count();
    assert!(
        near >= 6 && pairs.iter().all(|it| it.1 == 81_000_000),
        "{pairs:?}"
    );
    Ok(())
}
