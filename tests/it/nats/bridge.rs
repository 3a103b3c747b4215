//! `roo-lsp bridge`: an instance registers and lives, runs what it is told, and takes answers.

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Broker, DONE, Program, ask, next, playing};
use crate::support::project::Project;

const WRITES: &str = "  - calls: [{ tool: write_to_file, params: { path: b.txt, content: \"new\\n\" } }]\n";
const ASKS: &str = "  - calls: [{ tool: ask_followup_question, params: { question: Which one?, follow_up: [{ text: First }] } }]\n";

fn bridge(project: &Project, broker: &Broker, flags: &[&str]) -> Program {
    let mut command = project.program();
    command.args(["bridge", "--server", &broker.url(), "--instance", "desk"]).args(flags);
    Program::start(&mut command, "is connected")
}

async fn say(client: &async_nats::Client, channel: &str, message: &Value) -> Value {
    ask(client, &format!("roo.bridge.desk.{channel}"), message.to_string().as_bytes()).await
}

async fn start(client: &async_nats::Client) -> String {
    let command = json!({ "type": "start_task", "instanceId": "desk", "payload": { "text": "Do it." } });
    let started = say(client, "command", &command).await;
    assert_eq!(started["success"], true, "{started}");
    started["result"]["taskId"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn an_instance_registers_lives_and_runs_what_it_is_told() {
    let broker = Broker::start();
    let client = broker.connect().await;
    let mut told = client.subscribe("roo.bridge.desk.>").await.unwrap();
    client.flush().await.unwrap();
    let project = playing(DONE);
    let bridge = bridge(&project, &broker, &["--heartbeat", "1"]);

    let (_, record) = next(&mut told, ".register").await;
    assert_eq!((&record["instanceId"], &record["mode"]), (&json!("desk"), &json!("code")));
    assert_eq!(record["workspacePath"], project.folder().to_str().unwrap());
    assert!(record["modes"].as_array().unwrap().iter().any(|mode| mode["slug"] == "architect"), "{record}");
    assert_eq!(record["providerProfiles"], json!([{ "name": "default", "provider": "scripted" }]));

    let task = start(&client).await;
    let (_, created) = next(&mut told, ".event").await;
    assert_eq!((&created["type"], &created["payload"]), (&json!("taskCreated"), &json!([task])));
    loop {
        let (subject, event) = next(&mut told, ".event").await;
        if event["type"] == "message" {
            assert_eq!(subject, format!("roo.bridge.desk.task.{task}.event"));
        }
        if event["type"] == "taskCompleted" {
            assert_eq!(event["payload"][0], json!(task));
            break;
        }
    }
    let (_, record) = next(&mut told, ".heartbeat").await;
    assert_eq!(record["task"]["taskId"], json!(task));

    let state = say(&client, "state", &json!({})).await;
    assert_eq!(state["result"]["taskHistory"], json!([task]));
    let joined = say(&client, &format!("task.{task}.join"), &json!({})).await;
    assert_eq!(joined["result"]["state"], "completed");
    assert_eq!(joined["result"]["messages"][0]["text"], "Do it.");
    let left = say(&client, &format!("task.{task}.leave"), &json!({})).await;
    assert_eq!(left["success"], true, "{left}");

    assert_eq!(bridge.end(Signal::TERM).0, Some(143));
    let (_, record) = next(&mut told, ".unregister").await;
    assert_eq!(record["instanceId"], "desk");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn an_action_is_allowed_from_elsewhere_only_by_name_and_where_the_user_lets_it() {
    for takes_approvals in [false, true] {
        let broker = Broker::start();
        let client = broker.connect().await;
        let mut told = client.subscribe("roo.bridge.desk.>").await.unwrap();
        client.flush().await.unwrap();
        let project = playing(&format!("{WRITES}{DONE}"));
        let flags: &[&str] = if takes_approvals { &["--remote-approvals"] } else { &[] };
        let _bridge = bridge(&project, &broker, flags);
        let task = start(&client).await;
        let approval = loop {
            let (_, event) = next(&mut told, ".event").await;
            if event["type"] == "taskInteractive" {
                break event["approval"].clone();
            }
        };
        let channel = format!("task.{task}.command");
        let blind = say(&client, &channel, &json!({ "type": "approve_ask", "payload": {} })).await;
        assert!(blind["error"].as_str().unwrap().contains("approvalId"), "{blind}");
        let named = json!({ "approvalId": approval["approvalId"], "digest": approval["digest"] });
        let other =
            json!({ "approvalId": approval["approvalId"], "digest": format!("sha256:{}", "0".repeat(64)) });
        let exchanged = say(&client, &channel, &json!({ "type": "deny_ask", "payload": other })).await;
        assert_eq!(exchanged["success"], false, "{exchanged}");
        let answer = say(&client, &channel, &json!({ "type": "approve_ask", "payload": named })).await;
        assert_eq!(answer["success"], takes_approvals, "{answer}");
        if !takes_approvals {
            let denied = say(&client, &channel, &json!({ "type": "deny_ask", "payload": named })).await;
            assert_eq!(denied["success"], true, "{denied}");
        }
        loop {
            let (_, event) = next(&mut told, ".event").await;
            if event["type"] == "taskCompleted" {
                break;
            }
        }
        assert_eq!(project.read("b.txt"), if takes_approvals { "new\n" } else { "" });
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn a_question_is_answered_and_a_task_stopped_from_elsewhere() {
    let broker = Broker::start();
    let client = broker.connect().await;
    let mut told = client.subscribe("roo.bridge.desk.>").await.unwrap();
    client.flush().await.unwrap();
    let project = playing(&format!("{ASKS}{ASKS}"));
    let _bridge = bridge(&project, &broker, &[]);
    let task = start(&client).await;
    let mut until = async |kind: &str| loop {
        let (_, event) = next(&mut told, ".event").await;
        if event["type"] == kind {
            return event;
        }
    };
    assert_eq!(until("taskInteractive").await["question"]["text"], "Which one?");
    let words = json!({ "type": "message", "payload": { "text": "First" } });
    let said = say(&client, &format!("task.{task}.command"), &words).await;
    assert_eq!(said["success"], true, "{said}");
    until("taskInteractive").await;
    let stop = json!({ "type": "stop_task", "instanceId": "desk", "payload": { "taskId": task } });
    assert_eq!(say(&client, "command", &stop).await["success"], true);
    assert_eq!(until("taskAborted").await["payload"], json!([task]));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn what_is_no_command_is_refused_and_the_bridge_lives() {
    let broker = Broker::start();
    let client = broker.connect().await;
    let project = playing(DONE);
    let bridge = bridge(&project, &broker, &[]);
    for message in [&b"{"[..], b"\xff\xfe", b"[]", br#"{"type":"format_disk","payload":{}}"#] {
        let answer = ask(&client, "roo.bridge.desk.command", message).await;
        assert_eq!(answer["success"], false, "{answer}");
    }
    let missing = "roo.bridge.desk.task.0190a5c0-0000-7000-8000-000000000001.join";
    assert_eq!(ask(&client, missing, b"").await["success"], false);
    start(&client).await;
    let (code, said) = bridge.end(Signal::INT);
    assert_eq!(code, Some(130));
    assert!(said.contains("was refused"), "{said}");
}
