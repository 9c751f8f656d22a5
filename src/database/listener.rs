//! The listener of an open database, which answers other processes: a module above gives it to the database, which
//! holds it until it is closed.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::error::Result;
use crate::store::Store;

/// Starts a listener. There is one kind, so all are equal.
#[derive(Clone, Copy)]
pub(crate) struct Listen {
    /// Refuses a database that is yet to be created, if it could not be listened for.
    pub(crate) ensure_free: fn(&Path) -> Result<()>,
    pub(crate) start: fn(&Arc<Store>) -> Result<Listener>,
}

impl fmt::Debug for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listen")
    }
}

impl PartialEq for Listen {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A listener. It ends when this is dropped.
pub(crate) type Listener = Box<dyn Any + Send + Sync>;
