//! Settings, logs, rules and traces as earlier versions wrote them, in `tests/fixtures/earlier-versions`: they open
//! unchanged, and a request that was under way goes on. A directory there is never edited; a format that changes gets
//! another one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::support::client::{Client, Home, Options};
use crate::support::package;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

/// A user's directories as a version left them. Its state is kept by the workspace's path.
fn left_by(version: &str) -> Home {
    let from = package().join("tests/fixtures/earlier-versions").join(version);
    let home = Home::of_earlier_version();
    copy(&from.join("work"), &home.path("work"));
    fs::copy(from.join("script.yaml"), home.path("script.yaml")).unwrap();
    let settings = fs::read_to_string(from.join("config.yaml")).unwrap();
    let place = home.path("");
    fs::write(home.config_file(), settings.replace("HOME", place.to_str().unwrap().trim_end_matches('/')))
        .unwrap();
    let work = home.path("work").canonicalize().unwrap();
    let id: String =
        Sha256::digest(work.to_str().unwrap()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    copy(&from.join("state"), &home.path("state/roo-lsp/workspaces").join(id));
    home
}

fn run(home: &Home, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
    command
        .args(arguments)
        .current_dir(home.path("work"))
        .env("XDG_CONFIG_HOME", home.path("config"))
        .env("XDG_STATE_HOME", home.path("state"))
        .env("HOME", home.path(""));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn logs(home: &Home) -> Vec<PathBuf> {
    let workspaces = fs::read_dir(home.path("state/roo-lsp/workspaces")).unwrap();
    let requests =
        workspaces.flat_map(|workspace| fs::read_dir(workspace.unwrap().path().join("requests")).unwrap());
    requests.map(|request| request.unwrap().path().join("log.jsonl")).collect()
}

#[test]
fn a_request_that_waited_goes_on_where_it_was() {
    let home = left_by("2026-11-21");
    let [log] = logs(&home).try_into().unwrap();
    let before = fs::read(&log).unwrap();
    let listed = run(&home, &["tasks", "list"]);
    assert!(listed.contains("interrupted, waits for permission"), "{listed}");
    assert!(run(&home, &["policy", "rules"]).contains("Always allow `echo hello`"));
    run(&home, &["trace", "verify"]);
    let mut client = Client::start(&home, Options::typed());
    let task = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    client.request("roo/task/attach", json!({ "taskId": task }));
    client.request("roo/task/resume", json!({ "taskId": task }));
    // Those of before come first.
    let asked = std::iter::repeat_with(|| client.event("approval.requested"))
        .find(|asked| asked["event"]["title"] == "Create notes.txt")
        .unwrap();
    let (id, digest) = (&asked["event"]["approvalId"], &asked["event"]["digest"]);
    let answer = json!({ "approvalId": id, "digest": digest, "optionId": "allow_once" });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    client.state("completed");
    client.shut_down();
    assert_eq!(fs::read_to_string(home.work("notes.txt")).unwrap(), "one\ntwo\n");
    assert!(fs::read(&log).unwrap().starts_with(&before), "what was written is never rewritten");
    run(&home, &["trace", "verify"]);
}

#[test]
fn a_finished_request_is_shown_as_it_was() {
    let home = left_by("2026-11-22");
    let [log] = logs(&home).try_into().unwrap();
    let task = log.parent().unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let shown = run(&home, &["tasks", "show", &task]);
    for part in ["ls; cat .env", "notes.txt", "Done."] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(run(&home, &["policy", "rules"]).contains("Always allow commands that stay in the sandbox"));
    run(&home, &["trace", "verify"]);
    assert!(run(&home, &["tasks", "export", &task]).contains("Done."));
}
