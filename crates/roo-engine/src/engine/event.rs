//! Events of a request's log: everything that the state of a task is folded from.
//!
//! Old logs must stay readable: variants and fields are added, never changed in meaning. What
//! clients see of an event is `Event::to_wire`; private fields stay here.

use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::task::{Choice, Decider, LeftOut, MeasuredRequest, Placeholders};
use crate::intent_store::Binding;
use crate::policy::{ModeChange, PlannedBranch, PlannedEdit, RecordedVerdict, Review};
use crate::server_tools::SampledText;
use crate::tool_run::{ChangesUnknown, RecordedFile, SavedFile, digest_of};
use roo_catalog::{Shown, ToolCall, ToolName, ToolProtocol};
use roo_formats::config::Limits;
use roo_model::providers::{Finish, Item, ToolResult};
use roo_protocol::checkpoint::{CheckpointFile, RestoreScope, RestoreWhat};
use roo_protocol::context::ShorteningMethod;
use roo_protocol::event::{Event as WireEvent, QuestionKind, ToolStatus};
use roo_protocol::ids::{ApprovalId, CommandId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use roo_protocol::message::{Ask, Message, MessageKind, Say};
use roo_protocol::rule::SandboxAccess;
use roo_protocol::task::{
    ForkOrigin, ImportOrigin, PendingApproval, PendingQuestion, QueueItem, TaskState, TodoItem, ToolUsage,
    Usage,
};
use roo_text::render::counted;

/// Signs that a model goes in circles. A count is 0 below the number from which it matters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Circle {
    /// Number of times that this look has brought the same, if nothing was changed in between.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) same_looks: u32,
    /// Number of answers in a row with nothing but failed looks.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) vain_answers: u32,
}

fn is_zero(count: &u32) -> bool {
    *count == 0
}

