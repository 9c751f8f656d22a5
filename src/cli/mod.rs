//! The command-line program: one file for each command or two, and helpers.
//!
//! It is part of the library, because a database that is in use answers commands too. But it uses the modules that the
//! library shows to everybody, so it tells whether these suffice, and three others: `files`, which makes whole files in
//! one way for all, `plural`, which writes numbers with their nouns, and `serve`, which has the protocol of the admin
//! socket.

mod answer;
mod arguments;
mod audit;
mod check;
mod clusters;
mod commands;
mod compact;
mod console;
mod create;
mod dedup;
mod delete;
mod escaping;
mod eval;
mod fingerprint;
mod ingest;
mod ingest_report;
mod lists;
mod load;
mod match_list;
mod output;
mod output_files;
mod overlap;
mod pair_output;
mod pairs;
mod plan;
mod process;
mod query;
mod rejections;
#[cfg(unix)]
mod remote;
mod report;
mod salvage;
mod sources;
mod stats;
#[cfg(feature = "parquet")]
mod tables;
mod times;
mod units;
mod verbs;
mod verification;

pub use commands::main;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
pub(crate) use load::hostile;
#[cfg(unix)]
pub(crate) use remote::run_for_client;

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
                let shown = [
                    "cli", "dedup", "eval", "files", "ingest", "inspect", "parquet", "planted",
                    "plural", "serve", "source", "sql",
                ];
                let is_shown = name.starts_with(char::is_uppercase) || shown.contains(&&*name);
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
