//! The name of a path in a message. Different paths have different names, also those that are not UTF-8.

use std::fmt::Write as _;
use std::path::Path;

/// The path as text. Bytes that are not UTF-8 are escaped as `\xff`. So that no two paths have one name, a backslash is
/// doubled then, and wherever it does not part the folders of a path.
pub(crate) fn path_name(path: &Path) -> String {
    let bytes = path.as_os_str().as_encoded_bytes();
    let text = std::str::from_utf8(bytes);
    if let Ok(text) = text
        && (cfg!(windows) || !text.contains('\\'))
    {
        return text.to_owned();
    }
    let mut name = String::with_capacity(bytes.len() + 8);
    for chunk in bytes.utf8_chunks() {
        name += &chunk.valid().replace('\\', r"\\");
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            _ = write!(name, "\\x{byte:02x}");
        }
    }
    name
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn different_paths_have_different_names() {
        let name = |bytes: &[u8]| path_name(Path::new(OsStr::from_bytes(bytes)));
        assert_eq!(name("a/é b".as_bytes()), "a/é b");
        assert_eq!(name(b"a/\xff\xe9.txt"), r"a/\xff\xe9.txt");
        assert_eq!(name(br"a/\xff"), r"a/\\xff");
        assert_eq!(name(b"\\\xff"), r"\\\xff");
    }
}
