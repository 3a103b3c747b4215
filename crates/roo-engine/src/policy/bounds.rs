//! Paths and hosts that the sandbox lets a command write, read and reach: what its task may change, and no more.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Once};
use std::time::{Duration, SystemTime};

use tokio::sync::{Mutex, OnceCell};

use super::gate::{PolicyContext, ToolCallContext};
use super::git::{self, EffectiveConfiguration, GitDirectory, GitGuard, GitOutcome, Signing, SigningMethod};
use super::hook_sandbox::ToolOverlays;
use super::in_flight::UnderWay;
use super::intent::Grant;
use super::server_files::ServerFiles;
use super::server_sandbox;
use super::task_network::{NetworkRules, TaskNetwork, TaskNetworks};
use super::tool_configuration;
use super::tool_homes::ToolHomes;
use super::withheld_paths::{PlaceFinder, Places, SCRATCH};
use roo_formats::config::{Directories, SandboxLevel, SandboxSettings, Settings};
use roo_formats::intents::{Covered, Enforced, Intent};
use roo_formats::modes;
use roo_protocol::ids::{Digest, Urid};
use roo_sandbox::changes::{
    Allowed, Change, ChangesError, Keep, Kind, LeasedLayers, Limits, Recording, Scope, Stage, StagingArea,
    Store, What,
};
use roo_sandbox::exec::sandbox::{
    Capture, Confinement, Helper, Journal, Level, Network, Probe, Required, Sandbox, SigningKey,
    SigningService, Staged, Substitute, credentials,
};
use roo_sandbox::exec::{EnvironmentRules, ExecError};
use roo_workspace::{ProtectedNames, Protection, Purpose, Workspace, protection};

/// Directory for the writes of staged commands, below the workspace's part of the state directory.
const STAGED: &str = "staged";
/// Directory for contents that commands change, below the same.
const CHANGES: &str = "changes";
/// Directory for files as they were before the running command, below the same.
const CAPTURES: &str = "captures";
/// The layers over directories of build tools, below the same.
const LAYERS: &str = "layers";
/// Directory of the sockets that sign for commands, below the same.
const SIGNING: &str = "signing";
/// Below the workspace's part of the state directory: temporary directories of requests and MCP servers.
pub(super) const TEMPORARY: &str = "tmp";
/// After this long no command runs any more whose captures are there.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Bounds of the commands of one workspace.
pub struct Bounds {
    helper: Helper,
    found: OnceCell<Sandbox>,
    /// Store of files that a command may have to give back.
    store: OnceCell<Arc<Store>>,
    /// Area for the writes of staged commands.
    staging: OnceCell<Arc<StagingArea>>,
    under_way: Arc<UnderWay>,
    networks: Arc<TaskNetworks>,
    /// Finder of names in the workspace.
    finder: OnceCell<Arc<PlaceFinder>>,
    /// The directories that can be shown through layers, or can't.
    layered: Mutex<BTreeMap<PathBuf, bool>>,
    /// The workspace folders for which staging was tried and works.
    tried: Mutex<Option<Vec<PathBuf>>>,
    directories: Directories,
    /// The workspace's part of the state directory: private temporary files and caches are in it.
    private: PathBuf,
    /// Set once git has been told to ignore what the server makes in the workspace.
    excluded: Once,
    /// True if nothing is going to run, so that nothing is made for it.
    only_looks: bool,
}

/// Watch that finds a command's changes, and judges them by what its task may change.
pub struct Watch {
    /// The workspace folders.
    pub roots: Vec<PathBuf>,
    /// Keeps what may have to be given back.
    pub store: Arc<Store>,
    /// Paths that the command may change.
    pub scope: Arc<CommandScope>,
    /// The commands that run at the same time.
    pub under_way: Arc<UnderWay>,
    /// Staging of its writes; none where what it writes is in the workspace at once.
    pub staging: Option<Staging>,
    finder: Arc<PlaceFinder>,
    /// Patterns that the user's settings protect besides the built-in names.
    patterns: Vec<String>,
    /// Directory for files as they were before it wrote them; none where nothing can do that.
    captures: Option<PathBuf>,
    /// Tells what roo-lsp processes write themselves.
    server_files: ServerFiles,
    /// The git directories that the command may write.
    git: Vec<GitDirectory>,
    /// Directories of build tools that it sees through layers, and where those are.
    layered: (Vec<PathBuf>, PathBuf),
    /// Configuration that it sees without the secrets in it.
    configuration: Vec<(PathBuf, String)>,
    /// The network that it joins; none where it has the machine's or none at all.
    network: Option<CommandNetwork>,
    /// True if what is protected can't be written.
    holds_protected: bool,
    /// Git's signing, where the user allows it, and the socket where that is served.
    signing: Option<(Signing, PathBuf)>,
}

/// Findings about git in a command.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitUse {
    /// Signing that git is configured for, where the command's commits were not signed.
    pub unsigned: Option<Signing>,
    /// The directory of hooks that the configuration names; none where that is the repository's own.
    pub hooks: Option<PathBuf>,
}

/// Parts from which the network of a command is made.
struct CommandNetwork {
    networks: Arc<TaskNetworks>,
    task: Urid,
    rules: NetworkRules,
    sandbox: Sandbox,
}

