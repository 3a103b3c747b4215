//! Branches in git worktrees of their own: they change the same file at the same time, and what they changed is merged into the
//! folder through the gate. The user's repository stays as it is.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::{Value, json};

use crate::support::assert_gapless;
use crate::support::client::{Client, Home, Options, is_end_of_request};
use crate::support::project::Project;
use crate::support::repository::{bytes_below, git};

const AUTO: &str = "delegation: { worktrees: auto }\n";
const AUTO_AND_WRITE: &str = "autoApprove: { write: true }\ndelegation: { worktrees: auto }\n";

/// Nine lines, some of them in other words.
fn lines(changed: &[(usize, &str)]) -> String {
    let mut lines = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    for (number, line) in changed {
        lines[number - 1] = line;
    }
    lines.map(|line| format!("{line}\n")).concat()
}

/// A turn of the root that opens branches of these modes and titles.
fn delegates(branches: &[(&str, &str)]) -> String {
    let calls = branches.iter().map(|(mode, title)| {
        let emoji = if *mode == "debug" { "🪲" } else { "💻" };
        let message = format!("{emoji} {title}\n\nURID: {{{{urid}}}}\n\nDo it: {title}.\n");
        json!({ "tool": "new_task", "params": { "mode": mode, "message": message } })
    });
    turn("orchestrator", "Go.", &calls.collect())
}

fn turn(mode: &str, when: &str, calls: &Vec<Value>) -> String {
    format!("  - mode: {mode}\n    when: {{ contains: {when:?} }}\n    calls: {}\n", json!(calls))
}

fn read() -> Value {
    json!({ "tool": "read_file", "params": { "files": [{ "path": "a.txt" }] } })
}

fn write(content: &str) -> Value {
    json!({ "tool": "write_to_file", "params": { "path": "a.txt", "content": content } })
}

fn replace(line: &str, by: &str) -> Value {
    let diff = format!("<<<<<<< SEARCH\n{line}\n=======\n{by}\n>>>>>>> REPLACE\n");
    json!({ "tool": "apply_diff", "params": { "path": "a.txt", "diff": diff } })
}

fn completes(result: &str) -> Value {
    json!({ "tool": "attempt_completion", "params": { "result": result } })
}

fn asks() -> Value {
    let follow_up = json!([{ "text": "Go on." }, { "text": "Wait." }]);
    json!({ "tool": "ask_followup_question", "params": { "question": "When?", "follow_up": follow_up } })
}

fn script(turns: &[String]) -> String {
    format!("turns:\n{}", turns.concat())
}

