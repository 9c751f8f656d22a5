//! Who does not read, does not write or does not end, at the other end of a socket or a pipe. Nobody else waits for it.
#![cfg(unix)]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use simdb::Database;

use crate::admin::{Ingesting, answering, request, socket_of};
use crate::support::{
    Folder, Piped, Ran, TestResult, assert_has, assert_sound, document, done, insert_all, run,
    within,
};

/// The longest that anybody may be kept waiting here. The machine may be slow, but a client that does not read counts
/// as gone after 30 seconds, so this has to be less.
const SOON: Duration = Duration::from_secs(20);

/// Sends a request, with standard input or without, waits until it is begun, and reads nothing more.
fn begin(database: &Path, words: &str, has_input: bool) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(socket_of(database))?;
    let mut request = request(database, words)?;
    request["input"] = has_input.into();
    writeln!(&stream, "{request}")?;
    let said = b"{\"simdb_admin\":3}\n{\"begun\":true}\n";
    let mut read = vec![0; said.len()];
    (&stream).read_exact(&mut read)?;
    assert_eq!(read, said, "{}", read.escape_ascii());
    Ok(stream)
}

fn pipe(folder: &Folder, name: &str) -> std::io::Result<PathBuf> {
    let path = folder.path(name);
    assert!(Command::new("mkfifo").arg(&path).status()?.success());
    Ok(path)
}

fn terminate(child: &Child) -> std::io::Result<()> {
    assert!(
        Command::new("kill")
            .args(["-TERM", &child.id().to_string()])
            .status()?
            .success()
    );
    Ok(())
}

/// Asserts that a process ends soon, and returns the signal that has ended it.
#[track_caller]
fn assert_ends(child: Child) -> Option<i32> {
    let begun = Instant::now();
    let output = within(3 * SOON, move || child.wait_with_output()).expect("it can be waited for");
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(!err.contains("panicked"), "{err}");
    output.status.signal()
}

/// A database in use with much to print.
fn large(folder: &Folder) -> simdb::Result<Database> {
    let database = answering(folder, "d.simdb")?;
    insert_all(
        &database,
        (0..25_000).map(|i| document(format!("one of many copies {i}"), u64::MAX)),
    )?;
    Ok(database)
}

/// A deletion told what it deletes within its transaction. If nobody read that, nobody could write any more.
#[test]
fn a_client_that_does_not_read_keeps_nobody_from_writing() -> TestResult {
    let folder = Folder::new()?;
    let database = large(&folder)?;
    let path = folder.path("d.simdb");
    let commands = [
        "delete d.simdb --duplicates --max-distance 0",
        "pairs d.simdb --expand --max-distance 0",
        "dump d.simdb",
        "compact d.simdb",
        "expire d.simdb --before 1970-01-01 --dry-run --json",
    ];
    let clients = commands
        .map(|it| begin(&path, it, false))
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
    for round in 0..10 {
        thread::sleep(Duration::from_millis(200));
        let begun = Instant::now();
        insert_all(&database, [document(format!("new {round}"), round << 7)])?;
        assert!(
            begun.elapsed() < SOON,
            "round {round} took {:?}",
            begun.elapsed()
        );
    }
    done!("get", &path, ..["new 9"]);
    assert_eq!(
        database.snapshot()?.stats()?.documents,
        25_030,
        "what nobody was told is deleted"
    );
    // Nor from closing the database.
    let begun = Instant::now();
    drop(database);
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    drop(clients);
    assert_sound(&Database::open(&path, &simdb::OpenOptions::new())?)?;
    Ok(())
}

/// What a request prints, up to where it asks whether it is written.
fn read_to_confirm(
    lines: &mut impl Iterator<Item = std::io::Result<String>>,
) -> TestResult<String> {
    let mut out = String::new();
    for line in lines {
        let line: Value = serde_json::from_str(&line?)?;
        out += line["out"].as_str().unwrap_or_default();
        if !line["confirm"].is_null() {
            return Ok(out);
        }
        assert!(line["exit"].is_null(), "it ended unasked: {line}");
    }
    Err("it ended without an answer".into())
}

