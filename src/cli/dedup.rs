//! `simdb dedup`: copies the records that are no near-duplicates of others, or lists the groups of near-duplicates.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::dedup::{Dedup, DedupEvent, DedupGroup, DedupStep, DedupTotals, GroupedRecord};
use crate::plural::counted;
use crate::{Error, ErrorKind, Scheme, SketchSize};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure, name_databases};
use super::arguments::{BoundArguments, Given as _, Reading, named_file, texts_unread};
use super::clusters::ClusterArguments;
use super::commands::Command;
use super::console::{Console, Progress};
use super::escaping::{path_text, printable};
use super::lists::Lists;
use super::output::{Output, add_name, name_fields};
use super::output_files::{are_same_file, ensure_apart, is_below};
use super::rejections::{Rejections, ensure_is_list};
use super::report::{Findings, SAMPLES};
use super::units::told_any;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Files, packed or not; directories, with all in them
    ///
    /// Files may be packed with gzip or zstd, and directories are read with all directories in them
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    /// Where the kept records go: a file, or a directory with a file for each input
    #[arg(long, short, value_name = "OUT", value_parser = named_file(), required_unless_present = "list")]
    output: Option<PathBuf>,

    /// Print the groups of near-duplicates instead, and write nothing
    #[arg(long, conflicts_with_all = ["output", "removed", "database", "again"])]
    list: bool,

    /// Write a line of JSON for each removed record to this file
    ///
    /// It tells where the record was, which record survived instead, and how near the two are
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    removed: Option<PathBuf>,

    /// Write an HTML page about the removed records to this file
    ///
    /// It shows how near they are to their survivors, and in which words they differ
    #[arg(long, value_name = "FILE", value_parser = named_file(), conflicts_with = "list")]
    report: Option<PathBuf>,

    /// Also remove what is near to this database, and store the rest in it
    ///
    /// It is created if it does not exist
    #[arg(long, value_name = "DB", value_parser = named_file())]
    database: Option<PathBuf>,

    /// Clean inputs again although their records are in the database already
    #[arg(long, requires = "database")]
    again: bool,

    /// Leave out the records that cannot be judged
    ///
    /// For example lines that are not JSON, or have no text
    #[arg(long, conflicts_with = "list")]
    drop_unjudged: bool,

    /// Keep all records, and add to each its group, the size of the group and its survivor
    ///
    /// They are fields of JSON Lines or columns of Parquet. By them, records can get weights instead of being removed
    #[arg(long, conflicts_with = "list")]
    annotate: bool,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    bounds: BoundArguments,

    #[command(flatten)]
    clusters: ClusterArguments,

    /// How fingerprints are made, or the scheme of those in the inputs
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,

    /// The size of the sketches, in bytes
    #[arg(long, value_name = "BYTES", value_enum)]
    sketch: Option<SketchSize>,

    /// Append the records that cannot be judged to this file too
    ///
    /// As JSON if `--json` is given
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    rejected: Option<PathBuf>,
}

impl Command for Arguments {
    fn run(&self, output: &mut Output) -> CommandResult {
        if let Some(rejected) = &self.rejected {
            let inputs = self.inputs.iter().map(PathBuf::as_path);
            ensure_apart(rejected, self.database.as_deref(), inputs)?;
            self.ensure_no_result(rejected)?;
            ensure_is_list(rejected, &output.console().place_of(rejected))?;
        }
        let report = DedupReport::new(output, self)?;
        let dedup = self.dedup(output.console(), &report.has_failed);
        match self.list {
            true => list(self, &dedup, report, output),
            false => clean(self, &dedup, report, output),
        }
    }

    fn ends_in_order(&self) -> bool {
        true
    }
}

