//! Runs the phases in turn and prints the row of each.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use crate::Failure;
use crate::arguments::{Arguments, Phase};
use crate::clients;
use crate::ending::Ending;
use crate::state::{Bench, Row};

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(database) = &arguments.client_of {
        return clients::be_client(arguments, database);
    }
    arguments.ensure_sense()?;
    let folder = tempfile::Builder::new()
        .prefix("simdb-bench-")
        .tempdir_in(&arguments.directory)?;
    let ending = Ending::remove_when_asked(folder.path())?;
    let mut bench = Bench::create(arguments, folder.path().join("bench.simdb"))?;
    for &phase in &arguments.phases {
        for (distance, threads) in arguments.questions(phase) {
            let mut row = Row::new(&phase.name());
            let begun = Instant::now();
            let measured = bench.measure(phase, distance, threads, &mut row);
            ending.wait_if_asked();
            measured?;
            row.add_rounded("seconds_in_all", begun.elapsed().as_secs_f64());
            bench.add_sizes(&mut row)?;
            row.print(arguments.json)?;
        }
    }
    Ok(())
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
            Phase::Clients => self.serve_clients(threads, row)?,
            Phase::Commit => self.insert(1000, 1, row)?,
            Phase::Replace => self.replace(row)?,
            Phase::Query => self.query(distance, threads, row)?,
            Phase::List => self.list(distance, threads, row)?,
            Phase::Any => self.any(distance, threads, row)?,
            Phase::Nearest => self.nearest(threads, row)?,
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
                self.database()?.compact(|_, _| ControlFlow::Continue(()))?;
                row.add_rounded("seconds", begun.elapsed().as_secs_f64());
            }
            Phase::Warm => {
                let begun = Instant::now();
                self.database()?.warm(|_, _| ControlFlow::Continue(()))?;
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
