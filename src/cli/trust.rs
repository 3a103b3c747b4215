//! `roo-lsp trust`: whether what the workspace brings may steer agents.

use std::fmt::Write as _;
use std::io::Write as _;

use super::arguments::{Common, Trust};
use super::session::SessionContext;
use super::terminal;
use super::{CliError, Ending};
use roo_engine::customization::{Grant, TrustError};
use roo_protocol::customization::TrustReport;
use roo_text::render;

/// Shows, grants or takes back trust.
pub(super) fn trust(common: &Common, trust: Trust) -> Result<Ending, CliError> {
    let customization = SessionContext::find(common)?.customization()?;
    let failed = |error: TrustError| CliError::Other(error.to_string());
    let report = if trust.revoke {
        customization.revoke().map_err(failed)?
    } else if let Some(path) = trust.approve {
        let path = path.trim_start_matches("./").to_owned();
        // What is approved is shown, for its current version is approved already now.
        let waiting = customization.trust().pending_approvals.into_iter().find(|file| file.path == path);
        for line in waiting.iter().flat_map(|file| &file.widens) {
            writeln!(terminal::stdout(), "approved: {}", render::exact_line(line))?;
        }
        let digest = waiting.map(|file| file.digest);
        customization.grant(&Grant::File { path, digest }).map_err(failed)?
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
    for file in &report.pending_approvals {
        for line in &file.widens {
            let _ = writeln!(text, "waits for approval: {}", render::exact_line(line));
        }
        let _ = writeln!(text, "approve with: roo-lsp trust --approve {}", render::exact_line(&file.path));
    }
    text
}
