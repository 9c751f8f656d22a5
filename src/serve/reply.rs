//! Replies: documents, matches, verdicts and what is told of a database, as the values of an answer, and read from
//! them. docs/protocol.md describes each.

use std::str;

use super::call::{VERSION, kind_of};
use super::resp::{Answers, Value};
use crate::database::{Change, Match, Matches, Verdict};
use crate::document::Document;
use crate::error::{Error, Result};
use crate::sketch::{Similarity, Sketch, SketchSize};
use crate::store::Settings;
use crate::text::Scheme;

#[cfg(feature = "ingest")]
pub(super) use self::overlap::{read_overlap, write_overlap};

/// What a client has to know of a database.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Info {
    pub(super) scheme: Scheme,
    pub(super) max_distance: u32,
    pub(super) min_similarity: Option<f64>,
    pub(super) sketch_size: SketchSize,
    /// The device and the number of the file.
    pub(super) file: (u64, u64),
}

impl Info {
    pub(super) fn new(settings: &Settings, file: (u64, u64)) -> Self {
        Self {
            scheme: settings.scheme,
            max_distance: settings.max_distance,
            min_similarity: settings.min_similarity,
            sketch_size: settings.sketch_size,
            file,
        }
    }

    pub(super) fn write(&self, documents: u64, answers: &mut Answers) {
        answers.map(9);
        answers.field("protocol").integer(VERSION.into());
        answers.field("simdb").text(env!("CARGO_PKG_VERSION"));
        answers.field("process").integer(std::process::id().into());
        answers.field("scheme").text(self.scheme.name());
        answers
            .field("max_distance")
            .integer(self.max_distance.into());
        answers
            .field("min_similarity")
            .optional(self.min_similarity, Answers::decimal);
        answers
            .field("sketch_bytes")
            .integer(self.sketch_size.bytes() as i64);
        answers
            .field("file")
            .text(format!("{}:{}", self.file.0, self.file.1));
        answers.field("documents").integer(documents.cast_signed());
    }

    /// Reads an answer. Says what is wrong with one of another version.
    pub(super) fn read(value: &Value<'_>) -> Result<Self, String> {
        let fields = Fields::of(value)?;
        let protocol: u32 = fields.number("protocol")?;
        if protocol != VERSION {
            return Err(format!(
                "it answers version {protocol} of the protocol, and this process asks by version {VERSION}: use the \
                 same release of simdb for both"
            ));
        }
        let file = fields.text("file")?.split_once(':');
        let file =
            file.and_then(|(device, number)| Some((device.parse().ok()?, number.parse().ok()?)));
        let scheme = fields.text("scheme")?;
        Ok(Self {
            scheme: scheme.parse().map_err(|error: Error| error.to_string())?,
            max_distance: fields.number("max_distance")?,
            min_similarity: fields.optional("min_similarity", Fields::decimal)?,
            sketch_size: SketchSize::from_bytes(fields.number("sketch_bytes")?)
                .ok_or("sketches of another size")?,
            file: file.ok_or("no number of the file")?,
        })
    }
}

const DOCUMENT_FIELDS: usize = 9;

pub(super) fn write_document(document: Option<&Document>, answers: &mut Answers) {
    match document {
        Some(document) => {
            answers.map(DOCUMENT_FIELDS);
            write_fields(document, answers);
        }
        None => answers.null(),
    }
}

fn write_fields(document: &Document, answers: &mut Answers) {
    answers.field("key").text(document.key());
    let fingerprint = document
        .fingerprint()
        .map(|fingerprint| fingerprint.to_string());
    let sketch = document.sketch().map(ToString::to_string);
    let shingles = document.sketch().map(|sketch| sketch.shingles().into());
    answers
        .field("fingerprint")
        .optional(fingerprint, Answers::text);
    answers.field("sketch").optional(sketch, Answers::text);
    answers
        .field("shingles")
        .optional(shingles, Answers::integer);
    answers.field("seen").integer(document.seen());
    answers
        .field("repeats")
        .integer(document.repeats().cast_signed());
    answers.field("rank").array(document.rank().len());
    for rank in document.rank() {
        answers.integer(*rank);
    }
    answers.field("scope").text(document.scope());
    answers.field("payload").text(document.payload());
}

pub(super) fn write_matches(matches: &Matches, answers: &mut Answers) {
    answers.map(3);
    write_match_fields(matches, answers);
}

