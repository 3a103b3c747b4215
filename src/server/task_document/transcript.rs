//! A request as a Markdown document: the text of what its events come to. Pure, and the same for the same events,
//! however they come in.
//!
//! What is over stands in the part that only grows. What runs or waits stands behind it and is rewritten
//! each time, so that a document grows at its end and changes nowhere else.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use super::prompt::HEADING;
use crate::markdown::{code, fenced, line, prose, quote};
use crate::view::{
    ApprovalEnd, CallResult, CallTarget, MessageRole, OpenItem, Prompt, RequestView, TaskView, Update,
    VOID_LINE, approval_end, kept_line, restored_line, retry_line, ruled_line, shortened_line,
};
use roo_engine::engine::clock::time_of_day;
use roo_protocol::checkpoint::RestoreWhat;
use roo_protocol::event::EventParams;
use roo_protocol::ids::{ApprovalId, TaskId, ToolCallId};
use roo_protocol::message::{Message, Say};
use roo_protocol::task::{PendingApproval, PendingQuestion, TaskState};
use roo_text::render::counted;
use roo_workspace::{file_uri, path_of};

/// Kind of a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarkKind {
    /// The heading of a task's section; the section goes on to the next one.
    Section(TaskId),
    /// The heading of what waits, by its id.
    Asked(String),
    /// The line of a finished call.
    Call(TaskId, ToolCallId),
    /// What the user said, by the number of its event.
    Said(u64),
    /// Name of a file.
    Link(String),
}

/// A part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TextMark {
    pub(super) kind: MarkKind,
    /// In bytes.
    pub(super) range: Range<usize>,
}

/// The document without its user's part: all up to and with the heading of that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rendering {
    pub(super) text: String,
    pub(super) marks: Vec<TextMark>,
}

/// A text that is written block by block.
#[derive(Clone, Debug, Default)]
struct Page {
    /// Length of the text before this one.
    base: usize,
    text: String,
    marks: Vec<TextMark>,
    /// The task whose section it ends in.
    section: Option<TaskId>,
    /// True if the last block is an item of a list.
    in_list: bool,
}

impl Page {
    /// A page that goes on behind this one.
    fn behind(&self) -> Self {
        Self {
            base: self.base + self.text.len(),
            text: String::new(),
            marks: vec![],
            section: self.section.clone(),
            in_list: self.in_list,
        }
    }

    /// Writes a block; returns where it begins.
    fn block(&mut self, text: &str) -> usize {
        if self.base + self.text.len() > 0 {
            self.text.push('\n');
        }
        self.in_list = false;
        self.push(text)
    }

    /// Writes an item of a list, close to the one before it.
    fn item(&mut self, text: &str) -> usize {
        if !self.in_list {
            self.text.push('\n');
        }
        self.in_list = true;
        self.push(text)
    }

    fn push(&mut self, text: &str) -> usize {
        let start = self.base + self.text.len();
        self.text.push_str(text);
        self.text.push('\n');
        start
    }

    fn mark(&mut self, kind: MarkKind, start: usize, length: usize) {
        self.marks.push(TextMark { kind, range: start..start + length });
    }

    /// Sees to it that what follows stands in a task's section.
    fn enter(&mut self, task: &TaskId, name: &str, goes_on: bool) {
        if self.section.as_ref() == Some(task) {
            return;
        }
        let heading = format!("## {name}{}", if goes_on { " goes on" } else { "" });
        let start = self.block(&heading);
        self.mark(MarkKind::Section(task.clone()), start, heading.len());
        self.section = Some(task.clone());
    }

    /// A link from a part of the block that begins at `start`.
    fn link(&mut self, start: usize, block: &str, part: &str, uri: String) {
        if let Some(at) = block.find(part) {
            self.mark(MarkKind::Link(uri), start + at, part.len());
        }
    }
}

/// A request, and the document about it.
#[derive(Clone, Debug, Default)]
pub(super) struct MarkdownTranscript {
    /// The workspace's folders.
    roots: Vec<PathBuf>,
    view: RequestView,
    /// Finished part.
    page: Page,
    /// Messages of the user while a question of the same task waited: mostly its answer.
    held: HashMap<TaskId, String>,
    /// The numbers of the checkpoints of calls.
    checkpoints: HashMap<ToolCallId, u64>,
    /// The number of the event that is taken in.
    seq: Option<u64>,
    /// The MCP servers that do not run, each with the reason.
    servers: Vec<(String, String)>,
}

