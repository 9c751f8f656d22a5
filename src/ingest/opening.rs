//! Opening an input, at its beginning or where an earlier reading has stopped. Checks that it can be read, skips the
//! byte order mark, detects the format, and tells whether the content is still the same.

use std::fs::{self, File, Metadata};
use std::io::{self, Read, Seek as _, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use xxhash_rust::xxh3::Xxh3;

use super::encoding::UTF_8_MARK;
use super::format::{Cut, InputFormat, detect};
use super::input::{Behind, RawContent};
use super::options::ReadOptions;
use super::stored_bytes::{Progress, Stored};
use super::unpacked::{Packing, Unpacked, is_of_content};
use super::unreadable::{kind_of, kind_of_old_lines, kind_of_wide_lines};
use super::warc::FirstRecords;
use crate::error::{Error, Result, path_name};
use crate::files::is_named_as_packed;
use crate::source::{Identity, Place, Sample, Stamp};
use crate::sync::Mutex;

/// The name of standard input.
const STDIN: &str = "-";

/// The most bytes of a sample.
const SAMPLE_BYTES: usize = 4096;

/// The most bytes that are looked at to find the format.
const MOST_LOOKED_AT: usize = 64 << 10;

pub(super) fn is_stdin(path: &Path) -> bool {
    path == Path::new(STDIN)
}

impl Sample {
    /// The sample that begins where these bytes begin.
    fn first_of(bytes: &[u8]) -> Self {
        Self::whole(&bytes[..bytes.len().min(SAMPLE_BYTES)])
    }

    /// The sample that ends where these bytes end.
    pub(super) fn last_of(bytes: &[u8]) -> Self {
        Self::whole(&bytes[bytes.len().saturating_sub(SAMPLE_BYTES)..])
    }

    fn whole(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len() as u16,
            hash: xxhash_rust::xxh3::xxh3_64(bytes),
        }
    }
}

/// The size of a regular file that can be opened. `None` for standard input, a pipe or a device.
pub(super) fn readable_bytes(path: &Path, options: &ReadOptions) -> Result<Option<u64>> {
    if is_stdin(path) {
        return Ok(None);
    }
    let place = options.place_of(path);
    let metadata = fs::metadata(&place).map_err(cannot_open(path))?;
    if !metadata.is_file() {
        // A pipe is not opened here. To close it again would end the program that writes to it.
        return Ok(None);
    }
    options.stop.open(&place).map_err(cannot_open(path))?;
    Ok(Some(metadata.len()))
}

fn cannot_open(path: &Path) -> impl Fn(io::Error) -> Error {
    move |source| cannot_read(path, None, &source)
}

/// The error of an input that cannot be opened, or cannot be read further at `line`.
pub(super) fn cannot_read(path: &Path, line: Option<u64>, source: &io::Error) -> Error {
    Error::Input {
        source_name: path_name(path),
        line,
        reason: reason_of(line, source),
    }
}

/// Why an input cannot be opened, or cannot be read further at `line`.
fn reason_of(line: Option<u64>, source: &io::Error) -> String {
    match (source.kind(), line) {
        (io::ErrorKind::NotFound, None) => "no such file".to_owned(),
        (_, None) => format!("cannot be read: {source}"),
        (_, Some(_)) => format!("cannot be read further: {source}"),
    }
}

/// What stands for a record where an input cannot be read further, at `line`. If the reason is in its content, it
/// would fail again as long as that is the same.
pub(super) fn failed(line: Option<u64>, source: &io::Error) -> RawContent {
    RawContent::Failed {
        reason: reason_of(line, source),
        is_lasting: is_of_content(source) && source.raw_os_error().is_none(),
    }
}

/// An open input, at a place between two records.
pub(super) struct Opened {
    pub(super) content: Unpacked,
    pub(super) format: InputFormat,
    /// The unpacked bytes before the place, as `content` counts them.
    pub(super) offset: u64,
    /// Of a web archive.
    pub(super) first_records: FirstRecords,
    first: Sample,
    /// The pipe that it comes from, if it is known.
    pipe: Option<Pipe>,
    file: Option<OpenedFile>,
}

impl Opened {
    fn new(content: Unpacked) -> Self {
        Self {
            content,
            format: InputFormat::Auto,
            offset: 0,
            first_records: FirstRecords::default(),
            first: Sample::default(),
            pipe: None,
            file: None,
        }
    }

    /// Whether the input is opened by a name that says nothing about its content: that of standard input, of a pipe or
    /// of a descriptor.
    fn is_stream(&self, path: &Path) -> bool {
        let is_descriptor = ["/dev/stdin", "/dev/fd", "/proc"]
            .iter()
            .any(|name| path.starts_with(name));
        self.file.is_none() || is_descriptor
    }

