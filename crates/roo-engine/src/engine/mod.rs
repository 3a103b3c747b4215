//! The engine: tasks as pure machines over logs, and the actors that drive them.
//!
//! [`Engine`] is all that a door needs: it starts and steers tasks, answers their questions, and
//! hands out [`Follower`]s. It knows neither editors nor protocols, and it assumes neither one client
//! nor one workspace root. What a task may do to the world is decided by [`crate::policy`] and done by
//! [`crate::tools`].

mod actor;
mod audit;
pub mod clock;
mod context;
mod effects;
pub mod event;
mod gather;
mod hook_dispatch;
mod instructions;
mod journal;
pub mod task;
pub mod tree;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use self::actor::{Actor, ActorMessage, Command, Reply};
use self::clock::Clock;
use self::effects::EngineServices;
use self::event::Event;
use self::task::{Input, NewRule, Task};
use self::tree::{Fact, Tree};
use crate::approvals::StandingRules;
use crate::customization::{Customization, Grant};
use crate::intent_store::{Binding, Orchestration};
use crate::policy::{Bounds, Gate, ModeChange, PolicyContext, Preview, Recorder};
use crate::server_tools::ServerTools;
use roo_catalog::{Effect, ToolId};
use roo_durable::reserve::Reserve;
use roo_durable::{RequestDirectory, RequestLog, StoreError, WorkspaceDirectory};
use roo_formats::config::{Directories, RunContext, Settings};
use roo_formats::modes;
use roo_model::prompts::{self, Brief, Place};
use roo_protocol::error::ErrorKind;
use roo_protocol::event::Event as WireEvent;
use roo_protocol::ids::{ApprovalId, CommandId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::rule::RuleScope;
use roo_protocol::task::{
    AnswerResult, ApprovalRespondParams, CallOutcome, FilePreview, HistoryItem, QuestionAnswerParams,
    QueueDeleteParams, QueueEditParams, TaskListResult, TaskSendParams, TaskSnapshot, TaskStartParams,
    TaskStartResult, TaskState,
};
use roo_protocol::tree::TreeGetResult;
use roo_sandbox::exec::sandbox::Helper;
use roo_text::render;
use roo_workspace::{DirectoryError, Workspace};

pub use self::instructions::{Governed, Instructions, ToolSources};
pub use self::journal::{Follower, Journal};

/// Capacity of an actor's mailbox; beyond it a client is told to try again. Every branch of a request may have a report
/// on its way, and those must not crowd out what clients want.
const MAILBOX: usize = 256;
/// Time to wait for the first events of a request that is resumed.
const BEGIN_GRACE: Duration = Duration::from_secs(1);
/// Number of requests a list holds.
const LIST_PAGE: usize = 100;
/// Number of attempts to draw a free id. Each draw has 32 random bits.
const URID_DRAWS: u32 = 8;

/// Reasons why the engine could not do what a client asked.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Nothing of that id.
    #[error("there is no {what} '{id}'")]
    NotFound {
        /// Kind of what was looked for.
        what: &'static str,
        /// Its id.
        id: String,
    },
    /// The task's state doesn't allow it.
    #[error("that can't be done with the task {task} now: {problem}")]
    WrongState {
        /// The task.
        task: TaskId,
        /// Reason why not.
        problem: String,
    },
    /// An answer doesn't fit what was asked.
    #[error("the answer doesn't fit the question: {problem}")]
    Mismatch {
        /// Problem.
        problem: String,
    },
    /// The settings or the request name something that isn't there.
    #[error("{0}")]
    Configuration(String),
    /// Too much waits for the task.
    #[error("too many inputs wait for the task; try again in a moment")]
    Overloaded,
    /// The disk refuses the task's events.
    #[error("the state directory can't be written, so the task is paused; cancel it to end what runs")]
    Refused,
    /// The server is shutting down.
    #[error("the server is shutting down; the task is saved and can be resumed")]
    Ending,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl EngineError {
    /// Returns the kind of failure for clients.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::WrongState { .. } => ErrorKind::WrongState,
            Self::Mismatch { .. } => ErrorKind::Mismatch,
            Self::Configuration(_) => ErrorKind::Configuration,
            Self::Overloaded | Self::Ending => ErrorKind::Overloaded,
            Self::Store(StoreError::Held { .. }) => ErrorKind::HeldElsewhere,
            Self::Refused | Self::Store(_) => ErrorKind::Storage,
        }
    }

    /// Returns the user's remedy.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotFound { .. } => "List the tasks to see the valid ids.",
            Self::WrongState { .. } => "Look at the task's state first.",
            Self::Mismatch { .. } => "Show the question again and answer the current one.",
            Self::Configuration(_) => "Correct the settings or the request.",
            Self::Overloaded => "Try again in a moment.",
            Self::Ending => "Start the server again.",
            Self::Store(StoreError::Held { .. }) => "Use the window that runs it, or close that window.",
            Self::Refused | Self::Store(_) => "Check the disk and the permissions of the state directory.",
        }
    }
}

