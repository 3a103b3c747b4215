//! The gate: one fixed order of checks, from which every tool call gets its verdict.
//!
//! known tool → mode → parameters → paths → `.rooignore` → protected names → content → command rules
//! → user hooks → approval policy. The first check that refuses decides; what asks is asked last, so that nobody
//! is asked about a call that can't run. A permit is made here and nowhere else: what makes one is private to
//! this module.

mod permit;

pub use self::permit::{Action, Permit, Permitted};

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::check;
use super::command::Repositories;
use super::context::{PolicyContext, ToolCallContext};
use super::decision::{AskReason, CallAssessment, CheckedCall, PolicyDecision, Refusal, TITLE};
use super::git::HookDirectories;
use super::hook_decision::{CallHooks, HookDecision, HookMessages};
use super::intent;
use super::mode_check;
use super::place_check::{Access, CheckContext};
use super::plan::Plan;
use super::preview::Preview;
use super::review::{Review, ReviewError, ReviewedEdit};
use super::rule::{AllowRule, AskRule, NamedAllowRule, RefusalRule};
use super::standing;
use crate::hooks::EventName;
use crate::intent_store::Orchestration;
use crate::server_tools::ServerTools;
use roo_catalog::{ServerTool, ToolCall, ToolId, ToolName, with_call};
use roo_formats::config::Settings;
use roo_formats::modes;
use roo_index::CodeIndex;
use roo_language_servers::LanguageServers;
use roo_model::providers::ModelSource;
use roo_protocol::ids::{Digest, Urid};
use roo_protocol::review::HunkAnswer;
use roo_protocol::rule::RuleSubject;
use roo_sandbox::exec::redaction::{self, TextMask};
use roo_sandbox::exec::{Environment, EnvironmentRules, known_secrets};
use roo_text::{diff, render};
use roo_workspace::{Purpose, ReadAccess, Resolved, Workspace};

/// The most lines of a diff that a refusal shows.
const CHANGES: usize = 80;

/// Decision on a call, and the key that goes with it.
#[derive(Debug)]
pub struct GateOutcome {
    /// The verdict.
    pub decision: PolicyDecision,
    /// The key to run an allowed call; none for one that only steers the conversation.
    pub permit: Option<Permit>,
    /// Messages of user hooks.
    pub hook_messages: HookMessages,
}

impl GateOutcome {
    /// A refusal that no call could have avoided.
    pub fn deny(rule: RefusalRule, reason: impl ToString) -> Self {
        let decision = PolicyDecision::Deny {
            rule,
            reason: reason.to_string(),
            mistake: false,
            saves: false,
            detail: None,
        };
        Self { decision, permit: None, hook_messages: HookMessages::default() }
    }
}

/// Judges the tool calls of one workspace.
pub struct Gate {
    policy_context: PolicyContext,
    /// The settings without what hooks add to them.
    settings: Arc<Settings>,
    /// Where git looks for hooks in the workspace.
    hooks: Arc<HookDirectories>,
    /// Git repositories that commands would find.
    repositories: Arc<Repositories>,
}

/// Policy for calls of a tool, implemented in the tool's file in [`crate::tools`] for its parameters.
pub(crate) trait Tool: Sized + Send {
    /// Assesses what the call would do, and what policy says of that. Changes nothing.
    fn judge(
        self,
        gate: &Gate,
        call_context: ToolCallContext<'_>,
    ) -> impl Future<Output = Result<CheckedCall, Refusal>> + Send;

    /// Returns what it would make of its files as they are now; none for what is no edit, and for one that doesn't fit.
    fn preview(
        self,
        _gate: &Gate,
        _seen: &BTreeMap<String, Digest>,
    ) -> impl Future<Output = Option<Vec<Preview>>> + Send {
        std::future::ready(None)
    }

    /// The file in which it is to save context for the request's branches, if it is the tool for that.
    fn saves_to(&self) -> Option<&str> {
        None
    }
}

/// A command that the task has started, and may look after.
pub(crate) fn own_command(action: impl Action) -> CheckedCall {
    CheckedCall::Free {
        rule: NamedAllowRule::Background,
        reason: "it is about a command that the request has started itself",
        action: Some(Box::new(action)),
    }
}