/// A fact of one task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Event {
    /// The task came to be.
    Created {
        /// The task that delegated it.
        parent: Option<TaskId>,
        /// The request's id for people.
        urid: Urid,
        /// The slug of its mode.
        mode: String,
        /// The name of its model profile.
        profile: String,
        /// Tool protocol of its model.
        protocol: ToolProtocol,
        /// The prompt on one line, shortened.
        title: String,
        limits: Limits,
        /// Emoji of its mode in trees.
        #[serde(default)]
        emoji: String,
        /// True if facts about the system are looked up before its first turn.
        #[serde(default)]
        gather: bool,
        /// Files that it must read before it changes, runs or delegates anything.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unread: Vec<String>,
        /// The user chose the profile, for whatever mode.
        #[serde(default)]
        pinned: bool,
        /// The intent that the delegating task had bound.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        intent: Option<Binding>,
        /// Bindings that limit its scope: all that the tasks above it had bound.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        within: Vec<Binding>,
        /// True if it is to work in a git worktree of its own.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        worktree: bool,
    },
    /// The branch works in a git worktree of its own from now on.
    WorktreeMade {
        /// The work tree.
        worktree: BranchWorktree,
    },
    /// The branch gets no git worktree, and works in the folder of its parent.
    WorktreeUnavailable { reason: String },
    /// What the branch changed in its work tree conflicts with what others have changed since. Its work tree has both versions
    /// now, and the next merge begins with these texts.
    MergeConflicted {
        /// The files in conflict.
        files: Vec<ConflictBase>,
    },
    /// The branch stops with its request, and nothing in its git worktree is missed: it is removed, and recreated when the branch
    /// goes on.
    WorktreeUnused,
    /// The branch works in no git worktree any more. One that stops works in it again when it goes on, or in a new one.
    WorktreeClosed {
        /// Reason why it was not removed; none if it is gone.
        kept: Option<String>,
    },
    /// The request is a fork: the events before are those of another request, under this one's ids. What they left open is
    /// void, and what they used is the other request's.
    Forked {
        /// The fork's id for people.
        urid: Urid,
        title: String,
        /// Where it begins.
        from: ForkOrigin,
        /// Its directory for working files; none where there is no workspace folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        directory: Option<String>,
    },
    /// The request was imported. So many events from here on are made from another program's history, and the last of them ends
    /// the task: nothing of them was asked, judged or run here, and no machine derives them.
    Imported {
        /// The other program's task.
        origin: ImportOrigin,
        /// Number of events.
        events: u64,
    },
    /// The user said something, and it is part of the conversation now.
    UserSaid {
        /// Displayed message.
        message: Message,
        /// Text for the model.
        text: String,
        /// True if it may mention something that is to be looked up.
        #[serde(default)]
        mentions: bool,
        /// True if there are user hooks that are to be asked before it reaches the model.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hooks: bool,
    },
    /// A user hook refused what the user said; it is no part of the conversation any more.
    PromptRefused {
        /// The user's message.
        message_id: MessageId,
        /// Displayed message.
        message: Message,
        /// True if the task ends, as it has nothing else to do.
        ends: bool,
    },
    /// Messages of user hooks about the current call, all together until now.
    #[serde(rename = "hooksHeard")]
    HookMessagesReceived {
        call_id: ToolCallId,
        /// Its parameters as it runs; none where they stay.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        params: Option<Map<String, Value>>,
        /// Addition to the call's result for the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        addition: Option<String>,
        /// True if they keep the task from ending with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        goes_on: bool,
        /// True if they are asked again when all calls of the answer have their results.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        batch: bool,
    },
    /// Facts looked up for the model before it is asked.
    Gathered {
        /// The texts of the commands in the user's messages, which are never shortened; may be empty.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        commands: String,
        /// Other text for the model; may be empty.
        text: String,
        /// Images as data URLs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<String>,
        /// Whole-file digests that the task has now seen.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        seen: Vec<(String, Option<Digest>)>,
    },
    /// The task goes on in another mode, or with another model.
    ModeSwitched {
        /// Changed settings.
        change: ModeChange,
        /// The call that asked for it; none when the user did.
        call_id: Option<ToolCallId>,
    },
    /// The current call opened a branch. What the branch begins with follows from this.
    Delegated {
        call_id: ToolCallId,
        /// The branch.
        child: TaskId,
        /// Plan of the branch.
        plan: Arc<PlannedBranch>,
    },
    /// The task can't go on, and ends.
    Halted { reason: String },
    /// Something is shown that the model doesn't get.
    Shown { message: Message },
    /// A model request begins.
    TurnStarted {
        /// Counts the task's requests from 1, retries included.
        request: u32,
    },
    /// The model said something.
    Spoke { message: Message },
    /// The model thought something.
    Thought {
        message: Message,
        /// The provider's own block, to be sent back.
        opaque: Option<Value>,
        /// Origin of the block.
        origin: String,
    },
    /// The model called a tool. It is not run before the turn has ended.
    Called {
        /// The message that shows it.
        message: Message,
        call: ToolCall,
    },
    /// The model's answer is complete.
    TurnEnded {
        /// Reason why it ended.
        finish: Finish,
        /// Total usage of the task.
        total: Usage,
        /// The request with its size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Box<MeasuredRequest>>,
        /// The environment details of the request, where its model must find them again in the next one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tail: Option<Box<str>>,
        /// What the request told of the workspace as the task begins; it stays in the conversation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        beginning: Option<Box<str>>,
    },
    /// The model request failed; what the model said in it is void.
    TurnFailed {
        request: u32,
        error: String,
        /// True if the user ended it.
        cancelled: bool,
        /// Total usage of the task; a failed request costs too.
        total: Usage,
        /// The request with its estimated size.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        context: Option<Box<MeasuredRequest>>,
    },
    /// The request will be made again.
    RetryScheduled {
        /// Due time, in milliseconds since the Unix epoch.
        due: i64,
        /// Number of the next attempt, from 2.
        attempt: u32,
        reason: String,
    },
    /// The time to try again has come.
    RetryDue,
    /// A model request waits for its turn at the endpoint.
    RequestDelayed {
        /// Expected time of its begin, in milliseconds since the Unix epoch.
        due: i64,
        /// Number of the attempt, from 1.
        attempt: u32,
        reason: String,
    },
    /// A request that has waited for its turn begins.
    DelayEnded { request: u32 },
    /// The model must be told something before it goes on.
    Corrected {
        /// Text for the model; empty only in what was imported, where it was told nothing.
        text: String,
        /// True if this counts towards the mistake limit.
        mistake: bool,
    },
    /// The gate gave the current call its verdict.
    GateDecided {
        call_id: ToolCallId,
        /// The verdict, and the rule that decided.
        #[serde(flatten)]
        verdict: RecordedVerdict,
        reason: String,
        /// The same for programs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        detail: Option<Value>,
    },
    /// The task has bound an intent.
    IntentSelected {
        /// The intent as it is now.
        intent: Binding,
        /// Display name.
        name: String,
    },
    /// The user is asked for permission.
    ApprovalRequested {
        /// Requested approval.
        approval: PendingApproval,
    },
    /// The approval has its answer, or is void.
    ApprovalResolved {
        approval_id: ApprovalId,
        /// Author of the answer.
        by: Decider,
        /// The chosen option; none when void.
        option_id: Option<Choice>,
        /// Text added by the user.
        text: Option<String>,
        /// The decisions on the hunks of an edit; none where the user answered it as a whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<Arc<Review>>,
    },
    /// A standing rule was made that may decide the approval that waits: its call is judged again.
    ApprovalReconsidered { approval_id: ApprovalId },
    /// An answer came while the request was interrupted, or before its call was judged again; it counts
    /// when the action is still the same.
    AnswerHeld {
        approval_id: ApprovalId,
        /// Author of the answer.
        by: Decider,
        /// The chosen option.
        option_id: Choice,
        /// Text added by the user.
        text: Option<String>,
        /// The decisions on the hunks of an edit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        review: Option<Arc<Review>>,
        /// State of the task.
        state: TaskState,
    },
    /// The task asks its user something.
    QuestionAsked {
        question: PendingQuestion,
        /// The call that asked; none when the engine asks.
        call_id: Option<ToolCallId>,
    },
    /// The question has its answer, or is void.
    QuestionAnswered {
        question_id: QuestionId,
        /// Author of the answer.
        by: Decider,
        /// The answer; none when void.
        text: Option<String>,
        /// Images as data URLs.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<String>,
        /// The slug of the mode that goes with the answer, which the gate is to judge.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// The user's own words to a question of the model; none where a suggestion was chosen. Logs of earlier versions have
        /// none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        words: Option<AnswerWords>,
    },
    /// A tool begins to run. Durable before it does.
    ToolStarted {
        call_id: ToolCallId,
        /// The tool.
        name: String,
        /// Subject of the call.
        subject: String,
        /// For a write: what it will do, so that it can be settled after a kill.
        write: Option<PlannedEdit>,
    },
    /// The model is asked for the server that answers the current call.
    SamplingStarted {
        call_id: ToolCallId,
        server: String,
        /// What it wants of the model, as its user is shown it.
        asked: String,
        /// The most tokens that it takes.
        tokens: u64,
        /// True if the user allows all requests of the server in this task from now on.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        allow_all: bool,
    },
    /// The request for that server is over.
    SamplingEnded {
        call_id: ToolCallId,
        server: String,
        /// The tokens that it has taken; none where that isn't known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        taken: Option<u64>,
        /// What the server gets.
        outcome: SampledText,
        /// Total usage of the task; a request that failed costs too.
        total: Usage,
    },
    /// The tool's edit reached a buffer or the disk.
    EditApplied {
        /// The document.
        uri: String,
        /// The digest before; none for a new file.
        before: Option<Digest>,
        /// The digest after; none for a deleted file.
        after: Option<Digest>,
    },
    /// Files as they were before a call changed them, and after it. The number of this event names the checkpoint.
    CheckpointSaved {
        call_id: ToolCallId,
        /// What changed them, in one line.
        summary: String,
        files: Vec<SavedFile>,
    },
    /// The user restores an earlier state. Durable before any file changes; the number of this event names the restore.
    RestoreStarted { restore: Arc<Restore> },
    /// A restore has finished: what it says is so from now on, or nothing of it is.
    RestoreFinished {
        /// The number of the event that started it.
        started: u64,
        /// True if it is restored, false if nothing is.
        done: bool,
        /// Reason, where not all is restored.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
        /// Files that are as they were: the server was killed before it came to their folder, or they could not be written.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unchanged: Vec<String>,
        /// The number of the first event that the model no longer sees; none where its conversation stays.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        conversation_before: Option<u64>,
    },
    /// A call that was interrupted before its effect begins again at the gate.
    ToolRestarted { call_id: ToolCallId },
    /// The conversation is too long: the results before this item are sent as stubs from now on. Written by earlier
    /// versions.
    ContextReduced {
        /// Index of the first item that is sent whole.
        before: usize,
    },
    /// The endpoint refuses requests with more tokens.
    ContextLimited { tokens: u64 },
    /// The endpoint refuses images.
    ImagesRefused,
    /// The endpoint refuses some image. The newest ones are left out of the conversation.
    NewestImagesRefused,
    /// The user wants earlier turns to be summarised before the next request.
    SummaryRequested {
        /// State of the task.
        state: TaskState,
    },
    /// The conversation is about to be shortened.
    ShorteningStarted {
        /// Way to shorten it.
        method: ShorteningMethod,
        /// True if the user wants it.
        manual: bool,
    },
    /// Old results and arguments are sent as placeholders from now on.
    ContextShortened {
        /// The calls of which something is left out.
        left_out: Placeholders,
        /// Estimated tokens of the next request before.
        tokens_before: u64,
        /// Estimated tokens of the next request after.
        tokens_after: u64,
    },
    /// A message stands for earlier turns from now on.
    ContextCondensed {
        /// Index of the first item that stays; of those before, what the user said stays.
        cut: usize,
        message: Item,
        /// True if a model wrote the summary.
        by_model: bool,
        /// True if the user wanted it.
        manual: bool,
        /// Estimated tokens of the next request before.
        tokens_before: u64,
        /// Estimated tokens of the next request after.
        tokens_after: u64,
        /// Cost of the summary in US dollars.
        cost_usd: f64,
        /// Total usage of the task.
        total: Usage,
    },
    /// The conversation was not shortened.
    ContextKept {
        reason: String,
        /// Total usage of the task; a summary that failed costs too.
        total: Usage,
    },
    /// A shortening was undone.
    ContextRestored {
        /// The number of its event.
        seq: u64,
        /// Content that is sent again.
        left_out: Box<LeftOut>,
        /// Estimated tokens of the next request before.
        tokens_before: u64,
        /// Estimated tokens of the next request after.
        tokens_after: u64,
    },
    /// The command of the current call runs on in the background.
    CommandBackgrounded { command: BackgroundCommand },
    /// A command in the background has ended.
    CommandEnded {
        command_id: CommandId,
        /// The call that began it.
        call_id: ToolCallId,
        /// Status at the end.
        status: ToolStatus,
        /// One line for people.
        summary: String,
        /// For the model.
        text: String,
        /// The exit code of the command; none where no command has ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
    },
    /// The changes of a command are not known: the task waits for its user.
    ChangesUnknown {
        /// The command line, and why.
        fault: ChangesUnknown,
    },
    /// The current call has its one result.
    ToolFinished {
        /// One line for people.
        summary: String,
        /// For the model.
        result: ToolResult,
        /// Whole-file digests that the task has now seen; none forgets a file.
        seen: Vec<(String, Option<Digest>)>,
        /// True if this counts towards the mistake limit.
        mistake: bool,
        /// The task ends with this call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ends: Option<Ending>,
        /// True if it saved context that the request's branches share; none when it was not to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        saves: Option<bool>,
        /// Access that the sandbox withheld from a command and the user may grant.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        withheld: Option<SandboxAccess>,
        /// Files that the call changed, with their lines.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        recorded: Vec<RecordedFile>,
        /// The exit code of the command; none where no command has ended by itself.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        exit_code: Option<i32>,
        /// Signs that the model goes in circles; none where there are none, and in logs of earlier versions, which looked for
        /// none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        circle: Option<Circle>,
    },
    /// The to-do list changed.
    TodoChanged {
        /// The whole list.
        items: Vec<TodoItem>,
    },
    /// The queue of messages changed.
    QueueChanged {
        /// The whole queue.
        items: Vec<QueueItem>,
    },
    /// The budget starts over: the user allowed more requests and cost.
    BudgetReset,
    /// The user wants the task to end. What runs is ended, what waits is void, what is open gets its
    /// result; then it has ended.
    CancelRequested,
    /// The user wants the whole request to stop. What runs in the task is ended, what waits is void, what is open gets its
    /// result; then it has stopped. Branches stop with it, and all go on where they were when the request is resumed.
    StopRequested {
        /// What the user was asked and answered in this way; none where they stopped it by themselves.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A branch has stopped with its request. It has not ended: its parent's call still waits for it.
    Stopped {
        /// State that is shown of it.
        state: EndState,
        /// Reason, where it isn't obvious.
        reason: Option<String>,
        /// Totals so far.
        usage: Usage,
        /// Tries and failures by tool so far.
        tool_usage: ToolUsage,
    },
    /// The server that drove the task has ended.
    Interrupted,
    /// The task goes on.
    Resumed,
    /// The task ended.
    Ended {
        /// State in which it ended.
        state: EndState,
        result: Option<String>,
        /// Reason, where it isn't obvious.
        reason: Option<String>,
        /// Totals.
        usage: Usage,
        /// Tries and failures by tool.
        tool_usage: ToolUsage,
    },
}