impl MarkdownTranscript {
    /// A request of which nothing is known yet, in a workspace with these folders.
    pub(super) fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, ..Self::default() }
    }

    /// Takes the MCP servers that do not run, each with the reason. Returns whether they are others than before.
    pub(super) fn set_stopped_servers(&mut self, servers: Vec<(String, String)>) -> bool {
        let has_changed = self.servers != servers;
        self.servers = servers;
        has_changed
    }

    /// The request as it is now.
    pub(super) fn view(&self) -> &RequestView {
        &self.view
    }

    /// The event before which files can be restored to, for what stands in a place of a rendering: a message of the user's
    /// behind which files changed, or a call that changed some.
    pub(super) fn restore_point(&self, rendering: &Rendering, offset: usize) -> Option<u64> {
        rendering.marks.iter().filter(|mark| mark.range.start <= offset && offset <= mark.range.end).find_map(
            |mark| match &mark.kind {
                MarkKind::Said(seq) => self.checkpoints.values().any(|later| later > seq).then_some(*seq),
                MarkKind::Call(_, call) => self.checkpoints.get(call).copied(),
                MarkKind::Section(_) | MarkKind::Asked(_) | MarkKind::Link(_) => None,
            },
        )
    }

    /// Takes in an event. `output` is what the command of a finished call has printed.
    pub(super) fn apply(&mut self, params: &EventParams, output: Option<&str>) {
        let task = &params.task_id;
        self.seq = params.seq;
        let Some(update) = self.view.apply(params) else { return };
        match update {
            Update::Created { urid, title, .. } => {
                if task.is_root() {
                    self.page.block(&format!("# {}", line(title)));
                    self.page.block(&format!("*Request {}*", line(urid.as_str())));
                }
                self.enter(task);
            }
            Update::Forked { urid, from } => {
                let (urid, other) = (line(urid.as_str()), line(from.urid.as_str()));
                self.note(task, &format!("*request {urid}, forked from {other} at event {}*", from.seq));
            }
            Update::Imported { from } => {
                let (program, id) = (line(&from.program), line(&from.task_id));
                self.note(task, &format!("*imported from {program}, task {id}*"));
            }
            Update::State { state, result, reason } => self.state_changed(task, state, result, reason),
            Update::Message { message, role } => self.message(task, message, role),
            Update::AnswerVoid { reason: Some(reason), .. } => {
                self.note(task, &format!("*cut off: {}*", line(&reason)));
            }
            // A branch begins, and has a section of its own.
            Update::CallStarted { target, .. } => {
                if target.is_delegation() {
                    self.note(task, &format!("→ {}", line(&target.subject)));
                }
            }
            Update::CallFinished { call, target, result } => {
                self.finished(task, call, target.as_ref(), result, output);
            }
            Update::CheckpointSaved { call, seq } => {
                self.checkpoints.insert(call, seq);
            }
            Update::CommandBackgrounded { command, line: text } => {
                let command = line(command.as_str());
                self.note(task, &format!("*{} continues in the background as {command}*", code(text)));
            }
            Update::CommandEnded { command, result } => {
                let (mark, command) = (result.ending().mark(), line(command.as_str()));
                self.note(task, &format!("*{mark} {command} has ended: {}*", line(result.summary)));
            }
            Update::ApprovalResolved { approval: Some(approval), by, option_id, rule } => {
                let answer = match approval_end(Some(&approval), option_id, rule) {
                    ApprovalEnd::Chosen { id, option } => {
                        let name = option.map_or(id, |option| &option.name);
                        format!("**{}**, said {}", line(name), line(by))
                    }
                    ApprovalEnd::ByRule(rule) => format!("*{}*", ruled_line(&line(rule))),
                    ApprovalEnd::Void => format!("*{VOID_LINE}*"),
                };
                self.enter(task);
                approval_block(&mut self.page, &approval, ApprovalStage::Answered(&answer));
            }
            Update::QuestionAnswered { question: Some(question), by, text } => {
                let held = self.held.remove(task);
                self.enter(task);
                question_block(&mut self.page, &question, false);
                let answer = match text {
                    Some(text) => format!("{}\n>\n> — {}", quote(text), line(by)),
                    None => format!("*{VOID_LINE}*"),
                };
                self.page.block(&answer);
                if let Some(said) = held.filter(|held| Some(held.as_str()) != text) {
                    self.said(task, &said);
                }
            }
            Update::Edited { uri } => {
                let name = self.name_of(uri);
                self.enter(task);
                let item = format!("- changed {}", code(&name));
                let start = self.page.item(&item);
                self.page.link(start, &item, &name, uri.to_owned());
            }
            Update::Switched { mode, profile } => {
                let what = [("mode", mode), ("profile", profile)];
                let what = what.iter().filter_map(|(what, name)| Some(format!("the {what} {}", (*name)?)));
                let text = format!("*continues with {}*", what.collect::<Vec<_>>().join(" and "));
                self.note(task, &text);
            }
            Update::RestoreStarted { seq, what, files } => {
                self.note(task, &format!("*{}*", restored(seq, what, files)));
            }
            Update::RestoreFailed { reason } => {
                self.note(task, &format!("*nothing was restored: {}*", line(reason)));
            }
            Update::IntentSelected { id, name } => {
                self.note(task, &format!("*works on the intent {}: {}*", line(id), line(name)));
            }
            Update::Todo(items) => {
                self.enter(task);
                let items =
                    items.iter().map(|item| format!("- {} {}", item.status.mark(), line(&item.content)));
                let list = items.collect::<Vec<_>>().join("\n");
                self.page.block(if list.is_empty() { "*nothing to do*" } else { &list });
            }
            Update::ContextShortened { method, tokens_before, tokens_after, cost_usd } => {
                let text = shortened_line(method, tokens_before, tokens_after, cost_usd);
                self.note(task, &format!("*{text}*"));
            }
            Update::ContextRestored { tokens_before, tokens_after } => {
                self.note(task, &format!("*{}*", restored_line(tokens_before, tokens_after)));
            }
            Update::ContextKept { reason } => {
                self.note(task, &format!("*{}*", kept_line(&line(reason))));
            }
            Update::RetryScheduled { at, attempt, reason } => {
                let follows = retry_line(attempt, &format!("at {}", time_of_day(at)));
                self.note(task, &format!("*{follows}: {}*", line(reason)));
            }
            // What is open, what waits and what the server warns of stand behind the page.
            Update::Silent
            | Update::Tree
            | Update::ContextShortening { .. }
            | Update::MessageGrows { .. }
            | Update::ModelAsked
            | Update::AnswerVoid { reason: None, .. }
            | Update::CallOutput { .. }
            | Update::CallRefused { .. }
            | Update::ApprovalRequested(_)
            | Update::ApprovalResolved { approval: None, .. }
            | Update::QuestionAsked(_)
            | Update::QuestionAnswered { question: None, .. }
            | Update::Warning { .. }
            | Update::Recovered => {}
        }
    }

    /// The document as it is now.
    pub(super) fn render(&self) -> Rendering {
        let mut tail = self.page.behind();
        // What belongs to the section that is open needs no heading.
        let section = self.page.section.clone();
        let here = self.view.open().filter(|(task, _)| Some(*task) == section.as_ref());
        let elsewhere = self.view.open().filter(|(task, _)| Some(*task) != section.as_ref());
        let order = self.approvals_in_order();
        for (task, item) in here.chain(elsewhere) {
            // A branch tells for itself what it does.
            if !matches!(item, OpenItem::Call(call) if call.target.is_delegation()) {
                self.enter_on(&mut tail, task);
                Self::open_block(&mut tail, item, &order);
            }
        }
        for task in self.view.tasks() {
            for item in &task.queue {
                self.enter_on(&mut tail, &task.id);
                tail.block(&format!("{}\n>\n> — waits for {}", quote(&item.text), task.name()));
            }
        }
        if let Some(root) = self.view.root() {
            let advice = match root.state {
                TaskState::Interrupted => Some("*Interrupted. Resume it to go on.*"),
                TaskState::Cancelled | TaskState::Failed => {
                    Some("*It has ended. Resume it, or write a message below.*")
                }
                _ => None,
            };
            if let Some(advice) = advice {
                tail.block(advice);
            }
        }
        let is_over = self.view.root().is_none_or(|root| root.state.is_final());
        if !is_over && !self.servers.is_empty() {
            tail.block("**MCP servers that do not run:**");
            for (server, reason) in &self.servers {
                tail.item(&format!("- {}: {}", line(server), line(reason)));
            }
        }
        for warning in self.view.warnings() {
            tail.block(&format!("**Warning:** {}", line(warning)));
        }
        let marks = self.page.marks.iter().chain(&tail.marks).cloned().collect();
        let (stable, tail) = (&self.page.text, &tail.text);
        Rendering { text: [stable.as_str(), tail, HEADING].concat(), marks }
    }

    /// The approvals that wait, in the order in which every client shows them.
    fn approvals_in_order(&self) -> Vec<ApprovalId> {
        let approvals = self.view.open().filter_map(|(_, item)| match item {
            OpenItem::Prompt(Prompt::Approval(approval)) => Some(approval.approval_id.clone()),
            _ => None,
        });
        let mut order: Vec<ApprovalId> = approvals.collect();
        order.sort_by_key(ApprovalId::number);
        order
    }

    /// Goes on in a task's section.
    fn enter(&mut self, task: &TaskId) {
        let (name, goes_on) = self.heading(&self.page, task);
        self.page.enter(task, &name, goes_on);
    }

    fn enter_on(&self, page: &mut Page, task: &TaskId) {
        let (name, goes_on) = self.heading(page, task);
        page.enter(task, &name, goes_on);
    }

    fn heading(&self, page: &Page, task: &TaskId) -> (String, bool) {
        let name = self.view.task(task).map_or_else(|| task.to_string(), TaskView::name);
        let section = MarkKind::Section(task.clone());
        let mut marks = self.page.marks.iter().chain(&page.marks);
        (name, marks.any(|mark| mark.kind == section))
    }

    fn note(&mut self, task: &TaskId, text: &str) {
        self.enter(task);
        self.page.block(text);
    }

    fn said(&mut self, task: &TaskId, text: &str) {
        self.enter(task);
        let block = quote(text);
        let start = self.page.block(&block);
        if let Some(seq) = self.seq {
            self.page.mark(MarkKind::Said(seq), start, block.len());
        }
    }

    fn state_changed(&mut self, task: &TaskId, state: TaskState, result: Option<&str>, reason: Option<&str>) {
        let text = match (state, result.or(reason)) {
            (TaskState::Completed, Some(result)) => format!("**Completed:**\n\n{}", prose(result)),
            (TaskState::Failed, Some(reason)) => format!("**Failed:** {}", prose(reason)),
            (TaskState::Cancelled, Some(reason)) if reason != "cancelled" => {
                format!("**Cancelled:** {}", prose(reason))
            }
            (TaskState::Completed, None) => "**Completed**".to_owned(),
            (TaskState::Failed, None) => "**Failed**".to_owned(),
            (TaskState::Cancelled, _) => "**Cancelled**".to_owned(),
            (TaskState::Running, None) => "*goes on*".to_owned(),
            // Steps on the way, and what stands at the end anyway.
            _ => return,
        };
        self.note(task, &text);
    }

    fn message(&mut self, task: &TaskId, message: &Message, role: MessageRole) {
        match role {
            MessageRole::Answer => {
                let text = prose(&message.text);
                if !text.trim().is_empty() {
                    self.note(task, &text);
                }
            }
            MessageRole::Prompt | MessageRole::Brief => self.said(task, &message.text),
            MessageRole::Feedback => {
                let asks = self
                    .view
                    .prompts()
                    .any(|(owner, prompt)| owner == task && matches!(prompt, Prompt::Question(_)));
                if asks && self.view.task(task).is_some() {
                    self.held.insert(task.clone(), message.text.clone());
                } else {
                    self.said(task, &message.text);
                }
            }
            MessageRole::Reasoning if !message.text.trim().is_empty() => {
                self.note(task, &thought(&message.text));
            }
            MessageRole::Note => {
                self.note(task, &format!("**Note:** {}", prose(&message.text)));
            }
            // Calls are shown while they run, results with the state.
            MessageRole::Reasoning
            | MessageRole::Result
            | MessageRole::FinalError
            | MessageRole::Call
            | MessageRole::Command
            | MessageRole::Question
            | MessageRole::Internal => {}
        }
    }

    fn finished(
        &mut self,
        task: &TaskId,
        call: &ToolCallId,
        target: Option<&CallTarget>,
        result: CallResult<'_>,
        output: Option<&str>,
    ) {
        let (mark, summary) = (result.ending().mark(), result.summary);
        let item = match target {
            Some(target) if target.is_delegation() => {
                return self.note(task, &format!("← {mark} {}", line(summary)));
            }
            // What only steers the conversation is told by what it does.
            None if result.is_success() => return,
            None => format!("- {mark} {}", line(summary)),
            Some(CallTarget { name, subject, .. }) if subject.is_empty() => {
                format!("- {mark} {name}: {}", line(summary))
            }
            Some(CallTarget { name, subject, .. }) => {
                format!("- {mark} {name} {}: {}", code(subject), line(summary))
            }
        };
        self.enter(task);
        let start = self.page.item(&item);
        self.page.mark(MarkKind::Call(task.clone(), call.clone()), start, item.len());
        if let Some(file) = target.and_then(CallTarget::file)
            && let Some(root) = self.roots.first()
        {
            self.page.link(start, &item, file, file_uri(&root.join(file)));
        }
        if let Some(output) = output.filter(|output| !output.trim().is_empty()) {
            self.page.block(&fenced("", output));
        }
    }

    fn open_block(page: &mut Page, item: &OpenItem, order: &[ApprovalId]) {
        match item {
            OpenItem::Message(message) => match message.say {
                Say::Reasoning => {
                    page.block(&thought(&message.text));
                }
                Say::Tool => {
                    let (name, arguments) = message.text.split_once('\n').unwrap_or((&message.text, ""));
                    let size = arguments.len();
                    page.item(&format!("- … {} ({size} bytes so far)", line(name)));
                }
                _ => {
                    page.block(&prose(&message.text));
                }
            },
            OpenItem::Call(call) => {
                let CallTarget { name, subject, .. } = &call.target;
                let subject = if subject.is_empty() { String::new() } else { format!(" {}", code(subject)) };
                page.item(&format!("- … {name}{subject}"));
                if call.has_output() {
                    page.block(&fenced("", &call.last_lines().join("\n")));
                }
            }
            OpenItem::Prompt(Prompt::Approval(approval)) => {
                let position = order.iter().position(|id| *id == approval.approval_id);
                let number = position.filter(|_| order.len() > 1).map(|index| (index + 1, order.len()));
                approval_block(page, approval, ApprovalStage::Waits { number });
            }
            OpenItem::Prompt(Prompt::Question(question)) => question_block(page, question, true),
        }
    }

    /// A file's path below the first folder that it is in, else its URI.
    fn name_of(&self, uri: &str) -> String {
        let Some(path) = path_of(uri) else { return uri.to_owned() };
        let below = self.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        below.unwrap_or(&path).to_string_lossy().into_owned()
    }
}

