//! Hooks of the user's own that run toolchains: in the sandbox they find what commands find.

use std::io::Write as _;

use super::*;

#[test]
#[ignore = "needs Python, Node.js, curl or a compiler; ./scripts/test runs it"]
fn a_hook_runs_formatters_package_managers_and_git_as_a_command_does() {
    let workshop = Workshop::new(&[
        ("Cargo.toml", "[package]\nname = \"x\"\nversion = \"0.1.0\"\nedition = \"2024\"\n"),
        ("src/main.rs", "fn main(){}\n"),
        ("~/.npmrc", "registry=http://127.0.0.1:9/\n//127.0.0.1:9/:_authToken=npm_secret1\n"),
        ("~/.cache/tool/kept", "kept\n"),
    ])
    .with("cargo")
    .with("npm");
    workshop.shell_in("agent", "git init -q");
    let line = "cargo fmt && npm config get registry > registry.txt && git status --short > status.txt && \
                cat ~/.cache/tool/kept > kept.txt && touch ~/.cache/tool/new && ! grep -s npm_secret ~/.npmrc";
    let hook = serde_json::json!({ "type": "command", "command": line });
    let hooks = serde_json::json!({ "hooks": { "PostToolUse": [{ "hooks": [hook] }] } });
    workshop.write("home", ".config/roo-lsp/hooks.json", &hooks.to_string());
    workshop.hand_over();
    let mut program = workshop.start(env!("CARGO_BIN_EXE_roo-lsp"), "agent");
    program.args(["hooks", "run", "PostToolUse"]);
    let mut child =
        program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let event = serde_json::json!({ "tool_name": "Write", "tool_input": { "file_path": "src/main.rs" } });
    child.stdin.take().unwrap().write_all(event.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let told =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(workshop.at("agent").join(name)).unwrap_or_default();
    assert_eq!(read("src/main.rs"), "fn main() {}\n", "{told}");
    assert_eq!(
        (read("registry.txt").as_str(), read("kept.txt").as_str()),
        ("http://127.0.0.1:9/\n", "kept\n"),
        "{told}"
    );
    assert!(read("status.txt").contains("?? src/"), "{told}");
    // What a tool keeps is in a layer, and the user's own is as it was.
    assert_eq!(names(&workshop.at("home/.cache/tool")), ["kept"]);
    assert!(output.status.success() && !told.contains("npm_secret1"), "{told}");
}
