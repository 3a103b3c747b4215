//! Known faults of the LSP crate's transport, tested with handlers made for it.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tower_lsp::jsonrpc::Result;
use tower_lsp::ls_types::{
    DidChangeTextDocumentParams, InitializeParams, InitializeResult, MessageActionItem, MessageType,
};
use tower_lsp::{Client, LanguageServer, LspService};

use super::*;
use roo_language_servers::message_frames::Frame;

/// Nothing here takes longer, however busy the machine.
const PATIENCE: Duration = Duration::from_secs(20);

struct Backend {
    client: Client,
    version: AtomicI32,
    told: Arc<AtomicI32>,
    answered: Arc<AtomicBool>,
    go_on: Notify,
    unblocked: Mutex<Receiver<()>>,
}

impl LanguageServer for Backend {
    async fn initialize(&self, _: InitializeParams) -> Result<InitializeResult> {
        Ok(InitializeResult::default())
    }

    async fn shutdown(&self) -> Result<()> {
        Ok(())
    }

    async fn did_change(&self, params: DidChangeTextDocumentParams) {
        self.version.store(params.text_document.version, Ordering::SeqCst);
    }
}

async fn version(backend: &Backend) -> Result<i32> {
    let version = backend.version.load(Ordering::SeqCst);
    tokio::task::yield_now().await;
    Ok(version)
}

async fn echo(_: &Backend, value: Value) -> Result<Value> {
    Ok(value)
}

/// Waits for an answer of the client.
async fn ask(backend: &Backend) -> Result<Option<MessageActionItem>> {
    backend.client.show_message_request(MessageType::INFO, "?", None).await
}

async fn panics_at_once(_: &Backend) -> Result<()> {
    panic!("at once, as this test wants it")
}

async fn panics_later(_: &Backend) -> Result<()> {
    tokio::task::yield_now().await;
    panic!("later, as this test wants it")
}

async fn blocks_its_thread(backend: &Backend) -> Result<()> {
    tokio::task::yield_now().await;
    // Ends with the peer too.
    let _ = backend.unblocked.lock().unwrap().recv();
    Ok(())
}

async fn never(_: &Backend) -> Result<()> {
    std::future::pending().await
}

/// Tells the client without end.
async fn floods(backend: &Backend) -> Result<()> {
    let (client, told) = (backend.client.clone(), Arc::clone(&backend.told));
    tokio::spawn(async move {
        loop {
            client.log_message(MessageType::LOG, "x".repeat(200)).await;
            told.fetch_add(1, Ordering::SeqCst);
        }
    });
    Ok(())
}

/// Says something before its answer, and has something follow it.
async fn surrounds(backend: &Backend) -> Result<()> {
    backend.client.log_message(MessageType::LOG, "before").await;
    let (client, answered) = (backend.client.clone(), super::answered());
    let seen = Arc::clone(&backend.answered);
    tokio::spawn(async move {
        answered.cancelled().await;
        seen.store(true, Ordering::SeqCst);
        client.log_message(MessageType::LOG, "after").await;
    });
    backend.go_on.notified().await;
    Ok(())
}

async fn go_on(backend: &Backend) -> Result<bool> {
    backend.go_on.notify_one();
    Ok(backend.answered.load(Ordering::SeqCst))
}

/// The client's side.
struct Peer {
    output: WriteHalf<DuplexStream>,
    input: Frames<ReadHalf<DuplexStream>>,
    server: JoinHandle<IntakeEnd>,
    told: Arc<AtomicI32>,
    unblock: Sender<()>,
    next: i64,
}

impl Peer {
    async fn new() -> Self {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let told = Arc::new(AtomicI32::new(0));
        let backend_told = Arc::clone(&told);
        let (unblock, unblocked) = channel();
        let (service, socket) = LspService::build(|client| Backend {
            client,
            version: AtomicI32::new(0),
            told: backend_told,
            answered: Arc::default(),
            go_on: Notify::new(),
            unblocked: Mutex::new(unblocked),
        })
        .custom_method("test/version", version)
        .custom_method("test/echo", echo)
        .custom_method("test/ask", ask)
        .custom_method("test/panicsAtOnce", panics_at_once)
        .custom_method("test/panicsLater", panics_later)
        .custom_method("test/blocks", blocks_its_thread)
        .custom_method("test/never", never)
        .custom_method("test/floods", floods)
        .custom_method("test/surrounds", surrounds)
        .custom_method("test/goOn", go_on)
        .finish();
        let (input, output) = tokio::io::split(theirs);
        let server = tokio::spawn(run(input, output, service, socket));
        let (input, output) = tokio::io::split(ours);
        let mut peer = Self { output, input: Frames::new(input), server, told, unblock, next: 0 };
        let id = peer.ask("initialize", json!({ "capabilities": {} })).await;
        assert!(peer.answer_to(id).await.get("result").is_some());
        peer
    }

