//! The Anthropic Messages API, streaming.
//!
//! Format: <https://docs.anthropic.com/en/api/messages> and `/en/docs/build-with-claude/streaming`.

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::claude::Claude;
use super::conversation::{
    self, AssistantPart, CallResult, Image, Message, ToolDeclaration, UserMessage, UserPart,
};
use super::fault::Fault;
use super::http::{error_text, is_context_overflow};
use super::http_format::{Decoder, HttpFormat, RequestOptions, fields};
use super::listed::ListedModel;
use super::repeated_event::RepeatedEvent;
use super::{Finish, ModelErrorKind, ModelRequest, Output};
use crate::parser::{SseEvent, StreamEvent};
use roo_formats::config::{Price, Reasoning};
use roo_protocol::task::Usage;

/// The API demands a limit; every model of it allows this one.
const DEFAULT_MAX_TOKENS: u64 = 8192;
/// Allows requests to say what happens to thinking whose conversation has changed.
const BLOCK_BINDING: (&str, &str) = ("anthropic-beta", "thinking-binding-controls-2026-08-01");
/// The API refuses smaller thinking budgets.
const MIN_BUDGET_TOKENS: u64 = 1024;

/// The Messages API.
pub(super) struct Messages;

impl HttpFormat for Messages {
    fn path(&self, _: &str) -> String {
        "/v1/messages".to_owned()
    }

    fn headers(&self) -> &'static [(&'static str, &'static str)] {
        &[("anthropic-version", "2023-06-01")]
    }

    fn added_header(&self, model: &str) -> Option<(&'static str, &'static str)> {
        Claude::from_name(model).filter(|model| model.checks_prefix()).map(|_| BLOCK_BINDING)
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-api-key", key.to_owned())
    }

    fn frame(&self, request: &ModelRequest, options: &RequestOptions) -> Map<String, Value> {
        let claude = Claude::from_name(&options.model);
        let usual = claude.and_then(Claude::answer_tokens).unwrap_or(DEFAULT_MAX_TOKENS);
        let max_tokens = options.max_tokens.unwrap_or(usual);
        let mut body = json!({ "model": options.model, "max_tokens": max_tokens, "stream": true });
        if let Some(claude) = claude.filter(|claude| claude.thinks_by_effort()) {
            let (thinking, effort) = claude.thinking(options.reasoning);
            if let Some(thinking) = thinking {
                body["thinking"] = thinking;
            }
            if let Some(effort) = effort {
                body["output_config"] = json!({ "effort": effort });
            }
        } else if let Some(budget) = options.reasoning.and_then(|level| thinking_budget(level, max_tokens)) {
            body["thinking"] = json!({ "type": "enabled", "budget_tokens": budget });
        } else if let Some(temperature) = options.temperature {
            body["temperature"] = temperature.into();
        }
        let mut tools: Vec<Value> = conversation::declared_tools(request).into_iter().map(tool).collect();
        if !tools.is_empty() {
            mark(&mut tools);
            body["tools"] = tools.into();
        }
        if !request.system.trim().is_empty() {
            let mut system = vec![json!({ "type": "text", "text": &*request.system })];
            mark(&mut system);
            body["system"] = system.into();
        }
        body["messages"] = json!([]);
        fields(body)
    }

    fn messages_field(&self) -> &'static str {
        "messages"
    }

    fn message(&self, message: Message<'_>, _: &RequestOptions, is_marked: bool) -> Vec<Value> {
        vec![match message {
            Message::User(message) => json!({ "role": "user", "content": user_content(message, is_marked) }),
            Message::Assistant(parts) => {
                let content: Vec<Value> = parts.into_iter().map(assistant_part).collect();
                json!({ "role": "assistant", "content": content })
            }
        }]
    }

    /// The provider keeps what it has read up to a mark, and the next request finds it by its longest equal
    /// beginning. Four marks are allowed: tools, system, and the last two user messages, of which the
    /// older one is where the request before ended. The tail stays after the last mark.
    fn marked_messages(&self, _: &RequestOptions) -> usize {
        2
    }

    fn keeps_tails(&self, options: &RequestOptions) -> bool {
        Claude::from_name(&options.model).is_some_and(Claude::checks_prefix)
    }

    fn decoder(&self, prices: Price) -> Box<dyn Decoder> {
        Box::new(Stream::new(prices))
    }

    fn list_path(&self) -> (&'static str, Option<&'static str>) {
        ("/v1/models", Some("limit=1000"))
    }

    fn listed(&self, document: &Value) -> Option<Vec<ListedModel>> {
        Some(document["data"].as_array()?.iter().filter_map(ListedModel::from_anthropic).collect())
    }
}

