//! A workspace and a home of their own for the program.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::bounded_process::output_of;
use super::replays;

/// A folder with files, and places for the program's configuration and state.
pub struct Project {
    directory: TempDir,
}

impl Project {
    /// A workspace with these files, of a user whose requests begin in the mode `code`.
    pub fn new(files: &[(&str, &str)]) -> Self {
        Self::at(tempfile::tempdir().unwrap(), files)
    }

    /// The same outside of `/tmp`, in whose place sandboxed programs have a directory of their own.
    pub fn outside_temp(files: &[(&str, &str)]) -> Self {
        Self::at(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap(), files)
    }

    fn at(directory: TempDir, files: &[(&str, &str)]) -> Self {
        let project = Self { directory };
        fs::create_dir(project.folder()).unwrap();
        project.configure("mode: code\n");
        for (name, text) in files {
            project.write(name, text);
        }
        project
    }

    /// The workspace folder.
    pub fn folder(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work")
    }

    /// A place beside the workspace.
    pub fn beside(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file of the workspace.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.folder().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Reads a file of the workspace; empty when it isn't there.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.folder().join(name)).unwrap_or_default()
    }

    /// Writes the user's settings, all of them.
    pub fn configure(&self, yaml: &str) {
        let directory = self.beside("config").join("roo-lsp");
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("config.yaml"), yaml).unwrap();
    }

    /// Writes a model script beside the workspace.
    pub fn script(&self, yaml: &str) -> PathBuf {
        let path = self.beside("script.yaml");
        fs::write(&path, yaml).unwrap();
        path
    }

    /// The program, with nothing of the tester's own environment.
    pub fn program(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_roo-lsp"));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.beside("home"))
            .env("XDG_CONFIG_HOME", self.beside("config"))
            .env("XDG_STATE_HOME", self.beside("state"))
            .current_dir(self.folder())
            .stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    pub fn run(&self, arguments: &[&str]) -> Output {
        output_of(self.program().args(arguments))
    }

    /// Runs the program, which must succeed, and returns what it printed.
    #[track_caller]
    pub fn succeed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The logs of this workspace's requests, oldest first.
    pub fn logs(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        collect(&self.beside("state"), &mut found);
        found.sort();
        found
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        // Of an engine in the test, and of the program.
        for state in ["state", "state/roo-lsp"] {
            replays::check(&self.beside(state), &self.folder());
        }
    }
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            collect(&path, found);
        } else if path.file_name().is_some_and(|name| name == "log.jsonl") {
            found.push(path);
        }
    }
}