/// Makes a folder a repository with a stash, a hook and configuration of its own, something staged, something changed and a new
/// file.
fn repository(folder: &Path) {
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    write("a.txt", &lines(&[(5, "committed")]));
    write("staged.txt", "old\n");
    git(folder, &["init", "--quiet", "--initial-branch=main"]);
    git(folder, &["config", "alias.x", "status"]);
    git(folder, &["add", "."]);
    git(folder, &["commit", "--quiet", "-m", "first"]);
    write("staged.txt", "stashed\n");
    git(folder, &["stash", "--quiet"]);
    write("staged.txt", "staged\n");
    git(folder, &["add", "staged.txt"]);
    write("a.txt", &lines(&[]));
    write("untracked.txt", "untracked\n");
    for name in ["post-checkout", "reference-transaction", "post-index-change", "pre-commit"] {
        let hook = folder.join(".git/hooks").join(name);
        fs::write(&hook, "#!/bin/sh\necho ran >> \"$(git rev-parse --git-common-dir)/../hooked\"\n").unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

/// All files of a repository's own directory with their bytes, but for the list of files to leave out, in which the server puts
/// its own.
fn git_bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    bytes_below(&folder.join(".git"), "info/exclude")
}

/// A user whose workspace is such a repository, and whose model plays this script.
fn home(turns: &[String], settings: &str) -> Home {
    let home = Home::playing(&script(turns));
    home.configure(settings);
    repository(&home.path("work"));
    home
}

fn start(home: &Home) -> (Client, String) {
    let mut client = Client::start(home, Options::typed());
    let started = client.request("roo/task/start", json!({ "prompt": "Go.", "mode": "orchestrator" }));
    (client, started["taskId"].as_str().unwrap().to_owned())
}

/// Waits for the end of the request, not of a branch; its result.
fn end(client: &mut Client) -> Value {
    come(client, "the end of the request", 1, is_end_of_request)[0]["event"]["result"].clone()
}

/// Waits until so many events have come that fit, whatever has been waited for before.
fn come(client: &mut Client, what: &str, count: usize, fits: impl Fn(&Value) -> bool) -> Vec<Value> {
    client.pump(what, |client| {
        let events = client.seen.iter().filter(|message| message["method"] == "roo/event");
        let found: Vec<Value> =
            events.map(|message| message["params"].clone()).filter(|params| fits(params)).collect();
        (found.len() >= count).then_some(found)
    })
}

/// Waits for the event of this type that is the last of so many.
fn event(client: &mut Client, kind: &str, count: usize) -> Value {
    come(client, kind, count, |params| params["event"]["type"] == kind).swap_remove(count - 1)
}

/// Waits until so many branches have completed.
fn branches_end(client: &mut Client, count: usize) {
    come(client, "the ends of branches", count, |params| {
        params["event"]["type"] == "task.state"
            && params["event"]["state"] == "completed"
            && params["taskId"] != params["rootId"]
    });
}

fn answer(client: &mut Client, asked: &Value, text: &str) {
    let id = &asked["event"]["question"]["questionId"];
    let id = if id.is_null() { &asked["event"]["questionId"] } else { id };
    client.request("roo/question/answer", json!({ "questionId": id, "text": text }));
}

fn respond(client: &mut Client, asked: &Value, option: &str) {
    let event = &asked["event"];
    let answer = json!({ "approvalId": event["approvalId"], "digest": event["digest"], "optionId": option });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
}

/// The events of the log, of this type.
fn events(log: &Path, kind: &str) -> Vec<Value> {
    let text = fs::read_to_string(log).unwrap();
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    records.map(|record| record["event"].clone()).filter(|event| event["type"] == kind).collect()
}

/// What the calls of a tool were answered with, in order.
fn results(log: &Path, tool: &str) -> Vec<String> {
    let finished = events(log, "toolFinished").into_iter().filter(|event| event["result"]["name"] == tool);
    finished.map(|event| event["result"]["text"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn three_branches_change_one_file_and_merge_or_are_shown_the_conflict() {
    let home = home(
        &[
            delegates(&[("code", "The first"), ("code", "The second"), ("debug", "The third")]),
            turn("code", "Do it: The first", &vec![read(), replace("one", "ONE"), completes("First.")]),
            turn("code", "Do it: The second", &vec![read(), replace("nine", "NINE"), completes("Second.")]),
            turn("debug", "Do it: The third", &vec![read(), replace("one", "uno"), asks()]),
            turn("debug", "Go on.", &vec![completes("Too early.")]),
            turn("debug", "a.txt: line 1 of the workspace's file", &vec![read()]),
            turn(
                "debug",
                "<<<<<<< others",
                &vec![write(&lines(&[(1, "ONE and uno"), (9, "NINE")])), completes("Third.")],
            ),
            turn("orchestrator", "Third.", &vec![completes("All.")]),
        ],
        AUTO_AND_WRITE,
    );
    let work = home.path("work");
    let before = git_bytes(&work);
    let (mut client, root) = start(&home);
    let asked = event(&mut client, "question.asked", 1);
    branches_end(&mut client, 2);
    let merged = lines(&[(1, "ONE"), (9, "NINE")]);
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), merged, "two are merged, in whatever order");
    answer(&mut client, &asked, "Go on.");
    assert_eq!(end(&mut client), "All.");
    assert_gapless(&client.numbered(&root), 1);
    assert_eq!(client.shut_down(), 0);

    assert_eq!(
        fs::read_to_string(home.work("a.txt")).unwrap(),
        lines(&[(1, "ONE and uno"), (9, "NINE")]),
        "the third saw the conflict and resolved it"
    );
    let log = home.log(&root);
    assert_eq!(events(&log, "mergeConflicted").len(), 1);
    let told = results(&log, "attempt_completion");
    let conflict = told.iter().find(|text| text.starts_with("Others have changed the same lines")).unwrap();
    assert!(conflict.contains("nothing was merged: a.txt: line 1 of the workspace's file.\n"), "{conflict}");
    assert_eq!(
        told.iter().filter(|text| **text == "Your changes were merged into the workspace: a.txt.").count(),
        3
    );

    assert_eq!(git_bytes(&work), before, "index, stash, hooks, configuration and all else are as they were");
    assert!(!home.work("hooked").exists(), "no hook ran");
    assert_eq!(fs::read_to_string(home.work("staged.txt")).unwrap(), "staged\n");
    assert!(!home.path("work-branches").exists(), "the worktrees are gone");
}

#[test]
fn a_file_that_a_branch_renamed_keeps_what_is_known_of_its_lines() {
    let patch =
        "*** Begin Patch\n*** Update File: a.txt\n*** Move to: b.txt\n@@\n-nine\n+NINE\n*** End Patch\n";
    let renames = json!({ "tool": "apply_patch", "params": { "patch": patch } });
    let other = json!({ "tool": "write_to_file", "params": { "path": "c.txt", "content": "new\n" } });
    let home = home(
        &[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &vec![read(), renames, completes("First.")]),
            turn("debug", "Do it: The second", &vec![other, completes("Second.")]),
            turn("orchestrator", "Second.", &vec![completes("All.")]),
        ],
        AUTO_AND_WRITE,
    );
    let (mut client, root) = start(&home);
    assert_eq!(end(&mut client), "All.");
    let query = client.request("roo/trace/query", json!({ "path": "b.txt" }));
    assert_eq!(client.shut_down(), 0);
    assert_eq!(fs::read_to_string(home.work("b.txt")).unwrap(), lines(&[(9, "NINE")]));
    assert!(!home.work("a.txt").exists());
    let told = results(&home.log(&root), "attempt_completion");
    assert!(
        told.iter().any(|text| text.starts_with("Your changes were merged into the workspace:")),
        "{told:?}"
    );
    let own = &query["records"][0]["metadata"]["dev.roo-lsp"];
    assert_eq!(own["old_path"], "a.txt", "{query}");
    // Of nine lines, one is the model's.
    let ranges = &query["records"][0]["files"][0]["conversations"][0]["ranges"];
    let lines: Vec<_> =
        ranges.as_array().unwrap().iter().map(|range| (&range["start_line"], &range["end_line"])).collect();
    assert_eq!(lines, [(&json!(9), &json!(9))], "{query}");
}

#[test]
fn only_the_merge_is_asked_about_and_what_is_refused_is_kept() {
    let home = home(
        &[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &vec![read(), replace("one", "ONE"), completes("First.")]),
            turn("debug", "Do it: The second", &vec![read(), asks()]),
            turn(
                "code",
                "refused this call",
                &vec![json!({ "tool": "complete_with_failure", "params": { "reason": "Not wanted." } })],
            ),
            turn("debug", "Go on.", &vec![write(&lines(&[(9, "NINE")])), completes("Second.")]),
            turn("orchestrator", "Second.", &vec![completes("One of two.")]),
        ],
        AUTO,
    );
    let (mut client, root) = start(&home);
    let question = event(&mut client, "question.asked", 1);
    let asked = event(&mut client, "approval.requested", 1);
    assert_eq!(asked["event"]["title"], "Merge the branch: Edit a.txt");
    let preview =
        client.request("roo/approval/preview", json!({ "approvalId": asked["event"]["approvalId"] }));
    assert_eq!(preview["files"][0]["after"], lines(&[(1, "ONE")]), "{preview}");
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[]));
    respond(&mut client, &asked, "reject_once");
    answer(&mut client, &question, "Go on.");
    let asked = event(&mut client, "approval.requested", 2);
    respond(&mut client, &asked, "allow_once");
    assert_eq!(end(&mut client), "One of two.");
    assert_eq!(client.shut_down(), 0);

    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[(9, "NINE")]));
    let log = home.log(&root);
    let told = results(&log, "new_task");
    let failed = told.iter().find(|text| text.contains("Not wanted.")).unwrap();
    let (_, note) = failed.split_once("Nothing of what it changed was merged.").unwrap();
    assert!(note.starts_with(" The user refused this call"), "{note}");
    let (_, kept) = note.split_once("Its worktree is kept: ").unwrap();
    let kept = Path::new(kept.lines().next().unwrap());
    assert!(kept.starts_with(home.path("work-branches")), "{kept:?}");
    assert_eq!(fs::read_to_string(kept.join("a.txt")).unwrap(), lines(&[(1, "ONE")]));
    assert_eq!(fs::read_dir(home.path("work-branches")).unwrap().count(), 1, "the merged one is gone");
}

