//! Requests to an endpoint on this machine, and what comes of its answers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::Endpoint;
use crate::providers::connect::http_format;
use crate::providers::secret::Secret;
use crate::providers::{
    Embeddings, Item, KeyStore, ListedModel, Model, ModelError, ModelErrorKind, ModelRequest, Rendered,
    connect, list_models,
};
use roo_catalog::ToolProtocol;
use roo_formats::config::Profile;

/// Longest time that a test waits for anything.
const LONG: Duration = Duration::from_secs(20);

/// A list of one model, as Chat Completions have it.
const MODELS: &str = r#"{"data":[{"id":"m"}]}"#;

/// An endpoint that gives each request the next of its answers.
struct Server {
    url: String,
    /// The heads of the requests.
    requests: mpsc::UnboundedReceiver<String>,
}

impl Server {
    async fn start(answers: impl IntoIterator<Item = String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (heads, requests) = mpsc::unbounded_channel();
        let answers: Vec<String> = answers.into_iter().collect();
        tokio::spawn(async move {
            for answer in answers {
                let (mut connection, _) = listener.accept().await.unwrap();
                let _ = heads.send(play(&mut connection, &answer).await);
            }
        });
        Self { url, requests }
    }

    /// The head of the next request.
    async fn request(&mut self) -> String {
        timeout(LONG, self.requests.recv()).await.unwrap().unwrap()
    }
}

/// Reads one request, answers it and returns its head.
async fn play(connection: &mut TcpStream, answer: &str) -> String {
    let mut bytes = Vec::new();
    let head = loop {
        assert_ne!(connection.read_buf(&mut bytes).await.unwrap(), 0, "the request has no end");
        let text = String::from_utf8_lossy(&bytes);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
            break head;
        }
    };
    connection.write_all(answer.as_bytes()).await.unwrap();
    let _ = connection.shutdown().await;
    head
}

/// An answer with these headers, each ending its line.
fn answer(status: u16, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} Told\r\n{headers}content-type: application/json\r\nconnection: close\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn azure_gets_a_key_in_its_own_header_and_the_token_of_a_login_as_others_do() {
    let header = |url: &str, headers: Value, key: &str| {
        let profile = profile(json!({ "provider": "openai", "baseUrl": url, "headers": headers }));
        let endpoint = Endpoint::new(http_format(profile.wire_format()).unwrap(), &profile, "m").unwrap();
        let sent = endpoint.request_headers(Some(&Secret::new(key)));
        let value = |name: &str| sent.get(name).map(|value| value.to_str().unwrap().to_owned());
        (value("api-key"), value("authorization"))
    };
    let azure = "https://x.openai.azure.com/openai/deployments/d?api-version=2024-10-21";
    assert_eq!(header(azure, json!({}), "k1"), (Some("k1".to_owned()), None));
    assert_eq!(header(azure, json!({}), "eyJ0.a.b"), (None, Some("Bearer eyJ0.a.b".to_owned())));
    let own = json!({ "authorization": "Bearer own" });
    assert_eq!(header(azure, own, "k1"), (None, Some("Bearer own".to_owned())));
    let other = "https://api.example.com/v1";
    assert_eq!(header(other, json!({}), "k1"), (None, Some("Bearer k1".to_owned())));
}

fn profile(value: Value) -> Profile {
    serde_json::from_value(value).unwrap()
}

async fn models(profile: &Profile) -> Result<Vec<ListedModel>, ModelError> {
    timeout(LONG, list_models(profile, &|_| None)).await.unwrap()
}

/// The URLs of a profile's requests and of its list of models.
fn urls(provider: &str, wire_format: &str, base_url: Option<&str>) -> (String, String) {
    let value = json!({ "provider": provider, "wireFormat": wire_format, "baseUrl": base_url });
    let profile = profile(value);
    let format = http_format(profile.wire_format()).unwrap();
    let endpoint = Endpoint::new(format, &profile, "m").unwrap();
    (endpoint.url.to_string(), endpoint.list_url.to_string())
}

