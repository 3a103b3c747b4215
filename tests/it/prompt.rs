//! `roo-lsp prompt`: what a model is told, and a prompt that a model writes.

use std::fs;
use std::process::Output;

use crate::support::project::Project;

const TARGET: &str = ".roo/system-prompt-code";
const PROMPT: &str = "# 💻 Code Mode\n\nYou write code in {{workspace}}.\n";

/// A project with the specification of the mode `code`, whose model gives these answers.
fn project(answers: &[&str]) -> Project {
    let project = Project::new(&[
        ("README.md", "A team of agents."),
        ("SYSTEM-PROMPTS.md", "Prompts are self-contained."),
        ("CODE-MODE.md", "The mode code implements."),
    ]);
    let turns: Vec<_> = answers
        .iter()
        .enumerate()
        .map(|(at, answer)| {
            let seen = if at == 0 {
                ["The mode code implements.", "<reference>"]
            } else {
                ["can't be used", "whole"]
            };
            serde_json::json!({ "mode": "code", "when": { "contains": seen }, "text": answer })
        })
        .collect();
    let script = project.script(&serde_json::json!({ "turns": turns }).to_string());
    let profile = serde_json::json!({ "provider": "scripted", "script": script, "toolProtocol": "xml" });
    let directory = project.beside("config").join("roo-lsp");
    fs::create_dir_all(&directory).unwrap();
    let config = serde_json::json!({ "profiles": { "default": profile } });
    fs::write(directory.join("config.yaml"), config.to_string()).unwrap();
    project
}

#[track_caller]
fn assert_refused(output: &Output, error: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains(error), "{output:?}");
}

#[test]
fn a_prompt_is_printed_in_the_protocol_of_the_profile_or_the_flag() {
    let project = project(&[]);
    let xml = project.succeed(&["prompt", "code"]);
    assert!(xml.starts_with("# 💻 Code Mode\n") && xml.contains("\n### read_file\n"), "{xml}");
    assert_eq!(xml, project.succeed(&["prompt", "code", "--protocol=xml"]));
    let native = project.succeed(&["prompt", "code", "--protocol=native"]);
    assert!(!native.contains("### read_file") && native.contains("function calls"), "{native}");
    assert!(!native.contains("environment_details>\n#"), "{native}");
    let both = project.succeed(&["prompt", "code", "--protocol=native", "--environment"]);
    let details = both.strip_prefix(&native).unwrap();
    assert!(details.starts_with("\n<environment_details>\n# Current Time\n"), "{details}");
}

#[test]
fn a_mode_that_is_not_there_is_a_wrong_argument() {
    let output = project(&[]).run(&["prompt", "poet"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("architect"), "{output:?}");
}

#[test]
fn a_model_writes_the_prompt_from_the_documents() {
    let project = project(&[&format!("```markdown\n{PROMPT}```")]);
    let output = project.run(&["prompt", "code", "--write"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), format!("{TARGET}\n"), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("from README.md, SYSTEM-PROMPTS.md, CODE-MODE.md"), "{told}");
    assert_eq!(project.read(TARGET), PROMPT);
    // A task's own log is not needed for it.
    assert!(project.logs().is_empty());
}

#[test]
fn a_prompt_that_is_there_is_replaced_only_by_force() {
    let project = project(&[PROMPT]);
    project.write(TARGET, "mine");
    assert_refused(&project.run(&["prompt", "code", "--write"]), "exists; --force replaces it");
    assert_eq!(project.read(TARGET), "mine");
    project.succeed(&["prompt", "code", "--write", "--force"]);
    assert_eq!(project.read(TARGET), PROMPT);
}

#[test]
fn an_answer_with_a_fault_is_sent_back_once() {
    let project = project(&["# 💻 Code Mode\n\nSee `CODE-MODE.md`.\n", PROMPT]);
    let output = project.run(&["prompt", "code", "--write"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("asking once more"), "{output:?}");
    assert_eq!(project.read(TARGET), PROMPT);
}

#[test]
fn missing_and_large_documents_are_named() {
    let project = project(&[PROMPT]);
    assert_refused(&project.run(&["prompt", "new-task", "--write"]), "NEW-TASK-MODE.md not found in ");
    project.write("README.md", &"x".repeat(256 * 1024 + 1));
    assert_refused(&project.run(&["prompt", "code", "--write"]), "README.md has 262145 bytes");
    assert_eq!(project.read(TARGET), "");
}

#[test]
fn an_answer_that_is_no_prompt_is_not_written() {
    for (answer, error) in [
        ("Here you are:\n# 💻 Code Mode\n", "must begin with the line '# 💻 Code Mode'"),
        ("# 💻 Code Mode\n\nFollow CODE-MODE.md.\n", "line 3 refers to a document"),
        ("# 💻 Code Mode", "nothing after its first line"),
    ] {
        let project = project(&[answer, answer]);
        assert_refused(&project.run(&["prompt", "code", "--write"]), error);
        assert!(!project.folder().join(".roo").exists());
    }
}

#[test]
fn links_are_neither_read_out_of_the_workspace_nor_written() {
    let project = project(&[PROMPT]);
    fs::write(project.beside("secret.md"), "secret").unwrap();
    fs::remove_file(project.folder().join("README.md")).unwrap();
    std::os::unix::fs::symlink(project.beside("secret.md"), project.folder().join("README.md")).unwrap();
    assert_refused(&project.run(&["prompt", "code", "--write"]), "README.md points outside the workspace");

    project.write("a.txt", "kept");
    fs::create_dir(project.folder().join(".roo")).unwrap();
    std::os::unix::fs::symlink(project.folder().join("a.txt"), project.folder().join(TARGET)).unwrap();
    assert_refused(&project.run(&["prompt", "code", "--write", "--force"]), "is a symlink");
    assert_eq!(project.read("a.txt"), "kept");
}

#[test]
fn documents_that_may_not_be_read_are_not_sent_to_a_model() {
    let project = project(&[PROMPT]);
    project.write(".env", "TOKEN=hunter2");
    project.write("private.md", "hunter2");
    project.write(".rooignore", "private.md\nCODE-MODE.md\n");
    for (target, error) in [
        (Some(".env"), "README.md leads to .env, which has the name of a secret"),
        (Some("private.md"), "README.md is hidden by .rooignore, or leads to a file that is"),
        (None, "CODE-MODE.md is hidden by .rooignore, or leads to a file that is"),
    ] {
        let readme = project.folder().join("README.md");
        fs::remove_file(&readme).unwrap();
        match target {
            Some(target) => std::os::unix::fs::symlink(target, &readme).unwrap(),
            None => project.write("README.md", "A team of agents."),
        }
        assert_refused(&project.run(&["prompt", "code", "--write"]), error);
        assert!(!project.folder().join(TARGET).exists());
    }
}
