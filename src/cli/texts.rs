//! Texts by name, in a temporary file. In memory there are 16 bytes for each text, or up to twice that.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Seek, SeekFrom, Write};

/// Texts by name. If a name comes again, the last text counts.
///
/// The file is a row of entries: the place of the entry before with the same hash, the lengths of name and text
/// (8 bytes each, least significant first), the name and the text. It has no name itself, so nothing is left of it.
pub(super) struct Texts {
    file: File,
    /// The end of the file, without what is waiting.
    written: u64,
    /// Entries that are not in the file yet.
    waiting: Vec<u8>,
    /// The place of the last entry of each hash of a name.
    places: HashMap<u64, u64>,
    hasher: RandomState,
}

const HEAD: usize = 24;
const MOST_WAITING: usize = 1 << 20;
/// Before the first entry of a hash there is none.
const NOWHERE: u64 = u64::MAX;

impl Texts {
    /// No texts. The file is in the folder for temporary files of the system.
    pub(super) fn new() -> io::Result<Self> {
        let (hasher, waiting) = (RandomState::new(), Vec::new());
        Ok(Self {
            file: tempfile::tempfile()?,
            written: 0,
            waiting,
            places: HashMap::new(),
            hasher,
        })
    }

    pub(super) fn add(&mut self, name: &[u8], text: &str) -> io::Result<()> {
        let place = self.written + self.waiting.len() as u64;
        let before = self
            .places
            .insert(self.hasher.hash_one(name), place)
            .unwrap_or(NOWHERE);
        for number in [before, name.len() as u64, text.len() as u64] {
            self.waiting.extend_from_slice(&number.to_le_bytes());
        }
        self.waiting.extend_from_slice(name);
        self.waiting.extend_from_slice(text.as_bytes());
        if self.waiting.len() >= MOST_WAITING {
            self.write()
        } else {
            Ok(())
        }
    }

    pub(super) fn get(&mut self, name: &[u8]) -> io::Result<Option<String>> {
        let mut place = self
            .places
            .get(&self.hasher.hash_one(name))
            .copied()
            .unwrap_or(NOWHERE);
        if place == NOWHERE {
            return Ok(None);
        }
        self.write()?;
        while place != NOWHERE {
            self.file.seek(SeekFrom::Start(place))?;
            let mut head = [[0; 8]; HEAD / 8];
            self.file.read_exact(head.as_flattened_mut())?;
            let [before, name_length, text_length] = head.map(u64::from_le_bytes);
            if name_length == name.len() as u64 {
                let mut both = vec![0; (name_length + text_length) as usize];
                self.file.read_exact(&mut both)?;
                if both.starts_with(name) {
                    let text = String::from_utf8(both.split_off(name.len()));
                    return text.map(Some).map_err(io::Error::other);
                }
            }
            place = before;
        }
        Ok(None)
    }

    fn write(&mut self) -> io::Result<()> {
        if !self.waiting.is_empty() {
            self.file.seek(SeekFrom::Start(self.written))?;
            self.file.write_all(&self.waiting)?;
            self.written += self.waiting.len() as u64;
            self.waiting.clear();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_text_of_a_name_counts_and_hashes_may_be_equal() -> io::Result<()> {
        let mut texts = Texts::new()?;
        assert_eq!(texts.get(b"a")?, None);
        for (name, text) in [("a", "one"), ("b", ""), ("ab", "two"), ("a", "three")] {
            texts.add(name.as_bytes(), text)?;
        }
        // As if all names had the hash of `c`: each entry leads to the one before.
        let place = texts.places[&texts.hasher.hash_one(b"ab".as_slice())];
        texts
            .places
            .insert(texts.hasher.hash_one(b"c".as_slice()), place);
        texts.add(b"c", &"long ".repeat(MOST_WAITING / 4))?;
        assert_eq!(texts.get(b"a")?.as_deref(), Some("three"));
        assert_eq!(texts.get(b"b")?.as_deref(), Some(""));
        assert_eq!(
            texts.get(b"c")?.map(|it| it.len()),
            Some(MOST_WAITING / 4 * 5)
        );
        texts.places.clear();
        texts
            .places
            .insert(texts.hasher.hash_one(b"a".as_slice()), 0);
        assert_eq!(
            (texts.get(b"a")?.as_deref(), texts.get(b"b")?),
            (Some("one"), None)
        );
        Ok(())
    }
}
