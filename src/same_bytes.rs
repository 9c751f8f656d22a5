//! Whether two files have the same bytes.

use std::fs::{self, File};
use std::io::{BufReader, Read as _};
use std::path::Path;

/// Whether both are files, and have the same bytes. What cannot be read is not the same.
pub(crate) fn are_same_bytes(a: &Path, b: &Path) -> bool {
    let read = |path: &Path| Some(BufReader::with_capacity(1 << 20, File::open(path).ok()?));
    let length = |path: &Path| {
        fs::metadata(path)
            .ok()
            .filter(fs::Metadata::is_file)
            .map(|it| it.len())
    };
    if length(a).is_none() || length(a) != length(b) {
        return false;
    }
    let (Some(a), Some(b)) = (read(a), read(b)) else {
        return false;
    };
    a.bytes()
        .zip(b.bytes())
        .all(|(a, b)| matches!((a, b), (Ok(a), Ok(b)) if a == b))
}
