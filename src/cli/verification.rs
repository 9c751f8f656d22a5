//! The last look at matches: texts compared exactly. The texts of a file are kept in a temporary file.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::str;
use std::sync::{Arc, Mutex};

use crate::ingest::{Fingerprinting, Record, Rejected};
use crate::plural::counted;
use crate::{Database, Document, Error, Fingerprint, Matches, TextMeasure, Unit};

use super::answer::{Failure, cannot_keep};
use super::arguments::{Reading, ensure_read_once, similarity_parser};
use super::console::Console;
use super::escaping::printable;
use super::match_list::MatchList;
use super::process::locked;

/// What stands for the payloads of stored documents, instead of a file.
const PAYLOAD: &str = "payload";

/// The arguments of commands that compare texts.
#[derive(clap::Args)]
pub(super) struct VerifyArguments {
    /// Compare the texts of matches exactly
    ///
    /// By the share of words that both have, or by the cosine of their word counts
    #[arg(long, value_name = "MEASURE", value_enum, requires = "texts")]
    verify: Option<TextMeasure>,

    /// Its least value, 0 to 1 [default: words 0.8, cosine 0.95]
    #[arg(long, value_name = "V", value_parser = similarity_parser, requires = "verify")]
    min_verified: Option<f64>,

    /// Where the texts of stored documents are: `payload`, or a file
    ///
    /// The file has any input format
    #[arg(long, value_name = "payload|FILE", requires = "verify")]
    texts: Option<PathBuf>,
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
    File(PathBuf, Mutex<Texts>),
}

/// Documents without a text: the first keys, and the hashes of all.
#[derive(Default)]
struct WithoutText {
    first: Vec<String>,
    all: HashSet<u64>,
    hasher: RandomState,
}

impl VerifyArguments {
    pub(super) fn is_given(&self) -> bool {
        self.verify.is_some()
    }

    pub(super) fn reads_file(&self) -> bool {
        self.texts()
            .is_some_and(|texts| texts != Path::new(PAYLOAD))
    }

    /// What texts are compared by, if they are.
    pub(super) fn measure(&self) -> Option<TextMeasure> {
        self.verify
    }

    /// Where the texts are, as it was given.
    pub(super) fn texts(&self) -> Option<&Path> {
        self.texts.as_deref()
    }

    /// Whether there is a file with texts to read, beside the inputs. A command calls it before it creates anything.
    pub(super) fn check<'p>(
        &'p self,
        reading: &Reading,
        inputs: impl Iterator<Item = &'p PathBuf>,
        console: &Console,
    ) -> Result<(), Failure> {
        ensure_read_once(inputs.chain(&self.texts))?;
        match self.texts.as_deref() {
            Some(texts) if texts != Path::new(PAYLOAD) => {
                console
                    .records(&[texts], reading.options_of_texts())?
                    .ensure_readable()?;
            }
            _ => {}
        }
        Ok(())
    }

    /// The comparison that is wanted. Reads the file with the texts.
    pub(super) fn open(
        &self,
        reading: &Reading,
        database: &Database,
        console: &Console,
    ) -> Result<Option<Arc<Verification>>, Failure> {
        let Some((measure, texts)) = self.verify.zip(self.texts.as_deref()) else {
            return Ok(None);
        };
        let default = match measure {
            TextMeasure::Words => 0.8,
            TextMeasure::Cosine => 0.95,
        };
        let source = if texts != Path::new(PAYLOAD) {
            let kept = Texts::read(texts, reading, database, console)?;
            Source::File(texts.to_owned(), Mutex::new(kept))
        } else if reading.unit() == Unit::Document {
            Source::Payload
        } else {
            return Err(
                "the payload of a unit is that of its document and not its text: with `--unit`, name a \
                        file with `--texts`"
                    .into(),
            );
        };
        Ok(Some(Arc::new(Verification {
            measure,
            least: self.min_verified.unwrap_or(default),
            source,
            without_text: Mutex::default(),
            console: console.clone(),
        })))
    }
}

type UnitText = (Option<Vec<u8>>, Option<String>);

/// The key and the text of each unit of a record.
pub(super) fn texts_of(record: Record, rule: Fingerprinting) -> Result<Vec<UnitText>, Rejected> {
    let mut texts = Vec::new();
    for unit in record.into_units()? {
        let key = unit.key().map(<[u8]>::to_vec);
        let text = unit.text(rule).map(Cow::into_owned);
        texts.push((key, text));
    }
    Ok(texts)
}

