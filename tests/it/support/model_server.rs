//! A model endpoint on loopback: it answers each request with a scripted sequence of steps and records
//! what it was sent. And the bodies that real endpoints stream, in every wire format.

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

/// A Responses stream of these output items.
pub fn responses(items: &[Value], end: &str) -> String {
    let mut body = String::new();
    let mut number = 0;
    let mut event = |mut value: Value| {
        let name = value["type"].as_str().unwrap().to_owned();
        value["sequence_number"] = number.into();
        number += 1;
        body.push_str(&format!("event: {name}\ndata: {value}\n\n"));
    };
    let response = |status: &str| json!({ "id": "resp_1", "object": "response", "status": status });
    event(json!({ "type": "response.created", "response": response("in_progress") }));
    event(json!({ "type": "response.in_progress", "response": response("in_progress") }));
    for (index, item) in items.iter().enumerate() {
        let mut begun = item.clone();
        let mut pieces: Vec<Value> = Vec::new();
        let delta = |kind: &str, piece: &str| json!({ "type": kind, "output_index": index, "delta": piece });
        match item["type"].as_str().unwrap() {
            "message" => {
                begun["content"] = json!([]);
                let part = json!({ "type": "output_text", "text": "" });
                pieces.push(
                    json!({ "type": "response.content_part.added", "output_index": index, "part": part }),
                );
                for piece in halves(item["content"][0]["text"].as_str().unwrap()) {
                    pieces.push(delta("response.output_text.delta", piece));
                }
                let part = &item["content"][0];
                pieces.push(json!({
                    "type": "response.output_text.done", "output_index": index, "text": part["text"],
                }));
            }
            "reasoning" => {
                begun["summary"] = json!([]);
                for (part, summary) in item["summary"].as_array().unwrap().iter().enumerate() {
                    pieces.push(json!({
                        "type": "response.reasoning_summary_part.added", "output_index": index,
                        "summary_index": part, "part": { "type": "summary_text", "text": "" },
                    }));
                    for piece in halves(summary["text"].as_str().unwrap()) {
                        pieces.push(delta("response.reasoning_summary_text.delta", piece));
                    }
                }
            }
            "function_call" => {
                begun["arguments"] = "".into();
                for piece in halves(item["arguments"].as_str().unwrap()) {
                    pieces.push(delta("response.function_call_arguments.delta", piece));
                }
                pieces.push(json!({
                    "type": "response.function_call_arguments.done", "output_index": index,
                    "arguments": item["arguments"],
                }));
            }
            _ => {}
        }
        event(json!({ "type": "response.output_item.added", "output_index": index, "item": begun }));
        pieces.into_iter().for_each(&mut event);
        event(json!({ "type": "response.output_item.done", "output_index": index, "item": item }));
    }
    let mut ended = response(if end == "completed" { end } else { "incomplete" });
    ended["output"] = items.into();
    ended["usage"] = json!({
        "input_tokens": 100, "input_tokens_details": { "cached_tokens": 60, "cache_write_tokens": 10 },
        "output_tokens": 40, "output_tokens_details": { "reasoning_tokens": 20 }, "total_tokens": 140,
    });
    if end == "completed" {
        event(json!({ "type": "response.completed", "response": ended }));
    } else {
        ended["incomplete_details"] = json!({ "reason": end });
        event(json!({ "type": "response.incomplete", "response": ended }));
    }
    body
}

