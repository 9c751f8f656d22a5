//! The proof, by branch and bound, that a set of probes misses nothing.
//!
//! A probe of a prefix finds the fingerprints that differ from the query in at most a given number of its
//! bits, its flips. A probe set misses a pair of fingerprints if, in every probed prefix, the pair differs
//! in more bits than the flips. So a probe set is exact at distance k if no k differing bits among the 64
//! do that. Bits that lie in the same prefixes are interchangeable. They form a *cell*, and each bit of a
//! cell can hold one difference.

/// A probed prefix, as a mask of fingerprint bits, and the number of these bits in which query and stored
/// fingerprint may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub(super) prefix: u64,
    pub(super) flips: u32,
}

/// The most steps of one proof. They take about a dozen milliseconds.
pub(super) const MOST_STEPS: u32 = 1 << 16;

/// Whether no pair of fingerprints that differ in at most `distance` bits is missed. `None` if the search
/// ran out of `steps`, which proves nothing. The steps it took are subtracted from `steps`.
///
/// # Cost
///
/// Exponential in the distance at worst, and limited by `steps`. Disjoint prefixes and those of the usual
/// families take a few dozen steps.
pub(super) fn covers(reaches: &[Reach], distance: u32, steps: &mut u32) -> Option<bool> {
    let mut search = Search::new(reaches, *steps);
    let missed = search.can_miss(distance);
    *steps = search.steps;
    (missed || search.steps > 0).then_some(!missed)
}

/// The largest distance at which nothing is missed, or `None` if there are no probes. If a proof runs out
/// of steps, the largest distance proved before it.
pub(super) fn radius(reaches: &[Reach]) -> Option<u32> {
    let proved =
        (0..=u64::BITS).take_while(|&distance| covers(reaches, distance, &mut { MOST_STEPS }) == Some(true));
    proved.last()
}

/// The bits that lie in the same prefixes.
#[derive(Clone, Copy)]
struct Cell {
    /// The prefixes, a bit for each.
    prefixes: u64,
    /// The number of differences that still fit into the cell.
    room: u32,
}

struct Search {
    cells: Vec<Cell>,
    /// For each prefix, the number of further differences at which its probes miss.
    lacking: Vec<u32>,
    /// The steps that are left.
    steps: u32,
}

impl Search {
    fn new(reaches: &[Reach], steps: u32) -> Self {
        let mut cells: Vec<Cell> = Vec::new();
        for bit in (0..u64::BITS).map(|bit| 1 << bit) {
            let within = reaches.iter().enumerate().filter(|(_, reach)| reach.prefix & bit != 0);
            let prefixes = within.fold(0, |set, (index, _)| set | 1 << index);
            match cells.iter_mut().find(|cell| cell.prefixes == prefixes) {
                Some(cell) => cell.room += 1,
                None => cells.push(Cell { prefixes, room: 1 }),
            }
        }
        Self { cells, lacking: reaches.iter().map(|reach| reach.flips + 1).collect(), steps }
    }

    /// Whether `left` further differences can make every probe miss.
    fn can_miss(&mut self, left: u32) -> bool {
        // Some difference must go into the prefix that lacks the most, so only the cells of that prefix
        // are tried.
        let most = self.lacking.iter().enumerate().max_by_key(|(_, lacking)| **lacking);
        let Some((most, &lacking)) = most.filter(|(_, lacking)| **lacking > 0) else { return true };
        if lacking > left || self.steps == 0 || !self.may_suffice(left) {
            return false;
        }
        self.steps -= 1;
        let mut closed = Vec::new();
        let mut found = false;
        for index in self.cells_of(most) {
            let Cell { prefixes, room } = self.cells[index];
            self.cells[index].room -= 1;
            let before = self.lacking.clone();
            for (i, lacking) in self.lacking.iter_mut().enumerate() {
                *lacking = lacking.saturating_sub((prefixes >> i & 1) as u32);
            }
            found = self.can_miss(left - 1);
            self.lacking = before;
            closed.push((index, room));
            if found {
                break;
            }
            // All choices with this cell were tried, so the others are tried without it.
            self.cells[index].room = 0;
        }
        closed.into_iter().for_each(|(index, room)| self.cells[index].room = room);
        found
    }

    /// The prefixes that still lack differences, a bit for each.
    fn open(&self) -> u64 {
        let lacking = self.lacking.iter().enumerate().filter(|(_, lacking)| **lacking > 0);
        lacking.fold(0, |set, (index, _)| set | 1 << index)
    }

    /// Whether `left` differences could be enough. It is an optimistic bound: each difference counts in
    /// every open prefix of its cell, even beyond what that prefix lacks.
    fn may_suffice(&self, mut left: u32) -> bool {
        let open = self.open();
        // The room of the cells that lie in 0 to 64 open prefixes. To sort the cells instead took half of
        // the time of a step.
        let mut room = [0; 65];
        for cell in &self.cells {
            room[(cell.prefixes & open).count_ones() as usize] += cell.room;
        }
        let mut lacking: u32 = self.lacking.iter().sum();
        for (prefixes, room) in room.into_iter().enumerate().rev() {
            let taken = room.min(left);
            lacking = lacking.saturating_sub(taken * prefixes as u32);
            left -= taken;
        }
        lacking == 0
    }

    /// The cells of a prefix that have room. First come those that lie in the most open prefixes.
    fn cells_of(&self, prefix: usize) -> Vec<usize> {
        let open = self.open();
        let usable =
            |&index: &usize| self.cells[index].prefixes >> prefix & 1 != 0 && self.cells[index].room > 0;
        let mut indexes: Vec<usize> = (0..self.cells.len()).filter(usable).collect();
        indexes.sort_by_key(|&index| std::cmp::Reverse((self.cells[index].prefixes & open).count_ones()));
        indexes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn reaches(prefixes: &[u64], flips: u32) -> Vec<Reach> {
        prefixes.iter().map(|&prefix| Reach { prefix, flips }).collect()
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
        assert_eq!(radius(&reaches(&[0xffff, 0xff_00ff, 0xff_ff00], 0)), Some(1));
    }

    /// Whether some set of at most `distance` differing bits makes every probe miss.
    fn misses(reaches: &[Reach], bits: u32, distance: u32) -> bool {
        (0..1u64 << bits)
            .filter(|it| it.count_ones() <= distance)
            .any(|it| reaches.iter().all(|reach| (reach.prefix & it).count_ones() > reach.flips))
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
