//! The choice of the tables of a new file: the space and the time that each plan would take, and which one
//! is preferred.

use std::time::Duration;

use super::cost::CostModel;
use super::families::all_plans;
use super::plan::Plan;
use super::planner::{cheaper_than, cheapest};
use crate::fingerprint::Fingerprint;

/// The aim of the choice of a plan. The time is that of queries that are answered together, as the verdicts on the
/// documents of a batch are.
///
/// # Example
///
/// ```
/// use simdb::{CreateOptions, Prefer};
///
/// let options = CreateOptions::new().max_distance(3).expected_documents(100_000_000);
/// let mut tables = Vec::new();
/// for prefer in [Prefer::Space, Prefer::Speed] {
///     let plans = options.clone().prefer(prefer).plans(&[]);
///     tables.extend(plans.iter().filter(|plan| plan.preferred).map(|plan| plan.tables));
/// }
/// assert!(tables[0] < tables[1]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum Prefer {
    /// The fewest tables.
    Space,
    /// The least product of space and time.
    ///
    /// So tables may take twice the space only if a query then takes less than half the time.
    #[default]
    Balance,
    /// The least time.
    Speed,
}

/// The space and the time that the tables of a plan would take, for a number of documents at a distance.
/// From [`CreateOptions::plans`](crate::CreateOptions::plans).
///
/// # Example
///
/// ```
/// use simdb::CreateOptions;
///
/// let options = CreateOptions::new().max_distance(3).expected_documents(10_000_000);
/// let plans = options.plans(&[]);
/// for plan in &plans {
///     println!("{}: {} bytes a document, {:?} a query", plan.plan, plan.document_bytes, plan.query);
/// }
/// assert_eq!(plans.iter().filter(|plan| plan.preferred).count(), 1);
/// // The more tables, the more space.
/// assert!(plans.is_sorted_by_key(|plan| plan.document_bytes));
/// ```
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
    /// for prefixes of this length. 0 if it cannot make them.
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

/// The number of queries that are answered together, as verdicts on a batch of some thousand documents are.
const TOGETHER: usize = 4096;
/// Plans for fewer documents are compared as if there were so many. A small file is fast with any plan, and it may
/// grow.
const LEAST_DOCUMENTS: u64 = 100_000;

/// All plans that are worth considering, from the fewest tables to the most, with their estimates.
/// `sample` is stored fingerprints that show how unevenly they are spread. An empty sample stands for
/// uniform ones.
///
/// They are compared by the time of queries that are answered together while documents come in, as verdicts on new
/// documents are. The estimates tell that of a query alone, in a compacted file.
pub(crate) fn plans_and_estimates(
    documents: u64,
    distance: u32,
    prefer: Prefer,
    sample: &[Fingerprint],
) -> Vec<(Plan, PlanEstimate)> {
    let mut all: Vec<(Plan, PlanEstimate)> = Vec::new();
    let mut fastest = f64::INFINITY;
    let mut best = None;
    for plan in all_plans() {
        let tables = plan.tables();
        let alone = CostModel::sampled(documents as f64, tables, sample);
        let compared = documents.max(LEAST_DOCUMENTS) as f64;
        let together = CostModel::sampled(compared, tables, sample)
            .growing()
            .for_queries(TOGETHER);
        let nanos = together.nanos(&cheaper_than(fastest, tables, distance, &together));
        // More tables are worth nothing unless queries become faster.
        if nanos < fastest * 0.98 {
            let estimate = estimate(plan, documents, distance, &alone);
            let rank = prefer.rank(estimate.document_bytes, nanos);
            if best.is_none_or(|(least, _)| rank < least) {
                best = Some((rank, all.len()));
            }
            all.push((plan.for_another_file(), estimate));
        }
        fastest = fastest.min(nanos);
    }
    if let Some((_, best)) = best {
        all[best].1.preferred = true;
    }
    all
}

impl Prefer {
    /// The least is preferred.
    fn rank(self, document_bytes: f64, nanos: f64) -> f64 {
        match self {
            Self::Space => document_bytes,
            Self::Balance => document_bytes * nanos,
            Self::Speed => nanos,
        }
    }
}

