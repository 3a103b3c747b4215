//! What users are told of what happened, by the real program: in the story of a run, by its exit code, and later.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Output;

use crate::support::project::Project;

const DONE: &str = "  - calls: [{ tool: attempt_completion, params: { result: Done. } }]\n";

/// A project whose model plays these turns, then completes.
fn project(turns: &str) -> Project {
    let project = Project::new(&[("a.txt", "one\n")]);
    project.script(&format!("turns:\n{turns}{DONE}"));
    project
}

/// Plays the script with everything allowed.
fn play(project: &Project) -> Output {
    let mut command = project.program();
    command.args(["run", "Do it.", "--mode=code", "--on-ask=allow", "--script"]);
    command.arg(project.beside("script.yaml")).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn nothing_is_made_where_a_link_of_the_workspace_leads() {
    let project = project("");
    let victim = project.beside("victim");
    fs::create_dir(&victim).unwrap();
    fs::create_dir(project.folder().join(".roo")).unwrap();
    symlink(&victim, project.folder().join(".roo/tasks")).unwrap();
    let output = play(&project);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(fs::read_dir(&victim).unwrap().count(), 0);
    assert_eq!(stderr(&output).matches("has no directory of its own").count(), 1, "{output:?}");
    let log = fs::read_to_string(&project.logs()[0]).unwrap();
    assert!(!log.contains("Task directory:"), "{log}");
}

#[test]
fn who_stops_reading_a_run_is_not_told_that_it_is_done() {
    let project = project("");
    let script = project.beside("script.yaml");
    let ends = |arguments: &[&str]| {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = project.program();
        command.args(arguments).stdout(writer);
        command.output().unwrap()
    };
    let run = ["run", "Do it.", "--format=ndjson", "--script", script.to_str().unwrap()];
    let output = ends(&run);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(stderr(&output).contains("can't write to standard output"), "{output:?}");
    // What only prints has done what it could.
    assert_eq!(ends(&["schema"]).status.code(), Some(0));
}
