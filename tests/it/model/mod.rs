//! Random sequences of operations against a linear scan over a map.

mod conditions;
mod operations;
mod oracle;
mod sequences;
