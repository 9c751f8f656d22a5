//! The arguments of commands that query, and the way from them to queries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ingest::{Fingerprinting, InputFormat, Record, Rejected};
use crate::{
    Database, Document, Error, Fingerprint, Matches, Order, Query, Scheme, Sketch, SketchSize,
    Snapshot, Unit,
};

use super::answer::{Answer, Failure};
use super::arguments::{LiveDatabase, NearArguments, Reading, key_bytes, parse_scheme};
use super::console::Console;
use super::output::{Verified, printable};
use super::units::count;
use super::verification::{Verification, VerifyArguments};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    pub(super) target: TargetArguments,

    #[command(flatten)]
    pub(super) reading: Reading,

    #[command(flatten)]
    near: NearArguments,

    /// The order in which matches are printed
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    order: Order,

    /// How many matches are printed, the first in the order
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = count::<usize>, allow_negative_numbers = true)]
    pub(super) limit: usize,

    #[command(flatten)]
    verify: VerifyArguments,

    /// The scheme of the fingerprints in the input
    #[arg(long, value_name = "NAME", value_parser = parse_scheme, requires = "input")]
    scheme: Option<Scheme>,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct TargetArguments {
    /// Ask for a text
    #[arg(long, value_name = "TEXT")]
    pub(super) text: Option<String>,

    /// Ask for the text of a file; HTML is known by its name or its beginning, `-` is standard input
    #[arg(long, value_name = "PATH")]
    pub(super) file: Option<PathBuf>,

    /// Ask for a fingerprint: 16 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    fingerprint: Option<Fingerprint>,

    /// Ask for a stored document; it is a match of itself
    #[arg(long, value_name = "KEY")]
    key: Option<OsString>,

    /// Ask for every document of a file, one line each; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
}

/// A document that a query looks for, or a unit of it. It need not be stored.
#[derive(Default)]
pub(super) struct QueryDocument {
    pub(super) key: Option<Vec<u8>>,
    /// `None` if the text is too short to judge.
    pub(super) fingerprint: Option<Fingerprint>,
    /// `None` if only the fingerprint is known.
    pub(super) sketch: Option<Sketch>,
    /// The text, if it is there and needed.
    pub(super) text: Option<Arc<str>>,
}

/// Whether documents need their texts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextsAre {
    Needed,
    NotNeeded,
}

impl QueryDocument {
    /// The document of a record. If the record is cut into units, each unit that is not too short.
    pub(super) fn from_record(
        record: Record,
        rule: Fingerprinting,
        unit: Unit,
        texts: TextsAre,
    ) -> Result<Vec<Self>, Rejected> {
        let mut documents = Vec::new();
        for record in record.into_units()? {
            let text = match texts {
                TextsAre::Needed => record.text(rule).map(Arc::from),
                TextsAre::NotNeeded => None,
            };
            let key = record.key().map(<[u8]>::to_vec);
            let document = Self {
                key,
                text,
                ..Self::default()
            };
            let document = document.with_fingerprints(record.fingerprint_and_sketch(rule)?);
            if unit == Unit::Document || document.fingerprint.is_some() {
                documents.push(document);
            }
        }
        Ok(documents)
    }

    /// Adds the fingerprint and the sketch, unless the text was too short for them.
    pub(super) fn with_fingerprints(self, made: Option<(Fingerprint, Option<Sketch>)>) -> Self {
        match made {
            Some((fingerprint, sketch)) => Self {
                fingerprint: Some(fingerprint),
                sketch,
                ..self
            },
            None => self,
        }
    }
}

/// The queries of a command: its arguments, the database, and the texts that matches are compared by.
pub(super) struct QuerySession<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) database: &'a Database,
    pub(super) snapshot: &'a Snapshot,
    verification: Option<Arc<Verification>>,
    console: Console,
}

impl<'a> QuerySession<'a> {
    /// Reads the file with the texts, if there is one.
    pub(super) fn new(
        arguments: &'a Arguments,
        database: &'a Database,
        snapshot: &'a Snapshot,
        console: &Console,
    ) -> Result<Self, Failure> {
        let Arguments {
            target,
            reading,
            verify,
            ..
        } = arguments;
        if verify.is_given() && target.fingerprint.is_some() {
            return Err(
                "`--verify` compares texts, and a fingerprint has none: ask by --text, --file, --key or \
                        --input"
                    .into(),
            );
        }
        verify.check(reading, target.file.iter().chain(&target.input), console)?;
        let verification = verify.open(reading, database, console)?;
        Ok(Self {
            arguments,
            database,
            snapshot,
            verification,
            console: console.clone(),
        })
    }

    /// Which contents are taken. Ready fingerprints are of the scheme `named`.
    fn rule(&self, named: Option<Scheme>) -> Result<Fingerprinting, Error> {
        let rule = Fingerprinting::new(self.database.scheme(), named)?;
        Ok(rule.sketch_size(self.database.sketch_size()))
    }

    /// Which records of an input are taken.
    pub(super) fn rule_of_input(&self) -> Result<Fingerprinting, Error> {
        let rule = self.rule(self.arguments.scheme)?;
        // If the database has no sketches, no record can be answered, and the first query says so.
        let has_sketches = self.database.sketch_size() != SketchSize::None;
        Ok(rule.needs_sketches(has_sketches && self.arguments.needs_sketches()))
    }

    pub(super) fn texts(&self) -> TextsAre {
        match self.verification {
            Some(_) => TextsAre::Needed,
            None => TextsAre::NotNeeded,
        }
    }

