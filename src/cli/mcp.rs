//! `roo-lsp mcp`: the MCP servers of a workspace, started to see whether they run.

use std::io::Write as _;
use std::time::Duration;

use super::arguments::{Common, McpCommand};
use super::session::SessionContext;
use super::terminal;
use super::{CliError, Ending};
use crate::mcp::{McpServers, ServerReport};
use roo_engine::server_tools::ServerTools as _;
use roo_formats::mcp::Level;
use roo_mcp::ServerStatus;
use roo_text::render::{exact_line, one_line};

/// How long servers may take to start.
const START: Duration = Duration::from_secs(60);
/// How much of a tool's description is shown, in characters.
const DESCRIPTION: usize = 100;
/// How many lines of a server's log are shown.
const LOG: usize = 20;

/// Lists or tries servers, and ends them again.
pub(super) async fn mcp(common: &Common, command: McpCommand) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let servers = context.mcp_servers(context.settings(None)?)?;
    servers.refresh();
    servers.settled(START).await;
    let shown = match command {
        McpCommand::List => list(&servers),
        McpCommand::Test { name } => test(&servers, &name),
    };
    servers.shut_down().await;
    shown
}

fn list(servers: &McpServers) -> Result<Ending, CliError> {
    let report = servers.report();
    if report.is_empty() {
        writeln!(terminal::stdout(), "no MCP servers are configured here")?;
    }
    for server in &report {
        show(server)?;
    }
    Ok(Ending::Done)
}

fn test(servers: &McpServers, name: &str) -> Result<Ending, CliError> {
    let report = servers.report();
    let Some(server) = report.iter().find(|server| server.name == name) else {
        let names: Vec<&str> = report.iter().map(|server| server.name.as_str()).collect();
        let known = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
        return Err(CliError::Usage(format!("there is no MCP server '{name}' here: {known}")));
    };
    show(server)?;
    let log = servers.log(name);
    for line in log.iter().skip(log.len().saturating_sub(LOG)) {
        writeln!(terminal::stdout(), "  log: {}", exact_line(line))?;
    }
    match server.status {
        ServerStatus::Connected(_) => Ok(Ending::Done),
        _ => Ok(Ending::Failed),
    }
}

fn show(server: &ServerReport) -> Result<(), CliError> {
    let mut out = terminal::stdout();
    let whose = match server.level {
        Level::User => "user",
        Level::Workspace => "workspace",
    };
    let (name, target) = (exact_line(&server.name), exact_line(&server.target));
    writeln!(out, "{name} ({whose}): {}", server.status.label())?;
    writeln!(out, "  {target}")?;
    match &server.status {
        ServerStatus::Connected(catalog) => {
            for tool in &catalog.tools {
                let description = one_line(&tool.description, DESCRIPTION);
                writeln!(out, "  {}: {description}", exact_line(&tool.name))?;
            }
        }
        ServerStatus::Failed { fault, .. } => writeln!(out, "  {}", exact_line(&fault.to_string()))?,
        ServerStatus::WaitingForApproval => {
            writeln!(out, "  approve it with: roo-lsp trust --approve .roo/mcp.json")?;
        }
        ServerStatus::Disabled | ServerStatus::Starting => {}
    }
    for (tool, reason) in &server.left_out {
        writeln!(out, "  not offered: {}: {}", exact_line(tool), exact_line(reason))?;
    }
    Ok(())
}
