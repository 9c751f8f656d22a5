//! The proof, by branch and bound, that a set of probes misses nothing.
//!
//! A probe of a prefix finds the fingerprints that differ from the query in at most a given number of its
//! bits, its flips. A probe set misses a pair of fingerprints if, in every probed prefix, the pair differs
//! in more bits than the flips. So a probe set is exact at distance k if no k differing bits among the 64
//! do that. Bits that lie in the same prefixes are interchangeable. They form a *cell*, and each bit of a
//! cell can hold one difference.

use std::cmp::Reverse;

/// A probed prefix, as a mask of the bits of fingerprints or of permuted ones, and the number of these bits in which
/// query and stored fingerprint may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reach {
    pub(crate) prefix: u64,
    pub(crate) flips: u32,
}

/// The most steps of one proof. They take about a dozen milliseconds.
const MOST_STEPS: u32 = 1 << 16;

/// Whether no pair of fingerprints that differ in at most `distance` bits is missed. `None` if the search
/// ran out of `steps`, which proves nothing. The steps it took are subtracted from `steps`.
///
/// # Cost
///
/// Exponential in the distance at worst, and limited by `steps`. Disjoint prefixes and those of the usual
/// families take a few dozen steps.
pub(crate) fn covers(reaches: &[Reach], distance: u32, steps: &mut u32) -> Option<bool> {
    let mut search = Search::new(reaches, *steps);
    let missed = search.can_miss(distance);
    *steps = search.steps;
    (missed || search.steps > 0).then_some(!missed)
}

/// Whether it is proved that nothing is missed at a distance.
pub(super) fn is_proved(reaches: &[Reach], distance: u32) -> bool {
    let mut steps = MOST_STEPS;
    covers(reaches, distance, &mut steps) == Some(true)
}

/// The largest distance at which nothing is missed, or `None` if there are no probes. If a proof runs out
/// of steps, the largest distance proved before it.
pub(super) fn radius(reaches: &[Reach]) -> Option<u32> {
    let mut proved = None;
    for distance in 0..=u64::BITS {
        if !is_proved(reaches, distance) {
            break;
        }
        proved = Some(distance);
    }
    proved
}

/// The bits that lie in the same prefixes.
#[derive(Clone, Copy)]
struct Cell {
    /// The prefixes, a bit for each.
    prefixes: u64,
    /// The number of differences that still fit into the cell.
    room: u32,
}

/// The most cells there are: each has a bit at least.
const MOST_CELLS: usize = 64;

struct Search {
    cells: Vec<Cell>,
    /// For each prefix, the number of further differences at which its probes miss.
    lacking: Vec<u32>,
    /// The sum of these numbers.
    all_lacking: u32,
    /// The prefixes that still lack differences, a bit for each.
    open: u64,
    /// The prefixes of cells that get no further difference, since all choices with one of them were tried.
    tried: Vec<u64>,
    /// The steps that are left.
    steps: u32,
}

impl Search {
    fn new(reaches: &[Reach], steps: u32) -> Self {
        let lacking: Vec<u32> = reaches.iter().map(|reach| reach.flips + 1).collect();
        Self {
            cells: cells_of(reaches),
            all_lacking: lacking.iter().sum(),
            open: u64::MAX.unbounded_shr(u64::BITS - lacking.len() as u32),
            lacking,
            tried: Vec::new(),
            steps,
        }
    }

    /// Whether `left` further differences can make every probe miss.
    fn can_miss(&mut self, left: u32) -> bool {
        // Some difference must go into the prefix that lacks the most, so only the cells of that prefix
        // are tried.
        let most = self
            .lacking
            .iter()
            .enumerate()
            .max_by_key(|(_, lacking)| **lacking);
        let Some((most, &lacking)) = most.filter(|(_, lacking)| **lacking > 0) else {
            return true;
        };
        if lacking > left || self.steps == 0 || !self.may_suffice(left) {
            return false;
        }
        self.steps -= 1;
        let (usable, count) = self.usable_cells(most);
        let tried_before = self.tried.len();
        let mut found = false;
        let mut closed = [(0, 0); MOST_CELLS];
        let mut closed_count = 0;
        for &index in &usable[..count] {
            let Cell { prefixes, room } = self.cells[usize::from(index)];
            // A difference here could as well be in the cell that was tried. With it, all choices have failed.
            if self
                .tried
                .iter()
                .any(|tried| prefixes & self.open & !tried == 0)
            {
                continue;
            }
            self.cells[usize::from(index)].room -= 1;
            let counted = self.add_difference(prefixes);
            found = self.can_miss(left - 1);
            self.remove_difference(counted);
            closed[closed_count] = (index, room);
            closed_count += 1;
            if found {
                break;
            }
            // All choices with this cell were tried, so the others are tried without it.
            self.cells[usize::from(index)].room = 0;
            self.tried.push(prefixes);
        }
        self.tried.truncate(tried_before);
        for &(index, room) in &closed[..closed_count] {
            self.cells[usize::from(index)].room = room;
        }
        found
    }

