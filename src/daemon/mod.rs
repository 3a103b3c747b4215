//! The daemon: one process of a user that serves all their editors, so that they work on the same live requests.
//!
//! `place` says where its files are, `environment` which clients may share one, `handshake` what is said before anything is
//! served. `service` is the daemon; `client` finds or starts it and relays messages between an editor and it; `control` asks
//! it how it is and has it end; both talk over a `connection`. A `request_client`
//! follows one live request in a terminal. What is served behind the handshake is the language server, by [`crate::server`].

mod client;
mod connection;
mod control;
mod environment;
mod handshake;
mod log_file;
mod place;
mod request_client;
mod service;

pub(crate) use self::client::{Relayed, relay, relay_stream, start};
pub(crate) use self::control::{FoundDaemon, find_all, stop};
pub(crate) use self::environment::SessionEnvironment;
pub(crate) use self::handshake::{DaemonStatus, RequestStatus};
pub(crate) use self::log_file::LogFile;
pub(crate) use self::place::DaemonPlace;
pub(crate) use self::request_client::{FromRequest, RequestClient};
pub(crate) use self::service::run;
