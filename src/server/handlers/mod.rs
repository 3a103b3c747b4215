//! Requests of the client: one file for each resource of `roo/*`, and here the methods of plain LSP. Each handler is a
//! translation; what is done is done by the engine.

mod approval;
mod changes;
mod checkpoint;
mod command;
mod context;
mod editor;
mod intent;
mod mcp;
mod mode;
mod model;
mod profile;
mod prompt;
mod question;
mod queue;
mod rule;
mod settings;
mod task;
mod trace;
mod tree;
mod trust;

use std::path::PathBuf;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tower_lsp::jsonrpc::{Request, Response, Result};
use tower_lsp::ls_types::{
    DidChangeConfigurationParams, ExecuteCommandParams, InitializeParams, InitializeResult,
    InitializedParams, LSPAny, MessageType, NumberOrString, WorkDoneProgressCancelParams,
};
use tower_lsp::{ClientSocket, ExitedError, LanguageServer, LspService, LspServiceBuilder};
use tower_service::Service;

use super::documents::TextSync;
use super::negotiated::Negotiated;
use super::params::Params;
use super::session::{ProcessServices, Session};
use super::shared_engines::EngineSource;
use super::{
    capabilities, code_actions, commands, config_files, parent_process, progress, startup, task_document,
};
use roo_workspace::{file_uri, path_of};

/// Sent when folders were added to the workspace or removed from it.
const FOLDERS_CHANGED: &str = "workspace/didChangeWorkspaceFolders";

/// The methods of one connection.
pub(super) struct Server {
    pub(super) session: Arc<Session>,
}

macro_rules! methods {
    ($($name:literal => $handler:path,)*) => {
        /// The `roo/*` methods that are served.
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
    "roo/task/fork" => task::fork,
    "roo/task/cancel" => task::cancel,
    "roo/task/resume" => task::resume,
    "roo/task/edit" => task::edit,
    "roo/task/attach" => task::attach,
    "roo/task/detach" => task::detach,
    "roo/task/list" => task::list,
    "roo/task/get" => task::get,
    "roo/task/delete" => task::delete,
    "roo/queue/edit" => queue::edit,
    "roo/queue/delete" => queue::delete,
    "roo/approval/respond" => approval::respond,
    "roo/approval/list" => approval::list,
    "roo/approval/preview" => approval::preview,
    "roo/question/answer" => question::answer,
    "roo/changes/list" => changes::list,
    "roo/changes/undo" => changes::undo,
    "roo/checkpoint/list" => checkpoint::list,
    "roo/checkpoint/diff" => checkpoint::diff,
    "roo/checkpoint/restore" => checkpoint::restore,
    "roo/tree/get" => tree::get,
    "roo/mode/list" => mode::list,
    "roo/mode/switch" => mode::switch,
    "roo/profile/list" => profile::list,
    "roo/profile/select" => profile::select,
    "roo/profile/test" => profile::test,
    "roo/profile/save" => profile::save,
    "roo/profile/delete" => profile::delete,
    "roo/model/list" => model::list,
    "roo/command/list" => command::list,
    "roo/prompt/complete" => prompt::complete,
    "roo/context/get" => context::get,
    "roo/context/condense" => context::condense,
    "roo/context/restore" => context::restore,
    "roo/command/background" => command::background,
    "roo/command/stop" => command::stop,
    "roo/trust/get" => trust::get,
    "roo/trust/grant" => trust::grant,
    "roo/trust/revoke" => trust::revoke,
    "roo/intent/list" => intent::list,
    "roo/intent/select" => intent::select,
    "roo/intent/create" => intent::create,
    "roo/intent/update" => intent::update,
    "roo/intent/expand" => intent::expand,
    "roo/rule/list" => rule::list,
    "roo/rule/revoke" => rule::revoke,
    "roo/trace/query" => trace::query,
    "roo/mcp/list" => mcp::list,
    "roo/mcp/tools" => mcp::tools,
    "roo/mcp/log" => mcp::log,
    "roo/mcp/restart" => mcp::restart,
    "roo/mcp/enable" => mcp::enable,
    "roo/autoApprove/get" => settings::auto_approve,
    "roo/options/didChange" => settings::options_did_change,
    "roo/editor/didChange" => editor::did_change,
    "roo/editor/diagnostics" => editor::diagnostics,
}

/// The service for one client, and its other end.
pub(super) fn service(process: ProcessServices, engine_source: EngineSource) -> (Methods, ClientSocket) {
    let builder = LspService::build(|client| Server {
        session: Arc::new(Session::new(client, process, engine_source, startup::begin)),
    });
    let builder = register(builder).custom_method("window/workDoneProgress/cancel", progress_cancel);
    let (others, socket) = builder.finish();
    (Methods { others }, socket)
}

/// All methods. What names a document or a folder is read here before the LSP crate can refuse its URI.
pub(super) struct Methods {
    others: LspService<Server>,
}

impl Methods {
    pub(super) fn session(&self) -> &Arc<Session> {
        &self.others.inner().session
    }
}

impl Service<Request> for Methods {
    type Response = Option<Response>;
    type Error = ExitedError;
    type Future = BoxFuture<'static, std::result::Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), Self::Error>> {
        self.others.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let request = match self.session().is_open() {
            true => match task_document::answer(self.session(), request) {
                Ok(answer) => return answer,
                Err(request) => request,
            },
            false => request,
        };
        match request.method() {
            method if request.id().is_none() && TextSync::METHODS.contains(&method) => {
                let session = Arc::clone(self.session());
                async move {
                    let (method, _, params) = request.into_parts();
                    text_sync(&session, &method, params.unwrap_or_default());
                    Ok(None)
                }
                .boxed()
            }
            config_files::WATCHED_FILES if self.session().is_open() => {
                let session = Arc::clone(self.session());
                async move {
                    config_files::changed_on_disk(&session, &request.into_parts().2.unwrap_or_default());
                    Ok(None)
                }
                .boxed()
            }
            FOLDERS_CHANGED if request.id().is_none() && self.session().is_open() => {
                let session = Arc::clone(self.session());
                async move {
                    folders_changed(&session, &request.into_parts().2.unwrap_or_default()).await;
                    Ok(None)
                }
                .boxed()
            }
            "textDocument/completion" | "textDocument/hover" if self.session().is_open() => {
                config_files::answer(self.session(), request)
            }
            "textDocument/codeAction" if self.session().is_open() => {
                code_actions::answer(self.session(), request)
            }
            "initialize" => self.others.call(with_encoded_folders(request)),
            _ => self.others.call(request),
        }
    }
}

