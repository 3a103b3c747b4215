//! Reading the trace without its lock: its lines in order, from any position.

use std::io::{self, BufRead as _, BufReader, Read as _};
use std::ops::ControlFlow;

use serde::{Deserialize, Serialize};

use super::directory::TraceDirectory;
use super::projection::NewestLines;
use super::record::Record;
use roo_protocol::ids::Digest;

/// A position between two records. The default is before the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) segment: u64,
    pub(super) offset: u64,
}

/// The first line of a segment, with the record that its records follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Header {
    /// The version of the segments' format.
    pub(super) roo_lsp_trace: u32,
    pub(super) chain: String,
    pub(super) segment: u64,
    /// The number of the first record.
    pub(super) first: u64,
    /// The hash of the record before it.
    pub(super) prev: Digest,
}

/// The version of the segments' format.
pub(super) const FORMAT: u32 = 1;

impl Header {
    /// The header's line without its end.
    pub(super) fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice::<Self>(line).ok().filter(|header| header.roo_lsp_trace == FORMAT)
    }

    pub(super) fn line(&self) -> io::Result<Vec<u8>> {
        let mut line = serde_json_canonicalizer::to_vec(self)?;
        line.push(b'\n');
        Ok(line)
    }
}

/// Visits the lines after a position, without line ends and without headers. A line that is still being written is
/// skipped. Returns the position after the last visited line.
pub(super) fn lines(
    directory: &TraceDirectory,
    from: Position,
    mut visit: impl FnMut(Position, &[u8]) -> ControlFlow<()>,
) -> io::Result<Position> {
    let mut at = from;
    for number in directory.segments()?.into_iter().filter(|number| *number >= from.segment) {
        if number > at.segment {
            at = Position { segment: number, offset: 0 };
        }
        let file = match directory.read_segment(number, at.offset) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            opened => opened?,
        };
        let mut reader = BufReader::with_capacity(1 << 18, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let length = reader.read_until(b'\n', &mut line)?;
            if line.pop() != Some(b'\n') {
                break;
            }
            let (start, is_header) = (at, at.offset == 0 && Header::read(&line).is_some());
            at.offset += length as u64;
            if !is_header && visit(start, &line).is_break() {
                return Ok(at);
            }
        }
    }
    Ok(at)
}

/// Visits the records of changed files after a position. Lines that are not records are skipped.
pub(super) fn changes(
    directory: &TraceDirectory,
    from: Position,
    mut visit: impl FnMut(&Record),
) -> io::Result<Position> {
    lines(directory, from, |_, line| {
        // Most records have no files, which is how their canonical JSON begins.
        if !line.starts_with(b"{\"files\":[],")
            && let Ok(record) = Record::read(line)
        {
            visit(&record);
        }
        ControlFlow::Continue(())
    })
}

/// The newest lines, at most `limit` bytes of them.
pub(super) fn newest(directory: &TraceDirectory, limit: u64) -> io::Result<NewestLines> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    let mut left = limit;
    for number in directory.segments()?.into_iter().rev() {
        let length = directory.segment_length(number)?;
        let mut bytes = Vec::new();
        let from = length.saturating_sub(left + 1);
        directory.read_segment(number, from)?.take(length - from).read_to_end(&mut bytes)?;
        // The first line is the header, or begins before what was read.
        let start = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
        bytes.drain(..start);
        left = left.saturating_sub(bytes.len() as u64);
        pieces.push(bytes);
        if from > 0 || left == 0 {
            break;
        }
    }
    let lines: Vec<u8> = pieces.into_iter().rev().flatten().collect();
    let first = lines.split(|byte| *byte == b'\n').next().and_then(|line| Record::read(line).ok());
    let first = first.as_ref().and_then(Record::own).map_or(1, |own| own.seq);
    Ok(NewestLines { first, lines })
}