#[test]
fn a_version_is_in_every_url_once_whatever_provider_and_format() {
    let claude = "https://api.anthropic.com";
    let google = "https://generativelanguage.googleapis.com/v1beta";
    let gateway = "https://x.example";
    let in_path = "https://x.example/llm/v1/";
    for (provider, base_url, format, requests, list) in [
        ("anthropic", None, "anthropic-messages", &*format!("{claude}/v1/messages"), "limit=1000"),
        ("anthropic", None, "openai-chat", &format!("{claude}/v1/chat/completions"), ""),
        ("anthropic", None, "openai-responses", &format!("{claude}/v1/responses"), ""),
        (
            "gemini",
            None,
            "gemini",
            &format!("{google}/models/m:streamGenerateContent?alt=sse"),
            "pageSize=1000",
        ),
        ("gemini", None, "openai-chat", &format!("{google}/openai/chat/completions"), ""),
        ("openai", None, "openai-chat", "https://api.openai.com/v1/chat/completions", ""),
        ("openai", None, "openai-responses", "https://api.openai.com/v1/responses", ""),
        ("openai-responses", None, "openai-chat", "https://api.openai.com/v1/chat/completions", ""),
        ("openrouter", None, "anthropic-messages", "https://openrouter.ai/api/v1/messages", "limit=1000"),
        ("openrouter", None, "openai-responses", "https://openrouter.ai/api/v1/responses", ""),
        ("ollama", None, "anthropic-messages", "http://127.0.0.1:11434/v1/messages", "limit=1000"),
        ("lm-studio", None, "anthropic-messages", "http://127.0.0.1:1234/v1/messages", "limit=1000"),
        ("llama-cpp", None, "anthropic-messages", "http://127.0.0.1:8080/v1/messages", "limit=1000"),
        ("vllm", None, "anthropic-messages", "http://127.0.0.1:8000/v1/messages", "limit=1000"),
        ("litellm", None, "anthropic-messages", "http://127.0.0.1:4000/v1/messages", "limit=1000"),
        ("litellm", None, "openai-chat", "http://127.0.0.1:4000/v1/chat/completions", ""),
        (
            "litellm",
            None,
            "gemini",
            "http://127.0.0.1:4000/v1beta/models/m:streamGenerateContent?alt=sse",
            "pageSize=1000",
        ),
        ("anthropic", Some(gateway), "anthropic-messages", "https://x.example/v1/messages", "limit=1000"),
        (
            "anthropic",
            Some("https://x.example/v1"),
            "anthropic-messages",
            "https://x.example/v1/messages",
            "limit=1000",
        ),
        ("anthropic", Some(in_path), "anthropic-messages", "https://x.example/llm/v1/messages", "limit=1000"),
        ("anthropic", Some(gateway), "openai-chat", "https://x.example/v1/chat/completions", ""),
        ("anthropic", Some(in_path), "openai-chat", "https://x.example/llm/v1/chat/completions", ""),
        ("litellm", Some(in_path), "anthropic-messages", "https://x.example/llm/v1/messages", "limit=1000"),
        ("litellm", Some(gateway), "anthropic-messages", "https://x.example/v1/messages", "limit=1000"),
        // Not every server has a version in its paths: what is written counts.
        ("openai", Some(gateway), "openai-chat", "https://x.example/chat/completions", ""),
        ("openai", Some("https://x.example/v2"), "openai-chat", "https://x.example/v2/chat/completions", ""),
    ] {
        let (url, list_url) = urls(provider, format, base_url);
        assert_eq!(url, requests, "{provider} {base_url:?} {format}");
        let root = ["/messages", "/chat/completions", "/responses", "/models/"]
            .into_iter()
            .find_map(|path| Some(requests.split_once(path)?.0))
            .unwrap();
        let query = if list.is_empty() { String::new() } else { format!("?{list}") };
        assert_eq!(list_url, format!("{root}/models{query}"), "{provider} {base_url:?} {format}");
    }
}

