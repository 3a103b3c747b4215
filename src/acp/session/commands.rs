//! Slash commands that a session's user can give.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate, UnstructuredCommandInput,
};
use roo_engine::engine::CONDENSE;
use roo_engine::server_tools::ServerTools as _;

use crate::acp::workspace::Workspace;

/// The commands of the workspace, the engine's own, and the prompts of MCP servers that are connected. Reads the disk.
pub(super) async fn available(workspace: &Arc<Workspace>) -> SessionUpdate {
    let workspace = Arc::clone(workspace);
    let listed = tokio::task::spawn_blocking(move || list(&workspace)).await;
    // While the process ends there are none.
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(listed.unwrap_or_default()))
}

fn list(workspace: &Workspace) -> Vec<AvailableCommand> {
    let command = |name: String, about: Option<String>, hint: Option<String>| {
        let input = hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(name, about.unwrap_or_default()).input(input)
    };
    let customization = &workspace.customization;
    let own = customization.commands();
    let mut commands: Vec<AvailableCommand> =
        own.into_iter().map(|own| command(own.name, own.description, own.argument_hint)).collect();
    if commands.iter().all(|command| command.name != CONDENSE) {
        let about = "Summarises earlier turns of the conversation to make room";
        commands.push(command(CONDENSE.to_owned(), Some(about.to_owned()), None));
    }
    // In a workspace that is not trusted they are refused.
    if customization.is_trusted() {
        for server in workspace.mcp.prompts() {
            for prompt in server.prompts.as_deref().unwrap_or_default() {
                commands.push(command(server.command(prompt), prompt.description.clone(), prompt.hint()));
            }
        }
    }
    commands
}
