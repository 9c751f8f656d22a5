//! An administrator at a live file: commands are answered by the process that has the database open.
#![cfg(unix)]

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use simdb::{CreateOptions, Database, Error, OpenOptions};

use crate::support::{
    Folder, LIMIT, Piped as _, Ran, TestResult, assert_error, assert_sound, document, documents_of,
    done, external, in_one_of_five_tries, insert_all, program, run, run_with_input, simdb, spread,
    wait_until, within,
};

/// An ingestion that waits for more input, and so has its database open.
pub(crate) struct Ingesting {
    pub(crate) child: Child,
    pub(crate) input: ChildStdin,
    pub(crate) output: BufReader<ChildStdout>,
}

impl Ingesting {
    /// Starts it, and waits until its first two documents are stored.
    pub(crate) fn start(database: &Path) -> TestResult<Self> {
        let mut child = program!(
            "ingest --input-format fingerprints --batch 1",
            database,
            "-"
        )
        .piped()?;
        let input = child.stdin.take().ok_or("standard input is a pipe")?;
        let output = BufReader::new(child.stdout.take().ok_or("standard output is a pipe")?);
        let mut ingesting = Self {
            child,
            input,
            output,
        };
        ingesting.put("first", 1)?;
        ingesting.put("second", 3)?;
        let mut line = String::new();
        while line != "second is near first (distance 1)\n" {
            line.clear();
            assert!(ingesting.output.read_line(&mut line)? > 0, "it has ended");
        }
        // It is printed before it is stored.
        wait_until("the second document", || {
            has(database, "second").is_ok_and(|has| has)
        });
        Ok(ingesting)
    }

    /// Gives it a document.
    fn put(&mut self, key: &str, bits: u64) -> std::io::Result<()> {
        writeln!(self.input, "{key}\t{bits:016x}")
    }

    /// Ends the input, and returns whether it ended well.
    pub(crate) fn end(self) -> std::io::Result<bool> {
        let Self {
            mut child,
            input,
            mut output,
        } = self;
        drop(input);
        output.read_to_end(&mut Vec::new())?;
        Ok(child.wait()?.success())
    }

    fn kill(mut self) -> std::io::Result<()> {
        self.child.kill()?;
        self.child.wait().map(drop)
    }
}

/// Whether `simdb get` finds a document.
fn has(database: &Path, key: &str) -> std::io::Result<bool> {
    Ok(run!("get", database, key).code == Some(0))
}

pub(crate) fn socket_of(database: &Path) -> PathBuf {
    let mut path = database.as_os_str().to_owned();
    path.push(".sock");
    path.into()
}

/// A database that this process has open, with some documents, and answers for.
pub(crate) fn answering(folder: &Folder, name: &str) -> simdb::Result<Database> {
    let options = external().serve(true);
    let database = Database::create(folder.path(name), &options)?;
    insert_all(
        &database,
        (0..20).map(|i| document(format!("k{i}"), i << 30)),
    )?;
    Ok(database)
}

/// A request as the program makes it.
pub(crate) fn request(database: &Path, words: &str) -> std::io::Result<Value> {
    let arguments: Vec<&str> = words.split_whitespace().collect();
    let file = fs::metadata(database)?;
    let directory = database.parent().map(|it| it.display().to_string());
    Ok(json!({
        "simdb_admin": 3,
        "arguments": arguments,
        "directory": directory,
        "file": [file.dev(), file.ino()],
    }))
}

/// Sends some bytes, and returns the lines of the answer.
fn ask(database: &Path, bytes: &[u8]) -> std::io::Result<Vec<Value>> {
    let stream = UnixStream::connect(socket_of(database))?;
    // What is refused is not read to its end.
    _ = (&stream).write_all(bytes);
    answers(&stream)
}

fn answers(stream: &UnixStream) -> std::io::Result<Vec<Value>> {
    let lines = BufReader::new(stream).lines();
    // At the end of a connection of which not all was read, there is an error.
    lines
        .map_while(Result::ok)
        .map(|line| Ok(serde_json::from_str(&line)?))
        .collect()
}

/// Asserts that something was refused with a message and the exit code 2.
#[track_caller]
fn assert_refused(answers: &[Value], message: &str) {
    let said = answers
        .iter()
        .find_map(|it| it["message"].as_str())
        .unwrap_or_default();
    assert!(said.contains(message), "{message:?} is not in {answers:?}");
    assert_eq!(answers.last(), Some(&json!({"exit": 2})), "{answers:?}");
}

