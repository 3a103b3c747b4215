//! A model endpoint on loopback: it answers each request with a scripted sequence of steps and records
//! what it was sent. And the bodies that real endpoints stream, in both wire formats.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// Method and path.
    pub line: String,
    /// By lower-case name.
    pub headers: BTreeMap<String, String>,
    /// The body; null if it is no JSON.
    pub body: Value,
}

/// One step of an answer.
#[derive(Clone, Debug)]
pub enum Step {
    /// Status line and headers, written as they are.
    Head(String),
    /// Bytes as they are.
    Bytes(Vec<u8>),
    /// One chunk of a chunked body.
    Chunk(Vec<u8>),
    /// Wait for a signal of the test.
    Wait(Arc<Notify>),
    /// Say nothing more, and tell when the client hangs up.
    Stall(Arc<Notify>),
    /// Close the connection properly.
    Close,
    /// Reset the connection.
    Reset,
}

/// What is answered to one request.
#[derive(Clone, Debug, Default)]
pub struct Answer(pub Vec<Step>);

impl Answer {
    /// Any status with headers (`name: value` lines) and a whole body.
    pub fn status(status: u16, headers: &[&str], body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let mut head = format!("HTTP/1.1 {status} Status\r\ncontent-length: {}\r\n", body.len());
        for header in headers {
            head.push_str(&format!("{header}\r\n"));
        }
        Self(vec![Step::Head(head), Step::Bytes(body.to_vec())])
    }

    /// An event stream in chunks, as real endpoints send it; the connection stays open for more.
    pub fn stream(body: impl AsRef<[u8]>) -> Self {
        Self::begin().then(Step::Chunk(body.as_ref().to_vec())).then(Step::Chunk(Vec::new()))
    }

    /// The head of an event stream in chunks.
    pub fn begin() -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n";
        Self(vec![Step::Head(head.to_owned())])
    }

    /// An event stream that is over when the connection is.
    pub fn until_close(body: impl AsRef<[u8]>) -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
        Self(vec![Step::Head(head.to_owned()), Step::Bytes(body.as_ref().to_vec()), Step::Close])
    }

    /// One more step.
    pub fn then(mut self, step: Step) -> Self {
        self.0.push(step);
        self
    }
}

/// The server. Dropping it closes all connections.
pub struct ModelServer {
    address: std::net::SocketAddr,
    recorded: mpsc::UnboundedReceiver<Recorded>,
    connections: Arc<Mutex<usize>>,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    _tasks: JoinSet<()>,
}

impl ModelServer {
    /// Listens, and gives the answers in the order in which requests arrive.
    pub async fn start(answers: impl IntoIterator<Item = Answer>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answers = Arc::new(Mutex::new(answers.into_iter().collect::<VecDeque<_>>()));
        let connections = Arc::new(Mutex::new(0));
        let (record, recorded) = mpsc::unbounded_channel();
        let mut tasks = JoinSet::new();
        let (given, counted) = (Arc::clone(&answers), Arc::clone(&connections));
        tasks.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                *counted.lock().unwrap() += 1;
                open.spawn(serve(stream, Arc::clone(&given), record.clone()));
            }
        });
        Self { address, recorded, connections, answers, _tasks: tasks }
    }

    /// The server's root.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// One more answer.
    pub fn push(&self, answer: Answer) {
        self.answers.lock().unwrap().push_back(answer);
    }

    /// The next request, once it has arrived.
    pub async fn request(&mut self) -> Recorded {
        self.recorded.recv().await.unwrap()
    }

    /// How many connections there were.
    pub fn connections(&self) -> usize {
        *self.connections.lock().unwrap()
    }
}

async fn serve(
    mut stream: TcpStream,
    answers: Arc<Mutex<VecDeque<Answer>>>,
    record: mpsc::UnboundedSender<Recorded>,
) {
    while let Some(request) = read_request(&mut stream).await {
        record.send(request).ok();
        let Some(answer) = answers.lock().unwrap().pop_front() else { return };
        for step in answer.0 {
            let bytes = match step {
                Step::Head(head) => format!("{head}\r\n").into_bytes(),
                Step::Bytes(bytes) => bytes,
                Step::Chunk(bytes) => [format!("{:x}\r\n", bytes.len()).as_bytes(), &bytes, b"\r\n"].concat(),
                Step::Wait(signal) => {
                    signal.notified().await;
                    continue;
                }
                Step::Stall(gone) => {
                    // Nothing is expected but the end of the connection.
                    stream.read_u8().await.ok();
                    gone.notify_one();
                    return;
                }
                Step::Close => return,
                Step::Reset => {
                    stream.set_zero_linger().unwrap();
                    return;
                }
            };
            if stream.write_all(&bytes).await.is_err() {
                return;
            }
        }
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<Recorded> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let mut lines = head.split("\r\n");
            let line = lines.next()?.trim_end_matches(" HTTP/1.1").to_owned();
            let headers: BTreeMap<String, String> = lines
                .filter_map(|line| line.split_once(": "))
                .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
                .collect();
            let length: usize = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
            while bytes.len() < end + 4 + length {
                read_more(stream, &mut bytes).await?;
            }
            let body = serde_json::from_slice(&bytes[end + 4..]).unwrap_or(Value::Null);
            return Some(Recorded { line, headers, body });
        }
        read_more(stream, &mut bytes).await?;
    }
}

async fn read_more(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(bytes).await {
        Ok(count) if count > 0 => Some(()),
        _ => None,
    }
}

