//! Decodes pages and plain texts. Tries encodings in the order of the HTML and Encoding standards: byte order mark,
//! what the server says, what the page says, UTF-8, a guess. A decoding in which too much does not fit is not taken.
//!
//! It departs from the standards where the bytes themselves leave no doubt: in UTF-16 and ISO-2022-JP without a mark,
//! and in UTF-8, which bytes of another encoding hardly ever are by chance.

use std::borrow::Cow;
use std::str::Utf8Error;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{
    DecoderResult, Encoding, ISO_2022_JP, ISO_8859_15, REPLACEMENT, UTF_8, UTF_16BE, UTF_16LE,
    WINDOWS_1252, X_USER_DEFINED,
};
use memchr::memmem;

use super::rejected::Reason;

/// The byte order mark of UTF-8.
pub(super) const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";

/// The bytes in which UTF-16 without a mark shows.
const WIDE_WITHIN: usize = 4096;

/// The bytes from which an encoding is guessed.
const GUESSED_BYTES: usize = 128 << 10;

/// So many continuation bytes where UTF-8 has them are no chance.
const EVIDENT_BYTES: usize = 6;
/// So many are none if no byte is elsewhere, and the page is said to be of Western Europe, where a capital letter
/// seldom stands before a sign.
const CLEAN_BYTES: usize = 2;

/// The text of some bytes. `charset` is the label that those who sent them gave, and `declares` whether the bytes may
/// say their encoding, as HTML and XML do.
pub(super) fn decoded(
    bytes: &[u8],
    charset: Option<&str>,
    declares: bool,
) -> Result<String, Reason> {
    let said = charset.and_then(|label| readable(label.as_bytes()));
    let mut bytes = bytes;
    if let Some((encoding, length)) = Encoding::for_bom(bytes) {
        bytes = &bytes[length..];
        let decoded = Decoded::new(encoding, bytes);
        if decoded.fits() {
            return Ok(decoded.text);
        }
    }
    let utf_8 = Decoded::from_utf_8(bytes);
    if let Some(text) = text_of_plain_evidence(bytes, said) {
        return Ok(text);
    }
    if utf_8.is_evident {
        return match utf_8.loses_little() {
            true => Ok(utf_8.text),
            false => mixed(bytes).ok_or_else(|| utf_8.misfit(UTF_8)),
        };
    }
    let inside = if declares { declared(bytes) } else { None };
    if [said, inside].contains(&Some(REPLACEMENT)) && is_unreadable(bytes) {
        let label = match charset {
            Some(label) if said == Some(REPLACEMENT) => label.to_owned(),
            _ => declared_label(bytes).unwrap_or_default(),
        };
        return Err(Reason::Encoding {
            label,
            misfits: None,
        });
    }
    let named = match inside {
        // What a server says of all pages, and their author of this one, are not the same.
        Some(encoding) if encoding == UTF_8 && utf_8.is_clean(1) => [inside, said],
        Some(encoding) if said.is_some_and(is_western) && is_of_letters(bytes, encoding) => {
            [inside, said]
        }
        _ => [said, inside],
    };
    // As letters of Western Europe these bytes make no sense.
    if named.into_iter().flatten().all(is_western) && utf_8.is_clean(CLEAN_BYTES) {
        return Ok(utf_8.text);
    }
    best_candidate(bytes, named, utf_8)
}

/// Whether an encoding is one that servers name without having looked at the page, and to which all bytes fit.
fn is_western(encoding: &'static Encoding) -> bool {
    encoding == WINDOWS_1252 || encoding == ISO_8859_15
}

/// Whether the letters of some bytes speak for an encoding, which is not that of Western Europe.
fn is_of_letters(bytes: &[u8], encoding: &'static Encoding) -> bool {
    if encoding == WINDOWS_1252 || bytes.is_ascii() {
        return false;
    }
    let decoded = Decoded::new(encoding, bytes);
    // Several encodings are one to a text, such as GBK and gb18030.
    decoded.fits_without_controls() && {
        let guess = guessed(bytes);
        guess == encoding || Decoded::new(guess, bytes).text == decoded.text
    }
}

