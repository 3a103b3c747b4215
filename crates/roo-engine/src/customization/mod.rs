//! Files by which users and workspaces steer agents: modes, rules, prompts, hooks; and whether a workspace is trusted
//! to do so.
//!
//! Everything is read when it is used, and nothing is watched. Files of modes, hooks and MCP servers are read again only when
//! they have changed. Rules, commands, skills and prompts that replace others are looked for and read each time.
//!
//! Nothing of a workspace counts before the user trusts it, and a workspace that is trusted still
//! needs an approval for what gives a mode more than it has, and an answer for modes of which none says to whom it may
//! delegate. What a mode may do is said in
//! [`roo_formats::modes`], how a prompt is composed in [`roo_model::prompts`].

mod access;
mod commands;
mod directory;
mod files;
#[cfg(test)]
mod fixture;
mod hook_files;
mod mcp_files;
mod mode_files;
mod own_delegation;
mod program_files;
mod rules;
mod script;
mod skills;
mod trust;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

use self::directory::without_hidden;
use self::files::{Files, PATTERN_FILES, Text};
use self::hook_files::HookFiles;
use self::mcp_files::McpFiles;
use self::mode_files::{ModeFile, ModeProblem};
use self::own_delegation::OwnDelegation;
use self::trust::{DelegationAnswer, TrustState, TrustStore};
use crate::hooks::{Hook, UserHooks};
use roo_formats::config::{Directories, Settings};
use roo_formats::declaration::did_you_mean;
use roo_formats::modes::{self, Mode, ModePart, Modes, Source};
use roo_formats::roo_code::places;
use roo_formats::{FileProblem, Severity, TextRange};
use roo_protocol::customization::{
    CustomizationProblem, ModeItem, ModeListResult, PendingKind, PendingTrust, TeamDelegation, TrustReport,
};
use roo_protocol::ids::Digest;
use roo_text::misspelling;
use roo_workspace::RootError;

pub use self::commands::SlashCommand;
pub use self::rules::RuleFile;
pub(crate) use self::skills::CREATE_MODE;
pub(crate) use self::skills::read_body;
pub use self::skills::{Origin, Skill, SkillError, Skills};
pub use self::trust::{Grant, TrustError};

#[cfg(test)]
pub(crate) use self::commands::load as load_commands;
pub use self::commands::{is_name as is_command_name, problems_of as problems_of_command};
pub use self::hook_files::problems_of as problems_of_hooks;
pub use self::mcp_files::{McpServer, problems_of as problems_of_mcp};
pub use self::rules::problems_of as problems_of_rules;
pub use self::skills::problems_of as problems_of_skill;

/// The slash command by which a user has earlier turns summarised.
pub const CONDENSE: &str = "condense";
/// Path of the modes of a workspace.
pub const PROJECT_MODES: &str = ".roomodes";
/// Path of the hooks of a workspace.
pub const PROJECT_HOOKS: &str = ".roo/hooks.json";
/// Path of a user's hooks in the configuration directory.
pub const GLOBAL_HOOKS: &str = "hooks.json";
/// Path of the MCP servers of a workspace.
pub const PROJECT_MCP: &str = ".roo/mcp.json";
/// Path of a user's MCP servers in the configuration directory.
pub const GLOBAL_MCP: &str = "mcp.json";
/// Paths of a user's modes in the configuration directory, from weak to strong.
const GLOBAL_MODES: [&str; 2] = ["custom_modes.yaml", "custom-modes.yaml"];
/// Directory in which nothing can be.
const NOWHERE: &str = "/dev/null";
/// The longest prompt that a file may replace a composed one with, in bytes.
const PROMPT_LIMIT: u64 = 256 << 10;

/// Owner of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The user's own.
    Global,
    /// The workspace's.
    Project,
}

/// Characters in which orders to a model could hide.
fn hidden_characters(file: &Path, first: Option<TextRange>) -> FileProblem {
    FileProblem::error(file, first, "Invisible characters were ignored: remove them.")
}

/// Sources of customization.
pub struct Setup {
    /// The workspace folders. What the first one brings counts.
    pub folders: Vec<PathBuf>,
    /// The user's directories.
    pub directories: Directories,
    /// The part of the user's state directory that belongs to this workspace: trust is kept there.
    pub state_directory: PathBuf,
}

/// Customization of the agents of one workspace. Reads the disk when it is asked.
pub struct Customization {
    files: Files,
    /// The first folder.
    root: Option<PathBuf>,
    home: Option<PathBuf>,
    trust: TrustStore,
    own_delegation: OwnDelegation,
    loaded: Mutex<Arc<Loaded>>,
    hooks: Mutex<HookFiles>,
    mcp: Mutex<McpFiles>,
    /// Milliseconds since the Unix epoch.
    now: Box<dyn Fn() -> i64 + Send + Sync>,
}

