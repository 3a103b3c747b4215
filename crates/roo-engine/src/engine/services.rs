//! Services that all tasks of an engine share. What a task does with them is elsewhere.
//!
//! Some follow from the settings, and those are made again when the settings change. Whoever holds a set of services finishes
//! with it.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::checkpoint_store::CheckpointStore;
use super::clock::Clock;
use super::connected_models::ConnectedModels;
use super::descriptors::DescriptorBudget;
use super::rate_limits::{BegunRequest, QueuedRequest, RateLimit, RateLimits};
use super::task::{AgentSettings, Task};
use super::tree::Tree;
use super::unwaited_hooks::UnwaitedHooks;
use crate::approvals::StandingRules;
use crate::customization::Customization;
use crate::intent_store::Orchestration;
use crate::policy::{Gate, ModeChange, Recorder};
use crate::tool_run::{CommandRunner, ShadowRepositories};
use roo_durable::reserve::Reserve;
use roo_formats::config::{Profile, Settings, SettingsSource, ToolChoice};
use roo_formats::modes::{Modes, UnknownMode};
use roo_model::providers::{Model, ModelError, ModelErrorKind, ModelSource};
use roo_protocol::task::Usage;
use roo_workspace::Workspace;

/// Services that stay the same, whatever the settings.
#[derive(Clone)]
pub(super) struct SharedServices {
    pub(super) workspace: Arc<Workspace>,
    pub(super) customization: Arc<Customization>,
    pub(super) orchestration: Arc<Orchestration>,
    pub(super) rules: Arc<StandingRules>,
    pub(super) recorder: Arc<Recorder>,
    /// Contents of files, for checkpoints.
    pub(super) checkpoints: Arc<CheckpointStore>,
    /// Through which it is found what commands without a sandbox change; none where no checkpoint needs it.
    pub(super) shadow: Option<Arc<ShadowRepositories>>,
    /// Private directory for the snapshots of work trees of branches.
    pub(super) branches: PathBuf,
    pub(super) clock: Arc<dyn Clock>,
    /// Connects profiles with models.
    pub(super) model_source: Arc<dyn ModelSource>,
    /// Runs commands that no sandbox bounds.
    pub(super) commands: Arc<dyn CommandRunner>,
    /// Room for the time when the disk is full.
    pub(super) reserve: Reserve,
    /// Turns at descriptors.
    pub(super) descriptors: Arc<DescriptorBudget>,
    /// Turns at the endpoints of models.
    pub(super) rate_limits: Arc<RateLimits>,
    /// True for the folder of a branch's work tree: what changes there has changed nothing of the workspace yet. What that
    /// means is asked of the services below.
    pub(super) is_worktree: bool,
    /// Hooks that no task waits for.
    pub(super) unwaited_hooks: UnwaitedHooks,
}

/// Services by one state of the settings.
pub(super) struct EngineServices {
    shared: Arc<SharedServices>,
    pub(super) settings: Arc<Settings>,
    /// Reason why no agent may work by these settings.
    settings_fault: Option<String>,
    pub(super) gate: Gate,
    models: Arc<ConnectedModels>,
    /// The same services for the folders of work trees.
    in_folders: Mutex<HashMap<PathBuf, Arc<EngineServices>>>,
}

impl Deref for EngineServices {
    type Target = SharedServices;

    fn deref(&self) -> &SharedServices {
        &self.shared
    }
}

/// The services by the settings as they are now.
pub(super) struct CurrentServices {
    source: Arc<dyn SettingsSource>,
    newest: Mutex<Arc<EngineServices>>,
    /// Held while the settings are read: one thread does for all tasks.
    reading: tokio::sync::Mutex<()>,
}

impl CurrentServices {
    pub(super) fn new(source: Arc<dyn SettingsSource>, mut services: EngineServices) -> Self {
        services.settings_fault = source.fault();
        Self { source, newest: Mutex::new(Arc::new(services)), reading: tokio::sync::Mutex::default() }
    }