impl Watch {
    /// Begins to record what changes. Reads the disk, so not for a thread of the runtime.
    ///
    /// # Errors
    /// When the workspace can't be read: then the command must not run.
    pub fn begin(&self, workspace: &Workspace) -> Result<Recording, ChangesError> {
        let roots = self.finder.roots(workspace, &self.patterns).map_err(|source| ChangesError::Io {
            what: "looked at",
            path: self.roots.first().cloned().unwrap_or_default(),
            source,
        })?;
        self.finder.index().begin(&roots, &*self.scope, &self.store)
    }

    /// Leaves out those changes that roo-lsp processes have made, as by keeping the trace, and not the command. `begun` is
    /// when the command began. Reads the disk.
    pub fn leave_out_server_files(&self, begun: SystemTime, changes: &mut Vec<Change>) {
        if let Some(root) = self.roots.first() {
            self.server_files.leave_out(root, begun, changes);
        }
    }

    /// Makes the private directory in which files are kept before the command changes them, and says which: all but
    /// build output and what git keeps. None where nothing can keep them.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn capture(&self, recording: &Recording) -> io::Result<Option<Captured>> {
        let Some(captures) = &self.captures else { return Ok(None) };
        let directory = captures.join(uuid::Uuid::now_v7().to_string());
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let directory = directory.canonicalize()?;
        let absolute = |(root, path): (usize, PathBuf)| Some(self.roots.get(root)?.join(path));
        let scratch = recording.scratch().into_iter().filter_map(absolute);
        let found = self.scope.protected.iter().filter(|path| path.ends_with(".git")).cloned();
        let git = self.git.iter().flat_map(GitDirectory::writable).map(Path::to_path_buf);
        // What a staged command replaces is in the workspace until the end.
        let roots = if self.staging.is_some() { vec![] } else { self.roots.clone() };
        let except = scratch.chain(found).chain(git).collect();
        let bounds = Capture { directory: directory.clone(), roots, except };
        Ok(Some(Captured { directory, bounds }))
    }
}

impl Watch {
    /// Leases the layers through which the command sees the directories of build tools. Writes the disk.
    ///
    /// # Errors
    /// When they can't be made.
    pub fn lease_layers(&self) -> io::Result<LeasedLayers> {
        LeasedLayers::lease(&self.layered.1, &self.layered.0)
    }

    /// The network that the command joins; none where it has the machine's or none at all. Waits for a helper, so not
    /// for a thread of the runtime.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn network(&self) -> io::Result<Option<Arc<TaskNetwork>>> {
        let of =
            |network: &CommandNetwork| network.networks.of(&network.task, &network.rules, &network.sandbox);
        self.network.as_ref().map(of).transpose()
    }

    /// Starts what signs for git in the command, as the user lets it; none where they don't. Within a runtime; writes the
    /// disk.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn serve_signing(&self) -> io::Result<Option<(Signing, SigningService)>> {
        let Some((signing, directory)) = &self.signing else { return Ok(None) };
        let SigningMethod::Ssh(key) = &signing.method else { return Ok(None) };
        Ok(Some((signing.clone(), SigningService::start(directory, key.clone())?)))
    }

    /// Returns the findings about git in a command that has ended. `wanted` says whether git could not sign what it was
    /// told to, `is_served` whether it could. Runs git.
    pub fn git_use(&self, outcome: &GitOutcome, wanted: bool, is_served: bool) -> GitUse {
        let root = self.roots.first().filter(|_| wanted || outcome.tagged || !outcome.commits.is_empty());
        // Without git there is nothing to say.
        let Some(configuration) = root.and_then(|root| EffectiveConfiguration::read(root, &self.roots).ok())
        else {
            return GitUse::default();
        };
        let signing = configuration.signing(&self.roots);
        let is_unsigned =
            wanted || (signing.commits && !outcome.commits.is_empty()) || (signing.tags && outcome.tagged);
        GitUse {
            unsigned: Some(signing).filter(|_| is_unsigned && !is_served),
            hooks: configuration.hooks_path(),
        }
    }

    /// Writes what the command sees in place of configuration that holds secrets.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn substitutes(&self, captured: Option<&Captured>) -> io::Result<Vec<Substitute>> {
        match captured {
            Some(captured) => tool_configuration::substitutes(&self.configuration, &captured.directory),
            None => Ok(vec![]),
        }
    }

    /// Looks at the git directories before the command. Copies of their configurations go where the command's files
    /// are kept.
    ///
    /// # Errors
    /// When they can't be read: then the command must not run.
    pub fn guard_git(&self, captured: Option<&Captured>) -> io::Result<GitGuard> {
        let private = captured.map(|captured| captured.directory.as_path());
        GitGuard::begin(&self.git, &self.roots, private, self.holds_protected)
    }
}

/// Directory for the files of one command as they were before; removed with it.
#[derive(Debug)]
pub struct Captured {
    directory: PathBuf,
    /// For the sandbox.
    pub bounds: Capture,
}

impl Captured {
    /// Reads the files that were kept.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn journal(&self) -> io::Result<Journal> {
        Journal::read(&self.directory)
    }
}

impl Drop for Captured {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            // A later start removes it.
            tracing::warn!(%error, directory = %self.directory.display(), "what was captured can't be removed");
        }
    }
}

/// Staging of a command's writes.
#[derive(Debug)]
pub struct Staging {
    area: Arc<StagingArea>,
    /// Paths that the user's settings open, which are written at once.
    pub opened: Vec<PathBuf>,
}

impl Staging {
    /// Makes the private directories of one command over some roots. Writes the disk.
    ///
    /// # Errors
    /// When they can't be made.
    pub fn begin(&self, roots: &[PathBuf]) -> io::Result<Stage> {
        self.area.begin(roots)
    }
}

