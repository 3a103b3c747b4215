//! `roo-lsp tasks cancel`: ending a request that no process runs.

use super::CliError;
use roo_durable::StoreError;
use roo_engine::engine::{Engine, EngineError};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{TaskSnapshot, TaskState};
use roo_text::render;

/// Cancels a task that this process doesn't run, and waits until it has ended. Returns its state where it had ended before.
///
/// # Errors
/// [`EngineError`]; one that another process runs is held there.
pub(super) async fn cancel(engine: &Engine, task: &TaskId) -> Result<Option<TaskState>, CliError> {
    let TaskSnapshot { item, .. } = engine.get(task).await?;
    if item.state.is_final() {
        return Ok(Some(item.state));
    }
    let mut follower = engine.follow(task, item.seq).await?;
    engine.cancel(task).await?;
    while !engine.get(task).await?.item.state.is_final() {
        follower.next(|| engine.now()).await?;
    }
    Ok(None)
}

/// Says what can't be done with a task, by the name that the user has given.
pub(super) fn in_terms_of(name: &str, error: CliError) -> CliError {
    let name = render::exact_line(name);
    match error {
        CliError::Engine(EngineError::WrongState { problem, .. }) => {
            CliError::Other(format!("that can't be done with {name} now: {problem}"))
        }
        CliError::Engine(EngineError::Store(StoreError::Held { .. })) => CliError::Other(format!(
            "{name} is open in another roo-lsp, such as the server of an editor: cancel or restore it there, or close \
             that window"
        )),
        error => error,
    }
}
