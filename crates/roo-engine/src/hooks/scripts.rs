//! Files of a workspace that a hook's command names. Their content counts for the trust in the hook: who
//! changes the script changes what runs.
//!
//! By the words of the command alone, so what a script reads in its turn is not among them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use super::file::Program;

/// Maximum number of directories a command may go into.
const DIRECTORIES: usize = 8;

/// The files below `root` that a hook's command may name, as paths relative to it, whether or not they are
/// there.
pub fn scripts(program: &Program, root: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    match program {
        Program::Line(line) => {
            let line = without_outputs(line);
            let line = line.as_ref();
            // As a shell splits it, and more finely: a word too many costs nothing.
            let words = shlex::split(line).unwrap_or_default();
            named(words.iter().map(String::as_str), root, &mut found);
            named(apart(line), root, &mut found);
        }
        Program::Direct { program, arguments } => {
            let words = std::iter::once(program).chain(arguments).map(String::as_str);
            named(words.flat_map(|word| std::iter::once(word).chain(word.split('='))), root, &mut found);
        }
    }
    found
}

/// The files outside of a workspace that a hook's command names: absolute paths, and those below home.
pub(super) fn outside_workspace(program: &Program, home: Option<&Path>) -> BTreeSet<PathBuf> {
    let place = |word: &str| {
        let below_home = ["~/", "$HOME/", "${HOME}/"].iter().find_map(|start| word.strip_prefix(start));
        match (below_home, home) {
            (Some(rest), Some(home)) => Some(home.join(rest)),
            _ => word.starts_with('/').then(|| PathBuf::from(word)),
        }
    };
    let words = match program {
        Program::Line(line) => {
            let split = shlex::split(line).unwrap_or_default();
            split.into_iter().chain(apart(line).map(str::to_owned)).collect()
        }
        Program::Direct { program, arguments } => [std::slice::from_ref(program), arguments].concat(),
    };
    words.iter().filter_map(|word| place(word)).collect()
}

/// The words of a line, more finely than a shell splits them.
fn apart(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| {
        c.is_whitespace()
            || matches!(c, '"' | '\'' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`' | '=' | ',')
    })
}

/// A line without the files that it only writes, such as a log of its own: what is in them never runs here, and
/// would take the trust from a hook by its first run.
fn without_outputs(line: &str) -> Cow<'_, str> {
    if !line.contains('>') {
        return line.into();
    }
    let script = roo_shell::read(line);
    if script.is_incomplete() {
        return line.into();
    }
    let mut rest = line.to_owned();
    for redirect in script.commands.iter().flat_map(|command| &command.redirects) {
        let writes = matches!(redirect.operator.as_str(), ">" | ">>" | ">|" | "&>" | "&>>");
        if let Some(target) = redirect.target.as_ref().filter(|_| writes)
            && let Some(text) = line.get(target.range.clone())
            // Commands may stand in it.
            && !text.contains(['(', '`'])
        {
            rest.replace_range(target.range.clone(), &" ".repeat(text.len()));
        }
    }
    rest.into()
}

fn named<'a>(words: impl Iterator<Item = &'a str>, root: &Path, found: &mut BTreeSet<PathBuf>) {
    // The directories that the command goes into, in which a later word may be meant.
    let mut directories: Vec<PathBuf> = vec![root.to_owned()];
    let mut after_cd = false;
    for word in words.filter(|word| !word.is_empty()) {
        // What stands behind a substitution, as in `$(git rev-parse --show-toplevel)/x.sh`, looks absolute.
        for word in [word, word.trim_start_matches('/')] {
            found.extend(directories.iter().filter_map(|directory| below(word, directory, root)));
        }
        if std::mem::replace(&mut after_cd, word == "cd") {
            let inner = directories.iter().filter_map(|directory| below(word, directory, root));
            let inner: Vec<PathBuf> = inner.map(|path| root.join(path)).collect();
            directories.extend(inner);
            directories.truncate(DIRECTORIES);
        }
    }
}

