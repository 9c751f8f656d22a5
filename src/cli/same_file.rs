//! Files that a command writes, which may not be what it reads.

use std::fs;
use std::path::{self, Path};

use super::answer::Failure;
use crate::files;

/// As [`ensure_apart`], for an output that takes the place of what stands there. Refuses what is no file too, such as
/// the socket of a database.
pub(super) fn ensure_replaceable<'p>(
    output: &Path,
    database: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    if is_no_file(output) {
        let reason =
            "is no file but a socket, a pipe or a device; choose another name for the output";
        return Err(format!("{}: {reason}", output.display()).into());
    }
    ensure_apart(output, database, inputs)
}

/// Whether something else than a file or a directory stands there: a socket, a pipe, a terminal or a device.
pub(super) fn is_no_file(path: &Path) -> bool {
    match fs::metadata(path) {
        Ok(there) => !there.is_file() && !there.is_dir(),
        Err(_) => false,
    }
}

/// Refuses to write into the database, or into an input or a file in a directory that is one. `output` and `inputs` are
/// where the files are.
pub(super) fn ensure_apart<'p>(
    output: &Path,
    database: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    let is_database = database.is_some_and(|database| are_same_file(output, database));
    let mut meant = is_database.then_some("the database itself");
    for input in inputs {
        if are_same_file(output, input) || is_below(output, input) {
            meant = meant.or(Some("one of the inputs"));
        }
    }
    match meant {
        Some(meant) => {
            let path = output.display();
            Err(format!("{path}: is {meant}; choose another file for the output").into())
        }
        None => Ok(()),
    }
}

/// Whether two paths lead to one file, by links or as two of its names. The file need not be there yet.
pub(super) fn are_same_file(a: &Path, b: &Path) -> bool {
    if files::are_same_file(a, b) {
        return true;
    }
    match (path::absolute(a), path::absolute(b)) {
        (Ok(a), Ok(b)) => a == b,
        _ => false,
    }
}

/// Whether a file is in a directory. It need not be there yet.
fn is_below(file: &Path, directory: &Path) -> bool {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    match (
        fs::canonicalize(file).or(fs::canonicalize(folder)),
        fs::canonicalize(directory),
    ) {
        (Ok(file), Ok(directory)) => file.starts_with(directory),
        _ => false,
    }
}
