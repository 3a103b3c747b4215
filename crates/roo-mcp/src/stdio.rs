//! Messages as lines over the standard streams of a program, bounded.

use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex as StdMutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, RequestId, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::sync::Mutex;

use crate::events::Signals;
use crate::fault::ServerFault;
use crate::log::{LogSource, ServerLog};

/// The longest message, in bytes.
pub(crate) const MESSAGE: usize = 16 << 20;
/// Number of bytes that are skipped before the connection is given up: those of an oversized message, and those of lines that are
/// no messages, without a message in between.
const SKIPPED: usize = 256 << 20;
/// The same for lines before the first message. Who writes more does not speak the protocol.
const SKIPPED_AT_FIRST: usize = 1 << 20;
/// Number of lines that are no messages that are logged, without a message in between.
const LOGGED: usize = 20;
/// Number of characters of a stray line that are shown.
const SAMPLE: usize = 120;

type Writer = Box<dyn AsyncWrite + Send + Sync + Unpin>;
type Reader = Box<dyn AsyncRead + Send + Sync + Unpin>;

/// The streams of one program.
pub(crate) struct StdioTransport {
    reader: BufReader<Reader>,
    writer: Arc<Mutex<Option<Writer>>>,
    line: Vec<u8>,
    /// Number of bytes of an oversized message that were skipped so far; none outside of one.
    skipping: Option<usize>,
    /// True once a message was read.
    is_begun: bool,
    /// Number of lines that are no messages since the last message, and of their bytes.
    stray_lines: usize,
    stray_bytes: usize,
    /// Requests without an answer so far.
    asked: Arc<StdMutex<HashSet<RequestId>>>,
    signals: Signals,
    log: ServerLog,
}

/// Outcome of reading a line.
enum Line {
    Whole,
    Oversized,
    End,
}

impl StdioTransport {
    pub(crate) fn new(reader: Reader, writer: Writer, signals: Signals, log: ServerLog) -> Self {
        Self {
            reader: BufReader::with_capacity(64 << 10, reader),
            writer: Arc::new(Mutex::new(Some(writer))),
            line: Vec::new(),
            skipping: None,
            is_begun: false,
            stray_lines: 0,
            stray_bytes: 0,
            asked: Arc::default(),
            signals,
            log,
        }
    }

    /// Reads to the end of a line. May be dropped and called again.
    async fn read_line(&mut self) -> Line {
        loop {
            let available = match self.reader.fill_buf().await {
                Ok([]) | Err(_) => return Line::End,
                Ok(available) => available,
            };
            let newline = available.iter().position(|&byte| byte == b'\n');
            let taken = newline.map_or(available.len(), |at| at + 1);
            if let Some(skipped) = &mut self.skipping {
                *skipped += taken;
                let over = *skipped > SKIPPED;
                self.reader.consume(taken);
                if newline.is_some() {
                    self.skipping = None;
                    return Line::Oversized;
                }
                if over {
                    self.signals.fail(ServerFault::Oversized { limit: MESSAGE >> 20 });
                    return Line::End;
                }
                continue;
            }
            if self.line.len() + taken > MESSAGE {
                // What is already known to be of no use needs no memory.
                self.line = Vec::new();
                self.skipping = Some(0);
                self.signals.oversized();
                continue;
            }
            self.line.extend_from_slice(available.get(..taken).unwrap_or_default());
            self.reader.consume(taken);
            if newline.is_some() {
                return Line::Whole;
            }
        }
    }

    /// Notes a line that is no message. False when there were too many.
    fn stray(&mut self) -> bool {
        self.stray_lines += 1;
        self.stray_bytes += self.line.len();
        let is_logged = self.stray_lines <= LOGGED;
        let limit = if self.is_begun { SKIPPED } else { SKIPPED_AT_FIRST };
        let is_within_limit = self.stray_bytes <= limit;
        if is_within_limit && !is_logged {
            return true;
        }
        let text: String = String::from_utf8_lossy(self.line.get(..SAMPLE * 4).unwrap_or(&self.line))
            .trim()
            .chars()
            .take(SAMPLE)
            .collect();
        if is_logged {
            self.log.add(LogSource::Hub, &format!("no MCP message on standard output: {text}"));
        }
        if self.stray_lines == LOGGED {
            self.log.add(
                LogSource::Hub,
                "further lines that are no MCP messages are not logged until the next message",
            );
        }
        if !is_within_limit {
            let sample: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
            // A server that has answered before may do so again when it is restarted.
            self.signals.fail(match self.is_begun {
                true => ServerFault::Protocol(format!(
                    "its standard output has more than {} MiB without a message, such as `{sample}`",
                    limit >> 20
                )),
                false => ServerFault::Garbage { sample },
            });
        }
        is_within_limit
    }

