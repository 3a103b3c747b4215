//! Workspaces of a connection: each with one engine, which all sessions of its folders share.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::Error;
use roo_durable::WorkspaceDirectory;
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::clock::{Clock, SystemClock};
use roo_engine::engine::{Engine, EngineError};
use roo_formats::config::{Directories, Profile};
use roo_model::providers::{self, ModelError};
use roo_protocol::ids::TaskId;
use roo_text::position::Encoding;
use roo_text::render::exact_line;
use roo_workspace::{Documents, Editor, RootError, Setup as WorkspaceSetup, UnresolvedChange};
use serde_json::Value;

use super::client::Client;
use super::editor::ClientFiles;
use super::error;
use crate::live_settings::LiveSettings;
use crate::masking::Mask;
use crate::mcp::McpServers;
use crate::model_setup::environment;
use crate::shell_word::shell_word;
use crate::workspace_engine::workspace_engine;
use crate::workspace_parts::WorkspaceParts;

/// The engine of some folders, and what steers its agents.
pub(super) struct Workspace {
    pub(super) engine: Engine,
    pub(super) settings: Arc<LiveSettings>,
    pub(super) customization: Arc<Customization>,
    pub(super) mcp: Arc<McpServers>,
    /// The client's files, if it reads and writes them.
    pub(super) files: Option<Arc<ClientFiles>>,
    /// Canonical; not empty.
    pub(super) folders: Vec<PathBuf>,
    /// What an earlier process left half done and nobody could settle, to be told once.
    unresolved: Mutex<Vec<UnresolvedChange>>,
}

impl Workspace {
    /// The folder that sessions work in.
    pub(super) fn folder(&self) -> &Path {
        self.folders.first().map_or(Path::new("/"), PathBuf::as_path)
    }

    /// The folder as a word of a command line.
    pub(super) fn folder_in_shell(&self) -> String {
        shell_word(&self.folder().to_string_lossy())
    }

    /// Takes what its user has to look at, of changes that an earlier process left half done.
    pub(super) fn take_unresolved(&self) -> Vec<UnresolvedChange> {
        std::mem::take(&mut self.unresolved.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Removes a request and all that is kept of it. One that has not ended is cancelled first.
    pub(super) async fn delete(&self, task: &TaskId) -> Result<(), Error> {
        let engine = &self.engine;
        let failed = |error: EngineError| error::from_engine(&error);
        engine.cancel_and_wait(task).await.map_err(failed)?;
        // The protocol has no place to tell of what is kept.
        engine.delete(task).await.map(|_| ()).map_err(failed)
    }

    /// The mask of secrets, as the settings want it now. Reads the disk.
    pub(super) async fn mask(&self) -> Mask {
        let (enabled, folders) = (self.engine.settings().await.redact_secrets, self.folders.clone());
        let read = move || Mask::new(enabled, folders.iter().map(PathBuf::as_path));
        // While the process ends nothing more is told.
        tokio::task::spawn_blocking(read).await.unwrap_or_default()
    }
}

/// Why no request could be made of a model.
#[derive(Debug, thiserror::Error)]
pub(super) enum NoModel {
    #[error("no model is set up: run `roo-lsp setup` in a terminal")]
    NotSetUp,
    #[error(
        "the model profile '{name}' can't be used: {source} Run `roo-lsp setup` in a terminal, or `roo-lsp login`"
    )]
    Unusable { name: String, source: ModelError },
}

/// The workspaces of a connection.
pub(super) struct Workspaces {
    directories: Directories,
    clock: Arc<dyn Clock>,
    open: tokio::sync::Mutex<HashMap<Vec<PathBuf>, Arc<Workspace>>>,
}

impl Workspaces {
    pub(super) fn new(directories: Directories) -> Self {
        Self { directories, clock: Arc::new(SystemClock), open: tokio::sync::Mutex::default() }
    }

    /// The directories of the user.
    pub(super) fn directories(&self) -> &Directories {
        &self.directories
    }

    /// Returns why no request could be made of the default model, as far as that can be told without one. Reads the disk.
    pub(super) fn check_model(&self) -> Result<(), NoModel> {
        let loaded = LiveSettings::load(
            self.directories.config_file(),
            Ok(None),
            &Value::Null,
            Arc::clone(&self.clock),
        );
        let settings = Arc::clone(&loaded.newest().settings);
        let (name, profile): (&str, Option<&Profile>) = settings.profile_of(&settings.mode);
        let profile = profile.ok_or(NoModel::NotSetUp)?;
        let connected = providers::connect(profile, &environment);
        connected.map(drop).map_err(|source| NoModel::Unusable { name: name.to_owned(), source })
    }

