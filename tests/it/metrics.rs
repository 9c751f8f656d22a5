//! Metrics: what has happened in an open database, as numbers and as text for Prometheus.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use simdb::inspect::Metrics;
use simdb::{Database, Expiry, Fingerprint, OpenOptions, Policy, Query, WriterOptions};

use crate::support::{
    Folder, TestResult, document, every, external, go_on, insert_all, keyed, spread, wait_until,
};

/// Fingerprints that are spread evenly.
fn bits(number: u64) -> u64 {
    spread(number + 1)
}

fn query(bits: u64) -> Query {
    Query::new(Fingerprint::from_bits(bits)).near(3)
}

/// Waits until the metrics are as they should be. For what others do in their own time.
fn eventually(database: &Database, what: &str, is_right: impl Fn(&Metrics) -> bool) {
    wait_until(what, || is_right(&database.metrics()));
}

#[test]
fn documents_verdicts_and_commits_are_counted_when_they_are_committed() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let skip = Policy::skip().near(3);
    let link = Policy::link().near(3);
    let mut txn = database.begin_write()?;
    txn.insert_if_new(&document("a", 0), &skip)?;
    txn.insert_if_new(&document("b", 0b11), &skip)?;
    txn.insert_if_new(&document("c", 0b111), &link)?;
    txn.insert_if_new(&document("a", 0xff00), &link)?;
    txn.insert_if_new(&document("c", 0xff01), &link)?;
    assert_eq!(
        database.metrics().verdicts.total(),
        0,
        "nothing is committed"
    );
    txn.commit()?;
    let mut txn = database.begin_write()?;
    txn.delete("a")?;
    txn.commit()?;
    // What is dropped, and what changes nothing, does not count.
    database
        .begin_write()?
        .insert_if_new(&document("x", 1), &skip)?;
    database.begin_write()?.commit()?;
    let metrics = database.metrics();
    let verdicts = &metrics.verdicts;
    assert_eq!((verdicts.inserted, verdicts.inserted_duplicates), (2, 1));
    assert_eq!((verdicts.replaced, verdicts.replaced_duplicates), (2, 1));
    assert_eq!(
        (verdicts.skipped, verdicts.total(), verdicts.duplicates()),
        (1, 5, 3)
    );
    let nearest: Vec<usize> = (0..65)
        .filter(|&distance| verdicts.nearest[distance] > 0)
        .collect();
    assert_eq!(nearest, [1, 2, 3]);
    assert_eq!(
        (
            metrics.documents,
            metrics.documents_stored,
            metrics.documents_deleted
        ),
        (1, 4, 3)
    );
    assert_eq!(
        (metrics.commit_times.count(), metrics.failed_commits),
        (2, 0)
    );
    assert_eq!(metrics.documents_per_commit(), Some(2.0));
    assert!(
        metrics.commit_times.sum() > Duration::ZERO
            && metrics.open_for >= metrics.commit_times.sum()
    );
    assert!(metrics.waiting_changes > 0 && metrics.waiting_rows > 0 && metrics.file_bytes > 0);
    drop(database);
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    assert_eq!(
        (
            database.metrics().documents,
            database.metrics().documents_stored
        ),
        (1, 0)
    );
    Ok(())
}

#[test]
fn queries_merges_and_the_cache_are_counted() -> TestResult {
    let folder = Folder::new()?;
    let options = external().plan("4x16").recent_documents(1_000);
    let database = Database::create(folder.path("d.simdb"), &options)?;
    insert_all(&database, keyed(0..20_000, bits))?;
    insert_all(&database, keyed(20_000..21_500, bits))?;
    database.settle()?;
    let merged = database.metrics();
    assert!(
        merged.merge_times.count() > 0 && merged.merged_rows > 0 && merged.merged_bytes > 0,
        "{merged:?}"
    );
    assert_eq!((merged.failed_merges, merged.queries), (0, 0));
    drop(database);
    let database = Database::open(folder.path("d.simdb"), &OpenOptions::new())?;
    let snapshot = database.snapshot()?;
    for number in 0..100 {
        assert_eq!(snapshot.query(&query(bits(number)))?.total(), 1);
    }
    let first = database.metrics();
    assert!(snapshot.any_match(&query(bits(5)))?);
    assert_eq!(
        (first.queries, first.query_matches, first.snapshots),
        (100, 100, 1)
    );
    // Each thread times its first query, and then one in 64. The lines of threads that have ended go on.
    assert!(
        (1..=2).contains(&first.query_times.count()),
        "{:?}",
        first.query_times
    );
    assert!(
        first.candidates >= 100 && first.candidates < 100_000,
        "{first:?}"
    );
    assert!(
        first.cache_misses > 0 && first.blocks_read >= first.cache_misses,
        "{first:?}"
    );
    assert!(
        first.bytes_read > 100 * first.blocks_read && first.cache_bytes <= first.cache_limit_bytes
    );
    let batch: Vec<Query> = (0..100).map(|number| query(bits(number))).collect();
    snapshot.query_batch(&batch)?;
    let second = database.metrics();
    assert_eq!(
        (
            second.queries,
            second.query_matches,
            second.query_batch_times.count()
        ),
        (201, 201, 1)
    );
    assert!(
        second.cache_hits > first.cache_hits && second.blocks_read == first.blocks_read,
        "{second:?}"
    );
    assert!(
        second
            .cache_hit_share()
            .is_some_and(|share| share > 0.0 && share < 1.0)
    );
    // Queries of verdicts are not among the queries, but what they meet is.
    let mut txn = database.begin_write()?;
    txn.insert_if_new(&document("new", bits(7)), &Policy::skip().near(3))?;
    txn.commit()?;
    let third = database.metrics();
    assert!(
        third.queries == 201 && third.candidates > second.candidates,
        "{third:?}"
    );
    Ok(())
}

