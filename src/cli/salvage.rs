//! `simdb salvage`: what a damaged database still has, in a new one.

use std::path::{Path, PathBuf};

use crate::plural::counted;
use crate::{CreateOptions, Database, SalvageOptions, SalvageReport, Scheme, SketchSize};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult};
use super::arguments::{Given as _, max_distance_parser, named_file, similarity_parser};
use super::commands::{Command, NOT_BUILT};
use super::output::Output;
use super::units;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The damaged database; it is only read
    #[arg(value_name = "DAMAGED", value_parser = named_file())]
    damaged: PathBuf,

    /// The new database file; it must not exist yet
    #[arg(value_name = "NEW", value_parser = named_file())]
    new: PathBuf,

    /// Take documents of earlier commits too, if the last commit is damaged or none is found
    ///
    /// Some of these documents may have been deleted or replaced since
    #[arg(long)]
    old: bool,

    /// The memory to sort with, at least some 30 MB
    #[arg(long, value_name = "BYTES", default_value = "256MiB")]
    #[arg(value_parser = units::bytes::<usize>, allow_negative_numbers = true)]
    memory: usize,

    #[command(flatten)]
    settings: Settings,
}

#[derive(clap::Args)]
#[command(next_help_heading = "If the damaged database does not tell its settings")]
struct Settings {
    /// Its scheme; the other settings are then those of `simdb create`, unless they are given
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,

    /// The plan of its tables, or another one
    #[arg(long, value_name = "NAME", requires = "scheme")]
    plan: Option<String>,

    /// Its max distance
    #[arg(
        long, value_name = "K", requires = "scheme", value_parser = max_distance_parser, allow_negative_numbers = true
    )]
    max_distance: Option<u32>,

    /// The bytes of its sketches
    #[arg(long, value_name = "BYTES", requires = "scheme", value_enum)]
    sketch: Option<SketchSize>,

    /// Its least similarity
    #[arg(long, value_name = "S", requires = "scheme", value_parser = similarity_parser, allow_negative_numbers = true)]
    min_similarity: Option<f64>,
}

impl Settings {
    fn options(&self) -> Option<CreateOptions> {
        Some(
            CreateOptions::new()
                .scheme(self.scheme?)
                .given(self.plan.as_ref(), CreateOptions::plan)
                .given(self.max_distance, CreateOptions::max_distance)
                .given(self.sketch, CreateOptions::sketch_size)
                .given(self.min_similarity, CreateOptions::min_similarity),
        )
    }
}

impl Command for Arguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        let options = SalvageOptions::new()
            .old(self.old)
            .memory_bytes(self.memory)
            .given(self.settings.options(), SalvageOptions::settings);
        let progress = output.console().progress();
        let report = Database::salvage(&self.damaged, &self.new, &options, progress.steps())?;
        drop(progress);
        if report.settings_found && self.settings.scheme.is_some() {
            output.complain(
                "the damaged database tells its settings, so the new one has them, and not those that were given",
            );
        }

        if output.is_json() {
            output.print_json(&as_object(&report));
        } else {
            for line in in_words(&report, &self.new) {
                output.print_line(&line);
            }
        }
        Ok(Answer::yes_unless(!report.is_whole()))
    }

    fn database(&self) -> Option<&Path> {
        Some(&self.damaged)
    }

    fn when_ended(&self) -> Option<&'static str> {
        Some(NOT_BUILT)
    }
}

fn as_object(report: &SalvageReport) -> Value {
    let mut missing = Vec::new();
    for range in &report.missing {
        missing.push(json!({
            "first": range.first,
            "last": range.last,
            "documents": range.documents,
        }));
    }
    let mut damaged = Vec::new();
    for range in &report.damaged_bytes {
        damaged.push(json!({"first": range.start, "last": range.end - 1}));
    }
    json!({
        "whole": report.is_whole(),
        "documents": report.documents,
        "expected": report.expected,
        "missing": missing,
        "old_documents": report.old_documents,
        "deletions_read": report.deletions_read,
        "last_commit_found": report.last_commit_found,
        "positions_kept": report.positions_kept,
        "damaged_bytes": damaged,
    })
}

/// The report, a line for each fact.
fn in_words(report: &SalvageReport, new: &Path) -> Vec<String> {
    let mut lines = Vec::new();
    let documents = report.documents;
    let new = new.display();
    lines.push(match report.expected {
        Some(expected) => format!("{new}: {documents} of {}", counted(expected, "document")),
        None => format!(
            "{new}: {}; how many there were is not known",
            counted(documents, "document")
        ),
    });
    for range in &report.missing {
        let first = range.first;
        let numbers = match range.last {
            Some(last) if last == first => format!("number {first}"),
            Some(last) => format!("numbers {first} to {last}"),
            None => format!("number {first} and greater"),
        };
        lines.push(match range.documents {
            Some(documents) => format!("missing: {}, {numbers}", counted(documents, "document")),
            None => format!("perhaps missing: documents with {numbers}"),
        });
    }
    if report.old_documents > 0 {
        lines.push(format!(
            "of earlier commits, and perhaps deleted or replaced since: {}",
            counted(report.old_documents, "document")
        ));
    }
    if !report.deletions_read {
        let fact =
            "the list of deletions cannot be read: some of these documents may have been deleted";
        lines.push(fact.to_owned());
    }
    if !report.last_commit_found {
        let fact = "it is not certain which commit was the last: these documents are of the newest that was found";
        lines.push(fact.to_owned());
    }
    if !report.positions_kept {
        let fact = "how far inputs were read is lost: `simdb ingest` reads them from the beginning";
        lines.push(fact.to_owned());
    }
    for range in &report.damaged_bytes {
        lines.push(format!(
            "damaged: bytes {} to {}",
            range.start,
            range.end - 1
        ));
    }
    if report.is_whole() {
        lines.push("nothing is missing".to_owned());
    }
    lines
}
