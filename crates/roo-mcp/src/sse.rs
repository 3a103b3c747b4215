//! The HTTP transport of version 2024-11-05: messages come as server-sent events, and go as requests to an address that
//! the first event names.

use std::collections::HashMap;

use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use sse_stream::{Error as SseError, Sse, SseStream};
use url::Url;

use crate::authorized::AuthorizedClient;
use crate::events::Signals;
use crate::fault::ServerFault;
use crate::http_fault::http_fault;
use crate::log::{LogSource, ServerLog};
use crate::stdio::MESSAGE;

/// Maximum number of events that are no messages.
const STRAY_EVENTS: usize = 200;

/// A connection of two parts: a stream of events, and requests beside it.
pub(crate) struct SseTransport {
    events: BoxStream<'static, Result<Sse, SseError>>,
    client: AuthorizedClient,
    endpoint: Url,
    headers: HashMap<HeaderName, HeaderValue>,
    stray_events: usize,
    signals: Signals,
    log: ServerLog,
}

/// Reasons why no more events come.
#[derive(Debug, thiserror::Error)]
enum BrokenStream {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error("an event of more than {} MiB", MESSAGE >> 20)]
    Oversized,
}

/// The number of bytes that the event kept so far takes, as they came.
#[derive(Default)]
struct EventSize {
    lines: usize,
    line: usize,
    is_comment: bool,
    after_return: bool,
}

impl EventSize {
    /// Counts bytes of the stream. Returns whether every event in them is within the limit.
    fn take(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| {
            let is_second_half = std::mem::take(&mut self.after_return) && *byte == b'\n';
            match byte {
                b'\n' if is_second_half => {}
                b'\n' | b'\r' => {
                    self.after_return = *byte == b'\r';
                    self.end_line();
                }
                _ => {
                    self.is_comment |= self.line == 0 && *byte == b':';
                    self.line += 1;
                }
            }
            self.lines + self.line <= MESSAGE
        })
    }

    /// Ends a line: an empty one ends the event, and of a comment nothing is kept.
    fn end_line(&mut self) {
        match (std::mem::take(&mut self.line), std::mem::take(&mut self.is_comment)) {
            (0, _) => self.lines = 0,
            (_, true) => {}
            (line, false) => self.lines += line + 1,
        }
    }
}

impl SseTransport {
    /// Opens the stream and waits for the address for requests. How long that may take is the caller's to say.
    pub(crate) async fn connect(
        client: AuthorizedClient,
        url: &Url,
        headers: HashMap<HeaderName, HeaderValue>,
        signals: Signals,
        log: ServerLog,
    ) -> Result<Self, ServerFault> {
        let response = client.open_events(url, &headers).await;
        let response = response.map_err(|error| http_fault(&error, client.server()))?;
        let bytes = stream::try_unfold((response, EventSize::default()), async |(mut response, mut size)| {
            match response.chunk().await? {
                None => Ok(None),
                Some(bytes) if size.take(&bytes) => Ok(Some((bytes, (response, size)))),
                Some(_) => Err(BrokenStream::Oversized),
            }
        });
        let mut events = SseStream::from_bytes_stream(bytes).boxed();
        let endpoint = loop {
            match events.next().await {
                Some(Ok(event)) if event.event.as_deref() == Some("endpoint") => {
                    break event.data.unwrap_or_default();
                }
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    let oversized = oversized(&error);
                    return Err(oversized.unwrap_or_else(|| ServerFault::Unreachable(error.to_string())));
                }
                None => return Err(ServerFault::Closed),
            }
        };
        let endpoint = url.join(endpoint.trim()).map_err(|error| {
            ServerFault::Protocol(format!("its address for requests is invalid: {error}"))
        })?;
        // Whoever answers must not send our headers and arguments to somebody else.
        if endpoint.origin() != url.origin() {
            return Err(ServerFault::Redirect(endpoint.origin().ascii_serialization()));
        }
        Ok(Self { events, client, endpoint, headers, stray_events: 0, signals, log })
    }
}

/// The fault of a stream that ends because an event is too large.
fn oversized(error: &SseError) -> Option<ServerFault> {
    let SseError::Body(cause) = error else { return None };
    match cause.downcast_ref()? {
        BrokenStream::Oversized => Some(ServerFault::Oversized { limit: MESSAGE >> 20 }),
        BrokenStream::Http(_) => None,
    }
}

impl Transport<RoleClient> for SseTransport {
    type Error = StreamableHttpError<reqwest::Error>;

    fn send(
        &mut self,
        message: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let (client, endpoint, headers) = (self.client.clone(), self.endpoint.clone(), self.headers.clone());
        // The answer comes as an event; what is in the body doesn't matter.
        async move { client.post(&endpoint, &headers, &message).await }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let event = match self.events.next().await? {
                Ok(event) => event,
                Err(error) => {
                    self.log.add(LogSource::Hub, &format!("the stream of events broke: {error}"));
                    if let Some(fault) = oversized(&error) {
                        self.signals.fail(fault);
                        self.signals.oversized();
                    }
                    return None;
                }
            };
            let data = event.data.unwrap_or_default();
            if event.event.is_some_and(|name| name != "message") || data.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(&data) {
                Ok(message) => return Some(message),
                Err(_) => {
                    let sample: String = data.chars().filter(|c| !c.is_control()).take(120).collect();
                    self.log.add(LogSource::Hub, &format!("an event that is no MCP message: {sample}"));
                    self.stray_events += 1;
                    if self.stray_events > STRAY_EVENTS {
                        self.signals
                            .fail(ServerFault::Protocol(format!("it sends events such as `{sample}`")));
                        return None;
                    }
                }
            }
        }
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.events = futures_util::stream::empty().boxed();
        Ok(())
    }
}
