//! The tests of Parquet files from outside. They are apart, since the crates of Arrow take long to build:
//!
//!     cargo test --features parquet --test parquet
#![allow(
    clippy::disallowed_methods,
    reason = "a test may panic if the system gives no thread"
)]

mod annotated;
mod copies;
mod damage;
mod documents;
mod inputs;
mod int96;
mod making;

// What these ask of other outputs they ask of Parquet files too, if there are any.
#[cfg(unix)]
#[path = "../it/fork.rs"]
mod fork;
#[path = "../it/pair_output.rs"]
mod pair_output;
#[path = "../it/standing.rs"]
mod standing;

#[expect(dead_code, reason = "the other tests need the rest")]
#[path = "../it/support/mod.rs"]
mod support;
