//! FT-10 and FT-13: clients and servers that vanish at any moment. Nothing runs without an answer to just
//! that question, and no log has two drivers.

use serde_json::{Value, json};

use crate::support::assert_gapless;
use crate::support::client::{Client, Home, Options};

const RUNS: &str = r#"
turns:
  - text: I look.
    calls: [{ tool: list_files, params: { path: . } }]
  - text: Now I run it.
    calls: [{ tool: execute_command, params: { command: "echo ran >> ran.txt" } }]
  - { calls: [{ tool: attempt_completion, params: { result: Done. } }] }
"#;
const ASKS: &str = r#"
turns:
  - calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: this }, { text: that }] } }]
  - { calls: [{ tool: attempt_completion, params: { result: Done. } }] }
"#;

fn approval(message: &Value) -> Option<&Value> {
    let event = &message["params"]["event"];
    (event["type"] == "approval.requested").then_some(event)
}

fn ran(home: &Home) -> usize {
    std::fs::read_to_string(home.work("ran.txt")).map_or(0, |text| text.lines().count())
}

fn answer(asked: &Value, option: &str) -> Value {
    json!({ "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": option })
}

/// How a client leaves.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Leaves {
    /// Its process and the server's are killed.
    Killed,
    /// It closes the pipe.
    HangsUp,
    /// It answers for another action, then is killed.
    AnswersWrong,
    /// It allows the command and is killed before it hears of it.
    Allows,
}

/// Leaves after so many events of the task, and comes back.
fn vanishes(after: usize, leaves: Leaves) {
    let place = format!("{leaves:?} after {after} events");
    let home = Home::playing(RUNS);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Run it");
    let asked = client.pump("enough events", |client| {
        let asked = client.seen.iter().find_map(approval).cloned();
        (asked.is_some() || client.numbered(&task).len() >= after).then_some(asked)
    });
    match (leaves, &asked) {
        (Leaves::HangsUp, _) => drop(client.hang_up()),
        (Leaves::AnswersWrong, Some(asked)) => {
            let mut wrong = answer(asked, "allow_once");
            wrong["digest"] = json!(format!("sha256:{:064}", 1));
            assert_eq!(client.refused("roo/approval/respond", wrong)["data"]["kind"], "mismatch", "{place}");
            client.kill();
        }
        (Leaves::Allows, Some(asked)) => {
            client.ask("roo/approval/respond", answer(asked, "allow_once"));
            client.kill();
        }
        _ => client.kill(),
    }
    let was_allowed = leaves == Leaves::Allows && asked.is_some();
    assert!(ran(&home) <= usize::from(was_allowed), "{place}");

    let mut client = Client::start(&home, Options::typed());
    client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    let snapshot = client.request("roo/task/get", json!({ "taskId": task }));
    if !was_allowed {
        assert_eq!(snapshot["state"], "interrupted", "{place}");
    }
    let before = snapshot["seq"].as_u64().unwrap();
    if snapshot["state"] == "interrupted" {
        client.request("roo/task/resume", json!({ "taskId": task }));
    }
    let again = client.wait_for("the approval or the end", |message| {
        let is_new = message["params"]["seq"].as_u64() > Some(before);
        let is_end = message["params"]["event"]["state"] == "completed";
        (is_new && approval(message).is_some()) || is_end
    });
    if let Some(again) = approval(&again) {
        assert_eq!(ran(&home), 0, "{place}: it ran, and is asked about again");
        if let Some(asked) = &asked {
            let same = |key: &str| assert_eq!(again[key], asked[key], "{place}: {key}");
            ["approvalId", "digest"].into_iter().for_each(same);
        }
        client.request("roo/approval/respond", answer(again, "allow_once"));
        client.state("completed");
        assert_eq!(ran(&home), 1, "{place}");
    } else {
        assert!(was_allowed, "{place}: it ended without a question");
        assert!(ran(&home) <= 1, "{place}: it ran twice");
    }
    assert_gapless(&client.numbered(&task), 1);
    assert_eq!(client.shut_down(), 0, "{place}");
}

