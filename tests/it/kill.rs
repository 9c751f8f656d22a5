//! A process that is killed in the middle of an ingestion leaves exactly the documents it had committed.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::Duration;

use simdb::{Database, OpenOptions};

use crate::support::{Folder, TestResult, assert_sound, run, simdb};

const BATCH: usize = 50;

#[test]
fn a_killed_ingestion_leaves_whole_batches_and_goes_on_when_repeated() -> TestResult {
    let folder = Folder::new()?;
    // Every second document has the fingerprint of the one before it. So each batch prints matches, which
    // it does when it is durable.
    let documents = 60_000;
    let lines: String = (0..documents)
        .map(|i: u64| format!("{i}\t{:016x}\n", (i / 2).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
        .collect();
    let input = folder.file("in.tsv", lines)?;
    let path = folder.path("d.simdb");
    let mut held = 0;
    for (round, pause_ms) in [0, 3, 17, 40, 90].into_iter().enumerate() {
        let mut child = simdb()
            .arg("ingest")
            .args([&path, &input])
            .args(["--input-format", "fingerprints", "--max-distance", "0", "--json", "--limit", "1"])
            .args(["--batch", &BATCH.to_string()])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        // Every document that was printed is durable. The kill comes after some of them, at no particular
        // moment.
        let mut told = None;
        let mut line = String::new();
        for _ in 0..=round * 100 {
            line.clear();
            if out.read_line(&mut line)? == 0 {
                break;
            }
            let event: serde_json::Value = serde_json::from_str(&line)?;
            told = event["key"].as_str().and_then(|key| key.parse::<usize>().ok()).or(told);
        }
        std::thread::sleep(Duration::from_millis(pause_ms));
        child.kill()?;
        child.wait()?;
        drop(out);

        // A command that only reads opens the file that a killed writer left.
        run!("stats", &path).expect(0);
        let database = Database::open(&path, &OpenOptions::new())?;
        assert_sound(&database)?;
        let keys = database
            .snapshot()?
            .documents()
            .map(|document| document.map(|it| String::from_utf8_lossy(it.key()).parse::<usize>()))
            .collect::<simdb::Result<Result<Vec<_>, _>>>()??;
        // Each round runs the same command from the start, and replaces the documents of earlier rounds by
        // themselves. So the stored documents are the longest prefix of the input that any round reached,
        // and it ends with a batch.
        let mut sorted = keys.clone();
        sorted.sort_unstable();
        assert!(sorted.iter().copied().eq(0..sorted.len()), "round {round}: not a prefix of the input");
        assert_eq!(sorted.len() % BATCH, 0, "round {round}: a part of a batch");
        assert!(
            told.is_none_or(|told| told < sorted.len()),
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
    let ran =
        run!("ingest", &path, &input, "--input-format", "fingerprints", "--json", "--max-distance", "0")
            .expect(0);
    let totals = ran.json()?.pop().unwrap_or_default();
    assert_eq!((&totals["documents"], &totals["replaced"]), (&documents.into(), &held.into()));
    run!("check", &path).expect(0);
    Ok(())
}

/// A limit on the size of the file stands in for a full disk. Both make the write fail.
#[cfg(unix)]
#[test]
fn a_full_disk_is_named_and_nothing_acknowledged_is_lost() -> TestResult {
    let folder = Folder::new()?;
    let lines: String =
        (0..400_000u64).map(|i| format!("{i}\t{:016x}\n", i.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    let input = folder.file("in.tsv", lines)?;
    let path = folder.path("d.simdb");
    // The shell counts in blocks of 512 or 1,024 bytes. The program once ended there without a word, by a
    // signal of the system.
    let script = "ulimit -f 20000; exec \"$0\" ingest \"$1\" \"$2\" --input-format fingerprints \
                  --max-distance 0 --batch 1000";
    let output = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_simdb")])
        .args([&path, &input])
        .output()?;
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("File too large"), "{told}");
    let stored: u64 = told
        .split_once(" documents were stored before this")
        .and_then(|(before, _)| before.rsplit(' ').next()?.parse().ok())
        .ok_or_else(|| format!("it is not told how many documents are stored: {told}"))?;
    let database = Database::open(&path, &OpenOptions::new())?;
    let held = database.snapshot()?.stats()?.documents;
    // A commit that failed may be in the file all the same, as a whole.
    assert!(held == stored || held == stored + 1_000, "{held} documents are held, {stored} were told");
    assert_sound(&database)?;
    Ok(())
}
