//! `simdb plan`: lists the plans for a number of documents, and the distances to choose from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{Given as _, expected_documents, max_distance_parser};
use super::commands::Command;
use super::output::Output;
use super::units::{self, count, positive_count, told_bytes};
use super::verbs::Opening;
use crate::inspect::PlanEstimate;
use crate::sql::{SqlDialect, SqlJob, SqlWork};
use crate::{CreateOptions, Fingerprint, Prefer, Scheme, SketchSize};

/// The options by which plans are chosen, which a job in SQL has no use for. Each of its options has to exclude them:
/// clap does not ask for an option that is required and excluded.
const OF_PLANS: [&str; 6] = [
    "sample",
    "prefer",
    "max_file",
    "max_memory",
    "sketch",
    "scheme",
];

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The largest distance at which documents are to match [default: that of `create`]
    #[arg(long, value_name = "K", value_parser = max_distance_parser, allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// How fingerprints are made from texts; `external` if they are made elsewhere
    #[arg(long, value_name = "NAME", default_value_t)]
    scheme: Scheme,

    /// The size of the sketch of each document, in bytes [default: 16; 0 for external]
    #[arg(long, value_name = "BYTES", value_enum)]
    sketch: Option<SketchSize>,

    /// How many documents there will be
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    #[arg(value_parser = expected_documents, allow_negative_numbers = true)]
    expect: u64,

    /// What the tables are chosen for
    #[arg(long, value_name = "WHAT", value_enum, default_value_t)]
    prefer: Prefer,

    /// Only plans whose files have at most this size, such as 1GB; keys and payloads are not counted
    #[arg(long, value_name = "BYTES", value_parser = units::bytes::<u64>, allow_negative_numbers = true)]
    max_file: Option<u64>,

    /// Only plans whose tables take at most so much memory, such as 64MiB
    #[arg(long, value_name = "BYTES", value_parser = units::bytes::<u64>, allow_negative_numbers = true)]
    max_memory: Option<u64>,

    /// Expect fingerprints that are spread as unevenly as those of this database
    #[arg(long, value_name = "DB")]
    sample: Option<PathBuf>,

    /// Print a job in SQL that finds all near fingerprints in Parquet files, for Apache Spark or DuckDB
    #[arg(long, value_name = "DIALECT", value_enum)]
    #[arg(conflicts_with_all = OF_PLANS)]
    emit: Option<SqlDialect>,

    /// What the job joins
    #[arg(
        long,
        value_name = "JOB",
        value_enum,
        default_value_t,
        requires = "emit",
        conflicts_with_all = OF_PLANS
    )]
    job: Job,

    /// How many queries there are, with `--job probe`
    #[arg(long, value_name = "N", default_value_t = 1_000_000, requires = "emit")]
    #[arg(conflicts_with_all = OF_PLANS)]
    #[arg(value_parser = count::<u64>, allow_negative_numbers = true)]
    queries: u64,

    /// Let the job write the ids of documents beside their fingerprints
    ///
    /// Each exported file counts its documents from 0
    #[arg(long, requires = "emit", conflicts_with_all = OF_PLANS)]
    ids: bool,

    /// Divide keys with more than N fingerprints further [default: 2000, or four times the expected number]
    #[arg(long, value_name = "N", requires = "emit")]
    #[arg(conflicts_with_all = OF_PLANS)]
    #[arg(value_parser = positive_count::<u64>, allow_negative_numbers = true)]
    most_of_key: Option<u64>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum Job {
    /// All documents with each other
    #[default]
    #[value(name = "self")]
    SelfJoin,
    /// A small set of queries with all documents, which stay where they are
    Probe,
}

/// The number of documents to sample. It is large enough to show how unevenly the fingerprints are spread.
const SAMPLE: u64 = 500_000;

impl Command for Arguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        if let Some(dialect) = self.emit {
            return emit(self, dialect, output);
        }
        let options = CreateOptions::new()
            .scheme(self.scheme)
            .expected_documents(self.expect)
            .prefer(self.prefer)
            .given(self.max_distance, CreateOptions::max_distance)
            .given(self.sketch, CreateOptions::sketch_size);
        let sample = match &self.sample {
            Some(path) => sample(path)?,
            None => Vec::new(),
        };
        let plans = options.plans(&sample);
        // If the preferred plan does not fit, the largest plan that fits comes nearest to it.
        let preferred = plans
            .iter()
            .position(|plan| plan.preferred && self.fits(plan));
        let taken = preferred.or(plans.iter().rposition(|plan| self.fits(plan)));
        if !output.is_json() {
            output.print_line(&line_of(&HEADINGS.map(str::to_owned)));
        }
        let documents = self.expect as f64;
        for (index, plan) in plans.iter().enumerate() {
            let taken = taken == Some(index);
            let line = line(plan, documents, taken, self.fits(plan));
            output.print_record(&object(plan, documents, taken), &line);
        }
        // Who names a distance has chosen.
        if self.max_distance.is_none() {
            print_uses(output, &options, self.expect);
        }
        Ok(Answer::yes_if(taken.is_some()))
    }
}

