//! Forks: a new request that has everything of another one up to an event. The events are shared, nothing runs twice, and
//! what is forked stays as it is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;

use serde_json::{Value, json};

use crate::support::assert_gapless;
use crate::support::client::{Client, Home, Options, eventually};
use crate::support::project::Project;
use crate::support::repository::{bytes_below, git};

const ARGUMENTS: [&str; 3] = ["--on-ask=allow", "--allow-write", "--format=ndjson"];

/// Two writes and a command. The second turn depends on what the user says.
const SCRIPT: &str = r#"
turns:
  - when: { contains: "another way" }
    calls: [{ tool: write_to_file, params: { path: other.txt, content: "other\n" } }]
  - text: First I write.
    calls: [{ tool: write_to_file, params: { path: new.txt, content: "new\n" } }]
    usage: { tokensIn: 1000, tokensOut: 10 }
  - calls: [{ tool: execute_command, params: { command: "echo ran >> ran.txt" } }]
    usage: { tokensIn: 2000, tokensOut: 20 }
  - calls: [{ tool: attempt_completion, params: { result: Done. } }]
    usage: { tokensIn: 4000, tokensOut: 40 }
"#;

/// Runs the script to its end, and returns the request's id.
fn played(project: &Project) -> String {
    project.script(SCRIPT);
    let output = works(project, &["run", "Go."], None);
    assert!(output.status.success(), "{output:?}");
    items(project)[0]["taskId"].as_str().unwrap().to_owned()
}

/// Runs the program with the script, and kills it after a number of appends.
fn works(project: &Project, arguments: &[&str], crash_after: Option<usize>) -> Output {
    let mut command = project.program();
    command.args(arguments).arg("--script").arg(project.beside("script.yaml")).args(ARGUMENTS);
    if let Some(appends) = crash_after {
        command.env("ROO_LSP_CRASH_AFTER_APPENDS", appends.to_string());
    }
    command.output().unwrap()
}

