//! Settings that change while the server runs: they count for the next turn, without a restart, and what is wrong with them
//! is said.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::client::{Client, Home, Options, uri};
use crate::support::project::Project;

/// Writes a file, asks its user, and writes another one.
const TWO_WRITES: &str = r#"
turns:
  - calls: [{ tool: write_to_file, params: { path: one.txt, content: "one\n" } }]
  - calls: [{ tool: ask_followup_question, params: { question: More?, follow_up: [{ text: yes }] } }]
  - calls: [{ tool: write_to_file, params: { path: two.txt, content: "two\n" } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
"#;

/// Whatever happened, is done.
const HELLO: &str = "
turns:
  - calls: [{ tool: attempt_completion, params: { result: Hello. } }]
  - calls: [{ tool: attempt_completion, params: { result: Hello. } }]
";

fn allow(client: &mut Client) {
    allow_after(client, || ());
}

/// Allows what is asked, when something else was done meanwhile.
fn allow_after(client: &mut Client, meanwhile: impl FnOnce()) {
    let asked = client.event("approval.requested");
    meanwhile();
    let approval = &asked["event"];
    let answer = json!({
        "approvalId": approval["approvalId"], "digest": approval["digest"], "optionId": "allow_once",
    });
    client.request("roo/approval/respond", answer);
}

/// Begins a request in the mode that the settings name.
fn begin(client: &mut Client, prompt: &str) -> String {
    let begun = client.request("roo/task/start", json!({ "prompt": prompt }));
    begun["taskId"].as_str().unwrap().to_owned()
}

fn answer(client: &mut Client) {
    let asked = client.event("question.asked");
    let question = &asked["event"];
    client.request("roo/question/answer", json!({ "questionId": question["questionId"], "text": "yes" }));
}

fn finished(client: &mut Client) -> usize {
    client.state("completed");
    let is_asked = |message: &&Value| message["params"]["event"]["type"] == "approval.requested";
    client.seen.iter().filter(is_asked).count()
}

fn changed(client: &mut Client) -> Vec<String> {
    let told = client.pump("changed settings", |client| {
        client.seen.iter().rfind(|message| message["method"] == "roo/settings/changed").cloned()
    });
    serde_json::from_value(told["params"]["problems"].clone()).unwrap()
}

#[test]
fn a_written_file_counts_for_the_next_turn_of_a_running_task() {
    let home = Home::playing(TWO_WRITES);
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Write.");
    allow_after(&mut client, || home.configure("autoApprove: { write: true }\n"));
    answer(&mut client);
    assert_eq!(finished(&mut client), 1, "the second write is not asked about");
    assert_eq!(changed(&mut client), Vec::<String>::new());

    home.configure("autoApprove: { write: false }\n");
    let settings = client.request("roo/autoApprove/get", json!({}));
    assert_eq!(settings["settings"][1]["value"], false);
    client.shut_down();
}

#[test]
fn a_file_that_is_being_saved_leaves_its_settings_in_force_until_it_was_left_alone() {
    let home = Home::playing(TWO_WRITES);
    home.configure("autoApprove: { read: false }\n");
    let mut client = Client::start(&home, Options::typed());
    let read = |client: &mut Client| {
        client.request("roo/autoApprove/get", json!({}))["settings"][0]["value"].clone()
    };
    assert_eq!(read(&mut client), false);
    fs::write(home.config_file(), "").unwrap();
    assert_eq!(read(&mut client), false);
    // Nobody asks for it, and nothing else happens.
    assert_eq!(changed(&mut client), Vec::<String>::new());
    assert_eq!(read(&mut client), true);
    client.shut_down();
}

/// Waits for a reader of the pipe, writes the settings, and lets the reader go on.
fn write_when_read(project: &Project, pipe: &str, settings: String) -> std::thread::JoinHandle<()> {
    let (pipe, file) = (project.folder().join(pipe), project.beside("config/roo-lsp/config.yaml"));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::thread::spawn(move || {
        let reader = fs::OpenOptions::new().write(true).open(pipe).unwrap();
        fs::write(file, settings).unwrap();
        drop(reader);
    })
}

#[test]
fn a_request_on_the_command_line_goes_by_the_file_as_it_is() {
    let commands = ["cat first", "touch one", "cat second", "touch two"];
    let calls = commands
        .map(|line| format!("  - calls: [{{ tool: execute_command, params: {{ command: {line} }} }}]\n"));
    let project = Project::new(&[]);
    let done = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    let script = project.script(&format!("turns:\n{}{done}", calls.concat()));
    project.configure("mode: code\n");
    let denies = "mode: code\nautoApprove: { execute: { deny: [[touch]] } }\n".to_owned();
    let first = write_when_read(&project, "first", denies);
    // What was good stays in force when the file gets broken, which is told.
    let second = write_when_read(&project, "second", format!("mode: [ # {}\n", "not shorter ".repeat(9)));
    let ran = project.run(&["run", "--script", script.to_str().unwrap(), "--on-ask", "allow", "Go"]);
    assert!(ran.status.success(), "{ran:?}");
    let exists = |name| project.folder().join(name).exists();
    assert_eq!((exists("one"), exists("two")), (false, false), "{ran:?}");
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(told.contains("the settings from before stay in force"), "{told}");
    first.join().unwrap();
    second.join().unwrap();
}

#[test]
fn another_default_profile_and_another_mode_count_for_running_and_for_new_tasks() {
    let home = Home::playing(TWO_WRITES);
    fs::write(home.path("hello.yaml"), HELLO).unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Write.");
    let other = format!(
        "  other: {{ provider: scripted, script: {} }}\nprofile: other\nmode: architect\n",
        home.path("hello.yaml").display()
    );
    allow_after(&mut client, || home.configure(&other));
    let switched = client.event("mode.switched");
    assert_eq!(switched["event"]["profile"], "other");
    let done = client.state("completed");
    assert_eq!(done["event"]["result"], "Hello.", "the other model has answered");
    let profiles = client.request("roo/profile/list", json!({}));
    assert_eq!(profiles["profiles"][1]["isDefault"], true);
    let task = begin(&mut client, "Say hello.");
    assert_eq!(client.state("completed")["event"]["result"], "Hello.");
    let item = client.request("roo/task/get", json!({ "taskId": task }));
    assert_eq!(item["mode"], "architect");
    client.shut_down();
}

#[test]
fn a_file_that_gets_broken_leaves_the_settings_from_before_in_force_and_is_told_once() {
    let home = Home::playing(TWO_WRITES);
    home.configure("autoApprove: { write: true }\n");
    let mut client = Client::start(&home, Options::typed());
    let file = home.config_file();
    let document = client.open(&file, &fs::read_to_string(&file).unwrap());
    // It has begun with the file as it was.
    client.request("roo/profile/list", json!({}));
    home.configure("autoApprove: { write: 3 }\n");
    client.notify("textDocument/didSave", json!({ "textDocument": { "uri": document } }));
    client.message("is invalid, so the settings from before stay in force");
    assert!(changed(&mut client)[0].contains("autoApprove.write"));
    client.start_task("Write.");
    answer(&mut client);
    assert_eq!(finished(&mut client), 0);
    let is_told = |message: &&Value| {
        message["method"] == "window/showMessage" && message.to_string().contains("is invalid")
    };
    assert_eq!(client.seen.iter().filter(is_told).count(), 1);
    client.close(&document);
    let is_shown = |message: &Value| {
        message["method"] == "textDocument/publishDiagnostics"
            && message["params"]["uri"] == uri(&file)
            && message["params"]["diagnostics"].to_string().contains("autoApprove.write")
    };
    client.wait_for("the file's diagnostics", is_shown);
    client.shut_down();
}

#[test]
fn no_request_begins_while_settings_are_broken_of_which_no_good_version_is_known() {
    let home = Home::playing(TWO_WRITES);
    home.configure("autoApprove: { write: 3 }\n");
    let mut client = Client::start(&home, Options::typed());
    client.message("no agent runs until you correct this");
    let error = client.refused("roo/task/start", json!({ "prompt": "Write." }));
    let told = error["message"].as_str().unwrap();
    let file = home.config_file().display().to_string();
    assert!(told.starts_with(&file) && told.ends_with(&format!("not in force: those of {file}")), "{told}");
    home.configure("autoApprove: { write: true }\n");
    client.start_task("Write.");
    answer(&mut client);
    assert_eq!(finished(&mut client), 0);
    client.shut_down();
}

#[test]
fn what_the_workspace_says_unasked_takes_away_and_gives_nothing() {
    let home = Home::playing(TWO_WRITES);
    home.configure("autoApprove: { write: true, read: false }\n");
    let mut client = Client::start(&home, Options::typed());
    let said = json!({ "roo": { "autoApprove": { "write": false, "read": true }, "mode": "architect" } });
    client.notify("workspace/didChangeConfiguration", json!({ "settings": said }));
    changed(&mut client);
    let settings = client.request("roo/autoApprove/get", json!({}))["settings"].clone();
    let found =
        |key: &str| settings.as_array().unwrap().iter().find(|item| item["key"] == key).unwrap().clone();
    let write =
        json!({ "key": "write", "value": false, "unasked": "none", "origin": "workspace/configuration" });
    assert_eq!(found("write"), write);
    assert_eq!(found("read")["value"], false);
    assert_eq!(found("read")["origin"], format!("{}:3", home.config_file().display()));
    assert_eq!(found("delegate"), json!({ "key": "delegate", "value": true, "unasked": "all" }));
    assert_eq!(found("execute.mode"), json!({ "key": "execute.mode", "value": null, "unasked": "none" }));
    client.start_task("Write.");
    allow(&mut client);
    client.notify("workspace/didChangeConfiguration", json!({ "settings": null }));
    answer(&mut client);
    assert_eq!(finished(&mut client), 1, "what was taken away is back");
    client.shut_down();
}

#[test]
fn a_client_that_can_be_asked_is_asked_again() {
    let home = Home::playing(TWO_WRITES);
    home.configure("autoApprove: { write: true }\n");
    let options =
        Options::typed().with(json!({ "capabilities": { "workspace": { "configuration": true } } }));
    let options = Options { configuration: json!({ "autoApprove": { "write": false } }), ..options };
    let mut client = Client::start(&home, options);
    let write = |client: &mut Client| {
        client.request("roo/autoApprove/get", json!({}))["settings"][1]["value"].clone()
    };
    assert_eq!(write(&mut client), false);
    client.set_configuration(json!({}));
    // What it says unasked is not what counts.
    client.notify(
        "workspace/didChangeConfiguration",
        json!({ "settings": { "autoApprove": { "write": false } } }),
    );
    changed(&mut client);
    assert_eq!(write(&mut client), true);
    client.shut_down();
}

#[test]
fn options_of_the_client_change_mode_profile_and_auto_approve() {
    let home = Home::playing(TWO_WRITES);
    let mut client = Client::start(&home, Options::typed());
    let profile = json!({ "provider": "scripted", "script": home.path("script.yaml") });
    let options = json!({ "roo": {
        "mode": "ask", "profile": "mine", "profiles": { "mine": profile }, "autoApprove": { "mcp": true },
    } });
    client.notify("roo/options/didChange", json!({ "options": options }));
    changed(&mut client);
    let settings = client.request("roo/autoApprove/get", json!({}))["settings"].clone();
    assert_eq!(
        settings[2],
        json!({ "key": "mcp", "value": true, "unasked": "all", "origin": "initializationOptions" })
    );
    let task = begin(&mut client, "Write.");
    let item = client.request("roo/task/get", json!({ "taskId": task }));
    assert_eq!(item["mode"], "ask");
    let profiles = client.request("roo/profile/list", json!({}));
    assert_eq!(
        (&profiles["profiles"][1]["name"], &profiles["profiles"][1]["isDefault"]),
        (&json!("mine"), &json!(true))
    );
    client.shut_down();
}
