//! Cuts web archives (WARC) into records. A record whose length is wrong, or whose packed data are damaged, costs no
//! other record.
//!
//! A record is looked at up to its end before it is used. Its length is right if it ends with line ends, or if the next
//! record follows. Zeros and spaces may stand between records too: some writers put one behind each, and a loss of
//! power leaves many. A packed part that a record begins bounds that record, whatever its length says. Elsewhere the
//! line is looked for that begins the next one, or the whole header of one within a line.
//!
//! Pages are written by anybody, and a page may quote a record, or all but be one. So nothing within a record is one
//! unless its length is wrong, and to look for one takes a time that grows with the bytes alone.

use std::borrow::Cow;
use std::io::{self, BufRead as _, Write};

use super::input::RawContent;
use super::rejected::Offset;
use super::unpacked::{Unpacked, without_padding};
use super::warc_page::is_no_page;

/// The most bytes of a header. Those of records have some hundred.
const MOST_HEADER_BYTES: usize = 64 << 10;

/// The header of a record: its names and values.
pub(super) struct WarcHeader<'b>(&'b [u8]);

impl<'b> WarcHeader<'b> {
    /// The header at the beginning of a record, and what is behind it.
    pub(super) fn split(record: &'b [u8]) -> (Self, &'b [u8]) {
        let (header, body) = match header_end(record) {
            HeaderEnd::At(length) => record.split_at(length),
            HeaderEnd::Never | HeaderEnd::Further => (record, &[][..]),
        };
        (Self(header), body)
    }

    /// The value of a field, without the spaces around it. Lines that go on with it are joined by a space.
    pub(super) fn get(&self, name: &str) -> Option<Cow<'b, [u8]>> {
        let mut lines = self.0.split(|&byte| byte == b'\n').skip(1).peekable();
        while let Some(line) = lines.next() {
            let Some(colon) = memchr::memchr(b':', line) else {
                continue;
            };
            if goes_on(line)
                || !line[..colon]
                    .trim_ascii()
                    .eq_ignore_ascii_case(name.as_bytes())
            {
                continue;
            }
            let mut value = Cow::Borrowed(line[colon + 1..].trim_ascii());
            while let Some(more) = lines.next_if(|line| goes_on(line)) {
                let more = more.trim_ascii();
                if value.is_empty() {
                    value = Cow::Borrowed(more);
                } else if !more.is_empty() {
                    value.to_mut().push(b' ');
                    value.to_mut().extend_from_slice(more);
                }
            }
            return Some(value);
        }
        None
    }

    pub(super) fn text(&self, name: &str) -> Option<Cow<'b, str>> {
        match self.get(name)? {
            Cow::Borrowed(value) => std::str::from_utf8(value).ok().map(Cow::Borrowed),
            Cow::Owned(value) => String::from_utf8(value).ok().map(Cow::Owned),
        }
    }

    /// The length of the record behind the header.
    fn length(&self) -> Option<u64> {
        self.text("Content-Length")?.parse().ok()
    }

    fn has_type(&self) -> bool {
        self.get("WARC-Type").is_some()
    }

    /// Whether the record is of a type, such as `response`, in small or capital letters.
    pub(super) fn is_of_type(&self, name: &str) -> bool {
        let named = self.get("WARC-Type");
        named.is_some_and(|named| named.eq_ignore_ascii_case(name.as_bytes()))
    }

    /// Whether a record of this type may hold a page.
    fn may_hold_page(&self) -> bool {
        ["response", "resource", "conversion"]
            .iter()
            .any(|name| self.is_of_type(name))
    }
}

