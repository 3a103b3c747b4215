//! Copying in both directions of a tunnel.

use std::io;

use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};

/// Size of the buffer of each direction. Nothing more is read while it is full, so that a slow reader slows the writer.
const BUFFER: usize = 64 * 1024;

/// Copies between two streams until both directions have ended. The end of one direction is passed on.
pub(super) async fn splice<A, B>(mut one: A, mut other: B) -> io::Result<()>
where
    A: AsyncRead + AsyncWrite + Unpin,
    B: AsyncRead + AsyncWrite + Unpin,
{
    copy_bidirectional_with_sizes(&mut one, &mut other, BUFFER, BUFFER).await.map(|_| ())
}
