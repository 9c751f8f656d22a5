//! Sorting more rows than memory holds. Sorted runs go to temporary files without a name. The runs are
//! merged range by range.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::parallel;
use crate::store::blocks::Row;

/// At least this number of rows is kept in memory. With fewer rows in a run, there would be more runs than
/// a few rounds of merging can deal with.
const LEAST_ROWS: usize = 1 << 16;
/// One in this number of rows of a run is a sample. If memory holds fewer rows, one row of each run is.
const ROWS_PER_SAMPLE: usize = 1 << 13;
/// The number of samples of a range of rows that is merged at a time.
const SAMPLES_PER_RANGE: usize = 64;
/// This number of runs is merged into one, since each takes a buffer while it is read.
const MOST_RUNS: usize = 64;
/// The bytes of a run that are read at a time.
const BUFFER_BYTES: usize = 64 << 10;

/// Rows that are being sorted. Equal rows become one.
pub(super) struct Sorter<R> {
    directory: PathBuf,
    /// The most rows that are kept in memory.
    limit: usize,
    rows: Vec<R>,
    /// The number of rows that were pushed, each repetition counted.
    pushed: u64,
    /// Sorted runs: first those written from memory, then those merged from these, and so on. The runs of
    /// a round are in one file. So a sorter has only a few files open.
    rounds: Vec<Option<Runs>>,
    samples: Vec<R>,
}

impl<R: Row> Sorter<R> {
    /// Keeps `limit` rows in memory, but at least [`LEAST_ROWS`]. The others are kept in files without a
    /// name in `directory`.
    pub(super) fn new(directory: &Path, limit: usize) -> Self {
        Self::with_limit(directory, limit.max(LEAST_ROWS))
    }

    fn with_limit(directory: &Path, limit: usize) -> Self {
        Self {
            directory: directory.to_owned(),
            limit,
            rows: Vec::new(),
            pushed: 0,
            rounds: Vec::new(),
            samples: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, row: R) -> Result<()> {
        self.pushed += 1;
        self.rows.push(row);
        if self.rows.len() >= self.limit {
            self.spill()
        } else {
            Ok(())
        }
    }

    pub(super) fn pushed(&self) -> u64 {
        self.pushed
    }

    fn spill(&mut self) -> Result<()> {
        self.sort();
        self.samples
            .extend(self.rows.iter().step_by(self.limit.min(ROWS_PER_SAMPLE)));
        let rows = std::mem::take(&mut self.rows);
        self.runs_of(0)?.add(|write| write(&rows))?;
        // The memory is used again.
        self.rows = rows;
        self.rows.clear();
        self.merge_full_rounds()
    }

    fn sort(&mut self) {
        parallel::sort(&mut self.rows);
        self.rows.dedup();
    }

    fn runs_of(&mut self, round: usize) -> Result<&mut Runs> {
        if self.rounds.len() <= round {
            self.rounds.resize_with(round + 1, || None);
        }
        let runs = match self.rounds[round].take() {
            Some(runs) => runs,
            None => Runs::new(&self.directory)?,
        };
        Ok(self.rounds[round].insert(runs))
    }

    /// Merges the runs of each round that has many into one run of the next round. Their file is gone
    /// afterwards.
    fn merge_full_rounds(&mut self) -> Result<()> {
        for round in 0.. {
            let Some(runs) = self.rounds.get_mut(round) else {
                break;
            };
            let Some(runs) = runs.take_if(|runs| runs.places.len() >= MOST_RUNS) else {
                break;
            };
            let bounds = self.bounds();
            self.runs_of(round + 1)?
                .add(|write| merge(&[runs], &bounds, write))?;
        }
        Ok(())
    }

    /// The last rows of ranges that are about equally long, whatever the rows are.
    fn bounds(&mut self) -> Vec<R> {
        self.samples.sort_unstable();
        let bounds = self
            .samples
            .iter()
            .skip(SAMPLES_PER_RANGE)
            .step_by(SAMPLES_PER_RANGE)
            .copied();
        bounds.chain([R::MAX]).collect()
    }

    /// Calls `each` with all rows in order, each once, in parts.
    pub(super) fn finish(mut self, mut each: impl FnMut(&[R]) -> Result<()>) -> Result<()> {
        if self.rounds.is_empty() {
            self.sort();
            return self
                .rows
                .chunks(ROWS_PER_SAMPLE * SAMPLES_PER_RANGE)
                .try_for_each(each);
        }
        self.spill()?;
        self.rows = Vec::new();
        let bounds = self.bounds();
        let rounds: Vec<Runs> = self.rounds.into_iter().flatten().collect();
        merge(&rounds, &bounds, &mut each)
    }
}

/// Calls `each` with the rows of all runs in order, each once. A part ends at each bound.
fn merge<R: Row>(
    rounds: &[Runs],
    bounds: &[R],
    each: &mut dyn FnMut(&[R]) -> Result<()>,
) -> Result<()> {
    let readers = rounds.iter().flat_map(Runs::readers);
    let mut runs: Vec<RunReader<'_, R>> = readers.collect::<Result<_>>()?;
    let mut part = Vec::new();
    for &bound in bounds {
        part.clear();
        for run in &mut runs {
            while let Some(row) = run.head.filter(|&row| row <= bound) {
                part.push(row);
                run.advance()?;
            }
        }
        // The rows of each run are in order. A stable sort finds that, and merges them.
        part.sort();
        part.dedup();
        each(&part)?;
    }
    Ok(())
}

/// Sorted runs of rows, one after the other in a file without a name.
struct Runs {
    directory: PathBuf,
    file: File,
    /// The bytes of the file that each run has.
    places: Vec<Range<u64>>,
}

impl Runs {
    fn new(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory).map_err(Error::io(directory))?;
        Ok(Self {
            directory: directory.to_owned(),
            file,
            places: Vec::new(),
        })
    }

