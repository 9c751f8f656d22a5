//! From the bytes of an input as it is stored to those of its records: unpacks members of gzip and frames of zstd, one
//! after the other. Knows where each part begins, so that reading can begin there, and finds the next one behind
//! damage. Any number of bytes can be looked at before they are used.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};
use std::mem;

use flate2::bufread::GzDecoder;

use super::encoding::UTF_8_MARK;
use super::stored_bytes::{Stored, StoredBytes};
use super::unreadable::kind_of;

/// The bytes of an input, unpacked. A packed input may have many parts, each of which is unpacked on its own.
///
/// Once reading has failed, the bytes before are still read, and then every reading fails with the same error.
pub(super) struct Unpacked {
    part: Part,
    /// Room for unpacked bytes, and which of these were not used yet.
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// The number of unpacked bytes, those in the buffer included.
    unpacked: u64,
    /// Where parts begin: in the unpacked bytes, and in the stored ones. The last ones that may be asked for.
    parts: VecDeque<(u64, u64)>,
    /// Why nothing more can be read.
    failed: Option<Failure>,
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
    Parquet,
}

impl Packing {
    /// Whether it is that of a Parquet file, which has rows in place of bytes.
    pub(crate) fn is_of_rows(self) -> bool {
        self == Self::Parquet
    }
}

/// Why an input cannot be read further.
struct Failure {
    kind: io::ErrorKind,
    reason: String,
    /// The stored offset of the damage, or where the damaged part begins.
    at: u64,
    /// Whether the packed data are damaged. Otherwise they could not be had.
    is_damage: bool,
}

impl Failure {
    fn to_error(&self) -> io::Error {
        io::Error::new(self.kind, self.reason.clone())
    }
}

/// The room for unpacked bytes, unless more are looked at.
const ROOM: usize = 256 << 10;
/// Records of so many bytes are not copied out of the room, but get it.
const LARGE: usize = 1 << 20;

impl Unpacked {
    /// An input from its beginning. It is packed if it begins so.
    pub(super) fn new(stored: Stored) -> io::Result<Self> {
        let mut stored = StoredBytes::new(stored, 0);
        let beginning = stored.peek(4)?;
        let packing = match beginning {
            _ if beginning.starts_with(GZIP) => Packing::Gzip,
            _ if begins_frame(beginning) => Packing::Zstd,
            _ => Packing::None,
        };
        Ok(Self::from_stored(stored, packing))
    }

    /// The same input before anything of it was read, which is a packed web archive by its name. If it begins neither
    /// so nor as one that is not packed, its beginning is damaged.
    pub(super) fn of_packed_archive(mut self) -> io::Result<Self> {
        if let Part::Plain(stored) = &mut self.part {
            let beginning = stored.peek(512)?;
            if beginning.is_empty() || begins_archive(beginning) {
                return Ok(self);
            }
            if let Some(kind) = kind_of(beginning) {
                return Err(io::Error::new(io::ErrorKind::InvalidData, kind));
            }
            self.packing = Packing::Gzip;
            self.part.end();
        }
        Ok(self)
    }

    /// The rows of a Parquet file. Its places are counted from its beginning.
    pub(super) fn from_rows(rows: Stored, length: u64) -> Self {
        Self {
            packing: Packing::Parquet,
            ..Self::from_part(Part::Rows(rows, length), 0)
        }
    }

    /// The same input, read from a stored offset on, where a part begins if it is packed.
    pub(super) fn again_from(&self, stored: Stored, offset: u64) -> Self {
        let stored = StoredBytes::new(stored, offset);
        Self {
            dictionary: self.dictionary.clone(),
            ..Self::from_stored(stored, self.packing)
        }
    }

    fn from_stored(stored: StoredBytes, packing: Packing) -> Self {
        let offset = stored.at;
        let part = if packing == Packing::None {
            Part::Plain(stored)
        } else {
            Part::Between(stored)
        };
        Self {
            packing,
            ..Self::from_part(part, offset)
        }
    }

    fn from_part(part: Part, offset: u64) -> Self {
        Self {
            part,
            buffer: vec![0; ROOM],
            from: 0,
            to: 0,
            unpacked: 0,
            parts: VecDeque::from([(0, offset)]),
            failed: None,
            dictionary: Vec::new(),
            packing: Packing::None,
        }
    }

