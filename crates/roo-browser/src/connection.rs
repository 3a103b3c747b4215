//! The connection to a browser: JSON messages that each end with a zero byte, calls and their answers, and events.
//!
//! One task reads and one writes. Events are folded by whoever reads, and lead at most to calls that nobody waits for, so a
//! page that floods the connection makes it neither grow nor stop.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::protocol::{Command, Notice};

/// The longest message, in bytes: a picture of the largest screen, in base64. Longer answers are skipped.
const MESSAGE: u64 = 64 << 20;
/// Length from which an answer is read on a thread for such work, in bytes.
const LARGE: usize = 1 << 20;
/// The most messages that wait until the browser reads them.
const WAITING: usize = 4096;

/// Reasons why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CallError {
    /// The browser refused it.
    #[error("{0}")]
    Refused(String),
    /// The answer was too long to be taken.
    #[error("its answer is too long")]
    TooLong,
    /// There was no answer in time.
    #[error("the page has not answered for {} seconds", .0.as_secs())]
    Silent(Duration),
    /// The browser has ended.
    #[error("{0}")]
    Ended(String),
}

/// A message of the browser.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Incoming {
    id: Option<u64>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    result: Option<Box<RawValue>>,
    error: Option<Refusal>,
    session_id: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Refusal {
    message: String,
}

/// Calls that wait for their answers; none once the connection has ended, for this reason.
type Pending = Result<HashMap<u64, oneshot::Sender<Answer>>, String>;

/// An answer as it was sent; none for one without content.
type Answer = Result<Option<Box<RawValue>>, CallError>;

/// The connection, for those who call.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    outgoing: mpsc::Sender<Vec<u8>>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pending: Mutex<Pending>,
    next: std::sync::atomic::AtomicU64,
    /// Cancelled when the connection has ended, or is to end.
    ended: CancellationToken,
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&self, call: u64, answer: Answer) {
        let waiting = self.pending().as_mut().ok().and_then(|calls| calls.remove(&call));
        if let Some(waiting) = waiting {
            // Whoever called may have given up.
            let _ = waiting.send(answer);
        }
    }

    fn end(&self, reason: &str) {
        let mut pending = self.pending();
        if let Ok(calls) = &mut *pending {
            for (_, waiting) in calls.drain() {
                // Whoever called may have given up.
                let _ = waiting.send(Err(CallError::Ended(reason.to_owned())));
            }
            *pending = Err(reason.to_owned());
        }
        drop(pending);
        self.ended.cancel();
    }
}

impl Connection {
    /// Talks to a browser over these streams until one of them ends. `on_event` gets the session, the name and the
    /// parameters of each event, and finds out which calls it leads to before the next event is read.
    pub(crate) fn start<F>(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
        on_event: impl FnMut(Option<&str>, &str, Value) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Vec<Notice>> + Send + 'static,
    {
        let (outgoing, messages) = mpsc::channel(WAITING);
        let shared = Arc::new(Shared {
            pending: Mutex::new(Ok(HashMap::new())),
            next: std::sync::atomic::AtomicU64::new(1),
            ended: CancellationToken::new(),
        });
        let connection = Self { outgoing, shared };
        tokio::spawn(write(writer, messages, Arc::clone(&connection.shared)));
        tokio::spawn(read(reader, connection.clone(), on_event));
        connection
    }

    pub(crate) fn end(&self) {
        self.shared.end("the browser was closed");
    }

    /// Cancelled when it has ended.
    pub(crate) fn ended(&self) -> &CancellationToken {
        &self.shared.ended
    }

    /// Returns why it has ended; none while it goes on.
    pub(crate) fn end_reason(&self) -> Option<String> {
        self.shared.pending().as_ref().err().cloned()
    }

    /// Calls the browser, in the session of a target or in its own, and waits for the answer at most for `limit`.
    pub(crate) async fn call<C: Command>(
        &self,
        session: Option<&str>,
        command: &C,
        limit: Duration,
    ) -> Result<C::Reply, CallError> {
        let params = serde_json::to_value(command).map_err(|error| CallError::Refused(error.to_string()))?;
        let (sender, answer) = oneshot::channel();
        let id = self.next();
        match &mut *self.shared.pending() {
            Ok(calls) => drop(calls.insert(id, sender)),
            Err(reason) => return Err(CallError::Ended(reason.clone())),
        }
        let asked = async {
            let message = frame(id, session, C::METHOD, &params);
            if self.outgoing.send(message).await.is_err() {
                self.shared.end("the browser has ended");
            }
            answer.await.unwrap_or_else(|_| Err(CallError::Ended("the browser has ended".to_owned())))
        };
        let answered = timeout(limit, asked).await.unwrap_or(Err(CallError::Silent(limit)));
        if let Ok(calls) = &mut *self.shared.pending() {
            calls.remove(&id);
        }
        let answer = answered?;
        let length = answer.as_ref().map_or(0, |answer| answer.get().len());
        let read =
            move || serde_json::from_str::<C::Reply>(answer.as_ref().map_or("{}", |answer| answer.get()));
        let read = match length < LARGE {
            true => Ok(read()),
            false => tokio::task::spawn_blocking(read).await,
        };
        let wrong = |error: &dyn std::fmt::Display| CallError::Refused(format!("{}: {error}", C::METHOD));
        read.map_err(|error| wrong(&error))?.map_err(|error| wrong(&error))
    }

    /// Calls without waiting for an answer.
    pub(crate) fn notify(&self, Notice { session, method, params }: &Notice) {
        let message = frame(self.next(), session.as_deref(), method, params);
        if self.outgoing.try_send(message).is_err() {
            self.shared.end("the browser reads nothing any more");
        }
    }

    fn next(&self) -> u64 {
        self.shared.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)
    }
}

