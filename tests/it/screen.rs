//! What a person sees: `simdb ingest` on a terminal.
#![cfg(unix)]

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use simdb::{Database, OpenOptions};

use crate::support::{Folder, TestResult, document, insert_all, program, simdb, spread};

/// Runs a command on a terminal, of which `redirect` may take away a stream. Returns what the terminal got.
fn on_terminal(
    command: &mut Command,
    redirect: impl FnOnce(&mut Command),
) -> TestResult<(ExitStatus, String)> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = File::options()
        .read(true)
        .write(true)
        .open(Path::new(std::ffi::OsStr::from_bytes(name.to_bytes())))?;
    command
        .stdin(Stdio::null())
        .stdout(slave.try_clone()?)
        .stderr(slave);
    // So that a bar is drawn.
    command.env("TERM", "xterm").env_remove("NO_COLOR");
    redirect(command);
    let mut child = command.spawn()?;
    // The command holds the terminal too. Once it has gone, reading ends.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let reading = thread::spawn(move || {
        let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
        let mut master = File::from(master);
        while let Ok(read @ 1..) = master.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..read]);
        }
        seen
    });
    let status = child.wait()?;
    let seen = reading.join().expect("the reader ends with the terminal");
    Ok((status, String::from_utf8_lossy(&seen).replace("\r\n", "\n")))
}

/// 3,000 documents, in groups of one fingerprint: one of 1,000, one of 500, others of 2. The rest is near nothing.
fn folder() -> TestResult<Folder> {
    let folder = Folder::new()?;
    let line = |i: u64| {
        let group = match i {
            0..1_000 => 1,
            1_000..1_500 => 2,
            1_500..1_600 => 100 + i / 2,
            _ => 10_000 + i,
        };
        format!("https://a/{i}\t{:016x}\n", spread(group))
    };
    folder.file("in.tsv", (0..3_000).map(line).collect::<String>())?;
    Ok(folder)
}

fn ingest(folder: &Folder, more: &[&str]) -> Command {
    let mut command = program!("ingest d.simdb in.tsv --input-format fingerprints", ..more);
    command.current_dir(folder.path(""));
    command
}

#[test]
fn an_ingestion_on_a_terminal_ends_with_a_summary() -> TestResult {
    let folder = folder()?;
    let (status, seen) = on_terminal(&mut ingest(&folder, &[]), |_| {})?;
    assert!(status.success(), "{seen}");
    assert!(!seen.contains(" is near "), "{seen}");
    let after = seen
        .split_once("3000 documents: 1548 near-duplicates, 3000 inserted")
        .expect(&seen)
        .1;
    let groups: Vec<Vec<&str>> = after
        .lines()
        .skip(2)
        .map(|line| line.split_whitespace().collect())
        .collect();
    assert_eq!(groups.len(), 5, "{seen}");
    assert_eq!(
        groups[..2],
        [["1000", "https://a/999"], ["500", "https://a/1499"]],
        "{seen}"
    );
    assert!(groups[2..].iter().all(|group| group[0] == "2"), "{seen}");
    assert!(
        after.contains(
            "the largest groups of documents with the same fingerprint, each with its newest key:"
        ),
        "{seen}"
    );
    Ok(())
}

#[test]
fn the_lines_of_an_ingestion_go_where_they_are_wanted() -> TestResult {
    let folder = folder()?;
    let lines = |text: &str| {
        text.lines()
            .filter(|line| line.contains(" is near "))
            .count()
    };
    // Onto the terminal, if they are asked for.
    let (status, seen) = on_terminal(&mut ingest(&folder, &["--print"]), |_| {})?;
    assert!(status.success() && lines(&seen) == 1_548, "{seen}");
    assert!(!seen.contains("the largest groups"), "{seen}");
    std::fs::remove_file(folder.path("d.simdb"))?;
    // Into a file, while the terminal gets the progress.
    let out = File::create(folder.path("lines.txt"))?;
    let (status, seen) = on_terminal(&mut ingest(&folder, &[]), |command| _ = command.stdout(out))?;
    let printed = std::fs::read_to_string(folder.path("lines.txt"))?;
    assert!(
        status.success() && lines(&printed) == 1_548 && lines(&seen) == 0,
        "{seen}"
    );
    assert!(
        seen.contains('%') || seen.contains("reading"),
        "no progress: {seen:?}"
    );
    std::fs::remove_file(folder.path("d.simdb"))?;
    // Nowhere but there, if it is to be quiet.
    let out = File::create(folder.path("lines.txt"))?;
    let (status, seen) = on_terminal(&mut ingest(&folder, &["--quiet"]), |command| {
        _ = command.stdout(out);
    })?;
    assert!(status.success() && seen.is_empty(), "{seen:?}");
    assert_eq!(
        lines(&std::fs::read_to_string(folder.path("lines.txt"))?),
        1_548
    );
    Ok(())
}