/// A request that lives in this process.
#[derive(Clone)]
struct Live {
    sender: mpsc::Sender<ActorMessage>,
    journal: Arc<Journal>,
}

/// The requests that live in this process: those that are not at their end, and those that somebody
/// has just opened.
#[derive(Default)]
struct Registry {
    live: Mutex<HashMap<TaskId, Live>>,
    /// The journals that somebody still follows, also of requests that no longer live.
    journals: Mutex<HashMap<TaskId, Weak<Journal>>>,
    /// The newest summaries of what lived here.
    summaries: Mutex<HashMap<TaskId, HistoryItem>>,
    /// Held while a request comes to life or leaves, so that its log's locks pass on in good order.
    passing: Arc<tokio::sync::Mutex<()>>,
}

/// A request comes to life or leaves.
type Passing = tokio::sync::OwnedMutexGuard<()>;

impl Registry {
    fn live(&self) -> MutexGuard<'_, HashMap<TaskId, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn summaries(&self) -> MutexGuard<'_, HashMap<TaskId, HistoryItem>> {
        self.summaries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn summarise(&self, item: HistoryItem) {
        self.summaries().insert(item.task_id.clone(), item);
    }

    async fn passing(&self) -> Passing {
        Arc::clone(&self.passing).lock_owned().await
    }

    /// Takes a request out, unless somebody has sent it something. ActorMessage is sent under the same lock.
    async fn leave(&self, task: &TaskId, is_unwanted: impl Fn() -> bool) -> Option<Passing> {
        let passing = self.passing().await;
        let mut live = self.live();
        if !is_unwanted() {
            return None;
        }
        live.remove(task);
        drop(live);
        Some(passing)
    }

    /// The journal of a request, the same for all who follow it.
    fn journal(&self, task: &TaskId, directory: &RequestDirectory, published: u64) -> Arc<Journal> {
        let mut journals = self.journals.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(journal) = journals.get(task).and_then(Weak::upgrade) {
            return journal;
        }
        journals.retain(|_, journal| journal.strong_count() > 0);
        let journal = Journal::new(task.clone(), directory.clone(), published);
        journals.insert(task.clone(), Arc::downgrade(&journal));
        journal
    }
}

/// Parts that an engine is made of.
pub struct Setup {
    /// The user's settings.
    pub settings: Arc<Settings>,
    /// The files.
    pub workspace: Arc<Workspace>,
    /// Customization by users and workspaces.
    pub customization: Arc<Customization>,
    /// Directory of the logs.
    pub directory: WorkspaceDirectory,
    /// The user's directories; commands don't see into them.
    pub directories: Directories,
    /// The program that holds the bounds of commands: this one.
    pub helper: Helper,
    /// Time and randomness.
    pub clock: Arc<dyn Clock>,
    /// The tools of servers.
    pub server_tools: Arc<dyn ServerTools>,
}

/// Runs the tasks of one workspace.
pub struct Engine {
    setting: Arc<EngineServices>,
    directory: WorkspaceDirectory,
    registry: Arc<Registry>,
    opened: broadcast::Sender<Arc<Journal>>,
    cancel: CancellationToken,
}

impl Engine {
    /// An engine over a workspace.
    pub fn new(setup: Setup) -> Self {
        let Setup { settings, workspace, customization, directory, directories, helper, clock, server_tools } =
            setup;
        let reserve = Reserve::new(&directories.state);
        let orchestration = Arc::new(Orchestration::new(Arc::clone(&workspace), directory.path()));
        let recorder = Arc::new(Recorder::new(
            directory.path().to_owned(),
            workspace.roots().paths().next().map(Path::to_path_buf),
            Arc::clone(&orchestration),
            reserve.clone(),
        ));
        let rules = StandingRules::new(directory.path()).with_user_rules(&directories.state);
        let rules = Arc::new(rules);
        let bounds = Arc::new(Bounds::new(helper, directories, directory.path().to_owned()));
        bounds.clean();
        let gate = Gate::new(PolicyContext {
            workspace: Arc::clone(&workspace),
            settings: Arc::clone(&settings),
            customization: Arc::clone(&customization),
            orchestration: Arc::clone(&orchestration),
            rules: Arc::clone(&rules),
            recorder: Arc::clone(&recorder),
            bounds,
            server_tools,
        });
        let models = Mutex::default();
        let setting = EngineServices {
            settings,
            workspace,
            customization,
            orchestration,
            rules,
            recorder,
            gate,
            clock,
            models,
            reserve,
        };
        Self {
            setting: Arc::new(setting),
            directory,
            registry: Arc::default(),
            opened: broadcast::Sender::new(64),
            cancel: CancellationToken::new(),
        }
    }

