//! Many processes at one database: one has it open and serves, and the others are its clients. What fails on either
//! side, and what the other sees of it, as the table in the guide says.
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use simdb::{
    Change, Client, ClientOptions, CreateOptions, Database, Document, Error, ErrorKind, Expiry,
    Fingerprint, Near, OnMatch, OpenOptions, Policy, Sketch, SketchSize,
};

use crate::support::random::{Random, amount, seed_or};
use crate::support::{
    Folder, LIMIT, Ran, TestResult, assert_error, assert_sound, document, done, external, go_on,
    insert_all, query_of, run, run_with_input, simdb, spread, wait_until, within,
};

/// So long clients wait in vain in a test that is about waiting in vain.
const SHORT: Duration = Duration::from_millis(300);

fn patient() -> ClientOptions {
    ClientOptions::new().timeout(LIMIT)
}

/// A process that serves a database.
struct Owner {
    child: Child,
}

impl Owner {
    /// Starts one, and waits until it serves.
    fn start(database: &Path, options: &[&str]) -> TestResult<Self> {
        Self::start_by(simdb(), database, options)
    }

    fn start_by(mut command: Command, database: &Path, options: &[&str]) -> TestResult<Self> {
        command.arg("serve").arg(database).args(options);
        command.args(["--scheme", "external"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn()?;
        let owner = Self { child };
        wait_until("somebody who serves", || serves(database));
        Ok(owner)
    }

    /// Stops it. The signal alone returns before all its threads stand still, and one of them may yet answer.
    #[expect(unsafe_code, reason = "the tests are about processes that are stopped")]
    fn pause(&self) -> TestResult {
        send_signal(self.child.id(), libc::SIGSTOP)?;
        let mut stopped = MaybeUninit::uninit();
        // SAFETY: the memory has room for what the system tells of a child of this process.
        match unsafe {
            libc::waitid(
                libc::P_PID,
                self.child.id(),
                stopped.as_mut_ptr(),
                libc::WSTOPPED,
            )
        } {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error().into()),
        }
    }

    fn resume(&self) -> TestResult {
        send_signal(self.child.id(), libc::SIGCONT)
    }

    /// Ends it in order, and returns whether it ended well.
    fn end(mut self) -> TestResult<bool> {
        send_signal(self.child.id(), libc::SIGTERM)?;
        Ok(self.child.wait()?.success())
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[expect(unsafe_code, reason = "the tests are about processes that are stopped")]
fn send_signal(process: u32, signal: libc::c_int) -> TestResult {
    // SAFETY: it asks the system to send a signal to a child of this process.
    match unsafe { libc::kill(process.cast_signed(), signal) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

fn socket_of(database: &Path) -> PathBuf {
    let mut path = fs::canonicalize(database)
        .unwrap_or_else(|_| database.to_owned())
        .into_os_string();
    path.push(".sock");
    path.into()
}

fn serves(database: &Path) -> bool {
    UnixStream::connect(socket_of(database)).is_ok()
}

/// Sends bytes, and returns all that is answered until the other end has no more to say.
fn say(database: &Path, bytes: &[u8]) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(socket_of(database))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(bytes)?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// A request in RESP.
fn request(words: &[&str]) -> String {
    let mut text = format!("*{}\r\n", words.len());
    for word in words {
        text += &format!("${}\r\n{word}\r\n", word.len());
    }
    text
}

fn key(number: u64) -> String {
    format!("document {number}")
}

/// Fingerprints that are far from each other.
fn far(number: u64) -> u64 {
    spread(number + 1)
}

fn new(number: u64) -> Document {
    document(key(number), far(number))
}

/// A database that this process serves, and a client of it.
fn served(folder: &Folder) -> simdb::Result<(Database, Client)> {
    let database = Database::create(folder.path("d.simdb"), &external().serve(true))?;
    let client = Client::connect(database.path(), &patient())?;
    Ok((database, client))
}

/// Options of a client that stops when it is told to.
fn stopping() -> (ClientOptions, Arc<AtomicBool>) {
    let stops = Arc::new(AtomicBool::new(false));
    let asked = stops.clone();
    let options = patient().stop_when(move || asked.load(Ordering::Relaxed));
    (options, stops)
}

#[test]
fn a_client_gives_the_answers_of_the_database() -> TestResult {
    let folder = Folder::new()?;
    let options = external().sketch_size(SketchSize::Bytes16).max_distance(7);
    let served = Database::create(folder.path("served.simdb"), &options.clone().serve(true))?;
    let alone = Database::create(folder.path("alone.simdb"), &options)?;
    let client = Client::connect(folder.path("served.simdb"), &patient())?;
    assert_eq!(
        (client.scheme(), client.max_distance(), client.sketch_size()),
        (alone.scheme(), alone.max_distance(), alone.sketch_size())
    );
    assert_eq!(client.min_similarity(), alone.min_similarity());

    let mut random = Random::new(seed_or(42));
    let mut numbers = |below: u64| random.below(below);
    for step in 0..300u64 {
        let bits = far(numbers(12)) ^ (1 << numbers(64)) ^ (1 << numbers(64));
        let sketch = Sketch::new(&[numbers(256) as u8; 16], 1 + numbers(90) as u32)?;
        let judged = (numbers(9) > 0).then(|| Fingerprint::from_bits(bits));
        let document = Document::new(key(numbers(60)), judged)
            .with_sketch(judged.map(|_| sketch))
            .with_seen(numbers(100) as i64)
            .with_repeats(numbers(3).pow(numbers(20) as u32))
            .with_rank([numbers(3) as i64])
            .with_scope(["", "a", "die Straße"][numbers(3) as usize])
            .with_payload([0, 13, 10, 255]);
        let action = [OnMatch::Link, OnMatch::Skip, OnMatch::Replace][numbers(3) as usize];
        let near = match numbers(3) {
            0 => Near::new(),
            1 => Near::within(9).min_similarity(0.0).since(30),
            _ => Near::within(12).min_similarity(0.5).scopes(["a", ""]),
        };
        let policy = Policy::new(action)
            .near(near.clone())
            .limit(3)
            .keep(1 + numbers(3) as usize)
            .touch(step % 5 == 0);
        let mut txn = alone.begin_write()?;
        let expected = txn.insert_if_new(&document, &policy)?;
        txn.commit()?;
        assert_eq!(
            client.insert_if_new(&document, &policy)?,
            expected,
            "step {step}"
        );

        let query = query_of(bits).near(near).limit(2);
        let query = query.with_sketch(sketch);
        assert_eq!(client.query(&query)?, alone.snapshot()?.query(&query)?);
        let nearest = query.nearest(step as usize % 9);
        assert_eq!(client.query(&nearest)?, alone.snapshot()?.query(&nearest)?);
        let gone = key(numbers(60));
        if step % 7 == 0 {
            let mut txn = alone.begin_write()?;
            assert_eq!(client.delete(&*gone)?, txn.delete(&gone)?);
            txn.commit()?;
        }
        assert_eq!(client.get(&gone)?, alone.snapshot()?.get(&gone)?);
    }
    let expiry = Expiry::new().before(50).scopes(["a"]);
    let expected = alone.expire(&expiry, |_| std::ops::ControlFlow::Continue(()))?;
    assert_eq!(client.expire(&expiry)?, expected);
    assert_eq!(client.expire(&Expiry::new())?, 0);
    client.flush()?;
    client.close()?;
    assert_error!(client.get("x") => Error::Closed);
    assert_sound(&served)?;
    Ok(())
}

#[test]
fn errors_of_the_owner_have_their_kind_and_concern_one_document() -> TestResult {
    let folder = Folder::new()?;
    let (database, client) = served(&folder)?;
    let long = document("k", 1).with_scope("x".repeat(300));
    let tickets = [
        client.submit(&document("a", 1), &Policy::link())?,
        client.submit(&long, &Policy::link())?,
        client.submit(&document("b", 2), &Policy::link().near(65))?,
        client.submit(&document("c", 3), &Policy::link())?,
        client.submit(&document("d", 4), &Policy::skip().keep(0))?,
    ];
    let answers = tickets.map(|ticket| ticket.wait().map_err(|error| error.kind()));
    assert!(answers[0].is_ok() && answers[3].is_ok());
    let refused = [&answers[1], &answers[2], &answers[4]];
    assert!(
        refused
            .into_iter()
            .all(|answer| *answer == Err(ErrorKind::Input))
    );
    let verified = Policy::skip().verify(|_, _| Ok(true));
    assert_error!(client.submit(&document("d", 4), &verified) => Error::NotSendable);
    assert_error!(client.get("") => Error::KeyLength { .. });
    assert_eq!(database.snapshot()?.stats()?.documents, 2);
    Ok(())
}

/// The owner ended the connection at such a request. It was sent again and again, until everything that this client had
/// submitted was told to be not answered, since the owner had ended six times.
#[test]
fn what_is_too_long_to_be_sent_fails_alone() -> TestResult {
    let folder = Folder::new()?;
    let (_database, client) = served(&folder)?;
    let before = client.submit(&document("a", 1), &Policy::link())?;
    let long = [
        document("long payload", 1).with_payload(vec![7; 2 << 20]),
        document("k".repeat(2 << 20), 1),
        document("long scope", 1).with_scope("x".repeat(2 << 20)),
    ];
    for verdict in client.insert_each_if_new(&long, &Policy::link())? {
        let refused = verdict.map_err(|error| error.kind());
        assert_eq!(refused, Err(ErrorKind::Input));
    }
    // Too many names, and too many bytes.
    for scopes in [vec!["x".to_owned(); 1 << 16], vec!["x".repeat(255); 5_000]] {
        let scopes = scopes
            .iter()
            .enumerate()
            .map(|(i, scope)| format!("{scope}{i}"));
        let scopes: Vec<String> = scopes.collect();
        let near = Near::new().scopes(&scopes);
        let refused = [
            client.expire(&Expiry::new().scopes(&scopes)).map(drop),
            client.query(&query_of(1).near(near.clone())).map(drop),
            client
                .insert_if_new(&document("b", 1), &Policy::link().near(near))
                .map(drop),
        ];
        for refused in refused {
            assert_error!(refused => Error::RequestLength { .. });
        }
    }
    assert!(!before.wait()?.is_duplicate());
    assert!(
        client
            .insert_if_new(&document("c", 1), &Policy::link())?
            .is_duplicate()
    );
    Ok(())
}

/// The client took the answer for one that is not simdb's, and everything else that was asked for failed with it.
#[test]
fn an_answer_that_is_too_long_to_be_sent_fails_alone() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &external().serve(true))?;
    let mut txn = database.begin_write()?;
    for i in 0..1_200 {
        let payload = vec![i as u8; Document::MAX_PAYLOAD_BYTES];
        txn.insert(&document(format!("long {i}"), 1).with_payload(payload))?;
    }
    txn.commit()?;
    let client = Client::connect(database.path(), &patient())?;
    let link = |most| Policy::link().limit(most);
    let before = client.submit(&document("a", far(1)), &link(10))?;
    let long = client.submit(&document("b", 1), &link(2_000))?;
    let ask = |most| client.query(&query_of(1).limit(most));
    for refused in [long.wait().map(drop), ask(2_000).map(drop)] {
        let refused = refused.expect_err("the answer is too long");
        assert_eq!(refused.kind(), ErrorKind::Input);
        assert!(refused.to_string().contains("fewer matches"), "{refused}");
    }
    assert!(!before.wait()?.is_duplicate());
    assert_eq!((ask(7)?.as_slice().len(), ask(7)?.total()), (7, 1_201));
    Ok(())
}

#[test]
fn of_two_near_twins_in_eight_processes_exactly_one_is_new() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &external().serve(true))?;
    const TWINS: u64 = 200;
    let new: u64 = thread::scope(|scope| {
        let clients: Vec<_> = (0..8u64)
            .map(|process| {
                let path = database.path();
                scope.spawn(move || -> simdb::Result<u64> {
                    let client = Client::connect(path, &patient())?;
                    let mut new = 0;
                    for twin in 0..TWINS {
                        for copy in 0..2 {
                            let bits = far(twin) ^ 1 << (process * 2 + copy);
                            let named = format!("{process} {copy} {twin}");
                            let document = document(named, bits);
                            let verdict = client.insert_if_new(&document, &Policy::skip())?;
                            new += u64::from(!verdict.is_duplicate());
                        }
                    }
                    Ok(new)
                })
            })
            .collect();
        let counts = clients.into_iter().map(thread::ScopedJoinHandle::join);
        counts
            .map(|count| count.expect("no client panics"))
            .sum::<simdb::Result<u64>>()
    })?;
    assert_eq!(new, TWINS);
    assert_eq!(database.snapshot()?.stats()?.documents, TWINS);
    Ok(())
}

/// What a client knows of a document that it has submitted.
fn stored_by(client: &Client, numbers: std::ops::Range<u64>) -> simdb::Result<Vec<u64>> {
    let mut stored = Vec::new();
    for number in numbers {
        let verdict = client.insert_if_new(&new(number), &Policy::skip())?;
        assert!(!verdict.is_duplicate(), "document {number}: {verdict:?}");
        stored.push(number);
    }
    Ok(stored)
}

#[test]
fn an_owner_that_is_killed_again_and_again_loses_nothing_that_was_answered() -> TestResult {
    const CLIENTS: u64 = 4;
    const EACH: u64 = 100_000;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let mut owner = Owner::start(&path, &[])?;
    let kills = amount("SIMDB_OWNER_KILLS", 6, 200);
    let ends = AtomicBool::new(false);
    let mut random = Random::new(seed_or(7));
    let answered = thread::scope(|scope| -> TestResult<Vec<u64>> {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|process| {
                let (path, ends) = (&path, &ends);
                scope.spawn(move || -> simdb::Result<Vec<u64>> {
                    let client = Client::connect(path, &patient())?;
                    let mut answered = Vec::new();
                    let mut next = process * EACH;
                    while !ends.load(Ordering::Relaxed) {
                        answered.extend(stored_by(&client, next..next + 1)?);
                        // Some wait for one, some for many.
                        let many = 20 * (process % 2);
                        let documents = (next + 1..next + 1 + many).map(new);
                        let documents: Vec<Document> = documents.collect();
                        let verdicts = client.insert_each_if_new(&documents, &Policy::skip())?;
                        for (number, verdict) in (next + 1..).zip(verdicts) {
                            let verdict = verdict?;
                            assert!(!verdict.is_duplicate(), "document {number}: {verdict:?}");
                            answered.push(number);
                        }
                        next += 1 + many;
                    }
                    Ok(answered)
                })
            })
            .collect();
        for _ in 0..kills {
            thread::sleep(Duration::from_millis(50 + random.below(250)));
            owner.child.kill()?;
            owner.child.wait()?;
            owner = Owner::start(&path, &[])?;
        }
        thread::sleep(Duration::from_millis(100));
        ends.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for client in clients {
            all.extend(client.join().expect("no client panics")?);
        }
        Ok(all)
    })?;
    assert!(owner.end()?);
    let database = Database::open(&path, &OpenOptions::new())?;
    assert_sound(&database)?;
    let snapshot = database.snapshot()?;
    for number in &answered {
        assert!(snapshot.get(key(*number))?.is_some(), "document {number}");
    }
    // Nothing is there twice, and nothing that was not submitted.
    let documents = snapshot.stats()?.documents;
    assert!(documents >= answered.len() as u64);
    assert!(documents <= answered.len() as u64 + CLIENTS * 21);
    Ok(())
}

