//! One task in Roo Code's vocabulary.

use std::collections::{HashMap, HashSet};

use roo_protocol::context::{ContextMeter, ShorteningMethod};
use roo_protocol::event::{Event, EventParams, QuestionKind, ToolStatus, Verdict};
use roo_protocol::ids::{MessageId, TaskId, ToolCallId};
use roo_protocol::message::{Ask as LoggedAsk, Message, MessageKind as LoggedKind, Say as LoggedSay};
use roo_protocol::review::ReviewedHunk;
use roo_protocol::task::{
    PendingApproval, PendingQuestion, QueueItem, TaskState, TodoItem, ToolUsage, Usage,
};
use roo_sandbox::exec::redaction::Redactor;
use serde_json::{Value, json};

use super::call::{Call, CallSubject};
use super::event::{Lifecycle, MessageAction, QueuedMessage, RooEvent, TokenUsage};
use super::message::{Checkpoint, ClineMessage, ContextCondense, ContextTruncation, MessageKind};
use super::message_times::MessageTimes;
use super::names::{Ask, Say};
use super::payload::{self, ApiRequest, ApiRequestUsage};
use crate::masking::Mask;

/// Least time between two versions of a text that is being written, in milliseconds: each version is sent whole.
const GROWS: i64 = 200;
/// Least time between two reports of usage, in milliseconds, as in Roo Code.
const USAGE: i64 = 2000;
/// The longest output of a command in a message, in bytes: its end.
const OUTPUT: usize = 32 * 1024;

/// What a task does, by the question that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Active,
    Interactive,
    Resumable,
    Idle,
}

impl Status {
    fn lifecycle(self) -> Lifecycle {
        match self {
            Self::Active => Lifecycle::Active,
            Self::Interactive => Lifecycle::Interactive,
            Self::Resumable => Lifecycle::Resumable,
            Self::Idle => Lifecycle::Idle,
        }
    }
}

/// A text that is being written.
struct Stream {
    say: Say,
    redactor: Redactor,
    /// Number of bytes taken in.
    length: u64,
    text: String,
    /// Time of the newest version that was told.
    told_at: i64,
}

impl Stream {
    fn new(say: Say, mask: &Mask) -> Self {
        Self { say, redactor: mask.stream(), length: 0, text: String::new(), told_at: i64::MIN }
    }

    /// Adds a piece. Returns whether the text is to be told now.
    fn grow(&mut self, text: &str, at: i64) -> bool {
        self.length += text.len() as u64;
        self.text.push_str(&self.redactor.push(text));
        let is_due = !self.text.is_empty() && self.told_at.saturating_add(GROWS) <= at;
        if is_due {
            self.told_at = at;
        }
        is_due
    }
}

/// What a message to the user is about, until they have answered.
enum Asked {
    Call(ToolCallId),
    Question(MessageId, ClineMessage),
}

/// A branch that was opened by a call.
struct Delegation {
    call: ToolCallId,
    child: Option<TaskId>,
}

/// The fold of a task's events.
pub(super) struct TaskRecord {
    id: TaskId,
    status: Status,
    times: MessageTimes,
    /// Messages that clients know.
    told: HashSet<MessageId>,
    streams: HashMap<MessageId, Stream>,
    calls: HashMap<ToolCallId, Call>,
    /// By the ids of approvals and questions.
    asked: HashMap<String, Asked>,
    /// A question of the engine that was shown and is about to be asked.
    shown_question: Option<(MessageId, ClineMessage)>,
    /// The question with which it rests once it has ended or was interrupted.
    rest: Option<(MessageId, ClineMessage)>,
    request: Option<(MessageId, ApiRequest)>,
    requests: u32,
    /// True if the next model request was tried before.
    tries_again: bool,
    condensing: Option<MessageId>,
    delegations: Vec<Delegation>,
    usage: Usage,
    /// Size of the newest model request, in tokens.
    context: u64,
    tools: ToolUsage,
    usage_told: Option<i64>,
    usage_due: Option<i64>,
    queued_since: HashMap<String, i64>,
    result: Option<String>,
    last_error: Option<String>,
}

impl TaskRecord {
    pub(super) fn new(id: &TaskId) -> Self {
        Self {
            id: id.clone(),
            status: Status::Active,
            times: MessageTimes::default(),
            told: HashSet::new(),
            streams: HashMap::new(),
            calls: HashMap::new(),
            asked: HashMap::new(),
            shown_question: None,
            rest: None,
            request: None,
            requests: 0,
            tries_again: false,
            condensing: None,
            delegations: vec![],
            usage: Usage::default(),
            context: 0,
            tools: ToolUsage::default(),
            usage_told: None,
            usage_due: None,
            queued_since: HashMap::new(),
            result: None,
            last_error: None,
        }
    }

