//! The parts of a packed input: members of gzip and frames of zstd. Unpacks one after the other, passes over what may
//! stand between them, and finds the next one behind damage.

use std::io::{self, BufRead, Read};
use std::mem;

use flate2::bufread::GzDecoder;

use super::stored_bytes::{Stored, StoredBytes};

/// Where the reading of an input stands.
pub(super) enum Part {
    /// In an input that is not packed.
    Plain(StoredBytes),
    /// In the rows of a Parquet file of this length (bytes).
    Rows(Stored, u64),
    Gzip(Box<GzDecoder<StoredBytes>>),
    Zstd(Box<Frame>),
    /// Where a packed part has ended. Another one may follow.
    Between(StoredBytes),
    /// Only for a moment.
    Taken,
}

/// A frame of zstd.
pub(super) struct Frame {
    decoder: zstd::Decoder<'static, StoredBytes>,
    /// The bytes that are held to be repeated.
    window: u64,
    /// Where it begins.
    begins: u64,
    unpacked: u64,
}

/// How the bytes at the beginning of a part, or between parts, are to be read.
pub(super) const GZIP: &[u8] = &[0x1f, 0x8b];
pub(super) const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The beginning of a frame of zstd with the dictionary of the frames that follow, as web archives have it.
pub(super) const DICTIONARY: &[u8] = &[0x5d, 0x2a, 0x4d, 0x18];
/// The most bytes that a dictionary may have. Those of web archives have about a hundred thousand.
const MOST_DICTIONARY_BYTES: u64 = 32 << 20;

/// The largest window of zstd, as a power of two: that of `--long=31`.
const LARGEST_WINDOW: u32 = if usize::BITS < 64 { 30 } else { 31 };
/// A window of so many bytes is always given. The program zstd gives no more without being asked.
const COMMON_WINDOW: u64 = 128 << 20;
/// Beyond that, data that unpack to more than so many times their size are refused. So a small file takes little
/// memory.
const MOST_UNPACKED_PER_BYTE: u64 = 200;

/// The bytes in which a part is looked for at a time. The first block of a frame has no more than half as many.
const LOOKED_AT: usize = 512 << 10;

/// Whether bytes begin as a frame of zstd that holds no data.
pub(super) fn is_skippable_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// What may stand between parts: zeros, with which tapes fill up the end, and line ends and spaces.
fn is_padding(byte: u8) -> bool {
    byte == 0 || byte.is_ascii_whitespace()
}

impl Part {
    /// Reads from this part. Zero at its end, and between parts.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stored) => stored.read(buffer),
            Self::Rows(rows, _) => rows.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(frame) => frame.read(buffer),
            Self::Between(_) | Self::Taken => Ok(0),
        }
    }

    /// The number of stored bytes that were used.
    pub(super) fn stored_offset(&self) -> u64 {
        match self {
            Self::Plain(stored) | Self::Between(stored) => stored.at,
            Self::Gzip(decoder) => decoder.get_ref().at,
            Self::Zstd(frame) => frame.decoder.get_ref().at,
            Self::Rows(_, length) => *length,
            Self::Taken => 0,
        }
    }

    /// Whether the stored bytes themselves cannot be read further.
    pub(super) fn cannot_be_had(&self) -> bool {
        match self {
            Self::Plain(stored) | Self::Between(stored) => stored.has_failed,
            Self::Gzip(decoder) => decoder.get_ref().has_failed,
            Self::Zstd(frame) => frame.decoder.get_ref().has_failed,
            Self::Rows(..) => true,
            Self::Taken => false,
        }
    }

    /// Ends a part, so that another one can follow. What was not read of it is left out.
    pub(super) fn end(&mut self) {
        *self = match mem::replace(self, Self::Taken) {
            Self::Gzip(decoder) => Self::Between(decoder.into_inner()),
            Self::Zstd(frame) => Self::Between(frame.decoder.finish()),
            Self::Plain(stored) => Self::Between(stored),
            other => other,
        };
    }

    /// Begins the next packed part, and returns where. `None` at the end of the input.
    pub(super) fn begin(&mut self, dictionary: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let Self::Between(stored) = self else {
            return Ok(None);
        };
        pass_over_padding(stored, dictionary)?;
        let at = stored.at;
        let beginning = stored.peek(16)?;
        let window = window_of(beginning);
        let is_gzip = beginning.starts_with(GZIP);
        let is_zstd = beginning.starts_with(ZSTD);
        if beginning.is_empty() {
            return Ok(None);
        }
        if !is_gzip && !is_zstd {
            let behind = if at > 0 { "behind packed data, " } else { "" };
            let reason =
                format!("{behind}at byte {at}, there are bytes that are neither gzip nor zstd");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        stored.keep_from_here();
        let Self::Between(stored) = mem::replace(self, Self::Taken) else {
            return Ok(None);
        };
        *self = if is_gzip {
            Self::Gzip(Box::new(GzDecoder::new(stored)))
        } else {
            let mut decoder = zstd::Decoder::with_dictionary(stored, dictionary)?.single_frame();
            decoder.window_log_max(LARGEST_WINDOW)?;
            Self::Zstd(Box::new(Frame {
                decoder,
                window,
                begins: at,
                unpacked: 0,
            }))
        };
        Ok(Some(at))
    }

    /// Goes back to an offset, and from there to the next part that begins as a record of a web archive does. False if
    /// there is none.
    pub(super) fn find_record(&mut self, from: u64, dictionary: &[u8]) -> io::Result<bool> {
        self.end();
        let Self::Between(stored) = self else {
            return Ok(false);
        };
        stored.go_back_to(from);
        // A decoder that has failed may have used nothing.
        let ahead = from.saturating_sub(stored.at);
        io::copy(&mut stored.take(ahead), &mut io::sink())?;
        loop {
            let bytes = stored.peek(LOOKED_AT)?;
            let is_rest = bytes.len() < LOOKED_AT;
            let mut reach = bytes.len();
            if !is_rest {
                reach -= LOOKED_AT / 2;
            }
            let mut places = memchr::memchr2_iter(GZIP[0], ZSTD[0], &bytes[..reach]);
            let found = places.find(|&at| holds_record(&bytes[at..], dictionary));
            stored.consume(found.unwrap_or(reach));
            if found.is_some() || is_rest {
                return Ok(found.is_some());
            }
        }
    }
}

