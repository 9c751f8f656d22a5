//! The search for the cheapest probe set: for a distance, on the tables a file has, with what it holds.
//!
//! The plain algorithm: start from layouts of which the probes could be exact with enough flips (prefixes that are disjoint; and
//! the prefixes the tables were made for), add the cheapest flips until they are, and then take away what can be taken away while
//! they stay so: tables, flips, candidates. `covering` has the last word, whatever was found here.

use std::cell::RefCell;

use super::combinations::combinations;
use super::cost::Load;
use super::covering::{self, Reach};
use super::probes::{ProbeSet, Way};
use super::table::Table;

/// How many choices of tables are tried for disjoint prefixes.
const MOST_CHOICES: usize = 2_000;

/// How many steps all proofs together may take; what is not proved then is not improved further.
const MOST_STEPS: u32 = 1 << 17;

/// So few fingerprints are compared sooner than a probe set is found.
const FEW_ROWS: f64 = 128.0;

/// How many layouts are worked out further.
const MOST_LAYOUTS: usize = 4;

/// The cheapest probe set found; to scan if none is cheaper.
///
/// # Cost
///
/// Some milliseconds; up to some dozens with many tables and a large distance.
pub(super) fn cheapest(tables: &[Table], distance: u32, load: &Load) -> ProbeSet {
    if load.rows <= FEW_ROWS {
        return ProbeSet::Scan;
    }
    let planner = Planner::new(tables, distance, load);
    let scan = load.nanos(&ProbeSet::Scan);
    let mut layouts = planner.disjoint();
    layouts.extend(planner.natural());
    let improved = layouts.into_iter().filter(|it| it.nanos < scan).map(|layout| planner.improve(layout));
    let mut found: Vec<Layout> = improved.filter(|it| it.nanos < scan).collect();
    found.sort_by(|a, b| a.nanos.total_cmp(&b.nanos));
    let mut sets = found.into_iter().map(|layout| ProbeSet::Ways(layout.ways));
    sets.find(|set| set.is_exact(tables, distance)).unwrap_or(ProbeSet::Scan)
}

struct Planner<'a> {
    tables: &'a [Table],
    /// For each table, the bits of the fingerprint that stand in its leading 0 to 64 bits.
    masks: Vec<[u64; 65]>,
    distance: u32,
    load: &'a Load,
    /// How many steps the proofs may still take, in all.
    steps: RefCell<u32>,
}

#[derive(Clone, Debug)]
struct Layout {
    ways: Vec<Way>,
    nanos: f64,
}

impl<'a> Planner<'a> {
    fn new(tables: &'a [Table], distance: u32, load: &'a Load) -> Self {
        let masks = tables
            .iter()
            .map(|table| std::array::from_fn(|bits| table.permutation.prefix_mask(bits as u32)))
            .collect();
        Self { tables, masks, distance, load, steps: RefCell::new(MOST_STEPS) }
    }

    fn layout(&self, ways: Vec<Way>) -> Layout {
        Layout { nanos: self.load.ways_nanos(&ways), ways }
    }

    fn is_exact(&self, ways: &[Way]) -> bool {
        let reach =
            |way: &Way| Reach { prefix: self.masks[way.table][way.prefix_bits as usize], flips: way.flips };
        let reaches: Vec<Reach> = ways.iter().map(reach).collect();
        covering::covers(&reaches, self.distance, &mut self.steps.borrow_mut()) == Some(true)
    }

    /// Disjoint prefixes of some tables, with flips that make them exact: the cheapest few.
    fn disjoint(&self) -> Vec<Layout> {
        let most_parts = self.tables.len().min(self.distance as usize + 1);
        let choices = (1..=most_parts).flat_map(|parts| combinations(self.tables.len(), parts));
        let mut cheapest: Vec<Layout> = Vec::with_capacity(MOST_LAYOUTS + 1);
        for chosen in choices.take(MOST_CHOICES) {
            let Some(layout) = self.with_cheapest_flips(self.grown(&chosen)) else { continue };
            let place = cheapest.partition_point(|it| it.nanos <= layout.nanos);
            cheapest.insert(place, layout);
            cheapest.truncate(MOST_LAYOUTS);
        }
        cheapest
    }

