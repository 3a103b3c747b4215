//! Directories of the user's files, by the XDG base directory specification.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The directories of one user. A value, so that tests and the command line can put them anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Directories {
    /// Directory of the files that the user writes: `config.yaml`, `custom-modes.yaml`.
    pub config: PathBuf,
    /// Directory of the files that the server keeps: logs and blobs.
    pub state: PathBuf,
    /// The user's home, for what several programs read: `.roo`, `.agents`. None when it is not known.
    pub home: Option<PathBuf>,
    /// Settings file that the user names in place of `config.yaml` in `config`. Absolute.
    pub settings_file: Option<PathBuf>,
}

/// Nothing says where the user's files live.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "No directory for the user's {purpose}: neither {variable} nor HOME is an absolute path. Set one of them."
)]
pub struct NoHome {
    /// Purpose of the directory, for messages.
    pub purpose: &'static str,
    /// The variable that names it.
    pub variable: &'static str,
}

impl Directories {
    /// Finds the directories. `lookup` reads an environment variable.
    ///
    /// # Errors
    /// [`NoHome`] when a directory is named neither by its own variable nor by `HOME`.
    pub fn from_environment(lookup: impl Fn(&str) -> Option<OsString>) -> Result<Self, NoHome> {
        // The specification says that a relative path is invalid and must be ignored.
        let absolute = |variable: &str| lookup(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = |purpose, variable, below_home| {
            absolute(variable)
                .or_else(|| absolute("HOME").map(|home| home.join(below_home)))
                .map(|base| base.join("roo-lsp"))
                .ok_or(NoHome { purpose, variable })
        };
        Ok(Self {
            config: base("settings", "XDG_CONFIG_HOME", ".config")?,
            state: base("logs", "XDG_STATE_HOME", ".local/state")?,
            home: absolute("HOME"),
            settings_file: None,
        })
    }

    /// Returns what a workspace folder holds besides a project, if it does: all of the user's home directory, or of the
    /// machine. Both paths are real.
    pub fn too_wide(&self, folder: &Path) -> Option<&'static str> {
        let home = self.home.as_ref().and_then(|home| home.canonicalize().ok());
        if folder == Path::new("/") {
            Some("the whole file system")
        } else if home.as_deref() == Some(folder) {
            Some("all of your home directory")
        } else if home.is_some_and(|home| home.starts_with(folder)) {
            Some("a directory that holds your home directory")
        } else {
            None
        }
    }

    /// The user's settings file; it need not exist.
    pub fn config_file(&self) -> PathBuf {
        self.settings_file.clone().unwrap_or_else(|| self.config.join("config.yaml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_home_directory_and_what_is_above_it_is_no_project() {
        let directory = tempfile::tempdir().unwrap();
        let home = directory.path().canonicalize().unwrap().join("ada");
        std::fs::create_dir_all(home.join("project")).unwrap();
        let directories = Directories {
            config: "/c".into(),
            state: "/s".into(),
            home: Some(home.clone()),
            settings_file: None,
        };
        assert_eq!(directories.too_wide(&home.join("project")), None);
        assert_eq!(directories.too_wide(&home), Some("all of your home directory"));
        let above = directories.too_wide(home.parent().unwrap());
        assert_eq!(above, Some("a directory that holds your home directory"));
        assert_eq!(directories.too_wide(Path::new("/")), Some("the whole file system"));
        assert_eq!(Directories { home: None, ..directories }.too_wide(&home), None);
    }

    fn find(variables: &[(&str, &str)]) -> Result<Directories, NoHome> {
        Directories::from_environment(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_home_directory_is_the_fallback() {
        let found = find(&[("HOME", "/home/ada"), ("XDG_STATE_HOME", "/var/state")]).unwrap();
        assert_eq!(found.config_file(), PathBuf::from("/home/ada/.config/roo-lsp/config.yaml"));
        assert_eq!(found.state, PathBuf::from("/var/state/roo-lsp"));
    }

    #[test]
    fn a_relative_or_empty_path_counts_as_unset() {
        let found = find(&[("HOME", "/h"), ("XDG_CONFIG_HOME", "conf"), ("XDG_STATE_HOME", "")]).unwrap();
        assert_eq!(found.config, PathBuf::from("/h/.config/roo-lsp"));
        assert_eq!(found.state, PathBuf::from("/h/.local/state/roo-lsp"));
    }

    #[test]
    fn without_a_home_the_error_names_what_to_set() {
        let error = find(&[("XDG_CONFIG_HOME", "/c")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "No directory for the user's logs: neither XDG_STATE_HOME nor HOME is an absolute path. \
             Set one of them."
        );
    }
}
