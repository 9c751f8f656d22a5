//! Runs of ASCII letters, digits and underscores, eight bytes at a time.

/// Whether a byte is an ASCII letter, digit or underscore. None of these is cut off behind another.
pub(super) const fn is_core(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// How many bytes from the first one on are core, and whether one of them is no underscore.
///
/// The plain algorithm tests byte after byte. But a word ends at a place that the processor cannot foresee,
/// so that costs more than to test eight bytes together.
pub(super) fn core_run(bytes: &[u8]) -> (usize, bool) {
    let (mut length, mut is_word) = (0, false);
    loop {
        let rest = &bytes[length..];
        let eight = rest.first_chunk::<8>().copied().unwrap_or_else(|| {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            padded
        });
        let (alphanumeric, core) = core_bytes(u64::from_le_bytes(eight));
        let inside = (!core & HIGH).trailing_zeros() / 8;
        length += inside as usize;
        is_word |= alphanumeric & !u64::MAX.checked_shl(8 * inside).unwrap_or(0) != 0;
        if inside < 8 {
            return (length, is_word);
        }
    }
}

/// The highest bit of each of eight bytes.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Eight bytes at once: the highest bit of each tells whether it is an ASCII letter or digit, and in the
/// second number whether it is one of these or an underscore.
const fn core_bytes(bytes: u64) -> (u64, u64) {
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
    let underscore = !((low ^ each(b'_')) + each(0x7F));
    let ascii = !bytes & HIGH;
    ((letter | digit) & ascii, (letter | digit | underscore) & ascii)
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
                    let highest = |is: fn(u8) -> bool| {
                        u64::from_le_bytes(bytes.map(|byte| if is(byte) { 0x80 } else { 0 }))
                    };
                    let expected = (highest(|byte| byte.is_ascii_alphanumeric()), highest(is_core));
                    assert_eq!(core_bytes(u64::from_le_bytes(bytes)), expected, "{bytes:?}");
                }
            }
        }
    }

    #[test]
    fn runs_of_every_length_end_where_they_end() {
        for length in 0..40 {
            for (letter, is_word) in [("x", true), ("7", true), ("_", false)] {
                for behind in ["", " ", " ab", "é", ".aaaaaaaaaaaa"] {
                    let run = core_run(format!("{}{behind}", letter.repeat(length)).as_bytes());
                    assert_eq!(run, (length, is_word && length > 0), "{length} {letter:?} {behind:?}");
                }
            }
        }
    }
}