fn list(
    arguments: &Arguments,
    dedup: &Dedup,
    mut report: DedupReport,
    output: &mut Output,
) -> CommandResult {
    let mut groups = 0u64;
    let mut listed = 0u64;
    let mut failed = None;
    let found = dedup.groups(
        |event| report.observe(&event),
        |group| {
            groups += 1;
            listed += group.records.len() as u64;
            print_group(output, &group);
            if output.is_full() {
                failed = output.flush().err();
            }
            match failed.is_some() || output.is_closed() {
                true => Err(Error::Interrupted),
                false => Ok(()),
            }
        },
    );
    let failed_input = report.finish()?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    if output.is_closed() && !output.console().is_ended() {
        // The reader has what it wanted.
        return Ok(Answer::Yes);
    }
    found.map_err(|error| arguments.explained(error, failed_input.as_deref(), dedup))?;
    output.flush()?;
    let duplicates = listed - groups;
    output.remark(&format!(
        "{} of near-duplicates with {}; cleaning would remove {duplicates} of them",
        counted(groups, "group"),
        counted(listed, "record")
    ));
    Ok(Answer::yes_unless(failed_input.is_some()))
}

/// Copies the records that survive.
fn clean(
    arguments: &Arguments,
    dedup: &Dedup,
    mut report: DedupReport,
    output: &mut Output,
) -> CommandResult {
    let cleaned = dedup.run(|event| report.observe(&event));
    let finished = report.finish();
    let failed_input = finished.as_ref().ok().cloned().flatten();
    let totals = match finished.and(cleaned) {
        Ok(totals) => totals,
        Err(error) => {
            complain_of_work(dedup, &error, output);
            return Err(arguments.explained(error, failed_input.as_deref(), dedup));
        }
    };
    print_totals(output, &totals, arguments.annotate);
    let judged_none = totals.records > 0 && totals.rejected == totals.records;
    if judged_none {
        let became = if arguments.drop_unjudged {
            "none was"
        } else {
            "all were"
        };
        output.complain(&format!("no record could be judged, so {became} copied"));
    }
    if totals.failed > 0 {
        output.complain(&format!(
            "{} could not be read to the end, and the output has nothing from there",
            counted(totals.failed, "input")
        ));
    }
    Ok(Answer::yes_unless(judged_none || totals.failed > 0))
}

/// Says where the work is that was done before an error.
fn complain_of_work(dedup: &Dedup, error: &Error, output: &Output) {
    let folder = dedup.work_folder();
    let is_of_another = matches!(error, Error::Output { path, .. } if *path == folder);
    let says_itself = match error {
        Error::Input { reason, .. } | Error::Output { reason, .. } => reason.contains("anew"),
        _ => false,
    };
    if folder.is_dir() && !is_of_another && !says_itself {
        let once = match error {
            Error::Interrupted => "",
            _ => "once the cause is gone, ",
        };
        output.complain(&format!(
            "what was done is in {}; {once}the same command goes on from there",
            folder.display()
        ));
    }
}

impl Arguments {
    /// Refuses a file for rejected records that is a result too, or in one. It would be made first, and stand where the
    /// result is to be.
    fn ensure_no_result(&self, rejected: &Path) -> Result<(), Failure> {
        let results = [&self.output, &self.removed, &self.report];
        for result in results.into_iter().flatten() {
            let reason = if are_same_file(rejected, result) {
                "two results cannot have the same name".to_owned()
            } else if is_below(rejected, result) {
                format!(
                    "it would be in {}, which this command makes",
                    result.display()
                )
            } else {
                continue;
            };
            let path = rejected.display();
            return Err(
                format!("{path}: {reason}; choose another file for the rejected records").into(),
            );
        }
        Ok(())
    }

    /// The cleaning. It stops if a report of it `has_failed`.
    fn dedup(&self, console: &Console, has_failed: &Arc<AtomicBool>) -> Dedup {
        let output = self.output.clone().unwrap_or_default();
        let console = console.clone();
        let has_failed = has_failed.clone();
        let mut dedup = Dedup::new(&self.inputs, output)
            .options(self.reading.options())
            .clustering(self.clusters.clustering(&self.bounds))
            .again(self.again)
            .drop_unjudged(self.drop_unjudged)
            .annotate(self.annotate)
            .stop_when(move || console.is_ended() || has_failed.load(Ordering::Relaxed))
            .given(self.database.as_ref(), Dedup::database)
            .given(self.removed.as_ref(), Dedup::removed);
        if let Some(report) = &self.report {
            let title = self.title();
            dedup = dedup.report(report, move |removals| {
                Ok(Findings::from_removals(title.clone(), removals, SAMPLES)?
                    .to_html()
                    .into_bytes())
            });
        }
        dedup
            .given(self.scheme, Dedup::scheme)
            .given(self.sketch, Dedup::sketch_size)
    }