/// Private directories of a program, below the workspace's part of the state directory.
pub(super) struct Private {
    /// In place of `/tmp`.
    pub(super) temp: PathBuf,
    /// For what build tools keep.
    pub(super) cache: PathBuf,
}

/// Level at which commands are sandboxed, by what the settings want and the machine has.
#[derive(Clone, Copy, Debug)]
pub struct Held<'a> {
    /// The level of every command.
    pub level: Level,
    /// Result of probing the machine.
    pub probe: &'a Probe,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("roots", &self.roots).finish_non_exhaustive()
    }
}

/// Paths that a command may change.
pub struct CommandScope {
    roots: Vec<PathBuf>,
    /// The names that are protected in each.
    protected_names: Vec<ProtectedNames>,
    urid: Urid,
    /// All of these must cover a path; without any, all of the workspace may be changed.
    intents: Vec<Intent>,
    /// Paths that the user's settings open.
    opened: Vec<PathBuf>,
    /// Paths that the sandbox lets the command write; none where nothing bounds it. A change elsewhere is somebody
    /// else's.
    reach: Option<Reach>,
    /// True if nothing is changed before it is judged, so that nothing has to be brought back.
    is_staged: bool,
    /// Protected paths that exist.
    protected: Vec<PathBuf>,
}

struct Reach {
    writable: Vec<PathBuf>,
    read_only: Vec<PathBuf>,
    /// True if what is protected can't be written.
    holds_protected: bool,
}

impl CommandScope {
    fn judge(&self, root: usize, path: &Path, is_directory: impl Fn(&Path) -> bool) -> Allowed {
        let Some(absolute) = self.roots.get(root).map(|root| root.join(path)) else {
            return Allowed::Scratch;
        };
        if let Some(reach) = &self.reach {
            let below = |places: &[PathBuf]| places.iter().any(|place| absolute.starts_with(place));
            let above = reach.writable.iter().any(|place| place.starts_with(&absolute));
            if !above && (!below(&reach.writable) || below(&reach.read_only)) {
                return Allowed::Scratch;
            }
        }
        let Some(relative) = path.to_str() else { return Allowed::OutOfScope };
        if self.opened.iter().any(|opened| absolute.starts_with(opened)) {
            return Allowed::InScope;
        }
        let own = (root == 0).then_some(self.urid.as_str());
        let found = self.protected_names.get(root).map(|names| names.protection(relative, own));
        match found.unwrap_or_else(|| protection(relative, own)) {
            Protection::OwnTaskDirectory => return Allowed::InScope,
            Protection::Tier1 { .. } | Protection::Denied => {
                // What leads to the task's own directory is looked into.
                let own = modes::task_directory(&self.urid);
                let leads = root == 0 && Path::new(&own).starts_with(path);
                return if leads { Allowed::InScope } else { Allowed::Protected };
            }
            Protection::None | Protection::Tier2 { .. } => {}
        }
        let covered = |intent: &Intent| matches!(intent.scope.covers(relative), Covered::By(_));
        if self.intents.is_empty() || (root == 0 && self.intents.iter().all(covered)) {
            return Allowed::InScope;
        }
        // A directory on the way to what is covered.
        let leads = self.intents.iter().all(|intent| {
            intent
                .scope
                .prefixes()
                .iter()
                .any(|prefix| Path::new(&prefix.path).starts_with(path) || path.starts_with(&prefix.path))
        });
        if leads && is_directory(&absolute) {
            return Allowed::InScope;
        }
        Allowed::OutOfScope
    }
}

impl Scope for CommandScope {
    fn allowed(&self, root: usize, path: &Path) -> Allowed {
        self.judge(root, path, |path| path.symlink_metadata().is_ok_and(|found| found.is_dir()))
    }

    fn allowed_as(&self, root: usize, path: &Path, kind: Option<Kind>) -> Allowed {
        self.judge(root, path, |_| kind == Some(Kind::Directory))
    }

    fn allowed_change(&self, what: What, kind: Kind) -> Allowed {
        let enforces = |enforced| self.intents.iter().any(|intent| intent.enforce.contains(&enforced));
        let is_withheld = match what {
            // Directories hold no content.
            _ if kind == Kind::Directory => false,
            What::Created => enforces(Enforced::NoNewFiles),
            What::Deleted => enforces(Enforced::NoDelete),
            What::Modified => false,
        };
        if is_withheld { Allowed::OutOfScope } else { Allowed::InScope }
    }

    fn keep(&self, root: usize, path: &Path) -> Keep {
        match self.allowed(root, path) {
            _ if self.is_staged => Keep::Nothing,
            Allowed::OutOfScope | Allowed::Protected => Keep::Content,
            Allowed::InScope | Allowed::Scratch => Keep::Nothing,
        }
    }

    fn kept_below(&self, root: usize) -> Vec<PathBuf> {
        let (Some(root), Some(reach)) = (self.roots.get(root), &self.reach) else { return vec![] };
        // What is in scope may be changed, and what can't be reached is not.
        let out_of_scope = reach.writable.iter().filter(|_| !self.intents.is_empty());
        let protected = self.protected.iter().filter(|_| !reach.holds_protected);
        let places = out_of_scope.chain(protected);
        places.filter_map(|place| place.strip_prefix(root).ok()).map(Path::to_path_buf).collect()
    }
}

