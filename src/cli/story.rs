//! A task as a story for people: one line for what happens, running text as it comes.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::protocol::event::{ApprovalOption, Event, EventParams, OptionKind, ToolStatus, Verdict};
use crate::protocol::message::{MessageKind, Say};
use crate::protocol::task::TaskState;
use crate::text::render;

/// Tells events to a terminal or a pipe.
pub(super) struct Story {
    colour: bool,
    /// How many bytes of each running message were told.
    told: HashMap<String, usize>,
    /// What runs in the current line: a message, or the output of a call.
    running: Option<String>,
    /// Whether the last text ended without a newline.
    open: bool,
    /// What the newest approval offers.
    options: Vec<ApprovalOption>,
}

impl Story {
    /// A story, in colour or plain.
    pub(super) fn new(colour: bool) -> Self {
        Self { colour, told: HashMap::new(), running: None, open: false, options: vec![] }
    }

    /// What to print for an event.
    pub(super) fn tell(&mut self, params: &EventParams) -> String {
        let mut text = String::new();
        match &params.event {
            Event::TaskCreated { mode, title, urid, .. } => {
                self.reasoned(&mut text, "1", &format!("● {title}"), &format!("{mode}, {urid}"));
            }
            Event::MessageDelta { id, say: Say::Text | Say::Reasoning, offset, text: delta } => {
                let begin = usize::try_from(*offset).unwrap_or(usize::MAX);
                let told = self.told.entry(id.to_string()).or_insert(0);
                if begin >= *told {
                    *told = begin.saturating_add(delta.len());
                    self.run(&mut text, id.as_str(), delta);
                }
            }
            Event::Message { message } => match message.kind {
                // The prompt is the user's own.
                MessageKind::Say(Say::Text) if message.id.as_str() == "m1" => {}
                MessageKind::Say(Say::Text | Say::Reasoning) => {
                    let told = self.told.remove(message.id.as_str()).unwrap_or(0);
                    if let Some(rest) = message.text.get(told..).filter(|rest| !rest.is_empty()) {
                        self.run(&mut text, message.id.as_str(), rest);
                    }
                    self.close(&mut text);
                }
                MessageKind::Say(Say::UserFeedback) => {
                    self.line(&mut text, "36", "you", &message.text);
                }
                MessageKind::Say(Say::Error) => self.line(&mut text, "31", "✗", &message.text),
                _ => {}
            },
            Event::ToolOutput { tool_call_id, text: output, .. } => {
                self.output(&mut text, tool_call_id.as_str(), output);
            }
            Event::ToolStarted { name, subject, .. } => {
                self.line(&mut text, "34", &format!("→ {name}"), subject);
            }
            Event::ToolFinished { status, summary, .. } => {
                let (colour, mark) = match status {
                    // The tool did its work; the command said no.
                    ToolStatus::Ok if is_failed_command(summary) => ("33", "!"),
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
                self.options.clone_from(&approval.options);
                self.reasoned(&mut text, "33", &format!("? {}", approval.title), &approval.reason);
                for line in approval.subject.lines() {
                    let _ = writeln!(text, "    {}", render::visible(line));
                }
            }
            Event::ApprovalResolved { by, option_id, .. } => {
                let kind =
                    |id: &str| self.options.iter().find(|option| option.id == id).map(|option| option.kind);
                let answer = match (option_id.as_deref(), option_id.as_deref().and_then(kind)) {
                    (None, _) => "  no longer asked",
                    (_, Some(OptionKind::AllowOnce | OptionKind::AllowAlways)) => "  allowed",
                    (_, Some(OptionKind::RejectOnce | OptionKind::RejectAlways)) => "  denied",
                    (Some(_), None) => "  answered",
                };
                let by = option_id.as_ref().map(|_| format!("by {by}")).unwrap_or_default();
                self.line(&mut text, "33", answer, &by);
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
                self.reasoned(&mut text, "33", &format!("attempt {attempt} follows"), reason);
            }
            Event::TaskState { state, reason, .. } => {
                let reason = reason.as_deref().unwrap_or_default();
                let colour = match state {
                    TaskState::Completed => "32",
                    TaskState::Failed => "31",
                    TaskState::Cancelled | TaskState::Interrupted => "33",
                    _ if reason.is_empty() => return text,
                    _ => {
                        self.line(&mut text, "2", "·", reason);
                        return text;
                    }
                };
                // Some reasons say it all.
                let name = state.as_str();
                let (head, rest) = if reason.starts_with(name) { (reason, "") } else { (name, reason) };
                self.reasoned(&mut text, colour, &format!("● {head}"), rest);
            }
            Event::ServerDegraded { reason } => self.line(&mut text, "31", "!", reason),
            _ => {}
        }
        text
    }

    /// Goes on with running text, on a new line if something else ran before.
    fn run(&mut self, text: &mut String, id: &str, more: &str) {
        self.begin(text, id);
        text.push_str(&render::visible(more));
        self.open = !more.ends_with('\n');
    }

    /// Goes on with the output of a call, indented.
    fn output(&mut self, text: &mut String, id: &str, more: &str) {
        self.begin(text, id);
        for line in more.split_inclusive('\n') {
            let content = line.strip_suffix('\n');
            if !self.open && content != Some("") {
                text.push_str("    ");
            }
            self.open = content.is_none();
            text.push_str(&self.paint("2", &render::visible(content.unwrap_or(line))));
            if !self.open {
                text.push('\n');
            }
        }
    }

    fn begin(&mut self, text: &mut String, id: &str) {
        if self.running.as_deref() != Some(id) {
            self.close(text);
            self.running = Some(id.to_owned());
        }
    }

    /// Ends running text and its line.
    fn close(&mut self, text: &mut String) {
        self.running = None;
        if std::mem::take(&mut self.open) {
            text.push('\n');
        }
    }

    /// A line that says what, and why.
    fn reasoned(&mut self, text: &mut String, colour: &str, head: &str, reason: &str) {
        let reason = if reason.is_empty() { String::new() } else { format!("— {reason}") };
        self.line(text, colour, head, &reason);
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

/// Whether a tool's summary is that of a command which ended with a code other than 0.
fn is_failed_command(summary: &str) -> bool {
    summary.strip_prefix("exit code ").is_some_and(|code| code != "0")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(events: &[Value]) -> String {
        let mut story = Story::new(false);
        let params = |event: &Value| {
            serde_json::from_value(json!({ "rootId": "t", "taskId": "t", "at": 0, "event": event })).unwrap()
        };
        events.iter().map(|event| story.tell(&params(event))).collect()
    }

    fn delta(id: &str, say: &str, offset: u64, text: &str) -> Value {
        json!({ "type": "message.delta", "id": id, "say": say, "offset": offset, "text": text })
    }

    fn message(id: &str, say: &str, text: &str) -> Value {
        json!({ "type": "message", "message": { "id": id, "say": say, "text": text } })
    }

    fn output(text: &str) -> Value {
        json!({ "type": "tool.output", "toolCallId": "c", "offset": 0, "text": text })
    }

    #[test]
    fn a_closed_message_is_told_to_its_end() {
        let events = [delta("a", "text", 0, "One tw"), message("a", "text", "One two.\nThree.")];
        assert_eq!(told(&events), "One two.\nThree.\n");
        assert_eq!(told(&[message("a", "text", "All at once.\n")]), "All at once.\n");
        // Text that is shorter than what ran, or cut within a character, has no rest.
        assert_eq!(told(&[delta("a", "text", 0, "é"), message("a", "text", "")]), "é\n");
        assert_eq!(told(&[delta("a", "text", 0, "x"), message("a", "text", "é")]), "x\n");
    }

    #[test]
    fn the_next_message_begins_on_its_own_line() {
        let events = [
            delta("a", "reasoning", 0, "Hm."),
            delta("b", "text", 0, "Look"),
            delta("b", "text", 4, " here."),
            message("b", "text", "Look here."),
        ];
        assert_eq!(told(&events), "Hm.\nLook here.\n");
    }

    #[test]
    fn output_is_indented_by_whole_lines() {
        let finished =
            json!({ "type": "tool.finished", "toolCallId": "c", "status": "ok", "summary": "exit code 0" });
        let events = [output("on"), output("e\ntwo\n"), output("\nthr"), output("ee"), finished];
        assert_eq!(told(&events), "    one\n    two\n\n    three\n✓ exit code 0\n");
    }

    #[test]
    fn a_command_that_failed_gets_no_tick() {
        let finished =
            json!({ "type": "tool.finished", "toolCallId": "c", "status": "ok", "summary": "exit code 1" });
        assert_eq!(told(&[finished]), "! exit code 1\n");
    }

    #[test]
    fn an_approval_is_told_with_its_answer_in_words() {
        let asked = json!({
            "type": "approval.requested", "approvalId": "t.a1", "toolCallId": "c",
            "digest": crate::protocol::ids::Digest::of("x"),
            "title": "Edit a.rs", "subject": "-a\n+b\n", "reason": "not allowed yet",
            "options": [
                { "id": "no", "name": "Deny", "kind": "reject_once" },
                { "id": "yes", "name": "Allow", "kind": "allow_once" },
            ],
        });
        let answered = |option: Value| json!({ "type": "approval.resolved", "approvalId": "t.a1", "by": "cli", "optionId": option });
        let events = [asked, answered("yes".into()), answered("no".into()), answered(Value::Null)];
        assert_eq!(
            told(&events),
            "? Edit a.rs — not allowed yet\n    -a\n    +b\n  allowed by cli\n  denied by cli\n  no longer asked\n"
        );
    }

    #[test]
    fn an_end_is_told_once() {
        let ended = |state, reason| json!({ "type": "task.state", "state": state, "reason": reason });
        let events = [ended("cancelled", "cancelled by the user"), ended("failed", "no way")];
        assert_eq!(told(&events), "● cancelled by the user\n● failed — no way\n");
    }
}
