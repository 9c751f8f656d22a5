//! How the fingerprints are spread over the prefixes of the tables, as some queries meet them.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::findings::Section;
use super::parts::{Part, Table};
use crate::cli::console::Console;
use crate::cli::units::told_count;
use crate::inspect::FullPrefix;
use crate::plural::counted;
use crate::{Error, Query, Snapshot};

/// The prefixes that are listed.
const MOST_PREFIXES: usize = 5;
/// The queries that tell how the fingerprints are spread.
const QUERIES: usize = 100;
/// With fewer, a query is fast however the fingerprints are spread.
const FEW_CANDIDATES: f64 = 300.0;

/// How the fingerprints are spread over the prefixes of the tables.
#[derive(Default)]
pub(super) struct Spread {
    /// The stored fingerprints that were queried.
    queries: u64,
    /// By table. Empty if queries compare all fingerprints.
    tables: Vec<TableSpread>,
    /// The mean number of other fingerprints that a query meets and that are not near, and what it would be if
    /// fingerprints were evenly spread.
    others: f64,
    others_even: f64,
    fullest: Vec<FullPrefix>,
}

/// How many candidates a query meets in a table, in the mean, as an object of JSON has it too.
#[derive(Default, Serialize)]
struct TableSpread {
    table: usize,
    prefix_bits: u32,
    ranges: u64,
    /// If fingerprints were evenly spread.
    candidates_even: f64,
    /// As the stored fingerprints are spread.
    candidates_expected: f64,
    candidates: f64,
    most_candidates: u64,
}

impl Spread {
    /// Queries some stored fingerprints, and counts the candidates.
    pub(super) fn survey(
        snapshot: &Snapshot,
        max_distance: u32,
        fingerprints: u64,
        console: &Console,
    ) -> Result<Self, Error> {
        let fingerprints = fingerprints as f64;
        let mut spread = Self::default();
        // A table meets what is near only if it agrees on the probed prefix, so not each table does.
        let mut others = 0;
        for document in snapshot.sample(QUERIES)? {
            console.ensure_wanted()?;
            let Some(query) = Query::like(&document) else {
                continue;
            };
            let query = query.near(max_distance).limit(0);
            let (_, explanation) = snapshot.explain(&query)?;
            spread.queries += 1;
            spread
                .tables
                .resize_with(explanation.probes.len(), TableSpread::default);
            for (table, probes) in spread.tables.iter_mut().zip(&explanation.probes) {
                others += probes.candidates - probes.near;
                table.table = probes.table;
                table.prefix_bits = probes.prefix_bits;
                table.ranges = probes.ranges;
                table.candidates_even =
                    probes.ranges as f64 * fingerprints / 2f64.powi(probes.prefix_bits as i32);
                table.candidates_expected += probes.candidates_expected;
                table.candidates += probes.candidates as f64;
                table.most_candidates = table.most_candidates.max(probes.candidates);
            }
        }
        let queries = spread.queries.max(1) as f64;
        spread.others = others as f64 / queries;
        for table in &mut spread.tables {
            table.candidates_expected /= queries;
            table.candidates /= queries;
            spread.others_even += table.candidates_even;
        }
        for prefix in snapshot.fullest_prefixes(MOST_PREFIXES)?.prefixes {
            if prefix.rows > 1 && prefix.times_expected() >= 2.0 {
                spread.fullest.push(prefix);
            }
        }
        Ok(spread)
    }

    /// What the numbers mean.
    fn sentence(&self) -> String {
        let Self {
            queries,
            others,
            others_even,
            ..
        } = *self;
        if queries == 0 {
            return "The database has no fingerprints, so nothing was tried.".to_owned();
        }
        if self.tables.is_empty() {
            return "The database is so small that a query compares all of its fingerprints."
                .to_owned();
        }
        let counts = format!(
            "Queries for {} were tried. On average, a query compared {} that turned out not to be near. If all \
             fingerprints were random, it would be {}.",
            counted(told_count(queries), "stored fingerprint"),
            counted(told_count(others.round() as u64), "fingerprint"),
            told_count(others_even.round() as u64)
        );
        let meaning = match others / others_even {
            _ if others < FEW_CANDIDATES => "These are few, so queries are fast.",
            ..2.0 => "So the fingerprints are spread about as evenly as random ones.",
            ..10.0 => {
                "Texts that share words have fingerprints that share bits. So some more are usual, and queries take that \
                 much longer."
            }
            _ => {
                "Many fingerprints begin alike, and queries near these are slow. \
                 Mostly they are pages without content of their own, such as errors and log-ins, or texts that have \
                 a long part in common. The largest clusters show which texts these are."
            }
        };
        format!("{counts} {meaning}")
    }
}

impl Section for Spread {
    fn add_fields(&self, object: &mut Map<String, Value>) {
        let mut fullest = Vec::new();
        for prefix in &self.fullest {
            fullest.push(json!({
                "table": prefix.table,
                "prefix_bits": prefix.prefix_bits,
                "rows": prefix.rows,
                "expected": prefix.expected,
            }));
        }
        let spread = json!({
            "queries": self.queries,
            "others_met": self.others,
            "others_even": self.others_even,
            "tables": self.tables,
            "fullest_prefixes": fullest,
        });
        object.insert("spread".to_owned(), spread);
    }

    fn parts(&self) -> Vec<Part> {
        let mut parts = vec![Part::Heading("How the fingerprints are spread")];
        parts.push(Part::Paragraph(self.sentence()));
        if !self.tables.is_empty() {
            let mut table = Table::new([
                "table",
                "leading bits",
                "ranges",
                "candidates if evenly spread",
                "expected",
                "met",
                "most met",
            ]);
            for spread in &self.tables {
                table.add([
                    spread.table.to_string(),
                    spread.prefix_bits.to_string(),
                    told_count(spread.ranges),
                    format!("{:.1}", spread.candidates_even),
                    format!("{:.1}", spread.candidates_expected),
                    format!("{:.1}", spread.candidates),
                    told_count(spread.most_candidates),
                ]);
            }
            parts.push(Part::Table(table));
        }
        if !self.fullest.is_empty() {
            let text =
                "In these tables, many more fingerprints begin alike than random ones would:";
            parts.push(Part::Paragraph(text.to_owned()));
            let mut table =
                Table::new(["table", "leading bits", "fingerprints", "if evenly spread"]);
            for prefix in &self.fullest {
                table.add([
                    prefix.table.to_string(),
                    prefix.prefix_bits.to_string(),
                    told_count(prefix.rows),
                    format!("{:.2}", prefix.expected),
                ]);
            }
            parts.push(Part::Table(table));
        }
        parts
    }
}
