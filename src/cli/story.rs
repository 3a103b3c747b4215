//! A task as a story for people: one line for what happens, running text as it comes.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::protocol::event::{Event, EventParams, ToolStatus, Verdict};
use crate::protocol::message::{MessageKind, Say};
use crate::protocol::task::TaskState;
use crate::text::render;

/// Tells events to a terminal or a pipe.
pub(super) struct Story {
    colour: bool,
    /// How much of each running message was told.
    told: HashMap<String, u64>,
    /// Whether the last text ended without a newline.
    open: bool,
}

impl Story {
    /// A story, in colour or plain.
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, told: HashMap::new(), open: false }
    }

    /// What to print for an event.
    pub(super) fn tell(&mut self, params: &EventParams) -> String {
        let mut text = String::new();
        match &params.event {
            Event::TaskCreated { mode, title, urid, .. } => {
                self.line(&mut text, "1", &format!("● {title}"), &format!("{mode}, {urid}"));
            }
            Event::MessageDelta { id, say: Say::Text | Say::Reasoning, offset, text: delta } => {
                let told = self.told.entry(id.to_string()).or_insert(0);
                if *offset >= *told {
                    *told = offset + delta.len() as u64;
                    text.push_str(&render::visible(delta));
                    self.open = !delta.ends_with('\n');
                }
            }
            Event::Message { message } => match message.kind {
                MessageKind::Say(Say::Text | Say::Reasoning) => {
                    if self.told.remove(message.id.as_str()).is_some() {
                        self.close(&mut text);
                    } else if message.id.as_str() != "m1" {
                        self.close(&mut text);
                        let _ = writeln!(text, "{}", render::visible(&message.text));
                    }
                }
                MessageKind::Say(Say::UserFeedback) => {
                    self.line(&mut text, "36", "you", &message.text);
                }
                MessageKind::Say(Say::Error) => self.line(&mut text, "31", "✗", &message.text),
                _ => {}
            },
            Event::ToolOutput { text: output, .. } => {
                self.close(&mut text);
                text.push_str(&self.paint("2", &indent(&render::visible(output))));
                self.open = !output.ends_with('\n');
            }
            Event::ToolStarted { name, subject, .. } => {
                self.line(&mut text, "34", &format!("→ {name}"), subject);
            }
            Event::ToolFinished { status, summary, .. } => {
                let (colour, mark) = match status {
                    ToolStatus::Ok => ("32", "✓"),
                    ToolStatus::Skipped => ("2", "–"),
                    ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Interrupted => ("31", "✗"),
                };
                self.line(&mut text, colour, mark, summary);
            }
            Event::GateDecided { verdict: Verdict::Deny, rule, .. } => {
                self.line(&mut text, "31", "refused", &format!("by {rule}"));
            }
            Event::ApprovalRequested { approval } => {
                self.line(&mut text, "33", &format!("? {}", approval.title), &approval.reason);
                text.push_str(&indent(&approval.subject));
                text.push('\n');
            }
            Event::ApprovalResolved { by, option_id, .. } => {
                let answer = option_id.as_deref().unwrap_or("void");
                self.line(&mut text, "33", &format!("  {answer}"), &format!("by {by}"));
            }
            Event::QuestionAsked { question } => {
                self.line(&mut text, "33", "?", &question.text);
                for (number, suggestion) in (1..).zip(&question.suggestions) {
                    let _ = writeln!(text, "    {number}. {}", render::visible(&suggestion.text));
                }
            }
            Event::TodoChanged { items } => {
                self.close(&mut text);
                for item in items {
                    let _ = writeln!(text, "    {} {}", item.status.mark(), render::visible(&item.content));
                }
            }
            Event::RetryScheduled { attempt, reason, .. } => {
                self.line(&mut text, "33", &format!("attempt {attempt} follows"), reason);
            }
            Event::TaskState { state, reason, .. } => {
                let reason = reason.as_deref().unwrap_or_default();
                let colour = match state {
                    TaskState::Completed => Some("32"),
                    TaskState::Failed => Some("31"),
                    TaskState::Cancelled | TaskState::Interrupted => Some("33"),
                    TaskState::Running | TaskState::Waiting | TaskState::Paused => None,
                };
                match colour {
                    Some(colour) => self.line(&mut text, colour, &format!("● {}", state.as_str()), reason),
                    None if !reason.is_empty() => self.line(&mut text, "2", "·", reason),
                    None => {}
                }
            }
            Event::ServerDegraded { reason } => self.line(&mut text, "31", "!", reason),
            _ => {}
        }
        text
    }

    /// Ends a line of running text.
    fn close(&mut self, text: &mut String) {
        if std::mem::take(&mut self.open) {
            text.push('\n');
        }
    }

    fn line(&mut self, text: &mut String, colour: &str, head: &str, rest: &str) {
        self.close(text);
        let head = render::visible(head).into_owned();
        text.push_str(&self.paint(colour, &head));
        let mut lines = rest.lines();
        if let Some(first) = lines.next().filter(|line| !line.is_empty()) {
            let _ = write!(text, " {}", render::visible(first));
        }
        text.push('\n');
        for line in lines {
            let _ = writeln!(text, "    {}", render::visible(line));
        }
    }

    fn paint(&self, colour: &str, text: &str) -> String {
        if self.colour { format!("\u{1b}[{colour}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

fn indent(text: &str) -> String {
    let mut indented: String = text.split_inclusive('\n').map(|line| format!("    {line}")).collect();
    if !text.ends_with('\n') {
        indented.push('\n');
    }
    indented
}
