//! Effects: asking the model, asking the gate, running tools, waiting. Each runs as a task of its
//! own, reports to its actor, and ends when its token is cancelled.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

use super::actor_message::Report;
use super::audit;
use super::caller::Caller;
use super::changes::ChangesSoFar;
use super::compaction;
use super::context::EditorContext;
use super::defect;
use super::edit_problems::ProblemsBefore;
use super::effect_context::EffectContext;
use super::gather;
use super::hook_changes::{FilesBeforeHooks, HookChanges};
use super::hook_dispatch::HookDispatch;
use super::instructions::{Governed, Instructions, ToolSources, definitions_size};
use super::journal::{Journal, LiveId};
use super::rate_limits::{BegunRequest, DelayReason, Step};
use super::reporter::Reporter;
use super::services::EngineServices;
use super::task::{
    ContextState, ConversationSize, Effect, Excess, Input, OfferMemory, OpenWorktree, Remedy, RequestFrame,
    Task,
};
use super::tree::{BudgetLeft, Tree};
use super::worktrees;
use crate::approvals::StandingRules;
use crate::hooks::UserHooks;
use crate::intent_store::Binding;
use crate::mentions::MentionRoom;
use crate::mentions::git::Git;
use crate::policy::{
    AuditRecord, GateOutcome, HookMessages, ModeChange, Permit, PlannedEdit, PolicyDecision, RefusalRule,
    Review, ToolCallContext,
};
use crate::project_info;
use crate::server_tools::ServerTools;
use crate::tool_run::{
    BackgroundCommands, BinaryContents, CommandLimits, FileDetails, Outcome, SavedFile, TaskBrowser,
    ToolContext, missing_directories, recorded,
};
use crate::tools;
use roo_browser::WebHost;
use roo_catalog::{Effect as ToolEffect, Group, ServerTool, ToolCall, ToolName, ToolProtocol};
use roo_documents::Extractor;
use roo_formats::config::ToolChoice;
use roo_formats::modes::{self, Mode, Modes};
use roo_language_servers::{ChangedFile, DiskChange};
use roo_model::parser::{StreamEvent, StreamParser, Update};
use roo_model::prompts::{self, ActiveFile, CommandStatus, Environment, Problems};
use roo_model::providers::{
    Finish, Item, Items, Model, ModelError, ModelErrorKind, ModelRequest, Output, Rendered,
};
use roo_protocol::ids::{CommandId, Digest, TaskId, ToolCallId, Urid};
use roo_protocol::message::Say;
use roo_protocol::rule::{RuleSubject, RuleVerdict, SandboxAccess};
use roo_protocol::task::{TodoItem, Usage};
use roo_sandbox::exec::EnvironmentRules;
use roo_trace::record::{Author, FileChange, Side};
use roo_workspace::{FileProblems, Purpose, Workspace};

/// The longest answer that is taken, in bytes of text, thinking and arguments together: a model or an
/// endpoint that runs on forever must not take the server, and every task in it, along.
const ANSWER_BYTES: usize = 32 << 20;
/// The most calls of one answer.
const ANSWER_CALLS: usize = 256;
/// The longest wait that an endpoint may ask for before the fallback takes over.
const LONGEST_WAIT_FOR_MODEL: Duration = Duration::from_secs(30);

/// Length of the answer received so far.
#[derive(Default)]
struct AnswerLength {
    bytes: usize,
    calls: usize,
}

impl AnswerLength {
    fn add(&mut self, event: &StreamEvent) -> Result<(), ModelError> {
        match event {
            StreamEvent::Text(text)
            | StreamEvent::Thinking(text)
            | StreamEvent::CallArguments { text, .. } => {
                self.bytes += text.len();
            }
            StreamEvent::CallStart { .. } => self.calls += 1,
            StreamEvent::ThinkingEnd(_) | StreamEvent::CallEnd { .. } => {}
        }
        let message = if self.bytes > ANSWER_BYTES {
            format!("The model's answer is longer than {} MiB; it was cut off.", ANSWER_BYTES >> 20)
        } else if self.calls > ANSWER_CALLS {
            format!("The model's answer makes more than {ANSWER_CALLS} calls; it was cut off.")
        } else {
            return Ok(());
        };
        // Making it again would bring the same.
        Err(ModelError { kind: ModelErrorKind::Invalid, message })
    }
}

