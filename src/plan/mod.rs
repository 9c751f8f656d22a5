//! The tables of a file, and the probes that answer a distance exactly. Shows [`Plan`]. Hides the families
//! of tables, the proof that probes miss nothing, and the cost of probes.

mod candidates;
mod choice;
mod cost;
mod covering;
mod families;
mod join;
mod plan;
mod planner;
mod table;

pub use choice::{PlanEstimate, Prefer};
#[cfg(test)]
pub(crate) use covering::{Reach, covers};
pub(crate) use {
    candidates::{Candidates, NearFingerprint, pairs_within},
    choice::plans_and_estimates,
    cost::CostModel,
    families::all_plans,
    join::{Join, NearPair, Part},
    plan::{Plan, PricedProbeSet, ProbeSet, ProbedPrefix},
    planner::combinations,
    table::{Permuted, Table},
};