/// Finds where git looks for hooks. Runs git.
fn hooks_in(workspace: &Workspace) -> Arc<HookDirectories> {
    Arc::new(HookDirectories::find(workspace.roots().paths().map(Path::to_path_buf).collect()))
}

impl Gate {
    /// A gate over a workspace.
    pub fn new(policy_context: PolicyContext) -> Self {
        let hooks = hooks_in(&policy_context.workspace);
        Self::over(policy_context, hooks, Arc::default())
    }

    /// The same gate by other settings.
    pub(crate) fn with_settings(&self, settings: Arc<Settings>) -> Self {
        let policy_context = PolicyContext { settings, ..self.policy_context.clone() };
        Self::over(policy_context, Arc::clone(&self.hooks), Arc::clone(&self.repositories))
    }

    /// Returns whether git's configuration, which says where hooks are, is as it was. Reads the disk.
    pub(crate) fn has_current_hooks(&self) -> bool {
        self.hooks.is_current()
    }

    /// The same gate by git's configuration as it is now. Runs git.
    pub(crate) fn with_current_hooks(&self) -> Self {
        let settings = Arc::clone(&self.settings);
        let policy_context = PolicyContext { settings, ..self.policy_context.clone() };
        Self::over(policy_context, Arc::new(self.hooks.find_again()), Arc::clone(&self.repositories))
    }

    /// The same gate for the work tree of a branch.
    pub(crate) fn in_worktree(&self, workspace: Arc<Workspace>) -> Self {
        let hooks = hooks_in(&workspace);
        let policy_context = PolicyContext {
            settings: Arc::clone(&self.settings),
            workspace,
            is_worktree: true,
            // Those of the workspace know other files.
            language_servers: Arc::new(LanguageServers::none()),
            code_index: Arc::new(CodeIndex::none()),
            ..self.policy_context.clone()
        };
        Self::over(policy_context, hooks, Arc::default())
    }

    /// The rule that allows edits without asking. What changes in the work tree of a branch is asked about when it is merged.
    pub(super) fn write_rule(&self) -> Option<AllowRule> {
        if self.policy_context.is_worktree {
            return Some(NamedAllowRule::Worktree.into());
        }
        self.settings().auto_approve.write.then(|| NamedAllowRule::Write.into())
    }

    fn over(
        mut policy_context: PolicyContext,
        hooks: Arc<HookDirectories>,
        repositories: Arc<Repositories>,
    ) -> Self {
        let settings = Arc::clone(&policy_context.settings);
        if !hooks.patterns.is_empty() {
            let protected = &mut Arc::make_mut(&mut policy_context.settings).protected;
            protected.extend(hooks.patterns.iter().cloned());
        }
        Self { policy_context, settings, hooks, repositories }
    }

    /// Has git and programs that read its rules leave out what the server makes in the first workspace folder for this machine
    /// alone.
    pub(crate) fn exclude_private_files(&self) {
        self.policy_context.bounds.exclude_private_files(&self.policy_context.workspace);
    }

    /// Removes what is kept in private of a request that is deleted.
    pub(crate) fn forget_request(&self, urid: &Urid) {
        self.policy_context.bounds.forget_request(urid);
    }

    pub(super) fn repositories(&self) -> &Arc<Repositories> {
        &self.repositories
    }

    pub(crate) fn workspace(&self) -> &Workspace {
        &self.policy_context.workspace
    }

    pub(crate) fn policy_context(&self) -> &PolicyContext {
        &self.policy_context
    }

    pub(crate) fn orchestration(&self) -> &Orchestration {
        &self.policy_context.orchestration
    }

    pub fn server_tools(&self) -> &Arc<dyn ServerTools> {
        &self.policy_context.server_tools
    }

    pub fn language_servers(&self) -> &Arc<LanguageServers> {
        &self.policy_context.language_servers
    }

    pub fn code_index(&self) -> &Arc<CodeIndex> {
        &self.policy_context.code_index
    }

    /// The models of profiles.
    pub(crate) fn models(&self) -> &Arc<dyn ModelSource> {
        &self.policy_context.models
    }

