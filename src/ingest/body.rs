//! The bytes of a page, from those that a server sent: joins chunks and unpacks what is packed.
//!
//! What the bytes are decides, since archives keep heads that no longer fit, and bodies that were cut. What is cut, or
//! has other bytes behind, is unpacked as far as it goes, as browsers do.

use std::borrow::Cow;
use std::io::{self, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::bufread::{DeflateDecoder, GzDecoder};

use super::http::Head;
use super::rejected::Reason;

/// The most times that a page may be packed.
const MOST_LAYERS: usize = 8;

/// The bytes in which text shows that it is none, as many as browsers look at.
const LOOKED_AT: usize = 1445;

/// A way of packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packed {
    Gzip,
    Zlib,
    Deflate,
    Brotli,
    Zstd,
}

/// The page in a body. At most `most` bytes are unpacked.
pub(super) fn page<'b>(head: &Head<'_>, sent: &'b [u8], most: usize) -> Result<Cow<'b, [u8]>, Reason> {
    let is_chunked = head.words("transfer-encoding").iter().any(|it| it.contains("chunked"));
    let mut page = joined_chunks(sent, is_chunked).map_or(Cow::Borrowed(sent), Cow::Owned);
    let said = head.words("content-encoding").into_iter().chain(head.words("transfer-encoding"));
    let mut said: Vec<_> = said.filter_map(|it| packed_as(&it)).collect();
    for _ in 0..MOST_LAYERS {
        let Some((packed, whole)) = unpacked(&page, &said, most)? else { break };
        if let Some(at) =
            said.iter().rposition(|it| *it == packed || (packed, *it) == (Packed::Zlib, Packed::Deflate))
        {
            said.remove(at);
        }
        page = Cow::Owned(whole);
    }
    match said.last() {
        // Many archives have the page as it was after unpacking.
        Some(packed) if is_binary(&page) => {
            let problem =
                format!("its page is said to be packed with {}, and cannot be unpacked", name_of(*packed));
            Err(Reason::Warc { problem })
        }
        _ => Ok(page),
    }
}

/// The packing that a word of a head names.
fn packed_as(word: &str) -> Option<Packed> {
    Some(match word {
        "gzip" | "x-gzip" => Packed::Gzip,
        "deflate" | "x-deflate" => Packed::Deflate,
        "br" | "brotli" => Packed::Brotli,
        "zstd" => Packed::Zstd,
        _ => return None,
    })
}

fn name_of(packed: Packed) -> &'static str {
    match packed {
        Packed::Gzip => "gzip",
        Packed::Zlib | Packed::Deflate => "deflate",
        Packed::Brotli => "br",
        Packed::Zstd => "zstd",
    }
}

/// The packing that bytes show at their beginning.
fn shown(bytes: &[u8]) -> Option<Packed> {
    match bytes {
        [0x1f, 0x8b, 8, flags, ..] if *flags < 0x20 => Some(Packed::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packed::Zstd),
        // A header of zlib is a multiple of 31. Text may begin so too.
        [first, second, ..]
            if first & 0x8f == 8 && (u32::from(*first) << 8 | u32::from(*second)) % 31 == 0 =>
        {
            is_binary(bytes).then_some(Packed::Zlib)
        }
        _ => None,
    }
}

/// Takes off one packing: the one that the bytes show, or one that is said and fits. `None` if there is none.
fn unpacked(bytes: &[u8], said: &[Packed], most: usize) -> Result<Option<(Packed, Vec<u8>)>, Reason> {
    if let Some(packed) = shown(bytes) {
        let tried = Tried::new(packed, bytes, most)?;
        match tried.damage {
            None if packed != Packed::Zlib || tried.has_ended || !said.is_empty() => {
                return Ok(Some((packed, tried.whole)));
            }
            // Two bytes say little.
            _ if packed == Packed::Zlib => {}
            None => {}
            Some(error) => {
                let problem = format!("its page is packed with {} and damaged: {error}", name_of(packed));
                return Err(Reason::Warc { problem });
            }
        }
    }
    if said.is_empty() || !is_binary(bytes) {
        return Ok(None);
    }
    for packed in [Packed::Brotli, Packed::Deflate] {
        let tried = Tried::new(packed, bytes, most)?;
        // What was not said has to fit to the end.
        let fits = if said.contains(&packed) { !tried.whole.is_empty() } else { tried.has_ended };
        if tried.damage.is_none() && fits && !(tried.whole.is_empty() || is_odd(&tried.whole)) {
            return Ok(Some((packed, tried.whole)));
        }
    }
    Ok(None)
}