/// A git worktree that was made for a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchWorktree {
    pub top: PathBuf,
    /// The folder in it that stands for that of the parent.
    pub folder: PathBuf,
    /// The snapshot of its files that a merge begins with.
    pub base: String,
    /// Uncommitted files of the parent's folder that it doesn't have.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

/// The text of a file in the parent's folder when a conflict was found in it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConflictBase {
    /// The file, relative to the folder.
    pub path: String,
    /// The id of its text; none where it was not there.
    pub text: Option<String>,
}

/// A command that runs in the background.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackgroundCommand {
    pub id: CommandId,
    /// The call that began it.
    pub call_id: ToolCallId,
    /// The command line.
    pub line: String,
}

/// A restore of an earlier state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Restore {
    /// The number of the event before which the state was.
    pub seq: u64,
    /// What is restored.
    pub what: RestoreWhat,
    /// The tasks whose changes of files are undone.
    pub scope: RestoreScope,
    /// Author: a client's name, or `cli`.
    pub by: String,
    /// The files as they are before the restore, and as they are after it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SavedFile>,
    /// By which it can be told whether the files were written.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<RestoredDigests>,
    /// Where the conversation is cut; none where it stays as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cut: Option<ConversationCut>,
    /// What the user says then, in place of the message at the cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub say: Option<NewMessage>,
}

