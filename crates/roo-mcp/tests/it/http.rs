//! Servers over HTTP: streamable, and with server-sent events as before.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use roo_formats::mcp::{ResolvedServer, Transport};
use roo_mcp::{CallOptions, Hub, HubServices, ServerStatus};
use roo_sandbox::egress::Resolve;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::http_server::*;
use crate::support::*;

fn server(
    transport: Transport<roo_formats::mcp::ResolvedStdio, roo_formats::mcp::ResolvedRemote>,
) -> ResolvedServer {
    ResolvedServer { name: "s".to_owned(), transport, timeout: Duration::from_secs(20) }
}

fn streamable(url: &str, headers: &[(&str, &str)]) -> Hub {
    let hub = hub(&FakeLauncher::new(|_, _| async {}));
    hub.configure(vec![running(server(Transport::StreamableHttp(remote(url, headers))))]);
    hub
}

async fn call(hub: &Hub) -> Result<Vec<roo_mcp::Content>, String> {
    let result = hub.call_tool("s", "echo", arguments(json!({})), &CallOptions::default()).await;
    result.map(|result| result.parts).map_err(|error| error.to_string())
}

fn hello() -> Vec<roo_mcp::Content> {
    vec![roo_mcp::Content::Text("hello".to_owned())]
}

#[tokio::test]
async fn streamable_http_carries_headers_and_the_session() {
    let fake = Server::start(|request| {
        let mut reply = ordinary(request);
        if request.rpc() == "initialize" {
            reply.head.insert_str(reply.head.len() - 2, "mcp-session-id: abc\r\n");
        }
        if request.method == "DELETE" {
            return self::reply("204 No Content", "", "");
        }
        reply
    })
    .await;
    let hub = streamable(&fake.url("/mcp"), &[("Authorization", "Bearer t")]);
    connected(&hub, "s").await;
    assert_eq!(call(&hub).await, Ok(hello()));
    hub.shutdown().await;
    let requests = fake.requests();
    assert!(
        requests.iter().all(|request| request.header("authorization") == Some("Bearer t")),
        "{requests:?}"
    );
    assert!(requests.iter().all(|request| request.path == "/mcp"));
    let called = requests.iter().find(|request| request.rpc() == "tools/call").unwrap();
    assert_eq!(called.header("mcp-session-id"), Some("abc"));
    assert_eq!(called.header("mcp-protocol-version"), Some("2025-06-18"));
    assert_eq!(called.header("user-agent"), Some("roo-lsp/1.2.3"));
    // The server hears that the session is over.
    assert_eq!(requests.last().map(|request| request.method.as_str()), Some("DELETE"));
}

/// An error of JSON-RPC that names no request, or another one.
fn foreign_error(status: &str, id: Value, code: i64, message: &str) -> Reply {
    let body = json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } });
    reply(status, "content-type: application/json\r\n", body.to_string())
}

#[tokio::test]
async fn a_session_that_has_expired_is_followed_by_another_one() {
    follows_expired_session(|| reply("404 Not Found", "", "no such session")).await;
}

#[tokio::test]
async fn a_session_that_is_unknown_has_expired_whatever_the_server_calls_it() {
    follows_expired_session(|| reply("400 Bad Request", "", "Invalid or missing session ID")).await;
    follows_expired_session(|| reply("400 Bad Request", "", "")).await;
    let said = "Bad Request: No valid session ID provided";
    for id in [json!(null), json!("server-error")] {
        follows_expired_session(move || foreign_error("400 Bad Request", id.clone(), -32000, said)).await;
    }
}

/// A server whose session answers calls so.
async fn with_session(answer: impl Fn() -> Reply + Send + Sync + 'static) -> Server {
    Server::start(move |request| match request.rpc() {
        "tools/call" => answer(),
        "initialize" => {
            let mut answer = ordinary(request);
            answer.head.insert_str(answer.head.len() - 2, "mcp-session-id: a\r\n");
            answer
        }
        _ => ordinary(request),
    })
    .await
}

