//! `simdb ingest`: reads documents, stores them and prints their near-duplicates.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ingest::{Event, Ingest, Progress, Records, Reread, Resumed, Totals};
use crate::{Change, CreateOptions, Database, Document, Error, OnMatch, Policy, Scheme, Unit, Verdict};
use clap::ValueEnum;
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{
    DatabaseArgument, Reading, SketchBytes, key_bytes, max_distance_parser, parse_scheme, similarity_parser,
};
use super::open::{answer_others, open_to_write};
use super::output::{
    Output, Verified, add_fingerprint, add_matches, complain, key_fields, matches_line, printable,
};
use super::verification::{Verification, VerifyArguments};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// The database file; created if it does not exist
    #[command(flatten)]
    pub(super) database: DatabaseArgument,

    /// Files to read, gzip or not; `-` is standard input
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// The distance, inclusive, at which documents match [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    max_distance: Option<u32>,

    /// The least similarity, 0 to 1, at which documents match [default: that of the database]
    #[arg(long, value_name = "S", value_parser = similarity_parser, allow_negative_numbers = true)]
    min_similarity: Option<f64>,

    /// The bytes of the sketches of a new database
    #[arg(long, value_name = "BYTES", value_enum)]
    sketch: Option<SketchBytes>,

    /// How many near-duplicates are printed for a document, nearest first
    #[arg(long, value_name = "N", default_value_t = 10, allow_negative_numbers = true)]
    limit: usize,

    /// What to do with a document that has near-duplicates
    #[arg(long, value_enum, default_value_t, value_name = "ACTION")]
    on_duplicate: OnDuplicate,

    /// When a document is not stored because it has near-duplicates, its nearest counts as seen when it was
    /// seen, if that is later
    #[arg(long)]
    touch: bool,

    /// How many documents are committed together
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = RangedU64ValueParser::<usize>::new().range(1..),
        allow_negative_numbers = true
    )]
    batch: usize,

    /// Read inputs once more that were read to their end before; others go on where they stopped
    #[arg(long, conflicts_with = "restart")]
    again: bool,

    /// Read all inputs from their beginning, whatever was read of them before
    #[arg(long)]
    restart: bool,

    /// The name by which the input is known again [default: its path; none for standard input, which then is
    /// read anew each time]
    #[arg(long, value_name = "NAME")]
    source: Option<OsString>,

    /// The scheme of a new database, or of the fingerprints in the input
    #[arg(long, value_name = "NAME", value_parser = parse_scheme)]
    scheme: Option<Scheme>,

    #[command(flatten)]
    verify: VerifyArguments,

    /// Stop at the first bad record
    #[arg(long)]
    strict: bool,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum OnDuplicate {
    /// Store it and print its near-duplicates
    #[default]
    Link,
    /// Do not store it
    Skip,
    /// Store it and delete its near-duplicates if its rank is above theirs, otherwise do not store it
    Replace,
}

pub(super) fn run(arguments: &Arguments, output: &mut Output) -> CommandResult {
    let mut records = Records::open(&arguments.inputs, arguments.reading.options())?;
    arguments.verify.check(&arguments.reading, arguments.inputs.iter(), output.console())?;
    let database = open_or_create(arguments, &mut records)?;
    let _socket = answer_others(&database, output.console());
    let verification = arguments.verify.open(&arguments.reading, &database, output.console())?;
    let ingest = arguments.ingest(&database, verification.as_ref());
    let bar = Bar::new(records.progress());
    let mut stored = None;
    let mut failed: Option<Failure> = None;
    let ingested = ingest.run(records, |event| {
        match event {
            Event::Duplicate { document, verdict } => {
                let verified =
                    verification.as_ref().map(|it| it.values_of_document(document, verdict.matches()));
                match verified.transpose() {
                    Ok(verified) => print_duplicate(output, document, verdict, verified.as_ref()),
                    Err(error) => failed = Some(error),
                }
            }
            Event::Rejected(rejected) => bar.above(|| complain(&format!("rejected: {rejected}"))),
            Event::Committed { totals } => {
                bar.update(totals);
                stored = Some(totals.inserted + totals.replaced);
            }
            Event::Source { path, resumed } => {
                bar.above(|| complain(&format!("{}: {}", path.display(), words_of(resumed))));
            }
            Event::Reported => {}
        }
        // What is committed has been printed before. If it could not be, it is not committed.
        if matches!(event, Event::Reported) || output.is_full() {
            failed = bar.above(|| output.flush()).err().map(Failure::from).or(failed.take());
        }
        if failed.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    bar.clear();
    let totals = ingested.inspect_err(|_| {
        if let Some(stored) = stored {
            complain(&format!(
                "{stored} documents were stored before this; the same command can be run again"
            ));
        }
    })?;
    if let Some(error) = failed {
        return Err(error);
    }
    let unit = arguments.reading.unit();
    let without_text = verification.map(|it| it.complain_of_missing());
    output.print(|| totals_object(&totals, unit, without_text), || totals_line(&totals, unit, without_text));
    Ok(Answer::Yes)
}

/// How an input is read that was read before.
fn words_of(resumed: Resumed) -> &'static str {
    match resumed {
        Resumed::New => "is read for the first time",
        Resumed::PassedOver => "was read to its end before, and is passed over; --again reads it once more",
        Resumed::Continued => "goes on where its reading was stopped",
        Resumed::Grown => "has become longer since it was read; what is new is read",
        Resumed::Changed => "has another content than when it was read before; it is read from its beginning",
        Resumed::Again => "is read once more, from its beginning",
    }
}

impl Arguments {
    fn ingest<'d>(&self, database: &'d Database, verification: Option<&Arc<Verification>>) -> Ingest<'d> {
        let on_match = match self.on_duplicate {
            OnDuplicate::Link => OnMatch::Link,
            OnDuplicate::Skip => OnMatch::Skip,
            OnDuplicate::Replace => OnMatch::Replace,
        };
        let mut policy = Policy::new(on_match).limit(self.limit).touch(self.touch);
        if let Some(max_distance) = self.max_distance {
            policy = policy.max_distance(max_distance);
        }
        if let Some(min_similarity) = self.min_similarity {
            policy = policy.min_similarity(min_similarity);
        }
        if let Some(verification) = verification.cloned() {
            policy = policy.verify(move |document, stored| verification.matches_document(document, stored));
        }
        let mut ingest = Ingest::new(database).policy(policy).batch(self.batch).strict(self.strict);
        if let Some(verification) = verification.cloned() {
            ingest = ingest.on_text(move |document, text| verification.keep(document, text));
        }
        if let Some(name) = &self.source {
            ingest = ingest.source_name(key_bytes(name));
        }
        let reread = match (self.again, self.restart) {
            (_, true) => Reread::All,
            (true, _) => Reread::Ended,
            (false, false) => Reread::Nothing,
        };
        ingest = ingest.reread(reread);
        match self.scheme {
            Some(scheme) => ingest.scheme(scheme),
            None => ingest,
        }
    }
}

