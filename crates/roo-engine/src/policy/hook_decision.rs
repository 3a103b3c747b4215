//! Answers of the user's own hooks to a call before it runs: their verdict, and what goes with it to the task.
//!
//! They are asked at each decision, also at the one that follows the user's answer: what a hook looks at may
//! have changed meanwhile. A call is always judged from what the model wrote, so a hook that rewrites it
//! sees the same call again, and an approval holds for the rewritten action alone.

use serde_json::{Map, Value};

use super::context::{PolicyContext, UserHookContext};
use super::decision::{AskReason, Refusal};
use super::rule::{AskRule, RefusalRule};
use crate::hooks::{CONTINUATIONS, EventName, Outcome, Source, ToolUse, Verdict};
use roo_catalog::{Invocation, ServerTool, ToolCall};
use roo_workspace::{Purpose, Workspace};

/// Messages of hooks beside their verdict. Every text in it is data, and can't pass for a mark of ours.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HookMessages {
    /// The call's parameters as it runs; none where they stay.
    pub params: Option<Map<String, Value>>,
    /// Text that the model reads after the call's result, set off.
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
    pub(crate) fn add_outcome(&mut self, outcome: &Outcome) {
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
    Nothing,
    /// The user need not be asked, where policy alone would ask.
    Allow,
    /// The user must be asked.
    Ask(AskReason),
}

/// Hooks that are asked about the calls of one judgement.
pub(super) struct CallHooks<'a> {
    pub(super) policy_context: &'a PolicyContext,
    pub(super) context: UserHookContext<'a>,
}

impl CallHooks<'_> {
    /// Asks the hooks before a call. Their rewrite is left in `messages`.
    pub(super) async fn before_call(
        &self,
        call: &ToolCall,
        messages: &mut HookMessages,
    ) -> Result<HookDecision, Refusal> {
        if !self.context.hooks.has(EventName::PreToolUse) {
            return Ok(HookDecision::Nothing);
        }
        let invocation = roo_catalog::parse(call).ok();
        let real_path = |path: &str| real_path(&self.policy_context.workspace, path);
        let server_tool = self.policy_context.server_tools.tool(&call.name).await;
        let server_tool = server_tool.as_deref().map(ServerTool::name);
        let tool = ToolUse { call, invocation: invocation.as_ref(), server_tool, real_path: &real_path };
        let judged = self.context.hooks.pre_tool(&tool, &self.context.hook_context).await;
        let outcome = &judged.outcome;
        messages.add_outcome(outcome);
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
                HookDecision::Ask(AskReason { rule: AskRule::Hook, text })
            }
            Some(Verdict::Allow) if allows(outcome, judged.params.is_some()) => HookDecision::Allow,
            Some(Verdict::Allow) | None => HookDecision::Nothing,
        };
        messages.params = judged.params;
        Ok(said)
    }

    /// Asks the hooks before a call that they see as an edit besides. `said` is their decision on the call itself, which allows
    /// no edit.
    pub(super) async fn before_edit(
        &self,
        edit: &ToolCall,
        said: HookDecision,
        messages: &mut HookMessages,
    ) -> Result<HookDecision, Refusal> {
        let mut of_edit = HookMessages::default();
        let decision = self.before_call(edit, &mut of_edit).await;
        messages.add(of_edit.addition);
        messages.warnings.extend(of_edit.warnings);
        messages.stop = messages.stop.take().or(of_edit.stop);
        let decision = decision?;
        if of_edit.params.is_some() {
            let text =
                "A hook would rewrite a merge or the edit of a language server, which can't be rewritten.";
            return Err(Refusal::forbidden(RefusalRule::Hook, text));
        }
        Ok(match (said, decision) {
            (ask @ HookDecision::Ask(_), _) => ask,
            (_, decision) => decision,
        })
    }

    /// Asks the hooks in the user's place. Whether they allow the call.
    pub(super) async fn permission(
        &self,
        call: &ToolCall,
        messages: &mut HookMessages,
    ) -> Result<bool, Refusal> {
        if !self.context.hooks.has(EventName::PermissionRequest) {
            return Ok(false);
        }
        let invocation = roo_catalog::parse(call).ok();
        let real_path = |path: &str| real_path(&self.policy_context.workspace, path);
        let server_tool = self.policy_context.server_tools.tool(&call.name).await;
        let server_tool = server_tool.as_deref().map(ServerTool::name);
        let tool = ToolUse { call, invocation: invocation.as_ref(), server_tool, real_path: &real_path };
        let judged = self.context.hooks.permission_request(&tool, &self.context.hook_context).await;
        messages.add_outcome(&judged.outcome);
        if let Some(reason) = &messages.stop {
            return Err(Refusal::forbidden(RefusalRule::HookStop, reason));
        }
        match judged.outcome.verdict {
            Some(Verdict::Deny) => Err(refusal(&judged.outcome)),
            // What it would allow is another call, which has not been judged.
            Some(Verdict::Allow) if judged.params.is_some() => {
                let text = "A hook allowed this call only in a changed form, so you are asked.";
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
        messages: &mut HookMessages,
    ) -> Result<(), Refusal> {
        let is_branch = self.context.hook_context.agent.is_some();
        let event = if is_branch { EventName::SubagentStop } else { EventName::Stop };
        if !self.context.ends || !self.context.hooks.has(event) {
            return Ok(());
        }
        let Ok(Invocation::AttemptCompletion(completion)) = roo_catalog::parse(call) else { return Ok(()) };
        let is_going_on = self.context.continuations > 0;
        let outcome = if is_branch {
            self.context
                .hooks
                .subagent_stop(&completion.result, is_going_on, &self.context.hook_context)
                .await
        } else {
            self.context.hooks.stop(&completion.result, is_going_on, &self.context.hook_context).await
        };
        messages.warn(&outcome);
        // To stop is just what the task does.
        if !outcome.is_refused() || outcome.stop.is_some() {
            return Ok(());
        }
        if self.context.continuations >= CONTINUATIONS {
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
        messages: &mut HookMessages,
    ) -> bool {
        let by_hook = matches!(rule, RefusalRule::Hook | RefusalRule::HookStop | RefusalRule::HookContinue);
        if by_hook || !self.context.hooks.has(EventName::PermissionDenied) {
            return false;
        }
        let invocation = roo_catalog::parse(call).ok();
        let real_path = |path: &str| real_path(&self.policy_context.workspace, path);
        let server_tool = self.policy_context.server_tools.tool(&call.name).await;
        let server_tool = server_tool.as_deref().map(ServerTool::name);
        let tool = ToolUse { call, invocation: invocation.as_ref(), server_tool, real_path: &real_path };
        let outcome = self.context.hooks.permission_denied(&tool, reason, &self.context.hook_context).await;
        messages.add_outcome(&outcome);
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
