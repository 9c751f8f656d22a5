//! `simdb ingest`: reads documents, stores them and prints their near-duplicates.

use std::ffi::OsString;
use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use clap::builder::{NonEmptyStringValueParser, TypedValueParser as _};

use super::answer::{Answer, CommandResult, Failure};
use super::arguments::{BoundArguments, Given as _, Reading, named_file, texts_unread};
use super::console::Console;
use super::ingest_report::{IngestReport, print_ingested, print_largest_groups};
use super::output::Output;
use super::output_files::{are_same_file, is_below, is_no_file};
use super::rejections::ensure_is_list;
#[cfg(unix)]
use super::remote::ensure_not_removed;
use super::units::{count, positive_count};
use super::verbs::{self, LiveDatabase, Opening, Verb};
use super::verification::{Verification, VerifyArguments};
use crate::ingest::{Ingest, Ingested, ReadOptions, Records, Reread};
use crate::plural::counted;
use crate::{CreateOptions, Database, Error, OnMatch, Policy, Scheme, Server, SketchSize};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    /// Files, packed or not; directories, with all in them; `-` is standard input
    ///
    /// Files may be packed with gzip or zstd, and directories are read with all directories in them
    #[arg(required = true, value_name = "INPUT")]
    inputs: Vec<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    #[command(flatten)]
    bounds: BoundArguments,

    /// The bytes of a sketch in a new database
    ///
    /// A database that exists must have sketches of this size
    #[arg(long, value_name = "BYTES", value_enum)]
    sketch: Option<SketchSize>,

    /// Print at most N near-duplicates of a document
    ///
    /// The nearest come first
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = count::<usize>, allow_negative_numbers = true)]
    limit: usize,

    /// What to do with a document that has near-duplicates
    #[arg(long, value_enum, default_value_t, value_name = "ACTION")]
    on_duplicate: OnMatch,

    /// Store up to N near documents; needs skip or replace
    ///
    /// A document is stored if fewer than N stored documents are near to it; needs `--on-duplicate skip` or
    /// `replace`
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1,
        value_parser = positive_count::<usize>,
        allow_negative_numbers = true
    )]
    keep: usize,

    /// If a document is not stored, count it as a repeat of its nearest stored one
    ///
    /// The `repeats` of the stored one grow by 1. Its time becomes that of the new document, if that is later
    #[arg(long)]
    touch: bool,

    /// How many documents are committed together
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10_000,
        value_parser = positive_count::<usize>,
        allow_negative_numbers = true
    )]
    batch: usize,

    /// Read inputs again that were read to their end before
    ///
    /// Inputs that were read in part are continued
    #[arg(long, conflicts_with = "restart")]
    again: bool,

    /// Read all inputs from their beginning
    #[arg(long)]
    restart: bool,

    /// The name by which the next run knows the input [default: its path]
    ///
    /// Without a name, standard input is read from its beginning each time
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new().map(OsString::from))]
    source: Option<OsString>,

    /// The scheme of a new database, or of the fingerprints in the input
    #[arg(long, value_name = "NAME")]
    scheme: Option<Scheme>,

    #[command(flatten)]
    verify: VerifyArguments,

    /// Stop at the first bad record or unreadable input
    #[arg(long)]
    strict: bool,

    /// Print every near-duplicate on a terminal too, instead of a summary
    #[arg(long)]
    print: bool,

    /// Append rejected records to this file
    ///
    /// As JSON if `--json` is given
    #[arg(long, value_name = "FILE", value_parser = named_file())]
    rejected: Option<PathBuf>,
}

impl Verb for Arguments {
    fn opening(&self) -> Opening {
        Opening::Write
    }

    fn inputs(&self) -> Vec<&Path> {
        let inputs = self.inputs.iter().map(PathBuf::as_path);
        inputs.chain(self.verify.texts()).collect()
    }

    /// Ingests into a database that is there.
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        let began = Instant::now();
        let records = self.records(output)?;
        database.ensure_created_with(&self.options())?;
        let server = match output.console().is_of_client() {
            // The process that answers goes on.
            true => None,
            false => answer_others(database, output.console()),
        };
        let work = self.ingest(database, records, began, output);
        self.report(work, false, database, server, output)
    }

    fn run_alone(&self, output: &mut Output) -> Option<CommandResult> {
        Some(self.run_here_or_ask(output))
    }

    fn cannot_open(&self, error: Error, output: &mut Output) -> CommandResult {
        #[cfg(unix)]
        let is_found_by_socket = self.database.socket.is_some();
        #[cfg(not(unix))]
        let is_found_by_socket = false;
        match error {
            // Another process had created it, and took it away again since it had nothing to store.
            Error::NotFound { .. } if !is_found_by_socket => self.run_here_or_ask(output),
            error => Err(error.into()),
        }
    }
}

