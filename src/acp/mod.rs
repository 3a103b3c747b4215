//! The Agent Client Protocol: the one module that knows its crate.
//!
//! A translation between one client and the engine, as [`crate::server`] is for the language server protocol. What comes in
//! is read by `lines` and handed on by `server`; each session has an actor (`session`), which tells what happens in its
//! request and answers for its user; `workspace` has the engines, one for the folders of a session, and `editor` the files of a
//! client that reads and writes them. Commands run in our own
//! sandbox and not in terminals of the client. No request waits for this module, and nothing here decides what it may do.

mod client;
mod editor;
mod error;
mod lines;
mod server;
mod session;
mod workspace;

pub(crate) use self::server::serve_stdio;
