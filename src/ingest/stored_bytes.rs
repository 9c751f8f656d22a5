//! The bytes of an input as it is stored: those of a file, a pipe or standard input. Counts how many were read, and
//! reads until nobody wants the rest, also while a pipe brings nothing for now.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(unix)]
use std::time::Duration;

use crate::database::SharedFn;
use crate::error::{Error, Result};

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
        self.head = head;
        self.head_used = 0;
    }
}

impl BufRead for StoredBytes {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.head_used < self.head.len() {
            Ok(&self.head[self.head_used..])
        } else {
            self.reader.fill_buf().inspect_err(|error| {
                self.has_failed |= error.kind() != io::ErrorKind::Interrupted;
            })
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
            self.head = Vec::new();
            self.head_used = 0;
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

/// The progress of reading. Clones share the count.
///
/// # Example
///
/// ```
/// use simdb::ingest::{ReadOptions, Record, Records, Rejected};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("pages.tsv");
///
/// std::fs::write(&path, "a\tone page\n")?;
/// let mut records = Records::open([&path], ReadOptions::new())?;
/// let progress = records.progress();
/// assert_eq!((progress.bytes_read(), progress.bytes_total()), (0, Some(11)));
/// while !records.next_chunk(Ok::<Record, Rejected>)?.is_empty() {}
/// assert_eq!(progress.bytes_read(), 11);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Progress {
    read: Arc<AtomicU64>,
    total: Option<u64>,
}

impl Progress {
    /// Nothing is read yet. `total` is the number of bytes in all, if it is known.
    pub(super) fn new(total: Option<u64>) -> Self {
        Self {
            read: Arc::default(),
            total,
        }
    }

    /// Returns a reader that counts the bytes read from `inner`.
    pub(super) fn count(&self, inner: Stored) -> Stored {
        Box::new(Counted {
            inner,
            read: self.read.clone(),
        })
    }

    /// All is to be read again.
    pub(super) fn begin_again(&self) {
        self.read.store(0, Ordering::Relaxed);
    }

    /// Counts bytes that are not read because they were read before.
    pub(crate) fn pass_over(&self, bytes: u64) {
        self.read.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The number of bytes read so far. Of a compressed input, its compressed bytes count.
    pub fn bytes_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// The number of bytes in all inputs. `None` if it is not known, as with standard input.
    pub fn bytes_total(&self) -> Option<u64> {
        self.total
    }
}

/// A reader that counts the bytes read through it.
struct Counted {
    inner: Stored,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.read.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Says whether nobody wants the rest. The default never does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Stop(Option<SharedFn<dyn Fn() -> bool + Send + Sync>>);

/// How often a pipe that brings nothing is left to ask.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(50);

impl Stop {
    pub(crate) fn when(stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(SharedFn(Arc::new(stop))))
    }

    pub(crate) fn is_asked(&self) -> bool {
        match &self.0 {
            Some(stop) => stop(),
            None => false,
        }
    }

    /// Refuses to go on if nobody wants the rest.
    pub(crate) fn ensure_wanted(&self) -> Result<()> {
        if self.is_asked() {
            Err(Error::Interrupted)
        } else {
            Ok(())
        }
    }

    /// Opens a file to read it. If it is a pipe to which nobody writes yet, this waits for nobody.
    pub(crate) fn open(&self, place: &Path) -> io::Result<File> {
        let mut options = File::options();
        options.read(true);
        // Elsewhere a pipe that was opened so has ended before anybody writes to it.
        #[cfg(target_os = "linux")]
        if self.0.is_some() {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        }
        options.open(place)
    }

    /// The content of a file, until nobody wants the rest.
    pub(super) fn content(&self, file: File) -> Stored {
        if self.0.is_none() {
            return Box::new(file);
        }
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Box::new(Stoppable {
            file,
            waits: !is_file,
            stop: self.clone(),
        })
    }

    /// The standard input of the process, until nobody wants the rest.
    pub(super) fn standard_input(&self) -> Stored {
        #[cfg(unix)]
        if self.0.is_some() {
            use std::os::fd::AsFd as _;
            if let Ok(handle) = io::stdin().as_fd().try_clone_to_owned() {
                return self.content(handle.into());
            }
        }
        Box::new(io::stdin())
    }
}

/// A file that is read until nobody wants the rest.
struct Stoppable {
    file: File,
    /// Whether the next bytes may have to be waited for.
    waits: bool,
    stop: Stop,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.is_asked() {
                return Err(io::Error::other("nobody wants the rest"));
            }
            if self.waits && !has_some(&self.file)? {
                continue;
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Waits a moment for bytes or the end.
#[cfg(unix)]
fn has_some(file: &File) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.as_nanos() as i64,
    };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&look)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn has_some(_: &File) -> io::Result<bool> {
    Ok(true)
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
