//! The tables of a join by SQL: plain ones, without flips, so that equal keys are all that a database has to find.

use crate::plan::{Table, all_plans, combinations};

/// The work of a row in a table: its key is made, the row is sent to others and sorted.
const ROW: f64 = 1.0;
/// The work of a comparison of two rows of one key, beside that of a row. An estimate: to send and sort a row takes
/// some microseconds, and to compare two some tens of nanoseconds.
const COMPARISON: f64 = 0.04;
/// The most tables. The text grows with them, and the programs that read it have limits.
const MOST_TABLES: usize = 256;
/// The most pairs of which all are compared. One core does it in less than a minute.
const MOST_PAIRS: f64 = 5e8;
/// A probe of few queries compares all too: if that takes no more than so many times the work of a table.
const FEW_TIMES: f64 = 10.0;
/// The bits of a number that take the key and the number of its table. The sign is not among them.
const KEY_BITS: u32 = 62;

/// The pairs that are compared: of all documents with each other, or with all of these queries.
fn pairs_of(documents: f64, queries: Option<f64>) -> f64 {
    match queries {
        None => documents * documents / 2.0,
        Some(queries) => documents * queries,
    }
}

/// The work with tables of these masks.
fn work(documents: f64, queries: Option<f64>, masks: &[u64]) -> f64 {
    let rows = documents + queries.unwrap_or(0.0);
    let mut work = 0.0;
    for mask in masks {
        let share = 0.5f64.powi(mask.count_ones().cast_signed());
        work += rows * ROW + pairs_of(documents, queries) * share * COMPARISON;
    }
    work
}

/// For each table, the bits of a fingerprint that are its key. Fingerprints that differ in at most `distance` bits have
/// the same key in some table. It is the cheapest family for so many documents, which are compared with each other or
/// with so many queries. If comparing all is as good, all have one key. `None` if there are too many for that.
pub(super) fn cheapest(documents: f64, queries: Option<f64>, distance: u32) -> Option<Vec<u64>> {
    let mut families: Vec<Vec<u64>> = Vec::new();
    for plan in all_plans() {
        if plan.radius() >= distance {
            families.push(plan.tables().iter().map(Table::own_mask).collect());
        }
    }
    for groups in 1..=distance as usize + 1 {
        let most = distance as usize / groups;
        for blocks in most + 1..=most + 12 {
            families.extend(grouped_choices(groups, blocks, most));
        }
    }
    families.retain(|masks| {
        let prefix_bits = masks
            .iter()
            .map(|mask| mask.count_ones())
            .max()
            .unwrap_or(0);
        masks.len() == 1 || prefix_bits + table_bits(masks.len()) <= KEY_BITS
    });
    let mut best: Option<(f64, Vec<u64>)> = None;
    for masks in families {
        let work = work(documents, queries, &masks);
        if best.as_ref().is_none_or(|(least, _)| work < *least) {
            best = Some((work, masks));
        }
    }

    let all_compared = work(documents, queries, &[0]);
    match best {
        Some((work, best)) if distance == 0 || work < all_compared => Some(best),
        _ => {
            let rows_alone = work(documents, queries, &[u64::MAX]);
            let are_few = pairs_of(documents, queries) <= MOST_PAIRS
                || all_compared <= FEW_TIMES * rows_alone;
            are_few.then_some(vec![0])
        }
    }
}

/// The bits that the number of a table takes.
fn table_bits(tables: usize) -> u32 {
    usize::BITS - (tables - 1).leading_zeros()
}

/// Tables of several groups of bits. Each group is cut into blocks, and each of its tables leaves out `most` of them.
///
/// Of k differences, at most k / `groups` fall into some group. They touch at most as many of its blocks, and one of
/// its tables has left out those. With one group it is the design of Manku, Jain and Das Sarma.
fn grouped_choices(groups: usize, blocks: usize, most: usize) -> Option<Vec<u64>> {
    let all = groups * blocks;
    if all > 64 {
        return None;
    }
    // The choices of half of 64 blocks, times 64, have more than 64 bits.
    let mut choices = 1;
    for i in 0..most {
        choices = choices * (blocks - i) as u128 / (i + 1) as u128;
    }
    if groups as u128 * choices > MOST_TABLES as u128 {
        return None;
    }

    let mut masks = Vec::new();
    for group in 0..groups {
        for kept in combinations(blocks, blocks - most) {
            let mut mask = 0;
            for block in kept {
                let number = group * blocks + block;
                mask |= ones(number * 64 / all, (number + 1) * 64 / all);
            }
            masks.push(mask);
        }
    }
    Some(masks)
}

