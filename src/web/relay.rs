//! One page: what it says goes to a language server of its own, and what that says goes back.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, Utf8Bytes};

use super::page_methods::{FromPage, FromServer, INITIALIZE};
use roo_language_servers::message_frames::{Frame, Frames};
use roo_protocol::PROTOCOL_VERSION;
use roo_workspace::file_uri;

/// Serves a language server's client at the other end of a stream, until that end is dropped.
pub(crate) type Connect = Arc<dyn Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync>;

/// The client's name, which stands beside what its user answers.
const CLIENT: &str = "Browser";
/// Bytes that are on the way between a page and its server.
const PIPE: usize = 64 * 1024;
/// Messages that wait for their reader. Whoever sends more waits.
const QUEUE: usize = 16;
/// Time limit for a page to be told why it is let go.
const CLOSE_DEADLINE: Duration = Duration::from_secs(2);

/// What a page works with.
pub(super) struct Session {
    /// Begins its language server.
    pub(super) connect: Connect,
    /// The workspace folders.
    pub(super) folders: Arc<[PathBuf]>,
    /// With this it is let in again after it was reloaded.
    pub(super) token: String,
}

/// Serves a page until it or its server is gone.
pub(super) async fn relay<S>(socket: WebSocketStream<S>, session: Session)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (ours, theirs) = tokio::io::duplex(PIPE);
    // A task of its own: the server ends in good order when this end is dropped.
    let served = tokio::spawn((session.connect)(theirs));
    let (mut sink, stream) = socket.split();
    let ending = pass(stream, &mut sink, ours, &session).await;
    if let Some((code, reason)) = ending {
        let frame = CloseFrame { code, reason: Utf8Bytes::from_static(reason) };
        // It may not listen any more.
        let _ = tokio::time::timeout(CLOSE_DEADLINE, sink.send(Message::Close(Some(frame)))).await;
    }
    drop(sink);
    if let Err(error) = served.await {
        tracing::error!(%error, "the language server of a page has failed");
    }
}

/// Why a page is let go; none where it is gone already.
type Ending = Option<(CloseCode, &'static str)>;

/// Passes on what both say, until either is gone.
async fn pass<S>(
    stream: SplitStream<WebSocketStream<S>>,
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
    server: DuplexStream,
    session: &Session,
) -> Ending
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (from_server, to_server) = tokio::io::split(server);
    let (server, for_server) = mpsc::channel(QUEUE);
    let (page, for_page) = mpsc::channel(QUEUE);
    // There is room for the first one.
    let _ = server.try_send(initialize(&session.folders));
    tokio::select! {
        ending = read_page(stream, &server, &page) => ending,
        ending = read_server(from_server, session, &server, &page) => ending,
        written = write_server(for_server, to_server) => {
            tracing::debug!(error = ?written.err(), "the language server of a page takes nothing more");
            Some((CloseCode::Away, "the server has ended"))
        }
        written = write_page(for_page, sink) => {
            tracing::debug!(error = ?written.err(), "a page takes nothing more");
            None
        }
    }
}

/// Reads what a page says.
async fn read_page<S>(
    mut stream: SplitStream<WebSocketStream<S>>,
    server: &mpsc::Sender<String>,
    page: &mpsc::Sender<Utf8Bytes>,
) -> Ending
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(message) = stream.next().await {
        let sent = match message {
            Ok(Message::Text(text)) => match FromPage::read(&text) {
                FromPage::Pass(request) => server.send(request).await.is_ok(),
                FromPage::Answer(answer) => page.send(answer.into()).await.is_ok(),
                FromPage::Invalid => return Some((CloseCode::Policy, "this is no request of the page")),
            },
            Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_)) => true,
            Ok(Message::Binary(_)) => return Some((CloseCode::Unsupported, "messages are text")),
            Ok(Message::Close(_)) => return None,
            Err(Error::Capacity(_)) => return Some((CloseCode::Size, "the message is too long")),
            Err(error) => {
                tracing::debug!(%error, "a page is gone");
                return None;
            }
        };
        if !sent {
            return None;
        }
    }
    None
}

/// Reads what the server says.
async fn read_server(
    input: ReadHalf<DuplexStream>,
    session: &Session,
    server: &mpsc::Sender<String>,
    page: &mpsc::Sender<Utf8Bytes>,
) -> Ending {
    let mut frames = Frames::new(input);
    while let Ok(Some(frame)) = frames.next().await {
        let Frame::Body(body) = frame else { continue };
        let sent = match FromServer::read(&body) {
            FromServer::Pass => match Utf8Bytes::try_from(body) {
                Ok(text) => page.send(text).await.is_ok(),
                Err(_) => true,
            },
            FromServer::Answer(answer) => server.send(answer).await.is_ok(),
            FromServer::Initialized(methods) => {
                let initialized = json!({ "jsonrpc": "2.0", "method": "initialized", "params": {} });
                let ready = ready(&methods, session);
                server.send(initialized.to_string()).await.is_ok() && page.send(ready.into()).await.is_ok()
            }
            FromServer::Ignore => true,
        };
        if !sent {
            break;
        }
    }
    Some((CloseCode::Away, "the server has ended"))
}

async fn write_server(
    mut messages: mpsc::Receiver<String>,
    mut output: WriteHalf<DuplexStream>,
) -> io::Result<()> {
    while let Some(body) = messages.recv().await {
        output.write_all(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    }
    Ok(())
}

async fn write_page<S>(
    mut messages: mpsc::Receiver<Utf8Bytes>,
    sink: &mut SplitSink<WebSocketStream<S>, Message>,
) -> Result<(), Error>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(text) = messages.recv().await {
        sink.send(Message::Text(text)).await?;
    }
    Ok(())
}

/// The page's `initialize`. It takes no edits and opens no documents; what it may say of settings is nothing.
fn initialize(folders: &[PathBuf]) -> String {
    let folders: Vec<Value> = folders
        .iter()
        .map(|folder| json!({ "uri": file_uri(folder), "name": folder.file_name().unwrap_or_default().to_string_lossy() }))
        .collect();
    json!({
        "jsonrpc": "2.0",
        "id": INITIALIZE,
        "method": "initialize",
        "params": {
            "processId": null,
            "rootUri": folders.first().map(|folder| &folder["uri"]),
            "workspaceFolders": folders,
            "clientInfo": { "name": CLIENT },
            "capabilities": { "experimental": { "roo": { "protocolVersion": PROTOCOL_VERSION } } },
        },
    })
    .to_string()
}

/// What a page is told first.
fn ready(methods: &[String], session: &Session) -> String {
    let folders: Vec<String> = session.folders.iter().map(|folder| file_uri(folder)).collect();
    let params = json!({
        "token": session.token,
        "methods": methods,
        "folders": folders,
        "version": env!("CARGO_PKG_VERSION"),
    });
    json!({ "jsonrpc": "2.0", "method": "web/ready", "params": params }).to_string()
}
