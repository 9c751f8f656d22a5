//! Units: the parts of a search for pairs, in the order in which they are done.

use std::ops::ControlFlow;

use super::other::Other;
use super::position::{Unit, Way};
use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::plan::{Join, NearPair, Part};
use crate::store::{Reader, ScopeNumber};

/// The units of a search for pairs: first parts of the postings, then parts of the tables. With another side, parts of
/// the tables only.
///
/// A unit of a table finds the pairs whose lesser row it has. So which pairs come in the units before a unit depends on
/// the first row of that unit alone, however the rows before it were cut.
pub(super) struct Units<'r> {
    reader: Reader<'r>,
    other: Option<Other<'r>>,
    join: Join<'r>,
    /// For each pass of the join, the parts of its table.
    parts: Vec<Vec<Part>>,
    units: Vec<Unit>,
}

/// The stage of the groups. The passes follow.
const GROUPS: usize = 0;

impl<'r> Units<'r> {
    /// Of parts with no more than `part_rows` rows. `from` is one of them, if it has rows.
    pub(super) fn new(
        (reader, other): (Reader<'r>, Option<Reader<'r>>),
        max_distance: u32,
        way: &Way,
        part_rows: u64,
        from: Option<Unit>,
    ) -> Result<Self> {
        let join = Join::new(
            reader.settings().plan.tables(),
            max_distance,
            way.passes.clone(),
        );
        let kept_slice = from.map(|it| it.slice);
        let other = other
            .map(|other| Other::new(other, part_rows, kept_slice))
            .transpose()?;
        let kept = |stage: usize| from.filter(|it| it.stage == stage).map(|it| it.part);
        let parts: Vec<Vec<Part>> = (0..join.passes())
            .map(|pass| reader.table_parts(join.table(pass), part_rows, kept(pass + 1)))
            .collect::<Result<_>>()?;
        let posted = if other.is_some() {
            Vec::new()
        } else {
            reader.posted_parts(part_rows, kept(GROUPS))?
        };
        let slices = other
            .as_ref()
            .map_or(&[Part::ALL][..], |other| &other.slices);
        let mut units = Vec::new();
        for &slice in slices {
            for (stage, parts) in [&posted].into_iter().chain(&parts).enumerate() {
                units.extend(parts.iter().map(|&part| Unit { slice, stage, part }));
            }
        }
        Ok(Self {
            reader,
            other,
            join,
            parts,
            units,
        })
    }

    pub(super) fn len(&self) -> usize {
        self.units.len()
    }

    /// The number of units before another one.
    pub(super) fn before(&self, unit: Unit) -> usize {
        self.units.partition_point(|it| it.order() < unit.order())
    }

    /// A unit. Behind the last one comes one that stands for the end.
    pub(super) fn get(&self, index: usize) -> Unit {
        let slice = self.units.last().map_or(Part::ALL, |it| it.slice);
        let end = Unit {
            slice,
            stage: self.join.passes() + 1,
            part: Part::ALL,
        };
        self.units.get(index).copied().unwrap_or(end)
    }

    /// The fingerprints that several documents have, if the unit is one of postings.
    pub(super) fn posted_often(
        &self,
        unit: usize,
        scopes: &[ScopeNumber],
    ) -> Result<Option<Vec<Fingerprint>>> {
        let Unit { stage, part, .. } = self.units[unit];
        (stage == GROUPS)
            .then(|| self.reader.posted_often(part, scopes))
            .transpose()
    }

    /// Calls `each` with the pairs of a unit of a table, and with nothing now and then. Without another side, the
    /// lesser fingerprint is the first of a pair. Otherwise the one of the other side is the second.
    pub(super) fn join(
        &self,
        unit: usize,
        each: &mut dyn FnMut(Option<NearPair>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let unit = self.units[unit];
        match &self.other {
            None => self.join_with_itself(unit, each),
            Some(other) => self.join_with(other, unit, each),
        }
    }

    fn join_with_itself(
        &self,
        Unit { stage, part, .. }: Unit,
        each: &mut dyn FnMut(Option<NearPair>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let pass = stage - 1;
        let table = self.join.table(pass);
        let rows = self.reader.table_rows(table, part)?;
        let in_order = |NearPair { a, b, distance }| NearPair {
            a: a.min(b),
            b: a.max(b),
            distance,
        };
        let mut ordered = |pair| each(Some(in_order(pair)));
        if self
            .join
            .pairs(pass, (part, &rows), None, &mut ordered)
            .is_break()
        {
            return Ok(ControlFlow::Break(()));
        }
        let later = self.parts[pass]
            .iter()
            .filter(|later| later.first > part.first);
        for &later in later.filter(|&&later| self.join.joins(pass, part, later)) {
            let others = self.reader.table_rows(table, later)?;
            let mut ordered = |pair| each(Some(in_order(pair)));
            let joined = self
                .join
                .pairs(pass, (part, &rows), Some((later, &others)), &mut ordered);
            if joined.is_break() || each(None).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn join_with(
        &self,
        other: &Other<'_>,
        Unit { slice, stage, part }: Unit,
        each: &mut dyn FnMut(Option<NearPair>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let pass = stage - 1;
        let table = self.join.table(pass);
        let sorted = other.sorted((slice, table), &self.reader.settings().plan.tables()[table])?;
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
            let mut turned = |NearPair { a, b, distance }| {
                each(Some(NearPair {
                    a: b,
                    b: a,
                    distance,
                }))
            };
            let joined = self
                .join
                .pairs(pass, (near, others), Some((part, rows)), &mut turned);
            if joined.is_break() || each(None).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