#[test]
fn a_server_of_the_users_own_may_be_silent_for_ten_minutes_and_any_other_for_five() {
    let limits = |value: Value| {
        let profile = profile(value);
        let format = http_format(profile.wire_format()).unwrap();
        let endpoint = Endpoint::new(format, &profile, "m").unwrap();
        (endpoint.first_byte.as_secs(), endpoint.idle.as_secs())
    };
    for provider in ["ollama", "lm-studio", "llama-cpp", "vllm", "litellm"] {
        assert_eq!(limits(json!({ "provider": provider })), (600, 600), "{provider}");
        let elsewhere = json!({ "provider": provider, "baseUrl": "https://models.example/v1" });
        assert_eq!(limits(elsewhere), (600, 600), "{provider}");
    }
    for provider in ["anthropic", "openai", "openai-responses", "gemini", "openrouter"] {
        assert_eq!(limits(json!({ "provider": provider })), (300, 300), "{provider}");
    }
    for (host, seconds) in [
        ("localhost:8080", 600),
        ("127.0.0.1:8080", 600),
        ("[::1]:8080", 600),
        ("[::ffff:10.0.0.1]:8080", 600),
        ("192.168.1.20:8000", 600),
        ("172.16.0.1", 600),
        ("100.100.1.1", 600),
        ("169.254.1.1", 600),
        ("[fd00::1]", 600),
        ("[fe80::1]", 600),
        ("gpu-box:8000", 600),
        ("gpu.local", 600),
        ("host.docker.internal:11434", 600),
        ("models.example", 300),
        ("local.example.com", 300),
        ("8.8.8.8", 300),
        ("172.32.0.1", 300),
        ("[2001:db8::1]", 300),
    ] {
        let at = json!({ "provider": "openai", "baseUrl": format!("http://{host}/v1") });
        assert_eq!(limits(at), (seconds, seconds), "{host}");
    }
    let own = json!({ "provider": "ollama", "timeouts": { "firstByteSec": 5 } });
    assert_eq!(limits(own), (5, 600), "what the profile says counts");
}

#[tokio::test]
async fn a_redirect_is_told_without_the_keys_in_its_query() {
    let moved = r#"<a href="/v2/models?key=sk-12345678">moved</a>"#;
    for target in ["/v2/models?key=sk-12345678", "https://u:sk-12345678@x.example/v2/models?key=sk-12345678"]
    {
        let moved = answer(308, &format!("location: {target}\r\n"), moved);
        let server = Server::start([moved]).await;
        let url = format!("{}/v1?key=sk-12345678", server.url);
        let error = models(&profile(json!({ "provider": "openai", "baseUrl": url }))).await.unwrap_err();
        assert!(!error.message.contains("sk-12345678"), "{error}");
        assert!(error.message.contains("/v2/models: set `baseUrl` there"), "{error}");
    }
}

#[tokio::test]
async fn a_conversation_that_is_too_long_is_known_by_the_bodies_that_providers_send() {
    let gemini = "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).";
    let groq = "Please reduce the length of the messages or completion.";
    let cerebras = format!("{groq} Current length is 42328 while limit is 40000");
    let named = |message: &str| {
        json!({
            "message": message, "type": "invalid_request_error", "param": "messages",
            "code": "context_length_exceeded",
        })
    };
    let passed_on = |raw: Value| {
        let metadata = json!({ "raw": raw, "provider_name": "Groq" });
        json!({ "error": { "message": "Provider returned error", "code": 400, "metadata": metadata } })
    };
    let of_google = json!({ "error": { "code": 400, "message": gemini, "status": "INVALID_ARGUMENT" } });
    let groq_body = json!({ "error": named(groq) });
    for (body, window) in [
        (json!([of_google]), Some(1_048_576)),
        (of_google, Some(1_048_576)),
        (groq_body.clone(), None),
        (json!({ "error": named("Reduce it.") }), None),
        (named(&cerebras), Some(40_000)),
        (passed_on(groq_body.to_string().into()), None),
        (passed_on(json!({ "error": named("Reduce it.") }).to_string().into()), None),
        (passed_on(gemini.into()), Some(1_048_576)),
    ] {
        let body = body.to_string();
        let server = Server::start([answer(400, "", &body)]).await;
        let error =
            models(&profile(json!({ "provider": "openai", "baseUrl": server.url }))).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::ContextWindow, "{body}: {error}");
        assert_eq!(error.stated_window(), window, "{body}: {error}");
    }
    for (status, body) in [
        (400, json!({ "error": { "message": "Bad tool.", "type": "invalid_request_error", "code": null } })),
        (400, passed_on("Model m supports at most 1 image per prompt.".into())),
    ] {
        let server = Server::start([answer(status, "", &body.to_string())]).await;
        let error =
            models(&profile(json!({ "provider": "openai", "baseUrl": server.url }))).await.unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Invalid, "{body}: {error}");
        assert!(!error.message.contains("Provider returned error"), "{error}");
    }
}

/// An answer of Chat Completions.
const ANSWER: &str =
    "data: {\"choices\":[{\"delta\":{\"content\":\"OK\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

fn stream() -> String {
    answer(200, "", ANSWER).replace("application/json", "text/event-stream")
}