    /// Adds a run. `fill` gets a function that writes its rows, some at a time.
    fn add<R: Row>(
        &mut self,
        fill: impl FnOnce(&mut dyn FnMut(&[R]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let begin = self.places.last().map_or(0, |last| last.end);
        (&self.file)
            .seek(SeekFrom::Start(begin))
            .map_err(Error::io(&self.directory))?;
        let mut file = BufWriter::with_capacity(1 << 20, &self.file);
        let mut end = begin;
        fill(&mut |rows| {
            end += (rows.len() * R::BYTES) as u64;
            let mut bytes = rows.iter().map(|row| row.number().to_le_bytes());
            bytes
                .try_for_each(|row| file.write_all(&row[..R::BYTES]))
                .map_err(Error::io(&self.directory))
        })?;
        file.flush().map_err(Error::io(&self.directory))?;
        drop(file);
        self.places.push(begin..end);
        Ok(())
    }

    fn readers<R: Row>(&self) -> impl Iterator<Item = Result<RunReader<'_, R>>> {
        self.places.iter().map(|place| {
            let bytes = RunBytes {
                file: &self.file,
                left: place.clone(),
            };
            let bytes = BufReader::with_capacity(BUFFER_BYTES, bytes);
            let mut reader = RunReader {
                runs: self,
                bytes,
                head: None,
            };
            reader.advance()?;
            Ok(reader)
        })
    }
}

/// The bytes of a run in a file that others read too.
struct RunBytes<'a> {
    file: &'a File,
    /// The bytes that were not read yet.
    left: Range<u64>,
}

impl Read for RunBytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer
            .len()
            .min(usize::try_from(self.left.end - self.left.start).unwrap_or(usize::MAX));
        self.file.seek(SeekFrom::Start(self.left.start))?;
        let read = self.file.read(&mut buffer[..most])?;
        if read == 0 && most > 0 {
            // Its end would be taken for that of the run.
            return Err(io::Error::other("a temporary file is shorter than it was"));
        }
        self.left.start += read as u64;
        Ok(read)
    }
}

/// Reads a run. `head` is the first row that is not taken yet.
struct RunReader<'a, R> {
    runs: &'a Runs,
    bytes: BufReader<RunBytes<'a>>,
    head: Option<R>,
}

impl<R: Row> RunReader<'_, R> {
    fn advance(&mut self) -> Result<()> {
        let mut number = [0; 16];
        self.head = match self.bytes.read_exact(&mut number[..R::BYTES]) {
            Ok(()) => Some(R::from_number(u128::from_le_bytes(number))),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => None,
            Err(error) => return Err(Error::io(&self.runs.directory)(error)),
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
        let mut sorter = Sorter::with_limit(folder, 1_000);
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
        // The last case makes enough runs to merge them twice.
        for (count, limit) in [
            (0, 10),
            (1, 1),
            (500, 1000),
            (500, 100),
            (1001, 7),
            (2500, 1),
        ] {
            let mut sorter = Sorter::with_limit(folder.path(), limit);
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
            let right: Vec<u128> = rows
                .into_iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            assert_eq!(found, right, "{count} rows, {limit} at a time");
        }
        Ok(())
    }

    /// Each row was a run, and each run a file that was open. With a memory of one byte, loading a million
    /// documents did not end. With some more it took more open files than a process may have.
    #[test]
    fn few_files_are_open_whatever_the_limit_is() -> Result<()> {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let mut sorter = Sorter::with_limit(folder.path(), 1);
        for row in 0..5_000u64 {
            sorter.push(row)?;
            assert!(
                sorter
                    .rounds
                    .iter()
                    .flatten()
                    .all(|runs| runs.places.len() < MOST_RUNS)
            );
        }
        // 5,000 runs of one row are one run of 64 times 64, 14 runs of 64, and 8 of one.
        let runs: Vec<usize> = sorter
            .rounds
            .iter()
            .flatten()
            .map(|runs| runs.places.len())
            .collect();
        assert_eq!(runs, [8, 14, 1]);
        assert_eq!(Sorter::<u64>::new(folder.path(), 0).limit, LEAST_ROWS);
        Ok(())
    }
}
