//! The search for the cheapest probe set for a distance, with the tables and the cost model of a file.
//!
//! The plain algorithm: start from layouts whose probes become exact with enough flips. These are disjoint
//! prefixes, and the prefixes that the tables were made for. Add the cheapest flips until the probes are
//! exact. Then move to cheaper layouts while they stay exact. `covering` proves the result, whatever was
//! found here.

use std::cell::Cell;
use std::iter;

use super::cost::CostModel;
use super::covering::{self, Reach, indexes};
use super::plan::{ProbeSet, ProbedPrefix};
use super::table::Table;

/// The most choices of tables that are tried for disjoint prefixes.
const MOST_CHOICES: usize = 2_000;

/// Up to this number of fingerprints, a scan takes less time than the search for a probe set.
const FEW_ROWS: f64 = 128.0;

/// Hardly any layout is improved by this factor.
const GREATEST_GAIN: f64 = 32.0;

/// Hardly any layout of the prefixes that the tables were made for is improved by this factor. Their proofs take most
/// of the time of a search.
const GREATEST_GAIN_OF_NATURAL: f64 = 8.0;

/// The most layouts of disjoint prefixes that are improved.
const MOST_IMPROVED_LAYOUTS: usize = 4;

/// The most steps of all proofs of a search together, apart from the proof of its result.
const PROOF_STEPS: u32 = 1 << 17;
/// The same for a search among many, for the choice of a plan.
const PROOF_STEPS_OF_A_CHOICE: u32 = 1 << 15;

/// The cheapest probe set found, or a scan if none is cheaper.
///
/// # Cost
///
/// A millisecond, or some if not all tables fit into memory. With many tables and a large distance, some dozens of
/// milliseconds.
pub(super) fn cheapest(tables: &[Table], distance: u32, cost_model: &CostModel) -> ProbeSet {
    let mut best = ProbeSet::Scan;
    let mut least = f64::INFINITY;
    for taken in cost_model.by_memory() {
        let set = search(tables, distance, &taken, f64::INFINITY, PROOF_STEPS);
        let nanos = cost_model.nanos(&set);
        if nanos < least {
            (best, least) = (set, nanos);
        }
    }
    best
}

/// The cheapest probe set found, if it costs less than `nanos`. Otherwise another one, or a scan: nothing that costs
/// much more than `nanos` is improved. It is for the choice of a plan, and gives up sooner than [`cheapest`].
pub(super) fn cheaper_than(
    nanos: f64,
    tables: &[Table],
    distance: u32,
    cost_model: &CostModel,
) -> ProbeSet {
    search(tables, distance, cost_model, nanos, PROOF_STEPS_OF_A_CHOICE)
}

/// Searches for a probe set that costs less than `nanos`. `steps` are the most of all proofs together, apart from the
/// proof of the result. When they are used up, nothing is improved further.
fn search(
    tables: &[Table],
    distance: u32,
    cost_model: &CostModel,
    nanos: f64,
    steps: u32,
) -> ProbeSet {
    if cost_model.rows <= FEW_ROWS {
        return ProbeSet::Scan;
    }
    let planner = Planner::new(tables, distance, cost_model, steps);
    let scan = cost_model.nanos(&ProbeSet::Scan);
    let mut layouts = planner.disjoint();
    layouts.extend(planner.natural(scan.min(nanos) * GREATEST_GAIN_OF_NATURAL));
    let most = scan.min(nanos * GREATEST_GAIN);
    let mut found = Vec::new();
    for layout in layouts {
        if layout.nanos < most {
            found.push(planner.improve(layout));
        }
    }
    found.sort_by(|a, b| a.nanos.total_cmp(&b.nanos));
    for layout in found {
        let set = ProbeSet::Prefixes(layout.prefixes);
        if layout.nanos < scan && set.is_exact(tables, distance) {
            return set;
        }
    }
    ProbeSet::Scan
}

/// A prefix has 0 to 64 bits.
const LENGTHS: usize = 65;

struct Planner<'a> {
    tables: &'a [Table],
    /// For each table, the bits of the fingerprint that are its leading 0 to 64 bits, as masks.
    masks: Vec<[u64; 65]>,
    distance: u32,
    cost_model: &'a CostModel,
    /// The costs of probed prefixes, each of which is computed once: by table, length and flips. NaN until then.
    known_nanos: Vec<Cell<f64>>,
    /// So many numbers of flips have a place among them.
    known_flips: usize,
    /// The steps that are left for all proofs together.
    steps: Cell<u32>,
}