#[tokio::test]
async fn a_failure_with_the_status_200_is_one_of_its_kind() {
    let slow_down = json!({ "error": { "code": 429, "message": "slow down" } });
    let overloaded =
        json!({ "type": "error", "error": { "type": "overloaded_error", "message": "Overloaded" } });
    let exhausted =
        json!({ "error": { "code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow down" } });
    for (provider, body, kind) in [
        ("openai", &slow_down, ModelErrorKind::RateLimited(None)),
        ("openai-responses", &slow_down, ModelErrorKind::RateLimited(None)),
        ("anthropic", &overloaded, ModelErrorKind::Unavailable(None)),
        ("gemini", &exhausted, ModelErrorKind::RateLimited(None)),
        ("openai", &json!({ "error": "model missing" }), ModelErrorKind::Invalid),
        ("anthropic", &json!({ "detail": "Not Found" }), ModelErrorKind::Invalid),
    ] {
        let server = Server::start([answer(200, "", &body.to_string())]).await;
        let profile = profile(json!({ "provider": provider, "baseUrl": server.url, "model": "m" }));
        let error = ask(&connect(&profile, &|_| None).unwrap()).await.unwrap();
        assert_eq!(error.kind, kind, "{provider} {body}: {error}");
    }
}

#[tokio::test]
async fn an_answer_of_an_endpoint_that_does_not_stream_is_taken_whole() {
    let choice = json!({ "message": { "role": "assistant", "content": "OK" }, "finish_reason": "stop" });
    let server = Server::start([answer(200, "", &json!({ "choices": [choice] }).to_string())]).await;
    let profile = profile(json!({ "provider": "openai", "baseUrl": server.url, "model": "m" }));
    assert!(ask(&connect(&profile, &|_| None).unwrap()).await.is_none());
}

