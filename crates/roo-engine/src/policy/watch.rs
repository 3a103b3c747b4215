//! Watch over one command: what it changes, what it makes of git, and what is private to its run.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::command_scope::CommandScope;
use super::git::{
    CheckedOutFile, EffectiveConfiguration, GitDirectory, GitGuard, GitOutcome, KnownCommits, Signing,
    SigningMethod, WorkTreesBefore, generated_hooks, stays_closed,
};
use super::in_flight::{CommandTurn, InFlightCommands};
use super::server_files::ServerFiles;
use super::task_network::{NetworkOwner, NetworkRules, TaskNetwork, TaskNetworks};
use super::tool_configuration;
use super::withheld_paths::PlaceFinder;
use roo_sandbox::changes::{
    Allowed, Change, ChangesError, Kind, LeasedLayers, Recording, Stage, StagingArea, Store, What,
};
use roo_sandbox::exec::sandbox::{Capture, Journal, Sandbox, SigningService, Substitute};
use roo_workspace::Workspace;

/// Watch that finds a command's changes, and judges them by what its task may change.
pub struct Watch {
    /// The workspace folders.
    pub roots: Vec<PathBuf>,
    /// Keeps what may have to be given back.
    pub store: Arc<Store>,
    /// Paths that the command may change.
    pub scope: Arc<CommandScope>,
    /// The commands that run at the same time.
    pub in_flight: Arc<InFlightCommands>,
    /// Staging of its writes; none where what it writes is in the workspace at once.
    pub staging: Option<Staging>,
    pub(super) finder: Arc<PlaceFinder>,
    /// Patterns that the user's settings protect besides the built-in names.
    pub(super) patterns: Vec<String>,
    /// Directory for files as they were before it wrote them; none where nothing can do that.
    pub(super) captures: Option<PathBuf>,
    /// Tells what roo-lsp processes write themselves.
    pub(super) server_files: ServerFiles,
    /// The git directories that the command may write.
    pub(super) git: Vec<GitDirectory>,
    /// Directories of build tools that it sees through layers, and where those are.
    pub(super) layered: (Vec<PathBuf>, PathBuf),
    /// Configuration that it sees without the secrets in it.
    pub(super) configuration: Vec<(PathBuf, String)>,
    /// The network that it joins; none where it has the machine's or none at all.
    pub(super) network: Option<CommandNetwork>,
    /// True if what is protected can't be written.
    pub(super) holds_protected: bool,
    /// Protected paths that git may change in the work tree; none where it may change none.
    pub(super) opened_for_git: Option<Vec<PathBuf>>,
    pub(super) known_commits: KnownCommits,
    /// The user's home directory.
    pub(super) home: Option<PathBuf>,
    /// Git's signing, where the user allows it, and the socket where that is served.
    pub(super) signing: Option<(Signing, PathBuf)>,
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
pub(super) struct CommandNetwork {
    pub(super) networks: Arc<TaskNetworks>,
    pub(super) owner: NetworkOwner,
    pub(super) rules: NetworkRules,
    pub(super) sandbox: Sandbox,
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
    pub(crate) fn leave_out_server_files(&self, begun: SystemTime, changes: &mut Vec<Change>) {
        if let Some(root) = self.roots.first() {
            self.server_files.leave_out(root, begun, changes);
        }
    }

    /// Returns those of the files that were to be shown as they were committed and that are not as they were committed any
    /// more, as when an editor has saved them since. Runs git.
    ///
    /// # Errors
    /// As [`Watch::begin`].
    pub(crate) fn no_longer_committed(
        &self,
        committed: &[PathBuf],
        workspace: &Workspace,
    ) -> Result<Vec<PathBuf>, ChangesError> {
        if committed.is_empty() {
            return Ok(vec![]);
        }
        let now: HashSet<PathBuf> =
            self.finder.look(workspace, &self.patterns)?.committed.into_iter().collect();
        Ok(committed.iter().filter(|path| !now.contains(*path)).cloned().collect())
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
        let scratch: Vec<PathBuf> = recording.scratch().into_iter().filter_map(absolute).collect();
        let found = self.scope.protected.iter().filter(|path| path.ends_with(".git")).cloned();
        let git = self.git.iter().flat_map(GitDirectory::writable).map(Path::to_path_buf);
        let repositories: Vec<PathBuf> = scratch.into_iter().chain(git).collect();
        // What a staged command replaces is in the workspace until the end.
        let roots = if self.staging.is_some() { vec![] } else { self.roots.clone() };
        let except = repositories.iter().cloned().chain(found).collect();
        let bounds = Capture { directory: directory.clone(), roots, except, repositories };
        Ok(Some(Captured { directory, bounds }))
    }
}

impl Watch {
    /// Leases the layers through which the command sees the directories of build tools. Writes the disk.
    ///
    /// # Errors
    /// When they can't be made.
    pub(crate) fn lease_layers(&self) -> io::Result<LeasedLayers> {
        LeasedLayers::lease(&self.layered.1, &self.layered.0)
    }

