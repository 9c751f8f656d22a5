//! The bytes of a page, from those that a server sent: joins chunks and unpacks what is packed.
//!
//! What the bytes are decides, since archives keep heads that no longer fit, and bodies that were cut. What is cut, or
//! has other bytes behind, is unpacked as far as it goes, as browsers do.

use std::borrow::Cow;
use std::io::{self, Read};

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};
use flate2::bufread::{DeflateDecoder, GzDecoder};

use super::encoding::UTF_8_MARK;
use super::format::{BINARY_WITHIN, is_mostly_binary, is_no_text};
use super::page::is_token;
use super::rejected::Reason;
use super::unpacked::begins_frame;

/// The most times that a page may be packed, or sent in chunks.
const MOST_LAYERS: usize = 8;

/// A way of packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packed {
    Gzip,
    Zlib,
    Deflate,
    Brotli,
    Zstd,
}

/// The page in a body, of which the head says how it was transferred and packed. It may have `max_bytes` unpacked.
pub(super) fn decode_body<'b>(
    sent: &'b [u8],
    transfer: &[String],
    encodings: &[String],
    max_bytes: usize,
) -> Result<Cow<'b, [u8]>, Reason> {
    let mut is_chunked = transfer.iter().any(|word| word.contains("chunked"));
    let mut page = Cow::Borrowed(sent);
    for _ in 0..MOST_LAYERS {
        let Some(joined) = joined_chunks(&page, is_chunked) else {
            break;
        };
        page = Cow::Owned(joined);
        // Some servers, or a proxy before them, send chunks in chunks.
        is_chunked = false;
    }
    let mut declared = Vec::new();
    for word in encodings.iter().chain(transfer) {
        declared.extend(Packed::from_word(word));
    }
    for _ in 0..MOST_LAYERS {
        let Some((packed, inner)) = unpacked(&page, &declared, max_bytes)? else {
            break;
        };
        let at = declared
            .iter()
            .rposition(|&one| one == packed || (packed, one) == (Packed::Zlib, Packed::Deflate));
        if let Some(at) = at {
            declared.remove(at);
        }
        page = Cow::Owned(inner);
    }
    // What was packed may have been in chunks before.
    if is_chunked && let Some(joined) = joined_chunks(&page, false) {
        page = Cow::Owned(joined);
    }
    match declared.last() {
        // Many archives have the page as it was after unpacking.
        Some(packed) if is_no_page(&page) => {
            let problem = format!(
                "its page is said to be packed with {}, and cannot be unpacked",
                packed.name()
            );
            Err(Reason::Warc { problem })
        }
        _ => Ok(page),
    }
}