/// Waits until a process has connected to the socket of a database. Others that have done so are given up by then.
fn wait_for_client(database: &Path) {
    let sockets = Path::new("/proc/net/unix");
    if !sockets.exists() {
        // Nothing tells. So long it takes a program to begin and to ask, unless the machine is very busy.
        return thread::sleep(Duration::from_millis(500));
    }
    let folder = database.parent().unwrap_or(database);
    // The system knows the socket by the name that it had before it got its own.
    let name = format!("{}/.simdb-", folder.display());
    // The socket that listens, and the one that is connected.
    wait_until("a client", || {
        let told = fs::read_to_string(sockets).unwrap_or_default();
        told.lines().filter(|line| line.contains(&name)).count() > 1
    });
}

#[test]
fn every_verb_answers_at_a_file_in_use_as_at_a_closed_one() -> TestResult {
    let (live, closed) = (Folder::new()?, Folder::new()?);
    let mut ingesting = Ingesting::start(&live.path("d.simdb"))?;
    Ingesting::start(&closed.path("d.simdb"))?.end()?;
    for folder in [&live, &closed] {
        folder.file(
            "in.tsv",
            "x\t0000000000000001\ny\tnonsense\nz\tffffffffffffffff\n",
        )?;
        folder.file(
            "texts.jsonl",
            "{\"key\":\"first\",\"text\":\"some words\"}\n",
        )?;
    }
    // For each command, from which word on its last line may differ, since times and sizes do.
    let commands = [
        ("get d.simdb first", "seen"),
        ("get d.simdb nothing", ""),
        ("get d.simdb ", ""),
        ("query d.simdb --fingerprint 0000000000000000", ""),
        ("query d.simdb --fingerprint 0000000000000000 --limit 1", ""),
        ("query d.simdb --fingerprint 0000000000000000 --limit 0", ""),
        ("query d.simdb --key second --json", "\"seen\""),
        ("query d.simdb --key second --nearest 2", ""),
        ("query d.simdb --key nothing", ""),
        ("query d.simdb --text words", ""),
        (
            "query d.simdb --input in.tsv --input-format fingerprints",
            "",
        ),
        ("query d.simdb --input - --input-format fingerprints", ""),
        ("query d.simdb --input missing.tsv", ""),
        (
            "query d.simdb --key first --verify words --texts texts.jsonl",
            "",
        ),
        (
            "explain d.simdb --fingerprint 0000000000000000",
            "candidates expected",
        ),
        ("stats d.simdb", "file "),
        ("stats d.simdb --json", "\"file_bytes\""),
        ("sources d.simdb", ""),
        ("sources d.simdb --forget nothing", ""),
        ("check d.simdb", "; the checksums"),
        ("dump d.simdb", "seen"),
        ("backup d.simdb b.simdb", "documents,"),
        ("backup d.simdb b.simdb", ""),
        ("backup d.simdb no/b.simdb", ""),
        ("delete d.simdb first nothing", ""),
        ("compact d.simdb --plan 6x21", "d.simdb: "),
        ("expire d.simdb --before @32472144000", ""),
    ];
    let input = "u\t0000000000000001\nv\tnonsense\n";
    let until = |text: &str, end: &str| match end {
        "" => text.to_owned(),
        end => text
            .split(end)
            .next()
            .unwrap_or_default()
            .trim_end()
            .to_owned(),
    };
    for (command, differs_from) in commands {
        let run_there = |folder: &Folder| -> std::io::Result<Ran> {
            let ran = run_with_input(&mut folder.command(command), input.as_bytes())?;
            // A few messages name the whole path.
            let err = ran
                .err
                .replace(&*folder.path("").to_string_lossy(), "FOLDER/");
            // The two were created one after the other.
            let out = match ran.out.split_once("\"created\":") {
                Some((before, behind)) => {
                    format!(
                        "{before}{}",
                        behind.trim_start_matches(|it: char| it.is_ascii_digit())
                    )
                }
                None => ran.out.clone(),
            };
            Ok(Ran { err, out, ..ran })
        };
        let (here, there) = (run_there(&live)?, run_there(&closed)?);
        assert_eq!(
            (here.code, &here.err),
            (there.code, &there.err),
            "{command:?}"
        );
        assert_eq!(
            until(&here.out, differs_from),
            until(&there.out, differs_from),
            "{command:?}"
        );
        assert!(!here.err.contains("in use"), "{command:?}: {}", here.err);
    }
    // The ingestion goes on with what the commands have left.
    ingesting.put("third", 1)?;
    assert!(ingesting.end()?);
    let database = Database::open(live.path("d.simdb"), &OpenOptions::new())?;
    assert_eq!(database.snapshot()?.stats()?.documents, 1);
    assert_sound(&database)?;
    assert_eq!(documents_of(live.path("b.simdb"))?, 2);
    Ok(())
}

