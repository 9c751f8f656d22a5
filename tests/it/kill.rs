//! A process that is killed in the middle of an ingestion leaves exactly the documents it had committed.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use simdb::{Database, Document, OpenOptions};

use crate::support::{Folder, TestResult, assert_has, assert_sound, done, program, spread};

const BATCH: usize = 50;

/// Runs a command and kills it after some lines of its output, and a pause. So the kill comes at no particular
/// moment. Returns the lines.
fn kill_after(command: &mut Command, lines: usize, pause_ms: u64) -> std::io::Result<Vec<String>> {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let out = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    let mut out = out.lines();
    let told = out.by_ref().take(lines).collect();
    std::thread::sleep(Duration::from_millis(pause_ms));
    child.kill()?;
    child.wait()?;
    told
}

#[test]
fn a_killed_ingestion_leaves_whole_batches_and_goes_on_when_repeated() -> TestResult {
    let folder = Folder::new()?;
    // Every second document has the fingerprint of the one before it. So each batch prints matches, which it does
    // just before it is committed.
    let documents = 60_000;
    let lines: String = (0..documents)
        .map(|i: u64| format!("{i}\t{:016x}\n", spread(i / 2)))
        .collect();
    let input = folder.file("in.tsv", lines)?;
    let path = folder.path("d.simdb");
    let mut held = 0;
    for (round, pause_ms) in [0, 3, 17, 40, 90].into_iter().enumerate() {
        let mut command = program!(
            "ingest",
            &path,
            &input,
            "--batch",
            &BATCH.to_string(),
            "--input-format fingerprints --max-distance 0 --json --limit 1"
        );
        // What was printed is durable, but for the batch that was not committed yet.
        let mut told = None;
        for line in kill_after(&mut command, round * 100 + 101, pause_ms)? {
            let event: serde_json::Value = serde_json::from_str(&line)?;
            told = event["key"]
                .as_str()
                .and_then(|key| key.parse::<usize>().ok())
                .or(told);
        }

        // A command that only reads opens the file that a killed writer left.
        done!("stats", &path);
        let database = Database::open(&path, &OpenOptions::new())?;
        assert_sound(&database)?;
        let keys = database
            .snapshot()?
            .documents()
            .map(|document| document.map(|it| String::from_utf8_lossy(it.key()).parse::<usize>()))
            .collect::<simdb::Result<Result<Vec<_>, _>>>()??;
        // Each round goes on where the one before was killed. So the stored documents are a prefix of the input, and
        // it ends with a batch.
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert!(
            sorted.iter().copied().eq(0..sorted.len()),
            "round {round}: not a prefix of the input"
        );
        assert_eq!(sorted.len() % BATCH, 0, "round {round}: a part of a batch");
        assert!(
            told.is_none_or(|told| told < sorted.len() + BATCH),
            "round {round}: told {told:?}, held {}",
            sorted.len()
        );
        assert!(sorted.len() >= held, "round {round}: something was lost");
        held = sorted.len();
        assert!(
            held > 0 && held < documents as usize,
            "round {round}: the kill came too early or too late: {held}"
        );
    }
    let ran = done!(
        "ingest",
        &path,
        &input,
        "--input-format fingerprints --json --max-distance 0"
    );
    let totals = &ran.last()?["in_all"];
    assert_has!(totals, {"documents": documents, "inserted": documents});
    done!("check", &path);
    Ok(())
}

/// The items of the news that is told below, and what stands in each version of one.
const ITEMS: usize = 2_000;

/// A line of JSON Lines for each item. All sentences of a version are others, apart from one that all items have. The
/// numbers of sentences differ too, and some sentences are too short to judge.
fn news(version: u64) -> String {
    let item = |i: usize| {
        let count = if version == 1 { 3 + i % 5 } else { 9 - i % 4 };
        let sentence = |j: usize| match (i + j) % 6 {
            0 => "No.".to_owned(),
            1 => "All rights are reserved by the town and its press.".to_owned(),
            _ => format!(
                "In issue{version} the item{i} tells part{j} of what word{} did.",
                i * 31 + j * 7
            ),
        };
        let text = (0..count).map(sentence).collect::<Vec<_>>().join(" ");
        let record = serde_json::json!({
            "url": format!("item {i:04}"), "text": text, "seen": version, "payload": format!("version {version}")
        });
        format!("{record}\n")
    };
    (0..ITEMS).map(item).collect()
}

/// What is stored of each item: by the key of the item, its head and its sentences in the order of their keys.
type Items = BTreeMap<String, Vec<Document>>;

fn items(path: &Path) -> TestResult<Items> {
    let database = Database::open(path, &OpenOptions::new())?;
    assert_sound(&database)?;
    let mut items = Items::new();
    for document in database.snapshot()?.documents() {
        let document = document?;
        let key = String::from_utf8_lossy(document.key()).into_owned();
        let (item, _) = key.split_once('#').ok_or("a unit has a number")?;
        items.entry(item.to_owned()).or_default().push(document);
    }
    items
        .values_mut()
        .for_each(|units| units.sort_by(|a, b| a.key().cmp(b.key())));
    Ok(items)
}

/// Each item is wholly of one version, with its head, or absent. A batch once ended between the head of an item and
/// its sentences, or among these. After a kill there, the old sentences were gone and the new ones not there.
#[test]
fn a_killed_ingestion_of_sentences_leaves_whole_documents_of_one_version() -> TestResult {
    let folder = Folder::new()?;
    let inputs = [
        folder.file("1.jsonl", news(1))?,
        folder.file("2.jsonl", news(2))?,
    ];
    let ingest = |path: &Path, version: usize| {
        program!(
            "ingest",
            path,
            &inputs[version - 1],
            "--unit sentence --batch",
            &BATCH.to_string(),
            "--limit 1"
        )
    };
    let (whole, path) = (folder.path("whole.simdb"), folder.path("killed.simdb"));
    let mut uninterrupted = [Items::new(), Items::new(), Items::new()];
    for (version, stored) in uninterrupted.iter_mut().enumerate().skip(1) {
        assert!(ingest(&whole, version).output()?.status.success());
        *stored = items(&whole)?;
        assert_eq!(stored.len(), ITEMS);
    }
    for version in 1..=2 {
        let [old, new] = [&uninterrupted[version - 1], &uninterrupted[version]];
        let mut held = 0;
        for (round, pause_ms) in [1, 9, 30].into_iter().enumerate() {
            kill_after(&mut ingest(&path, version), 151 + round * 150, pause_ms)?;
            let found = items(&path)?;
            // Each round goes on where the one before was killed. So the new ones are a prefix.
            let reached = new
                .iter()
                .take_while(|(key, units)| found.get(*key) == Some(units))
                .count();
            let rest = old.iter().skip(reached);
            let expected: Items = new
                .iter()
                .take(reached)
                .chain(rest)
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            let wrong = found
                .iter()
                .find(|(key, units)| expected.get(*key) != Some(units));
            assert!(
                wrong.is_none(),
                "version {version}, round {round}: not of one version: {wrong:?}"
            );
            assert_eq!(
                found.len(),
                expected.len(),
                "version {version}, round {round}: an item is missing"
            );
            assert!(
                reached >= held.max(1) && reached < ITEMS,
                "version {version}, round {round}: {reached}"
            );
            held = reached;
        }
        assert!(ingest(&path, version).output()?.status.success());
        assert!(
            items(&path)? == *new,
            "version {version}: not what an uninterrupted run stores"
        );
    }
    Ok(())
}
