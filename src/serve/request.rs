//! What a client and the process that has a database open say to each other: one request, a line of JSON, and its
//! answers, JSON Lines. docs/protocol.md describes it.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::{Deserialize, Serialize};

/// The version of the protocol. Both sides name it first.
pub(crate) const VERSION: u32 = 3;

/// The longest request (bytes).
pub(crate) const MOST_REQUEST_BYTES: usize = 1 << 20;

/// In the place of the device and the number of a file that was removed while somebody had it open.
pub(crate) const REMOVED: (u64, u64) = (0, 0);

#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
pub(crate) struct Request {
    simdb_admin: u32,
    /// The arguments of the program, without its name.
    arguments: Vec<Bytes>,
    /// Where relative paths begin.
    directory: Bytes,
    /// The name of the local time zone of the client. Without one, it is that of the process that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zone: Option<String>,
    /// The device and the number of the database file, so that no other database is asked. Or [`REMOVED`].
    pub(crate) file: (u64, u64),
    /// Whether standard input follows.
    #[serde(default)]
    pub(crate) input: bool,
}

#[derive(Deserialize)]
struct Versioned {
    simdb_admin: u64,
}

/// Bytes that are mostly text.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Other { base64: String },
}

/// One line of an answer.
#[derive(Debug, Serialize, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Frame {
    /// The first line: the version of the protocol.
    SimdbAdmin(u32),
    /// Whether the command is begun. If it is, standard input can be sent. If not, the process closes the database:
    /// nothing was done, and who asks can open the database soon, or ask another process.
    Begun(bool),
    /// Standard output.
    Out(String),
    /// Asks for a line that says that the output so far is written.
    Confirm(bool),
    /// A line for standard error.
    Message(String),
    /// What is done, what there is to do if that is known, and what is counted. Null when there is no more.
    Progress(Option<(u64, Option<u64>, String)>),
    /// The last line: the exit code.
    Exit(u8),
}

impl Bytes {
    fn to_os(&self) -> Result<OsString, String> {
        match self {
            Self::Text(text) => Ok(text.into()),
            Self::Other { base64 } => {
                let bytes = BASE64
                    .decode(base64)
                    .map_err(|error| format!("base64: {error}"))?;
                Ok(OsString::from_vec(bytes))
            }
        }
    }
}

impl Request {
    /// Reads a line, or says what is wrong with it.
    pub(crate) fn parse(line: &[u8]) -> Result<Self, String> {
        // A request of another version may have other fields.
        let Versioned {
            simdb_admin: version,
        } = serde_json::from_slice(line).map_err(|error| no_request(&error))?;
        if version != u64::from(VERSION) {
            return Err(format!(
                "the request has version {version} of the protocol, and the process that has the database open \
                 answers version {VERSION}: use the same release of simdb for both"
            ));
        }
        serde_json::from_slice(line).map_err(|error| no_request(&error))
    }

    pub(crate) fn arguments(&self) -> Result<Vec<OsString>, String> {
        self.arguments.iter().map(Bytes::to_os).collect()
    }

    pub(crate) fn directory(&self) -> Result<OsString, String> {
        self.directory.to_os()
    }
}

/// What a client needs besides.
#[cfg(feature = "cli")]
impl Request {
    pub(crate) fn new(
        arguments: impl Iterator<Item = OsString>,
        directory: &std::path::Path,
        zone: Option<String>,
        file: (u64, u64),
        input: bool,
    ) -> Self {
        fn bytes(text: &std::ffi::OsStr) -> Bytes {
            match text.to_str() {
                Some(text) => Bytes::Text(text.to_owned()),
                None => Bytes::Other {
                    base64: BASE64.encode(text.as_encoded_bytes()),
                },
            }
        }
        Self {
            simdb_admin: VERSION,
            arguments: arguments.map(|argument| bytes(&argument)).collect(),
            directory: bytes(directory.as_os_str()),
            zone,
            file,
            input,
        }
    }
}

fn no_request(error: &serde_json::Error) -> String {
    format!("this is no request: {error}")
}

pub(crate) fn line_of(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value).expect("numbers and texts can be written as JSON");
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn requests_and_answers_are_the_lines_that_are_documented() -> Result<(), String> {
        let arguments = ["get", "d.simdb", "k"].map(OsString::from);
        let zone = Some("Europe/Berlin".to_owned());
        let request = Request::new(
            arguments.into_iter(),
            Path::new("/tmp"),
            zone,
            (7, 8),
            false,
        );
        let line = line_of(&request);
        let documented = concat!(
            r#"{"simdb_admin":3,"arguments":["get","d.simdb","k"],"#,
            r#""directory":"/tmp","zone":"Europe/Berlin","file":[7,8],"input":false}"#,
        );
        assert_eq!(String::from_utf8_lossy(&line).trim_end(), documented);
        assert_eq!(Request::parse(&line)?, request);
        let frames = [
            (Frame::SimdbAdmin(3), r#"{"simdb_admin":3}"#),
            (Frame::Begun(true), r#"{"begun":true}"#),
            (Frame::Confirm(true), r#"{"confirm":true}"#),
            (Frame::Out("a\n".to_owned()), r#"{"out":"a\n"}"#),
            (Frame::Message("b".to_owned()), r#"{"message":"b"}"#),
            (
                Frame::Progress(Some((1, Some(2), String::new()))),
                r#"{"progress":[1,2,""]}"#,
            ),
            (Frame::Progress(None), r#"{"progress":null}"#),
            (Frame::Exit(2), r#"{"exit":2}"#),
        ];
        for (frame, documented) in frames {
            assert_eq!(
                String::from_utf8_lossy(&line_of(&frame)).trim_end(),
                documented
            );
            assert_eq!(
                serde_json::from_str::<Frame>(documented).map_err(|error| error.to_string())?,
                frame
            );
        }
        Ok(())
    }

    #[test]
    fn arguments_may_be_any_bytes() -> Result<(), String> {
        use std::os::unix::ffi::OsStrExt;
        let key = std::ffi::OsStr::from_bytes(b"\xff\xfe key");
        let request = Request::new(
            [key.to_owned()].into_iter(),
            Path::new(key),
            None,
            (0, 0),
            true,
        );
        let read = Request::parse(&line_of(&request))?;
        assert_eq!(
            (read.arguments()?, read.directory()?),
            (vec![key.to_owned()], key.to_owned())
        );
        Ok(())
    }

    #[test]
    fn what_is_no_request_is_told_apart_from_one_of_another_version() {
        let said = |line: &str| Request::parse(line.as_bytes()).expect_err("it is refused");
        assert!(said("nonsense").contains("no request"));
        assert!(said("[3]").contains("no request"));
        assert!(said(r#"{"simdb_admin":3}"#).contains("no request"));
        let other = said(r#"{"simdb_admin":9}"#);
        assert!(
            other.contains("version 9") && other.contains("version 3"),
            "{other}"
        );
    }
}
