//! roo-lsp: one engine, every editor.
//!
//! A language server that runs coding agents as *tasks*. The words used throughout: a **request** is
//! what a user asked and everything done for it; a **task** is one mode at work with its own context;
//! a **turn** is one model call and the tools it leads to; the **gate** gives every tool call its
//! verdict; a **permit** is the gate's one-use key to run one exact action; an **event** is a numbered
//! fact in a request's log; a **feed** is one client's cursor over logs.
//!
//! The modules stand on floors, and a module imports only from lower ones; `ARCHITECTURE.md` has the
//! map and a test holds it.

#[cfg(not(unix))]
compile_error!(
    "roo-lsp runs on Unix: its commands are sessions of a POSIX shell and its paths are Unix paths"
);

pub mod cli;
pub mod server;
