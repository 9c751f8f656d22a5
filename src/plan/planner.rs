//! The search for the cheapest probe set for a distance, with the tables and the cost model of a file.
//!
//! The plain algorithm: start from layouts whose probes become exact with enough flips. These are disjoint
//! prefixes, and the prefixes that the tables were made for. Add the cheapest flips until the probes are
//! exact. Then move to cheaper layouts while they stay exact. `covering` proves the result, whatever was
//! found here.

use std::cell::RefCell;

use super::combinations::combinations;
use super::cost::CostModel;
use super::covering::{self, Reach};
use super::probes::{ProbeSet, ProbedPrefix};
use super::table::Table;

/// The most choices of tables that are tried for disjoint prefixes.
const MOST_CHOICES: usize = 2_000;

/// The most steps of all proofs of one search together, apart from the proof of its result. When they are
/// used up, nothing is improved further.
const MOST_STEPS: u32 = 1 << 17;

/// Up to this number of fingerprints, a scan takes less time than the search for a probe set.
const FEW_ROWS: f64 = 128.0;

/// The most layouts of disjoint prefixes that are improved.
const MOST_LAYOUTS: usize = 4;

/// The cheapest probe set found, or a scan if none is cheaper.
///
/// # Cost
///
/// Some milliseconds. With many tables and a large distance, some dozens of milliseconds.
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
    /// For each table, the bits of the fingerprint that are its leading 0 to 64 bits, as masks.
    masks: Vec<[u64; 65]>,
    distance: u32,
    cost_model: &'a CostModel,
    /// The steps that are left for all proofs together.
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

    /// The cheapest layouts of disjoint prefixes of some tables, with flips that make them exact.
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

    /// The longest disjoint prefixes of these tables. They grow by one bit in turn.
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

    /// Adds the cheapest flips that make disjoint prefixes exact. At distance k, the flips and the number
    /// of prefixes must add up to more than k.
    fn with_cheapest_flips(&self, mut prefixes: Vec<ProbedPrefix>) -> Option<Layout> {
        for _ in prefixes.len() as u32..=self.distance {
            let added_nanos = |prefix: &ProbedPrefix| {
                let next = ProbedPrefix { flips: prefix.flips + 1, ..*prefix };
                self.cost_model.prefix_nanos(next) - self.cost_model.prefix_nanos(*prefix)
            };
            let cheapest = prefixes.iter_mut().min_by(|a, b| added_nanos(a).total_cmp(&added_nanos(b)))?;
            cheapest.flips += 1;
        }
        Some(self.layout(prefixes))
    }

    /// The prefixes that the tables were made for, with the fewest equal flips that make them exact.
    /// `None` if they cannot be proved, or cost much more than a scan.
    fn natural(&self) -> Option<Layout> {
        let mut prefixes: Vec<ProbedPrefix> = (0..self.tables.len())
            .map(|table| ProbedPrefix { table, prefix_bits: self.tables[table].prefix_bits, flips: 0 })
            .collect();
        let scan = self.cost_model.nanos(&ProbeSet::Scan);
        // With `distance` flips in each prefix nothing is missed. The loop still has to end if the proof
        // runs out of steps.
        for _ in 0..=self.distance {
            if self.is_exact(&prefixes) {
                return Some(self.layout(prefixes));
            }
            // Every prefix gets a flip, because a flip in one alone may not bring the proof nearer.
            // `improve` takes away the flips that are not needed.
            prefixes.iter_mut().for_each(|prefix| prefix.flips += 1);
            if self.layout(prefixes.clone()).nanos > scan * 8.0 {
                return None;
            }
        }
        None
    }

    /// Moves to the cheapest neighbour that is exact, again and again, until no cheaper neighbour is
    /// exact.
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

    /// Layouts that are cheaper by at least a thousandth. In each of them one prefix is longer, has a flip
    /// less, or is gone. In some of them another prefix has a flip more.
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
    fn every_distance_is_answered_exactly_and_at_no_higher_cost_than_by_a_scan() {
        for plan in ["2x32", "4x16", "6x21", "10x25", "11x28", "14x32", "8x8"] {
            let tables = plan_named(plan).expect("a plan");
            for rows in [1e3, 1e6, 1e8] {
                let mut previous = 0.0;
                for distance in (0..=12).chain([20, 33, 64]) {
                    let (set, cost_model) = found(plan, distance, rows);
                    assert!(set.is_exact(tables.tables(), distance), "{plan} at {distance}");
                    let nanos = cost_model.nanos(&set);
                    assert!(nanos <= cost_model.nanos(&ProbeSet::Scan));
                    // A probe set that is exact for a distance is exact for a smaller one, so costs should
                    // not fall. The search may be off by a little.
                    assert!(nanos >= previous * 0.8, "{plan} at {distance}: {nanos} after {previous}");
                    previous = nanos;
                }
            }
        }
    }

    /// In an empty database, all probe sets had the same cost. So the search for more flips did not end
    /// when the proof ran out of steps.
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
        // Distance 7 at a hundred million fingerprints.
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
