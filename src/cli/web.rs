//! `roo-lsp web`: the page for a browser, without an editor.

use std::io::Write as _;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::arguments::{Common, Web};
use super::session::SessionContext;
use super::signals::{Signal, Signals};
use super::{CliError, Ending, terminal};
use crate::daemon::relay_stream;
use crate::server::{
    Connection, ConnectionKind, InterruptedRequests, SharedEngines, Sharing, serve_connection,
};
use crate::web::{Connect, WebServer};

/// Serves until a signal.
pub(super) async fn web(common: Common, web: Web) -> Result<Ending, CliError> {
    let context = SessionContext::find(&common)?;
    context.refuse_wide_folder(common.workspace.is_some(), "web")?;
    let mut signals = Signals::listen()?;
    let server = WebServer::bind(web.listen, web.origin.as_ref()).await;
    let server =
        server.map_err(|error| CliError::Usage(format!("can't listen at {}: {error}", web.listen)))?;
    let address = server.page_address().lasting();
    let engines = Arc::new(SharedEngines::new(InterruptedRequests::none()));
    let cancel = CancellationToken::new();
    let folders = vec![context.folder.clone()];
    let connect = match web.daemon {
        true => connect_to_daemon(context),
        false => connect(context, Arc::clone(&engines), cancel.clone()),
    };
    let serving = server.serve(folders, connect, cancel.clone());
    writeln!(
        terminal::stderr(),
        "roo-lsp: open this address in a browser. Whoever has it can start requests here and allow what agents ask."
    )?;
    writeln!(terminal::stdout(), "{address}")?;
    let ending = tokio::select! {
        served = serving => {
            served.map_err(|error| CliError::Other(format!("connections can't be accepted any more: {error}")))?;
            Ending::Done
        }
        signal = signals.next() => match signal {
            Signal::Interrupt => Ending::Interrupted,
            Signal::Terminate => Ending::Terminated,
        },
    };
    cancel.cancel();
    engines.shut_down().await;
    Ok(ending)
}

/// Each page is a client of the language server; all share its engine.
fn connect(context: SessionContext, engines: Arc<SharedEngines>, cancel: CancellationToken) -> Connect {
    let directories = context.directories;
    Arc::new(move |stream| {
        let (input, output) = tokio::io::split(stream);
        let kind = ConnectionKind::Editor;
        let shared = Sharing { engines: Arc::clone(&engines), kind, request: None };
        let connection = Connection { input, output, directories: directories.clone(), shared };
        let ended = cancel.clone().cancelled_owned();
        Box::pin(async move {
            serve_connection(connection, ended).await;
        })
    })
}

/// Each page is a client of the daemon, as an editor with `--daemon` is.
fn connect_to_daemon(context: SessionContext) -> Connect {
    let directories = Arc::new(context.directories);
    Arc::new(move |stream| {
        let directories = Arc::clone(&directories);
        Box::pin(async move {
            let settings_file = directories.settings_file.clone();
            if let Err(error) = relay_stream(&directories, settings_file, stream).await {
                tracing::error!(%error, "a page can't be served by the daemon");
            }
        })
    })
}
