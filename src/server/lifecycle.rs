//! Beginning and end of the server: standard input and output, signals, the parent process, exit codes.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};

use super::handlers;
use super::intake::{self, IntakeEnd};
use super::session::ProcessServices;
use roo_engine::engine::clock::SystemClock;
use roo_formats::config::{Directories, NoHome};

/// Time limit for tasks to stop when the client has gone.
const GRACE: Duration = Duration::from_millis(200);

/// Serves one client on standard input and output until it is done, and returns the exit code: 0 if it
/// said `shutdown` first, else 1. `config` is the settings file, in place of the user's own.
///
/// A read of standard input may still be under way: the process must be ended, not the runtime.
///
/// # Errors
/// [`NoHome`] when there is no place for settings and logs.
pub async fn serve_stdio(config: Option<PathBuf>) -> Result<i32, NoHome> {
    let mut directories = Directories::from_environment(|name| std::env::var_os(name))?;
    // Only an empty path can't be made absolute, and there is no file at one.
    directories.settings_file = config.map(|file| std::path::absolute(&file).unwrap_or(file));
    let process = ProcessServices { settings_edits: Arc::default(), directories, clock: Arc::new(SystemClock) };
    Ok(serve(tokio::io::stdin(), tokio::io::stdout(), process).await)
}

async fn serve(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    process: ProcessServices,
) -> i32 {
    let (service, socket) = handlers::service(process);
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
        () = signalled() => tracing::info!("ended by a signal"),
    }
    session.ended.cancel();
    if tokio::time::timeout(GRACE, session.stop_tasks()).await.is_err() {
        tracing::warn!("tasks did not stop in time");
    }
    // Each has its own, short time; what is deaf is killed.
    session.end_servers().await;
    i32::from(!session.was_shut_down())
}

/// Resolves when the process is asked to end.
#[cfg(unix)]
async fn signalled() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

#[cfg(not(unix))]
async fn signalled() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending().await
    }
}

/// Resolves when this process has ended; never for one that can't be seen from here, as from within a
/// container: the end of the input tells then.
#[cfg(target_os = "linux")]
#[expect(deprecated, reason = "its replacement is unsafe, for other types than an owned handle")]
pub(super) async fn process_ends(process: u32) {
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;
    let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return std::future::pending().await;
    };
    let watched = pidfd_open(process, PidfdFlags::NONBLOCK)
        .map_err(std::io::Error::from)
        .and_then(|handle| AsyncFd::with_interest(handle, Interest::READABLE));
    match watched {
        Ok(handle) => {
            if let Err(error) = handle.readable().await {
                tracing::warn!(%error, "the parent process can't be watched");
                std::future::pending().await
            }
        }
        Err(error) => {
            tracing::info!(%error, "the parent process can't be watched");
            std::future::pending().await
        }
    }
}

/// As on Linux. Other systems have no handle that can be waited for, so this looks now and then.
#[cfg(all(unix, not(target_os = "linux")))]
pub(super) async fn process_ends(process: u32) {
    use rustix::process::{Pid, test_kill_process};
    let Some(process) = i32::try_from(process).ok().and_then(Pid::from_raw) else {
        return std::future::pending().await;
    };
    if test_kill_process(process) == Err(rustix::io::Errno::SRCH) {
        return std::future::pending().await;
    }
    let mut look = tokio::time::interval(Duration::from_secs(5));
    while test_kill_process(process) != Err(rustix::io::Errno::SRCH) {
        look.tick().await;
    }
}

/// The end of the input tells.
#[cfg(not(unix))]
pub(super) async fn process_ends(_: u32) {
    std::future::pending().await
}
