//! The HTTP transport of version 2024-11-05: messages come as server-sent events, and go as requests to an address that
//! the first event names.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::streamable_http_client::{StreamableHttpClient as _, StreamableHttpError};
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
    events: BoxStream<'static, Result<Event, String>>,
    client: AuthorizedClient,
    endpoint: Url,
    headers: HashMap<HeaderName, HeaderValue>,
    stray_events: usize,
    signals: Signals,
    log: ServerLog,
}

/// An event of the stream.
struct Event {
    name: Option<String>,
    data: String,
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
        let address: Arc<str> = url.as_str().into();
        let stream = client
            .get_stream_with_max_sse_event_size(address, None, None, None, headers.clone(), MESSAGE)
            .await
            .map_err(|error| http_fault(&error, client.server()))?;
        let mut events = stream
            .map(|event| match event {
                Ok(event) => Ok(Event { name: event.event, data: event.data.unwrap_or_default() }),
                Err(error) => Err(error.to_string()),
            })
            .boxed();
        let endpoint = loop {
            match events.next().await {
                Some(Ok(event)) if event.name.as_deref() == Some("endpoint") => break event.data,
                Some(Ok(_)) => {}
                Some(Err(reason)) => return Err(ServerFault::Unreachable(reason)),
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
                Err(reason) => {
                    self.log.add(LogSource::Hub, &format!("the stream of events broke: {reason}"));
                    if reason.contains("exceeded the maximum size") {
                        self.signals.oversized();
                        self.signals.fail(ServerFault::Oversized { limit: MESSAGE >> 20 });
                    }
                    return None;
                }
            };
            if event.name.as_deref().is_some_and(|name| name != "message") || event.data.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(&event.data) {
                Ok(message) => return Some(message),
                Err(_) => {
                    let sample: String = event.data.chars().filter(|c| !c.is_control()).take(120).collect();
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
