//! A request as a story for people: one line for what happens, running text as it comes. Where several
//! branches speak, each speaks below its own heading.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::tree;
use roo_engine::engine::clock::time_of_day;
use roo_protocol::event::{ApprovalOption, Event, EventParams, OptionKind, ToolStatus, Verdict};
use roo_protocol::ids::{ApprovalId, TaskId};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::TaskState;
use roo_protocol::tree::TreeNode;
use roo_text::{durations, render};

/// The colours of branches, in their order; those of outcomes are not among them.
const COLOURS: [&str; 6] = ["36", "35", "34", "96", "95", "94"];
/// The most lines of a brief or of a branch's result that are told.
const LINES: usize = 24;

/// A message or the output of a call, of one task.
type Key = (TaskId, String);

/// Running text of the current line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RunningText {
    Message(Key),
    Output(Key),
}

/// Tells events to a terminal or a pipe.
pub(super) struct Story {
    colour: bool,
    /// True if the tree is told when a branch begins or ends.
    tells_tree: bool,
    /// Number of bytes of each running message told.
    told: HashMap<Key, usize>,
    running: Option<RunningText>,
    /// True if the last text ended without a newline.
    open: bool,
    /// Options of the approvals that wait.
    options: HashMap<ApprovalId, Vec<ApprovalOption>>,
    /// All branches, as far as they are known.
    nodes: Vec<TreeNode>,
    /// The branches in the tree that was told last, and whether each had ended.
    tree: Vec<(TaskId, bool)>,
    /// Whose heading was told last.
    speaker: Option<TaskId>,
}

impl Story {
    /// A story, in colour or plain, with or without its trees.
    pub(super) fn new(colour: bool, tells_tree: bool) -> Self {
        Self {
            colour,
            tells_tree,
            told: HashMap::new(),
            running: None,
            open: false,
            options: HashMap::new(),
            nodes: vec![],
            tree: vec![],
            speaker: None,
        }
    }

    /// Takes the tree as it is now, without a word.
    pub(super) fn learn(&mut self, nodes: &[TreeNode]) {
        self.nodes = nodes.to_vec();
    }

    /// All branches, as far as they are known.
    pub(super) fn nodes(&self) -> &[TreeNode] {
        &self.nodes
    }

    /// Returns whether the last line has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the name of a branch; none for a request's own task.
    pub(super) fn name(&self, task: &TaskId) -> Option<String> {
        let node = self.nodes.iter().find(|node| node.id == *task).filter(|_| !task.is_root())?;
        Some(tree::label(node))
    }

    /// Formats an event.
    pub(super) fn tell(&mut self, params: &EventParams) -> String {
        if let Event::TreeChanged { nodes } = &params.event {
            self.learn(nodes);
            return if self.tells_tree { self.tree() } else { String::new() };
        }
        let task = &params.task_id;
        let asks = matches!(params.event, Event::ApprovalRequested { .. } | Event::QuestionAsked { .. });
        let is_alone = self.nodes.len() < 2 && task.is_root();
        let mut text = String::new();
        if is_alone || (self.speaker.as_ref() == Some(task) && !asks) {
            let indented = self.open;
            self.tell_of(params, &mut text);
            return self.indented(task, &text, !indented);
        }
        // Nothing is told of another branch before its heading, and no heading without something to tell.
        let (running, open) = (self.running.clone(), self.open);
        if matches!(running, Some(RunningText::Message(_)))
            && matches!(params.event, Event::MessageDelta { .. })
        {
            return text;
        }
        (self.running, self.open) = (None, false);
        self.tell_of(params, &mut text);
        if text.is_empty() {
            (self.running, self.open) = (running, open);
            return text;
        }
        let end = if open { "\n" } else { "" };
        let heading = self.heading(task);
        self.speaker = Some(task.clone());
        format!("{end}{heading}{}", self.indented(task, &text, true))
    }

    /// Formats warnings beside the request.
    pub(super) fn notices(&mut self, notices: &[String]) -> String {
        let mut text = String::new();
        for notice in notices {
            self.line(&mut text, "33", "!", notice);
        }
        text
    }

