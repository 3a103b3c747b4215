//! A workspace whose directory was moved goes on with its requests, by the real program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use roo_durable::{RequestLog, WorkspaceDirectory};

use crate::support::bounded_process::output_of;
use crate::support::project::Project;

const SCRIPT: &str = "turns:
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: \"one\\n\" } }]
  - repeat: true
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
";

fn workspace(project: &Project, folder: &Path) -> WorkspaceDirectory {
    WorkspaceDirectory::new(&project.beside("state/roo-lsp"), folder)
}

/// The part of the state directory that is a folder's.
fn state_of(project: &Project, folder: &Path) -> PathBuf {
    workspace(project, folder).path().to_owned()
}

/// Runs the program in a directory.
fn run_in(project: &Project, directory: &Path, arguments: &[&str]) -> Output {
    output_of(project.program().current_dir(directory).args(arguments))
}

#[track_caller]
fn succeed_in(project: &Project, directory: &Path, arguments: &[&str]) -> String {
    let output = run_in(project, directory, arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn problem_in(project: &Project, directory: &Path, arguments: &[&str]) -> String {
    let output = run_in(project, directory, arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_moved_workspace_goes_on_with_its_tasks_and_its_trace() {
    let project = Project::new(&[]);
    let script = project.script(SCRIPT);
    let script = script.to_str().unwrap();
    project.succeed(&["trust"]);
    project.succeed(&["run", "--mode=code", "--on-ask=allow", "--script", script, "Make it."]);
    let listed = project.succeed(&["tasks", "list"]);
    let urid = listed.split_whitespace().next().unwrap().to_owned();

    let before = project.folder();
    let now = before.with_file_name("moved");
    fs::rename(&before, &now).unwrap();
    let name = before.to_str().unwrap();
    let listing = run_in(&project, &now, &["tasks", "list"]);
    assert_eq!(String::from_utf8_lossy(&listing.stdout), "No tasks in this workspace yet.\n");
    let told = format!("It was {name} before; take its tasks over: roo-lsp tasks adopt {name}\n");
    assert_eq!(String::from_utf8_lossy(&listing.stderr), told);
    let candidates = succeed_in(&project, &now, &["tasks", "adopt"]);
    assert_eq!(candidates, format!("Folders that had tasks and are gone:\n  {name}\n"));

    let unsure = problem_in(&project, &now, &["tasks", "adopt", name]);
    assert!(unsure.contains(&format!("1 task of {name} would become this workspace's")), "{unsure}");
    let adopted = succeed_in(&project, &now, &["tasks", "adopt", "--yes", name]);
    assert_eq!(
        adopted,
        format!(
            "1 task and the trace of {name} are this workspace's now.\n\
             Trust is not taken over: `roo-lsp trust` trusts the workspace where it is now.\n"
        )
    );
    assert_eq!(succeed_in(&project, &now, &["tasks", "list"]), listed);
    assert!(succeed_in(&project, &now, &["trace", "verify"]).contains("1 record checked, intact"));
    assert!(succeed_in(&project, &now, &["trust", "--show"]).starts_with("not trusted"));
    succeed_in(&project, &now, &["tasks", "resume", &urid, "More.", "--script", script]);
    // Once more there is nothing to take over.
    let again = problem_in(&project, &now, &["tasks", "adopt", "--yes", name]);
    assert!(again.contains(&format!("nothing is kept of {name}")), "{again}");

    // By a path through a link, and back.
    let link = before.with_file_name("link");
    std::os::unix::fs::symlink(now.parent().unwrap(), &link).unwrap();
    fs::rename(&now, &before).unwrap();
    let linked = link.join("moved");
    succeed_in(&project, &before, &["tasks", "adopt", "--yes", linked.to_str().unwrap()]);
    assert_eq!(project.succeed(&["tasks", "list"]), listed);
}

#[test]
fn the_tasks_of_a_folder_that_is_still_there_stay_its_own() {
    let project = Project::new(&[]);
    let script = project.script(SCRIPT);
    let run = ["run", "--mode=code", "--on-ask=allow", "--script", script.to_str().unwrap(), "Make it."];
    project.succeed(&run);
    let other = project.beside("other");
    fs::create_dir(&other).unwrap();
    let name = project.folder();
    let name = name.to_str().unwrap();
    let problem = problem_in(&project, &other, &["tasks", "adopt", name]);
    assert!(problem.contains(&format!("{name} is still there, and its tasks are its own")), "{problem}");
    assert!(project.succeed(&["tasks", "list"]).contains("Make it."));
}

#[test]
fn a_new_folder_is_offered_no_tasks_of_a_deleted_one_beside_it() {
    let project = Project::new(&[]);
    let script = project.script(SCRIPT);
    project.succeed(&[
        "run",
        "--mode=code",
        "--on-ask=allow",
        "--script",
        script.to_str().unwrap(),
        "Make it.",
    ]);
    let fresh = project.beside("fresh");
    fs::create_dir(&fresh).unwrap();
    fs::rename(project.folder(), project.beside("elsewhere")).unwrap();
    let listing = run_in(&project, &fresh, &["tasks", "list"]);
    assert_eq!(String::from_utf8_lossy(&listing.stderr), "");
}

#[test]
fn what_a_user_has_allowed_and_refused_goes_along_with_the_tasks() {
    let project = Project::new(&[]);
    let script = project.script(SCRIPT);
    let run = ["run", "--mode=code", "--on-ask=allow", "--script", script.to_str().unwrap(), "Make it."];
    project.succeed(&run);
    let (before, now) = (project.folder(), project.beside("moved"));
    let state = state_of(&project, &before);
    let rule = |id: &str, verdict: &str, kind: &str| {
        serde_json::json!({
            "ruleId": id, "verdict": verdict, "text": format!("{verdict} {kind}"), "subject": { "kind": kind },
            "scope": "workspace", "createdAt": 1, "by": "nvim",
        })
    };
    let rules = serde_json::json!([rule("r1", "deny", "edits"), rule("r2", "allow", "reads")]);
    fs::write(state.join("rules.json"), rules.to_string()).unwrap();
    for name in ["changes/moved/20261120", "tmp/20261120-14-05-1f0c9a3b", "branches/1f0c9a3b.2", "layers/a"] {
        fs::create_dir_all(state.join(name)).unwrap();
    }
    for name in ["intents.json", "0a.stopped-1", "new-request.md"] {
        fs::write(state.join(name), "{}").unwrap();
    }
    fs::rename(&before, &now).unwrap();
    let name = before.to_str().unwrap();
    let adopted = succeed_in(&project, &now, &["tasks", "adopt", "--yes", name]);
    assert!(
        adopted.starts_with(&format!("1 task and the trace of {name} are this workspace's now.\n")),
        "{adopted}"
    );
    assert!(!state.exists(), "{adopted}");
    let new = state_of(&project, &now);
    for name in [
        "changes/moved/20261120",
        "tmp/20261120-14-05-1f0c9a3b",
        "branches/1f0c9a3b.2",
        "intents.json",
        "0a.stopped-1",
    ] {
        assert!(new.join(name).exists(), "{name}");
    }
    let listed = succeed_in(&project, &now, &["policy", "rules"]);
    assert!(listed.contains("r1") && listed.contains("edits") && !listed.contains("reads"), "{listed}");
}

#[test]
fn what_is_there_twice_is_kept_and_named() {
    let project = Project::new(&[]);
    let script = project.script(SCRIPT);
    let run = ["run", "--mode=code", "--on-ask=allow", "--script", script.to_str().unwrap(), "Make it."];
    project.succeed(&run);
    let (before, now) = (project.folder(), project.beside("moved"));
    let (old, new) = (state_of(&project, &before), state_of(&project, &now));
    fs::create_dir_all(&new).unwrap();
    for state in [&old, &new] {
        fs::write(state.join("new-request.md"), "Do that.").unwrap();
    }
    fs::rename(&before, &now).unwrap();
    let earlier = workspace(&project, &before);
    let [request] = earlier.requests().unwrap().try_into().unwrap();
    let held = RequestLog::open::<serde_json::Value>(earlier.request(&request)).unwrap();
    let problem = problem_in(&project, &now, &["tasks", "adopt", "--yes", before.to_str().unwrap()]);
    let told = format!("a task of {} is open in another roo-lsp: close that window", before.display());
    assert!(problem.contains(&told), "{problem}");
    drop(held);
    let adopted = succeed_in(&project, &now, &["tasks", "adopt", "--yes", before.to_str().unwrap()]);
    let draft = old.join("new-request.md");
    assert!(adopted.contains(&format!("{} stays", draft.display())), "{adopted}");
    assert_eq!(fs::read_to_string(draft).unwrap(), "Do that.");
}
