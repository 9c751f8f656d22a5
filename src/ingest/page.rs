//! The content of a page, from its bytes and what is said of them: whether it is HTML, XHTML or text, and its text.
//!
//! # References
//! Fetch Living Standard, "extract a MIME type", on several types; MIME Sniffing Living Standard, section 7, on when
//! the bytes decide.

use std::path::Path;

use super::encoding::decoded;
use super::format::{is_html, is_text, is_xhtml};
use super::parsed::Content;
use super::rejected::Reason;
use super::sniffing::{Kind, is_mostly_binary, kind_of_bytes};
use super::unreadable::kind_of;

/// What is said of a page by those who sent it or keep it.
#[derive(Debug, Default)]
pub(super) struct Said {
    kind: Option<SaidKind>,
    /// The type without its parameters, to know whether another field has the same.
    essence: String,
    charset: Option<String>,
    identified: Option<SaidKind>,
    is_file: bool,
}

/// What a type of content says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SaidKind {
    Html,
    Xhtml,
    /// XML that may be XHTML, and is a text otherwise if its type is `text/xml`.
    Xml {
        is_text: bool,
    },
    Text,
    /// Nothing: the bytes decide.
    Unknown,
    /// A file to be saved, whatever it is.
    Download,
    /// No text.
    Other,
}

impl Said {
    /// What the name of a file says.
    pub(super) fn of_file(path: &Path) -> Self {
        let kind = if is_xhtml(path) {
            SaidKind::Xhtml
        } else if is_html(path) {
            SaidKind::Html
        } else if is_text(path) {
            SaidKind::Text
        } else {
            SaidKind::Unknown
        };
        Self { kind: Some(kind), is_file: true, ..Self::default() }
    }

    /// Takes a field `Content-Type` as it came. There may be several, and one may have several types.
    pub(super) fn add_type(&mut self, content_type: &str) {
        for value in outside_of_quotes(content_type, ',') {
            let mut parts = outside_of_quotes(value, ';').into_iter();
            let essence = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
            let charset = [&*essence].into_iter().chain(parts).find_map(charset_of);
            let kind = SaidKind::of(&essence);
            // What is no type says nothing, but of the encoding: `text/html,charset=utf-8`.
            if let Some(kind) = kind {
                if self.essence != essence {
                    self.charset = None;
                }
                (self.kind, self.essence) = (Some(kind), essence);
            }
            self.charset = charset.or(self.charset.take());
        }
    }

    /// Takes the field `WARC-Identified-Payload-Type`: what the archiver found by looking at the bytes.
    pub(super) fn set_identified(&mut self, content_type: &str) {
        let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.identified = SaidKind::of(&essence);
    }

    /// Whether it may be a page of text, by what is said. To be asked when all is said.
    pub(super) fn is_page(&self) -> bool {
        !matches!(self.kind(), SaidKind::Other)
    }

    /// What the archiver has identified counts where the server has said nothing.
    fn kind(&self) -> SaidKind {
        let kind = self.kind.unwrap_or(SaidKind::Unknown);
        let is_open = matches!(kind, SaidKind::Unknown | SaidKind::Download);
        self.identified.filter(|it| is_open && *it != SaidKind::Download).unwrap_or(kind)
    }
}

impl SaidKind {
    /// What a type says, in lower case. `None` if it is none.
    fn of(essence: &str) -> Option<Self> {
        let (kind, name) = essence.split_once('/')?;
        let is_token = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token(kind) || !is_token(name) || essence == "*/*" {
            return None;
        }
        Some(match essence {
            "text/html" => Self::Html,
            "application/xhtml+xml" | "application/vnd.wap.xhtml+xml" => Self::Xhtml,
            "text/xml" => Self::Xml { is_text: true },
            "application/xml" => Self::Xml { is_text: false },
            "unknown/unknown" | "application/unknown" => Self::Unknown,
            "application/octet-stream"
            | "binary/octet-stream"
            | "application/force-download"
            | "application/x-download" => Self::Download,
            _ if kind == "text" => Self::Text,
            _ => Self::Other,
        })
    }
}

/// The parts of a field between separators that do not stand in quotes.
fn outside_of_quotes(value: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = value.split(|character| {
        is_quoted ^= character == '"';
        character == separator && !is_quoted
    });
    parts.collect()
}

/// The label of a parameter `charset`, in whatever quotes.
fn charset_of(parameter: &str) -> Option<String> {
    let (name, value) = parameter.split_once('=')?;
    let label = value.trim_matches(|it: char| it.is_whitespace() || "\"'".contains(it));
    (name.trim().eq_ignore_ascii_case("charset") && !label.is_empty()).then(|| label.to_owned())
}

/// The content of a page. `None` if it is no page of text, and nobody says that it is one.
pub(super) fn content(page: &[u8], said: &Said) -> Result<Option<Content>, Reason> {
    let found = kind_of_bytes(page);
    let kind = match (said.kind(), found) {
        (SaidKind::Html, Kind::Xhtml) if said.is_file => Kind::Xhtml,
        (SaidKind::Html, _) => Kind::Html,
        (SaidKind::Xhtml, _) => Kind::Xhtml,
        (SaidKind::Text, _) => Kind::Text,
        (SaidKind::Xml { .. }, Kind::Xhtml) => Kind::Xhtml,
        (SaidKind::Xml { is_text: true }, _) => Kind::Text,
        (SaidKind::Unknown, Kind::Xml | Kind::Binary) if said.is_file => Kind::Text,
        (SaidKind::Unknown, found) => found,
        (SaidKind::Download, found @ (Kind::Html | Kind::Xhtml)) => found,
        (SaidKind::Xml { is_text: false } | SaidKind::Download | SaidKind::Other, _) => Kind::Binary,
    };
    if matches!(kind, Kind::Xml | Kind::Binary) {
        return Ok(None);
    }
    if let Some(found) = kind_of(page) {
        return Err(Reason::NotText { found });
    }
    if is_mostly_binary(page) {
        return Err(Reason::NotText { found: "has bytes that stand in no text, such as NUL" });
    }
    let text = decoded(page, said.charset.as_deref(), kind != Kind::Text)?;
    Ok(Some(match kind {
        Kind::Html => Content::Html(text),
        Kind::Xhtml => Content::Xhtml(text),
        _ => Content::Text(text),
    }))
}
