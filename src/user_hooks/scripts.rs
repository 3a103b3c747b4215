//! Which files of a workspace a hook's command names. Their content counts for the trust in the hook: who
//! changes the script changes what runs.
//!
//! By the words of the command alone, so what a script reads in its turn is not among them.

use std::path::{Component, Path, PathBuf};

use super::file::Program;

/// The files below `root` that a hook's command may name, as paths relative to it, whether or not they are
/// there.
pub fn scripts(program: &Program, root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut take = |word: &str| {
        if let Some(path) = below(word, root)
            && !found.contains(&path)
        {
            found.push(path);
        }
    };
    match program {
        Program::Line(line) => {
            // As a shell splits it, and more finely: a word too many costs nothing.
            shlex::split(line).into_iter().flatten().for_each(|word| take(&word));
            let apart = |c: char| {
                c.is_whitespace()
                    || matches!(c, '"' | '\'' | ';' | '&' | '|' | '<' | '>' | '(' | ')' | '`' | '=' | ',')
            };
            line.split(apart).for_each(&mut take);
        }
        Program::Direct { program, arguments } => {
            std::iter::once(program).chain(arguments).for_each(|word| {
                take(word);
                word.split('=').for_each(&mut take);
            });
        }
    }
    found
}

/// A word as a path below the root.
fn below(word: &str, root: &Path) -> Option<PathBuf> {
    let mut word = word.to_owned();
    for name in ["CLAUDE_PROJECT_DIR", "ROO_PROJECT_DIR", "PWD"] {
        let directory = root.to_str()?;
        word = word.replace(&format!("${{{name}}}"), directory).replace(&format!("${name}"), directory);
    }
    if word.is_empty() || word.contains('\0') {
        return None;
    }
    let mut path = PathBuf::new();
    for part in root.join(&word).components() {
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
        ] {
            assert!(named(line).contains(&".roo/hooks/a.sh".to_owned()), "{line}: {:?}", named(line));
        }
        let direct = Program::Direct {
            program: "node".to_owned(),
            arguments: vec!["${ROO_PROJECT_DIR}/a.js".to_owned(), "--config=b.json".to_owned()],
        };
        let found = scripts(&direct, Path::new("/w"));
        assert!(found.contains(&PathBuf::from("a.js")) && found.contains(&PathBuf::from("b.json")));
    }

    #[test]
    fn what_lies_elsewhere_is_not_the_workspaces() {
        assert_eq!(named("/usr/bin/env /other/a.sh ../a.sh"), Vec::<String>::new());
    }
}
