//! Text in, fingerprint out. Shows `Fingerprinter`, [`Scheme`] and `Unit`, hides the steps between.
//!
//! Without the feature `text` there is only the name of a scheme, which every file has.

#[cfg(feature = "text")]
mod features;
#[cfg(feature = "text")]
mod fingerprinter;
#[cfg(all(test, feature = "text"))]
mod hard_texts_tests;
#[cfg(feature = "text")]
mod html;
#[cfg(feature = "text")]
mod measure;
#[cfg(feature = "text")]
mod minwise;
#[cfg(all(test, feature = "text"))]
mod published_vectors_tests;
mod scheme;
#[cfg(feature = "text")]
mod simhash;
#[cfg(feature = "text")]
mod unicode;
#[cfg(feature = "ingest")]
mod unit;
#[cfg(all(test, feature = "text"))]
mod vectors_tests;

#[cfg(feature = "text")]
pub use fingerprinter::Fingerprinter;
#[cfg(feature = "ingest")]
pub(crate) use html::{Syntax, visible_paragraphs, visible_text};
#[cfg(feature = "text")]
pub use measure::TextMeasure;
pub use scheme::Scheme;
#[cfg(feature = "ingest")]
pub use unit::Unit;
#[cfg(feature = "ingest")]
pub(crate) use unit::{MOST_UNITS, unit_key};

#[cfg(feature = "eval")]
pub(crate) use unicode::{normalize as normalized, tokens};