fn refusal() -> String {
    answer(401, "", r#"{"error":{"message":"invalid key"}}"#)
}

/// Asks a model for a word, and returns what kept it from an answer.
async fn ask(model: &Arc<dyn Model>) -> Option<ModelError> {
    let request = ModelRequest {
        system: "".into(),
        items: vec![Item::User { text: "Say OK.".to_owned(), images: vec![] }].into(),
        rendered: Rendered::default(),
        tail: None,
        tools: [].into(),
        protocol: ToolProtocol::Xml,
        mode: String::new(),
        max_tokens: None,
        leaves_out_images: false,
    };
    let outputs: Vec<_> = timeout(LONG, model.stream(request).collect()).await.unwrap();
    outputs.into_iter().find_map(Result::err)
}

/// A profile whose key a command prints: a line of a file, the next one each time.
fn keyed_by_command(url: &str, directory: &Path, keys: &[&str]) -> Profile {
    let file = directory.join("keys");
    std::fs::write(&file, keys.join("\n") + "\n").unwrap();
    let script = r#"head -n 1 "$0" && sed -i 1d "$0""#;
    profile(json!({
        "provider": "openai", "model": "m", "baseUrl": format!("{url}/v1"), "apiKeyCommand": ["sh", "-c", script, file],
    }))
}

#[tokio::test]
async fn a_key_that_a_command_printed_before_is_asked_for_anew_when_it_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut server = Server::start([stream(), refusal(), stream(), stream()]).await;
    let profile = keyed_by_command(&server.url, directory.path(), &["sk-first", "sk-second"]);
    let model = connect(&profile, &|_| None).unwrap();
    assert!(ask(&model).await.is_none());
    assert!(ask(&model).await.is_none(), "the refusal of the first key is not told");
    assert!(ask(&model).await.is_none());
    for key in ["sk-first", "sk-first", "sk-second", "sk-second"] {
        let head = server.request().await;
        assert!(head.contains(&format!("authorization: bearer {key}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn a_refusal_is_told_where_the_command_has_no_other_key() {
    let directory = tempfile::tempdir().unwrap();
    let answers = [refusal(), stream(), refusal(), refusal(), refusal()];
    let mut server = Server::start(answers).await;
    let keys = ["sk-first", "sk-second", "sk-second", "sk-third"];
    let profile = keyed_by_command(&server.url, directory.path(), &keys);
    let model = connect(&profile, &|_| None).unwrap();
    let told = |error: Option<ModelError>| error.map(|error| error.kind);
    let unauthorized = Some(ModelErrorKind::Unauthorized);
    assert_eq!(told(ask(&model).await), unauthorized, "the key was new");
    assert_eq!(told(ask(&model).await), None);
    assert_eq!(told(ask(&model).await), unauthorized, "the command printed the same again");
    // Kept from the run before.
    assert_eq!(told(ask(&model).await), unauthorized, "the second refusal in a row is told");
    for key in ["sk-first", "sk-second", "sk-second", "sk-second", "sk-third"] {
        let head = server.request().await;
        assert!(head.contains(&format!("authorization: bearer {key}\r\n")), "{head}");
    }
}

#[tokio::test]
async fn a_stored_key_that_is_replaced_counts_without_a_new_connection_to_its_profile() {
    let state = tempfile::tempdir().unwrap();
    let directory = state.path().to_str().unwrap().to_owned();
    let environment =
        |name: &str| matches!(name, "HOME" | "XDG_STATE_HOME" | "XDG_CONFIG_HOME").then(|| directory.clone());
    let answers = [stream(), refusal(), stream(), refusal(), answer(200, "", r#"{"data":[]}"#)];
    let mut server = Server::start(answers).await;
    let profile =
        profile(json!({ "provider": "openai", "model": "m", "baseUrl": format!("{}/v1", server.url) }));
    let store = KeyStore::from_environment(&environment).unwrap();
    store.store(&profile, "sk-old").unwrap();
    let model = connect(&profile, &environment).unwrap();
    let embeddings = Embeddings::connect(&profile, &environment).unwrap();
    let account = model.account();
    assert!(ask(&model).await.is_none());
    store.store(&profile, "sk-new").unwrap();
    assert!(ask(&model).await.is_none());
    assert!(model.account() != account, "limits count for a key");
    assert!(embeddings.embed(&[]).await.unwrap().is_empty());
    for key in ["sk-old", "sk-old", "sk-new", "sk-old", "sk-new"] {
        let head = server.request().await;
        assert!(head.contains(&format!("authorization: bearer {key}\r\n")), "{head}");
    }
}

/// Set in the process that has a proxy.
const BY_PROXY: &str = "ROO_MODEL_TEST_BY_PROXY";

#[tokio::test]
async fn a_socks_proxy_of_the_environment_is_used_but_for_this_machine() {
    if let Ok(local) = std::env::var(BY_PROXY) {
        // An address that is kept for documentation: nothing is there.
        for url in ["http://192.0.2.1/v1", &local] {
            let headers = json!({ "authorization": "none" });
            let profile = profile(json!({ "provider": "openai", "baseUrl": url, "headers": headers }));
            assert_eq!(models(&profile).await.unwrap()[0].id, "m", "{url}");
        }
        return;
    }
    let mut local = Server::start([answer(200, "", MODELS)]).await;
    let proxy = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = proxy.local_addr().unwrap();
    let proxied = tokio::spawn(async move {
        let (mut connection, _) = proxy.accept().await.unwrap();
        // A greeting with the methods that the client knows; none is needed.
        let mut greeting = [0; 2];
        connection.read_exact(&mut greeting).await.unwrap();
        assert_eq!(greeting[0], 5, "the version of SOCKS");
        connection.read_exact(&mut vec![0; greeting[1].into()]).await.unwrap();
        connection.write_all(&[5, 0]).await.unwrap();
        let mut wanted = [0; 10];
        connection.read_exact(&mut wanted).await.unwrap();
        assert_eq!(wanted, [5, 1, 0, 1, 192, 0, 2, 1, 0, 80], "a connection to 192.0.2.1:80");
        connection.write_all(&[5, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await.unwrap();
        play(&mut connection, &answer(200, "", MODELS)).await
    });
    let mut again = tokio::process::Command::new(std::env::current_exe().unwrap());
    let name = std::thread::current().name().unwrap().to_owned();
    again.args(["--exact", &name, "--nocapture"]).env(BY_PROXY, format!("{}/v1", local.url));
    for variable in ["NO_PROXY", "no_proxy", "HTTP_PROXY", "http_proxy", "all_proxy"] {
        again.env_remove(variable);
    }
    again.env("ALL_PROXY", format!("socks5://{address}")).kill_on_drop(true);
    let output = timeout(LONG, again.output()).await.unwrap().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{output:?}");
    let head = timeout(LONG, proxied).await.unwrap().unwrap();
    assert!(head.starts_with("get /v1/models "), "{head}");
    assert!(local.request().await.starts_with("get /v1/models "));
}
