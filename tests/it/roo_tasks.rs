//! `roo-lsp import roo DIRECTORY` and `roo-lsp tasks export --format roo`: the task history of Roo Code, taken over by the real
//! program, gone on with, and written again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options};
use crate::support::model_server::{Answer, ModelServer, openai, openai_call};
use crate::support::project::Project;

const ID: &str = "0197a0c0-0000-7000-8000-000000000001";
const OTHER: &str = "0197a0c0-0000-7000-8000-000000000002";

/// Where VSCodium keeps what Roo Code has.
fn usual_place(project: &Project) -> PathBuf {
    project.beside("home/.config/VSCodium/User/globalStorage/rooveterinaryinc.roo-cline")
}

fn item(id: &str, folder: &Path) -> Value {
    json!({
        "id": id, "number": 1, "ts": 1_750_800_000_000_u64, "task": "Fix the parser.", "tokensIn": 1200, "tokensOut": 34,
        "totalCost": 0.25, "workspace": folder, "mode": "code",
    })
}

/// What was said until the file was read.
fn begun() -> Vec<Value> {
    vec![
        json!({ "role": "user", "ts": 1_750_000_000_000_u64, "content": [
            { "type": "text", "text": "<user_message>\nFix the parser.\n</user_message>" },
            { "type": "text", "text": "<environment_details>\n# Current Mode\n<slug>code</slug>\n</environment_details>" },
        ] }),
        json!({ "role": "assistant", "ts": 1_750_000_001_000_u64, "content": [
            { "type": "text", "text": "I look at it." },
            { "type": "tool_use", "id": "toolu_1", "name": "read_file", "input": { "path": "src/parser.rs" } },
        ] }),
        json!({ "role": "user", "ts": 1_750_000_002_000_u64, "content": [
            { "type": "tool_result", "tool_use_id": "toolu_1", "content": "1 | fn main() {}" },
        ] }),
    ]
}

fn finished() -> Vec<Value> {
    let mut messages = begun();
    messages.push(json!({ "role": "assistant", "ts": 1_750_000_003_000_u64, "content": [
        { "type": "tool_use", "id": "toolu_2", "name": "attempt_completion", "input": { "result": "Fixed." } },
    ] }));
    messages
}

/// Writes a task as Roo Code does.
fn put(storage: &Path, id: &str, item: Option<&Value>, conversation: &str) {
    let directory = storage.join("tasks").join(id);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("api_conversation_history.json"), conversation).unwrap();
    if let Some(item) = item {
        fs::write(directory.join("history_item.json"), item.to_string()).unwrap();
    }
}

fn put_whole(storage: &Path, id: &str, folder: &Path, conversation: &[Value]) {
    put(storage, id, Some(&item(id, folder)), &Value::from(conversation.to_vec()).to_string());
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn import(project: &Project, storage: &Path) -> Output {
    project.run(&["import", "roo", storage.to_str().unwrap()])
}

fn tasks(project: &Project) -> Vec<Value> {
    let list = project.succeed(&["tasks", "list", "--json"]);
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_task_is_imported_listed_shown_and_not_imported_again() {
    let project = Project::new(&[]);
    let storage = project.beside("storage");
    put_whole(&storage, ID, &project.folder(), &finished());
    let output = import(&project, &storage);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).ends_with("\n1 task imported\n"), "{output:?}");

    let found = tasks(&project);
    assert_eq!(found.len(), 1);
    let shown = &found[0];
    assert_eq!(
        (&shown["state"], &shown["mode"], &shown["title"]),
        (&json!("completed"), &json!("code"), &json!("Fix the parser."))
    );
    assert_eq!(shown["importedFrom"], json!({ "program": "Roo Code", "taskId": ID }));
    assert_eq!(shown["createdAt"], 0x0197_a0c0_0000_i64);
    let list = project.succeed(&["tasks", "list"]);
    assert!(list.ends_with("Fix the parser. (from Roo Code)\n"), "{list}");

    let task = shown["taskId"].as_str().unwrap();
    let page = project.succeed(&["tasks", "show", task]);
    for part in [
        "- Tokens: 1200 in, 34 out, 0 from cache; $0.2500\n",
        &format!("- Imported from: Roo Code, task {ID}\n"),
        "\n## Prompt\n\nFix the parser.\n",
        "\nI look at it.\n",
        "read_file src/parser.rs",
        "\n## Result\n\nFixed.\n",
    ] {
        assert!(page.contains(part), "{part:?} is missing in {page}");
    }
    assert!(!page.contains("environment_details"), "{page}");

    // Nothing can say whether the other program would do the same again.
    let replayed = project.succeed(&["replay", task]);
    assert!(replayed.starts_with("events 1 to "), "{replayed}");
    assert!(replayed.ends_with(" were imported from another program and can't be replayed\n"), "{replayed}");
    let replayed: Value = serde_json::from_str(&project.succeed(&["replay", task, "--format=json"])).unwrap();
    assert_eq!((&replayed["identical"], &replayed["imported"]), (&Value::Null, &replayed["events"]));

    let again = import(&project, &storage);
    assert!(again.status.success(), "{again:?}");
    assert_eq!(text(&again.stdout), "0 tasks imported, 1 imported before\n");
    assert_eq!(tasks(&project), found);
}

