//! Times in inputs, in Unix seconds: as RFC 3339 writes them, and numbers that are dates and no seconds.

use jiff::civil::{Date, DateTime, date};
use jiff::fmt::temporal::{Pieces, PiecesOffset};

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
