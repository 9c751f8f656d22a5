//! The call SIM.OVERLAP: how much of a text stood elsewhere, asked and answered.

use super::call::{Arguments, Call, Refusal, name_of, near_option, write_near, write_option};
use super::reply::{Fields, write_similarity};
use super::resp::{Answers, MOST_REQUEST_BYTES, RequestWriter, Value};
use crate::database::{FirstMatch, Near, Overlap, OverlapDocument, OverlapQuery, OverlapUnit};
use crate::error::{Error, Result};
use crate::sketch::Similarity;
use crate::text::Unit;

/// The longest text that is sent (bytes). The rest of a request is for the options.
const MOST_TEXT_BYTES: usize = MOST_REQUEST_BYTES - (64 << 10);

const UNITS: [(Unit, &str); 3] = [
    (Unit::Sentence, "sentence"),
    (Unit::Paragraph, "paragraph"),
    (Unit::Document, "document"),
];

pub(super) fn read_call(rest: &mut Arguments<'_>) -> Result<Call, Refusal> {
    let text = rest.text("text")?.to_owned();
    let mut query = OverlapQuery::new();
    let mut near = Near::new();
    while let Some(option) = rest.option() {
        match option.as_str() {
            "UNIT" => {
                let otherwise = "UNIT is sentence, paragraph or document";
                query = query.unit(rest.named("unit", &UNITS, otherwise)?);
            }
            "WITHOUT" => query = query.without(rest.bytes("key")?),
            "LIMIT" => query = query.limit(rest.number("limit")?),
            other => near = near_option(near, other, rest)?,
        }
    }
    Ok(Call::Overlap(text, query.near(near)))
}

/// A request for how much of a text stood elsewhere.
///
/// # Errors
///
/// [`Error::TextLength`] for a text longer than a request can be, and [`Error::RequestLength`].
pub(super) fn overlap_request(text: &str, query: &OverlapQuery) -> Result<Vec<u8>> {
    if text.len() > MOST_TEXT_BYTES {
        return Err(Error::TextLength {
            given: text.len(),
            max: MOST_TEXT_BYTES,
        });
    }
    let OverlapQuery {
        unit,
        near,
        without,
        limit,
    } = query;
    let mut request = RequestWriter::default();
    write_option(&mut request, "SIM.OVERLAP", text);
    write_option(&mut request, "UNIT", name_of(&UNITS, unit));
    if let Some(key) = without {
        request.text("WITHOUT");
        request.text(key);
    }
    write_option(&mut request, "LIMIT", limit);
    write_near(&mut request, near);
    request.finish()
}

pub(super) fn write_overlap(overlap: &Overlap, answers: &mut Answers) {
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

pub(super) fn read_overlap(value: &Value<'_>) -> Result<Overlap, String> {
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
    let wrong = || format!("'{name}' is no pair of numbers");
    let [Value::Integer(first), Value::Integer(second)] = fields.array(name)? else {
        return Err(wrong());
    };
    match (u32::try_from(*first), u32::try_from(*second)) {
        (Ok(first), Ok(second)) => Ok([first, second]),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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

    #[test]
    fn a_text_that_no_request_can_hold_is_refused_before_it_is_sent() {
        let query = OverlapQuery::new().without(vec![b'k'; 1024]);
        let request = |bytes| overlap_request(&"x".repeat(bytes), &query);
        assert!(request(MOST_TEXT_BYTES).is_ok_and(|it| it.len() < MOST_REQUEST_BYTES));
        let refused = request(MOST_TEXT_BYTES + 1);
        assert!(matches!(refused, Err(Error::TextLength { given, max }) if given == max + 1));
    }
}