/// A command's bounds, ready to be held.
#[derive(Debug)]
pub struct Confined {
    /// Sandbox that holds them.
    pub sandbox: Sandbox,
    /// The bounds themselves. The directory for a staged command's writes is filled in when it runs.
    pub confinement: Confinement,
    /// Level at which they hold the command.
    pub level: Level,
    /// Protected paths of the workspace that exist.
    pub protected: Vec<PathBuf>,
    git: Vec<GitDirectory>,
    /// Directories of build tools that it sees through layers.
    layered: Vec<PathBuf>,
    /// Configuration that it sees without the secrets in it.
    configuration: Vec<(PathBuf, String)>,
    /// The hosts that it may reach, where it has a network of its own.
    network: NetworkRules,
    /// Git's signing, where the user allows it.
    signing: Option<Signing>,
    /// The variables that it sees besides the usual ones.
    pub environment: EnvironmentRules,
}

impl Confined {
    /// Returns the overlays that hooks see in place of the user's files, with layers in this area.
    pub(super) fn overlays(&self, area: PathBuf) -> ToolOverlays {
        // Without a supervisor nothing is shown in place of another.
        let is_supervised = self.sandbox.probe().active.is_some_and(|active| active.supervised);
        let configuration = if is_supervised { self.configuration.clone() } else { vec![] };
        ToolOverlays { layered: self.layered.clone(), area, configuration }
    }

    /// Returns whether the user may be offered hosts for it: no intent stands against them.
    pub fn may_be_granted_hosts(&self) -> bool {
        self.network.may_be_granted()
    }

    /// The bounds of a program whose changes nobody compares when it has ended: it writes no git directory.
    pub(super) fn without_git(&self) -> Confinement {
        let git: Vec<&Path> = self.git.iter().flat_map(GitDirectory::writable).collect();
        let mut bounds = self.confinement.clone();
        bounds.writable.retain(|path| !git.contains(&path.as_path()));
        bounds.read_only.extend(git.into_iter().map(Path::to_path_buf));
        bounds.git_history.clear();
        bounds
    }

    /// The bounds of a command that writes to the layers of a stage instead of the workspace folders, but for
    /// those directories of build output that it may write anyway.
    pub fn staged(&self, layers: &[Staged], scratch: &[PathBuf], opened: &[PathBuf]) -> Confinement {
        let bounds = &self.confinement;
        let below = |path: &Path, places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        let is_open = |path: &PathBuf| {
            let is_outermost = layers.iter().any(|layer| path.parent() == Some(&layer.root));
            let is_closed = below(path, &bounds.read_only) || below(path, &bounds.hidden);
            (is_outermost || below(path, &bounds.writable)) && !is_closed
        };
        Confinement {
            staged: layers.to_vec(),
            direct: opened
                .iter()
                .map(PathBuf::as_path)
                .chain(self.git.iter().flat_map(GitDirectory::writable))
                .filter(|path| {
                    layers.iter().any(|layer| path.starts_with(&layer.root) && *path != layer.root)
                })
                .map(Path::to_path_buf)
                .chain(scratch.iter().filter(|path| is_open(path)).cloned())
                .chain(bounds.direct.iter().cloned())
                .collect(),
            ..bounds.clone()
        }
    }
}

impl Bounds {
    /// Nothing is tried yet.
    pub fn new(helper: Helper, directories: Directories, private: PathBuf) -> Self {
        Self {
            helper,
            found: OnceCell::new(),
            store: OnceCell::new(),
            staging: OnceCell::new(),
            under_way: Arc::default(),
            networks: Arc::default(),
            finder: OnceCell::new(),
            layered: Mutex::default(),
            tried: Mutex::default(),
            directories,
            private,
            excluded: Once::new(),
            only_looks: false,
        }
    }

    /// Returns whether a place is one where the user's settings, or the server's state, are kept.
    pub(super) fn is_own(&self, place: &Path) -> bool {
        let own = [&self.directories.config, &self.directories.state];
        own.into_iter()
            .any(|own| place.starts_with(own) || own.canonicalize().is_ok_and(|own| place.starts_with(own)))
    }

    /// The same, to judge commands that are not going to run: no directories are made for them.
    pub fn only_looking(self) -> Self {
        Self { only_looks: true, ..self }
    }

    /// The sandbox of this machine, found out at the first call.
    pub async fn sandbox(&self) -> &Sandbox {
        self.found.get_or_init(|| Sandbox::find(self.helper.clone())).await
    }

