//! What a daemon sends to a client that it serves: pieces of a length and bytes, and in the end the exit code of its server.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// Number of bytes of a length.
const HEAD: usize = 4;

/// The bytes of the pieces, one after the other. They end where the exit code comes; that the daemon is gone before is an error.
pub(super) struct Pieces<R> {
    input: R,
    next: Next,
}

/// What comes next.
#[derive(Clone, Copy)]
enum Next {
    /// A length, of which so many bytes were read.
    Head([u8; HEAD], usize),
    /// So many bytes of a piece.
    Body(usize),
    ExitCode,
    /// Nothing: this was the exit code.
    Ended(u8),
}

impl<R> Pieces<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, next: Next::Head([0; HEAD], 0) }
    }

    /// The exit code of the server, once it has come.
    pub(super) fn exit_code(&self) -> Option<u8> {
        match self.next {
            Next::Ended(code) => Some(code),
            _ => None,
        }
    }
}

impl<R: AsyncBufRead + Unpin> AsyncRead for Pieces<R> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if buffer.remaining() == 0 || matches!(this.next, Next::Ended(_)) {
                return Poll::Ready(Ok(()));
            }
            let chunk = ready!(Pin::new(&mut this.input).poll_fill_buf(context))?;
            let Some(first) = chunk.first().copied() else {
                return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into()));
            };
            match &mut this.next {
                Next::Head(bytes, filled) => {
                    if let Some(place) = bytes.get_mut(*filled) {
                        *place = first;
                    }
                    *filled += 1;
                    if *filled == HEAD {
                        this.next = match usize::try_from(u32::from_be_bytes(*bytes)) {
                            Ok(0) => Next::ExitCode,
                            Ok(length) => Next::Body(length),
                            Err(error) => return Poll::Ready(Err(io::Error::other(error))),
                        };
                    }
                    Pin::new(&mut this.input).consume(1);
                }
                Next::Body(left) => {
                    let length = chunk.len().min(*left).min(buffer.remaining());
                    buffer.put_slice(chunk.get(..length).unwrap_or_default());
                    *left -= length;
                    if *left == 0 {
                        this.next = Next::Head([0; HEAD], 0);
                    }
                    Pin::new(&mut this.input).consume(length);
                    return Poll::Ready(Ok(()));
                }
                Next::ExitCode => {
                    this.next = Next::Ended(first);
                    Pin::new(&mut this.input).consume(1);
                }
                Next::Ended(_) => return Poll::Ready(Ok(())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, BufReader};

    use super::*;

    #[tokio::test]
    async fn pieces_are_one_stream_up_to_the_exit_code() {
        let sent = b"\0\0\0\x02ab\0\0\0\x03cde\0\0\0\0\x07";
        for capacity in 1..sent.len() {
            let mut pieces = Pieces::new(BufReader::with_capacity(capacity, &sent[..]));
            let mut text = String::new();
            pieces.read_to_string(&mut text).await.unwrap();
            assert_eq!((text.as_str(), pieces.exit_code()), ("abcde", Some(7)));
        }
    }

    #[tokio::test]
    async fn a_daemon_that_is_gone_before_its_exit_code_is_an_error() {
        let sent = b"\0\0\0\x02ab\0\0\0\0";
        for end in 0..sent.len() {
            let mut pieces = Pieces::new(&sent[..end]);
            let mut bytes = Vec::new();
            assert!(pieces.read_to_end(&mut bytes).await.is_err(), "{end}");
            assert_eq!(pieces.exit_code(), None);
        }
    }
}
