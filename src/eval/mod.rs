//! How good the verdicts of a method are on documents of your own: recall, precision and false matches, for
//! the schemes of this library and for methods that came before. Nothing here is a storage format.
//!
//! # Example
//!
//! ```
//! use simdb::eval::{Corpus, Labels, MethodName, Settings, Yardstick};
//! use simdb::ingest::{ReadOptions, Records};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("pages.tsv");
//! # let page = "one two three four five six seven eight nine ten eleven twelve";
//! # std::fs::write(&path, format!("a\t{page}\nb\t{page} thirteen\nc\tnothing of all this is in the third page\n"))?;
//!
//! let corpus = Corpus::read(Records::open([&path], ReadOptions::new())?, |rejected| println!("{rejected}"))?;
//! let yardstick = Yardstick::new(&corpus, &Labels::default());
//! let method: MethodName = "minwise-1".parse()?;
//! let curve = yardstick.measure(method, &Settings::default());
//! assert_eq!(curve.points[0].threshold, 0.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod corpus;
mod curve;
mod labels;
mod method;
mod methods;
mod overlap;
mod plot;
#[cfg(test)]
mod twins_tests;
mod yardstick;

pub use corpus::Corpus;
pub use curve::{Band, Curve, EstimateError, Point, Verdicts};
pub use labels::{Judgements, Labels};
pub use method::{MethodName, Settings};
pub use plot::{plot, plot_over_distance};
pub use yardstick::Yardstick;