#[tokio::test]
async fn an_error_of_http_that_is_about_the_request_refuses_it_and_leaves_the_session() {
    let problem = r#"{"error":"parameter `project` is required"}"#;
    for (status, headers, body, expected) in [
        ("400 Bad Request", "content-type: application/json\r\n", problem, format!("{problem} (code 400)")),
        ("422 Unprocessable Entity", "", "no such day", "no such day (code 422)".to_owned()),
        ("429 Too Many Requests", "", "", "HTTP 429 (code 429)".to_owned()),
    ] {
        let fake = with_session(move || reply(status, headers, body)).await;
        let hub = streamable(&fake.url("/mcp"), &[]);
        connected(&hub, "s").await;
        for _ in 0..2 {
            let error = call(&hub).await.unwrap_err();
            assert_eq!(error, format!("MCP server `s` refused the tool `echo`: {expected}"));
        }
        let opened = fake.requests().iter().filter(|request| request.rpc() == "initialize").count();
        assert_eq!(opened, 1, "{status}");
    }
}

#[tokio::test]
async fn an_error_of_the_server_leaves_the_effects_of_a_call_unknown() {
    let fake = with_session(|| reply("500 Internal Server Error", "", "")).await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    connected(&hub, "s").await;
    let error = call(&hub).await.unwrap_err();
    assert!(
        error.contains("was interrupted: it can't be reached: HTTP 500. Its effects are unknown"),
        "{error}"
    );
    connected(&hub, "s").await;
}

#[tokio::test]
async fn a_handshake_that_is_refused_at_its_end_says_why() {
    let fake = Server::start(|request| match request.rpc() {
        "notifications/initialized" => reply("400 Bad Request", "", "no such client"),
        "initialize" => {
            let mut answer = ordinary(request);
            answer.head.insert_str(answer.head.len() - 2, "mcp-session-id: a\r\n");
            answer
        }
        _ => ordinary(request),
    })
    .await;
    let (fault, _) = failed(&streamable(&fake.url("/mcp"), &[]), "s").await;
    assert_eq!(fault, "it can't be reached: HTTP 400: no such client");
}

#[tokio::test]
async fn an_error_under_another_id_answers_its_request() {
    let down =
        || foreign_error("500 Internal Server Error", json!(null), -32603, "The session store is down");
    let fake = with_session(down).await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    connected(&hub, "s").await;
    let error = call(&hub).await.unwrap_err();
    let refused = "MCP server `s` refused the tool `echo`: The session store is down (code -32603)";
    assert_eq!(error, refused);
    connected(&hub, "s").await;
}

/// A server that answers so to the first session's call is connected again, and the next call is carried out.
async fn follows_expired_session(refused: impl Fn() -> Reply + Send + Sync + 'static) {
    let opened = AtomicUsize::new(0);
    let fake = Server::start(move |request| {
        let mut answer = ordinary(request);
        match request.rpc() {
            "initialize" => {
                let id = ["a", "b"][opened.fetch_add(1, Ordering::SeqCst).min(1)];
                answer.head.insert_str(answer.head.len() - 2, &format!("mcp-session-id: {id}\r\n"));
            }
            "tools/call" if request.header("mcp-session-id") == Some("a") => return refused(),
            _ => {}
        }
        answer
    })
    .await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    connected(&hub, "s").await;
    let error = call(&hub).await.unwrap_err();
    assert!(
        error.starts_with("MCP server `s` did not do the tool `echo`, as its session had expired"),
        "{error}"
    );
    failed(&hub, "s").await;
    status(&hub, "s", |status| status.catalog().is_some()).await;
    assert_eq!(call(&hub).await, Ok(hello()));
    let sessions: Vec<String> = fake
        .requests()
        .iter()
        .filter(|request| request.rpc() == "tools/call")
        .filter_map(|request| request.header("mcp-session-id").map(str::to_owned))
        .collect();
    assert_eq!(sessions, ["a", "b"], "the call was not repeated");
}

#[tokio::test]
async fn streamable_http_takes_answers_as_events_with_progress_before() {
    let fake = Server::start(|request| {
        if request.rpc() != "tools/call" {
            return ordinary(request);
        }
        let token = &request.body["params"]["_meta"]["progressToken"];
        let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                               "params": { "progressToken": token, "progress": 1, "message": "half" } });
        let result = json!({ "jsonrpc": "2.0", "id": request.body["id"], "result": text("hello") });
        let events = format!("event: message\ndata: {progress}\n\nevent: message\ndata: {result}\n\n");
        reply("200 OK", "content-type: text/event-stream\r\n", events)
    })
    .await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    connected(&hub, "s").await;
    assert_eq!(call(&hub).await, Ok(hello()));
}

