//! The formats of inputs, and which of them an input has: by its name, and by its bytes, which are HTML, XML, text,
//! or none of them.
//!
//! # References
//! MIME Sniffing Living Standard, section 7.1 on how HTML begins, section 3 on the bytes that text does not have.
//! It departs from the standard in four points: a byte order mark before HTML does not hide the HTML, UTF-16 is
//! looked at as what it says, HTML may begin with more tags than those of the standard, as pages do whose optional tags
//! were left out, and a document type is one whatever white space is in it.

use std::borrow::Cow;
use std::path::Path;

use encoding_rs::Encoding;

use super::encoding::{UTF_8_MARK, wide_without_mark};
use super::unpacked::begins_archive;
use super::unreadable::{kind_of_mail, kind_of_many};
use crate::error::{Error, Result};

/// How an input is cut into records.
///
/// # Example
///
/// ```
/// use simdb::ingest::{InputFormat, ReadOptions, Record, Records, Rejected};
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("list.txt");
///
/// std::fs::write(&path, "the first document\nthe second document\n")?;
/// let mut found = Vec::new();
/// for format in [InputFormat::Auto, InputFormat::Lines] {
///     let mut records = Records::open([&path], ReadOptions::new().format(format))?;
///     found.push(records.next_chunk(Ok::<Record, Rejected>)?.len());
/// }
/// assert_eq!(found, [1, 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
#[cfg_attr(feature = "cli", derive(clap::ValueEnum))]
pub enum InputFormat {
    /// By the name of the input, or by how it begins.
    ///
    /// The format is that of the first of these rules that fits:
    ///
    /// * [`Warc`](Self::Warc) for the name `.warc`, and if it begins with `WARC/`;
    /// * [`Text`](Self::Text) for the names `.txt`, `.md`, `.html`, `.htm`, `.xhtml` and `.xht`;
    /// * [`Jsonl`](Self::Jsonl) for the names `.jsonl`, `.ndjson` and `.json`, and if the first character is
    ///   `{` with white space, `"` or `}` behind it;
    /// * [`Tsv`](Self::Tsv) for the name `.tsv`, and for standard input or a pipe whose first line has a tab, unless it
    ///   is HTML or XML;
    /// * none for an empty file of another name: it has no records;
    /// * [`Text`](Self::Text) for everything else, but for `.csv`, JSON arrays of objects, XML that is not XHTML,
    ///   messages of mail in parts, packed or HTML (MIME), and mailboxes of several messages: these are in formats that
    ///   are not read, and are refused.
    #[default]
    Auto,
    /// A JSON object per line.
    Jsonl,
    /// A key, a tab and a text per line.
    ///
    /// There is no header. `\t`, `\n`, `\r` and `\\` stand for tab, line feed, carriage return and backslash.
    Tsv,
    /// A file is a document, its path the key.
    ///
    /// HTML is known by the names `.html` and `.htm`, XHTML by `.xhtml`
    /// and `.xht`, and both by their beginning if the name is not that of a text or of a source, such as `.txt`, `.md`
    /// or `.vue`. Any encoding is read.
    Text,
    /// A line is a document. The path, or the name that the input was given, and the number of the line are the key.
    ///
    /// Empty lines are none. A colon stands between the two parts of the key.
    Lines,
    /// A key, a tab and 16 hexadecimal digits per line.
    Fingerprints,
    /// A web archive.
    ///
    /// It is in the format WARC. Responses, resources and conversions that are HTML or text are documents. The key
    /// is the address of the page, and it was seen at the date of the record. Other records are passed over.
    Warc,
}

/// What a record is of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Line,
    File,
    /// A record of a web archive.
    Archive,
}

const NAMES: [(&str, InputFormat); 7] = [
    ("auto", InputFormat::Auto),
    ("jsonl", InputFormat::Jsonl),
    ("tsv", InputFormat::Tsv),
    ("text", InputFormat::Text),
    ("lines", InputFormat::Lines),
    ("fingerprints", InputFormat::Fingerprints),
    ("warc", InputFormat::Warc),
];