#[test]
fn top_looks_again_and_again_until_nobody_has_the_database_open() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let mut ingesting = Ingesting::start(&path)?;
    let looked = done!("top", &path, "--count 2 --every 0.1 --json").json()?;
    assert_eq!(
        looked
            .iter()
            .map(|it| it["documents"].as_u64())
            .collect::<Vec<_>>(),
        [Some(2), Some(2)]
    );
    let mut top = program!("top --every 0.1", &path).piped()?;
    let mut lines = BufReader::new(top.stdout.take().ok_or("standard output is a pipe")?).lines();
    let mut wait_for = |line: &str| {
        lines
            .by_ref()
            .find(|it| it.as_ref().is_ok_and(|it| it == line))
            .ok_or("it has ended")
    };
    wait_for("documents         2")??;
    ingesting.put("third", 1 << 40)?;
    wait_for("documents         3")??;
    // Of those that nobody reads any more, some looked for ever.
    for form in ["--json", "--quiet"] {
        let mut unread = program!("top --every 0.1", form, &path);
        let mut unread = unread.stdout(Stdio::piped()).spawn()?;
        drop(unread.stdout.take());
        assert_eq!(within(LIMIT, move || unread.wait())?.code(), Some(0));
    }
    assert!(ingesting.end()?);
    assert_eq!(top.wait()?.code(), Some(0));
    done!("top", &path).says("nobody has the database open");
    run!("top", &path, "--every 0").refused("must be 0.1 to 86400 seconds");
    Ok(())
}

#[test]
fn the_socket_is_for_its_user_only_and_goes_with_the_database() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = answering(&folder, "d.simdb")?;
    let there = fs::symlink_metadata(socket_of(&path))?;
    assert!(there.file_type().is_socket());
    assert_eq!(there.permissions().mode() & 0o777, 0o600);
    assert_eq!(folder.count()?, 2, "something else is left");
    // Another handle of the file gets none, and does not take the one there is.
    assert_error!(Database::open(&path, &OpenOptions::new().serve(true)) => Error::Busy { .. });
    done!("stats", &path);
    drop(database);
    assert_eq!(folder.count()?, 1, "the socket is left");
    // Without the option there is none. Who only reads needs none.
    let closed = Database::open(&path, &OpenOptions::new())?;
    run!("stats", &path).refused("OpenOptions::serve(true)");
    drop(closed);
    let _reader = Database::open(&path, &OpenOptions::new().read_only(true).serve(true))?;
    assert!(!socket_of(&path).exists());
    done!("stats", &path);
    Ok(())
}

#[test]
fn a_socket_that_was_left_behind_is_replaced_and_nothing_else_is() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    drop(answering(&folder, "d.simdb")?);
    let options = OpenOptions::new().serve(true);
    // Nobody listens there any more.
    drop(UnixListener::bind(socket_of(&path))?);
    let database = Database::open(&path, &options)?;
    done!("stats", &path);
    // Somebody else has put something there meanwhile, which stays.
    fs::remove_file(socket_of(&path))?;
    fs::write(socket_of(&path), "precious")?;
    drop(database);
    assert_eq!(fs::read(socket_of(&path))?, b"precious");
    let refused = Database::open(&path, &options);
    assert_error!(&refused => Error::AlreadyExists { .. });
    fs::remove_file(socket_of(&path))?;
    // Somebody else listens.
    let other = UnixListener::bind(socket_of(&path))?;
    let refused = Database::open(&path, &options).expect_err("somebody listens there");
    assert!(matches!(refused, Error::Io { .. }), "{refused:?}");
    drop(other);
    Database::open(&path, &options)?;
    Ok(())
}

