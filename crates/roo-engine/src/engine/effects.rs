//! Effects: asking the model, asking the gate, running tools, waiting. Each runs as a task of its
//! own, reports to its actor, and ends when its token is cancelled.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::actor::{ActorMessage, Report};
use super::audit;
use super::clock::Clock;
use super::context::{self, EditorContext};
use super::gather;
use super::hook_dispatch::{self, HookDispatch};
use super::instructions::{Governed, Instructions, ToolSources};
use super::journal::{Journal, LiveId};
use super::task::{Effect, Input, OfferMemory, Remedy, Task};
use super::tree::{BudgetLeft, Tree};
use crate::approvals::StandingRules;
use crate::customization::Customization;
use crate::hooks::UserHooks;
use crate::intent_store::{Binding, Orchestration};
use crate::policy::post::AuditRecord;
use crate::policy::{
    Gate, GateOutcome, HookMessages, ModeChange, Permit, PlannedEdit, PolicyDecision, Recorder, RefusalRule,
    ToolCallContext,
};
use crate::tools::{self, BackgroundCommands, CommandLimits, Outcome, ToolContext};
use roo_catalog::{Effect as ToolEffect, ToolCall, ToolProtocol};
use roo_durable::reserve::Reserve;
use roo_formats::config::{Profile, Settings, ToolChoice};
use roo_formats::modes::{self, Mode, Modes, UnknownMode};
use roo_model::parser::{StreamEvent, StreamParser, Update};
use roo_model::prompts::{self, ActiveFile, CommandStatus, Environment, Problems};
use roo_model::providers::{self, Finish, Item, Model, ModelError, ModelErrorKind, ModelRequest, Output};
use roo_protocol::ids::{CommandId, Digest, TaskId, ToolCallId, Urid};
use roo_protocol::message::Say;
use roo_protocol::rule::{RuleSubject, RuleVerdict, SandboxAccess};
use roo_protocol::task::{TodoItem, Usage};
use roo_sandbox::exec::EnvironmentRules;
use roo_workspace::{FileProblems, Purpose, Workspace};

/// Services that all tasks of an engine share.
pub(super) struct EngineServices {
    pub(super) settings: Arc<Settings>,
    pub(super) workspace: Arc<Workspace>,
    pub(super) customization: Arc<Customization>,
    pub(super) orchestration: Arc<Orchestration>,
    pub(super) rules: Arc<StandingRules>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) gate: Gate,
    pub(super) clock: Arc<dyn Clock>,
    /// Room for the time when the disk is full.
    pub(super) reserve: Reserve,
    /// The models by profile, made when first needed: a scripted one reads its file.
    pub(super) models: Mutex<HashMap<String, Arc<dyn Model>>>,
}

impl EngineServices {
    /// The modes that there are now.
    pub(super) fn modes(&self) -> Arc<Modes> {
        self.customization.modes_by(&self.settings)
    }

    /// Returns what is needed to continue in a mode.
    pub(super) fn mode_change(&self, slug: &str) -> Result<ModeChange, UnknownMode> {
        Ok(ModeChange::into_mode(self.modes().find(slug)?, &self.settings))
    }

    /// Which tools the model of a profile gets.
    fn tools_of(&self, profile: &str) -> ToolChoice {
        self.settings.profiles.get(profile).map(Profile::tools).unwrap_or_default()
    }

    fn model(&self, profile: &str) -> Result<Arc<dyn Model>, ModelError> {
        let mut models = self.models.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(model) = models.get(profile) {
            return Ok(Arc::clone(model));
        }
        let Some(settings) = self.settings.profiles.get(profile) else {
            return Err(ModelError {
                kind: ModelErrorKind::Configuration,
                message: format!(
                    "There is no model profile '{profile}'. Define profiles.{profile} in config.yaml or in \
                     initializationOptions."
                ),
            });
        };
        let model = providers::connect(settings, &|name| std::env::var(name).ok())?;
        models.insert(profile.to_owned(), Arc::clone(&model));
        Ok(model)
    }
}

/// The longest answer that is taken, in bytes of text, thinking and arguments together: a model or an
/// endpoint that runs on for ever must not take the server, and every task in it, along.
const ANSWER_BYTES: usize = 32 << 20;
/// The most calls of one answer.
const ANSWER_CALLS: usize = 256;

