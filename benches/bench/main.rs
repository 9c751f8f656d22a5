//! Measures a database of generated documents on this machine: inserts, queries, deletes and merges. The answers are
//! checked, and each phase prints a row. It sees only what the library shows to everybody.
//!
//!     cargo run --release --example bench -- --documents 2000000 --phases insert,settle,query

mod arguments;
mod asking;
mod changing;
mod clients;
mod collection;
mod ending;
mod phases;
mod state;
mod submitting;
mod window;

use std::io;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::{Builder, Scope, ScopedJoinHandle};

use clap::Parser as _;
use simdb::Error;

use arguments::Arguments;

/// Why something could not be measured.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> ExitCode {
    match phases::run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprint!("bench: {failure}");
            let mut cause = failure.source();
            while let Some(error) = cause {
                eprint!(": {error}");
                cause = error.source();
            }
            eprintln!();
            ExitCode::from(2)
        }
    }
}

/// Starts a thread, or says that the system gives none.
fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> Result<T, Failure> + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, Result<T, Failure>>, Failure> {
    Ok(Builder::new()
        .spawn_scoped(scope, work)
        .map_err(no_thread)?)
}

/// What a thread has found.
fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, Failure>>) -> Result<T, Failure> {
    thread.join().map_err(|_| "a thread has panicked")?
}

fn no_thread(error: io::Error) -> Error {
    Error::NoThread(Arc::new(error))
}
