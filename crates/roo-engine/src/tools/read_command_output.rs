//! `read_command_output`: what a command in the background has printed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;

use super::execute_command;
use crate::policy::{Action, CheckedCall, Gate, Permitted, Refusal, Tool, ToolCallContext, own_command};
use crate::tool_run::RunningCommand;
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::ReadCommandOutput;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::CommandId;
use roo_text::render::one_line;

/// The longest command line in a list, in characters.
const LINE: usize = 200;
/// The longest wait for the end of a command.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Text for the model about a command whose end it reads in the next message.
const HAS_ENDED: &str = "has ended. How, and what it printed last, you are told with this result.";

/// Reads the new output of a command in the background.
#[derive(Debug)]
struct ReadOutput {
    /// The command; none to list all.
    command: Option<CommandId>,
    /// Time to wait for its end.
    timeout: Duration,
}

impl Tool for ReadCommandOutput {
    async fn judge(self, _: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let timeout = Duration::from_secs(self.timeout);
        Ok(own_command(ReadOutput { command: self.command, timeout }))
    }
}

impl Action for ReadOutput {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(read(self.command, self.timeout, context))
    }
}

/// Lists the commands in the background, or reads what one of them has printed.
pub(super) async fn read(command: Option<CommandId>, timeout: Duration, context: &ToolContext) -> Outcome {
    let Some(id) = command else { return list(context) };
    let command = match find(&id, context) {
        Ok(command) => command,
        Err(unknown) => return *unknown,
    };
    tokio::select! {
        biased;
        () = command.ended() => return ended(&id),
        () = context.cancel.cancelled() => return Outcome::interrupted("Cancelled."),
        () = tokio::time::sleep(timeout.min(LONGEST_WAIT)) => {}
    }
    let output = execute_command::tell_output(command.take_output(), &command, context).await;
    let text = format!("{id} is still running: {}\n{output}", one_line(&command.line, LINE));
    Outcome::new(ToolStatus::Ok, text, format!("{id} is still running"))
}

pub(super) fn ended(id: &CommandId) -> Outcome {
    Outcome::new(ToolStatus::Ok, format!("{id} {HAS_ENDED}"), format!("{id} has ended"))
}

pub(super) fn find(id: &CommandId, context: &ToolContext) -> Result<Arc<RunningCommand>, Box<Outcome>> {
    context.background.get(id).ok_or_else(|| {
        let others = list(context).text;
        let text =
            format!("No command {id} runs in the background. If it has ended, you were told how.\n{others}");
        Box::new(Outcome::failed(text))
    })
}

fn list(context: &ToolContext) -> Outcome {
    let all = context.background.all();
    let lines: Vec<String> = all
        .iter()
        .map(|command| {
            let line = one_line(&command.line, LINE);
            format!("{}: {line} ({} bytes of new output)", command.id, command.unread())
        })
        .collect();
    let text = match lines.as_slice() {
        [] => "No command runs in the background.".to_owned(),
        lines => lines.join("\n"),
    };
    Outcome::new(ToolStatus::Ok, text, format!("{} in the background", all.len()))
}
