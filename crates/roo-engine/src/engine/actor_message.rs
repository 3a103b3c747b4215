//! Messages to the actor of a request: commands of clients, and reports of effects.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::EngineError;
use super::event::Restore;
use super::task::{Decider, Input, NewRule, Task};
use crate::policy::{GateOutcome, HookMessages, RestoreEdits, Review};
use crate::server_tools::ServerQuestion;
use crate::tool_run::Outcome;
use roo_durable::{StoreError, Synced};
use roo_protocol::ids::{CommandId, Digest, QuestionId, TaskId};
use roo_protocol::rule::RuleSubject;
use roo_protocol::task::{AnswerResult, KeptWorktree};
use roo_trace::record::FileChange;

/// Message to an actor. Large ones are boxed: each mailbox has room for 32 as soon as one has come, and a thousand requests
/// may wait.
pub(super) enum ActorMessage {
    /// A client wants something of a task; the answer says whether that was possible.
    Command(TaskId, Box<Command>, oneshot::Sender<Result<Reply, EngineError>>),
    /// The running effect of a task reports. A report of an earlier generation is dropped.
    Report { task: TaskId, generation: u64, report: Box<Report> },
    /// A command in the background has ended.
    CommandEnded(CommandId, Box<Outcome>),
    /// The files of a restore are written, or not all of them.
    Restored(Result<(), RestoreFailure>),
    /// The log is durable so far, or can't be made so.
    Synced(Result<Synced, StoreError>),
    /// The server ends: stop effects, leave the state as it is.
    Shutdown(oneshot::Sender<()>),
}

/// Command of a client.
pub(super) enum Command {
    /// An input that needs no check.
    Input(Box<Input>),
    /// The task goes on if it is interrupted, and no other does: whether it was ended is known here alone.
    ResumeInterrupted,
    /// An answer to an approval.
    Respond {
        approval_id: String,
        digest: Digest,
        option_id: String,
        opened: bool,
        text: Option<String>,
        /// The decisions on the hunks of an edit; none for an answer as a whole.
        review: Option<Arc<Review>>,
        by: Decider,
    },
    /// The request is to be removed; the actor removes its work trees and gives it up.
    Delete,
    /// The command that the task runs, or one of its branches, goes to the background.
    Background,
    /// The command that the task runs, or one of its branches, is to end.
    StopForeground,
    /// A command in the background is to end.
    Stop(CommandId),
    /// A standing rule about this was made: what waits for an approval that it may decide is judged again.
    Reconsider(RuleSubject),
    /// Nothing is in the way of a restore that was decided on by the event of this number.
    CheckRestore(u64),
    /// An earlier state is restored.
    Restore(Box<RestoreOrder>),
    /// An answer to a question.
    Answer {
        question_id: QuestionId,
        text: String,
        images: Vec<String>,
        /// True if it is the command to summarise earlier turns, and the question still waits.
        condense: bool,
        by: Decider,
    },
}

/// A restore that is decided on.
pub(super) struct RestoreOrder {
    pub(super) restore: Arc<Restore>,
    pub(super) edits: RestoreEdits,
    /// The same for the trace.
    pub(super) changes: Vec<FileChange>,
    /// The state that the conversation goes back to.
    pub(super) then: Option<Task>,
    /// The number of the newest event that it was decided by.
    pub(super) last_seq: u64,
    /// Is told the number of the restore when it has finished.
    pub(super) done: oneshot::Sender<Result<u64, EngineError>>,
}

/// Reason why not all files of a restore are written.
pub(super) struct RestoreFailure {
    /// In words for the user, without a full stop.
    pub(super) reason: String,
    /// The files that are not as the restore was to leave them.
    pub(super) not_restored: Vec<String>,
}

/// Result of a command.
pub(super) enum Reply {
    Done,
    /// The request may be removed. These work trees are kept.
    GivenUp(Vec<KeptWorktree>),
    Answer(AnswerResult),
    /// An answer that makes a standing rule.
    Rule(AnswerResult, NewRule),
}

/// Report of an effect.
pub(super) enum Report {
    /// Something came; the effect goes on.
    Progress(Input),
    /// The server that is called asks the user; the answer goes this way. It is withdrawn by [`Input::ServerQuestionOver`].
    ServerAsked(ServerQuestion, oneshot::Sender<String>),
    /// The gate has judged.
    Gated(GateOutcome),
    /// A tool has run, and hooks have said this about it.
    Ran(HookMessages, Outcome),
    /// The effect is over.
    Last(Input),
    /// The effect panicked; in words for the user.
    Panicked(String),
}
