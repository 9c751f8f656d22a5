//! The page in a record of a web archive: unpacks what the server sent, and finds its address and its time.

use std::io::Read;

use super::page::{self, Said};
use super::parsed::{Parsed, Parts};
use super::rejected::Reason;
use super::warc::WarcHeader;

/// What a record of a web archive brings. `None` if it is no page.
pub(super) fn parse_warc(record: &[u8], most_bytes: usize) -> Result<Option<Parsed>, Reason> {
    let (header, body) = WarcHeader::split(record);
    let (head, packed) = http(&header, body)?;
    if !head.is_good || !head.said.is_page() {
        return Ok(None);
    }
    let page = unpacked(&head, packed, most_bytes)?;
    let Some(content) = page::content(&page, &head.said)? else { return Ok(None) };
    let address = header.get("WARC-Target-URI").unwrap_or_default();
    // Old writers put it in angle brackets.
    let address = address.strip_prefix(b"<").and_then(|it| it.strip_suffix(b">")).unwrap_or(address);
    let key = Some(address.to_vec()).filter(|it| !it.is_empty());
    let seen = header.text("WARC-Date").and_then(|it| it.parse().ok()).map(jiff::Timestamp::as_second);
    Ok(Some(Parsed { key, content, parts: Parts { seen, ..Parts::default() } }))
}

/// What is known of a page before it is unpacked.
struct Head {
    /// Whether the status says that it is the page.
    is_good: bool,
    said: Said,
    is_chunked: bool,
    /// How it is packed, the last way last.
    encodings: Vec<String>,
}

/// The head of the page and its bytes as they were sent.
fn http<'b>(header: &WarcHeader<'_>, body: &'b [u8]) -> Result<(Head, &'b [u8]), Reason> {
    let mut head = Head { is_good: true, said: Said::default(), is_chunked: false, encodings: Vec::new() };
    let own_type = header.text("Content-Type").unwrap_or_default();
    if !body.starts_with(b"HTTP/") {
        // A file that was archived as it is, or a response whose head was not kept.
        match own_type.starts_with("application/http") {
            true if body.trim_ascii_start().starts_with(b"<") => head.said.add_type("text/html"),
            true => {}
            false => head.said.add_type(own_type),
        }
        return Ok((head, body));
    }
    let mut fields = [httparse::EMPTY_HEADER; 256];
    let mut response = httparse::Response::new(&mut fields);
    let mut config = httparse::ParserConfig::default();
    config.ignore_invalid_headers_in_responses(true).allow_spaces_after_header_name_in_responses(true);
    config.allow_obsolete_multiline_headers_in_responses(true);
    let parsed = config.parse_response(&mut response, body);
    let length = match parsed {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => body.len(),
        Err(error) => {
            return Err(Reason::Warc { problem: format!("its HTTP header cannot be read: {error}") });
        }
    };
    let is_good = response.code.is_some_and(|code| (200..300).contains(&code));
    for field in response.headers.iter() {
        let value = String::from_utf8_lossy(field.value);
        match field.name.to_ascii_lowercase().as_str() {
            "content-type" => head.said.add_type(&value),
            "transfer-encoding" => head.is_chunked = value.to_ascii_lowercase().contains("chunked"),
            "content-encoding" => {
                head.encodings = value.split(',').map(|it| it.trim().to_ascii_lowercase()).collect();
            }
            _ => {}
        }
    }
    head.is_good = is_good;
    Ok((head, &body[length..]))
}

/// The bytes of the page. What is not packed as its head says was unpacked by who archived it.
fn unpacked(head: &Head, sent: &[u8], most: usize) -> Result<Vec<u8>, Reason> {
    let mut page = head.is_chunked.then(|| joined_chunks(sent)).flatten().unwrap_or_else(|| sent.to_vec());
    for encoding in head.encodings.iter().rev() {
        let begins = |magic: &[u8]| page.starts_with(magic);
        let reader: Box<dyn Read + '_> = match encoding.as_str() {
            "gzip" | "x-gzip" if begins(&[0x1f, 0x8b]) => Box::new(flate2::read::MultiGzDecoder::new(&*page)),
            "deflate" if begins(&[0x78]) => Box::new(flate2::read::ZlibDecoder::new(&*page)),
            "deflate" => Box::new(flate2::read::DeflateDecoder::new(&*page)),
            "br" => Box::new(brotli_decompressor::Decompressor::new(&*page, 4096)),
            "zstd" if begins(&[0x28, 0xb5, 0x2f, 0xfd]) => match zstd::Decoder::with_buffer(&*page) {
                Ok(decoder) => Box::new(decoder),
                Err(_) => continue,
            },
            _ => continue,
        };
        let mut whole = Vec::new();
        let read = reader.take(most as u64 + 1).read_to_end(&mut whole);
        if whole.len() > most {
            return Err(Reason::TooLong { bytes: whole.len() as u64, max_bytes: most });
        }
        match read {
            Ok(_) => page = whole,
            // Text does not begin as packed data does. Many archives have the page as it was after unpacking.
            Err(_) if whole.is_empty() => {}
            Err(error) => {
                let problem = format!("its page is packed with {encoding} and damaged: {error}");
                return Err(Reason::Warc { problem });
            }
        }
    }
    Ok(page)
}

/// A body that was sent in chunks. `None` if it is not in chunks, since who archived it has joined them.
fn joined_chunks(mut sent: &[u8]) -> Option<Vec<u8>> {
    let mut joined = Vec::with_capacity(sent.len());
    loop {
        let end = memchr::memchr(b'\n', sent)?;
        let size = std::str::from_utf8(&sent[..end]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(size, 16).ok()?;
        sent = &sent[end + 1..];
        if size == 0 {
            return Some(joined);
        }
        // A response that was cut has a short last chunk.
        let chunk = &sent[..size.min(sent.len())];
        joined.extend_from_slice(chunk);
        sent = &sent[chunk.len()..];
        if sent.is_empty() {
            return Some(joined);
        }
        sent = sent.strip_prefix(b"\r\n").or_else(|| sent.strip_prefix(b"\n"))?;
    }
}
