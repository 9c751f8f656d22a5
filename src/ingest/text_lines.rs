//! The lines of a text that is no input of records: a dump, a list of labels, or of removed records. It is opened as an
//! input is, so it may be packed, begin with a byte order mark, or be a pipe, and is named if it is of another kind.

use std::fmt;
use std::io::{BufRead, Read as _};
use std::path::Path;

use super::format::InputFormat;
use super::opening::{is_stdin, open, readable_bytes};
use super::options::ReadOptions;
use super::stored_bytes::{Progress, Stop};
use crate::error::{Error, Result, path_name};

/// More than the longest document takes, with every character escaped.
const MAX_LINE_BYTES: u64 = 16 << 20;

/// Reads lines that are not blank, and counts all.
pub(crate) struct TextLines {
    source_name: String,
    content: Box<dyn BufRead + Send>,
    number: u64,
    stop: Stop,
}

impl TextLines {
    /// Opens a text; `-` is standard input. It is read until nobody wants the rest.
    pub(crate) fn open(path: &Path, stop: Stop) -> Result<Self> {
        let mut options = ReadOptions::new().format(InputFormat::Tsv);
        options.stop = stop.clone();
        if !is_stdin(path) {
            if path.is_dir() {
                return Err(Error::input(path, "is a directory"));
            }
            readable_bytes(path, &options)?;
        }
        let opened = open(path, &options, &Progress::default(), None, None);
        let opened = opened.map_err(|error| match stop.is_asked() {
            true => Error::Interrupted,
            false => error,
        })?;
        Ok(Self::new(path_name(path), Box::new(opened.content), stop))
    }

    fn new(source_name: String, content: Box<dyn BufRead + Send>, stop: Stop) -> Self {
        Self {
            source_name,
            content,
            number: 0,
            stop,
        }
    }

    #[cfg(all(test, feature = "eval"))]
    pub(crate) fn of(text: &str) -> Self {
        let content = std::io::Cursor::new(text.to_owned());
        Self::new("a text".to_owned(), Box::new(content), Stop::default())
    }

    /// The number of the line that was read last, from 1. At the end, that of the line which is missing.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The next line that is not blank, with its end. `None` at the end.
    pub(crate) fn next_line(&mut self) -> Result<Option<String>> {
        loop {
            let mut line = Vec::new();
            self.number += 1;
            let mut rest = (&mut self.content).take(MAX_LINE_BYTES);
            match rest.read_until(b'\n', &mut line) {
                Err(_) if self.stop.is_asked() => return Err(Error::Interrupted),
                Err(error) => return Err(self.failed(format!("cannot be read further: {error}"))),
                Ok(0) => return Ok(None),
                Ok(length) if length as u64 == MAX_LINE_BYTES => {
                    return Err(self.failed("it is longer than any line that is written here"));
                }
                Ok(_) if line.trim_ascii().is_empty() => {}
                Ok(_) => {
                    let line = String::from_utf8(line);
                    return match line {
                        Ok(line) => Ok(Some(line)),
                        Err(_) => Err(self.failed("it is not UTF-8")),
                    };
                }
            }
        }
    }

    /// An error about the line that was read last.
    pub(crate) fn failed(&self, reason: impl Into<String>) -> Error {
        self.failed_at(Some(self.number), reason)
    }

    /// An error about a line, or about the whole text.
    pub(crate) fn failed_at(&self, line: Option<u64>, reason: impl Into<String>) -> Error {
        Error::Input {
            source_name: self.source_name.clone(),
            line,
            reason: reason.into(),
        }
    }
}

impl fmt::Debug for TextLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TextLines")
            .field("source_name", &self.source_name)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;
    use crate::ErrorKind;

    /// The lines with their numbers, or the line of an error, and why.
    fn read(bytes: &[u8]) -> std::io::Result<Result<Vec<(u64, String)>, String>> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(&file, bytes)?;
        let read = || {
            let mut lines = TextLines::open(file.path(), Stop::default())?;
            let mut read = Vec::new();
            while let Some(line) = lines.next_line()? {
                read.push((lines.number(), line));
            }
            Ok(read)
        };
        Ok(read().map_err(|error: Error| {
            assert_eq!(error.kind(), ErrorKind::Input);
            let name = file.path().display().to_string();
            error.to_string().replace(&name, "FILE")
        }))
    }

    #[test]
    fn a_text_may_be_packed_and_marked() -> std::io::Result<()> {
        let text = "a\tb\r\n\n  \nc";
        let expected = vec![(1, "a\tb\r\n".to_owned()), (4, "c".to_owned())];
        let marked = format!("\u{feff}{text}");
        for plain in [text, &marked] {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(plain.as_bytes())?;
            let zstd = zstd::encode_all(plain.as_bytes(), 1)?;
            for stored in [plain.as_bytes().to_vec(), gzip.finish()?, zstd] {
                assert_eq!(read(&stored)?.as_ref(), Ok(&expected));
            }
        }
        assert_eq!(read(b"")?, Ok(Vec::new()));
        Ok(())
    }

    #[test]
    fn what_is_no_text_is_told_with_its_line() -> std::io::Result<()> {
        let long = [&b"a\n"[..], &vec![b'x'; 17 << 20]].concat();
        for (bytes, reason) in [
            (&b"a\n\nb\xff\n"[..], "FILE, line 3: it is not UTF-8"),
            (
                &long,
                "FILE, line 2: it is longer than any line that is written here",
            ),
            (b"BZh91AY&SY", "is packed with bzip2"),
            (b"\xff\xfea\0\n\0b\0\n\0", "UTF-16"),
        ] {
            let refused = read(bytes)?.err().unwrap_or_default();
            assert!(refused.contains(reason), "{refused}");
        }
        Ok(())
    }
}
