//! The content of a record, the same for all formats. Parses whole files of text or HTML, lines of text, and lines of
//! which a tab parts the key from the text or the fingerprint.

use std::borrow::Cow;
use std::path::Path;

use jiff::civil::{Date, DateTime, date};
use jiff::fmt::temporal::{Pieces, PiecesOffset};

use super::encoding::UTF_8_MARK;
use super::format::{InputFormat, Kind, kind_by_name};
use super::input::Position;
use super::json::parse_json;
use super::options::ReadOptions;
use super::page::{Said, content};
use super::rejected::Reason;
use super::unreadable::kind_of_many;
use super::warc_page::{content_of_answer, parse_warc};
use crate::fingerprint::Fingerprint;
use crate::sketch::Sketch;
use crate::text::Syntax;

/// A record as a parser returns it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parsed {
    pub(super) key: Option<Vec<u8>>,
    pub(super) content: Content,
    pub(super) seen: Option<i64>,
    pub(super) repeats: u64,
    pub(super) rank: Vec<i64>,
    pub(super) scope: String,
    pub(super) payload: Vec<u8>,
    /// Documents that are known to belong together. Only an evaluation reads it.
    pub(super) group: Option<String>,
    /// The field that is read in place of a text that is there too.
    pub(super) instead_of_text: Option<&'static str>,
}

impl Parsed {
    /// A record that has nothing else.
    pub(super) fn new(key: Option<Vec<u8>>, content: Content) -> Self {
        Self {
            key,
            content,
            seen: None,
            repeats: 0,
            rank: Vec::new(),
            scope: String::new(),
            payload: Vec::new(),
            group: None,
            instead_of_text: None,
        }
    }
}

/// What a fingerprint is made from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    Fingerprint(Fingerprint, Option<Sketch>),
    /// Features that the caller has found, with their weights.
    Features(Vec<(String, f64)>),
    Text(String),
    Html(String),
    /// HTML in the syntax of XML.
    Xhtml(String),
    /// Too short to judge; the text itself is not known. Dumps of databases contain such records.
    TooShort,
}

impl Content {
    /// The text, and of a page what `read` takes for its text. `None` if there is no text.
    pub(crate) fn text(&self, read: impl FnOnce(&str, Syntax) -> String) -> Option<Cow<'_, str>> {
        match self {
            Self::Text(text) => Some(Cow::Borrowed(text)),
            Self::Html(html) => Some(Cow::Owned(read(html, Syntax::from_beginning(html)))),
            Self::Xhtml(page) => Some(Cow::Owned(read(page, Syntax::Xhtml))),
            Self::Fingerprint(..) | Self::Features(_) | Self::TooShort => None,
        }
    }
}

/// The content of a raw record of this format, which is never [`InputFormat::Auto`]. `None` if it is no document.
pub(super) fn parse(
    bytes: &[u8],
    format: InputFormat,
    position: &Position,
    options: &ReadOptions,
) -> Result<Option<Parsed>, Reason> {
    let path = position.path();
    let line = without_marks(bytes);
    let parsed = match format {
        InputFormat::Warc => parse_warc(bytes, options.max_record_bytes, !options.ignores("seen"))?,
        InputFormat::Text | InputFormat::Auto => return parse_text(path, bytes, options).map(Some),
        _ if line.is_empty() => None,
        InputFormat::Jsonl => Some(parse_json(line, position.is_row(), options)?),
        InputFormat::Tsv => Some(parse_tsv(line)?),
        InputFormat::Fingerprints => Some(parse_fingerprint(line)?),
        // A line names no document.
        InputFormat::Lines => Some(Parsed::new(None, Content::Text(utf8(line)?.to_owned()))),
    };
    Ok(parsed.map(|mut parsed| {
        if options.key_by_place || format == InputFormat::Lines {
            // That of the file, a colon, and the number of the record.
            let name = options.source_name.clone();
            let mut key = name.unwrap_or_else(|| key_of(path));
            key.extend(format!(":{}", position.id().number).into_bytes());
            parsed.key = Some(key);
        }
        parsed
    }))
}

/// A line without the byte order marks before it, and without many zeros. Where files were put together that begin with
/// a mark, each leaves its own before a line. A loss of power leaves a sector of zeros or more where the next line was
/// to begin; a few may belong to a key.
pub(crate) fn without_marks(mut line: &[u8]) -> &[u8] {
    const LEAST_ZEROS: usize = 64;
    loop {
        let zeros = line.iter().take_while(|&&byte| byte == 0).count();
        if zeros >= LEAST_ZEROS {
            line = &line[zeros..];
        }
        match line.strip_prefix(UTF_8_MARK) {
            Some(rest) => line = rest,
            None => return line,
        }
    }
}

pub(super) fn utf8(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|error| Reason::NotUtf8 {
        valid_bytes: error.valid_up_to(),
    })
}