    /// The tree, if a branch has begun or ended since it was told.
    pub(super) fn tree(&mut self) -> String {
        let shape: Vec<(TaskId, bool)> =
            self.nodes.iter().map(|node| (node.id.clone(), node.state.is_final())).collect();
        if shape.len() < 2 || shape == self.tree {
            return String::new();
        }
        self.tree = shape;
        let mut text = String::new();
        self.close(&mut text);
        self.speaker = None;
        let drawing = tree::draw(&self.nodes, None, tree::state);
        for line in drawing.lines() {
            text.push_str("  ");
            text.push_str(&self.paint("2", line));
            text.push('\n');
        }
        text
    }

    fn heading(&self, task: &TaskId) -> String {
        let Some(place) = self.nodes.iter().position(|node| node.id == *task) else { return String::new() };
        let label = format!("▸ {}", tree::label(&self.nodes[place]));
        let colour = COLOURS[place % COLOURS.len()];
        format!("{}{}\n", self.indentation(task), self.paint(colour, &label))
    }

    /// By how deep the branch lies.
    fn indentation(&self, task: &TaskId) -> String {
        let parent = |id: &TaskId| self.nodes.iter().find(|node| node.id == *id)?.parent_id.clone();
        let above = std::iter::successors(parent(task), parent);
        // A circle is never drawn.
        "  ".repeat(above.take(self.nodes.len()).count())
    }

    /// The lines of a text as far in as those of its branch. `begins`: whether its first one begins here.
    fn indented(&self, task: &TaskId, text: &str, begins: bool) -> String {
        let indentation = self.indentation(task);
        if indentation.is_empty() {
            return text.to_owned();
        }
        let mut shown = String::with_capacity(text.len());
        for (index, line) in text.split_inclusive('\n').enumerate() {
            if (begins || index > 0) && line != "\n" {
                shown.push_str(&indentation);
            }
            shown.push_str(line);
        }
        shown
    }

