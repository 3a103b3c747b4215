//! Framing of LSP's messages in a stream of bytes: `Content-Length` headers and bodies, read so that nothing a peer sends
//! can make its reader lose its place for good or run out of memory.
//!
//! What is no message is reported as soon as it is known, and skipped. Whether the reader goes on then, as for an editor, or ends the
//! connection, as for a language server, is for the reader to say, and what is in a body too.

use std::io;

use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};

/// The largest body that is read from an editor or another process of roo-lsp, in bytes.
pub const BODY_LIMIT: u64 = 64 * 1024 * 1024;
/// The most that the headers of one message may take together, in bytes.
const HEADER_LIMIT: usize = 4 * 1024;
/// Number of bytes kept of a longer line: enough for a header that begins within it.
const LINE_END: usize = 64;
const LENGTH_HEADER: &[u8] = b"content-length:";

/// One thing that came.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame {
    /// The body of a message.
    Body(Vec<u8>),
    /// What came is not read.
    Skipped(Skipped),
}

impl Frame {
    /// The body of a message.
    ///
    /// # Errors
    /// [`Skipped`], if it is none.
    pub fn into_body(self) -> Result<Vec<u8>, Skipped> {
        match self {
            Self::Body(body) => Ok(body),
            Self::Skipped(skipped) => Err(skipped),
        }
    }
}

/// What is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Skipped {
    /// A body over the limit.
    #[error("a message of {length} bytes is skipped; the limit is {limit}")]
    TooLarge {
        /// Its length, in bytes.
        length: u64,
        /// The limit, in bytes.
        limit: u64,
    },
    /// Bytes that belong to no message. It is told once for all of them up to the next message.
    #[error("bytes that are not a message are skipped; a message begins with Content-Length")]
    Noise,
}

impl Skipped {
    /// The code of the error that answers it, by JSON-RPC 2.0: invalid request, or parse error.
    pub fn code(self) -> i64 {
        match self {
            Self::TooLarge { .. } => -32600,
            Self::Noise => -32700,
        }
    }
}

/// Writes the frame of a body.
pub fn write_frame(body: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    output.extend_from_slice(body);
}

/// Sends a message.
///
/// # Errors
/// When the output can't be written.
pub(crate) async fn send_message(output: &mut (impl AsyncWrite + Unpin), message: &Value) -> io::Result<()> {
    let mut frame = Vec::new();
    write_frame(message.to_string().as_bytes(), &mut frame);
    output.write_all(&frame).await?;
    output.flush().await
}

/// Reads frames.
#[derive(Debug)]
pub struct Frames<R> {
    input: BufReader<R>,
    body_limit: u64,
    /// What has come of the line that is being read.
    line: Vec<u8>,
    headers: Headers,
    /// Number of bytes to skip of a body over the limit.
    to_skip: u64,
    /// True if noise was told since the last message.
    in_noise: bool,
}

/// The headers of a message so far.
#[derive(Debug, Default)]
struct Headers {
    bytes: usize,
    length: Option<Result<u64, UnclearLength>>,
    has_others: bool,
}

/// A message has two lengths, or one that is none. Where it ends, nobody can know.
#[derive(Clone, Copy, Debug)]
struct UnclearLength;

/// Content of a line between two bodies.
enum HeaderLine {
    /// The length of the next body, and whether nothing stood before it.
    Length(u64, bool),
    InvalidLength,
    Header,
    Blank,
    Noise,
    /// It, or the headers up to it, are over the limit. Of its end is read on.
    TooLong,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// Reads frames from this input.
    pub fn new(input: R) -> Self {
        Self::with_limit(input, BODY_LIMIT)
    }

    /// Reads frames whose bodies have at most this many bytes.
    pub fn with_limit(input: R, body_limit: u64) -> Self {
        Self {
            input: BufReader::new(input),
            body_limit,
            line: Vec::new(),
            headers: Headers::default(),
            to_skip: 0,
            in_noise: false,
        }
    }

    /// The input, of which more may have been read than the last frame.
    pub fn input(&self) -> &R {
        self.input.get_ref()
    }

    /// The next message; none at the end of the input.
    ///
    /// # Errors
    /// When the input can't be read, or what comes is no message.
    pub async fn next_message(&mut self) -> io::Result<Option<Value>> {
        let Some(frame) = self.next().await? else { return Ok(None) };
        let body =
            frame.into_body().map_err(|skipped| io::Error::new(io::ErrorKind::InvalidData, skipped))?;
        Ok(Some(serde_json::from_slice(&body)?))
    }