    /// Counts a difference in these prefixes. Returns those of them in which it counts.
    fn add_difference(&mut self, prefixes: u64) -> u64 {
        let counted = prefixes & self.open;
        for index in indexes(counted) {
            self.lacking[index] -= 1;
            self.open &= !(u64::from(self.lacking[index] == 0) << index);
        }
        self.all_lacking -= counted.count_ones();
        counted
    }

    fn remove_difference(&mut self, counted: u64) {
        for index in indexes(counted) {
            self.lacking[index] += 1;
        }
        self.open |= counted;
        self.all_lacking += counted.count_ones();
    }

    /// Whether `left` differences could be enough. It is an optimistic bound: each difference counts in
    /// every open prefix of its cell, even beyond what that prefix lacks.
    fn may_suffice(&self, mut left: u32) -> bool {
        // The room of the cells that lie in 0 to 64 open prefixes. To sort the cells instead took half of
        // the time of a step.
        let mut room = [0; 65];
        for cell in &self.cells {
            room[(cell.prefixes & self.open).count_ones() as usize] += cell.room;
        }
        let mut lacking = self.all_lacking;
        for prefixes in (1..=self.open.count_ones()).rev() {
            let taken = room[prefixes as usize].min(left);
            lacking = lacking.saturating_sub(taken * prefixes);
            left -= taken;
        }
        lacking == 0
    }

    /// The cells of a prefix that have room, and their number. First come those that lie in the most open prefixes.
    fn usable_cells(&self, prefix: usize) -> ([u8; MOST_CELLS], usize) {
        let mut usable = [0; MOST_CELLS];
        let mut count = 0;
        for (index, cell) in self.cells.iter().enumerate() {
            if cell.prefixes >> prefix & 1 != 0 && cell.room > 0 {
                usable[count] = index as u8;
                count += 1;
            }
        }
        usable[..count].sort_by_key(|&index: &u8| {
            let prefixes = self.cells[usize::from(index)].prefixes;
            Reverse((prefixes & self.open).count_ones())
        });
        (usable, count)
    }
}

/// The cells of the 64 bits. Each prefix divides those that it does not hold or leave out as a whole.
fn cells_of(reaches: &[Reach]) -> Vec<Cell> {
    let mut cells = Vec::with_capacity(MOST_CELLS);
    cells.push((u64::MAX, 0));
    for (index, reach) in reaches.iter().enumerate() {
        for cell in 0..cells.len() {
            let (bits, prefixes) = cells[cell];
            let within = bits & reach.prefix;
            if within != 0 && within != bits {
                cells.push((bits & !within, prefixes));
            }
            if within != 0 {
                cells[cell] = (within, prefixes | 1 << index);
            }
        }
    }
    let with_room = cells.into_iter().map(|(bits, prefixes)| Cell {
        prefixes,
        room: bits.count_ones(),
    });
    with_room.collect()
}

/// The indexes of the ones of a set.
pub(super) fn indexes(mut set: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (index < u64::BITS).then_some(index as usize)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reaches(prefixes: &[u64], flips: u32) -> Vec<Reach> {
        prefixes
            .iter()
            .map(|&prefix| Reach { prefix, flips })
            .collect()
    }

    #[test]
    fn disjoint_prefixes_add_up() {
        let blocks = [0xffff, 0xffff << 16, 0xffff << 32, 0xffff << 48];
        for tables in 1..=4 {
            for flips in 0..=3 {
                let expected = tables as u32 * (flips + 1) - 1;
                assert_eq!(radius(&reaches(&blocks[..tables], flips)), Some(expected));
            }
        }
        assert_eq!(radius(&[]), None);
        assert_eq!(radius(&reaches(&[0xff, 0], 0)), Some(64));
        // A prefix with all its bits flipped finds everything.
        assert_eq!(radius(&reaches(&[0xff], 8)), Some(64));
        assert_eq!(radius(&reaches(&[0xff], 7)), Some(7));
    }

    #[test]
    fn overlapping_prefixes_are_hit_by_their_common_bits() {
        // The prefixes are all pairs of three blocks. One difference hits two prefixes, two hit all three.
        assert_eq!(
            radius(&reaches(&[0xffff, 0xff_00ff, 0xff_ff00], 0)),
            Some(1)
        );
    }

    /// Whether some set of at most `distance` differing bits makes every probe miss.
    fn misses(reaches: &[Reach], bits: u32, distance: u32) -> bool {
        (0..1u64 << bits).any(|set| {
            let is_missed = |reach: &Reach| (reach.prefix & set).count_ones() > reach.flips;
            set.count_ones() <= distance && reaches.iter().all(is_missed)
        })
    }

    proptest! {
        #[test]
        fn the_search_agrees_with_enumeration(
            reaches in prop::collection::vec((0..1u64 << 12, 0..4u32), 1..7), distance in 0..9u32,
        ) {
            let reaches: Vec<Reach> =
                reaches.into_iter().map(|(prefix, flips)| Reach { prefix, flips }).collect();
            prop_assert_eq!(covers(&reaches, distance, &mut { MOST_STEPS }), Some(!misses(&reaches, 12, distance)));
        }
    }
}