/// The text in the first of the encodings that fits, then in UTF-8, then in the one that is guessed. A character of
/// control where text has none does not fit either, unless nothing fits better.
fn best_candidate(
    bytes: &[u8],
    names: [Option<&'static Encoding>; 2],
    utf_8: Decoded,
) -> Result<String, Reason> {
    let mut tried: Vec<(&'static Encoding, Decoded)> = Vec::new();
    let is_likely_utf_8 = utf_8.others >= 2 && utf_8.errors * 2 <= utf_8.others;
    let mut utf_8 = Some(utf_8);
    let named = names.into_iter().flatten().chain([UTF_8]).map(Some);
    for candidate in named.chain([None]) {
        let encoding = match candidate {
            Some(encoding) => encoding,
            // To an encoding of single bytes each byte is a letter. So it would win, with two or three letters for each
            // that is UTF-8.
            None if is_likely_utf_8 => continue,
            // To guess takes long, so it comes last.
            None => guessed(bytes),
        };
        let is_tried = tried.iter().any(|(before, _)| *before == encoding);
        if is_tried || encoding == REPLACEMENT || is_wide(encoding) && !has_wide(bytes) {
            continue;
        }
        let mut decoded = match utf_8.take_if(|_| encoding == UTF_8) {
            Some(decoded) => decoded,
            None => Decoded::new(encoding, bytes),
        };
        if decoded.fits_without_controls()
            || encoding == UTF_8 && is_likely_utf_8 && decoded.loses_little()
        {
            return Ok(decoded.text);
        }
        if !decoded.fits() && !decoded.is_nearly_whole() {
            decoded.text = String::new();
        }
        tried.push((encoding, decoded));
    }
    let misfit = match tried.first() {
        Some((encoding, decoded)) => decoded.misfit(encoding),
        None => Reason::no_content(),
    };
    let mut nearly_whole = None;
    for (_, decoded) in tried {
        if decoded.fits() {
            return Ok(decoded.text);
        }
        if nearly_whole.is_none() && decoded.is_nearly_whole() {
            nearly_whole = Some(decoded.text);
        }
    }
    if nearly_whole.is_none() && is_likely_utf_8 {
        nearly_whole = mixed(bytes);
    }
    nearly_whole.ok_or(misfit)
}

/// The text of a page in UTF-8 that has lines or elements in another encoding, such as old comments: the one that is
/// guessed from them. `None` if they are more than a third.
fn mixed(bytes: &[u8]) -> Option<String> {
    let mut foreign = Vec::new();
    let mut own = 0;
    for part in lines_and_elements(bytes) {
        match std::str::from_utf8(part) {
            Ok(_) => own += part.iter().filter(|byte| !byte.is_ascii()).count(),
            Err(_) => foreign.extend_from_slice(part),
        }
    }
    let others = foreign.iter().filter(|byte| !byte.is_ascii()).count();
    if others * 2 > own {
        return None;
    }
    let encoding = guessed(&foreign);
    let mut text = String::with_capacity(bytes.len());
    for part in lines_and_elements(bytes) {
        match std::str::from_utf8(part) {
            Ok(part) => text.push_str(part),
            Err(_) => text.push_str(&decode_and_count(encoding, part).0),
        }
    }
    Some(text)
}

/// The bytes in parts, each of which ends behind a line or before or behind a tag.
fn lines_and_elements(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| b"<>\n".contains(byte))
}

/// The encoding of a label: by the HTML standard `x-user-defined` is windows-1252.
fn readable(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = Encoding::for_label(label)?;
    let is_user_defined = encoding == X_USER_DEFINED;
    Some(if is_user_defined {
        WINDOWS_1252
    } else {
        encoding
    })
}

/// Whether bytes are a text in the kind of UTF-16 that a label names. In scripts other than the Latin one, few of its
/// bytes are NUL, and many are none of a text in other encodings.
pub(super) fn is_wide_text(bytes: &[u8], charset: Option<&str>) -> bool {
    let said = charset.and_then(|label| readable(label.as_bytes()));
    said.is_some_and(|encoding| {
        is_wide(encoding) && Decoded::new(encoding, bytes).fits_without_controls()
    })
}

fn is_wide(encoding: &'static Encoding) -> bool {
    encoding == UTF_16LE || encoding == UTF_16BE
}

/// Whether bytes may be UTF-16: those of ASCII and UTF-8 have no NUL.
fn has_wide(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes).is_some() || std::str::from_utf8(bytes).is_err()
}

