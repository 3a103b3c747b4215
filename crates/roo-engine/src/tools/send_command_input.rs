//! `send_command_input`: what is typed at the terminal of a command in the background.

use futures_util::future::BoxFuture;

use super::execute_command::{BEGINNING, QUIET, tell_output};
use super::read_command_output::{LINE, ended, find};
use crate::policy::{
    Action, CheckedCall, Gate, Permitted, Refusal, RefusalRule, Tool, ToolCallContext, own_command,
};
use crate::tool_run::{Outcome, RunningCommand, ToolContext};
use roo_catalog::SendCommandInput;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::CommandId;
use roo_text::render::one_line;

/// The most that is typed at once, in bytes: a terminal drops what a line has beyond this.
const MAX_LINE_BYTES: usize = 4000;

/// Types at the terminal of a command in the background.
#[derive(Debug)]
struct Typing {
    command: CommandId,
    keys: Vec<u8>,
}

impl Tool for SendCommandInput {
    async fn judge(self, gate: &Gate, call_context: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let mistake = |text: String| Refusal::mistake(RefusalRule::Parameters, text);
        let id = &self.command;
        let Some(running) = call_context.commands.and_then(|commands| commands.get(id)) else {
            let text = format!("No command {id} runs in the background. If it has ended, you were told how.");
            return Err(mistake(text));
        };
        if running.handle.terminal.is_none() {
            let text =
                format!("{id} has no terminal, so it reads no input. Stop it, and start it with `pty`.");
            return Err(mistake(text));
        }
        if self.input.lines().any(|line| line.len() > MAX_LINE_BYTES) {
            return Err(mistake(format!(
                "A terminal takes lines of at most {MAX_LINE_BYTES} bytes. Type less at once."
            )));
        }
        let action = Typing { command: id.clone(), keys: keys(&self) };
        if self.only_ends() {
            return Ok(own_command(action));
        }
        gate.command_input(call_context, &self, &running, Box::new(action)).await.map(CheckedCall::from)
    }
}

/// What a terminal sends for a call.
fn keys(call: &SendCommandInput) -> Vec<u8> {
    // As the key Enter sends it.
    let mut keys = call.input.replace("\r\n", "\n").replace('\n', "\r").into_bytes();
    keys.extend_from_slice(call.key.bytes());
    keys
}

impl Action for Typing {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { send(&self.command, &self.keys, context).await })
    }
}

/// Types at a terminal, and waits for a moment for what is printed then.
async fn send(id: &CommandId, keys: &[u8], context: &ToolContext) -> Outcome {
    let command = match find(id, context) {
        Ok(command) => command,
        Err(unknown) => return *unknown,
    };
    let Some(terminal) = &command.handle.terminal else {
        return Outcome::failed(format!("{id} has no terminal."));
    };
    command.forget_recent();
    let answer = answer(&command);
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => return Outcome::interrupted("Cancelled; a part may have been typed."),
        typed = terminal.send(keys) => if let Err(error) = typed {
            return Outcome::failed(format!("{id} doesn't read its input ({error}); a part may have been typed."));
        }
    }
    tokio::select! {
        biased;
        () = command.ended() => return ended(id),
        () = context.cancel.cancelled() => return Outcome::interrupted("Typed; cancelled before it answered."),
        () = answer => {}
        () = tokio::time::sleep(BEGINNING) => {}
    }
    let output = tell_output(command.take_output(), &command, context).await;
    let text = format!("Typed. {id} is still running: {}\n{output}", one_line(&command.line, LINE));
    Outcome::new(ToolStatus::Ok, text, format!("typed at {id}"))
}

/// Resolves when the command has printed something from now on, and then nothing for a moment.
fn answer(command: &RunningCommand) -> impl Future<Output = ()> + '_ {
    let mut printed = command.printed();
    async move {
        // The command holds the sender, so the wait can't fail.
        let _ = printed.changed().await;
        command.silent(QUIET).await;
    }
}