/// It used to hold the turn to write while it waited for this answer, so nothing could change in between.
#[test]
fn what_others_change_between_its_line_and_its_deletion_stays_and_is_told() -> TestResult {
    let folder = Folder::new()?;
    let database = answering(&folder, "d.simdb")?;
    let path = folder.path("d.simdb");
    insert_all(
        &database,
        (0..6).map(|i| document(format!("copy {i}"), u64::MAX)),
    )?;
    let command = "delete d.simdb --duplicates --max-distance 0 --json";
    // Who leaves instead of answering has nothing deleted.
    let stream = begin(&path, command, false)?;
    read_to_confirm(&mut BufReader::new(&stream).lines())?;
    stream.shutdown(Shutdown::Both)?;
    assert_eq!(database.snapshot()?.stats()?.documents, 26);
    let stream = begin(&path, command, false)?;
    let mut lines = BufReader::new(&stream).lines();
    let told = read_to_confirm(&mut lines)?;
    assert_eq!(told.matches("\"deleted\":true").count(), 5, "{told}");
    let begun = Instant::now();
    insert_all(&database, [document("copy 3", 7 << 50)])?;
    assert!(begun.elapsed() < SOON);
    writeln!(&stream, "{{\"written\":true}}")?;
    let mut out = String::new();
    for line in lines {
        out += serde_json::from_str::<Value>(&line?)?["out"]
            .as_str()
            .unwrap_or_default();
    }
    // It is the only one.
    let kept: Value = serde_json::from_str(&out)?;
    assert_has!(kept, {"key": "copy 3", "deleted": false});
    let snapshot = database.snapshot()?;
    assert!(snapshot.get("copy 3")?.is_some() && snapshot.get("copy 0")?.is_some());
    assert_eq!(snapshot.stats()?.documents, 22);
    Ok(())
}

/// Eight such requests closed the socket for good, and an ingestion did not end after its input.
#[test]
fn inputs_without_an_end_are_refused_in_a_request() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    fs::create_dir(folder.path("files"))?;
    pipe(&folder, "files/pipe")?;
    let pipe = pipe(&folder, "pipe")?;

    folder.file("files/a.tsv", "x\t0000000000000001\n")?;
    let ingesting = Ingesting::start(&path)?;
    for input in [pipe, "/dev/zero".into(), "/dev/tty".into()] {
        let path = path.clone();
        within(6 * SOON, move || -> std::io::Result<()> {
            for _ in 0..3 {
                for option in ["--file", "--input"] {
                    run!("query", &path, option, &input).refused("and standard input");
                }
                run!("pairs", &path, "--with", &input).refused("and standard input");
                run!("query", &path, "--key first --verify words --texts", &input)
                    .refused("and standard input");
            }
            Ok(())
        })?;
    }
    // A directory is read without what is no file in it.
    folder
        .run("query d.simdb --input-format fingerprints --input files")?
        .expect(0);
    done!("stats", &path);
    assert!(ingesting.end()?);
    Ok(())
}

/// What a client did not send was waited for, as long as the client lived.
#[test]
fn an_ingestion_ends_although_clients_neither_read_nor_write() -> TestResult {
    let folder = Folder::new()?;
    for is_terminated in [false, true] {
        let name = format!("{is_terminated}.simdb");
        let path = folder.path(&name);
        let ingesting = Ingesting::start(&path)?;
        let asking = format!("query {name} --input - --input-format fingerprints");
        let clients = (0..8)
            .map(|_| begin(&path, &asking, true))
            .collect::<Result<Vec<_>, _>>()?;
        run!("stats", &path).refused("8 commands");
        let Ingesting {
            child,
            input,
            output,
        } = ingesting;
        let input = Some(input).filter(|_| is_terminated);
        if is_terminated {
            terminate(&child)?;
        }
        assert_eq!(assert_ends(child), is_terminated.then_some(15));
        drop((clients, input, output));
        done!("check", &path);
    }
    Ok(())
}

/// The thread that was to see the signal waited for the input.
#[test]
fn the_first_signal_ends_a_command_that_waits_for_its_input() -> TestResult {
    let folder = Folder::new()?;
    let pipe = pipe(&folder, "pipe")?;
    let there = folder.path("there.simdb");
    drop(folder.database("there.simdb")?);
    let new = folder.path("new.simdb");
    folder.file("clean.tsv", "")?;
    let commands = [
        "audit clean.tsv --removed pipe",
        "ingest new.simdb -",
        "ingest new.simdb pipe",
        "ingest there.simdb pipe",
        "load new.simdb pipe",
        "load new.simdb -",
        "pairs there.simdb --with pipe",
    ];
    for command in commands {
        let mut child = folder.command(command).piped()?;
        let stdin = child.stdin.take();
        thread::sleep(Duration::from_millis(700));
        assert!(child.try_wait()?.is_none(), "{command:?} has ended");
        terminate(&child)?;
        assert_eq!(assert_ends(child), Some(15), "{command:?}");
        drop(stdin);
    }
    assert!(!new.exists());
    done!("check", &there);
    // It is still read as a pipe.
    let writer =
        thread::spawn(move || fs::write(pipe, "a\t0000000000000001\nb\t0000000000000003\n"));
    let ingest = folder.run("ingest there.simdb pipe --input-format fingerprints")?;
    ingest
        .expect(0)
        .begins("b is near a (distance 1)\n2 documents");
    assert!(writer.join().is_ok_and(|written| written.is_ok()));
    Ok(())
}

