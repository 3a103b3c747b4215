//! The user's settings file while a program runs: read again where it has changed, and left out of account while it is
//! being saved.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{SettingsProblem, read_settings};
use roo_durable::Fingerprint;

/// Time for which a file that holds less than before must have been left alone until that counts.
pub const SAVING: Duration = Duration::from_secs(1);

/// Text of a settings file, none where there is no file, or what keeps it from being read.
type ReadText = Result<Option<String>, SettingsProblem>;

/// The settings file, as it counts.
///
/// Programs save a file in steps: it may be missing, empty or cut off for an instant. So what is missing, or holds only the
/// beginning of what the file held before, counts when it has been left alone for [`SAVING`].
#[derive(Debug)]
pub struct SettingsFile {
    path: PathBuf,
    /// A pipe or a device, which can be read once.
    is_stream: bool,
    /// State of the file in which `text` was read; none where it is to be read again.
    seen: Option<Option<Fingerprint>>,
    text: ReadText,
    /// The last text that could be read, and counted.
    held: String,
    saving: Option<Saving>,
}

/// A state of the file in which it may be being saved.
#[derive(Debug)]
struct Saving {
    found: Option<Fingerprint>,
    /// In milliseconds since the Unix epoch.
    since: i64,
}

impl SettingsFile {
    /// Reads the file; whatever it holds counts.
    pub fn read(path: PathBuf) -> Self {
        let is_stream = fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let mut file =
            Self { path, is_stream, seen: None, text: Ok(None), held: String::new(), saving: None };
        let found = Fingerprint::from_file(&file.path);
        file.take(found, read_settings(&file.path));
        file
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text that counts.
    pub fn text(&self) -> &Result<Option<String>, SettingsProblem> {
        &self.text
    }

    /// Returns whether the file may be being saved: then it is to be looked at again in [`SAVING`].
    pub fn is_being_saved(&self) -> bool {
        self.saving.is_some()
    }

    /// Reads the file if it may have changed; returns whether another text counts. `now` is in milliseconds since the Unix
    /// epoch. A file that has not changed costs one look at its metadata.
    pub fn refresh(&mut self, now: i64) -> bool {
        if self.is_stream {
            return false;
        }
        // Taken before reading, so that a change in between is seen the next time.
        let found = Fingerprint::from_file(&self.path);
        if self.seen == Some(found) {
            self.saving = None;
            return false;
        }
        let text = read_settings(&self.path);
        if self.holds_less(&text) {
            let since = match &self.saving {
                Some(saving) if saving.found == found => saving.since,
                _ => found.and_then(changed_at).map_or(now, |changed| changed.min(now)),
            };
            if u128::from(now.abs_diff(since)) < SAVING.as_millis() {
                self.saving = Some(Saving { found, since });
                return false;
            }
        }
        self.take(found, text)
    }

    /// Reads the file; whatever it holds counts, as nobody saves it now. Returns whether another text counts.
    pub fn refresh_whole(&mut self) -> bool {
        if self.is_stream {
            return false;
        }
        let found = Fingerprint::from_file(&self.path);
        self.take(found, read_settings(&self.path))
    }

    /// Returns whether the file lacks something at its end, or everything, of what it held.
    fn holds_less(&self, text: &ReadText) -> bool {
        match text {
            Ok(text) => {
                let text = text.as_deref().unwrap_or_default();
                text.len() < self.held.len() && self.held.starts_with(text)
            }
            Err(_) => false,
        }
    }

    fn take(&mut self, found: Option<Fingerprint>, text: ReadText) -> bool {
        let can_be_read = text.is_ok();
        let is_settled = found.is_none_or(|found| found.is_settled(SystemTime::now()));
        // What can't be read may become readable although it is the same.
        self.seen = (can_be_read && is_settled).then_some(found);
        self.saving = None;
        if let Ok(text) = &text {
            self.held = text.clone().unwrap_or_default();
        }
        let is_other = text != self.text;
        self.text = text;
        is_other
    }
}

/// Time of the last change in milliseconds since the Unix epoch.
fn changed_at(found: Fingerprint) -> Option<i64> {
    i64::try_from(found.changed_at()?.as_millis()).ok()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    const DENIES: &str = "mode: code\nautoApprove: { execute: { deny: [[rm]] } }\n";

    struct Written {
        directory: tempfile::TempDir,
        file: SettingsFile,
    }

    impl Written {
        fn new(text: &str) -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("config.yaml");
            fs::write(&path, text).unwrap();
            Self { file: SettingsFile::read(path), directory }
        }

        fn write(&self, text: &str) {
            fs::write(self.file.path(), text).unwrap();
        }

        fn text(&self) -> &str {
            self.file.text().as_ref().unwrap().as_deref().unwrap_or("missing")
        }

        /// As it counts at a time, in milliseconds from now.
        fn at(&mut self, later: i64) -> &str {
            self.file.refresh(now() + later);
            self.text()
        }
    }

    fn now() -> i64 {
        i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap()
    }

    #[test]
    fn what_is_written_counts_at_once() {
        let mut written = Written::new(DENIES);
        for text in ["mode: ask\n", "mode: ask\nprofile: other\n", "mode: [\n"] {
            written.write(text);
            assert_eq!(written.at(0), text);
            assert!(!written.file.is_being_saved());
        }
    }

    #[test]
    fn a_file_that_is_being_saved_counts_as_it_was() {
        let mut written = Written::new(DENIES);
        // Emptied or cut off, and written again.
        for text in ["", "mode: code\n", "mode: co"] {
            written.write(text);
            assert_eq!(written.at(0), DENIES, "{text:?}");
            assert!(written.file.is_being_saved(), "{text:?}");
        }
        written.write("mode: ask\n");
        assert_eq!(written.at(0), "mode: ask\n");
        // Moved away, and replaced.
        fs::rename(written.file.path(), written.directory.path().join("config.yaml~")).unwrap();
        assert_eq!(written.at(0), "mode: ask\n");
        written.write("mode: ask\n");
        assert_eq!(written.at(0), "mode: ask\n");
        assert!(!written.file.is_being_saved());
    }

    #[test]
    fn less_counts_when_it_was_left_alone_for_a_second() {
        let mut written = Written::new(DENIES);
        written.write("mode: code\n");
        assert_eq!(written.at(0), DENIES);
        assert_eq!(written.at(1100), "mode: code\n");
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
        let mut written = Written::new(DENIES);
        fs::remove_file(written.file.path()).unwrap();
        assert_eq!(written.at(0), DENIES);
        written.write("mode: ");
        assert_eq!(written.at(500), DENIES);
        fs::remove_file(written.file.path()).unwrap();
        assert_eq!(written.at(1200), DENIES);
        assert_eq!(written.at(2300), "missing");
    }

    #[test]
    fn a_file_behind_a_link_is_read_where_the_link_leads() {
        let mut written = Written::new("mode: code\n");
        let (path, real) = (written.file.path().to_owned(), written.directory.path().join("real.yaml"));
        fs::write(&real, "mode: ask\n").unwrap();
        fs::remove_file(&path).unwrap();
        symlink(&real, &path).unwrap();
        assert_eq!(written.at(0), "mode: ask\n");
        fs::write(&real, "mode: code\n").unwrap();
        assert_eq!(written.at(0), "mode: code\n");
    }

    #[test]
    fn what_is_no_file_is_read_once() {
        let mut file = SettingsFile::read("/dev/null".into());
        assert_eq!(file.text(), &Ok(Some(String::new())));
        assert!(file.is_stream && !file.refresh(now()));
    }
}
