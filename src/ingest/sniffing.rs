//! What kind of content bytes are, whatever their name or their server says: HTML, XML, text, or none of them.
//!
//! # References
//! MIME Sniffing Living Standard, section 7.1 on how HTML begins, section 3 on the bytes that text does not have.
//! It departs from the standard in two points: a byte order mark before HTML does not hide the HTML, and UTF-16 is
//! looked at as what it says.

use std::borrow::Cow;

use encoding_rs::Encoding;

use super::encoding::{UTF_8_MARK, wide_without_mark};

/// What some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    /// XML whose root is `html`, in the namespace of XHTML.
    Xhtml,
    /// Other XML.
    Xml,
    Text,
    /// Not text.
    Binary,
}

/// The bytes that are looked at.
const WITHIN: usize = 4096;

/// The bytes in which the standard looks for those that text does not have.
const BINARY_WITHIN: usize = 1445;

/// How HTML begins. White space or `>` stands behind each. A comment is HTML too.
const HTML: &[&[u8]] = &[
    b"<!doctype html",
    b"<html",
    b"<head",
    b"<script",
    b"<iframe",
    b"<h1",
    b"<div",
    b"<font",
    b"<table",
    b"<a",
    b"<style",
    b"<title",
    b"<b",
    b"<body",
    b"<br",
    b"<p",
];

/// How XML begins that has no declaration.
const XML: &[&[u8]] = &[
    b"<rss",
    b"<feed",
    b"<rdf:rdf",
    b"<mediawiki",
    b"<svg",
    b"<urlset",
    b"<sitemapindex",
];

/// What the bytes are, by their beginning.
pub(super) fn kind_of_bytes(bytes: &[u8]) -> Kind {
    let beginning = beginning_of(bytes);
    let lower = beginning.trim_ascii_start().to_ascii_lowercase();
    if lower.starts_with(b"<?xml") {
        return if has_xhtml_root(&lower) {
            Kind::Xhtml
        } else {
            Kind::Xml
        };
    }
    if lower.starts_with(b"<!--") || HTML.iter().any(|tag| begins_with_tag(&lower, tag)) {
        return Kind::Html;
    }
    if XML.iter().any(|tag| begins_with_tag(&lower, tag)) {
        return Kind::Xml;
    }
    let looked_at = &beginning[..beginning.len().min(BINARY_WITHIN)];
    if looked_at.iter().any(|&byte| is_binary(byte)) {
        Kind::Binary
    } else {
        Kind::Text
    }
}

/// The first bytes in an encoding that is like ASCII: without a mark, and of UTF-16 in UTF-8.
pub(super) fn beginning_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    if let Some(rest) = bytes.strip_prefix(UTF_8_MARK) {
        return Cow::Borrowed(&rest[..rest.len().min(WITHIN)]);
    }
    let beginning = &bytes[..bytes.len().min(WITHIN)];
    let marked = Encoding::for_bom(beginning).map(|(encoding, _)| encoding);
    match marked.or_else(|| wide_without_mark(beginning)) {
        Some(encoding) => Cow::Owned(encoding.decode(beginning).0.into_owned().into_bytes()),
        None => Cow::Borrowed(beginning),
    }
}

/// Whether bytes that are said to be text are none: more than one in fifty stands in no text. HTML may have some, such
/// as a stray NUL, which browsers pass over.
pub(super) fn is_mostly_binary(bytes: &[u8]) -> bool {
    if Encoding::for_bom(bytes).is_some() || wide_without_mark(bytes).is_some() {
        return false;
    }
    bytes.iter().filter(|&&byte| is_binary(byte)).count() * 50 > bytes.len()
}

fn begins_with_tag(bytes: &[u8], tag: &[u8]) -> bool {
    bytes
        .strip_prefix(tag)
        .and_then(<[u8]>::first)
        .is_some_and(|&byte| byte == b'>' || byte.is_ascii_whitespace())
}

/// Whether the root of XML is `html`: it, or the document type that names it, is the first that is neither a
/// declaration nor a comment.
fn has_xhtml_root(xml: &[u8]) -> bool {
    let mut rest = xml;
    loop {
        let end: &[u8] = match rest {
            [b'<', b'?', ..] => b"?>",
            [b'<', b'!', b'-', b'-', ..] => b"-->",
            _ => {
                return begins_with_tag(rest, b"<html") || begins_with_tag(rest, b"<!doctype html");
            }
        };
        let Some(at) = memchr::memmem::find(rest, end) else {
            return false;
        };
        rest = rest[at + end.len()..].trim_ascii_start();
    }
}

/// Whether a byte is not in text.
fn is_binary(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_xml_and_text_are_told_by_how_they_begin() {
        for (content, kind) in [
            ("<!DOCTYPE html>", Kind::Html),
            ("\n\t \x0c<!doctype HTML PUBLIC", Kind::Html),
            ("\u{feff}<html lang=en>", Kind::Html),
            ("<HTML\n>", Kind::Html),
            ("<p>Some", Kind::Html),
            ("<!-- saved from -->", Kind::Html),
            ("<pre>Some", Kind::Text),
            ("<about> is", Kind::Text),
            ("<htmlish>", Kind::Text),
            ("<html", Kind::Text),
            ("Some <b>words</b>", Kind::Text),
            ("<?php echo 1; ?><html>", Kind::Text),
            (
                "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>",
                Kind::Xhtml,
            ),
            (
                "<?xml version='1.0'?>\n<!-- a --><?pi?>\n<!DOCTYPE html PUBLIC",
                Kind::Xhtml,
            ),
            ("<?xml version='1.0'?><rss><html>", Kind::Xml),
            ("<?xml version='1.0'?><!-- <html>", Kind::Xml),
            ("<mediawiki xmlns='a'>", Kind::Xml),
            ("", Kind::Text),
            ("a\0b", Kind::Binary),
        ] {
            assert_eq!(kind_of_bytes(content.as_bytes()), kind, "{content}");
        }
    }

    #[test]
    fn utf_16_is_looked_at_as_what_it_says() {
        let page = "<!DOCTYPE html><title>Some words</title>";
        for swap in [u16::to_le_bytes, u16::to_be_bytes] {
            let bare: Vec<u8> = page.encode_utf16().flat_map(swap).collect();
            let marked = [&swap(0xfeff)[..], &bare].concat();
            for bytes in [bare, marked] {
                assert_eq!(kind_of_bytes(&bytes), Kind::Html);
                assert!(!is_mostly_binary(&bytes));
            }
        }
    }

    #[test]
    fn a_few_odd_bytes_do_not_make_a_text_binary() {
        assert!(!is_mostly_binary(
            format!("{}\0", "words ".repeat(20)).as_bytes()
        ));
        assert!(is_mostly_binary(b"words\0of\0a\0record\x01\x02"));
        assert!(!is_mostly_binary(b""));
    }
}
