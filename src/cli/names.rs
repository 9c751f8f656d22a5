//! What people call a command who know other programs, where no command does quite that. Names that mean the same as
//! a command are its aliases.

use std::path::Path;

/// What to do instead of a command that there is not. `None` if there is nothing better to say than clap does.
pub(super) fn instead(name: &str) -> Option<String> {
    let told = match name {
        "keys" => {
            "`simdb dump DB` prints all documents; `simdb stats DB` tells what a database holds"
        }
        "forget" => {
            "`simdb expire DB --before TIME` deletes old documents, `simdb delete DB KEY` those with a key"
        }
        "prune" | "gc" => {
            "`simdb expire DB --before TIME` deletes old documents, `simdb compact DB` gives back space"
        }
        "optimize" | "defragment" | "merge" | "shrink" => {
            "`simdb compact DB` makes a file dense; merges go on by themselves"
        }
        "integrity_check" | "integrity" | "test" => {
            "`simdb check DB` checks every page and every invariant"
        }
        #[cfg(not(feature = "parquet"))]
        "export" | "import" => {
            "this program was built without Parquet: build it with `--features cli,parquet`. `simdb dump` prints all \
             documents as JSON Lines, `simdb ingest` reads them"
        }
        "restore" => {
            "what `simdb backup` has written is a database itself, ready to be used; `simdb load` takes what \
             `simdb dump` has printed"
        }
        "repair" | "recover" | "rebuild" => {
            "`simdb check DB` tells what is damaged, `simdb dump DB` prints what can be read, and `simdb load` makes \
             a new database of it"
        }
        "update" | "upsert" | "put" | "replace" => {
            "`simdb ingest DB INPUT` stores documents, and one with the key of a stored document replaces it"
        }
        "count" => {
            "`simdb stats DB` counts documents, `simdb query DB --text T --limit 0` near-duplicates"
        }
        "diff" | "compare" => "`simdb distance HEX HEX` compares two fingerprints",
        "mount" | "serve" | "server" | "open" | "shell" => {
            "simdb is no server and has no prompt: each command opens the file, and ends"
        }
        "version" => "`simdb --version` prints the version",
        "man" => "`simdb manual` prints the manual: `simdb manual | man -l -`",
        name => return instead_of_path(name),
    };
    Some(told.to_owned())
}

/// Who writes the database first means a command after it.
fn instead_of_path(name: &str) -> Option<String> {
    let path = Path::new(name);
    let is_path =
        name.contains(std::path::MAIN_SEPARATOR) || path.extension().is_some() || path.is_file();
    is_path.then(|| format!("the command stands before the database: `simdb stats {name}`"))
}
