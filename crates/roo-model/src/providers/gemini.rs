//! Gemini's `generateContent`, streaming.
//!
//! Format: <https://ai.google.dev/api/generate-content>. Signatures:
//! <https://ai.google.dev/gemini-api/docs/thought-signatures>.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::conversation::{self, AssistantPart, CallResult, Image, Message, UserMessage, UserPart};
use super::fault::Fault;
use super::http::{error_text, kind_of_status};
use super::http_format::{Decoder, HttpFormat, RequestOptions, fields};
use super::listed::ListedModel;
use super::{Finish, ModelErrorKind, ModelRequest, Output};
use crate::parser::{SseEvent, StreamEvent};
use roo_formats::config::{ModelVersion, Price, Reasoning};
use roo_protocol::task::Usage;

/// Signature that the documentation names for calls that another model made: models from Gemini 3 on refuse a turn
/// whose first call has no signature.
const FOREIGN_CALL: &str = "skip_thought_signature_validator";

/// `streamGenerateContent`.
pub(super) struct GenerateContent;

impl HttpFormat for GenerateContent {
    fn path(&self, model: &str) -> String {
        let resource = if model.contains('/') { model.to_owned() } else { format!("models/{model}") };
        format!("/{resource}:streamGenerateContent")
    }

    fn query(&self) -> Option<&'static str> {
        Some("alt=sse")
    }

    fn key_header(&self, key: &str) -> (&'static str, String) {
        ("x-goog-api-key", key.to_owned())
    }

    fn frame(&self, request: &ModelRequest, options: &RequestOptions) -> Map<String, Value> {
        let mut body = json!({});
        if !request.system.trim().is_empty() {
            body["systemInstruction"] = json!({ "parts": [{ "text": &*request.system }] });
        }
        let tools = conversation::declared_tools(request);
        if !tools.is_empty() {
            let declare = |tool: conversation::ToolDeclaration| {
                json!({
                    "name": tool.name,
                    "description": tool.description,
                    "parametersJsonSchema": tool.parameters,
                })
            };
            let declarations: Vec<Value> = tools.into_iter().map(declare).collect();
            body["tools"] = json!([{ "functionDeclarations": declarations }]);
        }
        body["contents"] = json!([]);
        let mut generation = Map::new();
        if let Some(limit) = options.max_tokens {
            generation.insert("maxOutputTokens".to_owned(), limit.into());
        }
        if let Some(temperature) = options.temperature {
            generation.insert("temperature".to_owned(), temperature.into());
        }
        if let Some(reasoning) = options.reasoning {
            generation.insert("thinkingConfig".to_owned(), thinking(&options.model, reasoning));
        }
        if !generation.is_empty() {
            body["generationConfig"] = generation.into();
        }
        fields(body)
    }

    fn messages_field(&self) -> &'static str {
        "contents"
    }

    fn message(&self, message: Message<'_>, options: &RequestOptions, _: bool) -> Vec<Value> {
        vec![match message {
            Message::User(message) => json!({ "role": "user", "parts": user_parts(message) }),
            Message::Assistant(parts) => {
                json!({ "role": "model", "parts": model_parts(parts, is_before_3(&options.model)) })
            }
        }]
    }

    fn decoder(&self, prices: Price) -> Box<dyn Decoder> {
        Box::new(Stream::new(prices))
    }

    fn list_path(&self) -> (&'static str, Option<&'static str>) {
        ("/models", Some("pageSize=1000"))
    }

    fn listed(&self, document: &Value) -> Option<Vec<ListedModel>> {
        Some(document["models"].as_array()?.iter().filter_map(ListedModel::from_gemini).collect())
    }

    fn error_kind(&self, status: u16, body: &Value) -> Option<ModelErrorKind> {
        error_kind(status, &body["error"])
    }
}

/// Returns whether a model is older than Gemini 3: it takes a budget in place of a level, and calls without signatures.
fn is_before_3(model: &str) -> bool {
    ModelVersion::parse_gemini(model).is_some_and(|version| version < ModelVersion::new(3, 0))
}

/// The budgets are those that Google gives for the effort levels of its OpenAI-compatible endpoint.
fn thinking(model: &str, reasoning: Reasoning) -> Value {
    // Only small and older ones have less.
    let is_flash_before_3_6 = model.contains("flash")
        && ModelVersion::parse_gemini(model).is_some_and(|version| version < ModelVersion::new(3, 6));
    let least = if is_flash_before_3_6 || model.contains("flash-lite") { "MINIMAL" } else { "LOW" };
    // This one can't do without thinking.
    let least_budget = if model.contains("gemini-2.5-pro") { 128 } else { 0 };
    let (level, budget) = match reasoning {
        Reasoning::None => (least, least_budget),
        Reasoning::Minimal => (least, 1024),
        Reasoning::Low => ("LOW", 1024),
        Reasoning::Medium => ("MEDIUM", 8192),
        Reasoning::High | Reasoning::Xhigh | Reasoning::Max => ("HIGH", 24_576),
    };
    let shown = reasoning != Reasoning::None;
    if is_before_3(model) {
        json!({ "thinkingBudget": budget, "includeThoughts": shown })
    } else {
        json!({ "thinkingLevel": level, "includeThoughts": shown })
    }
}