    /// Returns whether the code can be searched by an index: the settings allow one, and there is something to index.
    pub(crate) fn has_code_index(&self) -> bool {
        self.settings().index.enabled && self.code_index().is_offered()
    }

    /// The tool of a server that a call names.
    pub async fn server_tool(&self, name: &str) -> Option<Arc<ServerTool>> {
        self.policy_context.server_tools.tool(name).await
    }

    /// The environment of programs that the server runs itself.
    pub(crate) fn environment(&self) -> Environment {
        Environment::inherited_by(&EnvironmentRules::new(self.settings().sandbox.env.clone()))
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.policy_context.settings
    }

    /// Returns what an edit would make of its files as they are now, for whoever is asked about it; none for what is no
    /// edit, and for one that doesn't fit any more.
    pub async fn preview(&self, call: &ToolCall, seen: &BTreeMap<String, Digest>) -> Option<Vec<Preview>> {
        let invocation = roo_catalog::parse(call).ok()?;
        with_call!(invocation, call => call.preview(self, seen).await)
    }

    /// Judges one call. Reads files, and changes nothing itself; what user hooks do is theirs.
    pub async fn judge(&self, call: &ToolCall, call_context: ToolCallContext<'_>) -> GateOutcome {
        let batch = call_context.hooks.is_some_and(|here| here.hooks.has(EventName::PostToolBatch));
        let mut hook_messages = HookMessages { batch, ..HookMessages::default() };
        match self.check(call, call_context, &mut hook_messages).await {
            Ok((decision, permit)) => GateOutcome { decision, permit, hook_messages },
            Err(Refusal { rule, mut reason, mistake, detail }) => {
                // It may show lines of a file.
                reason = self.masked(reason).await;
                if let Some(hooks) = self.hooks(call_context).filter(|_| !mistake)
                    && hooks.after_refusal(call, (rule, &reason), &mut hook_messages).await
                {
                    reason.push_str("\nA hook says that you may try it again.");
                }
                // A call that doesn't run has no other parameters than its own.
                hook_messages.params = None;
                // A text that doesn't fit the file says nothing of whether the place can be written.
                let saves = rule != RefusalRule::Content && self.would_save(call, call_context.urid);
                let decision = PolicyDecision::Deny { rule, reason, mistake, saves, detail };
                GateOutcome { decision, permit: None, hook_messages }
            }
        }
    }

    async fn check(
        &self,
        call: &ToolCall,
        call_context: ToolCallContext<'_>,
        hook_messages: &mut HookMessages,
    ) -> Result<(PolicyDecision, Option<Permit>), Refusal> {
        let mut checked = self.prepare(call, call_context).await?;
        let Some(hooks) = self.hooks(call_context) else {
            return self.verdict(call, checked, HookDecision::Nothing, call_context, hook_messages).await;
        };
        let mut hook_decision = hooks.before_call(call, hook_messages).await?;
        // The call as it will run is judged from the start, without the hooks, which have already decided.
        let rewritten = hook_messages.params.clone().map(|params| ToolCall { params, ..call.clone() });
        if let Some(rewritten) = &rewritten {
            checked = self.prepare(rewritten, call_context).await.map_err(Refusal::after_rewrite)?;
        }
        if let Some(edit) = checked.for_hooks() {
            hook_decision = hooks.before_edit(&edit, hook_decision, hook_messages).await?;
        }
        let call = rewritten.as_ref().unwrap_or(call);
        let decided = self.verdict(call, checked, hook_decision, call_context, hook_messages).await?;
        // A conflict ends nothing.
        if matches!(&decided, (PolicyDecision::Allow { plan, .. }, _) if *plan != Plan::Conflict) {
            hooks.before_end(call, hook_messages).await?;
        }
        Ok(decided)
    }

    fn hooks<'a>(&'a self, call_context: ToolCallContext<'a>) -> Option<CallHooks<'a>> {
        call_context.hooks.map(|context| CallHooks { policy_context: &self.policy_context, context })
    }

