//! Parses a line of JSON.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::options::ReadOptions;
use super::parsed::{Content, Parsed, utf8};
use super::rejected::Reason;
use crate::document::Document;
use crate::sketch::Sketch;

/// What is said of an escape such as `\ud83c` without the other half.
const HALF_A_PAIR: &str = "an escape is half of a surrogate pair, which is no character";

/// Parses a JSON object on one line.
pub(super) fn parse_json(line: &[u8], options: &ReadOptions) -> Result<Parsed, Reason> {
    let text = utf8(line)?;
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut fields = FieldsOf(options)
        .deserialize(&mut deserializer)
        .map_err(|error| not_json(text, &error))?;
    deserializer.end().map_err(|error| not_json(text, &error))?;
    // It holds a text with escapes once more.
    drop(deserializer);
    let Some(content) = fields.content()? else {
        return Err(Reason::NoContent {
            fields: names_of(text),
        });
    };
    let key = fields.key(options)?;
    fields.parsed(key, content, options)
}

/// Why a line is no record of JSON.
fn not_json(line: &str, error: &serde_json::Error) -> Reason {
    let message = error.to_string();
    let problem = match message.split(" at line ").next().unwrap_or(&message) {
        // The parser's words do not say what is wrong. Programs that cut texts in 16-bit units write these.
        "unexpected end of hex escape" | "lone leading surrogate in hex escape" => {
            HALF_A_PAIR.to_owned()
        }
        problem => match number_that_is_none(line, error.column()) {
            Some(word) => format!(
                "`{word}` is no number of JSON; write `null` in its place (Python: `json.dumps(…, \
                 allow_nan=False)` finds it)"
            ),
            None => problem.to_owned(),
        },
    };
    Reason::Json {
        problem,
        column: error.column(),
    }
}

/// What stands in a line where the parser stopped, if it is one of the words that some programs write for numbers that
/// JSON does not have. The parser stops within it.
fn number_that_is_none(line: &str, column: usize) -> Option<&'static str> {
    const WORDS: [&str; 6] = ["NaN", "nan", "Infinity", "-Infinity", "inf", "-inf"];
    let bytes = line.as_bytes();
    let stopped = column.min(bytes.len());
    // Without a letter the parser has stopped before the word.
    let mut start = stopped;
    while start > 0 && is_part_of_word(bytes[start - 1]) {
        start -= 1;
    }
    let mut end = start;
    while end < bytes.len() && is_part_of_word(bytes[end]) {
        end += 1;
    }
    WORDS
        .into_iter()
        .find(|word| word.as_bytes() == &bytes[start..end])
}

fn is_part_of_word(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || byte == b'-'
}

/// The names of the first fields of an object, for a message.
fn names_of(object: &str) -> Vec<String> {
    const MOST: usize = 12;
    let fields: serde_json::Map<String, Value> = serde_json::from_str(object).unwrap_or_default();
    fields.keys().take(MOST).cloned().collect()
}

/// What a field of this name may be needed for.
#[cfg(feature = "parquet")]
pub(super) fn use_of(name: &str, options: &ReadOptions) -> Option<crate::parquet::Use> {
    use crate::parquet::Use;

    Fields::default().named(name, options)?;
    Some(match name {
        _ if is_named(&options.text_field, name) || is_named(&options.html_field, name) => {
            Use::NamedContent
        }
        "text" | "html" | "fingerprint" => Use::Content,
        // A place names the document.
        _ if options.numbered => Use::Other,
        "key" | "key_base64" | "id" | "url" => Use::Key,
        _ if is_named(&options.key_field, name) => Use::Key,
        _ => Use::Other,
    })
}

fn is_named(option: &Option<String>, name: &str) -> bool {
    option.as_deref() == Some(name)
}

/// The fields of a JSON record that may be needed. A field that is null counts as absent. A field that is not
/// needed is not checked: a record with a key is not rejected for an odd `url`.
#[derive(Default)]
struct Fields {
    named_key: Option<Value>,
    named_html: Option<Value>,
    named_text: Option<Value>,
    key: Option<Value>,
    key_base64: Option<Value>,
    id: Option<Value>,
    url: Option<Value>,
    fingerprint: Option<Value>,
    sketch: Option<Value>,
    shingles: Option<Value>,
    features: Option<Value>,
    text: Option<Value>,
    html: Option<Value>,
    too_short: Option<Value>,
    seen: Option<Value>,
    time: Option<Value>,
    repeats: Option<Value>,
    rank: Option<Value>,
    scope: Option<Value>,
    payload: Option<Value>,
    payload_base64: Option<Value>,
    group: Option<Value>,
}

