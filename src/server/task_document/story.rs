//! A request as a Markdown document: its events folded, and the text of what they come to. Pure, and the
//! same for the same events, however they come in.
//!
//! What is over stands in the part that only grows. What runs or waits stands behind it and is written anew
//! each time, so that a document grows at its end and changes nowhere else.

use std::collections::HashMap;
use std::ops::Range;
use std::path::PathBuf;

use super::markdown::{code, fenced, line, prose, quote};
use super::prompt::HEADING;
use roo_engine::engine::clock::time_of_day;
use roo_protocol::event::{ApprovalOption, Event, EventParams, ToolStatus};
use roo_protocol::ids::{CommandId, TaskId, ToolCallId};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::task::{PendingApproval, PendingQuestion, QueueItem, TaskState, ToolUsage, Usage};
use roo_text::render::one_line;
use roo_workspace::{file_uri, path_of};

/// The longest title of a task in a heading, in characters.
const TITLE: usize = 80;
/// Number of lines of running output that are shown.
const OUTPUT: usize = 20;
/// Tools whose subject is the path of one file.
const OF_FILES: &[&str] =
    &["read_file", "write_to_file", "apply_diff", "search_and_replace", "insert_content", "edit_file"];

/// One task of a request, as far as its events tell.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Invocation {
    pub(super) id: TaskId,
    pub(super) parent: Option<TaskId>,
    pub(super) emoji: String,
    pub(super) title: String,
    pub(super) mode: String,
    pub(super) state: TaskState,
    /// Reason why it is in its state, where that isn't plain.
    pub(super) reason: Option<String>,
    pub(super) result: Option<String>,
    pub(super) usage: Usage,
    pub(super) tool_usage: ToolUsage,
    queue: Vec<QueueItem>,
    /// Message of the user while a question waited: mostly its answer.
    held: Option<String>,
}

impl Invocation {
    /// Returns its name.
    pub(super) fn name(&self) -> String {
        let title = one_line(&self.title, TITLE);
        let name = if self.id.is_root() { self.mode.clone() } else { format!("{title} ({})", self.mode) };
        if self.emoji.is_empty() { name } else { format!("{} {name}", self.emoji) }
    }
}

/// Approval or question that waits for the user.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum OpenQuestion {
    Approval(PendingApproval),
    Question(PendingQuestion),
}

impl OpenQuestion {
    pub(super) fn id(&self) -> &str {
        match self {
            Self::Approval(approval) => approval.approval_id.as_str(),
            Self::Question(question) => question.question_id.as_str(),
        }
    }

    /// Returns its title, on one line.
    pub(super) fn title(&self) -> String {
        match self {
            Self::Approval(approval) => one_line(&approval.title, TITLE),
            Self::Question(question) => one_line(&question.text, TITLE * 2),
        }
    }
}

/// Entry that is not over.
#[derive(Clone, Debug)]
enum Open {
    Message { id: String, say: Say, text: String },
    Tool { call: ToolCallId, name: String, subject: String, output: String },
    Asked(OpenQuestion),
}

/// Kind of a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MarkKind {
    /// The heading of a task's section; the section goes on to the next one.
    Section(TaskId),
    /// The heading of what waits, by its id.
    Asked(String),
    /// The line of a finished call.
    Call(TaskId, ToolCallId),
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

/// All events of a request so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Story {
    /// The workspace's folders.
    roots: Vec<PathBuf>,
    tasks: Vec<Invocation>,
    /// Finished part.
    page: Page,
    open: Vec<(TaskId, Open)>,
    /// Names and subjects of the calls that began.
    calls: HashMap<(TaskId, ToolCallId), (String, String)>,
    /// The commands in the background, with their lines.
    commands: Vec<(CommandId, String)>,
    /// Warning of the server as a whole.
    warning: Option<String>,
}