impl Arguments {
    /// Whether the files and the tables of a plan are no larger than wanted.
    fn fits(&self, plan: &PlanEstimate) -> bool {
        let documents = self.expect as f64;
        let file = plan.document_bytes * documents;
        let memory = plan.cached_bytes * documents;
        self.max_file.is_none_or(|most| file <= most as f64)
            && self.max_memory.is_none_or(|most| memory <= most as f64)
    }
}

fn emit(arguments: &Arguments, dialect: SqlDialect, output: &mut Output) -> CommandResult {
    if output.is_json() {
        return Err("--emit prints SQL, so it cannot be used with --json".into());
    }
    let max_distance = arguments
        .max_distance
        .ok_or("--emit needs a distance: give --max-distance, for example 3")?;
    let work = match arguments.job {
        Job::SelfJoin => SqlWork::SelfJoin,
        Job::Probe => SqlWork::Probe {
            queries: arguments.queries,
        },
    };
    let job = SqlJob::new(arguments.expect, max_distance)
        .work(work)
        .ids(arguments.ids)
        .given(arguments.most_of_key, SqlJob::most_of_key);
    let Some(text) = job.text(dialect) else {
        return Err(format!(
            "at distance {max_distance} no tables help, and the fingerprints are too many to compare each with each: \
             give a smaller distance"
        )
        .into());
    };
    output.print_text(&text);
    Ok(Answer::Yes)
}

/// The fingerprints of every n-th document, without repeats.
fn sample(path: &Path) -> Result<Vec<Fingerprint>, Failure> {
    let database = Opening::Read.open(path)?;
    let snapshot = database.snapshot()?;
    let step = (snapshot.stats()?.documents / SAMPLE).max(1) as usize;
    let mut sample = Vec::new();
    for document in snapshot.documents().step_by(step) {
        sample.extend(document?.fingerprint());
    }
    sample.sort_unstable();
    sample.dedup();
    Ok(sample)
}

const HEADINGS: [&str; 8] = [
    "plan",
    "tables",
    "the paper's",
    "bytes/document",
    "file",
    "memory",
    "candidates",
    "us/query",
];

fn line(plan: &PlanEstimate, documents: f64, taken: bool, fits: bool) -> String {
    let cells = [
        plan.plan.clone(),
        plan.tables.to_string(),
        match plan.tables_in_the_paper {
            0 => "-".to_owned(),
            tables => tables.to_string(),
        },
        format!("{:.1}", plan.document_bytes),
        told_bytes(plan.document_bytes * documents),
        told_bytes(plan.cached_bytes * documents),
        format!("{:.1}", plan.candidates),
        format!("{:.2}", plan.query.as_secs_f64() * 1e6),
    ];
    let remark = match (taken, fits) {
        (true, _) if plan.preferred => "  taken",
        (true, _) => "  taken: the largest that fits",
        (_, false) => "  too large",
        _ => "",
    };
    line_of(&cells) + remark
}

/// One line of the listing. Cells are right-aligned in columns as wide as the headings.
fn line_of(cells: &[String; 8]) -> String {
    let mut line = String::new();
    for (index, (cell, heading)) in cells.iter().zip(HEADINGS).enumerate() {
        let between = if index > 0 { "  " } else { "" };
        line += &format!("{between}{cell:>width$}", width = heading.len().max(8));
    }
    line
}

fn object(plan: &PlanEstimate, documents: f64, taken: bool) -> Value {
    json!({
        "plan": plan.plan,
        "tables": plan.tables,
        "tables_in_the_paper": plan.tables_in_the_paper,
        "prefix_bits": plan.prefix_bits,
        "document_bytes": plan.document_bytes,
        "file_bytes": (plan.document_bytes * documents) as u64,
        "memory_bytes": (plan.cached_bytes * documents) as u64,
        "candidates": plan.candidates,
        "query_us": plan.query.as_secs_f64() * 1e6,
        "taken": taken,
    })
}

// Which distance and which similarity serve which use: what each choice was measured to find.