impl InputFormat {
    /// The name of the format.
    pub fn name(self) -> &'static str {
        let named = NAMES.iter().find(|(_, format)| *format == self);
        named.expect("each format has a name").0
    }

    /// The format of a name, such as `jsonl`.
    pub fn from_name(name: &str) -> Option<Self> {
        let named = NAMES.iter().find(|(known, _)| *known == name);
        named.map(|(_, format)| *format)
    }

    /// How an input of this format is cut. Of an input whose format is not known yet, nothing is cut.
    pub(crate) fn cut(self) -> Cut {
        match self {
            Self::Auto | Self::Jsonl | Self::Tsv | Self::Lines | Self::Fingerprints => Cut::Line,
            Self::Text => Cut::File,
            Self::Warc => Cut::Archive,
        }
    }
}

/// The endings of the names of pages.
const HTML_NAMES: &[&str] = &[".html", ".htm"];
const XHTML_NAMES: &[&str] = &[".xhtml", ".xht"];

/// The endings of the names of plain texts and of sources of programs, which may begin like pages.
const TEXT_NAMES: &[&str] = &[
    ".txt",
    ".text",
    ".md",
    ".markdown",
    ".mdx",
    ".rst",
    ".adoc",
    ".tex",
    ".js",
    ".mjs",
    ".cjs",
    ".jsx",
    ".ts",
    ".tsx",
    ".vue",
    ".svelte",
    ".astro",
    ".marko",
];

/// Whether a file is a page or a plain text by its name.
pub(super) fn kind_by_name(path: &Path) -> Option<Kind> {
    let name = plain_name(path);
    if name_ends(&name, XHTML_NAMES) {
        Some(Kind::Xhtml)
    } else if name_ends(&name, HTML_NAMES) {
        Some(Kind::Html)
    } else if name_ends(&name, TEXT_NAMES) {
        Some(Kind::Text)
    } else {
        None
    }
}

/// Detects the format by the name of the input and its first bytes. A stream of lines with tabs is a table. A file of
/// such lines may be a text.
pub(super) fn detect(path: &Path, is_stream: bool, beginning: &[u8]) -> Result<InputFormat> {
    let name = plain_name(path);
    if name.ends_with(".arc") || beginning.starts_with(b"filedesc://") {
        let reason = "is a web archive of the old format ARC, which is not read; turn it into WARC";
        return Err(Error::input(path, reason));
    }
    if begins_archive(beginning) || name.ends_with(".warc") {
        return Ok(InputFormat::Warc);
    }
    let kind_by_name = kind_by_name(path);
    let is_page = matches!(kind_by_name, Some(Kind::Html | Kind::Xhtml));
    let is_named_text = kind_by_name.is_some();
    let shown = beginning_of(beginning);
    let shown = shown.trim_ascii_start();
    let kind = kind_of_bytes(beginning);
    let is_markup = matches!(kind, Kind::Html | Kind::Xhtml | Kind::Xml);
    let is_table = is_stream && !is_markup && first_line(shown).contains(&b'\t');
    // Programs that write many files at once leave some of them empty, beside others of records.
    let has_no_records = beginning.is_empty();
    let format = if is_named_text {
        InputFormat::Text
    } else if name_ends(&name, &[".jsonl", ".ndjson", ".json"]) || begins_object(shown) {
        InputFormat::Jsonl
    } else if name_ends(&name, &[".tsv", ".tab"]) || is_table {
        InputFormat::Tsv
    } else if has_no_records {
        InputFormat::Jsonl
    } else {
        InputFormat::Text
    };
    let problem = match format {
        InputFormat::Jsonl => kind_of_json(shown),
        InputFormat::Tsv | InputFormat::Text if !is_page && is_fingerprints(shown) => {
            Some("has fingerprints in place of texts; say so with `--input-format fingerprints`")
        }
        InputFormat::Text if !is_page => kind_of_many(shown).or_else(|| match kind {
            _ if name.ends_with(".csv") || !is_named_text && is_csv(shown) => Some(UNREAD_CSV),
            _ if is_named_text => has_json_lines(shown).then_some(NAMED_AS_TEXT),
            Kind::Xml => Some(UNREAD_XML),
            _ => kind_of_mail(shown).or_else(|| match shown.strip_prefix(b"[") {
                Some(rest) if begins_item(rest.trim_ascii_start()) => kind_of_json(shown),
                _ => None,
            }),
        }),
        // A browser may save a page as mail with parts.
        InputFormat::Text if is_page && !is_markup => kind_of_mail(shown),
        _ => None,
    };
    match problem {
        Some(reason) => Err(Error::input(path, reason)),
        None => Ok(format),
    }
}

