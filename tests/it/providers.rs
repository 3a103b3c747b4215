//! The wire: what providers send, what they make of real streams, and every way in which HTTP fails.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use roo_catalog::{ToolCall, ToolName, ToolProtocol};
use roo_formats::config::Profile;
use roo_model::parser::StreamEvent;
use roo_model::providers::{
    AssistantBlock, Finish, Item, Model, ModelError, ModelErrorKind, ModelRequest, Output, Rendered,
    ToolResult, connect,
};
use roo_protocol::event::ToolStatus;
use roo_protocol::ids::ToolCallId;
use roo_protocol::task::Usage;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::support::client::DEADLINE;
use crate::support::model_server::{
    Answer, ModelServer, Step, anthropic, anthropic_call, anthropic_text, anthropic_thinking, base_url,
    gemini, gemini_call, gemini_text, gemini_thinking, openai, openai_call, openai_text, openai_thinking,
    responses, responses_call, responses_reasoning, responses_text,
};

const FORMATS: [&str; 4] = ["anthropic", "openai", "openai-responses", "gemini"];
const KEY: &str = "sk-0123456789abcdef";

/// A profile for this server, with more fields.
fn profile(format: &str, url: &str, more: Value) -> Profile {
    let mut settings = json!({
        "provider": format, "baseUrl": base_url(format, url), "model": "test-model", "apiKeyEnv": "KEY",
        "pricePerMillion": { "input": 1, "output": 10, "cacheRead": 0.5, "cacheWrite": 2 },
    });
    settings.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    serde_json::from_value(settings).unwrap()
}

fn model(format: &str, url: &str, more: Value) -> Arc<dyn Model> {
    connect(&profile(format, url, more), &|name| (name == "KEY").then(|| KEY.to_owned())).unwrap()
}

fn user(text: &str) -> Item {
    Item::User { text: text.into(), images: Vec::new() }
}

fn request(protocol: ToolProtocol, items: Vec<Item>) -> ModelRequest {
    ModelRequest {
        system: "You are a tester.".into(),
        items: items.into(),
        rendered: Rendered::default(),
        tail: Some("The time is 12:00.".into()),
        tools: Arc::new([ToolName::ListFiles.into(), ToolName::AttemptCompletion.into()]),
        protocol,
        mode: "code".into(),
        max_tokens: None,
        leaves_out_images: false,
    }
}

fn hello() -> ModelRequest {
    request(ToolProtocol::Native, vec![user("Hello.")])
}

async fn ask(model: &Arc<dyn Model>) -> Vec<Result<Output, ModelError>> {
    timeout(Duration::from_secs(20), model.stream(hello()).collect()).await.expect("the stream ends")
}

/// What a server's answer comes to.
async fn outputs(format: &str, answer: Answer) -> Vec<Result<Output, ModelError>> {
    let server = ModelServer::start([answer]).await;
    ask(&model(format, &server.url(), json!({}))).await
}

async fn failure(format: &str, answer: Answer) -> ModelError {
    outputs(format, answer).await.pop().unwrap().expect_err("the request fails")
}

fn event(event: StreamEvent) -> Output {
    Output::Event(event)
}

fn text(text: &str) -> Output {
    event(StreamEvent::Text(text.into()))
}

fn arguments(index: u32, text: &str) -> Output {
    event(StreamEvent::CallArguments { index, text: text.into() })
}

fn call_start(index: u32, id: &str, name: &str) -> Output {
    event(StreamEvent::CallStart { index, id: id.into(), name: name.into() })
}

/// The streamed text and the calls' arguments, with all pieces joined.
fn joined(outputs: &[Result<Output, ModelError>]) -> String {
    let mut joined = String::new();
    for output in outputs {
        match output.as_ref().unwrap() {
            Output::Event(
                StreamEvent::Text(text)
                | StreamEvent::Thinking(text)
                | StreamEvent::CallArguments { text, .. },
            ) => joined.push_str(text),
            Output::Event(StreamEvent::CallStart { id, name, .. }) => {
                joined.push_str(&format!("[{name} {id} "))
            }
            Output::Event(StreamEvent::CallEnd { .. }) => joined.push(']'),
            Output::Event(StreamEvent::ThinkingEnd(_)) => joined.push('|'),
            Output::Usage(_) => {}
            Output::Finished(finish) => joined.push_str(&format!(" {finish:?}")),
        }
    }
    joined
}

mod rendering {
    use super::*;

    fn call(id: &str, path: &str) -> AssistantBlock {
        let params = json!({ "path": path }).as_object().cloned().unwrap();
        let call = ToolCall {
            id: ToolCallId::new(id),
            name: "list_files".into(),
            params,
            problem: None,
            note: None,
        };
        AssistantBlock::Call { call }
    }

    fn result(id: &str, status: ToolStatus, text: &str) -> ToolResult {
        ToolResult {
            call_id: ToolCallId::new(id),
            name: "list_files".into(),
            subject: "src".into(),
            status,
            text: text.into(),
            images: Vec::new(),
        }
    }

