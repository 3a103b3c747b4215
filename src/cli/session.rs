//! Foundation of every subcommand: directories, settings, workspace, engine.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::arguments::Common;
use super::{CliError, terminal};
use crate::code_index::code_index;
use crate::live_settings::LiveSettings;
use crate::mcp::McpServers;
pub(super) use crate::model_setup::environment;
use crate::workspace_engine::workspace_engine;
use crate::workspace_parts::WorkspaceParts;
use roo_catalog::{Invocation, ToolCall};
use roo_durable::WorkspaceDirectory;
use roo_durable::reserve::Reserve;
use roo_engine::approvals::StandingRules;
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::Engine;
use roo_engine::engine::clock::{Clock as _, SystemClock};
use roo_engine::hooks::{HookSandbox, UserHooks};
use roo_engine::intent_store::{Binding, IntentRefusal, Intents, Orchestration};
use roo_engine::policy::{
    Bounds, Gate, GateOutcome, Offers, PolicyContext, Recorder, ToolCallContext, command,
};
use roo_engine::server_tools::NoServerTools;
use roo_formats::config::{
    self, Directories, Layer, Loaded, NoHome, Profile, Settings, SettingsProblem, SettingsSource,
};
use roo_formats::modes::{self, Mode, Modes, UnknownMode};
use roo_language_servers::LanguageServers;
use roo_model::providers::{self, ModelError};
use roo_protocol::ids::{Digest, Urid};
use roo_sandbox::exec::sandbox::Helper;
use roo_text::position::Encoding;
use roo_text::render::exact_line;
use roo_workspace::{Documents, Purpose, RootError, Setup, Workspace};

/// The most problems of files that are told one by one.
const PROBLEMS: usize = 20;

/// Reasons why there can't be a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The environment has no place for configuration and state.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// The settings are wrong.
    #[error("{0}")]
    Settings(#[from] SettingsProblem),
    /// A settings file was named that isn't there.
    #[error("the settings file {} can't be found: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Reason why not.
        source: io::Error,
    },
    /// The workspace folder can't be used.
    #[error("the workspace {} can't be used: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Reason why not.
        source: io::Error,
    },
    /// The workspace folder can't be opened.
    #[error(transparent)]
    Root(#[from] RootError),
}

/// Directories, and settings of the user.
pub(super) struct SessionContext {
    pub(super) directories: Directories,
    /// Canonical.
    pub(super) folder: PathBuf,
}

/// The settings file that a flag names. The usual file may be missing; one that was asked for may not.
pub(super) fn named_settings(path: &Path) -> Result<PathBuf, SessionError> {
    let found = path.metadata().and_then(|_| std::path::absolute(path));
    found.map_err(|source| SessionError::Config { path: path.to_owned(), source })
}

impl SessionContext {
    /// From the flags and the process's environment.
    pub(super) fn find(common: &Common) -> Result<Self, SessionError> {
        let mut directories = Directories::from_environment(|name| std::env::var_os(name))?;
        let folder = common.workspace.clone().unwrap_or_else(|| PathBuf::from("."));
        let folder = match folder.canonicalize() {
            // Agents name files by text.
            Ok(path) if path.to_str().is_none() => {
                let source = io::Error::new(io::ErrorKind::InvalidFilename, "its path is not UTF-8");
                return Err(SessionError::Folder { path, source });
            }
            Ok(folder) if folder.is_dir() => folder,
            Ok(path) => {
                return Err(SessionError::Folder { path, source: io::ErrorKind::NotADirectory.into() });
            }
            Err(source) => return Err(SessionError::Folder { path: folder, source }),
        };
        if let Some(path) = &common.config {
            directories.settings_file = Some(named_settings(path)?);
        }
        Ok(Self { directories, folder })
    }

    /// Lets no agents loose on a home directory because a server was started there, or its client. `is_named`: whether the user
    /// has named the workspace. `command`: the server's.
    pub(super) fn refuse_wide_folder(&self, is_named: bool, command: &str) -> Result<(), CliError> {
        match self.directories.too_wide(&self.folder) {
            Some(what) if !is_named => Err(CliError::Usage(format!(
                "the workspace would be {}, which is {what}. Name one: roo-lsp --workspace DIRECTORY {command}",
                exact_line(&self.folder.to_string_lossy())
            ))),
            _ => Ok(()),
        }
    }

