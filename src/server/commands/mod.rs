//! Commands for any editor: `workspace/executeCommand`. Each command answers at once; a plain client is also shown what
//! came of it, for editors drop the answers of commands.
//!
//! Arguments are lenient: nothing, one text, or one object. Without an id, the newest task that fits is
//! meant; what waits for its user is found in branches too. But no field is passed over: one that is
//! misspelt would leave what was meant to the newest.

mod answers;
mod call;
mod dialogues;
mod documents;
mod lookup;
mod prompts;
mod status;
mod steering;
mod trust;

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tower_lsp::jsonrpc::{Error, Result};
use tower_lsp::ls_types::{ExecuteCommandParams, MessageType};

use self::call::{CommandCall, CommandOutcome};
use super::session::{Session, WorkspaceServices};
use roo_protocol::event::OptionKind;
use roo_text::render::one_line;

pub(super) use documents::{document_of, open_details, show};
pub(super) use prompts::{fork, start};

/// A command that is served.
struct CommandSpec {
    name: &'static str,
    /// The fields of its object; none for a command that looks at no argument.
    fields: Option<&'static [&'static str]>,
    run: RunCommand,
}

type RunCommand = for<'a> fn(CommandCall<'a>) -> BoxFuture<'a, Result<CommandOutcome>>;

/// The commands that are served.
const COMMANDS: &[CommandSpec] = &[
    CommandSpec::new("roo.newTask", &["prompt", "mode", "profile", "images", "context"], |call| {
        Box::pin(prompts::new_task(call))
    }),
    CommandSpec::new("roo.sendPrompt", &["uri", "approvalId", "digest"], |call| {
        Box::pin(prompts::send_prompt(call))
    }),
    CommandSpec::new("roo.openTask", &["taskId"], |call| Box::pin(documents::open_task(call))),
    CommandSpec::new("roo.send", &["text", "taskId", "images", "when"], |call| Box::pin(prompts::send(call))),
    CommandSpec::new(
        "roo.approve",
        &["approvalId", "digest", "taskId", "optionId", "text", "hunkIds"],
        |call| Box::pin(answers::respond(call, OptionKind::AllowOnce)),
    ),
    CommandSpec::new("roo.reviewInRefactorPreview", &["approvalId", "digest", "taskId", "text"], |call| {
        Box::pin(answers::review_in_preview(call))
    }),
    CommandSpec::new(
        "roo.deny",
        &["approvalId", "digest", "taskId", "optionId", "text", "hunkIds"],
        |call| Box::pin(answers::respond(call, OptionKind::RejectOnce)),
    ),
    CommandSpec::new("roo.answer", &["text", "questionId", "taskId", "images"], |call| {
        Box::pin(answers::answer(call))
    }),
    CommandSpec::new("roo.cancel", &["taskId"], |call| Box::pin(steering::cancel(call))),
    CommandSpec::new("roo.backgroundCommand", &["taskId"], |call| {
        Box::pin(steering::background_command(call))
    }),
    CommandSpec::new("roo.stopCommand", &["commandId", "taskId"], |call| {
        Box::pin(steering::stop_command(call))
    }),
    CommandSpec::new("roo.resume", &["taskId"], |call| Box::pin(steering::resume(call))),
    CommandSpec::new("roo.fork", &["taskId", "seq", "text"], |call| Box::pin(prompts::fork_task(call))),
    CommandSpec::without_argument("roo.status", |call| Box::pin(status::status(call))),
    CommandSpec::new("roo.showDiff", &["approvalId", "taskId"], |call| Box::pin(documents::show_diff(call))),
    CommandSpec::new("roo.showTree", &["taskId"], |call| Box::pin(documents::show_tree(call))),
    CommandSpec::new("roo.openInBrowser", &["taskId"], |call| Box::pin(documents::open_in_browser(call))),
    CommandSpec::new("roo.switchMode", &["mode", "taskId"], |call| Box::pin(steering::switch_mode(call))),
    CommandSpec::new("roo.selectProfile", &["profile", "taskId"], |call| {
        Box::pin(steering::select_profile(call))
    }),
    CommandSpec::new("roo.restoreFiles", &["taskId", "seq"], |call| {
        Box::pin(async move { dialogues::restore_files(call) })
    }),
    CommandSpec::new("roo.setUpModel", &["provider", "model", "baseUrl", "profile"], |call| {
        Box::pin(async move { dialogues::set_up_model(call) })
    }),
    CommandSpec::without_argument("roo.trust", |call| Box::pin(trust::trust(call))),
    CommandSpec::new("roo.trustWorkspace", &["path", "digest", "refuse"], |call| {
        Box::pin(trust::trust_workspace(call))
    }),
];