#[test]
fn the_queues_of_writers_show_their_length_and_the_time_to_durability() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let options = || WriterOptions::new().max_age(Duration::from_secs(3_600));
    let (writer, other) = (database.writer(options())?, database.writer(options())?);
    // Nobody waits for these, and they are too few to be committed.
    let tickets: Vec<_> = (0..3)
        .map(|i| writer.submit(document(i.to_string(), i), &Policy::link()))
        .collect::<simdb::Result<_>>()?;
    let ticket = other.submit(document("other", 9), &Policy::link())?;
    let waiting = database.metrics();
    assert_eq!(
        (
            waiting.queue_length,
            waiting.submissions,
            waiting.submission_times.count()
        ),
        (4, 4, 0)
    );
    assert!(waiting.queue_bytes > 100, "{waiting:?}");
    writer.flush()?;
    assert_eq!(database.metrics().queue_length, 1);
    other.close()?;
    writer.close()?;
    for ticket in tickets.into_iter().chain([ticket]) {
        ticket.wait()?;
    }
    let metrics = database.metrics();
    assert_eq!((metrics.queue_length, metrics.queue_bytes), (0, 0));
    assert_eq!(
        (metrics.submissions, metrics.submission_times.count()),
        (5, 5)
    );
    assert_eq!(
        (metrics.documents_stored, metrics.commit_times.count()),
        (4, 2)
    );
    Ok(())
}

#[test]
fn a_snapshot_of_an_older_commit_keeps_space_until_it_is_dropped() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.tiny_database("d.simdb")?;
    let insert = |from: u64| {
        (from..from + 20)
            .try_for_each(|i| insert_all(&database, [document(i.to_string(), bits(i))]))
    };
    insert(0)?;
    database.settle()?;
    eventually(&database, "nobody reads", |metrics| {
        metrics.oldest_pin.is_none() && metrics.pinned_bytes == 0
    });
    let snapshot = database.snapshot()?;
    let metrics = database.metrics();
    assert_eq!(
        (metrics.snapshots, metrics.oldest_pin, metrics.pinned_bytes),
        (1, None, 0)
    );
    insert(20)?;
    database.settle()?;
    let metrics = database.metrics();
    assert!(
        metrics.snapshots == 1 && metrics.oldest_pin.is_some(),
        "{metrics:?}"
    );
    let pinned = metrics.pinned_bytes;
    assert!(pinned > 0 && pinned.is_multiple_of(4096), "{pinned}");
    let younger = database.snapshot()?;
    insert(40)?;
    database.settle()?;
    assert!(database.metrics().pinned_bytes > pinned);
    drop(snapshot);
    eventually(&database, "one reads", |metrics| {
        metrics.snapshots == 1 && metrics.oldest_pin.is_some()
    });
    let length = database.metrics().file_bytes;
    database.compact(go_on)?;
    let metrics = database.metrics();
    let kept = metrics.pinned_bytes;
    assert!(
        kept.abs_diff(length) <= length / 2 && metrics.compaction_times.count() == 1,
        "{metrics:?}"
    );
    // The old file does not keep what later commits free in the new one.
    insert(60)?;
    database.settle()?;
    eventually(&database, "one reads", |metrics| {
        metrics.pinned_bytes == kept
    });
    let newest = database.snapshot()?;
    insert(80)?;
    database.settle()?;
    let both = database.metrics().pinned_bytes;
    assert!(both > kept);
    drop(younger);
    eventually(&database, "one reads", |metrics| {
        metrics.pinned_bytes <= both - kept / 2
    });
    drop(newest);
    eventually(&database, "nobody reads", |metrics| {
        metrics.oldest_pin.is_none() && metrics.pinned_bytes == 0
    });
    assert_eq!(database.metrics().snapshots, 0);
    Ok(())
}

