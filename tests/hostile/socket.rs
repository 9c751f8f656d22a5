//! The admin socket: whatever a client sends, it is answered, and the process goes on.

use std::io::{Read as _, Write as _};
use std::sync::Weak;

use super::super::protocol::Frame;
use super::{Kept, Request, Sessions, Shutdown, UnixStream, VERSION};

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
    let mut answer = String::new();
    there
        .read_to_string(&mut answer)
        .expect("an answer is text");
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
            ]
        ),
        "{frames:?}"
    );

    let line = bytes
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    if let Ok(request) = Request::parse(line) {
        _ = request.arguments();
        _ = request.directory();
        let again = Request::parse(&super::super::protocol::line_of(&request));
        assert!(again.is_ok_and(|again| again == request));
    }
    // The other way: what a server may say to a client.
    if let Ok(frame) = serde_json::from_slice::<Frame>(line) {
        let again = super::super::protocol::line_of(&frame);
        assert!(serde_json::from_slice::<Frame>(&again).is_ok_and(|again| again == frame));
    }
}
