//! Workers and the broker are killed at any time: each request ends once, with one result that has all of its changes.

use std::fs;

use async_nats::jetstream;
use futures_util::TryStreamExt as _;
use roo_durable::simulated_disk::Random;
use serde_json::Value;
use tokio::time::timeout;

use super::{Broker, DONE, Program, playing, submit, text, worker};
use crate::support::assert_gapless;
use crate::support::client::DEADLINE;
use crate::support::project::Project;

const WORKERS: usize = 3;
/// Redelivered soon, so that what is killed doesn't keep the test.
const FLAGS: &[&str] = &["--allow-write", "--patience", "2", "--deliveries", "1000", "--jobs", "2"];

fn turns() -> String {
    let write = |name: &str| {
        format!(
            "  - text: \"I write {name} now.\"\n    chunk: 6\n    delayMs: 40\n    calls: [{{ tool: write_to_file, params: {{ path: {name}, content: \"{name}\\n\" }} }}]\n"
        )
    };
    ["one.txt", "two.txt", "three.txt"].map(write).concat() + DONE
}

/// Carries out this many requests, while this many times a worker or, one time in four, the broker is killed.
async fn survives(requests: usize, kills: usize, seed: u64) {
    let mut random = Random::new(seed);
    let mut broker = Broker::start();
    let here = playing(DONE);
    let there: Vec<Project> = (0..WORKERS).map(|_| playing(&turns())).collect();
    let mut workers: Vec<Program> = there.iter().map(|project| worker(project, &broker, FLAGS)).collect();
    let client = broker.connect().await;
    let mut logs = client.subscribe("roo.log.*").await.unwrap();
    client.flush().await.unwrap();
    let submitted = (0..requests).map(|number| {
        let output = submit(&here, &broker, &[&format!("Write them, {number}."), "--detach"]);
        assert!(output.status.success(), "{output:?}");
        text(&output.stdout).trim().to_owned()
    });
    let ids: Vec<String> = submitted.collect();
    let mut done = 0;
    while done < kills {
        use futures_util::StreamExt as _;

        // After so many parts of logs; none come once all is done.
        let wait = async {
            for _ in 0..1 + random.below(8) {
                logs.next().await;
            }
        };
        if timeout(DEADLINE, wait).await.is_err() {
            break;
        }
        if random.one_in(4) {
            broker.restart();
        } else {
            let victim = random.below(WORKERS);
            workers.remove(victim).kill();
            workers.insert(victim, worker(&there[victim], &broker, FLAGS));
        }
        done += 1;
    }
    assert!(done > 0, "nothing was killed");
    let stream = jetstream::new(broker.connect().await).get_stream("ROO_REQUESTS").await.unwrap();
    for id in &ids {
        let file = here.beside(&format!("{id}.patch"));
        let arguments = ["--request", id, "--format", "ndjson", "--output", file.to_str().unwrap()];
        let output = submit(&here, &broker, &arguments);
        assert!(output.status.success(), "seed {seed}: {output:?}");
        let mut lines: Vec<Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.pop().unwrap()["outcome"], "completed");
        assert_gapless(&lines, 1);
        let is_end =
            |event: &&Value| event["event"]["type"] == "task.state" && event["event"]["state"] == "completed";
        assert_eq!(lines.iter().filter(is_end).count(), 1, "seed {seed}: {id} ends once");
        let patch = fs::read_to_string(file).unwrap();
        for name in ["one.txt", "two.txt", "three.txt"] {
            assert_eq!(patch.matches(&format!("+++ b/{name}\n")).count(), 1, "seed {seed}: {patch}");
        }
    }
    let results = stream.info_with_subjects("roo.request.*.result").await.unwrap();
    let results: Vec<(String, usize)> = results.try_collect().await.unwrap();
    assert_eq!(results.len(), requests);
    assert!(results.iter().all(|(_, count)| *count == 1), "seed {seed}: {results:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn requests_survive_the_death_of_workers_and_broker() {
    // For long runs: KILLED_REQUESTS=100 KILLED_SEED=7.
    let number = |name: &str| std::env::var(name).ok().map(|number| number.parse::<usize>().unwrap());
    let requests = number("KILLED_REQUESTS").unwrap_or(12);
    let seed = number("KILLED_SEED").unwrap_or(20_261_126);
    survives(requests, requests - 2, seed as u64).await;
}
