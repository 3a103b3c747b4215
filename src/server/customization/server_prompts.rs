//! Prompts of MCP servers as slash commands.

use std::sync::Arc;

use tower_lsp::jsonrpc::{Error, Result};

use crate::server::services::WorkspaceServices;
use roo_engine::server_tools::ServerTools as _;
use roo_protocol::customization::CommandItem;

/// Source of commands that are prompts of servers.
const SOURCE: &str = "mcp";

/// The prompts of the connected servers, as messages name them. None in a workspace that is not trusted, where they are
/// refused.
pub(in crate::server) async fn server_prompts(services: &WorkspaceServices) -> Result<Vec<CommandItem>> {
    let (customization, mcp) = (Arc::clone(&services.customization), Arc::clone(&services.mcp));
    // Reads the disk, and starts servers within the runtime.
    let listed = tokio::task::spawn_blocking(move || match customization.is_trusted() {
        true => mcp.prompts(),
        false => vec![],
    });
    let mut commands = Vec::new();
    for server in listed.await.map_err(|_| Error::internal_error())? {
        for prompt in server.prompts.as_deref().unwrap_or_default() {
            commands.push(CommandItem {
                name: server.command(prompt),
                description: prompt.description.clone(),
                argument_hint: prompt.hint(),
                mode: None,
                source: SOURCE.to_owned(),
            });
        }
    }
    Ok(commands)
}
