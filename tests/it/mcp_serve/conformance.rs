//! The official conformance suite for servers, over HTTP. It knows no tokens, so a proxy of the test adds it; all else passes
//! the proxy as it is.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Command;

use http_body_util::BodyExt;
use http_body_util::combinators::BoxBody;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, HOST, HeaderValue, ORIGIN};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};

use super::http::Server;
use super::{Caller, playing};

/// Scenarios that call what only the suite's own example server has.
const EXAMPLE: Option<&str> =
    Some("it calls tools, resources or prompts that only the suite's example server has");
const NO_PROMPTS: Option<&str> = Some("the server has no prompts");
const NO_SUBSCRIPTIONS: Option<&str> =
    Some("resources can't be subscribed to; wait_for_task tells of changes");

/// The scenarios of the suite, and why some are not passed.
const SCENARIOS: &[(&str, Option<&str>)] = &[
    ("server-initialize", None),
    ("logging-set-level", Some("the server sends no log messages; what it logs goes to standard error")),
    ("ping", None),
    ("completion-complete", Some("nothing has arguments that could be completed")),
    ("tools-list", None),
    ("tools-call-simple-text", EXAMPLE),
    ("tools-call-image", EXAMPLE),
    ("tools-call-audio", EXAMPLE),
    ("tools-call-embedded-resource", EXAMPLE),
    ("tools-call-mixed-content", EXAMPLE),
    ("tools-call-with-logging", EXAMPLE),
    ("tools-call-error", EXAMPLE),
    ("tools-call-with-progress", EXAMPLE),
    ("tools-call-sampling", EXAMPLE),
    ("tools-call-elicitation", EXAMPLE),
    ("json-schema-2020-12", EXAMPLE),
    ("elicitation-sep1034-defaults", EXAMPLE),
    // With a warning: no tool of ours closes its stream and is resumed.
    ("server-sse-polling", None),
    ("server-sse-multiple-streams", None),
    ("elicitation-sep1330-enums", EXAMPLE),
    ("resources-list", None),
    ("resources-read-text", EXAMPLE),
    ("resources-read-binary", EXAMPLE),
    ("resources-templates-read", EXAMPLE),
    ("resources-subscribe", NO_SUBSCRIPTIONS),
    ("resources-unsubscribe", NO_SUBSCRIPTIONS),
    ("prompts-list", NO_PROMPTS),
    ("prompts-get-simple", NO_PROMPTS),
    ("prompts-get-with-args", NO_PROMPTS),
    ("prompts-get-embedded-resource", NO_PROMPTS),
    ("prompts-get-with-image", NO_PROMPTS),
    ("dns-rebinding-protection", None),
];

/// A program below the directory into which `scripts/test` installs the suite.
fn installed(program: &str) -> PathBuf {
    let path = crate::support::package().join("target/mcp-servers").join(program);
    assert!(path.exists(), "{} is missing: ./scripts/test installs it", path.display());
    path
}

fn suite(arguments: &[&str]) -> (bool, String) {
    let results = tempfile::tempdir().unwrap();
    let output = Command::new(installed("node_modules/node/bin/node"))
        .arg(installed("node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(arguments)
        // It writes what it found into the current directory.
        .current_dir(results.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    (output.status.success(), text)
}

/// Begins to pass requests on with the token, and returns where.
async fn add_token(server: SocketAddr, token: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let own = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let token = token.clone();
            let pass = service_fn(move |request| pass_on(request, server, own, token.clone()));
            // Who goes away needs no answer.
            tokio::spawn(async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), pass)
                    .await;
            });
        }
    });
    own
}

async fn pass_on(
    mut request: Request<Incoming>,
    server: SocketAddr,
    own: SocketAddr,
    token: String,
) -> Result<Response<BoxBody<Bytes, hyper::Error>>, Infallible> {
    let bearer = HeaderValue::from_str(&format!("Bearer {token}")).unwrap();
    request.headers_mut().insert(AUTHORIZATION, bearer);
    // The proxy's port stands for the server's.
    for name in [HOST, ORIGIN] {
        if let Some(value) = request.headers().get(&name).and_then(|value| value.to_str().ok()) {
            let value = value.replace(&format!(":{}", own.port()), &format!(":{}", server.port()));
            request.headers_mut().insert(name, HeaderValue::from_str(&value).unwrap());
        }
    }
    let stream = TcpStream::connect(server).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    Ok(sender.send_request(request).await.unwrap().map(BodyExt::boxed))
}

#[test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
fn every_scenario_of_the_suite_for_servers_is_listed() {
    let (_, text) = suite(&["list", "--server"]);
    let names = text.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split_whitespace().next());
    let mut unlisted: Vec<&str> = names.collect();
    assert!(unlisted.len() > 20, "{text}");
    unlisted.retain(|name| SCENARIOS.iter().all(|(listed, _)| listed != name));
    assert!(unlisted.is_empty(), "{unlisted:?}");
}

#[test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
#[expect(clippy::print_stdout, reason = "the result of the suite is to be seen")]
fn the_scenarios_for_servers_without_an_exception_are_passed() {
    let project = playing("turns:\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n");
    // So that there is a resource.
    let mut caller = Caller::start(&project, &[]);
    assert_eq!(caller.run("Go.")["state"], "completed");
    caller.leave();
    let server = Server::start(&project, None);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let own = runtime.block_on(add_token(server.address, server.token.clone()));
    let url = format!("http://{own}/mcp");
    let mut passed = 0;
    for (name, exception) in SCENARIOS {
        if let Some(reason) = exception {
            println!("{name}: left out, as {reason}");
            continue;
        }
        let (is_passed, text) = suite(&["server", "--url", &url, "--scenario", name]);
        assert!(is_passed, "{name}: {text}");
        println!("{name}: passed");
        passed += 1;
    }
    println!("{passed} of {} scenarios passed", SCENARIOS.len());
}
