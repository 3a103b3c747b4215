//! The judgement of a call: what the gate has to know of the task, and who hears of its decision. How calls are judged
//! is in [`crate::policy`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use super::unless_ending;
use crate::engine::actor_message::Report;
use crate::engine::effect_context::EffectContext;
use crate::engine::hook_dispatch::HookDispatch;
use crate::engine::reporter::Reporter;
use crate::engine::services::EngineServices;
use crate::engine::task::{OfferMemory, OpenWorktree, Task};
use crate::engine::tree::Tree;
use crate::engine::{audit, worktrees};
use crate::hooks::UserHooks;
use crate::intent_store::Binding;
use crate::policy::{AuditRecord, GateOutcome, PolicyDecision, RefusalRule, Review, ToolCallContext};
use crate::tool_run::{BackgroundCommands, TaskBrowser};
use roo_catalog::ToolCall;
use roo_formats::config::ToolChoice;
use roo_formats::modes::Modes;
use roo_protocol::ids::{Digest, Urid};

/// Call to be decided on, and what the gate has to know of the task.
pub(super) struct GateRequest {
    audit_record: Option<AuditRecord>,
    call: Option<ToolCall>,
    mode: String,
    profile: Option<String>,
    tools: ToolChoice,
    is_branch: bool,
    opens_parallel_branches: bool,
    merge: Option<OpenWorktree>,
    /// Private directory for the snapshots of its work tree.
    store: PathBuf,
    delegations: u32,
    urid: Urid,
    seen: BTreeMap<String, Digest>,
    approved: Option<Digest>,
    review: Option<Arc<Review>>,
    intent: Option<Binding>,
    within: Vec<Binding>,
    offers: OfferMemory,
    background: Arc<BackgroundCommands>,
    browser: Arc<TaskBrowser>,
    hook_dispatch: HookDispatch,
}

impl GateRequest {
    pub(super) fn new(
        task: &Task,
        tree: &Tree,
        mode: String,
        (approved, review): (Option<Digest>, Option<Arc<Review>>),
        around: &EffectContext,
    ) -> Self {
        let settings = &task.settings;
        Self {
            audit_record: audit::begin_refusal(task, tree, &around.services),
            call: task.call_to_judge().map(Cow::into_owned),
            mode,
            profile: settings.pinned.then(|| settings.profile.clone()),
            tools: around.services.tools_of(&settings.profile),
            is_branch: task.parent.is_some(),
            opens_parallel_branches: task.opens_parallel_branches(),
            merge: task.open_worktree().filter(|_| task.merges()).cloned(),
            store: worktrees::store(&task.id, &around.services),
            delegations: task.guard.delegations(),
            urid: task.urid.clone(),
            seen: task.files.at_hand(),
            approved,
            review,
            intent: task.intents.bound.clone(),
            within: task.intents.within.clone(),
            offers: task.offers.clone(),
            background: Arc::clone(&around.background),
            browser: Arc::clone(&around.browser),
            hook_dispatch: HookDispatch::new(task, around),
        }
    }

    /// Judges, reports, and tells hooks when the user is waited for. No task waits for those.
    pub(super) async fn run(self, services: &Arc<EngineServices>, reporter: &Reporter) {
        let reading = Arc::clone(services);
        // It may read files, and the thread that runs the tasks has other things to do.
        let read = roo_durable::spawn_blocking(move || (reading.customization.user_hooks(), reading.modes()));
        let (hooks, modes) = match unless_ending(read).await {
            Ok((hooks, modes)) => (hooks, Some(modes)),
            Err(_) => Default::default(),
        };
        let outcome = self.judge(services, &hooks, modes).await;
        let decision = outcome.decision.clone();
        let _unwaited = services.unwaited_hooks.others.token();
        reporter.send(Report::Gated(outcome)).await;
        self.hook_dispatch.notify(&hooks, self.call.as_ref(), &decision).await;
    }

    async fn judge(
        &self,
        services: &Arc<EngineServices>,
        hooks: &UserHooks,
        modes: Option<Arc<Modes>>,
    ) -> GateOutcome {
        // A file has changed since the request began.
        if let Some(fault) = services.settings_fault() {
            return GateOutcome::deny(RefusalRule::Settings, fault);
        }
        if let Some(fault) = hooks.fault() {
            return GateOutcome::deny(RefusalRule::Hook, fault);
        }
        let Some(call) = &self.call else {
            // The gate is asked about the call that is worked on, so there is one.
            return GateOutcome::deny(RefusalRule::Call, "There is no tool call to decide on.");
        };
        let Some(modes) = modes else {
            return GateOutcome::deny(RefusalRule::Mode, "The modes can't be read.");
        };
        let mode = match modes.find(&self.mode) {
            Ok(mode) => mode,
            Err(unknown) => return GateOutcome::deny(RefusalRule::Mode, unknown),
        };
        let call_context = ToolCallContext {
            mode,
            modes: &modes,
            profile: self.profile.as_deref(),
            tools: &self.tools,
            is_branch: self.is_branch,
            opens_parallel_branches: self.opens_parallel_branches,
            merge: self.merge.as_ref().map(|merge| worktrees::source(merge, &self.store)),
            delegations: self.delegations,
            urid: &self.urid,
            seen: &self.seen,
            approved: self.approved,
            review: self.review.as_deref(),
            intent: self.intent.as_ref(),
            within: &self.within,
            hooks: if hooks.hooks().is_empty() {
                None
            } else {
                Some(self.hook_dispatch.gate_context(hooks).await)
            },
            offers: self.offers.for_gate(call),
            commands: Some(&self.background),
            browser: Some(&self.browser),
        };
        let outcome = services.gate.judge(call, call_context).await;
        if let (PolicyDecision::Deny { rule, mistake, .. }, Some(audit_record)) =
            (&outcome.decision, self.audit_record.clone())
        {
            audit::refused(audit_record, call, (*rule, *mistake), services).await;
        }
        outcome
    }
}
