//! What programs send over Roo Code's IPC: however the bytes come, the same frames are read, those of a plain reading of all of
//! them, and no message of a client makes its reader fail.

// These two files need nothing else of the program, whose crate is large.
#[path = "../../src/ipc/command.rs"]
mod command;
#[allow(dead_code, reason = "the program frames its answers and has a limit of its own")]
#[path = "../../src/ipc/frames.rs"]
mod frames;

use futures_util::FutureExt as _;
use tokio::io::BufReader;

use self::frames::{Frame, Framing, next_frame_within};
use crate::Input;

/// The property.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let (piece, longest) = (usize::from(input.byte()) % 13 + 1, usize::from(input.byte()) + 1);
    let bytes = input.0;
    let expected = plainly(bytes, longest);
    assert_eq!(read(bytes, bytes.len().max(1), longest), expected);
    assert_eq!(read(bytes, piece, longest), expected);
    for text in expected.into_iter().filter_map(|frame| frame.text) {
        // Whatever it says.
        let _ = command::parse(&text);
    }
}

/// The frames of a connection whose bytes come in pieces of this size.
fn read(bytes: &[u8], piece: usize, longest: usize) -> Vec<Frame> {
    let mut input = BufReader::with_capacity(piece, bytes);
    let mut frames = Vec::new();
    // All bytes are there: nothing waits.
    while let Some(frame) = next_frame_within(&mut input, longest).now_or_never().unwrap().unwrap() {
        frames.push(frame);
    }
    frames
}

/// The same of all bytes at once: a frame ends with a form feed or a line, and the rest is none.
fn plainly(bytes: &[u8], longest: usize) -> Vec<Frame> {
    let ends = |byte: &u8| matches!(byte, b'\n' | 0x0c);
    let whole = bytes.split_inclusive(ends).filter(|frame| frame.last().is_some_and(ends));
    let frames = whole.filter_map(|frame| {
        let (end, text) = frame.split_last()?;
        let framing = if *end == 0x0c { Framing::NodeIpc } else { Framing::Lines };
        let text = if text.len() > longest { None } else { std::str::from_utf8(text).ok() };
        let is_blank = text.is_some_and(|text| text.trim().is_empty());
        (!is_blank).then(|| Frame { framing, text: text.map(str::to_owned) })
    });
    frames.collect()
}