/// Content of the last read.
#[derive(Clone)]
struct Loaded {
    /// From weak to strong.
    global: Vec<ModeFile>,
    project: Option<ModeFile>,
    /// The trust by which `modes` came to be; none at first.
    trust: Option<TrustState>,
    modes: Arc<Modes>,
    /// Of the mode files.
    problems: Vec<FileProblem>,
    pending: Vec<PendingTrust>,
    /// The modes of the workspace's file that could be allowed to delegate to each other.
    team: Option<Team>,
    /// The same of the user's own files.
    own_team: Option<Team>,
}

/// Modes of files that say of none to whom it may delegate.
#[derive(Clone)]
struct Team {
    /// The file: the workspace's relative to the first folder.
    path: String,
    slugs: Vec<String>,
    /// Of the slugs, and of the workspace's file.
    digest: Digest,
    /// The user's answer; none where there is none.
    allowed: Option<bool>,
}

impl Customization {
    /// The customization of a workspace. Reads nothing yet.
    ///
    /// # Errors
    /// When a workspace folder can't be opened.
    pub fn open(setup: Setup) -> Result<Self, RootError> {
        let Setup { folders, directories, state_directory } = setup;
        let global = Self::global_mode_files(&directories);
        let home = directories.home;
        let files = Files::open(&folders)?;
        let root = files.first_root().map(Path::to_owned);
        let hooks = Mutex::new(HookFiles::new(directories.config.join(GLOBAL_HOOKS), root.as_deref()));
        let mcp = Mutex::new(McpFiles::new(directories.config.join(GLOBAL_MCP), root.as_deref()));
        let loaded = Loaded {
            global: global.into_iter().map(|path| ModeFile::new(path, Scope::Global)).collect(),
            project: root.as_ref().map(|root| ModeFile::new(root.join(PROJECT_MODES), Scope::Project)),
            trust: None,
            modes: Arc::new(Modes::built_in()),
            problems: vec![],
            pending: vec![],
            team: None,
            own_team: None,
        };
        let trust = TrustStore::new(&state_directory, root.as_deref());
        let own_delegation = OwnDelegation::new(&directories.state);
        let now = Box::new(|| Timestamp::now().as_millisecond());
        let loaded = Mutex::new(Arc::new(loaded));
        Ok(Self { files, root, home, trust, own_delegation, loaded, hooks, mcp, now })
    }

    /// The customization that a workspace alone brings, as if its user trusted it and had approved its modes: for what only
    /// reads texts and runs nothing. Nothing of the user's own is in it.
    ///
    /// # Errors
    /// When the workspace folder can't be opened.
    pub fn of_workspace(folder: PathBuf) -> Result<Self, RootError> {
        let nowhere = PathBuf::from(NOWHERE);
        let directories =
            Directories { config: nowhere.clone(), state: nowhere.clone(), home: None, settings_file: None };
        let mut all = Self::open(Setup { folders: vec![folder], directories, state_directory: nowhere })?;
        let loaded = all.loaded.get_mut().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(loaded).global.clear();
        Ok(Self { trust: all.trust.trusting_texts(), ..all })
    }

    /// The same by another clock, in milliseconds since the Unix epoch: by the time it is known whether a file may still be
    /// being saved.
    pub fn with_clock(self, now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self { now: Box::new(now), ..self }
    }

    /// The modes that count now: built-in, under the user's, under the workspace's where it is trusted.
    pub fn modes(&self) -> Arc<Modes> {
        Arc::clone(&self.refresh().modes)
    }

    /// Returns the problems of the files that steer agents and of the trust file.
    pub fn problems(&self) -> Vec<FileProblem> {
        let loaded = self.refresh();
        let mut problems = loaded.problems.clone();
        let project = self.root.as_deref().filter(|_| self.is_trusted());
        let slugs = || loaded.modes.iter().map(|mode| mode.slug.as_str());
        problems.extend(rules::problems(&self.files, self.home.as_deref(), project, slugs()));
        for (path, text) in slugs().filter_map(|slug| self.prompt_file(slug)) {
            let (_, hidden) = without_hidden(&text);
            problems.extend(hidden.map(|_| hidden_characters(&path, hidden)));
        }
        problems.extend(commands::load(&self.places()).1);
        problems.extend(Skills::load(&self.places()).1);
        problems.extend(self.with_hooks(HookFiles::problems));
        problems.extend(self.with_hooks(|hooks, _| hooks.missing_scripts(self.home.as_deref())));
        problems.extend(self.with_mcp(McpFiles::problems));
        if let Some(error) = self.why_untrusted() {
            problems.push(FileProblem::error(self.trust.file(), None, error.to_string()));
        }
        problems
    }

