//! What `simdb ingest` prints: near-duplicates, rejected records, progress, totals and the largest groups.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::ingest::{self, Event, Ingested, Records, Rejected, Resumed, Totals};
use crate::plural::counted;
use crate::{Change, Database, Document, Error, Unit, Verdict};
use serde_json::{Value, json};

use super::answer::Failure;
use super::console::{Progress, break_if};
use super::escaping::{path_text, printable};
use super::lists::Lists;
use super::match_list::MatchList;
use super::output::{Output, add_fingerprint, key_fields, name_fields};
use super::rejections::{self, Rejections};
use super::units::told_any;
use super::verification::Verification;

/// How many messages about inputs that were read before are printed.
const MOST_INPUT_MESSAGES: u64 = 20;

/// Reports what happens while it happens.
pub(super) struct IngestReport<'o> {
    output: &'o mut Output,
    verification: Option<Arc<Verification>>,
    rejections: Rejections,
    progress: Progress,
    read: ingest::Progress,
    /// Whether near-duplicates are printed.
    prints: bool,
    /// The inputs that were read before.
    known_inputs: u64,
    lists: Lists,
    /// The number of documents that are stored, once there was a commit.
    stored: Option<u64>,
    failed: Option<Failure>,
}

impl<'o> IngestReport<'o> {
    /// A report that prints near-duplicates if `prints`, and writes rejected records to the file at `rejected`.
    pub(super) fn new(
        output: &'o mut Output,
        records: &Records,
        verification: Option<&Arc<Verification>>,
        prints: bool,
        rejected: Option<&Path>,
    ) -> Result<Self, Failure> {
        let rejections = Rejections::with_file(output.console(), rejected, output.is_json())?;
        let read = records.progress();
        let progress = output.console().progress_of("bytes");
        _ = progress.update(0, read.bytes_total());
        Ok(Self {
            verification: verification.cloned(),
            rejections,
            progress,
            read,
            prints,
            known_inputs: 0,
            lists: Lists::new(output.console()),
            stored: None,
            failed: None,
            output,
        })
    }

