//! What the client asks: one file for each resource of `roo/*`, and here the methods of plain LSP. Each
//! handler is a translation; what is done is done by the engine.

mod approval;
mod question;
mod queue;
mod task;

use std::path::Path;
use std::sync::Arc;

use serde::de::{Deserialize, Deserializer, Error as _};
use tower_lsp::jsonrpc::Result;
use tower_lsp::ls_types::{
    DidChangeConfigurationParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DidSaveTextDocumentParams, ExecuteCommandParams, InitializeParams,
    InitializeResult, InitializedParams, LSPAny, NumberOrString, WorkDoneProgressCancelParams,
};
use tower_lsp::{ClientSocket, LanguageServer, LspService, LspServiceBuilder};

use super::capabilities::Negotiated;
use super::configuration::Configured;
use super::session::{Session, Surroundings};
use super::{commands, documents, lifecycle, progress};
use crate::text::position::Encoding;
use crate::workspace::path_of;

/// The methods of one connection.
pub(super) struct Server {
    pub(super) session: Arc<Session>,
}

/// Parameters of ours: an error names the field.
struct Params<T>(T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Params<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        serde_path_to_error::deserialize(deserializer)
            .map(Self)
            .map_err(|error| D::Error::custom(in_words(&error)))
    }
}

/// What is wrong with parameters, and where.
pub(super) fn in_words(error: &serde_path_to_error::Error<impl std::fmt::Display>) -> String {
    match error.path().to_string().as_str() {
        "." => error.inner().to_string(),
        path => format!("{path}: {}", error.inner()),
    }
}

macro_rules! methods {
    ($($name:literal => $handler:path,)*) => {
        /// The `roo/*` requests that are served.
        #[cfg(test)]
        const NAMES: &[&str] = &[$($name),*];

        fn register(builder: LspServiceBuilder<Server>) -> LspServiceBuilder<Server> {
            builder$(.custom_method($name, $handler))*
        }
    };
}

methods! {
    "roo/task/start" => task::start,
    "roo/task/send" => task::send,
    "roo/task/cancel" => task::cancel,
    "roo/task/resume" => task::resume,
    "roo/task/attach" => task::attach,
    "roo/task/detach" => task::detach,
    "roo/task/list" => task::list,
    "roo/task/get" => task::get,
    "roo/task/delete" => task::delete,
    "roo/queue/edit" => queue::edit,
    "roo/queue/delete" => queue::delete,
    "roo/approval/respond" => approval::respond,
    "roo/question/answer" => question::answer,
}

/// The service for one client, and its other end.
pub(super) fn service(surroundings: Surroundings) -> (LspService<Server>, ClientSocket) {
    let builder =
        LspService::build(|client| Server { session: Arc::new(Session::new(client, surroundings)) });
    register(builder).custom_method("window/workDoneProgress/cancel", progress_cancel).finish()
}

/// The user pressed cancel where the progress of a task is shown.
async fn progress_cancel(server: &Server, params: WorkDoneProgressCancelParams) {
    let NumberOrString::String(token) = params.token else { return };
    let Some(task) = progress::task_of(&token) else { return };
    let session = Arc::clone(&server.session);
    server.session.spawn(async move {
        if let Ok(house) = session.house().await
            && let Err(error) = house.engine.cancel(&task).await
        {
            tracing::warn!(%error, "a task can't be cancelled");
        }
    });
}

impl Server {
    fn encoding(&self) -> Encoding {
        self.session.negotiated().map(|negotiated| negotiated.encoding).unwrap_or_default()
    }
}

impl LanguageServer for Server {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        let negotiated = self.session.settle(Negotiated::new(params));
        if let Some(parent) = negotiated.parent {
            let abandoned = self.session.abandoned.clone();
            self.session.spawn(async move {
                lifecycle::process_ends(parent).await;
                abandoned.cancel();
            });
        }
        Ok(negotiated.answer())
    }

    async fn initialized(&self, _: InitializedParams) {
        let session = Arc::clone(&self.session);
        self.session.spawn(async move {
            if let Err(error) = session.house().await
                && !session.ended.is_cancelled()
            {
                tracing::error!(%error, "there is no engine");
                commands::tell_failure(&session, &error).await;
            }
        });
    }

    async fn shutdown(&self) -> Result<()> {
        self.session.shut_down().await;
        Ok(())
    }

    async fn did_open(&self, params: DidOpenTextDocumentParams) {
        documents::open(&self.session.documents, params);
    }

    async fn did_change(&self, params: DidChangeTextDocumentParams) {
        if let Err(error) = documents::change(&self.session.documents, params, self.encoding()) {
            tracing::warn!("didChange: {error}");
        }
    }

    async fn did_save(&self, params: DidSaveTextDocumentParams) {
        if let Err(error) = documents::save(&self.session.documents, &params) {
            tracing::warn!("didSave: {error}");
        }
        if path_of(params.text_document.uri.as_str()).as_deref() == Some(self.config_file()) {
            self.check_config_file();
        }
    }

    async fn did_close(&self, params: DidCloseTextDocumentParams) {
        if let Err(error) = documents::close(&self.session.documents, &params) {
            tracing::warn!("didClose: {error}");
        }
    }

    /// Settings count from the start of the server; clients send this whether or not it is asked for.
    async fn did_change_configuration(&self, _: DidChangeConfigurationParams) {}

    async fn execute_command(&self, params: ExecuteCommandParams) -> Result<Option<LSPAny>> {
        commands::execute(&self.session, params).await.map(Some)
    }
}

impl Server {
    fn config_file(&self) -> &Path {
        &self.session.surroundings.config_file
    }

    /// Shows what is wrong with the file now. The settings in force stay until the next start.
    fn check_config_file(&self) {
        let session = Arc::clone(&self.session);
        self.session.spawn(async move {
            let Some(negotiated) = session.negotiated() else { return };
            let (file, options) = (session.surroundings.config_file.clone(), negotiated.options.clone());
            let load = tokio::task::spawn_blocking(move || Configured::load(&file, &options));
            if let Ok(configured) = load.await {
                configured.report(&session.client, &session.surroundings.config_file).await;
            }
        });
    }
}

#[cfg(test)]
mod tests;