const UNREAD_CSV: &str = "is a table of comma-separated values or the like, which is not read; write its rows as JSON Lines, or say \
                   `--input-format text` if all of it is one document";

const NAMED_AS_TEXT: &str = "has an object of JSON in each line, and the name of a text: say `--input-format jsonl`, or \
                             `--input-format text` if all of it is one document";

const UNREAD_XML: &str = "is XML but no page, so its documents are not known; write them as JSON Lines, or say \
                   `--input-format text` if all of it, with its tags, is one document";

/// The name of a file in small letters, without what says that it is packed.
fn plain_name(path: &Path) -> String {
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    let packed = [".gz", ".zst", ".gzip", ".zstd", ".bgz"];
    let plain = packed.iter().find_map(|ending| name.strip_suffix(ending));
    plain.unwrap_or(&name).to_owned()
}

fn name_ends(name: &str, endings: &[&str]) -> bool {
    endings.iter().any(|ending| name.ends_with(ending))
}

/// What some bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Html,
    /// XML whose root is `html`, in the namespace of XHTML.
    Xhtml,
    /// Other XML.
    Xml,
    Text,
    /// Not text.
    Binary,
}

/// The bytes that are looked at.
const WITHIN: usize = 4096;

/// The bytes in which the standard, and so browsers, look for those that text does not have.
pub(super) const BINARY_WITHIN: usize = 1445;

/// The elements with whose tags HTML begins. White space, `>` or `/>` stands behind each. A comment is HTML too, but
/// not `<pre>`, with which many texts begin. From `meta` on they are not in the standard.
const HTML: &str = "html head script iframe h1 div font table a style title b body br p meta link base noscript \
                    frameset center main article aside section header footer nav figure img hr span ul ol dl h2 \
                    h3 h4 h5 h6 form blockquote em strong i u small big abbr address cite li dt dd tr td th \
                    tbody thead caption button input label select picture video audio object embed map details \
                    dialog fieldset template time mark marquee nobr hgroup search noframes menu dir math code \
                    kbd samp var tt s strike del ins sup sub q dfn bdo bdi wbr ruby data output progress meter \
                    summary textarea option optgroup legend col colgroup tfoot area source track param canvas \
                    acronym xmp";

const DOCUMENT_TYPE: &[u8] = b"<!doctype";

/// The roots of XML and SGML without a declaration: feeds, dumps of wikis and what is made of those (`doc`), pictures,
/// maps of sites, and collections of news (`doc`, `lewis`).
const XML: &str = "rss feed rdf:rdf mediawiki doc lewis svg urlset sitemapindex";

/// What the bytes are, by their beginning.
pub(super) fn kind_of_bytes(bytes: &[u8]) -> Kind {
    let beginning = beginning_of(bytes);
    let lower = beginning.trim_ascii_start().to_ascii_lowercase();
    if lower.starts_with(b"<?xml") {
        return if has_root(&lower, "html") {
            Kind::Xhtml
        } else {
            Kind::Xml
        };
    }
    // XML may begin with a comment too.
    if has_root(&lower, XML) {
        return Kind::Xml;
    }
    // A document type of another name is hardly ever one of XML without a declaration.
    let is_html = lower.starts_with(DOCUMENT_TYPE) || begins_with_own_tag(&lower);
    if is_html || lower.starts_with(b"<!--") || has_any_tag(&lower, HTML) {
        return Kind::Html;
    }
    let looked_at = &beginning[..beginning.len().min(BINARY_WITHIN)];
    if looked_at.iter().any(|&byte| is_no_text(byte)) {
        Kind::Binary
    } else {
        Kind::Text
    }
}

