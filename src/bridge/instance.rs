//! What is told of an instance: who it is, which modes and profiles it has, and its tasks. The names are those of Roo Code's
//! `ExtensionInstance`.

use std::path::Path;

use roo_engine::customization::Customization;
use roo_engine::engine::Resumable;
use roo_formats::config::Settings;
use roo_protocol::task::{HistoryItem, TaskState};
use serde_json::{Value, json};

/// Number of past tasks that are told.
const HISTORY: usize = 50;

/// The lists of modes and profiles of an instance. Reads the disk.
pub(super) fn choices(customization: &Customization, settings: &Settings) -> Value {
    let modes = customization.mode_list(settings).modes.into_iter();
    let modes: Vec<Value> = modes.map(|mode| json!({ "slug": mode.slug, "name": mode.name })).collect();
    let profiles = settings.profiles.iter();
    let profiles: Vec<Value> = profiles
        .map(|(name, profile)| json!({ "name": name, "provider": profile.provider.as_str() }))
        .collect();
    json!({
        "mode": settings.mode,
        "modes": modes,
        "providerProfile": settings.profile,
        "providerProfiles": profiles,
    })
}

/// The record of an instance.
pub(super) fn record(
    instance: &str,
    folder: &Path,
    now: i64,
    choices: &Value,
    tasks: &[HistoryItem],
    current: Option<(&HistoryItem, &Resumable)>,
) -> Value {
    let mut record = json!({
        "instanceId": instance,
        "workspacePath": folder.to_string_lossy(),
        "appProperties": {
            "appName": "roo-lsp",
            "appVersion": env!("CARGO_PKG_VERSION"),
            "platform": std::env::consts::OS,
        },
        "lastHeartbeat": now,
        "taskHistory": tasks.iter().take(HISTORY).map(|task| &task.task_id).collect::<Vec<_>>(),
        "tasks": tasks.iter().take(HISTORY).map(summary).collect::<Vec<_>>(),
    });
    if let Value::Object(choices) = choices {
        for (key, value) in choices {
            record[key] = value.clone();
        }
    }
    let Some((item, waiting)) = current else { return record };
    record["task"] = json!({
        "taskId": item.task_id,
        "taskStatus": status(item.state),
        "task": item.title,
        "mode": item.mode,
    });
    record["waiting"] = questions(waiting);
    record
}

fn summary(task: &HistoryItem) -> Value {
    json!({
        "taskId": task.task_id,
        "task": task.title,
        "mode": task.mode,
        "taskStatus": status(task.state),
        "state": task.state,
        "createdAt": task.created_at,
        "updatedAt": task.updated_at,
    })
}

/// What waits for an answer in a request, with all that an answer has to name.
pub(super) fn questions(waiting: &Resumable) -> Value {
    let approvals =
        waiting.approvals.iter().map(|(task, approval)| json!({ "taskId": task, "approval": approval }));
    let questions =
        waiting.questions.iter().map(|(task, question)| json!({ "taskId": task, "question": question }));
    approvals.chain(questions).collect()
}

/// Roo Code's `TaskStatus`.
fn status(state: TaskState) -> &'static str {
    match state {
        TaskState::Running | TaskState::Paused => "running",
        TaskState::Waiting => "interactive",
        TaskState::Interrupted => "resumable",
        TaskState::Completed | TaskState::Cancelled | TaskState::Failed => "idle",
    }
}
