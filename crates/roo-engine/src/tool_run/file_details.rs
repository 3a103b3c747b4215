//! What else than its content is to be known of a file that a call made, moved or deleted. Texts are kept in UTF-8, so who brings
//! a file back has to know in what encoding its bytes were, and whether it could be executed; and who removes one, which
//! directories were made for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use roo_workspace::TextEncoding;
use rustix::fs::OFlags;

/// Details of the files that a call changed, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileDetails {
    /// The encodings of files that are gone from their places. Plain UTF-8 needs no entry.
    encodings: BTreeMap<String, TextEncoding>,
    /// Those among them that could be executed.
    executables: BTreeSet<String>,
    /// The numbers of the directories that were made with new files, right above them.
    directories: BTreeMap<String, u32>,
}

impl FileDetails {
    /// Adds the encoding of a file that is gone.
    pub fn add_encoding(&mut self, path: String, encoding: TextEncoding) {
        if encoding != TextEncoding::UTF_8 {
            self.encodings.insert(path, encoding);
        }
    }

    /// Adds a file that is gone and could be executed.
    pub fn add_executable(&mut self, path: String) {
        self.executables.insert(path);
    }

    /// Adds the number of the directories that were made with a new file, right above it.
    pub fn add_directories(&mut self, path: String, number: u32) {
        if number > 0 {
            self.directories.insert(path, number);
        }
    }

    /// The encoding of a file that is gone; none for plain UTF-8.
    pub(crate) fn encoding_of(&self, path: &str) -> Option<TextEncoding> {
        self.encodings.get(path).copied()
    }

    /// Returns whether a file could be executed.
    pub(crate) fn was_executable(&self, path: &str) -> bool {
        self.executables.contains(path)
    }

    /// The number of the directories that were made with a new file, right above it.
    pub(crate) fn directories_of(&self, path: &str) -> u32 {
        self.directories.get(path).copied().unwrap_or_default()
    }
}

/// Returns whether the file at a path may be executed by its owner.
pub(crate) fn is_executable(path: &Path) -> bool {
    let found = path.symlink_metadata();
    found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o100 != 0)
}

/// Returns the number of the directories right above a path that are not there.
pub(crate) fn missing_directories(path: &Path) -> u32 {
    let missing = path.ancestors().skip(1).take_while(|above| above.symlink_metadata().is_err());
    u32::try_from(missing.count()).unwrap_or_default()
}

/// Lets those execute a file who may read it.
pub(crate) fn make_executable(path: &Path) -> io::Result<()> {
    // A link that has come there meanwhile leads elsewhere.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mode = file.metadata()?.permissions().mode();
    file.set_permissions(Permissions::from_mode(mode | ((mode & 0o444) >> 2)))
}
