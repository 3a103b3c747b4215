//! How often models are asked, as users meet it: the real program with several tasks, and an endpoint on loopback.

use std::fs;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::client::{Client, Home, Options, eventually};
use crate::support::model_server::{Answer, ModelServer, base_url, body};

fn done() -> Answer {
    let call = ("attempt_completion", json!({ "result": "Done." }));
    Answer::stream(body("openai", "native", "", &[call]))
}

/// A home whose profiles ask this endpoint: `default` with these fields, and `other` without any.
fn home(server: &ModelServer, fields: Value) -> Home {
    let home = Home::new();
    let other = json!({ "provider": "openai", "baseUrl": base_url("openai", &server.url()), "model": "m" });
    let mut default = other.clone();
    default.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let settings = json!({ "mode": "code", "profiles": { "default": default, "other": other } });
    fs::write(home.config_file(), settings.to_string()).unwrap();
    home
}

fn start(client: &mut Client, profile: &str) -> String {
    let params = json!({ "prompt": "Go", "mode": "code", "profile": profile });
    client.request("roo/task/start", params)["taskId"].as_str().unwrap().to_owned()
}

fn is_of(task: &str, kind: &str, message: &Value) -> bool {
    message["params"]["taskId"] == *task && message["params"]["event"]["type"] == *kind
}

#[test]
fn two_tasks_share_the_time_between_requests_and_the_second_says_how_long_it_waits() {
    let runtime = Runtime::new().unwrap();
    let mut server = runtime.block_on(ModelServer::start([done(), done()]));
    let home = home(&server, json!({ "rateLimitSeconds": 3 }));
    let mut client = Client::start(&home, Options::typed());
    start(&mut client, "default");
    let created = client.event("task.created")["at"].as_i64().unwrap();
    runtime.block_on(server.request());
    let second = start(&mut client, "default");
    let told = client.wait_for("the wait", |message| is_of(&second, "retry.scheduled", message));
    let (event, at) = (&told["params"]["event"], told["params"]["at"].as_i64().unwrap());
    assert_eq!(event["attempt"], 1, "it has not failed");
    assert_eq!(event["reason"], "`rateLimitSeconds` of the profile default spaces out requests.");
    let due = event["at"].as_i64().unwrap();
    assert!(due >= created + 3000 && (0..=3000).contains(&(due - at)), "{created} {at} {due}");
    runtime.block_on(server.request());
    assert!(jiff::Timestamp::now().as_millisecond() >= due, "it waits as long as it says");
    client.wait_for("the end of the second task", |message| {
        is_of(&second, "task.state", message) && message["params"]["event"]["state"] == "completed"
    });
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_task_that_waits_for_its_turn_is_cancelled_at_once() {
    let runtime = Runtime::new().unwrap();
    let mut server = runtime.block_on(ModelServer::start([done(), done()]));
    let home = home(&server, json!({ "requestsPerMinute": 1 }));
    let mut client = Client::start(&home, Options::typed());
    start(&mut client, "default");
    runtime.block_on(server.request());
    let second = start(&mut client, "default");
    client.wait_for("the wait", |message| is_of(&second, "retry.scheduled", message));
    client.request("roo/task/cancel", json!({ "taskId": second }));
    client.wait_for("the end", |message| {
        is_of(&second, "task.state", message) && message["params"]["event"]["state"] == "cancelled"
    });
    // Who has no limit does not wait for those who have one.
    let third = start(&mut client, "other");
    client.wait_for("the end of the third task", |message| {
        is_of(&third, "task.state", message) && message["params"]["event"]["state"] == "completed"
    });
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn an_endpoint_that_wants_a_pause_gets_it_from_all_tasks() {
    let runtime = Runtime::new().unwrap();
    let busy = Answer::status(429, &["retry-after: 3"], "slow down");
    let mut server = runtime.block_on(ModelServer::start([busy, done(), done()]));
    let home = home(&server, json!({}));
    let mut client = Client::start(&home, Options::typed());
    let first = start(&mut client, "default");
    client.wait_for("the refusal", |message| is_of(&first, "retry.scheduled", message));
    let second = start(&mut client, "other");
    let told = client.wait_for("the wait", |message| is_of(&second, "retry.scheduled", message));
    assert_eq!(told["params"]["event"]["reason"], "The endpoint asked another request to wait that long.");
    runtime.block_on(server.request());
    let mut ended = 0;
    eventually("the ends", || {
        client.wait_for("an end", |message| message["params"]["event"]["state"] == "completed");
        ended += 1;
        ended == 2
    });
    assert_eq!(client.shut_down(), 0);
}
