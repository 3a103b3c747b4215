use proptest::prelude::*;
use serde_json::json;

use super::*;

/// What is wrong, as `line:column server: message`.
fn problems(text: &str) -> Vec<String> {
    let shown = |problem: &Problem| {
        let at = problem.start().map(|at| format!("{}:{} ", at.line, at.column)).unwrap_or_default();
        let mark = if problem.severity == Severity::Error { "" } else { "warning: " };
        let (server, message) = parted(&problem.message);
        format!("{at}{server}: {mark}{message}")
    };
    match ParsedServers::parse(text) {
        Ok(parsed) => parsed.problems.iter().map(shown).collect(),
        Err(problem) => vec![shown(&problem)],
    }
}

/// Parts the server's name from a message; `file` where the file as a whole is meant.
fn parted(message: &str) -> (&str, &str) {
    let named = message.strip_prefix("server `").and_then(|rest| rest.split_once("`: "));
    named.unwrap_or(("file", message))
}

fn server(entry: &Value) -> Result<Server, String> {
    let text = json!({ "mcpServers": { "s": entry } }).to_string();
    let mut parsed = ParsedServers::parse(&text).unwrap();
    parsed.servers.pop().ok_or_else(|| parted(&parsed.problems[0].message).1.to_owned())
}

#[test]
fn an_entry_with_everything_is_read() {
    let server = server(&json!({
        "type": "stdio", "command": "node", "args": ["server.js", 1], "cwd": "${workspaceFolder}/tools",
        "env": { "KEY": "${env:MY_KEY}", "PORT": 3000, "DEBUG": true }, "timeout": 5, "disabled": true,
        "alwaysAllow": ["read"], "disabledTools": ["*"], "watchPaths": ["build/index.js"],
    }))
    .unwrap();
    assert_eq!((server.timeout, server.disabled), (Duration::from_secs(5), true));
    assert!(server.always_allow.contains("read") && !server.always_allow.contains("write"));
    assert_eq!(server.disabled_tools, ToolNames::All);
    let Transport::Stdio(stdio) = server.transport else { panic!("not stdio") };
    let env: Vec<String> = stdio.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
    assert_eq!(env, ["DEBUG=true", "KEY=${env:MY_KEY}", "PORT=3000"]);
    assert_eq!(stdio.args.iter().map(Template::to_string).collect::<Vec<_>>(), ["server.js", "1"]);
    assert_eq!(stdio.directory.unwrap().to_string(), "${workspaceFolder}/tools");
    assert_eq!(stdio.watched.len(), 1);
}

#[test]
fn the_ways_to_reach_a_server_are_told_apart() {
    let url = "https://example.com/mcp";
    let transport = |entry: Value| {
        server(&entry).map(|server| match server.transport {
            Transport::Stdio(_) => "stdio",
            Transport::StreamableHttp(_) => "streamable-http",
            Transport::Sse(_) => "sse",
        })
    };
    assert_eq!(transport(json!({ "command": "x" })), Ok("stdio"));
    assert_eq!(transport(json!({ "type": "streamable-http", "url": url })), Ok("streamable-http"));
    assert_eq!(transport(json!({ "type": "http", "url": url })), Ok("streamable-http"));
    assert_eq!(transport(json!({ "type": "sse", "url": url })), Ok("sse"));
    assert_eq!(transport(json!({ "url": url })), Ok("streamable-http"));
    assert_eq!(transport(json!({ "url": "http://localhost:3001/sse/?a=b" })), Ok("sse"));
    for (entry, problem) in [
        (json!({}), "expected `command` for a program to start"),
        (json!({ "type": "stdio" }), "expected `command` for a program to start"),
        (json!({ "type": "sse", "command": "x" }), "a server with `command` has the type `stdio`"),
        (json!({ "type": "stdio", "url": url }), "a server with `url` has the type"),
        (json!({ "command": "x", "url": url }), "`command` and `url` exclude each other"),
        (json!({ "command": "x", "headers": { "a": "b" } }), "`headers` belong to servers with a `url`"),
        (json!({ "type": "sse", "url": url, "args": ["x"] }), "`args` belongs to servers with a `command`"),
        (json!({ "type": "sse", "url": "file:///etc/passwd" }), "`url` must begin with"),
        (json!({ "type": "sse", "url": "" }), "`url` must begin with"),
        (json!({ "command": "  " }), "`command` is empty"),
        (
            json!({ "command": "x", "env": { "A=B": "c" } }),
            "`A=B` is not the name of an environment variable",
        ),
        (json!({ "command": ["x"] }), "`command` must be a string"),
        (json!({ "command": "x", "args": [[]] }), "`args[0]` must be a string"),
        (json!({ "command": "x", "alwaysAllow": [1] }), "`alwaysAllow[0]` must be a string"),
        (json!({ "type": "websocket", "url": url }), "`type`: unknown variant `websocket`, expected one of"),
        (json!("npx"), "expected an object with `command` or `url`"),
    ] {
        let message = server(&entry).unwrap_err();
        assert!(message.starts_with(problem), "{entry}: {message}");
    }
}