/// Starts an effect. It reports once at its end, also if that is a panic, unless it is cancelled before.
#[must_use = "whoever cancels an effect may want to wait for its end"]
pub(super) fn start(
    effect: Effect,
    task: &Task,
    tree: &Tree,
    permit: Option<Permit>,
    rendered: Rendered,
    around: EffectContext,
    reporter: Reporter,
) -> JoinHandle<()> {
    let at_fault = reporter.clone();
    let run: BoxFuture<'static, ()> = match effect {
        Effect::CallModel { .. } => {
            let turn = Turn::new(task, tree, rendered);
            let hook_dispatch = HookDispatch::new(task, &around);
            Box::pin(async move {
                let run = async {
                    let begun = turn.wait(&around.services, &reporter).await;
                    let _connection = around.services.descriptors.model().await;
                    turn.run(begun, &around, &reporter, &hook_dispatch).await;
                };
                unless_cancelled(&around.cancel, run).await.unwrap_or_default();
            })
        }
        Effect::Compact(of) => {
            let compaction = compaction::CompactionRun::new(of, task, &around);
            Box::pin(async move {
                let run = async {
                    let (outcome, used) = compaction.run(&around.services).await;
                    Input::Compacted { outcome, used }
                };
                report_unless_cancelled(&around.cancel, run, &reporter).await;
            })
        }
        Effect::Gather(gather) => {
            let hook_dispatch = HookDispatch::new(task, &around);
            let mode = task.settings.mode.clone();
            let profile = around.services.settings.profiles.get(&task.settings.profile);
            let limits = profile.map(compaction::limits).unwrap_or_default();
            let room = task.context.lookup_room(limits, task.conversation.size());
            let room =
                room.map_or_else(MentionRoom::default, |room| MentionRoom::within(room.each, room.all));
            Box::pin(async move {
                let run = async {
                    let _descriptors = around.services.descriptors.tool().await;
                    let services = &around.services;
                    Input::Gathered(gather::gather(&gather, (&mode, room), services, &hook_dispatch).await)
                };
                report_unless_cancelled(&around.cancel, run, &reporter).await;
            })
        }
        Effect::Wait { due } => Box::pin(async move {
            let left = u64::try_from(due - around.services.clock.now()).unwrap_or(0);
            let run = async {
                tokio::time::sleep(Duration::from_millis(left)).await;
                Input::RetryDue
            };
            report_unless_cancelled(&around.cancel, run, &reporter).await;
        }),
        Effect::MakeWorktree => {
            let wanted = worktrees::WantedWorktree::new(task, &around.services);
            Box::pin(async move {
                let made = wanted.make(&around.services, &around.cancel).await;
                match around.cancel.is_cancelled() {
                    true => wanted.discard(&around.services).await,
                    false => reporter.send(Report::Last(Input::WorktreeMade(made))).await,
                }
            })
        }
        Effect::CloseWorktree => {
            let closing = worktrees::ClosingWorktree::new(task, &around.services);
            Box::pin(async move {
                let Some(closing) = closing else { return };
                let run = async { Input::WorktreeClosed { kept: closing.close(&around.services).await } };
                report_unless_cancelled(&around.cancel, run, &reporter).await;
            })
        }
        Effect::Gate { mode, approved, review, .. } => {
            let request = GateRequest::new(task, tree, mode, (approved, review), &around);
            Box::pin(async move {
                let run = async {
                    let _descriptors = around.services.descriptors.tool().await;
                    request.run(&around.services, &reporter).await;
                };
                unless_cancelled(&around.cancel, run).await.unwrap_or_default();
            })
        }
        Effect::RunTool { call_id, .. } => {
            let run = ToolRun::new(call_id, task, tree, permit, &around, &reporter);
            Box::pin(run.run(around, reporter))
        }
        Effect::SettleWrite { write, .. } => {
            let audit_record = (audit::begin(task, tree, &around.services), audit::author_of(task));
            let task = task.id.clone();
            Box::pin(async move {
                let found = found_after(&around.services.workspace, &write).await;
                audit::settled(audit_record, &write, &found, &around.services).await;
                let saved = match around.services.keeps_checkpoints() {
                    true => save_settled(&task, &write, &found, &around.services).await,
                    false => vec![],
                };
                reporter.send(Report::Last(Input::WriteSettled(found, saved))).await;
            })
        }
    };
    tokio::spawn(async move { defect::reported(run, &at_fault).await })
}

/// Runs until it is done or cancelled; none if that comes first. Where both are at once, it is cancelled: so a replay has
/// the same.
async fn unless_cancelled<T>(cancel: &CancellationToken, run: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = cancel.cancelled() => None,
        done = run => Some(done),
    }
}

/// The same, and reports the end.
async fn report_unless_cancelled(
    cancel: &CancellationToken,
    run: impl Future<Output = Input>,
    reporter: &Reporter,
) {
    if let Some(input) = unless_cancelled(cancel, run).await {
        reporter.send(Report::Last(input)).await;
    }
}

/// Run of a tool, with what it needs of the state at its begin.
struct ToolRun {
    call_id: ToolCallId,
    task: TaskId,
    permit: Option<Permit>,
    context: ToolContext,
    executes: bool,
    edit: Option<PlannedEdit>,
    audit_record: Option<AuditRecord>,
    is_restarted: bool,
    call: Option<ToolCall>,
    /// The files that the task has seen, or is about to, by their digests.
    seen: BTreeMap<String, Digest>,
    hook_dispatch: HookDispatch,
    /// True if the model is told of problems that an edit brings.
    tells_problems: bool,
}

impl ToolRun {
    fn new(
        call_id: ToolCallId,
        task: &Task,
        tree: &Tree,
        permit: Option<Permit>,
        around: &EffectContext,
        reporter: &Reporter,
    ) -> Self {
        Self {
            permit,
            context: tool_context(&call_id, task, tree, around, reporter),
            executes: task.current_effect() == ToolEffect::Execute,
            edit: task.edit_in_progress().cloned(),
            audit_record: audit::begin(task, tree, &around.services),
            is_restarted: task.is_restarted(),
            call: task.call_as_it_runs().map(Cow::into_owned),
            seen: task.files.seen_by_next_request(),
            hook_dispatch: HookDispatch::new(task, around),
            tells_problems: around.services.knows_problems()
                && around.services.tools_of(&task.settings.profile).has(ToolName::Diagnostics),
            task: task.id.clone(),
            call_id,
        }
    }

