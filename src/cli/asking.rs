//! The arguments of commands that ask, and from them to queries.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::ingest::{Fingerprinting, InputFormat};
use crate::{
    Database, Document, Error, Fingerprint, Matches, Order, Query, Scheme, SketchSize, Snapshot,
    Unit,
};
use clap::ValueEnum;

use super::answer::{Answer, Failure};
use super::arguments::{
    LiveDatabase, Reading, key_bytes, max_distance_parser, near, parse_scheme, similarity_parser,
};
use super::console::Console;
use super::output::{Verified, printable};
use super::question::{Question, TextsAre};
use super::times::time;
use super::units::count;
use super::verification::{Verification, VerifyArguments};

#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub(super) database: LiveDatabase,

    #[command(flatten)]
    pub(super) asked: Asked,

    #[command(flatten)]
    pub(super) reading: Reading,

    /// The distance, inclusive, at which documents match [default: that of the database]
    #[arg(long, value_name = "K", value_parser = max_distance_parser(), allow_negative_numbers = true)]
    pub(super) max_distance: Option<u32>,

    /// The least similarity, 0 to 1, at which documents match [default: that of the database]
    #[arg(long, value_name = "S", value_parser = similarity_parser, allow_negative_numbers = true)]
    pub(super) min_similarity: Option<f64>,

    /// The order in which matches are printed
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    pub(super) order: MatchOrder,

    /// How many matches are printed, the first in the order
    #[arg(long, value_name = "N", default_value_t = 10)]
    #[arg(value_parser = count::<usize>, allow_negative_numbers = true)]
    pub(super) limit: usize,

    /// Only documents seen at this time or later: 2020-01-31, 2d, `2 weeks ago`, Unix seconds
    #[arg(long, value_name = "TIME", value_parser = time, allow_negative_numbers = true)]
    pub(super) since: Option<i64>,

    /// Only documents of this scope; may be given several times
    #[arg(long, value_name = "SCOPE")]
    pub(super) scope: Vec<String>,

    #[command(flatten)]
    pub(super) verify: VerifyArguments,

    /// The scheme of the fingerprints in the input
    #[arg(long, value_name = "NAME", value_parser = parse_scheme, requires = "input")]
    pub(super) scheme: Option<Scheme>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
pub(super) enum MatchOrder {
    /// The nearest first
    #[default]
    Distance,
    /// The most similar first
    Similarity,
}

#[derive(clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Asked {
    /// Ask for a text
    #[arg(long, value_name = "TEXT")]
    pub(super) text: Option<String>,

    /// Ask for the text of a file; HTML is known by its name or its beginning, `-` is standard input
    #[arg(long, value_name = "PATH")]
    pub(super) file: Option<PathBuf>,

    /// Ask for a fingerprint: 16 hexadecimal digits
    #[arg(long, value_name = "HEX")]
    pub(super) fingerprint: Option<Fingerprint>,

    /// Ask for a stored document; it is a match of itself
    #[arg(long, value_name = "KEY")]
    pub(super) key: Option<OsString>,

    /// Ask for every document of a file, one line each; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(super) input: Option<PathBuf>,
}

/// What a command asks, and whom.
pub(super) struct Asking<'a> {
    pub(super) arguments: &'a Arguments,
    pub(super) database: &'a Database,
    pub(super) snapshot: &'a Snapshot,
    verification: Option<Arc<Verification>>,
    console: Console,
}

impl<'a> Asking<'a> {
    /// Reads the file with the texts, if there is one.
    pub(super) fn new(
        arguments: &'a Arguments,
        database: &'a Database,
        snapshot: &'a Snapshot,
        console: &Console,
    ) -> Result<Self, Failure> {
        if arguments.verify.is_asked() && arguments.asked.fingerprint.is_some() {
            return Err(
                "`--verify` compares texts, and a fingerprint has none: ask by --text, --file, --key or \
                        --input"
                    .into(),
            );
        }
        let inputs = arguments.asked.file.iter().chain(&arguments.asked.input);
        arguments
            .verify
            .check(&arguments.reading, inputs, console)?;
        let verification = arguments
            .verify
            .open(&arguments.reading, database, console)?;
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
        Ok(rule.needs_sketches(has_sketches && self.arguments.asks_for_similarity()))
    }

    pub(super) fn texts(&self) -> TextsAre {
        if self.verification.is_some() {
            TextsAre::Needed
        } else {
            TextsAre::NotNeeded
        }
    }

    /// The question of the arguments. If it is a key that is not stored, prints a message and returns `None`.
    pub(super) fn question(&self) -> Result<Option<Question>, Failure> {
        let Asked {
            text,
            file,
            fingerprint,
            key,
            input,
        } = &self.arguments.asked;
        if self.arguments.reading.unit() != Unit::Document {
            return Err(
                "only the texts of a query are cut into units: `--unit` needs --text, --file or --input \
                        of `query`"
                    .into(),
            );
        }
        if input.is_some() {
            return Err(
                "one fingerprint, text or document at a time is explained, not the records of an input"
                    .into(),
            );
        }
        if let Some(path) = file {
            return self.question_of_file(path);
        }
        if let Some(key) = key {
            return self.question_of_key(key_bytes(key));
        }
        let Some(text) = text else {
            let judged = fingerprint.map(|fingerprint| (fingerprint, None));
            return Ok(Some(Question {
                key: None,
                judged,
                text: None,
            }));
        };
        let judged = self.database.fingerprinter()?.fingerprint_and_sketch(text);
        Ok(Some(Question {
            key: None,
            judged,
            text: self.needed(|| text.as_str().into()),
        }))
    }

