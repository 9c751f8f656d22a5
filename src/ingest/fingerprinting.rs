//! From contents to fingerprints, and which contents a database takes.

use crate::error::Error;
use crate::text::{Fingerprinter, Scheme};

/// Which contents a database takes: texts if its scheme makes fingerprints, ready fingerprints if it does not or
/// if the caller vouches for them.
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinting {
    pub(super) scheme: Scheme,
    pub(super) fingerprinter: Option<Fingerprinter>,
    pub(super) takes_ready: bool,
}

impl Fingerprinting {
    /// The rule for a database of the scheme `stored`. If the caller has `named` that scheme, ready fingerprints
    /// are taken to be of it.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`] if another scheme was named.
    pub fn new(stored: Scheme, named: Option<Scheme>) -> Result<Self, Error> {
        if let Some(given) = named.filter(|&named| named != stored) {
            return Err(Error::SchemeMismatch { stored: stored.name(), given: given.name() });
        }
        let fingerprinter = Fingerprinter::new(stored).ok();
        Ok(Self { scheme: stored, fingerprinter, takes_ready: fingerprinter.is_none() || named.is_some() })
    }
}
