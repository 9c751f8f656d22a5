//! Units: the parts of a search for pairs, in the order in which they are done.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::parallel;
use crate::plan::{Join, NearPair, Part, Permuted, ProbedPrefix};
use crate::planted::planted;
use crate::store::{ReadScopes, Reader};
use crate::sync::Mutex;

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
        let tables = reader.settings().plan.tables();
        let join_plan = match from {
            Some(from) => from.join_plan.clone(),
            None => Arc::new(JoinPlan {
                goes_through_other_side,
                passes: Join::cheapest(tables, max_distance, &reader.cost_model(false)?),
            }),
        };
        let from = from.map(|from| from.next);
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
            // The groups come first, then the passes.
            for (stage, parts) in [&posted].into_iter().chain(&parts).enumerate() {
                units.extend(parts.iter().map(|&part| Unit { slice, stage, part }));
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
                Unit {
                    slice,
                    stage: self.join.passes() + 1,
                    part: Part::ALL,
                }
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

// The position of a search for pairs among its units, as text that can be kept and parsed again.

/// How far a search for all pairs is. As text, it can be kept and parsed again.
///
/// It holds for the same question about the same documents, on any machine. Merges and
/// [`compact`](crate::Database::compact) do not change it, and in a [backup](crate::Snapshot::backup) it holds too.
/// Another plan ([`compact_with_plan`](crate::Database::compact_with_plan)) is another search.
///
/// The documents are known again by the file that they were first stored in, how many it has had, and how many there
/// are. So if a file and its backup were both changed, by equal numbers of documents, a position in one is taken for
/// one in the other.
///
/// # Example
///
/// ```
/// use simdb::{Document, Fingerprint, PairEvent, PairPosition};
/// # use simdb::{CreateOptions, Database, Scheme};
/// # let directory = tempfile::tempdir()?;
/// # let options = CreateOptions::new().scheme(Scheme::External);
/// # let database = Database::create(directory.path().join("pages.simdb"), &options)?;
/// # let mut txn = database.begin_write()?;
/// # txn.insert(&Document::new("a", Fingerprint::from_bits(7)))?;
/// # txn.insert(&Document::new("b", Fingerprint::from_bits(6)))?;
/// # txn.commit()?;
///
/// let mut kept = String::new();
/// for event in database.snapshot()?.pairs(3) {
///     match event? {
///         PairEvent::Progress { position, .. } => kept = position.to_string(),
///         // The program ends here, before the pair is kept.
///         PairEvent::Pair(_) => break,
///         _ => {}
///     }
/// }
/// // Later, perhaps in another process:
/// let position: PairPosition = kept.parse()?;
/// let mut pairs = 0;
/// for event in database.snapshot()?.pairs(3).from(position) {
///     pairs += u64::from(matches!(event?, PairEvent::Pair(_)));
/// }
/// assert_eq!(pairs, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairPosition {
    next: Unit,
    join_plan: Arc<JoinPlan>,
    /// The checksum of all this, with the search as its seed.
    seal: u64,
}

/// A unit of the work. It is named by the fingerprints that it is about, and not by where these are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Unit {
    /// The fingerprints of the other side that are compared; all, if there is no other side.
    slice: Part,
    /// 0 for the groups, then the passes, counted from 1.
    stage: usize,
    /// Of the postings, or of the table of the pass.
    part: Part,
}

/// How a search finds all pairs. It was chosen by what the tables cost when the search began.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct JoinPlan {
    /// Whether the tables of the other side are gone through.
    goes_through_other_side: bool,
    passes: Vec<ProbedPrefix>,
}

impl Unit {
    /// The pass that it is of. `None` if it is of the groups.
    fn pass(self) -> Option<usize> {
        self.stage.checked_sub(1)
    }

    /// Units are done in the order of these.
    fn order(self) -> (u64, usize, u64) {
        (self.slice.first, self.stage, self.part.first)
    }
}

impl PairPosition {
    fn new(next: Unit, join_plan: Arc<JoinPlan>, search: u64) -> Self {
        let seal = seal(&next, &join_plan, search);
        Self {
            next,
            seal,
            join_plan,
        }
    }

    /// Whether the tables of the other snapshot are gone through.
    pub(super) fn goes_through_other_side(&self) -> bool {
        self.join_plan.goes_through_other_side
    }

