//! Sorting more rows than memory holds: sorted runs in unnamed temporary files, merged range by range.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rayon::slice::ParallelSliceMut;

use super::block::Row;
use crate::error::{Error, Result};

/// So many rows are merged at a time, if they are evenly spread.
const ROWS_PER_RANGE: u64 = 1 << 19;

/// Rows on their way into order.
pub(super) struct Sorter<R> {
    directory: PathBuf,
    /// How many rows are kept in memory.
    limit: usize,
    rows: Vec<R>,
    runs: Vec<BufReader<File>>,
    spilled: u64,
}

impl<R: Row> Sorter<R> {
    /// Keeps `limit` rows in memory, and the others in files without a name in `directory`.
    pub(super) fn new(directory: &Path, limit: usize) -> Self {
        Self {
            directory: directory.to_owned(),
            limit: limit.max(1),
            rows: Vec::new(),
            runs: Vec::new(),
            spilled: 0,
        }
    }

    pub(super) fn push(&mut self, row: R) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() >= self.limit { self.spill() } else { Ok(()) }
    }

    fn failed(&self, source: io::Error) -> Error {
        Error::Io { path: self.directory.clone(), source }
    }

    fn spill(&mut self) -> Result<()> {
        self.rows.par_sort_unstable();
        let written = || -> io::Result<BufReader<File>> {
            let mut file = BufWriter::with_capacity(1 << 20, tempfile::tempfile_in(&self.directory)?);
            for row in &self.rows {
                file.write_all(&row.number().to_le_bytes()[..R::BYTES])?;
            }
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            Ok(BufReader::with_capacity(256 << 10, file))
        };
        let run = written().map_err(|source| self.failed(source))?;
        self.runs.push(run);
        self.spilled += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }

    /// Calls `each` with all rows in order, each once, some at a time.
    pub(super) fn finish(mut self, mut each: impl FnMut(&[R]) -> Result<()>) -> Result<()> {
        if self.runs.is_empty() {
            self.rows.par_sort_unstable();
            self.rows.dedup();
            return self.rows.chunks(ROWS_PER_RANGE as usize).try_for_each(each);
        }
        self.spill()?;
        self.rows = Vec::new();
        let ranges = self.spilled.div_ceil(ROWS_PER_RANGE);
        let directory = self.directory;
        let failed = |source| Error::Io { path: directory.clone(), source };
        let runs: Result<Vec<Run<R>>> =
            self.runs.into_iter().map(|file| Run::new(file).map_err(failed)).collect();
        let mut runs = runs?;
        let mut part = Vec::new();
        for range in 1..=ranges {
            // Rows of one lead are always in one range.
            let last = if range == ranges { u64::MAX } else { (u64::MAX / ranges) * range };
            part.clear();
            for run in &mut runs {
                while let Some(row) = run.head.filter(|row| row.lead() <= last) {
                    part.push(row);
                    run.step().map_err(failed)?;
                }
            }
            // Runs after one another, which a stable sort finds and merges.
            part.sort();
            part.dedup();
            each(&part)?;
        }
        Ok(())
    }
}

/// Sorted rows in a file, and the first that is not taken yet.
struct Run<R> {
    file: BufReader<File>,
    head: Option<R>,
}

impl<R: Row> Run<R> {
    fn new(file: BufReader<File>) -> io::Result<Self> {
        let mut run = Self { file, head: None };
        run.step()?;
        Ok(run)
    }

    fn step(&mut self) -> io::Result<()> {
        let mut number = [0; 16];
        self.head = match self.file.read_exact(&mut number[..R::BYTES]) {
            Ok(()) => Some(R::from_number(u128::from_le_bytes(number))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(error),
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn rows_come_out_in_order_whether_they_fit_into_memory_or_not() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        for (count, limit) in [(0, 10), (1, 1), (500, 1000), (500, 100), (1001, 7)] {
            let mut sorter = Sorter::new(folder.path(), limit);
            let rows: Vec<u128> = (0..count)
                .map(|i: u64| u128::from(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | 5)
                .collect();
            for row in rows.iter().chain(&rows) {
                sorter.push(*row)?;
            }
            let mut found = Vec::new();
            sorter.finish(|part| {
                found.extend_from_slice(part);
                Ok(())
            })?;
            let right: Vec<u128> = rows.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
            assert_eq!(found, right, "{count} rows, {limit} at a time");
        }
        Ok(())
    }
}
