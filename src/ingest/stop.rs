//! Stopping the reading of inputs, also while one brings nothing for now.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
#[cfg(unix)]
use std::time::Duration;

use super::stored_bytes::Stored;

/// Says whether nobody wants the rest. The default never does.
#[derive(Clone, Default)]
pub(crate) struct Stop(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

/// How often a pipe that brings nothing is left to ask.
#[cfg(unix)]
const LOOK: Duration = Duration::from_millis(50);

impl Stop {
    pub(crate) fn when(stop: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(stop)))
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.as_ref().is_some_and(|stop| stop())
    }

    /// Opens a file to read it. If it is a pipe to which nobody writes yet, this waits for nobody.
    pub(super) fn open(&self, place: &Path) -> io::Result<File> {
        let mut options = File::options();
        options.read(true);
        // Elsewhere a pipe that was opened so has ended before anybody writes to it.
        #[cfg(target_os = "linux")]
        if self.0.is_some() {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        }
        options.open(place)
    }

    /// The content of a file, until nobody wants the rest.
    pub(super) fn content(&self, file: File) -> Stored {
        if self.0.is_none() {
            return Box::new(file);
        }
        let waits = file.metadata().map_or(true, |it| !it.is_file());
        Box::new(Stoppable {
            file,
            waits,
            stop: self.clone(),
        })
    }

    /// The standard input of the process, until nobody wants the rest.
    pub(super) fn standard_input(&self) -> Stored {
        #[cfg(unix)]
        if self.0.is_some() {
            use std::os::fd::AsFd as _;
            if let Ok(handle) = io::stdin().as_fd().try_clone_to_owned() {
                return self.content(handle.into());
            }
        }
        Box::new(io::stdin())
    }
}

/// A pipe, asked for how much it holds while another handle of it is read.
pub(super) struct Pipe(File);

impl Pipe {
    /// Whoever writes so much at once will hardly stop in the middle of a record. A pipe of Linux holds four times that.
    #[cfg(unix)]
    const MUCH: u64 = 16 << 10;

    /// `None` if the file is none, or if that cannot be told here.
    pub(super) fn of(file: &File) -> Option<Self> {
        let waits = file.metadata().is_ok_and(|it| !it.is_file());
        if waits {
            file.try_clone().ok().map(Self)
        } else {
            None
        }
    }

    /// The standard input of the process.
    pub(super) fn standard_input() -> Option<Self> {
        #[cfg(unix)]
        {
            use std::os::fd::AsFd as _;
            io::stdin()
                .as_fd()
                .try_clone_to_owned()
                .ok()
                .map(|handle| Self(handle.into()))
        }
        #[cfg(not(unix))]
        None
    }

    /// Whether so much is there that more will not have to be waited for.
    pub(super) fn holds_much(&self) -> bool {
        #[cfg(unix)]
        return rustix::io::ioctl_fionread(&self.0).is_ok_and(|bytes| bytes >= Self::MUCH);
        #[cfg(not(unix))]
        false
    }
}

impl PartialEq for Stop {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (None, None) => true,
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

impl Eq for Stop {}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stop(..)")
    }
}

/// A file that is read until nobody wants the rest.
struct Stoppable {
    file: File,
    /// Whether the next bytes may have to be waited for.
    waits: bool,
    stop: Stop,
}

impl Read for Stoppable {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stop.is_asked() {
                return Err(io::Error::other("nobody wants the rest"));
            }
            if self.waits && !has_some(&self.file)? {
                continue;
            }
            match self.file.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// Waits a moment for bytes or the end.
#[cfg(unix)]
fn has_some(file: &File) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let look = Timespec {
        tv_sec: 0,
        tv_nsec: LOOK.as_nanos() as i64,
    };
    match poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&look)) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(unix))]
fn has_some(_: &File) -> io::Result<bool> {
    Ok(true)
}
