//! The units of a text: where they are, and the distinct ones that are looked for.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

use crate::error::{Error, Result};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::text::{Fingerprinter, MOST_UNITS, Unit};

/// The units of a text.
pub(super) struct TextUnits {
    pub(super) units: Vec<TextUnit>,
    /// Those that are looked for.
    pub(super) wanted: Vec<Wanted>,
}

/// A paragraph or a sentence of the text.
pub(super) struct TextUnit {
    pub(super) range: Range<usize>,
    pub(super) characters: u64,
    /// Its index among the wanted. `None` if it is too short to judge.
    pub(super) wanted: Option<usize>,
}

/// What one unit, or several equal ones, are looked for by. Equal units are looked for once.
pub(super) struct Wanted {
    pub(super) fingerprint: Fingerprint,
    pub(super) sketch: Option<Sketch>,
    /// The number of units.
    pub(super) units: u64,
    /// Their characters together.
    pub(super) characters: u64,
}

impl TextUnits {
    pub(super) fn new(text: &str, unit: Unit, fingerprinter: &Fingerprinter) -> Result<Self> {
        let ranges = unit.ranges(text, MOST_UNITS + 1);
        if ranges.len() > MOST_UNITS {
            return Err(Error::TooManyUnits {
                max_units: MOST_UNITS,
            });
        }
        let pieces: Vec<&str> = ranges.iter().map(|range| &text[range.clone()]).collect();
        let judged = fingerprinter.fingerprints_and_sketches(&pieces);
        let mut units = Vec::with_capacity(ranges.len());
        let mut wanted = Vec::new();
        let mut indexes = HashMap::new();
        for ((range, piece), judged) in ranges.into_iter().zip(pieces).zip(judged) {
            let characters = piece.chars().count() as u64;
            let index = judged.map(|judged| match indexes.entry(judged) {
                Entry::Occupied(known) => *known.get(),
                Entry::Vacant(new) => {
                    wanted.push(Wanted::new(judged));
                    *new.insert(wanted.len() - 1)
                }
            });
            if let Some(index) = index {
                wanted[index].units += 1;
                wanted[index].characters += characters;
            }
            units.push(TextUnit {
                range,
                characters,
                wanted: index,
            });
        }
        Ok(Self { units, wanted })
    }
}

impl Wanted {
    fn new((fingerprint, sketch): (Fingerprint, Option<Sketch>)) -> Self {
        Self {
            fingerprint,
            sketch,
            units: 0,
            characters: 0,
        }
    }
}
