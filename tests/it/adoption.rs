//! A workspace whose directory was moved goes on with its requests, by the real program.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::support::bounded_process::output_of;
use crate::support::project::Project;

const SCRIPT: &str = "turns:
  - calls: [{ tool: write_to_file, params: { path: a.txt, content: \"one\\n\" } }]
  - repeat: true
    calls: [{ tool: attempt_completion, params: { result: Done. } }]
";

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
    let told = format!("If it was {name} before, take its tasks over: roo-lsp tasks adopt {name}\n");
    assert_eq!(String::from_utf8_lossy(&listing.stderr), told);
    let candidates = succeed_in(&project, &now, &["tasks", "adopt"]);
    assert_eq!(candidates, format!("Folders that had tasks and are gone:\n  {name}\n"));

    let adopted = succeed_in(&project, &now, &["tasks", "adopt", name]);
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
    let again = problem_in(&project, &now, &["tasks", "adopt", name]);
    assert!(again.contains(&format!("nothing is kept of {name}")), "{again}");

    // By a path through a link, and back.
    let link = before.with_file_name("link");
    std::os::unix::fs::symlink(now.parent().unwrap(), &link).unwrap();
    fs::rename(&now, &before).unwrap();
    let linked = link.join("moved");
    succeed_in(&project, &before, &["tasks", "adopt", linked.to_str().unwrap()]);
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