/// The name of a text that the file with the texts has.
fn name_of_key(key: &[u8]) -> Vec<u8> {
    [b"k", key].concat()
}

/// The name of a text that an input has. A key may come again with another text, and be compared in between.
fn name_of_document(document: &Document) -> Vec<u8> {
    let bits = document.fingerprint().map_or(0, Fingerprint::bits);
    [b"d", bits.to_le_bytes().as_slice(), document.key()].concat()
}

impl Verification {
    /// Keeps the text of a document that is about to be ingested.
    pub(super) fn keep(&self, document: &Document, text: &str) {
        if let Source::File(_, texts) = &self.source
            && document.fingerprint().is_some()
        {
            locked(texts).keep(&name_of_document(document), text);
        }
    }

    /// The text of a document. If there is none, notes that.
    pub(super) fn text_of(&self, document: &Document) -> Result<Option<String>, Failure> {
        let text = match &self.source {
            Source::Payload => match str::from_utf8(document.payload()) {
                Ok("") | Err(_) => None,
                Ok(text) => Some(text.to_owned()),
            },
            Source::File(_, texts) => {
                let mut texts = locked(texts);
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
        let mut without = locked(&self.without_text);
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

    /// Whether a stored document is alike enough to a text. Nothing is where there is none.
    pub(super) fn matches(&self, text: Option<&str>, stored: &Document) -> Result<bool, Failure> {
        let Some(text) = text else {
            return Ok(false);
        };
        Ok(match self.text_of(stored)? {
            Some(stored) => self.measure.of(text, &stored) >= self.least,
            None => false,
        })
    }

    /// What matches a text, with the values.
    pub(super) fn list<'m>(
        &self,
        text: Option<&str>,
        matches: &'m Matches,
    ) -> Result<MatchList<'m>, Failure> {
        let Some(text) = text else {
            return Ok(MatchList::new(matches));
        };
        let mut values = Vec::new();
        for found in matches {
            values.push(match self.text_of(&found.document)? {
                Some(stored) => self.measure.of(text, &stored),
                None => 0.0,
            });
        }
        let measure = self.measure.name();
        Ok(MatchList::verified(matches, measure, values))
    }

    /// The number of documents that were to be compared and had no text. Says which, unless there are many.
    pub(super) fn complain_of_missing(&self) -> usize {
        let without = locked(&self.without_text);
        let place = match &self.source {
            Source::Payload => "its payload".to_owned(),
            Source::File(path, _) => path.display().to_string(),
        };
        for key in &without.first {
            let reason = format!("there is no text in {place}, so it matches nothing");
            self.console.complain(&format!("{key}: {reason}"));
        }
        let more = without.all.len() - without.first.len();
        if more > 0 {
            self.console.complain(&format!(
                "there is no text of {}",
                counted(more, "more document")
            ));
        }
        without.all.len()
    }
}

/// Texts by name, in a temporary file. If a name comes again, the last text counts. In memory there are 16 bytes for
/// each text, or up to twice that.
///
/// The file is a row of entries: the place of the entry before with the same hash, the lengths of name and text
/// (8 bytes each, least significant first), the name and the text. It has no name itself, so nothing is left of it.
struct Texts {
    file: File,
    /// The end of the file, without what is waiting.
    written: u64,
    /// Entries that are not in the file yet.
    waiting: Vec<u8>,
    /// The place of the last entry of each hash of a name.
    places: HashMap<u64, u64>,
    hasher: RandomState,
    /// Why a text could not be kept.
    failed: Option<io::Error>,
}

const HEAD: usize = 24;
const MOST_WAITING: usize = 1 << 20;
/// Before the first entry of a hash there is none.
const NOWHERE: u64 = u64::MAX;

impl Texts {
    /// No texts. The file is in the folder for temporary files of the system.
    fn new() -> io::Result<Self> {
        Ok(Self {
            file: tempfile::tempfile().map_err(|error| cannot_be_kept(&error))?,
            written: 0,
            waiting: Vec::new(),
            places: HashMap::new(),
            hasher: RandomState::new(),
            failed: None,
        })
    }