    /// Returns whether a message answers a request.
    fn is_expected(&mut self, message: &ServerJsonRpcMessage) -> bool {
        let id = match message {
            ServerJsonRpcMessage::Response(response) => &response.id,
            ServerJsonRpcMessage::Error(error) => match &error.id {
                Some(id) => id,
                None => return true,
            },
            _ => return true,
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        // Some servers give numbers back as text.
        let as_number = match id {
            RequestId::String(text) => text.parse().ok().map(RequestId::Number),
            RequestId::Number(_) => None,
        };
        asked.remove(id) || as_number.is_some_and(|id| asked.remove(&id))
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        let writer = Arc::clone(&self.writer);
        if let ClientJsonRpcMessage::Request(request) = &message {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            if matches!(request.request, ClientRequest::InitializeRequest(_)) {
                // A program that starts slowly answers what was asked before it as well, when nobody waits for that.
                asked.clear();
            }
            asked.insert(request.id.clone());
        }
        async move {
            let mut line = serde_json::to_vec(&message)?;
            line.push(b'\n');
            let mut writer = writer.lock().await;
            let Some(writer) = writer.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
            writer.write_all(&line).await?;
            writer.flush().await
        }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.read_line().await {
                Line::End => return None,
                Line::Oversized => {
                    let text = format!("a message of more than {} MiB was skipped", MESSAGE >> 20);
                    self.log.add(LogSource::Hub, &text);
                }
                Line::Whole if self.line.iter().all(u8::is_ascii_whitespace) => self.line.clear(),
                Line::Whole => {
                    let parsed = serde_json::from_slice::<ServerJsonRpcMessage>(&self.line);
                    if parsed.is_ok() {
                        self.is_begun = true;
                        (self.stray_lines, self.stray_bytes) = (0, 0);
                    }
                    let goes_on = parsed.is_ok() || self.stray();
                    if self.line.capacity() > 1 << 20 {
                        self.line = Vec::new();
                    }
                    self.line.clear();
                    match parsed {
                        Ok(message) if self.is_expected(&message) => return Some(message),
                        Ok(_) => {
                            let text = "an answer to something that was not asked, or was answered already";
                            self.log.add(LogSource::Hub, text);
                            self.signals.unexpected_answer();
                        }
                        Err(_) if goes_on => {}
                        Err(_) => return None,
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        // The program sees the end of its input. A write that is under way is given up with its future.
        if let Ok(mut writer) = self.writer.try_lock() {
            *writer = None;
        }
        Ok(())
    }
}

/// Takes standard error into the log until it ends.
pub(crate) async fn keep_stderr(stderr: Reader, log: ServerLog) {
    /// The longest line that is taken as one.
    const MAX_LINE_BYTES: usize = 8 << 10;
    let mut reader = BufReader::new(stderr);
    let mut line: Vec<u8> = Vec::new();
    loop {
        let available = match reader.fill_buf().await {
            Ok([]) | Err(_) => break,
            Ok(available) => available,
        };
        let newline = available.iter().position(|&byte| byte == b'\n');
        let taken = newline.map_or(available.len(), |at| at + 1);
        let room = MAX_LINE_BYTES.saturating_sub(line.len());
        line.extend_from_slice(available.get(..taken.min(room)).unwrap_or_default());
        reader.consume(taken);
        if newline.is_some() {
            log.add(LogSource::Stderr, String::from_utf8_lossy(&line).trim_end());
            line.clear();
        }
    }
    if !line.is_empty() {
        log.add(LogSource::Stderr, String::from_utf8_lossy(&line).trim_end());
    }
}
