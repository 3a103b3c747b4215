//! OpenAI Chat Completions, streaming, as OpenAI, OpenRouter, Ollama, llama.cpp, vLLM and LM Studio
//! speak it.
//!
//! Format: <https://platform.openai.com/docs/api-reference/chat>. The dialects differ in what they leave
//! out; everything but a `finish_reason` may be missing.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::claude::Claude;
use super::conversation::{self, AssistantPart, Image, Message, ToolDeclaration, UserMessage, UserPart};
use super::event_fields::{First, Text, TextOrValue, count, figure};
use super::fault::Fault;
use super::http::{error_text, is_context_overflow, kind_of_status};
use super::http_format::{Decoder, HttpFormat, RequestOptions, fields};
use super::repeated_event::RepeatedEvent;
use super::{Finish, ModelErrorKind, ModelRequest, Output};
use crate::parser::{SseEvent, StreamEvent};
use roo_formats::config::{ModelVersion, Price, Reasoning};
use roo_protocol::task::Usage;

pub(super) struct ChatCompletions;

impl HttpFormat for ChatCompletions {
    fn path(&self, _: &str) -> String {
        "/chat/completions".to_owned()
    }

    fn frame(&self, request: &ModelRequest, options: &RequestOptions) -> Map<String, Value> {
        let mut body = json!({
            "model": options.model,
            "stream": true,
        });
        // Mistral refuses it, and tells the usage all the same.
        if !is_at(&options.host, "mistral.ai") {
            body["stream_options"] = json!({ "include_usage": true });
        }
        let reasons = always_reasons(&options.model);
        if let Some(limit) = options.max_tokens {
            body[if reasons { "max_completion_tokens" } else { "max_tokens" }] = limit.into();
        }
        if let (Some(temperature), false) = (options.temperature, reasons) {
            body["temperature"] = temperature.into();
        }
        if let Some(reasoning) = options.reasoning {
            body["reasoning_effort"] = json!(taken_effort(&options.model, reasoning));
        }
        let tools: Vec<Value> = conversation::declared_tools(request).into_iter().map(tool).collect();
        if !tools.is_empty() {
            body["tools"] = tools.into();
            // Others refuse fields that they don't know.
            if options.host == "api.openai.com" {
                body["parallel_tool_calls"] = true.into();
            }
        }
        body["messages"] = if request.system.trim().is_empty() {
            json!([])
        } else {
            let mut system = json!({ "role": "system", "content": &*request.system });
            if marks_cache(options) {
                mark(&mut system);
            }
            json!([system])
        };
        fields(body)
    }

    fn messages_field(&self) -> &'static str {
        "messages"
    }

    fn message(&self, message: Message<'_>, options: &RequestOptions, is_marked: bool) -> Vec<Value> {
        match message {
            Message::User(message) => user_messages(message, options, is_marked),
            Message::Assistant(parts) => vec![assistant_message(parts, options)],
        }
    }

    /// As for Anthropic's own format: besides the system prompt, the last two user messages.
    fn marked_messages(&self, options: &RequestOptions) -> usize {
        if marks_cache(options) { 2 } else { 0 }
    }

    /// Gateways hand on what these models thought, in `reasoning_details`.
    fn keeps_tails(&self, options: &RequestOptions) -> bool {
        Claude::from_name(&options.model).is_some_and(Claude::checks_prefix)
            || checks_conversation(&options.model)
    }

    fn decoder(&self, prices: Price) -> Box<dyn Decoder> {
        Box::new(Stream::new(prices))
    }
}

fn tool(tool: ToolDeclaration) -> Value {
    let function =
        json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
    json!({ "type": "function", "function": function })
}

/// Returns whether the reasoning of a model counts only as long as the conversation before it is as it was.
///
/// Source: <https://developers.openai.com/api/docs/guides/latest-model>.
pub(super) fn checks_conversation(model: &str) -> bool {
    ModelVersion::parse_gpt(model).is_some_and(|version| version >= ModelVersion::new(6, 2))
}

/// OpenAI's reasoning models take no temperature and count their limit differently.
pub(super) fn always_reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let series = name.split('-').next().unwrap_or(name);
    ModelVersion::parse_gpt(name).is_some_and(|version| version >= ModelVersion::new(5, 0))
        || series
            .strip_prefix('o')
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The level of effort that a model of OpenAI's takes which is nearest to this one; for others, the level itself.
pub(super) fn taken_effort(model: &str, level: Reasoning) -> Reasoning {
    let Some(version) = ModelVersion::parse_gpt(model) else {
        return if always_reasons(model) { level.clamp(Reasoning::Low, Reasoning::High) } else { level };
    };
    let is_before = |major, minor| version < ModelVersion::new(major, minor);
    let least = if !is_before(6, 1) || ["codex", "astra"].iter().any(|line| model.contains(line)) {
        Reasoning::Low
    } else if is_before(5, 1) {
        Reasoning::Minimal
    } else {
        Reasoning::None
    };
    let most = if is_before(5, 2) && !model.contains("codex-max") {
        Reasoning::High
    } else if is_before(5, 6) {
        Reasoning::Xhigh
    } else {
        Reasoning::Max
    };
    match level.clamp(least, most) {
        // Models that can do without thinking have no level between none and low.
        Reasoning::Minimal if least == Reasoning::None => Reasoning::Low,
        level => level,
    }
}

