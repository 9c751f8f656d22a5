//! A process that is forked while its parent has a database open. It can use nothing that it inherits, and does no harm
//! to the parent.
//!
//! A child that committed through its parent's handle was told that it had done so, and the parent then wrote over what
//! it had stored. Dropping the handle waited for threads that the child does not have, or panicked. The file stayed in
//! use by a process that was gone, as long as a child of it lived.

use std::future::Future as _;
use std::io::{Read as _, Write as _};
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use simdb::ingest::{Ingest, ReadOptions, Records};
use simdb::{
    Client, ClientOptions, Clustering, Database, Document, Error, Expiry, Fingerprint, Holder,
    OpenOptions, Policy, Query, Scheme, Snapshot, TrySubmit, WriterOptions,
};

use crate::support::{
    Folder, LIMIT, TestResult, all_keys, assert_error, assert_sound, document, done, every,
    external, go_on, insert_all, keyed, run, spread, wait_until, within,
};

/// So long a call of a child may take, and so long a child may live. Much longer than either does on a busy machine:
/// what they must not do is to wait for a thread that they do not have, and that has no end.
const CALL: Duration = Duration::from_secs(20);
const CHILD: Duration = LIMIT;

/// Runs a test, which has nothing else in it, in a process of its own. So its children inherit nothing from other
/// tests.
fn alone<Test: FnOnce() -> TestResult>(body: Test) -> TestResult {
    const IS_ALONE: &str = "SIMDB_TEST_IS_ALONE";
    if std::env::var_os(IS_ALONE).is_some() {
        return body();
    }
    // As `it::fork::the_name_of_the_test::{{closure}}`.
    let path = std::any::type_name::<Test>();
    let (_, test) = path.split_once("::").ok_or("a path")?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", test.trim_end_matches("::{{closure}}")]);
    command.args(["--nocapture", "--test-threads", "1"]);
    let output = command.env(IS_ALONE, "1").stdin(Stdio::null()).output()?;
    let told = [output.stdout, output.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
    assert!(
        output.status.success() && told[0].contains("1 passed"),
        "{}{}",
        told[0],
        told[1]
    );
    Ok(())
}

/// A process that was forked from this one.
struct Child(libc::pid_t);

/// Forks. `None` in the child, which has to go on with [`in_child`].
#[expect(unsafe_code, reason = "the tests are about forks")]
fn fork() -> std::io::Result<Option<Child>> {
    // SAFETY: the child has a copy of this thread, and takes no lock that another thread may have held.
    match unsafe { libc::fork() } {
        -1 => Err(std::io::Error::last_os_error()),
        0 => Ok(None),
        number => Ok(Some(Child(number))),
    }
}

/// Ends at once, as a process does that is killed: nothing is dropped.
#[expect(unsafe_code, reason = "the tests are about processes that end")]
fn end(code: i32) -> ! {
    // SAFETY: it does nothing else than to end the process.
    unsafe { libc::_exit(code) }
}

/// The work of a child. It ends with code 0, with 1 if the work fails, or as a panic would end it.
fn in_child(work: impl FnOnce() -> TestResult) -> ! {
    end(match panic::catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => 0,
        Ok(Err(error)) => {
            _ = writeln!(std::io::stderr(), "in a child: {error}");
            1
        }
        Err(_) => 101,
    })
}

impl Child {
    /// Waits until it has ended, and asserts that it ended well.
    #[track_caller]
    #[expect(unsafe_code, reason = "a child has no handle of the standard library")]
    fn ends_well(self) {
        let (begun, mut status) = (Instant::now(), 0);
        // SAFETY: the process is a child of this one, and nobody else waits for it.
        while unsafe { libc::waitpid(self.0, &mut status, libc::WNOHANG) } == 0 {
            if begun.elapsed() > CHILD {
                // SAFETY: as above.
                unsafe { libc::kill(self.0, libc::SIGKILL) };
                panic!("a child hangs");
            }
            thread::sleep(Duration::from_millis(1));
        }
        assert!(
            libc::WIFEXITED(status),
            "a child was ended by signal {}",
            libc::WTERMSIG(status)
        );
        assert_eq!(libc::WEXITSTATUS(status), 0, "the exit code of a child");
    }
}

