//! Expiry: removing many documents at once, by time and by scope, in bounded steps.

mod expire;
mod selection;

pub(crate) use expire::{Removed, expire, list_expired};
pub(crate) use selection::Conditions;