impl Story {
    /// A request of which nothing is known yet, in a workspace with these folders.
    pub(super) fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, ..Self::default() }
    }

    /// All tasks, parents before children.
    pub(super) fn tasks(&self) -> &[Invocation] {
        &self.tasks
    }

    pub(super) fn task(&self, id: &TaskId) -> Option<&Invocation> {
        self.tasks.iter().find(|task| task.id == *id)
    }

    /// The request's own task.
    pub(super) fn root(&self) -> Option<&Invocation> {
        self.tasks.first()
    }

    /// Returns what waits for the user, oldest first.
    pub(super) fn asked(&self) -> impl Iterator<Item = (&TaskId, &OpenQuestion)> {
        self.open.iter().filter_map(|(task, open)| match open {
            Open::Asked(asked) => Some((task, asked)),
            _ => None,
        })
    }

    /// Returns whether a call that has begun runs a command.
    pub(super) fn is_command(&self, task: &TaskId, call: &ToolCallId) -> bool {
        let call = self.calls.get(&(task.clone(), call.clone()));
        call.is_some_and(|(name, _)| name == "execute_command")
    }

    /// The commands in the background, with their lines.
    pub(super) fn commands(&self) -> &[(CommandId, String)] {
        &self.commands
    }

    /// The task that runs a command in the foreground.
    pub(super) fn runs_command(&self) -> Option<&TaskId> {
        self.open.iter().find_map(|(task, open)| match open {
            Open::Tool { name, .. } if name == "execute_command" => Some(task),
            _ => None,
        })
    }

    /// Takes in an event. `output` is what the command of a finished call has printed.
    pub(super) fn tell(&mut self, params: &EventParams, output: Option<&str>) {
        let task = &params.task_id;
        match &params.event {
            Event::TaskCreated { parent_id, urid, mode, title, emoji } => {
                self.created(task, parent_id.clone(), urid.as_str(), mode, title, emoji);
            }
            Event::TaskState { state, result, reason, usage, tool_usage } => {
                self.stands(task, *state, result.as_deref(), reason.as_deref());
                if let Some(invocation) = self.task_mut(task) {
                    invocation.usage = usage.unwrap_or(invocation.usage);
                    if !tool_usage.is_empty() {
                        invocation.tool_usage = tool_usage.clone();
                    }
                }
            }
            Event::Message { message } => self.message(task, message),
            Event::MessageDelta { id, say, offset, text } => {
                self.grow(task, id.as_str(), *say, *offset, text)
            }
            Event::ToolOutput { tool_call_id, text, .. } => {
                for (owner, open) in &mut self.open {
                    if let Open::Tool { call, output, .. } = open
                        && call == tool_call_id
                        && owner == task
                    {
                        output.push_str(text);
                        let lines = output.lines().count();
                        if lines > OUTPUT * 4 {
                            let kept: Vec<&str> = output.split_inclusive('\n').collect();
                            *output = kept[kept.len() - OUTPUT..].concat();
                        }
                    }
                }
            }
            Event::ToolStarted { tool_call_id, name, subject } => {
                self.started(task, tool_call_id, name, subject);
            }
            Event::ToolFinished { tool_call_id, status, summary, .. } => {
                self.finished(task, tool_call_id, *status, summary, output);
            }
            Event::CommandBackgrounded { command_id, command, .. } => {
                self.commands.push((command_id.clone(), command.clone()));
                let text = format!(
                    "*{} continues in the background as {}*",
                    code(command),
                    line(command_id.as_str())
                );
                self.note(task, &text);
            }
            Event::CommandEnded { command_id, summary, .. } => {
                self.commands.retain(|(id, _)| id != command_id);
                self.note(task, &format!("*{} has ended: {}*", line(command_id.as_str()), line(summary)));
            }
            Event::ApprovalRequested { approval } => self.ask(task, OpenQuestion::Approval(approval.clone())),
            Event::QuestionAsked { question } => self.ask(task, OpenQuestion::Question(question.clone())),
            Event::ApprovalResolved { approval_id, by, option_id } => {
                if let Some(OpenQuestion::Approval(approval)) = self.answered(approval_id.as_str()) {
                    let chosen =
                        approval.options.iter().find(|option| Some(&option.id) == option_id.as_ref());
                    let answer = match (option_id, chosen) {
                        (None, _) => "*no longer asked*".to_owned(),
                        (_, Some(ApprovalOption { name, .. })) => {
                            format!("**{}**, said {}", line(name), line(by))
                        }
                        (Some(id), None) => format!("**{}**, said {}", line(id), line(by)),
                    };
                    self.enter(task);
                    approval_block(&mut self.page, &approval, Some(&answer));
                }
            }
            Event::QuestionAnswered { question_id, by, text } => {
                if let Some(OpenQuestion::Question(question)) = self.answered(question_id.as_str()) {
                    let held = self.task_mut(task).and_then(|task| task.held.take());
                    self.enter(task);
                    question_block(&mut self.page, &question, false);
                    let answer = match text {
                        Some(text) => format!("{}\n>\n> — {}", quote(text), line(by)),
                        None => "*no longer asked*".to_owned(),
                    };
                    self.page.block(&answer);
                    if let Some(said) = held.filter(|held| Some(held) != text.as_ref()) {
                        self.said(task, &said);
                    }
                }
            }
            Event::EditApplied { uri, .. } => {
                let name = self.name_of(uri);
                self.enter(task);
                let item = format!("- changed {}", code(&name));
                let start = self.page.item(&item);
                self.page.link(start, &item, &name, uri.clone());
            }
            Event::ModeSwitched { mode, profile } => {
                if let (Some(invocation), Some(mode)) = (self.task_mut(task), mode) {
                    invocation.mode.clone_from(mode);
                }
                let what = [("mode", mode), ("profile", profile)];
                let what =
                    what.iter().filter_map(|(what, name)| Some(format!("the {what} {}", name.as_ref()?)));
                let text = format!("*continues with {}*", what.collect::<Vec<_>>().join(" and "));
                self.note(task, &text);
            }
            Event::IntentSelected { intent_id, name, .. } => {
                self.note(task, &format!("*works on the intent {}: {}*", line(intent_id), line(name)));
            }
            Event::TodoChanged { items } => {
                self.enter(task);
                let items =
                    items.iter().map(|item| format!("- {} {}", item.status.mark(), line(&item.content)));
                let list = items.collect::<Vec<_>>().join("\n");
                self.page.block(if list.is_empty() { "*nothing to do*" } else { &list });
            }
            Event::QueueChanged { items } => {
                if let Some(invocation) = self.task_mut(task) {
                    invocation.queue.clone_from(items);
                }
            }
            Event::Usage { total } => {
                if let Some(invocation) = self.task_mut(task) {
                    invocation.usage = *total;
                }
            }
            Event::RetryScheduled { at, attempt, reason } => {
                let time = time_of_day(*at);
                self.note(task, &format!("*attempt {attempt} follows at {time}: {}*", line(reason)));
            }
            Event::ServerDegraded { reason } => self.warning = Some(reason.clone()),
            Event::GateDecided { .. } | Event::TreeChanged { .. } | Event::Unknown => {}
        }
    }

    /// The document as it is now.
    pub(super) fn render(&self) -> Rendering {
        let mut tail = self.page.behind();
        // What belongs to the section that is open needs no heading.
        let section = self.page.section.clone();
        let here = self.open.iter().filter(|(task, _)| Some(task) == section.as_ref());
        let elsewhere = self.open.iter().filter(|(task, _)| Some(task) != section.as_ref());
        for (task, open) in here.chain(elsewhere) {
            self.enter_on(&mut tail, task);
            Self::open_block(&mut tail, open);
        }
        for invocation in &self.tasks {
            for item in &invocation.queue {
                self.enter_on(&mut tail, &invocation.id);
                tail.block(&format!("{}\n>\n> — waits for {}", quote(&item.text), invocation.name()));
            }
        }
        if let Some(root) = self.root() {
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
        if let Some(warning) = &self.warning {
            tail.block(&format!("**Warning:** {}", line(warning)));
        }
        let marks = self.page.marks.iter().chain(&tail.marks).cloned().collect();
        let (stable, tail) = (&self.page.text, &tail.text);
        Rendering { text: [stable.as_str(), tail, HEADING].concat(), marks }
    }

    fn task_mut(&mut self, id: &TaskId) -> Option<&mut Invocation> {
        self.tasks.iter_mut().find(|task| task.id == *id)
    }

    fn created(
        &mut self,
        id: &TaskId,
        parent: Option<TaskId>,
        urid: &str,
        mode: &str,
        title: &str,
        emoji: &str,
    ) {
        if id.is_root() {
            self.page.block(&format!("# {}", line(title)));
            self.page.block(&format!("*Request {}*", line(urid)));
        }
        self.tasks.push(Invocation {
            id: id.clone(),
            parent,
            emoji: emoji.to_owned(),
            title: title.to_owned(),
            mode: mode.to_owned(),
            state: TaskState::Running,
            reason: None,
            result: None,
            usage: Usage::default(),
            tool_usage: ToolUsage::default(),
            queue: vec![],
            held: None,
        });
        self.enter(id);
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
        let name = self.task(task).map_or_else(|| task.to_string(), Invocation::name);
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
        self.page.block(&quote(text));
    }

    fn ask(&mut self, task: &TaskId, asked: OpenQuestion) {
        self.set_state(task, TaskState::Waiting, None);
        // One thing at a time: what is asked again after an interruption takes the place of what was.
        self.open.retain(|(owner, open)| owner != task || !matches!(open, Open::Asked(_)));
        self.open.push((task.clone(), Open::Asked(asked)));
    }

    /// Takes what was asked out of what waits.
    fn answered(&mut self, id: &str) -> Option<OpenQuestion> {
        let is_it = |(_, open): &(TaskId, Open)| matches!(open, Open::Asked(asked) if asked.id() == id);
        let (task, open) = self.open.remove(self.open.iter().position(is_it)?);
        self.set_state(&task, TaskState::Running, None);
        match open {
            Open::Asked(asked) => Some(asked),
            Open::Message { .. } | Open::Tool { .. } => None,
        }
    }

    fn set_state(&mut self, task: &TaskId, state: TaskState, reason: Option<&str>) {
        if let Some(invocation) = self.task_mut(task) {
            invocation.state = state;
            invocation.reason = reason.map(str::to_owned);
        }
    }

    fn stands(&mut self, task: &TaskId, state: TaskState, result: Option<&str>, reason: Option<&str>) {
        self.set_state(task, state, reason);
        if let (Some(invocation), Some(result)) = (self.task_mut(task), result) {
            invocation.result = Some(result.to_owned());
        }
        let over = state.is_final() || state == TaskState::Interrupted;
        if over {
            // An approval that waits still waits once the task is resumed.
            let ends = state.is_final();
            self.open.retain(|(owner, open)| owner != task || (!ends && matches!(open, Open::Asked(_))));
        }
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

    fn message(&mut self, task: &TaskId, message: &Message) {
        let id = message.id.as_str();
        if message.kind == MessageKind::Say(Say::ApiReqStarted) {
            return self.request(task, id, &message.text);
        }
        self.open.retain(|(owner, open)| {
            owner != task || !matches!(open, Open::Message { id: open, .. } if open == id)
        });
        let is_models = id.starts_with('r');
        match message.kind {
            MessageKind::Say(Say::Text) if is_models => {
                let text = prose(&message.text);
                if !text.trim().is_empty() {
                    self.note(task, &text);
                }
            }
            MessageKind::Say(Say::Text) => self.said(task, &message.text),
            MessageKind::Say(Say::UserFeedback) => {
                let asks = self
                    .asked()
                    .any(|(owner, asked)| owner == task && matches!(asked, OpenQuestion::Question(_)));
                match self.task_mut(task).filter(|_| asks) {
                    Some(invocation) => invocation.held = Some(message.text.clone()),
                    None => self.said(task, &message.text),
                }
            }
            MessageKind::Say(Say::Reasoning) if !message.text.trim().is_empty() => {
                self.note(task, &thought(&message.text));
            }
            MessageKind::Say(Say::Error) if !id.ends_with(".end") => {
                self.note(task, &format!("**Error:** {}", prose(&message.text)));
            }
            // Calls are told as they run, results with the state.
            _ => {}
        }
    }

    /// A model request began, or failed: then what came of it is void.
    fn request(&mut self, task: &TaskId, id: &str, payload: &str) {
        let payload: serde_json::Value = serde_json::from_str(payload).unwrap_or_default();
        if payload.get("cancelReason").is_none() {
            return;
        }
        let prefix = format!("{id}.");
        self.open.retain(|(owner, open)| {
            owner != task || !matches!(open, Open::Message { id, .. } if id.starts_with(&prefix))
        });
        if let Some(reason) = payload.get("streamingFailedMessage").and_then(serde_json::Value::as_str)
            && !reason.is_empty()
        {
            self.note(task, &format!("*cut off: {}*", line(reason)));
        }
    }

    fn grow(&mut self, task: &TaskId, id: &str, say: Say, offset: u64, more: &str) {
        let begin = usize::try_from(offset).unwrap_or(usize::MAX);
        for (owner, open) in &mut self.open {
            if let Open::Message { id: open, text, .. } = open
                && open == id
                && owner == task
            {
                // What is missing comes with the whole message.
                if text.len() == begin {
                    text.push_str(more);
                }
                return;
            }
        }
        if begin == 0 {
            let open = Open::Message { id: id.to_owned(), say, text: more.to_owned() };
            self.open.push((task.clone(), open));
        }
    }

    fn started(&mut self, task: &TaskId, call: &ToolCallId, name: &str, subject: &str) {
        self.calls.insert((task.clone(), call.clone()), (name.to_owned(), subject.to_owned()));
        if name == "new_task" {
            self.set_state(task, TaskState::Paused, None);
            return self.note(task, &format!("→ {}", line(subject)));
        }
        let (name, subject, output) = (name.to_owned(), subject.to_owned(), String::new());
        self.open.push((task.clone(), Open::Tool { call: call.clone(), name, subject, output }));
    }

    fn finished(
        &mut self,
        task: &TaskId,
        call: &ToolCallId,
        status: ToolStatus,
        summary: &str,
        output: Option<&str>,
    ) {
        self.open.retain(|(owner, open)| {
            owner != task || !matches!(open, Open::Tool { call: open, .. } if open == call)
        });
        let known = self.calls.remove(&(task.clone(), call.clone()));
        let mark = match status {
            ToolStatus::Ok => "✓",
            ToolStatus::Skipped => "–",
            ToolStatus::Failed | ToolStatus::Denied | ToolStatus::Interrupted => "✗",
        };
        if let Some((name, _)) = &known
            && name == "new_task"
        {
            self.set_state(task, TaskState::Running, None);
            return self.note(task, &format!("← {mark} {}", line(summary)));
        }
        if known.is_none() && status == ToolStatus::Ok {
            // What only steers the conversation is told by what it does.
            return;
        }
        self.enter(task);
        let subject = known.as_ref().map(|(name, subject)| (name.as_str(), subject.as_str()));
        let item = match subject {
            Some((name, "")) => format!("- {mark} {name}: {}", line(summary)),
            Some((name, subject)) => format!("- {mark} {name} {}: {}", code(subject), line(summary)),
            None => format!("- {mark} {}", line(summary)),
        };
        let start = self.page.item(&item);
        self.page.mark(MarkKind::Call(task.clone(), call.clone()), start, item.len());
        if let Some((name, subject)) = subject
            && let Some(uri) = self.uri_of(name, subject)
        {
            self.page.link(start, &item, subject, uri);
        }
        if let Some(output) = output.filter(|output| !output.trim().is_empty()) {
            self.page.block(&fenced("", output));
        }
    }

    fn open_block(page: &mut Page, open: &Open) {
        match open {
            Open::Message { say: Say::Reasoning, text, .. } => {
                page.block(&thought(text));
            }
            Open::Message { say: Say::Tool, text, .. } => {
                let (name, arguments) = text.split_once('\n').unwrap_or((text, ""));
                let size = arguments.len();
                page.item(&format!("- … {} ({size} bytes so far)", line(name)));
            }
            Open::Message { text, .. } => {
                page.block(&prose(text));
            }
            Open::Tool { name, subject, output, .. } => {
                let subject = if subject.is_empty() { String::new() } else { format!(" {}", code(subject)) };
                page.item(&format!("- … {name}{subject}"));
                if !output.trim().is_empty() {
                    let lines: Vec<&str> = output.lines().collect();
                    page.block(&fenced("", &lines[lines.len().saturating_sub(OUTPUT)..].join("\n")));
                }
            }
            Open::Asked(OpenQuestion::Approval(approval)) => approval_block(page, approval, None),
            Open::Asked(OpenQuestion::Question(question)) => question_block(page, question, true),
        }
    }

    /// A file's path below the first folder that it is in, else its URI.
    fn name_of(&self, uri: &str) -> String {
        let Some(path) = path_of(uri) else { return uri.to_owned() };
        let below = self.roots.iter().find_map(|root| path.strip_prefix(root).ok());
        below.unwrap_or(&path).to_string_lossy().into_owned()
    }

    fn uri_of(&self, tool: &str, subject: &str) -> Option<String> {
        let root = self.roots.first()?;
        (OF_FILES.contains(&tool) && !subject.contains('\n')).then(|| file_uri(&root.join(subject)))
    }
}

/// Formats a model's reasoning.
fn thought(text: &str) -> String {
    format!("> *thinks*\n>\n{}", quote(text))
}

/// An approval, with its answer or with what may be answered.
fn approval_block(page: &mut Page, approval: &PendingApproval, answer: Option<&str>) {
    let title = line(&approval.title);
    match answer {
        Some(answer) => {
            page.block(&format!("**{title}** — {answer}"));
        }
        None => {
            let heading = format!("### Waits for you: {title}");
            let start = page.block(&heading);
            page.mark(MarkKind::Asked(approval.approval_id.to_string()), start, heading.len());
            page.block(&format!("Asked because: {}", line(&approval.reason)));
        }
    }
    if !approval.subject.trim().is_empty() {
        let is_diff = approval.subject.starts_with("--- ");
        page.block(&fenced(if is_diff { "diff" } else { "" }, &approval.subject));
    }
    if answer.is_none() {
        let options = (1..).zip(&approval.options);
        let options = options.map(|(number, option)| format!("{number}. {}", line(&option.name)));
        page.block(&options.collect::<Vec<_>>().join("\n"));
    }
}

/// A question with its suggestions.
fn question_block(page: &mut Page, question: &PendingQuestion, waits: bool) {
    let heading = format!("### Question: {}", line(first_line(&question.text)));
    let start = page.block(&heading);
    if waits {
        page.mark(MarkKind::Asked(question.question_id.to_string()), start, heading.len());
    }
    if let Some((_, rest)) = question.text.trim().split_once('\n') {
        page.block(&prose(rest));
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