    /// By what the input is known again, before anything is read of it.
    pub(super) fn identity(&self) -> Identity {
        let file = self.file.as_ref();
        Identity {
            length: file.map(|file| file.length),
            first: self.first,
            last: Sample::default(),
            stamp: file.map(|file| file.stamp),
        }
    }

    /// By what the input is known again that was read to its end.
    pub(super) fn identity_at_end(&self) -> Identity {
        let length = self.content.stored_offset();
        let file = self.file.as_ref();
        Identity {
            length: Some(length),
            stamp: file.and_then(|file| file.stamp_at_end(length)),
            ..self.identity()
        }
    }

    /// Whether the pipe that it comes from holds so much that more will not have to be waited for.
    pub(super) fn holds_much(&self) -> bool {
        self.pipe.as_ref().is_some_and(Pipe::holds_much)
    }
}

/// A pipe, asked for how much it holds while another handle of it is read.
struct Pipe(File);

impl Pipe {
    /// Whoever writes so much at once will hardly stop in the middle of a record. A pipe of Linux holds four times
    /// that.
    #[cfg(unix)]
    const MUCH: u64 = 16 << 10;

    /// `None` if the file is none, or if that cannot be told here.
    fn new(file: &File) -> Option<Self> {
        if file.metadata().ok()?.is_file() {
            return None;
        }
        file.try_clone().ok().map(Self)
    }

    fn standard_input() -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::fd::AsFd as _;
            let handle = io::stdin().as_fd().try_clone_to_owned().ok()?;
            Some(Self(handle.into()))
        }
        #[cfg(not(unix))]
        None
    }

    /// Whether so much is there that more will not have to be waited for.
    fn holds_much(&self) -> bool {
        #[cfg(unix)]
        return rustix::io::ioctl_fionread(&self.0).is_ok_and(|bytes| bytes >= Self::MUCH);
        #[cfg(not(unix))]
        false
    }
}

/// Opens an input at its beginning, or behind what was read before: unpacks it and detects its format. Reads `stdin` in
/// place of the standard input of the process.
pub(super) fn open(
    path: &Path,
    options: &ReadOptions,
    progress: &Progress,
    stdin: Option<Stored>,
    behind: Option<Behind>,
) -> Result<Opened> {
    let opener = Opener {
        path,
        options,
        progress,
    };
    opener.open(stdin, behind)
}

#[derive(Clone, Copy)]
struct Opener<'o> {
    path: &'o Path,
    options: &'o ReadOptions,
    progress: &'o Progress,
}

