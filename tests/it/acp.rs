//! `roo-lsp acp` as clients of the Agent Client Protocol meet it: the real program over its standard input and output.

mod acpx;
mod buffers;
mod client;
mod connection;
mod questions;
mod schema;
mod sdk;
mod sessions;

use serde_json::{Value, json};

use self::client::Client;
use crate::support::project::Project;

const DONE: &str = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
/// Asks its user for permission, as nothing allows to write.
const WRITES: &str =
    "  - calls: [{ tool: write_to_file, params: { path: a.txt, content: \"one\\ntwo\\n\" } }]\n";
const ASKS: &str = "  - calls: [{ tool: ask_followup_question, params: { question: Which one?, follow_up: [{ text: First }, { text: Second }] } }]\n";

/// A trusted workspace whose model plays these turns.
fn playing(turns: &str) -> Project {
    let project = untrusted(turns);
    project.succeed(&["trust"]);
    project
}

fn untrusted(turns: &str) -> Project {
    let project = Project::new(&[]);
    configure(&project, turns, "");
    project
}

fn configure(project: &Project, turns: &str, more: &str) {
    let script = project.script(&format!("turns:\n{turns}"));
    let profile = format!("profiles:\n  default: {{ provider: scripted, script: {} }}\n", script.display());
    project.configure(&format!("mode: code\n{profile}{more}"));
}

/// What the options of a question are.
fn options(request: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let options = request["params"]["options"].as_array().unwrap().iter();
    options.map(|option| (text(&option["optionId"]), text(&option["kind"]))).collect()
}

#[test]
fn a_prompt_is_answered_as_it_is_written_and_the_session_goes_on() {
    let project = playing(&format!(
        "  - thinking: Hm, what is it?\n    text: \"I look at it.\"\n    calls: [{{ tool: list_files, params: {{ path: . }} }}]\n{DONE}  - when: {{ contains: more }}\n    \
         calls: [{{ tool: attempt_completion, params: {{ result: All of it. }} }}]\n"
    ));
    project.write("a.txt", "x");
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let commands = client.update("available_commands_update");
    let names = commands["availableCommands"].as_array().unwrap().iter().map(|command| &command["name"]);
    assert!(
        names.clone().any(|name| name == "condense") && names.clone().any(|name| name == "init"),
        "{commands}"
    );

    assert_eq!(client.prompt(&session, "Look at it."), "end_turn");
    assert_eq!(client.text("agent_thought_chunk"), "Hm, what is it?");
    assert_eq!(client.text("agent_message_chunk"), "I look at it.Done.");
    assert!(client.updates("user_message_chunk").is_empty(), "the client knows what its user has said");
    let call = client.updates("tool_call").remove(0);
    assert_eq!((&call["kind"], &call["name"]), (&json!("search"), &json!("list_files")));
    let last = client.updates("tool_call_update").pop().unwrap();
    assert_eq!((&last["toolCallId"], &last["status"]), (&call["toolCallId"], &json!("completed")), "{last}");
    assert_eq!(client.updates("session_info_update")[0]["title"], "Look at it.");

    assert_eq!(client.prompt(&session, "And more."), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "All of it.");
    assert!(client.leave().success());
}

#[test]
fn an_edit_is_shown_as_a_diff_and_made_when_its_user_allows_it() {
    let project = playing(&format!("{WRITES}{DONE}"));
    project.write("a.txt", "zero\n");
    configure(
        &project,
        "  - calls: [{ tool: read_file, params: { path: a.txt } }]\n  - calls: [{ tool: write_to_file, params: { path: a.txt, content: \"one\\ntwo\\n\" } }]\n  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n",
        "",
    );
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Write it.");
    let asked = client.asked_for_permission();
    let path = project.folder().join("a.txt");
    let call = &asked["params"]["toolCall"];
    let diff = &call["content"][0];
    assert_eq!((&diff["type"], &diff["path"]), (&json!("diff"), &json!(path)), "{asked}");
    assert_eq!((&diff["oldText"], &diff["newText"]), (&json!("zero\n"), &json!("one\ntwo\n")));
    assert_eq!((&call["kind"], &call["locations"]), (&json!("edit"), &json!([{ "path": path }])));
    let kinds: Vec<String> = options(&asked).into_iter().map(|(_, kind)| kind).collect();
    for kind in ["allow_once", "allow_always", "reject_once", "reject_always"] {
        assert!(kinds.iter().any(|known| known == kind), "{kind}: {asked}");
    }
    assert_eq!(project.read("a.txt"), "zero\n");
    client.choose(&asked, "allow_once");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    let of_call = |update: &Value| update["toolCallId"] == call["toolCallId"];
    let began: Vec<Value> = client.updates("tool_call").into_iter().filter(of_call).collect();
    assert_eq!(began.len(), 1, "{began:?}");
    let updates: Vec<Value> = client.updates("tool_call_update").into_iter().filter(of_call).collect();
    let statuses: Vec<&str> = updates.iter().filter_map(|update| update["status"].as_str()).collect();
    // That it runs is told with the call itself if the model has written it at once.
    assert_eq!(statuses.last(), Some(&"completed"), "{statuses:?}");
    assert_eq!(updates.last().unwrap()["content"][0]["newText"], "one\ntwo\n", "{updates:#?}");
    assert!(client.leave().success());
}