impl CommandSpec {
    const fn new(name: &'static str, fields: &'static [&'static str], run: RunCommand) -> Self {
        Self { name, fields: Some(fields), run }
    }

    const fn without_argument(name: &'static str, run: RunCommand) -> Self {
        Self { name, fields: None, run }
    }

    /// Refuses what the command would pass over.
    fn check_fields(&self, argument: &Value) -> Result<()> {
        let (Some(known), Value::Object(given)) = (self.fields, argument) else { return Ok(()) };
        match given.keys().find(|field| !known.contains(&field.as_str())) {
            Some(field) => Err(Error::invalid_params(format!(
                "{} has no parameter `{}`; its parameters are {}",
                self.name,
                one_line(field, 64),
                known.join(", ")
            ))),
            None => Ok(()),
        }
    }
}

/// Returns the names of the commands that are served.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    COMMANDS.iter().map(|command| command.name)
}

/// Runs a command.
pub(super) async fn execute(session: &Arc<Session>, params: ExecuteCommandParams) -> Result<Value> {
    let outcome = match session.services().await {
        Ok(services) => run(session, services, &params).await,
        Err(error) => Err(error),
    };
    match &outcome {
        Ok(CommandOutcome { message: Some(message), .. }) => {
            tell(session, MessageType::INFO, message.clone())
        }
        Ok(_) => {}
        Err(error) => tell(session, MessageType::ERROR, error.message.clone().into_owned()),
    }
    outcome.map(|outcome| outcome.value)
}

/// Shows a plain client's user a message, without waiting for it.
fn tell(session: &Arc<Session>, kind: MessageType, message: String) {
    if !session.is_typed() {
        let this = Arc::clone(session);
        session.spawn(async move { this.tell(kind, &message).await });
    }
}

async fn run(
    session: &Arc<Session>,
    services: &Arc<WorkspaceServices>,
    params: &ExecuteCommandParams,
) -> Result<CommandOutcome> {
    let Some(command) = COMMANDS.iter().find(|command| command.name == params.command) else {
        return Err(Error::invalid_params(format!("there is no command '{}'", params.command)));
    };
    let argument = params.arguments.first().unwrap_or(&Value::Null);
    command.check_fields(argument)?;
    (command.run)(CommandCall { session, services, argument }).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_command_that_acts_takes_its_own_fields_alone() {
        for command in COMMANDS.iter().filter(|command| !matches!(command.name, "roo.status" | "roo.trust")) {
            let name = command.name;
            assert!(command.fields.is_some(), "{name}");
            assert!(command.check_fields(&json!({ "taskID": "t" })).is_err(), "{name}");
            assert!(command.check_fields(&Value::Null).is_ok() && command.check_fields(&json!("t")).is_ok());
        }
        for (name, argument) in [
            (
                "roo.approve",
                json!({ "approvalId": "t.a1", "digest": null, "optionId": "allow_once", "text": "x", "taskId": "t" }),
            ),
            ("roo.send", json!({ "taskId": "t", "text": "x", "when": "now", "images": [] })),
            ("roo.newTask", json!({ "prompt": "x", "context": [], "mode": "ask" })),
            ("roo.trustWorkspace", json!({ "path": ".roomodes", "digest": null })),
        ] {
            let command = COMMANDS.iter().find(|command| command.name == name).unwrap();
            assert!(command.check_fields(&argument).is_ok(), "{name}");
        }
    }
}