/// A message with text.
pub fn responses_text(text: &str) -> Value {
    let content = json!([{ "type": "output_text", "text": text, "annotations": [] }]);
    json!({ "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content })
}

/// Encrypted reasoning with a summary.
pub fn responses_reasoning(summary: &[&str], encrypted: &str) -> Value {
    let summary: Vec<Value> =
        summary.iter().map(|text| json!({ "type": "summary_text", "text": text })).collect();
    json!({ "type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": encrypted })
}

/// A tool call.
pub fn responses_call(id: &str, name: &str, input: &Value) -> Value {
    json!({
        "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
        "arguments": input.to_string(), "status": "completed",
    })
}

/// A Gemini stream of these parts, one in each chunk.
pub fn gemini(parts: &[Value], finish_reason: &str) -> String {
    let mut body = String::new();
    let mut chunk = |part: &Value, last: bool| {
        let mut candidate = json!({ "content": { "role": "model", "parts": [part] }, "index": 0 });
        let mut usage =
            json!({ "promptTokenCount": 100, "cachedContentTokenCount": 60, "totalTokenCount": 100 });
        if last {
            candidate["finishReason"] = finish_reason.into();
            usage["candidatesTokenCount"] = 30.into();
            usage["thoughtsTokenCount"] = 10.into();
        }
        let chunk = json!({
            "candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "r",
        });
        body.push_str(&format!("data: {chunk}\r\n\r\n"));
    };
    for part in parts {
        chunk(part, false);
    }
    chunk(&json!({ "text": "" }), true);
    body
}

/// Text in two parts.
pub fn gemini_text(text: &str) -> Vec<Value> {
    halves(text).iter().map(|piece| json!({ "text": piece })).collect()
}

/// A thought summary in two parts.
pub fn gemini_thinking(text: &str) -> Vec<Value> {
    halves(text).iter().map(|piece| json!({ "text": piece, "thought": true })).collect()
}

/// A tool call, which comes whole; signed unless the signature is empty.
pub fn gemini_call(id: &str, name: &str, input: &Value, signature: &str) -> Vec<Value> {
    let mut part = json!({ "functionCall": { "id": id, "name": name, "args": input } });
    if !signature.is_empty() {
        part["thoughtSignature"] = signature.into();
    }
    vec![part]
}

fn halves(text: &str) -> [&str; 2] {
    let middle = text.char_indices().nth(text.chars().count() / 2).map_or(0, |(middle, _)| middle);
    let (first, second) = text.split_at(middle);
    [first, second]
}

/// Every wire format with every tool protocol.
pub const FORMATS: [(&str, &str); 8] = [
    ("anthropic", "native"),
    ("anthropic", "xml"),
    ("openai", "native"),
    ("openai", "xml"),
    ("openai-responses", "native"),
    ("openai-responses", "xml"),
    ("gemini", "native"),
    ("gemini", "xml"),
];

/// What a profile's `baseUrl` is for a server with this root.
pub fn base_url(provider: &str, root: &str) -> String {
    match provider {
        "anthropic" => root.to_owned(),
        "gemini" => format!("{root}/v1beta"),
        _ => format!("{root}/v1"),
    }
}

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
    let ids = |prefix: &str| {
        let prefix = prefix.to_owned();
        native
            .iter()
            .enumerate()
            .map(move |(index, (name, params))| (format!("{prefix}{index}"), *name, params))
    };
    match provider {
        "anthropic" => {
            let mut blocks = vec![anthropic_text(&said)];
            blocks.extend(ids("toolu_").map(|(id, name, params)| anthropic_call(&id, name, params.clone())));
            anthropic(&blocks, if native.is_empty() { "end_turn" } else { "tool_use" })
        }
        "openai" => {
            let mut deltas = openai_text(&said);
            for (index, (id, name, params)) in (0..).zip(ids("call_")) {
                deltas.extend(openai_call(index, &id, name, params));
            }
            openai(&deltas, if native.is_empty() { "stop" } else { "tool_calls" })
        }
        "openai-responses" => {
            let mut items = vec![responses_reasoning(&["Thinking."], "encrypted"), responses_text(&said)];
            items.extend(ids("call_").map(|(id, name, params)| responses_call(&id, name, params)));
            responses(&items, "completed")
        }
        "gemini" => {
            let mut parts = gemini_text(&said);
            parts.extend(ids("fc_").flat_map(|(id, name, params)| gemini_call(&id, name, params, "signed")));
            gemini(&parts, "STOP")
        }
        _ => panic!("{provider}"),
    }
}