#[test]
fn expired_documents_are_counted_apart() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..10).map(|i| document(i.to_string(), bits(i)).with_seen(i as i64)),
    )?;
    assert_eq!(database.expire(&Expiry::new().before(4), every)?, 4);
    let metrics = database.metrics();
    assert_eq!(
        (
            metrics.documents_expired,
            metrics.documents_deleted,
            metrics.documents
        ),
        (4, 0, 6)
    );
    Ok(())
}

/// What a text in the exposition format says: the type and the samples of each family.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    /// Labels and values, under the name with its ending.
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

fn is_name(name: &str) -> bool {
    let is_letter = |it: char| it.is_ascii_alphabetic() || it == '_' || it == ':';
    name.starts_with(is_letter) && name.chars().all(|it| is_letter(it) || it.is_ascii_digit())
}

/// Reads `{name="value",..}`, and returns what comes after it.
fn labels(text: &str) -> Result<(BTreeMap<String, String>, &str), String> {
    let mut labels = BTreeMap::new();
    let Some(mut rest) = text.strip_prefix('{') else {
        return Ok((labels, text));
    };
    loop {
        let (name, after) = rest.split_once("=\"").ok_or("a label without a value")?;
        let (mut value, mut characters) = (String::new(), after.char_indices());
        let end = loop {
            match characters.next().ok_or("a value without an end")? {
                (end, '"') => break end,
                (_, '\\') => value.push(match characters.next().ok_or("nothing is escaped")?.1 {
                    'n' => '\n',
                    it @ ('\\' | '"') => it,
                    it => return Err(format!("\\{it} means nothing")),
                }),
                (_, it) => value.push(it),
            }
        };
        if !is_name(name) || labels.insert(name.to_owned(), value).is_some() {
            return Err(format!("the label {name} is wrong or there twice"));
        }
        rest = &after[end + 1..];
        match rest.split_at_checked(1) {
            Some((",", others)) => rest = others,
            Some(("}", others)) => return Ok((labels, others)),
            _ => return Err(format!("labels end with {rest}")),
        }
    }
}

/// Reads a text strictly: `HELP`, then `TYPE`, then the samples of this family and no other.
fn parse(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut helped, mut current) = (String::new(), String::new());
    assert!(text.ends_with('\n'), "the last line has an end");
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            helped = help
                .split_once(' ')
                .ok_or("a help without a text")?
                .0
                .to_owned();
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').ok_or("a type without a kind")?;
            if name != helped
                || !is_name(name)
                || !["counter", "gauge", "histogram"].contains(&kind)
            {
                return Err(format!("the type of {name} is wrong"));
            }
            current = name.to_owned();
            if families
                .insert(
                    current.clone(),
                    Family {
                        kind: kind.to_owned(),
                        samples: Vec::new(),
                    },
                )
                .is_some()
            {
                return Err(format!("{name} is there twice"));
            }
        } else {
            let end = line.find(['{', ' ']).ok_or("a sample without a value")?;
            let (labels, value) = labels(&line[end..])?;
            let value = value.strip_prefix(' ').ok_or("no space before a value")?;
            let family = families
                .get_mut(&current)
                .ok_or("a sample without a type")?;
            let ending = line[..end]
                .strip_prefix(&current)
                .ok_or(format!("{line} is not of {current}"))?;
            if family.kind == "histogram" && !["_bucket", "_sum", "_count"].contains(&ending)
                || family.kind != "histogram" && !ending.is_empty()
            {
                return Err(format!("{line} does not belong to {current}"));
            }
            let value = value.parse().map_err(|_| format!("{line} has no number"))?;
            family.samples.push((ending.to_owned(), labels, value));
        }
    }
    Ok(families)
}

fn check_histogram(name: &str, family: &Family) {
    let of = |ending: &'static str| family.samples.iter().filter(move |it| it.0 == ending);
    let bound = |it: &BTreeMap<String, String>| it["le"].replace("+Inf", "inf").parse::<f64>();
    let buckets: Vec<(f64, f64)> = of("_bucket")
        .map(|it| (bound(&it.1).expect("a bound is a number"), it.2))
        .collect();
    assert!(
        buckets.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1),
        "{name}: {buckets:?}"
    );
    let count: Vec<f64> = of("_count").map(|it| it.2).collect();
    assert_eq!(
        (buckets.last().map(|it| it.0), of("_sum").count()),
        (Some(f64::INFINITY), 1),
        "{name}"
    );
    assert_eq!(
        Some(&count[..]),
        buckets
            .last()
            .map(|it| it.1)
            .as_ref()
            .map(std::slice::from_ref),
        "{name}"
    );
}

