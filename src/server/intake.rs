//! Input and output of the server: messages reach their handlers in the order in which they were sent,
//! no handler keeps another one waiting, and every request is answered exactly once.
//!
//! A handler is polled once here, in arrival order; what it does before its first `await` is done in
//! order. The text sync handlers have no `await` at all. A handler that isn't done then goes on in a
//! task of its own. The transport of the LSP crate is not used: it runs four handlers at a time and so
//! can wait for itself, it dies of a handler's panic, and it ends at the first message that it can't
//! read.

use std::any::Any;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt as _, SinkExt as _, StreamExt as _};
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};
use tower_lsp::jsonrpc::{Error, ErrorCode, Id, Request, Response};
use tower_lsp::{ClientSocket, ExitedError};
use tower_service::Service;

use roo_language_servers::message_frames::{Frames, write_frame};

/// Maximum number of unanswered requests; the reader waits while there are more.
pub(super) const CONCURRENCY: usize = 4096;
/// Number of bytes written at once.
const WRITE_BATCH: usize = 64 * 1024;
/// Time for which answers are still written after the input has ended.
const DRAIN: Duration = Duration::from_millis(100);

tokio::task_local! {
    /// Cancelled when the answer to the request that is being handled is written.
    static ANSWERED: CancellationToken;
}

/// Within a handler: cancelled once its request is answered, so that what follows can come after.
pub(super) fn answered() -> CancellationToken {
    ANSWERED.try_with(CancellationToken::clone).unwrap_or_else(|_| {
        let token = CancellationToken::new();
        token.cancel();
        token
    })
}

/// Reasons why there is nothing more to do.
#[derive(Debug)]
pub(super) enum IntakeEnd {
    /// The client said `exit`.
    Exit,
    /// The input ended.
    EndOfInput,
    /// The input or the output is broken.
    Broken(io::Error),
}

/// An answer on its way, with its place among the unanswered requests.
struct Outgoing {
    response: Response,
    _place: OwnedSemaphorePermit,
    /// Tells the handler's followers that the answer is written.
    _answered: DropGuard,
}

/// Serves one client until it is done.
pub(super) async fn run<S>(
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin + Send + 'static,
    service: S,
    socket: ClientSocket,
) -> IntakeEnd
where
    S: Service<Request, Response = Option<Response>, Error = ExitedError>,
    S::Future: Send + 'static,
{
    let (requests, answers) = socket.split();
    let (sender, responses) = mpsc::unbounded_channel();
    let mut writing = tokio::spawn(write(output, responses, requests));
    let ending = tokio::select! {
        ending = read(input, service, answers, sender) => ending,
        broken = &mut writing => {
            return IntakeEnd::Broken(broken.map_err(io::Error::other).flatten().err().unwrap_or_else(|| {
                io::ErrorKind::BrokenPipe.into()
            }));
        }
    };
    // A client that doesn't read any more gets no more.
    if tokio::time::timeout(DRAIN, &mut writing).await.is_err() {
        writing.abort();
    }
    ending
}

async fn read<S>(
    input: impl AsyncRead + Unpin,
    mut service: S,
    mut answers: impl futures_util::Sink<Response> + Unpin,
    outgoing: mpsc::UnboundedSender<Outgoing>,
) -> IntakeEnd
where
    S: Service<Request, Response = Option<Response>, Error = ExitedError>,
    S::Future: Send + 'static,
{
    let mut frames = Frames::new(input);
    let places = Arc::new(Semaphore::new(CONCURRENCY));
    let mut handlers = JoinSet::new();
    loop {
        let incoming = match frames.next().await {
            Ok(Some(frame)) => match frame.into_body() {
                Ok(body) => Incoming::read(&body),
                Err(skipped) => {
                    Incoming::refused(Id::Null, ErrorCode::from(skipped.code()), skipped.to_string())
                }
            },
            Ok(None) => return IntakeEnd::EndOfInput,
            Err(error) => return IntakeEnd::Broken(error),
        };
        while handlers.try_join_next().is_some() {}
        let request = match incoming {
            Incoming::Request(request) => request,
            Incoming::Answer(response) => {
                // Nobody waits for it any more if this fails.
                let _ = answers.send(response).await;
                continue;
            }
            Incoming::Refused(response) => {
                let Ok(place) = Arc::clone(&places).acquire_owned().await else { continue };
                let answered = CancellationToken::new().drop_guard();
                let _ = outgoing.send(Outgoing { response, _place: place, _answered: answered });
                continue;
            }
            Incoming::Ignored => continue,
        };
        let exits = request.method() == "exit";
        let id = request.id().cloned();
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { continue };
        let answered = CancellationToken::new();
        let handler = ANSWERED.scope(answered.clone(), service.call(request));
        let mut handler = AssertUnwindSafe(handler).catch_unwind().boxed();
        let outgoing = outgoing.clone();
        let finish = move |outcome| {
            if let Some(response) = response(outcome, id) {
                let answered = answered.drop_guard();
                // The writer has ended only when the client is gone.
                let _ = outgoing.send(Outgoing { response, _place: place, _answered: answered });
            }
        };
        match (&mut handler).now_or_never() {
            Some(outcome) => finish(outcome),
            None => {
                handlers.spawn(handler.map(finish));
            }
        }
        if exits {
            return IntakeEnd::Exit;
        }
    }
}