    /// The workspace that the engine works on.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.setting.workspace
    }

    /// The settings that the engine works by.
    pub fn settings(&self) -> &Arc<Settings> {
        &self.setting.settings
    }

    /// Returns the standing rules.
    pub fn rules(&self) -> &StandingRules {
        &self.setting.rules
    }

    /// The workspace's intents.
    pub fn orchestration(&self) -> &Arc<Orchestration> {
        &self.setting.orchestration
    }

    /// Milliseconds since the Unix epoch, by the engine's clock.
    pub fn now(&self) -> i64 {
        self.setting.clock.now()
    }

    /// The journals of requests as they come to live in this process.
    pub fn opened(&self) -> broadcast::Receiver<Arc<Journal>> {
        self.opened.subscribe()
    }

    /// The journals of all requests that live in this process.
    pub fn journals(&self) -> Vec<Arc<Journal>> {
        self.registry.live().values().map(|live| Arc::clone(&live.journal)).collect()
    }

    /// Starts a request.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown mode or profile or an empty prompt,
    /// [`EngineError::Store`] when its log can't be made.
    pub fn start(&self, params: TaskStartParams) -> Result<TaskStartResult, EngineError> {
        let settings = &self.setting.settings;
        if params.prompt.trim().is_empty() {
            return Err(EngineError::Configuration("the prompt is empty".into()));
        }
        let mode = params.mode.unwrap_or_else(|| settings.mode.clone());
        let modes = self.setting.modes();
        let mode = modes.find(&mode).map_err(|error| EngineError::Configuration(error.to_string()))?;
        let pinned = params.profile.is_some();
        let profile_name = match params.profile {
            Some(name) => name,
            None => settings.profile_of(&mode.slug).0.to_owned(),
        };
        let profile = settings.profiles.get(&profile_name).ok_or_else(|| unknown_profile(&profile_name))?;
        let id = TaskId::new(self.setting.clock.ordered().to_string());
        let (urid, task_directory) = self.draw_urid();
        let log = RequestLog::create(self.directory.request(&id))?;
        let created = Event::Created {
            parent: None,
            urid: urid.clone(),
            mode: mode.slug.clone(),
            profile: profile_name,
            protocol: profile.tool_protocol(),
            title: render::one_line(params.prompt.trim(), task::TITLE),
            limits: settings.limits,
            emoji: mode.emoji.clone(),
            gather: mode.gathers_context && settings.system_context.run == RunContext::Native,
            unread: vec![],
            pinned,
            intent: None,
            within: vec![],
        };
        let (task_directory, trouble) = match task_directory {
            Ok(directory) => (directory, None),
            Err(error) => (None, Some(error)),
        };
        let places: Vec<Place> =
            params.context.iter().map(|item| context::place(&self.setting.workspace, item)).collect();
        let brief = prompts::brief(&Brief {
            prompt: &params.prompt,
            urid: &urid,
            task_directory: task_directory.as_deref(),
            context: &places,
        });
        let mentions = task::may_mention(&params.prompt);
        let message = Message {
            id: MessageId::new("m1"),
            kind: MessageKind::Say(Say::Text),
            text: params.prompt,
            images: params.images,
        };
        let said = Event::UserSaid { message, text: brief, mentions, hooks: false };
        let first = vec![(id.clone(), created.clone()), (id.clone(), said)];
        // The machine's first event makes its state; the actor folds it again without effect.
        let Some(task) = Task::created(id.clone(), &created, 0, self.setting.clock.now()) else {
            return Err(EngineError::NotFound { what: "task", id: id.to_string() });
        };
        let journal = self.registry.journal(&id, log.directory(), 0);
        if let Some(error) = trouble {
            let reason = format!("the request's directory can't be created: {error}");
            journal.warn(self.now(), WireEvent::ServerDegraded { reason });
        }
        // Whoever started it follows it.
        drop(self.spawn(log, Tree::new(task), journal, first));
        Ok(TaskStartResult { task_id: id, urid })
    }

