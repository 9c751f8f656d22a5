//! The page in a record of a web archive: its bytes, its address and its time, behind the head of a response of HTTP.
//!
//! Archives hold what servers sent, and what programs wrote of it: HTTP/2 and 3 in the form of HTTP/1.1, responses
//! before the page, fields without a colon. So no more is asked of a head than that it begins with a status. The
//! crate httparse, which is made for connections, knows the versions 1.0 and 1.1 alone, wants room for a stated
//! number of fields, and has no answer before the blank line.

use std::borrow::Cow;

use super::body;
use super::page::{self, Said, is_token};
use super::parsed::{Content, Parsed, parse_rfc3339, seconds_in_utc};
use super::rejected::Reason;
use super::warc::WarcHeader;

/// A record that may be a page, as its two heads say.
struct WarcPage<'b> {
    header: WarcHeader<'b>,
    address: Vec<u8>,
    head: Head<'b>,
    said: Said,
    /// What the server sent as the page.
    sent: &'b [u8],
}

/// What a record of a web archive brings, with its time if that is wanted. `None` if it is no page.
pub(super) fn parse_warc(
    record: &[u8],
    most_bytes: usize,
    times: bool,
) -> Result<Option<Parsed>, Reason> {
    let Some(page) = WarcPage::new(record)? else {
        return Ok(None);
    };
    let Some(content) = page.head.content(page.sent, &page.said, most_bytes)? else {
        return Ok(None);
    };
    let seen = if times {
        seen_at(&page.header, &page.head)?
    } else {
        None
    };
    let key = (!page.address.is_empty()).then_some(page.address);
    Ok(Some(Parsed {
        seen,
        ..Parsed::new(key, content)
    }))
}

/// Whether a record of this beginning is no page.
pub(super) fn is_no_page(beginning: &[u8]) -> bool {
    matches!(WarcPage::new(beginning), Ok(None))
}

impl<'b> WarcPage<'b> {
    /// The page of a record, of which the beginning is enough. `None` if it is no page.
    fn new(record: &'b [u8]) -> Result<Option<Self>, Reason> {
        let (header, body) = WarcHeader::split(record);
        let address = header.get("WARC-Target-URI").unwrap_or_default();
        let address = match &*address {
            // Old writers put it in angle brackets.
            [b'<', address @ .., b'>'] | address => address.to_vec(),
        };
        if is_of_crawler(&address) {
            return Ok(None);
        }
        let own_type = header.text("Content-Type").unwrap_or_default();
        let own_type = own_type.to_ascii_lowercase();
        let is_http = own_type.contains("application/http") || header.is_of_type("response");
        let split = if is_http { Head::split(body) } else { None };
        let (head, sent) = match split {
            Some((head, _)) if (200..300).contains(&head.status) && head.has_page => {
                return Err(Reason::Warc {
                    problem:
                        "no blank line ends its HTTP head, so where its page begins is not known"
                            .to_owned(),
                });
            }
            // It would take the place of the whole page.
            Some((head, _)) if head.has_part() => return Ok(None),
            Some((head, sent)) if (200..300).contains(&head.status) => {
                // The length that a server states is else not looked at, since many archives have it as it was before
                // unpacking.
                let before_next = head.body_and_answer(sent).map(|(body, _)| body);
                (head, before_next.unwrap_or(sent))
            }
            Some(_) => return Ok(None),
            None if own_type.contains("application/http") && is_of_http(body) => {
                return Err(Reason::Warc {
                    problem: "its HTTP head has no status".to_owned(),
                });
            }
            // A file that was archived as it is, or a response whose head was not kept.
            None => (Head::default(), body),
        };
        let said = said_of(&header, &head, &own_type);
        if said.is_page() && header.get("WARC-Segment-Number").is_some() {
            return Err(Reason::Warc {
                problem: "it is one of several segments of a page, and segments are not joined"
                    .to_owned(),
            });
        }
        Ok(said.is_page().then_some(Self {
            header,
            address,
            head,
            said,
            sent,
        }))
    }
}

