//! Tools, prompts and resources of a connected server.

use rmcp::model;

use crate::content::ResourceLink;
use crate::tool::{RejectedTool, ToolDescription};

/// The most resources, templates or prompts of one server.
pub(crate) const ENTRIES: usize = 1000;
/// The longest text of a server about itself, in bytes.
const INSTRUCTIONS: usize = 32 << 10;
/// The longest name or description, in characters.
const TEXT: usize = 4096;

/// Tools, prompts and resources of a connected server, as they were when it was last asked.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerCatalog {
    /// Name that the server gives itself.
    pub server_name: String,
    /// The server's own version.
    pub server_version: String,
    pub protocol_version: String,
    /// The server's own description of its use. Untrusted.
    pub instructions: Option<String>,
    /// Its tools, in its order, without those that are switched off.
    pub tools: Vec<ToolDescription>,
    /// Tools that are not offered.
    pub rejected_tools: Vec<RejectedTool>,
    pub resources: Vec<Resource>,
    /// Patterns of further resources.
    pub resource_templates: Vec<ResourceTemplate>,
    pub prompts: Vec<Prompt>,
    /// True if it completes arguments of its prompts and patterns.
    pub completes_arguments: bool,
    /// True if it is to be connected with `initialize` at once: it doesn't answer `server/discover` as older servers should.
    pub prefers_initialize: bool,
}

/// A resource that can be read.
pub type Resource = ResourceLink;

/// A pattern of resources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceTemplate {
    /// An address with placeholders (RFC 6570).
    pub uri_template: String,
    pub name: String,
    pub description: Option<String>,
    /// The type of the resources.
    pub mime_type: Option<String>,
}

/// A prompt of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub name: String,
    /// A name for people.
    pub title: Option<String>,
    /// Purpose.
    pub description: Option<String>,
    pub arguments: Vec<PromptArgument>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromptArgument {
    pub name: String,
    pub description: Option<String>,
    /// True if it must be given.
    pub required: bool,
}

impl ServerCatalog {
    pub(crate) fn new(info: &model::ServerPeerInfo) -> Self {
        let server = info.server_info.as_ref();
        Self {
            server_name: server.map(|server| cut(&server.name)).unwrap_or_default(),
            server_version: server.map(|server| cut(&server.version)).unwrap_or_default(),
            protocol_version: info.protocol_version.to_string(),
            completes_arguments: info.capabilities.completions.is_some(),
            instructions: info.instructions.as_ref().map(|text| text.chars().take(INSTRUCTIONS).collect()),
            ..Self::default()
        }
    }

    /// The tool of this name.
    pub fn tool(&self, name: &str) -> Option<&ToolDescription> {
        self.tools.iter().find(|tool| tool.name == name)
    }
}

fn cut(text: &str) -> String {
    text.chars().take(TEXT).collect()
}

fn cut_some(text: Option<String>) -> Option<String> {
    text.map(|text| cut(&text))
}

impl From<model::Resource> for Resource {
    fn from(resource: model::Resource) -> Self {
        Self {
            uri: cut(&resource.uri),
            name: cut(&resource.name),
            description: cut_some(resource.description),
            mime_type: cut_some(resource.mime_type),
        }
    }
}

impl From<model::ResourceTemplate> for ResourceTemplate {
    fn from(template: model::ResourceTemplate) -> Self {
        Self {
            uri_template: cut(&template.uri_template),
            name: cut(&template.name),
            description: cut_some(template.description),
            mime_type: cut_some(template.mime_type),
        }
    }
}

impl From<model::Prompt> for Prompt {
    fn from(prompt: model::Prompt) -> Self {
        let arguments = prompt.arguments.unwrap_or_default().into_iter().take(ENTRIES);
        Self {
            name: cut(&prompt.name),
            title: cut_some(prompt.title),
            description: cut_some(prompt.description),
            arguments: arguments
                .map(|argument| PromptArgument {
                    name: cut(&argument.name),
                    description: cut_some(argument.description),
                    required: argument.required.unwrap_or(false),
                })
                .collect(),
        }
    }
}
