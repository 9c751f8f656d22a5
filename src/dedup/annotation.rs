//! Annotations: what is said of each record that was judged, for those who weight records and drop none. The list of
//! them, in the order of the records, and how one is written into a record.

use std::collections::HashMap;
use std::io::{self, Read, Write};

use serde_json::Value;

use super::layout::Layout;
use super::removed_list::{RemovedRow, RemovedRows};
use super::verdicts::rounded;
use super::work::{InOrder, Work, write_durably};
use crate::database::Snapshot;
use crate::error::{Result, path_name};
use crate::ingest::{NumberedKey, RecordId, without_marks};
#[cfg(feature = "parquet")]
use crate::parquet::GroupRow;

/// The name of the list in the folder of the work.
const ANNOTATIONS: &str = "annotations";

/// What is said of a record.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Annotation {
    /// The number of its group, from 1, in the order of the first records of groups.
    group: u64,
    /// The records of the group. A document of the database that was named counts too, if it is the survivor.
    size: u64,
    survives: bool,
    /// The key of the survivor, or the path of its input, a colon and its number.
    survivor: String,
    distance: u32,
    /// `None` for what survives, and for what was not compared by a sketch.
    similarity: Option<f32>,
}

const NAMES: [&str; 6] = [
    "dedup_group",
    "dedup_size",
    "dedup_survives",
    "dedup_survivor",
    "dedup_distance",
    "dedup_similarity",
];

impl Annotation {
    /// The line of a record with the fields at the end of its object. `None` if it is no object.
    pub(super) fn write_into(&self, line: &[u8]) -> Option<Vec<u8>> {
        with_fields(line, |name| NAMES.contains(&name), &self.fields())
    }

    fn fields(&self) -> String {
        let values: [Value; NAMES.len()] = [
            self.group.into(),
            self.size.into(),
            self.survives.into(),
            self.survivor.as_str().into(),
            self.distance.into(),
            self.similarity.map(rounded).into(),
        ];
        let mut fields = String::new();
        for (name, value) in NAMES.iter().zip(values) {
            if !fields.is_empty() {
                fields.push(',');
            }
            fields += &format!("\"{name}\":{value}");
        }
        fields
    }

    #[cfg(feature = "parquet")]
    pub(super) fn into_row(self) -> GroupRow {
        GroupRow {
            group: self.group,
            size: self.size,
            survives: self.survives,
            survivor: self.survivor,
            distance: self.distance,
            similarity: self.similarity.map(rounded),
        }
    }
}

/// Which survivor is meant.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum SurvivorId<'v> {
    Record(RecordId),
    /// The document of this key in the database that was named.
    Known(&'v [u8]),
}

impl<'v> SurvivorId<'v> {
    fn of(row: &RemovedRow, verdicts: &'v RemovedRows) -> Self {
        match row.survivor {
            Some(id) => Self::Record(id),
            None => Self::Known(verdicts.survivor_key(row).unwrap_or_default()),
        }
    }
}

/// A group while records are gone through.
struct Group {
    /// 0 before its first record.
    number: u64,
    size: u64,
}

/// Writes what is said of each record that was judged into the folder of the work. Returns their number.
pub(super) fn write(
    work: &Work,
    layout: &Layout,
    snapshot: &Snapshot,
    verdicts: &RemovedRows,
) -> Result<u64> {
    let mut groups: HashMap<SurvivorId<'_>, Group> = HashMap::new();
    for row in &verdicts.rows {
        let group = groups
            .entry(SurvivorId::of(row, verdicts))
            .or_insert(Group { number: 0, size: 1 });
        group.size += 1;
    }
    let mut rows = verdicts.rows.iter().peekable();
    let mut last = 0;
    let mut count = 0;
    write_durably(&work.path(ANNOTATIONS), |out| {
        for document in snapshot.documents() {
            let document = match document {
                Ok(document) => document,
                Err(error) => return Ok(Err(error)),
            };
            let Some(numbered) = NumberedKey::of_bytes(document.key()) else {
                continue;
            };
            let row = rows.next_if(|row| row.id == numbered.id);
            let survivor = match row {
                Some(row) => SurvivorId::of(row, verdicts),
                None => SurvivorId::Record(numbered.id),
            };
            let alone = &mut Group { number: 0, size: 1 };
            let group = groups.get_mut(&survivor).unwrap_or(alone);
            if group.number == 0 {
                last += 1;
                group.number = last;
            }
            let survivor_key = match row {
                Some(row) => verdicts.survivor_key(row),
                None => numbered.key,
            };
            let annotation = Annotation {
                group: group.number,
                size: group.size,
                survives: row.is_none(),
                survivor: name_of(survivor, survivor_key, layout),
                distance: row.map_or(0, |row| row.distance),
                similarity: row
                    .and_then(|row| row.similarity)
                    .map(|similarity| similarity as f32),
            };
            write_row(numbered.id, &annotation, out)?;
            count += 1;
        }
        // Rows and documents are in the order of their places, so each row has met its document.
        assert!(
            rows.peek().is_none(),
            "the documents of a cleaning are not in the order of their records"
        );
        Ok(Ok(count))
    })?
}