/// Whether a line of a header goes on with the field before.
fn goes_on(line: &[u8]) -> bool {
    matches!(line, [b' ' | b'\t', ..])
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum HeaderEnd {
    /// Behind so many bytes, with the blank line.
    At(usize),
    /// It does not: another record begins before, on a line or within one.
    Never,
    /// Not within these bytes.
    Further,
}

/// Where the header ends with which bytes begin. Whoever stops where another record begins looks at no byte twice,
/// however many lines begin as a record does.
fn header_end(bytes: &[u8]) -> HeaderEnd {
    let mut begin = 0;
    // Of the fields that each record has once, those that were met.
    let mut met = [false; ONCE.len()];
    // Whether a line may be cut, with the first line of another record behind it.
    let mut may_be_cut = false;
    for at in memchr::memchr_iter(b'\n', bytes) {
        let line = &bytes[begin..at];
        if let Some(field) = once_field(line) {
            if may_be_cut && met[field] {
                return HeaderEnd::Never;
            }
            met[field] = true;
        }
        if ends_in_version(line) {
            if !goes_on(line) && field_name(line).is_none() {
                return HeaderEnd::Never;
            }
            may_be_cut = true;
        }
        begin = at + 1;
        let next = &bytes[begin..];
        let blank = line_end(next);
        if blank > 0 {
            match is_blank_within(met[LENGTH], &next[blank..]) {
                Some(true) => continue,
                Some(false) => return HeaderEnd::At(begin + blank),
                None => return HeaderEnd::Further,
            }
        }
        if begins_record(next) {
            return HeaderEnd::Never;
        }
    }
    HeaderEnd::Further
}

/// Whether a blank line in a header does not end it, as in ClueWeb09: no length stands before it, and a field of a
/// record behind. `None` if it takes more bytes to tell.
fn is_blank_within(has_length: bool, next: &[u8]) -> Option<bool> {
    const FIELDS: [&[u8]; 2] = [b"WARC-", b"Content-Length:"];
    let found = FIELDS.iter().find(|field| {
        let both = field.len().min(next.len());
        field[..both].eq_ignore_ascii_case(&next[..both])
    });
    match found {
        Some(_) if has_length => Some(false),
        Some(field) if next.len() < field.len() => None,
        found => Some(found.is_some()),
    }
}

/// Whether the first line of a record stands at the end of a line, behind something else.
fn ends_in_version(line: &[u8]) -> bool {
    let line = line.trim_ascii_end();
    let digits = line.iter().rev();
    let digits = digits.take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let digits = digits.count();
    let before = &line[..line.len() - digits];
    digits > 0 && before.len() > b"WARC/".len() && before.ends_with(b"WARC/")
}

/// The name of the field that a line of a header has.
fn field_name(line: &[u8]) -> Option<&[u8]> {
    let colon = memchr::memchr(b':', line)?;
    Some(line[..colon].trim_ascii())
}

/// The fields that each record has once.
const ONCE: [&str; 4] = ["WARC-Type", "WARC-Record-ID", "WARC-Date", "Content-Length"];
/// The index of the length among them.
const LENGTH: usize = 3;

/// Which of the fields that each record has once a line has.
fn once_field(line: &[u8]) -> Option<usize> {
    let name = field_name(line).filter(|_| !goes_on(line))?;
    ONCE.iter()
        .position(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Whether a record begins here, as far as its first line tells.
fn begins_record(bytes: &[u8]) -> bool {
    matches!(bytes, [b'W', b'A', b'R', b'C', b'/', b'0'..=b'9', ..])
}

/// Where a record begins within the first bytes of the content of another one, so many: a line that begins so, and a
/// header with a type, which may reach further. Behind a record that was cut, it may begin within a line.
fn record_within(content: &[u8], first: usize) -> Option<usize> {
    for at in memchr::memmem::find_iter(content, b"WARC/") {
        if at >= first {
            break;
        }
        let header = &content[at..content.len().min(at + MOST_HEADER_BYTES)];
        let begins = match content[..at].last() {
            Some(b'\n') => has_type(header),
            // What is being written is left for the next run, whatever it may quote.
            _ => begins_within_line(header, false),
        };
        if begins {
            return Some(at);
        }
    }
    None
}

/// Whether a record begins here within a line: a version by itself, and a whole header with a type and a length, before
/// another one seems to begin. So no byte is looked at for two of them. What `is_all` there is may end within it.
fn begins_within_line(bytes: &[u8], is_all: bool) -> bool {
    const MOST_VERSION_BYTES: usize = 16;
    let Some(behind) = bytes.strip_prefix(b"WARC/") else {
        return is_all && b"WARC/".starts_with(bytes);
    };
    let beginning = &behind[..behind.len().min(MOST_VERSION_BYTES)];
    let line_feed = memchr::memchr(b'\n', beginning);
    let version = beginning[..line_feed.unwrap_or(beginning.len())].trim_ascii_end();
    let is_version = version
        .iter()
        .all(|byte| byte.is_ascii_digit() || *byte == b'.');
    if !is_version || line_feed.is_none() {
        return is_version && is_all && beginning.len() == behind.len();
    }
    let next = memchr::memmem::find(behind, b"WARC/").unwrap_or(behind.len());
    let header = &bytes[..next + b"WARC/".len()];
    match header_end(header) {
        HeaderEnd::At(length) => {
            let header = WarcHeader(&header[..length]);
            begins_record(bytes) && header.has_type() && header.length().is_some()
        }
        HeaderEnd::Never => false,
        HeaderEnd::Further => is_all && next == behind.len(),
    }
}

/// Whether a record with a type begins here. The bytes may end within its header.
fn has_type(bytes: &[u8]) -> bool {
    begins_record(bytes)
        && header_end(bytes) != HeaderEnd::Never
        && WarcHeader::split(bytes).0.has_type()
}

/// Whether bytes hold a good record: at their beginning, or behind a blank line, and up to the next one, or to the end
/// if that is all.
fn holds_good_record(bytes: &[u8], is_all: bool) -> bool {
    let mut records = behind_blank_lines(bytes);
    is_good_record(bytes, is_all) || records.any(|record| is_good_record(record, is_all))
}

/// What begins as a record does, behind each blank line.
fn behind_blank_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    memchr::memmem::find_iter(bytes, b"\nWARC/").filter_map(|line_feed| {
        let before = &bytes[..line_feed];
        let before = before.strip_suffix(b"\r").unwrap_or(before);
        before.ends_with(b"\n").then_some(&bytes[line_feed + 1..])
    })
}

/// A page may quote a header. So many tell that a packed part has several records, of which all lengths are wrong: line
/// ends were changed, say.
const ENOUGH_HEADERS: usize = 2;

/// The number of whole headers, with a type and a length, that stand behind blank lines. No more are counted than
/// matter.
fn headers_within(bytes: &[u8]) -> usize {
    let headers = behind_blank_lines(bytes).filter(|record| {
        let header = &record[..record.len().min(MOST_HEADER_BYTES)];
        begins_within_line(header, false)
    });
    headers.take(ENOUGH_HEADERS).count()
}

/// Whether bytes begin with a record that ends where its length says.
fn is_good_record(bytes: &[u8], is_all: bool) -> bool {
    let beginning = &bytes[..bytes.len().min(MOST_HEADER_BYTES)];
    has_type(beginning)
        && behind_record(bytes).and_then(|rest| behind(rest, is_all)) == Some(Behind::Good)
}

/// What is behind the record with which bytes begin, if these hold all of that.
fn behind_record(bytes: &[u8]) -> Option<&[u8]> {
    let beginning = &bytes[..bytes.len().min(MOST_HEADER_BYTES)];
    let header = WarcHeader::split(beginning).0;
    let length = usize::try_from(header.length()?).ok()?;
    bytes.get(length.checked_add(header.0.len())?..)
}

/// How the first records of an archive are packed. It depends on the beginning of the archive alone, so that a reading
/// that goes on somewhere knows the same.
#[derive(Default)]
pub(super) struct FirstRecords {
    /// How many were read, at most `COUNT`.
    read: u64,
    /// Whether a packed part has several of them.
    share_parts: bool,
}

impl FirstRecords {
    /// So many records tell how an archive is packed.
    const COUNT: u64 = 8;

    /// Reads them up to one of this number. What cannot be read is met again.
    pub(super) fn read(content: &mut Unpacked, most: usize, number: u64) -> Self {
        let mut first = Self::default();
        while first.read < number.min(Self::COUNT)
            && matches!(next_record(content, &mut first, most), Ok(Some(_)))
        {}
        first
    }
}

/// Reads the next record of an archive, and where it begins. `None` at the end. A record of more than `most` bytes is
/// not held.
pub(super) fn next_record(
    content: &mut Unpacked,
    first: &mut FirstRecords,
    most: usize,
) -> io::Result<Option<(RawContent, Offset)>> {
    Cutter::new(content, first, most, None).next_record()
}

/// Whether a record that was read is the beginning of one whose rest was not written yet, as far as the end of the
/// input tells.
pub(super) fn may_be_cut(record: &RawContent, content: &mut Unpacked) -> bool {
    let RawContent::Broken(reason) = record else {
        return false;
    };
    [TOO_EARLY, NO_HEADER_END].contains(&&**reason) && content.look(1).is_ok_and(<[u8]>::is_empty)
}

/// Copies the next record as it is, with the blank bytes around it. False at the end.
pub(super) fn copy_record(
    content: &mut Unpacked,
    first: &mut FirstRecords,
    most: usize,
    to: &mut dyn Write,
) -> io::Result<bool> {
    let mut cutter = Cutter::new(content, first, most, Some(to));
    let cut = cutter.next_record()?;
    // The blank bytes behind a record belong to it. What else is behind is met again.
    let behind = cutter.pass_over_blank_bytes();
    if content.failure().is_none() {
        behind?;
    }
    Ok(cut.is_some())
}

/// Whether bytes hold a whole record, and the beginning of what is behind it.
pub(super) fn holds_record(bytes: &[u8]) -> bool {
    let rest = behind_record(without_padding(bytes));
    // Where the record ends is seen by what is behind it. Without that, more is waited for.
    rest.is_some_and(|rest| behind(rest, false).is_some())
}

/// How the bytes behind a record look.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Behind {
    /// As they should: blank bytes, or none, and a record or nothing.
    Good,
    /// There is a line end, but no record behind.
    Doubtful,
    Bad,
}

/// What is known of the length of a record.
enum Length {
    /// It is right, or the packed part ends with the record.
    Right,
    Wrong,
    /// The record goes on for too long to tell. A page can be made long, and a length is seldom wrong.
    Believed,
}

/// Cuts records out of an input.
struct Cutter<'c> {
    content: &'c mut Unpacked,
    /// A record of more bytes is not held.
    most: usize,
    /// Where everything that is used is copied to.
    to: Option<&'c mut dyn Write>,
    /// Whether the record begins a packed part.
    is_at_part: bool,
    /// Whether the record begins within a packed part.
    is_within_part: bool,
    /// What the first records before it tell.
    first: &'c mut FirstRecords,
}