fn estimate(plan: &Plan, documents: u64, distance: u32, cost_model: &CostModel) -> PlanEstimate {
    let probes = &cheapest(plan.tables(), distance, cost_model);
    PlanEstimate {
        plan: plan.to_string(),
        tables: plan.tables().len(),
        prefix_bits: plan.least_prefix_bits(),
        tables_in_the_paper: tables_in_the_paper(distance, plan.least_prefix_bits()).unwrap_or(0),
        document_bytes: OTHER_BYTES + plan.tables().len() as f64 * row_bytes(documents),
        cached_bytes: 8.0 * plan.tables().len() as f64,
        candidates: cost_model.all_candidates(probes),
        query: Duration::from_nanos(cost_model.nanos(probes) as u64),
        preferred: false,
    }
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
/// the bits of the other k blocks. `None` if no cuts lead so far: each block has at least a bit.
fn tables_in_the_paper(distance: u32, prefix_bits: u32) -> Option<u64> {
    if distance == 0 {
        return Some(1);
    }
    // Plain recursion takes time that is exponential in the distance. So each number of missing bits gets
    // one list of the ways that lead to it, and only the best of these ways are followed.
    let mut ways: Vec<Vec<Way>> = vec![Vec::new(); prefix_bits as usize + 1];
    ways[prefix_bits as usize].push(Way {
        tables: 1,
        bits: 64.0,
    });
    for missing in (1..=prefix_bits as usize).rev() {
        for way in best_ways(std::mem::take(&mut ways[missing])) {
            for blocks in distance + 1..=distance + 12 {
                if let Some((next, kept)) = way.cut(distance, blocks) {
                    // A block may be rounded up.
                    ways[missing.saturating_sub(kept.ceil() as usize)].push(next);
                }
            }
        }
    }
    ways[0].iter().map(|way| way.tables).min()
}

/// Some cuts of the recursion of the paper: the tables they take, and the bits that are left to cut.
#[derive(Clone, Copy)]
struct Way {
    tables: u64,
    bits: f64,
}

impl Way {
    /// Cuts the bits that are left into this number of blocks. Also returns the number of bits in front.
    fn cut(self, distance: u32, blocks: u32) -> Option<(Self, f64)> {
        if self.bits < f64::from(blocks) {
            return None;
        }
        let share = f64::from(blocks - distance);
        let kept = self.bits * share / f64::from(blocks);
        // The choices of the few blocks that are kept are as many as those of the others.
        let mut choices = 1;
        for i in 0..blocks - distance {
            choices = choices * u64::from(blocks - i) / u64::from(i + 1);
        }
        let way = Self {
            tables: self.tables.saturating_mul(choices),
            bits: self.bits - kept,
        };
        Some((way, kept))
    }
}

/// The ways that no other way equals or exceeds, with no more tables and no fewer bits left.
fn best_ways(mut ways: Vec<Way>) -> Vec<Way> {
    ways.sort_by(|a, b| {
        let by_tables = a.tables.cmp(&b.tables);
        by_tables.then(b.bits.total_cmp(&a.bits))
    });
    let mut most_bits = 0.0;
    ways.retain(|way| {
        let better = way.bits > most_bits;
        most_bits = way.bits.max(most_bits);
        better
    });
    ways
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel;

    #[test]
    fn the_recursion_gives_the_numbers_of_tables_in_the_paper() {
        for (prefix_bits, tables) in [(16, 4), (25, 10), (28, 16), (32, 20)] {
            assert_eq!(
                tables_in_the_paper(3, prefix_bits),
                Some(tables),
                "{prefix_bits} bits"
            );
        }
    }

    /// The recursion was followed in all its branches. At a max distance of 18 a new file took 11 seconds,
    /// and at 32 over a minute. Products of more than 64 bits wrapped around.
    #[test]
    fn the_recursion_ends_at_every_distance() {
        for distance in 0..=64 {
            let tables =
                (0..=64).map(|bits| tables_in_the_paper(distance, bits).unwrap_or(u64::MAX));
            assert!(tables.is_sorted(), "distance {distance}");
        }
        assert_eq!(tables_in_the_paper(18, 8), Some(361));
        // C(44, 12) tables have 18 bits in front.
        assert_eq!(tables_in_the_paper(32, 18), Some(21_090_682_613));
        assert_eq!(tables_in_the_paper(64, 1), None);
    }

    /// The names of the plans that are preferred.
    fn preferred(all: &[(Plan, PlanEstimate)]) -> Vec<&str> {
        let estimates = all.iter().map(|(_, estimate)| estimate);
        let preferred = estimates.filter(|estimate| estimate.preferred);
        preferred.map(|estimate| &*estimate.plan).collect()
    }

    /// The search took 0.27 s for the defaults, the same choice each time, and was made lean. The choice must not
    /// change with the search: files of one command would have other tables, and other sizes, than those before. It
    /// changes with the costs.
    #[test]
    fn the_plans_that_are_chosen_do_not_change_with_the_search() {
        let sizes = [3, 5, 6, 7, 8, 9, 10].map(|digits| 10u64.pow(digits));
        let chosen = [
            (2, Prefer::Balance, "3x21 3x21 3x21 3x21 3x21 3x21 6x32"),
            (2, Prefer::Speed, "3x21 3x21 3x21 3x21 3x21 6x32 6x32"),
            (3, Prefer::Balance, "4x16 4x16 4x16 4x16 6x21 6x21 11x28"),
            (3, Prefer::Speed, "4x16 4x16 4x16 4x16 6x21 10x25 11x28"),
            (4, Prefer::Balance, "5x12 5x12 5x12 4x16 3x21 3x21 31x32"),
            (4, Prefer::Speed, "5x12 5x12 5x12 14x17 15x20 31x32 31x32"),
            (5, Prefer::Balance, "6x10 6x10 6x10 14x17 3x21 3x21 2x32"),
            (5, Prefer::Speed, "6x10 6x10 6x10 14x17 14x17 3x21 14x32"),
            (6, Prefer::Balance, "7x9 7x9 7x9 4x16 3x21 3x21 3x21"),
            (6, Prefer::Speed, "7x9 7x9 7x9 30x16 30x16 3x21 11x28"),
            (7, Prefer::Balance, "8x8 8x8 7x9 4x16 4x16 3x21 10x25"),
            (7, Prefer::Speed, "8x8 8x8 8x8 30x16 30x16 10x38 10x25"),
            (8, Prefer::Balance, "10x25 10x25 6x10 5x12 4x16 3x21 10x25"),
            (8, Prefer::Speed, "10x25 10x25 7x9 5x12 4x16 3x21 10x25"),
            (9, Prefer::Balance, "8x8 8x8 6x10 5x12 4x16 3x21 3x21"),
            (9, Prefer::Speed, "10x25 10x25 6x10 5x12 4x16 10x38 10x25"),
            (10, Prefer::Balance, "5x51 5x51 6x10 5x12 4x16 3x21 3x21"),
            (10, Prefer::Speed, "10x25 10x25 6x10 5x12 4x16 3x21 3x21"),
            (11, Prefer::Balance, "5x51 5x51 6x10 6x10 4x16 3x21 3x21"),
            (11, Prefer::Speed, "10x25 10x25 6x10 6x10 4x16 3x21 3x21"),
            (12, Prefer::Balance, "5x51 5x51 7x9 5x12 4x16 4x16 3x21"),
            (12, Prefer::Speed, "5x51 5x51 7x9 6x10 4x16 10x25 3x21"),
            (16, Prefer::Balance, "4x16 4x16 8x8 6x10 4x16 4x16 3x21"),
            (16, Prefer::Speed, "4x16 4x16 8x8 6x10 4x16 4x16 10x38"),
            (20, Prefer::Balance, "4x16 4x16 3x21 3x21 5x12 4x16 3x21"),
            (20, Prefer::Speed, "4x16 4x16 4x16 6x10 5x12 4x16 3x21"),
        ];
        _ = parallel::map(chosen.len(), |index| {
            let (distance, prefer, names) = chosen[index];
            for (documents, name) in sizes.into_iter().zip(names.split(' ')) {
                let all = plans_and_estimates(documents, distance, prefer, &[]);
                assert_eq!(
                    preferred(&all),
                    [name],
                    "{documents} documents at distance {distance}, {prefer:?}"
                );
            }
        });
    }

    /// With a size beyond all bounds, each plan seemed to take longer than any time that was thought of. So
    /// no plan was left, and the creation of a file panicked.
    #[test]
    fn one_plan_is_preferred_at_every_distance_and_size() {
        _ = parallel::map(65, |distance| {
            let distance = distance as u32;
            for documents in [0, 1, 100, 1_000_000, u64::MAX] {
                let all = plans_and_estimates(documents, distance, Prefer::Balance, &[]);
                let count = preferred(&all).len();
                assert_eq!(count, 1, "{documents} documents at distance {distance}");
            }
        });
    }

    #[test]
    fn more_documents_and_less_room_change_the_choice() {
        let chosen = |documents, prefer| {
            preferred(&plans_and_estimates(documents, 3, prefer, &[])).join(" ")
        };
        assert_eq!(chosen(1_000_000, Prefer::Balance), "4x16");
        assert_eq!(chosen(100_000_000, Prefer::Balance), "6x21");
        assert_eq!(chosen(100_000_000, Prefer::Space), "2x32");
        assert_ne!(chosen(10_000_000_000, Prefer::Speed), "6x21");
    }
}
