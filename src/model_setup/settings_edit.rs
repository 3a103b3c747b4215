//! The user's settings file as this program edits it: by one process at a time, and never over what an editor has saved
//! meanwhile.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use serde_json::Value;

use super::WriteError;
use crate::live_settings::Configured;
use roo_durable::disk::{Access, RealDisk};
use roo_durable::private_file::FileLock;
use roo_durable::{PrivateFile, replace_checked};
use roo_formats::config::edit::{self, EditError, ProfileFields};
use roo_formats::config::{Provider, Settings, read_settings};

/// The longest name of a profile, in characters.
const NAME: usize = 64;

/// A settings file, all of which can be used.
pub(crate) struct UsableSettings {
    /// The text of the file; none where there is no file.
    text: Option<String>,
    /// The settings of the file alone.
    pub(crate) settings: Arc<Settings>,
}

impl UsableSettings {
    /// Reads the disk.
    ///
    /// # Errors
    /// [`WriteError::Read`] and [`WriteError::Broken`].
    pub(crate) fn read(file: &Path) -> Result<Self, WriteError> {
        let text = read_settings(file)?;
        let configured = Configured::from_text(file, text.as_deref().unwrap_or_default());
        match configured.errors.first() {
            Some(problem) => Err(WriteError::Broken(problem.to_string())),
            None => Ok(Self { text, settings: configured.settings }),
        }
    }

    /// The text of the file; empty where there is no file.
    pub(crate) fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

/// The settings file while no other process of this program edits it.
pub(crate) struct LockedSettings {
    file: PathBuf,
    _lock: FileLock,
}

impl LockedSettings {
    /// Waits until nobody else edits the file. The lock is a file beside it.
    ///
    /// # Errors
    /// [`WriteError::Disk`].
    pub(crate) fn lock(file: PathBuf) -> Result<Self, WriteError> {
        let lock = PrivateFile::new(&file).lock();
        let lock = lock.map_err(|source| WriteError::Disk { file: file.clone(), source })?;
        Ok(Self { file, _lock: lock })
    }

    /// Reads the disk.
    ///
    /// # Errors
    /// [`WriteError::Read`] and [`WriteError::Broken`].
    pub(crate) fn read(&self) -> Result<UsableSettings, WriteError> {
        UsableSettings::read(&self.file)
    }

    /// Makes an edit of the file as it is, without writing it.
    ///
    /// # Errors
    /// Those of [`Self::edit`] that are known before the file is written.
    pub(crate) fn check(
        &self,
        edit: impl Fn(&UsableSettings) -> Result<String, EditError>,
    ) -> Result<(), WriteError> {
        self.edited(edit).map(drop)
    }

    /// Replaces the text of the file. Editors know nothing of the lock: where one has saved the file after it was read, the
    /// edit is made once more, of what was saved. Returns what the edit was made of.
    ///
    /// # Errors
    /// See [`WriteError`]; the file is then as it was.
    pub(crate) fn edit(
        &self,
        edit: impl Fn(&UsableSettings) -> Result<String, EditError>,
    ) -> Result<UsableSettings, WriteError> {
        match self.try_edit(&edit) {
            Err(WriteError::Saved(_)) => self.try_edit(&edit),
            edited => edited,
        }
    }

    /// What is there, and the text that an edit makes of it.
    fn edited(
        &self,
        edit: impl Fn(&UsableSettings) -> Result<String, EditError>,
    ) -> Result<(UsableSettings, String), WriteError> {
        let before = self.read()?;
        let text = edit(&before).map_err(|error| WriteError::Edit { file: self.file.clone(), error })?;
        Ok((before, text))
    }

    fn try_edit(
        &self,
        edit: impl Fn(&UsableSettings) -> Result<String, EditError>,
    ) -> Result<UsableSettings, WriteError> {
        let (before, text) = self.edited(edit)?;
        // A link, as to a repository of dotfiles, stays one.
        let target = self.file.canonicalize().unwrap_or_else(|_| self.file.clone());
        let was_saved = Cell::new(false);
        let check = || match read_settings(&self.file) {
            Ok(now) if now == before.text => Ok(()),
            _ => {
                was_saved.set(true);
                Err(io::ErrorKind::Interrupted.into())
            }
        };
        let replaced = replace_checked(&RealDisk, &target, text.as_bytes(), Access::Private, check);
        match replaced {
            Ok(()) => Ok(before),
            Err(_) if was_saved.get() => Err(WriteError::Saved(self.file.clone())),
            Err(source) => Err(WriteError::Disk { file: self.file.clone(), source }),
        }
    }
}

/// Name of a profile: one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProfileName(String);

/// The text is no name of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a profile's name is one line of at most {NAME} characters, without spaces around it")]
pub(crate) struct InvalidName;

impl FromStr for ProfileName {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        let is_usable = !name.trim().is_empty()
            && name.trim() == name
            && name.chars().count() <= NAME
            && !name.chars().any(char::is_control);
        is_usable.then(|| Self(name.to_owned())).ok_or(InvalidName)
    }
}

