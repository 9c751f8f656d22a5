//! Now: how an open file stands at one moment, beside what is counted.

use super::pins::Pinned;
use super::schema::by_row;
use super::state::State;

/// How an open file stands at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    pub(crate) documents: u64,
    /// The operations that no merge has begun with.
    pub(crate) waiting_operations: u64,
    /// The rows in memory that are not in a level yet, of all sets.
    pub(crate) waiting_rows: u64,
    /// The bytes of directories and blocks, and what they may take together with the pages of the engine.
    pub(crate) cache_bytes: u64,
    pub(crate) cache_limit_bytes: u64,
    pub(crate) snapshots: u64,
    pub(crate) pinned: Pinned,
}

impl Now {
    /// What the state of the last commit tells.
    pub(super) fn of(state: &State) -> Self {
        let waiting = |any| {
            by_row!(any, set => {
                let set = &state.sets[set];
                set.recent.iter().chain(&set.frozen).map(|run| run.len() as u64).sum::<u64>()
            })
        };
        Self {
            documents: state.counters.documents,
            waiting_operations: state.recent_operations,
            waiting_rows: state.sets.sets().map(waiting).sum(),
            cache_bytes: state.directory_bytes() as u64,
            ..Self::default()
        }
    }
}