/// Asserts that a call is refused at once, since this process was forked.
#[track_caller]
fn refused<T>(call: impl FnOnce() -> simdb::Result<T>) {
    let begun = Instant::now();
    assert_error!(call().map(drop) => Error::Forked);
    assert!(begun.elapsed() < CALL, "{:?}", begun.elapsed());
}

/// Asserts that the database has these documents and is sound, and that a process that opens it anew sees the same.
fn assert_holds(database: Database, path: &Path, expected: &[&str]) -> TestResult {
    assert_eq!(all_keys(&database.snapshot()?)?, expected);
    assert_sound(&database)?;
    drop(database);
    let database = Database::open(path, &OpenOptions::new())?;
    assert_eq!(all_keys(&database.snapshot()?)?, expected);
    assert_sound(&database)?;
    Ok(())
}

/// Who holds the database, for a process that wants to open it.
fn holder(path: &Path) -> simdb::Result<Option<Holder>> {
    match Database::open(path, &OpenOptions::new()) {
        Ok(_) => Ok(None),
        Err(Error::Busy { holder, .. }) => Ok(Some(holder)),
        Err(error) => Err(error),
    }
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

fn go_on_expiring(_: u64) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn near(bits: u64) -> Query {
    Query::new(Fingerprint::from_bits(bits))
}

#[test]
fn every_call_on_a_database_and_a_snapshot_is_refused_in_a_forked_process() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let database = Database::create(&path, &external())?;
        insert_all(&database, ["a", "b"].map(|key| document(key, 1)))?;
        let snapshot = database.snapshot()?;
        // The iterator has a block in memory.
        let mut documents = snapshot.documents();
        assert!(documents.next().is_some_and(|it| it.is_ok()));
        // This one has a thread.
        let mut pairs = snapshot.pairs(3).into_iter();
        let Some(child) = fork()? else {
            in_child(|| {
                refused(|| database.snapshot());
                refused(|| database.begin_write());
                refused(|| database.try_begin_write());
                refused(|| database.begin_write_within(CHILD));
                refused(|| database.writer(WriterOptions::new()));
                refused(|| database.reopen());
                refused(|| database.settle());
                refused(|| database.check());
                refused(|| database.compact(go_on));
                refused(|| database.set_cache(simdb::Cache::Bytes(1 << 20)));
                refused(|| database.expire(&Expiry::new(), go_on_expiring));
                refused(|| database.expire(&Expiry::new().before(7), go_on_expiring));
                refused(|| database.delete_duplicates(&Clustering::new()));
                refused(|| database.serve_at(folder.path("another.sock")));
                // Nothing is read of inputs.
                let records = Records::open(["-"], ReadOptions::new())?;
                refused(|| Ingest::new(&database).run(records, |_| ControlFlow::Continue(())));
                refused(|| snapshot.get("a"));
                refused(|| snapshot.query(&near(1)));
                refused(|| snapshot.any_match(&near(1)));
                refused(|| snapshot.query_batch(&[near(1)]));
                refused(|| snapshot.query_batch(&[]));
                refused(|| snapshot.explain(&near(1)));
                refused(|| snapshot.backup_with(folder.path("copy.simdb"), go_on));
                refused(|| snapshot.source("source"));
                refused(|| snapshot.sources());
                refused(|| snapshot.sample(0));
                refused(|| snapshot.count_fingerprints_with(go_on));
                refused(|| snapshot.stats());
                refused(|| snapshot.check_with(go_on));
                refused(|| snapshot.to_expire(&Expiry::new(), every));
                refused(|| snapshot.largest_groups(1, 1));
                refused(|| snapshot.fullest_prefixes(1));
                refused(|| snapshot.pairs(3).run(every));
                refused(|| snapshot.clusters(&Clustering::new(), every));
                refused(|| snapshot.duplicates(&Clustering::new(), every));
                #[cfg(feature = "parquet")]
                refused(|| {
                    simdb::parquet::Export::of(&snapshot).run(folder.path("d.parquet"), go_on)
                });
                // The second document is in the block that was read before the fork.
                refused(|| documents.next().expect("an error"));
                assert!(documents.next().is_none());
                refused(|| snapshot.documents().next().expect("an error"));
                refused(|| pairs.next().expect("an error"));
                assert!(pairs.next().is_none());
                drop(pairs);
                refused(|| snapshot.pairs(3).into_iter().next().expect("an error"));
                // What never changes is still told.
                assert_eq!(
                    (database.path(), database.scheme()),
                    (&*path, Scheme::External)
                );
                assert_eq!(
                    (database.max_distance(), database.min_similarity()),
                    (3, None)
                );
                _ = (
                    database.sketch_size(),
                    database.metrics(),
                    format!("{database:?} {snapshot:?}"),
                );
                Ok(())
            })
        };
        child.ends_well();
        assert!(!folder.path("copy.simdb").exists() && !folder.path("d.parquet").exists());
        assert!(documents.next().is_some_and(|it| it.is_ok()));
        assert!(pairs.all(|event| event.is_ok()));
        drop((snapshot, documents, pairs));
        insert_all(&database, [document("c", 2)])?;
        assert_holds(database, &path, &["a", "b", "c"])
    })
}

