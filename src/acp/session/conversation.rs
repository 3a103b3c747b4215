//! Events of a request as updates of a session. Pure.
//!
//! A message of the request's own task is sent while it is written. A call is told from the moment at which its model begins to
//! write it; its id in the protocol is that of its message, as the engine's own comes later. A branch is content of the call
//! that began it: its messages stand there whole, and its own calls name that call.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;

use agent_client_protocol::v1::schema::{
    CompactionId, CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, Cost, ImageContent,
    MessageId as ChunkId, Meta, NoticeSeverity, Plan, PlanEntry, PlanEntryPriority, PlanEntryStatus,
    SessionInfoUpdate, SessionUpdate, TextContent, ToolCall, ToolCallContent, ToolCallId, ToolCallStatus,
    ToolCallUpdate, ToolCallUpdateFields, ToolKind, UsageUpdate,
};
use roo_engine::engine::PROVIDER_REFUSED;
use roo_protocol::checkpoint::CheckpointDiffParams;
use roo_protocol::event::{Event, EventParams};
use roo_protocol::ids::{MessageId, TaskId, ToolCallId as EngineCall};
use roo_protocol::message::{Message, Say};
use roo_protocol::question::QuestionKind;
use roo_protocol::task::{PendingQuestion, TodoItem, TodoStatus};
use roo_protocol::tree::TreeNode;
use roo_sandbox::exec::redaction::Redactor;
use roo_text::render::one_line;
use serde_json::{Value, json};

use super::tool_calls::{self, is_quiet, kind, location, meta, name_of, output, title};
use crate::markdown::{InertMarkdown, inert};
use crate::masking::Mask;
use crate::view::{
    CallResult, CallTarget, MessageRole, OpenItem, RECOVERED, RequestView, Update, kept_line, restored_line,
    shortened_line,
};

/// The longest text of a branch that is kept as content of its call, in bytes.
const BRANCH: usize = 16 << 10;
/// The longest line of a notice, in characters.
const NOTICE: usize = 400;

/// Something to tell the client.
#[derive(Debug, PartialEq)]
pub(super) enum ClientUpdate {
    Update(Box<SessionUpdate>),
    Notice(NoticeSeverity, String),
}

impl From<SessionUpdate> for ClientUpdate {
    fn from(update: SessionUpdate) -> Self {
        Self::Update(Box::new(update))
    }
}

/// A call, as the client knows it. Its subject is masked, as it is cut for titles.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: ToolCallId,
    target: CallTarget,
    /// Roo Code's description of it, where it came.
    input: Option<Value>,
    /// True if the client was told of it.
    is_told: bool,
}

/// An edit that a call has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    pub(super) call: ToolCallId,
    /// What tells of its changes.
    pub(super) changes: CheckpointDiffParams,
}

/// Text that is being written.
struct Stream {
    redactor: Redactor,
    markdown: InertMarkdown,
    /// Number of bytes taken in.
    length: u64,
}

impl Stream {
    fn new(mask: &Mask) -> Self {
        Self { redactor: mask.stream(), markdown: InertMarkdown::default(), length: 0 }
    }
}

/// A branch, as content of the call that began it.
#[derive(Default)]
struct Branch {
    call: Option<ToolCallId>,
    text: String,
}

/// A request as it is told to a client.
pub(super) struct Conversation {
    /// The workspace folder.
    folder: PathBuf,
    view: RequestView,
    mask: Mask,
    /// True while past events are told: what the user said is told too.
    is_past: bool,
    shows_compaction: bool,
    streams: HashMap<(TaskId, MessageId), Stream>,
    calls: HashMap<(TaskId, MessageId), Call>,
    /// Calls of the newest answer of each task that the engine has not begun to judge, in its order.
    next: HashMap<TaskId, VecDeque<MessageId>>,
    /// Messages of calls by the engine's own ids.
    messages: HashMap<(TaskId, EngineCall), MessageId>,
    /// Calls of each task that began a branch of which nothing was heard yet.
    delegations: HashMap<TaskId, VecDeque<ToolCallId>>,
    branches: HashMap<TaskId, Branch>,
    /// The number of the event from which the files of a call were changed.
    checkpoints: HashMap<(TaskId, EngineCall), u64>,
    /// Reason of the last answer that became void.
    last_failure: Option<String>,
    /// Number of shortenings, and whether the last one goes on.
    compactions: u64,
    is_compacting: bool,
}

