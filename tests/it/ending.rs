//! Ctrl-C: each command ends in order, says how to go on, and leaves nothing behind.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use simdb::{Database, OpenOptions};

use crate::support::{
    Folder, LIMIT, Piped as _, TestResult, assert_has, bench, document, documents_of, done,
    in_one_of_five_tries, insert_all, keyed, numbered, program, run, run_with_input, simdb, spread,
    wait_until, wait_until_it_ends_in_order, within,
};

fn signal(child: &Child, name: &str) -> std::io::Result<()> {
    let status = Command::new("kill")
        .args([format!("-{name}"), child.id().to_string()])
        .status()?;
    assert!(status.success());
    Ok(())
}

fn names(folder: &Folder) -> std::io::Result<Vec<String>> {
    let entries = std::fs::read_dir(folder.path(""))?;
    entries
        .map(|it| Ok(it?.file_name().to_string_lossy().into_owned()))
        .collect()
}

#[track_caller]
fn assert_ended(output: &Output, signal: i32, told: &str) {
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        output.status.signal(),
        Some(signal),
        "{:?} {err}",
        output.status
    );
    assert!(err.contains(told), "{err}");
}

/// The output of a process that ends by itself.
fn ended(child: Child) -> std::io::Result<Output> {
    within(LIMIT, move || child.wait_with_output())
}

fn is_filled(folder: &Path) -> bool {
    std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

#[test]
fn a_load_that_waits_for_its_input_ends_and_leaves_no_file() -> TestResult {
    let folder = Folder::new()?;
    insert_all(&folder.database("d.simdb")?, [document("a", 0)])?;
    let dump = done!("dump", folder.path("d.simdb")).out;
    for (name, number) in [("INT", 2), ("TERM", 15)] {
        let mut child = folder.command("load e.simdb").piped()?;
        let mut stdin = child.stdin.take().ok_or("no standard input")?;
        stdin.write_all(dump.as_bytes())?;
        wait_until_it_ends_in_order(&child);
        signal(&child, name)?;
        let output = ended(child)?;
        assert_ended(&output, number, "no database was made");
        drop(stdin);
        assert_eq!(names(&folder)?, ["d.simdb"]);
    }
    Ok(())
}

/// A bench that fills a database in a folder.
fn filling(folder: &Folder) -> std::io::Result<Child> {
    let mut bench = bench();
    bench.args("--documents 50M --phases insert --directory".split(' '));
    let child = bench.arg(folder.path("")).piped()?;
    wait_until("the folder", || is_filled(&folder.path("")));
    wait_until_it_ends_in_order(&child);
    Ok(child)
}

#[test]
fn a_bench_removes_its_folder_when_it_is_ended() -> TestResult {
    let folder = Folder::new()?;
    let child = filling(&folder)?;
    signal(&child, "INT")?;
    assert_ended(&ended(child)?, 2, "nothing is left behind");
    assert_eq!(names(&folder)?, Vec::<String>::new());
    Ok(())
}

/// Each step of an expiry is durable, so what was removed before the end is removed.
#[test]
fn an_expiry_says_how_much_it_has_removed() -> TestResult {
    let folder = Folder::new()?;
    let database = folder.database("d.simdb")?;
    insert_all(
        &database,
        (0..400_000u64).map(|number| document(number.to_le_bytes(), spread(number))),
    )?;
    drop(database);
    let child = folder.command("expire d.simdb --before 1").piped()?;
    std::thread::sleep(Duration::from_millis(150));
    signal(&child, "INT")?;
    let output = ended(child)?;
    let out = String::from_utf8_lossy(&output.stdout);
    let removed: u64 = out.split_whitespace().nth(1).unwrap_or("0").parse()?;
    if output.status.signal().is_some() && removed > 0 {
        assert_ended(&output, 2, "the same command removes the others");
    }
    let stored = done!("stats", folder.path("d.simdb"), "--json").object()?["documents"].as_u64();
    assert_eq!(stored, Some(400_000 - removed));
    done!("expire", folder.path("d.simdb"), "--before 1");
    done!("check", folder.path("d.simdb"));
    Ok(())
}

#[test]
fn a_second_signal_ends_the_program_at_once() -> TestResult {
    let folder = Folder::new()?;
    let mut child = filling(&folder)?;
    signal(&child, "TERM")?;
    signal(&child, "TERM")?;
    let mut first = String::new();
    BufReader::new(child.stderr.take().ok_or("no standard error")?).read_line(&mut first)?;
    assert_eq!(ended(child)?.status.signal(), Some(15), "{first}");
    Ok(())
}

#[test]
fn what_only_reads_ends_at_once() -> TestResult {
    let folder = Folder::new()?;
    insert_all(&folder.database("d.simdb")?, [document("a", 0)])?;
    let mut query = folder.command("query d.simdb --input - --input-format fingerprints");
    let mut child = query.stdin(Stdio::piped()).spawn()?;
    let stdin = child.stdin.take();
    std::thread::sleep(Duration::from_millis(200));
    signal(&child, "INT")?;
    assert_eq!(ended(child)?.status.signal(), Some(2));
    drop(stdin);
    Ok(())
}

/// With what it has stored, an ingestion ends in order, and the next one goes on behind it.
#[test]
fn an_ingestion_that_is_ended_stores_what_it_has_read() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let mut child = simdb();
    let child = child
        .args([
            "ingest",
            "--input-format",
            "fingerprints",
            "--source",
            "crawl",
        ])
        .arg(&path)
        .arg("-");
    let mut child = child.piped()?;
    let mut input = child.stdin.take().ok_or("standard input is a pipe")?;
    let content = "a\t0000000000000001\nb\t00000000ffffffff\n";
    input.write_all(content.as_bytes())?;
    // What has arrived is stored when the input pauses.
    let is_stored =
        || run_with_input(&mut program!("get", &path, "b"), b"").is_ok_and(|it| it.code == Some(0));
    wait_until("what was written", || path.exists() && is_stored());
    signal(&child, "INT")?;
    let output = ended(child)?;
    assert_ended(
        &output,
        2,
        "what was read is stored, and the same command goes on from there",
    );
    drop(input);
    let again = format!("{content}c\tffffffff00000000\n");
    let mut command = program!(
        "ingest --input-format fingerprints --source crawl --json",
        &path,
        "-"
    );
    let totals = run_with_input(&mut command, again.as_bytes())?
        .expect(0)
        .last()?;
    assert_has!(totals, {"documents": 1, "in_all": {"documents": 3}});
    assert_eq!(documents_of(&path)?, 3);
    Ok(())
}

