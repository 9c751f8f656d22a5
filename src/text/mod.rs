//! Text in, fingerprint out. Shows [`Fingerprinter`] and [`Scheme`], hides the steps between.

mod features;
mod fingerprinter;
mod html;
mod normalize;
mod scheme;
mod simhash;
#[cfg(test)]
mod vectors;

pub use fingerprinter::Fingerprinter;
pub use scheme::Scheme;
