//! What a walk finds in one directory: names in natural order, without what is ignored. One that is replaced by a link
//! meanwhile is not opened.

use std::cmp::Ordering;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cap_fs_ext::DirExt as _;
use rustix::fs::{AtFlags, FileType, statat};

use super::git_ignore::Level;
use super::ignore::{Rules, SecretPlaces};
use super::read_access::ReadAccess;
use super::resolver::{Location, Resolved};

/// Kind of entry. Links are not followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoundKind {
    /// A regular file.
    File,
    Directory,
    /// A link, or something special.
    Other,
}

/// A walk of the directories below one, each listed when it is needed, in any order and on any thread.
pub(super) struct DirectoryWalk {
    top: Resolved,
    /// The top relative to its root; empty outside of all.
    prefix: String,
    rules: Arc<Rules>,
    leave_out: fn(&str) -> bool,
}

/// A directory that a walk comes to.
pub(super) struct WalkedDirectory {
    /// Below the top, `/` between names; empty for the top itself.
    path: String,
    /// The ignore files of the directories above.
    above: Option<Arc<Level>>,
}

/// A directory that was listed.
pub(super) struct ListedDirectory {
    path: String,
    git: Option<Arc<Level>>,
}

/// What a directory holds.
pub(super) struct Listing {
    pub(super) directory: ListedDirectory,
    /// To open the files in it.
    pub(super) handle: rustix::fs::Dir,
    /// In natural order.
    pub(super) entries: Vec<Listed>,
}

/// An entry that is not ignored.
pub(super) struct Listed {
    pub(super) name: String,
    pub(super) kind: FoundKind,
    pub(super) access: ReadAccess,
}

impl DirectoryWalk {
    /// `leave_out` is that of [`super::Walk`].
    pub(super) fn new(top: &Resolved, rules: Option<Arc<Rules>>, leave_out: fn(&str) -> bool) -> Self {
        let prefix = match top.location() {
            Location::Inside { .. } => top.relative().to_owned(),
            Location::Outside => String::new(),
        };
        Self { top: top.clone(), prefix, rules: rules.unwrap_or_default(), leave_out }
    }

    /// Where it begins.
    pub(super) fn top(&self) -> WalkedDirectory {
        WalkedDirectory { path: String::new(), above: Level::above(self.top.absolute()) }
    }

    /// Opens a directory.
    pub(super) fn open(&self, path: &str) -> io::Result<rustix::fs::Dir> {
        let below = joined(self.top.path_below_base(), path);
        Ok(rustix::fs::Dir::new(open_directory(self.top.base(), &below)?)?)
    }

    /// Lists a directory.
    pub(super) fn list(&self, directory: &WalkedDirectory) -> io::Result<Listing> {
        let mut handle = self.open(&directory.path)?;
        let mut found = Vec::new();
        while let Some(entry) = handle.read() {
            let Ok(entry) = entry else { break };
            let Some(name) = entry.file_name().to_str().ok().filter(|name| !matches!(*name, "." | ".."))
            else {
                continue;
            };
            found.push((name.to_owned(), entry.file_type()));
        }
        let absolute = match directory.path.as_str() {
            "" => self.top.absolute().to_path_buf(),
            path => self.top.absolute().join(path),
        };
        let has = |name: &str| found.iter().any(|(found, _)| found == name);
        let git = Level::of_listed(directory.above.clone(), &absolute, has);
        let mut entries = Vec::with_capacity(found.len());
        let mut names = Names::new(self, &directory.path, absolute);
        for (name, kind) in found {
            let kind = match kind {
                // Some file systems don't tell it with the name.
                FileType::Unknown => match statat(handle.fd()?, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    Err(_) => continue,
                },
                kind => kind,
            };
            let kind = match kind {
                FileType::RegularFile => FoundKind::File,
                FileType::Directory => FoundKind::Directory,
                _ => FoundKind::Other,
            };
            if let Some(access) = names.access(self, git.as_deref(), &name, kind == FoundKind::Directory) {
                entries.push(Listed { name, kind, access });
            }
        }
        entries.sort_unstable_by(|one, other| natural(&one.name, &other.name));
        let directory = ListedDirectory { path: directory.path.clone(), git };
        Ok(Listing { directory, handle, entries })
    }
}

impl ListedDirectory {
    /// The path of an entry below the top.
    pub(super) fn path_of(&self, name: &str) -> String {
        joined(&self.path, name)
    }

