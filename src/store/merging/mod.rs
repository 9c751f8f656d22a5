pub(crate) mod reclaim;
pub(crate) mod step;
pub(crate) mod stream;
pub(crate) mod worker;