fn frame(id: u64, session: Option<&str>, method: &str, params: &Value) -> Vec<u8> {
    let mut message = json!({ "id": id, "method": method, "params": params });
    if let Some(session) = session {
        message["sessionId"] = session.into();
    }
    let mut bytes = message.to_string().into_bytes();
    bytes.push(0);
    bytes
}

async fn write(
    mut writer: impl AsyncWrite + Send + Unpin,
    mut messages: mpsc::Receiver<Vec<u8>>,
    shared: Arc<Shared>,
) {
    let writing = async {
        while let Some(message) = messages.recv().await {
            if writer.write_all(&message).await.is_err() {
                break;
            }
        }
    };
    shared.ended.run_until_cancelled(writing).await;
    shared.end("the browser has ended");
}

async fn read<F>(
    reader: impl AsyncRead + Send + Unpin,
    connection: Connection,
    mut on_event: impl FnMut(Option<&str>, &str, Value) -> F + Send,
) where
    F: Future<Output = Vec<Notice>> + Send,
{
    let mut reader = BufReader::with_capacity(64 << 10, reader);
    let shared = Arc::clone(&connection.shared);
    // Held weakly: the task that writes ends with the last one who calls.
    let weak = (connection.outgoing.downgrade(), Arc::clone(&shared));
    drop(connection);
    let mut message = Vec::new();
    // The call whose answer is too long and is being skipped.
    let mut skipped: Option<u64> = None;
    let reason = loop {
        message.clear();
        message.shrink_to(LARGE);
        let reading = async { (&mut reader).take(MESSAGE).read_until(0, &mut message).await };
        match shared.ended.run_until_cancelled(reading).await {
            None => return,
            Some(Ok(0)) => break "the browser has ended",
            Some(Err(_)) => break "the browser can't be read any more",
            Some(Ok(_)) => {}
        }
        let is_whole = message.pop_if(|last| *last == 0).is_some();
        if let Some(call) = skipped.take_if(|_| is_whole) {
            shared.answer(call, Err(CallError::TooLong));
            continue;
        }
        if !is_whole {
            if (message.len() as u64) < MESSAGE {
                break "the browser has ended";
            }
            skipped = skipped.or_else(|| id_of(&message));
            if skipped.is_none() {
                break "the browser sent a message that is too long";
            }
            continue;
        }
        let Ok(incoming) = serde_json::from_slice::<Incoming>(&message) else {
            break "the browser sent what is no message of its protocol";
        };
        match (incoming.id, incoming.method) {
            (Some(id), _) => {
                let answer = match incoming.error {
                    Some(refusal) => Err(CallError::Refused(refusal.message)),
                    None => Ok(incoming.result),
                };
                shared.answer(id, answer);
            }
            (None, Some(method)) => {
                let notices = on_event(incoming.session_id.as_deref(), &method, incoming.params).await;
                let (outgoing, shared) = &weak;
                let Some(outgoing) = outgoing.upgrade() else { return };
                let connection = Connection { outgoing, shared: Arc::clone(shared) };
                notices.iter().for_each(|notice| connection.notify(notice));
            }
            (None, None) => {}
        }
    };
    shared.end(reason);
}