fn user_parts(message: UserMessage<'_>) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut images = Vec::new();
    for result in message.results {
        let CallResult { id, name, text, is_error, images: shown } = result;
        let response = json!({ if is_error { "error" } else { "output" }: text });
        parts.push(json!({ "functionResponse": { "id": id, "name": name, "response": response } }));
        images.extend(shown);
    }
    parts.extend(images.into_iter().map(image_part));
    parts.extend(message.parts.into_iter().map(|part| match part {
        UserPart::Text(text) => json!({ "text": text }),
        UserPart::Image(image) => image_part(image),
    }));
    parts.extend(message.tail.map(|tail| json!({ "text": tail })));
    parts
}

fn image_part(image: Image<'_>) -> Value {
    json!({ "inlineData": { "mimeType": image.media_type, "data": image.data } })
}

/// A signature goes back on the part that it came with: the call behind it, or a part of its own.
fn model_parts(answer: Vec<AssistantPart<'_>>, before_3: bool) -> Vec<Value> {
    let mut parts = Vec::new();
    let mut signature = None;
    let mut calls = 0;
    for part in answer {
        match part {
            AssistantPart::Text(text) => parts.push(json!({ "text": text })),
            AssistantPart::Thinking(own) => match &own["callSignature"] {
                Value::String(call) => signature = Some(call.as_str()),
                _ => parts.push(own.clone()),
            },
            AssistantPart::Call { id, name, params } => {
                let mut part = json!({ "functionCall": { "id": id, "name": name, "args": params } });
                let needed = (calls == 0 && !before_3).then_some(FOREIGN_CALL);
                if let Some(signature) = signature.take().or(needed) {
                    part["thoughtSignature"] = signature.into();
                }
                parts.push(part);
                calls += 1;
            }
        }
    }
    parts
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    #[serde(default)]
    prompt_feedback: Option<PromptFeedback>,
    #[serde(default)]
    usage_metadata: Option<Tokens>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    #[serde(default)]
    content: Content,
    #[serde(default)]
    finish_reason: Option<String>,
    #[serde(default)]
    finish_message: Option<String>,
}

#[derive(Deserialize, Default)]
struct Content {
    #[serde(default)]
    parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    #[serde(default)]
    text: String,
    #[serde(default)]
    thought: bool,
    #[serde(default)]
    thought_signature: Option<String>,
    #[serde(default)]
    function_call: Option<FunctionCall>,
}

#[derive(Deserialize)]
struct FunctionCall {
    #[serde(default)]
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    args: Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    #[serde(default)]
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tokens {
    #[serde(default)]
    prompt_token_count: u64,
    #[serde(default)]
    cached_content_token_count: u64,
    #[serde(default)]
    candidates_token_count: u64,
    #[serde(default)]
    thoughts_token_count: u64,
    #[serde(default)]
    tool_use_prompt_token_count: u64,
}

/// Decodes one answer.
struct Stream {
    prices: Price,
    /// Thinking that has begun and not ended.
    thinking: bool,
    /// A signature on text. Held to the end, as it may come in the middle of a call in the XML protocol.
    text_signature: Option<String>,
    calls: u32,
    finish: Option<Finish>,
}

impl Stream {
    fn new(prices: Price) -> Self {
        Self { prices, thinking: false, text_signature: None, calls: 0, finish: None }
    }

    fn part(&mut self, part: Part, tell: &mut impl FnMut(StreamEvent)) {
        let signature = part.thought_signature.filter(|signature| !signature.is_empty());
        if let Some(call) = part.function_call {
            self.call(call, signature, tell);
        } else if part.thought {
            self.thinking = true;
            tell(StreamEvent::Thinking(part.text.clone()));
            if let Some(signature) = signature {
                self.thinking = false;
                let own = json!({ "text": part.text, "thought": true, "thoughtSignature": signature });
                tell(StreamEvent::ThinkingEnd(Some(own)));
            }
        } else {
            self.text_signature = signature.or(self.text_signature.take());
            if !part.text.is_empty() {
                self.end_thinking(tell);
                tell(StreamEvent::Text(part.text));
            }
        }
    }

    /// Calls come whole.
    fn call(&mut self, call: FunctionCall, signature: Option<String>, tell: &mut impl FnMut(StreamEvent)) {
        match signature {
            Some(signature) => {
                self.thinking = false;
                tell(StreamEvent::ThinkingEnd(Some(json!({ "callSignature": signature }))));
            }
            None => self.end_thinking(tell),
        }
        let index = self.calls;
        self.calls += 1;
        let id = if call.id.is_empty() { format!("call_{index}") } else { call.id };
        tell(StreamEvent::CallStart { index, id, name: call.name });
        tell(StreamEvent::CallArguments { index, text: Value::Object(call.args).to_string() });
        tell(StreamEvent::CallEnd { index });
    }