    fn question_of_file(&self, path: &Path) -> Result<Option<Question>, Failure> {
        let (rule, texts) = (self.rule(None)?, self.texts());
        let options = self.arguments.reading.options().format(InputFormat::Text);
        let mut records = self.console.records(path, options)?;
        let chunk = records
            .next_chunk(|record| Question::of_record(record, rule, Unit::Document, texts))?
            .pop();
        let question = chunk
            .transpose()
            .map_err(Error::from)?
            .and_then(|mut asked| asked.pop());
        let nothing = Question {
            key: None,
            judged: None,
            text: None,
        };
        Ok(Some(question.map_or(nothing, |question| Question {
            key: None,
            ..question
        })))
    }

    fn question_of_key(&self, key: Vec<u8>) -> Result<Option<Question>, Failure> {
        let Some(document) = self.snapshot.get(&key)? else {
            self.console
                .complain(&format!("{}: no such key", printable(&key)));
            return Ok(None);
        };
        let judged = document
            .fingerprint()
            .map(|fingerprint| (fingerprint, document.sketch().copied()));
        let text = self
            .verification
            .as_ref()
            .map(|it| it.text_of(&document))
            .transpose()?
            .flatten();
        Ok(Some(Question {
            key: Some(key),
            judged,
            text: text.map(Arc::from),
        }))
    }

    /// What was asked for in vain.
    pub(super) fn told_of_no_match(&self, question: &Question) -> String {
        let Arguments {
            max_distance,
            min_similarity,
            since,
            scope,
            ..
        } = self.arguments;
        let mut told = format!(
            "no match within distance {}",
            max_distance.unwrap_or(self.database.max_distance())
        );
        let has_sketch = question.judged.is_some_and(|(_, sketch)| sketch.is_some());
        let least = min_similarity
            .or(self.database.min_similarity())
            .filter(|&it| has_sketch && it > 0.0);
        if let Some(least) = least {
            told += &format!(" and of similarity {least} or more");
        }
        if since.is_some() {
            told += " that was seen then or later";
        }
        if !scope.is_empty() {
            told += &format!(" in scope {}", scope.join(", "));
        }
        told
    }

    /// Looks for the text of a question that brings none, by its key.
    pub(super) fn find_text(&self, question: &mut Question) -> Result<(), Failure> {
        if let Some((verification, (fingerprint, _))) =
            self.verification.as_ref().zip(question.judged)
            && question.text.is_none()
        {
            let document = Document::new(question.key.clone().unwrap_or_default(), fingerprint);
            question.text = verification.text_of(&document)?.map(Arc::from);
        }
        Ok(())
    }

    /// The query of a question. `None` if its text is too short to judge.
    pub(super) fn query(&self, question: &Question) -> Option<Query> {
        let query = self.arguments.query(question)?;
        let Some(verification) = self.verification.clone() else {
            return Some(query);
        };
        let text = question.text.clone();
        Some(query.verify(move |stored| match &text {
            Some(text) => verification.matches(text, stored),
            None => Ok(false),
        }))
    }

    /// What is needed only if texts are compared.
    pub(super) fn needed<T>(&self, make: impl FnOnce() -> T) -> Option<T> {
        self.verification.is_some().then(make)
    }

    /// The values of the matches, if texts are compared.
    pub(super) fn verified(
        &self,
        question: &Question,
        matches: &Matches,
    ) -> Result<Option<Verified>, Failure> {
        let both = self.verification.as_ref().zip(question.text.as_ref());
        both.map(|(verification, text)| verification.values(text, matches))
            .transpose()
    }

    /// Whether texts were to be compared that are missing. Says which, so it is called once, at the end.
    pub(super) fn any_without_text(&self) -> bool {
        self.verification
            .as_ref()
            .is_some_and(|it| it.complain_of_missing() > 0)
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
    /// Whether a fingerprint without a sketch cannot be asked for.
    fn asks_for_similarity(&self) -> bool {
        self.min_similarity.is_some_and(|least| least > 0.0)
            || matches!(self.order, MatchOrder::Similarity)
    }

    /// The files that are asked for, or read for their texts.
    #[cfg(unix)]
    pub(super) fn inputs(&self) -> impl Iterator<Item = &Path> {
        let inputs = self.asked.file.iter().chain(&self.asked.input);
        inputs.map(PathBuf::as_path).chain(self.verify.texts())
    }

    fn query(&self, question: &Question) -> Option<Query> {
        let (fingerprint, sketch) = question.judged?;
        let order = match self.order {
            MatchOrder::Distance => Order::Distance,
            MatchOrder::Similarity => Order::Similarity,
        };
        let query = Query::new(fingerprint)
            .with_sketch(sketch)
            .near(near(
                self.max_distance,
                self.min_similarity,
                self.since,
                &self.scope,
            ))
            .order(order)
            .limit(self.limit);
        Some(query)
    }
}
