//! Models: what they are told, how they are reached, and how what they say is read.
//!
//! A request to a model passes through the three modules in this order:
//!
//! - [`prompts`] composes its texts: [`prompts::system()`] the system prompt, [`prompts::environment()`] what changes
//!   from turn to turn, [`prompts::replies`] the fixed answers to a model's calls. Everything there is a pure function
//!   of its input, and the system prompt is the same for all requests of a task, so that providers can cache it.
//! - [`providers`] sends it. [`providers::connect()`] makes a [`providers::Model`] of a profile; the model turns a
//!   [`providers::ModelRequest`] into the bytes of a wire format, and the answer's bytes into [`parser::StreamEvent`]s.
//!   There is a file for each wire format, and [`providers::Scripted`] is a model that needs neither network nor key,
//!   for tests and the demo. [`providers::KeyStore`] keeps API keys.
//! - [`parser`] reads the answer: a [`parser::StreamParser`] takes the events one by one and closes [`parser::Block`]s
//!   of text, thinking and tool calls, whether a model calls tools natively or in XML-like tags. It never fails: a call
//!   that can't be read is a block with a problem.
//!
//! What is not here: which providers and models there are (a table in `roo_formats::config`), which tools
//! ([`roo_catalog`]), when a request is made again and when a conversation is shortened (`roo_engine::engine`). Nothing
//! here knows tasks, files of the workspace, or the user.

#![warn(unreachable_pub)]

pub mod parser;
pub mod prompts;
pub mod providers;
