//! `roo-lsp tool`: one tool call through gate and tool, printing what a model would get.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::arguments::{Common, Tool};
use super::session::SessionContext;
use super::terminal;
use super::{CliError, Ending, read_input};
use roo_catalog::{ToolCall, ToolSpec};
use roo_documents::Extractor;
use roo_engine::policy::{PolicyDecision, decode_command};
use roo_engine::server_tools::NoTask;
use roo_engine::tool_run::{
    BackgroundCommands, CommandLimits, ForegroundControl, NoChanges, ToolContext, UserShell,
};
use roo_formats::modes;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::{CommandId, ToolCallId};
use roo_protocol::rule::SandboxAccess;
use roo_sandbox::exec::EnvironmentRules;

/// Judges and runs one call.
pub(super) async fn tool(common: Common, tool: Tool) -> Result<Ending, CliError> {
    let session = SessionContext::find(&common)?;
    let judge = session.judge(session.settings(None)?, session.bounds())?;
    let mode = judge.mode(&tool.mode).map_err(|error| CliError::Usage(error.to_string()))?;
    let intent = judge.bound(tool.intent.as_deref());
    let intent = intent.map_err(|refusal| CliError::Usage(refusal.to_string()))?;
    let params = match tool.params.as_str() {
        "-" => read_input()?,
        text => text.to_owned(),
    };
    let params = serde_json::from_str(&params)
        .map_err(|error| CliError::Usage(format!("--params is not a JSON object: {error}")))?;
    let name = tool.name.as_str().to_owned();
    let mut call = ToolCall { id: ToolCallId::new("call_1"), name, params, problem: None, note: None };
    decode_command(&mut call);
    for unknown in unknown_parameters(tool.name.spec(), &call) {
        writeln!(terminal::stderr(), "roo-lsp: {} has no parameter '{unknown}'; it is ignored", tool.name)?;
    }
    let mut decision = judge.judge(&call, mode, intent.as_ref(), None).await;
    if let (PolicyDecision::Ask { digest, .. }, true) = (&decision.decision, tool.allow) {
        decision = judge.judge(&call, mode, intent.as_ref(), Some(*digest)).await;
    }
    let mut verdict = terminal::stderr();
    match decision.decision {
        PolicyDecision::Allow { rule, reason, .. } => writeln!(verdict, "allow ({rule}): {reason}")?,
        PolicyDecision::Ask { rule, reason, title, subject, .. } => {
            writeln!(verdict, "ask ({rule}): {reason}")?;
            writeln!(terminal::stdout(), "{title}\n{subject}")?;
            return Ok(Ending::Waiting);
        }
        PolicyDecision::Deny { rule, reason, .. } => {
            writeln!(verdict, "deny ({rule})")?;
            writeln!(terminal::stdout(), "{reason}")?;
            return Ok(Ending::Failed);
        }
    }
    drop(verdict);
    let Some(permit) = decision.permit else {
        writeln!(terminal::stderr(), "The tool only controls a conversation; there is nothing to run.")?;
        return Ok(Ending::Done);
    };
    let context = ToolContext {
        variables: BTreeMap::new(),
        environment: EnvironmentRules::new(judge.settings.sandbox.env.clone()),
        redact_secrets: judge.settings.redact_secrets,
        workspace: judge.workspace,
        output: Arc::new(|_: &str| {}),
        cancel: CancellationToken::new(),
        orchestration: judge.orchestration,
        recent: Arc::new(move |intent| judge.recorder.recent(intent)),
        overflow_stem: call.id.to_string(),
        task_directory: modes::task_directory(&judge.urid),
        review: false,
        declined: SandboxAccess::default(),
        command_limits: CommandLimits {
            timeout: judge.settings.limits.command_timeout_sec.map(Duration::from_secs),
            // There is nobody to look after it later.
            foreground: None,
        },
        command_id: CommandId::of_call(&call.id),
        background: Arc::new(BackgroundCommands::none()),
        browser: Arc::default(),
        foreground: ForegroundControl::default(),
        commands: Arc::new(UserShell),
        shadow: None,
        changes: Arc::new(NoChanges),
        extractor: Extractor::own(),
        caller: Arc::new(NoTask),
    };
    let outcome = permit.run(&context).await;
    writeln!(terminal::stdout(), "{}", call.with_note(outcome.text))?;
    writeln!(terminal::stderr(), "{:?}: {}", outcome.status, outcome.summary)?;
    Ok(if outcome.status == ToolStatus::Ok { Ending::Done } else { Ending::Failed })
}

fn unknown_parameters<'a>(spec: &'a ToolSpec, call: &'a ToolCall) -> impl Iterator<Item = &'a str> {
    let known = |name: &str| {
        spec.parameters.iter().any(|parameter| parameter.name == name)
            || spec.legacy_parameters.contains(&name)
    };
    call.params.keys().map(String::as_str).filter(move |name| !known(name))
}
