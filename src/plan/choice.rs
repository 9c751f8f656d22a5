//! The choice of the tables of a new file: the space and the time that each plan would take, and which one
//! is preferred.

use std::time::Duration;

use super::cost::CostModel;
use super::families::all_plans;
use super::plan::Plan;
use super::planner::cheapest;
use crate::fingerprint::Fingerprint;

/// What matters in the choice of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Prefer {
    /// The fewest tables.
    Space,
    /// The least product of space and query time. Twice the space has to halve the time.
    #[default]
    Balance,
    /// The least query time.
    Speed,
}

/// The space and the time that the tables of a plan would take, for a number of documents at a distance.
/// From [`CreateOptions::plans`](crate::CreateOptions::plans).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PlanEstimate {
    /// The name of the plan: the number of tables, `x`, and the bits of the shortest prefix.
    pub plan: String,
    /// The number of tables.
    pub tables: usize,
    /// The number of leading bits that each table is made to be probed on, at least.
    pub prefix_bits: u32,
    /// The number of tables that the construction of Manku, Jain and Das Sarma (2007, section 3.2) needs
    /// for prefixes of this length.
    pub tables_in_the_paper: u64,
    /// The bytes of a document in a dense file, without its key and payload.
    pub document_bytes: f64,
    /// The memory that holds the rows of all tables, in bytes for each document.
    pub cached_bytes: f64,
    /// The number of candidates that a query is expected to meet.
    pub candidates: f64,
    /// The time a query takes with the tables in memory, without the look-up of its matches.
    pub query: Duration,
    /// Whether this is the plan to take.
    pub preferred: bool,
}

/// The bytes of a document beside its rows in the permuted tables: its record, the row of its key with a
/// filter, and its posting.
const OTHER_BYTES: f64 = 24.0;

/// All plans that are worth considering, from the fewest tables to the most, with their estimates.
/// `sample` is stored fingerprints that show how unevenly they are spread. An empty sample stands for
/// uniform ones.
pub(crate) fn plans_and_estimates(
    documents: u64,
    distance: u32,
    prefer: Prefer,
    sample: &[Fingerprint],
) -> Vec<(Plan, PlanEstimate)> {
    let mut all: Vec<(Plan, PlanEstimate)> = all_plans()
        .iter()
        .map(|plan| {
            let cost_model = CostModel::sampled(documents as f64, plan.tables(), sample);
            let probes = cheapest(plan.tables(), distance, &cost_model);
            let estimate = PlanEstimate {
                plan: plan.to_string(),
                tables: plan.tables().len(),
                prefix_bits: plan.least_prefix_bits(),
                tables_in_the_paper: tables_in_the_paper(64.0, distance, f64::from(plan.least_prefix_bits())),
                document_bytes: OTHER_BYTES + plan.tables().len() as f64 * row_bytes(documents),
                cached_bytes: 8.0 * plan.tables().len() as f64,
                candidates: cost_model.all_candidates(&probes),
                query: Duration::from_nanos(cost_model.nanos(&probes) as u64),
                preferred: false,
            };
            (plan.for_another_file(), estimate)
        })
        .collect();
    // More tables are worth nothing unless queries become faster.
    let mut fastest = Duration::from_secs(1 << 30);
    all.retain(|(_, estimate)| {
        let faster = estimate.query < fastest.mul_f64(0.98);
        fastest = fastest.min(estimate.query);
        faster
    });
    let rank = |estimate: &PlanEstimate| match prefer {
        Prefer::Space => estimate.document_bytes,
        Prefer::Balance => estimate.document_bytes * estimate.query.as_secs_f64(),
        Prefer::Speed => estimate.query.as_secs_f64(),
    };
    if let Some((_, best)) = all.iter_mut().min_by(|a, b| rank(&a.1).total_cmp(&rank(&b.1))) {
        best.preferred = true;
    }
    all
}

/// The bytes of a row in a block. All rows of a block are as wide as its largest gap needs. On average
/// that is `MORE_BITS` more than the mean gap between rows needs.
fn row_bytes(rows: u64) -> f64 {
    const MORE_BITS: f64 = 3.2;
    let gap = 64.0 - (rows.max(2) as f64).log2();
    (gap + MORE_BITS) / 8.0
}

/// The fewest tables that have `prefix_bits` bits in front, by the recursion of the paper. It cuts the
/// bits into r blocks and takes a table for each choice of r - k blocks. The same may be done again with
/// the bits of the other k blocks.
fn tables_in_the_paper(bits: f64, distance: u32, prefix_bits: f64) -> u64 {
    if prefix_bits <= 0.0 {
        return 1;
    }
    let splits = (distance + 1..=distance + 12).filter_map(|blocks| {
        let kept = bits * f64::from(blocks - distance) / f64::from(blocks);
        let tables = (0..distance).fold(1, |all, i| all * u64::from(blocks - i) / u64::from(i + 1));
        // Each block has at least a bit.
        (bits >= f64::from(blocks) && distance > 0).then(|| {
            // A block may be rounded up.
            let rest = prefix_bits - kept.ceil();
            tables.saturating_mul(tables_in_the_paper(bits - kept, distance, rest))
        })
    });
    splits.min().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recursion_gives_the_numbers_of_tables_in_the_paper() {
        for (prefix_bits, tables) in [(16.0, 4), (25.0, 10), (28.0, 16), (32.0, 20)] {
            assert_eq!(tables_in_the_paper(64.0, 3, prefix_bits), tables, "{prefix_bits} bits");
        }
    }

    #[test]
    fn more_documents_and_less_room_change_the_choice() {
        let chosen = |documents, prefer| {
            let all = plans_and_estimates(documents, 3, prefer, &[]);
            let preferred: Vec<String> =
                all.into_iter().filter(|it| it.1.preferred).map(|it| it.1.plan).collect();
            preferred.join(" ")
        };
        assert_eq!(chosen(1_000_000, Prefer::Balance), "4x16");
        assert_eq!(chosen(100_000_000, Prefer::Balance), "6x21");
        assert_eq!(chosen(100_000_000, Prefer::Space), "2x32");
        assert_ne!(chosen(10_000_000_000, Prefer::Speed), "6x21");
    }
}
