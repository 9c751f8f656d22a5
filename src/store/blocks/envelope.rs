//! The envelope around stored values, and the one place that names bincode.
//!
//! An envelope is a checksum (8 bytes), a kind and a version (1 byte each), and the body. The checksum is
//! the xxh3 of all bytes after it. Its seed depends on the row that the value belongs to, and on the file.
//! So a value of another row or of another file is found as surely as a flipped bit. Blocks are the only
//! values without an envelope.

use std::hash::{BuildHasher, RandomState};

use bincode::config::{self, Config};
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::planted::planted;

/// The kind of a stored value. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Format = 2,
    Settings = 3,
    State = 4,
    Scope = 5,
    Chunk = 6,
    Log = 7,
    Summary = 8,
    Source = 9,
}

/// The version of every kind of value. It is part of the format.
const VERSION: u8 = 1;

const CHECKSUM_BYTES: usize = 8;
pub(crate) const HEADER_BYTES: usize = CHECKSUM_BYTES + 2;

/// The most bytes that are decoded. Without it, a damaged length could ask for all memory.
const BYTE_LIMIT: usize = 1 << 20;

/// What is wrong with a stored value.
pub(crate) type Problem = &'static str;

/// A random number of a file. It is part of every checksum of the file, so a page of another file is
/// refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileSeed(pub(in crate::store) u64);

impl FileSeed {
    /// The seed of the value that tells the seed of the file.
    pub(crate) const NONE: Self = Self(0);

    /// The seed of a new file.
    pub(crate) fn random() -> Self {
        // The standard library seeds its hash maps from the system's randomness.
        Self(RandomState::new().hash_one(0))
    }

    /// A seed that is the same in each run.
    #[cfg(test)]
    pub(crate) const fn fixed(seed: u64) -> Self {
        Self(seed)
    }

    /// The checksum of a block.
    pub(crate) fn checksum(self, block: &[u8]) -> u64 {
        xxh3_64_with_seed(block, self.0)
    }

    /// The seed for the value in a row.
    fn of_row(self, row: &[u8]) -> u64 {
        xxh3_64_with_seed(row, self.0)
    }
}

/// An envelope around the body that `write` appends, for the row with the key `row`.
pub(crate) fn seal(
    kind: Kind,
    file: FileSeed,
    row: &[u8],
    write: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut bytes = vec![0; CHECKSUM_BYTES];
    bytes.extend([kind as u8, VERSION]);
    write(&mut bytes);
    let checksum = xxh3_64_with_seed(&bytes[CHECKSUM_BYTES..], file.of_row(row));
    bytes[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The checksum at the beginning of an envelope.
pub(crate) fn sealed_checksum(envelope: &[u8]) -> u64 {
    envelope
        .first_chunk()
        .map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// The part of some envelopes in a sum that the state record has: the checksum of each, and one.
pub(crate) fn share_of_sum<'a>(envelopes: impl IntoIterator<Item = &'a [u8]>) -> u64 {
    let mut sum = 0u64;
    for envelope in envelopes {
        sum = sum.wrapping_add(sealed_checksum(envelope)).wrapping_add(1);
    }
    sum
}

/// The body of an envelope, after a check of its checksum, kind and version.
pub(crate) fn unseal<'a>(
    kind: Kind,
    file: FileSeed,
    row: &[u8],
    bytes: &'a [u8],
) -> Result<&'a [u8], Problem> {
    let (header, body) = bytes
        .split_at_checked(HEADER_BYTES)
        .ok_or("shorter than its header")?;
    let (checksum, header) = header.split_at(CHECKSUM_BYTES);
    let found = xxh3_64_with_seed(&bytes[CHECKSUM_BYTES..], file.of_row(row));
    if found.to_le_bytes() != checksum && !planted("the checksum of a record is not compared") {
        return Err("its checksum is wrong");
    }
    match header {
        [found, VERSION] if *found == kind as u8 => Ok(body),
        [_, VERSION] => Err("another kind of value was expected"),
        _ => Err("it has a version this release does not know"),
    }
}

/// Appends `value` in bincode's legacy encoding: fixed-width little-endian numbers, lengths as 64 bits.
pub(crate) fn encode(value: &impl Serialize, bytes: &mut Vec<u8>) {
    append(value, fixed(), bytes);
}

/// Reads back a value that [`encode`] wrote. The value must take all bytes.
pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    whole(bytes, fixed())
}

/// As [`encode`], but small numbers take few bytes: bincode's encoding of numbers of any width.
pub(crate) fn encode_short(value: &impl Serialize, bytes: &mut Vec<u8>) {
    append(value, short(), bytes);
}

