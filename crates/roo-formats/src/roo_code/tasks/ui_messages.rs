//! What the user of a task was shown: an array of asks and says. Of use to a reader here are its times and what the requests
//! used; it is written whole, as Roo Code shows nothing of a task without it.

use serde_json::{Value, json};

use super::item::{cost, count};
use super::{AnswerPart, InputPart, PastCall, PastContent, PastMessage, PastTask, is_time};
use roo_catalog::{Invocation, Shown as ShownCall, ToolCall, parse};
use roo_protocol::ids::ToolCallId;
use roo_protocol::task::Usage;

/// What the messages say of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Shown {
    /// Time of the first one.
    pub(super) first_at: Option<i64>,
    /// Time of the last one.
    pub(super) last_at: Option<i64>,
    /// What the requests used, together.
    pub(super) usage: Usage,
}

impl Shown {
    /// Reads what can be read.
    pub(super) fn read(value: &Value) -> Self {
        let mut shown = Self::default();
        for message in value.as_array().into_iter().flatten() {
            let at = i64::try_from(count(message.get("ts"))).ok().filter(is_time);
            shown.first_at = shown.first_at.or(at);
            shown.last_at = at.or(shown.last_at);
            let is_request = message.get("say").and_then(Value::as_str) == Some("api_req_started");
            let text = message.get("text").and_then(Value::as_str).filter(|_| is_request);
            let request: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
            if let Some(request) = request {
                shown.usage += Usage {
                    tokens_in: count(request.get("tokensIn")),
                    tokens_out: count(request.get("tokensOut")),
                    cache_reads: count(request.get("cacheReads")),
                    cache_writes: count(request.get("cacheWrites")),
                    cost_usd: cost(request.get("cost")),
                };
            }
        }
        shown
    }
}

/// Writes what the user of a task would have been shown.
pub(super) fn to_json(task: &PastTask) -> Value {
    let mut written = Written { messages: vec![], at: task.created_at };
    written.say("text", &task.item.task, &[]);
    let mut is_first = true;
    let last_answer =
        task.messages.iter().rposition(|message| matches!(message.content, PastContent::Answer(_)));
    for (index, PastMessage { at, content }) in task.messages.iter().enumerate() {
        written.at = at.unwrap_or(written.at).max(written.at);
        match content {
            PastContent::Input(parts) => {
                for part in parts {
                    match part {
                        InputPart::Words(_) if is_first => is_first = false,
                        InputPart::Words(words) => written.say("user_feedback", words, &[]),
                        InputPart::Text(_) | InputPart::Image(_) | InputPart::Result(_) => {}
                    }
                }
            }
            PastContent::Answer(parts) => {
                // What the single requests used isn't known: all of it is shown with the last one.
                let usage = if last_answer == Some(index) { task.item.usage } else { Usage::default() };
                written.say("api_req_started", &request(usage).to_string(), &[]);
                parts.iter().for_each(|part| written.part(part));
            }
            PastContent::Summary(text) => {
                let condensed = json!({
                    "summary": text, "cost": 0, "prevContextTokens": 0, "newContextTokens": 0,
                });
                written.say("condense_context", "", &[("contextCondense", condensed)]);
            }
        }
    }
    if task.item.is_completed {
        written.ask("completion_result", "");
    }
    Value::Array(written.messages)
}

fn request(usage: Usage) -> Value {
    json!({
        "tokensIn": usage.tokens_in,
        "tokensOut": usage.tokens_out,
        "cacheWrites": usage.cache_writes,
        "cacheReads": usage.cache_reads,
        "cost": usage.cost_usd,
    })
}

/// The messages so far. Each has a time of its own, by which Roo Code tells them apart.
struct Written {
    messages: Vec<Value>,
    at: i64,
}

impl Written {
    fn say(&mut self, say: &str, text: &str, more: &[(&str, Value)]) {
        let mut message = json!({ "ts": self.at, "type": "say", "say": say, "text": text, "partial": false });
        for (key, value) in more {
            message[*key] = value.clone();
        }
        self.push(message);
    }

    fn ask(&mut self, ask: &str, text: &str) {
        self.push(json!({ "ts": self.at, "type": "ask", "ask": ask, "text": text, "partial": false }));
    }

    fn push(&mut self, message: Value) {
        self.messages.push(message);
        self.at = self.at.saturating_add(1);
    }

    fn part(&mut self, part: &AnswerPart) {
        match part {
            AnswerPart::Text(text) => self.say("text", text, &[]),
            AnswerPart::Thinking(text) => self.say("reasoning", text, &[]),
            AnswerPart::Call(PastCall { id, name, params }) => {
                let (id, name, params) = (ToolCallId::new(id.clone()), name.clone(), params.clone());
                self.call(&ToolCall { id, name, params, problem: None, note: None });
            }
        }
    }

    fn call(&mut self, call: &ToolCall) {
        match parse(call) {
            Ok(Invocation::AttemptCompletion(completion)) => {
                self.say("completion_result", &completion.result, &[]);
            }
            Ok(Invocation::AskFollowupQuestion(question)) => {
                let suggestions = question.suggestions.iter();
                let suggestions: Vec<Value> =
                    suggestions.map(|suggestion| json!({ "answer": suggestion.text })).collect();
                let asked = json!({ "question": question.question, "suggest": suggestions });
                self.ask("followup", &asked.to_string());
            }
            _ => match call.shown() {
                ShownCall::Command(line) => self.ask("command", &line),
                ShownCall::Tool(payload) => self.ask("tool", &payload.to_string()),
                ShownCall::Server(payload) => self.ask("use_mcp_server", &payload.to_string()),
            },
        }
    }
}
