//! Reasons why the engine can't do what a client asks, with their kind and the user's remedy.

use roo_durable::StoreError;
use roo_formats::config::UnknownProfile;
use roo_protocol::error::ErrorKind;
use roo_protocol::ids::TaskId;

/// Reasons why the engine could not do what a client asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nothing of that id.
    #[error("there is no {what} '{id}'")]
    NotFound {
        /// Kind of what was looked for.
        what: &'static str,
        id: String,
    },
    /// The task's state doesn't allow it.
    #[error("that can't be done with the task {task} now: {problem}")]
    WrongState {
        task: TaskId,
        /// Reason why not.
        problem: String,
    },
    /// An answer doesn't fit what was asked.
    #[error("the answer doesn't fit the question: {problem}")]
    Mismatch { problem: String },
    /// The settings or the request name something that isn't there.
    #[error("{0}")]
    Configuration(String),
    /// Too much waits for the task.
    #[error("too many inputs wait for the task; try again in a moment")]
    Overloaded,
    /// The disk refuses the task's events.
    #[error("the state directory can't be written, so the task is paused; cancel it to end what runs")]
    Refused,
    /// The server is shutting down.
    #[error("the server is shutting down; the task is saved and can be resumed")]
    Ending,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EngineError {
    /// Returns the kind of failure for clients.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::WrongState { .. } => ErrorKind::WrongState,
            Self::Mismatch { .. } => ErrorKind::Mismatch,
            Self::Configuration(_) => ErrorKind::Configuration,
            Self::Overloaded | Self::Ending => ErrorKind::Overloaded,
            Self::Store(StoreError::Held { .. }) => ErrorKind::HeldElsewhere,
            Self::Store(StoreError::Forked { .. }) => ErrorKind::WrongState,
            Self::Refused | Self::Store(_) => ErrorKind::Storage,
        }
    }

    /// Returns the user's remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "List the tasks to see the valid ids.",
            Self::WrongState { .. } => "Look at the task's state first.",
            Self::Mismatch { .. } => "Show the question again and answer the current one.",
            Self::Configuration(_) => "Correct the settings or the request.",
            Self::Overloaded => "Try again in a moment.",
            Self::Ending => "Start the server again.",
            Self::Store(StoreError::Forked { .. }) => "Delete the forks first.",
            Self::Store(StoreError::Held { .. }) => "Use the window that runs it, or close that window.",
            Self::Store(StoreError::TooManyOpenFiles { .. }) => {
                "Raise the limit on open files (`ulimit -n`) and start the server again."
            }
            Self::Refused | Self::Store(_) => "Check the disk and the permissions of the state directory.",
        }
    }
}

pub(super) fn unknown_profile(error: UnknownProfile) -> EngineError {
    EngineError::Configuration(error.to_string())
}
