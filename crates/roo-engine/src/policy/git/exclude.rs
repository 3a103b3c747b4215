//! The private exclude file of a repository (`info/exclude`): the files that the server makes for this machine alone are
//! listed there, so that `git status` and `git add` leave them out, and no file of the user's changes.
//!
//! Intents (`.orchestration/active_intents.yaml`) are the project's and not listed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::directories::GitDirectory;
use super::program::git;
use super::replace::replace;
use roo_durable::read_regular;
use roo_trace::projection::create_ignore_file;

/// The largest exclude file that is added to, in bytes.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// Directory of requests, relative to the workspace folder.
const TASKS: [&str; 2] = [".roo", "tasks"];
/// Rules of git for that directory.
pub(in super::super) const TASK_RULES: &str = "*\n";
/// Listed patterns, relative to the workspace folder, each with a path that it covers.
const PRIVATE: &[(&str, &str)] = &[
    (".roo/tasks/", ".roo/tasks/x"),
    (".orchestration/agent_trace*.jsonl", ".orchestration/agent_trace.jsonl"),
    (".orchestration/intent_map.md", ".orchestration/intent_map.md"),
    (".orchestration/.*.new", ".orchestration/.intent_map.md.1.new"),
];

/// Has programs that read no exclude file, such as `npm pack`, leave out the directories of requests. A file of the user's
/// stays as it is.
///
/// # Errors
/// When it can't be written.
pub(in super::super) fn ignore_task_files(root: &Path) -> io::Result<()> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = File::open(root)?;
    for name in TASKS {
        directory = match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
            Ok(directory) => directory.into(),
            // There is none yet, or it isn't the server's.
            Err(Errno::NOENT | Errno::LOOP | Errno::NOTDIR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
    }
    create_ignore_file(&directory, TASK_RULES)
}

/// Lists what is private in the exclude file of the repository that holds a workspace folder, once: what the user
/// removes there is not added again, and what their own rules ignore is not added at all. Runs git.
///
/// # Errors
/// When the file can't be read or written.
pub(in super::super) fn exclude_private_files(
    root: &Path,
    roots: &[PathBuf],
    home: Option<&Path>,
) -> io::Result<()> {
    let Some(directory) = GitDirectory::find([root], [], home).pop() else { return Ok(()) };
    let top = root.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok());
    let Some(prefix) = top.and_then(|top| root.strip_prefix(top).ok()?.to_str()) else { return Ok(()) };
    // It is handed to git line by line, and escapes nothing.
    if prefix.contains(['\n', '\r', '\\', '*', '?', '[']) {
        return Ok(());
    }
    let prefix = if prefix.is_empty() { String::new() } else { format!("{prefix}/") };
    let file = directory.common.join("info/exclude");
    let (text, mode) = match file.symlink_metadata() {
        Ok(found) if found.is_file() => (read_regular(&file, MAX_FILE_BYTES)?, found.mode()),
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), 0o644),
        Err(error) => return Err(error),
    };
    let heading = format!(
        "# roo-lsp: files of this machine in /{prefix} (a line that you remove below is not added again)"
    );
    if text.lines().any(|line| line == heading) {
        return Ok(());
    }
    let ignored = ignored(root, roots)?;
    let missing: Vec<String> = PRIVATE
        .iter()
        .filter(|(_, example)| !ignored.iter().any(|path| path == example))
        .map(|(pattern, _)| format!("/{prefix}{pattern}\n"))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    fs::create_dir_all(directory.common.join("info"))?;
    // Through a link it would change a file of another place.
    if !directory.common.join("info").symlink_metadata()?.is_dir() {
        return Ok(());
    }
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    replace(&file, format!("{text}{end}{heading}\n{}", missing.concat()).as_bytes(), mode)
}