    /// The next frame; none at the end of the input, even in the middle of a frame.
    ///
    /// # Errors
    /// When the input can't be read.
    pub async fn next(&mut self) -> io::Result<Option<Frame>> {
        if !self.skip_body().await? {
            return Ok(None);
        }
        loop {
            let Some(line) = self.read_line().await? else { return Ok(None) };
            let headers = &mut self.headers;
            let is_noise = match line {
                HeaderLine::Blank => match std::mem::take(headers) {
                    Headers { length: Some(Ok(length)), .. } => return self.read_body(length).await,
                    Headers { length, has_others, .. } => length.is_some() || has_others,
                },
                HeaderLine::Length(length, is_alone) => {
                    let agreed = headers.length.unwrap_or(Ok(length)).ok().filter(|agreed| *agreed == length);
                    headers.length = Some(agreed.ok_or(UnclearLength));
                    agreed.is_none() || !is_alone
                }
                HeaderLine::InvalidLength => {
                    headers.length = Some(Err(UnclearLength));
                    true
                }
                HeaderLine::Header => {
                    headers.has_others = true;
                    false
                }
                // Among the headers of a message it does no harm.
                HeaderLine::Noise => headers.length.is_none(),
                HeaderLine::TooLong => {
                    *headers = Headers::default();
                    true
                }
            };
            if is_noise && !std::mem::replace(&mut self.in_noise, true) {
                return Ok(Some(Frame::Skipped(Skipped::Noise)));
            }
        }
    }

    async fn read_body(&mut self, length: u64) -> io::Result<Option<Frame>> {
        self.in_noise = false;
        if length > self.body_limit {
            self.to_skip = length;
            return Ok(Some(Frame::Skipped(Skipped::TooLarge { length, limit: self.body_limit })));
        }
        // Grows with what comes, whatever the header promises.
        let mut bytes = Vec::new();
        (&mut self.input).take(length).read_to_end(&mut bytes).await?;
        Ok((bytes.len() as u64 == length).then_some(Frame::Body(bytes)))
    }

    /// Skips the rest of a body over the limit. Returns whether all of it came.
    async fn skip_body(&mut self) -> io::Result<bool> {
        while self.to_skip > 0 {
            let chunk = self.input.fill_buf().await?.len();
            if chunk == 0 {
                return Ok(false);
            }
            let skipped = chunk.min(usize::try_from(self.to_skip).unwrap_or(usize::MAX));
            self.input.consume(skipped);
            self.to_skip -= skipped as u64;
        }
        Ok(true)
    }

    /// Reads to the end of a line; none at the end of the input.
    async fn read_line(&mut self) -> io::Result<Option<HeaderLine>> {
        loop {
            let chunk = self.input.fill_buf().await?;
            if chunk.is_empty() {
                return Ok(None);
            }
            let end = chunk.iter().position(|byte| *byte == b'\n');
            let text = chunk.get(..end.unwrap_or(chunk.len())).unwrap_or_default();
            let used = text.len();
            self.line.extend_from_slice(text);
            self.input.consume(used);
            self.headers.bytes += used;
            if self.headers.bytes > HEADER_LIMIT {
                self.line.drain(..self.line.len().saturating_sub(LINE_END));
                return Ok(Some(HeaderLine::TooLong));
            }
            if end.is_some() {
                self.input.consume(1);
                self.headers.bytes += 1;
                let line = std::mem::take(&mut self.line);
                return Ok(Some(read_header(line.strip_suffix(b"\r").unwrap_or(&line))));
            }
        }
    }
}

