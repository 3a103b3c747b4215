//! One tool call, as Roo Code shows it.

use roo_protocol::message::{Ask as LoggedAsk, Message, MessageKind as LoggedKind, Say as LoggedSay};
use serde_json::Value;

use super::message::MessageKind;
use super::names::{Ask, Say};
use super::payload;
use roo_protocol::ids::MessageId;

/// What a call is about.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum CallSubject {
    /// A command line.
    Command(String),
    /// A server is asked; `ClineAskUseMcpServer`.
    Server(Value),
    /// A step in the browser.
    Browser(Value),
    /// Any other tool; `ClineSayTool`.
    Tool(Value),
    /// What Roo Code shows by other messages: a question of the model, the end of a request.
    Unshown(Value),
}

impl CallSubject {
    /// Reads our message for a call; none for another message. `is_root`: whether the task is no branch.
    pub(super) fn parse(message: &Message, is_root: bool) -> Option<Self> {
        let payload = || serde_json::from_str::<Value>(&message.text).unwrap_or_default();
        Some(match message.kind {
            LoggedKind::Ask(LoggedAsk::Command) => Self::Command(message.text.clone()),
            LoggedKind::Ask(LoggedAsk::UseMcpServer) => Self::Server(payload()),
            LoggedKind::Say(LoggedSay::Tool) => {
                let payload = payload();
                match payload["tool"].as_str() {
                    Some("browserAction") => Self::Browser(payload),
                    Some("askFollowupQuestion") => Self::Unshown(payload),
                    Some("finishTask") if is_root => Self::Unshown(payload),
                    _ => Self::Tool(payload),
                }
            }
            _ => return None,
        })
    }

    /// The message that shows it: its kind and its text.
    fn shown(&self) -> Option<(MessageKind, String)> {
        Some(match self {
            Self::Command(line) => (Ask::Command.into(), line.clone()),
            Self::Server(asked) => (Ask::UseMcpServer.into(), asked.to_string()),
            Self::Browser(step) if step["action"] == "launch" => {
                let url = step["url"].as_str().unwrap_or_default();
                (Ask::BrowserActionLaunch.into(), url.to_owned())
            }
            Self::Browser(step) => (Say::BrowserAction.into(), payload::browser_action(step)),
            Self::Tool(tool) => (Ask::Tool.into(), tool.to_string()),
            Self::Unshown(_) => return None,
        })
    }
}

/// A call without a result.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) message: MessageId,
    pub(super) subject: CallSubject,
    /// The tool's name, once it runs.
    pub(super) name: Option<String>,
    /// True if its command runs on in the background.
    pub(super) is_background: bool,
    /// True once the user has said whether it may run.
    pub(super) is_answered: bool,
}

impl Call {
    pub(super) fn new(message: MessageId, subject: CallSubject) -> Self {
        Self { message, subject, name: None, is_background: false, is_answered: false }
    }

    /// The message that shows it: its kind and its text.
    pub(super) fn shown(&self) -> Option<(MessageKind, String)> {
        self.subject.shown()
    }

    /// Returns whether it is a call of this tool, by Roo Code's name in `ClineSayTool`.
    pub(super) fn is_tool(&self, tool: &str) -> bool {
        matches!(&self.subject, CallSubject::Tool(payload) if payload["tool"] == tool)
    }

    /// The description of the tool; none for commands, servers and the browser.
    pub(super) fn tool_mut(&mut self) -> Option<&mut Value> {
        match &mut self.subject {
            CallSubject::Tool(payload) if payload.is_object() => Some(payload),
            _ => None,
        }
    }

    /// The path that it is about.
    pub(super) fn path(&self) -> Option<&str> {
        match &self.subject {
            CallSubject::Tool(payload) => payload["path"].as_str(),
            _ => None,
        }
    }

    /// The tool's name as models write it. One that did not run has only Roo Code's name in the log.
    pub(super) fn tool_name(&self) -> String {
        if let Some(name) = &self.name {
            return name.clone();
        }
        let shown = match &self.subject {
            CallSubject::Command(_) => return "execute_command".to_owned(),
            CallSubject::Server(asked) if asked["type"] == "access_mcp_resource" => {
                return "access_mcp_resource".to_owned();
            }
            CallSubject::Server(_) => return "use_mcp_tool".to_owned(),
            CallSubject::Browser(payload) | CallSubject::Tool(payload) | CallSubject::Unshown(payload) => {
                payload["tool"].as_str().unwrap_or_default()
            }
        };
        match shown {
            "editedExistingFile" | "newFileCreated" => "write_to_file".to_owned(),
            "appliedDiff" => "apply_diff".to_owned(),
            "listFilesTopLevel" | "listFilesRecursive" => "list_files".to_owned(),
            "finishTask" => "attempt_completion".to_owned(),
            other => snake_case(other),
        }
    }
}

fn snake_case(name: &str) -> String {
    let mut snake = String::with_capacity(name.len() + 4);
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}
