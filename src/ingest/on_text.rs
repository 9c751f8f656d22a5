//! A function of the caller that sees the texts.

use std::fmt;
use std::sync::Arc;

use crate::document::Document;

type Function = dyn Fn(&Document, &str) + Send + Sync;

/// Sees each document with its text, on any thread.
#[derive(Clone)]
pub(super) struct OnText(Arc<Function>);

impl OnText {
    pub(super) fn new(function: impl Fn(&Document, &str) + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    pub(super) fn call(&self, document: &Document, text: &str) {
        (self.0)(document, text);
    }
}

impl fmt::Debug for OnText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OnText(..)")
    }
}
