//! Inputs of a task, and the effects that it calls for.

use std::sync::Arc;

use super::{Choice, Compaction, CompactionOutcome, Decider, LeftOut, RequestFrame};
use crate::engine::event::BranchWorktree;
use crate::intent_store::Binding;
use crate::policy::{HookMessages, ModeChange, PlannedEdit, PolicyDecision, Review};
use crate::server_tools::{SampledText, ServerQuestion};
use crate::tool_run::{Outcome, SavedFile};
use roo_model::parser::Block;
use roo_model::providers::Finish;
use roo_protocol::ids::{CommandId, Digest, MessageId, ToolCallId};
use roo_protocol::task::{SendWhen, Usage};

/// Facts that the server looks up for the model before it is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gather {
    /// Facts about the system.
    pub system: bool,
    /// Messages of the user that may mention something.
    pub messages: Vec<String>,
    /// Messages of the user that user hooks are asked about.
    pub prompts: Vec<Prompt>,
    /// The task begins, and hooks are asked about that.
    pub begins: Option<Begins>,
    /// All calls of an answer have their results, and hooks are asked about them together.
    pub batch: bool,
}

/// A message that user hooks are asked about before the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// The message.
    pub id: MessageId,
    /// As the user wrote it.
    pub text: String,
    /// Its place in the conversation.
    pub(in crate::engine) place: PromptPlace,
}

/// Place of the user's words in a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::engine) enum PromptPlace {
    /// The item at this index.
    Item(usize),
    /// The result of this call, which asked the user.
    Result(ToolCallId),
}

impl PromptPlace {
    /// Follows its item to another index.
    pub(super) fn shift(&mut self, to: impl FnOnce(usize) -> usize) {
        if let Self::Item(item) = self {
            *item = to(*item);
        }
    }
}

/// Beginning of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begins {
    /// For the first time.
    Anew,
    /// Resumption after an end.
    Again,
}