#[test]
fn clients_start_an_owner_that_ends_when_nobody_is_connected() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let program = simdb().get_program().to_owned();
    let words: [std::ffi::OsString; 6] = [
        program,
        "serve".into(),
        "--until-idle".into(),
        "0.5s".into(),
        "--scheme".into(),
        "external".into(),
    ];
    let options = patient().start(words);
    let clients = thread::scope(|scope| {
        let clients = [1, 2, 3, 4].map(|number| {
            let (path, options) = (&path, &options);
            scope.spawn(move || -> simdb::Result<Client> {
                let client = Client::connect(path, options)?;
                client.insert_if_new(&new(number), &Policy::skip())?;
                Ok(client)
            })
        });
        let clients = clients.into_iter().map(thread::ScopedJoinHandle::join);
        clients
            .map(|client| client.expect("no client panics"))
            .collect::<simdb::Result<Vec<_>>>()
    })?;
    for number in 1..=4 {
        assert!(clients[0].get(key(number))?.is_some(), "document {number}");
    }
    assert!(serves(&path));
    drop(clients);
    wait_until("the end of the owner", || !socket_of(&path).exists());
    // It has closed the file in order, and another is started when one is needed.
    let client = within(LIMIT, {
        let (path, options) = (path.clone(), options.clone());
        move || Client::connect(path, &options)
    })?;
    assert!(client.get(key(3))?.is_some());
    Ok(())
}

