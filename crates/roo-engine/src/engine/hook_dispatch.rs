//! Asking user hooks for a task: who asks, and what comes of events that no gate judges.
//!
//! What hooks are and how their answers are put together is said in [`crate::hooks`], what they decide
//! on a call in [`crate::policy`].

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

use super::audit;
use super::effect_context::EffectContext;
use super::services::EngineServices;
use super::task::{Begins, Gather, Gathered, Task};
use crate::hooks::{
    Agent, EnvironmentFile, EventName, HookContext, HookSandbox, Outcome as HookOutcome, PermissionMode,
    ToolResult, ToolUse, UserHooks,
};
use crate::policy::{HookMessages, PolicyDecision, UserHookContext, real_path, stopped};
use crate::tool_run::Outcome;
use roo_catalog::{Invocation, ServerTool, ToolCall};
use roo_model::providers::ModelErrorKind;
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::Urid;

/// Reasons why a conversation is shortened, in the contract's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CompactTrigger {
    /// It has become too long.
    Automatic,
    /// The user wants it.
    Manual,
}

impl CompactTrigger {
    fn as_str(self) -> &'static str {
        match self {
            Self::Automatic => "auto",
            Self::Manual => "manual",
        }
    }
}

/// A task that asks hooks.
pub(super) struct HookDispatch {
    services: Arc<EngineServices>,
    session: String,
    urid: Urid,
    /// Sandbox for hooks; probed when the first one may run.
    sandbox: OnceCell<HookSandbox>,
    /// The branch and its mode.
    agent: Option<(String, String)>,
    transcript: PathBuf,
    environment: PathBuf,
    /// In which the task works.
    folders: Vec<PathBuf>,
    permission_mode: PermissionMode,
    model: Option<String>,
    ends: bool,
    continuations: u32,
    /// Calls that have their results, and on which hooks are to be asked together.
    batch: Vec<(ToolCall, String)>,
    cancel: CancellationToken,
}

impl HookDispatch {
    pub(super) fn new(task: &Task, around: &EffectContext) -> Self {
        let EffectContext { services, journal, cancel, .. } = around;
        let writes = services.settings.auto_approve.write;
        let profile = services.settings.profiles.get(&task.settings.profile);
        Self {
            services: Arc::clone(services),
            session: task.id.root().to_string(),
            urid: task.urid.clone(),
            sandbox: OnceCell::new(),
            agent: task.parent.as_ref().map(|_| (task.id.to_string(), task.settings.mode.clone())),
            transcript: journal.log(),
            environment: journal.environment(),
            folders: services.workspace.roots().paths().map(Path::to_path_buf).collect(),
            permission_mode: if writes { PermissionMode::AcceptEdits } else { PermissionMode::Default },
            model: profile.and_then(|profile| profile.model.clone()),
            ends: task.would_complete(),
            continuations: task.guard.continuations(),
            batch: if task.gather.batch { task.conversation.newest_batch() } else { vec![] },
            cancel: cancel.clone(),
        }
    }