impl Conversation {
    /// A request of which nothing was told.
    pub(super) fn new(folder: PathBuf, shows_compaction: bool) -> Self {
        Self {
            folder,
            view: RequestView::default(),
            mask: Mask::default(),
            is_past: false,
            shows_compaction,
            streams: HashMap::new(),
            calls: HashMap::new(),
            next: HashMap::new(),
            messages: HashMap::new(),
            delegations: HashMap::new(),
            branches: HashMap::new(),
            checkpoints: HashMap::new(),
            last_failure: None,
            compactions: 0,
            is_compacting: false,
        }
    }

    /// The request as it is now.
    pub(super) fn view(&self) -> &RequestView {
        &self.view
    }

    /// The name of a branch as the beginning of a line; empty for the request's own task.
    pub(super) fn branch_prefix(&self, task: &TaskId) -> String {
        self.view.tree().name(task).map(|branch| format!("{branch}: ")).unwrap_or_default()
    }

    /// Takes in the tree as it is now.
    pub(super) fn set_tree(&mut self, nodes: &[TreeNode]) {
        self.view.set_tree(nodes);
    }

    /// Returns whether the provider refused to go on with the newest request.
    pub(super) fn was_refused(&self) -> bool {
        self.last_failure.as_deref() == Some(PROVIDER_REFUSED)
    }

    /// Masks what is told from now on.
    pub(super) fn set_mask(&mut self, mask: Mask) {
        self.mask = mask;
    }

    /// Whether past events are told, or those that happen.
    pub(super) fn set_past(&mut self, is_past: bool) {
        self.is_past = is_past;
    }

    /// The edit that a call has made, if it is one; nothing more is kept of the call. `end` is the number of the event that told
    /// of its end.
    pub(super) fn take_edit(&mut self, task: &TaskId, call: &EngineCall, end: Option<u64>) -> Option<Edit> {
        let from = self.checkpoints.remove(&(task.clone(), call.clone()));
        let known = self.forget_call(task, call)?;
        let changes = CheckpointDiffParams { task_id: task.clone(), from: from?, to: end };
        (kind(&known.target.name) == ToolKind::Edit).then_some(Edit { call: known.id, changes })
    }

    fn forget_call(&mut self, task: &TaskId, call: &EngineCall) -> Option<Call> {
        let message = self.messages.remove(&(task.clone(), call.clone()))?;
        self.calls.remove(&(task.clone(), message))
    }

