//! The user's settings file while a program runs: read again where it has changed, and left out of account while it is
//! being saved.

use std::fs;
use std::path::{Path, PathBuf};

use super::{SettingsProblem, read_settings};
use roo_durable::WatchedFile;

/// Text of a settings file, none where there is no file, or what keeps it from being read.
type ReadText = Result<Option<String>, SettingsProblem>;

/// The settings file, as it counts; see [`WatchedFile`].
#[derive(Debug)]
pub struct SettingsFile {
    file: WatchedFile,
    /// A pipe or a device, which can be read once.
    is_stream: bool,
    text: ReadText,
}

impl SettingsFile {
    /// Reads the file; whatever it holds counts.
    pub fn read(path: PathBuf) -> Self {
        let is_stream = fs::metadata(&path).is_ok_and(|found| !found.is_file() && !found.is_dir());
        let mut file = WatchedFile::new(path);
        let text = file.read_whole(read_settings);
        Self { file, is_stream, text }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The text that counts.
    pub fn text(&self) -> &Result<Option<String>, SettingsProblem> {
        &self.text
    }

    /// Returns whether the file may be being saved: then it is to be looked at again in [`roo_durable::SAVING`].
    pub fn is_being_saved(&self) -> bool {
        self.file.is_being_saved()
    }

    /// Reads the file if it may have changed; returns whether another text counts. `now` is in milliseconds since the Unix
    /// epoch. A file that has not changed costs one look at its metadata.
    pub fn refresh(&mut self, now: i64) -> bool {
        if self.is_stream {
            return false;
        }
        let text = self.file.refresh(now, read_settings);
        text.is_some_and(|text| self.take(text))
    }

    /// Reads the file; whatever it holds counts, as nobody saves it now. Returns whether another text counts.
    pub fn refresh_whole(&mut self) -> bool {
        if self.is_stream {
            return false;
        }
        let text = self.file.read_whole(read_settings);
        self.take(text)
    }

    fn take(&mut self, text: ReadText) -> bool {
        let is_other = text != self.text;
        self.text = text;
        is_other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shorter_counts_when_it_was_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("config.yaml");
        let (before, after) = ("mode: code\nautoApprove: { execute: { deny: [[rm]] } }\n", "mode: ask\n");
        fs::write(&path, before).unwrap();
        let mut file = SettingsFile::read(path.clone());
        // The first part of a larger file that begins otherwise.
        fs::write(&path, after).unwrap();
        assert!(!file.refresh(0) && file.is_being_saved());
        assert_eq!(file.text(), &Ok(Some(before.to_owned())));
        assert!(file.refresh(i64::MAX) && !file.is_being_saved());
        assert_eq!(file.text(), &Ok(Some(after.to_owned())));
    }

    #[test]
    fn what_is_no_file_is_read_once() {
        let mut file = SettingsFile::read("/dev/null".into());
        assert_eq!(file.text(), &Ok(Some(String::new())));
        assert!(file.is_stream && !file.refresh(0));
    }
}
