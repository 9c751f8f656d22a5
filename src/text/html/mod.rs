//! The visible text of an HTML page, whole or in pieces.
//!
//! A page goes through `tokenizer` (text, tags, `references`), `reader` (which elements the tags open and close), and
//! `open_elements` (what of them is shown), with `names` and `attributes` as the tables of the HTML standard. No tree is
//! built, and nothing calls itself: a page can be as deep as somebody likes.

mod attributes;
mod names;
mod open_elements;
mod pages;
mod reader;
mod references;
#[cfg(test)]
mod tests;
mod tokenizer;

pub(super) use self::names::Name;
#[cfg(feature = "ingest")]
pub(crate) use self::pages::visible_paragraphs;
pub(super) use self::pages::{Piece, read, to_string};
pub(crate) use self::pages::{Syntax, visible_text};