/// Whether bytes have the escapes of encodings that are no longer read, such as HZ. Otherwise they are plain ASCII,
/// whatever they are said to be.
fn is_unreadable(bytes: &[u8]) -> bool {
    !bytes.is_ascii()
        || bytes.contains(&0x1b)
        || bytes.contains(&0x0e)
        || memmem::find(bytes, b"~{").is_some()
}

/// The text in UTF-16 or ISO-2022-JP, if the bytes show that.
fn text_of_plain_evidence(bytes: &[u8], said: Option<&'static Encoding>) -> Option<String> {
    if let Some(encoding) = wide_without_mark(bytes) {
        let decoded = Decoded::new(encoding, bytes);
        return decoded.fits().then_some(decoded.text);
    }
    // Each character that is not Latin stands behind an escape, and all bytes are ASCII.
    let has_escapes = memchr::memchr(0x1b, bytes).is_some() && bytes.is_ascii();
    if !has_escapes && said != Some(ISO_2022_JP) {
        return None;
    }
    let decoded = Decoded::new(ISO_2022_JP, &without_idle_escapes(bytes));
    // All bytes of it are ASCII, as which it would fit, whatever it is.
    let is_most = decoded.others > 0 && decoded.errors * 2 <= decoded.others;
    (is_most && decoded.is_whole).then_some(decoded.text)
}

/// ISO-2022-JP without the escapes behind which another one stands at once. Words that were encoded one by one and then
/// joined have them, and decoders take them for errors.
fn without_idle_escapes(bytes: &[u8]) -> Cow<'_, [u8]> {
    const ESCAPE: u8 = 0x1b;
    const ESCAPE_BYTES: usize = 3;
    const KNOWN: [&[u8]; 5] = [b"(B", b"(J", b"(I", b"$@", b"$B"];
    let is_idle = |at: usize| {
        let behind = bytes.get(at + 1..at + ESCAPE_BYTES);
        bytes.get(at + ESCAPE_BYTES) == Some(&ESCAPE)
            && behind.is_some_and(|behind| KNOWN.contains(&behind))
    };
    let mut rest = 0;
    let mut kept = Vec::new();
    for at in memchr::memchr_iter(ESCAPE, bytes).filter(|&at| is_idle(at)) {
        kept.extend_from_slice(&bytes[rest..at]);
        rest = at + ESCAPE_BYTES;
    }
    if rest == 0 {
        return Cow::Borrowed(bytes);
    }
    kept.extend_from_slice(&bytes[rest..]);
    Cow::Owned(kept)
}

/// The kind of UTF-16 that bytes without a mark are in, as the NUL bytes of its Latin characters show.
pub(super) fn wide_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let beginning = &bytes[..bytes.len().min(WIDE_WITHIN) / 2 * 2];
    let mut upper = 0;
    let mut lower = 0;
    for pair in beginning.chunks_exact(2) {
        upper += usize::from(pair[0] == 0);
        lower += usize::from(pair[1] == 0);
    }
    let enough = (beginning.len() / 16).max(4);
    let encoding = if lower >= enough && upper * 8 <= lower {
        UTF_16LE
    } else if upper >= enough && lower * 8 <= upper {
        UTF_16BE
    } else {
        return None;
    };
    let sample = Decoded::new(encoding, beginning);
    let is_text = sample.errors == 0 && !sample.text.chars().any(is_control);
    is_text.then_some(encoding)
}

