//! From what a model sent to what it asks for.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::declaration::Shown;
use crate::reader::{InvalidCall, Reader};
use crate::spec::{Effect, Repetition};
use crate::tool_id::{ServerToolName, ToolId};
use crate::tool_name::ToolName;
use crate::tools::{Invocation, UseMcpTool};
use roo_protocol::ids::ToolCallId;

/// A tool call as a model made it, from XML-like text or native tool calling alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// Unique within the request.
    pub id: ToolCallId,
    /// The name as sent; may be unknown.
    pub name: String,
    /// The parameters as sent. From XML-like text every value is a string.
    pub params: Map<String, Value>,
    /// Problem that the stream parser found in the call; such a call is answered, never run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Changes that the server made in the call before anything was made of it. The model reads it with the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

impl ToolCall {
    /// The tool that it names; none where no tool could have this name.
    pub fn tool(&self) -> Option<ToolId> {
        ToolId::of_call(&self.name)
    }

    /// Returns the object of the call, for people; empty for a call that can't be read.
    pub fn subject(&self) -> String {
        match (parse(self), self.tool()) {
            (Ok(invocation), _) => invocation.subject(),
            (Err(_), Some(ToolId::Server(tool))) => tool.to_string(),
            (Err(_), _) => String::new(),
        }
    }

    /// Returns the kind as which clients show it.
    pub fn shown(&self) -> Shown {
        match (parse(self), self.tool()) {
            (Ok(invocation), _) => invocation.shown(),
            (Err(_), Some(ToolId::Server(tool))) if self.problem.is_none() => {
                Shown::of_server_tool(&tool, &self.params)
            }
            (Err(problem), _) => Shown::Tool(json!({ "tool": self.name, "error": problem.to_string() })),
        }
    }

    /// Returns whether it names this tool.
    pub fn is_of(&self, tool: ToolName) -> bool {
        ToolName::parse(&self.name) == Some(tool)
    }

    /// Returns the tool's effect class; a tool that nobody knows is taken for the worst.
    pub fn effect(&self) -> Effect {
        self.tool().map_or(Effect::Execute, |tool| tool.effect())
    }

    /// Returns what the same call brings when it is made again. Of tools of servers nothing is known.
    pub fn repetition(&self) -> Repetition {
        ToolName::parse(&self.name).map_or(Repetition::Same, |tool| tool.spec().repetition)
    }

    /// The text of its result, behind the note if there is one.
    pub fn with_note(&self, text: String) -> String {
        match &self.note {
            Some(note) => format!("{note}\n{text}"),
            None => text,
        }
    }
}

/// Reads a call.
///
/// # Errors
/// [`InvalidCall`], worded for the model.
pub fn parse(call: &ToolCall) -> Result<Invocation, InvalidCall> {
    let tool = ToolName::parse(&call.name).ok_or_else(|| InvalidCall::UnknownTool(call.name.clone()))?;
    check_readable(call)?;
    tool.read(&Reader { tool, params: &call.params })
}

/// Reads a call that names a tool of a server itself: the same as one of `use_mcp_tool`.
///
/// # Errors
/// [`InvalidCall::Unreadable`].
pub fn parse_server_call(call: &ToolCall, tool: ServerToolName) -> Result<Invocation, InvalidCall> {
    check_readable(call)?;
    Ok(UseMcpTool { tool, arguments: call.params.clone() }.into())
}

fn check_readable(call: &ToolCall) -> Result<(), InvalidCall> {
    match &call.problem {
        None => Ok(()),
        Some(problem) => Err(InvalidCall::Unreadable { name: call.name.clone(), problem: problem.clone() }),
    }
}

#[cfg(test)]
mod tests;
