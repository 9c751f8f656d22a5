//! Units: the parts of a search for pairs, in the order in which they are done.

use std::ops::ControlFlow;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::other::Other;
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Join, NearPair, Part};
use crate::store::{Read, ReadParts, Reader, ScopeNumber};

/// The units of a search for pairs: first parts of the postings, then parts of the tables. With another side, parts of
/// the tables only.
pub(super) struct Units<'r> {
    reader: &'r Reader,
    other: Option<Other<'r>>,
    join: Join<'r>,
    posted: Vec<Part>,
    /// For each pass of the join, the parts of its table.
    parts: Vec<Vec<Part>>,
    /// The units behind those of postings.
    units: Vec<Unit>,
    /// Stands for the question and the content.
    pub(super) of: u64,
}

/// A part of a table in a pass, by their indexes.
#[derive(Clone, Copy)]
struct Unit {
    /// The slice of the other side that is compared, if there is another side.
    slice: usize,
    pass: usize,
    part: usize,
}

impl<'r> Units<'r> {
    /// Of parts with no more than `part_rows` rows.
    pub(super) fn new(
        reader: &'r Reader,
        other: Option<&'r Reader>,
        max_distance: u32,
        part_rows: u64,
        question: &str,
    ) -> Result<Self> {
        let tables = reader.settings().plan.tables();
        let join = Join::new(tables, max_distance, &reader.cost_model(false)?);
        let other = other.map(Other::new).transpose()?;
        let posted = if other.is_some() { Vec::new() } else { reader.posted_parts(part_rows)? };
        let parts: Vec<Vec<Part>> = (0..join.passes())
            .map(|pass| reader.table_parts(join.table(pass), part_rows))
            .collect::<Result<_>>()?;
        let slices = other.as_ref().map_or(1, |other| other.slices.len());
        let mut units = Vec::new();
        for slice in 0..slices {
            for (pass, parts) in parts.iter().enumerate() {
                units.extend((0..parts.len()).map(|part| Unit { slice, pass, part }));
            }
        }
        let content = |reader: &Reader| format!("{:x} {:?}", reader.settings().key_seed, reader.counters());
        let of_other = other.as_ref().map(|it| (content(it.reader), &it.slices));
        let passes = (join.way(), &posted, &parts);
        let all = format!("{question} {} {of_other:?} {passes:?}", content(reader));
        let of = xxh3_64_with_seed(all.as_bytes(), 0);
        Ok(Self { reader, other, join, posted, parts, units, of })
    }

    pub(super) fn len(&self) -> usize {
        self.posted.len() + self.units.len()
    }

    /// The fingerprints that several documents have, if the unit is one of postings.
    pub(super) fn posted_often(
        &self,
        unit: usize,
        scopes: &[ScopeNumber],
    ) -> Result<Option<Vec<Fingerprint>>> {
        self.posted.get(unit).map(|&part| self.reader.posted_often(part, scopes)).transpose()
    }

    /// Calls `each` with the pairs of a unit of a table, and with nothing now and then. Without another side, the
    /// lesser fingerprint is the first of a pair. Otherwise the one of the other side is the second.
    pub(super) fn join(
        &self,
        unit: usize,
        each: &mut dyn FnMut(Option<NearPair>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let unit = self.units[unit - self.posted.len()];
        match &self.other {
            None => self.join_with_itself(unit, each),
            Some(other) => self.join_with(other, unit, each),
        }
    }

    fn join_with_itself(
        &self,
        Unit { pass, part: index, .. }: Unit,
        each: &mut dyn FnMut(Option<NearPair>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let (table, parts) = (self.join.table(pass), &self.parts[pass]);
        let part = parts[index];
        let rows = self.reader.table_rows(table, part)?;
        let in_order = |NearPair { a, b, distance }| NearPair { a: a.min(b), b: a.max(b), distance };
        let mut ordered = |pair| each(Some(in_order(pair)));
        if self.join.pairs(pass, (part, &rows), None, &mut ordered).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        for &later in parts[index + 1..].iter().filter(|&&later| self.join.joins(pass, part, later)) {
            let others = self.reader.table_rows(table, later)?;
            let mut ordered = |pair| each(Some(in_order(pair)));
            let joined = self.join.pairs(pass, (part, &rows), Some((later, &others)), &mut ordered);
            if joined.is_break() || each(None).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn join_with(
        &self,
        other: &Other<'_>,
        Unit { slice, pass, part: index }: Unit,
        each: &mut dyn FnMut(Option<NearPair>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let (table, part) = (self.join.table(pass), self.parts[pass][index]);
        let sorted = other.sorted((slice, pass), &self.reader.settings().plan.tables()[table])?;
        let mut rows = None;
        for near in self.join.near_parts(pass, part) {
            let from = sorted.partition_point(|&row| row < near.first);
            let others = &sorted[from..];
            let others = &others[..others.partition_point(|&row| row <= near.last())];
            if others.is_empty() {
                continue;
            }
            let rows = match &rows {
                Some(rows) => rows,
                None => rows.insert(self.reader.table_rows(table, part)?),
            };
            let mut turned = |NearPair { a, b, distance }| each(Some(NearPair { a: b, b: a, distance }));
            let joined = self.join.pairs(pass, (near, others), Some((part, rows)), &mut turned);
            if joined.is_break() || each(None).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