#[tokio::test]
async fn a_server_that_wants_authorization_says_how_to_give_it() {
    for challenge in ["www-authenticate: Bearer\r\n", ""] {
        let fake = Server::start(move |_| reply("401 Unauthorized", challenge, "")).await;
        let expected = "run `roo-lsp mcp login s`, or set the header `Authorization` in mcp.json";
        assert_eq!(needs_login(&streamable(&fake.url("/mcp"), &[]), "s").await, expected);
        assert_eq!(needs_login(&sse(&fake.url("/sse"), &[]), "s").await, expected);
    }
    for (status, code) in [("401 Unauthorized", 401), ("403 Forbidden", 403)] {
        let fake = Server::start(move |_| reply(status, "www-authenticate: Bearer\r\n", "")).await;
        let headers = [("authorization", "Bearer old")];
        let (fault, retry) = failed(&streamable(&fake.url("/mcp"), &headers), "s").await;
        let expected = format!(
            "it refuses the request (HTTP {code}); check the header `Authorization` in mcp.json, or the rights of its login"
        );
        assert_eq!((fault, retry), (expected, None));
    }
}

#[tokio::test]
async fn redirects_elsewhere_are_not_followed_and_give_nothing_away() {
    let elsewhere = Server::start(ordinary).await;
    let target = elsewhere.url("/mcp");
    for status in ["301 Moved Permanently", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let target = target.clone();
        let fake = Server::start(move |_| reply(status, &format!("location: {target}\r\n"), "")).await;
        let (fault, retry) =
            failed(&streamable(&fake.url("/mcp"), &[("Authorization", "secret")]), "s").await;
        assert!(fault.starts_with("it redirects to"), "{status}: {fault}");
        assert_eq!(retry, None);
    }
    assert!(elsewhere.requests().is_empty());
}

#[tokio::test]
async fn redirects_within_a_server_are_followed() {
    let fake = Server::start(|request| match request.path.as_str() {
        "/mcp" => reply("307 Temporary Redirect", "location: /mcp/\r\n", ""),
        _ => ordinary(request),
    })
    .await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    connected(&hub, "s").await;
    assert_eq!(call(&hub).await, Ok(hello()));
}

/// Gives the same address for every name.
struct Rebound(SocketAddr);

impl Resolve for Rebound {
    fn resolve<'a>(&'a self, _: &'a str, _: u16) -> BoxFuture<'a, io::Result<Vec<SocketAddr>>> {
        Box::pin(async move { Ok(vec![self.0]) })
    }
}

#[tokio::test]
async fn a_name_that_leads_to_this_machine_is_refused_before_anything_is_sent() {
    let fake = Server::start(ordinary).await;
    let mut services = HubServices::new(FakeLauncher::new(|_, _| async {}), identity());
    services.resolver = Arc::new(Rebound(fake.address));
    let hub = Hub::new(services);
    let url = format!("http://mcp.example.com:{}/mcp", fake.address.port());
    hub.configure(vec![running(server(Transport::StreamableHttp(remote(&url, &[]))))]);
    let (fault, retry) = failed(&hub, "s").await;
    assert!(fault.contains("DNS rebinding"), "{fault}");
    assert_eq!((retry, fake.requests().len()), (None, 0));
}

#[tokio::test]
async fn large_answers_and_unreachable_servers_are_faults_of_their_call() {
    let large = "x".repeat(20 << 20);
    let fake = Server::start(move |request| match request.rpc() {
        "tools/call" => json_reply(&request.body["id"], text(&large)),
        _ => ordinary(request),
    })
    .await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    connected(&hub, "s").await;
    let error = call(&hub).await.unwrap_err();
    assert!(error.contains("more than 16 MiB"), "{error}");

    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let (fault, retry) = failed(&streamable(&format!("http://{closed}/mcp"), &[]), "s").await;
    assert!(fault.starts_with("it can't be reached: "), "{fault}");
    assert_eq!(retry, Some(1));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_can_not_be_reached_is_tried_without_end() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let hub = streamable(&format!("http://{closed}/mcp"), &[]);
    for hours in 0..3 {
        let (fault, retry) = failed(&hub, "s").await;
        assert!(fault.starts_with("it can't be reached: "), "{fault}");
        assert_eq!(retry, Some(if hours == 0 { 1 } else { 60 }));
        tokio::time::sleep(Duration::from_secs(3600)).await;
    }
}

