//! Parameters and results of the `roo/*` requests about tasks, approvals and questions.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::approval::{ApprovalOption, OptionKind};
use super::checkpoint::LeftOutFile;
use super::context::{ContextMeter, Shortening};
use super::ids::{ApprovalId, CommandId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use super::message::Message;
use super::question::{QuestionKind, Suggestion};
use super::review::{Hunk, HunkAnswer};
use super::rule::RuleSubject;

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum TaskState {
    /// The model or a tool is at work.
    Running,
    /// An approval or a question waits for the user.
    Waiting,
    /// A child works; the task goes on with its result.
    Paused,
    /// The server ended while it ran; it goes on with `roo/task/resume`.
    Interrupted,
    /// It ended well.
    Completed,
    /// It ended without reaching its goal.
    Failed,
    /// The user ended it.
    Cancelled,
}

impl TaskState {
    /// Returns whether this is an end: completed, failed or cancelled.
    pub fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Cancelled)
    }

    /// Its name, as on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Paused => "paused",
            Self::Interrupted => "interrupted",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Tokens and money.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Usage {
    /// Input tokens, without those read from or written to the provider's cache.
    pub tokens_in: u64,
    /// Output tokens.
    pub tokens_out: u64,
    /// Input tokens read from the provider's cache.
    pub cache_reads: u64,
    /// Input tokens written to the provider's cache.
    pub cache_writes: u64,
    /// Cost in US dollars, from the profile's prices or the provider's own word.
    pub cost_usd: f64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.tokens_in = self.tokens_in.saturating_add(other.tokens_in);
        self.tokens_out = self.tokens_out.saturating_add(other.tokens_out);
        self.cache_reads = self.cache_reads.saturating_add(other.cache_reads);
        self.cache_writes = self.cache_writes.saturating_add(other.cache_writes);
        self.cost_usd += other.cost_usd;
    }
}

/// Tries and failures of one tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCount {
    /// Number of calls.
    pub attempts: u32,
    /// Number of failed calls.
    pub failures: u32,
}

/// Tries and failures by tool name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ToolUsage(pub BTreeMap<String, ToolCount>);

impl ToolUsage {
    /// Returns whether no tool was called.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// One entry of the to-do list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TodoItem {
    /// Kept while the entry's text stays, whatever its status.
    pub id: String,
    /// Text of the entry.
    pub content: String,
    /// Status.
    pub status: TodoStatus,
}

/// Status of a to-do entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
}

impl TodoStatus {
    /// Returns its mark in a Markdown checklist: `[ ]`, `[-]` or `[x]`.
    pub fn mark(self) -> &'static str {
        match self {
            Self::Pending => "[ ]",
            Self::InProgress => "[-]",
            Self::Completed => "[x]",
        }
    }

    /// Reads what stands between the brackets of a checklist's entry, as leniently as models write it.
    pub fn from_mark(inner: &str) -> Option<Self> {
        match inner.trim() {
            "" => Some(Self::Pending),
            "-" | "~" => Some(Self::InProgress),
            "x" | "X" | "✓" | "✔" => Some(Self::Completed),
            _ => None,
        }
    }
}

/// A position in a document: zero-based line and character, in the negotiated encoding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Position {
    /// Zero-based line.
    pub line: u32,
    /// Zero-based character offset in the negotiated position encoding.
    pub character: u32,
}

/// A range in a document; the end is exclusive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Range {
    /// Begin.
    pub start: Position,
    /// End, exclusive.
    pub end: Position,
}

/// A place that the prompt is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextItem {
    /// A `file:` URI.
    pub uri: String,
    /// The part of it; all when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<Range>,
}

/// `roo/task/start`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStartParams {
    /// Prompt.
    pub prompt: String,
    /// The slug of the mode; the settings' default when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The name of the model profile; the mode's or the default one when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Places that the prompt is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<ContextItem>,
}

/// Result of `roo/task/start`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStartResult {
    /// The new root task; the client is attached to it.
    pub task_id: TaskId,
    /// The request's id for people.
    pub urid: Urid,
}

/// Time at which a message reaches a running task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum SendWhen {
    /// With the next model request, after the tool that runs now. While the task waits for one subtask alone, that one gets
    /// it; while it waits for several, it gets it after they have ended.
    #[default]
    Now,
    /// At the point where the task would otherwise stop.
    AfterTurn,
}

