//! Identity of a tool: one of the server's own, or one that a server of the user's brings while the program runs.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::spec::Effect;
use crate::tool_name::ToolName;
use roo_protocol::ids::Digest;

/// A tool. Written as `read_file`, or as `server/tool`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum ToolId {
    /// One of the server's own.
    BuiltIn(ToolName),
    /// One of a server.
    Server(ServerToolName),
}

/// A tool of a server. Neither part is empty, and the server's name has no `/`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerToolName {
    server: String,
    tool: String,
}

/// A text that names no tool.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' names no tool: write the name of a built-in tool, or `server/tool`")]
pub struct InvalidToolId(String);

/// Prefix of the names of servers' tools, as models and hooks see them.
const PREFIX: &str = "mcp__";

/// The longest name of a function that all providers take, in bytes.
const MAX_FUNCTION_NAME_BYTES: usize = 64;

/// Length of the digest that distinguishes names which would be the same once shortened, in characters.
const TELLS_APART: usize = 8;

impl ToolId {
    /// The tool that a call names: by its name, by one that Roo used for it, or by that of a server's tool in either
    /// form. Whether a server has such a tool is not known here.
    pub fn of_call(name: &str) -> Option<Self> {
        if let Some(tool) = ToolName::parse(name) {
            return Some(Self::BuiltIn(tool));
        }
        let (server, tool) = match name.strip_prefix(PREFIX) {
            Some(rest) => rest.split_once("__")?,
            None => name.split_once('/')?,
        };
        ServerToolName::new(server, tool).ok().map(Self::Server)
    }

    /// The built-in tool.
    pub fn built_in(&self) -> Option<ToolName> {
        match self {
            Self::BuiltIn(tool) => Some(*tool),
            Self::Server(_) => None,
        }
    }

    /// Returns the effect that it can have.
    pub fn effect(&self) -> Effect {
        match self {
            Self::BuiltIn(tool) => tool.spec().effect,
            Self::Server(_) => Effect::External,
        }
    }
}

impl From<ToolName> for ToolId {
    fn from(tool: ToolName) -> Self {
        Self::BuiltIn(tool)
    }
}

impl fmt::Display for ToolId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn(tool) => tool.fmt(f),
            Self::Server(tool) => tool.fmt(f),
        }
    }
}

impl From<ToolId> for String {
    fn from(id: ToolId) -> Self {
        id.to_string()
    }
}

impl FromStr for ToolId {
    type Err = InvalidToolId;

    fn from_str(text: &str) -> Result<Self, InvalidToolId> {
        Self::of_call(text).ok_or_else(|| InvalidToolId(text.to_owned()))
    }
}

impl TryFrom<String> for ToolId {
    type Error = InvalidToolId;

    fn try_from(text: String) -> Result<Self, InvalidToolId> {
        text.parse()
    }
}

impl ServerToolName {
    /// The tool of a server.
    ///
    /// # Errors
    /// When a part is empty, or the server's name has a `/`.
    pub fn new(server: &str, tool: &str) -> Result<Self, InvalidToolId> {
        if server.is_empty() || tool.is_empty() || server.contains('/') {
            return Err(InvalidToolId(format!("{server}/{tool}")));
        }
        Ok(Self { server: server.to_owned(), tool: tool.to_owned() })
    }

    /// The server, as its configuration names it.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// The tool, as its server names it.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// The name by which hooks know it.
    pub fn hook_name(&self) -> String {
        format!("{PREFIX}{}__{}", self.server, self.tool)
    }

    /// The name by which models call it: that of hooks where every provider takes it. Otherwise, and where it could be
    /// read as that of another tool, it ends with a part of a digest, so that two tools never have one name.
    pub fn call_name(&self) -> String {
        let name = self.hook_name();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        let reads_back = Self::reads_as(&name).is_some_and(|read| read == *self);
        if name.len() <= MAX_FUNCTION_NAME_BYTES && name.chars().all(is_plain) && reads_back {
            return name;
        }
        let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        let digest = Digest::of(self.to_string()).to_string();
        let ending: String = digest.chars().filter(char::is_ascii_hexdigit).rev().take(TELLS_APART).collect();
        let kept: String = plain.chars().take(MAX_FUNCTION_NAME_BYTES - TELLS_APART - 1).collect();
        format!("{kept}_{ending}")
    }

    fn reads_as(name: &str) -> Option<Self> {
        match ToolId::of_call(name) {
            Some(ToolId::Server(tool)) => Some(tool),
            _ => None,
        }
    }
}

impl fmt::Display for ServerToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.server, self.tool)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_server(server: &str, tool: &str) -> ServerToolName {
        ServerToolName::new(server, tool).unwrap()
    }

    #[test]
    fn an_id_is_a_plain_text_and_reads_back() {
        for id in [ToolId::from(ToolName::ReadFile), ToolId::Server(of_server("files", "read/all"))] {
            let text = serde_json::to_string(&id).unwrap();
            assert_eq!(serde_json::from_str::<ToolId>(&text).unwrap(), id, "{text}");
        }
        assert_eq!(serde_json::to_string(&ToolId::from(ToolName::ReadFile)).unwrap(), "\"read_file\"");
        for wrong in ["\"rm_rf\"", "\"/x\"", "\"x/\"", "1"] {
            assert!(serde_json::from_str::<ToolId>(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn calls_name_a_servers_tool_in_either_form() {
        let expected = ToolId::Server(of_server("memory", "add_entity"));
        assert_eq!(expected.effect(), Effect::External);
        assert_eq!(ToolId::of_call("memory/add_entity").as_ref(), Some(&expected));
        assert_eq!(ToolId::of_call("mcp__memory__add_entity"), Some(expected));
        for unknown in ["memory", "mcp__memory", "mcp____x", ""] {
            assert_eq!(ToolId::of_call(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_name_for_models_is_one_that_every_provider_takes_and_nobody_elses() {
        assert_eq!(of_server("memory", "add").call_name(), "mcp__memory__add");
        let long = "a".repeat(100);
        let odd = [
            of_server("my server", "add"),
            of_server("my_server", "add"),
            of_server("my.server", "add"),
            of_server("a", "b__c"),
            of_server("a__b", "c"),
            of_server("a", &long),
            of_server("a", &format!("{long}b")),
            of_server("ü", "ß"),
        ];
        let mut names: Vec<String> = odd.iter().map(ServerToolName::call_name).collect();
        for name in &names {
            assert!(
                name.len() <= MAX_FUNCTION_NAME_BYTES && name.is_ascii() && !name.contains([' ', '.', '/']),
                "{name}"
            );
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), odd.len());
    }
}
