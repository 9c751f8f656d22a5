//! simdb for Python. The interface is described in simdb/__init__.pyi.
//!
//! What Python gives is taken with the interpreter ([`convert`], [`content`], [`columns`], [`question`]); the work is
//! done without it ([`signals`]); answers are plain data ([`documents`]).

mod batches;
mod client;
mod columns;
mod content;
mod convert;
mod corpus;
mod database;
mod documents;
mod duplicates;
mod errors;
mod fingerprinter;
mod overlap;
mod question;
mod signals;
mod snapshot;
mod ticket;

use pyo3::prelude::*;

/// The number of bits in which two fingerprints differ.
#[pyfunction]
#[pyo3(signature = (a, b, /))]
fn distance(a: &Bound<'_, PyAny>, b: &Bound<'_, PyAny>) -> PyResult<u32> {
    Ok((convert::fingerprint(a)? ^ convert::fingerprint(b)?).count_ones())
}

/// The part of the package that is written in Rust.
#[pymodule]
mod _simdb {
    #[pymodule_export]
    use super::batches::Verdicts;
    #[pymodule_export]
    use super::client::{_connect, Client};
    #[pymodule_export]
    use super::corpus::{audit, dedup};
    #[pymodule_export]
    use super::database::{Database, open};
    #[pymodule_export]
    use super::distance;
    #[pymodule_export]
    use super::documents::{
        _cluster, _document, _match, _matches, _pair, _verdict, Cluster, Document, Match, Matches,
        Pair, Verdict,
    };
    #[pymodule_export]
    use super::duplicates::duplicates;
    #[pymodule_export]
    use super::fingerprinter::Fingerprinter;
    #[pymodule_export]
    use super::snapshot::{Clusters, Documents, Pairs, Snapshot};
    #[pymodule_export]
    use super::ticket::{Ticket, Wakers};
    use pyo3::prelude::*;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