/// Whether the root of XML is that of a page, with a declaration of XML or without.
pub(super) fn has_html_root(bytes: &[u8]) -> bool {
    let lower = beginning_of(bytes).trim_ascii_start().to_ascii_lowercase();
    has_root(&lower, "html")
}

/// Whether the tag of an element begins here that a page defines itself: its name has a hyphen.
fn begins_with_own_tag(lower: &[u8]) -> bool {
    let Some([first, rest @ ..]) = lower.strip_prefix(b"<") else {
        return false;
    };
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let end = rest.iter().position(|byte| !is_of_name(byte));
    let name = &rest[..end.unwrap_or(rest.len())];
    first.is_ascii_alphabetic()
        && name.contains(&b'-')
        && begins_with_tag(lower, &lower[..name.len() + 2])
}

/// The first bytes in an encoding that is like ASCII: without a mark, and of UTF-16 in UTF-8.
fn beginning_of(bytes: &[u8]) -> Cow<'_, [u8]> {
    /// Programs that join files leave marks, and editors spaces that nobody sees.
    const PASSED_OVER: [&[u8]; 3] = [UTF_8_MARK, "\u{a0}".as_bytes(), "\u{200b}".as_bytes()];
    let mut rest = bytes;
    let behind_one = |bytes: &'_ [u8]| {
        let bytes = bytes.trim_ascii_start();
        PASSED_OVER
            .iter()
            .find(|one| bytes.starts_with(one))
            .map(|one| bytes.len() - one.len())
    };
    while let Some(left) = behind_one(rest) {
        rest = &rest[rest.len() - left..];
    }
    if rest.len() < bytes.len() {
        let rest = rest.trim_ascii_start();
        return Cow::Borrowed(&rest[..rest.len().min(WITHIN)]);
    }
    let mut beginning = &bytes[..bytes.len().min(WITHIN)];
    if beginning.trim_ascii().is_empty() {
        // Some programs write many empty lines before a page.
        let rest = bytes.trim_ascii_start();
        beginning = &rest[..rest.len().min(WITHIN)];
    }
    let marked = Encoding::for_bom(beginning).map(|(encoding, _)| encoding);
    match marked.or_else(|| wide_without_mark(beginning)) {
        Some(encoding) => Cow::Owned(encoding.decode(beginning).0.into_owned().into_bytes()),
        None => Cow::Borrowed(beginning),
    }
}

/// Whether bytes that are said to be text are none: more than one in fifty stands in no text. HTML may have some, such
/// as a stray NUL, which browsers pass over.
pub(super) fn is_mostly_binary(bytes: &[u8]) -> bool {
    let bytes = bytes.strip_prefix(UTF_8_MARK).unwrap_or(bytes);
    if wide_without_mark(bytes).is_some() {
        return false;
    }
    if let Some((encoding, _)) = Encoding::for_bom(bytes) {
        // Of the last character, half may be cut off.
        let text = encoding.decode(&bytes[..bytes.len() & !1]).0;
        let (mut all, mut odd) = (0, 0);
        for c in text.chars() {
            all += 1;
            odd += usize::from(
                c == char::REPLACEMENT_CHARACTER || u8::try_from(c).is_ok_and(is_no_text),
            );
        }
        return odd * 50 > all;
    }
    bytes.iter().filter(|&&byte| is_no_text(byte)).count() * 50 > bytes.len()
}

fn begins_with_tag(bytes: &[u8], tag: &[u8]) -> bool {
    match bytes.strip_prefix(tag) {
        Some([b'>', ..] | [b'/', b'>', ..]) => true,
        Some([byte, ..]) => byte.is_ascii_whitespace(),
        _ => false,
    }
}