/// The content of a file that is the answer of a server with its head, as programs save it on demand. `None` if it is
/// none: the head of an answer tells the type of what is behind.
pub(super) fn content_of_answer(file: &[u8], most_bytes: usize) -> Result<Option<Content>, Reason> {
    if !begins_with(file, b"HTTP/") {
        return Ok(None);
    }
    let Some((head, sent)) = Head::split(file).filter(|(head, _)| !head.has_page) else {
        return Ok(None);
    };
    let mut said = Said::default();
    if !head.add_types(&mut said) || !said.is_page() {
        return Ok(None);
    }
    head.content(sent, &said, most_bytes)
}

/// Whether an address is that of something a crawler notes of its work: an answer about a name, a log, or what a
/// browser made of a page that is in the archive too. Heritrix writes `dns:` and `whois:`, wget and others
/// `metadata:`, Browsertrix, wpull, Scoop and the UK Web Archive names of their own.
fn is_of_crawler(address: &[u8]) -> bool {
    let beginnings: [&[u8]; 12] = [
        b"dns:",
        b"whois:",
        b"metadata:",
        b"urn:text:",
        b"urn:textfinal:",
        b"urn:pageinfo:",
        b"urn:x-wpull:",
        b"onreadydom:",
        b"imagemap:",
        b"file:///dom-snapshot.html",
        b"file:///provenance-summary.html",
        b"file:///video-extracted-summary.html",
    ];
    beginnings.iter().any(|known| begins_with(address, known))
}

/// Whether bytes begin with these, in small or capital letters.
fn begins_with(bytes: &[u8], known: &[u8]) -> bool {
    let beginning = bytes.get(..known.len());
    beginning.is_some_and(|beginning| beginning.eq_ignore_ascii_case(known))
}

/// Whether bytes begin as a head of HTTP does, perhaps behind line ends: with its name, or with two fields and a blank
/// line, before which there may be another line.
fn is_of_http(body: &[u8]) -> bool {
    let mut rest = body.trim_ascii_start();
    let is_named = begins_with(rest, b"HTTP/");
    let mut fields = 0;
    let mut is_first = true;
    while !rest.is_empty() {
        let (line, behind) = split_line(rest);
        if line.trim_ascii().is_empty() {
            break;
        }
        let name = memchr::memchr(b':', line).map(|colon| &line[..colon]);
        match name.is_some_and(is_token) {
            true => fields += 1,
            false if is_first || matches!(line[0], b' ' | b'\t') => {}
            false => {
                fields = 0;
                break;
            }
        }
        is_first = false;
        rest = behind;
    }
    is_named || fields >= 2 && !rest.is_empty()
}

/// What is said of the type of a page: by the server, and by who archived it.
fn said_of(header: &WarcHeader<'_>, head: &Head<'_>, own_type: &str) -> Said {
    let mut said = Said::default();
    if !own_type.contains("application/http") && head.status == 0 {
        said.add_type(own_type);
    }
    head.add_types(&mut said);
    if let Some(identified) = header.text("WARC-Identified-Payload-Type") {
        said.set_identified(&identified);
    }
    said
}

/// When a page was seen (Unix seconds): at the date of the record, or if that has none, at the date of the server's
/// answer. A date of the record that cannot be read is not passed over, since the document would get the time of today.
/// What a server gives for a date may be none, and then counts as none.
fn seen_at(header: &WarcHeader<'_>, head: &Head<'_>) -> Result<Option<i64>, Reason> {
    let date = header.get("WARC-Date").unwrap_or_default();
    if !date.is_empty() && *date != *b"null" {
        let text = String::from_utf8_lossy(&date);
        let Some(time) = parse_time(&text) else {
            let problem = format!(
                "the WARC-Date {text:?} is no time as in WARC 1.1, such as 2016-09-19T12:00:00Z; `--ignore-field seen` \
                 passes over it"
            );
            return Err(Reason::Warc { problem });
        };
        return Ok(Some(time));
    }
    let answered = head.values("date").next();
    let Some(date) = answered.or(header.text("Date")) else {
        return Ok(None);
    };
    Ok(parse_http_date(date.trim()))
}

/// The Unix seconds of a date of HTTP, in each of its forms (RFC 9110, 5.6.7).
fn parse_http_date(date: &str) -> Option<i64> {
    const OLD_FORMS: [&str; 3] = [
        "%A, %d-%b-%y %H:%M:%S GMT",
        "%a, %d-%b-%Y %H:%M:%S GMT",
        "%a %b %e %H:%M:%S %Y",
    ];
    if let Ok(time) = jiff::fmt::rfc2822::parse(date) {
        return Some(time.timestamp().as_second());
    }
    let times = OLD_FORMS
        .iter()
        .map(|form| jiff::civil::DateTime::strptime(form, date));
    times.flatten().next().map(seconds_in_utc)
}

