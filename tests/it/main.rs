//! The tests of simdb from outside: the library and the command-line program. Those of Parquet files are in
//! `tests/parquet`.
#![allow(
    clippy::disallowed_methods,
    reason = "a test may panic if the system gives no thread"
)]

mod admin;
mod amounts;
mod archives;
mod bad_inputs;
mod bench;
mod binding;
mod cli;
mod closing;
mod clusters;
mod copy;
mod counts;
mod crawling;
mod created_otherwise;
mod crowding;
mod damage;
mod damaged_inputs;
mod data;
mod dedup;
mod dry_run;
mod ending;
mod eval;
#[cfg(feature = "tracing")]
mod events;
mod exactness;
mod files;
mod floors;
#[cfg(unix)]
mod fork;
mod holders;
mod html_standard;
mod input;
mod interrupted;
mod kill;
mod kills;
mod large;
mod leftovers;
mod levels;
mod library;
mod limits;
mod load;
mod memory;
mod metrics;
mod milliseconds;
mod model;
mod names;
mod nearest;
mod odd_fields;
mod overlap;
mod overview;
mod owners;
mod pages;
mod pair_output;
mod pairs;
mod panics;
mod patience;
mod plan;
mod planted;
mod report;
mod resuming;
mod salvage;
mod scarce;
mod screen;
mod second_reader;
mod serving;
mod similarity;
mod sketch_laws;
mod sketchless;
mod standing;
mod strays;
mod support;
mod tasks;
mod terminal;
mod threads;
mod together;
mod turns;
mod units;
mod verdicts;
mod verification;
mod window;
mod words;
mod writer;
