//! Parses a line of JSON.

use std::collections::HashMap;
use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{Deserializer as _, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::options::ReadOptions;
use super::page::{Said, content as content_of_page};
use super::parsed::{Content, Parsed, other_meaning, parse_rfc3339, utf8};
use super::rejected::{Reason, shortened};
use crate::document::Document;
use crate::sketch::Sketch;

/// What is said of an escape such as `\ud83c` without the other half.
const HALF_A_PAIR: &str = "an escape is half of a surrogate pair, which is no character";

/// Parses a JSON object on one line. Of a row of a Parquet file, marks in the names of its fields tell which values are
/// bytes.
pub(super) fn parse_json(
    line: &[u8],
    is_row: bool,
    options: &ReadOptions,
) -> Result<Parsed, Reason> {
    let text = utf8(line)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let reading = FieldsOf {
        line: text,
        is_row,
        options,
    };
    let fields = deserializer
        .deserialize_map(reading)
        .map_err(|error| not_json(text, 0, &error))?;
    deserializer
        .end()
        .map_err(|error| not_json(text, 0, &error))?;
    let Some(content) = fields.content(options)? else {
        return Err(Reason::NoContent {
            named: options.named_content().map(str::to_owned).collect(),
            fields: names_of(text, is_row),
        });
    };
    let key = match options.key_by_place {
        true => None,
        false => fields.key(options)?,
    };
    fields.parsed(key, content, options)
}

/// Why a line, or the value that begins behind so many of its bytes, is no JSON that can be used.
fn not_json(text: &str, start: usize, error: &serde_json::Error) -> Reason {
    let message = error.to_string();
    let problem = match message.split(" at line ").next().unwrap_or(&message) {
        // The parser's words do not say what is wrong. Programs that cut texts in 16-bit units write these.
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            HALF_A_PAIR.to_owned()
        }
        "trailing characters" if has_object_at(text, error.column()) => {
            "another object begins behind the first; put each on a line of its own, say with `jq -c .`".to_owned()
        }
        problem => match number_that_is_none(text, error.column()) {
            Some(word) => format!(
                "`{word}` is no number of JSON; write `null` in its place (Python: `json.dumps(…, \
                 allow_nan=False)` finds it)"
            ),
            // The parser repeats a text that is none of its fields.
            None => shortened(problem),
        },
    };
    Reason::Json {
        problem,
        column: start + error.column(),
    }
}

/// Whether an object begins at a column, or behind a comma there.
fn has_object_at(text: &str, column: usize) -> bool {
    let rest = text.get(column.saturating_sub(1)..).unwrap_or_default();
    let rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    rest.starts_with('{')
}

/// What stands in a line where the parser stopped, if it is one of the words that some programs write for numbers that
/// JSON does not have. The parser stops within it.
fn number_that_is_none(line: &str, column: usize) -> Option<&'static str> {
    const WORDS: [&str; 6] = ["NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"];
    let bytes = line.as_bytes();
    let stopped = column.min(bytes.len());
    // Without a letter the parser has stopped before the word.
    let (before, behind) = bytes.split_at(stopped);
    let before = before.iter().rev().take_while(is_part_of_word).count();
    let behind = behind.iter().take_while(is_part_of_word).count();
    let mut words = WORDS.into_iter();
    words.find(|word| word.as_bytes() == &bytes[stopped - before..stopped + behind])
}

fn is_part_of_word(byte: &&u8) -> bool {
    byte.is_ascii_alphabetic() || **byte == b'-'
}

/// The names of the first fields of an object that are not null, for a message.
fn names_of(object: &str, is_row: bool) -> Vec<String> {
    let mut deserializer = serde_json::Deserializer::from_str(object);
    let names = Names { is_row };
    deserializer.deserialize_map(names).unwrap_or_default()
}

/// Reads the names of the fields of an object.
struct Names {
    is_row: bool,
}

impl<'de> Visitor<'de> for Names {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<String>, A::Error> {
        const MOST: usize = 12;
        let mut names: Vec<String> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let (name, _) = without_mark(&name, self.is_row);
            let is_there = map.next_value::<Option<IgnoredAny>>()?.is_some();
            if is_there && names.len() < MOST && !names.iter().any(|known| known == name) {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }
}

/// What a field of this name may be needed for.
#[cfg(feature = "parquet")]
pub(super) fn use_of(name: &str, options: &ReadOptions) -> Option<crate::parquet::Use> {
    use crate::parquet::Use;

    Fields::default().named(name, options)?;
    let key = match options.numbered {
        // A place names the document, whatever the column holds.
        true => Use::Other,
        false => Use::Key,
    };
    Some(match name {
        _ if is_named(&options.text_field, name) || is_named(&options.html_field, name) => {
            Use::NamedContent
        }
        _ if is_named(&options.key_field, name) => key,
        "key" | "key_base64" | "id" | "url" => key,
        "text" | "html" | "fingerprint" => Use::Content,
        // They are objects or lists, and no column of these is read. A column of this name holds something else.
        "features" => return None,
        "rank" | "seen" | "time" | "repeats" | "shingles" | "too_short" => Use::Value,
        _ => Use::Other,
    })
}

fn is_named(option: &Option<String>, name: &str) -> bool {
    option.as_deref() == Some(name)
}

/// What a JSON Pointer says behind its first part, if that is this name (RFC 6901). `None` for what is no pointer.
fn behind_first<'p>(pointer: &'p str, name: &str) -> Option<&'p str> {
    let (first, rest) = first_and_rest(pointer)?;
    (first == name).then_some(rest)
}

