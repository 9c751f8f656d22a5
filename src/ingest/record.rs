//! Records: parsed from raw ones, cut into units, and made into documents, with fingerprints of their contents. The key
//! of the document of a unit tells its place.

use std::borrow::Cow;
use std::iter::Enumerate;
use std::ops::Range;
use std::path::Path;
use std::vec::IntoIter;
use std::{fmt, mem};

use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::format::InputFormat;
use super::input::{Position, Raw, RawContent};
use super::numbered_key::{NumberedKey, RecordId};
use super::options::ReadOptions;
use super::parsed::{Content, Parsed, parse};
use super::rejected::{Reason, Rejected};
use crate::database::SharedFn;
use crate::document::Document;
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::sketch::{Sketch, SketchSize};
use crate::text::{
    Fingerprinter, MOST_UNITS, Scheme, Unit, unit_key, visible_paragraphs, visible_text,
};

/// One record of an input, from which a document is made.
///
/// # Example
///
/// ```
/// use simdb::Scheme;
/// use simdb::ingest::{Fingerprinting, ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
///
/// std::fs::write(&path, "page\tone two three four five six seven eight nine ten\nnote\tone two\n")?;
/// let rule = Fingerprinting::new(Scheme::Minwise1, None)?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// let chunk = records.next_chunk(|record| {
///     let judged = record.fingerprint_and_sketch(rule)?;
///     Ok::<_, simdb::Error>((record.key().map(<[u8]>::to_vec), judged.is_some()))
/// })?;
/// let mut is_judged = Vec::new();
/// for record in chunk {
///     is_judged.push(record?);
/// }
/// // The note is too short to judge.
/// assert_eq!(is_judged, [(Some(b"page".to_vec()), true), (Some(b"note".to_vec()), false)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    position: Position,
    parsed: Parsed,
    /// What of it gets a fingerprint of its own.
    unit: Unit,
    /// Its place, if its document is named by that.
    id: Option<RecordId>,
    /// Whether the hash of its text is in the key of its document in any case.
    keeps_hash: bool,
    /// Whether nobody has said that the whole file is one document, and its name and its beginning do not say
    /// otherwise.
    is_taken_whole: bool,
}

impl Record {
    /// Parses a raw record. `None` if it is no document, such as the request in a web archive.
    pub(super) fn parse(raw: Raw, options: &ReadOptions) -> Result<Option<Self>, Rejected> {
        let Raw {
            position,
            format,
            content,
        } = raw;
        let id = options.numbered.then_some(position.id());
        let parsed = match content {
            RawContent::TooLong(bytes) => Err(Reason::TooLong {
                bytes,
                max_bytes: options.max_record_bytes,
            }),
            RawContent::Broken(problem) => Err(Reason::Warc {
                problem: problem.into_owned(),
            }),
            RawContent::Failed { reason, .. } => Err(Reason::Input { problem: reason }),
            RawContent::PassedOver => Ok(None),
            RawContent::End => unreachable!("the end of an input is no record"),
            RawContent::Bytes(bytes) => parse(&bytes, format, &position, options),
        };
        let parsed = parsed.map_err(|reason| position.rejected(reason, id))?;
        let Some(mut parsed) = parsed else {
            return Ok(None);
        };
        parsed.seen = parsed.seen.or(options.undated);
        // A copy of the file has another path, and records elsewhere.
        if options.hashes_texts && (options.key_by_place || is_named_by_path(format)) {
            parsed.key = None;
        }
        Ok(Some(Self {
            position,
            parsed,
            unit: options.unit,
            id,
            keeps_hash: options.hashes_texts,
            is_taken_whole: format == InputFormat::Text && options.format == InputFormat::Auto,
        }))
    }

    /// The key, if the record has one.
    pub fn key(&self) -> Option<&[u8]> {
        self.parsed.key.as_deref()
    }

    /// The input that it comes from.
    pub fn path(&self) -> &Path {
        self.position.path()
    }

    /// The number of its lines that are not empty, if each of them may be a document, and nobody has said that the file
    /// is one. [`InputFormat::Lines`] makes each line a document, and [`InputFormat::Text`] says that the file is one.
    pub fn lines_of_list(&self) -> Option<u64> {
        match &self.parsed.content {
            Content::Text(text) if self.is_taken_whole => lines_if_list(text),
            _ => None,
        }
    }

