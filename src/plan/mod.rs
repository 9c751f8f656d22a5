//! The tables of a file, and the probes that answer a distance exactly. Shows [`Plan`]. Hides the families
//! of tables, the proof that probes miss nothing, and the cost of probes.

mod candidates;
mod choice;
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

pub(crate) use candidates::{Candidates, NearFingerprint};
pub(crate) use choice::plans_and_estimates;
pub use choice::{PlanEstimate, Prefer};
pub(crate) use compare::pairs_within;
pub(crate) use cost::{CostModel, Work};
#[cfg(test)]
pub(crate) use covering::{Reach, covers};
pub(crate) use families::{all_plans, plan_named};
pub(crate) use join::{Join, NearPair, Part};
pub(crate) use permutation::{Permutation, Permuted, Table};
pub(crate) use plan::Plan;
pub(crate) use planner::combinations;
pub(crate) use probes::{Probe, ProbeSet, ProbedPrefix};