#[tokio::test]
async fn a_server_that_could_not_be_reached_is_started_by_a_call() {
    let is_down = Arc::new(AtomicBool::new(true));
    let down = Arc::clone(&is_down);
    let fake = Server::start(move |request| match down.load(Ordering::SeqCst) {
        true => reply("503 Service Unavailable", "", ""),
        false => ordinary(request),
    })
    .await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    // The second pause is longer than this test may take.
    status(&hub, "s", |status| match status {
        ServerStatus::Failed { retry_after, .. } => *retry_after > Some(Duration::from_secs(1)),
        _ => false,
    })
    .await;
    is_down.store(false, Ordering::SeqCst);
    hub.start("s").await;
    connected(&hub, "s").await;
    assert_eq!(call(&hub).await, Ok(hello()));
}

#[tokio::test]
async fn a_server_that_fails_before_its_initialize_gets_that_first_the_next_time() {
    let fake = Server::start(|request| match request.rpc() {
        "server/discover" => reply("500 Internal Server Error", "", "not initialized"),
        _ => ordinary(request),
    })
    .await;
    let hub = streamable(&fake.url("/mcp"), &[]);
    assert!(connected(&hub, "s").await.prefers_initialize);
    assert_eq!(call(&hub).await, Ok(hello()));
    assert!(hub.restart("s").await);
    connected(&hub, "s").await;
    let asked = fake.requests().iter().filter(|request| request.rpc() == "server/discover").count();
    assert_eq!(asked, 1);
}

#[tokio::test]
async fn what_is_no_mcp_server_is_told_from_one() {
    let web = Server::start(|_| reply("200 OK", "content-type: text/html\r\n", "<h1>It works!</h1>")).await;
    let missing = Server::start(|_| reply("404 Not Found", "", "nothing here")).await;
    for fake in [web, missing] {
        let (fault, _) = failed(&streamable(&fake.url("/"), &[]), "s").await;
        assert!(fault.starts_with("it can't be reached: ") || fault.starts_with("it refused"), "{fault}");
    }
}

/// A server of the older transport: its events, and requests to another address.
async fn older(endpoint: &'static str) -> Server {
    older_with(endpoint, ordinary).await
}