/// Message of the user's that takes the place of an earlier one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewMessage {
    pub text: String,
    /// Images as data URLs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
}

/// Digests of a file that a restore changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RestoredDigests {
    /// The file as tools name it.
    pub path: String,
    /// Of its text before the restore, or of the bytes of what is no text; none where there is no file.
    pub before: Option<Digest>,
    /// The same after the restore.
    pub after: Option<Digest>,
    /// True where it is written when the other files are: it takes the place of something else, or is a link.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub behind: bool,
}

/// Place in a log where a conversation is cut.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConversationCut {
    /// The number of the first event that the model no longer sees. Before it, the task was between two requests.
    pub before: u64,
    /// The number of items that it no longer sees.
    pub dropped: u64,
    /// What the next message gets where the first one is cut off: all that a request begins with but the prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<String>,
}

/// State of a task that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndState {
    /// It ended well.
    Completed,
    /// It ended without reaching its goal.
    Failed,
    /// The user ended it.
    Cancelled,
}

impl From<EndState> for TaskState {
    fn from(state: EndState) -> Self {
        match state {
            EndState::Completed => Self::Completed,
            EndState::Failed => Self::Failed,
            EndState::Cancelled => Self::Cancelled,
        }
    }
}

/// What is to be done about the user's words in an answer before the model reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AnswerWords {
    /// The displayed message that has them.
    pub message_id: MessageId,
    /// True if they may mention something that is to be looked up.
    pub mentions: bool,
    /// True if there are user hooks that are to be asked about them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hooks: bool,
}

/// End of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Ending {
    /// State in which it ends.
    pub state: EndState,
    pub result: Option<String>,
    /// Reason, where it isn't obvious.
    pub reason: Option<String>,
}

