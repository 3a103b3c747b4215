//! Several processes on one workspace: what one writes for itself is no violation of another one's command.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::support::client::{Client, Home, Options};

/// How many rounds are played; more where `ROO_TEST_CASES` says so.
fn rounds(usual: u32) -> u32 {
    std::env::var("ROO_TEST_CASES").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Commands with writes between them, so that every process appends to the trace while others run commands.
fn script(name: &str) -> String {
    let turn = |number: u32| {
        format!(
            "  - calls:\n      - tool: execute_command\n        params: {{ command: sleep 0.0{number} }}\n      \
             - tool: write_to_file\n        params: {{ path: {name}-{number}.txt, content: x }}\n"
        )
    };
    let turns: String = (1..=4).map(turn).collect();
    format!("turns:\n{turns}  - calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]\n")
}

fn program(home: &Home) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
    command
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .env("HOME", home.path(""))
        .env_remove("ROO_LSP_LOG")
        .current_dir(home.path("work"))
        .stdin(Stdio::null());
    command
}

fn logs(home: &Home) -> Vec<PathBuf> {
    let workspaces = fs::read_dir(home.path("state/roo-lsp/workspaces")).unwrap();
    let requests =
        workspaces.flat_map(|workspace| fs::read_dir(workspace.unwrap().path().join("requests")).unwrap());
    requests.map(|request| request.unwrap().path().join("log.jsonl")).collect()
}

/// The results of all calls: tool, status and what the model is told.
fn results(home: &Home) -> Vec<(String, String, String)> {
    let text = logs(home).iter().map(|log| fs::read_to_string(log).unwrap()).collect::<String>();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let results = records.filter(|record| record["event"]["type"] == "toolFinished");
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    results
        .map(|record| {
            let result = &record["event"]["result"];
            (text(&result["name"]), text(&result["status"]), result.to_string())
        })
        .collect()
}

fn assert_success(output: &Output) {
    assert!(output.status.success(), "{output:?}");
}

/// Two `roo-lsp run` and a language server begin at once in a workspace that has neither a trace nor task directories.
#[test]
fn what_other_processes_write_for_themselves_is_nobodys_violation() {
    for round in 0..rounds(5) {
        let home = Home::playing(&script("editor"));
        home.configure("mode: code\nautoApprove: { write: true, execute: { allow: [[sleep]] } }\n");
        let mut client = Client::start(&home, Options::typed());
        let runs = ["one", "two"].map(|name| {
            let place = home.path(&format!("{name}.yaml"));
            fs::write(&place, script(name)).unwrap();
            let mut command = program(&home);
            command.args(["run", "Go", "--script"]).arg(place);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        client.start_task("Go");
        client.state("completed");
        for run in runs {
            assert_success(&run.wait_with_output().unwrap());
        }
        client.shut_down();
        let results = results(&home);
        let commands = results.iter().filter(|(tool, ..)| tool == "execute_command").count();
        assert_eq!(commands, 12, "round {round}: {results:#?}");
        let blamed: Vec<_> =
            results.iter().filter(|(_, status, told)| status != "ok" || told.contains("Violation")).collect();
        assert!(blamed.is_empty(), "round {round}: {blamed:#?}");
        assert_success(&program(&home).args(["trace", "verify"]).output().unwrap());
    }
}

#[test]
fn a_request_that_a_server_runs_is_cancelled_there_and_not_from_a_terminal() {
    let script = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Go on?, follow_up: [{ text: Yes }] } }]
"#;
    let home = Home::playing(script);
    home.configure("mode: code\n");
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Go");
    client.event("question.asked");
    let output = program(&home).args(["tasks", "cancel", &task]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("is open in another roo-lsp. In the daemon, roo-lsp attach "), "{error}");
    assert_eq!(client.shut_down(), 0);
}