#[test]
fn a_change_that_another_branch_made_too_is_merged_by_making_none() {
    let same = || vec![read(), replace("one", "ONE"), completes("Done.")];
    let home = home(
        &[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &same()),
            turn("debug", "Do it: The second", &same()),
            turn("orchestrator", "Done.", &vec![completes("Both.")]),
        ],
        AUTO_AND_WRITE,
    );
    let (mut client, root) = start(&home);
    assert_eq!(end(&mut client), "Both.");
    assert_eq!(client.shut_down(), 0);
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[(1, "ONE")]));
    let told = results(&home.log(&root), "new_task");
    assert!(!told.iter().any(|text| text.contains("worktree")), "{told:?}");
    assert!(!home.path("work-branches").exists(), "the worktrees are gone");
}

#[test]
fn a_branch_of_which_the_user_takes_a_part_says_what_that_is() {
    let both = "<<<<<<< SEARCH\none\n=======\nONE\n>>>>>>> REPLACE\n\n<<<<<<< SEARCH\nnine\n=======\nNINE\n>>>>>>> REPLACE\n";
    let edit = json!({ "tool": "apply_diff", "params": { "path": "a.txt", "diff": both } });
    let home = home(
        &[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &vec![read(), edit, completes("Both lines.")]),
            turn("debug", "Do it: The second", &vec![completes("Second.")]),
            turn("code", "did not take all that you changed", &vec![completes("The first line alone.")]),
            turn("orchestrator", "The first line alone.", &vec![completes("A half.")]),
        ],
        AUTO,
    );
    let (mut client, _) = start(&home);
    let asked = event(&mut client, "approval.requested", 1);
    let id = &asked["event"]["approvalId"];
    let answer = json!({
        "approvalId": id, "digest": asked["event"]["digest"], "optionId": "allow_once",
        "hunks": [{ "hunkId": "h2", "decision": "refuse", "text": "Leave the last line." }],
    });
    assert_eq!(client.request("roo/approval/respond", answer)["accepted"], true);
    assert_eq!(end(&mut client), "A half.");
    assert_eq!(client.shut_down(), 0);
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[(1, "ONE")]));
    assert!(!home.path("work-branches").exists(), "what the user refused is not kept");
}

