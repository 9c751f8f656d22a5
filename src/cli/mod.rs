//! The command-line program, one file per command. It sees only the public interface of the library.

mod answer;
mod arguments;
mod asking;
mod backup;
mod bench;
mod check;
mod commands;
mod compact;
mod create;
mod delete;
mod distance;
mod dump;
mod eval;
mod evaluation;
mod expire;
mod explain;
mod fingerprint;
mod get;
mod ingest;
mod load;
mod open;
mod output;
mod plan;
mod progress;
mod query;
mod question;
mod signals;
mod stats;
mod texts;
mod uses;
mod verification;

pub(crate) use answer::{Answer, chain};
pub(crate) use commands::{Cli, run};
pub(crate) use output::complain;
pub(crate) use signals::let_long_writes_fail;
