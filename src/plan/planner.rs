//! The search for the cheapest probe set: for a distance, on the tables a file has, with what it holds.
//!
//! The plain algorithm: start from layouts of which the probes could be exact with enough flips (prefixes that are disjoint; and
//! the prefixes the tables were made for), add the cheapest flips until they are, and then take away what can be taken away while
//! they stay so: tables, flips, candidates. `covering` has the last word, whatever was found here.

use std::cell::RefCell;

use super::combinations::combinations;
use super::cost::CostModel;
use super::covering::{self, Reach};
use super::probes::{ProbeSet, ProbedPrefix};
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
pub(super) fn cheapest(tables: &[Table], distance: u32, cost_model: &CostModel) -> ProbeSet {
    if cost_model.rows <= FEW_ROWS {
        return ProbeSet::Scan;
    }
    let planner = Planner::new(tables, distance, cost_model);
    let scan = cost_model.nanos(&ProbeSet::Scan);
    let mut layouts = planner.disjoint();
    layouts.extend(planner.natural());
    let improved = layouts.into_iter().filter(|it| it.nanos < scan).map(|layout| planner.improve(layout));
    let mut found: Vec<Layout> = improved.filter(|it| it.nanos < scan).collect();
    found.sort_by(|a, b| a.nanos.total_cmp(&b.nanos));
    let mut sets = found.into_iter().map(|layout| ProbeSet::Prefixes(layout.prefixes));
    sets.find(|set| set.is_exact(tables, distance)).unwrap_or(ProbeSet::Scan)
}

struct Planner<'a> {
    tables: &'a [Table],
    /// For each table, the bits of the fingerprint that stand in its leading 0 to 64 bits.
    masks: Vec<[u64; 65]>,
    distance: u32,
    cost_model: &'a CostModel,
    /// How many steps the proofs may still take, in all.
    steps: RefCell<u32>,
}

#[derive(Clone, Debug)]
struct Layout {
    prefixes: Vec<ProbedPrefix>,
    nanos: f64,
}

impl<'a> Planner<'a> {
    fn new(tables: &'a [Table], distance: u32, cost_model: &'a CostModel) -> Self {
        let masks = tables
            .iter()
            .map(|table| std::array::from_fn(|bits| table.permutation.prefix_mask(bits as u32)))
            .collect();
        Self { tables, masks, distance, cost_model, steps: RefCell::new(MOST_STEPS) }
    }

    fn layout(&self, prefixes: Vec<ProbedPrefix>) -> Layout {
        Layout { nanos: self.cost_model.prefixes_nanos(&prefixes), prefixes }
    }

    fn is_exact(&self, prefixes: &[ProbedPrefix]) -> bool {
        let reach = |prefix: &ProbedPrefix| Reach {
            prefix: self.masks[prefix.table][prefix.prefix_bits as usize],
            flips: prefix.flips,
        };
        let reaches: Vec<Reach> = prefixes.iter().map(reach).collect();
        covering::covers(&reaches, self.distance, &mut self.steps.borrow_mut()) == Some(true)
    }

    /// Disjoint prefixes of some tables, with flips that make them exact: the cheapest few.
    fn disjoint(&self) -> Vec<Layout> {
        let most_parts = self.tables.len().min(self.distance as usize + 1);
        let choices = (1..=most_parts).flat_map(|parts| combinations(self.tables.len(), parts));
        let mut cheapest: Vec<Layout> = Vec::with_capacity(MOST_LAYOUTS + 1);
        for chosen in choices.take(MOST_CHOICES) {
            let Some(layout) = self.with_cheapest_flips(self.grown(&chosen)) else { continue };
            let index = cheapest.partition_point(|it| it.nanos <= layout.nanos);
            cheapest.insert(index, layout);
            cheapest.truncate(MOST_LAYOUTS);
        }
        cheapest
    }

    /// The longest disjoint prefixes of these tables, grown bit by bit in turn.
    fn grown(&self, chosen: &[usize]) -> Vec<ProbedPrefix> {
        let mut prefixes: Vec<ProbedPrefix> =
            chosen.iter().map(|&table| ProbedPrefix { table, prefix_bits: 0, flips: 0 }).collect();
        let mut taken = 0;
        let mut grew = true;
        while grew {
            grew = false;
            for prefix in &mut prefixes {
                let masks = &self.masks[prefix.table];
                if let Some(&longer) = masks.get(prefix.prefix_bits as usize + 1)
                    && longer & !masks[prefix.prefix_bits as usize] & taken == 0
                {
                    prefix.prefix_bits += 1;
                    taken |= longer;
                    grew = true;
                }
            }
        }
        prefixes
    }

    /// Disjoint prefixes find everything at distance k if their flips, one more for each, are more than k.
    fn with_cheapest_flips(&self, mut prefixes: Vec<ProbedPrefix>) -> Option<Layout> {
        for _ in prefixes.len() as u32..=self.distance {
            let dearer = |prefix: &ProbedPrefix| {
                let next = ProbedPrefix { flips: prefix.flips + 1, ..*prefix };
                self.cost_model.prefix_nanos(next) - self.cost_model.prefix_nanos(*prefix)
            };
            let cheapest = prefixes.iter_mut().min_by(|a, b| dearer(a).total_cmp(&dearer(b)))?;
            cheapest.flips += 1;
        }
        Some(self.layout(prefixes))
    }

