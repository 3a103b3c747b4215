//! `roo-lsp mcp`: the MCP servers of a workspace, started to see whether they run, and their files, edited; and roo-lsp as
//! such a server itself.

mod edit;
mod import;
mod login;
pub(super) mod secrets;
mod serve;

pub(super) use self::import::{Taking, import_roo_servers};

use std::io::Write as _;
use std::time::Duration;

use super::arguments::{Common, McpCommand};
use super::session::SessionContext;
use super::terminal;
use super::{CliError, Ending};
use crate::mcp::ServerReport;
use roo_engine::customization::{Customization, GLOBAL_MCP, McpServer, PROJECT_MCP};
use roo_engine::server_tools::ServerTools as _;
use roo_formats::mcp::Level;
use roo_formats::{FileProblem, Severity};
use roo_mcp::ServerStatus;
use roo_text::render::{exact_line, one_line};

/// Time limit for servers to start.
const START: Duration = Duration::from_secs(60);
/// Maximum length of a tool's description, in characters.
const DESCRIPTION: usize = 100;
/// Number of lines of a server's log that are shown.
const LOG: usize = 20;

/// Runs one of the subcommands of `mcp`.
pub(super) fn mcp(common: &Common, command: McpCommand) -> Result<Ending, CliError> {
    let context = SessionContext::find(common)?;
    let only = match command {
        McpCommand::Add(server) => return edit::add(&context, server),
        McpCommand::Remove { name, project } => return edit::remove(&context, &name, project),
        McpCommand::Import { from, dry_run, replace, approvals } => {
            return import::import(&context, &from, Taking { dry_run, replace, approvals });
        }
        McpCommand::Login(arguments) => return super::block_on(login::login(&context, arguments))?,
        McpCommand::Logout { name } => return super::block_on(login::logout(&context, &name))?,
        McpCommand::List => None,
        McpCommand::Test { name } => Some(name),
        McpCommand::Serve(serve) => {
            return super::block_on(serve::serve(context, common.workspace.is_some(), serve))?;
        }
    };
    super::block_on(start(&context, only))?
}

/// Starts the servers, or one of them, shows what becomes of them, and ends them again.
async fn start(context: &SessionContext, only: Option<String>) -> Result<Ending, CliError> {
    let servers = context.mcp_servers(context.settings(None)?)?;
    let customization = context.customization()?;
    let is_broken = tell_problems(&customization)?;
    let mut configured = customization.mcp_servers();
    if let Some(name) = &only {
        let names: Vec<String> =
            configured.iter().map(|server| server.configured.server.name.clone()).collect();
        configured.retain(|server| server.configured.server.name == *name);
        if configured.is_empty() {
            let known = if names.is_empty() { "there are none".to_owned() } else { names.join(", ") };
            servers.shut_down().await;
            return Err(CliError::Usage(format!("there is no MCP server '{name}' here: {known}")));
        }
    }
    servers.refresh();
    let longest = configured.iter().map(|server| server.configured.server.timeout).max().unwrap_or_default();
    let (limit, origin) = match longest < START {
        true => (longest, "the longest `timeout` of their entries"),
        false => (START, "the limit for starting a server"),
    };
    let starts = |server: &&McpServer| server.is_approved && !server.configured.server.disabled;
    let names: Vec<&str> =
        configured.iter().filter(starts).map(|server| &*server.configured.server.name).collect();
    if !names.is_empty() {
        writeln!(
            terminal::stderr(),
            "roo-lsp: waiting up to {} s ({origin}) for the MCP servers to start: {}",
            limit.as_secs(),
            exact_line(&names.join(", "))
        )?;
    }
    let report = servers.settled(&names, limit).await;
    let shown = match only {
        None => list(&report, is_broken),
        Some(name) => test(&report, &name, &servers.log(&name)),
    };
    servers.shut_down().await;
    shown
}

/// Tells what of the files of servers has no effect. Returns whether one of them is broken.
fn tell_problems(customization: &Customization) -> Result<bool, CliError> {
    let mut out = terminal::stderr();
    let is_ours = |problem: &FileProblem| problem.file.file_name().is_some_and(|name| name == GLOBAL_MCP);
    let problems: Vec<FileProblem> = customization.problems().into_iter().filter(is_ours).collect();
    for problem in &problems {
        writeln!(out, "roo-lsp: {}", exact_line(&problem.to_string()))?;
    }
    let trust = customization.trust();
    if !trust.trusted && trust.brings.iter().any(|path| path == PROJECT_MCP) {
        writeln!(
            out,
            "roo-lsp: this workspace is not trusted, so no server of {PROJECT_MCP} runs (see roo-lsp trust)"
        )?;
    }
    Ok(problems.iter().any(|problem| problem.problem.severity == Severity::Error))
}

fn list(report: &[ServerReport], is_broken: bool) -> Result<Ending, CliError> {
    if report.is_empty() && !is_broken {
        writeln!(terminal::stdout(), "no MCP servers are configured here")?;
    }
    for server in report {
        show(server)?;
    }
    let fails = |server: &ServerReport| {
        matches!(
            server.status,
            ServerStatus::Failed { .. }
                | ServerStatus::NeedsLogin(_)
                | ServerStatus::NotStarted
                | ServerStatus::Starting
        )
    };
    let all_fail = !report.is_empty() && report.iter().all(fails);
    Ok(if is_broken || all_fail { Ending::Failed } else { Ending::Done })
}

fn test(report: &[ServerReport], name: &str, log: &[String]) -> Result<Ending, CliError> {
    let Some(server) = report.iter().find(|server| server.name == name) else {
        return Err(CliError::Other(format!("the MCP server '{name}' was removed meanwhile")));
    };
    show(server)?;
    let told = match &server.status {
        ServerStatus::Failed { fault, .. } | ServerStatus::NeedsLogin(fault) => fault.to_string(),
        _ => String::new(),
    };
    for line in log.iter().skip(log.len().saturating_sub(LOG)).filter(|line| !told.contains(line.as_str())) {
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
        ServerStatus::Failed { fault, .. } | ServerStatus::NeedsLogin(fault) => {
            writeln!(out, "  {}", exact_line(&fault.to_string()))?;
        }
        ServerStatus::WaitingForApproval => {
            writeln!(out, "  approve it with: roo-lsp trust --approve .roo/mcp.json")?;
        }
        ServerStatus::NotStarted | ServerStatus::Starting => {
            writeln!(out, "  it has not answered `initialize` in this time")?;
        }
        ServerStatus::Disabled => {}
    }
    for (tool, reason) in &server.left_out {
        writeln!(out, "  not offered: {}: {}", exact_line(tool), exact_line(reason))?;
    }
    Ok(())
}