#[test]
fn cancelled_branches_close_their_work_trees_once_however_long_that_takes() {
    let titles = [("code", "The first"), ("debug", "The second"), ("debug", "The third")];
    let turns = titles.map(|(mode, title)| turn(mode, &format!("Do it: {title}"), &vec![read(), asks()]));
    let ends = turn("orchestrator", "cancelled", &vec![completes("Without them.")]);
    let home = home(&[&[delegates(&titles)], &turns[..], &[ends]].concat(), AUTO);
    let programs = home.path("programs");
    let removed = home.path("removed");
    fs::create_dir(&programs).unwrap();
    let path = std::env::var("PATH").unwrap();
    // One removal takes longer than a cancelled tool has.
    let slow = format!(
        "#!/bin/sh\ncase \"$*\" in *'worktree remove'*)\n\
         echo \"$*\" >> '{0}'\n\
         test \"$(head -n 1 '{0}')\" = \"$*\" && sleep 3;;\nesac\nPATH='{path}' exec git \"$@\"\n",
        removed.display()
    );
    fs::write(programs.join("git"), slow).unwrap();
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", programs.display());
    let mut client = Client::start(&home, Options { environment: vec![("PATH", path)], ..Options::typed() });
    let started = client.request("roo/task/start", json!({ "prompt": "Go.", "mode": "orchestrator" }));
    let root = started["taskId"].as_str().unwrap().to_owned();
    event(&mut client, "question.asked", 3);
    let tree = client.request("roo/tree/get", json!({ "taskId": root }));
    for branch in tree["nodes"].as_array().unwrap().iter().filter(|node| node["parentId"] == root.as_str()) {
        client.request("roo/task/cancel", json!({ "taskId": branch["id"] }));
    }
    assert_eq!(end(&mut client), "Without them.");
    assert_eq!(client.shut_down(), 0);
    let removed = fs::read_to_string(removed).unwrap();
    assert_eq!(removed.lines().count(), 3, "{removed}");
    assert_eq!(events(&home.log(&root), "worktreeClosed").len(), 3);
    assert!(!home.path("work-branches").exists(), "the worktrees are gone");
}

