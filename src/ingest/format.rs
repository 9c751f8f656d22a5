//! The formats of inputs, and which of them an input has.

use std::path::Path;

use super::sniffing::{Kind, beginning_of, kind_of_bytes};
use super::unreadable::{is_fingerprints, kind_of_json, kind_of_many};
use crate::error::{Error, Result, path_name};

/// How an input is cut into records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum InputFormat {
    /// The format is detected, by the first of these rules that fits:
    ///
    /// * [`Warc`](Self::Warc) for the name `.warc`, and if it begins with `WARC/`;
    /// * [`Text`](Self::Text) for the names `.txt`, `.md`, `.html`, `.htm`, `.xhtml` and `.xht`;
    /// * [`Jsonl`](Self::Jsonl) for the names `.jsonl`, `.ndjson` and `.json`, and if the first character is
    ///   `{`;
    /// * [`Tsv`](Self::Tsv) for the name `.tsv`, and for standard input whose first line has a tab;
    /// * [`Text`](Self::Text) for everything else, but for `.csv`, XML that is not XHTML, and mailboxes of several
    ///   messages: these hold many documents in formats that are not read, and are refused.
    #[default]
    Auto,
    /// A JSON object per line.
    Jsonl,
    /// A key, a tab and a text per line, without a header. `\t`, `\n`, `\r` and `\\` stand for tab, line
    /// feed, carriage return and backslash.
    Tsv,
    /// A file is a document, and its path is the key. HTML is known by the names `.html` and `.htm`, XHTML by `.xhtml`
    /// and `.xht`, and both by their beginning if the name is not `.txt` or `.md`. Any encoding is read.
    Text,
    /// A document per line that is not empty. Its key is the path of the file, a colon and the number of the line.
    Lines,
    /// A key, a tab and 16 hexadecimal digits per line.
    Fingerprints,
    /// A web archive (WARC). Responses, resources and conversions that are HTML or text are documents. The key is the
    /// address of the page, and it was seen at the date of the record. Other records are passed over.
    Warc,
}

/// The endings of the names of pages.
const HTML: &[&str] = &[".html", ".htm"];
const XHTML: &[&str] = &[".xhtml", ".xht"];

/// The endings of the names of plain texts, which may begin like pages.
const TEXT: &[&str] = &[".txt", ".md"];

/// Whether a file is HTML by its name.
pub(super) fn is_html(path: &Path) -> bool {
    name_ends(&plain_name(path), HTML)
}

/// Whether a file is XHTML by its name.
pub(super) fn is_xhtml(path: &Path) -> bool {
    name_ends(&plain_name(path), XHTML)
}

/// Whether a file is a plain text by its name.
pub(super) fn is_text(path: &Path) -> bool {
    name_ends(&plain_name(path), TEXT)
}

/// Detects the format by the name of the input and its first bytes.
pub(super) fn detect(path: &Path, is_stdin: bool, beginning: &[u8]) -> Result<InputFormat> {
    let name = plain_name(path);
    if name.ends_with(".arc") || beginning.starts_with(b"filedesc://") {
        let reason = "is a web archive of the old format ARC, which is not read; turn it into WARC";
        return Err(not_readable(path, reason));
    }
    if beginning.starts_with(b"WARC/") || name.ends_with(".warc") {
        return Ok(InputFormat::Warc);
    }
    let is_page = name_ends(&name, HTML) || name_ends(&name, XHTML);
    let is_named_text = is_page || name_ends(&name, TEXT);
    let shown = beginning_of(beginning);
    let shown = shown.trim_ascii_start();
    let first_line = shown
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    let format = if is_named_text {
        InputFormat::Text
    } else if name_ends(&name, &[".jsonl", ".ndjson", ".json"]) || shown.first() == Some(&b'{') {
        InputFormat::Jsonl
    } else if name_ends(&name, &[".tsv"]) || (is_stdin && first_line.contains(&b'\t')) {
        InputFormat::Tsv
    } else {
        InputFormat::Text
    };
    let problem = match format {
        InputFormat::Jsonl => kind_of_json(shown),
        InputFormat::Tsv | InputFormat::Text if !is_page && is_fingerprints(shown) => {
            Some("has fingerprints in place of texts; say so with `--input-format fingerprints`")
        }
        InputFormat::Text if !is_page => {
            kind_of_many(shown).or_else(|| match name.ends_with(".csv") {
                true => Some(CSV),
                false => (!is_named_text && kind_of_bytes(beginning) == Kind::Xml).then_some(XML),
            })
        }
        _ => None,
    };
    problem.map_or(Ok(format), |reason| Err(not_readable(path, reason)))
}

const CSV: &str = "is a table of comma-separated values, which is not read; write its rows as JSON Lines, or say \
                   `--input-format text` if all of it is one document";

const XML: &str = "is XML but no page, so its documents are not known; write them as JSON Lines, or say \
                   `--input-format text` if all of it, with its tags, is one document";

/// The error of an input whose content cannot be read as records.
pub(super) fn not_readable(path: &Path, reason: &str) -> Error {
    Error::Input {
        source_name: path_name(path),
        line: None,
        reason: reason.to_owned(),
    }
}

/// The name of a file in small letters, without the ending of gzip.
fn plain_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    name.strip_suffix(".gz")
        .or_else(|| name.strip_suffix(".zst"))
        .unwrap_or(&name)
        .to_owned()
}

fn name_ends(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}