#[test]
fn a_transaction_of_the_parent_is_refused_in_a_forked_process_and_goes_on_in_the_parent()
-> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let database = Database::create(&path, &external())?;
        insert_all(&database, [document("a", 1)])?;
        let mut txn = database.begin_write()?;
        txn.insert(&document("b", 2))?;
        for commits in [false, true] {
            let Some(child) = fork()? else {
                in_child(move || {
                    refused(|| txn.insert(&document("of the child", 3)));
                    refused(|| txn.insert_if_new(&document("of the child", 3), &Policy::skip()));
                    refused(|| {
                        txn.insert_batch_if_new(&[document("of the child", 3)], &Policy::skip())
                    });
                    refused(|| txn.query(&near(3)));
                    refused(|| txn.delete("a"));
                    refused(|| txn.touch("a", 7));
                    refused(|| txn.forget_source("source"));
                    if commits {
                        refused(|| txn.commit());
                    } else {
                        drop(txn);
                    }
                    refused(|| database.begin_write());
                    drop(database);
                    Ok(())
                })
            };
            child.ends_well();
        }
        txn.insert(&document("c", 3))?;
        txn.commit()?;
        // The turn was not given back twice.
        let txn = database.begin_write()?;
        assert!(
            thread::scope(|scope| scope
                .spawn(|| database.try_begin_write())
                .join()
                .expect("no panic"))?
            .is_none()
        );
        drop(txn);
        assert_holds(database, &path, &["a", "b", "c"])
    })
}