#[test]
fn the_usual_places_are_found_and_asked_about() {
    let project = Project::new(&[]);
    let none = project.run(&["import", "roo"]);
    assert_eq!(none.status.code(), Some(1), "{none:?}");
    assert!(text(&none.stderr).contains("Roo Code has no tasks in the usual places"), "{none:?}");

    let storage = usual_place(&project);
    put_whole(&storage, ID, &project.folder(), &finished());
    let modes = "customModes:\n  - slug: poet\n    name: Poet\n    roleDefinition: You write verse.\n    groups: [read]\n";
    fs::create_dir_all(storage.join("settings")).unwrap();
    fs::write(storage.join("settings/custom_modes.yaml"), modes).unwrap();
    // Nobody answers.
    let asked = project.run(&["import", "roo"]);
    assert!(!asked.status.success(), "{asked:?}");
    let told = text(&asked.stderr);
    assert!(told.contains("1 task, modes in ") && told.contains("Import this? [y/N]"), "{told}");
    assert_eq!(tasks(&project), Vec::<Value>::new());

    let dry = project.run(&["import", "roo", "--dry-run"]);
    assert!(text(&dry.stdout).ends_with("1 task would be imported\n"), "{dry:?}");
    assert_eq!(tasks(&project), Vec::<Value>::new());
    assert!(!project.beside("config/roo-lsp/custom_modes.yaml").exists());

    let output = project.run(&["import", "roo", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(tasks(&project).len(), 1);
    let own = fs::read_to_string(project.beside("config/roo-lsp/custom_modes.yaml")).unwrap();
    assert_eq!(own, modes);
    assert!(project.succeed(&["modes"]).contains("poet"));
}

#[test]
fn modes_and_servers_come_with_the_tasks_and_what_needs_no_import_is_said() {
    let project = Project::new(&[]);
    let storage = usual_place(&project);
    put_whole(&storage, ID, &project.folder(), &finished());
    let servers = r#"{"mcpServers": {"db": {"command": "db", "alwaysAllow": ["query"]}}}"#;
    fs::create_dir_all(storage.join("settings")).unwrap();
    fs::write(storage.join("settings/mcp_settings.json"), servers).unwrap();
    fs::create_dir_all(project.beside("home/.roo/rules")).unwrap();
    let own = || fs::read_to_string(project.beside("config/roo-lsp/mcp.json")).unwrap_or_default();

    let dry = project.run(&["import", "roo", "--dry-run"]);
    assert!(text(&dry.stdout).contains("db: would be written to "), "{dry:?}");
    assert_eq!(own(), "");
    let output = project.run(&["import", "roo", "--yes"]);
    assert!(output.status.success(), "{output:?}");
    let (taken, told) = (text(&output.stdout), text(&output.stderr));
    assert!(told.contains("1 task, MCP servers in "), "{told}");
    assert!(
        taken.contains("these calls ask, as `alwaysAllow` comes with --approvals only: query"),
        "{taken}"
    );
    assert!(own().contains("\"db\"") && !own().contains("alwaysAllow"), "{}", own());
    assert!(told.contains("your rules in ") && told.contains("count as they are"), "{told}");
    assert!(told.contains("not imported: profiles and settings, which only an export holds"), "{told}");

    // A second time there is nothing left to do.
    let before = own();
    let again = project.run(&["import", "roo", "--yes"]);
    assert!(again.status.success(), "{again:?}");
    let taken = text(&again.stdout);
    assert!(
        taken.contains("db: is in ") && taken.ends_with("0 tasks imported, 1 imported before\n"),
        "{taken}"
    );
    assert_eq!(own(), before);
    // Nothing is said of lists that were not taken.
    let kept = project.run(&["import", "roo", "--yes", "--approvals"]);
    assert!(text(&kept.stdout).contains("db: left out") && own() == before, "{kept:?}");
    assert!(!text(&kept.stderr).contains("counts by itself here"), "{kept:?}");
    let approved = project.run(&["import", "roo", "--yes", "--approvals", "--replace"]);
    assert!(approved.status.success() && own().contains("alwaysAllow"), "{approved:?}");
    assert!(text(&approved.stderr).contains("counts by itself here"), "{approved:?}");
}

#[test]
fn what_is_broken_or_hostile_is_said_and_the_others_are_imported() {
    let project = Project::new(&[]);
    let storage = project.beside("storage");
    let conversation = Value::from(finished()).to_string();
    put_whole(&storage, ID, &project.folder(), &finished());
    put(&storage, "broken", Some(&item("broken", &project.folder())), "[{\"role\":");
    put(&storage, "escaped", Some(&item("escaped", Path::new("../../etc\u{1b}[31m"))), &conversation);
    put(&storage, "gone", Some(&item("gone", Path::new("/no/such/folder"))), &conversation);
    put(&storage, "nowhere", None, &conversation);
    put(&storage, "renamed", Some(&item("../other", &project.folder())), &conversation);
    put(&storage, "up", Some(&item("up", &project.folder().join("../work"))), &conversation);
    let output = import(&project, &storage);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        text(&output.stdout).ends_with("\n1 task imported, 5 left out, 1 of folders that are not here\n"),
        "{output:?}"
    );
    let told = text(&output.stderr);
    for line in [
        "task broken: api_conversation_history.json is not valid JSON (line 1, column 9)",
        "is no absolute path of this machine",
        "task gone: its folder `/no/such/folder` is not on this machine",
        "task nowhere: nothing says which folder it belongs to",
        "task renamed: history_item.json is that of another task, ../other",
        "task up: its folder",
    ] {
        assert!(told.contains(line), "{line:?} is missing in {told}");
    }
    assert!(!told.contains('\u{1b}'), "{told}");
    assert_eq!(fs::read_dir(project.folder()).unwrap().count(), 0, "nothing is written into the workspace");
    assert_eq!(tasks(&project).len(), 1);
}

#[test]
fn tasks_go_to_their_workspaces_or_to_one_alone() {
    let project = Project::new(&[]);
    let (storage, other) = (project.beside("storage"), project.beside("other"));
    fs::create_dir(&other).unwrap();
    let other = other.canonicalize().unwrap();
    put_whole(&storage, ID, &project.folder(), &finished());
    put_whole(&storage, OTHER, &other, &begun());
    let (storage, place) = (storage.to_str().unwrap(), other.to_str().unwrap());
    let limited = project.succeed(&["--workspace", place, "import", "roo", storage]);
    assert!(limited.ends_with("\n1 task imported, 1 of other workspaces\n"), "{limited}");
    assert_eq!(tasks(&project), Vec::<Value>::new());
    let both = project.succeed(&["import", "roo", storage]);
    assert!(both.ends_with("\n1 task imported, 1 imported before\n"), "{both}");
    assert_eq!(tasks(&project).len(), 1);
    let there = project.succeed(&["--workspace", place, "tasks", "list"]);
    // It had not ended.
    assert!(there.contains("cancelled") && there.lines().count() == 1, "{there}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_task_goes_on_with_its_old_conversation() {
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
    let storage = project.beside("storage");
    put_whole(&storage, ID, &project.folder(), &begun());
    let output = import(&project, &storage);
    assert!(output.status.success(), "{output:?}");
    let task = tasks(&project)[0]["taskId"].as_str().unwrap().to_owned();
    let resumed = project.run(&["tasks", "resume", &task]);
    assert!(resumed.status.success(), "{resumed:?}");

    let sent = server.request().await.body["messages"].to_string();
    for part in ["Fix the parser.", "I look at it.", "src/parser.rs", "1 | fn main() {}", "was with Roo Code"]
    {
        assert!(sent.contains(part), "{part:?} is missing in {sent}");
    }
    let page = project.succeed(&["tasks", "show", &task]);
    assert!(page.contains("I look at it.") && page.contains("Fixed at last."), "{page}");
    let replayed = project.succeed(&["replay", &task]);
    assert!(replayed.contains("can't be replayed; identical, "), "{replayed}");
}

#[test]
fn a_message_goes_on_with_a_completed_task_in_an_editor() {
    let home = Home::playing(
        "turns:\n  - when: { contains: [\"And now?\", \"was with Roo Code\"] }\n    calls: [{ tool: attempt_completion, \
         params: { result: More. } }]\n",
    );
    let storage = home.path("storage");
    put_whole(&storage, ID, &home.path("work"), &finished());
    let output = Command::new(env!("CARGO_BIN_EXE_roo-lsp"))
        .args(["import", "roo"])
        .arg(&storage)
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .env("HOME", home.path(""))
        .current_dir(home.path("work"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");

    let mut client = Client::start(&home, Options::typed());
    let listed = client.request("roo/task/list", json!({}));
    let task = listed["items"][0]["taskId"].as_str().unwrap().to_owned();
    assert_eq!(listed["items"][0]["importedFrom"]["taskId"], ID);
    client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    let imported = client.event("task.imported");
    assert_eq!((&imported["seq"], &imported["event"]["from"]["program"]), (&json!(2), &json!("Roo Code")));
    client.wait_for("the text", |message| message["params"]["event"]["message"]["text"] == "I look at it.");
    client.request("roo/task/send", json!({ "taskId": task, "text": "And now?" }));
    client.wait_for("the end", |message| message["params"]["event"]["result"] == "More.");
    assert_eq!(client.request("roo/task/get", json!({ "taskId": task }))["state"], "completed");
    assert_eq!(client.shut_down(), 0);
}

/// The role and the text of what user and model said.
fn conversation(project: &Project, task: &str) -> Vec<(String, String)> {
    let shown: Value = serde_json::from_str(&project.succeed(&["tasks", "show", task, "--json"])).unwrap();
    let messages = shown["messages"].as_array().unwrap().clone();
    let said = ["text", "user_feedback", "completion_result"];
    let kept =
        messages.iter().filter(|message| message["say"].as_str().is_some_and(|say| said.contains(&say)));
    kept.map(|message| {
        (message["say"].as_str().unwrap().to_owned(), message["text"].as_str().unwrap().trim().to_owned())
    })
    .collect()
}

#[test]
fn an_exported_request_is_imported_as_it_was() {
    let project = Project::outside_temp(&[("a.txt", "one\n")]);
    project.script(
        "turns:\n  - text: First I read.\n    calls: [{ tool: read_file, params: { path: a.txt } }]\n  - calls: [{ tool: \
         attempt_completion, params: { result: Read. } }]\n",
    );
    let script = project.beside("script.yaml");
    let ran = project.run(&["run", "Read it.", "--on-ask=allow", "--script", script.to_str().unwrap()]);
    assert!(ran.status.success(), "{ran:?}");
    let task = tasks(&project)[0]["taskId"].as_str().unwrap().to_owned();
    let directory = project.beside("exported");
    let place = directory.to_str().unwrap();
    let said = project.succeed(&["tasks", "export", &task, "--format=roo", "--output", place]);
    assert_eq!(said, format!("1 task written to {place}\n"));
    let file = |name: &str| -> Value {
        let text = fs::read_to_string(directory.join("tasks").join(&task).join(name)).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let item = file("history_item.json");
    assert_eq!(
        (&item["id"], &item["task"], &item["status"]),
        (&json!(task), &json!("Read it."), &json!("completed"))
    );
    assert_eq!(item["workspace"], json!(project.folder()));
    let messages = file("api_conversation_history.json");
    let roles: Vec<&str> =
        messages.as_array().unwrap().iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    assert_eq!(messages[1]["content"][1]["name"], "read_file");
    assert_eq!(messages[2]["content"][0]["tool_use_id"], messages[1]["content"][1]["id"]);
    let shown = file("ui_messages.json");
    assert_eq!((&shown[0]["say"], &shown[0]["text"]), (&json!("text"), &json!("Read it.")));
    assert_eq!(shown.as_array().unwrap().last().unwrap()["ask"], "completion_result");

    // What is there is not written over.
    let again = project.run(&["tasks", "export", &task, "--format=roo", "--output", place]);
    assert_eq!(again.status.code(), Some(1), "{again:?}");
    assert!(text(&again.stderr).contains("is there already"), "{again:?}");

    let output = import(&project, &directory);
    assert!(output.status.success(), "{output:?}");
    let found = tasks(&project);
    let copy = found.iter().find(|item| item["taskId"] != json!(task)).unwrap();
    assert_eq!((&copy["title"], &copy["state"]), (&json!("Read it."), &json!("completed")));
    let copied = conversation(&project, copy["taskId"].as_str().unwrap());
    assert_eq!(copied, conversation(&project, &task));
    assert_eq!(copied.len(), 3, "{copied:?}");
}

#[test]
fn branches_are_exported_as_tasks_that_name_their_parent() {
    let project = Project::outside_temp(&[]);
    let script = project.script(
        r#"
turns:
  - mode: orchestrator
    when: { contains: "Go." }
    calls: [{ tool: new_task, params: { mode: code, message: "💻 Mend the lib\n\nURID: {{urid}}\n\nMend it.\n" } }]
  - { mode: code, calls: [{ tool: attempt_completion, params: { result: Mended. } }] }
  - mode: orchestrator
    calls: [{ tool: attempt_completion, params: { result: All is well. } }]
"#,
    );
    project.configure("mode: orchestrator\n");
    let ran = project.run(&["run", "Go.", "--on-ask=allow", "--script", script.to_str().unwrap()]);
    assert!(ran.status.success(), "{ran:?}");
    let task = tasks(&project)[0]["taskId"].as_str().unwrap().to_owned();
    let directory = project.beside("exported");
    let place = directory.to_str().unwrap();
    let said = project.succeed(&["tasks", "export", &task, "--format=roo", "--output", place]);
    assert_eq!(said, format!("2 tasks written to {place}\n"));
    let item = |id: &str| -> Value {
        let text = fs::read_to_string(directory.join("tasks").join(id).join("history_item.json")).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let parent = item(&task);
    let child = parent["childIds"][0].as_str().unwrap().to_owned();
    assert!(child.starts_with(&format!("{task}.")), "{parent}");
    let child = item(&child);
    assert_eq!(
        (&child["parentTaskId"], &child["rootTaskId"], &child["mode"]),
        (&json!(task), &json!(task), &json!("code"))
    );

    let output = import(&project, &directory);
    assert!(output.status.success(), "{output:?}");
    assert!(text(&output.stdout).ends_with("\n2 tasks imported\n"), "{output:?}");
    let found = tasks(&project);
    let of = |id: &Value| found.iter().find(|item| item["importedFrom"]["taskId"] == *id).unwrap();
    let page = project.succeed(&["tasks", "show", of(&child["id"])["taskId"].as_str().unwrap()]);
    assert!(page.contains(&format!("- Delegated there by: task {task}\n")), "{page}");
    let page = project.succeed(&["tasks", "show", of(&json!(task))["taskId"].as_str().unwrap()]);
    assert!(
        page.contains(&format!("- Delegated there to: task {}\n", child["id"].as_str().unwrap())),
        "{page}"
    );
}

#[test]
fn the_storage_of_cline_is_read_too() {
    let project = Project::new(&[]);
    let storage = project.beside("saoudrizwan.claude-dev");
    let conversation = json!([
        { "role": "user", "content": [{ "type": "text", "text": "<task>\nFix the parser.\n</task>" }] },
        { "role": "assistant", "content": [{ "type": "text",
            "text": "I look at it.\n\n<read_file>\n<path>src/parser.rs</path>\n</read_file>" }] },
        { "role": "user", "content": [
            { "type": "text", "text": "[read_file for 'src/parser.rs'] Result:" },
            { "type": "text", "text": "fn main() {}" },
        ] },
        { "role": "assistant", "content": "<attempt_completion>\n<result>\nFixed.\n</result>\n</attempt_completion>" },
    ]);
    put(&storage, "1750000000000", None, &conversation.to_string());
    fs::create_dir_all(storage.join("state")).unwrap();
    let list = json!([{ "id": "1750000000000", "ts": 1_750_000_009_000_u64, "task": "Fix the parser.", "tokensIn": 7,
        "tokensOut": 1, "totalCost": 0, "cwdOnTaskInitialization": project.folder() }]);
    fs::write(storage.join("state/taskHistory.json"), list.to_string()).unwrap();
    let output = import(&project, &storage);
    assert!(output.status.success(), "{output:?}");
    let found = tasks(&project);
    assert_eq!(
        (&found[0]["importedFrom"]["program"], &found[0]["usage"]["tokensIn"]),
        (&json!("Cline"), &json!(7))
    );
    assert_eq!(
        (&found[0]["state"], &found[0]["createdAt"]),
        (&json!("completed"), &json!(1_750_000_000_000_i64))
    );
    let page = project.succeed(&["tasks", "show", found[0]["taskId"].as_str().unwrap()]);
    assert!(page.contains("read_file src/parser.rs") && page.contains("\n## Result\n\nFixed.\n"), "{page}");
}
