//! Input that is small to send and large to work on (DOS).

use std::time::{Duration, Instant};

use super::*;

/// More than anything here takes on a busy machine in a build without optimization; the attacks take minutes
/// or all memory.
const SOON: Duration = Duration::from_secs(10);
/// The address space that a call may use, in KiB. Threads reserve much of it.
const SPACE: &str = "ulimit -v 3000000; exec \"$0\" \"$@\"";

/// A tool call within limits of time and memory.
fn bounded(ground: &Ground, tool: &str, params: &str, more: &[&str]) -> Told {
    let mut shell = ground.within(Command::new("/bin/sh"));
    shell.args(["-c", SPACE, env!("CARGO_BIN_EXE_roo-lsp"), "tool", tool, "--params", params]).args(more);
    let begin = Instant::now();
    let told = told(&mut shell);
    let took = begin.elapsed();
    assert!(took < SOON, "{tool} {}: {took:?}", &params[..params.len().min(80)]);
    assert!(told.code.is_some_and(|code| code < 100), "{tool} {}: {told:?}", &params[..params.len().min(80)]);
    told
}

#[test]
fn hostile_expressions_are_refused_or_quick() {
    let ground = Ground::new();
    ground.write("ws/a.txt", &"a".repeat(50_000));
    let search = |regex: &str| {
        bounded(&ground, "search_files", &json!({ "path": ".", "regex": regex }).to_string(), &[])
    };
    for regex in ["(a+)+$", "^(([a-z])+.)+[A-Z]([a-z])+$", "(a|a)*b", "(.*a){20}"] {
        search(regex);
    }
    for regex in
        ["(?=a)b", "(?<!a)b", r"(a)\1", r"(?:(?:\w{1000}){1000})", r"\pL{5000}", &"(a".repeat(20_000)]
    {
        let told = search(regex);
        assert!(told.text.contains("can't be used"), "{}: {told:?}", &regex[..regex.len().min(40)]);
    }
}

#[test]
fn hostile_lists_of_intents_grant_nothing_and_are_refused_quickly() {
    let ground = Ground::writing();
    let bomb: String = (1..10)
        .map(|level| format!("a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 10].join(", ")))
        .collect();
    let entry = "  - { id: INT-1, name: N, status: IN_PROGRESS, owned_scope: ['**'] }\n";
    for (name, text) in [
        ("aliases", format!("a0: &a0 [x, x]\n{bomb}active_intents: *a9\n")),
        ("depth", format!("active_intents: {}", "[".repeat(10_000))),
        ("duplicate keys", format!("active_intents: []\nactive_intents:\n{entry}")),
        ("merge", "a: &a\n  <<: *a\nactive_intents: *a\n".to_owned()),
        ("size", format!("x: {}\nactive_intents:\n{entry}", "x".repeat(50 << 20))),
        ("tabs", "active_intents:\n\t- { id: INT-1 }\n".to_owned()),
        ("garbage", "\u{0}\u{1}".to_owned()),
        ("nothing", String::new()),
    ] {
        ground.write("ws/.orchestration/active_intents.yaml", &text);
        let write = json!({ "path": "x", "content": "x" }).to_string();
        for more in [&["--allow"][..], &["--allow", "--intent", "INT-1"]] {
            let told = bounded(&ground, "write_to_file", &write, more);
            assert_ne!(told.verdict, "allow", "{name}: {told:?}");
        }
        assert!(!ground.at("ws/x").exists(), "{name}");
    }
    // What editors add counts for nothing.
    ground.write(
        "ws/.orchestration/active_intents.yaml",
        &format!("\u{feff}active_intents:\r\n{}", entry.replace('\n', "\r\n")),
    );
    let told = ground.put("x", &["--intent", "INT-1"]);
    assert_eq!(told.verdict, "allow", "{told:?}");
}

#[test]
fn hostile_arguments_are_errors() {
    let ground = Ground::new();
    for params in [
        format!("{{\"path\":{}", "[".repeat(100_000)),
        format!("{{\"path\":{}{}}}", "[".repeat(10_000), "]".repeat(10_000)),
        "{\"path\":1e999}".to_owned(),
        "{\"path\":\"\\ud800\"}".to_owned(),
        "{\"path\":null}".to_owned(),
        "[]".to_owned(),
    ] {
        let told = bounded(&ground, "read_file", &params, &[]);
        assert_ne!(told.code, Some(0), "{}: {told:?}", &params[..params.len().min(40)]);
        assert_ne!(told.verdict, "allow", "{}: {told:?}", &params[..params.len().min(40)]);
    }
}

#[test]
fn giant_files_are_read_in_part_or_refused() {
    let ground = Ground::new();
    fs::File::create(ground.at("ws/sparse.bin")).unwrap().set_len(10 << 30).unwrap();
    fs::File::create(ground.at("ws/sparse.txt")).unwrap().set_len(10 << 30).unwrap();
    fs::write(ground.at("ws/line.txt"), vec![b'x'; 64 << 20]).unwrap();
    fs::write(ground.at("ws/lines.txt"), "x\n".repeat(2_000_000)).unwrap();
    for path in ["sparse.bin", "sparse.txt", "line.txt", "lines.txt"] {
        let told = bounded(&ground, "read_file", &json!({ "path": path }).to_string(), &[]);
        assert!(told.text.len() < 4 << 20, "{path}: {} bytes", told.text.len());
        let insert = json!({ "path": path, "line": 1, "content": "y" }).to_string();
        bounded(&ground, "insert_content", &insert, &[]);
    }
    let told = bounded(&ground, "search_files", r#"{"path":".","regex":"needle"}"#, &[]);
    assert!(told.text.len() < 1 << 20);
}

#[test]
fn a_flood_of_output_is_bounded_and_ended() {
    let ground = Ground::new();
    for line in ["yes", "cat /dev/urandom", "while :; do printf 'x\\r'; done"] {
        let run = json!({ "command": line, "timeout": 1 }).to_string();
        let told = bounded(&ground, "execute_command", &run, &["--allow"]);
        assert!(
            told.text.contains("took longer than 1 s"),
            "{line}: {}",
            &told.text[..told.text.len().min(200)]
        );
        assert!(told.text.len() < 1 << 20, "{line}: {} bytes", told.text.len());
    }
}
