//! Rows that operations put and mark, collected without being searched, and sorted once at the end.

use super::lists::{Life, merge};
use super::run::{Rules, Run};
use crate::store::blocks::{Lists, Row};

/// Rows that are put and marked, in the order in which that happens. An [`Overlay`](super::Overlay) of the
/// same rows gives the same run. It can be searched at any time, and takes several times as long.
pub(crate) struct Collected<R> {
    rules: Rules,
    puts: Vec<R>,
    /// Each with the number of puts before it.
    marks: Vec<(R, usize)>,
}

impl<R: Row> Collected<R> {
    /// With room for `puts` rows that are put.
    pub(crate) fn new(rules: Rules, puts: usize) -> Self {
        Self {
            rules,
            puts: Vec::with_capacity(puts),
            marks: Vec::new(),
        }
    }

    pub(crate) fn put(&mut self, row: R) {
        self.puts.push(row);
    }

    pub(crate) fn mark(&mut self, row: R) {
        self.marks.push((row, self.puts.len()));
    }

    /// All rows as one run.
    pub(crate) fn into_run(self) -> Run<R> {
        let Self { rules, puts, marks } = self;
        let Lists { puts, marks } = match rules.life {
            _ if marks.is_empty() => Lists {
                puts: sorted(puts),
                marks: Vec::new(),
            },
            Life::Once => {
                // Every mark is newer than the put of its row.
                let (puts, marks) = (
                    sorted(puts),
                    sorted(marks.into_iter().map(|(row, _)| row).collect()),
                );
                merge((&[], &marks), (&puts, &[]), Life::Once)
            }
            Life::Repeated => newest(puts, marks),
        };
        Run::new(puts, marks, rules)
    }
}

fn sorted<R: Row>(mut rows: Vec<R>) -> Vec<R> {
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// Keeps the newest put or mark of each row.
fn newest<R: Row>(puts: Vec<R>, marks: Vec<(R, usize)>) -> Lists<R> {
    // A put has an odd time. A mark has an even time between those of the puts before and after it.
    let put = |(index, row)| (row, 2 * index + 1);
    let mark = |(row, puts_before)| (row, 2 * puts_before);
    let mut all: Vec<(R, usize)> = puts
        .into_iter()
        .enumerate()
        .map(put)
        .chain(marks.into_iter().map(mark))
        .collect();
    all.sort_unstable();
    let mut lists = Lists::default();
    for same in all.chunk_by(|a, b| a.0 == b.0) {
        if let Some(&(row, time)) = same.last() {
            let list = if time % 2 == 1 {
                &mut lists.puts
            } else {
                &mut lists.marks
            };
            list.push(row);
        }
    }
    lists
}
