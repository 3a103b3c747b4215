//! Paths and hosts that the sandbox lets a command write, read and reach: what its task may change, and no more.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex as SyncMutex, Once, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Mutex, OnceCell};

use super::command_scope::{CommandScope, SandboxReach};
use super::confined::Confined;
use super::git::{self, EffectiveConfiguration, GitDirectory, KnownCommits, Signing, SigningMethod};
use super::grant::{Grant, existing_path};
use super::in_flight::InFlightCommands;
use super::own_places::OwnPlaces;
use super::private_directory::{
    PrivatePaths, TEMPORARY, make_private, remove_abandoned, remove_of_request, remove_old_of_requests,
};
use super::recorder::Recorder;
use super::server_files::ServerFiles;
use super::task_network::{NetworkOwner, NetworkRules, TaskNetworks};
use super::tool_configuration;
use super::tool_homes::{self, ToolHomes};
use super::watch::{CommandNetwork, Staging, Watch};
use super::withheld_paths::{PlaceFinder, WithheldPaths};
use roo_formats::config::{Directories, SandboxLevel, SandboxSettings, Settings};
use roo_formats::modes;
use roo_protocol::ids::{Digest, Urid};
use roo_sandbox::changes::{LeasedLayers, Limits, StagingArea, Store};
use roo_sandbox::exec::sandbox::{
    Confinement, Helper, Level, Mechanism, Network, Probe, Required, Sandbox, SigningKey, credentials,
};
use roo_sandbox::exec::{EnvironmentRules, ExecError};
use roo_workspace::{IGNORE_FILE, Workspace};

/// Directory for the writes of staged commands, below the workspace's part of the state directory.
const STAGED: &str = "staged";
/// Directory for contents that commands change, below the same.
const CHANGES: &str = "changes";
/// Directory for files as they were before the running command, below the same.
const CAPTURES: &str = "captures";
/// The layers over directories of build tools, below the same.
const LAYERS: &str = "layers";
/// Record of the commits that no command made, below the same.
const KNOWN_COMMITS: &str = "known-commits.json";
/// Directory of the sockets that sign for commands, below the same.
const SIGNING: &str = "signing";
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
    in_flight: Arc<InFlightCommands>,
    networks: Arc<TaskNetworks>,
    /// Finders of names, by the workspace's folders: those of a branch's work tree are others.
    finders: SyncMutex<BTreeMap<Vec<PathBuf>, Arc<PlaceFinder>>>,
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

/// Request of a task whose command is to be bounded, and what it may change.
pub(super) struct BoundsRequest<'a> {
    pub(super) workspace: &'a Arc<Workspace>,
    /// The user's settings, with what they have granted besides.
    pub(super) settings: &'a Settings,
    pub(super) urid: &'a Urid,
    /// Grant of the task's intents; none where there are no intents.
    pub(super) grant: Option<&'a Grant>,
    /// True if git may change the work tree in it, protected files included.
    pub(super) changes_work_tree: bool,
}

/// Level at which commands are sandboxed, by what the settings want and the machine has.
#[derive(Clone, Copy, Debug)]
pub struct AvailableSandbox<'a> {
    /// The level of every command.
    pub level: Level,
    /// Result of probing the machine.
    pub probe: &'a Probe,
}

impl Bounds {
    /// Nothing is tried yet.
    pub fn new(helper: Helper, directories: Directories, private: PathBuf) -> Self {
        Self {
            helper,
            found: OnceCell::new(),
            store: OnceCell::new(),
            staging: OnceCell::new(),
            in_flight: Arc::default(),
            networks: Arc::default(),
            finders: SyncMutex::default(),
            layered: Mutex::default(),
            tried: Mutex::default(),
            directories,
            private,
            excluded: Once::new(),
            only_looks: false,
        }
    }