/// What a survivor is called: its key. If it has none that is text, its place.
fn name_of(survivor: SurvivorId<'_>, key: Option<&[u8]>, layout: &Layout) -> String {
    if let Some(key) = key
        && let Ok(key) = std::str::from_utf8(key)
        && !key.is_empty()
    {
        return key.to_owned();
    }
    match survivor {
        SurvivorId::Record(id) => {
            let (path, _) = layout.place_of(id);
            format!("{}:{}", path_name(path), id.number)
        }
        SurvivorId::Known(key) => key.escape_ascii().to_string(),
    }
}

/// No similarity, in the bytes of a row. A similarity is from 0 to 1.
const NO_SIMILARITY: f32 = -1.0;

fn write_row(id: RecordId, annotation: &Annotation, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&<[u8; RecordId::BYTES]>::from(id))?;
    out.write_all(&annotation.group.to_le_bytes())?;
    out.write_all(&annotation.size.to_le_bytes())?;
    out.write_all(&annotation.distance.to_le_bytes())?;
    let similarity = annotation.similarity.unwrap_or(NO_SIMILARITY);
    out.write_all(&similarity.to_le_bytes())?;
    out.write_all(&[u8::from(annotation.survives)])?;
    let survivor = annotation.survivor.as_bytes();
    out.write_all(&(survivor.len() as u64).to_le_bytes())?;
    out.write_all(survivor)
}

/// The annotations of a run. A record that could not be judged has none.
pub(super) fn annotations(work: &Work) -> Result<InOrder<Annotation>> {
    InOrder::open(work.path(ANNOTATIONS), read_row)
}

/// Reads what stands behind the place of a record.
fn read_row(rows: &mut dyn Read) -> io::Result<Annotation> {
    let group = u64::from_le_bytes(bytes(rows)?);
    let size = u64::from_le_bytes(bytes(rows)?);
    let distance = u32::from_le_bytes(bytes(rows)?);
    let similarity = f32::from_le_bytes(bytes(rows)?);
    let [survives] = bytes(rows)?;
    let length = u64::from_le_bytes(bytes(rows)?);
    let mut survivor = String::new();
    rows.take(length).read_to_string(&mut survivor)?;
    Ok(Annotation {
        group,
        size,
        survives: survives != 0,
        survivor,
        distance,
        similarity: (similarity >= 0.0).then_some(similarity),
    })
}

fn bytes<const COUNT: usize>(rows: &mut dyn Read) -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    rows.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The line of a record of which nothing is said, without what was said of it before. `None` if nothing was.
pub(super) fn without_annotation(line: &[u8]) -> Option<Vec<u8>> {
    let is_old = |name: &str| NAMES.contains(&name);
    let has_old = members(inside_of(line)?)
        .into_iter()
        .any(|member| member_name(member).is_some_and(|name| is_old(&name)));
    has_old.then(|| with_fields(line, is_old, "")).flatten()
}

/// What is between the braces of an object. `None` if the line is none.
fn inside_of(line: &[u8]) -> Option<&[u8]> {
    let object = without_marks(line).trim_ascii();
    object.strip_prefix(b"{")?.strip_suffix(b"}")
}

/// The line with these fields at the end of its object. `fields` are written as JSON, with commas between them;
/// `is_old` says of a name whether its field goes. `None` if the line is no object.
///
/// An object is its members with commas between them. So without the members that go, all others are put together
/// again as they are, with the spaces around them.
pub(super) fn with_fields(
    line: &[u8],
    is_old: impl Fn(&str) -> bool,
    fields: &str,
) -> Option<Vec<u8>> {
    let inside = inside_of(line)?;
    let begin = memchr::memchr(b'{', line)? + 1;
    let end = begin + inside.len();
    let mut written = Vec::with_capacity(line.len() + fields.len() + 1);
    written.extend_from_slice(&line[..begin]);
    let mut is_first = true;
    for member in members(inside) {
        if member_name(member).is_some_and(|name| is_old(&name)) || member.trim_ascii().is_empty() {
            continue;
        }
        if !is_first {
            written.push(b',');
        }
        is_first = false;
        written.extend_from_slice(member);
    }
    if !is_first && !fields.is_empty() {
        written.push(b',');
    }
    written.extend_from_slice(fields.as_bytes());
    written.extend_from_slice(&line[end..]);
    Some(written)
}

