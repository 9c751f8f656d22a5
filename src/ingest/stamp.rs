//! By what a file is known again as it is stored, without unpacking it: the hash of samples, that of all bytes, and the
//! times of its last change.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use xxhash_rust::xxh3::Xxh3;

use super::options::ReadOptions;
use super::stored_bytes::Stored;
use crate::source::{Identity, Stamp};

/// The bytes of a sample, and the number of samples of a file. A file with no more bytes than that is read whole.
const SAMPLE_BYTES: u64 = 4096;
const SAMPLES: u64 = 16;

/// A file that was changed a moment ago may change again without another time. File systems count in steps: 4 to 10 ms
/// are usual.
const MOMENT_NANOS: i64 = 100_000_000;

/// Whether the samples of a file of this length are all of it.
fn are_samples_all(length: u64) -> bool {
    length <= SAMPLE_BYTES * SAMPLES
}

/// The hash of samples of the first `length` bytes of a file: the first and the last ones, and others between them, at
/// equal distances. Leaves the file at its beginning.
fn samples_of(mut file: &File, length: u64) -> io::Result<u64> {
    let mut hash = Xxh3::new();
    hash.update(&length.to_le_bytes());
    if are_samples_all(length) {
        let mut buffer = vec![0; length as usize];
        file.rewind()?;
        file.read_exact(&mut buffer)?;
        hash.update(&buffer);
    } else {
        let mut buffer = [0; SAMPLE_BYTES as usize];
        for number in 0..SAMPLES {
            let all = u128::from(length - SAMPLE_BYTES) * u128::from(number);
            let at = (all / u128::from(SAMPLES - 1)) as u64;
            file.seek(SeekFrom::Start(at))?;
            file.read_exact(&mut buffer)?;
            hash.update(&buffer);
        }
    }
    file.rewind()?;
    Ok(hash.digest())
}

/// The times of the last change: of the content, and, where there is one, of the entry. The latter cannot be set back.
/// `None` if that was a moment ago.
fn times_of(metadata: &Metadata) -> Option<[i64; 2]> {
    let modified = nanos_of(metadata.modified().ok()?);
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt as _;
        metadata
            .ctime()
            .saturating_mul(1_000_000_000)
            .saturating_add(metadata.ctime_nsec())
    };
    #[cfg(not(unix))]
    let changed = modified;
    // A clock may be set to any time.
    let ago = nanos_of(SystemTime::now()).saturating_sub(changed);
    (ago > MOMENT_NANOS).then_some([modified, changed])
}

/// The nanoseconds since 1970.
fn nanos_of(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => after.as_nanos() as i64,
        Err(before) => (before.duration().as_nanos() as i64).wrapping_neg(),
    }
}

/// A file that is read.
pub(super) struct OpenedFile {
    file: File,
    /// What it was when it was opened.
    stamp: Stamp,
    /// What was read of it from its beginning.
    whole: Whole,
}

impl OpenedFile {
    /// A file that is about to be read from its beginning or from a later place. `None` if it is no file.
    pub(super) fn new(file: &File, metadata: &Metadata) -> io::Result<Option<Self>> {
        if !metadata.is_file() {
            return Ok(None);
        }
        let stamp = Stamp {
            samples: samples_of(file, metadata.len())?,
            whole: None,
            times: times_of(metadata),
        };
        Ok(Some(Self {
            file: file.try_clone()?,
            stamp,
            whole: Whole::default(),
        }))
    }

    /// A reader of the file, of which the hash is taken of what is read through `inner`.
    pub(super) fn hash(&self, inner: Stored) -> Stored {
        Box::new(Hashed {
            inner,
            whole: self.whole.clone(),
        })
    }