    /// The modes that count now, with what the user's settings let them delegate to.
    pub fn modes_by(&self, settings: &Settings) -> Arc<Modes> {
        let modes = self.modes();
        if settings.modes.values().all(|mode| mode.can_delegate_to.is_empty()) {
            return modes;
        }
        Arc::new(Modes::clone(&modes).delegating_by(&settings.modes))
    }

    /// The modes and the problems, for clients.
    pub fn mode_list(&self, settings: &Settings) -> ModeListResult {
        ModeListResult {
            modes: self.modes_by(settings).iter().map(|mode| mode_item(mode)).collect(),
            default_mode: settings.mode.clone(),
            problems: self.problems().into_iter().map(wire_problem).collect(),
        }
    }

    /// Returns the problems of a mode file that held this text, in a trusted workspace. Nothing of it counts.
    pub fn problems_of_modes(&self, path: &Path, text: &str) -> Vec<FileProblem> {
        let trust = TrustState { trusted: true, ..self.trust_state() };
        let mut loaded = Loaded::clone(&self.refresh());
        let files = loaded.global.iter_mut().chain(&mut loaded.project);
        for file in files.filter(|file| file.path() == path) {
            file.read(Text { text: text.to_owned(), digest: Digest::of(text) });
        }
        loaded.merge(trust);
        loaded.problems.retain(|problem| problem.file == path);
        loaded.problems
    }

    /// The text of a file of the user's or of a workspace that is trusted; of a `.rooignore` and a
    /// `.rooprotected` always, for these are always in force. None when there is none that can be read. At most 1 MiB.
    pub fn text_of(&self, path: &Path) -> Option<String> {
        let inside = self.files.roots().any(|root| path.starts_with(root));
        if inside && !PATTERN_FILES.iter().any(|name| path.ends_with(name)) && !self.is_trusted() {
            return None;
        }
        let scope = if inside { Scope::Project } else { Scope::Global };
        self.files.text(path, scope, modes::FILE_LIMIT as u64).ok().flatten().map(|text| text.text)
    }

    /// The files that may bring modes to a user, from weak to strong, whether or not they are there.
    pub fn global_mode_files(directories: &Directories) -> Vec<PathBuf> {
        // The weakest of all.
        let storages = directories.home.iter().flat_map(|home| places::storages_in_use(home));
        let of_roo_code = storages.map(|storage| storage.join(places::MODES[0]));
        of_roo_code.chain(GLOBAL_MODES.map(|name| directories.config.join(name))).collect()
    }

    /// The user's files by which they govern agents, whether or not they are there: settings, hooks, MCP servers, modes.
    pub fn governing_files(directories: &Directories) -> Vec<PathBuf> {
        let mut files = Self::global_mode_files(directories);
        files.extend([GLOBAL_HOOKS, GLOBAL_MCP].map(|name| directories.config.join(name)));
        files.push(directories.config_file());
        files
    }

    /// The rules of a mode, from weak to strong: its own before those of all modes, the user's before the
    /// workspace's.
    pub fn rules(&self, slug: &str) -> Vec<RuleFile> {
        let project = self.root.as_deref().filter(|_| self.is_trusted());
        rules::load(&self.files, self.home.as_deref(), project, slug)
    }

    /// The skills that may be loaded now.
    pub fn skills(&self) -> Skills {
        Skills::load(&self.places()).0
    }

    /// The hooks that count now: the user's, and behind them the workspace's where they were approved as they
    /// are. Where there are none, that costs a look at two names.
    pub fn user_hooks(&self) -> Arc<UserHooks> {
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.effective(&self.files, (self.now)(), || self.trust.read().unwrap_or_default())
    }

    /// Returns the problem for which [`UserHooks::fault`] lets nothing run.
    pub fn hooks_fault(&self) -> Option<FileProblem> {
        self.with_hooks(|hooks, _| hooks.fault())
    }

    /// The hooks of a trusted workspace, whether or not they were approved.
    pub fn project_hooks(&self) -> Vec<Hook> {
        self.with_hooks(|hooks, _| hooks.project_hooks().to_vec())
    }