    fn read(
        path: &Path,
        reading: &Reading,
        database: &Database,
        console: &Console,
    ) -> Result<Self, Failure> {
        let rule = Fingerprinting::new(database.scheme(), None)?;
        let mut records = console.records(&[path], reading.options_of_texts())?;
        let mut texts = Self::new()?;
        let mut useless = 0;
        loop {
            let chunk = records.next_chunk(|record| texts_of(record, rule))?;
            if chunk.is_empty() {
                break;
            }
            console.ensure_wanted()?;
            for record in chunk {
                let units = match record {
                    Ok(units) => units,
                    // What a text is compared with must not be missing.
                    Err(rejected) if rejected.is_input() => {
                        return Err(Error::from(rejected).into());
                    }
                    Err(rejected) => {
                        console.complain(&format!("rejected: {rejected}"));
                        continue;
                    }
                };
                for unit in units {
                    match unit {
                        (Some(key), Some(text)) => texts.add(&name_of_key(&key), &text)?,
                        _ => useless += 1,
                    }
                }
            }
        }
        if useless > 0 {
            let path = path.display();
            let records = counted(useless, "record");
            console.complain(&format!(
                "{path}: {records} without a key or without a text"
            ));
        }
        Ok(texts)
    }

    /// Adds a text. If that fails, the next question for a text does.
    fn keep(&mut self, name: &[u8], text: &str) {
        if let Err(error) = self.add(name, text) {
            self.failed = Some(error);
        }
    }

    fn add(&mut self, name: &[u8], text: &str) -> io::Result<()> {
        let place = self.written + self.waiting.len() as u64;
        let hash = self.hasher.hash_one(name);
        let before = self.places.insert(hash, place).unwrap_or(NOWHERE);
        for number in [before, name.len() as u64, text.len() as u64] {
            self.waiting.extend_from_slice(&number.to_le_bytes());
        }
        self.waiting.extend_from_slice(name);
        self.waiting.extend_from_slice(text.as_bytes());
        if self.waiting.len() >= MOST_WAITING {
            self.write()
        } else {
            Ok(())
        }
    }

    fn get(&mut self, name: &[u8]) -> io::Result<Option<String>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let hash = self.hasher.hash_one(name);
        let mut place = self.places.get(&hash).copied().unwrap_or(NOWHERE);
        if place == NOWHERE {
            return Ok(None);
        }
        self.write()?;
        while place != NOWHERE {
            self.file.seek(SeekFrom::Start(place))?;
            let mut head = [[0; 8]; HEAD / 8];
            self.file.read_exact(head.as_flattened_mut())?;
            let [before, name_length, text_length] = head.map(u64::from_le_bytes);
            if name_length == name.len() as u64 {
                let mut both = vec![0; (name_length + text_length) as usize];
                self.file.read_exact(&mut both)?;
                if both.starts_with(name) {
                    let text = String::from_utf8(both.split_off(name.len()));
                    return text.map(Some).map_err(io::Error::other);
                }
            }
            place = before;
        }
        Ok(None)
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            self.file.seek(SeekFrom::Start(self.written))?;
            self.file
                .write_all(&self.waiting)
                .map_err(|error| cannot_be_kept(&error))?;
            self.written += self.waiting.len() as u64;
            self.waiting.clear();
        }
        Ok(())
    }
}

fn cannot_be_kept(error: &io::Error) -> io::Error {
    io::Error::other(cannot_keep(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_text_of_a_name_counts_and_hashes_may_be_equal() -> io::Result<()> {
        let mut texts = Texts::new()?;
        assert_eq!(texts.get(b"a")?, None);
        for (name, text) in [("a", "one"), ("b", ""), ("ab", "two"), ("a", "three")] {
            texts.add(name.as_bytes(), text)?;
        }
        // As if all names had the hash of `c`: each entry leads to the one before.
        let place = texts.places[&texts.hasher.hash_one(b"ab".as_slice())];
        texts
            .places
            .insert(texts.hasher.hash_one(b"c".as_slice()), place);
        texts.add(b"c", &"long ".repeat(MOST_WAITING / 4))?;
        assert_eq!(texts.get(b"a")?.as_deref(), Some("three"));
        assert_eq!(texts.get(b"b")?.as_deref(), Some(""));
        let length = texts.get(b"c")?.unwrap_or_default().len();
        assert_eq!(length, MOST_WAITING / 4 * 5);
        texts.places.clear();
        texts
            .places
            .insert(texts.hasher.hash_one(b"a".as_slice()), 0);
        assert_eq!(
            (texts.get(b"a")?.as_deref(), texts.get(b"b")?),
            (Some("one"), None)
        );
        Ok(())
    }
}
