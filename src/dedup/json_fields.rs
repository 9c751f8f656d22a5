//! Fields at the end of an object on a line, in the place of older ones of the same names. All other bytes stay as they
//! are.

/// The line with these fields at the end of its object. `fields` are written as JSON, with commas between them;
/// `is_old` says of a name whether its field goes. `None` if the line is no object.
///
/// An object is its members with commas between them. So without the members that go, all others are put together
/// again as they are, with the spaces around them.
pub(super) fn with_fields(
    line: &[u8],
    is_old: impl Fn(&str) -> bool,
    fields: &str,
) -> Option<Vec<u8>> {
    let begin = memchr::memchr(b'{', line)? + 1;
    let end = memchr::memrchr(b'}', line)?;
    let inside = line.get(begin..end)?;
    let mut written = Vec::with_capacity(line.len() + fields.len() + 1);
    written.extend_from_slice(&line[..begin]);
    let mut is_first = true;
    for member in members(inside) {
        if name_of(member).is_some_and(|name| is_old(&name)) || member.trim_ascii().is_empty() {
            continue;
        }
        if !is_first {
            written.push(b',');
        }
        is_first = false;
        written.extend_from_slice(member);
    }
    if !is_first {
        written.push(b',');
    }
    written.extend_from_slice(fields.as_bytes());
    written.extend_from_slice(&line[end..]);
    Some(written)
}

/// The members of an object, with the spaces around them.
fn members(inside: &[u8]) -> Vec<&[u8]> {
    let mut members = Vec::new();
    let mut begin = 0;
    let mut depth = 0u32;
    let mut at = 0;
    while let Some(&byte) = inside.get(at) {
        match byte {
            b'"' => at = end_of_text(inside, at + 1),
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                members.push(&inside[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    members.push(&inside[begin..]);
    members
}

/// Where the quote is that ends a text.
fn end_of_text(inside: &[u8], mut at: usize) -> usize {
    while let Some(found) = inside
        .get(at..)
        .and_then(|rest| memchr::memchr2(b'"', b'\\', rest))
    {
        at += found;
        if inside[at] == b'"' {
            return at;
        }
        // Behind the backslash, a quote is one of the text.
        at += 2;
    }
    inside.len()
}

/// The name of a member. Also one that is written with escapes.
fn name_of(member: &[u8]) -> Option<String> {
    serde_json::Deserializer::from_slice(member)
        .into_iter()
        .next()?
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(line: &str) -> Option<String> {
        let set = with_fields(line.as_bytes(), |name| name == "g", "\"g\":1")?;
        Some(String::from_utf8(set).expect("it was UTF-8"))
    }

    #[test]
    fn fields_come_last_and_take_the_place_of_old_ones() {
        for (line, expected) in [
            ("{}", r#"{"g":1}"#),
            ("{ }\r\n", "{\"g\":1}\r\n"),
            (r#"{"a":2}"#, r#"{"a":2,"g":1}"#),
            ("  { \"a\" : 2 } \n", "  { \"a\" : 2 ,\"g\":1} \n"),
            (r#"{"g":[1,{"g":2}]}"#, r#"{"g":1}"#),
            (r#"{"g":0,"a":2}"#, r#"{"a":2,"g":1}"#),
            (
                r#"{"a":2, "g" : "}\"," , "b":3}"#,
                r#"{"a":2, "b":3,"g":1}"#,
            ),
            (r#"{"g":0,"a":2,"g":0}"#, r#"{"a":2,"g":1}"#),
            (r#"{"\u0067":0,"a":"\\"}"#, r#"{"a":"\\","g":1}"#),
            (
                r#"{"a":{"g":0,"b":[",",{}]}}"#,
                r#"{"a":{"g":0,"b":[",",{}]},"g":1}"#,
            ),
        ] {
            assert_eq!(set(line).as_deref(), Some(expected), "{line}");
            assert_eq!(set(expected).as_deref(), Some(expected), "again");
        }
        assert_eq!(set("[1]"), None);
        assert_eq!(set("}{"), None);
    }
}