impl Gather {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Result of the lookups.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gathered {
    /// The texts of the commands in the user's messages; may be empty.
    pub commands: String,
    /// Other text for the model; may be empty.
    pub text: String,
    /// Images as data URLs.
    pub images: Vec<String>,
    /// Whole-file digests that the task has now seen.
    pub seen: Vec<(String, Option<Digest>)>,
    /// The mode that a command of the user asks for.
    pub mode: Option<ModeChange>,
    /// Messages that user hooks refused, and why.
    pub refused: Vec<(MessageId, String)>,
    /// Warnings for the user: of hooks, and about what their messages mention.
    pub warnings: Vec<String>,
    /// A hook ends the task, for this reason.
    pub stop: Option<String>,
}

/// Input of a task.
#[derive(Debug)]
pub enum Input {
    /// The user says something.
    Send {
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
        /// Time of delivery to the model.
        when: SendWhen,
    },
    /// The user changes a waiting message.
    EditQueued {
        id: String,
        /// Its new text.
        text: String,
    },
    /// The user takes a waiting message back.
    DeleteQueued { id: String },
    /// The user ends the task.
    Cancel,
    /// The user stops the request that the task is the root of.
    Stop,
    /// The user lets it go on.
    Resume,
    /// The user answers the approval that waits.
    Respond {
        /// The chosen option.
        option_id: Choice,
        /// Text added by the user.
        text: Option<String>,
        /// Decisions on the hunks of an edit; none where the user answers it as a whole.
        review: Option<Arc<Review>>,
        /// Author of the answer.
        by: Decider,
    },
    /// The user made a standing rule that may decide the approval that waits.
    Reconsider,
    /// The user answers the question that waits.
    Answer {
        text: String,
        /// Images as data URLs.
        images: Vec<String>,
        /// Author of the answer.
        by: Decider,
    },
    /// The user puts the task into another mode, or gives it another model.
    Change(ModeChange),
    /// The user binds the task to an intent.
    BindIntent {
        /// As it is now.
        intent: Binding,
        name: String,
    },
    /// Results of the lookups for the model.
    Gathered(Gathered),
    /// A block of the model's answer is complete.
    ModelBlock {
        block: Block,
        /// Provider and model.
        origin: String,
    },
    /// The model's answer is complete.
    ModelEnded {
        /// Reason why it ended.
        finish: Finish,
        /// Usage of the request.
        used: Usage,
        /// All of the request but its conversation; none where it isn't known.
        frame: Option<RequestFrame>,
        /// The environment details of the request, where its model must find them again in the next one.
        tail: Option<Box<str>>,
        /// What the request told of the workspace as the task begins; it stays in the conversation.
        beginning: Option<Box<str>>,
    },
    /// The model request failed.
    ModelFailed {
        /// Error: what failed, on what, and what to do.
        message: String,
        remedy: Remedy,
        /// Usage of the request in spite of the failure.
        used: Usage,
        /// All of the request but its conversation; none where it isn't known.
        frame: Option<RequestFrame>,
    },
    /// The branch's git worktree is made; or the reason why it gets none.
    WorktreeMade(Result<BranchWorktree, String>),
    /// The branch's git worktree is removed; or the reason why it is kept.
    WorktreeClosed {
        /// Reason.
        kept: Option<String>,
    },
    /// The user wants earlier turns to be summarised.
    Condense,
    /// The user undoes a shortening.
    RestoreContext {
        /// The number of its event.
        seq: u64,
        /// Content that it left out.
        left_out: Box<LeftOut>,
    },
    /// The effect of a shortening has ended.
    Compacted {
        outcome: CompactionOutcome,
        /// Usage of the summary.
        used: Usage,
    },
    /// The time to try again has come.
    RetryDue,
    /// The model request waits for its turn at the endpoint.
    RequestDelayed {
        /// Expected time of its begin, in milliseconds since the Unix epoch.
        due: i64,
        reason: String,
    },
    /// The model request begins after that wait.
    DelayEnded,
    /// User hooks were asked about the current call. What it leads to comes right behind it.
    HookMessages(HookMessages),
    /// The gate has judged the current call.
    Gated(PolicyDecision),
    /// The current call's tool is done.
    ToolDone(Outcome),
    /// State of an interrupted write: the digests of its files, none of those that aren't there, and what a checkpoint
    /// has of those that it changed.
    WriteSettled(Vec<Option<Digest>>, Vec<SavedFile>),
    /// The server that the current call is answered by asks the user.
    ServerAsked(ServerQuestion),
    /// The server's question needs no answer any more.
    ServerQuestionOver,
    /// The model is asked for the server that the current call is answered by.
    SamplingStarted {
        server: String,
        /// What it wants of the model, as its user is shown it.
        asked: String,
        /// The most tokens that it takes.
        tokens: u64,
        /// True if the user allows all requests of the server in this task from now on.
        allow_all: bool,
    },
    /// The request for that server is over.
    SamplingEnded {
        server: String,
        /// The tokens that it has taken; none where that isn't known.
        taken: Option<u64>,
        /// What the server gets.
        outcome: SampledText,
        /// Usage of the request.
        used: Usage,
    },
    /// A command in the background has ended.
    CommandEnded {
        /// The command.
        id: CommandId,
        outcome: Outcome,
    },
}

impl Input {
    /// Returns whether it tells what came of an effect.
    pub(super) fn is_report(&self) -> bool {
        matches!(
            self,
            Self::ModelBlock { .. }
                | Self::ModelEnded { .. }
                | Self::ModelFailed { .. }
                | Self::RetryDue
                | Self::RequestDelayed { .. }
                | Self::DelayEnded
                | Self::Compacted { .. }
                | Self::HookMessages(_)
                | Self::Gated(_)
                | Self::ToolDone(_)
                | Self::WriteSettled(..)
                | Self::Gathered(_)
                | Self::WorktreeMade(_)
                | Self::WorktreeClosed { .. }
                | Self::ServerAsked(_)
                | Self::ServerQuestionOver
                | Self::SamplingStarted { .. }
                | Self::SamplingEnded { .. }
                | Self::CommandEnded { .. }
        )
    }
}

/// Remedy for a failed model request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Remedy {
    /// Make it again.
    Retry {
        /// Delay requested by the endpoint, in milliseconds.
        after: Option<i64>,
        /// From 0 to 1: spreads the attempts of many tasks.
        jitter: f64,
        /// True if it is made for minutes, not for seconds: the endpoint is down, busy or out of reach, and no fallback
        /// takes over.
        is_patient: bool,
    },
    /// Make it again at once, as the first attempt: another model is asked.
    RetryAnew,
    /// Send less.
    Shorten {
        /// True if the endpoint refused the request; it was not sent otherwise.
        refused: bool,
    },
    /// Make it again at once, and send the model no images from now on: the endpoint refuses them.
    WithoutImages,
    /// Make it again at once without the newest images: the endpoint refuses some.
    WithoutNewestImages,
    /// Ask the user.
    Ask,
}

/// Effect that the state calls for.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Ask the model.
    CallModel {
        /// The request's number.
        request: u32,
        /// Number of times that it was restarted for another model.
        restarts: u32,
    },
    /// Shorten the conversation.
    Compact(Compaction),
    /// Look up what the model is to know before it is asked.
    Gather(Gather),
    /// Make the git worktree in which the branch is to work.
    MakeWorktree,
    /// Remove the branch's git worktree, if all that it changed is merged.
    CloseWorktree,
    /// Wait until a time.
    Wait {
        /// In milliseconds since the Unix epoch.
        due: i64,
    },
    /// Let the gate judge the current call.
    Gate {
        call_id: ToolCallId,
        /// The slug of the mode by whose rights it is judged.
        mode: String,
        /// The digest of the action that the user allowed.
        approved: Option<Digest>,
        /// The user's decisions on the hunks of the edit.
        review: Option<Arc<Review>>,
    },
    /// Run the current call's tool.
    RunTool {
        call_id: ToolCallId,
        /// True if the log must be durable first.
        mutating: bool,
    },
    /// Find out what an interrupted write left.
    SettleWrite {
        call_id: ToolCallId,
        /// Interrupted write.
        write: PlannedEdit,
    },
}