impl Fields {
    /// The field of this name, if it is one that may be needed.
    fn named(&mut self, name: &str, options: &ReadOptions) -> Option<&mut Option<Value>> {
        Some(match name {
            // Names given by the caller come first: with `--html-field text`, the field `text` is HTML.
            _ if is_named(&options.html_field, name) => &mut self.named_html,
            _ if is_named(&options.text_field, name) => &mut self.named_text,
            _ if is_named(&options.key_field, name) => &mut self.named_key,
            "key" | "key_base64" | "id" | "url" if options.key_field.is_some() => return None,
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
            ("of the key", &self.named_key),
            ("key", &self.key),
            ("key_base64", &self.key_base64),
            ("id", &self.id),
            ("url", &self.url),
        ];
        for (name, value) in candidates {
            let key = match value {
                None => continue,
                Some(Value::String(text)) if text.is_empty() => continue,
                Some(Value::String(encoded)) if name == "key_base64" => {
                    from_base64("key_base64", encoded)?
                }
                Some(Value::String(text)) => text.as_bytes().to_vec(),
                // The parser rounds other numbers, so two keys could become one.
                Some(Value::Number(number)) if number.is_i64() || number.is_u64() => {
                    number.to_string().into_bytes()
                }
                // Its place names the document.
                Some(_) if options.numbered => return Ok(None),
                Some(_) => {
                    return Err(Reason::Field {
                        name,
                        expected: "a text or a whole number of at most 64 bits",
                    });
                }
            };
            return Ok(Some(key));
        }
        Ok(None)
    }

    /// What a fingerprint is made from. `None` if there is nothing.
    fn content(&mut self) -> Result<Option<Content>, Reason> {
        match self.ready() {
            // A fingerprint of another form is that of another program, where there is a text to make one from.
            Err(_) if self.has_text() => {}
            Err(reason) => return Err(reason),
            Ok(Some(ready)) => return Ok(Some(ready)),
            Ok(None) => {}
        }
        if let Some(features) = &self.features {
            return features_of(features).map(Content::Features).map(Some);
        }
        // They can be large, and are not copied.
        let html = self.named_html.take().or(self.html.take());
        match self.named_text.take().or(self.text.take()) {
            // If the text is empty and there is HTML, the HTML counts.
            Some(Value::String(text)) if !text.is_empty() || html.is_none() => {
                return Ok(Some(Content::Text(text)));
            }
            None | Some(Value::String(_)) => {}
            Some(_) => {
                return Err(Reason::Field {
                    name: "text",
                    expected: "a text",
                });
            }
        }
        match html {
            Some(Value::String(html)) => Ok(Some(Content::Html(html))),
            Some(_) => Err(Reason::Field {
                name: "html",
                expected: "a text",
            }),
            None if self.too_short == Some(Value::Bool(true)) => Ok(Some(Content::TooShort)),
            None => Ok(None),
        }
    }

    /// The ready fingerprint, with its sketch.
    fn ready(&self) -> Result<Option<Content>, Reason> {
        let Some(digits) = text_of("fingerprint", self.fingerprint.as_ref())? else {
            return Ok(None);
        };
        let fingerprint = digits.parse().map_err(Reason::Document)?;
        Ok(Some(Content::Fingerprint(fingerprint, self.sketch()?)))
    }

    /// Whether a text or a page is there that is not empty.
    fn has_text(&self) -> bool {
        let fields = [&self.named_text, &self.named_html, &self.text, &self.html];
        fields
            .into_iter()
            .flatten()
            .any(|field| field.as_str().is_some_and(|text| !text.is_empty()))
    }

    /// The sketch beside a ready fingerprint.
    fn sketch(&self) -> Result<Option<Sketch>, Reason> {
        let Some(digits) = text_of("sketch", self.sketch.as_ref())? else {
            return Ok(None);
        };
        let shingles = self.shingles.as_ref().and_then(Value::as_u64);
        let Some(Ok(shingles)) = shingles.map(u32::try_from) else {
            return Err(Reason::Field {
                name: "shingles",
                expected: "the number of shingles, beside `sketch`,",
            });
        };
        let sketch = Sketch::parse(digits, shingles).map_err(Reason::Document)?;
        Ok(Some(sketch))
    }

    /// The record of this key and this content, with all other fields.
    fn parsed(
        &self,
        key: Option<Vec<u8>>,
        content: Content,
        options: &ReadOptions,
    ) -> Result<Parsed, Reason> {
        let payload = match text_of("payload_base64", self.payload_base64.as_ref())? {
            Some(encoded) => from_base64("payload_base64", encoded)?,
            None => text_of("payload", self.payload.as_ref())?
                .unwrap_or_default()
                .as_bytes()
                .to_vec(),
        };
        let seen = match (&self.seen, &self.time) {
            (Some(value), _) => Some(unix_seconds("seen", value)?),
            (None, Some(value)) => Some(unix_seconds("time", value)?),
            (None, None) => None,
        };
        let repeats = match &self.repeats {
            None => 0,
            // In a corpus that is cleaned, a field of this name may mean something else.
            Some(value) if options.numbered => value.as_u64().unwrap_or(0),
            Some(value) => value.as_u64().ok_or(Reason::Field {
                name: "repeats",
                expected: "a whole number that is not negative",
            })?,
        };
        let rank = match &self.rank {
            None => Vec::new(),
            Some(value) => match rank(value) {
                Ok(rank) if options.odd_ranks_are_none && rank.len() > Document::MAX_RANKS => {
                    Vec::new()
                }
                Err(_) if options.odd_ranks_are_none => Vec::new(),
                rank => rank?,
            },
        };
        let scope = text_of("scope", self.scope.as_ref())?
            .unwrap_or_default()
            .to_owned();
        // Whatever is there is no reason to reject a document, which does not need it.
        let group = self
            .group
            .as_ref()
            .and_then(Value::as_str)
            .map(str::to_owned);
        Ok(Parsed {
            key,
            content,
            seen,
            repeats,
            rank,
            scope,
            payload,
            group,
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

/// The text of a field. The field may be absent.
fn text_of<'v>(name: &'static str, value: Option<&'v Value>) -> Result<Option<&'v str>, Reason> {
    match value {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Reason::Field {
            name,
            expected: "a text",
        }),
    }
}

/// Reads [`Fields`] from a JSON object. Other fields are skipped and not kept in memory.
struct FieldsOf<'o>(&'o ReadOptions);

impl<'de> DeserializeSeed<'de> for FieldsOf<'_> {
    type Value = Fields;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Fields, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for FieldsOf<'_> {
    type Value = Fields;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object on one line")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let Self(options) = self;
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            match fields.named(&name, options) {
                Some(field) => *field = map.next_value::<Option<Value>>()?,
                None => _ = map.next_value::<IgnoredAny>()?,
            }
        }
        Ok(fields)
    }
}

