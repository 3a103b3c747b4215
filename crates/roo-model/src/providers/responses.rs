//! OpenAI Responses, streaming and stateless: nothing is stored at the endpoint, so reasoning comes encrypted and goes
//! back with the next request.
//!
//! Format: <https://platform.openai.com/docs/api-reference/responses-streaming>.

use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::conversation::{self, AssistantPart, Image, Message, ToolDeclaration, UserMessage, UserPart};
use super::fault::Fault;
use super::http_format::{Decoder, HttpFormat, RequestOptions, fields};
use super::openai::{always_reasons, checks_conversation, stream_fault, taken_effort};
use super::{Finish, ModelRequest, Output};
use crate::parser::{SseEvent, StreamEvent};
use roo_formats::config::{Price, Reasoning};
use roo_protocol::task::Usage;

/// The Responses API.
pub(super) struct Responses;

impl HttpFormat for Responses {
    fn path(&self, _: &str) -> String {
        "/responses".to_owned()
    }

    fn frame(&self, request: &ModelRequest, options: &RequestOptions) -> Map<String, Value> {
        let mut body = json!({ "model": options.model, "stream": true, "store": false });
        let always_reasons = always_reasons(&options.model);
        // Other models refuse to encrypt what they don't have.
        if always_reasons || options.reasoning.is_some_and(|level| level != Reasoning::None) {
            body["include"] = json!(["reasoning.encrypted_content"]);
        }
        if let Some(level) = options.reasoning {
            body["reasoning"] = json!({ "effort": taken_effort(&options.model, level) });
            if level != Reasoning::None {
                body["reasoning"]["summary"] = "auto".into();
            }
        }
        if let Some(limit) = options.max_tokens {
            body["max_output_tokens"] = limit.into();
        }
        if let (Some(temperature), false) = (options.temperature, always_reasons) {
            body["temperature"] = temperature.into();
        }
        let tools: Vec<Value> = conversation::declared_tools(request).into_iter().map(tool).collect();
        if !tools.is_empty() {
            body["tools"] = tools.into();
            body["parallel_tool_calls"] = true.into();
        }
        let mut first = Vec::new();
        if !request.system.trim().is_empty() {
            // Newer models put the instructions behind the conversation, where nothing of them is cached.
            if checks_conversation(&options.model) {
                let content = json!([{ "type": "input_text", "text": &*request.system }]);
                first.push(json!({ "type": "message", "role": "developer", "content": content }));
            } else {
                body["instructions"] = (*request.system).into();
            }
        }
        body["input"] = first.into();
        fields(body)
    }

    fn messages_field(&self) -> &'static str {
        "input"
    }

    fn message(&self, message: Message<'_>, _: &RequestOptions, _: bool) -> Vec<Value> {
        match message {
            Message::User(message) => user_items(message),
            Message::Assistant(parts) => parts.into_iter().map(answer_item).collect(),
        }
    }

    fn keeps_tails(&self, options: &RequestOptions) -> bool {
        checks_conversation(&options.model)
    }

    fn decoder(&self, prices: Price) -> Box<dyn Decoder> {
        Box::new(Stream::new(prices))
    }
}

/// Not strict: a strict schema would have to require every parameter.
fn tool(tool: ToolDeclaration) -> Value {
    json!({
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": false,
    })
}

/// Results are items of their own; their images go along with what the user says.
fn user_items(message: UserMessage<'_>) -> Vec<Value> {
    let mut items = Vec::new();
    let mut content = Vec::new();
    for result in message.results {
        items.push(json!({ "type": "function_call_output", "call_id": result.id, "output": result.text }));
        content.extend(result.images.into_iter().map(image_part));
    }
    content.extend(message.parts.into_iter().map(|part| match part {
        UserPart::Text(text) => json!({ "type": "input_text", "text": text }),
        UserPart::Image(image) => image_part(image),
    }));
    content.extend(message.tail.map(|tail| json!({ "type": "input_text", "text": tail })));
    if !content.is_empty() {
        items.push(json!({ "type": "message", "role": "user", "content": content }));
    }
    items
}