    /// Asks what came of the hooks as they are now.
    fn with_hooks<T>(&self, question: impl FnOnce(&HookFiles, &TrustState) -> T) -> T {
        let trust = self.trust.read().unwrap_or_default();
        let mut hooks = self.hooks.lock().unwrap_or_else(PoisonError::into_inner);
        hooks.effective(&self.files, (self.now)(), || trust.clone());
        question(&hooks, &trust)
    }

    /// The MCP servers that are configured now, by name: the user's, and those of a trusted workspace. Reads only what has
    /// changed; where there are no files it asks for two names alone.
    pub fn mcp_servers(&self) -> Vec<McpServer> {
        self.with_mcp(McpFiles::servers)
    }

    /// Returns whether a file of modes, hooks or MCP servers may be being saved. What it held before counts then, and it is to
    /// be looked at again in [`roo_durable::SAVING`].
    pub fn is_being_saved(&self) -> bool {
        let loaded = self.refresh();
        loaded.files_in_force(self.is_trusted()).any(ModeFile::is_being_saved)
            || self.with_hooks(|hooks, _| hooks.is_being_saved())
            || self.with_mcp(|mcp, _| mcp.is_being_saved())
    }

    /// Asks what came of the files of MCP servers as they are now.
    fn with_mcp<T>(&self, question: impl FnOnce(&McpFiles, &TrustState) -> T) -> T {
        let mut mcp = self.mcp.lock().unwrap_or_else(PoisonError::into_inner);
        let trust = if mcp.depends_on_trust() {
            self.trust.read().unwrap_or_default()
        } else {
            TrustState::default()
        };
        mcp.refresh(&self.files, &trust, (self.now)());
        question(&mcp, &trust)
    }

    /// The slash commands that there are now, by name.
    pub fn commands(&self) -> Vec<SlashCommand> {
        commands::load(&self.places()).0
    }

    /// Below what there may be directories that steer agents, from weak to strong: the user's home, and a
    /// workspace that is trusted.
    fn places(&self) -> Vec<(PathBuf, Scope)> {
        let project = self.root.as_ref().filter(|_| self.is_trusted());
        let home = self.home.iter().map(|home| (home.clone(), Scope::Global));
        home.chain(project.map(|root| (root.clone(), Scope::Project))).collect()
    }

    /// The text that a trusted workspace has in place of a mode's prompt; variables are still in it.
    pub(crate) fn prompt_override(&self, slug: &str) -> Option<String> {
        let (_, text) = self.prompt_file(slug)?;
        Some(without_hidden(&text).0.trim().to_owned()).filter(|text| !text.is_empty())
    }

    /// The file with that text, and what it holds.
    fn prompt_file(&self, slug: &str) -> Option<(PathBuf, String)> {
        let root = self.root.as_ref().filter(|_| modes::is_slug(slug) && self.is_trusted())?;
        let path = root.join(".roo").join(format!("system-prompt-{slug}"));
        let text = self.files.text(&path, Scope::Project, PROMPT_LIMIT);
        let text =
            text.inspect_err(|error| tracing::warn!(path = %path.display(), %error, "a prompt is left out"));
        let text = text.ok()??.text;
        Some((path, text))
    }

    /// Returns whether the workspace is trusted, what it brings, and what waits for an approval.
    pub fn trust(&self) -> TrustReport {
        let pending_approvals = self.pending();
        let loaded = self.refresh();
        let told = |team: &Option<Team>| team.as_ref().map(Team::told);
        TrustReport {
            trusted: self.is_trusted(),
            brings: self.brings(),
            pending_approvals,
            delegation: told(&loaded.team),
            own_delegation: told(&loaded.own_team),
        }
    }

    /// The trust as it is, with what the user has answered for all workspaces. One that can't be read is none.
    fn trust_state(&self) -> TrustState {
        TrustState { own_delegation: self.own_delegation.read(), ..self.trust.read().unwrap_or_default() }
    }

    /// Returns what the workspace brings to steer agents if its user has not decided about it yet: it is not trusted, and
    /// could be.
    pub(crate) fn brings_undecided(&self) -> Option<Vec<String>> {
        let is_undecided = self.root.is_some() && self.trust.read().is_ok_and(|state| !state.trusted);
        is_undecided.then(|| self.brings())
    }

    fn brings(&self) -> Vec<String> {
        let mut brings =
            self.root.as_deref().map(|root| trust::brings(&self.files, root)).unwrap_or_default();
        if let Some(modes) = brings.iter_mut().find(|path| *path == PROJECT_MODES) {
            let replaced = self.replaced();
            if !replaced.is_empty() {
                modes.push_str(&format!(" (replaces {})", replaced.join(", ")));
            }
        }
        brings
    }