    /// Returns the services by the settings as they were looked at last.
    pub(super) fn newest(&self) -> Arc<EngineServices> {
        Arc::clone(&self.newest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the services by the settings as they are now. Reads the disk apart from the runtime's threads.
    pub(super) async fn read(&self) -> Arc<EngineServices> {
        let _turn = self.reading.lock().await;
        let (source, newest) = (Arc::clone(&self.source), self.newest());
        let look = move || {
            let other_hooks =
                (!newest.gate.has_current_hooks()).then(|| Arc::new(newest.with_current_hooks()));
            (source.settings(), source.fault(), other_hooks)
        };
        match roo_durable::spawn_blocking(look).await {
            Ok((settings, fault, other_hooks)) => {
                if let Some(other) = other_hooks {
                    *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = other;
                }
                self.by(settings, fault)
            }
            // While the process ends nothing new begins.
            Err(_) => self.newest(),
        }
    }

    /// Returns the same to callers that may block.
    pub(super) fn read_blocking(&self) -> Arc<EngineServices> {
        self.by(self.source.settings(), self.source.fault())
    }

    fn by(&self, settings: Arc<Settings>, fault: Option<String>) -> Arc<EngineServices> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        let is_other = !Arc::ptr_eq(&newest.settings, &settings) && newest.settings != settings;
        if is_other || newest.settings_fault != fault {
            *newest = Arc::new(newest.with_settings(settings, fault));
        }
        Arc::clone(&newest)
    }
}

impl EngineServices {
    pub(super) fn new(shared: Arc<SharedServices>, settings: Arc<Settings>, gate: Gate) -> Self {
        let (models, in_folders) = (Arc::default(), Mutex::default());
        Self { shared, settings, settings_fault: None, gate, models, in_folders }
    }

    fn with_settings(&self, settings: Arc<Settings>, fault: Option<String>) -> Self {
        let gate = self.gate.with_settings(Arc::clone(&settings));
        let new =
            Self { settings_fault: fault.clone(), ..Self::new(Arc::clone(&self.shared), settings, gate) };
        let folders = self.in_folders.lock().unwrap_or_else(PoisonError::into_inner);
        let folders = folders.iter().filter(|(folder, _)| folder.is_dir()).map(|(folder, services)| {
            let services = services.with_settings(Arc::clone(&new.settings), fault.clone());
            (folder.clone(), Arc::new(Self { models: Arc::clone(&new.models), ..services }))
        });
        Self { in_folders: Mutex::new(folders.collect()), ..new }
    }

    /// The same services by git's configuration as it is now. Runs git.
    fn with_current_hooks(&self) -> Self {
        let folders = self.in_folders.lock().unwrap_or_else(PoisonError::into_inner);
        let folders = folders.iter().filter(|(folder, _)| folder.is_dir());
        let folders =
            folders.map(|(folder, services)| (folder.clone(), Arc::new(services.with_current_hooks())));
        Self {
            shared: Arc::clone(&self.shared),
            settings: Arc::clone(&self.settings),
            settings_fault: self.settings_fault.clone(),
            gate: self.gate.with_current_hooks(),
            models: Arc::clone(&self.models),
            in_folders: Mutex::new(folders.collect()),
        }
    }

    /// Returns the services for the folder in which a task works now.
    pub(super) fn for_task(self: &Arc<Self>, tree: &Tree, task: &Task) -> Arc<Self> {
        tree.folder_of(task).map_or_else(|| Arc::clone(self), |folder| self.in_folder(folder))
    }

    /// Returns the same services for the folder of a work tree. What steers agents is that of the workspace.
    pub(super) fn in_folder(&self, folder: &Path) -> Arc<Self> {
        let mut folders = self.in_folders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = folders.get(folder) {
            return Arc::clone(known);
        }
        let workspace = Arc::new(self.shared.workspace.beside(folder));
        let gate = self.gate.in_worktree(Arc::clone(&workspace));
        let shared = SharedServices {
            workspace,
            shadow: None,
            is_worktree: true,
            ..SharedServices::clone(&self.shared)
        };
        let services = Self {
            settings_fault: self.settings_fault.clone(),
            models: Arc::clone(&self.models),
            ..Self::new(Arc::new(shared), Arc::clone(&self.settings), gate)
        };
        let services = Arc::new(services);
        // Those of branches that have ended.
        folders.retain(|folder, _| folder.is_dir());
        // A folder that isn't there may come.
        if services.workspace.roots().paths().next().is_some() {
            folders.insert(folder.to_owned(), Arc::clone(&services));
        }
        services
    }

    /// Returns whether edits are checkpoints of the request. Those in a work tree are undone with it, and the merge is one.
    pub(super) fn keeps_checkpoints(&self) -> bool {
        !self.is_worktree
    }