impl Frame {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.decoder.read(buffer) {
            Ok(read) => read,
            Err(error) => return Err(self.or_limit(error)),
        };
        self.unpacked += read as u64;
        let most = (self.decoder.get_ref().at - self.begins).saturating_mul(MOST_UNPACKED_PER_BYTE);
        if self.window > COMMON_WINDOW && self.unpacked > COMMON_WINDOW.max(most) {
            return Err(self.limit(&format!(
                "unpacks to more than {MOST_UNPACKED_PER_BYTE} times its size"
            )));
        }
        Ok(read)
    }

    /// The error of a decoder. One that cannot have the memory for its window says nothing of damage.
    fn or_limit(&self, error: io::Error) -> io::Error {
        if self.window > 1 << LARGEST_WINDOW {
            return self.limit(&format!(
                "is larger than the largest that is read, {}",
                1u64 << LARGEST_WINDOW
            ));
        }
        if error.to_string().contains("memory") {
            return self.limit(&format!("is not to be had ({error})"));
        }
        error
    }

    fn limit(&self, why: &str) -> io::Error {
        let Self { window, begins, .. } = self;
        let reason = format!(
            "the frame of zstd that begins at byte {begins} wants a window of {window} bytes of memory, and {why}; \
             unpack it with `zstd -d --long=31`, and read that"
        );
        io::Error::new(io::ErrorKind::OutOfMemory, reason)
    }
}

/// The window of the frame of zstd that begins here (bytes), by RFC 8878. Zero if it is none.
fn window_of(bytes: &[u8]) -> u64 {
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, rest @ ..] = bytes else {
        return 0;
    };
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let Some(&window) = rest.first() else {
            return 0;
        };
        let base = 1u64 << (10 + (window >> 3));
        return base + base / 8 * u64::from(window & 7);
    }
    let dictionary_bytes = [0, 1, 2, 4][usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let size = rest
        .get(dictionary_bytes..dictionary_bytes + size_bytes)
        .unwrap_or_default();
    let mut bytes = [0; 8];
    bytes[..size.len()].copy_from_slice(size);
    u64::from_le_bytes(bytes)
}

/// Whether a packed part begins here that holds a record of a web archive.
fn holds_record(bytes: &[u8], dictionary: &[u8]) -> bool {
    let mut beginning = [0; 6];
    let read = if matches!(bytes, [0x1f, 0x8b, 8, flags, ..] if *flags < 0x20) {
        GzDecoder::new(bytes).read_exact(&mut beginning)
    } else if bytes.starts_with(ZSTD) {
        zstd::Decoder::with_dictionary(bytes, dictionary)
            .and_then(|mut decoder| decoder.read_exact(&mut beginning))
    } else {
        return false;
    };
    read.is_ok() && beginning.starts_with(b"WARC/") && beginning[5].is_ascii_digit()
}

/// Passes over what may stand between parts, and over frames without data. Keeps a dictionary.
fn pass_over_padding(stored: &mut StoredBytes, dictionary: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let at = stored.at;
        let beginning = stored.peek(8)?;
        let padding = beginning
            .iter()
            .take_while(|&&byte| is_padding(byte))
            .count();
        if padding > 0 {
            stored.consume(padding);
        } else if is_skippable_frame(beginning) {
            let is_dictionary = beginning.starts_with(DICTIONARY) && at == 0;
            let &[_, _, _, _, a, b, c, d] = beginning
                .first_chunk()
                .ok_or(io::ErrorKind::UnexpectedEof)?;
            let length = u64::from(u32::from_le_bytes([a, b, c, d]));
            stored.consume(8);
            if is_dictionary {
                *dictionary = read_dictionary(stored, length)?;
            } else if io::copy(&mut stored.take(length), &mut io::sink())? < length {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        } else {
            return Ok(());
        }
    }
}

/// Reads a dictionary of zstd, which may itself be packed.
fn read_dictionary(stored: &mut StoredBytes, length: u64) -> io::Result<Vec<u8>> {
    const TOO_LONG: &str = "the dictionary of zstd is too long";
    if length > MOST_DICTIONARY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
    }
    let mut dictionary = Vec::new();
    if (stored.take(length).read_to_end(&mut dictionary)? as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !dictionary.starts_with(ZSTD) {
        return Ok(dictionary);
    }
    let mut unpacked = Vec::new();
    zstd::Decoder::with_buffer(dictionary.as_slice())?
        .take(MOST_DICTIONARY_BYTES + 1)
        .read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > MOST_DICTIONARY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
    }
    Ok(unpacked)
}