    /// Runs the tool and reports. Not raced against the token: a tool knows best how to end, and what it did counts.
    async fn run(self, around: EffectContext, reporter: Reporter) {
        let Self {
            call_id,
            task,
            permit,
            mut context,
            executes,
            edit,
            audit_record,
            is_restarted,
            call,
            seen,
            hook_dispatch,
            tells_problems,
        } = self;
        let descriptors = tokio::select! {
            biased;
            descriptors = around.services.descriptors.tool() => descriptors,
            // It ends at once.
            () = around.cancel.cancelled() => None,
        };
        let mut messages = HookMessages::default();
        let mut background = None;
        if executes {
            context.variables = hook_dispatch.environment().await.variables;
        }
        let context = Arc::new(context);
        let outcome = match permit {
            Some(permit) if *permit.call_id() == call_id => {
                let for_hooks = permit.for_hooks();
                if let Some(edit) = edit.as_ref().filter(|_| around.services.keeps_checkpoints()) {
                    keep_replaced(&task, edit, &around.services).await;
                }
                let made = match &edit {
                    Some(edit) if around.services.keeps_checkpoints() => {
                        directories_to_make(edit, &around.services).await
                    }
                    _ => vec![],
                };
                let before = match &edit {
                    Some(edit) if tells_problems => {
                        let look = ProblemsBefore::of(edit, &around.services);
                        around.cancel.run_until_cancelled(look).await.unwrap_or_default()
                    }
                    _ => ProblemsBefore::default(),
                };
                let begun = Instant::now();
                let mut outcome = permit.run(&context).await;
                let took = begun.elapsed();
                tell_language_servers(&outcome.changes, &around.services);
                leave_out_unseen(&mut outcome, &seen);
                let is_saved = !outcome.changes.is_empty() && around.services.keeps_checkpoints();
                let saver = is_saved.then(|| {
                    made.into_iter().for_each(|(path, number)| outcome.details.add_directories(path, number));
                    ChangeSaver::new(&task, &mut outcome, &context, &around.services)
                });
                let mut before_hooks = None;
                if let Some(saver) = &saver {
                    saver.save(outcome.changes.clone(), &mut outcome).await;
                    if hook_dispatch.hears_of_results().await {
                        before_hooks = saver.before_hooks(&outcome).await.zip(audit_record.clone());
                    }
                }
                // What runs on is put down when it ends.
                background = outcome.background.clone().map(|(id, _)| (id, audit_record.clone()));
                audit::done(audit_record, call.as_ref(), &mut outcome, is_restarted, &around.services).await;
                // Nothing of the outcome is lost where this is cut off.
                let _ = around.cancel.run_until_cancelled(before.tell(&mut outcome, &around.services)).await;
                if let Some(call) = for_hooks.as_ref().or(call.as_ref()) {
                    messages = hook_dispatch.after(call, &mut outcome, took).await;
                }
                if let (Some(saver), Some((before, audit_record))) = (saver, before_hooks) {
                    saver.save_changes_of_hooks(before, audit_record, &mut outcome).await;
                }
                outcome
            }
            // The gate's permit and this effect come together. Should a defect part them,
            // nothing may run.
            _ => Outcome::failed("Not run: its permit was lost. Make the call again."),
        };
        // What runs on in the background may do so for days.
        drop(descriptors);
        let saves = !outcome.saved.is_empty();
        reporter.send(Report::Ran(messages, outcome)).await;
        if saves {
            // Beside the next model request: the log is synced behind it, and that is waited for.
            let (services, request) = (Arc::clone(&around.services), task.root());
            drop(roo_durable::spawn_blocking(move || services.checkpoints.settle(&request)));
        }
        if let Some((id, audit_record)) = background {
            follow_command(id, &task, &context, audit_record, &around, &reporter).await;
        }
    }
}

/// Saves the changes of a call for its checkpoint and the log.
struct ChangeSaver {
    task: TaskId,
    context: Arc<ToolContext>,
    services: Arc<EngineServices>,
    details: Arc<FileDetails>,
    binaries: Arc<BinaryContents>,
}

impl ChangeSaver {
    /// For the changes of this outcome, from which it takes what nobody else needs.
    fn new(
        task: &TaskId,
        outcome: &mut Outcome,
        context: &Arc<ToolContext>,
        services: &Arc<EngineServices>,
    ) -> Self {
        Self {
            task: task.clone(),
            context: Arc::clone(context),
            services: Arc::clone(services),
            details: Arc::new(std::mem::take(&mut outcome.details)),
            binaries: Arc::new(std::mem::take(&mut outcome.binaries)),
        }
    }

    async fn save(&self, changes: Vec<FileChange>, outcome: &mut Outcome) {
        let (context, services, task) =
            (Arc::clone(&self.context), Arc::clone(&self.services), self.task.clone());
        let (details, binaries) = (Arc::clone(&self.details), Arc::clone(&self.binaries));
        let record = move || {
            let mask = context.mask();
            let recorded = recorded(&changes, &details, &mask);
            (recorded, services.checkpoints.save(&task, &changes, &details, &binaries, &mask))
        };
        // Only a runtime that is ending runs nothing more.
        (outcome.recorded, outcome.saved) = roo_durable::spawn_blocking(record).await.unwrap_or_default();
    }

    /// Looks at the files before hooks hear of the call.
    async fn before_hooks(&self, outcome: &Outcome) -> Option<FilesBeforeHooks> {
        let (changes, services) = (outcome.changes.clone(), Arc::clone(&self.services));
        let look = move || FilesBeforeHooks::new(changes, &services.workspace);
        roo_durable::spawn_blocking(look).await.ok()
    }

    /// Takes what hooks have changed since for a part of the call's change, as a formatter's work is, and records it.
    async fn save_changes_of_hooks(
        &self,
        before: FilesBeforeHooks,
        audit_record: AuditRecord,
        outcome: &mut Outcome,
    ) {
        let services = Arc::clone(&self.services);
        let compare = move || before.compare(&services.workspace);
        let found = roo_durable::spawn_blocking(compare).await.ok().flatten();
        if let Some(HookChanges { together, by_hooks }) = found {
            tell_language_servers(&by_hooks, &self.services);
            self.save(together, outcome).await;
            audit::changed_by_hooks(audit_record, by_hooks, &self.services);
        }
    }
}

