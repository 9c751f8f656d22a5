//! From the bytes of an input as it is stored to those of its records: unpacks gzip and zstd. Knows where each packed
//! part begins, so that reading can begin there. Any number of bytes can be looked at before they are used.

use std::collections::VecDeque;
use std::io::{self, BufRead, Read};

use super::part::{GZIP, Part, ZSTD, is_skippable_frame};
use super::stored_bytes::{Stored, StoredBytes};

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
    /// Whether all places are counted from the beginning of the input.
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
    Parquet,
}

impl Packing {
    /// Whether it is that of a Parquet file, which has rows in place of bytes.
    pub(crate) fn is_of_rows(self) -> bool {
        self == Self::Parquet
    }
}

/// Why an input cannot be read further.
#[derive(Clone, Debug)]
pub(super) struct Failure {
    kind: io::ErrorKind,
    pub(super) reason: String,
    /// The stored offset of the damage, or where the damaged part begins.
    pub(super) at: u64,
    /// Whether the packed data are damaged. Otherwise they could not be had.
    is_damage: bool,
}

impl Failure {
    fn to_error(&self) -> io::Error {
        io::Error::new(self.kind, self.reason.clone())
    }
}

/// What a step has brought.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Bytes, or the beginning or the end of a packed part.
    Forward,
    /// The end of the input.
    End,
}

/// The room for unpacked bytes, unless more are looked at.
const ROOM: usize = 256 << 10;
/// Records of so many bytes are not copied out of the room, but get it.
const LARGE: usize = 1 << 20;

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
        Ok(Self {
            is_read_once: !again,
            ..Self::from_stored(stored, packing)
        })
    }

    /// The same input before anything of it was read, which is a packed web archive by its name. If it begins neither
    /// so nor as one that is not packed, its beginning is damaged.
    pub(super) fn of_packed_archive(mut self) -> io::Result<Self> {
        if let Part::Plain(stored) = &mut self.part {
            let beginning = stored.peek(5)?;
            if beginning.is_empty() || beginning.starts_with(b"WARC/") {
                return Ok(self);
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
            is_read_once: false,
            dictionary: Vec::new(),
            packing: Packing::None,
        }
    }

    pub(super) fn is_packed(&self) -> bool {
        self.packing != Packing::None
    }

    /// Whether it is the rows of a Parquet file.
    pub(super) fn is_of_rows(&self) -> bool {
        self.packing.is_of_rows()
    }

    /// With what it is packed.
    pub(super) fn packing(&self) -> Packing {
        self.packing
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
                Ok(Step::Forward) => {}
                Ok(Step::End) => break,
                // It is met again when the bytes before it have been read.
                Err(_) if self.from < self.to => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.buffered())
    }

    /// The next bytes of the part in which the next byte is: at least `least`, unless it ends or fails before.
    pub(super) fn look_in_part(&mut self, least: usize) -> &[u8] {
        while self.buffered().len() < least && self.end_of_part().is_none() {
            match self.step() {
                Ok(Step::Forward) => {}
                Ok(Step::End) | Err(_) => break,
            }
        }
        self.buffered_in_part()
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
    pub(super) fn end_of_part(&self) -> Option<u64> {
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
        let mut taken = std::mem::replace(&mut self.buffer, rest);
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

    /// Where to begin to read again at an unpacked offset, as in `part_of`.
    pub(super) fn place_of(&mut self, offset: u64) -> (u64, u64) {
        let place = self.part_of(offset);
        if self.is_read_once && self.is_packed() {
            (0, offset)
        } else {
            place
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

    /// Why the input cannot be read further than what is buffered, if it is damaged.
    pub(super) fn damage(&self) -> Option<&Failure> {
        self.failed.as_ref().filter(|failure| failure.is_damage)
    }

    /// Goes on behind damage, at the next packed part that begins as a record of a web archive does. False if there is
    /// none. What is buffered has been used.
    pub(super) fn find_record(&mut self) -> io::Result<bool> {
        let Some(Failure { at, .. }) = self.damage() else {
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

    /// Reads some bytes into the buffer, or goes on to the next part. Fails as before if that has failed.
    fn step(&mut self) -> io::Result<Step> {
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
                Ok(Step::Forward)
            }
            Ok(0) => Ok(Step::End),
            Ok(length) => {
                self.to += length;
                self.unpacked += length as u64;
                Ok(Step::Forward)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Step::Forward),
            Err(error) => {
                let begins = self.parts.back().map_or(0, |part| part.1);
                let reason = self.reason_of(&error, begins);
                Err(self.fail(&error, reason, begins))
            }
        }
    }

    fn begin_part(&mut self) -> io::Result<Step> {
        let ended = self.stored_offset();
        match self.part.begin(&mut self.dictionary) {
            Ok(None) => Ok(Step::End),
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
                Ok(Step::Forward)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Step::Forward),
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
        let is_damage = self.is_packed() && is_damage(error) && !self.part.cannot_be_had();
        let failure = Failure {
            kind: error.kind(),
            reason,
            at,
            is_damage,
        };
        let error = failure.to_error();
        self.failed = Some(failure);
        error
    }

    /// Why a part cannot be read further.
    fn reason_of(&self, error: &io::Error, begins: u64) -> String {
        if !self.is_packed() || self.is_of_rows() || !is_damage(error) || self.part.cannot_be_had()
        {
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

/// Whether the error of a decoder says that packed data are not as they should be.
fn is_damage(error: &io::Error) -> bool {
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

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::super::part::DICTIONARY;
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
        let frames = [
            zstd::encode_all(&b"one "[..], 3)?,
            zstd::encode_all(&b"two three"[..], 3)?,
        ]
        .concat();
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
        let dictionary =
            b"WARC/1.0 WARC-Type: response WARC-Target-URI: https://example.org/".repeat(4);
        let mut packed = zstd::bulk::Compressor::with_dictionary(3, &dictionary)?;
        let frame = packed.compress(b"WARC/1.0 WARC-Type: response")?;
        for stored in [
            dictionary.clone(),
            zstd::encode_all(dictionary.as_slice(), 3)?,
        ] {
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
        let text: String = (0..20_000).map(|number| format!("{number} ")).collect();
        let (first, second) = (gzip("one ")?, gzip(&text)?);
        let mut flipped = [first.clone(), second.clone()].concat();
        let at = first.len() + second.len() - 6;
        flipped[at] ^= 1;
        let error = text_of(unpacked(&flipped)?)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(
            error.starts_with(&format!(
                "the packed data that begins at byte {} is damaged",
                first.len()
            )),
            "{error}"
        );
        assert!(
            error.contains("what was unpacked of it before may be damaged too"),
            "{error}"
        );
        let short = [&first[..], &second[..second.len() / 2]].concat();
        let error = text_of(unpacked(&short)?)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(error.contains("ends too early"), "{error}");
        let odd = [&first[..], b"rest"].concat();
        let error = text_of(unpacked(&odd)?)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default();
        assert!(error.contains("neither gzip nor zstd"), "{error}");
        Ok(())
    }
}
