//! Files that people save while a program runs: read again where they have changed, and left out of account while they are
//! being saved. Nothing here is told of changes: a file is looked at when somebody asks.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::Fingerprint;

/// Time for which a file that is shorter than before must have been left alone until that counts.
pub const SAVING: Duration = Duration::from_secs(1);

/// A file, and the state of it that counts.
///
/// Programs save a file in steps: it may be missing, empty or cut off for an instant. So what is missing, or shorter than
/// what counted before, counts when it has been left alone for [`SAVING`].
#[derive(Clone, Debug)]
pub struct WatchedFile {
    path: PathBuf,
    /// State of the file that was read last; none where it is to be read again.
    seen: Option<Option<Fingerprint>>,
    /// Length of the last text that could be read and counted, in bytes.
    held: usize,
    saving: Option<Saving>,
}

/// A state of the file in which it may be being saved.
#[derive(Clone, Debug)]
struct Saving {
    found: Option<Fingerprint>,
    /// In milliseconds since the Unix epoch.
    since: i64,
}

impl WatchedFile {
    /// The file at a path. Whatever it holds at the first reading counts.
    pub fn new(path: PathBuf) -> Self {
        Self { path, seen: None, held: 0, saving: None }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file may be being saved: then it is to be looked at again in [`SAVING`].
    pub fn is_being_saved(&self) -> bool {
        self.saving.is_some()
    }

    /// Returns whether there is nothing to read. Costs one look at the file's metadata.
    pub fn is_current(&self) -> bool {
        self.saving.is_none() && self.seen == Some(Fingerprint::from_file(&self.path))
    }

    /// Reads the file if it may have changed. Returns what was read if that counts now; nothing where what counted before
    /// still does. `now` is in milliseconds since the Unix epoch.
    pub fn refresh<T: AsRef<str>, E>(
        &mut self,
        now: i64,
        read: impl FnOnce(&Path) -> Result<Option<T>, E>,
    ) -> Option<Result<Option<T>, E>> {
        // Taken before reading, so that a change in between is seen the next time.
        let found = Fingerprint::from_file(&self.path);
        if self.seen == Some(found) {
            self.saving = None;
            return None;
        }
        let text = read(&self.path);
        if length(&text).is_some_and(|length| length < self.held) {
            let since = match &self.saving {
                Some(saving) if saving.found == found => saving.since,
                _ => found.and_then(changed_at).map_or(now, |changed| changed.min(now)),
            };
            if u128::from(now.abs_diff(since)) < SAVING.as_millis() {
                self.saving = Some(Saving { found, since });
                return None;
            }
        }
        self.take(found, &text);
        Some(text)
    }

    /// Reads the file; whatever it holds counts, as nobody saves it now.
    pub fn read_whole<T: AsRef<str>, E>(
        &mut self,
        read: impl FnOnce(&Path) -> Result<Option<T>, E>,
    ) -> Result<Option<T>, E> {
        let found = Fingerprint::from_file(&self.path);
        let text = read(&self.path);
        self.take(found, &text);
        text
    }

    /// Forgets what was read, as if it were the first reading that comes next.
    pub fn forget(&mut self) {
        (self.seen, self.held, self.saving) = (None, 0, None);
    }

    fn take<T: AsRef<str>, E>(&mut self, found: Option<Fingerprint>, text: &Result<Option<T>, E>) {
        let length = length(text);
        let is_settled = found.is_none_or(|found| found.is_settled(SystemTime::now()));
        // What can't be read may become readable although it is the same.
        self.seen = (length.is_some() && is_settled).then_some(found);
        self.held = length.unwrap_or(self.held);
        self.saving = None;
    }
}

/// Length of a text in bytes, 0 where there is no file; none for one that can't be read.
fn length<T: AsRef<str>, E>(text: &Result<Option<T>, E>) -> Option<usize> {
    let text = text.as_ref().ok()?;
    Some(text.as_ref().map_or(0, |text| text.as_ref().len()))
}

/// Time of the last change in milliseconds since the Unix epoch.
fn changed_at(found: Fingerprint) -> Option<i64> {
    i64::try_from(found.changed_at()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::{fs, io};

    use super::*;

    const LONG: &str = "mode: code\ndeny: rm\n";

    struct Written {
        directory: tempfile::TempDir,
        file: WatchedFile,
        /// The text that counts.
        text: Option<String>,
    }

    impl Written {
        fn new(text: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("config.yaml");
            fs::write(&path, text).unwrap();
            let mut written = Self { file: WatchedFile::new(path), directory, text: None };
            assert_eq!(written.at(0), text);
            written
        }

        fn write(&self, text: &str) {
            fs::write(self.file.path(), text).unwrap();
        }

        /// As it counts at a time, in milliseconds from now.
        fn at(&mut self, later: i64) -> &str {
            if let Some(text) = self.file.refresh(now() + later, read) {
                self.text = text.unwrap();
            }
            self.text.as_deref().unwrap_or("missing")
        }
    }

    fn read(path: &Path) -> io::Result<Option<String>> {
        match fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            text => text.map(Some),
        }
    }

    fn now() -> i64 {
        i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
    }

    #[test]
    fn what_is_as_long_as_before_counts_at_once() {
        let mut written = Written::new("mode: ask\n");
        for text in ["mode: all\n", "mode: ask\nprofile: other\n", "mode: ask\nprofile: others\n"] {
            written.write(text);
            assert_eq!(written.at(0), text);
            assert!(!written.file.is_being_saved());
        }
    }

    #[test]
    fn a_file_that_is_being_saved_counts_as_it_was() {
        let mut written = Written::new(LONG);
        // Emptied or cut off, with another beginning too, and written again.
        for text in ["", "mode: code\n", "mode: co", "mode: ask\n"] {
            written.write(text);
            assert_eq!(written.at(0), LONG, "{text:?}");
            assert!(written.file.is_being_saved() && !written.file.is_current(), "{text:?}");
        }
        let saved = "mode: ask\ndeny: rm\n# more\n";
        written.write(saved);
        assert_eq!(written.at(0), saved);
        // Moved away, and replaced.
        fs::rename(written.file.path(), written.directory.path().join("config.yaml~")).unwrap();
        assert_eq!(written.at(0), saved);
        written.write(saved);
        assert_eq!(written.at(0), saved);
        assert!(!written.file.is_being_saved());
    }

    #[test]
    fn less_counts_when_it_was_left_alone_for_a_second() {
        for shorter in ["mode: code\n", "mode: ask\n", ""] {
            let mut written = Written::new(LONG);
            written.write(shorter);
            assert_eq!(written.at(0), LONG);
            assert_eq!(written.at(1100), shorter);
            assert!(!written.file.is_being_saved());
        }
        let mut written = Written::new(LONG);
        written.write("");
        assert_eq!(written.at(1100), "", "seen for the first time, a second after it was emptied");
        written.write("mode: ask\n");
        assert_eq!(written.at(0), "mode: ask\n");
        fs::remove_file(written.file.path()).unwrap();
        // Nothing says since when it is missing.
        assert_eq!(written.at(0), "mode: ask\n");
        assert_eq!(written.at(900), "mode: ask\n");
        assert_eq!(written.at(1000), "missing");
    }

    #[test]
    fn each_state_of_a_file_that_is_being_saved_has_its_own_second() {
        let mut written = Written::new(LONG);
        fs::remove_file(written.file.path()).unwrap();
        assert_eq!(written.at(0), LONG);
        written.write("mode: ");
        assert_eq!(written.at(500), LONG);
        fs::remove_file(written.file.path()).unwrap();
        assert_eq!(written.at(1200), LONG);
        assert_eq!(written.at(2300), "missing");
    }

    #[test]
    fn whoever_has_written_it_knows_that_it_is_whole() {
        let mut written = Written::new(LONG);
        written.write("");
        assert_eq!(written.file.read_whole(read).unwrap().as_deref(), Some(""));
        written.write("mode: ask\n");
        written.file.forget();
        written.write("");
        assert_eq!(written.at(0), "", "the first reading");
    }

    #[test]
    fn a_file_behind_a_link_is_read_where_the_link_leads() {
        let mut written = Written::new("mode: ask\n");
        let (path, real) = (written.file.path().to_owned(), written.directory.path().join("real.yaml"));
        fs::write(&real, "mode: code\n").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&real, &path).unwrap();
        assert_eq!(written.at(0), "mode: code\n");
        fs::write(&real, "mode: team\n").unwrap();
        assert_eq!(written.at(0), "mode: team\n");
    }
}
