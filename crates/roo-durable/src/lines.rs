//! Line reader for logs, in bounded memory even where a log is damaged.

use std::io::{self, BufRead, BufReader, Read};

/// The longest line of a record, in bytes. Strings over 32 KiB are kept beside the log, so a line this long would have
/// thousands of strings.
pub(super) const MAX_LINE_BYTES: usize = 64 << 20;

/// Number of bytes read at once.
const BUFFER: usize = 64 * 1024;

/// First byte of every record. Other lines are skipped without being buffered.
const BEGIN: u8 = b'{';

/// Reads a log line by line.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    line: Vec<u8>,
    /// Offset of the next line.
    offset: u64,
}

pub(super) enum LogLine<'a> {
    /// A complete line, without its line end.
    Complete(&'a [u8]),
    /// A complete line that can't be a record.
    NotARecord,
    /// The last line, without a line end.
    Unfinished,
}

impl<R: Read> Lines<R> {
    /// Reads lines from `reader`, which is at this offset of the log.
    pub(super) fn new(reader: R, offset: u64) -> Self {
        Self { reader: BufReader::with_capacity(BUFFER, reader), line: Vec::new(), offset }
    }

    /// Offset after the last complete line, in bytes.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The next line; none at the end of the log.
    pub(super) fn next(&mut self) -> io::Result<Option<LogLine<'_>>> {
        self.line.clear();
        let mut length = 0;
        let mut is_record = true;
        loop {
            let buffer = match self.reader.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                buffer => buffer?,
            };
            if buffer.is_empty() {
                return Ok((length > 0).then_some(LogLine::Unfinished));
            }
            let (piece, ended) = match memchr::memchr(b'\n', buffer) {
                Some(end) => (&buffer[..end], true),
                None => (buffer, false),
            };
            let first = if length == 0 { piece.first() } else { None };
            is_record &= first.is_none_or(|&byte| byte == BEGIN) && length + piece.len() <= MAX_LINE_BYTES;
            if is_record {
                self.line.extend_from_slice(piece);
            } else {
                self.line = Vec::new();
            }
            length += piece.len();
            let used = piece.len() + usize::from(ended);
            self.reader.consume(used);
            if ended {
                self.offset += length as u64 + 1;
                return Ok(Some(if is_record { LogLine::Complete(&self.line) } else { LogLine::NotARecord }));
            }
        }
    }
}
