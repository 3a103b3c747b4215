//! The server over HTTP: for those who know the token, on this machine, and for no page of a browser.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Stdio};

use super::{playing, untrusted};
use crate::support::client::DEADLINE;
use crate::support::project::Project;

const TOKEN: &str = "a-token-of-the-test-alone";
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

/// A server over HTTP.
pub(super) struct Server {
    process: Child,
    pub(super) address: SocketAddr,
    pub(super) token: String,
    /// What it has said before it served.
    said: String,
}

impl Server {
    /// With the token in its environment, or one of its own.
    pub(super) fn start(project: &Project, token: Option<&str>) -> Self {
        let mut command = project.program();
        command.args(["mcp", "serve", "--http", "127.0.0.1:0"]).stderr(Stdio::piped());
        if let Some(token) = token {
            command.env("ROO_LSP_MCP_TOKEN", token);
        }
        let mut process = command.spawn().unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        let address = loop {
            let mut line = String::new();
            assert!(errors.read_line(&mut line).unwrap() > 0, "it ends: {said}");
            said.push_str(&line);
            if let Some((_, url)) = line.trim().split_once("serving MCP at http://") {
                break url.strip_suffix("/mcp").unwrap().parse().unwrap();
            }
        };
        let printed = said.split_once("Authorization: Bearer ").map(|(_, rest)| rest.lines().next().unwrap());
        let token = token.or(printed).unwrap().to_owned();
        Self { process, address, token, said }
    }

    /// Posts `initialize` to a path with these headers, and returns the answer's status and text.
    fn post(&self, path: &str, headers: &[(&str, &str)]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        let mut request = format!("POST {path} HTTP/1.1\r\nConnection: close\r\n");
        let usual = [
            ("Host", format!("{}", self.address)),
            ("Content-Type", "application/json".to_owned()),
            ("Accept", "application/json, text/event-stream".to_owned()),
            ("Content-Length", INITIALIZE.len().to_string()),
        ];
        let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        let usual =
            usual.iter().filter(|(name, _)| !given(name)).map(|(name, value)| (*name, value.as_str()));
        for (name, value) in usual.chain(headers.iter().copied()) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(stream, "{request}\r\n{INITIALIZE}").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn only_who_knows_the_token_is_served_and_no_page_of_a_browser() {
    let project = playing("turns: []\n");
    let server = Server::start(&project, Some(TOKEN));
    assert!(!server.said.contains(TOKEN), "it is not told again: {}", server.said);
    let bearer = format!("Bearer {TOKEN}");
    let right = ("Authorization", bearer.as_str());
    let own = format!("http://{}", server.address);
    for (path, headers, expected) in [
        ("/mcp", vec![], 401),
        ("/mcp", vec![("Authorization", "Bearer another-token-of-the-test")], 401),
        ("/", vec![], 401),
        ("/", vec![right], 404),
        ("/mcp", vec![right, ("Host", "evil.example")], 403),
        ("/mcp", vec![right, ("Origin", "http://evil.example")], 403),
        ("/mcp", vec![right, ("Origin", "null")], 403),
        ("/mcp", vec![right, ("Origin", "http://localhost:1")], 403),
        ("/mcp", vec![right, ("Origin", own.as_str())], 200),
        ("/mcp", vec![right], 200),
    ] {
        let (status, answer) = server.post(path, &headers);
        assert_eq!(status, expected, "{path} {headers:?}: {answer}");
        assert_eq!(status == 200, answer.contains("serverInfo"), "{answer}");
    }
}

#[test]
fn a_token_is_made_where_none_is_given() {
    let project = untrusted("turns: []\n");
    let server = Server::start(&project, None);
    assert!(server.token.len() >= 32, "{}", server.said);
    let bearer = format!("Bearer {}", server.token);
    assert_eq!(server.post("/mcp", &[("Authorization", &bearer)]).0, 200);
}

#[test]
fn other_machines_and_short_tokens_are_refused() {
    let project = untrusted("turns: []\n");
    for (address, token, words) in [
        ("0.0.0.0:0", TOKEN, "can be reached from other machines"),
        ("192.0.2.1:80", TOKEN, "can be reached from other machines"),
        ("127.0.0.1:0", "short", "ROO_LSP_MCP_TOKEN is shorter than 16 bytes"),
        ("127.0.0.1:0", "", "ROO_LSP_MCP_TOKEN is shorter than 16 bytes"),
    ] {
        let mut program = project.program();
        program.args(["mcp", "serve", "--http", address]).env("ROO_LSP_MCP_TOKEN", token);
        let output = program.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
}