/// `roo/task/fork`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskForkParams {
    /// The request.
    pub task_id: TaskId,
    /// The number of the last event that the fork has; the newest when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
    /// What the fork goes on with; it waits for a message when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// True for a git worktree with files of its own, as they were at that event. The fork is a request of that folder, so it
    /// takes no prompt here.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub worktree: bool,
}

/// Result of `roo/task/delete`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskDeleteResult {
    /// Worktrees of its branches that are kept, as they have changes that are not merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept_worktrees: Vec<KeptWorktree>,
}

/// A git worktree of a branch that is kept after the branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeptWorktree {
    /// Its folder.
    pub path: String,
    /// Reason.
    pub reason: String,
}

/// Result of `roo/task/fork`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskForkResult {
    /// The fork's root task; the client is attached to it, unless it has a folder of its own.
    pub task_id: TaskId,
    /// The fork's id for people.
    pub urid: Urid,
    /// The number of the last event that it has of the other request.
    pub seq: u64,
    /// The folder of its own; absent where both have the same files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Files that are not there as they were at that event.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOutFile>,
}

/// `roo/task/send`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSendParams {
    /// The task.
    pub task_id: TaskId,
    /// Text of the user. Never an approval, whatever waits.
    pub text: String,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Time at which it reaches the model.
    #[serde(default)]
    pub when: SendWhen,
}

/// A request that names a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskParams {
    /// The task.
    pub task_id: TaskId,
}

/// `roo/command/stop`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandStopParams {
    /// A task of the request that the command belongs to.
    pub task_id: TaskId,
    /// The command in the background.
    pub command_id: CommandId,
}

/// An answer without content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Done {}

/// `roo/task/attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskAttachParams {
    /// The task whose request to follow, or `*` for everything, live only.
    pub task_id: TaskId,
    /// Events up to and including this `seq` are not sent again. 0 replays all.
    #[serde(default)]
    pub after_seq: u64,
}

/// Result of `roo/task/attach`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskAttachResult {
    /// The newest `seq` of the request at this moment.
    pub seq: u64,
}

/// `roo/task/list`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TaskListParams {
    /// From an earlier answer, to go on behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Result of `roo/task/list`: newest first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskListResult {
    /// At most 100 requests.
    pub items: Vec<HistoryItem>,
    /// Cursor for the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

/// A request in a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryItem {
    /// The root task.
    pub task_id: TaskId,
    /// The request's id for people.
    pub urid: Urid,
    /// Its prompt on one line, shortened.
    pub title: String,
    /// The slug of its mode.
    pub mode: String,
    /// State.
    pub state: TaskState,
    /// Creation time, in milliseconds since the Unix epoch.
    pub created_at: i64,
    /// Time of its last event.
    pub updated_at: i64,
    /// Totals so far.
    pub usage: Usage,
    /// The newest `seq`.
    pub seq: u64,
    /// Where a fork begins; absent for any other request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkOrigin>,
    /// The other program's task that it was imported from; absent for any other request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported_from: Option<ImportOrigin>,
}

/// A task of another program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportOrigin {
    /// The program, for people.
    pub program: String,
    /// The id that the task has there.
    pub task_id: String,
    /// The id that the task has there which delegated it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_task_id: Option<String>,
    /// The id that the first of the tasks has there which delegated to one another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_task_id: Option<String>,
    /// The ids that the tasks have there to which it delegated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_task_ids: Vec<String>,
}

/// The place in another request at which a fork begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ForkOrigin {
    /// The request that was forked.
    pub task_id: TaskId,
    /// Its id for people.
    pub urid: Urid,
    /// The number of the last event that both have.
    pub seq: u64,
    /// What was used up to there. It is no part of the fork's own totals.
    pub usage: Usage,
}

/// Result of `roo/task/get`: the task as it is at `seq`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskSnapshot {
    /// The task in short.
    #[serde(flatten)]
    pub item: HistoryItem,
    /// The request that it belongs to.
    pub root_id: TaskId,
    /// The result of a completed task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// Reason why it is in its state, where that isn't plain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// All messages.
    pub messages: Vec<Message>,
    /// The to-do list.
    pub todo: Vec<TodoItem>,
    /// Messages that wait for the task.
    pub queue: Vec<QueueItem>,
    /// The approval that waits, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<PendingApproval>,
    /// The question that waits, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<PendingQuestion>,
    /// Tries and failures by tool.
    pub tool_usage: ToolUsage,
    /// The size of the next model request; none before the first one has its answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<ContextMeter>,
    /// How its conversation was shortened, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shortenings: Vec<Shortening>,
    /// Outcome of each call, in the order of their ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<CallOutcome>,
}