/// Length of the answer received so far.
#[derive(Default)]
struct Size {
    bytes: usize,
    calls: usize,
}

impl Size {
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

/// Context of an effect.
pub(super) struct EffectContext {
    pub(super) setting: Arc<EngineServices>,
    pub(super) journal: Arc<Journal>,
    pub(super) cancel: CancellationToken,
    /// The commands of the request that run in the background.
    pub(super) background: Arc<BackgroundCommands>,
    /// Sends the command that the effect runs to the background.
    pub(super) to_background: CancellationToken,
}

/// Channel for an effect's reports.
#[derive(Clone)]
pub(super) struct Reporter {
    sender: mpsc::Sender<ActorMessage>,
    task: TaskId,
    generation: u64,
}

impl Reporter {
    pub(super) fn new(sender: mpsc::Sender<ActorMessage>, task: TaskId, generation: u64) -> Self {
        Self { sender, task, generation }
    }

    async fn send(&self, report: Report) {
        // An actor that has ended needs no report.
        let (task, generation) = (self.task.clone(), self.generation);
        let _ = self.sender.send(ActorMessage::Report { task, generation, report: Box::new(report) }).await;
    }

    async fn send_end_of_command(&self, id: CommandId, outcome: Outcome) {
        let _ = self.sender.send(ActorMessage::CommandEnded(id, Box::new(outcome))).await;
    }
}

/// Starts an effect. It reports once at its end, unless it is cancelled before.
#[must_use = "whoever cancels an effect may want to wait for its end"]
pub(super) fn start(
    effect: Effect,
    task: &Task,
    tree: &Tree,
    permit: Option<Permit>,
    around: EffectContext,
    reporter: Reporter,
) -> JoinHandle<()> {
    match effect {
        Effect::CallModel { .. } => {
            let turn = Turn::new(task, tree);
            let asking = HookDispatch::new(task, &around);
            tokio::spawn(async move {
                let cancel = around.cancel.clone();
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = turn.run(&around, &reporter, &asking) => {}
                }
            })
        }
        Effect::Gather(gather) => {
            let asking = HookDispatch::new(task, &around);
            tokio::spawn(async move {
                tokio::select! {
                    () = around.cancel.cancelled() => {}
                    gathered = gather::gather(&gather, &around.setting, &asking) => {
                        reporter.send(Report::Last(Input::Gathered(gathered))).await;
                    }
                }
            })
        }
        Effect::Wait { due } => tokio::spawn(async move {
            let left = u64::try_from(due - around.setting.clock.now()).unwrap_or(0);
            tokio::select! {
                () = around.cancel.cancelled() => {}
                () = tokio::time::sleep(Duration::from_millis(left)) => {
                    reporter.send(Report::Last(Input::RetryDue)).await;
                }
            }
        }),
        Effect::Gate { mode, approved, .. } => {
            let judging = Judging::new(task, tree, mode, approved, &around);
            tokio::spawn(async move {
                tokio::select! {
                    () = around.cancel.cancelled() => {}
                    () = judging.run(&around.setting, &reporter) => {}
                }
            })
        }
        Effect::RunTool { call_id, .. } => {
            let run = ToolRun::new(call_id, task, tree, permit, &around);
            tokio::spawn(run.run(around, reporter))
        }
        Effect::SettleWrite { write, .. } => {
            let audit_record = audit::begin(task, tree, &around.setting);
            tokio::spawn(async move {
                let found = found_after(&around.setting.workspace, &write).await;
                audit::settled(audit_record, &write, &found, &around.setting).await;
                reporter.send(Report::Last(Input::WriteSettled(found))).await;
            })
        }
    }
}

/// Run of a tool, with what it needs of the state at its begin.
struct ToolRun {
    call_id: ToolCallId,
    permit: Option<Permit>,
    context: ToolContext,
    executes: bool,
    audit_record: Option<AuditRecord>,
    call: Option<ToolCall>,
    asking: HookDispatch,
}

