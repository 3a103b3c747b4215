//! `roo/task/*`.

use tower_lsp::jsonrpc::Result;

use super::{Params, Server};
use crate::server::subscription::EVERYTHING;
use crate::server::{commands, engine_failure, intake};
use roo_protocol::checkpoint::{CheckpointRestoreResult, TaskEditParams};
use roo_protocol::ids::TaskId;
use roo_protocol::task::{
    Done, TaskAttachParams, TaskAttachResult, TaskDeleteResult, TaskForkParams, TaskForkResult,
    TaskListParams, TaskListResult, TaskParams, TaskSendParams, TaskSnapshot, TaskStartParams,
    TaskStartResult,
};

pub(super) async fn start(
    server: &Server,
    Params(params): Params<TaskStartParams>,
) -> Result<TaskStartResult> {
    let services = server.session.typed().await?;
    commands::start(&server.session, services, params).await
}

pub(super) async fn fork(server: &Server, Params(params): Params<TaskForkParams>) -> Result<TaskForkResult> {
    let services = server.session.typed().await?;
    commands::fork(&server.session, services, params).await
}

pub(super) async fn send(server: &Server, Params(params): Params<TaskSendParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    let task = params.task_id.clone();
    done(services.engine.send(params).await, &task)
}

pub(super) async fn cancel(server: &Server, Params(params): Params<TaskParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    done(services.engine.cancel(&params.task_id).await, &params.task_id)
}

pub(super) async fn resume(server: &Server, Params(params): Params<TaskParams>) -> Result<Done> {
    let services = server.session.typed().await?;
    done(services.engine.resume(&params.task_id).await, &params.task_id)
}

pub(super) async fn edit(
    server: &Server,
    Params(params): Params<TaskEditParams>,
) -> Result<CheckpointRestoreResult> {
    let services = server.session.typed().await?;
    let task = params.task_id.clone();
    let edited = services.engine.edit_message(params, server.session.client_name()).await;
    edited.map_err(|error| engine_failure(&error, Some(&task)))
}

pub(super) async fn attach(
    server: &Server,
    Params(params): Params<TaskAttachParams>,
) -> Result<TaskAttachResult> {
    let services = server.session.typed().await?;
    let (session, answered) = (&server.session, intake::answered());
    if params.task_id.as_str() == EVERYTHING {
        session.subscriptions.attach_everything(session.recipient(), services, answered).await;
        return Ok(TaskAttachResult { seq: 0 });
    }
    let follower = services.engine.follow(&params.task_id, params.after_seq).await;
    let follower = follower.map_err(|error| engine_failure(&error, Some(&params.task_id)))?;
    let seq = follower.published();
    session.subscriptions.attach(session.recipient(), follower, answered).await;
    Ok(TaskAttachResult { seq })
}

pub(super) async fn detach(server: &Server, Params(params): Params<TaskParams>) -> Result<Done> {
    server.session.typed().await?;
    server.session.subscriptions.detach(&params.task_id).await;
    Ok(Done {})
}

pub(super) async fn list(server: &Server, Params(params): Params<TaskListParams>) -> Result<TaskListResult> {
    let services = server.session.typed().await?;
    services.engine.list(params.cursor).await.map_err(|error| engine_failure(&error, None))
}

pub(super) async fn get(server: &Server, Params(params): Params<TaskParams>) -> Result<TaskSnapshot> {
    let services = server.session.typed().await?;
    services.engine.get(&params.task_id).await.map_err(|error| engine_failure(&error, Some(&params.task_id)))
}

pub(super) async fn delete(server: &Server, Params(params): Params<TaskParams>) -> Result<TaskDeleteResult> {
    let services = server.session.typed().await?;
    let deleted = services.engine.delete(&params.task_id).await;
    let kept_worktrees = deleted.map_err(|error| engine_failure(&error, Some(&params.task_id)))?;
    server.session.subscriptions.detach(&params.task_id).await;
    Ok(TaskDeleteResult { kept_worktrees })
}

pub(super) fn done(
    outcome: std::result::Result<(), roo_engine::engine::EngineError>,
    task: &TaskId,
) -> Result<Done> {
    outcome.map(|()| Done {}).map_err(|error| engine_failure(&error, Some(task)))
}