/// The first part of a JSON Pointer, and what is behind it. `None` at its end.
fn first_and_rest(pointer: &str) -> Option<(String, &str)> {
    let parts = pointer.strip_prefix('/')?;
    let (first, rest) = parts.split_at(parts.find('/').unwrap_or(parts.len()));
    Some((first.replace("~1", "/").replace("~0", "~"), rest))
}

/// The value within another to which a JSON Pointer leads. `None` if it is not there, or null.
fn within<'l>(mut value: &'l RawValue, mut pointer: &str) -> Option<&'l RawValue> {
    while let Some((part, rest)) = first_and_rest(pointer) {
        value = match value.get().starts_with('[') {
            true => {
                let values: Vec<&RawValue> = serde_json::from_str(value.get()).ok()?;
                values.get(part.parse::<usize>().ok()?).copied()?
            }
            false => {
                let fields: HashMap<String, &RawValue> = serde_json::from_str(value.get()).ok()?;
                fields.get(&part).copied()?
            }
        };
        pointer = rest;
    }
    (value.get() != "null").then_some(value)
}

/// The name of a field, and whether its value is bytes of a Parquet file in base64, since they are not UTF-8.
#[cfg(feature = "parquet")]
fn without_mark(name: &str, is_row: bool) -> (&str, bool) {
    match name.strip_suffix(crate::parquet::IN_BASE64) {
        Some(name) if is_row => (name, true),
        _ => (name, false),
    }
}

/// Only rows of Parquet files have such values.
#[cfg(not(feature = "parquet"))]
fn without_mark(name: &str, _: bool) -> (&str, bool) {
    (name, false)
}

/// The names that the caller may have given: of the key, the text and the page.
fn named_by_caller(options: &ReadOptions) -> [Option<&str>; 3] {
    [&options.key_field, &options.text_field, &options.html_field].map(Option::as_deref)
}

/// Whether a field of this name may have bytes that are not UTF-8. As another field they are as if they were absent.
fn takes_bytes(name: &str, options: &ReadOptions) -> bool {
    named_by_caller(options).contains(&Some(name))
        || matches!(name, "key" | "id" | "url" | "text" | "html" | "payload")
}

/// The value of a field, as it stands in the line. It is parsed when it is used, so no other field can make a record
/// unusable.
#[derive(Clone, Copy)]
struct Field<'l> {
    raw: &'l str,
    /// The bytes of the line before it.
    start: usize,
    /// Whether it is bytes in base64.
    is_packed: bool,
}

impl<'l> Field<'l> {
    fn new(line: &str, value: &'l RawValue, is_packed: bool) -> Self {
        Self {
            raw: value.get(),
            // It is a part of the line.
            start: value.get().as_ptr().addr() - line.as_ptr().addr(),
            is_packed,
        }
    }
}

impl Field<'_> {
    /// The same, of a name that says that its texts are in base64.
    fn packed(self) -> Self {
        Self {
            is_packed: true,
            ..self
        }
    }

    fn value(self) -> Result<Value, Reason> {
        serde_json::from_str(self.raw).map_err(|error| not_json(self.raw, self.start, &error))
    }

    fn text(self, name: &str) -> Result<String, Reason> {
        match self.value()? {
            Value::String(text) => Ok(text),
            _ => Err(Reason::Field {
                name: name.to_owned(),
                expected: "a text",
            }),
        }
    }

    /// The bytes of a text, or those that are no text.
    fn bytes(self, name: &str) -> Result<Vec<u8>, Reason> {
        let text = self.text(name)?;
        match self.is_packed {
            true => from_base64(name, &text),
            false => Ok(text.into_bytes()),
        }
    }

    fn text_of_document(self, name: &str) -> Result<String, Reason> {
        match self.is_packed {
            true => Err(not_utf8(&self.bytes(name)?)),
            false => self.text(name),
        }
    }

    /// The page of a document. One that is not UTF-8 is read in the encoding that it says, as a file is.
    fn page_of_document(self, name: &str) -> Result<Option<Content>, Reason> {
        if !self.is_packed {
            return self.text(name).map(Content::Html).map(Some);
        }
        let bytes = self.bytes(name)?;
        match content_of_page(&bytes, &Said::html()) {
            Err(Reason::Encoding { .. }) => Err(not_utf8(&bytes)),
            page => page,
        }
    }

    /// The key that it is. It may be empty.
    fn key(self, name: &str) -> Result<Vec<u8>, Reason> {
        match self.value()? {
            Value::String(encoded) if self.is_packed => from_base64(name, &encoded),
            Value::String(text) => Ok(text.into_bytes()),
            // The parser rounds other numbers, so two keys could become one.
            Value::Number(number) if number.is_i64() || number.is_u64() => {
                Ok(number.to_string().into_bytes())
            }
            _ => match self.whole_with_zeros() {
                Some(whole) => Ok(whole.to_string().into_bytes()),
                None => Err(Reason::Field {
                    name: name.to_owned(),
                    expected: "a text or a whole number of at most 64 bits",
                }),
            },
        }
    }

    /// The whole number that is written as one with a fraction, `12.0`.
    fn whole_with_zeros(self) -> Option<i64> {
        let (whole, fraction) = self.raw.split_once('.')?;
        let is_zero = fraction.bytes().all(|digit| digit == b'0');
        whole.parse().ok().filter(|_| is_zero)
    }

    /// Whether it is a text that is not empty.
    fn has_text(self) -> bool {
        self.raw.starts_with('"') && self.raw != "\"\""
    }
}