impl Opener<'_> {
    fn open(self, stdin: Option<Stored>, behind: Option<Behind>) -> Result<Opened> {
        let least = behind.map_or(0, |behind| behind.identity.first.length);
        let (mut opened, beginning) = self
            .open_to_look(stdin, usize::from(least))
            .map_err(cannot_open(self.path))?;
        opened.format = self.format(&opened, &beginning)?;
        let placed = match behind {
            None => self.skip_mark(&mut opened, &beginning),
            Some(behind) => self.go_behind(&mut opened, &beginning, behind),
        };
        placed.map_err(cannot_open(self.path))?;
        Ok(opened)
    }

    /// Passes over the byte order mark. A whole file says its encoding by it.
    fn skip_mark(self, opened: &mut Opened, beginning: &[u8]) -> io::Result<()> {
        if opened.format.cut() != Cut::File && beginning.starts_with(UTF_8_MARK) {
            opened.offset = UTF_8_MARK.len() as u64;
            opened.content.pass_over(opened.offset, 0)?;
        }
        Ok(())
    }

    /// Goes to the place where an earlier reading has stopped. An error if the content is not that of then.
    fn go_behind(self, opened: &mut Opened, beginning: &[u8], behind: Behind) -> io::Result<()> {
        let Behind {
            place, identity, ..
        } = behind;
        let first = beginning
            .get(..usize::from(identity.first.length))
            .map(Sample::first_of);
        let mut is_same = first == Some(identity.first);
        if is_same {
            opened.first = identity.first;
            let last_bytes = usize::from(identity.last.length);
            let kept = self.go_to(opened, place, last_bytes)?;
            if let Some(kept) = kept
                // Of some records nothing is kept.
                && last_bytes > 0
            {
                is_same = Sample::last_of(&kept) == identity.last;
            }
        }
        if is_same {
            return Ok(());
        }
        Err(io::Error::other(
            "it is not what was read before, or ends before the place up to which that was read; `--restart` reads it \
             from its beginning",
        ))
    }

    /// Goes to a place, and returns the `keep` bytes before it. `None` if they are not all in the packed part of the
    /// place.
    fn go_to(self, opened: &mut Opened, place: Place, keep: usize) -> io::Result<Option<Vec<u8>>> {
        let Place {
            raw_offset, skip, ..
        } = place;
        let is_packed = opened.content.packing() != Packing::None;
        if is_packed && opened.format.cut() == Cut::Archive {
            let most = self.options.max_record_bytes;
            opened.first_records = FirstRecords::read(&mut opened.content, most, place.records);
        }
        if opened.file.is_none() {
            // It cannot be opened again. Its places are counted from its beginning.
            opened.offset = raw_offset + skip;
            let ahead = opened.offset.checked_sub(opened.content.offset());
            let ahead = ahead.ok_or_else(|| {
                io::Error::other(
                    "it is not cut into records as when it was read before, so where to go on is not known; \
                     `--restart` reads it from its beginning",
                )
            })?;
            return opened.content.pass_over(ahead, keep).map(Some);
        }
        let mut file = self.options.stop.open(&self.options.place_of(self.path))?;
        if opened.content.packing().is_of_rows() {
            let rows = self.rows(&mut file)?.ok_or(io::ErrorKind::InvalidData)?;
            opened.content = Unpacked::from_rows(rows, file.metadata()?.len());
            opened.offset = skip;
            return opened.content.pass_over(skip, keep).map(Some);
        }
        // In a packed input, the bytes before the place may be in an earlier part.
        let back = if is_packed { 0 } else { keep as u64 };
        let from = raw_offset.saturating_sub(back);
        file.seek(SeekFrom::Start(from))?;
        self.progress.pass_over(from);
        let stored = self.progress.count(self.options.stop.content(file));
        opened.content = opened.content.again_from(stored, from);
        opened.offset = raw_offset - from + skip;
        let kept = opened.content.pass_over(opened.offset, keep)?;
        let is_whole = back > 0 || skip >= keep as u64;
        Ok(is_whole.then_some(kept))
    }

    fn format(self, opened: &Opened, beginning: &[u8]) -> Result<InputFormat> {
        let path = self.path;
        if opened.content.packing().is_of_rows() {
            return match self.options.format {
                InputFormat::Auto | InputFormat::Jsonl => Ok(InputFormat::Jsonl),
                _ => Err(Error::input(
                    path,
                    "is a Parquet file, which has no other format",
                )),
            };
        }
        if let Some(kind) = kind_of(beginning) {
            return Err(Error::input(path, kind));
        }
        if path.extension() == Some("parquet".as_ref()) {
            return Err(Error::input(
                path,
                if beginning.is_empty() {
                    "has the name of a Parquet file, but is empty"
                } else {
                    "has the name of a Parquet file, but does not begin as one"
                },
            ));
        }
        let format = match self.options.format {
            InputFormat::Auto => detect(path, opened.is_stream(path), beginning)?,
            named => named,
        };
        if format.cut() != Cut::File
            && let Some(kind) = kind_of_wide_lines(beginning)
        {
            return Err(Error::input(path, kind));
        }
        // A longer line may end in a line feed.
        if format.cut() == Cut::Line
            && beginning.len() < MOST_LOOKED_AT
            && let Some(kind) = kind_of_old_lines(beginning, format)
        {
            return Err(Error::input(path, kind));
        }
        Ok(format)
    }

    /// Opens the input and looks at its beginning: at least `least` bytes, unless it ends before.
    fn open_to_look(
        self,
        stdin: Option<Stored>,
        mut least: usize,
    ) -> io::Result<(Opened, Vec<u8>)> {
        let mut opened = if is_stdin(self.path) {
            self.open_stdin(stdin)?
        } else {
            self.open_file()?
        };
        // A pipe may have no more than a line for now.
        if opened.file.is_some() {
            least = SAMPLE_BYTES;
        }
        let looked_at = opened.content.peek(|bytes| {
            bytes.len() >= MOST_LOOKED_AT || bytes.len() >= least && bytes.contains(&b'\n')
        });
        let beginning = match looked_at.map(<[u8]>::to_vec) {
            // Behind damage there may be records.
            Err(_) if opened.content.damage().is_some() && self.is_web_archive() => Vec::new(),
            beginning => beginning?,
        };
        opened.first = Sample::first_of(&beginning);
        Ok((opened, beginning))
    }

    /// Opens what is given as standard input, or that of the process.
    fn open_stdin(self, given: Option<Stored>) -> io::Result<Opened> {
        let (stored, pipe) = match given {
            Some(given) => (given, None),
            None => (self.options.stop.standard_input(), Pipe::standard_input()),
        };
        let content = Unpacked::new(self.progress.count(stored))?;
        Ok(Opened {
            pipe,
            ..Opened::new(content)
        })
    }

    /// Whether the input is a web archive by its name, or by what the caller says.
    fn is_web_archive(self) -> bool {
        match self.options.format {
            InputFormat::Auto => {
                let format = detect(self.path, false, b"");
                matches!(format, Ok(InputFormat::Warc))
            }
            named => named == InputFormat::Warc,
        }
    }

    /// Opens a file, a pipe or a device at its beginning.
    fn open_file(self) -> io::Result<Opened> {
        let place = self.options.place_of(self.path);
        let mut file = self.options.stop.open(&place)?;
        let metadata = file.metadata()?;
        let known = OpenedFile::new(&file, &metadata)?;
        if known.is_some()
            && let Some(rows) = self.rows(&mut file)?
        {
            return Ok(Opened {
                file: known,
                ..Opened::new(Unpacked::from_rows(rows, metadata.len()))
            });
        }
        let pipe = Pipe::new(&file);
        let mut stored = self.progress.count(self.options.stop.content(file));
        if let Some(known) = &known {
            stored = known.hash(stored);
        }
        let mut content = Unpacked::new(stored)?;
        if is_named_as_packed(&place) && self.is_web_archive() {
            content = content.of_packed_archive()?;
        }
        Ok(Opened {
            pipe,
            file: known,
            ..Opened::new(content)
        })
    }

    /// The rows of a Parquet file with the columns that records need. `None` if the file is none, or if these are not
    /// read.
    #[cfg(feature = "parquet")]
    fn rows(self, file: &mut File) -> io::Result<Option<Stored>> {
        use super::json::use_of;
        use crate::parquet::{RowLines, is_parquet};

        if !is_parquet(file)? {
            return Ok(None);
        }
        let progress = self.progress.clone();
        let rows = RowLines::open(
            &self.options.place_of(self.path),
            self.options.named_content(),
            |name| use_of(name, self.options),
            self.options.max_record_bytes,
            move |bytes| progress.pass_over(bytes),
        );
        match rows {
            Ok(rows) => Ok(Some(Box::new(rows))),
            Err(Error::Input { reason, .. }) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, reason))
            }
            Err(error) => Err(io::Error::other(error)),
        }
    }

    #[cfg(not(feature = "parquet"))]
    fn rows(self, _: &mut File) -> io::Result<Option<Stored>> {
        Ok(None)
    }
}

