//! Parts: a file in pieces that are checked one by one, on all cores.

use std::ops::{ControlFlow, RangeInclusive};

use parking_lot::Mutex;

use crate::error::{Error, Result};
use crate::store::file::{ByRow, RowFamily, Set, SetRow, View, all_sets, by_row};

/// Called with the number of parts of the file that were checked, and the number of all parts. When it breaks,
/// the check ends.
pub(crate) type CheckProgress<'a> = &'a mut (dyn FnMut(u64, u64) -> ControlFlow<()> + Send);

/// The blocks of rows, and the blocks of documents, of a part.
const BLOCKS_OF_ROWS: usize = 16;
const BLOCKS_OF_DOCUMENTS: usize = 64;

/// All parts of a file.
pub(super) struct Parts {
    /// Numbers of documents.
    pub(super) documents: Vec<RangeInclusive<u64>>,
    pub(super) sets: Vec<SetParts>,
}

/// The parts of a set.
pub(super) type SetParts = ByRow<SetPartsFamily>;

pub(super) struct SetPartsFamily;

impl RowFamily for SetPartsFamily {
    type Of<R: SetRow> = (Set<R>, Vec<RangeInclusive<R>>);
}

impl Parts {
    pub(super) fn of(view: &View) -> Result<Self> {
        let directory = &view.state().documents;
        let ends = directory
            .entries(directory.all(), view.document_blocks())?
            .map(|entry| entry.high);
        let last = directory.high();
        let mut documents = Vec::new();
        let mut first = 0;
        for end in ends
            .skip(BLOCKS_OF_DOCUMENTS - 1)
            .step_by(BLOCKS_OF_DOCUMENTS)
            .chain(last)
        {
            if first <= end {
                documents.push(first..=end);
            }
            first = end + 1;
        }
        let parts = |set| Ok(by_row!(set, set => keep parts_of(view, set)?));
        let sets = all_sets(view.state().sets.tables())
            .map(parts)
            .collect::<Result<_>>()?;
        Ok(Self { documents, sets })
    }

    /// The number of all parts.
    pub(super) fn len(&self) -> usize {
        let sets = self
            .sets
            .iter()
            .map(|set| by_row!(set, (_, parts) => parts.len()));
        self.documents.len() + sets.sum::<usize>()
    }
}

fn parts_of<R: SetRow>(view: &View, set: Set<R>) -> Result<(Set<R>, Vec<RangeInclusive<R>>)> {
    Ok((set, view.set(set).even_parts(BLOCKS_OF_ROWS)?))
}

/// Tells a caller how many parts are done.
pub(super) struct Ticks<'a>(Mutex<TickState<'a>>);

struct TickState<'a> {
    done: u64,
    all: u64,
    progress: CheckProgress<'a>,
}

impl<'a> Ticks<'a> {
    pub(super) fn new(progress: CheckProgress<'a>) -> Self {
        Self(Mutex::new(TickState {
            done: 0,
            all: 0,
            progress,
        }))
    }

    /// Expects more parts.
    pub(super) fn expect(&self, parts: usize) {
        self.0.lock().all += parts as u64;
    }

    /// One more part is done. It is an error if the caller wants no more.
    pub(super) fn tick(&self) -> Result<()> {
        let state = &mut *self.0.lock();
        state.done += 1;
        Error::if_broken((state.progress)(state.done, state.all))
    }
}
