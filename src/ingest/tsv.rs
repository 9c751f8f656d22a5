//! Parses tab-separated lines: key and text, or key and fingerprint.

use super::parsed::{Content, Parsed, Parts, utf8};
use super::rejected::Reason;

pub(super) fn parse_tsv(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, text) = split_at_tab(line)?;
    let text = unescape(text);
    let content = Content::Text(utf8(&text)?.to_owned());
    Ok(Parsed {
        key: Some(unescape(key)),
        content,
        parts: Parts::default(),
    })
}

pub(super) fn parse_fingerprint(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, digits) = split_at_tab(line)?;
    let fingerprint = String::from_utf8_lossy(digits.trim_ascii())
        .parse()
        .map_err(Reason::Document)?;
    let content = Content::Fingerprint(fingerprint, None);
    Ok(Parsed {
        key: Some(unescape(key)),
        content,
        parts: Parts::default(),
    })
}

fn split_at_tab(line: &[u8]) -> Result<(&[u8], &[u8]), Reason> {
    let tab = memchr::memchr(b'\t', line).ok_or(Reason::NoTab)?;
    Ok((&line[..tab], &line[tab + 1..]))
}

/// Resolves the escapes `\t`, `\n`, `\r` and `\\`. A backslash before any other byte stands for itself.
fn unescape(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        plain.extend_from_slice(&rest[..at]);
        let (byte, used) = match rest.get(at + 1) {
            Some(b't') => (b'\t', 2),
            Some(b'n') => (b'\n', 2),
            Some(b'r') => (b'\r', 2),
            Some(b'\\') => (b'\\', 2),
            _ => (b'\\', 1),
        };
        plain.push(byte);
        rest = &rest[at + used..];
    }
    plain.extend_from_slice(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tab_separated_lines_are_unescaped() -> Result<(), Reason> {
        let parsed = parse_tsv(b"a\\tb\tone\\ntwo\\\\three\\four\tfive")?;
        assert_eq!(parsed.key.as_deref(), Some(&b"a\tb"[..]));
        assert_eq!(
            parsed.content,
            Content::Text("one\ntwo\\three\\four\tfive".into())
        );
        assert!(matches!(parse_tsv(b"no tab"), Err(Reason::NoTab)));
        Ok(())
    }
}