fn not_utf8(bytes: &[u8]) -> Reason {
    let valid_bytes = bytes
        .utf8_chunks()
        .next()
        .map_or(0, |chunk| chunk.valid().len());
    Reason::ColumnNotUtf8 { valid_bytes }
}

/// The fields of a JSON record that may be needed. A field that is null counts as absent. A field that is not
/// needed is not checked: a record with a key is not rejected for an odd `url`.
#[derive(Default)]
struct Fields<'l> {
    /// The one that the caller has named, if any. So are the text and the page.
    key: Option<Field<'l>>,
    key_base64: Option<Field<'l>>,
    id: Option<Field<'l>>,
    url: Option<Field<'l>>,
    fingerprint: Option<Field<'l>>,
    sketch: Option<Field<'l>>,
    shingles: Option<Field<'l>>,
    features: Option<Field<'l>>,
    text: Option<Field<'l>>,
    html: Option<Field<'l>>,
    too_short: Option<Field<'l>>,
    seen: Option<Field<'l>>,
    time: Option<Field<'l>>,
    repeats: Option<Field<'l>>,
    rank: Option<Field<'l>>,
    scope: Option<Field<'l>>,
    payload: Option<Field<'l>>,
    payload_base64: Option<Field<'l>>,
    group: Option<Field<'l>>,
}