/// Whether a character stands in no text: one of control but white space, and one that is none.
fn is_control(character: char) -> bool {
    let is_space = matches!(character, '\t' | '\n' | '\r' | '\x0c' | '\x1b');
    character.is_control() && !is_space || matches!(character as u32 & 0xffff, 0xfffe | 0xffff)
}

/// The bytes that vote for an encoding together.
const LEAST_OF_VOTE: usize = 96;

/// The encoding that the letters and their order speak for.
fn guessed(bytes: &[u8]) -> &'static Encoding {
    let sample = &*sample_of(bytes);
    let guess = guess_of(sample);
    if !guess.is_single_byte() && decode_and_count(guess, sample).1 == 0 {
        return guess;
    }
    // One byte that does not fit excludes an encoding from a guess, so parts of the page vote.
    let mut votes: Vec<(&'static Encoding, usize)> = Vec::new();
    let mut all = 0;
    for part in parts_of(sample, (sample.len() / 8).max(LEAST_OF_VOTE)) {
        let encoding = guess_of(part);
        let weight = part.iter().filter(|byte| !byte.is_ascii()).count();
        all += weight;
        match votes.iter_mut().find(|(voted, _)| *voted == encoding) {
            Some((_, votes)) => *votes += weight,
            None => votes.push((encoding, weight)),
        }
    }
    for (encoding, weight) in votes {
        if weight * 3 < all * 2 || weight == 0 {
            continue;
        }
        if !encoding.is_single_byte() {
            return encoding;
        }
        // All letters together say more than their parts, unless few bytes have kept an encoding from them.
        let strays = decode_and_count(encoding, sample).1;
        if strays > 0 && strays * 50 <= all {
            return encoding;
        }
    }
    guess
}

fn guess_of(bytes: &[u8]) -> &'static Encoding {
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    // A page that was cut within a character has not ended.
    detector.feed(bytes, false);
    detector.guess(None, Utf8Detection::Deny)
}

/// So much as a guess needs: to guess takes a hundred times as long as to decode.
fn sample_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    if bytes.len() <= GUESSED_BYTES {
        return Cow::Borrowed(bytes);
    }
    let mut sample = Vec::with_capacity(GUESSED_BYTES);
    for part in parts_of(bytes, 1024).filter(|part| !part.is_ascii()) {
        if sample.len() + part.len() > GUESSED_BYTES {
            // A part may be long, if nothing in it is white space.
            sample.extend_from_slice(&part[..part.len().min(GUESSED_BYTES - sample.len())]);
            break;
        }
        sample.extend_from_slice(part);
    }
    Cow::Owned(sample)
}

/// The bytes in parts of a size. They are cut at white space and tags, which are no part of a character in any
/// encoding.
fn parts_of(bytes: &[u8], size: usize) -> impl Iterator<Item = &[u8]> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let behind = rest.get(size..).unwrap_or_default();
        let more = behind
            .iter()
            .position(|byte| b"<\n ".contains(byte))
            .unwrap_or(behind.len());
        let (part, others) = rest.split_at(rest.len().min(size + more));
        rest = others;
        (!part.is_empty()).then_some(part)
    })
}

/// A text, and how well the bytes fit the encoding.
#[derive(Default)]
struct Decoded {
    text: String,
    /// Sequences that are no character. Each has become U+FFFD.
    errors: usize,
    /// Characters of control above ASCII.
    controls: usize,
    /// Characters that fit and are not ASCII. Of UTF-16 all, since none fits by chance.
    others: usize,
    characters: usize,
    /// Whether all was decoded. Decoding stops where far too much does not fit.
    is_whole: bool,
    /// The continuation bytes that stand where UTF-8 has them.
    continued: usize,
    /// Whether it is UTF-8 beyond doubt, even where some bytes do not fit.
    is_evident: bool,
}

