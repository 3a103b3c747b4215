//! A workspace and a home for the tests of this module, and clocks by which saved files count.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use tempfile::TempDir;

use super::{Customization, Scope};

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

/// A customization by a clock that leaps an hour from one look to the next: what has changed counts at once, and what is
/// missing at the second look.
pub(super) fn leaping(customization: Customization) -> Customization {
    const HOUR: i64 = 3_600_000;
    let moment = AtomicI64::new(jiff::Timestamp::now().as_millisecond());
    customization.with_clock(move || moment.fetch_add(HOUR, Ordering::SeqCst) + HOUR)
}

/// A customization by a clock that is stopped until it is set, in milliseconds since the Unix epoch.
pub(super) fn standing(customization: Customization) -> (Customization, Arc<AtomicI64>) {
    let moment = Arc::new(AtomicI64::new(jiff::Timestamp::now().as_millisecond()));
    let clock = Arc::clone(&moment);
    (customization.with_clock(move || clock.load(Ordering::SeqCst)), moment)
}
