//! The properties of a character, in a table that takes two reads.

use super::ranges::{FOLDINGS, RUNS};

/// What the schemes have to know of a character, in Unicode 17.0.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Properties(u8);

/// A property that a character has or has not.
#[derive(Clone, Copy)]
pub(super) enum Property {
    /// Whether the character goes, because nobody sees it (Default_Ignorable_Code_Point, but for the zero-width space),
    /// because it only stretches a word or frames a digit, or because most writers leave it out, as the points of
    /// Hebrew.
    Dropped = 0x08,
    /// Whether the character folds to none or to several, and none of these need be one that NFKC changes. Or it is a
    /// fraction, before which a space may come, or a sign that becomes a space.
    FoldsToSeveral = 0x10,
    /// Whether normalisation form KC may change the character, or what is before it: unless NFKC_Quick_Check is Yes
    /// and the combining class is 0.
    Changes = 0x20,
    /// Whether Unicode 17.0.0 has this character.
    Assigned = 0x40,
    /// Whether the character folds to one other. ASCII is not counted.
    Folds = 0x80,
}

/// What a character does in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It parts words: a space, a symbol, punctuation, an apostrophe also where Unicode has it as a letter.
    Parting,
    /// It belongs to the letter before it: Word_Break is Extend, or Format, of which most are dropped.
    Mark,
    /// A letter or a number of a script with spaces between words, or a sign of Braille.
    Word,
    /// Word_Break is Katakana.
    Katakana,
    /// A letter or a number that is a word by itself: Word_Break is Other. So it is in scripts that put no spaces
    /// between words, such as Han, Hiragana, Thai, Lao, Myanmar and Khmer.
    Single,
}

impl Class {
    /// Every value, in the order of the numbers in the table.
    const ALL: [Self; 5] = [
        Self::Parting,
        Self::Mark,
        Self::Word,
        Self::Katakana,
        Self::Single,
    ];
}

const CLASS: u8 = 0x07;

impl Properties {
    pub(super) fn new(c: char) -> Self {
        let code = c as usize;
        let block = usize::from(TABLE.blocks[code / BLOCK]);
        Self(TABLE.properties[block][code % BLOCK])
    }

    /// All properties, as a number for tests that pin them.
    #[cfg(test)]
    pub(super) fn bits(self) -> u8 {
        self.0
    }

    pub(super) const fn class(self) -> Class {
        Class::ALL[(self.0 & CLASS) as usize]
    }

    pub(super) const fn has(self, property: Property) -> bool {
        self.0 & property as u8 != 0
    }

    /// What is true of one of two characters.
    pub(super) const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Code points in a block of the table.
const BLOCK: usize = 128;
const BLOCKS: usize = 0x11_0000 / BLOCK;

/// The properties of all code points. Blocks in which all are equal share one block for each value.
struct Table<const DISTINCT: usize> {
    blocks: [u16; BLOCKS],
    properties: [[u8; BLOCK]; DISTINCT],
}

/// Computed by the compiler, so that a program neither waits for it nor asks each time whether it is there.
static TABLE: Table<{ distinct_blocks() }> = table();

const fn first_of(run: usize) -> usize {
    if run < RUNS.len() {
        (RUNS[run] >> 8) as usize
    } else {
        BLOCKS * BLOCK
    }
}

const fn value_of(run: usize) -> u8 {
    (RUNS[run] & 0xFF) as u8
}

const fn distinct_blocks() -> usize {
    make::<0>().1
}

const fn table<const DISTINCT: usize>() -> Table<DISTINCT> {
    make().0
}

/// The table, and how many distinct blocks it needs. Only the first `DISTINCT` of them are filled in.
const fn make<const DISTINCT: usize>() -> (Table<DISTINCT>, usize) {
    const NONE: u16 = u16::MAX;
    let mut table = Table {
        blocks: [0; BLOCKS],
        properties: [[0; BLOCK]; DISTINCT],
    };
    let mut distinct = 0;
    let mut uniform = [NONE; 256];
    // The run of the first code point of the block, and the first folding that may reach into it.
    let mut run = 0;
    let mut folding = 0;
    let mut block = 0;
    while block < BLOCKS {
        let start = block * BLOCK;
        let end = start + BLOCK;
        while first_of(run + 1) <= start {
            run += 1;
        }
        while folding < FOLDINGS.len() && (FOLDINGS[folding].1 as usize) < start {
            folding += 1;
        }
        let folds = folding < FOLDINGS.len() && (FOLDINGS[folding].0 as usize) < end;
        let value = value_of(run) as usize;
        if first_of(run + 1) >= end && !folds && uniform[value] != NONE {
            table.blocks[block] = uniform[value];
        } else {
            if first_of(run + 1) >= end && !folds {
                uniform[value] = distinct as u16;
            }
            if distinct < DISTINCT {
                table.properties[distinct] = properties_of(start, run, folding);
            }
            table.blocks[block] = distinct as u16;
            distinct += 1;
        }
        block += 1;
    }
    (table, distinct)
}

/// The block that begins at code point `start`, in this run. `folding` is the first that may reach into it.
const fn properties_of(start: usize, mut run: usize, mut folding: usize) -> [u8; BLOCK] {
    let mut block = [0; BLOCK];
    let mut at = 0;
    while at < BLOCK {
        if first_of(run + 1) <= start + at {
            run += 1;
        }
        block[at] = value_of(run);
        at += 1;
    }
    while folding < FOLDINGS.len() && (FOLDINGS[folding].0 as usize) < start + BLOCK {
        let (first, last, step, _) = FOLDINGS[folding];
        let mut code = first as usize;
        while code <= last as usize {
            if code >= start && code < start + BLOCK {
                block[code - start] |= Property::Folds as u8;
            }
            code += step as usize;
        }
        folding += 1;
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first and the last code point of each run, and those beside them, are where a mistake in the table
    /// would show.
    #[test]
    fn the_table_says_what_the_runs_say() {
        let folds: Vec<u32> = FOLDINGS
            .iter()
            .flat_map(|&(first, last, step, _)| (first..=last).step_by(step as usize))
            .collect();
        assert!(folds.is_sorted_by(|a, b| a < b) && RUNS.is_sorted_by(|a, b| a >> 8 < b >> 8));
        for c in '\0'..=char::MAX {
            let run = RUNS.partition_point(|run| run >> 8 <= u32::from(c)) - 1;
            let fold = if folds.binary_search(&u32::from(c)).is_ok() {
                Property::Folds as u8
            } else {
                0
            };
            assert_eq!(
                Properties::new(c),
                Properties(value_of(run) | fold),
                "{c:?}"
            );
        }
    }

    /// Unicode publishes the number of its characters. Version 17.0 has 159,801 graphic and format
    /// characters. There are also 65 controls and 137,468 code points for private use.
    #[test]
    fn as_many_characters_are_assigned_as_the_version_has() {
        let assigned = ('\0'..=char::MAX)
            .filter(|&c| Properties::new(c).has(Property::Assigned))
            .count();
        assert_eq!(assigned, 159_801 + 65 + 137_468);
    }
}