/// Hosts of gateways that hand marks of what is to be cached on to Anthropic's models.
const CACHING_GATEWAYS: [&str; 4] = ["openrouter.ai", "ai-gateway.vercel.sh", "requesty.ai", "getunbound.ai"];

/// Providers that are such gateways, wherever they are.
const CACHING_PROVIDERS: [&str; 2] = ["openrouter", "litellm"];

/// Returns whether the endpoint caches for a model only what requests mark: gateways do for Anthropic's models.
fn marks_cache(options: &RequestOptions) -> bool {
    let provider = options.origin.split('/').next().unwrap_or_default();
    let is_gateway = CACHING_PROVIDERS.contains(&provider)
        || CACHING_GATEWAYS.iter().any(|domain| is_at(&options.host, domain));
    is_gateway && (Claude::from_name(&options.model).is_some() || options.model.contains("anthropic/"))
}

/// Returns whether a model refuses a message of the user directly after the results of calls, as Mistral's do wherever they
/// are served.
fn refuses_user_after_results(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    ["mistral", "ministral", "devstral", "codestral", "magistral", "mixtral"]
        .iter()
        .any(|family| name.contains(family))
}

/// What stands for the thinking before calls of another model, whose thinking is not sent, where an endpoint refuses calls
/// without any.
fn foreign_thinking(host: &str) -> Option<&'static str> {
    if is_at(host, "deepseek.com") {
        Some("")
    } else if is_at(host, "moonshot.ai") || is_at(host, "moonshot.cn") {
        // These take an empty one for none.
        Some(" ")
    } else {
        None
    }
}

/// Returns whether a host is in a domain.
fn is_at(host: &str, domain: &str) -> bool {
    host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Marks the end of what is to be cached.
fn mark(message: &mut Value) {
    let cached = json!({ "type": "ephemeral" });
    // Of a result, only the message itself can be marked.
    if message["role"] == "tool" {
        message["cache_control"] = cached;
        return;
    }
    if let Some(last) = parts(message).and_then(|parts| parts.last_mut()) {
        last["cache_control"] = cached;
    }
}

/// The content of a message as a list of parts.
fn parts(message: &mut Value) -> Option<&mut Vec<Value>> {
    let content = &mut message["content"];
    if !content.is_array() {
        *content = json!([{ "type": "text", "text": content.take() }]);
    }
    content.as_array_mut()
}

/// Results are messages of their own; their images go along with what the user says.
fn user_messages(message: UserMessage<'_>, options: &RequestOptions, is_marked: bool) -> Vec<Value> {
    let mut rendered = Vec::new();
    let mut texts = Vec::new();
    let mut images = Vec::new();
    for result in message.results {
        rendered.push(json!({ "role": "tool", "tool_call_id": result.id, "content": result.text }));
        images.extend(result.images);
    }
    for part in message.parts {
        match part {
            UserPart::Text(text) => texts.push(text),
            UserPart::Image(image) => images.push(image),
        }
    }
    let tail = message.tail.map(Cow::Borrowed);
    if marks_cache(options) {
        // The tail changes, so it stays after the mark in a message or a part of its own; and after a message that is no
        // longer marked, as what was cached has it so.
        rendered.extend(user_message(texts, images));
        if let Some(last) = rendered.last_mut().filter(|_| is_marked) {
            mark(last);
        }
        let Some(tail) = tail.map(|tail| json!({ "type": "text", "text": tail })) else { return rendered };
        match rendered.last_mut().filter(|last| last["role"] == "user").and_then(parts) {
            Some(parts) => parts.push(tail),
            None => rendered.push(json!({ "role": "user", "content": [tail] })),
        }
        return rendered;
    }
    texts.extend(tail);
    match rendered.last_mut() {
        Some(result) if images.is_empty() && refuses_user_after_results(&options.model) => {
            let own = result["content"].take();
            let own = own.as_str().map(Cow::Borrowed).into_iter();
            result["content"] = own.chain(texts).collect::<Vec<_>>().join("\n\n").into();
        }
        _ => rendered.extend(user_message(texts, images)),
    }
    rendered
}

/// What the user says; nothing where that is nothing.
fn user_message(texts: Vec<Cow<'_, str>>, images: Vec<Image<'_>>) -> Option<Value> {
    if texts.is_empty() && images.is_empty() {
        return None;
    }
    let text = texts.join("\n\n");
    // Plain text where it can be: the chat templates of small servers know nothing else.
    let content = if images.is_empty() {
        Value::String(text)
    } else {
        let mut parts: Vec<Value> = images.into_iter().map(image_part).collect();
        if !text.is_empty() {
            parts.push(json!({ "type": "text", "text": text }));
        }
        parts.into()
    };
    Some(json!({ "role": "user", "content": content }))
}

fn image_part(image: Image<'_>) -> Value {
    json!({ "type": "image_url", "image_url": { "url": image.url } })
}

fn assistant_message(parts: Vec<AssistantPart<'_>>, options: &RequestOptions) -> Value {
    let mut texts = Vec::new();
    let mut calls = Vec::new();
    let mut reasoning = Map::new();
    for part in parts {
        match part {
            AssistantPart::Text(text) => texts.push(text),
            AssistantPart::Thinking(own) => add_thinking(&mut reasoning, own),
            AssistantPart::Call { id, name, params } => calls.push(json!({
                "id": id,
                "type": "function",
                "function": { "name": name, "arguments": json!(params).to_string() },
            })),
        }
    }
    let content = if texts.is_empty() { Value::Null } else { texts.join("\n\n").into() };
    let mut message = json!({ "role": "assistant", "content": content });
    if let Some(thinking) = foreign_thinking(&options.host).filter(|_| !calls.is_empty()) {
        reasoning.entry("reasoning_content").or_insert_with(|| thinking.into());
    }
    for (field, value) in reasoning {
        message[field] = value;
    }
    if !calls.is_empty() {
        message["tool_calls"] = calls.into();
    }
    message
}

/// Adds the fields of a block of thinking to those of the blocks before it.
fn add_thinking(reasoning: &mut Map<String, Value>, block: &Value) {
    for (field, value) in block.as_object().into_iter().flatten() {
        match (reasoning.get_mut(field), value) {
            (Some(Value::Array(details)), Value::Array(more)) => details.extend(more.iter().cloned()),
            (Some(Value::String(text)), Value::String(more)) => text.push_str(more),
            _ => {
                reasoning.insert(field.clone(), value.clone());
            }
        }
    }
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(default, borrow)]
    choices: Option<First<Choice<'a>>>,
    /// Read only when all else is: no answer is lost for its figures.
    #[serde(default)]
    usage: Option<Value>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default, borrow)]
    delta: Option<Delta<'a>>,
    #[serde(default, borrow)]
    finish_reason: Option<Text<'a>>,
}

