//! Hostile input: for every decoder a function that takes any bytes, reads them as a reader would, and holds the answer
//! against laws. What is read is bounded, what decodes is encoded again to the same, and nothing panics.
//!
//! The package in `tests/fuzz` calls these functions with bytes that a fuzzer makes. The unit tests call them with the
//! bytes that are kept in `tests/hostile/corpus`. So both have one body. Decoders are private, and so the files of this
//! folder are mounted where they see them. `tests/fuzz/README.md` says how to add one.

mod file;
mod html;

/// Reads some bytes, and panics if a law is broken.
pub type Target = fn(&[u8]);

/// All targets, by their names. Each has a folder of its name in the corpus.
pub const TARGETS: [(&str, Target); 17] = [
    ("annotate", crate::dedup::hostile::annotate),
    ("block", crate::store::hostile::block),
    ("directory", crate::store::hostile::directory),
    ("dump", crate::cli::hostile::dump),
    ("encodings", crate::ingest::hostile::encodings),
    ("file", file::file),
    ("html", html::html),
    ("http", crate::ingest::hostile::http),
    ("input", crate::ingest::hostile::input),
    ("jsonl", crate::ingest::hostile::jsonl),
    ("log", crate::store::hostile::log),
    ("record", crate::store::hostile::record),
    ("removed", crate::dedup::hostile::removed),
    ("socket", crate::serve::hostile::socket),
    ("state", crate::store::hostile::state),
    ("tsv", crate::ingest::hostile::tsv),
    ("warc", crate::ingest::hostile::warc),
];

/// The target of a name.
pub fn target(name: &str) -> Target {
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    found.expect("there is a target of this name").1
}

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod seeds;