#[derive(Clone, Debug)]
struct Layout {
    prefixes: Vec<ProbedPrefix>,
    nanos: f64,
}

impl<'a> Planner<'a> {
    fn new(tables: &'a [Table], distance: u32, cost_model: &'a CostModel, steps: u32) -> Self {
        // With more flips than the distance has bits there is nothing left to find.
        let known_flips = distance as usize + 2;
        let known_tables = cost_model.shares.len().max(1);
        Self {
            tables,
            masks: tables.iter().map(Table::prefix_masks).collect(),
            distance,
            cost_model,
            known_nanos: vec![Cell::new(f64::NAN); known_tables * LENGTHS * known_flips],
            known_flips,
            steps: Cell::new(steps),
        }
    }

    /// The cost of a probed prefix.
    fn prefix_nanos(&self, prefix: ProbedPrefix) -> f64 {
        // Without shares, the tables cost the same.
        let has_shares = !self.cost_model.shares.is_empty();
        let table = if has_shares { prefix.table } else { 0 };
        let flips = prefix.flips as usize;
        let place = (table * LENGTHS + prefix.prefix_bits as usize) * self.known_flips + flips;
        let known = match self.known_nanos.get(place) {
            Some(known) if flips < self.known_flips => known,
            _ => return self.cost_model.prefix_nanos(prefix),
        };
        if known.get().is_nan() {
            known.set(self.cost_model.prefix_nanos(prefix));
        }
        known.get()
    }

    fn nanos(&self, prefixes: &[ProbedPrefix]) -> f64 {
        self.cost_model
            .sum_nanos(prefixes.iter().map(|&prefix| self.prefix_nanos(prefix)))
    }

    fn layout(&self, prefixes: Vec<ProbedPrefix>) -> Layout {
        Layout {
            nanos: self.nanos(&prefixes),
            prefixes,
        }
    }