#[test]
fn garbage_on_the_socket_is_refused_and_harms_nobody() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = answering(&folder, "d.simdb")?;
    let mut binary = b"{".to_vec();
    binary.extend((0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8));
    binary.push(b'\n');
    let line = |value: &Value| format!("{value}\n").into_bytes();
    let mut other_version = request(&path, "stats d.simdb")?;
    other_version["simdb_admin"] = 2.into();
    let mut relative = request(&path, "stats d.simdb")?;
    relative["directory"] = "here".into();
    let mut other_file = request(&path, "stats d.simdb")?;
    other_file["file"] = json!([1, 2]);
    let garbage = [
        (b"{\n".to_vec(), "no request"),
        (b"{}\n".to_vec(), "no request"),
        (binary, "no request"),
        (
            [vec![b'{'; 1_000_000], b"\n".to_vec()].concat(),
            "no request",
        ),
        (vec![b'{'; 20 << 20], "longer than"),
        (line(&other_version), "version 2"),
        (line(&relative), "absolute"),
        (line(&other_file), "another database"),
        (line(&request(&path, "load d.simdb")?), "load"),
        (line(&request(&path, "salvage d.simdb new")?), "salvage"),
        (line(&request(&path, "")?), "does not answer"),
        (line(&request(&path, "get d.simdb")?), "required"),
        (line(&request(&path, "stats --help")?), "does not answer"),
    ];
    for (bytes, message) in garbage {
        assert_refused(&ask(&path, &bytes)?, message);
    }
    // Who says nothing, half of something, or leaves.
    drop(UnixStream::connect(socket_of(&path))?);
    let half = UnixStream::connect(socket_of(&path))?;
    (&half).write_all(b"{\"simdb_admin\":1,")?;
    done!("stats", &path);
    assert_refused(&within(LIMIT, move || answers(&half))?, "within 5 seconds");
    // Standard input that is not what it says.
    let mut with_input = request(&path, "query d.simdb --input -")?;
    with_input["input"] = true.into();
    for pieces in ["nonsense\n", "{\"input\":999999999}\n"] {
        let bytes = [line(&with_input), pieces.into()].concat();
        assert_refused(&ask(&path, &bytes)?, "cannot be read");
    }
    done!("stats", &path);
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn eight_commands_are_answered_at_once_and_more_are_told_so() -> TestResult {
    // Who says nothing is waited for, five seconds after it came. So what is looked at here has to be done by then.
    in_one_of_five_tries(|_| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let database = answering(&folder, "d.simdb")?;
        let begun = Instant::now();
        let clients = (0..40)
            .map(|_| UnixStream::connect(socket_of(&path)))
            .collect::<Result<Vec<_>, _>>()?;
        for client in &clients[..8] {
            let mut begun = client;
            begun.write_all(b"{")?;
            // It is let in.
            let version = b"{\"simdb_admin\":3}\n";
            begun.read_exact(&mut version.to_vec())?;
        }
        for mut client in &clients[8..] {
            client.write_all(b"{")?;
        }
        let answers = clients[8..]
            .iter()
            .map(answers)
            .collect::<Result<Vec<_>, _>>()?;
        let ran = run!("stats", &path);
        if begun.elapsed() > Duration::from_secs(4) {
            return Ok(Some(format!("it took {:?} to ask", begun.elapsed())));
        }
        answers
            .iter()
            .for_each(|it| assert_refused(it, "8 commands"));
        ran.refused("8 commands");
        // Who waits in silence keeps nobody from closing the database.
        let begun = Instant::now();
        drop(database);
        let took = begun.elapsed();
        Database::open(&path, &OpenOptions::new())?;
        drop(clients);
        let is_soon = took < Duration::from_secs(4);
        Ok((!is_soon).then(|| format!("it took {took:?} to close")))
    })
}

#[test]
fn clients_that_are_killed_make_room_for_others() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let ingesting = Ingesting::start(&path)?;
    for _ in 0..20 {
        let mut child = program!("query --input-format fingerprints --input -", &path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut input = child.stdin.take().ok_or("standard input is a pipe")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("standard output is a pipe")?);
        writeln!(input, "u\t0000000000000001")?;
        let mut line = String::new();
        output.read_line(&mut line)?;
        // It was answered before its input ended.
        assert_eq!(line, "u is near first (distance 0), second (distance 1)\n");
        child.kill()?;
        child.wait()?;
    }
    done!("stats", &path);
    assert!(ingesting.end()?);
    Ok(())
}

