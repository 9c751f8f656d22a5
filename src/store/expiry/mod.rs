//! Expiry: removing many documents at once, by time and by scope, in bounded steps.

mod batch;
mod expire;
mod listing;
mod selection;
mod step;

pub(crate) use expire::{Removed, expire};
pub(crate) use listing::{ToExpire, list};
pub(crate) use selection::Conditions;