/// A user with a request of two branches that ask something in their worktrees. The first one has made a file.
fn two_that_ask() -> (Home, Client, String) {
    let titles = [("code", "The first"), ("debug", "The second")];
    let home = home(
        &[
            delegates(&titles),
            turn("code", "Do it: The first", &vec![write_file("new.txt", "new\n"), asks()]),
            turn("debug", "Do it: The second", &vec![read(), asks()]),
            turn("orchestrator", "Otherwise.", &vec![completes("Otherwise.")]),
            turn("orchestrator", "Second.", &vec![completes("Both.")]),
            format!("  - mode: code\n    calls: {}\n", json!([completes("First.")])),
            format!("  - mode: debug\n    calls: {}\n", json!([read(), completes("Second.")])),
        ],
        AUTO_AND_WRITE,
    );
    let (mut client, root) = start(&home);
    event(&mut client, "question.asked", 2);
    assert_eq!(worktrees(&home).len(), 2);
    (home, client, root)
}

fn worktrees(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.path("work-branches")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Cancels the request, and waits until all of it has stopped.
fn stop(client: &mut Client, root: &str) {
    client.request("roo/task/cancel", json!({ "taskId": root }));
    come(client, "the end of the request", 1, is_end_of_request);
}

#[test]
fn a_request_that_is_deleted_leaves_no_worktree_but_those_with_changes_and_names_these() {
    for stops in [false, true] {
        let (home, mut client, root) = two_that_ask();
        if stops {
            stop(&mut client, &root);
        }
        assert_eq!(client.shut_down(), 0);
        let mut client = Client::start(&home, Options::typed());
        let deleted = client.request("roo/task/delete", json!({ "taskId": root }));
        let [left] = worktrees(&home).try_into().unwrap();
        assert_eq!(fs::read_to_string(left.join("new.txt")).unwrap(), "new\n");
        let reason = "it has changes that are not merged";
        assert_eq!(deleted, json!({ "keptWorktrees": [{ "path": left, "reason": reason }] }), "{stops}");
        let known = fs::read_dir(home.path("work/.git/worktrees")).unwrap();
        assert_eq!(known.count(), 1, "git knows no other");
        assert_eq!(client.shut_down(), 0);
    }
}

#[test]
fn a_stop_removes_worktrees_without_changes_and_a_resumption_makes_them_anew() {
    let (home, mut client, root) = two_that_ask();
    let is_changed = |top: &PathBuf| top.join("new.txt").exists();
    let [unchanged] =
        worktrees(&home).into_iter().filter(|top| !is_changed(top)).collect::<Vec<_>>().try_into().unwrap();
    stop(&mut client, &root);
    let [left] = worktrees(&home).try_into().unwrap();
    assert!(is_changed(&left));
    assert_eq!(client.shut_down(), 0);
    // The user works on meanwhile.
    fs::write(home.work("a.txt"), lines(&[(1, "ONE")])).unwrap();

    let mut client = Client::start(&home, Options::typed());
    client.request("roo/task/attach", json!({ "taskId": root, "afterSeq": 0 }));
    client.request("roo/task/resume", json!({ "taskId": root }));
    come(&mut client, "the end", 1, |params| params["event"]["result"] == "Both.");
    assert_eq!(client.shut_down(), 0);
    assert_eq!(fs::read_to_string(home.work("new.txt")).unwrap(), "new\n");
    assert_eq!(worktrees(&home), Vec::<PathBuf>::new());
    let made = events(&home.log(&root), "worktreeMade");
    let tops: Vec<&Value> = made.iter().map(|event| &event["worktree"]["top"]).collect();
    assert_eq!((tops.len(), tops[2]), (3, &json!(unchanged)));
    let read = results(&home.log(&root), "read_file");
    assert!(read.last().unwrap().contains("ONE"), "{read:?}");
}

#[test]
fn who_edits_a_message_of_a_stopped_request_is_told_which_branches_end_and_what_is_kept_of_them() {
    let (home, mut client, root) = two_that_ask();
    stop(&mut client, &root);
    let told = come(&mut client, "the prompt", 1, |params| {
        params["event"]["type"] == "message" && params["event"]["message"]["text"] == "Go."
    });
    let edit = |preview: bool| {
        let id = &told[0]["event"]["message"]["id"];
        json!({ "taskId": root, "messageId": id, "text": "Otherwise.", "files": false, "preview": preview })
    };
    let ended = |result: &Value| -> Vec<(String, bool)> {
        let branches = result["endedBranches"].as_array().unwrap().iter();
        branches
            .map(|branch| (branch["title"].as_str().unwrap().to_owned(), branch["worktree"].is_string()))
            .collect()
    };
    let preview = client.request("roo/task/edit", edit(true));
    assert_eq!(ended(&preview), [("The first".to_owned(), true), ("The second".to_owned(), false)]);
    let edited = client.request("roo/task/edit", edit(false));
    assert_eq!(ended(&edited), [("The first".to_owned(), true), ("The second".to_owned(), false)]);
    let [left] = worktrees(&home).try_into().unwrap();
    assert_eq!(edited["endedBranches"][0]["worktree"], json!(left));
    come(&mut client, "the end", 1, |params| params["event"]["result"] == "Otherwise.");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_conflict_can_be_resolved_by_the_text_with_which_the_branch_began() {
    let home = home(
        &[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &vec![read(), replace("one", "ONE"), completes("First.")]),
            turn("debug", "Do it: The second", &vec![read(), replace("one", "uno"), asks()]),
            turn("debug", "Go on.", &vec![completes("Too early.")]),
            turn("debug", "a.txt: line 1 of the workspace's file", &vec![read()]),
            turn("debug", "<<<<<<< others", &vec![write(&lines(&[])), completes("As it was.")]),
            turn("orchestrator", "As it was.", &vec![completes("Both.")]),
        ],
        AUTO_AND_WRITE,
    );
    let (mut client, _) = start(&home);
    let asked = event(&mut client, "question.asked", 1);
    branches_end(&mut client, 1);
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[(1, "ONE")]));
    answer(&mut client, &asked, "Go on.");
    assert_eq!(end(&mut client), "Both.");
    assert_eq!(client.shut_down(), 0);
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[]));
    assert!(!home.path("work-branches").exists(), "the worktrees are gone");
}

