//! Commands that steer a task which exists: stop it, let it continue, change its mode or its profile.

use serde_json::json;
use tower_lsp::jsonrpc::{Error, Result};

use super::super::{customization, engine_failure};
use super::call::{CommandCall, CommandOutcome, Fields};
use super::lookup::{named_or_newest, nothing};
use roo_protocol::task::{HistoryItem, TaskState};

pub(super) async fn cancel(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let task = named_or_newest(services, fields.task_id, "at work to cancel", is_at_work).await?;
    services.engine.cancel(&task).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task })))
}

/// Returns whether a request is at work. What was interrupted long ago is not what somebody wants to steer now.
fn is_at_work(item: &HistoryItem) -> bool {
    !item.state.is_final() && item.state != TaskState::Interrupted
}

pub(super) async fn background_command(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let task = named_or_newest(services, fields.task_id, "at work", is_at_work).await?;
    let sent = services.engine.background_command(&task).await;
    sent.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task })))
}

pub(super) async fn stop_command(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let fields: Fields = call.read("commandId")?;
    let Some(command) = fields.command_id else {
        return Err(Error::invalid_params(
            "roo.stopCommand needs the commandId of a command in the background",
        ));
    };
    let task = named_or_newest(services, fields.task_id, "at work", is_at_work).await?;
    let stopped = services.engine.stop_command(&task, command.clone()).await;
    stopped.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::silent(json!({ "taskId": task, "commandId": command })))
}

pub(super) async fn resume(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let stopped = |item: &HistoryItem| {
        matches!(item.state, TaskState::Interrupted | TaskState::Cancelled | TaskState::Failed)
    };
    let task = match fields.task_id {
        Some(task) => task,
        // After a crash somebody may be just opening what it has left.
        None => {
            let items = services.engine.list_settled().await.map_err(|error| engine_failure(&error, None))?;
            let newest = items.into_iter().find(stopped);
            newest.ok_or_else(|| nothing("there is no task to resume"))?.task_id
        }
    };
    services.engine.resume(&task).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    Ok(CommandOutcome::told(json!({ "taskId": task }), "the task continues".to_owned()))
}

pub(super) async fn switch_mode(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let fields: Fields = call.read("mode")?;
    let Some(mode) = fields.mode else {
        let modes = customization::ask(services, |customization| customization.modes()).await?;
        let slugs: Vec<&str> = modes.iter().map(|mode| mode.slug.as_str()).collect();
        let message = format!("roo.switchMode needs the slug of a mode: {}", slugs.join(", "));
        return Err(Error::invalid_params(message));
    };
    let task = named_or_newest(services, fields.task_id, "to switch", |_| true).await?;
    services.engine.switch_mode(&task, &mode).await.map_err(|error| engine_failure(&error, Some(&task)))?;
    let value = json!({ "taskId": task, "mode": mode });
    Ok(CommandOutcome::told(value, format!("the next turn of the task is in the mode {mode}")))
}

pub(super) async fn select_profile(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let fields: Fields = call.read("profile")?;
    let Some(profile) = fields.profile else {
        let settings = services.engine.settings().await;
        let names: Vec<&str> = settings.profiles.keys().map(String::as_str).collect();
        let message = format!("roo.selectProfile needs the name of a profile: {}", names.join(", "));
        return Err(Error::invalid_params(message));
    };
    let task = named_or_newest(services, fields.task_id, "to change", |_| true).await?;
    let selected = services.engine.select_profile(&task, &profile).await;
    selected.map_err(|error| engine_failure(&error, Some(&task)))?;
    let value = json!({ "taskId": task, "profile": profile });
    Ok(CommandOutcome::told(value, format!("the task continues with the profile {profile}")))
}
