//! The file in which hooks of SessionStart leave variables for commands to come: lines such as
//! `export NAME=value`, as a shell would read them. Nothing of it is run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use roo_sandbox::exec::Environment;
use roo_text::render::one_line;

/// The largest file that is read, in bytes.
const LIMIT: usize = 64 << 10;
/// Names by which a program or a library would be made to run. Of git's most are such; those of
/// [`HARMLESS`] are not.
const REFUSED: &[&str] = &["BASH_ENV", "ENV", "PROMPT_COMMAND"];
const REFUSED_BEGINS: &[&str] = &["LD_", "DYLD_", "GIT_", "ROO_"];
const HARMLESS: &[&str] = &["GIT_AUTHOR_", "GIT_COMMITTER_"];

/// Environment file written by hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EnvironmentFile {
    /// Names and values; of equal names the last counts.
    pub variables: BTreeMap<String, String>,
    /// Warnings about lines that could not be used, for the user.
    pub warnings: Vec<String>,
}

impl EnvironmentFile {
    /// Reads the file that hooks were given; mostly they left none, and one that can't be read leaves nothing.
    /// Values may use the variables that every command sees. Reads the disk.
    pub fn load(path: &Path) -> Self {
        let mut bytes = Vec::new();
        // One byte more than counts, so that it shows.
        let read = File::open(path).and_then(|file| file.take(LIMIT as u64 + 1).read_to_end(&mut bytes));
        if read.is_err() {
            return Self::default();
        }
        let inherited = Environment::inherited();
        read_environment(&String::from_utf8_lossy(&bytes), |name| {
            inherited.get(name).map(|value| value.to_string_lossy().into_owned())
        })
    }

    /// Without directories of these workspace folders on the search path: what a rule allows by its name is
    /// looked for where the server would find it, and no file of the workspace may come before that. Reads
    /// the disk.
    #[must_use]
    pub(crate) fn finding_nothing_in(mut self, folders: &[PathBuf]) -> Self {
        let Some(path) = self.variables.remove("PATH") else { return self };
        let (inside, kept): (Vec<_>, Vec<_>) =
            std::env::split_paths(&path).partition(|directory| leads_into(directory, folders));
        for directory in inside {
            let shown = one_line(&directory.to_string_lossy(), 200);
            self.warnings.push(format!("hooks may not add the workspace's {shown} to PATH"));
        }
        // None of them has a colon: they were parted by it.
        if let Some(path) = std::env::join_paths(kept).ok().and_then(|path| path.into_string().ok()) {
            self.variables.insert("PATH".to_owned(), path);
        }
        self
    }
}

/// Returns whether a directory lies in one of these, or may once it is there. Relative ones count nowhere, see
/// [`Environment::with`].
fn leads_into(directory: &Path, folders: &[PathBuf]) -> bool {
    let is_there = |part: &&Path| part.canonicalize().is_ok();
    let missing = || directory.ancestors().take_while(|part| !is_there(part));
    let Some(there) = directory.ancestors().find(is_there).filter(|_| directory.is_absolute()) else {
        return false;
    };
    let rest = directory.strip_prefix(there).unwrap_or(Path::new(""));
    // What isn't there yet leads nowhere else: neither by a link nor upwards.
    if missing().any(Path::is_symlink) || rest.components().any(|part| part == Component::ParentDir) {
        return true;
    }
    let real = there.canonicalize().unwrap_or_default().join(rest);
    folders.iter().any(|folder| real.starts_with(folder))
}

/// Reads such a text. `known` tells the variables that values may use: `$NAME` and `${NAME}`.
fn read_environment(text: &str, known: impl Fn(&str) -> Option<String>) -> EnvironmentFile {
    let mut read = EnvironmentFile::default();
    if text.len() > LIMIT {
        read.warnings
            .push(format!("hooks exported more than {LIMIT} bytes of variables, so all of them are ignored"));
        return read;
    }
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        match assignment(line, &|name| read.variables.get(name).cloned().or_else(|| known(name))) {
            Some((name, _)) if is_refused(&name) => {
                read.warnings.push(format!("hooks may not set the variable {name}"));
            }
            Some((name, value)) => {
                read.variables.insert(name, value);
            }
            None => {
                let number = number + 1;
                read.warnings.push(format!(
                    "line {number} of the variables exported by hooks is not a plain `export NAME=value`"
                ));
            }
        }
    }
    read
}

fn is_refused(name: &str) -> bool {
    let begins = |with: &[&str]| with.iter().any(|start| name.starts_with(start));
    REFUSED.contains(&name) || (begins(REFUSED_BEGINS) && !begins(HARMLESS))
}