#[test]
fn a_writer_and_its_tickets_are_refused_in_a_forked_process_and_go_on_in_the_parent() -> TestResult
{
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let database = Database::create(&path, &external())?;
        let writer = database.writer(WriterOptions::new().queue(1))?;
        let policy = Policy::link();
        let answered = writer.submit(document("a", 1), &policy)?;
        let waited = writer.submit(document("a", 1), &policy)?;
        writer.flush()?;
        let (mut reader, pipe) = std::io::pipe()?;
        let mut pipe = Some(pipe);
        // The thread of the writer waits for its turn with the first, another is in the queue, and a third before
        // it.
        let txn = database.begin_write()?;
        let first = writer.submit(document("b", 2), &policy)?;
        wait_until("the thread of the writer", || {
            database.metrics().queue_length == 0
        });
        let mut to_parent = pipe.take().expect("a pipe");
        writer.submit_with(document("c", 3), &policy, move |_| {
            _ = to_parent.write_all(b"!");
        })?;
        let mut in_line = Box::pin(writer.submit_async(document("d", 4), &policy));
        assert!(
            in_line
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop()))
                .is_pending()
        );
        let new = writer.submit_async(document("of the child", 4), &policy);
        let Some(child) = fork()? else {
            in_child(move || {
                let of_child = || document("of the child", 9);
                refused(|| writer.submit(of_child(), &policy));
                refused(|| {
                    writer.submit_with(of_child(), &policy, |_| panic!("nothing is answered"))
                });
                refused(|| writer.try_submit(of_child(), &policy));
                refused(|| writer.insert_if_new(&of_child(), &policy));
                refused(|| writer.submit_delete("a"));
                refused(|| writer.submit_delete("a"));
                refused(|| writer.flush());
                refused(|| writer.close());
                refused(|| first.wait());
                refused(|| match waited.wait_for(Duration::ZERO) {
                    Ok(answer) => answer,
                    Err(_) => panic!("the ticket comes back"),
                });
                refused(|| match answered.try_wait() {
                    Ok(answer) => answer,
                    Err(_) => panic!("the ticket comes back"),
                });
                for waits in [in_line.as_mut(), pin!(new)] {
                    match waits.poll(&mut Context::from_waker(Waker::noop())) {
                        Poll::Ready(answer) => refused(|| answer),
                        Poll::Pending => panic!("it would wait for ever"),
                    }
                }
                drop((writer.clone(), in_line, txn, writer, database));
                Ok(())
            })
        };
        child.ends_well();
        // Polled as a future, and dropped with the writer while the parent lives on.
        let Some(child) = fork()? else {
            in_child(move || {
                match poll(first) {
                    Poll::Ready(answer) => refused(|| answer),
                    Poll::Pending => panic!("it would wait for ever"),
                }
                drop((answered, in_line, new));
                drop((database, writer));
                Ok(())
            })
        };
        child.ends_well();
        drop((txn, new));
        assert!(first.wait().is_ok() && answered.wait().is_ok());
        writer.flush()?;
        assert!(matches!(
            in_line
                .as_mut()
                .poll(&mut Context::from_waker(Waker::noop())),
            Poll::Ready(Ok(_))
        ));
        assert!(matches!(
            writer.try_submit(document("e", 5), &policy)?,
            TrySubmit::Accepted(_)
        ));
        writer.close()?;
        let mut told = Vec::new();
        reader.read_to_end(&mut told)?;
        assert_eq!(told, b"!", "it was called back once, in the parent");
        assert_holds(database, &path, &["a", "b", "c", "d", "e"])
    })
}

/// The parent has its lock while it lives, whatever its children do. A child that opens the database was told that it
/// was in use by itself.
#[test]
fn the_parent_keeps_its_lock_and_is_the_one_that_is_named() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        drop(Database::create(&path, &external())?);
        let parent = Holder::Process(std::process::id());
        for options in [OpenOptions::new(), OpenOptions::new().read_only(true)] {
            let database = Database::open(&path, &options)?;
            let snapshot = database.snapshot()?;
            for way in 0..4 {
                let snapshot = database.snapshot()?;
                let Some(child) = fork()? else {
                    let path = path.clone();
                    in_child(move || {
                        assert_eq!(holder(&path)?, Some(parent), "before");
                        match way {
                            0 => database.abandon()?,
                            1 => drop(database),
                            2 => drop((database, snapshot)),
                            _ => drop((snapshot, database)),
                        }
                        assert_eq!(holder(&path)?, Some(parent), "after");
                        Ok(())
                    })
                };
                child.ends_well();
                drop(snapshot);
                run!("compact", &path).refused(&format!("number {}", std::process::id()));
                assert_eq!(holder(&path)?, Some(Holder::ThisProcess));
            }
            drop(snapshot);
            // In the process that opened the database, it does nothing.
            database.abandon()?;
            assert_eq!(all_keys(&database.snapshot()?)?, Vec::<String>::new());
        }
        assert_eq!(holder(&path)?, None);
        Ok(())
    })
}

/// What a child of a parent that is gone does to others.
struct Orphan {
    number: u32,
    /// Each byte lets it do the next step.
    steps: std::io::PipeWriter,
    done: std::io::PipeReader,
}