/// A word as a path below the root, when it is used in a directory.
fn below(word: &str, directory: &Path, root: &Path) -> Option<PathBuf> {
    let mut word = word.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "ROO_PROJECT_DIR", "PWD"] {
        let root = root.to_str()?;
        word = word.replace(&format!("${{{name}}}"), root).replace(&format!("${name}"), root);
    }
    if word.is_empty() || word.contains('\0') {
        return None;
    }
    let mut path = PathBuf::new();
    for part in directory.join(&word).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    let path = path.strip_prefix(root).ok()?;
    (!path.as_os_str().is_empty()).then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(line: &str) -> Vec<String> {
        let found = scripts(&Program::Line(line.to_owned()), Path::new("/w x"));
        found.into_iter().map(|path| path.display().to_string()).collect()
    }

    #[test]
    fn scripts_are_found_however_they_are_named() {
        for line in [
            ".roo/hooks/a.sh",
            "./.roo/hooks/a.sh --flag",
            "python3 \"$CLAUDE_PROJECT_DIR\"/.roo/hooks/a.sh",
            "\"${CLAUDE_PROJECT_DIR}/.roo/hooks/a.sh\" x",
            "cd /tmp; bash '/w x/.roo/hooks/a.sh'",
            "cat | .roo/hooks/a.sh&",
            "sh < .roo/hooks/a.sh",
            "FILE=.roo/hooks/a.sh",
            "echo 'open && .roo/hooks/a.sh",
            "x/../.roo//hooks/./a.sh",
            "$(git rev-parse --show-toplevel)/.roo/hooks/a.sh",
            "cd .roo/hooks && ./a.sh",
            "cd \"$CLAUDE_PROJECT_DIR\" && cd .roo && bash hooks/a.sh",
            "cd .roo; cd hooks; ./a.sh",
        ] {
            assert!(named(line).contains(&".roo/hooks/a.sh".to_owned()), "{line}: {:?}", named(line));
        }
        let direct = Program::Direct {
            program: "node".to_owned(),
            arguments: vec!["${ROO_PROJECT_DIR}/a.js".to_owned(), "--config=b.json".to_owned()],
        };
        let found = scripts(&direct, Path::new("/w"));
        assert!(found.contains(Path::new("a.js")) && found.contains(Path::new("b.json")));
    }

    #[test]
    fn a_file_that_is_only_written_is_no_script() {
        for line in [
            "cat >>log.txt",
            "jq .tool_input.command 2>log.txt >>\"$CLAUDE_PROJECT_DIR\"/log.txt",
            "{ cat; date; } >'log.txt' 2>&1 &",
            "if grep -q x; then echo x &>>./log.txt; fi",
        ] {
            assert!(!named(line).iter().any(|path| path.contains("log.txt")), "{line}: {:?}", named(line));
        }
        for line in [
            "cat >log.txt; sh log.txt",
            "sh <log.txt >log.txt",
            "cat >$(./log.txt)",
            "cat >>log.txt 'open",
            "tee log.txt >x",
        ] {
            assert!(named(line).contains(&"log.txt".to_owned()), "{line}: {:?}", named(line));
        }
    }

    #[test]
    fn what_lies_elsewhere_is_not_the_workspaces() {
        assert_eq!(named("/usr/bin/env"), ["usr/bin/env"], "nothing is there, so it says nothing");
        assert_eq!(named("../a.sh ../../b"), Vec::<String>::new());
    }

    #[test]
    fn files_elsewhere_are_named_by_absolute_paths_and_below_home() {
        let home = Path::new("/home/u");
        for line in [
            "bash ~/.claude/hooks/a.sh",
            "$HOME/.claude/hooks/a.sh; true",
            "sh \"${HOME}/.claude/hooks/a.sh\"",
            "cat | /home/u/.claude/hooks/a.sh&",
            "python3 '/home/u/.claude/hooks/a.sh' ~x",
        ] {
            let found = outside_workspace(&Program::Line(line.to_owned()), Some(home));
            assert!(found.contains(Path::new("/home/u/.claude/hooks/a.sh")), "{line}: {found:?}");
        }
        let direct = Program::Direct { program: "node".to_owned(), arguments: vec!["/opt/a.js".to_owned()] };
        assert_eq!(outside_workspace(&direct, None), BTreeSet::from(["/opt/a.js".into()]));
        assert_eq!(
            outside_workspace(&Program::Line("sh a.sh ./b ~other/c".to_owned()), Some(home)),
            BTreeSet::new()
        );
    }
}