#[test]
fn problems_name_their_place_and_leave_the_others_alone() {
    let text = r#"{
  "mcpServers": {
    "good": { "command": "x" }, // used
    "bad": {
      "command": "x",
      "timeuot": 5,
      "timeout": 60000,
      "args": ["${API_KEY}"],
    },
    "worse": { "command": "x", "args": "one two" },
  }
}"#;
    assert_eq!(
        problems(text),
        [
            "6:7 bad: warning: unknown key `timeuot`, ignored; did you mean `timeout`?",
            "7:18 bad: warning: `timeout` is in seconds, from 1 to 3600; 3600 is used",
            "8:16 bad: warning: `${API_KEY}` is passed on unchanged; for the environment variable write \
             `${env:API_KEY}`",
            "10:40 worse: `args` must be a list",
        ]
    );
    let parsed = ParsedServers::parse(text).unwrap();
    assert_eq!(parsed.servers.iter().map(|server| server.name.as_str()).collect::<Vec<_>>(), ["good", "bad"]);
}

#[test]
fn a_broken_file_says_what_to_do() {
    assert_eq!(problems(""), [""; 0]);
    assert_eq!(problems("// later\n"), [""; 0]);
    assert_eq!(problems("{\"mcpServers\": {}}"), [""; 0]);
    assert_eq!(problems("{"), ["1:1 file: EOF while parsing an object"]);
    assert_eq!(problems("[]"), ["file: expected an object with the key `mcpServers`"]);
    assert_eq!(
        problems("{\"mcpservers\": {}}"),
        ["1:2 file: unknown key `mcpservers`; did you mean `mcpServers`?"]
    );
    assert_eq!(
        problems("{\n\"mcpServers\": []}"),
        ["2:15 file: `mcpServers` must be an object with servers by name"]
    );
    let twice = problems(r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#);
    assert!(twice[0].contains("duplicate key 'a'"), "{twice:?}");
    assert!(problems(&" ".repeat(FILE_LIMIT + 1))[0].contains("more than 1048576 bytes"));
}

#[test]
fn names_that_can_be_mistaken_are_refused() {
    for name in ["", " ", "a\u{200b}b", "a\nb", &"x".repeat(101)] {
        let text = json!({ "mcpServers": { name: { "command": "x" } } }).to_string();
        let parsed = ParsedServers::parse(&text).unwrap();
        assert!(parsed.servers.is_empty() && parsed.problems.len() == 1, "{name:?}");
    }
    for name in ["oraios/serena", "Local Files", "größe"] {
        let text = json!({ "mcpServers": { name: { "command": "x" } } }).to_string();
        assert_eq!(ParsedServers::parse(&text).unwrap().servers.len(), 1, "{name:?}");
    }
}

#[test]
fn a_file_of_nothing_but_problems_reports_a_bounded_number() {
    let servers: serde_json::Map<String, Value> =
        (0..90).map(|n| (format!("s{n}"), json!({ "x": 1 }))).collect();
    let parsed = ParsedServers::parse(&json!({ "mcpServers": servers }).to_string()).unwrap();
    assert_eq!(parsed.problems.len(), PROBLEMS_LIMIT + 1);
    assert_eq!(parsed.problems.last().unwrap().message, "and 130 more problems in this file");
    let servers: serde_json::Map<String, Value> =
        (0..200).map(|n| (format!("s{n}"), json!({ "command": "x" }))).collect();
    let parsed = ParsedServers::parse(&json!({ "mcpServers": servers }).to_string()).unwrap();
    assert_eq!((parsed.servers.len(), parsed.problems.len()), (SERVERS_LIMIT, 1));
}

/// Entries as they are found in public repositories, and what is said of each.
#[test]
fn common_entries_load_or_are_explained() {
    let url = "https://mcp.example.com/mcp";
    let home = "/home/u/app";
    let entries: [(Value, &[&str]); 24] = [
        (json!({ "command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"] }), &[]),
        (
            json!({ "command": "uvx", "args": ["mcp-server-git", "--repository", home], "alwaysAllow": [] }),
            &[],
        ),
        (json!({ "command": "docker", "args": ["run", "-i", "--rm", "mcp/fetch"], "disabled": false }), &[]),
        (
            json!({ "command": "npx", "args": ["s"], "env": { "KEY": "literal" }, "alwaysAllow": ["a", "b"] }),
            &[],
        ),
        (
            json!({ "type": "stdio", "command": "uvx", "args": ["markitdown-mcp==0.0.1a4"], "disabled": true }),
            &[],
        ),
        (json!({ "command": "/home/u/target/debug/st", "args": ["--mcp"], "env": {} }), &[]),
        (json!({ "command": "npx", "args": ["s"], "env": { "MINIMUM": "6000" }, "timeout": 60 }), &[]),
        (json!({ "command": "npx", "args": ["s", "${workspaceFolder}"] }), &[]),
        (json!({ "command": "npx", "args": ["s"], "env": { "TOKEN": "${env:TOKEN}" } }), &[]),
        (
            json!({ "command": "node", "args": ["build/index.js"], "cwd": "tools", "watchPaths": ["build"] }),
            &[],
        ),
        (json!({ "command": "npx", "args": ["s"], "disabledTools": ["write"], "alwaysAllow": ["*"] }), &[]),
        (json!({ "type": "streamable-http", "url": url, "disabled": false, "alwaysAllow": ["ask"] }), &[]),
        (
            json!({ "type": "streamable-http", "url": url, "headers": { "Authorization": "Bearer ${env:T}" } }),
            &[],
        ),
        (json!({ "type": "sse", "url": "http://localhost:3001/sse" }), &[]),
        (json!({ "type": "http", "url": url }), &[]),
        (
            json!({ "url": "http://localhost:3001/sse" }),
            &["`type` is missing; `\"type\": \"sse\"` is assumed"],
        ),
        (json!({ "url": url }), &["`type` is missing; `\"type\": \"streamable-http\"` is assumed"]),
        (json!({ "type": "streamable-http", "url": url, "note": "local" }), &["unknown key `note`, ignored"]),
        (json!({ "command": "npx", "args": ["s"], "description": "search" }), &["unknown key `description`"]),
        (
            json!({ "command": "npx", "args": ["s"], "env": { "K": "${K}" } }),
            &["`${K}` is passed on unchanged"],
        ),
        (json!({ "command": "docker run --rm -i s", "args": [] }), &["`command` names one program"]),
        (json!({ "command": "npx", "args": ["s"], "timeout": 120_000 }), &["`timeout` is in seconds"]),
        (
            json!({ "command": "npx", "args": ["s"], "autoApprove": ["a"] }),
            &["unknown key `autoApprove`, ignored"],
        ),
        (json!({ "command": "C:\\Python\\python.exe", "args": ["C:\\s\\main.py", "--mode", "stdio"] }), &[]),
    ];
    for (entry, expected) in entries {
        let text = json!({ "mcpServers": { "s": entry } }).to_string();
        let parsed = ParsedServers::parse(&text).unwrap();
        assert_eq!(parsed.servers.len(), 1, "{entry}: {:?}", parsed.problems);
        assert_eq!(parsed.problems.len(), expected.len(), "{entry}: {:?}", parsed.problems);
        for (problem, expected) in parsed.problems.iter().zip(expected) {
            assert!(parted(&problem.message).1.starts_with(expected), "{entry}: {}", problem.message);
        }
    }
}

