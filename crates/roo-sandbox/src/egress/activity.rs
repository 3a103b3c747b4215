//! Idle detection for the client's side of a connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

/// The time of the last byte of a stream, and the end of its first direction.
#[derive(Clone, Debug)]
pub(super) struct Activity(Arc<ConnectionState>);

#[derive(Debug)]
struct ConnectionState {
    begin: Instant,
    /// Milliseconds from the beginning to the last byte.
    last: AtomicU64,
    half_closed: AtomicBool,
    /// Notified when that happens.
    half_closing: Notify,
}

impl Activity {
    pub(super) fn new() -> Self {
        let (last, half_closed) = (AtomicU64::new(0), AtomicBool::new(false));
        Self(Arc::new(ConnectionState {
            begin: Instant::now(),
            last,
            half_closed,
            half_closing: Notify::new(),
        }))
    }

    /// Waits until nothing has passed for `idle`, or for `half_closed` once one direction has ended.
    pub(super) async fn until_idle(&self, idle: Duration, half_closed: Duration) {
        loop {
            let limit = if self.0.half_closed.load(Ordering::Relaxed) { half_closed } else { idle };
            let last = self.0.begin + Duration::from_millis(self.0.last.load(Ordering::Relaxed));
            if last.elapsed() >= limit {
                return;
            }
            tokio::select! {
                () = sleep_until(last + limit) => {}
                () = self.0.half_closing.notified() => {}
            }
        }
    }

    fn touch(&self) {
        let now = u64::try_from(self.0.begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last.store(now, Ordering::Relaxed);
    }

    fn half_close(&self) {
        self.touch();
        if !self.0.half_closed.swap(true, Ordering::Relaxed) {
            self.0.half_closing.notify_one();
        }
    }
}

/// A stream that records its activity.
#[derive(Debug)]
pub(super) struct ActivityStream<S> {
    inner: S,
    activity: Activity,
}

impl<S> ActivityStream<S> {
    pub(super) fn new(inner: S, activity: Activity) -> Self {
        Self { inner, activity }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for ActivityStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.activity.touch();
        } else if buf.remaining() > 0 {
            self.activity.half_close();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for ActivityStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, bytes))?;
        self.activity.touch();
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.activity.half_close();
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, buffers))?;
        self.activity.touch();
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

    use super::*;

    const IDLE: Duration = Duration::from_secs(600);
    const HALF_CLOSED: Duration = Duration::from_secs(60);

    /// Seconds until a connection is taken for dead that is active now and then.
    async fn lifetime(end: bool, pauses: &[u64]) -> u64 {
        let activity = Activity::new();
        let (mut client, server) = duplex(64);
        let mut server = ActivityStream::new(server, activity.clone());
        let begin = Instant::now();
        let living = async {
            for &pause in pauses {
                tokio::time::sleep(Duration::from_secs(pause)).await;
                client.write_all(b"x").await.unwrap();
                server.read_exact(&mut [0]).await.unwrap();
            }
            if end {
                client.shutdown().await.unwrap();
                assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = living => {}
            () = activity.until_idle(IDLE, HALF_CLOSED) => {}
        }
        begin.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn silence_ends_a_connection_and_sooner_where_one_side_is_done() {
        assert_eq!(lifetime(false, &[]).await, 600);
        assert_eq!(lifetime(false, &[500, 500]).await, 1600);
        assert_eq!(lifetime(true, &[500]).await, 560);
    }
}
