//! The admin socket: an open database answers commands of other processes. The program asks there if it finds a
//! database in use.

mod door;
#[cfg(unix)]
mod listening;
#[cfg(unix)]
mod peer;
#[cfg(unix)]
mod room;
#[cfg(unix)]
mod serving;
#[cfg(unix)]
mod socket_file;

pub use door::AdminSocket;
