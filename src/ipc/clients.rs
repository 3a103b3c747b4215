//! All who are connected. What happens is told to every client; one that doesn't read is not waited for, and is disconnected
//! when too much waits for it.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::frames::Framing;
use crate::roo_api::RooEvent;

/// The most clients at once.
const MAX_CLIENTS: usize = 64;
/// The most messages that wait for a client.
const MESSAGES: usize = 4096;
/// The most bytes that wait for a client.
const BYTES: usize = 32 << 20;

/// What goes to a client.
enum Outgoing {
    Message(Arc<str>),
    Framing(Framing),
}

struct Connected {
    outgoing: mpsc::Sender<Outgoing>,
    waiting: Arc<AtomicUsize>,
    gone: CancellationToken,
}

impl Connected {
    /// Has a message sent, unless too much waits.
    fn send(&self, message: &Arc<str>) -> bool {
        let waiting = self.waiting.fetch_add(message.len(), Ordering::Relaxed);
        waiting <= BYTES && self.outgoing.try_send(Outgoing::Message(Arc::clone(message))).is_ok()
    }
}

/// The clients of a server.
#[derive(Default)]
pub(super) struct Clients {
    connected: Mutex<HashMap<String, Connected>>,
}

/// One client, as long as it is connected.
pub(super) struct Client {
    id: String,
    /// Cancelled when it is to be disconnected.
    pub(super) gone: CancellationToken,
    clients: Arc<Clients>,
}

/// What is to be written to a client.
pub(super) struct Backlog {
    outgoing: mpsc::Receiver<Outgoing>,
    waiting: Arc<AtomicUsize>,
}

impl Clients {
    fn connected(&self) -> MutexGuard<'_, HashMap<String, Connected>> {
        self.connected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a client, and welcomes it; none where there are too many.
    pub(super) fn connect(self: &Arc<Self>, end: &CancellationToken) -> Option<(Client, Backlog)> {
        let mut connected = self.connected();
        if connected.len() >= MAX_CLIENTS {
            return None;
        }
        let mut id = uuid::Uuid::new_v4().simple().to_string();
        // As long as those of Roo Code.
        id.truncate(12);
        let (sender, outgoing) = mpsc::channel(MESSAGES);
        let (waiting, gone) = (Arc::<AtomicUsize>::default(), end.child_token());
        let known = Connected { outgoing: sender, waiting: Arc::clone(&waiting), gone: gone.clone() };
        known.send(&ack(&id));
        connected.insert(id.clone(), known);
        let client = Client { id, gone, clients: Arc::clone(self) };
        Some((client, Backlog { outgoing, waiting }))
    }

    /// Tells all clients.
    pub(super) fn broadcast(&self, event: &RooEvent) {
        let mut connected = self.connected();
        if connected.is_empty() {
            return;
        }
        let message = json!({ "type": "TaskEvent", "origin": "server", "data": event.to_json() });
        let message: Arc<str> = message.to_string().into();
        connected.retain(|id, client| {
            let is_sent = client.send(&message);
            if !is_sent {
                tracing::warn!("the IPC client {id} does not read what it is sent, and was disconnected");
                client.gone.cancel();
            }
            is_sent
        });
    }
}

impl Client {
    /// From now on messages to it are framed like this. It is welcomed again, as it could not read the first welcome.
    pub(super) fn set_framing(&self, framing: Framing) {
        if let Some(client) = self.clients.connected().get(&self.id)
            && client.outgoing.try_send(Outgoing::Framing(framing)).is_ok()
        {
            client.send(&ack(&self.id));
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.clients.connected().remove(&self.id);
    }
}

impl Backlog {
    /// Writes until nobody sends any more.
    pub(super) async fn write(mut self, mut output: impl AsyncWrite + Unpin) -> io::Result<()> {
        let mut framing = Framing::NodeIpc;
        while let Some(outgoing) = self.outgoing.recv().await {
            match outgoing {
                Outgoing::Message(message) => {
                    let (before, after) = framing.around();
                    for part in [before, &*message, after] {
                        output.write_all(part.as_bytes()).await?;
                    }
                    output.flush().await?;
                    self.waiting.fetch_sub(message.len(), Ordering::Relaxed);
                }
                Outgoing::Framing(new) => {
                    if new == Framing::Lines {
                        // What was written before is no line.
                        output.write_all(b"\n").await?;
                    }
                    framing = new;
                }
            }
        }
        Ok(())
    }
}

/// The welcome of a client.
fn ack(id: &str) -> Arc<str> {
    let (pid, ppid) = (std::process::id(), std::os::unix::process::parent_id());
    let data: Value = json!({ "clientId": id, "pid": pid, "ppid": ppid });
    json!({ "type": "Ack", "origin": "server", "data": data }).to_string().into()
}

#[cfg(test)]
mod tests {
    use roo_protocol::ids::TaskId;

    use super::*;
    use crate::roo_api::Lifecycle;

    fn event() -> RooEvent {
        RooEvent::Lifecycle(Lifecycle::Active, TaskId::new("t"))
    }

    #[tokio::test]
    async fn a_client_is_welcomed_told_and_forgotten() {
        let clients = Arc::<Clients>::default();
        let (client, backlog) = clients.connect(&CancellationToken::new()).unwrap();
        clients.broadcast(&event());
        client.set_framing(Framing::Lines);
        clients.broadcast(&event());
        drop(client);
        assert!(clients.connected().is_empty());
        let mut written = Vec::new();
        backlog.write(&mut written).await.unwrap();
        let written = String::from_utf8(written).unwrap();
        let (framed, lines) = written.split_once("\x0c\n").unwrap();
        let task_event =
            r#"{"type":"TaskEvent","origin":"server","data":{"eventName":"taskActive","payload":["t"]}}"#;
        let (welcome, told) = framed.split_once('\x0c').unwrap();
        assert_eq!(told, format!(r#"{{"type":"message","data":{task_event}}}"#));
        let welcome: Value = serde_json::from_str(welcome).unwrap();
        assert_eq!(welcome["data"]["data"]["pid"], std::process::id());
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines, [welcome["data"].to_string().as_str(), task_event]);
    }

    #[tokio::test]
    async fn a_client_that_does_not_read_is_disconnected_and_the_others_are_told() {
        let clients = Arc::<Clients>::default();
        let end = CancellationToken::new();
        let (slow, _unread) = clients.connect(&end).unwrap();
        for _ in 0..MESSAGES {
            clients.broadcast(&event());
        }
        assert!(slow.gone.is_cancelled());
        let (other, _unread) = clients.connect(&end).unwrap();
        clients.broadcast(&event());
        assert!(!other.gone.is_cancelled());
        end.cancel();
        assert!(other.gone.is_cancelled(), "the server ends");
    }

    #[tokio::test]
    async fn there_are_so_many_clients_and_no_more() {
        let clients = Arc::<Clients>::default();
        let end = CancellationToken::new();
        let mut all: Vec<_> = std::iter::from_fn(|| clients.connect(&end)).collect();
        assert_eq!(all.len(), MAX_CLIENTS);
        all.pop();
        assert!(clients.connect(&end).is_some());
    }
}