    /// The error that ended a cleaning. If all inputs failed it is the first of theirs, which has been printed. Damage
    /// may be in the database that is given, or in that of the work, which has no lasting name for a list.
    fn explained(&self, error: Error, failed_input: Option<&str>, dedup: &Dedup) -> Failure {
        match failed_input {
            Some(printed) if error.to_string() == printed => {
                "no input can be read to its end, so there is nothing to compare".into()
            }
            _ if matches!(error.kind(), ErrorKind::Damaged | ErrorKind::Storage) => {
                let work = (!self.list).then(|| dedup.work_folder());
                let databases = [&self.database, &work].into_iter().flatten();
                name_databases(
                    error.into(),
                    &databases.map(|path| &**path).collect::<Vec<_>>(),
                )
            }
            _ => error.into(),
        }
    }

    fn title(&self) -> String {
        let mut title = "simdb dedup of ".to_owned();
        if let Some(first) = self.inputs.first() {
            title += &path_text(first);
        }
        if self.inputs.len() > 1 {
            title += &format!(" and {} more", self.inputs.len() - 1);
        }
        title
    }
}

/// Reports what happens while it happens.
struct DedupReport {
    console: Console,
    rejections: Rejections,
    lists: Lists,
    steps: Steps,
    /// What was printed of the first input that could not be read.
    failed_input: Option<String>,
    /// Whether something could not be reported. Then nothing of it is to be committed, so the cleaning stops.
    has_failed: Arc<AtomicBool>,
    failed: Option<Error>,
}

impl DedupReport {
    fn new(output: &Output, arguments: &Arguments) -> Result<Self, Failure> {
        let console = output.console().clone();
        let rejections =
            Rejections::with_file(&console, arguments.rejected.as_deref(), output.is_json())?;
        Ok(Self {
            steps: Steps::new(&console),
            lists: Lists::new(&console),
            console,
            rejections,
            failed_input: None,
            has_failed: Arc::default(),
            failed: None,
        })
    }

    fn observe(&mut self, event: &DedupEvent<'_>) {
        match event {
            DedupEvent::Rejected(rejected) => {
                // Before it is committed that the record was read.
                let added = self.rejections.add(rejected);
                if let Err(error) = added.and_then(|()| self.rejections.flush()) {
                    self.has_failed.store(true, Ordering::Relaxed);
                    self.failed.get_or_insert(error);
                }
            }
            DedupEvent::Failed { error, .. } => {
                self.steps.hide();
                let message = error.to_string();
                self.console.complain(&message);
                self.failed_input.get_or_insert(message);
            }
            DedupEvent::TextsUnread { field } => {
                self.steps.hide();
                self.console.complain(&texts_unread(field));
            }
            DedupEvent::List { path, lines } => {
                self.steps.hide();
                self.lists.add(path, *lines);
            }
            DedupEvent::Progress { step, done, all } => self.steps.show(*step, *done, *all),
        }
    }

    /// Reports what was left out. Returns what was printed of the first input that could not be read.
    fn finish(mut self) -> Result<Option<String>, Error> {
        self.steps.hide();
        if let Some(error) = self.failed {
            return Err(error);
        }
        self.rejections.finish()?;
        self.lists.finish();
        Ok(self.failed_input)
    }
}

/// Shows how far the steps of a cleaning or an audit are.
pub(super) struct Steps {
    console: Console,
    step: Option<(DedupStep, Progress)>,
}

impl Steps {
    pub(super) fn new(console: &Console) -> Self {
        Self {
            console: console.clone(),
            step: None,
        }
    }

