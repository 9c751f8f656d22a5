//! Names content that cannot be read as records, and what to do with it. Knows how other kinds of files begin.

/// How files of other kinds begin, what they are, and what to do with them.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"BZh91AY&SY", "is packed with bzip2; unpack it, for example with `bunzip2`"),
    (b"\xfd7zXZ\0", "is packed with xz; unpack it, for example with `unxz`"),
    (b"PK\x03\x04", "is a zip archive; unpack it, for example with `unzip`"),
    (b"7z\xbc\xaf\x27\x1c", "is a 7z archive; unpack it, for example with `7z x`"),
    (b"\x1f\x8b\x08", "is packed twice, the inner time with gzip; take off the outer packing"),
    (b"\x28\xb5\x2f\xfd", "is packed twice, the inner time with zstd; take off the outer packing"),
    (b"%PDF-", "is a PDF file; extract its text, for example with `pdftotext`"),
    (b"SQLite format 3\0", "is a database of SQLite; write its rows as JSON Lines"),
    (
        b"redb\x1a\x0a\xa9\x0d\x0a",
        "is a database of redb or simdb; of simdb, `simdb dump` writes the documents",
    ),
    (
        b"PAR1\x15",
        "is a Parquet file, which is read from the disk, by a program built with `--features parquet`",
    ),
    (b"PARE", "is an encrypted Parquet file, which is not read; write it without encryption"),
    (b"ARROW1\0\0", "is an Arrow file; write its rows as JSON Lines"),
    (b"\xff\xfe\0\0", "is text in UTF-32; convert it with `iconv -f UTF-32 -t UTF-8`"),
    (b"\0\0\xfe\xff", "is text in UTF-32; convert it with `iconv -f UTF-32 -t UTF-8`"),
    (b"\xff\xfe", "is text in UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`"),
    (b"\xfe\xff", "is text in UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`"),
];

/// What the content is, if no format can read it.
pub(super) fn kind_of(beginning: &[u8]) -> Option<&'static str> {
    let known = BEGINNINGS.iter().find(|(bytes, _)| beginning.starts_with(bytes));
    if let Some((_, kind)) = known {
        return Some(kind);
    }
    if beginning.get(257..262) == Some(b"ustar") {
        return Some("is a tar archive; unpack it, for example with `tar -x`");
    }
    wide_text(beginning)
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
    // Of each four bytes, which are nearly always NUL, and which are nearly never.
    let nul = [0, 1, 2, 3].map(|at| {
        let nuls = bytes.iter().skip(at).step_by(4).filter(|&&byte| byte == 0).count() * 10;
        let quarter = bytes.len() / 4;
        if nuls >= quarter * 9 { Some(true) } else { (nuls <= quarter).then_some(false) }
    });
    match nul.map(|it| it.map_or(2, u8::from)) {
        [0, 1, 0, 1] => Some("is text in UTF-16; convert it with `iconv -f UTF-16LE -t UTF-8`"),
        [1, 0, 1, 0] => Some("is text in UTF-16; convert it with `iconv -f UTF-16BE -t UTF-8`"),
        [0, 1, 1, 1] => Some("is text in UTF-32; convert it with `iconv -f UTF-32LE -t UTF-8`"),
        [1, 1, 1, 0] => Some("is text in UTF-32; convert it with `iconv -f UTF-32BE -t UTF-8`"),
        _ => None,
    }
}

/// Whether the first line is a key, a tab and a fingerprint. Such a line is hardly ever a text.
pub(super) fn is_fingerprints(beginning: &[u8]) -> bool {
    let line = beginning.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let Some(tab) = memchr::memchr(b'\t', line) else { return false };
    let digits = line[tab + 1..].trim_ascii();
    tab > 0 && digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit)
}

/// What is wrong with JSON that is not one object per line. `beginning` has no white space in front.
pub(super) fn kind_of_json(beginning: &[u8]) -> Option<&'static str> {
    let is_array = |rest: &[u8]| matches!(rest.trim_ascii_start(), [b'{' | b'[', ..]);
    match beginning {
        [b'[', rest @ ..] if is_array(rest) => {
            Some("is one JSON array, not an object per line; cut it with `jq -c '.[]'`")
        }
        [b'{', rest @ ..] => {
            let line = rest.split(|&byte| byte == b'\n').next().unwrap_or_default();
            let more = rest.get(line.len() + 1..).unwrap_or_default();
            let is_spread = line.trim_ascii().is_empty() && more.trim_ascii_start().starts_with(b"\"");
            is_spread.then_some("has JSON objects over several lines; put each on a line with `jq -c .`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(bytes_of: impl Fn(char) -> Vec<u8>) -> Vec<u8> {
        "{\"id\": 1, \"text\": \"caf\u{e9}\"}\n".chars().flat_map(bytes_of).collect()
    }

    #[test]
    fn text_of_wide_characters_is_told_without_a_byte_order_mark() {
        let cases = [
            (wide(|it| (it as u16).to_le_bytes().to_vec()), "UTF-16LE"),
            (wide(|it| (it as u16).swap_bytes().to_le_bytes().to_vec()), "UTF-16BE"),
            (wide(|it| u32::from(it).to_le_bytes().to_vec()), "UTF-32LE"),
            (wide(|it| u32::from(it).swap_bytes().to_le_bytes().to_vec()), "UTF-32BE"),
        ];
        for (bytes, name) in cases {
            assert!(kind_of(&bytes).is_some_and(|it| it.contains(name)), "{name}");
        }
    }

    #[test]
    fn text_with_some_nul_characters_is_still_text() {
        assert_eq!(kind_of(b"some\0words\0that\0are\0parted\0by\0nul"), None);
        assert_eq!(kind_of(b"PARTS of a text, 7z, BZh and PK"), None);
        assert_eq!(kind_of(b""), None);
    }

    #[test]
    fn only_a_key_and_sixteen_digits_are_taken_for_a_fingerprint() {
        assert!(is_fingerprints(b"a\t0123456789abcdef\r\nb\ttext"));
        assert!(!is_fingerprints(b"a\t0123456789abcde\n"));
        assert!(!is_fingerprints(b"0123456789abcdef\n"));
    }

    #[test]
    fn json_of_one_object_per_line_is_not_refused() {
        assert_eq!(kind_of_json(b"{\"id\": 1}\n{\n"), None);
        assert!(kind_of_json(b"[\n {\"id\": 1}]").is_some());
        assert!(kind_of_json(b"{\r\n  \"id\": 1\n}").is_some());
    }
}
