pub(crate) mod chunk;
pub(crate) mod level;
pub(crate) mod overlay;
pub(crate) mod ranges;
pub(crate) mod reader;
pub(crate) mod run;
pub(crate) mod skew;
