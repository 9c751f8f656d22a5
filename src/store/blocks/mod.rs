pub(crate) mod bits;
pub(crate) mod cache;
pub(crate) mod documents;
pub(crate) mod envelope;
pub(crate) mod filter;
pub(crate) mod packed;
pub(crate) mod reader;