    /// An id for a request, and its directory, which is made with it; none where there is no root, and why not
    /// where it can't be made. One that is there already is another request's.
    fn draw_urid(&self) -> (Urid, Result<Option<String>, DirectoryError>) {
        let draw = || modes::urid(self.setting.clock.zoned().datetime(), self.setting.clock.random());
        let mut urid = draw();
        if self.workspace().roots().paths().next().is_none() {
            return (urid, Ok(None));
        }
        for _ in 0..URID_DRAWS {
            let directory = modes::task_directory(&urid);
            match self.workspace().create_directory(&directory) {
                Ok(true) => {
                    self.setting.gate.exclude_private_files();
                    return (urid, Ok(Some(directory)));
                }
                Ok(false) => urid = draw(),
                Err(error) => return (urid, Err(error)),
            }
        }
        let directory = modes::task_directory(&urid);
        (urid, Ok(Some(directory)))
    }

    /// Begins to drive a request. What is returned is told when its first events are in the log.
    fn spawn(
        &self,
        log: RequestLog,
        tree: Tree,
        journal: Arc<Journal>,
        first: Vec<Fact>,
    ) -> oneshot::Receiver<()> {
        let (begun, told) = oneshot::channel();
        let reserve = self.setting.reserve.clone();
        tokio::task::spawn_blocking(move || {
            if let Err(error) = reserve.fill() {
                tracing::info!(%error, "no disk space is reserved for a full disk");
            }
        });
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let id = tree.root().id.clone();
        let actor = Actor::new(
            Arc::clone(&self.setting),
            log,
            tree,
            Arc::clone(&journal),
            (&sender, mailbox),
            Arc::clone(&self.registry),
            self.cancel.child_token(),
        );
        self.registry.live().insert(id, Live { sender, journal: Arc::clone(&journal) });
        tokio::spawn(actor.run(first, begun));
        // Nobody may be listening.
        let _ = self.opened.send(journal);
        told
    }

    /// Brings a request to life, if it doesn't live here yet. It can't leave before what is returned is
    /// dropped.
    async fn open(&self, task: &TaskId) -> Result<Passing, EngineError> {
        let passing = self.registry.passing().await;
        if self.registry.live().contains_key(task) {
            return Ok(passing);
        }
        let directory = self.request(task)?;
        let opened = tokio::task::spawn_blocking(move || RequestLog::open::<Event>(directory)).await;
        let (log, loaded) = opened.map_err(|_| EngineError::Ending)??;
        for damage in &loaded.damage {
            tracing::warn!(%task, "the log is damaged: {damage}");
        }
        let tree = fold(task, &loaded.records)?;
        let first = tree.interrupt();
        let journal = self.registry.journal(task, log.directory(), log.last_seq());
        if let Some(damage) = loaded.damage.first() {
            let reason = format!("the log of the task is damaged: {damage}; the rest of it was read");
            journal.warn(self.now(), WireEvent::ServerDegraded { reason });
        }
        let begun = self.spawn(log, tree, journal, first);
        // Who opens a request and looks at it at once sees that it was interrupted. A disk that refuses the
        // event keeps nobody waiting.
        let _ = tokio::time::timeout(BEGIN_GRACE, begun).await;
        Ok(passing)
    }

    fn request(&self, task: &TaskId) -> Result<RequestDirectory, EngineError> {
        let not_found = || EngineError::NotFound { what: "task", id: task.to_string() };
        // An id comes from clients and names a directory.
        let root = task.root();
        uuid::Uuid::try_parse(root.as_str()).map_err(|_| not_found())?;
        let directory = self.directory.request(&root);
        if directory.exists() { Ok(directory) } else { Err(not_found()) }
    }

    async fn command(&self, task: &TaskId, command: Command) -> Result<Reply, EngineError> {
        let (sender, answer) = oneshot::channel();
        let root = task.root();
        let mail = ActorMessage::Command(task.clone(), command, sender);
        // Opening one request must not hold up what is said to others.
        if let Err(mail) = self.post(&root, mail)? {
            let _passing = self.open(&root).await?;
            self.post(&root, mail)?.map_err(|_| EngineError::Ending)?;
        }
        answer.await.unwrap_or(Err(EngineError::Ending))
    }

