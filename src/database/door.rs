//! The door of an open database: what a module above gives an open database to hold until it is closed.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::error::Result;
use crate::store::Store;

/// Opens a door. There is one kind of door, so all are equal.
#[derive(Clone, Copy)]
pub(crate) struct Door(pub(crate) fn(&Arc<Store>) -> Result<OpenDoor>);

impl fmt::Debug for Door {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Door")
    }
}

impl PartialEq for Door {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// An open door. It is closed when this is dropped.
pub(crate) struct OpenDoor {
    _held: Box<dyn Any + Send + Sync>,
}

impl OpenDoor {
    pub(crate) fn new(held: impl Any + Send + Sync) -> Self {
        Self {
            _held: Box::new(held),
        }
    }
}

impl fmt::Debug for OpenDoor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenDoor").finish_non_exhaustive()
    }
}
