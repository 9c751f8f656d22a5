//! Files that a command writes, which may not be what it reads.

use std::fs;
use std::path::{self, Path};

use super::answer::Failure;

/// As [`ensure_apart`], for an output that takes the place of what stands there. Refuses what is no file too, such as
/// the socket of a database.
pub(super) fn ensure_replaceable<'p>(
    output: &Path,
    database: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    if fs::metadata(output).is_ok_and(|it| !it.is_file() && !it.is_dir()) {
        let reason =
            "is no file but a socket, a pipe or a device; choose another name for the output";
        return Err(format!("{}: {reason}", output.display()).into());
    }
    ensure_apart(output, database, inputs)
}

/// Refuses to write into the database, or into an input or a file in a directory that is one. `output` and `inputs` are
/// where the files are.
pub(super) fn ensure_apart<'p>(
    output: &Path,
    database: Option<&Path>,
    inputs: impl IntoIterator<Item = &'p Path>,
) -> Result<(), Failure> {
    let path = output.display();
    if database.is_some_and(|it| are_same_file(output, it)) {
        return Err(
            format!("{path}: is the database itself; choose another file for the output").into(),
        );
    }
    match inputs
        .into_iter()
        .any(|input| are_same_file(output, input) || is_below(output, input))
    {
        true => {
            Err(format!("{path}: is one of the inputs; choose another file for the output").into())
        }
        false => Ok(()),
    }
}

/// Whether two paths lead to one file, by links or as two of its names. The file need not be there yet.
pub(super) fn are_same_file(a: &Path, b: &Path) -> bool {
    let [real_a, real_b] = [a, b].map(|path| {
        fs::canonicalize(path)
            .or_else(|_| path::absolute(path))
            .ok()
    });
    real_a.is_some() && real_a == real_b || are_names_of_one(a, b)
}

/// Whether a file is in a directory. It need not be there yet.
fn is_below(file: &Path, directory: &Path) -> bool {
    let folder = file
        .parent()
        .filter(|it| !it.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let real = fs::canonicalize(file)
        .or_else(|_| fs::canonicalize(folder))
        .ok();
    real.zip(fs::canonicalize(directory).ok())
        .is_some_and(|(file, directory)| file.starts_with(directory))
}

#[cfg(unix)]
fn are_names_of_one(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path: &Path| fs::metadata(path).ok().map(|it| (it.dev(), it.ino()));
    identity(a).is_some() && identity(a) == identity(b)
}

#[cfg(not(unix))]
fn are_names_of_one(_: &Path, _: &Path) -> bool {
    false
}