    fn end_thinking(&mut self, tell: &mut impl FnMut(StreamEvent)) {
        if std::mem::take(&mut self.thinking) {
            tell(StreamEvent::ThinkingEnd(None));
        }
    }

    fn used(&self, tokens: &Tokens) -> Output {
        let read = tokens.prompt_token_count + tokens.tool_use_prompt_token_count;
        let mut usage = Usage {
            // The wire counts cached tokens as input too.
            tokens_in: read.saturating_sub(tokens.cached_content_token_count),
            tokens_out: tokens.candidates_token_count + tokens.thoughts_token_count,
            cache_reads: tokens.cached_content_token_count,
            ..Usage::default()
        };
        usage.cost_usd = self.prices.cost(&usage);
        Output::Usage(usage)
    }
}

impl Decoder for Stream {
    fn event(&mut self, event: SseEvent<'_>, outputs: &mut VecDeque<Output>) -> Result<(), Fault> {
        let chunk: Chunk = serde_json::from_str(event.data).map_err(|error| Fault::malformed(&error))?;
        if let Some(error) = chunk.error.filter(|error| !error.is_null()) {
            return Err(stream_fault(&error));
        }
        if let Some(reason) = chunk.prompt_feedback.and_then(|feedback| feedback.block_reason) {
            let text =
                format!("the endpoint blocked the request ({reason}): rephrase it, or use another model");
            return Err(Fault::new(ModelErrorKind::Invalid, text));
        }
        if let Some(candidate) = chunk.candidates.into_iter().next() {
            // What comes after the end belongs to no block.
            if self.finish.is_none() {
                let mut tell = |event| outputs.push_back(Output::Event(event));
                for part in candidate.content.parts {
                    self.part(part, &mut tell);
                }
            }
            if let Some(reason) = candidate.finish_reason {
                self.finish = Some(finish(&reason, candidate.finish_message.as_deref())?);
            }
        }
        if let Some(tokens) = &chunk.usage_metadata {
            outputs.push_back(self.used(tokens));
        }
        Ok(())
    }

    fn end(&mut self, outputs: &mut VecDeque<Output>) -> bool {
        let Some(finish) = self.finish else { return false };
        let mut tell = |event| outputs.push_back(Output::Event(event));
        self.end_thinking(&mut tell);
        if let Some(signature) = self.text_signature.take() {
            tell(StreamEvent::ThinkingEnd(Some(json!({ "text": "", "thoughtSignature": signature }))));
        }
        outputs.push_back(Output::Finished(finish));
        true
    }
}

fn finish(reason: &str, message: Option<&str>) -> Result<Finish, Fault> {
    Ok(match reason {
        "MAX_TOKENS" => Finish::Length,
        "SAFETY" | "RECITATION" | "LANGUAGE" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "OTHER" => {
            Finish::Refused
        }
        "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" => {
            let text =
                format!("the model's tool call failed ({reason}): {}", message.unwrap_or("no explanation"));
            return Err(Fault::new(ModelErrorKind::Malformed, text));
        }
        _ => Finish::Done,
    })
}

/// The failure that an `error` object within the stream tells of.
fn stream_fault(error: &Value) -> Fault {
    let said = error_text(&json!({ "error": error }).to_string());
    let status = error["code"].as_u64().and_then(|code| u16::try_from(code).ok()).unwrap_or(500);
    let kind = error_kind(status, error).unwrap_or_else(|| kind_of_status(status, &said, None));
    Fault::new(kind, format!("the endpoint ended the answer with an error: {said}"))
}

/// Returns the kind of an error where HTTP's status alone does not say it: a wrong key is a bad request here, and the
/// wait stands in the body.
fn error_kind(status: u16, error: &Value) -> Option<ModelErrorKind> {
    let details = || error["details"].as_array().into_iter().flatten();
    match status {
        400 if details().any(|detail| detail["reason"] == "API_KEY_INVALID") => {
            Some(ModelErrorKind::Unauthorized)
        }
        429 => {
            let delay = details().find_map(|detail| detail["retryDelay"].as_str())?;
            let seconds: f64 = delay.strip_suffix('s')?.parse().ok()?;
            let wait = std::time::Duration::try_from_secs_f64(seconds.clamp(0.0, 600.0)).ok()?;
            Some(ModelErrorKind::RateLimited(Some(wait)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_thinking_is_the_least_that_a_model_can_do() {
        let budget = |model| thinking(model, Reasoning::None)["thinkingBudget"].clone();
        for model in ["gemini-2.5-pro", "gemini-2.5-pro-preview-06-05", "models/gemini-2.5-pro"] {
            assert_eq!(budget(model), 128, "{model}");
        }
        assert_eq!(budget("gemini-2.5-flash"), 0);
        assert_eq!(thinking("gemini-2.5-pro", Reasoning::Low)["thinkingBudget"], 1024);
    }
}
