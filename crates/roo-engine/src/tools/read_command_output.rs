//! `read_command_output`: what a command in the background has printed.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use regex::{Regex, RegexBuilder};

use super::execute_command;
use crate::policy::{
    Action, CheckedCall, Gate, Permitted, Refusal, RefusalRule, Tool, ToolCallContext, own_command,
};
use crate::tool_run::RunningCommand;
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::ReadCommandOutput;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::CommandId;
use roo_text::render::one_line;

/// The longest command line in a list, in characters.
pub(super) const LINE: usize = 200;
/// The longest wait for the end of a command.
const MAX_WAIT: Duration = Duration::from_secs(600);
/// The largest compiled pattern, in bytes.
const PATTERN: usize = 1 << 20;
/// Text for the model about a command whose end it reads in the next message.
const HAS_ENDED: &str = "has ended. How, and what it printed last, you are told with this result.";

/// Reads the new output of a command in the background.
#[derive(Debug)]
struct ReadOutput {
    /// The command; none to list all.
    command: Option<CommandId>,
    /// What to wait for besides its end.
    awaited: Awaited,
    /// Time to wait.
    timeout: Duration,
}

/// What a call waits for, besides the end of the command.
#[derive(Debug, Default)]
pub(super) struct Awaited {
    /// Output that matches.
    pub until: Option<Regex>,
    /// A program that listens at this TCP port.
    pub port: Option<u16>,
}

impl Awaited {
    fn is_nothing(&self) -> bool {
        self.until.is_none() && self.port.is_none()
    }

    /// Resolves when all of it has come; never where there is nothing.
    async fn come(&self, command: &RunningCommand) {
        if self.is_nothing() {
            std::future::pending::<()>().await;
        }
        if let Some(until) = &self.until {
            command.matches(until).await;
        }
        if let Some(port) = self.port {
            command.listens_at(port).await;
        }
    }

    /// Says whether it has come; empty where nothing was waited for.
    fn told(&self, came: bool, timeout: Duration) -> String {
        let seconds = timeout.as_secs();
        let until = self.until.as_ref().map(|until| match came {
            true => format!("its output matches `{until}`"),
            false => format!("its output has not come to match `{until}`"),
        });
        let port = self.port.map(|port| match came {
            true => format!("a program listens at port {port}"),
            false => format!("nothing has come to listen at port {port}"),
        });
        let told: Vec<String> = until.into_iter().chain(port).collect();
        match (told.is_empty(), came) {
            (true, _) => String::new(),
            (_, true) => format!("\nAs awaited, {}.", told.join(" and ")),
            (_, false) => format!("\nAfter {seconds} s, {}.", told.join(", or ")),
        }
    }
}

impl Tool for ReadCommandOutput {
    async fn judge(self, _: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        let timeout = Duration::from_secs(self.timeout);
        let until = self.until.as_deref().map(pattern).transpose()?;
        let awaited = Awaited { until, port: self.port };
        Ok(own_command(ReadOutput { command: self.command, awaited, timeout }))
    }
}

impl Action for ReadOutput {
    fn run<'a>(self: Box<Self>, _: Permitted, context: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        Box::pin(read(self.command, self.awaited, self.timeout, context))
    }
}

/// The pattern of a call, in which `^` and `$` mean the ends of lines.
fn pattern(text: &str) -> Result<Regex, Refusal> {
    let pattern = RegexBuilder::new(text).multi_line(true).crlf(true).size_limit(PATTERN).build();
    pattern
        .map_err(|error| Refusal::mistake(RefusalRule::Parameters, format!("`until` is no pattern: {error}")))
}

/// Lists the commands in the background, or reads what one of them has printed.
pub(super) async fn read(
    command: Option<CommandId>,
    awaited: Awaited,
    timeout: Duration,
    context: &ToolContext,
) -> Outcome {
    let found = match &command {
        Some(id) => find(id, context),
        None if awaited.is_nothing() => return list(context),
        None => only(context),
    };
    let command = match found {
        Ok(command) => command,
        Err(unknown) => return *unknown,
    };
    let id = command.id.clone();
    let timeout = timeout.min(MAX_WAIT);
    let came = tokio::select! {
        biased;
        () = command.ended() => return ended(&id),
        () = context.cancel.cancelled() => return Outcome::interrupted("Cancelled."),
        () = awaited.come(&command) => true,
        () = tokio::time::sleep(timeout) => false,
    };
    command.forget_recent();
    let output = execute_command::tell_output(command.take_output(), &command, context).await;
    let told = awaited.told(came, timeout);
    let text = format!("{id} is still running: {}{told}\n{output}", one_line(&command.line, LINE));
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

/// The only command in the background.
fn only(context: &ToolContext) -> Result<Arc<RunningCommand>, Box<Outcome>> {
    let mut all = context.background.all();
    match (all.pop(), all.is_empty()) {
        (Some(command), true) => Ok(command),
        (None, _) => Err(Box::new(Outcome::failed(list(context).text))),
        (Some(_), false) => {
            let text =
                format!("Which one is meant? Call it again with `command_id`.\n{}", list(context).text);
            Err(Box::new(Outcome::failed(text)))
        }
    }
}

fn list(context: &ToolContext) -> Outcome {
    let all = context.background.all();
    let lines: Vec<String> = all
        .iter()
        .map(|command| {
            let line = one_line(&command.line, LINE);
            let terminal = if command.handle.terminal.is_some() { "in a terminal, " } else { "" };
            format!("{}: {line} ({terminal}{} bytes of new output)", command.id, command.unread())
        })
        .collect();
    let text = match lines.as_slice() {
        [] => "No command runs in the background.".to_owned(),
        lines => lines.join("\n"),
    };
    Outcome::new(ToolStatus::Ok, text, format!("{} in the background", all.len()))
}
