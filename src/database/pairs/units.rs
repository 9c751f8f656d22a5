//! Units: the parts of a search for pairs, in the order in which they are done.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use super::position::{JoinPlan, PairPosition, Unit};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::plan::{Join, NearPair, Part, Permuted};
use crate::planted::planted;
use crate::store::{ReadScopes, Reader};

/// The units of a search for pairs: first parts of the postings, then parts of the tables. With another side, parts of
/// the tables only.
///
/// A unit of a table finds the pairs whose lesser row it has. So which pairs come in the units before a unit depends on
/// the first row of that unit alone, however the rows before it were cut.
pub(super) struct Units<'r> {
    reader: Reader<'r>,
    other: Option<OtherSide<'r>>,
    join: Join<'r>,
    /// For each pass of the join, the parts of its table.
    parts: Vec<Vec<Part>>,
    units: Vec<Unit>,
    join_plan: Arc<JoinPlan>,
    /// The number of units that were done before.
    pub(super) first: usize,
}

/// The pairs that are given at a time.
pub(super) const PAIRS_TOGETHER: usize = 4096;

/// The part of a unit, if it is of a pass, or of the groups (`None`).
fn kept_part(unit: Option<Unit>, pass: Option<usize>) -> Option<Part> {
    match unit {
        Some(unit) if unit.pass() == pass => Some(unit.part),
        _ => None,
    }
}

impl<'r> Units<'r> {
    /// Of parts with no more than `part_rows` rows, by the cheapest plan, or that of `from`. The part of the latter is
    /// one of them, if it has rows. `goes_through_other_side` is noted in the plan.
    pub(super) fn new(
        reader: Reader<'r>,
        other: Option<Reader<'r>>,
        goes_through_other_side: bool,
        max_distance: u32,
        part_rows: u64,
        from: Option<&PairPosition>,
    ) -> Result<Self> {
        let join_plan = match from {
            Some(from) => from.join_plan.clone(),
            None => Arc::new(JoinPlan::cheapest(
                reader,
                max_distance,
                goes_through_other_side,
            )?),
        };
        let from = from.map(|from| from.next);
        let tables = reader.settings().plan.tables();
        let join = Join::new(tables, max_distance, join_plan.passes.clone());
        let kept_slice = from.map(|unit| unit.slice);

        let other = match other {
            Some(other) => Some(OtherSide::new(other, part_rows, kept_slice)?),
            None => None,
        };
        let (posted, slices) = match &other {
            Some(other) => (Vec::new(), &other.slices[..]),
            None => (
                reader.posted_parts(part_rows, kept_part(from, None))?,
                &[Part::ALL][..],
            ),
        };
        let mut parts = Vec::new();
        for pass in 0..join.passes() {
            parts.push(reader.table_parts(
                join.table(pass),
                part_rows,
                kept_part(from, Some(pass)),
            )?);
        }

        let mut units = Vec::new();
        for &slice in slices {
            units.extend(posted.iter().map(|&part| Unit::of_groups(slice, part)));
            for (pass, parts) in parts.iter().enumerate() {
                units.extend(parts.iter().map(|&part| Unit::of_pass(pass, slice, part)));
            }
        }
        let first = match from {
            Some(from) if planted("a search for pairs goes on one unit late") => {
                units.partition_point(|unit| unit.order() <= from.order())
            }
            Some(from) => units.partition_point(|unit| unit.order() < from.order()),
            None => 0,
        };
        Ok(Self {
            reader,
            other,
            join,
            parts,
            units,
            join_plan,
            first,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// The position of a search before the unit of this index, or at its end. `search` stands for the question and the
    /// content.
    pub(super) fn position(&self, index: usize, search: u64) -> PairPosition {
        let next = match self.units.get(index) {
            Some(&unit) => unit,
            None => {
                let slice = self.units.last().map_or(Part::ALL, |unit| unit.slice);
                Unit::end(self.join.passes(), slice)
            }
        };
        PairPosition::new(next, self.join_plan.clone(), search)
    }

    /// The fingerprints that several documents have, if the unit is one of postings.
    pub(super) fn posted_often(
        &self,
        unit: usize,
        scopes: &ReadScopes,
    ) -> Result<Option<Vec<Fingerprint>>> {
        let unit = self.units[unit];
        match unit.pass() {
            None => Ok(Some(self.reader.posted_often(unit.part, scopes)?)),
            Some(_) => Ok(None),
        }
    }

    /// Calls `each` with the pairs of a unit of a table, at most [`PAIRS_TOGETHER`] at a time, and with none now and
    /// then. So it can end a search that finds little. Without another side, the lesser fingerprint is the first of a
    /// pair. Otherwise the one of the other side is the second.
    pub(super) fn join(
        &self,
        unit: usize,
        each: &mut dyn FnMut(&[NearPair]) -> Result<()>,
    ) -> Result<()> {
        let mut batch = PairBatch {
            pairs: Vec::with_capacity(PAIRS_TOGETHER),
            each,
        };
        let unit = self.units[unit];
        let pass = unit.pass().expect("the groups are not joined");
        match &self.other {
            None => self.join_with_itself(pass, unit.part, &mut batch)?,
            Some(other) => self.join_with(other, pass, unit, &mut batch)?,
        }
        (batch.each)(&batch.pairs)
    }

    fn join_with_itself(&self, pass: usize, part: Part, batch: &mut PairBatch<'_>) -> Result<()> {
        let table = self.join.table(pass);
        let rows = self.reader.table_rows(table, part)?;
        self.join.pairs(pass, (part, &rows), None, &mut |pair| {
            batch.add_in_order(pair)
        })?;

        for &later in &self.parts[pass] {
            if later.first <= part.first || !self.join.joins(pass, part, later) {
                continue;
            }
            let others = self.reader.table_rows(table, later)?;
            let others = Some((later, &others[..]));
            self.join.pairs(pass, (part, &rows), others, &mut |pair| {
                batch.add_in_order(pair)
            })?;
            batch.look_whether_to_end()?;
        }
        Ok(())
    }

    fn join_with(
        &self,
        other: &OtherSide<'_>,
        pass: usize,
        unit: Unit,
        batch: &mut PairBatch<'_>,
    ) -> Result<()> {
        let table = self.join.table(pass);
        let sorted = other.sorted(self.reader, unit.slice, table)?;
        let mut read = None;

        for near in self.join.near_parts(pass, unit.part) {
            let others = &sorted[sorted.partition_point(|&row| row < near.first)..];
            let others = &others[..others.partition_point(|&row| row <= near.last())];
            if others.is_empty() {
                continue;
            }
            let rows = match &read {
                Some(rows) => rows,
                None => read.insert(self.reader.table_rows(table, unit.part)?),
            };
            let rows = Some((unit.part, &rows[..]));
            self.join.pairs(pass, (near, others), rows, &mut |pair| {
                batch.add(NearPair {
                    a: pair.b,
                    b: pair.a,
                    ..pair
                })
            })?;
            batch.look_whether_to_end()?;
        }
        Ok(())
    }
}

/// The pairs of a unit that were not given yet.
struct PairBatch<'e> {
    pairs: Vec<NearPair>,
    each: &'e mut dyn FnMut(&[NearPair]) -> Result<()>,
}

impl PairBatch<'_> {
    fn add(&mut self, pair: NearPair) -> Result<()> {
        self.pairs.push(pair);
        if self.pairs.len() == PAIRS_TOGETHER {
            (self.each)(&self.pairs)?;
            self.pairs.clear();
        }
        Ok(())
    }

    /// Gives no pairs. It fails if the search is to end.
    fn look_whether_to_end(&mut self) -> Result<()> {
        (self.each)(&[])
    }

    /// Adds a pair, the lesser fingerprint first.
    fn add_in_order(&mut self, NearPair { a, b, distance }: NearPair) -> Result<()> {
        self.add(NearPair {
            a: a.min(b),
            b: a.max(b),
            distance,
        })
    }
}

/// The parts of the other side that are in memory at a time: 33 million fingerprints, with 8 bytes each for each of two
/// passes.
const PARTS_OF_SLICE: u64 = 128;

/// The fingerprints of the other side, in slices that fit into memory.
struct OtherSide<'r> {
    reader: Reader<'r>,
    /// Parts of its first table.
    slices: Vec<Part>,
    /// The slices that were sorted last. Threads that end a pass need another one than those that begin the next.
    sorted: Mutex<VecDeque<SortedSlice>>,
}

