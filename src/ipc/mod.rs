//! Roo Code's IPC: a Unix socket at which programs that drove Roo Code start, steer and follow tasks.
//!
//! A translation between such programs and the engine. What they send is read by `frames` and `command`; `requests` carries it
//! out and follows what comes of it, in the vocabulary of [`crate::roo_api`], and `clients` hands that to all who are connected.
//! They are programs of the same user (`socket`), and no user: what needs an approval is decided by settings and command line, or
//! waits for the user elsewhere. No request waits for a client.
//!
//! It has two hosts: `roo-lsp ipc`, with an engine for this alone, and the language server, with the engine of its editors.

mod client_configuration;
mod clients;
mod command;
mod frames;
mod lists;
mod requests;
mod server;
mod socket;
mod socket_path;

pub(crate) use self::requests::{Setup, WhenAsked};
pub(crate) use self::server::serve;
pub(crate) use self::socket::{IpcSocket, SocketError};
pub(crate) use self::socket_path::{VARIABLE, reachable, socket_path};
