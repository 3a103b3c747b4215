//! The engine: tasks as pure machines over logs, and the actors that drive them.
//!
//! [`Engine`] is all that a front end needs: it starts and steers tasks, answers their questions, and
//! hands out [`Follower`]s. It knows neither editors nor protocols, and it assumes neither one client
//! nor one workspace root. What a task may do to the world is decided by [`crate::policy`] and done by
//! [`crate::tools`].

mod actor;
mod actor_message;
mod audit;
mod caller;
pub mod cassette;
mod changes;
mod checkpoint_store;
mod checkpoints;
pub mod clock;
mod compaction;
mod connected_models;
mod context;
mod defect;
mod descriptors;
mod edit_problems;
mod effect_context;
mod effects;
pub mod event;
mod exports;
mod forks;
mod gather;
mod history;
mod hook_changes;
mod hook_dispatch;
mod imports;
mod instructions;
mod journal;
mod rate_limits;
mod replay;
mod reporter;
mod services;
pub mod task;
pub mod tree;
mod unwaited_hooks;
mod worktrees;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use std::time::Duration;

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use self::actor::Actor;
use self::actor_message::{ActorMessage, Command, Reply};
use self::audit::LastEdits;
use self::cassette::{Cassette, NotRecordable};
use self::checkpoint_store::CheckpointStore;
use self::clock::Clock;
use self::descriptors::DescriptorBudget;
use self::event::Event;
use self::history::RequestHistory;
use self::rate_limits::RateLimits;
use self::services::{CurrentServices, EngineServices, SharedServices};
use self::task::{Choice, Input, NewRule, Task};
use self::tree::{Fact, Fold, Tree};
use self::unwaited_hooks::UnwaitedHooks;
use crate::approvals::StandingRules;
use crate::customization::{CONDENSE, Customization, Grant};
use crate::intent_store::{Binding, Orchestration};
use crate::policy::{
    Bounds, Gate, ModeChange, PolicyContext, Preview, Recorder, Review, hunks_of, mask_preview,
};
use crate::server_tools::ServerTools;
use crate::tool_run::{CommandRunner, ShadowRepositories};
use crate::tools::codebase_search_result;
use roo_catalog::{Effect, ToolId, ToolName};
use roo_durable::reserve::Reserve;
use roo_durable::{Record, RequestDirectory, RequestLog, StoreError, WorkspaceDirectory};
use roo_formats::config::{Directories, RunContext, Settings, SettingsSource, UnknownProfile};
use roo_formats::modes;
use roo_formats::roo_code::tasks::PastTask;
use roo_index::CodeIndex;
use roo_language_servers::LanguageServers;
use roo_model::prompts::{self, Brief, Place};
use roo_model::providers::ModelSource;
use roo_protocol::context::{ContextGetResult, ContextRestoreParams};
use roo_protocol::error::ErrorKind;
use roo_protocol::event::{Event as WireEvent, EventParams};
use roo_protocol::ids::{ApprovalId, CommandId, Digest, MessageId, QuestionId, TaskId, ToolCallId, Urid};
use roo_protocol::message::{Message, MessageKind, Say};
use roo_protocol::review::Hunk;
use roo_protocol::rule::{RuleScope, RuleSubject};
use roo_protocol::task::{
    AnswerResult, ApprovalRespondParams, CallOutcome, FilePreview, HistoryItem, KeptWorktree,
    PendingApproval, PendingQuestion, QuestionAnswerParams, QueueDeleteParams, QueueEditParams,
    TaskListResult, TaskSendParams, TaskSnapshot, TaskStartParams, TaskStartResult, TaskState,
    WaitingApproval,
};
use roo_protocol::tree::{TreeGetResult, TreeNode};
use roo_sandbox::exec::sandbox::Helper;
use roo_text::render;
use roo_workspace::{DirectoryError, Workspace};

pub use self::changes::as_diff;
pub use self::checkpoints::{ChangedBy, ComparedFile, ComparedRequest, Comparison};
pub use self::compaction::instructions_share;
pub use self::descriptors::blocking_threads;
pub use self::imports::{ImportSettings, ImportedRequest, ImportedRequests};
pub use self::instructions::{Governed, Instructions, ToolSources};
pub use self::journal::{Follower, Journal};
pub use self::replay::{ReplayDifference, Replayed, ReplayedEvent, replay};
pub use self::task::{FrameShare, PROVIDER_REFUSED, UNATTENDED_REFUSAL};

/// Capacity of an actor's mailbox; beyond it a client is told to try again. Every branch of a request may have a report
/// on its way, and those must not crowd out what clients want.
const MAILBOX: usize = 256;
/// Time to wait for the first events of a request that is started or resumed.
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
            Self::Store(StoreError::Forked { .. }) => ErrorKind::WrongState,
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
            Self::Store(StoreError::Forked { .. }) => "Delete the forks first.",
            Self::Store(StoreError::Held { .. }) => "Use the window that runs it, or close that window.",
            Self::Store(StoreError::TooManyOpenFiles { .. }) => {
                "Raise the limit on open files (`ulimit -n`) and start the server again."
            }
            Self::Refused | Self::Store(_) => "Check the disk and the permissions of the state directory.",
        }
    }
}

/// A request that lives in this process.
#[derive(Clone)]
struct Live {
    sender: mpsc::Sender<ActorMessage>,
    journal: Arc<Journal>,
    /// Whether the first events are in the log; closed when the actor ended before.
    begun: watch::Receiver<bool>,
    /// Its id for people.
    urid: Urid,
    /// Its invocation tree, as its newest events have made it.
    nodes: watch::Receiver<Vec<TreeNode>>,
}

/// The requests that live in this process: those that are not at their end, and those that somebody
/// has just opened.
#[derive(Default)]
struct Registry {
    live: Mutex<HashMap<TaskId, Live>>,
    /// The journals that somebody still follows, also of requests that no longer live.
    journals: Mutex<HashMap<TaskId, Weak<Journal>>>,
    /// The newest summaries of what lives here.
    summaries: Mutex<HashMap<TaskId, HistoryItem>>,
    /// Held while a request comes to life or leaves, so that its log's locks pass on in good order.
    passing: Arc<tokio::sync::Mutex<()>>,
    /// One has left.
    left: watch::Sender<()>,
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

