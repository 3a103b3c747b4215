//! Commands that print names of files: what they may print, so that what is given to another command can be judged
//! before anything runs.
//!
//! Always more than is printed: whatever lies below the directories that are gone through, but for what a plain pattern
//! of names leaves out.

use super::allow::text_of;
use super::place::{Place, may_match};
use super::programs;
use super::value::{Argument, Kind};

/// Names that a command may print.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// Directory from which the names are meant.
    directory: String,
    /// The directories that it goes through, as it names them.
    below: Vec<String>,
    /// A pattern that every name fits.
    pattern: Option<String>,
    /// True if directories are left out.
    only_files: bool,
    /// True if names are separated by NUL.
    pub(super) by_nul: bool,
}

impl Listing {
    /// Returns the names that a command lists from a directory; none where it prints anything else.
    pub(super) fn from_arguments(arguments: &[Argument], directory: &str) -> Option<Self> {
        let words: Vec<&str> = arguments
            .iter()
            .map(|argument| match argument.kind {
                Kind::Exact => Some(argument.text.as_str()),
                _ => None,
            })
            .collect::<Option<_>>()?;
        let (program, rest) = words.split_first()?;
        let name = programs::name(program);
        let (below, pattern, only_files, by_nul) = match name.as_str() {
            "find" | "gfind" => find(rest)?,
            "git" => match rest {
                ["ls-files", rest @ ..] => git_ls_files(rest)?,
                _ => return None,
            },
            "rg" => rg(rest)?,
            "grep" | "egrep" | "fgrep" => grep(rest)?,
            _ => return None,
        };
        let below = if below.is_empty() { vec![String::new()] } else { below };
        // A backslash takes the meaning of what follows it.
        let pattern = pattern.filter(|pattern| !pattern.contains('\\'));
        Some(Self { directory: directory.to_owned(), below, pattern, only_files, by_nul })
    }

    /// The names that it may print.
    ///
    /// # Errors
    /// Why they aren't known, or can't all be told apart where they are read.
    pub(super) fn names(&self, most: usize, place: &dyn Place) -> Result<Vec<String>, String> {
        let mut names = Vec::new();
        for below in &self.below {
            let top = text_of(&self.directory, below);
            if !place.is_directory(&top) {
                names.push(below.clone());
                continue;
            }
            if !self.only_files {
                names.push(if below.is_empty() { ".".to_owned() } else { below.clone() });
            }
            for entry in place.below(&top)? {
                let name = entry.path.rsplit('/').next().unwrap_or_default();
                let fits = self.pattern.as_ref().is_none_or(|pattern| may_match(name, pattern));
                if fits && !(self.only_files && entry.is_directory) {
                    names.push(text_of(below, &entry.path));
                }
            }
        }
        if names.len() > most {
            return Err(format!("it goes through more than {most} files"));
        }
        match names.iter().find(|name| name.starts_with('-') || name.contains('\n')) {
            Some(name) => Err(format!("the name {name:?} may be taken for something else")),
            None => Ok(names),
        }
    }
}

type Parts = (Vec<String>, Option<String>, bool, bool);

/// `find`, as far as its expression only narrows.
fn find(words: &[&str]) -> Option<Parts> {
    let is_expression = |word: &&str| word.starts_with('-') || matches!(*word, "(" | "!" | ")" | ",");
    let paths = words.iter().take_while(|word| !is_expression(word)).map(|word| (*word).to_owned());
    let paths: Vec<String> = paths.collect();
    let mut rest = words[paths.len()..].iter().copied();
    let (mut pattern, mut only_files, mut by_nul) = (None, false, false);
    // Where one of several may hold, or none, none of them narrows.
    let narrows = !words.iter().any(|word| matches!(*word, "-o" | "-or" | "!" | "-not" | "," | "(" | "-a"));
    while let Some(word) = rest.next() {
        match word {
            "(" | ")" | "!" | "-o" | "-or" | "-a" | "-not" | "-print" | "-empty" | "-prune" | "-xdev"
            | "-mount" | "-depth" => {}
            "-print0" => by_nul = true,
            "-name" => pattern = Some(rest.next()?.to_owned()).filter(|_| narrows).or(pattern),
            "-type" => only_files |= rest.next()? == "f" && narrows,
            "-iname" | "-path" | "-ipath" | "-wholename" | "-regex" | "-iregex" | "-maxdepth"
            | "-mindepth" | "-size" | "-mtime" | "-mmin" | "-newer" | "-perm" | "-user" | "-group" => {
                rest.next()?;
            }
            _ => return None,
        }
    }
    Some((paths, pattern, only_files, by_nul))
}

