//! Runs one peer: stores the fingerprints, compares the answers with known ones, times the queries, and
//! prints the measurements as one JSON object.
//!
//! `run.py` beside this package makes the data, runs each peer in a process of its own and prints the
//! table.

mod bk;
mod gaoya;
mod measure;
mod mih;
mod plain;
mod simdb;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use measure::{Questions, Result, Task};

#[derive(Parser)]
#[command(about = "Measure one way to find near fingerprints")]
struct Arguments {
    #[command(subcommand)]
    peer: Peer,
    #[command(flatten)]
    task: TaskArguments,
}

#[derive(Subcommand)]
enum Peer {
    /// simdb itself
    Simdb(simdb::Options),
    /// The plain layout: redb tables with one row per fingerprint
    Plain(plain::Options),
    /// mih-rs: multi-index hashing in memory
    Mih(mih::Options),
    /// gaoya: tables of masked fingerprints in memory
    Gaoya(gaoya::Options),
    /// bk-tree: a tree in memory, by distances
    Bk,
}

#[derive(Args)]
struct TaskArguments {
    /// The fingerprints to store, all different; these and the queries are 64-bit little-endian words
    #[arg(long, global = true, required = false)]
    fingerprints: PathBuf,
    /// The folder of the questions. For each distance K, `queries-K` has the fingerprints to ask for, and for each of
    /// the first of these, `answers-K` says how many fingerprints are so near: 32-bit little-endian words
    #[arg(long, global = true, required = false)]
    questions: PathBuf,
    /// The distances, the least first
    #[arg(long, global = true, value_delimiter = ',', default_values_t = [3, 7])]
    distances: Vec<u32>,
    /// The distance for which simdb chooses its tables
    #[arg(long, global = true, default_value_t = 3)]
    made_for: u32,
    /// Where files are written; they are left there
    #[arg(long, global = true, required = false)]
    directory: PathBuf,
    /// When to stop inserting
    #[arg(long, global = true, default_value_t = 3600.0)]
    limit_seconds: f64,
    /// How often the queries are timed
    #[arg(long, global = true, default_value_t = 5)]
    passes: usize,
    /// About how long one pass may take; a slow peer is asked only the first of the queries
    #[arg(long, global = true, default_value_t = 10.0)]
    pass_seconds: f64,
}

impl TaskArguments {
    fn task(self) -> Result<Task> {
        let mut questions = Vec::new();
        for &distance in &self.distances {
            questions.push(Questions::read(distance, &self.questions)?);
        }
        if questions.is_empty() {
            return Err("there has to be a distance".into());
        }
        Ok(Task {
            questions,
            made_for: self.made_for,
            fingerprints: self.fingerprints,
            directory: self.directory,
            limit: Duration::try_from_secs_f64(self.limit_seconds)?,
            passes: self.passes.max(1),
            pass: Duration::try_from_secs_f64(self.pass_seconds)?,
        })
    }
}

fn run() -> Result<()> {
    let arguments = Arguments::parse();
    let task = arguments.task.task()?;
    let report = match arguments.peer {
        Peer::Simdb(options) => simdb::run(&options, &task),
        Peer::Plain(options) => plain::run(&options, &task),
        Peer::Mih(options) => mih::run(&options, &task),
        Peer::Gaoya(options) => gaoya::run(&options, &task),
        Peer::Bk => bk::run(&task),
    }?;
    writeln!(std::io::stdout(), "{report}")?;
    Ok(())
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("simdb-peers: {error}");
            ExitCode::from(2)
        }
    }
}