/// Tells of a restore that the user has asked for.
fn restored(seq: u64, what: RestoreWhat, files: usize) -> String {
    let files = counted(files, "file");
    match what {
        RestoreWhat::Files => format!("restores {files} to before {seq}"),
        RestoreWhat::Conversation => format!("takes the conversation back to before {seq}"),
        RestoreWhat::Both => format!("takes the conversation and {files} back to before {seq}"),
    }
}

/// Formats a model's reasoning.
fn thought(text: &str) -> String {
    format!("> *thinks*\n>\n{}", quote(text))
}

/// What has become of an approval.
#[derive(Clone, Copy)]
enum ApprovalStage<'a> {
    /// With its answer.
    Answered(&'a str),
    /// With its number among those that wait, if there are several.
    Waits { number: Option<(usize, usize)> },
}

/// An approval, with its answer or with what may be answered.
fn approval_block(page: &mut Page, approval: &PendingApproval, stage: ApprovalStage<'_>) {
    let title = line(&approval.title);
    match stage {
        ApprovalStage::Answered(answer) => {
            page.block(&format!("**{title}** — {answer}"));
        }
        ApprovalStage::Waits { number } => {
            let number = number.map(|(number, all)| format!(" ({number} of {all})")).unwrap_or_default();
            let heading = format!("### Waits for you: {title}{number}");
            let start = page.block(&heading);
            page.mark(MarkKind::Asked(approval.approval_id.to_string()), start, heading.len());
            page.block(&format!("Asked because: {}", line(&approval.reason)));
        }
    }
    if !approval.subject.trim().is_empty() {
        let is_diff = approval.subject.starts_with("--- ");
        page.block(&fenced(if is_diff { "diff" } else { "" }, &approval.subject));
    }
    if matches!(stage, ApprovalStage::Waits { .. }) {
        let options = (1..).zip(&approval.options);
        let options = options.map(|(number, option)| format!("{number}. {}", line(&option.name)));
        page.block(&options.collect::<Vec<_>>().join("\n"));
    }
}

/// A question with its suggestions.
fn question_block(page: &mut Page, question: &PendingQuestion, waits: bool) {
    let text = question.text.trim();
    let title = line(first_line(text));
    // If the heading is cut, the whole text follows it.
    let behind =
        if title.ends_with('…') { Some(text) } else { text.split_once('\n').map(|(_, rest)| rest) };
    let heading = format!("### Question: {title}");
    let start = page.block(&heading);
    if waits {
        page.mark(MarkKind::Asked(question.question_id.to_string()), start, heading.len());
    }
    if let Some(behind) = behind {
        page.block(&prose(behind));
    }
    let suggestions = (1..).zip(&question.suggestions);
    let suggestions =
        suggestions.map(|(number, suggestion)| format!("{number}. {}", line(&suggestion.label())));
    let suggestions = suggestions.collect::<Vec<_>>().join("\n");
    if !suggestions.is_empty() {
        page.block(&suggestions);
    }
}

fn first_line(text: &str) -> &str {
    text.trim().lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests;