    /// The settings of the file and of the command line. Keys that mean nothing are told on standard error.
    pub(super) fn settings(&self, flags: Option<Layer>) -> Result<Settings, SessionError> {
        let loaded = config::load(self.layers(flags)?)?;
        tell(&loaded.warnings);
        Ok(loaded.settings)
    }

    /// The same, for what goes by the rules of commands: those that never apply are told too.
    pub(super) fn settings_for_policy(&self, flags: Option<Layer>) -> Result<Settings, SessionError> {
        let loaded = self.load(flags)?;
        tell(&loaded.warnings);
        Ok(loaded.settings)
    }

    /// The settings of the file and of the command line, for a request: the file is read again while it runs. Warnings are
    /// printed as by [`Self::settings_for_policy`]; later problems become notices.
    pub(super) fn live_settings(&self, flags: Layer) -> Result<Arc<LiveSettings>, SessionError> {
        let file = self.directories.config_file();
        let live = LiveSettings::load(file, Ok(Some(flags)), &Value::Null, Arc::new(SystemClock));
        let (configured, live) = (live.newest(), Arc::new(live));
        if let Some(problem) = configured.errors.first() {
            return Err(problem.clone().into());
        }
        tell(&configured.warnings);
        let (mut changes, changed) = (live.changes(), Arc::clone(&live));
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let configured = changed.newest();
                match &configured.fault {
                    Some(fault) => tracing::warn!("{fault}"),
                    None => configured
                        .errors
                        .iter()
                        .for_each(|error| tracing::warn!("{error}; the settings from before stay in force")),
                }
                configured.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            }
        });
        Ok(live)
    }

    /// The settings of the file, for what only looks at things: where they can't be used, that is told on standard error
    /// and the defaults count.
    pub(super) fn settings_to_look(&self) -> Settings {
        match self.settings(None) {
            Ok(settings) => settings,
            Err(error) => {
                // A note that can't be written changes nothing.
                let _ = writeln!(terminal::stderr(), "roo-lsp: {error}; the defaults count");
                Settings::default()
            }
        }
    }

    /// The settings of the file and of the command line, with what means nothing in them, and the rules that never apply.
    pub(super) fn load(&self, flags: Option<Layer>) -> Result<Loaded, SettingsProblem> {
        let layers = self.layers(flags)?;
        let mut loaded = config::load(layers.iter().cloned())?;
        loaded.warnings.extend(layers.iter().flat_map(command::problems));
        Ok(loaded)
    }

    /// Returns the layers of the file and the command line, the weaker first.
    pub(super) fn layers(&self, flags: Option<Layer>) -> Result<Vec<Layer>, SettingsProblem> {
        Ok(Layer::read(&self.directories.config_file())?.into_iter().chain(flags).collect())
    }

    /// The state of this workspace.
    pub(super) fn state(&self) -> WorkspaceDirectory {
        WorkspaceDirectory::new(&self.directories.state, &self.folder)
    }

    /// The workspace, without an editor.
    pub(super) fn workspace(&self) -> Result<Arc<Workspace>, SessionError> {
        Ok(Arc::new(Workspace::open(Setup {
            folders: vec![self.folder.clone()],
            state_directory: self.state().path().to_owned(),
            documents: Arc::new(Documents::default()),
            editor: None,
            encoding: Encoding::Utf8,
        })?))
    }

    /// Loads the customization of the workspace.
    pub(super) fn customization(&self) -> Result<Arc<Customization>, SessionError> {
        Ok(Arc::new(Customization::open(CustomizationSetup {
            folders: vec![self.folder.clone()],
            directories: self.directories.clone(),
            state_directory: self.state().path().to_owned(),
        })?))
    }

    /// The intents of the workspace.
    pub(super) fn intents(&self) -> Result<Intents, SessionError> {
        Ok(Orchestration::new(self.workspace()?, self.state().path()).intents())
    }

    /// Loads the customization for agents that are about to work. The problems of its files are told on standard error.
    ///
    /// # Errors
    /// Hooks that are meant to run and can't.
    pub(super) fn customization_at_work(&self) -> Result<Arc<Customization>, CliError> {
        let customization = self.customization()?;
        let fault = customization.hooks_fault();
        // That one is reported as the reason why nothing runs.
        let problems = customization.problems().into_iter().filter(|problem| Some(problem) != fault.as_ref());
        let problems: Vec<_> = problems.chain(self.intents()?.problems()).collect();
        for problem in problems.iter().take(PROBLEMS) {
            writeln!(terminal::stderr(), "roo-lsp: {}", exact_line(&problem.to_string()))?;
        }
        if let Some(more) = problems.len().checked_sub(PROBLEMS).filter(|more| *more > 0) {
            writeln!(terminal::stderr(), "roo-lsp: and {more} more problems; see roo-lsp doctor")?;
        }
        note_untrusted(&customization)?;
        if let Some(notice) = self.rules().notice() {
            writeln!(terminal::stderr(), "roo-lsp: {notice}")?;
        }
        match customization.user_hooks().fault() {
            Some(fault) => Err(CliError::Other(exact_line(fault))),
            None => Ok(customization),
        }
    }

    /// Returns the bounds of commands.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds::new(Helper::own(), self.directories.clone(), self.state().path().to_owned())
    }

    /// Returns the standing rules.
    pub(super) fn rules(&self) -> StandingRules {
        StandingRules::new(self.state().path(), Some(&self.folder)).with_user_rules(&self.directories.state)
    }

    /// A gate over the workspace, without an engine.
    pub(super) fn judge(&self, settings: Settings, bounds: Bounds) -> Result<Judge, SessionError> {
        let (settings, bounds, clock) = (Arc::new(settings), Arc::new(bounds), SystemClock);
        let parts = self.parts(Arc::new(Arc::clone(&settings)))?;
        let workspace = Arc::clone(&parts.workspace);
        let modes = parts.customization.modes_by(&settings);
        let orchestration = Arc::new(Orchestration::new(Arc::clone(&workspace), self.state().path()));
        let recorder = Arc::new(Recorder::new(
            self.state().path().to_owned(),
            Some(self.folder.clone()),
            Arc::clone(&orchestration),
            Reserve::new(&self.directories.state),
        ));
        let gate = Gate::new(PolicyContext {
            workspace: Arc::clone(&workspace),
            settings: Arc::clone(&settings),
            code_index: Arc::new(code_index(&parts)),
            customization: parts.customization,
            orchestration: Arc::clone(&orchestration),
            rules: Arc::new(self.rules()),
            bounds: Arc::clone(&bounds),
            recorder: Arc::clone(&recorder),
            server_tools: Arc::new(NoServerTools),
            language_servers: Arc::new(LanguageServers::none()),
            models: Arc::new(roo_model::providers::ConfiguredModels),
            is_worktree: false,
        });
        let urid = modes::urid(clock.zoned().datetime(), clock.random());
        Ok(Judge { gate, workspace, settings, modes, orchestration, recorder, bounds, urid })
    }

    /// What the services of the workspace are built from, without an editor.
    pub(super) fn parts(&self, settings: Arc<dyn SettingsSource>) -> Result<WorkspaceParts, SessionError> {
        Ok(WorkspaceParts {
            settings,
            workspace: self.workspace()?,
            customization: self.customization()?,
            directory: self.state(),
            directories: self.directories.clone(),
        })
    }

    /// The MCP servers that count in the workspace. None is started by that.
    pub(super) fn mcp_servers(&self, settings: Settings) -> Result<McpServers, SessionError> {
        Ok(McpServers::new(self.parts(Arc::new(Arc::new(settings)))?))
    }

    /// An engine over the workspace, without an editor.
    pub(super) fn engine(&self, settings: Arc<dyn SettingsSource>) -> Result<Engine, SessionError> {
        let parts = self.parts(settings)?;
        let mcp = Arc::new(McpServers::new(parts.clone()));
        Ok(workspace_engine(parts, Arc::new(SystemClock), mcp))
    }
}

