//! Counts and sizes as people write them: `10k`, `100M`, `1e8`, `1_000_000`; `1GB`, `64MiB`, `25%`.
//!
//! A number is computed exactly, so what is no whole number or too large is refused and never rounded.

use indicatif::HumanCount;

use crate::{Cache, SketchSize};

/// Parses a count: `5000`, `1_000_000`, `10k`, `1.5M`, `1e8`.
pub(super) fn count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = parse(text, count_unit).and_then(narrow);
    number.map_err(|wrong| wrong.message("number", COUNTS))
}

pub(super) fn positive_count<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    if let Ok(0) = parse(text, count_unit) {
        return Err("it must be at least 1".to_owned());
    }
    count(text)
}

/// Parses a number of bytes: `4096`, `512k`, `1GB`, `64MiB`. A number without a unit is in bytes.
pub(super) fn bytes<T: TryFrom<u64>>(text: &str) -> Result<T, String> {
    let number = parse(text, byte_unit).and_then(narrow);
    number.map_err(|wrong| wrong.message("number of bytes", SIZES))
}

/// Parses the limit of a cache: bytes, or a share such as `25%`.
pub(super) fn cache(text: &str) -> Result<Cache, String> {
    let Some(percent) = text.trim().strip_suffix('%') else {
        return bytes(text)
            .map(Cache::Bytes)
            .map_err(|reason| format!("{reason}, or a share from 0% to 100%"));
    };
    match percent.trim().parse() {
        Ok(percent @ 0.0..=100.0) => Ok(Cache::Share(percent / 100.0)),
        _ => Err("it must be a share from 0% to 100%".to_owned()),
    }
}

/// A number of bytes in the largest decimal unit.
pub(super) fn told_bytes(count: f64) -> String {
    if count < 1000.0 {
        return format!("{count:.0} B");
    }
    let mut value = count;
    let mut unit = "";
    for larger in ["kB", "MB", "GB", "TB", "PB"] {
        // What would be rounded to 1000.0 is one of the next.
        if value >= 999.95 {
            value /= 1000.0;
            unit = larger;
        }
    }
    format!("{value:.1} {unit}")
}

pub(super) fn told_count(count: u64) -> String {
    HumanCount(count).to_string()
}

pub(super) fn told_sketches(size: SketchSize) -> String {
    match size.bytes() {
        0 => "no sketches".to_owned(),
        bytes => format!("sketches of {bytes} bytes"),
    }
}

/// What happened at least once: `3 skipped`, `1 deleted`.
pub(super) fn told_any(counts: &[(u64, &str)]) -> Vec<String> {
    let mut told = Vec::new();
    for (count, what) in counts {
        if *count > 0 {
            told.push(format!("{count} {what}"));
        }
    }
    told
}

const COUNTS: &str = "5000, 1_000_000, 10k, 100M or 1e8";
const SIZES: &str = "4096, 512k, 64MiB or 1GB";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    NoNumber,
    Negative,
    NotWhole,
    TooLarge,
}

impl Wrong {
    fn message(self, what: &str, examples: &str) -> String {
        match self {
            Self::NoNumber => format!("it must be a {what}, such as {examples}"),
            Self::Negative => format!("it must not be negative, but a {what}, such as {examples}"),
            Self::NotWhole => format!("it must be a whole {what}, such as {examples}"),
            Self::TooLarge => format!("it is too large for a {what}, such as {examples}"),
        }
    }
}

fn narrow<T: TryFrom<u64>>(number: u64) -> Result<T, Wrong> {
    T::try_from(number).map_err(|_| Wrong::TooLarge)
}

/// Of a count, decimal only. `B` could mean billions or bytes, so it means nothing.
fn count_unit(unit: &str) -> Option<u64> {
    Some(match unit {
        "" => 1,
        "k" | "K" => 1_000,
        "m" | "M" => 1_000_000,
        "g" | "G" => 1_000_000_000,
        "t" | "T" => 1_000_000_000_000,
        _ => return None,
    })
}

/// Of bytes: decimal, or binary if there is an `i`, in any case.
fn byte_unit(unit: &str) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    if unit == "byte" || unit == "bytes" {
        return Some(1);
    }
    let unit = unit.strip_suffix('b').unwrap_or(&unit);
    let (letter, base) = match unit.strip_suffix('i') {
        Some(letter) => (letter, 1024u64),
        None => (unit, 1000),
    };
    let power = match letter {
        "" if base == 1000 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    Some(base.pow(power))
}

/// Parses digits, perhaps with a point and an exponent, and what `unit` understands. White space may stand between.
fn parse(text: &str, unit: fn(&str) -> Option<u64>) -> Result<u64, Wrong> {
    let (is_negative, text) = without_minus(text.trim());
    let (mantissa, rest) = split_at(text, |c| matches!(c, '0'..='9' | '_' | '.'));
    let (exponent, rest) = split_exponent(rest)?;
    let factor = unit(rest.trim_start()).ok_or(Wrong::NoNumber)?;
    let (digits, decimals) = digits(mantissa)?;
    if is_negative {
        return Err(Wrong::Negative);
    }
    let number = digits.checked_mul(factor.into()).ok_or(Wrong::TooLarge)?;
    scaled(number, exponent - decimals)
}

/// Whether a text begins with a minus, and what follows.
fn without_minus(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

fn split_at(text: &str, is_wanted: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !is_wanted(c)).unwrap_or(text.len()))
}

