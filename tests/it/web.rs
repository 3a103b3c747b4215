//! The page for browsers: who is let in, what a page may say, and a request from its prompt to its end, by the real program. The
//! page itself is tried in a real browser by `editors/vscode/tests/browser/web.test.ts`.

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::http::HeaderValue;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message, WebSocket, client};

use crate::daemon::DaemonUser;
use crate::support::client::{Client, DEADLINE, Home, Options, uri};

const WRITES: &str = "turns:
  - calls: [{ tool: write_to_file, params: { path: new.txt, content: \"one\\n\" } }]
  - calls: [{ tool: attempt_completion, params: { result: Written. } }]
";
const MODE: &str = "mode: code\n";
/// Longer than the longest message of a page.
const TOO_LONG: u64 = (48 << 20) + 1;

/// `roo-lsp web`.
struct Server {
    process: Child,
    address: SocketAddr,
    token: String,
}

impl Server {
    fn start(home: &Home, flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
        command
            .arg("web")
            .args(flags)
            .env("XDG_CONFIG_HOME", home.path("config"))
            .env("XDG_STATE_HOME", home.path("state"))
            .env("HOME", home.path(""))
            .env_remove("ROO_LSP_LOG")
            .current_dir(home.path("work"));
        Self::run(&mut command)
    }

    fn run(command: &mut Command) -> Self {
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let (address, token) = parts(line.trim());
        Self { process, address, token }
    }

    /// A page that is let in.
    fn page(&self) -> Page {
        Page::open(self.address, &self.token).unwrap()
    }

    /// Ends it as its user does; its requests are left to be resumed.
    fn interrupt(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        self.process.wait().unwrap().code()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The host and the secret of an address.
fn parts(address: &str) -> (SocketAddr, String) {
    let (host, secret) = address.strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
    (host.parse().unwrap(), secret.split('&').next().unwrap().to_owned())
}

/// Sends a request as it is and returns the status and the whole answer.
fn ask(address: SocketAddr, request: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

/// Gets a path by the server's own name, with these headers besides.
fn get(address: SocketAddr, path: &str, headers: &str) -> (u16, String) {
    ask(address, &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"))
}

/// A WebSocket, as the page has it.
struct Page {
    socket: WebSocket<TcpStream>,
    ready: Value,
    next: u64,
    unread: Vec<Value>,
}

impl Page {
    /// Opens a WebSocket with this secret, or says the status of the refusal.
    fn open(address: SocketAddr, secret: &str) -> Result<Self, u16> {
        let mut page =
            Self { socket: connect(address, secret)?, ready: Value::Null, next: 0, unread: vec![] };
        page.ready = page.wait_for("web/ready", |message| message["method"] == "web/ready")["params"].clone();
        Ok(page)
    }

    fn send(&mut self, text: &str) {
        self.socket.send(Message::text(text)).unwrap();
    }

    fn read(&mut self) -> Result<Value, Error> {
        loop {
            if let Message::Text(text) = self.socket.read()? {
                return Ok(serde_json::from_str(&text).unwrap());
            }
        }
    }

    #[track_caller]
    fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        if let Some(place) = self.unread.iter().position(&is_it) {
            return self.unread.remove(place);
        }
        loop {
            let message = self.read().unwrap_or_else(|error| panic!("waited in vain for {what}: {error}"));
            if is_it(&message) {
                return message;
            }
            self.unread.push(message);
        }
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        let id = self.next;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }).to_string());
        self.wait_for(method, |message| message["id"] == id)
    }

    #[track_caller]
    fn request(&mut self, method: &str, params: Value) -> Value {
        let answer = self.ask(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    #[track_caller]
    fn event(&mut self, kind: &str) -> Value {
        let is_it =
            |message: &Value| message["method"] == "roo/event" && message["params"]["event"]["type"] == kind;
        self.wait_for(kind, is_it)["params"]["event"].clone()
    }

    /// Allows once what an event asks.
    #[track_caller]
    fn allow(&mut self, asked: &Value) -> Value {
        self.respond(asked, "allow_once")
    }

    #[track_caller]
    fn respond(&mut self, asked: &Value, option: &str) -> Value {
        let (id, digest) = (&asked["approvalId"], &asked["digest"]);
        self.request(
            "roo/approval/respond",
            json!({ "approvalId": id, "digest": digest, "optionId": option }),
        )
    }

    /// How the server ends the connection.
    fn closed(mut self) -> CloseCode {
        loop {
            match self.socket.read() {
                Ok(Message::Close(frame)) => return frame.unwrap().code,
                Ok(_) => {}
                Err(error) => panic!("it is not told why: {error}"),
            }
        }
    }
}

fn connect(address: SocketAddr, secret: &str) -> Result<WebSocket<TcpStream>, u16> {
    let mut request = format!("ws://{address}/socket").into_client_request().unwrap();
    let protocols = format!("roo-lsp, token.{secret}");
    let headers = request.headers_mut();
    headers.insert("Sec-WebSocket-Protocol", HeaderValue::try_from(protocols).unwrap());
    headers.insert("Origin", HeaderValue::try_from(format!("http://{address}")).unwrap());
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    match client(request, stream) {
        Ok((socket, _)) => Ok(socket),
        Err(tokio_tungstenite::tungstenite::HandshakeError::Failure(Error::Http(response))) => {
            Err(response.status().as_u16())
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn the_page_is_served_with_a_policy_that_lets_nothing_else_run() {
    let home = Home::playing("turns: []\n");
    let server = Server::start(&home, &[]);
    for (path, kind) in [("/", "text/html"), ("/page.js", "text/javascript"), ("/page.css", "text/css")] {
        let (status, answer) = get(server.address, path, "");
        let head = answer.split("\r\n\r\n").next().unwrap().to_ascii_lowercase();
        assert_eq!(status, 200, "{path}");
        assert!(head.contains(&format!("content-type: {kind}; charset=utf-8")), "{head}");
        let policy = head.lines().find(|line| line.starts_with("content-security-policy: ")).unwrap();
        for part in
            ["default-src 'none'", "script-src 'self'", "connect-src 'self'", "frame-ancestors 'none'"]
        {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"), "{policy}");
        for header in
            ["x-content-type-options: nosniff", "cache-control: no-store", "referrer-policy: no-referrer"]
        {
            assert!(head.contains(header), "{head}");
        }
    }
}

#[test]
fn a_page_takes_away_what_agents_have_and_gives_them_nothing() {
    let user = DaemonUser::playing("turns: []\n");
    let servers = json!({ "mcpServers": { "notes": { "command": "no-such-program", "lazy": true } } });
    std::fs::write(user.home.path("config/roo-lsp/mcp.json"), servers.to_string()).unwrap();
    assert!(user.run(&["trust"]).status.success());
    let server = Server::start(&user.home, &[]);
    let mut page = server.page();
    assert_eq!(page.request("roo/trust/get", json!({}))["trusted"], true);
    assert_eq!(page.request("roo/trust/revoke", json!({}))["trusted"], false);
    let state = |page: &mut Page| page.request("roo/mcp/list", json!({}))["servers"][0]["state"].clone();
    assert_ne!(state(&mut page), "disabled");
    page.request("roo/mcp/enable", json!({ "server": "notes", "enabled": false }));
    assert_eq!(state(&mut page), "disabled");
    for (method, params) in
        [("roo/mcp/enable", json!({ "server": "notes", "enabled": true })), ("roo/trust/grant", json!({}))]
    {
        assert_eq!(page.ask(method, params)["error"]["code"], -32601, "{method}");
    }
    assert_eq!(page.request("roo/trust/get", json!({}))["trusted"], false);
    assert_eq!(state(&mut page), "disabled");
}

#[test]
fn nothing_but_the_page_is_served() {
    let home = Home::playing("turns: []\n");
    std::fs::write(home.work("secret.txt"), "the secret").unwrap();
    let server = Server::start(&home, &[]);
    for path in [
        "/secret.txt",
        "/../secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e/%2e%2e/etc/passwd",
        "//etc/passwd",
        "/page.js/../../secret.txt",
        "/page.js%00.txt",
        "/index.html",
        "/socket/",
    ] {
        let (status, answer) = get(server.address, path, "");
        assert_eq!(status, 404, "{path}");
        assert!(!answer.contains("the secret") && answer.contains("content-security-policy"), "{answer}");
    }
    let posted = format!(
        "POST / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        server.address
    );
    assert_eq!(ask(server.address, &posted).0, 405);
}

#[test]
fn a_name_that_was_made_to_lead_to_this_machine_is_refused() {
    let home = Home::playing("turns: []\n");
    let server = Server::start(&home, &["--origin", "https://desk.example.com"]);
    let port = server.address.port();
    let by = |host: &str| {
        ask(server.address, &format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).0
    };
    for host in
        ["evil.example", &format!("evil.example:{port}"), "127.0.0.1", "127.0.0.1:1", "desk.example.com:1"]
    {
        assert_eq!(by(host), 421, "{host}");
    }
    for host in [&format!("127.0.0.1:{port}"), &format!("localhost:{port}"), "desk.example.com"] {
        assert_eq!(by(host), 200, "{host}");
    }
    let (status, _) = ask(server.address, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n");
    assert!([400, 421].contains(&status), "{status}");
    let other =
        format!("GET http://evil.example/ HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", server.address);
    assert_eq!(ask(server.address, &other).0, 421);
}

#[test]
fn a_page_of_another_site_and_a_page_without_the_token_are_not_let_in() {
    let home = Home::playing("turns: []\n");
    let server = Server::start(&home, &[]);
    let (address, token) = (server.address, &server.token);
    let own = format!("Origin: http://{address}\r\n");
    let upgrade =
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let right = format!("Sec-WebSocket-Protocol: roo-lsp, token.{token}\r\n");
    // `Connection: close` beside it lets the refusals end.
    let upgrade = format!("Connection: Upgrade\r\n{upgrade}");
    for (headers, expected) in [
        (format!("{upgrade}{right}Origin: https://evil.example\r\n"), 403),
        (format!("{upgrade}{right}Origin: null\r\n"), 403),
        (format!("{upgrade}{right}Origin: http://localhost:{}\r\n", address.port()), 403),
        (format!("{upgrade}{right}"), 403),
        (format!("{upgrade}{own}"), 401),
        (format!("{upgrade}{own}Sec-WebSocket-Protocol: roo-lsp\r\n"), 401),
        (format!("{upgrade}{own}Sec-WebSocket-Protocol: token.{token}\r\n"), 401),
        (format!("{upgrade}{own}Sec-WebSocket-Protocol: roo-lsp, token.{}\r\n", &token[1..]), 401),
        (format!("{upgrade}{own}Authorization: Bearer {token}\r\n"), 401),
        (format!("{own}{right}"), 426),
    ] {
        assert_eq!(get(address, "/socket", &headers).0, expected, "{headers}");
    }
    assert_eq!(get(address, &format!("/socket?token={token}"), &format!("{upgrade}{own}")).0, 401);
    assert_eq!(get(address, "/page.js", "Origin: https://evil.example\r\n").0, 403);
    assert_eq!(Page::open(address, "").err(), Some(401));
    assert!(Page::open(address, token).is_ok());
}

#[test]
fn what_is_no_request_of_the_page_ends_its_connection() {
    let home = Home::playing("turns: []\n");
    let server = Server::start(&home, &[]);
    for text in [
        "",
        "[]",
        "{\"jsonrpc\":\"2.0\",\"method\":\"exit\"}",
        "{\"jsonrpc\":\"2.0\",\"id\":0,\"result\":null}",
    ] {
        let mut page = server.page();
        page.send(text);
        assert_eq!(page.closed(), CloseCode::Policy, "{text}");
    }
    let mut page = server.page();
    page.socket.send(Message::binary(vec![1])).unwrap();
    assert_eq!(page.closed(), CloseCode::Unsupported);
    // The beginning of a frame is enough: nobody waits for the rest, and no memory is taken for it.
    let mut page = server.page();
    let head = [&[0x81, 0xff][..], &TOO_LONG.to_be_bytes(), &[0; 4]].concat();
    page.socket.get_mut().write_all(&head).unwrap();
    assert_eq!(page.closed(), CloseCode::Size);
    // Others go on.
    assert!(server.page().request("roo/task/list", json!({}))["items"].is_array());
}

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    let home = Home::playing("turns: []\n");
    let server = Server::start(&home, &[]);
    // As many as are served at once.
    let idle: Vec<TcpStream> = (0..64).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    assert!(server.page().request("roo/task/list", json!({}))["items"].is_array());
    for mut stream in idle {
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        // Closed, with or without a word.
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
}

#[test]
fn a_page_does_what_users_do_with_requests_and_nothing_that_widens_what_agents_may_do() {
    let home = Home::playing("turns: []\n");
    let server = Server::start(&home, &[]);
    let mut page = server.page();
    let methods = page.ready["methods"].as_array().unwrap().clone();
    assert!(methods.contains(&json!("roo/approval/respond")) && !methods.contains(&json!("roo/trust/grant")));
    for (method, params) in [
        (
            "initialize",
            json!({ "capabilities": {}, "initializationOptions": { "roo": { "autoApprove": { "write": true } } } }),
        ),
        ("roo/options/didChange", json!({ "options": { "roo": { "autoApprove": { "write": true } } } })),
        ("workspace/executeCommand", json!({ "command": "roo.trust", "arguments": [] })),
        ("roo/trust/grant", json!({})),
        ("roo/profile/save", json!({})),
        ("shutdown", json!({})),
    ] {
        assert_eq!(page.ask(method, params)["error"]["code"], -32601, "{method}");
    }
    let shown = page.request("roo/autoApprove/get", json!({}));
    let write = shown["settings"].as_array().unwrap().iter().find(|item| item["key"] == "write").unwrap();
    assert_eq!(write["value"], false);
    assert_eq!(page.request("roo/trust/get", json!({}))["trusted"], false);
}

#[test]
fn a_request_is_started_and_approved_on_one_page_and_seen_on_another() {
    let home = Home::playing(WRITES);
    home.configure(MODE);
    let server = Server::start(&home, &[]);
    let (mut page, mut other) = (server.page(), server.page());
    other.request("roo/task/attach", json!({ "taskId": "*" }));
    page.request("roo/task/start", json!({ "prompt": "Write <script>alert(1)</script>." }));
    let asked = page.event("approval.requested");
    assert!(!home.work("new.txt").exists());
    assert_eq!(other.event("approval.requested")["approvalId"], asked["approvalId"]);
    assert_eq!(page.allow(&asked)["accepted"], true);
    let resolved = other.event("approval.resolved");
    assert_eq!(resolved["by"], "Browser");
    let late = other.respond(&asked, "reject_once");
    assert_eq!((&late["accepted"], &late["by"]), (&json!(false), &json!("Browser")));
    for page in [&mut page, &mut other] {
        let is_end = |message: &Value| {
            message["method"] == "roo/event" && message["params"]["event"]["state"] == "completed"
        };
        page.wait_for("the end", is_end);
    }
    assert_eq!(std::fs::read_to_string(home.work("new.txt")).unwrap(), "one\n");
    let records = page.request("roo/trace/query", json!({ "limit": 10 }))["records"].clone();
    assert_eq!(records[0]["files"][0]["path"], "new.txt");
    assert_eq!(server.interrupt(), Some(130));
}

#[test]
fn a_page_that_goes_leaves_its_request_at_work_and_finds_it_again() {
    let home = Home::playing(WRITES);
    home.configure(MODE);
    let server = Server::start(&home, &[]);
    let mut page = server.page();
    let task = page.request("roo/task/start", json!({ "prompt": "Write it." }))["taskId"].clone();
    page.event("approval.requested");
    drop(page);
    let mut page = server.page();
    page.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    let asked = page.event("approval.requested");
    page.allow(&asked);
    page.event("tool.finished");
    assert!(home.work("new.txt").exists());
}

#[test]
fn an_editor_opens_the_page_on_its_live_request_and_edits_land_in_its_buffer() {
    let script = "turns:
  - calls: [{ tool: read_file, params: { path: open.txt } }]
  - calls: [{ tool: search_and_replace, params: { path: open.txt, old_string: one, new_string: two } }]
  - calls: [{ tool: attempt_completion, params: { result: Changed. } }]
";
    let home = Home::playing(script);
    home.configure("mode: code\nautoApprove:\n  read: true\n");
    std::fs::write(home.work("open.txt"), "one\n").unwrap();
    let shows = json!({ "capabilities": { "window": { "showDocument": { "support": true } } } });
    let mut editor = Client::start(&home, Options::typed().with(shows));
    let open = editor.open(&home.work("open.txt"), "one\n");
    let task = editor.start_task("Change it.");
    editor.event("approval.requested");
    let opened = editor.command("roo.openInBrowser", json!({ "taskId": task }));
    assert_eq!(opened["shown"], true);
    let shown = editor.seen.iter().find(|message| message["method"] == "window/showDocument").unwrap();
    assert_eq!((&shown["params"]["external"], &shown["params"]["uri"]), (&json!(true), &opened["address"]));
    let opened = opened["address"].as_str().unwrap().to_owned();
    assert!(opened.ends_with(&format!("&task={task}")), "{opened}");

    let (address, ticket) = parts(&opened);
    assert!(address.ip().is_loopback());
    let mut page = Page::open(address, &ticket).unwrap();
    // The address was an argument of the browser: whoever has read it there is too late.
    assert_eq!(Page::open(address, &ticket).err(), Some(401));
    let token = page.ready["token"].as_str().unwrap().to_owned();
    assert!(Page::open(address, &token).is_ok());
    assert_eq!(page.ready["folders"], json!([uri(&home.path("work"))]));
    page.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    let asked = page.event("approval.requested");
    page.allow(&asked);
    let resolved = editor.event("approval.resolved");
    assert_eq!(resolved["event"]["by"], "Browser");
    editor.state("completed");
    assert_eq!(editor.documents[&open].text, "two\n");

    // The same server, another ticket.
    let again = editor.command("roo.openInBrowser", Value::Null);
    let (same, other) = parts(again["address"].as_str().unwrap());
    assert_eq!(same, address);
    assert_ne!(other, ticket);
    assert_eq!(editor.shut_down(), 0);
    // It has ended with its editor.
    assert_eq!(TcpStream::connect(address).unwrap_err().kind(), ErrorKind::ConnectionRefused);
}

#[test]
fn by_the_daemon_a_page_works_on_the_request_of_an_editor() {
    let user = DaemonUser::playing(WRITES);
    user.home.configure(MODE);
    let mut editor = user.typed();
    let task = editor.start_task("Write it.");
    editor.event("approval.requested");
    let server = Server::run(&mut user.command(&["web", "--daemon"]));
    let mut page = server.page();
    page.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    let asked = page.event("approval.requested");
    page.allow(&asked);
    assert_eq!(editor.event("approval.resolved")["event"]["by"], "Browser");
    editor.state("completed");
    assert_eq!(server.interrupt(), Some(130));
}

#[test]
fn only_loopback_addresses_are_listened_at() {
    let home = Home::playing("turns: []\n");
    let output = Command::new(env!("CARGO_BIN_EXE_roo-lsp"))
        .args(["web", "--listen", "0.0.0.0:0"])
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .current_dir(home.path("work"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("other machines"), "{output:?}");
}
