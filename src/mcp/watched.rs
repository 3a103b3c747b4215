//! The files that a server's entry names in `watchPaths`: whether they are the same as when it was started. Nothing is
//! watched; they are looked at when the configuration is.

use std::collections::hash_map::DefaultHasher;
use std::fs::{self, Metadata};
use std::hash::{Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

/// The most files that are looked at for one server, directories included.
const FILES: usize = 2000;

/// State of all files of a server at once, by names, sizes and times of change. Equal states mean that nothing is known to
/// have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FilesState(u64);

impl FilesState {
    /// A number that is another one in another state.
    pub(super) fn number(self) -> u64 {
        self.0
    }

    /// The state of these paths now; those that are relative begin at `root`. Of directories all that is in them counts, but
    /// links are not followed there. Reads the disk.
    pub(super) fn read(paths: &[String], root: &Path) -> Self {
        if paths.is_empty() {
            return Self::default();
        }
        let mut hasher = DefaultHasher::new();
        let mut left = FILES;
        for path in paths {
            let path = root.join(path);
            let metadata = fs::metadata(&path);
            hash(&path, metadata.ok().as_ref(), &mut hasher);
            let mut open: Vec<PathBuf> = vec![path];
            while let Some(directory) = open.pop() {
                let mut entries: Vec<_> = fs::read_dir(&directory).into_iter().flatten().flatten().collect();
                entries.sort_by_key(fs::DirEntry::file_name);
                for entry in entries {
                    let Some(rest) = left.checked_sub(1) else { return Self(hasher.finish()) };
                    left = rest;
                    let metadata = entry.metadata().ok();
                    hash(&entry.path(), metadata.as_ref(), &mut hasher);
                    if metadata.is_some_and(|metadata| metadata.is_dir()) {
                        open.push(entry.path());
                    }
                }
            }
        }
        Self(hasher.finish())
    }
}

fn hash(path: &Path, metadata: Option<&Metadata>, hasher: &mut DefaultHasher) {
    path.hash(hasher);
    metadata.map(|metadata| (metadata.len(), metadata.modified().ok())).hash(hasher);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_changes_comes_or_goes_is_another_state() {
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        fs::create_dir_all(root.join("build/deep")).unwrap();
        fs::write(root.join("build/deep/a.js"), "1").unwrap();
        let paths = ["build".to_owned(), "server.py".to_owned()];
        let mut seen = vec![FilesState::read(&paths, root)];
        let mut is_new = |what: &str| {
            let now = FilesState::read(&paths, root);
            assert_eq!(now, FilesState::read(&paths, root), "{what}");
            assert!(!seen.contains(&now), "{what}");
            seen.push(now);
        };
        fs::write(root.join("build/deep/a.js"), "12").unwrap();
        is_new("a file below a directory has changed");
        fs::write(root.join("server.py"), "x").unwrap();
        is_new("a file is there");
        fs::rename(root.join("build/deep/a.js"), root.join("build/deep/b.js")).unwrap();
        is_new("a file has another name");
        fs::write(root.join("other.py"), "x").unwrap();
        assert_eq!(FilesState::read(&paths, root), *seen.last().unwrap(), "nobody named it");
    }
}