    /// Gives mail to a request that lives here, or back. It is sent under the lock under which a request
    /// leaves: an actor that leaves has no mail.
    fn post(&self, task: &TaskId, mail: ActorMessage) -> Result<Result<(), ActorMessage>, EngineError> {
        let live = self.registry.live();
        let Some(Live { sender, .. }) = live.get(task) else { return Ok(Err(mail)) };
        match sender.try_send(mail) {
            Ok(()) => Ok(Ok(())),
            Err(TrySendError::Full(_)) => Err(EngineError::Overloaded),
            Err(TrySendError::Closed(_)) => Err(EngineError::Ending),
        }
    }

    async fn input(&self, task: &TaskId, input: Input) -> Result<(), EngineError> {
        self.command(task, Command::Input(Box::new(input))).await.map(|_| ())
    }

    /// Says something to a task.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn send(&self, params: TaskSendParams) -> Result<(), EngineError> {
        let TaskSendParams { task_id, text, images, when } = params;
        self.input(&task_id, Input::Send { text, images, when }).await
    }

    /// Ends a task and its branches. What runs is ended, what waits is void.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn cancel(&self, task: &TaskId) -> Result<(), EngineError> {
        self.input(task, Input::Cancel).await
    }

    /// Sends the command that a task runs, or one of its branches, to the background.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] when it runs none.
    pub async fn background_command(&self, task: &TaskId) -> Result<(), EngineError> {
        self.command(task, Command::Background).await.map(|_| ())
    }

    /// Ends a command in the background. Returns before it has ended.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it doesn't run.
    pub async fn stop_command(&self, task: &TaskId, command: CommandId) -> Result<(), EngineError> {
        self.command(task, Command::Stop(command)).await.map(|_| ())
    }

    /// Lets an interrupted, cancelled or failed task go on, with the whole request that it belongs to.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] for any other task.
    pub async fn resume(&self, task: &TaskId) -> Result<(), EngineError> {
        self.input(task, Input::Resume).await
    }

    /// Changes a waiting message.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it isn't waiting.
    pub async fn edit_queued(&self, params: QueueEditParams) -> Result<(), EngineError> {
        self.input(&params.task_id, Input::EditQueued { id: params.item_id, text: params.text }).await
    }

    /// Takes a waiting message back.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it isn't waiting.
    pub async fn delete_queued(&self, params: QueueDeleteParams) -> Result<(), EngineError> {
        self.input(&params.task_id, Input::DeleteQueued { id: params.item_id }).await
    }

    /// Answers an approval. The first answer counts.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Mismatch`] for another digest or an unknown option.
    pub async fn respond(
        &self,
        params: ApprovalRespondParams,
        by: &str,
    ) -> Result<AnswerResult, EngineError> {
        let approval_id = params.approval_id.to_string();
        let task = owner("approval", &approval_id)?;
        let ApprovalRespondParams { digest, option_id, opened, text, .. } = params;
        let command = Command::Respond { approval_id, digest, option_id, opened, text, by: by.to_owned() };
        match self.command(&task, command).await? {
            Reply::Rule(answer, NewRule { scope, verdict, subject, trusts }) => {
                let (rules, now) = (&self.setting.rules, self.now());
                let added = match scope {
                    RuleScope::Workspace => rules.add(verdict, subject, by, now),
                    RuleScope::User => rules.add_everywhere(verdict, subject, by, now),
                };
                // What was answered holds for this call, whatever becomes of the rule.
                if let Err(error) = added {
                    tracing::error!(%error, "a standing rule was not kept");
                }
                if let Some(brings) = trusts
                    && let Err(error) = self.setting.customization.grant(&Grant::AsShown { brings })
                {
                    tracing::error!(%error, "the workspace was not trusted");
                }
                Ok(answer)
            }
            Reply::Answer(answer) => Ok(answer),
            Reply::Done => Err(EngineError::Mismatch { problem: "no answer was wanted".into() }),
        }
    }

    /// The files that a waiting approval is about, before and after; none when it isn't about files.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it doesn't wait, [`EngineError::Mismatch`] when its file has changed so
    /// that the edit no longer fits.
    pub async fn preview(&self, approval: &ApprovalId) -> Result<Vec<FilePreview>, EngineError> {
        let id = owner("approval", approval.as_str())?;
        let (tree, _) = self.read_as_it_is(&id).await?;
        let task = tree
            .task(&id)
            .filter(|task| task.approval().is_some_and(|waiting| waiting.approval_id == *approval));
        let not_found = || EngineError::NotFound { what: "approval", id: approval.to_string() };
        let task = task.ok_or_else(not_found)?;
        let Some(call) = task.call_as_it_runs() else { return Ok(vec![]) };
        let is_edit = call.effect() == Effect::Write;
        if !is_edit {
            return Ok(vec![]);
        }
        let Some(files) = self.setting.gate.preview(&call, &task.files.seen).await else {
            let problem = "its file has changed since; your answer leads to a new question".to_owned();
            return Err(EngineError::Mismatch { problem });
        };
        let shown = |preview: Preview| {
            let open = self.workspace().documents().at(preview.file.absolute());
            FilePreview {
                uri: open.map_or_else(|| preview.file.uri(), |document| document.uri),
                moved_to: preview.moved_to.map(|to| to.uri()),
                before: preview.before,
                deleted: preview.after.is_none(),
                after: preview.after.unwrap_or_default(),
            }
        };
        Ok(files.into_iter().map(shown).collect())
    }

    /// Answers a question. The first answer counts.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    pub async fn answer(&self, params: QuestionAnswerParams, by: &str) -> Result<AnswerResult, EngineError> {
        let task = owner("question", params.question_id.as_str())?;
        let QuestionAnswerParams { question_id, text, images } = params;
        let question_id: QuestionId = question_id;
        self.answered(&task, Command::Answer { question_id, text, images, by: by.to_owned() }).await
    }

    async fn answered(&self, task: &TaskId, command: Command) -> Result<AnswerResult, EngineError> {
        match self.command(task, command).await? {
            Reply::Answer(answer) | Reply::Rule(answer, ..) => Ok(answer),
            Reply::Done => Err(EngineError::Ending),
        }
    }

    /// A cursor over a request, behind the event `after`. A request that is not at its end comes to life.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when it can't be read or is driven elsewhere.
    pub async fn follow(&self, task: &TaskId, after: u64) -> Result<Follower, EngineError> {
        let task = &task.root();
        if let Some(live) = self.registry.live().get(task) {
            return Ok(live.journal.follow(after));
        }
        // What has ended needs no actor to be looked at, and no lock that another window may hold.
        let directory = self.request(task)?;
        let (state, _) = self.read(task).await?;
        if state.root().state().is_final() {
            return Ok(self.registry.journal(task, &directory, state.last_seq()).follow(after));
        }
        let _passing = self.open(task).await?;
        let live = self.registry.live();
        live.get(task).map(|live| live.journal.follow(after)).ok_or(EngineError::Ending)
    }

    /// The state of a request and all its records, from its log.
    async fn read(&self, root: &TaskId) -> Result<(Tree, Vec<roo_durable::Record<Event>>), EngineError> {
        let (directory, task) = (self.request(root)?, root.clone());
        let read = tokio::task::spawn_blocking(move || {
            let (records, _) = roo_durable::read_from::<Event>(&directory, 0, usize::MAX)?;
            Ok((fold(&task, &records)?, records))
        });
        read.await.unwrap_or(Err(EngineError::Ending))
    }

    /// A task as it is now.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn get(&self, task: &TaskId) -> Result<TaskSnapshot, EngineError> {
        let (tree, records) = self.read_as_it_is(task).await?;
        let state =
            tree.task(task).ok_or_else(|| EngineError::NotFound { what: "task", id: task.to_string() })?;
        let item = if task.is_root() { tree.history_item() } else { state.history_item() };
        let own = records.iter().filter(|record| record.task_id == *task);
        Ok(snapshot(state, item, own.map(|record| &record.event)))
    }

    /// The invocation tree of the request that a task belongs to; the drawing marks the task.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn tree(&self, task: &TaskId) -> Result<TreeGetResult, EngineError> {
        let (tree, _) = self.read_as_it_is(task).await?;
        if tree.task(task).is_none() {
            return Err(EngineError::NotFound { what: "task", id: task.to_string() });
        }
        Ok(TreeGetResult { nodes: tree.nodes(), text: tree.draw(task) })
    }

    /// As [`Engine::read`]; what no process drives any more is interrupted, whether its log says so or not.
    async fn read_as_it_is(
        &self,
        task: &TaskId,
    ) -> Result<(Tree, Vec<roo_durable::Record<Event>>), EngineError> {
        let root = task.root();
        let (mut tree, records) = self.read(&root).await?;
        let is_live = self.registry.live().contains_key(&root);
        if !is_live && !tree.root().state().is_final() && !self.request(&root)?.is_held() {
            tree.set_interrupted();
        }
        Ok((tree, records))
    }

    /// The requests of this workspace, newest first, at most 100 behind the cursor.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn list(&self, cursor: Option<String>) -> Result<TaskListResult, EngineError> {
        let directory = self.directory.clone();
        let registry = Arc::clone(&self.registry);
        let list = tokio::task::spawn_blocking(move || {
            let ids = directory.requests()?;
            let after = |id: &TaskId| cursor.as_deref().is_none_or(|cursor| id.as_str() < cursor);
            let mut items = Vec::new();
            let mut next_cursor = None;
            for id in ids.into_iter().filter(after) {
                if items.len() == LIST_PAGE {
                    next_cursor = items.last().map(|item: &HistoryItem| item.task_id.to_string());
                    break;
                }
                let known = registry.summaries().get(&id).cloned();
                items.extend(known.or_else(|| summary(&directory.request(&id), &id)));
            }
            Ok(TaskListResult { items, next_cursor })
        });
        list.await.unwrap_or(Err(EngineError::Ending))
    }

    /// Removes a request and all that is kept of it.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] while it isn't at its end.
    pub async fn delete(&self, task: &TaskId) -> Result<(), EngineError> {
        if !task.is_root() {
            let problem = "it is a branch; delete its request instead".to_owned();
            return Err(EngineError::WrongState { task: task.clone(), problem });
        }
        let directory = self.request(task)?;
        self.command(task, Command::Delete).await?;
        let _passing = self.registry.passing().await;
        self.registry.live().remove(task);
        self.registry.summaries().remove(task);
        let removed = tokio::task::spawn_blocking(move || directory.remove()).await;
        Ok(removed.map_err(|_| EngineError::Ending)??)
    }

    /// Puts a task into another mode, with the model that the settings give it. Its next turn is in
    /// that mode.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown mode.
    pub async fn switch_mode(&self, task: &TaskId, slug: &str) -> Result<(), EngineError> {
        let change =
            self.setting.mode_change(slug).map_err(|error| EngineError::Configuration(error.to_string()))?;
        self.input(task, Input::Change(change)).await
    }

    /// Binds a request's own task to an intent, as its user wants it. A branch keeps what it was given.
    ///
    /// # Errors
    /// [`EngineError::Mismatch`] when the intent can't be selected or is no longer what the user has seen.
    pub async fn select_intent(&self, task: &TaskId, id: &str, digest: Digest) -> Result<(), EngineError> {
        if !task.is_root() {
            let problem = "a branch is bound by whoever delegated it".to_owned();
            return Err(EngineError::WrongState { task: task.clone(), problem });
        }
        let orchestration = Arc::clone(&self.setting.orchestration);
        let wanted = id.to_owned();
        let accepted = tokio::task::spawn_blocking(move || {
            let file = orchestration.selectable(&wanted).map_err(|refusal| refusal.to_string())?;
            let intent = file.get(&wanted).filter(|intent| intent.digest() == digest);
            let intent = intent.ok_or("the intent has changed; review it again")?;
            orchestration.accept(intent).map_err(|error| error.to_string())?;
            Ok::<_, String>(intent.name.clone())
        });
        let name = accepted
            .await
            .map_err(|_| EngineError::Ending)?
            .map_err(|problem| EngineError::Mismatch { problem })?;
        if let Err(error) = self.setting.orchestration.begin(id).await {
            tracing::warn!(intent = %id, %error, "an intent's status was not changed");
        }
        self.input(task, Input::BindIntent { intent: Binding { id: id.to_owned(), digest }, name }).await
    }

    /// Gives a task another model. Its next turn is made with that.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown profile.
    pub async fn select_profile(&self, task: &TaskId, name: &str) -> Result<(), EngineError> {
        let profile = self.setting.settings.profiles.get(name);
        let profile = profile.ok_or_else(|| unknown_profile(name))?;
        let change = ModeChange { mode: None, profile: Some((name.to_owned(), profile.tool_protocol())) };
        self.input(task, Input::Change(change)).await
    }

    /// Ends what runs, leaving every task as it is, to be resumed later. Returns when no effect runs
    /// any more and no log is locked.
    pub async fn shutdown(&self) {
        let all: Vec<Live> = self.registry.live().drain().map(|(_, live)| live).collect();
        let ends = all.into_iter().map(|live| async move {
            let (sender, done) = oneshot::channel();
            if live.sender.send(ActorMessage::Shutdown(sender)).await.is_ok() {
                // Either way the actor has ended.
                let _ = done.await;
            }
        });
        futures_util::future::join_all(ends).await;
        // A request that has just ended is no longer among them, but may still hold the locks of its log.
        drop(self.registry.passing().await);
        self.cancel.cancel();
    }

    /// Ends the servers whose tools tasks called. To be called behind [`Engine::shutdown`].
    pub async fn end_servers(&self) {
        self.setting.gate.server_tools().shut_down().await;
    }
}