    pub(super) fn id(&self) -> &TaskId {
        &self.id
    }

    /// The result of a completed task.
    pub(super) fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// The time at which usage is to be told.
    pub(super) fn due(&self) -> Option<i64> {
        self.usage_due
    }

    /// Returns whether the whole result of a call is wanted.
    pub(super) fn has_result(&self, call: &ToolCallId) -> bool {
        let call = self.calls.get(call);
        call.is_some_and(|call| {
            matches!(call.subject, CallSubject::Server(_)) || call.is_tool("codebaseSearch")
        })
    }

    /// What was used is another request's.
    pub(super) fn begin_fork(&mut self) {
        self.usage = Usage::default();
        self.tools = ToolUsage::default();
        self.queued_since.clear();
    }

    /// A branch came to be.
    pub(super) fn begin_delegation(&mut self, child: &TaskId, out: &mut Vec<RooEvent>) {
        // Branches begin in the order of their calls.
        if let Some(delegation) = self.delegations.iter_mut().find(|delegation| delegation.child.is_none()) {
            delegation.child = Some(child.clone());
        }
        let (parent, child) = (self.id.clone(), child.clone());
        out.push(RooEvent::TaskSpawned { parent: parent.clone(), child: child.clone() });
        out.push(RooEvent::TaskDelegated { parent, child });
        if self.delegations.iter().filter(|delegation| delegation.child.is_some()).count() <= 1 {
            self.tell(Lifecycle::Paused, out);
        }
    }

    /// A call has its result. Returns the branch that it opened.
    pub(super) fn end_delegation(&mut self, call: &ToolCallId) -> Option<TaskId> {
        let place = self.delegations.iter().position(|delegation| delegation.call == *call)?;
        self.delegations.remove(place).child
    }

    /// The branch that a call opened has ended, and the call has its result.
    pub(super) fn branch_ended(
        &mut self,
        params: &EventParams,
        child: &TaskId,
        is_completed: bool,
        text: String,
        out: &mut Vec<RooEvent>,
    ) {
        let message = ClineMessage::new(0, Say::SubtaskResult, Some(text.clone()));
        self.put(&derived("subtask", params), params.at, message, out);
        let (parent, child) = (self.id.clone(), child.clone());
        if is_completed {
            let (parent, child) = (parent.clone(), child.clone());
            out.push(RooEvent::TaskDelegationCompleted { parent, child, summary: text });
        }
        if self.delegations.is_empty() {
            self.tell(Lifecycle::Unpaused, out);
        }
        out.push(RooEvent::TaskDelegationResumed { parent, child });
    }

    /// Applies an event. `result`: the message of [`super::Vocabulary::wanted_result`].
    pub(super) fn apply(
        &mut self,
        params: &EventParams,
        result: Option<&Message>,
        mask: &Mask,
        out: &mut Vec<RooEvent>,
    ) {
        let at = params.at;
        match &params.event {
            Event::TaskState { state, result, reason, usage, tool_usage } => {
                if let Some(usage) = usage {
                    self.usage = *usage;
                    self.tools.clone_from(tool_usage);
                }
                self.state(params, *state, result.as_deref(), reason.as_deref(), out);
            }
            Event::Message { message } => self.message(params, message, out),
            Event::MessageDelta { id, say, offset, text } => {
                self.grows(id, *say, *offset, text, at, mask, out);
            }
            Event::ToolStarted { tool_call_id, name, .. } => self.started(tool_call_id, name, at, out),
            Event::ToolOutput { tool_call_id, text, .. } => self.printed(tool_call_id, text, at, mask, out),
            Event::ToolFinished { tool_call_id, status, summary, images, .. } => {
                self.finished(params, tool_call_id, *status, summary, images, result, out);
            }
            Event::CommandBackgrounded { tool_call_id, .. } => {
                if let Some(call) = self.calls.get_mut(tool_call_id) {
                    call.is_background = true;
                }
            }
            Event::CommandEnded { tool_call_id, summary, .. } => {
                let was_running = self.calls.remove(tool_call_id).is_some();
                if was_running {
                    self.end_output(tool_call_id, summary, at, out);
                }
            }
            Event::GateDecided { tool_call_id, verdict, rule, reason, .. } => {
                self.decided(params, tool_call_id, *verdict, rule, reason, out);
            }
            Event::ApprovalRequested { approval } => self.approval(approval, at, out),
            Event::ApprovalResolved { approval_id, option_id, rule_id, text, hunks, .. } => {
                let is_answer = option_id.is_some() || rule_id.is_some();
                self.answered(approval_id.as_str(), is_answer, at, out);
                self.feedback(params, text.as_deref(), hunks, out);
            }
            Event::QuestionAsked { question } => self.question(question, at, out),
            Event::QuestionAnswered { question_id, text, .. } => {
                self.answered(question_id.as_str(), text.is_some(), at, out);
            }
            Event::EditApplied { before: None, .. } => self.created_file(at, out),
            Event::TodoChanged { items } => self.todo(items, at, out),
            Event::QueueChanged { items } => self.queue(items, at, out),
            Event::Usage { total, context } => self.used(total, context.as_ref(), at, out),
            Event::RetryScheduled { attempt, reason, .. } => {
                let say = if *attempt > 1 { Say::ApiReqRetryDelayed } else { Say::ApiReqRateLimitWait };
                self.tries_again = *attempt > 1;
                let message = ClineMessage::new(0, say, Some(reason.clone()));
                self.put(&derived("retry", params), at, message, out);
            }
            Event::ContextShortening { method: ShorteningMethod::Summary } => {
                let id = derived("condense", params);
                let message =
                    ClineMessage { partial: Some(true), ..ClineMessage::new(0, Say::CondenseContext, None) };
                self.put(&id, at, message, out);
                self.condensing = Some(id);
            }
            Event::ContextShortened { .. } | Event::ContextKept { .. } => self.shortened(params, out),
            _ => {}
        }
    }

