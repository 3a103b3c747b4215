//! The tools: one file each in `tools/`, and the one table of who may use them.
//!
//! A [`ToolSpec`] feeds the XML section of the prompt, the native JSON schema, validation and the
//! documentation. [`parse`] turns what a model sent into an [`Invocation`], accepting the legacy
//! shapes that Roo's users and models still write. What a tool *does* is in `roo_engine::tools`.

#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![warn(unreachable_pub)]

mod call;
mod checklist;
mod declaration;
mod hook_view;
mod portable_schema;
mod protocol;
mod reader;
mod server_resource;
mod server_tool;
mod spec;
mod tool_id;
mod tool_name;
mod tools;

pub use call::{ToolCall, parse, parse_server_call};
pub use declaration::Shown;
pub use hook_view::{HookInput, HookView, Object, RealPath, Rewrite, RewriteError};
pub use protocol::ToolProtocol;
pub use reader::InvalidCall;
pub use server_resource::{ListedResource, ServerResources};
pub use server_tool::{Annotations, OfferedTool, ServerTool};
pub use spec::{
    Effect, Group, Kind, Needs, Parameter, Repetition, Structured, TagSpace, ToolSpec, is_verbatim,
    native_schema, tag_space,
};
pub use tool_id::{InvalidToolId, ServerToolName, ToolId};
pub use tool_name::ToolName;
pub use tools::*;