fn items(project: &Project) -> Vec<Value> {
    let list = project.succeed(&["tasks", "list", "--json"]);
    list.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The item of the newest request, which has to be a fork.
fn newest_fork(project: &Project) -> Value {
    let item = items(project).swap_remove(0);
    assert!(item["forkedFrom"].is_object(), "{item}");
    item
}

fn show(project: &Project, task: &str) -> Value {
    serde_json::from_str(&project.succeed(&["tasks", "show", task, "--json"])).unwrap()
}

fn log_of(project: &Project, task: &str) -> PathBuf {
    project.logs().into_iter().find(|log| log.parent().unwrap().ends_with(task)).unwrap()
}

fn records(project: &Project, task: &str) -> Vec<Value> {
    let text = fs::read_to_string(log_of(project, task)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The number of the first event of this type.
fn number(project: &Project, task: &str, kind: &str) -> u64 {
    let records = records(project, task);
    let record = records.iter().find(|record| record["event"]["type"] == kind);
    record.unwrap_or_else(|| panic!("no {kind} in {records:#?}"))["seq"].as_u64().unwrap()
}

#[test]
fn a_fork_shares_the_events_and_runs_nothing() {
    let project = Project::outside_temp(&[]);
    let task = played(&project);
    let before = fs::read(log_of(&project, &task)).unwrap();
    let saved = number(&project, &task, "checkpointSaved");
    let said = project.succeed(&["tasks", "fork", &task, "--at", &saved.to_string()]);
    // The result of the call comes with its checkpoint.
    let at = saved + 1;

    let item = newest_fork(&project);
    let (fork, urid) = (item["taskId"].as_str().unwrap(), item["urid"].as_str().unwrap());
    let parent = show(&project, &task);
    assert_eq!(said, format!("{urid} is forked at event {at}. To go on: roo-lsp tasks resume {urid}\n"));
    assert_eq!(fs::read(log_of(&project, &task)).unwrap(), before, "the other log is as it was");
    assert_eq!(project.read("ran.txt"), "ran\n", "nothing ran again");

    let own = records(&project, fork);
    assert_eq!((own[0]["seq"].as_u64().unwrap(), &own[0]["event"]["type"]), (at + 1, &json!("forked")));
    assert!(own.iter().all(|record| record["taskId"] == fork), "{own:#?}");
    // The call that was being made then isn't made here.
    let last = own.last().unwrap();
    assert_eq!((&last["event"]["type"], &last["event"]["state"]), (&json!("ended"), &json!("cancelled")));

    let shown = show(&project, fork);
    assert_eq!(shown["messages"][0], parent["messages"][0], "the conversation is the same up to there");
    assert_eq!(shown["forkedFrom"]["taskId"], task.as_str());
    assert_eq!(
        (&shown["forkedFrom"]["urid"], shown["forkedFrom"]["seq"].as_u64()),
        (&parent["urid"], Some(at))
    );
    // What was used before is the other request's.
    assert_eq!(shown["forkedFrom"]["usage"]["tokensIn"], 1000);
    assert_eq!(shown["usage"]["tokensIn"], 0);
    let page = project.succeed(&["tasks", "show", fork]);
    let line =
        format!("- Forked from: {} at event {at}, which had used 1000 in", parent["urid"].as_str().unwrap());
    assert!(page.contains(&line), "{page}");
    let list = project.succeed(&["tasks", "list"]);
    assert!(
        list.lines().next().unwrap().ends_with(&format!("(fork of {})", parent["urid"].as_str().unwrap())),
        "{list}"
    );
}

#[test]
fn a_fork_with_a_prompt_goes_on_from_there() {
    let project = Project::outside_temp(&[]);
    let task = played(&project);
    let before = fs::read(log_of(&project, &task)).unwrap();
    // Behind the first answer's result.
    let at = number(&project, &task, "toolFinished").to_string();
    let output = works(&project, &["tasks", "fork", &task, "Go another way.", "--at", &at], None);
    assert!(output.status.success(), "{output:?}");

    let item = newest_fork(&project);
    assert_eq!((&item["state"], &item["title"]), (&json!("completed"), &json!("Go another way.")));
    assert_eq!(
        (project.read("new.txt"), project.read("other.txt")),
        ("new\n".to_owned(), "other\n".to_owned())
    );
    // It walked the rest of the script: the command of its own ran once more, with its own budget and costs.
    assert_eq!(project.read("ran.txt"), "ran\nran\n");
    assert_eq!(item["usage"]["tokensIn"], 6000, "{item}");
    assert_eq!(fs::read(log_of(&project, &task)).unwrap(), before);
    let fork = item["taskId"].as_str().unwrap();
    // The checkpoints of the shared part are there too, and a restore goes back through all of them.
    let list = project.succeed(&["tasks", "checkpoints", fork, "--json"]);
    let first: Value = serde_json::from_str(list.lines().next().unwrap()).unwrap();
    assert_eq!(first["files"][0]["path"], "new.txt");
    project.succeed(&["tasks", "restore", fork, &first["seq"].to_string(), "--yes", "--what", "both"]);
    assert_eq!((project.read("new.txt"), project.read("other.txt")), (String::new(), String::new()));
    assert_eq!(show(&project, fork)["urid"], item["urid"], "a restored conversation is still the fork's");

    // A fork of a fork, which has the totals of both before it.
    let said = project.succeed(&["tasks", "fork", fork]);
    let words = "It was completed there. To say more to it: roo-lsp tasks resume ";
    assert!(said.contains(words) && said.ends_with(" \"…\"\n"), "{said}");
    let again = newest_fork(&project);
    assert_eq!(again["forkedFrom"]["taskId"], fork);
    assert_eq!(again["forkedFrom"]["usage"]["tokensIn"], 7000);
}

#[test]
fn two_forks_are_compared_by_what_they_did_since() {
    let project = Project::outside_temp(&[]);
    let task = played(&project);
    let at = number(&project, &task, "toolFinished").to_string();
    let output = works(&project, &["tasks", "fork", &task, "Go another way.", "--at", &at], None);
    assert!(output.status.success(), "{output:?}");
    let fork = newest_fork(&project)["taskId"].as_str().unwrap().to_owned();
    let text = project.succeed(&["tasks", "compare", &task, &fork]);
    let row =
        |head: &str| text.lines().find(|line| line.starts_with(head)).unwrap_or_else(|| panic!("{text}"));
    assert!(
        row("State").ends_with("completed  completed") || row("State").matches("completed").count() == 2,
        "{text}"
    );
    let cells: Vec<&str> = row("Files changed").split_whitespace().collect();
    assert_eq!(cells, ["Files", "changed", "1", "2"], "{text}");
    // `new.txt` was written before they parted.
    assert!(!text.contains("new.txt"), "{text}");
    assert!(text.contains(&format!("They share the events up to {at}.")), "{text}");
    assert!(
        text.contains(
            "# other.txt: changed by the second\n--- /dev/null\n+++ b/other.txt\n@@ -0,0 +1 @@\n+other\n"
        ),
        "{text}"
    );
    assert!(text.contains("# ran.txt: changed by both\n"), "{text}");
    assert!(text.contains("-ran\n+ran\n") || text.contains(" ran\n+ran\n"), "{text}");

    let output = works(&project, &["run", "Go."], None);
    assert!(output.status.success(), "{output:?}");
    let stranger = items(&project)[0]["taskId"].as_str().unwrap().to_owned();
    let output = project.run(&["tasks", "compare", &task, &stranger]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("share no event"), "{error}");
}

#[test]
fn what_is_not_there_is_not_forked() {
    let project = Project::outside_temp(&[]);
    let task = played(&project);
    for at in ["0", "1", "9999"] {
        let output = project.run(&["tasks", "fork", &task, "--at", at]);
        let error = String::from_utf8(output.stderr).unwrap();
        let told = format!("there is no event '{at}' to fork at: the numbers are 2 to ");
        assert!(output.status.code() == Some(2) && error.contains(&told), "{error}");
    }
    assert_eq!(items(&project).len(), 1);
}

/// The events of a follower, without those that have no number.
fn replayed(client: &mut Client, task: &str, until: u64) -> Vec<Value> {
    client.request("roo/task/attach", json!({ "taskId": task, "afterSeq": 0 }));
    client.wait_for("the newest event", |message| {
        message["params"]["rootId"] == task && message["params"]["seq"].as_u64() == Some(until)
    });
    client.numbered(task)
}

const WAITS: &str = r#"
turns:
  - when: { contains: "another way" }
    calls: [{ tool: attempt_completion, params: { result: Otherwise. } }]
  - calls: [{ tool: write_to_file, params: { path: new.txt, content: "one\n" } }]
  - calls: [{ tool: attempt_completion, params: { result: Written. } }]
"#;

#[test]
fn a_request_that_waits_is_forked_and_still_waits() {
    let home = Home::playing(WAITS);
    let mut client = Client::start(&home, Options::typed());
    let task = client.start_task("Write");
    let asked = client.event("approval.requested")["event"].clone();
    let forked = client.request("roo/task/fork", json!({ "taskId": task, "prompt": "Go another way." }));
    let fork = forked["taskId"].as_str().unwrap().to_owned();
    client.wait_for("the end of the fork", |message| {
        message["params"]["rootId"] == fork.as_str() && message["params"]["event"]["result"] == "Otherwise."
    });
    assert!(!home.work("new.txt").exists(), "the fork wrote nothing");

    // The approval waits once, for the request that asked.
    let waiting = client.request("roo/approval/list", json!({}));
    assert_eq!(waiting["approvals"].as_array().map(Vec::len), Some(1), "{waiting}");
    let answer =
        json!({ "approvalId": asked["approvalId"], "digest": asked["digest"], "optionId": "allow_once" });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    client.wait_for("the end", |message| {
        message["params"]["rootId"] == task.as_str() && message["params"]["event"]["result"] == "Written."
    });
    assert_eq!(fs::read_to_string(home.work("new.txt")).unwrap(), "one\n");

    // All of the fork's events are its own to a client, from the first on.
    let newest = client.request("roo/task/get", json!({ "taskId": fork }));
    let mut second = Client::start(&home, Options::typed());
    let events = replayed(&mut second, &fork, newest["seq"].as_u64().unwrap());
    assert_gapless(&events, 1);
    let text = serde_json::to_string(&events).unwrap();
    let mentions: BTreeMap<usize, _> = text.match_indices(task.as_str()).collect();
    assert_eq!(mentions.len(), 1, "only where it comes from");
    let result = newest["forkedFrom"]["seq"].as_u64().unwrap();
    assert_eq!(events[usize::try_from(result).unwrap()]["event"]["type"], "task.forked");
    assert_eq!(second.shut_down(), 0);

    // What it shares can't go before it.
    let error = client.refused("roo/task/delete", json!({ "taskId": task }));
    assert_eq!(error["data"]["kind"], "wrongState", "{error}");
    assert!(error["message"].as_str().unwrap().contains(fork.as_str()), "{error}");
    client.request("roo/task/delete", json!({ "taskId": fork }));
    client.request("roo/task/delete", json!({ "taskId": task }));
    assert_eq!(client.request("roo/task/list", json!({}))["items"], json!([]));
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_fork_at_a_checkpoint_knows_what_came_of_the_call() {
    let project = Project::outside_temp(&[]);
    let task = played(&project);
    let at = number(&project, &task, "checkpointSaved");
    project.succeed(&["tasks", "fork", &task, "--at", &at.to_string()]);
    let fork = newest_fork(&project);
    assert_eq!(fork["forkedFrom"]["seq"], at + 1, "{fork}");
    let own = records(&project, fork["taskId"].as_str().unwrap());
    assert!(
        !own.iter().any(|record| record["event"]["type"] == "toolFinished"),
        "nothing was interrupted: {own:?}"
    );
}

#[test]
fn a_server_that_is_killed_leaves_a_whole_fork_or_none() {
    let project = Project::outside_temp(&[]);
    let task = played(&project);
    let before = fs::read(log_of(&project, &task)).unwrap();
    let at = number(&project, &task, "checkpointSaved").to_string();
    for appends in 1..=12 {
        let output =
            works(&project, &["tasks", "fork", &task, "Go another way.", "--at", &at], Some(appends));
        assert_eq!(fs::read(log_of(&project, &task)).unwrap(), before);
        let item = newest_fork(&project);
        let fork = item["taskId"].as_str().unwrap();
        if !output.status.success() {
            // Said before the prompt was: then it waits, as a fork without one.
            works(&project, &["tasks", "resume", fork], None);
        }
        let results = records(&project, fork);
        let calls = results.iter().filter(|record| record["event"]["type"] == "toolFinished");
        let mut ids: Vec<&str> =
            calls.map(|record| record["event"]["result"]["callId"].as_str().unwrap()).collect();
        let count = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), count, "after {appends} appends");
        assert_eq!(show(&project, fork)["state"], "completed", "after {appends} appends");
    }
}

/// A repository with a stash, a hook, configuration of its own, something staged, something changed and a new file, in which
/// the script was played.
fn repository() -> (Project, String) {
    let project =
        Project::outside_temp(&[("kept.txt", "one\n"), ("gone.txt", "gone\n"), ("staged.txt", "old\n")]);
    let folder = project.folder();
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    git(&folder, &["config", "alias.x", "status"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "first"]);
    project.write("kept.txt", "stashed\n");
    git(&folder, &["stash", "--quiet"]);
    project.write("staged.txt", "staged\n");
    git(&folder, &["add", "staged.txt"]);
    project.write("kept.txt", "mine\n");
    project.write("deep/untracked.txt", "untracked\n");
    fs::remove_file(project.folder().join("gone.txt")).unwrap();
    let hook = project.folder().join(".git/hooks/post-checkout");
    fs::write(&hook, "#!/bin/sh\necho ran >> \"$(git rev-parse --git-common-dir)/../hooked\"\n").unwrap();
    fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    let task = played(&project);
    (project, task)
}

/// The folder of a fork that has one of its own.
fn folder_of(project: &Project, urid: &str) -> PathBuf {
    project.folder().with_file_name("work-forks").join(urid)
}

#[test]
fn a_fork_in_a_worktree_has_the_files_of_its_event_and_leaves_the_repository_alone() {
    let (project, task) = repository();
    let (git_before, files_before) =
        (bytes_below(&project.folder().join(".git"), "worktrees"), bytes_below(&project.folder(), ".git"));
    let at = number(&project, &task, "toolFinished").to_string();
    let said = project.succeed(&["tasks", "fork", &task, "--at", &at, "--worktree"]);
    let urid = said.split_whitespace().next().unwrap();
    let folder = folder_of(&project, urid);
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    assert_eq!(read("new.txt").as_deref(), Some("new\n"), "what was written before the event: {said}");
    assert_eq!(read("ran.txt"), None, "and not what came later");
    assert_eq!(read("kept.txt").as_deref(), Some("mine\n"));
    assert_eq!(read("staged.txt").as_deref(), Some("staged\n"));
    assert_eq!(read("deep/untracked.txt").as_deref(), Some("untracked\n"));
    assert_eq!(read("gone.txt"), None);

    assert_eq!(
        bytes_below(&project.folder(), ".git"),
        files_before,
        "no file of the user's changed, and no hook ran"
    );
    assert_eq!(bytes_below(&project.folder().join(".git"), "worktrees"), git_before, "nor anything of git's");

    // It is a request of its own folder.
    assert_eq!(items(&project).len(), 1);
    let workspace = folder.to_str().unwrap();
    let list = project.succeed(&["--workspace", workspace, "tasks", "list"]);
    assert!(list.starts_with(urid) && list.contains("(fork of "), "{list}");
    let next = format!("To go on: roo-lsp --workspace {workspace} tasks resume {urid}\n");
    assert!(said.ends_with(&next), "{said}");
}

#[test]
fn a_fork_in_a_worktree_works_there_and_is_compared_with_the_other() {
    let (project, task) = repository();
    let at = number(&project, &task, "toolFinished").to_string();
    let output =
        works(&project, &["tasks", "fork", &task, "Go another way.", "--at", &at, "--worktree"], None);
    assert!(output.status.success(), "{output:?}");
    let forks = fs::read_dir(project.folder().with_file_name("work-forks")).unwrap();
    let [urid] =
        &forks.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()[..]
    else {
        panic!("one fork")
    };
    let folder = folder_of(&project, urid);
    assert_eq!(fs::read_to_string(folder.join("other.txt")).unwrap(), "other\n");
    assert_eq!(project.read("other.txt"), "", "the user's folder is as it was");
    assert_eq!(
        (project.read("ran.txt"), fs::read_to_string(folder.join("ran.txt")).unwrap()),
        ("ran\n".into(), "ran\n".into())
    );
    let text = project.succeed(&["tasks", "compare", &task, urid]);
    assert!(text.contains("# other.txt: changed by the second\n"), "{text}");
    assert!(text.contains("# ran.txt: changed by both, and is the same in both\n"), "{text}");
}

#[test]
fn a_command_that_ends_later_leaves_the_worktree_of_a_fork() {
    let (project, task) = repository();
    let line = "touch begun; until [ -e go ]; do sleep 0.1; done; rm begun go";
    let parameters = json!({ "command": line }).to_string();
    let command = ["tool", "execute_command", "--allow", "--params", &parameters];
    std::thread::scope(|scope| {
        let running = scope.spawn(|| project.succeed(&command));
        eventually("the command", || {
            assert!(!running.is_finished(), "it did not wait");
            project.folder().join("begun").exists()
        });
        let said = project.succeed(&["tasks", "fork", &task, "--worktree"]);
        project.write("go", "");
        let told = running.join().unwrap();
        assert!(!told.contains("undone"), "{told}");
        git(&folder_of(&project, said.split_whitespace().next().unwrap()), &["status"]);
    });
}

#[test]
fn a_program_that_is_configured_for_worktrees_alone_does_not_run() {
    let (project, task) = repository();
    let git = project.folder().join(".git");
    let config = fs::read_to_string(git.join("config")).unwrap();
    fs::write(git.join("config"), config + "[includeIf \"gitdir:worktrees/\"]\n\tpath = hostile\n").unwrap();
    let canary = project.beside("canary");
    fs::write(git.join("hostile"), format!("[filter \"f\"]\n\tsmudge = touch {}; cat\n", canary.display()))
        .unwrap();
    fs::create_dir_all(git.join("info")).unwrap();
    fs::write(git.join("info/attributes"), "* filter=f\n").unwrap();
    let output = project.run(&["tasks", "fork", &task, "--worktree"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("names programs that git would run"), "{error}");
    assert!(!canary.exists());
    let left = fs::read_dir(project.folder().with_file_name("work-forks")).unwrap().count();
    assert_eq!((left, git.join("worktrees").exists()), (0, false), "nothing is left of the attempt");
    assert_eq!(items(&project).len(), 1);
}

#[test]
fn without_git_a_fork_has_no_worktree_and_says_so() {
    // The repository of this program is around the other directory for tests.
    let project = Project::new(&[]);
    let task = played(&project);
    let output = project.run(&["tasks", "fork", &task, "--worktree"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("the workspace is in no git repository"), "{error}");
    assert_eq!(items(&project).len(), 1);
}