/// Finds the examples that git ignores by now, by any file of rules.
fn ignored(root: &Path, roots: &[PathBuf]) -> io::Result<Vec<String>> {
    let output = git(root, roots)?
        .args(["check-ignore", "--no-index", "--"])
        .args(PRIVATE.iter().map(|(_, example)| example))
        .output()?;
    // 1: none is.
    match output.status.code() {
        Some(0 | 1) => Ok(String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()),
        _ => Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    struct Fixture(tempfile::TempDir);

    impl Fixture {
        fn new() -> Self {
            let fixture = Self(tempfile::tempdir().unwrap());
            fixture.shell("git init -q main && cd main && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x");
            fixture
        }

        fn at(&self, name: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(name)
        }

        fn shell(&self, line: &str) -> String {
            let done = Command::new("sh").args(["-ec", line]).current_dir(self.0.path()).output().unwrap();
            assert!(done.status.success(), "{line}: {done:?}");
            String::from_utf8(done.stdout).unwrap()
        }

        /// Returns git's status of what the server makes in a folder.
        fn status(&self, folder: &str) -> String {
            for (name, text) in [
                (".roo/tasks/1/x", ""),
                (".roo/rules.md", ""),
                (".orchestration/agent_trace.jsonl", ""),
                (".orchestration/agent_trace.0123abcd.jsonl", ""),
                (".orchestration/intent_map.md", ""),
                (".orchestration/active_intents.yaml", ""),
            ] {
                let path = self.at(folder).join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            self.shell(&format!("cd {folder} && git status --short -uall ."))
        }

        fn exclude(&self, folder: &str) {
            exclude_private_files(&self.at(folder), &[], None).unwrap();
        }
    }

    const SHARED: &str = "?? .orchestration/active_intents.yaml\n?? .roo/rules.md\n";

    #[test]
    fn private_files_are_left_out_and_shared_ones_are_not() {
        let fixture = Fixture::new();
        fs::write(fixture.at("main/.git/info/exclude"), "own").unwrap();
        fixture.exclude("main");
        assert_eq!(fixture.status("main"), SHARED);
        let text = fs::read_to_string(fixture.at("main/.git/info/exclude")).unwrap();
        assert!(text.starts_with("own\n# roo-lsp: "), "{text}");
        fixture.exclude("main");
        assert_eq!(fs::read_to_string(fixture.at("main/.git/info/exclude")).unwrap(), text);
        // What the user takes out stays out.
        let fewer = text.replace("/.orchestration/intent_map.md\n", "");
        fs::write(fixture.at("main/.git/info/exclude"), &fewer).unwrap();
        fixture.exclude("main");
        assert_eq!(fs::read_to_string(fixture.at("main/.git/info/exclude")).unwrap(), fewer);
    }

    #[test]
    fn what_reads_no_exclude_file_leaves_out_the_directories_of_requests() {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        let ignore = |folder: &str| ignore_task_files(&fixture.at(folder)).unwrap();
        fixture.shell("mkdir -p none/.roo out made/.roo/tasks users/.roo/tasks linked/.roo");
        fixture
            .shell("ln -s ../../out linked/.roo/tasks; ln -s ../../../out/rules users/.roo/tasks/.gitignore");
        ["none", "linked", "made", "users"].iter().for_each(|folder| ignore(folder));
        assert_eq!(fixture.shell("find . -name .gitignore -type f"), "./made/.roo/tasks/.gitignore\n");
        fs::write(fixture.at("made/.roo/tasks/.gitignore"), "").unwrap();
        ignore("made");
        assert_eq!(fixture.shell("cat made/.roo/tasks/.gitignore; ls out"), "");
    }

    #[test]
    fn a_folder_below_the_top_and_a_linked_work_tree_have_lines_of_their_own() {
        let fixture = Fixture::new();
        fixture.shell("mkdir -p 'main/packages/a b' && cd main && git worktree add -q ../linked");
        fixture.exclude("main/packages/a b");
        assert_eq!(
            fixture.shell("cd main && cat .git/info/exclude | grep -c '^/packages/a b/.roo/tasks/$'"),
            "1\n"
        );
        fixture.exclude("linked");
        assert_eq!(fixture.status("linked"), SHARED);
    }

    #[test]
    fn a_submodule_has_them_in_its_own_file() {
        let fixture = Fixture::new();
        fixture.shell("cd main && git -c protocol.file.allow=always submodule -q add ./. sub 2>/dev/null");
        fixture.exclude("main/sub");
        assert_eq!(fixture.status("main/sub"), SHARED);
        assert!(
            fs::read_to_string(fixture.at("main/.git/modules/sub/info/exclude")).unwrap().contains("roo-lsp")
        );
        assert!(!fs::read_to_string(fixture.at("main/.git/info/exclude")).unwrap().contains("roo-lsp"));
    }

    #[test]
    fn what_the_users_own_rules_ignore_is_not_listed() {
        let fixture = Fixture::new();
        let before = fs::read_to_string(fixture.at("main/.git/info/exclude")).unwrap();
        fs::write(fixture.at("main/.gitignore"), ".roo/\n.orchestration/\n").unwrap();
        fixture.exclude("main");
        assert_eq!(fs::read_to_string(fixture.at("main/.git/info/exclude")).unwrap(), before);
        fs::write(fixture.at("main/.gitignore"), ".roo/\n").unwrap();
        fixture.exclude("main");
        let text = fs::read_to_string(fixture.at("main/.git/info/exclude")).unwrap();
        assert!(text.contains("agent_trace") && !text.contains("tasks"), "{text}");
        assert_eq!(fs::read_to_string(fixture.at("main/.gitignore")).unwrap(), ".roo/\n");
    }

    #[test]
    fn nothing_is_written_through_a_link_or_without_a_repository() {
        let fixture = Fixture::new();
        fs::create_dir(fixture.at("plain")).unwrap();
        fixture.exclude("plain");
        fixture.shell("cd main/.git && mv info ../../elsewhere && ln -s ../../elsewhere info");
        let before = fs::read_to_string(fixture.at("elsewhere/exclude")).unwrap();
        fixture.exclude("main");
        assert_eq!(fs::read_to_string(fixture.at("elsewhere/exclude")).unwrap(), before);
        fixture
            .shell("cd main/.git && rm info && mkdir info && ln -s ../../../elsewhere/exclude info/exclude");
        fixture.exclude("main");
        assert_eq!(fs::read_to_string(fixture.at("elsewhere/exclude")).unwrap(), before);
    }
}