/// An ingestion that has ended, well or not.
struct Work {
    outcome: Result<Ingested, Failure>,
    verification: Option<Arc<Verification>>,
    can_resume: bool,
    /// The time before the first record was read.
    prepared: Duration,
}

impl Arguments {
    /// Creates the database if there is none. If another process has it open, asks that one.
    fn run_here_or_ask(&self, output: &mut Output) -> CommandResult {
        #[cfg(unix)]
        if self.database.socket.is_some() {
            return verbs::run(&self.database, self, output);
        }
        let began = Instant::now();
        #[cfg(unix)]
        ensure_not_removed(
            &self.database.path,
            &output.console().place_of(&self.database.path),
        )?;
        let mut records = self.records(output)?;
        let (database, is_new) = match open_or_create(self, &mut records, output) {
            Err(Error::Busy { .. }) => return verbs::run(&self.database, self, output),
            opened => opened?,
        };
        let mut server = answer_others(&database, output.console());
        let work = self.ingest(&database, records, began, output);
        let has_nothing = is_new && has_come_to_nothing(&work.outcome);
        if has_nothing {
            // What others have stored until then is kept.
            let_others_end(server.take(), output);
        }
        if has_nothing && database.snapshot()?.stats()?.documents == 0 {
            // While it is open, nobody else can write to it.
            let removed = fs::remove_file(&self.database.path);
            drop(database);
            if removed.is_err() {
                // Windows keeps the names of open files.
                _ = fs::remove_file(&self.database.path);
            }
            let ingested = work.outcome?;
            output.console().ensure_wanted()?;
            output.complain(match ingested.now.rejected {
                0 => "the inputs have no records, so no database was created",
                _ => "none of the records could be stored, so no database was created",
            });
            return Ok(Answer::CouldNotTell);
        }
        self.report(work, is_new, &database, server, output)
    }

    /// The records of the inputs, which are not read yet.
    fn records(&self, output: &Output) -> Result<Records, Failure> {
        self.ensure_used()?;
        let console = output.console();
        // It may be in a directory that is read.
        let own = console.place_of(&self.database.path);
        let options = self.reading.options().leave_out(own);
        let name = self.source.as_ref().map(|name| name.as_encoded_bytes());
        let options = options.given(name, ReadOptions::source_name);
        let records = console.records(&self.inputs, options)?;
        self.ensure_rejected_apart(&records, output.console())?;
        self.verify
            .check(&self.reading, self.inputs.iter(), output.console())?;
        Ok(records)
    }

    fn ingest(
        &self,
        database: &Database,
        records: Records,
        began: Instant,
        output: &mut Output,
    ) -> Work {
        let opened = self.verify.open(&self.reading, database, output.console());
        let prepared = began.elapsed();
        let can_resume = self.source.is_some() || !any_pipe(records.paths(), output);
        let (outcome, verification) = match opened {
            Err(error) => (Err(error), None),
            Ok(verification) => {
                let of = verification.as_ref();
                let outcome = ingest(self, database, records, of, can_resume, output);
                (outcome, verification)
            }
        };
        Work {
            outcome,
            verification,
            can_resume,
            prepared,
        }
    }

    /// Prints what was done, and lets others end who are being answered.
    fn report(
        &self,
        work: Work,
        is_new: bool,
        database: &Database,
        server: Option<Server>,
        output: &mut Output,
    ) -> CommandResult {
        let mut ingested = work.outcome?;
        let failed = took_no_document(&ingested, is_new);
        ingested.now.elapsed += work.prepared;
        let verification = work.verification;
        let without_text = verification.map(|verification| verification.complain_of_missing());
        print_ingested(output, &ingested, self.reading.unit(), without_text);
        let_others_end(server, output);
        if output.console().is_ended() {
            return Err(stopped(work.can_resume, output));
        }
        if self.is_summary(output) {
            print_largest_groups(output, database)?;
        }
        Ok(Answer::yes_unless(failed || ingested.failed > 0))
    }
}

/// Lets commands of others end that are being answered, and nobody else in.
fn let_others_end(server: Option<Server>, output: &Output) {
    let Some(server) = server else { return };
    if server.is_answering() {
        output.remark("waiting for the commands of others that are being answered");
    }
    server.close_when_answered();
}

