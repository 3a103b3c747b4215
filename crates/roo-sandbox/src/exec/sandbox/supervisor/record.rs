//! What is put down of a command in its journal, and what is kept of files before they change.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, readlinkat, statat};
use rustix::io::Errno;

use super::Supervisor;
use super::git_paths::{
    REPOSITORY_PARTS, STEERING, is_git_object, is_one_of, may_have_to_be_restored, may_steer_dot_git,
};
use crate::exec::sandbox::caller::{ResolvedFile, Unresolved};
use crate::exec::sandbox::connections::absolute_path;
use crate::exec::sandbox::helper_protocol::JsonPath;
use crate::exec::sandbox::journal::{BeforeImage, JournalLine};
use crate::exec::sandbox::notifications::CallAnswer;

/// The largest file whose content is kept, in bytes.
const MAX_CAPTURED_FILE_BYTES: u64 = 8 << 20;
/// The most paths that a command is told it may not write.
const MAX_REFUSED_PATHS: usize = 64;
/// The most paths that are put down as touched.
const MAX_TOUCHED_PATHS: usize = 1 << 20;

/// The numbers of a file's device and of the file on it.
pub(super) type Identity = (u64, u64);

/// A directory that was moved, or was to be.
pub(super) struct MovedDirectory {
    /// Path when the command began.
    original: PathBuf,
    /// Possible current paths.
    places: Vec<PathBuf>,
}

impl Supervisor {
    /// Writes a line. What can't be put down must not happen.
    pub(super) fn record(&mut self, line: &JournalLine) -> Result<(), Errno> {
        let Some(writer) = &mut self.writer else { return Ok(()) };
        writer.add(line).map_err(|_| Errno::NOSPC)
    }

    /// Puts down that the command changes what is at a path, or has `all` below it come up or go.
    pub(super) fn touch(&mut self, path: &Path, all: bool) -> Result<(), Errno> {
        if self.is_tracked(path) { self.record_path(path, all) } else { Ok(()) }
    }

    pub(super) fn record_path(&mut self, path: &Path, all: bool) -> Result<(), Errno> {
        if self.touched.get(path).is_some_and(|known| *known || !all) {
            return Ok(());
        }
        if self.touched.len() >= MAX_TOUCHED_PATHS {
            // No more is put down, and so what is missing says nothing.
            return match self.leave_to_kernel() {
                CallAnswer::Fail(error) => Err(error),
                _ => Ok(()),
            };
        }
        self.record(&JournalLine::Touched { path: JsonPath(path.to_owned()), all, file: None })?;
        self.touched.insert(path.to_owned(), all);
        Ok(())
    }

    /// As that, of what is there and may have other names besides.
    fn touch_found(&mut self, found: &ResolvedFile) -> Result<(), Errno> {
        let Some(file) = found.shared() else { return self.touch(&found.path, false) };
        if !self.is_tracked(&found.path) || !self.touched_files.insert(file) {
            return self.touch(&found.path, false);
        }
        self.record(&JournalLine::Touched {
            path: JsonPath(found.path.clone()),
            all: false,
            file: Some(file),
        })?;
        self.touched.entry(found.path.clone()).or_default();
        Ok(())
    }

    /// Puts down what is there before it changes, and keeps it if nobody has yet.
    pub(super) fn about_to_change(
        &mut self,
        found: &ResolvedFile,
        with_content: bool,
    ) -> Result<(), Unresolved> {
        self.check_held(&found.path, &found.handle)?;
        if self.is_refused(&found.path, &found.handle) || !self.is_tracked(&found.path) {
            return Ok(());
        }
        self.touch_found(found)?;
        let original = self.original(&found.path);
        let known = self.captured.get(&original).copied();
        if known.is_some_and(|has_content| has_content || !with_content) {
            return Ok(());
        }
        if let Err(error) = self.capture(found, original, with_content) {
            // What could not be kept is reported as a change whose earlier content is not known.
            let _ = error;
        }
        Ok(())
    }

    fn capture(&mut self, found: &ResolvedFile, original: PathBuf, with_content: bool) -> io::Result<()> {
        let (left, is_wanted) = match self.is_in_roots(&found.path) {
            true => (&mut self.left, true),
            false => (&mut self.left_for_git, may_have_to_be_restored(&found.path)),
        };
        let Some(writer) = &mut self.writer else { return Ok(()) };
        let mut image = BeforeImage::from_stat(original.clone(), &found.stat);
        let kind = found.kind();
        image.keeps_content = !with_content;
        match kind {
            FileType::RegularFile
                if with_content && is_wanted && image.size <= MAX_CAPTURED_FILE_BYTES.min(*left) =>
            {
                let copied = writer.copy(&found.reopen()?, image.size)?;
                image.content = Some(copied);
                *left -= copied.1;
            }
            FileType::Symlink => {
                let target = readlinkat(&found.handle, "", Vec::new())?;
                image.target = Some(target.into_bytes());
            }
            _ => {}
        }
        writer.add(&JournalLine::Before(Box::new(image)))?;
        self.captured.insert(original, with_content || kind != FileType::RegularFile);
        Ok(())
    }

