//! What the sandbox lets a command write, read and reach: what its task may change, and no more.

use std::fs;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use tokio::sync::OnceCell;

use super::gate::{Grounds, Subject};
use super::intent::Grant;
use crate::config::{Directories, SandboxLevel};
use crate::exec::sandbox::{Confinement, Helper, Network, Probe, Required, Sandbox, credentials};
use crate::exec::{ExecError, sandbox};
use crate::modes;
use crate::workspace::{Protection, Purpose, ReadAccess, Workspace, protection};

/// The most names that are looked at for what must be read-only or hidden.
const NAMES: usize = 200_000;
/// Directories of dependencies and build results: what is in them is nobody's secret, and there is much of it.
const SCRATCH: &[&str] =
    &["target", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".gradle", ".next", "dist", "build"];

/// How commands of one workspace are bounded.
pub struct Bounds {
    helper: Helper,
    found: OnceCell<Sandbox>,
    directories: Directories,
    /// The workspace's part of the state directory: private temporary files and caches are in it.
    private: PathBuf,
    /// Whether nothing is going to run, so that nothing is made for it.
    only_looks: bool,
}

/// A command's bounds, ready to be held.
#[derive(Debug)]
pub struct Confined {
    /// What holds them.
    pub sandbox: Sandbox,
    /// What they are.
    pub confinement: Confinement,
}

impl Bounds {
    /// Nothing is tried yet.
    pub fn new(helper: Helper, directories: Directories, private: PathBuf) -> Self {
        Self { helper, found: OnceCell::new(), directories, private, only_looks: false }
    }

    /// The same, to judge commands that are not going to run: no directories are made for them.
    pub fn only_looking(self) -> Self {
        Self { only_looks: true, ..self }
    }

    /// The sandbox of this machine, found out at the first call.
    pub async fn sandbox(&self) -> &Sandbox {
        self.found.get_or_init(|| Sandbox::find(self.helper.clone())).await
    }

    /// Whether what the settings want is there; none where they want no sandbox.
    ///
    /// # Errors
    /// [`ExecError::NoSandbox`]: then no command runs.
    pub async fn check(&self, wanted: SandboxLevel) -> Result<Option<&Probe>, ExecError> {
        let required = match wanted {
            SandboxLevel::Off => return Ok(None),
            SandboxLevel::Best => Required::None,
            SandboxLevel::L2 => Required::L2,
            SandboxLevel::Namespaces => Required::Namespaces,
        };
        let probe = self.sandbox().await.probe();
        probe.check(required)?;
        Ok(Some(probe))
    }

    /// The bounds of one command; none where the machine or the settings have no sandbox.
    pub(super) async fn of(
        &self,
        grounds: &Grounds,
        subject: Subject<'_>,
        grant: Option<&Grant>,
        network: bool,
    ) -> Option<Confined> {
        let settings = &grounds.settings.sandbox;
        if settings.level == SandboxLevel::Off || self.sandbox().await.probe().active.is_none() {
            return None;
        }
        let task_directory = modes::task_directory(subject.urid);
        let mut writable = match grant {
            None => grounds.workspace.roots().paths().map(Path::to_path_buf).collect(),
            Some(grant) => granted(&grounds.workspace, grant),
        };
        // Its own directory is free to every task.
        writable.extend(existing(&grounds.workspace, &task_directory));
        writable.extend(settings.writable.iter().filter_map(|path| path.canonicalize().ok()));
        let (workspace, urid) = (std::sync::Arc::clone(&grounds.workspace), subject.urid.clone());
        let (opened, home) = (settings.writable.clone(), self.directories.home.clone());
        let own = [self.directories.state.clone(), self.directories.config.clone()];
        let private = (!self.only_looks).then(|| self.private.clone());
        let looked = tokio::task::spawn_blocking(move || {
            let opened: Vec<PathBuf> = opened.iter().filter_map(|path| path.canonicalize().ok()).collect();
            let mut places = Places { read_only: vec![], hidden: vec![], left: NAMES, opened };
            for root in workspace.roots().paths() {
                places.look(&workspace, root, urid.as_str());
            }
            places.hidden.extend(own.iter().filter_map(|path| path.canonicalize().ok()));
            places.hidden.extend(credentials(home.as_deref()));
            let made = |below: PathBuf| private_directory(&private.as_ref()?.join(below));
            (places, made(PathBuf::from("tmp").join(urid.as_str())), made("cache".into()))
        });
        let (places, temp, cache) = looked.await.ok()?;
        let readable: Vec<PathBuf> =
            settings.readable.iter().filter_map(|path| path.canonicalize().ok()).collect();
        let hidden = places.hidden.into_iter().filter(|path| !readable.contains(path)).collect();
        let confinement = Confinement {
            writable,
            read_only: places.read_only,
            hidden,
            temp,
            cache,
            network: if network { Network::On } else { Network::Off },
            limits: sandbox::Limits::default(),
        };
        Some(Confined { sandbox: self.sandbox().await.clone(), confinement })
    }
}

/// Where what all intents of a grant cover lies, as far as it exists, and the scratch directories beside it.
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

/// Where a path below the first root really is, if it is in the workspace.
fn existing(workspace: &Workspace, path: &str) -> Option<PathBuf> {
    let path = if path.is_empty() { "." } else { path };
    let place =
        workspace.resolve(path, Purpose::Directory).or_else(|_| workspace.resolve(path, Purpose::Read));
    let place = place.ok().filter(|place| place.is_directory() || place.is_file())?;
    matches!(place.location(), crate::workspace::Location::Inside { .. })
        .then(|| place.absolute().to_path_buf())
}

fn private_directory(path: &Path) -> Option<PathBuf> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path).ok()?;
    path.canonicalize().ok()
}

/// What may not be written or not be seen within the workspace.
struct Places {
    read_only: Vec<PathBuf>,
    hidden: Vec<PathBuf>,
    /// How many names may still be looked at.
    left: usize,
    /// What the user's settings open for commands.
    opened: Vec<PathBuf>,
}

impl Places {
    fn look(&mut self, workspace: &Workspace, root: &Path, urid: &str) {
        let Some(text) = root.to_str() else { return };
        let Ok(place) = workspace.resolve(text, Purpose::Directory) else { return };
        let Some(rules) = workspace.rules(&place) else { return };
        let mut open = vec![root.to_path_buf()];
        while let Some(directory) = open.pop() {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                let Some(left) = self.left.checked_sub(1) else { return };
                self.left = left;
                let path = entry.path();
                let Ok(kind) = entry.file_type() else { continue };
                let Some(relative) = path.strip_prefix(root).ok().and_then(Path::to_str) else { continue };
                if rules.access(relative, kind.is_dir()) != ReadAccess::Free {
                    // What a link leads to is hidden where it is.
                    if !kind.is_symlink() {
                        self.hidden.push(path);
                    }
                    continue;
                }
                let is_protected =
                    matches!(protection(relative, Some(urid)), Protection::Tier1 { .. } | Protection::Denied);
                if is_protected && !kind.is_symlink() && !self.opened.contains(&path) {
                    self.read_only.push(path.clone());
                    // Only the request's own directory may be written below.
                    continue;
                }
                let name = entry.file_name();
                let is_scratch = SCRATCH.iter().any(|scratch| name == *scratch);
                if kind.is_dir() && !is_scratch {
                    open.push(path);
                }
            }
        }
    }
}
