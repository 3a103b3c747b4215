//! Accepting clients, and what each of them says.

use std::sync::Arc;

use roo_text::render::one_line;
use tokio::io::BufReader;
use tokio::net::UnixStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::clients::{Backlog, Client, Clients};
use super::command;
use super::frames::{Frame, Framing, next_frame};
use super::requests::{Requests, Setup};
use super::socket::IpcSocket;

/// The longest part of a client's text in a notice, in characters.
const QUOTED: usize = 80;

/// Serves clients until it is told to end. Then the socket is removed, and the requests are left as they are: they are ended, or
/// not, with the engine.
pub(crate) async fn serve(socket: IpcSocket, setup: Setup, told_to_end: impl Future<Output = ()>) {
    let (end, connections) = (CancellationToken::new(), TaskTracker::new());
    let clients = Arc::<Clients>::default();
    let requests = Requests::new(setup, Arc::clone(&clients), end.clone());
    let accept = async {
        let mut is_first = true;
        loop {
            let stream = socket.accept().await;
            match clients.connect(&end) {
                Some((client, backlog)) => {
                    // There was nobody to tell before.
                    if std::mem::take(&mut is_first) {
                        requests.follow_all();
                    }
                    connections.spawn(converse(stream, client, backlog, Arc::clone(&requests)));
                }
                None => tracing::warn!("an IPC client was refused, as too many are connected"),
            }
        }
    };
    tokio::select! {
        () = told_to_end => {}
        () = accept => {}
    }
    // Nobody connects from here on.
    drop(socket);
    end.cancel();
    connections.close();
    connections.wait().await;
    requests.shut_down().await;
}

/// Carries out what a client says, and has it told what happens, until it goes.
async fn converse(stream: UnixStream, client: Client, backlog: Backlog, requests: Arc<Requests>) {
    let (input, output) = stream.into_split();
    let gone = client.gone.clone();
    let write = backlog.write(output);
    let read = read(input, &client, &requests);
    tokio::select! {
        () = gone.cancelled() => {}
        written = write => {
            if let Err(error) = written {
                tracing::debug!("an IPC client is gone: {error}");
            }
        }
        () = read => {}
    }
}

async fn read(input: impl tokio::io::AsyncRead + Unpin, client: &Client, requests: &Arc<Requests>) {
    let (mut input, mut framing) = (BufReader::new(input), Framing::NodeIpc);
    loop {
        let frame = match next_frame(&mut input).await {
            Ok(Some(frame)) => frame,
            Ok(None) => return,
            Err(error) => {
                tracing::debug!("an IPC client is gone: {error}");
                return;
            }
        };
        let Frame { framing: own, text } = frame;
        if own != framing {
            framing = own;
            client.set_framing(own);
        }
        let Some(text) = text else {
            tracing::warn!("a message of an IPC client was skipped: it is longer than 16 MiB, or not UTF-8");
            continue;
        };
        match command::parse(&text) {
            Ok(Some(command)) => requests.carry_out(command).await,
            Ok(None) => {}
            Err(error) => {
                tracing::warn!(
                    "a message of an IPC client was ignored: {error}: {}",
                    one_line(&text, QUOTED)
                );
            }
        }
    }
}