    /// The network that the command joins; none where it has the machine's or none at all. Waits for a helper, so not
    /// for a thread of the runtime.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn network(&self) -> io::Result<Option<Arc<TaskNetwork>>> {
        let of = |network: &CommandNetwork| {
            network.networks.join(&network.owner, &network.rules, &network.sandbox)
        };
        self.network.as_ref().map(of).transpose()
    }

    /// Starts what signs for git in the command, as the user lets it; none where they don't. Within a runtime; writes the
    /// disk.
    ///
    /// # Errors
    /// When it can't be started.
    pub(crate) fn serve_signing(&self) -> io::Result<Option<(Signing, SigningService)>> {
        let Some((signing, directory)) = &self.signing else { return Ok(None) };
        let SigningMethod::Ssh(key) = &signing.method else { return Ok(None) };
        Ok(Some((signing.clone(), SigningService::start(directory, key.clone())?)))
    }

    /// Returns the findings about git in a command that has ended. `wanted` says whether git could not sign what it was
    /// told to, `is_served` whether it could. Runs git.
    pub(crate) fn git_use(&self, outcome: &GitOutcome, wanted: bool, is_served: bool) -> GitUse {
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

    /// Records what is there of commits and of protected files that git may change. Runs git where there are any.
    ///
    /// # Errors
    /// When it can't be kept: then nobody would know afterwards what the command made, and it must not run.
    pub(crate) fn work_trees_before(
        &self,
        captured: Option<&Captured>,
        turn: &CommandTurn,
    ) -> io::Result<WorkTreesBefore> {
        // Of other processes too.
        let others = captured.and_then(|captured| fs::read_dir(captured.directory.parent()?).ok());
        let is_alone = turn.is_alone() && others.is_none_or(|captures| captures.count() <= 1);
        let opened = self.opened_for_git.as_deref().unwrap_or_default();
        WorkTreesBefore::begin(&self.git, opened, &self.known_commits, is_alone, &self.roots)
    }

    /// Allows those of the changes of protected files that git was to make: what they hold was the user's before. Runs git
    /// where there are any.
    pub(crate) fn allow_checked_out(&self, before: &WorkTreesBefore, changes: &mut [Change]) {
        if self.opened_for_git.is_none() {
            return;
        }
        let is_file = |change: &Change| {
            let mut kinds = [&change.before, &change.after].into_iter().flatten().map(|state| state.kind);
            kinds.all(|kind| matches!(kind, Kind::File | Kind::Link))
        };
        let absolute = |change: &Change| {
            let is_judged = change.allowed == Allowed::Protected && !stays_closed(&change.path);
            Some(self.roots.get(change.root).filter(|_| is_judged)?.join(&change.path))
        };
        let changed = changes.iter().filter(|change| is_file(change)).filter_map(|change| {
            Some(CheckedOutFile { path: absolute(change)?, was_there: change.before.is_some() })
        });
        let stay = before.may_stay(changed.collect(), &self.known_commits, &self.roots, self.home.as_deref());
        for change in changes {
            let Some(path) = absolute(change) else { continue };
            // A directory comes and goes with what is in it.
            let is_allowed = match is_file(change) {
                true => stay.contains(&path),
                false => change.what != What::Modified && stay.iter().any(|file| file.starts_with(&path)),
            };
            if is_allowed {
                change.allowed = Allowed::InScope;
            }
        }
    }

    /// Records what the command left, and returns the protected files that stayed behind when git went to another commit.
    /// Runs git where it did.
    pub(crate) fn work_trees_after(&self, before: &WorkTreesBefore) -> Vec<PathBuf> {
        if let Err(error) = self.known_commits.end(&self.git) {
            tracing::warn!(%error, "the commits that a command made can't be recorded");
        }
        before.left_behind(&|path| self.scope.is_protected(path), &self.roots)
    }

    /// Looks at the git directories before the command. Copies of their configurations go where the command's files
    /// are kept.
    ///
    /// # Errors
    /// When they can't be read: then the command must not run.
    pub(crate) fn guard_git(&self, captured: Option<&Captured>) -> io::Result<GitGuard> {
        let private = captured.map(|captured| captured.directory.as_path());
        // Where there are any, they are among what is protected.
        let can_be_shown = private.is_some() && self.holds_protected && !self.patterns.is_empty();
        let hooks = if can_be_shown { generated_hooks(&self.roots) } else { vec![] };
        GitGuard::begin(&self.git, &self.roots, &hooks, private, self.holds_protected)
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
    pub(super) area: Arc<StagingArea>,
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

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch").field("roots", &self.roots).finish_non_exhaustive()
    }
}