impl ProfileName {
    /// The name of the profile that a settings file means which names none.
    pub(super) fn usual() -> Self {
        Self(Settings::default().profile)
    }

    /// A name after a provider, with a number where there are several.
    pub(super) fn from_provider(provider: Provider, number: Option<u32>) -> Self {
        let name = provider.as_str();
        Self(number.map_or_else(|| name.to_owned(), |number| format!("{name}-{number}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A profile to be written to the settings file.
#[derive(Clone)]
pub(crate) struct ProfileEdit {
    pub(crate) name: ProfileName,
    pub(crate) fields: ProfileFields,
    /// Whether modes without a profile of their own are to work with it.
    pub(crate) is_default: bool,
    /// The profile of that name in the file that the fields are for; none for a new one.
    pub(crate) before: Option<Value>,
}

impl ProfileEdit {
    /// The text of a settings file with the profile.
    ///
    /// # Errors
    /// Those of [`edit::set_profile`], and a profile that is not the one before.
    pub(crate) fn apply(&self, text: &str) -> Result<String, EditError> {
        match (edit::profile(text, self.name.as_str())?, &self.before) {
            (Some(_), None) => Err(EditError::Exists),
            (now, before) if now != *before => Err(EditError::Changed),
            _ => edit::set_profile(text, self.name.as_str(), &self.fields, self.is_default),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Barrier;

    use roo_formats::config::edit::OtherFields;

    use super::*;

    fn profile(name: &str) -> ProfileEdit {
        let named = vec![("provider".to_owned(), "ollama".into()), ("model".to_owned(), name.into())];
        let fields = ProfileFields { named, others: OtherFields::Keep };
        ProfileEdit { name: name.parse().unwrap(), fields, is_default: false, before: None }
    }

    fn add(locked: &LockedSettings, profile: &ProfileEdit) -> Result<UsableSettings, WriteError> {
        locked.edit(|before| profile.apply(before.text()))
    }

    fn names(file: &Path) -> Vec<String> {
        UsableSettings::read(file).unwrap().settings.profiles.keys().cloned().collect()
    }

    #[test]
    fn edits_at_the_same_time_are_all_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        let start = Barrier::new(8);
        std::thread::scope(|threads| {
            for number in 0..8 {
                let (file, start) = (file.clone(), &start);
                threads.spawn(move || {
                    start.wait();
                    let locked = LockedSettings::lock(file).unwrap();
                    add(&locked, &profile(&format!("p{number}"))).unwrap();
                });
            }
        });
        assert_eq!(names(&file), ["p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7"]);
    }

    #[test]
    fn what_an_editor_saves_meanwhile_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        let locked = LockedSettings::lock(file.clone()).unwrap();
        let saves = Cell::new(0);
        // Saves the file each time that it was read, as often as this.
        let add_while_saving = |limit: u32| {
            let before = saves.get();
            locked.edit(|read| {
                if saves.get() - before < limit {
                    saves.set(saves.get() + 1);
                    fs::write(&file, format!("mode: ask\n# saved {} times\n", saves.get())).unwrap();
                }
                profile("new").apply(read.text())
            })
        };
        assert!(matches!(add_while_saving(2), Err(WriteError::Saved(_))));
        assert_eq!(fs::read_to_string(&file).unwrap(), "mode: ask\n# saved 2 times\n");
        add_while_saving(1).unwrap();
        let text = fs::read_to_string(&file).unwrap();
        assert!(text.starts_with("mode: ask\n# saved 3 times\n") && text.contains("model: new"), "{text}");
        let left = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let mut left: Vec<_> = left.collect();
        left.sort();
        assert_eq!(left, ["config.yaml", "config.yaml.lock"]);
    }

    #[test]
    fn a_profile_is_only_written_over_the_one_that_it_was_made_of() {
        let text = "profiles:\n  mine: { provider: openai }\n";
        assert_eq!(profile("mine").apply(text), Err(EditError::Exists));
        let of_another = ProfileEdit { before: Some(serde_json::json!({})), ..profile("mine") };
        assert_eq!(of_another.apply(text), Err(EditError::Changed));
        assert_eq!(of_another.apply(""), Err(EditError::Changed));
    }

    #[test]
    fn a_file_that_can_not_be_used_is_left_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        fs::write(&file, "limits: 3\n").unwrap();
        let locked = LockedSettings::lock(file.clone()).unwrap();
        assert!(matches!(add(&locked, &profile("new")), Err(WriteError::Broken(_))));
        assert_eq!(fs::read_to_string(&file).unwrap(), "limits: 3\n");
    }

    #[test]
    fn a_name_is_one_short_line() {
        for name in ["", " a", "a ", "a\nb", &"x".repeat(65)] {
            assert_eq!(name.parse::<ProfileName>(), Err(InvalidName), "{name:?}");
        }
        assert_eq!("my profile".parse::<ProfileName>().unwrap().as_str(), "my profile");
    }
}
