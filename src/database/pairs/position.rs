//! The position of a search for pairs among its units, as text that can be kept and parsed again.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::error::{Error, Result};
use crate::plan::{Join, Part, ProbedPrefix};
use crate::store::Reader;

/// How far a search for all pairs is. As text, it can be kept and parsed again.
///
/// It holds for the same question about the same documents, on any machine. Merges and
/// [`compact`](crate::Database::compact) do not change it, and in a [backup](crate::Snapshot::backup) it holds too.
/// Another plan ([`compact_with_plan`](crate::Database::compact_with_plan)) is another search.
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
    /// The first unit that is not done.
    pub(super) next: Unit,
    pub(super) join_plan: Arc<JoinPlan>,
    /// The checksum of all this, with the search as its seed.
    seal: u64,
}

/// A unit of the work. It is named by the fingerprints that it is about, and not by where these are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    /// The fingerprints of the other side that are compared; all, if there is no other side.
    pub(super) slice: Part,
    /// 0 for the groups, then the passes, counted from 1.
    stage: usize,
    /// Of the postings, or of the table of the pass.
    pub(super) part: Part,
}

/// How a search finds all pairs. It was chosen by what the tables cost when the search began.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct JoinPlan {
    /// Whether the tables of the other side are gone through.
    goes_through_other_side: bool,
    pub(super) passes: Vec<ProbedPrefix>,
}

impl JoinPlan {
    /// The cheapest plan at this commit.
    pub(super) fn cheapest(
        reader: Reader<'_>,
        max_distance: u32,
        goes_through_other_side: bool,
    ) -> Result<Self> {
        let tables = reader.settings().plan.tables();
        let cost_model = reader.cost_model(false)?;
        Ok(Self {
            goes_through_other_side,
            passes: Join::cheapest(tables, max_distance, &cost_model),
        })
    }
}

impl Unit {
    /// A unit of postings.
    pub(super) fn of_groups(slice: Part, part: Part) -> Self {
        Self {
            slice,
            stage: 0,
            part,
        }
    }

    /// A unit of the table of a pass.
    pub(super) fn of_pass(pass: usize, slice: Part, part: Part) -> Self {
        let stage = pass + 1;
        Self { slice, stage, part }
    }

    /// The end of a search with so many passes, behind its last slice.
    pub(super) fn end(passes: usize, slice: Part) -> Self {
        Self::of_pass(passes, slice, Part::ALL)
    }

    /// The pass that it is of. `None` if it is of the groups.
    pub(super) fn pass(self) -> Option<usize> {
        self.stage.checked_sub(1)
    }

    /// Units are done in the order of these.
    pub(super) fn order(self) -> (u64, usize, u64) {
        (self.slice.first, self.stage, self.part.first)
    }
}

impl PairPosition {
    pub(super) fn new(next: Unit, join_plan: Arc<JoinPlan>, search: u64) -> Self {
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

    /// Whether it belongs to this search.
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
        slice: slice.parse().ok()?,
        stage: stage.parse().ok()?,
        part: part.parse().ok()?,
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
        let parts = ["0/0", "5/3", "ffffffffffffffff/64", "1/64"].map(str::parse);
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
