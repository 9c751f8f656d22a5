//! The encoding that a page says in itself: in its tags `meta`, found as the HTML standard finds them before a page is
//! decoded, or in its XML declaration.
//!
//! The standard lets a program look at 1,024 bytes, but has later tags `meta` decide too once they are read. Here the
//! look goes further instead.
//!
//! # References
//! HTML Living Standard, 13.2.3.2 and 13.2.3.5; 2.5.5 on the value of `content`.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};
use memchr::memmem;

use super::encoding::readable;

/// The bytes of a page in which its tags are looked at.
const WITHIN: usize = 64 << 10;

/// What scripts and styles hold is no tag, whatever they write.
const RAW_ELEMENTS: [(&[u8], &[u8]); 2] = [(b"script", b"</script"), (b"style", b"</style")];

/// The encoding that a page says. `None` if it says none that is known.
pub(super) fn declared(page: &[u8]) -> Option<&'static Encoding> {
    encoding_of_label(declared_label(page)?.as_bytes())
}

/// The label of the encoding that a page says, in small letters. `None` if it says none that is known.
pub(super) fn declared_label(page: &[u8]) -> Option<String> {
    let beginning = page[..page.len().min(WITHIN)].to_ascii_lowercase();
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
            .position(|&byte| is_space(byte) || b"/>".contains(&byte))?;
        let (name, behind) = name.split_at(length);
        let mut attributes = Attributes { rest: behind };
        if name == b"meta" && !is_end {
            let meta = Meta::read(&mut attributes)?;
            if let Some(label) = meta.label() {
                return Some(label);
            }
        }
        while attributes.next_one()?.is_some() {}
        rest = attributes.rest;
        if let Some((_, end)) = RAW_ELEMENTS.iter().find(|(raw, _)| *raw == name && !is_end) {
            rest = &rest[memmem::find(rest, end)?..];
        }
    }
}

/// What the attributes of `meta` say.
#[derive(Default)]
struct Meta<'p> {
    is_content_type: bool,
    charset: Option<&'p [u8]>,
    content: Option<&'p [u8]>,
}

impl<'p> Meta<'p> {
    /// `None` if the page ends within the tag.
    fn read(attributes: &mut Attributes<'p>) -> Option<Self> {
        let mut meta = Self::default();
        let mut has_equivalent = false;
        while let Some((name, value)) = attributes.next_one()? {
            // The first attribute of a name counts.
            match name {
                b"charset" => _ = meta.charset.get_or_insert(value),
                b"content" => _ = meta.content.get_or_insert(value),
                b"http-equiv" if !has_equivalent => {
                    has_equivalent = true;
                    meta.is_content_type = value == b"content-type";
                }
                _ => {}
            }
        }
        Some(meta)
    }

    /// The label of an encoding that is known.
    fn label(&self) -> Option<&'p [u8]> {
        let label = match (self.charset, self.content) {
            (Some(label), _) => label,
            (None, Some(content)) if self.is_content_type => charset_of(content)?,
            _ => return None,
        };
        encoding_of_label(label).map(|_| label)
    }
}

/// The label in the value of `content`.
fn charset_of(content: &[u8]) -> Option<&[u8]> {
    let mut rest = content;
    let value = loop {
        rest = &rest[memmem::find(rest, b"charset")? + b"charset".len()..];
        if let Some(value) = without_spaces(rest).strip_prefix(b"=") {
            break without_spaces(value);
        }
    };
    let end = match value.first()? {
        quote @ (b'"' | b'\'') => return before(&value[1..], *quote),
        _ => value
            .iter()
            .position(|&byte| is_space(byte) || byte == b';')
            .unwrap_or(value.len()),
    };
    Some(&value[..end])
}

/// The label in `<?xml version="1.0" encoding="…"?>`, if its encoding is known.
fn label_of_xml_declaration(page: &[u8]) -> Option<&[u8]> {
    let declaration = without_spaces(page).strip_prefix(b"<?xml")?;
    let declaration = before(declaration, b'>')?;
    let value = &declaration[memmem::find(declaration, b"encoding")? + b"encoding".len()..];
    let value = without_spaces(without_spaces(value).strip_prefix(b"=")?);
    let quote = *value.first().filter(|quote| b"\"'".contains(quote))?;
    let label = before(&value[1..], quote)?;
    encoding_of_label(label).map(|_| label)
}

/// The encoding of a label within a page. A page in UTF-16 could not have been read so far, so it is in UTF-8.
fn encoding_of_label(label: &[u8]) -> Option<&'static Encoding> {
    let encoding = readable(label)?;
    let is_wide = encoding == UTF_16LE || encoding == UTF_16BE;
    Some(if is_wide { UTF_8 } else { encoding })
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b'\t' | b'\n' | b'\x0c' | b'\r' | b' ')
}

fn without_spaces(bytes: &[u8]) -> &[u8] {
    let spaces = bytes.iter().take_while(|&&byte| is_space(byte)).count();
    &bytes[spaces..]
}

/// The bytes before the first such byte.
fn before(bytes: &[u8], byte: u8) -> Option<&[u8]> {
    memchr::memchr(byte, bytes).map(|at| &bytes[..at])
}

/// The attributes of a tag, in lower case.
struct Attributes<'p> {
    rest: &'p [u8],
}

impl<'p> Attributes<'p> {
    /// The name and the value of the next attribute. The inner `None` is the end of the tag, the outer one that of the
    /// page.
    fn next_one(&mut self) -> Option<Option<(&'p [u8], &'p [u8])>> {
        let before = self
            .rest
            .iter()
            .position(|&byte| !is_space(byte) && byte != b'/')?;
        let bytes = &self.rest[before..];
        self.rest = bytes;
        if bytes[0] == b'>' {
            return Some(None);
        }
        // A `=` at the beginning is a part of the name.
        let end = 1 + bytes[1..]
            .iter()
            .position(|&byte| is_space(byte) || b"=/>".contains(&byte))?;
        let (name, behind) = bytes.split_at(end);
        self.rest = behind;
        let Some(value) = without_spaces(behind).strip_prefix(b"=") else {
            return Some(Some((name, b"")));
        };
        let value = without_spaces(value);
        let (value, behind) = match value.first()? {
            quote @ (b'"' | b'\'') => {
                let end = memchr::memchr(*quote, &value[1..])?;
                (&value[1..=end], &value[end + 2..])
            }
            _ => value.split_at(
                value
                    .iter()
                    .position(|&byte| is_space(byte) || byte == b'>')?,
            ),
        };
        self.rest = behind;
        Some(Some((name, value)))
    }
}

#[cfg(test)]
mod tests {
    use encoding_rs::{EUC_JP, GBK, ISO_8859_2, SHIFT_JIS, WINDOWS_1251, WINDOWS_1252};

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
