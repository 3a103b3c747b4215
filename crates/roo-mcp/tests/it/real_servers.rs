//! Servers of others, as `scripts/test` installs them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use roo_formats::mcp::{ResolvedServer, Transport};
use roo_mcp::{
    Answer, CallOptions, CompletionOf, CompletionRequest, Content, Elicitation, FormField, Hub, HubServices,
    PlainLauncher, ResourceContent, ServerCatalog, ToolResult, Wanted,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::support::*;

/// A file of what `scripts/test` has installed for these tests.
pub fn installed(name: &str) -> PathBuf {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/mcp-servers");
    let file = root.join(name);
    assert!(file.exists(), "{} is missing: scripts/test installs it", file.display());
    file
}

const NODE: &str = "node_modules/node/bin/node";
const EVERYTHING: &str = "node_modules/@modelcontextprotocol/server-everything/dist/index.js";

fn start(server: ResolvedServer) -> Hub {
    let path = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
    let launcher = Arc::new(PlainLauncher::new(path, std::env::temp_dir()));
    let hub = Hub::new(HubServices::new(launcher, identity()));
    hub.configure(vec![running(server)]);
    hub
}

fn program(program: &str, args: &[&str]) -> Hub {
    start(stdio("s", installed(program).to_str().unwrap(), args))
}

async fn catalog(hub: &Hub) -> Arc<ServerCatalog> {
    // A server that is reached by HTTP may need a second attempt.
    status(hub, "s", |status| status.catalog().is_some()).await.catalog().unwrap().clone()
}

async fn call(hub: &Hub, tool: &str, with: Value) -> ToolResult {
    hub.call_tool("s", tool, arguments(with), &CallOptions::default()).await.unwrap()
}

fn text_of(result: &ToolResult) -> String {
    let texts = result.parts.iter().filter_map(|part| match part {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    texts.collect::<Vec<_>>().join("\n")
}

/// What the server that has everything can do, over whatever transport.
async fn everything(hub: &Hub) {
    let catalog = catalog(hub).await;
    assert!(catalog.rejected_tools.is_empty(), "{:?}", catalog.rejected_tools);
    assert!(
        !catalog.resources.is_empty()
            && !catalog.resource_templates.is_empty()
            && !catalog.prompts.is_empty()
    );
    assert_eq!(text_of(&call(hub, "echo", json!({ "message": "hello" })).await), "Echo: hello");
    assert!(text_of(&call(hub, "get-sum", json!({ "a": 40, "b": 2 })).await).contains("42"));

    let image = call(hub, "get-tiny-image", json!({})).await;
    let png = image.parts.iter().find_map(|part| match part {
        Content::Image(media) => Some(media),
        _ => None,
    });
    assert!(
        png.is_some_and(|media| media.mime_type == "image/png" && media.data.starts_with(b"\x89PNG")),
        "{image:?}"
    );

    let structured = call(hub, "get-structured-content", json!({ "location": "New York" })).await;
    assert!(structured.structured.is_some_and(|value| value["temperature"].is_number()));
    let links = call(hub, "get-resource-links", json!({ "count": 2 })).await;
    assert_eq!(links.parts.iter().filter(|part| matches!(part, Content::Link(_))).count(), 2);

    call(hub, "trigger-long-running-operation", json!({ "duration": 1, "steps": 4 })).await;

    let cancel = CancellationToken::new();
    let options = CallOptions { cancel: cancel.clone(), ..CallOptions::default() };
    let endless = arguments(json!({ "duration": 3600, "steps": 4 }));
    let operation = hub.call_tool("s", "trigger-long-running-operation", endless, &options);
    let (cancelled, ()) = tokio::join!(operation, async {
        // It was sent before this, so the server is at work on it.
        call(hub, "echo", json!({ "message": "hello" })).await;
        cancel.cancel();
    });
    assert!(cancelled.unwrap_err().to_string().contains("was cancelled"));

    let told = async |wanted: fn(&Wanted) -> Option<Answer>, tool: &str, with: Value| {
        let (questions, mut asked) = mpsc::channel(4);
        let options = CallOptions { questions: Some(questions), ..CallOptions::default() };
        let call = hub.call_tool("s", tool, arguments(with), &options);
        let answer = async {
            let elicitation: Elicitation = asked.recv().await.unwrap();
            let answer = wanted(&elicitation.wanted).unwrap();
            elicitation.answer.send(answer).unwrap();
        };
        let (result, ()) = tokio::join!(call, answer);
        text_of(&result.unwrap())
    };
    let defaults = |wanted: &Wanted| match wanted {
        Wanted::Form(fields) => {
            let value =
                |field: &FormField| Some((field.name.clone(), field.read(field.default.as_ref()?).unwrap()));
            Some(Answer::Accepted(fields.iter().filter_map(value).collect()))
        }
        Wanted::Visit { .. } => None,
    };
    let form = told(defaults, "trigger-elicitation-request", json!({})).await;
    assert!(form.contains("User provided the requested information") && form.contains("42"), "{form}");
    let declined = told(|_| Some(Answer::Declined), "trigger-elicitation-request", json!({})).await;
    assert!(declined.contains("declined"), "{declined}");
    let visited = |wanted: &Wanted| match wanted {
        Wanted::Visit { host, .. } if host == "example.com" => Some(Answer::Visited),
        Wanted::Visit { .. } | Wanted::Form(_) => None,
    };
    let url = json!({ "url": "https://example.com/sign-in", "message": "Sign in." });
    let visit = told(visited, "trigger-url-elicitation", url).await;
    assert!(visit.contains("accept"), "{visit}");

    let uri = &catalog.resources[0].uri;
    let (contents, _) = hub.read_resource("s", uri, &CallOptions::default()).await.unwrap();
    assert!(matches!(&contents[0], ResourceContent::Text { text, .. } if !text.is_empty()), "{contents:?}");
    let prompt = catalog.prompts.iter().find(|prompt| prompt.arguments.is_empty()).unwrap();
    let prompt = hub.get_prompt("s", &prompt.name, arguments(json!({})), &CallOptions::default()).await;
    assert!(!prompt.unwrap().0.is_empty());
    let complete = async |of: CompletionOf, argument: &str, value: &str, known: &[(&str, &str)]| {
        let known = known.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (argument, value) = (argument.to_owned(), value.to_owned());
        let wanted = CompletionRequest { of, argument, value, known };
        hub.complete("s", &wanted, &CallOptions::default()).await.unwrap().values
    };
    let promotion = || CompletionOf::Prompt("completable-prompt".to_owned());
    assert_eq!(complete(promotion(), "department", "S", &[]).await, ["Sales", "Support"]);
    assert_eq!(complete(promotion(), "name", "E", &[("department", "Sales")]).await, ["Eve"]);
    let template = CompletionOf::Template(catalog.resource_templates[0].uri_template.clone());
    assert_eq!(complete(template, "resourceId", "7", &[]).await, ["7"]);
    hub.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
async fn server_everything_over_stdio() {
    let script = installed(EVERYTHING);
    everything(&program(NODE, &[script.to_str().unwrap(), "stdio"])).await;
}

/// Starts the server that has everything at a free port.
struct Listening {
    child: std::process::Child,
    port: u16,
}

impl Listening {
    fn start(transport: &str) -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(installed(NODE))
            .arg(installed(EVERYTHING))
            .arg(transport)
            .env("PORT", port.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, port }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
async fn server_everything_over_streamable_http() {
    let listening = Listening::start("streamableHttp");
    let url = format!("http://127.0.0.1:{}/mcp", listening.port);
    let transport = Transport::StreamableHttp(remote(&url, &[]));
    everything(&start(ResolvedServer { name: "s".to_owned(), transport, timeout: Duration::from_secs(20) }))
        .await;
}

#[tokio::test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
async fn server_everything_over_the_older_transport() {
    let listening = Listening::start("sse");
    let url = format!("http://localhost:{}/sse", listening.port);
    let transport = Transport::Sse(remote(&url, &[]));
    everything(&start(ResolvedServer { name: "s".to_owned(), transport, timeout: Duration::from_secs(20) }))
        .await;
}

#[tokio::test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
async fn server_filesystem() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    std::fs::write(root.join("a.txt"), "content of a").unwrap();
    let script = installed("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js");
    let hub = program(NODE, &[script.to_str().unwrap(), root.to_str().unwrap()]);
    assert!(catalog(&hub).await.tool("read_text_file").is_some());
    let read = call(&hub, "read_text_file", json!({ "path": root.join("a.txt") })).await;
    assert_eq!((text_of(&read).as_str(), read.is_error), ("content of a", false));
    let outside = call(&hub, "read_text_file", json!({ "path": "/etc/hostname" })).await;
    assert!(outside.is_error, "{outside:?}");
    hub.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
async fn server_git() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().canonicalize().unwrap();
    assert!(Command::new("git").args(["init", "--quiet"]).arg(&root).status().unwrap().success());
    std::fs::write(root.join("new.txt"), "x").unwrap();
    let root = root.to_str().unwrap();
    let hub = program("venv/bin/mcp-server-git", &["--repository", root]);
    assert!(catalog(&hub).await.tool("git_status").is_some());
    assert!(text_of(&call(&hub, "git_status", json!({ "repo_path": root })).await).contains("new.txt"));
    hub.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
async fn server_fetch() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nconnection: close\r\ncontent-length: 14\r\n\r\nfetched by MCP",
            );
        }
    });
    let hub = program("venv/bin/mcp-server-fetch", &["--ignore-robots-txt", "--allow-private-ips"]);
    assert_eq!(catalog(&hub).await.tools.len(), 1);
    let fetched = call(&hub, "fetch", json!({ "url": format!("http://127.0.0.1:{port}/page") })).await;
    assert!(text_of(&fetched).contains("fetched by MCP"), "{fetched:?}");
    hub.shutdown().await;
}