    fn is_exact(&self, prefixes: &[ProbedPrefix]) -> bool {
        let mut reaches = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            reaches.push(Reach {
                prefix: self.masks[prefix.table][prefix.prefix_bits as usize],
                flips: prefix.flips,
            });
        }
        let mut steps = self.steps.get();
        let covers = covering::covers(&reaches, self.distance, &mut steps);
        self.steps.set(steps);
        covers == Some(true)
    }

    /// The cheapest layouts of disjoint prefixes of some tables, with flips that make them exact.
    fn disjoint(&self) -> Vec<Layout> {
        let most_parts = self.tables.len().min(self.distance as usize + 1);
        let choices = (1..=most_parts).flat_map(|parts| combinations(self.tables.len(), parts));
        let mut cheapest: Vec<Layout> = Vec::with_capacity(MOST_IMPROVED_LAYOUTS + 1);
        let mut prefixes = Vec::new();
        let mut added = Vec::new();
        let mut most = f64::INFINITY;
        let mut least_bits = 0;
        for chosen in choices.take(MOST_CHOICES) {
            let Some(common) = self.common_bits(&chosen, least_bits) else {
                continue;
            };
            self.grow(&chosen, common, &mut prefixes);
            if !self.add_cheapest_flips(&mut prefixes, &mut added, most) {
                continue;
            }
            let layout = self.layout(prefixes.clone());
            let index = cheapest.partition_point(|cheap| cheap.nanos <= layout.nanos);
            cheapest.insert(index, layout);
            cheapest.truncate(MOST_IMPROVED_LAYOUTS);
            if let Some(last) = cheapest.get(MOST_IMPROVED_LAYOUTS - 1) {
                most = last.nanos;
                least_bits = self.least_bits(most);
            }
        }
        cheapest
    }

    /// The fewest bits that a prefix may have, if it is not to cost more than `most` nanoseconds by itself.
    fn least_bits(&self, most: f64) -> usize {
        for prefix_bits in 0..=u64::BITS {
            for table in 0..self.tables.len() {
                let prefix = ProbedPrefix {
                    table,
                    prefix_bits,
                    flips: 0,
                };
                if self.prefix_nanos(prefix) <= most {
                    return prefix_bits as usize;
                }
            }
        }
        0
    }

    /// The most leading bits of each of these tables that no two of them share. `None` if they are less than `least`.
    fn common_bits(&self, chosen: &[usize], mut least: usize) -> Option<usize> {
        let mut most = 64 / chosen.len();
        if least > most || !self.are_disjoint(chosen, least) {
            return None;
        }
        while least < most {
            let middle = (least + most).div_ceil(2);
            if self.are_disjoint(chosen, middle) {
                least = middle;
            } else {
                most = middle - 1;
            }
        }
        Some(least)
    }

    /// Whether no two of these tables share one of so many leading bits.
    fn are_disjoint(&self, chosen: &[usize], bits: usize) -> bool {
        let mut taken = 0;
        for &table in chosen {
            let mask = self.masks[table][bits];
            if mask & taken != 0 {
                return false;
            }
            taken |= mask;
        }
        true
    }

    /// The longest disjoint prefixes of these tables. They grow by one bit in turn, until the next bit is taken. The
    /// first `common` bits are free for all of them.
    fn grow(&self, chosen: &[usize], common: usize, prefixes: &mut Vec<ProbedPrefix>) {
        prefixes.clear();
        let mut taken = 0;
        for &table in chosen {
            prefixes.push(ProbedPrefix {
                table,
                prefix_bits: common as u32,
                flips: 0,
            });
            taken |= self.masks[table][common];
        }
        let mut growing = (1u64 << chosen.len()) - 1;
        while growing != 0 {
            for index in indexes(growing) {
                let ProbedPrefix {
                    table, prefix_bits, ..
                } = &mut prefixes[index];
                let masks = &self.masks[*table];
                match masks.get(*prefix_bits as usize + 1) {
                    Some(&longer) if longer & !masks[*prefix_bits as usize] & taken == 0 => {
                        *prefix_bits += 1;
                        taken |= longer;
                    }
                    _ => growing &= !(1 << index),
                }
            }
        }
    }

    /// Adds the cheapest flips that make disjoint prefixes exact. At distance k, the flips and the number
    /// of prefixes must add up to more than k. Returns false if that costs more than `most` nanoseconds. `added` is
    /// for the costs of one more flip.
    fn add_cheapest_flips(
        &self,
        prefixes: &mut [ProbedPrefix],
        added: &mut Vec<f64>,
        most: f64,
    ) -> bool {
        // The last digits of a sum depend on its order.
        let most = most * 1.000_001;
        let mut nanos = 0.0;
        for &prefix in prefixes.iter() {
            nanos += self.prefix_nanos(prefix);
        }
        if nanos > most {
            return false;
        }
        added.clear();
        for &prefix in prefixes.iter() {
            added.push(self.flip_nanos(prefix));
        }
        for _ in prefixes.len() as u32..=self.distance {
            let least = added.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
            let Some((index, of_flip)) = least else {
                return false;
            };
            nanos += of_flip;
            if nanos > most {
                return false;
            }
            let prefix = prefixes[index].flipped();
            prefixes[index] = prefix;
            added[index] = self.flip_nanos(prefix);
        }
        true
    }

    /// The cost of one more flip.
    fn flip_nanos(&self, prefix: ProbedPrefix) -> f64 {
        self.prefix_nanos(prefix.flipped()) - self.prefix_nanos(prefix)
    }

    /// The prefixes that the tables were made for, with the fewest equal flips that make them exact.
    /// `None` if they cannot be proved, or cost more than `most_nanos`.
    fn natural(&self, most_nanos: f64) -> Option<Layout> {
        let mut prefixes = Vec::with_capacity(self.tables.len());
        for (table, of) in self.tables.iter().enumerate() {
            prefixes.push(ProbedPrefix {
                table,
                prefix_bits: of.prefix_bits,
                flips: 0,
            });
        }
        // With `distance` flips in each prefix nothing is missed. The loop still has to end if the proof
        // runs out of steps.
        for _ in 0..=self.distance {
            if self.is_exact(&prefixes) {
                return Some(self.layout(prefixes));
            }
            // Every prefix gets a flip, because a flip in one alone may not bring the proof nearer.
            // `improve` takes away the flips that are not needed.
            for prefix in &mut prefixes {
                prefix.flips += 1;
            }
            if self.nanos(&prefixes) > most_nanos {
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
            let mut exact = None;
            for neighbour in cheaper {
                let layout = neighbour.layout(&best.prefixes);
                if self.is_exact(&layout.prefixes) {
                    exact = Some(layout);
                    break;
                }
            }
            match exact {
                Some(layout) => best = layout,
                None => return best,
            }
        }
    }

    /// Layouts that are cheaper by at least a thousandth. In each of them one prefix is longer, has a flip
    /// less, or is gone. In some of them another prefix has a flip more.
    fn cheaper_neighbours(&self, layout: &Layout) -> Vec<Neighbour> {
        let prefixes = &layout.prefixes;
        let mut costs = Vec::with_capacity(prefixes.len());
        let mut flipped = Vec::with_capacity(prefixes.len());
        for &prefix in prefixes {
            costs.push(self.prefix_nanos(prefix));
            flipped.push(self.prefix_nanos(prefix.flipped()));
        }
        let mut cheaper = Vec::new();
        for (index, &prefix) in prefixes.iter().enumerate() {
            let own = costs[index];
            for less in cheaper_forms(prefix) {
                costs[index] = less.map_or(0.0, |less| self.prefix_nanos(less));
                let saved = own - costs[index];
                for more in iter::once(None).chain((0..prefixes.len()).map(Some)) {
                    if more == Some(index) {
                        continue;
                    }
                    let added = more.map_or(0.0, |more| flipped[more] - costs[more]);
                    if layout.nanos - saved + added <= layout.nanos * 0.999 {
                        cheaper.push(Neighbour {
                            nanos: self.nanos_with(&costs, more, &flipped),
                            index,
                            less,
                            more,
                        });
                    }
                }
            }
            costs[index] = own;
        }
        cheaper
    }

    /// The cost of prefixes of these costs. The one of the index `more`, if any, costs what `flipped` says.
    fn nanos_with(&self, costs: &[f64], more: Option<usize>, flipped: &[f64]) -> f64 {
        let costs = costs.iter().enumerate().map(|(index, &cost)| match more {
            Some(more) if more == index => flipped[index],
            _ => cost,
        });
        self.cost_model.sum_nanos(costs)
    }
}

