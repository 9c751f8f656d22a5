//! The bytes of an input as it is stored.

use std::io::{self, BufRead, BufReader, Read};

/// An input as it is stored.
pub(super) type Stored = Box<dyn Read + Send>;

/// The bytes of an input as it is stored. Counts those that were used, and can go back over the last of them.
pub(super) struct StoredBytes {
    reader: BufReader<Stored>,
    /// Bytes that were looked at, and are used again.
    head: Vec<u8>,
    head_used: usize,
    /// The offset of the next byte.
    pub(super) at: u64,
    /// Whether reading has failed.
    pub(super) has_failed: bool,
    /// The last bytes that were used, if they are kept.
    kept: Option<Vec<u8>>,
    /// The number of bytes that were gone back over.
    gone_back: u64,
}

/// The most bytes that can be gone back over at once. A decoder notices damage within a few blocks of some ten thousand
/// bytes.
const MOST_KEPT: usize = 1 << 20;
/// What may be gone back over in all, beyond as many bytes as were read. So time stays linear.
const MOST_GONE_BACK: u64 = 16 << 20;

impl StoredBytes {
    pub(super) fn new(stored: Stored, at: u64) -> Self {
        let reader = BufReader::with_capacity(128 << 10, stored);
        Self {
            reader,
            head: Vec::new(),
            head_used: 0,
            at,
            has_failed: false,
            kept: None,
            gone_back: 0,
        }
    }

    /// The next bytes: at least `length`, unless the input ends before.
    pub(super) fn peek(&mut self, length: usize) -> io::Result<&[u8]> {
        if self.head_used == self.head.len() && self.reader.buffer().len() >= length {
            return Ok(self.reader.buffer());
        }
        while self.head.len() - self.head_used < length {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer.inspect_err(|_| self.has_failed = true)?,
            };
            if buffer.is_empty() {
                break;
            }
            self.head.extend_from_slice(buffer);
            let used = buffer.len();
            self.reader.consume(used);
        }
        Ok(&self.head[self.head_used..])
    }

    /// Keeps what is used from here on, to go back over.
    pub(super) fn keep_from_here(&mut self) {
        self.kept.get_or_insert_default().clear();
    }

    /// Goes back to an offset, or as far as bytes are kept.
    pub(super) fn go_back_to(&mut self, offset: u64) {
        let Some(kept) = self.kept.take() else { return };
        let bytes = self.at.saturating_sub(offset).min(kept.len() as u64);
        if self.gone_back + bytes > self.at + MOST_GONE_BACK {
            return;
        }
        self.gone_back += bytes;
        self.at -= bytes;
        let mut head = kept[kept.len() - bytes as usize..].to_vec();
        head.extend_from_slice(&self.head[self.head_used..]);
        (self.head, self.head_used) = (head, 0);
    }
}

impl BufRead for StoredBytes {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.head_used < self.head.len() {
            Ok(&self.head[self.head_used..])
        } else {
            let is_failure = |error: &io::Error| error.kind() != io::ErrorKind::Interrupted;
            self.reader
                .fill_buf()
                .inspect_err(|error| self.has_failed |= is_failure(error))
        }
    }

    fn consume(&mut self, length: usize) {
        let is_in_head = self.head_used < self.head.len();
        if let Some(kept) = &mut self.kept {
            let next = if is_in_head {
                &self.head[self.head_used..]
            } else {
                self.reader.buffer()
            };
            kept.extend_from_slice(&next[..length]);
            if kept.len() > 2 * MOST_KEPT {
                kept.drain(..kept.len() - MOST_KEPT);
            }
        }
        self.at += length as u64;
        if !is_in_head {
            return self.reader.consume(length);
        }
        self.head_used += length;
        if self.head_used == self.head.len() {
            (self.head, self.head_used) = (Vec::new(), 0);
        }
    }
}

impl Read for StoredBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_can_be_gone_back_over() -> io::Result<()> {
        let text: Vec<u8> = (0..200_000u32).flat_map(u32::to_le_bytes).collect();
        let mut stored = StoredBytes::new(Box::new(io::Cursor::new(text.clone())), 0);
        io::copy(&mut (&mut stored).take(1_000), &mut io::sink())?;
        stored.keep_from_here();
        stored.peek(300_000)?;
        io::copy(&mut (&mut stored).take(500_000), &mut io::sink())?;
        stored.go_back_to(77_777);
        assert_eq!(stored.at, 77_777);
        let mut rest = Vec::new();
        stored.read_to_end(&mut rest)?;
        assert!(rest == text[77_777..]);
        // Nothing was kept before the place where that was asked for.
        let mut stored = StoredBytes::new(Box::new(io::Cursor::new(text)), 0);
        io::copy(&mut (&mut stored).take(1_000), &mut io::sink())?;
        stored.keep_from_here();
        io::copy(&mut (&mut stored).take(10), &mut io::sink())?;
        stored.go_back_to(0);
        assert_eq!(stored.at, 1_000);
        Ok(())
    }
}
