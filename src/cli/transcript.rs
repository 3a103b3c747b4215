//! Events of a request as lines for a terminal or a pipe; running text as it comes. Where several branches speak, each
//! one prints below its own heading.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::activity::Activities;
use super::terminal::TERMINAL_USER;
use crate::view::{
    ApprovalEnd, CallEnding, CallResult, MessageRole, OpenItem, RECOVERED, RequestView, Update, VOID_LINE,
    approval_end, branch_name, draw_tree, kept_line, restored_line, retry_line, ruled_line, shortened_line,
    state_label,
};
use roo_engine::engine::clock::time_of_day;
use roo_protocol::event::EventParams;
use roo_protocol::ids::TaskId;
use roo_protocol::message::{Message, Say};
use roo_protocol::rule::{RuleSubject, TRUST_EXPLANATION};
use roo_protocol::task::{PendingApproval, TaskState};
use roo_protocol::tree::TreeNode;
use roo_text::durations;
use roo_text::render::{self, counted};

/// The colours of branches, in their order; those of outcomes are not among them.
const COLOURS: [&str; 6] = ["36", "35", "34", "96", "95", "94"];
/// The most lines of a brief or of a branch's result that are printed.
const LINES: usize = 24;

/// A message or the output of a call, of one task.
type Key = (TaskId, String);

/// Running text of the current line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum RunningText {
    Message(Key),
    Output(Key),
}

/// Transcript of a request, printed line by line.
pub(super) struct TerminalTranscript {
    colour: bool,
    /// True if the tree is printed when a branch begins or ends.
    prints_tree: bool,
    /// Number of bytes of each running message printed.
    printed: HashMap<Key, usize>,
    running: Option<RunningText>,
    /// True if the last text ended without a newline.
    open: bool,
    /// The request as it is now.
    view: RequestView,
    /// The branches in the tree that was printed last, and whether each had ended.
    tree: Vec<(TaskId, bool)>,
    /// Task whose heading was printed last.
    speaker: Option<TaskId>,
    /// What is at work.
    activities: Activities,
    /// True if nobody is asked here: what a standing answer would mean is left out.
    leaves_out_offers: bool,
}

impl TerminalTranscript {
    /// Begins a transcript, in colour or plain, with or without its trees.
    pub(super) fn new(colour: bool, prints_tree: bool) -> Self {
        Self {
            colour,
            prints_tree,
            printed: HashMap::new(),
            running: None,
            open: false,
            view: RequestView::default(),
            tree: vec![],
            speaker: None,
            activities: Activities::default(),
            leaves_out_offers: false,
        }
    }

    /// Leaves out offers, as nobody is asked here: a flag answers approvals once each, or they are answered elsewhere.
    pub(super) fn leave_out_offers(&mut self) {
        self.leaves_out_offers = true;
    }

    /// Returns whether something is at work.
    pub(super) fn is_at_work(&self) -> bool {
        !self.activities.is_empty()
    }

    /// The line about what is at work at this time, in milliseconds since the Unix epoch.
    pub(super) fn activity(&self, now: i64) -> Option<String> {
        let line = self.activities.line(now, |task| self.name(task))?;
        Some(self.paint("2", &render::visible(&line)))
    }

    /// Takes the tree as it is now, without a word.
    pub(super) fn learn(&mut self, nodes: &[TreeNode]) {
        self.view.set_tree(nodes);
    }

    /// All branches, as far as they are known.
    pub(super) fn nodes(&self) -> &[TreeNode] {
        self.view.tree().nodes()
    }

    /// Returns whether the last line has not ended.
    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    /// Returns the name of a branch; none for a request's own task.
    pub(super) fn name(&self, task: &TaskId) -> Option<String> {
        self.view.tree().name(task)
    }

