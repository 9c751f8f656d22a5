//! Lines of a dump: its header and its documents.

use std::str;

use super::{CreateOptions, Header, Line, SketchSize, document, document_fields};

/// Any bytes as lines of a dump. A document that is read is the same if it is dumped again.
pub(crate) fn dump(bytes: &[u8]) {
    let mut options = CreateOptions::new();
    for line in bytes.split(|&byte| byte == b'\n') {
        let Ok(line) = str::from_utf8(line) else {
            return;
        };
        if let Ok(header) = serde_json::from_str::<Header>(line)
            && let Ok(Some(named)) = header.create_options()
        {
            options = named;
        }
        for options in [
            &options,
            &CreateOptions::new().sketch_size(SketchSize::Bytes32),
        ] {
            let Ok(read) = document(line, options) else {
                continue;
            };
            let dumped = document_fields(&read).to_string();
            let again = document(&dumped, options);
            assert!(
                again.as_ref().is_ok_and(|again| *again == read),
                "{again:?}"
            );
        }
        _ = serde_json::from_str::<Line>(line);
    }
}
