//! What a call must not touch, though mounts and Landlock may permit it: held places, paths that only git writes, paths that
//! keep their place, and the history of repositories.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::Supervisor;
use super::git_paths::is_transient;
use crate::exec::sandbox::caller::{Caller, DirectoryEntry, ResolvedFile, Unresolved};
use crate::exec::sandbox::protected_mounts::{MountState, ProtectedMount, is_read_only};

/// Directories without files of users.
const KERNEL: &[&str] = &["/proc", "/sys", "/dev"];

impl Supervisor {
    /// Fails where a file is at a held place, or below one, and not in what is mounted there.
    pub(super) fn check_held(&self, path: &Path, handle: &OwnedFd) -> Result<(), Unresolved> {
        let Some(place) = self.held_place(path) else { return Ok(()) };
        if is_read_only(handle) || place.shows(handle) {
            return Ok(());
        }
        match place.state() {
            // It was there when the command began, so that the command could not have made it.
            MountState::Missing => Err(Unresolved::Refused(Errno::ACCESS)),
            MountState::Mounted | MountState::Exposed => Err(Unresolved::Exposed),
        }
    }

    /// Says what a refusal by the kernel means for a file that was found at a held place. Landlock lets nothing be opened in a
    /// mount that another program has taken away since, and what is in it has no path any more: the file is to be looked
    /// for again.
    pub(super) fn refusal(&self, found: &ResolvedFile, error: Errno) -> Unresolved {
        let copy = || self.held.values().flatten().find(|place| place.is_copy(&found.stat));
        match self.held_place(&found.path).or_else(copy) {
            Some(place) if error == Errno::ACCESS && !place.shows(&found.handle) => Unresolved::Exposed,
            _ => error.into(),
        }
    }

    /// Returns whether an entry is a held place itself, which the kernel neither removes nor replaces. A call that acts by name
    /// must not depend on that: another program may take the mount away at any time.
    pub(super) fn is_mounted_on(&self, entry: &DirectoryEntry) -> bool {
        self.held.get(&entry.path).is_some_and(Option::is_some) && !is_read_only(&entry.directory)
    }

    /// The innermost place that holds what is at a path, if any.
    fn held_place(&self, path: &Path) -> Option<&ProtectedMount> {
        path.ancestors().find_map(|above| self.held.get(above))?.as_ref()
    }

    pub(super) fn is_any_exposed(&self) -> bool {
        self.held.values().flatten().any(|place| place.state() == MountState::Exposed)
    }

    /// Checks that a path is not one that only git writes, or that git is the caller.
    pub(super) fn check_writer(&mut self, caller: Caller, path: &Path) -> Result<(), Unresolved> {
        let is_below = |places: &[PathBuf]| places.iter().any(|place| path.starts_with(place));
        if !is_below(&self.for_git) || is_below(&self.configurations) || caller.is_installed_git() {
            return Ok(());
        }
        self.record_refused_path(path);
        Err(Unresolved::Refused(Errno::ROFS))
    }

    /// Returns whether the history of a repository would lose something, by another program than git. It is not kept
    /// for the user, so a line that clears too much must not reach it. This is care, and no boundary.
    pub(super) fn loses_history(&self, caller: Caller, source: &ResolvedFile, target: Option<&Path>) -> bool {
        let place = |path: &Path| self.git_history.iter().find(|place| path.starts_with(place)).cloned();
        let Some(history) = place(&source.path) else { return false };
        let stays = target.and_then(place) == Some(history);
        !stays && !is_transient(&source.path) && !caller.is_git()
    }

    pub(super) fn is_fixed(&self, path: &Path) -> bool {
        self.fixed.iter().any(|fixed| fixed == path)
    }

    /// Returns whether a fixed path is this one or below it.
    pub(super) fn leads_to_fixed(&self, path: &Path) -> bool {
        self.fixed.iter().any(|fixed| fixed.starts_with(path))
    }

    /// Returns a path that an entry is or leads to, and that keeps its place.
    pub(super) fn held_by(&self, entry: &DirectoryEntry) -> Option<PathBuf> {
        let is_directory = entry.there.as_ref().is_some_and(ResolvedFile::is_directory);
        let mut held = self.in_place.iter().filter(|_| is_directory);
        held.find(|held| held.starts_with(&entry.path)).cloned()
    }

    /// Returns whether the file system of a handle can't be written, which is put down of a path there.
    pub(super) fn is_refused(&mut self, path: &Path, handle: &OwnedFd) -> bool {
        if !is_read_only(handle) {
            return false;
        }
        if !KERNEL.iter().any(|kernel| path.starts_with(kernel)) {
            self.record_refused_path(path);
        }
        true
    }
}