    /// Returns the files that wait for approval.
    fn pending(&self) -> Vec<PendingTrust> {
        let mut pending = self.refresh().pending.clone();
        pending.extend(self.with_hooks(HookFiles::pending));
        pending.extend(self.with_mcp(McpFiles::pending));
        pending
    }

    /// The slugs of the built-in modes in whose places the workspace's file puts its own. Of a workspace that
    /// isn't trusted, nothing else is read: it is what the question about its trust is about.
    fn replaced(&self) -> Vec<String> {
        let Some(mut file) = self.refresh().project.clone() else { return vec![] };
        file.refresh(&self.files, (self.now)());
        let built_in = Modes::built_in();
        let slugs = file.modes().iter().map(|mode| mode.slug.clone());
        slugs.filter(|slug| built_in.get(slug).is_some()).collect()
    }

    /// Trusts the workspace, or approves a file of a trusted one as it is.
    ///
    /// # Errors
    /// [`TrustError`] when there is nothing of that kind to approve, or the trust can't be kept.
    pub fn grant(&self, grant: &Grant) -> Result<TrustReport, TrustError> {
        if let Some(answer) = self.own_answer(grant)? {
            self.own_delegation.write(answer)?;
            return Ok(self.trust());
        }
        // From the look at what is trusted on: an approval must not bring back what is revoked meanwhile.
        let lock = self.trust.lock()?;
        let mut state = self.trust.read().unwrap_or_default();
        match grant {
            Grant::Workspace => state.trusted = true,
            Grant::AsShown { brings } if *brings != self.brings() => return Err(TrustError::BringsOther),
            Grant::AsShown { .. } => state.trusted = true,
            Grant::File { path, digest } => {
                let of_path = |waiting: &PendingTrust| waiting.path == *path;
                let pending: Vec<PendingTrust> = self.pending().into_iter().filter(of_path).collect();
                let is_meant = |waiting: &PendingTrust| match digest {
                    Some(digest) => *digest == waiting.digest,
                    None => waiting.kind == PendingKind::File,
                };
                let is_approved = |digest: &Digest| state.approved.contains(&(path.clone(), *digest));
                let is_changed = !pending.is_empty() && digest.is_some_and(|digest| !is_approved(&digest));
                match pending.into_iter().find(is_meant) {
                    None if is_changed => return Err(TrustError::Changed { path: path.clone() }),
                    None => return Err(self.why_nothing_waits_by(path, &state)),
                    Some(PendingTrust { kind: PendingKind::Delegation, digest, .. }) => {
                        state.delegation = Some(DelegationAnswer { digest, allowed: true });
                    }
                    Some(PendingTrust { path, digest, .. }) => {
                        // What was approved of this file before no longer exists.
                        state.approved.retain(|(approved, _)| *approved != path);
                        state.approved.insert((path, digest));
                    }
                }
            }
            Grant::RefusedDelegation { digest } => {
                if self.team(&state)?.digest != *digest {
                    return Err(TrustError::Changed { path: PROJECT_MODES.to_owned() });
                }
                state.delegation = Some(DelegationAnswer { digest: *digest, allowed: false });
            }
            Grant::Delegation { allowed } => {
                let digest = self.team(&state)?.digest;
                state.delegation = Some(DelegationAnswer { digest, allowed: *allowed });
            }
            // It is none of this workspace.
            Grant::OwnDelegation { .. } => {}
        }
        self.trust.write(&state)?;
        drop(lock);
        Ok(self.trust())
    }

    /// Returns what a grant answers about the user's own modes, if it is about them: within, none takes the answer back.
    fn own_answer(&self, grant: &Grant) -> Result<Option<Option<DelegationAnswer>>, TrustError> {
        let team = self.refresh().own_team.clone();
        let answer = |digest, allowed| DelegationAnswer { digest, allowed };
        let is_about = |digest: &Digest| team.as_ref().is_some_and(|team| team.digest == *digest);
        Ok(match grant {
            Grant::OwnDelegation { allowed: None } => Some(None),
            Grant::OwnDelegation { allowed: Some(allowed) } => match &team {
                Some(team) => Some(Some(answer(team.digest, *allowed))),
                None => {
                    let why =
                        "it is asked only about several modes of your own of which none has `canDelegateTo`";
                    let path = GLOBAL_MODES[1].to_owned();
                    return Err(TrustError::NothingPending { path, why: why.to_owned() });
                }
            },
            Grant::File { digest: Some(digest), .. } if is_about(digest) => Some(Some(answer(*digest, true))),
            Grant::RefusedDelegation { digest } if is_about(digest) => Some(Some(answer(*digest, false))),
            _ => None,
        })
    }