    /// Its place, if the inputs are read with numbers.
    pub(crate) fn id(&self) -> Option<RecordId> {
        self.id
    }

    /// Whether the record brings a ready fingerprint. `None` if that cannot be told: the record is
    /// marked as too short, or it would be rejected.
    pub(super) fn brings_fingerprint(&self) -> Option<bool> {
        self.document_with(None, self.hash_for_key()).ok()?;
        match self.parsed.content {
            Content::Fingerprint(..) => Some(true),
            Content::Features(_) | Content::Text(_) | Content::Html(_) | Content::Xhtml(_) => {
                Some(false)
            }
            Content::TooShort => None,
        }
    }

    /// The field that is read in place of a text that the record brings too.
    pub(super) fn instead_of_text(&self) -> Option<&'static str> {
        self.parsed.instead_of_text
    }

    /// The fingerprint and the sketch of the record, ready or made from its text. `None` if the text is too
    /// short to judge. A ready fingerprint may come without a sketch.
    ///
    /// # Errors
    ///
    /// [`Reason::TextInExternal`] or [`Reason::FingerprintInScheme`] if `rule` does not take the content,
    /// [`Reason::Document`] if it does not take the sketch.
    pub fn fingerprint_and_sketch(
        &self,
        rule: Fingerprinting,
    ) -> Result<Option<(Fingerprint, Option<Sketch>)>, Rejected> {
        rule.judge(&self.parsed.content)
            .map_err(|reason| self.rejected(reason))
    }

    /// The text of the record, from which `rule` makes its fingerprint: of HTML, what the scheme reads. `None` if the
    /// record brings a fingerprint or features in place of a text.
    pub fn text(&self, rule: Fingerprinting) -> Option<Cow<'_, str>> {
        rule.text_of(&self.parsed.content)
    }

    /// The same record, with its text in place of HTML.
    fn into_plain(mut self, rule: Fingerprinting) -> Self {
        if let Some(Cow::Owned(text)) = rule.text_of(&self.parsed.content) {
            self.parsed.content = Content::Text(text);
        }
        self
    }

    /// The document of the record. Its fingerprint is ready or made from its text.
    ///
    /// # Errors
    ///
    /// Those of [`fingerprint_and_sketch`](Self::fingerprint_and_sketch); [`Reason::NoKey`];
    /// [`Reason::Document`] if a part of the document exceeds its limit.
    pub fn into_document(mut self, rule: Fingerprinting) -> Result<Document, Rejected> {
        let hash = self.hash_for_key();
        // A text can be large. It is not kept beside its features.
        let content = mem::replace(&mut self.parsed.content, Content::TooShort);
        let judged = rule
            .judge_owned(content)
            .map_err(|reason| self.rejected(reason))?;
        self.document_with(judged, hash)
    }

    /// As [`into_document`](Self::into_document), but no fingerprint is made from a text. For those who only want to
    /// know the record again.
    pub(crate) fn into_unjudged(self, rule: Fingerprinting) -> Result<Document, Rejected> {
        if !rule.makes_from(&self.parsed.content) {
            return self.into_document(rule);
        }
        self.document_with(None, self.hash_for_key())
    }

    /// The key, the group and the text or the page of the record, as it came.
    ///
    /// # Errors
    ///
    /// [`Reason::NoKey`]; [`Reason::NoContent`] if the record has a fingerprint in place of a text.
    #[cfg(feature = "eval")]
    pub(crate) fn into_page(self) -> Result<(Vec<u8>, Option<String>, Content), Rejected> {
        let Some(key) = self.parsed.key.clone() else {
            return Err(self.rejected(Reason::NoKey));
        };
        match self.parsed.content {
            Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => {
                Err(self.rejected(Reason::no_content()))
            }
            page => Ok((key, self.parsed.group, page)),
        }
    }

    fn document_with(
        &self,
        judged: Option<(Fingerprint, Option<Sketch>)>,
        hash: Option<u128>,
    ) -> Result<Document, Rejected> {
        let key = match (self.id, self.key()) {
            (None, Some(key)) => Cow::Borrowed(key),
            (None, None) => return Err(self.rejected(Reason::NoKey)),
            (Some(id), key) => {
                let text = hash.filter(|_| judged.is_none() || self.keeps_hash);
                let numbered = NumberedKey { id, text, key };
                Cow::Owned(numbered.into())
            }
        };
        let Parsed {
            seen,
            repeats,
            rank,
            scope,
            payload,
            ..
        } = &self.parsed;
        let mut document = Document::new(key, judged.map(|(fingerprint, _)| fingerprint))
            .with_sketch(judged.and_then(|(_, sketch)| sketch))
            .with_repeats(*repeats)
            .with_rank(rank.as_slice())
            .with_scope(scope)
            .with_payload(payload.as_slice());
        if let Some(seen) = *seen {
            document = document.with_seen(seen);
        }
        match document.validate() {
            Ok(()) => Ok(document),
            Err(error) => Err(self.rejected(Reason::Document(error))),
        }
    }

    /// The hash of the text as it came, if a place names the document. It tells texts apart that have no fingerprint.
    fn hash_for_key(&self) -> Option<u128> {
        self.id?;
        match &self.parsed.content {
            Content::Text(text) => Some(xxh3_128_with_seed(text.as_bytes(), 0)),
            Content::Html(html) => Some(xxh3_128_with_seed(html.as_bytes(), 1)),
            Content::Xhtml(page) => Some(xxh3_128_with_seed(page.as_bytes(), 2)),
            Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => None,
        }
    }

    fn rejected(&self, reason: Reason) -> Rejected {
        self.position.rejected(reason, self.id)
    }
}

