//! `roo/event`: the numbered facts of a request as clients see them.
//!
//! Every record of a request's log goes out under its `seq`; the live-only events
//! (`message.delta`, `tool.output`) carry none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::checkpoint::{CheckpointFile, RestoreWhat};
use super::context::{ContextMeter, ShorteningMethod};
use super::ids::{ApprovalId, CommandId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use super::message::Message;
use super::review::ReviewedHunk;
use super::task::{
    ForkOrigin, ImportOrigin, PendingApproval, PendingQuestion, TaskState, TodoItem, ToolUsage, Usage,
};

pub use super::approval::{ApprovalOption, OptionKind};
pub use super::question::{QuestionKind, Suggestion};
pub use super::task::ToolStatus;

/// The parameters of `roo/event`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EventParams {
    /// The request (its root task).
    pub root_id: TaskId,
    /// The task that this is about.
    pub task_id: TaskId,
    /// The place in the request's log, gapless from 1. Absent on live-only events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// On a merged item, the first `seq` that it stands for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// Time, in milliseconds since the Unix epoch.
    pub at: i64,
    /// Event.
    pub event: Event,
}

/// Event of a request. Clients ignore types and fields that they don't know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Event {
    /// A task came to be.
    #[serde(rename = "task.created")]
    TaskCreated {
        /// The task that delegated it; none for a root.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        parent_id: Option<TaskId>,
        /// The request's id for people.
        urid: Urid,
        /// The slug of its mode.
        mode: String,
        /// Its prompt on one line, shortened.
        title: String,
        /// Emoji of its mode.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        emoji: String,
    },
    /// The request is a fork: all events up to here are those of another request, with its own ids. What they left open
    /// ends with the next ones, and totals start over.
    #[serde(rename = "task.forked")]
    TaskForked {
        /// The fork's id for people.
        urid: Urid,
        /// Its title from now on.
        title: String,
        /// Where it begins.
        from: ForkOrigin,
    },
    /// The request was imported: the next events, up to its first end, are made from another program's history. Nothing of it
    /// was asked, judged or run here.
    #[serde(rename = "task.imported")]
    TaskImported {
        /// The other program's task.
        from: ImportOrigin,
    },
    /// A task changed its state.
    #[serde(rename = "task.state")]
    TaskState {
        /// The new state.
        state: TaskState,
        /// The result of a completed task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        result: Option<String>,
        /// Reason, where it isn't obvious.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Totals so far, at the end of a task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
        /// Calls and failures of each tool, at the end of a task.
        #[serde(default, skip_serializing_if = "ToolUsage::is_empty")]
        tool_usage: ToolUsage,
    },
    /// A message, or a new version of one.
    #[serde(rename = "message")]
    Message {
        /// The message; replaces an earlier one of the same id.
        message: Message,
    },
    /// Text of a message that is still being written. Live only.
    #[serde(rename = "message.delta")]
    MessageDelta {
        /// The message.
        id: MessageId,
        /// `text` or `reasoning`, so that a client can show it before it closes.
        say: super::message::Say,
        /// Offset of the text from the message's beginning, in UTF-8 bytes.
        offset: u64,
        /// The text to put there.
        text: String,
    },
    /// Output of a running tool. Live only.
    #[serde(rename = "tool.output")]
    ToolOutput {
        /// The call.
        tool_call_id: ToolCallId,
        /// Offset of the text from the output's beginning, in UTF-8 bytes. A jump means that output was dropped for a
        /// slow client; the whole is in the result.
        offset: u64,
        /// The text to put there.
        text: String,
    },
    /// A tool began to run.
    #[serde(rename = "tool.started")]
    ToolStarted {
        /// The call.
        tool_call_id: ToolCallId,
        /// The tool's name.
        name: String,
        /// Subject of the call: a path, a command, a question.
        subject: String,
    },
    /// The gate gave a call its verdict.
    #[serde(rename = "gate.decided")]
    GateDecided {
        /// The call.
        tool_call_id: ToolCallId,
        /// The verdict.
        verdict: Verdict,
        /// The rule that decided, such as `autoApprove.read` or `protected`.
        rule: String,
        /// Reason, in words.
        reason: String,
        /// The same for programs: a `code`, and what it is about.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<serde_json::Value>,
    },
    /// The task has bound an intent; it covers what may be changed from now on.
    #[serde(rename = "intent.selected")]
    IntentSelected {
        /// The intent's id.
        intent_id: String,
        /// Display name.
        name: String,
        /// Of what governs.
        digest: Digest,
    },
    /// A call has its one result.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// The call.
        tool_call_id: ToolCallId,
        /// Status at the end.
        status: ToolStatus,
        /// One line on what came of it.
        summary: String,
        /// The exit code of the command; none where no command has ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Pictures that the model gets of it, such as those of the browser, as data URLs. The summary says how many.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<String>,
    },
    /// The command of a call runs on in the background. Its output goes on as output of the call.
    #[serde(rename = "command.backgrounded")]
    CommandBackgrounded {
        /// The command.
        command_id: CommandId,
        /// The call that began it.
        tool_call_id: ToolCallId,
        /// The command line.
        command: String,
    },
    /// A command in the background has ended.
    #[serde(rename = "command.ended")]
    CommandEnded {
        /// The command.
        command_id: CommandId,
        /// The call that began it.
        tool_call_id: ToolCallId,
        /// Status at the end.
        status: ToolStatus,
        /// One line on what came of it.
        summary: String,
        /// The exit code of the command; none where no command has ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// The user is asked for permission.
    #[serde(rename = "approval.requested")]
    ApprovalRequested {
        /// Requested approval.
        #[serde(flatten)]
        approval: PendingApproval,
    },
    /// An approval was answered, or became void.
    #[serde(rename = "approval.resolved")]
    ApprovalResolved {
        /// The approval.
        approval_id: ApprovalId,
        /// Author of the answer, to be shown: a client's name, `cli` for a terminal, `server` when it became void, or `rule` with
        /// the id of the standing rule that decided it, as in `rule r3`. A client with such a name has `client` before it.
        by: String,
        /// The id of that rule, which `roo/rule/list` has, with its sentence.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        rule_id: Option<String>,
        /// The chosen option; none when void or decided by a rule.
        option_id: Option<String>,
        /// The user's words, whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        text: Option<String>,
        /// The decision on each hunk, where the user answered hunk by hunk.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        hunks: Vec<ReviewedHunk>,
    },
    /// A task asks its user something.
    #[serde(rename = "question.asked")]
    QuestionAsked {
        /// Question.
        #[serde(flatten)]
        question: PendingQuestion,
    },
    /// A question was answered, or became void.
    #[serde(rename = "question.answered")]
    QuestionAnswered {
        /// The question.
        question_id: QuestionId,
        /// Author of the answer.
        by: String,
        /// The answer; none when void.
        text: Option<String>,
    },
    /// An edit reached a buffer or the disk.
    #[serde(rename = "edit.applied")]
    EditApplied {
        /// The document.
        uri: String,
        /// The digest before; none for a new file.
        before: Option<Digest>,
        /// The digest after; none for a deleted file.
        after: Option<Digest>,
    },
    /// The task goes on in another mode, or with another model.
    #[serde(rename = "mode.switched")]
    ModeSwitched {
        /// The slug of its mode from now on; none when it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// The name of its model profile from now on; none when it stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        profile: Option<String>,
    },
    /// The invocation tree, or a part of it, changed. Not part of the log: a client that comes later
    /// gets the newest one.
    #[serde(rename = "tree.changed")]
    TreeChanged {
        /// All branches, parents before children.
        nodes: Vec<super::tree::TreeNode>,
    },
    /// The to-do list changed.
    #[serde(rename = "todo.changed")]
    TodoChanged {
        /// The whole list.
        items: Vec<TodoItem>,
    },
    /// Messages that wait for the task changed.
    #[serde(rename = "queue.changed")]
    QueueChanged {
        /// The whole queue.
        items: Vec<super::task::QueueItem>,
    },
    /// The user restores an earlier state. Files change and the conversation is cut when it has finished.
    #[serde(rename = "restore.started")]
    RestoreStarted {
        /// The number of the event before which the state was.
        seq: u64,
        /// What is restored.
        what: RestoreWhat,
        /// The changed files.
        files: Vec<CheckpointFile>,
        /// Author: a client's name, or `cli`.
        by: String,
    },
    /// A restore has finished.
    #[serde(rename = "restore.finished")]
    RestoreFinished {
        /// The number of the event that started it, by which it can be undone.
        seq: u64,
        /// True if it was restored, false if nothing was.
        done: bool,
        /// Reason, where not all was restored: a server that was killed had not come to the files of every folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// The number of the first event that the model no longer sees; absent where the conversation stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation_before: Option<u64>,
    },
    /// Usage of a task so far, after each of its model requests.
    #[serde(rename = "usage")]
    Usage {
        /// The totals of the task so far.
        #[serde(flatten)]
        total: Usage,
        /// The size of the newest model request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<ContextMeter>,
    },
    /// The conversation is being shortened to fit the model's window, or as the user wanted it.
    #[serde(rename = "context.shortening")]
    ContextShortening {
        /// Way to shorten it. A summary may take a while.
        method: ShorteningMethod,
    },
    /// The conversation was shortened. The log keeps all of it, and `roo/context/restore` undoes it.
    #[serde(rename = "context.shortened")]
    ContextShortened {
        /// Way in which it was shortened.
        method: ShorteningMethod,
        /// Estimated tokens of the next request before.
        tokens_before: u64,
        /// Estimated tokens of the next request after.
        tokens_after: u64,
        /// Number of results in place of which there are placeholders.
        #[serde(default, skip_serializing_if = "is_zero")]
        results: usize,
        /// Number of calls whose large arguments are placeholders.
        #[serde(default, skip_serializing_if = "is_zero")]
        arguments: usize,
        /// The summary or the outline in place of earlier turns.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        summary: Option<String>,
        /// Cost of the summary in US dollars.
        #[serde(default)]
        cost_usd: f64,
    },
    /// The conversation was not shortened.
    #[serde(rename = "context.kept")]
    ContextKept {
        /// Reason.
        reason: String,
    },
    /// A shortening was undone.
    #[serde(rename = "context.restored")]
    ContextRestored {
        /// The `seq` of the shortening.
        seq: u64,
        /// Estimated tokens of the next request before.
        tokens_before: u64,
        /// Estimated tokens of the next request after.
        tokens_after: u64,
    },
    /// A model request will be made at a later time: again after a failure, or because a rate limit spaces out requests.
    #[serde(rename = "retry.scheduled")]
    RetryScheduled {
        /// Time, in milliseconds since the Unix epoch.
        at: i64,
        /// Number of the attempt that is made then, from 1. It is 1 where the request has not failed yet, or another
        /// profile takes over.
        attempt: u32,
        /// Reason.
        reason: String,
    },
    /// The server works with reduced function.
    #[serde(rename = "server.degraded")]
    ServerDegraded {
        /// Reason and remedy.
        reason: String,
        /// What ends it. Absent where nothing does, as with a damaged log.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<DegradedUntil>,
    },
    /// The server works with full function again. What `server.degraded` reported is over where it had an `until`.
    #[serde(rename = "server.recovered")]
    ServerRecovered,
    /// An event of a newer server.
    #[serde(other)]
    Unknown,
}

/// Returns whether a number is left out of what is sent.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// End of reduced function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum DegradedUntil {
    /// The event `server.recovered`, which comes when the cause is gone.
    Recovered,
    /// The client attaches to the request again. Until then it is sent no events of it.
    Attached,
}

/// A gate's verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// The user decides.
    Ask,
    /// It may not run; the model is told why.
    Deny,
}
