//! The wire types of `roo/*`: what clients send and what they are shown.
//!
//! Here live plain data types with serde and JSON Schema, and [`method`], the one table of methods.
//! Nothing here does I/O or knows how a task works; the log's own richer events live in
//! `roo_engine::engine::event` and are projected onto [`event::Event`].

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(missing_docs, unreachable_pub)]

pub mod approval;
pub mod changes;
pub mod checkpoint;
pub mod code;
pub mod context;
pub mod customization;
pub mod editor;
pub mod error;
pub mod event;
pub mod ids;
pub mod intent;
pub mod mcp;
pub mod message;
pub mod method;
pub mod model;
pub mod model_price;
pub mod profile;
pub mod prompt;
pub mod question;
pub mod review;
pub mod rule;
pub mod settings;
pub mod task;
pub mod trace;
pub mod tree;

pub use approval::{ApprovalOption, OptionKind};
pub use error::{ErrorData, ErrorKind};
pub use event::{Event, EventParams};
pub use ids::{ApprovalId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
pub use message::{Ask, Message, MessageKind, Say};
pub use question::{QuestionKind, Suggestion};

/// The version of the `roo/*` protocol this server speaks. Additive changes keep the number.
pub const PROTOCOL_VERSION: u32 = 1;
