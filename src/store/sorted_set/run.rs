//! Sorted runs in memory, and how a newer list of rows is merged over an older one.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::store::blocks::filter::Filter;
use crate::store::blocks::packed::{Lists, Row};
use crate::store::lookup::occupied::Occupied;
use crate::store::lookup::prefetch::prefetch_at;
use crate::store::lookup::prefixes::Prefixes;
use crate::store::lookup::samples::{guess, partition_point_near};

/// What a row can live through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    /// It is put and marked any number of times; the newest wins.
    Repeated,
    /// It is put once and marked once, after that (rows with a document number): a put and its mark annihilate.
    Once,
}

/// What holds for all rows of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rules {
    pub(crate) life: Life,
    /// Whether its blocks and runs have filters: worth their memory where most rows that are looked for are not there.
    pub(crate) filtered: bool,
    /// Whether its runs have an index, which costs about as much as merging them.
    indexed: bool,
}

impl Rules {
    pub(crate) const REPEATED: Self = Self { life: Life::Repeated, filtered: false, indexed: true };
    pub(crate) const ONCE: Self = Self { life: Life::Once, filtered: false, indexed: true };
    pub(crate) const ONCE_FILTERED: Self = Self { life: Life::Once, filtered: true, indexed: true };

    /// The same for runs that nobody, or hardly anybody, searches.
    pub(crate) fn unsearched(self) -> Self {
        Self { filtered: false, indexed: false, ..self }
    }
}

/// Sorted rows that are put, and sorted rows that are marked as deleted; no row is in both.
#[derive(Clone, Debug)]
pub(crate) struct Run<R> {
    puts: Indexed<R>,
    marks: Indexed<R>,
    /// Over the leading bits of all rows; empty in sets without filters.
    filter: Arc<Filter>,
}

/// So many rows, or up to twice as many, are searched for one: a line or two of the processor's cache.
const ROWS_PER_PREFIX: usize = 8;

/// As many rows as are given beside those of a range, rather than to search for its ends.
const MOST_AROUND: usize = 64;

/// Sorted rows with an index.
#[derive(Clone, Debug)]
struct Indexed<R> {
    rows: Arc<Vec<R>>,
    prefixes: Arc<Prefixes>,
    occupied: Arc<Occupied>,
    /// How many were taken into a level already.
    taken: usize,
}

impl<R: Row> Indexed<R> {
    /// Rows whose index tells nothing yet.
    fn new(rows: Vec<R>) -> Self {
        let (prefixes, occupied) = (Prefixes::none(rows.len()).into(), Occupied::unknown().into());
        Self { rows: rows.into(), prefixes, occupied, taken: 0 }
    }

    fn index(&mut self) {
        self.prefixes = Prefixes::new(self.rows.iter().map(|row| row.lead()), ROWS_PER_PREFIX).into();
    }

    /// Makes known where there are no rows.
    fn map(&mut self) {
        self.occupied = Occupied::new(self.rows.iter().map(|row| row.lead()), self.rows.len()).into();
    }

    fn rows(&self) -> &[R] {
        &self.rows[self.taken..]
    }

    /// The part in a range.
    fn within(&self, range: &RangeInclusive<R>) -> &[R] {
        let from = self.before(*range.start()).max(self.taken);
        up_to(&self.rows[from..], *range.end())
    }

    /// The rows in a range, perhaps with some of their neighbours.
    #[inline]
    fn around(&self, range: &RangeInclusive<R>) -> &[R] {
        let start = self.prefixes.around(range.start().lead()).start.max(self.taken);
        let end = self.prefixes.around(range.end().lead()).end.max(start);
        if end - start > MOST_AROUND { self.within(range) } else { &self.rows[start..end] }
    }

    /// The same rows from `low` on.
    fn from(&self, low: R) -> Self {
        Self { taken: self.before(low).max(self.taken), ..self.clone() }
    }

    /// How many rows come before one, those taken included.
    fn before(&self, row: R) -> usize {
        let around = self.prefixes.around(row.lead());
        around.start + self.rows[around].partition_point(|&it| it < row)
    }
}

impl<R: Row> Run<R> {
    pub(crate) fn new(puts: Vec<R>, marks: Vec<R>, rules: Rules) -> Self {
        let run = Self { puts: Indexed::new(puts), marks: Indexed::new(marks), filter: Arc::default() };
        run.prepared(rules)
    }

    /// The same run with what makes searches faster, as far as the rules ask for it.
    pub(crate) fn prepared(mut self, rules: Rules) -> Self {
        if rules.indexed {
            self.puts.index();
            self.marks.index();
        }
        if rules.filtered {
            let leads = self.puts().iter().chain(self.marks()).map(|row| row.lead());
            self.filter = Arc::new(Filter::new(leads, self.len(), usize::MAX));
        } else if rules.indexed {
            self.puts.map();
            self.marks.map();
        }
        self
    }

    /// Whether there may be a row with these leading bits.
    pub(crate) fn passes(&self, lead: u64) -> bool {
        self.filter.passes(lead)
    }

    pub(crate) fn puts(&self) -> &[R] {
        self.puts.rows()
    }

    pub(crate) fn marks(&self) -> &[R] {
        self.marks.rows()
    }

    /// The puts and the marks in a range.
    pub(crate) fn within(&self, range: &RangeInclusive<R>) -> (&[R], &[R]) {
        (self.puts.within(range), self.marks.within(range))
    }

    /// The puts and the marks in a range, perhaps with some of their neighbours.
    pub(crate) fn around(&self, range: &RangeInclusive<R>) -> (&[R], &[R]) {
        let marks = if self.marks().is_empty() { &[] } else { self.marks.around(range) };
        (self.puts.around(range), marks)
    }