    /// Takes a request out, unless somebody has sent it something. Messages are sent under the same lock.
    async fn leave(&self, task: &TaskId, is_unwanted: impl Fn() -> bool) -> Option<Passing> {
        let passing = self.passing().await;
        let mut live = self.live();
        if !is_unwanted() {
            return None;
        }
        let left = live.remove(task);
        drop(live);
        if let Some(left) = left {
            left.journal.leave();
        }
        self.left.send_replace(());
        // Another process may go on with it. Its directory has the summary.
        self.summaries().remove(task);
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
    /// The user's settings, as they are when a turn needs them.
    pub settings: Arc<dyn SettingsSource>,
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
    /// Connects profiles with models.
    pub models: Arc<dyn ModelSource>,
    /// Runs commands that no sandbox bounds.
    pub commands: Arc<dyn CommandRunner>,
    /// The tools of servers.
    pub server_tools: Arc<dyn ServerTools>,
    /// The language servers of the workspace.
    pub language_servers: Arc<LanguageServers>,
    /// The index of the workspace's code.
    pub code_index: Arc<CodeIndex>,
}

/// State of a request at one of its events: what has to be known before it resumes, and to tell whether it waits.
pub struct Resumable {
    /// Its id for people.
    pub urid: Urid,
    /// The number of its newest event. A follower that has not handed it out yet knows less than the rest tells.
    pub seq: u64,
    /// Its invocation tree.
    pub nodes: Vec<TreeNode>,
    /// The approvals that wait in tasks that are not at their end.
    pub approvals: Vec<(TaskId, PendingApproval)>,
    /// The questions that wait in tasks that are not at their end.
    pub questions: Vec<(TaskId, PendingQuestion)>,
}

impl Resumable {
    fn of(tree: &Tree) -> Self {
        let open = || tree.tasks().iter().filter(|task| !task.state().is_final());
        let approvals = open().filter_map(|task| Some((task.id.clone(), task.approval()?.clone())));
        let questions = open().filter_map(|task| Some((task.id.clone(), task.question()?.clone())));
        Self {
            urid: tree.root().urid.clone(),
            seq: tree.last_seq(),
            nodes: tree.nodes(),
            approvals: approvals.collect(),
            questions: questions.collect(),
        }
    }
}

/// Runs the tasks of one workspace.
pub struct Engine {
    services: Arc<SharedServices>,
    current: Arc<CurrentServices>,
    directory: WorkspaceDirectory,
    history: Arc<Mutex<RequestHistory>>,
    registry: Arc<Registry>,
    opened: broadcast::Sender<Arc<Journal>>,
    cancel: CancellationToken,
}

impl Engine {
    /// An engine over a workspace.
    pub fn new(setup: Setup) -> Self {
        let Setup {
            settings,
            workspace,
            customization,
            directory,
            directories,
            helper,
            clock,
            models,
            commands,
            server_tools,
            language_servers,
            code_index,
        } = setup;
        let (source, settings) = (Arc::clone(&settings), settings.settings());
        let reserve = Reserve::new(&directories.state);
        let orchestration = Arc::new(Orchestration::new(Arc::clone(&workspace), directory.path()));
        let recorder = Recorder::new(
            directory.path().to_owned(),
            workspace.roots().paths().next().map(Path::to_path_buf),
            Arc::clone(&orchestration),
            reserve.clone(),
        );
        let recorder = Arc::new(recorder.behind(&workspace));
        let root = workspace.roots().paths().next();
        let rules = StandingRules::new(directory.path(), root).with_user_rules(&directories.state);
        let rules = Arc::new(rules);
        let bounds = Arc::new(Bounds::new(helper, directories, directory.path().to_owned()));
        let requests = directory.clone();
        bounds.clean(move |age| history::in_use(&requests, age));
        let gate = Gate::new(PolicyContext {
            workspace: Arc::clone(&workspace),
            settings: Arc::clone(&settings),
            customization: Arc::clone(&customization),
            orchestration: Arc::clone(&orchestration),
            rules: Arc::clone(&rules),
            recorder: Arc::clone(&recorder),
            bounds,
            server_tools,
            language_servers,
            code_index,
            models: Arc::clone(&models),
            is_worktree: false,
        });
        let services = Arc::new(SharedServices {
            workspace,
            customization,
            orchestration,
            rules,
            recorder,
            checkpoints: Arc::new(CheckpointStore::new(directory.clone())),
            shadow: Some(Arc::new(ShadowRepositories::new(directory.path().join("shadow")))),
            branches: directory.path().join("branches"),
            rate_limits: Arc::new(RateLimits::new(Arc::clone(&clock))),
            clock,
            model_source: models,
            commands,
            reserve,
            descriptors: Arc::new(DescriptorBudget::new(roo_process::open_files::limit())),
            is_worktree: false,
            unwaited_hooks: UnwaitedHooks::default(),
        });
        let current = EngineServices::new(Arc::clone(&services), settings, gate);
        Self {
            services,
            current: Arc::new(CurrentServices::new(source, current)),
            history: Arc::new(Mutex::new(RequestHistory::new(&directory))),
            directory,
            registry: Arc::default(),
            opened: broadcast::Sender::new(64),
            cancel: CancellationToken::new(),
        }
    }

    /// The workspace that the engine works on.
    pub fn workspace(&self) -> &Arc<Workspace> {
        &self.services.workspace
    }

