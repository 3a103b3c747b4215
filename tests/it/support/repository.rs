//! Git repositories of a user, and what must not change in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Runs git with the configuration of nobody.
#[track_caller]
pub fn git(folder: &Path, arguments: &[&str]) {
    let mut command = Command::new("git");
    command.args(["-c", "user.name=A", "-c", "user.email=a@example.org"]).args(arguments);
    command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    let output = command.current_dir(folder).output().unwrap();
    assert!(output.status.success(), "git {arguments:?}: {output:?}");
}

/// All files of a directory with their bytes, but for one file or directory in it.
pub fn bytes_below(directory: &Path, but: &str) -> BTreeMap<PathBuf, Vec<u8>> {
    let but = directory.join(but);
    let (mut found, mut open) = (BTreeMap::new(), vec![directory.to_owned()]);
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path == but {
                continue;
            }
            if path.is_dir() {
                open.push(path);
            } else if path.is_file() {
                found.insert(path.clone(), fs::read(path).unwrap());
            }
        }
    }
    found
}
