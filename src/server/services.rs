//! Services that a connection works with: those of its process, and those of its workspace.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use tokio::io::DuplexStream;
use tokio_util::sync::CancellationToken;
use tower_lsp::jsonrpc::Error;

use super::failure;
use super::provenance::Provenance;
use super::roo_ipc::RooIpc;
use crate::live_settings::LiveSettings;
use crate::mcp::McpServers;
use crate::workspace_engine::workspace_engine;
use crate::workspace_parts::WorkspaceParts;
use roo_durable::WorkspaceDirectory;
use roo_engine::customization::{Customization, Setup as CustomizationSetup};
use roo_engine::engine::Engine;
use roo_engine::engine::clock::Clock;
use roo_formats::config::Directories;
use roo_protocol::error::ErrorKind;
use roo_text::position::Encoding;
use roo_workspace::{Documents, Editor, RootError, Setup as WorkspaceSetup, Workspace};

/// Services of the process for a connection.
pub(super) struct ProcessServices {
    /// The user's directories, with the settings file.
    pub(super) directories: Directories,
    /// Time and randomness.
    pub(super) clock: Arc<dyn Clock>,
    /// Told to the user once the client has introduced itself.
    pub(super) notice: Option<String>,
    /// Serves a client that works with the engine of this connection.
    pub(super) serve_guest: ServeGuest,
}

/// Serves a client at the other end of a stream with the engine of another connection, until it or that connection, which this
/// cancels, is done.
pub(super) type ServeGuest =
    fn(DuplexStream, Directories, Arc<WorkspaceServices>, CancellationToken) -> BoxFuture<'static, ()>;

/// The engine, what steers its agents, the servers whose tools they call, and where its logs are.
pub(super) struct WorkspaceServices {
    pub(super) engine: Arc<Engine>,
    pub(super) settings: Arc<LiveSettings>,
    pub(super) customization: Arc<Customization>,
    pub(super) directory: WorkspaceDirectory,
    pub(super) provenance: Provenance,
    pub(super) mcp: Arc<McpServers>,
    /// Programs that drive its requests.
    pub(super) ipc: RooIpc,
}

/// What the services of a workspace are opened with.
pub(super) struct WorkspaceOpening {
    /// Real places of folders that can be used.
    pub(super) folders: Vec<PathBuf>,
    pub(super) directories: Directories,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) settings: Arc<LiveSettings>,
    pub(super) documents: Arc<Documents>,
    /// None where editors are attached to the documents.
    pub(super) editor: Option<Arc<dyn Editor>>,
    pub(super) encoding: Encoding,
}

impl WorkspaceServices {
    /// Opens the workspace and the place of its logs, and builds its engine.
    ///
    /// # Errors
    /// When a folder can't be used after all, or the process ends.
    pub(super) async fn open(opening: WorkspaceOpening) -> Result<Arc<Self>, Error> {
        let WorkspaceOpening { folders, directories, clock, settings, documents, editor, encoding } = opening;
        let all_folders = folders.clone();
        let opened = tokio::task::spawn_blocking({
            let directories = directories.clone();
            move || {
                let (customization, directory) = open_customization(folders.clone(), directories)?;
                let workspace = Workspace::open(WorkspaceSetup {
                    folders,
                    state_directory: directory.path().to_owned(),
                    documents,
                    editor,
                    encoding,
                })?;
                Ok((workspace, customization, directory))
            }
        });
        let opened = opened.await.map_err(|_| Error::internal_error())?;
        let (workspace, customization, directory) = opened.map_err(|error: RootError| {
            failure(ErrorKind::Configuration, error.to_string(), None, "Open another folder.")
        })?;
        let customization = Arc::new(customization);
        let parts = WorkspaceParts {
            settings: Arc::<LiveSettings>::clone(&settings),
            workspace: Arc::new(workspace),
            customization: Arc::clone(&customization),
            directory: directory.clone(),
            directories,
        };
        let mcp = Arc::new(McpServers::new(parts.clone()));
        // Long before a request needs their tools.
        mcp.refresh_apart().await;
        let servers = Arc::clone(&mcp);
        let built = tokio::task::spawn_blocking(move || workspace_engine(parts, clock, servers));
        let engine = Arc::new(built.await.map_err(|_| Error::internal_error())?);
        let ipc =
            RooIpc::open(all_folders, Arc::clone(&settings.newest().settings), &engine, &customization).await;
        let provenance = Provenance::default();
        Ok(Arc::new(Self { engine, settings, customization, directory, provenance, mcp, ipc }))
    }

    /// Stops all requests, leaving them to be resumed. No program may start or steer one before.
    pub(super) async fn stop_requests(&self) {
        self.ipc.end().await;
        self.engine.shutdown().await;
    }
}

/// What steers the agents of these folders, and where their logs are.
///
/// # Errors
/// When a folder can't be used.
pub(super) fn open_customization(
    folders: Vec<PathBuf>,
    directories: Directories,
) -> Result<(Customization, WorkspaceDirectory), RootError> {
    // Without a folder, all such connections share one place for their logs.
    let root = folders.first().cloned().unwrap_or_default();
    let directory = WorkspaceDirectory::new(&directories.state, &root);
    let state_directory = directory.path().to_owned();
    let customization = Customization::open(CustomizationSetup { folders, directories, state_directory })?;
    Ok((customization, directory))
}