/// The root task in the id of one of its approvals or questions.
fn owner(what: &'static str, id: &str) -> Result<TaskId, EngineError> {
    match id.rsplit_once('.') {
        Some((task, _)) => Ok(TaskId::new(task)),
        None => Err(EngineError::NotFound { what, id: id.to_owned() }),
    }
}

fn fold(id: &TaskId, records: &[roo_durable::Record<Event>]) -> Result<Tree, EngineError> {
    Tree::fold(id, records).ok_or_else(|| EngineError::WrongState {
        task: id.clone(),
        problem: "its log does not begin with its creation".into(),
    })
}

fn unknown_profile(name: &str) -> EngineError {
    EngineError::Configuration(format!(
        "there is no model profile '{name}'; run `roo-lsp setup`, or define profiles.{name} in config.yaml or in \
         initializationOptions"
    ))
}

/// The summary of a request that doesn't live here.
fn summary(directory: &RequestDirectory, id: &TaskId) -> Option<HistoryItem> {
    let kept = directory.summary::<HistoryItem>();
    if let Some(item) = kept.filter(|item| item.state.is_final() || directory.is_held()) {
        return Some(item);
    }
    // It was lost, or its process ended before it was brought up to date: the log knows. One that is gone
    // or can't be read is damaged too.
    let (records, _) = roo_durable::read_from::<Event>(directory, 0, usize::MAX).unwrap_or_default();
    let Ok(mut tree) = fold(id, &records) else {
        // What can't be read any more must not look as if it had never been.
        return directory.summary::<HistoryItem>().map(|item| HistoryItem {
            title: format!("[damaged log] {}", item.title),
            state: TaskState::Failed,
            ..item
        });
    };
    tree.set_interrupted();
    let item = tree.history_item();
    if item.state.is_final()
        && let Err(error) = directory.write_summary(&item)
    {
        tracing::warn!(%error, "the summary can't be written");
    }
    Some(item)
}

