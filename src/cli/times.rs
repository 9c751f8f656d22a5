//! Points in time as people write them: `2020-01-31`, `2020-01-31T12:00`, `2d`, `2 weeks ago`, `yesterday`, or Unix
//! seconds.
//!
//! What names no zone is in the local one, and a span counts back from now. A number could be a year as well as
//! seconds, so small numbers are looked at twice.

use jiff::civil::{Date, DateTime};
use jiff::{Span, Timestamp, Zoned};

use crate::UnixSeconds;

/// Parses a time to Unix seconds.
pub(super) fn time(text: &str) -> Result<i64, String> {
    time_at(text, &Zoned::now())
}

fn time_at(text: &str, now: &Zoned) -> Result<i64, String> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        let wanted = "after `@` Unix seconds are wanted, such as @1577836800";
        return checked(seconds.parse().map_err(|_| wanted.to_owned())?);
    }
    if let Ok(number) = text.parse::<i64>() {
        return seconds_of_number(text, number);
    }
    let time = moment(text, now).or_else(|| back_from(text, now)).ok_or_else(|| {
        "it must be a time, such as 2020-01-31, 2020-01-31T12:00, 2d, 36h, `2 weeks ago`, yesterday, or \
         Unix seconds"
            .to_owned()
    })?;
    if time > now.timestamp() {
        let seconds = time.as_second();
        return Err(format!(
            "it is in the future; if that is meant, write @{seconds}, in Unix seconds"
        ));
    }
    Ok(time.as_second())
}

/// A number is Unix seconds, unless it looks like something else.
fn seconds_of_number(text: &str, number: i64) -> Result<i64, String> {
    let (meaning, example) = match (text.len(), number) {
        (4, 1900..=2199) => ("a year", format!("{text}-01-01")),
        (8, 19_000_101..=21_991_231) => match text.parse::<Date>() {
            Ok(date) => ("a date", date.to_string()),
            Err(_) => return checked(number),
        },
        _ => return checked(number),
    };
    Err(format!(
        "it could be {meaning}; write {example}, or @{number} if Unix seconds are meant"
    ))
}

/// Refuses a number that is a time in another unit.
fn checked(seconds: i64) -> Result<i64, String> {
    UnixSeconds::from(seconds)
        .checked()
        .map_err(|error| error.to_string())
}

/// A date, perhaps with a time of day and a zone, or the name of a day.
fn moment(text: &str, now: &Zoned) -> Option<Timestamp> {
    let midnight = DateTime::from(match text.to_ascii_lowercase().as_str() {
        "now" => return Some(now.timestamp()),
        "today" => now.date(),
        "yesterday" => now.date().yesterday().ok()?,
        _ => match (text.parse::<Timestamp>(), text.parse::<DateTime>()) {
            (Ok(time), _) => return Some(time),
            (Err(_), local) => return timestamp(local.ok()?, now),
        },
    });
    timestamp(midnight, now)
}

/// A time in the zone of `now`.
fn timestamp(local: DateTime, now: &Zoned) -> Option<Timestamp> {
    Some(local.to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

/// A span before now, with or without `ago`.
fn back_from(text: &str, now: &Zoned) -> Option<Timestamp> {
    if text.starts_with('+') {
        return None;
    }
    let span: Span = text.parse().ok()?;
    Some(now.checked_sub(span.abs()).ok()?.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    /// Noon of a summer's day, in a zone two hours east of UTC.
    fn noon() -> Result<Zoned, jiff::Error> {
        Ok("2026-07-15T12:00+02:00"
            .parse::<Timestamp>()?
            .to_zoned(jiff::tz::TimeZone::fixed(jiff::tz::offset(2))))
    }

    #[test]
    fn times_are_read_as_people_write_them_in_the_local_zone() -> TestResult {
        let now = noon()?;
        for (text, meant) in [
            ("2020-01-31", "2020-01-30T22:00:00Z"),
            ("2020-01-31T12:00", "2020-01-31T10:00:00Z"),
            ("2020-01-31 12:00:30", "2020-01-31T10:00:30Z"),
            ("2020-01-31T12:00:00Z", "2020-01-31T12:00:00Z"),
            ("2020-01-31T12:00:00-05:00", "2020-01-31T17:00:00Z"),
            ("now", "2026-07-15T10:00:00Z"),
            ("Today", "2026-07-14T22:00:00Z"),
            ("yesterday", "2026-07-13T22:00:00Z"),
            ("2d", "2026-07-13T10:00:00Z"),
            ("36h", "2026-07-13T22:00:00Z"),
            ("90 minutes", "2026-07-15T08:30:00Z"),
            ("2 weeks ago", "2026-07-01T10:00:00Z"),
            ("1 month ago", "2026-06-15T10:00:00Z"),
            ("-2d", "2026-07-13T10:00:00Z"),
        ] {
            assert_eq!(
                time_at(text, &now),
                Ok(meant.parse::<Timestamp>()?.as_second()),
                "{text}"
            );
        }
        Ok(())
    }

    #[test]
    fn numbers_are_unix_seconds_unless_they_look_like_something_else() -> TestResult {
        let now = noon()?;
        for (text, meant) in [
            ("200", 200),
            ("-1", -1),
            ("1577836800", 1_577_836_800),
            ("@2020", 2020),
        ] {
            assert_eq!(time_at(text, &now), Ok(meant), "{text}");
        }
        for (text, instead) in [
            ("2020", "2020-01-01"),
            ("20200131", "2020-01-31"),
            ("1577836800000", "here 1577836800"),
        ] {
            assert!(
                time_at(text, &now).is_err_and(|error| error.contains(instead)),
                "{text}"
            );
        }
        assert!(time_at("@1577836800000", &now).is_err_and(|error| error.contains("milliseconds")));
        Ok(())
    }

    #[test]
    fn what_is_no_time_or_yet_to_come_is_refused_with_examples() -> TestResult {
        let now = noon()?;
        for text in [
            "",
            "soon",
            "2020-13-01",
            "2020-02-30",
            "12:00",
            "+2d",
            "2 fortnights",
            "100000 years",
            "@",
            "@x",
        ] {
            assert!(
                time_at(text, &now).is_err_and(|error| error.contains("such as")),
                "{text}"
            );
        }
        for text in ["2062-01-01", "2026-07-15T12:00:01"] {
            assert!(
                time_at(text, &now)
                    .is_err_and(|error| error.contains("in the future") && error.contains('@')),
                "{text}"
            );
        }
        Ok(())
    }
}