    /// Runs all checks but for the hooks and the approval policy.
    async fn prepare(
        &self,
        call: &ToolCall,
        call_context: ToolCallContext<'_>,
    ) -> Result<CheckedCall, Refusal> {
        let tool = self.tool_of(call).await;
        let tool = mode_check::check_tool(call, tool, call_context.mode, call_context.tools)?;
        intent::check_every_tool(&self.policy_context, call_context, &tool)?;
        let invocation = match tool {
            ToolId::BuiltIn(_) => roo_catalog::parse(call),
            ToolId::Server(tool) => roo_catalog::parse_server_call(call, tool),
        };
        let invocation = invocation.map_err(|error| Refusal::mistake(RefusalRule::Parameters, error))?;
        let mut judged = match with_call!(invocation, call => call.judge(self, call_context).await)? {
            free @ CheckedCall::Free { .. } => return Ok(free),
            CheckedCall::CallAssessment(judged) => judged,
        };
        if let Some(note) = &call.note {
            judged.subject.push_str(&format!("\n{note}"));
        }
        standing::apply(&self.policy_context, &mut judged)?;
        Ok(CheckedCall::CallAssessment(judged))
    }

    /// The tool that a call names, where there is such a tool here.
    async fn tool_of(&self, call: &ToolCall) -> Option<ToolId> {
        if let Some(tool) = ToolName::parse(&call.name) {
            return Some(ToolId::BuiltIn(tool));
        }
        if let Some(tool) = self.server_tool(&call.name).await {
            return Some(ToolId::Server(tool.name().clone()));
        }
        let Some(ToolId::Server(tool)) = ToolId::of_call(&call.name) else { return None };
        self.started(tool.server()).await;
        let tool = self.server_tool(&call.name).await?;
        Some(ToolId::Server(tool.name().clone()))
    }

    /// Waits for a server that is starting and of which nothing is known. Models may know its tools from elsewhere.
    pub(crate) async fn started(&self, server: &str) {
        let servers = self.server_tools();
        if servers.starting().iter().any(|starting| starting == server) {
            // Where it does not start, there is nothing of it.
            let _ = servers.connected(server).await;
        }
    }

    async fn verdict(
        &self,
        call: &ToolCall,
        checked: CheckedCall,
        hook_decision: HookDecision,
        call_context: ToolCallContext<'_>,
        hook_messages: &mut HookMessages,
    ) -> Result<(PolicyDecision, Option<Permit>), Refusal> {
        let allow = |(rule, reason): (AllowRule, &str), plan: Plan, action: Option<Box<dyn Action>>| {
            let decision = PolicyDecision::Allow { rule, reason: reason.to_owned(), plan };
            (decision, action.map(|action| Permit::new(call.id.clone(), action)))
        };
        let mut judged = match (checked, &hook_decision) {
            (CheckedCall::CallAssessment(judged), _) => *judged,
            (CheckedCall::Free { action, .. }, HookDecision::Ask(_)) => assess_free_call(call, action),
            (CheckedCall::Free { rule, reason, action }, _) => {
                return Ok(allow((rule.into(), reason), Plan::Nothing, action));
            }
        };
        let mut why = match &judged.allowed_by {
            Some(AllowRule::Standing(_)) => "a standing rule of the user allows it without asking",
            _ => "the user's settings allow it without asking",
        };
        match hook_decision {
            HookDecision::Nothing => {}
            HookDecision::Ask(reason) => judged.must_ask = judged.must_ask.or(Some(reason)),
            HookDecision::Allow if judged.allowed_by.is_none() => {
                judged.allowed_by = Some(NamedAllowRule::Hook.into());
                why = "one of the user's hooks allows it";
            }
            HookDecision::Allow => {}
        }
        let digest = Digest::of(judged.identity.to_string());
        if call_context.approved == Some(digest) {
            let by_user = (NamedAllowRule::Approval.into(), "the user allowed exactly this");
            return Ok(allow(by_user, judged.plan, judged.action));
        }
        let must_ask = match (judged.must_ask, judged.allowed_by) {
            (None, Some(rule)) => return Ok(allow((rule, why), judged.plan, judged.action)),
            (must_ask, _) => must_ask,
        };
        if let Some(hooks) = self.hooks(call_context)
            && hooks.permission(call, hook_messages).await?
            && must_ask.is_none()
        {
            let by_hook = (NamedAllowRule::Hook.into(), "one of the user's hooks answered for them");
            return Ok(allow(by_hook, judged.plan, judged.action));
        }
        // What asks whatever the settings say asks whatever a rule says, but for a rule about just that.
        let about_that =
            matches!(judged.standing, Some(RuleSubject::Network | RuleSubject::SandboxAccess(_)));
        let offers_rule = must_ask.is_none() || about_that;
        let reason = must_ask.or(judged.undecided).unwrap_or(AskReason {
            rule: AskRule::Policy,
            text: "the settings don't allow it without asking".into(),
        });
        let rule_subject = judged.standing.filter(|_| offers_rule);
        let has_alternative =
            matches!(rule_subject, None | Some(RuleSubject::Commands { .. } | RuleSubject::SandboxAccess(_)));
        let alternative = judged.alternative.filter(|_| offers_rule && has_alternative);
        // It goes into the log, and lines around a change may hold a secret.
        let shown = judged.action.as_ref().and_then(|action| action.shown());
        let subject = match shown {
            Some(shown) => self.masked(shown).await,
            None => judged.subject,
        };
        let decision = PolicyDecision::Ask {
            rule: reason.rule,
            reason: reason.text,
            digest,
            title: match rule_subject.as_ref().and_then(RuleSubject::question) {
                Some(question) => format!("{question} {}", judged.title),
                None => judged.title,
            },
            subject,
            rule_subject,
            alternative,
        };
        Ok((decision, None))
    }