/// With this byte begins a member of gzip.
const GZIP_BEGINS: u8 = 0x1f;

/// So many bytes behind a record tell whether its length is right.
const MOST_BEHIND: usize = 72;

const TOO_LONG: &str =
    "the Content-Length of the WARC record is too long: another record begins within it";

const WRONG_END: &str = "the WARC record does not end where its Content-Length says";

const TOO_EARLY: &str = "the WARC record ends too early";

const NO_HEADER_END: &str = "the header of the WARC record does not end";

const CUT_HEADER: &str = "the header of the WARC record does not end before another record begins";

const LONG_HEADER: &str = "the header of the WARC record is too long: it has more than 65536 bytes";

const NO_LENGTH: &str = "the header of the WARC record has no Content-Length";

const NO_NUMBER: &str =
    "the header of the WARC record has a Content-Length that is no number of bytes";

const CUT_BY_PART: &str = "the Content-Length of the WARC record is too long: the packed part that holds the record ends before";

impl<'c> Cutter<'c> {
    fn new(
        content: &'c mut Unpacked,
        first: &'c mut FirstRecords,
        most: usize,
        to: Option<&'c mut dyn Write>,
    ) -> Self {
        Self {
            content,
            most,
            to,
            is_at_part: false,
            is_within_part: false,
            first,
        }
    }

