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

// Floor 0: words.
pub mod catalog;
pub mod protocol;
pub mod text;
// Floor 1: pure knowledge.
pub mod config;
pub mod intents;
pub mod modes;
pub mod parser;
pub mod prompts;
pub mod shell;
// Floor 2: the world.
pub mod approvals;
pub mod changes;
pub mod customization;
pub mod egress;
pub mod exec;
pub mod hooks;
pub mod mentions;
pub mod orchestration;
pub mod providers;
pub mod store;
pub mod surroundings;
pub mod trace;
pub mod user_hooks;
pub mod workspace;
// Floor 3: the engine.
pub mod engine;
pub mod tools;
// Floor 4: doors.
pub mod cli;
pub mod server;

#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
