//! `roo/event`: the numbered facts of a request as clients see them.
//!
//! Every record of a request's log goes out under its `seq`; the live-only events
//! (`message.delta`, `tool.output`) carry none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ids::{ApprovalId, CommandId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use super::message::Message;
use super::task::{PendingApproval, PendingQuestion, TaskState, TodoItem, ToolUsage, Usage};

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
        /// Who answered: a client's name, `cli`, or `server` when it became void.
        by: String,
        /// The chosen option; none when void.
        option_id: Option<String>,
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
        /// Who answered.
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
    /// Usage of a model request.
    #[serde(rename = "usage")]
    Usage {
        /// The totals of the task so far.
        #[serde(flatten)]
        total: Usage,
    },
    /// A model request will be made again.
    #[serde(rename = "retry.scheduled")]
    RetryScheduled {
        /// Time, in milliseconds since the Unix epoch.
        at: i64,
        /// Which attempt comes next, from 2.
        attempt: u32,
        /// Reason.
        reason: String,
    },
    /// The server works with reduced function.
    #[serde(rename = "server.degraded")]
    ServerDegraded {
        /// Reason and remedy.
        reason: String,
    },
    /// An event of a newer server.
    #[serde(other)]
    Unknown,
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

/// Final status of a tool call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum ToolStatus {
    /// It did what was asked.
    Ok,
    /// It failed; the result says why.
    Failed,
    /// Policy or the user said no.
    Denied,
    /// It was not run: an earlier call of the answer was refused or failed.
    Skipped,
    /// The task was cancelled or the server ended; effects may have happened.
    Interrupted,
}

/// One possible answer to an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalOption {
    /// Answer with this.
    pub id: String,
    /// Label of the button.
    pub name: String,
    /// Meaning.
    pub kind: OptionKind,
}

/// Meaning of an option. The names are those of the Agent Client Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OptionKind {
    /// Allow this one action.
    AllowOnce,
    /// Allow it, and make a rule.
    AllowAlways,
    /// Refuse this one action.
    RejectOnce,
    /// Refuse it, and make a rule.
    RejectAlways,
}

impl OptionKind {
    /// Returns whether choosing it lets the action happen.
    pub fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }
}

/// Reasons why a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QuestionKind {
    /// The model asked.
    Followup,
    /// The model kept making mistakes.
    MistakeLimitReached,
    /// A cap on requests or cost is used up.
    AutoApprovalMaxReqReached,
    /// The model can't be reached.
    ApiReqFailed,
    /// The changes of a command are not known.
    ChangesUnknown,
}

/// A suggested answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// The answer's text.
    pub text: String,
    /// The mode to switch to with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
}

impl Suggestion {
    /// Returns the label for people: the text, and the mode that comes with it.
    pub fn label(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{} (goes on in the mode {mode})", self.text),
            None => self.text.clone(),
        }
    }
}