    fn tell_of(&mut self, EventParams { task_id: task, at, event, .. }: &EventParams, text: &mut String) {
        let key = |id: &str| (task.clone(), id.to_owned());
        match event {
            Event::TaskCreated { mode, title, urid, .. } if task.is_root() => {
                self.reasoned(text, "1", &format!("● {title}"), &format!("{mode}, {urid}"));
            }
            Event::TaskCreated { mode, .. } => self.reasoned(text, "1", "● begins", mode),
            Event::MessageDelta { id, say: Say::Text | Say::Reasoning, offset, text: delta } => {
                let id = key(id.as_str());
                let begin = usize::try_from(*offset).unwrap_or(usize::MAX);
                let told = self.told.get(&id).copied().unwrap_or(0);
                // What speaks beside another message, or misses a piece, is told when it is whole.
                let waits = matches!(&self.running, Some(RunningText::Message(other)) if *other != id);
                if begin == told && !waits {
                    self.told.insert(id.clone(), begin.saturating_add(delta.len()));
                    self.run(text, id, delta);
                }
            }
            Event::Message { message } => self.message(task, message, text),
            Event::ToolOutput { tool_call_id, text: output, .. } => {
                self.output(text, key(tool_call_id.as_str()), output);
            }
            Event::ToolStarted { name, subject, .. } => {
                self.line(text, "34", &format!("→ {name}"), &plain(subject));
            }
            Event::ToolFinished { status, summary, exit_code, .. } => {
                let (colour, mark) = match status {
                    // The tool did its work; the command said no.
                    ToolStatus::Ok if is_failed_command(*exit_code) => ("33", "!"),
                    ToolStatus::Ok => ("32", "✓"),
                    ToolStatus::Skipped => ("2", "–"),
                    ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Interrupted => ("31", "✗"),
                };
                self.line(text, colour, mark, summary);
            }
            Event::CommandBackgrounded { command_id, command, .. } => {
                self.line(text, "34", &format!("→ {command_id}"), &format!("runs on: {}", plain(command)));
            }
            Event::CommandEnded { command_id, status, summary, exit_code, .. } => {
                let (colour, mark) = match status {
                    ToolStatus::Ok if is_failed_command(*exit_code) => ("33", "!"),
                    ToolStatus::Ok => ("32", "✓"),
                    _ => ("31", "✗"),
                };
                self.line(text, colour, &format!("{mark} {command_id}"), summary);
            }
            Event::GateDecided { verdict: Verdict::Deny, rule, .. } => {
                self.line(text, "31", "refused", &format!("by {rule}"));
            }
            Event::ApprovalRequested { approval } => {
                self.options.insert(approval.approval_id.clone(), approval.options.clone());
                self.reasoned(text, "33", &format!("? {}", approval.title), &approval.reason);
                for line in approval.subject.lines() {
                    let _ = writeln!(text, "    {}", render::visible(line));
                }
            }
            Event::ApprovalResolved { approval_id, by, option_id } => {
                let options = self.options.remove(approval_id).unwrap_or_default();
                let kind = |id: &str| options.iter().find(|option| option.id == id).map(|option| option.kind);
                let answer = match (option_id.as_deref(), option_id.as_deref().and_then(kind)) {
                    (None, _) => "  no longer asked",
                    (_, Some(OptionKind::AllowOnce | OptionKind::AllowAlways)) => "  allowed",
                    (_, Some(OptionKind::RejectOnce | OptionKind::RejectAlways)) => "  denied",
                    (Some(_), None) => "  answered",
                };
                let by = option_id.as_ref().map(|_| format!("by {by}")).unwrap_or_default();
                self.line(text, "33", answer, &by);
            }
            Event::QuestionAsked { question } => {
                self.line(text, "33", "?", &question.text);
                for (number, suggestion) in (1..).zip(&question.suggestions) {
                    let _ = writeln!(text, "    {number}. {}", render::visible(&suggestion.label()));
                }
            }
            Event::TodoChanged { items } => {
                self.close(text);
                for item in items {
                    let _ = writeln!(text, "    {} {}", item.status.mark(), render::visible(&item.content));
                }
            }
            Event::RetryScheduled { at: due, attempt, reason } => {
                let (wait, time) = (durations::in_words(due.saturating_sub(*at)), time_of_day(*due));
                self.reasoned(text, "33", &format!("attempt {attempt} follows in {wait}, at {time}"), reason);
            }
            // A request is interrupted as a whole.
            Event::TaskState { state: TaskState::Interrupted, .. } if !task.is_root() => {}
            Event::TaskState { state, result, reason, .. } => {
                let reason = reason.as_deref().unwrap_or_default();
                let colour = match state {
                    TaskState::Completed => "32",
                    TaskState::Failed => "31",
                    TaskState::Cancelled | TaskState::Interrupted => "33",
                    _ if reason.is_empty() => return,
                    _ => return self.line(text, "2", "·", reason),
                };
                // Some reasons say it all.
                let name = state.as_str();
                let (head, rest) = if reason.starts_with(name) { (reason, "") } else { (name, reason) };
                self.reasoned(text, colour, &format!("● {head}"), rest);
                // That of the request itself is printed as what came of it all.
                if let Some(result) = result.as_deref().filter(|_| !task.is_root()) {
                    self.quote(text, result);
                }
            }
            Event::ServerDegraded { reason } => self.line(text, "31", "!", reason),
            _ => {}
        }
    }

    fn message(&mut self, task: &TaskId, message: &Message, text: &mut String) {
        match message.kind {
            // The prompt is the user's own.
            MessageKind::Say(Say::Text) if task.is_root() && message.id.as_str() == "m1" => {}
            MessageKind::Say(Say::Text) if message.id.as_str() == "brief" => {
                self.close(text);
                self.quote(text, &plain(&message.text));
            }
            MessageKind::Say(Say::Text | Say::Reasoning) => {
                let key = (task.clone(), message.id.to_string());
                let told = self.told.remove(&key).unwrap_or(0);
                if let Some(rest) = message.text.get(told..).filter(|rest| !rest.is_empty()) {
                    self.run(text, key, rest);
                }
                self.close(text);
            }
            MessageKind::Say(Say::UserFeedback) => self.line(text, "36", "you", &message.text),
            MessageKind::Say(Say::Error) => self.line(text, "31", "✗", &message.text),
            _ => {}
        }
    }

