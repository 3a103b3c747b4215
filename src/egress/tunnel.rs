//! Bytes from one end of a tunnel to the other, both ways, until both are done.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};

/// Bytes that are under way in each direction at most. While they are, nothing more is read: a slow end slows
/// the other.
const BUFFER: usize = 64 * 1024;

/// Joins two streams. The end of one direction is passed on, and the other goes on.
pub(super) async fn splice<A, B>(mut one: A, mut other: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    copy_bidirectional_with_sizes(&mut one, &mut other, BUFFER, BUFFER).await.map(|_| ())
}
