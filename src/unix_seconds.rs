//! Unix seconds: the times of documents and of questions, and the check that they are in no other unit.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::error::{Error, Result};

/// A time in Unix seconds. Numbers and [`SystemTime`]s become one, so a setter takes both.
///
/// The years -9999 to 9999 are allowed. A time since 1979 in milliseconds or a finer unit falls outside, and whatever
/// uses it fails: taken as seconds, such a document would count as seen in the year 55840, and never expire.
///
/// # Example
///
/// ```
/// use std::time::{Duration, SystemTime};
/// use simdb::{Error, Near, UnixSeconds};
///
/// let two_days_ago = SystemTime::now() - Duration::from_secs(2 * 86_400);
/// let near = Near::new().since(two_days_ago);
/// let near = Near::new().since(1_700_000_000);
///
/// let milliseconds = UnixSeconds::from(1_700_000_000_000).checked();
/// assert!(matches!(milliseconds, Err(Error::NotSeconds { unit: "milliseconds", seconds: 1_700_000_000, .. })));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(i64);

impl UnixSeconds {
    /// The first second of the year -9999.
    pub const MIN: i64 = -377_705_116_800;
    /// The last second of the year 9999.
    pub const MAX: i64 = 253_402_300_799;

    /// The number of seconds, if they are a time that can be meant.
    ///
    /// # Errors
    ///
    /// [`Error::NotSeconds`] for a number outside of [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
    pub fn checked(self) -> Result<i64> {
        let given = self.0;
        if Self::is_possible(given) {
            return Ok(given);
        }
        let units = [
            ("milliseconds", 1_000),
            ("microseconds", 1_000_000),
            ("nanoseconds", 1_000_000_000),
        ];
        for (unit, each) in units {
            let seconds = given.div_euclid(each);
            if Self::is_possible(seconds) {
                return Err(Error::NotSeconds {
                    given,
                    unit,
                    seconds,
                });
            }
        }
        unreachable!("2^63 ns are 292 years")
    }

    fn is_possible(seconds: i64) -> bool {
        (Self::MIN..=Self::MAX).contains(&seconds)
    }

    /// The number of seconds, as it was given.
    pub(crate) fn unchecked(self) -> i64 {
        self.0
    }

    pub(crate) fn now() -> Self {
        SystemTime::now().into()
    }
}

impl From<i64> for UnixSeconds {
    fn from(seconds: i64) -> Self {
        Self(seconds)
    }
}

/// Fractions of a second are dropped. Before 1970, the second counts in which the time lies.
impl From<SystemTime> for UnixSeconds {
    fn from(time: SystemTime) -> Self {
        Self(match time.duration_since(UNIX_EPOCH) {
            Ok(since) => whole(since.as_secs()),
            Err(error) => {
                let before = error.duration();
                let begun = u64::from(before.subsec_nanos() > 0);
                -whole(before.as_secs().saturating_add(begun))
            }
        })
    }
}

fn whole(seconds: u64) -> i64 {
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn years_up_to_9999_are_seconds_and_times_of_other_units_are_not() {
        for seconds in [UnixSeconds::MIN, -1, 0, 1_700_000_000, UnixSeconds::MAX] {
            assert!(UnixSeconds::from(seconds).checked().is_ok(), "{seconds}");
        }
        // The end of 1979, and today.
        for seconds in [315_532_799, 1_700_000_000] {
            for unit in [1_000, 1_000_000, 1_000_000_000] {
                assert!(
                    UnixSeconds::from(seconds * unit).checked().is_err(),
                    "{seconds} * {unit}"
                );
            }
        }
        for far in [
            i64::MIN,
            UnixSeconds::MIN - 1,
            UnixSeconds::MAX + 1,
            i64::MAX,
        ] {
            assert!(UnixSeconds::from(far).checked().is_err(), "{far}");
        }
    }

    #[test]
    fn the_unit_is_named_with_what_to_give_instead() {
        let message = |given: i64| {
            UnixSeconds::from(given)
                .checked()
                .err()
                .map_or_else(String::new, |it| it.to_string())
        };
        for (given, unit) in [
            (1_700_000_000_123, "milliseconds"),
            (1_700_000_000_123_456, "microseconds"),
            (1_700_000_000_123_456_789, "nanoseconds"),
        ] {
            let message = message(given);
            assert!(
                message.contains(&format!("{given} ")) && message.contains(unit),
                "{message}"
            );
            assert!(message.ends_with("here 1700000000"), "{message}");
        }
        assert!(message(i64::MIN).contains("nanoseconds"));
    }

    #[test]
    fn times_of_the_system_are_seconds_rounded_down() {
        let half = Duration::from_millis(1_500);
        assert_eq!(UnixSeconds::from(UNIX_EPOCH + half), UnixSeconds(1));
        assert_eq!(UnixSeconds::from(UNIX_EPOCH - half), UnixSeconds(-2));
        assert_eq!(UnixSeconds::from(UNIX_EPOCH), UnixSeconds(0));
    }
}
