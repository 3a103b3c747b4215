//! `roo-lsp tool`: one tool call through gate and tool, printing what a model would get.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::arguments::{Common, Tool};
use super::session::Surroundings;
use super::{CliError, Ending, read_input};
use crate::catalog::ToolCall;
use crate::engine::clock::{Clock as _, SystemClock};
use crate::hooks::{Gate, Judgement, Subject};
use crate::modes;
use crate::protocol::event::ToolStatus;
use crate::protocol::ids::ToolCallId;
use crate::tools::{self, ToolContext};

/// Judges and runs one call.
pub(super) async fn tool(common: Common, tool: Tool) -> Result<Ending, CliError> {
    let surroundings = Surroundings::find(&common)?;
    let settings = surroundings.settings(None)?;
    let workspace = surroundings.workspace()?;
    let gate = Gate::new(Arc::clone(&workspace), settings.auto_approve.clone());
    let params = match tool.params.as_str() {
        "-" => read_input()?,
        text => text.to_owned(),
    };
    let params = serde_json::from_str(&params)
        .map_err(|error| CliError::Other(format!("--params is not a JSON object: {error}")))?;
    let call = ToolCall { id: ToolCallId::new("call_1"), name: tool.name, params, problem: None };
    let clock = SystemClock;
    let urid = modes::urid(clock.zoned().datetime(), clock.random());
    let seen = BTreeMap::new();
    let subject = |approved| Subject { mode: &tool.mode, urid: &urid, seen: &seen, approved };

    let mut decision = gate.judge(&call, subject(None)).await;
    if let (Judgement::Ask { digest, .. }, true) = (&decision.judgement, tool.allow) {
        decision = gate.judge(&call, subject(Some(*digest))).await;
    }
    let mut verdict = io::stderr().lock();
    match decision.judgement {
        Judgement::Allow { rule, reason, .. } => writeln!(verdict, "allow ({rule}): {reason}")?,
        Judgement::Ask { rule, reason, title, subject, .. } => {
            writeln!(verdict, "ask ({rule}): {reason}")?;
            writeln!(io::stdout(), "{title}\n{subject}")?;
            return Ok(Ending::Waiting);
        }
        Judgement::Deny { rule, reason, .. } => {
            writeln!(verdict, "deny ({rule})")?;
            writeln!(io::stdout(), "{reason}")?;
            return Ok(Ending::Failed);
        }
    }
    drop(verdict);
    let Some(permit) = decision.permit else {
        writeln!(io::stderr(), "The tool only steers a conversation; there is nothing to run.")?;
        return Ok(Ending::Done);
    };
    let context = ToolContext {
        workspace,
        output: Arc::new(|_: &str| {}),
        cancel: CancellationToken::new(),
        overflow_stem: call.id.to_string(),
        task_directory: modes::task_directory(&urid),
        command_timeout: settings.limits.command_timeout_sec.map(Duration::from_secs),
    };
    let outcome = tools::run(permit, &context).await;
    writeln!(io::stdout(), "{}", outcome.text)?;
    writeln!(io::stderr(), "{:?}: {}", outcome.status, outcome.summary)?;
    Ok(if outcome.status == ToolStatus::Ok { Ending::Done } else { Ending::Failed })
}
