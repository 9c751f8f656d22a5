//! Names content that cannot be read as records, and what to do with it. Knows how other kinds of files begin.

use super::format::InputFormat;

/// The bytes that are looked at for NUL.
const LOOKED_AT: usize = 1024;

/// How files of other kinds begin, what they are, and what to do with them.
#[rustfmt::skip]
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"BZh91AY&SY", "is packed with bzip2; unpack it, for example with `bunzip2`"),
    (b"\xfd7zXZ\0", "is packed with xz; unpack it, for example with `unxz`"),
    (b"LZIP\x01", "is packed with lzip; unpack it, for example with `lzip -d`"),
    (b"\x04\x22\x4d\x18", "is packed with lz4; unpack it, for example with `unlz4`"),
    (b"\x02\x21\x4c\x18", "is packed with lz4; unpack it, for example with `unlz4`"),
    (b"\xff\x06\0\0sNaPpY", "is packed with Snappy; unpack it, for example with `snzip -d`"),
    (b"\x1f\x9d", "is packed with compress (`.Z`); unpack it, for example with `gunzip`"),
    (
        b"PK\x03\x04",
        "is a zip archive; unpack it, for example with `unzip`; of a web archive (WACZ), read the folder `archive` \
         alone",
    ),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive; unpack it, for example with `7z x`"),
    (b"\x1f\x8b\x08", "is packed twice, the inner time with gzip; take off the outer packing"),
    (b"\x28\xb5\x2f\xfd", "is packed twice, the inner time with zstd; take off the outer packing"),
    (b"%PDF-", "is a PDF file; extract its text, for example with `pdftotext`"),
    (b"\x93NUMPY", "is an array of NumPy; write its rows as JSON Lines"),
    (b"SQLite format 3\0", "is a database of SQLite; write its rows as JSON Lines"),
    (b"redb\x1a\x0a\xa9\x0d\x0a", "is a database of redb or simdb; of simdb, `simdb dump` writes the documents"),
    (b"PAR1\x15", "is a Parquet file, which is read from the disk, by a program built with `--features cli,parquet`"),
    (b"ARROW1\0\0", "is an Arrow file; write its rows as JSON Lines"),
    (b"\xff\xff\xff\xff", "is a stream of Arrow, as in data sets of Hugging Face; write its rows as JSON Lines or \
                           Parquet"),
    (b"Obj\x01", "is an Avro file; write its rows as JSON Lines"),
    (b"version https://git-lfs.github.com/spec/", "is a pointer of Git LFS, and not the file itself; `git lfs pull` \
                                                  fetches that"),
    (b"!<arch>\n", "is an archive of ar; unpack it, for example with `ar x`"),
    (b"\x1e{", "is a sequence of JSON texts (RFC 7464); take out the bytes 0x1E, so that it is JSON Lines"),
    (b"\xff\xfe\0\0", "is text in UTF-32; convert it with `iconv -f UTF-32 -t UTF-8`"),
    (b"\0\0\xfe\xff", "is text in UTF-32; convert it with `iconv -f UTF-32 -t UTF-8`"),
    (b"%!PS-Adobe-", "is a PostScript file; extract its text, for example with `ps2ascii`"),
    (b"{\\rtf", "is a document in RTF; extract its text, for example with `unrtf --text`"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "is a file of an older Office; save it as text"),
    (b"Rar!\x1a\x07", "is a RAR archive; unpack it, for example with `unrar x`"),
    (b"\x89PNG\r\n\x1a\n", "is an image (PNG)"),
    (b"\xff\xd8\xff", "is an image (JPEG)"),
    (b"II*\0", "is an image (TIFF)"),
    (b"MM\0*", "is an image (TIFF)"),
    (b"\0\0\x01\0", "is an icon"),
    (b"\0\0\x02\0", "is an icon"),
    (b"\x1a\x45\xdf\xa3", "is a film (Matroska, WebM)"),
    (b"OggS\0", "is sound or a film (Ogg)"),
    (b"MThd\0\0\0\x06", "is music (MIDI)"),
    (b"\0\x01\0\0", "is a font"),
    (b"OTTO\0", "is a font"),
    (b"ttcf\0", "is a font"),
    (b"\x7fELF", "is a program (ELF)"),
    (b"\xca\xfe\xba\xbe", "is a program (a class of Java, or Mach-O)"),
    (b"\xcf\xfa\xed\xfe", "is a program (Mach-O)"),
    (b"\xce\xfa\xed\xfe", "is a program (Mach-O)"),
    (b"\0asm", "is a program (WebAssembly)"),
];

