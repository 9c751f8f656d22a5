//! The admin socket: an open database answers other processes. It listens, lets in, and sees to it that the request is
//! for this database; who opens it gives the function that runs the commands.

mod admin_socket;
#[cfg(unix)]
mod client;
#[cfg(unix)]
mod listening;
#[cfg(unix)]
mod protocol;
#[cfg(unix)]
mod sessions;
#[cfg(unix)]
mod socket;

pub use admin_socket::AdminSocket;
#[cfg(all(unix, feature = "cli"))]
pub(crate) use {
    client::Client,
    protocol::{Frame, MOST_REQUEST_BYTES, VERSION, line_of},
    socket::{connect, identity_of},
};
#[cfg(unix)]
pub(crate) use {protocol::Request, sessions::RunCommand, socket::socket_beside};
