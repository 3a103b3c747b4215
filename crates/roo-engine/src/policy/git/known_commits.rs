//! Commits that were there before a command, as against those that commands of agents made or fetched, and the contents of
//! protected files that the user had: from these git may bring a protected file to the work tree.
//!
//! What a reference names when a command begins is the user's, unless a command left it so.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::directories::GitDirectory;
use super::references::{self, Reference};
use roo_durable::PrivateFile;

/// The most commits and contents of one repository that are remembered; of more, only what references name.
const MAX_COMMITS: usize = 20_000;
/// The largest record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 << 20;

/// The record of the repositories of a workspace.
#[derive(Debug)]
pub(in super::super) struct KnownCommits {
    file: PrivateFile,
}

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// By their directories.
    repositories: BTreeMap<PathBuf, RepositoryRecord>,
}

/// What is known of one repository.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RepositoryRecord {
    /// Objects that references named and that no command made.
    pub(super) users: BTreeSet<String>,
    /// References as commands left them.
    commands: BTreeSet<Reference>,
    /// Protected files and what they were when a command began: modes and the names of blobs.
    pub(super) contents: BTreeSet<(PathBuf, String)>,
}

impl KnownCommits {
    /// The record in this file.
    pub(in super::super) fn new(file: PathBuf) -> Self {
        Self { file: PrivateFile::new(file) }
    }

    /// Records what is there before a command. `is_alone` says whether no other command runs, which may have made some
    /// of it; `held` is what protected files are.
    pub(super) fn begin(
        &self,
        directories: &[GitDirectory],
        is_alone: bool,
        held: &BTreeSet<(PathBuf, String)>,
    ) -> io::Result<()> {
        self.change(directories, |references, record| {
            if is_alone {
                let new = references.iter().filter(|reference| !record.commands.contains(*reference));
                record.users.extend(new.map(|(_, id)| id.clone()));
                record.contents.extend(held.iter().cloned());
            }
        })
    }

    /// Records what a command left.
    pub(in super::super) fn end(&self, directories: &[GitDirectory]) -> io::Result<()> {
        self.change(directories, |_, _| {})
    }

    /// What is known of a repository.
    pub(super) fn of(&self, directory: &GitDirectory) -> RepositoryRecord {
        let record = self.read().unwrap_or_default();
        record.repositories.get(&directory.common).cloned().unwrap_or_default()
    }

    fn read(&self) -> io::Result<Record> {
        match self.file.read(MAX_RECORD_BYTES)? {
            Some(bytes) => Ok(serde_json::from_slice(&bytes)?),
            None => Ok(Record::default()),
        }
    }

    fn change(
        &self,
        directories: &[GitDirectory],
        add: impl Fn(&BTreeSet<Reference>, &mut RepositoryRecord),
    ) -> io::Result<()> {
        if directories.is_empty() {
            return Ok(());
        }
        let _lock = self.file.lock()?;
        // A record that can't be read says nothing of what commands made, and so nothing is the user's.
        let (mut record, is_lost) = match self.read() {
            Ok(record) => (record, false),
            Err(_) => (Record::default(), true),
        };
        let mut is_changed = false;
        for directory in directories {
            let Some(now) = references::all(directory) else { continue };
            let known = record.repositories.entry(directory.common.clone()).or_default();
            let before = known.clone();
            if !is_lost {
                add(&now, known);
            }
            if known.users.len() > MAX_COMMITS {
                let named: BTreeSet<&String> = now.iter().map(|(_, id)| id).collect();
                known.users.retain(|id| named.contains(id));
            }
            known.commands = now.into_iter().filter(|(_, id)| !known.users.contains(id)).collect();
            if known.contents.len() > MAX_COMMITS {
                known.contents.clear();
            }
            is_changed |= *known != before;
        }
        match is_changed {
            true => self.file.replace(&serde_json::to_vec(&record)?),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_commands_leave_is_not_the_users_and_what_comes_up_between_them_is() {
        let place = tempfile::tempdir().unwrap();
        let git = place.path().join("w/.git");
        fs::create_dir_all(git.join("refs/heads")).unwrap();
        let directory = GitDirectory { own: git.clone(), common: git.clone() };
        let directories = [directory.clone()];
        let known = KnownCommits::new(place.path().join("state/known"));
        let put =
            |name: &str, digit: &str| fs::write(git.join("refs/heads").join(name), digit.repeat(40)).unwrap();
        let users = || {
            let users = known.of(&directory).users;
            users.iter().map(|id| id[..1].to_owned()).collect::<Vec<_>>()
        };
        put("main", "1");
        known.begin(&directories, true, &BTreeSet::new()).unwrap();
        put("evil", "2");
        known.end(&directories).unwrap();
        assert_eq!(users(), ["1"]);
        put("theirs", "3");
        known.begin(&directories, true, &BTreeSet::new()).unwrap();
        assert_eq!(users(), ["1", "3"]);
        // Another command may have made it.
        put("unclear", "4");
        known.begin(&directories, false, &BTreeSet::new()).unwrap();
        known.end(&directories).unwrap();
        known.begin(&directories, true, &BTreeSet::new()).unwrap();
        assert_eq!(users(), ["1", "3"]);
        // The user takes it on.
        put("mine", "2");
        known.begin(&directories, true, &BTreeSet::new()).unwrap();
        assert_eq!(users(), ["1", "2", "3"]);
        fs::write(known.file.path(), "{").unwrap();
        known.begin(&directories, true, &BTreeSet::new()).unwrap();
        assert_eq!(users(), [""; 0]);
    }
}
