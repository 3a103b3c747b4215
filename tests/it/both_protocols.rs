//! Tools that no test of a topic calls, through the real server, in both protocols.

use std::fs;

use serde_json::json;

use crate::support::client::{Client, Home, Options};

const SCRIPT: &str = r#"
turns:
  - calls: [{ tool: select_active_intent, params: { intent_id: INT-001 } }]
  - when: { contains: "<intent_context>", status: ok }
    calls: [{ tool: fetch_instructions, params: { task: create_mode } }]
  - when: { contains: "customModes:", status: ok }
    calls: [{ tool: write_to_file, params: { path: src/a.rs, content: "//! Areas.\n\nfn area() {}\n\nfn width() {}\n" } }]
  - when: { contains: "<operation>created</operation>" }
    calls: [{ tool: edit_file, params: { file_path: src/a.rs, old_string: "area()", new_string: "area(side: u32)" } }]
  - when: { contains: "<operation>modified</operation>" }
    calls: [{ tool: insert_content, params: { path: src/a.rs, line: 0, content: "fn last() {}" } }]
  - when: { contains: "<operation>modified</operation>" }
    calls: [{ tool: view_diff, params: { path: src/a.rs } }]
  - when: { contains: ["+fn area(side: u32) {}", "+fn last() {}"], status: ok }
    calls: [{ tool: run_slash_command, params: { command: /deploy, args: staging } }]
  - when: { contains: ["Command: /deploy", "Provided arguments: staging", "Deploy to staging."], status: ok }
    calls: [{ tool: request_scope_expansion, params: { patterns: "docs/**", reason: "The page is there." } }]
  - when: { contains: "docs/**", status: ok }
    calls: [{ tool: write_to_file, params: { path: docs/a.md, content: "A page.\n" } }]
  - when: { contains: "<operation>created</operation>" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

const INTENTS: &str = "active_intents:
  - id: INT-001
    name: Areas
    status: IN_PROGRESS
    owned_scope: [\"src/**\"]
";

#[test]
fn what_tools_answer_is_the_same_however_they_are_called() {
    for protocol in ["native", "xml"] {
        let home = Home::playing(SCRIPT);
        let script = home.path("script.yaml");
        let settings = format!(
            "mode: code\nautoApprove: {{ write: true }}\nprofiles:\n  default: {{ provider: scripted, script: {}, toolProtocol: \
             {protocol}, includedTools: [edit_file, view_diff, run_slash_command, insert_content] }}\n",
            script.display()
        );
        fs::write(home.config_file(), settings).unwrap();
        for (name, text) in [
            (".orchestration/active_intents.yaml", INTENTS),
            (".roo/commands/deploy.md", "---\nargument-hint: <host>\n---\nDeploy to $1.\n"),
            ("src/b.rs", "fn other() {}\n"),
        ] {
            let path = home.work(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut client = Client::start(&home, Options::typed());
        client.request("roo/trust/grant", json!({}));
        client.start_task("Give the area a side.");
        let asked = client.titles_until_completed(|_| "allow_once");
        assert!(
            asked.iter().any(|title| title.contains("Let INT-001 cover docs/**")),
            "{protocol}: {asked:?}"
        );
        let read = |name: &str| fs::read_to_string(home.work(name)).unwrap();
        let expected = "//! Areas.\n\nfn area(side: u32) {}\n\nfn width() {}\nfn last() {}\n";
        assert_eq!(read("src/a.rs"), expected, "{protocol}");
        assert_eq!(read("docs/a.md"), "A page.\n", "{protocol}");
        assert!(read(".orchestration/active_intents.yaml").contains("docs/**"), "{protocol}");
        assert_eq!(client.shut_down(), 0);
    }
}

/// Tags as models write them, with the tags on lines of their own.
const IN_TAGS: &str = r#"
turns:
  - raw: "<write_to_file>\n<path>src/a.txt</path>\n<content>\na\nb\n</content>\n</write_to_file>"
  - when: { contains: "<operation>created</operation>" }
    raw: "<write_to_file>\n<path>src/b.txt</path>\n<content>no end</content>\n</write_to_file>"
  - when: { contains: "<operation>created</operation>" }
    raw: "<write_to_file>\n<path>src/a.txt</path>\n<content>\na\nc\n</content>\n</write_to_file>"
  - when: { contains: "<operation>modified</operation>" }
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

#[test]
fn a_file_that_is_written_in_tags_keeps_its_last_newline() {
    for protocol in ["native", "xml"] {
        let home = Home::playing(IN_TAGS);
        let settings = format!(
            "mode: code\nautoApprove: {{ write: true }}\nprofiles:\n  default: {{ provider: scripted, script: {}, toolProtocol: {protocol} }}\n",
            home.path("script.yaml").display()
        );
        fs::write(home.config_file(), settings).unwrap();
        let mut client = Client::start(&home, Options::typed());
        client.request("roo/trust/grant", json!({}));
        client.start_task("Write two files.");
        client.titles_until_completed(|_| "allow_once");
        let read = |name: &str| fs::read_to_string(home.work(name)).unwrap();
        assert_eq!(read("src/a.txt"), "a\nc\n", "{protocol}");
        assert_eq!(read("src/b.txt"), "no end", "{protocol}");
        assert_eq!(client.shut_down(), 0);
    }
}
