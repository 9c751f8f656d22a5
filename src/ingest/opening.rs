//! Opening an input: checks that it can be read, unpacks gzip, skips the byte order mark, detects the
//! format.

use std::fs::{self, File};
use std::io::{self, BufReader, Cursor, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

use super::format::{InputFormat, detect};
use super::options::ReadOptions;
use super::progress::Progress;
use crate::error::{Error, Result};

/// What the input `-` is read from.
pub(super) type StandardInput = Box<dyn Read + Send>;

/// The name of standard input.
pub(super) const STDIN: &str = "-";

pub(super) fn is_stdin(path: &Path) -> bool {
    path == Path::new(STDIN)
}

/// The size of a regular file that can be opened. `None` for a pipe or a device.
pub(super) fn readable_bytes(path: &Path, options: &ReadOptions) -> Result<Option<u64>> {
    let failed = |source| cannot_read(path, None, &source);
    let place = options.place_of(path);
    let metadata = fs::metadata(&place).map_err(failed)?;
    if metadata.is_dir() {
        return Err(Error::Input {
            source_name: path.display().to_string(),
            line: None,
            reason: "is a directory; name the files in it, for example with `DIRECTORY/*`".to_owned(),
        });
    }
    if !metadata.is_file() {
        // A pipe is not opened here. To close it again would end the program that writes to it.
        return Ok(None);
    }
    File::open(&place).map_err(failed)?;
    Ok(Some(metadata.len()))
}

/// The error of an input that cannot be opened, or cannot be read further at `line`.
pub(super) fn cannot_read(path: &Path, line: Option<u64>, source: &io::Error) -> Error {
    let reason = match (source.kind(), line) {
        (io::ErrorKind::NotFound, None) => "no such file".to_owned(),
        (_, None) => format!("cannot be read: {source}"),
        (_, Some(_)) => format!("cannot be read further: {source}"),
    };
    Error::Input { source_name: path.display().to_string(), line, reason }
}

/// Opens an input, or takes `stdin` if it is standard input. Unpacks it and detects its format.
pub(super) fn open(
    path: &Path,
    stdin: impl FnOnce() -> StandardInput,
    options: &ReadOptions,
    progress: &Progress,
) -> Result<(Box<dyn Read + Send>, InputFormat)> {
    let begun = || -> io::Result<(Box<dyn Read + Send>, Vec<u8>)> {
        let file: Box<dyn Read + Send> =
            if is_stdin(path) { stdin() } else { Box::new(File::open(options.place_of(path))?) };
        let mut reader = decompressed(progress.count(file))?;
        let beginning = read_beginning(&mut reader, |bytes| bytes.contains(&b'\n'))?;
        Ok((reader, beginning))
    };
    let (rest, beginning) = begun().map_err(|source| cannot_read(path, None, &source))?;
    let format = match options.format {
        InputFormat::Auto => detect(path, is_stdin(path), &beginning)?,
        named => named,
    };
    let reader: Box<dyn Read + Send> = Box::new(Cursor::new(without_byte_order_mark(beginning)).chain(rest));
    Ok((reader, format))
}

/// The lines of a text that is no input of records, such as a list of labels. Opened like an input.
#[cfg(feature = "eval")]
pub(crate) fn lines_of(path: &Path) -> Result<impl Iterator<Item = io::Result<String>> + use<>> {
    let options = ReadOptions::new().format(InputFormat::Tsv);
    if !is_stdin(path) {
        readable_bytes(path, &options)?;
    }
    let (reader, _) = open(path, || Box::new(io::stdin()), &options, &Progress::new(None))?;
    Ok(io::BufRead::lines(BufReader::new(reader)))
}

/// The bytes of the input, unpacked if they begin as gzip does.
fn decompressed(mut reader: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let beginning = read_beginning(&mut reader, |bytes| bytes.len() >= 2)?;
    let is_gzip = beginning.starts_with(&[0x1f, 0x8b]);
    let whole = Cursor::new(beginning).chain(reader);
    Ok(if is_gzip {
        Box::new(MultiGzDecoder::new(BufReader::with_capacity(64 << 10, whole)))
    } else {
        Box::new(whole)
    })
}

/// Reads until `enough` is true, the input ends, or 64 KiB are read.
fn read_beginning(reader: &mut impl Read, enough: impl Fn(&[u8]) -> bool) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    while bytes.len() < 64 << 10 && !enough(&bytes) {
        match reader.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => bytes.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(bytes)
}

fn without_byte_order_mark(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    bytes
}
