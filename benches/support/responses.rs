//! Responses of a model in the format of OpenAI's Responses: one item each, in deltas.

use serde_json::{Value, json};

use super::answer::Stream;

/// What the model answers with.
pub enum Item {
    /// A call with JSON arguments.
    Function {
        /// The tool.
        name: &'static str,
        /// Its parameters as JSON.
        arguments: String,
    },
    /// A call with free text as its input.
    Custom {
        /// The tool.
        name: &'static str,
        /// The text.
        input: String,
    },
    /// A text.
    Message(&'static str),
}

impl Item {
    /// A call with JSON arguments.
    pub fn function(name: &'static str, parameters: &Value) -> Self {
        Self::Function { name, arguments: parameters.to_string() }
    }

    /// A call with free text as its input.
    pub fn custom(name: &'static str, input: String) -> Self {
        Self::Custom { name, input }
    }
}

/// A whole HTTP response with one item, every delta an event and a chunk of its own. `number` makes the item's id;
/// `delta` is the size of a delta in bytes. All texts are ASCII.
pub fn response(number: usize, item: &Item, delta: usize) -> Vec<u8> {
    let call_id = format!("call_{number}");
    let (delta_event, text, empty, whole) = match item {
        Item::Function { name, arguments } => {
            let item = |arguments: &str| json!({ "type": "function_call", "call_id": call_id, "name": name, "arguments": arguments });
            ("response.function_call_arguments.delta", arguments.as_str(), item(""), item(arguments))
        }
        Item::Custom { name, input } => {
            let item = |input: &str| json!({ "type": "custom_tool_call", "call_id": call_id, "name": name, "input": input });
            ("response.custom_tool_call_input.delta", input.as_str(), item(""), item(input))
        }
        Item::Message(text) => {
            let item = |content: Value| json!({ "type": "message", "role": "assistant", "content": content });
            let content = json!([{ "type": "output_text", "text": text }]);
            ("response.output_text.delta", *text, item(json!([])), item(content))
        }
    };
    let with_id = |mut item: Value| {
        item["id"] = "i".into();
        item
    };
    let mut stream = Stream::default();
    stream.named(json!({ "type": "response.created", "response": { "id": "r" } }));
    stream.named(json!({ "type": "response.output_item.added", "output_index": 0, "item": with_id(empty) }));
    for piece in text.as_bytes().chunks(delta) {
        let piece = String::from_utf8_lossy(piece);
        stream.named(json!({ "type": delta_event, "output_index": 0, "item_id": "i", "delta": piece }));
    }
    stream.named(json!({ "type": "response.output_item.done", "output_index": 0, "item": with_id(whole) }));
    let usage = json!({ "input_tokens": 900, "output_tokens": 40, "total_tokens": 940 });
    stream.named(json!({ "type": "response.completed", "response": { "id": "r", "usage": usage } }));
    stream.end()
}