/// An Anthropic stream around these content blocks.
pub fn anthropic(blocks: &[Value], stop_reason: &str) -> String {
    let mut body = String::new();
    let mut event = |value: Value| {
        let name = value["type"].as_str().unwrap();
        body.push_str(&format!("event: {name}\ndata: {value}\n\n"));
    };
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 30, "output_tokens": 1,
    });
    event(
        json!({ "type": "message_start", "message": { "id": "msg_1", "role": "assistant", "usage": usage } }),
    );
    event(json!({ "type": "ping" }));
    for (index, block) in blocks.iter().enumerate() {
        let begin =
            |block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
        let delta = |delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
        match block["type"].as_str().unwrap() {
            "text" => {
                event(begin(json!({ "type": "text", "text": "" })));
                for piece in halves(block["text"].as_str().unwrap()) {
                    event(delta(json!({ "type": "text_delta", "text": piece })));
                }
            }
            "thinking" => {
                event(begin(json!({ "type": "thinking", "thinking": "", "signature": "" })));
                for piece in halves(block["thinking"].as_str().unwrap()) {
                    event(delta(json!({ "type": "thinking_delta", "thinking": piece })));
                }
                event(delta(json!({ "type": "signature_delta", "signature": block["signature"] })));
            }
            "tool_use" => {
                let (id, name) = (&block["id"], &block["name"]);
                event(begin(json!({ "type": "tool_use", "id": id, "name": name, "input": {} })));
                for piece in halves(&block["input"].to_string()) {
                    event(delta(json!({ "type": "input_json_delta", "partial_json": piece })));
                }
            }
            _ => event(begin(block.clone())),
        }
        event(json!({ "type": "content_block_stop", "index": index }));
    }
    event(
        json!({ "type": "message_delta", "delta": { "stop_reason": stop_reason }, "usage": { "output_tokens": 40 } }),
    );
    event(json!({ "type": "message_stop" }));
    body
}

/// A text block.
pub fn anthropic_text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// A signed thinking block.
pub fn anthropic_thinking(text: &str, signature: &str) -> Value {
    json!({ "type": "thinking", "thinking": text, "signature": signature })
}

/// A tool call.
pub fn anthropic_call(id: &str, name: &str, input: Value) -> Value {
    json!({ "type": "tool_use", "id": id, "name": name, "input": input })
}

/// A Chat Completions stream of these deltas.
pub fn openai(deltas: &[Value], finish_reason: &str) -> String {
    let chunk = |delta: &Value, finish: Value| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        format!("data: {}\n\n", json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice] }))
    };
    let mut body = String::new();
    for delta in deltas {
        body.push_str(&chunk(delta, Value::Null));
    }
    body.push_str(&chunk(&json!({}), finish_reason.into()));
    let usage = json!({
        "prompt_tokens": 100, "completion_tokens": 40, "prompt_tokens_details": { "cached_tokens": 60 },
    });
    body.push_str(&format!("data: {}\n\n", json!({ "choices": [], "usage": usage })));
    body.push_str("data: [DONE]\n\n");
    body
}

/// Text in two deltas.
pub fn openai_text(text: &str) -> Vec<Value> {
    halves(text).iter().map(|piece| json!({ "content": piece })).collect()
}

/// Thinking in two deltas.
pub fn openai_thinking(text: &str) -> Vec<Value> {
    halves(text).iter().map(|piece| json!({ "reasoning_content": piece })).collect()
}

/// A tool call: its head, then its arguments in two deltas.
pub fn openai_call(index: u32, id: &str, name: &str, input: &Value) -> Vec<Value> {
    let function = json!({ "name": name, "arguments": "" });
    let head = json!({ "index": index, "id": id, "type": "function", "function": function });
    let mut deltas = vec![json!({ "tool_calls": [head] })];
    for piece in halves(&input.to_string()) {
        let more = json!({ "index": index, "function": { "arguments": piece } });
        deltas.push(json!({ "tool_calls": [more] }));
    }
    deltas
}

fn halves(text: &str) -> [&str; 2] {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(middle, _)| middle);
    let (first, second) = text.split_at(middle);
    [first, second]
}

/// Every wire format with every tool protocol.
pub const FORMATS: [(&str, &str); 4] =
    [("anthropic", "native"), ("anthropic", "xml"), ("openai", "native"), ("openai", "xml")];

/// A body that says something and makes these calls, in any format and protocol.
pub fn body(provider: &str, protocol: &str, text: &str, calls: &[(&str, Value)]) -> String {
    let mut said = text.to_owned();
    if protocol == "xml" {
        for (name, params) in calls {
            said.push_str(&format!("\n<{name}>\n"));
            for (key, value) in params.as_object().unwrap() {
                said.push_str(&format!("<{key}>{}</{key}>\n", value.as_str().unwrap()));
            }
            said.push_str(&format!("</{name}>"));
        }
    }
    let native = if protocol == "native" { calls } else { &[] };
    if provider == "anthropic" {
        let mut blocks = vec![anthropic_text(&said)];
        for (index, (name, params)) in native.iter().enumerate() {
            blocks.push(anthropic_call(&format!("toolu_{index}"), name, params.clone()));
        }
        anthropic(&blocks, if native.is_empty() { "end_turn" } else { "tool_use" })
    } else {
        let mut deltas = openai_text(&said);
        for (index, (name, params)) in (0..).zip(native) {
            deltas.extend(openai_call(index, &format!("call_{index}"), name, params));
        }
        openai(&deltas, if native.is_empty() { "stop" } else { "tool_calls" })
    }
}
