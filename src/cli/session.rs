//! What every subcommand stands on: directories, settings, workspace, engine.

use std::path::PathBuf;
use std::sync::Arc;

use super::arguments::Common;
use crate::config::{self, Directories, Layer, NoHome, Problem, Profile, Settings};
use crate::engine::Engine;
use crate::engine::clock::SystemClock;
use crate::providers::{self, ModelError};
use crate::store::WorkspaceDirectory;
use crate::text::position::Encoding;
use crate::workspace::{Documents, RootError, Setup, Workspace};

/// Why there can't be a session.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The environment has no place for configuration and state.
    #[error(transparent)]
    NoHome(#[from] NoHome),
    /// The settings are wrong.
    #[error("{0}")]
    Settings(#[from] Problem),
    /// The workspace folder can't be used.
    #[error("the workspace {} can't be used: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The workspace folder can't be opened.
    #[error(transparent)]
    Root(#[from] RootError),
}

/// Where things are, and what the user has set.
pub(super) struct Surroundings {
    pub(super) directories: Directories,
    /// Canonical.
    pub(super) folder: PathBuf,
    pub(super) config_file: PathBuf,
}

impl Surroundings {
    /// From the flags and the process's environment.
    pub(super) fn find(common: &Common) -> Result<Self, SessionError> {
        let directories = Directories::from_environment(|name| std::env::var_os(name))?;
        let folder = common.workspace.clone().unwrap_or_else(|| PathBuf::from("."));
        let folder = match folder.canonicalize() {
            Ok(folder) => folder,
            Err(source) => return Err(SessionError::Folder { path: folder, source }),
        };
        let config_file = common.config.clone().unwrap_or_else(|| directories.config_file());
        Ok(Self { directories, folder, config_file })
    }

    /// The settings of the file and of the command line.
    pub(super) fn settings(&self, flags: Option<Layer>) -> Result<Settings, SessionError> {
        let file = Layer::read(&self.config_file)?;
        let loaded = config::load(file.into_iter().chain(flags))?;
        for warning in &loaded.warnings {
            tracing::warn!("{warning}");
        }
        Ok(loaded.settings)
    }

    /// The state of this workspace.
    pub(super) fn state(&self) -> WorkspaceDirectory {
        WorkspaceDirectory::new(&self.directories.state, &self.folder)
    }

    /// The workspace, without an editor.
    pub(super) fn workspace(&self) -> Result<Arc<Workspace>, SessionError> {
        Ok(Arc::new(Workspace::open(Setup {
            folders: vec![self.folder.clone()],
            state_directory: self.state().path().to_owned(),
            documents: Arc::new(Documents::default()),
            editor: None,
            encoding: Encoding::Utf8,
        })?))
    }

    /// An engine over the workspace, without an editor.
    pub(super) fn engine(&self, settings: Settings) -> Result<Engine, SessionError> {
        let workspace = self.workspace()?;
        Ok(Engine::new(Arc::new(settings), workspace, self.state(), Arc::new(SystemClock)))
    }
}

/// Whether a profile has all that it needs, as far as that can be told without a request.
pub(super) fn check_profile(profile: &Profile) -> Result<(), ModelError> {
    providers::connect(profile, &|name| std::env::var(name).ok()).map(drop)
}