fn ones(from: usize, to: usize) -> u64 {
    (from..to).fold(0, |mask, bit| mask | 1 << bit)
}

/// The bits that a mask has not, dealt out to `distance` + 1 blocks. Of fingerprints that agree on the mask and differ
/// in at most `distance` bits, one block has no difference.
///
/// The bits are dealt out one by one, since those that are side by side may be the same in all of a bucket.
pub(super) fn cut(mask: u64, distance: u32) -> Vec<u64> {
    let mut blocks = vec![0; distance as usize + 1];
    for (place, bit) in (0..64).filter(|bit| mask >> bit & 1 == 0).enumerate() {
        blocks[place % (distance as usize + 1)] |= 1 << bit;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Reach, covers};

    fn random(i: u64) -> u64 {
        (i + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xbf58_476d_1ce4_e5b9)
    }

    /// A difference of so many bits.
    fn difference(seed: u64, bits: u32) -> u64 {
        let mut drawn = (0..).map(|i| 1u64 << (random(seed * 977 + i) >> 58));
        let mut all = 0u64;
        while all.count_ones() < bits {
            all |= drawn.next().expect("it has no end");
        }
        all
    }

    #[test]
    fn the_tables_miss_no_difference() {
        for distance in 0..=16 {
            for rows in [1e3, 1e6, 1e9] {
                let Some(masks) = cheapest(rows, None, distance) else {
                    continue;
                };
                if masks.len() <= 64 {
                    let reaches: Vec<Reach> = masks
                        .iter()
                        .map(|&prefix| Reach { prefix, flips: 0 })
                        .collect();
                    assert_eq!(
                        covers(&reaches, distance, &mut { 1 << 22 }),
                        Some(true),
                        "{distance}, {rows}"
                    );
                }
                for seed in 0..3000 {
                    let difference = difference(seed, distance);
                    assert!(
                        masks.iter().any(|mask| mask & difference == 0),
                        "{difference:x}"
                    );
                }
            }
        }
    }

    #[test]
    fn more_rows_take_longer_keys() {
        let mut last = 0;
        for rows in [1e6, 1e8, 1e9] {
            let masks = cheapest(rows, None, 3).expect("there are tables for 3");
            let least = masks.iter().map(|mask| mask.count_ones()).min();
            let least = least.expect("it has tables");
            assert!(last < least, "{rows}: {last} {least}");
            last = least;
        }
        assert_eq!(
            cheapest(1e9, Some(1e6), 0).map(|masks| masks.len()),
            Some(1)
        );
        assert_eq!(cheapest(1e9, None, 60), None);
        // Few are all compared, at any distance.
        for distance in [1, 3, 60, 64] {
            assert_eq!(cheapest(1.0, None, distance), Some(vec![0]), "{distance}");
        }
        assert_eq!(cheapest(1e6, Some(10.0), 60), Some(vec![0]));
    }

    #[test]
    fn a_cut_has_every_other_bit_once() {
        for distance in 0..=16 {
            let mask = random(distance.into()) & random(3);
            let blocks = cut(mask, distance);
            assert_eq!(blocks.len(), distance as usize + 1);
            assert_eq!(blocks.iter().fold(0, |all, block| all | block), !mask);
            assert_eq!(
                blocks.iter().map(|block| block.count_ones()).sum::<u32>(),
                64 - mask.count_ones()
            );
        }
    }

    #[test]
    fn numbers_of_tables_fit() {
        assert_eq!([1, 2, 3, 4, 5, 256].map(table_bits), [0, 1, 2, 2, 3, 8]);
    }
}
