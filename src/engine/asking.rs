//! Asking user hooks for a task: who asks, and what comes of events that no gate judges.
//!
//! What hooks are and how their answers are put together is said in [`crate::user_hooks`], what they decide
//! on a call in [`crate::hooks`].

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::effects::{Setting, Surroundings};
use super::task::{Begins, Gather, Gathered, Task};
use crate::catalog::{self, Invocation, ToolCall};
use crate::hooks::{Heard, Judgement, UserHooksHere, real_path, stopped};
use crate::protocol::event::ToolStatus;
use crate::providers::ModelErrorKind;
use crate::tools::Outcome;
use crate::user_hooks::{Agent, EventName, PermissionMode, Scene, ToolResult, ToolUse, UserHooks};

/// A task that asks hooks.
pub(super) struct Asking {
    setting: Arc<Setting>,
    session: String,
    /// The branch and its mode.
    agent: Option<(String, String)>,
    transcript: PathBuf,
    permission_mode: PermissionMode,
    model: Option<String>,
    ends: bool,
    continuations: u32,
    cancel: CancellationToken,
}

impl Asking {
    pub(super) fn of(task: &Task, around: &Surroundings) -> Self {
        let Surroundings { setting, journal, cancel } = around;
        let writes = setting.settings.auto_approve.write;
        let profile = setting.settings.profiles.get(&task.profile);
        Self {
            setting: Arc::clone(setting),
            session: task.id.root().to_string(),
            agent: task.parent.as_ref().map(|_| (task.id.to_string(), task.mode.clone())),
            transcript: journal.log(),
            permission_mode: if writes { PermissionMode::AcceptEdits } else { PermissionMode::Default },
            model: profile.and_then(|profile| profile.model.clone()),
            ends: task.would_complete(),
            continuations: task.continuations,
            cancel: cancel.clone(),
        }
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            session: &self.session,
            agent: self.agent.as_ref().map(|(id, mode)| Agent { id, mode }),
            transcript: Some(&self.transcript),
            permission_mode: self.permission_mode,
            environment_file: None,
            cancel: &self.cancel,
        }
    }

    /// What the gate is told of the hooks.
    pub(super) fn here<'a>(&'a self, hooks: &'a UserHooks) -> UserHooksHere<'a> {
        UserHooksHere { hooks, scene: self.scene(), ends: self.ends, continuations: self.continuations }
    }

    /// After a tool has run: its text may become another one.
    pub(super) async fn after(&self, call: &ToolCall, outcome: &mut Outcome, took: Duration) -> Heard {
        let mut heard = Heard::default();
        let ok = match outcome.status {
            ToolStatus::Ok => true,
            ToolStatus::Failed => false,
            ToolStatus::Interrupted | ToolStatus::Denied | ToolStatus::Skipped => return heard,
        };
        let hooks = hooks_of(&self.setting).await;
        if !hooks.has(if ok { EventName::PostToolUse } else { EventName::PostToolUseFailure }) {
            return heard;
        }
        let invocation = catalog::parse(call).ok();
        let real_path = |path: &str| real_path(&self.setting.workspace, path);
        let tool = ToolUse { call, invocation: invocation.as_ref(), real_path: &real_path };
        let result = ToolResult { text: &outcome.text, ok, took: Some(took) };
        let reviewed = hooks.post_tool(&tool, result, &self.scene()).await;
        if let Some(text) = reviewed.result {
            outcome.text = text;
        }
        heard.add(reviewed.addition);
        heard.warn(&reviewed.outcome);
        heard.stop = reviewed.outcome.stop.as_deref().map(stopped);
        heard
    }

    /// Before the first request of a task, and before its user's messages reach the model. What a hook
    /// refuses is left in `gathered`, which has nothing else yet.
    pub(super) async fn before_turn(&self, gather: &Gather, gathered: &mut Gathered) -> Vec<String> {
        let mut parts = Vec::new();
        if gather.begins.is_none() && gather.prompts.is_empty() {
            return parts;
        }
        let hooks = hooks_of(&self.setting).await;
        let scene = self.scene();
        if let Some(begins) = gather.begins {
            let outcome = if self.agent.is_some() {
                hooks.subagent_start(&scene).await
            } else {
                let source = match begins {
                    Begins::Anew => "startup",
                    Begins::Again => "resume",
                };
                hooks.session_start(source, self.model.as_deref(), &scene).await
            };
            parts.extend(outcome.for_model());
            gathered.warnings.extend(outcome.warnings);
            gathered.stop = outcome.stop.as_deref().map(stopped);
        }
        for prompt in &gather.prompts {
            let outcome = hooks.prompt_submitted(&prompt.text, &scene).await;
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

    /// Tells hooks that the user is waited for.
    pub(super) async fn notify(&self, hooks: &UserHooks, call: Option<&ToolCall>, judgement: &Judgement) {
        let asks = |call| match catalog::parse(call) {
            Ok(Invocation::AskFollowupQuestion(ask)) => Some(ask.question),
            _ => None,
        };
        let (kind, title, message) = match judgement {
            Judgement::Ask { title, reason, .. } => {
                ("permission_prompt", "Permission is needed", format!("{title}: {reason}"))
            }
            Judgement::Allow { .. } => match call.and_then(asks) {
                Some(question) => ("agent_needs_input", "A question waits", question),
                None => return,
            },
            Judgement::Deny { .. } => return,
        };
        if hooks.has(EventName::Notification) {
            log(&hooks.notification(kind, title, &message, &self.scene()).await.warnings);
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
            | ModelErrorKind::TimedOut
            | ModelErrorKind::Cut
            | ModelErrorKind::Malformed => "unknown",
        };
        let hooks = hooks_of(&self.setting).await;
        if hooks.has(EventName::StopFailure) {
            log(&hooks.stop_failure(word, message, &self.scene()).await.warnings);
        }
    }

    /// Tells hooks that the request has ended.
    pub(super) async fn session_ended(&self) {
        let hooks = hooks_of(&self.setting).await;
        if hooks.has(EventName::SessionEnd) {
            log(&hooks.session_end("other", &self.scene()).await.warnings);
        }
    }
}

/// The hooks that count now. It may read files, and the thread that runs the tasks has other things to do.
pub(super) async fn hooks_of(setting: &Arc<Setting>) -> Arc<UserHooks> {
    let customization = Arc::clone(&setting.customization);
    // Only a runtime that is ending runs nothing more.
    tokio::task::spawn_blocking(move || customization.user_hooks()).await.unwrap_or_default()
}

/// Where nothing waits for the hooks, there is nothing that could show what they say.
fn log(warnings: &[String]) {
    warnings.iter().for_each(|warning| tracing::warn!("a hook says: {warning}"));
}