/// The cheaper prefixes that one may be replaced by: longer ones, also with a flip more, the same with a flip less, and
/// none.
fn cheaper_forms(prefix: ProbedPrefix) -> Vec<Option<ProbedPrefix>> {
    let mut forms = Vec::new();
    let most = u64::BITS - prefix.prefix_bits;
    for bits in 1..=most.min(8) {
        let longer = ProbedPrefix {
            prefix_bits: prefix.prefix_bits + bits,
            ..prefix
        };
        forms.push(Some(longer));
        forms.push(Some(longer.flipped()));
    }
    if let Some(flips) = prefix.flips.checked_sub(1) {
        forms.push(Some(ProbedPrefix { flips, ..prefix }));
    }
    forms.push(None);
    forms
}

/// A layout that differs from another in one prefix or two.
struct Neighbour {
    nanos: f64,
    /// The prefix that becomes cheaper, and what it becomes. `None` if it is left out.
    index: usize,
    less: Option<ProbedPrefix>,
    /// The prefix that gets a flip more, if any.
    more: Option<usize>,
}

impl Neighbour {
    /// The layout, beside one with these prefixes.
    fn layout(&self, prefixes: &[ProbedPrefix]) -> Layout {
        let mut prefixes = prefixes.to_vec();
        if let Some(more) = self.more {
            prefixes[more] = prefixes[more].flipped();
        }
        match self.less {
            Some(less) => prefixes[self.index] = less,
            None => drop(prefixes.remove(self.index)),
        }
        Layout {
            prefixes,
            nanos: self.nanos,
        }
    }
}

/// Every way to choose `chosen` of the indexes `0..all`, in lexicographic order.
pub(crate) fn combinations(all: usize, chosen: usize) -> impl Iterator<Item = Vec<usize>> {
    let mut next = (chosen <= all).then(|| Vec::from_iter(0..chosen));
    iter::from_fn(move || {
        let choice = next.take()?;
        // The last index that can grow does, and those after it follow directly.
        for index in (0..chosen).rev() {
            if choice[index] < all - chosen + index {
                let mut later = choice.clone();
                for (place, next) in later[index..].iter_mut().enumerate() {
                    *next = choice[index] + 1 + place;
                }
                next = Some(later);
                break;
            }
        }
        Some(choice)
    })
}

#[cfg(test)]
mod tests {
    use super::super::Plan;
    use super::*;
    use crate::fingerprint::{Fingerprint, differences_up_to};

    fn found(plan: &str, distance: u32, rows: f64) -> (ProbeSet, CostModel) {
        let plan = plan.parse::<Plan>().expect("a plan");
        let cost_model = CostModel::sampled(rows, plan.tables(), &[]);
        (cheapest(plan.tables(), distance, &cost_model), cost_model)
    }

