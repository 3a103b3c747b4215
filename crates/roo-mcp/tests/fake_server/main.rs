//! An MCP server over standard input and output that misbehaves on request, for the tests of the hub.
//!
//! `fake-mcp-server [fault]`; see the matches below for the faults.

use std::io::{self, BufRead as _, Write as _};
use std::process::ExitCode;

use serde_json::{Value, json};

fn main() -> ExitCode {
    let fault = std::env::args().nth(1).unwrap_or_default();
    match fault.as_str() {
        "crash" => {
            let _ = writeln!(io::stderr(), "no database");
            return ExitCode::from(3);
        }
        "silent" => loop {
            std::thread::park();
        },
        "garbage" => loop {
            if writeln!(io::stdout(), "Listening on port 3000 \u{1b}[0m").is_err() {
                return ExitCode::SUCCESS;
            }
        },
        "banner" => {
            let _ = writeln!(io::stdout(), "Welcome!\n\n{{\"level\": \"info\"}}");
        }
        "stderr" => {
            for n in 0..20_000 {
                let _ = writeln!(io::stderr(), "line {n} {}", "x".repeat(200));
            }
        }
        _ => {}
    }
    for line in io::stdin().lock().lines() {
        let Ok(message) = line.and_then(|line| Ok(serde_json::from_str::<Value>(&line)?)) else { break };
        answer(&message, &fault);
    }
    if fault == "stubborn" {
        loop {
            std::thread::park();
        }
    }
    ExitCode::SUCCESS
}

fn send(message: &Value) {
    let mut out = io::stdout().lock();
    let _ = serde_json::to_writer(&mut out, message);
    let _ = out.write_all(b"\n");
    let _ = out.flush();
}

fn answer(message: &Value, fault: &str) {
    let id = &message["id"];
    let result = match message["method"].as_str().unwrap_or_default() {
        "initialize" => json!({
            "protocolVersion": "2025-06-18",
            "capabilities": { "tools": {} },
            "serverInfo": { "name": "fake", "version": "1" },
        }),
        "tools/list" => json!({ "tools": tools() }),
        "ping" => json!({}),
        "tools/call" => return call(id, &message["params"], fault),
        _ if id.is_null() => return,
        method => {
            return send(
                &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32601, "message": method } }),
            );
        }
    };
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn tools() -> Value {
    let names = ["echo", "variables", "child", "die", "large"];
    let tool = |name: &str| json!({ "name": name, "description": name, "inputSchema": { "type": "object" } });
    names.into_iter().map(tool).collect()
}

fn call(id: &Value, params: &Value, _fault: &str) {
    let text = match params["name"].as_str().unwrap_or_default() {
        "echo" => params["arguments"]["text"].as_str().unwrap_or_default().to_owned(),
        "variables" => {
            let mut names: Vec<String> =
                std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            names.sort();
            names.join("\n")
        }
        // A process below this one that would go on forever.
        "child" => {
            let child = std::process::Command::new("sleep").arg("1000000").spawn();
            child.map_or_else(|error| error.to_string(), |child| child.id().to_string())
        }
        "die" => std::process::exit(7),
        // A line of 100 MB.
        "large" => {
            let mut out = io::stdout().lock();
            let _ = write!(
                out,
                "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\""
            );
            let piece = "x".repeat(1 << 20);
            for _ in 0..100 {
                let _ = out.write_all(piece.as_bytes());
            }
            let _ = out.write_all(b"\"}]}}\n");
            let _ = out.flush();
            return;
        }
        other => other.to_owned(),
    };
    let content = json!([{ "type": "text", "text": text }]);
    send(&json!({ "jsonrpc": "2.0", "id": id, "result": { "content": content } }));
}
