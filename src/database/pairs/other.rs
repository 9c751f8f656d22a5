//! The other side of a search for pairs: the fingerprints of another database, in the order of any table.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::error::Result;
use crate::parallel;
use crate::plan::{Part, Permuted, Table};
use crate::store::Reader;

/// The parts that are in memory at a time: 33 million fingerprints, with 8 bytes each for each of two passes.
const PARTS_OF_SLICE: u64 = 128;

/// The fingerprints of the other side, in slices that fit into memory.
pub(super) struct Other<'r> {
    pub(super) reader: Reader<'r>,
    /// Parts of its first table.
    pub(super) slices: Vec<Part>,
    /// The slices that were sorted last, each for a pass. Threads that end a pass need another one than those that
    /// begin the next.
    sorted: Mutex<VecDeque<(OfPass, Arc<Vec<u64>>)>>,
}

/// A slice, and the table in whose order it is: that of a pass.
pub(super) type OfPass = (Part, usize);

impl<'r> Other<'r> {
    /// In slices of parts with no more than `part_rows` rows. `kept` is one of the slices, if it has rows.
    pub(super) fn new(reader: Reader<'r>, part_rows: u64, kept: Option<Part>) -> Result<Self> {
        let slices = reader.table_parts(0, PARTS_OF_SLICE * part_rows, kept)?;
        Ok(Self {
            reader,
            slices,
            sorted: Mutex::default(),
        })
    }

    /// The fingerprints of a slice, in the order of the table of a pass.
    pub(super) fn sorted(&self, of: OfPass, table: &Table) -> Result<Arc<Vec<u64>>> {
        // The others wait here, since they need the same.
        let mut sorted = self.sorted.lock();
        if let Some((_, known)) = sorted.iter().find(|(it, _)| *it == of) {
            return Ok(known.clone());
        }
        let own = &self.reader.settings().plan.tables()[0].permutation;
        let mut rows = self.reader.table_rows(0, of.0)?;
        for row in &mut rows {
            *row = table
                .permutation
                .apply(own.invert(Permuted::from_bits(*row)))
                .bits();
        }
        parallel::sort(&mut rows);
        sorted.truncate(1);
        let rows = Arc::new(rows);
        sorted.push_front((of, rows.clone()));
        Ok(rows)
    }
}
