//! RESP, the protocol of the clients of Redis: requests are arrays of texts, each with its length before it, and so
//! are most answers.
//!
//! Both ends read from bytes that have come so far, which may end anywhere. No length is believed before it is within
//! its bounds, and nothing is allocated for what has not come.
//! <https://redis.io/docs/latest/develop/reference/protocol-spec/>

use std::ops::Range;
use std::str;

use smallvec::SmallVec;

use crate::error::Error;

/// The longest request (bytes).
pub(super) const MOST_REQUEST_BYTES: usize = 1 << 20;
/// The most texts of a request.
const MOST_ARGUMENTS: usize = 1 << 16;
/// The longest answer (bytes).
const MOST_ANSWER_BYTES: usize = 64 << 20;
/// The longest line with a length.
const MOST_LINE_BYTES: usize = 64;
/// The longest line of an error or of a simple text.
const MOST_TEXT_LINE_BYTES: usize = 64 << 10;

/// The beginning of a request, if a whole one has come: where its arguments are, and its length.
pub(super) struct RequestParts {
    pub(super) arguments: SmallVec<[Range<usize>; 16]>,
    pub(super) length: usize,
}

/// Finds the request with which the bytes begin. `None` if it is not whole yet. Says what is wrong if it can be none.
///
/// An empty line is a request of no texts, as it is in Redis. Some clients send one before a request.
pub(super) fn find_request(bytes: &[u8]) -> Result<Option<RequestParts>, String> {
    match bytes {
        b"\r" => return Ok(None),
        [b'\r', b'\n', ..] => {
            return Ok(Some(RequestParts {
                arguments: SmallVec::new(),
                length: 2,
            }));
        }
        _ => {}
    }
    let Some((count, mut at)) = length_at(bytes, 0, b'*', MOST_ARGUMENTS)? else {
        return Ok(None);
    };
    let mut arguments = SmallVec::new();
    for _ in 0..count {
        let Some((length, begin)) = length_at(bytes, at, b'$', MOST_REQUEST_BYTES)? else {
            return Ok(None);
        };
        let end = begin + length;
        if end > MOST_REQUEST_BYTES {
            return Err(format!(
                "the request is longer than {MOST_REQUEST_BYTES} bytes"
            ));
        }
        if bytes.len() < end + 2 {
            return Ok(None);
        }
        if bytes[end..end + 2] != *b"\r\n" {
            return Err("a text of the request does not end where its length says".to_owned());
        }
        arguments.push(begin..end);
        at = end + 2;
    }
    Ok(Some(RequestParts {
        arguments,
        length: at,
    }))
}

/// Reads a mark and a length at a place. Gives the length, and where its line has ended. `None` if it is not whole yet.
fn length_at(
    bytes: &[u8],
    at: usize,
    mark: u8,
    most: usize,
) -> Result<Option<(usize, usize)>, String> {
    let Some(&first) = bytes.get(at) else {
        return Ok(None);
    };
    if first != mark {
        return Err(format!(
            "expected '{}', got '{}'",
            char::from(mark),
            first.escape_ascii()
        ));
    }
    let Some((line, end)) = line_at(bytes, at + 1, MOST_LINE_BYTES)? else {
        return Ok(None);
    };
    Ok(Some((length_of(line, most)?, end)))
}

/// Reads a line at a place, and gives where the next begins. `None` if it is not whole yet.
fn line_at(bytes: &[u8], at: usize, most: usize) -> Result<Option<(&[u8], usize)>, String> {
    let rest = &bytes[at..];
    let seen = &rest[..rest.len().min(most)];
    match seen.iter().position(|&byte| byte == b'\n') {
        Some(end) if end > 0 && seen[end - 1] == b'\r' => {
            Ok(Some((&seen[..end - 1], at + end + 1)))
        }
        Some(_) => Err("a line does not end with \\r\\n".to_owned()),
        None if rest.len() >= most => Err(format!("a line is longer than {most} bytes")),
        None => Ok(None),
    }
}