// By what a file is known again as it is stored, without unpacking it: the hash of samples, that of all bytes, and the
// times of its last change.

/// The bytes of a sample, and the number of samples of a file. A file with no more bytes than that is read whole.
const STAMP_SAMPLE_BYTES: u64 = 4096;
const SAMPLES: u64 = 16;

/// A file that was changed a moment ago may change again without another time. File systems count in steps: 4 to 10 ms
/// are usual.
const MOMENT_NANOS: i64 = 100_000_000;

/// Whether the samples of a file of this length are all of it.
fn are_samples_all(length: u64) -> bool {
    length <= STAMP_SAMPLE_BYTES * SAMPLES
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
        let mut buffer = [0; STAMP_SAMPLE_BYTES as usize];
        for number in 0..SAMPLES {
            let all = u128::from(length - STAMP_SAMPLE_BYTES) * u128::from(number);
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

struct OpenedFile {
    file: File,
    /// Its bytes, and what it was, when it was opened.
    length: u64,
    stamp: Stamp,
    /// What was read of it from its beginning.
    whole: Whole,
}

impl OpenedFile {
    /// A file that is about to be read from its beginning or from a later place. `None` if it is no file.
    fn new(file: &File, metadata: &Metadata) -> io::Result<Option<Self>> {
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
            length: metadata.len(),
            stamp,
            whole: Whole::default(),
        }))
    }

    /// A reader of the file, of which the hash is taken of what is read through `inner`.
    fn hash(&self, inner: Stored) -> Stored {
        Box::new(Hashed {
            inner,
            whole: self.whole.clone(),
        })
    }

    /// The stamp once it was read to its end, which is at `length`.
    fn stamp_at_end(&self, length: u64) -> Option<Stamp> {
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
                let is_seen = are_samples_all(length)
                    || at < STAMP_SAMPLE_BYTES
                    || at >= length - STAMP_SAMPLE_BYTES;
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