    pub(super) fn belongs_to(&self, search: u64) -> bool {
        self.seal == seal(&self.next, &self.join_plan, search)
    }
}

fn seal(next: &Unit, join_plan: &JoinPlan, search: u64) -> u64 {
    xxh3_64_with_seed(unsealed(next, join_plan).as_bytes(), search)
}

/// The text of a position, but for its seal.
fn unsealed(&Unit { slice, stage, part }: &Unit, join_plan: &JoinPlan) -> String {
    let mut text = format!("{stage}");
    for part in [part, slice] {
        text += &format!(":{part}");
    }
    text += &format!(":{}", u8::from(join_plan.goes_through_other_side));
    for (index, pass) in join_plan.passes.iter().enumerate() {
        text.push(if index == 0 { ':' } else { ',' });
        text += &format!("{}.{}.{}", pass.table, pass.prefix_bits, pass.flips);
    }
    text
}

impl fmt::Display for PairPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = unsealed(&self.next, &self.join_plan);
        write!(f, "{text}:{:016x}", self.seal)
    }
}

impl FromStr for PairPosition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        parsed(text).ok_or(Error::PairPosition)
    }
}

fn parsed(text: &str) -> Option<PairPosition> {
    let [stage, part, slice, turned, passes, seal] = *text.split(':').collect::<Vec<_>>() else {
        return None;
    };
    let next = Unit {
        slice: Part::parsed(slice)?,
        stage: stage.parse().ok()?,
        part: Part::parsed(part)?,
    };
    let passes: Option<Vec<ProbedPrefix>> = passes.split(',').map(parsed_pass).collect();
    let join_plan = JoinPlan {
        goes_through_other_side: match turned {
            "0" => false,
            "1" => true,
            _ => return None,
        },
        passes: passes?,
    };
    if seal.len() != 16 {
        return None;
    }
    Some(PairPosition {
        next,
        join_plan: Arc::new(join_plan),
        seal: u64::from_str_radix(seal, 16).ok()?,
    })
}

fn parsed_pass(text: &str) -> Option<ProbedPrefix> {
    let [table, prefix_bits, flips] = *text.split('.').collect::<Vec<_>>() else {
        return None;
    };
    Some(ProbedPrefix {
        table: table.parse().ok()?,
        prefix_bits: prefix_bits.parse().ok()?,
        flips: flips.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_parsed_as_it_is_printed_and_is_of_one_search_only() {
        let parts = ["0/0", "5/3", "ffffffffffffffff/64", "1/64"].map(Part::parsed);
        let passes = [
            ProbedPrefix {
                table: 0,
                prefix_bits: 16,
                flips: 0,
            },
            ProbedPrefix {
                table: 29,
                prefix_bits: 64,
                flips: 16,
            },
        ];
        let belongs = |text: &str| {
            let position = text.parse::<PairPosition>();
            position.is_ok_and(|position| position.belongs_to(7))
        };
        for (stage, part) in parts.into_iter().flatten().enumerate() {
            for goes_through_other_side in [false, true] {
                let join_plan = JoinPlan {
                    goes_through_other_side,
                    passes: passes[..1 + stage % 2].to_vec(),
                };
                let next = Unit {
                    slice: part,
                    stage,
                    part,
                };
                let position = PairPosition::new(next, Arc::new(join_plan), 7);
                let text = position.to_string();
                assert_eq!(text.parse::<PairPosition>().expect("it is one"), position);
                assert!(position.belongs_to(7) && !position.belongs_to(8));
                // A digit that was changed or lost is seen.
                for (index, digit) in text.char_indices() {
                    if !digit.is_ascii_digit() {
                        continue;
                    }
                    let mut other = text.clone();
                    other.replace_range(index..=index, if digit == '9' { "8" } else { "9" });
                    assert!(!belongs(&other), "{other}");
                    other.remove(index);
                    assert!(!belongs(&other), "{other}");
                }
            }
        }
        for wrong in [
            "",
            "7",
            "7@00000000000000ff",
            "1:0/0:0/0:0::aa",
            "1:8/3:0/0:0:0.16.0:aa",
            "1:0/65:0/0:0:0.16.0:aa",
        ] {
            assert!(wrong.parse::<PairPosition>().is_err(), "{wrong}");
        }
    }
}
