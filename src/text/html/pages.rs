//! A page as its visible text, or as the pieces of it.

use super::names::Name;
use super::reader::{Amount, Hiding, Reader};

/// How a page is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Html,
    /// A tag that closes itself ends its element, and CDATA is text.
    Xhtml,
}

impl Syntax {
    /// The syntax of a page that is not known to be XHTML by its type: an XML declaration says that a page is.
    pub(crate) fn of(page: &str) -> Self {
        let page = page.trim_start_matches('\u{feff}').trim_ascii_start();
        let declaration = page
            .strip_prefix("<?xml")
            .and_then(|rest| rest.split_once('>'))
            .map(|(it, _)| it);
        let is_one =
            |it: &str| it.starts_with(|c: char| c.is_ascii_whitespace()) && it.ends_with('?');
        if declaration.is_some_and(is_one) {
            Self::Xhtml
        } else {
            Self::Html
        }
    }
}

/// The text of a page that a reader of the page sees. Line breaks separate its blocks.
///
/// It leaves out comments, markup, and what browsers do not show. Broken markup is read as browsers read it. Nothing is
/// an error.
///
/// # Cost
///
/// One pass over the page, and another one over a page that hides nearly all of itself. Memory of the order of the page.
pub(crate) fn visible_text(page: &str, syntax: Syntax) -> String {
    let text = read(
        page,
        syntax,
        &[],
        || Vec::with_capacity(page.len() / 4),
        |text, piece| match piece {
            Piece::Text(more) => text.extend_from_slice(more),
            Piece::Break if text.last().is_some_and(|&last| last != b'\n') => text.push(b'\n'),
            Piece::Break | Piece::Link(_) => {}
        },
    );
    to_string(text)
}

/// The same text, in which a blank line separates the blocks, and there is no other line break. A line break of the
/// page is a space, as a browser shows it.
#[cfg(feature = "ingest")]
pub(crate) fn visible_paragraphs(page: &str, syntax: Syntax) -> String {
    let text = read(
        page,
        syntax,
        &[],
        || Vec::with_capacity(page.len() / 4),
        |text, piece| match piece {
            Piece::Text(more) => {
                text.extend(
                    more.iter()
                        .map(|&byte| if byte == b'\n' { b' ' } else { byte }),
                );
            }
            Piece::Break if text.last().is_some_and(|&last| last != b'\n') => text.extend(b"\n\n"),
            Piece::Break | Piece::Link(_) => {}
        },
    );
    to_string(text)
}

/// What a reader of a page meets, in order.
pub(in crate::text) enum Piece<'a> {
    /// Visible text.
    Text(&'a [u8]),
    /// The begin or the end of a block.
    Break,
    /// A link begins or ends.
    Link(bool),
}

/// Reads a page, and gives its pieces to `take`, with what `begin` returns. Leaves out the elements in `also_hidden`.
///
/// A page that hides nearly all of its text shows it by a script. It is read again, and then no attribute hides.
///
/// # Cost
///
/// One or two passes over the page. The reader takes a bounded amount of memory.
pub(in crate::text) fn read<S>(
    page: &str,
    syntax: Syntax,
    also_hidden: &[Name],
    begin: impl Fn() -> S,
    take: impl Fn(&mut S, Piece<'_>),
) -> S {
    let page = page.strip_prefix('\u{feff}').unwrap_or(page);
    let mut state = begin();
    let reader = Reader::new(page, syntax, Hiding::ByAttributes, also_hidden, |piece| {
        take(&mut state, piece)
    });
    if !hides_itself(reader.read()) {
        return state;
    }
    let mut state = begin();
    Reader::new(page, syntax, Hiding::Off, also_hidden, |piece| {
        take(&mut state, piece)
    })
    .read();
    state
}

/// Whether a page hides nearly all of its text.
fn hides_itself(amount: Amount) -> bool {
    amount.hidden > 0 && amount.shown < LEAST_SHOWN
}

/// The least text of a page that is taken for what a page shows, in bytes.
const LEAST_SHOWN: usize = 64;

/// The text of pieces. They are parts of a page at places where characters end, and so UTF-8.
pub(in crate::text) fn to_string(text: Vec<u8>) -> String {
    String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