impl<'l> Fields<'l> {
    /// The field of this name, if it is one that may be needed.
    fn named(&mut self, name: &str, options: &ReadOptions) -> Option<&mut Option<Field<'l>>> {
        Some(match name {
            // Names given by the caller come first: with `--html-field text`, the field `text` is HTML.
            _ if is_named(&options.html_field, name) => &mut self.html,
            _ if is_named(&options.text_field, name) => &mut self.text,
            _ if is_named(&options.key_field, name) => &mut self.key,
            "key" | "key_base64" | "id" | "url"
                if options.key_field.is_some() || options.key_by_place =>
            {
                return None;
            }
            "fingerprint" | "sketch" | "shingles" | "features" | "text" | "html" | "too_short"
                if options.named_content().next().is_some() =>
            {
                return None;
            }
            _ if options.ignores(name) => return None,
            "key" => &mut self.key,
            "key_base64" => &mut self.key_base64,
            "id" => &mut self.id,
            "url" => &mut self.url,
            "fingerprint" => &mut self.fingerprint,
            "sketch" => &mut self.sketch,
            "shingles" => &mut self.shingles,
            "features" => &mut self.features,
            "text" => &mut self.text,
            "html" => &mut self.html,
            "too_short" => &mut self.too_short,
            "seen" => &mut self.seen,
            "time" => &mut self.time,
            "repeats" => &mut self.repeats,
            "rank" => &mut self.rank,
            "scope" => &mut self.scope,
            "payload" => &mut self.payload,
            "payload_base64" => &mut self.payload_base64,
            "group" => &mut self.group,
            _ => return None,
        })
    }

    /// The first field that is not empty, of those that name a document.
    fn key(&self, options: &ReadOptions) -> Result<Option<Vec<u8>>, Reason> {
        let candidates = [
            (options.key_field.as_deref().unwrap_or("key"), self.key),
            ("key_base64", self.key_base64.map(Field::packed)),
            ("id", self.id),
            ("url", self.url),
        ];
        for (name, field) in candidates {
            let Some(field) = field else { continue };
            match field.key(name) {
                Ok(key) if key.is_empty() => {}
                Ok(key) => return Ok(Some(key)),
                // Its place names the document.
                Err(_) if options.numbered => return Ok(None),
                Err(reason) => return Err(reason),
            }
        }
        Ok(None)
    }

    /// What a fingerprint is made from. `None` if there is nothing. Where the caller has named a field for it, those of
    /// other names are not there.
    fn content(&self, options: &ReadOptions) -> Result<Option<Content>, Reason> {
        match self.ready() {
            // A fingerprint of another form is that of another program, where there is a text to make one from.
            Err(_) if self.has_text() => {}
            Err(reason) => return Err(reason),
            Ok(Some(ready)) => return Ok(Some(ready)),
            Ok(None) => {}
        }
        if let Some(features) = self.features {
            let features = features_of(&features.value()?)?;
            // Without any, who wrote the record has found none, and the text is not read yet.
            if !features.is_empty() || !self.has_text() {
                return Ok(Some(Content::Features(features)));
            }
        }
        if let Some(text) = self.text {
            let text = text.text_of_document(options.text_field.as_deref().unwrap_or("text"))?;
            // If the text is blank and there is HTML, the HTML counts. Programs that find no text write such ones.
            if !text.chars().all(is_blank) || self.html.is_none() {
                return Ok(Some(Content::Text(text)));
            }
        }
        match (self.html, self.too_short) {
            (Some(html), _) => {
                html.page_of_document(options.html_field.as_deref().unwrap_or("html"))
            }
            (None, Some(too_short)) if too_short.raw == "true" => Ok(Some(Content::TooShort)),
            (None, _) => Ok(None),
        }
    }

    /// The ready fingerprint, with its sketch.
    fn ready(&self) -> Result<Option<Content>, Reason> {
        let Some(fingerprint) = self.fingerprint else {
            return Ok(None);
        };
        let digits = fingerprint.text("fingerprint")?;
        let fingerprint = digits.parse().map_err(Reason::Document)?;
        Ok(Some(Content::Fingerprint(fingerprint, self.sketch()?)))
    }

    /// Whether a text or a page is there that is not empty.
    fn has_text(&self) -> bool {
        let fields = [self.text, self.html];
        fields.into_iter().flatten().any(Field::has_text)
    }

    /// The sketch beside a ready fingerprint.
    fn sketch(&self) -> Result<Option<Sketch>, Reason> {
        let Some(sketch) = self.sketch else {
            return Ok(None);
        };
        let digits = sketch.text("sketch")?;
        let shingles = match self.shingles {
            Some(shingles) => whole(&shingles.value()?),
            None => None,
        };
        let Some(Ok(shingles)) = shingles.map(u32::try_from) else {
            return Err(Reason::Field {
                name: "shingles".to_owned(),
                expected: "the number of shingles, beside `sketch`,",
            });
        };
        let sketch = Sketch::parse(&digits, shingles).map_err(Reason::Document)?;
        Ok(Some(sketch))
    }

    /// The record of this key and this content, with all other fields.
    fn parsed(
        &self,
        key: Option<Vec<u8>>,
        content: Content,
        options: &ReadOptions,
    ) -> Result<Parsed, Reason> {
        let payload = match (self.payload_base64, self.payload) {
            (Some(encoded), _) => encoded.packed().bytes("payload_base64")?,
            (None, Some(payload)) => payload.bytes("payload")?,
            (None, None) => Vec::new(),
        };
        let seen = match (self.seen, self.time) {
            (Some(seen), _) => Some(unix_seconds("seen", &seen.value()?)?),
            (None, Some(time)) => Some(unix_seconds("time", &time.value()?)?),
            (None, None) => None,
        };
        let repeats = match self.repeats.map(repeats) {
            None => 0,
            // In a corpus that is cleaned, a field of this name may mean something else.
            Some(repeats) if options.numbered => repeats.unwrap_or(0),
            Some(repeats) => repeats?,
        };
        let rank = match self.rank.map(rank) {
            None => Vec::new(),
            Some(Ok(rank)) if options.odd_ranks_are_none && rank.len() > Document::MAX_RANKS => {
                Vec::new()
            }
            Some(Err(_)) if options.odd_ranks_are_none => Vec::new(),
            Some(rank) => rank?,
        };
        let scope = match self.scope {
            Some(scope) => scope.text("scope")?,
            None => String::new(),
        };
        // Whatever is there is no reason to reject a document, which does not need it.
        let group = self.group.and_then(|group| group.key("group").ok());
        let group = group.and_then(|group| String::from_utf8(group).ok());
        let used = match content {
            Content::Fingerprint(..) => Some("fingerprint"),
            Content::Features(_) => Some("features"),
            _ => None,
        };
        let instead_of_text = used.filter(|_| self.has_text());
        Ok(Parsed {
            key,
            content,
            seen,
            repeats,
            rank,
            scope,
            payload,
            group,
            instead_of_text,
        })
    }
}

/// The features of an object of weights, or of a list, in which each has the weight 1.
fn features_of(value: &Value) -> Result<Vec<(String, f64)>, Reason> {
    let mut features = Vec::new();
    match value {
        Value::Object(weights) => {
            for (feature, weight) in weights {
                let weight = weight.as_f64().ok_or(Reason::Features)?;
                features.push((feature.clone(), weight));
            }
        }
        Value::Array(listed) => {
            for feature in listed {
                let feature = feature.as_str().ok_or(Reason::Features)?;
                features.push((feature.to_owned(), 1.0));
            }
        }
        _ => return Err(Reason::Features),
    }
    Ok(features)
}

