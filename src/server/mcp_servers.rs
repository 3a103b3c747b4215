//! The MCP servers of the workspace, as typed clients are told of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tower_lsp::ls_types::notification::Notification;

use super::session::{Session, WorkspaceServices};
use crate::mcp::ServerReport;
use roo_formats::mcp::Level;
use roo_mcp::{ServerCatalog, ServerStatus};
use roo_protocol::mcp::{McpListResult, McpOwner, McpServerItem, McpServerState};

/// The servers of these reports.
pub(super) fn listed(reports: Vec<ServerReport>) -> McpListResult {
    McpListResult { servers: reports.into_iter().map(item).collect() }
}

fn item(report: ServerReport) -> McpServerItem {
    let (state, reason, retry_after) = match &report.status {
        ServerStatus::Disabled => (McpServerState::Disabled, None, None),
        ServerStatus::WaitingForApproval => (McpServerState::WaitingForApproval, None, None),
        ServerStatus::NotStarted => (McpServerState::NotStarted, None, None),
        ServerStatus::Starting => (McpServerState::Starting, None, None),
        ServerStatus::Connected(_) => (McpServerState::Connected, None, None),
        ServerStatus::NeedsLogin(fault) => (McpServerState::NeedsLogin, Some(fault.to_string()), None),
        ServerStatus::Failed { fault, retry_after } => {
            (McpServerState::Failed, Some(fault.to_string()), retry_after.map(|pause| pause.as_secs()))
        }
    };
    let is_offered = |name: &String| !report.left_out.iter().any(|(tool, _)| tool == name);
    let count = |of: fn(&ServerCatalog) -> usize| report.status.catalog().map_or(0, |catalog| of(catalog));
    let tools = report.status.catalog().into_iter().flat_map(|catalog| &catalog.tools);
    let tools = tools.filter(|tool| is_offered(&tool.name)).count();
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    McpServerItem {
        owner: match report.level {
            Level::User => McpOwner::User,
            Level::Workspace => McpOwner::Workspace,
        },
        state,
        reason,
        retry_after,
        tools: number(tools),
        resources: number(count(|catalog| catalog.resources.len() + catalog.resource_templates.len())),
        prompts: number(count(|catalog| catalog.prompts.len())),
        name: report.name,
        target: report.target,
    }
}

/// Tells a client that has listed the servers once of each change from then on. Other clients may not know the notification.
pub(super) fn follow(session: &Arc<Session>, services: &Arc<WorkspaceServices>, listed_now: &McpListResult) {
    if session.follows_servers.swap(true, Ordering::SeqCst) {
        return;
    }
    let (this, services, mut told) = (Arc::clone(session), Arc::clone(services), listed_now.clone());
    session.spawn(async move {
        let mut changes = services.mcp.changes();
        loop {
            let now = listed(services.mcp.reported());
            if now != told {
                this.client.send_notification::<McpChanged>(now.clone()).await;
                told = now;
            }
            if changes.changed().await.is_err() {
                return;
            }
        }
    });
}

/// `roo/mcp/changed`.
enum McpChanged {}

impl Notification for McpChanged {
    type Params = McpListResult;
    const METHOD: &'static str = "roo/mcp/changed";
}