    /// Reads the next record. `None` at the end. What is damaged counts as one record, if there is a good one behind.
    fn next_record(&mut self) -> io::Result<Option<(RawContent, Offset)>> {
        let cut = match self.cut() {
            Err(error) if self.content.damage().is_some() => self.pass_over_damage(error),
            cut => cut,
        }?;
        if cut.is_some() && self.first.read < FirstRecords::COUNT {
            self.first.read += 1;
            self.first.share_parts |= self.is_within_part;
        }
        Ok(cut)
    }

    fn cut(&mut self) -> io::Result<Option<(RawContent, Offset)>> {
        self.pass_over_blank_bytes()?;
        if self.content.look(1)?.is_empty() {
            return Ok(None);
        }
        let offset = self.offset();
        self.is_at_part = self.content.is_at_part();
        self.is_within_part = !self.is_at_part;
        Ok(Some((self.record()?, offset)))
    }

    /// Where the next byte is.
    fn offset(&mut self) -> Offset {
        match self.content.part_of(self.content.offset()) {
            (stored, 0) => Offset::Stored(stored),
            (_, unpacked) => Offset::Unpacked(unpacked),
        }
    }

    /// The damage up to the next record. The error if there is none.
    fn pass_over_damage(&mut self, error: io::Error) -> io::Result<Option<(RawContent, Offset)>> {
        let Some((reason, damage)) = self.content.damage() else {
            return Err(error);
        };
        let content = RawContent::Broken(reason.to_owned().into());
        let left = self.content.buffered().len();
        let offset = match left {
            0 => Offset::Stored(damage),
            _ => self.offset(),
        };
        self.use_up(left)?;
        if !self.content.find_record()? {
            return Err(error);
        }
        Ok(Some((content, offset)))
    }

