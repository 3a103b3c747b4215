//! Check that the task has bound a valid intent, where the workspace has intents.

use super::context::{PolicyContext, ToolCallContext};
use super::decision::Refusal;
use super::grant::Grant;
use super::place_check::{Access, CheckContext, CheckFinding, PlaceCheck};
use super::protected;
use super::rule::RefusalRule;
use crate::intent_store::{Binding, IntentRefusal, Intents};
use roo_catalog::ToolId;
use roo_formats::config::RequireIntent;
use roo_formats::intents::{Intent, IntentFile};
use roo_workspace::Protection;

pub(super) struct IntentBoundCheck;

impl PlaceCheck for IntentBoundCheck {
    fn check(&self, context: &CheckContext<'_>) -> CheckFinding {
        // Where looking needs an intent too, every tool does, and this one has been let through.
        if context.access == Access::Look {
            return CheckFinding::Pass;
        }
        if protected::protection_of(context) == Protection::OwnTaskDirectory {
            return CheckFinding::Pass;
        }
        match grant(context.policy_context, context.call_context) {
            Ok(_) => CheckFinding::Pass,
            Err(refusal) => CheckFinding::Deny(refuse(&refusal, context.call_context.intent)),
        }
    }
}

/// Refuses a call that must wait for an intent because the settings want one for every tool.
pub(super) fn check_every_tool(
    policy_context: &PolicyContext,
    call_context: ToolCallContext<'_>,
    tool: &ToolId,
) -> Result<(), Refusal> {
    let precedes = tool.built_in().is_some_and(|tool| tool.spec().precedes_intent);
    if policy_context.settings.intents.require != RequireIntent::All || precedes {
        return Ok(());
    }
    require(policy_context, call_context)
}

/// Refuses a call of which nobody knows what it changes, where there are intents and the task has bound none.
fn require(policy_context: &PolicyContext, call_context: ToolCallContext<'_>) -> Result<(), Refusal> {
    grant(policy_context, call_context).map(drop).map_err(|refusal| refuse(&refusal, call_context.intent))
}

/// The same for a call of a server's tool, or for its resources where no tool is named: the intent and those above it may
/// name servers and tools.
pub(crate) fn require_for_server(
    policy_context: &PolicyContext,
    call_context: ToolCallContext<'_>,
    server: &str,
    tool: Option<&str>,
) -> Result<(), Refusal> {
    let granted = grant(policy_context, call_context);
    let granted = granted.map_err(|refusal| refuse(&refusal, call_context.intent))?;
    let intents = granted.iter().flat_map(|grant| &grant.intents);
    let Some(intent) = intents.into_iter().find(|intent| !intent.permits_server(server, tool)) else {
        return Ok(());
    };
    let what = match tool {
        Some(tool) => format!("the tool {server}/{tool}"),
        None => format!("resources of the MCP server '{server}'"),
    };
    let mcp = intent.mcp.as_deref().unwrap_or_default();
    let has = if mcp.is_empty() { "none".to_owned() } else { mcp.join(", ") };
    let text = format!("The intent {} does not allow {what}. Of MCP servers it allows: {has}.", intent.id);
    Err(Refusal::mistake(RefusalRule::Intent, text))
}

/// Returns the paths that a task may change; none where there are no intents and never were any for the task.
pub(super) fn grant(
    policy_context: &PolicyContext,
    call_context: ToolCallContext<'_>,
) -> Result<Option<Grant>, IntentRefusal> {
    match policy_context.orchestration.intents() {
        Intents::Absent => {
            let bound = call_context.intent.or(call_context.within.first());
            return bound.map_or(Ok(None), |bound| Err(IntentRefusal::Gone(bound.id.clone())));
        }
        Intents::Broken(problem) => return Err(IntentRefusal::broken(&problem)),
        Intents::Present { .. } => {}
    }
    let Some(binding) = call_context.intent else {
        return Err(IntentRefusal::NoActive(" Call select_active_intent first.".to_owned()));
    };
    let mut intents = Vec::new();
    for binding in std::iter::once(binding).chain(call_context.within) {
        let (file, intent) =
            current(policy_context, binding, binding == call_context.intent.unwrap_or(binding))?;
        intents.extend(file.ancestors(&intent).unwrap_or_default().into_iter().cloned());
        intents.insert(0, intent);
    }
    // The task's own stands first.
    if let Some(own) = intents.iter().position(|intent| intent.id == binding.id) {
        intents.swap(0, own);
    }
    for intent in &intents {
        if !policy_context.orchestration.loosened(intent).is_empty() {
            return Err(IntentRefusal::Wider(intent.id.clone()));
        }
    }
    Ok(Some(Grant { intents }))
}

/// A bound intent as it is now. What a delegating task had bound may be narrowed meanwhile, and then counts
/// as it is.
fn current(
    policy_context: &PolicyContext,
    binding: &Binding,
    own: bool,
) -> Result<(std::sync::Arc<IntentFile>, Intent), IntentRefusal> {
    if own {
        return policy_context.orchestration.bound(binding);
    }
    let file = policy_context.orchestration.selectable(&binding.id)?;
    let intent = file.get(&binding.id).cloned();
    intent.map(|intent| (file, intent)).ok_or_else(|| IntentRefusal::Stale(binding.id.clone()))
}

/// A refusal with its machine fields.
pub(crate) fn refuse(refusal: &IntentRefusal, intent: Option<&Binding>) -> Refusal {
    let detail = serde_json::json!({
        "code": refusal.code(),
        "intentId": intent.map(|intent| &intent.id),
    });
    Refusal::mistake(RefusalRule::Intent, refusal).detailed(detail)
}
