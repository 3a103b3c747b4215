//! Stand-in for the server-sent events reader.

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SseEvent {
    /// Its type.
    pub event: Option<String>,
    /// Its data lines, joined.
    pub data: String,
}

/// An event is larger than the reader keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an event of the stream is too large")]
pub struct Oversized;

/// Reads events from bytes.
#[derive(Debug, Default)]
pub struct SseReader {
    line: Vec<u8>,
    after_cr: bool,
    event: Option<String>,
    data: Vec<String>,
    size: usize,
}

impl SseReader {
    /// A reader at the beginning of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes bytes.
    ///
    /// # Errors
    /// [`Oversized`]
    pub fn push(&mut self, bytes: &[u8], yields: &mut dyn FnMut(SseEvent)) -> Result<(), Oversized> {
        for &byte in bytes {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                continue;
            }
            if byte == b'\n' || byte == b'\r' {
                self.after_cr = byte == b'\r';
                self.end_line(yields);
            } else {
                self.line.push(byte);
                self.size += 1;
                if self.size > 16 << 20 {
                    return Err(Oversized);
                }
            }
        }
        Ok(())
    }

    /// The stream has ended.
    pub fn finish(&mut self, yields: &mut dyn FnMut(SseEvent)) {
        if !self.line.is_empty() {
            self.end_line(yields);
        }
        self.end_line(yields);
    }

    fn end_line(&mut self, yields: &mut dyn FnMut(SseEvent)) {
        let line = String::from_utf8_lossy(&std::mem::take(&mut self.line)).into_owned();
        if line.is_empty() {
            let event = self.event.take();
            self.size = 0;
            if !self.data.is_empty() {
                yields(SseEvent { event, data: std::mem::take(&mut self.data).join("\n") });
            }
        } else if let Some((field, value)) = line.split_once(':') {
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "event" => self.event = Some(value),
                "data" => self.data.push(value),
                _ => {}
            }
        }
    }
}
