//! Frames of zstd, unpacked in bounded memory: how large a window a frame may want, and the dictionaries of frames.

use std::io::{self, Read};

use super::stored_bytes::StoredBytes;

pub(super) struct Frame {
    decoder: zstd::Decoder<'static, StoredBytes>,
    /// The bytes that are held to be repeated.
    window: u64,
    /// Where it begins.
    begins: u64,
    unpacked: u64,
}

/// The largest window of zstd, as a power of two: that of `--long=31`.
const LARGEST_WINDOW: u32 = if usize::BITS < 64 { 30 } else { 31 };
/// A window of so many bytes is always given. The program zstd gives no more without being asked.
const COMMON_WINDOW: u64 = 128 << 20;
/// Beyond that, data that unpack to more than so many times their size are refused. So a small file takes little
/// memory.
const MOST_UNPACKED_PER_BYTE: u64 = 200;

/// The most bytes that a dictionary may have. Those of web archives have about a hundred thousand.
const MOST_DICTIONARY_BYTES: u64 = 32 << 20;

impl Frame {
    /// The frame that begins here.
    pub(super) fn new(mut stored: StoredBytes, dictionary: &[u8]) -> io::Result<Self> {
        let begins = stored.at;
        let window = window_of(stored.peek(16)?);
        let mut decoder = zstd::Decoder::with_dictionary(stored, dictionary)?.single_frame();
        decoder.window_log_max(LARGEST_WINDOW)?;
        Ok(Self {
            decoder,
            window,
            begins,
            unpacked: 0,
        })
    }

    pub(super) fn stored(&self) -> &StoredBytes {
        self.decoder.get_ref()
    }

    pub(super) fn into_stored(self) -> StoredBytes {
        self.decoder.finish()
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

impl Read for Frame {
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
}

/// What is wrong with the frame of zstd that begins here, at a byte of the input: it was packed with another dictionary
/// than this one. The number of a dictionary, which is zero without one, stands in both (RFC 8878).
pub(super) fn lacks_dictionary(bytes: &[u8], at: u64, dictionary: &[u8]) -> Option<io::Error> {
    let wanted = dictionary_of(bytes);
    let number = match dictionary {
        [0x37, 0xa4, 0x30, 0xec, a, b, c, d, ..] => u32::from_le_bytes([*a, *b, *c, *d]),
        _ => 0,
    };
    (wanted != 0 && wanted != number).then(|| {
        let reason = format!(
            "the frame of zstd that begins at byte {at} needs the dictionary {wanted} with which it was packed, and \
             that is not at hand; unpack it with `zstd -d -D DICTIONARY`, and read that"
        );
        io::Error::new(io::ErrorKind::InvalidData, reason)
    })
}

/// The number of the dictionary that the frame of zstd needs that begins here. Zero if it needs none.
fn dictionary_of(bytes: &[u8]) -> u32 {
    let [0x28, 0xb5, 0x2f, 0xfd, descriptor, rest @ ..] = bytes else {
        return 0;
    };
    let is_single_segment = descriptor & 0x20 != 0;
    let number = rest.get(usize::from(!is_single_segment)..);
    let number = number.unwrap_or_default().iter();
    let bytes_of_number = DICTIONARY_BYTES[usize::from(descriptor & 3)];
    let number = number.take(bytes_of_number).rev();
    number.fold(0, |number, &byte| number << 8 | u32::from(byte))
}

/// The bytes of the number of a dictionary, by the last bits of the descriptor of a frame.
const DICTIONARY_BYTES: [usize; 4] = [0, 1, 2, 4];

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
    let dictionary_bytes = DICTIONARY_BYTES[usize::from(descriptor & 3)];
    let size_bytes = [1, 2, 4, 8][usize::from(descriptor >> 6)];
    let size = rest
        .get(dictionary_bytes..dictionary_bytes + size_bytes)
        .unwrap_or_default();
    let mut bytes = [0; 8];
    bytes[..size.len()].copy_from_slice(size);
    u64::from_le_bytes(bytes)
}

/// Reads a dictionary of zstd, which may itself be packed.
pub(super) fn read_dictionary(stored: &mut StoredBytes, length: u64) -> io::Result<Vec<u8>> {
    const TOO_LONG: &str = "the dictionary of zstd is too long";
    if length > MOST_DICTIONARY_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, TOO_LONG));
    }
    let mut dictionary = Vec::new();
    if (stored.take(length).read_to_end(&mut dictionary)? as u64) < length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if !dictionary.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
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