#[test]
fn what_its_user_refuses_is_not_done_and_the_model_goes_on() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Write it.");
    let asked = client.asked_for_permission();
    assert_eq!(asked["params"]["toolCall"]["content"][0].get("oldText"), None, "the file is new");
    client.choose(&asked, "reject_once");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert!(!project.folder().join("a.txt").exists());
    let told = [client.updates("tool_call"), client.updates("tool_call_update")].concat();
    assert_eq!(told.iter().filter(|update| update["status"] == "failed").count(), 1, "{told:#?}");
    assert!(client.leave().success());
}

#[test]
fn an_edit_that_needs_no_permission_is_shown_as_a_diff_too() {
    let project = playing("");
    configure(&project, &format!("{WRITES}{DONE}"), "autoApprove: { write: true }\n");
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Write it."), "end_turn");
    let updates = client.updates("tool_call_update");
    let diff = updates
        .iter()
        .find_map(|update| update["content"].as_array()?.iter().find(|part| part["type"] == "diff"));
    assert_eq!(diff.expect("there is a diff")["newText"], "one\ntwo\n");
    assert!(client.leave().success());
}

#[test]
fn a_cancelled_turn_ends_as_such_at_any_moment_and_the_session_goes_on() {
    let slow = "  - when: { notContains: Go on }\n    text: aaaaaaaaaaaaaaaaaaaaaaaaa\n    chunk: 1\n    delayMs: 60000\n";
    // While the model speaks, while permission waits, while a command runs.
    let command = "  - calls: [{ tool: execute_command, params: { command: sleep 600 } }]\n";
    for (turns, is_at_work) in [(slow, "model"), (WRITES, "permission"), (command, "command")] {
        let project = playing("");
        configure(
            &project,
            &format!("{turns}{DONE}"),
            "autoApprove: { execute: { mode: rules, allow: [[echo], [sleep], [cat]] } }\n",
        );
        let mut client = Client::initialized(&project, json!({}));
        let session = client.new_session(&project);
        let prompt = client.say(&session, "Go.");
        let asked = match is_at_work {
            "permission" => Some(client.asked_for_permission()),
            "command" => {
                // With the call itself, where it starts at once.
                client.wait_for(|message| message["params"]["update"]["status"] == "in_progress");
                None
            }
            _ => {
                client.update("session_info_update");
                None
            }
        };
        client.notify("session/cancel", json!({ "sessionId": session }));
        if let Some(asked) = asked {
            let withdrawn = client.wait_for(|message| message["method"] == "$/cancel_request");
            assert_eq!(withdrawn["params"]["requestId"], asked["id"]);
            client.answer(&asked, json!({ "outcome": { "outcome": "cancelled" } }));
        }
        assert_eq!(client.end_of_turn(prompt), "cancelled", "{is_at_work}");
        assert_eq!(client.prompt(&session, "Go on."), "end_turn", "{is_at_work}");
        assert!(client.leave().success());
    }
}

#[test]
fn a_prompt_that_its_client_withdraws_is_cancelled() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    client.asked_for_permission();
    client.notify("$/cancel_request", json!({ "requestId": prompt }));
    assert_eq!(client.end_of_turn(prompt), "cancelled");
    assert!(client.leave().success());
}

#[test]
fn a_plan_follows_the_to_do_list() {
    let project = playing(&format!(
        "  - calls: [{{ tool: update_todo_list, params: {{ todos: \"[x] One\\n[-] Two\\n[ ] Three\" }} }}]\n{DONE}"
    ));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    let plan = client.updates("plan").remove(0);
    let entries = plan["entries"].as_array().unwrap().iter();
    let entries: Vec<(&str, &str)> = entries
        .map(|entry| (entry["content"].as_str().unwrap(), entry["status"].as_str().unwrap()))
        .collect();
    assert_eq!(entries, [("One", "completed"), ("Two", "in_progress"), ("Three", "pending")]);
    assert!(client.updates("tool_call").is_empty(), "the plan tells it");
    assert!(client.leave().success());
}

#[test]
fn a_command_shows_what_it_prints_while_it_runs() {
    let project = playing("");
    let turns = format!(
        "  - calls: [{{ tool: execute_command, params: {{ command: \"echo first; echo second\" }} }}]\n{DONE}"
    );
    configure(
        &project,
        &turns,
        "autoApprove: { execute: { mode: rules, allow: [[echo], [sleep], [cat]] } }\n",
    );
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Run it."), "end_turn");
    let call = client.updates("tool_call").remove(0);
    assert_eq!(call["kind"], "execute");
    let last = client.updates("tool_call_update").pop().unwrap();
    assert_eq!(last["status"], "completed");
    let shown = last["content"][0]["content"]["text"].as_str().unwrap();
    assert!(shown.contains("first\nsecond"), "{last:#}");
    assert!(client.leave().success());
}

