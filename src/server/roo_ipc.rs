//! Roo Code's IPC beside the editor: the socket at which programs of the user drive the requests that the editor shows.
//!
//! There is one only where the environment or the user's settings name it. What is said there is no business of this module:
//! [`crate::ipc`] serves it, on the engine of the workspace, for as long as that lives.

use std::path::PathBuf;
use std::sync::Arc;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::ipc::{IpcSocket, Setup, SocketError, WhenAsked, reachable, serve, socket_path};
use roo_engine::customization::Customization;
use roo_engine::engine::Engine;
use roo_formats::config::Settings;

/// The socket of a workspace, or why there is none. It is removed when this is dropped.
pub(super) struct RooIpc {
    /// Why programs can't connect though a socket is named, for the user.
    pub(super) problem: Option<String>,
    end: CancellationToken,
    serving: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

impl RooIpc {
    /// Serves the socket that is named, if one is, for a workspace that has a folder.
    pub(super) async fn open(
        folders: Vec<PathBuf>,
        settings: Arc<Settings>,
        engine: &Arc<Engine>,
        customization: &Arc<Customization>,
    ) -> Self {
        let mut opened = Self { problem: None, end: CancellationToken::new(), serving: Default::default() };
        let Some(folder) = folders.first().cloned() else { return opened };
        let bind = move || {
            let Some(path) = socket_path(&settings)? else { return Ok(None) };
            IpcSocket::bind(&path, &reachable(&folders, &settings)).map(Some)
        };
        // While the process ends nobody is served.
        match tokio::task::spawn_blocking(bind).await.unwrap_or(Ok(None)) {
            Ok(None) => {}
            Ok(Some(socket)) => {
                tracing::info!(socket = %socket.path().display(), "serving Roo Code's IPC");
                let (engine, customization) = (Arc::clone(engine), Arc::clone(customization));
                let setup = Setup { engine, customization, folder, when_asked: WhenAsked::Editor };
                let end = opened.end.clone();
                let served = tokio::spawn(async move { serve(socket, setup, end.cancelled()).await });
                opened.serving = tokio::sync::Mutex::new(Some(served));
            }
            Err(error) => opened.problem = Some(in_words(&error)),
        }
        opened
    }

    /// Serves nobody any more, and removes the socket. The requests stay as they are.
    pub(super) async fn end(&self) {
        self.end.cancel();
        if let Some(serving) = self.serving.lock().await.take() {
            // It can't panic, and nobody aborts it.
            let _ = serving.await;
        }
    }
}

impl Drop for RooIpc {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

fn in_words(error: &SocketError) -> String {
    format!("programs can't connect over Roo Code's IPC: {error}")
}
