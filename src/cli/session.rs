//! What every subcommand stands on: directories, settings, workspace, engine.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::sync::Arc;

use super::arguments::Common;
use crate::config::{self, Directories, Layer, Loaded, NoHome, Problem, Profile, Settings};
use crate::customization::{Customization, Setup as CustomizationSetup};
use crate::engine::clock::SystemClock;
use crate::engine::{self, Engine};
use crate::exec::sandbox::Helper;
use crate::hooks::Bounds;
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
    /// A settings file was named that isn't there.
    #[error("the settings file {} can't be found: {source}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The workspace folder can't be used.
    #[error("the workspace {} can't be used: {source}", path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why not.
        source: io::Error,
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
            Ok(folder) if folder.is_dir() => folder,
            Ok(path) => {
                return Err(SessionError::Folder { path, source: io::ErrorKind::NotADirectory.into() });
            }
            Err(source) => return Err(SessionError::Folder { path: folder, source }),
        };
        let config_file = match &common.config {
            None => directories.config_file(),
            // The usual file may be missing; one that was asked for may not.
            Some(path) => match path.metadata() {
                Ok(_) => path.clone(),
                Err(source) => return Err(SessionError::Config { path: path.clone(), source }),
            },
        };
        Ok(Self { directories, folder, config_file })
    }

    /// The settings of the file and of the command line. Keys that mean nothing are told on standard error.
    pub(super) fn settings(&self, flags: Option<Layer>) -> Result<Settings, SessionError> {
        let loaded = self.load(flags)?;
        for warning in &loaded.warnings {
            // A note that can't be written changes nothing.
            let _ = writeln!(io::stderr(), "roo-lsp: {warning}");
        }
        Ok(loaded.settings)
    }

    /// The settings of the file and of the command line, with the keys that mean nothing.
    pub(super) fn load(&self, flags: Option<Layer>) -> Result<Loaded, Problem> {
        let file = Layer::read(&self.config_file)?;
        config::load(file.into_iter().chain(flags))
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

    /// What steers the agents of the workspace.
    pub(super) fn customization(&self) -> Result<Arc<Customization>, SessionError> {
        Ok(Arc::new(Customization::open(CustomizationSetup {
            folders: vec![self.folder.clone()],
            directories: self.directories.clone(),
            state_directory: self.state().path().to_owned(),
        })?))
    }

    /// What bounds commands.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds::new(Helper::own(), self.directories.clone(), self.state().path().to_owned())
    }

    /// An engine over the workspace, without an editor.
    pub(super) fn engine(&self, settings: Settings) -> Result<Engine, SessionError> {
        let (workspace, customization) = (self.workspace()?, self.customization()?);
        Ok(Engine::new(engine::Setup {
            settings: Arc::new(settings),
            workspace,
            customization,
            directory: self.state(),
            directories: self.directories.clone(),
            helper: Helper::own(),
            clock: Arc::new(SystemClock),
        }))
    }
}

/// Whether a profile has all that it needs, as far as that can be told without a request.
pub(super) fn check_profile(profile: &Profile) -> Result<(), ModelError> {
    providers::connect(profile, &|name| std::env::var(name).ok()).map(drop)
}