/// Whether the key of a record of this format is the path of its file, perhaps with a number.
fn is_named_by_path(format: InputFormat) -> bool {
    matches!(
        format,
        InputFormat::Auto | InputFormat::Text | InputFormat::Lines
    )
}

/// The units of a record, in order: records of one paragraph or one sentence, or the whole record. The key of a
/// paragraph or a sentence is that of the record, `#`, and its number, from 1.
///
/// # Example
///
/// ```
/// use simdb::Unit;
/// use simdb::ingest::{ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
///
/// std::fs::write(&path, "page\tThe river rose. Schools stay closed.\n")?;
/// let mut records = Records::open([&path], ReadOptions::new().unit(Unit::Sentence))?;
/// let mut keys = Vec::new();
/// for units in records.next_chunk(|record| Ok::<_, simdb::Error>(record.into_units()?))? {
///     for unit in units? {
///         keys.push(unit.key().map(<[u8]>::to_vec));
///     }
/// }
/// assert_eq!(keys, [Some(b"page#1".to_vec()), Some(b"page#2".to_vec())]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Units(State);

enum State {
    Whole(Option<Box<Record>>),
    Cut {
        /// The record without its text.
        record: Box<Record>,
        text: String,
        ranges: Enumerate<IntoIter<Range<usize>>>,
    },
}

impl Record {
    /// Cuts the record into the units that [`ReadOptions::unit`](super::ReadOptions::unit) names.
    ///
    /// # Errors
    ///
    /// For paragraphs and sentences: [`Reason::NothingToCut`] if the record brings no text, and
    /// [`Reason::TooManyUnits`] if it has more than 1,048,576 units.
    pub fn into_units(mut self) -> Result<Units, Rejected> {
        let unit = self.unit;
        if unit == Unit::Document {
            return Ok(Units(State::Whole(Some(Box::new(self)))));
        }
        // The text is not copied for each unit.
        let text = self.take_text()?;
        let ranges = unit.ranges(&text, MOST_UNITS + 1);
        if ranges.len() > MOST_UNITS {
            return Err(self.rejected(Reason::TooManyUnits {
                unit,
                max_units: MOST_UNITS,
            }));
        }
        Ok(Units(State::Cut {
            record: Box::new(self),
            text,
            ranges: ranges.into_iter().enumerate(),
        }))
    }

    /// The text that is cut into paragraphs or sentences: of a page the visible text.
    ///
    /// # Errors
    ///
    /// [`Reason::NothingToCut`] if the record brings no text.
    pub fn into_text(mut self) -> Result<String, Rejected> {
        self.take_text()
    }

