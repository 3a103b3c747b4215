//! The daemon under load: many editors on many requests, while it is killed at random moments. No event is lost, and none comes
//! twice.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::daemon::DaemonUser;
use crate::daemon_reconnect::kill_daemon;
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

/// A client that checks what it sees of its requests as it comes, so that a long run keeps no messages.
struct Editor {
    client: Client,
    seen: SeenRequests,
}

/// What a client has seen of its requests.
#[derive(Default)]
struct SeenRequests {
    progress: HashMap<String, Progress>,
    completed: usize,
}

/// How far the events of a request have come.
#[derive(Default)]
struct Progress {
    seq: u64,
    is_completed: bool,
}

impl Progress {
    /// Takes the next event, which neither leaves out a number nor has one that was there before.
    fn advance(&mut self, event: &Value) {
        let Some(seq) = event["seq"].as_u64() else { return };
        assert_eq!(event["from"].as_u64().unwrap_or(seq), self.seq + 1, "{event}");
        self.seq = seq;
        if event["event"]["state"] == "completed" {
            assert_eq!(event["event"]["result"], "Done.", "{event}");
            assert!(!self.is_completed, "completed twice: {event}");
            self.is_completed = true;
        }
    }
}

impl SeenRequests {
    fn take(&mut self, event: &Value) {
        let request = self.progress.entry(event["rootId"].as_str().unwrap().to_owned()).or_default();
        let was_completed = request.is_completed;
        request.advance(event);
        self.completed += usize::from(request.is_completed && !was_completed);
    }

    fn events(&self) -> u64 {
        self.progress.values().map(|request| request.seq).sum()
    }
}

impl Editor {
    fn new(client: Client) -> Self {
        Self { client, seen: SeenRequests::default() }
    }

    /// Waits until this many requests have been completed in all.
    fn completes(&mut self, requests: usize) {
        self.sees("the end of a request", |seen| seen.completed >= requests);
        let seen = (self.seen.progress.len(), self.seen.completed);
        assert_eq!(seen, (requests, requests), "each request, and nothing else");
    }

    /// Waits until its requests have had this many more events.
    fn has_events(&mut self, more: u64) {
        let wanted = self.seen.events() + more;
        self.sees("more events", |seen| seen.events() >= wanted);
    }

    fn sees(&mut self, what: &str, is_enough: impl Fn(&SeenRequests) -> bool) {
        let Self { client, seen } = self;
        client.pump(what, |client| {
            let events = client.seen.drain(..).filter(|message| message["method"] == "roo/event");
            events.for_each(|message| seen.take(&message["params"]));
            is_enough(seen).then_some(())
        });
    }
}

fn run(load: &Load) {
    let user = DaemonUser::playing(&script(load.turns));
    user.home.configure("daemon: { resumeAfterCrash: true }\nlimits: { requests: 100000 }\n");
    let mut random = Random(7);
    let under_way = (load.clients * load.requests) as u64;
    // Each turn makes several, so that the requests are still under way at the last kill.
    let events_between = under_way * (load.turns / load.kills) as u64;
    // One of them gets the events of all requests.
    let mut all = user.typed();
    all.request("roo/task/attach", json!({ "taskId": "*" }));
    let mut all = Editor::new(all);
    let mut editors: Vec<Editor> = (0..load.clients).map(|_| Editor::new(user.typed())).collect();
    for round in 1..=load.rounds {
        for editor in &mut editors {
            for _ in 0..load.requests {
                editor.client.start_task("Keep a list");
            }
        }
        for _ in 0..load.kills {
            all.has_events(under_way * 2 + random.below(events_between));
            kill_daemon(&user);
            for editor in editors.iter_mut().chain([&mut all]) {
                editor.client.message("another one has taken over");
            }
        }
        for editor in &mut editors {
            editor.completes(round * load.requests);
        }
        all.completes(round * load.clients * load.requests);
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
