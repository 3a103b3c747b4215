//! Many requests in one server: what waits for its user holds no descriptor and no thread, and where descriptors are scarce
//! work waits for its turn.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::support::client::{Client, Home, Options, eventually};
use crate::support::model_server::{Answer, ModelServer, base_url, body};
use crate::support::project::Project;

/// Each task asks to write a file, and completes when it may.
const WRITES: &str = "turns:
  - calls: [{ tool: write_to_file, params: { path: new.txt, content: x } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
";

/// A typed client of a server that may have so many open files.
fn limited(home: &Home, limit: u32) -> Client {
    Client::start(home, Options { open_files: Some(limit), ..Options::typed() })
}

/// Number of entries of a directory of the process in `/proc`.
fn entries(client: &Client, directory: &str) -> usize {
    fs::read_dir(format!("/proc/{}/{directory}", client.process())).unwrap().count()
}

/// Starts requests at once, and returns the approvals that they wait for.
fn wait_for_approvals(client: &mut Client, count: usize) -> Vec<Value> {
    let params = json!({ "prompt": "Write a file.", "mode": "code" });
    let started: Vec<i64> = (0..count).map(|_| client.ask("roo/task/start", params.clone())).collect();
    let approvals = (0..count).map(|_| client.event("approval.requested")["event"].clone()).collect();
    for id in started {
        let answer = client.answer(id);
        assert!(answer.get("error").is_none(), "{answer}");
    }
    client.seen.clear();
    approvals
}

fn allow(client: &mut Client, approval: &Value) {
    let (id, digest) = (&approval["approvalId"], &approval["digest"]);
    let answer = json!({ "approvalId": id, "digest": digest, "optionId": "allow_once" });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    client.state("completed");
}

#[test]
fn what_waits_holds_no_descriptor() {
    let home = Home::playing(WRITES);
    home.configure("mode: code\n");
    let mut client = Client::start(&home, Options::typed());
    wait_for_approvals(&mut client, 1);
    let lock = "the locks of all requests";
    let below = |client: &Client| {
        let open = fs::read_dir(format!("/proc/{}/fd", client.process())).unwrap();
        let targets = open.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
        // Their directory, and the file of their locks beside it.
        targets.filter(|target| target.to_string_lossy().contains("/requests")).count()
    };
    eventually(lock, || below(&client) == 1);
    let approvals = wait_for_approvals(&mut client, 30);
    eventually(lock, || below(&client) == 1);
    for approval in &approvals[..3] {
        allow(&mut client, approval);
    }
    eventually(lock, || below(&client) == 1);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn more_requests_than_descriptors_have_their_turn() {
    let home = Home::playing(WRITES);
    home.configure("mode: code\nautoApprove: { write: true }\n");
    let mut client = limited(&home, 128);
    let params = json!({ "prompt": "Write a file.", "mode": "code" });
    let started: Vec<i64> = (0..200).map(|_| client.ask("roo/task/start", params.clone())).collect();
    for _ in &started {
        client.state("completed");
    }
    assert!(client.seen.iter().all(|message| message["params"]["event"]["type"] != "server.degraded"));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn commands_have_the_limit_on_open_files_that_the_server_was_started_with() {
    for settings in ["", "sandbox: { level: off }\n"] {
        let home = Home::playing(
            "turns:
  - calls: [{ tool: execute_command, params: { command: ulimit -Sn } }]
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
",
        );
        home.configure(&format!("mode: code\n{settings}"));
        let mut client = Client::start(&home, Options { soft_limit: Some(321), ..Options::typed() });
        let limits = fs::read_to_string(format!("/proc/{}/limits", client.process())).unwrap();
        let open_files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
        let numbers: Vec<&str> = open_files.split_whitespace().skip(3).take(2).collect();
        assert_eq!(numbers[0], numbers[1], "the server has raised its own");
        let task = client.start_task("Look.");
        let approval = client.event("approval.requested")["event"].clone();
        allow(&mut client, &approval);
        let text = fs::read_to_string(home.log(&task)).unwrap();
        let results = text.lines().filter(|line| line.contains("toolFinished")).collect::<String>();
        assert!(results.contains("321"), "{settings}: {results}");
        client.shut_down();
    }
}

/// The largest number of requests that is promised, under a limit that is far below what is usual.
#[test]
#[ignore = "takes minutes; ./scripts/test runs it"]
fn five_thousand_requests_wait_under_a_limit_of_256_open_files() {
    const ALL: usize = 5000;
    const AT_ONCE: usize = 250;
    let runtime = Runtime::new().unwrap();
    let write = json!({ "path": "new.txt", "content": "x\n" });
    let asks = Answer::stream(body("openai", "native", "", &[("write_to_file", write)]));
    let server = runtime.block_on(ModelServer::start(std::iter::repeat_n(asks, ALL)));
    let home = Home::new();
    let profile = json!({
        "provider": "openai", "baseUrl": base_url("openai", &server.url()), "model": "m", "toolProtocol": "native",
    });
    // JSON is YAML.
    let settings = json!({ "mode": "code", "profiles": { "default": profile } });
    fs::write(home.config_file(), settings.to_string()).unwrap();
    let mut client = limited(&home, 256);
    let mut approvals = Vec::new();
    while approvals.len() < ALL {
        approvals.extend(wait_for_approvals(&mut client, AT_ONCE));
        assert!(entries(&client, "task") <= 40, "threads: {}", entries(&client, "task"));
    }
    // What is left are the standard streams, the runtime's, the lock and idle connections.
    eventually("the logs to be closed", || entries(&client, "fd") <= 48);
    let done = json!({ "result": "Done." });
    server.push(Answer::stream(body("openai", "native", "", &[("attempt_completion", done)])));
    allow(&mut client, &approvals[ALL / 2]);
    assert_eq!(fs::read_to_string(home.work("new.txt")).unwrap(), "x\n");
    let listed = client.request("roo/task/list", json!({}));
    assert_eq!(listed["items"].as_array().unwrap().len(), 100);
    assert!(server.connections() < ALL / 2, "connections are used again");
    assert_eq!(client.shut_down(), 0);
}

/// The index of finished requests.
mod history {
    use super::*;

    /// A project with three finished requests, whose logs nobody has written for long.
    fn finished() -> Project {
        let project = Project::new(&[]);
        project.script("turns: [{ calls: [{ tool: attempt_completion, params: { result: Done. } }] }]\n");
        for prompt in ["First", "Second", "Third"] {
            let mut command = project.program();
            command.args(["run", prompt, "--script"]).arg(project.beside("script.yaml"));
            assert!(command.output().unwrap().status.success());
        }
        for log in project.logs() {
            age(&log, 3600);
            age(&log.with_file_name("summary.json"), 3600);
        }
        project
    }

    fn age(file: &PathBuf, seconds: u64) {
        let then = SystemTime::now() - Duration::from_secs(seconds);
        File::options().write(true).open(file).unwrap().set_modified(then).unwrap();
    }

    fn list(project: &Project) -> String {
        project.succeed(&["tasks", "list", "--json"])
    }

    /// The index, of which there is one.
    fn index(project: &Project) -> PathBuf {
        project.logs()[0].ancestors().nth(3).unwrap().join("history")
    }

    /// The log of the request with this prompt.
    fn log_of(project: &Project, prompt: &str) -> PathBuf {
        let has =
            |log: &PathBuf| fs::read_to_string(log.with_file_name("summary.json")).unwrap().contains(prompt);
        project.logs().into_iter().find(has).unwrap()
    }

    #[test]
    fn a_list_is_the_same_whatever_becomes_of_its_index() {
        let project = finished();
        let (whole, index) = (list(&project), index(&project));
        assert_eq!(whole.lines().count(), 3);
        let text = fs::read(&index).unwrap();
        assert_eq!(list(&project), whole);
        assert_eq!(fs::read(&index).unwrap(), text, "nothing was missing");
        // As a kill within an append leaves it, or a disk.
        for end in (0..text.len()).step_by(97) {
            fs::write(&index, &text[..end]).unwrap();
            assert_eq!(list(&project), whole, "cut at {end}");
            let mut damaged = text.clone();
            damaged[end] ^= 1;
            fs::write(&index, damaged).unwrap();
            assert_eq!(list(&project), whole, "damaged at {end}");
        }
        fs::remove_file(&index).unwrap();
        assert_eq!(list(&project), whole);
        fs::remove_file(&index).unwrap();
        fs::create_dir(&index).unwrap();
        assert_eq!(list(&project), whole, "it can't even be written");
    }

    #[test]
    fn a_list_reads_the_index_and_neither_log_nor_summary() {
        let project = finished();
        let whole = list(&project);
        let summary = log_of(&project, "Second").with_file_name("summary.json");
        fs::write(&summary, "{}").unwrap();
        assert_eq!(list(&project), whole);
    }

    #[test]
    fn a_log_that_was_edited_is_read_again() {
        let project = finished();
        let whole = list(&project);
        let log = log_of(&project, "Second");
        let text = fs::read_to_string(&log).unwrap();
        fs::write(&log, text.replace("Second", "Edited")).unwrap();
        let edited = list(&project);
        assert!(edited.contains("[damaged log] Second"), "{edited}");
        assert_eq!(edited.lines().count(), 3);
        fs::write(&log, text).unwrap();
        assert_eq!(list(&project), whole);
    }

    #[test]
    fn a_request_that_is_gone_is_neither_in_the_list_nor_in_the_index() {
        let project = finished();
        list(&project);
        fs::remove_dir_all(log_of(&project, "Second").parent().unwrap()).unwrap();
        let left = list(&project);
        assert!(left.lines().count() == 2 && !left.contains("Second"), "{left}");
        assert!(!fs::read_to_string(index(&project)).unwrap().contains("Second"));
    }

    #[test]
    fn processes_that_list_at_once_see_the_same() {
        let project = finished();
        let whole = list(&project);
        for _ in 0..5 {
            fs::remove_file(index(&project)).unwrap();
            let lists: Vec<_> = (0..4)
                .map(|_| {
                    let mut command = project.program();
                    command.args(["tasks", "list", "--json"]).stdout(Stdio::piped());
                    command.spawn().unwrap()
                })
                .collect();
            for list in lists {
                assert_eq!(String::from_utf8(list.wait_with_output().unwrap().stdout).unwrap(), whole);
            }
            assert_eq!(list(&project), whole);
        }
    }
}
