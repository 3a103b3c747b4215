//! `roo-lsp mcp serve`: the tasks of a workspace for agents of other programs, by the Model Context Protocol. Every effect of
//! a task goes through the same gate as with any other front end, and what has to be approved is approved by the user alone.

mod elicitation;
mod error;
mod http;
mod progress;
mod reading;
mod requests;
mod status;
mod tools;

use std::env::VarError;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::http::Token;
use self::requests::Requests;
use self::tools::RooServer;
use crate::cli::arguments::McpServe;
use crate::cli::session::SessionContext;
use crate::cli::signals::{Signal, Signals};
use crate::cli::{CliError, Ending, run, terminal};
use roo_formats::config::Layer;

/// The variable with the token of clients over HTTP.
const TOKEN: &str = "ROO_LSP_MCP_TOKEN";
/// The shortest token that is taken from the environment, in bytes.
const MIN_TOKEN_BYTES: usize = 16;

/// Serves until the client goes, or until a signal. `is_named`: whether the user has named the workspace.
pub(super) async fn serve(
    context: SessionContext,
    is_named: bool,
    serve: McpServe,
) -> Result<Ending, CliError> {
    context.refuse_wide_folder(is_named, "mcp serve")?;
    let listener = match serve.http {
        Some(address) => Some(listen(address).await?),
        None => None,
    };
    let mut signals = Signals::listen()?;
    let settings = context.live_settings(Layer::from_command_line(run::allowed(&serve.allow)))?;
    let (engine, customization) = (context.engine(Arc::clone(&settings) as _)?, context.customization()?);
    let requests = Requests::new(engine, context, settings, customization, serve.on_ask);
    let server = RooServer::new(Arc::clone(&requests), serve.elicit_questions);
    let cancel = CancellationToken::new();
    let served = async {
        match listener {
            Some(listener) => over_http(listener, server, cancel.clone()).await,
            None => over_stdio(server).await,
        }
    };
    let ending = tokio::select! {
        served = served => served.map(|()| Ending::Done),
        signal = signals.next() => Ok(match signal {
            Signal::Interrupt => Ending::Interrupted,
            Signal::Terminate => Ending::Terminated,
        }),
    };
    cancel.cancel();
    requests.engine.shutdown().await;
    requests.engine.end_servers().await;
    ending
}

async fn over_stdio(server: RooServer) -> Result<(), CliError> {
    if io::stdin().is_terminal() {
        // Whoever typed it to see what it is would wait in vain.
        writeln!(
            terminal::stderr(),
            "roo-lsp: this is an MCP server for other programs; roo-lsp mcp serve --help says more"
        )?;
    }
    let failed =
        |error: &dyn std::fmt::Display| CliError::Other(format!("the MCP client can't be served: {error}"));
    match server.serve((tokio::io::stdin(), tokio::io::stdout())).await {
        Ok(running) => running.waiting().await.map(drop).map_err(|error| failed(&error)),
        // It went before it wanted anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => Ok(()),
        Err(error) => Err(failed(&error)),
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, CliError> {
    if !address.ip().is_loopback() {
        return Err(CliError::Usage(format!(
            "{address} can be reached from other machines; name a loopback address, such as 127.0.0.1:7466"
        )));
    }
    let listener = TcpListener::bind(address).await;
    listener.map_err(|error| CliError::Other(format!("can't listen at {address}: {error}")))
}

async fn over_http(
    listener: TcpListener,
    server: RooServer,
    cancel: CancellationToken,
) -> Result<(), CliError> {
    let address = listener.local_addr().map_err(|error| CliError::Other(error.to_string()))?;
    let token = match std::env::var(TOKEN) {
        Ok(token) if token.len() < MIN_TOKEN_BYTES => {
            return Err(CliError::Usage(format!("{TOKEN} is shorter than {MIN_TOKEN_BYTES} bytes")));
        }
        Ok(token) if token.bytes().all(|byte| byte.is_ascii_graphic()) => token,
        Ok(_) | Err(VarError::NotUnicode(_)) => {
            return Err(CliError::Usage(format!("{TOKEN} is not made of visible ASCII characters alone")));
        }
        Err(VarError::NotPresent) => {
            let token = format!("{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
            writeln!(terminal::stderr(), "roo-lsp: clients send the header Authorization: Bearer {token}")?;
            token
        }
    };
    writeln!(terminal::stderr(), "roo-lsp: serving MCP at http://{address}{}", http::PATH)?;
    let served = http::serve(listener, Token::new(&token), server, cancel).await;
    served.map_err(|error| CliError::Other(format!("connections can't be accepted any more: {error}")))
}