    fn is_root(&self) -> bool {
        self.id.is_root()
    }

    fn tell(&self, lifecycle: Lifecycle, out: &mut Vec<RooEvent>) {
        out.push(RooEvent::Lifecycle(lifecycle, self.id.clone()));
    }

    fn set_status(&mut self, status: Status, out: &mut Vec<RooEvent>) {
        if self.status != status {
            self.status = status;
            self.tell(status.lifecycle(), out);
        }
    }

    /// Tells a message, or a new version of one.
    fn put(
        &mut self,
        id: &MessageId,
        at: i64,
        mut message: ClineMessage,
        out: &mut Vec<RooEvent>,
    ) -> ClineMessage {
        message.ts = self.times.time(id, at);
        let action = match self.told.insert(id.clone()) {
            true => MessageAction::Created,
            false => MessageAction::Updated,
        };
        let (task, told) = (self.id.clone(), Box::new(message.clone()));
        out.push(RooEvent::Message { task, action, message: told });
        message
    }

    fn message(&mut self, params: &EventParams, message: &Message, out: &mut Vec<RooEvent>) {
        if let Some(subject) = CallSubject::parse(message, self.is_root()) {
            return self.called(params, message, subject, out);
        }
        let at = params.at;
        let (kind, partial): (MessageKind, bool) = match message.kind {
            LoggedKind::Say(LoggedSay::ApiReqStarted) => return self.requested(params, message, out),
            LoggedKind::Say(LoggedSay::Text) => (Say::Text.into(), true),
            LoggedKind::Say(LoggedSay::Reasoning) => (Say::Reasoning.into(), true),
            LoggedKind::Say(LoggedSay::UserFeedback) => {
                self.tell(Lifecycle::UserMessage, out);
                (Say::UserFeedback.into(), false)
            }
            LoggedKind::Say(LoggedSay::Error) => {
                self.last_error = Some(message.text.clone());
                (Say::Error.into(), false)
            }
            LoggedKind::Say(LoggedSay::CompletionResult) => (Say::CompletionResult.into(), false),
            LoggedKind::Say(LoggedSay::CheckpointSaved) => (Say::CheckpointSaved.into(), false),
            LoggedKind::Ask(LoggedAsk::MistakeLimitReached) => (Ask::MistakeLimitReached.into(), false),
            LoggedKind::Ask(LoggedAsk::AutoApprovalMaxReqReached) => {
                (Ask::AutoApprovalMaxReqReached.into(), false)
            }
            LoggedKind::Ask(LoggedAsk::ApiReqFailed) => (Ask::ApiReqFailed.into(), false),
            LoggedKind::Ask(LoggedAsk::ResumeTask) => (Ask::ResumeTask.into(), false),
            // In snapshots alone, where they stand for results; or seen as calls above.
            LoggedKind::Say(
                LoggedSay::Tool
                | LoggedSay::CommandOutput
                | LoggedSay::McpServerRequestStarted
                | LoggedSay::McpServerResponse
                | LoggedSay::CodebaseSearchResult,
            )
            | LoggedKind::Ask(
                LoggedAsk::Followup
                | LoggedAsk::Command
                | LoggedAsk::Tool
                | LoggedAsk::UseMcpServer
                | LoggedAsk::CompletionResult,
            ) => return,
        };
        let mut told = ClineMessage::new(0, kind, Some(message.text.clone()));
        told.images.clone_from(&message.images);
        // What was told while it was written is complete now. Whoever did not see that gets the same.
        told.partial = (partial && self.times.block_time(&message.id).is_some()).then_some(false);
        match message.kind {
            LoggedKind::Say(LoggedSay::CheckpointSaved) => {
                told.checkpoint = Some(Checkpoint { to: message.text.clone() });
            }
            LoggedKind::Ask(LoggedAsk::AutoApprovalMaxReqReached) => {
                told.text = Some(json!({ "count": self.requests, "message": message.text }).to_string());
            }
            _ => {}
        }
        self.streams.remove(&message.id);
        let told = self.put(&message.id, at, told, out);
        if matches!(message.kind, LoggedKind::Ask(_)) {
            self.shown_question = Some((message.id.clone(), told));
        }
    }