fn read_header(line: &[u8]) -> HeaderLine {
    if line.is_empty() {
        return HeaderLine::Blank;
    }
    let lower = line.to_ascii_lowercase();
    let start = lower.windows(LENGTH_HEADER.len()).position(|window| window == LENGTH_HEADER);
    if let Some(start) = start {
        let value = line.get(start + LENGTH_HEADER.len()..).unwrap_or_default();
        let value = std::str::from_utf8(value).ok().and_then(|value| value.trim().parse().ok());
        return value.map_or(HeaderLine::InvalidLength, |length| HeaderLine::Length(length, start == 0));
    }
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    if name.len() < line.len() && !name.is_empty() && name.iter().all(is_token) {
        HeaderLine::Header
    } else {
        HeaderLine::Noise
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOISE: Frame = Frame::Skipped(Skipped::Noise);

    async fn frames(input: &[u8]) -> Vec<Frame> {
        let mut frames = Frames::new(input);
        let mut all = Vec::new();
        while let Some(frame) = frames.next().await.unwrap() {
            all.push(frame);
        }
        all
    }

    fn body(text: &str) -> Frame {
        Frame::Body(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn bodies_are_read_one_after_the_other() {
        let input = "Content-Length: 2\r\n\r\n{}\
                     Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 3\r\n\r\n[1]\
                     content-length:1\n\n7";
        assert_eq!(frames(input.as_bytes()).await, [body("{}"), body("[1]"), body("7")]);
    }

    #[tokio::test]
    async fn the_place_is_found_again_after_noise() {
        for noise in [
            "nonsense\r\n",
            "X-Header: 1\r\n\r\n",
            "Content-Length: many\r\n\r\n",
            "Content-Length: -1\r\n\r\n",
            "Content-Length: 99999999999999999999999\r\n\r\n",
            "{\"a\": 1}",
            "\u{fffd}\0\r\n\r\n",
            "nonsense\r\n\r\nmore\r\nX-Header: 1\r\n\r\n",
        ] {
            let input = format!("{noise}Content-Length: 2\r\n\r\n{{}}");
            assert_eq!(frames(input.as_bytes()).await, [NOISE, body("{}")], "{noise:?}");
        }
    }

    #[tokio::test]
    async fn noise_is_told_before_a_message_ends_it() {
        let unending = "x".repeat(HEADER_LIMIT + 1);
        let headers = format!("Content-Length: 2\r\n{}", "X-Header: 1\r\n".repeat(HEADER_LIMIT / 10));
        for input in ["nonsense\r\n", "Content-Length: many\r\n", &unending, &headers] {
            assert_eq!(frames(input.as_bytes()).await, [NOISE], "{input:?}");
        }
    }

    #[tokio::test]
    async fn a_message_whose_length_is_unclear_is_skipped() {
        let next = "\r\nContent-Length: 3\r\n\r\n[1]";
        for lengths in [
            "Content-Length: 2\r\nContent-Length: 20\r\n",
            "Content-Length: 20\r\nContent-Length: 2\r\n",
            "Content-Length: 2\r\nContent-Length: many\r\n",
            "Content-Length: many\r\nContent-Length: 2\r\n",
        ] {
            let input = format!("{lengths}\r\n{{}}{next}");
            assert_eq!(frames(input.as_bytes()).await, [NOISE, body("[1]")], "{lengths:?}");
        }
        let twice = format!("Content-Length: 2\r\nContent-Length: 2\r\n\r\n{{}}{next}");
        assert_eq!(frames(twice.as_bytes()).await, [body("{}"), body("[1]")]);
    }

    #[tokio::test]
    async fn a_header_after_a_very_long_line_is_still_found() {
        let input = format!("{}Content-Length: 2\r\n\r\n{{}}", "x".repeat(5 * HEADER_LIMIT + 7));
        assert_eq!(frames(input.as_bytes()).await, [NOISE, body("{}")]);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_skipped_to_the_byte() {
        let length = BODY_LIMIT + 1;
        let head = format!("Content-Length: {length}\r\n\r\n");
        let tail = "Content-Length: 2\r\n\r\n{}";
        let body_bytes = tokio::io::repeat(b'x').take(length);
        let input = head.as_bytes().chain(body_bytes).chain(tail.as_bytes());
        let mut frames = Frames::new(input);
        let too_large = Frame::Skipped(Skipped::TooLarge { length, limit: BODY_LIMIT });
        assert_eq!(frames.next().await.unwrap(), Some(too_large));
        assert_eq!(frames.next().await.unwrap(), Some(body("{}")));
        assert_eq!(frames.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_told_before_it_comes() {
        let mut frames = Frames::with_limit("Content-Length: 11\r\n\r\n".as_bytes(), 10);
        let too_large = Frame::Skipped(Skipped::TooLarge { length: 11, limit: 10 });
        assert_eq!(frames.next().await.unwrap(), Some(too_large));
        assert_eq!(frames.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_input_that_ends_within_a_frame_just_ends() {
        let whole = "Content-Length: 10\r\n\r\n0123456789";
        for cut in 0..whole.len() {
            assert_eq!(frames(&whole.as_bytes()[..cut]).await, [], "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn messages_are_read_as_they_were_sent() {
        let mut stream = Vec::new();
        let message = json!({ "id": 1, "result": "ä" });
        send_message(&mut stream, &message).await.unwrap();
        let mut frames = Frames::new(stream.as_slice());
        assert_eq!(frames.next_message().await.unwrap(), Some(message));
        assert_eq!(frames.next_message().await.unwrap(), None);
    }

    #[tokio::test]
    async fn what_is_no_message_is_an_error() {
        for (text, error) in [
            ("x\r\n\r\n{}", "not a message"),
            ("Content-Length: many\r\n\r\n", "not a message"),
            ("Content-Length: 2\r\n\r\n}{", "expected value"),
            ("Content-Length: 999999999999\r\n\r\n", "the limit is"),
        ] {
            let found = Frames::new(text.as_bytes()).next_message().await.unwrap_err().to_string();
            assert!(found.contains(error), "{text}: {found}");
        }
        let kind = "Content-Type: x\r\ncontent-length: 2\r\n\r\n{}";
        assert_eq!(Frames::new(kind.as_bytes()).next_message().await.unwrap(), Some(json!({})));
    }
}
