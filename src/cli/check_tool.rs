//! `roo-lsp tool`: one tool call through gate and tool, printing what a model would get.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::arguments::{Common, Tool};
use super::session::Surroundings;
use super::{CliError, Ending, read_input};
use crate::approvals::StandingRules;
use crate::catalog::{self, Invocation, ToolCall, ToolSpec};
use crate::engine::clock::{Clock as _, SystemClock};
use crate::hooks::{Gate, Grounds, Judgement, Recorder, Subject};
use crate::modes;
use crate::orchestration::{Binding, Orchestration};
use crate::protocol::event::ToolStatus;
use crate::protocol::ids::{Digest, ToolCallId};
use crate::tools::{self, ToolContext};
use crate::workspace::{Purpose, Workspace};

/// Judges and runs one call.
pub(super) async fn tool(common: Common, tool: Tool) -> Result<Ending, CliError> {
    let surroundings = Surroundings::find(&common)?;
    let settings = surroundings.settings(None)?;
    let workspace = surroundings.workspace()?;
    let customization = surroundings.customization()?;
    let modes = customization.modes_by(&settings);
    let mode = modes.find(&tool.mode).map_err(|error| CliError::Usage(error.to_string()))?;
    let orchestration = Arc::new(Orchestration::new(Arc::clone(&workspace), surroundings.state().path()));
    let recorder = Arc::new(Recorder::new(
        surroundings.state().path().to_owned(),
        Some(surroundings.folder.clone()),
        Arc::clone(&orchestration),
    ));
    let gate = Gate::new(Grounds {
        workspace: Arc::clone(&workspace),
        settings: Arc::new(settings.clone()),
        customization,
        orchestration: Arc::clone(&orchestration),
        rules: Arc::new(StandingRules::new(surroundings.state().path())),
        bounds: Arc::new(surroundings.bounds()),
        recorder: Arc::clone(&recorder),
    });
    let intent = bound(&orchestration, tool.intent.as_deref())?;
    let params = match tool.params.as_str() {
        "-" => read_input()?,
        text => text.to_owned(),
    };
    let params = serde_json::from_str(&params)
        .map_err(|error| CliError::Usage(format!("--params is not a JSON object: {error}")))?;
    let name = tool.name.as_str().to_owned();
    let call = ToolCall { id: ToolCallId::new("call_1"), name, params, problem: None };
    for unknown in unknown_parameters(tool.name.spec(), &call) {
        writeln!(io::stderr(), "roo-lsp: {} has no parameter '{unknown}'; it is ignored", tool.name)?;
    }
    let clock = SystemClock;
    let urid = modes::urid(clock.zoned().datetime(), clock.random());
    let seen = seen(&workspace, &call).await;
    let subject = |approved| Subject {
        mode,
        modes: &modes,
        profile: None,
        is_branch: false,
        delegations: 0,
        urid: &urid,
        seen: &seen,
        approved,
        intent: intent.as_ref(),
        within: &[],
        // Hooks are tried out with `hooks run`.
        hooks: None,
    };

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
        orchestration,
        recent: Arc::new(move |intent| recorder.recent(intent)),
        overflow_stem: call.id.to_string(),
        task_directory: modes::task_directory(&urid),
        command_timeout: settings.limits.command_timeout_sec.map(Duration::from_secs),
    };
    let outcome = tools::run(permit, &context).await;
    writeln!(io::stdout(), "{}", outcome.text)?;
    writeln!(io::stderr(), "{:?}: {}", outcome.status, outcome.summary)?;
    Ok(if outcome.status == ToolStatus::Ok { Ending::Done } else { Ending::Failed })
}

/// The intent that the call is made under.
fn bound(orchestration: &Orchestration, id: Option<&str>) -> Result<Option<Binding>, CliError> {
    let Some(id) = id else { return Ok(None) };
    let file = orchestration.selectable(id).map_err(|refusal| CliError::Usage(refusal.to_string()))?;
    Ok(file.get(id).map(|intent| Binding { id: intent.id.clone(), digest: intent.digest() }))
}

fn unknown_parameters<'a>(spec: &'a ToolSpec, call: &'a ToolCall) -> impl Iterator<Item = &'a str> {
    let known = |name: &str| {
        spec.parameters.iter().any(|parameter| parameter.name == name)
            || spec.legacy_parameters.contains(&name)
    };
    call.params.keys().map(String::as_str).filter(move |name| !known(name))
}

/// The file that a call would replace, as it is: the call is the user's own, so the question is what the
/// policy says, not what a task has read.
async fn seen(workspace: &Workspace, call: &ToolCall) -> BTreeMap<String, Digest> {
    let Ok(Invocation::WriteToFile(write)) = catalog::parse(call) else { return BTreeMap::new() };
    // What can't be resolved or read, the gate refuses in its own words.
    let Ok(path) = workspace.resolve(&write.path, Purpose::Write) else { return BTreeMap::new() };
    let file = workspace.read_for_edit(&path).await;
    file.map(|file| (path.display(), file.digest)).into_iter().collect()
}