/// Answers commands of others about a database while the returned value lives, or until this process is to end. Without
/// it, the work goes on.
#[cfg(unix)]
fn answer_others(database: &Database, console: &Console) -> Option<Server> {
    let reason = match database.serve() {
        Ok(server) => {
            let console = console.clone();
            return Some(server.stop_when(move || console.is_ended()));
        }
        Err(Error::AlreadyExists { path }) => {
            format!("{}: is in the way of the socket", path.display())
        }
        Err(error) => Error::with_causes(&error),
    };
    console.complain(&format!(
        "no other command can be answered until this one ends: {reason}"
    ));
    None
}

#[cfg(not(unix))]
fn answer_others(_: &Database, _: &Console) -> Option<Server> {
    None
}

/// Whether a run has come to nothing in a database that it has created. That stays only if others have stored
/// something.
fn has_come_to_nothing(outcome: &Result<Ingested, Failure>) -> bool {
    match outcome {
        Ok(ingested) => took_no_document(ingested, true),
        Err(_) => true,
    }
}

/// Whether a run took none of the documents that it was given: records were there and all rejected, or the database is
/// new and nothing at all was there.
fn took_no_document(ingested: &Ingested, is_new: bool) -> bool {
    let now = &ingested.now;
    now.documents == 0 && (now.rejected > 0 || (is_new && now.passed_over == 0))
}

fn stopped(can_resume: bool, output: &Output) -> Failure {
    output.complain(match can_resume {
        true => "stopped; what was read is stored, and the same command goes on from there",
        false => {
            "stopped; what was read is stored; the next run reads a pipe from its beginning, unless --source gives it a name"
        }
    });
    Error::Interrupted.into()
}

/// Whether an input can be read only once, so that nobody knows how far it was read.
fn any_pipe(inputs: &[PathBuf], output: &Output) -> bool {
    let console = output.console();
    inputs
        .iter()
        .any(|path| *path == *"-" || is_no_file(&console.place_of(path)))
}

fn ingest(
    arguments: &Arguments,
    database: &Database,
    records: Records,
    verification: Option<&Arc<Verification>>,
    can_resume: bool,
    output: &mut Output,
) -> Result<Ingested, Failure> {
    let console = output.console().clone();
    let ingest = arguments.ingest_settings(database, verification);
    let prints = !arguments.is_summary(output);
    let rejected = arguments.rejected.as_deref();
    let mut report = IngestReport::new(output, &records, verification, prints, rejected)?;
    let ingested = ingest
        .stop_when(move || console.is_ended())
        .run(records, |event| report.observe(&event));
    let stored = report.finish()?;
    if let Some((stored, error)) = stored.zip(ingested.as_ref().err()) {
        let how = match error {
            _ if !can_resume => "",
            Error::Input { .. } => "; without --strict, the same command goes on from there",
            Error::Removed { .. } => ", in the file that was removed",
            _ => "; once the cause is gone, the same command goes on from there",
        };
        let documents = counted(stored, "document");
        output.complain(&format!("{documents} had been stored before this{how}"));
    }
    Ok(ingested?)
}

impl Arguments {
    /// Refuses to touch what would never be touched, and to keep some where all are kept.
    fn ensure_used(&self) -> Result<(), Failure> {
        if self.on_duplicate != OnMatch::Link {
            return Ok(());
        }
        if self.touch {
            return Err(
                "--touch is for `--on-duplicate skip` and `--on-duplicate replace`: by default every document is \
                 stored, and nothing is touched"
                    .into(),
            );
        }
        if self.keep > 1 {
            return Err(
                "--keep is for `--on-duplicate skip` and `--on-duplicate replace`: by default every document is \
                 stored, however many are near to it"
                    .into(),
            );
        }
        Ok(())
    }

    /// The options that a database keeps for ever. An existing one must have been created with the same. The distance
    /// and the similarity are not among them: they are those of the queries too.
    fn options(&self) -> CreateOptions {
        CreateOptions::new()
            .given(self.sketch, CreateOptions::sketch_size)
            .given(self.scheme, CreateOptions::scheme)
    }

    fn options_of_new(
        &self,
        records: &mut Records,
        output: &Output,
    ) -> Result<CreateOptions, Error> {
        let options = match self.scheme {
            Some(_) => self.options(),
            None => self.options().scheme(records.suitable_scheme()?),
        };
        if let Some(field) = records.instead_of_texts() {
            output.complain(&texts_unread(field));
        }
        Ok(options
            .given(self.bounds.max_distance, CreateOptions::max_distance)
            .given(self.bounds.min_similarity, CreateOptions::min_similarity))
    }

