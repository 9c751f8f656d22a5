//! How often documents were seen again, and how many of a group are kept: by the library, by the program, and however
//! often an input is read.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self};
use std::path::Path;

use serde_json::json;
use simdb::{Database, Document, Error, ErrorKind, Fingerprint, Near, OnMatch, Policy};

use crate::support::random::{Random, seed_or};
use crate::support::{
    Folder, TestResult, append, assert_sound, document, done, insert_all, run, spread,
};

/// The repeats of each document that is stored, by its key.
fn counts(path: &Path) -> TestResult<BTreeMap<String, u64>> {
    let mut counts = BTreeMap::new();
    for line in done!("dump", path).json()?.iter().skip(1) {
        let key = line["key"].as_str().ok_or("a key")?.to_owned();
        counts.insert(key, line["repeats"].as_u64().unwrap_or(0));
    }
    Ok(counts)
}

fn counted<const N: usize>(counts: [(&str, u64); N]) -> BTreeMap<String, u64> {
    let counts = counts.into_iter();
    counts.map(|(key, count)| (key.to_owned(), count)).collect()
}

/// A record with a fingerprint.
fn line(key: &str, bits: u64) -> String {
    let bits = format!("{bits:016x}");
    format!("{}\n", json!({"key": key, "fingerprint": bits, "seen": 1}))
}

/// An input that was read again took back when its documents were seen last, and they expired.
#[test]
fn what_was_seen_again_stays_so_when_it_is_read_once_more() -> TestResult {
    let folder = Folder::new()?;
    let line = |key: &str, seen: i64| {
        format!(
            "{}\n",
            json!({"key": key, "fingerprint": "00000000000000ff", "seen": seen})
        )
    };
    let first = folder.file("a.jsonl", line("a", 1_000_000))?;
    let copy = folder.file("copy.jsonl", line("a", 1_000_000))?;
    let second = folder.file("b.jsonl", line("b", 3_000_000))?;
    let path = folder.path("d.simdb");
    skip(&path, &first, "--touch")?;
    skip(&path, &second, "--touch")?;
    let seen = || -> TestResult<i64> {
        let found = Database::open(&path, &Default::default())?
            .snapshot()?
            .get(b"a")?;
        Ok(found.ok_or("a document")?.seen())
    };
    assert_eq!(seen()?, 3_000_000);
    for (again, options) in [(&first, "--touch --again"), (&copy, "--touch")] {
        skip(&path, again, options)?;
        assert_eq!(seen()?, 3_000_000);
    }
    // Without it, the time of the record counts.
    skip(&path, &first, "--again")?;
    assert_eq!(seen()?, 1_000_000);
    Ok(())
}

/// Ingests with `--on-duplicate skip` and further options.
fn skip(path: &Path, input: &Path, options: &str) -> TestResult {
    ingest(
        path,
        &[input],
        &format!("--max-distance 3 --on-duplicate skip {options}"),
    )
}

fn ingest(path: &Path, inputs: &[impl AsRef<OsStr>], options: &str) -> TestResult {
    done!("ingest", path, ..inputs, ..options.split_whitespace());
    Ok(())
}

#[test]
fn what_is_not_stored_is_counted_in_the_nearest() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    insert_all(&database, [document("a", 0), document("b", 0b111)])?;
    let repeats = |key: &str| -> simdb::Result<Option<u64>> {
        let found = database.snapshot()?.get(key)?;
        Ok(found.map(|found| found.repeats()))
    };
    let near = |touch: bool| Policy::skip().near(2).touch(touch);
    let mut txn = database.begin_write()?;
    txn.insert_if_new(&document("c", 0b1), &near(false))?;
    txn.insert_if_new(&document("d", 0b1), &near(true))?;
    // What it was counted before counts too.
    txn.insert_if_new(&document("e", 0b11).with_repeats(5), &near(true))?;
    assert!(txn.touch("b", 1)?);
    txn.commit()?;
    assert_eq!(repeats("a")?, Some(1));
    assert_eq!(repeats("b")?, Some(1 + 6));

    // The count of the key is kept, and that of a document that is inserted is as it is given.
    let mut txn = database.begin_write()?;
    txn.insert_if_new(&document("a", 0xff00).with_repeats(0), &near(false))?;
    txn.insert_if_new(&document("b", 0xff_0000).with_repeats(9), &near(true))?;
    txn.commit()?;
    assert_eq!((repeats("a")?, repeats("b")?), (Some(1), Some(9)));
    insert_all(&database, [document("b", 0xff_0000)])?;
    assert_eq!(repeats("b")?, Some(0));

    // Whoever takes the place of others takes over their counts, and ends at the greatest.
    let mut txn = database.begin_write()?;
    let best = document("f", 0xff00).with_rank([1]);
    txn.insert_if_new(&best, &Policy::replace().near(2).touch(true))?;
    let most = Document::MAX_REPEATS;
    txn.insert(&document("m", 1 << 40).with_repeats(most - 1))?;
    for key in ["n", "o", "p"] {
        txn.insert_if_new(&document(key, 1 << 40), &near(true))?;
    }
    txn.commit()?;
    assert_eq!((repeats("a")?, repeats("f")?), (None, Some(2)));
    assert_eq!(repeats("m")?, Some(most));
    assert_sound(&database)?;
    Ok(())
}

