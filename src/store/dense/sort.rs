//! Sorting more rows than memory holds. Sorted parts go to temporary files without a name. The files are
//! merged range by range.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use rayon::slice::ParallelSliceMut;

use crate::error::{Error, Result};
use crate::store::blocks::Row;

/// One in this number of rows of a sorted file is a sample. If memory holds fewer rows, one row of each
/// file is.
const ROWS_PER_SAMPLE: usize = 1 << 13;
/// The number of samples of a range of rows that is merged at a time.
const SAMPLES_PER_RANGE: usize = 64;
/// This number of sorted files is merged into one, since each of them is open.
const MOST_FILES: usize = 64;

/// Rows that are being sorted. Equal rows become one.
pub(super) struct Sorter<R> {
    directory: PathBuf,
    /// The most rows that are kept in memory.
    limit: usize,
    rows: Vec<R>,
    /// Sorted files: first those written from memory, then those merged from these, and so on.
    rounds: Vec<Vec<BufReader<File>>>,
    samples: Vec<R>,
}

impl<R: Row> Sorter<R> {
    /// Keeps `limit` rows in memory, and the others in files without a name in `directory`.
    pub(super) fn new(directory: &Path, limit: usize) -> Self {
        Self {
            directory: directory.to_owned(),
            limit: limit.max(1),
            rows: Vec::new(),
            rounds: Vec::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, row: R) -> Result<()> {
        self.rows.push(row);
        if self.rows.len() >= self.limit { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> Result<()> {
        self.sort();
        self.samples.extend(self.rows.iter().step_by(self.limit.min(ROWS_PER_SAMPLE)));
        let mut sorted = NewSortedFile::new(&self.directory)?;
        sorted.write(&self.rows)?;
        self.rows.clear();
        self.add(0, sorted.finish()?)
    }

    fn sort(&mut self) {
        self.rows.par_sort_unstable();
        self.rows.dedup();
    }

    fn add(&mut self, round: usize, sorted: BufReader<File>) -> Result<()> {
        if self.rounds.len() == round {
            self.rounds.push(Vec::new());
        }
        self.rounds[round].push(sorted);
        if self.rounds[round].len() < MOST_FILES {
            return Ok(());
        }
        let files = std::mem::take(&mut self.rounds[round]);
        let mut merged = NewSortedFile::new(&self.directory)?;
        let bounds = self.bounds();
        merge(&self.directory, files, &bounds, |rows| merged.write(rows))?;
        self.add(round + 1, merged.finish()?)
    }

    /// The last rows of ranges that are about equally long, whatever the rows are.
    fn bounds(&mut self) -> Vec<R> {
        self.samples.sort_unstable();
        let bounds = self.samples.iter().skip(SAMPLES_PER_RANGE).step_by(SAMPLES_PER_RANGE).copied();
        bounds.chain([R::MAX]).collect()
    }

    /// Calls `each` with all rows in order, each once, in parts.
    pub(super) fn finish(mut self, mut each: impl FnMut(&[R]) -> Result<()>) -> Result<()> {
        if self.rounds.is_empty() {
            self.sort();
            return self.rows.chunks(ROWS_PER_SAMPLE * SAMPLES_PER_RANGE).try_for_each(each);
        }
        self.spill()?;
        self.rows = Vec::new();
        let bounds = self.bounds();
        merge(&self.directory, self.rounds.into_iter().flatten().collect(), &bounds, &mut each)
    }
}

/// Calls `each` with the rows of all files in order, each once. A part ends at each bound.
fn merge<R: Row>(
    directory: &Path,
    files: Vec<BufReader<File>>,
    bounds: &[R],
    mut each: impl FnMut(&[R]) -> Result<()>,
) -> Result<()> {
    let failed = |source| Error::Io { path: directory.to_owned(), source };
    let mut files: Vec<SortedFile<R>> =
        files.into_iter().map(|file| SortedFile::new(file).map_err(failed)).collect::<Result<_>>()?;
    let mut part = Vec::new();
    for &bound in bounds {
        part.clear();
        for sorted in &mut files {
            while let Some(row) = sorted.head.filter(|&row| row <= bound) {
                part.push(row);
                sorted.advance().map_err(failed)?;
            }
        }
        // The rows of each file are in order. A stable sort finds that, and merges them.
        part.sort();
        part.dedup();
        each(&part)?;
    }
    Ok(())
}

/// A file without a name to which sorted rows are written.
struct NewSortedFile {
    directory: PathBuf,
    file: BufWriter<File>,
}

impl NewSortedFile {
    fn new(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory);
        let file = file.map_err(|source| Error::Io { path: directory.to_owned(), source })?;
        Ok(Self { directory: directory.to_owned(), file: BufWriter::with_capacity(1 << 20, file) })
    }

    fn write<R: Row>(&mut self, rows: &[R]) -> Result<()> {
        let written =
            rows.iter().try_for_each(|row| self.file.write_all(&row.number().to_le_bytes()[..R::BYTES]));
        written.map_err(|source| Error::Io { path: self.directory.clone(), source })
    }

    fn finish(self) -> Result<BufReader<File>> {
        let rewound = self.file.into_inner().map_err(io::IntoInnerError::into_error).and_then(|mut file| {
            file.rewind()?;
            Ok(BufReader::with_capacity(256 << 10, file))
        });
        rewound.map_err(|source| Error::Io { path: self.directory, source })
    }
}

/// Sorted rows in a file, and the first row that is not taken yet.
struct SortedFile<R> {
    file: BufReader<File>,
    head: Option<R>,
}

impl<R: Row> SortedFile<R> {
    fn new(file: BufReader<File>) -> io::Result<Self> {
        let mut sorted = Self { file, head: None };
        sorted.advance()?;
        Ok(sorted)
    }

    fn advance(&mut self) -> io::Result<()> {
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

    /// Equal rows, or rows that are close to each other, come out in parts that fit into memory too.
    #[test]
    fn parts_are_short_whatever_the_rows_are() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let rows = |row: fn(u64) -> u128| (0..200_000).map(row);
        assert!(longest_part(folder.path(), rows(u128::from))? < 80_000);
        assert!(longest_part(folder.path(), rows(|i| u128::from(i) << 100))? < 80_000);
        assert!(longest_part(folder.path(), rows(|i| 9 << 64 | u128::from(i)))? < 80_000);
        assert_eq!(longest_part(folder.path(), rows(|_| 7))?, 1);
        Ok(())
    }

    fn longest_part(folder: &Path, rows: impl Iterator<Item = u128>) -> Result<usize> {
        let mut sorter = Sorter::new(folder, 1_000);
        for row in rows {
            sorter.push(row)?;
        }
        let mut longest = 0;
        sorter.finish(|part| {
            longest = longest.max(part.len());
            Ok(())
        })?;
        Ok(longest)
    }

    #[test]
    fn rows_come_out_in_order_whether_they_fit_into_memory_or_not() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        // The last case makes enough files to merge them twice.
        for (count, limit) in [(0, 10), (1, 1), (500, 1000), (500, 100), (1001, 7), (2500, 1)] {
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
