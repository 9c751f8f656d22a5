//! The page in a record of a web archive: its bytes, its address and its time.

use super::body;
use super::http::Head;
use super::page::{self, Said};
use super::parsed::{Parsed, Parts};
use super::rejected::Reason;
use super::warc::WarcHeader;

/// What a record of a web archive brings, with its time if that is wanted. `None` if it is no page.
pub(super) fn parse_warc(
    record: &[u8],
    most_bytes: usize,
    times: bool,
) -> Result<Option<Parsed>, Reason> {
    let (header, body) = WarcHeader::split(record);
    let own_type = header.text("Content-Type").unwrap_or_default();
    let is_http =
        own_type.contains("application/http") || header.get("WARC-Type") == Some(b"response");
    let (head, sent) = match Head::split(body).filter(|_| is_http) {
        Some((head, sent)) if (200..300).contains(&head.status) => (head, sent),
        Some(_) => return Ok(None),
        None if own_type.contains("application/http") && body.starts_with(b"HTTP/") => {
            return Err(Reason::Warc {
                problem: "its HTTP head has no status".to_owned(),
            });
        }
        // A file that was archived as it is, or a response whose head was not kept.
        None => (Head::default(), body),
    };
    let said = said_of(&header, &head, own_type);
    if !said.is_page() {
        return Ok(None);
    }
    let page = body::page(&head, sent, most_bytes)?;
    let Some(content) = page::content(&page, &said)? else {
        return Ok(None);
    };
    let address = header.get("WARC-Target-URI").unwrap_or_default();
    // Old writers put it in angle brackets.
    let address = address
        .strip_prefix(b"<")
        .and_then(|it| it.strip_suffix(b">"))
        .unwrap_or(address);
    let key = Some(address.to_vec()).filter(|it| !it.is_empty());
    let seen = if times {
        seen_at(&header, &head)?
    } else {
        None
    };
    Ok(Some(Parsed {
        key,
        content,
        parts: Parts {
            seen,
            ..Parts::default()
        },
    }))
}

/// What is said of the type of a page: by the server, and by who archived it.
fn said_of(header: &WarcHeader<'_>, head: &Head<'_>, own_type: &str) -> Said {
    let mut said = Said::default();
    if !own_type.contains("application/http") && head.status == 0 {
        said.add_type(own_type);
    }
    for content_type in head.values("content-type") {
        said.add_type(&content_type);
    }
    if let Some(identified) = header.text("WARC-Identified-Payload-Type") {
        said.set_identified(identified);
    }
    said
}

/// When a page was seen (Unix seconds): at the date of the record, or if that has none, at the date of the server's
/// answer. A date that cannot be read is not passed over, since the document would get the time of today.
fn seen_at(header: &WarcHeader<'_>, head: &Head<'_>) -> Result<Option<i64>, Reason> {
    let date = header.get("WARC-Date").unwrap_or_default();
    if !date.is_empty() && date != b"null" {
        let text = String::from_utf8_lossy(date);
        return time_of(&text).map(Some).ok_or_else(|| Reason::Warc {
            problem: format!(
                "the WARC-Date {text:?} is no time as in WARC 1.1, such as 2016-09-19T12:00:00Z"
            ),
        });
    }
    let answered = head
        .values("date")
        .next()
        .or(header.text("Date").map(Into::into));
    let time = answered.and_then(|it| jiff::fmt::rfc2822::parse(it.trim()).ok());
    Ok(time.map(|it| it.timestamp().as_second()))
}

/// The Unix seconds of a date of a record.
fn time_of(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>()
        .ok()
        .or_else(|| lenient_time(text))
        .map(jiff::Timestamp::as_second)
}

/// A time in UTC of any precision: a year, a month, a day, or more, with the marks of ISO 8601 between them or without.
fn lenient_time(text: &str) -> Option<jiff::Timestamp> {
    let text = text.trim().trim_end_matches(['Z', 'z']);
    let text = text.split_once('.').map_or(text, |(whole, _)| whole);
    let mut rest = text;
    let year = number(&mut rest, 4)?;
    let mut parts = [1, 1, 0, 0, 0];
    for (part, marks) in parts.iter_mut().zip(["-", "-", "Tt ", ":", ":"]) {
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(|it| marks.contains(it)).unwrap_or(rest);
        *part = number(&mut rest, 2)?;
    }
    let [month, day, hour, minute, second] = parts.map(|it| it as i8);
    // A leap second is the one before.
    let time =
        jiff::civil::DateTime::new(year, month, day, hour, minute, second.min(59), 0).ok()?;
    let is_whole = rest.is_empty() && parts[4] <= 60;
    is_whole
        .then(|| time.to_zoned(jiff::tz::TimeZone::UTC).ok())
        .flatten()
        .map(|it| it.timestamp())
}

/// Takes a number of so many digits.
fn number(rest: &mut &str, digits: usize) -> Option<i16> {
    let (number, behind) = rest.split_at_checked(digits)?;
    *rest = behind;
    number
        .bytes()
        .all(|it| it.is_ascii_digit())
        .then(|| number.parse().ok())
        .flatten()
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
            ("20160919123456", "2016-09-19T12:34:56Z"),
            ("201609191234", "2016-09-19T12:34:00Z"),
            ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59Z"),
        ] {
            let expected: jiff::Timestamp = expected.parse().expect("it is a time");
            assert_eq!(time_of(text), Some(expected.as_second()), "{text}");
        }
        for text in [
            "",
            "yesterday",
            "2016-13",
            "2016-02-30",
            "20160919123",
            "12:00",
            "2016-09-19T12:34:56 PM",
        ] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }

    #[test]
    fn a_record_without_a_date_was_seen_when_the_server_answered() {
        let seen = |fields: &str, head: &[u8]| {
            let record = format!("WARC/1.0\r\n{fields}\r\n");
            let head = Head::split(head).expect("it is a head").0;
            seen_at(&WarcHeader::split(record.as_bytes()).0, &head).map_err(|it| it.to_string())
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
        assert!(
            seen("WARC-Date: soon\r\n", answer).is_err_and(|it| it.contains("WARC-Date \"soon\""))
        );
    }
}
