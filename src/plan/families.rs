//! The families of tables: which blocks of bits each table has in front.
//!
//! The 64 bits are cut into blocks, and each table keeps some of them in front. Whichever k blocks differ,
//! one table keeps none of them. `covering` proves that of the bits themselves. The comments here say why
//! the families exist.

use std::sync::LazyLock;

use super::order::bit_orders;
use super::permutation::{MOST_TABLES, Permutation, Table};
use super::plan::Plan;

/// For each table, the blocks it keeps in front. The number of blocks is one more than the largest of
/// them.
type Design = Vec<Vec<usize>>;

/// All plans, from the fewest tables to the most. Of several plans with the same number of tables and the
/// same shortest prefix, there is one.
pub(crate) fn all_plans() -> &'static [Plan] {
    static PLANS: LazyLock<Vec<Plan>> = LazyLock::new(|| {
        let designs = (1..=7).flat_map(designs_for);
        let mut kept: Vec<Vec<u64>> = designs.map(|design| kept_bits(&design)).collect();
        let size = |kept: &Vec<u64>| (kept.len(), kept.iter().map(|bits| bits.count_ones()).min());
        kept.sort_by_key(size);
        kept.dedup_by_key(|kept| size(kept));
        kept.iter().map(|kept| plan_of(kept)).collect()
    });
    &PLANS
}

/// The plan with this name, as [`Plan`] displays it.
pub(crate) fn plan_named(name: &str) -> Option<Plan> {
    all_plans()
        .iter()
        .find(|plan| plan.to_string() == name)
        .map(Plan::for_another_file)
}

/// The designs made for this distance, 1 to 7. Each is exact at it.
fn designs_for(distance: u32) -> Vec<Design> {
    let differences = distance as usize;
    let mut designs: Vec<Design> = (1..=differences + 1)
        .filter(|groups| (differences + 1).is_multiple_of(*groups))
        .filter(|groups| groups << ((differences + 1) / groups) <= MOST_TABLES + groups)
        .map(|groups| grouped_simplex(groups, (differences + 1) / groups - 1))
        .collect();
    designs.extend(
        (differences + 2..=differences + 4).map(|blocks| subsets(blocks, blocks - differences)),
    );
    if distance == 3 {
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
    let table = |group: usize, h: usize| {
        let kept = (1..=size).filter(move |v| (h & v).count_ones() % 2 == 1);
        kept.map(|v| group * size + v - 1).collect()
    };
    (0..groups)
        .flat_map(|group| (1..=size).map(move |h| table(group, h)))
        .collect()
}

/// Every way to keep `kept` of `blocks` blocks: the design of the paper (Manku, Jain, Das Sarma, 2007),
/// section 3.1. The list ends early if there are more than [`MOST_TABLES`].
fn subsets(blocks: usize, kept: usize) -> Design {
    let all = 0..1usize << blocks;
    let chosen = all
        .filter(|set| set.count_ones() as usize == kept)
        .take(MOST_TABLES + 1);
    chosen
        .map(|set| (0..blocks).filter(|block| set >> block & 1 != 0).collect())
        .collect()
}

/// Eleven blocks. The tables are the shifts of the quadratic residues modulo 11, a symmetric design.
/// Whichever three blocks differ, one of the tables keeps none of them.
fn quadratic_residues() -> Design {
    (0..11)
        .map(|shift| [1, 3, 4, 5, 9].map(|it| (it + shift) % 11).to_vec())
        .collect()
}

/// Eight blocks, which are the points of the affine space of three bits. The tables are its fourteen
/// planes. Any three points lie in a plane, and the parallel plane has none of them (the Steiner system
/// S(3, 4, 8)).
fn planes() -> Design {
    let plane = |h: usize, side: u32| {
        (0..8usize)
            .filter(move |v| (h & v).count_ones() % 2 == side)
            .collect()
    };
    (1..8).flat_map(|h| [plane(h, 0), plane(h, 1)]).collect()
}

/// For each table, the bits it keeps in front. The sizes of the blocks differ by at most one bit.
fn kept_bits(design: &Design) -> Vec<u64> {
    let blocks = design.iter().flatten().max().map_or(1, |last| last + 1);
    let first_bit = |block: usize| (64 * block).div_ceil(blocks);
    let mask = |block: usize| {
        (first_bit(block)..first_bit(block + 1)).fold(0, |mask, bit| mask | 1 << (63 - bit))
    };
    design
        .iter()
        .map(|kept| kept.iter().fold(0, |bits, &block| bits | mask(block)))
        .collect()
}

/// The plan whose tables keep these bits in front.
fn plan_of(kept: &[u64]) -> Plan {
    let tables = bit_orders(kept)
        .into_iter()
        .zip(kept)
        .map(|(positions, kept)| Table {
            permutation: Permutation::new(positions)
                .expect("an order of all bits is a permutation"),
            prefix_bits: kept.count_ones(),
        });
    Plan::new(tables.collect()).expect("a design has tables, and not too many")
}

#[cfg(test)]
mod tests {
    use super::super::covering::{Reach, radius};
    use super::*;

    /// The radius with this number of flips in each table.
    fn radius_of(plan: &Plan, flips: u32) -> u32 {
        let reach = |table: &Table| Reach {
            prefix: table.permutation.prefix_mask(table.prefix_bits),
            flips,
        };
        let reaches: Vec<Reach> = plan.tables().iter().map(reach).collect();
        radius(&reaches).expect("a plan has tables")
    }

    #[test]
    fn every_design_is_exact_at_its_distance() {
        for distance in 1..=7 {
            for design in designs_for(distance) {
                let plan = plan_of(&kept_bits(&design));
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
            ("10x25", [3, 4, 8]),
            ("11x28", [3, 4, 7]),
            ("14x32", [3, 5, 6]),
        ] {
            let plan = plan_named(name).expect(name);
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
            bytes.extend(table.permutation.positions());
            bytes.extend(table.prefix_bits.to_le_bytes());
        }
        assert_eq!(
            xxhash_rust::xxh3::xxh3_64(&bytes),
            7_590_762_287_104_293_088
        );
    }

    #[test]
    fn every_plan_has_a_name_of_its_own() {
        let plans = all_plans();
        let names: Vec<String> = plans.iter().map(Plan::to_string).collect();
        for name in ["2x32", "4x16", "6x21", "10x25", "11x28", "14x32", "8x8"] {
            assert_eq!(
                names.iter().filter(|it| *it == name).count(),
                1,
                "{name} in {names:?}"
            );
        }
        for (plan, name) in plans.iter().zip(&names) {
            let named = plan_named(name).expect(name);
            for (table, of_name) in plan.tables().iter().zip(named.tables()) {
                assert_eq!(
                    table.permutation.positions(),
                    of_name.permutation.positions(),
                    "{name}"
                );
            }
        }
        assert!(plan_named("5x99").is_none());
    }
}