    /// Returns the modes of the workspace's file that could be allowed to delegate to each other.
    fn team(&self, state: &TrustState) -> Result<Team, TrustError> {
        let path = PROJECT_MODES.to_owned();
        match self.refresh().team.clone() {
            Some(team) => Ok(team),
            None if !state.trusted => Err(TrustError::NotTrusted { path }),
            None => {
                let why = "it is asked only about several modes of which none has `canDelegateTo`".to_owned();
                Err(TrustError::NothingPending { path, why })
            }
        }
    }

    /// Returns the reason why nothing of a file waits for an approval, to be asked where nothing does.
    pub fn why_nothing_waits(&self, path: &str) -> TrustError {
        self.why_nothing_waits_by(path, &self.trust.read().unwrap_or_default())
    }

    fn why_nothing_waits_by(&self, path: &str, state: &TrustState) -> TrustError {
        let named = path.to_owned();
        if !state.trusted {
            return TrustError::NotTrusted { path: named };
        }
        let nothing = |why: String| TrustError::NothingPending { path: named.clone(), why };
        let file =
            self.root.as_deref().filter(|_| [PROJECT_MODES, PROJECT_HOOKS, PROJECT_MCP].contains(&path));
        let Some(file) = file.map(|root| root.join(path)) else {
            return nothing(format!("use exactly `{PROJECT_MODES}`, `{PROJECT_HOOKS}` or `{PROJECT_MCP}`"));
        };
        if file.symlink_metadata().is_err() {
            return nothing("there is no such file".to_owned());
        }
        let is_wrong =
            |problem: &FileProblem| problem.file == file && problem.problem.severity == Severity::Error;
        if let Some(problem) = self.problems().into_iter().find(is_wrong) {
            return TrustError::Broken { path: named, problem: problem.problem.message };
        }
        match state.approved.iter().any(|(approved, _)| approved == path) {
            true => nothing("its current version is approved already".to_owned()),
            false => nothing("it contains nothing that needs approval".to_owned()),
        }
    }

    /// Takes back the trust, and all approvals with it.
    ///
    /// # Errors
    /// [`TrustError`] when that can't be kept.
    pub fn revoke(&self) -> Result<TrustReport, TrustError> {
        let lock = self.trust.lock()?;
        self.trust.write(&TrustState::default())?;
        drop(lock);
        Ok(self.trust())
    }

    /// Returns the reason why trust that was granted doesn't count; none when it does, or there is none.
    pub fn why_untrusted(&self) -> Option<TrustError> {
        self.trust.read().err()
    }

    /// Reports whether the user trusts the workspace. A trust that can't be read is none.
    pub fn is_trusted(&self) -> bool {
        self.trust.read().is_ok_and(|state| state.trusted)
    }

    /// Reads again what has changed. Nobody waits for somebody else's reading: of two at once the later
    /// counts, and what it missed is read the next time.
    fn refresh(&self) -> Arc<Loaded> {
        let trust = self.trust_state();
        let loaded = Arc::clone(&self.loaded.lock().unwrap_or_else(PoisonError::into_inner));
        let is_current = loaded.files_in_force(trust.trusted).all(ModeFile::is_current);
        if is_current && loaded.trust.as_ref() == Some(&trust) {
            return loaded;
        }
        let mut loaded = Loaded::clone(&loaded);
        let mut changed = loaded.trust.as_ref() != Some(&trust);
        let project = loaded.project.as_mut().filter(|_| trust.trusted);
        let now = (self.now)();
        for file in loaded.global.iter_mut().chain(project) {
            changed |= file.refresh(&self.files, now);
        }
        if changed {
            loaded.merge(trust);
        }
        let loaded = Arc::new(loaded);
        *self.loaded.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&loaded);
        loaded
    }
}

impl Loaded {
    /// The files that bring modes, from weak to strong.
    fn files_in_force(&self, trusted: bool) -> impl Iterator<Item = &ModeFile> {
        self.global.iter().chain(self.project.as_ref().filter(|_| trusted))
    }