    /// Quotes the words of a branch to another, up to a limit.
    fn quote(&self, text: &mut String, quoted: &str) {
        let mut lines = quoted.trim().lines();
        for line in lines.by_ref().take(LINES) {
            let line = format!("  │ {}", render::visible(line));
            text.push_str(&self.paint("2", line.trim_end()));
            text.push('\n');
        }
        match lines.count() {
            0 => {}
            more => {
                text.push_str(&self.paint("2", &format!("  │ … {more} lines more")));
                text.push('\n');
            }
        }
    }

    /// Goes on with running text, on a new line if something else ran before.
    fn run(&mut self, text: &mut String, id: Key, more: &str) {
        self.begin(text, RunningText::Message(id));
        text.push_str(&render::visible(more));
        self.open = !more.ends_with('\n');
    }

    /// Goes on with the output of a call, indented.
    fn output(&mut self, text: &mut String, id: Key, more: &str) {
        self.begin(text, RunningText::Output(id));
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

    fn begin(&mut self, text: &mut String, next: RunningText) {
        if self.running.as_ref() != Some(&next) {
            self.close(text);
            self.running = Some(next);
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

/// Text with emojis that are drawn in one way anyhow: shown on its own, the character that asks for
/// the picture would be taken for a hidden one.
fn plain(text: &str) -> String {
    text.replace('\u{fe0f}', "")
}

/// Returns whether a command ended with a code other than 0.
fn is_failed_command(exit_code: Option<i32>) -> bool {
    exit_code.is_some_and(|code| code != 0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn told(events: &[Value]) -> String {
        let mut story = Story::new(false, true);
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
    fn a_wait_for_the_model_says_how_long_and_until_when() {
        let retry = json!({ "type": "retry.scheduled", "at": 600_000, "attempt": 2, "reason": "status 429: slow down" });
        let expected =
            format!("attempt 2 follows in 10 min, at {} — status 429: slow down\n", time_of_day(600_000));
        assert_eq!(told(&[retry]), expected);
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
        let finished = json!({ "type": "tool.finished", "toolCallId": "c", "status": "ok", "summary": "exit code 0", "exitCode": 0 });
        let events = [output("on"), output("e\ntwo\n"), output("\nthr"), output("ee"), finished];
        assert_eq!(told(&events), "    one\n    two\n\n    three\n✓ exit code 0\n");
    }

    #[test]
    fn a_command_that_failed_gets_no_tick() {
        let finished = json!({ "type": "tool.finished", "toolCallId": "c", "status": "ok", "summary": "exit code 1", "exitCode": 1 });
        assert_eq!(told(&[finished]), "! exit code 1\n");
    }

    #[test]
    fn an_approval_is_told_with_its_answer_in_words() {
        let asked = json!({
            "type": "approval.requested", "approvalId": "t.a1", "toolCallId": "c",
            "digest": roo_protocol::ids::Digest::of("x"),
            "title": "Edit a.rs", "subject": "-a\n+b\n", "reason": "not allowed yet",
            "options": [
                { "id": "no", "name": "Deny", "kind": "reject_once" },
                { "id": "yes", "name": "Allow", "kind": "allow_once" },
            ],
        });
        let answered = |option: Value| json!({ "type": "approval.resolved", "approvalId": "t.a1", "by": "cli", "optionId": option });
        for (option, told_answer) in [
            ("yes".into(), "  allowed by cli\n"),
            ("no".into(), "  denied by cli\n"),
            (Value::Null, "  no longer asked\n"),
        ] {
            let question = "? Edit a.rs — not allowed yet\n    -a\n    +b\n";
            assert_eq!(told(&[asked.clone(), answered(option)]), format!("{question}{told_answer}"));
        }
    }

    /// The tree of a request `t` with branches `t.3` and, below it, `t.7`.
    fn tree(states: [&str; 3]) -> Value {
        let node = |id: &str, parent: Value, emoji: &str, title: &str, state: &str| {
            json!({
                "id": id, "parentId": parent, "mode": "code", "emoji": emoji, "title": title,
                "state": state, "startedAt": 0, "tokens": 0, "costUsd": 0.0,
            })
        };
        let nodes = [
            node("t", Value::Null, "🪃", "All", states[0]),
            node("t.3", "t".into(), "💻", "One", states[1]),
            node("t.7", "t.3".into(), "🏗️", "Two", states[2]),
        ];
        json!({ "type": "tree.changed", "nodes": nodes })
    }

    /// Formats events with the tasks that they belong to.
    fn told_of(events: &[(&str, Value)]) -> String {
        let mut story = Story::new(false, true);
        let params = |task: &str, event: &Value| {
            serde_json::from_value(json!({ "rootId": "t", "taskId": task, "at": 0, "event": event })).unwrap()
        };
        events.iter().map(|(task, event)| story.tell(&params(task, event))).collect()
    }

    #[test]
    fn each_branch_speaks_below_its_heading() {
        let started =
            json!({ "type": "tool.started", "toolCallId": "c", "name": "new_task", "subject": "🏗️ Two" });
        let ended = json!({ "type": "task.state", "state": "completed", "result": "Done:\n- all" });
        let brief = message("brief", "text", "🏗️ Two\n\nDo it.");
        let events = [
            ("t", tree(["paused", "running", "running"])),
            ("t.3", started.clone()),
            ("t.3", started),
            ("t.7", brief),
            ("t.7", ended),
            ("t", tree(["paused", "running", "running"])),
            ("t.3", message("m9", "text", "Well.")),
            ("t", tree(["paused", "running", "completed"])),
        ];
        insta::assert_snapshot!(told_of(&events), @"
          🪃 All — paused
          └── 💻 One — running
              └── 🏗️ Two — running
          ▸ 💻 One
          → new_task 🏗 Two
          → new_task 🏗 Two
            ▸ 🏗️ Two
              │ 🏗 Two
              │
              │ Do it.
            ● completed
              │ Done:
              │ - all
          ▸ 💻 One
          Well.
          🪃 All — paused
          └── 💻 One — running
              └── 🏗️ Two — completed
        ");
    }

    #[test]
    fn what_is_said_beside_another_branch_is_told_when_it_is_whole() {
        let events = [
            ("t", tree(["paused", "running", "running"])),
            ("t.3", delta("m4", "text", 0, "One ")),
            ("t.7", delta("m4", "text", 0, "Two ")),
            ("t.3", delta("m4", "text", 4, "begins")),
            ("t.7", delta("m4", "text", 4, "and ends.")),
            ("t.7", message("m4", "text", "Two and ends.")),
            ("t.3", delta("m4", "text", 10, " again.")),
            ("t.3", message("m4", "text", "One begins again.")),
        ];
        let text = told_of(&events);
        let (_, said) = text.split_once("  ▸").unwrap();
        assert_eq!(said, " 💻 One\n  One begins\n    ▸ 🏗️ Two\n    Two and ends.\n  ▸ 💻 One\n   again.\n");
    }

    #[test]
    fn a_question_names_its_branch_even_if_that_spoke_last() {
        let asked = json!({
            "type": "question.asked", "questionId": "t.3.q1", "kind": "followup", "text": "Which?",
            "suggestions": [{ "text": "This." }],
        });
        let events = [
            ("t", tree(["paused", "running", "completed"])),
            ("t.3", message("m4", "text", "Hm.")),
            ("t.3", asked),
        ];
        let text = told_of(&events);
        assert!(text.ends_with("  ▸ 💻 One\n  Hm.\n  ▸ 💻 One\n  ? Which?\n      1. This.\n"), "{text}");
    }

    #[test]
    fn an_end_is_told_once() {
        let ended = |state, reason| json!({ "type": "task.state", "state": state, "reason": reason });
        let events = [ended("cancelled", "cancelled by the user"), ended("failed", "no way")];
        assert_eq!(told(&events), "● cancelled by the user\n● failed — no way\n");
    }
}
