//! Messages on standard input and output: one line each. A line that is too long, or isn't text, is skipped, so that nothing a
//! client sends makes the server lose its place or run out of memory; and it is known how far the client has read.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{Sink, Stream};
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::watch;
use tokio_util::sync::DropGuard;

/// The longest line that is read, in bytes.
const MAX_LINE_BYTES: usize = 64 << 20;
/// What is handed on in place of a line that can't be read: it is answered as what it is, no message.
const UNREADABLE: &str = "(a line that is longer than 64 MiB, or not UTF-8)";
/// The most lines that wait for the client while more are made.
const MAX_WAITING_LINES: u64 = 64;

/// The lines of an input. Blank ones are left out. `over` is dropped at its end.
pub(super) fn incoming(
    input: impl AsyncRead + Send + Unpin + 'static,
    over: DropGuard,
) -> impl Stream<Item = io::Result<String>> + Send {
    let start = (BufReader::new(input), over);
    futures_util::stream::try_unfold(start, |(input, over)| async {
        Ok(next_message(input).await?.map(|(line, input)| (line, (input, over))))
    })
}

/// The next line that is not blank, and the input behind it.
async fn next_message<R: AsyncRead + Send + Unpin>(
    mut input: BufReader<R>,
) -> io::Result<Option<(String, BufReader<R>)>> {
    while let Some(line) = next_line(&mut input).await? {
        match line {
            Ok(line) if line.trim().is_empty() => {}
            Ok(line) => return Ok(Some((line, input))),
            Err(Unreadable) => {
                tracing::warn!("{UNREADABLE} was skipped");
                return Ok(Some((UNREADABLE.to_owned(), input)));
            }
        }
    }
    Ok(None)
}

/// A line that is no text, or too long.
struct Unreadable;

/// The next line without its end; none at the end of the input, also in the middle of a line.
async fn next_line(
    input: &mut (impl AsyncBufRead + Unpin),
) -> io::Result<Option<Result<String, Unreadable>>> {
    let (mut line, mut is_too_long) = (Vec::new(), false);
    loop {
        let read = input.fill_buf().await?;
        if read.is_empty() {
            return Ok(None);
        }
        let end = read.iter().position(|byte| *byte == b'\n');
        let (part, length) = match end {
            Some(end) => (&read[..end], end + 1),
            None => (read, read.len()),
        };
        is_too_long |= line.len() + part.len() > MAX_LINE_BYTES;
        match is_too_long {
            true => line = Vec::new(),
            false => line.extend_from_slice(part),
        }
        input.consume(length);
        if end.is_some() {
            let text =
                if is_too_long { Err(Unreadable) } else { String::from_utf8(line).map_err(|_| Unreadable) };
            return Ok(Some(text));
        }
    }
}

/// Lines on their way to the client.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    queued: AtomicU64,
    written: watch::Sender<u64>,
}

impl Backlog {
    /// Another line is on its way.
    pub(super) fn add(&self) {
        self.queued.fetch_add(1, Ordering::SeqCst);
    }

    /// Waits until the client has read most of what was sent.
    pub(super) async fn drained(&self) {
        let goal = self.queued.load(Ordering::SeqCst).saturating_sub(MAX_WAITING_LINES);
        // The sender is here.
        let _ = self.written.subscribe().wait_for(|written| *written >= goal).await;
    }
}

/// Writes lines to an output.
pub(super) fn outgoing(
    output: impl AsyncWrite + Send + Unpin + 'static,
    backlog: Arc<Backlog>,
) -> impl Sink<String, Error = io::Error> + Send {
    futures_util::sink::unfold((output, backlog), |(mut output, backlog), mut line: String| async move {
        line.push('\n');
        output.write_all(line.as_bytes()).await?;
        output.flush().await?;
        backlog.written.send_modify(|written| *written += 1);
        Ok::<_, io::Error>((output, backlog))
    })
}

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
    use tokio_util::sync::CancellationToken;

    use super::*;

    async fn lines(input: &'static [u8]) -> Vec<String> {
        let over = CancellationToken::new();
        let lines = Box::pin(incoming(input, over.clone().drop_guard())).map(Result::unwrap);
        let lines = lines.collect().await;
        assert!(over.is_cancelled());
        lines
    }

    #[tokio::test]
    async fn a_line_that_is_no_text_is_handed_on_as_no_message() {
        assert_eq!(lines(b"{}\n\n \r\n[1]\r\nhalf").await, ["{}", "[1]\r"]);
        assert_eq!(lines(b"a\xff\n{}\n").await, [UNREADABLE, "{}"]);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_skipped_to_its_end() {
        let mut input = vec![b'x'; MAX_LINE_BYTES + 1];
        input.extend_from_slice(b"\n{}\n");
        assert_eq!(lines(Box::leak(input.into_boxed_slice())).await, [UNREADABLE, "{}"]);
    }

    #[tokio::test]
    async fn who_waits_for_the_client_goes_on_when_it_has_read() {
        let (near, far) = tokio::io::duplex(8);
        let backlog = Arc::new(Backlog::default());
        let mut sink = Box::pin(outgoing(near, Arc::clone(&backlog)));
        for _ in 0..MAX_WAITING_LINES {
            backlog.add();
        }
        backlog.drained().now_or_never().expect("some may wait");
        backlog.add();
        assert_eq!(backlog.drained().now_or_never(), None, "one too many waits");
        let waits = tokio::spawn({
            let backlog = Arc::clone(&backlog);
            async move { backlog.drained().await }
        });
        let sends = tokio::spawn(async move { sink.send("a line".to_owned()).await });
        let mut read = BufReader::new(far).lines();
        assert_eq!(read.next_line().await.unwrap().as_deref(), Some("a line"));
        sends.await.unwrap().unwrap();
        waits.await.unwrap();
    }
}