/// Reads [`Fields`] from the JSON object of a line. Other fields are skipped and not kept in memory.
struct FieldsOf<'l, 'o> {
    line: &'l str,
    is_row: bool,
    options: &'o ReadOptions,
}

impl<'l> Visitor<'l> for FieldsOf<'l, '_> {
    type Value = Fields<'l>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object on one line")
    }

    fn visit_map<A: MapAccess<'l>>(self, mut map: A) -> Result<Fields<'l>, A::Error> {
        let Self {
            line,
            is_row,
            options,
        } = self;
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            let (name, is_packed) = without_mark(&name, is_row);
            let is_absent = is_packed && !takes_bytes(name, options);
            let is_needed = !is_absent && fields.named(name, options).is_some();
            // Where the caller has named fields within this one.
            let within_it = named_by_caller(options).map(|named| behind_first(named?, name));
            if !is_needed && within_it == [None; 3] {
                _ = map.next_value::<IgnoredAny>()?;
                continue;
            }
            let value = map.next_value::<Option<&RawValue>>()?;
            if is_needed && let Some(needed) = fields.named(name, options) {
                *needed = value.map(|value| Field::new(line, value, is_packed));
            }
            let of_caller = [&mut fields.key, &mut fields.text, &mut fields.html];
            for (pointer, needed) in within_it.into_iter().zip(of_caller) {
                if let Some(pointer) = pointer {
                    let value = value.and_then(|value| within(value, pointer));
                    *needed = value.map(|value| Field::new(line, value, is_packed));
                }
            }
        }
        Ok(fields)
    }
}

/// White space, and what stands for none.
fn is_blank(char: char) -> bool {
    char.is_whitespace() || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
}

fn from_base64(name: &str, encoded: &str) -> Result<Vec<u8>, Reason> {
    BASE64.decode(encoded).map_err(|_| Reason::Field {
        name: name.to_owned(),
        expected: "base64",
    })
}

fn unix_seconds(name: &str, value: &Value) -> Result<i64, Reason> {
    let seconds = match value {
        // Many programs print times as floats. Fractions of a second are dropped.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(seconds), _) => Some(seconds),
            (None, Some(seconds)) if seconds.abs() < 1e15 => Some(seconds.floor() as i64),
            _ => None,
        },
        Value::String(text) => parse_rfc3339(text),
        _ => None,
    };
    if let Some(number) = seconds.filter(|_| value.is_number())
        && other_meaning(number).is_some()
    {
        return Err(Reason::NoSeconds {
            name: name.to_owned(),
            number,
        });
    }
    seconds.ok_or_else(|| Reason::Field {
        name: name.to_owned(),
        expected: "a number of Unix seconds, or a time as in RFC 3339,",
    })
}

fn repeats(field: Field<'_>) -> Result<u64, Reason> {
    let value = field.value()?;
    let repeats = value
        .as_u64()
        .or_else(|| u64::try_from(whole(&value)?).ok());
    repeats.ok_or_else(|| Reason::Field {
        name: "repeats".to_owned(),
        expected: "a whole number that is not negative",
    })
}

/// A whole number, also one that is written as a float: programs that keep tables write `5.0` once a value of the
/// column is missing.
fn whole(value: &Value) -> Option<i64> {
    /// Floats beyond it may be those of other whole numbers.
    const MOST: f64 = (1_u64 << 53) as f64;
    if let Some(number) = value.as_i64() {
        return Some(number);
    }
    let number = value.as_f64()?;
    (number.fract() == 0.0 && number.abs() < MOST).then_some(number as i64)
}