/// Whoever waited for the end of a pipe of the client waited for the owner that it had started. And an owner that had
/// ended stayed a zombie as long as the process of the client, if that had been dropped before.
#[test]
fn an_owner_that_is_started_inherits_nothing_and_leaves_nothing() -> TestResult {
    use std::os::fd::AsRawFd as _;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let (mut here, there) = UnixStream::pair()?;
    here.set_read_timeout(Some(LIMIT))?;
    rustix::io::fcntl_setfd(&there, rustix::io::FdFlags::empty())?;
    let program = simdb().get_program().to_owned();
    let options = patient().start([program, "serve".into(), "--until-idle".into(), "60".into()]);
    let client = Client::connect(&path, &options)?;
    drop(there);
    assert_eq!(here.read(&mut [0])?, 0, "descriptor {}", here.as_raw_fd());
    assert!(serves(&path));
    let said = say(&path, request(&["SIM.INFO"]).as_bytes())?;
    let number = said
        .split("process\r\n:")
        .nth(1)
        .and_then(|rest| rest.split('\r').next());
    let number: i32 = number.ok_or("no number of a process")?.parse()?;
    drop(client);
    send_signal(number.cast_unsigned(), libc::SIGTERM)?;
    let owner = rustix::process::Pid::from_raw(number).ok_or("no process")?;
    wait_until("the owner is gone", || {
        rustix::process::test_kill_process(owner).is_err()
    });
    Ok(())
}

#[test]
fn nobody_who_serves_is_an_error_that_says_what_to_do() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let impatient = ClientOptions::new().timeout(SHORT);
    let refused = |options: &ClientOptions| {
        let refused = Client::connect(&path, options).expect_err("nobody serves");
        assert_eq!(refused.kind(), ErrorKind::NotServed);
        refused.to_string()
    };
    assert!(refused(&impatient).contains("simdb serve"));
    let database = Database::create(&path, &external())?;
    assert!(refused(&impatient).contains("simdb serve"));
    // What is started says why it cannot.
    let program = simdb().get_program().to_owned();
    let starting = ClientOptions::new()
        .timeout(LIMIT / 20)
        .start([program, "serve".into()]);
    let said = refused(&starting);
    assert!(said.contains("in use"), "{said}");

    let server = database.serve()?;
    let client = Client::connect(&path, &impatient)?;
    client.insert_if_new(&document("a", 1), &Policy::skip())?;
    drop(server);
    let ticket = client.submit(&document("b", far(2)), &Policy::skip())?;
    let unanswered = ticket.wait().expect_err("nobody serves");
    assert_eq!(unanswered.kind(), ErrorKind::NotServed);
    // Who waits only for a while does so, however long the client looks for somebody.
    let server = database.serve()?;
    let patient = Client::connect(&path, &ClientOptions::new().timeout(LIMIT))?;
    drop(server);
    let begun = Instant::now();
    let sent = patient.submit(&document("c", far(3)), &Policy::skip())?;
    let Err(sent) = sent.wait_for(SHORT) else {
        return Err("nobody can have answered".into());
    };
    assert!(begun.elapsed() < LIMIT / 4, "{:?}", begun.elapsed());
    // The client goes on when somebody does again.
    let _server = database.serve()?;
    client.insert_if_new(&document("b", far(2)), &Policy::skip())?;
    assert!(!sent.wait()?.is_duplicate());
    assert_eq!(database.snapshot()?.stats()?.documents, 3);
    Ok(())
}

/// Once a client knew only what is wrong with any document, so others of a batch were stored beside one that this
/// database refuses.
#[test]
fn a_client_knows_which_documents_can_be_stored() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &CreateOptions::new().serve(true))?;
    let client = Client::connect(&path, &patient())?;
    let sketch = |bytes: usize| Sketch::new(&vec![7; bytes], 12).ok();
    let documents = [
        document("a", 1),
        document("a", 1).with_sketch(sketch(16)),
        document("a", 1).with_sketch(sketch(32)),
        document("", 1).with_sketch(sketch(16)),
        Document::new("a", None),
    ];
    let told = |result: simdb::Result<()>| result.map_err(|error| error.to_string());
    let accepted = documents.map(|document| {
        assert_eq!(
            told(client.validate(&document)),
            told(database.validate(&document))
        );
        client.validate(&document).is_ok()
    });
    assert_eq!(accepted, [false, true, false, false, true]);
    Ok(())
}

/// Once the end of such a wait could not be computed, and that was a panic.
#[test]
fn a_client_may_wait_without_a_limit() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &external())?;
    let endless = ClientOptions::new().timeout(Duration::MAX);
    let server = database.serve()?;
    let client = Client::connect(&path, &endless)?;
    client.insert_if_new(&document("a", far(1)), &Policy::skip())?;
    drop(server);
    let ticket = client.submit(&document("b", far(2)), &Policy::skip())?;
    let Err(ticket) = ticket.wait_for(SHORT) else {
        return Err("nobody can have answered".into());
    };
    let server = database.serve()?;
    assert!(
        !ticket
            .wait_for(Duration::MAX)
            .map_err(|_| "no answer")??
            .is_duplicate()
    );
    server.close_within(Duration::MAX);
    Ok(())
}

#[test]
fn an_owner_that_is_stopped_is_told_apart_from_one_that_works_for_long() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let client = Client::connect(&path, &ClientOptions::new().timeout(SHORT))?;
    client.insert_if_new(&document("a", 1), &Policy::skip())?;
    owner.pause()?;
    let stopped = client.insert_if_new(&document("b", far(2)), &Policy::skip());
    owner.resume()?;
    let stopped = stopped.expect_err("nobody answers");
    assert!(stopped.to_string().contains("may be stopped"), "{stopped}");
    client.insert_if_new(&document("b", far(2)), &Policy::skip())?;
    assert!(owner.end()?);

    // A transaction keeps the owner from deciding for much longer than the client waits in vain.
    let database = Database::open(&path, &OpenOptions::new().serve(true))?;
    let client = Client::connect(&path, &ClientOptions::new().timeout(SHORT))?;
    let txn = database.begin_write()?;
    let waits =
        thread::spawn(move || client.insert_if_new(&document("c", far(3)), &Policy::skip()));
    thread::sleep(SHORT * 6);
    drop(txn);
    assert!(!waits.join().expect("it does not panic")?.is_duplicate());
    Ok(())
}

