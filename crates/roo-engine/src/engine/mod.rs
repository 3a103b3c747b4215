//! The engine: tasks as pure machines over logs, and the actors that drive them.
//!
//! [`Engine`] is all that a front end needs: it starts and steers tasks, answers their questions, and
//! hands out [`Follower`]s. It knows neither editors nor protocols, and it assumes neither one client
//! nor one workspace root. What a task may do to the world is decided by [`crate::policy`] and done by
//! [`crate::tools`].
//!
//! What an [`Engine`] is made of is here. What it does for front ends is in files named for what is wanted: `start.rs`,
//! `resume.rs`, `steering.rs`, `answers.rs`, `reading.rs`, `requests.rs`, `checkpoints/`, `forks.rs`, `changes.rs` and
//! `imports.rs`.

mod actor;
mod actor_message;
mod answers;
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
mod error;
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
mod live_requests;
mod log_fold;
mod rate_limits;
mod reading;
mod registry;
mod replay;
mod reporter;
mod requests;
mod resume;
mod services;
mod shared_records;
mod start;
mod steering;
pub mod task;
mod transcript;
pub mod tree;
mod unwaited_hooks;
mod worktrees;

use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::sync::broadcast;
use tokio_util::sync::CancellationToken;

use self::checkpoint_store::CheckpointStore;
use self::clock::Clock;
use self::descriptors::DescriptorBudget;
use self::history::RequestHistory;
use self::rate_limits::RateLimits;
use self::registry::Registry;
use self::services::{CurrentServices, EngineServices, SharedServices};
use self::unwaited_hooks::UnwaitedHooks;
use crate::approvals::StandingRules;
use crate::customization::Customization;
use crate::intent_store::Orchestration;
use crate::policy::{Bounds, Gate, PolicyContext, Recorder};
use crate::server_tools::ServerTools;
use crate::tool_run::{CommandRunner, ShadowRepositories};
use roo_durable::WorkspaceDirectory;
use roo_durable::reserve::Reserve;
use roo_formats::config::{Directories, Settings, SettingsSource};
use roo_index::CodeIndex;
use roo_language_servers::LanguageServers;
use roo_model::providers::ModelSource;
use roo_sandbox::exec::sandbox::Helper;
use roo_workspace::Workspace;

pub use self::changes::as_diff;
pub use self::checkpoints::{ChangedBy, ComparedFile, ComparedRequest, Comparison};
pub use self::compaction::instructions_share;
pub use self::descriptors::blocking_threads;
pub use self::error::EngineError;
pub use self::imports::{ImportSettings, ImportedRequest, ImportedRequests};
pub use self::instructions::{Governed, Instructions, ToolSources};
pub use self::journal::{Follower, Journal};
pub use self::replay::{ReplayDifference, Replayed, ReplayedEvent, replay};
pub use self::resume::Resumable;
pub use self::task::{Decider, FrameShare, PROVIDER_REFUSED, TERMINAL};

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
    pub server_tools: Arc<dyn ServerTools>,
    /// The language servers of the workspace.
    pub language_servers: Arc<LanguageServers>,
    /// The index of the workspace's code.
    pub code_index: Arc<CodeIndex>,
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
}
