//! The command-line program. All of it is in `simdb::cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    simdb::cli::main()
}