/// Reads a whole number in decimal, without a plus or needless zeros before it.
fn number_of(digits: &[u8]) -> Result<i64, String> {
    let text = str::from_utf8(digits).ok();
    let number = text.and_then(|text| text.parse().ok());
    let number: Option<i64> = number.filter(|_| !digits.starts_with(b"+"));
    number.ok_or_else(|| format!("'{}' is no number", digits.escape_ascii()))
}

fn length_of(line: &[u8], most: usize) -> Result<usize, String> {
    let number = number_of(line)?;
    let length = usize::try_from(number).ok();
    let length = length.filter(|&length| length <= most);
    length.ok_or_else(|| format!("a length of {number} is not within 0 and {most}"))
}

#[derive(Default)]
pub(super) struct RequestWriter {
    texts: Vec<u8>,
    count: usize,
}

impl RequestWriter {
    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) {
        push_text(&mut self.texts, text.as_ref());
        self.count += 1;
    }

    /// The whole request.
    ///
    /// # Errors
    ///
    /// [`Error::RequestLength`] for one that [`find_request`] would not take.
    pub(super) fn finish(self) -> Result<Vec<u8>, Error> {
        let mut request = Vec::with_capacity(self.texts.len() + 8);
        push_length(&mut request, b'*', self.count);
        request.extend_from_slice(&self.texts);
        if request.len() > MOST_REQUEST_BYTES || self.count > MOST_ARGUMENTS {
            return Err(Error::RequestLength {
                bytes: request.len(),
                texts: self.count,
                max_bytes: MOST_REQUEST_BYTES,
                max_texts: MOST_ARGUMENTS,
            });
        }
        Ok(request)
    }
}

/// Adds a mark, and a number in decimal.
fn push_number(out: &mut Vec<u8>, mark: u8, number: i64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.push(mark);
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
    out.extend_from_slice(b"\r\n");
}

fn push_length(out: &mut Vec<u8>, mark: u8, length: usize) {
    push_number(out, mark, length as i64);
}

fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_length(out, b'$', text.len());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn push_line(out: &mut Vec<u8>, mark: u8, line: &str) {
    out.push(mark);
    out.extend_from_slice(line.as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// The version of RESP that a client has asked for. Version 3 has maps and nulls of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum RespVersion {
    #[default]
    Two = 2,
    Three = 3,
}

#[derive(Default)]
pub(super) struct Answers {
    out: Vec<u8>,
    pub(super) version: RespVersion,
}

impl Answers {
    /// What is to be sent. The caller takes out what it has sent.
    pub(super) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Takes an answer away if it is longer than a client takes. It begins behind so many bytes, and is the last.
    ///
    /// # Errors
    ///
    /// [`Error::AnswerLength`] if it was taken away.
    pub(super) fn ensure_sendable(&mut self, before: usize) -> Result<(), Error> {
        let bytes = self.out.len() - before;
        if bytes <= MOST_ANSWER_BYTES {
            return Ok(());
        }
        self.out.truncate(before);
        Err(Error::AnswerLength {
            bytes,
            max_bytes: MOST_ANSWER_BYTES,
        })
    }

    /// A text of the protocol, such as OK.
    pub(super) fn simple(&mut self, text: &str) {
        push_line(&mut self.out, b'+', text);
    }

    /// An error: a word in capitals that tells of which kind it is, and a message.
    pub(super) fn error(&mut self, code: &str, message: &str) {
        let line: String = message
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        push_line(&mut self.out, b'-', &format!("{code} {line}"));
    }

    pub(super) fn integer(&mut self, number: i64) {
        push_number(&mut self.out, b':', number);
    }

    pub(super) fn text(&mut self, text: impl AsRef<[u8]>) {
        push_text(&mut self.out, text.as_ref());
    }

    pub(super) fn decimal(&mut self, number: f64) {
        match self.version {
            RespVersion::Two => self.text(number.to_string()),
            RespVersion::Three => push_line(&mut self.out, b',', &number.to_string()),
        }
    }

    pub(super) fn null(&mut self) {
        self.out.extend_from_slice(match self.version {
            RespVersion::Two => b"$-1\r\n",
            RespVersion::Three => b"_\r\n",
        });
    }

    /// An answer, written by `write`, or that there is none.
    pub(super) fn optional<T>(&mut self, answer: Option<T>, write: impl FnOnce(&mut Self, T)) {
        match answer {
            Some(answer) => write(self, answer),
            None => self.null(),
        }
    }

    /// The name of a field of a map. The field has to follow.
    pub(super) fn field(&mut self, name: &str) -> &mut Self {
        self.text(name);
        self
    }

    /// An array. As many answers have to follow.
    pub(super) fn array(&mut self, length: usize) {
        push_length(&mut self.out, b'*', length);
    }

    /// A map. As many names, each with an answer behind it, have to follow.
    pub(super) fn map(&mut self, length: usize) {
        match self.version {
            RespVersion::Two => self.array(2 * length),
            RespVersion::Three => push_length(&mut self.out, b'%', length),
        }
    }
}

/// An answer as a client of version 2 reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Text(&'a [u8]),
    Error(&'a [u8]),
    Integer(i64),
    Null,
    Array(Vec<Self>),
}

/// Looks for the end of the answer with which some bytes begin, and goes on where it stopped when more have come.
#[derive(Default)]
pub(super) struct AnswerScan {
    at: usize,
    /// How many values are still to come. `None` at the beginning.
    left: Option<usize>,
}

impl AnswerScan {
    /// The length of the answer, if it is whole. Says what is wrong if it can be none.
    pub(super) fn find_end(&mut self, bytes: &[u8]) -> Result<Option<usize>, String> {
        let mut left = self.left.unwrap_or(1);
        while left > 0 {
            let Some((more, end)) = value_at(bytes, self.at)? else {
                return Ok(None);
            };
            if end > MOST_ANSWER_BYTES {
                return Err(format!(
                    "the answer is longer than {MOST_ANSWER_BYTES} bytes"
                ));
            }
            if bytes.len() < end {
                return Ok(None);
            }
            left = left - 1 + more;
            self.at = end;
            self.left = Some(left);
        }
        let end = self.at;
        *self = Self::default();
        Ok(Some(end))
    }
}

/// How many values follow that belong to the one at a place, and where it ends without them. `None` if that is not
/// known yet.
fn value_at(bytes: &[u8], at: usize) -> Result<Option<(usize, usize)>, String> {
    let Some(&mark) = bytes.get(at) else {
        return Ok(None);
    };
    let most = match mark {
        b'+' | b'-' => MOST_TEXT_LINE_BYTES,
        _ => MOST_LINE_BYTES,
    };
    let Some((line, end)) = line_at(bytes, at + 1, most)? else {
        return Ok(None);
    };
    Ok(Some(match mark {
        b'+' | b'-' => (0, end),
        b':' => {
            number_of(line)?;
            (0, end)
        }
        b'$' if line == b"-1" => (0, end),
        b'$' => (0, end + length_of(line, MOST_ANSWER_BYTES)? + 2),
        b'*' => (length_of(line, MOST_ANSWER_BYTES)?, end),
        _ => return Err(format!("an answer begins with '{}'", mark.escape_ascii())),
    }))
}

impl<'a> Value<'a> {
    /// How deep arrays may be in arrays.
    const MOST_DEEP: usize = 8;

    /// Reads a whole answer, whose end [`AnswerScan`] has found.
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self, String> {
        let mut at = 0;
        Self::parse_at(bytes, &mut at, Self::MOST_DEEP)
    }

    fn parse_at(bytes: &'a [u8], at: &mut usize, deep: usize) -> Result<Self, String> {
        const CUT: &str = "an answer is cut off";
        let begin = *at;
        let (more, end) = value_at(bytes, begin)?.ok_or(CUT)?;
        let (line, rest) = line_at(bytes, begin + 1, MOST_TEXT_LINE_BYTES)?.ok_or(CUT)?;
        *at = end;
        Ok(match bytes[begin] {
            b'+' => Self::Text(line),
            b'-' => Self::Error(line),
            b':' => Self::Integer(number_of(line)?),
            b'$' if line == b"-1" => Self::Null,
            b'$' => {
                let text = bytes.get(rest..end).ok_or(CUT)?;
                let text = text.strip_suffix(b"\r\n");
                Self::Text(text.ok_or("a text has no end")?)
            }
            _ if deep == 0 => return Err("an answer has too many arrays in arrays".to_owned()),
            _ => {
                let values = (0..more).map(|_| Self::parse_at(bytes, at, deep - 1));
                Self::Array(values.collect::<Result<_, _>>()?)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_of(bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, String> {
        let found = find_request(bytes)?;
        Ok(found.map(|found| {
            assert!(found.length <= bytes.len());
            let texts = found
                .arguments
                .into_iter()
                .map(|range| bytes[range].to_vec());
            texts.collect()
        }))
    }

    #[test]
    fn a_request_is_read_when_all_of_it_has_come() -> Result<(), Box<dyn std::error::Error>> {
        let mut writer = RequestWriter::default();
        for text in [&b"SIM.GET"[..], b"a\r\nb\xff", b""] {
            writer.text(text);
        }
        let bytes = writer.finish()?;
        assert_eq!(
            bytes,
            b"*3\r\n$7\r\nSIM.GET\r\n$5\r\na\r\nb\xff\r\n$0\r\n\r\n"
        );
        for end in 0..bytes.len() {
            assert_eq!(arguments_of(&bytes[..end])?, None, "{end}");
        }
        let whole = arguments_of(&bytes)?;
        assert_eq!(
            whole,
            Some(vec![
                b"SIM.GET".to_vec(),
                b"a\r\nb\xff".to_vec(),
                Vec::new()
            ])
        );
        Ok(())
    }

    #[test]
    fn what_can_be_no_request_is_refused_before_it_is_whole() {
        let bad: [&[u8]; 12] = [
            b"GET / HTTP/1.1\r\n",
            b"\0",
            b"*-1\r\n",
            b"*x\r\n",
            b"*+1\r\n",
            b"*70000\r\n",
            b"*99999999999999999999\r\n",
            b"*1\r\n$1000000000\r\n",
            b"*1\r\n:1\r\n",
            b"*1\r\n$1\r\nabc",
            b"*1\n$1\r\n",
            &[b'*'; 100],
        ];
        for bytes in bad {
            let refused = arguments_of(bytes);
            assert!(refused.is_err(), "{}: {refused:?}", bytes.escape_ascii());
        }
    }

    #[test]
    fn an_answer_is_found_piece_by_piece_and_read_as_it_was_written() -> Result<(), String> {
        let mut answers = Answers::default();
        answers.map(3);
        answers.text("matches");
        answers.array(2);
        answers.integer(-7);
        answers.null();
        answers.text("similarity");
        answers.decimal(0.5);
        answers.text(b"\r\n$");
        answers.error("INPUT", "two\nlines");
        let bytes = answers.bytes().clone();
        let mut scan = AnswerScan::default();
        for end in 0..bytes.len() {
            assert_eq!(scan.find_end(&bytes[..end])?, None, "{end}");
        }
        assert_eq!(scan.find_end(&bytes)?, Some(bytes.len()));
        let read = Value::parse(&bytes)?;
        let list = Value::Array(vec![Value::Integer(-7), Value::Null]);
        let written = [
            Value::Text(b"matches"),
            list,
            Value::Text(b"similarity"),
            Value::Text(b"0.5"),
            Value::Text(b"\r\n$"),
            Value::Error(b"INPUT two lines"),
        ];
        assert_eq!(read, Value::Array(written.to_vec()));
        Ok(())
    }

    #[test]
    fn version_three_has_marks_of_its_own() {
        let mut answers = Answers {
            version: RespVersion::Three,
            ..Answers::default()
        };
        answers.map(1);
        answers.null();
        answers.decimal(0.25);
        assert_eq!(answers.bytes(), b"%1\r\n_\r\n,0.25\r\n");
    }
}