impl Packed {
    /// The packing that a word of a head names.
    fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" | "x-deflate" => Self::Deflate,
            "br" | "brotli" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zlib | Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// The packing that bytes show at their beginning.
fn detect(bytes: &[u8]) -> Option<Packed> {
    match bytes {
        [0x1f, 0x8b, 8, flags, ..] if *flags < 0x20 => Some(Packed::Gzip),
        _ if begins_frame(bytes) => Some(Packed::Zstd),
        // A header of zlib is a multiple of 31. Text may begin so too.
        [first, second, ..]
            if first & 0x8f == 8 && (u32::from(*first) << 8 | u32::from(*second)) % 31 == 0 =>
        {
            is_binary(bytes).then_some(Packed::Zlib)
        }
        _ => None,
    }
}

/// Takes off one packing: the one that the bytes show, or one that is declared and fits. `None` if there is none.
fn unpacked(
    bytes: &[u8],
    declared: &[Packed],
    max_bytes: usize,
) -> Result<Option<(Packed, Vec<u8>)>, Reason> {
    // A script may write its own mark before what is packed, or an empty line.
    let behind = bytes.strip_prefix(UTF_8_MARK).unwrap_or(bytes);
    let behind = behind.trim_ascii_start();
    let bytes = match detect(behind) {
        Some(_) => behind,
        None => bytes,
    };
    if let Some(packed) = detect(bytes) {
        let attempt = Attempt::new(packed, bytes, max_bytes)?;
        let is_unharmed = attempt.damage.is_none();
        // The two bytes by which zlib is known say little.
        let is_sure =
            packed != Packed::Zlib || (is_unharmed && (attempt.has_ended || !declared.is_empty()));
        if is_sure {
            return match attempt.damage {
                None if attempt.unpacked.is_empty() && !attempt.has_ended => Err(Reason::Warc {
                    problem: format!(
                        "its page is packed with {}, and was cut before anything of it can be unpacked",
                        packed.name()
                    ),
                }),
                None => Ok(Some((packed, attempt.unpacked))),
                Some(error) => {
                    let name = packed.name();
                    let problem = format!("its page is packed with {name} and damaged: {error}");
                    Err(Reason::Warc { problem })
                }
            };
        }
    }
    if declared.is_empty() || !is_binary(bytes) {
        return Ok(None);
    }
    for packed in [Packed::Brotli, Packed::Deflate] {
        let attempt = Attempt::new(packed, bytes, max_bytes)?;
        // What was not declared has to fit to the end.
        let fits = if declared.contains(&packed) {
            !attempt.unpacked.is_empty()
        } else {
            attempt.has_ended
        };
        // What is packed once more need not show it.
        let may_be_packed = attempt.has_ended && declared.len() > 1;
        let is_usable = !attempt.unpacked.is_empty()
            && (may_be_packed
                || detect(&attempt.unpacked).is_some()
                || !is_no_page(&attempt.unpacked));
        if attempt.damage.is_none() && fits && is_usable {
            return Ok(Some((packed, attempt.unpacked)));
        }
    }
    Ok(None)
}

/// Whether bytes are no page of text. That may have a stray character of control.
fn is_no_page(bytes: &[u8]) -> bool {
    is_mostly_binary(&bytes[..bytes.len().min(BINARY_WITHIN)])
}

/// Whether bytes may be packed, by the control characters that texts do not have. Text in UTF-16 has a mark.
fn is_binary(bytes: &[u8]) -> bool {
    let is_marked = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    !is_marked
        && bytes
            .iter()
            .take(BINARY_WITHIN)
            .any(|&byte| is_no_text(byte))
}

/// What unpacking brings.
struct Attempt {
    unpacked: Vec<u8>,
    /// Whether the packed data ended as they should. Otherwise they were cut.
    has_ended: bool,
    damage: Option<io::Error>,
}

impl Attempt {
    fn new(packed: Packed, bytes: &[u8], max_bytes: usize) -> Result<Self, Reason> {
        let mut attempt = Self {
            unpacked: Vec::new(),
            has_ended: false,
            damage: None,
        };
        // No checksum is looked at: a page with a wrong one is still a page.
        let read = match packed {
            Packed::Gzip => attempt.read_members(bytes, max_bytes),
            Packed::Zlib => attempt.read(DeflateDecoder::new(&bytes[2..]), max_bytes),
            Packed::Deflate => attempt.read(DeflateDecoder::new(bytes), max_bytes),
            Packed::Brotli => attempt.read(Brotli::new(bytes), max_bytes),
            Packed::Zstd => attempt.read_frames(bytes, max_bytes),
        };
        match read {
            Ok(()) => attempt.has_ended = true,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
            Err(error) => attempt.damage = Some(error),
        }
        if attempt.unpacked.len() > max_bytes {
            return Err(Reason::TooLong {
                bytes: attempt.unpacked.len() as u64,
                max_bytes,
            });
        }
        Ok(attempt)
    }

    fn read(&mut self, reader: impl Read, max_bytes: usize) -> io::Result<()> {
        let left = (max_bytes as u64 + 1).saturating_sub(self.unpacked.len() as u64);
        reader.take(left).read_to_end(&mut self.unpacked)?;
        Ok(())
    }

