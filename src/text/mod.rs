//! Text in, fingerprint out. Shows [`Fingerprinter`], [`Scheme`] and [`Unit`], hides the steps between.

mod features;
mod fingerprinter;
mod html;
mod minwise;
mod normalize;
#[cfg(test)]
mod published_vectors;
mod scheme;
mod simhash;
mod sketching;
mod tokens;
mod unit;

pub use fingerprinter::Fingerprinter;
#[cfg(feature = "ingest")]
pub(crate) use html::visible_paragraphs;
pub use scheme::Scheme;
pub use unit::Unit;

#[cfg(feature = "eval")]
pub(crate) use {html::visible_text, normalize::normalize as normalized, tokens::tokens};