/// What was printed of a stream when it was killed.
struct Printed {
    lines: u64,
    /// How many lines came together, each time that some came.
    steps: Vec<u64>,
}

/// A record of fingerprints.
fn fingerprint_record(number: u64) -> String {
    format!("key-{number}\t00000000000000ff\n")
}

/// A record of a web archive.
fn archive_record(number: u64) -> String {
    let page = format!(
        "<p>{}",
        "The lighthouse was built long ago and is open on Sundays. ".repeat(3)
    );
    format!(
        "WARC/1.0\r\nWARC-Type: resource\r\nWARC-Target-URI: key-{number}\r\nContent-Type: text/html\r\n\
         Content-Length: {}\r\n\r\n{page}\r\n\r\n",
        page.len()
    )
}

/// Writes equal records into a pipe, at most ten a second, each with so many bytes of the next, since that is how
/// programs with a buffer write. Ends when the reader has printed three times without a pause in what it reads.
fn write_until_printed(
    mut pipe: impl std::io::Write,
    printed: &Path,
    record: fn(u64) -> String,
    ahead: usize,
) -> std::io::Result<Printed> {
    let begun = Instant::now();
    let mut seen = Printed {
        lines: 0,
        steps: Vec::new(),
    };
    let mut rest = String::new();
    for number in 1.. {
        let next = record(number);
        pipe.write_all(format!("{rest}{}", &next[..ahead]).as_bytes())?;
        rest = next[ahead..].to_owned();
        pipe.flush()?;
        let lines = std::fs::read_to_string(printed)?.lines().count() as u64;
        if lines > seen.lines {
            seen.steps.push(lines - seen.lines);
            seen.lines = lines;
        }
        if seen.steps.len() == 3 || begun.elapsed() >= LIMIT {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(seen)
}

/// A stream that never pauses for a second was neither stored nor printed before its batch was full.
///
/// A busy machine makes the second longer, but not each time. So the least of three counts.
#[test]
fn of_a_steady_stream_all_but_the_last_second_is_stored_and_printed_before_a_kill() -> TestResult {
    let lines = fingerprint_record as fn(u64) -> String;
    let streams = [
        (lines, 5, &["--input-format", "fingerprints"][..]),
        (
            lines,
            5,
            &["--input-format", "fingerprints", "--source", "crawl"],
        ),
        (
            lines,
            5,
            &["--input-format", "fingerprints", "--batch", "3"],
        ),
        // Where a record of an archive ends is seen by what is behind it.
        (archive_record, 0, &["--input-format", "warc"]),
        (archive_record, 3, &[]),
        (archive_record, 90, &[]),
    ];
    for (record, ahead, extra) in streams {
        let folder = Folder::new()?;
        let (path, printed) = (folder.path("d.simdb"), folder.path("printed"));
        let mut ingest = program!("ingest --print --limit 1", ..extra, &path, "-");
        ingest
            .stdout(std::fs::File::create(&printed)?)
            .stderr(Stdio::null());
        let mut child = ingest.stdin(Stdio::piped()).spawn()?;
        let pipe = child.stdin.take().ok_or("standard input is a pipe")?;
        let seen = write_until_printed(pipe, &printed, record, ahead)?;
        child.kill()?;
        child.wait()?;
        let least = seen.steps.iter().min().ok_or("nothing was printed")?;
        assert!(seen.steps.len() == 3 && *least <= 13, "{:?}", seen.steps);
        let stored = documents_of(&path)?;
        // What is printed last may not be committed yet.
        let committed = seen.lines - seen.steps[2];
        assert!(stored >= committed, "{:?}, {stored} stored", seen.steps);
    }
    Ok(())
}

/// A query of a stream answers each line when it has come, whatever is there of the next one.
#[test]
fn each_line_of_a_stream_is_answered_when_it_has_come() -> TestResult {
    let folder = Folder::new()?;
    insert_all(&folder.database("d.simdb")?, [document("a", 0xff)])?;
    for (command, content) in [
        (
            "query d.simdb --input - --input-format fingerprints",
            "00000000000000ff",
        ),
        (
            "fingerprint -",
            "one two three four five six seven eight nine ten eleven twelve thirteen",
        ),
    ] {
        let mut child = folder.command(command).piped()?;
        let mut pipe = child.stdin.take().ok_or("standard input is a pipe")?;
        let mut answers =
            BufReader::new(child.stdout.take().ok_or("standard output is a pipe")?).lines();
        pipe.write_all(format!("key-0\t{content}\nkey-").as_bytes())?;
        for number in 1..4 {
            let answer = answers.next().ok_or("no answer")??;
            assert!(answer.contains(&format!("key-{}", number - 1)), "{answer}");
            // The line that has begun is ended, and the next one begins.
            pipe.write_all(format!("{number}\t{content}\nkey-").as_bytes())?;
        }
        drop(pipe);
        child.wait()?;
    }
    Ok(())
}

/// A million bad records do not scroll by. Nothing is taken of them, so no database is left.
#[test]
fn of_many_rejected_records_a_few_are_told_and_all_are_written_where_they_are_wanted() -> TestResult
{
    let folder = Folder::new()?;
    let bad = folder.file(
        "bad.jsonl",
        "{\"key\":\"a\",\"text\":1}\n".repeat(1_000_000),
    )?;
    let (path, rejected) = (folder.path("d.simdb"), folder.path("rejected.txt"));
    let ran = run!("ingest", &path, bad, "--rejected", &rejected)
        .refused("none of the records could be stored");
    assert!(ran.err.lines().count() < 15, "{}", ran.err);
    assert_eq!(
        std::fs::read_to_string(rejected)?.lines().count(),
        1_000_000
    );
    assert!(!path.exists());
    Ok(())
}

#[test]
fn each_command_that_reads_records_tells_a_few_rejected_ones_and_counts_the_others() -> TestResult {
    let folder = Folder::new()?;
    let text = "one two three four five six seven eight nine";
    let good = |key: &str| format!("{{\"key\":\"{key}\",\"text\":\"{text}\"}}\n");
    let bad = "{\"key\":\"c\",\"text\":1}\n".repeat(100);
    folder.file("in.jsonl", good("a") + &bad + &good("b"))?;
    folder.file("good.jsonl", good("z"))?;
    folder.run("ingest d.simdb good.jsonl")?.expect(0);
    for command in [
        "ingest new.simdb in.jsonl",
        "dedup in.jsonl -o out.jsonl",
        "query d.simdb --input in.jsonl",
        "overlap d.simdb in.jsonl",
        "fingerprint in.jsonl",
        "pairs d.simdb --with in.jsonl",
        "eval in.jsonl --method exact",
    ] {
        let ran = folder.run(command)?;
        let ran = ran.says("rejected: 95 more records like this one");
        assert_eq!(
            ran.err.matches("rejected: in.jsonl").count(),
            5,
            "{}",
            ran.err
        );
        let names_option = matches!(command.split(' ').next(), Some("ingest" | "dedup"));
        assert_eq!(
            ran.err.contains("--rejected FILE"),
            names_option,
            "{command}"
        );
    }
    Ok(())
}

/// They were counted only if the evaluation could begin.
#[test]
fn an_evaluation_that_lacks_documents_tells_how_many_were_rejected() -> TestResult {
    let folder = Folder::new()?;
    folder.file("bad.jsonl", "{\"key\":\"c\",\"text\":1}\n".repeat(100))?;
    folder
        .run("eval bad.jsonl --method exact")?
        .refused("two documents or more")
        .says("rejected: 95 more records like this one");
    Ok(())
}

/// A database whose documents are all near to each other at distance 64.
fn database_with_many_pairs(folder: &Folder) -> TestResult<PathBuf> {
    insert_all(&folder.database("d.simdb")?, keyed(0..3_000, |i| i))?;
    Ok(folder.path("d.simdb"))
}

/// Numbers of what had been found until then stood as if they were all.
#[test]
fn who_reads_a_few_lines_only_is_told_no_totals() -> TestResult {
    let folder = Folder::new()?;
    let path = database_with_many_pairs(&folder)?;
    for command in [&["pairs"][..], &["delete", "--duplicates", "--dry-run"]] {
        let mut child = program!(..command, &path, "--max-distance 64").piped()?;
        let mut first = [0; 10];
        let mut read = child.stdout.take().ok_or("no output")?;
        read.read_exact(&mut first)?;
        drop(read);
        let ended = ended(child)?;
        assert!(ended.status.success(), "{command:?}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{command:?}");
    }
    Ok(())
}

#[test]
fn a_search_for_pairs_tells_from_where_it_goes_on() -> TestResult {
    let folder = Folder::new()?;
    let path = database_with_many_pairs(&folder)?;
    let mut pairs = program!("pairs", &path, "--max-distance 64");
    let mut child = pairs.piped()?;
    let mut lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let mut found = std::collections::BTreeSet::new();
    found.extend(lines.next().transpose()?);
    signal(&child, "INT")?;
    found.extend(lines.collect::<Result<Vec<_>, _>>()?);
    let output = ended(child)?;
    assert_ended(&output, 2, "stopped before all pairs were found");
    let err = String::from_utf8_lossy(&output.stderr);
    let from = err
        .split('`')
        .nth(1)
        .and_then(|it| it.strip_prefix("--from "))
        .ok_or("no position")?;
    assert!(found.len() < 3_000 * 2_999 / 2);
    let left = done!("pairs", &path, "--max-distance 64 --from", from).out;
    found.extend(left.lines().map(str::to_owned));
    assert_eq!(found.len(), 3_000 * 2_999 / 2);
    Ok(())
}

/// Fills a database with documents that an expiry would remove.
fn fill(database: &Database) -> simdb::Result<()> {
    insert_all(database, (0..200_000).map(|i| numbered(i).with_seen(1)))
}

/// Of a database that another process has open, everything was done to its end, whatever the user wanted.
#[test]
fn a_command_that_another_process_answers_ends_too() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let backup = folder.path("b.simdb");
    fill(&folder.database("d.simdb")?)?;
    let held = Database::open(&path, &OpenOptions::new().serve(true))?;
    for command in [&["backup"][..], &["expire", "--before", "2020-01-01"]] {
        // If the machine has other work, a command may be done before the signal comes.
        in_one_of_five_tries(|number| {
            _ = std::fs::remove_file(&backup);
            if held.snapshot()?.stats()?.documents == 0 {
                fill(&held)?;
            }
            let mut asking = program!(command[0], &path, ..&command[1..]);
            if command[0] == "backup" {
                asking.arg(&backup);
            }
            let child = asking.piped()?;
            std::thread::sleep(Duration::from_millis(60) / (1 + number));
            signal(&child, "INT")?;
            let output = ended(child)?;
            if output.status.success() {
                return Ok(Some(format!("{command:?} came to its end")));
            }
            let told = match command[0] {
                "expire" => "the process that has the database open ends the work in order",
                _ => "",
            };
            assert_ended(&output, 2, told);
            Ok(None)
        })?;
        // What the process still does ends soon.
        wait_until("the end of the copy", || !backup.exists());
    }
    assert!(held.snapshot()?.stats()?.documents > 0, "all were removed");
    Ok(())
}

/// The end of the session that had started it ended it all the same.
#[test]
#[cfg(target_os = "linux")]
fn what_is_started_by_nohup_goes_on_when_its_terminal_is_gone() -> TestResult {
    let folder = Folder::new()?;
    let script = "trap '' HUP; exec \"$0\" \"$@\"";
    let mut ingest = Command::new("sh");
    ingest.args([
        "-c",
        script,
        env!("CARGO_BIN_EXE_simdb"),
        "ingest",
        "--quiet",
    ]);
    ingest
        .arg(folder.path("d.simdb"))
        .args(["-", "--input-format", "fingerprints"]);
    ingest
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = ingest.spawn()?;
    let mut input = child.stdin.take().ok_or("standard input is a pipe")?;
    wait_until("the ingestion", || is_filled(&folder.path(".")));
    signal(&child, "HUP")?;
    input.write_all(b"a\t0000000000000007\n")?;
    drop(input);
    let output = ended(child)?;
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(run!("get", folder.path("d.simdb"), "a").code, Some(0));
    Ok(())
}
