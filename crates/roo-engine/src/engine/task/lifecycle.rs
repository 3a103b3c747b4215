//! The life of a task: the phases that it goes through, and its end.

use super::batch::{CurrentCall, Stage, ToolBatch};
use super::ongoing_compaction::Compaction;
use crate::engine::event::Ending;
use roo_model::providers::{AssistantBlock, Finish};
use roo_protocol::task::{PendingQuestion, TaskState};

/// Lifecycle of a task: open, stopped or ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Lifecycle {
    /// It has not ended.
    Open(OpenTask),
    /// It has stopped with its request, and goes on where it was when that is resumed.
    Stopped(StoppedTask),
    /// It has ended.
    Ended(Ending),
}

/// A task that has stopped with its request.
#[derive(Clone, Debug, PartialEq)]
pub struct StoppedTask {
    /// What is shown of it.
    pub(super) ending: Ending,
    /// The calls that wait for branches; none where its next request is to be made.
    pub(super) batch: Option<Box<ToolBatch>>,
}

/// Phase of an open task.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenTask {
    pub(super) phase: Phase,
    /// The server that drove it ended; nothing goes on before it is resumed.
    pub(super) interrupted: bool,
    /// Pending end; open calls get their results first.
    pub(super) ending: Option<Ending>,
    /// That end is no end: the task stops with its request.
    pub(super) stops: bool,
    /// Ids of the messages that waited when that was decided on.
    pub(super) waited_before_end: Vec<String>,
}

/// Phase of a task that has not ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Phase {
    /// A model request is to be made.
    RequestDue {
        /// From 1.
        attempt: u32,
    },
    /// The conversation is being shortened before the next request.
    Compacting(Compaction),
    /// A model request is under way.
    Requesting {
        /// From 1.
        attempt: u32,
        /// The complete blocks of its answer so far.
        blocks: Vec<AssistantBlock>,
        /// It waits for its turn at the endpoint.
        is_delayed: bool,
        /// Number of times that another model was chosen meanwhile.
        restarts: u32,
    },
    /// A failed request waits for its next attempt.
    Backoff {
        /// The attempt that comes next.
        attempt: u32,
        /// Due time, in milliseconds since the Unix epoch.
        due: i64,
    },
    /// An answer came without a call, or was cut by the output limit.
    Unanswerable(Finish),
    /// The calls of an answer are worked off, one after another.
    Tools(Box<ToolBatch>),
    /// The engine asks its user something.
    Question(PendingQuestion),
}

impl Lifecycle {
    /// A task that is to make a model request.
    pub(super) fn open() -> Self {
        Self::open_in(Phase::FIRST_ATTEMPT)
    }

    /// An open task in this phase.
    fn open_in(phase: Phase) -> Self {
        let waited_before_end = vec![];
        Self::Open(OpenTask { phase, interrupted: false, ending: None, stops: false, waited_before_end })
    }

    /// Opens a stopped task where it was; no other.
    pub(super) fn open_again(&mut self) {
        if let Self::Stopped(stopped) = self {
            let phase = stopped.batch.take().map_or(Phase::FIRST_ATTEMPT, Phase::Tools);
            *self = Self::open_in(phase);
        }
    }

    /// Stops a task. What it waits for is kept.
    pub(super) fn stop(&mut self, ending: Ending) {
        let batch = match self {
            Self::Open(OpenTask { phase, .. }) => match std::mem::replace(phase, Phase::FIRST_ATTEMPT) {
                Phase::Tools(batch) => Some(batch),
                _ => None,
            },
            Self::Stopped(_) | Self::Ended(_) => None,
        };
        *self = Self::Stopped(StoppedTask { ending, batch });
    }

    /// The calls of the answer that is worked off, or will be when a stopped task goes on.
    pub(super) fn batch_mut(&mut self) -> Option<&mut ToolBatch> {
        match self {
            Self::Open(open) => open.phase.batch_mut(),
            Self::Stopped(stopped) => stopped.batch.as_deref_mut(),
            Self::Ended(_) => None,
        }
    }

    /// All calls of the answer have their results: the next request is to be made.
    pub(super) fn close_batch(&mut self) {
        match self {
            Self::Open(open) => open.phase = Phase::FIRST_ATTEMPT,
            Self::Stopped(stopped) => stopped.batch = None,
            Self::Ended(_) => {}
        }
    }