#[test]
fn clients_that_say_nonsense_or_go_away_harm_nobody() -> TestResult {
    let folder = Folder::new()?;
    let (database, client) = served(&folder)?;
    let path = database.path();
    let fingerprint = "00000000000000ff";
    let refused = [
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "-ERR Protocol error"),
        (
            "*1\r\n$1000000000\r\n".to_owned(),
            "-ERR Protocol error: a length of 1000000000",
        ),
        ("*99999999\r\n".to_owned(), "-ERR Protocol error"),
        ("*2\r\n$3\r\nSIM".to_owned(), ""),
        (
            request(&["SIM.ADD", "half", fingerprint])[..30].to_owned(),
            "",
        ),
        (request(&["SET", "a", "b"]), "-ERR unknown command 'SET'"),
        (request(&["SIM.ADD"]), "-ERR the key is missing"),
        (request(&["SIM.ADD", "a", "xyz"]), "-INPUT"),
        (
            request(&["SIM.ADD", "a", fingerprint, "RANK", "999999999", "1"]),
            "-ERR",
        ),
        (request(&["SIM.GET", ""]), "-INPUT"),
        ("\0\u{1}".to_owned(), "-ERR Protocol error"),
    ];
    for (said, expected) in refused {
        let answer = say(path, said.as_bytes())?;
        assert!(answer.starts_with(expected), "{said:?}: {answer:?}");
        assert!(
            expected.is_empty() == answer.is_empty(),
            "{said:?}: {answer:?}"
        );
    }
    // It never reads. Others are answered meanwhile.
    let mut deaf = UnixStream::connect(socket_of(path))?;
    deaf.set_nonblocking(true)?;
    let many = request(&["PING", &"x".repeat(60_000)]).repeat(20);
    while deaf.write(many.as_bytes()).is_ok() {}
    assert!(client.get("half")?.is_none());
    Ok(())
}

#[test]
fn answers_that_are_not_read_yet_do_not_stop_a_client_that_sends() -> TestResult {
    let folder = Folder::new()?;
    let (_database, client) = served(&folder)?;
    // 100,000 answers are much more than a socket holds.
    let documents: Vec<Document> = (0..2_000)
        .map(|number| new(number).with_payload(vec![7; 2_000]))
        .collect();
    let stored = within(LIMIT, {
        let (client, documents) = (client.clone(), documents.clone());
        move || client.insert_each_if_new(&documents, &Policy::link())
    })?;
    assert!(stored.iter().all(Result::is_ok));
    let tickets: Result<Vec<_>, _> = documents
        .iter()
        .cycle()
        .take(30_000)
        .map(|document| client.submit(document, &Policy::link()))
        .collect();
    for ticket in tickets? {
        assert!(matches!(ticket.wait()?.change(), Change::Replaced(_)));
    }
    Ok(())
}

/// The verdict that a client waits for alone is sent by the thread of the writer.
#[test]
fn a_verdict_comes_whole_and_in_its_place_whatever_the_client_does_meanwhile() -> TestResult {
    const BYTES: usize = 10_000;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let (database, client) = served(&folder)?;
    let large: Vec<Document> = (0..200)
        .map(|number| document(key(number), 7).with_payload(vec![b'p'; BYTES]))
        .collect();
    for stored in client.insert_each_if_new(&large, &Policy::link())? {
        stored?;
    }
    let add = |name: &str| request(&["SIM.ADD", name, "0000000000000007", "LIMIT", "200"]);
    let few = |name: &str| request(&["SIM.ADD", name, "0000000000000007", "LIMIT", "1"]);
    let ends_with = |text: &[u8], end: &str| text.ends_with(end.as_bytes());

    // It is more than a socket holds, and the client does not read yet.
    let mut stream = UnixStream::connect(socket_of(&path))?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(add("large").as_bytes())?;
    thread::sleep(SHORT);
    stream.write_all(request(&["PING"]).as_bytes())?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    while !ends_with(&answer, "+PONG\r\n") {
        let read = stream.read(&mut buffer)?;
        assert!(read > 0, "the end after {} bytes", answer.len());
        answer.extend_from_slice(&buffer[..read]);
    }
    let payload = format!("${BYTES}\r\n{}\r\n", "p".repeat(BYTES));
    let text = String::from_utf8_lossy(&answer);
    assert_eq!(text.matches(&payload).count(), 200);

    // It sends more before the answer comes, at once or in pieces, and nothing after that.
    for pieces in [
        vec![few("a") + &few("b")],
        vec![few("a"), few("b")],
        vec![few("a"), request(&["PING"]), few("b"), "nonsense".into()],
        few("a")
            .bytes()
            .map(|byte| char::from(byte).to_string())
            .collect(),
    ] {
        let mut stream = UnixStream::connect(socket_of(&path))?;
        stream.set_read_timeout(Some(LIMIT))?;
        for piece in &pieces {
            stream.write_all(piece.as_bytes())?;
        }
        stream.shutdown(std::net::Shutdown::Write)?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let asked = pieces.concat();
        let verdicts = asked.matches("SIM.ADD").count();
        assert_eq!(
            answer.matches("$7\r\nskipped\r\n").count(),
            verdicts,
            "{asked}"
        );
        assert_eq!(
            answer.matches("+PONG").count(),
            asked.matches("PING").count()
        );
        let is_refused = asked.contains("nonsense");
        assert_eq!(
            answer.matches("-ERR Protocol error").count(),
            usize::from(is_refused)
        );
    }

    // It goes away before the answer comes.
    for number in 0..20 {
        let mut stream = UnixStream::connect(socket_of(&path))?;
        let name = format!("left {number}");
        stream.write_all(request(&["SIM.ADD", &name, "-"]).as_bytes())?;
        drop(stream);
        wait_until("what was asked for", || {
            client.get(&name).is_ok_and(|found| found.is_some())
        });
    }
    Ok(assert_sound(&database)?)
}

/// Once the rest was left undone as soon as an answer could not be sent.
#[test]
fn what_a_client_had_sent_before_it_went_is_done() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &external().serve(true))?;
    let mut random = Random::new(seed_or(17));
    for round in 0..100 {
        let mut gone = UnixStream::connect(socket_of(&path))?;
        let requests = random.below(60) + 1;
        // Some go while their first document is committed, some after they were answered, some in between.
        let pause = (random.below(3) == 0).then(|| Duration::from_micros(random.below(2_000)));
        let piece = random.below(4) as usize * 40;
        let name = |number: u64| format!("{round} {number}");
        let mut said = String::new();
        for number in 0..requests {
            said += &request(&["SIM.ADD", &name(number), "-"]);
            if said.len() >= piece {
                gone.write_all(said.as_bytes())?;
                said.clear();
                pause.into_iter().for_each(thread::sleep);
            }
        }
        gone.write_all(said.as_bytes())?;
        drop(gone);
        wait_until("the last that it had sent", || {
            let found = database
                .snapshot()
                .and_then(|snapshot| snapshot.get(name(requests - 1)));
            found.is_ok_and(|found| found.is_some())
        });
        let snapshot = database.snapshot()?;
        for number in 0..requests {
            assert!(snapshot.get(name(number))?.is_some(), "{number} of {round}");
        }
    }
    Ok(assert_sound(&database)?)
}

#[test]
fn one_client_too_many_is_told_so_and_is_let_in_when_another_has_ended() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    raise_limit_of_files()?;
    let owner = Owner::start(&path, &[])?;
    // Those that looked whether somebody serves have gone.
    let (mut clients, refusal) = connect_until_refused(&path)?;
    assert!(clients.len() >= 990, "{} clients: {refusal}", clients.len());
    assert!(refusal.contains("has 1000 clients already"), "{refusal}");
    assert_eq!(ping(&mut clients[0])?, "+PONG\r\n");
    clients.pop();
    wait_until("a place", || is_let_in(&path));
    drop(clients);
    assert!(owner.end()?);
    Ok(())
}