/// The Unix seconds of a date of a record.
fn parse_time(text: &str) -> Option<i64> {
    let text = &*with_day_of_month(text).map_or(Cow::Borrowed(text), Cow::Owned);
    // Some programs add a Z to an offset.
    let without_z = text.trim().strip_suffix('Z').unwrap_or(text);
    parse_rfc3339(text)
        .or_else(|| parse_rfc3339(without_z))
        .or_else(|| parse_lenient_time(text))
        .or_else(|| parse_http_date(text.trim()))
}

/// A time as it should be in which the day of the year stands in place of that of the month, as in ClueWeb09:
/// `2009-03-65` is the 6th of March. `None` if the day may be that of a month.
fn with_day_of_month(text: &str) -> Option<String> {
    const LAST_OF_MONTH: i64 = 31;
    let end = text.find(['T', 't', ' ']).unwrap_or(text.len());
    let (date, time) = text.split_at(end);
    let (month, day) = date.rsplit_once('-')?;
    let day: i64 = day.parse().ok()?;
    let first: jiff::civil::Date = format!("{month}-01").parse().ok()?;
    if day <= LAST_OF_MONTH {
        return None;
    }
    let day_before_year = first.first_of_year().yesterday().ok()?;
    let date = day_before_year
        .checked_add(jiff::Span::new().try_days(day).ok()?)
        .ok()?;
    (date.first_of_month() == first).then(|| format!("{date}{time}"))
}