    #[test]
    fn every_distance_is_answered_exactly_and_at_no_higher_cost_than_by_a_scan() {
        for plan in [
            "2x32", "4x16", "6x21", "7x20", "10x25", "11x28", "14x32", "8x8",
        ] {
            let tables = plan.parse::<Plan>().expect("a plan");
            for rows in [1e3, 1e6, 1e8] {
                let mut previous = 0.0;
                for distance in (0..=12).chain([20, 33, 64]) {
                    let (set, cost_model) = found(plan, distance, rows);
                    assert!(
                        set.is_exact(tables.tables(), distance),
                        "{plan} at {distance}"
                    );
                    let nanos = cost_model.nanos(&set);
                    assert!(nanos <= cost_model.nanos(&ProbeSet::Scan));
                    // A probe set that is exact for a distance is exact for a smaller one, so costs should
                    // not fall. The search may be off by a little.
                    assert!(
                        nanos >= previous * 0.8,
                        "{plan} at {distance}: {nanos} after {previous}"
                    );
                    previous = nanos;
                }
            }
        }
    }

    /// In an empty database, all probe sets had the same cost. So the search for more flips did not end
    /// when the proof ran out of steps.
    #[test]
    fn the_search_ends_where_nothing_is_stored() {
        for plan in [
            "2x32", "4x16", "6x21", "7x20", "10x25", "11x28", "14x32", "8x8",
        ] {
            let tables = plan.parse::<Plan>().expect("a plan");
            for (rows, levels) in [(0.0, 0), (FEW_ROWS + 1.0, 0)] {
                let shares = vec![Vec::new(); tables.tables().len()];
                let cost_model = CostModel::stored(rows, shares, levels, Vec::new(), 1e12);
                for distance in (0..=64).step_by(3) {
                    assert!(
                        cheapest(tables.tables(), distance, &cost_model)
                            .is_exact(tables.tables(), distance)
                    );
                }
            }
        }
    }

    #[test]
    fn small_distances_take_one_probe_of_each_table_and_larger_ones_flips() {
        let (set, _) = found("4x16", 3, 1e6);
        let prefix = |table| ProbedPrefix {
            table,
            prefix_bits: 16,
            flips: 0,
        };
        assert_eq!(set, ProbeSet::Prefixes((0..4).map(prefix).collect()));
        assert_eq!(
            found("4x16", 0, 1e8).0,
            ProbeSet::Prefixes(vec![ProbedPrefix {
                table: 0,
                prefix_bits: 64,
                flips: 0
            }])
        );
        let ProbeSet::Prefixes(prefixes) = found("6x21", 3, 1e8).0 else {
            panic!("a scan")
        };
        assert_eq!(prefixes.len(), 6);
        // With a seventh table, three disjoint prefixes serve a larger distance too.
        assert_eq!(found("7x20", 3, 1e8).0, ProbeSet::Prefixes(prefixes));
        let ProbeSet::Prefixes(prefixes) = found("7x20", 8, 1e8).0 else {
            panic!("a scan")
        };
        assert!(
            prefixes.len() == 3 && prefixes.iter().all(|prefix| prefix.flips == 2),
            "{prefixes:?}"
        );
        // Distance 7 at a hundred million fingerprints.
        for plan in ["4x16", "6x21", "11x28", "14x32"] {
            let (set, cost_model) = found(plan, 7, 1e8);
            assert!(
                cost_model.nanos(&set) < 250e3,
                "{plan}: {set:?}, {} us",
                cost_model.nanos(&set) / 1e3
            );
        }
    }

    #[test]
    fn every_difference_of_three_bits_lies_in_the_range_of_some_probe() {
        let query = Fingerprint::from_bits(0xfeed_face_cafe_beef);
        let differences = differences_up_to(3);
        assert_eq!(differences.len(), 43_745);
        for plan in ["4x16", "6x21", "7x20", "10x25", "11x28", "14x32"] {
            for rows in [1e5, 1e9] {
                let plan = plan.parse::<Plan>().expect("a plan");
                let set = cheapest(
                    plan.tables(),
                    3,
                    &CostModel::sampled(rows, plan.tables(), &[]),
                );
                let mut probes = Vec::new();
                for prefix in set.prefixes().expect("no scan") {
                    let query = plan.tables()[prefix.table].apply(query);
                    prefix.each_range(query, |first, last| {
                        probes.push((prefix.table, first..=last));
                    });
                }
                for difference in &differences {
                    let stored = Fingerprint::from_bits(query.bits() ^ difference);
                    let caught = probes.iter().any(|(table, range)| {
                        let row = plan.tables()[*table].apply(stored).bits();
                        range.contains(&row)
                    });
                    assert!(caught, "{plan}: difference {difference:#x}");
                }
            }
        }
    }
}
