//! Turn: the right to write to an open file, held by one transaction at a time.

use std::sync::Arc;

use super::shared::Shared;
use super::turns::Patience;
use crate::error::Result;

/// The right to write. It is given back when this is dropped.
pub(crate) struct Turn(Arc<Shared>);

impl Turn {
    /// Waits until no other transaction writes. `None` if that does not come in time. It is an error if this
    /// thread has the turn.
    pub(crate) fn take(shared: &Arc<Shared>, patience: Patience) -> Result<Option<Self>> {
        Ok(shared.turns.take(patience)?.then(|| Self(shared.clone())))
    }

    /// Waits until no other transaction writes, however long it takes.
    pub(crate) fn wait(shared: &Arc<Shared>) -> Result<Self> {
        let turn = Self::take(shared, Patience::Endless)?;
        Ok(turn.expect("endless patience ends with the turn"))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.0
    }

    /// Notes that this thread has the transaction now.
    pub(crate) fn use_here(&self) {
        self.0.turns.use_here();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // A forked process has a copy of a turn that is not its own, and the line may be locked for ever.
        if self.0.is_here() {
            self.0.turns.give_back();
        }
    }
}