/// A time in UTC of any precision: a year, a month, a day, or more, with the marks of ISO 8601 between them or without.
/// The number of Unix seconds of today would be an hour of the year 17xx. It is no time.
fn parse_lenient_time(text: &str) -> Option<i64> {
    let text = text.trim().trim_end_matches(['Z', 'z']);
    let (mut rest, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let year = number(&mut rest, 4)?;
    let mut parts = [1, 1, 0, 0, 0];
    for (part, marks) in parts.iter_mut().zip(["-", "-", "Tt ", ":", ":"]) {
        if rest.is_empty() {
            break;
        }
        if rest.starts_with(|mark| marks.contains(mark)) {
            rest = &rest[1..];
        }
        *part = number(&mut rest, 2)?;
    }
    if !rest.is_empty() || parts[4] > 60 || year < 1900 {
        return None;
    }
    let [month, day, hour, minute, second] = parts.map(|part| part as i8);
    // A leap second is the one before.
    let time =
        jiff::civil::DateTime::new(year, month, day, hour, minute, second.min(59), 0).ok()?;
    Some(seconds_in_utc(time))
}

/// Whether a field `Content-Range` tells that all is there: `bytes 0-99/100`.
fn is_of_all(range: &str) -> bool {
    let words = range.trim().split_once(|c: char| c.is_ascii_whitespace());
    let of_bytes = words.filter(|(unit, _)| unit.eq_ignore_ascii_case("bytes"));
    let parts = of_bytes.and_then(|(_, range)| range.trim().split_once('/'));
    let Some((part, all)) = parts else {
        return false;
    };
    let last = part.strip_prefix("0-").and_then(|last| last.parse().ok());
    let all = all.parse().ok();
    last.and_then(|last: u64| last.checked_add(1)) == all && all.is_some()
}

/// Takes a number of so many digits.
fn number(rest: &mut &str, digits: usize) -> Option<i16> {
    let (number, behind) = rest.split_at_checked(digits)?;
    *rest = behind;
    if number.starts_with(['+', '-']) {
        return None;
    }
    number.parse().ok()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Head<'b> {
    /// The number that tells what became of the request, such as 200.
    status: u16,
    /// Those that say something of the page.
    fields: Vec<(&'b [u8], Cow<'b, [u8]>)>,
    /// Whether it has a page: by a line that begins one, or, without a blank line at its end, by what looks like one.
    has_page: bool,
}

impl<'b> Head<'b> {
    /// The head at the beginning of bytes, and what is behind it. `None` if no head begins there. The heads of interim
    /// responses, and of the proxy's own, are passed over.
    fn split(bytes: &'b [u8]) -> Option<(Self, &'b [u8])> {
        // Line ends before a head are passed over (RFC 9112, 2.2).
        let mut bytes = bytes.trim_ascii_start();
        loop {
            let (head, rest) = Self::split_first(bytes)?;
            match head.next_answer(rest) {
                Some(next) => bytes = next,
                None => return Some((head, rest)),
            }
        }
    }

    /// The fields that are kept, and the most of them, and of the words of a list. A head of millions is no head of a
    /// page.
    const NAMES: [&'static str; 6] = [
        "content-length",
        "content-range",
        "content-type",
        "content-encoding",
        "transfer-encoding",
        "date",
    ];
    const MOST: usize = 1_000;

    fn split_first(bytes: &'b [u8]) -> Option<(Self, &'b [u8])> {
        const PAGE: [&[u8]; 5] = [b"<!doctype", b"<html", b"<head", b"<body", b"<?xml"];
        let (line, mut rest) = split_line(bytes);
        let mut head = Self {
            status: status_of(line).or_else(|| status_without_version(line, rest))?,
            fields: Vec::new(),
            has_page: false,
        };
        // Its lines end in carriage returns alone.
        let is_one_line = line.trim_ascii().contains(&b'\r');
        // Whether one of its lines begins a page, and whether the last one was a field that is kept.
        let mut begins_page = false;
        let mut is_in_field = false;
        while !rest.is_empty() {
            let (line, behind) = split_line(rest);
            rest = behind;
            // Some servers write white space there, or two carriage returns.
            if line.trim_ascii().is_empty() {
                head.has_page = begins_page;
                break;
            }
            // A field, or more of the field before. What is neither is left out.
            if matches!(line[0], b' ' | b'\t') {
                if let Some((_, value)) = head.fields.last_mut()
                    && is_in_field
                {
                    value.to_mut().push(b' ');
                    value.to_mut().extend_from_slice(line.trim_ascii());
                }
                continue;
            }
            begins_page |= PAGE.iter().any(|tag| begins_with(line, tag));
            let colon = memchr::memchr(b':', line);
            let name = line[..colon.unwrap_or(line.len())].trim_ascii();
            head.has_page |= line.contains(&b'<') && !is_token(name);
            let is_known = |known: &&str| name.eq_ignore_ascii_case(known.as_bytes());
            is_in_field = Self::NAMES.iter().any(is_known) && head.fields.len() < Self::MOST;
            if let Some(colon) = colon
                && is_in_field
            {
                let value = line[colon + 1..].trim_ascii();
                head.fields.push((name, Cow::Borrowed(value)));
            }
        }
        head.has_page |= is_one_line;
        Some((head, rest))
    }

    /// Whether the answer has a part of a page and not all of it (RFC 9110, 15.3.7).
    fn has_part(&self) -> bool {
        self.status == 206 && !self.values("content-range").any(|range| is_of_all(&range))
    }

    /// The answer that follows this one and is meant, if it does. This one is interim (RFC 9110, 15.2), or that of a
    /// proxy which has made the connection, or asks for something else, as a redirect does; curl writes all of them.
    fn next_answer(&self, rest: &'b [u8]) -> Option<&'b [u8]> {
        let has_page = (200..300).contains(&self.status);
        // A plain text may show a head.
        let may_be_text = self.values("content-type").any(|name| !is_html(&name));
        let next = rest.trim_ascii_start();
        let (line, behind) = split_line(next);
        // A page may begin with such a line. Behind that of a head is a field, or the end of the head.
        let begins_head = status_of(line).is_some() && (!has_page || begins_field(behind));
        if begins_head && !(has_page && may_be_text) {
            return Some(next);
        }
        if has_page {
            return None;
        }
        match self.body_and_answer(rest) {
            Some((_, next)) => Some(next),
            None if matches!(self.status, 100..=199 | 300..=399 | 401 | 407) => head_within(rest),
            None => None,
        }
    }

    /// The body of this answer by the length that it states, if another answer is behind, and that.
    fn body_and_answer<'s>(&self, sent: &'s [u8]) -> Option<(&'s [u8], &'s [u8])> {
        /// A head is within so many bytes of the body before. What is behind each answer is not looked through for all.
        const MOST_BETWEEN: usize = 1024;
        let mut lengths = self.values("content-length");
        let parts = lengths.find_map(|length| sent.split_at_checked(length.trim().parse().ok()?));
        let (body, behind) = parts?;
        let beginning = &behind[..behind.len().min(MOST_BETWEEN)];
        let next = beginning.trim_ascii_start();
        status_of(split_line(next).0)?;
        Some((body, &behind[beginning.len() - next.len()..]))
    }

    /// Adds what the server says of the type of the page. False if it says nothing.
    fn add_types(&self, said: &mut Said) -> bool {
        let mut has_type = false;
        for content_type in self.values("content-type") {
            said.add_type(&content_type);
            has_type = true;
        }
        has_type
    }

    /// The content of the page in a body. It may have `most_bytes` unpacked. `None` if it is no page of text.
    fn content(
        &self,
        sent: &[u8],
        said: &Said,
        most_bytes: usize,
    ) -> Result<Option<Content>, Reason> {
        let transfer = self.words("transfer-encoding");
        let encodings = self.words("content-encoding");
        let page = body::decode_body(sent, &transfer, &encodings, most_bytes)?;
        // An answer to HEAD has the head of a page, 204 says that there is none, and a server may have gone before it
        // sent any. The page of the address stays.
        if page.trim_ascii().is_empty() {
            return Ok(None);
        }
        page::content(&page, said)
    }

    /// The values of all fields of this name, which is in small letters.
    fn values(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let fields = self.fields.iter();
        fields
            .filter(|&(field, _value)| field.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_field, value)| String::from_utf8_lossy(value))
    }

    /// The words of all fields of this name that are lists, in small letters.
    fn words(&self, name: &str) -> Vec<String> {
        let mut words = Vec::new();
        for value in self.values(name) {
            for word in value.split(',') {
                // Some write a quality behind it, as in the field `Accept-Encoding`.
                let word = word.split(';').next().unwrap_or_default().trim();
                if !word.is_empty() && words.len() < Self::MOST {
                    words.push(word.to_ascii_lowercase());
                }
            }
        }
        words
    }
}

