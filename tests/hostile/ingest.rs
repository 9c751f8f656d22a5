//! Inputs: lines of JSON and with tabs, web archives, responses of HTTP, encodings, and whole inputs of any format.

use std::io::Cursor;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use super::body::decode_body;
use super::encoding::decoded;
use super::format::InputFormat;
use super::input::{Input, Raw, RawContent};
use super::json::parse_json;
use super::options::ReadOptions;
use super::parsed::{Content, Parsed, parse};
use super::record::{Fingerprinting, Record};
use super::stored_bytes::Progress;
use super::warc_page::parse_warc;
use crate::text::{Scheme, Unit};

/// The longest record. So small that a fuzzer goes beyond.
const MOST: usize = 16 << 10;

fn options(format: InputFormat) -> ReadOptions {
    ReadOptions::new().format(format).max_record_bytes(MOST)
}

/// A record of any bytes is a document or an error, as a database of the default scheme takes it.
fn into_document(record: Record) {
    let rule = Fingerprinting::new(Scheme::default(), None).expect("there is a default scheme");
    _ = record.text(rule);
    if let Ok(document) = record.into_document(rule) {
        assert!(document.validate().is_ok());
    }
}

/// Any bytes as a line of JSON. What is read is the same if it is written as JSON again.
pub(crate) fn jsonl(line: &[u8]) {
    let options = options(InputFormat::Jsonl);
    let Ok(parsed) = parse_json(line, false, &options) else {
        return;
    };
    let is_list = matches!(&parsed.content, Content::Features(_));
    if !is_list {
        let again = json_of(&parsed).to_string();
        let again = parse_json(again.as_bytes(), false, &options);
        assert!(
            again.as_ref().is_ok_and(|again| *again == parsed),
            "{again:?} of {parsed:?}"
        );
    }
    let raw = raw(InputFormat::Jsonl, line);
    if let Ok(Some(record)) = Record::parse(raw.clone(), &options) {
        into_document(record);
    }
    for unit in [Unit::Paragraph, Unit::Sentence] {
        if let Ok(Some(record)) = Record::parse(raw.clone(), &options.clone().unit(unit)) {
            units(record);
        }
    }
}

fn json_of(parsed: &Parsed) -> Value {
    let mut fields = Map::new();
    let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    if let Some(key) = &parsed.key {
        set("key_base64", BASE64.encode(key).into());
    }
    match &parsed.content {
        Content::Fingerprint(fingerprint, sketch) => {
            set("fingerprint", fingerprint.to_string().into());
            if let Some(sketch) = sketch {
                set("sketch", sketch.to_string().into());
                set("shingles", sketch.shingles().into());
            }
        }
        Content::Text(text) => _ = set("text", text.as_str().into()),
        Content::Html(html) | Content::Xhtml(html) => _ = set("html", html.as_str().into()),
        Content::TooShort => _ = set("too_short", true.into()),
        Content::Features(_) => {}
    }
    if let Some(seen) = parsed.seen {
        set("seen", seen.into());
    }
    set("repeats", json!(parsed.repeats));
    set("rank", json!(parsed.rank));
    set("scope", parsed.scope.as_str().into());
    set("payload_base64", BASE64.encode(&parsed.payload).into());
    set("group", json!(parsed.group));
    Value::Object(fields)
}

fn raw(format: InputFormat, bytes: &[u8]) -> Raw {
    let content = RawContent::Bytes(bytes.to_vec());
    Raw::new(0, Path::new("input"), Some(7), format, content)
}

/// The units of a record are numbered in order.
fn units(record: Record) {
    for (number, unit) in record.into_units().into_iter().flatten().enumerate() {
        let suffix = format!("#{}", number + 1);
        assert!(
            unit.key()
                .is_some_and(|key| key.ends_with(suffix.as_bytes()))
        );
        into_document(unit);
    }
}

/// Any bytes as lines of which a tab parts the key. What is read is the same if it is escaped again.
pub(crate) fn tsv(line: &[u8]) {
    for format in [
        InputFormat::Tsv,
        InputFormat::Fingerprints,
        InputFormat::Lines,
    ] {
        let raw = raw(format, line);
        let options = options(format);
        let parsed = parse(line, format, &raw.position, &options);
        if let (InputFormat::Tsv, Ok(Some(parsed))) = (format, &parsed) {
            let key = parsed.key.clone().unwrap_or_default();
            let Content::Text(text) = &parsed.content else {
                panic!("it is no text: {parsed:?}");
            };
            let again = [&escaped(&key)[..], b"\t", &escaped(text.as_bytes())].concat();
            // A byte order mark before a line is none of its bytes.
            if !again.starts_with(b"\xef\xbb\xbf") {
                let again = parse(&again, format, &raw.position, &options);
                assert!(again.is_ok_and(|again| again.as_ref() == Some(parsed)));
            }
        }
        if let Ok(Some(record)) = Record::parse(raw, &options) {
            into_document(record);
        }
    }
}

