//! Requests of servers to the model of the task that calls them (*sampling*). They are read into text here, and bounded. Who
//! answers them, and whether anybody does, is not known here.

#![expect(deprecated, reason = "servers of today sample")]

use rmcp::ErrorData;
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ErrorCode, Role, SamplingMessage,
    SamplingMessageContentBlock,
};
use tokio::sync::oneshot;

/// The most messages of a request.
const MESSAGES: usize = 50;
/// The longest text of a request in all, in bytes: its user has to read it.
const TEXT: usize = 16 << 10;
/// The most tokens of an answer.
const TOKENS: u64 = 4096;
/// The code of JSON-RPC by which the specification says that a user refused.
const REJECTED: ErrorCode = ErrorCode(-1);

/// A server's request for an answer of a model.
#[derive(Debug)]
pub struct Sampling {
    /// The system prompt that the server wants.
    pub system: Option<String>,
    /// The conversation that it wants continued.
    pub messages: Vec<SampledMessage>,
    /// The most tokens of the answer, from 1 to 4096.
    pub max_tokens: u64,
    /// Receives the answer, or the reason why there is none in words for the server. To drop it refuses the request; it is
    /// closed when the server takes the request back.
    pub answer: oneshot::Sender<Result<Sampled, String>>,
}

/// A message in a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SampledMessage {
    /// True if the server presents it as a model's words.
    pub by_model: bool,
    pub text: String,
}

/// Answer of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sampled {
    pub text: String,
    /// Name of the model.
    pub model: String,
    /// True if it reached the limit of tokens.
    pub is_cut: bool,
}

/// A request without the way back.
#[derive(Debug, PartialEq)]
pub(crate) struct SamplingParts {
    pub system: Option<String>,
    pub messages: Vec<SampledMessage>,
    pub max_tokens: u64,
}

impl SamplingParts {
    /// Reads a request. Preferences for a model, and for context of other servers, are not followed.
    ///
    /// # Errors
    /// Says what is not supported or too much.
    pub(crate) fn read(params: CreateMessageRequestParams) -> Result<Self, String> {
        if params.tools.is_some_and(|tools| !tools.is_empty()) {
            return Err("tools are not supported".to_owned());
        }
        if params.max_tokens == 0 {
            return Err("`maxTokens` must be at least 1".to_owned());
        }
        if params.messages.is_empty() || params.messages.len() > MESSAGES {
            return Err(format!("expected 1 to {MESSAGES} messages"));
        }
        let mut left = TEXT;
        let mut take = |text: String| match left.checked_sub(text.len()) {
            Some(rest) => {
                left = rest;
                Ok(text)
            }
            None => Err(format!("it has more than {} KiB of text", TEXT >> 10)),
        };
        let system = params.system_prompt.map(&mut take).transpose()?;
        let mut messages = vec![];
        for SamplingMessage { role, content, .. } in params.messages {
            for block in content.into_vec() {
                let SamplingMessageContentBlock::Text(text) = block else {
                    return Err("only text is supported".to_owned());
                };
                messages.push(SampledMessage { by_model: role == Role::Assistant, text: take(text.text)? });
            }
        }
        // A message may have many empty parts.
        if messages.is_empty() || messages.len() > MESSAGES {
            return Err(format!("expected 1 to {MESSAGES} texts"));
        }
        Ok(Self { system, messages, max_tokens: u64::from(params.max_tokens).min(TOKENS) })
    }
}

/// The answer for the server.
pub(crate) fn result(sampled: Sampled) -> CreateMessageResult {
    let reason = match sampled.is_cut {
        true => CreateMessageResult::STOP_REASON_END_MAX_TOKEN,
        false => CreateMessageResult::STOP_REASON_END_TURN,
    };
    let message = SamplingMessage::assistant_text(sampled.text);
    CreateMessageResult::new(message, sampled.model).with_stop_reason(reason)
}

/// The refusal for the server.
pub(crate) fn rejected(reason: &str) -> ErrorData {
    ErrorData::new(REJECTED, format!("sampling was refused: {reason}"), None)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn read(params: Value) -> Result<SamplingParts, String> {
        SamplingParts::read(serde_json::from_value(params).unwrap())
    }

    #[test]
    fn a_request_is_text_within_bounds() {
        let hi = json!({ "role": "user", "content": { "type": "text", "text": "Hi." } });
        let two = json!({ "role": "assistant", "content": [
            { "type": "text", "text": "One." }, { "type": "text", "text": "Two." }
        ] });
        let read_in =
            read(json!({ "messages": [hi, two], "systemPrompt": "Be a desk.", "maxTokens": 100_000 }));
        let message = |by_model, text: &str| SampledMessage { by_model, text: text.to_owned() };
        let expected = SamplingParts {
            system: Some("Be a desk.".to_owned()),
            messages: vec![message(false, "Hi."), message(true, "One."), message(true, "Two.")],
            max_tokens: TOKENS,
        };
        assert_eq!(read_in.unwrap(), expected);

        let image = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let tool = json!({ "name": "rm", "inputSchema": { "type": "object" } });
        let empty = json!({ "role": "user", "content": vec![json!({ "type": "text", "text": "" }); 51] });
        for (params, reason) in [
            (json!({ "messages": [hi], "maxTokens": 9, "tools": [tool] }), "tools are not supported"),
            (json!({ "messages": [hi], "maxTokens": 0 }), "`maxTokens` must be at least 1"),
            (json!({ "messages": [], "maxTokens": 9 }), "expected 1 to 50 messages"),
            (json!({ "messages": vec![&hi; 51], "maxTokens": 9 }), "expected 1 to 50 messages"),
            (json!({ "messages": [empty], "maxTokens": 9 }), "expected 1 to 50 texts"),
            (
                json!({ "messages": [{ "role": "user", "content": image }], "maxTokens": 9 }),
                "only text is supported",
            ),
            (
                json!({ "messages": [hi], "systemPrompt": "x".repeat(TEXT - 2), "maxTokens": 9 }),
                "it has more than 16 KiB of text",
            ),
        ] {
            assert_eq!(read(params).unwrap_err(), reason);
        }
    }
}
