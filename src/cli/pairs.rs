//! `simdb pairs`: prints all pairs of near documents, of one database, or of a database and another or an input.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::answer::{Answer, CommandResult, Failure, cannot_keep, name_databases};
use super::arguments::{NearArguments, Reading};
use super::console::LongSearch;
use super::lists::Lists;
use super::output::{Output, add_name};
use super::output_files::ensure_replaceable;
use super::pair_output::{PairArguments, PairLines, Sides, Sink};
use super::rejections::Rejections;
use super::verbs::{LiveDatabase, Opening, Verb};
use crate::ingest::{Fingerprinting, ReadOptions, Record};
use crate::plural::counted;
use crate::{
    CreateOptions, Database, Document, Error, ErrorKind, PairEvent, PairPosition, Snapshot, Unit,
};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    near: NearArguments,

    /// Print pairs of a document of DB and one of this database or input
    ///
    /// The document of DB comes first
    #[arg(long, value_name = "OTHER")]
    with: Option<PathBuf>,

    #[command(flatten)]
    reading: Reading,

    /// Print documents with the same fingerprint as one group, and pairs of groups
    #[arg(long)]
    groups: bool,

    /// Go on from this position, which a stopped command has printed
    #[arg(long, value_name = "POSITION")]
    from: Option<PairPosition>,

    #[command(flatten)]
    written: PairArguments,
}

impl Verb for Arguments {
    fn run(&self, database: &Database, output: &mut Output) -> CommandResult {
        if self.with.is_none() {
            self.reading.ensure_unused("the input of `--with`")?;
        }
        if let Some(file) = self.written.file(output) {
            let with = self
                .with
                .as_ref()
                .map(|path| output.console().place_of(path));
            ensure_replaceable(&file, Some(database.path()), with.as_deref())?;
        }
        let snapshot = database.snapshot()?;
        let bounds = &self.near.bounds;
        let max_distance = bounds.max_distance.unwrap_or(database.max_distance());
        let other = match &self.with {
            Some(path) => Some(OtherSide::open(path, database, &self.reading, output)?),
            None => None,
        };
        let mut pairs = snapshot.pairs(&self.near).each_document(!self.groups);
        if let Some(other) = &other {
            pairs = pairs.with(&other.snapshot);
        }
        let sides = match &other {
            None => Sides::One,
            Some(other) if other.is_input() => Sides::AndInput,
            Some(_) => Sides::Two,
        };
        if sides == Sides::AndInput && self.from.is_some() {
            return Err(
                "--from is for databases: an input is read anew, and its pairs are found anew"
                    .into(),
            );
        }

        pairs.ensure_answerable()?;
        // The file would look like the whole result, and may take the place of an older one.
        if let (Some(_), Some(other)) = (self.written.file(output), &other)
            && other.rejected > 0
            && other.snapshot.documents().next().transpose()?.is_none()
        {
            return Err(
                "nothing of the input of `--with` could be read, so no file is written".into(),
            );
        }
        let wanted = self.wanted(max_distance);
        let (sink, saved) = self.written.open(&wanted, sides, output)?;
        let goes_on = if saved.is_some() {
            " since the search went on"
        } else {
            ""
        };
        if let Some(from) = self.from.clone().or(saved) {
            pairs = pairs.from(from);
        }
        let least = bounds
            .min_similarity
            .or(database.min_similarity())
            .unwrap_or(0.0);
        let mut printer = PairPrinter {
            search: LongSearch::new("", output),
            sink,
            other: other.as_ref(),
            lines: PairLines {
                has_groups: self.groups,
                has_similarity: least > 0.0,
            },
            pairs: 0,
            groups: 0,
            reached: None,
            behind: 0,
        };
        let mut failed = None;
        let searched = pairs.run(|event| match printer.take(event, output) {
            Ok(()) => printer.flow(output),
            Err(error) => {
                failed = Some(error);
                ControlFlow::Break(())
            }
        });
        searched.map_err(|error| match (error.kind(), &self.with) {
            (ErrorKind::Damaged | ErrorKind::Storage, Some(with)) if sides == Sides::Two => {
                name_databases(error.into(), &[database.path(), with])
            }
            _ => printer.sink.explained(error),
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if !printer.sink.is_screen() {
            // What comes after the last position is found again.
            output.take();
        }
        if printer.search.end(output)? {
            let reached = printer.reached.filter(|_| sides != Sides::AndInput);
            let advice = printer.sink.stop(reached, printer.behind)?;
            output.complain(&format!("stopped before all pairs were found{advice}"));
            return Err(Error::Interrupted.into());
        }
        printer.sink.finish(output)?;
        let groups = match self.groups && other.is_none() {
            true => format!(
                ", {} of documents with the same fingerprint",
                counted(printer.groups, "group")
            ),
            false => String::new(),
        };
        let pairs = counted(printer.pairs, "pair");
        // If nobody wanted the rest, the numbers are not those of all pairs.
        if !output.is_closed() {
            output.remark(&format!("{pairs}{groups}{goes_on}"));
        }
        Ok(Answer::yes_unless(
            other.is_some_and(|other| other.rejected > 0),
        ))
    }

    fn ends_in_order(&self) -> bool {
        true
    }

    fn inputs(&self) -> Vec<&Path> {
        self.with.as_deref().into_iter().collect()
    }

    /// The names of the columns, if lines are printed.
    fn heading(&self) -> Option<&'static str> {
        let heading = match self.groups {
            true => "distance\ta\tb\tdocuments_a\tdocuments_b\tsimilarity",
            false => "distance\ta\tb\tsimilarity",
        };
        self.written.prints_lines().then_some(heading)
    }
}

impl Arguments {
    /// Which pairs are wanted. Another search does not go on with a file that was begun for these.
    fn wanted(&self, max_distance: u32) -> Value {
        let NearArguments {
            bounds,
            since,
            scope,
        } = &self.near;
        let mut wanted = json!({
            "max_distance": max_distance,
            "min_similarity": bounds.min_similarity,
            "since": since,
            "scope": scope,
            "groups": self.groups,
        });
        if let Some(with) = &self.with {
            add_name(&mut wanted, "with", with.as_os_str().as_encoded_bytes());
        }
        wanted
    }
}

/// Counts pairs and groups, and gives them to what takes them.
struct PairPrinter<'a> {
    search: LongSearch,
    sink: Box<dyn Sink>,
    other: Option<&'a OtherSide>,
    lines: PairLines,
    pairs: u64,
    groups: u64,
    /// The last position, and how many lines were printed behind it.
    reached: Option<PairPosition>,
    behind: u64,
}