#[derive(Deserialize, Default)]
struct Delta<'a> {
    /// Text, or a list of parts (Mistral).
    #[serde(default, borrow)]
    content: Option<TextOrValue<'a>>,
    #[serde(default, borrow)]
    refusal: Option<Text<'a>>,
    /// DeepSeek, vLLM, llama.cpp.
    #[serde(default, borrow)]
    reasoning_content: Option<Text<'a>>,
    /// OpenRouter, Ollama.
    #[serde(default, borrow)]
    reasoning: Option<Text<'a>>,
    /// OpenRouter: blocks that go back to the model's maker, signed or encrypted.
    #[serde(default)]
    reasoning_details: Option<Vec<Value>>,
    #[serde(default, borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default, borrow)]
    id: Option<Text<'a>>,
    #[serde(default, borrow)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize, Default)]
struct FunctionDelta<'a> {
    #[serde(default, borrow)]
    name: Option<Text<'a>>,
    /// A piece of JSON text; some endpoints send the object itself.
    #[serde(default, borrow)]
    arguments: Option<TextOrValue<'a>>,
}

/// A call that is open.
struct Call {
    /// The endpoint's number for it.
    number: Option<u64>,
    /// The endpoint's id; empty as long as it gave none.
    id: String,
    /// Its start was told; that waits for the name.
    begun: bool,
    /// Arguments that came before the name.
    early: String,
}

/// Thinking that is open.
#[derive(Default)]
struct Thinking {
    open: bool,
    /// Text that came as `reasoning_content`, to be sent back under that name.
    content: String,
    details: Vec<Value>,
}

/// The place of the one text of an event that has nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnlyText {
    Content,
    /// Of the call with the endpoint's number.
    Arguments(Option<u64>),
}

impl Chunk<'_> {
    /// The one text, if nothing else in the event counts.
    fn only_text(&self) -> Option<(&Cow<'_, str>, OnlyText)> {
        let Self { choices: Some(First(Some(choice))), usage: None, error: None } = self else { return None };
        let Choice { delta: Some(delta), finish_reason: None } = choice else { return None };
        match delta {
            Delta {
                content: Some(TextOrValue::Text(text)),
                refusal: None,
                reasoning_content: None,
                reasoning: None,
                reasoning_details: None,
                tool_calls: None,
            } => Some((text, OnlyText::Content)),
            Delta {
                content: None,
                refusal: None,
                reasoning_content: None,
                reasoning: None,
                reasoning_details: None,
                tool_calls: Some(calls),
            } => {
                let [CallDelta { index, id: None, function: Some(function) }] = &**calls else { return None };
                let FunctionDelta { name: None, arguments: Some(TextOrValue::Text(text)) } = function else {
                    return None;
                };
                Some((text, OnlyText::Arguments(*index)))
            }
            _ => None,
        }
    }
}

impl<'a> Delta<'a> {
    /// A delta with one text.
    fn only(text: Cow<'a, str>, place: OnlyText) -> Self {
        let text = Some(TextOrValue::Text(text));
        match place {
            OnlyText::Content => Self { content: text, ..Self::default() },
            OnlyText::Arguments(index) => {
                let function = Some(FunctionDelta { name: None, arguments: text });
                Self { tool_calls: Some(vec![CallDelta { index, id: None, function }]), ..Self::default() }
            }
        }
    }
}

