//! What `simdb ingest` tells: near-duplicates, rejected records, progress, totals and the largest groups.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use crate::ingest::{Event, Ingested, Progress, Records, Rejected, Resumed, Totals};
use crate::{Change, Database, Document, Error, Unit, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::answer::Failure;
use super::output::{
    Output, Verified, add_fingerprint, add_matches, key_fields, matches_line, name_fields,
    printable,
};
use super::rejections::{self, Rejections};
use super::verification::Verification;

/// What is told, and where.
#[derive(Clone, Copy)]
pub(super) struct Reporting<'a> {
    /// Whether every near-duplicate is printed on a terminal too.
    pub(super) print: bool,
    /// The file for rejected records.
    pub(super) rejected: Option<&'a Path>,
}

impl Reporting<'_> {
    /// Whether a summary takes the place of the lines, since nobody reads hundreds of thousands on a terminal.
    pub(super) fn is_summary(self, output: &Output) -> bool {
        !self.print && !output.is_json() && io::stdout().is_terminal()
    }
}

/// How many messages about inputs that were read before are printed.
const MOST_TOLD_INPUTS: u64 = 20;

/// Tells what happens while it happens.
pub(super) struct IngestReport<'o> {
    output: &'o mut Output,
    verification: Option<Arc<Verification>>,
    rejections: Rejections,
    bar: Bar,
    /// Whether near-duplicates are printed.
    prints: bool,
    told_inputs: u64,
    /// The inputs that were told as lists.
    told_lists: u64,
    /// The number of documents that are stored, once there was a commit.
    stored: Option<u64>,
    failed: Option<Failure>,
}

impl<'o> IngestReport<'o> {
    pub(super) fn new(
        output: &'o mut Output,
        records: &Records,
        verification: Option<&Arc<Verification>>,
        reporting: Reporting<'_>,
    ) -> Result<Self, Failure> {
        let rejections = Rejections::new(output.console(), reporting.rejected, output.is_json())?;
        Ok(Self {
            verification: verification.cloned(),
            rejections,
            bar: Bar::new(records.progress(), output.console().is_quiet()),
            prints: !reporting.is_summary(output),
            told_inputs: 0,
            told_lists: 0,
            stored: None,
            failed: None,
            output,
        })
    }

