//! Opening an input, at its beginning or where an earlier reading has stopped. Checks that it can be read, skips the
//! byte order mark, detects the format, and tells whether the content is still the same.

use std::fs::{self, File, Metadata};
use std::io::{self, Seek, SeekFrom};
use std::path::Path;

use super::encoding::UTF_8_MARK;
use super::format::{InputFormat, detect, not_readable};
#[cfg(feature = "parquet")]
use super::json::use_of;
use super::options::ReadOptions;
use super::stamp::{Whole, stamp_of};
use super::stored_bytes::{Pipe, Progress, Stored};
use super::unpacked::Unpacked;
use super::unreadable::{kind_of, kind_of_wide_lines};
use crate::error::{Error, Result, path_name};
#[cfg(feature = "parquet")]
use crate::parquet::{RowLines, is_parquet};
use crate::source::{Identity, Place, Sample, Stamp};

/// The name of standard input.
pub(super) const STDIN: &str = "-";

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
        Self::of(&bytes[..bytes.len().min(SAMPLE_BYTES)])
    }

    /// The sample that ends where these bytes end.
    pub(super) fn last_of(bytes: &[u8]) -> Self {
        Self::of(&bytes[bytes.len().saturating_sub(SAMPLE_BYTES)..])
    }

    fn of(bytes: &[u8]) -> Self {
        Self {
            length: bytes.len() as u16,
            hash: xxhash_rust::xxh3::xxh3_64(bytes),
        }
    }
}