    /// Refuses to write rejected records into the database or an input.
    fn ensure_rejected_apart(&self, records: &Records, console: &Console) -> Result<(), Failure> {
        let Some(rejected) = &self.rejected else {
            return Ok(());
        };
        let path = rejected.display();
        let place = console.place_of(rejected);
        if are_same_file(&place, &console.place_of(&self.database.path)) {
            return Err(
                format!("{path}: rejected records cannot be written into the database").into(),
            );
        }
        // In a folder that is an input it would be read the next time, unless names are chosen or this one is hidden.
        let is_hidden = |part| matches!(part, Component::Normal(name) if name.as_encoded_bytes().starts_with(b"."));
        let is_read_later = self.reading.takes_all_names()
            && !rejected.components().any(is_hidden)
            && self
                .inputs
                .iter()
                .any(|input| is_below(&place, &console.place_of(input)));
        let texts = self.verify.texts().map(Path::to_owned);
        let mut inputs = records.paths().iter().chain(&texts);
        match is_read_later || inputs.any(|input| are_same_file(&place, &console.place_of(input))) {
            true => Err(format!(
                "{path}: is one of the inputs, and rejected records cannot be written into these; choose a file \
                 elsewhere, or leave this one out with --glob"
            )
            .into()),
            // Before the database is created, to which a link may lead.
            false => Ok(ensure_is_list(rejected, &place)?),
        }
    }

    /// Whether a summary takes the place of the lines, since nobody reads hundreds of thousands on a terminal.
    fn is_summary(&self, output: &Output) -> bool {
        let is_asked = output.console().is_of_client();
        !self.print && !output.is_json() && !is_asked && io::stdout().is_terminal()
    }

    fn ingest_settings<'d>(
        &self,
        database: &'d Database,
        verification: Option<&Arc<Verification>>,
    ) -> Ingest<'d> {
        let mut policy = Policy::new(self.on_duplicate)
            .near(&self.bounds)
            .limit(self.limit)
            .keep(self.keep)
            .touch(self.touch);
        if let Some(verification) = verification.cloned() {
            policy = policy.verify(move |document, stored| {
                let text = verification.text_of(document)?;
                verification.matches(text.as_deref(), stored)
            });
        }
        let mut ingest = Ingest::new(database)
            .policy(policy)
            .batch(self.batch)
            .strict(self.strict);
        if let Some(verification) = verification.cloned() {
            ingest = ingest.on_text(move |document, text| verification.keep(document, text));
        }
        let reread = match (self.again, self.restart) {
            (_, true) => Reread::All,
            (true, _) => Reread::Ended,
            (false, false) => Reread::Nothing,
        };
        ingest.given(self.scheme, Ingest::scheme).reread(reread)
    }
}

/// The database, and whether it is new.
///
/// The first records may be read to know which database to create. If another process has created it meanwhile, what
/// was read of a pipe cannot be given to that one. Then this waits until it has closed the database.
fn open_or_create(
    arguments: &Arguments,
    records: &mut Records,
    output: &Output,
) -> Result<(Database, bool), Error> {
    const PAUSE: Duration = Duration::from_millis(40);
    const MOST_CREATIONS: usize = 25;
    let path = &*arguments.database.path;
    let mut options = None;
    let mut creations = 0;
    let mut is_told = false;
    loop {
        match Opening::Write.open(path) {
            Err(Error::NotFound { .. }) => {
                let options = match &options {
                    Some(options) => options,
                    None => options.insert(arguments.options_of_new(records, output)?),
                };
                creations += 1;
                match Database::create(path, options) {
                    // Somebody else has created it meanwhile.
                    Err(Error::AlreadyExists { .. }) if creations < MOST_CREATIONS => {}
                    created => return Ok((created?, true)),
                }
            }
            Err(Error::Busy { .. }) if options.is_some() && any_pipe(records.paths(), output) => {
                if !is_told {
                    is_told = true;
                    output.remark(
                        "another process has created the database just now; waiting until it has closed it",
                    );
                }
            }
            opened => {
                let opened = opened?;
                opened.ensure_created_with(&arguments.options())?;
                return Ok((opened, false));
            }
        }
        output.console().ensure_wanted()?;
        thread::sleep(PAUSE);
    }
}