fn ping(stream: &mut UnixStream) -> std::io::Result<String> {
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request(&["PING"]).as_bytes())?;
    let mut answer = vec![0; 1_000];
    let read = stream.read(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer[..read]).into_owned())
}

fn is_let_in(database: &Path) -> bool {
    let answer = UnixStream::connect(socket_of(database)).and_then(|mut stream| ping(&mut stream));
    answer.is_ok_and(|answer| answer == "+PONG\r\n")
}

/// All clients that are let in, and what the next one is told.
fn connect_until_refused(database: &Path) -> std::io::Result<(Vec<UnixStream>, String)> {
    let mut clients = Vec::new();
    loop {
        let mut stream = UnixStream::connect(socket_of(database))?;
        match ping(&mut stream)? {
            pong if pong == "+PONG\r\n" => clients.push(stream),
            refusal => return Ok((clients, refusal)),
        }
        assert!(clients.len() <= 1_000);
    }
}

/// Clients that asked for nothing took all files that the process may have open. Nobody else was answered then.
#[test]
fn clients_leave_files_for_the_database_and_for_commands() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -n 64 && exec \"$@\"", "sh"]);
    limited.arg(simdb().get_program());
    let owner = Owner::start_by(limited, &path, &[])?;
    let (mut clients, refusal) = connect_until_refused(&path)?;
    assert!(clients.len() >= 30, "{} clients: {refusal}", clients.len());
    assert!(refusal.contains("has 40 clients already"), "{refusal}");
    run!("stats", &path).refused("clients already");
    clients.truncate(30);
    wait_until("a place", || is_let_in(&path));
    done!("stats", &path);
    done!("compact", &path);
    drop(clients);
    assert!(owner.end()?);
    Ok(())
}

/// Lets this process and its children have as many open files as the system allows.
#[expect(
    unsafe_code,
    reason = "the limit of open files is too low for a thousand clients"
)]
fn raise_limit_of_files() -> TestResult {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: both calls get a limit that lives as long as they run.
    let raised = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max.min(4_096);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit)
    };
    match raised {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

#[test]
fn who_waits_for_an_owner_stops_when_it_is_asked_to() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let (options, stops) = stopping();
    let is_stopped = |outcome: Option<Error>| matches!(outcome, Some(Error::Interrupted));
    let begun = Instant::now();
    thread::scope(|scope| {
        scope.spawn(|| {
            thread::sleep(SHORT);
            stops.store(true, Ordering::Relaxed);
        });
        let nobody = Client::connect(&path, &options);
        assert!(is_stopped(nobody.err()), "nobody serves");
    });

    let owner = Owner::start(&path, &[])?;
    stops.store(false, Ordering::Relaxed);
    let client = Client::connect(&path, &options)?;
    owner.pause()?;
    let submitted = client.submit(&document("a", 1), &Policy::skip())?;
    stops.store(true, Ordering::Relaxed);
    let query = query_of(1);
    assert!(is_stopped(client.get("a").err()));
    assert!(is_stopped(client.query(&query).err()));
    assert!(is_stopped(client.delete("b").err()));
    assert!(is_stopped(client.flush().err()));
    assert!(is_stopped(Client::connect(&path, &options).err()));
    // Who waits for a while gets the ticket back.
    let submitted = submitted.wait_for(SHORT).expect_err("there is no answer");
    assert!(begun.elapsed() < LIMIT);

    // Everything that was submitted goes on, and answers still belong to their questions.
    stops.store(false, Ordering::Relaxed);
    owner.resume()?;
    assert!(!submitted.wait()?.is_duplicate());
    assert_eq!(client.get("a")?, Some(document("a", 1)));
    client.close()?;
    assert!(owner.end()?);
    Ok(())
}

#[test]
fn one_owner_at_a_time_and_the_other_is_told_so() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let number = owner.child.id().to_string();
    run!("serve", &path).refused("in use").says(&number);
    assert_error!(Database::open(&path, &OpenOptions::new().serve(true)) => Error::Busy { .. });
    assert!(serves(&path));
    assert!(owner.end()?);
    assert!(!socket_of(&path).exists());
    Ok(())
}

#[test]
fn another_file_under_the_name_is_not_taken_for_the_database() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &external().serve(true))?;
    let impatient = ClientOptions::new().timeout(SHORT);
    let client = Client::connect(&path, &impatient)?;
    // A compaction puts another file in the place too, and the client goes on.
    client.insert_if_new(&document("a", 1), &Policy::skip())?;
    database.compact(go_on)?;
    client.insert_if_new(&document("b", far(2)), &Policy::skip())?;
    Client::connect(&path, &impatient)?;

    fs::rename(&path, folder.path("moved.simdb"))?;
    Database::create(&path, &external())?;
    let refused = Client::connect(&path, &impatient).expect_err("it is another file");
    assert!(refused.to_string().contains("another file"), "{refused}");
    // Who is connected already goes on with the file that the owner has.
    assert!(client.get("a")?.is_some());
    Ok(())
}

/// Listens as an owner would, and answers everything by the same.
fn impostor(path: &Path, answer: &'static [u8]) -> std::io::Result<thread::JoinHandle<()>> {
    let listener = UnixListener::bind(socket_of(path))?;
    Ok(thread::spawn(move || {
        // It ends with the test.
        for stream in listener.incoming().take(200) {
            let Ok(mut stream) = stream else { return };
            _ = stream.read(&mut [0; 1024]);
            _ = stream.write_all(answer);
        }
    }))
}

#[test]
fn another_release_and_what_is_no_owner_at_all_are_told_apart() -> TestResult {
    let answers: [(&[u8], &str); 5] = [
        (
            b"*4\r\n$8\r\nprotocol\r\n:9\r\n$5\r\nsimdb\r\n$5\r\n9.0.0\r\n",
            "version 9",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "begins with"),
        (b"$99999999999\r\n", "length of 99999999999"),
        (b"-ERR unknown command 'SIM.INFO'\r\n", "unknown command"),
        (b"", "ended the connection"),
    ];
    for (answer, expected) in answers {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        Database::create(&path, &external())?;
        let _impostor = impostor(&path, answer)?;
        let impatient = ClientOptions::new().timeout(SHORT);
        let refused = Client::connect(&path, &impatient).expect_err("it is no owner");
        assert!(refused.to_string().contains(expected), "{refused}");
    }
    Ok(())
}

/// A commit of the owner that fails for lack of room, and what its clients see of it.
#[test]
fn a_commit_that_fails_is_an_error_and_the_owner_goes_on_when_it_can() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    drop(Database::create(&path, &external())?);
    let mut command = Command::new("sh");
    let program = simdb().get_program().to_owned();
    // The limit of this process alone, in kilobytes.
    command.args([
        "-c",
        "trap '' XFSZ; ulimit -f 6000; exec \"$0\" serve \"$1\"",
    ]);
    command.arg(program).arg(&path);
    let child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let owner = Owner { child };
    wait_until("somebody who serves", || serves(&path));
    let client = Client::connect(&path, &patient())?;
    let mut answered = Vec::new();
    let mut failures = Vec::new();
    let mut random = Random::new(seed_or(3));
    for number in 0..2_000u64 {
        let payload: Vec<u8> = (0..20_000).map(|_| random.below(256) as u8).collect();
        let document = new(number).with_payload(payload);
        match client.insert_if_new(&document, &Policy::link()) {
            Ok(_) => answered.push(number),
            Err(error) => {
                failures.push(error);
                if failures.len() == 5 {
                    break;
                }
            }
        }
    }
    assert!(
        !answered.is_empty() && failures.len() == 5,
        "{}",
        answered.len()
    );
    for failure in &failures {
        let kinds = [ErrorKind::Storage, ErrorKind::OutcomeUnknown];
        assert!(kinds.contains(&failure.kind()), "{failure}");
    }
    // What was answered is there, and queries are answered when the file was opened again.
    wait_until("the owner to open the file again", || {
        client
            .get(key(answered[0]))
            .is_ok_and(|found| found.is_some())
    });
    for number in &answered {
        assert!(client.get(key(*number))?.is_some(), "document {number}");
    }
    drop(owner);
    let database = Database::open(&path, &OpenOptions::new())?;
    assert_sound(&database)?;
    for number in &answered {
        assert!(database.snapshot()?.get(key(*number))?.is_some());
    }
    Ok(())
}