#[test]
fn a_merge_keeps_what_is_typed_in_an_open_document() {
    let home = home(
        &[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &vec![read(), replace("one", "ONE"), asks()]),
            turn("debug", "Do it: The second", &vec![completes("Second.")]),
            turn("code", "Go on.", &vec![completes("First.")]),
            turn("orchestrator", "First.", &vec![completes("Both.")]),
        ],
        AUTO_AND_WRITE,
    );
    let (mut client, _) = start(&home);
    let asked = event(&mut client, "question.asked", 1);
    let uri = client.open(&home.work("a.txt"), &lines(&[]));
    client.append(&uri, "typed\n");
    answer(&mut client, &asked, "Go on.");
    assert_eq!(end(&mut client), "Both.");
    assert_eq!(client.documents[&uri].text, lines(&[(1, "ONE")]) + "typed\n");
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[]), "the document is not saved");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn without_git_the_branches_work_in_the_folder_and_say_so_once() {
    let home = Home::playing(&script(&[
        delegates(&[("code", "The first"), ("debug", "The second")]),
        turn("code", "Do it: The first", &vec![write("first\n"), completes("First.")]),
        turn("debug", "Do it: The second", &vec![completes("Second.")]),
        turn("orchestrator", "First.", &vec![completes("Both.")]),
    ]));
    home.configure(AUTO_AND_WRITE);
    let (mut client, root) = start(&home);
    assert_eq!(end(&mut client), "Both.");
    assert_eq!(client.shut_down(), 0);
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), "first\n");
    let shown = events(&home.log(&root), "shown");
    let told = shown.iter().filter_map(|event| event["message"]["text"].as_str());
    let told: Vec<&str> = told.filter(|text| text.contains("git worktrees of their own")).collect();
    assert_eq!(
        told,
        [
            "The branches work in the workspace folder itself, one beside the other, and not in git worktrees of their own: the \
          workspace is in no git repository."
        ]
    );
}