impl Event {
    /// Returns whether what it tells must survive power loss before anyone is told: decisions, the ends of turns and
    /// tasks, and what a user or a tool will do.
    pub(crate) fn is_decision(&self) -> bool {
        matches!(
            self,
            Self::TurnEnded { .. }
                | Self::ApprovalResolved { .. }
                | Self::AnswerHeld { .. }
                | Self::QuestionAnswered { .. }
                | Self::ToolStarted { write: Some(_), .. }
                | Self::RestoreStarted { .. }
                | Self::RestoreFinished { .. }
                | Self::CancelRequested
                | Self::StopRequested { .. }
                | Self::Stopped { .. }
                | Self::Ended { .. }
        )
    }

    /// Names tasks, and what they asked, by the ids of another request: for events that a fork shares.
    pub(super) fn rename_tasks(&mut self, rename: impl Fn(&str) -> String) {
        match self {
            Self::Created { parent: Some(id), .. } | Self::Delegated { child: id, .. } => {
                *id = TaskId::new(rename(id.as_str()));
            }
            Self::ApprovalRequested { approval: PendingApproval { approval_id: id, .. } }
            | Self::ApprovalResolved { approval_id: id, .. }
            | Self::ApprovalReconsidered { approval_id: id }
            | Self::AnswerHeld { approval_id: id, .. } => *id = ApprovalId::new(rename(id.as_str())),
            Self::QuestionAsked { question: PendingQuestion { question_id: id, .. }, .. }
            | Self::QuestionAnswered { question_id: id, .. } => *id = QuestionId::new(rename(id.as_str())),
            _ => {}
        }
    }

    /// Returns whether a node of the invocation tree may be another one after it.
    pub(crate) fn changes_tree(&self) -> bool {
        !matches!(
            self,
            Self::Shown { .. }
                | Self::Spoke { .. }
                | Self::Thought { .. }
                | Self::Called { .. }
                | Self::TurnStarted { .. }
                | Self::RequestDelayed { .. }
                | Self::DelayEnded { .. }
                | Self::GateDecided { .. }
                | Self::IntentSelected { .. }
                | Self::ToolStarted { .. }
                | Self::EditApplied { .. }
                | Self::CheckpointSaved { .. }
                | Self::RestoreStarted { .. }
                | Self::RestoreFinished { .. }
                | Self::TodoChanged { .. }
                | Self::QueueChanged { .. }
                | Self::Gathered { .. }
                | Self::HookMessagesReceived { .. }
                | Self::WorktreeMade { .. }
                | Self::WorktreeUnavailable { .. }
                | Self::MergeConflicted { .. }
                | Self::WorktreeUnused
                | Self::WorktreeClosed { .. }
                | Self::CommandBackgrounded { .. }
                | Self::CommandEnded { .. }
                | Self::ChangesUnknown { .. }
                | Self::ContextLimited { .. }
                | Self::ImagesRefused
                | Self::NewestImagesRefused
                | Self::SummaryRequested { .. }
                | Self::ShorteningStarted { .. }
                | Self::ContextShortened { .. }
                | Self::ContextRestored { .. }
        )
    }

