//! `roo-lsp import claude-code`: the sessions of Claude Code, taken over by the real program and gone on with.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::model_server::{Answer, ModelServer, openai, openai_call};
use crate::support::project::Project;

const ID: &str = "6f1a3c52-0b1e-4c5e-9d0a-2f6b7c8d9e01";
const OTHER: &str = "6f1a3c52-0b1e-4c5e-9d0a-2f6b7c8d9e02";

/// A line of a session in a folder.
fn line(folder: &Path, kind: &str, uuid: &str, parent: Option<&str>, message: &Value) -> Value {
    json!({
        "parentUuid": parent, "isSidechain": false, "userType": "external", "cwd": folder, "sessionId": ID, "version": "2.1.86",
        "gitBranch": "main", "type": kind, "message": message, "uuid": uuid, "timestamp": "2026-04-03T10:30:01.500Z",
    })
}

fn session(folder: &Path) -> Vec<Value> {
    let user = |uuid, parent, content: Value| {
        line(folder, "user", uuid, parent, &json!({ "role": "user", "content": content }))
    };
    let assistant = |uuid, parent, id: &str, block: Value| {
        let usage = json!({ "input_tokens": 12, "output_tokens": 3 });
        let message =
            json!({ "id": id, "role": "assistant", "model": "m", "content": [block], "usage": usage });
        line(folder, "assistant", uuid, Some(parent), &message)
    };
    let file = folder.join("src/cart.ts");
    vec![
        json!({ "type": "file-history-snapshot", "messageId": "u1", "snapshot": {} }),
        user("u1", None, json!("Fix the cart.")),
        assistant("a1", "u1", "msg_1", json!({ "type": "text", "text": "I look at it." })),
        assistant(
            "a2",
            "a1",
            "msg_1",
            json!({
                "type": "tool_use", "id": "toolu_1", "name": "Read", "input": { "file_path": file },
            }),
        ),
        user(
            "u2",
            Some("a2"),
            json!([{ "type": "tool_result", "tool_use_id": "toolu_1", "content": "1\tlet total = 0" }]),
        ),
        assistant("a3", "u2", "msg_2", json!({ "type": "text", "text": "It is fixed." })),
    ]
}

/// Writes a session where Claude Code does.
fn put(project: &Project, id: &str, lines: &[Value]) -> PathBuf {
    let directory = project.beside("home/.claude/projects/-home-ada-shop");
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join(format!("{id}.jsonl"));
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&path, text).unwrap();
    path
}

fn tasks(project: &Project) -> Vec<Value> {
    let list = project.succeed(&["tasks", "list", "--json"]);
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn sessions_are_found_asked_about_and_imported_once() {
    let project = Project::new(&[]);
    let none = project.run(&["import", "claude-code"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(String::from_utf8_lossy(&none.stderr).contains("has no sessions in the usual place"), "{none:?}");

    put(&project, ID, &session(&project.folder()));
    put(&project, OTHER, &[json!({ "type": "summary", "summary": "Of another", "leafUuid": "x" })]);
    put(&project, "agent-a1b2c3d4", &session(&project.folder()));
    let asked = project.run(&["import", "claude-code"]);
    let told = String::from_utf8_lossy(&asked.stderr);
    assert!(
        !asked.status.success() && told.contains("2 sessions in ") && told.contains("Import them? [y/N]"),
        "{told}"
    );
    let dry = project.succeed(&["import", "claude-code", "--dry-run"]);
    assert!(dry.ends_with("\n1 task would be imported, 1 without a message\n"), "{dry}");
    assert_eq!(tasks(&project), Vec::<Value>::new());

    let taken = project.succeed(&["import", "claude-code", "--yes"]);
    assert!(taken.ends_with("\n1 task imported, 1 without a message\n"), "{taken}");
    let found = tasks(&project);
    assert_eq!(found.len(), 1);
    let shown = &found[0];
    assert_eq!(
        (&shown["state"], &shown["mode"], &shown["title"]),
        (&json!("completed"), &json!("code"), &json!("Fix the cart."))
    );
    assert_eq!(shown["importedFrom"], json!({ "program": "Claude Code", "taskId": ID }));
    let page = project.succeed(&["tasks", "show", shown["taskId"].as_str().unwrap()]);
    for part in [
        "\nI look at it.\n",
        "read_file src/cart.ts",
        "\n## Result\n\nIt is fixed.\n",
        "- Tokens: 24 in, 6 out",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
    assert_eq!(fs::read_dir(project.folder()).unwrap().count(), 0, "nothing is written into the workspace");

    // It has gone on there since; here it stays as it is.
    let mut longer = session(&project.folder());
    longer.remove(0);
    put(&project, ID, &longer);
    let again = project.succeed(&["import", "claude-code", "--yes"]);
    assert_eq!(again, "0 tasks imported, 1 imported before, 1 without a message\n");
    assert_eq!(tasks(&project), found);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_its_user_left_goes_on_with_its_old_conversation() {
    let project = Project::new(&[]);
    let ends = openai(
        &openai_call(0, "call_a", "attempt_completion", &json!({ "result": "Fixed at last." })),
        "tool_calls",
    );
    let mut server = ModelServer::start([Answer::stream(ends)]).await;
    project.configure(&format!(
        "mode: code\nprofiles:\n  default: {{ provider: openai, baseUrl: '{}/v1', model: m, toolProtocol: native, \
         apiKeyCommand: [echo, key] }}\n",
        server.url()
    ));
    let mut lines = session(&project.folder());
    // The answer had not come.
    lines.pop();
    let path = put(&project, ID, &lines);
    let folder = path.parent().unwrap().to_str().unwrap().to_owned();
    let taken = project.succeed(&["import", "claude-code", &folder]);
    assert!(taken.ends_with("\n1 task imported\n"), "{taken}");
    let task = tasks(&project)[0]["taskId"].as_str().unwrap().to_owned();
    let resumed = project.run(&["tasks", "resume", &task]);
    assert!(resumed.status.success(), "{resumed:?}");
    let sent = server.request().await.body["messages"].to_string();
    for part in ["Fix the cart.", "I look at it.", "src/cart.ts", "let total = 0", "was with Claude Code"] {
        assert!(sent.contains(part), "{part:?} is missing in {sent}");
    }
    let page = project.succeed(&["tasks", "show", &task]);
    assert!(page.contains("I look at it.") && page.contains("Fixed at last."), "{page}");
}

#[test]
fn a_session_of_another_folder_or_of_one_that_is_gone_is_said() {
    let project = Project::new(&[]);
    put(&project, ID, &session(&project.folder()));
    put(&project, OTHER, &session(Path::new("/no/such/folder")));
    let output = project.run(&["import", "claude-code", "--yes"]);
    // Nothing of it could be imported.
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(
        told.contains(&format!("task {OTHER}: its folder `/no/such/folder` is not on this machine")),
        "{told}"
    );
    let place = project.folder();
    let only = project.succeed(&["--workspace", place.to_str().unwrap(), "import", "claude-code", "--yes"]);
    assert_eq!(only, "0 tasks imported, 1 imported before, 1 of other workspaces\n");
    let missing = project.run(&["import", "claude-code", "/no/such/folder"]);
    assert_eq!(missing.status.code(), Some(2), "as for roo: {missing:?}");
}