/// Encodes what stands raw in the URIs of `initialize`. They name folders and are never sent back.
fn with_encoded_folders(request: Request) -> Request {
    let encode = |uri: &mut Value| {
        if let Some(path) = uri.as_str().and_then(path_of) {
            *uri = file_uri(&path).into();
        }
    };
    let (method, id, params) = request.into_parts();
    let mut params = params.unwrap_or_default();
    params.get_mut("rootUri").into_iter().for_each(encode);
    let folders = params.get_mut("workspaceFolders").and_then(Value::as_array_mut);
    folders.into_iter().flatten().filter_map(|folder| folder.get_mut("uri")).for_each(encode);
    let request = Request::build(method).params(params);
    match id {
        Some(id) => request.id(id).finish(),
        None => request.finish(),
    }
}

/// The user pressed cancel where the progress of a task, or of a command in the background, is shown.
async fn progress_cancel(server: &Server, params: WorkDoneProgressCancelParams) {
    let NumberOrString::String(token) = params.token else { return };
    let Some((task, command)) = progress::cancelled_by(&token) else { return };
    let session = Arc::clone(&server.session);
    server.session.spawn(async move {
        let Ok(services) = session.services().await else { return };
        let outcome = match command {
            Some(command) => services.engine.stop_command(&task, command).await,
            None => services.engine.cancel(&task).await,
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "a task or command can't be cancelled");
        }
    });
}

/// The workspace has other folders. Agents work in those of the start: their tasks, rules and trust belong to these.
async fn folders_changed(session: &Session, params: &Value) {
    let Some(negotiated) = session.negotiated() else { return };
    let named = |key: &str| -> Vec<PathBuf> {
        let folders = params["event"][key].as_array().into_iter().flatten();
        folders.filter_map(|folder| path_of(folder["uri"].as_str()?)).collect()
    };
    let is_within = |path: &PathBuf| negotiated.folders.iter().any(|folder| path.starts_with(folder));
    let is_other = named("added").iter().any(|path| !is_within(path))
        || named("removed").iter().any(|path| negotiated.folders.contains(path));
    if is_other {
        let message =
            "agents work in the folders with which the server was started; restart it for the changed ones";
        session.tell(MessageType::WARNING, message).await;
    }
}

/// Applies what the editor says of its documents, between `initialize` and `shutdown`.
fn text_sync(session: &Arc<Session>, method: &str, params: Value) {
    let Some(negotiated) = session.negotiated().filter(|_| session.is_open()) else { return };
    let Some(read) = TextSync::read(method, params) else { return };
    let outcome = read.and_then(|sync| {
        let concerned = config_files::concerned(session, &sync);
        task_document::follow(session, &sync);
        sync.apply(&session.documents, negotiated.encoding).map_err(|error| error.to_string())?;
        if let Some(concerned) = concerned {
            config_files::follow(session, concerned);
        }
        Ok(())
    });
    if let Err(error) = outcome {
        tracing::warn!("{method}: {error}");
    }
}

impl LanguageServer for Server {
    async fn initialize(&self, params: InitializeParams) -> Result<InitializeResult> {
        let negotiated = self.session.settle(Negotiated::new(params));
        if let Some(parent) = negotiated.parent {
            let abandoned = self.session.abandoned.clone();
            self.session.spawn(async move {
                parent_process::process_ends(parent).await;
                abandoned.cancel();
            });
        }
        Ok(capabilities::answer(negotiated))
    }

    async fn initialized(&self, _: InitializedParams) {
        let session = Arc::clone(&self.session);
        self.session.spawn(async move {
            if let Err(error) = session.services().await
                && !session.ended.is_cancelled()
            {
                tracing::error!(%error, "there is no engine");
                session.tell(MessageType::ERROR, &error.message).await;
            }
        });
    }

    async fn shutdown(&self) -> Result<()> {
        self.session.shut_down().await;
        Ok(())
    }

    /// Clients send this whether or not it is asked for, some with nothing in it.
    async fn did_change_configuration(&self, params: DidChangeConfigurationParams) {
        self.session.configuration_changed(params.settings).await;
    }

    async fn execute_command(&self, params: ExecuteCommandParams) -> Result<Option<LSPAny>> {
        commands::execute(&self.session, params).await.map(Some)
    }
}

#[cfg(test)]
mod tests;
