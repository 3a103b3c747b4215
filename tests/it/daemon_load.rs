//! The daemon under load: many editors on many requests, while it is killed at random moments. No event is lost, and none comes
//! twice.

use std::time::Duration;

use serde_json::{Value, json};

use crate::daemon::DaemonUser;
use crate::daemon_reconnect::kill_daemon;
use crate::support::assert_gapless;
use crate::support::client::Client;

/// Size of a run.
struct Load {
    clients: usize,
    /// Requests of each client that are under way at a time.
    requests: usize,
    /// Turns of a request, each of which takes a quarter of a second.
    turns: usize,
    /// Kills while one set of requests is under way.
    kills: usize,
    /// Sets of requests, one after the other.
    rounds: usize,
}

/// Numbers that are random enough, and the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Every turn says something, keeps its list and so makes events of each kind.
fn script(turns: usize) -> String {
    let mut script = String::from("turns:\n");
    for turn in 0..turns {
        script += &format!(
            "  - {{ text: Turn {turn}, chunk: 4, delayMs: 100, calls: [{{ tool: update_todo_list, params: {{ todos: \"[ ] {turn}\" }} }}] }}\n"
        );
    }
    script + "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n"
}

/// A client, with the requests that it has started, and how far what it has seen was looked at.
struct Editor {
    client: Client,
    requests: Vec<String>,
    looked: usize,
}

impl Editor {
    /// Waits until this many requests were completed since it was looked last.
    fn completes(&mut self, mut left: usize) {
        while left > 0 {
            let looked = &mut self.looked;
            self.client.pump("the end of a request", |client| {
                while let Some(message) = client.seen.get(*looked) {
                    *looked += 1;
                    if is_completed(message) {
                        return Some(());
                    }
                }
                None
            });
            left -= 1;
        }
    }
}

fn is_completed(message: &Value) -> bool {
    let params = &message["params"];
    message["method"] == "roo/event"
        && params["event"]["type"] == "task.state"
        && params["event"]["state"] == "completed"
        && params["taskId"] == params["rootId"]
}

fn run(load: &Load) {
    let user = DaemonUser::playing(&script(load.turns));
    user.home.configure("daemon: { resumeAfterCrash: true }\nlimits: { requests: 100000 }\n");
    let mut random = Random(7);
    // One of them gets the events of all requests.
    let mut all = user.typed();
    all.request("roo/task/attach", json!({ "taskId": "*" }));
    let mut all = Editor { client: all, requests: vec![], looked: 0 };
    let mut editors: Vec<Editor> =
        (0..load.clients).map(|_| Editor { client: user.typed(), requests: vec![], looked: 0 }).collect();
    for _ in 0..load.rounds {
        for editor in &mut editors {
            for _ in 0..load.requests {
                let task = editor.client.start_task("Keep a list");
                all.requests.push(task.clone());
                editor.requests.push(task);
            }
        }
        for _ in 0..load.kills {
            std::thread::sleep(Duration::from_millis(200 + random.below(800)));
            kill_daemon(&user);
            for editor in editors.iter_mut().chain([&mut all]) {
                editor.client.message("another one has taken over");
            }
        }
        for editor in &mut editors {
            editor.completes(load.requests);
        }
        all.completes(load.clients * load.requests);
    }
    for editor in editors.iter().chain([&all]) {
        for task in &editor.requests {
            let events = editor.client.numbered(task);
            assert_gapless(&events, 1);
            let ends: Vec<&Value> =
                events.iter().filter(|event| event["event"]["state"] == "completed").collect();
            assert_eq!((ends.len(), &ends[0]["event"]["result"]), (1, &json!("Done.")), "{task}");
        }
    }
    let daemon = user.daemon();
    let open = daemon["requests"].as_array().unwrap().iter().filter(|request| request["hasEnded"] == false);
    assert_eq!(open.count(), 0, "nothing was started twice: {daemon}");
    for editor in editors.into_iter().chain([all]) {
        assert_eq!(editor.client.shut_down(), 0);
    }
}

#[test]
fn nothing_is_lost_and_nothing_comes_twice_when_the_daemon_is_killed() {
    run(&Load { clients: 4, requests: 2, turns: 12, kills: 2, rounds: 1 });
}

/// Of `ROO_LSP_TEST_KILLS` kills, ten while each set of requests is under way.
#[test]
#[ignore = "takes minutes; ./scripts/test runs it"]
fn fifty_editors_and_two_hundred_requests_outlive_their_daemons() {
    let kills = std::env::var("ROO_LSP_TEST_KILLS").map_or(10, |kills| kills.parse().unwrap());
    run(&Load { clients: 50, requests: 4, turns: 20, kills: 10, rounds: kills / 10 });
}
