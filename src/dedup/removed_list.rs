//! Removed records: many of them in memory, and the list of them, how it is written and read.

use std::ops::Range;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};

use crate::error::Result;
use crate::fingerprint::Fingerprint;
use crate::ingest::{RecordId, Stop, TextLines};

/// A removed record, as the list tells it.
///
/// See the example of [`RemovedRecords`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RemovedRecord {
    /// The record. It has a place.
    pub record: ListedRecord,
    /// The record that survives in its favour. Without a place it is a document of a database.
    pub survivor: ListedRecord,
    /// The number of bits in which their fingerprints differ.
    pub distance: u32,
    /// Their estimated similarity, with two digits. `None` if it was not looked at.
    pub similarity: Option<f64>,
}

/// Where a record is, and what it is called.
///
/// See the example of [`RemovedRecords`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ListedRecord {
    /// The path of its input, as its bytes, and its line, its row, or its number in the input.
    pub place: Option<(Vec<u8>, u64)>,
    /// Its key, if it has one.
    pub key: Option<Vec<u8>>,
}

/// The lines of a list that [`Dedup::removed`](super::Dedup::removed) names. After an error it ends.
///
/// # Example
///
/// ```
/// use simdb::dedup::{Dedup, RemovedRecords};
/// # let directory = tempfile::tempdir()?;
/// # let [input, output, list] = ["in.tsv", "clean.tsv", "removed.jsonl"].map(|name| directory.path().join(name));
/// # let text = "one two three four five six seven eight nine ten eleven twelve thirteen";
/// # std::fs::write(&input, format!("a\t{text}\nb\t{text}\n"))?;
///
/// Dedup::new([&input], &output).removed(&list).run(|_event| {})?;
/// let mut removed = Vec::new();
/// for line in RemovedRecords::open(&list)? {
///     let line = line?;
///     removed.push((line.record.key, line.survivor.key, line.distance));
/// }
/// assert_eq!(removed, [(Some(b"b".to_vec()), Some(b"a".to_vec()), 0)]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct RemovedRecords {
    lines: TextLines,
    is_at_end: bool,
}

impl RemovedRecords {
    /// Opens a list, which may be packed with gzip or zstd.
    ///
    /// # Errors
    ///
    /// [`Error::Input`](crate::Error::Input) if it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::open_until(path.as_ref(), &Stop::default())
    }

    /// As [`open`](Self::open). The list may be a pipe, which brings nothing for now: it is read until nobody wants the
    /// rest.
    pub(super) fn open_until(path: &Path, stop: &Stop) -> Result<Self> {
        Ok(Self {
            lines: TextLines::open(path, stop.clone())?,
            is_at_end: false,
        })
    }

    /// The number of the line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    fn next_record(&mut self) -> Result<Option<RemovedRecord>> {
        let Some(line) = self.lines.next_line()? else {
            return Ok(None);
        };
        match parse(line.as_bytes()) {
            Ok(record) => Ok(Some(record)),
            Err(reason) => Err(self.lines.failed(reason)),
        }
    }
}

impl Iterator for RemovedRecords {
    type Item = Result<RemovedRecord>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_at_end {
            return None;
        }
        let next = self.next_record().transpose();
        self.is_at_end = !matches!(next, Some(Ok(_)));
        next
    }
}

#[derive(Default)]
pub(super) struct RemovedRows {
    pub(super) rows: Vec<RemovedRow>,
    keys: Vec<u8>,
}

/// A removed record. Its keys are among those of all rows.
pub(super) struct RemovedRow {
    pub(super) id: RecordId,
    key: Option<Range<usize>>,
    /// The place of the survivor. `None` if that is a document of a database.
    pub(super) survivor: Option<RecordId>,
    survivor_key: Option<Range<usize>>,
    pub(super) distance: u32,
    pub(super) similarity: Option<f64>,
}

impl RemovedRows {
    pub(super) fn add(
        &mut self,
        id: RecordId,
        key: Option<&[u8]>,
        survivor: Option<RecordId>,
        survivor_key: Option<&[u8]>,
        distance: u32,
        similarity: Option<f64>,
    ) {
        let key = self.keep(key);
        let survivor_key = self.keep(survivor_key);
        self.rows.push(RemovedRow {
            id,
            key,
            survivor,
            survivor_key,
            distance,
            similarity,
        });
    }

    /// Keeps a key, and tells where. `None` if there is none.
    fn keep(&mut self, key: Option<&[u8]>) -> Option<Range<usize>> {
        let start = self.keys.len();
        self.keys.extend_from_slice(key?);
        Some(start..self.keys.len())
    }

    pub(super) fn key(&self, row: &RemovedRow) -> Option<&[u8]> {
        Some(&self.keys[row.key.clone()?])
    }

    pub(super) fn survivor_key(&self, row: &RemovedRow) -> Option<&[u8]> {
        Some(&self.keys[row.survivor_key.clone()?])
    }

    /// A removed record as the list tells it. `input_of` returns the path of the input of a record.
    pub(super) fn told(
        &self,
        row: &RemovedRow,
        input_of: impl Fn(RecordId) -> Vec<u8>,
    ) -> RemovedRecord {
        RemovedRecord {
            record: ListedRecord {
                place: Some((input_of(row.id), row.id.number)),
                key: self.key(row).map(<[u8]>::to_vec),
            },
            survivor: ListedRecord {
                place: row.survivor.map(|id| (input_of(id), id.number)),
                key: self.survivor_key(row).map(<[u8]>::to_vec),
            },
            distance: row.distance,
            similarity: row.similarity,
        }
    }
}

