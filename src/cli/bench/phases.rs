//! Runs the phases in turn and prints the row of each.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::Error;

use super::arguments::{Arguments, Phase};
use super::row::Row;
use super::sense::ensure_sense;
use super::state::Bench;
use crate::cli::answer::{Answer, CommandResult, Failure};
use crate::cli::console::Console;
use crate::cli::output::Output;
use crate::cli::signals::Ending;

pub(in crate::cli) fn run(
    arguments: &Arguments,
    output: &mut Output,
    ending: &Ending,
) -> CommandResult {
    ensure_sense(arguments)?;
    let folder = tempfile::Builder::new()
        .prefix("simdb-bench-")
        .tempdir_in(&arguments.directory)?;
    remove_when_ended(folder.path(), ending, output.console())?;
    let mut bench = Bench::create(
        arguments,
        folder.path().join("bench.simdb"),
        output.console(),
    )?;
    for &phase in &arguments.phases {
        let name = phase.name();
        for (distance, threads) in arguments.questions(phase) {
            let mut row = Row::new(&name);
            let begun = Instant::now();
            let measured = bench.measure(phase, distance, threads, &mut row);
            wait_for_end(ending);
            measured?;
            row.add_rounded("seconds_in_all", begun.elapsed().as_secs_f64());
            bench.add_sizes(&mut row)?;
            row.print(output);
            output.flush()?;
        }
    }
    Ok(Answer::Yes)
}

/// Watches for the end of the process in another thread. A phase can take minutes, and hours for large files, and there
/// is nothing to bring to a good end but to remove the files.
fn remove_when_ended(folder: &Path, ending: &Ending, console: &Console) -> Result<(), Error> {
    let (folder, ending, console) = (folder.to_owned(), ending.clone(), console.clone());
    let watch = move || {
        while !ending.is_asked() {
            std::thread::sleep(Duration::from_millis(50));
        }
        // A phase that goes on meanwhile may put a file there once more.
        while folder.exists() && std::fs::remove_dir_all(&folder).is_err() {
            std::thread::sleep(Duration::from_millis(1));
        }
        console.complain("ended before it was done; nothing is left behind");
        ending.end_process();
    };
    std::thread::Builder::new()
        .spawn(watch)
        .map(drop)
        .map_err(Error::no_thread)
}

/// Waits for the end of the process, if it is to end. Errors then come from the removal of the files.
fn wait_for_end(ending: &Ending) {
    while ending.is_asked() {
        std::thread::sleep(Duration::from_secs(1));
    }
}

impl Bench<'_> {
    fn measure(
        &mut self,
        phase: Phase,
        distance: u32,
        threads: u64,
        row: &mut Row,
    ) -> Result<(), Failure> {
        match phase {
            Phase::Build => self.build(row)?,
            Phase::Insert => self.insert(self.arguments.documents, self.arguments.batch, row)?,
            Phase::Link => self.link(row)?,
            Phase::Writer => self.submit(threads, row)?,
            Phase::Commit => self.insert(1000, 1, row)?,
            Phase::Replace => self.replace(row)?,
            Phase::Query => self.query(distance, threads, row)?,
            Phase::List => self.list(distance, threads, row)?,
            Phase::Any => self.any(distance, threads, row)?,
            Phase::Batch => self.batch(distance, row)?,
            Phase::Beside => self.beside(distance, row)?,
            Phase::Cold => self.cold(distance, row)?,
            Phase::Delete => self.delete(row)?,
            Phase::Expire => self.expire(row)?,
            Phase::Window => self.window(distance, row)?,
            Phase::Settle => {
                self.database()?.settle()?;
                // Merges that wait for a pause begin after a second without commits.
                std::thread::sleep(Duration::from_secs(2));
                self.database()?.settle()?;
            }
            Phase::Compact => {
                let begun = Instant::now();
                self.database()?
                    .compact(|_, _| std::ops::ControlFlow::Continue(()))?;
                row.add_rounded("seconds", begun.elapsed().as_secs_f64());
            }
            Phase::Reopen => {
                let begun = Instant::now();
                self.database = None;
                row.add_rounded("close_seconds", begun.elapsed().as_secs_f64());
                let begun = Instant::now();
                self.open()?;
                row.add_rounded("open_seconds", begun.elapsed().as_secs_f64());
            }
        }
        Ok(())
    }

    fn add_sizes(&self, row: &mut Row) -> Result<(), Failure> {
        let stats = self.database()?.snapshot()?.stats()?;
        row.add("file_bytes", stats.file_bytes);
        row.add("allocated_bytes", stats.allocated_bytes);
        row.add("directory_bytes", stats.directory_bytes);
        if let Some(memory) = memory_bytes() {
            row.add("memory_bytes", memory);
        }
        Ok(())
    }
}

/// The memory that the process has in use, if the system tells (bytes).
fn memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