/// The fingerprints of a slice, in the order of a table of the reader that is gone through.
struct SortedSlice {
    slice: Part,
    table: usize,
    rows: Arc<Vec<u64>>,
}

impl<'r> OtherSide<'r> {
    /// In slices of parts with no more than `part_rows` rows. `kept` is one of the slices, if it has rows.
    fn new(reader: Reader<'r>, part_rows: u64, kept: Option<Part>) -> Result<Self> {
        Ok(Self {
            reader,
            slices: reader.table_parts(0, PARTS_OF_SLICE * part_rows, kept)?,
            sorted: Mutex::default(),
        })
    }

    /// The fingerprints of a slice, in the order of a table of `searched`.
    fn sorted(&self, searched: Reader<'_>, slice: Part, table: usize) -> Result<Arc<Vec<u64>>> {
        // The others wait here, since they need the same.
        let mut sorted = self.sorted.lock();
        for known in &*sorted {
            if known.slice == slice && known.table == table {
                return Ok(known.rows.clone());
            }
        }

        let own = self.reader.settings().plan.scan_table();
        let wanted = &searched.settings().plan.tables()[table];
        let mut rows = self.reader.table_rows(0, slice)?;
        for row in &mut rows {
            let fingerprint = own.invert(Permuted::from_bits(*row));
            *row = wanted.apply(fingerprint).bits();
        }
        parallel::sort(&mut rows);

        let rows = Arc::new(rows);
        sorted.truncate(1);
        sorted.push_front(SortedSlice {
            slice,
            table,
            rows: rows.clone(),
        });
        Ok(rows)
    }
}
