//! A number and what it counts, in words: `1 document`, `2 documents`.

use std::fmt::Display;

/// The number and its noun, which is given in the singular and ends with the word that changes: `kept record`.
///
/// The number may be written in any way. Only `1` is one.
pub(crate) fn counted(number: impl Display, noun: &str) -> String {
    let number = number.to_string();
    if number == "1" {
        return format!("1 {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) => format!("{number} {stem}ies"),
        None if noun.ends_with("ch") => format!("{number} {noun}es"),
        None => format!("{number} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_noun_agrees_with_its_number() {
        for (number, noun, told) in [
            ("0", "document", "0 documents"),
            ("1", "document", "1 document"),
            ("2", "near-duplicate", "2 near-duplicates"),
            ("1,001", "kept record", "1,001 kept records"),
            ("1", "query", "1 query"),
            ("3", "query", "3 queries"),
            ("11", "match", "11 matches"),
            ("1.0", "byte", "1.0 bytes"),
        ] {
            assert_eq!(counted(number, noun), told);
        }
        assert_eq!(counted(1u64, "record"), "1 record");
    }
}
