//! The last look at matches: texts compared exactly.

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};
use std::str;
use std::sync::{Arc, Mutex, PoisonError};

use crate::ingest::{Fingerprinting, Record, Rejected};
use crate::{Database, Document, Fingerprint, Match, Matches, TextMeasure, Unit};
use clap::ValueEnum;

use super::answer::Failure;
use super::arguments::{Reading, similarity_parser};
use super::console::Console;
use super::output::{Verified, printable};
use super::texts::Texts;

/// The arguments of commands that compare texts.
#[derive(clap::Args)]
pub(super) struct VerifyArguments {
    /// Compare the texts of what was found exactly: the share of common words, or the cosine of word counts
    #[arg(long, value_name = "MEASURE", value_enum, requires = "texts")]
    verify: Option<Measure>,

    /// The least value, 0 to 1, at which texts match [default: 0.8 for words, 0.95 for cosine]
    #[arg(long, value_name = "V", value_parser = similarity_parser, requires = "verify")]
    min_verified: Option<f64>,

    /// Where the texts of stored documents are: `payload`, or a file in any input format
    #[arg(long, value_name = "payload|FILE", requires = "verify")]
    texts: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Measure {
    /// The distinct words that both texts have, divided by those that at least one has
    Words,
    /// The cosine of the vectors of word counts
    Cosine,
}

/// Compares texts, and notes which documents have none.
pub(super) struct Verification {
    measure: TextMeasure,
    least: f64,
    source: Source,
    without_text: Mutex<WithoutText>,
    console: Console,
}

enum Source {
    Payload,
    File(PathBuf, Mutex<Held>),
}

/// Texts, and why one could not be kept.
struct Held {
    texts: Texts,
    failed: Option<io::Error>,
}

/// Documents without a text: the first keys, and the hashes of all.
#[derive(Default)]
struct WithoutText {
    first: Vec<String>,
    all: HashSet<u64>,
    hasher: RandomState,
}

impl VerifyArguments {
    /// Whether texts are to be compared.
    pub(super) fn is_asked(&self) -> bool {
        self.verify.is_some()
    }

    /// Where the texts are, as it was given.
    #[cfg(unix)]
    pub(super) fn texts(&self) -> Option<&Path> {
        self.texts.as_deref()
    }

    /// Whether there is a file with texts to read, beside the inputs. A command calls it before it creates anything.
    pub(super) fn check<'p>(
        &self,
        reading: &Reading,
        mut inputs: impl Iterator<Item = &'p PathBuf>,
        console: &Console,
    ) -> Result<(), Failure> {
        let standard_input = Path::new("-");
        match self.texts.as_deref() {
            Some(texts) if texts == standard_input => match inputs
                .any(|input| input == standard_input)
            {
                true => Err(
                    "standard input is read once: it holds the documents or the texts, not both"
                        .into(),
                ),
                false => Ok(()),
            },
            Some(texts) if texts != Path::new("payload") => Ok(console
                .records(texts, reading.options_of_texts())?
                .ensure_readable()?),
            _ => Ok(()),
        }
    }

    /// What they ask for. Reads the file with the texts.
    pub(super) fn open(
        &self,
        reading: &Reading,
        database: &Database,
        console: &Console,
    ) -> Result<Option<Arc<Verification>>, Failure> {
        let Some((measure, texts)) = self.verify.zip(self.texts.as_deref()) else {
            return Ok(None);
        };
        let (measure, default) = match measure {
            Measure::Words => (TextMeasure::Words, 0.8),
            Measure::Cosine => (TextMeasure::Cosine, 0.95),
        };
        let source = if texts != Path::new("payload") {
            Source::File(
                texts.to_owned(),
                Mutex::new(Held::read(texts, reading, database, console)?),
            )
        } else if reading.unit() == Unit::Document {
            Source::Payload
        } else {
            return Err(
                "the payload of a unit is that of its document and not its text: with `--unit`, name a \
                        file with `--texts`"
                    .into(),
            );
        };
        let least = self.min_verified.unwrap_or(default);
        let (console, without_text) = (console.clone(), Mutex::default());
        Ok(Some(Arc::new(Verification {
            measure,
            least,
            source,
            without_text,
            console,
        })))
    }
}

impl Held {
    fn read(
        path: &Path,
        reading: &Reading,
        database: &Database,
        console: &Console,
    ) -> Result<Self, Failure> {
        let rule = Fingerprinting::new(database.scheme(), None)?;
        let mut records = console.records(path, reading.options_of_texts())?;
        let mut texts = Texts::new()?;
        let mut useless = 0;
        loop {
            let chunk = records.next_chunk(|record| texts_of(record, rule))?;
            if chunk.is_empty() {
                break;
            }
            console.ensure_wanted()?;
            for record in chunk {
                match record {
                    Ok(units) => {
                        units
                            .into_iter()
                            .try_for_each(|(key, text)| match key.zip(text) {
                                Some((key, text)) => texts.add(&name_of_key(&key), &text),
                                None => {
                                    useless += 1;
                                    Ok(())
                                }
                            })?
                    }
                    // What a text is compared with must not be missing.
                    Err(rejected) if rejected.is_input() => {
                        return Err(crate::Error::from(rejected).into());
                    }
                    Err(rejected) => console.complain(&format!("rejected: {rejected}")),
                }
            }
        }
        if useless > 0 {
            console.complain(&format!(
                "{}: {useless} records have no key or no text",
                path.display()
            ));
        }
        Ok(Self {
            texts,
            failed: None,
        })
    }
}