    /// Checks that the sandbox which the settings want is there for these workspace folders; returns none where they
    /// want no sandbox.
    ///
    /// # Errors
    /// [`ExecError::NoSandbox`]: then no command runs.
    pub async fn check(
        &self,
        wanted: SandboxLevel,
        roots: &[PathBuf],
    ) -> Result<Option<Held<'_>>, ExecError> {
        let required = match wanted {
            SandboxLevel::Off => return Ok(None),
            SandboxLevel::Best => Required::None,
            SandboxLevel::L2 => Required::L2,
            SandboxLevel::Namespaces | SandboxLevel::Staged => Required::Namespaces,
        };
        let probe = self.sandbox().await.probe();
        probe.check(required)?;
        if wanted < SandboxLevel::Staged {
            return Ok(Some(Held { level: probe.level(), probe }));
        }
        let tried = self.try_staging(roots).await;
        tried.map_err(|reason| ExecError::NoSandbox(format!("commands can't be staged here: {reason}")))?;
        Ok(Some(Held { level: Level::L3, probe }))
    }

    /// Checks by trying that the writes of commands can be staged for these folders; it is tried once.
    ///
    /// # Errors
    /// Why not.
    pub async fn try_staging(&self, roots: &[PathBuf]) -> Result<(), String> {
        let mut tried = self.tried.lock().await;
        if tried.as_deref() == Some(roots) {
            return Ok(());
        }
        let area = self.staging().await.map_err(|error| error.to_string())?;
        let folders = roots.to_vec();
        let begun = tokio::task::spawn_blocking(move || area.begin(&folders)).await;
        let stage = begun.map_err(io::Error::other).flatten().map_err(|error| error.to_string())?;
        let confined = Confined {
            sandbox: self.sandbox().await.clone(),
            confinement: Confinement::default(),
            level: Level::L3,
            protected: vec![],
            git: vec![],
            layered: vec![],
            configuration: vec![],
            network: NetworkRules::default(),
            signing: None,
            environment: EnvironmentRules::default(),
        };
        confined.sandbox.try_staging(&confined.staged(stage.layers(), &[], &[]).staged).await?;
        *tried = Some(roots.to_vec());
        Ok(())
    }

    /// Returns the finder of names in the workspace.
    pub(super) async fn finder(&self) -> Arc<PlaceFinder> {
        let make = || async {
            let active = self.sandbox().await.probe().active;
            Arc::new(PlaceFinder::new(active.is_some_and(|active| active.supervised)))
        };
        Arc::clone(self.finder.get_or_init(make).await)
    }

    async fn staging(&self) -> io::Result<Arc<StagingArea>> {
        let directory = self.private.join(STAGED);
        let open = || async move {
            let opened = tokio::task::spawn_blocking(move || StagingArea::open(directory)).await;
            opened.map_err(io::Error::other).flatten().map(Arc::new)
        };
        self.staging.get_or_try_init(open).await.map(Arc::clone)
    }

    /// Removes what staged commands of killed servers left, and what has been kept for the user for long
    /// enough, in the background.
    pub fn clean(&self) {
        let at = |name: &str| self.private.join(name);
        let (staged, changes, captures) = (at(STAGED), at(CHANGES), at(CAPTURES));
        let (signing, temporary) = (at(SIGNING), at(TEMPORARY));
        if ![&staged, &changes, &captures, &signing, &temporary].into_iter().any(|place| place.is_dir()) {
            return;
        }
        // Whoever waits for it is not this server: the next command that is staged looks again.
        std::thread::spawn(move || {
            if staged.is_dir()
                && let Err(error) = StagingArea::open(&staged)
            {
                tracing::warn!(%error, "what staged commands left can't be removed");
            }
            if changes.is_dir()
                && let Err(error) = Store::forget_old(&changes, SystemTime::now())
            {
                tracing::warn!(%error, "what commands wrote long ago can't be removed");
            }
            server_sandbox::remove_abandoned(&temporary);
            let left = [captures, signing].into_iter().flat_map(fs::read_dir).flatten().flatten();
            for left in left {
                let made = left.metadata().and_then(|found| found.modified());
                if made.is_ok_and(|at| at.elapsed().is_ok_and(|passed| passed > ABANDONED))
                    && let Err(error) = fs::remove_dir_all(left.path())
                {
                    tracing::warn!(%error, "what a command left long ago can't be removed");
                }
            }
        });
    }

    /// Returns the directory that holds for the user what commands wrote, because it is not in the workspace.
    pub fn withheld_changes(&self) -> PathBuf {
        Store::moved_in(&self.private.join(CHANGES))
    }

    /// Returns the watch that finds the changes of one command; none where the settings want no sandbox.
    ///
    /// # Errors
    /// When they can't be kept track of: then it must not run.
    pub(super) async fn watch(
        &self,
        policy_context: &PolicyContext,
        call_context: ToolCallContext<'_>,
        grant: Option<&Grant>,
        confined: Option<&Confined>,
    ) -> io::Result<Option<Watch>> {
        if self.only_looks || policy_context.settings.sandbox.level == SandboxLevel::Off {
            return Ok(None);
        }
        let directory = self.private.join(CHANGES);
        let open = || async move {
            let opened = tokio::task::spawn_blocking(move || Store::open(directory, Limits::default())).await;
            opened.map_err(io::Error::other).flatten().map(Arc::new)
        };
        let store = Arc::clone(self.store.get_or_try_init(open).await?);
        let roots: Vec<PathBuf> = policy_context.workspace.roots().paths().map(Path::to_path_buf).collect();
        let settings = &policy_context.settings.sandbox;
        let opened: Vec<PathBuf> =
            settings.writable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let is_staged = confined.is_some_and(|confined| confined.level == Level::L3);
        let is_supervised = confined.and_then(|confined| confined.sandbox.probe().active);
        let is_supervised = is_supervised.is_some_and(|active| active.supervised);
        let staging = match is_staged {
            true => Some(Staging { area: self.staging().await?, opened: opened.clone() }),
            false => None,
        };
        let patterns = &policy_context.settings.protected;
        let scope = Arc::new(CommandScope {
            roots: roots.clone(),
            protected_names: (0..roots.len())
                .map(|root| policy_context.workspace.protected(root, patterns))
                .collect(),
            urid: call_context.urid.clone(),
            intents: grant.map(|grant| grant.intents.clone()).unwrap_or_default(),
            opened,
            is_staged,
            // What a stage holds is the command's, wherever it is.
            reach: confined.filter(|_| !is_staged).map(|confined| Reach {
                writable: confined.confinement.writable.clone(),
                read_only: match confined.sandbox.probe().holds_within_grants() {
                    true => confined.confinement.read_only.clone(),
                    false => vec![],
                },
                holds_protected: confined.sandbox.probe().holds_within_grants(),
            }),
            protected: confined.map(|confined| confined.protected.clone()).unwrap_or_default(),
        });
        let (under_way, finder) = (Arc::clone(&self.under_way), self.finder().await);
        let captures = is_supervised.then(|| self.private.join(CAPTURES));
        let git = confined.map(|confined| confined.git.clone()).unwrap_or_default();
        let holds_protected = confined.is_some_and(|confined| confined.sandbox.probe().holds_within_grants());
        let layered = confined.map(|confined| confined.layered.clone()).unwrap_or_default();
        let layered = (layered, self.layers_of(grant));
        Ok(Some(Watch {
            roots,
            store,
            scope,
            under_way,
            staging,
            finder,
            patterns: patterns.clone(),
            captures,
            server_files: ServerFiles::new(
                Arc::clone(&policy_context.recorder),
                &self.private,
                call_context.urid.clone(),
            ),
            git,
            layered,
            configuration: confined.map(|confined| confined.configuration.clone()).unwrap_or_default(),
            network: confined.filter(|confined| confined.confinement.network == Network::Off).and_then(
                |confined| {
                    let sandbox = confined.sandbox.clone();
                    // Without namespaces there is nothing that commands could share.
                    holds_protected.then(|| CommandNetwork {
                        networks: Arc::clone(&self.networks),
                        task: call_context.urid.clone(),
                        rules: confined.network.clone(),
                        sandbox,
                    })
                },
            ),
            holds_protected,
            signing: confined
                .and_then(|confined| confined.signing.clone())
                .map(|signing| (signing, self.private.join(SIGNING))),
        }))
    }

    /// Has git leave out what the server makes in the first workspace folder for this machine alone. Does so once.
    pub(super) fn exclude_private_files(&self, workspace: &Workspace) {
        let roots: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
        let Some(root) = roots.first() else { return };
        self.excluded.call_once(|| {
            if let Err(error) = git::exclude_private_files(root, &roots, self.directories.home.as_deref()) {
                tracing::info!(%error, "git's private exclude file doesn't list the server's files");
            }
        });
    }

    /// Makes the directory for the trace's copy, so that it is there, and can't be written by a command, when another
    /// process appends to the trace.
    pub(super) async fn make_trace_directory(&self, policy_context: &PolicyContext) {
        if self.only_looks || policy_context.settings.sandbox.level == SandboxLevel::Off {
            return;
        }
        self.exclude_private_files(&policy_context.workspace);
        let recorder = Arc::clone(&policy_context.recorder);
        // Where it can't be made the trace has no copy, which it tells itself.
        let made = tokio::task::spawn_blocking(move || recorder.make_copy_directory()).await;
        if let Ok(Err(problem)) = made {
            tracing::debug!(%problem, "there is no directory for the trace's copy");
        }
    }

    /// The bounds of one command; none where the machine or the settings have no sandbox.
    ///
    /// # Errors
    /// When the workspace can't be looked at: then nobody knows what to hide, and it must not run.
    pub(super) async fn of(
        &self,
        policy_context: &PolicyContext,
        call_context: ToolCallContext<'_>,
        grant: Option<&Grant>,
        network: NetworkRules,
    ) -> io::Result<Option<Confined>> {
        let settings = &policy_context.settings.sandbox;
        if settings.level == SandboxLevel::Off || self.sandbox().await.probe().active.is_none() {
            return Ok(None);
        }
        let task_directory = modes::task_directory(call_context.urid);
        let mut writable: Vec<PathBuf> = match grant {
            None => policy_context.workspace.roots().paths().map(Path::to_path_buf).collect(),
            Some(grant) => granted(&policy_context.workspace, grant),
        };
        // Its own directory is free to every task.
        writable.extend(existing(&policy_context.workspace, &task_directory));
        writable.extend(settings.writable.iter().filter_map(|path| path.canonicalize().ok()));
        let private = Private {
            temp: Path::new(TEMPORARY).join(call_context.urid.as_str()),
            cache: PathBuf::from("cache"),
        };
        let (workspace, settings) = (&policy_context.workspace, &policy_context.settings);
        self.confined(workspace, settings, writable, private, grant, network).await.map(Some)
    }

    /// The bounds of a program that writes these places, where there is a sandbox.
    ///
    /// # Errors
    /// As [`Bounds::of`].
    pub(super) async fn confined(
        &self,
        workspace: &Arc<Workspace>,
        all_settings: &Settings,
        mut writable: Vec<PathBuf>,
        own_places: Private,
        grant: Option<&Grant>,
        network: NetworkRules,
    ) -> io::Result<Confined> {
        let settings = &all_settings.sandbox;
        let real = |paths: &[PathBuf]| -> Vec<PathBuf> {
            paths.iter().filter_map(|path| path.canonicalize().ok()).collect()
        };
        let (opened, readable) = (real(&settings.writable), real(&settings.readable));
        let looked_at = Arc::clone(workspace);
        let home = self.directories.home.clone();
        let patterns = all_settings.protected.clone();
        let own = [self.directories.state.clone(), self.directories.config.clone()];
        let private = (!self.only_looks).then(|| self.private.clone());
        let roots = workspace.roots().paths().map(Path::to_path_buf);
        let visible = roots.chain(self.directories.home.as_ref().and_then(|home| home.canonicalize().ok()));
        let visible = visible.chain(readable.iter().cloned()).collect();
        let (finder, readable_places) = (self.finder().await, readable);
        let looked = tokio::task::spawn_blocking(move || {
            let mut places = finder.look(&looked_at, &patterns).map_err(io::Error::other)?;
            let found = places.protected.iter().filter(|path| path.ends_with(".git")).map(PathBuf::as_path);
            let git = GitDirectory::find(looked_at.roots().paths(), found, home.as_deref());
            places.hidden.extend(own.iter().filter_map(|path| path.canonicalize().ok()));
            places.hidden.extend(credentials(home.as_deref()));
            places.hidden.retain(|path| !readable_places.contains(path));
            let is_hidden = |path: &Path| places.hidden.iter().any(|hidden| path.starts_with(hidden));
            let configuration = home.map(|home| tool_configuration::without_secrets(&home, is_hidden));
            let mut configuration = configuration.unwrap_or_default();
            configuration.retain(|(path, _)| !readable_places.iter().any(|place| path.starts_with(place)));
            let made = |below: PathBuf| private_directory(&private.as_ref()?.join(below));
            Ok::<_, io::Error>((places, git, configuration, made(own_places.temp), made(own_places.cache)))
        });
        let (places, mut git, configuration, temp, cache) =
            looked.await.map_err(io::Error::other).flatten()?;
        let Places { hidden, protected, .. } = places;
        let sandbox = self.sandbox().await.clone();
        let is_opened = |path: &PathBuf| opened.iter().any(|opened| path.starts_with(opened));
        // What the user opens is theirs to look after.
        git.retain(|directory| !is_opened(&directory.common));
        // What git keeps may be written, but for what makes it run programs.
        let git_writable: Vec<PathBuf> =
            git.iter().flat_map(GitDirectory::writable).map(Path::to_path_buf).collect();
        let closed = protected.iter().filter(|path| !git_writable.contains(path)).cloned();
        let mut read_only: Vec<PathBuf> =
            closed.chain(git.iter().flat_map(|directory| directory.read_only(&git))).collect();
        if !sandbox.probe().active.is_some_and(|active| active.supervised) {
            // A private copy in its place could not be replaced by name, as git does.
            read_only.extend(git.iter().map(GitDirectory::configuration));
        }
        read_only.retain(|path| !is_opened(path));
        writable.extend(git_writable);
        let homes = self.tool_homes(&sandbox, &writable, cache.as_deref(), grant).await;
        let within_homes = |path: &&PathBuf| homes.layered.iter().any(|home| path.starts_with(home));
        let confinement = Confinement {
            direct: writable.iter().filter(within_homes).cloned().collect(),
            writable,
            read_only,
            visible,
            hidden,
            temp,
            cache,
            variables: homes.variables,
            // Without namespaces there is no proxy: then it is the machine's network or none.
            network: match sandbox.probe().holds_within_grants() || !network.is_wanted() {
                true => Network::Off,
                false => Network::On,
            },
            sockets: real(&settings.sockets),
            git_history: git.iter().flat_map(GitDirectory::history).collect(),
            ..Confinement::default()
        };
        let signing = self.granted_signing(&sandbox, workspace, settings).await;
        let level = if settings.level == SandboxLevel::Staged { Level::L3 } else { sandbox.probe().level() };
        Ok(Confined {
            sandbox,
            confinement,
            level,
            protected,
            git,
            layered: homes.layered,
            configuration,
            network,
            signing,
            environment: EnvironmentRules::new(settings.env.clone()),
        })
    }
}