/// They waited for the other end of the pipe, and no first signal ended them.
#[test]
fn a_pipe_is_refused_where_a_file_is_needed_or_nobody_reads() -> TestResult {
    let folder = Folder::new()?;
    let pipe = pipe(&folder, "pipe")?;
    drop(folder.database("there.simdb")?);
    folder.file("in.tsv", "a\t0000000000000001\nb\tno fingerprint\n")?;
    let ingest = "ingest there.simdb in.tsv --input-format=fingerprints --rejected=pipe";
    let dedup = "dedup in.tsv --output=clean.tsv --input-format=fingerprints --rejected=pipe";
    let ran = |words: &str| -> std::io::Result<Ran> {
        let mut command = folder.command(words);
        within(3 * SOON, move || command.output()).map(Ran::from)
    };
    for (command, reason) in [
        ("salvage pipe new.simdb", "pipe: it is no file"),
        (ingest, "a pipe that nobody reads"),
        (dedup, "a pipe that nobody reads"),
    ] {
        ran(command)?.refused(reason);
        assert!(!folder.path("new.simdb").exists(), "{command}");
    }
    // Somebody reads it: rejected records are written as into a file.
    let mut options = fs::File::options();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    let mut reader = options.open(&pipe)?;
    ran(ingest)?.prints("1 document");
    let mut read = vec![0; 4_096];
    let length = reader.read(&mut read)?;
    let read = String::from_utf8_lossy(&read[..length]);
    assert!(read.contains("in.tsv"), "{read}");
    Ok(())
}

/// With `--replace`, the socket of the database was taken away, or a file was left that said how far pairs had got.
#[test]
fn what_is_no_file_is_no_output() -> TestResult {
    let folder = Folder::new()?;
    let database = answering(&folder, "d.simdb")?;
    let path = folder.path("d.simdb");
    folder.file("in.tsv", "x\t0000000000000001\n")?;
    let pipe = pipe(&folder, "pipe")?;
    let names = || -> std::io::Result<Vec<_>> {
        let mut names = fs::read_dir(folder.path("."))?
            .map(|it| Ok(it?.file_name()))
            .collect::<std::io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    };
    let before = names()?;
    for output in [socket_of(&path), pipe] {
        for command in [
            "pairs d.simdb --replace --output",
            "report d.simdb --replace --html",
            "pairs d.simdb --output",
            "report d.simdb --html",
            "backup d.simdb",
            "dedup in.tsv --input-format fingerprints --output",
        ] {
            let ran = Ran::from(folder.command(command).arg(&output).output()?).expect(2);
            assert_eq!(names()?, before, "{command}: {ran:?}");
            assert!(!fs::symlink_metadata(&output)?.is_file(), "{command}");
        }
    }
    let socket = fs::symlink_metadata(socket_of(&path))?;
    assert!(socket.file_type().is_socket());
    done!("stats", &path);
    drop(database);
    Ok(())
}

/// The counters of the command itself were printed, all zero, as if the process had just begun.
#[test]
fn nothing_is_told_of_a_process_that_there_is_not() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = answering(&folder, "d.simdb")?;
    done!("stats", &path, "--prometheus").prints("simdb_documents_stored_total 20\n");
    assert!(done!("stats", &path, "--json").object()?["snapshots"].is_u64());
    drop(database);
    let ran = run!("stats", &path, "--prometheus").refused("no process has it open");
    assert_eq!(ran.out, "");
    let object = done!("stats", &path, "--json").object()?;
    for field in ["snapshots", "pinned_bytes", "oldest_pin_seconds"] {
        assert!(object[field].is_null(), "{field}: {object}");
    }
    assert_eq!(object["documents"], 20);
    Ok(())
}