impl Decoded {
    fn new(encoding: &'static Encoding, bytes: &[u8]) -> Self {
        if encoding == UTF_8 {
            return Self::from_utf_8(bytes);
        }
        let (text, errors, is_whole) = decode_and_count(encoding, bytes);
        let mut controls = 0;
        let mut others = 0;
        let mut characters = 0;
        for character in text.chars() {
            characters += 1;
            others += usize::from(!character.is_ascii());
            controls += usize::from(('\u{80}'..='\u{9f}').contains(&character));
        }
        let others = if is_wide(encoding) {
            characters
        } else {
            others
        };
        Self {
            text,
            errors,
            controls,
            others: others - errors,
            characters,
            is_whole,
            continued: 0,
            is_evident: false,
        }
    }

    fn from_utf_8(bytes: &[u8]) -> Self {
        let mut decoded = Self {
            is_whole: true,
            ..Self::default()
        };
        for (valid, error) in chunks_of_utf_8(bytes) {
            let behind_first = valid.bytes().filter(|byte| byte & 0xc0 == 0x80).count();
            decoded.others += valid.bytes().filter(|byte| *byte >= 0xc0).count();
            decoded.characters += valid.len() - behind_first;
            decoded.continued += behind_first;
            decoded.text.push_str(valid);
            // A page that was cut within a character is whole up to there.
            if error.is_some_and(|error| error.error_len().is_some() || decoded.others == 0) {
                decoded.text.push('\u{fffd}');
                decoded.errors += 1;
            }
        }
        decoded.characters += decoded.errors;
        // Halves of surrogate pairs are UTF-8 in all but their meaning. Each shows as three errors.
        let mut halves = 0;
        if decoded.errors > 0 {
            halves = halves_of_pairs(bytes);
        }
        decoded.errors -= 2 * halves;
        decoded.is_evident = (halves > 0 || decoded.continued >= EVIDENT_BYTES)
            && decoded.errors - halves <= (decoded.others + halves) / 8;
        decoded
    }

    /// Whether at most a few characters do not fit: two, one in a hundred of those that are not ASCII, or five in a
    /// thousand of all, unless the others that are not ASCII hardly fit better.
    fn fits(&self) -> bool {
        self.fits_but_for(self.errors)
    }

    /// The same, where characters of control above ASCII do not fit either. Where they come, the encoding is mostly
    /// another.
    fn fits_without_controls(&self) -> bool {
        self.fits_but_for(self.errors + self.controls)
    }

    fn fits_but_for(&self, misfits: usize) -> bool {
        let fitting = (self.others + self.errors).saturating_sub(misfits);
        let are_few = misfits == self.errors && misfits <= 2
            || misfits * 100 <= fitting
            || misfits * 200 <= self.characters;
        self.is_whole && (misfits == 0 || are_few && misfits * 8 <= fitting)
    }

    /// Whether next to nothing of the text is lost: an English page with a few odd bytes, of which no guess makes
    /// sense.
    fn is_nearly_whole(&self) -> bool {
        self.is_whole && self.errors * 1000 <= self.characters
    }

    /// Whether it is UTF-8 without an error, with at least so many continuation bytes.
    fn is_clean(&self, least: usize) -> bool {
        self.errors == 0 && self.continued >= least
    }

    /// Whether a reader misses next to nothing of a text that can only be in this encoding.
    fn loses_little(&self) -> bool {
        self.errors <= 2 || self.errors * 50 <= self.others || self.errors * 100 <= self.characters
    }

    fn misfit(&self, encoding: &'static Encoding) -> Reason {
        Reason::Encoding {
            label: encoding.name().to_owned(),
            misfits: Some(self.errors),
        }
    }
}

/// Decodes, with U+FFFD for each sequence that is no character, and counts those. Stops where far too many are none;
/// whether it has not comes last. A character that is cut at the end is left out.
fn decode_and_count(encoding: &'static Encoding, bytes: &[u8]) -> (String, usize, bool) {
    let mut decoder = encoding.new_decoder_without_bom_handling();
    let mut text = String::new();
    let mut errors = 0;
    let mut rest = bytes;
    // With more of them, no text fits. Of a text in ISO-2022-JP all bytes are ASCII, so much may be lost.
    let most = match encoding == ISO_2022_JP {
        true => bytes.len(),
        false => bytes.len() / 100 + 2,
    };
    while errors <= most {
        let more = decoder.max_utf8_buffer_length_without_replacement(rest.len().min(64 << 10));
        text.reserve(more.unwrap_or(256 << 10) + 4);
        let (result, read) = decoder.decode_to_string_without_replacement(rest, &mut text, false);
        rest = &rest[read..];
        match result {
            DecoderResult::InputEmpty => return (text, errors, true),
            DecoderResult::OutputFull => {}
            DecoderResult::Malformed(..) => {
                text.push('\u{fffd}');
                errors += 1;
            }
        }
    }
    (text, errors, false)
}