/// Whether the root of XML is one of these: it, or the document type that names it, is the first that is neither a
/// declaration nor a comment.
fn has_root(xml: &[u8], roots: &str) -> bool {
    let mut rest = xml;
    loop {
        let end: &[u8] = match rest {
            [b'<', b'?', ..] => b"?>",
            [b'<', b'!', b'-', b'-', ..] => b"-->",
            _ => break,
        };
        let Some(at) = memchr::memmem::find(rest, end) else {
            return false;
        };
        rest = rest[at + end.len()..].trim_ascii_start();
    }
    match begins_with_tag(rest, DOCUMENT_TYPE) {
        true => begins_with_any(rest[DOCUMENT_TYPE.len()..].trim_ascii_start(), roots),
        false => has_any_tag(rest, roots),
    }
}

/// Whether the tag of one of these elements begins here.
fn has_any_tag(lower: &[u8], elements: &str) -> bool {
    let tag = lower.strip_prefix(b"<");
    let name = tag.map(|tag| tag.strip_prefix(b"/").unwrap_or(tag));
    name.is_some_and(|name| begins_with_any(name, elements))
}

fn begins_with_any(lower: &[u8], names: &str) -> bool {
    let mut names = names.split(' ');
    names.any(|name| begins_with_tag(lower, name.as_bytes()))
}

/// Whether a byte is not in text.
pub(super) fn is_no_text(byte: u8) -> bool {
    matches!(byte, 0..=0x08 | 0x0b | 0x0e..=0x1a | 0x1c..=0x1f)
}

fn first_line(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'\n', bytes).unwrap_or(bytes.len());
    &bytes[..end]
}

/// Whether the first line has names of columns between commas or semicolons, one of which is that of a field with a key
/// or a content, and the next line has them too. So begins hardly a text.
fn is_csv(beginning: &[u8]) -> bool {
    b",;"
        .iter()
        .any(|&separator| is_table_of(separator, beginning))
}

fn is_table_of(separator: u8, beginning: &[u8]) -> bool {
    const KNOWN: [&str; 8] = [
        "key", "id", "url", "text", "html", "content", "title", "body",
    ];
    let header = first_line(beginning).trim_ascii_end();
    let next = beginning
        .get(header.len()..)
        .unwrap_or_default()
        .trim_ascii_start();
    if !header.contains(&separator) || !first_line(next).contains(&separator) {
        return false;
    }
    let mut has_known = false;
    for (place, cell) in header.split(|&byte| byte == separator).enumerate() {
        let cell = cell.trim_ascii();
        let name = match cell {
            [b'"', name @ .., b'"'] | name => name,
        };
        // The column of the numbers of rows has no name.
        let has_name = !name.is_empty() || place == 0;
        let mut bytes = name.iter();
        if !has_name || !bytes.all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(byte)) {
            return false;
        }
        let mut known = KNOWN.iter();
        has_known |= known.any(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    }
    has_known
}

/// Whether the first line is a key, a tab and a fingerprint. Such a line is hardly ever a text.
fn is_fingerprints(beginning: &[u8]) -> bool {
    let line = first_line(beginning);
    let Some(tab) = memchr::memchr(b'\t', line) else {
        return false;
    };
    let digits = line[tab + 1..].trim_ascii();
    tab > 0 && digits.len() == 16 && digits.iter().all(u8::is_ascii_hexdigit)
}

/// Whether an object or a text in an array of JSON begins here.
fn begins_item(bytes: &[u8]) -> bool {
    begins_object(bytes) || bytes.starts_with(b"\"")
}

/// Whether an object of JSON begins here, as far as the next byte tells. Texts may begin with a brace too, such as
/// those of wikis and of templates.
fn begins_object(bytes: &[u8]) -> bool {
    match bytes {
        [b'{', byte, ..] => byte.is_ascii_whitespace() || b"\"}".contains(byte),
        _ => bytes == b"{",
    }
}

