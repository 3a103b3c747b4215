//! Declarations of the tools.

use std::fmt::Debug;

use serde_json::{Value, json};

use crate::hook_view::{HookInput, HookView, Object, Rewrite, RewriteError};
use crate::reader::{InvalidCall, Reader};
use crate::spec::ToolSpec;
use crate::tool_id::ServerToolName;

/// The parameters of a tool, and what can be said of a call without any disk. See `tools/` for all of them.
pub(crate) trait Declaration: Clone + Debug + Eq {
    /// Its entry in the table.
    const SPEC: ToolSpec;

    /// Reads a call, in the legacy shapes too.
    fn parse(reader: &Reader<'_>) -> Result<Self, InvalidCall>;

    /// See [`crate::Invocation::subject`].
    fn subject(&self) -> String;

    /// See [`crate::Invocation::shown`].
    fn shown(&self) -> Shown;

    /// See [`crate::Invocation::edited_files`].
    fn edited_files(&self) -> Vec<&str> {
        vec![]
    }

    /// See [`crate::Invocation::hook_inputs`]. A tool that the hook contract doesn't know shows its parameters as they
    /// are.
    fn hook_inputs(&self, view: &HookView<'_>) -> Vec<HookInput> {
        vec![view.params.clone().into()]
    }

    /// See [`crate::Invocation::rewrite`]. For a tool with one input, it is enough to say how that input is converted to the parameter.
    fn rewrite(
        &self,
        changes: &[Option<Rewrite<'_>>],
        params: &Object,
    ) -> Result<Option<Object>, RewriteError> {
        let Some(Some(change)) = changes.first() else { return Ok(None) };
        if change.is_none() {
            return Ok(None);
        }
        let mut rewritten = params.clone();
        self.take_back(change, &mut rewritten)?;
        Ok((rewritten != *params).then_some(rewritten))
    }

    /// Brings a changed input back to the tool's parameters.
    fn take_back(&self, change: &Rewrite<'_>, params: &mut Object) -> Result<(), RewriteError> {
        *params = change.after.clone();
        params.remove("roo");
        Ok(())
    }

    /// See [`crate::Invocation::hook_response`].
    fn hook_response(&self, _view: &HookView<'_>, text: &str, _ok: bool) -> Value {
        json!({ "content": text })
    }
}

/// Kinds of calls that clients show, in Roo's words.
#[derive(Clone, Debug, PartialEq)]
pub enum Shown {
    /// A command line.
    Command(String),
    /// Roo's description of a tool call: an object with `tool`.
    Tool(Value),
    /// Roo's description of what a server is asked for: an object with `type`, `serverName`, and `toolName` with `arguments`, or
    /// `uri`.
    Server(Value),
}

impl Shown {
    pub(crate) fn of_server_tool(tool: &ServerToolName, arguments: &Object) -> Self {
        Self::Server(json!({
            "type": "use_mcp_tool",
            "serverName": tool.server(),
            "toolName": tool.tool(),
            "arguments": Value::from(arguments.clone()).to_string(),
        }))
    }
}
