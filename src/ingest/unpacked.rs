//! From the bytes of an input as it is stored to those of its records: unpacks gzip and zstd. Knows where each packed
//! part begins, so that reading can begin there.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::mem;

use flate2::bufread::GzDecoder;

use super::stored_bytes::{Stored, StoredBytes};

/// The bytes of an input, unpacked. A packed input may have many parts, each of which is unpacked on its own.
pub(super) struct Unpacked {
    part: Part,
    /// Unpacked bytes that were read to look at them, and are read again.
    head: Vec<u8>,
    head_read: usize,
    /// The number of unpacked bytes, those that were looked at included.
    unpacked: u64,
    /// Where parts begin: in the unpacked bytes, and in the stored ones. The last ones that may be asked for.
    parts: VecDeque<(u64, u64)>,
    /// Where the current part begins, as in `parts`.
    part_begins: (u64, u64),
    /// Whether parts are not told apart.
    is_read_once: bool,
    /// What the frames of zstd were packed with, if the input begins with it.
    dictionary: Vec<u8>,
    packing: Packing,
}

/// How bytes are packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Packing {
    #[default]
    None,
    Gzip,
    Zstd,
    /// A Parquet file, whose rows are lines of JSON.
    #[cfg(feature = "parquet")]
    Parquet,
}

impl Packing {
    /// Whether it is that of a Parquet file, which has rows in place of bytes.
    pub(crate) fn is_of_rows(self) -> bool {
        #[cfg(feature = "parquet")]
        return self == Self::Parquet;
        #[cfg(not(feature = "parquet"))]
        false
    }
}

enum Part {
    Plain(StoredBytes),
    /// The rows of a Parquet file of this length (bytes).
    #[cfg(feature = "parquet")]
    Rows(Stored, u64),
    Gzip(Box<GzDecoder<StoredBytes>>),
    Zstd(Box<zstd::Decoder<'static, StoredBytes>>),
    /// A packed part has ended. Another one may follow.
    Between(StoredBytes),
    /// Only for a moment.
    Taken,
}

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The beginning of a frame of zstd with the dictionary of the frames that follow, as web archives have it.
const DICTIONARY: &[u8] = &[0x5d, 0x2a, 0x4d, 0x18];
/// The most bytes that a dictionary may have. Those of web archives have about a hundred thousand.
const MOST_DICTIONARY_BYTES: u64 = 32 << 20;

/// Whether bytes begin as a frame of zstd that holds no data.
fn is_skippable_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

impl Unpacked {
    /// An input from its beginning. It is packed if it begins so. If it cannot be read `again`, all its places are
    /// counted from its beginning.
    pub(super) fn new(stored: Stored, again: bool) -> io::Result<Self> {
        let mut stored = StoredBytes::new(stored, 0);
        let beginning = stored.peek(4)?;
        let packing = match beginning {
            _ if beginning.starts_with(GZIP) => Packing::Gzip,
            _ if beginning.starts_with(ZSTD) || is_skippable_frame(beginning) => Packing::Zstd,
            _ => Packing::None,
        };
        let part = if packing == Packing::None { Part::Plain(stored) } else { Part::Between(stored) };
        Ok(Self { is_read_once: !again, packing, ..Self::from_part(part, 0) })
    }

    /// The rows of a Parquet file. Its places are counted from its beginning.
    #[cfg(feature = "parquet")]
    pub(super) fn of_rows(rows: Stored, length: u64) -> Self {
        Self { packing: Packing::Parquet, ..Self::from_part(Part::Rows(rows, length), 0) }
    }

    /// The same input, read from a stored offset on, where a part begins if it is packed.
    pub(super) fn again_from(&self, stored: Stored, offset: u64) -> Self {
        let stored = StoredBytes::new(stored, offset);
        let part = if self.is_packed() { Part::Between(stored) } else { Part::Plain(stored) };
        let Self { dictionary, packing, .. } = self;
        Self { dictionary: dictionary.clone(), packing: *packing, ..Self::from_part(part, offset) }
    }