    /// Reads members of gzip. What is behind the first, and cannot be unpacked, is left out.
    fn read_members(&mut self, mut bytes: &[u8], max_bytes: usize) -> io::Result<()> {
        /// A member ends with its checksum and its length.
        const TRAILER_BYTES: usize = 8;
        loop {
            let gzip = GzDecoder::new(bytes);
            if gzip.header().is_none() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut deflate = DeflateDecoder::new(gzip.into_inner());
            self.read(&mut deflate, max_bytes)?;
            let rest = deflate
                .into_inner()
                .get(TRAILER_BYTES..)
                .unwrap_or_default();
            if detect(rest) != Some(Packed::Gzip) || self.unpacked.len() > max_bytes {
                return Ok(());
            }
            bytes = rest;
        }
    }

    /// Reads frames of zstd. What is behind the first, and is none, is left out.
    fn read_frames(&mut self, mut bytes: &[u8], max_bytes: usize) -> io::Result<()> {
        loop {
            let mut frame = zstd::Decoder::with_buffer(bytes)?.single_frame();
            let read = self.read(&mut frame, max_bytes);
            let rest = frame.finish();
            match read {
                // "Restored data doesn't match checksum": the library hands out this error of zstd (`checksum_wrong`)
                // as its text only. The checksum is the last thing of a frame, so the page is there.
                Err(error) if error.to_string().contains("checksum") => {}
                read => read?,
            }
            if detect(rest) != Some(Packed::Zstd) || self.unpacked.len() > max_bytes {
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
        Self {
            bytes,
            used: 0,
            state: BrotliState::new(
                StandardAlloc::default(),
                StandardAlloc::default(),
                StandardAlloc::default(),
            ),
            has_ended: false,
        }
    }
}

impl Read for Brotli<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.has_ended || buffer.is_empty() {
            return Ok(0);
        }
        let mut left = self.bytes.len() - self.used;
        let mut room = buffer.len();
        let mut written = 0;
        let mut total = 0;
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
            _ => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "this is no brotli",
            )),
        }
    }
}

/// The page in a body that was sent in chunks, or `None` if the body is not in chunks.
///
/// A body that is declared to be may still be in none, since some archivers join them; a cut one is kept as far as it
/// goes. A body that is not declared to be has to begin as a page does, and be in chunks to its end.
fn joined_chunks(sent: &[u8], is_declared: bool) -> Option<Vec<u8>> {
    let (mut size, mut rest) = chunk_size(sent)?;
    if !is_declared && !begins_page(rest) || size == 0 && !is_trailer(rest) {
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
        let Some(next) = chunk_size(rest) else {
            return is_declared.then_some(joined);
        };
        (size, rest) = next;
        is_first = false;
    }
    (is_declared || !is_first).then_some(joined)
}

/// Whether fields and a blank line are next, or nothing. Text may begin with a zero.
fn is_trailer(rest: &[u8]) -> bool {
    let lines = rest.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let mut fields = lines.take_while(|line| !line.is_empty());
    fields.all(|line| {
        let name = line.split(|&byte| byte == b':').next();
        line.contains(&b':') && name.is_some_and(is_token)
    })
}

/// The size of the chunk that begins here, and what is behind its line. There may be a line end before.
fn chunk_size(bytes: &[u8]) -> Option<(usize, &[u8])> {
    /// Extensions may be behind a size.
    const MOST_LINE_BYTES: usize = 4096;
    let ([b'\r', b'\n', bytes @ ..] | [b'\n', bytes @ ..] | bytes) = bytes;
    let end = memchr::memchr(b'\n', &bytes[..bytes.len().min(MOST_LINE_BYTES)]);
    let (line, rest) = match end {
        Some(end) => (&bytes[..end], &bytes[end + 1..]),
        // Of the last line, the end may be cut off.
        None => (bytes, &[][..]),
    };
    let extension = memchr::memchr(b';', line).unwrap_or(line.len());
    let digits = match line[..extension].trim_ascii() {
        [b'0', b'x' | b'X', digits @ ..] | digits => digits,
    };
    let size = usize::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (digits[0] != b'+' && (end.is_some() || size == 0)).then_some((size, rest))
}