/// The verdict by the words of the documentation, on all documents that are near.
fn is_stored(near: &[Document], new: &Document, on_match: OnMatch, keep: usize) -> bool {
    let outranked = near.iter().filter(|other| new.outranks(other)).count();
    match on_match {
        OnMatch::Link => true,
        OnMatch::Skip => near.len() < keep,
        _ => near.len() < keep || outranked >= near.len() + 1 - keep,
    }
}

/// Also with conditions for which documents are read, and counted up to 128 or the limit only.
#[test]
fn up_to_so_many_of_a_group_are_kept() -> TestResult {
    let seed = seed_or(7);
    println!("SIMDB_SEED={seed}");
    let mut random = Random::new(seed);
    for round in 0..60 {
        let folder = Folder::in_memory()?;
        let database = folder.tiny_database("d.simdb")?;
        let on_match = [OnMatch::Skip, OnMatch::Replace, OnMatch::Link][round % 3];
        let keep = 1 + random.below(4) as usize;
        let near = match random.below(3) {
            0 => Near::within(3),
            1 => Near::within(3).since(5),
            _ => Near::within(3).scopes(["en"]),
        };
        let policy = Policy::new(on_match).keep(keep).near(near.clone());
        let mut policy = policy.limit(random.below(3) as usize);
        let is_verified = random.one_in(3);
        if is_verified {
            policy = policy.verify(|_, stored| Ok(stored.key().len().is_multiple_of(2)));
        }
        let mut stored: Vec<Document> = Vec::new();
        let mut txn = database.begin_write()?;
        for number in 0..80 {
            if random.one_in(20) {
                txn.commit()?;
                txn = database.begin_write()?;
            }
            let key = format!("{}{}", "k".repeat(1 + number % 2), number);
            let bits = (random.below(3) * 0xffff) ^ (1 << random.below(64));
            let new = document(key, bits)
                .with_seen(random.below(10) as i64)
                .with_scope(*random.pick(&["", "en"]))
                .with_rank([random.below(5) as i64]);
            let counts = |other: &&Document| {
                let distance =
                    (other.fingerprint().map_or(0, Fingerprint::bits) ^ bits).count_ones();
                let shown = format!("{near:?}");
                distance <= 3
                    && (!shown.contains("since: Some") || other.seen() >= 5)
                    && (!shown.contains("\"en\"") || other.scope() == "en")
                    && (!is_verified || other.key().len().is_multiple_of(2))
            };
            let others: Vec<Document> = stored.iter().filter(counts).cloned().collect();
            let verdict = txn.insert_if_new(&new, &policy)?;
            let is_new = *verdict.change() == simdb::Change::Inserted;
            assert_eq!(
                is_new,
                is_stored(&others, &new, on_match, keep),
                "{policy:?}"
            );
            let gone = verdict.deleted();
            stored.retain(|other| !gone.contains(other));
            if is_new {
                stored.push(new);
            }
            if on_match == OnMatch::Replace && is_new {
                let surplus = (others.len() + 1).saturating_sub(keep);
                assert_eq!(gone.len(), surplus);
                let left = others.iter().filter(|other| !gone.contains(other));
                let least_left = left.map(Document::rank).min();
                let is_worse =
                    |gone: &Document| least_left.is_none_or(|least| gone.rank() <= least);
                assert!(gone.iter().all(is_worse), "{gone:?}");
            }
        }
        txn.commit()?;
        assert_eq!(database.snapshot()?.documents().count(), stored.len());
        assert_sound(&database)?;
    }
    Ok(())
}