fn tool(tool: ToolDeclaration) -> Value {
    json!({ "name": tool.name, "description": tool.description, "input_schema": tool.parameters })
}

/// Returns the number of the answer's tokens that may be thinking: a share of the limit, as OpenRouter maps its effort
/// levels. None where the limit leaves no room for thinking.
fn thinking_budget(reasoning: Reasoning, max_tokens: u64) -> Option<u64> {
    let percent = match reasoning {
        Reasoning::None => return None,
        Reasoning::Minimal => 10,
        Reasoning::Low => 20,
        Reasoning::Medium => 50,
        Reasoning::High => 80,
        Reasoning::Xhigh | Reasoning::Max => 95,
    };
    let budget = (max_tokens / 100).saturating_mul(percent).max(MIN_BUDGET_TOKENS);
    (budget < max_tokens).then_some(budget)
}

fn user_content(message: UserMessage<'_>, marked: bool) -> Vec<Value> {
    let mut content: Vec<Value> = message.results.into_iter().map(call_result).collect();
    content.extend(message.parts.into_iter().map(|part| match part {
        UserPart::Text(text) => json!({ "type": "text", "text": text }),
        UserPart::Image(image) => image_block(image),
    }));
    if marked {
        mark(&mut content);
    }
    content.extend(message.tail.map(|tail| json!({ "type": "text", "text": tail })));
    content
}

fn mark(blocks: &mut [Value]) {
    if let Some(last) = blocks.last_mut() {
        last["cache_control"] = json!({ "type": "ephemeral" });
    }
}

fn call_result(result: CallResult<'_>) -> Value {
    let mut content = vec![json!({ "type": "text", "text": result.text })];
    content.extend(result.images.into_iter().map(image_block));
    let mut block = json!({ "type": "tool_result", "tool_use_id": result.id, "content": content });
    if result.is_error {
        block["is_error"] = true.into();
    }
    block
}

fn image_block(image: Image<'_>) -> Value {
    let source = json!({ "type": "base64", "media_type": image.media_type, "data": image.data });
    json!({ "type": "image", "source": source })
}

fn assistant_part(part: AssistantPart<'_>) -> Value {
    match part {
        AssistantPart::Text(text) => json!({ "type": "text", "text": text }),
        AssistantPart::Thinking(own) => own.clone(),
        AssistantPart::Call { id, name, params } => {
            json!({ "type": "tool_use", "id": id, "name": name, "input": params })
        }
    }
}

/// Kind of an event. Read before the rest of it: serde's own tagged enums are built twice, and there
/// is an event for every few letters.
#[derive(Deserialize)]
struct Tagged {
    #[serde(rename = "type")]
    kind: Kind,
}

/// The events of the stream, as far as they matter here.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Kind {
    MessageStart,
    ContentBlockStart,
    ContentBlockDelta,
    ContentBlockStop,
    MessageDelta,
    MessageStop,
    Error,
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct MessageStart {
    message: Start,
}

#[derive(Deserialize)]
struct Start {
    #[serde(default)]
    usage: Tokens,
}

#[derive(Deserialize)]
struct BlockStart {
    index: u32,
    content_block: Value,
}

#[derive(Deserialize)]
struct BlockDelta<'a> {
    index: u32,
    #[serde(borrow)]
    delta: Delta<'a>,
}

#[derive(Deserialize)]
struct BlockStop {
    index: u32,
}

#[derive(Deserialize)]
struct MessageDelta {
    #[serde(default)]
    delta: Stop,
    #[serde(default)]
    usage: Tokens,
}

#[derive(Deserialize)]
struct Failure {
    error: Value,
}