/// The valid parts of UTF-8, and what is wrong behind each.
fn chunks_of_utf_8(bytes: &[u8]) -> impl Iterator<Item = (&str, Option<Utf8Error>)> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let error = match std::str::from_utf8(rest) {
            Ok(valid) => {
                rest = &[];
                return Some((valid, None));
            }
            Err(error) => error,
        };
        let (valid, behind) = rest.split_at(error.valid_up_to());
        rest = &behind[error.error_len().unwrap_or(behind.len())..];
        Some((std::str::from_utf8(valid).unwrap_or_default(), Some(error)))
    })
}

/// The halves of surrogate pairs that are written as characters of UTF-8.
fn halves_of_pairs(bytes: &[u8]) -> usize {
    memchr::memchr_iter(0xed, bytes)
        .filter(|at| matches!(bytes[at + 1..], [0xa0..=0xbf, 0x80..=0xbf, ..]))
        .count()
}

// The encoding that a page says in itself: in its tags `meta`, found as the HTML standard finds them before a page is
// decoded (13.2.3.2 and 13.2.3.5; 2.5.5 on the value of `content`), or in its XML declaration. The standard lets a
// program look at 1,024 bytes, but has later tags `meta` decide too once they are read. Here the look goes further
// instead.

/// The bytes of a page in which its tags are looked at.
const TAGS_WITHIN: usize = 64 << 10;

/// What scripts and styles hold is no tag, whatever they write.
const RAW_ELEMENTS: [(&[u8], &[u8]); 2] = [(b"script", b"</script"), (b"style", b"</style")];

/// The encoding that a page says. `None` if it says none that is known.
fn declared(page: &[u8]) -> Option<&'static Encoding> {
    encoding_of_label(declared_label(page)?.as_bytes())
}

/// The label of the encoding that a page says, in small letters. `None` if it says none that is known.
fn declared_label(page: &[u8]) -> Option<String> {
    let beginning = page[..page.len().min(TAGS_WITHIN)].to_ascii_lowercase();
    let label = label_of_tags(&beginning).or_else(|| label_of_xml_declaration(&beginning))?;
    Some(String::from_utf8_lossy(label.trim_ascii()).into_owned())
}

fn label_of_tags(page: &[u8]) -> Option<&[u8]> {
    let mut rest = page;
    loop {
        rest = &rest[memchr::memchr(b'<', rest)?..];
        if rest.starts_with(b"<!--") {
            // The two hyphens that open it may close it too.
            rest = &rest[2..];
            rest = &rest[memmem::find(rest, b"-->")? + 3..];
            continue;
        }
        let is_end = rest.get(1) == Some(&b'/');
        let name = &rest[1 + usize::from(is_end)..];
        if !name.first().is_some_and(u8::is_ascii_alphabetic) {
            let is_other = matches!(rest.get(1), Some(b'!' | b'/' | b'?'));
            rest = if is_other {
                &rest[memchr::memchr(b'>', rest)?..]
            } else {
                &rest[1..]
            };
            continue;
        }
        let length = name
            .iter()
            .position(|&byte| byte.is_ascii_whitespace() || b"/>".contains(&byte))?;
        let (name, behind) = name.split_at(length);
        rest = behind;
        if name == b"meta"
            && !is_end
            && let Some(label) = label_of_meta(&mut rest)?
        {
            return Some(label);
        }
        while next_attribute(&mut rest)?.is_some() {}
        if let Some((_, end)) = RAW_ELEMENTS.iter().find(|(raw, _)| *raw == name && !is_end) {
            rest = &rest[memmem::find(rest, end)?..];
        }
    }
}

