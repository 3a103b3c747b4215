//! Build output and dependencies: written by every build, of no interest, and too many to compare.

use std::collections::HashMap;
use std::path::Path;

use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// Names of directories that hold build output or dependencies. Each counts only where git ignores it.
const NAMES: &[&str] = &[
    "target",
    "node_modules",
    "bower_components",
    ".venv",
    "venv",
    "env",
    "__pycache__",
    "site-packages",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".tox",
    ".nox",
    ".eggs",
    "dist",
    "build",
    "out",
    "bin",
    "obj",
    "_build",
    "deps",
    "coverage",
    ".nyc_output",
    ".cache",
    ".parcel-cache",
    ".turbo",
    ".next",
    ".nuxt",
    ".svelte-kit",
    ".angular",
    ".gradle",
    ".dart_tool",
    ".zig-cache",
    "zig-cache",
    "zig-out",
    ".build",
    "DerivedData",
    ".terraform",
];

/// Beginnings of such names.
const BEGINNINGS: &[&str] = &["bazel-", "cmake-build-"];

fn is_named_like_scratch(name: &str) -> bool {
    NAMES.contains(&name) || BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}

/// Returns whether a path below a root lies in what is build output if git ignores it, be it there or not.
pub fn may_be_build_output(path: &Path) -> bool {
    let mut above = path.ancestors().skip(1).filter_map(|above| above.file_name()?.to_str());
    above.any(is_named_like_scratch)
}

/// The ignore rules of a root as they were when it was recorded: what a command adds to them hides
/// nothing from the comparison.
#[derive(Default)]
pub(crate) struct Rules {
    /// By the directory that holds them, relative to the root.
    files: HashMap<Vec<u8>, Gitignore>,
}

impl Rules {
    /// Adds the text of an ignore file of a directory. Lines that are no patterns count for nothing.
    pub(crate) fn add(&mut self, directory: &[u8], text: &str) {
        // Patterns are relative to the directory, and so are the paths that are matched.
        let mut builder = GitignoreBuilder::new("");
        for line in text.lines() {
            let _ = builder.add_line(None, line);
        }
        if let Ok(rules) = builder.build()
            && !rules.is_empty()
        {
            self.files.insert(directory.to_vec(), rules);
        }
    }

    /// Returns whether a directory is scratch.
    pub(crate) fn is_scratch(&self, directory: &[u8]) -> bool {
        let Ok(text) = std::str::from_utf8(directory) else { return false };
        let name = text.rsplit('/').next().unwrap_or(text);
        is_named_like_scratch(name) && self.ignores(text)
    }

    /// Returns whether git ignores a directory: the innermost file that says something decides.
    fn ignores(&self, directory: &str) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let mut above = directory;
        loop {
            above = above.rsplit_once('/').map_or("", |(above, _)| above);
            if let Some(rules) = self.files.get(above.as_bytes()) {
                let below = directory.strip_prefix(above).unwrap_or(directory).trim_start_matches('/');
                let matched = rules.matched_path_or_any_parents(Path::new(below), true);
                if !matched.is_none() {
                    return matched.is_ignore();
                }
            }
            if above.is_empty() {
                return false;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_name_is_scratch_where_git_ignores_it() {
        let mut rules = Rules::default();
        rules.add(b"", "/target\nnode_modules/\n*.log\nbuild\n");
        rules.add(b"kept", "!build\n");
        for scratch in ["target", "node_modules", "a/b/node_modules", "build", "a/build"] {
            assert!(rules.is_scratch(scratch.as_bytes()), "{scratch}");
        }
        for other in ["a/target", "src", "kept/build", "dist", "x.log", "target2"] {
            assert!(!rules.is_scratch(other.as_bytes()), "{other}");
        }
        assert!(!Rules::default().is_scratch(b"target"));
    }
}