#[derive(Deserialize, Default)]
struct Stop {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(rename = "type")]
    kind: DeltaKind,
    #[serde(default, borrow)]
    text: Cow<'a, str>,
    #[serde(default, borrow)]
    thinking: Cow<'a, str>,
    #[serde(default, borrow)]
    signature: Cow<'a, str>,
    #[serde(default, borrow)]
    partial_json: Cow<'a, str>,
}

impl<'a> Delta<'a> {
    /// The text of its kind.
    fn into_text(self) -> Cow<'a, str> {
        match self.kind {
            DeltaKind::Text => self.text,
            DeltaKind::Thinking => self.thinking,
            DeltaKind::Signature => self.signature,
            DeltaKind::Input => self.partial_json,
            DeltaKind::Other => Cow::Borrowed(""),
        }
    }
}

#[derive(Clone, Copy, Deserialize)]
enum DeltaKind {
    #[serde(rename = "text_delta")]
    Text,
    #[serde(rename = "thinking_delta")]
    Thinking,
    #[serde(rename = "signature_delta")]
    Signature,
    #[serde(rename = "input_json_delta")]
    Input,
    #[serde(other)]
    Other,
}

/// Token counts; an absent one leaves the earlier figure.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Tokens {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
}

/// A content block that is open. Others, such as those of the provider's own tools, are passed over.
enum Open {
    Text,
    Thinking { text: String, signature: String },
    Redacted(Value),
    Call,
}

/// Decodes one answer.
struct Stream {
    prices: Price,
    usage: Usage,
    open: BTreeMap<u32, Open>,
    finish: Finish,
    /// The newest delta, whose like are read by it.
    repeated: Option<(RepeatedEvent, u32, DeltaKind)>,
}

impl Stream {
    fn new(prices: Price) -> Self {
        Self { prices, usage: Usage::default(), open: BTreeMap::new(), finish: Finish::Done, repeated: None }
    }

    fn used(&mut self, tokens: &Tokens) -> Output {
        let update = |figure: &mut u64, new: Option<u64>| *figure = new.unwrap_or(*figure);
        update(&mut self.usage.tokens_in, tokens.input_tokens);
        update(&mut self.usage.tokens_out, tokens.output_tokens);
        update(&mut self.usage.cache_writes, tokens.cache_creation_input_tokens);
        update(&mut self.usage.cache_reads, tokens.cache_read_input_tokens);
        self.usage.cost_usd = self.prices.cost(&self.usage);
        Output::Usage(self.usage)
    }

    /// A block begins; some endpoints put its content here rather than into deltas.
    fn begin(&mut self, index: u32, block: Value) -> Vec<StreamEvent> {
        let text = |name: &str| block[name].as_str().unwrap_or_default().to_owned();
        let mut events = Vec::new();
        let open = match block["type"].as_str() {
            Some("text") => {
                events.push(StreamEvent::Text(text("text")));
                Open::Text
            }
            Some("thinking") => {
                events.push(StreamEvent::Thinking(text("thinking")));
                Open::Thinking { text: text("thinking"), signature: text("signature") }
            }
            Some("redacted_thinking") => Open::Redacted(block),
            Some("tool_use") => {
                events.push(StreamEvent::CallStart { index, id: text("id"), name: text("name") });
                if let Some(input) = block["input"].as_object().filter(|input| !input.is_empty()) {
                    events.push(StreamEvent::CallArguments { index, text: json!(input).to_string() });
                }
                Open::Call
            }
            _ => return events,
        };
        self.open.insert(index, open);
        events
    }

    /// Reads a delta of a content block.
    fn delta(&mut self, event: SseEvent<'_>) -> Result<Option<StreamEvent>, Fault> {
        if let Some((repeated, index, kind)) = &self.repeated
            && let Some(text) = repeated.text_of(event.data)
        {
            let (index, kind) = (*index, *kind);
            return Ok(self.go_on(index, kind, text));
        }
        let BlockDelta { index, delta } = read(event)?;
        let kind = delta.kind;
        let text = delta.into_text();
        if let Some(repeated) = RepeatedEvent::around(event.data, &text) {
            self.repeated = Some((repeated, index, kind));
        }
        Ok(self.go_on(index, kind, text))
    }