fn assignment(line: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<(String, String)> {
    let line = line.strip_prefix("export ").or_else(|| line.strip_prefix("declare -x ")).unwrap_or(line);
    let (name, value) = line.trim_start().trim_end_matches(';').split_once('=')?;
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some(())?;
    Some((name.to_owned(), word(value, known)?))
}

/// One word of a shell: quotes, backslashes and variables. None for anything more.
fn word(text: &str, known: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let mut value = String::new();
    let mut quote = None;
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        match (c, quote) {
            ('\'', None) | ('"', None) => quote = Some(c),
            (c, Some(open)) if c == open => quote = None,
            ('\\', None) => value.push(rest.next()?),
            ('\\', Some('"')) => match rest.next()? {
                c @ ('"' | '\\' | '$' | '`') => value.push(c),
                c => value.extend(['\\', c]),
            },
            ('$', None | Some('"')) => {
                let braced = rest.next_if_eq(&'{').is_some();
                let mut name = String::new();
                while let Some(c) = rest.next_if(|c| c.is_ascii_alphanumeric() || *c == '_') {
                    name.push(c);
                }
                if name.is_empty() || (braced && rest.next() != Some('}')) {
                    return None;
                }
                value.push_str(&known(&name).unwrap_or_default());
            }
            ('`', None | Some('"')) => return None,
            (' ' | '\t', None) => {
                let comment = rest.find(|c| !matches!(c, ' ' | '\t'));
                return comment.is_none_or(|c| c == '#').then_some(value);
            }
            (';' | '&' | '|' | '<' | '>' | '(' | ')' | '*' | '?' | '[', None) => return None,
            (c, _) => value.push(c),
        }
    }
    quote.is_none().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> EnvironmentFile {
        read_environment(text, |name| (name == "PATH").then(|| "/bin".to_owned()))
    }

    fn value(line: &str) -> Option<String> {
        read(line).variables.remove("A")
    }

    #[test]
    fn what_a_shell_would_export_is_read() {
        for (line, expected) in [
            ("export A=production", "production"),
            ("A=1 # a comment", "1"),
            ("declare -x A=\"two words\"", "two words"),
            ("export A='$PATH'", "$PATH"),
            ("export A=\"$PATH:./bin\"", "/bin:./bin"),
            ("export A=${PATH}x", "/binx"),
            (r#"export A="a\"b\\c\d""#, r#"a"b\c\d"#),
            (r"export A=a\ b", "a b"),
            ("export A=", ""),
            ("export A=x$NOBODY", "x"),
        ] {
            assert_eq!(value(line).as_deref(), Some(expected), "{line}");
        }
        assert_eq!(read("A=1\nexport B=$A$A\nA=2\n").variables["B"], "11");
    }

    #[test]
    fn nothing_is_run_and_nothing_steers_the_shell() {
        for line in
            ["A=$(id)", "A=`id`", "A=x; id", "A=x y", "id", "A='open", "1A=x", "A=\"${B:-x}\"", "A=<(id)"]
        {
            let read = read(line);
            assert!(read.variables.is_empty() && read.warnings.len() == 1, "{line}: {read:?}");
        }
        for name in ["LD_PRELOAD", "DYLD_X", "BASH_ENV", "GIT_CONFIG_COUNT", "GIT_SSH_COMMAND", "ROO_ACTIVE"]
        {
            assert!(read(&format!("export {name}=x")).variables.is_empty(), "{name}");
        }
        assert_eq!(read("export GIT_AUTHOR_NAME=Ada").variables["GIT_AUTHOR_NAME"], "Ada");
    }

    #[test]
    fn what_leads_into_a_folder_is_no_part_of_a_search_path() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path().canonicalize().unwrap();
        let at = |name: &str| root.join(name).to_str().unwrap().to_owned();
        std::fs::create_dir_all(at("work/bin")).unwrap();
        symlink(at("work"), at("link")).unwrap();
        symlink(at("work/later"), at("dangling")).unwrap();
        let left = |path: &str| {
            let read = read(&format!("export PATH='{path}'")).finding_nothing_in(&[at("work").into()]);
            (read.variables["PATH"].clone(), read.warnings.len())
        };
        for inside in
            ["work", "work/bin", "work/late/bin", "link/bin", "link/late", "dangling", "none/../work"]
        {
            assert_eq!(left(&format!("{}:/bin", at(inside))), ("/bin".to_owned(), 1), "{inside}");
        }
        for outside in ["worker", "none", ""] {
            let path = format!("{}:/bin", at(outside));
            assert_eq!(left(&path), (path.clone(), 0), "{outside}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_line_is_too_strange(text in r#"(export )?[A-B]=[a$A{}"'\\ `;é]{0,20}"#) {
            let _ = read(&text);
        }
    }
}
