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

use crate::support::{Folder, TestResult, document, insert_all, spread};

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

const INGEST: &str = "ingest d.simdb in.tsv --input-format fingerprints";

#[test]
fn an_ingestion_on_a_terminal_ends_with_a_summary() -> TestResult {
    let folder = folder()?;
    let (status, seen) = on_terminal(&mut folder.command(INGEST), |_| {})?;
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
    let heading =
        "the largest groups of documents with the same fingerprint, each with its newest key:";
    assert!(after.contains(heading), "{seen}");
    Ok(())
}

#[test]
fn the_lines_of_an_ingestion_go_where_they_are_wanted() -> TestResult {
    let folder = folder()?;
    let lines = |text: &str| text.matches(" is near ").count();
    // Onto the terminal, if they are asked for.
    let (status, seen) = on_terminal(folder.command(INGEST).arg("--print"), |_| {})?;
    assert!(status.success() && lines(&seen) == 1_548, "{seen}");
    assert!(!seen.contains("the largest groups"), "{seen}");
    std::fs::remove_file(folder.path("d.simdb"))?;
    // Into a file, while the terminal gets the progress.
    let out = File::create(folder.path("lines.txt"))?;
    let (status, seen) = on_terminal(&mut folder.command(INGEST), |command| {
        _ = command.stdout(out);
    })?;
    let printed = std::fs::read_to_string(folder.path("lines.txt"))?;
    assert!(
        status.success() && lines(&printed) == 1_548 && lines(&seen) == 0,
        "{seen}"
    );
    let is_told = seen.contains('%') || seen.contains("reading");
    assert!(is_told, "no progress: {seen:?}");
    std::fs::remove_file(folder.path("d.simdb"))?;
    // Nowhere but there, if it is to be quiet.
    let out = File::create(folder.path("lines.txt"))?;
    let (status, seen) = on_terminal(folder.command(INGEST).arg("--quiet"), |command| {
        _ = command.stdout(out);
    })?;
    assert!(status.success() && seen.is_empty(), "{seen:?}");
    let printed = std::fs::read_to_string(folder.path("lines.txt"))?;
    assert_eq!(lines(&printed), 1_548);
    Ok(())
}

#[test]
fn rejected_records_do_not_fill_the_terminal() -> TestResult {
    let folder = folder()?;
    folder.file(
        "in.tsv",
        "k\t0000000000000001\n".to_owned() + &"k\tnonsense\n".repeat(2_000),
    )?;
    let (status, seen) = on_terminal(&mut folder.command(INGEST), |_| {})?;
    assert!(status.success(), "{seen}");
    let told = seen
        .lines()
        .filter(|line| line.contains("nonsense"))
        .count();
    let is_short = (1..=10).contains(&told) && seen.contains("2000 rejected");
    assert!(is_short, "{told}: {seen}");
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
    let documents = [
        document("a", 1).with_payload("one text"),
        document("b", 1).with_payload("another"),
    ];
    insert_all(&folder.database("d.simdb")?, documents)?;
    for (command, heading, data) in [
        (
            "clusters d.simdb",
            "cluster\tkey\tsurvivor\tdistance\n",
            "1\ta\ta\t0\n1\tb\ta\t0\n",
        ),
        (
            "clusters d.simdb --summary",
            "cluster\tsurvivor\tdocuments\tgreatest distance\n",
            "1\ta\t2\t0\n",
        ),
        (
            "query d.simdb --fingerprint 0000000000000001",
            "distance\tsimilarity\tkey\n",
            "0\t-\tb\n0\t-\ta\n",
        ),
        ("query d.simdb --key b --limit 0", "", "2\n"),
    ] {
        let seen = lines_on_terminal(&mut folder.command(command))?;
        let lines = format!("{heading}{data}");
        assert_eq!(seen, lines.lines().collect::<Vec<_>>(), "{command}");
        assert_eq!(
            folder.run(&format!("{command} --quiet"))?.out,
            data,
            "{command}"
        );
    }
    let verified = "query d.simdb --key a --verify words --texts payload";
    let verified = lines_on_terminal(&mut folder.command(verified))?;
    assert_eq!(verified[0], "distance\tsimilarity\twords\tkey");
    assert_eq!(verified[1], "0\t-\t1.00\ta");
    for command in ["clusters d.simdb --json", "query d.simdb --json --key a"] {
        let lines = lines_on_terminal(&mut folder.command(command))?;
        assert!(lines.iter().all(|line| line.starts_with('{')), "{lines:?}");
    }
    // Nothing is found, and a heading of nothing would be odd.
    let mut command = folder.command("query d.simdb --quiet --fingerprint ffffffffffffffff");
    let (_, seen) = on_terminal(&mut command, |_| {})?;
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
    let lines = |more: &str| -> TestResult<Vec<String>> {
        let command = format!("pairs d.simdb --quiet {more}");
        let (status, seen) = on_terminal(&mut folder.command(command.trim()), |_| {})?;
        assert!(status.success(), "{seen}");
        let lines = seen.lines().filter(|line| line.contains(['\t', '{']));
        Ok(lines.map(str::to_owned).collect())
    };
    let headed = ["distance\ta\tb\tsimilarity", "0\tb\ta\t-"];
    // A process that has the database open does not see the terminal of the one that asks.
    drop(database);
    let held = Database::open(&path, &OpenOptions::new().serve(true))?;
    assert_eq!(lines("")?, headed);
    drop(held);
    assert_eq!(lines("")?, headed);
    let heading = "distance\ta\tb\tdocuments_a\tdocuments_b\tsimilarity";
    assert_eq!(lines("--groups")?[0], heading);
    assert_eq!(lines("--json")?.len(), 1);
    assert!(lines("--output out")?.is_empty());
    assert_eq!(folder.run("pairs d.simdb --quiet")?.out, "0\tb\ta\t-\n");
    Ok(())
}
