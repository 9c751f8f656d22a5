//! A process that a client has started so that somebody serves a database.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// How much is read of what a process has said before it ended.
const MOST_SAID_BYTES: u64 = 4 << 10;

/// A process that was started, and what it says on its standard error.
pub(super) struct Started {
    child: Child,
    said: File,
    /// What the one before it had said when it ended.
    said_before: String,
}

impl Started {
    /// Starts the command for a database, unless what was started before goes on. Says why nobody serves yet.
    ///
    /// One that ends at once is started again and again, so the reason is what any of them said last.
    pub(super) fn or_start(
        started: &mut Option<Self>,
        command: &[OsString],
        database: &Path,
    ) -> io::Result<String> {
        let mut said_before = String::new();
        if let Some(before) = started {
            if before.child.try_wait()?.is_none() {
                return Ok(before.reason());
            }
            said_before = before.said()?;
        }
        let started = started.insert(Self::start(command, database, said_before)?);
        Ok(started.reason())
    }

    /// Why nobody serves yet.
    fn reason(&self) -> String {
        match self.said_before.trim_end() {
            "" => "the process that was started does not serve it yet".to_owned(),
            said => format!("the process that was started said: {said}"),
        }
    }

    fn start(command: &[OsString], database: &Path, said_before: String) -> io::Result<Self> {
        let mut words = command.iter();
        let program = words.next().ok_or(io::ErrorKind::InvalidInput)?;
        let said = tempfile::tempfile()?;
        let mut command = Command::new(program);
        command
            .args(words)
            .arg(database)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said.try_clone()?)
            // It serves others too, whom a Ctrl-C at this terminal does not concern.
            .process_group(0);
        inherit_nothing_else(&mut command);
        let child = command.spawn()?;
        Ok(Self {
            child,
            said,
            said_before,
        })
    }

    fn said(&mut self) -> io::Result<String> {
        let mut said = Vec::new();
        self.said.rewind()?;
        (&self.said).take(MOST_SAID_BYTES).read_to_end(&mut said)?;
        Ok(String::from_utf8_lossy(&said).into_owned())
    }
}

/// Sees to it that a process gets no descriptor of this one but the first three. Whoever waits for the end of a pipe of
/// this process would wait for that of the other.
#[cfg(target_os = "linux")]
#[expect(
    unsafe_code,
    reason = "a child closes descriptors before it is the program"
)]
fn inherit_nothing_else(command: &mut Command) {
    let close = || {
        // SAFETY: it marks descriptors of the child, which end with this process image, as all of std do. A system that
        // does not know the call does nothing.
        unsafe {
            libc::syscall(
                libc::SYS_close_range,
                3,
                u32::MAX,
                libc::CLOSE_RANGE_CLOEXEC,
            )
        };
        Ok(())
    };
    // SAFETY: it makes one call to the system, which a forked process may do.
    unsafe { command.pre_exec(close) };
}

#[cfg(not(target_os = "linux"))]
fn inherit_nothing_else(_: &mut Command) {}
