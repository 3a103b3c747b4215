//! The LSP client: language servers that are started when a question needs them, shared by all tasks of a workspace, and
//! stopped when nobody asks any more.
//!
//! [`LanguageServers::new`] finds the known servers on PATH; [`LanguageServers::ask`] asks the one for a file's language.
//!
//! [`message_frames`] is the framing of messages, which the language server of this program shares.
//!
//! What is not here: whether a server may be started and what it may do then ([`Launcher`], which the caller brings), and
//! what a model gets to see. What servers say is untrusted: each message is bounded, each request has a time limit, and
//! positions are checked by whoever reads the files that they point to.

#![warn(unreachable_pub)]

mod changed_file;
mod code_action;
mod connection;
mod launcher;
mod location;
pub mod message_frames;
mod preset;
mod problem;
mod restarts;
mod servers;
mod session;
mod symbol;
mod workspace_edit;

pub use changed_file::{ChangedFile, DiskChange};
pub use code_action::CodeAction;
pub use launcher::{LaunchedServer, Launcher, ServerProcess};
pub use location::Location;
pub use preset::{InstalledServer, installed};
pub use problem::Problem;
pub use servers::{LanguageServerError, LanguageServers};
pub use session::{Answer, Document, Place, Question, Reply};
pub use symbol::Symbol;
pub use workspace_edit::{RangeEdit, UnfitEdit, WorkspaceEdit, apply_range_edits};
