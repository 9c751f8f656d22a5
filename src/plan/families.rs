//! The families of tables: which blocks of bits each table has in front.
//!
//! The 64 bits are cut into blocks, and each table keeps some of them in front. Whichever k blocks differ,
//! one table keeps none of them. `covering` proves that of the bits themselves. The comments here say why
//! the families exist.
//!
//! A family leaves the order of the bits open. It is chosen so that shortened prefixes of several tables partition the
//! 64 bits. With m disjoint prefixes, about k / m flips in each are enough to answer distance k exactly. A few long
//! disjoint prefixes are the cheapest way to larger distances. For several m, there are then m tables whose first
//! 64 / m bits are disjoint.
//!
//! The plain algorithm: each table has a chain of sets of bits, in which each set contains the one before.
//! The leading bits of the table are to be these sets. For each m, it tries choices of m tables, and deals
//! the 64 bits out to them in m equal shares. Each share must fit into the chain of its table, which is a
//! matching of bits with tables. The first choice that succeeds adds its shares to the chains.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::LazyLock;

use super::covering::indexes;
use super::plan::Plan;
use super::planner::combinations;
use super::table::{MOST_TABLES, Table};
use crate::error::{Error, Result};

/// For each table, the blocks it keeps in front, a bit for each. The number of blocks is one more than that of the last
/// one that a table keeps.
type Design = Vec<u64>;

/// All plans, from the fewest tables to the most. Of several plans with the same number of tables and the
/// same shortest prefix, there is one.
pub(crate) fn all_plans() -> &'static [Plan] {
    static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
        // By the number of tables that keep some bits in front, and by the bits of the shortest prefix.
        let mut kept = BTreeMap::new();
        for design in (1..=7).flat_map(designs_for) {
            let bits = kept_bits(&design);
            let shortest = bits.iter().copied().map(u64::count_ones).min();
            kept.entry((bits.len(), shortest)).or_insert(bits);
        }
        let mut plans = Vec::with_capacity(kept.len());
        for bits in kept.values() {
            plans.push(plan_from(bits));
        }
        plans
    });
    &PLANS
}

/// The plan with this name, as [`Plan`] displays it.
impl FromStr for Plan {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        for plan in all_plans() {
            if plan.to_string() == name {
                return Ok(plan.for_another_file());
            }
        }
        Err(Error::UnknownPlan {
            name: name.to_owned(),
        })
    }
}

/// The designs made for this distance, 1 to 7. Each is exact at it.
fn designs_for(distance: u32) -> Vec<Design> {
    let differences = distance as usize;
    let mut designs = Vec::new();
    for groups in 1..=differences + 1 {
        let of_group = (differences + 1) / groups;
        let is_even = (differences + 1).is_multiple_of(groups);
        if is_even && groups << of_group <= MOST_TABLES + groups {
            designs.push(grouped_simplex(groups, of_group - 1));
        }
    }
    for blocks in differences + 2..=differences + 4 {
        designs.push(subsets(blocks, blocks - differences));
    }
    if distance == 3 {
        designs.push(completed_halves());
        designs.push(quadratic_residues());
        designs.push(planes());
    }
    designs.retain(|design| design.len() <= MOST_TABLES);
    designs
}

/// The 64 bits in `groups` groups. In each group, whichever `differences` bits differ, one table keeps
/// none of them in front. So it takes `groups * (differences + 1)` differences to touch the blocks of all
/// tables.
///
/// With d differences, a group has 2^(d+1) - 1 blocks and the same number of tables. The blocks are the
/// vectors of d + 1 bits, except zero. There is a table for each vector h, which keeps the blocks v with
/// h.v = 1. This is the simplex code. Any d blocks span at most d dimensions, so some h is orthogonal to
/// all of them, and its table keeps none of them. With d = 0, each group is one block and one table.
fn grouped_simplex(groups: usize, differences: usize) -> Design {
    let size = (1 << (differences + 1)) - 1;
    let mut design = Design::new();
    for group in 0..groups {
        for h in 1usize..=size {
            let mut kept = 0;
            for v in 1..=size {
                if (h & v).count_ones() % 2 == 1 {
                    kept |= 1 << (group * size + v - 1);
                }
            }
            design.push(kept);
        }
    }
    design
}

/// The six tables of two groups with a difference each, which keep two of the three blocks of a half, and one that keeps
/// the third block of each half. With a table of either half, it has the 64 bits in three disjoint prefixes. So these
/// seven tables serve distance 3 without a flip, and 8 with two flips in each of three prefixes of 21 bits.
fn completed_halves() -> Design {
    let mut design = grouped_simplex(2, 1);
    design.push(1 << 2 | 1 << 5);
    design
}

/// Every way to keep `kept` of `blocks` blocks: the design of the paper (Manku, Jain, Das Sarma, 2007),
/// section 3.1. The list ends early if there are more than [`MOST_TABLES`].
fn subsets(blocks: usize, kept: usize) -> Design {
    let sets = (0..1u64 << blocks).filter(|set| set.count_ones() as usize == kept);
    sets.take(MOST_TABLES + 1).collect()
}

