//! Commands that begin to ask their user questions, which may stay open for long.

use std::sync::Arc;

use serde_json::json;
use tower_lsp::jsonrpc::{Error, Result};

use super::super::restore_questions;
use super::super::setup_questions::{self, SetupFields};
use super::call::{CommandCall, CommandOutcome, Fields};

pub(super) fn restore_files(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: Fields = call.read("taskId")?;
    let (Some(task), Some(seq)) = (fields.task_id, fields.seq) else {
        return Err(Error::invalid_params(
            "roo.restoreFiles needs `taskId` and `seq`, the number of a checkpoint or message",
        ));
    };
    let (this, services) = (Arc::clone(session), Arc::clone(services));
    session.spawn(async move { restore_questions::run(&this, &services, task, seq).await });
    Ok(CommandOutcome::silent(json!({})))
}

pub(super) fn set_up_model(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: SetupFields = call.read("provider")?;
    let (this, services) = (Arc::clone(session), Arc::clone(services));
    session.spawn(async move { setup_questions::run(&this, &services, fields).await });
    Ok(CommandOutcome::silent(json!({})))
}