    /// The workspace of these folders.
    ///
    /// # Errors
    /// Folders that can't be used.
    pub(super) async fn open(
        &self,
        client: &Client,
        cwd: &Path,
        additional: &[PathBuf],
    ) -> Result<Arc<Workspace>, Error> {
        let (cwd, additional) = (cwd.to_owned(), additional.to_owned());
        let folders = tokio::task::spawn_blocking(move || {
            std::iter::once(&cwd).chain(&additional).map(|folder| real(folder)).collect::<Result<Vec<_>, _>>()
        });
        let folders = folders.await.map_err(|_| error::internal("the server is ending"))??;
        let mut open = self.open.lock().await;
        if let Some(workspace) = open.get(&folders) {
            return Ok(Arc::clone(workspace));
        }
        let mut workspace = self.make(client.clone(), folders.clone()).await?;
        workspace.unresolved = Mutex::new(workspace.engine.workspace().recover().await);
        let workspace = Arc::new(workspace);
        open.insert(folders, Arc::clone(&workspace));
        Ok(workspace)
    }

    /// All that were opened.
    pub(super) async fn all(&self) -> Vec<Arc<Workspace>> {
        self.open.lock().await.values().cloned().collect()
    }

    async fn make(&self, client: Client, folders: Vec<PathBuf>) -> Result<Workspace, Error> {
        let (directories, clock) = (self.directories.clone(), Arc::clone(&self.clock));
        let made = tokio::task::spawn_blocking(move || -> Result<Workspace, RootError> {
            let root = folders.first().cloned().unwrap_or_default();
            let directory = WorkspaceDirectory::new(&directories.state, &root);
            let state_directory = directory.path().to_owned();
            let file = directories.config_file();
            let settings = Arc::new(LiveSettings::load(file, Ok(None), &Value::Null, Arc::clone(&clock)));
            let customization = Arc::new(Customization::open(CustomizationSetup {
                folders: folders.clone(),
                directories: directories.clone(),
                state_directory: state_directory.clone(),
            })?);
            let documents = Arc::new(Documents::default());
            let files = client
                .has_files()
                .then(|| Arc::new(ClientFiles::new(client, Arc::clone(&documents), folders.clone())));
            let workspace = Arc::new(roo_workspace::Workspace::open(WorkspaceSetup {
                folders: folders.clone(),
                state_directory,
                documents,
                editor: files.clone().map(|files| -> Arc<dyn Editor> { files }),
                encoding: Encoding::Utf8,
            })?);
            let parts = WorkspaceParts {
                settings: Arc::<LiveSettings>::clone(&settings),
                workspace,
                customization: Arc::clone(&customization),
                directory,
                directories,
            };
            let mcp = Arc::new(McpServers::new(parts.clone()));
            let engine = workspace_engine(parts, clock, Arc::clone(&mcp));
            let unresolved = Mutex::default();
            Ok(Workspace { engine, settings, customization, mcp, files, folders, unresolved })
        });
        let made = made.await.map_err(|_| error::internal("the server is ending"))?;
        made.map_err(|error| error::invalid(error.to_string()))
    }

    /// Stops all requests, leaving them to be resumed.
    pub(super) async fn stop(&self) {
        let all = self.all().await;
        futures_util::future::join_all(all.iter().map(|workspace| workspace.engine.shutdown())).await;
    }

    /// Ends the servers that were started. To be called behind [`Self::stop`].
    pub(super) async fn end_servers(&self) {
        let all = self.all().await;
        futures_util::future::join_all(all.iter().map(|workspace| workspace.engine.end_servers())).await;
    }
}

/// The real place of a folder.
fn real(folder: &Path) -> Result<PathBuf, Error> {
    let shown = exact_line(&folder.to_string_lossy());
    if !folder.is_absolute() {
        return Err(error::invalid(format!("the folder {shown} is not an absolute path")));
    }
    match folder.canonicalize() {
        // Agents name files by text. A link to it may have a name that is.
        Ok(real) if real.to_str().is_none() => {
            Err(error::invalid(format!("the folder {shown} can't be used: its real path is not UTF-8")))
        }
        Ok(real) if real.is_dir() => Ok(real),
        Ok(_) => Err(error::invalid(format!("{shown} is no directory"))),
        Err(source) => Err(error::invalid(format!("the folder {shown} can't be used: {source}"))),
    }
}