    fn take_text(&mut self) -> Result<String, Rejected> {
        match mem::replace(&mut self.parsed.content, Content::TooShort) {
            Content::Text(text) => Ok(text),
            other => match other.text(visible_paragraphs) {
                Some(text) => Ok(text.into_owned()),
                None => Err(self.rejected(Reason::NothingToCut { unit: self.unit })),
            },
        }
    }
}

impl Iterator for Units {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        match &mut self.0 {
            State::Whole(record) => record.take().map(|record| *record),
            State::Cut {
                record,
                text,
                ranges,
            } => {
                let (index, range) = ranges.next()?;
                let key = unit_key(record.key().unwrap_or_default(), index + 1);
                let mut unit = (**record).clone();
                unit.parsed.key = Some(key);
                unit.parsed.content = Content::Text(text[range].to_owned());
                Some(unit)
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match &self.0 {
            State::Whole(record) => record.iter().size_hint(),
            State::Cut { ranges, .. } => ranges.size_hint(),
        }
    }
}

impl ExactSizeIterator for Units {}

impl fmt::Debug for Units {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Units")
            .field("left", &self.len())
            .finish_non_exhaustive()
    }
}

/// The number of lines of a text that may be a list of documents, one in each line: a thousand short lines and more,
/// with hardly an empty one between them. A novel has paragraphs, or long lines.
fn lines_if_list(text: &str) -> Option<u64> {
    const LEAST_LINES: usize = 1_000;
    const MOST_MEAN_BYTES: usize = 200;
    let all = memchr::memchr_iter(b'\n', text.as_bytes()).count();
    if all < LEAST_LINES || text.len() > all * MOST_MEAN_BYTES {
        return None;
    }
    let filled = text.lines().filter(|line| !line.trim().is_empty()).count();
    (filled >= LEAST_LINES && (all - filled.min(all)) * 50 < all).then_some(filled as u64)
}

/// What a record gives to a database.
pub(super) enum Documents {
    Whole {
        document: Document,
        /// The number of its lines, if each of them may be a document. Nobody has said that the file is one.
        lines: Option<u64>,
    },
    /// The documents of its units.
    Cut {
        /// The document of number 0. It has no fingerprint, and tells the number of units. Without it, nobody could
        /// find the old units of a document that comes again with fewer, because units that are too short, or
        /// were skipped, leave gaps in the numbers.
        head: Document,
        /// The number of units.
        count: usize,
        /// The units that are not too short to judge, without payload.
        judged: Vec<Document>,
        /// The payload of each unit. It is here once, because it can be large.
        payload: Vec<u8>,
    },
}

/// Sees each document with its text, on any thread.
pub(super) type OnText = SharedFn<dyn Fn(&Document, &str) + Send + Sync>;

/// The document of a record, or of a unit of one. `on_text` sees it with its text.
fn document_of(
    record: Record,
    rule: Fingerprinting,
    on_text: Option<&OnText>,
) -> Result<Document, Rejected> {
    let Some(on_text) = on_text else {
        return record.into_document(rule);
    };
    // A page is read once, for its fingerprint and its text.
    let record = record.into_plain(rule);
    let judged = record.fingerprint_and_sketch(rule)?;
    let document = record.document_with(judged, record.hash_for_key())?;
    if let Some(text) = record.text(rule) {
        on_text(&document, &text);
    }
    Ok(document)
}

impl Documents {
    /// Makes the documents. `on_text` sees each with its text, but for the head of units.
    pub(super) fn new(
        mut record: Record,
        rule: Fingerprinting,
        on_text: Option<&OnText>,
    ) -> Result<Self, Rejected> {
        if record.unit == Unit::Document {
            let lines = record.lines_of_list();
            let document = document_of(record, rule, on_text)?;
            return Ok(Self::Whole { document, lines });
        }
        // Checks the payload too, and finds the time that all units have.
        let whole = record.document_with(None, record.hash_for_key())?;
        record.parsed.seen = Some(whole.seen());
        record.parsed.payload.clear();
        let units = record.into_units()?;
        let count = units.len();
        let mut judged = Vec::new();
        for unit in units {
            let document = document_of(unit, rule, on_text)?;
            if document.fingerprint().is_some() {
                judged.push(document);
            }
        }
        let head = Document::new(unit_key(whole.key(), 0), None)
            .with_seen(whole.seen())
            .with_scope(whole.scope())
            .with_payload(json!({ "units": count }).to_string());
        Ok(Self::Cut {
            head,
            count,
            judged,
            payload: whole.payload().to_vec(),
        })
    }
}