    /// Converts it to the event that clients see.
    pub(crate) fn to_wire(&self) -> WireEvent {
        match self {
            Self::Created { parent, urid, mode, title, emoji, .. } => WireEvent::TaskCreated {
                parent_id: parent.clone(),
                urid: urid.clone(),
                mode: mode.clone(),
                title: title.clone(),
                emoji: emoji.clone(),
            },
            Self::Forked { urid, title, from, .. } => {
                WireEvent::TaskForked { urid: urid.clone(), title: title.clone(), from: from.clone() }
            }
            Self::Imported { origin, .. } => WireEvent::TaskImported { from: origin.clone() },
            Self::UserSaid { message, .. }
            | Self::Shown { message }
            | Self::PromptRefused { message, .. }
            | Self::Spoke { message }
            | Self::Thought { message, .. }
            | Self::Called { message, .. } => WireEvent::Message { message: message.clone() },
            Self::Gathered { .. } => {
                state(TaskState::Running, Some("gathering context for the model".into()))
            }
            Self::HookMessagesReceived { .. } => {
                state(TaskState::Running, Some("hooks were asked about a call".into()))
            }
            Self::ModeSwitched { change, .. } => WireEvent::ModeSwitched {
                mode: change.mode.as_ref().map(|(slug, _)| slug.clone()),
                profile: change.profile.as_ref().map(|(name, _)| name.clone()),
            },
            Self::Delegated { call_id, plan, .. } => WireEvent::ToolStarted {
                tool_call_id: call_id.clone(),
                name: ToolName::NewTask.as_str().to_owned(),
                subject: format!("{} {}", plan.emoji, plan.delegation.title),
            },
            Self::WorktreeMade { worktree } => {
                state(TaskState::Running, Some(format!("it works in {}", worktree.folder.display())))
            }
            Self::WorktreeUnavailable { reason } => {
                state(TaskState::Running, Some(format!("it works in the workspace folder: {reason}")))
            }
            Self::MergeConflicted { files } => {
                let files: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
                let reason = format!("others have changed the same lines: {}", files.join(", "));
                state(TaskState::Running, Some(reason))
            }
            Self::WorktreeUnused => {
                state(TaskState::Running, Some("its worktree has nothing to be merged".into()))
            }
            Self::WorktreeClosed { kept: None } => {
                state(TaskState::Running, Some("its worktree is removed".into()))
            }
            Self::WorktreeClosed { kept: Some(reason) } => {
                state(TaskState::Running, Some(format!("its worktree is kept: {reason}")))
            }
            Self::Halted { reason } => state(TaskState::Running, Some(reason.clone())),
            Self::TurnStarted { request } | Self::DelayEnded { request } => {
                request_message(*request, &json!({ "request": request }))
            }
            Self::TurnEnded { total, context, .. } => {
                WireEvent::Usage { total: *total, context: context.as_ref().map(|request| request.meter()) }
            }
            // Says of the messages of this request that they are void.
            Self::TurnFailed { request, error, cancelled, .. } => request_message(
                *request,
                &json!({
                    "request": request,
                    "cancelReason": if *cancelled { "user_cancelled" } else { "streaming_failed" },
                    "streamingFailedMessage": error,
                }),
            ),
            Self::RetryScheduled { due, attempt, reason } | Self::RequestDelayed { due, attempt, reason } => {
                WireEvent::RetryScheduled { at: *due, attempt: *attempt, reason: reason.clone() }
            }
            Self::RetryDue => state(TaskState::Running, Some("trying again".into())),
            // From an import: the other program did nothing about it.
            Self::Corrected { text, .. } if text.is_empty() => {
                state(TaskState::Running, Some("the answer had no call".into()))
            }
            Self::Corrected { .. } => state(
                TaskState::Running,
                Some("the answer had no call; the model is told to make one".into()),
            ),
            Self::GateDecided { call_id, verdict, reason, detail } => WireEvent::GateDecided {
                tool_call_id: call_id.clone(),
                verdict: verdict.verdict(),
                rule: verdict.rule(),
                reason: reason.clone(),
                detail: detail.clone(),
            },
            Self::IntentSelected { intent, name } => WireEvent::IntentSelected {
                intent_id: intent.id.clone(),
                name: name.clone(),
                digest: intent.digest,
            },
            Self::ApprovalRequested { approval } => {
                WireEvent::ApprovalRequested { approval: approval.clone() }
            }
            Self::ApprovalResolved { approval_id, by, option_id, text, review } => {
                WireEvent::ApprovalResolved {
                    approval_id: approval_id.clone(),
                    by: by.to_string(),
                    rule_id: by.rule_id().map(str::to_owned),
                    option_id: option_id.map(|choice| choice.id().to_owned()),
                    text: text.clone(),
                    hunks: review.as_ref().map(|review| review.hunks.clone()).unwrap_or_default(),
                }
            }
            Self::ApprovalReconsidered { .. } => {
                state(TaskState::Running, Some("a standing rule may decide what was asked".into()))
            }
            Self::AnswerHeld { state: at, .. } => {
                state(*at, Some("the answer is kept, and counts when the task goes on".into()))
            }
            Self::QuestionAsked { question, .. } => WireEvent::QuestionAsked { question: question.clone() },
            Self::QuestionAnswered { question_id, by, text, .. } => WireEvent::QuestionAnswered {
                question_id: question_id.clone(),
                by: by.to_string(),
                text: text.clone(),
            },
            Self::ToolStarted { call_id, name, subject, .. } => WireEvent::ToolStarted {
                tool_call_id: call_id.clone(),
                name: name.clone(),
                subject: subject.clone(),
            },
            Self::EditApplied { uri, before, after } => {
                WireEvent::EditApplied { uri: uri.clone(), before: *before, after: *after }
            }
            Self::CheckpointSaved { call_id, files, .. } => WireEvent::Message {
                message: Message {
                    id: MessageId::new(format!("{call_id}.checkpoint")),
                    kind: MessageKind::Say(Say::CheckpointSaved),
                    text: digest_of(files).hex(),
                    images: vec![],
                },
            },
            Self::RestoreStarted { restore } => WireEvent::RestoreStarted {
                seq: restore.seq,
                what: restore.what,
                files: restore.files.iter().map(checkpoint_file).collect(),
                by: restore.by.clone(),
            },
            Self::RestoreFinished { started, done, reason, conversation_before, .. } => {
                WireEvent::RestoreFinished {
                    seq: *started,
                    done: *done,
                    reason: reason.clone(),
                    conversation_before: *conversation_before,
                }
            }
            Self::ToolFinished { summary, result, exit_code, .. } => {
                let mut summary = summary.clone();
                if !result.images.is_empty() {
                    // For clients that show no pictures.
                    summary.push_str(&format!(" ({})", counted(result.images.len(), "picture")));
                }
                WireEvent::ToolFinished {
                    tool_call_id: result.call_id.clone(),
                    status: result.status,
                    summary,
                    exit_code: *exit_code,
                    images: result.images.clone(),
                }
            }
            Self::CommandBackgrounded { command: BackgroundCommand { id, call_id, line } } => {
                WireEvent::CommandBackgrounded {
                    command_id: id.clone(),
                    tool_call_id: call_id.clone(),
                    command: line.clone(),
                }
            }
            Self::CommandEnded { command_id, call_id, status, summary, exit_code, .. } => {
                WireEvent::CommandEnded {
                    command_id: command_id.clone(),
                    tool_call_id: call_id.clone(),
                    status: *status,
                    summary: summary.clone(),
                    exit_code: *exit_code,
                }
            }
            Self::SamplingStarted { server, .. } => state(
                TaskState::Running,
                Some(format!("the model writes a text for the MCP server {server}")),
            ),
            Self::SamplingEnded { server, outcome, .. } => {
                let told = match outcome {
                    SampledText::Answer(_) => format!("the MCP server {server} has a text of the model"),
                    SampledText::Failure(error) => {
                        format!("the MCP server {server} gets none of the model ({error})")
                    }
                };
                state(TaskState::Running, Some(told))
            }
            Self::ChangesUnknown { fault } => state(TaskState::Running, Some(fault.to_string())),
            Self::ToolRestarted { .. } => {
                state(TaskState::Running, Some("an interrupted call begins again".into()))
            }
            Self::ContextReduced { .. } => {
                state(TaskState::Running, Some("old tool results are shortened to fit the model".into()))
            }
            Self::ContextLimited { tokens } => {
                let reason = format!("the endpoint refuses requests of more than about {tokens} tokens");
                state(TaskState::Running, Some(reason))
            }
            Self::ImagesRefused => {
                state(TaskState::Running, Some("the endpoint refuses images, so they are left out".into()))
            }
            Self::NewestImagesRefused => {
                let reason = "the endpoint refuses an image, so the newest ones are left out";
                state(TaskState::Running, Some(reason.into()))
            }
            Self::SummaryRequested { state: at } => {
                state(*at, Some("earlier turns are summarised before the next request".into()))
            }
            Self::ShorteningStarted { method, .. } => WireEvent::ContextShortening { method: *method },
            Self::ContextShortened { left_out, tokens_before, tokens_after } => WireEvent::ContextShortened {
                method: ShorteningMethod::Placeholders,
                tokens_before: *tokens_before,
                tokens_after: *tokens_after,
                results: left_out.duplicates.len() + left_out.results.len(),
                arguments: left_out.arguments.len(),
                summary: None,
                cost_usd: 0.0,
            },
            Self::ContextCondensed { message, by_model, tokens_before, tokens_after, cost_usd, .. } => {
                let method = if *by_model { ShorteningMethod::Summary } else { ShorteningMethod::Outline };
                let summary = match message {
                    Item::Summary { summary, .. } => Some(summary.clone()),
                    Item::User { .. } | Item::Assistant { .. } | Item::Results { .. } => None,
                };
                WireEvent::ContextShortened {
                    method,
                    tokens_before: *tokens_before,
                    tokens_after: *tokens_after,
                    results: 0,
                    arguments: 0,
                    summary,
                    cost_usd: *cost_usd,
                }
            }
            Self::ContextKept { reason, .. } => WireEvent::ContextKept { reason: reason.clone() },
            Self::ContextRestored { seq, tokens_before, tokens_after, .. } => WireEvent::ContextRestored {
                seq: *seq,
                tokens_before: *tokens_before,
                tokens_after: *tokens_after,
            },
            Self::TodoChanged { items } => WireEvent::TodoChanged { items: items.clone() },
            Self::QueueChanged { items } => WireEvent::QueueChanged { items: items.clone() },
            Self::BudgetReset => state(TaskState::Running, Some("the budget starts over".into())),
            Self::CancelRequested | Self::StopRequested { .. } => {
                state(TaskState::Running, Some("cancelling".into()))
            }
            Self::Interrupted => state(TaskState::Interrupted, Some("the server has stopped".into())),
            Self::Resumed => state(TaskState::Running, None),
            Self::Stopped { state, reason, usage, tool_usage } => WireEvent::TaskState {
                state: (*state).into(),
                result: None,
                reason: reason.clone(),
                usage: Some(*usage),
                tool_usage: tool_usage.clone(),
            },
            Self::Ended { state, result, reason, usage, tool_usage } => WireEvent::TaskState {
                state: (*state).into(),
                result: result.clone(),
                reason: reason.clone(),
                usage: Some(*usage),
                tool_usage: tool_usage.clone(),
            },
        }
    }
}

