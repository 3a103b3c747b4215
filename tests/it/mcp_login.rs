//! Logins to MCP servers as their users meet them: the real program, a server that is its own authorization server, and a
//! browser and a keyring that are scripts of the test.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::models::KEYRING;
use crate::support::client::{Client, Home, Options, eventually};
use crate::support::project::Project;

/// A server on the loopback that lets nobody in without a token, and gives tokens to whoever asks for them in the right way.
struct LoginServer {
    address: SocketAddr,
    known: Arc<Mutex<Known>>,
}

#[derive(Default)]
struct Known {
    /// The tokens that are good.
    access: String,
    refresh: String,
    given: usize,
    /// The paths of all requests.
    paths: Vec<String>,
}

impl LoginServer {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let known: Arc<Mutex<Known>> = Arc::default();
        let this = Arc::clone(&known);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let known = Arc::clone(&this);
                thread::spawn(move || serve(stream, address, &known));
            }
        });
        Self { address, known }
    }

    fn configuration(&self) -> String {
        json!({ "mcpServers": { "notes": { "type": "streamable-http", "url": self.url() } } }).to_string()
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    fn was_asked_for(&self, path: &str) -> bool {
        self.known.lock().unwrap().paths.iter().any(|asked| asked.starts_with(path))
    }
}