/// The keys of the units that the document of this head can have, apart from the head.
pub(super) fn keys_of(head: &Document) -> impl Iterator<Item = Vec<u8>> {
    let payload: Value = serde_json::from_slice(head.payload()).unwrap_or_default();
    let count = payload["units"].as_u64().unwrap_or_default();
    // Someone else may have written the payload.
    let count = usize::try_from(count).unwrap_or(MOST_UNITS).min(MOST_UNITS);
    let key = head.key().strip_suffix(b"#0").unwrap_or_default().to_vec();
    (1..=count).map(move |number| unit_key(&key, number))
}

/// Which contents a database takes. It takes texts if its scheme makes fingerprints from texts. It takes
/// ready fingerprints if its scheme does not, or if the caller has named the scheme that made them.
///
/// # Example
///
/// ```
/// use simdb::Scheme;
/// use simdb::ingest::{Fingerprinting, Reason, ReadOptions, Records};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.jsonl");
///
/// let lines = [r#"{"key": "a", "text": "one two"}"#, r#"{"key": "b", "fingerprint": "00000000000000ff"}"#];
/// std::fs::write(&path, lines.join("\n"))?;
/// let rule = Fingerprinting::new(Scheme::Minwise1, None)?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// let documents = records.next_chunk(|record| record.into_document(rule))?;
/// assert!(documents[0].is_ok());
/// // Nobody has said how that fingerprint was made.
/// let rejected = documents[1].as_ref().expect_err("a ready fingerprint");
/// assert!(matches!(rejected.reason, Reason::FingerprintInScheme { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Fingerprinting {
    scheme: Scheme,
    fingerprinter: Option<Fingerprinter>,
    takes_ready: bool,
    sketch_size: SketchSize,
    needs_sketches: bool,
    stores: bool,
}

impl Fingerprinting {
    /// The rule for a database of the scheme `stored`. If `named` is given, ready fingerprints are of that
    /// scheme.
    ///
    /// # Errors
    ///
    /// [`Error::SchemeMismatch`] if `named` is another scheme than `stored`.
    pub fn new(stored: Scheme, named: Option<Scheme>) -> Result<Self, Error> {
        if let Some(given) = named.filter(|&named| named != stored) {
            return Err(Error::SchemeMismatch {
                stored: stored.name(),
                given: given.name(),
            });
        }
        let fingerprinter = Fingerprinter::new(stored).ok();
        let rule = Self {
            scheme: stored,
            fingerprinter,
            takes_ready: fingerprinter.is_none() || named.is_some(),
            sketch_size: SketchSize::None,
            needs_sketches: false,
            stores: false,
        };
        Ok(rule.sketch_size(SketchSize::default()))
    }

    /// The size of the sketches that are made or taken. Default: 16 bytes.
    #[must_use]
    pub fn sketch_size(mut self, size: SketchSize) -> Self {
        self.sketch_size = size;
        self.fingerprinter = self.fingerprinter.map(|made| made.with_sketch_size(size));
        self
    }

    /// Whether a ready fingerprint without a sketch is refused. Default: false.
    #[must_use]
    pub fn needs_sketches(mut self, needs_sketches: bool) -> Self {
        self.needs_sketches = needs_sketches;
        self
    }

    /// Whether what is made is stored. Then a ready fingerprint without a sketch is refused where texts are compared by
    /// sketches. Default: false, for questions.
    #[must_use]
    pub fn stores(mut self, stores: bool) -> Self {
        self.stores = stores;
        self
    }