/// The record of a whole file.
fn parse_text(path: &Path, bytes: &[u8], options: &ReadOptions) -> Result<Parsed, Reason> {
    // The beginning of the file has not shown all of it.
    if let (InputFormat::Auto, Some(found)) = (options.format, kind_of_many(bytes)) {
        return Err(Reason::ManyDocuments { found });
    }
    let mut found = None;
    if options.format == InputFormat::Auto && kind_by_name(path) != Some(Kind::Text) {
        found = content_of_answer(bytes, options.max_record_bytes)?;
    }
    if found.is_none() {
        found = content(bytes, &Said::from_name(path))?;
    }
    let content = found.ok_or(Reason::no_content())?;
    Ok(Parsed::new(Some(key_of(path)), content))
}

/// The path as the system has it. On Unix it need not be UTF-8.
fn key_of(path: &Path) -> Vec<u8> {
    path.as_os_str().as_encoded_bytes().to_vec()
}

fn parse_tsv(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, text) = split_at_tab(line)?;
    let text = String::from_utf8(unescape(text)).map_err(|error| Reason::NotUtf8 {
        valid_bytes: error.utf8_error().valid_up_to(),
    })?;
    let content = Content::Text(text);
    Ok(Parsed::new(Some(unescape(key)), content))
}

fn parse_fingerprint(line: &[u8]) -> Result<Parsed, Reason> {
    let (key, digits) = split_at_tab(line)?;
    let fingerprint = String::from_utf8_lossy(digits.trim_ascii())
        .parse()
        .map_err(Reason::Document)?;
    let content = Content::Fingerprint(fingerprint, None);
    Ok(Parsed::new(Some(unescape(key)), content))
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

// Times in inputs, in Unix seconds: as RFC 3339 writes them, and numbers that are dates and no seconds.

/// Reads a time as in RFC 3339, up to the last second of the year 9999.
pub(super) fn parse_rfc3339(text: &str) -> Option<i64> {
    if let Ok(time) = text.parse::<jiff::Timestamp>() {
        return Some(time.as_second());
    }
    // The times that have a place in every zone end a day before the calendar does.
    let pieces = Pieces::parse(text).ok()?;
    let offset = match pieces.offset()? {
        PiecesOffset::Numeric(offset) => offset.offset().seconds(),
        _ => 0,
    };
    let seconds = seconds_in_utc(pieces.date().to_datetime(pieces.time()?));
    seconds.checked_sub(offset.into())
}

/// The Unix seconds of a time in UTC.
pub(super) fn seconds_in_utc(time: DateTime) -> i64 {
    const EPOCH: DateTime = date(1970, 1, 1).at(0, 0, 0, 0);
    time.duration_since(EPOCH).as_secs()
}

/// What a number of seconds may mean as well, and how that is written: a year, a date, or a date with the time of day.
/// As Unix seconds, the first two are in 1970, and the last is in no year that a calendar has.
pub(crate) fn other_meaning(number: i64) -> Option<(&'static str, String)> {
    match number {
        1900..=2199 => Some(("a year", format!("{number}-01-01"))),
        19_000_101..=21_991_231 => {
            let date = number.to_string().parse::<Date>().ok()?;
            Some(("a date", date.to_string()))
        }
        19_000_101_000_000..=21_991_231_235_959 => {
            let date = (number / 1_000_000).to_string().parse::<Date>().ok()?;
            let parts = [number / 10_000 % 100, number / 100 % 100, number % 100];
            let [hour, minute, second] = parts.map(|part| part as i8);
            let time = jiff::civil::Time::new(hour, minute, second, 0).ok()?;
            Some(("a time", format!("{}Z", date.to_datetime(time))))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unix_seconds::UnixSeconds;

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

    /// They were said to be no times, where their numbers were taken.
    #[test]
    fn the_calendar_ends_with_the_year_9999() {
        for (text, seconds) in [
            ("9999-12-31T23:59:59Z", UnixSeconds::MAX),
            ("9999-12-31T23:59:59.999999Z", UnixSeconds::MAX),
            ("9999-12-31T23:59:59+14:00", UnixSeconds::MAX - 14 * 3_600),
            ("-009999-01-01T00:00:00Z", UnixSeconds::MIN),
            ("2020-01-31T12:00:00+01:00", 1_580_468_400),
        ] {
            assert_eq!(parse_rfc3339(text), Some(seconds), "{text}");
        }
        for text in [
            "",
            "2020",
            "2020-01-31",
            "2020-01-31T12:00:00",
            "10000-01-01T00:00:00Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }

    #[test]
    fn dates_without_marks_are_told_from_seconds() {
        for (number, written) in [
            (2023, Some("2023-01-01")),
            (20_240_102, Some("2024-01-02")),
            (20_240_102_030_405, Some("2024-01-02T03:04:05Z")),
            (20_241_302, None),
            (20_240_102_250_000, None),
            (1_700_000_000, None),
            (0, None),
            (-2023, None),
        ] {
            let meant = other_meaning(number).map(|(_, written)| written);
            assert_eq!(meant.as_deref(), written, "{number}");
        }
    }
}