#[test]
fn a_protected_name_is_asked_about_when_it_is_merged() {
    let home = home(
        &[
            delegates(&[("code", "The first"), ("code", "The second")]),
            turn("code", "Do it: The first", &vec![write_file("notes.md", "x\n"), completes("First.")]),
            turn("code", "Do it: The second", &vec![write_file("guarded.md", "y\n"), completes("Second.")]),
            turn("orchestrator", "First.", &vec![completes("Both.")]),
        ],
        "autoApprove: { write: true }\nprotected: [guarded.md]\ndelegation: { worktrees: auto }\n",
    );
    let (mut client, _) = start(&home);
    let asked = event(&mut client, "approval.requested", 1);
    assert!(asked["event"]["title"].as_str().unwrap().starts_with("Create guarded.md"), "{asked}");
    respond(&mut client, &asked, "allow_once");
    let asked = event(&mut client, "approval.requested", 2);
    assert!(
        asked["event"]["title"].as_str().unwrap().starts_with("Merge the branch: Create guarded.md"),
        "{asked}"
    );
    respond(&mut client, &asked, "allow_once");
    assert_eq!(end(&mut client), "Both.");
    assert_eq!(fs::read_to_string(home.work("notes.md")).unwrap(), "x\n");
    assert_eq!(fs::read_to_string(home.work("guarded.md")).unwrap(), "y\n");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn hooks_see_the_merge_as_an_edit_and_may_refuse_it() {
    let home = home(
        &[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &vec![read()]),
            turn("code", "<path>a.txt</path>", &vec![write(&lines(&[(1, "ONE")])), completes("First.")]),
            turn("debug", "Do it: The second", &vec![completes("Second.")]),
            turn(
                "code",
                "not on a Friday",
                &vec![json!({ "tool": "complete_with_failure", "params": { "reason": "A hook refused." } })],
            ),
            turn("orchestrator", "Second.", &vec![completes("Half.")]),
        ],
        AUTO_AND_WRITE,
    );
    // A name that only patches have: the write in the worktree is no such edit.
    let refuse = json!({ "type": "command", "command": "echo 'not on a Friday' >&2; exit 2" });
    let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": "MultiEdit", "hooks": [refuse] }] } });
    fs::write(home.path("config/roo-lsp/hooks.json"), hooks.to_string()).unwrap();
    let (mut client, root) = start(&home);
    assert_eq!(end(&mut client), "Half.");
    assert_eq!(client.shut_down(), 0);
    let told = results(&home.log(&root), "new_task");
    assert!(told.iter().any(|text| text.contains("Nothing of what it changed was merged.")), "{told:?}");
    assert_eq!(fs::read_to_string(home.work("a.txt")).unwrap(), lines(&[]), "{told:?}");
}

fn write_file(path: &str, content: &str) -> Value {
    json!({ "tool": "write_to_file", "params": { "path": path, "content": content } })
}

const ARGUMENTS: [&str; 4] = ["--on-ask=allow", "--allow-write", "--format=ndjson", "--answer=1"];

/// Runs the program with the script, and kills it after a number of appends.
fn works(project: &Project, arguments: &[&str], crash_after: Option<usize>) -> Output {
    let mut command = project.program();
    command.args(arguments).arg("--script").arg(project.beside("script.yaml")).args(ARGUMENTS);
    if let Some(appends) = crash_after {
        command.env("ROO_LSP_CRASH_AFTER_APPENDS", appends.to_string());
    }
    command.output().unwrap()
}

/// Runs a command in the first of two branches, and returns what came back from both.
fn one_branch_runs(project: &Project, command: &str) -> Vec<String> {
    let runs = json!({ "tool": "execute_command", "params": { "command": command } });
    project.script(&script(&[
        delegates(&[("code", "The first"), ("debug", "The second")]),
        turn("code", "Do it: The first", &vec![runs]),
        turn("code", "Exit code: 0", &vec![completes("First.")]),
        turn("debug", "Do it: The second", &vec![completes("Second.")]),
        turn("orchestrator", "First.", &vec![completes("Both.")]),
    ]));
    let output = works(project, &["run", "Go."], None);
    assert!(output.status.success(), "{output:?}");
    let [log] = project.logs().try_into().unwrap();
    results(&log, "new_task")
}