fn write_match_fields(matches: &Matches, answers: &mut Answers) {
    answers
        .field("total")
        .integer(matches.total().cast_signed());
    answers
        .field("exact")
        .integer(matches.total_is_exact().into());
    answers.field("matches").array(matches.as_slice().len());
    for found in matches {
        answers.map(3 + DOCUMENT_FIELDS);
        answers.field("distance").integer(found.distance.into());
        write_similarity(found.similarity, answers);
        write_fields(&found.document, answers);
    }
}

/// Writes two fields.
fn write_similarity(similarity: Option<Similarity>, answers: &mut Answers) {
    let jaccard = similarity.map(|similarity| similarity.jaccard());
    let containment = similarity.map(|similarity| similarity.containment());
    answers
        .field("similarity")
        .optional(jaccard, Answers::decimal);
    answers
        .field("containment")
        .optional(containment, Answers::decimal);
}

pub(super) fn write_verdict(verdict: &Verdict, answers: &mut Answers) {
    answers.map(6);
    let (change, replaced) = match verdict.change() {
        Change::Inserted => ("inserted", None),
        Change::Replaced(document) => ("replaced", Some(document)),
        Change::Skipped => ("skipped", None),
    };
    answers.field("change").text(change);
    write_match_fields(verdict.matches(), answers);
    answers.field("deleted").array(verdict.deleted().len());
    for document in verdict.deleted() {
        write_document(Some(document), answers);
    }
    write_document(replaced, answers.field("replaced"));
}

/// The named values of a map.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a [Value<'a>]);

impl<'a> Fields<'a> {
    fn of(value: &'a Value<'a>) -> Result<Self, String> {
        match value {
            Value::Array(values) => Ok(Self(values)),
            _ => Err("an answer has no fields".to_owned()),
        }
    }

    /// The value of a name. Others may be there too, of later releases.
    fn value(self, name: &str) -> Result<&'a Value<'a>, String> {
        let (pairs, _) = self.0.as_chunks::<2>();
        for [own, value] in pairs {
            if *own == Value::Text(name.as_bytes()) {
                return Ok(value);
            }
        }
        Err(format!("an answer has no '{name}'"))
    }

    fn bytes(self, name: &str) -> Result<&'a [u8], String> {
        match self.value(name)? {
            Value::Text(bytes) => Ok(bytes),
            _ => Err(format!("'{name}' is no text")),
        }
    }

    fn text(self, name: &str) -> Result<&'a str, String> {
        str::from_utf8(self.bytes(name)?).map_err(|_| format!("'{name}' is no UTF-8"))
    }

    fn number<T: TryFrom<i64>>(self, name: &str) -> Result<T, String> {
        let number = match self.value(name)? {
            Value::Integer(number) => T::try_from(*number).ok(),
            _ => None,
        };
        number.ok_or_else(|| format!("'{name}' is no number that it can be"))
    }

    fn decimal(self, name: &str) -> Result<f64, String> {
        let number = self.text(name)?.parse().ok();
        number.ok_or_else(|| format!("'{name}' is no number"))
    }

    fn array(self, name: &str) -> Result<&'a [Value<'a>], String> {
        match self.value(name)? {
            Value::Array(values) => Ok(values),
            _ => Err(format!("'{name}' is no array")),
        }
    }

    /// What `read` gives, or `None` where there is nothing.
    fn optional<T>(
        self,
        name: &str,
        read: impl FnOnce(Self, &str) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        match self.value(name)? {
            Value::Null => Ok(None),
            _ => read(self, name).map(Some),
        }
    }
}