impl Bounds {
    /// Returns git's signing in commands: what its configuration says, where the user lets it use the key. Runs git
    /// only where they let it use any.
    async fn granted_signing(
        &self,
        sandbox: &Sandbox,
        workspace: &Workspace,
        settings: &SandboxSettings,
    ) -> Option<Signing> {
        let granted = &settings.signing_keys;
        if self.only_looks || granted.is_empty() || !sandbox.probe().holds_within_grants() {
            return None;
        }
        let roots: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
        let read = tokio::task::spawn_blocking(move || {
            Some(EffectiveConfiguration::read(roots.first()?, &roots).ok()?.signing(&roots))
        });
        let signing = read.await.ok()??;
        let home = self.directories.home.as_deref();
        let is_granted = |key: &SigningKey| {
            let path = |text: &String| match (text.strip_prefix("~/"), home) {
                (Some(below), Some(home)) => home.join(below).to_string_lossy().into_owned(),
                _ => text.clone(),
            };
            granted.iter().any(|granted| path(granted) == key.key)
        };
        matches!(&signing.method, SigningMethod::Ssh(key) if is_granted(key)).then_some(signing)
    }

    /// Returns the directories of the build tools that a command uses.
    async fn tool_homes(
        &self,
        sandbox: &Sandbox,
        writable: &[PathBuf],
        cache: Option<&Path>,
        grant: Option<&Grant>,
    ) -> ToolHomes {
        let find = |can_be_layered: &dyn Fn(&Path) -> bool| {
            let home = self.directories.home.as_deref();
            ToolHomes::find(home, |name| std::env::var_os(name), writable, can_be_layered, cache)
        };
        if self.only_looks || !sandbox.probe().holds_within_grants() {
            return find(&|_| false);
        }
        // A layer over the directory that holds it would show itself.
        let holds_layers = |home: &Path| self.private.starts_with(home);
        let mut known = self.layered.lock().await;
        let wanted = find(&|home| !holds_layers(home)).layered;
        let unknown: Vec<PathBuf> = wanted.into_iter().filter(|home| !known.contains_key(home)).collect();
        if !unknown.is_empty() {
            let area = self.layers_of(grant);
            let try_all = self.try_layers(sandbox, &area, &unknown).await;
            for home in &unknown {
                let works = match &try_all {
                    Ok(()) => Ok(()),
                    Err(_) => self.try_layers(sandbox, &area, std::slice::from_ref(home)).await,
                };
                if let Err(reason) = &works {
                    tracing::info!(home = %home.display(), reason, "commands can't write a layer over it");
                }
                known.insert(home.clone(), works.is_ok());
            }
        }
        find(&|home| known.get(home).copied().unwrap_or_default())
    }

