//! The tables of a file, and the probes that answer a distance exactly. Shows [`Plan`]. Hides the families
//! of tables, the proof that probes miss nothing, and the cost of probes.

mod candidates;
mod choice;
mod combinations;
mod compare;
mod cost;
mod covering;
mod families;
mod join;
mod joined_rows;
mod order;
mod permutation;
#[expect(
    clippy::module_inception,
    reason = "the folder is named after what it shows first"
)]
mod plan;
mod planner;
mod probes;
mod sql_job;
#[cfg(test)]
mod sql_job_tests;
mod sql_tables;
mod sql_words;
mod table;

pub(crate) use candidates::{Candidates, NearFingerprint};
pub(crate) use choice::plans_and_estimates;
pub use choice::{PlanEstimate, Prefer};
pub(crate) use compare::pairs_within;
pub(crate) use cost::{CostModel, Work};
pub(crate) use families::plan_named;
pub(crate) use join::{Join, NearPair, Part};
pub(crate) use permutation::{Permutation, Permuted};
pub(crate) use plan::Plan;
pub(crate) use probes::{Probe, ProbeSet, ProbedPrefix};
pub use sql_job::{SqlJob, SqlWork};
pub use sql_words::SqlDialect;
pub(crate) use table::Table;