impl Orphan {
    /// A process that opens a database, forks, and is killed. `open` returns what the child keeps.
    fn of<T>(open: impl FnOnce() -> TestResult<T>, steps: &[&dyn Fn(&T)]) -> std::io::Result<Self> {
        let (told_steps, to_child) = std::io::pipe()?;
        let (mut told, to_parent) = std::io::pipe()?;
        let Some(parent) = fork()? else {
            drop((to_child, told));
            in_child(|| {
                let opened = open()?;
                let Some(_child) = fork()? else {
                    let (mut told_steps, mut to_parent) = (told_steps, to_parent);
                    in_child(|| {
                        to_parent.write_all(&std::process::id().to_le_bytes())?;
                        for step in steps {
                            told_steps.read_exact(&mut [0])?;
                            step(&opened);
                            to_parent.write_all(b"!")?;
                        }
                        _ = told_steps.read(&mut [0])?;
                        Ok(())
                    })
                };
                // Nothing is dropped.
                end(0)
            })
        };
        drop((told_steps, to_parent));
        parent.ends_well();
        let mut number = [0; 4];
        told.read_exact(&mut number)?;
        Ok(Self {
            number: u32::from_le_bytes(number),
            steps: to_child,
            done: told,
        })
    }

    /// Lets it do its next step, and waits for its end.
    fn step(&mut self) -> std::io::Result<()> {
        self.steps.write_all(b"!")?;
        self.done.read_exact(&mut [0])
    }
}

/// The locks kept a table of the threads that wait, with those of the parent. When threads of the child made it grow,
/// they wrote where the memory of those had been: children crashed, or waited for ever.
#[test]
fn a_child_with_databases_and_threads_of_its_own_touches_nothing_of_those_of_its_parent()
-> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let opened = Database::create(folder.path("parent.simdb"), &external())?;
        let _writer = opened.writer(WriterOptions::new())?;
        thread::sleep(Duration::from_millis(50));
        for round in 0..8 {
            let Some(child) = fork()? else {
                in_child(|| {
                    let mut databases = Vec::new();
                    for number in 0..4 {
                        let path = folder.path(&format!("{round}-{number}.simdb"));
                        let database = Database::create(path, &external())?;
                        let writer = database.writer(WriterOptions::new())?;
                        databases.push((database, writer));
                    }
                    thread::scope(|scope| {
                        for number in 0..32u64 {
                            let (_, writer) = &databases[number as usize % databases.len()];
                            scope.spawn(move || {
                                let document = document(number.to_string(), number << 40);
                                writer.insert_if_new(&document, &Policy::link())
                            });
                        }
                    });
                    for (database, writer) in databases {
                        writer.close()?;
                        assert_eq!(database.snapshot()?.stats()?.documents, 8);
                    }
                    Ok(())
                })
            };
            child.ends_well();
        }
        Ok(())
    })
}

/// The file stayed in use by a process that was gone, and nobody was told who kept it.
#[cfg(target_os = "linux")]
#[test]
fn a_client_and_its_tickets_are_refused_in_a_forked_process_and_go_on_in_the_parent() -> TestResult
{
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let database = Database::create(&path, &external().serve(true))?;
        let client = Client::connect(&path, &ClientOptions::new())?;
        let policy = Policy::link();
        let txn = database.begin_write()?;
        let [first, waited] = ["a", "b"].map(|key| client.submit(&document(key, 1), &policy));
        let (first, waited) = (first?, waited?);
        // Another thread reads for all, and has the locks of the client now and then.
        let busy = {
            let client = client.clone();
            thread::spawn(move || client.insert_if_new(&document("c", 1), &Policy::link()))
        };
        for _ in 0..20 {
            thread::sleep(Duration::from_millis(3));
            let Some(child) = fork()? else {
                in_child(|| {
                    refused(|| client.submit(&document("of the child", 9), &policy));
                    refused(|| client.insert_if_new(&document("of the child", 9), &policy));
                    refused(|| client.insert_each_if_new([&document("x", 9)], &policy));
                    refused(|| client.query(&near(1)));
                    refused(|| client.get("a"));
                    refused(|| client.delete("a"));
                    refused(|| client.expire(&Expiry::new().before(7)));
                    refused(|| client.flush());
                    refused(|| client.close());
                    refused(|| first.wait());
                    refused(|| match waited.wait_for(Duration::ZERO) {
                        Ok(answer) => answer,
                        Err(_) => panic!("the ticket comes back"),
                    });
                    drop((client, txn, database));
                    Ok(())
                })
            };
            child.ends_well();
        }
        drop(txn);
        assert!(first.wait().is_ok() && waited.wait().is_ok());
        assert!(busy.join().expect("it does not panic").is_ok());
        client.close()?;
        assert_holds(database, &path, &["a", "b", "c"])
    })
}

