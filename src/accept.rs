//! Connections to a listener of this machine: so many at once, each served by a task of its own.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// The most connections at once; others wait.
const CONNECTIONS: usize = 64;
/// Number of failures in a row after which no more connections are accepted, and the time between two.
const FAILURES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);

/// Serves all connections that come, until it is cancelled. A connection counts for as long as `serve` keeps its place.
///
/// # Errors
/// The last one of the listener when it can't accept connections for a while.
pub(crate) async fn accept<S>(
    listener: &TcpListener,
    cancel: &CancellationToken,
    serve: impl Fn(TcpStream, OwnedSemaphorePermit) -> S,
) -> io::Result<()>
where
    S: Future<Output = ()> + Send + 'static,
{
    let free = Arc::new(Semaphore::new(CONNECTIONS));
    let accepting = async {
        let mut failures = 0;
        loop {
            let place = Arc::clone(&free).acquire_owned().await.map_err(io::Error::other)?;
            match listener.accept().await {
                Ok((stream, _)) => {
                    failures = 0;
                    tokio::spawn(cancel.clone().run_until_cancelled_owned(serve(stream, place)));
                }
                Err(error) if failures >= FAILURES => return Err(error),
                // The client has disconnected, or there is no free file descriptor.
                Err(_) => {
                    failures += 1;
                    tokio::time::sleep(PAUSE).await;
                }
            }
        }
    };
    cancel.run_until_cancelled(accepting).await.unwrap_or(Ok(()))
}