    /// The longest disjoint prefixes of these tables, grown bit by bit in turn.
    fn grown(&self, chosen: &[usize]) -> Vec<Way> {
        let mut ways: Vec<Way> =
            chosen.iter().map(|&table| Way { table, prefix_bits: 0, flips: 0 }).collect();
        let mut taken = 0;
        let mut grew = true;
        while grew {
            grew = false;
            for way in &mut ways {
                let masks = &self.masks[way.table];
                if let Some(&longer) = masks.get(way.prefix_bits as usize + 1)
                    && longer & !masks[way.prefix_bits as usize] & taken == 0
                {
                    way.prefix_bits += 1;
                    taken |= longer;
                    grew = true;
                }
            }
        }
        ways
    }

    /// Disjoint prefixes find everything at distance k if their flips, one more for each, are more than k.
    fn with_cheapest_flips(&self, mut ways: Vec<Way>) -> Option<Layout> {
        for _ in ways.len() as u32..=self.distance {
            let dearer = |way: &Way| {
                let next = Way { flips: way.flips + 1, ..*way };
                self.load.way_nanos(next) - self.load.way_nanos(*way)
            };
            let cheapest = ways.iter_mut().min_by(|a, b| dearer(a).total_cmp(&dearer(b)))?;
            cheapest.flips += 1;
        }
        Some(self.layout(ways))
    }

    /// The prefixes the tables were made for, with the fewest flips that suffice.
    fn natural(&self) -> Option<Layout> {
        let mut ways: Vec<Way> = (0..self.tables.len())
            .map(|table| Way { table, prefix_bits: self.tables[table].prefix_bits, flips: 0 })
            .collect();
        let scan = self.load.nanos(&ProbeSet::Scan);
        // No distance takes more flips than it has differences; but the proof may have been given up.
        for _ in 0..=self.distance {
            if self.is_exact(&ways) {
                return Some(self.layout(ways));
            }
            // All of them, since a flip in one alone may not get any nearer; what is too much is taken away later.
            ways.iter_mut().for_each(|way| way.flips += 1);
            if self.layout(ways.clone()).nanos > scan * 8.0 {
                return None;
            }
        }
        None
    }

    /// Takes away what can be taken away, the dearest first, as long as the probes stay exact.
    fn improve(&self, mut best: Layout) -> Layout {
        loop {
            let mut cheaper = self.cheaper_neighbours(&best);
            cheaper.sort_by(|a, b| a.nanos.total_cmp(&b.nanos));
            match cheaper.into_iter().find(|it| self.is_exact(&it.ways)) {
                Some(layout) => best = layout,
                None => return best,
            }
        }
    }