    fn go_on(&mut self, index: u32, kind: DeltaKind, more: Cow<'_, str>) -> Option<StreamEvent> {
        match (self.open.get_mut(&index)?, kind) {
            (Open::Text, DeltaKind::Text) => Some(StreamEvent::Text(more.into_owned())),
            (Open::Thinking { text, .. }, DeltaKind::Thinking) => {
                text.push_str(&more);
                Some(StreamEvent::Thinking(more.into_owned()))
            }
            (Open::Thinking { signature, .. }, DeltaKind::Signature) => {
                signature.push_str(&more);
                None
            }
            (Open::Call, DeltaKind::Input) => {
                Some(StreamEvent::CallArguments { index, text: more.into_owned() })
            }
            _ => None,
        }
    }

    fn close(&mut self, index: u32) -> Option<StreamEvent> {
        Some(match self.open.remove(&index)? {
            Open::Text => return None,
            // The API takes back only what it has signed.
            Open::Thinking { signature, .. } if signature.is_empty() => StreamEvent::ThinkingEnd(None),
            Open::Thinking { text, signature } => StreamEvent::ThinkingEnd(Some(
                json!({ "type": "thinking", "thinking": text, "signature": signature }),
            )),
            Open::Redacted(block) => StreamEvent::ThinkingEnd(Some(block)),
            Open::Call => StreamEvent::CallEnd { index },
        })
    }
}

impl Decoder for Stream {
    fn event(&mut self, event: SseEvent<'_>, outputs: &mut VecDeque<Output>) -> Result<(), Fault> {
        let kind = match event.event {
            // The one that comes a thousand times is known by its name.
            Some("content_block_delta") => Kind::ContentBlockDelta,
            _ => read::<Tagged>(event)?.kind,
        };
        match kind {
            Kind::MessageStart => {
                let MessageStart { message } = read(event)?;
                outputs.push_back(self.used(&message.usage));
            }
            Kind::ContentBlockStart => {
                let BlockStart { index, content_block } = read(event)?;
                let events = self.begin(index, content_block);
                outputs.extend(events.into_iter().map(Output::Event));
            }
            Kind::ContentBlockDelta => {
                outputs.extend(self.delta(event)?.map(Output::Event));
            }
            Kind::ContentBlockStop => {
                let BlockStop { index } = read(event)?;
                outputs.extend(self.close(index).map(Output::Event));
            }
            Kind::MessageDelta => {
                let MessageDelta { delta, usage } = read(event)?;
                match delta.stop_reason.as_deref() {
                    Some("max_tokens" | "model_context_window_exceeded") => self.finish = Finish::Length,
                    Some("refusal") => self.finish = Finish::Refused,
                    _ => {}
                }
                outputs.push_back(self.used(&usage));
            }
            Kind::MessageStop => outputs.push_back(Output::Finished(self.finish)),
            Kind::Error => {
                let Failure { error } = read(event)?;
                return Err(stream_fault(&error));
            }
            Kind::Other => {}
        }
        Ok(())
    }

    fn end(&mut self, _: &mut VecDeque<Output>) -> bool {
        false
    }
}

fn read<'de, T: Deserialize<'de>>(event: SseEvent<'de>) -> Result<T, Fault> {
    serde_json::from_str(event.data).map_err(|error| Fault::malformed(&error))
}

/// The failure that an `error` event tells of.
fn stream_fault(error: &Value) -> Fault {
    let kind = error["type"].as_str().unwrap_or_default();
    let said = error_text(&json!({ "error": error }).to_string());
    let kind = match kind {
        "rate_limit_error" => ModelErrorKind::RateLimited(None),
        "authentication_error" | "permission_error" | "billing_error" => ModelErrorKind::Unauthorized,
        "invalid_request_error" if is_context_overflow(&said) => ModelErrorKind::ContextWindow,
        "invalid_request_error" | "not_found_error" | "request_too_large" => ModelErrorKind::Invalid,
        // overloaded_error, api_error, timeout_error, and what is to come.
        _ => ModelErrorKind::Unavailable(None),
    };
    Fault::new(kind, format!("the endpoint ended the answer with an error: {said}"))
}
