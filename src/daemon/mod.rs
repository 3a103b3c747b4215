//! The daemon: one process of a user that serves all their editors, so that they work on the same live requests.
//!
//! `place` says where its files are, `environment` which clients may share one, `handshake` what is said before anything is
//! served. `service` is the daemon; `client` finds or starts it; `control` asks it how it is and has it end; all talk over a
//! `connection`. The `relay` is an editor's process: it passes messages on, and keeps in `client_state` what another daemon must
//! know when one is killed. A `request_client` follows or starts one request for a terminal, and a `watcher` is told how all of
//! them are; `reconnect` says how each of them gets another daemon. What is served behind the handshake is the language server, by [`crate::server`].

mod client;
mod client_state;
mod connection;
mod control;
mod environment;
mod handshake;
mod log_file;
mod pieces;
mod place;
mod reconnect;
mod relay;
mod request_client;
mod service;
mod watcher;

pub(crate) use self::client::start;
pub(crate) use self::control::{FoundDaemon, find_all, stop};
pub(crate) use self::environment::SessionEnvironment;
pub(crate) use self::handshake::{DaemonStatus, RequestStatus};
pub(crate) use self::log_file::LogFile;
pub(crate) use self::place::DaemonPlace;
pub(crate) use self::reconnect::LostDaemons;
pub(crate) use self::relay::{Relayed, relay, relay_stream};
pub(crate) use self::request_client::{FromRequest, RequestClient, RequestStart};
pub(crate) use self::service::run;
pub(crate) use self::watcher::{Watched, Watcher, find_resumed};