/// Has the language servers know of files that a call has changed on disk, before they are asked the next time.
fn tell_language_servers(changes: &[FileChange], services: &EngineServices) {
    let changed = changes.iter().flat_map(|FileChange { path, old_path, before, after, .. }| {
        let was_there = !matches!(before, Side::Absent) && old_path.is_none();
        let change = match (was_there, after) {
            (_, Side::Absent) => DiskChange::Deleted,
            (true, _) => DiskChange::Changed,
            (false, _) => DiskChange::Created,
        };
        let old = old_path.as_ref().map(|old| (old, DiskChange::Deleted));
        old.into_iter().chain([(path, change)])
    });
    let Some(folder) = services.workspace.roots().paths().next() else { return };
    // What is outside of the first folder has its full path, which counts alone.
    let changed = changed.map(|(path, change)| ChangedFile { path: folder.join(path), change });
    services.gate.language_servers().changed(&changed.collect::<Vec<_>>());
}

/// Leaves out of what the task has seen the files that it changed without having seen their text before: the rest of it may
/// be the user's, and whoever replaces all of it must have read it.
fn leave_out_unseen(outcome: &mut Outcome, seen: &BTreeMap<String, Digest>) {
    let Outcome { changes, seen: now, .. } = outcome;
    let mut known: BTreeSet<&str> = BTreeSet::new();
    let seen_digest = |path: &String| seen.get(path);
    for FileChange { path, old_path, before, .. } in changes {
        // What the user made of an edit is a further change of the same file.
        if !known.insert(path) {
            continue;
        }
        let was_seen = match before {
            Side::Absent => true,
            Side::Text { text, digest } => {
                seen_digest(old_path.as_ref().unwrap_or(path)).is_some_and(|seen| {
                    // A byte order mark is part of what is seen on disk, and of no text.
                    seen == digest || *seen == Digest::of(format!("\u{feff}{text}"))
                })
            }
            Side::Opaque(digest) => seen_digest(old_path.as_ref().unwrap_or(path)) == Some(digest),
        };
        if !was_seen {
            now.retain(|(name, digest)| name != path || digest.is_none());
        }
    }
}

/// Waits for the end of a command in the background, puts down what it did, and reports it.
async fn follow_command(
    id: CommandId,
    task: &TaskId,
    context: &Arc<ToolContext>,
    audit_record: Option<AuditRecord>,
    around: &EffectContext,
    reporter: &Reporter,
) {
    let Some(command) = around.background.get(&id) else { return };
    let Some(job) = command.take_job() else { return };
    let mut outcome = tools::outcome_of(&command.line, job.await);
    tell_language_servers(&outcome.changes, &around.services);
    if !outcome.changes.is_empty() && around.services.keeps_checkpoints() {
        let (changes, context) = (outcome.changes.clone(), Arc::clone(context));
        let (services, task) = (Arc::clone(&around.services), task.clone());
        // What a command removed is text in UTF-8, or kept by its bytes.
        let (details, binaries) =
            (std::mem::take(&mut outcome.details), std::mem::take(&mut outcome.binaries));
        let save = move || services.checkpoints.save(&task, &changes, &details, &binaries, &context.mask());
        outcome.saved = roo_durable::spawn_blocking(save).await.unwrap_or_default();
    }
    audit::done(audit_record, None, &mut outcome, false, &around.services).await;
    reporter.send_end_of_command(id.clone(), outcome).await;
    // Only now: who waits for its end goes on when it is known.
    around.background.remove(&id);
}