    pub(crate) fn resolve(&self, path: &str, purpose: Purpose) -> Result<Resolved, Refusal> {
        self.policy_context
            .workspace
            .resolve(path, purpose)
            .map_err(|error| Refusal::mistake(RefusalRule::Path, error))
    }

    /// Runs the checks over a place that a call leads to; what has to be asked of it.
    pub(crate) fn examine(
        &self,
        call_context: ToolCallContext<'_>,
        place: &Resolved,
        access: Access,
    ) -> Result<Option<AskReason>, Refusal> {
        check::check(&CheckContext { policy_context: &self.policy_context, call_context, place, access })
    }

    /// Returns whether the task may know what is there only once the user allowed it.
    pub(crate) fn needs_permission_to_read(&self, path: &Resolved) -> bool {
        !self.policy_context.settings.auto_approve.read
            || self.policy_context.workspace.read_access(path) != ReadAccess::Free
    }

    pub(crate) fn read_rule(&self) -> Option<AllowRule> {
        self.policy_context.settings.auto_approve.read.then(|| NamedAllowRule::Read.into())
    }

    pub(crate) fn mask(&self) -> TextMask {
        TextMask::new(self.settings().redact_secrets, || {
            known_secrets(&Environment::inherited(), self.workspace().roots().paths(), &[])
        })
    }

    /// Returns a text with masks in place of secrets. It may be long, and files of secrets are read, so it is looked through on a
    /// thread that may block.
    pub(crate) async fn masked(&self, text: String) -> String {
        if !self.settings().redact_secrets {
            return text;
        }
        let workspace = Arc::clone(&self.policy_context.workspace);
        let look = move || {
            let known = || known_secrets(&Environment::inherited(), workspace.roots().paths(), &[]);
            TextMask::new(true, known).masked(&text).unwrap_or(text)
        };
        // A text that could not be checked may hold one.
        roo_durable::spawn_blocking(look).await.unwrap_or_default()
    }

    /// Reports whether one of these texts holds what looks like a secret, or one that is known here. Reads files of secrets, on
    /// a thread that may block.
    pub(crate) async fn hold_secret(&self, texts: Vec<String>) -> bool {
        let workspace = Arc::clone(&self.policy_context.workspace);
        let look = move || {
            let known = || known_secrets(&Environment::inherited(), workspace.roots().paths(), &[]);
            let mask = TextMask::new(true, known);
            texts.iter().any(|text| mask.masked(text).is_some())
        };
        // A text that could not be checked may hold one.
        roo_durable::spawn_blocking(look).await.unwrap_or(true)
    }

