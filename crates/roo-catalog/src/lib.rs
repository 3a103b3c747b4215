//! The tools: one specification and one parameter type each, and the one table of who may use them.
//!
//! A [`ToolSpec`] feeds the XML section of the prompt, the native JSON schema, validation and the
//! documentation. [`parse`] turns what a model sent into an [`Invocation`], accepting the legacy
//! shapes that Roo's users and models still write. What a tool *does* is in `roo_engine::tools`.

mod call;
mod parameters;
mod protocol;
mod spec;

pub use call::{InvalidCall, Invocation, ToolCall, parse};
pub use parameters::*;
pub use protocol::ToolProtocol;
pub use spec::{Effect, Group, Kind, Parameter, TOOLS, ToolName, ToolSpec, native_schema};

pub use call::is_verbatim;