impl ToolRun {
    fn new(
        call_id: ToolCallId,
        task: &Task,
        tree: &Tree,
        permit: Option<Permit>,
        around: &EffectContext,
    ) -> Self {
        Self {
            permit,
            context: tool_context(&call_id, task, around),
            executes: task.current_effect() == ToolEffect::Execute,
            audit_record: audit::begin(task, tree, &around.setting),
            call: task.call_as_it_runs().map(Cow::into_owned),
            asking: HookDispatch::new(task, around),
            call_id,
        }
    }

    /// Runs the tool and reports. Not raced against the token: a tool knows best how to end, and what it did counts.
    async fn run(self, around: EffectContext, reporter: Reporter) {
        let Self { call_id, permit, mut context, executes, audit_record, call, asking } = self;
        let mut heard = HookMessages::default();
        let mut background = None;
        if executes {
            context.variables = asking.environment().await.variables;
        }
        let outcome = match permit {
            Some(permit) if *permit.call_id() == call_id => {
                let begun = Instant::now();
                let mut outcome = permit.run(&context).await;
                let took = begun.elapsed();
                // What runs on is put down when it ends.
                background = outcome.background.clone().map(|(id, _)| (id, audit_record.clone()));
                audit::done(audit_record, &mut outcome, &around.setting).await;
                if let Some(call) = &call {
                    heard = asking.after(call, &mut outcome, took).await;
                }
                outcome
            }
            // The gate's permit and this effect come together. Should a defect part them,
            // nothing may run.
            _ => Outcome::failed("Not run: its permit was lost. Make the call again."),
        };
        reporter.send(Report::Ran(heard, outcome)).await;
        if let Some((id, audit_record)) = background {
            follow_command(id, audit_record, &around, &reporter).await;
        }
    }
}

/// Waits for the end of a command in the background, puts down what it did, and reports it.
async fn follow_command(
    id: CommandId,
    audit_record: Option<AuditRecord>,
    around: &EffectContext,
    reporter: &Reporter,
) {
    let Some(command) = around.background.get(&id) else { return };
    let Some(job) = command.take_job() else { return };
    let mut outcome = tools::outcome_of(&command.line, job.await);
    audit::done(audit_record, &mut outcome, &around.setting).await;
    reporter.send_end_of_command(id.clone(), outcome).await;
    // Only now: who waits for its end goes on when it is known.
    around.background.remove(&id);
}

/// Call to be decided on, and what the gate has to know of the task.
struct Judging {
    audit_record: Option<AuditRecord>,
    call: Option<ToolCall>,
    mode: String,
    profile: Option<String>,
    tools: ToolChoice,
    is_branch: bool,
    delegations: u32,
    urid: Urid,
    seen: BTreeMap<String, Digest>,
    approved: Option<Digest>,
    intent: Option<Binding>,
    within: Vec<Binding>,
    offers: OfferMemory,
    asking: HookDispatch,
}

impl Judging {
    fn new(task: &Task, tree: &Tree, mode: String, approved: Option<Digest>, around: &EffectContext) -> Self {
        let settings = &task.settings;
        Self {
            audit_record: audit::begin(task, tree, &around.setting),
            call: task.call_to_judge().map(Cow::into_owned),
            mode,
            profile: settings.pinned.then(|| settings.profile.clone()),
            tools: around.setting.tools_of(&settings.profile),
            is_branch: task.parent.is_some(),
            delegations: task.guard.delegations(),
            urid: task.urid.clone(),
            seen: task.files.seen.clone(),
            approved,
            intent: task.intents.bound.clone(),
            within: task.intents.within.clone(),
            offers: task.offers.clone(),
            asking: HookDispatch::new(task, around),
        }
    }

    /// Judges, reports, and tells hooks when the user is waited for. Nobody waits for those.
    async fn run(self, setting: &Arc<EngineServices>, reporter: &Reporter) {
        let hooks = hook_dispatch::hooks_of(setting).await;
        let outcome = self.judge(setting, &hooks).await;
        let decision = outcome.decision.clone();
        if let Some(permit) = &outcome.permit {
            audit::look_ahead(permit.texts(), setting);
        }
        reporter.send(Report::Judged(outcome)).await;
        self.asking.notify(&hooks, self.call.as_ref(), &decision).await;
    }