    /// A model request began, or has failed.
    fn requested(&mut self, params: &EventParams, message: &Message, out: &mut Vec<RooEvent>) {
        let at = params.at;
        let request = ApiRequest::parse(&message.text);
        let is_open = self.request.as_ref().is_some_and(|(id, open)| {
            *id == message.id && open.usage.is_none() && open.cancel_reason.is_none()
        });
        if is_open && request.cancel_reason.is_none() {
            return;
        }
        if !is_open {
            self.begin_request(params, &message.id, out);
        }
        let text = request.text();
        let has_failed = request.cancel_reason.is_some();
        self.request = Some((message.id.clone(), request));
        self.put(&message.id, at, ClineMessage::new(0, Say::ApiReqStarted, Some(text)), out);
        if has_failed {
            self.end_streams(at, out);
        }
    }

    fn begin_request(&mut self, params: &EventParams, id: &MessageId, out: &mut Vec<RooEvent>) {
        self.requests = self.requests.saturating_add(1);
        self.go_on(params.at, out);
        if std::mem::take(&mut self.tries_again) {
            let message = ClineMessage::new(0, Say::ApiReqRetried, None);
            self.put(&derived("retried", params), params.at, message, out);
        }
        // Its number may be that of one which a restore has undone.
        let prefix = format!("{id}.");
        self.told.retain(|known| known != id && !known.as_str().starts_with(&prefix));
        self.times.begin_request(id, params.at);
    }

    /// The task works again.
    fn go_on(&mut self, at: i64, out: &mut Vec<RooEvent>) {
        if let Some((id, question)) = self.rest.take() {
            self.put(&id, at, ClineMessage { is_answered: true, ..question }, out);
        }
        // What was asked before an interruption still is.
        let status = if self.asked.is_empty() { Status::Active } else { Status::Interactive };
        self.set_status(status, out);
    }

    /// Text of the model, as far as it is written.
    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn grows(
        &mut self,
        id: &MessageId,
        say: LoggedSay,
        offset: u64,
        text: &str,
        at: i64,
        mask: &Mask,
        out: &mut Vec<RooEvent>,
    ) {
        let say = match say {
            LoggedSay::Text => Say::Text,
            LoggedSay::Reasoning => Say::Reasoning,
            _ => return,
        };
        let is_known = self.streams.contains_key(id);
        if self.times.block_time(id).is_none() || (!is_known && (offset > 0 || self.told.contains(id))) {
            return;
        }
        let stream = self.streams.entry(id.clone()).or_insert_with(|| Stream::new(say, mask));
        // What is missing comes with the whole message.
        if stream.length == offset && stream.grow(text, at) {
            let message =
                ClineMessage { partial: Some(true), ..ClineMessage::new(0, say, Some(stream.text.clone())) };
            self.put(id, at, message, out);
        }
    }

    /// Nothing more comes of texts that are not complete. They are void.
    fn end_streams(&mut self, at: i64, out: &mut Vec<RooEvent>) {
        let texts: Vec<MessageId> =
            self.streams.keys().filter(|id| self.times.block_time(id).is_some()).cloned().collect();
        for id in texts {
            let Some(stream) = self.streams.remove(&id) else { continue };
            if self.told.contains(&id) {
                let message = ClineMessage {
                    partial: Some(false),
                    ..ClineMessage::new(0, stream.say, Some(stream.text))
                };
                self.put(&id, at, message, out);
            }
        }
    }

