//! `stop_command`: the end of a command in the background.

use futures_util::future::BoxFuture;

use super::read_command_output::{ended, find};
use crate::policy::{Action, CheckedCall, Gate, Permitted, Refusal, Tool, ToolCallContext, own_command};
use crate::tool_run::StopReason;
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::StopCommand;
use roo_protocol::ids::CommandId;

/// Ends a command in the background.
#[derive(Debug)]
struct Stop(CommandId);

impl Tool for StopCommand {
    async fn judge(self, _: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        Ok(own_command(Stop(self.command)))
    }
}

impl Action for Stop {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(stop(self.0, context))
    }
}

/// Ends a command in the background, and waits for its end.
pub(super) async fn stop(id: CommandId, context: &ToolContext) -> Outcome {
    let command = match find(&id, context) {
        Ok(command) => command,
        Err(unknown) => return *unknown,
    };
    command.stop(StopReason::Model);
    tokio::select! {
        biased;
        () = command.ended() => ended(&id),
        () = context.cancel.cancelled() => Outcome::interrupted("Cancelled."),
    }
}
