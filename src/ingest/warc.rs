//! Cuts web archives (WARC) into records: the header of each, and the body of those that may hold a page. The others
//! are passed over without being held.

use std::io::{self, BufRead, Read as _};

use super::raw::RawContent;

/// The most bytes of a header. Those of records have some hundred.
const MOST_HEADER_BYTES: usize = 64 << 10;

/// The header of a record: its names and values.
pub(super) struct WarcHeader<'b>(&'b [u8]);

impl<'b> WarcHeader<'b> {
    /// The header at the beginning of a record, and what is behind it.
    pub(super) fn split(record: &'b [u8]) -> (Self, &'b [u8]) {
        let end = memchr::memmem::find(record, b"\n\r\n").map(|at| (at, at + 3));
        let other = memchr::memmem::find(record, b"\n\n").map(|at| (at, at + 2));
        let (header, body) = match (end, other) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b).unwrap_or((record.len(), record.len())),
        };
        (Self(&record[..header]), &record[body..])
    }

    /// The value of a field, without the spaces around it.
    pub(super) fn get(&self, name: &str) -> Option<&'b [u8]> {
        self.0.split(|&byte| byte == b'\n').skip(1).find_map(|line| {
            let colon = memchr::memchr(b':', line)?;
            line[..colon]
                .trim_ascii()
                .eq_ignore_ascii_case(name.as_bytes())
                .then(|| line[colon + 1..].trim_ascii())
        })
    }

    pub(super) fn text(&self, name: &str) -> Option<&'b str> {
        std::str::from_utf8(self.get(name)?).ok()
    }

    /// Whether a record of this type may hold a page.
    fn may_hold_page(&self) -> bool {
        matches!(self.get("WARC-Type"), Some(b"response" | b"resource" | b"conversion"))
    }
}

/// A record that was cut out, and the bytes that were used for it.
pub(super) struct Cut {
    pub(super) content: RawContent,
    pub(super) used: u64,
    /// The bytes of it before its header.
    pub(super) before: u64,
}

/// Reads the next record. `None` at the end. A record longer than `most` bytes is not held.
pub(super) fn next_record(reader: &mut impl BufRead, most: usize) -> io::Result<Option<Cut>> {
    let before = pass_over_blank_lines(reader)?;
    let mut header = Vec::new();
    let is_whole = read_header(reader, &mut header)?;
    let mut used = before + header.len() as u64;
    if header.is_empty() {
        return Ok(None);
    }
    let broken =
        |reason: &'static str, used| Ok(Some(Cut { content: RawContent::Broken(reason), used, before }));
    if !header.starts_with(b"WARC/") {
        used += pass_over_to_record(reader)?;
        return broken("there is no header of a WARC record here", used);
    }
    if !is_whole {
        used += pass_over_to_record(reader)?;
        return broken("the header of the WARC record does not end", used);
    }
    let parsed = WarcHeader(&header);
    let Some(length) = parsed.text("Content-Length").and_then(|it| it.parse::<u64>().ok()) else {
        used += pass_over_to_record(reader)?;
        return broken("the header of the WARC record has no Content-Length", used);
    };
    let is_held = parsed.may_hold_page() && length <= most as u64;
    let content = if is_held {
        let head = header.len();
        reader.by_ref().take(length).read_to_end(&mut header)?;
        used += (header.len() - head) as u64;
        if (header.len() - head) as u64 != length {
            return broken("the WARC record ends too early", used);
        }
        RawContent::Bytes(header)
    } else {
        let passed = io::copy(&mut reader.by_ref().take(length), &mut io::sink())?;
        used += passed;
        if passed != length {
            return broken("the WARC record ends too early", used);
        }
        if parsed.may_hold_page() { RawContent::TooLong(length) } else { RawContent::PassedOver }
    };
    // A length that is wrong shows here.
    let next = fill(reader)?;
    if !next.is_empty() && !next.starts_with(b"\r") && !next.starts_with(b"\n") && !next.starts_with(b"WARC/")
    {
        used += pass_over_to_record(reader)?;
        return broken("the WARC record does not end where its Content-Length says", used);
    }
    Ok(Some(Cut { content, used, before }))
}

fn fill(reader: &mut impl BufRead) -> io::Result<&[u8]> {
    loop {
        match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    reader.fill_buf()
}

pub(super) fn pass_over_blank_lines(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut passed = 0;
    loop {
        let buffer = fill(reader)?;
        let blank = buffer.iter().take_while(|&&byte| byte == b'\r' || byte == b'\n').count();
        let is_end = blank < buffer.len() || buffer.is_empty();
        reader.consume(blank);
        passed += blank as u64;
        if is_end {
            return Ok(passed);
        }
    }
}

/// Reads lines up to a blank one. False if there is none.
fn read_header(reader: &mut impl BufRead, header: &mut Vec<u8>) -> io::Result<bool> {
    loop {
        let from = header.len();
        let left = (MOST_HEADER_BYTES - from) as u64;
        let length = reader.by_ref().take(left).read_until(b'\n', header)?;
        if length == 0 || header.last() != Some(&b'\n') {
            return Ok(false);
        }
        if header[from..].trim_ascii().is_empty() {
            return Ok(true);
        }
        // Whatever this is, its lines need not be kept.
        if from == 0 && !header.starts_with(b"WARC/") {
            return Ok(false);
        }
    }
}

/// Passes over everything up to a line that begins as a record does. Returns the number of bytes.
fn pass_over_to_record(reader: &mut impl BufRead) -> io::Result<u64> {
    let mut passed = 0;
    let mut is_line_start = true;
    loop {
        let buffer = fill(reader)?;
        if buffer.is_empty() || is_line_start && buffer.starts_with(b"WARC/") {
            return Ok(passed);
        }
        // A beginning that is cut by the end of the buffer is compared with the next one.
        if is_line_start && b"WARC/".starts_with(buffer) {
            let mut line = Vec::new();
            let length = reader.by_ref().take(1 << 20).read_until(b'\n', &mut line)?;
            passed += length as u64;
            is_line_start = line.last() == Some(&b'\n');
            continue;
        }
        let (used, ends_line) = match memchr::memchr(b'\n', buffer) {
            Some(at) => (at + 1, true),
            None => (buffer.len(), false),
        };
        reader.consume(used);
        passed += used as u64;
        is_line_start = ends_line;
    }
}