#[tokio::test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
async fn a_server_has_a_model_write_a_text_where_it_may() {
    let everything = installed(EVERYTHING);
    let server = stdio("s", installed(NODE).to_str().unwrap(), &[everything.to_str().unwrap()]);
    let tool = "trigger-sampling-request";
    let off = start(server.clone());
    assert!(catalog(&off).await.tool(tool).is_none(), "it isn't offered, so it isn't asked for");
    off.shutdown().await;

    let path = BTreeMap::from([("PATH".into(), std::env::var_os("PATH").unwrap())]);
    let launcher = Arc::new(PlainLauncher::new(path, std::env::temp_dir()));
    let hub = Hub::new(HubServices::new(launcher, identity()));
    hub.configure(vec![crate::sampling::sampling(running(server))]);
    status(&hub, "s", |status| status.catalog().is_some_and(|catalog| catalog.tool(tool).is_some())).await;
    let (samplings, mut asked) = mpsc::channel(4);
    let options = CallOptions { samplings: Some(samplings), ..CallOptions::default() };
    let with = arguments(json!({ "prompt": "Who are you?", "maxTokens": 50 }));
    let call = hub.call_tool("s", tool, with, &options);
    let answer = async {
        let sampling = asked.recv().await.unwrap();
        assert!(sampling.messages[0].text.contains("Who are you?") && sampling.max_tokens == 50);
        let (text, model) = ("A desk.".to_owned(), "test/model".to_owned());
        sampling.answer.send(Ok(roo_mcp::Sampled { text, model, is_cut: false })).unwrap();
    };
    let (result, ()) = tokio::join!(call, answer);
    let told = text_of(&result.unwrap());
    assert!(told.contains("A desk.") && told.contains("endTurn"), "{told}");
    hub.shutdown().await;
}