#[test]
fn rejected_records_do_not_fill_the_terminal() -> TestResult {
    let folder = folder()?;
    folder.file(
        "in.tsv",
        "k\t0000000000000001\n".to_owned() + &"k\tnonsense\n".repeat(2_000),
    )?;
    let (status, seen) = on_terminal(&mut ingest(&folder, &[]), |_| {})?;
    assert!(status.success(), "{seen}");
    let told = seen
        .lines()
        .filter(|line| line.contains("nonsense"))
        .count();
    assert!(
        (1..=10).contains(&told) && seen.contains("2000 rejected"),
        "{told}: {seen}"
    );
    Ok(())
}

/// What one command prints on a terminal without messages, a line each.
fn lines_on_terminal(command: &mut Command) -> TestResult<Vec<String>> {
    let (status, seen) = on_terminal(command.arg("--quiet"), |_| {})?;
    assert!(status.success(), "{seen}");
    Ok(seen.lines().map(str::to_owned).collect())
}

#[test]
fn clusters_and_queries_have_names_of_columns_on_a_terminal_only() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let documents = [
        document("a", 1).with_payload("one text"),
        document("b", 1).with_payload("another"),
    ];
    insert_all(&folder.database("d.simdb")?, documents)?;
    let fingerprint = ["--fingerprint", "0000000000000001"];
    let verified = ["--key", "a", "--verify", "words", "--texts", "payload"];
    for (verb, more, lines) in [
        (
            "clusters",
            &[][..],
            &[
                "cluster\tkey\tsurvivor\tdistance",
                "1\ta\ta\t0",
                "1\tb\ta\t0",
            ][..],
        ),
        (
            "clusters",
            &["--summary"],
            &[
                "cluster\tsurvivor\tdocuments\tgreatest distance",
                "1\ta\t2\t0",
            ],
        ),
        (
            "query",
            &fingerprint,
            &["distance\tsimilarity\tkey", "0\t-\tb", "0\t-\ta"],
        ),
        ("query", &["--key", "b", "--limit", "0"], &["2"]),
    ] {
        let mut command = program!(verb, &path, ..more);
        assert_eq!(lines_on_terminal(&mut command)?, lines, "{verb} {more:?}");
        let is_headed = lines.len() > 1;
        let output = command.stdout(Stdio::piped()).output()?;
        let printed = String::from_utf8(output.stdout)?;
        let data: Vec<&str> = printed.lines().collect();
        assert_eq!(data, lines[usize::from(is_headed)..], "{verb} {more:?}");
    }
    let mut command = simdb();
    let verified = lines_on_terminal(command.arg("query").arg(&path).args(verified))?;
    assert_eq!(verified[0], "distance\tsimilarity\twords\tkey");
    assert_eq!(verified[1], "0\t-\t1.00\ta");
    for verb in ["clusters", "query"] {
        let mut command = program!(verb, &path, "--json");
        if verb == "query" {
            command.args(["--key", "a"]);
        }
        let lines = lines_on_terminal(&mut command)?;
        assert!(lines.iter().all(|line| line.starts_with('{')), "{lines:?}");
    }
    // Nothing is found, and a heading of nothing would be odd.
    let mut command = program!("query --fingerprint ffffffffffffffff");
    let (_, seen) = on_terminal(command.arg(&path).arg("--quiet"), |_| {})?;
    assert_eq!(seen, "");
    Ok(())
}

/// Whoever looked at pairs had to know what the columns are. A program that reads them wants no line about that.
#[test]
fn pairs_have_names_of_columns_on_a_terminal_only() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = folder.database("d.simdb")?;
    insert_all(&database, [document("a", 1), document("b", 1)])?;
    let pairs = |more: &[&str]| program!("pairs", &path, ..more, "--quiet");
    let lines = |more: &[&str]| -> TestResult<Vec<String>> {
        let (status, seen) = on_terminal(&mut pairs(more), |_| {})?;
        assert!(status.success(), "{seen}");
        Ok(seen
            .lines()
            .filter(|line| line.contains('\t') || line.contains('{'))
            .map(str::to_owned)
            .collect())
    };
    let headed = ["distance\ta\tb\tsimilarity", "0\tb\ta\t-"];
    // A process that has the database open does not see the terminal of the one that asks.
    drop(database);
    let held = Database::open(&path, &OpenOptions::new().serve(true))?;
    assert_eq!(lines(&[])?, headed);
    drop(held);
    assert_eq!(lines(&[])?, headed);
    assert_eq!(
        lines(&["--groups"])?[0],
        "distance\ta\tb\tdocuments_a\tdocuments_b\tsimilarity"
    );
    assert_eq!(lines(&["--json"])?.len(), 1);
    assert_eq!(
        lines(&["--output", &folder.path("out").to_string_lossy()])?.len(),
        0
    );
    let printed = pairs(&[]).output()?;
    assert_eq!(String::from_utf8_lossy(&printed.stdout), "0\tb\ta\t-\n");
    Ok(())
}