    /// Returns whether edits are in the trace. Those in a work tree have reached no file of the workspace: the record of the
    /// merge names them.
    pub(super) fn traces_edits(&self) -> bool {
        !self.is_worktree
    }

    /// Returns whether editor and language servers know the problems of files here. They look at the workspace's folders.
    pub(super) fn knows_problems(&self) -> bool {
        !self.is_worktree
    }

    /// Returns the reason why no agent may work: settings or hooks that are meant to count and can't. Reads the disk.
    pub(super) fn fault(&self) -> Option<String> {
        self.settings_fault.clone().or_else(|| self.customization.user_hooks().fault().map(str::to_owned))
    }

    /// Returns the reason why no agent may work by these settings.
    pub(super) fn settings_fault(&self) -> Option<&str> {
        self.settings_fault.as_deref()
    }

    /// Returns the change that puts a task to the profile that the settings now give it; none where it has it, or where
    /// they define none of that name.
    pub(super) fn profile_change(&self, task: &AgentSettings) -> Option<ModeChange> {
        let name = match task.pinned {
            true => &task.profile,
            false => self.settings.profile_of(&task.mode).0,
        };
        let protocol = self.settings.profiles.get(name)?.tool_protocol();
        if *name == task.profile && protocol == task.protocol {
            return None;
        }
        let mode = (!task.pinned).then(|| (task.mode.clone(), task.emoji.clone()));
        Some(ModeChange { mode, profile: Some((name.to_owned(), protocol)) })
    }

    /// The modes that there are now.
    pub(super) fn modes(&self) -> Arc<Modes> {
        self.customization.modes_by(&self.settings)
    }

    /// Returns what is needed to continue in a mode.
    pub(super) fn mode_change(&self, slug: &str) -> Result<ModeChange, UnknownMode> {
        Ok(ModeChange::into_mode(self.modes().find(slug)?, &self.settings))
    }

    /// Returns the choice of tools for the model of a profile.
    pub(super) fn tools_of(&self, profile: &str) -> ToolChoice {
        self.settings.profiles.get(profile).map(Profile::tools).unwrap_or_default()
    }

    /// Puts a request of about so many tokens to the model of a profile into the queue of its account. None for a model
    /// that can't be asked.
    pub(super) fn queue(&self, profile: &str, tokens: u64) -> Option<QueuedRequest> {
        let account = self.model(profile).ok()?.account();
        let limit = self.settings.profiles.get(profile).map(RateLimit::from).unwrap_or_default();
        Some(self.rate_limits.join(account, limit, tokens))
    }

    /// Returns the tokens by which a request to the model of a profile counts towards its limit.
    fn rated_tokens(&self, profile: &str, usage: &Usage) -> u64 {
        self.settings.profiles.get(profile).map_or(0, |profile| profile.rated_tokens(usage))
    }

    /// Returns the model of a profile.
    ///
    /// # Errors
    /// A profile that is missing or can't be used.
    pub(super) fn model(&self, profile: &str) -> Result<Arc<dyn Model>, ModelError> {
        self.models.get_or_connect(profile, || {
            let Some(settings) = self.settings.profiles.get(profile) else {
                return Err(ModelError {
                    kind: ModelErrorKind::Configuration,
                    message: format!(
                        "There is no model profile '{profile}'. Define profiles.{profile} in config.yaml or in \
                         initializationOptions."
                    ),
                });
            };
            self.model_source.connect(settings)
        })
    }

    /// A request to the model of a profile has ended, with so much used. `begun` is the request at its endpoint; none where
    /// there is no endpoint.
    pub(super) fn ended(
        &self,
        profile: &str,
        begun: Option<BegunRequest>,
        used: &Usage,
        failure: Option<&ModelError>,
    ) {
        if let Some(begun) = begun {
            begun.used(self.rated_tokens(profile, used));
            if let Some(error) = failure {
                begun.failed(error);
            }
        }
        let is_refused = failure.is_some_and(|error| error.kind == ModelErrorKind::Unauthorized);
        let plays_script = self.settings.profiles.get(profile).is_some_and(Profile::plays_script);
        // Its owner may give another key before the next request. A script would begin again.
        if is_refused && !plays_script {
            self.models.forget(profile);
        }
    }
}