    fn called(
        &mut self,
        params: &EventParams,
        message: &Message,
        subject: CallSubject,
        out: &mut Vec<RooEvent>,
    ) {
        // A call has the number of its event. One that a hook has changed is shown again, and is the same.
        let call_id = match message.id.as_str().strip_suffix(".rewritten") {
            Some(call) => ToolCallId::new(call),
            None => ToolCallId::new(format!("call_{}", params.seq.unwrap_or_default())),
        };
        match self.calls.get_mut(&call_id) {
            Some(call) => call.subject = subject,
            None => {
                self.calls.insert(call_id.clone(), Call::new(message.id.clone(), subject));
            }
        }
        self.show_call(&call_id, params.at, out);
    }

    /// Tells the message of a call as it is now.
    fn show_call(&mut self, call_id: &ToolCallId, at: i64, out: &mut Vec<RooEvent>) {
        let Some(call) = self.calls.get(call_id) else { return };
        let Some((kind, text)) = call.shown() else { return };
        let (id, is_answered) = (call.message.clone(), call.is_answered);
        let message = ClineMessage { is_answered, ..ClineMessage::new(0, kind, Some(text)) };
        self.put(&id, at, message, out);
    }

    fn started(&mut self, call_id: &ToolCallId, name: &str, at: i64, out: &mut Vec<RooEvent>) {
        if name == "new_task" {
            self.delegations.push(Delegation { call: call_id.clone(), child: None });
        }
        let Some(call) = self.calls.get_mut(call_id) else { return };
        call.name = Some(name.to_owned());
        match &call.subject {
            CallSubject::Server(asked) => {
                let text = payload::mcp_started(call_id, asked);
                let message = ClineMessage::new(0, Say::McpServerRequestStarted, Some(text));
                self.put(&MessageId::new(format!("{call_id}.started")), at, message, out);
            }
            // Its output has its time from now on, whether it is seen while it is printed or not.
            CallSubject::Command(_) => {
                self.times.time(&MessageId::new(call_id.as_str()), at);
            }
            _ => {}
        }
    }

    fn printed(&mut self, call_id: &ToolCallId, text: &str, at: i64, mask: &Mask, out: &mut Vec<RooEvent>) {
        let is_command =
            self.calls.get(call_id).is_some_and(|call| matches!(call.subject, CallSubject::Command(_)));
        if !is_command {
            return;
        }
        let id = MessageId::new(call_id.as_str());
        let stream = self.streams.entry(id.clone()).or_insert_with(|| Stream::new(Say::CommandOutput, mask));
        let is_due = stream.grow(text, at);
        keep_end(&mut stream.text);
        if is_due {
            let message = ClineMessage {
                partial: Some(true),
                ..ClineMessage::new(0, Say::CommandOutput, Some(stream.text.clone()))
            };
            self.put(&id, at, message, out);
        }
    }