    /// Returns whether a place is one where the user's settings, or the server's state, are kept. Reads the disk.
    pub(super) fn is_own(&self, place: &Path) -> bool {
        OwnPlaces::find(&self.directories).contain(place)
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
    ) -> Result<Option<AvailableSandbox<'_>>, ExecError> {
        let required = match wanted {
            SandboxLevel::Off => return Ok(None),
            SandboxLevel::Best => Required::None,
            SandboxLevel::L2 => Required::L2,
            SandboxLevel::Namespaces | SandboxLevel::Staged => Required::Namespaces,
        };
        let probe = self.sandbox().await.probe();
        probe.check(required)?;
        if wanted < SandboxLevel::Staged {
            return Ok(Some(AvailableSandbox { level: probe.level(), probe }));
        }
        let tried = self.try_staging(roots).await;
        tried.map_err(|reason| ExecError::NoSandbox(format!("commands can't be staged here: {reason}")))?;
        Ok(Some(AvailableSandbox { level: Level::L3, probe }))
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
        let begun = roo_durable::spawn_blocking(move || area.begin(&folders)).await;
        let stage = begun.map_err(io::Error::other).flatten().map_err(|error| error.to_string())?;
        self.sandbox().await.try_staging(stage.layers()).await?;
        *tried = Some(roots.to_vec());
        Ok(())
    }

    /// Returns the finder of names in a workspace.
    pub(super) async fn finder(&self, workspace: &Workspace) -> Arc<PlaceFinder> {
        let active = self.sandbox().await.probe().active;
        let is_supervised = active.is_some_and(|active| active.supervised);
        let folders: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
        let mut finders = self.finders.lock().unwrap_or_else(PoisonError::into_inner);
        if !finders.contains_key(&folders) {
            // Those of branches that have ended.
            finders.retain(|folders, _| folders.iter().all(|folder| folder.is_dir()));
        }
        let make = || Arc::new(PlaceFinder::new(is_supervised, self.directories.home.clone()));
        Arc::clone(finders.entry(folders).or_insert_with(make))
    }

    async fn staging(&self) -> io::Result<Arc<StagingArea>> {
        let directory = self.private.join(STAGED);
        let open = || async move {
            let opened = roo_durable::spawn_blocking(move || StagingArea::open(directory)).await;
            opened.map_err(io::Error::other).flatten().map(Arc::new)
        };
        self.staging.get_or_try_init(open).await.map(Arc::clone)
    }

    /// Removes what staged commands of killed servers left, and what has been kept for the user for long
    /// enough, in the background. `requests` returns those that go on, or have ended within a given time; none where they
    /// can't be listed.
    pub fn clean(&self, requests: impl FnOnce(Duration) -> Option<HashSet<Urid>> + Send + 'static) {
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
            remove_abandoned(&temporary);
            remove_old_of_requests(&temporary, ABANDONED, || requests(ABANDONED));
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

    /// Removes what the commands of a request, which is deleted, have written to their temporary directory.
    pub fn forget_request(&self, urid: &Urid) {
        remove_of_request(&self.private.join(TEMPORARY), urid);
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
        request: &BoundsRequest<'_>,
        recorder: &Arc<Recorder>,
        confined: Option<&Confined>,
    ) -> io::Result<Option<Watch>> {
        let BoundsRequest { workspace, settings, urid, grant, .. } = *request;
        if self.only_looks || settings.sandbox.level == SandboxLevel::Off {
            return Ok(None);
        }
        let directory = self.private.join(CHANGES);
        let open = || async move {
            let opened = roo_durable::spawn_blocking(move || Store::open(directory, Limits::default())).await;
            opened.map_err(io::Error::other).flatten().map(Arc::new)
        };
        let store = Arc::clone(self.store.get_or_try_init(open).await?);
        let roots: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
        let opened: Vec<PathBuf> =
            settings.sandbox.writable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let is_staged = confined.is_some_and(|confined| confined.level == Level::L3);
        let is_supervised = confined.and_then(|confined| confined.sandbox.probe().active);
        let is_supervised = is_supervised.is_some_and(|active| active.supervised);
        let staging = match is_staged {
            true => Some(Staging { area: self.staging().await?, opened: opened.clone() }),
            false => None,
        };
        let patterns = &settings.protected;
        let scope = Arc::new(CommandScope {
            roots: roots.clone(),
            protected_names: (0..roots.len()).map(|root| workspace.protected(root, patterns)).collect(),
            urid: urid.clone(),
            intents: grant.map(|grant| grant.intents.clone()).unwrap_or_default(),
            opened,
            is_staged,
            // What a stage holds is the command's, wherever it is.
            reach: confined.filter(|_| !is_staged).map(|confined| SandboxReach {
                writable: confined.confinement.writable.clone(),
                read_only: match confined.sandbox.probe().holds_within_grants() {
                    true => confined.confinement.read_only.clone(),
                    false => vec![],
                },
                holds_protected: confined.sandbox.probe().holds_within_grants(),
            }),
            protected: confined.map(|confined| confined.protected.clone()).unwrap_or_default(),
            opened_for_git: confined.and_then(|confined| confined.opened_for_git.clone()).unwrap_or_default(),
            own: confined.map(|confined| confined.own.clone()).unwrap_or_default(),
        });
        let (in_flight, finder) = (Arc::clone(&self.in_flight), self.finder(workspace).await);
        let captures = is_supervised.then(|| self.private.join(CAPTURES));
        let git = confined.map(|confined| confined.git.clone()).unwrap_or_default();
        let holds_protected = confined.is_some_and(|confined| confined.sandbox.probe().holds_within_grants());
        let layered = confined.map(|confined| confined.layered.clone()).unwrap_or_default();
        let layered = (layered, self.layers_of(grant));
        Ok(Some(Watch {
            roots,
            store,
            scope,
            in_flight,
            staging,
            finder,
            patterns: patterns.clone(),
            captures,
            server_files: ServerFiles::new(Arc::clone(recorder), &self.private, urid.clone()),
            git,
            layered,
            configuration: confined.map(|confined| confined.configuration.clone()).unwrap_or_default(),
            network: confined.filter(|confined| confined.confinement.network == Network::Off).and_then(
                |confined| {
                    let sandbox = confined.sandbox.clone();
                    // Without namespaces there is nothing that commands could share.
                    holds_protected.then(|| CommandNetwork {
                        networks: Arc::clone(&self.networks),
                        owner: NetworkOwner {
                            request: urid.clone(),
                            folder: workspace.roots().paths().next().map(Path::to_path_buf),
                        },
                        rules: confined.network.clone(),
                        sandbox,
                    })
                },
            ),
            holds_protected,
            opened_for_git: confined.and_then(|confined| confined.opened_for_git.clone()),
            known_commits: KnownCommits::new(self.private.join(KNOWN_COMMITS)),
            home: self.directories.home.clone(),
            signing: confined
                .and_then(|confined| confined.signing.clone())
                .map(|signing| (signing, self.private.join(SIGNING))),
        }))
    }

    /// Has git and programs that read its rules leave out what the server makes in the first workspace folder for this machine
    /// alone. Git's own file is changed once.
    pub(super) fn exclude_private_files(&self, workspace: &Workspace) {
        let roots: Vec<PathBuf> = workspace.roots().paths().map(Path::to_path_buf).collect();
        let Some(root) = roots.first() else { return };
        if let Err(error) = git::ignore_task_files(root) {
            tracing::info!(%error, "the directories of requests have no .gitignore");
        }
        self.excluded.call_once(|| {
            if let Err(error) = git::exclude_private_files(root, &roots, self.directories.home.as_deref()) {
                tracing::info!(%error, "git's private exclude file doesn't list the server's files");
            }
        });
    }

    /// Makes the directory for the trace's copy, so that it is there, and can't be written by a command, when another
    /// process appends to the trace.
    pub(super) async fn make_trace_directory(
        &self,
        workspace: &Workspace,
        settings: &SandboxSettings,
        recorder: &Arc<Recorder>,
    ) {
        if self.only_looks || settings.level == SandboxLevel::Off {
            return;
        }
        self.exclude_private_files(workspace);
        let recorder = Arc::clone(recorder);
        // Where it can't be made the trace has no copy, which it tells itself.
        let made = roo_durable::spawn_blocking(move || recorder.make_copy_directory()).await;
        if let Ok(Err(problem)) = made {
            tracing::debug!(%problem, "there is no directory for the trace's copy");
        }
    }

    /// The bounds of one command; none where the machine or the settings have no sandbox.
    ///
    /// # Errors
    /// When the workspace can't be looked at: then nobody knows what to hide, and it must not run.
    pub(super) async fn command(
        &self,
        request: &BoundsRequest<'_>,
        network: NetworkRules,
    ) -> io::Result<Option<Confined>> {
        let BoundsRequest { workspace, settings, urid, grant, changes_work_tree } = *request;
        if settings.sandbox.level == SandboxLevel::Off || self.sandbox().await.probe().active.is_none() {
            return Ok(None);
        }
        let mut writable: Vec<PathBuf> = match grant {
            None => workspace.roots().paths().map(Path::to_path_buf).collect(),
            Some(grant) => grant.writable_paths(workspace),
        };
        // Its own directory is free to every task.
        writable.extend(existing_path(workspace, &modes::task_directory(urid)));
        writable.extend(settings.sandbox.writable.iter().filter_map(|path| path.canonicalize().ok()));
        let private =
            PrivatePaths { temp: Path::new(TEMPORARY).join(urid.as_str()), cache: PathBuf::from("cache") };
        let mut confined = self.confined(workspace, settings, writable, private, grant, network).await?;
        // An intent grants no protected file, and what is staged is judged before it is there. Where mounts hold protected files,
        // only a supervisor can tell git from other programs.
        let active = confined.sandbox.probe().active;
        let can_tell_git =
            active.is_some_and(|active| active.supervised || active.mechanism != Mechanism::Namespaces);
        if changes_work_tree && can_tell_git && grant.is_none() && confined.level != Level::L3 {
            confined.open_for_git(workspace.roots().paths());
        }
        Ok(Some(confined))
    }

    /// The bounds of a program that writes these places, where there is a sandbox.
    ///
    /// # Errors
    /// As [`Bounds::command`].
    pub(super) async fn confined(
        &self,
        workspace: &Arc<Workspace>,
        all_settings: &Settings,
        mut writable: Vec<PathBuf>,
        own_places: PrivatePaths,
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
        let directories = self.directories.clone();
        let private = (!self.only_looks).then(|| self.private.clone());
        let roots = workspace.roots().paths().map(Path::to_path_buf);
        let visible = roots.chain(self.directories.home.as_ref().and_then(|home| home.canonicalize().ok()));
        let mut visible: Vec<PathBuf> = visible.chain(readable.iter().cloned()).collect();
        let (finder, readable_places) = (self.finder(workspace).await, readable);
        let looked = roo_durable::spawn_blocking(move || {
            let mut places = finder.look(&looked_at, &patterns).map_err(io::Error::other)?;
            let found = places.protected.iter().filter(|path| path.ends_with(".git")).map(PathBuf::as_path);
            let git = GitDirectory::find(looked_at.roots().paths(), found, home.as_deref());
            let roots = looked_at.roots().paths();
            let work_trees: Vec<PathBuf> =
                roots.filter_map(|root| GitDirectory::work_tree_around(root, home.as_deref())).collect();
            let OwnPlaces { paths: mut own, linked } = OwnPlaces::find(&directories);
            own.extend(finder.names_of(&linked));
            places.hidden.extend(own.iter().filter(|path| can_be_held(path)).cloned());
            places.hidden.extend(credentials(home.as_deref()));
            places.hidden.retain(|path| !readable_places.contains(path));
            // Where it is committed, as it usually is, git commits nothing unless it can compare it. It is still protected,
            // what it names is hidden, and tools don't show it.
            let rules: Vec<PathBuf> = looked_at.roots().paths().map(|root| root.join(IGNORE_FILE)).collect();
            places.hidden.retain(|path| !rules.contains(path));
            let is_hidden = |path: &Path| places.hidden.iter().any(|hidden| path.starts_with(hidden));
            let configuration = home.map(|home| tool_configuration::without_secrets(&home, is_hidden));
            let mut configuration = configuration.unwrap_or_default();
            configuration.retain(|(path, _)| !readable_places.iter().any(|place| path.starts_with(place)));
            let made = |below: PathBuf| make_private(&private.as_ref()?.join(below));
            let private = (made(own_places.temp), made(own_places.cache));
            Ok::<_, io::Error>((places, own, (git, work_trees), configuration, private))
        });
        let (places, own, (mut git, work_trees), configuration, (temp, cache)) =
            looked.await.map_err(io::Error::other).flatten()?;
        visible.extend(work_trees);
        let WithheldPaths { hidden, committed, protected, in_place, .. } = places;
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
        // Settings that let commands read them don't let commands write them.
        read_only.extend(own.iter().filter(|path| can_be_held(path)).cloned());
        writable.extend(git_writable);
        let homes = self.tool_homes(&sandbox, &writable, grant).await;
        let within_homes = |path: &&PathBuf| homes.layered.iter().any(|home| path.starts_with(home));
        let confinement = Confinement {
            direct: writable.iter().filter(within_homes).cloned().collect(),
            writable,
            read_only,
            visible,
            hidden,
            temp,
            variables: cache
                .as_deref()
                .map(|cache| tool_homes::variables(&homes.redirected, cache))
                .unwrap_or_default(),
            cache,
            // Without namespaces there is no proxy: then it is the machine's network or none.
            network: match sandbox.probe().holds_within_grants() || !network.is_wanted() {
                true => Network::Off,
                false => Network::On,
            },
            sockets: real(&settings.sockets),
            fixed: own.clone(),
            in_place: in_place.into_iter().filter(|path| !is_opened(path)).collect(),
            git_history: git.iter().flat_map(GitDirectory::history).collect(),
            ..Confinement::default()
        };
        let signing = self.granted_signing(&sandbox, workspace, settings).await;
        let level = if settings.level == SandboxLevel::Staged { Level::L3 } else { sandbox.probe().level() };
        Ok(Confined {
            sandbox,
            confinement,
            level,
            committed,
            protected,
            own,
            git,
            opened_for_git: None,
            layered: homes.layered,
            redirected: homes.redirected,
            configuration,
            network,
            signing,
            environment: EnvironmentRules::new(settings.env.clone()),
        })
    }
}

/// Returns whether the content of a path can be held by a mount: it is there and no link.
fn can_be_held(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|found| !found.is_symlink())
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
        let read = roo_durable::spawn_blocking(move || {
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
    async fn tool_homes(&self, sandbox: &Sandbox, writable: &[PathBuf], grant: Option<&Grant>) -> ToolHomes {
        let find = |can_be_layered: &dyn Fn(&Path) -> bool| {
            let home = self.directories.home.as_deref();
            ToolHomes::find(home, |name| std::env::var_os(name), writable, can_be_layered)
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
        let leased = roo_durable::spawn_blocking(move || LeasedLayers::lease(&area, &homes)).await;
        let leased = leased.map_err(io::Error::other).flatten().map_err(|error| error.to_string())?;
        sandbox.try_layers(leased.layers()).await
    }

    /// The layers of one MCP server, which no command sees.
    pub(super) fn layers_of_server(&self, name: &str) -> PathBuf {
        self.private.join(LAYERS).join(name)
    }

    /// The user's home directory, without links.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.directories.home.as_ref()?.canonicalize().ok()
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
