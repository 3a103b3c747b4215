//! Responses of a model, in both wire formats and both tool protocols.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// How requests and answers look on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wire {
    /// Anthropic's Messages.
    Anthropic,
    /// OpenAI's Chat Completions.
    OpenAi,
}

/// How a model calls tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// By the wire format's own means.
    Native,
    /// By tags in its text.
    Xml,
}

/// One tool call.
pub struct Call<'a> {
    /// The tool.
    pub name: &'a str,
    /// Its parameters, in order.
    pub parameters: &'a [(&'a str, &'a str)],
}

/// A whole HTTP response with one call, every delta an event and a chunk of its own. `number` makes the
/// call's id; `delta` is the size of a delta in bytes. All texts are ASCII.
pub fn response(wire: Wire, protocol: Protocol, number: usize, call: &Call<'_>, delta: usize) -> Vec<u8> {
    let mut stream = Stream::default();
    let id = format!("call_{number}");
    let text = match protocol {
        Protocol::Native => {
            let pairs = call.parameters.iter().map(|&(name, value)| (name.to_owned(), value.into()));
            Value::Object(pairs.collect::<Map<_, _>>()).to_string()
        }
        Protocol::Xml => {
            let mut text = format!("<{}>\n", call.name);
            for (name, value) in call.parameters {
                // Writing to a string can't fail.
                let _ = writeln!(text, "<{name}>{value}</{name}>");
            }
            text + &format!("</{}>", call.name)
        }
    };
    let pieces = text.as_bytes().chunks(delta).map(String::from_utf8_lossy);
    match wire {
        Wire::Anthropic => {
            let usage = json!({ "input_tokens": 900, "output_tokens": 1 });
            stream.named(json!({ "type": "message_start", "message": { "id": "m", "usage": usage } }));
            let block = match protocol {
                Protocol::Native => json!({ "type": "tool_use", "id": id, "name": call.name, "input": {} }),
                Protocol::Xml => json!({ "type": "text", "text": "" }),
            };
            stream.named(json!({ "type": "content_block_start", "index": 0, "content_block": block }));
            for piece in pieces {
                let delta = match protocol {
                    Protocol::Native => json!({ "type": "input_json_delta", "partial_json": piece }),
                    Protocol::Xml => json!({ "type": "text_delta", "text": piece }),
                };
                stream.named(json!({ "type": "content_block_delta", "index": 0, "delta": delta }));
            }
            stream.named(json!({ "type": "content_block_stop", "index": 0 }));
            let usage = json!({ "output_tokens": 40 });
            let delta = json!({ "stop_reason": "tool_use" });
            stream.named(json!({ "type": "message_delta", "delta": delta, "usage": usage }));
            stream.named(json!({ "type": "message_stop" }));
        }
        Wire::OpenAi => {
            if protocol == Protocol::Native {
                let function = json!({ "name": call.name, "arguments": "" });
                let head = json!({ "index": 0, "id": id, "type": "function", "function": function });
                stream.chunk(&json!({ "tool_calls": [head] }), Value::Null);
            }
            for piece in pieces {
                let delta = match protocol {
                    Protocol::Native => {
                        json!({ "tool_calls": [{ "index": 0, "function": { "arguments": piece } }] })
                    }
                    Protocol::Xml => json!({ "content": piece }),
                };
                stream.chunk(&delta, Value::Null);
            }
            stream.chunk(&json!({}), "tool_calls".into());
            let usage = json!({ "prompt_tokens": 900, "completion_tokens": 40 });
            stream.data(&json!({ "choices": [], "usage": usage }).to_string());
            stream.data("[DONE]");
        }
    }
    stream.end()
}

/// A chunked event stream.
pub struct Stream(Vec<u8>);

impl Default for Stream {
    fn default() -> Self {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
        Self(head.into())
    }
}

impl Stream {
    /// Adds an event that is named after its type.
    pub fn named(&mut self, value: Value) {
        let name = value["type"].as_str().unwrap_or_default();
        self.event(&format!("event: {name}\ndata: {value}\n\n"));
    }

    fn chunk(&mut self, delta: &Value, finish: Value) {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": finish });
        self.data(&json!({ "id": "c", "object": "chat.completion.chunk", "choices": [choice] }).to_string());
    }

    fn data(&mut self, data: &str) {
        self.event(&format!("data: {data}\n\n"));
    }

    fn event(&mut self, event: &str) {
        self.0.extend(format!("{:x}\r\n{event}\r\n", event.len()).into_bytes());
    }

    /// The whole response.
    pub fn end(mut self) -> Vec<u8> {
        self.0.extend(b"0\r\n\r\n");
        self.0
    }
}