/// Begins a request, waits until its work has begun, and goes away.
fn leave_at_work(database: &Path, words: &str) -> TestResult {
    let stream = UnixStream::connect(socket_of(database))?;
    writeln!(&stream, "{}", request(database, words)?)?;
    for line in BufReader::new(&stream).lines() {
        let line: Value = serde_json::from_str(&line?)?;
        let has_ended = !line["exit"].is_null();
        assert!(!has_ended, "it ended before anybody left: {line}");
        if !line["progress"].is_null() {
            return Ok(());
        }
    }
    Err("there is no progress".into())
}

#[test]
fn a_client_that_goes_away_ends_its_work_and_nothing_is_left() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let options = external().plan("4x16").serve(true);
    let documents =
        (0..200_000u64).map(|i| Ok(document(format!("the key of document {i}"), spread(i))));
    let database = Database::build(&path, &options, documents, 64 << 20)?;
    let before = fs::metadata(&path)?.ino();
    for words in ["backup d.simdb b.simdb", "compact d.simdb --plan 6x21"] {
        leave_at_work(&path, words)?;
        // A compaction keeps others from writing, so this waits for its end.
        drop(database.begin_write()?);
        done!("stats", &path);
        let is_unused = || database.check().is_ok();
        wait_until("the request that nobody wants", is_unused);
    }
    assert_eq!(fs::metadata(&path)?.ino(), before, "the file was replaced");
    assert_eq!(database.snapshot()?.stats()?.plan, "4x16");
    assert_eq!(folder.count()?, 2, "something is left");
    assert_sound(&database)?;
    Ok(())
}

#[test]
fn an_owner_that_is_killed_leaves_clients_with_a_word_and_a_file_that_opens() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let ingesting = Ingesting::start(&path)?;
    let mut child = program!("query --input-format fingerprints --input -", &path).piped()?;
    let mut input = child.stdin.take().ok_or("standard input is a pipe")?;
    writeln!(input, "u\t0000000000000001")?;
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().ok_or("standard output is a pipe")?)
        .read_line(&mut line)?;
    ingesting.kill()?;
    let ran = Ran::from(within(LIMIT, || child.wait_with_output())?);
    ran.refused("ended before it had answered").says("d.simdb");
    // The socket is still there, and disturbs nobody.
    assert!(socket_of(&path).exists());
    done!("get", &path, "second");
    let ingesting = Ingesting::start(&path)?;
    done!("get", &path, "second");
    assert!(ingesting.end()?);
    assert!(!socket_of(&path).exists());
    Ok(())
}

#[test]
fn paths_may_be_longer_than_the_address_of_a_socket() -> TestResult {
    let folder = Folder::new()?;
    let long = folder.path(&["directory with a long name"; 8].join("/"));
    fs::create_dir_all(&long)?;
    let path = long.join(format!("{}.simdb", "d".repeat(200)));
    let database = Database::create(&path, &CreateOptions::new().serve(true))?;
    done!("stats", &path);
    // By a short path, too.
    let ran = program!("stats", path.file_name().ok_or("a name")?)
        .current_dir(&long)
        .output()?;
    Ran::from(ran).expect(0);
    std::os::unix::fs::symlink(&path, folder.path("link.simdb"))?;
    done!("stats", folder.path("link.simdb"));
    drop(database);
    assert_eq!(fs::read_dir(&long)?.count(), 1);
    // A name that is too long for a socket beside it is refused before the database is made.
    let path = long.join("d".repeat(253));
    assert_error!(Database::create(&path, &CreateOptions::new().serve(true)) => Error::Io { .. });
    assert!(!path.exists());
    Ok(())
}

#[test]
fn keys_may_be_any_bytes() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = answering(&folder, "d.simdb")?;
    insert_all(&database, [document(*b"\xff\xfe key", 7)])?;
    let key = OsStr::from_bytes(b"\xff\xfe key");
    done!("get", &path, key).prints("//4ga2V5");
    assert_eq!(done!("delete", &path, key).out, "deleted \\xff\\xfe key\n");
    assert_eq!(database.snapshot()?.get(b"\xff\xfe key")?, None);
    Ok(())
}