    /// Reports an event. Breaks if that fails: what is not reported is not to be committed.
    pub(super) fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        if let Err(error) = self.report(event) {
            self.failed = Some(error);
        }
        break_if(self.failed.is_some())
    }

    fn report(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        match event {
            Event::Duplicate { document, verdict } if self.prints => {
                self.print_duplicate(document, verdict)?;
            }
            Event::Rejected(rejected) => {
                if self.output.is_json() {
                    self.output.print_json(&rejections::object(rejected));
                }
                self.rejections.add(rejected)?;
            }
            Event::Failed { path, error, .. } => self.report_failed(path, error),
            Event::Left(rejected) => self.report_left(rejected),
            Event::List { path, lines } => self.lists.add(path, *lines),
            Event::Committed { totals } => {
                self.show(totals);
                self.stored = Some(totals.inserted + totals.replaced);
            }
            Event::Source { path, resumed } => self.report_known(path, *resumed),
            Event::Waiting => {
                let remark = "another ingestion reads one of these inputs; waiting for its end";
                self.output.remark(remark);
            }
            Event::Duplicate { .. } | Event::Reported => {}
        }
        // What is committed was printed before.
        if matches!(event, Event::Reported) {
            self.rejections.flush()?;
        }
        if matches!(event, Event::Reported) || self.output.is_full() {
            self.output.flush()?;
        }
        Ok(())
    }

    /// Shows how much is read, and what it was.
    fn show(&mut self, totals: &Totals) {
        let rate = totals.documents as f64 / totals.elapsed.as_secs_f64().max(1e-3);
        let what = format!(
            "bytes, {} ({rate:.0}/s), {}",
            counted(totals.documents, "document"),
            counted(totals.duplicates, "near-duplicate")
        );
        let read = &self.read;
        // Whether anybody wants more is asked by the ingestion.
        _ = self
            .progress
            .update_as(read.bytes_read(), read.bytes_total(), what);
    }

    fn report_known(&mut self, path: &Path, resumed: Resumed) {
        self.known_inputs += 1;
        if self.known_inputs <= MOST_INPUT_MESSAGES {
            let message = format!("{}: {}", path_text(path), resumed_text(resumed));
            self.output.remark(&message);
        }
    }

    fn report_failed(&mut self, path: &Path, error: &Error) {
        self.output.complain(&error.to_string());
        if let Error::Input { line, reason, .. } = error {
            self.print_input("input", path, reason, *line);
        }
    }

    fn report_left(&mut self, left: &Rejected) {
        let path = path_text(&left.path);
        let reason = left.reason.to_string();
        self.output.complain(&match left.line {
            Some(line) => format!(
                "{path}, line {line}: the last line has no line end yet, and is no record; it is left for the next \
                 run ({reason})"
            ),
            None => format!("{left}; it is left for the next run"),
        });
        self.print_input("left", &left.path, &reason, left.line);
    }

    /// Prints an object about a line of an input, if JSON was asked for.
    fn print_input(&mut self, kind: &str, input: &Path, reason: &str, line: Option<u64>) {
        if self.output.is_json() {
            let mut object = name_fields("input", input.as_os_str().as_encoded_bytes());
            object["reason"] = reason.into();
            object["kind"] = kind.into();
            object["line"] = line.into();
            self.output.print_json(&object);
        }
    }

    fn print_duplicate(&mut self, document: &Document, verdict: &Verdict) -> Result<(), Failure> {
        let matches = verdict.matches();
        let list = match &self.verification {
            Some(verification) => {
                let text = verification.text_of(document)?;
                verification.list(text.as_deref(), matches)?
            }
            None => MatchList::new(matches),
        };
        if self.output.is_json() {
            let object = duplicate_object(document, verdict, &list);
            self.output.print_json(&object);
            return Ok(());
        }
        let key = printable(document.key());
        let mut line = format!("{key} is near {}", list.line());
        if matches!(verdict.change(), Change::Skipped) {
            line += ", skipped";
        } else if !verdict.deleted().is_empty() {
            line += &format!(", deleted {}", verdict.deleted().len());
        }
        self.output.print_line(&line);
        Ok(())
    }

    /// Reports what was left out. Returns the number of documents that are stored, once there was a commit. The error
    /// if something could not be reported.
    pub(super) fn finish(mut self) -> Result<Option<u64>, Failure> {
        drop(self.progress);
        self.rejections.finish()?;
        if self.known_inputs > MOST_INPUT_MESSAGES {
            let more = self.known_inputs - MOST_INPUT_MESSAGES;
            self.output.remark(&format!(
                "{} had been read before; `simdb sources` lists all",
                counted(more, "more input")
            ));
        }
        self.lists.finish();
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.stored),
        }
    }
}

/// How an input is read that was read before.
fn resumed_text(resumed: Resumed) -> &'static str {
    match resumed {
        Resumed::New => "is read for the first time",
        Resumed::Repeated => "is given more than once, and is read once",
        Resumed::PassedOver => {
            "was read to its end before, and is not read again; --again does that"
        }
        Resumed::Continued => "goes on where its reading was stopped",
        Resumed::Grown => "has become longer since it was read; what is new is read",
        Resumed::Changed => "has changed since it was read; it is read from its beginning",
        Resumed::Again => "is read once more, from its beginning",
        Resumed::Failed => "could not be read before, and has not changed",
    }
}

fn duplicate_object(document: &Document, verdict: &Verdict, list: &MatchList<'_>) -> Value {
    let mut object = key_fields(Some(document.key()));
    add_fingerprint(&mut object, document.fingerprint());
    let change = match verdict.change() {
        Change::Inserted => "inserted",
        Change::Replaced(_) => "replaced",
        Change::Skipped => "skipped",
    };
    object["verdict"] = change.into();
    let mut deleted = Vec::new();
    for document in verdict.deleted() {
        deleted.push(key_fields(Some(document.key())));
    }
    if !deleted.is_empty() {
        object["deleted_documents"] = deleted.into();
    }
    list.add_fields(&mut object);
    object
}