    /// Uses bytes that were looked at.
    fn use_up(&mut self, length: usize) -> io::Result<()> {
        if let Some(to) = &mut self.to {
            to.write_all(&self.content.buffered()[..length])?;
        }
        self.content.consume(length);
        Ok(())
    }

    fn pass_over_blank_bytes(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.content.look(1)?;
            let blank = bytes.len() - without_padding(bytes).len();
            if blank == 0 {
                return Ok(());
            }
            self.use_up(blank)?;
        }
    }

    /// The next bytes of the record: at least `least`, unless the input ends before, or the part that bounds the
    /// record.
    fn look(&mut self, least: usize) -> io::Result<&[u8]> {
        if self.is_at_part {
            let length = self.content.look_in_part(least)?;
            // A record that is longer may have several parts.
            let is_whole = length + 1 >= least && self.packs_each();
            if length >= least || is_whole || self.is_bounded(length) {
                return Ok(&self.content.buffered()[..length]);
            }
            self.is_at_part = false;
        }
        self.content.look(least)
    }

    /// Whether the record ends with the part of this length that it begins, since a record or nothing comes next.
    fn is_bounded(&mut self, length: usize) -> bool {
        let bytes = self.content.look(length + 16).unwrap_or_default();
        let next = without_padding(bytes.get(length..).unwrap_or_default());
        next.is_empty() || begins_record(next)
    }

    /// The content of the record that begins here.
    fn record(&mut self) -> io::Result<RawContent> {
        let beginning = self.look(6)?;
        let is_record = beginning.starts_with(b"WARC/");
        let is_short = beginning.len() < 6;
        let may_be_record = is_short && b"WARC/".starts_with(beginning);
        if is_short && let Some(error) = self.content.failure() {
            return Err(error);
        }
        if may_be_record {
            return self.broken(1, NO_HEADER_END);
        }
        if !is_record {
            self.content.ensure_not_packed_here()?;
            return self.broken(0, "there is no header of a WARC record here");
        }
        let header = match self.header()? {
            Ok(header) => header,
            Err(NO_HEADER_END) if !self.is_at_part => {
                let left = self.content.buffered().len();
                self.use_up(left)?;
                return Ok(RawContent::Broken(NO_HEADER_END.into()));
            }
            Err(reason) => return self.broken(1, reason),
        };
        let parsed = WarcHeader(&self.content.buffered()[..header]);
        let Some(length) = parsed.length() else {
            let reason = match parsed.get("Content-Length") {
                Some(_) => NO_NUMBER,
                None => NO_LENGTH,
            };
            return self.broken(header, reason);
        };
        let mut may_hold_page = parsed.may_hold_page();
        if length > self.most as u64 {
            // A film is no page that is too long. What cannot be looked at is met again.
            let is_at_part = self.is_at_part;
            _ = self.look(header + MOST_HEADER_BYTES);
            self.is_at_part = is_at_part;
            may_hold_page &= !is_no_page(self.content.buffered());
            return Ok(match self.pass_over_long(header, length)? {
                Some(broken) => broken,
                None if may_hold_page => RawContent::TooLong(length),
                None => RawContent::PassedOver,
            });
        }
        match self.end(header, header + length as usize)? {
            Ok(end) if may_hold_page && self.to.is_none() => {
                Ok(RawContent::Bytes(self.content.take_out(end)))
            }
            Ok(end) => {
                self.use_up(end)?;
                Ok(RawContent::PassedOver)
            }
            Err(broken) => Ok(broken),
        }
    }

    /// The length of the header, or why it has no end.
    fn header(&mut self) -> io::Result<Result<usize, &'static str>> {
        let mut seen = 0;
        loop {
            let bytes = self.look(seen + 1)?;
            let bytes = &bytes[..bytes.len().min(MOST_HEADER_BYTES)];
            match header_end(bytes) {
                HeaderEnd::At(length) => return Ok(Ok(length)),
                HeaderEnd::Never => return Ok(Err(CUT_HEADER)),
                HeaderEnd::Further => {}
            }
            if bytes.len() == MOST_HEADER_BYTES {
                return Ok(Err(LONG_HEADER));
            }
            if bytes.len() <= seen {
                let ends = bytes.ends_with(b"\n\n") || bytes.ends_with(b"\n\r\n");
                let length = bytes.len();
                return match self.content.failure() {
                    Some(error) => Err(error),
                    // Nothing is there that could go on behind the blank line.
                    None if ends => Ok(Ok(length)),
                    None => Ok(Err(NO_HEADER_END)),
                };
            }
            seen = bytes.len();
        }
    }

    /// Where the record ends that ends at `whole` by its length. Passes over what is no good record.
    fn end(&mut self, header: usize, whole: usize) -> io::Result<Result<usize, RawContent>> {
        let mut least = whole + 1;
        let behind = loop {
            let bytes = self.look(least)?;
            let length = bytes.len();
            let Some(rest) = bytes.get(whole..) else {
                return self.end_of_short(header, length);
            };
            match behind(rest, length < least) {
                Some(behind) => break behind,
                None => least = length + 1,
            }
        };
        if behind == Behind::Good {
            // If the record is all that the part holds, this reads the checksum of the part.
            if self.is_at_part {
                self.content.look_in_part(whole + 5)?;
            }
            return Ok(Ok(whole));
        }
        let is_alone = self.is_alone_in_part();
        let bytes = self.content.look(whole + MOST_HEADER_BYTES)?;
        if !is_alone && let Some(at) = record_within(&bytes[header..], whole - header) {
            return self.too_long(header + at).map(Err);
        }
        let bytes = self.look(whole + 16)?;
        for end in whole..=whole + 2 {
            if ends_record(bytes.get(end..).unwrap_or_default()) {
                return Ok(Ok(end));
            }
        }
        match behind {
            Behind::Doubtful => Ok(Ok(whole)),
            _ => self.broken(whole, WRONG_END).map(Err),
        }
    }

    /// Where a record ends that has only so many bytes before the end of the input, or of the part that bounds it.
    fn end_of_short(
        &mut self,
        header: usize,
        length: usize,
    ) -> io::Result<Result<usize, RawContent>> {
        let is_alone = self.is_alone_in_part();
        let bytes = self.content.buffered();
        if !is_alone && let Some(at) = record_within(&bytes[header..], length - header) {
            return self.too_long(header + at).map(Err);
        }
        if self.is_at_part {
            // Whether the length is wrong, or the rest was never written, cannot be told.
            self.use_up(length)?;
            return Ok(Err(RawContent::Broken(CUT_BY_PART.into())));
        }
        if let Some(error) = self.content.failure() {
            return Err(error);
        }
        self.use_up(length)?;
        Ok(Err(RawContent::Broken(TOO_EARLY.into())))
    }

    /// Whether each record of the archive is packed by itself, as far as enough records before this one tell.
    fn packs_each(&self) -> bool {
        /// Many archives begin with a part for the note of the crawler alone.
        const ENOUGH: u64 = 2;
        self.first.read >= ENOUGH && !self.first.share_parts
    }

    /// Whether the packed part that the record begins holds no other record: as it is with the first records of the
    /// archive. Where there are too few before, the part itself tells, as far as a record may reach that is held.
    fn is_alone_in_part(&mut self) -> bool {
        if !self.is_at_part || self.first.share_parts {
            return false;
        }
        if self.packs_each() {
            return true;
        }
        let most = self.most.saturating_add(1);
        let Ok(length) = self.content.look_in_part(most) else {
            return false;
        };
        let ends = length < most;
        if ends && !self.is_bounded(length) || !ends && self.first.read == 0 {
            return false;
        }
        let part = &self.content.buffered()[..length];
        !holds_good_record(part, ends) && headers_within(part) < ENOUGH_HEADERS
    }

    /// A record within which another one begins.
    fn too_long(&mut self, length: usize) -> io::Result<RawContent> {
        self.use_up(length)?;
        Ok(RawContent::Broken(TOO_LONG.into()))
    }

    /// What cannot be read as a record: these bytes, and everything up to the next one.
    fn broken(&mut self, length: usize, reason: &'static str) -> io::Result<RawContent> {
        if self.is_alone_in_part() {
            self.pass_over_part()?;
        } else {
            self.use_up(length)?;
            self.pass_over_to_record()?;
        }
        Ok(RawContent::Broken(reason.into()))
    }

    /// Passes over a record that is too long to be held, up to where it ends, or where another one begins if its
    /// length is wrong. Returns what is wrong with it.
    fn pass_over_long(&mut self, header: usize, length: u64) -> io::Result<Option<RawContent>> {
        self.use_up(header)?;
        let mut left = length;
        // Only when so many bytes are left or fewer, a record that begins within them is looked at. So it is looked
        // ahead at most twice.
        let mut undecided = length;
        let mut is_at_line = true;
        while left > 0 {
            if self.content.look(6)?.is_empty() {
                return Ok(Some(RawContent::Broken(TOO_EARLY.into())));
            }
            let is_next_part = self.is_at_part && self.content.is_at_part();
            let may_begin = is_next_part || left <= undecided;
            if may_begin && self.begins_record_here(is_at_line || is_next_part)? {
                undecided = match self.length_with(left) {
                    _ if is_next_part => return Ok(None),
                    Length::Wrong => return Ok(Some(RawContent::Broken(TOO_LONG.into()))),
                    Length::Right => 0,
                    Length::Believed => self.most as u64,
                };
            }
            let used = self.to_next_record(left);
            is_at_line = self.content.buffered()[used - 1] == b'\n';
            self.use_up(used)?;
            left -= used as u64;
        }
        let bytes = self.content.look(MOST_BEHIND)?;
        if behind(bytes, true) != Some(Behind::Bad) {
            return Ok(None);
        }
        self.broken(0, WRONG_END).map(Some)
    }

    /// Whether a record begins with the next byte, which may be within a line.
    fn begins_record_here(&mut self, is_at_line: bool) -> io::Result<bool> {
        /// The type stands among the first fields.
        const BEGINNING: usize = 4096;
        if !begins_record(self.content.buffered()) {
            return Ok(false);
        }
        let most = match is_at_line {
            true => BEGINNING,
            false => MOST_HEADER_BYTES,
        };
        let bytes = self.content.look(most)?;
        let bytes = &bytes[..bytes.len().min(most)];
        Ok(match is_at_line {
            true => has_type(bytes),
            false => begins_within_line(bytes, false),
        })
    }

    /// Whether the length of a record is right of which so many bytes are left, and within which another one seems to
    /// begin. As many bytes are looked at as a record may have that is held.
    fn length_with(&mut self, left: u64) -> Length {
        let most = self.most.saturating_add(1);
        if self.is_alone_in_part() {
            return Length::Right;
        }
        match usize::try_from(left) {
            Ok(left) if left <= most => {
                let bytes = self.content.look(left + MOST_BEHIND).unwrap_or_default();
                let rest = bytes.get(left..);
                match rest.and_then(|rest| behind(rest, true)) {
                    Some(Behind::Good) => Length::Right,
                    _ => Length::Wrong,
                }
            }
            _ => match self.content.look(most) {
                Ok(bytes) if bytes.len() >= most => Length::Believed,
                _ => Length::Wrong,
            },
        }
    }

    /// The number of buffered bytes, at least one, up to where a record may begin, or the next packed part does. At
    /// most `most`.
    fn to_next_record(&self, most: u64) -> usize {
        const BEGINNING: &[u8] = b"WARC/";
        let buffer = self.content.buffered_in_part();
        let buffer = &buffer[..buffer
            .len()
            .min(usize::try_from(most).unwrap_or(usize::MAX))];
        match memchr::memmem::find(&buffer[1..], BEGINNING) {
            Some(at) => at + 1,
            // The very end may be the first half of one.
            None => match memchr::memrchr(b'W', &buffer[1..]) {
                Some(at) if BEGINNING.starts_with(&buffer[at + 1..]) => at + 1,
                _ => buffer.len(),
            },
        }
    }

    /// Passes over the rest of a packed part.
    fn pass_over_part(&mut self) -> io::Result<()> {
        loop {
            let part = self.content.buffered_in_part().len();
            self.use_up(part)?;
            if self.content.look(1)?.is_empty() || self.content.is_at_part() {
                return Ok(());
            }
        }
    }

    /// Passes over everything up to a line, or a packed part, that begins as a record does, or up to a record within a
    /// line.
    fn pass_over_to_record(&mut self) -> io::Result<()> {
        let mut is_at_line = false;
        loop {
            if self.content.look(6)?.is_empty() {
                return Ok(());
            }
            let begins_line = is_at_line || self.content.is_at_part();
            if begins_line && begins_record(self.content.buffered()) {
                return Ok(());
            }
            let beginning = self.content.buffered();
            if b"WARC/".starts_with(&beginning[..beginning.len().min(5)]) {
                let bytes = self.content.look(MOST_HEADER_BYTES)?;
                let header = &bytes[..bytes.len().min(MOST_HEADER_BYTES)];
                if begins_within_line(header, bytes.len() < MOST_HEADER_BYTES) {
                    return Ok(());
                }
            }
            if self.content.buffered()[0] == GZIP_BEGINS {
                self.content.ensure_not_packed_here()?;
            }
            let bytes = self.content.buffered_in_part();
            let used = match memchr::memchr2(b'W', GZIP_BEGINS, &bytes[1..]) {
                Some(at) => at + 1,
                None => bytes.len(),
            };
            is_at_line = bytes[used - 1] == b'\n';
            self.use_up(used)?;
        }
    }
}

