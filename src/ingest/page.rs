//! The content of a page, from its bytes and what is said of them: whether it is HTML, and in which encoding.

use encoding_rs::{Encoding, UTF_8};

use super::parsed::Content;
use super::rejected::Reason;

/// The bytes of a page in which it may say its encoding.
const DECLARED_WITHIN: usize = 4096;

/// What is said of a page by those who sent it or keep it.
#[derive(Debug, Default)]
pub(super) struct Said {
    is_page: bool,
    is_html: bool,
    charset: Option<String>,
}

impl Said {
    /// Takes a field `Content-Type` as it came. There may be several.
    pub(super) fn add_type(&mut self, content_type: &str) {
        let mut parts = content_type.split(';').map(|it| it.trim().to_ascii_lowercase());
        let kind = parts.next().unwrap_or_default();
        self.is_html = kind == "text/html" || kind == "application/xhtml+xml";
        self.is_page = self.is_html || kind.starts_with("text/");
        let charset = parts.find_map(|it| it.strip_prefix("charset=").map(str::to_owned));
        self.charset = charset.map(|it| it.trim_matches(['"', '\'', ' ']).to_owned());
    }

    /// Takes the field `WARC-Identified-Payload-Type`: what the archiver found by looking at the bytes.
    pub(super) fn set_identified(&mut self, kind: &str) {
        if !self.is_page {
            self.add_type(kind);
        }
    }

    /// Whether it may be a page of text, by what is said. To be asked when all is said.
    pub(super) fn is_page(&self) -> bool {
        self.is_page
    }
}

/// The content of a page. `None` if it is no page of text.
pub(super) fn content(page: &[u8], said: &Said) -> Result<Option<Content>, Reason> {
    let text = decoded(page, said.charset.as_deref());
    Ok(Some(if said.is_html { Content::Html(text) } else { Content::Text(text) }))
}

/// The text of a page: in the encoding that a byte order mark, the server or the page says, in this order. Otherwise in
/// UTF-8 if that fits, or in the one that a guess says.
fn decoded(page: &[u8], charset: Option<&str>) -> String {
    let said = charset.and_then(|it| Encoding::for_label(it.as_bytes()));
    let encoding = said.or_else(|| declared(page)).unwrap_or_else(|| match std::str::from_utf8(page) {
        Ok(_) => UTF_8,
        Err(_) => {
            let mut detector = chardetng::EncodingDetector::new(chardetng::Iso2022JpDetection::Allow);
            detector.feed(page, true);
            detector.guess(None, chardetng::Utf8Detection::Allow)
        }
    });
    // A byte order mark overrules what is said.
    encoding.decode(page).0.into_owned()
}

/// The encoding that a page says at its beginning, in `meta` or in the declaration of XML.
fn declared(page: &[u8]) -> Option<&'static Encoding> {
    let beginning = page[..page.len().min(DECLARED_WITHIN)].to_ascii_lowercase();
    let label_behind = |name: &[u8]| {
        let at = memchr::memmem::find(&beginning, name)? + name.len();
        let value = beginning[at..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
        let value = value.strip_prefix(b"\"").or_else(|| value.strip_prefix(b"'")).unwrap_or(value);
        let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"-_:.".contains(byte);
        let label = &value[..value.iter().take_while(is_part).count()];
        Encoding::for_label(label)
    };
    let encoding = label_behind(b"charset").or_else(|| {
        beginning.trim_ascii_start().starts_with(b"<?xml").then(|| label_behind(b"encoding")).flatten()
    })?;
    // Had it been in UTF-16, this could not have been read.
    Some(if encoding == encoding_rs::UTF_16LE || encoding == encoding_rs::UTF_16BE {
        UTF_8
    } else {
        encoding
    })
}
