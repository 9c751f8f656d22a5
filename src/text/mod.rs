//! Text in, fingerprint out. Shows [`Fingerprinter`] and [`Scheme`], hides the steps between.

mod features;
mod fingerprinter;
mod html;
mod minwise;
mod normalize;
#[cfg(test)]
mod published_vectors;
mod scheme;
mod simhash;
mod tokens;

pub use fingerprinter::Fingerprinter;
pub use scheme::Scheme;

#[cfg(feature = "eval")]
pub(crate) use {html::visible_text, normalize::normalize as normalized, tokens::tokens};
