//! The whole way: a plain JSON-RPC client over standard input and output, the real program, and a model
//! endpoint on loopback, in every wire format and tool protocol.

use std::fs;

use serde_json::{Value, json};

use crate::support::assert_gapless;
use crate::support::client::{Client, Home, Options};
use crate::support::model_server::{Answer, FORMATS, ModelServer, base_url, body};

/// The model reads, edits and runs; the command shows what it saw.
fn answers(provider: &str, protocol: &str) -> Vec<Answer> {
    let diff = "<<<<<<< SEARCH\ntyped, not saved\n=======\nedited by the agent\n>>>>>>> REPLACE";
    let turns = [
        ("I read.", "read_file", json!({ "path": "a.txt" })),
        ("I edit.", "apply_diff", json!({ "path": "a.txt", "diff": diff })),
        ("I run.", "execute_command", json!({ "command": "cp a.txt seen.txt" })),
        ("", "attempt_completion", json!({ "result": "Done." })),
    ];
    turns
        .into_iter()
        .map(|(text, tool, params)| Answer::stream(body(provider, protocol, text, &[(tool, params)])))
        .collect()
}

fn home(provider: &str, protocol: &str, server: &ModelServer) -> Home {
    let home = Home::new();
    let url = base_url(provider, &server.url());
    // Each command asks as it is.
    let profile = json!({ "autoApprove": { "execute": { "mode": "rules" } }, "profiles": { "default": {
        "provider": provider, "baseUrl": url, "model": "m", "toolProtocol": protocol,
    } } });
    fs::write(home.config_file(), profile.to_string()).unwrap();
    fs::write(home.work("a.txt"), "on disk\n").unwrap();
    home
}

fn allow(client: &mut Client, asked: &Value) {
    let answer = json!({
        "approvalId": asked["event"]["approvalId"], "digest": asked["event"]["digest"], "optionId": "allow_once",
    });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
}

#[test]
fn a_buffer_is_read_and_edited_and_a_command_sees_it_over_a_kill() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (provider, protocol) in FORMATS {
        let place = format!("{provider} {protocol}");
        let mut server = runtime.block_on(ModelServer::start(answers(provider, protocol)));
        let home = home(provider, protocol, &server);
        let mut client = Client::start(&home, Options::typed());
        let uri = client.open(&home.work("a.txt"), "typed, not saved\n");
        let task = client.start_task("Change the line");

        let edit = client.event("approval.requested");
        assert_eq!(edit["event"]["title"], "Edit a.txt", "{place}");
        let diff = edit["event"]["subject"].as_str().unwrap();
        assert!(diff.contains("-typed, not saved\n+edited by the agent\n"), "{place}: {diff}");
        runtime.block_on(server.request());
        let second = runtime.block_on(server.request()).body.to_string();
        assert!(second.contains("typed, not saved"), "{place}: the model read the buffer: {second}");
        allow(&mut client, &edit);
        let applied = client.event("edit.applied");
        assert_eq!(applied["event"]["uri"], uri, "{place}");
        assert_eq!(client.documents[&uri].text, "edited by the agent\n", "{place}");
        assert_eq!(client.documents[&uri].version, 2, "{place}");
        assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), "on disk\n", "{place}: the editor saves");

        let run = client.event("approval.requested");
        assert_eq!(run["event"]["title"], "Run cp a.txt seen.txt", "{place}");
        let live = client.numbered(&task);
        assert_gapless(&live, 1);
        client.kill();

        // The editor restarts the server and opens its document again.
        let mut client = Client::start(&home, Options::typed());
        client.open(&home.work("a.txt"), "edited by the agent\n");
        client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
        client.state("interrupted");
        let replayed = client.numbered(&task);
        assert_gapless(&replayed, 1);
        assert_eq!(replayed[..live.len()], live, "{place}: the same events again");
        let snapshot = client.request("roo/task/get", json!({ "taskId": task }));
        assert_eq!(snapshot["approval"]["approvalId"], run["event"]["approvalId"], "{place}");

        client.request("roo/task/resume", json!({ "taskId": task }));
        let again = client.wait_for("the approval again", |message| {
            message["params"]["event"]["type"] == "approval.requested"
                && message["params"]["seq"].as_u64() > replayed.last().unwrap()["seq"].as_u64()
        })["params"]
            .clone();
        assert_eq!(
            again["event"]["approvalId"], run["event"]["approvalId"],
            "{place}: an equal action keeps its id"
        );
        allow(&mut client, &again);
        assert_eq!(client.state("completed")["event"]["result"], "Done.", "{place}");
        assert_eq!(fs::read_to_string(home.work("seen.txt")).unwrap(), "edited by the agent\n", "{place}");
        assert_gapless(&client.numbered(&task), 1);
        assert_eq!(client.shut_down(), 0);
    }
}

#[test]
fn a_missing_key_and_a_lying_endpoint_are_told_where_the_task_is_shown() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let cases = [
        Answer::status(200, &["content-type: text/html"], "<html>hello</html>"),
        Answer::status(404, &[], "no such model"),
    ];
    for answer in cases {
        let server = runtime.block_on(ModelServer::start([answer]));
        let home = home("anthropic", "native", &server);
        let mut client = Client::start(&home, Options::typed());
        let task = client.start_task("Go");
        let told = client.event("question.asked")["event"].to_string();
        assert!(told.contains(&server.url()), "{told}");
        client.request("roo/task/cancel", json!({ "taskId": task }));
        client.state("cancelled");
        assert_eq!(client.shut_down(), 0);
    }

    let home = Home::new();
    let profile = "profiles: { default: { provider: anthropic, model: m, apiKeyEnv: NO_SUCH_KEY } }";
    fs::write(home.config_file(), profile).unwrap();
    let mut client = Client::start(&home, Options::typed());
    client.start_task("Go");
    let told = client.event("question.asked")["event"]["text"].as_str().unwrap().to_owned();
    assert!(told.contains("NO_SUCH_KEY"), "{told}");
    assert_eq!(client.shut_down(), 0);
}
