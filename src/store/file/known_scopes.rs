//! Known scopes: the numbers of scopes that were looked up since the file was opened.
//!
//! Every insertion and every query with scopes asks for numbers. The table of the engine answers in about half a
//! microsecond, and a query may name a thousand scopes.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use parking_lot::RwLock;

use crate::store::numbers::ScopeNumber;

/// The most scopes that are remembered. With names of 30 bytes they take 6 MB.
const MOST: usize = 1 << 16;

/// The numbers of committed scopes. All views of a file share them, since a scope never gets another number.
#[derive(Debug, Default)]
pub(crate) struct KnownScopes(RwLock<HashMap<Box<str>, ScopeNumber, RandomState>>);

impl KnownScopes {
    pub(super) fn get(&self, name: &str) -> Option<ScopeNumber> {
        self.0.read().get(name).copied()
    }

    /// Remembers a scope of a commit, if there is room.
    pub(super) fn add(&self, name: &str, number: ScopeNumber) {
        let mut scopes = self.0.write();
        if scopes.len() < MOST {
            scopes.insert(name.into(), number);
        }
    }
}