/// Answers one request; the client may go at any time.
fn serve(stream: TcpStream, address: SocketAddr, known: &Mutex<Known>) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|&read| read > 0)?;
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let header = |name: &str| {
        let is_it = |line: &&String| line.to_lowercase().starts_with(&format!("{name}: "));
        head.iter().find(is_it).map(|line| line[name.len() + 2..].to_owned())
    };
    let mut body = vec![0; header("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body).ok()?;
    let path = head[0].split(' ').nth(1)?.to_owned();
    let answer = answered(&path, &String::from_utf8_lossy(&body), header("authorization"), address, known);
    (&stream).write_all(format!("HTTP/1.1 {answer}").as_bytes()).ok()
}

/// An answer from its status on.
fn answered(
    path: &str,
    body: &str,
    authorization: Option<String>,
    address: SocketAddr,
    known: &Mutex<Known>,
) -> String {
    let own = format!("http://{address}");
    let mut known = known.lock().unwrap();
    known.paths.push(path.to_owned());
    let found = |value: Value| {
        let text = value.to_string();
        let head = format!("200 OK\r\ncontent-type: application/json\r\ncontent-length: {}", text.len());
        format!("{head}\r\nconnection: close\r\n\r\n{text}")
    };
    let empty = |status: &str, header: &str| {
        format!("{status}\r\n{header}content-length: 0\r\nconnection: close\r\n\r\n")
    };
    match path.split('?').next().unwrap() {
        "/.well-known/oauth-protected-resource/mcp" => {
            found(json!({ "resource": format!("{own}/mcp"), "authorization_servers": [own] }))
        }
        "/.well-known/oauth-authorization-server" => found(json!({
            "issuer": own, "authorization_endpoint": format!("{own}/authorize"),
            "token_endpoint": format!("{own}/token"), "registration_endpoint": format!("{own}/register"),
            "code_challenge_methods_supported": ["S256"],
        })),
        "/register" => found(json!({ "client_id": "client-1" })),
        "/authorize" => {
            let target =
                format!("{}?code=code-1&state={}", field(path, "redirect_uri"), field(path, "state"));
            empty("302 Found", &format!("location: {target}\r\n"))
        }
        "/token" => {
            let is_good = match field(&format!("?{body}"), "grant_type").as_str() {
                "authorization_code" => field(&format!("?{body}"), "code") == "code-1",
                _ => field(&format!("?{body}"), "refresh_token") == known.refresh,
            };
            if !is_good {
                return empty("400 Bad Request", "");
            }
            known.given += 1;
            known.access = format!("access-token-{}", known.given);
            known.refresh = format!("refresh-token-{}", known.given);
            found(json!({
                "access_token": known.access, "refresh_token": known.refresh, "token_type": "Bearer",
            }))
        }
        "/mcp" if !known.access.is_empty() && authorization == Some(format!("Bearer {}", known.access)) => {
            let message: Value = serde_json::from_str(body).unwrap_or_default();
            let id = &message["id"];
            let result = match message["method"].as_str().unwrap_or_default() {
                "initialize" => json!({
                    "protocolVersion": "2025-06-18", "capabilities": { "tools": {} },
                    "serverInfo": { "name": "notes", "version": "1" },
                }),
                "tools/list" => json!({ "tools": [{ "name": "echo", "inputSchema": { "type": "object" } }] }),
                _ if id.is_null() && !body.is_empty() => return empty("202 Accepted", ""),
                _ if id.is_null() => return empty("405 Method Not Allowed", ""),
                _ => {
                    let error = json!({ "code": -32601, "message": "unknown" });
                    return found(json!({ "jsonrpc": "2.0", "id": id, "error": error }));
                }
            };
            found(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
        }
        "/mcp" => empty("401 Unauthorized", "www-authenticate: Bearer\r\n"),
        _ => empty("404 Not Found", ""),
    }
}

/// A field of an address's query.
fn field(address: &str, name: &str) -> String {
    let query = address.split_once('?').map_or("", |(_, query)| query);
    let value =
        query.split('&').find_map(|pair| pair.strip_prefix(name)?.strip_prefix('=')).unwrap_or_default();
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        rest = more;
        if byte == b'%' {
            let digits = std::str::from_utf8(&more[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &more[2..];
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

/// Gets a page as a browser does: follows redirects.
fn browse(address: &str) -> String {
    let (host, path) = address.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    match page.lines().find_map(|line| line.strip_prefix("location: ")) {
        Some(target) => browse(target.trim()),
        None => page,
    }
}

/// Puts programs into a directory, and returns a `PATH` that has it alone before the system's.
fn programs(directory: &Path, programs: &[(&str, &str)]) -> String {
    fs::create_dir_all(directory).unwrap();
    for (name, text) in programs {
        fs::write(directory.join(name), text).unwrap();
        fs::set_permissions(directory.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    }
    format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
}

/// A browser that leaves the address for the test.
const BROWSER: &str = r#"#!/bin/sh
printf '%s' "$1" >"$(dirname "$0")/part" && mv "$(dirname "$0")/part" "$(dirname "$0")/opened"
"#;

/// All files below a directory that hold a text.
fn holding(directory: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = vec![];
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(holding(&path, text));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap_or_default()).contains(text) {
            found.push(path);
        }
    }
    found
}

/// Runs a login that prints the address for the browser alone; what it prints to standard output.
fn log_in(mut program: Command) -> String {
    program.args(["mcp", "login", "notes", "--file", "--no-browser"]);
    let mut child = program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut told = vec![];
    for line in lines {
        if let Some(address) = line.strip_prefix("  http://") {
            let page = browse(&format!("http://{address}"));
            assert!(page.contains("You can close this page"), "{page}");
        }
        told.push(line);
    }
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{told:?}");
    assert!(!told.join("\n").contains("-token-"), "{told:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_user_logs_in_in_the_browser_and_the_tokens_are_in_the_keyring() {
    let server = LoginServer::start();
    let project = Project::new(&[]);
    fs::write(project.beside("config/roo-lsp/mcp.json"), server.configuration()).unwrap();
    let path = programs(
        &project.beside("bin"),
        &[("secret-tool", KEYRING), ("xdg-open", BROWSER), ("open", BROWSER)],
    );
    let run = |arguments: &[&str]| {
        let output = project.program().env("PATH", &path).args(arguments).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let needs = "notes (user): needs login";
    let (listed, _) = run(&["mcp", "list"]);
    assert!(listed.contains(needs) && listed.contains("run `roo-lsp mcp login notes`"), "{listed}");
    let (report, _) = run(&["doctor"]);
    let line = report.lines().find(|line| line.contains("MCP server notes")).unwrap();
    assert!(line.contains("needs login: run `roo-lsp mcp login notes`"), "{line}");

    let mut login = project.program();
    login.env("PATH", &path).args(["mcp", "login", "notes"]);
    let login = login.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the browser", || project.beside("bin/opened").exists());
    let opened = fs::read_to_string(project.beside("bin/opened")).unwrap();
    assert!(opened.starts_with(&format!("http://{}/authorize?", server.address)), "{opened}");
    browse(&opened);
    let output = login.wait_with_output().unwrap();
    let told = format!("{output:?}");
    assert!(output.status.success(), "{told}");
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed, "notes: logged in; the tokens are in the keyring\n");
    assert!(told.contains(&format!("authorization server: http://{}", server.address)), "{told}");
    assert!(!told.contains("-token-"), "{told}");
    let kept = || holding(project.beside("bin").parent().unwrap(), "-token-");
    let [keyring] = kept().try_into().unwrap();
    assert!(keyring.file_name().unwrap().to_str().unwrap().starts_with("keyring-service"), "{keyring:?}");
    assert!(run(&["mcp", "list"]).0.contains("notes (user): connected"));

    // What the server does not take any more is refreshed, and what comes of that is kept.
    server.known.lock().unwrap().access = "revoked".to_owned();
    assert!(run(&["mcp", "list"]).0.contains("notes (user): connected"));
    assert!(fs::read_to_string(&keyring).unwrap().contains("refresh-token-2"));
    server.known.lock().unwrap().access = "revoked".to_owned();
    server.known.lock().unwrap().refresh = "revoked".to_owned();
    let (listed, _) = run(&["mcp", "list"]);
    assert!(listed.contains(needs) && listed.contains("it can't be refreshed"), "{listed}");

    let (printed, _) = run(&["mcp", "logout", "notes"]);
    assert!(printed.starts_with("notes: logged out"), "{printed}");
    assert_eq!(kept(), Vec::<PathBuf>::new());
    assert_eq!(run(&["mcp", "logout", "notes"]).0, "notes: there was no login\n");
}

#[test]
fn without_a_keyring_nothing_is_opened_and_a_file_is_for_those_who_ask_for_it() {
    let server = LoginServer::start();
    let project = Project::new(&[]);
    fs::write(project.beside("config/roo-lsp/mcp.json"), server.configuration()).unwrap();
    programs(&project.beside("bin"), &[("xdg-open", BROWSER), ("open", BROWSER)]);
    let program = || {
        let mut program = project.program();
        program.env("PATH", project.beside("bin"));
        program
    };
    let output = program().args(["mcp", "login", "notes"]).output().unwrap();
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && told.contains("the keyring can't be used"), "{told}");
    assert!(told.contains("--file keeps the tokens"), "{told}");
    assert!(server.known.lock().unwrap().paths.is_empty());

    let printed = log_in(program());
    let [file] = holding(&project.beside("state"), "-token-").try_into().unwrap();
    assert!(printed.contains(&format!("{} (mode 0600)", file.display())), "{printed}");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(!project.beside("bin/opened").exists());
    assert!(project.succeed(&["mcp", "list"]).contains("notes (user): connected"));

    // Another address under the same name, and the same one in a workspace, have nothing of it.
    let own = project.beside("config/roo-lsp/mcp.json");
    fs::write(&own, server.configuration().replace("/mcp", "/mcp?team=2")).unwrap();
    let listed = String::from_utf8(project.run(&["mcp", "list"]).stdout).unwrap();
    assert!(listed.contains("notes (user): needs login"), "{listed}");
    fs::write(&own, server.configuration()).unwrap();
    project.write(".roo/mcp.json", &server.configuration());
    project.succeed(&["trust"]);
    let refused = project.run(&["mcp", "login", "notes", "--file"]);
    let told = String::from_utf8(refused.stderr).unwrap();
    assert!(told.contains("it waits for your approval"), "{told}");
    project.succeed(&["trust", "--approve", ".roo/mcp.json"]);
    let listed = String::from_utf8(project.run(&["mcp", "list"]).stdout).unwrap();
    assert!(listed.contains("notes (workspace): needs login"), "{listed}");

    // A login can be removed when its server is gone.
    fs::remove_file(project.folder().join(".roo/mcp.json")).unwrap();
    let removed = project.run(&["mcp", "remove", "notes"]);
    let told = String::from_utf8(removed.stderr).unwrap();
    assert!(told.contains("its login is kept; roo-lsp mcp logout notes removes it"), "{told}");
    assert!(project.succeed(&["mcp", "logout", "notes"]).starts_with("notes: logged out"));
    assert_eq!(holding(&project.beside("state"), "-token-"), Vec::<PathBuf>::new());
    assert!(!project.run(&["mcp", "logout", "notes"]).status.success(), "there is no such server any more");
}

#[test]
fn a_server_that_is_configured_with_a_header_or_is_a_program_has_no_login() {
    let server = LoginServer::start();
    let project = Project::new(&[]);
    let servers = json!({ "mcpServers": {
        "header": { "type": "streamable-http", "url": server.url(), "headers": { "authorization": "Bearer x" } },
        "program": { "command": "x" },
    } });
    fs::write(project.beside("config/roo-lsp/mcp.json"), servers.to_string()).unwrap();
    for (name, reason) in [
        ("header", "sets its header `Authorization`"),
        ("program", "it is a program"),
        ("other", "there is no MCP server 'other' here: header, program"),
    ] {
        let output = project.run(&["mcp", "login", name, "--file"]);
        let told = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && told.contains(reason), "{told}");
    }
    assert!(!server.was_asked_for("/"));
}

#[test]
fn a_running_server_takes_a_login_that_is_made_in_a_terminal() {
    let server = LoginServer::start();
    let home = Home::new();
    fs::write(home.path("config/roo-lsp/mcp.json"), server.configuration()).unwrap();
    let mut client = Client::start(&home, Options::typed());
    let mut state = |wanted: &str| {
        eventually(wanted, || {
            let listed = client.request("roo/mcp/list", json!({}));
            listed["servers"][0]["state"] == wanted
        });
    };
    state("needsLogin");
    let mut program = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
    program.env_clear().env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", home.path("home"));
    program.env("XDG_CONFIG_HOME", home.path("config")).env("XDG_STATE_HOME", home.path("state"));
    program.current_dir(home.work("")).stdin(Stdio::null());
    log_in(program);
    state("connected");
    assert_eq!(client.shut_down(), 0);
}
