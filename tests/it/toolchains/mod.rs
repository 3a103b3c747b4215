//! Real toolchains as an agent uses them: the real binary, as a plain user, with the settings that a user begins with.
//! Each line ends as it does in that user's own shell.

mod cargo;
mod git;
mod homes;
mod hooks;
mod native;
mod network;
mod npm;
mod python;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::support::client::eventually;

/// Who the tests are where they run as root: nobody who is anybody.
const PLAIN_USER: u32 = 61_500;
/// Who they are for programs that refuse to run for nobody: an account of every Debian, `games`, without rights.
const PLAIN_ACCOUNT: u32 = 5;

/// A user with a home, and two projects that begin alike: one for their shell, one for the agent.
struct Workshop {
    directory: TempDir,
    /// Who the user is where the tests run as root.
    user: u32,
    variables: Vec<(&'static str, PathBuf)>,
}

impl Workshop {
    /// With files in both projects and in the home directory, whose names begin with `~/`.
    fn new(files: &[(&str, &str)]) -> Self {
        // Where users have their projects: what is below `/tmp` is a case of its own.
        let directory = match is_root() {
            true => tempfile::tempdir_in("/home"),
            false => tempfile::tempdir_in(crate::support::scratch()),
        };
        let workshop = Self { directory: directory.unwrap(), user: PLAIN_USER, variables: vec![] };
        for name in ["home", "shell", "agent"] {
            fs::create_dir(workshop.at(name)).unwrap();
        }
        for (name, text) in files {
            match name.strip_prefix("~/") {
                Some(name) => workshop.write("home", name, text),
                None => ["shell", "agent"].iter().for_each(|project| workshop.write(project, name, text)),
            }
        }
        workshop.used_by(PLAIN_USER)
    }

    /// As this user, or as root where the checkout lies below a directory that is root's alone.
    fn used_by(mut self, user: u32) -> Self {
        self.user = user;
        self.hand_over();
        let program = env!("CARGO_BIN_EXE_roo-lsp");
        if !self.start(program, "agent").arg("--version").output().is_ok_and(|done| done.status.success()) {
            self.user = 0;
            self.hand_over();
        }
        self
    }

    /// For a program that the user must have. Where root alone has it, they are root.
    fn with(self, program: &str) -> Self {
        self.having(&format!("{program} --version"))
    }

    /// The same for a program that answers to this line.
    fn having(mut self, line: &str) -> Self {
        if let Some(home) = std::env::var_os("HOME").map(PathBuf::from) {
            // Where rustup keeps what its commands start.
            let rustup = std::env::var_os("RUSTUP_HOME").map_or(home.join(".rustup"), PathBuf::from);
            self.variables.push(("RUSTUP_HOME", rustup));
        }
        let has_it = |workshop: &Self| workshop.shell(line).0 == 0;
        if !has_it(&self) {
            self = self.used_by(0);
        }
        assert!(has_it(&self), "`{line}` fails: these tests need that program; scripts/test installs it");
        self
    }

    /// For programs that need their user to have an account.
    fn with_account(self) -> Self {
        self.used_by(PLAIN_ACCOUNT)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, directory: &str, name: &str, text: &str) {
        let path = self.at(directory).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Makes everything the plain user's.
    fn hand_over(&self) {
        if is_root() {
            let owner = format!("{0}:{0}", self.user);
            let done = Command::new("chown").args(["-R", &owner]).arg(self.directory.path()).status();
            assert!(done.unwrap().success());
        }
    }

    /// A program as the plain user starts it, in a project.
    fn start(&self, program: impl AsRef<std::ffi::OsStr>, project: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.at("home"))
            .env("LANG", "C.UTF-8")
            .current_dir(self.at(project))
            .stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if is_root() && self.user != 0 {
            command.uid(self.user).gid(self.user);
        }
        command
    }

    /// What a line prints and how it ends in the user's own shell.
    fn shell(&self, line: &str) -> (i32, String) {
        self.shell_in("shell", line)
    }

    fn shell_in(&self, project: &str, line: &str) -> (i32, String) {
        let output =
            self.start("bash", project).args(["-c", &format!("exec 2>&1; {line}")]).output().unwrap();
        (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What an agent is told of a line that its user allows.
    fn agent(&self, line: &str) -> String {
        let parameters = serde_json::json!({ "command": line }).to_string();
        let mut program = self.start(env!("CARGO_BIN_EXE_roo-lsp"), "agent");
        program.args(["tool", "execute_command", "--allow", "--params", &parameters]);
        let output = program.output().unwrap();
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
    }

    /// The same of a line that comes when somebody else has done something, while its command runs.
    fn agent_after(&self, act: impl FnOnce(), line: &str) -> String {
        let line = format!("touch begun; until [ -e go ]; do sleep 0.1; done; rm begun go; {line}");
        std::thread::scope(|scope| {
            let running = scope.spawn(|| self.agent(&line));
            eventually("the command", || {
                assert!(!running.is_finished(), "it did not wait");
                self.at("agent/begun").exists()
            });
            act();
            self.write("agent", "go", "");
            self.hand_over();
            running.join().unwrap()
        })
    }

    /// Runs a line in both, which has to end alike. Gives what the agent is told.
    #[track_caller]
    fn both(&self, line: &str) -> String {
        let (code, printed) = self.shell(line);
        assert!(code != 127, "{line}: {printed}");
        let told = self.agent(line);
        let expected = match code {
            0 => "Exit code: 0".to_owned(),
            code => format!("Exit code: {code}"),
        };
        assert!(told.contains(&expected), "{line}\n--- shell: {code}\n{printed}\n--- agent:\n{told}");
        told
    }

    /// What a line finds in both projects, from outside of any sandbox, is the same.
    #[track_caller]
    fn same(&self, line: &str) -> String {
        let (shell, agent) = (self.shell_in("shell", line), self.shell_in("agent", line));
        assert_eq!(agent, shell, "{line}");
        agent.1
    }
}

/// Writes the user's settings.
fn settings(workshop: &Workshop, text: &str) {
    workshop.write("home", ".config/roo-lsp/config.yaml", text);
    workshop.hand_over();
}

/// A directory of what `scripts/test` has downloaded for these tests.
fn installed(name: &str) -> PathBuf {
    let directory = crate::support::package().join("target/toolchains").join(name);
    assert!(directory.is_dir(), "{} is missing: scripts/test makes it", directory.display());
    directory
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// The names of what is in a directory.
fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