/// Builds the entry of a checkpoint for a file.
pub(super) fn checkpoint_file(file: &SavedFile) -> CheckpointFile {
    CheckpointFile {
        path: file.path.clone(),
        change: file.kind(),
        left_out: file.left_out().map(|why| why.to_string()),
    }
}

fn state(state: TaskState, reason: Option<String>) -> WireEvent {
    WireEvent::TaskState { state, result: None, reason, usage: None, tool_usage: ToolUsage::default() }
}

/// Builds Roo's message for a model request.
fn request_message(request: u32, payload: &Value) -> WireEvent {
    let message = Message {
        id: MessageId::new(format!("r{request}")),
        kind: MessageKind::Say(Say::ApiReqStarted),
        text: payload.to_string(),
        images: vec![],
    };
    WireEvent::Message { message }
}

/// Builds Roo's message for a call: the `ask` or `say`, and its text.
pub(super) fn call_message(id: MessageId, call: &ToolCall) -> Message {
    let (kind, text) = match call.shown() {
        Shown::Command(line) => (MessageKind::Ask(Ask::Command), line),
        Shown::Tool(payload) => (MessageKind::Say(Say::Tool), payload.to_string()),
        Shown::Server(payload) => (MessageKind::Ask(Ask::UseMcpServer), payload.to_string()),
    };
    Message { id, kind, text, images: vec![] }
}