/// Call to be decided on, and what the gate has to know of the task.
struct GateRequest {
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
    fn new(
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
    async fn run(self, services: &Arc<EngineServices>, reporter: &Reporter) {
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

/// Returns the current content of the files of an interrupted edit, as far as it can be told.
async fn found_after(workspace: &Workspace, edit: &PlannedEdit) -> Vec<Option<Digest>> {
    // A change of several files is brought to one side first.
    if let PlannedEdit::Patch(_) = edit {
        workspace.settle().await;
    }
    let mut all = Vec::new();
    for (path, before, after) in edit.places() {
        let found = async {
            let path = workspace.resolve(path, Purpose::Read).ok()?;
            let file = workspace.read_for_edit(&path).await.ok()?;
            // A byte order mark is kept by writes, and is not part of the text that they were planned with.
            let of_text = Some(Digest::of(&file.text));
            Some(if of_text == after || of_text == before { of_text } else { Some(file.digest) })
        };
        all.push(found.await.flatten());
    }
    all
}

/// The text of a file that an edit names.
async fn text_of(workspace: &Workspace, path: &str) -> Option<String> {
    let path = workspace.resolve(path, Purpose::Read).ok()?;
    workspace.read_for_edit(&path).await.ok().map(|file| file.text)
}

/// Keeps what an edit is about to replace: should the server be killed before the call has ended, nobody else knows it.
async fn keep_replaced(task: &TaskId, edit: &PlannedEdit, services: &Arc<EngineServices>) {
    let mut texts = Vec::new();
    for (path, before, after) in edit.places() {
        if let Some(before) = before.filter(|_| before != after)
            && let Some(text) = text_of(&services.workspace, path).await
            && Digest::of(&text) == before
        {
            texts.push(text);
        }
    }
    if !texts.is_empty() {
        let (services, task) = (Arc::clone(services), task.clone());
        let keep = move || services.checkpoints.keep(&task, &texts, &services.gate.mask());
        // Only a runtime that is ending runs nothing more.
        let _ = roo_durable::spawn_blocking(keep).await;
    }
}

/// The numbers of the directories that an edit is about to make with new files, right above them.
async fn directories_to_make(edit: &PlannedEdit, services: &Arc<EngineServices>) -> Vec<(String, u32)> {
    let new = edit.places().into_iter().filter(|(_, before, _)| before.is_none());
    let new: Vec<String> = new.map(|(path, ..)| path.to_owned()).collect();
    if new.is_empty() {
        return vec![];
    }
    let workspace = Arc::clone(&services.workspace);
    let look = move || {
        let number = |path: String| {
            let place = workspace.resolve(&path, Purpose::Write).ok()?;
            Some((path, missing_directories(place.absolute())))
        };
        new.into_iter().filter_map(number).collect()
    };
    // Only a runtime that is ending runs nothing more.
    roo_durable::spawn_blocking(look).await.unwrap_or_default()
}

/// Saves for a checkpoint what a settled edit has changed, with what was kept when it began.
async fn save_settled(
    task: &TaskId,
    edit: &PlannedEdit,
    found: &[Option<Digest>],
    services: &Arc<EngineServices>,
) -> Vec<SavedFile> {
    let mut changes = Vec::new();
    for ((path, before, after), now) in edit.places().into_iter().zip(found) {
        if before == after || *now != after {
            continue;
        }
        let after = match after {
            None => Side::Absent,
            Some(digest) => {
                let text = text_of(&services.workspace, path).await.filter(|text| Digest::of(text) == digest);
                text.map_or(Side::Opaque(digest), Side::text)
            }
        };
        changes.push((path.to_owned(), before, after));
    }
    let (services, task, details) = (Arc::clone(services), task.clone(), edit.removed_encodings());
    let save = move || {
        let change = |(path, before, after): (String, Option<Digest>, Side)| FileChange {
            path,
            old_path: None,
            before: services.checkpoints.side(&task, before),
            after,
            author: Author::Ai,
        };
        let changes: Vec<FileChange> = changes.into_iter().map(change).collect();
        services.checkpoints.save(
            &task,
            &changes,
            &details,
            &BinaryContents::default(),
            &services.gate.mask(),
        )
    };
    // Only a runtime that is ending runs nothing more.
    roo_durable::spawn_blocking(save).await.unwrap_or_default()
}

fn tool_context(
    call_id: &ToolCallId,
    task: &Task,
    tree: &Tree,
    around: &EffectContext,
    reporter: &Reporter,
) -> ToolContext {
    let (journal, task_id) = (Arc::clone(&around.journal), task.id.clone());
    let live = LiveId::Tool(call_id.clone());
    let recorder = Arc::clone(&around.services.recorder);
    ToolContext {
        workspace: Arc::clone(&around.services.workspace),
        output: Arc::new(move |text: &str| journal.extend(&task_id, &live, text)),
        cancel: around.cancel.clone(),
        variables: BTreeMap::new(),
        environment: EnvironmentRules::new(around.services.settings.sandbox.env.clone()),
        redact_secrets: around.services.settings.redact_secrets,
        orchestration: Arc::clone(&around.services.orchestration),
        recent: Arc::new(move |intent| recorder.recent(intent)),
        overflow_stem: call_id.to_string(),
        task_directory: modes::task_directory(&task.urid),
        review: task.is_reviewed(),
        declined: declined(task, &around.services.rules),
        command_limits: CommandLimits {
            timeout: task.limits.command_timeout_sec.map(Duration::from_secs),
            foreground: Some(task.limits.background_after_sec)
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        },
        command_id: CommandId::of_call(call_id),
        background: Arc::clone(&around.background),
        browser: Arc::clone(&around.browser),
        foreground: around.foreground.clone(),
        commands: Arc::clone(&around.services.commands),
        shadow: around.services.shadow.clone().filter(|_| around.services.commands.starts_processes()),
        extractor: Extractor::own(),
        changes: Arc::new(ChangesSoFar {
            directory: around.journal.directory().clone(),
            request: task.id.root(),
            workspace: Arc::clone(&around.services.workspace),
        }),
        caller: Arc::new(Caller::new(task, tree, around, reporter)),
    }
}

/// Returns the access that the user has declined to grant to commands, in this task or permanently.
fn declined(task: &Task, rules: &StandingRules) -> SandboxAccess {
    let mut declined = task.offers.declined().clone();
    // Rules that can't be read let no command run.
    for rule in rules.in_effect().unwrap_or_default() {
        if let (RuleSubject::SandboxAccess(paths), RuleVerdict::Deny) = (&rule.subject, rule.verdict) {
            declined.extend(paths);
        }
    }
    declined
}

/// One model request, with what it needs of the state at its begin.
struct Turn {
    task: TaskId,
    mode: String,
    profile: String,
    protocol: ToolProtocol,
    number: u32,
    items: Items,
    rendered: Rendered,
    todo: Vec<TodoItem>,
    seen: BTreeMap<String, Digest>,
    cost_usd: f64,
    left: BudgetLeft,
    tree: Option<String>,
    /// What is known of the size of requests, and that of the conversation.
    context: (ContextState, ConversationSize),
    /// True if the conversation has more than its beginning, so that some of it may be left out.
    has_answers: bool,
    /// True if the fallback takes over when it fails.
    is_last_attempt: bool,
    /// True if the user chose the profile.
    is_pinned: bool,
    /// True if the model takes no images.
    leaves_out_images: bool,
    /// What the request tells of the workspace as the task begins.
    beginning: Option<String>,
    /// Estimated tokens of the request.
    tokens: u64,
}

/// The servers of a mode that are starting, and of which no tool is known.
fn starting_servers(servers: &dyn ServerTools, known: &[Arc<ServerTool>], mode: &Mode) -> Vec<String> {
    let mut starting = if mode.groups.contains(&Group::Mcp) { servers.starting() } else { vec![] };
    starting.retain(|server| {
        mode.permits_server(server).is_ok() && !known.iter().any(|tool| tool.name().server() == server)
    });
    starting
}

/// What the environment details of a request tell beside the state of its task.
struct TurnFacts<'a> {
    editor: &'a EditorContext,
    commands: &'a [CommandStatus],
    starting_servers: &'a [String],
    /// Host of the page that the task's browser shows.
    browser: Option<String>,
}

/// Returns the branch and the number of changed files; none without a repository, or where that takes long.
async fn git_summary(services: &EngineServices) -> Option<String> {
    let environment = roo_sandbox::exec::Environment::inherited();
    Git { workspace: &services.workspace, environment: &environment }.summary().await.ok()
}

impl Turn {
    fn new(task: &Task, tree: &Tree, rendered: Rendered) -> Self {
        Self {
            task: task.id.clone(),
            mode: task.settings.mode.clone(),
            profile: task.settings.profile.clone(),
            protocol: task.settings.protocol,
            number: task.request_number(),
            items: task.conversation.items().clone(),
            rendered,
            todo: task.todo.clone(),
            seen: task.files.seen.clone(),
            cost_usd: tree.usage().cost_usd,
            left: tree.budget_left(task),
            tree: (tree.tasks().len() > 1).then(|| tree.draw(&task.id)),
            context: (task.context.clone(), *task.conversation.size()),
            has_answers: task.has_answers(),
            is_last_attempt: task.makes_last_attempt(),
            is_pinned: task.settings.pinned,
            leaves_out_images: task.context.refuses_images(),
            beginning: None,
            tokens: task.context.estimate(task.conversation.size()),
        }
    }

    /// Waits for the turn at the endpoint, and says until when. None where there is no endpoint.
    async fn wait(&self, services: &EngineServices, reporter: &Reporter) -> Option<BegunRequest> {
        let mut queued = services.queue(&self.profile, self.tokens)?;
        loop {
            match queued.next().await {
                Step::Delayed { due, reason } => {
                    let reason = self.delayed_by(reason);
                    reporter.send(Report::Progress(Input::RequestDelayed { due, reason })).await;
                }
                Step::Begins(begun) => {
                    if queued.was_delayed() {
                        reporter.send(Report::Progress(Input::DelayEnded)).await;
                    }
                    return Some(begun);
                }
            }
        }
    }

    /// Says what the request waits for.
    fn delayed_by(&self, reason: DelayReason) -> String {
        let of_profile =
            |limit: &str| format!("`{limit}` of the profile {} spaces out requests.", self.profile);
        match reason {
            DelayReason::Spacing => of_profile("rateLimitSeconds"),
            DelayReason::Requests => of_profile("requestsPerMinute"),
            DelayReason::Tokens => of_profile("tokensPerMinute"),
            DelayReason::Endpoint => "The endpoint asked another request to wait that long.".to_owned(),
        }
    }

    /// The change to the profile that takes over when this one's model fails too often or for too long; none where none is
    /// defined.
    fn fallback(&self, services: &EngineServices) -> Option<ModeChange> {
        if self.is_pinned {
            return None;
        }
        let profiles = &services.settings.profiles;
        let name = profiles.get(&self.profile)?.fallback.as_ref()?;
        let protocol = profiles.get(name)?.tool_protocol();
        // The profile is now as if the user had chosen it: that is what keeps it.
        Some(ModeChange { mode: None, profile: Some((name.clone(), protocol)) })
    }

    /// The request, or why there can't be one.
    async fn request(
        &mut self,
        services: &Arc<EngineServices>,
        background: &BackgroundCommands,
        browser: Option<WebHost>,
    ) -> Result<ModelRequest, ModelError> {
        let (mode, protocol) = (self.mode.clone(), self.protocol);
        let known = services.settings.profiles.get(&self.profile).and_then(|profile| profile.known());
        self.leaves_out_images |= known.is_some_and(|model| !model.images);
        // Until there is an answer, what was told is in no conversation.
        let is_first = !self.has_answers;
        let seen = std::mem::take(&mut self.seen);
        let choice = services.tools_of(&self.profile);
        let reading = Arc::clone(services);
        // It reads files, and the thread that runs the tasks has other things to do.
        let read = roo_durable::spawn_blocking(move || {
            // What the model would call could not run.
            if let Some(fault) = reading.fault() {
                return Err(fault);
            }
            let modes = reading.modes();
            let mode = Arc::clone(modes.find(&mode).map_err(|unknown| unknown.to_string())?);
            let servers = reading.gate.server_tools();
            let server_tools = servers.list();
            let starting = starting_servers(&**servers, &server_tools, &mode);
            let told = Instructions::new(
                &mode,
                &modes,
                protocol,
                ToolSources {
                    choice: &choice,
                    server_tools: &server_tools,
                    further_server_tools: &servers.further(),
                    server_resources: &servers.resources(),
                    has_browser: reading.gate.browser_program().is_ok(),
                    has_language_server: reading.gate.language_servers().are_offered(),
                    has_code_editor: reading.workspace.answers_code(),
                    has_code_index: reading.gate.has_code_index(),
                    has_image_generation: reading.settings.generates_images(),
                },
                &reading.customization,
                Governed { orchestration: &reading.orchestration, require: reading.settings.intents.require },
                &reading.workspace,
            );
            let editor = EditorContext::new(&reading.workspace, &seen, || reading.gate.mask());
            // The others get more of it with their first message.
            let files = (is_first && !mode.gathers_context).then(|| project_info::files(&reading.workspace));
            Ok((mode, told, editor, starting, files.flatten()))
        });
        let configuration = |message: String| ModelError { kind: ModelErrorKind::Configuration, message };
        let git = async {
            match is_first && services.commands.starts_processes() {
                true => git_summary(services).await,
                false => None,
            }
        };
        let (read, git) = tokio::join!(unless_ending(read), git);
        let read = read.map_err(|_| configuration("The instructions can't be read.".to_owned()))?;
        let (mode, told, editor, starting, files) = read.map_err(configuration)?;
        let commands: Vec<CommandStatus> = (background.all().iter())
            .map(|command| CommandStatus {
                id: command.id.clone(),
                line: command.line.clone(),
                unread: command.unread(),
                terminal: command.handle.terminal.is_some(),
            })
            .collect();
        let facts = TurnFacts {
            editor: &editor,
            commands: &commands,
            starting_servers: &starting,
            browser: browser.map(|host| host.to_string()),
        };
        let tail = self.environment(&mode, &facts, services);
        self.beginning = prompts::beginning(files.as_deref(), git.as_deref());
        // The conversation is the task's again before it grows: a second owner would mean a copy.
        let mut items = std::mem::take(&mut self.items);
        if let Some(text) = &self.beginning {
            items.push(Item::User { text: text.clone(), images: vec![] });
        }
        Ok(ModelRequest {
            system: told.system.into(),
            items,
            rendered: self.rendered.clone(),
            tail: Some(tail),
            tools: told.tools.into(),
            protocol,
            mode: mode.slug.clone(),
            max_tokens: None,
            leaves_out_images: self.leaves_out_images,
        })
    }

    fn environment(&self, mode: &Mode, facts: &TurnFacts<'_>, services: &EngineServices) -> String {
        let profile = services.settings.profiles.get(&self.profile);
        let priced = profile.is_some_and(|profile| profile.prices().is_some());
        let TurnFacts { editor, .. } = facts;
        let problems: Vec<Problems<'_>> = editor
            .problems
            .iter()
            .map(|(FileProblems { path, errors, warnings }, messages)| Problems {
                path,
                errors: *errors,
                warnings: *warnings,
                messages,
            })
            .collect();
        let active = editor.active.as_ref();
        prompts::environment(&Environment {
            open_files: &editor.open.all,
            unsaved_files: &editor.open.unsaved,
            active_file: active.map(|roo_workspace::ActiveFile { path, cursor, visible }| ActiveFile {
                path,
                cursor: *cursor,
                visible: *visible,
            }),
            changed_files: &editor.changed,
            problems: &problems,
            cost_usd: priced.then_some(self.cost_usd),
            requests_left: self.left.requests,
            cost_left_usd: self.left.cost_usd.filter(|_| priced),
            invocation_tree: self.tree.as_deref(),
            commands: facts.commands,
            starting_servers: facts.starting_servers,
            browser: facts.browser.as_deref(),
            todo: &self.todo,
            ..Environment::new(
                &services.clock.zoned(),
                mode,
                profile.and_then(|profile| profile.model.as_deref()).unwrap_or_default(),
            )
        })
    }

    /// All of a request but its conversation.
    fn frame(&self, request: &ModelRequest, services: &EngineServices) -> RequestFrame {
        let tools = definitions_size(&request.tools, request.protocol);
        let limits =
            services.settings.profiles.get(&self.profile).map(compaction::limits).unwrap_or_default();
        let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let tail = length(&request.tail) + length(&self.beginning);
        let leaves_out_images = self.leaves_out_images;
        RequestFrame {
            system: request.system.len() as u64,
            tools,
            tail: tail as u64,
            leaves_out_images,
            ..limits
        }
    }

    /// Returns the error of a request that is known to be too long before it is sent.
    fn too_long(&self, frame: RequestFrame) -> Option<ModelError> {
        let (context, size) = &self.context;
        let excess =
            context.excess(frame, size).filter(|excess| excess.certain.is_some() || self.has_answers)?;
        let Excess { tokens, allowed, .. } = excess;
        let message = format!(
            "The request was not sent: it would have about {tokens} tokens, and it may have {allowed}."
        );
        Some(ModelError { kind: ModelErrorKind::ContextWindow, message })
    }

    /// `begun` is the request at its endpoint; none where there is no endpoint.
    async fn run(
        mut self,
        begun: Option<BegunRequest>,
        around: &EffectContext,
        reporter: &Reporter,
        hook_dispatch: &HookDispatch,
    ) {
        let mut usage = Usage::default();
        let browser = around.browser.current().and_then(|browser| browser.host());
        let request = self.request(&around.services, &around.background, browser).await;
        let mut frame = request.as_ref().ok().map(|request| self.frame(request, &around.services));
        let too_long = frame.and_then(|frame| self.too_long(frame));
        let refused = too_long.is_none();
        let request = request.and_then(|request| too_long.map_or(Ok(request), Err));
        let mut tail = None;
        let ending = match (around.services.model(&self.profile), request) {
            (Ok(model), Ok(request)) => {
                tail = request.tail.clone().filter(|_| model.keeps_tails()).map(String::into_boxed_str);
                let shown = AnswerDisplay { task: &self.task, request: self.number, block: 0, open: None };
                stream(&*model, request, shown, around, reporter, &mut usage).await
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        around.services.ended(&self.profile, begun, &usage, ending.as_ref().err());
        let mut failed = None;
        let input = match ending {
            Ok(finish) => {
                let beginning = self.beginning.take().map(String::into_boxed_str);
                Input::ModelEnded { finish, used: usage, frame, tail, beginning }
            }
            Err(error) => {
                if let (Some(frame), Some(stated)) = (&mut frame, error.stated_window().filter(|_| refused)) {
                    frame.window = Some(frame.window.map_or(stated, |known| known.min(stated)));
                }
                let sends_images = self.context.1.images > 0 && !self.leaves_out_images;
                let remedy = match error.kind {
                    _ if sends_images && error.refuses_all_images() => Remedy::WithoutImages,
                    _ if sends_images && error.speaks_of_images() => Remedy::WithoutNewestImages,
                    ModelErrorKind::ContextWindow => Remedy::Shorten { refused },
                    kind if kind.is_retryable() => {
                        let after = kind.retry_after();
                        let asks_for_long = after.is_some_and(|wait| wait > LONGEST_WAIT_FOR_MODEL);
                        match self.fallback(&around.services) {
                            Some(change) if self.is_last_attempt || asks_for_long => {
                                reporter.send(Report::Progress(Input::Change(change))).await;
                                Remedy::RetryAnew
                            }
                            fallback => Remedy::Retry {
                                after: after.and_then(|wait| i64::try_from(wait.as_millis()).ok()),
                                // The low half of a random UUID, as a fraction.
                                jitter: (around.services.clock.random().as_u128() as u64) as f64
                                    / u64::MAX as f64,
                                is_patient: kind.is_outage() && fallback.is_none(),
                            },
                        }
                    }
                    _ => Remedy::Ask,
                };
                failed = Some((error.kind, error.message.clone(), remedy));
                Input::ModelFailed { message: error.message, remedy, used: usage, frame }
            }
        };
        let _unwaited = around.services.unwaited_hooks.others.token();
        reporter.send(Report::Last(input)).await;
        if let Some((kind, message, Remedy::Ask)) = failed {
            hook_dispatch.model_failed(kind, &message).await;
        }
    }
}

/// Waits for a look at the disk. While the process ends there is no result: none may be taken for an answer, since the log
/// would have it after a restart.
async fn unless_ending<T>(read: JoinHandle<T>) -> Result<T, JoinError> {
    match read.await {
        Err(error) if error.is_cancelled() => std::future::pending().await,
        read => read,
    }
}

/// Asks the model and reports its blocks. What was used is left in `usage` even when it fails.
async fn stream(
    model: &dyn Model,
    request: ModelRequest,
    mut shown: AnswerDisplay<'_>,
    around: &EffectContext,
    reporter: &Reporter,
    usage: &mut Usage,
) -> Result<Finish, ModelError> {
    let mut parser = StreamParser::new(request.protocol);
    let mut updates = Vec::new();
    let mut size = AnswerLength::default();
    let mut stream = model.stream(request);
    let finish = loop {
        match stream.next().await {
            Some(Ok(Output::Event(event))) => {
                size.add(&event)?;
                parser.push(event, &mut updates);
            }
            Some(Ok(Output::Usage(newest))) => *usage = newest,
            Some(Ok(Output::Finished(finish))) => break finish,
            Some(Err(error)) => return Err(error),
            None => {
                return Err(ModelError {
                    kind: ModelErrorKind::Cut,
                    message: "The model's answer was cut off before its end.".into(),
                });
            }
        }
        for update in updates.drain(..) {
            shown.update(update, model.origin(), &around.journal, reporter).await;
        }
    };
    // The conversation is the task's again before it grows: a second owner would mean a copy.
    drop(stream);
    parser.finish(true, &mut updates);
    for update in updates.drain(..) {
        shown.update(update, model.origin(), &around.journal, reporter).await;
    }
    Ok(finish)
}

/// Shows running text, and reports closed blocks.
struct AnswerDisplay<'a> {
    task: &'a TaskId,
    request: u32,
    block: u32,
    open: Option<LiveId>,
}

impl AnswerDisplay<'_> {
    async fn update(&mut self, update: Update, origin: &str, journal: &Journal, reporter: &Reporter) {
        match update {
            Update::TextDelta(text) => self.extend(Say::Text, &text, journal),
            Update::ThinkingDelta(text) => self.extend(Say::Reasoning, &text, journal),
            Update::CallBegun { name } => self.extend(Say::Tool, &format!("{name}\n"), journal),
            Update::ParameterDelta { text, .. } => self.extend(Say::Tool, &text, journal),
            Update::Closed(block) => {
                if let Some(open) = self.open.take() {
                    journal.close(self.task, &open);
                }
                self.block += 1;
                let input = Input::ModelBlock { block, origin: origin.to_owned() };
                reporter.send(Report::Progress(input)).await;
            }
        }
    }

    fn extend(&mut self, say: Say, text: &str, journal: &Journal) {
        let block = self.block;
        let request = self.request;
        let id = self
            .open
            .get_or_insert_with(|| LiveId::Message(super::task::block_message_id(request, block), say));
        journal.extend(self.task, id, text);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_look_that_the_end_of_the_process_cuts_off_has_no_result() {
        // As the runtime does with what has not begun when it ends.
        let read = tokio::spawn(std::future::pending::<()>());
        read.abort();
        tokio::task::yield_now().await;
        assert!(read.is_finished());
        // An approval that is being judged stays open: a refusal would be in the log, by nobody.
        assert!(unless_ending(read).now_or_never().is_none());
    }

    #[test]
    fn what_was_changed_unread_is_not_seen() {
        let change = |path: &str, before: Side| FileChange {
            path: path.to_owned(),
            old_path: None,
            before,
            after: Side::text("after"),
            author: Author::Ai,
        };
        let (old, after) = (Digest::of("old"), Digest::of("after"));
        let paths = ["new", "read", "unread", "changed since"];
        let mut outcome = Outcome {
            changes: vec![
                change("new", Side::Absent),
                change("read", Side::text("old")),
                change("unread", Side::text("old")),
                change("changed since", Side::text("newer")),
            ],
            seen: paths.map(|path| (path.to_owned(), Some(after))).to_vec(),
            ..Outcome::failed("")
        };
        let seen = BTreeMap::from([("read".to_owned(), old), ("changed since".to_owned(), old)]);
        leave_out_unseen(&mut outcome, &seen);
        assert_eq!(outcome.seen, [("new".to_owned(), Some(after)), ("read".to_owned(), Some(after))]);
    }

    #[tokio::test]
    async fn a_look_that_fails_or_succeeds_has_its_result() {
        assert_eq!(unless_ending(roo_durable::spawn_blocking(|| 1)).await.unwrap(), 1);
        let failed = roo_durable::spawn_blocking(|| std::panic::resume_unwind(Box::new("defect")));
        assert!(unless_ending::<()>(failed).await.unwrap_err().is_panic());
    }
}