    /// Tells an event. Breaks if it cannot be told: what is not told is not to be committed.
    pub(super) fn observe(&mut self, event: &Event<'_>) -> ControlFlow<()> {
        let told = self.tell(event);
        self.failed = told.err().or(self.failed.take());
        if self.failed.is_some() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    fn tell(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        match event {
            Event::Duplicate { document, verdict } if self.prints => {
                let verified = self
                    .verification
                    .as_ref()
                    .map(|it| it.values_of_document(document, verdict.matches()));
                print_duplicate(
                    self.output,
                    document,
                    verdict,
                    verified.transpose()?.as_ref(),
                );
            }
            Event::Rejected(rejected) => {
                if self.output.is_json() {
                    self.output
                        .print(|| rejections::object(rejected), String::new);
                }
                let rejections = &mut self.rejections;
                self.bar.above(|| rejections.add(rejected))?;
            }
            Event::Failed { path, error, .. } => self.tell_failed(path, error),
            Event::Left(rejected) => self.tell_left(rejected),
            Event::List { path, lines } => self.tell_list(path, *lines),
            Event::Committed { totals } => {
                self.bar.update(totals);
                self.stored = Some(totals.inserted + totals.replaced);
            }
            Event::Source { path, resumed } => self.tell_source(path, *resumed),
            Event::Duplicate { .. } | Event::Reported => {}
        }
        // What is committed was printed before.
        if matches!(event, Event::Reported) {
            self.rejections.flush()?;
        }
        if matches!(event, Event::Reported) || self.output.is_full() {
            let output = &mut self.output;
            self.bar.above(|| output.flush())?;
        }
        Ok(())
    }

    fn tell_source(&mut self, path: &Path, resumed: Resumed) {
        self.told_inputs += 1;
        if self.told_inputs <= MOST_TOLD_INPUTS {
            let message = format!("{}: {}", path_text(path), words_of(resumed));
            self.bar.above(|| self.output.remark(&message));
        }
    }

    fn tell_list(&mut self, path: &Path, lines: u64) {
        self.told_lists += 1;
        if self.told_lists <= MOST_TOLD_INPUTS {
            let message = format!(
                "{}: is read as one document of {lines} short lines; `--input-format lines` makes each line a document",
                path_text(path)
            );
            self.bar.above(|| self.output.complain(&message));
        }
    }

    fn tell_failed(&mut self, path: &Path, error: &Error) {
        self.bar.above(|| self.output.complain(&error.to_string()));
        let Error::Input { line, reason, .. } = error else {
            return;
        };
        let object = || {
            let mut object = name_fields("input", path.as_os_str().as_encoded_bytes());
            object.insert("failed".to_owned(), reason.as_str().into());
            object.insert("line".to_owned(), (*line).into());
            Value::Object(object)
        };
        if self.output.is_json() {
            self.output.print(object, String::new);
        }
    }

    fn tell_left(&mut self, left: &Rejected) {
        let path = path_text(&left.path);
        let line = left.line.unwrap_or_default();
        let message = format!(
            "{path}, line {line}: the last line has no line end yet, and is no record; it is left for the next run ({})",
            left.reason
        );
        self.bar.above(|| self.output.complain(&message));
        let object = || {
            let mut object = name_fields("input", left.path.as_os_str().as_encoded_bytes());
            object.insert("left".to_owned(), left.reason.to_string().into());
            object.insert("line".to_owned(), line.into());
            Value::Object(object)
        };
        if self.output.is_json() {
            self.output.print(object, String::new);
        }
    }

    /// Tells what was left out. The error if something could not be told.
    pub(super) fn finish(mut self) -> Result<(), Failure> {
        self.bar.clear();
        self.rejections.flush()?;
        self.rejections.tell_others();
        if self.told_inputs > MOST_TOLD_INPUTS {
            let more = self.told_inputs - MOST_TOLD_INPUTS;
            self.output.remark(&format!(
                "{more} more inputs were read before; `simdb sources` lists them"
            ));
        }
        self.failed.map_or(Ok(()), Err)
    }

    /// The number of documents that were stored before an error.
    pub(super) fn stored(&self) -> Option<u64> {
        self.stored
    }
}

/// A path in a message.
fn path_text(path: &Path) -> Cow<'_, str> {
    printable(path.as_os_str().as_encoded_bytes())
}

/// How an input is read that was read before.
fn words_of(resumed: Resumed) -> &'static str {
    match resumed {
        Resumed::New => "is read for the first time",
        Resumed::Repeated => "is given more than once, and is read once",
        Resumed::PassedOver => {
            "was read to its end before, and is passed over; --again reads it once more"
        }
        Resumed::Continued => "goes on where its reading was stopped",
        Resumed::Grown => "has become longer since it was read; what is new is read",
        Resumed::Changed => {
            "has another content than when it was read before; it is read from its beginning"
        }
        Resumed::Again => "is read once more, from its beginning",
        Resumed::Failed => "could not be read before, and has not changed",
    }
}