    async fn hook_context(&self, hooks: &UserHooks) -> HookContext<'_> {
        let look_up = || self.services.gate.hook_sandbox(hooks, &self.urid);
        HookContext {
            session: &self.session,
            agent: self.agent.as_ref().map(|(id, mode)| Agent { id, mode }),
            transcript: Some(&self.transcript),
            permission_mode: self.permission_mode,
            environment_file: Some(&self.environment),
            sandbox: self.sandbox.get_or_init(look_up).await,
            folders: &self.folders,
            unwaited: &self.services.unwaited_hooks.others,
            cancel: &self.cancel,
        }
    }

    /// Context in which the gate runs hooks.
    pub(super) async fn gate_context<'a>(&'a self, hooks: &'a UserHooks) -> UserHookContext<'a> {
        let hook_context = self.hook_context(hooks).await;
        UserHookContext { hooks, hook_context, ends: self.ends, continuations: self.continuations }
    }

    /// Returns whether hooks hear of tools that have run.
    pub(super) async fn hears_of_results(&self) -> bool {
        hooks_of(&self.services).await.has(EventName::PostToolUse)
    }

    /// After a tool has run: its text may become another one.
    pub(super) async fn after(&self, call: &ToolCall, outcome: &mut Outcome, took: Duration) -> HookMessages {
        let mut messages = HookMessages::default();
        let ok = match outcome.status {
            ToolStatus::Ok => true,
            ToolStatus::Failed => false,
            ToolStatus::Interrupted | ToolStatus::Denied | ToolStatus::Skipped => return messages,
        };
        let hooks = hooks_of(&self.services).await;
        if !hooks.has(if ok { EventName::PostToolUse } else { EventName::PostToolUseFailure }) {
            return messages;
        }
        // A hook may read the trace, and look there for the edit that it is told of.
        audit::settle(&self.services).await;
        let invocation = roo_catalog::parse(call).ok();
        let real_path = |path: &str| real_path(&self.services.workspace, path);
        let server_tool = self.services.gate.server_tool(&call.name).await;
        let server_tool = server_tool.as_deref().map(ServerTool::name);
        let tool = ToolUse { call, invocation: invocation.as_ref(), server_tool, real_path: &real_path };
        let result = ToolResult { text: &outcome.text, ok, took: Some(took) };
        let reviewed = hooks.post_tool(&tool, result, &self.hook_context(&hooks).await).await;
        if let Some(text) = reviewed.result {
            outcome.text = text;
        }
        messages.add(reviewed.addition);
        messages.warn(&reviewed.outcome);
        messages.stop = reviewed.outcome.stop.as_deref().map(stopped);
        messages
    }

    /// Before the first request of a task, before the results of an answer's calls reach the model, and before
    /// its user's messages do. What a hook refuses is left in `gathered`, which has nothing else yet.
    pub(super) async fn before_turn(&self, gather: &Gather, gathered: &mut Gathered) -> Vec<String> {
        let mut parts = Vec::new();
        if gather.begins.is_none() && gather.prompts.is_empty() && self.batch.is_empty() {
            return parts;
        }
        let hooks = hooks_of(&self.services).await;
        let hook_context = self.hook_context(&hooks).await;
        if !self.batch.is_empty() {
            let outcome = self.after_all(&hooks).await;
            parts.extend(outcome.for_model());
            let ends = outcome.is_refused().then(|| outcome.reason());
            gathered.stop = outcome.stop.or(ends).as_deref().map(stopped);
            gathered.warnings.extend(outcome.warnings);
        }
        if let Some(begins) = gather.begins {
            let outcome = if self.agent.is_some() {
                hooks.subagent_start(&hook_context).await
            } else {
                let source = match begins {
                    Begins::Anew => "startup",
                    Begins::Again => "resume",
                };
                hooks.session_start(source, self.model.as_deref(), &hook_context).await
            };
            parts.extend(outcome.for_model());
            gathered.warnings.extend(outcome.warnings);
            gathered.stop = gathered.stop.take().or(outcome.stop.as_deref().map(stopped));
            if self.agent.is_none() {
                gathered.warnings.extend(self.environment().await.warnings);
            }
        }
        for prompt in &gather.prompts {
            let outcome = hooks.prompt_submitted(&prompt.text, &hook_context).await;
            gathered.warnings.extend(outcome.warnings.iter().cloned());
            if outcome.is_refused() {
                gathered.refused.push((prompt.id.clone(), outcome.reason()));
                continue;
            }
            parts.extend(outcome.for_model());
            gathered.stop = gathered.stop.take().or(outcome.stop.as_deref().map(stopped));
        }
        parts
    }

    /// Runs the hooks for all calls of an answer.
    async fn after_all(&self, hooks: &UserHooks) -> HookOutcome {
        let gate = &self.services.gate;
        let mut called = Vec::with_capacity(self.batch.len());
        for (call, _) in &self.batch {
            called.push((roo_catalog::parse(call).ok(), gate.server_tool(&call.name).await));
        }
        let real_path = |path: &str| real_path(&self.services.workspace, path);
        let calls = self.batch.iter().zip(&called).map(|((call, text), (invocation, server_tool))| {
            let server_tool = server_tool.as_deref().map(ServerTool::name);
            let invocation = invocation.as_ref();
            (ToolUse { call, invocation, server_tool, real_path: &real_path }, text.as_str())
        });
        hooks.post_batch(&calls.collect::<Vec<_>>(), &self.hook_context(hooks).await).await
    }

    /// The variables that hooks left for the request's commands.
    pub(super) async fn environment(&self) -> EnvironmentFile {
        let path = self.environment.clone();
        let folders: Vec<_> = self.services.workspace.roots().paths().map(Path::to_path_buf).collect();
        let read =
            roo_durable::spawn_blocking(move || EnvironmentFile::load(&path).finding_nothing_in(&folders));
        // Only a runtime that is ending runs nothing more.
        read.await.unwrap_or_default()
    }

    /// Tells hooks that the user is waited for.
    pub(super) async fn notify(&self, hooks: &UserHooks, call: Option<&ToolCall>, decision: &PolicyDecision) {
        let asks = |call| match roo_catalog::parse(call) {
            Ok(Invocation::AskFollowupQuestion(ask)) => Some(ask.question),
            _ => None,
        };
        let (kind, title, message) = match decision {
            PolicyDecision::Ask { title, reason, .. } => {
                ("permission_prompt", "Permission is needed", format!("{title}: {reason}"))
            }
            PolicyDecision::Allow { .. } => match call.and_then(asks) {
                Some(question) => ("agent_needs_input", "A question waits", question),
                None => return,
            },
            PolicyDecision::Deny { .. } => return,
        };
        if hooks.has(EventName::Notification) {
            log(&hooks.notification(kind, title, &message, &self.hook_context(hooks).await).await.warnings);
        }
    }

    /// Tells hooks that a server that is called waits for the user.
    pub(super) async fn notify_of_server(&self, hooks: &UserHooks, message: &str) {
        if hooks.has(EventName::Notification) {
            let title = "An MCP server asks";
            let context = self.hook_context(hooks).await;
            log(&hooks.notification("elicitation_dialog", title, message, &context).await.warnings);
        }
    }

    /// Before a conversation is shortened. Why it has to stay as it is; none where it may be shortened.
    pub(super) async fn before_shortening(&self, trigger: CompactTrigger) -> Option<String> {
        let hooks = hooks_of(&self.services).await;
        if !hooks.has(EventName::PreCompact) {
            return None;
        }
        let outcome = hooks.pre_compact(trigger.as_str(), "", &self.hook_context(&hooks).await).await;
        log(&outcome.warnings);
        outcome.is_refused().then(|| {
            format!("A hook blocked the shortening of the conversation. {}", outcome.reason())
                .trim_end()
                .to_owned()
        })
    }

    /// Tells hooks that a conversation is shortened to this from now on.
    pub(super) async fn shortened(&self, trigger: CompactTrigger, summary: &str) {
        let hooks = hooks_of(&self.services).await;
        if hooks.has(EventName::PostCompact) {
            log(&hooks
                .post_compact(trigger.as_str(), summary, &self.hook_context(&hooks).await)
                .await
                .warnings);
        }
    }

    /// Tells hooks that the model failed for good.
    pub(super) async fn model_failed(&self, kind: ModelErrorKind, message: &str) {
        let word = match kind {
            ModelErrorKind::Unauthorized => "authentication_failed",
            ModelErrorKind::Invalid | ModelErrorKind::ContextWindow => "invalid_request",
            ModelErrorKind::RateLimited(_) => "rate_limit",
            ModelErrorKind::Unavailable(_) => "server_error",
            ModelErrorKind::Configuration
            | ModelErrorKind::Unreachable
            | ModelErrorKind::NotRunning
            | ModelErrorKind::TimedOut
            | ModelErrorKind::Cut
            | ModelErrorKind::Malformed => "unknown",
        };
        let hooks = hooks_of(&self.services).await;
        if hooks.has(EventName::StopFailure) {
            log(&hooks.stop_failure(word, message, &self.hook_context(&hooks).await).await.warnings);
        }
    }

    /// Tells hooks that the request has ended.
    pub(super) async fn session_ended(&self) {
        let hooks = hooks_of(&self.services).await;
        if hooks.has(EventName::SessionEnd) {
            let unwaited = &self.services.unwaited_hooks.of_ends;
            let context = HookContext { unwaited, ..self.hook_context(&hooks).await };
            log(&hooks.session_end("other", &context).await.warnings);
        }
    }
}

/// The hooks that count now. It may read files, and the thread that runs the tasks has other things to do.
pub(super) async fn hooks_of(services: &Arc<EngineServices>) -> Arc<UserHooks> {
    let customization = Arc::clone(&services.customization);
    // Only a runtime that is ending runs nothing more.
    roo_durable::spawn_blocking(move || customization.user_hooks()).await.unwrap_or_default()
}

/// Logs warnings where no task could show them.
fn log(warnings: &[String]) {
    warnings.iter().for_each(|warning| tracing::warn!("a hook says: {warning}"));
}
