//! Operations of git that are under way: what `git rebase --continue` and the like would run as programs.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::config;
use super::replace::replace;
use roo_sandbox::changes::Store;

/// The largest file of an operation that is looked at, in bytes. A longer one doesn't stay if a command wrote it.
const MAX_FILE_BYTES: u64 = 4 << 20;
/// The steps of a rebase that are to come.
pub(super) const STEPS: &str = "rebase-merge/git-rebase-todo";
/// The strategy of a rebase. Git takes any other name for that of a program.
const STRATEGY: &str = "rebase-merge/strategy";
/// The options of a sequence of cherry-picks or reverts, as a configuration.
const OPTIONS: &str = "sequencer/opts";
/// The directories that hold these.
const PLACES: [&str; 2] = ["rebase-merge", "sequencer"];
/// The strategies that git brings along.
const STRATEGIES: &[&str] = &["", "octopus", "ort", "ours", "recursive", "resolve", "subtree"];

/// The programs that the operations of one git directory would run.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Programs {
    /// Steps of a rebase, by the programs that they run.
    steps: BTreeSet<String>,
    /// Strategies that are programs.
    strategies: BTreeSet<String>,
}

/// A change of an operation that was undone.
pub(super) struct Removed {
    pub(super) path: PathBuf,
    pub(super) because: Vec<String>,
    pub(super) kept: Option<PathBuf>,
}

impl Programs {
    /// Those of the operations that are under way in a git directory.
    pub(super) fn read(git: &Path, roots: &[PathBuf]) -> Self {
        let steps = Self::from_steps(&read(&git.join(STEPS)).unwrap_or_default());
        Self { strategies: strategies(git, roots), ..steps }
    }

    /// Those of a rebase that had these steps.
    pub(super) fn from_steps(steps: &str) -> Self {
        Self { steps: steps.lines().filter_map(program).map(str::to_owned).collect(), ..Self::default() }
    }

    /// The directories of a git directory in which operations say what they would run.
    pub(super) fn places(git: &Path) -> [PathBuf; 2] {
        PLACES.map(|name| git.join(name))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.strategies.is_empty()
    }

    /// Takes those out of the operations that are under way now which are not among these from before the command.
    pub(super) fn settle(&self, git: &Path, store: &Store, roots: &[PathBuf]) -> io::Result<Vec<Removed>> {
        let mut removed = Vec::new();
        let path = git.join(STEPS);
        if let Ok(found) = path.symlink_metadata() {
            match read(&path) {
                Some(text) => {
                    let is_new = |line: &&str| program(line).is_some_and(|step| !self.steps.contains(step));
                    let new: Vec<String> =
                        text.lines().filter(is_new).map(|line| line.trim().to_owned()).collect();
                    if !new.is_empty() {
                        let kept = store.quarantine(&path)?;
                        let rest: String = text.split_inclusive('\n').filter(|line| !is_new(line)).collect();
                        replace(&path, rest.as_bytes(), found.mode())?;
                        removed.push(Removed { path, because: new, kept });
                    }
                }
                None => {
                    let because = vec!["it can't be read".to_owned()];
                    removed.push(Removed { kept: store.quarantine(&path)?, path, because });
                }
            }
        }
        let is_new = |name: &&String| !self.strategies.contains(*name);
        if strategies(git, roots).iter().any(|name| is_new(&name)) {
            // Without them git goes on by its own strategy.
            for path in [git.join(STRATEGY), git.join(OPTIONS)] {
                if path.symlink_metadata().is_ok() {
                    let because = vec!["a merge strategy that is a program".to_owned()];
                    removed.push(Removed { kept: store.quarantine(&path)?, path, because });
                }
            }
        }
        Ok(removed)
    }
}

/// The program of a step, with its arguments.
fn program(line: &str) -> Option<&str> {
    let (word, program) =
        line.trim().split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((line.trim(), ""));
    matches!(word, "exec" | "x").then_some(program.trim())
}

/// The strategies of what is under way that git doesn't bring along.
fn strategies(git: &Path, roots: &[PathBuf]) -> BTreeSet<String> {
    let mut found: BTreeSet<String> = BTreeSet::new();
    if git.join(STRATEGY).symlink_metadata().is_ok() {
        found.insert(read(&git.join(STRATEGY)).map_or_else(|| "?".to_owned(), |text| text.trim().to_owned()));
    }
    if git.join(OPTIONS).symlink_metadata().is_ok() {
        match config::read(&git.join(OPTIONS), roots) {
            Ok(values) => found.extend(values.get("options.strategy").into_iter().flatten().cloned()),
            Err(_) => found.extend(["?".to_owned()]),
        }
    }
    found.retain(|name| !STRATEGIES.contains(&name.as_str()));
    found
}

/// The text of a file, whatever its bytes; none where it is no file, or too large.
fn read(path: &Path) -> Option<String> {
    path.symlink_metadata().ok().filter(|found| found.is_file() && found.len() <= MAX_FILE_BYTES)?;
    Some(String::from_utf8_lossy(&fs::read(path).ok()?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use roo_sandbox::changes::Limits;

    #[test]
    fn a_step_runs_a_program_however_it_is_written() {
        for (line, expected) in [
            ("exec make test", Some("make test")),
            ("  x\tmake", Some("make")),
            ("exec", Some("")),
            ("pick 1234 exec", None),
            ("# exec make", None),
            ("xy", None),
            ("", None),
        ] {
            assert_eq!(program(line), expected, "{line}");
        }
    }

    #[test]
    fn what_was_there_before_and_all_that_is_no_program_stays() {
        let place = tempfile::tempdir().unwrap();
        let store = Store::open(place.path().join("kept"), Limits::default()).unwrap();
        let git = place.path().join("git");
        fs::create_dir_all(git.join("rebase-merge")).unwrap();
        fs::create_dir_all(git.join("sequencer")).unwrap();
        fs::write(git.join(STEPS), "exec make test\npick 1 one\n").unwrap();
        fs::write(git.join(STRATEGY), "ort\n").unwrap();
        let before = Programs::read(&git, &[]);
        assert!(!before.is_empty());
        fs::write(git.join(STEPS), "pick 1 one\nexec make test\nx evil\npick 2 \u{e9}").unwrap();
        fs::write(git.join(STRATEGY), "../../evil\n").unwrap();
        fs::write(git.join(OPTIONS), "[options]\n\tno-commit = true\n").unwrap();
        let removed = before.settle(&git, &store, &[]).unwrap();
        assert_eq!(removed.first().unwrap().because, ["x evil"]);
        assert!(removed.iter().any(|removed| removed.path.ends_with(STRATEGY)));
        assert_eq!(fs::read_to_string(git.join(STEPS)).unwrap(), "pick 1 one\nexec make test\npick 2 \u{e9}");
        assert!(before.settle(&git, &store, &[]).unwrap().is_empty());
        fs::write(git.join(OPTIONS), "[options]\n\tstrategy = x/y\n").unwrap();
        assert_eq!(before.settle(&git, &store, &[]).unwrap().len(), 1);
    }
}