/// The size of a regular file that can be opened. `None` for a pipe or a device.
pub(super) fn readable_bytes(path: &Path, options: &ReadOptions) -> Result<Option<u64>> {
    let failed = |source| cannot_read(path, None, &source);
    let place = options.place_of(path);
    let metadata = fs::metadata(&place).map_err(failed)?;
    if !metadata.is_file() {
        // A pipe is not opened here. To close it again would end the program that writes to it.
        return Ok(None);
    }
    options.stop.open(&place).map_err(failed)?;
    Ok(Some(metadata.len()))
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
pub(super) fn reason_of(line: Option<u64>, source: &io::Error) -> String {
    match (source.kind(), line) {
        (io::ErrorKind::NotFound, None) => "no such file".to_owned(),
        (_, None) => format!("cannot be read: {source}"),
        (_, Some(_)) => format!("cannot be read further: {source}"),
    }
}

/// Whether an input cannot be read further because of its content. It would fail again as long as that is the same.
pub(super) fn is_of_content(source: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    source.raw_os_error().is_none()
        && matches!(
            source.kind(),
            InvalidData | InvalidInput | Other | UnexpectedEof
        )
}

/// An open input, at a place between two records.
pub(super) struct Opened {
    pub(super) content: Unpacked,
    pub(super) format: InputFormat,
    pub(super) first: Sample,
    /// The length of the input as it is stored. `None` if it is not known.
    pub(super) length: Option<u64>,
    /// The unpacked bytes before the place, as `content` counts them.
    pub(super) offset: u64,
    /// Whether the content is that of the earlier reading.
    pub(super) is_same: bool,
    /// The pipe that it comes from, if it is known.
    pub(super) pipe: Option<Pipe>,
    /// The file, if it is one.
    pub(super) file: Option<OpenedFile>,
}

/// A file that is read.
pub(super) struct OpenedFile {
    pub(super) file: File,
    /// What it was when it was opened.
    pub(super) stamp: Stamp,
    /// What was read of it from its beginning.
    pub(super) whole: Whole,
}

impl OpenedFile {
    /// `None` if it is no file.
    fn of(file: &File, metadata: &Metadata) -> io::Result<Option<Self>> {
        if !metadata.is_file() {
            return Ok(None);
        }
        let (stamp, whole) = (stamp_of(file, metadata)?, Whole::default());
        Ok(Some(Self {
            file: file.try_clone()?,
            stamp,
            whole,
        }))
    }
}

/// Opens an input, or takes `stdin` if it is standard input. Unpacks it and detects its format.
pub(super) fn open(
    path: &Path,
    stdin: impl FnOnce() -> Stored,
    options: &ReadOptions,
    progress: &Progress,
) -> Result<Opened> {
    open_to_look(path, stdin, options, progress, 0)
        .map_err(|source| cannot_read(path, None, &source))
        .and_then(|(mut opened, beginning)| {
            opened.format = format_of(path, options, &opened.content, &beginning)?;
            // A whole file says its encoding by its mark.
            if opened.format != InputFormat::Text && beginning.starts_with(UTF_8_MARK) {
                let passed = opened.content.pass_over(3, 0);
                passed.map_err(|source| cannot_read(path, None, &source))?;
                opened.offset = 3;
            }
            Ok(opened)
        })
}

/// Opens an input where an earlier reading has stopped.
pub(super) fn open_at(
    path: &Path,
    stdin: impl FnOnce() -> Stored,
    options: &ReadOptions,
    progress: &Progress,
    place: Place,
    identity: &Identity,
) -> Result<Opened> {
    let failed = |source| cannot_read(path, None, &source);
    let (mut opened, beginning) =
        open_to_look(path, stdin, options, progress, identity.first.length.into())
            .map_err(failed)?;
    opened.format = format_of(path, options, &opened.content, &beginning)?;
    let first = beginning
        .get(..identity.first.length.into())
        .map(Sample::first_of);
    opened.is_same = first == Some(identity.first);
    if !opened.is_same {
        return Ok(opened);
    }
    opened.first = identity.first;
    let kept = go_to(
        &mut opened,
        path,
        options,
        progress,
        place,
        identity.last.length.into(),
    )
    .map_err(failed)?;
    // Of some records nothing is kept.
    let is_known = identity.last.length > 0;
    opened.is_same = !is_known || kept.is_none_or(|kept| Sample::last_of(&kept) == identity.last);
    Ok(opened)
}

/// Goes to a place, and returns the `keep` bytes before it. `None` if they are not all in the packed part of the place.
fn go_to(
    opened: &mut Opened,
    path: &Path,
    options: &ReadOptions,
    progress: &Progress,
    place: Place,
    keep: usize,
) -> io::Result<Option<Vec<u8>>> {
    let path = &options.place_of(path);
    let Place {
        raw_offset, skip, ..
    } = place;
    if opened.length.is_none() {
        // It cannot be opened again. Its places are counted from its beginning.
        let offset = raw_offset + skip;
        opened.offset = offset;
        return opened.content.pass_over(offset, keep).map(Some);
    }
    // In a packed input, the bytes before the place may be in an earlier part.
    let back = if opened.content.is_packed() {
        0
    } else {
        keep as u64
    };
    let from = raw_offset.saturating_sub(back);
    let mut file = options.stop.open(path)?;
    #[cfg(feature = "parquet")]
    if opened.content.is_of_rows() {
        opened.content = rows_of(path, options, progress, file.metadata()?.len())?;
        opened.offset = skip;
        return opened.content.pass_over(skip, keep).map(Some);
    }
    file.seek(SeekFrom::Start(from))?;
    progress.pass_over(from);
    opened.content = opened
        .content
        .again_from(progress.count(options.stop.content(file)), from);
    opened.offset = raw_offset - from + skip;
    let kept = opened.content.pass_over(opened.offset, keep)?;
    let is_whole = back > 0 || skip >= keep as u64;
    Ok(is_whole.then_some(kept))
}

fn format_of(
    path: &Path,
    options: &ReadOptions,
    content: &Unpacked,
    beginning: &[u8],
) -> Result<InputFormat> {
    if content.is_of_rows() {
        return match options.format {
            InputFormat::Auto | InputFormat::Jsonl => Ok(InputFormat::Jsonl),
            _ => Err(not_readable(
                path,
                "is a Parquet file, which has no other format",
            )),
        };
    }
    if let Some(kind) = kind_of(beginning) {
        return Err(not_readable(path, kind));
    }
    if path
        .extension()
        .is_some_and(|extension| extension == "parquet")
    {
        let begins = if beginning.is_empty() {
            "is empty"
        } else {
            "does not begin as one"
        };
        return Err(not_readable(
            path,
            &format!("has the name of a Parquet file, but {begins}"),
        ));
    }
    let format = match options.format {
        InputFormat::Auto => detect(path, is_stdin(path), beginning)?,
        named => named,
    };
    let wide = if format == InputFormat::Text {
        None
    } else {
        kind_of_wide_lines(beginning)
    };
    wide.map_or(Ok(format), |kind| Err(not_readable(path, kind)))
}

/// Opens an input and looks at its beginning: at least `least` bytes, unless it ends before.
fn open_to_look(
    path: &Path,
    stdin: impl FnOnce() -> Stored,
    options: &ReadOptions,
    progress: &Progress,
    least: usize,
) -> io::Result<(Opened, Vec<u8>)> {
    let mut opened = if is_stdin(path) {
        Opened::of(Unpacked::new(progress.count(stdin()), false)?)
    } else {
        open_file(&options.place_of(path), options, progress)?
    };
    // A pipe may have no more than a line for now.
    let least = if opened.length.is_some() {
        SAMPLE_BYTES
    } else {
        least
    };
    let enough = |it: &[u8]| it.len() >= MOST_LOOKED_AT || it.len() >= least && it.contains(&b'\n');
    let beginning = match opened.content.peek(enough).map(<[u8]>::to_vec) {
        // Behind damage there may be records.
        Err(_) if opened.content.damage().is_some() && is_web_archive(path, options) => Vec::new(),
        beginning => beginning?,
    };
    opened.first = Sample::first_of(&beginning);
    Ok((opened, beginning))
}

/// Whether an input is a web archive by its name, or by what the caller says.
fn is_web_archive(path: &Path, options: &ReadOptions) -> bool {
    match options.format {
        InputFormat::Auto => matches!(detect(path, is_stdin(path), b""), Ok(InputFormat::Warc)),
        named => named == InputFormat::Warc,
    }
}

impl Opened {
    fn of(content: Unpacked) -> Self {
        let (format, first) = (InputFormat::Auto, Sample::default());
        Self {
            content,
            format,
            first,
            length: None,
            offset: 0,
            is_same: true,
            pipe: None,
            file: None,
        }
    }
}

/// Opens a file, a pipe or a device at its beginning.
fn open_file(place: &Path, options: &ReadOptions, progress: &Progress) -> io::Result<Opened> {
    let file = options.stop.open(place)?;
    let metadata = file.metadata()?;
    let known = OpenedFile::of(&file, &metadata)?;
    let length = metadata.is_file().then_some(metadata.len());
    #[cfg(feature = "parquet")]
    let mut file = file;
    #[cfg(feature = "parquet")]
    if let Some(length) = length
        && is_parquet(&mut file)?
    {
        let rows = rows_of(place, options, progress, length)?;
        return Ok(Opened {
            length: Some(length),
            file: known,
            ..Opened::of(rows)
        });
    }
    let pipe = Pipe::of(&file);
    let mut stored = progress.count(options.stop.content(file));
    if let Some(known) = &known {
        stored = known.whole.of(stored);
    }
    let content = Unpacked::new(stored, length.is_some())?;
    let is_packed = place
        .extension()
        .is_some_and(|it| it == "gz" || it == "zst");
    let is_archive = is_packed && is_web_archive(place, options);
    let content = if is_archive {
        content.of_packed_archive()?
    } else {
        content
    };
    Ok(Opened {
        length,
        pipe,
        file: known,
        ..Opened::of(content)
    })
}

/// The rows of a Parquet file with the columns that records need.
#[cfg(feature = "parquet")]
fn rows_of(
    place: &Path,
    options: &ReadOptions,
    progress: &Progress,
    length: u64,
) -> io::Result<Unpacked> {
    let progress = progress.clone();
    let rows = RowLines::open(
        place,
        |name| use_of(name, options),
        move |bytes| progress.pass_over(bytes),
    );
    match rows {
        Ok(rows) => Ok(Unpacked::of_rows(Box::new(rows), length)),
        Err(Error::Input { reason, .. }) => Err(io::Error::new(io::ErrorKind::InvalidData, reason)),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// What is stored, unpacked if it is packed with gzip or zstd. Content of another kind is an error that names it.
#[cfg(feature = "cli")]
pub(crate) fn unpacked(stored: Stored) -> io::Result<impl io::Read + use<>> {
    let mut content = Unpacked::new(stored, false)?;
    let beginning = content.peek(|it| it.len() >= SAMPLE_BYTES || it.contains(&b'\n'))?;
    match kind_of(beginning).or_else(|| kind_of_wide_lines(beginning)) {
        Some(kind) => Err(io::Error::other(kind)),
        None => Ok(content),
    }
}

/// The lines of a text that is no input of records, such as a list of labels. Opened like an input.
#[cfg(feature = "eval")]
pub(crate) fn lines_of(path: &Path) -> Result<impl Iterator<Item = io::Result<String>> + use<>> {
    let options = ReadOptions::new().format(InputFormat::Tsv);
    if !is_stdin(path) {
        readable_bytes(path, &options)?;
    }
    let opened = open(
        path,
        || Box::new(io::stdin()),
        &options,
        &Progress::new(None),
    )?;
    Ok(io::BufRead::lines(io::BufReader::new(opened.content)))
}