fn from_base64(name: &'static str, encoded: &str) -> Result<Vec<u8>, Reason> {
    BASE64.decode(encoded).map_err(|_| Reason::Field {
        name,
        expected: "base64",
    })
}

fn unix_seconds(name: &'static str, value: &Value) -> Result<i64, Reason> {
    let seconds = match value {
        // Many programs print times as floats. Fractions of a second are dropped.
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(seconds), _) => Some(seconds),
            (None, Some(seconds)) if seconds.abs() < 1e15 => Some(seconds.floor() as i64),
            _ => None,
        },
        Value::String(text) => text.parse().ok().map(jiff::Timestamp::as_second),
        _ => None,
    };
    seconds.ok_or(Reason::Field {
        name,
        expected: "a number of Unix seconds, or a time as in RFC 3339,",
    })
}

fn rank(value: &Value) -> Result<Vec<i64>, Reason> {
    let numbers: Option<Vec<i64>> = match value {
        Value::Array(numbers) => numbers.iter().map(Value::as_i64).collect(),
        number => [number.as_i64()].into_iter().collect(),
    };
    numbers.ok_or(Reason::Field {
        name: "rank",
        expected: "a whole number or a list of them",
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fingerprint::Fingerprint;

    fn json(line: &str) -> Result<Parsed, Reason> {
        parse_json(line.as_bytes(), &ReadOptions::new())
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
        let named = parse_json(br#"{"name":"n","key":"k","text":"t"}"#, &options)?;
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
        let page = parse_json(br#"{"id":1,"html":"<p>","page":null}"#, &options)?;
        assert_eq!(page.content, Content::Html("<p>".into()));
        let options = ReadOptions::new().html_field("text");
        let page = parse_json(br#"{"id":1,"text":"<p>"}"#, &options)?;
        assert_eq!(page.content, Content::Html("<p>".into()));
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
        let message = |line: &[u8]| match parse_json(line, &ReadOptions::new()) {
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