    /// Puts the modes of all files together.
    fn merge(&mut self, trust: TrustState) {
        let mut modes = Modes::built_in();
        for file in &self.global {
            modes = modes.with(file.modes().iter().cloned());
        }
        self.pending.clear();
        self.own_team = Team::of_user(&self.global, &trust);
        if let Some(team) = &self.own_team {
            self.pending.extend(team.question());
            if team.allowed == Some(true) {
                modes = modes.delegating_among(&team.slugs);
            }
        }
        self.team = None;
        let mut of_project = Vec::new();
        if let Some(file) = self.project.as_ref().filter(|_| trust.trusted) {
            let (mut own, mut widening) = (Vec::new(), Vec::new());
            let mut slugs = Vec::new();
            for mode in file.modes() {
                let like = look_alike(mode, &modes);
                let refused = like.as_ref().is_some_and(|problem| problem.severity == Severity::Error);
                of_project.extend(like);
                slugs.extend((!refused).then(|| mode.slug.clone()));
                match widens(mode, &modes) {
                    _ if refused => {}
                    Some(what) => widening.push((mode, what)),
                    None => own.push(mode.clone()),
                }
            }
            let lines: Vec<String> = widening.iter().map(|(_, what)| what.clone()).collect();
            let digest = file.digest().filter(|_| !lines.is_empty()).map(|digest| shown(digest, &lines));
            let is_approved = |digest| trust.approved.contains(&(PROJECT_MODES.to_owned(), digest));
            if trust.approves_modes || digest.is_some_and(is_approved) {
                own.extend(widening.into_iter().map(|(mode, _)| mode.clone()));
            } else if let Some(digest) = digest {
                of_project.extend(widening.into_iter().map(|(mode, what)| {
                    let message = format!(
                        "{what}. It is ignored until you approve this file: `roo-lsp trust --approve {PROJECT_MODES}`, \
                         or the command roo.trustWorkspace with this path"
                    );
                    ModeProblem::of_mode(&mode.slug, Severity::Error, message)
                }));
                let path = PROJECT_MODES.to_owned();
                self.pending.push(PendingTrust { path, digest, kind: PendingKind::File, widens: lines });
            }
            modes = modes.with(own);
            self.team = Team::new(file, slugs, &trust);
        }
        if let Some(team) = &self.team {
            self.pending.extend(team.question());
            if team.allowed == Some(true) {
                // One that waits for an approval is left out: the mode of its slug is another one.
                let is_of_file =
                    |slug: &&String| modes.get(slug).is_some_and(|mode| mode.source == Source::Project);
                let in_force: Vec<String> = team.slugs.iter().filter(is_of_file).cloned().collect();
                modes = modes.delegating_among(&in_force);
            }
        }
        let mut problems = Vec::new();
        for file in &self.global {
            problems.extend_from_slice(file.problems());
            problems.extend(file.problems_with(without_target(file, &modes)));
        }
        if let Some(file) = self.project.as_ref().filter(|_| trust.trusted) {
            problems.extend_from_slice(file.problems());
            of_project.extend(without_target(file, &modes));
            problems.extend(file.problems_with(of_project));
        }
        self.modes = Arc::new(modes);
        self.problems = problems;
        self.trust = Some(trust);
    }
}

impl Team {
    /// The modes of a file by these slugs; none where there is nothing to ask.
    fn new(file: &ModeFile, slugs: Vec<String>, trust: &TrustState) -> Option<Self> {
        if file.names_delegation() || slugs.len() < 2 {
            return None;
        }
        let digest = shown(file.digest()?, &[format!("delegation among {}", slugs.join(" "))]);
        let answer = trust.delegation.filter(|answer| answer.digest == digest).map(|answer| answer.allowed);
        let allowed = if trust.approves_modes { Some(true) } else { answer };
        Some(Self { path: PROJECT_MODES.to_owned(), slugs, digest, allowed })
    }

    /// The modes of the user's own files, from weak to strong; none where there is nothing to ask. The question is asked again when
    /// a mode comes or goes: whatever else is written in the files is the user's own.
    fn of_user(files: &[ModeFile], trust: &TrustState) -> Option<Self> {
        let asked = || files.iter().filter(|file| !file.modes().is_empty() && !file.names_delegation());
        let slugs: BTreeSet<&str> =
            asked().flat_map(ModeFile::modes).map(|mode| mode.slug.as_str()).collect();
        // A stronger file may have the same mode, and say to whom it may delegate.
        let said = files.iter().filter(|file| file.names_delegation()).flat_map(ModeFile::modes);
        let said: BTreeSet<&str> = said.map(|mode| mode.slug.as_str()).collect();
        let slugs: Vec<String> = slugs.difference(&said).map(|slug| (*slug).to_owned()).collect();
        if slugs.len() < 2 {
            return None;
        }
        let path = asked().next_back()?.path().to_string_lossy().into_owned();
        let digest = Digest::of(format!("delegation among own modes {}", slugs.join(" ")));
        let answer = trust.own_delegation.filter(|answer| answer.digest == digest);
        Some(Self { path, slugs, digest, allowed: answer.map(|answer| answer.allowed) })
    }

