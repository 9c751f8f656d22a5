//! Whether a cleaning is to end before it is done.

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use crate::error::{Error, Result};

/// Says whether the cleaning is to end.
#[derive(Clone)]
pub(super) struct Stop(Arc<dyn Fn() -> bool + Send + Sync>);

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop(..)")
    }
}

impl Stop {
    pub(super) fn never() -> Self {
        Self::when(|| false)
    }

    pub(super) fn when(stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(stop))
    }

    /// Refuses to go on if nobody wants it.
    pub(super) fn ensure_wanted(&self) -> Result<()> {
        if (self.0)() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    pub(super) fn flow(&self) -> ControlFlow<()> {
        if (self.0)() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}
