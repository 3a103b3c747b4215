//! Files that users write, and files of other programs that are imported: their formats, defaults and edits, and what
//! is wrong in them.
//!
//! - [`config`] has the settings: [`config::load`] puts their layers together, [`config::edit`] changes `config.yaml`
//!   and leaves the rest of it as it is.
//! - [`modes`] has what a [`modes::Mode`] is, the built-in ones and the format of mode files.
//! - [`intents`], [`hooks`], [`mcp`] and [`front_matter`] are one format each: the file of intents, hooks files,
//!   `mcp.json`, and the first lines of slash commands and skills.
//! - [`roo_code`] reads the settings and tasks of Roo Code and Cline, [`claude_code`] the sessions of Claude Code.
//! - A [`declaration::Declaration`] lists the keys of a format once. Readers, completion, hover and the JSON Schemas in
//!   `schemas/` follow from it. A reader gets typed values with their places ([`Placed`]) and reports each mistake as a
//!   [`Problem`].
//!
//! What is not here: which files there are, whether they count and whether they are trusted
//! (`roo_engine::customization`, `roo_engine::intent_store`, the root crate), and what the values lead to. Apart from
//! the settings, this crate gets texts and reads no files.

#![warn(missing_docs, unreachable_pub)]

pub mod claude_code;
pub mod config;
pub mod declaration;
pub mod front_matter;
pub mod hooks;
pub mod intents;
pub mod mcp;
pub mod modes;
mod placed;
mod problem;
mod problem_list;
pub mod roo_code;
mod text_range;
mod yaml_edit;

pub use placed::Placed;
pub use problem::{FileProblem, Problem, Severity};
pub use problem_list::ProblemList;
pub use text_range::{Position, TextRange};