    /// Images, thinking of this and of another model, parallel calls, a refusal, an odd id.
    fn conversation(format: &str) -> Vec<Item> {
        let image = "data:image/png;base64,AAAA".to_owned();
        let own = match format {
            "openai" => json!({ "reasoning_content": "I look first." }),
            "openai-responses" => {
                json!({ "type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "xyz" })
            }
            "gemini" => json!({ "callSignature": "sig" }),
            _ => json!({ "type": "thinking", "thinking": "I look first.", "signature": "sig" }),
        };
        let thinking = |origin: &str, opaque| AssistantBlock::Thinking {
            text: "I look first.".into(),
            opaque: Some(opaque),
            origin: origin.into(),
        };
        let seen = ToolResult { images: vec![image.clone()], ..result("call:1", ToolStatus::Ok, "lib.rs") };
        vec![
            Item::User { text: "Look.".into(), images: vec![image] },
            Item::Assistant {
                blocks: vec![
                    thinking(&format!("{format}/test-model"), own),
                    thinking("another/model", json!({ "type": "thinking" })),
                    AssistantBlock::Text { text: "I'll look.".into() },
                    call("call:1", "src"),
                    call("call:2", "/"),
                ],
                tail: None,
            },
            Item::Results { results: vec![seen, result("call:2", ToolStatus::Denied, "outside")] },
            user("Go on."),
            Item::Assistant { blocks: vec![AssistantBlock::Text { text: "Done.".into() }], tail: None },
            user("Thanks."),
        ]
    }

    async fn body(format: &str, request: ModelRequest, more: Value) -> Value {
        let mut server = ModelServer::start([Answer::status(500, &[], "")]).await;
        let model = model(format, &server.url(), more);
        model.stream(request).collect::<Vec<_>>().await;
        server.request().await.body
    }

    #[tokio::test]
    async fn a_conversation_in_every_format_and_protocol() {
        for format in FORMATS {
            for protocol in [ToolProtocol::Native, ToolProtocol::Xml] {
                let more = json!({ "maxTokens": 4096, "reasoning": "medium", "temperature": 0.5 });
                let body = body(format, request(protocol, conversation(format)), more).await;
                insta::assert_json_snapshot!(format!("{format}_{protocol:?}").to_lowercase(), body);
            }
        }
    }

    #[tokio::test]
    async fn models_that_always_reason_get_other_fields() {
        let more = |model: &str| json!({ "model": model, "maxTokens": 100, "temperature": 0.5 });
        for name in ["o3", "o4-mini", "gpt-5", "openai/gpt-5-nano", "gpt-6-sol"] {
            let body = body("openai", hello(), more(name)).await;
            assert_eq!(body["max_completion_tokens"], 100, "{name}");
            assert!(body["max_tokens"].is_null() && body["temperature"].is_null(), "{name}");
        }
        for name in ["gpt-4o", "olmo-2", "o", "opus"] {
            let body = body("openai", hello(), more(name)).await;
            assert_eq!((&body["max_tokens"], &body["temperature"]), (&json!(100), &json!(0.5)), "{name}");
        }
    }

    #[tokio::test]
    async fn claude_gets_a_budget_or_a_level_of_effort_by_its_version() {
        let more =
            |model: &str, level: &str| json!({ "model": model, "reasoning": level, "temperature": 0.5 });
        let budget = body("anthropic", hello(), more("claude-sonnet-4-5", "medium")).await;
        assert_eq!(budget["thinking"], json!({ "type": "enabled", "budget_tokens": 16_000 }));
        assert_eq!(budget["max_tokens"], 32_000);
        assert!(budget["output_config"].is_null());
        let effort = body("anthropic", hello(), more("anthropic.claude-opus-4-8-v1:0", "xhigh")).await;
        assert_eq!(effort["thinking"], json!({ "type": "adaptive", "display": "summarized" }));
        assert_eq!(effort["output_config"], json!({ "effort": "xhigh" }));
        assert_eq!(effort["max_tokens"], 64_000);
        let without = body("anthropic", hello(), more("claude-opus-4-8", "none")).await;
        for sent in [effort, without.clone()] {
            assert!(sent["temperature"].is_null(), "{sent}");
        }
        assert!(without["thinking"].is_null() && without["output_config"].is_null());
        let other = body("anthropic", hello(), json!({ "model": "glm-5" })).await;
        assert_eq!(other["max_tokens"], 8192);
    }

    #[tokio::test]
    async fn a_model_that_checks_what_came_before_may_drop_thoughts() {
        let sent = async |more: Value| {
            let mut server = ModelServer::start([Answer::status(500, &[], "")]).await;
            ask(&model("anthropic", &server.url(), more)).await;
            server.request().await
        };
        let allowed = json!({ "prefix_mismatch_behavior": "drop_block" });
        let request = sent(json!({ "model": "claude-opus-5-5" })).await;
        assert_eq!(request.body["thinking"]["block_binding"], allowed);
        assert_eq!(
            request.headers.get("anthropic-beta").map(String::as_str),
            Some("thinking-binding-controls-2026-08-01")
        );
        let own = json!({ "model": "claude-fable-5-1", "headers": { "anthropic-beta": "context-1m" } });
        let header = sent(own).await;
        assert_eq!(
            header.headers.get("anthropic-beta").map(String::as_str),
            Some("context-1m,thinking-binding-controls-2026-08-01")
        );
        let older = sent(json!({ "model": "claude-opus-5" })).await;
        assert_eq!(
            (
                &older.body["thinking"]["block_binding"],
                older.headers.get("anthropic-beta").map(String::as_str)
            ),
            (&Value::Null, None)
        );
    }

    #[tokio::test]
    async fn instructions_stand_first_where_openai_would_put_them_last() {
        let newer = body("openai-responses", hello(), json!({ "model": "gpt-6.2-sol" })).await;
        assert_eq!(newer["instructions"], Value::Null);
        assert_eq!(newer["input"][0]["role"], "developer");
        assert_eq!(newer["input"][0]["content"][0]["text"], "You are a tester.");
        assert_eq!(newer["input"][1]["role"], "user");
        let older = body("openai-responses", hello(), json!({ "model": "gpt-6-sol" })).await;
        assert_eq!(
            (&older["instructions"], &older["input"][0]["role"]),
            (&json!("You are a tester."), &json!("user"))
        );
    }

    #[tokio::test]
    async fn what_follows_results_goes_into_the_last_one_for_mistral() {
        let items = conversation("openai")[..4].to_vec();
        let roles = |body: &Value| -> Vec<String> {
            let messages = body["messages"].as_array().unwrap();
            messages.iter().map(|message| message["role"].as_str().unwrap().to_owned()).collect()
        };
        let without_images = |mut items: Vec<Item>| {
            if let Item::Results { results } = &mut items[2] {
                results[0].images.clear();
            }
            items
        };
        let request = || request(ToolProtocol::Native, without_images(items.clone()));
        for name in ["mistral-large-latest", "mistralai/Devstral-Small-2507"] {
            let body = body("openai", request(), json!({ "model": name })).await;
            assert_eq!(roles(&body), ["system", "user", "assistant", "tool", "tool"], "{name}");
            let last = body["messages"][4]["content"].as_str().unwrap();
            assert!(last.ends_with("\n\nGo on.\n\nThe time is 12:00."), "{last}");
        }
        let other = body("openai", request(), json!({ "model": "gpt-4.1" })).await;
        assert_eq!(roles(&other), ["system", "user", "assistant", "tool", "tool", "user"]);
    }

    #[tokio::test]
    async fn reasoning_is_asked_for_as_each_model_takes_it() {
        let more = |model: &str, level: &str| json!({ "model": model, "reasoning": level });
        let responses = body("openai-responses", hello(), more("gpt-4.1", "none")).await;
        assert!(responses["include"].is_null() && responses["reasoning"]["summary"].is_null());
        let responses = body("openai-responses", hello(), json!({ "model": "gpt-5" })).await;
        assert_eq!(responses["include"], json!(["reasoning.encrypted_content"]));
        assert!(responses["reasoning"].is_null(), "the model's own default");
        for (name, level, taken) in [
            ("gpt-5", "none", "minimal"),
            ("gpt-5", "xhigh", "high"),
            ("gpt-5", "max", "high"),
            ("gpt-5.4", "max", "xhigh"),
            ("gpt-6-sol", "max", "max"),
            ("gpt-5.1", "minimal", "low"),
            ("gpt-5.1-codex-max", "xhigh", "xhigh"),
            ("gpt-6-sol", "none", "none"),
            ("gpt-6.1-sol", "none", "low"),
            ("gpt-6-astra", "none", "low"),
            ("gpt-5.2-codex", "none", "low"),
            ("o3", "max", "high"),
            ("o3", "minimal", "low"),
        ] {
            let responses = body("openai-responses", hello(), more(name, level)).await;
            assert_eq!(responses["reasoning"]["effort"], taken, "{name} {level}");
        }
        for (model, level, expected) in [
            ("gemini-2.5-flash", "none", json!({ "thinkingBudget": 0, "includeThoughts": false })),
            ("gemini-2.5-pro", "medium", json!({ "thinkingBudget": 8192, "includeThoughts": true })),
            ("gemini-3.1-pro-preview", "low", json!({ "thinkingLevel": "LOW", "includeThoughts": true })),
            ("gemini-3.5-flash", "xhigh", json!({ "thinkingLevel": "HIGH", "includeThoughts": true })),
            ("gemini-3.5-flash", "none", json!({ "thinkingLevel": "MINIMAL", "includeThoughts": false })),
            ("gemini-3.8-flash", "none", json!({ "thinkingLevel": "LOW", "includeThoughts": false })),
            ("gemini-3.1-pro-preview", "minimal", json!({ "thinkingLevel": "LOW", "includeThoughts": true })),
            ("gemini-4-argon", "minimal", json!({ "thinkingLevel": "LOW", "includeThoughts": true })),
        ] {
            let body = body("gemini", hello(), more(model, level)).await;
            assert_eq!(body["generationConfig"]["thinkingConfig"], expected, "{model} {level}");
        }
    }

    /// Gemini's calls of a conversation with their signatures, in order.
    fn signatures(body: &Value) -> Vec<Value> {
        let parts = body["contents"].as_array().unwrap().iter().flat_map(|content| {
            content["parts"].as_array().unwrap().iter().filter(|part| part["functionCall"].is_object())
        });
        parts.map(|part| part["thoughtSignature"].clone()).collect()
    }

    #[tokio::test]
    async fn gemini_gets_a_signature_on_the_first_call_of_each_answer() {
        let answer = |blocks| Item::Assistant { blocks, tail: None };
        let thinking = AssistantBlock::Thinking {
            text: String::new(),
            opaque: Some(json!({ "callSignature": "own" })),
            origin: "gemini/gemini-3.5-flash".into(),
        };
        let items = vec![
            user("Look."),
            answer(vec![call("1", "a"), call("2", "b")]),
            Item::Results {
                results: vec![result("1", ToolStatus::Ok, "x"), result("2", ToolStatus::Ok, "y")],
            },
            answer(vec![thinking, call("3", "a"), call("4", "b")]),
        ];
        let foreign = "skip_thought_signature_validator";
        let request = || request(ToolProtocol::Native, items.clone());
        let new = body("gemini", request(), json!({ "model": "gemini-3.5-flash" })).await;
        assert_eq!(signatures(&new), [json!(foreign), json!(null), json!("own"), json!(null)]);
        let old = body("gemini", request(), json!({ "model": "gemini-2.5-pro" })).await;
        assert_eq!(signatures(&old), [json!(null), json!(null), json!(null), json!(null)]);
    }

    #[tokio::test]
    async fn another_wire_format_than_the_providers_own_has_its_own_thinking() {
        let mut server = ModelServer::start([Answer::status(500, &[], "")]).await;
        let model = model("openai", &server.url(), json!({ "wireFormat": "openai-responses" }));
        assert_eq!(model.origin(), "openai+openai-responses/test-model");
        ask(&model).await;
        assert_eq!(server.request().await.line, "POST /v1/responses");
    }

    fn without_marks(value: &Value) -> Value {
        match value {
            Value::Array(list) => list.iter().map(without_marks).collect(),
            Value::Object(object) => object
                .iter()
                .filter(|(name, _)| *name != "cache_control")
                .map(|(name, value)| (name.clone(), without_marks(value)))
                .collect(),
            other => other.clone(),
        }
    }

    /// The content blocks up to the last one with a mark, in the order of the conversation.
    fn cached(body: &Value, mark: usize) -> String {
        let blocks: Vec<&Value> = body["messages"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|m| m["content"].as_array().unwrap())
            .collect();
        let marked: Vec<usize> =
            (0..blocks.len()).filter(|i| !blocks[*i]["cache_control"].is_null()).collect();
        let end = marked[marked.len() - mark];
        blocks[..=end].iter().map(|block| without_marks(block).to_string()).collect()
    }

    #[tokio::test]
    async fn requests_of_a_task_share_their_beginning_and_are_marked_where_the_one_before_ended() {
        for protocol in [ToolProtocol::Native, ToolProtocol::Xml] {
            let items = conversation("anthropic");
            let mut before: Option<Value> = None;
            // A request goes out whenever the user's side has spoken.
            for end in [1, 4, 6] {
                let request = ModelRequest {
                    tail: Some(format!("Request {end}.")),
                    ..request(protocol, items[..end].to_vec())
                };
                let body = body("anthropic", request, json!({})).await;
                if let Some(before) = before {
                    for part in ["tools", "system"] {
                        assert_eq!(body[part].to_string(), before[part].to_string());
                    }
                    assert_eq!(cached(&body, 2), cached(&before, 1), "what was written can be read");
                }
                let marks = body.to_string().matches("cache_control").count();
                assert!(marks <= 4, "{marks}");
                before = Some(body);
            }
        }
    }

    #[tokio::test]
    async fn chat_completions_share_all_messages_before_the_tail() {
        let items = conversation("openai");
        let first = body("openai", request(ToolProtocol::Native, items[..4].to_vec()), json!({})).await;
        let second = body("openai", request(ToolProtocol::Native, items), json!({})).await;
        let (first, second) = (first["messages"].as_array().unwrap(), second["messages"].as_array().unwrap());
        let shared = first.len() - 1;
        assert_eq!(first[..shared], second[..shared]);
    }

    #[tokio::test]
    async fn a_request_carries_its_key_and_headers_to_the_right_place() {
        let mut server = ModelServer::start((0..7).map(|_| Answer::status(500, &[], ""))).await;
        ask(&model("anthropic", &server.url(), json!({ "headers": { "anthropic-version": "2099-01-01" } })))
            .await;
        let sent = server.request().await;
        assert_eq!(sent.line, "POST /v1/messages");
        assert_eq!(sent.headers["x-api-key"], KEY);
        assert_eq!(sent.headers["anthropic-version"], "2099-01-01");

        ask(&model("openai", &server.url(), json!({}))).await;
        let sent = server.request().await;
        assert_eq!(sent.line, "POST /v1/chat/completions");
        assert_eq!(sent.headers["authorization"], format!("Bearer {KEY}"));

        ask(&model("openai-responses", &server.url(), json!({}))).await;
        let sent = server.request().await;
        assert_eq!(sent.line, "POST /v1/responses");
        assert_eq!(sent.headers["authorization"], format!("Bearer {KEY}"));

        for name in ["test-model", "models/test-model"] {
            ask(&model("gemini", &server.url(), json!({ "model": name }))).await;
            let sent = server.request().await;
            assert_eq!(sent.line, "POST /v1beta/models/test-model:streamGenerateContent?alt=sse");
            assert_eq!(sent.headers["x-goog-api-key"], KEY);
        }

        ask(&model("openai", &server.url(), json!({ "headers": { "Authorization": "Basic abc" } }))).await;
        assert_eq!(server.request().await.headers["authorization"], "Basic abc");

        ask(&model("openai", &server.url(), json!({ "apiKeyEnv": "UNSET" }))).await;
        assert!(!server.request().await.headers.contains_key("authorization"), "loopback needs no key");
    }
}

mod decoding {
    use super::*;

    #[tokio::test]
    async fn an_anthropic_answer_with_thinking_text_and_parallel_calls() {
        let body = anthropic(
            &[
                anthropic_thinking("hmm", "sig"),
                json!({ "type": "redacted_thinking", "data": "xyz" }),
                json!({ "type": "server_tool_use", "id": "s", "name": "web_search", "input": {} }),
                anthropic_text("Ah é"),
                anthropic_call("toolu_1", "list_files", json!({ "path": "a" })),
                anthropic_call("toolu_2", "list_files", json!({ "path": "b" })),
            ],
            "tool_use",
        );
        let outputs: Vec<Output> =
            outputs("anthropic", Answer::stream(body)).await.into_iter().map(Result::unwrap).collect();
        let begin = Usage {
            tokens_in: 10,
            tokens_out: 1,
            cache_reads: 30,
            cache_writes: 20,
            cost_usd: (10.0 + 10.0 + 15.0 + 40.0) / 1e6,
        };
        let end = Usage { tokens_out: 40, cost_usd: (10.0 + 400.0 + 15.0 + 40.0) / 1e6, ..begin };
        let own = json!({ "type": "thinking", "thinking": "hmm", "signature": "sig" });
        let redacted = json!({ "type": "redacted_thinking", "data": "xyz" });
        assert_eq!(
            outputs,
            [
                Output::Usage(begin),
                event(StreamEvent::Thinking("".into())),
                event(StreamEvent::Thinking("h".into())),
                event(StreamEvent::Thinking("mm".into())),
                event(StreamEvent::ThinkingEnd(Some(own))),
                event(StreamEvent::ThinkingEnd(Some(redacted))),
                text(""),
                text("Ah"),
                text(" é"),
                call_start(4, "toolu_1", "list_files"),
                arguments(4, "{\"path"),
                arguments(4, "\":\"a\"}"),
                event(StreamEvent::CallEnd { index: 4 }),
                call_start(5, "toolu_2", "list_files"),
                arguments(5, "{\"path"),
                arguments(5, "\":\"b\"}"),
                event(StreamEvent::CallEnd { index: 5 }),
                Output::Usage(end),
                Output::Finished(Finish::Done),
            ]
        );
    }

    #[tokio::test]
    async fn a_chat_completion_with_thinking_text_and_parallel_calls() {
        let input = json!({ "path": "a" });
        let deltas = [
            openai_thinking("hmm"),
            openai_text("Ah é"),
            openai_call(0, "c1", "list_files", &input),
            openai_call(1, "c2", "list_files", &input),
        ]
        .concat();
        let outputs: Vec<Output> = outputs("openai", Answer::stream(openai(&deltas, "tool_calls")))
            .await
            .into_iter()
            .map(Result::unwrap)
            .collect();
        let cost_usd = (40.0 + 400.0 + 30.0) / 1e6;
        let usage = Usage { tokens_in: 40, tokens_out: 40, cache_reads: 60, cache_writes: 0, cost_usd };
        assert_eq!(
            outputs,
            [
                event(StreamEvent::Thinking("h".into())),
                event(StreamEvent::Thinking("mm".into())),
                event(StreamEvent::ThinkingEnd(Some(json!({ "reasoning_content": "hmm" })))),
                text("Ah"),
                text(" é"),
                call_start(0, "c1", "list_files"),
                arguments(0, "{\"path"),
                arguments(0, "\":\"a\"}"),
                call_start(1, "c2", "list_files"),
                arguments(1, "{\"path"),
                arguments(1, "\":\"a\"}"),
                event(StreamEvent::CallEnd { index: 0 }),
                event(StreamEvent::CallEnd { index: 1 }),
                Output::Usage(usage),
                Output::Finished(Finish::Done),
            ]
        );
    }

    #[tokio::test]
    async fn a_response_with_reasoning_text_and_parallel_calls() {
        let input = json!({ "path": "a" });
        let items = [
            responses_reasoning(&["hmm", "so"], "xyz"),
            responses_text("Ah é"),
            json!({ "type": "web_search_call", "id": "ws_1", "status": "completed" }),
            responses_call("c1", "list_files", &input),
            responses_call("c2", "list_files", &input),
        ];
        let outputs: Vec<Output> =
            outputs("openai-responses", Answer::stream(responses(&items, "completed")))
                .await
                .into_iter()
                .map(Result::unwrap)
                .collect();
        let cost_usd = (30.0 + 400.0 + 30.0 + 20.0) / 1e6;
        let usage = Usage { tokens_in: 30, tokens_out: 40, cache_reads: 60, cache_writes: 10, cost_usd };
        let own = json!({
            "type": "reasoning", "id": "rs_1", "encrypted_content": "xyz",
            "summary": [{ "type": "summary_text", "text": "hmm" }, { "type": "summary_text", "text": "so" }],
        });
        assert_eq!(
            outputs,
            [
                event(StreamEvent::Thinking("h".into())),
                event(StreamEvent::Thinking("mm".into())),
                event(StreamEvent::Thinking("\n\n".into())),
                event(StreamEvent::Thinking("s".into())),
                event(StreamEvent::Thinking("o".into())),
                event(StreamEvent::ThinkingEnd(Some(own))),
                text("Ah"),
                text(" é"),
                call_start(3, "c1", "list_files"),
                arguments(3, "{\"path"),
                arguments(3, "\":\"a\"}"),
                event(StreamEvent::CallEnd { index: 3 }),
                call_start(4, "c2", "list_files"),
                arguments(4, "{\"path"),
                arguments(4, "\":\"a\"}"),
                event(StreamEvent::CallEnd { index: 4 }),
                Output::Usage(usage),
                Output::Finished(Finish::Done),
            ]
        );
    }

    #[tokio::test]
    async fn a_response_whose_items_come_whole() {
        let done = |index: u32, item: Value| json!({ "type": "response.output_item.done", "output_index": index, "item": item });
        let unsigned = json!({ "type": "reasoning", "id": "rs_1", "summary": [] });
        let events = [
            done(0, unsigned),
            done(1, responses_text("Hello.")),
            done(2, responses_call("c1", "f", &json!({ "a": 1 }))),
            json!({ "type": "response.completed", "response": { "id": "r" } }),
        ];
        let body: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let outputs = outputs("openai-responses", Answer::stream(format!("{body}data: [DONE]\n\n"))).await;
        assert_eq!(joined(&outputs), "|Hello.[f c1 {\"a\":1}] Done");
        let unsigned = event(StreamEvent::ThinkingEnd(None));
        assert_eq!(outputs[0].as_ref().unwrap(), &unsigned, "nothing that the endpoint could not find again");
    }

    #[tokio::test]
    async fn a_gemini_answer_with_thinking_text_and_parallel_calls() {
        let input = json!({ "path": "a" });
        let parts = [
            gemini_thinking("hmm"),
            gemini_text("Ah é"),
            gemini_call("", "list_files", &input, "sig"),
            gemini_call("own", "list_files", &input, ""),
        ]
        .concat();
        let outputs: Vec<Output> = outputs("gemini", Answer::stream(gemini(&parts, "STOP")))
            .await
            .into_iter()
            .map(Result::unwrap)
            .filter(|output| !matches!(output, Output::Usage(Usage { tokens_out: 0, .. })))
            .collect();
        let cost_usd = (40.0 + 400.0 + 30.0) / 1e6;
        let usage = Usage { tokens_in: 40, tokens_out: 40, cache_reads: 60, cache_writes: 0, cost_usd };
        assert_eq!(
            outputs,
            [
                event(StreamEvent::Thinking("h".into())),
                event(StreamEvent::Thinking("mm".into())),
                event(StreamEvent::ThinkingEnd(None)),
                text("Ah"),
                text(" é"),
                event(StreamEvent::ThinkingEnd(Some(json!({ "callSignature": "sig" })))),
                call_start(0, "call_0", "list_files"),
                arguments(0, "{\"path\":\"a\"}"),
                event(StreamEvent::CallEnd { index: 0 }),
                call_start(1, "own", "list_files"),
                arguments(1, "{\"path\":\"a\"}"),
                event(StreamEvent::CallEnd { index: 1 }),
                Output::Usage(usage),
                Output::Finished(Finish::Done),
            ]
        );
    }

    #[tokio::test]
    async fn a_signature_on_text_goes_back_behind_the_whole_text() {
        let parts = [
            json!({ "text": "<list_files>", "thoughtSignature": "sig" }),
            json!({ "text": "<path>src</path></list_files>" }),
        ];
        let outputs = outputs("gemini", Answer::stream(gemini(&parts, "STOP"))).await;
        assert_eq!(joined(&outputs), "<list_files><path>src</path></list_files>| Done");
        let own = json!({ "text": "", "thoughtSignature": "sig" });
        let end = outputs
            .iter()
            .flatten()
            .find(|output| matches!(output, Output::Event(StreamEvent::ThinkingEnd(_))));
        assert_eq!(end, Some(&event(StreamEvent::ThinkingEnd(Some(own)))));
    }

    #[tokio::test]
    async fn what_gemini_blocks_is_told_with_its_reason() {
        let blocked =
            json!({ "promptFeedback": { "blockReason": "PROHIBITED_CONTENT" }, "usageMetadata": {} });
        let failed = failure("gemini", Answer::stream(format!("data: {blocked}\n\n"))).await;
        assert_eq!(failed.kind, ModelErrorKind::Invalid);
        assert!(failed.message.contains("PROHIBITED_CONTENT"), "{failed}");
        let broken = gemini(&[], "MALFORMED_FUNCTION_CALL");
        let failed = failure("gemini", Answer::stream(broken)).await;
        assert_eq!(failed.kind, ModelErrorKind::Malformed, "worth another try");
    }

    #[tokio::test]
    async fn geminis_errors_have_the_kind_that_their_details_tell() {
        let error = |code: u16, detail: Value| {
            json!({ "error": { "code": code, "message": "told", "details": [detail] } }).to_string()
        };
        let key = error(400, json!({ "reason": "API_KEY_INVALID" }));
        let refused = failure("gemini", Answer::status(400, &[], key)).await;
        assert_eq!(refused.kind, ModelErrorKind::Unauthorized);
        assert!(refused.message.contains("Check the profile's key"), "{refused}");
        let wait = error(429, json!({ "retryDelay": "7.5s" }));
        let limited = ModelErrorKind::RateLimited(Some(Duration::from_millis(7500)));
        assert_eq!(failure("gemini", Answer::status(429, &[], &wait)).await.kind, limited);
        assert_eq!(failure("gemini", Answer::stream(format!("data: {wait}\n\n"))).await.kind, limited);
        let overloaded = error(503, json!({}));
        let kind = failure("gemini", Answer::stream(format!("data: {overloaded}\n\n"))).await.kind;
        assert_eq!(kind, ModelErrorKind::Unavailable(None));
    }

    #[tokio::test]
    async fn a_failed_response_has_its_kind() {
        use ModelErrorKind::*;
        for (code, kind) in [
            ("rate_limit_exceeded", RateLimited(None)),
            ("context_length_exceeded", ContextWindow),
            ("invalid_prompt", Invalid),
            ("insufficient_quota", Unauthorized),
            ("server_error", Unavailable(None)),
        ] {
            let error = json!({ "code": code, "message": "told" });
            let failed = json!({ "type": "response.failed", "response": { "error": error } });
            let top = json!({ "type": "error", "code": code, "message": "told" });
            let nested = json!({ "type": "error", "error": error });
            for event in [failed, top, nested] {
                let error = failure("openai-responses", Answer::stream(format!("data: {event}\n\n"))).await;
                assert_eq!(error.kind, kind, "{event}");
                assert!(error.message.contains("told"), "{error}");
            }
        }
    }

    #[tokio::test]
    async fn the_reason_of_the_end_is_told() {
        for (reason, finish) in
            [("end_turn", Finish::Done), ("max_tokens", Finish::Length), ("refusal", Finish::Refused)]
        {
            let answer = Answer::stream(anthropic(&[anthropic_text("x")], reason));
            let last = outputs("anthropic", answer).await.pop().unwrap().unwrap();
            assert_eq!(last, Output::Finished(finish), "{reason}");
        }
        for (reason, finish) in
            [("stop", Finish::Done), ("length", Finish::Length), ("content_filter", Finish::Refused)]
        {
            let answer = Answer::stream(openai(&openai_text("x"), reason));
            let last = outputs("openai", answer).await.pop().unwrap().unwrap();
            assert_eq!(last, Output::Finished(finish), "{reason}");
        }
        for (reason, finish) in [
            ("completed", Finish::Done),
            ("max_output_tokens", Finish::Length),
            ("content_filter", Finish::Refused),
        ] {
            let answer = Answer::stream(responses(&[responses_text("x")], reason));
            let last = outputs("openai-responses", answer).await.pop().unwrap().unwrap();
            assert_eq!(last, Output::Finished(finish), "{reason}");
        }
        for (reason, finish) in
            [("STOP", Finish::Done), ("MAX_TOKENS", Finish::Length), ("SAFETY", Finish::Refused)]
        {
            let answer = Answer::stream(gemini(&gemini_text("x"), reason));
            let last = outputs("gemini", answer).await.pop().unwrap().unwrap();
            assert_eq!(last, Output::Finished(finish), "{reason}");
        }
    }

    async fn chat(chunks: &[Value]) -> Vec<Result<Output, ModelError>> {
        let body: String = chunks.iter().map(|chunk| format!("data: {chunk}\n\n")).collect();
        outputs("openai", Answer::stream(body)).await
    }

    fn delta(delta: Value) -> Value {
        json!({ "choices": [{ "delta": delta }] })
    }

    fn calls(calls: Value) -> Value {
        delta(json!({ "tool_calls": calls }))
    }

    fn stop() -> Value {
        json!({ "choices": [{ "delta": {}, "finish_reason": "stop" }] })
    }

    #[tokio::test]
    async fn the_dialects_of_tool_calls_come_to_the_same() {
        let function = |name: &str, arguments: Value| json!({ "name": name, "arguments": arguments });
        let dialects = [
            (
                "whole calls, without index",
                vec![calls(json!([
                    { "id": "x", "function": function("f", json!("{1}")) },
                    { "id": "y", "function": function("g", json!("{2}")) },
                ]))],
            ),
            (
                "every call with index 0",
                vec![
                    calls(json!([{ "index": 0, "id": "x", "function": function("f", json!("{1}")) }])),
                    calls(json!([{ "index": 0, "id": "y", "function": function("g", json!("{2}")) }])),
                ],
            ),
            (
                "without index, more by id",
                vec![
                    calls(json!([{ "id": "x", "function": { "name": "f" } }])),
                    calls(json!([{ "id": "x", "function": { "arguments": "{1}" } }])),
                    calls(json!([{ "id": "y", "function": { "name": "g" } }])),
                    calls(json!([{ "function": { "arguments": "{2}" } }])),
                ],
            ),
            (
                "id and name again with every delta",
                vec![
                    calls(json!([{ "index": 3, "id": "x", "function": function("f", json!("{1")) }])),
                    calls(json!([{ "index": 3, "id": "x", "function": function("f", json!("}")) }])),
                    calls(json!([{ "index": 7, "id": "y", "function": function("g", json!("{2}")) }])),
                ],
            ),
            (
                "arguments before the name",
                vec![
                    calls(json!([{ "index": 0, "id": "x", "function": { "arguments": "{1" } }])),
                    calls(json!([{ "index": 0, "function": function("f", json!("}")) }])),
                    calls(json!([{ "index": 1, "id": "y", "function": function("g", json!("{2}")) }])),
                ],
            ),
        ];
        for (dialect, mut chunks) in dialects {
            chunks.push(stop());
            let outputs = chat(&chunks).await;
            assert_eq!(joined(&outputs), "[f x {1}[g y {2}]] Done", "{dialect}");
        }
    }

    #[tokio::test]
    async fn a_call_without_id_gets_one_and_arguments_may_be_an_object() {
        let function = json!({ "name": "f", "arguments": { "a": 1 } });
        let outputs = chat(&[calls(json!([{ "function": function }])), stop()]).await;
        assert_eq!(joined(&outputs), "[f call_0 {\"a\":1}] Done");
    }

    #[tokio::test]
    async fn the_dialects_of_thinking_end_before_the_text() {
        let detail = |text: &str| json!({ "type": "reasoning.text", "index": 0, "text": text });
        let signed = json!({ "type": "reasoning.text", "index": 0, "signature": "sig" });
        let outputs = chat(&[
            delta(json!({ "reasoning": "a", "reasoning_details": [detail("a")] })),
            delta(json!({ "reasoning": "b", "reasoning_details": [detail("b")] })),
            delta(json!({ "content": "", "reasoning_details": [signed] })),
            delta(json!({ "content": "text" })),
            stop(),
        ])
        .await;
        assert_eq!(joined(&outputs), "ab|text Done");
        let whole = json!({ "type": "reasoning.text", "index": 0, "text": "ab", "signature": "sig" });
        let own = event(StreamEvent::ThinkingEnd(Some(json!({ "reasoning_details": [whole] }))));
        assert_eq!(outputs[2].as_ref().unwrap(), &own);

        let parts = json!([{ "type": "thinking", "thinking": [{ "type": "text", "text": "a" }] }]);
        let text = json!([{ "type": "text", "text": "text" }]);
        let outputs =
            chat(&[delta(json!({ "content": parts })), delta(json!({ "content": text })), stop()]).await;
        assert_eq!(joined(&outputs), "a|text Done");
    }

    #[tokio::test]
    async fn the_cost_that_an_endpoint_names_wins() {
        let usage =
            json!({ "choices": [], "usage": { "prompt_tokens": 5, "completion_tokens": 1, "cost": 0.25 } });
        let outputs = chat(&[delta(json!({ "content": "x" })), stop(), usage]).await;
        let usage = Usage { tokens_in: 5, tokens_out: 1, cost_usd: 0.25, ..Usage::default() };
        assert_eq!(outputs[1].as_ref().unwrap(), &Output::Usage(usage));
        assert_eq!(outputs[2].as_ref().unwrap(), &Output::Finished(Finish::Done), "without [DONE]");
    }

    #[tokio::test]
    async fn errors_within_a_stream_have_their_kind() {
        use ModelErrorKind::*;
        for (error, kind) in [
            (json!({ "type": "overloaded_error", "message": "Overloaded" }), Unavailable(None)),
            (json!({ "type": "rate_limit_error", "message": "slow down" }), RateLimited(None)),
            (
                json!({ "type": "invalid_request_error", "message": "prompt is too long: 9 > 8" }),
                ContextWindow,
            ),
            (json!({ "type": "invalid_request_error", "message": "bad" }), Invalid),
            (json!({ "type": "authentication_error", "message": "no" }), Unauthorized),
        ] {
            let data = json!({ "type": "error", "error": error });
            let answer = Answer::stream(format!("event: error\ndata: {data}\n\n"));
            let failed = failure("anthropic", answer).await;
            assert_eq!(failed.kind, kind, "{error}");
            assert!(failed.message.contains(error["message"].as_str().unwrap()), "{failed}");
        }
        for (error, kind) in [
            (json!({ "code": 429, "message": "slow down" }), RateLimited(None)),
            (json!({ "code": "502", "message": "upstream" }), Unavailable(None)),
            (json!({ "code": "context_length_exceeded", "message": "long" }), ContextWindow),
            (json!({ "code": 400, "message": "maximum context length is 8 tokens" }), ContextWindow),
            (json!({ "type": "server_error", "message": "oops" }), Unavailable(None)),
            (json!("just words"), Unavailable(None)),
        ] {
            let failed = chat(&[delta(json!({ "content": "x" })), json!({ "error": error })]).await;
            assert_eq!(failed[0].as_ref().unwrap(), &text("x"));
            assert_eq!(failed[1].as_ref().unwrap_err().kind, kind, "{error}");
        }
    }
}

mod cut {
    use super::*;

    const XML: &str = "Reading.\n\n<list_files>\n<path>src</path>\n</list_files>";

    /// The body, and where in it the answer is complete.
    fn fixtures(format: &str) -> Vec<(String, usize)> {
        let input = json!({ "path": "ä/日本" });
        let to_the_end = |body: String| {
            let complete = body.trim_end().len();
            (body, complete)
        };
        if format == "openai-responses" {
            let call = |id: &str| responses_call(id, "list_files", &input);
            [
                responses(&[responses_text("Hello.")], "completed"),
                responses(&[responses_text(XML)], "completed"),
                responses(&[call("a"), call("b")], "completed"),
                responses(&[responses_reasoning(&["日本…"], "xÿz"), responses_text("é😀")], "completed"),
            ]
            .map(to_the_end)
            .into()
        } else if format == "gemini" {
            let call = |id: &str| gemini_call(id, "list_files", &input, "sig");
            [
                gemini(&gemini_text("Hello."), "STOP"),
                gemini(&gemini_text(XML), "STOP"),
                gemini(&[call("a"), call("b")].concat(), "STOP"),
                gemini(&[gemini_thinking("Hm, 日本…"), gemini_text("é😀")].concat(), "STOP"),
            ]
            .map(to_the_end)
            .into()
        } else if format == "anthropic" {
            let call = |id: &str| anthropic_call(id, "list_files", input.clone());
            [
                anthropic(&[anthropic_text("Hello.")], "end_turn"),
                anthropic(&[anthropic_text(XML)], "end_turn"),
                anthropic(&[call("a")], "tool_use"),
                anthropic(&[call("a"), call("b")], "tool_use"),
                anthropic(&[anthropic_thinking("Hm, 日本…", "sïg"), anthropic_text("é😀")], "end_turn"),
            ]
            .map(to_the_end)
            .into()
        } else {
            let call = |index, id: &str| openai_call(index, id, "list_files", &input);
            [
                openai(&openai_text("Hello."), "stop"),
                openai(&openai_text(XML), "stop"),
                openai(&call(0, "a"), "tool_calls"),
                openai(&[call(0, "a"), call(1, "b")].concat(), "tool_calls"),
                openai(&[openai_thinking("Hm, 日本…"), openai_text("é😀")].concat(), "stop"),
            ]
            .into_iter()
            .map(|body| {
                // The answer is complete with its finish_reason; usage and [DONE] come behind.
                let complete = body.find("data: {\"choices\":[]").unwrap() - 2;
                (body, complete)
            })
            .collect()
        }
    }

    async fn a_cut_answer_is_never_finished(format: &'static str) {
        let mut checks = tokio::task::JoinSet::new();
        for (body, complete) in fixtures(format) {
            checks.spawn(async move {
                let server = ModelServer::start([]).await;
                let model = model(format, &server.url(), json!({}));
                server.push(Answer::stream(&body));
                let whole = ask(&model).await;
                assert!(matches!(whole.last(), Some(Ok(Output::Finished(_)))), "{whole:?}");
                for cut in 0..complete {
                    let part = &body.as_bytes()[..cut];
                    // Two ways to end, by turns: as if all was said, and within a chunked body.
                    server.push(if cut % 2 == 0 {
                        Answer::until_close(part)
                    } else {
                        Answer::begin().then(Step::Chunk(part.to_vec())).then(Step::Close)
                    });
                    let mut outputs = ask(&model).await;
                    let error = outputs.pop().unwrap().expect_err("a cut answer is not finished");
                    let kinds = [ModelErrorKind::Cut, ModelErrorKind::Malformed];
                    assert!(kinds.contains(&error.kind), "{cut}: {error:?}");
                    assert!(outputs.len() < whole.len(), "{cut}");
                    for (got, expected) in outputs.iter().zip(&whole) {
                        assert_eq!(got.as_ref().unwrap(), expected.as_ref().unwrap(), "{cut}");
                    }
                }
            });
        }
        while let Some(check) = checks.join_next().await {
            check.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn at_every_byte_of_anthropic_streams() {
        a_cut_answer_is_never_finished("anthropic").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn at_every_byte_of_chat_completions() {
        a_cut_answer_is_never_finished("openai").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn at_every_byte_of_responses() {
        a_cut_answer_is_never_finished("openai-responses").await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn at_every_byte_of_gemini_streams() {
        a_cut_answer_is_never_finished("gemini").await;
    }

    #[tokio::test]
    async fn a_reset_after_the_finish_reason_loses_nothing() {
        let body = openai(&openai_text("Hello."), "stop");
        let complete = body.find("data: {\"choices\":[]").unwrap();
        let answer =
            Answer::begin().then(Step::Chunk(body.as_bytes()[..complete].to_vec())).then(Step::Close);
        assert_eq!(joined(&outputs("openai", answer).await), "Hello. Done");
    }
}

mod malformed {
    use super::*;

    #[tokio::test]
    async fn line_ends_comments_and_unknown_events_do_no_harm() {
        let body = anthropic(&[anthropic_text("Hello.")], "end_turn");
        for (what, body) in [
            ("carriage returns", body.replace('\n', "\r")),
            ("both", body.replace('\n', "\r\n")),
            ("comments", body.replace("event: ", ": keep-alive\n\nevent: ")),
            ("unknown event", format!("event: new\ndata: {{\"type\":\"from_the_future\",\"x\":1}}\n\n{body}")),
            ("unknown block", body.replace("data: {\"type\":\"content_block_stop\"", concat!(
                "data: {\"type\":\"content_block_start\",\"index\":9,\"content_block\":{\"type\":\"new\"}}\n\n",
                "data: {\"type\":\"content_block_delta\",\"index\":9,\"delta\":{\"type\":\"new_delta\"}}\n\n",
                "data: {\"type\":\"content_block_stop\""
            ))),
        ] {
            let outputs = outputs("anthropic", Answer::stream(body)).await;
            assert_eq!(joined(&outputs), "Hello. Done", "{what}");
        }
    }

    #[tokio::test]
    async fn what_can_not_be_understood_is_an_error_and_never_an_answer() {
        let good = openai(&openai_text("Hello."), "stop");
        let giant = [b"data: ".as_slice(), &vec![b'x'; 20 << 20]].concat();
        for (what, body) in [
            ("missing blank lines", good.replace("\n\n", "\n").into_bytes()),
            ("no JSON", b"data: {oops\n\n".to_vec()),
            ("wrong types", b"data: {\"choices\":7}\n\n".to_vec()),
            ("bad UTF-8 in JSON", b"data: {\"choices\":\xff[]}\n\n".to_vec()),
            ("a giant event", giant),
            ("nothing", Vec::new()),
            ("[DONE] at once", b"data: [DONE]\n\n".to_vec()),
        ] {
            let outputs = outputs("openai", Answer::stream(body)).await;
            let kind = outputs.last().unwrap().as_ref().expect_err(what).kind;
            assert!(matches!(kind, ModelErrorKind::Malformed | ModelErrorKind::Cut), "{what}: {kind:?}");
        }
    }

    #[tokio::test]
    async fn bad_utf_8_in_text_becomes_a_replacement_character() {
        let body =
            b"data: {\"choices\":[{\"delta\":{\"content\":\"a\xffb\"},\"finish_reason\":\"stop\"}]}\n\n";
        assert_eq!(joined(&outputs("openai", Answer::stream(body)).await), "a\u{fffd}b Done");
    }

    #[tokio::test]
    async fn nothing_after_the_end_is_read() {
        let body = format!("{}data: {{oops\n\n", anthropic(&[anthropic_text("Hello.")], "end_turn"));
        assert_eq!(joined(&outputs("anthropic", Answer::stream(body)).await), "Hello. Done");
    }
}

mod http {
    use super::*;

    #[tokio::test]
    async fn a_refused_request_has_its_kind_and_says_what_the_endpoint_said() {
        use ModelErrorKind::*;
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        let table: &[(u16, &[&str], &str, ModelErrorKind)] = &[
            (400, &[], "tools.0: bad", Invalid),
            (400, &[], "prompt is too long: 250000 tokens > 200000 maximum", ContextWindow),
            (401, &[], "invalid x-api-key", Unauthorized),
            (403, &[], "forbidden", Unauthorized),
            (404, &[], "not found", Invalid),
            (408, &[], "timeout", RateLimited(None)),
            (409, &[], "conflict", RateLimited(None)),
            (413, &[], "request too large", Invalid),
            (429, &["retry-after: 7"], "slow down", RateLimited(seconds(7))),
            (429, &["retry-after: 1000000000"], "slow down", RateLimited(seconds(600))),
            (429, &["retry-after: -1"], "slow down", RateLimited(seconds(0))),
            (429, &["retry-after: Wed, 21 Oct 2015 07:28:00 GMT"], "slow down", RateLimited(seconds(0))),
            (429, &["retry-after: soon"], "slow down", RateLimited(None)),
            (500, &[], "oops", Unavailable(None)),
            (502, &[], "oops", Unavailable(None)),
            (503, &["retry-after: 3"], "oops", Unavailable(seconds(3))),
            (504, &[], "oops", Unavailable(None)),
            (529, &[], "overloaded", Unavailable(None)),
            (301, &["location: http://elsewhere.example/"], "moved", Invalid),
        ];
        for format in FORMATS {
            for (status, headers, said, kind) in table {
                let body = json!({ "error": { "message": said } }).to_string();
                let error = failure(format, Answer::status(*status, headers, body)).await;
                assert_eq!(error.kind, *kind, "{format} {status} {said}");
                for words in [*said, "http://127.0.0.1:", &format!("status {status}")] {
                    assert!(error.message.contains(words), "{words}: {error}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_wrong_name_or_url_is_told() {
        let error = failure("openai", Answer::status(404, &[], "nope")).await;
        assert!(error.message.contains("/v1/chat/completions"), "{error}");
        assert!(error.message.contains("test-model"), "{error}");
        for content_type in ["text/html", "application/json; charset=utf-8"] {
            let header = format!("content-type: {content_type}");
            let error = failure("openai", Answer::status(200, &[&header], "Welcome!")).await;
            assert_eq!(error.kind, ModelErrorKind::Invalid);
            assert!(error.message.contains("Welcome!"), "{error}");
        }
    }

    #[tokio::test]
    async fn what_the_endpoint_says_is_bounded_and_never_shows_the_key() {
        let body = format!("your key is {KEY}! {}", "x".repeat(100_000));
        let error = failure("openai", Answer::status(401, &[], body)).await;
        assert!(!error.message.contains(KEY), "{error}");
        assert!(error.message.contains("[redacted]"), "{error}");
        assert!(error.message.len() < 700, "{}", error.message.len());
        let event = json!({ "error": { "message": format!("bad key {KEY}") } });
        let error = failure("openai", Answer::stream(format!("data: {event}\n\n"))).await;
        assert!(!error.message.contains(KEY), "{error}");
    }

    #[tokio::test]
    async fn a_connection_that_ends_without_an_answer_is_cut() {
        for step in [Step::Close, Step::Reset] {
            let error = failure("anthropic", Answer(vec![step])).await;
            assert_eq!(error.kind, ModelErrorKind::Cut, "{error}");
        }
        let answer = Answer::begin().then(Step::Chunk(b": ok\n\n".to_vec())).then(Step::Reset);
        assert_eq!(failure("anthropic", answer).await.kind, ModelErrorKind::Cut);
    }

    #[tokio::test]
    async fn no_connection_is_unreachable() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let not_tls = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let no_handshake = format!("https://{}", not_tls.local_addr().unwrap());
        let abort = tokio::spawn(async move { drop(not_tls.accept().await) });
        for (url, kind) in [
            // Its user has to start the server: an outage of some minutes it is not.
            (format!("http://{closed}"), ModelErrorKind::NotRunning),
            (no_handshake, ModelErrorKind::Unreachable),
            // Too long for a name, so that no name server is asked.
            (format!("http://{}.invalid", "x".repeat(64)), ModelErrorKind::Unreachable),
        ] {
            let mut outputs = ask(&model("anthropic", &url, json!({}))).await;
            let error = outputs.pop().unwrap().unwrap_err();
            assert_eq!(
                (error.kind, kind.is_outage()),
                (kind, kind == ModelErrorKind::Unreachable),
                "{error}"
            );
            assert!(error.message.contains("/v1/messages: no connection"), "{error}");
        }
        abort.await.unwrap();
    }

    #[tokio::test]
    async fn silence_ends_at_the_limits_of_the_profile() {
        let begun = Answer::begin().then(Step::Chunk(b": ok\n\n".to_vec()));
        let check = |answer: Answer, field: &'static str| async move {
            let gone = Arc::new(Notify::new());
            let server = ModelServer::start([answer.then(Step::Stall(Arc::clone(&gone)))]).await;
            let begin = Instant::now();
            let error = ask(&model("anthropic", &server.url(), json!({ "timeouts": { field: 1 } }))).await;
            let error = error.last().unwrap().as_ref().unwrap_err();
            assert_eq!(error.kind, ModelErrorKind::TimedOut, "{error}");
            assert!(error.message.contains(field), "{error}");
            assert!(begin.elapsed() >= Duration::from_secs(1));
            timeout(DEADLINE, gone.notified()).await.expect("the connection is closed");
        };
        tokio::join!(
            check(Answer::default(), "firstByteSec"),
            check(Answer::begin(), "firstByteSec"),
            check(begun, "idleSec"),
        );
    }

    #[tokio::test]
    async fn a_finished_answer_needs_no_end_of_its_body() {
        let body = anthropic(&[anthropic_text("Hello.")], "end_turn");
        let stall = Step::Stall(Arc::new(Notify::new()));
        let answer = Answer::begin().then(Step::Chunk(body.into_bytes())).then(stall);
        assert_eq!(joined(&outputs("anthropic", answer).await), "Hello. Done");
    }

    #[tokio::test]
    async fn a_slow_answer_is_no_silent_one() {
        let body = anthropic(&[anthropic_text("Hello.")], "end_turn");
        let (first, second) = body.split_at(body.len() / 2);
        let signal = Arc::new(Notify::new());
        let answer = Answer::begin()
            .then(Step::Chunk(first.as_bytes().to_vec()))
            .then(Step::Wait(Arc::clone(&signal)))
            .then(Step::Chunk(second.as_bytes().to_vec()))
            .then(Step::Chunk(Vec::new()));
        let server = ModelServer::start([answer]).await;
        let model = model("anthropic", &server.url(), json!({}));
        let mut stream = model.stream(hello());
        // Events are told as they come, not when the answer is over.
        assert!(matches!(stream.next().await, Some(Ok(Output::Usage(_)))));
        signal.notify_one();
        let rest: Vec<_> = stream.collect().await;
        assert_eq!(joined(&rest), "Hello. Done");
    }

    #[tokio::test]
    async fn dropping_the_stream_closes_the_connection_at_once() {
        let part = b"data: {\"type\":\"message_start\",\"message\":{}}\n\n".to_vec();
        for (name, answer, outputs) in [
            ("before the first byte", Answer::default(), 0),
            ("while it reads", Answer::begin().then(Step::Chunk(part)), 1),
        ] {
            let gone = Arc::new(Notify::new());
            let mut server = ModelServer::start([answer.then(Step::Stall(Arc::clone(&gone)))]).await;
            let model = model("anthropic", &server.url(), json!({}));
            let mut stream = model.stream(hello());
            if outputs == 0 {
                tokio::select! {
                    output = stream.next() => panic!("{output:?}"),
                    _ = server.request() => {}
                }
            } else {
                stream.next().await.unwrap().unwrap();
            }
            drop(stream);
            timeout(DEADLINE, gone.notified()).await.expect(name);
        }
    }

    #[tokio::test]
    async fn requests_share_a_connection_and_one_run_of_the_key_command() {
        let directory = tempfile::tempdir().unwrap();
        let runs = directory.path().join("runs");
        let script = format!("echo run >> '{}'; echo sk-from-command", runs.display());
        let answer = Answer::stream(anthropic(&[anthropic_text("Hello.")], "end_turn"));
        let mut server = ModelServer::start([answer.clone(), answer.clone(), answer]).await;
        let command = json!({ "apiKeyCommand": ["/bin/sh", "-c", script] });
        let model = model("anthropic", &server.url(), command);
        assert!(!runs.exists(), "nothing runs before the first request");
        for _ in 0..3 {
            assert_eq!(joined(&ask(&model).await), "Hello. Done");
            assert_eq!(server.request().await.headers["x-api-key"], "sk-from-command");
        }
        assert_eq!(std::fs::read_to_string(&runs).unwrap(), "run\n");
        assert_eq!(server.connections(), 1);
    }

    #[tokio::test]
    async fn an_answer_does_not_wait_for_the_end_of_its_body_and_the_next_request_does() {
        let body_ends = Arc::new(Notify::new());
        let body = anthropic(&[anthropic_text("Hello.")], "end_turn");
        let slow = Answer::begin()
            .then(Step::Chunk(body.clone().into()))
            .then(Step::Wait(Arc::clone(&body_ends)))
            .then(Step::Chunk(vec![]));
        let server = ModelServer::start([slow, Answer::stream(body)]).await;
        let model = model("anthropic", &server.url(), json!({}));
        assert_eq!(joined(&ask(&model).await), "Hello. Done");
        body_ends.notify_one();
        assert_eq!(joined(&ask(&model).await), "Hello. Done");
        assert_eq!(server.connections(), 1);
    }
}
