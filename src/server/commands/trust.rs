//! Commands about the trust in a workspace and in its files.

use serde::Deserialize;
use serde_json::json;
use tower_lsp::jsonrpc::Result;

use super::super::customization;
use super::super::session::WorkspaceServices;
use super::call::{CommandCall, CommandOutcome};
use roo_engine::customization::Grant;
use roo_protocol::customization::{PendingKind, PendingTrust, TrustReport};
use roo_protocol::ids::Digest;
use roo_text::render::exact_line;

pub(super) async fn trust(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { services, .. } = call;
    let report = customization::ask(services, |customization| customization.trust()).await?;
    let brings = report.brings.join(", ");
    let text = match &report {
        TrustReport { trusted: true, .. } => format!("this workspace is trusted{}", what_waits(&report)),
        _ if brings.is_empty() => "this workspace has no files that need trust".to_owned(),
        _ => format!("not trusted, so these have no effect: {brings} (roo.trustWorkspace)"),
    };
    Ok(CommandOutcome::told(json!(report), text))
}

/// Says which files still wait for an answer of the user, and how to give it; empty where none does.
fn what_waits(report: &TrustReport) -> String {
    let waiting = report.pending_approvals.iter().map(|PendingTrust { path, kind, widens, .. }| {
        let (path, widens) = (exact_line(path), widens.join("; "));
        match kind {
            PendingKind::File => format!(
                "; {path} waits for approval: {widens} (roo.trustWorkspace with this path says how to approve it)"
            ),
            PendingKind::Delegation => {
                format!("; a question about {path}: {widens}? (roo.trustWorkspace with this path says how to answer)")
            }
        }
    });
    waiting.collect()
}

/// Fields of `roo.trustWorkspace`: nothing for the workspace as a whole, else a file.
#[derive(Debug, Deserialize)]
struct TrustFields {
    path: Option<String>,
    digest: Option<Digest>,
    /// The answer no, for delegation among the modes of a file.
    #[serde(default)]
    refuse: bool,
}

pub(super) async fn trust_workspace(call: CommandCall<'_>) -> Result<CommandOutcome> {
    let CommandCall { session, services, .. } = call;
    let fields: TrustFields = call.read("path")?;
    let (grant, text) = match fields.path {
        None => (Grant::Workspace, "this workspace is trusted".to_owned()),
        Some(path) => {
            // What nobody has seen is not approved: the digest says which text was.
            if fields.digest.is_none() {
                return Ok(show_pending(services, &path));
            }
            match fields.digest.filter(|_| fields.refuse) {
                Some(digest) => (
                    Grant::RefusedDelegation { digest },
                    format!("the modes of {path} may not delegate to each other"),
                ),
                None => {
                    let text = format!("{path} is approved in its current version");
                    (Grant::File { path, digest: fields.digest }, text)
                }
            }
        }
    };
    let report = customization::grant(session, services, grant).await?;
    let text = text + &what_waits(&report);
    Ok(CommandOutcome::told(json!(report), text))
}

/// Describes the pending approval of a file, and how to give it.
fn show_pending(services: &WorkspaceServices, path: &str) -> CommandOutcome {
    let report = services.customization.trust();
    let of_path = report.pending_approvals.iter().filter(|pending| pending.path == path);
    let text = |PendingTrust { digest, kind, widens, .. }: &PendingTrust| {
        let widens = widens.join("; ");
        match kind {
            PendingKind::File => format!(
                "{path} waits for approval: {widens}. To approve its current version, run roo.trustWorkspace with its path and the digest {digest}"
            ),
            PendingKind::Delegation => format!(
                "a question about {path}: {widens}? To allow it, run roo.trustWorkspace with its path and the digest {digest}, and with `refuse: true` for no"
            ),
        }
    };
    let texts: Vec<String> = of_path.map(text).collect();
    let text = match texts.is_empty() {
        true => format!("nothing in {path} waits for approval"),
        false => texts.join("; "),
    };
    CommandOutcome::told(json!(report), text)
}
