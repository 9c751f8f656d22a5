//! Points in time as people write them: `2020-01-31`, `2020-01-31T12:00`, `2d`, `2 weeks ago`, `yesterday`, or Unix
//! seconds.
//!
//! What names no zone is in the local one, and a span counts back from now. A number could be a year as well as
//! seconds, so small numbers are looked at twice.

use std::cell::RefCell;
use std::time::SystemTime;

use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
#[cfg(unix)]
use jiff::fmt::temporal::{DateTimeParser, DateTimePrinter};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::UnixSeconds;
use crate::ingest::other_meaning;

thread_local! {
    /// The zone of the client for which this thread runs a command. A parser of an argument is given its text only.
    static ZONE_OF_CLIENT: RefCell<Option<TimeZone>> = const { RefCell::new(None) };
}

/// The local zone: that of this process, or of the client for which this thread runs a command.
pub(super) fn local_zone() -> TimeZone {
    let zone = ZONE_OF_CLIENT.with_borrow(Clone::clone);
    zone.unwrap_or_else(TimeZone::system)
}

/// The name of the local zone, which other processes know too. `None` if it has none: some are only a file.
#[cfg(unix)]
pub(super) fn name_of_local_zone() -> Option<String> {
    let name = DateTimePrinter::new().time_zone_to_string(&local_zone());
    name.ok()
}

/// Runs a command in the local zone of a client. An error if no zone has this name. Without a name, the zone is that of
/// this process.
#[cfg(unix)]
pub(super) fn in_zone_of_client<T>(
    name: Option<&str>,
    run: impl FnOnce() -> T,
) -> Result<T, String> {
    let zone = name.map(|name| DateTimeParser::new().parse_time_zone(name));
    let zone = zone.transpose().map_err(|error| {
        format!("the process that has the database open does not know your time zone: {error}")
    })?;
    ZONE_OF_CLIENT.set(zone);
    let done = run();
    ZONE_OF_CLIENT.set(None);
    Ok(done)
}

pub(super) fn time(text: &str) -> Result<i64, String> {
    let here = Here {
        clock: SystemTime::now(),
        zone: local_zone(),
    };
    time_at(text, &here)
}

/// What the system says: by its clock what time it is, and in which zone.
struct Here {
    clock: SystemTime,
    zone: TimeZone,
}

impl Here {
    /// The local time. A clock may be set to years that no calendar has.
    fn now(&self) -> Result<Zoned, String> {
        match Timestamp::try_from(self.clock) {
            Ok(now) => Ok(now.to_zoned(self.zone.clone())),
            Err(_) => Err(format!(
                "the clock of this system is at @{}, which is in no year from -9999 to 9999: set it, or write a date",
                self.seconds()
            )),
        }
    }

    /// The time in Unix seconds, which every clock has.
    fn seconds(&self) -> i64 {
        UnixSeconds::from(self.clock).unchecked()
    }
}

fn time_at(text: &str, here: &Here) -> Result<i64, String> {
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        let wanted = "after `@` Unix seconds are wanted, such as @1577836800";
        return checked(seconds.parse().map_err(|_| wanted.to_owned())?);
    }
    if let Ok(number) = text.parse::<i64>() {
        return seconds_of_number(text, number).and_then(|seconds| past(seconds, here));
    }
    if is_minutes_or_months(text) {
        return Err("m could be minutes or months; write `min` or `mo`".to_owned());
    }
    let time = match moment(text, here)? {
        Some(time) => Some(time),
        None => back_from(text, here)?,
    };
    let Some(time) = time else {
        // The local time of the last day may be that of no day that is read.
        let is_span = !text.starts_with('+') && text.parse::<Span>().is_ok();
        if is_span || Pieces::parse(text).is_ok_and(|it| it.date().year().abs() == 9999) {
            let first = UnixSeconds::MIN;
            let last = UnixSeconds::MAX;
            return Err(format!(
                "it is further away than dates are read, which is from -9999-01-03 to 9999-12-29; write Unix seconds, \
                 from @{first} to @{last}"
            ));
        }
        return Err(
            "it must be a time, such as 2020-01-31, 2020-01-31T12:00, 2d, 36h, `2 weeks ago`, yesterday, or Unix \
             seconds"
                .to_owned(),
        );
    };
    past(time.as_second(), here)
}

