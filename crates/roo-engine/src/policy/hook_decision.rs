//! Answers of the user's own hooks to a call before it runs: their verdict, and what goes with it to the task.
//!
//! They are asked at each decision, also at the one that follows the user's answer: what a hook looks at may
//! have changed meanwhile. A call is always judged from what the model wrote, so a hook that rewrites it
//! sees the same call again, and an approval holds for the rewritten action alone.

use serde_json::{Map, Value};

use super::gate::{Gate, Reason, Refusal};
use super::rule::RefusalRule;
use crate::hooks::{CONTINUATIONS, EventName, HookContext, Outcome, Source, ToolUse, UserHooks, Verdict};
use roo_catalog::{Invocation, ServerTool, ToolCall};
use roo_workspace::{Purpose, Workspace};

/// The rule by which a hook allows or asks.
pub(super) const RULE: &str = RefusalRule::Hook.as_str();

/// The user hooks that count, and the context in which they are asked.
#[derive(Clone, Copy)]
pub struct UserHookContext<'a> {
    /// The hooks.
    pub hooks: &'a UserHooks,
    /// Who asks, and where.
    pub hook_context: HookContext<'a>,
    /// True if the call would end the task; then they are asked about that too.
    pub ends: bool,
    /// Number of times in a row that they have kept the task from ending.
    pub continuations: u32,
}

/// Messages of hooks beside their verdict. Every text in it is data, and can't pass for a mark of ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookMessages {
    /// The call's parameters as it runs; none where they stay.
    pub params: Option<Map<String, Value>>,
    /// Text that the model reads behind the call's result, set off.
    pub addition: Option<String>,
    /// For the user.
    pub warnings: Vec<String>,
    /// The task is to end, for this reason.
    pub stop: Option<String>,
    /// The task was kept from ending.
    pub goes_on: bool,
    /// Hooks wait for the results of all calls of the answer.
    pub batch: bool,
}

impl HookMessages {
    /// Returns whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds what the model reads, what the user is told, and whether the task ends.
    pub fn hear(&mut self, outcome: &Outcome) {
        self.add(outcome.for_model());
        self.warn(outcome);
        if self.stop.is_none() {
            self.stop = outcome.stop.as_deref().map(stopped);
        }
    }

    /// Adds what the user is told.
    pub fn warn(&mut self, outcome: &Outcome) {
        self.warnings.extend(outcome.warnings.iter().cloned());
    }

    /// Adds what the model reads.
    pub fn add(&mut self, text: Option<String>) {
        self.addition = match (self.addition.take(), text) {
            (Some(before), Some(text)) => Some(format!("{before}\n{text}")),
            (before, text) => before.or(text),
        };
    }
}

/// Returns the reason why a task ended that a hook ends.
pub fn stopped(reason: &str) -> String {
    match reason {
        "" => "A hook ended the task.".to_owned(),
        reason => format!("A hook ended the task: {reason}"),
    }
}

/// Returns the real path of a path of a call, for hooks.
pub fn real_path(workspace: &Workspace, path: &str) -> Option<std::path::PathBuf> {
    let purposes = [Purpose::Read, Purpose::Write, Purpose::Directory];
    let place = purposes.into_iter().find_map(|purpose| workspace.resolve(path, purpose).ok())?;
    Some(place.absolute().to_path_buf())
}

/// Decisions of hooks on a call that may run.
pub(super) enum HookDecision {
    /// Nothing.
    Nothing,
    /// The user need not be asked, where policy alone would ask.
    Allow,
    /// The user must be asked.
    Ask(Reason),
}

impl Gate {
    /// Asks the hooks before a call. Their rewrite is left in `messages`.
    pub(super) async fn before_call(
        &self,
        call: &ToolCall,
        here: UserHookContext<'_>,
        messages: &mut HookMessages,
    ) -> Result<HookDecision, Refusal> {
        if !here.hooks.has(EventName::PreToolUse) {
            return Ok(HookDecision::Nothing);
        }
        let invocation = roo_catalog::parse(call).ok();
        let real_path = |path: &str| real_path(self.workspace(), path);
        let server_tool = self.server_tool(&call.name);
        let server_tool = server_tool.as_deref().map(ServerTool::name);
        let tool = ToolUse { call, invocation: invocation.as_ref(), server_tool, real_path: &real_path };
        let judged = here.hooks.pre_tool(&tool, &here.hook_context).await;
        let outcome = &judged.outcome;
        messages.hear(outcome);
        if let Some(reason) = &messages.stop {
            return Err(Refusal::forbidden(RefusalRule::HookStop, reason));
        }
        let said = match outcome.verdict {
            Some(Verdict::Deny) => return Err(refusal(outcome)),
            Some(Verdict::Ask) => {
                let text = match outcome.reason() {
                    reason if reason.is_empty() => "a hook wants you to be asked".to_owned(),
                    reason => format!("a hook wants you to be asked: {reason}"),
                };
                HookDecision::Ask(Reason { rule: RULE, text })
            }
            Some(Verdict::Allow) if allows(outcome, judged.params.is_some()) => HookDecision::Allow,
            Some(Verdict::Allow) | None => HookDecision::Nothing,
        };
        messages.params = judged.params;
        Ok(said)
    }

