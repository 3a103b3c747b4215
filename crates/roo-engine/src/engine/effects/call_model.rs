//! A request to a task's model: its turn at the endpoint, what the model is given to read, and what becomes of a failure.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::answer::{AnswerDisplay, stream};
use super::unless_ending;
use crate::engine::actor_message::Report;
use crate::engine::compaction;
use crate::engine::context::EditorContext;
use crate::engine::effect_context::EffectContext;
use crate::engine::hook_dispatch::HookDispatch;
use crate::engine::instructions::{Governed, Instructions, ToolSources, definitions_size};
use crate::engine::rate_limits::{BegunRequest, DelayReason, Step};
use crate::engine::reporter::Reporter;
use crate::engine::services::EngineServices;
use crate::engine::task::{ContextState, ConversationSize, Excess, Input, Remedy, RequestFrame, Task};
use crate::engine::tree::{BudgetLeft, Tree};
use crate::mentions::git::Git;
use crate::policy::ModeChange;
use crate::project_info;
use crate::server_tools::ServerTools;
use crate::tool_run::BackgroundCommands;
use roo_browser::WebHost;
use roo_catalog::{Group, ServerTool, ToolProtocol};
use roo_formats::modes::Mode;
use roo_model::prompts::{self, ActiveFile, CommandStatus, Environment, Problems};
use roo_model::providers::{Item, Items, ModelError, ModelErrorKind, ModelRequest, Rendered};
use roo_protocol::ids::{Digest, TaskId};
use roo_protocol::task::{TodoItem, Usage};
use roo_workspace::FileProblems;

/// The longest wait that an endpoint may ask for before the fallback takes over.
const MAX_MODEL_WAIT: Duration = Duration::from_secs(30);

/// One model request, with what it needs of the state at its begin.
pub(super) struct Turn {
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

/// What the environment details of a request tell beside the state of its task.
struct TurnFacts<'a> {
    editor: &'a EditorContext,
    commands: &'a [CommandStatus],
    starting_servers: &'a [String],
    /// Host of the page that the task's browser shows.
    browser: Option<String>,
}

impl Turn {
    pub(super) fn new(task: &Task, tree: &Tree, rendered: Rendered) -> Self {
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
    pub(super) async fn wait(&self, services: &EngineServices, reporter: &Reporter) -> Option<BegunRequest> {
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
    pub(super) async fn run(
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
                let shown = AnswerDisplay::new(&self.task, self.number);
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
                        let asks_for_long = after.is_some_and(|wait| wait > MAX_MODEL_WAIT);
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

/// The servers of a mode that are starting, and of which no tool is known.
fn starting_servers(servers: &dyn ServerTools, known: &[Arc<ServerTool>], mode: &Mode) -> Vec<String> {
    let mut starting = if mode.groups.contains(&Group::Mcp) { servers.starting() } else { vec![] };
    starting.retain(|server| {
        mode.permits_server(server).is_ok() && !known.iter().any(|tool| tool.name().server() == server)
    });
    starting
}

/// Returns the branch and the number of changed files; none without a repository, or where that takes long.
async fn git_summary(services: &EngineServices) -> Option<String> {
    let environment = roo_sandbox::exec::Environment::inherited();
    Git { workspace: &services.workspace, environment: &environment }.summary().await.ok()
}