fn git_ls_files(words: &[&str]) -> Option<Parts> {
    let (mut by_nul, mut pattern) = (false, None);
    let mut count = 0;
    for word in words {
        match *word {
            "-z" => by_nul = true,
            "--" | "-c" | "--cached" | "-m" | "--modified" | "-o" | "--others" | "--exclude-standard" => {}
            word if word.starts_with(['-', ':']) => return None,
            word => {
                count += 1;
                // A path, or a pattern over directories: only what every name ends with says something of names.
                let end = word.strip_prefix('*').filter(|end| !end.contains(['/', '*', '?', '[']));
                pattern = end.map(|_| word.to_owned());
            }
        }
    }
    // Of several one must fit.
    Some((vec![], pattern.filter(|_| count == 1), true, by_nul))
}

fn rg(words: &[&str]) -> Option<Parts> {
    let (mut lists, mut by_nul, mut operands) = (false, false, Vec::new());
    for word in words {
        match *word {
            "-l" | "--files-with-matches" | "--files" => lists = true,
            "-0" | "--null" => by_nul = true,
            "-i" | "-w" | "-F" | "-s" | "-S" | "--hidden" => {}
            word if word.starts_with('-') => return None,
            word => operands.push(word.to_owned()),
        }
    }
    let skipped = usize::from(!words.contains(&"--files"));
    lists.then(|| (operands.into_iter().skip(skipped).collect(), None, true, by_nul))
}

fn grep(words: &[&str]) -> Option<Parts> {
    let (mut lists, mut by_nul, mut pattern, mut operands) = (false, false, None, Vec::new());
    for word in words {
        match *word {
            "--files-with-matches" => lists = true,
            "-Z" | "--null" => by_nul = true,
            "--recursive" => {}
            word if word.starts_with("--include=") => {
                pattern = word.split_once('=').map(|(_, value)| value.to_owned())
            }
            word if word.starts_with("--exclude") && word.contains('=') => {}
            word if word.starts_with("--") => return None,
            word if word.starts_with('-') => {
                if !word[1..].chars().all(|letter| "lrinwEFZ".contains(letter)) {
                    return None;
                }
                lists |= word.contains('l');
                by_nul |= word.contains('Z');
            }
            word => operands.push(word.to_owned()),
        }
    }
    // With several, or what is left out besides, it depends on their order.
    let is_clear =
        words.iter().filter(|word| word.starts_with("--include=") || word.starts_with("--exclude=")).count()
            == 1;
    lists.then(|| (operands.into_iter().skip(1).collect(), pattern.filter(|_| is_clear), true, by_nul))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::place::Directory;
    use super::*;

    fn names(line: &str) -> Result<Vec<String>, String> {
        let root = tempfile::tempdir().unwrap();
        for file in ["a.rs", "src/b.rs", "src/c.md", "src/deep/.env", "web/d e.rs"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let place = Directory::new(root.path().to_owned(), [root.path().to_owned()], "/bin".into());
        let word = |word: &str| Argument { text: word.to_owned(), kind: Kind::Exact };
        let arguments: Vec<Argument> = line.split(' ').map(word).collect();
        let listing = Listing::from_arguments(&arguments, "").ok_or("no listing")?;
        let mut names = listing.names(20, &place)?;
        names.sort();
        Ok(names)
    }

    #[test]
    fn what_is_listed_is_known_before() {
        for (line, expected) in [
            ("find src -name *.rs", &["src", "src/b.rs"][..]),
            ("find src -type f -name *.md -print0", &["src/c.md"]),
            (
                "find src -name *.rs -o -name *.md",
                &["src", "src/b.rs", "src/c.md", "src/deep", "src/deep/.env"],
            ),
            ("find src -type f ! -name *.rs", &["src", "src/b.rs", "src/c.md", "src/deep", "src/deep/.env"]),
            ("git ls-files *.md", &["src/c.md"]),
            ("git ls-files src", &["a.rs", "src/b.rs", "src/c.md", "src/deep/.env", "web/d e.rs"]),
            ("grep -rl x src --include=*.rs", &["src/b.rs"]),
            ("rg -l x web a.rs", &["a.rs", "web/d e.rs"]),
            ("rg --files src/deep", &["src/deep/.env"]),
        ] {
            assert_eq!(names(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn what_prints_more_than_names_lists_nothing() {
        for line in [
            "find . -printf %p",
            "find . -ls",
            "find -L . -name x",
            "find . -exec ls",
            "git ls-files -s",
            "git ls-files --format=x",
            "git log",
            "rg x",
            "rg -c x",
            "grep -rn x",
            "grep -rlo x --label=y",
            "ls",
        ] {
            assert!(names(line).is_err(), "{line}");
        }
    }
}
