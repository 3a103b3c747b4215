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
    let customization = Arc::clone(&services.customization);
    let is_trusted = tokio::task::spawn_blocking(move || customization.is_trusted());
    let mut commands = Vec::new();
    if !is_trusted.await.map_err(|_| Error::internal_error())? {
        return Ok(commands);
    }
    for server in services.mcp.prompts().await {
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