fn escaped(bytes: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::new();
    for &byte in bytes {
        match byte {
            b'\t' => escaped.extend(b"\\t"),
            b'\n' => escaped.extend(b"\\n"),
            b'\r' => escaped.extend(b"\\r"),
            b'\\' => escaped.extend(b"\\\\"),
            byte => escaped.push(byte),
        }
    }
    escaped
}

/// Any bytes as a web archive, plain or packed.
pub(crate) fn warc(bytes: &[u8]) {
    whole(bytes, InputFormat::Warc);
}

/// Any bytes as standard input of which nobody has said the format.
pub(crate) fn input(bytes: &[u8]) {
    whole(bytes, InputFormat::Auto);
}

fn opened(bytes: &[u8], options: &ReadOptions) -> Option<Input> {
    let progress = Progress::default();
    let stdin = Cursor::new(bytes.to_vec());
    let path = Path::new("-");
    Input::open(0, path, options, &progress, Some(Box::new(stdin)), None).ok()
}

/// Reads all records, which are no longer than they may be, and ends. If the input is not packed, its records as they
/// are copied are its bytes.
fn whole(bytes: &[u8], format: InputFormat) {
    let options = options(format);
    let Some(mut input) = opened(bytes, &options) else {
        return;
    };
    let mut records = 0;
    let mut has_failed = false;
    while let Some(raw) = input.next_raw() {
        records += 1;
        // A packed byte may stand for a thousand.
        assert!(records <= 2 + 2000 * bytes.len(), "it does not end");
        match &raw.content {
            RawContent::Bytes(record) => assert!(record.len() <= MOST + (64 << 10) + 2),
            RawContent::Failed { .. } => has_failed = true,
            _ => {}
        }
        if !matches!(raw.content, RawContent::End)
            && let Ok(Some(record)) = Record::parse(raw, &options)
        {
            into_document(record);
        }
    }
    assert!(input.next_raw().is_none());
    let is_packed = format!("{:?}", input.kind().1) != "None";
    if has_failed || is_packed {
        return;
    }
    let Some(mut input) = opened(bytes, &options) else {
        panic!("an input is opened once and not again");
    };
    let mut copied = Vec::new();
    if input.is_behind_byte_order_mark() {
        copied.extend(b"\xef\xbb\xbf");
    }
    while input
        .copy_next(&mut copied)
        .expect("what was read can be copied")
    {}
    assert_eq!(copied, bytes);
}

/// Any bytes as what a server has sent, behind a byte that chooses what is said of them.
pub(crate) fn http(bytes: &[u8]) {
    let head = "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a/\r\nContent-Type: ";
    for content_type in ["application/http; msgtype=response", "text/html"] {
        let header = format!(
            "{head}{content_type}\r\nContent-Length: {}\r\n\r\n",
            bytes.len()
        );
        let record = [header.as_bytes(), bytes].concat();
        if let Ok(Some(parsed)) = parse_warc(&record, MOST, true) {
            assert!(text_of(&parsed.content).len() <= 3 * MOST.max(bytes.len()) + 8);
        }
    }
    let Some((&choice, body)) = bytes.split_first() else {
        return;
    };
    let words = [
        "gzip", "deflate", "br", "zstd", "x-gzip", "identity", "compress", "chunked",
    ];
    let encodings = [
        words[usize::from(choice & 7)],
        words[usize::from(choice >> 3 & 7)],
    ];
    let encodings = encodings.map(str::to_owned);
    let transfer: &[String] = if choice & 64 == 0 {
        &[]
    } else {
        &encodings[1..]
    };
    if let Ok(page) = decode_body(body, transfer, &encodings, MOST) {
        assert!(page.len() <= MOST.max(body.len()));
    }
}

fn text_of(content: &Content) -> &str {
    match content {
        Content::Text(text) | Content::Html(text) | Content::Xhtml(text) => text,
        Content::Fingerprint(..) | Content::Features(_) | Content::TooShort => "",
    }
}

/// Any bytes as text in an encoding that the first byte chooses, or that is found.
pub(crate) fn encodings(bytes: &[u8]) {
    const LABELS: [&str; 16] = [
        "utf-8",
        "utf-16le",
        "utf-16be",
        "windows-1252",
        "shift_jis",
        "euc-jp",
        "iso-2022-jp",
        "gb18030",
        "big5",
        "euc-kr",
        "koi8-r",
        "windows-1251",
        "x-user-defined",
        "iso-2022-kr",
        "none such",
        "",
    ];
    let Some((&choice, page)) = bytes.split_first() else {
        return;
    };
    let label = LABELS[usize::from(choice & 15)];
    let charset = (choice & 32 == 0).then_some(label);
    let read = decoded(page, charset, choice & 16 != 0);
    // No encoding makes more than three bytes of one.
    assert!(
        read.as_ref()
            .is_ok_and(|text| text.len() <= 3 * page.len() + 8)
            || read.is_err()
    );
    if charset.is_none()
        && choice & 16 == 0
        && let Ok(text) = std::str::from_utf8(page)
        && text
            .chars()
            .all(|character| character.is_alphanumeric() || character == ' ')
    {
        assert_eq!(read.as_deref().ok(), Some(text), "a plain text of UTF-8");
    }
}
