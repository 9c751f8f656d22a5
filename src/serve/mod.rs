//! Answering other processes: an open database listens at a socket. Two languages are spoken there: RESP, in which
//! clients insert and ask, and requests for commands of the program. Who opens the socket gives the function that runs
//! those.

#[cfg(unix)]
mod call;
#[cfg(unix)]
mod caller;
#[cfg(unix)]
mod client;
#[cfg(unix)]
mod find_server;
#[cfg(not(unix))]
mod no_server;
#[cfg(unix)]
mod reply;
#[cfg(unix)]
mod request;
#[cfg(unix)]
mod resp;
#[cfg(unix)]
mod resp_session;
#[cfg(unix)]
mod server;
#[cfg(unix)]
mod socket;

#[cfg(not(unix))]
pub use no_server::Server;
#[cfg(not(unix))]
pub(crate) use no_server::ensure_free_beside;
#[cfg(all(unix, feature = "cli", any(test, fuzzing)))]
pub(crate) use server::hostile;
#[cfg(all(unix, feature = "cli"))]
pub(crate) use {
    caller::{Caller, LONGEST_UNREAD},
    request::{Frame, MOST_REQUEST_BYTES, REMOVED, VERSION, line_of},
    socket::{connect, identity_of, socket_of},
};
#[cfg(unix)]
pub use {
    client::{Client, ClientTicket},
    find_server::ClientOptions,
    server::Server,
};
#[cfg(unix)]
pub(crate) use {
    request::Request,
    server::RunCommand,
    socket::{ensure_free_beside, socket_beside},
};
