//! `fetch_instructions`: texts that the server brings, so nobody is asked and nothing is read.

use futures_util::future::BoxFuture;

use crate::customization::CREATE_MODE;
use crate::policy::{Action, CheckedCall, Gate, NamedAllowRule, Permitted, Refusal, Tool, ToolCallContext};
use crate::tool_run::{Outcome, ToolContext};
use roo_catalog::{FetchInstructions, InstructedTask};
use roo_protocol::event::ToolStatus;

/// Hands out instructions.
#[derive(Debug)]
struct Fetch(InstructedTask);

impl Tool for FetchInstructions {
    async fn judge(self, _: &Gate, _: ToolCallContext<'_>) -> Result<CheckedCall, Refusal> {
        Ok(CheckedCall::Free {
            rule: NamedAllowRule::Instructions,
            reason: "it only returns instructions that the server brings",
            action: Some(Box::new(Fetch(self.task))),
        })
    }
}

impl Action for Fetch {
    fn run<'a>(self: Box<Self>, _: Permitted, _: &'a ToolContext) -> BoxFuture<'a, Outcome> {
        let summary = format!("Instructions for {}", self.0.as_str());
        Box::pin(async move { Outcome::new(ToolStatus::Ok, instructions(self.0), summary) })
    }
}

fn instructions(task: InstructedTask) -> &'static str {
    match task {
        InstructedTask::CreateMcpServer => CREATE_MCP_SERVER,
        InstructedTask::CreateMode => CREATE_MODE,
    }
}

const CREATE_MCP_SERVER: &str = "\
An MCP server is a program that gives agents tools by the Model Context Protocol. It reads requests from standard input \
and answers on standard output, one JSON-RPC message a line, so it must print nothing else there; what it logs goes to \
standard error. Nobody can answer it while it runs: it takes all that it needs from its arguments and environment.

1. Find out from the user what the tools are for, which service they talk to, and how it knows its user. Keys and \
passwords come from environment variables that the user sets: never write them into a file or a command, and never ask \
for their values.
2. Choose the language of the project, or one that the user names, and the official SDK for it: \
`@modelcontextprotocol/sdk` for TypeScript, `mcp` for Python, `rmcp` for Rust. Write the server in a directory of its \
own, beside the project or where the user wants it.
3. Give each tool one purpose, a name of letters, digits and `_`, a description that says when to use it, and a JSON \
Schema for its arguments. Check the arguments, set a time limit for what it asks others, and return errors as results with \
`isError` that say what to do. Mark tools that change nothing by the annotation `readOnlyHint`, and those that may destroy \
something by `destructiveHint`.
4. Build it, and test it without a client: start it with a line each for `initialize`, `notifications/initialized` and \
`tools/list` on its standard input, and read what it prints.
5. Connecting a server is up to the user, since it runs as a program of theirs: end with the command that starts it with an \
absolute path, its arguments, and the names of the environment variables that it needs.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_about_what_was_asked_for() {
        assert!(instructions(InstructedTask::CreateMode).contains("customModes:"));
        let server = instructions(InstructedTask::CreateMcpServer);
        for part in ["standard output", "`tools/list`", "up to the user"] {
            assert!(server.contains(part), "{part}");
        }
    }
}
