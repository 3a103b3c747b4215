//! `roo-lsp trust`: whether what the workspace brings may steer agents.

use std::fmt::Write as _;
use std::io::Write as _;

use super::arguments::{Common, DelegationAnswer, Trust};
use super::session::SessionContext;
use super::terminal;
use super::{CliError, Ending};
use roo_engine::customization::{Grant, TrustError};
use roo_protocol::customization::{PendingKind, TeamDelegation, TrustReport};
use roo_text::render;

/// Shows, grants or takes back trust.
pub(super) fn trust(common: &Common, trust: Trust) -> Result<Ending, CliError> {
    let customization = SessionContext::find(common)?.customization()?;
    let failed = |error: TrustError| CliError::Other(error.to_string());
    let report = if trust.revoke {
        customization.revoke().map_err(failed)?
    } else if let Some(path) = trust.approve {
        let path = path.trim_start_matches("./").to_owned();
        let mut pending = customization.trust().pending_approvals.into_iter();
        let waiting = pending.find(|file| file.path == path && file.kind == PendingKind::File);
        // Only what was looked at is approved: what comes in between waits on.
        let waiting = waiting.ok_or_else(|| failed(customization.why_nothing_waits(&path)))?;
        let grant = Grant::File { path, digest: Some(waiting.digest) };
        let report = customization.grant(&grant).map_err(failed)?;
        for line in waiting.widens.iter().filter(|_| !trust.json) {
            writeln!(terminal::stdout(), "approved: {}", render::exact_line(line))?;
        }
        report
    } else if let Some(answer) = trust.delegation {
        let allowed = answer == DelegationAnswer::Allow;
        customization.grant(&Grant::Delegation { allowed }).map_err(failed)?
    } else if trust.show || trust.json {
        customization.trust()
    } else {
        customization.grant(&Grant::Workspace).map_err(failed)?
    };
    let text = if trust.json {
        serde_json::to_string(&report).map_err(|error| CliError::Other(error.to_string()))? + "\n"
    } else {
        in_words(&report)
    };
    terminal::stdout().write_all(text.as_bytes())?;
    if let Some(why) = customization.why_untrusted() {
        writeln!(terminal::stderr(), "roo-lsp: {why}")?;
    }
    Ok(Ending::Done)
}

fn in_words(report: &TrustReport) -> String {
    let mut text = match (report.trusted, report.brings.is_empty()) {
        (true, true) => "trusted; the workspace has no files that steer agents yet\n",
        (true, false) => "trusted; these steer agents:\n",
        (false, true) => "not trusted; the workspace has no files that need it\n",
        (false, false) => "not trusted; these have no effect:\n",
    }
    .to_owned();
    // Writing to a string can't fail.
    for path in &report.brings {
        let _ = writeln!(text, "  {}", render::exact_line(path));
    }
    if let Some(team) = &report.delegation {
        text.push_str(&delegation(team));
    }
    for file in report.pending_approvals.iter().filter(|file| file.kind == PendingKind::File) {
        for line in &file.widens {
            let _ = writeln!(text, "waits for approval: {}", render::exact_line(line));
        }
        let _ = writeln!(text, "approve with: roo-lsp trust --approve {}", render::exact_line(&file.path));
    }
    text
}

/// Says whether the modes of a file may delegate to each other, and how to answer where nobody has.
fn delegation(team: &TeamDelegation) -> String {
    let (path, modes) = (render::exact_line(&team.path), render::exact_line(&team.modes.join(", ")));
    match team.allowed {
        None => format!(
            "question: may the modes of {path} delegate to each other, as in Roo Code? None has canDelegateTo: {modes}\n\
             answer with: roo-lsp trust --delegation allow, or refuse\n"
        ),
        Some(true) => format!("may delegate to each other, as you allowed: {modes}\n"),
        Some(false) => format!("may not delegate to each other, as you answered: {modes}\n"),
    }
}