fn is_html(content_type: &str) -> bool {
    let name = content_type.split(';').next().unwrap_or_default().trim();
    ["text/html", "application/xhtml+xml"]
        .iter()
        .any(|html| name.eq_ignore_ascii_case(html))
}

/// A line without its end, and what is behind.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match memchr::memchr(b'\n', bytes) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    (line.strip_suffix(b"\r").unwrap_or(line), rest)
}

/// The status in the first line of a head. `None` if this is none: the name and the version of HTTP, spaces, and three
/// digits, or the zero that some browsers have for a response without a status.
fn status_of(line: &[u8]) -> Option<u16> {
    if !begins_with(line, b"HTTP/") {
        return None;
    }
    let rest = &line[b"HTTP/".len()..];
    let version = rest
        .iter()
        .take_while(|byte| byte.is_ascii_digit() || **byte == b'.')
        .count();
    match version {
        0 => None,
        _ => status_behind(line, &rest[version..]),
    }
}

/// The first head of an answer within bytes. Those before may be a body of which no length is stated, as one in chunks.
fn head_within(bytes: &[u8]) -> Option<&[u8]> {
    let mut heads = memchr::memmem::find_iter(bytes, b"\nHTTP/").map(|at| &bytes[at + 1..]);
    heads.find(|head| {
        let (line, behind) = split_line(head);
        status_of(line).is_some() && begins_field(behind)
    })
}

/// Whether a field of a head, or the end of the head, is here.
fn begins_field(bytes: &[u8]) -> bool {
    let line = split_line(bytes).0;
    let name = memchr::memchr(b':', line).map(|colon| &line[..colon]);
    !bytes.is_empty() && (line.trim_ascii().is_empty() || name.is_some_and(is_token))
}

/// The status in a first line without a version, as some servers write it, or with the name of another protocol, as
/// programs have it that talk by this. A text may begin so too: a field, or the end of the head, is behind it.
fn status_without_version(line: &[u8], rest: &[u8]) -> Option<u16> {
    const NAMES: [&[u8]; 6] = [b"HTTP", b"H2", b"H3", b"QUIC", b"STATUS:", b":STATUS:"];
    const BEGINNINGS: [&[u8]; 2] = [b"HTTP/", b"SPDY/"];
    let (name, behind) = line.split_at(memchr::memchr(b' ', line)?);
    let is_known = NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
        || BEGINNINGS.iter().any(|known| begins_with(name, known));
    if !is_known || !begins_field(rest) {
        return None;
    }
    status_behind(line, behind)
}