    /// Tells that the calls which seem to run do so no longer: the process that ran them has ended.
    pub(super) fn fail_open_calls(&mut self) -> Vec<ClientUpdate> {
        let open: Vec<(TaskId, EngineCall)> = self
            .view
            .open()
            .filter_map(|(task, item)| match item {
                OpenItem::Call(call) => Some((task.clone(), call.id.clone())),
                _ => None,
            })
            .collect();
        let failed = |(task, call): (TaskId, EngineCall)| {
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed);
            let call = self.call(&task, &call);
            call.is_told.then(|| call_update(call.id.clone(), fields))
        };
        open.into_iter().filter_map(failed).collect()
    }

    /// The call of this id, which the engine has begun to judge.
    pub(super) fn call(&mut self, task: &TaskId, call: &EngineCall) -> &mut Call {
        let key = (task.clone(), call.clone());
        let message = match self.messages.get(&key) {
            Some(message) => message.clone(),
            None => {
                let next = self.next.get_mut(task).and_then(VecDeque::pop_front);
                // It may be of an earlier version, whose messages are not known.
                let message = next.unwrap_or_else(|| MessageId::new(call.as_str()));
                self.messages.insert(key, message.clone());
                message
            }
        };
        Self::entry(&mut self.calls, task, &message)
    }

    fn entry<'c>(
        calls: &'c mut HashMap<(TaskId, MessageId), Call>,
        task: &TaskId,
        message: &MessageId,
    ) -> &'c mut Call {
        calls.entry((task.clone(), message.clone())).or_insert_with(|| Call {
            id: ToolCallId::new(format!("{task}/{message}")),
            target: CallTarget::new("", ""),
            input: None,
            is_told: false,
        })
    }

    /// Fields of the protocol for a call, as far as it is known.
    pub(super) fn fields(&mut self, task: &TaskId, call: &EngineCall) -> ToolCallUpdateFields {
        let branch = self.view.tree().name(task);
        let folder = self.folder.clone();
        let call = self.call(task, call);
        let locations = call.target.file().map(|path| vec![location(&folder, path)]);
        ToolCallUpdateFields::new()
            .kind(kind(&call.target.name))
            .title(title(&call.target.name, &call.target.subject, branch.as_deref()))
            .locations(locations)
            .raw_input(call.input.clone())
    }

    /// Returns what is to be told of an event.
    pub(super) fn apply(&mut self, params: &EventParams) -> Vec<ClientUpdate> {
        let task = &params.task_id;
        let mut told = Vec::new();
        // What a call has printed is gone with its end.
        let printed = match &params.event {
            Event::ToolFinished { tool_call_id, .. } => self.lines(task, tool_call_id),
            _ => vec![],
        };
        let Some(update) = self.view.apply(params) else { return told };
        match update {
            Update::Created { title, .. } if task.is_root() => told.push(title_update(title)),
            Update::Created { .. } => self.begin_branch(task),
            Update::Forked { .. } => {
                let title = self.view.root().map(|root| root.title.clone()).unwrap_or_default();
                told.push(title_update(&title));
            }
            Update::MessageGrows { id, say: Say::Tool, offset: 0, text } => {
                self.call_begins(task, id, text, &mut told)
            }
            Update::MessageGrows { id, say: say @ (Say::Text | Say::Reasoning), offset, text }
                if task.is_root() =>
            {
                self.grow(task, id, say, offset, text, &mut told);
            }
            Update::Message { message, role } => self.message(task, message, role, &mut told),
            Update::ModelAsked => {
                self.next.remove(task);
            }
            Update::AnswerVoid { request, reason } => self.void(task, request, reason, &mut told),
            Update::CallOutput { call, .. } => {
                let content = output(&self.lines(task, call), None);
                let fields = ToolCallUpdateFields::new().content(content);
                told.push(call_update(self.call(task, call).id.clone(), fields));
            }
            Update::CallStarted { call, target } => {
                let id = self.set_target(task, call, &target);
                if target.is_delegation() {
                    self.delegations.entry(task.clone()).or_default().push_back(id);
                }
                self.tell_call(task, call, ToolCallStatus::InProgress, None, &mut told);
            }
            Update::CallFinished { call, target, result } => {
                if let Some(target) = target {
                    self.set_target(task, call, &target);
                }
                self.finish_call(task, call, result, &printed, &mut told);
            }
            Update::CheckpointSaved { call, seq } => {
                self.checkpoints.entry((task.clone(), call)).or_insert(seq);
            }
            Update::QuestionAsked(asked) => told.extend(question(asked, &self.branch_prefix(task))),
            Update::Todo(items) if task.is_root() => told.push(SessionUpdate::Plan(plan(items)).into()),
            Update::Silent => told.extend(self.usage(params)),
            Update::ContextShortening { .. } if task.is_root() && self.shows_compaction => {
                told.push(self.compaction(CompactionStatus::InProgress, None));
            }
            Update::ContextShortened { method, tokens_before, tokens_after, cost_usd } if task.is_root() => {
                let line = shortened_line(method, tokens_before, tokens_after, cost_usd);
                match (self.shows_compaction, &params.event) {
                    (true, Event::ContextShortened { summary, .. }) => {
                        let text = summary.clone().unwrap_or(line);
                        told.push(self.compaction(CompactionStatus::Completed, Some(text)));
                    }
                    _ => told.push(ClientUpdate::Notice(NoticeSeverity::Info, line)),
                }
            }
            Update::ContextKept { reason } if task.is_root() => {
                if self.is_compacting {
                    told.push(self.compaction(CompactionStatus::Failed, None));
                }
                told.push(ClientUpdate::Notice(NoticeSeverity::Warning, kept_line(reason)));
            }
            Update::ContextRestored { tokens_before, tokens_after } if task.is_root() => {
                told.push(ClientUpdate::Notice(
                    NoticeSeverity::Info,
                    restored_line(tokens_before, tokens_after),
                ));
            }
            Update::RetryScheduled { reason, .. } if !self.is_past => {
                let line = format!("The model is asked again later: {}", self.line(reason));
                told.push(ClientUpdate::Notice(NoticeSeverity::Warning, line));
            }
            Update::Warning { reason } => {
                told.push(ClientUpdate::Notice(NoticeSeverity::Error, self.line(reason)))
            }
            Update::Recovered => {
                told.push(ClientUpdate::Notice(NoticeSeverity::Info, RECOVERED.to_owned()));
            }
            Update::CommandEnded { command, result } if !self.is_past => {
                let line = format!("{command} {}: {}", result.ending().mark(), self.line(result.summary));
                told.push(ClientUpdate::Notice(NoticeSeverity::Info, line));
            }
            // A branch is told in the call that began it, and what is over is not told again.
            Update::Todo(_)
            | Update::ContextShortening { .. }
            | Update::ContextShortened { .. }
            | Update::ContextKept { .. }
            | Update::ContextRestored { .. }
            | Update::RetryScheduled { .. }
            | Update::CommandEnded { .. }
            | Update::MessageGrows { .. }
            // The session itself asks, tells its modes and ends its turn, by the events.
            | Update::ApprovalRequested(_)
            | Update::ApprovalResolved { .. }
            | Update::QuestionAnswered { .. }
            | Update::Switched { .. }
            | Update::State { .. }
            // Calls tell of it, or the protocol has nothing for it.
            | Update::Tree
            | Update::Imported { .. }
            | Update::CallRefused { .. }
            | Update::CommandBackgrounded { .. }
            | Update::Edited { .. }
            | Update::IntentSelected { .. }
            | Update::RestoreStarted { .. }
            | Update::RestoreFailed { .. } => {}
        }
        told
    }

    /// A line of a notice. It is masked first, as a part of a secret isn't found.
    fn line(&self, text: &str) -> String {
        one_line(&self.mask.masked(text.to_owned()), NOTICE)
    }

    /// Takes in what a call is about, and returns its id in the protocol.
    fn set_target(&mut self, task: &TaskId, call: &EngineCall, target: &CallTarget) -> ToolCallId {
        let target = CallTarget::new(&target.name, &self.mask.masked(target.subject.clone()));
        let known = self.call(task, call);
        known.target = target;
        known.id.clone()
    }

    fn begin_branch(&mut self, task: &TaskId) {
        let parent = self.view.task(task).and_then(|task| task.parent.clone());
        let call = parent.and_then(|parent| self.delegations.get_mut(&parent)?.pop_front());
        self.branches.insert(task.clone(), Branch { call, text: String::new() });
    }

    /// The model begins to write a call. What is written first is the tool's name, on a line of its own.
    fn call_begins(&mut self, task: &TaskId, id: &MessageId, text: &str, told: &mut Vec<ClientUpdate>) {
        let Some((name, _)) = text.split_once('\n') else { return };
        let branch = self.view.tree().name(task);
        let meta = self.call_meta(task);
        let call = Self::entry(&mut self.calls, task, id);
        call.target = CallTarget::new(name, "");
        if is_quiet(name) || call.is_told {
            return;
        }
        call.is_told = true;
        let told_call = ToolCall::new(call.id.clone(), title(name, "", branch.as_deref()))
            .name(name.to_owned())
            .kind(kind(name))
            .status(ToolCallStatus::Pending)
            .meta(meta);
        told.push(SessionUpdate::ToolCall(told_call).into());
    }

    /// What of a call the protocol has no field for: the branch that makes it, and the call that began the branch.
    fn call_meta(&self, task: &TaskId) -> Meta {
        let parent = self.branches.get(task).and_then(|branch| branch.call.as_ref());
        meta(json!({
            "taskId": task,
            "branch": self.view.tree().name(task),
            "parentToolCallId": parent.map(|parent| &*parent.0),
        }))
    }

    /// Tells a call as it is now: the first time whole, later what may have changed.
    fn tell_call(
        &mut self,
        task: &TaskId,
        id: &EngineCall,
        status: ToolCallStatus,
        content: Option<Vec<ToolCallContent>>,
        told: &mut Vec<ClientUpdate>,
    ) {
        let meta = self.call_meta(task);
        let fields = self.fields(task, id).status(status).content(content);
        let call = self.call(task, id);
        if is_quiet(&call.target.name) && status != ToolCallStatus::Failed {
            return;
        }
        if std::mem::replace(&mut call.is_told, true) {
            told.push(call_update(call.id.clone(), fields));
            return;
        }
        let whole = ToolCall::new(call.id.clone(), fields.title.unwrap_or_default())
            .name(call.target.name.clone())
            .kind(fields.kind.unwrap_or_default())
            .status(status)
            .content(fields.content.unwrap_or_default())
            .locations(fields.locations.unwrap_or_default())
            .raw_input(fields.raw_input)
            .meta(meta);
        told.push(SessionUpdate::ToolCall(whole).into());
    }

    fn finish_call(
        &mut self,
        task: &TaskId,
        id: &EngineCall,
        result: CallResult<'_>,
        printed: &[String],
        told: &mut Vec<ClientUpdate>,
    ) {
        let status = if result.is_success() { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
        let known = self.call(task, id).id.clone();
        let branch = self.branches.values().find(|branch| branch.call.as_ref() == Some(&known));
        let content = match branch {
            Some(branch) => branch_content(&branch.text, Some(result.summary)),
            None => output(printed, Some(result.summary)),
        };
        self.tell_call(task, id, status, Some(content), told);
        self.branches.retain(|_, branch| branch.call.as_ref() != Some(&known));
        // What a call that has done its work has changed is told next.
        if !result.is_success() {
            self.forget_call(task, id);
            self.checkpoints.remove(&(task.clone(), id.clone()));
        }
    }

    /// The last lines that a call has printed.
    fn lines(&self, task: &TaskId, id: &EngineCall) -> Vec<String> {
        let running = self.view.open().find_map(|(owner, item)| match item {
            OpenItem::Call(call) if owner == task && call.id == *id => Some(call),
            _ => None,
        });
        let lines = running.filter(|call| call.has_output()).map(|call| call.last_lines());
        lines.unwrap_or_default().into_iter().map(str::to_owned).collect()
    }

    fn grow(
        &mut self,
        task: &TaskId,
        id: &MessageId,
        say: Say,
        offset: u64,
        text: &str,
        told: &mut Vec<ClientUpdate>,
    ) {
        let stream = self.streams.entry((task.clone(), id.clone()));
        let stream = stream.or_insert_with(|| Stream::new(&self.mask));
        // What is missing comes with the whole message.
        if stream.length != offset {
            return;
        }
        stream.length += text.len() as u64;
        let certain = stream.redactor.push(text);
        told.extend(chunk(say, id, stream.markdown.push(&certain)));
    }

    fn message(&mut self, task: &TaskId, message: &Message, role: MessageRole, told: &mut Vec<ClientUpdate>) {
        match role {
            MessageRole::Answer | MessageRole::Reasoning if task.is_root() => {
                let say = if role == MessageRole::Answer { Say::Text } else { Say::Reasoning };
                let stream = self.streams.remove(&(task.clone(), message.id.clone()));
                let Stream { mut redactor, mut markdown, length } =
                    stream.unwrap_or_else(|| Stream::new(&self.mask));
                let rest = usize::try_from(length).ok().and_then(|length| message.text.get(length..));
                let mut text = markdown.push(&redactor.push(rest.unwrap_or_default()));
                text.push_str(&markdown.push(&redactor.finish()));
                text.push_str(&markdown.finish());
                told.extend(chunk(say, &message.id, text));
            }
            MessageRole::Answer => self.branch_speaks(task, &message.text, told),
            MessageRole::Result if task.is_root() => {
                told.extend(chunk(Say::Text, &message.id, inert(&self.mask.masked(message.text.clone()))));
            }
            MessageRole::Result => self.branch_speaks(task, &message.text, told),
            MessageRole::Prompt | MessageRole::Feedback if self.is_past && task.is_root() => {
                told.extend(user_chunks(message));
            }
            // The request that it ends is answered with it.
            MessageRole::FinalError if !self.is_past => {}
            MessageRole::Note | MessageRole::FinalError if task.is_root() => {
                told.push(ClientUpdate::Notice(NoticeSeverity::Error, message.text.clone()));
            }
            MessageRole::Note | MessageRole::FinalError => self.branch_speaks(task, &message.text, told),
            MessageRole::Call | MessageRole::Command => self.call_is_written(task, message, role, told),
            MessageRole::Reasoning
            | MessageRole::Prompt
            | MessageRole::Brief
            | MessageRole::Feedback
            | MessageRole::Question
            | MessageRole::Internal => {}
        }
    }

    /// A call is whole, and waits for its turn.
    fn call_is_written(
        &mut self,
        task: &TaskId,
        message: &Message,
        role: MessageRole,
        told: &mut Vec<ClientUpdate>,
    ) {
        let mut id = message.id.clone();
        if let Some(call) = id.as_str().strip_suffix(".rewritten") {
            // What hooks made of a call that is being judged.
            let Some(known) = self.messages.get(&(task.clone(), EngineCall::new(call))) else { return };
            id = known.clone();
        } else {
            self.next.entry(task.clone()).or_default().push_back(id.clone());
        }
        let branch = self.view.tree().name(task);
        let call = Self::entry(&mut self.calls, task, &id);
        let (name, subject, input) = match role {
            MessageRole::Command => {
                ("execute_command".to_owned(), Some(message.text.clone()), json!({ "command": message.text }))
            }
            _ => {
                let input: Value = serde_json::from_str(&message.text).unwrap_or_default();
                let field = |name: &str| input[name].as_str().map(str::to_owned);
                (name_of(input["tool"].as_str().unwrap_or_default()), field("path"), input)
            }
        };
        let name = if call.target.name.is_empty() { &name } else { &call.target.name };
        call.target = CallTarget::new(name, &self.mask.masked(subject.unwrap_or_default()));
        call.input = Some(input);
        if call.is_told {
            let locations = call.target.file().map(|path| vec![location(&self.folder, path)]);
            let fields = ToolCallUpdateFields::new()
                .title(title(&call.target.name, &call.target.subject, branch.as_deref()))
                .locations(locations)
                .raw_input(call.input.clone());
            told.push(call_update(call.id.clone(), fields));
        }
    }

    /// What came of a model request is void. Its calls are never run.
    fn void(
        &mut self,
        task: &TaskId,
        request: &MessageId,
        reason: Option<String>,
        told: &mut Vec<ClientUpdate>,
    ) {
        let prefix = format!("{request}.");
        let is_of_it = |(owner, id): &(TaskId, MessageId)| owner == task && id.as_str().starts_with(&prefix);
        self.streams.retain(|key, _| !is_of_it(key));
        self.next.remove(task);
        let mut void: Vec<Call> =
            self.calls.extract_if(|key, _| is_of_it(key)).map(|(_, call)| call).collect();
        void.retain(|call| call.is_told);
        void.sort_by(|one, other| one.id.0.cmp(&other.id.0));
        for call in void {
            let content = vec![tool_calls::text("The answer that it was part of is void.")];
            let fields = ToolCallUpdateFields::new().status(ToolCallStatus::Failed).content(content);
            told.push(call_update(call.id, fields));
        }
        // What follows from it is told with its reason: another attempt, or a question.
        self.last_failure = reason;
    }

    /// A message of a branch, as content of the call that began it.
    fn branch_speaks(&mut self, task: &TaskId, text: &str, told: &mut Vec<ClientUpdate>) {
        let Some(Branch { call: Some(call), text: before }) = self.branches.get_mut(task) else { return };
        if !before.is_empty() {
            before.push_str("\n\n");
        }
        // Before it is cut: a part of a secret isn't found.
        before.push_str(&self.mask.masked(text.trim().to_owned()));
        if before.len() > BRANCH {
            before.drain(..before.ceil_char_boundary(before.len() - BRANCH));
        }
        let fields = ToolCallUpdateFields::new().content(branch_content(before, None));
        told.push(call_update(call.clone(), fields));
    }

    fn usage(&self, params: &EventParams) -> Option<ClientUpdate> {
        let Event::Usage { context: Some(context), .. } = &params.event else { return None };
        let window = context.window.filter(|_| params.task_id.is_root())?;
        let cost: f64 = self.view.tasks().iter().map(|task| task.usage.cost_usd).sum();
        let usage = UsageUpdate::new(context.used, window).cost((cost > 0.0).then(|| Cost::new(cost, "USD")));
        Some(SessionUpdate::UsageUpdate(usage).into())
    }

    fn compaction(&mut self, status: CompactionStatus, summary: Option<String>) -> ClientUpdate {
        // Some are done as soon as they are told of.
        if !std::mem::replace(&mut self.is_compacting, status == CompactionStatus::InProgress) {
            self.compactions += 1;
        }
        let id = CompactionId::new(format!("c{}", self.compactions));
        let mut update = CompactionUpdate::new(id, status);
        if let Some(summary) = summary {
            update = update.summary(vec![ContentBlock::Text(TextContent::new(inert(&summary)))]);
        }
        SessionUpdate::CompactionUpdate(update).into()
    }
}

