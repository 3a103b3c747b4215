//! Commands that give agents work: new tasks, prompts, messages and forks.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tower_lsp::jsonrpc::{Error, Result};

use super::super::session::{MESSAGE, Session, WorkspaceServices};
use super::super::task_document::{self, Sent};
use super::super::{engine_failure, intake};
use super::answers::respond;
use super::call::{CommandCall, CommandOutcome, Fields};
use super::documents::{opened, show};
use super::lookup::{newest, nodes_in};
use roo_protocol::event::OptionKind;
use roo_protocol::ids::{ApprovalId, Digest};
use roo_protocol::task::{
    ContextItem, TaskForkParams, TaskForkResult, TaskSendParams, TaskStartParams, TaskStartResult, TaskState,
};
use roo_text::render::one_line;

pub(super) async fn new_task(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let has_prompt = match call.argument {
        Value::Null => false,
        Value::Object(fields) => fields.contains_key("prompt"),
        _ => true,
    };
    if !has_prompt {
        return write_request(session, services, call.read("prompt")?).await;
    }
    let params: TaskStartParams = call.read("prompt")?;
    begin(session, services, params).await
}

/// Fields of `roo.newTask` without a prompt.
#[derive(Debug, Deserialize)]
struct AboutFields {
    #[serde(default)]
    context: Vec<ContextItem>,
}

/// Opens the document in which a request is written.
async fn write_request(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    fields: AboutFields,
) -> Result<CommandOutcome> {
    let path = task_document::add_context(session, services, fields.context).await?;
    let advice = "describe the task, then run \"Roo: send the prompt\"".to_owned();
    Ok(opened(session, path, advice).await)
}

/// Starts a task, and shows its document to clients that are shown nothing else.
async fn begin(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    params: TaskStartParams,
) -> Result<CommandOutcome> {
    let title = one_line(&params.prompt, MESSAGE);
    let started = start(session, services, params).await?;
    if !session.is_typed() {
        let (this, services, task) = (Arc::clone(session), Arc::clone(services), started.task_id.clone());
        session.spawn(async move {
            match task_document::open(&this, &services, &task).await {
                Ok(path) => {
                    // Beside the file that the user is in, where the editor can do that.
                    show(&this, &path, false).await;
                }
                Err(error) => tracing::warn!(%error, "a task document can't be shown"),
            }
        });
    }
    Ok(CommandOutcome::told(json!(started), format!("started: {title}")))
}

/// Fields of `roo.sendPrompt`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct DocumentFields {
    uri: String,
    /// The approval that is refused with these words.
    approval_id: Option<ApprovalId>,
    digest: Option<Digest>,
}

pub(super) async fn send_prompt(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: DocumentFields = call.read("uri")?;
    if let Some(approval_id) = fields.approval_id {
        let text = task_document::written(session, &fields.uri).await?;
        let argument = json!({ "approvalId": approval_id, "digest": fields.digest, "text": text });
        let outcome = respond(CommandCall { argument: &argument, ..call }, OptionKind::RejectOnce).await?;
        task_document::take(session, &fields.uri, text).await;
        return Ok(outcome);
    }
    match task_document::send_prompt(session, services, &fields.uri).await? {
        Sent::Told(task) => Ok(CommandOutcome::silent(json!({ "taskId": task }))),
        Sent::Started(params) => {
            let outcome = begin(session, services, params).await?;
            let (this, services) = (Arc::clone(session), Arc::clone(services));
            session.spawn(async move { task_document::empty_new_request(&this, &services).await });
            Ok(outcome)
        }
    }
}

/// Starts a task; a client that knows events is attached to it.
pub(in super::super) async fn start(
    session: &Arc<Session>,
    services: &WorkspaceServices,
    params: TaskStartParams,
) -> Result<TaskStartResult> {
    let started = services.engine.start(params).map_err(|error| engine_failure(&error, None))?;
    if session.is_typed() {
        let follower = services.engine.follow(&started.task_id, 0).await;
        let follower = follower.map_err(|error| engine_failure(&error, Some(&started.task_id)))?;
        session.subscriptions.begin(session.recipient(), follower, intake::answered());
    }
    Ok(started)
}

pub(super) async fn send(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let fields: Fields = call.read("text")?;
    let Some(text) = fields.text.filter(|text| !text.trim().is_empty()) else {
        return Err(Error::invalid_params("roo.send needs a `text`"));
    };
    let task_id = match fields.task_id {
        Some(task) => task,
        None => {
            let request = newest(services, "to talk to", |_| true).await?;
            // The next message is for the task that has asked.
            let asking = nodes_in(services, &request, TaskState::Waiting).await.into_iter().next();
            asking.map_or(request.task_id, |node| node.id)
        }
    };
    let params = TaskSendParams { task_id: task_id.clone(), text, images: fields.images, when: fields.when };
    services.engine.send(params).await.map_err(|error| engine_failure(&error, Some(&task_id)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task_id })))
}

pub(super) async fn fork_task(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let task_id = match fields.task_id {
        Some(task) => task,
        None => newest(services, "to fork", |_| true).await?.task_id,
    };
    let params = TaskForkParams { task_id, seq: fields.seq, prompt: fields.text, worktree: false };
    let TaskForkResult { task_id, urid, seq, .. } = fork(session, services, params).await?;
    let told = format!("{urid} is forked at event {seq}");
    Ok(CommandOutcome::told(json!({ "taskId": task_id, "urid": urid, "seq": seq }), told))
}

pub(in super::super) async fn fork(
    session: &Arc<Session>,
    services: &WorkspaceServices,
    params: TaskForkParams,
) -> Result<TaskForkResult> {
    let task = params.task_id.clone();
    let forked = services.engine.fork(params).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    if session.is_typed() && forked.folder.is_none() {
        let follower = services.engine.follow(&forked.task_id, 0).await;
        let follower = follower.map_err(|error| engine_failure(&error, Some(&forked.task_id)))?;
        session.subscriptions.begin(session.recipient(), follower, intake::answered());
    }
    Ok(forked)
}