/// The power of ten that follows a number, if one does. It is more than any number can have where it is large.
fn split_exponent(text: &str) -> Result<(i64, &str), Wrong> {
    let Some(rest) = text.strip_prefix(['e', 'E']) else {
        return Ok((0, text));
    };
    let (is_negative, rest) = without_minus(rest);
    let rest = rest.strip_prefix('+').unwrap_or(rest);
    let (digits, rest) = split_at(rest, |c| c.is_ascii_digit());
    if digits.is_empty() {
        return Err(Wrong::NoNumber);
    }
    let exponent = digits.parse::<i64>().unwrap_or(i64::MAX).min(1_000);
    Ok((if is_negative { -exponent } else { exponent }, rest))
}

/// The digits of a number as a whole number, and how many of them follow the point.
fn digits(mantissa: &str) -> Result<(u128, i64), Wrong> {
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if mantissa.is_empty() || mantissa == "." || fraction.contains('.') {
        return Err(Wrong::NoNumber);
    }
    for group in [whole, fraction] {
        if group.starts_with('_') || group.ends_with('_') || group.contains("__") {
            return Err(Wrong::NoNumber);
        }
    }
    // Trailing zeros after the point change nothing, and might be too many for the type.
    let fraction = fraction.replace('_', "");
    let fraction = fraction.trim_end_matches('0');
    let digits = whole.replace('_', "") + fraction;
    let digits = if digits.is_empty() { "0" } else { &digits };
    let digits = digits.parse().map_err(|_| Wrong::TooLarge)?;
    Ok((digits, fraction.len() as i64))
}

/// A number times a power of ten, if it is whole.
fn scaled(number: u128, power: i64) -> Result<u64, Wrong> {
    if number == 0 {
        return Ok(0);
    }
    let ten = 10u128.checked_pow(power.unsigned_abs().min(1_000) as u32);
    let number = match (ten, power < 0) {
        (Some(ten), false) => number.checked_mul(ten).ok_or(Wrong::TooLarge)?,
        (Some(ten), true) if number.is_multiple_of(ten) => number / ten,
        (None, false) => return Err(Wrong::TooLarge),
        (_, true) => return Err(Wrong::NotWhole),
    };
    number.try_into().map_err(|_| Wrong::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_people_write_them() {
        for (text, value) in [
            ("0", 0),
            ("5000", 5_000),
            ("1_000_000", 1_000_000),
            ("10k", 10_000),
            ("100M", 100_000_000),
            ("1.5 G", 1_500_000_000),
            ("1e8", 100_000_000),
            ("2.5e+3", 2_500),
            ("1500e-2k", 15_000),
            (".5k", 500),
            ("1.000", 1),
            ("0e999", 0),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(count::<u64>(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn sizes_are_decimal_or_binary_and_without_a_unit_bytes() {
        for (text, value) in [
            ("4096", 4096),
            ("17 bytes", 17),
            ("512k", 512_000),
            ("1GB", 1_000_000_000),
            ("1gb", 1_000_000_000),
            ("64MiB", 64 << 20),
            ("64Mi", 64 << 20),
            ("1.5KiB", 1536),
            ("2 TB", 2_000_000_000_000),
            ("1e9", 1_000_000_000),
        ] {
            assert_eq!(bytes::<u64>(text), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_no_whole_number_is_refused_with_examples() {
        for text in [
            "", "k", "abc", "1..2", "1.2.3", "_1", "1_", "1__0", "1e", "10kk", "0x10", "1,000",
            "٣", "1GB",
        ] {
            assert_eq!(
                count::<u64>(text),
                Err(Wrong::NoNumber.message("number", COUNTS)),
                "{text}"
            );
        }
        for (text, wrong) in [
            ("-1", Wrong::Negative),
            ("-10k", Wrong::Negative),
            ("1.5", Wrong::NotWhole),
            ("1e-3", Wrong::NotWhole),
            ("18446744073709551616", Wrong::TooLarge),
            ("1e999999999999999999999", Wrong::TooLarge),
            (
                "99999999999999999999999999999999999999999999",
                Wrong::TooLarge,
            ),
            ("99999999T", Wrong::TooLarge),
        ] {
            assert_eq!(
                count::<u64>(text),
                Err(wrong.message("number", COUNTS)),
                "{text}"
            );
        }
        assert_eq!(
            count::<u8>("256"),
            Err(Wrong::TooLarge.message("number", COUNTS))
        );
        assert!(bytes::<u64>("1XB").is_err_and(|error| error.contains("64MiB")));
        assert!(bytes::<u64>("1iB").is_err());
        assert!(positive_count::<u64>("0").is_err_and(|error| error.contains("at least 1")));
    }

    #[test]
    fn numbers_are_told_with_commas_and_units() {
        for (count, told) in [
            (0, "0"),
            (999, "999"),
            (1_000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(told_count(count), told);
        }
        for (count, told) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1_500.0, "1.5 kB"),
            (2e9, "2.0 GB"),
        ] {
            assert_eq!(told_bytes(count), told);
        }
    }

    #[test]
    fn a_cache_is_a_size_or_a_share() {
        assert!(matches!(cache("1MiB"), Ok(Cache::Bytes(1_048_576))));
        assert!(matches!(cache("50%"), Ok(Cache::Share(share)) if share == 0.5));
        for text in ["101%", "-1%", "x%", "%", "much"] {
            assert!(cache(text).is_err(), "{text}");
        }
    }
}