/// A gate, and what it judges by; calls are made as by a request that has just begun.
pub(super) struct Judge {
    gate: Gate,
    pub(super) workspace: Arc<Workspace>,
    pub(super) settings: Arc<Settings>,
    modes: Arc<Modes>,
    pub(super) orchestration: Arc<Orchestration>,
    pub(super) recorder: Arc<Recorder>,
    pub(super) bounds: Arc<Bounds>,
    pub(super) urid: Urid,
}

impl Judge {
    /// The mode that makes calls.
    pub(super) fn mode(&self, slug: &str) -> Result<&Mode, UnknownMode> {
        self.modes.find(slug).map(|mode| &**mode)
    }

    /// The intent that calls are made under. Nothing is accepted by that.
    pub(super) fn bound(&self, id: Option<&str>) -> Result<Option<Binding>, IntentRefusal> {
        let Some(id) = id else { return Ok(None) };
        let file = self.orchestration.selectable(id)?;
        Ok(file.get(id).map(|intent| Binding { id: intent.id.clone(), digest: intent.digest() }))
    }

    /// The gate's verdict on a call. What it would edit counts as seen: the question is what the policy
    /// says, not what a task has read.
    pub(super) async fn judge(
        &self,
        call: &ToolCall,
        mode: &Mode,
        intent: Option<&Binding>,
        approved: Option<Digest>,
    ) -> GateOutcome {
        let seen = self.seen(call).await;
        let (_, profile) = self.settings.profile_of(&mode.slug);
        let tools = profile.map(Profile::tools).unwrap_or_default();
        let subject = ToolCallContext {
            mode,
            modes: &self.modes,
            profile: None,
            tools: &tools,
            is_branch: false,
            opens_parallel_branches: false,
            merge: None,
            delegations: 0,
            urid: &self.urid,
            seen: &seen,
            approved,
            review: None,
            intent,
            within: &[],
            // Hooks are tried out with `hooks run`.
            hooks: None,
            offers: Offers::default(),
            commands: None,
            browser: None,
        };
        self.gate.judge(call, subject).await
    }