    /// A directory in it.
    pub(super) fn below(&self, name: &str) -> WalkedDirectory {
        WalkedDirectory { path: self.path_of(name), above: self.git.clone() }
    }

    /// Below the top; empty for the top itself.
    pub(super) fn path(&self) -> &str {
        &self.path
    }
}

/// The paths of the names in a directory. Their texts are kept, so that a name costs no memory of its own.
struct Names {
    secret: SecretPlaces,
    is_ignored: bool,
    relative: String,
    absolute: Option<String>,
}

impl Names {
    fn new(walk: &DirectoryWalk, path: &str, absolute: PathBuf) -> Self {
        let relative = joined(&walk.prefix, path);
        Self {
            secret: SecretPlaces::new(&relative),
            // Those below the top were asked about when the walk came to them.
            is_ignored: path.is_empty() && walk.rules.access(&relative, true) == ReadAccess::Ignored,
            relative,
            absolute: absolute.into_os_string().into_string().ok(),
        }
    }

    /// The access to a name; none where it is left out.
    fn access(
        &mut self,
        walk: &DirectoryWalk,
        git: Option<&Level>,
        name: &str,
        is_directory: bool,
    ) -> Option<ReadAccess> {
        let is_left_out = is_directory && (walk.leave_out)(name);
        if is_left_out || self.is_ignored || roo_durable::is_temporary_name(name.as_bytes()) {
            return None;
        }
        let secret = &self.secret;
        let access = with_name(&mut self.relative, name, |relative| {
            walk.rules.access_in(secret, relative, is_directory)
        });
        if access == ReadAccess::Ignored {
            return None;
        }
        let absolute = self.absolute.as_mut()?;
        let is_ignored =
            git.is_some_and(|git| with_name(absolute, name, |path| git.ignore(path.as_ref(), is_directory)));
        (!is_ignored).then_some(access)
    }
}

/// Looks at the path of a name in a directory.
fn with_name<T>(directory: &mut String, name: &str, look: impl FnOnce(&str) -> T) -> T {
    let length = directory.len();
    if !directory.is_empty() && !directory.ends_with('/') {
        directory.push('/');
    }
    directory.push_str(name);
    let seen = look(directory);
    directory.truncate(length);
    seen
}

fn joined(directory: &str, name: &str) -> String {
    match (directory, name) {
        ("", path) | (path, "") => path.to_owned(),
        _ => format!("{directory}/{name}"),
    }
}

/// Opens a directory below another; empty is that one itself. No link is followed.
fn open_directory(base: &cap_std::fs::Dir, path: &str) -> io::Result<std::os::fd::OwnedFd> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    #[cfg(target_os = "linux")]
    {
        use rustix::fs::{ResolveFlags, openat2};
        let path = if path.is_empty() { "." } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::io::retry_on_intr(|| openat2(base, path, flags, Mode::empty(), resolve)) {
            // An old kernel, a filter of system calls that knows none of this, a path that is too long or changes meanwhile.
            Err(
                rustix::io::Errno::NOSYS
                | rustix::io::Errno::PERM
                | rustix::io::Errno::NAMETOOLONG
                | rustix::io::Errno::AGAIN,
            ) => {}
            opened => return Ok(opened?),
        }
    }
    let mut directory = base.try_clone()?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        directory = directory.open_dir_nofollow(name)?;
    }
    // A handle of its own, as listing moves its position.
    Ok(rustix::fs::openat(&directory, ".", flags, Mode::empty())?)
}

/// Names in the order that people expect: by case last, numbers by value.
fn natural(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    loop {
        let order = match (left.as_bytes().first(), right.as_bytes().first()) {
            (None, None) => return one.cmp(other),
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(a), Some(b)) if a.is_ascii_digit() && b.is_ascii_digit() => {
                let ((a, after_a), (b, after_b)) = (split_number(left), split_number(right));
                (left, right) = (after_a, after_b);
                a.len().cmp(&b.len()).then(a.cmp(b))
            }
            (Some(a), Some(b)) if a.is_ascii() && b.is_ascii() => {
                (left, right) = (&left[1..], &right[1..]);
                a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
            }
            _ => match (left.chars().next(), right.chars().next()) {
                (Some(a), Some(b)) => {
                    (left, right) = (&left[a.len_utf8()..], &right[b.len_utf8()..]);
                    if a == b { Ordering::Equal } else { a.to_lowercase().cmp(b.to_lowercase()) }
                }
                (a, b) => a.cmp(&b),
            },
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