#[test]
fn a_socket_keeps_no_database_open() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    insert_all(&folder.database("d.simdb")?, [document("a", 1)])?;
    let database = Database::open(&path, &OpenOptions::new())?;
    let socket = database.serve_at(folder.path("own.sock"))?;
    assert_eq!(socket.path(), folder.path("own.sock"));
    let stats = || -> std::io::Result<Ran> {
        Ok(run!("stats", &path, "--socket", folder.path("own.sock")))
    };
    stats()?.expect(0);
    // Beside the database there is none.
    run!("stats", &path)
        .refused("in use by another process")
        .says("it is called");
    // Another database is not asked by mistake.
    insert_all(&folder.database("e.simdb")?, [document("b", 1)])?;
    folder
        .run("get e.simdb b --socket own.sock")?
        .refused("another database");
    drop(database);
    let again = Database::open(&path, &OpenOptions::new())?;
    stats()?.refused("closed the database");
    drop((socket, again));
    assert!(!folder.path("own.sock").exists());
    stats()?.refused("own.sock");
    Ok(())
}

#[test]
fn a_request_that_writes_waits_for_the_open_transaction_and_a_dropped_database_does_not_wait_for_it()
-> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = answering(&folder, "d.simdb")?;
    let mut txn = database.begin_write()?;
    txn.insert(&document("later", 5))?;
    let mut child = program!("delete", &path, "later")
        .stdout(Stdio::piped())
        .spawn()?;
    // Reading does not wait.
    done!("get", &path, "k1");
    wait_for_client(&path);
    thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait()?.is_none(), "it did not wait");
    txn.commit()?;
    Ran::from(child.wait_with_output()?).expect(0);
    assert_eq!(database.snapshot()?.get("later")?, None);
    drop(database);
    let options = OpenOptions::new().serve(true);
    in_one_of_five_tries(|_| {
        let database = Database::open(&path, &options)?;
        // This thread writes. If it waited for the request, the two would wait for each other.
        let txn = database.begin_write()?;
        let child = program!("delete", &path, "k1").piped()?;
        wait_for_client(&path);
        thread::sleep(Duration::from_millis(500));
        let begun = Instant::now();
        drop(database);
        let took = begun.elapsed();
        drop(txn);
        Ran::from(within(LIMIT, move || child.wait_with_output())?).expect(2);
        wait_until("the end of the request", || {
            Database::open(&path, &options).is_ok()
        });
        let database = Database::open(&path, &options)?;
        assert!(
            database.snapshot()?.get("k1")?.is_some(),
            "nobody wanted the request any more"
        );
        let is_soon = took < Duration::from_secs(3);
        Ok((!is_soon).then(|| format!("it took {took:?} to drop the database")))
    })
}

#[test]
fn of_processes_that_race_for_a_database_one_answers_for_the_others() -> TestResult {
    (0..5).try_for_each(|_| race_for_a_database())
}

fn race_for_a_database() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let spawn = || -> std::io::Result<Child> {
        program!("ingest --input-format fingerprints", &path, "-").piped()
    };
    drop(folder.database("d.simdb")?);
    let mut children = (0..4).map(|_| spawn()).collect::<Result<Vec<_>, _>>()?;
    for _ in 0..5 {
        done!("stats", &path);
    }
    for (number, child) in children.iter_mut().enumerate() {
        let mut input = child.stdin.take().ok_or("standard input is a pipe")?;
        writeln!(input, "{number}\t{:016x}", number << 20)?;
    }
    for child in children {
        Ran::from(child.wait_with_output()?).expect(0);
    }
    for number in ["0", "1", "2", "3"] {
        assert!(has(&path, number)?, "document {number}");
    }
    assert_eq!(folder.count()?, 1);
    Ok(())
}