    /// Refuses to go on where packed records of a web archive begin in an input that is not packed: what is behind
    /// would be lost.
    pub(super) fn ensure_not_packed_here(&mut self) -> io::Result<()> {
        if self.is_packed() {
            return Ok(());
        }
        let bytes = self.look(MOST_MEMBER_HEADER + BEGINNING_OF_MEMBER)?;
        let is_part = member_header(bytes).is_some() || bytes.starts_with(ZSTD);
        if !is_part || !Search::new(&[])?.is_at_record(bytes) {
            return Ok(());
        }
        let (at, _) = self.part_of(self.offset());
        let reason = format!(
            "packed records begin at byte {at}, behind others that are not packed; cut the archive in two there"
        );
        Err(io::Error::new(io::ErrorKind::InvalidData, reason))
    }

    pub(super) fn packing(&self) -> Packing {
        self.packing
    }

    fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// The number of unpacked bytes that were used.
    pub(super) fn offset(&self) -> u64 {
        self.unpacked - self.buffered().len() as u64
    }

    /// The bytes that can be used without reading.
    pub(super) fn buffered(&self) -> &[u8] {
        &self.buffer[self.from..self.to]
    }

    /// The next bytes: at least `least`, unless the input ends or fails before. An error if there is none.
    pub(super) fn look(&mut self, least: usize) -> io::Result<&[u8]> {
        self.peek(|bytes| bytes.len() >= least)
    }

