//! Attacks that worked elsewhere, tried on the real program: the policy must decide as it is written, and
//! where a user allowed the act all the same, nothing may come of it outside of its bounds.
//!
//! `tests/corpus/rows.jsonl` has a line for each attack of the corpus: the tests that hold against it, or
//! why there is none yet. Attacks by command lines are in `tests/corpus/commands.jsonl`.

mod approvals;
mod config;
mod exfiltration;
mod hooks;
mod injection;
mod paths;
mod protocol;
mod resources;
mod rows;
mod secrets;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// A workspace `ws`, its neighbours `out` and `ws-evil`, and a user's home. They lie outside of `/tmp`, which
/// a sandbox replaces: there an attack would fail for that reason alone.
struct Ground {
    directory: TempDir,
}

/// What came of a tool call.
#[derive(Debug)]
struct Told {
    /// `allow`, or the verdict with its rule, such as `deny path`. Empty where no gate was reached.
    verdict: String,
    /// What a model or a user would read.
    text: String,
    /// What went to standard error.
    errors: String,
    code: Option<i32>,
}

impl Ground {
    fn new() -> Self {
        Self::below(&crate::support::scratch())
    }

    fn below(scratch: &Path) -> Self {
        let directory = tempfile::tempdir_in(scratch).unwrap();
        let ground = Self { directory };
        for name in ["ws/src", "ws-evil", "out", "home/.ssh", "config/roo-lsp", "state"] {
            fs::create_dir_all(ground.at(name)).unwrap();
        }
        ground.settings("");
        ground
    }

    /// Whose user lets agents write without asking.
    fn writing() -> Self {
        let ground = Self::new();
        ground.settings("autoApprove: { write: true }\n");
        ground
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn settings(&self, yaml: &str) {
        fs::write(self.at("config/roo-lsp/config.yaml"), format!("mode: code\n{yaml}")).unwrap();
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.at(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    fn link(&self, name: &str, to: impl AsRef<Path>) {
        symlink(to, self.at(name)).unwrap();
    }

    /// Intents of one scope each, numbered from 1.
    fn intents(&self, scopes: &[&str]) {
        let list: String = (1..)
            .zip(scopes)
            .map(|(number, scope)| {
                let scope = json!([scope]);
                format!("  - {{ id: INT-{number}, name: N, status: IN_PROGRESS, owned_scope: {scope} }}\n")
            })
            .collect();
        self.write("ws/.orchestration/active_intents.yaml", &format!("active_intents:\n{list}"));
    }

    /// The program, with nothing of the tester's own environment.
    fn program(&self) -> Command {
        self.within(Command::new(env!("CARGO_BIN_EXE_roo-lsp")))
    }

    fn within(&self, mut command: Command) -> Command {
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.at("home"))
            .env("XDG_CONFIG_HOME", self.at("config"))
            .env("XDG_STATE_HOME", self.at("state"))
            .current_dir(self.at("ws"))
            .stdin(Stdio::null());
        command
    }

    fn tool_with(&self, name: &str, params: Value, more: &[&str]) -> Told {
        let params = params.to_string();
        told(self.program().args(["tool", name, "--params", &params]).args(more))
    }

    fn tool(&self, name: &str, params: Value) -> Told {
        self.tool_with(name, params, &[])
    }

    /// Writes a file as an agent would.
    fn put(&self, path: &str, more: &[&str]) -> Told {
        self.tool_with("write_to_file", json!({ "path": path, "content": "planted\n" }), more)
    }

    /// Runs a command that the user allows without a look.
    fn run(&self, line: &str) -> Told {
        let told = self.tool_with("execute_command", json!({ "command": line }), &["--allow"]);
        assert_eq!(told.verdict, "allow", "{line}: {told:?}");
        told
    }

    /// Nothing has come of an attack in the workspace's neighbourhood.
    #[track_caller]
    fn assert_clean(&self, what: &str) {
        for name in ["out", "ws-evil", "home/.ssh"] {
            assert_eq!(fs::read_dir(self.at(name)).unwrap().count(), 0, "{what}: something is in {name}");
        }
    }
}

fn told(command: &mut Command) -> Told {
    let output = command.output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let verdict = errors.lines().find_map(|line| {
        let (verdict, rest) = line.split_once(" (")?;
        let rule = rest.split_once(')')?.0;
        match verdict {
            "allow" => Some("allow".to_owned()),
            "ask" | "deny" => Some(format!("{verdict} {rule}")),
            _ => None,
        }
    });
    Told {
        verdict: verdict.unwrap_or_default(),
        text: String::from_utf8_lossy(&output.stdout).into_owned(),
        errors,
        code: output.status.code(),
    }
}

/// Whether this text is in a file below a directory.
fn holds(directory: &Path, text: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(directory).ok()?;
    entries.flatten().map(|entry| entry.path()).find_map(|path| {
        let kind = path.symlink_metadata().ok()?;
        if kind.is_dir() {
            return holds(&path, text);
        }
        let bytes = fs::read(&path).ok().filter(|_| kind.is_file())?;
        bytes.windows(text.len()).any(|window| window == text.as_bytes()).then_some(path)
    })
}