/// A choice of scheme, sketch, distance and similarity, and what it finds. docs/benchmarks.md says how it was
/// measured.
struct Choice {
    purpose: &'static str,
    scheme: Scheme,
    sketch_bytes: u32,
    max_distance: u32,
    /// 0 without sketches.
    min_similarity: f64,
    /// The share (%) that is found of the pairs with an exact Jaccard similarity of 0.9 or more, 0.8 to 0.9, 0.7 to
    /// 0.8, and 0.5 to 0.7.
    found: [f64; 4],
    /// The share (%) that is found of the copies of documents in which 1, 2, 5 and 10 % of the words were changed here
    /// and there.
    found_of_changed: [f64; 4],
    /// The number of unrelated documents of a hundred million within the distance. Their sketches are read.
    others: f64,
}

const CHOICES: [Choice; 9] = [
    Choice {
        purpose: "near-duplicates of pages, news and documents",
        scheme: Scheme::Minwise1,
        sketch_bytes: 16,
        max_distance: 8,
        min_similarity: 0.7,
        found: [100.0, 96.7, 68.6, 8.5],
        found_of_changed: [99.9, 99.0, 45.8, 1.2],
        others: 0.0,
    },
    Choice {
        purpose: "the same, and hardly one missed; slower",
        scheme: Scheme::Minwise1,
        sketch_bytes: 16,
        max_distance: 10,
        min_similarity: 0.7,
        found: [100.0, 98.9, 77.9, 12.0],
        found_of_changed: [99.9, 99.2, 49.8, 1.5],
        others: 0.0,
    },
    Choice {
        purpose: "texts that share half of their words in order",
        scheme: Scheme::Minwise1,
        sketch_bytes: 16,
        max_distance: 12,
        min_similarity: 0.5,
        found: [100.0, 100.0, 98.7, 59.3],
        found_of_changed: [100.0, 100.0, 98.4, 44.9],
        others: 20.0,
    },
    Choice {
        purpose: "the smallest file, mostly copies",
        scheme: Scheme::Minwise1,
        sketch_bytes: 0,
        max_distance: 5,
        min_similarity: 0.0,
        found: [99.7, 80.0, 41.6, 6.3],
        found_of_changed: [99.3, 94.7, 47.4, 5.7],
        others: 0.0,
    },
    Choice {
        purpose: "the smallest and fastest file, hardly more than copies",
        scheme: Scheme::Minwise1,
        sketch_bytes: 0,
        max_distance: 3,
        min_similarity: 0.0,
        found: [96.9, 51.9, 14.0, 1.4],
        found_of_changed: [94.4, 75.0, 18.4, 1.0],
        others: 0.0,
    },
    Choice {
        purpose: "simhash, with sketches",
        scheme: Scheme::Simhash2,
        sketch_bytes: 16,
        max_distance: 10,
        min_similarity: 0.7,
        found: [99.9, 93.9, 62.5, 7.6],
        found_of_changed: [99.9, 98.0, 42.4, 1.2],
        others: 0.0,
    },
    Choice {
        purpose: "simhash, in the smallest file",
        scheme: Scheme::Simhash2,
        sketch_bytes: 0,
        max_distance: 5,
        min_similarity: 0.0,
        found: [94.4, 49.0, 19.1, 2.5],
        found_of_changed: [91.3, 68.8, 19.8, 2.0],
        others: 0.0,
    },
    Choice {
        purpose: "simhash with votes on all bits, with sketches",
        scheme: Scheme::Simhash1,
        sketch_bytes: 16,
        max_distance: 10,
        min_similarity: 0.7,
        found: [99.6, 97.8, 73.9, 13.1],
        found_of_changed: [99.9, 99.2, 50.7, 1.7],
        others: 2_100.0,
    },
    Choice {
        purpose: "simhash with votes on all bits, as in the papers",
        scheme: Scheme::Simhash1,
        sketch_bytes: 0,
        max_distance: 3,
        min_similarity: 0.0,
        found: [77.0, 30.4, 11.8, 2.6],
        found_of_changed: [85.3, 70.6, 37.3, 13.5],
        others: 0.0,
    },
];

/// Prints the choices, for as many documents as these options expect.
fn print_uses(output: &mut Output, options: &CreateOptions, documents: u64) {
    if !output.is_json() {
        output.print_line("");
        output.print_line(HEADING);
    }
    // To choose tables takes some tenths of a second.
    let mut query_us = BTreeMap::new();
    for choice in &CHOICES {
        let others = choice.others * documents as f64 / 1e8;
        let query_us = *query_us.entry(choice.max_distance).or_insert_with(|| {
            let plans = options.clone().max_distance(choice.max_distance).plans(&[]);
            plans
                .iter()
                .find(|plan| plan.preferred)
                .map_or(0.0, |plan| plan.query.as_secs_f64() * 1e6)
        });
        let line = choice.line(others, query_us);
        output.print_record(&choice.object(others, query_us), &line);
    }
}

const HEADING: &str = "scheme     sketch  distance  similarity   0.9-1  0.8-0.9  0.7-0.8  0.5-0.7  2% words  \
                       5% words  10% words  others  us/query  use";

