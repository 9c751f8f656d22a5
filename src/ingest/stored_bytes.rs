//! The bytes of an input as it is stored.

use std::io::{self, BufRead, BufReader, Read};

/// An input as it is stored.
pub(super) type Stored = Box<dyn Read + Send>;

/// The bytes of an input as it is stored. Counts those that were used.
pub(super) struct StoredBytes {
    reader: BufReader<Stored>,
    /// Bytes that were looked at, and are used again.
    head: Vec<u8>,
    head_used: usize,
    /// The offset of the next byte.
    pub(super) at: u64,
}

impl StoredBytes {
    pub(super) fn new(stored: Stored, at: u64) -> Self {
        Self { reader: BufReader::with_capacity(128 << 10, stored), head: Vec::new(), head_used: 0, at }
    }

    /// The next bytes: at least `length`, unless the input ends before.
    pub(super) fn peek(&mut self, length: usize) -> io::Result<&[u8]> {
        if self.head_used == self.head.len() && self.reader.buffer().len() >= length {
            return Ok(self.reader.buffer());
        }
        while self.head.len() - self.head_used < length {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
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
}

impl BufRead for StoredBytes {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.head_used < self.head.len() {
            Ok(&self.head[self.head_used..])
        } else {
            self.reader.fill_buf()
        }
    }

    fn consume(&mut self, length: usize) {
        self.at += length as u64;
        if self.head_used == self.head.len() {
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