/// A command that came when the process that answers was about to end was told to try again.
#[test]
fn a_command_that_comes_too_late_opens_the_database_or_asks_the_next() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    drop(answering(&folder, "d.simdb")?);
    let is_done = AtomicBool::new(false);
    let opened = thread::scope(|scope| -> TestResult<u64> {
        let owner = scope.spawn(|| {
            let mut opened = 0;
            while !is_done.load(Ordering::Relaxed) {
                // A command may have it open.
                if let Ok(database) = Database::open(&path, &OpenOptions::new()) {
                    let server = database.serve().expect("nobody else serves it");
                    opened += 1;
                    // It mostly answers, also on a busy machine.
                    thread::sleep(Duration::from_millis(20 + opened % 8));
                    server.close_when_answered();
                }
            }
            opened
        });
        let commands = catch_unwind(AssertUnwindSafe(|| {
            (0..40).try_for_each(|number| -> TestResult {
                let (key, fingerprint) = (format!("n{number}"), u64::MAX >> number);
                let line = format!("{key}\t{fingerprint:016x}\n");
                let format = ["--input-format", "fingerprints"];
                let mut ingest = simdb();
                let ingest = ingest.arg("ingest").args(format).arg(&path).arg("-");
                run_with_input(ingest, line.as_bytes())?
                    .expect(0)
                    .prints("1 inserted");
                let mut query = simdb();
                let query = query.arg("query").args(format).args(["--input", "-"]);
                let found = run_with_input(query.arg(&path), line.as_bytes())?.expect(0);
                assert_eq!(found.out, format!("{key} is near {key} (distance 0)\n"));
                done!("delete", &path, &key);
                Ok(())
            })
        }));
        is_done.store(true, Ordering::Relaxed);
        let opened = owner.join().expect("it does not panic");
        commands.unwrap_or_else(|panic| resume_unwind(panic))?;
        Ok(opened)
    })?;
    assert!(opened > 20, "{opened}");
    Ok(())
}

/// A deletion that waited for the last batch was told that the process had ended.
#[test]
fn an_ingestion_that_ends_answers_those_who_wait() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    drop(folder.database("d.simdb")?);
    let mut ingest = program!("ingest", &path, "- --input-format fingerprints");
    let mut ingest = ingest
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = ingest.stdin.take().ok_or("no standard input")?;
    stdin.write_all(b"a\t0000000000000007\n")?;
    // The batch waits a second for more, and has the right to write meanwhile.
    wait_until("the ingestion", || socket_of(&path).exists());
    thread::sleep(Duration::from_millis(200));
    let mut delete = program!("delete", &path, "nothing");
    let delete = delete.piped()?;
    wait_for_client(&path);
    // The request is taken up meanwhile. One that was not is told that the process has ended.
    thread::sleep(Duration::from_millis(200));
    drop(stdin);
    let deleted = Ran::from(delete.wait_with_output()?);
    Ran::from(ingest.wait_with_output()?).expect(0);
    deleted.expect(1).says("nothing: no such key");
    Ok(())
}