/// The share (%) that is found of the copies of documents in which 2, 5 and 10 % of the words were changed here and
/// there. `None` if it was not measured for these settings.
pub(super) fn found_of_changed(
    scheme: Scheme,
    sketch_size: SketchSize,
    max_distance: u32,
    min_similarity: f64,
) -> Option<[f64; 3]> {
    for choice in &CHOICES {
        let is_chosen = choice.scheme == scheme
            && choice.max_distance == max_distance
            && choice.min_similarity == min_similarity
            && (choice.sketch_bytes as usize == sketch_size.bytes() || min_similarity == 0.0);
        if is_chosen {
            let [_, found @ ..] = choice.found_of_changed;
            return Some(found);
        }
    }
    None
}

impl Choice {
    fn line(&self, others: f64, query_us: f64) -> String {
        let similarity = match self.sketch_bytes {
            0 => "-".to_owned(),
            _ => self.min_similarity.to_string(),
        };
        let [first, second, third, fourth] = self.found.map(|share| format!("{share:.1}%"));
        let [_, two, five, ten] = self.found_of_changed.map(|share| format!("{share:.1}%"));
        let others = if others < 0.5 {
            "0".to_owned()
        } else {
            format!("{others:.0}")
        };
        format!(
            "{:<9}  {:>6}  {:>8}  {similarity:>10}  {first:>6}  {second:>7}  {third:>7}  {fourth:>7}  {two:>8}  \
             {five:>8}  {ten:>9}  {others:>6}  {query_us:>8.2}  {}",
            self.scheme.to_string(),
            self.sketch_bytes,
            self.max_distance,
            self.purpose
        )
    }

    fn object(&self, others: f64, query_us: f64) -> Value {
        json!({
            "use": self.purpose,
            "scheme": self.scheme.to_string(),
            "sketch_bytes": self.sketch_bytes,
            "max_distance": self.max_distance,
            "min_similarity": self.min_similarity,
            "found_percent": self.found,
            "found_of_changed_percent": self.found_of_changed,
            "others": others,
            "query_us": query_us,
        })
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;
    use crate::Database;

    /// The figures of docs/benchmarks.md in the row of some name, behind its first cell.
    fn row(name: &str) -> Vec<String> {
        let rows = include_str!("../../docs/benchmarks.md").lines();
        let mut rows = rows.filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
        let found = rows.find(|(first, _)| first.replace("**", "") == name);
        let cells = found.map(|(_, cells)| cells.trim_end_matches('|').split('|'));
        cells
            .expect(name)
            .map(|cell| cell.trim().to_owned())
            .collect()
    }

    /// They were told twice, and only one of them was measured anew.
    #[test]
    fn what_is_found_is_as_the_benchmarks_tell_it() {
        for choice in CHOICES.iter().filter(|choice| choice.sketch_bytes > 0) {
            let name = format!("`{}`, {}", choice.scheme, choice.max_distance);
            let column = ((0.7 - choice.min_similarity) * 10.0).round() as usize;
            let cell = &row(&name)[column];
            let shares = cell.split(',').next().unwrap_or_default().split(" / ");
            let shares: Vec<f64> = shares.map_while(|share| share.parse().ok()).collect();
            assert_eq!(shares, choice.found, "{name}");
        }
    }

    /// Whoever changes a default measures what it finds.
    #[test]
    fn what_the_defaults_find_was_measured() -> crate::Result<()> {
        let folder = tempdir().expect("a temporary folder can be made");
        for (scheme, sketch_size) in [
            (Scheme::Minwise1, SketchSize::Bytes16),
            (Scheme::Minwise1, SketchSize::None),
            (Scheme::Simhash2, SketchSize::Bytes16),
            (Scheme::Simhash2, SketchSize::None),
            (Scheme::Simhash1, SketchSize::None),
        ] {
            let options = CreateOptions::new().scheme(scheme).sketch_size(sketch_size);
            let path = folder
                .path()
                .join(format!("{scheme}-{}", sketch_size.bytes()));
            let database = Database::create(path, &options)?;
            let least = database.min_similarity().unwrap_or(0.0);
            let distance = database.max_distance();
            let found = found_of_changed(scheme, sketch_size, distance, least);
            assert!(
                found.is_some(),
                "{scheme}, {sketch_size:?}, {distance}, {least}"
            );
        }
        let of_corpora = found_of_changed(Scheme::Minwise1, SketchSize::Bytes16, 10, 0.7);
        assert!(of_corpora.is_some());
        let unknown = found_of_changed(Scheme::Minwise1, SketchSize::Bytes16, 9, 0.7);
        assert!(unknown.is_none());
        Ok(())
    }
}
