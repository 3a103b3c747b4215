//! Specification of each tool, as the table of tools holds it.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::reader::elements;
use crate::tool_name::ToolName;

/// Roo's tool groups, by which modes get their tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Looks at the workspace.
    Read,
    /// Changes files.
    Edit,
    /// Runs commands.
    Command,
    /// Steers a browser.
    Browser,
    /// Calls MCP servers.
    Mcp,
    /// In modes that may delegate.
    Delegation,
    /// In every mode.
    Always,
    /// In every mode, where the workspace has intents.
    Intents,
}

/// Effects that a tool can have: the class by which policy judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Looks only. Runs again after a kill.
    Read,
    /// Changes files. Settled after a kill by comparing digests.
    Write,
    /// Runs a process. Never run again by the server.
    Execute,
    /// Has a server outside of this program do something. What that is, nobody can tell; never asked again by itself.
    External,
    /// Binds or widens an intent, by the server's own hand. Runs again after a kill.
    Intent,
    /// Steers the conversation: a transition of the task, never run as a tool.
    Control,
}

/// Conditions for a tool to be of use in a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    Nothing,
    /// A skill of the mode.
    Skills,
    /// A mode to which the mode may delegate.
    DelegationTarget,
    /// A tool of a server, and a model that calls tools by text or has to search for some.
    ServerTools,
    /// Tools of servers for which a request has no room.
    FurtherServerTools,
    ServerResources,
    LanguageServer,
    /// A language server, or an editor that asks its own.
    CodeAnswers,
    /// A workspace folder, and settings that allow an index of its code.
    CodeIndex,
    Browser,
    /// A profile that makes images.
    ImageGeneration,
}

/// What another call of a tool with the same parameters brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repetition {
    /// The same again, unless something else was done in between.
    Same,
    /// Something new: what it looks at changes by itself, or its effect adds up.
    New,
    /// What has come since the call before it. What that one returned can't be had again.
    Rest,
}

/// Types of a parameter's value.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Text, kept as it is but for one newline at each end.
    Verbatim,
    /// The text of a file, kept as it is but for one newline at its start: the one before the closing tag ends the last
    /// line.
    WholeFile,
    /// Text without surrounding white space.
    Text,
    /// A whole number.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// Something with parts of its own: elements in a tag, JSON in a native call.
    Structured(&'static Structured),
}

/// Form in which native calls give a parameter with parts of its own.
#[derive(Debug)]
pub struct Structured {
    /// The parameter's name there, where it differs.
    pub name: Option<&'static str>,
    /// Description that models read in native calls, where it differs.
    pub description: Option<&'static str>,
    /// Its JSON Schema.
    pub schema: fn() -> Value,
}

/// One parameter of a tool.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name, as a tag or a JSON key.
    pub name: &'static str,
    /// Type of its value.
    pub kind: Kind,
    /// True if a call without it is refused.
    pub required: bool,
    /// For the model.
    pub description: &'static str,
}

/// One tool.
#[derive(Debug)]
pub struct ToolSpec {
    pub name: ToolName,
    /// Other names by which Roo and models call it.
    pub aliases: &'static [&'static str],
    /// Its names in the public hook contract, the usual one first.
    pub hook_names: &'static [&'static str],
    /// The group that brings it into a mode.
    pub group: Group,
    /// Effect that it can have.
    pub effect: Effect,
    /// What another call with the same parameters brings.
    pub repetition: Repetition,
    /// Condition for it to be of use; where that isn't met, no model is told of it.
    pub needs: Needs,
    /// True if every mode has it, whatever its groups.
    pub is_in_every_mode: bool,
    /// True if only those models have it whose profile includes it.
    pub is_opt_in: bool,
    /// True if a task may always call it before it has bound an intent: without these it could neither bind one, ask
    /// which one, nor end.
    pub precedes_intent: bool,
    /// For the model: what it does and when to use it.
    pub description: &'static str,
    /// Its parameters. In the XML protocol they are tags.
    pub parameters: &'static [Parameter],
    /// Further parameter tags that old prompts and models use; accepted, never shown.
    pub legacy_parameters: &'static [&'static str],
    /// Those of them whose text is kept as it is.
    pub legacy_verbatim: &'static [&'static str],
    /// A parameter whose text has a format that no schema can tell.
    pub own_format: Option<&'static str>,
    /// A correct call in the XML protocol.
    pub example: &'static str,
    /// A common wrong call and what is wrong with it.
    pub mistake: &'static str,
}