/// The status in a line, of which this is behind the version.
fn status_behind(line: &[u8], behind: &[u8]) -> Option<u16> {
    let status = behind.trim_ascii_start();
    let is_apart = status.len() < behind.len();
    let digits = status
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    let status = &status[..digits];
    if !is_apart || digits != 3 && status != b"0" {
        return None;
    }
    // Browsertrix had this for a page that a worker of its service has brought.
    if status == b"0" && line.trim_ascii_end().ends_with(b" OK") {
        return Some(200);
    }
    std::str::from_utf8(status).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_any_precision_are_times() {
        for (text, expected) in [
            ("2016", "2016-01-01T00:00:00Z"),
            ("2016-09", "2016-09-01T00:00:00Z"),
            ("201609", "2016-09-01T00:00:00Z"),
            ("2016-09-19", "2016-09-19T00:00:00Z"),
            ("20160919", "2016-09-19T00:00:00Z"),
            ("2016-09-19T12Z", "2016-09-19T12:00:00Z"),
            ("2016-09-19T12:34Z", "2016-09-19T12:34:00Z"),
            ("2016-09-19T12:34:56Z", "2016-09-19T12:34:56Z"),
            ("2016-09-19t12:34:56z", "2016-09-19T12:34:56Z"),
            ("2016-09-19 12:34:56", "2016-09-19T12:34:56Z"),
            ("2016-09-19T12:34:56.789012345Z", "2016-09-19T12:34:56Z"),
            ("2016-09-19T12:34:56.789", "2016-09-19T12:34:56Z"),
            ("2016-09-19T14:34:56+02:00", "2016-09-19T12:34:56Z"),
            ("2016-09-19T14:34:56+02:00Z", "2016-09-19T12:34:56Z"),
            ("2016-09-19T14:34:56.5+02:00Z", "2016-09-19T12:34:56Z"),
            ("20160919123456", "2016-09-19T12:34:56Z"),
            ("201609191234", "2016-09-19T12:34:00Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
            ("2009-03-65T08:43:19-0800", "2009-03-06T16:43:19Z"),
            ("2009-03-65", "2009-03-06T00:00:00Z"),
            ("2008-10-294T05:21:46-0700", "2008-10-20T12:21:46Z"),
            ("2008-12-366 00:00:00", "2008-12-31T00:00:00Z"),
            ("2009-01-31T00:00:00Z", "2009-01-31T00:00:00Z"),
        ] {
            let expected: jiff::Timestamp = expected.parse().expect("it is a time");
            assert_eq!(parse_time(text), Some(expected.as_second()), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2016-13",
            "2016-02-30",
            "20160919123",
            "1512061200",
            "12:00",
            "2016-09-19T12:34:56 PM",
            // What is behind the fraction was left out, and the time was hours off.
            "2016-09-19T12:34:56.5 PST",
            "2016-09-19T12:34:56.789 +0200",
            "2009-02-60T00:00:00Z",
            "2009-12-366T00:00:00Z",
            "2009-12-99999999999T00:00:00Z",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn a_record_without_a_date_was_seen_when_the_server_answered() {
        let seen = |fields: &str, head: &[u8]| {
            let record = format!("WARC/1.0\r\n{fields}\r\n");
            let head = Head::split(head).expect("it is a head").0;
            seen_at(&WarcHeader::split(record.as_bytes()).0, &head)
                .map_err(|reason| reason.to_string())
        };
        let answer = b"HTTP/1.1 200\r\nDate: Thu, 01 Jan 1970 00:01:00 GMT\r\n\r\n";
        assert_eq!(seen("WARC-Date: 1970\r\n", answer), Ok(Some(0)));
        assert_eq!(seen("WARC-Date: null\r\n", answer), Ok(Some(60)));
        assert_eq!(
            seen(
                "WARC-Date: \r\nDate: Thu, 01 Jan 1970 00:00:09 GMT\r\n",
                b"HTTP/2 200"
            ),
            Ok(Some(9))
        );
        assert_eq!(seen("", b"HTTP/2 200"), Ok(None));
        for date in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
        ] {
            let head = format!("HTTP/1.1 200\r\nDate: {date}\r\n\r\n");
            assert_eq!(seen("", head.as_bytes()), Ok(Some(784_111_777)), "{date}");
        }
        assert!(
            seen("WARC-Date: soon\r\n", answer)
                .is_err_and(|reason| reason.contains("WARC-Date \"soon\""))
        );
    }

    fn split(text: &[u8]) -> Option<(u16, Vec<String>, &[u8])> {
        let (head, rest) = Head::split(text)?;
        Some((
            head.status,
            head.values("content-type").map(Cow::into_owned).collect(),
            rest,
        ))
    }

    #[test]
    fn a_status_is_read_however_it_is_written() {
        for line in [
            "HTTP/1.1 200 OK",
            "HTTP/2 200",
            "HTTP/3 200 ",
            "HTTP/2.0 200 OK",
            "HTTP/1.1  200  OK",
            "http/1.1 200 ok",
            "HTTP/1.0\t200",
            "HTTP/1. 200 \u{440}",
            "HTTP 200 OK",
            "HTTP/1.1 0 OK",
        ] {
            for end in ["\r\n", "\n"] {
                let text = format!("{line}{end}Content-Type: text/html{end}{end}page");
                assert_eq!(
                    split(text.as_bytes()),
                    Some((200, vec!["text/html".into()], &b"page"[..])),
                    "{line}"
                );
            }
        }
        for line in [
            "HTTP/1.1 is a protocol",
            "HTTP/ 200",
            "HTTP/1.1 2000",
            "HTTP/1.1 20",
            "HTTP/1.10",
            "HTTP/1.1",
            "HTTPS 200",
            "HTTP",
            "",
            "<p>",
        ] {
            assert_eq!(split(line.as_bytes()), None, "{line}");
        }
    }

    /// A record with these fields, and this block.
    fn parse(fields: &str, block: &str) -> Result<Option<Parsed>, String> {
        let record = format!(
            "WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://a.test/\r\n\
             Content-Type: application/http\r\n{fields}\r\n{block}"
        );
        parse_warc(record.as_bytes(), 1 << 20, false).map_err(|reason| reason.to_string())
    }

    #[test]
    fn an_answer_ends_where_the_next_one_begins() {
        let page_of = |length: usize, behind: &str| {
            let block = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\nthe page{behind}"
            );
            let parsed = parse("", &block)
                .expect("it can be read")
                .expect("it is a page");
            format!("{:?}", parsed.content)
        };
        let alone = page_of(8, "");
        for next in [
            "HTTP/1.1 304 Not Modified\r\n\r\n",
            "\r\nHTTP/1.1 200 OK\r\n\r\nanother",
        ] {
            assert_eq!(page_of(8, next), alone);
        }
        // Archives have the length of what was packed, and a page may speak of answers.
        for other in [page_of(4, ""), page_of(4_000, "")] {
            assert_eq!(other, alone);
        }
        assert!(page_of(8, " and more").contains("and more"));
        assert!(page_of(4, "HTTP/1.1 200 OK").contains("200 OK"));
    }

    /// The page of the address was replaced by one that is too short to judge.
    #[test]
    fn an_empty_record_takes_the_place_of_no_page() {
        for block in [
            "",
            "\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 700\r\n\r\n",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        ] {
            assert_eq!(parse("", block), Ok(None), "{block:?}");
        }
        let page = parse(
            "",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>words",
        );
        assert!(matches!(page, Ok(Some(_))));
    }

    #[test]
    fn a_head_without_a_status_is_no_page() {
        for line in [
            "HTTPS/1.1 200 OK",
            "ICY 200 OK",
            "http/1.1 OK",
            "\u{feff}HTTP/1.1 200 OK",
            "\0HTTP/1.1 200 OK",
        ] {
            let block =
                format!("{line}\r\nDate: today\r\nContent-Type: text/html\r\n\r\n<p>a page");
            let refused = parse("", &block);
            assert!(
                refused.is_err_and(|reason| reason.contains("no status")),
                "{line}"
            );
        }
        let page = "Note: this\r\nis a page\r\n\r\nof words";
        assert!(parse("", page).is_ok_and(|parsed| parsed.is_some()));
    }

    #[test]
    fn a_page_among_the_lines_of_a_head_is_told_where_it_has_blank_lines() {
        let block =
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n<HTML><body><p>one</p>\n\n<p>two";
        assert!(parse("", block).is_err_and(|reason| reason.contains("no blank line")));
    }

    #[test]
    fn a_segment_of_a_page_is_no_page() {
        let block = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>the first half";
        let refused = parse("WARC-Segment-Number: 1\r\n", block);
        assert!(refused.is_err_and(|reason| reason.contains("segments are not joined")));
        assert!(parse("", block).is_ok_and(|parsed| parsed.is_some()));
    }

    #[test]
    fn any_number_of_fields_of_any_shape_is_read() {
        let many = "x-field: 1\r\n".repeat(2_000) + &format!("x-long: {}\r\n", "y".repeat(100_000));
        let text = format!(
            "HTTP/1.1 200\r\nno colon\r\n: no name\r\n{many}CONTENT-TYPE :text/html;\r\n\t charset=x\r\n\r\n"
        );
        let text = [text.as_bytes(), b"page"].concat();
        assert_eq!(
            split(&text),
            Some((200, vec!["text/html; charset=x".into()], &b"page"[..]))
        );
        assert_eq!(
            split(b"HTTP/1.1 200\r\nx: \xff\xfe\r\n\r\n"),
            Some((200, vec![], &b""[..]))
        );
        assert_eq!(
            split(b"HTTP/1.1 200\r\nContent-Type: a"),
            Some((200, vec!["a".into()], &b""[..]))
        );
        assert_eq!(split(b"HTTP/1.1 200"), Some((200, vec![], &b""[..])));
        let two =
            Head::split(b"HTTP/1.1 200\nContent-Encoding: GZIP,br;q=1.0\ncontent-encoding: x\n\n")
                .expect("a head");
        assert_eq!(two.0.words("content-encoding"), ["gzip", "br", "x"]);
    }

    #[test]
    fn what_comes_before_the_page_is_passed_over() {
        let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\npage";
        for before in [
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
            "HTTP/1.0 200 Connection established\r\nProxy-Agent: x\r\n\r\n",
            "HTTP/1.1 302 Found\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n",
            "HTTP/1.1 302 Found\r\nContent-Type: text/html\r\nContent-Length: 218\r\n\r\n",
            "HTTP/1.1 401 No\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\nnone",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n",
            "h2 302\r\nlocation: /b\r\n\r\n",
        ] {
            let text = format!("{before}{page}");
            assert_eq!(
                split(text.as_bytes()),
                Some((200, vec!["text/html".into()], &b"page"[..])),
                "{before}"
            );
        }
        // A page may tell of heads.
        let tells = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{page}");
        assert_eq!(
            split(tells.as_bytes()).map(|head| head.2),
            Some(page.as_bytes())
        );
        assert_eq!(
            split(b"HTTP/1.1 301 Moved\r\n\r\nHTTP/1.1 404 No\r\n\r\n").map(|head| head.0),
            Some(404)
        );
        for first in [
            "h2 200",
            "H3 200 OK",
            "SPDY/3.1 200 OK",
            "HTTP/None 200",
            ":status: 200",
            "Status: 200 OK",
        ] {
            let text = format!("{first}\r\nContent-Type: a\r\n\r\npage");
            let found = split(text.as_bytes());
            assert_eq!(
                found,
                Some((200, vec!["a".into()], &b"page"[..])),
                "{first}"
            );
        }
    }

    /// A part took the place of the whole page.
    #[test]
    fn a_part_of_a_page_is_no_page() {
        let is_page = |range: &str| {
            let answer = "HTTP/1.1 206 Partial Content\r\nContent-Type: text/html\r\n";
            let parsed = parse("", &format!("{answer}{range}\r\n\r\n<p>words"));
            parsed.is_ok_and(|page| page.is_some())
        };
        assert!(is_page("Content-Range: bytes 0-7/8"));
        assert!(is_page("content-range:Bytes  0-7/8"));
        for range in [
            "bytes 1-7/8",
            "bytes 0-6/8",
            "bytes 0-7/*",
            "bytes */8",
            "",
            "0-7/8",
        ] {
            assert!(!is_page(&format!("Content-Range: {range}")), "{range}");
        }
        assert!(!is_page("Server: a"));
    }
}
