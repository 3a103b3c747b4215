//! The connection itself: what comes first, what is damaged, and its end.

use std::io::Write as _;
use std::process::Stdio;
use std::sync::mpsc::channel;

use serde_json::{Value, json};

use super::client::Client;
use super::{DONE, WRITES, playing};
use crate::support::client::DEADLINE;
use crate::support::project::Project;

#[test]
fn an_agent_says_what_it_can_do() {
    let project = playing(DONE);
    let mut client = Client::start(&project);
    let initialized = client.initialize(json!({}));
    assert_eq!(initialized["protocolVersion"], 1);
    assert_eq!(initialized["agentInfo"]["name"], "roo-lsp");
    let capabilities = &initialized["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(capabilities["promptCapabilities"]["image"], true);
    assert_eq!(capabilities["promptCapabilities"]["embeddedContext"], true);
    assert_eq!(initialized.get("authMethods").cloned().unwrap_or(json!([])), json!([]), "a model is set up");
    assert!(client.leave().success());
}

#[test]
fn a_client_of_a_later_version_gets_ours() {
    let project = playing(DONE);
    let mut client = Client::start(&project);
    let params = json!({ "protocolVersion": 7, "clientCapabilities": {} });
    assert_eq!(client.succeed("initialize", params)["protocolVersion"], 1);
    assert!(client.leave().success());
}

#[test]
fn without_a_model_its_user_is_told_to_set_one_up() {
    let project = Project::new(&[]);
    project.configure("mode: code\n");
    let mut client = Client::start(&project);
    let initialized = client.initialize(json!({ "auth": { "terminal": true } }));
    let methods = initialized["authMethods"].as_array().unwrap();
    assert_eq!((&methods[0]["type"], &methods[0]["args"]), (&json!("terminal"), &json!(["--setup"])));
    assert!(methods[1]["description"].as_str().unwrap().contains("roo-lsp setup"), "{methods:?}");
    for (method, params) in [
        ("session/new", json!({ "cwd": project.folder(), "mcpServers": [] })),
        ("authenticate", json!({ "methodId": "setup" })),
    ] {
        let error = client.refused(method, params);
        assert_eq!(error["code"], -32000, "{error}");
        assert!(error["message"].as_str().unwrap().contains("roo-lsp setup"), "{error}");
    }
    // In the meantime its user has.
    let script = project.script(&format!("turns:\n{DONE}"));
    project.configure(&format!(
        "mode: code\nprofiles:\n  default: {{ provider: scripted, script: {} }}\n",
        script.display()
    ));
    client.succeed("authenticate", json!({ "methodId": "setup" }));
    let session = client.new_session(&project);
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    assert!(client.leave().success());
}

#[test]
fn damaged_frames_are_answered_and_change_nothing() {
    let project = playing(DONE);
    let mut client = Client::start(&project);
    let early = client.refused("session/new", json!({ "cwd": project.folder(), "mcpServers": [] }));
    assert_eq!(early["code"], -32600, "{early}");
    client.initialize(json!({}));
    for (line, code) in [
        ("{", -32700),
        ("nothing", -32700),
        ("[]", -32600),
        ("17", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"session/list"}]"#, -32600),
    ] {
        client.write_line(line);
        let answer = client.wait_for(|message| message["id"].is_null() && message.get("method").is_none());
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
    }
    client.write_line("");
    client.write_line(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"nobody"}}"#);
    client.write_line(r#"{"jsonrpc":"2.0","method":"session/cancel","params":7}"#);
    client.write_line(r#"{"jsonrpc":"2.0","method":"nobody/knows","params":{}}"#);
    client.write_line(r#"{"jsonrpc":"2.0","id":99,"result":{}}"#);
    for (method, params, code) in [
        ("nobody/knows", json!({}), -32601),
        ("session/new", json!({ "cwd": 7 }), -32602),
        ("session/new", json!({ "cwd": "relative", "mcpServers": [] }), -32602),
        ("session/new", json!({ "cwd": project.folder().join("gone"), "mcpServers": [] }), -32602),
        ("session/prompt", json!({ "sessionId": "nobody", "prompt": [] }), -32002),
        (
            "session/load",
            json!({ "sessionId": "../../etc", "cwd": project.folder(), "mcpServers": [] }),
            -32002,
        ),
        ("session/set_mode", json!({ "sessionId": "nobody", "modeId": "code" }), -32002),
        ("authenticate", json!({ "methodId": "nobody" }), -32602),
    ] {
        let error = client.refused(method, params.clone());
        assert_eq!(error["code"], code, "{method} {params}: {error}");
    }
    let session = client.new_session(&project);
    for prompt in [json!([]), json!([{ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" }])] {
        let error = client.refused("session/prompt", json!({ "sessionId": session, "prompt": prompt }));
        assert_eq!(error["code"], -32602, "{error}");
    }
    assert_eq!(client.prompt(&session, "Go."), "end_turn");
    assert!(client.leave().success());
}

#[test]
fn a_line_of_bytes_that_are_no_text_is_skipped() {
    let project = playing(DONE);
    let mut client = Client::start(&project);
    client.write_bytes(b"\xff\xfe\n");
    let answer = client.wait_for(|message| message["error"]["code"] == -32700);
    assert!(answer["id"].is_null());
    client.initialize(json!({}));
    assert!(client.leave().success());
}

#[test]
fn a_client_that_goes_leaves_a_request_that_can_be_resumed() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    client.say(&session, "Go.");
    client.asked_for_permission();
    assert!(client.leave().success());
    let listed = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(item["state"], "interrupted", "{item:#}");
    project.succeed(&["tasks", "resume", &session, "--on-ask", "allow"]);
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
}

#[test]
fn an_agent_that_is_killed_leaves_a_request_that_a_session_goes_on_with() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    client.say(&session, "Go.");
    client.asked_for_permission();
    client.kill();

    let mut client = Client::initialized(&project, json!({}));
    let params = json!({ "sessionId": session, "cwd": project.folder(), "mcpServers": [] });
    client.succeed("session/load", params);
    assert_eq!(client.text("user_message_chunk"), "Go.");
    let prompt = client.say(&session, "Go on.");
    let asked = client.asked_for_permission();
    client.choose(&asked, "allow_once");
    assert_eq!(client.end_of_turn(prompt), "end_turn");
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    assert!(client.leave().success());
}

#[test]
fn an_agent_ends_when_its_client_has_gone_and_reads_nothing() {
    let project = playing(DONE);
    let mut command = project.program();
    let mut agent = command
        .arg("acp")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = agent.stdin.take().unwrap();
    let unread = agent.stdout.take().unwrap();
    // More answers than fit into a pipe.
    for id in 0..10_000 {
        writeln!(input, r#"{{"jsonrpc":"2.0","id":{id},"method":"nobody/knows","params":{{}}}}"#).unwrap();
    }
    drop(input);
    let (ended, end) = channel();
    std::thread::spawn(move || ended.send(agent.wait()));
    let status = end.recv_timeout(DEADLINE);
    // Where it has not ended, it does now.
    drop(unread);
    assert!(status.expect("it ends").unwrap().success());
}

#[test]
fn an_agent_that_is_told_to_end_says_so_and_keeps_its_request() {
    let project = playing(&format!("{WRITES}{DONE}"));
    let mut client = Client::initialized(&project, json!({}));
    let session = client.new_session(&project);
    client.say(&session, "Go.");
    client.asked_for_permission();
    assert_eq!(client.terminate().code(), Some(143));
    let listed = project.succeed(&["tasks", "list", "--json"]);
    let item: Value = serde_json::from_str(listed.lines().next().unwrap()).unwrap();
    assert_eq!(item["state"], "interrupted", "{item:#}");
}

#[test]
fn a_settings_file_that_is_named_must_be_there() {
    let project = playing(DONE);
    let output = project.run(&["--config", "nowhere.yaml", "acp"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && told.contains("nowhere.yaml"), "{told}");
}
