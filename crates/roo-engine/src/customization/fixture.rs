//! A workspace and a home for the tests of this module.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::Scope;

/// `work` and `home`, below one directory.
pub(super) struct Fixture {
    pub(super) directory: TempDir,
}

impl Fixture {
    /// With these files.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let fixture = Self { directory: tempfile::tempdir().unwrap() };
        for (name, text) in files {
            let path = fixture.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(fixture.path("work/.roo")).unwrap();
        fs::create_dir_all(fixture.path("home")).unwrap();
        fixture
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the directories to search, from weak to strong.
    pub(super) fn places(&self) -> [(PathBuf, Scope); 2] {
        [(self.path("home"), Scope::Global), (self.path("work"), Scope::Project)]
    }
}