fn image_part(image: Image<'_>) -> Value {
    json!({ "type": "input_image", "detail": "auto", "image_url": image.url })
}

fn answer_item(part: AssistantPart<'_>) -> Value {
    match part {
        AssistantPart::Text(text) => {
            let content = json!([{ "type": "output_text", "text": text }]);
            json!({ "type": "message", "role": "assistant", "content": content })
        }
        AssistantPart::Thinking(own) => own.clone(),
        AssistantPart::Call { id, name, params } => json!({
            "type": "function_call",
            "call_id": id,
            "name": name,
            "arguments": json!(params).to_string(),
        }),
    }
}

/// An event of the stream, as far as it matters here.
#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type", default)]
    kind: Kind,
    #[serde(default)]
    output_index: u32,
    #[serde(default)]
    summary_index: u32,
    #[serde(default)]
    delta: Value,
    #[serde(default)]
    item: Value,
    #[serde(default)]
    response: Value,
}

#[derive(Clone, Copy, Default, Deserialize, PartialEq)]
enum Kind {
    #[serde(rename = "response.output_item.added")]
    ItemAdded,
    #[serde(rename = "response.output_item.done")]
    ItemDone,
    #[serde(rename = "response.output_text.delta", alias = "response.refusal.delta")]
    Text,
    #[serde(rename = "response.function_call_arguments.delta")]
    Arguments,
    #[serde(rename = "response.reasoning_summary_part.added")]
    SummaryPart,
    #[serde(rename = "response.reasoning_summary_text.delta", alias = "response.reasoning_text.delta")]
    Thinking,
    #[serde(rename = "response.completed")]
    Completed,
    #[serde(rename = "response.incomplete")]
    Incomplete,
    #[serde(rename = "response.failed")]
    Failed,
    #[serde(rename = "error")]
    Error,
    #[default]
    #[serde(other)]
    Other,
}

/// Decodes one answer.
struct Stream {
    prices: Price,
    /// The items that have begun and not ended, and whether their content has come in pieces.
    open: BTreeMap<u32, bool>,
}

impl Stream {
    fn new(prices: Price) -> Self {
        Self { prices, open: BTreeMap::new() }
    }

    fn begin(&mut self, index: u32, item: &Value, tell: &mut impl FnMut(StreamEvent)) {
        self.open.insert(index, false);
        if item["type"] == "function_call" {
            let text = |name: &str| item[name].as_str().unwrap_or_default().to_owned();
            tell(StreamEvent::CallStart { index, id: text("call_id"), name: text("name") });
        }
    }

    /// Notes that a piece of an item came.
    fn piece(&mut self, index: u32) {
        self.open.insert(index, true);
    }

    /// An item is complete. Where no piece of it came, its content is told now.
    fn finish_item(&mut self, index: u32, item: Value, tell: &mut impl FnMut(StreamEvent)) {
        if !self.open.contains_key(&index) {
            self.begin(index, &item, tell);
        }
        let came_in_pieces = self.open.remove(&index).unwrap_or(false);
        match item["type"].as_str() {
            Some("function_call") => {
                if let (false, Some(text)) = (came_in_pieces, item["arguments"].as_str()) {
                    tell(StreamEvent::CallArguments { index, text: text.to_owned() });
                }
                tell(StreamEvent::CallEnd { index });
            }
            Some("message") if !came_in_pieces => {
                for part in item["content"].as_array().into_iter().flatten() {
                    let text = part["text"].as_str().or(part["refusal"].as_str()).unwrap_or_default();
                    tell(StreamEvent::Text(text.to_owned()));
                }
            }
            Some("reasoning") => {
                // Without a store the endpoint knows an item again by nothing but its encrypted content.
                let encrypted = item["encrypted_content"].as_str().is_some_and(|text| !text.is_empty());
                tell(StreamEvent::ThinkingEnd(encrypted.then(|| reasoning_input(&item))));
            }
            _ => {}
        }
    }

