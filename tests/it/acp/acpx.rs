//! A client of a registry: acpx, which has no window. It keeps its sessions itself, and loads them into an agent of its own for
//! each prompt.

use std::path::PathBuf;
use std::process::{Command, Output};

use super::{DONE, WRITES, playing, untrusted};
use crate::support::project::Project;

/// A program below the directory into which `scripts/test` installs the client.
fn installed(program: &str) -> PathBuf {
    let path = crate::support::package().join("target/acp-clients/node_modules").join(program);
    assert!(path.exists(), "{} is missing: ./scripts/test installs it", path.display());
    path
}

/// Runs acpx with an agent of this project.
fn acpx(project: &Project, arguments: &[&str]) -> Output {
    let mut command = Command::new(installed("node/bin/node"));
    command
        .arg(installed("acpx/dist/cli.js"))
        .args(["--agent", &format!("{} acp", env!("CARGO_BIN_EXE_roo-lsp"))])
        .arg("--cwd")
        .arg(project.folder())
        .args(arguments)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", project.beside("home"))
        .env("XDG_CONFIG_HOME", project.beside("config"))
        .env("XDG_STATE_HOME", project.beside("state"))
        .current_dir(project.folder());
    std::fs::create_dir_all(project.beside("home")).unwrap();
    command.output().unwrap()
}

#[track_caller]
fn succeed(project: &Project, arguments: &[&str]) -> String {
    let output = acpx(project, arguments);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {told}");
    told
}

#[test]
#[ignore = "needs Node.js and acpx; ./scripts/test runs it"]
fn acpx_has_a_file_written_when_it_approves_that_and_not_when_it_denies_it() {
    for (flag, written) in [("--approve-all", "one\ntwo\n"), ("--deny-all", "")] {
        let project = playing(&format!("{WRITES}{DONE}"));
        // It fails where it has denied something, whatever became of the rest.
        let output = acpx(&project, &[flag, "--ttl", "1", "exec", "Write it."]);
        let told = String::from_utf8(output.stdout).unwrap();
        assert!(told.contains("Done.") && told.contains("end_turn"), "{told}");
        assert_eq!(project.read("a.txt"), written, "{flag}");
    }
}

#[test]
#[ignore = "needs Node.js and acpx; ./scripts/test runs it"]
fn acpx_goes_on_with_a_session_that_it_has_saved() {
    let more = "  - when: { contains: more }\n    calls: [{ tool: attempt_completion, params: { result: All of it. } }]\n";
    let project = playing(&format!("{WRITES}{DONE}{more}"));
    // Longer than the test takes: its process for a session takes no prompt while it ends on its own.
    let prompt = |text: &str| succeed(&project, &["--approve-all", "--ttl", "600", "prompt", text]);
    succeed(&project, &["--ttl", "600", "sessions", "new"]);
    let told = prompt("Write it.");
    assert!(told.contains("Done."), "{told}");
    let told = prompt("And more.");
    assert!(told.contains("All of it."), "{told}");
    succeed(&project, &["sessions", "close"]);
    assert_eq!(project.logs().len(), 1, "it is one request");
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
}

#[test]
#[ignore = "needs Node.js and acpx; ./scripts/test runs it"]
fn acpx_does_not_trust_a_workspace_by_approving_everything() {
    let project = untrusted(&format!("{WRITES}{DONE}"));
    project.write(".roo/rules/a.md", "Be kind.");
    let told = succeed(&project, &["--approve-all", "--ttl", "1", "exec", "Write it."]);
    assert!(told.contains("Done."), "{told}");
    assert_eq!(project.read("a.txt"), "one\ntwo\n");
    let shown = project.succeed(&["trust", "--show"]);
    assert!(shown.contains("not trusted"), "{shown}");
}