#[test]
fn a_child_keeps_the_file_of_a_dead_parent_locked_and_is_named_until_it_abandons_the_handle()
-> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        drop(Database::create(&path, &external())?);
        let open = || -> TestResult<_> {
            let database = Database::open(&path, &OpenOptions::new())?;
            insert_all(&database, [document("a", 1)])?;
            let snapshot = database.snapshot()?;
            let writer = database.writer(WriterOptions::new())?;
            Ok((database, snapshot, writer))
        };
        let opens = |expected: Option<Holder>| {
            assert_eq!(holder(&path).expect("it opens, or is in use"), expected);
        };
        type Held = (Database, Snapshot, simdb::Writer);
        let steps: [&dyn Fn(&Held); 3] = [
            &|_| opens(Some(Holder::Inherited)),
            &|(database, _, _)| {
                database.abandon().expect("there are descriptors");
                database.abandon().expect("the second time nothing is done");
                refused(|| database.snapshot());
            },
            &|(database, _, _)| {
                refused(|| database.begin_write());
                opens(None);
            },
        ];
        let mut orphan = Orphan::of(open, &steps)?;
        assert_eq!(holder(&path)?, Some(Holder::Child(orphan.number)));
        run!("check", &path).refused(&format!("kept in use by process {}", orphan.number));
        orphan.step()?;
        assert_eq!(holder(&path)?, Some(Holder::Child(orphan.number)));
        orphan.step()?;
        assert_eq!(holder(&path)?, None, "it is abandoned");
        orphan.step()?;
        let database = Database::open(&path, &OpenOptions::new())?;
        assert_holds(database, &path, &["a"])
    })
}

/// A file that is being compacted is another one, with descriptors of its own, which nobody has in a handle yet.
#[cfg(target_os = "linux")]
#[test]
fn a_child_that_is_forked_in_the_middle_of_a_compaction_can_give_up_both_files() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        insert_all(
            &Database::create(&path, &external())?,
            keyed(0..5000, |i| i * 77),
        )?;
        let (told, to_child) = std::io::pipe()?;
        let Some(parent) = fork()? else {
            drop(to_child);
            in_child(|| {
                let database = Database::open(&path, &OpenOptions::new())?;
                let forked = AtomicBool::new(false);
                database.compact(|_, _| {
                    if !forked.swap(true, Ordering::Relaxed) && fork().expect("a child").is_none() {
                        in_child(|| {
                            database.abandon()?;
                            let mut told = told.try_clone()?;
                            _ = told.read(&mut [0])?;
                            Ok(())
                        });
                    }
                    ControlFlow::Continue(())
                })?;
                assert!(forked.load(Ordering::Relaxed));
                insert_all(&database, [document("after", 1)])?;
                end(0)
            })
        };
        parent.ends_well();
        // The child has had time to abandon it while the parent went on.
        within(CHILD, {
            let path = path.clone();
            move || while holder(&path).expect("it opens, or is in use").is_some() {}
        });
        drop(to_child);
        let database = Database::open(&path, &OpenOptions::new())?;
        assert_eq!(database.snapshot()?.stats()?.documents, 5001);
        assert_sound(&database)?;
        Ok(())
    })
}