/// The error that an answer is, or what it is.
pub(super) fn refused(value: Value<'_>) -> Result<Value<'_>> {
    match value {
        Value::Error(line) => {
            let line = String::from_utf8_lossy(line);
            let (code, message) = line.split_once(' ').unwrap_or((&line, ""));
            Err(Error::Served {
                kind: kind_of(code),
                message: message.to_owned(),
            })
        }
        other => Ok(other),
    }
}

pub(super) fn read_document(value: &Value<'_>) -> Result<Option<Document>, String> {
    match value {
        Value::Null => Ok(None),
        _ => document_of(Fields::of(value)?).map(Some),
    }
}

fn document_of(fields: Fields<'_>) -> Result<Document, String> {
    let wrong = |error: Error| error.to_string();
    let fingerprint = fields.optional("fingerprint", |fields, name| {
        fields.text(name)?.parse().map_err(wrong)
    })?;
    let sketch = fields.optional("sketch", |fields, name| {
        Sketch::parse(fields.text(name)?, fields.number("shingles")?).map_err(wrong)
    })?;
    let mut ranks = Vec::new();
    for rank in fields.array("rank")? {
        match rank {
            Value::Integer(rank) => ranks.push(*rank),
            _ => return Err("a rank is no number".to_owned()),
        }
    }
    let repeats = match fields.value("repeats") {
        Ok(_) => fields.number("repeats")?,
        // Earlier releases count none.
        Err(_) => 0,
    };
    let document = Document::new(fields.bytes("key")?, fingerprint)
        .with_sketch(sketch)
        .with_seen(fields.number::<i64>("seen")?)
        .with_repeats(repeats)
        .with_rank(ranks)
        .with_scope(fields.text("scope")?)
        .with_payload(fields.bytes("payload")?);
    Ok(document)
}

/// Reads matches. How similar they are follows from their sketches and that of the question.
pub(super) fn read_matches(value: &Value<'_>, asked: Option<&Sketch>) -> Result<Matches, String> {
    matches_of(Fields::of(value)?, asked)
}

fn matches_of(fields: Fields<'_>, asked: Option<&Sketch>) -> Result<Matches, String> {
    let mut list = Vec::new();
    for value in fields.array("matches")? {
        let found = Fields::of(value)?;
        let document = document_of(found)?;
        let similarity = found.optional("similarity", |_, _| Ok(()))?;
        let similarity = similarity.and_then(|()| asked?.similarity(document.sketch()?).ok());
        list.push(Match::new(document, found.number("distance")?, similarity));
    }
    let exact: i64 = fields.number("exact")?;
    Ok(Matches::new(list, fields.number("total")?, exact != 0))
}

pub(super) fn read_verdict(value: &Value<'_>, asked: Option<&Sketch>) -> Result<Verdict, String> {
    let fields = Fields::of(value)?;
    let change = match fields.text("change")? {
        "inserted" => Change::Inserted,
        "replaced" => {
            let document = read_document(fields.value("replaced")?)?;
            Change::Replaced(document.ok_or("what was replaced is missing")?)
        }
        "skipped" => Change::Skipped,
        other => return Err(format!("the change '{other}' is not known")),
    };
    let deleted = fields.array("deleted")?.iter().map(read_document);
    let deleted: Result<Vec<_>, _> = deleted.collect();
    let deleted = deleted?.into_iter().flatten().collect();
    Ok(Verdict::new(change, matches_of(fields, asked)?, deleted))
}

pub(super) fn read_number(value: &Value<'_>) -> Result<u64, String> {
    match value {
        Value::Integer(number) => u64::try_from(*number).map_err(|_| "less than 0".to_owned()),
        _ => Err("an answer is no number".to_owned()),
    }
}

/// The answer to SIM.OVERLAP: how much of a text stood elsewhere.
#[cfg(feature = "ingest")]
mod overlap {
    use super::{Answers, Fields, Value, write_similarity};
    use crate::database::{FirstMatch, Overlap, OverlapDocument, OverlapUnit};
    use crate::sketch::Similarity;

    pub(crate) fn write_overlap(overlap: &Overlap, answers: &mut Answers) {
        answers.map(8);
        let numbers = [
            ("judged", overlap.judged),
            ("too_short", overlap.too_short),
            ("found", overlap.found),
            ("characters", overlap.characters),
            ("found_characters", overlap.found_characters),
            ("total_documents", overlap.total_documents),
        ];
        for (name, number) in numbers {
            answers.text(name);
            answers.integer(number.cast_signed());
        }
        answers.field("documents").array(overlap.documents.len());
        for document in &overlap.documents {
            write_document(document, answers);
        }
        answers.field("units").array(overlap.units.len());
        for unit in &overlap.units {
            write_unit(unit, answers);
        }
    }

    fn write_document(document: &OverlapDocument, answers: &mut Answers) {
        answers.map(6);
        answers.field("key").text(&document.key);
        answers.field("units").integer(document.units.cast_signed());
        answers
            .field("characters")
            .integer(document.characters.cast_signed());
        answers.field("share").decimal(document.share);
        answers
            .field("first_units")
            .integer(document.first_units.cast_signed());
        answers.field("seen").integer(document.seen);
    }

    fn write_unit(unit: &OverlapUnit, answers: &mut Answers) {
        answers.map(5);
        answers.field("start").integer(unit.range.start as i64);
        answers.field("end").integer(unit.range.end as i64);
        answers
            .field("characters")
            .integer(unit.characters.cast_signed());
        answers.field("too_short").integer(unit.is_too_short.into());
        answers.field("first");
        let Some(first) = unit.first() else {
            return answers.null();
        };
        answers.map(7);
        answers.field("key").text(&first.key);
        answers.field("seen").integer(first.seen);
        answers.field("distance").integer(first.distance.into());
        let similarity = first.similarity;
        write_similarity(similarity, answers);
        let parts = similarity.as_ref().map(Similarity::parts);
        write_pair(parts.map(|(bits, _)| bits), answers.field("sketch_bits"));
        write_pair(
            parts.map(|(_, shingles)| shingles),
            answers.field("shingles"),
        );
    }

    fn write_pair(pair: Option<[u32; 2]>, answers: &mut Answers) {
        let Some(pair) = pair else {
            return answers.null();
        };
        answers.array(pair.len());
        for number in pair {
            answers.integer(number.into());
        }
    }

    pub(crate) fn read_overlap(value: &Value<'_>) -> Result<Overlap, String> {
        let fields = Fields::of(value)?;
        let mut overlap = Overlap {
            judged: fields.number("judged")?,
            too_short: fields.number("too_short")?,
            found: fields.number("found")?,
            characters: fields.number("characters")?,
            found_characters: fields.number("found_characters")?,
            total_documents: fields.number("total_documents")?,
            ..Overlap::default()
        };
        for document in fields.array("documents")? {
            overlap
                .documents
                .push(read_document(Fields::of(document)?)?);
        }
        for unit in fields.array("units")? {
            overlap.units.push(read_unit(Fields::of(unit)?)?);
        }
        Ok(overlap)
    }

    fn read_document(fields: Fields<'_>) -> Result<OverlapDocument, String> {
        Ok(OverlapDocument {
            key: fields.bytes("key")?.to_vec(),
            units: fields.number("units")?,
            characters: fields.number("characters")?,
            share: fields.decimal("share")?,
            first_units: fields.number("first_units")?,
            seen: fields.number("seen")?,
        })
    }

    fn read_unit(fields: Fields<'_>) -> Result<OverlapUnit, String> {
        let first = fields.optional("first", |fields, name| {
            read_first(Fields::of(fields.value(name)?)?)
        })?;
        let range = fields.number("start")?..fields.number("end")?;
        let is_too_short = fields.number::<i64>("too_short")? != 0;
        let characters = fields.number("characters")?;
        Ok(OverlapUnit::new(range, characters, is_too_short, first))
    }

    fn read_first(fields: Fields<'_>) -> Result<FirstMatch, String> {
        let similarity = fields.optional("sketch_bits", |fields, name| {
            let parts = (read_pair(fields, name)?, read_pair(fields, "shingles")?);
            Similarity::of_parts(parts).ok_or_else(|| "no sketches are as similar".to_owned())
        })?;
        Ok(FirstMatch {
            key: fields.bytes("key")?.to_vec(),
            seen: fields.number("seen")?,
            distance: fields.number("distance")?,
            similarity,
        })
    }

    fn read_pair(fields: Fields<'_>, name: &str) -> Result<[u32; 2], String> {
        if let [Value::Integer(first), Value::Integer(second)] = fields.array(name)?
            && let Ok(first) = u32::try_from(*first)
            && let Ok(second) = u32::try_from(*second)
        {
            return Ok([first, second]);
        }
        Err(format!("'{name}' is no pair of numbers"))
    }

    #[cfg(test)]
    mod tests {
        use super::*;
        use crate::error::Result;
        use crate::sketch::Sketch;

        /// An answer with everything that can be in one.
        fn whole() -> Result<Overlap> {
            let sketch = Sketch::new(&[3; 32], 70)?;
            let first = |similarity| FirstMatch {
                key: b"\xff\r\n#7".to_vec(),
                seen: -1,
                distance: 3,
                similarity,
            };
            let similarity = sketch.similarity(&Sketch::new(&[1; 32], 80)?)?;
            let mut overlap = Overlap {
                judged: 2,
                too_short: 1,
                found: 2,
                characters: 3,
                found_characters: 1,
                total_documents: 9,
                ..Overlap::default()
            };
            overlap.documents.push(OverlapDocument {
                key: b"\xff\r\n".to_vec(),
                units: 2,
                characters: 1,
                share: 1.0 / 3.0,
                first_units: 1,
                seen: i64::MIN,
            });
            overlap.units = vec![
                OverlapUnit::new(0..7, 7, true, None),
                OverlapUnit::new(9..20, 10, false, Some(first(Some(similarity)))),
                OverlapUnit::new(20..22, 1, false, Some(first(None))),
            ];
            Ok(overlap)
        }

        #[test]
        fn an_overlap_is_read_as_it_was_written() -> Result<(), Box<dyn std::error::Error>> {
            for overlap in [Overlap::default(), whole()?] {
                let mut answers = Answers::default();
                write_overlap(&overlap, &mut answers);
                let bytes = std::mem::take(answers.bytes());
                assert_eq!(read_overlap(&Value::parse(&bytes)?)?, overlap);
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    fn written(write: impl FnOnce(&mut Answers)) -> Vec<u8> {
        let mut answers = Answers::default();
        write(&mut answers);
        std::mem::take(answers.bytes())
    }

    fn documents() -> Result<[Document; 2]> {
        let plain = Document::new("a", None).with_seen(-3);
        let whole = Document::new(&b"\xff\r\n"[..], Fingerprint::from_bits(9))
            .with_sketch(Sketch::new(&[1; 32], 80)?)
            .with_seen(1_700_000_000)
            .with_repeats(12)
            .with_rank([1, i64::MIN])
            .with_scope("ü")
            .with_payload(&b"\0\r\n"[..]);
        Ok([plain, whole])
    }

    #[test]
    fn a_verdict_is_read_as_it_was_written() -> TestResult {
        let [plain, whole] = documents()?;
        let asked = Sketch::new(&[3; 32], 70)?;
        let sketch = whole.sketch().ok_or("it has one")?;
        let list = vec![
            Match::new(whole.clone(), 3, Some(asked.similarity(sketch)?)),
            Match::new(plain.clone(), 4, None),
        ];
        let matches = Matches::new(list, 7, false);
        let verdicts = [
            Verdict::new(Change::Inserted, Matches::default(), Vec::new()),
            Verdict::new(Change::Skipped, matches.clone(), Vec::new()),
            Verdict::new(Change::Replaced(whole), matches.clone(), vec![plain]),
        ];
        for verdict in verdicts {
            let bytes = written(|answers| write_verdict(&verdict, answers));
            let value = Value::parse(&bytes)?;
            assert_eq!(read_verdict(&value, Some(&asked))?, verdict);
        }
        let bytes = written(|answers| write_matches(&matches, answers));
        let value = Value::parse(&bytes)?;
        assert_eq!(read_matches(&value, Some(&asked))?, matches);
        Ok(())
    }

    #[test]
    fn documents_and_what_is_told_of_a_database_are_read_as_they_were_written() -> TestResult {
        for document in documents()? {
            let bytes = written(|answers| write_document(Some(&document), answers));
            let value = Value::parse(&bytes)?;
            assert_eq!(read_document(&value)?, Some(document));
        }
        let bytes = written(|answers| write_document(None, answers));
        let value = Value::parse(&bytes)?;
        assert_eq!(read_document(&value)?, None);
        let info = Info {
            scheme: Scheme::External,
            max_distance: 8,
            min_similarity: Some(0.7),
            sketch_size: SketchSize::Bytes32,
            file: (5, u64::MAX),
        };
        let bytes = written(|answers| info.write(12, answers));
        let value = Value::parse(&bytes)?;
        assert_eq!(Info::read(&value)?, info);
        Ok(())
    }

    #[test]
    fn what_is_no_answer_is_an_error_and_no_panic() {
        let text = |text: &'static str| Value::Text(text.as_bytes());
        let odd = [
            Value::Null,
            text("x"),
            Value::Array(vec![text("change")]),
            Value::Array(vec![text("change"), text("gone")]),
            Value::Array(vec![Value::Null, Value::Null]),
        ];
        for value in odd {
            assert!(read_verdict(&value, None).is_err());
            assert!(read_matches(&value, None).is_err());
            assert!(Info::read(&value).is_err());
            assert!(read_number(&value).is_err());
        }
    }

    #[test]
    fn another_version_is_said() {
        let other = [Value::Text(b"protocol"), Value::Integer(9)];
        let read = Info::read(&Value::Array(other.to_vec()));
        assert!(read.is_err_and(|reason| reason.contains("version 9")));
    }
}
