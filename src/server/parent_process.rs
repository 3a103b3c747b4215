//! End of the process that started the server.

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
    let mut look = tokio::time::interval(std::time::Duration::from_secs(5));
    while test_kill_process(process) != Err(rustix::io::Errno::SRCH) {
        look.tick().await;
    }
}

/// The end of the input tells.
#[cfg(not(unix))]
pub(super) async fn process_ends(_: u32) {
    std::future::pending().await
}