/// Beyond the number of matches that are counted where documents have to be read for that.
#[test]
fn more_are_kept_than_are_counted_otherwise() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    let policies = [
        Policy::skip(),
        Policy::skip().near(Near::within(3).since(0)),
        Policy::skip().verify(|_, _| Ok(true)),
        Policy::skip().near(Near::within(3).since(0)).limit(0),
    ];
    for (number, policy) in policies.into_iter().enumerate() {
        let policy = policy.keep(200);
        let documents = |from: usize, to: usize| {
            let keys = (from..to).map(|i| format!("{number} {i}"));
            keys.map(|key| document(key, 0xffff << (16 * number)))
                .collect::<Vec<_>>()
        };
        let mut txn = database.begin_write()?;
        txn.insert_batch_if_new(&documents(0, 150), &policy)?;
        txn.commit()?;
        let mut txn = database.begin_write()?;
        let verdicts = txn.insert_batch_if_new(&documents(150, 300), &policy)?;
        txn.commit()?;
        let stored = verdicts
            .iter()
            .filter(|it| *it.change() == simdb::Change::Inserted);
        assert_eq!(stored.count(), 50, "{policy:?}");
    }
    Ok(())
}

#[test]
fn to_keep_none_is_refused_and_changes_nothing() -> TestResult {
    let folder = Folder::in_memory()?;
    let database = folder.tiny_database("d.simdb")?;
    let policy = Policy::skip().keep(0);
    let mut txn = database.begin_write()?;
    let refused = txn.insert_if_new(&document("a", 1), &policy);
    let Err(error @ Error::KeepNone) = refused else {
        return Err("it is not refused".into());
    };
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("keep at least 1"), "{error}");
    assert!(
        txn.insert_batch_if_new(&[document("a", 1)], &policy)
            .is_err()
    );
    txn.commit()?;
    assert_eq!(database.snapshot()?.stats()?.documents, 0);
    Ok(())
}

#[test]
fn the_program_counts_and_keeps_and_tells() -> TestResult {
    let folder = Folder::new()?;
    let lines: String = (0..6).map(|i| line(&format!("k{i}"), 7)).collect();
    let input = folder.file("a.jsonl", lines + &line("other", 0xffff_0000))?;
    let path = folder.path("d.simdb");
    skip(&path, &input, "--touch --keep 2")?;
    // Of equally near ones, the one that was written last is the nearest.
    let found = counts(&path)?;
    assert_eq!(found.len(), 3);
    assert_eq!(found["k0"] + found["k1"], 4);
    assert_eq!(found["other"], 0);

    let most = if found["k0"] > 0 { "k0" } else { "k1" };
    done!("get", &path, most).prints("\nrepeats\t");
    run!("get", &path, "other").expect(0).prints_no("repeats");
    let asked = done!("query", &path, "--key", most, "--json").object()?;
    let matches = asked["matches"].as_array().ok_or("matches")?;
    assert!(
        matches.iter().any(|found| found["repeats"].is_u64()),
        "{asked}"
    );

    let dump = done!("dump", &path).out;
    assert!(dump.starts_with("{\"simdb_dump\":3,") || dump.contains("\"simdb_dump\":3"));
    let dumped = folder.file("dump.jsonl", &dump)?;
    done!("load", folder.path("loaded.simdb"), &dumped);
    assert_eq!(done!("dump", folder.path("loaded.simdb")).out, dump);
    done!("compact", &path);
    done!("backup", &path, folder.path("copy.simdb"));
    assert_eq!(counts(&folder.path("copy.simdb"))?, found);
    // Documents of a dump are records too.
    let records: String = dump.lines().skip(1).map(|it| format!("{it}\n")).collect();
    let records = folder.file("records.jsonl", records)?;
    done!("ingest", folder.path("again.simdb"), &records, "--sketch 0");
    assert_eq!(counts(&folder.path("again.simdb"))?, found);

    // Where every document is stored, nothing would be counted or kept.
    for option in [&["--touch"][..], &["--keep", "2"]] {
        let mut command = crate::support::simdb();
        command.arg("ingest").args([&path, &input]).args(option);
        let refused = crate::support::Ran::from(command.output()?).expect(2);
        refused.says(&format!("{} is for", option[0]));
    }
    run!("ingest", &path, &input, "--on-duplicate skip --keep 0").expect(2);
    Ok(())
}

/// A dump of the version before has no counts.
#[test]
fn an_older_dump_is_loaded_and_a_later_one_is_refused() -> TestResult {
    let folder = Folder::new()?;
    let dump = |version: u32| {
        let header = json!({"simdb_dump": version, "scheme": "external", "plan": null, "max_distance": 3,
            "sketch_bytes": 0, "min_similarity": 0.0, "created": 7, "documents": 1});
        format!("{header}\n{}", line("a", 7))
    };
    let older = folder.file("2.jsonl", dump(2))?;
    done!("load", folder.path("2.simdb"), &older);
    assert_eq!(counts(&folder.path("2.simdb"))?, counted([("a", 0)]));
    for other in [1, 4] {
        let input = folder.file("other.jsonl", dump(other))?;
        run!("load", folder.path("other.simdb"), &input)
            .refused(&format!("a dump of version {other}"));
    }
    Ok(())
}

