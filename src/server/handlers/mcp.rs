//! `roo/mcp/*`.

use std::sync::Arc;

use tower_lsp::jsonrpc::{Error, Result};

use super::{Params, Server};
use crate::mcp::{McpServers, ServerReport, SwitchError};
use crate::server::services::WorkspaceServices;
use crate::server::{failure, mcp_servers};
use roo_catalog::ServerToolName;
use roo_engine::server_tools::ServerTools as _;
use roo_protocol::error::ErrorKind;
use roo_protocol::mcp::{
    McpEnableParams, McpLeftOutTool, McpListParams, McpListResult, McpLogResult, McpServerParams,
    McpToolItem, McpToolsResult,
};
use roo_protocol::task::Done;
use roo_text::render::one_line;

/// The longest description of a tool, in characters.
const DESCRIPTION: usize = 500;
/// The most lines of a server's log.
const LOG_LINES: usize = 100;
/// The longest line of a log, in characters.
const LOG_LINE: usize = 1000;

/// Does something that reads the disk, within the runtime that servers live in.
async fn ask<T: Send + 'static>(
    services: &WorkspaceServices,
    question: impl FnOnce(&McpServers) -> T + Send + 'static,
) -> Result<T> {
    let mcp = Arc::clone(&services.mcp);
    tokio::task::spawn_blocking(move || question(&mcp)).await.map_err(|_| Error::internal_error())
}

pub(super) async fn list(
    server: &Server,
    Params(McpListParams {}): Params<McpListParams>,
) -> Result<McpListResult> {
    let services = server.session.typed().await?;
    let listed = mcp_servers::listed(ask(services, McpServers::report).await?);
    mcp_servers::follow(&server.session, services, &listed);
    Ok(listed)
}

pub(super) async fn tools(
    server: &Server,
    Params(McpServerParams { server: name }): Params<McpServerParams>,
) -> Result<McpToolsResult> {
    let services = server.session.typed().await?;
    let report = find(services, &name).await?;
    let described = report.status.catalog().into_iter().flat_map(|catalog| &catalog.tools);
    let is_offered = |name: &String| !report.left_out.iter().any(|(tool, _)| tool == name);
    let tools = described.filter(|tool| is_offered(&tool.name)).map(|tool| McpToolItem {
        name: tool.name.clone(),
        title: tool.title.clone(),
        description: one_line(&tool.description, DESCRIPTION),
        always_allowed: ServerToolName::new(&name, &tool.name)
            .is_ok_and(|tool| services.mcp.always_allows(&tool)),
    });
    let left_out = report.left_out.iter();
    Ok(McpToolsResult {
        tools: tools.collect(),
        left_out: left_out
            .map(|(name, reason)| McpLeftOutTool { name: name.clone(), reason: reason.clone() })
            .collect(),
    })
}

pub(super) async fn log(
    server: &Server,
    Params(McpServerParams { server: name }): Params<McpServerParams>,
) -> Result<McpLogResult> {
    let services = server.session.typed().await?;
    find(services, &name).await?;
    let lines = services.mcp.log(&name);
    let first = lines.len().saturating_sub(LOG_LINES);
    let lines = lines[first..].iter().map(|line| one_line(line, LOG_LINE));
    Ok(McpLogResult { lines: lines.collect() })
}

pub(super) async fn restart(
    server: &Server,
    Params(McpServerParams { server: name }): Params<McpServerParams>,
) -> Result<Done> {
    let services = server.session.typed().await?;
    // By the newest configuration.
    let report = find(services, &name).await?;
    match services.mcp.restart(&name).await {
        true => Ok(Done {}),
        false => {
            let message = format!("the MCP server '{name}' is not to run: it is {}", report.status.label());
            Err(failure(ErrorKind::WrongState, message, None, "roo/mcp/list says why."))
        }
    }
}

pub(super) async fn enable(
    server: &Server,
    Params(McpEnableParams { server: name, enabled }): Params<McpEnableParams>,
) -> Result<Done> {
    let services = server.session.typed().await?;
    find(services, &name).await?;
    let switched = ask(services, move |mcp| mcp.switch(&name, enabled)).await?;
    switched.map(|()| Done {}).map_err(|error| {
        let (kind, hint) = match &error {
            SwitchError::Unknown(_) => (ErrorKind::NotFound, LIST),
            SwitchError::Edit { .. } => (ErrorKind::Mismatch, "Correct the file, or change it by hand."),
            SwitchError::Disk { .. } => {
                (ErrorKind::Storage, "Check that the file can be written, and try again.")
            }
        };
        failure(kind, error.to_string(), None, hint)
    })
}

/// Hint about names of servers.
const LIST: &str = "roo/mcp/list lists them.";

async fn find(services: &WorkspaceServices, name: &str) -> Result<ServerReport> {
    let reports = ask(services, McpServers::report).await?;
    reports
        .into_iter()
        .find(|report| report.name == name)
        .ok_or_else(|| failure(ErrorKind::NotFound, format!("there is no MCP server '{name}'"), None, LIST))
}