/// Decodes one answer.
struct Stream {
    prices: Price,
    thinking: Thinking,
    calls: Vec<Call>,
    /// True if there was text or a call.
    has_answer: bool,
    finish: Option<Finish>,
    /// The newest event with nothing but one text, whose like are read by it.
    repeated: Option<(RepeatedEvent, OnlyText)>,
}

impl Stream {
    fn new(prices: Price) -> Self {
        // Without a price of their own, tokens of the cache cost as much as input, so that limits of cost hold.
        let of_cache = |price: f64| if price == 0.0 { prices.input } else { price };
        let (cache_read, cache_write) = (of_cache(prices.cache_read), of_cache(prices.cache_write));
        Self {
            prices: Price { cache_read, cache_write, ..prices },
            thinking: Thinking::default(),
            calls: Vec::new(),
            has_answer: false,
            finish: None,
            repeated: None,
        }
    }

    fn delta(&mut self, delta: Delta<'_>, outputs: &mut VecDeque<Output>) {
        let mut tell = |event| outputs.push_back(Output::Event(event));
        let (listed_thinking, text) = delta.content.map(content).unwrap_or_default();
        let Text(reasoning_content) = delta.reasoning_content.unwrap_or_default();
        let Text(reasoning) = delta.reasoning.unwrap_or_default();
        self.thinking.content.push_str(&reasoning_content);
        let thinking = [reasoning_content, reasoning, listed_thinking.into()];
        if let Some(text) = thinking.into_iter().find(|text| !text.is_empty()) {
            self.thinking.open = true;
            tell(StreamEvent::Thinking(text.into_owned()));
        }
        for detail in delta.reasoning_details.unwrap_or_default() {
            self.thinking.open = true;
            merge_detail(&mut self.thinking.details, detail);
        }
        let text = if text.is_empty() { delta.refusal.unwrap_or_default().0 } else { text };
        let calls = delta.tool_calls.unwrap_or_default();
        if !text.is_empty() || !calls.is_empty() {
            self.has_answer = true;
            self.thinking.close(&mut tell);
        }
        if !text.is_empty() {
            tell(StreamEvent::Text(text.into_owned()));
        }
        for call in calls {
            self.call(call, &mut tell);
        }
    }