#[test]
fn a_branch_is_content_of_the_call_that_began_it() {
    let message = "💻 Mend the lib\\n\\nURID: {{urid}}\\n\\nMend it.\\n";
    let project = playing(&format!(
        "  - mode: orchestrator\n    calls: [{{ tool: new_task, params: {{ mode: code, message: \"{message}\" }} }}]\n  \
         - mode: code\n    text: I mend it.\n    calls: [{{ tool: list_files, params: {{ path: . }} }}]\n  \
         - mode: code\n    calls: [{{ tool: attempt_completion, params: {{ result: Mended. }} }}]\n  \
         - mode: orchestrator\n    calls: [{{ tool: attempt_completion, params: {{ result: All is well. }} }}]\n"
    ));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    client.succeed("session/set_mode", json!({ "sessionId": session, "modeId": "orchestrator" }));
    let prompt = client.say(&session, "Go.");
    while !client.unread.iter().any(|message| message["id"] == prompt) {
        let message = client
            .wait_for(|message| message["id"] == prompt || message["method"] == "session/request_permission");
        if message["id"] == prompt && message.get("method").is_none() {
            client.unread.push(message);
            break;
        }
        client.choose(&message, "allow_once");
    }
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "All is well.", "a branch speaks in its call");
    let calls = client.updates("tool_call");
    let delegation = calls.iter().find(|call| call["name"] == "new_task").unwrap();
    let listed = calls.iter().find(|call| call["name"] == "list_files").unwrap();
    let meta = &listed["_meta"]["roo"];
    assert_eq!(meta["parentToolCallId"], delegation["toolCallId"], "{listed:#}");
    assert!(meta["branch"].as_str().unwrap().contains("Mend the lib"), "{listed:#}");
    let updates = client.updates("tool_call_update");
    let last = updates.iter().rfind(|update| update["toolCallId"] == delegation["toolCallId"]).unwrap();
    assert_eq!(last["status"], "completed");
    let text = last["content"][0]["content"]["text"].as_str().unwrap();
    assert!(text.contains("I mend it.") && text.contains("Mended."), "{last:#}");
    assert!(client.leave().success());
}

#[test]
fn secrets_are_masked_in_all_that_a_client_is_told() {
    let secret = "ghp_1234567890abcdefghijklmnopqrstuvwxyz";
    let project = playing(&format!(
        "  - text: \"The key is {secret}, is it?\"\n    chunk: 3\n    calls: [{{ tool: write_to_file, params: {{ path: a.txt, content: \"key = {secret}\\n\" }} }}]\n{DONE}"
    ));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    assert!(!asked.to_string().contains(secret), "{asked:#}");
    client.choose(&asked, "allow_once");
    client.end_of_turn(prompt);
    assert!(client.text("agent_message_chunk").contains("[masked:"));
    assert!(
        client.unread.iter().all(|message| !message.to_string().contains(secret)),
        "{:#?}",
        client.unread
    );
    assert!(project.read("a.txt").contains(secret), "the file has it");
    assert!(client.leave().success());
}

#[test]
fn secrets_are_masked_before_a_text_is_cut_and_in_what_lists_sessions() {
    let secret = "ghp_1234567890abcdefghijklmnopqrstuvwxyz";
    // It stands where titles end.
    let command = format!("echo {} {secret}", "a".repeat(180));
    let project = playing(&format!(
        "  - calls: [{{ tool: execute_command, params: {{ command: \"{command}\" }} }}]\n{DONE}"
    ));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, &format!("Go with {secret}."));
    let asked = client.asked_for_permission();
    client.choose(&asked, "reject_once");
    client.end_of_turn(prompt);
    let listed = client.succeed("session/list", json!({ "cwd": project.folder() }));
    assert!(listed["sessions"][0]["title"].as_str().unwrap().contains("[masked:"), "{listed}");
    let updates = client.unread.iter().filter(|message| message["method"] == "session/update");
    for told in updates {
        assert!(!told.to_string().contains("ghp_"), "{told:#}");
    }
    assert!(client.leave().success());
}

#[test]
fn secrets_of_all_folders_are_masked() {
    let secret = "plum-tree-7-violin";
    let project = playing(&format!(
        "  - text: \"It is {secret}.\"\n    calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]\n"
    ));
    let other = project.folder().with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join(".env"), format!("API_TOKEN={secret}\n")).unwrap();
    let mut client = Client::initialized(&project, json!({}));
    let folders = json!({ "cwd": project.folder(), "additionalDirectories": [other], "mcpServers": [] });
    let session = client.succeed("session/new", folders)["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    let said = client.text("agent_message_chunk");
    assert!(!said.contains(secret) && said.contains("[masked:"), "{said}");
    assert!(client.leave().success());
}