#[test]
fn the_text_for_prometheus_is_valid_and_says_what_the_metrics_say() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    let writer = database.writer(WriterOptions::new())?;
    for i in 0..20 {
        writer.insert_if_new(&document(i.to_string(), i / 2), &Policy::skip().near(0))?;
    }
    database.snapshot()?.query(&query(3))?;
    let metrics = database.metrics();
    let families = parse(&metrics.prometheus())?;
    for (name, family) in &families {
        assert!(
            name.starts_with("simdb_") && !family.samples.is_empty(),
            "{name}"
        );
        assert_eq!(name.ends_with("_total"), family.kind == "counter", "{name}");
        let series: BTreeSet<_> = family.samples.iter().map(|it| (&it.0, &it.1)).collect();
        assert_eq!(
            series.len(),
            family.samples.len(),
            "{name} has a series twice"
        );
        if family.kind == "histogram" {
            check_histogram(name, family);
        }
    }
    let only = |name: &str| match &families[name].samples[..] {
        [(_, labels, value)] if labels.is_empty() => *value,
        samples => panic!("{name}: {samples:?}"),
    };
    assert_eq!(
        (
            only("simdb_documents"),
            only("simdb_documents_stored_total")
        ),
        (10.0, 10.0)
    );
    assert_eq!(
        (only("simdb_submissions_total"), only("simdb_queries_total")),
        (20.0, 1.0)
    );
    let verdicts = &families["simdb_verdicts_total"].samples;
    let count = |kind: &str, matched: &str| {
        let of = |it: &&(_, BTreeMap<String, String>, f64)| {
            it.1["kind"] == kind && it.1["matched"] == matched
        };
        verdicts
            .iter()
            .filter(of)
            .map(|it| it.2)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (count("inserted", "false"), count("skipped", "true")),
        (vec![10.0], vec![10.0])
    );
    assert_eq!(
        families["simdb_verdicts_by_distance_total"].samples[0].2,
        10.0
    );
    let commits = families["simdb_commit_seconds"]
        .samples
        .iter()
        .find(|it| it.0 == "_count");
    assert_eq!(
        commits.map(|it| it.2),
        Some(metrics.commit_times.count() as f64)
    );
    // A path can have every character.
    let odd = "/data/a \"b\"\\c\nd\u{1b}[31m.simdb";
    let families = parse(&metrics.prometheus_of(odd.as_ref()))?;
    let shown = odd.replace('\u{1b}', "\u{fffd}");
    for (name, family) in &families {
        assert!(
            family.samples.iter().all(|it| it.1["database"] == shown),
            "{name}"
        );
    }
    Ok(())
}

/// At a hundred million documents, queries after a compaction read nearly all blocks of the new file one by one.
#[test]
fn a_compaction_leaves_in_memory_what_was_there() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let options = external().plan("4x16");
    let documents = (0..200_000).map(|number| Ok(document(number.to_string(), bits(number))));
    drop(Database::build(&path, &options, documents, 64 << 20)?);
    let blocks_read_by_queries = |database: &Database| -> simdb::Result<u64> {
        let before = database.metrics().blocks_read;
        let snapshot = database.snapshot()?;
        for number in 0..5_000 {
            snapshot.query(&query(bits(number * 40)).limit(0))?;
        }
        Ok(database.metrics().blocks_read - before)
    };
    let go_on = go_on;

    let database = Database::open(&path, &OpenOptions::new())?;
    assert!(blocks_read_by_queries(&database)? > 0);
    assert_eq!(blocks_read_by_queries(&database)?, 0, "all is in memory");
    database.compact(go_on)?;
    assert_eq!(blocks_read_by_queries(&database)?, 0, "the same plan");
    database.compact_with_plan("6x21", go_on)?;
    // Six tables have the memory of four, and the rest comes with the first queries.
    blocks_read_by_queries(&database)?;
    assert_eq!(blocks_read_by_queries(&database)?, 0, "another plan");
    drop(database);

    // What nobody has searched is not put in memory.
    let database = Database::open(&path, &OpenOptions::new())?;
    database.compact(go_on)?;
    let bytes = database.metrics().cache_bytes;
    assert!(bytes < 1 << 20, "{bytes}");
    Ok(())
}