fn print_duplicate(
    output: &mut Output,
    document: &Document,
    verdict: &Verdict,
    verified: Option<&Verified>,
) {
    output.print(
        || {
            let mut object = key_fields(Some(document.key()));
            add_fingerprint(&mut object, document.fingerprint());
            let verdict_name = match verdict.change() {
                Change::Inserted => "inserted",
                Change::Replaced(_) => "replaced",
                Change::Skipped => "skipped",
            };
            object.insert("verdict".to_owned(), verdict_name.into());
            if !verdict.deleted().is_empty() {
                let keys = verdict
                    .deleted()
                    .iter()
                    .map(|deleted| Value::Object(key_fields(Some(deleted.key()))));
                object.insert("deleted".to_owned(), keys.collect());
            }
            add_matches(&mut object, verdict.matches(), verified);
            Value::Object(object)
        },
        || {
            let what_was_done = match verdict.change() {
                Change::Skipped => ", skipped".to_owned(),
                _ if !verdict.deleted().is_empty() => {
                    format!(", deleted {}", verdict.deleted().len())
                }
                _ => String::new(),
            };
            let matches = matches_line(verdict.matches(), verified);
            format!(
                "{} is near {matches}{what_was_done}",
                printable(document.key())
            )
        },
    );
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

/// A number and what it counts, if there is any.
fn counted(number: u64, what: &str) -> String {
    if number > 0 {
        format!(", {number} {what}")
    } else {
        String::new()
    }
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
    let seconds = format!(", {:.2} s", now.elapsed.as_secs_f64());
    let inputs = counted(*unchanged, "inputs unchanged") + &counted(*failed, "inputs not read");
    let without_text = counted(without_text.unwrap_or_default() as u64, "without text");
    let is_nothing = is_same(now, &Totals::default());
    let mut lines = match is_nothing && unchanged + failed > 0 {
        true => format!("nothing new{inputs}{seconds}"),
        false => totals_line(now, unit) + &inputs + &without_text + &seconds,
    };
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

fn totals_line(totals: &Totals, unit: Unit) -> String {
    let units = match unit {
        Unit::Document => String::new(),
        unit => format!(", {} units ({unit})", totals.units),
    };
    let deleted = counted(totals.deleted, "deleted");
    let passed_over = counted(totals.passed_over, "passed over");
    let left = counted(totals.left, "left for the next run");
    format!(
        "{} documents{units}: {} near-duplicates, {} inserted, {} replaced, {} skipped{deleted}, {} too short, \
         {} rejected{passed_over}{left}",
        totals.documents,
        totals.duplicates,
        totals.inserted,
        totals.replaced,
        totals.skipped,
        totals.too_short,
        totals.rejected
    )
}

/// Prints what was done.
pub(super) fn print_ingested(
    output: &mut Output,
    ingested: &Ingested,
    unit: Unit,
    without_text: Option<usize>,
) {
    match output.is_json() {
        true => output.print(
            || ingested_object(ingested, unit, without_text),
            String::new,
        ),
        false => output.print_lines(&ingested_lines(ingested, unit, without_text)),
    }
}

/// How many groups a summary has, and the most postings that are read for them.
const GROUPS: usize = 5;
const MOST_READ: u64 = 1 << 22;

/// Prints the fingerprints that most documents have.
pub(super) fn print_largest_groups(
    output: &mut Output,
    database: &Database,
) -> Result<(), Failure> {
    let largest = database.snapshot()?.largest_groups(GROUPS, MOST_READ)?;
    let groups: Vec<_> = largest
        .groups
        .iter()
        .filter(|it| it.documents > 1)
        .collect();
    if !groups.is_empty() {
        output.print(
            || Value::Null,
            || "the largest groups of documents with one fingerprint:".to_owned(),
        );
    }
    for group in groups {
        let line = || format!("{:>10}  {}", group.documents, printable(&group.newest_key));
        output.print(|| Value::Null, line);
    }
    Ok(())
}

/// A progress bar on standard error. It is shown only on a terminal.
struct Bar {
    bar: ProgressBar,
    progress: Progress,
}

impl Bar {
    fn new(progress: Progress, is_quiet: bool) -> Self {
        if is_quiet {
            return Self {
                bar: ProgressBar::hidden(),
                progress,
            };
        }
        let (bar, template) = match progress.bytes_total() {
            Some(bytes) => (
                ProgressBar::new(bytes),
                "{wide_bar} {percent} %, {msg}, {eta} left",
            ),
            None => (ProgressBar::no_length(), "{spinner} {bytes}, {msg}"),
        };
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        bar.set_style(style);
        bar.set_message("reading");
        Self { bar, progress }
    }

    fn update(&self, totals: &Totals) {
        let rate = totals.documents as f64 / totals.elapsed.as_secs_f64().max(1e-3);
        self.bar.set_position(self.progress.bytes_read());
        self.bar.set_message(format!(
            "{} documents ({rate:.0}/s), {} near-duplicates",
            totals.documents, totals.duplicates
        ));
    }

    /// Hides the bar while `print` runs, so that the two do not mix.
    fn above<T>(&self, print: impl FnOnce() -> T) -> T {
        self.bar.suspend(print)
    }

    fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