    fn call(&mut self, delta: CallDelta<'_>, tell: &mut impl FnMut(StreamEvent)) {
        let Text(id) = delta.id.unwrap_or_default();
        let function = delta.function.unwrap_or_default();
        let Text(name) = function.name.unwrap_or_default();
        let position = self.position(delta.index, &id, &name).unwrap_or_else(|| {
            let id = id.clone().into_owned();
            self.calls.push(Call { number: delta.index, id, begun: false, early: String::new() });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(position) else { return };
        let index = u32::try_from(position).unwrap_or(u32::MAX);
        if call.id.is_empty() {
            call.id = id.into_owned();
        }
        if !call.begun && !name.is_empty() {
            call.begin(index, name.into_owned(), tell);
        }
        let arguments = match function.arguments {
            Some(TextOrValue::Text(text)) => text.into_owned(),
            Some(TextOrValue::Value(object @ Value::Object(_))) => object.to_string(),
            _ => String::new(),
        };
        match (arguments.is_empty(), call.begun) {
            (true, _) => {}
            (false, true) => tell(StreamEvent::CallArguments { index, text: arguments }),
            (false, false) => call.early.push_str(&arguments),
        }
    }

    /// The open call that a delta goes on with; none if it begins one.
    fn position(&self, number: Option<u64>, id: &str, name: &str) -> Option<usize> {
        let position = match number {
            Some(_) => self.calls.iter().rposition(|call| call.number == number)?,
            None if !id.is_empty() => return self.calls.iter().rposition(|call| call.id == id),
            None if !name.is_empty() => return None,
            None => self.calls.len().checked_sub(1)?,
        };
        // Some endpoints give every call of an answer the same number.
        let other = self
            .calls
            .get(position)
            .is_some_and(|call| call.begun && !name.is_empty() && !id.is_empty() && call.id != id);
        (!other).then_some(position)
    }

    /// Closes what is open. Idempotent.
    fn close(&mut self, outputs: &mut VecDeque<Output>) {
        let mut tell = |event| outputs.push_back(Output::Event(event));
        self.thinking.close(&mut tell);
        for (index, mut call) in (0_u32..).zip(self.calls.drain(..)) {
            if !call.begun {
                call.begin(index, String::new(), &mut tell);
            }
            tell(StreamEvent::CallEnd { index });
        }
    }

    /// Tokens that were read from the cache and written to it stand under the names of OpenAI, OpenRouter, DeepSeek, Requesty,
    /// and Anthropic, which LiteLLM and others pass on.
    fn used(&self, tokens: &Value) -> Output {
        let told = |field: &str| count(&tokens[field]);
        let told_of_prompt = |field: &str| count(&tokens["prompt_tokens_details"][field]);
        let cache_reads = told_of_prompt("cached_tokens")
            .or_else(|| told("prompt_cache_hit_tokens"))
            .or_else(|| told("cache_read_input_tokens"))
            .unwrap_or(0);
        let cache_writes = told_of_prompt("cache_write_tokens")
            .or_else(|| told_of_prompt("caching_tokens"))
            .or_else(|| told_of_prompt("cache_creation_tokens"))
            .or_else(|| told("cache_creation_input_tokens"))
            .unwrap_or(0);
        let prompt = told("prompt_tokens").unwrap_or(0);
        // xAI leaves the tokens of thinking out of those of the answer, and has them in the sum.
        let after_prompt = told("total_tokens").unwrap_or(0).saturating_sub(prompt);
        let mut usage = Usage {
            // The wire counts tokens of the cache as input too.
            tokens_in: prompt.saturating_sub(cache_reads).saturating_sub(cache_writes),
            tokens_out: told("completion_tokens").unwrap_or(0).max(after_prompt),
            cache_reads,
            cache_writes,
            ..Usage::default()
        };
        // OpenRouter's, in US dollars.
        usage.cost_usd = figure(&tokens["cost"]).unwrap_or_else(|| self.prices.cost(&usage));
        Output::Usage(usage)
    }

    /// The answer is complete by the endpoint's word, with or without a reason. None where there was no answer.
    fn complete(&mut self, outputs: &mut VecDeque<Output>) -> Option<Finish> {
        if self.finish.is_none() && self.has_answer {
            self.finish = Some(Finish::Done);
            self.close(outputs);
        }
        self.finish
    }
}

impl Decoder for Stream {
    fn event(&mut self, event: SseEvent<'_>, outputs: &mut VecDeque<Output>) -> Result<(), Fault> {
        if event.data.trim() == "[DONE]" {
            return match self.complete(outputs) {
                Some(finish) => {
                    outputs.push_back(Output::Finished(finish));
                    Ok(())
                }
                None => Err(Fault::new(
                    ModelErrorKind::Cut,
                    "the stream ended without saying that the answer is complete",
                )),
            };
        }
        if let Some((repeated, place)) = &self.repeated
            && self.finish.is_none()
            && let Some(text) = repeated.text_of(event.data)
        {
            let delta = Delta::only(text, *place);
            self.delta(delta, outputs);
            return Ok(());
        }
        let chunk: Chunk<'_> = serde_json::from_str(event.data).map_err(|error| Fault::malformed(&error))?;
        if let Some((text, place)) = chunk.only_text()
            && let Some(repeated) = RepeatedEvent::around(event.data, text)
        {
            self.repeated = Some((repeated, place));
        }
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(stream_fault(&error));
        }
        // What comes after the end belongs to no block.
        if let Some(First(Some(choice))) = chunk.choices.filter(|_| self.finish.is_none()) {
            if let Some(delta) = choice.delta {
                self.delta(delta, outputs);
            }
            if let Some(Text(reason)) = choice.finish_reason.filter(|Text(reason)| !reason.is_empty()) {
                self.finish = Some(finish(&reason)?);
                self.close(outputs);
            }
        }
        if let Some(tokens) = chunk.usage.filter(Value::is_object) {
            outputs.push_back(self.used(&tokens));
        }
        Ok(())
    }

    fn end(&mut self, outputs: &mut VecDeque<Output>) -> bool {
        // Some endpoints never send `[DONE]`.
        outputs.extend(self.finish.map(Output::Finished));
        self.finish.is_some()
    }

    /// An answer that was not streamed has its message in place of a delta.
    fn document(&mut self, body: &str, outputs: &mut VecDeque<Output>) -> Result<bool, Fault> {
        let mut body: Value = serde_json::from_str(body).map_err(|error| Fault::malformed(&error))?;
        // What only names an error may be another service's word.
        if body["error"].is_string() {
            return Ok(false);
        }
        if let Some(choice) = body.pointer_mut("/choices/0").and_then(Value::as_object_mut)
            && let Some(message) = choice.remove("message")
        {
            choice.insert("delta".to_owned(), message);
        }
        self.event(SseEvent { event: None, data: &body.to_string() }, outputs)?;
        self.complete(outputs);
        Ok(self.end(outputs))
    }
}

impl Call {
    fn begin(&mut self, index: u32, name: String, tell: &mut impl FnMut(StreamEvent)) {
        self.begun = true;
        let id = if self.id.is_empty() { format!("call_{index}") } else { self.id.clone() };
        tell(StreamEvent::CallStart { index, id, name });
        if !self.early.is_empty() {
            tell(StreamEvent::CallArguments { index, text: std::mem::take(&mut self.early) });
        }
    }
}

impl Thinking {
    fn close(&mut self, tell: &mut impl FnMut(StreamEvent)) {
        let Self { open: true, content, details } = std::mem::take(self) else { return };
        let mut own = Map::new();
        if !details.is_empty() {
            own.insert("reasoning_details".to_owned(), details.into());
        } else if !content.is_empty() {
            own.insert("reasoning_content".to_owned(), content.into());
        }
        tell(StreamEvent::ThinkingEnd((!own.is_empty()).then_some(Value::Object(own))));
    }
}

/// Thinking and text of a delta's content.
fn content(content: TextOrValue<'_>) -> (String, Cow<'_, str>) {
    let parts = match content {
        TextOrValue::Text(text) => return (String::new(), text),
        TextOrValue::Value(Value::Array(parts)) => parts,
        TextOrValue::Value(_) => vec![],
    };
    let mut thinking = String::new();
    let mut text = String::new();
    for part in parts {
        text.push_str(part["text"].as_str().unwrap_or_default());
        for part in part["thinking"].as_array().into_iter().flatten() {
            thinking.push_str(part["text"].as_str().unwrap_or_default());
        }
    }
    (thinking, text.into())
}

/// What the end of an answer means by its reason.
fn finish(reason: &str) -> Result<Finish, Fault> {
    match reason {
        "length" => Ok(Finish::Length),
        "content_filter" => Ok(Finish::Refused),
        "error" => {
            let text = "the endpoint ended the answer without a reason";
            Err(Fault::new(ModelErrorKind::Unavailable(None), text))
        }
        _ => Ok(Finish::Done),
    }
}

/// Adds a piece of a reasoning block to the block of the same index and type.
fn merge_detail(details: &mut Vec<Value>, piece: Value) {
    let same = |block: &&mut Value| block["index"] == piece["index"] && block["type"] == piece["type"];
    let (Some(block), Some(fields)) = (details.iter_mut().rev().find(same), piece.as_object()) else {
        details.push(piece);
        return;
    };
    for (field, value) in fields {
        match (field.as_str(), block[field].as_str(), value.as_str()) {
            ("text" | "summary" | "data", Some(before), Some(more)) => {
                block[field] = format!("{before}{more}").into();
            }
            _ if value.is_null() => {}
            _ => block[field] = value.clone(),
        }
    }
}

/// The failure that an `error` object within the stream tells of.
pub(super) fn stream_fault(error: &Value) -> Fault {
    let said = error_text(&json!({ "error": error }).to_string());
    let code = &error["code"];
    let status =
        code.as_u64().or_else(|| code.as_str()?.parse().ok()).and_then(|code| u16::try_from(code).ok());
    let word = code.as_str().or(error["type"].as_str()).unwrap_or_default();
    let kind = match (status, word) {
        (Some(status @ 400..), _) => kind_of_status(status, &said, None),
        (_, "context_length_exceeded" | "exceed_context_size_error") => ModelErrorKind::ContextWindow,
        _ if is_context_overflow(&said) => ModelErrorKind::ContextWindow,
        (_, "rate_limit_exceeded" | "rate_limit_error") => ModelErrorKind::RateLimited(None),
        (_, "invalid_api_key" | "insufficient_quota" | "authentication_error") => {
            ModelErrorKind::Unauthorized
        }
        (_, "invalid_request_error" | "invalid_prompt") => ModelErrorKind::Invalid,
        _ => ModelErrorKind::Unavailable(None),
    };
    Fault::new(kind, format!("the endpoint ended the answer with an error: {said}"))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn options(host: &str, model: &str) -> RequestOptions {
        RequestOptions {
            origin: "p/m".into(),
            model: model.into(),
            host: host.into(),
            max_tokens: None,
            reasoning: None,
            temperature: None,
            prices: Price::default(),
        }
    }

    fn result(text: &'static str) -> conversation::CallResult<'static> {
        conversation::CallResult {
            id: "1".into(),
            name: "read_file".into(),
            text: text.into(),
            is_error: false,
            images: vec![],
        }
    }

    #[test]
    fn openrouter_caches_for_claude_up_to_what_does_not_change() {
        let options = options("openrouter.ai", "anthropic/claude-opus-5.5");
        let render =
            |message, is_marked| ChatCompletions.message(Message::User(message), &options, is_marked);
        let cached = json!({ "type": "ephemeral" });
        let said = || UserMessage {
            parts: vec![UserPart::Text("Look.".into())],
            tail: Some("It is 12:00."),
            ..UserMessage::default()
        };
        let tail = json!({ "type": "text", "text": "It is 12:00." });
        assert_eq!(
            render(said(), true),
            [json!({ "role": "user", "content": [
                { "type": "text", "text": "Look.", "cache_control": cached }, tail,
            ] })]
        );
        let results =
            UserMessage { results: vec![result("x")], tail: Some("It is 12:00."), ..UserMessage::default() };
        assert_eq!(
            render(results, true),
            [
                json!({ "role": "tool", "tool_call_id": "1", "content": "x", "cache_control": cached }),
                json!({ "role": "user", "content": [tail] }),
            ]
        );
        assert_eq!(ChatCompletions.marked_messages(&options), 2);
        assert_eq!(
            render(said(), false),
            [json!({ "role": "user", "content": [{ "type": "text", "text": "Look." }, tail] })],
            "it is the same text without the mark"
        );
        let other = self::options("openrouter.ai", "openai/gpt-6-sol");
        assert_eq!(ChatCompletions.marked_messages(&other), 0);
    }

    #[test]
    fn gateways_cache_for_claude_what_is_marked() {
        let marked = |provider: &str, host: &str, model: &str| {
            let origin = format!("{provider}/{model}");
            ChatCompletions.marked_messages(&RequestOptions { origin, ..options(host, model) })
        };
        for (provider, host, model) in [
            ("litellm", "127.0.0.1", "claude-sonnet-4-5"),
            ("openrouter", "openrouter.corp.example", "anthropic/claude-opus-5.5"),
            ("openai", "openrouter.ai", "anthropic/claude-opus-5.5"),
            ("openai", "ai-gateway.vercel.sh", "anthropic/claude-sonnet-4.5"),
            ("openai", "router.requesty.ai", "bedrock/claude-sonnet-4-5@eu-central-1"),
            ("openai", "api.getunbound.ai", "anthropic/claude-haiku-4-5"),
        ] {
            assert_eq!(marked(provider, host, model), 2, "{provider} {host} {model}");
        }
        for (provider, host, model) in [
            ("litellm", "127.0.0.1", "gpt-6-sol"),
            ("openai", "router.requesty.ai", "openai/gpt-6-sol"),
            ("openai", "api.example.com", "claude-sonnet-4-5"),
            ("openai", "notopenrouter.ai", "anthropic/claude-opus-5.5"),
        ] {
            assert_eq!(marked(provider, host, model), 0, "{provider} {host} {model}");
        }
    }

    #[test]
    fn tokens_of_the_cache_are_no_ordinary_input() {
        let prices = Price { input: 3.0, output: 15.0, cache_read: 0.3, cache_write: 3.75 };
        let told = |told: Value| {
            let mut tokens = json!({ "prompt_tokens": 1000, "completion_tokens": 10 });
            tokens.as_object_mut().unwrap().extend(told.as_object().unwrap().clone());
            match Stream::new(prices).used(&tokens) {
                Output::Usage(usage) => usage,
                other => panic!("{other:?}"),
            }
        };
        for tokens in [
            json!({ "prompt_tokens_details": { "cached_tokens": 600, "cache_write_tokens": 300 } }),
            json!({ "prompt_tokens_details": { "cached_tokens": 600, "caching_tokens": 300 } }),
            json!({ "prompt_tokens_details": { "cached_tokens": 600 }, "cache_creation_input_tokens": 300 }),
            json!({ "cache_read_input_tokens": 600, "cache_creation_input_tokens": 300 }),
        ] {
            let usage = told(tokens.clone());
            assert_eq!((usage.tokens_in, usage.cache_reads, usage.cache_writes), (100, 600, 300), "{tokens}");
            let cost = (100.0 * 3.0 + 600.0 * 0.3 + 300.0 * 3.75 + 10.0 * 15.0) / 1e6;
            assert!((usage.cost_usd - cost).abs() < 1e-12, "{}", usage.cost_usd);
        }
    }

    #[test]
    fn tokens_of_the_cache_cost_as_much_as_input_where_they_have_no_price() {
        let prices = Price { input: 3.0, output: 15.0, ..Price::default() };
        let tokens = json!({
            "prompt_tokens": 1000,
            "prompt_tokens_details": { "cached_tokens": 600, "cache_write_tokens": 300 },
        });
        let Output::Usage(usage) = Stream::new(prices).used(&tokens) else { panic!("no usage") };
        assert!((usage.cost_usd - 1000.0 * 3.0 / 1e6).abs() < 1e-12, "{}", usage.cost_usd);
    }

    #[test]
    fn usage_is_asked_for_where_that_is_not_refused() {
        let request = ModelRequest {
            system: "Be brief.".into(),
            items: vec![].into(),
            rendered: crate::providers::Rendered::default(),
            tail: None,
            tools: [].into(),
            protocol: roo_catalog::ToolProtocol::Native,
            mode: String::new(),
            max_tokens: None,
            leaves_out_images: false,
        };
        let asked =
            |host| ChatCompletions.frame(&request, &options(host, "m")).get("stream_options").cloned();
        let usage = Some(json!({ "include_usage": true }));
        assert_eq!(asked("api.openai.com"), usage);
        assert_eq!(asked("notmistral.ai"), usage);
        for host in ["api.mistral.ai", "codestral.mistral.ai"] {
            assert_eq!(asked(host), None, "{host}");
        }
    }

    #[test]
    fn thinking_of_several_blocks_goes_back_whole() {
        let first = json!({ "reasoning_details": [{ "text": "a" }], "reasoning_content": "a" });
        let second = json!({ "reasoning_details": [{ "text": "b" }], "reasoning_content": "b" });
        let parts = vec![
            AssistantPart::Thinking(&first),
            AssistantPart::Text("Hm.".into()),
            AssistantPart::Thinking(&second),
        ];
        assert_eq!(
            assistant_message(parts, &options("openrouter.ai", "m")),
            json!({
                "role": "assistant", "content": "Hm.",
                "reasoning_details": [{ "text": "a" }, { "text": "b" }], "reasoning_content": "ab",
            })
        );
    }

    #[test]
    fn a_call_that_another_model_made_has_thinking_where_the_endpoint_demands_it() {
        let params = Map::new();
        let message = |host| {
            let call = AssistantPart::Call { id: "1".into(), name: "read_file".into(), params: &params };
            assistant_message(vec![call], &options(host, "m"))["reasoning_content"].clone()
        };
        assert_eq!(message("api.deepseek.com"), "");
        assert_eq!(message("api.moonshot.ai"), " ");
        assert_eq!(message("api.openai.com"), Value::Null);
    }

    /// What is decoded from these events, and whether all of them can be read.
    fn decoded(events: &[&str]) -> (Vec<Output>, Result<(), ModelErrorKind>) {
        let (mut stream, mut outputs) = (Stream::new(Price::default()), VecDeque::new());
        let read = events
            .iter()
            .try_for_each(|data| stream.event(SseEvent { event: None, data }, &mut outputs))
            .map_err(|fault| fault.kind);
        (outputs.into(), read)
    }

    #[test]
    fn no_answer_is_lost_for_a_figure_or_an_id_of_another_kind() {
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":7,"function":{"name":"f","arguments":"{}"}}]}}]}"#;
        let end = r#"{"choices":[{"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":10.0,"completion_tokens":"5","cost":"0.25"}}"#;
        let (outputs, read) = decoded(&[call, end, "[DONE]"]);
        let usage = Usage { tokens_in: 10, tokens_out: 5, cost_usd: 0.25, ..Usage::default() };
        assert_eq!(read, Ok(()));
        assert_eq!(
            outputs,
            [
                Output::Event(StreamEvent::CallStart { index: 0, id: "7".into(), name: "f".into() }),
                Output::Event(StreamEvent::CallArguments { index: 0, text: "{}".into() }),
                Output::Event(StreamEvent::CallEnd { index: 0 }),
                Output::Usage(usage),
                Output::Finished(Finish::Done),
            ]
        );
        for usage in ["null", "[]", "\"free\"", "{\"prompt_tokens\":[]}"] {
            let end = format!(r#"{{"choices":[{{"delta":{{}},"finish_reason":"stop"}}],"usage":{usage}}}"#);
            assert_eq!(decoded(&[&end, "[DONE]"]).1, Ok(()), "{usage}");
        }
    }

    #[test]
    fn an_answer_whose_end_is_told_without_a_reason_is_complete() {
        let text = r#"{"choices":[{"delta":{"content":"Hm."}}]}"#;
        let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"1","function":{"name":"f","arguments":"{}"}}]}}]}"#;
        let (outputs, read) = decoded(&[text, call, "[DONE]"]);
        assert_eq!(read, Ok(()));
        let end = [Output::Event(StreamEvent::CallEnd { index: 0 }), Output::Finished(Finish::Done)];
        assert!(outputs.ends_with(&end), "{outputs:?}");
        let thought = r#"{"choices":[{"delta":{"reasoning":"Hm."}}]}"#;
        for nothing in [&["[DONE]"][..], &[thought, "[DONE]"]] {
            assert_eq!(decoded(nothing).1, Err(ModelErrorKind::Cut), "{nothing:?}");
        }
    }

    #[test]
    fn an_answer_that_was_not_streamed_is_read() {
        let body = json!({
            "object": "chat.completion",
            "choices": [{
                "index": 0,
                "message": {
                    "role": "assistant", "content": "I look.", "refusal": null,
                    "tool_calls": [
                        { "id": "1", "type": "function", "function": { "name": "f", "arguments": "{}" } },
                        { "id": "2", "type": "function", "function": { "name": "g", "arguments": "{}" } },
                    ],
                },
                "finish_reason": "tool_calls",
            }],
            "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 },
        });
        let read = |body: &Value| {
            let (mut stream, mut outputs) = (Stream::new(Price::default()), VecDeque::new());
            let is_complete = stream.document(&body.to_string(), &mut outputs).map_err(|fault| fault.kind);
            (Vec::from(outputs), is_complete)
        };
        let call = |index, id: &str, name: &str| {
            [
                Output::Event(StreamEvent::CallStart { index, id: id.into(), name: name.into() }),
                Output::Event(StreamEvent::CallArguments { index, text: "{}".into() }),
            ]
        };
        let (outputs, is_complete) = read(&body);
        assert_eq!(is_complete, Ok(true));
        let end = |index| Output::Event(StreamEvent::CallEnd { index });
        let usage = Usage { tokens_in: 10, tokens_out: 5, ..Usage::default() };
        let mut expected = vec![Output::Event(StreamEvent::Text("I look.".into()))];
        expected.extend(call(0, "1", "f").into_iter().chain(call(1, "2", "g")));
        expected.extend([end(0), end(1), Output::Usage(usage), Output::Finished(Finish::Done)]);
        assert_eq!(outputs, expected);
        let mut unreasoned = body.clone();
        unreasoned["choices"][0]["finish_reason"] = Value::Null;
        assert_eq!(read(&unreasoned).1, Ok(true));
        let slow_down = json!({ "error": { "code": 429, "message": "slow down" } });
        assert_eq!(read(&slow_down).1, Err(ModelErrorKind::RateLimited(None)));
        for other in [json!({ "error": "not found" }), json!({ "choices": [] }), json!({ "status": "ok" })] {
            assert_eq!(read(&other).1, Ok(false), "{other}");
        }
    }

    #[test]
    fn tokens_of_thinking_that_are_only_in_the_sum_count() {
        let out = |tokens: Value| match Stream::new(Price::default()).used(&tokens) {
            Output::Usage(usage) => usage.tokens_out,
            other => panic!("{other:?}"),
        };
        let xai = json!({ "prompt_tokens": 10_120, "completion_tokens": 1499, "total_tokens": 14_428 });
        assert_eq!(out(xai), 4308);
        let openai = json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 });
        assert_eq!(out(openai), 5);
        assert_eq!(out(json!({ "prompt_tokens": 10, "completion_tokens": 5 })), 5);
    }
}