    /// The sandbox of hooks that are tried out.
    pub(super) async fn hook_sandbox(&self, hooks: &UserHooks) -> HookSandbox {
        self.gate.hook_sandbox(hooks, &self.urid).await
    }

    async fn seen(&self, call: &ToolCall) -> BTreeMap<String, Digest> {
        let invocation = roo_catalog::parse(call).ok();
        let paths = invocation.iter().flat_map(Invocation::edited_files);
        let mut seen = BTreeMap::new();
        for path in paths {
            // What can't be resolved or read, the gate refuses in its own words.
            let Ok(path) = self.workspace.resolve(path, Purpose::Write) else { continue };
            let file = self.workspace.read_for_edit(&path).await;
            seen.extend(file.map(|file| (path.display(), file.digest)));
        }
        seen
    }
}

/// Says on standard error what has no effect as long as the workspace is not trusted.
pub(super) fn note_untrusted(customization: &Customization) -> Result<(), CliError> {
    let trust = customization.trust();
    if !trust.trusted && !trust.brings.is_empty() {
        let brings = exact_line(&trust.brings.join(", "));
        writeln!(
            terminal::stderr(),
            "roo-lsp: this workspace is not trusted, so these have no effect: {brings} (see roo-lsp trust)"
        )?;
    }
    Ok(())
}

/// Tells warnings on standard error.
fn tell(warnings: &[SettingsProblem]) {
    for warning in warnings {
        // A note that can't be written changes nothing.
        let _ = writeln!(terminal::stderr(), "roo-lsp: {warning}");
    }
}

/// Returns whether a profile has all that it needs, as far as that can be told without a request.
pub(super) fn check_profile(profile: &Profile) -> Result<(), ModelError> {
    providers::connect(profile, &environment).map(drop)
}