/// Once the lines went to nobody, and the documents were deleted.
#[test]
fn what_a_killed_client_has_not_printed_is_not_deleted() -> TestResult {
    let folder = Folder::new()?;
    let database = answering(&folder, "d.simdb")?;
    insert_all(
        &database,
        (0..25_000).map(|i| document(format!("one of many copies {i}"), u64::MAX)),
    )?;
    let path = folder.path("d.simdb");
    let before = database.snapshot()?.stats()?.documents;
    let mut client = program!("delete --duplicates --max-distance 0", &path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let mut output = BufReader::new(client.stdout.take().ok_or("standard output is a pipe")?);
    let (mut line, mut printed) = (String::new(), 0);
    for _ in 0..12_000 {
        line.clear();
        printed += u64::from(output.read_line(&mut line)? > 0);
    }
    // It cannot write more, since nobody reads on.
    thread::sleep(Duration::from_millis(300));
    client.kill()?;
    client.wait()?;
    printed += output.lines().count() as u64;
    wait_until("the end of the work", || database.begin_write().is_ok());
    let deleted = before - database.snapshot()?.stats()?.documents;
    assert!(
        deleted > 0 && deleted <= printed && printed < 24_999,
        "{deleted} deleted, {printed} printed"
    );
    // The same command deletes the rest.
    let ran = done!("delete", &path, "--duplicates --max-distance 0");
    assert_eq!(ran.out.lines().count() as u64, 24_999 - deleted);
    Ok(())
}

/// Dates were read in the zone of the process that has the database open: what an expiry deleted depended on who had
/// it.
#[test]
fn dates_are_those_of_who_asks() -> TestResult {
    let folder = Folder::new()?;
    let database = answering(&folder, "d.simdb")?;
    let hours_of_the_day = (0..24).map(|hour| {
        document(format!("seen at {hour}"), u64::MAX).with_seen(1_580_428_800 + hour * 3_600)
    });
    insert_all(&database, hours_of_the_day)?;
    let path = folder.path("d.simdb");
    let ask = |zone: &str| -> TestResult<_> {
        let query = [
            "query",
            "--fingerprint",
            "ffffffffffffffff",
            "--limit",
            "30",
        ];
        let since = ["--max-distance", "0", "--since", "2020-01-31T12:00"];
        let answer = program!(..query, ..since, &path).env("TZ", zone).output()?;
        let newest = program!("stats", &path).env("TZ", zone).output()?;
        let newest = String::from_utf8(newest.stdout)?;
        let newest = newest.lines().find(|line| line.contains("2020-"));
        let newest = newest.map(|line| line.split(" (").next().unwrap_or(line).to_owned());
        Ok((String::from_utf8(answer.stdout)?, newest))
    };
    let zones = [
        ("Pacific/Kiritimati", 24),
        ("Asia/Tokyo", 21),
        ("UTC", 12),
        ("<-05>5", 7),
        ("Pacific/Pago_Pago", 1),
    ];
    let mut live = Vec::new();
    for (zone, later) in zones {
        let answer = ask(zone)?;
        assert_eq!(answer.0.lines().count(), later, "{zone}");
        live.push(answer);
    }
    drop(database);
    for ((zone, _), live) in zones.into_iter().zip(live) {
        assert_eq!(ask(zone)?, live, "{zone}");
    }
    Ok(())
}

/// The work ended where it was, with the exit code 0.
#[test]
fn a_command_whose_output_nobody_reads_does_what_it_does_at_a_closed_database() -> TestResult {
    let folder = Folder::new()?;
    let lines = |kind: &str| -> String {
        let fingerprint = |i: u64| spread(i / 2 + 1);
        (0..6_000)
            .map(|i| format!("{kind} {i}\t{:016x}\n", fingerprint(i)))
            .collect()
    };
    fs::write(folder.path("pages.tsv"), lines("page"))?;
    fs::write(folder.path("others.tsv"), lines("other"))?;
    let unread = |command: &str| -> TestResult<Option<i32>> {
        let mut child = folder
            .command(command)
            .stdin(fs::File::open(folder.path("others.tsv"))?)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        drop(child.stdout.take());
        Ok(child.wait()?.code())
    };
    let commands = [
        "ingest d.simdb pages.tsv --input-format fingerprints --batch 100",
        "delete d.simdb k3 nobody",
        "get d.simdb nobody",
        "ingest d.simdb - --input-format fingerprints --batch 100",
        "delete d.simdb --duplicates --max-distance 0",
    ];
    let mut left = Vec::new();
    for is_live in [true, false] {
        let mut database = Some(answering(&folder, "d.simdb")?);
        if !is_live {
            drop(database.take());
        }
        let mut codes = Vec::new();
        for command in commands {
            codes.push(unread(command)?);
        }
        drop(database);
        let ran = done!("dump", folder.path("d.simdb"));
        let kept = ran
            .out
            .lines()
            .filter(|line| line.contains("fingerprint"))
            .count();
        left.push((codes, kept));
        fs::remove_file(folder.path("d.simdb"))?;
    }
    assert_eq!(left[0], left[1]);
    Ok(())
}

/// A process that is stopped lets nobody in. Who asked waited for ever once the queue of its socket was full.
#[test]
#[cfg(target_os = "linux")]
fn a_socket_without_room_is_told() -> TestResult {
    let folder = Folder::new()?;
    let database = answering(&folder, "d.simdb")?;
    let path = folder.path("d.simdb");
    // In place of the socket of this process, one that has no room.
    fs::remove_file(socket_of(&path))?;
    let listener = UnixListener::bind(socket_of(&path))?;
    rustix::net::listen(&listener, 1)?;
    let connect = || UnixStream::connect(socket_of(&path));
    let waiting = [connect()?, connect()?];
    let asks = path.clone();
    let ran = within(LIMIT, move || program!("get", asks, "k3").output());
    Ran::from(ran?).refused("does not answer; it may be stopped");
    let options = simdb::ClientOptions::new().timeout(Duration::from_millis(300));
    let refused = simdb::Client::connect(&path, &options).map(drop);
    assert!(refused.is_err_and(|it| it.to_string().contains("no room")));
    drop((waiting, database));
    Ok(())
}