/// Beginnings that a text may have too. They count if a NUL byte follows soon.
#[rustfmt::skip]
const WEAK_BEGINNINGS: &[(&[u8], &str)] = &[
    (b"GIF87a", "is an image (GIF)"),
    (b"GIF89a", "is an image (GIF)"),
    (b"BM", "is an image (BMP)"),
    (b"RIFF", "is an image, sound or a film (WebP, WAVE, AVI)"),
    (b"FORM", "is sound (AIFF)"),
    (b"ID3", "is sound (MP3)"),
    (b"fLaC", "is sound (FLAC)"),
    (b"FWS", "is a film (Flash)"),
    (b"CWS", "is a film (Flash)"),
    (b"MZ", "is a program (of Windows)"),
    (b"PARE", "is an encrypted Parquet file, which is not read; write it without encryption"),
    (b"wOFF", "is a font"),
    (b"wOF2", "is a font"),
    (b"ORC", "is an ORC file; write its rows as JSON Lines"),
    (b"SEQ", "is a sequence file of Hadoop; write its records as JSON Lines"),
    (b"\x80\x02", PICKLE),
    (b"\x80\x03", PICKLE),
    (b"\x80\x04", PICKLE),
    (b"\x80\x05", PICKLE),
];

const PICKLE: &str = "is a pickle of Python; write its objects as JSON Lines";

/// What the names of the first entries in zip archives tell of them.
#[rustfmt::skip]
const ZIP_ENTRIES: &[(&[u8], &str)] = &[
    (b"mimetypeapplication/epub+zip", "is a book (EPUB); unpack it, for example with `unzip`, and read its pages"),
    (b"mimetypeapplication/vnd.oasis.opendocument", "is a document in OpenDocument; save it as text"),
    (b"[Content_Types].xml", "is an Office document (OOXML, such as .docx); save it as text"),
];

/// What the content is, if no format can read it.
pub(super) fn kind_of(beginning: &[u8]) -> Option<&'static str> {
    if beginning.starts_with(b"PK\x03\x04")
        && let Some(entry) = beginning.get(30..)
        && let Some(kind) = named_by(ZIP_ENTRIES, entry)
    {
        return Some(kind);
    }
    if let Some(kind) = named_by(BEGINNINGS, beginning) {
        return Some(kind);
    }
    let has_nul = beginning[..beginning.len().min(LOOKED_AT)].contains(&0);
    if has_nul
        && let Some(kind) = named_by(WEAK_BEGINNINGS, beginning)
        && wide_text(beginning).is_none()
    {
        return Some(kind);
    }
    if beginning.get(257..262) == Some(b"ustar") {
        return Some("is a tar archive; unpack it, for example with `tar -x`");
    }
    if has_nul && beginning.get(4..8) == Some(b"ftyp") {
        return Some("is a film, sound or an image (MP4, AVIF, HEIC)");
    }
    wide_text(beginning).filter(|kind| kind.contains("UTF-32"))
}

/// What a table says of the first beginning in it that fits.
fn named_by(table: &[(&[u8], &'static str)], bytes: &[u8]) -> Option<&'static str> {
    let (_, kind) = table
        .iter()
        .find(|(beginning, _)| bytes.starts_with(beginning))?;
    Some(kind)
}

/// What is wrong with text of which each line is a record, whose characters have two or four bytes.
pub(super) fn kind_of_wide_lines(beginning: &[u8]) -> Option<&'static str> {
    match beginning {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            Some("is text in UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`")
        }
        _ => wide_text(beginning),
    }
}

/// What is wrong with lines that end in carriage returns alone: all of them would be one record. So are those of
/// Macs before 2001, and of some programs that copy tables from them.
pub(super) fn kind_of_old_lines(beginning: &[u8], format: InputFormat) -> Option<&'static str> {
    if beginning.contains(&b'\n') {
        return None;
    }
    let lines = beginning.split(|&byte| byte == b'\r');
    let mut lines = lines.filter(|line| !line.trim_ascii().is_empty());
    let first = lines.next()?;
    let second = lines.next()?;
    let mut all = [first, second].into_iter().chain(lines);
    all.all(|line| begins_record(line, format)).then_some(
        "has lines that end in carriage returns alone; turn these into line feeds, say with `tr '\\r' '\\n'`",
    )
}

/// Whether a line may be a record of a format.
fn begins_record(line: &[u8], format: InputFormat) -> bool {
    match format {
        InputFormat::Jsonl => line.trim_ascii_start().starts_with(b"{"),
        InputFormat::Tsv | InputFormat::Fingerprints => line.contains(&b'\t'),
        _ => true,
    }
}

