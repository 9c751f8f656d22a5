//! Files of plain text and of HTML: a file is a document, and its path is the key. Files of lines, each of which is a
//! document.

use std::path::Path;

use super::format::InputFormat;
use super::options::ReadOptions;
use super::page::{Said, content};
use super::parsed::{Content, Parsed, Parts, utf8};
use super::rejected::Reason;
use super::unreadable::kind_of_many;

/// The record of a whole file.
pub(super) fn parse_text(
    path: &Path,
    bytes: &[u8],
    options: &ReadOptions,
) -> Result<Parsed, Reason> {
    // The beginning of the file has not shown all of it.
    if let (InputFormat::Auto, Some(found)) = (options.format, kind_of_many(bytes)) {
        return Err(Reason::ManyDocuments { found });
    }
    let content =
        content(bytes, &Said::of_file(path))?.ok_or(Reason::NoContent { fields: Vec::new() })?;
    Ok(Parsed {
        key: Some(key_of(path)),
        content,
        parts: Parts::default(),
    })
}

/// The record of a line. Its key is that of the file with a colon and the number of the line.
pub(super) fn parse_line(path: &Path, number: u64, line: &[u8]) -> Result<Parsed, Reason> {
    let content = Content::Text(utf8(line)?.to_owned());
    let key = [&*key_of(path), b":", number.to_string().as_bytes()].concat();
    Ok(Parsed {
        key: Some(key),
        content,
        parts: Parts::default(),
    })
}

/// The path as the system has it. On Unix it need not be UTF-8.
fn key_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}