    /// Layouts that are cheaper and differ in one table, or in two of which one does more and one less.
    fn cheaper_neighbours(&self, layout: &Layout) -> Vec<Layout> {
        let ways = &layout.ways;
        let nanos: Vec<f64> = ways.iter().map(|&way| self.load.way_nanos(way)).collect();
        let flipped = |way: Way| Way { flips: way.flips + 1, ..way };
        let flipped_nanos: Vec<f64> = ways.iter().map(|&way| self.load.way_nanos(flipped(way))).collect();
        let mut cheaper = Vec::new();
        for (place, &way) in ways.iter().enumerate() {
            let longer = (1..=8).map(|bits| Way { prefix_bits: way.prefix_bits + bits, ..way });
            let longer = longer.flat_map(|way| [way, flipped(way)]).filter(|way| way.prefix_bits <= 64);
            let fewer = way.flips.checked_sub(1).map(|flips| Way { flips, ..way });
            for less in longer.chain(fewer).map(Some).chain([None]) {
                let saved = nanos[place] - less.map_or(0.0, |less| self.load.way_nanos(less));
                let mut add = |more: Option<usize>| {
                    let added = more.map_or(0.0, |more| flipped_nanos[more] - nanos[more]);
                    if layout.nanos - saved + added > layout.nanos * 0.999 {
                        return;
                    }
                    let mut ways = ways.clone();
                    more.into_iter().for_each(|more| ways[more] = flipped(ways[more]));
                    match less {
                        Some(less) => ways[place] = less,
                        None => drop(ways.remove(place)),
                    }
                    cheaper.push(self.layout(ways));
                };
                add(None);
                (0..ways.len()).filter(|&other| other != place).for_each(|other| add(Some(other)));
            }
        }
        cheaper
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan_named;
    use super::*;
    use crate::fingerprint::{Fingerprint, differences_up_to};

    fn found(plan: &str, distance: u32, rows: f64) -> (ProbeSet, Load) {
        let plan = plan_named(plan).expect("a plan");
        let load = Load::uniform(rows, plan.tables());
        (cheapest(plan.tables(), distance, &load), load)
    }

    #[test]
    fn every_distance_is_answered_exactly_and_not_dearer_than_by_a_scan() {
        for plan in ["2x32", "4x16", "6x21", "10x25", "11x28", "14x32", "8x8"] {
            let tables = plan_named(plan).expect("a plan");
            for rows in [1e3, 1e6, 1e8] {
                let mut cheaper = 0.0;
                for distance in (0..=12).chain([20, 33, 64]) {
                    let (set, load) = found(plan, distance, rows);
                    assert!(set.is_exact(tables.tables(), distance), "{plan} at {distance}");
                    let nanos = load.nanos(&set);
                    assert!(nanos <= load.nanos(&ProbeSet::Scan));
                    // What is exact for a distance is so for a smaller one; the search may miss it by a little.
                    assert!(nanos >= cheaper * 0.8, "{plan} at {distance}: {nanos} after {cheaper}");
                    cheaper = nanos;
                }
            }
        }
    }

    /// In an empty database every probe set was as cheap as any other, so that the search for one with more flips did not end where
    /// the proof was given up.
    #[test]
    fn the_search_ends_where_nothing_is_stored() {
        for plan in ["2x32", "4x16", "6x21", "10x25", "11x28", "14x32", "8x8"] {
            let tables = plan_named(plan).expect("a plan");
            for (rows, levels) in [(0.0, 0.0), (FEW_ROWS + 1.0, 0.0)] {
                let load = Load { levels, ..Load::uniform(rows, tables.tables()) };
                for distance in (0..=64).step_by(3) {
                    assert!(cheapest(tables.tables(), distance, &load).is_exact(tables.tables(), distance));
                }
            }
        }
    }

    #[test]
    fn small_distances_take_one_probe_of_each_table_and_larger_ones_flips() {
        let (set, _) = found("4x16", 3, 1e6);
        let way = |table| Way { table, prefix_bits: 16, flips: 0 };
        assert_eq!(set, ProbeSet::Ways((0..4).map(way).collect()));
        assert_eq!(
            found("4x16", 0, 1e8).0,
            ProbeSet::Ways(vec![Way { table: 0, prefix_bits: 64, flips: 0 }])
        );
        let ProbeSet::Ways(ways) = found("6x21", 3, 1e8).0 else { panic!("a scan") };
        assert_eq!(ways.len(), 6);
        // 7 differences at a hundred million fingerprints.
        for plan in ["4x16", "6x21", "11x28", "14x32"] {
            let (set, load) = found(plan, 7, 1e8);
            assert!(load.nanos(&set) < 250e3, "{plan}: {set:?}, {} us", load.nanos(&set) / 1e3);
        }
    }

    #[test]
    fn every_difference_of_three_bits_lies_in_the_range_of_some_probe() {
        let query = Fingerprint::from_bits(0xfeed_face_cafe_beef);
        let differences = differences_up_to(3);
        assert_eq!(differences.len(), 43_745);
        for plan in ["4x16", "6x21", "10x25", "11x28", "14x32"] {
            for rows in [1e5, 1e9] {
                let plan = plan_named(plan).expect("a plan");
                let set = cheapest(plan.tables(), 3, &Load::uniform(rows, plan.tables()));
                let mut probes = Vec::new();
                assert!(set.add_probes(plan.tables(), query, 0, &mut probes));
                for difference in &differences {
                    let stored = Fingerprint::from_bits(query.bits() ^ difference);
                    let caught = probes.iter().any(|probe| {
                        let row = plan.tables()[probe.table].permutation.apply(stored).bits();
                        (probe.first..=probe.last).contains(&row)
                    });
                    assert!(caught, "{plan}: difference {difference:#x}");
                }
            }
        }
    }
}