/// The members of an object, with the spaces around them.
fn members(inside: &[u8]) -> Vec<&[u8]> {
    let mut members = Vec::new();
    let mut begin = 0;
    let mut depth = 0u32;
    let mut at = 0;
    while let Some(&byte) = inside.get(at) {
        match byte {
            b'"' => at = end_of_text(inside, at + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                members.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    members.push(&inside[begin..]);
    members
}

/// Where the quote is that ends a text.
fn end_of_text(inside: &[u8], mut at: usize) -> usize {
    while let Some(found) = inside
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += found;
        if inside[at] == b'"' {
            return at;
        }
        // Behind the backslash, a quote is one of the text.
        at += 2;
    }
    inside.len()
}

/// The name of a member. Also one that is written with escapes.
fn member_name(member: &[u8]) -> Option<String> {
    serde_json::Deserializer::from_slice(member)
        .into_iter()
        .next()?
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_as_they_were_written() -> io::Result<()> {
        for similarity in [None, Some(0.0), Some(0.7)] {
            let annotation = Annotation {
                group: 3,
                size: u64::MAX,
                survives: similarity.is_none(),
                survivor: "a\"b:7".to_owned(),
                distance: 64,
                similarity,
            };
            let mut row = Vec::new();
            let id = RecordId {
                input: 1,
                number: 2,
            };
            write_row(id, &annotation, &mut row)?;
            assert_eq!(read_row(&mut &row[RecordId::BYTES..])?, annotation);
        }
        Ok(())
    }

    #[test]
    fn an_annotated_line_is_annotated_anew() {
        let annotation = Annotation {
            group: 1,
            size: 2,
            survives: false,
            survivor: "a\"b".to_owned(),
            distance: 3,
            similarity: Some(0.876),
        };
        let line = annotation.write_into(br#"{"id":7}"#).expect("an object");
        let expected = r#"{"id":7,"dedup_group":1,"dedup_size":2,"dedup_survives":false,"dedup_survivor":"a\"b","dedup_distance":3,"dedup_similarity":0.88}"#;
        assert_eq!(String::from_utf8_lossy(&line), expected);
        assert_eq!(annotation.write_into(&line), Some(line));
    }

    #[test]
    fn a_line_that_is_not_judged_loses_what_was_said_before_and_nothing_else() {
        for (line, expected) in [
            ("{\"a\":1,\"dedup_group\":3}\n", "{\"a\":1}\n"),
            (
                "{\"dedup_size\":2, \"text\" : NaN}\r\n",
                "{ \"text\" : NaN}\r\n",
            ),
            ("{\"dedup_survives\":true,\"dedup_survivor\":\"}\"}", "{}"),
        ] {
            let written = without_annotation(line.as_bytes());
            assert_eq!(written.as_deref(), Some(expected.as_bytes()), "{line}");
        }
        for line in [
            "{ }",
            "{\"a\":1,}",
            "[1]",
            "{\"a\":{\"dedup_group\":1}}",
            "{\"dedup_group\":1",
            "\n",
        ] {
            assert_eq!(without_annotation(line.as_bytes()), None, "{line}");
        }
    }

    fn set(line: &str) -> Option<String> {
        let set = with_fields(line.as_bytes(), |name| name == "g", "\"g\":1")?;
        Some(String::from_utf8(set).expect("it was UTF-8"))
    }

    #[test]
    fn fields_come_last_and_take_the_place_of_old_ones() {
        for (line, expected) in [
            ("{}", r#"{"g":1}"#),
            ("{ }\r\n", "{\"g\":1}\r\n"),
            (r#"{"a":2}"#, r#"{"a":2,"g":1}"#),
            ("  { \"a\" : 2 } \n", "  { \"a\" : 2 ,\"g\":1} \n"),
            (r#"{"g":[1,{"g":2}]}"#, r#"{"g":1}"#),
            (r#"{"g":0,"a":2}"#, r#"{"a":2,"g":1}"#),
            (
                r#"{"a":2, "g" : "}\"," , "b":3}"#,
                r#"{"a":2, "b":3,"g":1}"#,
            ),
            (r#"{"g":0,"a":2,"g":0}"#, r#"{"a":2,"g":1}"#),
            (r#"{"\u0067":0,"a":"\\"}"#, r#"{"a":"\\","g":1}"#),
            (
                r#"{"a":{"g":0,"b":[",",{}]}}"#,
                r#"{"a":{"g":0,"b":[",",{}]},"g":1}"#,
            ),
        ] {
            assert_eq!(set(line).as_deref(), Some(expected), "{line}");
            assert_eq!(set(expected).as_deref(), Some(expected), "again");
        }
        assert_eq!(set("[1]"), None);
        assert_eq!(set("}{"), None);
    }
}
