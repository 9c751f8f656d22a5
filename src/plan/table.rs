//! Table: one permuted table of a plan.

use super::permutation::Permutation;

/// The most tables of a plan. Each table takes as much space as the first.
pub(super) const MOST_TABLES: usize = 32;

/// A permuted table: its order of bits, and the number of leading bits it was made to be probed on.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) permutation: Permutation,
    pub(crate) prefix_bits: u32,
}