    /// The state as clients name it.
    pub(super) fn state(&self) -> TaskState {
        match self {
            Self::Stopped(StoppedTask { ending, .. }) | Self::Ended(ending) => ending.state.into(),
            Self::Open(OpenTask { interrupted: true, .. }) => TaskState::Interrupted,
            Self::Open(OpenTask { phase, .. }) => phase.state(),
        }
    }
}

impl Phase {
    /// The first attempt of a model request is to be made.
    pub(super) const FIRST_ATTEMPT: Self = Self::RequestDue { attempt: 1 };

    fn state(&self) -> TaskState {
        match self {
            Self::Question(_) => TaskState::Waiting,
            Self::Tools(batch) => match batch.current() {
                None => TaskState::Paused,
                Some(call) if call.awaits_user() => TaskState::Waiting,
                Some(_) => TaskState::Running,
            },
            Self::RequestDue { .. }
            | Self::Compacting(_)
            | Self::Requesting { .. }
            | Self::Backoff { .. }
            | Self::Unanswerable(_) => TaskState::Running,
        }
    }

    /// The question that waits for the user: of the engine, or of the current call.
    pub(super) fn question(&self) -> Option<&PendingQuestion> {
        match self {
            Self::Question(question) => Some(question),
            Self::Tools(batch) => match batch.current() {
                Some(CurrentCall { stage: Stage::Question(question), .. }) => Some(question),
                Some(CurrentCall { stage: Stage::Run { asked, .. }, .. }) => asked.as_ref(),
                _ => None,
            },
            _ => None,
        }
    }

    pub(super) fn batch(&self) -> Option<&ToolBatch> {
        match self {
            Self::Tools(batch) => Some(batch),
            _ => None,
        }
    }

    pub(super) fn batch_mut(&mut self) -> Option<&mut ToolBatch> {
        match self {
            Self::Tools(batch) => Some(batch),
            _ => None,
        }
    }

    pub(super) fn start_request(&mut self) {
        if let Self::RequestDue { attempt } = *self {
            *self = Self::Requesting { attempt, blocks: vec![], is_delayed: false, restarts: 0 };
        }
    }

    /// The request waits for its turn at the endpoint, or no more.
    pub(super) fn set_delayed(&mut self, now: bool) {
        if let Self::Requesting { is_delayed, .. } = self {
            *is_delayed = now;
        }
    }

    /// Another model is asked from now on. A request that waits is made at once and for the first time; one that runs is
    /// left to the model before.
    pub(super) fn change_model(&mut self) {
        match self {
            Self::Backoff { .. } => *self = Self::FIRST_ATTEMPT,
            Self::Requesting { attempt, is_delayed: is_delayed @ true, restarts, .. } => {
                (*attempt, *is_delayed) = (1, false);
                *restarts += 1;
            }
            _ => {}
        }
    }

    pub(super) fn push_block(&mut self, block: AssistantBlock) {
        if let Self::Requesting { blocks, .. } = self {
            blocks.push(block);
        }
    }

    pub(super) fn fail_request(&mut self) {
        if let Self::Requesting { attempt, .. } = *self {
            *self = Self::RequestDue { attempt };
        }
    }

    pub(super) fn retry(&mut self) {
        if let Self::Backoff { attempt, .. } = *self {
            *self = Self::RequestDue { attempt };
        }
    }

    /// Ends the request, and returns the blocks of its answer.
    pub(super) fn end_request(&mut self, finish: Finish) -> Vec<AssistantBlock> {
        let blocks = match self {
            Self::Requesting { blocks, .. } => std::mem::take(blocks),
            _ => vec![],
        };
        let calls = blocks.iter().filter_map(|block| match block {
            AssistantBlock::Call { call } => Some(call.clone()),
            AssistantBlock::Text { .. } | AssistantBlock::Thinking { .. } => None,
        });
        *self = match ToolBatch::new(calls) {
            Some(batch) => Self::Tools(Box::new(batch)),
            None => Self::Unanswerable(finish),
        };
        blocks
    }

    /// Takes the user's answer to a question: of the current call, or of the engine, which is returned then.
    pub(super) fn answer(
        &mut self,
        text: Option<&str>,
        images: &[String],
        mode: Option<&str>,
    ) -> Option<PendingQuestion> {
        match self {
            Self::Question(_) => match std::mem::replace(self, Self::FIRST_ATTEMPT) {
                Self::Question(question) => Some(question),
                _ => None,
            },
            Self::Tools(batch) => {
                if let Some(call) = batch.current_mut() {
                    call.answer(text, images, mode);
                }
                None
            }
            _ => None,
        }
    }
}