/// A client of a dead process connected to the socket that a child still had, and waited for ever. A process that
/// closed its database while a child lived waited for its own thread for ever.
#[test]
fn a_child_neither_removes_the_sockets_of_its_parent_nor_answers_for_it() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let database = Database::create(&path, &external().serve(true))?;
        insert_all(&database, [document("a", 1)])?;
        let other = folder.path("other.sock");
        let socket = database.serve_at(&other)?;
        let beside = folder.path("d.simdb.sock");
        for way in 0..4 {
            let Some(child) = fork()? else {
                in_child(move || {
                    assert!(!socket.is_answering());
                    match way {
                        0 => drop(socket),
                        1 => drop(database),
                        2 => socket.close_when_answered(),
                        _ => database.abandon()?,
                    }
                    Ok(())
                })
            };
            child.ends_well();
            assert!(other.exists() && beside.exists());
            done!("get", &path, "a");
            done!("get", &path, "a --socket", &other);
        }
        // A child that lives has all descriptors too.
        let (mut told, to_child) = std::io::pipe()?;
        let Some(child) = fork()? else {
            drop(to_child);
            in_child(|| Ok(_ = told.read(&mut [0])?))
        };
        within(CHILD, move || drop((socket, database)));
        assert!(!other.exists() && !beside.exists());
        assert_eq!(
            holder(&path)?,
            None,
            "a parent that closes the database unlocks it for all"
        );
        drop(to_child);
        child.ends_well();
        Ok(())
    })
}

#[cfg(target_os = "linux")]
#[test]
fn nobody_waits_at_the_socket_of_a_dead_parent_whose_child_has_abandoned_it() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        drop(Database::create(&path, &external())?);
        let other = folder.path("other.sock");
        let open = || -> TestResult<_> {
            let database = Database::open(&path, &OpenOptions::new().serve(true))?;
            let socket = database.serve_at(&other)?;
            Ok((database, socket))
        };
        let abandon =
            |(database, _): &(Database, _)| database.abandon().expect("there are descriptors");
        let mut orphan = Orphan::of(open, &[&abandon])?;
        orphan.step()?;
        for socket in [&other, &folder.path("d.simdb.sock")] {
            let refused =
                std::os::unix::net::UnixStream::connect(socket).expect_err("nobody listens");
            assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        run!("get", &path, "a").expect(1);
        Ok(())
    })
}

/// Locks that other threads of the parent hold at the moment of the fork are held for ever in the child.
#[test]
fn a_hundred_children_of_a_busy_parent_end_at_once_and_it_loses_nothing() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let options = external()
            .serve(true)
            .recent_documents(500)
            .cache(simdb::Cache::Bytes(1 << 20));
        let database = Database::create(&path, &options)?;
        let writer = database.writer(WriterOptions::new())?;
        let policy = Policy::link();
        let is_done = AtomicBool::new(false);
        let counts = thread::scope(|scope| -> TestResult<Vec<u64>> {
            let (database, writer, policy, is_done) = (&database, &writer, &policy, &is_done);
            let writers = (0..2u64).map(|thread| {
                scope.spawn(move || -> simdb::Result<u64> {
                    let mut count = 0;
                    while !is_done.load(Ordering::Relaxed) {
                        let bits = spread(thread << 32 | count);
                        let document = Document::new(
                            format!("{thread} {count}"),
                            Fingerprint::from_bits(bits),
                        );
                        writer.insert_if_new(&document, policy)?;
                        count += 1;
                    }
                    Ok(count)
                })
            });
            let writers: Vec<_> = writers.collect();
            let readers = (0..2).map(|_| {
                scope.spawn(move || -> simdb::Result<()> {
                    while !is_done.load(Ordering::Relaxed) {
                        let snapshot = database.snapshot()?;
                        (0..50).try_for_each(|bits| snapshot.query(&near(bits)).map(drop))?;
                        _ = database.metrics();
                    }
                    Ok(())
                })
            });
            let readers: Vec<_> = readers.collect();
            let forked = (0..100).try_for_each(|round| -> TestResult {
                let snapshot = database.snapshot()?;
                // The threads work for a while, or wait for a transaction.
                thread::sleep(Duration::from_millis(round % 7));
                let txn = if round % 4 == 0 {
                    database.try_begin_write()?
                } else {
                    None
                };
                let ticket = writer.try_submit(document("ours", 0), policy)?;
                let Some(child) = fork()? else {
                    in_child(move || {
                        refused(|| database.snapshot());
                        refused(|| database.begin_write());
                        refused(|| snapshot.query(&near(1)));
                        refused(|| writer.insert_if_new(&document("of the child", 1), policy));
                        refused(|| match ticket {
                            TrySubmit::Accepted(ticket) => ticket.wait(),
                            TrySubmit::Full(_) => Err(Error::Forked),
                        });
                        refused(|| txn.map_or(Err(Error::Forked), simdb::WriteTxn::commit));
                        drop(snapshot);
                        _ = (database.metrics(), database.scheme());
                        database.abandon()?;
                        Ok(())
                    })
                };
                child.ends_well();
                Ok(())
            });
            is_done.store(true, Ordering::Relaxed);
            for reader in readers {
                reader.join().expect("no panic")?;
            }
            let counts = writers
                .into_iter()
                .map(|it| it.join().expect("no panic"))
                .collect::<simdb::Result<_>>()?;
            forked.map(|()| counts)
        })?;
        // Here too the threads work on, and the child drops all.
        let Some(child) = fork()? else {
            in_child(move || {
                drop((writer, database));
                Ok(())
            })
        };
        child.ends_well();
        writer.close()?;
        drop(writer);
        let mut expected = vec!["ours".to_owned()];
        (0..2).for_each(|thread| {
            expected.extend((0..counts[thread]).map(|count| format!("{thread} {count}")));
        });
        expected.sort_unstable();
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        assert!(
            counts.iter().all(|&count| count > 10),
            "the threads were busy: {counts:?}"
        );
        assert_holds(database, &path, &expected)
    })
}