/// The id of the call that a message answers, by its beginning alone.
fn id_of(message: &[u8]) -> Option<u64> {
    let rest = message.strip_prefix(b"{\"id\":")?;
    let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{GetNavigationHistory, StopLoading};
    use tokio::io::DuplexStream;

    const SOON: Duration = Duration::from_secs(60);

    async fn next_message(stream: &mut BufReader<DuplexStream>) -> Value {
        let mut message = Vec::new();
        stream.read_until(0, &mut message).await.unwrap();
        assert_eq!(message.pop(), Some(0));
        serde_json::from_slice(&message).unwrap()
    }

    fn connect(
        mut on_event: impl FnMut(Option<&str>, &str, Value) -> Vec<Notice> + Send + 'static,
    ) -> (Connection, BufReader<DuplexStream>) {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(ours);
        let on_event = move |session: Option<&str>, method: &str, params: Value| {
            std::future::ready(on_event(session, method, params))
        };
        (Connection::start(reader, writer, on_event), BufReader::new(theirs))
    }

    #[tokio::test]
    async fn answers_find_their_calls_in_any_order_and_unknown_ones_nobody() {
        let (connection, mut browser) = connect(|_, _, _| vec![]);
        let serve = async {
            let (first, second) = (next_message(&mut browser).await, next_message(&mut browser).await);
            assert_eq!((&first["method"], &first["sessionId"]), (&json!("Page.stopLoading"), &json!("s")));
            let refused = json!({ "id": second["id"], "error": { "code": 1, "message": "no such page" } });
            for answer in
                [json!({ "id": 99, "result": {} }), refused, json!({ "id": first["id"], "result": {} })]
            {
                let text = format!("{answer}\0");
                browser.write_all(text.as_bytes()).await.unwrap();
            }
        };
        let first = connection.call(Some("s"), &StopLoading {}, SOON);
        let second = connection.call(None, &GetNavigationHistory {}, SOON);
        let (first, second, ()) = tokio::join!(first, second, serve);
        assert!(first.is_ok());
        assert_eq!(second.unwrap_err(), CallError::Refused("no such page".to_owned()));
    }

    #[tokio::test]
    async fn an_event_leads_to_calls_at_once_and_the_end_of_the_browser_ends_every_call() {
        let (connection, mut browser) = connect(|session, method, _| {
            vec![Notice::new(session, "Page.enable", json!({ "because": method }))]
        });
        let event = format!("{}\0", json!({ "method": "Some.event", "params": {}, "sessionId": "s" }));
        browser.write_all(event.as_bytes()).await.unwrap();
        let called = next_message(&mut browser).await;
        assert_eq!((&called["sessionId"], &called["params"]["because"]), (&json!("s"), &json!("Some.event")));
        let call = connection.call(None, &StopLoading {}, SOON);
        let end = async { drop(browser) };
        let (called, ()) = tokio::join!(call, end);
        assert_eq!(called.unwrap_err(), CallError::Ended("the browser has ended".to_owned()));
        assert!(connection.ended().is_cancelled());
        assert!(matches!(connection.call(None, &StopLoading {}, SOON).await, Err(CallError::Ended(_))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_without_an_answer_is_given_up() {
        let (connection, _browser) = connect(|_, _, _| vec![]);
        let limit = Duration::from_secs(10);
        assert_eq!(
            connection.call(None, &StopLoading {}, limit).await.unwrap_err(),
            CallError::Silent(limit)
        );
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_fails_its_call_and_no_other() {
        let (connection, mut browser) = connect(|_, _, _| vec![]);
        let serve = async {
            let (first, second) = (next_message(&mut browser).await, next_message(&mut browser).await);
            let begin = format!("{{\"id\":{},\"result\":{{\"nodes\":\"", first["id"]);
            browser.write_all(begin.as_bytes()).await.unwrap();
            let piece = vec![b'x'; 1 << 20];
            for _ in 0..=2 * (MESSAGE >> 20) {
                browser.write_all(&piece).await.unwrap();
            }
            let end = format!("\"}}}}\0{}\0", json!({ "id": second["id"], "result": {} }));
            browser.write_all(end.as_bytes()).await.unwrap();
        };
        let first = connection.call(None, &StopLoading {}, SOON);
        let second = connection.call(None, &StopLoading {}, SOON);
        let (first, second, ()) = tokio::join!(first, second, serve);
        assert_eq!(first.unwrap_err(), CallError::TooLong);
        assert!(second.is_ok(), "{second:?}");
    }

    #[tokio::test]
    async fn what_is_no_message_ends_the_connection() {
        let (connection, mut browser) = connect(|_, _, _| vec![]);
        browser.write_all(b"{ not json\0").await.unwrap();
        connection.ended().cancelled().await;
        let ended = connection.call(None, &StopLoading {}, SOON).await.unwrap_err();
        assert_eq!(ended, CallError::Ended("the browser sent what is no message of its protocol".to_owned()));
    }
}
