//! `roo/task/*`.

use tower_lsp::jsonrpc::Result;

use super::Server;
use crate::protocol::ids::TaskId;
use crate::protocol::task::{
    Done, TaskAttachParams, TaskAttachResult, TaskListParams, TaskListResult, TaskParams, TaskSendParams,
    TaskSnapshot, TaskStartParams, TaskStartResult,
};
use crate::server::feed::EVERYTHING;
use crate::server::{engine_failure, intake};

pub(super) async fn start(server: &Server, params: TaskStartParams) -> Result<TaskStartResult> {
    let house = server.session.typed().await?;
    let started = house.engine.start(params).map_err(|error| engine_failure(&error, None))?;
    let follower = house.engine.follow(&started.task_id, 0).await;
    let follower = follower.map_err(|error| engine_failure(&error, Some(&started.task_id)))?;
    server.session.feeds.begin(&server.session, follower, intake::answered());
    Ok(started)
}

pub(super) async fn send(server: &Server, params: TaskSendParams) -> Result<Done> {
    let house = server.session.typed().await?;
    let task = params.task_id.clone();
    done(house.engine.send(params).await, &task)
}

pub(super) async fn cancel(server: &Server, params: TaskParams) -> Result<Done> {
    let house = server.session.typed().await?;
    done(house.engine.cancel(&params.task_id).await, &params.task_id)
}

pub(super) async fn resume(server: &Server, params: TaskParams) -> Result<Done> {
    let house = server.session.typed().await?;
    done(house.engine.resume(&params.task_id).await, &params.task_id)
}

pub(super) async fn attach(server: &Server, params: TaskAttachParams) -> Result<TaskAttachResult> {
    let house = server.session.typed().await?;
    let (session, answered) = (&server.session, intake::answered());
    if params.task_id.as_str() == EVERYTHING {
        session.feeds.attach_everything(session, house, answered).await;
        return Ok(TaskAttachResult { seq: 0 });
    }
    let follower = house.engine.follow(&params.task_id, params.after_seq).await;
    let follower = follower.map_err(|error| engine_failure(&error, Some(&params.task_id)))?;
    let journals = house.engine.journals();
    let journal = journals.iter().find(|journal| journal.root() == follower.root());
    let seq = journal.map_or(0, |journal| journal.published());
    session.feeds.attach(session, follower, answered).await;
    Ok(TaskAttachResult { seq })
}

pub(super) async fn detach(server: &Server, params: TaskParams) -> Result<Done> {
    server.session.typed().await?;
    server.session.feeds.detach(&params.task_id).await;
    Ok(Done {})
}

pub(super) async fn list(server: &Server, params: TaskListParams) -> Result<TaskListResult> {
    let house = server.session.typed().await?;
    house.engine.list(params.cursor).await.map_err(|error| engine_failure(&error, None))
}

pub(super) async fn get(server: &Server, params: TaskParams) -> Result<TaskSnapshot> {
    let house = server.session.typed().await?;
    house.engine.get(&params.task_id).await.map_err(|error| engine_failure(&error, Some(&params.task_id)))
}

pub(super) async fn delete(server: &Server, params: TaskParams) -> Result<Done> {
    let house = server.session.typed().await?;
    done(house.engine.delete(&params.task_id).await, &params.task_id)?;
    server.session.feeds.detach(&params.task_id).await;
    Ok(Done {})
}

pub(super) fn done(
    outcome: std::result::Result<(), crate::engine::EngineError>,
    task: &TaskId,
) -> Result<Done> {
    outcome.map(|()| Done {}).map_err(|error| engine_failure(&error, Some(task)))
}
