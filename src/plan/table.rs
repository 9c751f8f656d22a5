//! One permuted table of a plan: its order of bits, and the permuted value.

use std::sync::OnceLock;

use super::covering::Reach;
use crate::fingerprint::Fingerprint;

/// The most tables of a plan. Each table takes as much space as the first.
pub(super) const MOST_TABLES: usize = 32;

/// A fingerprint with its bits in the order of one table. A table is sorted by this value, so equal
/// prefixes are neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Permuted(u64);

impl Permuted {
    /// The value of a row of a table.
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The value a table is sorted by.
    pub(crate) const fn bits(self) -> u64 {
        self.0
    }
}

/// A permuted table: an order of the 64 bits of a fingerprint, which is invertible and leaves distances unchanged, and
/// the number of leading bits that it was made to be probed on.
///
/// Bit positions count from the most significant bit, 0, to the least significant, 63. So a prefix is the
/// positions from 0 on.
#[derive(Clone)]
pub(crate) struct Table {
    /// For each position of the permuted value, the position of that bit in the fingerprint. Each of 0..64
    /// occurs once.
    positions: [u8; 64],
    pub(crate) prefix_bits: u32,
    /// Made at first use, because most plans are compared and never used.
    forward: OnceLock<Spread>,
    backward: OnceLock<Spread>,
}

/// For each of the eight bytes of a word and each value of the byte, its bits at their new positions. A
/// permutation then costs eight look-ups, joined by OR.
type Spread = Box<[[u64; 256]; 8]>;

impl Table {
    /// The table with these positions, or `None` if they are not each of 0..64 once.
    pub(crate) fn new(positions: [u8; 64], prefix_bits: u32) -> Option<Self> {
        let is_order = inverse(&positions).is_some();
        is_order.then(|| Self {
            positions,
            prefix_bits,
            forward: OnceLock::new(),
            backward: OnceLock::new(),
        })
    }

    /// The positions, as they are stored.
    pub(crate) fn positions(&self) -> &[u8; 64] {
        &self.positions
    }

    /// The fingerprint in the order of this table.
    pub(crate) fn apply(&self, fingerprint: Fingerprint) -> Permuted {
        let forward = self
            .forward
            .get_or_init(|| spread(&inverse(&self.positions).unwrap_or(self.positions)));
        Permuted(look_up(forward, fingerprint.bits()))
    }

    /// The fingerprint that [`apply`](Self::apply) made `permuted` from.
    pub(crate) fn invert(&self, permuted: Permuted) -> Fingerprint {
        let backward = self.backward.get_or_init(|| spread(&self.positions));
        Fingerprint::from_bits(look_up(backward, permuted.0))
    }

    /// The bits of a fingerprint that are the leading `prefix_bits` bits of its permuted value, as a mask.
    pub(crate) fn prefix_mask(&self, prefix_bits: u32) -> u64 {
        let mut mask = 0;
        for &from in &self.positions[..prefix_bits as usize] {
            mask |= 1 << (63 - from);
        }
        mask
    }

    /// The bits of a fingerprint that are the prefix that the table was made to be probed on.
    pub(crate) fn own_mask(&self) -> u64 {
        self.prefix_mask(self.prefix_bits)
    }

    /// The reach of a probe of the leading `prefix_bits` bits.
    pub(super) fn reach(&self, prefix_bits: u32, flips: u32) -> Reach {
        Reach {
            prefix: self.prefix_mask(prefix_bits),
            flips,
        }
    }

    /// The masks of [`prefix_mask`](Self::prefix_mask) for 0 to 64 bits.
    pub(super) fn prefix_masks(&self) -> [u64; 65] {
        let mut masks = [0; 65];
        for (bits, &from) in self.positions.iter().enumerate() {
            masks[bits + 1] = masks[bits] | 1 << (63 - from);
        }
        masks
    }
}

/// The order that undoes `positions`, or `None` if they are not each of 0..64 once.
fn inverse(positions: &[u8; 64]) -> Option<[u8; 64]> {
    let mut inverse = [u8::MAX; 64];
    for (to, &from) in positions.iter().enumerate() {
        *inverse.get_mut(usize::from(from))? = to as u8;
    }
    inverse.iter().all(|&to| to != u8::MAX).then_some(inverse)
}

/// The look-up tables that move the bit at each position `from` to position `targets[from]`.
fn spread(targets: &[u8; 64]) -> Spread {
    let mut tables = Box::new([[0; 256]; 8]);
    for (byte, table) in tables.iter_mut().enumerate() {
        for (value, moved) in table.iter_mut().enumerate() {
            for bit in 0..8 {
                if value & (0x80 >> bit) != 0 {
                    *moved |= 1 << (63 - targets[byte * 8 + bit]);
                }
            }
        }
    }
    tables
}

fn look_up(tables: &Spread, word: u64) -> u64 {
    // Positions count from the most significant bit, so the first table is that of the highest byte.
    let mut moved = 0;
    for (byte, table) in tables.iter().enumerate() {
        let value = (word >> (56 - 8 * byte)) as u8;
        moved |= table[usize::from(value)];
    }
    moved
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A scattered permutation: position i comes from 37 i + 11 modulo 64.
    pub(in crate::plan) fn scattered() -> Table {
        let positions = std::array::from_fn(|i| ((37 * i + 11) % 64) as u8);
        Table::new(positions, 16).expect("37 is odd")
    }

    #[test]
    fn every_single_bit_moves_where_the_positions_say_and_back() {
        let table = scattered();
        for to in 0..64 {
            let from = table.positions()[to];
            let fingerprint = Fingerprint::from_bits(1 << (63 - from));
            let permuted = table.apply(fingerprint);
            assert_eq!(permuted.bits(), 1 << (63 - to));
            assert_eq!(table.invert(permuted), fingerprint);
        }
    }

    #[test]
    fn distances_are_unchanged() {
        let table = scattered();
        let a = Fingerprint::from_bits(0x0123_4567_89ab_cdef);
        let b = Fingerprint::from_bits(0xdead_beef_0bad_cafe);
        let difference = table.apply(a).bits() ^ table.apply(b).bits();
        assert_eq!(difference.count_ones(), a.distance(b));
    }

    #[test]
    fn a_position_that_repeats_or_is_too_large_is_refused() {
        let mut twice: [u8; 64] = std::array::from_fn(|i| i as u8);
        twice[5] = 4;
        assert!(Table::new(twice, 16).is_none());
        twice[5] = 64;
        assert!(Table::new(twice, 16).is_none());
    }
}