#[test]
fn what_clients_of_redis_say_by_themselves_is_answered() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &external().serve(true))?;
    let said: BTreeMap<&[&str], &str> = BTreeMap::from([
        (&["PING"][..], "+PONG\r\n"),
        (&["ping", "a"], "$1\r\na\r\n"),
        (&["HELLO", "2"], "*14\r\n$6\r\nserver\r\n$5\r\nsimdb\r\n"),
        (&["HELLO", "3"], "%7\r\n$6\r\nserver\r\n$5\r\nsimdb\r\n"),
        (&["HELLO", "4"], "-NOPROTO"),
        (
            &["HELLO", "3", "AUTH", "user", "word"],
            "-ERR simdb has no passwords",
        ),
        (
            &["hello", "2", "setname", "me", "auth", "user", "word"],
            "-ERR simdb has no passwords",
        ),
        (
            &["hello", "2", "setname", "me"],
            "*14\r\n$6\r\nserver\r\n$5\r\nsimdb\r\n",
        ),
        (&["HELLO", "2", "SETNAME"], "-ERR HELLO takes"),
        (&["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], "+OK\r\n"),
        (&["client", "setname", "me"], "+OK\r\n"),
        (&["CLIENT", "LIST"], "-ERR"),
        (&["COMMAND", "DOCS"], "*0\r\n"),
        (&["SELECT", "0"], "+OK\r\n"),
        (&["SELECT", "1"], "-ERR"),
        (&["QUIT"], "+OK\r\n"),
        (&["AUTH", "word"], "-ERR unknown command 'AUTH'"),
        (&["SIM.FLUSH"], "+OK\r\n"),
        (&["SIM.GET", "nothing"], "$-1\r\n"),
        (&["SIM.EXPIRE", "BEFORE", "7"], ":0\r\n"),
        (&["SIM.OVERLAP", "A text."], "-INPUT"),
        (&["SIM.OVERLAP", "A text.", "UNIT", "word"], "-ERR UNIT is"),
        (
            &["sim.query", "00000000000000ff"],
            "*6\r\n$5\r\ntotal\r\n:0\r\n$5\r\nexact\r\n:1\r\n$7\r\nmatches\r\n*0\r\n",
        ),
    ]);
    for (words, expected) in said {
        let answer = say(database.path(), request(words).as_bytes())?;
        assert!(answer.starts_with(expected), "{words:?}: {answer:?}");
    }
    // Once answers after a greeting that was refused were those of the version that it had asked for.
    let refused =
        request(&["HELLO", "3", "AUTH", "user", "word"]) + &request(&["SIM.GET", "nothing"]);
    let answer = say(database.path(), refused.as_bytes())?;
    assert!(answer.ends_with("\r\n$-1\r\n"), "{answer:?}");
    let both = request(&[
        "SIM.QUERY",
        "00000000000000ff",
        "NEAREST",
        "3",
        "LIMIT",
        "3",
    ]);
    let answer = say(database.path(), both.as_bytes())?;
    assert!(answer.starts_with("-ERR NEAREST says"), "{answer:?}");
    // An empty line is passed over, as Redis does.
    let answer = say(database.path(), b"\r\n*1\r\n$4\r\nPING\r\n\r\n")?;
    assert_eq!(answer, "+PONG\r\n");
    // Answers come in the order of requests, whichever of them wait for a commit.
    let many = [
        request(&["SIM.ADD", "a", "00000000000000ff", "SEEN", "5"]),
        request(&["SIM.ADD", "b", "bad"]),
        request(&["SIM.ADD", "c", "00000000000000fe", "SEEN", "6"]),
        request(&["PING"]),
        request(&["SIM.DEL", "a"]),
        request(&["SIM.GET", "a"]),
    ];
    let answer = say(database.path(), many.concat().as_bytes())?;
    // However many come at once, before their sender says that it has no more.
    let pings = say(database.path(), request(&["PING"]).repeat(1_000).as_bytes())?;
    assert_eq!(pings, "+PONG\r\n".repeat(1_000));
    let places = [
        "inserted",
        "-INPUT",
        "skipped",
        "+PONG",
        "fingerprint",
        "$-1",
    ];
    let mut at = 0;
    for place in places {
        let found = answer[at..].find(place);
        at += found.ok_or_else(|| format!("{place} is not in {:?}", &answer[at..]))?;
    }
    Ok(())
}

#[test]
fn a_request_that_was_read_is_answered_when_the_owner_ends() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let client = Client::connect(&path, &ClientOptions::new().timeout(SHORT))?;
    let begun = Instant::now();
    let working = {
        let client = client.clone();
        thread::spawn(move || {
            let mut answered = 0u64;
            while stored_by(&client, answered..answered + 1).is_ok() {
                answered += 1;
            }
            answered
        })
    };
    wait_until("some documents", || {
        client.get(key(3)).is_ok_and(|found| found.is_some())
    });
    assert!(owner.end()?);
    let answered = working.join().expect("it does not panic");
    let database = Database::open(&path, &OpenOptions::new())?;
    assert_sound(&database)?;
    // All that was done is answered, but for what was on its way.
    let documents = database.snapshot()?.stats()?.documents;
    assert!(
        (answered..=answered + 1).contains(&documents),
        "{answered} of {documents}"
    );
    assert!(begun.elapsed() < LIMIT);
    Ok(())
}

/// The number of what had been deleted so far was sent as if that were all, and an overlap that was ended as an error.
/// Nobody sent the request again.
#[test]
fn an_answer_that_the_end_of_the_owner_cuts_short_is_not_sent() -> TestResult {
    const DOCUMENTS: u64 = 60;
    let folder = Folder::in_memory()?;
    let overlapping = Database::create(folder.path("overlapping.simdb"), &CreateOptions::new())?;
    let text: String = (0..3_000)
        .map(|i| format!("Sentence {i} of {i}. "))
        .collect();
    // The owner ends as soon as it was asked so often whether it does.
    let is_ended_at = |database: &Database, request: &str, most: u64| -> simdb::Result<String> {
        let asked = AtomicU64::new(0);
        let server = database.serve()?;
        let server = server.stop_when(move || asked.fetch_add(1, Ordering::Relaxed) >= most);
        let answer = say(database.path(), request.as_bytes());
        drop(server);
        Ok(answer.unwrap_or_default())
    };
    let (mut cut, mut whole) = (0, 0);
    for most in 0..100 {
        let database = folder.tiny_database(&format!("{most}.simdb"))?;
        insert_all(&database, (0..DOCUMENTS).map(new))?;
        let expire = request(&["SIM.EXPIRE", "BEFORE", "10"]);
        let expired = is_ended_at(&database, &expire, most)?;
        let left = database.snapshot()?.stats()?.documents;
        cut += u64::from(expired.is_empty() && (1..DOCUMENTS).contains(&left));
        whole += u64::from(!expired.is_empty());
        assert!(
            expired.is_empty() || expired == format!(":{DOCUMENTS}\r\n"),
            "{most}: {expired:?} with {left} left"
        );
        let overlap = request(&["SIM.OVERLAP", &text]);
        let overlap = is_ended_at(&overlapping, &overlap, most)?;
        assert!(!overlap.starts_with('-'), "{most}: {overlap:?}");
    }
    assert!(cut > 3 && whole > 3, "{cut} cut, {whole} whole");
    Ok(())
}