    /// A command has ended; `summary` stands for an output that nobody has seen.
    fn end_output(&mut self, call_id: &ToolCallId, summary: &str, at: i64, out: &mut Vec<RooEvent>) {
        let id = MessageId::new(call_id.as_str());
        let stream = self.streams.remove(&id);
        let text = stream.map(|stream| stream.text + &stream.redactor.finish());
        let text = text.filter(|text| !text.is_empty()).unwrap_or_else(|| summary.to_owned());
        let message =
            ClineMessage { partial: Some(false), ..ClineMessage::new(0, Say::CommandOutput, Some(text)) };
        self.put(&id, at, message, out);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn finished(
        &mut self,
        params: &EventParams,
        call_id: &ToolCallId,
        status: ToolStatus,
        summary: &str,
        images: &[String],
        result: Option<&Message>,
        out: &mut Vec<RooEvent>,
    ) {
        let Some(call) = self.calls.remove(call_id) else { return };
        let at = params.at;
        let count = self.tools.0.entry(call.tool_name()).or_default();
        count.attempts = count.attempts.saturating_add(1);
        count.failures = count.failures.saturating_add(u32::from(status != ToolStatus::Ok));
        if status == ToolStatus::Failed {
            let (task, tool, error) = (self.id.clone(), call.tool_name(), summary.to_owned());
            out.push(RooEvent::TaskToolFailed { task, tool, error });
        }
        let has_run = call.name.is_some();
        let is_success = status == ToolStatus::Ok;
        match &call.subject {
            CallSubject::Command(_) if call.is_background => {
                self.calls.insert(call_id.clone(), call);
            }
            CallSubject::Command(_) if has_run => self.end_output(call_id, summary, at, out),
            CallSubject::Server(_) if has_run => {
                let text = match result {
                    Some(result) => result.text.clone(),
                    None => payload::mcp_ended(call_id, is_success, summary),
                };
                self.put_result(call_id, Say::McpServerResponse, text, images, at, out);
            }
            CallSubject::Browser(_) if is_success => {
                let text = payload::browser_result(summary, images);
                self.put_result(call_id, Say::BrowserActionResult, text, &[], at, out);
            }
            CallSubject::Tool(_) if is_success => {
                if let Some(result) = result {
                    let text = result.text.clone();
                    self.put_result(call_id, Say::CodebaseSearchResult, text, &[], at, out);
                }
                if !images.is_empty() {
                    self.put_result(call_id, Say::Image, summary.to_owned(), images, at, out);
                }
            }
            _ if status == ToolStatus::Failed && !call.is_tool("newTask") => {
                let edits = call.is_tool("appliedDiff") || call.is_tool("searchAndReplace");
                let say = if edits { Say::DiffError } else { Say::Error };
                self.put_result(call_id, say, summary.to_owned(), &[], at, out);
            }
            _ => {}
        }
    }

    /// Tells what came of a call.
    fn put_result(
        &mut self,
        call_id: &ToolCallId,
        say: Say,
        text: String,
        images: &[String],
        at: i64,
        out: &mut Vec<RooEvent>,
    ) {
        let message = ClineMessage { images: images.to_vec(), ..ClineMessage::new(0, say, Some(text)) };
        self.put(&MessageId::new(call_id.as_str()), at, message, out);
    }

    fn decided(
        &mut self,
        params: &EventParams,
        call_id: &ToolCallId,
        verdict: Verdict,
        rule: &str,
        reason: &str,
        out: &mut Vec<RooEvent>,
    ) {
        let Some(call) = self.calls.get_mut(call_id) else { return };
        match (verdict, rule) {
            (Verdict::Deny, "rooignore") => {
                let path = call.path().unwrap_or(reason).to_owned();
                let message = ClineMessage::new(0, Say::RooignoreError, Some(path));
                self.put(&derived("rooignore", params), params.at, message, out);
            }
            (Verdict::Ask, "protected" | "outside") => {
                let flag = if rule == "protected" { "isProtected" } else { "isOutsideWorkspace" };
                if let Some(tool) = call.tool_mut() {
                    tool[flag] = true.into();
                    self.show_call(call_id, params.at, out);
                }
            }
            _ => {}
        }
    }

    fn approval(&mut self, approval: &PendingApproval, at: i64, out: &mut Vec<RooEvent>) {
        let call_id = &approval.tool_call_id;
        let edits = ["editedExistingFile", "newFileCreated", "insertContent", "searchAndReplace"];
        if let Some(call) = self.calls.get_mut(call_id)
            && edits.iter().any(|tool| call.is_tool(tool))
            && let Some(tool) = call.tool_mut()
        {
            tool["diff"] = approval.subject.as_str().into();
            self.show_call(call_id, at, out);
        }
        self.asked.insert(approval.approval_id.to_string(), Asked::Call(call_id.clone()));
        self.set_status(Status::Interactive, out);
    }

    fn question(&mut self, question: &PendingQuestion, at: i64, out: &mut Vec<RooEvent>) {
        let (ask, status) = match question.kind {
            QuestionKind::Followup | QuestionKind::McpElicitation => (Ask::Followup, Status::Interactive),
            QuestionKind::MistakeLimitReached => (Ask::MistakeLimitReached, Status::Idle),
            QuestionKind::AutoApprovalMaxReqReached => (Ask::AutoApprovalMaxReqReached, Status::Idle),
            QuestionKind::ApiReqFailed => (Ask::ApiReqFailed, Status::Idle),
            QuestionKind::ChangesUnknown => (Ask::ResumeTask, Status::Resumable),
        };
        let shown = self.shown_question.take().filter(|_| ask != Ask::Followup);
        let (id, message) = shown.unwrap_or_else(|| {
            let text = match ask {
                Ask::Followup => payload::followup(&question.text, &question.suggestions),
                _ => question.text.clone(),
            };
            let id = MessageId::new(question.question_id.as_str());
            let message = self.put(&id, at, ClineMessage::new(0, ask, Some(text)), out);
            (id, message)
        });
        self.asked.insert(question.question_id.to_string(), Asked::Question(id, message));
        self.set_status(status, out);
    }

    /// An approval or a question is over.
    fn answered(&mut self, id: &str, is_answer: bool, at: i64, out: &mut Vec<RooEvent>) {
        match self.asked.remove(id) {
            Some(Asked::Call(call_id)) => {
                if let Some(call) = self.calls.get_mut(&call_id) {
                    call.is_answered = true;
                    self.show_call(&call_id, at, out);
                }
            }
            Some(Asked::Question(id, message)) => {
                self.put(&id, at, ClineMessage { is_answered: true, ..message }, out);
            }
            None => return,
        }
        if is_answer {
            self.tell(Lifecycle::AskResponded, out);
        }
        if self.asked.is_empty() {
            self.set_status(Status::Active, out);
        }
    }

    /// What the user says with an approval.
    fn feedback(
        &mut self,
        params: &EventParams,
        text: Option<&str>,
        hunks: &[ReviewedHunk],
        out: &mut Vec<RooEvent>,
    ) {
        if let Some(diff) = payload::changed_by_user(hunks) {
            let message = ClineMessage::new(0, Say::UserFeedbackDiff, Some(diff));
            self.put(&derived("review", params), params.at, message, out);
        }
        if let Some(text) = text.filter(|text| !text.is_empty()) {
            let message = ClineMessage::new(0, Say::UserFeedback, Some(text.to_owned()));
            self.put(&derived("feedback", params), params.at, message, out);
        }
    }

    /// The first call without a result of which this holds. Calls of an answer run in their order.
    fn first_call(&self, is_it: impl Fn(&Call) -> bool) -> Option<ToolCallId> {
        let calls = self.calls.iter().filter(|(_, call)| is_it(call)).map(|(id, _)| id);
        // They are numbered.
        calls.min_by_key(|id| (id.as_str().len(), id.as_str())).cloned()
    }

    /// The file of the edit that runs was not there before.
    fn created_file(&mut self, at: i64, out: &mut Vec<RooEvent>) {
        let running = self.first_call(|call| call.name.is_some() && call.is_tool("editedExistingFile"));
        self.describe(running, "tool", "newFileCreated".into(), at, out);
    }

    fn todo(&mut self, items: &[TodoItem], at: i64, out: &mut Vec<RooEvent>) {
        let todos =
            items.iter().map(|item| json!({ "id": item.id, "content": item.content, "status": item.status }));
        let call = self.first_call(|call| call.is_tool("updateTodoList"));
        self.describe(call, "todos", todos.collect(), at, out);
    }

    /// Adds to the description of a call's tool.
    fn describe(
        &mut self,
        call_id: Option<ToolCallId>,
        key: &str,
        value: Value,
        at: i64,
        out: &mut Vec<RooEvent>,
    ) {
        let Some(call_id) = call_id else { return };
        if let Some(tool) = self.calls.get_mut(&call_id).and_then(Call::tool_mut) {
            tool[key] = value;
            self.show_call(&call_id, at, out);
        }
    }

    fn queue(&mut self, items: &[QueueItem], at: i64, out: &mut Vec<RooEvent>) {
        self.queued_since.retain(|id, _| items.iter().any(|item| item.id == *id));
        let messages = items.iter().map(|item| QueuedMessage {
            timestamp: *self.queued_since.entry(item.id.clone()).or_insert(at),
            id: item.id.clone(),
            text: item.text.clone(),
            images: item.images.clone(),
        });
        let messages = messages.collect();
        out.push(RooEvent::QueuedMessagesUpdated { task: self.id.clone(), messages });
    }

    /// A model request has its answer. What failed requests before it used counts as its own.
    fn used(&mut self, total: &Usage, context: Option<&ContextMeter>, at: i64, out: &mut Vec<RooEvent>) {
        let used = ApiRequestUsage::between(&self.usage, total);
        self.context = context.map_or_else(|| used.tokens(), |context| context.used);
        self.usage = *total;
        if let Some((id, request)) = &mut self.request {
            request.usage = Some(used);
            let (id, text) = (id.clone(), request.text());
            self.put(&id, at, ClineMessage::new(0, Say::ApiReqStarted, Some(text)), out);
        }
        match self.usage_told {
            Some(told) if told.saturating_add(USAGE) > at => {
                self.usage_due = Some(told.saturating_add(USAGE))
            }
            _ => self.tell_usage(at, out),
        }
    }

    /// Tells usage and tools so far.
    pub(super) fn tell_usage(&mut self, now: i64, out: &mut Vec<RooEvent>) {
        (self.usage_told, self.usage_due) = (Some(now), None);
        let (task, usage, tools) = (self.id.clone(), self.token_usage(), self.tools.clone());
        out.push(RooEvent::TaskTokenUsageUpdated { task, usage, tools });
    }

    fn token_usage(&self) -> TokenUsage {
        let Usage { tokens_in, tokens_out, cache_reads, cache_writes, cost_usd } = self.usage;
        TokenUsage {
            total_tokens_in: tokens_in.saturating_add(cache_reads).saturating_add(cache_writes),
            total_tokens_out: tokens_out,
            total_cache_writes: cache_writes,
            total_cache_reads: cache_reads,
            total_cost: cost_usd,
            context_tokens: self.context,
        }
    }

    fn shortened(&mut self, params: &EventParams, out: &mut Vec<RooEvent>) {
        let at = params.at;
        let condensing = self.condensing.take();
        match &params.event {
            Event::ContextShortened {
                method: ShorteningMethod::Summary,
                tokens_before,
                tokens_after,
                summary,
                cost_usd,
                ..
            } => {
                let condensed = ContextCondense {
                    cost: *cost_usd,
                    prev_context_tokens: *tokens_before,
                    new_context_tokens: *tokens_after,
                    summary: summary.clone().unwrap_or_default(),
                };
                let message = ClineMessage {
                    partial: Some(false),
                    context_condense: Some(condensed),
                    ..ClineMessage::new(0, Say::CondenseContext, None)
                };
                let id = condensing.unwrap_or_else(|| derived("condense", params));
                self.put(&id, at, message, out);
            }
            Event::ContextShortened { tokens_before, tokens_after, results, arguments, .. } => {
                let id = derived("shortened", params);
                let truncated = ContextTruncation {
                    truncation_id: id.to_string(),
                    messages_removed: results + arguments,
                    prev_context_tokens: *tokens_before,
                    new_context_tokens: *tokens_after,
                };
                let message = ClineMessage {
                    context_truncation: Some(truncated),
                    ..ClineMessage::new(0, Say::SlidingWindowTruncation, None)
                };
                self.put(&id, at, message, out);
            }
            Event::ContextKept { reason } => {
                if let Some(id) = condensing {
                    let message = ClineMessage {
                        partial: Some(false),
                        ..ClineMessage::new(0, Say::CondenseContext, None)
                    };
                    self.put(&id, at, message, out);
                }
                let message = ClineMessage::new(0, Say::CondenseContextError, Some(reason.clone()));
                self.put(&derived("kept", params), at, message, out);
            }
            _ => {}
        }
    }

    fn state(
        &mut self,
        params: &EventParams,
        state: TaskState,
        result: Option<&str>,
        reason: Option<&str>,
        out: &mut Vec<RooEvent>,
    ) {
        let at = params.at;
        match state {
            // Where there is a reason, it is a note on what is done.
            TaskState::Running if reason.is_none() => {
                self.tell(Lifecycle::Started, out);
                self.go_on(at, out);
            }
            TaskState::Running | TaskState::Waiting | TaskState::Paused => {}
            TaskState::Interrupted => {
                self.end_streams(at, out);
                self.comes_to_rest(params, Ask::ResumeTask, out);
            }
            TaskState::Completed => {
                self.end(at, out);
                // Those of a request that has stopped go on with it.
                self.delegations.clear();
                self.result = result.map(str::to_owned);
                let (task, usage, tools) = (self.id.clone(), self.token_usage(), self.tools.clone());
                out.push(RooEvent::TaskCompleted { task, usage, tools, is_subtask: !self.is_root() });
                if self.is_root() {
                    self.comes_to_rest(params, Ask::CompletionResult, out);
                }
            }
            TaskState::Failed | TaskState::Cancelled => {
                self.end(at, out);
                if state == TaskState::Failed && self.last_error.as_deref() != reason {
                    let text = reason.unwrap_or("The task has failed.").to_owned();
                    let message = ClineMessage::new(0, Say::Error, Some(text));
                    self.put(&derived("failed", params), at, message, out);
                }
                self.tell(Lifecycle::Aborted, out);
                if self.is_root() {
                    self.comes_to_rest(params, Ask::ResumeTask, out);
                }
            }
        }
    }

    /// Nothing goes on in a task that has ended.
    fn end(&mut self, at: i64, out: &mut Vec<RooEvent>) {
        self.end_streams(at, out);
        self.calls.clear();
        self.asked.clear();
        if self.usage_due.is_some() {
            self.tell_usage(at, out);
        }
    }

    /// Asks with what it goes on.
    fn comes_to_rest(&mut self, params: &EventParams, ask: Ask, out: &mut Vec<RooEvent>) {
        let id = derived("rest", params);
        let (text, status) = match ask {
            Ask::CompletionResult => (Some(String::new()), Status::Idle),
            _ => (None, Status::Resumable),
        };
        let message = self.put(&id, params.at, ClineMessage::new(0, ask, text), out);
        self.rest = Some((id, message));
        self.set_status(status, out);
    }
}

/// The id of a message that our log has no message for, by the number of its event.
fn derived(about: &str, params: &EventParams) -> MessageId {
    MessageId::new(format!("{about}-{}", params.seq.unwrap_or_default()))
}

/// Cuts a text to its end.
fn keep_end(text: &mut String) {
    if text.len() > 2 * OUTPUT {
        text.drain(..text.ceil_char_boundary(text.len() - OUTPUT));
    }
}