fn call_update(id: ToolCallId, fields: ToolCallUpdateFields) -> ClientUpdate {
    SessionUpdate::ToolCallUpdate(ToolCallUpdate::new(id, fields)).into()
}

fn title_update(title: &str) -> ClientUpdate {
    SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title.to_owned())).into()
}

fn branch_content(text: &str, summary: Option<&str>) -> Vec<ToolCallContent> {
    let texts = [Some(text), summary.filter(|summary| !text.ends_with(summary))];
    texts.into_iter().flatten().filter(|text| !text.is_empty()).map(tool_calls::text).collect()
}

/// A piece of what the agent says or thinks.
fn chunk(say: Say, id: &MessageId, text: String) -> Option<ClientUpdate> {
    if text.is_empty() {
        return None;
    }
    let chunk =
        ContentChunk::new(ContentBlock::Text(TextContent::new(text))).message_id(ChunkId::new(id.as_str()));
    let update = match say {
        Say::Reasoning => SessionUpdate::AgentThoughtChunk(chunk),
        _ => SessionUpdate::AgentMessageChunk(chunk),
    };
    Some(update.into())
}

/// What the user has said.
fn user_chunks(message: &Message) -> Vec<ClientUpdate> {
    let id = || ChunkId::new(message.id.as_str());
    let text = (!message.text.is_empty()).then(|| ContentBlock::Text(TextContent::new(message.text.clone())));
    let images = message.images.iter().filter_map(|url| {
        let (mime, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some(ContentBlock::Image(ImageContent::new(data, mime)))
    });
    let blocks = text.into_iter().chain(images);
    blocks
        .map(|block| SessionUpdate::UserMessageChunk(ContentChunk::new(block).message_id(id())).into())
        .collect()
}

/// What is told of a question.
fn question(question: &PendingQuestion, who: &str) -> Vec<ClientUpdate> {
    let id = MessageId::new(question.question_id.as_str());
    match question.kind {
        QuestionKind::Followup => {
            let mut text = format!("{who}{}\n", question.text);
            for (number, suggestion) in (1..).zip(&question.suggestions) {
                text.push_str(&format!("\n{number}. {}", suggestion.label()));
            }
            chunk(Say::Text, &id, inert(&text)).into_iter().collect()
        }
        _ => vec![ClientUpdate::Notice(NoticeSeverity::Warning, format!("{who}{}", question.text))],
    }
}

fn plan(items: &[TodoItem]) -> Plan {
    let entry = |item: &TodoItem| {
        let status = match item.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
        };
        PlanEntry::new(inert(&item.content), PlanEntryPriority::Medium, status)
    };
    Plan::new(items.iter().map(entry).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;
    use crate::view::recorded_tests;

    /// What a client is told of a recorded request.
    fn told(name: &str, is_past: bool) -> Vec<SessionUpdate> {
        let mut conversation = Conversation::new(PathBuf::from("/home/user/work"), false);
        conversation.set_past(is_past);
        let mut updates = Vec::new();
        for params in recorded_tests::events(name).iter().filter(|params| !is_past || params.seq.is_some()) {
            for told in conversation.apply(params) {
                if let ClientUpdate::Update(update) = told {
                    updates.push(*update);
                }
            }
        }
        updates
    }

    /// What is said in all chunks of each message.
    fn said(updates: &[SessionUpdate]) -> BTreeMap<String, String> {
        let mut said: BTreeMap<String, String> = BTreeMap::new();
        for update in updates {
            if let SessionUpdate::AgentMessageChunk(chunk) | SessionUpdate::AgentThoughtChunk(chunk) = update
                && let ContentBlock::Text(text) = &chunk.content
            {
                let id = chunk.message_id.as_ref().unwrap().0.to_string();
                said.entry(id).or_default().push_str(&text.text);
            }
        }
        said
    }

    #[test]
    fn a_call_is_told_before_it_changes_and_has_one_end() {
        for name in &recorded_tests::names() {
            for is_past in [false, true] {
                let (mut begun, mut ended) = (HashSet::new(), HashSet::new());
                let is_end = |status| matches!(status, ToolCallStatus::Completed | ToolCallStatus::Failed);
                for update in told(name, is_past) {
                    match update {
                        SessionUpdate::ToolCall(call) => {
                            assert!(begun.insert(call.tool_call_id.clone()), "{name}: {call:?}");
                            assert!(!call.title.is_empty(), "{name}: {call:?}");
                            if is_end(call.status) {
                                ended.insert(call.tool_call_id);
                            }
                        }
                        SessionUpdate::ToolCallUpdate(call) => {
                            assert!(begun.contains(&call.tool_call_id), "{name}: {call:?}");
                            if call.fields.status.is_some_and(is_end) {
                                assert!(ended.insert(call.tool_call_id.clone()), "{name}: {call:?}");
                            }
                        }
                        _ => {}
                    }
                }
                assert!(!ended.is_empty(), "{name}");
            }
        }
    }

    #[test]
    fn live_updates_say_what_is_said_when_a_session_is_loaded() {
        for name in &recorded_tests::names() {
            let (mut live, past) = (said(&told(name, false)), said(&told(name, true)));
            let (mut view, mut void) = (RequestView::default(), vec![]);
            for params in &recorded_tests::events(name) {
                if let Some(Update::AnswerVoid { request, .. }) = view.apply(params) {
                    void.push(format!("{request}."));
                }
            }
            // Text of an answer that became void was seen by those who were there.
            live.retain(|id, _| !void.iter().any(|request| id.starts_with(request)));
            assert!(!past.is_empty(), "{name}");
            assert_eq!(live, past, "{name}");
        }
    }
}