/// Builds the response of a handler; a panic is an answer too.
fn response(
    outcome: Result<Result<Option<Response>, ExitedError>, Box<dyn Any + Send>>,
    id: Option<Id>,
) -> Option<Response> {
    match outcome {
        Ok(Ok(response)) => response,
        // A request after `exit`.
        Ok(Err(_)) => id.map(|id| Response::from_error(id, Error::invalid_request())),
        Err(_) => id.map(|id| Response::from_error(id, Error::internal_error())),
    }
}

/// A message from the client.
enum Incoming {
    Request(Request),
    Answer(Response),
    Refused(Response),
    /// Without an effect, and without an answer.
    Ignored,
}

impl Incoming {
    fn refused(id: Id, code: ErrorCode, message: String) -> Self {
        Self::Refused(Response::from_error(id, Error { code, message: message.into(), data: None }))
    }

    fn read(body: &[u8]) -> Self {
        let mut message = match serde_json::from_slice(body) {
            Ok(Value::Object(message)) => message,
            Ok(_) => {
                let problem = "a message is one JSON object; batches are not part of the protocol";
                return Self::refused(Id::Null, ErrorCode::InvalidRequest, problem.into());
            }
            Err(error) => return Self::refused(Id::Null, ErrorCode::ParseError, error.to_string()),
        };
        let id = message.get("id").cloned().map(serde_json::from_value::<Id>).and_then(Result::ok);
        match message.get("method") {
            Some(Value::String(method)) => {
                // The router below would do what they say. Whoever sends them so gets no answer to go on with.
                let begins_or_ends = matches!(method.as_str(), "initialize" | "shutdown");
                if begins_or_ends && !message.contains_key("id") {
                    tracing::warn!(method, "a request without an id was ignored");
                    return Self::Ignored;
                }
                // All of ours take an object, and clients leave an empty one out.
                if method.starts_with("roo/") && message.get("params").is_none_or(Value::is_null) {
                    message.insert("params".into(), Value::Object(Map::new()));
                }
                match serde_json::from_value(Value::Object(message)) {
                    Ok(request) => Self::Request(request),
                    Err(error) => {
                        Self::refused(id.unwrap_or_default(), ErrorCode::InvalidRequest, error.to_string())
                    }
                }
            }
            None if id.is_some() && (message.contains_key("result") || message.contains_key("error")) => {
                Self::Answer(answer(id.unwrap_or_default(), message))
            }
            _ => {
                let problem = "a message has a `method`, or an `id` with a `result` or an `error`";
                Self::refused(id.unwrap_or_default(), ErrorCode::InvalidRequest, problem.into())
            }
        }
    }
}

/// A client's answer, whatever else stands in it: somebody waits for it.
fn answer(id: Id, mut message: Map<String, Value>) -> Response {
    match message.remove("error") {
        None | Some(Value::Null) => Response::from_ok(id, message.remove("result").unwrap_or_default()),
        Some(error) => {
            let code =
                error.get("code").and_then(Value::as_i64).map_or(ErrorCode::InternalError, ErrorCode::from);
            let text = error.get("message").and_then(Value::as_str).unwrap_or("no reason given");
            let data = error.get("data").cloned();
            Response::from_error(id, Error { code, message: text.to_owned().into(), data })
        }
    }
}

/// Writes answers, and what the server itself has to say, until all is answered or the client is gone.
async fn write(
    mut output: impl AsyncWrite + Unpin,
    mut responses: mpsc::UnboundedReceiver<Outgoing>,
    mut requests: impl futures_util::Stream<Item = Request> + Unpin,
) -> io::Result<()> {
    let mut batch = Vec::new();
    let mut written = Vec::new();
    loop {
        tokio::select! {
            outgoing = responses.recv() => {
                let Some(outgoing) = outgoing else { return Ok(()) };
                // What was said before the answer comes before it.
                while batch.len() < WRITE_BATCH && let Some(Some(request)) = requests.next().now_or_never() {
                    encode(&request, &mut batch)?;
                }
                encode(&outgoing.response, &mut batch)?;
                written.push(outgoing);
            }
            Some(request) = requests.next() => encode(&request, &mut batch)?,
        }
        output.write_all(&batch).await?;
        output.flush().await?;
        batch.clear();
        batch.shrink_to(WRITE_BATCH);
        written.clear();
    }
}

fn encode(message: &impl Serialize, batch: &mut Vec<u8>) -> io::Result<()> {
    write_frame(&serde_json::to_vec(message)?, batch);
    Ok(())
}

#[cfg(test)]
mod tests;
