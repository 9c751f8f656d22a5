//! The socket: whatever a client sends, it is answered, and the process goes on.

use std::io::{Read as _, Write as _};
use std::sync::Weak;

use super::super::reply::{
    Info, read_document, read_matches, read_number, read_overlap, read_verdict,
};
use super::super::request::line_of;
use super::super::resp::{AnswerScan, Value};
use super::{FIRST_OF_COMMAND, Frame, Kept, Request, Sessions, Shutdown, UnixStream, VERSION};

/// More than a socket holds would wait for somebody who reads.
const MOST: usize = 64 << 10;

/// Any bytes as all that a client sends.
pub(crate) fn socket(bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(MOST)];
    let (here, mut there) = UnixStream::pair().expect("there are sockets");
    here.set_nonblocking(true).expect("a socket need not wait");
    there.write_all(bytes).expect("a socket holds some bytes");
    there.shutdown(Shutdown::Write).expect("it is connected");
    // No database is open, so a request that is understood is told so.
    let sessions = Sessions::new(Weak::new(), |_, _, _| panic!("there is no database"));
    let Ok(session) = sessions.enter(Kept::new(here)) else {
        panic!("nobody else is answered");
    };
    session.answer();
    drop(session);
    let mut answer = Vec::new();
    there.read_to_end(&mut answer).expect("it is connected");
    match bytes.first() {
        Some(&FIRST_OF_COMMAND) => assert_refused(&answer),
        _ => assert_answers(&answer),
    }
    _ = read_all(bytes);
    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    if let Ok(request) = Request::parse(line) {
        _ = request.arguments();
        _ = request.directory();
        let again = Request::parse(&line_of(&request));
        assert!(again.is_ok_and(|again| again == request));
    }
    // The other way: what a server may say to a client.
    if let Ok(frame) = serde_json::from_slice::<Frame>(line) {
        let again = line_of(&frame);
        assert!(serde_json::from_slice::<Frame>(&again).is_ok_and(|again| again == frame));
    }
}

/// The answer to what begins as a command of the program does.
fn assert_refused(answer: &[u8]) {
    let answer = std::str::from_utf8(answer).expect("an answer is text");
    let mut frames = Vec::new();
    for line in answer.lines() {
        frames.push(serde_json::from_str::<Frame>(line).expect("an answer is JSON Lines"));
    }
    assert!(
        matches!(
            frames[..],
            [
                Frame::SimdbAdmin(VERSION),
                Frame::Message(_),
                Frame::Exit(2)
            ] | [
                Frame::SimdbAdmin(VERSION),
                Frame::Begun(false),
                Frame::Message(_),
                Frame::Exit(2)
            ]
        ),
        "{frames:?}"
    );
}

/// Whatever was asked, the answers are whole ones, in the version that was asked for.
fn assert_answers(answer: &[u8]) {
    // A client that asks for version 3 gets marks that nobody reads here.
    if answer.contains(&b'%') {
        return;
    }
    assert_eq!(read_all(answer), Ok(()), "{}", answer.escape_ascii());
}

/// Reads bytes as a client reads answers, in pieces. Says what is wrong, also if the last is not whole.
fn read_all(bytes: &[u8]) -> Result<(), String> {
    let mut scan = AnswerScan::default();
    let mut begin = 0;
    for end in (begin + 1..=bytes.len()).chain([bytes.len()]) {
        while let Some(length) = scan.find_end(&bytes[begin..end])? {
            let value = Value::parse(&bytes[begin..begin + length])?;
            _ = Info::read(&value);
            _ = read_document(&value);
            _ = read_matches(&value, None);
            _ = read_number(&value);
            _ = read_overlap(&value);
            _ = read_verdict(&value, None);
            begin += length;
        }
    }
    match begin == bytes.len() {
        true => Ok(()),
        false => Err("it ends within an answer".to_owned()),
    }
}
