//! Messages and calls of a task as a snapshot for its user has them, from the events of its log. What clients get event by
//! event is in `event.rs`.

use std::collections::HashMap;

use super::event::{self, Event};
use super::task::Task;
use crate::tools::codebase_search_result;
use roo_catalog::{Effect, ToolId, ToolName};
use roo_protocol::event::Event as WireEvent;
use roo_protocol::ids::{MessageId, ToolCallId};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{CallOutcome, HistoryItem, TaskSnapshot};

/// Messages and calls of a task for its user, from its events so far.
#[derive(Default)]
pub(super) struct Transcript {
    messages: Vec<Message>,
    /// The places of the messages.
    places: HashMap<MessageId, usize>,
    /// The messages that show the calls.
    called: HashMap<ToolCallId, MessageId>,
    calls: Vec<CallOutcome>,
}

impl Transcript {
    pub(super) fn add(&mut self, event: &Event) {
        match event {
            Event::Called { message, call } => {
                self.called.insert(call.id.clone(), message.id.clone());
            }
            Event::ToolFinished { result, summary, exit_code, .. } => {
                self.calls.extend(self.called.get(&result.call_id).map(|message| CallOutcome {
                    message_id: message.clone(),
                    name: result.name.clone(),
                    subject: result.subject.clone(),
                    status: result.status,
                    summary: summary.clone(),
                    exit_code: *exit_code,
                }));
            }
            _ => {}
        }
        if let Some(message) = message_of(event) {
            match self.places.get(&message.id) {
                Some(&place) => self.messages[place] = message,
                None => {
                    self.places.insert(message.id.clone(), self.messages.len());
                    self.messages.push(message);
                }
            }
        }
    }

    pub(super) fn snapshot(self, task: &Task, item: HistoryItem) -> TaskSnapshot {
        TaskSnapshot {
            item,
            root_id: task.id.root(),
            result: task.result().map(str::to_owned),
            reason: task.reason().map(str::to_owned),
            messages: self.messages,
            calls: self.calls,
            todo: task.todo.clone(),
            queue: task.queue.clone(),
            approval: task.approval().cloned(),
            question: task.question().cloned(),
            tool_usage: task.totals.tools.clone(),
            context: task.context.meter(task.conversation.size()),
            shortenings: task.context.shortenings().to_vec(),
        }
    }
}

/// Returns the message that an event adds to a task. The output of a command is shown live, and here; so are calls of servers.
fn message_of(event: &Event) -> Option<Message> {
    match event {
        Event::ToolFinished { result, .. } if runs_command(&result.name) => Some(Message {
            id: MessageId::new(result.call_id.as_str()),
            kind: MessageKind::Say(Say::CommandOutput),
            text: result.text.clone(),
            images: vec![],
        }),
        Event::ToolStarted { call_id, name, subject, .. } if asks_server(name) => {
            Some(event::server_request_message(call_id, name, subject))
        }
        Event::ToolFinished { result, .. } if asks_server(&result.name) => {
            Some(event::server_response_message(result))
        }
        Event::ToolFinished { result, .. } if finds_code(&result.name) => Some(Message {
            id: MessageId::new(result.call_id.as_str()),
            kind: MessageKind::Say(Say::CodebaseSearchResult),
            text: codebase_search_result(&result.text)?.to_string(),
            images: vec![],
        }),
        event => match event.to_wire() {
            WireEvent::Message { message } => Some(message),
            _ => None,
        },
    }
}

fn runs_command(tool: &str) -> bool {
    ToolId::of_call(tool).is_some_and(|tool| tool.effect() == Effect::Execute)
}

fn asks_server(tool: &str) -> bool {
    // A browser's effects are as unknown, and it is no server.
    matches!(
        ToolId::of_call(tool),
        Some(ToolId::Server(_) | ToolId::BuiltIn(ToolName::UseMcpTool | ToolName::AccessMcpResource))
    )
}

fn finds_code(tool: &str) -> bool {
    ToolName::parse(tool) == Some(ToolName::CodebaseSearch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_servers_are_about_servers() {
        for (tool, is_of_server) in [
            ("use_mcp_tool", true),
            ("access_mcp_resource", true),
            ("mcp__notes__add", true),
            ("notes/add", true),
            ("search_mcp_tools", false),
            ("browser_action", false),
            ("execute_command", false),
            ("no_tool", false),
        ] {
            assert_eq!(asks_server(tool), is_of_server, "{tool}");
        }
    }
}