/// Reads back a value that [`encode_short`] wrote. The value must take all bytes.
pub(crate) fn decode_short<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    whole(bytes, short())
}

fn fixed() -> impl Config {
    config::legacy().with_limit::<BYTE_LIMIT>()
}

fn short() -> impl Config {
    config::legacy()
        .with_variable_int_encoding()
        .with_limit::<BYTE_LIMIT>()
}

fn append(value: &impl Serialize, config: impl Config, bytes: &mut Vec<u8>) {
    bincode::serde::encode_into_std_write(value, bytes, config).expect(
        "values are plain data far below the limit, and memory does not fail to be written",
    );
}

fn whole<'a, T: Deserialize<'a>>(bytes: &'a [u8], config: impl Config) -> Result<T, Problem> {
    match bincode::serde::borrow_decode_from_slice(bytes, config) {
        Ok((value, used)) if used == bytes.len() => Ok(value),
        Ok(_) => Err("bytes are left over"),
        Err(_) => Err("it cannot be decoded"),
    }
}

/// Fixed-width fields read one after the other.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    /// The next `N` bytes.
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Problem> {
        let (field, rest) = self.0.split_first_chunk().ok_or("it is too short")?;
        self.0 = rest;
        Ok(*field)
    }

    /// The next `length` bytes.
    pub(crate) fn take_slice(&mut self, length: usize) -> Result<&'a [u8], Problem> {
        self.0.split_off(..length).ok_or("it is too short")
    }

    /// Refuses bytes that are left over.
    pub(crate) fn finish(self) -> Result<(), Problem> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err("bytes are left over")
        }
    }
}

/// The bytes of an example in docs/format.md. Its lines have up to 16 bytes in hexadecimal, then `;` and
/// their meaning.
#[cfg(test)]
pub(crate) fn worked_example(name: &str) -> Vec<u8> {
    let description = include_str!("../../../docs/format.md");
    let example = description
        .split(&format!("<!-- example: {name} -->"))
        .nth(1)
        .expect("the example is there");
    let code = example
        .split("```")
        .nth(1)
        .expect("an example is a code block");
    let bytes = code
        .lines()
        .skip(1)
        .flat_map(|line| line.split(';').next().unwrap_or("").split_whitespace());
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).expect("bytes are in hexadecimal"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_bytes_of_the_bincode_encoding() {
        let mut bytes = Vec::new();
        encode(&(vec![-2i64], "é", vec![7u8, 8], 3u32), &mut bytes);
        let expected = [
            &[1, 0, 0, 0, 0, 0, 0, 0][..], // length of the list
            &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff][..], // -2
            &[2, 0, 0, 0, 0, 0, 0, 0, 0xc3, 0xa9][..], // é
            &[2, 0, 0, 0, 0, 0, 0, 0, 7, 8][..],
            &[3, 0, 0, 0][..],
        ];
        assert_eq!(bytes, expected.concat());
        type Decoded = (Vec<i64>, String, Vec<u8>, u32);
        assert_eq!(
            decode::<Decoded>(&bytes),
            Ok((vec![-2], "é".to_owned(), vec![7, 8], 3))
        );
    }

    #[test]
    fn what_does_not_decode_wholly_is_refused() {
        let mut bytes = Vec::new();
        encode(&"text", &mut bytes);
        assert!(decode::<String>(&bytes[..bytes.len() - 1]).is_err());
        bytes.push(0);
        assert_eq!(decode::<String>(&bytes), Err("bytes are left over"));
        // A length of 2^62 must not be believed.
        assert!(decode::<Vec<u8>>(&(1u64 << 62).to_le_bytes()).is_err());
    }

    #[test]
    fn a_flip_of_any_bit_another_row_and_another_file_are_found() {
        let file = FileSeed(7);
        let sealed = seal(Kind::Scope, file, b"en", |bytes| bytes.extend(b"body"));
        assert_eq!(unseal(Kind::Scope, file, b"en", &sealed), Ok(&b"body"[..]));
        assert!(unseal(Kind::Scope, file, b"de", &sealed).is_err());
        assert!(unseal(Kind::Scope, FileSeed(8), b"en", &sealed).is_err());
        assert!(unseal(Kind::Format, file, b"en", &sealed).is_err());
        assert!(unseal(Kind::Scope, file, b"en", &sealed[..9]).is_err());
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(
                unseal(Kind::Scope, file, b"en", &flipped).is_err(),
                "bit {bit}"
            );
        }
    }
}