fn totals_object(totals: &Totals, unit: Unit) -> Value {
    let mut object = json!({
        "documents": totals.documents,
        "inserted": totals.inserted,
        "replaced": totals.replaced,
        "skipped": totals.skipped,
        "deleted": totals.deleted,
        "duplicates": totals.duplicates,
        "too_short": totals.too_short,
        "rejected": totals.rejected,
        "seconds": totals.elapsed.as_secs_f64(),
    });
    if totals.passed_over > 0 {
        object["passed_over"] = totals.passed_over.into();
    }
    if totals.left > 0 {
        object["left"] = totals.left.into();
    }
    if unit != Unit::Document {
        object["units"] = totals.units.into();
    }
    object
}

fn ingested_object(ingested: &Ingested, unit: Unit, without_text: Option<usize>) -> Value {
    let mut object = totals_object(&ingested.now, unit);
    object["unchanged_inputs"] = ingested.unchanged.into();
    object["failed_inputs"] = ingested.failed.into();
    if let Some(without_text) = without_text {
        object["without_text"] = without_text.into();
    }
    object["in_all"] = totals_object(&ingested.in_all, unit);
    object
}

/// What was read now, and what the inputs hold in all if that is more.
fn ingested_lines(ingested: &Ingested, unit: Unit, without_text: Option<usize>) -> String {
    let Ingested {
        now,
        in_all,
        unchanged,
        failed,
        ..
    } = ingested;
    let is_nothing = is_same(now, &Totals::default()) && unchanged + failed > 0;
    let mut parts = match is_nothing {
        true => vec!["nothing new".to_owned()],
        false => vec![totals_line(now, unit)],
    };
    for (inputs, what) in [(unchanged, "unchanged"), (failed, "not read")] {
        if *inputs > 0 {
            parts.push(format!("{} {what}", counted(inputs, "input")));
        }
    }
    if !is_nothing {
        let without_text = without_text.unwrap_or_default() as u64;
        parts.extend(told_any(&[(without_text, "without text")]));
    }
    parts.push(format!("{:.2} s", now.elapsed.as_secs_f64()));
    let mut lines = parts.join(", ");
    if !is_same(now, in_all) {
        lines += &format!("\nin all: {}", totals_line(in_all, unit));
    }
    lines
}

/// Whether totals are the same but for the time.
fn is_same(a: &Totals, b: &Totals) -> bool {
    let mut without_time = *a;
    without_time.elapsed = b.elapsed;
    without_time == *b
}

/// What was done with documents, without what did not happen.
fn totals_line(totals: &Totals, unit: Unit) -> String {
    let documents = counted(totals.documents, "document");
    let units = match unit {
        Unit::Document => String::new(),
        unit => format!(", {}", counted(totals.units, &unit.to_string())),
    };
    let mut parts = vec![
        counted(totals.duplicates, "near-duplicate"),
        format!("{} inserted", totals.inserted),
    ];
    parts.extend(told_any(&[
        (totals.replaced, "replaced"),
        (totals.skipped, "skipped"),
        (totals.deleted, "deleted"),
        (totals.too_short, "too short to judge"),
        (totals.rejected, "rejected"),
        (totals.passed_over, "passed over"),
        (totals.left, "left for the next run"),
    ]));
    format!("{documents}{units}: {}", parts.join(", "))
}

pub(super) fn print_ingested(
    output: &mut Output,
    ingested: &Ingested,
    unit: Unit,
    without_text: Option<usize>,
) {
    match output.is_json() {
        true => output.print_json(&ingested_object(ingested, unit, without_text)),
        false => output.print_lines(&ingested_lines(ingested, unit, without_text)),
    }
}

/// How many groups a summary has, and the most postings that are read for them.
const GROUPS: usize = 5;
const MOST_READ: u64 = 1 << 22;

pub(super) fn print_largest_groups(
    output: &mut Output,
    database: &Database,
) -> Result<(), Failure> {
    let largest = database.snapshot()?.largest_groups(GROUPS, MOST_READ)?;
    let mut heading = Some(
        "the largest groups of documents with the same fingerprint, each with its newest key:",
    );
    for group in &largest.groups {
        if group.documents > 1 {
            if let Some(heading) = heading.take() {
                output.print_line(heading);
            }
            let key = printable(&group.newest_key);
            output.print_line(&format!("{:>10}  {key}", group.documents));
        }
    }
    Ok(())
}