/// Eleven blocks. The tables are the shifts of the quadratic residues modulo 11, a symmetric design.
/// Whichever three blocks differ, one of the tables keeps none of them.
fn quadratic_residues() -> Design {
    let mut design = Design::new();
    for shift in 0..11 {
        let mut kept = 0;
        for residue in [1, 3, 4, 5, 9] {
            kept |= 1 << ((residue + shift) % 11);
        }
        design.push(kept);
    }
    design
}

/// Eight blocks, which are the points of the affine space of three bits. The tables are its fourteen
/// planes. Any three points lie in a plane, and the parallel plane has none of them (the Steiner system
/// S(3, 4, 8)).
fn planes() -> Design {
    let mut design = Design::new();
    for h in 1..8u32 {
        for side in [0, 1] {
            let mut plane = 0;
            for point in 0..8 {
                if (h & point).count_ones() % 2 == side {
                    plane |= 1 << point;
                }
            }
            design.push(plane);
        }
    }
    design
}

/// For each table, the bits it keeps in front. The sizes of the blocks differ by at most one bit.
fn kept_bits(design: &[u64]) -> Vec<u64> {
    let all = design.iter().fold(0, |all, table| all | table);
    let blocks = all.ilog2() as usize + 1;
    let mut kept_bits = Vec::with_capacity(design.len());
    for &table in design {
        let mut bits = 0;
        for block in indexes(table) {
            let first = (64 * block).div_ceil(blocks);
            let end = (64 * (block + 1)).div_ceil(blocks);
            for bit in first..end {
                bits |= 1 << (63 - bit);
            }
        }
        kept_bits.push(bits);
    }
    kept_bits
}

/// The plan whose tables keep these bits in front.
fn plan_from(kept: &[u64]) -> Plan {
    let mut tables = Vec::with_capacity(kept.len());
    for (positions, kept) in bit_orders(kept).into_iter().zip(kept) {
        let table = Table::new(positions, kept.count_ones());
        tables.push(table.expect("an order has all bits"));
    }
    Plan::new(tables).expect("a design has tables, and not too many")
}

/// The numbers of prefixes to partition the 64 bits into, the most useful first. At a hundred million
/// fingerprints, 4 prefixes serve distances up to 11.
const PARTS: [usize; 7] = [4, 3, 2, 5, 6, 8, 7];

/// The most choices of tables that are tried for each number of prefixes.
const MOST_CHOICES: usize = 100;

/// The order of the bits of each table, as positions counted from the most significant bit. Each table
/// begins with the bits `kept` for it.
fn bit_orders(kept: &[u64]) -> Vec<[u8; 64]> {
    let mut chains = Vec::with_capacity(kept.len());
    for &bits in kept {
        chains.push(Chain(vec![bits, u64::MAX]));
    }
    for parts in PARTS {
        // There are no choices of more tables than there are.
        for tables in combinations(kept.len(), parts).take(MOST_CHOICES) {
            if let Some(shares) = deal(&chains, &tables) {
                for (table, share) in tables.into_iter().zip(shares) {
                    chains[table].insert(share);
                }
                break;
            }
        }
    }
    chains.iter().map(Chain::order).collect()
}

/// Sets of bits, each of which contains the one before. The last one has all bits.
struct Chain(Vec<u64>);

impl Chain {
    /// The bits that a set of `bits` bits must have, and those it may have, to fit into the chain.
    fn bounds(&self, bits: u32) -> (u64, u64) {
        let mut least = 0;
        for &set in &self.0 {
            if set.count_ones() <= bits {
                least = set;
            }
            if set.count_ones() >= bits {
                return (least, set);
            }
        }
        (least, u64::MAX)
    }

    fn insert(&mut self, set: u64) {
        let bits = set.count_ones();
        let index = self.0.partition_point(|other| other.count_ones() < bits);
        if self.0.get(index) != Some(&set) {
            self.0.insert(index, set);
        }
    }

    fn order(&self) -> [u8; 64] {
        let mut order = [0; 64];
        let mut place = 0;
        let mut taken = 0;
        for set in &self.0 {
            let new = set & !taken;
            for bit in 0..64u8 {
                if new >> (63 - bit) & 1 != 0 {
                    order[place] = bit;
                    place += 1;
                }
            }
            taken |= set;
        }
        order
    }
}

/// Deals the 64 bits out to tables, in shares as equal as possible that fit into their chains. `None` if
/// there is no way.
fn deal(chains: &[Chain], tables: &[usize]) -> Option<Vec<u64>> {
    let count = tables.len();
    let mut sizes = Vec::with_capacity(count);
    let mut bounds = Vec::with_capacity(count);
    let mut shares = Vec::with_capacity(count);
    let mut needed = 0;
    let mut possible = 0;
    for (index, &table) in tables.iter().enumerate() {
        let size = (64 * (index + 1) / count - 64 * index / count) as u32;
        let (least, most) = chains[table].bounds(size);
        if needed & least != 0 {
            return None;
        }
        needed |= least;
        possible |= most;
        sizes.push(size);
        bounds.push((least, most));
        shares.push(least);
    }
    if possible != u64::MAX {
        return None;
    }
    for bit in indexes(!needed).map(|index| 1 << index) {
        let mut tried = 0;
        if !give(bit, &mut shares, &bounds, &sizes, &mut tried) {
            return None;
        }
    }
    Some(shares)
}

