//! Messages on a connection. Those of the library node-ipc, with which Roo Code's own client speaks, end with a form feed and
//! are the data of an event `message`; other clients write lines of plain messages. A frame that is too long or no text is
//! skipped to its end, so that nothing a client sends makes the server lose its place or run out of memory.

use std::io;

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The longest frame that is read, in bytes: a prompt with images.
const MAX_FRAME_BYTES: usize = 16 << 20;
/// The end of a frame of node-ipc.
const FORM_FEED: u8 = 0x0c;

/// How a client's messages are framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    NodeIpc,
    Lines,
}

impl Framing {
    /// What stands before and after a message.
    pub(super) fn around(self) -> (&'static str, &'static str) {
        match self {
            Self::NodeIpc => (r#"{"type":"message","data":"#, "}\x0c"),
            Self::Lines => ("", "\n"),
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) framing: Framing,
    /// None if it is too long, or not UTF-8.
    pub(super) text: Option<String>,
}

/// The next frame that is not blank; none at the end of the input, also in the middle of a frame.
pub(super) async fn next_frame(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<Frame>> {
    next_frame_within(input, MAX_FRAME_BYTES).await
}

/// The same, where a frame may have so many bytes.
pub(super) async fn next_frame_within(
    input: &mut (impl AsyncBufRead + Unpin),
    longest: usize,
) -> io::Result<Option<Frame>> {
    let (mut bytes, mut is_too_long) = (Vec::new(), false);
    loop {
        let read = input.fill_buf().await?;
        if read.is_empty() {
            return Ok(None);
        }
        let end = read.iter().position(|byte| matches!(*byte, FORM_FEED | b'\n'));
        let part = &read[..end.unwrap_or(read.len())];
        let framing = match end {
            Some(end) if read[end] == FORM_FEED => Framing::NodeIpc,
            _ => Framing::Lines,
        };
        is_too_long |= bytes.len() + part.len() > longest;
        match is_too_long {
            true => bytes = Vec::new(),
            false => bytes.extend_from_slice(part),
        }
        let length = end.map_or(read.len(), |end| end + 1);
        input.consume(length);
        if end.is_none() {
            continue;
        }
        let text = if is_too_long { None } else { String::from_utf8(std::mem::take(&mut bytes)).ok() };
        is_too_long = false;
        if text.as_ref().is_none_or(|text| !text.trim().is_empty()) {
            return Ok(Some(Frame { framing, text }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(mut input: &[u8]) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = next_frame(&mut input).await.unwrap() {
            frames.push(frame);
        }
        frames
    }

    fn frame(framing: Framing, text: &str) -> Frame {
        Frame { framing, text: Some(text.to_owned()) }
    }

    #[tokio::test]
    async fn frames_end_with_a_form_feed_or_a_line() {
        let read = frames(b"{\"a\":1}\x0c{}\x0c\n \n[1]\nhalf").await;
        let node_ipc = |text| frame(Framing::NodeIpc, text);
        assert_eq!(read, [node_ipc("{\"a\":1}"), node_ipc("{}"), frame(Framing::Lines, "[1]")]);
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_skipped_to_its_end() {
        let mut input = vec![b'x'; MAX_FRAME_BYTES + 1];
        input.extend_from_slice(b"\x0ca\xff\n{}\n");
        let unreadable = |framing| Frame { framing, text: None };
        let expected =
            [unreadable(Framing::NodeIpc), unreadable(Framing::Lines), frame(Framing::Lines, "{}")];
        assert_eq!(frames(&input).await, expected);
    }
}