/// The number of bytes of line ends with which bytes begin.
fn line_ends(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|&&byte| byte == b'\r' || byte == b'\n')
        .count()
}

/// The length of the line end with which bytes begin.
fn line_end(bytes: &[u8]) -> usize {
    match bytes {
        [b'\r', b'\n', ..] => 2,
        [b'\n', ..] => 1,
        _ => 0,
    }
}

/// How the bytes behind a record look. `None` if it takes more to tell, and `is_all` does not say that there is no
/// more.
fn behind(bytes: &[u8], is_all: bool) -> Option<Behind> {
    /// There are two, or some more. So many are no end of a page by chance.
    const MOST_LINE_ENDS: usize = 64;
    let line_ends = line_ends(bytes);
    let rest = without_padding(bytes);
    let is_far = bytes.len() - rest.len() >= MOST_BEHIND;
    if rest.starts_with(b"WARC/") || line_ends >= MOST_LINE_ENDS || rest.is_empty() && is_all {
        Some(Behind::Good)
    } else if b"WARC/".starts_with(rest) && !is_all && !is_far {
        None
    } else if line_ends > 0 {
        Some(Behind::Doubtful)
    } else {
        Some(Behind::Bad)
    }
}

/// Whether bytes are as behind the end of a record: two line ends, and the next record or nothing.
fn ends_record(bytes: &[u8]) -> bool {
    let one = line_end(bytes);
    let two = line_end(&bytes[one..]);
    let rest = without_padding(&bytes[one + two..]);
    one > 0 && two > 0 && (rest.is_empty() || begins_record(rest))
}