/// The same server with other answers.
async fn older_with(
    endpoint: &'static str,
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Server {
    older_server(endpoint, |_| None, answer).await
}

/// The same server, which refuses some requests.
async fn older_that(
    endpoint: &'static str,
    refuse: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
) -> Server {
    older_server(endpoint, refuse, ordinary).await
}

async fn older_server(
    endpoint: &'static str,
    refuse: impl Fn(&Request) -> Option<Reply> + Send + Sync + 'static,
    answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
) -> Server {
    let events: Arc<Mutex<Option<mpsc::Sender<Vec<u8>>>>> = Arc::default();
    Server::start(move |request| {
        if request.method == "GET" {
            let (sender, more) = mpsc::channel(64);
            *events.lock().unwrap() = Some(sender);
            let body = format!(": hello\n\nevent: endpoint\ndata: {endpoint}\n\n");
            let stream = reply("200 OK", "content-type: text/event-stream\r\n", body);
            return Reply { more: Some(more), ..stream };
        }
        if request.path == "/sse" {
            return reply("405 Method Not Allowed", "", "");
        }
        if let Some(reply) = refuse(request) {
            return reply;
        }
        let answer = answer(request);
        if !request.body["id"].is_null() {
            let data = String::from_utf8(answer.body).unwrap();
            let event = format!("event: message\r\ndata: {data}\r\n\r\n").into_bytes();
            events.lock().unwrap().as_ref().unwrap().try_send(event).unwrap();
        }
        reply("202 Accepted", "", "Accepted")
    })
    .await
}

fn sse(url: &str, headers: &[(&str, &str)]) -> Hub {
    let hub = hub(&FakeLauncher::new(|_, _| async {}));
    hub.configure(vec![running(server(Transport::Sse(remote(url, headers))))]);
    hub
}

#[tokio::test]
async fn the_older_transport_is_spoken() {
    let fake = older("/messages?session=1").await;
    let hub = sse(&fake.url("/sse"), &[("X-Key", "k")]);
    connected(&hub, "s").await;
    assert_eq!(call(&hub).await, Ok(hello()));
    let requests = fake.requests();
    assert!(requests.iter().all(|request| request.header("x-key") == Some("k")), "{requests:?}");
    let posts = requests.iter().filter(|request| request.method == "POST");
    assert!(posts.clone().count() > 3 && posts.clone().all(|request| request.path == "/messages?session=1"));
    hub.shutdown().await;
}

#[tokio::test]
async fn errors_of_http_over_the_older_transport_keep_their_text() {
    for (status, expected) in [
        ("400 Bad Request", "refused the tool `echo`: no `project` (code 400)"),
        ("500 Internal Server Error", "can't be reached: HTTP 500: no `project`. Its effects are unknown"),
    ] {
        let older = older_that("/messages", move |request| {
            (request.rpc() == "tools/call").then(|| reply(status, "", "no `project`"))
        });
        let fake = older.await;
        let hub = sse(&fake.url("/sse"), &[]);
        connected(&hub, "s").await;
        let error = call(&hub).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn the_older_transport_is_tried_where_a_server_takes_no_messages_at_its_address() {
    let fake = older("/messages?session=1").await;
    let hub = streamable(&fake.url("/sse"), &[("X-Key", "k")]);
    connected(&hub, "s").await;
    assert_eq!(call(&hub).await, Ok(hello()));
    assert!(fake.requests().iter().all(|request| request.header("x-key") == Some("k")));
    let log = hub.log("s").unwrap().lines();
    assert!(log.iter().any(|line| line.text.contains(r#"write `"type": "sse"` into mcp.json"#)), "{log:?}");
    // Who speaks neither is told what the first one gave.
    let fake = Server::start(|request| match request.method.as_str() {
        "GET" => reply("200 OK", "content-type: text/html\r\n", "<h1>It works!</h1>"),
        _ => reply("405 Method Not Allowed", "", "no messages"),
    })
    .await;
    let (fault, _) = failed(&streamable(&fake.url("/"), &[]), "s").await;
    assert_eq!(fault, "it can't be reached: HTTP 405: no messages");
}

#[tokio::test]
async fn the_older_transport_sends_requests_to_its_own_server_only() {
    let fake = older("http://192.0.2.1/messages").await;
    let (fault, retry) = failed(&sse(&fake.url("/sse"), &[("X-Key", "k")]), "s").await;
    assert!(fault.starts_with("it redirects to http://192.0.2.1"), "{fault}");
    assert_eq!((retry, fake.requests().len()), (None, 1));
}

#[tokio::test]
async fn a_stream_of_events_that_breaks_interrupts_what_waits_for_it() {
    let fake = Server::start(|request| match request.method.as_str() {
        "GET" => reply("200 OK", "content-type: text/event-stream\r\n", "event: endpoint\ndata: /m\n\n"),
        _ => reply("202 Accepted", "", ""),
    })
    .await;
    let (fault, retry) = failed(&sse(&fake.url("/sse"), &[]), "s").await;
    assert_eq!((fault.as_str(), retry), ("it closed the connection; restart it if it is needed", Some(1)));
}

#[tokio::test]
async fn an_event_that_is_too_large_is_the_fault_of_its_call() {
    let sizes = [(15 << 20, true), (17 << 20, false)];
    for (size, is_read) in sizes {
        let large = "x".repeat(size);
        let fake = older_with("/messages", move |request| match request.rpc() {
            "tools/call" => json_reply(&request.body["id"], text(&large)),
            _ => ordinary(request),
        })
        .await;
        let hub = sse(&fake.url("/sse"), &[]);
        connected(&hub, "s").await;
        match call(&hub).await {
            Ok(_) => assert!(is_read, "{size}"),
            Err(error) => {
                assert!(
                    !is_read && error.contains("was interrupted: it sent a message of more than 16 MiB"),
                    "{error}"
                );
            }
        }
    }
    // Not even in parts, and not before the first message; comments are no part of an event.
    let line = format!("data: {}\r\n", "x".repeat(1 << 20));
    let comments = format!(":{}\n\r\n", "x".repeat(17 << 20));
    for body in [line.repeat(17), format!("{comments}{}", line.repeat(17))] {
        let fake =
            Server::start(move |_| reply("200 OK", "content-type: text/event-stream\r\n", body.clone()))
                .await;
        let (fault, _) = failed(&sse(&fake.url("/sse"), &[]), "s").await;
        assert!(fault.starts_with("it sent a message of more than 16 MiB"), "{fault}");
    }
}

#[tokio::test]
async fn a_stream_that_says_it_is_too_large_is_only_broken() {
    let body = "exceeded the maximum size\n\n";
    let fake = Server::start(move |_| reply("200 OK", "content-type: text/event-stream\r\n", body)).await;
    let (fault, _) = failed(&sse(&fake.url("/sse"), &[]), "s").await;
    assert!(fault.starts_with("it can't be reached: invalid line"), "{fault}");
}