    /// The text of a content: of a page, what the scheme reads, and the visible text if fingerprints are made
    /// elsewhere. `None` if the content has a fingerprint or features in place of a text.
    fn text_of(self, content: &Content) -> Option<Cow<'_, str>> {
        content.text(|page, syntax| match self.fingerprinter {
            Some(made) => made.text_of_page(page, syntax),
            None => visible_text(page, syntax),
        })
    }

    /// As [`judge`](Self::judge), of a content that nobody else needs. A page is gone before its text is read, and a
    /// text before its features are compared.
    fn judge_owned(
        self,
        content: Content,
    ) -> Result<Option<(Fingerprint, Option<Sketch>)>, Reason> {
        let Some(made) = self.fingerprinter else {
            return self.judge(&content);
        };
        let text = match content {
            Content::Text(text) => text,
            other => match self.text_of(&other) {
                Some(text) => text.into_owned(),
                None => return self.judge(&other),
            },
        };
        Ok(made.fingerprint_and_sketch_of(text))
    }

    /// Whether a fingerprint is made from a content that is a text, whatever text it is.
    fn makes_from(self, content: &Content) -> bool {
        let is_text = matches!(
            content,
            Content::Text(_) | Content::Html(_) | Content::Xhtml(_)
        );
        is_text && self.fingerprinter.is_some()
    }

    /// The fingerprint and the sketch of a content, or the reason why the database does not take the content.
    fn judge(self, content: &Content) -> Result<Option<(Fingerprint, Option<Sketch>)>, Reason> {
        match (content, self.fingerprinter) {
            (Content::TooShort, _) => Ok(None),
            (Content::Fingerprint(..), _) if !self.takes_ready => {
                Err(Reason::FingerprintInScheme {
                    scheme: self.scheme,
                })
            }
            (Content::Fingerprint(_, None), _)
                if self.stores && self.scheme.compares_sketches(self.sketch_size) =>
            {
                Err(Reason::Document(Error::SketchMissing {
                    bytes: self.sketch_size.bytes(),
                }))
            }
            (Content::Fingerprint(_, None), _) if self.needs_sketches => {
                Err(Reason::Document(Error::NoSketch))
            }
            (Content::Fingerprint(_, Some(sketch)), _) if sketch.size() != self.sketch_size => {
                Err(Reason::Document(Error::SketchSizes {
                    stored: self.sketch_size.bytes(),
                    given: sketch.size().bytes(),
                }))
            }
            (Content::Fingerprint(fingerprint, sketch), _) => Ok(Some((*fingerprint, *sketch))),
            (_, None) => Err(Reason::TextInExternal),
            (Content::Features(features), Some(fingerprinter)) => {
                let features = features.iter().map(|(feature, weight)| (feature, *weight));
                fingerprinter
                    .fingerprint_and_sketch_features(features)
                    .map_err(Reason::Document)
            }
            (Content::Text(_) | Content::Html(_) | Content::Xhtml(_), Some(fingerprinter)) => {
                let text = self.text_of(content);
                Ok(text.and_then(|text| fingerprinter.fingerprint_and_sketch(&text)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_rejected_record_is_named_by_its_input_and_line() {
        let content = RawContent::Bytes(b"{\"id\":1}".to_vec());
        let raw = Raw::new(0, Path::new("in"), Some(7), InputFormat::Jsonl, content);
        let rejected = Record::parse(raw, &ReadOptions::new())
            .err()
            .map(|rejected| rejected.to_string());
        assert!(rejected.is_some_and(|message| message.starts_with("in, line 7: the record has no content")));
    }

    fn units(line: &str, unit: Unit) -> Result<Vec<(String, Content)>, String> {
        let content = RawContent::Bytes(line.as_bytes().to_vec());
        let raw = Raw::new(0, Path::new("in"), Some(7), InputFormat::Jsonl, content);
        let record = Record::parse(raw, &ReadOptions::new().unit(unit))
            .map_err(|rejected| rejected.to_string())?;
        let record = record.expect("a line is a record");
        let units = record
            .into_units()
            .map_err(|rejected| rejected.to_string())?;
        let key =
            |unit: &Record| String::from_utf8_lossy(unit.key().unwrap_or_default()).into_owned();
        Ok(units
            .map(|unit| (key(&unit), unit.parsed.content))
            .collect())
    }

    #[test]
    fn keys_tell_the_place() {
        let text = |key: &str, text: &str| (key.to_owned(), Content::Text(text.to_owned()));
        let line = r#"{"id":"a","text":"One two. Three?\n\nFour"}"#;
        assert_eq!(
            units(line, Unit::Document),
            Ok(vec![text("a", "One two. Three?\n\nFour")])
        );
        assert_eq!(
            units(line, Unit::Paragraph),
            Ok(vec![text("a#1", "One two. Three?"), text("a#2", "Four")])
        );
        let sentences = vec![
            text("a#1", "One two."),
            text("a#2", "Three?"),
            text("a#3", "Four"),
        ];
        assert_eq!(units(line, Unit::Sentence), Ok(sentences.clone()));
        let page = r#"{"id":"a","html":"<p>One two. Three?</p>\n<script>x.</script><div>Four"}"#;
        assert_eq!(units(page, Unit::Sentence), Ok(sentences));
        assert_eq!(
            units(r#"{"text":"One."}"#, Unit::Sentence),
            Ok(vec![text("#1", "One.")])
        );
    }

    #[test]
    fn only_texts_are_cut() {
        for line in [
            r#"{"id":1,"fingerprint":"00000000000000ff"}"#,
            r#"{"id":1,"too_short":true}"#,
        ] {
            let reason = units(line, Unit::Sentence).err().unwrap_or_default();
            assert!(
                reason.starts_with("in, line 7: the record brings no text"),
                "{reason}"
            );
        }
        let many = format!(r#"{{"id":1,"text":"{}"}}"#, "A. ".repeat(MOST_UNITS + 1));
        let reason = units(&many, Unit::Sentence).err().unwrap_or_default();
        assert!(
            reason.contains("has more than 1048576 sentences"),
            "{reason}"
        );
    }

    #[test]
    fn a_list_has_many_short_lines_and_no_paragraphs() {
        let line = "a title of some words\n";
        assert_eq!(lines_if_list(&line.repeat(1_000)), Some(1_000));
        assert_eq!(lines_if_list(&line.repeat(999)), None);
        assert_eq!(
            lines_if_list(&format!("{line}\n").repeat(1_000)),
            None,
            "each is a paragraph"
        );
        assert_eq!(
            lines_if_list(&format!("{}\n", line.repeat(10)).repeat(200)),
            None,
            "stanzas"
        );
        assert_eq!(
            lines_if_list(&format!("{}\n", "a long line ".repeat(30)).repeat(2_000)),
            None
        );
    }

    #[test]
    fn ready_fingerprints_and_texts_go_only_where_they_belong() -> Result<(), Error> {
        let ready = Content::Fingerprint(Fingerprint::from_bits(255), None);
        let text = Content::Text("some text".to_owned());
        let external = Fingerprinting::new(Scheme::External, None)?;
        let made_here = Fingerprinting::new(Scheme::Simhash1, None)?;
        let vouched_for = Fingerprinting::new(Scheme::Simhash1, Some(Scheme::Simhash1))?;
        assert!(external.judge(&ready).is_ok());
        assert!(vouched_for.judge(&ready).is_ok());
        assert!(
            vouched_for
                .sketch_size(SketchSize::None)
                .stores(true)
                .judge(&ready)
                .is_ok()
        );
        assert!(external.stores(true).judge(&ready).is_ok());
        assert!(matches!(
            vouched_for.stores(true).judge(&ready),
            Err(Reason::Document(Error::SketchMissing { bytes: 16 }))
        ));
        assert!(made_here.judge(&text).is_ok());
        assert!(matches!(
            made_here.judge(&ready),
            Err(Reason::FingerprintInScheme { .. })
        ));
        assert!(matches!(external.judge(&text), Err(Reason::TextInExternal)));
        assert!(Fingerprinting::new(Scheme::Simhash1, Some(Scheme::External)).is_err());
        assert!(matches!(
            external.needs_sketches(true).judge(&ready),
            Err(Reason::Document(Error::NoSketch))
        ));
        let sketched =
            Content::Fingerprint(Fingerprint::from_bits(255), Some(Sketch::new(&[0; 32], 1)?));
        assert!(matches!(
            external.judge(&sketched),
            Err(Reason::Document(Error::SketchSizes { .. }))
        ));
        assert!(
            external
                .sketch_size(SketchSize::Bytes32)
                .judge(&sketched)
                .is_ok()
        );
        Ok(())
    }
}