    /// The prefixes the tables were made for, with the fewest flips that suffice.
    fn natural(&self) -> Option<Layout> {
        let mut prefixes: Vec<ProbedPrefix> = (0..self.tables.len())
            .map(|table| ProbedPrefix { table, prefix_bits: self.tables[table].prefix_bits, flips: 0 })
            .collect();
        let scan = self.cost_model.nanos(&ProbeSet::Scan);
        // No distance takes more flips than it has differences; but the proof may have been given up.
        for _ in 0..=self.distance {
            if self.is_exact(&prefixes) {
                return Some(self.layout(prefixes));
            }
            // All of them, since a flip in one alone may not get any nearer; what is too much is taken away later.
            prefixes.iter_mut().for_each(|prefix| prefix.flips += 1);
            if self.layout(prefixes.clone()).nanos > scan * 8.0 {
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
            match cheaper.into_iter().find(|it| self.is_exact(&it.prefixes)) {
                Some(layout) => best = layout,
                None => return best,
            }
        }
    }

    /// Layouts that are cheaper and differ in one table, or in two of which one does more and one less.
    fn cheaper_neighbours(&self, layout: &Layout) -> Vec<Layout> {
        let prefixes = &layout.prefixes;
        let nanos: Vec<f64> = prefixes.iter().map(|&prefix| self.cost_model.prefix_nanos(prefix)).collect();
        let flipped = |prefix: ProbedPrefix| ProbedPrefix { flips: prefix.flips + 1, ..prefix };
        let flipped_nanos: Vec<f64> =
            prefixes.iter().map(|&prefix| self.cost_model.prefix_nanos(flipped(prefix))).collect();
        let mut cheaper = Vec::new();
        for (index, &prefix) in prefixes.iter().enumerate() {
            let longer =
                (1..=8).map(|bits| ProbedPrefix { prefix_bits: prefix.prefix_bits + bits, ..prefix });
            let longer =
                longer.flat_map(|prefix| [prefix, flipped(prefix)]).filter(|prefix| prefix.prefix_bits <= 64);
            let fewer = prefix.flips.checked_sub(1).map(|flips| ProbedPrefix { flips, ..prefix });
            for less in longer.chain(fewer).map(Some).chain([None]) {
                let saved = nanos[index] - less.map_or(0.0, |less| self.cost_model.prefix_nanos(less));
                let mut add = |more: Option<usize>| {
                    let added = more.map_or(0.0, |more| flipped_nanos[more] - nanos[more]);
                    if layout.nanos - saved + added > layout.nanos * 0.999 {
                        return;
                    }
                    let mut prefixes = prefixes.clone();
                    more.into_iter().for_each(|more| prefixes[more] = flipped(prefixes[more]));
                    match less {
                        Some(less) => prefixes[index] = less,
                        None => drop(prefixes.remove(index)),
                    }
                    cheaper.push(self.layout(prefixes));
                };
                add(None);
                (0..prefixes.len()).filter(|&other| other != index).for_each(|other| add(Some(other)));
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

    fn found(plan: &str, distance: u32, rows: f64) -> (ProbeSet, CostModel) {
        let plan = plan_named(plan).expect("a plan");
        let cost_model = CostModel::uniform(rows, plan.tables());
        (cheapest(plan.tables(), distance, &cost_model), cost_model)
    }

    #[test]
    fn every_distance_is_answered_exactly_and_not_dearer_than_by_a_scan() {
        for plan in ["2x32", "4x16", "6x21", "10x25", "11x28", "14x32", "8x8"] {
            let tables = plan_named(plan).expect("a plan");
            for rows in [1e3, 1e6, 1e8] {
                let mut cheaper = 0.0;
                for distance in (0..=12).chain([20, 33, 64]) {
                    let (set, cost_model) = found(plan, distance, rows);
                    assert!(set.is_exact(tables.tables(), distance), "{plan} at {distance}");
                    let nanos = cost_model.nanos(&set);
                    assert!(nanos <= cost_model.nanos(&ProbeSet::Scan));
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
                let cost_model = CostModel { levels, ..CostModel::uniform(rows, tables.tables()) };
                for distance in (0..=64).step_by(3) {
                    assert!(
                        cheapest(tables.tables(), distance, &cost_model).is_exact(tables.tables(), distance)
                    );
                }
            }
        }
    }

    #[test]
    fn small_distances_take_one_probe_of_each_table_and_larger_ones_flips() {
        let (set, _) = found("4x16", 3, 1e6);
        let prefix = |table| ProbedPrefix { table, prefix_bits: 16, flips: 0 };
        assert_eq!(set, ProbeSet::Prefixes((0..4).map(prefix).collect()));
        assert_eq!(
            found("4x16", 0, 1e8).0,
            ProbeSet::Prefixes(vec![ProbedPrefix { table: 0, prefix_bits: 64, flips: 0 }])
        );
        let ProbeSet::Prefixes(prefixes) = found("6x21", 3, 1e8).0 else { panic!("a scan") };
        assert_eq!(prefixes.len(), 6);
        // 7 differences at a hundred million fingerprints.
        for plan in ["4x16", "6x21", "11x28", "14x32"] {
            let (set, cost_model) = found(plan, 7, 1e8);
            assert!(cost_model.nanos(&set) < 250e3, "{plan}: {set:?}, {} us", cost_model.nanos(&set) / 1e3);
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
                let set = cheapest(plan.tables(), 3, &CostModel::uniform(rows, plan.tables()));
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
