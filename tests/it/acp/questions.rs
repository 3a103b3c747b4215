//! Questions to a client's user, and trust.

use serde_json::{Value, json};

use super::client::Client;
use super::{ASKS, DONE, WRITES, configure, options, playing, untrusted};
use crate::mcp::{ASKING, configuration};
use crate::support::project::Project;

/// Answers a question of the model by what was said.
const TOOK: &str = "  - when: { contains: Second }\n    calls: [{ tool: attempt_completion, params: { result: Took it. } }]\n";

#[test]
fn a_question_of_the_model_is_answered_by_an_option() {
    let project = playing(&format!("{ASKS}{TOOK}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    let names: Vec<&str> = asked["params"]["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["First", "Second", "Answer in the chat"]);
    client.choose(&asked, "1");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    let text = client.text("agent_message_chunk");
    assert!(text.starts_with("Which one?") && text.ends_with("Took it."), "{text}");
    assert!(client.leave().success());
}

#[test]
fn a_question_can_be_answered_by_what_is_said_next() {
    let project = playing(&format!("{ASKS}{TOOK}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    client.choose(&asked, "in_words");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(client.prompt(&session, "The Second."), "end_turn");
    assert!(client.text("agent_message_chunk").ends_with("Took it."));
    assert!(client.leave().success());
}

#[test]
fn a_client_with_forms_shows_one() {
    let project = playing(&format!("{ASKS}{TOOK}"));
    let mut client = Client::initialized(&project, json!({ "elicitation": { "form": {} } }));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.wait_for(|message| message["method"] == "elicitation/create");
    assert_eq!(
        (&asked["params"]["message"], &asked["params"]["sessionId"]),
        (&json!("Which one?"), &json!(session))
    );
    client.answer(&asked, json!({ "action": "accept", "content": { "answer": "Second" } }));
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert!(client.text("agent_message_chunk").ends_with("Took it."));
    assert!(client.leave().success());
}

#[test]
fn a_client_that_can_not_ask_allows_nothing() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    let error = json!({ "code": -32601, "message": "Method not found" });
    client.write(&json!({ "jsonrpc": "2.0", "id": asked["id"], "error": error }));
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert!(!project.folder().join("a.txt").exists());
    assert!(client.leave().success());
}

#[test]
fn an_answer_that_is_no_option_allows_nothing_and_is_asked_again() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    client.choose(&asked, "allow_everything");
    let again = client.asked_for_permission();
    assert!(!project.folder().join("a.txt").exists());
    client.choose(&again, "reject_once");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert!(client.leave().success());
}

#[test]
fn a_standing_answer_counts_for_the_next_call() {
    let other = "  - calls: [{ tool: write_to_file, params: { path: b.txt, content: x } }]\n";
    let project = playing(&format!("{WRITES}{other}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    assert!(
        asked["params"]["toolCall"]["content"].to_string().contains("until you revoke it"),
        "the scope is told: {asked:#}"
    );
    client.choose(&asked, "allow_always");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(project.read("b.txt"), "x");
    assert!(client.leave().success());
}

#[test]
fn a_used_up_budget_is_asked_about_and_else_ends_the_turn() {
    let project = playing("");
    let look = "  - calls: [{ tool: list_files, params: { path: . } }]\n";
    configure(&project, &format!("{look}{look}{DONE}"), "limits: { requests: 1 }\n");
    let mut client = Client::initialized(&project, json!({ "elicitation": { "form": {} } }));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.wait_for(|message| message["method"] == "elicitation/create");
    let choices = &asked["params"]["requestedSchema"]["properties"]["answer"]["oneOf"];
    assert!(choices.as_array().unwrap().iter().any(|choice| choice["const"] == "Stop"), "{asked:#}");
    client.answer(&asked, json!({ "action": "cancel" }));
    assert_eq!(client.end_of_turn(prompt), "max_turn_requests");
    assert!(client.leave().success());
}

#[test]
fn a_workspace_that_is_not_trusted_is_asked_about_once() {
    for (option, is_trusted) in [("trust", true), ("no_trust", false)] {
        let project = untrusted(&format!("{DONE}{DONE}"));
        project.write(".roo/rules/a.md", "Be kind.");
        let mut client = Client::initialized(&project, json!({}));
        let session = client.new_session(&project);
        let prompt = client.say(&session, "Go.");
        let asked = client.asked_for_permission();
        assert_eq!(asked["params"]["toolCall"]["title"], "Trust this workspace?");
        assert_eq!(options(&asked).len(), 2);
        client.choose(&asked, option);
        assert_eq!(client.end_of_turn(prompt), "end_turn");
        assert_eq!(client.prompt(&session, "Again."), "end_turn");
        assert_eq!(
            client.unread.iter().filter(|message| message["method"] == "session/request_permission").count(),
            0
        );
        assert!(client.leave().success());
        let told = project.succeed(&["trust", "--show"]);
        assert_eq!(told.contains("not trusted"), !is_trusted, "{told}");
    }
}

#[test]
fn a_turn_that_waits_for_trust_can_be_cancelled() {
    let project = untrusted(DONE);
    project.write(".roo/rules/a.md", "Be kind.");
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    client.asked_for_permission();
    client.notify("session/cancel", json!({ "sessionId": session }));
    assert_eq!(client.end_of_turn(prompt), "cancelled");
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    assert!(client.leave().success());
}

#[test]
fn nothing_is_said_to_the_model_where_the_question_about_trust_is_cancelled() {
    let project = untrusted(DONE);
    project.write(".roo/rules/a.md", "Be kind.");
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    client.answer(&asked, json!({ "outcome": { "outcome": "cancelled" } }));
    assert_eq!(client.end_of_turn(prompt), "cancelled");
    assert!(client.leave().success());
    assert!(project.logs().is_empty());
}

#[test]
fn a_failed_model_request_can_be_tried_again() {
    let project = playing(DONE);
    // The script has nothing for the first request.
    configure(&project, "  - when: { contains: nothing says this }\n    text: x\n", "");
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    let kinds: Vec<String> = options(&asked).into_iter().map(|(_, kind)| kind).collect();
    assert_eq!(kinds, ["allow_once", "reject_once"], "{asked:#}");
    client.choose(&asked, "1");
    let ended: Value = client.answer_to(prompt);
    assert!(ended.get("error").is_some() || ended["result"]["stopReason"] == "cancelled", "{ended}");
    assert!(client.leave().success());
}

/// A request whose branch asks which one, and takes the second.
const BRANCH_ASKS: &str = "  - mode: orchestrator
    calls: [{ tool: new_task, params: { mode: code, message: \"💻 Mend the lib\\n\\nURID: {{urid}}\\n\\nMend it.\\n\" } }]
  - mode: code
    calls: [{ tool: ask_followup_question, params: { question: Which one?, follow_up: [{ text: First }, { text: Second }] } }]
  - mode: code
    when: { contains: Second }
    calls: [{ tool: attempt_completion, params: { result: Took it. } }]
  - mode: orchestrator
    calls: [{ tool: attempt_completion, params: { result: All is well. } }]
";

/// Has a branch begin whose question is open, and returns session, prompt and question.
fn asking_branch(client: &mut Client, project: &Project) -> (String, i64, Value) {
    let session = client.new_session(project);
    client.succeed("session/set_mode", json!({ "sessionId": session, "modeId": "orchestrator" }));
    let prompt = client.say(&session, "Go.");
    loop {
        let asked = client.asked_for_permission();
        if options(&asked).iter().any(|(id, _)| id == "in_words") {
            return (session, prompt, asked);
        }
        client.choose(&asked, "allow_once");
    }
}

#[test]
fn a_question_of_a_branch_can_be_answered_by_what_is_said_next() {
    let project = playing(BRANCH_ASKS);
    let mut client = Client::initialized(&project, json!({}));
    let (session, prompt, asked) = asking_branch(&mut client, &project);
    client.choose(&asked, "in_words");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(client.prompt(&session, "The Second."), "end_turn");
    assert!(client.text("agent_message_chunk").ends_with("All is well."));
    assert!(client.leave().success());
}

#[test]
fn a_question_of_a_branch_is_asked_when_its_session_is_loaded_and_goes_on() {
    for method in ["session/load", "session/resume"] {
        let project = playing(BRANCH_ASKS);
        let mut client = Client::initialized(&project, json!({}));
        let (session, _, _) = asking_branch(&mut client, &project);
        client.kill();

        let mut client = Client::initialized(&project, json!({}));
        let params = json!({ "sessionId": session, "cwd": project.folder(), "mcpServers": [] });
        client.succeed(method, params);
        let prompt = client.say(&session, "Go on.");
        let asked = client.asked_for_permission();
        client.choose(&asked, "1");
        assert_eq!(client.end_of_turn(prompt), "end_turn", "{method}");
        assert!(client.text("agent_message_chunk").ends_with("All is well."), "{method}");
        assert!(client.leave().success());
    }
}

#[test]
#[ignore = "needs Python or Node.js; ./scripts/test runs it"]
fn what_a_server_asks_is_answered_in_a_form_and_never_by_what_is_said_next() {
    let turns = "  - calls: [{ tool: mcp__fake__form, params: {} }]
  - when: { contains: '{\"action\": \"decline\"}', status: ok }
    calls: [{ tool: attempt_completion, params: { result: Declined. } }]
";
    let project = playing("");
    configure(&project, turns, "autoApprove: { mcp: true }\n");
    project.write("server.py", ASKING);
    let file = project.beside("config/roo-lsp/mcp.json");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(file, configuration("server.py")).unwrap();
    let mut client = Client::initialized(&project, json!({ "elicitation": { "form": {} } }));
    let session = client.new_session(&project);
    let prompt = client.say(&session, "Go.");
    let asked = client.wait_for(|message| message["method"] == "elicitation/create");
    let field = &asked["params"]["requestedSchema"]["properties"]["answer"];
    assert_eq!(field.get("oneOf"), None, "any text can be given: {asked:#}");
    client.answer(&asked, json!({ "action": "cancel" }));
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "Declined.");
    assert!(client.leave().success());
}

#[test]
fn a_prompt_behind_a_cancelled_turn_is_a_turn_of_its_own() {
    let slow = "  - when: { notContains: Go on }\n    text: aaaaaaaaaaaaaaaaaaaaaaaaa\n    chunk: 1\n    delayMs: 60000\n";
    let project = playing(&format!("{slow}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let cancelled = client.say(&session, "Go.");
    client.update("session_info_update");
    client.notify("session/cancel", json!({ "sessionId": session }));
    let next = client.say(&session, "Go on.");
    assert_eq!(client.end_of_turn(cancelled), "cancelled");
    assert_eq!(client.end_of_turn(next), "end_turn");
    assert_eq!(client.text("agent_message_chunk"), "Done.");
    assert!(client.leave().success());
}

#[test]
fn all_prompts_are_answered_where_the_request_can_not_begin() {
    let project = untrusted(DONE);
    project.write(".roo/rules/a.md", "Be kind.");
    let script = project.script(&format!("turns:\n{DONE}"));
    let profile = format!("{{ provider: scripted, script: {} }}", script.display());
    let settings = |profiles: &str| format!("mode: code\nprofiles:\n  default: {profile}\n{profiles}");
    project.configure(&settings(&format!("  other: {profile}\n")));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    let other = json!({ "sessionId": session, "configId": "model", "value": "other" });
    client.succeed("session/set_config_option", other);
    let first = client.say(&session, "Go.");
    let asked = client.asked_for_permission();
    let second = client.say(&session, "And more.");
    // The profile that it is to begin with is gone. The file isn't shorter, as if it were being saved.
    project.configure(&settings(&format!("  another: {profile}\n")));
    client.choose(&asked, "no_trust");
    for prompt in [first, second] {
        let answer = client.answer_to(prompt);
        assert!(answer.get("error").is_some(), "{answer}");
    }
    assert!(client.leave().success());
}