/// The key and the text of each unit of a record.
pub(super) type Named = (Option<Vec<u8>>, Option<String>);

pub(super) fn texts_of(record: Record, rule: Fingerprinting) -> Result<Vec<Named>, Rejected> {
    let named = |it: Record| {
        (
            it.key().map(<[u8]>::to_vec),
            it.text(rule).map(Cow::into_owned),
        )
    };
    Ok(record.into_units()?.map(named).collect())
}

/// The name of a text that the file with the texts has.
fn name_of_key(key: &[u8]) -> Vec<u8> {
    [b"k", key].concat()
}

/// The name of a text that an input has. A key may come again with another text, and be compared in between.
fn name_of_document(document: &Document) -> Vec<u8> {
    let fingerprint = document
        .fingerprint()
        .map_or(0, Fingerprint::bits)
        .to_le_bytes();
    [b"d", fingerprint.as_slice(), document.key()].concat()
}

impl Verification {
    /// Keeps the text of a document that is about to be ingested.
    pub(super) fn keep(&self, document: &Document, text: &str) {
        if let Source::File(_, held) = &self.source
            && document.fingerprint().is_some()
        {
            let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = held.texts.add(&name_of_document(document), text) {
                held.failed = Some(error);
            }
        }
    }

    /// The text of a document. If there is none, notes that.
    pub(super) fn text_of(&self, document: &Document) -> Result<Option<String>, Failure> {
        let text = match &self.source {
            Source::Payload => str::from_utf8(document.payload())
                .ok()
                .filter(|it| !it.is_empty())
                .map(str::to_owned),
            Source::File(_, held) => {
                let mut held = held.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(error) = held.failed.take() {
                    return Err(
                        format!("the temporary file for texts cannot be written: {error}").into(),
                    );
                }
                let Held { texts, .. } = &mut *held;
                match texts.get(&name_of_document(document))? {
                    None => texts.get(&name_of_key(document.key()))?,
                    text => text,
                }
            }
        };
        if text.is_none() {
            self.note_without_text(document.key());
        }
        Ok(text)
    }

    fn note_without_text(&self, key: &[u8]) {
        const MOST_NAMED: usize = 10;
        let mut without = self
            .without_text
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let hash = without.hasher.hash_one(key);
        if without.all.insert(hash) && without.first.len() < MOST_NAMED {
            let name = if key.is_empty() {
                "(no key)".into()
            } else {
                printable(key)
            };
            without.first.push(name.into_owned());
        }
    }

    /// Whether a stored document is alike enough.
    pub(super) fn matches(&self, text: &str, stored: &Document) -> Result<bool, Failure> {
        let stored = self.text_of(stored)?;
        Ok(stored.is_some_and(|stored| self.measure.of(text, &stored) >= self.least))
    }

    /// Whether a stored document is alike enough to a new one.
    pub(super) fn matches_document(
        &self,
        document: &Document,
        stored: &Document,
    ) -> Result<bool, Failure> {
        self.text_of(document)?
            .map_or(Ok(false), |text| self.matches(&text, stored))
    }

    /// The values of what matches a text.
    pub(super) fn values(&self, text: &str, matches: &Matches) -> Result<Verified, Failure> {
        let value = |found: &Match| -> Result<f64, Failure> {
            Ok(self
                .text_of(&found.document)?
                .map_or(0.0, |stored| self.measure.of(text, &stored)))
        };
        let values = matches.iter().map(value).collect::<Result<_, _>>()?;
        Ok(Verified {
            name: self.measure.name(),
            values,
        })
    }

    /// The values of what matches a document.
    pub(super) fn values_of_document(
        &self,
        document: &Document,
        matches: &Matches,
    ) -> Result<Verified, Failure> {
        self.values(&self.text_of(document)?.unwrap_or_default(), matches)
    }

    /// The number of documents that were to be compared and had no text. Says which, unless there are many.
    pub(super) fn complain_of_missing(&self) -> usize {
        let without = self
            .without_text
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let place = match &self.source {
            Source::Payload => "its payload".to_owned(),
            Source::File(path, _) => path.display().to_string(),
        };
        for key in &without.first {
            self.console.complain(&format!(
                "{key}: there is no text in {place}, so it matches nothing"
            ));
        }
        let more = without.all.len() - without.first.len();
        if more > 0 {
            self.console
                .complain(&format!("{more} more documents have no text"));
        }
        without.all.len()
    }
}