/// Outcome of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CallOutcome {
    /// The message that shows the call.
    pub message_id: MessageId,
    /// The tool.
    pub name: String,
    /// Subject of the call.
    pub subject: String,
    /// Final status.
    pub status: ToolStatus,
    /// One line for people.
    pub summary: String,
    /// The exit code of the command that it ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

/// A message that waits for its task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueItem {
    /// Names it in `roo/queue/edit` and `roo/queue/delete`.
    pub id: String,
    /// Text of the user.
    pub text: String,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// Time of delivery.
    pub when: SendWhen,
}

/// `roo/queue/edit`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueEditParams {
    /// The task.
    pub task_id: TaskId,
    /// The waiting message.
    pub item_id: String,
    /// Its new text.
    pub text: String,
}

/// `roo/queue/delete`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueDeleteParams {
    /// The task.
    pub task_id: TaskId,
    /// The waiting message.
    pub item_id: String,
}

/// An approval that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingApproval {
    /// Answer with this id.
    pub approval_id: ApprovalId,
    /// The call that waits.
    pub tool_call_id: ToolCallId,
    /// Binds the answer to this exact action.
    pub digest: Digest,
    /// Title, in a few words.
    pub title: String,
    /// Subject of the action; a diff, a command line.
    pub subject: String,
    /// Reason why it is asked.
    pub reason: String,
    /// The possible answers, the harmless one first.
    pub options: Vec<ApprovalOption>,
    /// True if the subject is so long that its user has to open it in full before they can allow it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub must_open: bool,
    /// Subject of the standing rule that the answers `allow_always` and `reject_always` make.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleSubject>,
    /// Subject of the standing rule that the answers `allow_preset` and `allow_commands` make.
    #[serde(default, alias = "preset", skip_serializing_if = "Option::is_none")]
    pub alternative: Option<Box<RuleSubject>>,
    /// True if it changes several files. It may then be answered by `review_once` besides, where the editor confirms
    /// annotated edits: its user chooses there among the changes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reviewable: bool,
}

/// The option that allows this one action.
pub const ALLOW_ONCE: &str = "allow_once";
/// Answers an approval that is [`PendingApproval::reviewable`]: what the user chooses in their editor happens.
pub const REVIEW_ONCE: &str = "review_once";
/// The option that allows its like in the workspace from now on.
pub const ALLOW_ALWAYS: &str = "allow_always";
/// The option that allows its like in every workspace from now on.
pub const ALLOW_EVERYWHERE: &str = "allow_everywhere";
/// The option that allows what is offered instead from now on: a preset of rules.
pub const ALLOW_PRESET: &str = "allow_preset";
/// The option that grants what was withheld to commands of this kind alone.
pub const ALLOW_COMMANDS: &str = "allow_commands";
/// The option that refuses this one action.
pub const REJECT_ONCE: &str = "reject_once";
/// The option that refuses its like from now on.
pub const REJECT_ALWAYS: &str = "reject_always";

impl PendingApproval {
    /// The answers that can be given now; `opened` says that the user has opened the whole subject.
    pub fn answers(&self, opened: bool) -> impl Iterator<Item = &ApprovalOption> {
        let blind = self.must_open && !opened;
        self.options.iter().filter(move |option| !(blind && option.kind.allows()))
    }

    /// Returns the answer that chooses the option of this id, for someone who has seen the whole subject.
    pub fn answer(&self, option_id: String) -> ApprovalRespondParams {
        ApprovalRespondParams {
            approval_id: self.approval_id.clone(),
            digest: self.digest,
            option_id,
            opened: true,
            text: None,
            hunks: vec![],
        }
    }

    /// Returns the answer that chooses the option of this kind; none where it is not offered.
    pub fn answer_by(&self, kind: OptionKind) -> Option<ApprovalRespondParams> {
        let option = self.options.iter().find(|option| option.kind == kind)?;
        Some(self.answer(option.id.clone()))
    }
}