/// The label of an encoding that is known, as the attributes of a tag `meta` say it. The outer `None` is the end of the
/// page.
fn label_of_meta<'p>(rest: &mut &'p [u8]) -> Option<Option<&'p [u8]>> {
    let mut equivalent: Option<&[u8]> = None;
    let mut charset = None;
    let mut content = None;
    while let Some((name, value)) = next_attribute(rest)? {
        // The first attribute of a name counts.
        match name {
            b"charset" => _ = charset.get_or_insert(value),
            b"content" => _ = content.get_or_insert(value),
            b"http-equiv" => _ = equivalent.get_or_insert(value),
            _ => {}
        }
    }
    let label = match (charset, content) {
        (Some(label), _) => Some(label),
        (None, Some(content)) if equivalent == Some(b"content-type") => charset_of(content),
        _ => None,
    };
    Some(label.filter(|label| encoding_of_label(label).is_some()))
}

/// The label in the value of `content`.
fn charset_of(content: &[u8]) -> Option<&[u8]> {
    let mut rest = content;
    let value = loop {
        rest = &rest[memmem::find(rest, b"charset")? + b"charset".len()..];
        if let Some(value) = rest.trim_ascii_start().strip_prefix(b"=") {
            break value.trim_ascii_start();
        }
    };
    let end = match value.first()? {
        quote @ (b'"' | b'\'') => return before(&value[1..], *quote),
        _ => value
            .iter()
            .position(|&byte| byte.is_ascii_whitespace() || byte == b';')
            .unwrap_or(value.len()),
    };
    Some(&value[..end])
}

/// The label in `<?xml version="1.0" encoding="…"?>`, if its encoding is known.
fn label_of_xml_declaration(page: &[u8]) -> Option<&[u8]> {
    let declaration = page.trim_ascii_start().strip_prefix(b"<?xml")?;
    let declaration = before(declaration, b'>')?;
    let value = &declaration[memmem::find(declaration, b"encoding")? + b"encoding".len()..];
    let value = value
        .trim_ascii_start()
        .strip_prefix(b"=")?
        .trim_ascii_start();
    let quote = *value.first().filter(|quote| b"\"'".contains(quote))?;
    let label = before(&value[1..], quote)?;
    encoding_of_label(label).map(|_| label)
}

/// The encoding of a label within a page. A page in UTF-16 could not have been read so far, so it is in UTF-8.
fn encoding_of_label(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = readable(label)?;
    Some(if is_wide(encoding) { UTF_8 } else { encoding })
}

/// The bytes before the first such byte.
fn before(bytes: &[u8], byte: u8) -> Option<&[u8]> {
    memchr::memchr(byte, bytes).map(|at| &bytes[..at])
}

/// The name and the value of the next attribute of a tag. The inner `None` is the end of the tag, the outer one that of
/// the page.
fn next_attribute<'p>(rest: &mut &'p [u8]) -> Option<Option<(&'p [u8], &'p [u8])>> {
    let before = rest
        .iter()
        .position(|&byte| !byte.is_ascii_whitespace() && byte != b'/')?;
    let bytes = &rest[before..];
    *rest = bytes;
    if bytes[0] == b'>' {
        return Some(None);
    }
    // A `=` at the beginning is a part of the name.
    let end = 1 + bytes[1..]
        .iter()
        .position(|&byte| byte.is_ascii_whitespace() || b"=/>".contains(&byte))?;
    let (name, behind) = bytes.split_at(end);
    *rest = behind;
    let Some(value) = behind.trim_ascii_start().strip_prefix(b"=") else {
        return Some(Some((name, b"")));
    };
    let value = value.trim_ascii_start();
    let (value, behind) = match value.first()? {
        quote @ (b'"' | b'\'') => {
            let end = memchr::memchr(*quote, &value[1..])?;
            (&value[1..=end], &value[end + 2..])
        }
        _ => value.split_at(
            value
                .iter()
                .position(|&byte| byte.is_ascii_whitespace() || byte == b'>')?,
        ),
    };
    *rest = behind;
    Some(Some((name, value)))
}

