//! Walk over a directory, in a fixed order and without what is ignored.
//!
//! Directories are opened below the folder's handle without following a link, and readers open the files in the same way.
//! Git's ignore files alone are read by their paths.

use std::path::Path;
use std::sync::Arc;

use super::directory_listing::{DirectoryWalk, FoundKind, Listed, ListedDirectory, Listing, WalkedDirectory};
use super::git_ignore::GitIgnores;
use super::ignore::Rules;
use super::read_access::ReadAccess;
use super::resolver::Resolved;

/// An entry below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Below the directory, `/` between names.
    pub path: String,
    pub kind: FoundKind,
    /// Never ignored.
    pub access: ReadAccess,
}

/// Limits of a walk.
pub struct Walk {
    /// True to include subdirectories.
    pub recursive: bool,
    /// Names of directories that are left out with all below.
    pub leave_out: fn(&str) -> bool,
}

impl Walk {
    /// Walks a directory: siblings in natural order, a directory before what it holds. `.gitignore`
    /// (of directories above as well) and `.rooignore` are honoured; what can't be read, or has a name
    /// that isn't UTF-8, is left out, and so is what a write that is under way has there for a moment.
    pub fn below(
        self,
        directory: &Resolved,
        rules: Option<Arc<Rules>>,
    ) -> impl Iterator<Item = WalkEntry> + use<> {
        let walk = DirectoryWalk::new(directory, rules, self.leave_out);
        let next = Some(walk.top());
        Entries { walk, is_recursive: self.recursive, open: vec![], next }
    }
}

/// A walk that is under way.
struct Entries {
    walk: DirectoryWalk,
    is_recursive: bool,
    /// The directories down to the last entry, each with what is left of it.
    open: Vec<(ListedDirectory, std::vec::IntoIter<Listed>)>,
    /// The directory whose entries come next.
    next: Option<WalkedDirectory>,
}

impl Iterator for Entries {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        if let Some(next) = self.next.take()
            && let Ok(Listing { directory, entries, .. }) = self.walk.list(&next)
        {
            self.open.push((directory, entries.into_iter()));
        }
        loop {
            let (directory, entries) = self.open.last_mut()?;
            let Some(Listed { name, kind, access }) = entries.next() else {
                self.open.pop();
                continue;
            };
            if self.is_recursive && kind == FoundKind::Directory {
                self.next = Some(directory.below(&name));
            }
            return Some(WalkEntry { path: directory.path_of(&name), kind, access });
        }
    }
}

/// The rules by which walks leave out names, as they were when each was first needed: also for readers that know a file
/// from an earlier walk.
pub struct WalkRules {
    rules: Arc<Rules>,
    git: GitIgnores,
    leave_out: fn(&str) -> bool,
}

impl WalkRules {
    /// The rules of one root; none outside. `leave_out` is that of [`Walk`].
    pub fn new(rules: Option<Arc<Rules>>, leave_out: fn(&str) -> bool) -> Self {
        Self { rules: rules.unwrap_or_default(), git: GitIgnores::default(), leave_out }
    }

    /// Returns whether a walk of a workspace folder comes to a file in it that is free to read by its path.
    pub fn has(&self, folder: &Resolved, path: &str) -> bool {
        let ends = path.match_indices('/').map(|(end, _)| (end, true)).chain([(path.len(), false)]);
        let mut access = ends.map(|(end, is_directory)| {
            let path = &path[..end];
            self.access(&folder.absolute().join(path), path, is_directory)
        });
        // What is below a directory that is likely to hold secrets has an access of its own.
        access.try_fold(ReadAccess::Free, |_, access| access) == Some(ReadAccess::Free)
    }

    /// The access to a name in a directory that is walked; none where it is left out.
    fn access(&self, absolute: &Path, relative: &str, is_directory: bool) -> Option<ReadAccess> {
        let name = relative.rsplit('/').next().unwrap_or_default();
        if is_directory && (self.leave_out)(name) || roo_durable::is_temporary_name(name.as_bytes()) {
            return None;
        }
        let access = self.rules.access(relative, is_directory);
        let is_ignored = access == ReadAccess::Ignored || self.git.ignore(absolute, is_directory);
        (!is_ignored).then_some(access)
    }
}