/// The rest of the requests was sent behind what was left of them, and each ticket got the answer of another.
#[test]
fn a_close_that_is_interrupted_leaves_each_answer_to_its_ticket() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let (options, stops) = stopping();
    let client = Client::connect(&path, &options)?;
    let count = 2_000;
    for number in 0..count {
        _ = client.submit(&new(number), &Policy::skip())?;
    }
    client.flush()?;
    owner.pause()?;
    // More than the socket takes.
    let mut tickets = Vec::new();
    for number in 0..count {
        let copy = document(format!("copy of {number}"), far(number));
        tickets.push(client.submit(&copy, &Policy::skip())?);
    }
    stops.store(true, Ordering::Relaxed);
    assert_error!(client.close() => Error::Interrupted);
    stops.store(false, Ordering::Relaxed);
    owner.resume()?;
    for (number, ticket) in (0..).zip(tickets) {
        let verdict = ticket.wait()?;
        let found = verdict.matches().iter().next().expect("it is a copy");
        assert_eq!(found.document.key(), key(number).as_bytes());
    }
    assert_error!(client.get("a") => Error::Closed);
    assert!(owner.end()?);
    Ok(())
}

/// They were thrown away with the connection, and what they were for was done twice.
#[test]
fn answers_that_came_before_the_owner_ended_are_taken() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let client = Client::connect(&path, &patient())?;
    client.insert_if_new(&document("first", 1), &Policy::skip())?;
    let touching = Policy::skip().touch(true);
    let mut tickets = Vec::new();
    for number in 0..100u64 {
        tickets.push(client.submit(&document(key(number), 1), &touching)?);
    }
    let repeats = || -> simdb::Result<u64> {
        let found = Client::connect(&path, &patient())?.get("first")?;
        Ok(found.expect("it is stored").repeats())
    };
    wait_until("all copies", || {
        repeats().is_ok_and(|repeats| repeats == 100)
    });
    // Its answers are on their way.
    thread::sleep(SHORT);
    assert!(owner.end()?);
    let owner = Owner::start(&path, &[])?;
    client
        .submit(&document("last", far(7)), &Policy::skip())?
        .wait()?;
    for ticket in tickets {
        assert!(ticket.wait()?.is_duplicate());
    }
    assert_eq!(repeats()?, 100);
    assert!(owner.end()?);
    Ok(())
}

/// It asked nobody, and never got an answer.
#[test]
fn who_only_looks_for_an_answer_finds_the_next_owner_too() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let client = Client::connect(&path, &patient())?;
    owner.pause()?;
    let mut looked_for = client.submit(&document("a", 1), &Policy::skip())?;
    drop(owner);
    let owner = Owner::start(&path, &[])?;
    let begun = Instant::now();
    let verdict = loop {
        assert!(begun.elapsed() < LIMIT, "there is no answer");
        looked_for = match looked_for.wait_for(Duration::ZERO) {
            Ok(verdict) => break verdict?,
            Err(ticket) => ticket,
        };
        thread::sleep(SHORT / 10);
    };
    assert!(!verdict.is_duplicate());
    assert!(owner.end()?);
    Ok(())
}

/// The time of a search that somebody had begun and left was over, and the next call failed at once.
#[test]
fn a_search_for_an_owner_that_was_left_does_not_shorten_the_next() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let client = Client::connect(&path, &ClientOptions::new().timeout(6 * SHORT))?;
    drop(owner);
    let ticket = client.submit(&document("a", 1), &Policy::skip())?;
    let ticket = ticket.wait_for(SHORT).expect_err("nobody serves");
    thread::sleep(Duration::from_secs(5));
    let owner = thread::scope(|scope| {
        let starting = scope.spawn(|| {
            thread::sleep(SHORT);
            Owner::start(&path, &[]).map_err(|error| error.to_string())
        });
        assert!(!ticket.wait()?.is_duplicate());
        Ok::<_, Box<dyn std::error::Error>>(starting.join().expect("it does not panic")?)
    })?;
    assert!(owner.end()?);
    Ok(())
}

/// It waited for itself without an end.
#[test]
fn the_function_that_says_whether_to_stop_cannot_wait_for_its_own_client() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let calling: Arc<Mutex<Option<Client>>> = Arc::default();
    let is_told = Arc::new(AtomicBool::new(false));
    let options = ClientOptions::new().timeout(SHORT).stop_when({
        let (calling, is_told) = (calling.clone(), is_told.clone());
        // Called within itself, until the client asks whether anybody is there. Only then it waits for the function.
        move || {
            let client = calling.lock().expect("it is whole").clone();
            if let Some(client) = client
                && !is_told.load(Ordering::Relaxed)
                && matches!(client.get("a"), Err(Error::WouldDeadlock))
            {
                is_told.store(true, Ordering::Relaxed);
            }
            false
        }
    });
    let client = Client::connect(&path, &options)?;
    owner.pause()?;
    *calling.lock().expect("it is whole") = Some(client.clone());
    assert_error!(within(LIMIT, move || client.get("b")) => Error::NotServed { .. });
    assert!(is_told.load(Ordering::Relaxed));
    // The function keeps the client, and the client the function.
    *calling.lock().expect("it is whole") = None;
    owner.resume()?;
    assert!(owner.end()?);
    Ok(())
}

/// A panic left the mark that somebody sends and receives for all. So everybody else waited for ever.
#[test]
fn a_panic_of_whoever_waits_keeps_nobody_else_waiting() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let panics = Arc::new(AtomicBool::new(false));
    let options = ClientOptions::new().timeout(SHORT).stop_when({
        let panics = panics.clone();
        move || match panics.load(Ordering::Relaxed) {
            true => panic!("mine"),
            false => false,
        }
    });
    let client = Client::connect(&path, &options)?;
    owner.pause()?;
    let submitted = client.submit(&document("a", 1), &Policy::skip())?;
    panics.store(true, Ordering::Relaxed);
    // Once nothing has come for a while, it is asked whether anybody is there, and meanwhile, whether to stop.
    let waited = catch_unwind(AssertUnwindSafe(|| submitted.wait_for(LIMIT)));
    let panic = waited.err().ok_or("it waits in vain")?;
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"mine"));
    panics.store(false, Ordering::Relaxed);
    owner.resume()?;
    let found = within(LIMIT, move || client.get("a"))?;
    assert_eq!(found, Some(document("a", 1)));
    assert!(owner.end()?);
    Ok(())
}

/// A command that is told nothing was not begun, and whoever sent it is told so. Once one was told half.
#[test]
fn a_command_that_comes_while_an_owner_ends_is_told_all_or_nothing() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &external())?;
    let mut random = Random::new(seed_or(23));
    let mut answered = 0;
    for round in 0..300 {
        let server = database.serve()?;
        let pause = Duration::from_micros(random.below(400));
        thread::scope(|scope| -> TestResult {
            let mut asked = Vec::new();
            for number in 0..4 {
                let path = &path;
                asked.push(scope.spawn(move || {
                    thread::sleep(Duration::from_micros(number * 60));
                    let mut stream = UnixStream::connect(socket_of(path)).ok()?;
                    stream.set_read_timeout(Some(LIMIT)).ok()?;
                    // The other end may not read it any more.
                    _ = stream.write_all(b"{}\n");
                    let mut answer = String::new();
                    _ = stream.read_to_string(&mut answer);
                    Some(answer)
                }));
            }
            thread::sleep(pause);
            match round % 3 {
                0 => drop(server),
                1 => server.close_when_answered(),
                _ => server.close_within(Duration::ZERO),
            }
            for asked in asked {
                let answer = asked.join().expect("it does not panic");
                let Some(answer) = answer.filter(|answer| !answer.is_empty()) else {
                    continue;
                };
                answered += 1;
                let is_told = answer.contains("about to close") || answer.contains("no request");
                assert!(
                    is_told && answer.ends_with("{\"exit\":2}\n"),
                    "{round}: {answer:?}"
                );
            }
            Ok(())
        })?;
    }
    assert!(answered > 100, "{answered}");
    Ok(())
}

