//! Reading many files below one directory, as a search does: the parent directories of a file stay open for the next
//! one, and all files are read under the rules at the beginning.
//!
//! As everywhere, no link is followed on the way, and a file is hidden by any of its names.

use std::io;
use std::sync::Arc;

use cap_fs_ext::DirExt as _;
use cap_std::fs::Dir;

use super::Workspace;
use super::file::{EntryError, ReadError, open_entry, read_opened};
use super::ignore::Rules;
use super::links::several_names;
use super::read_access::ReadAccess;
use super::resolver::Resolved;

/// Reads files one after another; fastest in the order of a walk.
pub struct FileReader<'a> {
    workspace: &'a Workspace,
    /// None outside of the workspace, where no rules hide anything.
    rules: Option<Arc<Rules>>,
    /// The open directories from the last file's base to the file.
    open: Vec<(String, Dir)>,
}

impl<'a> FileReader<'a> {
    /// A reader of files that these rules apply to.
    pub(super) fn new(workspace: &'a Workspace, rules: Option<Arc<Rules>>) -> Self {
        Self { workspace, rules, open: Vec::new() }
    }

    /// Reads a whole file from disk. All files must lie in the same workspace folder, or outside of any. None where one
    /// of its names is hidden or likely to hold a secret.
    ///
    /// # Errors
    /// When it isn't a regular file, is larger than `limit` bytes, or can't be read.
    pub fn read(&mut self, file: &Resolved, limit: u64) -> Result<Option<Vec<u8>>, ReadError> {
        self.read_entry(file, limit).map_err(|error| error.on(file, limit))
    }

    fn read_entry(&mut self, file: &Resolved, limit: u64) -> Result<Option<Vec<u8>>, EntryError> {
        if self.rules.as_ref().is_some_and(|rules| rules.access(file.relative(), false) != ReadAccess::Free) {
            return Ok(None);
        }
        let (directories, name) = file.names_below();
        let directory = open_directory(&mut self.open, file.base(), directories)?;
        let (opened, found) = open_entry(directory, name)?;
        if let Some(rules) = &self.rules
            && let Some(linked) = several_names(&found)
            && self.workspace.ignores.by_other_names(file, rules, &linked) != ReadAccess::Free
        {
            return Ok(None);
        }
        read_opened(opened, found.len(), limit).map(Some)
    }
}

/// The handle of a directory below a base, from the nearest one that is open.
fn open_directory<'d>(open: &'d mut Vec<(String, Dir)>, base: &'d Dir, path: &str) -> io::Result<&'d Dir> {
    let names = || path.split('/').filter(|name| !name.is_empty());
    let common = open.iter().zip(names()).take_while(|((known, _), name)| known == name).count();
    open.truncate(common);
    for name in names().skip(common) {
        let above = open.last().map_or(base, |(_, directory)| directory);
        let directory = above.open_dir_nofollow(name)?;
        open.push((name.to_owned(), directory));
    }
    Ok(open.last().map_or(base, |(_, directory)| directory))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::Setup;
    use crate::resolver::Purpose;
    use roo_text::position::Encoding;

    #[test]
    fn files_are_read_by_handles_and_what_is_hidden_by_any_name_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join("work").join(name);
        fs::create_dir_all(path("a/b")).unwrap();
        fs::create_dir_all(path("c")).unwrap();
        for (name, text) in [
            ("a/b/one", "1"),
            ("a/two", "2"),
            ("c/three", "3"),
            (".env", "S=1"),
            (".rooignore", "hidden\n"),
            ("hidden", "h"),
        ] {
            fs::write(path(name), text).unwrap();
        }
        fs::hard_link(path("hidden"), path("c/seen")).unwrap();
        symlink(path("a"), path("d")).unwrap();
        let workspace = Workspace::open(Setup {
            folders: vec![path("")],
            state_directory: directory.path().join("state"),
            documents: Arc::default(),
            editor: None,
            encoding: Encoding::Utf8,
        })
        .unwrap();
        let top = workspace.resolve(".", Purpose::List).unwrap();
        let mut reader = workspace.file_reader(&top);
        let mut read = |name: &str| match reader.read(&top.below(name), 10) {
            Ok(bytes) => bytes.map_or("hidden".to_owned(), |bytes| String::from_utf8(bytes).unwrap()),
            Err(error) => error.to_string(),
        };
        assert_eq!(
            ["a/b/one", "a/two", "c/three", "a/b/one"].map(&mut read),
            ["1", "2", "3", "1"].map(str::to_owned)
        );
        assert_eq!([".env", "hidden", "c/seen"].map(&mut read), ["hidden"; 3].map(str::to_owned));
        assert!(read("d/two").contains("can't be read"), "no link is followed");
        assert!(read("a/b").contains("not a regular file") && read("a/three").contains("does not exist"));
    }
}