fn rank(field: Field<'_>) -> Result<Vec<i64>, Reason> {
    let numbers: Option<Vec<i64>> = match field.value()? {
        Value::Array(numbers) => numbers.iter().map(whole).collect(),
        number => whole(&number).map(|number| vec![number]),
    };
    numbers.ok_or_else(|| Reason::Field {
        name: "rank".to_owned(),
        expected: "a whole number or a list of them",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    fn json(line: &str) -> Result<Parsed, Reason> {
        parse_json(line.as_bytes(), false, &ReadOptions::new())
    }

    /// They were read as none, or rejected, and another document survived.
    #[test]
    fn whole_numbers_may_be_written_as_floats() -> Result<(), Reason> {
        let parsed = json(r#"{"id":12.0,"text":"t","rank":[5.0,-1],"repeats":2.0}"#)?;
        assert_eq!(parsed.key.as_deref(), Some(&b"12"[..]));
        assert_eq!((&parsed.rank[..], parsed.repeats), (&[5, -1][..], 2));
        assert_eq!(json(r#"{"id":1,"text":"t","rank":5.0}"#)?.rank, [5]);
        for other in [
            r#""rank":5.5"#,
            r#""rank":1e300"#,
            r#""repeats":-1.0"#,
            r#""repeats":0.5"#,
        ] {
            let line = format!("{{\"id\":1,\"text\":\"t\",{other}}}");
            assert!(json(&line).is_err(), "{other}");
        }
        for id in ["12.5", "1e3", "12.00000000000000000001"] {
            let line = format!("{{\"id\":{id},\"text\":\"t\"}}");
            assert!(json(&line).is_err(), "{id}");
        }
        Ok(())
    }

    /// Names of rows of Parquet files are marked so, and a line of JSON with such a name was read as bytes.
    #[test]
    fn no_name_says_that_a_text_is_bytes() -> Result<(), Reason> {
        let line = r#"{"id":1,"key\u0000base64":"!","text":"t","text\u0000base64":"AAAA"}"#;
        let parsed = json(line)?;
        assert_eq!(parsed.key.as_deref(), Some(&b"1"[..]));
        assert_eq!(parsed.content, Content::Text("t".to_owned()));
        Ok(())
    }

    #[test]
    fn the_first_field_that_is_not_empty_names_the_document() -> Result<(), Reason> {
        assert_eq!(
            json(r#"{"url":"u","id":"i","key":"k","text":"t"}"#)?
                .key
                .as_deref(),
            Some(&b"k"[..])
        );
        assert_eq!(
            json(r#"{"url":"u","id":17,"key":"","text":"t"}"#)?
                .key
                .as_deref(),
            Some(&b"17"[..])
        );
        assert_eq!(
            json(r#"{"url":"u","id":null,"text":"t"}"#)?.key.as_deref(),
            Some(&b"u"[..])
        );
        assert_eq!(
            json(r#"{"key_base64":"/w==","text":"t"}"#)?.key.as_deref(),
            Some(&b"\xff"[..])
        );
        assert_eq!(json(r#"{"text":"t"}"#)?.key.as_deref(), None);
        assert_eq!(
            json(r#"{"key_base64":"","id":18446744073709551615,"text":"t"}"#)?
                .key
                .as_deref(),
            Some(&b"18446744073709551615"[..])
        );
        assert_eq!(
            json(r#"{"key":"k","id":{"oid":1},"url":[],"text":"t"}"#)?
                .key
                .as_deref(),
            Some(&b"k"[..])
        );
        let options = ReadOptions::new().key_field("name");
        let named = parse_json(br#"{"name":"n","key":"k","text":"t"}"#, false, &options)?;
        assert_eq!(named.key.as_deref(), Some(&b"n"[..]));
        Ok(())
    }

    #[test]
    fn a_fingerprint_comes_before_a_text_and_a_text_before_html() -> Result<(), Reason> {
        let both = json(r#"{"id":1,"fingerprint":"00000000000000ff","text":"t"}"#)?;
        assert_eq!(
            both.content,
            Content::Fingerprint(Fingerprint::from_bits(255), None)
        );
        assert_eq!(
            json(r#"{"id":1,"text":"t","html":"h"}"#)?.content,
            Content::Text("t".into())
        );
        let weighted = Content::Features(vec![("a".into(), 2.5), ("b".into(), 1.0)]);
        assert_eq!(
            json(r#"{"id":1,"text":"t","features":{"a":2.5,"b":1}}"#)?.content,
            weighted
        );
        let listed = Content::Features(vec![("a".into(), 1.0), ("a".into(), 1.0)]);
        assert_eq!(json(r#"{"id":1,"features":["a","a"]}"#)?.content, listed);
        for features in ["1", "[1]", "{\"a\":\"b\"}"] {
            let refused = json(&format!("{{\"id\":1,\"features\":{features}}}"));
            assert!(matches!(refused, Err(Reason::Features)), "{features}");
        }
        assert_eq!(
            json(r#"{"id":1,"text":"","html":"h"}"#)?.content,
            Content::Html("h".into())
        );
        for blank in [" ", r"\n\t", r"\u00a0", r"\ufeff\u200b", r"\r\n\u3000"] {
            let page = json(&format!(r#"{{"id":1,"text":"{blank}","html":"h"}}"#))?;
            assert_eq!(page.content, Content::Html("h".into()), "{blank}");
        }
        assert_eq!(
            json(r#"{"id":1,"text":""}"#)?.content,
            Content::Text(String::new())
        );
        assert_eq!(
            json(r#"{"id":1,"fingerprint":null,"too_short":true}"#)?.content,
            Content::TooShort
        );
        assert!(
            json(r#"{"id":1,"fingerprint":"00000000000000ff","text":7}"#).is_ok(),
            "the text is not needed"
        );
        let options = ReadOptions::new().html_field("page");
        let page = parse_json(br#"{"id":1,"html":"<b>","page":"<p>"}"#, false, &options)?;
        assert_eq!(page.content, Content::Html("<p>".into()));
        let options = ReadOptions::new().html_field("text");
        let page = parse_json(br#"{"id":1,"text":"<p>"}"#, false, &options)?;
        assert_eq!(page.content, Content::Html("<p>".into()));
        Ok(())
    }

    /// Features and fingerprints of others, and a `text` beside a page, were once compared in its place.
    #[test]
    fn a_field_that_is_named_is_the_content_and_no_other() -> Result<(), Reason> {
        let others =
            r#""fingerprint":"00000000000000ff","sketch":7,"features":["f"],"text":"t","html":"h""#;
        let read = |fields: &str, options: &ReadOptions| {
            let line = format!("{{\"id\":1,{others},\"too_short\":true{fields}}}");
            parse_json(line.as_bytes(), false, options).map(|parsed| parsed.content)
        };
        let text = ReadOptions::new().text_field("body");
        let page = ReadOptions::new().html_field("raw");
        let both = ReadOptions::new().text_field("body").html_field("raw");
        let fields = r#","body":"b","raw":"r""#;
        assert_eq!(read(fields, &text)?, Content::Text("b".into()));
        assert_eq!(read(fields, &page)?, Content::Html("r".into()));
        assert_eq!(read(fields, &both)?, Content::Text("b".into()));
        for fields in [r#","body":"","raw":"r""#, r#","body":null,"raw":"r""#] {
            assert_eq!(read(fields, &both)?, Content::Html("r".into()), "{fields}");
        }
        assert_eq!(
            read(r#","body":"""#, &text)?,
            Content::Text(String::new()),
            "an empty text is one"
        );
        for (options, named) in [
            (&text, "`body`"),
            (&page, "`raw`"),
            (&both, "`body` or `raw`"),
        ] {
            for fields in ["", r#","body":null,"raw":null"#] {
                let refused = read(fields, options).err().map(|reason| reason.to_string());
                let refused = refused.unwrap_or_default();
                assert_eq!(
                    refused,
                    format!(
                        "the record has no content: field {named} is wanted, and it has `id`, `fingerprint`, `sketch`, \
                         `features`, `text`, `html`, `too_short`; `--text-field` or `--html-field` names the one that \
                         holds the text"
                    )
                );
            }
        }
        // A message names the field by its own name.
        for (fields, options, says) in [
            (r#","body":5"#, &text, "field `body`: a text is wanted"),
            (r#","raw":5"#, &page, "field `raw`: a text is wanted"),
        ] {
            let refused = read(fields, options).err().map(|reason| reason.to_string());
            assert_eq!(refused.as_deref(), Some(says));
        }
        let named = ReadOptions::new().key_field("name");
        let refused = parse_json(br#"{"name":[],"text":"t"}"#, false, &named).err();
        assert!(
            matches!(&refused, Some(Reason::Field { name, .. }) if name == "name"),
            "{refused:?}"
        );
        // One of the known names can be the one that is named.
        let known = ReadOptions::new().text_field("features");
        let parsed = parse_json(br#"{"id":1,"text":"t","features":"f"}"#, false, &known)?;
        assert_eq!(parsed.content, Content::Text("f".into()));
        Ok(())
    }

    /// Such documents counted as seen in 1970, and expired at once.
    #[test]
    fn numbers_that_are_dates_are_refused_as_times() {
        for (number, written) in [
            ("2023", "2023-01-01"),
            ("20240102", "2024-01-02"),
            ("20240102.0", "2024-01-02"),
            ("20240102030405", "2024-01-02T03:04:05Z"),
        ] {
            for field in ["seen", "time"] {
                let refused = json(&format!(r#"{{"id":1,"text":"t","{field}":{number}}}"#));
                let told = refused.err().map(|reason| reason.to_string());
                assert!(
                    told.is_some_and(|told| told.contains(written)),
                    "{field} {number}"
                );
            }
        }
        for good in ["1700000000", "7", r#""9999-12-31T23:59:59Z""#] {
            assert!(
                json(&format!(r#"{{"id":1,"text":"t","seen":{good}}}"#)).is_ok(),
                "{good}"
            );
        }
    }

    /// A record of these fields, with a value in the places that are marked.
    fn with_odd(fields: &str, value: &str) -> String {
        format!("{{{}}}", fields.replace("ODD", value))
    }

    /// Values that JSON has and that cannot be held. In a field of an unknown name they never mattered.
    #[test]
    fn only_fields_that_are_used_are_parsed() -> Result<(), Reason> {
        let deep = format!("{}{}", "[".repeat(1_000), "]".repeat(1_000));
        for odd in ["1e400", r#""\ud83c""#, &deep] {
            let good = [
                r#""id":1,"url":ODD,"text":"t""#,
                r#""id":1,"text":"t","html":ODD"#,
                r#""id":1,"text":"t","shingles":ODD,"sketch":ODD"#,
                r#""id":1,"text":"t","fingerprint":ODD"#,
                r#""id":1,"text":"t","group":ODD"#,
                r#""id":1,"text":"t","seen":1,"time":ODD"#,
                r#""id":1,"text":"t","payload_base64":"","payload":ODD"#,
                r#""id":1,"fingerprint":"00000000000000ff","text":ODD,"features":ODD"#,
                r#""id":ODD,"id":1,"text":"t""#,
            ];
            for fields in good {
                let parsed = json(&with_odd(fields, odd))?;
                assert_eq!(parsed.key.as_deref(), Some(&b"1"[..]), "{fields}");
            }
            for fields in [
                r#""id":ODD,"text":"t""#,
                r#""id":1,"text":ODD"#,
                r#""id":1,"text":"t","rank":ODD"#,
                r#""id":1,"text":"t","features":ODD"#,
            ] {
                let refused = json(&with_odd(fields, odd));
                assert!(matches!(refused, Err(Reason::Json { .. })), "{fields}");
            }
            let mut cleaning = ReadOptions::new();
            cleaning.numbered = true;
            cleaning.odd_ranks_are_none = true;
            let fields = r#""id":ODD,"text":"t","rank":ODD,"repeats":ODD"#;
            let parsed = parse_json(with_odd(fields, odd).as_bytes(), false, &cleaning)?;
            assert_eq!((parsed.key, parsed.rank, parsed.repeats), (None, vec![], 0));
            // The names are told whatever the values are.
            let refused = json(&with_odd(r#""id":1,"body":ODD"#, odd));
            assert!(
                matches!(&refused, Err(Reason::NoContent { fields, .. }) if fields == &["id", "body"]),
                "{refused:?}"
            );
        }
        // The column is that of the line.
        let refused = json(r#"{"id":1,"text":"t","rank": 1e400}"#);
        assert!(
            matches!(&refused, Err(Reason::Json { column, .. }) if (28..=33).contains(column)),
            "{refused:?}"
        );
        Ok(())
    }

    #[test]
    fn times_ranks_and_payloads_are_read_in_every_form() -> Result<(), Reason> {
        let parts = |fields: &str| json(&format!(r#"{{"id":1,"text":"t",{fields}}}"#));
        assert_eq!(parts(r#""seen":-5"#)?.seen, Some(-5));
        assert_eq!(parts(r#""seen":1700000000.75"#)?.seen, Some(1_700_000_000));
        assert!(parts(r#""seen":1e300"#).is_err());
        assert_eq!(
            parts(r#""time":"1970-01-01T01:00:01+01:00""#)?.seen,
            Some(1)
        );
        assert_eq!(parts(r#""seen":9,"time":"soon""#)?.seen, Some(9));
        assert_eq!(parts(r#""rank":5"#)?.rank, [5]);
        assert_eq!(parts(r#""rank":[5,-6]"#)?.rank, [5, -6]);
        assert_eq!(parts(r#""payload":"é""#)?.payload, "é".as_bytes());
        assert_eq!(parts(r#""payload_base64":"AAE=""#)?.payload, [0, 1]);
        assert_eq!(parts(r#""scope":"en""#)?.scope, "en");
        assert_eq!(parts(r#""repeats":7"#)?.repeats, 7);
        assert_eq!(parts(r#""repeats":null"#)?.repeats, 0);
        assert!(parts(r#""repeats":-1"#).is_err());
        assert!(parts(r#""repeats":1.5"#).is_err());
        assert!(parts(r#""seen":"yesterday""#).is_err());
        assert!(parts(r#""rank":"high""#).is_err());
        assert!(parts(r#""payload_base64":"%""#).is_err());
        Ok(())
    }

    #[test]
    fn what_is_wrong_is_said() {
        let message = |line: &[u8]| match parse_json(line, false, &ReadOptions::new()) {
            Ok(_) => "accepted".to_owned(),
            Err(reason) => reason.to_string(),
        };
        assert_eq!(
            message(b"{\"id\":1,\"text\":5}"),
            "field `text`: a text is wanted"
        );
        assert_eq!(
            message(b"{\"id\":1,\"text\":\"\xff\"}"),
            "the record is not UTF-8 (byte 17); if the text is in another encoding, convert it with \
             `iconv -f ENCODING -t UTF-8`"
        );
        assert!(
            message(b"[1]").contains("expected an object"),
            "{}",
            message(b"[1]")
        );
        assert!(
            message(b"{\"id\":[1],\"text\":\"t\"}")
                .contains("field `id`: a text or a whole number")
        );
        assert!(
            message(b"{\"id\":123456789012345678901,\"text\":\"t\"}")
                .contains("field `id`: a text or a whole number")
        );
        assert!(
            message(b"{\"id\":1,\"text\":")
                .contains("not a JSON record: EOF while parsing a value (column 15)")
        );
        assert!(message(b"{\"id\":1}").contains("no content"));
        assert!(message(b"{\"id\":1,\"text\":\"t\"} x").contains("trailing characters"));
        assert!(message(b"{\"id\":1,\"fingerprint\":\"12\"}").contains("16 hexadecimal digits"));
    }
}