#[test]
fn a_client_does_not_keep_a_database_open_that_its_owner_has_dropped() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let database = Database::create(&path, &external())?;
    let _server = database.serve()?;
    let client = Client::connect(&path, &ClientOptions::new().timeout(SHORT))?;
    client.insert_if_new(&document("a", 1), &Policy::skip())?;
    drop(database);
    wait_until("the file to be free", || {
        Database::open(&path, &OpenOptions::new()).is_ok()
    });
    let refused = client.get("a").expect_err("nobody has it open");
    assert_eq!(refused.kind(), ErrorKind::NotServed);
    Ok(())
}

/// What was printed, without the time that it took.
fn without_time(ran: &Ran) -> &str {
    let end = ran.out.rfind(", ");
    &ran.out[..end.unwrap_or(ran.out.len())]
}

#[test]
fn ingest_of_a_database_that_is_served_goes_through_its_socket() -> TestResult {
    let folder = Folder::new()?;
    let first = "first\t0000000000000001\nsecond\t0000000000000003\n";
    folder.file("a.tsv", first)?;
    let input = "third\t0000000000000007\nbad line\n";
    let ingested = |more: &str, input: &str| {
        let mut command = folder.command(&format!("ingest --input-format fingerprints {more}"));
        run_with_input(&mut command, input.as_bytes())
    };
    // What is printed of a database in use is what is printed of one that is not.
    let alone = ingested("alone.simdb a.tsv", "")?.expect(0);
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let served = ingested("d.simdb a.tsv", "")?.expect(0);
    assert_eq!(without_time(&served), without_time(&alone));
    let served = ingested("d.simdb --rejected rejected.txt -", input)?.expect(0);
    let rejected = fs::read(folder.path("rejected.txt"))?;
    fs::remove_file(folder.path("rejected.txt"))?;
    let alone = ingested("alone.simdb --rejected rejected.txt -", input)?.expect(0);
    assert_eq!(without_time(&served), without_time(&alone));
    assert_eq!(rejected, fs::read(folder.path("rejected.txt"))?);
    assert!(!rejected.is_empty());
    // The other process would write to its own.
    ingested("d.simdb --rejected /dev/stderr -", input)?.refused("only this process has it");
    // It was read to its end, and is known again.
    ingested("d.simdb a.tsv", "")?.expect(0).says("again");
    // Other choices than those of the database are refused, as they are of one that is closed.
    ingested("d.simdb --sketch 16 a.tsv", "")?.refused("sketch");
    let client = Client::connect(&path, &patient())?;
    assert!(client.get("third")?.is_some());
    assert!(owner.end()?);
    Ok(())
}

/// An empty database was left behind, which nobody had asked for.
#[test]
fn a_database_whose_socket_is_taken_is_not_created() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("new.simdb");
    let taken = folder.file("new.simdb.sock", "precious")?;
    run!("serve", &path).refused("new.simdb.sock");
    assert_error!(
        Database::create(&path, &external().serve(true)) => Error::AlreadyExists { .. }
    );
    let build = || Database::build(&path, &external().serve(true), [], 0);
    assert_error!(build() => Error::AlreadyExists { .. });
    assert!(!path.exists());
    fs::remove_file(&taken)?;
    let _listener = UnixListener::bind(&taken)?;
    run!("serve", &path).refused("somebody listens there already");
    assert!(build().is_err());
    assert!(!path.exists());
    Ok(())
}

/// It could not be saved by any command, and the next ingestion made an empty one in its place.
#[test]
fn a_database_whose_file_was_removed_is_saved_by_its_socket() -> TestResult {
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &["--warm"])?;
    let client = Client::connect(&path, &patient())?;
    for number in 0..10 {
        client.insert_if_new(&new(number), &Policy::skip())?;
    }
    let socket = socket_of(&path);
    fs::remove_file(&path)?;
    let more = folder.file("more.tsv", "a\tsome words\n")?;
    for ran in [
        run!("stats", &path),
        run!("ingest", &path, &more),
        run!("create", &path),
        run!("backup", &path, folder.path("lost.simdb")),
    ] {
        ran.refused("still has it open: `simdb backup");
    }
    assert!(!path.exists());
    let saved = folder.path("saved.simdb");
    done!("backup", &path, &saved, "--socket", &socket);
    let saved = Database::open(&saved, &OpenOptions::new())?;
    assert_eq!(saved.snapshot()?.stats()?.documents, 10);
    // What it holds has no place any more.
    assert!(!owner.end()?);
    Ok(())
}

/// A panic of it ended the thread that lets clients in, and nobody heard of it.
#[test]
fn a_panic_of_the_function_that_ends_requests_ends_no_more_than_these() -> TestResult {
    let folder = Folder::new()?;
    let database = Database::create(folder.path("d.simdb"), &external())?;
    let panics = Arc::new(AtomicBool::new(true));
    let server = database.serve()?.stop_when({
        let panics = panics.clone();
        move || {
            if panics.load(Ordering::Relaxed) {
                std::panic::resume_unwind(Box::new("the function"));
            }
            false
        }
    });
    let options = ClientOptions::new().timeout(SHORT);
    assert!(Client::connect(database.path(), &options).is_err());
    panics.store(false, Ordering::Relaxed);
    let client = Client::connect(database.path(), &ClientOptions::new())?;
    assert!(client.get("nothing")?.is_none());
    drop(server);
    Ok(())
}

/// Some hundred kilobytes of requests took gigabytes of answers that nobody had read.
#[test]
#[cfg(target_os = "linux")]
fn answers_that_nobody_reads_take_bounded_memory() -> TestResult {
    const MOST_KB: u64 = 400_000;
    let folder = Folder::new()?;
    let path = folder.path("d.simdb");
    let owner = Owner::start(&path, &[])?;
    let payload = "x".repeat(60_000);
    let ten: String = (0..10)
        .map(|number| {
            let name = key(number);
            let add = ["SIM.ADD", &name, "0000000000000000", "ONMATCH", "link"];
            request(&[&add[..], &["PAYLOAD", &payload]].concat())
        })
        .collect();
    say(&path, ten.as_bytes())?;
    let near = |number| request(&["SIM.ADD", &key(number), "0000000000000000"]);
    let many: String = (10..2_500).map(near).collect();
    let mut unread = UnixStream::connect(socket_of(&path))?;
    let sent = thread::spawn({
        let mut stream = unread.try_clone()?;
        move || stream.write_all(many.as_bytes())
    });
    unread.read_exact(&mut [0])?;
    // The answers to all of them would be 1.5 GB.
    thread::sleep(Duration::from_secs(2));
    let status = fs::read_to_string(format!("/proc/{}/status", owner.child.id()))?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|peak| peak.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    assert!(peak.is_some_and(|peak| peak < MOST_KB), "{peak:?} kB");
    // All of them are answered to who reads.
    let mut answered = 0;
    let mut buffer = vec![0; 1 << 20];
    while answered < 2_490 * 600_000 {
        let read = unread.read(&mut buffer)?;
        assert!(read > 0, "it ended behind {answered} bytes");
        answered += read;
    }
    sent.join().expect("it does not panic")?;
    drop(unread);
    assert!(owner.end()?);
    Ok(())
}
