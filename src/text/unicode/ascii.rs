//! Runs of ASCII letters and digits, eight bytes at a time.

/// How many bytes from the first one on are ASCII letters and digits.
///
/// The plain algorithm tests byte after byte. But a word ends at a place that the processor cannot foresee,
/// so that costs more than to test eight bytes together.
pub(super) fn alphanumeric_run(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        let rest = &bytes[length..];
        let eight = rest.first_chunk::<8>().copied().unwrap_or_else(|| {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            padded
        });
        let inside = (!alphanumeric(u64::from_le_bytes(eight)) & HIGH).trailing_zeros() / 8;
        length += inside as usize;
        if inside < 8 {
            return length;
        }
    }
}

/// The highest bit of each of eight bytes.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Eight bytes at once: the highest bit of each tells whether it is an ASCII letter or digit.
const fn alphanumeric(bytes: u64) -> u64 {
    const fn each(byte: u8) -> u64 {
        u64::from_le_bytes([byte; 8])
    }
    const fn is_least(bytes: u64, least: u8) -> u64 {
        bytes + each(0x80 - least)
    }
    // Bytes without their highest bit do not carry into one another when a number below 128 is added.
    let low = bytes & !HIGH;
    let lower = low | each(0x20);
    let letter = is_least(lower, b'a') & !is_least(lower, b'z' + 1);
    let digit = is_least(low, b'0') & !is_least(low, b'9' + 1);
    (letter | digit) & !bytes & HIGH
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_is_what_it_is_in_each_place() {
        for byte in 0..=u8::MAX {
            for place in 0..8 {
                for others in [b'a', b' ', 0xFF, 0] {
                    let mut bytes = [others; 8];
                    bytes[place] = byte;
                    let expected = bytes.map(|byte| {
                        if byte.is_ascii_alphanumeric() {
                            0x80
                        } else {
                            0
                        }
                    });
                    assert_eq!(
                        alphanumeric(u64::from_le_bytes(bytes)),
                        u64::from_le_bytes(expected),
                        "{bytes:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn runs_of_every_length_end_where_they_end() {
        for length in 0..40 {
            for letter in ["x", "7"] {
                for behind in ["", " ", " ab", "é", ".aaaaaaaaaaaa", "_"] {
                    let run =
                        alphanumeric_run(format!("{}{behind}", letter.repeat(length)).as_bytes());
                    assert_eq!(run, length, "{letter:?} {behind:?}");
                }
            }
        }
    }
}
