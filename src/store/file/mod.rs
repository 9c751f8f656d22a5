pub(crate) mod log;
pub(crate) mod meta;
pub(crate) mod opening;
pub(crate) mod shared;
pub(crate) mod state;
pub(crate) mod written;