/// Where a chunk of this size ends: before a line end and the next size, which some servers miss by a byte or two, or
/// before the end of what came. `None` if it does not.
fn chunk_end(bytes: &[u8], size: usize) -> Option<usize> {
    const MOST_OFF: usize = 2;
    for off in 0..=MOST_OFF {
        for at in [size.saturating_add(off), size.saturating_sub(off)] {
            if is_chunk_end(bytes, at) {
                return Some(at);
            }
        }
    }
    None
}

/// Whether a line end and the next size are here, of which the rest may be cut off.
fn is_chunk_end(bytes: &[u8], at: usize) -> bool {
    let Some((before, rest)) = bytes.split_at_checked(at) else {
        return false;
    };
    let line = match rest {
        [b'\r', b'\n', line @ ..] => line,
        // The second half of a line end is none.
        [b'\n', line @ ..] if !before.ends_with(b"\r") => line,
        _ => return false,
    };
    line.iter().all(u8::is_ascii_hexdigit) || chunk_size(rest).is_some()
}

/// Whether bytes begin as a page does, packed or not.
fn begins_page(bytes: &[u8]) -> bool {
    let is_wide = matches!(bytes, [0xff, 0xfe, ..] | [0xfe, 0xff, ..]);
    let text = bytes.strip_prefix(UTF_8_MARK).unwrap_or(bytes);
    is_wide
        || is_binary(bytes)
        || detect(text).is_some()
        || text.trim_ascii_start().starts_with(b"<")
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    use super::*;

    const MOST: usize = 1 << 20;
    const CHUNKED: &str = "Transfer-Encoding: chunked";

    /// The page in a body that was sent with these fields.
    fn page_of(fields: &str, sent: &[u8]) -> Result<Vec<u8>, String> {
        let words = |name: &str| {
            let mut words = Vec::new();
            for line in fields.lines() {
                if let Some((field, value)) = line.split_once(':')
                    && field.eq_ignore_ascii_case(name)
                {
                    words.extend(
                        value
                            .split(',')
                            .map(|word| word.trim().to_ascii_lowercase()),
                    );
                }
            }
            words
        };
        decode_body(
            sent,
            &words("transfer-encoding"),
            &words("content-encoding"),
            MOST,
        )
        .map(Cow::into_owned)
        .map_err(|reason| reason.to_string())
    }

    /// A page of some thousand bytes, of words that do not repeat.
    fn html() -> Vec<u8> {
        let words =
            (0u64..900).map(|i| format!("{:x} ", i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40));
        format!("<html><body><p>{}", words.collect::<String>()).into_bytes()
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("it is memory");
        encoder.finish().expect("it is memory")
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("it is memory");
        encoder.finish().expect("it is memory")
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).expect("it is memory");
        encoder.finish().expect("it is memory")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).expect("it is memory")
    }

    #[test]
    fn chunks_are_joined_however_they_are_written() {
        for sent in [
            "4\r\n<p>a\r\n1A\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\n\r\n",
            "4\r\n<p>a\r\n1a\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\n\r\n",
            "4;a=b\r\n<p>a\r\n1a ; x=\"y\"\r\nbcdefghijklmnopqrstuvwxyz.\r\n0;end\r\n\r\n",
            "4   \r\n<p>a\r\n 1a\r\nbcdefghijklmnopqrstuvwxyz.\r\n0 \r\n\r\n",
            "0004\r\n<p>a\r\n000000000000000001a\r\nbcdefghijklmnopqrstuvwxyz.\r\n000\r\n\r\n",
            "4\r\n<p>a\r\n1a\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\nExpires: never\r\nX: y\r\n\r\n",
            "4\n<p>a\n1a\nbcdefghijklmnopqrstuvwxyz.\n0\n\n",
            // Cut behind the last chunk, its line end, its size.
            "4\r\n<p>a\r\n1a\r\nbcdefghijklmnopqrstuvwxyz.",
            "4\r\n<p>a\r\n1a\r\nbcdefghijklmnopqrstuvwxyz.\r\n",
            "4\r\n<p>a\r\n1a\r\nbcdefghijklmnopqrstuvwxyz.\r\n0",
            "4\r\n<p>a\r\n1a\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\n",
            // Off by one or two.
            "4\r\n<p>a\r\n19\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\n\r\n",
            "4\r\n<p>a\r\n1b\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\n\r\n",
            "3\r\n<p>a\r\n1c\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\n\r\n",
            // Joined by who archived it.
            "<p>abcdefghijklmnopqrstuvwxyz.",
        ] {
            let page = page_of(CHUNKED, sent.as_bytes());
            assert_eq!(
                page.as_deref(),
                Ok(&b"<p>abcdefghijklmnopqrstuvwxyz."[..]),
                "{sent:?}"
            );
        }
    }

    #[test]
    fn chunks_in_chunks_are_joined() {
        let inner = "6\r\n<p>one\r\n4\r\n two\r\n0\r\n\r\n";
        let outer = format!("{:x}\r\n{inner}\r\n0\r\n\r\n", inner.len());
        assert_eq!(
            page_of(CHUNKED, outer.as_bytes()),
            Ok(b"<p>one two".to_vec())
        );
        // A page that only looks so.
        let page = "<p>6\r\nof them";
        let once = format!("{:x}\r\n{page}\r\n0\r\n\r\n", page.len());
        assert_eq!(
            page_of(CHUNKED, once.as_bytes()),
            Ok(page.as_bytes().to_vec())
        );
    }

    #[test]
    fn of_chunks_that_are_cut_what_came_is_kept() {
        let whole = "4\r\n<p>a\r\n1a\r\nbcdefghijklmnopqrstuvwxyz.\r\n0\r\n\r\n";
        for (length, expected) in [
            (10, "<p>a"),
            (20, "<p>abcdefgh"),
            (30, "<p>abcdefghijklmnopqr"),
        ] {
            let page = page_of(CHUNKED, &whole.as_bytes()[..length]);
            assert_eq!(page.as_deref(), Ok(expected.as_bytes()), "{length}");
        }
        // What is in chunks to its end is joined, if it is said or not. A text with numbers is none.
        assert_eq!(
            page_of("X: y", whole.as_bytes()).as_deref(),
            Ok(&b"<p>abcdefghijklmnopqrstuvwxyz."[..])
        );
        for text in [
            "12\r\nmonths are in a year",
            "5\r\n",
            "0\r\n\r\n",
            "1984\nby George Orwell\n",
            "beef\r\n",
        ] {
            assert_eq!(
                page_of("X: y", text.as_bytes()).as_deref(),
                Ok(text.as_bytes()),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_page_is_unpacked_whatever_is_said_of_it() {
        let html = html();
        for (fields, sent) in [
            ("Content-Encoding: gzip", gzip(&html)),
            ("Content-Encoding: x-gzip", gzip(&html)),
            ("Content-Encoding: GZIP", gzip(&html)),
            ("Content-Encoding: deflate", zlib(&html)),
            ("Content-Encoding: deflate", deflate(&html)),
            ("Content-Encoding: zstd", zstd(&html)),
            ("Content-Encoding: gzip, deflate", zlib(&gzip(&html))),
            ("Content-Encoding: gzip, gzip", gzip(&gzip(&html))),
            ("Content-Encoding: gzip", gzip(&gzip(&html))),
            ("Transfer-Encoding: gzip", gzip(&html)),
            // Said, and not so.
            ("Content-Encoding: gzip", html.clone()),
            ("Content-Encoding: deflate", html.clone()),
            ("Content-Encoding: br", html.clone()),
            ("Content-Encoding: zstd", html.clone()),
            ("Content-Encoding: br", gzip(&html)),
            // So, and not said.
            ("X: y", gzip(&html)),
            ("X: y", zlib(&html)),
            ("X: y", zstd(&html)),
            // Several members and frames.
            (
                "Content-Encoding: gzip",
                [gzip(&html[..99]), gzip(&html[99..])].concat(),
            ),
            (
                "Content-Encoding: zstd",
                [zstd(&html[..99]), zstd(&html[99..])].concat(),
            ),
        ] {
            let page = page_of(fields, &sent);
            assert!(
                page.as_ref().is_ok_and(|it| *it == html),
                "{fields}: {:?}",
                page.map(|it| it.len())
            );
        }
    }

    #[test]
    fn a_packed_page_may_be_cut_or_have_bytes_behind_or_a_wrong_checksum() {
        let html = html();
        let packings = [
            ("gzip", gzip(&html)),
            ("deflate", zlib(&html)),
            ("deflate", deflate(&html)),
        ];
        for (name, sent) in packings.into_iter().chain([("zstd", zstd(&html))]) {
            let fields = format!("Content-Encoding: {name}");
            for behind in [&b"\n"[..], b"\r\n\r\n", &[0; 50], b"<!-- x -->"] {
                let page = page_of(&fields, &[&sent[..], behind].concat());
                assert!(page.is_ok_and(|it| it == html), "{name}, {behind:?}");
            }
            let cut = page_of(&fields, &sent[..sent.len() * 7 / 10]);
            // A frame of zstd is a single block here, which is unpacked as a whole.
            let is_kept = cut
                .as_ref()
                .is_ok_and(|it| html.starts_with(it) && it.len() > html.len() / 2);
            assert!(
                is_kept || name == "zstd",
                "{name}: {:?}",
                cut.map(|it| it.len())
            );
        }
        let mut wrong = gzip(&html);
        let checksum = wrong.len() - 8;
        wrong[checksum] ^= 1;
        assert!(page_of("Content-Encoding: gzip", &wrong).is_ok_and(|it| it == html));
    }

    #[test]
    fn a_page_that_unpacks_to_too_much_is_refused_in_every_layer() {
        let zeros = vec![b' '; 20 * MOST];
        for sent in [
            gzip(&zeros),
            zlib(&zeros),
            zstd(&zeros),
            gzip(&gzip(&zeros)),
            zstd(&gzip(&zeros)),
        ] {
            let refused = page_of("Content-Encoding: gzip", &sent);
            assert!(refused.is_err_and(|it| it.contains("at most 1048576 are allowed")));
        }
        let members = gzip(&vec![b' '; MOST / 2]).repeat(50);
        assert!(page_of("X: y", &members).is_err());
    }

    #[test]
    fn bytes_that_cannot_be_unpacked_are_never_a_page() {
        let noise: Vec<u8> = (0u64..3_000)
            .map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8)
            .collect();
        for name in ["gzip", "deflate", "br", "zstd"] {
            let refused = page_of(&format!("Content-Encoding: {name}"), &noise);
            assert!(
                refused.as_ref().is_err_and(|it| it.contains(name)),
                "{name}: {refused:?}"
            );
        }
        let mut damaged = gzip(&html());
        damaged.truncate(10);
        damaged.extend(noise);
        assert!(page_of("X: y", &damaged).is_err_and(|it| it.contains("damaged")));
    }

    #[test]
    fn a_stray_character_of_control_makes_no_page_unreadable() {
        let page = [b"<p>\x0b".to_vec(), html()].concat();
        assert_eq!(
            page_of("Content-Encoding: deflate", &deflate(&page)),
            Ok(page.clone())
        );
        for stale in ["gzip", "br", "deflate"] {
            assert_eq!(
                page_of(&format!("Content-Encoding: {stale}"), &page),
                Ok(page.clone())
            );
        }
        let twice = deflate(&deflate(&page));
        assert_eq!(
            page_of("Content-Encoding: deflate, deflate", &twice),
            Ok(page.clone())
        );
        // A frame that is to be passed over.
        let framed = [b"\x50\x2a\x4d\x18\x03\0\0\0abc".to_vec(), zstd(&page)].concat();
        assert_eq!(page_of("Content-Encoding: zstd", &framed), Ok(page));
    }

    #[test]
    fn a_text_that_begins_with_a_zero_is_no_end_of_chunks() {
        let text = b"0\nis the first number, and here is all the text behind it.";
        assert_eq!(page_of(CHUNKED, text), Ok(text.to_vec()));
        for end in ["0\r\n\r\n", "0\r\nX-Sum: 7\r\n\r\n", "0"] {
            assert_eq!(page_of(CHUNKED, end.as_bytes()), Ok(Vec::new()), "{end:?}");
        }
    }
}