/// Gives a bit to a table that may have it. If that table is full, it passes one of its own bits on: an
/// augmenting path. `tried` are the tables already asked, a bit for each.
fn give(
    bit: u64,
    shares: &mut [u64],
    bounds: &[(u64, u64)],
    sizes: &[u32],
    tried: &mut u64,
) -> bool {
    for index in 0..shares.len() {
        if bounds[index].1 & bit == 0 || *tried >> index & 1 != 0 {
            continue;
        }
        *tried |= 1 << index;
        if shares[index].count_ones() < sizes[index] {
            shares[index] |= bit;
            return true;
        }
        let own = shares[index] & !bounds[index].0;
        for other in indexes(own).map(|index| 1 << index) {
            if give(other, shares, bounds, sizes, tried) {
                shares[index] = shares[index] & !other | bit;
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::super::covering::radius;
    use super::*;

    /// The radius with this number of flips in each table.
    fn radius_of(plan: &Plan, flips: u32) -> u32 {
        let mut reaches = Vec::new();
        for table in plan.tables() {
            reaches.push(table.reach(table.prefix_bits, flips));
        }
        radius(&reaches).expect("a plan has tables")
    }

    #[test]
    fn every_design_is_exact_at_its_distance() {
        for distance in 1..=7 {
            for design in designs_for(distance) {
                let plan = plan_from(&kept_bits(&design));
                assert!(radius_of(&plan, 0) >= distance, "{plan} at {distance}");
                assert!(plan.tables().len() <= MOST_TABLES);
            }
        }
    }

    /// The figures of docs/design.md.
    #[test]
    fn the_radii_with_flips_are_those_of_the_documentation() {
        for (name, radii) in [
            ("4x16", [3, 7, 11]),
            ("6x21", [3, 5, 9]),
            ("7x20", [3, 5, 9]),
            ("10x25", [3, 4, 8]),
            ("11x28", [3, 4, 7]),
            ("14x32", [3, 5, 6]),
        ] {
            let plan = name.parse::<Plan>().expect(name);
            assert_eq!(
                [0, 1, 2].map(|flips| radius_of(&plan, flips)),
                radii,
                "{name}"
            );
        }
    }

    /// A plan is chosen by its name, and whoever names one expects the tables that it had before.
    #[test]
    fn the_tables_of_every_plan_never_change() {
        let mut bytes = Vec::new();
        for table in all_plans().iter().flat_map(Plan::tables) {
            bytes.extend(table.positions());
            bytes.extend(table.prefix_bits.to_le_bytes());
        }
        assert_eq!(
            xxhash_rust::xxh3::xxh3_64(&bytes),
            18_170_394_574_659_598_678
        );
    }

    #[test]
    fn every_plan_has_a_name_of_its_own() {
        let plans = all_plans();
        let names: Vec<String> = plans.iter().map(Plan::to_string).collect();
        for name in [
            "2x32", "4x16", "6x21", "7x20", "10x25", "11x28", "14x32", "8x8",
        ] {
            assert_eq!(
                names.iter().filter(|other| *other == name).count(),
                1,
                "{name} in {names:?}"
            );
        }
        for (plan, name) in plans.iter().zip(&names) {
            let named = name.parse::<Plan>().expect(name);
            for (table, of_name) in plan.tables().iter().zip(named.tables()) {
                assert_eq!(table.positions(), of_name.positions(), "{name}");
            }
        }
        assert!("5x99".parse::<Plan>().is_err());
    }

    fn prefix(order: &[u8; 64], bits: usize) -> u64 {
        let bits = order[..bits].iter();
        bits.fold(0, |mask, &bit| mask | 1 << (63 - bit))
    }

    #[test]
    fn the_bits_kept_stay_in_front_and_shorter_prefixes_partition_the_rest() {
        let kept = [0xffff << 48, 0xffff << 32, 0xffff << 16, 0xffff_u64];
        let orders = bit_orders(&kept);
        for (order, kept) in orders.iter().zip(kept) {
            let mut sorted = *order;
            sorted.sort_unstable();
            assert_eq!(sorted, std::array::from_fn(|bit| bit as u8));
            assert_eq!(prefix(order, 16), kept);
        }
        for parts in 2..=4 {
            // Each prefix may have 64 / parts bits, rounded down, or one more.
            let least = 64 / parts;
            let has_partition = combinations(4, parts).any(|tables| {
                let mut sets = vec![0u64];
                for table in tables {
                    let mut more = Vec::new();
                    for bits in [least, least + 1] {
                        let prefix = prefix(&orders[table], bits);
                        more.extend(
                            sets.iter()
                                .filter(|&set| set & prefix == 0)
                                .map(|set| set | prefix),
                        );
                    }
                    sets = more;
                }
                sets.contains(&u64::MAX)
            });
            assert!(has_partition, "{parts} parts");
        }
    }
}