/// Whether bytes are neither text nor packed once more.
fn is_odd(bytes: &[u8]) -> bool {
    shown(bytes).is_none() && is_binary(bytes)
}

/// Whether bytes are no text, by the control characters that texts do not have. Text in UTF-16 has a mark.
fn is_binary(bytes: &[u8]) -> bool {
    let is_marked = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let is_control = |byte: &u8| matches!(byte, 0..=8 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f);
    !is_marked && bytes.iter().take(LOOKED_AT).any(is_control)
}

/// What unpacking brings.
struct Tried {
    whole: Vec<u8>,
    /// Whether the packed data ended as they should. Otherwise they were cut.
    has_ended: bool,
    damage: Option<io::Error>,
}

impl Tried {
    fn new(packed: Packed, bytes: &[u8], most: usize) -> Result<Self, Reason> {
        let mut tried = Self { whole: Vec::new(), has_ended: false, damage: None };
        // A checksum is not looked at: the page is shown without.
        let read = match packed {
            Packed::Gzip => tried.read_members(bytes, most),
            Packed::Zlib => tried.read(DeflateDecoder::new(&bytes[2..]), most),
            Packed::Deflate => tried.read(DeflateDecoder::new(bytes), most),
            Packed::Brotli => tried.read(Brotli::new(bytes), most),
            Packed::Zstd => tried.read_frames(bytes, most),
        };
        match read {
            Ok(()) => tried.has_ended = true,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => tried.damage = Some(error),
        }
        if tried.whole.len() > most {
            return Err(Reason::TooLong { bytes: tried.whole.len() as u64, max_bytes: most });
        }
        Ok(tried)
    }

    fn read(&mut self, reader: impl Read, most: usize) -> io::Result<()> {
        let left = (most as u64 + 1).saturating_sub(self.whole.len() as u64);
        reader.take(left).read_to_end(&mut self.whole).map(|_| ())
    }

    /// Reads members of gzip. What is behind the first, and cannot be unpacked, is left out.
    fn read_members(&mut self, mut bytes: &[u8], most: usize) -> io::Result<()> {
        /// A member ends with its checksum and its length.
        const TRAILER_BYTES: usize = 8;
        loop {
            let gzip = GzDecoder::new(bytes);
            if gzip.header().is_none() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut deflate = DeflateDecoder::new(gzip.into_inner());
            self.read(&mut deflate, most)?;
            let rest = deflate.into_inner().get(TRAILER_BYTES..).unwrap_or_default();
            if shown(rest) != Some(Packed::Gzip) || self.whole.len() > most {
                return Ok(());
            }
            bytes = rest;
        }
    }

    /// Reads frames of zstd. What is behind the first, and is none, is left out.
    fn read_frames(&mut self, mut bytes: &[u8], most: usize) -> io::Result<()> {
        loop {
            let mut frame = zstd::Decoder::with_buffer(bytes)?.single_frame();
            let read = self.read(&mut frame, most);
            let rest = frame.finish();
            match read {
                // The checksum is the last thing of a frame.
                Err(error) if error.to_string().contains("checksum") => {}
                read => read?,
            }
            if shown(rest) != Some(Packed::Zstd) || self.whole.len() > most {
                return Ok(());
            }
            bytes = rest;
        }
    }
}

