//! PairPosition: how far a search for all pairs is, to go on from there.

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
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PairPosition {
    /// The first unit that is not done.
    pub(super) next: Unit,
    pub(super) way: Arc<Way>,
    /// The checksum of all this, with the search as its seed.
    seal: u64,
}

/// A unit of the work. It is named by the fingerprints that it is about, and not by where these are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Unit {
    /// The fingerprints of the other side that are compared; all, if there is no other side.
    pub(super) slice: Part,
    /// 0 for the groups, then the passes, counted from 1.
    pub(super) stage: usize,
    /// Of the postings, or of the table of the pass.
    pub(super) part: Part,
}

/// How a search finds all pairs. It was chosen by what the tables cost when the search began.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Way {
    /// Whether the tables of the other side are gone through.
    pub(super) is_turned: bool,
    pub(super) passes: Vec<ProbedPrefix>,
}

impl Way {
    /// The cheapest way at this commit.
    pub(super) fn cheapest(reader: Reader<'_>, max_distance: u32, is_turned: bool) -> Result<Self> {
        let (tables, cost_model) = (reader.settings().plan.tables(), reader.cost_model(false)?);
        Ok(Self {
            is_turned,
            passes: Join::cheapest(tables, max_distance, &cost_model),
        })
    }
}

impl Unit {
    /// Units are done in the order of these.
    pub(super) fn order(self) -> (u64, usize, u64) {
        (self.slice.first, self.stage, self.part.first)
    }
}

impl PairPosition {
    /// `search` stands for the question and the content.
    pub(super) fn new(next: Unit, way: Arc<Way>, search: u64) -> Self {
        let seal = seal(&next, &way, search);
        Self { next, way, seal }
    }

    /// Whether it is of this search.
    pub(super) fn is_of(&self, search: u64) -> bool {
        self.seal == seal(&self.next, &self.way, search)
    }
}

fn seal(next: &Unit, way: &Way, search: u64) -> u64 {
    xxh3_64_with_seed(place(next, way).as_bytes(), search)
}

/// The text of a position, but for its seal.
fn place(&Unit { slice, stage, part }: &Unit, way: &Way) -> String {
    let told = |part: Part| format!("{:x}/{}", part.leading(), part.bits);
    let pass = |it: &ProbedPrefix| format!("{}.{}.{}", it.table, it.prefix_bits, it.flips);
    let passes: Vec<String> = way.passes.iter().map(pass).collect();
    let turned = u8::from(way.is_turned);
    format!(
        "{stage}:{}:{}:{turned}:{}",
        told(part),
        told(slice),
        passes.join(",")
    )
}

impl fmt::Display for PairPosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{:016x}", place(&self.next, &self.way), self.seal)
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
        slice: parsed_part(slice)?,
        stage: stage.parse().ok()?,
        part: parsed_part(part)?,
    };
    let passes = passes
        .split(',')
        .map(parsed_pass)
        .collect::<Option<Vec<_>>>()?;
    let is_turned = ["0", "1"].iter().position(|&it| it == turned)? == 1;
    let seal = u64::from_str_radix(seal, 16)
        .ok()
        .filter(|_| seal.len() == 16)?;
    Some(PairPosition {
        next,
        way: Arc::new(Way { is_turned, passes }),
        seal,
    })
}

fn parsed_part(text: &str) -> Option<Part> {
    let (leading, bits) = text.split_once('/')?;
    Part::of(u64::from_str_radix(leading, 16).ok()?, bits.parse().ok()?)
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
        let parts = [(0, 0), (5, 3), (u64::MAX, 64), (1, 64)]
            .map(|(leading, bits)| Part::of(leading, bits));
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
        for (stage, part) in parts.into_iter().flatten().enumerate() {
            for is_turned in [false, true] {
                let way = Way {
                    is_turned,
                    passes: passes[..1 + stage % 2].to_vec(),
                };
                let next = Unit {
                    slice: part,
                    stage,
                    part,
                };
                let position = PairPosition::new(next, Arc::new(way), 7);
                let text = position.to_string();
                assert_eq!(text.parse::<PairPosition>().expect("it is one"), position);
                assert!(position.is_of(7) && !position.is_of(8));
                // A digit that was changed or lost is seen.
                for index in text
                    .char_indices()
                    .filter(|it| it.1.is_ascii_digit())
                    .map(|it| it.0)
                {
                    let mut other = text.clone();
                    let digit = if &text[index..=index] == "9" {
                        "8"
                    } else {
                        "9"
                    };
                    other.replace_range(index..=index, digit);
                    assert!(
                        other
                            .parse::<PairPosition>()
                            .map_or(true, |it| !it.is_of(7)),
                        "{other}"
                    );
                    other.remove(index);
                    assert!(
                        other
                            .parse::<PairPosition>()
                            .map_or(true, |it| !it.is_of(7)),
                        "{other}"
                    );
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