    /// The one document of the arguments. If it is a key that is not stored, prints a message and returns `None`.
    pub(super) fn document(&self) -> Result<Option<QueryDocument>, Failure> {
        let target = &self.arguments.target;
        if self.arguments.reading.unit() != Unit::Document {
            return Err(
                "only the texts of a query are cut into units: `--unit` needs --text, --file or --input \
                        of `query`"
                    .into(),
            );
        }
        if target.input.is_some() {
            return Err(
                "one fingerprint, text or document at a time is explained, not the records of an input"
                    .into(),
            );
        }

        if let Some(path) = &target.file {
            return self.document_of_file(path).map(Some);
        }
        if let Some(key) = &target.key {
            return self.stored_document(key_bytes(key));
        }
        let Some(text) = &target.text else {
            let fingerprint = target.fingerprint;
            return Ok(Some(QueryDocument {
                fingerprint,
                ..QueryDocument::default()
            }));
        };
        let made = self.database.fingerprinter()?.fingerprint_and_sketch(text);
        let document = QueryDocument {
            text: self.needed(text),
            ..QueryDocument::default()
        };
        Ok(Some(document.with_fingerprints(made)))
    }

    fn document_of_file(&self, path: &Path) -> Result<QueryDocument, Failure> {
        let rule = self.rule(None)?;
        let texts = self.texts();
        let options = self.arguments.reading.options().format(InputFormat::Text);
        let mut records = self.console.records(path, options)?;
        let mut chunk = records
            .next_chunk(|record| QueryDocument::from_record(record, rule, Unit::Document, texts))?;
        let documents = chunk.pop().transpose().map_err(Error::from)?;
        let document = documents.and_then(|mut documents| documents.pop());
        Ok(QueryDocument {
            key: None,
            ..document.unwrap_or_default()
        })
    }

    fn stored_document(&self, key: Vec<u8>) -> Result<Option<QueryDocument>, Failure> {
        let Some(document) = self.snapshot.get(&key)? else {
            self.console
                .complain(&format!("{}: no such key", printable(&key)));
            return Ok(None);
        };
        let text = match &self.verification {
            Some(verification) => verification.text_of(&document)?,
            None => None,
        };
        Ok(Some(QueryDocument {
            key: Some(key),
            fingerprint: document.fingerprint(),
            sketch: document.sketch().copied(),
            text: text.map(Arc::from),
        }))
    }

    /// What was looked for in vain.
    pub(super) fn no_match_message(&self, document: &QueryDocument) -> String {
        let near = &self.arguments.near;
        let max_distance = near
            .bounds
            .max_distance
            .unwrap_or(self.database.max_distance());
        let mut message = format!("no match within distance {max_distance}");
        let least = near
            .bounds
            .min_similarity
            .or(self.database.min_similarity())
            .unwrap_or(0.0);
        if document.sketch.is_some() && least > 0.0 {
            message += &format!(" and of similarity {least} or more");
        }
        if near.since.is_some() {
            message += " that was seen then or later";
        }
        if !near.scope.is_empty() {
            message += &format!(" in scope {}", near.scope.join(", "));
        }
        message
    }

    /// Looks for the text of a document that brings none, by its key.
    pub(super) fn find_text(&self, document: &mut QueryDocument) -> Result<(), Failure> {
        if let Some(verification) = &self.verification
            && let Some(fingerprint) = document.fingerprint
            && document.text.is_none()
        {
            let key = document.key.clone().unwrap_or_default();
            let stored = Document::new(key, Some(fingerprint));
            document.text = verification.text_of(&stored)?.map(Arc::from);
        }
        Ok(())
    }

    /// The query for a document. `None` if its text is too short to judge.
    pub(super) fn query(&self, document: &QueryDocument) -> Option<Query> {
        let query = self.arguments.query(document)?;
        let Some(verification) = self.verification.clone() else {
            return Some(query);
        };
        let text = document.text.clone();
        Some(query.verify(move |stored| match &text {
            Some(text) => verification.matches(text, stored),
            None => Ok(false),
        }))
    }

    /// A text that is needed only if texts are compared.
    pub(super) fn needed(&self, text: &str) -> Option<Arc<str>> {
        self.verification.as_ref()?;
        Some(text.into())
    }

    /// The values of the matches, if texts are compared.
    pub(super) fn verified(
        &self,
        document: &QueryDocument,
        matches: &Matches,
    ) -> Result<Option<Verified>, Failure> {
        match (&self.verification, &document.text) {
            (Some(verification), Some(text)) => verification.values(text, matches).map(Some),
            _ => Ok(None),
        }
    }

    /// Whether texts were to be compared that are missing. Says which, so it is called once, at the end.
    pub(super) fn any_without_text(&self) -> bool {
        match &self.verification {
            Some(verification) => verification.complain_of_missing() > 0,
            None => false,
        }
    }

    /// The answer of the command. If nothing matched, a document without a text could be a match.
    pub(super) fn answer(&self, any_match: bool) -> Answer {
        match self.any_without_text() {
            true if !any_match => Answer::CouldNotTell,
            _ => Answer::yes_if(any_match),
        }
    }
}

impl Arguments {
    /// Whether a fingerprint without a sketch cannot be looked for.
    fn needs_sketches(&self) -> bool {
        self.near.bounds.min_similarity.unwrap_or(0.0) > 0.0 || self.order == Order::Similarity
    }

    /// The files that are looked for, or read for their texts.
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let inputs = self.target.file.iter().chain(&self.target.input);
        inputs.map(PathBuf::as_path).chain(self.verify.texts())
    }

    fn query(&self, document: &QueryDocument) -> Option<Query> {
        let query = Query::new(document.fingerprint?)
            .with_sketch(document.sketch)
            .near(self.near.near())
            .order(self.order)
            .limit(self.limit);
        Some(query)
    }
}