impl PairPrinter<'_> {
    fn take(&mut self, event: PairEvent, output: &mut Output) -> Result<(), Failure> {
        match event {
            PairEvent::Pair(mut pair) => {
                if let Some(other) = self.other {
                    pair.b.newest_key = other.key_of(pair.b.newest_key)?;
                }
                self.pairs += 1;
                self.behind += 1;
                self.sink.pair(&pair, self.lines, output)
            }
            PairEvent::Group(group) => {
                self.groups += 1;
                self.behind += 1;
                self.sink.group(&group, self.lines, output)
            }
            PairEvent::Progress {
                done,
                all,
                position,
            } => {
                if self.reached.as_ref() != Some(&position) {
                    self.reached = Some(position.clone());
                    self.behind = 0;
                }
                self.search.update(done, Some(all));
                self.sink.reach(position, output)
            }
        }
    }

    fn flow(&mut self, output: &mut Output) -> ControlFlow<()> {
        match self.sink.is_screen() {
            true => self.search.flow(output),
            false => self.search.wanted(),
        }
    }
}

/// The other side of `--with`: another database, or the documents of an input, which then are in a temporary database
/// for a while.
struct OtherSide {
    snapshot: Snapshot,
    /// How many records of an input could not be taken.
    rejected: u64,
    /// The folder of the database that an input is in. Dropped last. Then nothing is left of it.
    folder: Option<TempDir>,
}

/// The bytes of the number that comes before the key of a record of an input. So records of one key stay apart.
const NUMBER_BYTES: usize = 8;

/// The documents that are inserted in a transaction.
const TOGETHER: usize = 50_000;