/// X is stored, and seen again in the same input, in another one, and behind a last line without a line end.
#[test]
fn a_record_counts_once_however_often_it_is_read() -> TestResult {
    let (x, y) = (0b111, 0xff << 40);
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let a = folder.file(
        "a.jsonl",
        [line("x", x), line("y", y), line("x2", x)].concat(),
    )?;
    let b = folder.file("b.jsonl", line("x3", x))?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?, counted([("x", 1), ("y", 0)]));
    for option in ["--again", "--restart", "--again"] {
        skip(&path, &a, &format!("--touch {option}"))?;
        assert_eq!(counts(&path)?, counted([("x", 1), ("y", 0)]), "{option}");
    }
    // In between, another input counts.
    skip(&path, &b, "--touch")?;
    assert_eq!(counts(&path)?["x"], 2);
    skip(&path, &a, "--touch --again")?;
    assert_eq!(counts(&path)?["x"], 2);
    // What is new in an input counts, also if the whole is read again.
    append(&a, line("x4", x))?;
    skip(&path, &a, "--touch --again")?;
    assert_eq!(counts(&path)?["x"], 3);
    append(&a, line("x5", x))?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?["x"], 4);
    // Another content counts anew.
    fs::write(&a, [line("z", y), line("x6", x), line("x7", x)].concat())?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?["x"], 6);
    Ok(())
}

#[test]
fn a_last_line_that_is_read_again_counts_once() -> TestResult {
    let x = 0b111;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let lines = [line("x", x), line("x1", x)].concat();
    let a = folder.file("a.jsonl", lines.trim_end())?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?, counted([("x", 1)]));
    append(&a, "\n")?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?, counted([("x", 1)]));
    // A line that is cut counts when it is whole.
    let (begin, end) = (&line("x2", x)[..9], &line("x2", x)[9..]);
    append(&a, begin)?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?, counted([("x", 1)]));
    append(&a, end)?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?, counted([("x", 2)]));
    // A last line that was stored keeps what it was counted since.
    append(&a, line("new", 0xff << 40).trim_end())?;
    skip(&path, &a, "--touch")?;
    let b = folder.file("b.jsonl", line("new2", 0xff << 40))?;
    skip(&path, &b, "--touch")?;
    assert_eq!(counts(&path)?, counted([("x", 2), ("new", 1)]));
    append(&a, "\n")?;
    skip(&path, &a, "--touch")?;
    assert_eq!(counts(&path)?, counted([("x", 2), ("new", 1)]));
    Ok(())
}

#[test]
fn what_was_read_without_counting_is_counted_when_it_is_read_again() -> TestResult {
    let x = 0b111;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let a = folder.file("a.jsonl", [line("x", x), line("x1", x)].concat())?;
    skip(&path, &a, "")?;
    assert_eq!(counts(&path)?, counted([("x", 0)]));
    for _ in 0..2 {
        skip(&path, &a, "--touch --again")?;
        assert_eq!(counts(&path)?, counted([("x", 1)]));
    }
    skip(&path, &a, "--again")?;
    assert_eq!(counts(&path)?, counted([("x", 1)]));
    Ok(())
}

/// Of records with ranks and counts of their own. If keys come again and better documents are kept, a document may go
/// while the input is read again, and come back under its key. Then its count begins anew, or another one is kept.
#[test]
fn reading_again_leaves_all_counts_as_they_are() -> TestResult {
    let seed = seed_or(3);
    println!("SIMDB_SEED={seed}");
    let mut random = Random::new(seed);
    for action in ["skip", "replace"] {
        for (keep, keys_come_again) in [("1", false), ("1", true), ("3", false), ("3", true)] {
            let folder = Folder::new()?;
            let records: String = (0..1_500)
                .map(|i| {
                    let comes_again = keys_come_again && i % 17 == 4;
                    let key = if comes_again { random.below(i + 1) } else { i };
                    let bits = spread(random.below(200)) ^ 1 << random.below(64);
                    let bits = format!("{bits:016x}");
                    let record = json!({"key": format!("k{key}"), "fingerprint": bits, "seen": i,
                        "rank": random.below(4), "repeats": random.below(3) / 2});
                    format!("{record}\n")
                })
                .collect();
            let input = folder.file("a.jsonl", records)?;
            let path = folder.path("d.simdb");
            let options = format!(
                "--max-distance 3 --on-duplicate {action} --keep {keep} --touch --batch 100"
            );
            ingest(&path, &[&input], &options)?;
            let first = counts(&path)?;
            assert!(first.values().sum::<u64>() > 500);
            for option in ["--again", "--restart"] {
                ingest(&path, &[&input], &format!("{options} {option}"))?;
                let again = counts(&path)?;
                let mut others = 0;
                for (key, count) in &first {
                    others += usize::from(again.get(key) != Some(count));
                }
                let most = match keys_come_again && action == "replace" {
                    true => first.len() / 20,
                    false => 0,
                };
                let what = format!("{action} {keep} {keys_come_again} {option}: {others}");
                assert!(others <= most, "{what}");
                assert!(again.len().abs_diff(first.len()) <= most, "{what}");
                if keep == "1" {
                    let pairs = done!("pairs", &path, "--max-distance 3");
                    assert!(pairs.out.is_empty(), "{what}");
                }
            }
        }
    }
    Ok(())
}

