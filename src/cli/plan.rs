//! `simdb plan`: lists the plans for a number of documents, and the distances to choose from.

use std::path::{Path, PathBuf};

use crate::inspect::PlanEstimate;
use crate::sql::{SqlDialect, SqlJob, SqlWork};
use crate::{CreateOptions, Fingerprint, Prefer, Scheme, SketchSize};
use clap::ValueEnum;
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{Given as _, expected_documents, max_distance_parser};
use super::commands::Command;
use super::output::Output;
use super::units::{self, count, positive_count, told_bytes};
use super::uses::print_uses;
use super::verbs::Opening;

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
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
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

/// Prints a job in SQL.
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
    let mut job = SqlJob::new(arguments.expect, max_distance)
        .work(work)
        .ids(arguments.ids);
    if let Some(most) = arguments.most_of_key {
        job = job.most_of_key(most);
    }
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
