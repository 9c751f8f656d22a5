//! The admin socket: an open database answers other processes. It listens, lets in, and sees to it that the request is
//! for this database; who opens it gives the function that runs the commands.

#[cfg(unix)]
mod admin_socket;
#[cfg(unix)]
mod client;
#[cfg(not(unix))]
mod no_socket;
#[cfg(unix)]
mod protocol;
#[cfg(unix)]
mod socket;

#[cfg(unix)]
pub use admin_socket::AdminSocket;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
pub(crate) use admin_socket::hostile;
#[cfg(not(unix))]
pub use no_socket::AdminSocket;
#[cfg(unix)]
pub(crate) use {admin_socket::RunCommand, protocol::Request, socket::socket_beside};
#[cfg(all(unix, feature = "cli"))]
pub(crate) use {
    client::{Client, LONGEST_UNREAD},
    protocol::{Frame, MOST_REQUEST_BYTES, VERSION, line_of},
    socket::{connect, identity_of},
};