/// What a text is that holds many documents in a format that is not read. The beginning of a text is enough, but of a
/// mailbox it may show one message only.
pub(super) fn kind_of_many(text: &[u8]) -> Option<&'static str> {
    let mut lines = memchr::memmem::find_iter(text, b"\nFrom ");
    let is_mailbox = is_message(text) && lines.any(|at| is_message(&text[at + 1..]));
    is_mailbox.then_some(
        "is a mailbox of several messages (mbox); write each as a line of JSON, or say `--input-format text` if all \
         of them are one document",
    )
}

/// What a message of mail is, or a page that a browser saved as one (MHTML), if its header says that its text is in
/// parts, packed or HTML. A message of plain text can be read as it is.
pub(super) fn kind_of_mail(text: &[u8]) -> Option<&'static str> {
    const UNREAD: &str = "is a message of mail, or a page saved as one (MHTML), whose parts are not read; save the \
                          page as HTML, write the text of the message as a line of JSON, or say `--input-format \
                          text` if all of it is one document";
    let mut has_version = false;
    let mut is_packed = false;
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let begins_message = number == 0 && line.starts_with(b"From ");
        let goes_on = number > 0 && matches!(line, [b' ' | b'\t', ..]);
        let Some(name) = field_name(line) else {
            if begins_message || goes_on {
                continue;
            }
            break;
        };
        let value = line[name.len() + 1..].trim_ascii().to_ascii_lowercase();
        match &*name.to_ascii_lowercase() {
            b"mime-version" => has_version = true,
            b"content-type" => {
                is_packed |= value.starts_with(b"multipart/") || value.starts_with(b"text/html");
            }
            b"content-transfer-encoding" => {
                is_packed |= [&b"base64"[..], b"quoted-printable"].contains(&&*value);
            }
            _ => {}
        }
    }
    (has_version && is_packed).then_some(UNREAD)
}

/// Whether a message of a mailbox begins here: a line `From `, and fields of a header behind it.
fn is_message(text: &[u8]) -> bool {
    let mut lines = text.splitn(4, |&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let second = lines.next().unwrap_or_default();
    first.starts_with(b"From ") && first.contains(&b':') && field_name(second).is_some()
}

/// The name of the field of a header that is in this line.
fn field_name(line: &[u8]) -> Option<&[u8]> {
    let name = &line[..memchr::memchr(b':', line)?];
    let is_name = name
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(byte));
    (is_name && !name.is_empty()).then_some(name)
}