/// Refuses a time in the future, which is seldom meant.
fn past(seconds: i64, here: &Here) -> Result<i64, String> {
    match seconds > here.seconds() {
        true => Err(format!(
            "it is in the future; if that is meant, write @{seconds}, in Unix seconds"
        )),
        false => Ok(seconds),
    }
}

/// Whether a text is a number of `m`, alone or among other units.
fn is_minutes_or_months(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| c.is_ascii_digit() || c.is_ascii_whitespace())
        .collect();
    // Behind hours, they are minutes.
    text.starts_with(|c: char| c.is_ascii_digit())
        && words.contains(&"m")
        && !words.iter().any(|word| word.starts_with('h'))
}

/// A number is Unix seconds, unless it looks like something else.
fn seconds_of_number(text: &str, number: i64) -> Result<i64, String> {
    let plain = number.to_string() == text;
    let Some((meaning, example)) = other_meaning(number).filter(|_| plain) else {
        return checked(number);
    };
    let or_seconds = match checked(number) {
        Ok(_) => format!(", or @{number} if Unix seconds are meant"),
        Err(_) => String::new(),
    };
    Err(format!(
        "it could be {meaning}; write {example}{or_seconds}"
    ))
}

/// Refuses a number that is a time in another unit.
fn checked(seconds: i64) -> Result<i64, String> {
    UnixSeconds::from(seconds)
        .checked()
        .map_err(|error| error.to_string())
}

/// A date, perhaps with a time of day and a zone, or the name of a day. Only the latter need the clock.
fn moment(text: &str, here: &Here) -> Result<Option<Timestamp>, String> {
    let midnight = match text.to_ascii_lowercase().as_str() {
        "now" => return Ok(Some(here.now()?.timestamp())),
        "today" => Some(here.now()?.date()),
        "yesterday" => here.now()?.date().yesterday().ok(),
        // A zone in brackets would be passed over as a remark.
        _ if text.contains('[') => return Ok(text.parse::<Zoned>().ok().map(|it| it.timestamp())),
        _ => {
            let time = text.parse::<Timestamp>().ok();
            return Ok(time.or_else(|| timestamp(text.parse().ok()?, here)));
        }
    };
    Ok(midnight.and_then(|date| timestamp(date.into(), here)))
}

fn timestamp(local: DateTime, here: &Here) -> Option<Timestamp> {
    Some(local.to_zoned(here.zone.clone()).ok()?.timestamp())
}