impl RemovedRecord {
    /// The line of the list. `units` say what the numbers of the record and of its survivor count.
    pub(super) fn to_json(&self, units: [&str; 2]) -> Value {
        let mut object = self.record.to_json(units[0]);
        let survivor = self.survivor.to_json(units[1]);
        object.insert("survivor".to_owned(), Value::Object(survivor));
        object.insert("distance".to_owned(), self.distance.into());
        if let Some(similarity) = self.similarity {
            object.insert("similarity".to_owned(), similarity.into());
        }
        Value::Object(object)
    }
}

impl ListedRecord {
    fn to_json(&self, unit: &str) -> Map<String, Value> {
        let mut object = Map::new();
        if let Some((input, number)) = &self.place {
            add_bytes(&mut object, "input", input);
            object.insert(unit.to_owned(), (*number).into());
        }
        if let Some(key) = &self.key {
            add_bytes(&mut object, "key", key);
        }
        object
    }
}

/// Adds a name that need not be UTF-8. Then the field has `_base64` at its end.
fn add_bytes(object: &mut Map<String, Value>, field: &str, name: &[u8]) {
    match std::str::from_utf8(name) {
        Ok(text) => object.insert(field.to_owned(), text.into()),
        Err(_) => object.insert(format!("{field}_base64"), BASE64.encode(name).into()),
    };
}

pub(super) fn parse(line: &[u8]) -> Result<RemovedRecord, String> {
    let object: Map<String, Value> = serde_json::from_slice(line).map_err(|error| {
        format!(
            "it is no line of a list that `dedup --removed` writes, or not a whole one ({error})"
        )
    })?;
    let record = listed(&object)?;
    if record.place.is_none() {
        return Err(
            "it names no record: it needs `input`, and `line`, `row` or `record`".to_owned(),
        );
    }
    let Some(Value::Object(survivor)) = object.get("survivor") else {
        return Err("it names no `survivor`".to_owned());
    };
    let survivor = listed(survivor)?;
    if survivor == ListedRecord::default() {
        return Err("its `survivor` has neither a place nor a key".to_owned());
    }
    let distance = object.get("distance").and_then(Value::as_u64);
    let Some(distance) = distance.filter(|&bits| bits <= Fingerprint::BITS.into()) else {
        return Err("its `distance` is no number of bits".to_owned());
    };
    let similarity = match object.get("similarity") {
        None => None,
        Some(similarity) => match similarity.as_f64() {
            Some(similarity @ 0.0..=1.0) => Some(similarity),
            _ => return Err("its `similarity` is no number from 0 to 1".to_owned()),
        },
    };
    Ok(RemovedRecord {
        record,
        survivor,
        distance: distance as u32,
        similarity,
    })
}

fn listed(object: &Map<String, Value>) -> Result<ListedRecord, String> {
    let input = bytes_of(object, "input")?;
    let numbers = ["line", "record", "row"];
    let number = numbers.into_iter().find_map(|name| object.get(name));
    let place = match (input, number.and_then(Value::as_u64)) {
        (None, None) if number.is_none() => None,
        (Some(input), Some(number)) => Some((input, number)),
        _ => {
            return Err(
                "a place is `input` and a whole number as `line`, `row` or `record`".to_owned(),
            );
        }
    };
    Ok(ListedRecord {
        place,
        key: bytes_of(object, "key")?,
    })
}

/// The bytes of a field, which are text, or stand as base64 under another name.
fn bytes_of(object: &Map<String, Value>, field: &str) -> Result<Option<Vec<u8>>, String> {
    let encoded = format!("{field}_base64");
    match (object.get(field), object.get(&encoded)) {
        (None, None) => Ok(None),
        (Some(Value::String(text)), None) => Ok(Some(text.as_bytes().to_vec())),
        (None, Some(Value::String(text))) => match BASE64.decode(text) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(_) => Err(format!("its `{encoded}` is no base64")),
        },
        _ => Err(format!("its `{field}` is no text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_refused() {
        let whole = r#"{"input":"a","line":3,"key":"k","survivor":{"input_base64":"/w==","row":1},"distance":2,"similarity":0.9}"#;
        let removed = parse(whole.as_bytes()).expect("it is a line");
        assert_eq!(removed.record.place, Some((b"a".to_vec(), 3)));
        assert_eq!(removed.record.key.as_deref(), Some(&b"k"[..]));
        assert_eq!(removed.survivor.place, Some((b"\xff".to_vec(), 1)));
        assert_eq!((removed.distance, removed.similarity), (2, Some(0.9)));
        let known = r#"{"input":"a","record":1,"survivor":{"key":"k"},"distance":0}"#;
        assert!(parse(known.as_bytes()).is_ok_and(|removed| removed.survivor.place.is_none()));
        for (from, to) in [
            ("\"line\":3,", ""),
            ("\"line\":3", "\"line\":-3"),
            ("\"input\":\"a\"", "\"input\":7"),
            ("survivor", "other"),
            ("\"input_base64\":\"/w==\",\"row\":1", ""),
            ("/w==", "/"),
            ("\"distance\":2", "\"distance\":65"),
            ("0.9}", "1.1}"),
            ("0.9}", "0.9"),
        ] {
            let line = whole.replacen(from, to, 1);
            assert!(parse(line.as_bytes()).is_err(), "{line}");
        }
    }
}
