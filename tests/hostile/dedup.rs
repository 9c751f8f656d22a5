//! What a cleaning reads beside its inputs: lines that get fields, and lists of removed records.

use serde_json::{Map, Value};

use super::annotation::with_fields;
use super::removed_list::parse;

/// Any bytes as a line that gets fields. If it is an object, it has the same members afterwards and the new ones, and
/// to set them again changes nothing.
pub(crate) fn annotate(line: &[u8]) {
    const NAMES: [&str; 2] = ["dedup_group", "a"];
    let set = |line: &[u8]| {
        let fields = "\"dedup_group\":7,\"a\":\"}\"";
        with_fields(line, |name| NAMES.contains(&name), fields)
    };
    let made = set(line);
    let Ok(mut members) = serde_json::from_slice::<Map<String, Value>>(line) else {
        return;
    };
    let made = made.expect("an object takes fields");
    for name in NAMES {
        members.shift_remove(name);
    }
    members.insert("dedup_group".to_owned(), 7.into());
    members.insert("a".to_owned(), "}".into());
    let read: Map<String, Value> = serde_json::from_slice(&made).expect("it is an object again");
    assert_eq!(read, members);
    assert_eq!(set(&made).as_ref(), Some(&made));
    // Of a name, there is one member.
    let text = String::from_utf8_lossy(&made);
    assert!(
        text.trim_ascii_end()
            .ends_with("\"dedup_group\":7,\"a\":\"}\"}"),
        "{text}"
    );
}

/// Any bytes as a line of a list of removed records. What is read is the same if it is written again.
pub(crate) fn removed(line: &[u8]) {
    let Ok(removed) = parse(line) else {
        return;
    };
    let line = removed.to_json(["line", "row"]).to_string();
    let again = parse(line.as_bytes()).expect("it was written as lists are");
    assert_eq!(
        (again.record, again.survivor, again.distance),
        (removed.record, removed.survivor, removed.distance)
    );
    assert_eq!(again.similarity.is_some(), removed.similarity.is_some());
}