    async fn judge(&self, setting: &Arc<EngineServices>, hooks: &UserHooks) -> GateOutcome {
        let Some(call) = &self.call else {
            // The gate is asked about the call that is worked on, so there is one.
            return GateOutcome::deny(RefusalRule::Call, "There is no tool call to decide on.");
        };
        let reading = Arc::clone(setting);
        // It may read files, and the thread that runs the tasks has other things to do.
        let modes = match tokio::task::spawn_blocking(move || reading.modes()).await {
            Ok(modes) => modes,
            Err(_) => return GateOutcome::deny(RefusalRule::Mode, "The server is shutting down."),
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
            delegations: self.delegations,
            urid: &self.urid,
            seen: &self.seen,
            approved: self.approved,
            intent: self.intent.as_ref(),
            within: &self.within,
            hooks: if hooks.hooks().is_empty() { None } else { Some(self.asking.here(hooks).await) },
            offers: self.offers.for_gate(call),
        };
        let outcome = setting.gate.judge(call, call_context).await;
        if let (PolicyDecision::Deny { rule, mistake, .. }, Some(audit_record)) =
            (&outcome.decision, self.audit_record.clone())
        {
            audit::refused(audit_record, *rule, *mistake, setting).await;
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

fn tool_context(call_id: &ToolCallId, task: &Task, around: &EffectContext) -> ToolContext {
    let (journal, task_id) = (Arc::clone(&around.journal), task.id.clone());
    let live = LiveId::Tool(call_id.clone());
    let recorder = Arc::clone(&around.setting.recorder);
    ToolContext {
        workspace: Arc::clone(&around.setting.workspace),
        output: Arc::new(move |text: &str| journal.extend(&task_id, &live, text)),
        cancel: around.cancel.clone(),
        variables: BTreeMap::new(),
        environment: EnvironmentRules::new(around.setting.settings.sandbox.env.clone()),
        redact_secrets: around.setting.settings.redact_secrets,
        orchestration: Arc::clone(&around.setting.orchestration),
        recent: Arc::new(move |intent| recorder.recent(intent)),
        overflow_stem: call_id.to_string(),
        task_directory: modes::task_directory(&task.urid),
        review: task.is_reviewed(),
        declined: declined(task, &around.setting.rules),
        command_limits: CommandLimits {
            timeout: task.limits.command_timeout_sec.map(Duration::from_secs),
            foreground: Some(task.limits.background_after_sec)
                .filter(|seconds| *seconds > 0)
                .map(Duration::from_secs),
        },
        command_id: CommandId::of_call(call_id),
        background: Arc::clone(&around.background),
        to_background: around.to_background.clone(),
    }
}

/// Returns the access that the user has declined to grant to commands, in this task or permanently.
fn declined(task: &Task, rules: &StandingRules) -> SandboxAccess {
    let mut declined = task.offers.declined().clone();
    // Rules that can't be read let no command run.
    for rule in rules.list().unwrap_or_default() {
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
    items: Arc<Vec<Item>>,
    todo: Vec<TodoItem>,
    seen: BTreeMap<String, Digest>,
    cost_usd: f64,
    left: BudgetLeft,
    tree: Option<String>,
    can_be_shortened: bool,
}

impl Turn {
    fn new(task: &Task, tree: &Tree) -> Self {
        Self {
            task: task.id.clone(),
            mode: task.settings.mode.clone(),
            profile: task.settings.profile.clone(),
            protocol: task.settings.protocol,
            number: task.request_number(),
            items: context::view(task.conversation.items(), task.conversation.reduced_before()),
            todo: task.todo.clone(),
            seen: task.files.seen.clone(),
            cost_usd: tree.usage().cost_usd,
            left: tree.budget_left(task),
            tree: (tree.tasks().len() > 1).then(|| tree.draw(&task.id)),
            can_be_shortened: task.conversation.can_be_shortened(),
        }
    }

    /// The request, or why there can't be one.
    async fn request(
        &mut self,
        setting: &Arc<EngineServices>,
        background: &BackgroundCommands,
    ) -> Result<ModelRequest, ModelError> {
        let (mode, protocol) = (self.mode.clone(), self.protocol);
        let seen = std::mem::take(&mut self.seen);
        let choice = setting.tools_of(&self.profile);
        let reading = Arc::clone(setting);
        // It reads files, and the thread that runs the tasks has other things to do.
        let read = tokio::task::spawn_blocking(move || {
            let modes = reading.modes();
            let mode = Arc::clone(modes.find(&mode)?);
            let told = Instructions::new(
                &mode,
                &modes,
                protocol,
                ToolSources { choice: &choice, server_tools: &reading.gate.server_tools().list() },
                &reading.customization,
                Governed { orchestration: &reading.orchestration, require: reading.settings.intents.require },
                &reading.workspace,
            );
            Ok::<_, UnknownMode>((mode, told, EditorContext::new(&reading.workspace, &seen)))
        });
        let configuration = |message: String| ModelError { kind: ModelErrorKind::Configuration, message };
        let read = read.await.map_err(|_| configuration("The server is shutting down.".to_owned()))?;
        let (mode, told, editor) = read.map_err(|error| configuration(error.to_string()))?;
        let commands: Vec<CommandStatus> = (background.all().iter())
            .map(|command| CommandStatus {
                id: command.id.clone(),
                line: command.line.clone(),
                unread: command.unread(),
            })
            .collect();
        let tail = self.environment(&mode, &editor, &commands, setting);
        Ok(ModelRequest {
            system: told.system.into(),
            // The conversation is the task's again before it grows: a second owner would mean a copy.
            items: std::mem::take(&mut self.items),
            tail: Some(tail),
            tools: told.tools.into(),
            protocol,
            mode: mode.slug.clone(),
        })
    }

    fn environment(
        &self,
        mode: &Mode,
        editor: &EditorContext,
        commands: &[CommandStatus],
        setting: &EngineServices,
    ) -> String {
        let profile = setting.settings.profiles.get(&self.profile);
        let priced = profile.is_some_and(|profile| profile.prices().is_some());
        let problems: Vec<Problems<'_>> = editor
            .problems
            .iter()
            .map(|FileProblems { path, errors, warnings }| Problems {
                path,
                errors: *errors,
                warnings: *warnings,
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
            commands,
            todo: &self.todo,
            ..Environment::new(
                &setting.clock.zoned(),
                mode,
                profile.and_then(|profile| profile.model.as_deref()).unwrap_or_default(),
            )
        })
    }

    async fn run(mut self, around: &EffectContext, reporter: &Reporter, asking: &HookDispatch) {
        let mut usage = Usage::default();
        let request = self.request(&around.setting, &around.background).await;
        let ending = match (around.setting.model(&self.profile), request) {
            (Ok(model), Ok(request)) => {
                let shown = AnswerDisplay { task: &self.task, request: self.number, block: 0, open: None };
                stream(&*model, request, shown, around, reporter, &mut usage).await
            }
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        let mut failed = None;
        let input = match ending {
            Ok(finish) => Input::ModelEnded { finish, used: usage },
            Err(mut error) => {
                let remedy = match error.kind {
                    ModelErrorKind::ContextWindow if self.can_be_shortened => {
                        match asking.before_shortening().await {
                            None => {
                                // What comes of this effect may end it, and these are to be heard.
                                asking.shortened().await;
                                Remedy::Shorten
                            }
                            Some(refusal) => {
                                error.message = format!("{}\n{refusal}", error.message);
                                Remedy::Ask
                            }
                        }
                    }
                    kind if kind.is_retryable() => Remedy::Retry {
                        after: kind.retry_after().and_then(|wait| i64::try_from(wait.as_millis()).ok()),
                        // The low half of a random UUID, as a fraction.
                        jitter: (around.setting.clock.random().as_u128() as u64) as f64 / u64::MAX as f64,
                    },
                    _ => Remedy::Ask,
                };
                failed = Some((error.kind, error.message.clone(), remedy));
                Input::ModelFailed { message: error.message, remedy, used: usage }
            }
        };
        reporter.send(Report::Last(input)).await;
        if let Some((kind, message, Remedy::Ask)) = failed {
            asking.model_failed(kind, &message).await;
        }
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
    let mut size = Size::default();
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
