pub(crate) mod occupied;
pub(crate) mod prefetch;
pub(crate) mod prefixes;
pub(crate) mod samples;
