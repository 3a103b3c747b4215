//! Scope of a command: which changes of files its task may make. What the sandbox holds is in `bounds.rs`.

use std::path::{Path, PathBuf};

use roo_formats::intents::{Covered, Enforced, Intent};
use roo_formats::modes;
use roo_protocol::ids::Urid;
use roo_sandbox::changes::{Allowed, Keep, Kind, Scope, What};
use roo_workspace::{ProtectedNames, Protection, protection};

/// Paths that a command may change.
pub struct CommandScope {
    pub(super) roots: Vec<PathBuf>,
    /// The names that are protected in each.
    pub(super) protected_names: Vec<ProtectedNames>,
    pub(super) urid: Urid,
    /// All of these must cover a path; without any, all of the workspace may be changed.
    pub(super) intents: Vec<Intent>,
    /// Paths that the user's settings open.
    pub(super) opened: Vec<PathBuf>,
    /// Paths that the sandbox lets the command write; none where nothing bounds it. A change elsewhere is somebody
    /// else's.
    pub(super) reach: Option<SandboxReach>,
    /// True if nothing is changed before it is judged, so that nothing has to be brought back.
    pub(super) is_staged: bool,
    /// Protected paths that exist.
    pub(super) protected: Vec<PathBuf>,
    /// Those of them that git may change.
    pub(super) opened_for_git: Vec<PathBuf>,
    /// Places that nothing opens: the server's, and the user's files that govern agents, be they missing.
    pub(super) own: Vec<PathBuf>,
}

/// Paths that the sandbox lets a command write.
pub(super) struct SandboxReach {
    pub(super) writable: Vec<PathBuf>,
    pub(super) read_only: Vec<PathBuf>,
    /// True if what is protected can't be written.
    pub(super) holds_protected: bool,
}

impl CommandScope {
    /// Returns whether the name of a path is protected in a folder that it is in.
    pub(super) fn is_protected(&self, path: &Path) -> bool {
        let mut names = self.roots.iter().zip(&self.protected_names);
        names.any(|(root, names)| {
            let relative = path.strip_prefix(root).ok().and_then(Path::to_str);
            relative.is_some_and(|relative| {
                matches!(names.protection(relative, None), Protection::Tier1 { .. } | Protection::Denied)
            })
        })
    }

    fn judge(&self, root: usize, path: &Path, is_directory: impl Fn(&Path) -> bool) -> Allowed {
        let Some(absolute) = self.roots.get(root).map(|root| root.join(path)) else {
            return Allowed::Scratch;
        };
        if self.own.iter().any(|own| absolute.starts_with(own)) {
            return Allowed::Protected;
        }
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
        let protected = self.protected.iter().chain(&self.own).filter(|_| !reach.holds_protected);
        let places = out_of_scope.chain(protected).chain(&self.opened_for_git);
        places.filter_map(|place| place.strip_prefix(root).ok()).map(Path::to_path_buf).collect()
    }
}