#[test]
fn the_schema_describes_what_is_read() {
    let schema = super::super::schema();
    let text = schema.to_string();
    let keys = DECLARATION.at(&["mcpServers", "any"].map(|key| Step::Key(key.to_owned()))).unwrap().keys();
    for key in &keys {
        assert!(text.contains(&format!("\"{}\"", key.name)) && !key.about.is_empty(), "{key:?}");
    }
    assert_eq!(keys.len(), 15);
    assert!(text.contains("\"streamable-http\""), "{text}");
}

#[test]
fn debug_output_has_no_secrets() {
    let secret = json!({ "command": "x", "args": ["sk-1"], "env": { "KEY": "sk-2" } });
    let entry: ServerEntry = serde_json::from_value(secret.clone()).unwrap();
    let shown = format!("{entry:?} {:?}", server(&secret).unwrap());
    assert!(!shown.contains("sk-"), "{shown}");
}

proptest! {
    #[test]
    fn no_text_is_too_strange(text in r#"(\{|\}|"mcpServers"|"a"|"command"|"x"|"args"|"url"|:|,|\[|\]|1|null|//|\n){0,30}"#) {
        let _ = ParsedServers::parse(&text);
    }

    #[test]
    fn what_is_written_is_read_back(
        command in "[a-z]{1,8}", args in proptest::collection::vec("\\PC{0,10}", 0..4),
        timeout in proptest::option::of(1_u64..=3600), disabled: bool,
    ) {
        let entry = ServerEntry { command: Some(command), args, timeout, disabled, ..ServerEntry::default() };
        let list = ServerList { mcp_servers: [("s".to_owned(), entry.clone())].into() };
        let text = serde_json::to_string_pretty(&list).unwrap();
        prop_assert_eq!(&serde_json::from_str::<ServerList>(&text).unwrap(), &list);
        let parsed = ParsedServers::parse(&text).unwrap();
        prop_assert_eq!(parsed.servers.len(), 1);
        let Transport::Stdio(stdio) = &parsed.servers[0].transport else { panic!("not stdio") };
        let args: Vec<String> = stdio.args.iter().map(Template::to_string).collect();
        prop_assert_eq!(args, entry.args);
    }

    #[test]
    fn every_problem_has_a_place(key in "[a-z]{1,8}", value in proptest::sample::select(vec!["1", "null", "[]", "\"x\""])) {
        let text = format!("{{\"mcpServers\": {{\"s\": {{\"{key}\": {value}}}}}}}");
        let parsed = ParsedServers::parse(&text).unwrap();
        prop_assert!(parsed.problems.iter().all(|problem| problem.range.is_some()));
    }
}
