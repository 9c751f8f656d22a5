//! The command-line program, one file per command.
//!
//! It is part of the library, because a database that is in use answers commands too. But it sees only what the
//! library shows to everybody, so it tells whether that suffices.

mod about;
#[cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the program uses the rest")
)]
mod answer;
mod apart;
mod arguments;
mod check;
#[cfg(all(feature = "cli", unix))]
mod client;
mod clusters;
#[cfg(feature = "cli")]
mod commands;
mod compact;
#[cfg(feature = "cli")]
mod completions;
#[cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the program uses the rest")
)]
mod console;
#[cfg(feature = "cli")]
mod create;
#[cfg(feature = "cli")]
mod dedup;
mod delete;
mod dump;
mod escaping;
#[cfg(feature = "cli")]
mod eval;
#[cfg(feature = "parquet")]
mod export;
#[cfg(feature = "cli")]
mod fingerprint;
mod get;
#[cfg(all(feature = "cli", feature = "parquet"))]
mod import;
#[cfg(feature = "cli")]
mod ingest;
#[cfg(feature = "cli")]
mod ingest_report;
#[cfg(feature = "cli")]
mod lines;
mod live;
#[cfg(feature = "cli")]
mod load;
mod long_search;
#[cfg(feature = "cli")]
mod manual;
#[cfg(feature = "cli")]
mod names;
#[cfg(feature = "cli")]
mod open;
mod output;
#[cfg(feature = "cli")]
mod pair_clusters;
mod pair_output;
mod pairs;
#[cfg(feature = "cli")]
mod parsing;
#[cfg(feature = "cli")]
mod plan;
#[cfg(feature = "cli")]
mod process;
#[cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the program uses the rest")
)]
mod protocol;
mod query;
mod query_arguments;
#[cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the program uses the rest")
)]
mod rejections;
mod report;
mod resumable;
#[cfg(feature = "cli")]
mod running;
#[cfg(feature = "cli")]
mod signals;
#[cfg(unix)]
mod socket;
mod sources;
mod standing;
mod stats;
mod times;
mod units;
#[cfg(feature = "cli")]
mod uses;
#[cfg_attr(
    not(feature = "cli"),
    expect(dead_code, reason = "the program uses the rest")
)]
mod verification;
#[cfg(feature = "cli")]
mod watching;

#[cfg(feature = "cli")]
pub use commands::main;
#[cfg(unix)]
pub(crate) use {
    answer::Answer,
    console::{Console, Step, Terminal},
    live::LiveCommand,
    protocol::{Frame, MOST_REQUEST_BYTES, PIECE_BYTES, Piece, Request, VERSION, Written, line_of},
    socket::{connect, identity_of, socket_beside},
};

#[cfg(test)]
mod tests {
    use std::{fs, io, path::Path};

    fn ensure_public(folder: &Path) -> io::Result<()> {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                ensure_public(&path)?;
                continue;
            }
            for used in fs::read_to_string(&path)?
                .split(concat!("use ", "crate::"))
                .skip(1)
            {
                let name = used.trim_start_matches('{').trim_start();
                let name: String = name.chars().take_while(|c| c.is_alphanumeric()).collect();
                let is_shown = name.starts_with(char::is_uppercase)
                    // `files` makes whole files, in one way for all.
                    || ["cli", "dedup", "ingest", "eval", "parquet", "files"].contains(&&*name);
                assert!(
                    is_shown,
                    "{} uses the module {name} of the library",
                    path.display()
                );
            }
        }
        Ok(())
    }

    #[test]
    fn commands_see_only_what_the_library_shows_to_everybody() -> io::Result<()> {
        ensure_public(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cli"))
    }
}