    fn from_part(part: Part, offset: u64) -> Self {
        let parts = VecDeque::from([(0, offset)]);
        Self {
            part,
            head: Vec::new(),
            head_read: 0,
            unpacked: 0,
            parts,
            part_begins: (0, offset),
            is_read_once: false,
            dictionary: Vec::new(),
            packing: Packing::None,
        }
    }

    pub(super) fn is_packed(&self) -> bool {
        !matches!(self.part, Part::Plain(_))
    }

    /// Whether it is the rows of a Parquet file.
    pub(super) fn is_of_rows(&self) -> bool {
        self.packing.is_of_rows()
    }

    /// With what it is packed.
    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    /// Looks at the next bytes, until `enough` says so, or the input ends.
    pub(super) fn peek(&mut self, enough: impl Fn(&[u8]) -> bool) -> io::Result<&[u8]> {
        let mut buffer = vec![0; 16 << 10];
        while !enough(&self.head[self.head_read..]) {
            match self.unpack(&mut buffer) {
                Ok(0) => break,
                Ok(length) => self.head.extend_from_slice(&buffer[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                // It is met again when the bytes before it have been read.
                Err(_) if self.head.len() > self.head_read => break,
                Err(error) => return Err(error),
            }
        }
        Ok(&self.head[self.head_read..])
    }

    /// Passes over bytes, and returns the last of them, at most `keep`. Fewer are passed over at the end of the input.
    pub(super) fn pass_over(&mut self, mut bytes: u64, keep: usize) -> io::Result<Vec<u8>> {
        let (mut kept, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
        while bytes > 0 {
            let most = usize::try_from(bytes).map_or(buffer.len(), |it| it.min(buffer.len()));
            match self.read(&mut buffer[..most]) {
                Ok(0) => break,
                Ok(length) => {
                    kept.extend_from_slice(&buffer[..length]);
                    kept.drain(..kept.len().saturating_sub(keep));
                    bytes -= length as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(kept)
    }

    /// The stored offset of a part, and the unpacked bytes from there to an unpacked offset. Offsets grow from call to
    /// call.
    pub(super) fn place_of(&mut self, offset: u64) -> (u64, u64) {
        while self.parts.get(1).is_some_and(|next| next.0 <= offset) {
            self.parts.pop_front();
        }
        let (unpacked, stored) = self.parts[0];
        let skip = offset - unpacked;
        if self.is_packed() { (stored, skip) } else { (stored + skip, 0) }
    }

    /// The number of stored bytes that were read. At the end of the input, this is its length.
    pub(super) fn stored_offset(&self) -> u64 {
        match &self.part {
            Part::Plain(stored) | Part::Between(stored) => stored.at,
            Part::Gzip(decoder) => decoder.get_ref().at,
            Part::Zstd(decoder) => decoder.get_ref().at,
            #[cfg(feature = "parquet")]
            Part::Rows(_, length) => *length,
            Part::Taken => 0,
        }
    }

    /// Reads from the part, and goes on to the next where it ends.
    fn unpack(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match &mut self.part {
                Part::Plain(stored) => return stored.read(buffer),
                #[cfg(feature = "parquet")]
                Part::Rows(rows, _) => return rows.read(buffer),
                Part::Gzip(decoder) => decoder.read(buffer),
                Part::Zstd(decoder) => decoder.read(buffer),
                Part::Between(_) => {
                    if self.begin_part()? {
                        continue;
                    }
                    return Ok(0);
                }
                Part::Taken => return Ok(0),
            };
            match read {
                Ok(0) if !buffer.is_empty() => self.end_part(),
                Ok(length) => {
                    self.unpacked += length as u64;
                    return Ok(length);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => return Err(self.damaged(&error)),
            }
        }
    }

    /// Begins the next packed part. False at the end of the input.
    fn begin_part(&mut self) -> io::Result<bool> {
        let Part::Between(mut stored) = mem::replace(&mut self.part, Part::Taken) else { return Ok(false) };
        self.pass_over_padding(&mut stored)?;
        let at = stored.at;
        let beginning = stored.peek(4)?.to_vec();
        self.part = if beginning.starts_with(GZIP) {
            Part::Gzip(Box::new(GzDecoder::new(stored)))
        } else if beginning.starts_with(ZSTD) {
            let decoder = zstd::Decoder::with_dictionary(stored, &self.dictionary)?;
            Part::Zstd(Box::new(decoder.single_frame()))
        } else if beginning.is_empty() {
            self.part = Part::Between(stored);
            return Ok(false);
        } else {
            let reason =
                format!("behind packed data, at byte {at}, there are bytes that are neither gzip nor zstd");
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        };
        self.part_begins = (self.unpacked, at);
        if !self.is_read_once {
            self.parts.push_back(self.part_begins);
        }
        Ok(true)
    }

    /// Passes over zeros, with which tapes fill up the end, and over frames without data. Keeps a dictionary.
    fn pass_over_padding(&mut self, stored: &mut StoredBytes) -> io::Result<()> {
        loop {
            let at = stored.at;
            let beginning = stored.peek(8)?;
            if beginning.first() == Some(&0) {
                let zeros = beginning.iter().take_while(|&&byte| byte == 0).count();
                stored.consume(zeros);
            } else if is_skippable_frame(beginning) {
                let is_dictionary = beginning.starts_with(DICTIONARY) && at == 0;
                let length = beginning.get(4..8).and_then(|it| it.try_into().ok()).map(u32::from_le_bytes);
                let length = u64::from(length.ok_or(io::ErrorKind::UnexpectedEof)?);
                stored.consume(8);
                if is_dictionary {
                    self.dictionary = read_dictionary(stored, length)?;
                } else {
                    io::copy(&mut stored.take(length), &mut io::sink())?;
                }
            } else {
                return Ok(());
            }
        }
    }

    fn end_part(&mut self) {
        self.part = match mem::replace(&mut self.part, Part::Taken) {
            Part::Gzip(decoder) => Part::Between(decoder.into_inner()),
            Part::Zstd(decoder) => Part::Between(decoder.finish()),
            other => other,
        };
    }

    /// The error for a packed part that cannot be unpacked further.
    fn damaged(&self, error: &io::Error) -> io::Error {
        if !matches!(
            error.kind(),
            io::ErrorKind::InvalidInput
                | io::ErrorKind::InvalidData
                | io::ErrorKind::UnexpectedEof
                | io::ErrorKind::Other
        ) {
            return io::Error::new(error.kind(), error.to_string());
        }
        let (unpacked, stored) = self.part_begins;
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "ends too early",
            _ => "is damaged",
        };
        let mut reason = format!("the packed data that begins at byte {stored} {what} ({error})");
        if self.unpacked > unpacked {
            // Only the end of a part has its checksum.
            reason += "; what was unpacked of it before may be damaged too";
        }
        io::Error::new(error.kind(), reason)
    }
}

/// Reads a dictionary of zstd, which may itself be packed.
fn read_dictionary(stored: &mut StoredBytes, length: u64) -> io::Result<Vec<u8>> {
    let too_long = || io::Error::new(io::ErrorKind::InvalidData, "the dictionary of zstd is too long");
    if length > MOST_DICTIONARY_BYTES {
        return Err(too_long());
    }
    let mut dictionary = Vec::new();
    stored.take(length).read_to_end(&mut dictionary)?;
    if !dictionary.starts_with(ZSTD) {
        return Ok(dictionary);
    }
    let mut unpacked = Vec::new();
    zstd::Decoder::with_buffer(dictionary.as_slice())?
        .take(MOST_DICTIONARY_BYTES + 1)
        .read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > MOST_DICTIONARY_BYTES { Err(too_long()) } else { Ok(unpacked) }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let head = &self.head[self.head_read..];
        if head.is_empty() {
            return self.unpack(buffer);
        }
        let length = head.len().min(buffer.len());
        buffer[..length].copy_from_slice(&head[..length]);
        self.head_read += length;
        if self.head_read == self.head.len() {
            (self.head, self.head_read) = (Vec::new(), 0);
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(text: &str) -> io::Result<Vec<u8>> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(text.as_bytes())?;
        encoder.finish()
    }

    fn unpacked(stored: &[u8]) -> io::Result<Unpacked> {
        Unpacked::new(Box::new(io::Cursor::new(stored.to_vec())), true)
    }

    fn text_of(mut unpacked: Unpacked) -> io::Result<String> {
        let mut text = String::new();
        unpacked.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn parts_of_gzip_and_zstd_may_follow_each_other_with_padding() -> io::Result<()> {
        let skippable = [&[0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
        let one = zstd::encode_all(&b"one "[..], 3)?;
        let (two, three) = (gzip("two ")?, gzip("three")?);
        let stored = [&one[..], &skippable, &two, &[0; 600], &three, &[0; 7]].concat();
        assert_eq!(text_of(unpacked(&stored)?)?, "one two three");
        assert_eq!(text_of(unpacked(b"plain")?)?, "plain");
        assert_eq!(text_of(unpacked(b"")?)?, "");
        Ok(())
    }

    #[test]
    fn reading_begins_again_at_every_place() -> io::Result<()> {
        let plain = b"one two three".to_vec();
        let members = [gzip("one ")?, gzip("two ")?, gzip("three")?].concat();
        let frames = [zstd::encode_all(&b"one "[..], 3)?, zstd::encode_all(&b"two three"[..], 3)?].concat();
        for stored in [plain, members, frames, gzip("one two three")?] {
            let mut whole = unpacked(&stored)?;
            for at in 0..=13 {
                let (offset, skip) = whole.place_of(at);
                let rest = io::Cursor::new(stored[offset as usize..].to_vec());
                let mut again = whole.again_from(Box::new(rest), offset);
                again.pass_over(skip, 0)?;
                assert_eq!(text_of(again)?, "one two three"[at as usize..], "byte {at}");
                whole.pass_over(1, 0)?;
            }
            assert_eq!(whole.stored_offset(), stored.len() as u64);
        }
        Ok(())
    }

    #[test]
    fn frames_of_zstd_are_unpacked_with_the_dictionary_before_them() -> io::Result<()> {
        let dictionary = b"WARC/1.0 WARC-Type: response WARC-Target-URI: https://example.org/".repeat(4);
        let mut packed = zstd::bulk::Compressor::with_dictionary(3, &dictionary)?;
        let frame = packed.compress(b"WARC/1.0 WARC-Type: response")?;
        for stored in [dictionary.clone(), zstd::encode_all(dictionary.as_slice(), 3)?] {
            let length = (stored.len() as u32).to_le_bytes();
            let whole = [DICTIONARY, &length, &stored, &frame, &frame].concat();
            let mut all = unpacked(&whole)?;
            all.pass_over(28, 0)?;
            assert_eq!(text_of(all)?, "WARC/1.0 WARC-Type: response");
            let mut all = unpacked(&whole)?;
            all.pass_over(29, 0)?;
            let (offset, skip) = all.place_of(28);
            assert_eq!((offset as usize, skip), (whole.len() - frame.len(), 0));
            let rest = all.again_from(Box::new(io::Cursor::new(frame.clone())), offset);
            assert_eq!(text_of(rest)?, "WARC/1.0 WARC-Type: response");
        }
        Ok(())
    }

    #[test]
    fn damage_is_told_with_its_place_and_with_what_it_may_have_touched() -> io::Result<()> {
        let text: String = (0..20_000).map(|it| format!("{it} ")).collect();
        let (first, second) = (gzip("one ")?, gzip(&text)?);
        let mut flipped = [first.clone(), second.clone()].concat();
        let at = first.len() + second.len() - 6;
        flipped[at] ^= 1;
        let error = text_of(unpacked(&flipped)?).err().map(|it| it.to_string()).unwrap_or_default();
        assert!(
            error.starts_with(&format!("the packed data that begins at byte {} is damaged", first.len())),
            "{error}"
        );
        assert!(error.contains("what was unpacked of it before may be damaged too"), "{error}");
        let short = [&first[..], &second[..second.len() / 2]].concat();
        let error = text_of(unpacked(&short)?).err().map(|it| it.to_string()).unwrap_or_default();
        assert!(error.contains("ends too early"), "{error}");
        let odd = [&first[..], b"rest"].concat();
        let error = text_of(unpacked(&odd)?).err().map(|it| it.to_string()).unwrap_or_default();
        assert!(error.contains("neither gzip nor zstd"), "{error}");
        Ok(())
    }
}
