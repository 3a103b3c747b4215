//! `roo-lsp worker` and `roo-lsp submit`: work goes to a worker, and comes back as a change.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use async_nats::jetstream;
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Broker, DONE, ask, next, playing, submit, text, worker};
use crate::support::assert_gapless;
use crate::support::client::DEADLINE;
use crate::support::project::Project;
use crate::support::repository::git;
use crate::support::terminal::{self, Output};

/// Changes the second line of a file, and makes another one.
const EDITS: &str = "  - calls: [{ tool: read_file, params: { path: a.txt } }]\n  - calls: [{ tool: write_to_file, params: { path: a.txt, content: \"one\\nTWO\\nthree\\n\" } }]\n  - calls: [{ tool: write_to_file, params: { path: b/c.txt, content: \"new\\n\" } }]\n";

/// Asks whoever submitted the request.
const ASKS: &str = "  - calls: [{ tool: ask_followup_question, params: { question: Which?, follow_up: [{ text: This }] } }]\n";

/// Puts a git before the real one, which begins with these lines of a shell. Returns the path of programs with it.
fn git_that_begins_with(project: &Project, lines: &str) -> String {
    let (directory, path) = (project.beside("bin"), std::env::var("PATH").unwrap());
    fs::create_dir(&directory).unwrap();
    let own = directory.join("git");
    fs::write(&own, format!("#!/bin/sh\n{lines}\nPATH='{path}'\nexec git \"$@\"\n")).unwrap();
    fs::set_permissions(&own, fs::Permissions::from_mode(0o755)).unwrap();
    format!("{}:{path}", directory.display())
}

/// Submits on a terminal, and types what a function returns, which is called with all that is shown whenever there is more.
fn submit_on_a_terminal(
    project: &Project,
    broker: &Broker,
    arguments: &[&str],
    answer: impl FnMut(&str) -> Option<String>,
) -> (Option<i32>, String) {
    let mut command = project.program();
    command.args(["submit", "--server", &broker.url()]).args(arguments).env("TERM", "dumb");
    command.stdout(Stdio::null());
    let (mut program, shown) = terminal::answering(command, Output::Own, answer);
    (program.wait().unwrap().code(), shown)
}

