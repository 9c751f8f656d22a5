//! The order of the bits within each table. It lets shortened prefixes of several tables partition the 64
//! bits.
//!
//! With m disjoint prefixes, about k / m flips in each are enough to answer distance k exactly. A few long
//! disjoint prefixes are the cheapest way to larger distances. A family says only which bits a table has
//! in front, and leaves their order open. This file chooses the order. For several m, there are then m
//! tables whose first 64 / m bits are disjoint.
//!
//! The plain algorithm: each table has a chain of sets of bits, in which each set contains the one before.
//! The leading bits of the table are to be these sets. For each m, it tries choices of m tables, and deals
//! the 64 bits out to them in m equal shares. Each share must fit into the chain of its table, which is a
//! matching of bits with tables. The first choice that succeeds adds its shares to the chains.

use super::planner::combinations;

/// The numbers of prefixes to partition the 64 bits into, the most useful first. At a hundred million
/// fingerprints, 4 prefixes serve distances up to 11.
const PARTS: [usize; 7] = [4, 3, 2, 5, 6, 8, 7];

/// The most choices of tables that are tried for each number of prefixes.
const MOST_CHOICES: usize = 100;

/// The order of the bits of each table, as positions counted from the most significant bit. Each table
/// begins with the bits `kept` for it.
pub(super) fn bit_orders(kept: &[u64]) -> Vec<[u8; 64]> {
    let mut chains: Vec<Chain> = kept
        .iter()
        .map(|&bits| Chain(vec![bits, u64::MAX]))
        .collect();
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
        let mut order = Vec::with_capacity(64);
        let mut taken = 0;
        for set in &self.0 {
            order.extend((0..64u8).filter(|bit| (set & !taken) >> (63 - bit) & 1 != 0));
            taken |= set;
        }
        std::array::from_fn(|i| order[i])
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
    for bit in bits(!needed) {
        let mut tried = 0;
        if !give(bit, &mut shares, &bounds, &sizes, &mut tried) {
            return None;
        }
    }
    Some(shares)
}

/// The bits of a set, each as a set of its own.
fn bits(mut set: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let bit = set & set.wrapping_neg();
        set ^= bit;
        (bit != 0).then_some(bit)
    })
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
        for other in bits(own) {
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
    use super::*;

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
