//! Text in, fingerprint out. Shows `Fingerprinter` and [`Scheme`], hides the steps between.
//!
//! Without the feature `text` there is only the name of a scheme, which every file has.

#[cfg(feature = "text")]
mod features;
#[cfg(feature = "text")]
mod fingerprinter;
#[cfg(feature = "text")]
mod html;
#[cfg(feature = "text")]
mod minwise;
#[cfg(feature = "text")]
mod normalize;
#[cfg(all(test, feature = "text"))]
mod published_vectors;
mod scheme;
#[cfg(feature = "text")]
mod simhash;
#[cfg(feature = "text")]
mod tokens;
#[cfg(feature = "text")]
mod unicode;

#[cfg(feature = "text")]
pub use fingerprinter::Fingerprinter;
pub use scheme::Scheme;