fn id_of(stderr: &[u8]) -> String {
    let said = text(stderr);
    let line = said.lines().find_map(|line| line.strip_prefix("roo-lsp: submitted as ")).expect("it says so");
    line.to_owned()
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn work_comes_back_as_a_change_of_the_submitters_files() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let worker = worker(&there, &broker, &["--allow-write"]);
    here.write("own.txt", "not committed\n");
    let output = submit(&here, &broker, &["Change it.", "--apply"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "Done.\n");
    let said = text(&output.stderr);
    assert!(said.contains("changed a.txt") && said.contains("changed b/c.txt"), "{said}");
    assert_eq!((&*here.read("a.txt"), &*here.read("b/c.txt")), ("one\nTWO\nthree\n", "new\n"));
    assert_eq!(here.read("own.txt"), "not committed\n");
    assert_eq!(there.read("a.txt"), "one\ntwo\nthree\n", "the worker's own folder is none of it");
    assert_eq!(worker.end(Signal::TERM).0, Some(143));
    assert_eq!(fs::read_dir(there.beside("checkouts")).unwrap().count(), 0, "checkouts are removed");

    // The result is kept for those who come later.
    let id = id_of(&output.stderr);
    let file = here.beside("again.patch");
    let again = submit(&here, &broker, &["--request", &id, "--output", file.to_str().unwrap()]);
    assert!(again.status.success(), "{again:?}");
    assert!(fs::read_to_string(file).unwrap().contains("+TWO"));
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn what_the_user_has_changed_since_is_not_overwritten() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--allow-write"]);
    here.write("a.txt", "one\nzwei\nthree\n");
    let output = submit(&here, &broker, &["Change it.", "--apply"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("does not fit your files as they are now, so nothing was changed"), "{said}");
    assert_eq!((&*here.read("a.txt"), &*here.read("b/c.txt")), ("one\nzwei\nthree\n", ""));
    let patch = here.read(&format!("{}.patch", id_of(&output.stderr)));
    assert!(patch.contains("+TWO"), "the change is left in a file");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_change_of_what_steers_editors_is_left_to_the_user() {
    let broker = Broker::start();
    let steers =
        "  - calls: [{ tool: write_to_file, params: { path: .vscode/tasks.json, content: \"{}\\n\" } }]\n";
    let (there, here) = (playing(&format!("{EDITS}{steers}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--on-ask", "allow"]);
    let output = submit(&here, &broker, &["Change it.", "--apply"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stderr);
    let file = format!("{}.patch", id_of(&output.stderr));
    assert!(said.contains("it has to be looked at first, as it changes .vscode/tasks.json."), "{said}");
    let (top, patch) = (here.folder(), here.folder().join(&file));
    let command = format!("apply them with: git -C {} apply {}", top.display(), patch.display());
    assert!(said.contains(&command), "{said}");
    assert_eq!((&*here.read("a.txt"), &*here.read(".vscode/tasks.json")), ("one\ntwo\nthree\n", ""));
    git(&here.folder(), &["apply", &file]);
    assert_eq!(here.read(".vscode/tasks.json"), "{}\n");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn the_command_for_a_patch_applies_all_of_it_in_a_folder_of_the_repository() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--allow-write"]);
    let folder = here.folder().join("a folder");
    fs::create_dir(&folder).unwrap();
    let mut program = here.program();
    program.current_dir(&folder).args(["submit", "--server", &broker.url(), "Change it."]);
    let output = program.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let said = text(&output.stderr);
    let (_, command) = said.split_once("apply them with: ").expect("it names the command");
    let applied = Command::new("sh").arg("-c").arg(command).current_dir(&folder).output().unwrap();
    assert!(applied.status.success(), "{applied:?}");
    assert_eq!((&*here.read("a.txt"), &*here.read("b/c.txt")), ("one\nTWO\nthree\n", "new\n"));
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_worker_refuses_what_its_settings_do_not_allow() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &[]);
    let output = submit(&here, &broker, &["Change it."]);
    let said = text(&output.stderr);
    assert!(said.contains("it changed no file"), "{said}");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn permission_is_asked_and_given_over_nats() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--on-ask", "ask"]);
    let output = submit(&here, &broker, &["Change it.", "--on-ask", "allow", "--apply"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!((&*here.read("a.txt"), &*here.read("b/c.txt")), ("one\nTWO\nthree\n", "new\n"));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn a_permission_over_nats_makes_no_rule() {
    let broker = Broker::start();
    let client = broker.connect().await;
    let mut events = client.subscribe("roo.request.*.event").await.unwrap();
    client.flush().await.unwrap();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--on-ask", "ask"]);
    submit(&here, &broker, &["Change it.", "--detach"]);
    let (subject, asked) = loop {
        let (subject, event) = next(&mut events, ".event").await;
        if event["event"]["type"] == "approval.requested" {
            break (subject, event["event"].clone());
        }
    };
    let control = subject.replace(".request.", ".control.").replace(".event", "");
    let answer = |option: &str| {
        let (id, digest) = (&asked["approvalId"], &asked["digest"]);
        json!({ "command": "approval", "approvalId": id, "digest": digest, "optionId": option }).to_string()
    };
    let rule = ask(&client, &control, answer("allow_always").as_bytes()).await;
    assert!(rule["error"].is_string(), "{rule}");
    for garbage in [&b"{"[..], br#"{"command":"shell"}"#] {
        assert!(ask(&client, &control, garbage).await["error"].is_string());
    }
    assert_eq!(ask(&client, &control, answer("allow_once").as_bytes()).await, json!({}));
    let cancel = ask(&client, &control, br#"{"command":"cancel"}"#).await;
    assert_eq!(cancel, json!({}));
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn work_that_is_none_is_refused_and_the_worker_lives() {
    let broker = Broker::start();
    let client = broker.connect().await;
    let mut results = client.subscribe("roo.request.*.result").await.unwrap();
    client.flush().await.unwrap();
    let (there, here) = (playing(DONE), playing(DONE));
    let worker = worker(&there, &broker, &[]);
    let queue = jetstream::new(client.clone());
    let large = vec![b' '; 600 << 10];
    let submission = |commit: &str, source: Value| {
        let request = "0190a5c0-0000-7000-8000-000000000003";
        json!({ "version": 1, "request": request, "source": source, "commit": commit, "prompt": "Do it." })
            .to_string()
            .into_bytes()
    };
    let elsewhere = json!({ "kind": "repository", "url": "https://example.com/x.git" });
    for (number, payload, problem) in [
        (1, b"{".to_vec(), "can't be read"),
        (2, large, "the most are"),
        (3, submission(&"1".repeat(40), elsewhere), "doesn't clone"),
    ] {
        let id = format!("0190a5c0-0000-7000-8000-00000000000{number}");
        let message = jetstream::message::PublishMessage::build().message_id(&id).payload(payload.into());
        queue.send_publish("roo.work.default", message).await.unwrap().await.unwrap();
        let (subject, result) = next(&mut results, ".result").await;
        assert_eq!(subject, format!("roo.request.{id}.result"));
        assert_eq!(result["outcome"], "refused");
        assert!(result["text"].as_str().unwrap().contains(problem), "{result}");
    }
    let done = submit(&here, &broker, &["Do it."]);
    assert!(done.status.success(), "{done:?}");
    let (_, said) = worker.end(Signal::TERM);
    assert!(said.contains("work was refused"), "{said}");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_worker_clones_what_it_is_allowed_to() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let repository = here.beside("shared.git");
    git(&here.folder(), &["clone", "--quiet", "--bare", ".", repository.to_str().unwrap()]);
    let url = format!("file://{}", repository.canonicalize().unwrap().display());
    let _worker = worker(&there, &broker, &["--allow-write", "--allow-repository", &url]);
    let output = submit(&here, &broker, &["Change it.", "--repository", &url, "--apply"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(here.read("a.txt"), "one\nTWO\nthree\n");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn a_repository_that_is_out_of_reach_is_tried_again() {
    use futures_util::StreamExt as _;

    let broker = Broker::start();
    let client = broker.connect().await;
    let mut acknowledged = client.subscribe("$JS.ACK.ROO_WORK.>").await.unwrap();
    client.flush().await.unwrap();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let repository = here.beside("shared.git");
    let url = format!("file://{}", repository.display());
    let _worker = worker(&there, &broker, &["--allow-write", "--allow-repository", &url]);
    let output = submit(&here, &broker, &["Change it.", "--repository", &url, "--detach"]);
    let id = text(&output.stdout).trim().to_owned();
    let given_back = async {
        while !acknowledged.next().await.expect("the connection lasts").payload.starts_with(b"-NAK") {}
    };
    tokio::time::timeout(DEADLINE, given_back).await.expect("the work is given back");
    git(&here.folder(), &["clone", "--quiet", "--bare", ".", repository.to_str().unwrap()]);
    let output = submit(&here, &broker, &["--request", &id, "--apply"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(here.read("a.txt"), "one\nTWO\nthree\n");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn whoever_waits_for_what_was_tried_in_vain_learns_why() {
    let broker = Broker::start();
    let (there, here) = (playing(DONE), playing(DONE));
    let url = format!("file://{}", here.beside("gone.git").display());
    let _worker = worker(&there, &broker, &["--allow-repository", &url, "--deliveries", "1"]);
    let output = submit(&here, &broker, &["Change it.", "--repository", &url]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(said.contains("It was begun 1 time") && said.contains("git fetch failed"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs nats-server; ./scripts/test runs it"]
async fn a_worker_that_is_told_to_end_gives_its_work_to_another() {
    let broker = Broker::start();
    let client = broker.connect().await;
    let mut events = client.subscribe("roo.request.*.event").await.unwrap();
    client.flush().await.unwrap();
    let slow = "  - text: \"one two three four\"\n    chunk: 4\n    delayMs: 400\n    calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";
    let (there, here) = (playing(&format!("{EDITS}{slow}")), playing(DONE));
    // Only that the first one gives it back can let the other have it in time.
    let first = worker(&there, &broker, &["--allow-write", "--patience", "3600"]);
    let output = submit(&here, &broker, &["Change it.", "--detach"]);
    let id = text(&output.stdout).trim().to_owned();
    let mut finished = 0;
    while finished < 3 {
        let (_, event) = next(&mut events, ".event").await;
        finished += usize::from(event["event"]["type"] == "tool.finished");
    }
    assert_eq!(first.end(Signal::TERM).0, Some(143));
    let _second = worker(&there, &broker, &["--allow-write", "--patience", "3600"]);
    let file = here.beside("result.patch");
    let arguments = ["--request", &id, "--format", "ndjson", "--output", file.to_str().unwrap()];
    let output = submit(&here, &broker, &arguments);
    assert!(output.status.success(), "{output:?}");
    let mut lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = lines.pop().unwrap();
    assert_eq!((&result["outcome"], &result["text"]), (&json!("completed"), &json!("Done.")));
    assert_gapless(&lines, 1);
    let is_edit = |event: &&Value| {
        event["event"]["type"] == "tool.started" && event["event"]["name"] == "write_to_file"
    };
    assert_eq!(lines.iter().filter(is_edit).count(), 2, "what was done is not done again");
    let patch = fs::read_to_string(file).unwrap();
    assert!(patch.contains("+TWO") && patch.contains("b/c.txt"), "{patch}");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_signal_ends_what_is_yet_to_be_submitted() {
    let broker = Broker::start();
    let here = playing(DONE);
    let (waits, temporary) = (here.beside("waits"), here.beside("temporary"));
    fs::create_dir(&temporary).unwrap();
    assert!(Command::new("mkfifo").arg(&waits).status().unwrap().success());
    let lines = format!("case \"$*\" in *'bundle create'*) echo >'{}'; sleep 600;; esac", waits.display());
    let path = git_that_begins_with(&here, &lines);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let mut command = here.program();
        command.args(["submit", "--server", &broker.url(), "Change it."]);
        command.env("PATH", &path).env("TMPDIR", &temporary).stderr(Stdio::piped());
        let child = command.spawn().unwrap();
        // Somebody writes to it when git is at it.
        fs::read(&waits).unwrap();
        assert_ne!(fs::read_dir(&temporary).unwrap().count(), 0);
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        assert!(text(&output.stderr).contains("nothing was submitted"), "{output:?}");
        assert_eq!(fs::read_dir(&temporary).unwrap().count(), 0, "temporary files are removed");
    }
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_terminal_offers_the_answers_that_count_over_nats() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--on-ask", "ask"]);
    let mut typed = 0;
    let (code, shown) = submit_on_a_terminal(&here, &broker, &["Change it.", "--apply"], |shown| {
        let asked = shown.matches("Allow? [").count();
        (asked > typed).then(|| {
            typed = asked;
            // The first one is none of those that are offered.
            if asked == 1 { "a\n" } else { "y\n" }.to_owned()
        })
    });
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("a: ") && !shown.contains("d: ") && shown.contains("one of y, n."), "{shown}");
    assert!(!shown.contains("did not count"), "{shown}");
    assert_eq!(here.read("a.txt"), "one\nTWO\nthree\n");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn an_answer_that_no_worker_took_goes_to_the_next_one() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{ASKS}{DONE}")), playing(DONE));
    let flags = ["--on-ask", "ask", "--patience", "2"];
    let mut first = Some(worker(&there, &broker, &flags));
    let mut second = None;
    let (code, shown) = submit_on_a_terminal(&here, &broker, &["Choose."], |shown| {
        if shown.contains("the answer is sent again") && second.is_none() {
            second = Some(worker(&there, &broker, &flags));
        }
        let first = shown.contains("  > ").then(|| first.take()).flatten()?;
        first.kill();
        Some("1\n".to_owned())
    });
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(shown.matches("  > ").count(), 1, "{shown}");
    assert!(!shown.contains("did not count"), "{shown}");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn what_was_answered_is_not_asked_by_who_follows_later() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--on-ask", "ask"]);
    let output = submit(&here, &broker, &["Change it.", "--on-ask", "allow"]);
    assert!(output.status.success(), "{output:?}");
    let id = id_of(&output.stderr);
    let file = here.beside("again.patch");
    let arguments = ["--request", &id, "--output", file.to_str().unwrap()];
    let (code, shown) = submit_on_a_terminal(&here, &broker, &arguments, |shown| {
        shown.contains("Allow? [").then(|| "n\n".to_owned())
    });
    assert_eq!(code, Some(0), "{shown}");
    assert!(!shown.contains("Allow? ["), "{shown}");
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_repository_of_another_owner_is_used_where_its_user_trusts_it() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let _worker = worker(&there, &broker, &["--allow-write"]);
    // As if it were another one's.
    let lines = "case \"$PWD\" in */work) export GIT_TEST_ASSUME_DIFFERENT_OWNER=1;; esac";
    let path = git_that_begins_with(&here, lines);
    let submit = || {
        let mut command = here.program();
        command.args(["submit", "--server", &broker.url(), "Change it.", "--apply"]);
        command.env("PATH", &path).output().unwrap()
    };
    let refused = submit();
    assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    assert!(text(&refused.stderr).contains("dubious ownership"), "{refused:?}");
    trust_directory(&here.beside("home"), &here.folder());
    let output = submit();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(here.read("a.txt"), "one\nTWO\nthree\n");
}

fn trust_directory(home: &Path, directory: &Path) {
    fs::create_dir_all(home).unwrap();
    let text = format!("[safe]\n\tdirectory = {}\n", directory.display());
    fs::write(home.join(".gitconfig"), text).unwrap();
}

#[test]
#[ignore = "needs nats-server; ./scripts/test runs it"]
fn a_worker_clones_with_the_credentials_of_its_user() {
    let broker = Broker::start();
    let (there, here) = (playing(&format!("{EDITS}{DONE}")), playing(DONE));
    let (repository, ssh) = (here.beside("shared.git"), there.beside("ssh"));
    git(&here.folder(), &["clone", "--quiet", "--bare", ".", repository.to_str().unwrap()]);
    // Its last argument is what is to be run on the other machine.
    let log_in = |lines: &str| {
        fs::write(&ssh, format!("#!/bin/sh\n{lines}\n")).unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    };
    log_in("for last; do :; done; eval \"$last\"");
    fs::create_dir_all(there.beside("home")).unwrap();
    let command = format!("[core]\n\tsshCommand = {}\n", ssh.display());
    fs::write(there.beside("home").join(".gitconfig"), command).unwrap();
    let url = format!("ssh://nowhere.invalid{}", repository.canonicalize().unwrap().display());
    let _worker = worker(&there, &broker, &["--allow-write", "--allow-repository", &url]);
    let output = submit(&here, &broker, &["Change it.", "--repository", &url, "--apply"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(here.read("a.txt"), "one\nTWO\nthree\n");
    log_in("echo 'me@nowhere.invalid: Permission denied (publickey).' >&2; exit 255");
    let output = submit(&here, &broker, &["Change it.", "--repository", &url]);
    let said = text(&output.stderr);
    assert!(said.contains("it was not begun: the worker can't log in to the repository"), "{output:?}");
}
