//! The command line and the language server of roo-lsp: one engine, every editor.
//!
//! The words used throughout, in all crates: a **request** is what a user asked and everything done for it; a **task** is
//! one mode at work with its own context; a **turn** is one model call and the tool calls it leads to; the **policy** is what
//! every tool call is checked by, and its **gate** returns a **decision**; a **permit** is the gate's one-use key to run one
//! exact action; an **approval** is a question to the user about one exact action; an **event** is a numbered fact in a
//! request's log; a **subscription** is one client's cursor over logs.
//!
//! `ARCHITECTURE.md` says which crate does what.

#![warn(unreachable_pub)]

#[cfg(not(unix))]
compile_error!("roo-lsp runs only on Unix: it needs a POSIX shell and Unix paths");

mod accept;
mod acp;
mod bridge;
pub mod cli;
mod code_index;
mod configuration_file;
mod confined_server;
mod daemon;
mod ipc;
mod keyring;
mod language_servers;
mod live_settings;
mod markdown;
mod masking;
mod mcp;
mod model_setup;
mod nats;
mod private_socket;
mod roo_api;
mod roo_follower;
#[cfg(test)]
mod scripted_engine;
pub mod server;
mod shell_word;
mod view;
mod web;
mod worker;
mod workspace_engine;
mod workspace_parts;
