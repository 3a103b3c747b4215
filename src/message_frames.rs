//! Framing of messages in a stream of bytes: `Content-Length` headers and bodies, read so that nothing a client sends
//! can make the server lose its place for good or run out of memory.
//!
//! What is in a body is for its readers: [`crate::server`] of its clients, the daemon's clients, and what speaks to a server in this
//! process.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader};

/// The largest body that is read, in bytes; a larger one is skipped.
pub(crate) const BODY_LIMIT: u64 = 64 * 1024 * 1024;
/// The longest header line that is kept whole, in bytes.
const LINE_LIMIT: usize = 8 * 1024;
/// Number of bytes kept of a longer one: enough for a header that begins within it.
const LINE_END: usize = 64;
const LENGTH_HEADER: &[u8] = b"content-length:";

/// One thing that came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The body of a message.
    Body(Vec<u8>),
    /// A body over the limit, of this many bytes, was skipped.
    TooLarge(u64),
    /// Bytes that belong to no message were skipped.
    Noise,
}

impl Frame {
    /// The body of a message.
    ///
    /// # Errors
    /// [`Skipped`], if it is none.
    pub(crate) fn into_body(self) -> Result<Vec<u8>, Skipped> {
        match self {
            Self::Body(body) => Ok(body),
            Self::TooLarge(length) => Err(Skipped::TooLarge(length)),
            Self::Noise => Err(Skipped::Noise),
        }
    }
}

/// What was skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Skipped {
    #[error("a message of {0} bytes was skipped; the limit is {BODY_LIMIT}")]
    TooLarge(u64),
    #[error("bytes that are not a message were skipped; a message begins with Content-Length")]
    Noise,
}

impl Skipped {
    /// The code of the error that answers it, by JSON-RPC 2.0: invalid request, or parse error.
    pub(crate) fn code(self) -> i64 {
        match self {
            Self::TooLarge(_) => -32600,
            Self::Noise => -32700,
        }
    }
}

/// Writes the frame of a body.
pub(crate) fn write_frame(body: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
    output.extend_from_slice(body);
}

/// Reads frames.
pub(crate) struct Frames<R> {
    input: BufReader<R>,
    /// The length of a body whose other headers are yet to be read.
    length: Option<u64>,
}

/// Content of a line between two bodies.
enum HeaderLine {
    /// The length of the next body, and whether nothing stood before it.
    Length(u64, bool),
    Header,
    Blank,
    Noise,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// Reads frames from this input.
    pub(crate) fn new(input: R) -> Self {
        Self { input: BufReader::new(input), length: None }
    }

    /// The input, of which more may have been read than the last frame.
    pub(crate) fn input(&self) -> &R {
        self.input.get_ref()
    }

    /// The next frame; none at the end of the input, even in the middle of a frame.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Frame>> {
        let length = match self.length.take() {
            Some(length) => length,
            None => match self.find_length().await? {
                Some((length, true)) => length,
                Some((length, false)) => {
                    self.length = Some(length);
                    return Ok(Some(Frame::Noise));
                }
                None => return Ok(None),
            },
        };
        let length = match self.skip_headers(length).await? {
            None => return Ok(None),
            // It is unknown which of them counts, so the message is skipped.
            Some(Err(Conflict)) => return Ok(Some(Frame::Noise)),
            Some(Ok(length)) => length,
        };
        let mut body = (&mut self.input).take(length);
        if length > BODY_LIMIT {
            let skipped = tokio::io::copy_buf(&mut body, &mut tokio::io::sink()).await?;
            return Ok((skipped == length).then_some(Frame::TooLarge(length)));
        }
        // Grows with what comes, whatever the header promises.
        let mut bytes = Vec::new();
        body.read_to_end(&mut bytes).await?;
        Ok((bytes.len() as u64 == length).then_some(Frame::Body(bytes)))
    }

    /// The next length, and whether it came without noise before it.
    async fn find_length(&mut self) -> io::Result<Option<(u64, bool)>> {
        let (mut clean, mut in_headers) = (true, false);
        while let Some(line) = read_line(&mut self.input).await? {
            match read_header(&line) {
                HeaderLine::Length(length, alone) => return Ok(Some((length, clean && alone))),
                HeaderLine::Header => in_headers = true,
                // The end of headers without a length.
                HeaderLine::Blank if in_headers => (clean, in_headers) = (false, false),
                // Harmless between two messages.
                HeaderLine::Blank => {}
                HeaderLine::Noise => clean = false,
            }
        }
        Ok(None)
    }

    /// Reads up to the body.
    async fn skip_headers(&mut self, length: u64) -> io::Result<Option<Result<u64, Conflict>>> {
        let mut agreed = Ok(length);
        while let Some(line) = read_line(&mut self.input).await? {
            match read_header(&line) {
                HeaderLine::Blank => return Ok(Some(agreed)),
                HeaderLine::Length(other, _) if other != length => agreed = Err(Conflict),
                HeaderLine::Length(..) | HeaderLine::Header | HeaderLine::Noise => {}
            }
        }
        Ok(None)
    }
}