fn runs_command(tool: &str) -> bool {
    ToolId::of_call(tool).is_some_and(|tool| tool.effect() == Effect::Execute)
}

/// Returns the message that an event adds to a task. The output of a command is shown live, and here.
fn message_of(event: &Event) -> Option<Message> {
    match event {
        Event::ToolFinished { result, .. } if runs_command(&result.name) => Some(Message {
            id: MessageId::new(result.call_id.as_str()),
            kind: MessageKind::Say(Say::CommandOutput),
            text: result.text.clone(),
            images: vec![],
        }),
        event => match event.to_wire() {
            WireEvent::Message { message } => Some(message),
            _ => None,
        },
    }
}

fn snapshot<'a>(task: &Task, item: HistoryItem, events: impl Iterator<Item = &'a Event>) -> TaskSnapshot {
    let mut messages: Vec<Message> = Vec::new();
    let mut places: HashMap<MessageId, usize> = HashMap::new();
    let mut called: HashMap<&ToolCallId, &MessageId> = HashMap::new();
    let mut calls = Vec::new();
    for event in events {
        match event {
            Event::Called { message, call } => {
                called.insert(&call.id, &message.id);
            }
            Event::ToolFinished { result, summary, .. } => {
                calls.extend(called.get(&result.call_id).map(|&message| CallOutcome {
                    message_id: message.clone(),
                    name: result.name.clone(),
                    subject: result.subject.clone(),
                    status: result.status,
                    summary: summary.clone(),
                }));
            }
            _ => {}
        }
        if let Some(message) = message_of(event) {
            match places.get(&message.id) {
                Some(&place) => messages[place] = message,
                None => {
                    places.insert(message.id.clone(), messages.len());
                    messages.push(message);
                }
            }
        }
    }
    TaskSnapshot {
        item,
        root_id: task.id.root(),
        result: task.result().map(str::to_owned),
        reason: task.reason().map(str::to_owned),
        messages,
        calls,
        todo: task.todo.clone(),
        queue: task.queue.clone(),
        approval: task.approval().cloned(),
        question: task.question().cloned(),
        tool_usage: task.totals.tools.clone(),
    }
}