/// Unpacks brotli. Tells bytes that are cut from those that are damaged, and leaves out what is behind.
struct Brotli<'b> {
    bytes: &'b [u8],
    used: usize,
    state: BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>,
    has_ended: bool,
}

impl<'b> Brotli<'b> {
    fn new(bytes: &'b [u8]) -> Self {
        let alloc = StandardAlloc::default;
        Self { bytes, used: 0, state: BrotliState::new(alloc(), alloc(), alloc()), has_ended: false }
    }
}

impl Read for Brotli<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_ended || buffer.is_empty() {
            return Ok(0);
        }
        let (mut left, mut room) = (self.bytes.len() - self.used, buffer.len());
        let (mut written, mut total) = (0, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut self.used,
            self.bytes,
            &mut room,
            &mut written,
            buffer,
            &mut total,
            &mut self.state,
        );
        self.has_ended = matches!(result, BrotliResult::ResultSuccess);
        match result {
            _ if written > 0 => Ok(written),
            BrotliResult::ResultSuccess => Ok(0),
            BrotliResult::NeedsMoreInput => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, "this is no brotli")),
        }
    }
}

/// A body that was sent in chunks. `None` if it is not in chunks: if it is said to be, it may have been joined by who
/// archived it, and if not, it has to be so to its end. What is cut is kept as far as it goes.
fn joined_chunks(sent: &[u8], is_said: bool) -> Option<Vec<u8>> {
    let (mut size, mut rest) = chunk_size(sent)?;
    if !is_said && !begins_page(rest) {
        return None;
    }
    let mut joined = Vec::new();
    let mut is_first = true;
    while size > 0 {
        let end = match chunk_end(rest, size) {
            Some(end) => end,
            // The last of what came. Text may begin with a number.
            None if !is_first || size >= rest.len() && begins_page(rest) => rest.len().min(size),
            None => return None,
        };
        joined.extend_from_slice(&rest[..end]);
        rest = &rest[end..];
        let Some(next) = chunk_size(rest) else { return is_said.then_some(joined) };
        (size, rest) = next;
        is_first = false;
    }
    (is_said || !is_first).then_some(joined)
}

/// The size of the chunk that begins here, and what is behind its line. There may be a line end before.
fn chunk_size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    /// Extensions may be behind a size.
    const MOST_LINE_BYTES: usize = 4096;
    let bytes = bytes.strip_prefix(b"\r\n").or_else(|| bytes.strip_prefix(b"\n")).unwrap_or(bytes);
    let end = memchr::memchr(b'\n', &bytes[..bytes.len().min(MOST_LINE_BYTES)]);
    // Of the last line, the end may be cut off.
    let (line, rest) = end.map_or((bytes, &[][..]), |end| (&bytes[..end], &bytes[end + 1..]));
    let digits = line.split(|&it| it == b';').next()?.trim_ascii();
    let digits = digits.strip_prefix(b"0x").or_else(|| digits.strip_prefix(b"0X")).unwrap_or(digits);
    let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (digits[0] != b'+' && (end.is_some() || size == 0)).then_some((size, rest))
}

/// Where a chunk of this size ends: before a line end and the next size, which some servers miss by a byte or two, or
/// before the end of what came. `None` if it does not.
fn chunk_end(bytes: &[u8], size: usize) -> Option<usize> {
    const MOST_OFF: usize = 2;
    let is_end = |at: usize| {
        let rest = bytes.get(at..).filter(|it| it.starts_with(b"\r\n") || it.starts_with(b"\n"));
        rest.is_some_and(|it| it.len() <= 2 || chunk_size(it).is_some())
    };
    let near = (1..=MOST_OFF).flat_map(|off| [size.saturating_add(off), size.saturating_sub(off)]);
    std::iter::once(size).chain(near).find(|&at| is_end(at))
}

/// Whether bytes begin as a page does, packed or not.
fn begins_page(bytes: &[u8]) -> bool {
    is_binary(bytes) || shown(bytes).is_some() || bytes.trim_ascii_start().starts_with(b"<")
}
