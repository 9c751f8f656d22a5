//! Documents that are named by the places of their records, so that records of one key stay apart.

use crate::document::Document;

/// Where a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordId {
    /// The index of its input.
    pub(crate) input: u32,
    /// Its line, from 1. Of an input that is not cut into lines, its number among the records.
    pub(crate) number: u64,
}

/// What the key of a numbered document says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NumberedKey<'k> {
    pub(crate) id: RecordId,
    /// The hash of a text that is too short to judge, or of every text where records are to be known again. By it,
    /// texts that are the same are found.
    pub(crate) text: Option<u128>,
    /// The key that the record itself has, unless it has more than [`MAX_KEY_BYTES`](Self::MAX_KEY_BYTES).
    pub(crate) key: Option<&'k [u8]>,
}

const HAS_KEY: u8 = 1;
const HAS_TEXT: u8 = 2;
/// There is only the length of the key, for which there is no room.
const HAS_LENGTH: u8 = 4;

impl RecordId {
    /// The size of the bytes of a place.
    pub(crate) const BYTES: usize = 12;
}

impl From<RecordId> for [u8; RecordId::BYTES] {
    fn from(id: RecordId) -> Self {
        let mut bytes = [0; RecordId::BYTES];
        bytes[..4].copy_from_slice(&id.input.to_le_bytes());
        bytes[4..].copy_from_slice(&id.number.to_le_bytes());
        bytes
    }
}

impl From<&[u8; Self::BYTES]> for RecordId {
    fn from(bytes: &[u8; Self::BYTES]) -> Self {
        let &[a, b, c, d, ref number @ ..] = bytes;
        Self {
            input: u32::from_le_bytes([a, b, c, d]),
            number: u64::from_le_bytes(*number),
        }
    }
}

impl<'k> NumberedKey<'k> {
    /// The longest key for which there is room behind the rest.
    const MAX_KEY_BYTES: usize = Document::MAX_KEY_BYTES - RecordId::BYTES - 1 - size_of::<u128>();

    /// What the bytes say. `None` if they are not those of such a key.
    pub(crate) fn of_bytes(bytes: &'k [u8]) -> Option<Self> {
        Self::parts(bytes).map(|(numbered, _)| numbered)
    }

    /// The length of the key of the record, if it has one, and be there room for it or not.
    pub(crate) fn length_of_key(bytes: &[u8]) -> Option<u32> {
        let (numbered, length) = NumberedKey::parts(bytes)?;
        numbered.key.map(|key| key.len() as u32).or(length)
    }

    /// What the bytes say, and the length of a key for which there was no room.
    fn parts(bytes: &'k [u8]) -> Option<(Self, Option<u32>)> {
        let (id, rest) = bytes.split_first_chunk()?;
        let (&flags, mut rest) = rest.split_first()?;
        let mut text = None;
        if flags & HAS_TEXT != 0 {
            let (hash, key) = rest.split_first_chunk()?;
            text = Some(u128::from_le_bytes(*hash));
            rest = key;
        }
        let length = match rest.split_first_chunk() {
            Some((length, _)) if flags & HAS_LENGTH != 0 => Some(u32::from_le_bytes(*length)),
            _ => None,
        };
        let numbered = Self {
            id: RecordId::from(id),
            text,
            key: (flags & HAS_KEY != 0).then_some(rest),
        };
        Some((numbered, length))
    }
}

impl From<NumberedKey<'_>> for Vec<u8> {
    fn from(numbered: NumberedKey<'_>) -> Self {
        // As with JSON Lines, an empty key is none.
        let own_key = numbered.key.filter(|key| !key.is_empty());
        let length = own_key
            .map(|key| key.len() as u32)
            .unwrap_or_default()
            .to_le_bytes();
        let (flag, key) = match own_key {
            Some(key) if key.len() <= NumberedKey::MAX_KEY_BYTES => (HAS_KEY, key),
            Some(_) => (HAS_LENGTH, &length[..]),
            None => (0, &[][..]),
        };
        let mut flags = flag;
        if numbered.text.is_some() {
            flags |= HAS_TEXT;
        }
        let mut bytes = <[u8; RecordId::BYTES]>::from(numbered.id).to_vec();
        bytes.push(flags);
        if let Some(text) = numbered.text {
            bytes.extend(text.to_le_bytes());
        }
        bytes.extend(key);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_were_made() {
        for (input, number) in [
            (0, 1),
            (0, 255),
            (0, 256),
            (1, 1),
            (256, 0),
            (u32::MAX, u64::MAX),
        ] {
            let id = RecordId { input, number };
            for (text, key) in [
                (None, None),
                (None, Some(&b"a"[..])),
                (Some(7), None),
                (Some(u128::MAX), Some(b"k")),
            ] {
                let numbered = NumberedKey { id, text, key };
                let bytes = Vec::from(numbered);
                assert_eq!(NumberedKey::of_bytes(&bytes), Some(numbered));
            }
        }
        assert_eq!(NumberedKey::of_bytes(b"short"), None);
    }

    /// Of a key for which there is no room, and of one that is not there, nothing told which is longer.
    #[test]
    fn the_length_of_a_key_is_known_be_there_room_for_it_or_not() {
        let id = RecordId {
            input: 3,
            number: 9,
        };
        for text in [None, Some(7)] {
            for length in [
                Some(0),
                Some(1),
                Some(4_067),
                Some(4_068),
                Some(70_000),
                None,
            ] {
                let key = length.map(|length| vec![b'k'; length]);
                let key = key.as_deref();
                let bytes = Vec::from(NumberedKey { id, text, key });
                assert!(bytes.len() <= Document::MAX_KEY_BYTES);
                let known = NumberedKey::length_of_key(&bytes);
                let length = length.filter(|&length| length > 0);
                assert_eq!(known.map(|known| known as usize), length);
                let read = NumberedKey::of_bytes(&bytes).expect("it is one");
                assert_eq!((read.id, read.text), (id, text));
                let is_read = |key: &&[u8]| (1..=4_067).contains(&key.len());
                assert_eq!(read.key, key.filter(is_read));
            }
        }
    }
}
