//! Whether what a hook starts is there. A hook that can't start refuses nothing unless it fails closed, so its user is to hear
//! of it before.
//!
//! Only what is named as a file counts: the program, and the script of an interpreter. What a shell makes of variables isn't
//! known here.

use std::fmt;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::file::Program;
use roo_text::render::exact_line;

/// Programs whose first argument is the script that they run.
const INTERPRETERS: &[&str] = &[
    "bash", "bun", "dash", "deno", "fish", "node", "perl", "php", "python", "python3", "ruby", "sh", "tsx",
    "zsh",
];

/// Reasons why a hook can't start.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MissingScript {
    /// There is no such file.
    Absent(PathBuf),
    /// The program may not be executed.
    NotExecutable(PathBuf),
}

impl fmt::Display for MissingScript {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |path: &Path| exact_line(&path.to_string_lossy());
        match self {
            Self::Absent(path) => write!(out, "can't start: there is no file {}", shown(path)),
            Self::NotExecutable(path) => {
                write!(out, "can't start: {} is not executable (chmod +x)", shown(path))
            }
        }
    }
}

/// Returns why the program of a hook of this workspace can't start, where that is known. Asks the disk.
pub(crate) fn missing_script(
    program: &Program,
    root: Option<&Path>,
    home: Option<&Path>,
) -> Option<MissingScript> {
    let words = match program {
        Program::Line(line) => shlex::split(line)?,
        Program::Direct { program, arguments } => {
            std::iter::once(program).chain(arguments).cloned().collect::<Vec<_>>()
        }
    };
    let (first, rest) = words.split_first()?;
    if INTERPRETERS.contains(&first.rsplit('/').next().unwrap_or(first)) {
        let script = path(rest.first()?, root, home)?;
        return (!script.exists()).then_some(MissingScript::Absent(script));
    }
    let program = path(first, root, home)?;
    match program.metadata() {
        Ok(found) if found.is_file() && found.permissions().mode() & 0o111 == 0 => {
            Some(MissingScript::NotExecutable(program))
        }
        Ok(_) => None,
        Err(_) => Some(MissingScript::Absent(program)),
    }
}

/// The file that a word names; none for a name that is looked for in the search path, an option, or a word of which only a
/// shell knows what it comes to.
fn path(word: &str, root: Option<&Path>, home: Option<&Path>) -> Option<PathBuf> {
    let after = |names: &[&str]| names.iter().find_map(|name| word.strip_prefix(name)?.strip_prefix('/'));
    let project = ["$CLAUDE_PROJECT_DIR", "${CLAUDE_PROJECT_DIR}", "$ROO_PROJECT_DIR", "${ROO_PROJECT_DIR}"];
    let (base, below) = match (after(&["~", "$HOME", "${HOME}"]), after(&project)) {
        (Some(below), _) => (home?, below),
        (None, Some(below)) => (root?, below),
        (None, None) => (root.unwrap_or(Path::new("/")), word),
    };
    let is_plain =
        !below.contains(['$', '`', '*', '?', '[', '{', '~', ';', '|', '&', '<', '>', '(', ')', '\0']);
    let is_file = is_plain && word.contains('/') && !word.starts_with('-');
    let is_placed = root.is_some() || word.starts_with(['/', '~', '$']);
    (is_file && is_placed).then(|| base.join(below))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// What is missing of a line, in a workspace `project` and a home `home` that have the scripts `there.sh` and `plain.sh`.
    fn missing(line: &str) -> Option<String> {
        let place = tempfile::tempdir().unwrap();
        let (project, home) = (place.path().join("project"), place.path().join("home"));
        for directory in [&project, &home] {
            fs::create_dir_all(directory.join("hooks")).unwrap();
            for (name, mode) in [("there.sh", 0o755), ("plain.sh", 0o644)] {
                let path = directory.join("hooks").join(name);
                fs::write(&path, "").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        let found = missing_script(&Program::Line(line.to_owned()), Some(&project), Some(&home))?;
        Some(found.to_string().replace(&*place.path().to_string_lossy(), ""))
    }

    #[test]
    fn a_script_that_is_not_there_is_named() {
        for (line, path) in [
            ("hooks/gone.sh --flag", "/project/hooks/gone.sh"),
            ("\"$CLAUDE_PROJECT_DIR\"/hooks/gone.sh", "/project/hooks/gone.sh"),
            ("bash ~/hooks/gone.sh", "/home/hooks/gone.sh"),
            ("python3 \"${HOME}/hooks/gone.py\" x", "/home/hooks/gone.py"),
            ("/no/such/program", "/no/such/program"),
        ] {
            assert_eq!(missing(line), Some(format!("can't start: there is no file {path}")), "{line}");
        }
        let not_executable = "can't start: /home/hooks/plain.sh is not executable (chmod +x)";
        assert_eq!(missing("$HOME/hooks/plain.sh").as_deref(), Some(not_executable));
    }

    #[test]
    fn what_is_there_or_is_not_known_is_not() {
        for line in [
            "hooks/there.sh",
            "sh hooks/plain.sh",
            "bash -c 'hooks/gone.sh'",
            "jq -r .tool_input.command",
            "$TOOLS/gone.sh",
            "$(git rev-parse --show-toplevel)/gone.sh",
            "cd hooks && ./gone.sh",
            "'open",
            "",
        ] {
            assert_eq!(missing(line), None, "{line}");
        }
    }
}