fn open_or_create(arguments: &Arguments, records: &mut Records) -> Result<Database, Error> {
    let path: &Path = &arguments.database.database;
    match open_to_write(path) {
        Err(Error::NotFound { .. }) => {}
        opened => return opened,
    }
    let scheme = match arguments.scheme {
        Some(scheme) => scheme,
        None => records.suitable_scheme()?,
    };
    let mut options = CreateOptions::new().scheme(scheme);
    if let Some(max_distance) = arguments.max_distance {
        options = options.max_distance(max_distance);
    }
    if let Some(min_similarity) = arguments.min_similarity {
        options = options.min_similarity(min_similarity);
    }
    if let Some(bytes) = arguments.sketch {
        options = options.sketch_size(bytes.into());
    }
    Database::create(path, &options)
}

fn print_duplicate(output: &mut Output, document: &Document, verdict: &Verdict, verified: Option<&Verified>) {
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
                let keys =
                    verdict.deleted().iter().map(|deleted| Value::Object(key_fields(Some(deleted.key()))));
                object.insert("deleted".to_owned(), keys.collect());
            }
            add_matches(&mut object, verdict.matches(), verified);
            Value::Object(object)
        },
        || {
            let what_was_done = match verdict.change() {
                Change::Skipped => ", skipped".to_owned(),
                _ if !verdict.deleted().is_empty() => format!(", deleted {}", verdict.deleted().len()),
                _ => String::new(),
            };
            let matches = matches_line(verdict.matches(), verified);
            format!("{} is near {matches}{what_was_done}", printable(document.key()))
        },
    );
}

fn totals_object(totals: &Totals, unit: Unit, without_text: Option<usize>) -> Value {
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
    if unit != Unit::Document {
        object["units"] = totals.units.into();
    }
    if let Some(without_text) = without_text {
        object["without_text"] = without_text.into();
    }
    object
}

fn totals_line(totals: &Totals, unit: Unit, without_text: Option<usize>) -> String {
    let units = match unit {
        Unit::Document => String::new(),
        unit => format!(", {} units ({unit})", totals.units),
    };
    let deleted = if totals.deleted > 0 { format!(", {} deleted", totals.deleted) } else { String::new() };
    let without_text = without_text.filter(|&it| it > 0).map(|it| format!(", {it} without text"));
    let without_text = without_text.unwrap_or_default();
    format!(
        "{} documents{units}: {} near-duplicates, {} inserted, {} replaced, {} skipped{deleted}, {} too short, \
         {} rejected{without_text}, {:.2} s",
        totals.documents,
        totals.duplicates,
        totals.inserted,
        totals.replaced,
        totals.skipped,
        totals.too_short,
        totals.rejected,
        totals.elapsed.as_secs_f64()
    )
}

/// A progress bar on standard error. It is shown only on a terminal.
struct Bar {
    bar: ProgressBar,
    progress: Progress,
}

impl Bar {
    fn new(progress: Progress) -> Self {
        let (bar, template) = match progress.bytes_total() {
            Some(bytes) => (ProgressBar::new(bytes), "{wide_bar} {percent} %, {msg}, {eta} left"),
            None => (ProgressBar::no_length(), "{spinner} {bytes}, {msg}"),
        };
        let style = ProgressStyle::with_template(template).expect("the template is a constant");
        bar.set_style(style);
        bar.set_message("reading");
        bar.enable_steady_tick(std::time::Duration::from_millis(200));
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
