//! Reads the documents of a set: JSON Lines, compressed with gzip or not. Which field counts is decided as by
//! `simdb ingest`.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};
use simdb::Unit;

use crate::Result;

pub(crate) struct Document {
    pub(crate) key: String,
    pub(crate) group: Option<String>,
    /// Of HTML, the visible text. Runs of white space are one space: for simdb they are the same anyway, but not
    /// for peers that take characters. Lines that are indented would look alike to them.
    pub(crate) text: String,
}

pub(crate) fn read(path: &Path, html_field: Option<&str>) -> Result<Vec<Document>> {
    let wrong = |line: usize, reason: &str| format!("{}, line {line}: {reason}", path.display());
    let mut documents = Vec::new();
    for (number, line) in (1..).zip(open(path)?.lines()) {
        let fields: Map<String, Value> =
            serde_json::from_str(&line?).map_err(|error| wrong(number, &error.to_string()))?;
        let document = document(&fields, html_field)
            .ok_or_else(|| wrong(number, "there is no key or no text"))?;
        documents.push(document);
    }
    Ok(documents)
}

fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let mut file = BufReader::new(file);
    let is_compressed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    let reader: Box<dyn Read> = if is_compressed {
        Box::new(MultiGzDecoder::new(file))
    } else {
        Box::new(file)
    };
    Ok(Box::new(BufReader::new(reader)))
}

fn document(fields: &Map<String, Value>, html_field: Option<&str>) -> Option<Document> {
    let field = |name: &str| {
        fields
            .get(name)
            .and_then(Value::as_str)
            .filter(|it| !it.is_empty())
    };
    let key = ["key", "id", "url"].into_iter().find_map(field)?.to_owned();
    let group = fields
        .get("group")
        .and_then(Value::as_str)
        .map(str::to_owned);
    // Such a field is HTML, so it is not the text.
    let html_field = html_field.filter(|name| fields.contains_key(*name));
    let text = field("text").filter(|_| html_field != Some("text"));
    let text = match (text, field(html_field.unwrap_or("html"))) {
        (Some(text), _) => one_line(text),
        (None, Some(html)) => one_line(&Unit::Document.cut_html(html).concat()),
        (None, None) => fields.contains_key("text").then(String::new)?,
    };
    Some(Document { key, group, text })
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
