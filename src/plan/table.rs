//! Table: one permuted table of a plan.

use super::permutation::Permutation;

/// No plan has more tables: each takes as much space as the first.
pub(super) const MOST_TABLES: usize = 32;

/// A permuted table: its bit order, and the leading bits that it was made to be probed on.
#[derive(Clone)]
pub(crate) struct Table {
    pub(crate) permutation: Permutation,
    pub(crate) prefix_bits: u32,
}