/// One of two lots, so that they run at once.
fn lot(which: usize) {
    let ways = [Leaves::Killed, Leaves::HangsUp, Leaves::AnswersWrong, Leaves::Allows];
    for case in (which..50).step_by(2) {
        // The question may come earlier, and is what they wait for then.
        vanishes(1 + case * 7 % 23, ways[case / 2 % ways.len()]);
    }
}

#[test]
fn a_client_that_vanishes_leaves_its_question_open() {
    lot(0);
}

#[test]
fn a_client_that_vanishes_has_allowed_nothing() {
    lot(1);
}

#[test]
fn of_two_servers_one_drives_and_the_other_takes_over_at_once_when_it_dies() {
    let home = Home::playing(ASKS);
    let mut driver = Client::start(&home, Options::typed());
    let task = driver.start_task("Ask");
    driver.event("question.asked");
    for round in 0..100 {
        let mut other = Client::start(&home, Options::typed());
        let refused = other.refused("roo/task/send", json!({ "taskId": task, "text": "hello" }));
        assert_eq!(refused["data"]["kind"], "heldElsewhere", "round {round}");
        driver.kill();
        // A number in a lock file means nothing, though a process has it.
        let log = home.log(&task);
        let lock = log.ancestors().nth(3).unwrap().join("requests.lock");
        assert!(lock.exists());
        std::fs::write(lock, std::process::id().to_string()).unwrap();
        // The first attempt succeeds.
        other.request("roo/task/resume", json!({ "taskId": task }));
        driver = other;
    }
    driver.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    let seq = driver.request("roo/task/get", json!({ "taskId": task }))["seq"].as_u64().unwrap();
    driver.pump("all events", |driver| (driver.numbered(&task).len() as u64 >= seq).then_some(()));
    assert_gapless(&driver.numbered(&task), 1);
    assert!(seq > 200, "{seq}");
    assert_eq!(driver.shut_down(), 0);
}

/// Two windows on one folder: each server works on requests of its own, and both write the same file.
#[test]
fn two_servers_work_on_their_own_requests_and_lose_no_update_to_each_other() {
    const TASKS: usize = 4;
    const CALLS: usize = 8;
    let insert = |number: usize| {
        format!(
            "  - calls: [{{ tool: insert_content, params: {{ path: shared.txt, line: 0, content: \"{{{{urid}}}} {number}\" }} }}]\n"
        )
    };
    let script = format!(
        "turns:\n{}  - calls: [{{ tool: attempt_completion, params: {{ result: Done. }} }}]\n",
        (0..CALLS).map(insert).collect::<String>()
    );
    let home = Home::playing(&script);
    home.configure("mode: code\nautoApprove: { write: true }\n");
    std::fs::write(home.work("shared.txt"), "").unwrap();
    let mut servers = [Client::start(&home, Options::typed()), Client::start(&home, Options::typed())];
    let tasks = servers.each_mut().map(|server| [(); TASKS].map(|()| server.start_task("Add lines")));
    let mut expected = Vec::new();
    for (server, tasks) in servers.iter_mut().zip(&tasks) {
        let before = expected.len();
        for task in tasks {
            let seen = server.pump("the end", |server| {
                let seen = server.numbered(task);
                let is_end = |message: &Value| message["event"]["state"] == "completed";
                seen.iter().any(is_end).then_some(seen)
            });
            assert_gapless(&seen, 1);
            let of = |kind: &str| {
                let kind = kind.to_owned();
                seen.iter()
                    .map(|message| &message["event"])
                    .filter(move |event| event["type"] == kind.as_str())
            };
            let urid = of("task.created").next().unwrap()["urid"].as_str().unwrap().to_owned();
            // What was refused, as the file had changed meanwhile, is told so and is not there.
            let done =
                of("tool.finished").take(CALLS).enumerate().filter(|(_, event)| event["status"] == "ok");
            expected.extend(done.map(|(number, _)| format!("{urid} {number}")));
        }
        assert!(expected.len() > before + 1, "no server keeps the other from writing");
    }
    let text = std::fs::read_to_string(home.work("shared.txt")).unwrap();
    let mut found: Vec<&str> = text.lines().collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
    for server in servers {
        assert_eq!(server.shut_down(), 0);
    }
}
