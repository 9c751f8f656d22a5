//! The proof, by enumeration, that a set of tables misses nothing, and the families of tables there are.
//!
//! Two fingerprints meet in a table if they agree on all bits of its prefix. So a set of tables finds every pair
//! at distance k exactly if no choice of k bits puts a difference into every prefix. The least number of bits
//! that does is a minimum hitting set of the prefixes; the *radius* is one less.

/// The largest distance at which tables with these prefixes (as masks of fingerprint bits) miss nothing; 64
/// where one of them has no prefix at all and so returns everything, `None` where there are no tables.
///
/// # Cost
///
/// Exponential in the answer: branches over the bits of one prefix per difference. Bits that stand in the same
/// prefixes are interchangeable, and only one of each such cell is tried, so for disjoint prefixes the cost is
/// linear.
pub(super) fn radius(prefixes: &[u64]) -> Option<u32> {
    if prefixes.is_empty() {
        return None;
    }
    if prefixes.contains(&0) {
        return Some(u64::BITS);
    }
    let fewest = (1..=u64::BITS).find(|&bits| can_hit(prefixes, 0, bits));
    fewest.map(|bits| bits - 1)
}

/// Whether `bits` further differences, beside those in `chosen`, can put one into every prefix.
fn can_hit(prefixes: &[u64], chosen: u64, bits: u32) -> bool {
    let Some(missed) = prefixes.iter().find(|&&prefix| prefix & chosen == 0) else { return true };
    if bits == 0 {
        return false;
    }
    let mut untried = *missed;
    while untried != 0 {
        let bit = 1 << untried.trailing_zeros();
        if can_hit(prefixes, chosen | bit, bits - 1) {
            return true;
        }
        untried &= !cell(prefixes, bit);
    }
    false
}

/// All bits that stand in exactly the same prefixes as `bit`.
fn cell(prefixes: &[u64], bit: u64) -> u64 {
    prefixes.iter().fold(u64::MAX, |cell, &prefix| cell & if prefix & bit != 0 { prefix } else { !prefix })
}

/// For each distance from 0 to the radius of all tables, the fewest tables that miss nothing at it.
pub(super) fn fewest_tables(prefixes: &[u64]) -> Vec<Vec<usize>> {
    let Some(largest) = radius(prefixes) else { return Vec::new() };
    // By number of tables, so that the first subset that reaches a distance is a smallest one.
    let mut subsets: Vec<u32> = (1..1u32 << prefixes.len()).collect();
    subsets.sort_by_key(|subset| subset.count_ones());
    let mut found = vec![Vec::new(); largest as usize + 1];
    for subset in subsets {
        let tables: Vec<usize> = (0..prefixes.len()).filter(|table| subset & (1 << table) != 0).collect();
        let masks: Vec<u64> = tables.iter().map(|&table| prefixes[table]).collect();
        let reached = radius(&masks).unwrap_or(0);
        for place in found.iter_mut().take(reached as usize + 1).filter(|place| place.is_empty()) {
            place.clone_from(&tables);
        }
        if found.iter().all(|place| !place.is_empty()) {
            break;
        }
    }
    found
}

/// The bit orders of the simplest family: the 64 bits fall into `blocks` equal blocks, and each table has
/// another block in front, the rest behind it in cyclic order. k differences cannot touch k + 1 blocks.
pub(super) fn one_block_in_front(blocks: usize) -> Vec<[u8; 64]> {
    let width = 64 / blocks;
    (0..blocks).map(|block| std::array::from_fn(|i| ((block * width + i) % 64) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disjoint_prefixes_have_a_radius_of_one_less_than_their_number() {
        let blocks = [0xffff, 0xffff << 16, 0xffff << 32, 0xffff << 48];
        for tables in 1..=4 {
            assert_eq!(radius(&blocks[..tables]), Some(tables as u32 - 1));
        }
        assert_eq!(radius(&[]), None);
        assert_eq!(radius(&[0xff, 0]), Some(64));
    }

    #[test]
    fn overlapping_prefixes_are_hit_by_their_common_bits() {
        // All pairs of three blocks: one difference hits two of them, two hit all.
        assert_eq!(radius(&[0xffff, 0xff_00ff, 0xff_ff00]), Some(1));
        // The paper's ten tables: all pairs of five blocks in front. Radius 3.
        let blocks: Vec<u64> = (0..5).map(|block| 0xfff << (12 * block)).collect();
        let pairs: Vec<u64> =
            (0..5).flat_map(|a| (0..a).map(move |b| (a, b))).map(|(a, b)| blocks[a] | blocks[b]).collect();
        assert_eq!(pairs.len(), 10);
        assert_eq!(radius(&pairs), Some(3));
    }

    #[test]
    fn smaller_distances_need_fewer_tables() {
        let blocks = [0xffff, 0xffff << 16, 0xffff << 32, 0xffff << 48];
        let tables: Vec<usize> = fewest_tables(&blocks).iter().map(Vec::len).collect();
        assert_eq!(tables, [1, 2, 3, 4]);
    }
}
