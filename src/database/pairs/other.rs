//! The other side of a search for pairs: the fingerprints of another database, in the order of any table.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::parallel;
use crate::plan::{Part, Permuted, Table};
use crate::store::{Read, ReadParts, Reader};

/// The most fingerprints that are in memory at a time, with 8 bytes each for each of two passes.
const MOST_FINGERPRINTS: u64 = 1 << 25;

/// The fingerprints of the other side, in slices that fit into memory.
pub(super) struct Other<'r> {
    pub(super) reader: &'r Reader,
    /// Parts of its first table.
    pub(super) slices: Vec<Part>,
    /// The slices that were sorted last, each for a pass. Threads that end a pass need another one than those that
    /// begin the next.
    sorted: Mutex<VecDeque<(OfPass, Arc<Vec<u64>>)>>,
}

/// A slice and a pass, by their indexes.
pub(super) type OfPass = (usize, usize);

impl<'r> Other<'r> {
    pub(super) fn new(reader: &'r Reader) -> Result<Self> {
        Ok(Self { reader, slices: reader.table_parts(0, MOST_FINGERPRINTS)?, sorted: Mutex::default() })
    }

    /// The fingerprints of a slice, in the order of the table of a pass.
    pub(super) fn sorted(&self, of: OfPass, table: &Table) -> Result<Arc<Vec<u64>>> {
        // The others wait here, since they need the same.
        let mut sorted = self.sorted.lock();
        if let Some((_, known)) = sorted.iter().find(|(it, _)| *it == of) {
            return Ok(known.clone());
        }
        let own = &self.reader.settings().plan.tables()[0].permutation;
        let mut rows = self.reader.table_rows(0, self.slices[of.0])?;
        for row in &mut rows {
            *row = table.permutation.apply(own.invert(Permuted::from_bits(*row))).bits();
        }
        parallel::sort(&mut rows);
        sorted.truncate(1);
        let rows = Arc::new(rows);
        sorted.push_front((of, rows.clone()));
        Ok(rows)
    }
}
