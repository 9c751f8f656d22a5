//! The last look at a match: a function of the caller.

use std::fmt;
use std::sync::Arc;

use crate::document::Document;
use crate::error::{Error, Result};

/// Why a function of the caller could not tell.
pub(super) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Whether a stored document matches.
pub(super) type VerifyStored = dyn Fn(&Document) -> Result<bool, Failure> + Send + Sync;
/// Whether a new document, the first, matches a stored one.
pub(super) type VerifyPair = dyn Fn(&Document, &Document) -> Result<bool, Failure> + Send + Sync;

/// A function that verifies, and that clones share. It equals its clones only.
pub(super) struct Verify<F: ?Sized>(Arc<F>);

impl<F: ?Sized> Verify<F> {
    pub(super) fn new(function: Arc<F>) -> Self {
        Self(function)
    }
}

impl<F: ?Sized> Clone for Verify<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<F: ?Sized> PartialEq for Verify<F> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl<F: ?Sized> fmt::Debug for Verify<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Verify(..)")
    }
}

/// What a stored document is verified against.
#[derive(Clone, Copy)]
pub(super) enum Verifier<'a> {
    OfQuery(&'a VerifyStored),
    OfDocument(&'a Document, &'a VerifyPair),
}

impl<'a> Verifier<'a> {
    pub(super) fn of_query(verify: &'a Verify<VerifyStored>) -> Self {
        Self::OfQuery(&*verify.0)
    }

    pub(super) fn of_document(document: &'a Document, verify: &'a Verify<VerifyPair>) -> Self {
        Self::OfDocument(document, &*verify.0)
    }

    /// Whether a stored document matches.
    pub(super) fn matches(self, stored: &Document) -> Result<bool> {
        let verified = match self {
            Self::OfQuery(verify) => verify(stored),
            Self::OfDocument(document, verify) => verify(document, stored),
        };
        verified.map_err(|source| Error::Verify(Arc::from(source)))
    }
}