#[cfg(test)]
mod tests {
    use encoding_rs::{EUC_JP, GBK, ISO_8859_2, SHIFT_JIS, WINDOWS_1251};

    use super::*;

    #[test]
    fn only_the_tags_meta_say_an_encoding() {
        for (page, encoding) in [
            ("<meta charset=shift_jis>", Some(SHIFT_JIS)),
            ("<META\nCharset = 'Shift_JIS' />", Some(SHIFT_JIS)),
            ("<meta/charset=\"x-sjis\">", Some(SHIFT_JIS)),
            ("<meta charset=\"windows-1251", None),
            ("<meta charset=windows-1251", None),
            ("<metas charset=windows-1251>", None),
            (
                "<!-- <meta charset=gbk> --><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            ("<!--><meta charset=gbk>", Some(GBK)),
            ("<!-- <meta charset=gbk>", None),
            (
                "<script charset=gbk src=a.js></script><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            (
                "<script>write('<meta charset=gbk>')</script><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            (
                "<style>/* <meta charset=gbk> */</style><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            (
                "<meta name=description content='charset=gbk'><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            (
                "<a title=\"<meta charset=gbk>\"><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            ("<link charset=gbk><a charset=gbk>", None),
            (
                "<!DOCTYPE html \"<meta charset=gbk\"><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            ("</meta charset=gbk><meta charset=euc-jp>", Some(EUC_JP)),
            ("a < b, 1 <2 <meta charset=euc-jp>", Some(EUC_JP)),
            (
                "<meta http-equiv=Content-Type content=\"text/html; charset=GB2312\">",
                Some(GBK),
            ),
            (
                "<meta content='text/html;CHARSET = iso-8859-2 ; x' http-equiv='content-type'>",
                Some(ISO_8859_2),
            ),
            (
                "<meta http-equiv=content-type content='charset charset=\"gbk\"'>",
                Some(GBK),
            ),
            (
                "<meta http-equiv=content-type content='charset=\"gbk'>",
                None,
            ),
            ("<meta content='text/html; charset=gbk'>", None),
            ("<meta http-equiv=refresh content='0; charset=gbk'>", None),
            (
                "<meta charset=none-such><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            ("<meta charset=gbk charset=euc-jp>", Some(GBK)),
            ("<meta charset=utf-16le>", Some(UTF_8)),
            ("<meta charset=x-user-defined>", Some(WINDOWS_1252)),
            (
                "<?xml version='1.0' encoding='windows-1251'?><html>",
                Some(WINDOWS_1251),
            ),
            (
                "<?xml version='1.0' encoding = \"UTF-16\" ?><html>",
                Some(UTF_8),
            ),
            ("<?xml version='1.0'?><p encoding='windows-1251'>", None),
            (
                "<?xml version='1.0' encoding='gbk'?><meta charset=euc-jp>",
                Some(EUC_JP),
            ),
            ("<p>encoding='gbk' charset=gbk", None),
            ("", None),
            ("<", None),
            ("<meta", None),
        ] {
            assert_eq!(declared(page.as_bytes()), encoding, "{page}");
        }
    }

    #[test]
    fn a_page_that_is_cut_anywhere_says_what_is_whole() {
        let page = "<html a='b'><!-- c --><meta http-equiv=content-type content='text/html; charset=\"gbk\"'>";
        for end in 0..page.len() {
            assert_eq!(declared(&page.as_bytes()[..end]), None, "{end}");
        }
        assert_eq!(declared(page.as_bytes()), Some(GBK));
    }

    #[test]
    fn a_declaration_behind_much_of_a_head_counts() {
        let head = "<link rel=icon href=a.png>".repeat(2_000);
        assert_eq!(
            declared(format!("{head}<meta charset=gbk>").as_bytes()),
            Some(GBK)
        );
    }
}
