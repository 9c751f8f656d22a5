//! A crawler's ingestion: many threads read pages, one writer stores them, and a stop at any moment loses nothing.
//!
//! ```sh
//! cargo run --release --example crawler -- pages.simdb FOLDER-OR-FILE...
//! ```
//!
//! Folders of HTML pages, web archives, and any inputs that `simdb ingest` reads. Ctrl-C ends it in order. The same
//! command goes on where it stopped, also after a kill. Near-duplicates are not stored; each is printed with the page
//! it is like. `simdb stats pages.simdb` and other commands are answered while it runs.

use std::collections::VecDeque;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, fs, thread};

use simdb::ingest::{Fingerprinting, ReadOptions, ReadRecord, Record, Records, Rejected};
use simdb::{Answers, CreateOptions, Database, Policy, Verdict, Writer, WriterOptions};

type Failure = Box<dyn Error + Send + Sync>;

/// What all threads share.
struct Crawl {
    database: Database,
    writer: Writer,
    rule: Fingerprinting,
    inputs: Mutex<VecDeque<PathBuf>>,
    /// Whether an input could not be read.
    has_failed: AtomicBool,
    /// Set by Ctrl-C.
    stop: Arc<AtomicBool>,
    new: Arc<AtomicU64>,
    duplicates: Arc<AtomicU64>,
}

fn main() -> Result<(), Failure> {
    let mut arguments = env::args_os().skip(1).map(PathBuf::from);
    let path = arguments
        .next()
        .ok_or("usage: crawler DATABASE FOLDER-OR-FILE...")?;
    let mut inputs = VecDeque::new();
    arguments.try_for_each(|input| add_files(&input, &mut inputs))?;
    // What is not there is told before anything is made.
    for input in &inputs {
        fs::metadata(input).map_err(|error| format!("{}: {error}", input.display()))?;
    }

    let stop = Arc::new(AtomicBool::new(false));
    // A second Ctrl-C ends the program at once. That loses nothing either.
    signal_hook::flag::register_conditional_shutdown(
        signal_hook::consts::SIGINT,
        130,
        stop.clone(),
    )?;
    signal_hook::flag::register(signal_hook::consts::SIGINT, stop.clone())?;

    let database = Database::open_or_create(&path, &CreateOptions::new().serve(true))?;
    let rule = Fingerprinting::new(database.scheme(), None)?.sketch_size(database.sketch_size());
    // Verdicts come before the commit. So a page that is printed twice after a kill is possible, and none is missing.
    let writer = database.writer(WriterOptions::new().answers(Answers::Decided))?;
    let (new, duplicates) = Default::default();
    let crawl = Crawl {
        database,
        writer,
        rule,
        inputs: Mutex::new(inputs),
        has_failed: false.into(),
        stop,
        new,
        duplicates,
    };
    let threads = thread::available_parallelism()?.get();
    thread::scope(|scope| -> Result<(), Failure> {
        let start = |_| thread::Builder::new().spawn_scoped(scope, || crawl.work());
        let workers = (0..threads).map(start).collect::<Result<Vec<_>, _>>()?;
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().map_err(|_| "a worker has panicked")?)
    })?;
    // What was submitted becomes durable, with the places up to which the inputs were read.
    crawl.writer.close()?;
    let [new, duplicates] = [&crawl.new, &crawl.duplicates].map(|it| it.load(Ordering::Relaxed));
    let stopped = if crawl.is_stopped() {
        "; stopped, the same command goes on from here"
    } else {
        ""
    };
    eprintln!("{new} pages stored, {duplicates} near-duplicates{stopped}");
    if crawl.has_failed.into_inner() {
        Err("not all inputs could be read".into())
    } else {
        Ok(())
    }
}

/// Adds a file, or all files in a folder and its folders.
fn add_files(path: &Path, files: &mut VecDeque<PathBuf>) -> Result<(), Failure> {
    if !path.is_dir() {
        files.push_back(path.to_owned());
        return Ok(());
    }
    let mut entries = fs::read_dir(path)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    entries
        .iter()
        .try_for_each(|entry| add_files(&entry.path(), files))
}

impl Crawl {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Reads one input after the other, until there is none or the program is to stop.
    fn work(&self) -> Result<(), Failure> {
        while !self.is_stopped() {
            let next = self
                .inputs
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            let Some(input) = next else { break };
            if let Err(error) = self.read(&input) {
                // Another input may be good. A database that has failed refuses everything, and ends all threads.
                eprintln!("{error}");
                self.has_failed.store(true, Ordering::Relaxed);
                self.writer.flush()?;
            }
        }
        Ok(())
    }

    /// Reads an input from where it was read up to, and submits its pages.
    fn read(&self, input: &Path) -> Result<(), Failure> {
        let mut records = Records::open([input], ReadOptions::new())?;
        records.resume(&self.database.snapshot()?)?;
        while !self.is_stopped() {
            let chunk = records.next_read(|record: Record| record.into_document(self.rule))?;
            if chunk.is_empty() {
                break;
            }
            for ReadRecord {
                record, reached, ..
            } in chunk
            {
                self.submit(record, reached)?;
            }
        }
        Ok(())
    }

    /// Submits a page with the place behind it. Both become durable together.
    fn submit(
        &self,
        record: Option<Result<simdb::Document, Rejected>>,
        reached: Option<simdb::source::Reached>,
    ) -> Result<(), Failure> {
        match record {
            Some(Ok(page)) => {
                let (new, duplicates) = (self.new.clone(), self.duplicates.clone());
                let key = String::from_utf8_lossy(page.key()).into_owned();
                let answered = move |verdict: simdb::Result<Verdict>| match verdict {
                    Ok(verdict) if verdict.is_duplicate() => {
                        duplicates.fetch_add(1, Ordering::Relaxed);
                        print_duplicate(&key, &verdict);
                    }
                    Ok(_) => _ = new.fetch_add(1, Ordering::Relaxed),
                    Err(error) => eprintln!("{key}: {error}"),
                };
                self.writer
                    .submit_with((page, reached), &Policy::skip(), answered)?;
            }
            Some(Err(rejected)) => {
                eprintln!("rejected: {rejected}");
                reached
                    .map(|reached| self.writer.submit_reached(reached))
                    .transpose()?;
            }
            // The end of the input.
            None => {
                _ = reached
                    .map(|reached| self.writer.submit_reached(reached))
                    .transpose()?;
            }
        }
        Ok(())
    }
}

fn print_duplicate(key: &str, verdict: &Verdict) {
    if let Some(nearest) = verdict.matches().nearest() {
        let of = String::from_utf8_lossy(nearest.document.key());
        println!("{key}\t{}\t{of}", nearest.distance);
    }
}
