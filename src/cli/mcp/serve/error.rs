//! Reasons why a tool of the server did not do what it was called for, in words for the calling agent.

use roo_durable::StoreError;
use roo_engine::engine::EngineError;

/// Reasons why a tool of the server did not do what it was called for, in words for the calling agent.
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestError {
    #[error(
        "the workspace {folder} is not trusted, so no agent is started here for another one. Your user trusts it with: \
         roo-lsp --workspace {folder} trust"
    )]
    Untrusted { folder: String },
    #[error("{most} tasks are at work already; wait for one of them, or cancel one")]
    Full { most: usize },
    #[error("{0}, or the tool list_tasks")]
    Unknown(String),
    #[error(
        "{id} was not started by this server, so you can read it and not steer it. Its user continues it in an editor or with: \
         roo-lsp --workspace {folder} tasks resume {id}"
    )]
    NotYours { id: String, folder: String },
    #[error(
        "{0} waits for its user: {1}. No text of yours answers that, and nothing was done with it. task_status says how the \
         user answers"
    )]
    UsersAnswer(String, String),
    #[error("{id} asks several things; name one by its question_id: {questions}")]
    WhichQuestion { id: String, questions: String },
    #[error("{id} does not ask '{question}' (any more); task_status lists what it asks")]
    NotAsked { id: String, question: String },
    #[error(
        "{0} is open in another roo-lsp, such as an editor or a terminal of its user, and is steered there"
    )]
    OpenElsewhere(String),
    #[error("the message names {0}, which only its user may fetch by a message; describe it in other words")]
    Mention(String),
    #[error("the file '{0}' can't be named: {1}")]
    File(String, String),
    #[error("{0}")]
    Invalid(String),
    #[error("{0}; {hint}", hint = .0.hint())]
    Engine(#[from] EngineError),
    #[error("the call was cancelled; the task goes on")]
    Cancelled,
    #[error("the server is ending")]
    Ending,
}

impl RequestError {
    /// The same about a request, where it names it.
    pub(super) fn about(id: &str, error: EngineError) -> Self {
        match error {
            EngineError::Store(StoreError::Held { .. }) => Self::OpenElsewhere(id.to_owned()),
            error => Self::Engine(error),
        }
    }
}