/// To count a document is to store it anew, so it looks as if the source that has counted it had stored it. When that
/// source alone was read again, its near-duplicates were stored.
#[test]
fn reading_one_source_again_does_not_hide_what_others_have_stored() -> TestResult {
    let seed = seed_or(4);
    println!("SIMDB_SEED={seed}");
    let mut random = Random::new(seed);
    for (action, keep, in_one_run) in [
        ("skip", "1", false),
        ("skip", "1", true),
        ("skip", "3", false),
        ("replace", "1", false),
        ("replace", "1", true),
        ("replace", "3", false),
    ] {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let mut inputs = Vec::new();
        for name in ["a", "b", "c"] {
            let mut records = String::new();
            for i in 0..300 {
                let bits = spread(random.below(120)) ^ 1 << random.below(64);
                let bits = format!("{bits:016x}");
                let record = json!({"key": format!("{name}{i}"), "fingerprint": bits, "seen": i,
                    "rank": random.below(4)});
                records += &format!("{record}\n");
            }
            inputs.push(folder.file(&format!("{name}.jsonl"), records)?);
        }
        let options =
            format!("--max-distance 3 --on-duplicate {action} --keep {keep} --touch --batch 50");
        for run in inputs.chunks(if in_one_run { inputs.len() } else { 1 }) {
            ingest(&path, run, &options)?;
        }
        let first = counts(&path)?;
        assert!(first.len() < 500 && first.values().sum::<u64>() > 300);
        for _ in 0..6 {
            let input = random.index(inputs.len());
            ingest(&path, &inputs[input..=input], &format!("{options} --again"))?;
            let again = counts(&path)?;
            let what = format!("{action} {keep} {in_one_run} {input}");
            assert!(again.keys().eq(first.keys()), "{what}");
            assert_eq!(again, first, "{what}");
        }
    }
    Ok(())
}

#[test]
fn a_sentence_that_stays_keeps_its_count() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let same = "The river rose above its banks on Sunday.";
    let record = |key: &str, text: &str| format!("{}\n", json!({"key": key, "text": text}));
    let skip = |name: &str, records: String, options: &str| {
        let input = folder.file(name, records)?;
        let options = format!("--unit sentence --on-duplicate skip --touch {options}");
        ingest(&path, &[input], &options)
    };
    let first = record("a", same) + &record("b", &format!("Nobody knew of it. {same}"));
    skip("1.jsonl", first.clone(), "")?;
    assert_eq!(counts(&path)?["a#1"], 1);
    skip("1.jsonl", first, "--again")?;
    assert_eq!(counts(&path)?["a#1"], 1);
    let moved = format!("Schools stay closed until next Friday. {same}");
    let moved = record("a", &moved);
    skip("2.jsonl", moved, "")?;
    let found = counts(&path)?;
    assert_eq!((found["a#1"], found["a#2"]), (0, 1));
    Ok(())
}

/// Documents that were never seen again cost some bytes a block.
#[test]
fn counts_of_zero_take_hardly_any_room() -> TestResult {
    let folder = Folder::new()?;
    let bytes = |name: &str, repeats: u64| -> TestResult<u64> {
        let database = folder.database(name)?;
        let documents = (0..20_000).map(|i| document(format!("key {i}"), spread(i)));
        insert_all(&database, documents.map(|it| it.with_repeats(repeats)))?;
        database.compact(crate::support::go_on)?;
        Ok(database.snapshot()?.stats()?.allocated_bytes)
    };
    // One count for all takes no bits either.
    assert_eq!(bytes("none", 0)?, bytes("three", 3)?);
    Ok(())
}