    /// The same, for users.
    fn told(&self) -> TeamDelegation {
        TeamDelegation { path: self.path.clone(), modes: self.slugs.clone(), allowed: self.allowed }
    }

    /// The question to the user; none where it has its answer.
    fn question(&self) -> Option<PendingTrust> {
        let line = format!(
            "the modes of this file may delegate to each other, as in Roo Code (none has `canDelegateTo`): {}",
            self.slugs.join(", ")
        );
        let (path, digest) = (self.path.clone(), self.digest);
        let question = PendingTrust { path, digest, kind: PendingKind::Delegation, widens: vec![line] };
        self.allowed.is_none().then_some(question)
    }
}

/// Describes what a workspace's mode would give that the modes below it don't; none when it only tightens.
fn widens(mode: &Mode, below: &Modes) -> Option<String> {
    let slug = &mode.slug;
    if let Some(known) = below.get(slug) {
        let more = mode.beyond(known);
        return (!more.is_empty())
            .then(|| format!("the mode '{slug}' would get more than it has: {}", more.join(", ")));
    }
    let callers: Vec<&str> = below
        .iter()
        .filter(|known| known.can_delegate_to.contains(slug))
        .map(|known| known.slug.as_str())
        .collect();
    (!callers.is_empty())
        .then(|| format!("the mode '{slug}' is new, and {} may delegate to it", callers.join(", ")))
}

/// Returns the problem of a workspace's mode that could be taken for another.
fn look_alike<'a>(mode: &'a Mode, below: &Modes) -> Option<ModeProblem<'a>> {
    let slug = &mode.slug;
    let others = || below.iter().filter(|known| known.slug != *slug);
    if let Some(known) = others().find(|known| known.slug.eq_ignore_ascii_case(slug)) {
        let message = format!(
            "the slug '{slug}' looks like that of the mode '{}', so this mode is ignored; choose another slug",
            known.slug
        );
        return Some(ModeProblem::of_mode(slug, Severity::Error, message));
    }
    let name = mode.name.to_lowercase();
    let known = others().find(|known| known.name.to_lowercase() == name)?;
    let message =
        format!("the mode '{slug}' has the same name as the mode '{}'; choose another name", known.slug);
    Some(ModeProblem::of_mode(slug, Severity::Warning, message))
}

/// Of all that an approval is about: the file, and what it widens. The latter changes with the modes below,
/// though the file stays as it is.
fn shown(file: Digest, widens: &[String]) -> Digest {
    Digest::of(format!("{file}\n{}", widens.join("\n")))
}

/// The modes of a file that may delegate to modes that aren't there.
fn without_target<'a>(file: &'a ModeFile, modes: &'a Modes) -> Vec<ModeProblem<'a>> {
    let problem = |mode: &'a Mode| {
        let target = mode.can_delegate_to.iter().find(|slug| modes.get(slug).is_none())?;
        let suggestion = misspelling::meant(target, modes.iter().map(|mode| mode.slug.as_str()))
            .filter(|meant| mode.can_delegate_to.iter().all(|target| target != meant));
        let message = format!(
            "the mode '{}' may delegate to '{target}', but there is no such mode{}",
            mode.slug,
            did_you_mean(suggestion)
        );
        let part = ModePart::DelegatesTo { slug: &mode.slug, target };
        Some(ModeProblem { part, severity: Severity::Warning, message, suggestion })
    };
    file.modes().iter().filter_map(problem).collect()
}

fn mode_item(mode: &Mode) -> ModeItem {
    ModeItem {
        slug: mode.slug.clone(),
        name: mode.name.clone(),
        emoji: mode.emoji.clone(),
        description: mode.description.clone(),
        when_to_use: mode.when_to_use.clone(),
        source: mode.source.as_str().to_owned(),
        can_delegate_to: mode.can_delegate_to.clone(),
        tools: mode.tools().into_iter().map(|tool| tool.to_string()).collect(),
        file_regex: mode.file_restriction.as_ref().map(|files| files.pattern().to_owned()),
    }
}

fn wire_problem(FileProblem { file, problem }: FileProblem) -> CustomizationProblem {
    let number = |number: usize| u32::try_from(number).ok();
    CustomizationProblem {
        path: file.display().to_string(),
        line: problem.start().and_then(|at| number(at.line)),
        column: problem.start().and_then(|at| number(at.column)),
        error: problem.severity == Severity::Error,
        message: problem.message,
    }
}

impl From<Scope> for Source {
    fn from(scope: Scope) -> Self {
        match scope {
            Scope::Global => Self::Global,
            Scope::Project => Self::Project,
        }
    }
}

#[cfg(test)]
mod tests;