    pub(super) fn format_event(&mut self, params: &EventParams) -> String {
        let Some(update) = self.view.apply(params) else { return String::new() };
        self.activities.apply(&params.task_id, params.at, &update);
        if matches!(update, Update::Tree) {
            return if self.prints_tree { self.tree() } else { String::new() };
        }
        let task = &params.task_id;
        let asks = matches!(update, Update::ApprovalRequested(_) | Update::QuestionAsked(_));
        let is_alone = self.nodes().len() < 2 && task.is_root();
        let mut text = String::new();
        if is_alone || (self.speaker.as_ref() == Some(task) && !asks) {
            let indented = self.open;
            self.format_update(params, &update, &mut text);
            return self.indented(task, &text, !indented);
        }
        // Nothing of another branch is printed before its heading, and no heading without something below it.
        let (running, open) = (self.running.clone(), self.open);
        if matches!(running, Some(RunningText::Message(_))) && matches!(update, Update::MessageGrows { .. }) {
            return text;
        }
        (self.running, self.open) = (None, false);
        self.format_update(params, &update, &mut text);
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

    /// The tree, if a branch has begun or ended since it was printed.
    pub(super) fn tree(&mut self) -> String {
        let shape: Vec<(TaskId, bool)> =
            self.nodes().iter().map(|node| (node.id.clone(), node.state.is_final())).collect();
        if shape.len() < 2 || shape == self.tree {
            return String::new();
        }
        self.tree = shape;
        let mut text = String::new();
        self.close(&mut text);
        self.speaker = None;
        let drawing = draw_tree(self.nodes(), None, state_label);
        for line in drawing.lines() {
            text.push_str("  ");
            text.push_str(&self.paint("2", line));
            text.push('\n');
        }
        text
    }

    fn heading(&self, task: &TaskId) -> String {
        let Some(place) = self.view.tree().position(task) else { return String::new() };
        let label = format!("▸ {}", branch_name(&self.nodes()[place]));
        let colour = COLOURS[place % COLOURS.len()];
        format!("{}{}\n", self.indentation(task), self.paint(colour, &label))
    }

    /// By how deep the branch lies.
    fn indentation(&self, task: &TaskId) -> String {
        "  ".repeat(self.view.tree().depth(task))
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

    fn format_update(&mut self, params: &EventParams, update: &Update<'_>, text: &mut String) {
        let task = &params.task_id;
        let key = |id: &str| (task.clone(), id.to_owned());
        match update {
            Update::Created { mode, title, urid } if task.is_root() => {
                self.reasoned(text, "1", &format!("● {title}"), &format!("{mode}, {urid}"));
            }
            Update::Created { mode, .. } => self.reasoned(text, "1", "● begins", mode),
            Update::Forked { urid, from } => {
                let reason = format!("forked from {} at event {}", from.urid, from.seq);
                self.reasoned(text, "1", &format!("● {urid}"), &reason);
            }
            Update::Imported { from } => {
                let reason = format!("task {} of {}", from.task_id, from.program);
                self.reasoned(text, "1", "● imported", &reason);
            }
            Update::MessageGrows { id, say: Say::Text | Say::Reasoning, offset, text: delta } => {
                let id = key(id.as_str());
                let begin = usize::try_from(*offset).unwrap_or(usize::MAX);
                let printed = self.printed.get(&id).copied().unwrap_or(0);
                // What speaks beside another message, or misses a piece, is printed when it is whole.
                let waits = matches!(&self.running, Some(RunningText::Message(other)) if *other != id);
                if begin == printed && !waits {
                    self.printed.insert(id.clone(), begin.saturating_add(delta.len()));
                    self.run(text, id, delta);
                }
            }
            Update::Message { message, role } => self.message(task, message, *role, text),
            Update::CallOutput { call, text: output } => self.output(text, key(call.as_str()), output),
            Update::CallStarted { target, .. } => {
                self.line(text, "34", &format!("→ {}", target.name), &plain(&target.subject));
            }
            Update::CallFinished { result, .. } => {
                self.line(text, colour_of(*result), result.ending().mark(), result.summary);
            }
            Update::CommandBackgrounded { command, line } => {
                self.line(text, "34", &format!("→ {command}"), &format!("runs on: {}", plain(line)));
            }
            Update::CommandEnded { command, result } => {
                let head = format!("{} {command}", result.ending().mark());
                self.line(text, colour_of(*result), &head, result.summary);
            }
            Update::CallRefused { rule } => self.line(text, "31", "refused", &format!("by {rule}")),
            Update::ApprovalRequested(approval) => self.approval(approval, text),
            Update::ApprovalResolved { approval, by, option_id, rule } => {
                let approval = approval.as_ref();
                let offer = approval.and_then(|approval| approval.rule.as_ref());
                let who = if *by == TERMINAL_USER { "you" } else { by };
                let (answer, by) = match approval_end(approval, *option_id, *rule) {
                    ApprovalEnd::Void => (VOID_LINE.to_owned(), String::new()),
                    ApprovalEnd::ByRule(rule) => (ruled_line(rule), String::new()),
                    ApprovalEnd::Chosen { option, .. } => {
                        let answer = match option.map(|option| option.kind) {
                            None => "answered",
                            Some(kind) if kind.allows() => "allowed",
                            Some(kind) if offer.is_some_and(|offer| offer.is_declined_by(kind)) => {
                                "offer declined"
                            }
                            Some(_) => "denied",
                        };
                        (answer.to_owned(), format!("by {who}"))
                    }
                };
                self.line(text, "33", &format!("  {answer}"), &by);
            }
            Update::QuestionAsked(question) => {
                self.line(text, "33", "?", &question.text);
                for (number, suggestion) in (1..).zip(&question.suggestions) {
                    let _ = writeln!(text, "    {number}. {}", render::visible(&suggestion.label()));
                }
            }
            Update::Todo(items) => {
                self.close(text);
                for item in *items {
                    let _ = writeln!(text, "    {} {}", item.status.mark(), render::visible(&item.content));
                }
            }
            Update::ContextShortened { method, tokens_before, tokens_after, cost_usd } => {
                let line = shortened_line(*method, *tokens_before, *tokens_after, *cost_usd);
                self.line(text, "2", "·", &line);
            }
            Update::ContextRestored { tokens_before, tokens_after } => {
                self.line(text, "2", "·", &restored_line(*tokens_before, *tokens_after));
            }
            Update::ContextKept { reason } => self.line(text, "33", "·", &kept_line(reason)),
            Update::ContextShortening { .. } => {}
            Update::RetryScheduled { at: due, attempt, reason } => {
                let (wait, time) = (durations::in_words(due.saturating_sub(params.at)), time_of_day(*due));
                let follows = retry_line(*attempt, &format!("in {wait}, at {time}"));
                self.reasoned(text, "33", &follows, reason);
            }
            // A request is interrupted as a whole.
            Update::State { state: TaskState::Interrupted, .. } if !task.is_root() => {}
            Update::State { state, result, reason } => {
                let reason = reason.unwrap_or_default();
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
                if let Some(result) = result.filter(|_| !task.is_root()) {
                    self.quote(text, result);
                }
            }
            // A call that switches says so itself.
            Update::Switched { mode: Some(mode), .. } if !self.runs_call(task) => {
                self.line(text, "2", "·", &format!("the mode is {mode} from here on"));
            }
            Update::Switched { .. } => {}
            Update::Warning { reason } => self.line(text, "31", "!", reason),
            Update::Recovered => self.line(text, "32", "·", RECOVERED),
            // Told by what follows from it, or not of interest to whoever only watches.
            Update::Silent
            | Update::Tree
            | Update::MessageGrows { .. }
            | Update::CheckpointSaved { .. }
            | Update::ModelAsked
            | Update::AnswerVoid { .. }
            | Update::QuestionAnswered { .. }
            | Update::Edited { .. }
            | Update::IntentSelected { .. }
            // They are made by other clients, while no task runs.
            | Update::RestoreStarted { .. }
            | Update::RestoreFailed { .. } => {}
        }
    }

    fn runs_call(&self, task: &TaskId) -> bool {
        self.view.open().any(|(of, item)| of == task && matches!(item, OpenItem::Call(_)))
    }

    fn approval(&mut self, approval: &PendingApproval, text: &mut String) {
        let lines: Vec<&str> = approval.subject.lines().collect();
        let offer = approval.rule.as_ref().and_then(standing_offer);
        let title = offer.as_deref().and_then(|offer| approval.title.strip_prefix(offer));
        let title = title.unwrap_or(&approval.title).trim_start();
        let (reason, lines) = match &offer {
            // Nobody accepts the offer here, so what it would mean decides nothing.
            Some(_) if self.leaves_out_offers => {
                // The last one is the server's: the command may say the same.
                let end = lines.iter().rposition(|line| line.starts_with(TRUST_EXPLANATION));
                ("commands ask here", &lines[..end.unwrap_or(lines.len())])
            }
            _ => (approval.reason.as_str(), &lines[..]),
        };
        self.reasoned(text, "33", &format!("? {title}"), reason);
        for line in lines {
            let _ = writeln!(text, "    {}", render::visible(line));
        }
        // Right above the answers: they are answers to this.
        if let Some(offer) = offer.filter(|_| !self.leaves_out_offers) {
            let _ = writeln!(text, "  {}", render::visible(&offer));
        }
    }

    fn message(&mut self, task: &TaskId, message: &Message, role: MessageRole, text: &mut String) {
        match role {
            MessageRole::Brief => {
                self.close(text);
                self.quote(text, &plain(&message.text));
            }
            MessageRole::Answer | MessageRole::Reasoning => {
                let key = (task.clone(), message.id.to_string());
                let printed = self.printed.remove(&key).unwrap_or(0);
                if let Some(rest) = message.text.get(printed..).filter(|rest| !rest.is_empty()) {
                    self.run(text, key, rest);
                }
                self.close(text);
            }
            MessageRole::Feedback => self.line(text, "36", "you", &message.text),
            MessageRole::Note => self.line(text, "33", "!", &message.text),
            MessageRole::FinalError => self.line(text, "31", "✗", &message.text),
            // The prompt is the user's own. Calls and questions have events of their own, results go to the output.
            MessageRole::Prompt
            | MessageRole::Result
            | MessageRole::Call
            | MessageRole::Command
            | MessageRole::Question
            | MessageRole::Internal => {}
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
                text.push_str(&self.paint("2", &format!("  │ … {} more", counted(more, "line"))));
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

/// The question of an offer to let commands run unasked from now on; none for other rules.
fn standing_offer(rule: &RuleSubject) -> Option<String> {
    match rule {
        RuleSubject::ConfinedCommands | RuleSubject::TrustAndConfinedCommands { .. } => rule.question(),
        _ => None,
    }
}

/// Text with emojis that are drawn in one way anyhow: shown on its own, the character that asks for
/// the picture would be taken for a hidden one.
pub(super) fn plain(text: &str) -> String {
    text.replace('\u{fe0f}', "")
}

/// Colour of a call or a command that has ended.
fn colour_of(result: CallResult<'_>) -> &'static str {
    match result.ending() {
        CallEnding::Done => "32",
        CallEnding::FailedExit => "33",
        CallEnding::Skipped => "2",
        CallEnding::Failed => "31",
    }
}

#[cfg(test)]
mod tests {
    use roo_protocol::event::Event;
    use roo_protocol::ids::Digest;
    use serde_json::{Value, json};

    use super::*;

    fn format_all(events: &[Value]) -> String {
        let mut transcript = TerminalTranscript::new(false, true);
        let params = |event: &Value| {
            serde_json::from_value(json!({ "rootId": "t", "taskId": "t", "at": 0, "event": event })).unwrap()
        };
        events.iter().map(|event| transcript.format_event(&params(event))).collect()
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
    fn a_closed_message_is_printed_to_its_end() {
        let events = [delta("a", "text", 0, "One tw"), message("a", "text", "One two.\nThree.")];
        assert_eq!(format_all(&events), "One two.\nThree.\n");
        assert_eq!(format_all(&[message("a", "text", "All at once.\n")]), "All at once.\n");
        // Text that is shorter than what ran, or cut within a character, has no rest.
        assert_eq!(format_all(&[delta("a", "text", 0, "é"), message("a", "text", "")]), "é\n");
        assert_eq!(format_all(&[delta("a", "text", 0, "x"), message("a", "text", "é")]), "x\n");
    }

    #[test]
    fn a_wait_for_the_model_says_how_long_and_until_when() {
        let retry = json!({ "type": "retry.scheduled", "at": 600_000, "attempt": 2, "reason": "status 429: slow down" });
        let expected =
            format!("attempt 2 follows in 10 min, at {} — status 429: slow down\n", time_of_day(600_000));
        assert_eq!(format_all(&[retry]), expected);
        let first = json!({ "type": "retry.scheduled", "at": 10_000, "attempt": 1, "reason": "too soon" });
        let expected = format!("the request follows in 10 s, at {} — too soon\n", time_of_day(10_000));
        assert_eq!(format_all(&[first]), expected);
    }

    #[test]
    fn an_offer_that_a_flag_does_not_accept_is_left_out() {
        let rule = RuleSubject::TrustAndConfinedCommands { brings: vec!["AGENTS.md".to_owned()] };
        let title = format!("{} Run make", rule.question().unwrap());
        let subject = format!("{TRUST_EXPLANATION}; make\nSandbox: L2\n{TRUST_EXPLANATION}: modes, rules.");
        let asked = json!({
            "type": "approval.requested", "approvalId": "a", "toolCallId": "c", "digest": Digest::of(""),
            "title": title, "subject": subject, "reason": "commands could run without asking", "options": [],
            "rule": &rule,
        });
        let format = |transcript: TerminalTranscript| {
            let mut transcript = transcript;
            let params = json!({ "rootId": "t", "taskId": "t", "at": 0, "event": asked });
            transcript.format_event(&serde_json::from_value(params).unwrap())
        };
        let mut transcript = TerminalTranscript::new(false, true);
        transcript.leave_out_offers();
        let once = format(transcript);
        let line = format!("    {TRUST_EXPLANATION}; make\n    Sandbox: L2\n");
        assert_eq!(once, format!("? Run make — commands ask here\n{line}"));
        let whole = format(TerminalTranscript::new(false, true));
        let head = format!("? Run make — commands could run without asking\n{line}");
        let end = format!("    {TRUST_EXPLANATION}: modes, rules.\n  {}\n", rule.question().unwrap());
        assert_eq!(whole, head + &end);
    }

    #[test]
    fn the_next_message_begins_on_its_own_line() {
        let events = [
            delta("a", "reasoning", 0, "Hm."),
            delta("b", "text", 0, "Look"),
            delta("b", "text", 4, " here."),
            message("b", "text", "Look here."),
        ];
        assert_eq!(format_all(&events), "Hm.\nLook here.\n");
    }

    #[test]
    fn output_is_indented_by_whole_lines() {
        let finished = json!({ "type": "tool.finished", "toolCallId": "c", "status": "ok", "summary": "exit code 0", "exitCode": 0 });
        let events = [output("on"), output("e\ntwo\n"), output("\nthr"), output("ee"), finished];
        assert_eq!(format_all(&events), "    one\n    two\n\n    three\n✓ exit code 0\n");
    }

    #[test]
    fn a_command_that_failed_gets_no_tick() {
        let finished = json!({ "type": "tool.finished", "toolCallId": "c", "status": "ok", "summary": "exit code 1", "exitCode": 1 });
        assert_eq!(format_all(&[finished]), "! exit code 1\n");
    }

    #[test]
    fn an_approval_is_printed_with_its_answer_in_words() {
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
        for (option, answer) in [
            ("yes".into(), "  allowed by you\n"),
            ("no".into(), "  denied by you\n"),
            (Value::Null, "  no longer asked\n"),
        ] {
            let question = "? Edit a.rs — not allowed yet\n    -a\n    +b\n";
            assert_eq!(format_all(&[asked.clone(), answered(option)]), format!("{question}{answer}"));
        }
    }

    #[test]
    fn a_note_on_the_way_is_no_failure() {
        let note = message("hooks.3", "error", "Nothing is attached for @/a.txt: a.txt does not exist");
        let end = message("m9.end", "error", "no way");
        let kept = json!({ "type": "context.kept", "reason": "it is short" });
        let expected = "! Nothing is attached for @/a.txt: a.txt does not exist\n· Context not shortened: it is short\n✗ no way\n";
        assert_eq!(format_all(&[note, kept, end]), expected);
    }

    #[test]
    fn who_declines_an_offer_has_not_denied_the_call() {
        let trust = RuleSubject::TrustAndConfinedCommands { brings: vec![] };
        let access = RuleSubject::SandboxAccess(Box::default());
        for (rule, once) in [(trust, "  denied by you\n"), (access, "  offer declined by you\n")] {
            let asked = json!({
                "type": "approval.requested", "approvalId": "a", "toolCallId": "c", "digest": Digest::of(""),
                "title": "Run make", "subject": "", "reason": "it asks", "rule": rule,
                "options": [
                    { "id": "reject_once", "name": "No", "kind": "reject_once" },
                    { "id": "reject_always", "name": "Never", "kind": "reject_always" },
                ],
            });
            for (option, answer) in [("reject_once", once), ("reject_always", "  offer declined by you\n")] {
                let resolved = json!({ "type": "approval.resolved", "approvalId": "a", "by": "cli", "optionId": option });
                let printed = format_all(&[asked.clone(), resolved]);
                assert!(printed.ends_with(answer), "{option}: {printed}");
            }
        }
    }

    #[test]
    fn an_approval_that_a_rule_decides_names_it() {
        let resolved = json!({
            "type": "approval.resolved", "approvalId": "a", "by": "rule r1", "ruleId": "r1", "optionId": null,
        });
        assert_eq!(format_all(&[resolved]), "  decided by the standing rule r1\n");
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
    fn format_of_tasks(events: &[(&str, Value)]) -> String {
        let mut transcript = TerminalTranscript::new(false, true);
        let params = |task: &str, event: &Value| {
            serde_json::from_value(json!({ "rootId": "t", "taskId": task, "at": 0, "event": event })).unwrap()
        };
        events.iter().map(|(task, event)| transcript.format_event(&params(task, event))).collect()
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
        insta::assert_snapshot!(format_of_tasks(&events), @"
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
    fn what_is_said_beside_another_branch_is_printed_when_it_is_whole() {
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
        let text = format_of_tasks(&events);
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
        let text = format_of_tasks(&events);
        assert!(text.ends_with("  ▸ 💻 One\n  Hm.\n  ▸ 💻 One\n  ? Which?\n      1. This.\n"), "{text}");
    }

    #[test]
    fn a_mode_that_no_call_switches_to_is_printed() {
        let switched = json!({ "type": "mode.switched", "mode": "ask" });
        assert_eq!(format_all(std::slice::from_ref(&switched)), "· the mode is ask from here on\n");
        let started =
            json!({ "type": "tool.started", "toolCallId": "c", "name": "switch_mode", "subject": "ask" });
        assert_eq!(format_all(&[started, switched]), "→ switch_mode ask\n");
        assert_eq!(format_all(&[json!({ "type": "mode.switched", "profile": "fast" })]), "");
    }

    #[test]
    fn a_warning_and_its_end_are_printed() {
        let full = json!({ "type": "server.degraded", "reason": "the disk is full", "until": "recovered" });
        let events = [full, json!({ "type": "server.recovered" })];
        assert_eq!(format_all(&events), "! the disk is full\n· The server works with full function again.\n");
    }

    #[test]
    fn an_end_is_printed_once() {
        let ended = |state, reason| json!({ "type": "task.state", "state": state, "reason": reason });
        let events = [ended("cancelled", "cancelled by the user"), ended("failed", "no way")];
        assert_eq!(format_all(&events), "● cancelled by the user\n● failed — no way\n");
    }

    #[test]
    fn recorded_requests_are_printed_as_before() {
        for name in &crate::view::recorded_tests::names() {
            let mut transcript = TerminalTranscript::new(false, true);
            let mut text = String::new();
            for params in crate::view::recorded_tests::events(name) {
                text.push_str(&transcript.format_event(&params));
                if let Event::RetryScheduled { at, .. } = params.event {
                    // It is printed in the time of who reads it.
                    text = text.replace(&time_of_day(at), "HH:MM:SS");
                }
            }
            insta::assert_snapshot!(format!("recorded_{name}"), text);
        }
    }
}