#[test]
fn a_permission_to_be_executed_is_named_and_the_worktree_kept() {
    let project = Project::outside_temp(&[]);
    repository(&project.folder());
    project.configure(&format!("mode: orchestrator\n{AUTO}"));
    let command = "printf '#!/bin/sh\\n' > run.sh && chmod +x run.sh";
    let told = one_branch_runs(&project, command);
    assert_eq!(project.read("run.sh"), "#!/bin/sh\n");
    let note =
        "was merged but for run.sh (its permission to be executed; its text is merged). Its worktree is kept";
    assert!(told.iter().any(|text| text.contains(note)), "{told:?}");
}

#[test]
fn what_is_outside_of_a_sparse_checkout_is_merged_and_an_empty_repository_is_named() {
    let project = Project::outside_temp(&[("in/a.txt", "a\n"), ("out/b.txt", "b\n")]);
    let folder = project.folder();
    git(&folder, &["init", "--quiet", "--initial-branch=main"]);
    git(&folder, &["add", "."]);
    git(&folder, &["commit", "--quiet", "-m", "first"]);
    git(&folder, &["sparse-checkout", "set", "in"]);
    project.configure(&format!("mode: orchestrator\n{AUTO}"));
    let command =
        "mkdir -p out nested && echo new > out/new.txt && cd nested && git init --quiet && echo x > x";
    let told = one_branch_runs(&project, command);
    assert_eq!(project.read("out/new.txt"), "new\n");
    let note = "nested (it is a repository of its own)";
    assert!(told.iter().any(|text| text.contains(note)), "{told:?}");
}

#[test]
fn a_kill_after_any_append_loses_nothing_and_merges_nothing_twice() {
    let played = |crash_after: Option<usize>| {
        let project = Project::outside_temp(&[]);
        repository(&project.folder());
        project.configure(&format!("mode: orchestrator\n{AUTO}"));
        // Each adds its line, also where its worktree is made when the other one is merged.
        project.script(&script(&[
            delegates(&[("code", "The first"), ("debug", "The second")]),
            turn("code", "Do it: The first", &vec![read(), replace("one", "ONE\none"), completes("First.")]),
            turn(
                "debug",
                "Do it: The second",
                &vec![read(), replace("nine", "nine\nNINE"), completes("Second.")],
            ),
            format!("  - mode: code\n    calls: {}\n", json!([completes("First.")])),
            format!("  - mode: debug\n    calls: {}\n", json!([completes("Second.")])),
            turn("orchestrator", "Second.", &vec![completes("Both.")]),
        ]));
        let newest = || -> Value {
            let list = project.succeed(&["tasks", "list", "--json"]);
            list.lines().next().map(|line| serde_json::from_str(line).unwrap()).unwrap_or_default()
        };
        let is_whole = works(&project, &["run", "Go."], crash_after).status.success();
        let item = newest();
        // It may have been killed after its end.
        if item["state"] != "completed" {
            works(&project, &["tasks", "resume", item["taskId"].as_str().unwrap()], None);
        }
        let state = newest()["state"].clone();
        (project, state, is_whole)
    };
    for appends in (2..).step_by(4) {
        let (project, state, is_whole) = played(Some(appends));
        assert_eq!(state, "completed", "after {appends} appends");
        let expected = lines(&[(1, "ONE\none"), (9, "nine\nNINE")]);
        assert_eq!(project.read("a.txt"), expected, "after {appends} appends");
        let closed = project.logs().iter().flat_map(|log| events(log, "worktreeClosed")).collect::<Vec<_>>();
        let left = project.folder().with_file_name("work-branches").exists();
        assert!(!left, "after {appends} appends: {closed:?}");
        let trace = project.succeed(&["trace", "query", "--json"]);
        let trace = trace.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let merges = trace.filter(|record| record["files"][0]["path"] == "a.txt").count();
        assert_eq!(merges, 2, "every merge is in the trace once, and nothing else: after {appends} appends");
        if is_whole {
            return;
        }
    }
}
