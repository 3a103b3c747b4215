//! Bounds of one command, as the sandbox is to hold them. They are made in `bounds.rs`.

use std::path::{Path, PathBuf};

use super::git::{GitDirectory, Signing, stays_closed};
use super::task_network::NetworkRules;
use super::tool_homes::Redirection;
use super::tool_overlays::ToolOverlays;
use roo_sandbox::egress::HostRules;
use roo_sandbox::exec::EnvironmentRules;
use roo_sandbox::exec::sandbox::{Confinement, Level, Sandbox, Staged};

/// A command's bounds, ready to be held.
#[derive(Debug)]
pub struct Confined {
    /// Sandbox that holds them.
    pub sandbox: Sandbox,
    /// The bounds themselves. The directory for a staged command's writes is filled in when it runs.
    pub confinement: Confinement,
    /// Level at which they hold the command.
    pub level: Level,
    /// Files that have names of secrets and that it sees as they were committed.
    pub committed: Vec<PathBuf>,
    /// Protected paths of the workspace that exist.
    pub protected: Vec<PathBuf>,
    /// Places of the server and of the user's files that govern agents, be they missing.
    pub(super) own: Vec<PathBuf>,
    /// The git directories that it may write.
    pub(super) git: Vec<GitDirectory>,
    /// Protected paths that git may change in it; none where it may change none, be they missing.
    pub(super) opened_for_git: Option<Vec<PathBuf>>,
    /// Directories of build tools that it sees through layers.
    pub(super) layered: Vec<PathBuf>,
    /// Variables that lead build tools to its private cache.
    pub(super) redirected: Vec<Redirection>,
    /// Configuration that it sees without the secrets in it.
    pub(super) configuration: Vec<(PathBuf, String)>,
    /// The hosts that it may reach, where it has a network of its own.
    pub(super) network: NetworkRules,
    /// Git's signing, where the user allows it.
    pub(super) signing: Option<Signing>,
    /// The variables that it sees besides the usual ones.
    pub environment: EnvironmentRules,
}

impl Confined {
    /// Lets git change protected files of the work tree in the command, and no other program. What they hold when it has ended
    /// is judged.
    pub(super) fn open_for_git<'a>(&mut self, roots: impl Iterator<Item = &'a Path>) {
        let roots: Vec<&Path> = roots.collect();
        let is_below = |path: &Path, places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        let may_be_opened = |path: &Path| {
            roots.iter().any(|root| path.strip_prefix(root).is_ok_and(|relative| !stays_closed(relative)))
        };
        let is_closed = |path: &PathBuf| {
            !may_be_opened(path)
                || is_below(path, &self.own)
                || self.own.iter().any(|own| own.starts_with(path))
                || is_below(path, &self.confinement.hidden)
        };
        let opened: Vec<PathBuf> = self.protected.iter().filter(|path| !is_closed(path)).cloned().collect();
        if self.sandbox.probe().holds_within_grants() {
            let (for_git, closed) = std::mem::take(&mut self.confinement.read_only)
                .into_iter()
                .partition(|path| opened.contains(path));
            (self.confinement.for_git, self.confinement.read_only) = (for_git, closed);
        }
        self.opened_for_git = Some(opened);
    }

    /// Returns whether git may change protected files in the command.
    pub(crate) fn is_open_for_git(&self) -> bool {
        self.opened_for_git.is_some()
    }

    /// Returns the overlays that hooks and MCP servers see in place of the user's files.
    pub(super) fn overlays(&self) -> ToolOverlays {
        // Without a supervisor nothing is shown in place of another.
        let is_supervised = self.sandbox.probe().active.is_some_and(|active| active.supervised);
        let configuration = if is_supervised { self.configuration.clone() } else { vec![] };
        let (layered, redirected) = (self.layered.clone(), self.redirected.clone());
        ToolOverlays { layered, redirected, configuration }
    }

    /// Returns whether the user may be offered hosts for it: no intent stands against them.
    pub(crate) fn may_be_granted_hosts(&self) -> bool {
        self.network.may_be_granted()
    }

    /// Returns whether it may reach some host.
    pub(crate) fn reaches_hosts(&self) -> bool {
        !self.network.is_empty()
    }

    /// Returns the hosts that it may reach.
    pub(crate) fn hosts(&self) -> &HostRules {
        self.network.hosts()
    }

    /// The bounds of a program whose changes nobody compares when it has ended: it writes no git directory.
    pub(super) fn without_git(&self) -> Confinement {
        let git: Vec<&Path> = self.git.iter().flat_map(GitDirectory::writable).collect();
        let mut bounds = self.confinement.clone();
        bounds.writable.retain(|path| !git.contains(&path.as_path()));
        bounds.read_only.extend(git.into_iter().map(Path::to_path_buf));
        bounds.git_history.clear();
        // No git there has to compare them, and what such a program answers is masked by their values nowhere.
        bounds.hidden.extend(self.committed.iter().cloned());
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
            committed: vec![],
            protected: vec![],
            own: vec![],
            git: vec![],
            opened_for_git: None,
            layered: vec![],
            redirected: vec![],
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