    pub(super) fn show(&mut self, step: DedupStep, done: u64, all: u64) {
        if self.step.as_ref().is_none_or(|(shown, _)| *shown != step) {
            // The old one goes from the screen first.
            self.hide();
            let progress = self.console.progress_of(match step {
                DedupStep::Reading => "bytes read",
                DedupStep::Comparing => "parts compared",
                DedupStep::Writing => "bytes written",
                DedupStep::Storing => "documents stored",
            });
            self.step = Some((step, progress));
        }
        if let Some((_, progress)) = &self.step {
            _ = progress.update(done, Some(all));
        }
    }

    fn hide(&mut self) {
        self.step = None;
    }
}

fn print_totals(output: &mut Output, totals: &DedupTotals, annotates: bool) {
    let mut object = json!({
        "records": totals.records,
        "kept": totals.kept(),
        "removed": totals.removed,
        "removed_as_equal": totals.removed_as_equal,
        "removed_as_known": totals.removed_as_known,
        "too_short": totals.too_short,
        "rejected": totals.rejected,
        "kept_unjudged": totals.rejected - totals.dropped_unjudged,
        "dropped_unjudged": totals.dropped_unjudged,
        "failed_inputs": totals.failed,
        "seconds": totals.elapsed.as_secs_f64(),
    });
    if annotates {
        object["annotated"] = totals.annotated.into();
    }
    output.print_record(&object, &totals_line(totals, annotates));
}

/// What was done, without what did not happen.
fn totals_line(totals: &DedupTotals, annotates: bool) -> String {
    let removals = told_any(&[
        (totals.removed_as_equal, "with an equal fingerprint or text"),
        (totals.removed_as_known, "near to the database"),
    ]);
    let removals = match removals.is_empty() {
        true => String::new(),
        false => format!(" ({})", removals.join(", ")),
    };
    let kept = totals.kept();
    let removed = totals.removed;
    let mut parts = match annotates {
        true => vec![format!(
            "{kept} to keep, {}{removals}",
            counted(removed, "near-duplicate")
        )],
        false => vec![format!("{kept} kept, {removed} removed{removals}")],
    };
    let dropped = totals.dropped_unjudged;
    parts.extend(told_any(&[
        (totals.too_short, "too short to judge"),
        (totals.rejected - dropped, "kept unjudged"),
        (dropped, "dropped unjudged"),
    ]));
    if annotates {
        parts.push(format!("{} annotated", totals.annotated));
    }
    let records = counted(totals.records, "record");
    let seconds = totals.elapsed.as_secs_f64();
    format!("{records}: {}, {seconds:.2} s", parts.join(", "))
}

/// Prints a group as a heading and a line for each record, the survivor first.
fn print_group(output: &mut Output, group: &DedupGroup) {
    let mut records: Vec<&GroupedRecord> = group.records.iter().collect();
    records[..=group.survivor].rotate_right(1);
    if output.is_json() {
        let records: Vec<Value> = records.into_iter().map(record_object).collect();
        output.print_json(&json!({ "records": records }));
        return;
    }
    let farthest = records
        .iter()
        .map(|record| record.distance)
        .max()
        .unwrap_or(0);
    let count = records.len();
    let mut text = format!(
        "{}, at most {} from the first:",
        counted(count, "record"),
        counted(farthest, "bit")
    );
    for record in records {
        text += &format!("\n    {}", record_line(record));
    }
    output.print_lines(&text);
}

fn record_object(record: &GroupedRecord) -> Value {
    let mut object = name_fields("input", record.input.as_os_str().as_encoded_bytes());
    if let Some(number) = record.number {
        object["record"] = number.into();
    }
    if let Some(key) = &record.key {
        add_name(&mut object, "key", key);
    }
    object["distance"] = record.distance.into();
    object
}

fn record_line(record: &GroupedRecord) -> String {
    let path = path_text(&record.input);
    match (record.number, &record.key) {
        (None, _) => path.into_owned(),
        (Some(number), None) => format!("{path}:{number}"),
        (Some(number), Some(key)) => format!("{path}:{number}\t{}", printable(key)),
    }
}