    /// Marks a new file as the command's own: there is nothing to keep.
    pub(super) fn is_own(&mut self, path: &Path) {
        let original = self.original(path);
        self.captured.entry(original).or_insert(true);
    }

    /// Puts down that a directory is about to be moved, with those in it that were moved before.
    pub(super) fn directory_moves(&mut self, source: &ResolvedFile, to: &Path) {
        let Some(identity) = identity_of(&source.path) else { return };
        let original = self.original(&source.path);
        self.moved
            .entry(identity)
            .or_insert_with(|| MovedDirectory { original, places: vec![source.path.clone()] });
        let mut lines = Vec::new();
        for (identity, directory) in &mut self.moved {
            // A move that was seen before may have failed.
            directory.places.retain(|place| identity_of(place) == Some(*identity));
            let within = directory.places.iter().filter_map(|place| place.strip_prefix(&source.path).ok());
            let new: Vec<_> = within.map(|rest| joined(to, rest)).collect();
            for place in new {
                lines.push((place.clone(), directory.original.clone(), *identity));
                directory.places.push(place);
            }
        }
        lines.sort();
        for (now, original, (device, inode)) in lines {
            if self.is_tracked(&original)
                && let Some(writer) = &mut self.writer
            {
                let line = JournalLine::MovedDirectory {
                    from: JsonPath(original),
                    to: JsonPath(now),
                    device,
                    inode,
                };
                // What is lost is reported as a change whose earlier content is not known.
                let _ = writer.add(&line);
            }
        }
    }

    /// Returns the path that a file had when the command began.
    fn original(&self, path: &Path) -> PathBuf {
        if self.moved.is_empty() {
            return path.to_owned();
        }
        let moved = path.ancestors().find_map(|above| {
            let directory = self.moved.get(&identity_of(above)?)?;
            Some(joined(&directory.original, path.strip_prefix(above).ok()?))
        });
        moved.unwrap_or_else(|| path.to_owned())
    }

    pub(super) fn record_refused_path(&mut self, path: &Path) {
        if self.refused.len() < MAX_REFUSED_PATHS
            && self.refused.insert(path.to_owned())
            && let Some(writer) = &mut self.writer
        {
            let _ = writer.add(&JournalLine::Refused { path: JsonPath(path.to_owned()) });
        }
    }

    pub(super) fn record_refused_socket(&mut self, address: &[u8]) {
        let Some(path) = absolute_path(address) else { return };
        if self.refused.len() < MAX_REFUSED_PATHS
            && self.refused.insert(path.clone())
            && let Some(writer) = &mut self.writer
        {
            let _ = writer.add(&JournalLine::RefusedSocket { path: JsonPath(path) });
        }
    }

    pub(super) fn is_tracked(&self, path: &Path) -> bool {
        self.is_in_roots(path)
            || self
                .repositories
                .iter()
                .any(|place| path.starts_with(place) && self.may_steer_git(place, path))
    }

    fn is_in_roots(&self, path: &Path) -> bool {
        self.roots.iter().any(|root| path.starts_with(root))
            && !self.except.iter().any(|except| path.starts_with(except))
    }

    /// Returns whether a path may steer a repository in a directory: a `.git`, or one without.
    fn may_steer_git(&self, place: &Path, path: &Path) -> bool {
        !is_git_object(path) && (may_steer_dot_git(path) || self.may_steer_bare_repository(place, path))
    }

    /// Returns whether a path in a directory is one of those that make any directory a repository, or may steer one that is
    /// made: that has a `HEAD`, or had one that the command touched.
    fn may_steer_bare_repository(&self, place: &Path, path: &Path) -> bool {
        let has_head = |git: &Path| {
            let head = git.join("HEAD");
            self.touched.contains_key(&head) || identity_of(&head).is_some()
        };
        let mut above = path.ancestors().take_while(|above| above.starts_with(place) && *above != place);
        path.file_name().is_some_and(|name| is_one_of(name, REPOSITORY_PARTS))
            || above.any(|inner| {
                let Some((name, git)) = inner.file_name().zip(inner.parent()) else { return false };
                let above_objects = git.parent().filter(|_| name == "info" && git.ends_with("objects"));
                is_one_of(name, STEERING) && (has_head(git) || above_objects.is_some_and(has_head))
            })
    }

    pub(super) fn may_hold_repositories(&self, path: &Path) -> bool {
        self.repositories.iter().any(|place| path.starts_with(place))
    }
}

/// Returns the identity of the file at a path, if any.
fn identity_of(path: &Path) -> Option<Identity> {
    let found = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    #[allow(clippy::unnecessary_cast, reason = "not on all processors")]
    Some((found.st_dev as u64, found.st_ino as u64))
}

/// A path below another, or that one itself where nothing is below.
fn joined(above: &Path, rest: &Path) -> PathBuf {
    if rest.as_os_str().is_empty() { above.to_owned() } else { above.join(rest) }
}