    fn used(&self, response: &Value) -> Option<Output> {
        let tokens = response["usage"].as_object()?;
        let count = |value: &Value| value.as_u64().unwrap_or(0);
        let details = tokens.get("input_tokens_details").unwrap_or(&Value::Null);
        let cache_reads = count(&details["cached_tokens"]);
        // Where writing has no price of its own, it costs what input costs.
        let has_price = self.prices.cache_write > 0.0;
        let cache_writes = if has_price { count(&details["cache_write_tokens"]) } else { 0 };
        let mut usage = Usage {
            // The wire counts cached tokens as input too.
            tokens_in: tokens.get("input_tokens").map_or(0, count).saturating_sub(cache_reads + cache_writes),
            tokens_out: tokens.get("output_tokens").map_or(0, count),
            cache_reads,
            cache_writes,
            ..Usage::default()
        };
        usage.cost_usd = self.prices.cost(&usage);
        Some(Output::Usage(usage))
    }
}

/// A reasoning item as input: what the API knows of it there.
fn reasoning_input(item: &Value) -> Value {
    let summary = if item["summary"].is_array() { item["summary"].clone() } else { json!([]) };
    json!({
        "type": "reasoning",
        "id": item["id"],
        "summary": summary,
        "encrypted_content": item["encrypted_content"],
    })
}

impl Decoder for Stream {
    fn event(&mut self, event: SseEvent<'_>, outputs: &mut VecDeque<Output>) -> Result<(), Fault> {
        if event.data.trim() == "[DONE]" {
            return Ok(());
        }
        let Event { kind, output_index: index, summary_index, delta, item, response } =
            serde_json::from_str(event.data).map_err(|error| Fault::malformed(&error))?;
        let mut tell = |event| outputs.push_back(Output::Event(event));
        let piece = || delta.as_str().unwrap_or_default().to_owned();
        match kind {
            Kind::ItemAdded => self.begin(index, &item, &mut tell),
            Kind::ItemDone => self.finish_item(index, item, &mut tell),
            Kind::Text => {
                self.piece(index);
                tell(StreamEvent::Text(piece()));
            }
            Kind::Arguments => {
                self.piece(index);
                tell(StreamEvent::CallArguments { index, text: piece() });
            }
            Kind::SummaryPart if summary_index > 0 => tell(StreamEvent::Thinking("\n\n".to_owned())),
            Kind::Thinking => tell(StreamEvent::Thinking(piece())),
            Kind::Completed | Kind::Incomplete => {
                outputs.extend(self.used(&response));
                let reason = response["incomplete_details"]["reason"].as_str();
                outputs.push_back(Output::Finished(match (kind, reason) {
                    (Kind::Completed, _) => Finish::Done,
                    (_, Some("content_filter")) => Finish::Refused,
                    _ => Finish::Length,
                }));
            }
            Kind::Failed => return Err(stream_fault(&response["error"])),
            Kind::Error => return Err(stream_fault(&failure(event.data))),
            Kind::SummaryPart | Kind::Other => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut VecDeque<Output>) -> bool {
        false
    }

    fn document(&mut self, body: &str, _: &mut VecDeque<Output>) -> Result<bool, Fault> {
        let body: Value = serde_json::from_str(body).map_err(|error| Fault::malformed(&error))?;
        if body["error"].is_object() { Err(stream_fault(&body["error"])) } else { Ok(false) }
    }
}

/// The error of an `error` event: its own fields, or an object within it at some gateways.
fn failure(data: &str) -> Value {
    let event: Value = serde_json::from_str(data).unwrap_or_default();
    if event["error"].is_object() {
        return event["error"].clone();
    }
    json!({ "code": event["code"], "message": event["message"] })
}