/// A span before now, with or without `ago`.
fn back_from(text: &str, here: &Here) -> Result<Option<Timestamp>, String> {
    if text.starts_with('+') {
        return Ok(None);
    }
    let Ok(span) = text.parse::<Span>() else {
        return Ok(None);
    };
    let time = here.now()?.checked_sub(span.abs());
    Ok(time.ok().map(|time| time.timestamp()))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    /// Noon of a summer's day, in a zone two hours east of UTC.
    fn noon() -> Result<Here, jiff::Error> {
        Ok(Here {
            clock: "2026-07-15T12:00+02:00".parse::<Timestamp>()?.into(),
            zone: TimeZone::fixed(jiff::tz::offset(2)),
        })
    }

    /// They were said to be no times.
    #[test]
    fn the_ends_of_the_calendar_are_told() -> TestResult {
        let here = noon()?;
        for text in ["-009999-01-01", "19998 years ago"] {
            let told = time_at(text, &here);
            assert!(
                told.as_ref().is_err_and(|it| it.contains("further away")),
                "{text}: {told:?}"
            );
        }
        let west = Here {
            clock: here.clock,
            zone: TimeZone::fixed(jiff::tz::offset(-2)),
        };
        for text in ["9999-12-31", "9999-12-31T23:59:59"] {
            let told = time_at(text, &west);
            assert!(
                told.as_ref().is_err_and(|it| it.contains("further away")),
                "{text}: {told:?}"
            );
        }
        assert_eq!(time_at("@253402300799", &here), Ok(UnixSeconds::MAX));
        assert!(time_at("+2d", &here).is_err_and(|it| it.contains("it must be a time")));
        assert!(time_at("9998-12-31", &here).is_err_and(|it| it.contains("in the future")));
        Ok(())
    }

    #[test]
    fn times_are_read_as_people_write_them_in_the_local_zone() -> TestResult {
        let here = noon()?;
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
                time_at(text, &here),
                Ok(meant.parse::<Timestamp>()?.as_second()),
                "{text}"
            );
        }
        Ok(())
    }

    #[test]
    fn numbers_are_unix_seconds_unless_they_look_like_something_else() -> TestResult {
        let here = noon()?;
        for (text, meant) in [
            ("200", 200),
            ("-1", -1),
            ("1577836800", 1_577_836_800),
            ("@2020", 2020),
        ] {
            assert_eq!(time_at(text, &here), Ok(meant), "{text}");
        }
        for (text, instead) in [
            ("2020", "2020-01-01"),
            ("20200131", "2020-01-31"),
            ("1577836800000", "here 1577836800"),
        ] {
            assert!(
                time_at(text, &here).is_err_and(|error| error.contains(instead)),
                "{text}"
            );
        }
        assert!(
            time_at("@1577836800000", &here).is_err_and(|error| error.contains("milliseconds"))
        );
        Ok(())
    }

    /// It was passed over as a remark.
    #[test]
    fn a_zone_in_brackets_counts() -> TestResult {
        let here = noon()?;
        assert_eq!(
            time_at("2026-01-15T12:00:00[America/New_York]", &here)?,
            time_at("2026-01-15T17:00:00Z", &here)?
        );
        for text in [
            "2026-01-15T12:00:00[Garbage/Zone]",
            "2026-01-15T12:00:00[!Garbage/Zone]",
        ] {
            assert!(time_at(text, &here).is_err(), "{text}");
        }
        Ok(())
    }

    #[test]
    fn what_is_no_time_or_yet_to_come_is_refused_with_examples() -> TestResult {
        let here = noon()?;
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
                time_at(text, &here).is_err_and(|error| error.contains("such as")),
                "{text}"
            );
        }
        for text in ["2062-01-01", "2026-07-15T12:00:01"] {
            assert!(
                time_at(text, &here)
                    .is_err_and(|error| error.contains("in the future") && error.contains('@')),
                "{text}"
            );
        }
        Ok(())
    }

    /// `Zoned::now` panics at such a clock.
    #[test]
    fn a_clock_in_no_year_is_told_where_now_is_needed_and_only_there() -> TestResult {
        for (clock, is_past) in [
            (253_402_300_799, true),
            (i64::MAX, true),
            (-400_000_000_000, false),
        ] {
            let epoch = SystemTime::UNIX_EPOCH;
            let away = Duration::from_secs(i64::unsigned_abs(clock));
            let set = match clock {
                0.. => epoch.checked_add(away),
                _ => epoch.checked_sub(away),
            };
            let here = Here {
                clock: set.ok_or("the system has no such time")?,
                ..noon()?
            };
            for text in ["now", "today", "yesterday", "1d", "2 weeks ago"] {
                let told = time_at(text, &here).expect_err(text);
                let begin = format!("the clock of this system is at @{clock},");
                assert!(told.starts_with(&begin), "{text}: {told}");
            }
            let date = time_at("2020-01-31", &here);
            match is_past {
                true => assert_eq!(date, time_at("2020-01-31", &noon()?), "{clock}"),
                false => assert!(date.is_err_and(|told| told.contains("in the future"))),
            }
            assert_eq!(time_at("@1577836800", &here), Ok(1_577_836_800), "{clock}");
            assert!(time_at("soon", &here).is_err_and(|told| told.contains("such as")));
        }
        Ok(())
    }
}