/// Builds Roo's message for a call that a server gets: its `McpExecutionStatus`.
pub(super) fn server_request_message(call: &ToolCallId, name: &str, subject: &str) -> Message {
    let mut status = json!({ "executionId": call, "status": "started" });
    let is_tool = ToolName::parse(name) != Some(ToolName::AccessMcpResource);
    if let Some((server, tool)) = subject.split_once('/').filter(|_| is_tool) {
        status["serverName"] = server.into();
        status["toolName"] = tool.into();
    }
    let id = MessageId::new(format!("{}.started", call.as_str()));
    let kind = MessageKind::Say(Say::McpServerRequestStarted);
    Message { id, kind, text: status.to_string(), images: vec![] }
}

/// Builds Roo's message for what a server answered: its `McpExecutionStatus`.
pub(super) fn server_response_message(result: &ToolResult) -> Message {
    let (status, key) = match result.status {
        ToolStatus::Ok => ("completed", "response"),
        _ => ("error", "error"),
    };
    let text = json!({ "executionId": result.call_id, "status": status, key: result.text });
    let id = MessageId::new(result.call_id.as_str());
    Message { id, kind: MessageKind::Say(Say::McpServerResponse), text: text.to_string(), images: vec![] }
}

/// Returns the ask that Roo Code has for a kind of question.
pub(super) fn ask_of(kind: QuestionKind) -> Ask {
    match kind {
        QuestionKind::Followup | QuestionKind::McpElicitation => Ask::Followup,
        QuestionKind::MistakeLimitReached => Ask::MistakeLimitReached,
        QuestionKind::AutoApprovalMaxReqReached => Ask::AutoApprovalMaxReqReached,
        QuestionKind::ApiReqFailed => Ask::ApiReqFailed,
        QuestionKind::ChangesUnknown => Ask::ResumeTask,
    }
}

/// Returns whether a status means that the call's aim was not reached.
pub(super) fn is_failure(status: ToolStatus) -> bool {
    !matches!(status, ToolStatus::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A log that an earlier version has written.
    const EARLIER: &str = include_str!(
        "../../../../tests/fixtures/earlier-versions/2026-11-22/state/requests/01a203dc-098b-758b-b77e-1a8aa91a913f/log.jsonl"
    );

    #[test]
    fn clients_are_told_a_rule_from_a_client_of_its_name() {
        let told = |by: Decider| {
            let approval_id = ApprovalId::new("t.a1");
            let event =
                Event::ApprovalResolved { approval_id, by, option_id: None, text: None, review: None };
            let WireEvent::ApprovalResolved { by, rule_id, .. } = event.to_wire() else { panic!() };
            (by, rule_id)
        };
        assert_eq!(told(Decider::Rule("r1".into())), ("rule r1".to_owned(), Some("r1".to_owned())));
        assert_eq!(told("rule r1".into()), ("client rule r1".to_owned(), None));
        assert_eq!(told("cli".into()), ("client cli".to_owned(), None));
        assert_eq!(told(Decider::Terminal), ("cli".to_owned(), None));
    }

    #[test]
    fn answers_are_written_as_they_were_read() {
        let of_answers =
            [r#"{"type":"approvalResolved""#, r#"{"type":"questionAnswered""#, r#"{"type":"answerHeld""#];
        let lines = EARLIER.lines().filter_map(|line| {
            let event = line.split_once(r#""event":"#)?.1.rsplit_once(r#","sum":"#)?.0;
            of_answers.iter().any(|kind| event.starts_with(kind)).then_some(event)
        });
        let by_rule =
            r#"{"type":"approvalResolved","approvalId":"t.a1","by":"rule r1","optionId":null,"text":null}"#;
        let by_client = r#"{"type":"approvalResolved","approvalId":"t.a1","by":{"client":"cli"},"optionId":null,"text":null}"#;
        for line in lines.chain([by_rule, by_client]) {
            let event: Event = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
        }
    }

    #[test]
    fn decisions_of_the_gate_are_written_as_they_were_read() {
        let lines = EARLIER.lines().filter_map(|line| {
            let event = line.split_once(r#""event":"#)?.1.rsplit_once(r#","sum":"#)?.0;
            event.starts_with(r#"{"type":"gateDecided""#).then_some(event)
        });
        let denied = r#"{"type":"gateDecided","callId":"c","verdict":"deny","rule":"rules","reason":"No.","detail":{"ruleId":"r1"}}"#;
        let unknown = r#"{"type":"gateDecided","callId":"c","verdict":"ask","rule":"of another version","reason":"So."}"#;
        let mut count = 0;
        for line in lines.chain([denied, unknown]) {
            let event: Event = serde_json::from_str(line).unwrap();
            assert!(matches!(event, Event::GateDecided { .. }));
            assert_eq!(serde_json::to_string(&event).unwrap(), line);
            count += 1;
        }
        assert!(count > 4);
    }
}
