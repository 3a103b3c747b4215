//! Slash commands that a session's user can give.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, SessionUpdate, UnstructuredCommandInput,
};
use roo_engine::customization::CONDENSE;
use roo_engine::customization::{Skill, SlashCommand};
use roo_engine::server_prompts::ServerPrompts;
use roo_engine::server_tools::ServerTools as _;

use crate::acp::workspace::Workspace;

/// The commands of the workspace, the engine's own, and the prompts of MCP servers that are connected. Reads the disk.
pub(super) async fn available(workspace: &Arc<Workspace>) -> SessionUpdate {
    let customization = Arc::clone(&workspace.customization);
    let read = tokio::task::spawn_blocking(move || {
        let commands = customization.commands();
        let skills = customization.skills();
        let skills = skills.beside_commands(&commands).into_iter().cloned().collect();
        ((commands, skills), customization.is_trusted())
    });
    // While the process ends there are none.
    let (own, is_trusted) = read.await.unwrap_or_default();
    // In a workspace that is not trusted they are refused.
    let of_servers = if is_trusted { workspace.mcp.prompts().await } else { vec![] };
    SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(list(own, of_servers)))
}

fn list(
    (own, skills): (Vec<SlashCommand>, Vec<Skill>),
    of_servers: Vec<ServerPrompts>,
) -> Vec<AvailableCommand> {
    let command = |name: String, about: Option<String>, hint: Option<String>| {
        let input = hint.map(|hint| AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(hint)));
        AvailableCommand::new(name, about.unwrap_or_default()).input(input)
    };
    let mut commands: Vec<AvailableCommand> =
        own.into_iter().map(|own| command(own.name, own.description, own.argument_hint)).collect();
    commands.extend(skills.into_iter().map(|skill| command(skill.name, Some(skill.description), None)));
    if commands.iter().all(|command| command.name != CONDENSE) {
        let about = "Summarises earlier turns of the conversation to make room";
        commands.push(command(CONDENSE.to_owned(), Some(about.to_owned()), None));
    }
    for server in of_servers {
        for prompt in server.prompts.as_deref().unwrap_or_default() {
            commands.push(command(server.command(prompt), prompt.description.clone(), prompt.hint()));
        }
    }
    commands
}
