//! WrittenFingerprints: the fingerprints of a transaction, for the searches that it makes itself.

use super::overlays::Overlays;
use super::schema::permuted;
use crate::plan::{Candidates, Probe};
use crate::store::sorted_set::Run;

/// The fingerprints that a transaction has written. Some may have no document any more.
pub(crate) struct WrittenFingerprints<'w>(&'w Overlays);

impl<'w> WrittenFingerprints<'w> {
    pub(crate) fn new(overlays: &'w Overlays) -> Self {
        Self(overlays)
    }

    /// Those that are not sorted yet, as rows of the first table.
    pub(crate) fn unsorted(&self) -> Candidates<'w> {
        Candidates::new(self.0[permuted(0)].puts().1)
    }

    /// Those that are sorted, as rows of the first table, in parts.
    pub(crate) fn sorted(&self) -> impl Iterator<Item = Candidates<'w>> + use<'w> {
        self.0[permuted(0)]
            .puts()
            .0
            .iter()
            .map(|run| Candidates::new(run.puts()))
    }

    /// The sorted ones in the range of a probe, perhaps with some neighbours, in parts.
    pub(crate) fn probed(&self, probe: &Probe) -> impl Iterator<Item = Candidates<'w>> + use<'w> {
        let (first, last) = (probe.first, probe.last);
        let runs = self.0[permuted(probe.table)].puts().0.iter();
        let puts = runs
            .map(Run::indexed_puts)
            .filter(move |puts| puts.may_have(first, last));
        puts.map(move |puts| Candidates::new(puts.around(&(first..=last))))
    }
}