impl OtherSide {
    /// Opens a database. If the path is no database, reads it as an input with fingerprints of the scheme of `like`.
    fn open(
        path: &Path,
        like: &Database,
        reading: &Reading,
        output: &Output,
    ) -> Result<Self, Failure> {
        let place = output.console().place_of(path);
        output.console().ensure_has_end(path)?;
        let is_itself = match (place.canonicalize(), like.path().canonicalize()) {
            (Ok(place), Ok(own)) => place == own,
            _ => false,
        };
        if place.is_dir() {
            return Self::read(path, like, reading, output);
        }
        let snapshot = match is_itself {
            true => like.snapshot()?,
            false => match Opening::Read.open(&place) {
                Ok(database) => database.snapshot()?,
                Err(Error::NotSimdb { .. } | Error::NotFound { .. }) => {
                    return Self::read(path, like, reading, output);
                }
                // The other database is named where an error names none.
                Err(error) => {
                    return Err(
                        format!("{}: {}", path.display(), Error::with_causes(&error)).into(),
                    );
                }
            },
        };
        reading.ensure_unused("an input, and that of `--with` is a database")?;
        Ok(Self {
            snapshot,
            rejected: 0,
            folder: None,
        })
    }

    /// Whether the other side is an input, which is read anew each time.
    fn is_input(&self) -> bool {
        self.folder.is_some()
    }

    /// The key of a document, as it was in the input.
    fn key_of(&self, mut key: Vec<u8>) -> Result<Vec<u8>, Error> {
        if !self.is_input() {
            return Ok(key);
        }
        if key.len() == NUMBER_BYTES {
            let document = self.snapshot.get(&key)?;
            return Ok(document.map_or(key, |document| document.payload().to_vec()));
        }
        key.drain(..NUMBER_BYTES.min(key.len()));
        Ok(key)
    }

    fn read(
        path: &Path,
        like: &Database,
        reading: &Reading,
        output: &Output,
    ) -> Result<Self, Failure> {
        if reading.unit() != Unit::Document {
            return Err(
                "--unit is for databases of units: ingest the input, and give that database".into(),
            );
        }
        let mut options = reading.options();
        for field in ["rank", "payload", "payload_base64"] {
            options = ReadOptions::ignore_field(options, field);
        }
        let mut records = output.console().records(&[path], options)?;
        let folder = tempfile::tempdir().map_err(|error| cannot_keep(&error))?;
        let options = CreateOptions::new()
            .scheme(like.scheme())
            .sketch_size(like.sketch_size());
        let database = Database::create(folder.path().join("other.simdb"), &options)
            .map_err(|error| cannot_keep(&error))?;
        let rule = Fingerprinting::new(like.scheme(), Some(like.scheme()))?;
        let rule = rule.sketch_size(like.sketch_size()).stores(true);

        let read = records.progress();
        let progress = output.console().progress_of("bytes");
        let lists = Lists::new(output.console());
        let mut rejections = Rejections::new(output.console());
        let mut rejected = 0;
        let mut number = 0u64;
        let mut waiting = Vec::new();
        loop {
            let chunk = records.next_chunk(|record: Record| {
                lists.look_at(&record);
                record.into_document(rule)
            })?;
            let is_last = chunk.is_empty();
            for document in chunk {
                match document {
                    Ok(document) => {
                        number += 1;
                        waiting.push(numbered(&document, number));
                    }
                    Err(reason) => {
                        rejected += 1;
                        rejections.show(&reason);
                    }
                }
            }
            if is_last || waiting.len() >= TOGETHER {
                insert(&database, &waiting).map_err(|error| cannot_keep(&error))?;
                waiting.clear();
            }
            Error::if_broken(progress.update(read.bytes_read(), read.bytes_total()))?;
            if is_last {
                break;
            }
        }
        lists.finish();
        rejections.finish()?;
        Ok(Self {
            snapshot: database.snapshot()?,
            rejected,
            folder: Some(folder),
        })
    }
}

fn insert(database: &Database, documents: &[Document]) -> Result<(), Error> {
    let mut txn = database.begin_write()?;
    for document in documents {
        txn.insert(document)?;
    }
    txn.commit()
}

/// What counts of a document, under a key with its number. A key for which there is no room behind the number is the
/// payload.
fn numbered(document: &Document, number: u64) -> Document {
    let mut key = number.to_le_bytes().to_vec();
    let mut payload: &[u8] = &[];
    match document.key() {
        own if own.len() > Document::MAX_KEY_BYTES - NUMBER_BYTES => payload = own,
        own => key.extend_from_slice(own),
    }
    Document::new(key, document.fingerprint())
        .with_sketch(document.sketch().copied())
        .with_seen(document.seen())
        .with_scope(document.scope())
        .with_payload(payload)
}