    /// Asks the hooks in the user's place. Whether they allow the call.
    pub(super) async fn permission(
        &self,
        call: &ToolCall,
        here: UserHookContext<'_>,
        messages: &mut HookMessages,
    ) -> Result<bool, Refusal> {
        if !here.hooks.has(EventName::PermissionRequest) {
            return Ok(false);
        }
        let invocation = roo_catalog::parse(call).ok();
        let real_path = |path: &str| real_path(self.workspace(), path);
        let server_tool = self.server_tool(&call.name);
        let server_tool = server_tool.as_deref().map(ServerTool::name);
        let tool = ToolUse { call, invocation: invocation.as_ref(), server_tool, real_path: &real_path };
        let judged = here.hooks.permission_request(&tool, &here.hook_context).await;
        messages.hear(&judged.outcome);
        if let Some(reason) = &messages.stop {
            return Err(Refusal::forbidden(RefusalRule::HookStop, reason));
        }
        match judged.outcome.verdict {
            Some(Verdict::Deny) => Err(refusal(&judged.outcome)),
            // What it would allow is another call, which has not been judged.
            Some(Verdict::Allow) if judged.params.is_some() => {
                let text = "A hook allows a call in another form than it is asked about, so you are asked.";
                messages.warnings.push(text.to_owned());
                Ok(false)
            }
            Some(Verdict::Allow) => Ok(allows(&judged.outcome, false)),
            Some(Verdict::Ask) | None => Ok(false),
        }
    }

    /// Asks the hooks whether the task may end with this call.
    pub(super) async fn before_end(
        &self,
        call: &ToolCall,
        here: UserHookContext<'_>,
        messages: &mut HookMessages,
    ) -> Result<(), Refusal> {
        let is_branch = here.hook_context.agent.is_some();
        let event = if is_branch { EventName::SubagentStop } else { EventName::Stop };
        if !here.ends || !here.hooks.has(event) {
            return Ok(());
        }
        let Ok(Invocation::AttemptCompletion(completion)) = roo_catalog::parse(call) else { return Ok(()) };
        let is_going_on = here.continuations > 0;
        let outcome = if is_branch {
            here.hooks.subagent_stop(&completion.result, is_going_on, &here.hook_context).await
        } else {
            here.hooks.stop(&completion.result, is_going_on, &here.hook_context).await
        };
        messages.warn(&outcome);
        // To stop is just what the task does.
        if !outcome.is_refused() || outcome.stop.is_some() {
            return Ok(());
        }
        if here.continuations >= CONTINUATIONS {
            let text = format!("Hooks kept the task from ending {CONTINUATIONS} times; now it ends.");
            messages.warnings.push(text);
            return Ok(());
        }
        messages.goes_on = true;
        let text = match outcome.reason() {
            reason if reason.is_empty() => "A hook wants you to go on.".to_owned(),
            reason => format!("The task is not done yet, as a hook says: {reason}"),
        };
        Err(Refusal::forbidden(RefusalRule::HookContinue, text))
    }

    /// Tells the hooks of a refusal that no user gave. Whether the model may try again.
    pub(super) async fn after_refusal(
        &self,
        call: &ToolCall,
        (rule, reason): (RefusalRule, &str),
        here: UserHookContext<'_>,
        messages: &mut HookMessages,
    ) -> bool {
        let by_hook = matches!(rule, RefusalRule::Hook | RefusalRule::HookStop | RefusalRule::HookContinue);
        if by_hook || !here.hooks.has(EventName::PermissionDenied) {
            return false;
        }
        let invocation = roo_catalog::parse(call).ok();
        let real_path = |path: &str| real_path(self.workspace(), path);
        let server_tool = self.server_tool(&call.name);
        let server_tool = server_tool.as_deref().map(ServerTool::name);
        let tool = ToolUse { call, invocation: invocation.as_ref(), server_tool, real_path: &real_path };
        let outcome = here.hooks.permission_denied(&tool, reason, &here.hook_context).await;
        messages.hear(&outcome);
        outcome.retry
    }
}

/// Returns whether an outcome allows a call: files of a workspace only tighten. Whose a rewrite is can't be told from
/// the outcome, and what a user's hook allowed is the call that it saw; so a rewritten call is allowed only where no
/// hook of the workspace ran.
fn allows(outcome: &Outcome, is_rewritten: bool) -> bool {
    let by_user = outcome.allowed_by == Some(Source::User);
    by_user && (!is_rewritten || outcome.ran.iter().all(|ran| ran.source == Source::User))
}

fn refusal(outcome: &Outcome) -> Refusal {
    let text = match outcome.reason() {
        reason if reason.is_empty() => "A hook refused this call.".to_owned(),
        reason => format!("A hook refused this call: {reason}"),
    };
    Refusal::forbidden(RefusalRule::Hook, text)
}