    /// The settings as they count now. May read the settings file, apart from the runtime's threads.
    pub async fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.current.read().await.settings)
    }

    /// Returns the standing rules.
    pub fn rules(&self) -> &StandingRules {
        &self.services.rules
    }

    /// The workspace's intents.
    pub fn orchestration(&self) -> &Arc<Orchestration> {
        &self.services.orchestration
    }

    /// Milliseconds since the Unix epoch, by the engine's clock.
    pub fn now(&self) -> i64 {
        self.services.clock.now()
    }

    /// The journals of requests as they come to live in this process.
    pub fn opened(&self) -> broadcast::Receiver<Arc<Journal>> {
        self.opened.subscribe()
    }

    /// The journals of all requests that live in this process.
    pub fn journals(&self) -> Vec<Arc<Journal>> {
        self.registry.live().values().map(|live| Arc::clone(&live.journal)).collect()
    }

    /// Returns whether a request lives in this process.
    pub fn is_live(&self, request: &TaskId) -> bool {
        self.registry.live().contains_key(request)
    }

    /// The invocation tree of a request that lives in this process, and the request's id for people; none for any other. Its log
    /// is not read.
    pub async fn live_tree(&self, request: &TaskId) -> Option<(Urid, Vec<TreeNode>)> {
        self.begun(request).await;
        let live = self.registry.live();
        let live = live.get(request)?;
        let nodes = live.nodes.borrow().clone();
        Some((live.urid.clone(), nodes))
    }

    /// Tells when a request that is at its end leaves this process: whoever goes on with it opens it again.
    pub fn left(&self) -> watch::Receiver<()> {
        self.registry.left.subscribe()
    }

    /// Starts a request.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown mode or profile, an empty prompt, or settings or a hooks file that can't be
    /// used, [`EngineError::Store`] when its log can't be made.
    pub fn start(&self, params: TaskStartParams) -> Result<TaskStartResult, EngineError> {
        self.start_as(self.draw_id(), params)
    }

    /// Returns an id for a request that is started later. Until then, nothing is kept of it.
    pub fn draw_id(&self) -> TaskId {
        TaskId::new(self.services.clock.ordered().to_string())
    }

    /// Starts a request under an id that was drawn for it.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn start_as(&self, id: TaskId, params: TaskStartParams) -> Result<TaskStartResult, EngineError> {
        let services = self.current.read_blocking();
        let settings = &services.settings;
        if params.prompt.trim().is_empty() {
            return Err(EngineError::Configuration("the prompt is empty".into()));
        }
        check_faults(&services)?;
        let mode = params.mode.unwrap_or_else(|| settings.mode.clone());
        let modes = services.modes();
        let mode = modes.find(&mode).map_err(|error| EngineError::Configuration(error.to_string()))?;
        let pinned = params.profile.is_some();
        let profile_name = match params.profile {
            Some(name) => name,
            None => settings.profile_of(&mode.slug).0.to_owned(),
        };
        let profile = settings.find_profile(&profile_name).map_err(unknown_profile)?;
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
            worktree: false,
        };
        let (task_directory, trouble) = match task_directory {
            Ok(directory) => (directory, None),
            Err(error) => (None, Some(error)),
        };
        let places: Vec<Place> =
            params.context.iter().map(|item| context::place(&self.services.workspace, item)).collect();
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
        let Some(task) = Task::created(id.clone(), &created, 0, self.services.clock.now()) else {
            return Err(EngineError::NotFound { what: "task", id: id.to_string() });
        };
        let journal = self.registry.journal(&id, log.directory(), 0);
        if let Some(error) = trouble {
            let reason = format!("the request's directory can't be created: {error}");
            journal.warn(self.now(), WireEvent::ServerDegraded { reason, until: None });
        }
        // Whoever started it follows it.
        self.spawn(log, Tree::new(task), journal, first);
        Ok(TaskStartResult { task_id: id, urid })
    }

    /// An id for a request, and its directory, which is made with it; none where there is no root, and why not
    /// where it can't be made. One that is there already is another request's.
    fn draw_urid(&self) -> (Urid, Result<Option<String>, DirectoryError>) {
        let draw = || modes::urid(self.services.clock.zoned().datetime(), self.services.clock.random());
        let mut urid = draw();
        if self.workspace().roots().paths().next().is_none() {
            return (urid, Ok(None));
        }
        for _ in 0..URID_DRAWS {
            let directory = modes::task_directory(&urid);
            match self.workspace().create_directory(&directory) {
                Ok(true) => {
                    self.current.newest().gate.exclude_private_files();
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
    fn spawn(&self, log: RequestLog, tree: Tree, journal: Arc<Journal>, first: Vec<Fact>) {
        let (begin, begun) = watch::channel(false);
        let (tell_nodes, nodes) = watch::channel(tree.nodes());
        let reserve = self.services.reserve.clone();
        roo_durable::spawn_blocking(move || {
            if let Err(error) = reserve.fill() {
                tracing::info!(%error, "no disk space is reserved for a full disk");
            }
        });
        let (sender, mailbox) = mpsc::channel(MAILBOX);
        let (id, urid) = (tree.root().id.clone(), tree.root().urid.clone());
        let actor = Actor::new(
            Arc::clone(&self.current),
            log,
            (tree, tell_nodes),
            Arc::clone(&journal),
            (&sender, mailbox),
            Arc::clone(&self.registry),
            self.cancel.child_token(),
        );
        self.registry.live().insert(id, Live { sender, journal: Arc::clone(&journal), begun, urid, nodes });
        tokio::spawn(actor.run(first, begin));
        // Nobody may be listening.
        let _ = self.opened.send(journal);
    }

    /// Waits for the first events of a request that lives here, so that whoever has started or opened it and looks at it
    /// at once finds them. A disk that refuses them keeps nobody waiting for longer than [`BEGIN_GRACE`].
    async fn begun(&self, root: &TaskId) {
        let begun = self.registry.live().get(root).map(|live| live.begun.clone());
        if let Some(mut begun) = begun {
            // An actor that has ended has said what it could.
            let _ = tokio::time::timeout(BEGIN_GRACE, begun.wait_for(|begun| *begun)).await;
        }
    }

    /// Brings a request to life, if it doesn't live here yet. It can't leave before what is returned is
    /// dropped.
    async fn open(&self, task: &TaskId) -> Result<Passing, EngineError> {
        Ok(self.open_and_tell(task).await?.0)
    }

    /// The same, and how the request was before, if it was brought to life.
    async fn open_and_tell(&self, task: &TaskId) -> Result<(Passing, Option<Resumable>), EngineError> {
        let passing = self.registry.passing().await;
        if self.registry.live().contains_key(task) {
            return Ok((passing, None));
        }
        let directory = self.request(task)?;
        let root = task.clone();
        let services = self.current.newest();
        let opened = roo_durable::spawn_blocking(move || {
            let mut fold = Fold::new(root.clone());
            let mut last_edits = LastEdits::default();
            let (log, damage) = RequestLog::replay(directory, |mut record| {
                forks::as_own(&root, &mut record);
                last_edits.see(fold.tree(), &record, &services);
                fold.add(&record);
            })?;
            let missing = fold.missing_marks();
            if !missing.is_empty() {
                let see = |edits: &mut LastEdits, tree: Option<&Tree>, record: &Record<Event>| {
                    edits.see(tree, record, &services);
                };
                (fold, last_edits) = fold_once(log.directory(), &root, None, missing, see)?;
            }
            let mut tree = state(&root, fold);
            if let Ok(tree) = &mut tree
                && let Some((_, restore)) = &tree.root().restore
                && let Some(cut) = &restore.cut
            {
                let before = cut.before;
                tree.mark(before, checkpoints::state_before(log.directory(), &root, before)?);
            }
            Ok::<_, EngineError>((log, damage, tree, last_edits))
        });
        let (mut log, damage, tree, last_edits) = opened.await.map_err(|_| EngineError::Ending)??;
        for damage in &damage {
            tracing::warn!(%task, "the log is damaged: {damage}");
        }
        let tree = tree?;
        let services = self.current.newest();
        audit::recover(last_edits, &services);
        audit::recover_interrupted(&tree, &services);
        // Clients are about to see what is there, and whoever wrote it may have ended before it was durable.
        let sync = audit::traced(log.sync_handle(), task.clone(), &services);
        let synced = roo_durable::spawn_blocking(sync).await.map_err(|_| EngineError::Ending)??;
        log.synced(&synced);
        log.close();
        let first = self.settle_restores(&tree, tree.interrupt()).await;
        let journal = self.registry.journal(task, log.directory(), log.last_seq());
        journal.reopen(log.last_seq());
        if let Some(damage) = damage.first() {
            let reason = format!("the log of the task is damaged: {damage}; the rest of it was read");
            journal.warn(self.now(), WireEvent::ServerDegraded { reason, until: None });
        }
        let known = Resumable::of(&tree);
        self.spawn(log, tree, journal, first);
        self.begun(task).await;
        Ok((passing, Some(known)))
    }

    fn request(&self, task: &TaskId) -> Result<RequestDirectory, EngineError> {
        let not_found = || EngineError::NotFound { what: "task", id: task.to_string() };
        // An id comes from clients and names a directory.
        let root = task.root();
        uuid::Uuid::try_parse(root.as_str()).map_err(|_| not_found())?;
        let directory = self.directory.request(&root);
        if directory.exists() { Ok(directory) } else { Err(not_found()) }
    }

    /// The directory of a request of whatever workspace.
    fn request_anywhere(&self, task: &TaskId) -> Result<RequestDirectory, EngineError> {
        let not_found = || EngineError::NotFound { what: "task", id: task.to_string() };
        let root = task.root();
        uuid::Uuid::try_parse(root.as_str()).map_err(|_| not_found())?;
        self.directory.request_anywhere(&root).ok_or_else(not_found)
    }

    /// The directory of a request whose log can be read.
    async fn readable(&self, root: &TaskId) -> Result<RequestDirectory, EngineError> {
        let directory = self.request(root)?;
        self.begun(root).await;
        Ok(directory)
    }

    async fn command(&self, task: &TaskId, command: Command) -> Result<Reply, EngineError> {
        let (sender, answer) = oneshot::channel();
        let root = task.root();
        let message = ActorMessage::Command(task.clone(), Box::new(command), sender);
        // Opening one request must not hold up what is said to others.
        if let Err(message) = self.post(&root, message)? {
            let _passing = self.open(&root).await?;
            self.post(&root, message)?.map_err(|_| EngineError::Ending)?;
        }
        answer.await.unwrap_or(Err(EngineError::Ending))
    }

    /// Gives a message to a request that lives here, or back. It is sent under the lock under which a request
    /// leaves: an actor that leaves has no messages.
    fn post(&self, task: &TaskId, message: ActorMessage) -> Result<Result<(), ActorMessage>, EngineError> {
        let live = self.registry.live();
        let Some(Live { sender, .. }) = live.get(task) else { return Ok(Err(message)) };
        match sender.try_send(message) {
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
        if self.is_condense(&text, &images).await {
            return self.condense(&task_id).await;
        }
        self.input(&task_id, Input::Send { text, images, when }).await
    }

    /// The size of a task's next model request, and what was shortened.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn context(&self, task: &TaskId) -> Result<ContextGetResult, EngineError> {
        let tree = self.read_as_it_is(task).await?;
        let found = tree.task(task);
        let found = found.ok_or_else(|| EngineError::NotFound { what: "task", id: task.to_string() })?;
        Ok(ContextGetResult {
            context: found.context.meter(found.conversation.size()),
            shortenings: found.context.shortenings().to_vec(),
        })
    }

    /// Returns whether what the user says is our `/condense`. A command file of that name counts instead.
    async fn is_condense(&self, text: &str, images: &[String]) -> bool {
        if text.trim().strip_prefix('/') != Some(CONDENSE) || !images.is_empty() {
            return false;
        }
        let customization = Arc::clone(&self.services.customization);
        let read = roo_durable::spawn_blocking(move || customization.commands());
        read.await.is_ok_and(|commands| commands.iter().all(|command| command.name != CONDENSE))
    }

    /// Has earlier turns of a task summarised before its next model request.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn condense(&self, task: &TaskId) -> Result<(), EngineError> {
        self.input(task, Input::Condense).await
    }

    /// Undoes a shortening of a task's conversation.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] where it can't be undone, or [`EngineError::Store`] when the log can't be read.
    pub async fn restore_context(&self, params: ContextRestoreParams) -> Result<(), EngineError> {
        let ContextRestoreParams { task_id, seq } = params;
        let root = task_id.root();
        let (directory, own) = (self.readable(&root).await?, task_id.clone());
        let read = roo_durable::spawn_blocking(move || {
            let mut fold = Fold::new(root.clone());
            let mut left_out = None;
            roo_durable::read_while(&directory, 0, |mut record: Record<Event>| {
                forks::as_own(&root, &mut record);
                if record.seq < seq {
                    fold.add(&record);
                } else if record.seq == seq && record.task_id == own {
                    let before = fold.tree().and_then(|tree| tree.task(&own));
                    left_out = before.and_then(|task| task::left_out_by(&record.event, &task.conversation));
                }
                record.seq < seq
            })?;
            Ok(left_out)
        });
        let left_out = read.await.unwrap_or(Err(EngineError::Ending))?;
        let left_out = left_out.ok_or_else(|| EngineError::WrongState {
            task: task_id.clone(),
            problem: "it has no shortening with this number".to_owned(),
        })?;
        self.input(&task_id, Input::RestoreContext { seq, left_out: Box::new(left_out) }).await
    }

    /// Stops a request, or ends a branch with those below it. What runs is ended, what waits is void. The branches of a
    /// request that was stopped go on where they were when it is resumed.
    ///
    /// # Errors
    /// [`EngineError`].
    pub async fn cancel(&self, task: &TaskId) -> Result<(), EngineError> {
        self.input(task, if task.is_root() { Input::Stop } else { Input::Cancel }).await
    }

    /// Stops a request with all its branches, and waits until it has ended. Returns its state where it had ended before.
    ///
    /// # Errors
    /// [`EngineError`]; one that another process runs is held there.
    pub async fn cancel_and_wait(&self, task: &TaskId) -> Result<Option<TaskState>, EngineError> {
        let TaskSnapshot { item, .. } = self.get(task).await?;
        if item.state.is_final() {
            return Ok(Some(item.state));
        }
        self.end_and_wait(task, item.seq, Input::Stop).await?;
        Ok(None)
    }

    /// Ends a request by this input, and waits until it has ended. `after` is the number of its newest event.
    async fn end_and_wait(&self, task: &TaskId, after: u64, input: Input) -> Result<(), EngineError> {
        let mut follower = self.follow(task, after).await?;
        self.input(task, input).await?;
        let is_end = |params: &Arc<EventParams>| {
            let state = match &params.event {
                WireEvent::TaskState { state, .. } => Some(*state),
                _ => None,
            };
            params.task_id.is_root() && state.is_some_and(TaskState::is_final)
        };
        let mut left = self.left();
        while !self.get(task).await?.item.state.is_final() {
            // Released meanwhile: its end may never come.
            if !self.registry.live().contains_key(&task.root()) {
                return Err(EngineError::Ending);
            }
            tokio::select! {
                biased;
                // It may go on behind its end, as its user has said something in the meantime.
                batch = follower.next(|| self.now()) => if batch?.iter().any(is_end) { break },
                // The engine has the sender.
                _ = left.changed() => {}
            }
        }
        Ok(())
    }

    /// Sends the command that a task runs, or one of its branches, to the background.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] when it runs none.
    pub async fn background_command(&self, task: &TaskId) -> Result<(), EngineError> {
        self.command(task, Command::Background).await.map(|_| ())
    }

    /// Ends the command that a task runs in the foreground, or one of its branches; the task goes on with what it printed. Returns
    /// before it has ended.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] when it runs none.
    pub async fn stop_foreground_command(&self, task: &TaskId) -> Result<(), EngineError> {
        self.command(task, Command::StopForeground).await.map(|_| ())
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
    /// [`EngineError::WrongState`] for any other task, [`EngineError::Configuration`] for settings or a hooks file that can't be
    /// used.
    pub async fn resume(&self, task: &TaskId) -> Result<(), EngineError> {
        let services = self.current.read().await;
        check_faults(&services)?;
        self.input(task, Input::Resume).await
    }

    /// Lets a request go on that was interrupted, which nobody has asked for. One that has ended stays as it is: to cancel it is
    /// to want nothing more of it.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] for one that is not interrupted, and as [`Engine::resume`].
    pub async fn resume_interrupted(&self, request: &TaskId) -> Result<(), EngineError> {
        let services = self.current.read().await;
        check_faults(&services)?;
        self.command(request, Command::ResumeInterrupted).await.map(|_| ())
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
        let (option_id, review) = self.review(&params).await?;
        let ApprovalRespondParams { digest, opened, text, .. } = params;
        let by_whom = by.to_owned();
        let command = Command::Respond { approval_id, digest, option_id, opened, text, review, by: by_whom };
        match self.command(&task, command).await? {
            Reply::Rule(answer, NewRule { scope, verdict, subject, trusts }) => {
                let (rules, now) = (&self.services.rules, self.now());
                let made = subject.clone();
                let added = match scope {
                    RuleScope::Workspace => rules.add(verdict, subject, by, now),
                    RuleScope::User => rules.add_everywhere(verdict, subject, by, now),
                };
                // What was answered holds for this call, whatever becomes of the rule.
                if let Err(error) = added {
                    tracing::error!(%error, "a standing rule was not kept");
                }
                if let Some(brings) = trusts
                    && let Err(error) = self.services.customization.grant(&Grant::AsShown { brings })
                {
                    tracing::error!(%error, "the workspace was not trusted");
                }
                self.reconsider(&made).await;
                Ok(answer)
            }
            Reply::Answer(answer) => Ok(answer),
            Reply::Done | Reply::GivenUp(_) => {
                Err(EngineError::Mismatch { problem: "no answer was wanted".into() })
            }
        }
    }

    /// Applies a new standing rule to approvals that wait in the requests that live here.
    async fn reconsider(&self, subject: &RuleSubject) {
        let requests: Vec<TaskId> = self.registry.live().keys().cloned().collect();
        for request in requests {
            let command = Command::Reconsider(subject.clone());
            if let Err(error) = self.command(&request, command).await {
                tracing::warn!(%request, %error, "a standing rule was not applied to what waits");
            }
        }
    }

    /// The approvals that wait, in the one order in which clients show them.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn waiting_approvals(&self) -> Result<Vec<WaitingApproval>, EngineError> {
        let mut items = self.list_all().await?;
        items.retain(|item| !item.state.is_final());
        // Ids of requests begin with the time.
        items.sort_by(|one, other| one.task_id.cmp(&other.task_id));
        let mut all = Vec::new();
        for item in items {
            let tree = match self.read_as_it_is(&item.task_id).await {
                Ok(tree) => tree,
                // Deleted in between.
                Err(EngineError::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            let asked =
                |task: &Task| Some((task.id.clone(), task.title().to_owned(), task.approval()?.clone()));
            let mut waiting: Vec<(TaskId, String, PendingApproval)> =
                tree.tasks().iter().filter_map(asked).collect();
            waiting.sort_by_key(|(_, _, approval)| approval.approval_id.number());
            let interrupted = tree.root().is_interrupted();
            for (task_id, task_title, approval) in waiting {
                let number = u32::try_from(all.len()).unwrap_or(u32::MAX).saturating_add(1);
                let root_id = item.task_id.clone();
                all.push(WaitingApproval { root_id, task_id, task_title, number, interrupted, approval });
            }
        }
        Ok(all)
    }

    /// The review that answers hunk by hunk, and the option that it comes to: what leaves nothing of an edit refuses it.
    async fn review(
        &self,
        params: &ApprovalRespondParams,
    ) -> Result<(String, Option<Arc<Review>>), EngineError> {
        let as_a_whole = || (params.option_id.clone(), None);
        if params.hunks.is_empty() {
            return Ok(as_a_whole());
        }
        let mismatch = |problem: String| EngineError::Mismatch { problem };
        let accepts = match Choice::parse(&params.option_id) {
            Some(Choice::AllowOnce) => true,
            Some(Choice::RejectOnce) => false,
            _ => {
                let problem = "single changes are answered by the options allow_once and reject_once";
                return Err(mismatch(problem.to_owned()));
            }
        };
        let files = match self.previews(&params.approval_id).await {
            Ok((digest, files)) if digest == params.digest => files,
            // Somebody else has answered, or it is about something else: the actor says so.
            Ok(_) | Err(EngineError::NotFound { .. }) => return Ok(as_a_whole()),
            Err(error) => return Err(error),
        };
        if files.is_empty() {
            return Err(mismatch("the approval is not about an edit, so it has no changes".to_owned()));
        }
        let (services, answers) = (self.current.read().await, params.hunks.clone());
        let reviewing = roo_durable::spawn_blocking(move || services.gate.review(&files, accepts, answers));
        let review = reviewing.await.map_err(|_| mismatch("the server is shutting down".to_owned()))?;
        let review = review.map_err(|error| mismatch(error.to_string()))?;
        let option = if review.refuses_all() { Choice::RejectOnce } else { Choice::AllowOnce };
        let review = (!review.accepts_all()).then(|| Arc::new(review));
        Ok((option.id().to_owned(), review))
    }

    /// The files that a waiting approval is about, before and after; none when it isn't about files.
    ///
    /// # Errors
    /// [`EngineError::NotFound`] when it doesn't wait, [`EngineError::Mismatch`] when its file has changed so
    /// that the edit no longer fits.
    pub async fn preview(&self, approval: &ApprovalId) -> Result<Vec<FilePreview>, EngineError> {
        let (_, files) = self.previews(approval).await?;
        let hunks = hunks_of(&files);
        let shown = |(preview, hunks): (Preview, Vec<Hunk>)| {
            let open = self.workspace().documents().at(preview.file.absolute());
            FilePreview {
                uri: open.map_or_else(|| preview.file.uri(), |document| document.uri),
                moved_to: preview.moved_to.map(|to| to.uri()),
                before: preview.before,
                deleted: preview.after.is_none(),
                after: preview.after.unwrap_or_default(),
                hunks,
            }
        };
        Ok(files.into_iter().zip(hunks).map(shown).collect())
    }

    /// As [`Engine::preview`], with masks in place of secrets: for what is written to disk.
    ///
    /// # Errors
    /// As [`Engine::preview`].
    pub async fn masked_preview(&self, approval: &ApprovalId) -> Result<Vec<FilePreview>, EngineError> {
        let mut files = self.preview(approval).await?;
        let services = self.current.newest();
        let masked = roo_durable::spawn_blocking(move || {
            let mask = services.gate.mask();
            files.iter_mut().for_each(|file| mask_preview(file, &mask));
            files
        });
        masked.await.map_err(|_| EngineError::Ending)
    }

    /// The digest of a waiting approval, and the files that it is about.
    async fn previews(&self, approval: &ApprovalId) -> Result<(Digest, Vec<Preview>), EngineError> {
        let id = owner("approval", approval.as_str())?;
        let tree = self.read_as_it_is(&id).await?;
        let task = tree
            .task(&id)
            .filter(|task| task.approval().is_some_and(|waiting| waiting.approval_id == *approval));
        let not_found = || EngineError::NotFound { what: "approval", id: approval.to_string() };
        let task = task.ok_or_else(not_found)?;
        let digest = task.approval().ok_or_else(not_found)?.digest;
        let Some(call) = task.call_as_it_runs() else { return Ok((digest, vec![])) };
        let services = self.current.read().await;
        let files = if task.merges() {
            worktrees::preview_merge(task, &services.for_task(&tree, task)).await
        } else if call.effect() == Effect::Write {
            services.for_task(&tree, task).gate.preview(&call, &task.files.at_hand()).await
        } else {
            return Ok((digest, vec![]));
        };
        let Some(files) = files else {
            let problem = "its file has changed since; your answer leads to a new question".to_owned();
            return Err(EngineError::Mismatch { problem });
        };
        Ok((digest, files))
    }

    /// Answers a question. The first answer counts. `/condense` is no answer: earlier turns are summarised before the next
    /// request, and the question still waits.
    ///
    /// # Errors
    /// [`EngineError::NotFound`].
    pub async fn answer(&self, params: QuestionAnswerParams, by: &str) -> Result<AnswerResult, EngineError> {
        let task = owner("question", params.question_id.as_str())?;
        let QuestionAnswerParams { question_id, text, images } = params;
        let question_id: QuestionId = question_id;
        let condense = self.is_condense(&text, &images).await;
        self.answered(&task, Command::Answer { question_id, text, images, condense, by: by.to_owned() }).await
    }

    async fn answered(&self, task: &TaskId, command: Command) -> Result<AnswerResult, EngineError> {
        match self.command(task, command).await? {
            Reply::Answer(answer) | Reply::Rule(answer, ..) => Ok(answer),
            Reply::Done | Reply::GivenUp(_) => Err(EngineError::Ending),
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
        let directory = self.request(task)?;
        // What seems to be open is opened without a look at its log, which would be read twice.
        if directory.summary::<HistoryItem>().is_some_and(|item| !item.state.is_final()) {
            match self.open(task).await {
                Ok(_passing) => {
                    if let Some(live) = self.registry.live().get(task) {
                        return Ok(live.journal.follow(after));
                    }
                }
                Err(EngineError::Store(StoreError::Held { .. })) => {}
                Err(error) => return Err(error),
            }
        }
        // What has ended needs no actor to be looked at, and no lock that another window may hold.
        let state = self.read(task).await?;
        if state.root().state().is_final() {
            let journal = self.registry.journal(task, &directory, state.last_seq());
            // Another process may have gone on with it.
            journal.catch_up(state.last_seq());
            return Ok(journal.follow(after));
        }
        let _passing = self.open(task).await?;
        let live = self.registry.live();
        live.get(task).map(|live| live.journal.follow(after)).ok_or(EngineError::Ending)
    }

    /// The newest events of a request as clients see them, at most this many, oldest first. Other than by
    /// [`Engine::follow`], it doesn't come to life by that.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn newest_events(&self, task: &TaskId, most: usize) -> Result<Vec<EventParams>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let read = roo_durable::spawn_blocking(move || journal::newest_events(&directory, &root, most));
        Ok(read.await.unwrap_or(Ok(vec![]))?)
    }

    /// The state of a request, from its log.
    async fn read(&self, root: &TaskId) -> Result<Tree, EngineError> {
        let (directory, root) = (self.readable(root).await?, root.clone());
        let read = roo_durable::spawn_blocking(move || read_tree(&directory, &root, |(), _| {}));
        read.await.unwrap_or(Err(EngineError::Ending)).map(|(tree, ())| tree)
    }

    /// Replays a request from its log, which stays as it is.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn replay(
        &self,
        task: &TaskId,
    ) -> Result<Result<Replayed, Box<ReplayDifference>>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let replayed = roo_durable::spawn_blocking(move || {
            let (records, _) = roo_durable::read_from::<Event>(&directory, 0, usize::MAX)?;
            Ok(replay(&root, &records))
        });
        replayed.await.unwrap_or(Err(EngineError::Ending))
    }

    /// The tasks of a request in the form of Roo Code's history: the request's own first, then its branches.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn past_tasks(&self, task: &TaskId) -> Result<Vec<PastTask>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let workspace = self.workspace().roots().paths().next().map(|root| root.display().to_string());
        let read = roo_durable::spawn_blocking(move || {
            let (mut records, _) = roo_durable::read_from::<Event>(&directory, 0, usize::MAX)?;
            records.iter_mut().for_each(|record| forks::as_own(&root, record));
            Ok(exports::past_tasks(&root, &records, workspace.as_deref()))
        });
        read.await.unwrap_or(Err(EngineError::Ending))
    }

    /// Takes a request out of its log as a cassette, without the prompts of its modes.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read. Inside, the reason why it can't
    /// be kept.
    pub async fn cassette(&self, task: &TaskId) -> Result<Result<Cassette, NotRecordable>, EngineError> {
        let root = task.root();
        let directory = self.readable(&root).await?;
        let services = self.current.newest();
        let taken = roo_durable::spawn_blocking(move || {
            let (records, _) = roo_durable::read_from::<Event>(&directory, 0, usize::MAX)?;
            Ok(Cassette::from_log(&root, &records, |profile| services.tools_of(profile)))
        });
        taken.await.unwrap_or(Err(EngineError::Ending))
    }

    /// As [`Engine::read`]; what no process drives any more is interrupted, whether its log says so or not.
    async fn read_as_it_is(&self, task: &TaskId) -> Result<Tree, EngineError> {
        let root = task.root();
        let tree = self.read(&root).await?;
        self.as_it_is(&root, tree)
    }

    fn as_it_is(&self, root: &TaskId, mut tree: Tree) -> Result<Tree, EngineError> {
        let is_live = self.registry.live().contains_key(root);
        if !is_live && !tree.root().state().is_final() && !self.request(root)?.is_held() {
            tree.set_interrupted();
        }
        Ok(tree)
    }

    /// A task as it is now.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn get(&self, task: &TaskId) -> Result<TaskSnapshot, EngineError> {
        let root = task.root();
        let (directory, request, own) = (self.readable(&root).await?, root.clone(), task.clone());
        let read = roo_durable::spawn_blocking(move || {
            read_tree(&directory, &request, |transcript: &mut Transcript, record| {
                if record.task_id == own {
                    transcript.add(&record.event);
                }
            })
        });
        let (tree, transcript) = read.await.unwrap_or(Err(EngineError::Ending))?;
        let tree = self.as_it_is(&root, tree)?;
        let state =
            tree.task(task).ok_or_else(|| EngineError::NotFound { what: "task", id: task.to_string() })?;
        let item = if task.is_root() { tree.history_item() } else { state.history_item() };
        Ok(transcript.snapshot(state, item))
    }

    /// State of a request that has to be known before it resumes.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn resumable(&self, task: &TaskId) -> Result<Resumable, EngineError> {
        Ok(Resumable::of(&self.read_as_it_is(&task.root()).await?))
    }

    /// Lets a request go on, as [`Engine::resume`] does, and tells how it was before. The log of one that doesn't live here is
    /// read once for both.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read; within, those of [`Engine::resume`].
    pub async fn resume_and_read(
        &self,
        task: &TaskId,
    ) -> Result<(Resumable, Result<(), EngineError>), EngineError> {
        let root = task.root();
        let services = self.current.read().await;
        if let Err(fault) = check_faults(&services) {
            return Ok((self.resumable(&root).await?, Err(fault)));
        }
        let (passing, known) = self.open_and_tell(&root).await?;
        let Some(known) = known else {
            drop(passing);
            return Ok((self.resumable(&root).await?, self.resume(&root).await));
        };
        let (sender, answer) = oneshot::channel();
        let command = Command::Input(Box::new(Input::Resume));
        let message = ActorMessage::Command(root.clone(), Box::new(command), sender);
        self.post(&root, message)?.map_err(|_| EngineError::Ending)?;
        drop(passing);
        let resumed = answer.await.unwrap_or(Err(EngineError::Ending));
        Ok((known, resumed.map(|_| ())))
    }

    /// The invocation tree of the request that a task belongs to; the drawing marks the task.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], or [`EngineError::Store`] when its log can't be read.
    pub async fn tree(&self, task: &TaskId) -> Result<TreeGetResult, EngineError> {
        let tree = self.read_as_it_is(task).await?;
        if tree.task(task).is_none() {
            return Err(EngineError::NotFound { what: "task", id: task.to_string() });
        }
        Ok(TreeGetResult { nodes: tree.nodes(), text: tree.draw(task) })
    }

    /// The requests of this workspace, newest first, at most 100 behind the cursor.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn list(&self, cursor: Option<String>) -> Result<TaskListResult, EngineError> {
        self.page(cursor, LIST_PAGE).await
    }

    /// The newest requests of this workspace, with a cursor where there are more.
    ///
    /// # Errors
    /// As [`Engine::list`].
    pub async fn list_newest(&self, limit: usize) -> Result<TaskListResult, EngineError> {
        self.page(None, limit).await
    }

    async fn page(&self, cursor: Option<String>, limit: usize) -> Result<TaskListResult, EngineError> {
        let mut items = self.items(cursor, limit.saturating_add(1)).await?;
        let is_last = items.len() <= limit;
        items.truncate(limit);
        let last = items.last().filter(|_| !is_last);
        let next_cursor = last.map(|item| item.task_id.to_string());
        Ok(TaskListResult { items, next_cursor })
    }

    /// As [`Engine::list`], while no request comes to life or leaves. So those that a process was killed with are interrupted, and
    /// none is still as its summary has it because somebody is just opening it.
    ///
    /// # Errors
    /// As [`Engine::list`].
    pub async fn list_settled(&self) -> Result<Vec<HistoryItem>, EngineError> {
        let _passing = self.registry.passing().await;
        self.items(None, LIST_PAGE).await
    }

    /// All requests of this workspace, newest first.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn list_all(&self) -> Result<Vec<HistoryItem>, EngineError> {
        self.items(None, usize::MAX).await
    }

    async fn items(&self, cursor: Option<String>, limit: usize) -> Result<Vec<HistoryItem>, EngineError> {
        let (directory, registry) = (self.directory.clone(), Arc::clone(&self.registry));
        let history = Arc::clone(&self.history);
        let list = roo_durable::spawn_blocking(move || {
            let mut history = history.lock().unwrap_or_else(PoisonError::into_inner);
            let living = |id: &TaskId| registry.summaries().get(id).cloned();
            Ok(history.items(&directory, cursor.as_deref(), limit, living)?)
        });
        list.await.unwrap_or(Err(EngineError::Ending))
    }

    /// The ids of all requests of this workspace, newest first, with their titles. Their logs are not read where they
    /// have a summary, so what else it says may be old.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the state directory can't be read.
    pub async fn names(&self) -> Result<Vec<HistoryItem>, EngineError> {
        names_in(vec![self.directory.clone()]).await
    }

    /// As [`Engine::names`], of all workspaces of the user: forks may have folders of their own.
    ///
    /// # Errors
    /// As [`Engine::names`].
    pub async fn names_everywhere(&self) -> Result<Vec<HistoryItem>, EngineError> {
        names_in(self.directory.all()).await
    }

    /// Removes a request and all that is kept of it. Returns the work trees of its branches that are kept, as something in
    /// them is not merged.
    ///
    /// # Errors
    /// [`EngineError::WrongState`] while it isn't at its end, [`StoreError::Forked`] while it has forks, which share its events.
    pub async fn delete(&self, task: &TaskId) -> Result<Vec<KeptWorktree>, EngineError> {
        if !task.is_root() {
            let problem = "it is a branch; delete its request instead".to_owned();
            return Err(EngineError::WrongState { task: task.clone(), problem });
        }
        let directory = self.request(task)?;
        let forks = directory.forks()?;
        if !forks.is_empty() {
            return Err(StoreError::Forked { forks }.into());
        }
        let kept = match self.command(task, Command::Delete).await? {
            Reply::GivenUp(kept) => kept,
            _ => vec![],
        };
        let _passing = self.registry.passing().await;
        self.registry.live().remove(task);
        let summary = self.registry.summaries().remove(task);
        let (history, id) = (Arc::clone(&self.history), task.clone());
        let (branches, current) = (self.services.branches.clone(), self.current.newest());
        let removed = roo_durable::spawn_blocking(move || {
            if let Err(error) = worktrees::remove_stores(&branches, &id) {
                tracing::warn!(task = %id, %error, "snapshots of branches are left behind");
            }
            if let Some(summary) = summary.or_else(|| directory.summary()) {
                current.gate.forget_request(&summary.urid);
            }
            history.lock().unwrap_or_else(PoisonError::into_inner).forget(&id);
            directory.remove()
        })
        .await;
        removed.map_err(|_| EngineError::Ending)??;
        Ok(kept)
    }

    /// Puts a task into another mode, with the model that the settings give it. Its next turn is in
    /// that mode.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown mode.
    pub async fn switch_mode(&self, task: &TaskId, slug: &str) -> Result<(), EngineError> {
        let change = self
            .current
            .read()
            .await
            .mode_change(slug)
            .map_err(|error| EngineError::Configuration(error.to_string()))?;
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
        let orchestration = Arc::clone(&self.services.orchestration);
        let wanted = id.to_owned();
        let accepted = roo_durable::spawn_blocking(move || {
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
        if let Err(error) = self.services.orchestration.begin(id).await {
            tracing::warn!(intent = %id, %error, "an intent's status was not changed");
        }
        self.input(task, Input::BindIntent { intent: Binding { id: id.to_owned(), digest }, name }).await
    }

    /// Gives a task another model. Its next turn is made with that.
    ///
    /// # Errors
    /// [`EngineError::Configuration`] for an unknown profile.
    pub async fn select_profile(&self, task: &TaskId, name: &str) -> Result<(), EngineError> {
        let settings = self.settings().await;
        let profile = settings.find_profile(name).map_err(unknown_profile)?;
        let change = ModeChange { mode: None, profile: Some((name.to_owned(), profile.tool_protocol())) };
        self.input(task, Input::Change(change)).await
    }

    /// Ends what runs, leaving every task as it is, to be resumed later. Returns when no effect runs
    /// any more, no log is locked, hooks of ended requests are done, and the trace is written.
    pub async fn shutdown(&self) {
        let all: Vec<Live> = self.registry.live().drain().map(|(_, live)| live).collect();
        self.registry.left.send_replace(());
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
        self.services.unwaited_hooks.finish().await;
        audit::settle(&self.current.newest()).await;
        self.cancel.cancel();
    }

    /// Ends what runs of one request and gives up the right to drive it, leaving it as it is: any process may resume it. Does
    /// nothing for a request that doesn't live here.
    pub async fn release(&self, task: &TaskId) {
        let root = task.root();
        let live = self.registry.live().remove(&root);
        let Some(live) = live else { return };
        self.registry.left.send_replace(());
        let (sender, done) = oneshot::channel();
        if live.sender.send(ActorMessage::Shutdown(sender)).await.is_ok() {
            // Either way the actor has ended.
            let _ = done.await;
        }
        // Its directory has the summary.
        self.registry.summaries().remove(&root);
    }

    /// Ends the servers whose tools tasks called, and the language servers. To be called behind [`Engine::shutdown`].
    pub async fn end_servers(&self) {
        let services = self.current.newest();
        let gate = &services.gate;
        let (servers, language_servers) = (gate.server_tools(), gate.language_servers());
        tokio::join!(servers.shut_down(), language_servers.shut_down(), gate.code_index().shut_down());
    }
}

async fn names_in(workspaces: Vec<WorkspaceDirectory>) -> Result<Vec<HistoryItem>, EngineError> {
    let names = roo_durable::spawn_blocking(move || {
        let mut names = Vec::new();
        for workspace in workspaces {
            let name = |id: TaskId| {
                let request = workspace.request(&id);
                request.summary().or_else(|| history::summary(&request, &id))
            };
            names.extend(workspace.requests()?.into_iter().filter_map(name));
        }
        Ok(names)
    });
    names.await.unwrap_or(Err(EngineError::Ending))
}

/// The root task in the id of one of its approvals or questions.
fn owner(what: &'static str, id: &str) -> Result<TaskId, EngineError> {
    match id.rsplit_once('.') {
        Some((task, _)) => Ok(TaskId::new(task)),
        None => Err(EngineError::NotFound { what, id: id.to_owned() }),
    }
}

/// The state that the records of a request's log fold to, and what `look` makes of the records.
fn read_tree<T: Default>(
    directory: &RequestDirectory,
    root: &TaskId,
    mut look: impl FnMut(&mut T, &Record<Event>),
) -> Result<(Tree, T), EngineError> {
    let (fold, made) = fold_log(directory, root, None, |made, _, record| look(made, record))?;
    Ok((state(root, fold)?, made))
}

/// Folds the records of a log up to an event, or all. Each is given to `look` with the state before it and with what `look`
/// has made of the records so far.
fn fold_log<T: Default>(
    directory: &RequestDirectory,
    root: &TaskId,
    before: Option<u64>,
    mut look: impl FnMut(&mut T, Option<&Tree>, &Record<Event>),
) -> Result<(Fold, T), EngineError> {
    let (fold, made) = fold_once(directory, root, before, vec![], &mut look)?;
    match fold.missing_marks() {
        missing if missing.is_empty() => Ok((fold, made)),
        // A conversation was restored. The state that it goes back to was missed, and so was every state since.
        missing => fold_once(directory, root, before, missing, &mut look),
    }
}

/// As [`fold_log`], where the numbers of the events are known before which conversations were restored to.
fn fold_once<T: Default>(
    directory: &RequestDirectory,
    root: &TaskId,
    before: Option<u64>,
    marks: Vec<u64>,
    mut look: impl FnMut(&mut T, Option<&Tree>, &Record<Event>),
) -> Result<(Fold, T), EngineError> {
    let (mut fold, mut made) = (Fold::with_marks(root.clone(), marks), T::default());
    roo_durable::read_while(directory, 0, |mut record: Record<Event>| {
        forks::as_own(root, &mut record);
        let is_wanted = before.is_none_or(|before| record.seq < before);
        if is_wanted {
            look(&mut made, fold.tree(), &record);
            fold.add(&record);
        }
        is_wanted
    })?;
    Ok((fold, made))
}

fn state(root: &TaskId, fold: Fold) -> Result<Tree, EngineError> {
    fold.finish().ok_or_else(|| EngineError::WrongState {
        task: root.clone(),
        problem: "its log does not begin with its creation".into(),
    })
}

/// Refuses to let agents work without settings or hooks that are meant to count.
fn check_faults(services: &EngineServices) -> Result<(), EngineError> {
    services.fault().map_or(Ok(()), |fault| Err(EngineError::Configuration(fault)))
}

fn unknown_profile(error: UnknownProfile) -> EngineError {
    EngineError::Configuration(error.to_string())
}

fn runs_command(tool: &str) -> bool {
    ToolId::of_call(tool).is_some_and(|tool| tool.effect() == Effect::Execute)
}

fn asks_server(tool: &str) -> bool {
    // A browser's effects are as unknown, and it is no server.
    matches!(
        ToolId::of_call(tool),
        Some(ToolId::Server(_) | ToolId::BuiltIn(ToolName::UseMcpTool | ToolName::AccessMcpResource))
    )
}

fn finds_code(tool: &str) -> bool {
    ToolName::parse(tool) == Some(ToolName::CodebaseSearch)
}

/// Returns the message that an event adds to a task. The output of a command is shown live, and here; so are calls of servers.
fn message_of(event: &Event) -> Option<Message> {
    match event {
        Event::ToolFinished { result, .. } if runs_command(&result.name) => Some(Message {
            id: MessageId::new(result.call_id.as_str()),
            kind: MessageKind::Say(Say::CommandOutput),
            text: result.text.clone(),
            images: vec![],
        }),
        Event::ToolStarted { call_id, name, subject, .. } if asks_server(name) => {
            Some(event::server_request_message(call_id, name, subject))
        }
        Event::ToolFinished { result, .. } if asks_server(&result.name) => {
            Some(event::server_response_message(result))
        }
        Event::ToolFinished { result, .. } if finds_code(&result.name) => Some(Message {
            id: MessageId::new(result.call_id.as_str()),
            kind: MessageKind::Say(Say::CodebaseSearchResult),
            text: codebase_search_result(&result.text)?.to_string(),
            images: vec![],
        }),
        event => match event.to_wire() {
            WireEvent::Message { message } => Some(message),
            _ => None,
        },
    }
}

/// Messages and calls of a task for its user, from its events so far.
#[derive(Default)]
struct Transcript {
    messages: Vec<Message>,
    /// The places of the messages.
    places: HashMap<MessageId, usize>,
    /// The messages that show the calls.
    called: HashMap<ToolCallId, MessageId>,
    calls: Vec<CallOutcome>,
}

impl Transcript {
    fn add(&mut self, event: &Event) {
        match event {
            Event::Called { message, call } => {
                self.called.insert(call.id.clone(), message.id.clone());
            }
            Event::ToolFinished { result, summary, exit_code, .. } => {
                self.calls.extend(self.called.get(&result.call_id).map(|message| CallOutcome {
                    message_id: message.clone(),
                    name: result.name.clone(),
                    subject: result.subject.clone(),
                    status: result.status,
                    summary: summary.clone(),
                    exit_code: *exit_code,
                }));
            }
            _ => {}
        }
        if let Some(message) = message_of(event) {
            match self.places.get(&message.id) {
                Some(&place) => self.messages[place] = message,
                None => {
                    self.places.insert(message.id.clone(), self.messages.len());
                    self.messages.push(message);
                }
            }
        }
    }

    fn snapshot(self, task: &Task, item: HistoryItem) -> TaskSnapshot {
        TaskSnapshot {
            item,
            root_id: task.id.root(),
            result: task.result().map(str::to_owned),
            reason: task.reason().map(str::to_owned),
            messages: self.messages,
            calls: self.calls,
            todo: task.todo.clone(),
            queue: task.queue.clone(),
            approval: task.approval().cloned(),
            question: task.question().cloned(),
            tool_usage: task.totals.tools.clone(),
            context: task.context.meter(task.conversation.size()),
            shortenings: task.context.shortenings().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_protocol::task::{TaskState, Usage};

    #[test]
    fn messages_of_servers_are_about_servers() {
        for (tool, is_of_server) in [
            ("use_mcp_tool", true),
            ("access_mcp_resource", true),
            ("mcp__notes__add", true),
            ("notes/add", true),
            ("search_mcp_tools", false),
            ("browser_action", false),
            ("execute_command", false),
            ("no_tool", false),
        ] {
            assert_eq!(asks_server(tool), is_of_server, "{tool}");
        }
    }

    #[tokio::test]
    async fn of_a_request_that_has_left_the_registry_knows_nothing() {
        let registry = Arc::new(Registry::default());
        let task = TaskId::new("one");
        let item = HistoryItem {
            task_id: task.clone(),
            urid: Urid::new("20260102-03-04-abcdef01"),
            title: "Go.".to_owned(),
            mode: "code".to_owned(),
            state: TaskState::Completed,
            created_at: 1,
            updated_at: 2,
            usage: Usage::default(),
            seq: 3,
            forked_from: None,
            imported_from: None,
        };
        registry.summarise(item);
        assert!(registry.leave(&task, || false).await.is_none());
        assert!(registry.summaries().contains_key(&task));
        assert!(registry.leave(&task, || true).await.is_some());
        assert!(registry.summaries().is_empty());
    }
}