    /// Looks at the next bytes, until `enough` says so, or the input ends or fails. An error if there is none.
    pub(super) fn peek(&mut self, enough: impl Fn(&[u8]) -> bool) -> io::Result<&[u8]> {
        while !enough(self.buffered()) {
            match self.step() {
                Ok(true) => {}
                Ok(false) => break,
                // It is met again when the bytes before it have been read.
                Err(_) if self.from < self.to => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.buffered())
    }

    /// The number of bytes of the part in which the next byte is that can be looked at: at least `least`, unless the
    /// part ends before. Fails if there are fewer because reading has failed.
    pub(super) fn look_in_part(&mut self, least: usize) -> io::Result<usize> {
        while self.buffered().len() < least && self.end_of_part().is_none() {
            match self.step() {
                Ok(true) => {}
                Ok(false) | Err(_) => break,
            }
        }
        let length = self.buffered_in_part().len();
        match self.failure() {
            Some(error) if length < least && self.end_of_part().is_none() => Err(error),
            _ => Ok(length),
        }
    }

    /// The bytes of the part in which the next byte is that can be used without reading.
    pub(super) fn buffered_in_part(&self) -> &[u8] {
        let buffered = self.buffered();
        let left = match self.end_of_part() {
            Some(end) => usize::try_from(end - self.offset()).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        &buffered[..buffered.len().min(left)]
    }

    /// Whether the next byte is the first one of a packed part. It has been looked at.
    pub(super) fn is_at_part(&self) -> bool {
        let next = self.next_part();
        self.is_packed() && next > 0 && self.parts[next - 1].0 == self.offset()
    }

    /// The number of parts that begin at the next byte or before.
    fn next_part(&self) -> usize {
        let offset = self.offset();
        self.parts.partition_point(|part| part.0 <= offset)
    }

    /// The unpacked offset at which the packed part ends in which the next byte is. `None` if the end was not read yet.
    fn end_of_part(&self) -> Option<u64> {
        match self.parts.get(self.next_part()) {
            Some(&(begin, _)) => Some(begin),
            None if matches!(self.part, Part::Between(_)) => Some(self.unpacked),
            None => None,
        }
    }

    /// Passes over bytes, and returns the last of them, at most `keep`. Fewer are passed over at the end of the input.
    /// Damage behind which the reading went on is passed over as it was then.
    pub(super) fn pass_over(&mut self, mut bytes: u64, keep: usize) -> io::Result<Vec<u8>> {
        let mut kept = Vec::new();
        while bytes > 0 {
            let length = match self.look(1).map(<[u8]>::len) {
                Ok(length) => length,
                Err(_) if self.find_record()? => continue,
                Err(error) => return Err(error),
            };
            let length = length.min(usize::try_from(bytes).unwrap_or(usize::MAX));
            if length == 0 {
                break;
            }
            let buffer = self.buffered();
            kept.extend_from_slice(&buffer[length.saturating_sub(keep)..length]);
            kept.drain(..kept.len().saturating_sub(keep));
            self.consume(length);
            bytes -= length as u64;
        }
        Ok(kept)
    }

    /// Uses bytes that were looked at, and returns them.
    pub(super) fn take_out(&mut self, length: usize) -> Vec<u8> {
        if length < LARGE {
            let taken = self.buffered()[..length].to_vec();
            self.consume(length);
            return taken;
        }
        let mut rest = self.buffered()[length..].to_vec();
        let left = rest.len();
        rest.resize(left.max(ROOM), 0);
        let mut taken = mem::replace(&mut self.buffer, rest);
        taken.truncate(self.from + length);
        taken.drain(..self.from);
        taken.shrink_to_fit();
        self.from = 0;
        self.to = left;
        taken
    }

    /// The stored offset of a part, and the unpacked bytes from there to an unpacked offset. Offsets grow from call to
    /// call.
    pub(super) fn part_of(&mut self, offset: u64) -> (u64, u64) {
        while self.parts.get(1).is_some_and(|next| next.0 <= offset) {
            self.parts.pop_front();
        }
        let (unpacked, stored) = self.parts[0];
        let skip = offset - unpacked;
        if self.is_packed() {
            (stored, skip)
        } else {
            (stored + skip, 0)
        }
    }

    /// The number of stored bytes that were read. At the end of the input, this is its length.
    pub(super) fn stored_offset(&self) -> u64 {
        self.part.stored_offset()
    }

    /// The error of reading further than what is buffered, if that has failed.
    pub(super) fn failure(&self) -> Option<io::Error> {
        self.failed.as_ref().map(Failure::to_error)
    }

    /// The damage for which the input cannot be read further than what is buffered: its reason, and its stored offset
    /// or that of the damaged part.
    pub(super) fn damage(&self) -> Option<(&str, u64)> {
        let failure = self.failed.as_ref().filter(|failure| failure.is_damage)?;
        Some((&failure.reason, failure.at))
    }

    /// Goes on behind damage, at the next packed part that begins as a record of a web archive does. False if there is
    /// none. What is buffered has been used.
    pub(super) fn find_record(&mut self) -> io::Result<bool> {
        let Some((_, at)) = self.damage() else {
            return Ok(false);
        };
        // What is no part may have one behind its first byte.
        let found = self.part.find_record(at + 1, &self.dictionary)?;
        if found {
            self.failed = None;
            // The part begins now, so that no place behind the damage is one before.
            self.step()?;
        }
        Ok(found)
    }

    /// Reads some bytes into the buffer, or goes on to the next part. False at the end of the input. Fails as before if
    /// that has failed.
    fn step(&mut self) -> io::Result<bool> {
        if let Some(failure) = &self.failed {
            return Err(failure.to_error());
        }
        self.make_room();
        let read = match &mut self.part {
            Part::Between(_) => return self.begin_part(),
            part => part.read(&mut self.buffer[self.to..]),
        };
        match read {
            Ok(0) if matches!(self.part, Part::Gzip(_) | Part::Zstd(_)) => {
                self.part.end();
                Ok(true)
            }
            Ok(0) => Ok(false),
            Ok(length) => {
                self.to += length;
                self.unpacked += length as u64;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => {
                let begins = self.parts.back().map_or(0, |part| part.1);
                let reason = self.reason_of(&error, begins);
                Err(self.fail(&error, reason, begins))
            }
        }
    }

    fn begin_part(&mut self) -> io::Result<bool> {
        let ended = self.stored_offset();
        match self.part.begin(&mut self.dictionary) {
            Ok(None) => Ok(false),
            Ok(Some(at)) => {
                // Of parts without bytes only the last one counts.
                if self
                    .parts
                    .back()
                    .is_some_and(|last| last.0 == self.unpacked)
                {
                    self.parts.pop_back();
                }
                self.parts.push_back((self.unpacked, at));
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(true),
            Err(error) => {
                let at = self.stored_offset();
                match error.kind() {
                    io::ErrorKind::UnexpectedEof => {
                        let reason =
                            format!("the input ends within a frame without data, at byte {at}");
                        Err(self.fail(&error, reason, ended))
                    }
                    _ => Err(self.fail(&error, error.to_string(), at)),
                }
            }
        }
    }

    fn fail(&mut self, error: &io::Error, reason: String, at: u64) -> io::Error {
        let failure = Failure {
            kind: error.kind(),
            reason,
            at,
            is_damage: self.is_damage(error),
        };
        let error = failure.to_error();
        self.failed = Some(failure);
        error
    }

    /// Whether an error of reading says that packed data are not as they should be.
    fn is_damage(&self, error: &io::Error) -> bool {
        self.is_packed() && is_of_content(error) && !self.part.cannot_be_had()
    }

    /// Why a part cannot be read further.
    fn reason_of(&self, error: &io::Error, begins: u64) -> String {
        if !self.is_damage(error) {
            return error.to_string();
        }
        let what = match error.kind() {
            io::ErrorKind::UnexpectedEof => "ends too early",
            _ => "is damaged",
        };
        let mut reason = format!("the packed data that begins at byte {begins} {what} ({error})");
        if self.parts.back().is_some_and(|part| self.unpacked > part.0) {
            // Only the end of a part has its checksum.
            reason += "; what was unpacked of it before may be damaged too";
        }
        reason
    }

    /// Makes room at the end of the buffer.
    fn make_room(&mut self) {
        if self.from == self.to {
            self.from = 0;
            self.to = 0;
            if self.buffer.len() > 4 * LARGE {
                self.buffer = vec![0; ROOM];
            }
        } else if self.to == self.buffer.len() && self.from >= self.buffer.len() / 2 {
            self.buffer.copy_within(self.from..self.to, 0);
            self.to -= self.from;
            self.from = 0;
        } else if self.to == self.buffer.len() {
            self.buffer.resize(2 * self.to, 0);
        }
    }
}

/// Whether the reason of an error may be in the content, as with the errors of decoders.
pub(super) fn is_of_content(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, Other, UnexpectedEof};
    matches!(
        error.kind(),
        InvalidInput | InvalidData | UnexpectedEof | Other
    )
}

impl BufRead for Unpacked {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.look(1)
    }

    fn consume(&mut self, length: usize) {
        self.from += length;
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.fill_buf()?.read(buffer)?;
        self.consume(length);
        Ok(length)
    }
}

/// Where the reading of an input stands.
enum Part {
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

/// How the bytes at the beginning of a part, or between parts, are to be read.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// The beginning of a frame of zstd with the dictionary of the frames that follow, as web archives have it.
const DICTIONARY: &[u8] = &[0x5d, 0x2a, 0x4d, 0x18];
/// The bytes in which a part is looked for at a time. The first block of a frame has no more than half as many.
const LOOKED_AT: usize = 512 << 10;

/// Whether bytes begin as a frame of zstd, or as one that holds no data and is to be passed over.
pub(super) fn begins_frame(bytes: &[u8]) -> bool {
    bytes.starts_with(ZSTD) || is_skippable_frame(bytes)
}

/// Whether bytes begin as a frame of zstd that holds no data.
fn is_skippable_frame(bytes: &[u8]) -> bool {
    matches!(bytes, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// What is behind the bytes that may stand between parts, and between the records of an archive: zeros, with which
/// tapes fill up the end, and line ends and spaces.
pub(super) fn without_padding(bytes: &[u8]) -> &[u8] {
    let mut each = bytes.iter();
    let padding = each.position(|&byte| byte != 0 && !byte.is_ascii_whitespace());
    &bytes[padding.unwrap_or(bytes.len())..]
}

/// Whether a web archive begins here, perhaps behind what archives have between records.
pub(super) fn begins_archive(beginning: &[u8]) -> bool {
    let beginning = beginning.strip_prefix(UTF_8_MARK).unwrap_or(beginning);
    without_padding(beginning).starts_with(b"WARC/")
}

impl Part {
    /// Reads from this part. Zero at its end, and between parts.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stored) => stored.read(buffer),
            Self::Rows(rows, _) => rows.read(buffer),
            Self::Gzip(decoder) => decoder.read(buffer),
            Self::Zstd(frame) => frame.read(buffer),
            Self::Between(_) | Self::Taken => Ok(0),
        }
    }

    fn stored(&self) -> Option<&StoredBytes> {
        match self {
            Self::Plain(stored) | Self::Between(stored) => Some(stored),
            Self::Gzip(decoder) => Some(decoder.get_ref()),
            Self::Zstd(frame) => Some(frame.stored()),
            Self::Rows(..) | Self::Taken => None,
        }
    }

    /// The number of stored bytes that were used.
    fn stored_offset(&self) -> u64 {
        match self {
            Self::Rows(_, length) => *length,
            part => part.stored().map_or(0, |stored| stored.at),
        }
    }

    /// Whether the stored bytes themselves cannot be read further.
    fn cannot_be_had(&self) -> bool {
        let is_of_rows = matches!(self, Self::Rows(..));
        is_of_rows || self.stored().is_some_and(|stored| stored.has_failed)
    }

    /// Ends a part, so that another one can follow. What was not read of it is left out.
    fn end(&mut self) {
        *self = match mem::replace(self, Self::Taken) {
            Self::Gzip(decoder) => Self::Between(decoder.into_inner()),
            Self::Zstd(frame) => Self::Between(frame.into_stored()),
            Self::Plain(stored) => Self::Between(stored),
            other => other,
        };
    }

    /// Begins the next packed part, and returns where. `None` at the end of the input.
    fn begin(&mut self, dictionary: &mut Vec<u8>) -> io::Result<Option<u64>> {
        let Self::Between(stored) = self else {
            return Ok(None);
        };
        pass_over_padding(stored, dictionary)?;
        let at = stored.at;
        let beginning = stored.peek(16)?;
        let is_gzip = beginning.starts_with(GZIP);
        let is_zstd = beginning.starts_with(ZSTD);
        if beginning.is_empty() {
            return Ok(None);
        }
        if !is_gzip && !is_zstd {
            let behind = if at > 0 { "behind packed data, " } else { "" };
            let advice = match beginning.starts_with(b"WARC/") {
                true => "; cut the archive in two there",
                false => "",
            };
            let reason = format!(
                "{behind}at byte {at}, there are bytes that are neither gzip nor zstd{advice}"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
        }
        if let Some(error) = lacks_dictionary(beginning, at, dictionary) {
            return Err(error);
        }
        stored.keep_from_here();
        let Self::Between(stored) = mem::replace(self, Self::Taken) else {
            return Ok(None);
        };
        *self = if is_gzip {
            Self::Gzip(Box::new(GzDecoder::new(stored)))
        } else {
            Self::Zstd(Box::new(Frame::new(stored, dictionary)?))
        };
        Ok(Some(at))
    }

    /// Goes back to an offset, and from there to the next part that begins as a record of a web archive does. False if
    /// there is none.
    fn find_record(&mut self, from: u64, dictionary: &[u8]) -> io::Result<bool> {
        self.end();
        let Self::Between(stored) = self else {
            return Ok(false);
        };
        stored.go_back_to(from);
        // A decoder that has failed may have used nothing.
        let ahead = from.saturating_sub(stored.at);
        io::copy(&mut stored.take(ahead), &mut io::sink())?;
        let mut search = Search::new(dictionary)?;
        loop {
            let bytes = stored.peek(LOOKED_AT)?;
            let is_rest = bytes.len() < LOOKED_AT;
            let mut reach = bytes.len();
            if !is_rest {
                reach -= LOOKED_AT / 2;
            }
            let mut places = memchr::memchr2_iter(GZIP[0], ZSTD[0], &bytes[..reach]);
            let found = places.find(|&at| search.is_at_record(&bytes[at..]));
            stored.consume(found.unwrap_or(reach));
            if found.is_some() || is_rest {
                return Ok(found.is_some());
            }
        }
    }
}

/// The most bytes of the header of a member of gzip behind damage. Those of archives have some ten.
const MOST_MEMBER_HEADER: usize = 1 << 10;
/// So many bytes behind the header unpack to the beginning of a record.
const BEGINNING_OF_MEMBER: usize = 4 << 10;

/// Looks for records of web archives behind damage. What only begins as a packed part does costs little, however often
/// it comes.
struct Search {
    /// For all frames of zstd, since to take in a dictionary takes long.
    frames: zstd::stream::raw::Decoder<'static>,
}

impl Search {
    fn new(dictionary: &[u8]) -> io::Result<Self> {
        let frames = zstd::stream::raw::Decoder::with_dictionary(dictionary)?;
        Ok(Self { frames })
    }

    /// Whether a packed part begins here that holds a record of a web archive.
    fn is_at_record(&mut self, bytes: &[u8]) -> bool {
        let beginning = if let Some(header) = member_header(bytes) {
            let end = bytes.len().min(header + BEGINNING_OF_MEMBER);
            let mut beginning = [0; 6];
            let read = GzDecoder::new(&bytes[..end]).read_exact(&mut beginning);
            read.is_ok().then_some(beginning)
        } else if bytes.starts_with(ZSTD) {
            self.beginning_of_frame(bytes)
        } else {
            None
        };
        matches!(beginning, Some([b'W', b'A', b'R', b'C', b'/', b'0'..=b'9']))
    }

    /// The first bytes of a frame of zstd. `None` if there are fewer.
    fn beginning_of_frame(&mut self, bytes: &[u8]) -> Option<[u8; 6]> {
        use zstd::stream::raw::{InBuffer, Operation as _, OutBuffer};

        self.frames.reinit().ok()?;
        let mut beginning = [0; 6];
        let mut from = InBuffer::around(bytes);
        let mut to = OutBuffer::around(&mut beginning[..]);
        while to.pos() < 6 {
            let before = (from.pos, to.pos());
            self.frames.run(&mut from, &mut to).ok()?;
            if (from.pos, to.pos()) == before {
                return None;
            }
        }
        Some(beginning)
    }
}

/// The length of the header of the member of gzip that begins here, by RFC 1952. `None` if it is none, or if it is
/// longer than any that is looked for.
fn member_header(bytes: &[u8]) -> Option<usize> {
    let bytes = &bytes[..bytes.len().min(MOST_MEMBER_HEADER)];
    let &[0x1f, 0x8b, 8, flags @ 0..0x20, _, _, _, _, _, _, ..] = bytes else {
        return None;
    };
    let mut length = 10;
    if flags & 0x04 != 0 {
        let extra = bytes.get(length..)?.first_chunk()?;
        length += 2 + usize::from(u16::from_le_bytes(*extra));
    }
    for with_text in [0x08, 0x10] {
        if flags & with_text != 0 {
            length += memchr::memchr(0, bytes.get(length..)?)? + 1;
        }
    }
    if flags & 0x02 != 0 {
        length += 2;
    }
    (length <= bytes.len()).then_some(length)
}

/// Passes over what may stand between parts, and over frames without data. Keeps a dictionary.
fn pass_over_padding(stored: &mut StoredBytes, dictionary: &mut Vec<u8>) -> io::Result<()> {
    loop {
        let at = stored.at;
        let beginning = stored.peek(8)?;
        let padding = beginning.len() - without_padding(beginning).len();
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

// Frames of zstd, unpacked in bounded memory: how large a window a frame may want, and the dictionaries of frames.

struct Frame {
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
    fn new(mut stored: StoredBytes, dictionary: &[u8]) -> io::Result<Self> {
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

    fn stored(&self) -> &StoredBytes {
        self.decoder.get_ref()
    }

    fn into_stored(self) -> StoredBytes {
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
fn lacks_dictionary(bytes: &[u8], at: u64, dictionary: &[u8]) -> Option<io::Error> {
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
    let Some([descriptor, rest @ ..]) = bytes.strip_prefix(ZSTD) else {
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
    let Some([descriptor, rest @ ..]) = bytes.strip_prefix(ZSTD) else {
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
