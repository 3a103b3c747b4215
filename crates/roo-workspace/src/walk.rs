//! Walk over a directory, in a fixed order and without what is ignored.
//!
//! The walk itself goes by paths, and readers open the files by handle, so that a directory that is replaced by a link
//! meanwhile exposes names at most.

use std::cmp::Ordering;
use std::fs::FileType;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::ignore::WalkBuilder;

use super::git_ignore::GitIgnores;
use super::ignore::Rules;
use super::read_access::ReadAccess;
use super::resolver::{Location, Resolved};

/// An entry below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WalkEntry {
    /// Below the directory, `/` between names.
    pub path: String,
    /// Kind.
    pub kind: FoundKind,
    /// Never ignored.
    pub access: ReadAccess,
}

/// Kind of entry. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A link, or something special.
    Other,
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
    pub fn below(self, directory: &Resolved, rules: Option<Arc<Rules>>) -> impl Iterator<Item = WalkEntry> {
        let names = WalkRules::new(rules, self.leave_out);
        let prefix = match directory.location() {
            Location::Inside { .. } => directory.relative().to_owned(),
            Location::Outside => String::new(),
        };
        let top = directory.absolute().to_path_buf();
        let kept = move |path: &Path, kind: Option<FileType>| {
            let below: Option<Vec<&str>> =
                path.strip_prefix(&top).ok()?.components().map(|name| name.as_os_str().to_str()).collect();
            let below = below?.join("/");
            let kind = match kind {
                Some(kind) if kind.is_file() => FoundKind::File,
                Some(kind) if kind.is_dir() => FoundKind::Directory,
                _ => FoundKind::Other,
            };
            let relative = if prefix.is_empty() { below.clone() } else { format!("{prefix}/{below}") };
            let access = names.access(path, &relative, kind == FoundKind::Directory)?;
            Some(WalkEntry { path: below, kind, access })
        };
        let kept = Arc::new(kept);
        let found: Box<dyn Iterator<Item = (PathBuf, Option<FileType>)> + Send> = match self.recursive {
            true => {
                // Only decides which directories are read. Files are judged once, below.
                let kept = Arc::clone(&kept);
                let is_entered = move |entry: &::ignore::DirEntry| {
                    let is_directory = entry.file_type().is_some_and(|kind| kind.is_dir());
                    entry.depth() == 0 || !is_directory || kept(entry.path(), entry.file_type()).is_some()
                };
                let walk = WalkBuilder::new(directory.absolute())
                    // A pipe in the place of an ignore file would block it.
                    .standard_filters(false)
                    .follow_links(false)
                    .sort_by_file_name(|one, other| natural(&one.to_string_lossy(), &other.to_string_lossy()))
                    .filter_entry(is_entered)
                    .build();
                let found = walk.filter_map(Result::ok).filter(|entry| entry.depth() > 0);
                Box::new(found.map(|entry| (entry.path().to_owned(), entry.file_type())))
            }
            // A walk with a limit of its depth would read and sort the directories below, too.
            false => Box::new(listed(directory.absolute()).into_iter()),
        };
        found.filter_map(move |(path, kind)| kept(&path, kind))
    }
}

/// What is directly in a directory, in natural order; nothing where it can't be read.
fn listed(directory: &Path) -> Vec<(PathBuf, Option<FileType>)> {
    let found = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut listed: Vec<(String, PathBuf, Option<FileType>)> = found
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path(), entry.file_type().ok()))
        .collect();
    listed.sort_by(|(one, ..), (other, ..)| natural(one, other));
    listed.into_iter().map(|(_, path, kind)| (path, kind)).collect()
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

/// Names in the order that people expect: by case last, numbers by value.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let order = match (left.chars().next(), right.chars().next()) {
            (None, None) => return one.cmp(other),
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                let ((a, after_a), (b, after_b)) = (split_number(left), split_number(right));
                (left, right) = (after_a, after_b);
                a.len().cmp(&b.len()).then(a.cmp(b))
            }
            (Some(a), Some(b)) => {
                (left, right) = (&left[a.len_utf8()..], &right[b.len_utf8()..]);
                if a == b { Ordering::Equal } else { a.to_lowercase().cmp(b.to_lowercase()) }
            }
        };
        if order.is_ne() {
            return order;
        }
    }
}

/// The digits that a text begins with, without leading zeros, and the rest.
fn split_number(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (text[..end].trim_start_matches('0'), &text[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_order_that_people_expect() {
        let mut names = vec!["b10", "B2", "a", "b02", "b2", "Ä", "b", ".git", "b1c"];
        names.sort_by(|one, other| natural(one, other));
        assert_eq!(names, [".git", "a", "b", "b1c", "B2", "b02", "b2", "b10", "Ä"]);
    }
}