    async fn try_layers(&self, sandbox: &Sandbox, area: &Path, homes: &[PathBuf]) -> Result<(), String> {
        let (area, homes) = (area.to_owned(), homes.to_vec());
        let leased = tokio::task::spawn_blocking(move || LeasedLayers::lease(&area, &homes)).await;
        let leased = leased.map_err(io::Error::other).flatten().map_err(|error| error.to_string())?;
        sandbox.try_layers(leased.layers()).await
    }

    /// The layers of one MCP server, which no command sees.
    pub(super) fn layers_of_server(&self, name: &str) -> PathBuf {
        self.private.join(LAYERS).join(name)
    }

    /// A place below the workspace's part of the state directory.
    pub(super) fn private(&self, name: &Path) -> PathBuf {
        self.private.join(name)
    }

    /// The layers of commands that may change the same: what one installs the others start.
    pub(super) fn layers_of(&self, grant: Option<&Grant>) -> PathBuf {
        let name = match grant {
            None => "all".to_owned(),
            Some(grant) => {
                let mut ids: Vec<&str> = grant.intents.iter().map(|intent| intent.id.as_str()).collect();
                ids.sort_unstable();
                Digest::of(ids.join("\n")).hex().chars().take(16).collect()
            }
        };
        self.private.join(LAYERS).join(name)
    }
}

