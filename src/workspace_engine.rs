//! The engine of a workspace, as every front end has it: real models, commands, language servers and code index.

use std::sync::Arc;

use roo_engine::engine::clock::Clock;
use roo_engine::engine::{Engine, Setup};
use roo_engine::tool_run::UserShell;
use roo_model::providers::ConfiguredModels;
use roo_sandbox::exec::sandbox::Helper;

use crate::code_index::code_index;
use crate::language_servers::language_servers;
use crate::mcp::McpServers;
use crate::workspace_parts::WorkspaceParts;

/// Builds the engine of a workspace with its MCP servers. Reads the disk; no program is started by that.
pub(crate) fn workspace_engine(parts: WorkspaceParts, clock: Arc<dyn Clock>, mcp: Arc<McpServers>) -> Engine {
    let language_servers = Arc::new(language_servers(&parts));
    let code_index = Arc::new(code_index(&parts));
    let WorkspaceParts { settings, workspace, customization, directory, directories } = parts;
    Engine::new(Setup {
        settings,
        workspace,
        customization,
        directory,
        directories,
        helper: Helper::own(),
        clock,
        models: Arc::new(ConfiguredModels),
        commands: Arc::new(UserShell),
        server_tools: mcp,
        language_servers,
        code_index,
    })
}