    /// Whether there may be rows in a range.
    #[inline]
    pub(crate) fn may_have(&self, first: R, last: R) -> bool {
        let may_have = |rows: &Indexed<R>| rows.occupied.may_have(first.lead(), last.lead());
        may_have(&self.puts) || !self.marks().is_empty() && may_have(&self.marks)
    }

    /// Has fetched what tells whether there may be rows from one on.
    #[inline]
    pub(crate) fn prefetch_occupied(&self, row: R) {
        self.puts.occupied.prefetch(row.lead());
    }

    /// Has fetched what leads to the rows from one on.
    #[inline]
    pub(crate) fn prefetch_index(&self, row: R) {
        self.puts.prefixes.prefetch(row.lead());
    }

    /// Has fetched the rows from one on.
    #[inline]
    pub(crate) fn prefetch_rows(&self, row: R) {
        let around = self.puts.prefixes.around(row.lead());
        prefetch_at(&self.puts.rows, around.start);
        prefetch_at(&self.puts.rows, around.end);
    }

    pub(crate) fn len(&self) -> usize {
        self.puts().len() + self.marks().len()
    }

    /// The rows from `low` on.
    pub(crate) fn from(&self, low: R) -> Self {
        Self { puts: self.puts.from(low), marks: self.marks.from(low), filter: self.filter.clone() }
    }

    /// This run over an older one, as one.
    pub(crate) fn over(&self, older: &Self, rules: Rules) -> Self {
        let merged = merge((self.puts(), self.marks()), (older.puts(), older.marks()), rules.life);
        Self::new(merged.puts, merged.marks, rules)
    }
}

/// The part of sorted rows that lies in a range.
pub(crate) fn part<'a, R: Row>(rows: &'a [R], range: &RangeInclusive<R>) -> &'a [R] {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else { return rows };
    let guess = guess(rows.len(), first.lead(), last.lead(), range.start().lead());
    let start = partition_point_near(rows, guess, |row| row < range.start());
    up_to(&rows[start..], *range.end())
}

/// The first of sorted rows, up to one.
fn up_to<R: Row>(rows: &[R], last: R) -> &[R] {
    // Most ranges are of a few rows, so the end is looked for near the beginning first.
    let mut bound = 8;
    while rows.get(bound).is_some_and(|&row| row <= last) {
        bound *= 2;
    }
    let end = rows[..bound.min(rows.len())].partition_point(|&row| row <= last);
    &rows[..end]
}

/// Adds puts and marks of a newer source over those of an older one to rows that come before them.
pub(crate) fn merge_onto<R: Row>(
    newer: (&[R], &[R]),
    older: (&[R], &[R]),
    life: Life,
    merged: &mut Lists<R>,
) {
    let kept = difference(older.0, newer.1);
    union_onto(newer.0, kept.as_deref().unwrap_or(older.0), &mut merged.puts);
    match life {
        Life::Repeated => {
            let kept = difference(older.1, newer.0);
            union_onto(newer.1, kept.as_deref().unwrap_or(older.1), &mut merged.marks);
        }
        Life::Once => {
            let kept = difference(newer.1, older.0);
            union_onto(kept.as_deref().unwrap_or(newer.1), older.1, &mut merged.marks);
        }
    }
}

/// Puts and marks of a newer source over those of an older one.
pub(crate) fn merge<R: Row>(newer: (&[R], &[R]), older: (&[R], &[R]), life: Life) -> Lists<R> {
    let mut merged = Lists::default();
    merge_onto(newer, older, life, &mut merged);
    merged
}

/// Adds the rows of either list, each once.
fn union_onto<R: Row>(a: &[R], b: &[R], all: &mut Vec<R>) {
    all.reserve(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while let (Some(&x), Some(&y)) = (a.get(i), b.get(j)) {
        // Without branches, which random rows would make unpredictable.
        all.push(if x <= y { x } else { y });
        i += usize::from(x <= y);
        j += usize::from(y <= x);
    }
    all.extend(&a[i..]);
    all.extend(&b[j..]);
}

/// The rows of `a` that are not in `b`, or `None` if that is all of them.
fn difference<R: Row>(a: &[R], b: &[R]) -> Option<Vec<R>> {
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let mut rest = Vec::with_capacity(a.len());
    let mut b = b.iter().copied().peekable();
    for &row in a {
        while b.next_if(|&it| it < row).is_some() {}
        if b.peek() != Some(&row) {
            rest.push(row);
        }
    }
    Some(rest)
}

/// Adds a run to others, the newest last, and keeps them few: each is more than four times as long as all after it. With twice there were more, at
/// about as many mergers of a row.
pub(crate) fn push_run<R: Row>(runs: &mut Vec<Run<R>>, mut run: Run<R>, rules: Rules) {
    while let Some(last) = runs.last()
        && last.len() <= 4 * run.len()
    {
        run = run.over(last, rules);
        runs.pop();
    }
    if run.len() > 0 {
        runs.push(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stay_few_and_what_was_taken_is_gone() {
        let mut runs = Vec::new();
        for row in 0..1000u64 {
            push_run(&mut runs, Run::new(vec![row], Vec::new(), Rules::ONCE), Rules::ONCE);
        }
        assert!(runs.len() <= 8, "{}", runs.len());
        assert_eq!(runs.iter().map(Run::len).sum::<usize>(), 1000);
        let rest = Run::new(vec![1u64, 5, 9], vec![4, 6], Rules::ONCE).from(5);
        assert_eq!((rest.puts(), rest.marks()), (&[5, 9][..], &[6][..]));
        assert_eq!(rest.from(2).puts(), [5, 9]);
        assert_eq!(part(&[1u64, 5, 9], &(2..=9)), [5, 9]);
    }
}
