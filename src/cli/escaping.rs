//! What comes from outside and is printed must not act on a terminal: no colours, no moved cursor, no lines that look
//! like those of the program, no text whose order is turned round, nothing that cannot be seen.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io;
use std::path::Path;

use serde::Serialize as _;
use serde_json::Value;
use serde_json::ser::{CompactFormatter, Formatter, Serializer};

/// Whether a character acts on the terminal, on the order or the lines of a text, or cannot be seen.
pub(super) fn is_risky(c: char) -> bool {
    // The controls of C0 and C1, among them the line breaks.
    c.is_control()
        || matches!(c,
            // Directional marks, embeddings, overrides and isolates.
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{206f}'
            // Separators of lines and paragraphs.
            | '\u{2028}' | '\u{2029}'
            // Without width, or shown as nothing.
            | '\u{00ad}' | '\u{034f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
            // Of hieroglyphs, of shorthand and of music.
            | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
            // Tags and further variation selectors, which can hide whole texts.
            | '\u{e0000}'..='\u{e0fff}')
}

fn is_risky_text(text: &str) -> bool {
    !text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.chars().any(is_risky)
}

/// A key on one line. Risky characters, backslashes and bytes that are not UTF-8 are escaped, so different keys are
/// printed differently.
pub(super) fn printable(key: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(key)
        && !text.contains('\\')
        && !is_risky_text(text)
    {
        return Cow::Borrowed(text);
    }
    let mut line = String::new();
    for chunk in key.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' => line.push_str("\\\\"),
                c if is_risky(c) => line.extend(c.escape_default()),
                c => line.push(c),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            _ = write!(line, "\\x{byte:02x}");
        }
    }
    Cow::Owned(line)
}

/// A path on one line, as keys are printed.
pub(super) fn path_text(path: &Path) -> Cow<'_, str> {
    printable(path.as_os_str().as_encoded_bytes())
}

/// A text that may hold something from outside, with its risky characters escaped, but for those in `kept`.
pub(super) fn harmless<'a>(text: &'a str, kept: &[char]) -> Cow<'a, str> {
    // Most lines have tabs, and nothing else that is risky.
    let is_plain = text
        .bytes()
        .all(|byte| matches!(byte, b' '..=b'~') || byte.is_ascii() && kept.contains(&byte.into()));
    if is_plain || !is_risky_text(text) {
        return Cow::Borrowed(text);
    }
    let mut harmless = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_risky(c) && !kept.contains(&c) {
            harmless.extend(c.escape_default());
        } else {
            harmless.push(c);
        }
    }
    Cow::Owned(harmless)
}

/// A value as JSON on one line. Risky characters are written as `\u` escapes, which are the same value.
pub(super) fn json_line(value: &Value) -> String {
    let mut bytes = Vec::with_capacity(128);
    let written = value.serialize(&mut Serializer::with_formatter(&mut bytes, Escaping));
    written.expect("a value can be written to memory");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Writes JSON in the short form, with risky characters escaped.
struct Escaping;

impl Formatter for Escaping {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        if !is_risky_text(fragment) {
            return CompactFormatter.write_string_fragment(writer, fragment);
        }
        for c in fragment.chars() {
            if !is_risky(c) {
                write!(writer, "{c}")?;
                continue;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_stay_on_one_line_and_can_be_told_apart() {
        assert_eq!(printable(b"http://a/"), "http://a/");
        assert_eq!(printable("中é".as_bytes()), "中é");
        assert_eq!(printable(b"a\tb\nc\\t"), "a\\tb\\nc\\\\t");
        assert_eq!(printable(b"\xff\x00"), "\\xff\\u{0}");
    }

    /// Directional, C1, line separator, zero width, byte order mark, tag.
    const RISKY: &str = "\u{202e}\u{9b}\u{2028}\u{200b}\u{feff}\u{e0041}";

    #[test]
    fn nothing_risky_is_left_in_keys_lines_and_json() {
        let key = format!("a{RISKY}b");
        assert_eq!(
            printable(key.as_bytes()),
            "a\\u{202e}\\u{9b}\\u{2028}\\u{200b}\\u{feff}\\u{e0041}b"
        );
        assert_eq!(harmless("a\t\u{1b}[31m\n", &['\t']), "a\t\\u{1b}[31m\\n");
        let value = json!({ key.as_str(): [key, "plain é"] });
        let line = json_line(&value);
        assert!(!line.chars().any(is_risky), "{line}");
        assert!(
            line.contains("\\u202e\\u009b\\u2028\\u200b\\ufeff\\udb40\\udc41")
                && line.contains("plain é")
        );
        assert_eq!(serde_json::from_str::<Value>(&line).ok(), Some(value));
    }

    #[test]
    fn what_cannot_be_taken_for_something_else_stays_as_it_is() {
        for text in ["", "plain", "Ünïcödé 中文 العربية 🦀", "a/b?c=d&e#f"] {
            assert_eq!(harmless(text, &[]), text);
            assert_eq!(json_line(&json!(text)), json!(text).to_string());
        }
    }
}
