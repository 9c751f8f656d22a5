//! Files of plain text and of HTML: a file is a document, and its path is the key.

use std::path::Path;

use super::format::is_html;
use super::parsed::{Content, Parsed, Parts};
use super::rejected::Reason;

/// The record of a whole file.
pub(super) fn parse_text(path: &Path, bytes: Vec<u8>) -> Result<Parsed, Reason> {
    let text = String::from_utf8(bytes)
        .map_err(|error| Reason::NotUtf8 { valid_bytes: error.utf8_error().valid_up_to() })?;
    let content = if is_html(path) { Content::Html(text) } else { Content::Text(text) };
    // The key is the path as the system has it. On Unix it need not be UTF-8.
    let key = path.as_os_str().as_encoded_bytes().to_vec();
    Ok(Parsed { key: Some(key), content, parts: Parts::default() })
}
