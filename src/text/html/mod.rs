//! The visible text of an HTML page, or its main content.
//!
//! A page goes through `tokenizer` (text, tags, `references`), `reader` (which elements the tags open and close) and
//! `showing` (what of them is shown), with `names` as the table of the HTML standard, and `pages` (what becomes of the
//! pieces). No tree is built, and nothing calls itself: a page can be as deep as somebody likes.

mod names;
mod pages;
mod reader;
mod references;
mod showing;
#[cfg(test)]
mod tests;
mod tokenizer;

pub(super) use self::pages::main_content;
#[cfg(feature = "ingest")]
pub(crate) use self::pages::visible_paragraphs;
pub(crate) use self::pages::{Syntax, visible_text};
