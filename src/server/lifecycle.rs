//! Beginning and end of the server: standard input and output, signals, the parent process, exit codes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio_util::sync::CancellationToken;

use super::handlers;
use super::intake::{self, IntakeEnd};
use super::services::WorkspaceServices;
use super::session::{ProcessServices, Session};
use super::shared_engines::{EngineSource, Sharing};
use roo_engine::engine::clock::SystemClock;
use roo_formats::config::{Directories, NoHome};

/// Time limit for tasks to stop when the client has gone.
const GRACE: Duration = Duration::from_millis(200);

/// Serves one client on standard input and output until it is done, and returns the exit code: 0 if it
/// said `shutdown` first, else 1. `config` is the settings file, in place of the user's own; `notice` is shown to its user;
/// `told_to_end` resolves when the process is asked to end.
///
/// A read of standard input may still be under way: the process must be ended, not the runtime.
///
/// # Errors
/// [`NoHome`] when there is no place for settings and logs.
pub async fn serve_stdio(
    config: Option<PathBuf>,
    notice: Option<String>,
    told_to_end: impl Future<Output = ()>,
) -> Result<i32, NoHome> {
    let mut directories = Directories::from_environment(|name| std::env::var_os(name))?;
    // Only an empty path can't be made absolute, and there is no file at one.
    directories.settings_file = config.map(|file| std::path::absolute(&file).unwrap_or(file));
    let process = process_services(directories, notice);
    let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
    let session = serve(input, output, process, EngineSource::Own, told_to_end).await;
    if tokio::time::timeout(GRACE, session.stop_tasks()).await.is_err() {
        tracing::warn!("tasks did not stop in time");
    }
    // Each has its own, short time; what does not react is killed.
    session.end_servers().await;
    Ok(exit_code(&session))
}

/// One of several connections of a process.
pub(crate) struct Connection<I, O> {
    pub(crate) input: I,
    pub(crate) output: O,
    /// The user's directories, with the settings file of this connection.
    pub(crate) directories: Directories,
    /// What it shares with the others.
    pub(crate) shared: Sharing,
}

/// Serves one client of several until it is done, and returns the exit code of [`serve_stdio`]. What it started goes on.
pub(crate) async fn serve_connection<I, O>(
    connection: Connection<I, O>,
    told_to_end: impl Future<Output = ()>,
) -> i32
where
    I: AsyncRead + Unpin,
    O: AsyncWrite + Unpin + Send + 'static,
{
    let Connection { input, output, directories, shared } = connection;
    let process = process_services(directories, None);
    let session = serve(input, output, process, EngineSource::Shared(shared), told_to_end).await;
    session.leave();
    exit_code(&session)
}

/// Serves a client that works with the engine of another connection, whose directories these are.
fn serve_guest(
    stream: DuplexStream,
    directories: Directories,
    services: Arc<WorkspaceServices>,
    told_to_end: CancellationToken,
) -> BoxFuture<'static, ()> {
    let (input, output) = tokio::io::split(stream);
    Box::pin(async move {
        let process = process_services(directories, None);
        let source = EngineSource::Lent(services);
        serve(input, output, process, source, told_to_end.cancelled()).await;
    })
}

fn process_services(directories: Directories, notice: Option<String>) -> ProcessServices {
    ProcessServices { directories, clock: Arc::new(SystemClock), notice, serve_guest }
}

fn exit_code(session: &Session) -> i32 {
    i32::from(!session.was_shut_down())
}

/// Serves until the client is done.
async fn serve(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    process: ProcessServices,
    engine_source: EngineSource,
    told_to_end: impl Future<Output = ()>,
) -> Arc<Session> {
    let (service, socket) = handlers::service(process, engine_source);
    let session = Arc::clone(service.session());
    tokio::select! {
        ending = intake::run(input, output, service, socket) => match ending {
            IntakeEnd::Exit => {}
            IntakeEnd::EndOfInput if session.negotiated().is_none() => tracing::warn!(
                "the input ended before a request `initialize`: this is a language server, which an editor starts; see \
                 roo-lsp --help"
            ),
            IntakeEnd::EndOfInput => tracing::info!("the client closed the connection"),
            IntakeEnd::Broken(error) => tracing::warn!(%error, "the connection is broken"),
        },
        () = session.abandoned.cancelled() => tracing::warn!("the process that started the server has ended"),
        () = told_to_end => tracing::info!("ended by a signal"),
    }
    session.ended.cancel();
    session
}