/// A question that waits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingQuestion {
    /// Answer with this id.
    pub question_id: QuestionId,
    /// Kind of question.
    pub kind: QuestionKind,
    /// The question.
    pub text: String,
    /// Suggested answers; any other text is allowed too.
    pub suggestions: Vec<Suggestion>,
    /// True if the answer looks like a secret by what is asked: clients hide it while it is typed, and it is not kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
}

/// `roo/approval/respond`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRespondParams {
    /// The approval.
    pub approval_id: ApprovalId,
    /// Its digest, as it was shown.
    pub digest: Digest,
    /// The chosen option.
    pub option_id: String,
    /// True if the user has opened the whole subject; needed to allow what `mustOpen` is said of.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub opened: bool,
    /// Text added by the user; the model is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Decisions on single hunks of an edit. The others follow the option, which must be `allow_once` or `reject_once`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hunks: Vec<HunkAnswer>,
}

/// `roo/approval/preview`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPreviewParams {
    /// The approval; it must still wait.
    pub approval_id: ApprovalId,
}

/// Result of `roo/approval/preview`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalPreviewResult {
    /// The files that the action would change, with their texts as they are now; empty when it is not
    /// about files.
    pub files: Vec<FilePreview>,
}

/// One file that an action would change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FilePreview {
    /// The document, as its editor spells it where it is open.
    pub uri: String,
    /// The whole text before, with what is not saved yet; absent for a new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The whole text after; empty for a file that is deleted.
    pub after: String,
    /// True if the file is deleted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// The file's new name, if it gets one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved_to: Option<String>,
    /// Its changes, each of which can be answered by itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hunks: Vec<Hunk>,
}

/// `roo/question/answer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuestionAnswerParams {
    /// The question.
    pub question_id: QuestionId,
    /// The answer.
    pub text: String,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// Result of an answer to an approval or a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AnswerResult {
    /// True if this answer counted. The first one does; repeating it is harmless.
    pub accepted: bool,
    /// Author of the answer that counted.
    pub by: String,
    /// The request is interrupted: the answer is kept, and nothing goes on before `roo/task/resume`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The text was no answer but the command `/condense`, which is carried out. The question still waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// What was decided before, where this answer came too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
}

/// Decision that came before an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Settled {
    /// Somebody has answered.
    Answered {
        /// The option of an approval, or the answer to a question.
        answer: String,
    },
    /// A standing rule that was made meanwhile decided it.
    Rule {
        /// Its id, as `roo/rule/list` has it.
        rule_id: String,
    },
    /// It is no longer asked.
    Void,
}

/// `roo/approval/list`
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalListParams {}

/// Result of `roo/approval/list`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalListResult {
    /// The approvals that wait, in the one order in which every client shows them: by request, the oldest first, and
    /// within a request as they were asked.
    pub approvals: Vec<WaitingApproval>,
}

/// An approval in the list of all that wait.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingApproval {
    /// The request.
    pub root_id: TaskId,
    /// The task that asks.
    pub task_id: TaskId,
    /// The task's title.
    pub task_title: String,
    /// Its place in the list, from 1; the list's length is the `m` of `n of m`.
    pub number: u32,
    /// The request is interrupted: an answer is kept until it goes on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
    /// The approval.
    pub approval: PendingApproval,
}

/// `roo/document/save`, from the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentSaveParams {
    /// The documents to save.
    pub uris: Vec<String>,
}

/// Answer of a client to `roo/document/save`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentSaveResult {
    /// The documents that are saved now.
    pub saved: Vec<String>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_called_as_on_the_wire() {
        use TaskState::{Cancelled, Completed, Failed, Interrupted, Paused, Running, Waiting};
        for state in [Running, Waiting, Paused, Interrupted, Completed, Failed, Cancelled] {
            assert_eq!(serde_json::to_value(state).unwrap(), state.as_str());
        }
    }

    #[test]
    fn a_mark_that_is_written_is_read() {
        for status in [TodoStatus::Pending, TodoStatus::InProgress, TodoStatus::Completed] {
            let inner = status.mark().trim_matches(['[', ']']);
            assert_eq!(TodoStatus::from_mark(inner), Some(status));
        }
        assert_eq!(TodoStatus::from_mark(" X "), Some(TodoStatus::Completed));
        assert_eq!(TodoStatus::from_mark("?"), None);
    }
}
