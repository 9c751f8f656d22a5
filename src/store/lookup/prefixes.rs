//! An index over the leading bits of sorted rows, or of whatever else is in the order of rows.

use std::ops::Range;

use crate::store::lookup::prefetch::prefetch_at;

/// For each value of a few leading bits, how many items come before those that begin with it. Bits that no item has set do not count:
/// the numbers of documents have as many bits as there are documents.
#[derive(Debug)]
pub(crate) struct Prefixes {
    starts: Box<[u32]>,
    shift: u32,
}

impl Prefixes {
    /// An index of items with these leading bits, in order: about `share` to twice as many for each value, if they are evenly
    /// spread.
    pub(crate) fn new(
        leads: impl ExactSizeIterator<Item = u64> + DoubleEndedIterator + Clone,
        share: usize,
    ) -> Self {
        let count = leads.len();
        let bits = (count / share).max(1).ilog2();
        let width = u64::BITS - leads.clone().next_back().unwrap_or(0).leading_zeros();
        let shift = width.saturating_sub(bits);
        let mut starts = vec![0; (1 << bits) + 1].into_boxed_slice();
        for (i, lead) in leads.enumerate() {
            // The last item of a value decides.
            starts[lead.checked_shr(shift).unwrap_or(0) as usize + 1] = i as u32 + 1;
        }
        for prefix in 1..starts.len() {
            starts[prefix] = starts[prefix].max(starts[prefix - 1]);
        }
        Self { starts, shift }
    }

    /// An index that tells nothing of so many items.
    pub(crate) fn none(count: usize) -> Self {
        Self { starts: Box::new([0, count as u32]), shift: u64::BITS }
    }

    /// Has fetched what tells of these leading bits.
    #[inline]
    pub(crate) fn prefetch(&self, lead: u64) {
        prefetch_at(&self.starts, lead.checked_shr(self.shift).unwrap_or(0) as usize);
    }

    /// The items among which the first is that does not come before these leading bits, if it is not the one behind them.
    pub(crate) fn around(&self, lead: u64) -> Range<usize> {
        let last = self.starts.len() - 1;
        let prefix = lead.checked_shr(self.shift).unwrap_or(0).min(last as u64) as usize;
        self.starts[prefix] as usize..self.starts[(prefix + 1).min(last)] as usize
    }
}