    /// The review of an edit as its user answered it. `accepts` says what becomes of hunks that are not named. Reads the
    /// disk.
    ///
    /// # Errors
    /// [`ReviewError`] for an answer that doesn't fit the hunks, or that leads to a text which can't be written.
    pub fn review(
        &self,
        files: &[Preview],
        accepts: bool,
        answers: Vec<HunkAnswer>,
    ) -> Result<Review, ReviewError> {
        let review = Review::new(files, accepts, answers, &self.mask())?;
        let edits = review.apply(files).unwrap_or_default();
        for ReviewedEdit { edit, .. } in &edits {
            if let Some(after) = edit.after() {
                let name = edit.moved_to().unwrap_or(edit.file()).display();
                self.refuse_masks(&name, edit.before(), after)
                    .map_err(|refusal| ReviewError::Text(refusal.into_reason()))?;
            }
        }
        Ok(review)
    }

    /// Refuses a text with the mask of a secret: the model has it from what it read, and the file would lose the secret.
    pub(crate) fn refuse_masks(&self, name: &str, before: Option<&str>, after: &str) -> Result<(), Refusal> {
        let Some(mask) = redaction::new_mask(before, after).filter(|_| self.settings().redact_secrets) else {
            return Ok(());
        };
        let text = format!(
            "The new text of {name} holds `{mask}`. That is a mask: it stands for a secret that you are not shown, and \
             the file would lose it. Leave lines with a mask as they are, and change only others (apply_diff, \
             insert_content). If such a line must change, ask the user to do it."
        );
        Err(Refusal::mistake(RefusalRule::Masked, text))
    }

    /// Returns whether a call that is refused was to save context for the request's branches.
    fn would_save(&self, call: &ToolCall, urid: &Urid) -> bool {
        let Ok(invocation) = roo_catalog::parse(call) else { return false };
        let Some(named) = with_call!(&invocation, call => call.saves_to()) else { return false };
        let root = self.policy_context.workspace.roots().paths().next();
        let named = Path::new(named);
        let named = root.and_then(|root| named.strip_prefix(root).ok()).unwrap_or(named);
        // By its name alone: where it leads may be what can't be found out.
        let mut below = Vec::new();
        for part in named.components() {
            match part {
                Component::Normal(part) => below.push(part),
                Component::CurDir => {}
                Component::ParentDir if below.pop().is_some() => {}
                _ => return false,
            }
        }
        below.iter().collect::<PathBuf>().starts_with(modes::task_directory(urid))
    }

    /// Returns what has changed in a file since somebody read it, as far as that is known.
    pub(crate) fn changes_since(&self, known: Digest, text: &str, name: &str) -> String {
        let Some(old) = self.policy_context.workspace.recall(known) else { return String::new() };
        let diff = diff::unified(&old, text, name);
        let mut shown: Vec<&str> = diff.lines().take(CHANGES).collect();
        if diff.lines().count() > CHANGES {
            shown.push("(more)");
        }
        format!("\n\nWhat changed since:\n{}", shown.join("\n"))
    }
}

/// A call that needs nobody's leave, but for a hook that wants it asked.
fn assess_free_call(call: &ToolCall, action: Option<Box<dyn Action>>) -> CallAssessment {
    let params = Value::Object(call.params.clone());
    CallAssessment {
        action,
        identity: json!({ "tool": call.name, "parameters": params }),
        title: format!("Call {}", render::one_line(&call.name, TITLE)),
        subject: render::visible(&format!("{params:#}")).into_owned(),
        must_ask: None,
        undecided: None,
        allowed_by: None,
        standing: None,
        alternative: None,
        plan: Plan::Nothing,
    }
}

/// To an edit of a file that the task may not have read. One text for all cases: whether the file is
/// there, or holds what the edit looks for, would tell what reading it tells, without asking.
pub(crate) fn unread_refusal(name: &str) -> Refusal {
    let text = format!(
        "{name} can't be edited before you have read it, and reading it needs the user's permission: call read_file \
         first."
    );
    Refusal::mistake(RefusalRule::Content, text)
}

#[cfg(test)]
mod tests;