impl ToolSpec {
    /// A tool with the defaults of everything else.
    pub(crate) const fn new(name: ToolName, group: Group, effect: Effect) -> Self {
        Self {
            name,
            aliases: &[],
            hook_names: &[],
            group,
            effect,
            repetition: Repetition::Same,
            needs: Needs::Nothing,
            is_in_every_mode: false,
            is_opt_in: false,
            precedes_intent: false,
            description: "",
            parameters: &[],
            legacy_parameters: &[],
            legacy_verbatim: &[],
            own_format: None,
            example: "",
            mistake: "",
        }
    }

    /// Returns the description that models read beside the native schema. A wrong edit is written twice, so that of a tool
    /// that changes files names its common mistake, and shows a text in a format that the schema can't tell: some hundred
    /// tokens in all. For other tools the schema says enough.
    pub fn native_description(&self) -> Cow<'static, str> {
        if self.effect != Effect::Write {
            return self.description.into();
        }
        let shown = self.own_format.and_then(|name| Some((name, elements(self.example, name).next()?)));
        let right = shown.map(|(name, text)| format!("\n\nRight, as `{name}`:\n{}", text.trim_matches('\n')));
        format!("{}{}\n\nWrong: {}", self.description, right.unwrap_or_default(), self.mistake).into()
    }
}

/// Part of a value between tags that belongs to the tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagSpace {
    /// All white space at both ends.
    Blank,
    /// One newline at each end.
    Newlines,
    /// One newline at the start.
    FirstNewline,
}

/// Returns what belongs to the tags of a parameter of this tool.
pub fn tag_space(tool: ToolName, parameter: &str) -> TagSpace {
    let spec = tool.spec();
    match spec.parameters.iter().find(|known| known.name == parameter).map(|known| known.kind) {
        Some(Kind::WholeFile) => TagSpace::FirstNewline,
        Some(Kind::Verbatim) => TagSpace::Newlines,
        None if spec.legacy_verbatim.contains(&parameter) => TagSpace::Newlines,
        _ => TagSpace::Blank,
    }
}

/// Returns whether a parameter of this tool keeps its white space when it comes from a tag.
pub fn is_verbatim(tool: ToolName, parameter: &str) -> bool {
    tag_space(tool, parameter) != TagSpace::Blank
}

pub(crate) const fn required(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: true, description }
}

pub(crate) const fn optional(name: &'static str, kind: Kind, description: &'static str) -> Parameter {
    Parameter { name, kind, required: false, description }
}

/// The JSON Schema of a tool's parameters for native tool calling.
pub fn native_schema(spec: &ToolSpec) -> Value {
    let mut properties = serde_json::Map::new();
    let mut names = Vec::new();
    for parameter in spec.parameters {
        let Parameter { mut name, mut description, .. } = *parameter;
        let mut schema = match parameter.kind {
            Kind::Verbatim | Kind::WholeFile | Kind::Text => json!({ "type": "string" }),
            Kind::Integer => json!({ "type": "integer" }),
            Kind::Boolean => json!({ "type": "boolean" }),
            Kind::Structured(structured) => {
                name = structured.name.unwrap_or(name);
                description = structured.description.unwrap_or(description);
                (structured.schema)()
            }
        };
        schema["description"] = description.into();
        properties.insert(name.to_owned(), schema);
        if parameter.required {
            names.push(name);
        }
    }
    json!({ "type": "object", "properties": properties, "required": names, "additionalProperties": false })
}