/// A child may own a database of its own, and its children can tell whose handles they have.
#[test]
fn a_child_that_opens_a_database_itself_owns_it_and_its_own_children_do_not() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let path = folder.path("d.simdb");
        let other = folder.path("other.simdb");
        let database = Database::create(&path, &external())?;
        let Some(child) = fork()? else {
            in_child(|| {
                refused(|| database.snapshot());
                let own = Database::create(&other, &external())?;
                insert_all(&own, [document("a", 1)])?;
                // Nothing of its own is given up.
                own.abandon()?;
                database.abandon()?;
                let Some(grandchild) = fork()? else {
                    in_child(move || {
                        refused(|| database.snapshot());
                        refused(|| own.snapshot());
                        drop(own);
                        assert_eq!(
                            holder(&other)?,
                            Some(Holder::Process(std::os::unix::process::parent_id()))
                        );
                        Ok(())
                    })
                };
                grandchild.ends_well();
                insert_all(&own, [document("b", 2)])?;
                assert_holds(own, &other, &["a", "b"])
            })
        };
        child.ends_well();
        insert_all(&database, [document("c", 3)])?;
        assert_holds(database, &path, &["c"])
    })
}

/// What the descriptors of a process are of.
#[cfg(target_os = "linux")]
fn descriptors(process: &str) -> std::io::Result<Vec<std::path::PathBuf>> {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd"))?.flatten();
    // Those of a directory that is read, or of a library that is loaded, may be closed by now.
    Ok(descriptors
        .filter_map(|it| std::fs::read_link(it.path()).ok())
        .collect())
}

/// A program that is started, not only forked, inherits no descriptor.
#[cfg(target_os = "linux")]
#[test]
fn a_program_that_is_started_inherits_nothing() -> TestResult {
    alone(|| {
        let folder = Folder::new()?;
        let before = descriptors("self")?;
        let database = Database::create(
            folder.path("d.simdb"),
            &external().tiny_blocks().serve(true),
        )?;
        let _socket = database.serve_at(folder.path("other.sock"))?;
        let _snapshot = database.snapshot()?;
        let writer = database.writer(WriterOptions::new())?;
        writer.insert_if_new(&document("a", 1), &Policy::link())?;
        // So many that they wait in a temporary file.
        let mut txn = database.begin_write()?;
        for i in 0..700u64 {
            txn.insert(&document(i.to_string(), spread(i)))?;
        }
        let own: Vec<_> = descriptors("self")?
            .into_iter()
            .filter(|it| !before.contains(it))
            .collect();
        assert!(own.len() > 7, "{own:?}");
        let mut command = Command::new("sleep");
        let mut started = command
            .arg("60")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        let inherited = descriptors(&started.id().to_string())?;
        started.kill()?;
        started.wait()?;
        let ours: Vec<_> = inherited.iter().filter(|it| own.contains(it)).collect();
        assert!(ours.is_empty(), "{ours:?}");
        Ok(())
    })
}