/// Whether the first two lines are objects of JSON, as far as their ends tell.
fn has_json_lines(text: &[u8]) -> bool {
    let lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let mut lines = lines.filter(|line| !line.is_empty());
    lines
        .next()
        .is_some_and(|line| begins_object(line) && line.ends_with(b"}"))
        && lines.next().is_some_and(begins_object)
}

/// What is wrong with JSON that is not one object per line. `beginning` has no white space in front.
fn kind_of_json(beginning: &[u8]) -> Option<&'static str> {
    match beginning {
        [b'[', rest @ ..] if matches!(rest.trim_ascii_start(), [b'{' | b'[', ..]) => {
            Some("is one JSON array, not an object per line; cut it with `jq -c '.[]'`")
        }
        [b'{', rest @ ..] => {
            let line = first_line(rest);
            let more = rest.get(line.len() + 1..).unwrap_or_default();
            let is_open = matches!(line.trim_ascii().last(), None | Some(b',' | b'{' | b'['));
            let is_spread = is_open && more.trim_ascii_start().starts_with(b"\"");
            is_spread
                .then_some("has JSON objects over several lines; put each on a line with `jq -c .`")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_xml_and_text_are_told_by_how_they_begin() {
        for (content, kind) in [
            ("<!DOCTYPE html>", Kind::Html),
            ("\n\t \x0c<!doctype HTML PUBLIC", Kind::Html),
            ("\u{feff}<html lang=en>", Kind::Html),
            ("<HTML\n>", Kind::Html),
            ("<p>Some", Kind::Html),
            ("<!-- saved from -->", Kind::Html),
            ("<!doctypehtml><meta charset=utf-8>", Kind::Html),
            ("<!DOCTYPE  html>", Kind::Html),
            ("<!DOCTYPE\r\n\thtml\n>", Kind::Html),
            ("<!DOCTYPE htmlish>", Kind::Html),
            ("<html/>", Kind::Html),
            ("<br/>Some", Kind::Html),
            ("<meta charset=utf-8>", Kind::Html),
            ("<LINK rel=icon>", Kind::Html),
            ("<h2>Some", Kind::Html),
            ("<article>Some", Kind::Html),
            ("<article/s>", Kind::Text),
            ("<metal> is", Kind::Text),
            ("<pre>Some", Kind::Text),
            ("<about> is", Kind::Text),
            ("<htmlish>", Kind::Text),
            ("<html", Kind::Text),
            ("Some <b>words</b>", Kind::Text),
            ("<?php echo 1; ?><html>", Kind::Text),
            (
                "<?xml version='1.0'?><html xmlns='http://www.w3.org/1999/xhtml'>",
                Kind::Xhtml,
            ),
            (
                "<?xml version='1.0'?>\n<!-- a --><?pi?>\n<!DOCTYPE html PUBLIC",
                Kind::Xhtml,
            ),
            ("<?xml version='1.0'?><rss><html>", Kind::Xml),
            ("<?xml version='1.0'?><!-- <html>", Kind::Xml),
            ("<mediawiki xmlns='a'>", Kind::Xml),
            ("<!-- a --><rss version='2.0'>", Kind::Xml),
            ("<!DOCTYPE rss PUBLIC 'a'>\n<rss>", Kind::Xml),
            ("<feed/>", Kind::Xml),
            ("<?xml-stylesheet href='a'?><!DOCTYPE svg>", Kind::Xml),
            ("<!DOCTYPE lewis SYSTEM 'lewis.dtd'>", Kind::Xml),
            ("<doc id='1' url='a' title='b'>", Kind::Xml),
            ("<DOC>\n<DOCNO> 1 </DOCNO>", Kind::Xml),
            ("<!-- <rss> --><p>Some", Kind::Html),
            ("<!-- <rss>", Kind::Html),
            ("<docs>", Kind::Text),
            ("<!DOCTYPE>\n<p>", Kind::Html),
            ("<em>Some</em>", Kind::Html),
            ("<app-root></app-root>", Kind::Html),
            ("<my-list class='a'>", Kind::Html),
            ("<anna> hello", Kind::Text),
            ("<a@b.example> wrote", Kind::Text),
            ("<-- there", Kind::Text),
            ("<a-b", Kind::Text),
            ("", Kind::Text),
            ("a\0b", Kind::Binary),
        ] {
            assert_eq!(kind_of_bytes(content.as_bytes()), kind, "{content}");
        }
    }

    #[test]
    fn utf_16_is_looked_at_as_what_it_says() {
        let page = "<!DOCTYPE html><title>Some words</title>";
        for swap in [u16::to_le_bytes, u16::to_be_bytes] {
            let bare: Vec<u8> = page.encode_utf16().flat_map(swap).collect();
            let marked = [&swap(0xfeff)[..], &bare].concat();
            for bytes in [bare, marked] {
                assert_eq!(kind_of_bytes(&bytes), Kind::Html);
                assert!(!is_mostly_binary(&bytes));
            }
        }
    }

    #[test]
    fn a_few_odd_bytes_do_not_make_a_text_binary() {
        assert!(!is_mostly_binary(
            format!("{}\0", "words ".repeat(20)).as_bytes()
        ));
        assert!(is_mostly_binary(b"words\0of\0a\0record\x01\x02"));
        assert!(!is_mostly_binary(b""));
    }

    #[test]
    fn only_a_key_and_sixteen_digits_are_taken_for_a_fingerprint() {
        assert!(is_fingerprints(b"a\t0123456789abcdef\r\nb\ttext"));
        assert!(!is_fingerprints(b"a\t0123456789abcde\n"));
        assert!(!is_fingerprints(b"0123456789abcdef\n"));
    }

    #[test]
    fn what_begins_with_a_bracket_is_json_only_if_json_follows() {
        let of = |name: &str, text: &str| {
            let format = detect(Path::new(name), false, text.as_bytes());
            format.map_err(|error| error.to_string())
        };
        for name in ["-", "part-0", "wiki.data"] {
            for text in ["{\"id\": 1}", "\n{ \"id\": 1}", "{}", "{", "{\t}"] {
                assert_eq!(of(name, text), Ok(InputFormat::Jsonl), "{name}: {text}");
            }
            for text in [
                "{{Infobox",
                "{% extends 'a' %}",
                "{\\bf Words}",
                "{words}",
                "[[Words]]",
                "[{{fullurl:words}} words]",
                "[1, 2]",
            ] {
                assert_eq!(of(name, text), Ok(InputFormat::Text), "{name}: {text}");
            }
            for text in ["[{\"id\": 1}]", "[\n  {\n"] {
                let error = of(name, text).expect_err("it is an array");
                assert!(error.contains("one JSON array"), "{name}: {error}");
            }
        }
        assert_eq!(of("a.txt", "[{\"id\": 1}]"), Ok(InputFormat::Text));
        assert_eq!(of("a.html", "[{\"id\": 1}]"), Ok(InputFormat::Text));
    }

    #[test]
    fn markup_with_a_tab_is_no_table() {
        let of = |text: &str| detect(Path::new("-"), true, text.as_bytes());
        for text in ["<html\tlang=en>", "<!DOCTYPE html>\t<p>Some"] {
            assert!(matches!(of(text), Ok(InputFormat::Text)), "{text}");
        }
        assert!(of("<?xml version='1.0'?>\t<rss>").is_err());
        assert!(matches!(of("a\t<html>"), Ok(InputFormat::Tsv)));
    }

    #[test]
    fn json_of_one_object_per_line_is_not_refused() {
        assert_eq!(kind_of_json(b"{\"id\": 1}\n{\n"), None);
        assert!(kind_of_json(b"[\n {\"id\": 1}]").is_some());
        assert!(kind_of_json(b"{\r\n  \"id\": 1\n}").is_some());
        assert!(kind_of_json(b"{ \"id\": 1,\n  \"text\": \"a\" }").is_some());
        assert!(kind_of_json(b"{\"features\": {\n\"a\": 1}}").is_some());
        assert_eq!(kind_of_json(b"{\"id\": \"a,\n{\"id\": 1}"), None);
    }
}