    async fn write(&mut self, message: Value) {
        let body = message.to_string();
        self.write_raw(format!("Content-Length: {}\r\n\r\n{body}", body.len()).as_bytes()).await;
    }

    async fn write_raw(&mut self, bytes: &[u8]) {
        self.output.write_all(bytes).await.unwrap();
    }

    async fn ask(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        self.write(json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params })).await;
        self.next
    }

    async fn ask_plainly(&mut self, method: &str) -> i64 {
        self.next += 1;
        self.write(json!({ "jsonrpc": "2.0", "id": self.next, "method": method })).await;
        self.next
    }

    async fn change(&mut self, version: i32) {
        let params =
            json!({ "textDocument": { "uri": "file:///a", "version": version }, "contentChanges": [] });
        self.write(json!({ "jsonrpc": "2.0", "method": "textDocument/didChange", "params": params })).await;
    }

    async fn read(&mut self) -> Value {
        let frame = tokio::time::timeout(PATIENCE, self.input.next());
        match frame.await.expect("nothing came").unwrap() {
            Some(Frame::Body(body)) => serde_json::from_slice(&body).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// The next message must be the answer to this request.
    async fn answer_to(&mut self, id: i64) -> Value {
        let message = self.read().await;
        assert_eq!(message["id"], id, "{message}");
        message
    }

    async fn is_alive(&mut self) {
        let id = self.ask("test/echo", json!("still here")).await;
        assert_eq!(self.answer_to(id).await["result"], "still here");
    }

    async fn ending(self) -> IntakeEnd {
        tokio::time::timeout(PATIENCE, self.server).await.expect("it goes on").unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_see_every_change_before_them_and_none_after() {
    let mut peer = Peer::new().await;
    let mut expected = std::collections::HashMap::new();
    for round in 0..10 {
        for version in round * 100 + 1..=round * 100 + 100 {
            peer.change(version).await;
            expected.insert(peer.ask_plainly("test/version").await, version);
        }
        for _ in 0..100 {
            let answer = peer.read().await;
            assert_eq!(answer["result"], expected[&answer["id"].as_i64().unwrap()]);
        }
    }
}

#[tokio::test]
async fn handlers_that_wait_for_the_client_keep_nobody_waiting() {
    let mut peer = Peer::new().await;
    let mut asked = Vec::new();
    let waiting: Vec<i64> = {
        let mut ids = Vec::new();
        for _ in 0..200 {
            ids.push(peer.ask_plainly("test/ask").await);
            asked.push(peer.read().await["id"].clone());
        }
        ids
    };
    peer.is_alive().await;
    // Far more messages than any channel holds, before the answers.
    for version in 1..=5000 {
        peer.change(version).await;
    }
    for id in asked {
        peer.write(json!({ "jsonrpc": "2.0", "id": id, "result": null })).await;
    }
    let mut answered: Vec<i64> = Vec::new();
    for _ in 0..200 {
        answered.push(peer.read().await["id"].as_i64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, waiting);
}

#[tokio::test]
async fn a_cancelled_request_is_answered_at_once_and_a_late_answer_harms_nobody() {
    let mut peer = Peer::new().await;
    let id = peer.ask_plainly("test/ask").await;
    let asked = peer.read().await;
    peer.write(json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": id } })).await;
    assert_eq!(peer.answer_to(id).await["error"]["code"], -32800);
    peer.write(json!({ "jsonrpc": "2.0", "id": asked["id"], "result": null })).await;
    peer.write(json!({ "jsonrpc": "2.0", "id": 4711, "result": null })).await;
    peer.write(json!({ "jsonrpc": "2.0", "method": "$/cancelRequest", "params": { "id": 4711 } })).await;
    peer.is_alive().await;
}

#[tokio::test]
async fn an_odd_error_answer_still_reaches_who_waits_for_it() {
    let mut peer = Peer::new().await;
    let id = peer.ask_plainly("test/ask").await;
    let asked = peer.read().await;
    let error = json!({ "code": 1.5, "message": "no", "stack": "extra" });
    peer.write(json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error })).await;
    assert_eq!(peer.answer_to(id).await["error"]["message"], "no");
}

#[tokio::test]
async fn a_panic_is_an_answer() {
    let mut peer = Peer::new().await;
    for method in ["test/panicsAtOnce", "test/panicsLater"] {
        let id = peer.ask_plainly(method).await;
        assert_eq!(peer.answer_to(id).await["error"]["code"], -32603, "{method}");
        peer.is_alive().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_does_not_block_the_next() {
    let mut peer = Peer::new().await;
    let blocking = peer.ask_plainly("test/blocks").await;
    peer.is_alive().await;
    peer.unblock.send(()).unwrap();
    peer.answer_to(blocking).await;
}

#[tokio::test]
async fn exit_ends_it_though_the_input_stays_open() {
    let mut peer = Peer::new().await;
    peer.ask_plainly("test/never").await;
    peer.write(json!({ "jsonrpc": "2.0", "method": "exit" })).await;
    assert!(matches!(peer.ending().await, IntakeEnd::Exit));
}

#[tokio::test]
async fn the_end_of_the_input_ends_it_though_handlers_wait() {
    let mut peer = Peer::new().await;
    peer.ask_plainly("test/never").await;
    peer.ask_plainly("test/ask").await;
    peer.read().await;
    peer.output.shutdown().await.unwrap();
    assert!(matches!(peer.ending().await, IntakeEnd::EndOfInput));
}

#[tokio::test]
async fn answers_that_are_ready_at_the_end_are_still_written() {
    let mut peer = Peer::new().await;
    let id = peer.ask("test/echo", json!(1)).await;
    peer.output.shutdown().await.unwrap();
    peer.answer_to(id).await;
    assert!(matches!(peer.ending().await, IntakeEnd::EndOfInput));
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_survived() {
    let mut peer = Peer::new().await;
    for (bytes, code) in [
        ("Content-Length: 5\r\n\r\n{\"a\":", -32700),
        ("Content-Length: 2\r\n\r\n\u{7f}\u{7f}", -32700),
        ("Content-Length: 0\r\n\r\n", -32700),
        ("nonsense\r\n", -32700),
        ("Content-Length: 2\r\n\r\n[]", -32600),
        ("Content-Length: 2\r\n\r\n{}", -32600),
        ("Content-Length: 13\r\n\r\n{\"method\":{}}", -32600),
        ("Content-Length: 14\r\n\r\n{\"method\":\"m\"}", -32600),
    ] {
        peer.write_raw(bytes.as_bytes()).await;
        let refused = peer.read().await;
        assert_eq!(
            (&refused["id"], refused["error"]["code"].as_i64()),
            (&Value::Null, Some(code)),
            "{bytes:?}"
        );
        peer.is_alive().await;
    }
    // Invalid UTF-8, and JSON that nests too deep.
    peer.write_raw(b"Content-Length: 4\r\n\r\n\"\xff\xfe\"").await;
    assert_eq!(peer.read().await["error"]["code"], -32700);
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    peer.write_raw(format!("Content-Length: {}\r\n\r\n{deep}", deep.len()).as_bytes()).await;
    assert_eq!(peer.read().await["error"]["code"], -32700);
    peer.is_alive().await;
}

#[tokio::test]
async fn a_wrong_request_is_refused_under_its_own_id() {
    let mut peer = Peer::new().await;
    for (message, code) in [
        (json!({ "jsonrpc": "2.0", "id": "x", "method": "no/such" }), -32601),
        (json!({ "jsonrpc": "2.0", "id": "x", "method": "test/echo" }), -32602),
        (json!({ "jsonrpc": "1.0", "id": "x", "method": "test/echo", "params": 1 }), -32600),
        (json!({ "jsonrpc": "2.0", "id": "x", "method": "initialize", "params": {} }), -32600),
    ] {
        peer.write(message.clone()).await;
        let refused = peer.read().await;
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!("x"), &json!(code)), "{message}");
    }
    peer.is_alive().await;
}

#[tokio::test(start_paused = true)]
async fn who_does_not_read_stops_what_is_told_but_not_what_is_heard() {
    let mut peer = Peer::new().await;
    let id = peer.ask_plainly("test/floods").await;
    // Paused time goes on once nobody can do more: everything is full.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let told = peer.told.load(Ordering::SeqCst);
    assert!(
        (1..2000).contains(&told),
        "{told} messages of 200 bytes are held for a client that does not read"
    );
    for version in 1..=50 {
        peer.change(version).await;
    }
    let version = peer.ask_plainly("test/version").await;
    loop {
        let message = peer.read().await;
        if message["id"] == version {
            assert_eq!(message["result"], 50);
            break;
        }
        assert!(message["id"] == id || message["method"] == "window/logMessage", "{message}");
    }
}

#[tokio::test]
async fn what_is_said_around_an_answer_keeps_its_place() {
    let mut peer = Peer::new().await;
    let id = peer.ask_plainly("test/surrounds").await;
    assert_eq!(peer.read().await["params"]["message"], "before");
    let go_on = peer.ask_plainly("test/goOn").await;
    let mut answered = Vec::new();
    for _ in 0..2 {
        answered.push(peer.read().await["id"].as_i64().unwrap());
    }
    answered.sort_unstable();
    assert_eq!(answered, [id, go_on]);
    assert_eq!(peer.read().await["params"]["message"], "after");
}
