//! The places within a workspace that a command may not see, or not write.

use std::collections::HashSet;
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

use crate::workspace::{FileId, Protection, Purpose, ReadAccess, Workspace, protection, several_names};

/// The most names that are looked at for what must be read-only or hidden.
const NAMES: usize = 200_000;
/// Directories of dependencies and build results: what is in them is nobody's secret, and there is much of it.
pub(super) const SCRATCH: &[&str] =
    &["target", "node_modules", ".venv", "venv", "__pycache__", ".tox", ".gradle", ".next", "dist", "build"];

/// What may not be written or not be seen within the workspace.
pub(super) struct Places {
    pub(super) read_only: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
    /// How many names may still be looked at.
    left: usize,
    /// What the user's settings open for commands.
    opened: Vec<PathBuf>,
}

impl Places {
    /// Nothing yet.
    pub(super) fn new(opened: Vec<PathBuf>) -> Self {
        Self { read_only: vec![], hidden: vec![], left: NAMES, opened }
    }

    /// Looks at every name below a root.
    pub(super) fn look(&mut self, workspace: &Workspace, root: &Path, urid: &str) {
        let Some(text) = root.to_str() else { return };
        let Ok(place) = workspace.resolve(text, Purpose::Directory) else { return };
        let Some(rules) = workspace.rules(&place) else { return };
        let (mut open, mut free, mut linked) = (vec![root.to_path_buf()], Vec::new(), HashSet::new());
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
                        self.collect_linked(&path, kind, &mut linked);
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
                } else if kind.is_file() {
                    free.push(path);
                }
            }
        }
        // Hidden by any of its names is hidden by all.
        if !linked.is_empty() {
            self.hidden.extend(
                free.into_iter().filter(|path| linked_file(path).is_some_and(|id| linked.contains(&id))),
            );
        }
    }

    /// Adds the files at and below a hidden place that have other names as well.
    fn collect_linked(&mut self, path: &Path, kind: FileType, linked: &mut HashSet<FileId>) {
        if kind.is_file() {
            linked.extend(linked_file(path));
        }
        let mut open = if kind.is_dir() { vec![path.to_path_buf()] } else { vec![] };
        while let Some(directory) = open.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten().flatten() {
                let Some(left) = self.left.checked_sub(1) else { return };
                self.left = left;
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => open.push(entry.path()),
                    Ok(kind) if kind.is_file() => linked.extend(linked_file(&entry.path())),
                    _ => {}
                }
            }
        }
    }
}

fn linked_file(path: &Path) -> Option<FileId> {
    several_names(&fs::symlink_metadata(path).ok()?).map(|file| file.id)
}