/// Returns the paths that all intents of a grant cover, as far as they exist, and the scratch directories beside it.
fn granted(workspace: &Workspace, grant: &Grant) -> Vec<PathBuf> {
    let Some((own, above)) = grant.intents.split_first() else { return vec![] };
    let mut granted = Vec::new();
    for prefix in own.scope.prefixes() {
        // Of two that lie in each other the inner one is what both cover.
        let mut narrowed = vec![prefix.path];
        for intent in above {
            let theirs = intent.scope.prefixes();
            narrowed = narrowed
                .iter()
                .flat_map(|path| theirs.iter().filter_map(|other| inner(path, &other.path)))
                .collect();
        }
        granted.extend(narrowed);
    }
    let root = workspace.roots().paths().next().map(Path::to_path_buf);
    let scratch = root.into_iter().flat_map(|root| SCRATCH.iter().map(move |name| root.join(name)));
    let scratch = scratch.filter(|path| path.symlink_metadata().is_ok_and(|found| found.is_dir()));
    granted.iter().filter_map(|path| existing(workspace, path)).chain(scratch).collect()
}

/// The inner one of two paths, where one lies in the other.
fn inner(one: &str, other: &str) -> Option<String> {
    let within = |inner: &str, outer: &str| {
        outer.is_empty()
            || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if within(one, other) { Some(one.to_owned()) } else { within(other, one).then(|| other.to_owned()) }
}

/// Returns the real path of a path below the first root, if it is in the workspace.
fn existing(workspace: &Workspace, path: &str) -> Option<PathBuf> {
    let path = if path.is_empty() { "." } else { path };
    let place =
        workspace.resolve(path, Purpose::Directory).or_else(|_| workspace.resolve(path, Purpose::Read));
    let place = place.ok().filter(|place| place.is_directory() || place.is_file())?;
    matches!(place.location(), roo_workspace::Location::Inside { .. }).then(|| place.absolute().to_path_buf())
}

fn private_directory(path: &Path) -> Option<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).ok()?;
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_staged_folder_only_build_output_in_reach_and_what_the_user_opens_is_written_at_once() {
        let confinement = Confinement {
            writable: vec!["/w/src".into(), "/w/.roo/tasks/own".into()],
            read_only: vec!["/w/.roo".into()],
            hidden: vec!["/w/src/secret".into()],
            ..Confinement::default()
        };
        let confined = Confined {
            sandbox: Sandbox::none("not needed"),
            confinement,
            level: Level::L3,
            protected: vec![],
            git: vec![],
            layered: vec![],
            configuration: vec![],
            network: NetworkRules::default(),
            signing: None,
            environment: EnvironmentRules::default(),
        };
        let layer = Staged { root: "/w".into(), upper: "/s/0/upper".into(), work: "/s/0/work".into() };
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect::<Vec<_>>();
        let scratch = paths(&[
            "/w/target",
            "/w/src/a/dist",
            "/w/docs/build",
            "/w/.roo/tasks/own/out",
            "/w/src/secret/out",
        ]);
        let opened = paths(&["/w/.git", "/w", "/", "/opt/cache"]);
        let found = confined.staged(std::slice::from_ref(&layer), &scratch, &opened);
        assert_eq!(found.direct, paths(&["/w/.git", "/w/target", "/w/src/a/dist"]));
        assert_eq!(found.staged, [layer]);
        assert_eq!(found.writable, confined.confinement.writable);
    }
}
