//! The directories in which git looks for hooks, where the configuration puts them into the workspace: what lies there runs
//! whenever the user commits, outside of any sandbox.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::effective::EffectiveConfiguration;
use roo_durable::{Fingerprint, read_regular};

/// The largest `.gitignore` that can be that of a generated directory, in bytes.
const SHORT: u64 = 16;

/// The patterns that protect these directories, and what they were found by.
#[derive(Debug)]
pub(in super::super) struct HookDirectories {
    roots: Vec<PathBuf>,
    /// A pattern for just one path each, below the workspace folder that it lies in.
    pub(in super::super) patterns: Vec<String>,
    /// Files of git's configuration, and the state that they were in.
    read: Vec<(PathBuf, Option<Fingerprint>)>,
}

impl HookDirectories {
    /// Finds those of workspace folders, by `core.hooksPath` of any configuration. Runs git, and takes no program of the
    /// folders.
    pub(in super::super) fn find(roots: Vec<PathBuf>) -> Self {
        let mut patterns = Vec::new();
        // Looked at before they are read, so that one that is written meanwhile is read again. What they include is known
        // only afterwards.
        let mut files: Vec<(PathBuf, Option<Fingerprint>)> = users_files()
            .into_iter()
            .chain(roots.iter().map(|root| configuration_above(root)))
            .map(stamped)
            .collect();
        for root in &roots {
            let found = FoundHooks::find(root, &roots);
            patterns.extend(found.directories.iter().filter_map(|hooks| pattern(hooks, root)));
            files.extend(found.files.into_iter().map(stamped));
        }
        patterns.dedup();
        Self { roots, patterns, read: files }
    }

    /// Returns whether all configuration is as it was.
    pub(in super::super) fn is_current(&self) -> bool {
        self.read.iter().all(|(path, stamp)| Fingerprint::from_file(path) == *stamp)
    }

    /// The same folders as their configuration is now. Runs git.
    pub(in super::super) fn find_again(&self) -> Self {
        Self::find(self.roots.clone())
    }
}

/// The directory of hooks of a workspace folder, and where that is said.
#[derive(Default)]
struct FoundHooks {
    /// As the configuration names it and as it really is.
    directories: Vec<PathBuf>,
    /// Files of the configuration.
    files: BTreeSet<PathBuf>,
}

impl FoundHooks {
    fn find(root: &Path, roots: &[PathBuf]) -> Self {
        let Some(top) = top_of(root) else { return Self::default() };
        // Without git nobody commits either.
        let Ok(configuration) = EffectiveConfiguration::read(root, roots) else { return Self::default() };
        let files = configuration.files.iter().map(|file| top.join(file)).collect();
        let hooks = configuration.hooks_path().map(|hooks| without_dots(&top.join(hooks)));
        let real = hooks.as_ref().and_then(|hooks| hooks.canonicalize().ok());
        Self { directories: [hooks, real].into_iter().flatten().collect(), files }
    }
}

/// The real directories of hooks in workspace folders that a tool such as husky generates: a `.gitignore` there has git ignore
/// all of it. Runs git.
pub(in super::super) fn generated_hooks(roots: &[PathBuf]) -> Vec<PathBuf> {
    let is_generated = |hooks: &PathBuf| {
        let ignored = read_regular(&hooks.join(".gitignore"), SHORT).is_ok_and(|text| text.trim() == "*");
        let is_inside = roots.iter().any(|root| hooks.starts_with(root) && hooks != root);
        ignored && is_inside && hooks.canonicalize().is_ok_and(|real| real == *hooks)
    };
    let found = roots.iter().flat_map(|root| FoundHooks::find(root, roots).directories);
    let found: BTreeSet<PathBuf> = found.filter(is_generated).collect();
    found.into_iter().collect()
}

/// The work tree that a directory lies in.
fn top_of(directory: &Path) -> Option<&Path> {
    directory.ancestors().find(|above| above.join(".git").symlink_metadata().is_ok())
}

/// The configuration of the repository around a directory, or of the one that may come to be there.
fn configuration_above(directory: &Path) -> PathBuf {
    top_of(directory).unwrap_or(directory).join(".git/config")
}

/// The files of git's configuration that the user may have, be they missing.
fn users_files() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let configuration = std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from);
    let configuration = configuration.or_else(|| Some(home.as_ref()?.join(".config")));
    let own = home.map(|home| home.join(".gitconfig"));
    let own = own.into_iter().chain(configuration.map(|configuration| configuration.join("git/config")));
    own.chain([PathBuf::from("/etc/gitconfig")]).collect()
}

fn stamped(path: PathBuf) -> (PathBuf, Option<Fingerprint>) {
    let stamp = Fingerprint::from_file(&path);
    (path, stamp)
}

/// A path without `.` and `..`, by its text alone.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}

/// A pattern for just one path below a root.
fn pattern(path: &Path, root: &Path) -> Option<String> {
    let below = path.strip_prefix(root).ok()?.to_str().filter(|below| !below.is_empty())?;
    let escaped = |c: char| if "\\*?[] ".contains(c) { format!("\\{c}") } else { c.to_string() };
    Some(format!("/{}", below.chars().map(escaped).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn hooks_within_the_workspace_are_protected_wherever_the_configuration_puts_them() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let git = |words: &[&str]| {
            assert!(Command::new("git").args(words).current_dir(&top).status().unwrap().success());
        };
        let patterns = |root: &Path| HookDirectories::find(vec![root.to_owned()]).patterns;
        assert_eq!(patterns(&top), [""; 0]);
        git(&["init", "-q"]);
        std::fs::create_dir_all(top.join("sub/tools/hooks")).unwrap();
        std::os::unix::fs::symlink("sub/tools/hooks", top.join("linked")).unwrap();
        for (path, expected) in [
            ("./sub/x/../git [hooks]", &[r"/sub/git\ \[hooks\]"][..]),
            ("linked", &["/linked", "/sub/tools/hooks"]),
            ("../elsewhere", &[]),
            (".", &[]),
        ] {
            git(&["config", "core.hooksPath", path]);
            assert_eq!(patterns(&top), expected, "{path}");
        }
        git(&["config", "core.hooksPath", "sub/tools/hooks"]);
        assert_eq!(patterns(&top.join("sub")), ["/tools/hooks"]);
    }

    #[test]
    fn a_change_of_the_configuration_is_seen_wherever_it_is() {
        let place = tempfile::tempdir().unwrap();
        let top = place.path().canonicalize().unwrap();
        let git = |words: &[&str]| {
            assert!(Command::new("git").args(words).current_dir(&top).status().unwrap().success());
        };
        let none = HookDirectories::find(vec![top.clone()]);
        assert!(none.is_current());
        git(&["init", "-q"]);
        assert!(!none.is_current());
        git(&["config", "include.path", "more"]);
        let included = none.find_again();
        std::fs::write(top.join("x"), "").unwrap();
        assert!(included.is_current() && included.patterns.is_empty());
        std::fs::write(top.join(".git/more"), "[core]\n\tbare = false\n").unwrap();
        git(&["config", "core.hooksPath", ".githooks"]);
        assert!(!included.is_current());
        let named = included.find_again();
        assert_eq!(named.patterns, ["/.githooks"]);
        std::fs::write(top.join(".git/more"), "[core]\n\thooksPath = other\n").unwrap();
        assert!(!named.is_current());
    }
}