/// One message has two lengths.
struct Conflict;

fn read_header(line: &[u8]) -> HeaderLine {
    if line.is_empty() {
        return HeaderLine::Blank;
    }
    let lower = line.to_ascii_lowercase();
    let start = lower.windows(LENGTH_HEADER.len()).position(|window| window == LENGTH_HEADER);
    if let Some(start) = start {
        let value = line.get(start + LENGTH_HEADER.len()..).unwrap_or_default();
        let value = std::str::from_utf8(value).ok().and_then(|value| value.trim().parse().ok());
        return value.map_or(HeaderLine::Noise, |length| HeaderLine::Length(length, start == 0));
    }
    let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    if name.len() < line.len() && !name.is_empty() && name.iter().all(is_token) {
        HeaderLine::Header
    } else {
        HeaderLine::Noise
    }
}

/// A line without its end; of a very long one, the end only.
async fn read_line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    loop {
        let chunk = input.fill_buf().await?;
        if chunk.is_empty() {
            return Ok((!line.is_empty()).then_some(line));
        }
        let end = chunk.iter().position(|byte| *byte == b'\n');
        let used = end.map_or(chunk.len(), |end| end + 1);
        line.extend_from_slice(chunk.get(..used).unwrap_or_default());
        input.consume(used);
        if end.is_some() {
            line.pop();
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(Some(line));
        }
        if line.len() > LINE_LIMIT {
            line.drain(..line.len() - LINE_END);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        ] {
            let input = format!("{noise}Content-Length: 2\r\n\r\n{{}}");
            assert_eq!(frames(input.as_bytes()).await, [Frame::Noise, body("{}")], "{noise:?}");
        }
    }

    #[tokio::test]
    async fn a_header_after_a_very_long_line_is_still_found() {
        let input = format!("{}Content-Length: 2\r\n\r\n{{}}", "x".repeat(5 * LINE_LIMIT + 7));
        assert_eq!(frames(input.as_bytes()).await, [Frame::Noise, body("{}")]);
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_skipped_to_the_byte() {
        let length = BODY_LIMIT + 1;
        let head = format!("Content-Length: {length}\r\n\r\n");
        let tail = "Content-Length: 2\r\n\r\n{}";
        let body_bytes = tokio::io::repeat(b'x').take(length);
        let input = head.as_bytes().chain(body_bytes).chain(tail.as_bytes());
        let mut frames = Frames::new(input);
        assert_eq!(frames.next().await.unwrap(), Some(Frame::TooLarge(length)));
        assert_eq!(frames.next().await.unwrap(), Some(body("{}")));
        assert_eq!(frames.next().await.unwrap(), None);
    }

    #[tokio::test]
    async fn an_input_that_ends_within_a_frame_just_ends() {
        let whole = "Content-Length: 10\r\n\r\n0123456789";
        for cut in 0..whole.len() {
            assert_eq!(frames(&whole.as_bytes()[..cut]).await, [], "cut at {cut}");
        }
    }
}