    pub(super) fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// The stamp once it was read to its end, which is at `length`.
    pub(super) fn stamp_at_end(&self, length: u64) -> Option<Stamp> {
        let before = self.stamp;
        let times = times_of(&self.file.metadata().ok()?);
        let is_same = times.is_some() && times == before.times;
        let samples = if is_same {
            before.samples
        } else {
            samples_of(&self.file, length).ok()?
        };
        // If it was changed while it was read, only the hash of what was read counts.
        let times = times.filter(|_| is_same || before.times.is_none());
        Some(Stamp {
            samples,
            whole: self.whole.hash_of(length),
            times,
        })
    }
}

/// How the content of an input stands to what was read of it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is the same.
    Same,
    /// It has become longer.
    Grown,
    /// It is another content.
    Changed,
    /// That shows when it is read, since it can be read only once.
    Unknown,
}

/// How a file stands to what was read of it, by its bytes as they are stored.
pub(super) fn standing_of(
    path: &Path,
    options: &ReadOptions,
    identity: &Identity,
    has_ended: bool,
) -> io::Result<Standing> {
    let place = options.place_of(path);
    let file = options.stop.open(&place)?;
    let metadata = file.metadata()?;
    let (Some(before), Some(stamp)) = (identity.length, identity.stamp) else {
        return Ok(Standing::Changed);
    };
    if metadata.len() < before || samples_of(&file, before)? != stamp.samples {
        return Ok(Standing::Changed);
    }
    if metadata.len() > before {
        return Ok(Standing::Grown);
    }
    let is_untouched = stamp.times.is_none() || stamp.times == times_of(&metadata);
    let is_same = match stamp.whole {
        _ if are_samples_all(before) => true,
        _ if is_untouched && stamp.times.is_some() => true,
        Some(whole) => {
            let mut read = Whole::default();
            io::copy(&mut options.stop.content(file), &mut read)?;
            read.hash_of(before) == Some(whole)
        }
        // Of what was not read to its end, the place is looked at when reading goes on there.
        None => is_untouched || !has_ended,
    };
    Ok(if is_same {
        Standing::Same
    } else {
        Standing::Changed
    })
}

/// The hash of all bytes that were read of a file. Clones share it.
#[derive(Clone, Default)]
struct Whole(Arc<Mutex<(Xxh3, u64)>>);

impl Whole {
    /// The hash, if so many bytes were read.
    fn hash_of(&self, length: u64) -> Option<u64> {
        let whole = self.0.lock();
        (whole.1 == length).then(|| whole.0.digest())
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut whole = self.0.lock();
        whole.0.update(bytes);
        whole.1 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Hashed {
    inner: Stored,
    whole: Whole,
}

impl Read for Hashed {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.whole.write_all(&buffer[..length])?;
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_small_file_or_of_the_ends_of_a_large_one_changes_the_samples() -> io::Result<()>
    {
        let mut file = tempfile::tempfile()?;
        for length in [0, 1, 4_096, 65_536, 65_537, 1_000_000] {
            let bytes: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            file.set_len(0)?;
            file.rewind()?;
            file.write_all(&bytes)?;
            let before = samples_of(&file, length)?;
            assert_eq!(samples_of(&file, length)?, before);
            let spots = [
                0,
                length / 2,
                length.saturating_sub(4_097),
                length.saturating_sub(1),
            ];
            for at in spots.into_iter().filter(|&at| at < length) {
                let is_seen =
                    are_samples_all(length) || at < SAMPLE_BYTES || at >= length - SAMPLE_BYTES;
                file.seek(SeekFrom::Start(at))?;
                file.write_all(&[255])?;
                assert!(
                    !is_seen || samples_of(&file, length)? != before,
                    "{at} of {length}"
                );
                file.seek(SeekFrom::Start(at))?;
                file.write_all(&bytes[at as usize..=at as usize])?;
            }
            let mut whole = Whole::default();
            io::copy(&mut bytes.as_slice(), &mut whole)?;
            assert!(whole.hash_of(length).is_some() && whole.hash_of(length + 1).is_none());
        }
        Ok(())
    }
}