/// The kind of text whose characters have two or four bytes, without a byte order mark. In what is mostly Latin, the
/// upper bytes are NUL.
fn wide_text(beginning: &[u8]) -> Option<&'static str> {
    /// Fewer bytes may be anything.
    const LEAST: usize = 16;
    let bytes = &beginning[..beginning.len().min(4096) / 4 * 4];
    if bytes.len() < LEAST {
        return None;
    }
    let mut nuls = [0; 4];
    for four in bytes.chunks_exact(4) {
        for (nuls, &byte) in nuls.iter_mut().zip(four) {
            *nuls += usize::from(byte == 0);
        }
    }
    // Of each four bytes, which are nearly always NUL, and which are nearly never.
    let quarter = bytes.len() / 4;
    let always = nuls.map(|nuls| nuls * 10 >= quarter * 9);
    let never = nuls.map(|nuls| nuls * 10 <= quarter);
    if (0..4).any(|at| !always[at] && !never[at]) {
        return None;
    }
    match always {
        [false, true, false, true] => {
            Some("is text in UTF-16; convert it with `iconv -f UTF-16LE -t UTF-8`")
        }
        [true, false, true, false] => {
            Some("is text in UTF-16; convert it with `iconv -f UTF-16BE -t UTF-8`")
        }
        [false, true, true, true] => {
            Some("is text in UTF-32; convert it with `iconv -f UTF-32LE -t UTF-8`")
        }
        [true, true, true, false] => {
            Some("is text in UTF-32; convert it with `iconv -f UTF-32BE -t UTF-8`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(bytes_of: impl Fn(char) -> Vec<u8>) -> Vec<u8> {
        "{\"id\": 1, \"text\": \"caf\u{e9}\"}\n"
            .chars()
            .flat_map(bytes_of)
            .collect()
    }

    #[test]
    fn text_of_wide_characters_is_told_without_a_byte_order_mark() {
        let cases = [
            (wide(|it| (it as u16).to_le_bytes().to_vec()), "UTF-16LE"),
            (
                wide(|it| (it as u16).swap_bytes().to_le_bytes().to_vec()),
                "UTF-16BE",
            ),
            (wide(|it| u32::from(it).to_le_bytes().to_vec()), "UTF-32LE"),
            (
                wide(|it| u32::from(it).swap_bytes().to_le_bytes().to_vec()),
                "UTF-32BE",
            ),
        ];
        for (bytes, name) in cases {
            assert!(
                kind_of_wide_lines(&bytes).is_some_and(|kind| kind.contains(name)),
                "{name}"
            );
            // Whole files are read in UTF-16.
            assert_eq!(
                kind_of(&bytes).is_some(),
                name.starts_with("UTF-32"),
                "{name}"
            );
        }
    }

    #[test]
    fn text_with_some_nul_characters_is_still_text() {
        assert_eq!(kind_of(b"some\0words\0that\0are\0parted\0by\0nul"), None);
        assert_eq!(kind_of(b"PARTS of a text, 7z, BZh and PK"), None);
        assert_eq!(kind_of(b""), None);
    }

    #[test]
    fn binary_content_is_named_and_text_that_begins_like_some_is_not() {
        let cases: [(&[u8], &str); 12] = [
            (b"\x89PNG\r\n\x1a\n\0\0", "PNG"),
            (b"GIF89a\x01\0\x01\0", "GIF"),
            (b"BM\x36\0\0\0", "BMP"),
            (b"\x7fELF\x02\x01\x01\0", "ELF"),
            (b"{\\rtf1\\ansi", "RTF"),
            (b"\0\0\0\x1cftypavif\0", "AVIF"),
            (b"MZ\x90\0\x03\0", "Windows"),
            (b"\x04\x22\x4d\x18\x64\x40", "unlz4"),
            (b"\x02\x21\x4c\x18\x64\x40", "unlz4"),
            (b"\xff\x06\0\0sNaPpY\x01", "Snappy"),
            (b"\x1f\x9d\x90", "gunzip"),
            (b"LZIP\x01\x0c", "lzip -d"),
        ];
        for (bytes, name) in cases {
            assert!(
                kind_of(bytes).is_some_and(|kind| kind.contains(name)),
                "{name}"
            );
        }
        for text in [
            "BMW builds",
            "GIF89a is a format",
            "MZ",
            "FORM 10",
            "RIFF",
            "PK, or",
            "ID3 tags",
            "LZIP is a format",
        ] {
            assert_eq!(kind_of(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn a_zip_archive_is_told_by_its_first_entry() {
        let zip = |entry: &str| [b"PK\x03\x04", &[0; 26][..], entry.as_bytes()].concat();
        for (entry, name) in [
            ("mimetypeapplication/epub+zip", "EPUB"),
            (
                "mimetypeapplication/vnd.oasis.opendocument.text",
                "OpenDocument",
            ),
            ("[Content_Types].xml", ".docx"),
            ("a.txt", "a zip archive"),
            ("pages/pages.jsonl", "read the folder `archive` alone"),
        ] {
            assert!(
                kind_of(&zip(entry)).is_some_and(|kind| kind.contains(name)),
                "{entry}"
            );
        }
    }

    #[test]
    fn several_messages_are_a_mailbox_and_one_is_a_text() {
        let one = "From a@example.org Mon Jan  1 10:00:00 2024\nSubject: a\n\nFrom here on\nit is a text.\n";
        assert_eq!(kind_of_many(one.as_bytes()), None);
        assert!(kind_of_many(format!("{one}\n{one}").as_bytes()).is_some());
        assert!(kind_of_many(format!("{one}\n{one}").replace('\n', "\r\n").as_bytes()).is_some());
        assert_eq!(kind_of_many(b"From here: a\nb\nFrom there: b\nc\n"), None);
        assert_eq!(kind_of_many(b""), None);
    }

    #[test]
    fn a_message_with_parts_is_told_by_its_header() {
        let header =
            "From: <Saved by Blink>\r\nSubject: =?utf-8?Q?a?=\r\n\tb: c\r\nMime-version: 1.0\r\n";
        for text in [
            format!("{header}Content-Type: multipart/related;\r\n\ttype=text/html\r\n\r\nwords"),
            format!(
                "From a@example.org Mon Jan  1 10:00:00 2024\n{header}content-type: Multipart/mixed\n"
            ),
            format!("content-transfer-encoding: Base64\n{header}"),
            format!("{header}Content-Transfer-Encoding: quoted-printable\r\n\r\n"),
        ] {
            assert!(kind_of_mail(text.as_bytes()).is_some(), "{text}");
        }
        for text in [
            "",
            "From: a\nMIME-Version: 1.0\nContent-Type: text/plain\nContent-Transfer-Encoding: 7bit\n\nwords\n",
            "From: a\nTo: b\n\nMIME-Version: 1.0\nContent-Type: multipart/mixed\n",
            "Words about mail\nMIME-Version: 1.0\nContent-Type: multipart/mixed\n",
            "Note: one\n  MIME-Version: 1.0\nContent-Type: multipart/mixed\n",
            "Content-Type: multipart/mixed\n",
        ] {
            assert_eq!(kind_of_mail(text.as_bytes()), None, "{text}");
        }
    }
}
