//! The head of a response of HTTP, as archives have it. Archives hold what servers sent, and what programs wrote of it:
//! HTTP/2 and 3 in the form of HTTP/1.1, responses before the page, fields without a colon. So no more is asked of a
//! head than that it begins with a status. The crate httparse, which is made for connections, knows the versions 1.0
//! and 1.1 alone, wants room for a stated number of fields, and has no answer before the blank line.

use std::borrow::Cow;

/// The head of a response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Head<'b> {
    /// The number that tells what became of the request, such as 200.
    pub(super) status: u16,
    fields: Vec<(&'b [u8], Cow<'b, [u8]>)>,
}

impl<'b> Head<'b> {
    /// The head at the beginning of bytes, and what is behind it. `None` if no head begins there. The heads of interim
    /// responses, and of the proxy's own, are passed over.
    pub(super) fn split(mut bytes: &'b [u8]) -> Option<(Self, &'b [u8])> {
        loop {
            let (head, rest) = Self::split_first(bytes)?;
            let next = rest.trim_ascii_start();
            if !head.may_come_before_another()
                || status_of(next.split(|&it| it == b'\n').next()?).is_none()
            {
                return Some((head, rest));
            }
            bytes = next;
        }
    }

    fn split_first(bytes: &'b [u8]) -> Option<(Self, &'b [u8])> {
        let (line, mut rest) = split_line(bytes);
        let mut head = Self {
            status: status_of(line)?,
            fields: Vec::new(),
        };
        while !rest.is_empty() {
            let (line, behind) = split_line(rest);
            rest = behind;
            if line.is_empty() {
                break;
            }
            head.add(line);
        }
        Some((head, rest))
    }

    /// Adds a line: a field, or more of the field before. What is neither is left out.
    fn add(&mut self, line: &'b [u8]) {
        if matches!(line[0], b' ' | b'\t') {
            if let Some((_, value)) = self.fields.last_mut() {
                value.to_mut().push(b' ');
                value.to_mut().extend_from_slice(line.trim_ascii());
            }
        } else if let Some(colon) = memchr::memchr(b':', line) {
            let (name, value) = (line[..colon].trim_ascii(), line[colon + 1..].trim_ascii());
            self.fields.push((name, Cow::Borrowed(value)));
        }
    }

    /// Whether another head may follow in place of a page: this one is interim (RFC 9110, 15.2), or that of a proxy
    /// which has made the connection.
    fn may_come_before_another(&self) -> bool {
        let is_without_page = self.values("content-type").next().is_none();
        self.status < 200 || self.status == 200 && is_without_page
    }

    /// The values of all fields of this name, which is in small letters.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = Cow<'_, str>> {
        let fields = self
            .fields
            .iter()
            .filter(move |it| it.0.eq_ignore_ascii_case(name.as_bytes()));
        fields.map(|it| String::from_utf8_lossy(&it.1))
    }

    /// The words of all fields of this name that are lists, in small letters.
    pub(super) fn words(&self, name: &str) -> Vec<String> {
        let words = |value: Cow<'_, str>| {
            value
                .split(',')
                .map(|it| it.trim().to_ascii_lowercase())
                .collect::<Vec<_>>()
        };
        self.values(name)
            .flat_map(words)
            .filter(|it| !it.is_empty())
            .collect()
    }
}

/// A line without its end, and what is behind.
fn split_line(bytes: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match memchr::memchr(b'\n', bytes) {
        Some(at) => (&bytes[..at], &bytes[at + 1..]),
        None => (bytes, &[][..]),
    };
    (line.strip_suffix(b"\r").unwrap_or(line), rest)
}

/// The status in the first line of a head. `None` if this is none: the name and the version of HTTP, spaces, and three
/// digits.
fn status_of(line: &[u8]) -> Option<u16> {
    let (name, rest) = line.split_at_checked(5)?;
    if !name.eq_ignore_ascii_case(b"HTTP/") {
        return None;
    }
    let version = rest
        .iter()
        .take_while(|it| it.is_ascii_digit() || **it == b'.')
        .count();
    let status = rest[version..].trim_ascii_start();
    let digits = status.iter().take_while(|it| it.is_ascii_digit()).count();
    if version == 0 || digits != 3 || status.len() == rest.len() - version {
        return None;
    }
    std::str::from_utf8(&status[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &[u8]) -> Option<(u16, Vec<String>, &[u8])> {
        let (head, rest) = Head::split(text)?;
        Some((
            head.status,
            head.values("content-type").map(Cow::into_owned).collect(),
            rest,
        ))
    }

    #[test]
    fn a_status_is_read_however_it_is_written() {
        for line in [
            "HTTP/1.1 200 OK",
            "HTTP/2 200",
            "HTTP/3 200 ",
            "HTTP/2.0 200 OK",
            "HTTP/1.1  200  OK",
            "http/1.1 200 ok",
            "HTTP/1.0\t200",
            "HTTP/1. 200 \u{440}",
        ] {
            for end in ["\r\n", "\n"] {
                let text = format!("{line}{end}Content-Type: text/html{end}{end}page");
                assert_eq!(
                    split(text.as_bytes()),
                    Some((200, vec!["text/html".into()], &b"page"[..])),
                    "{line}"
                );
            }
        }
        for line in [
            "HTTP/1.1 is a protocol",
            "HTTP/ 200",
            "HTTP/1.1 2000",
            "HTTP/1.1",
            "HTTP",
            "",
            "<p>",
        ] {
            assert_eq!(split(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn any_number_of_fields_of_any_shape_is_read() {
        let many = "x-field: 1\r\n".repeat(2_000) + &format!("x-long: {}\r\n", "y".repeat(100_000));
        let text = format!(
            "HTTP/1.1 200\r\nno colon\r\n: no name\r\n{many}CONTENT-TYPE :text/html;\r\n\t charset=x\r\n\r\n"
        );
        let text = [text.as_bytes(), b"page"].concat();
        assert_eq!(
            split(&text),
            Some((200, vec!["text/html; charset=x".into()], &b"page"[..]))
        );
        assert_eq!(
            split(b"HTTP/1.1 200\r\nx: \xff\xfe\r\n\r\n"),
            Some((200, vec![], &b""[..]))
        );
        assert_eq!(
            split(b"HTTP/1.1 200\r\nContent-Type: a"),
            Some((200, vec!["a".into()], &b""[..]))
        );
        assert_eq!(split(b"HTTP/1.1 200"), Some((200, vec![], &b""[..])));
        let two = Head::split(b"HTTP/1.1 200\nContent-Encoding: GZIP,br\ncontent-encoding: x\n\n")
            .expect("a head");
        assert_eq!(two.0.words("content-encoding"), ["gzip", "br", "x"]);
    }

    #[test]
    fn what_comes_before_the_page_is_passed_over() {
        let page = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\npage";
        for before in [
            "HTTP/1.1 100 Continue\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n",
            "HTTP/1.0 200 Connection established\r\nProxy-Agent: x\r\n\r\n",
        ] {
            let text = format!("{before}{page}");
            assert_eq!(
                split(text.as_bytes()),
                Some((200, vec!["text/html".into()], &b"page"[..])),
                "{before}"
            );
        }
        // A page may tell of heads.
        let tells = format!("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n{page}");
        assert_eq!(
            split(tells.as_bytes()).map(|it| it.2),
            Some(page.as_bytes())
        );
        assert_eq!(
            split(b"HTTP/1.1 301 Moved\r\n\r\nHTTP/1.1 200 OK\r\n\r\n").map(|it| it.0),
            Some(301)
        );
    }
}
